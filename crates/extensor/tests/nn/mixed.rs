//! Gradients of a transformer whose arithmetic is in 16 bits, beside those in `f32`.

use extensor::autodiff::{leaves, value_and_grad};
use extensor::nn::models::{Gpt, GptConfig};
use extensor::nn::{Mode, Model, class_loss};
use extensor::precision::{LossScale, Policy, value_and_grad as mixed_value_and_grad};
use extensor::{DType, Key, Result, Tensor, tensor};

/// The transformer that the benchmark trains in both precisions, on two texts.
fn model_and_tokens() -> Result<(Gpt, Tensor)> {
    let sizes = GptConfig { context: 256, layers: 6, heads: 6, width: 384, ..GptConfig::default() };
    let numbers: Vec<i64> = (0..2 * 256).map(|i| i * i % 65).collect();
    Ok((Gpt::new(Key::new(30), sizes)?, extensor::ops::reshape(&tensor(numbers), [2, 256])?))
}

/// How far `found` is from `exact`, relative to its size: the root of the sum of squares.
fn distance(found: &Tensor, exact: &Tensor) -> f64 {
    let (found, exact) = (found.to_f64_vec(), exact.to_f64_vec());
    let size: f64 = exact.iter().map(|x| x * x).sum();
    let error: f64 = found.iter().zip(&exact).map(|(x, y)| (x - y) * (x - y)).sum();
    (error / size).sqrt()
}

#[test]
fn gradients_of_a_transformer_with_16_bit_arithmetic_are_those_of_f32_to_its_accuracy() {
    let (model, tokens) = model_and_tokens().unwrap();
    let loss = |model: &Gpt| {
        let logits = model.forward(&tokens, &Mode::Training(Key::new(1)))?.logits;
        class_loss(&logits, &tokens, 0.0)
    };
    let (value, exact) = value_and_grad(loss, &model).unwrap();
    for (compute, unit) in [(DType::BF16, 2f64.powi(-8)), (DType::F16, 2f64.powi(-11))] {
        let scale = if compute == DType::F16 { 1024.0 } else { 1.0 };
        let found = mixed_value_and_grad(
            |model: &Gpt| Ok((loss(model)?, ())),
            &model,
            Policy::mixed(compute),
            LossScale::fixed(scale).unwrap(),
        )
        .unwrap();
        let grads = found.grads.unwrap();
        assert!(distance(&found.loss, &value) < unit, "{compute}: {} {value}", found.loss);
        for (number, (got, want)) in leaves(&grads).into_iter().zip(leaves(&exact)).enumerate() {
            assert_eq!(got.dtype(), DType::F32);
            let error = distance(got, want) / unit;
            // What each of the roundings on the way adds is of either sign.
            assert!(error < 4.0, "{compute}, leaf {number}: off by {error:.2} units");
            assert!(error > 1e-3, "{compute}, leaf {number}: not computed in 16 bits");
        }
    }
}
