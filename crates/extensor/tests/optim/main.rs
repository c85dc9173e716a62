//! Optimisers, schedules, averages and minimisers: one program, so that the library is linked once.

mod average;
mod errors;
mod memory;
mod minimize;
mod schedule;
mod trajectories;

use extensor::{Tensor, Tree};
use serde_json::Value;

/// What PyTorch found; `tools/optim_golden.py` made it.
fn golden() -> Value {
    serde_json::from_str(include_str!("golden.json")).unwrap()
}

/// A number of the golden file.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A weight and a bias, and a buffer between them.
#[derive(Clone, Tree)]
struct Model {
    weight: Tensor,
    #[tree(buffer)]
    seen: Tensor,
    bias: Tensor,
}
