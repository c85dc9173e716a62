//! Tensors and automatic differentiation in which no gradient is taken on trust.

#![forbid(unsafe_code)]

// `derive(Tree)` writes `::extensor::…`, also inside this crate.
extern crate self as extensor;

pub mod autodiff;
pub mod check;
pub mod data;
pub mod debug;
pub mod gradients;
pub mod interrupt;
pub mod io;
pub mod nn;
mod ops;
pub mod optim;
pub mod precision;
mod tensor;
pub mod train;

pub use autodiff::Tree;

pub use ops::*;
pub use ops::{catalogue, operation, params, record, samples};
pub use tensor::{Axes, DType, Data, Difference, Element, Error, Integers, Key, Kind, Result};
pub use tensor::{Over, Shape, Tensor, Tolerance, over, tensor};

/// What the environment's `EXTENSOR_…` variables say.
pub mod settings {
    pub use extensor_kernels::settings::check;
}

/// How many threads operations use.
pub mod threads {
    pub use extensor_kernels::par::{set_threads as set, threads as get, with_threads as with};
}

/// The pool that recycles large buffers.
pub mod memory {
    pub use extensor_kernels::buffer::{affordable, pool_bytes, set_pool_limit};
}
