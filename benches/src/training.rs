//! Gradients of whole functions.

use crate::work::{Workload, made, random};
use extensor::autodiff::{grad, value_and_grad};
use extensor::{Reduce, Result, Tensor, tensor};
use std::hint::black_box;

/// All of them.
pub fn all() -> Vec<Workload> {
    vec![small(), small_all(), mlp()]
}

/// 100 × tanh(h·w + b) on 16 elements, and the gradient by `h`: what an operation costs when there
/// is no arithmetic.
fn small() -> Workload {
    let (h, w, b) = (random(20, &[16]), random(21, &[16]), random(22, &[16]));
    let work = move || drop(black_box(made(grad(|h| chain(h, &w, &b), &h))));
    Workload { name: "small".into(), inner: 1, f: Box::new(work) }
}

/// The same with the gradients by `w` and `b`, which are sums over the 100 uses of each.
fn small_all() -> Workload {
    let args = (random(20, &[16]), random(21, &[16]), random(22, &[16]));
    let f = |(h, w, b): &(Tensor, Tensor, Tensor)| chain(h, w, b);
    let work = move || drop(black_box(made(grad(f, &args))));
    Workload { name: "small_all".into(), inner: 1, f: Box::new(work) }
}

fn chain(h: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    let mut y = h.clone();
    for _ in 0..100 {
        y = extensor::tanh(&extensor::add(&extensor::multiply(&y, w)?, b)?)?;
    }
    extensor::sum(&y, .., false)
}

/// The loss and gradient of 784-512-512-10 with ReLU and cross-entropy, batch 128.
fn mlp() -> Workload {
    let (x, labels) = (random(23, &[128, 784]), (0..128).map(|i| i % 10).collect::<Vec<i64>>());
    let labels = tensor(labels.as_slice());
    let layer = |seed, n: usize, k: usize| {
        let scale = Tensor::scalar((1.0 / (k as f32)).sqrt());
        (made(extensor::multiply(&random(seed, &[n, k]), &scale)), random(seed + 1, &[n]))
    };
    let model = vec![layer(24, 512, 784), layer(26, 512, 512), layer(28, 10, 512)];
    let loss = move |model: &Vec<(Tensor, Tensor)>| -> Result<Tensor> {
        let mut y = x.clone();
        for (i, (weight, bias)) in model.iter().enumerate() {
            y = extensor::linear(&y, weight, Some(bias))?;
            if i + 1 < model.len() {
                y = extensor::relu(&y)?;
            }
        }
        extensor::cross_entropy(&y, &labels, 0.0, Reduce::Mean)
    };
    let work = move || drop(black_box(made(value_and_grad(&loss, &model))));
    Workload { name: "mlp_grad".into(), inner: 1, f: Box::new(work) }
}
