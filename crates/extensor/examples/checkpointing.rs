//! What checkpointing saves and what it costs: the gradient of 64 layers, plain and with their
//! activations saved at the ends of so many segments only.
//!
//! ```text
//! cargo run --release -p extensor --example checkpointing
//! ```
//!
//! Each row is measured in a process of its own, whose largest memory the system notes (Linux; 0
//! elsewhere), beyond what it had with parameters and data.

use extensor::autodiff::checkpoint_sequential;
use extensor::prelude::*;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const LAYERS: usize = 64;
const WIDTH: usize = 128;
const BATCH: usize = 4096;
const STEPS: usize = 5;

/// How often a layer was computed.
static CALLS: AtomicUsize = AtomicUsize::new(0);

fn layer(weight: &Tensor, x: &Tensor) -> Result<Tensor> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    x.matmul(weight)?.tanh()
}

/// The gradient in this process, in so many segments; 0: without checkpoints.
fn measure(segments: usize) -> Result<()> {
    let scale = Tensor::scalar_of((1.0 / WIDTH as f64).sqrt(), DType::F32)?;
    let layers = (0..LAYERS)
        .map(|i| Key::new(i as u64).normal([WIDTH, WIDTH], DType::F32)?.multiply(&scale));
    let layers: Vec<Tensor> = layers.collect::<Result<_>>()?;
    let x = Key::new(99).normal([BATCH, WIDTH], DType::F32)?;
    let loss = |layers: &Vec<Tensor>| {
        let y = match segments {
            0 => layers.iter().try_fold(x.clone(), |x, w| layer(w, &x))?,
            _ => checkpoint_sequential(layer, layers, &x, Some(segments))?,
        };
        y.square()?.mean(..)
    };
    let (before, mut best) = (resident("VmRSS"), f64::INFINITY);
    let mut first = 0.0;
    for _ in 0..STEPS {
        let start = Instant::now();
        let (_, grads) = value_and_grad(loss, &layers)?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
        first = grads[0].norm(..)?.item::<f32>()?.into();
    }
    let used = resident("VmHWM").saturating_sub(before) >> 10;
    let calls = CALLS.load(Ordering::Relaxed) / STEPS;
    println!("{segments:>8} {used:>8} {best:>10.0} {calls:>14}   {first:.9}");
    Ok(())
}

/// A figure of the process in KiB; 0 where the system does not say.
fn resident(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn main() -> Result<()> {
    if let Some(segments) = std::env::args().nth(1).and_then(|text| text.parse().ok()) {
        return measure(segments);
    }
    println!("{LAYERS} layers of width {WIDTH}, a batch of {BATCH}; 0: without checkpoints");
    println!(
        "{:>8} {:>8} {:>10} {:>14}   norm of the first gradient",
        "segments", "MiB", "ms", "layers run"
    );
    for segments in [0, 64, 32, 16, 8, 4, 2, 1] {
        let program = std::env::current_exe().expect("the program's own path");
        let run = Command::new(program).arg(segments.to_string()).status();
        assert!(run.is_ok_and(|status| status.success()), "a measurement failed");
    }
    Ok(())
}
