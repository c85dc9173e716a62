//! How many threads work on it changes no bit of a training step, though there is enough work for all
//! of them.

use extensor::autodiff::{Tree, leaves, value_and_grad};
use extensor::nn::models::{Gpt, GptConfig, LeNet5};
use extensor::nn::{Conv2d, Mode, Model, class_loss};
use extensor::ops::ConvOptions;
use extensor::precision::{LossScale, Policy, value_and_grad as mixed};
use extensor::{DType, Key, Result, Tensor, tensor};

/// Compares what `f` gives on one thread and on others, bit for bit.
fn the_same_on_any_number(what: &str, f: impl Fn() -> Result<Vec<Tensor>>) {
    let on = |threads: usize| {
        let found = extensor::threads::with(threads, &f).unwrap();
        let bits = |x: &Tensor| x.to_f64_vec().into_iter().map(f64::to_bits).collect::<Vec<_>>();
        found.iter().map(bits).collect::<Vec<_>>()
    };
    let one = on(1);
    assert!(one.iter().flatten().all(|&bits| f64::from_bits(bits).is_finite()), "{what}");
    for threads in [2, 3, 5, 8, 16] {
        assert!(on(threads) == one, "{what} on {threads} threads");
    }
}

fn classes(count: usize, of: i64) -> Tensor {
    tensor((0..count as i64).map(|i| i * i % of).collect::<Vec<_>>())
}

/// The loss and the gradients of a model in training.
fn gradients<M: Model>(model: &M, x: &Tensor, targets: &Tensor) -> Result<Vec<Tensor>> {
    let mode = Mode::Training(Key::new(1));
    let loss = |model: &M| class_loss(&model.forward(x, &mode)?.logits, targets, 0.0);
    let (loss, grads) = value_and_grad(loss, model)?;
    Ok(together(loss, &grads))
}

fn together(loss: Tensor, grads: &impl Tree) -> Vec<Tensor> {
    [loss].into_iter().chain(leaves(grads).into_iter().cloned()).collect()
}

fn gpt() -> (Gpt, Tensor) {
    let sizes = GptConfig { layers: 2, dropout: 0.1, ..GptConfig::default() };
    let tokens = extensor::ops::reshape(&classes(8 * 64, 65), [8, 64]).unwrap();
    (Gpt::new(Key::new(2), sizes).unwrap(), tokens)
}

#[test]
fn a_step_of_a_transformer_has_the_same_bits_on_any_number_of_threads() {
    let (model, tokens) = gpt();
    the_same_on_any_number("f32", || gradients(&model, &tokens, &tokens));
    for compute in [DType::BF16, DType::F16] {
        the_same_on_any_number(&format!("arithmetic in {compute}"), || {
            let mode = Mode::Training(Key::new(1));
            let loss = |model: &Gpt| {
                Ok((class_loss(&model.forward(&tokens, &mode)?.logits, &tokens, 0.0)?, ()))
            };
            let found = mixed(loss, &model, Policy::mixed(compute), LossScale::NONE)?;
            Ok(together(found.loss, &found.grads.unwrap()))
        });
    }
}

#[test]
fn a_step_of_a_convolutional_network_has_the_same_bits_on_any_number_of_threads() {
    let model = LeNet5::new(Key::new(3)).unwrap();
    let x = Key::new(4).normal([32, 1, 28, 28], DType::F32).unwrap();
    the_same_on_any_number("LeNet-5", || gradients(&model, &x, &classes(32, 10)));
}

#[test]
fn convolutions_have_the_same_bits_on_any_number_of_threads() {
    for (images, inputs, outputs, side) in [(9, 24, 40, 20), (2, 64, 128, 33), (1, 256, 130, 9)] {
        let options = ConvOptions::new().padding(1);
        let layer = Conv2d::with(Key::new(5), inputs, outputs, 3, options).unwrap();
        for dtype in [DType::F32, DType::BF16] {
            let x = Key::new(6).normal([images, inputs, side, side], dtype).unwrap();
            let layer = Policy::full(dtype).to_compute(&layer).unwrap();
            let what = format!("{images} × {inputs} → {outputs}, {side}², {dtype}");
            the_same_on_any_number(&what, || {
                let f = |(layer, x): &(Conv2d, Tensor)| {
                    let y = layer.forward(x)?;
                    extensor::ops::sum(&extensor::ops::multiply(&y, &y)?, ..)
                };
                let (y, grads) = value_and_grad(f, &(layer.clone(), x.clone()))?;
                Ok(together(y, &grads))
            });
        }
    }
}
