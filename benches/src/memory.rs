//! The memory of one step through 64 layers of width 1024 over a batch of 512, plain and with
//! checkpoints. Each runs in a process of its own, whose largest memory the system notes.

use crate::work::{made, random};
use extensor::autodiff::{checkpoint_sequential, value_and_grad};
use extensor::ops::{linear, mean, multiply, relu};
use extensor::{Result, Tensor};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

const LAYERS: u64 = 64;
const WIDTH: usize = 1024;
const BATCH: usize = 512;

/// Runs this program again for each of both, and prints what it found.
pub fn compare(threads: usize) {
    println!("\nmemory of {LAYERS} layers of width {WIDTH}, batch {BATCH}, {threads} thread(s)");
    println!("{:14} {:>12} {:>14} {:>14}", "", "MiB", "step, ms", "forward, ms");
    for kind in ["plain", "checkpointed"] {
        let program = std::env::current_exe().expect("the program's own path");
        let threads = threads.to_string();
        let run = Command::new(program).args(["--memory-of", kind, "--threads", &threads]).status();
        if !run.is_ok_and(|status| status.success()) {
            eprintln!("{kind}: failed");
        }
    }
}

fn layer(w: &Tensor, x: &Tensor) -> Result<Tensor> {
    relu(&linear(x, w, None)?)
}

/// One of both, in this process.
pub fn one(kind: &str) {
    let scale = Tensor::scalar((2.0 / WIDTH as f32).sqrt());
    let model: Vec<Tensor> =
        (0..LAYERS).map(|i| made(multiply(&random(40 + i, &[WIDTH, WIDTH]), &scale))).collect();
    let x = random(39, &[BATCH, WIDTH]);
    let forward = || model.iter().try_fold(x.clone(), |x, w| layer(w, &x));
    let checkpointed = kind == "checkpointed";
    let step = || {
        let loss = |model: &Vec<Tensor>| {
            let y = if checkpointed {
                checkpoint_sequential(layer, model, &x, None)?
            } else {
                model.iter().try_fold(x.clone(), |x, w| layer(w, &x))?
            };
            mean(&y, ..)
        };
        value_and_grad(loss, &model)
    };
    let before = resident("VmRSS");
    let mut times = [f64::INFINITY; 2];
    for _ in 0..10 {
        let start = Instant::now();
        drop(black_box(made(step())));
        times[0] = times[0].min(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        drop(black_box(made(forward())));
        times[1] = times[1].min(start.elapsed().as_secs_f64() * 1e3);
    }
    let used = resident("VmHWM").saturating_sub(before) >> 10;
    println!("{kind:14} {used:>12} {:>14.1} {:>14.1}", times[0], times[1]);
}

/// A figure of the process in KiB; 0 where the system does not say.
fn resident(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
