//! Where optimisers go, beside PyTorch's.

use crate::{Model, golden, number};
use extensor::autodiff::value_and_grad;
use extensor::ops::{linear, log1p, square, subtract, sum, tanh};
use extensor::optim::{Adagrad, Adam, AdamW, Groups, Lion, Optimizer, RmsProp, Sgd};
use extensor::{DType, Result, Tensor, tensor};
use serde_json::Value;

type Any = Box<dyn Optimizer<Model>>;

/// The optimisers of the golden file, by its names.
fn optimiser(name: &str) -> Any {
    match name {
        "sgd" => Box::new(Sgd::new(0.1)),
        "sgd decay" => Box::new(Sgd::new(0.1).weight_decay(0.05)),
        "sgd momentum" => Box::new(Sgd::new(0.05).momentum(0.9)),
        "sgd dampening" => Box::new(Sgd::new(0.05).momentum(0.8).dampening(0.3).weight_decay(0.01)),
        "sgd nesterov" => Box::new(Sgd::new(0.05).momentum(0.9).nesterov().weight_decay(0.01)),
        "sgd clipped" => Box::new(Sgd::new(0.5).momentum(0.5).clip_norm(0.1)),
        "adam" => Box::new(Adam::new(0.01)),
        "adam decay" => Box::new(Adam::new(0.02).betas(0.8, 0.95).eps(1e-6).weight_decay(0.1)),
        "adam amsgrad" => Box::new(Adam::new(0.05).betas(0.9, 0.9).amsgrad()),
        "adam beta" => Box::new(Adam::new(0.02).betas(0.3, 0.7)),
        "adamw" => Box::new(AdamW::new(0.01)),
        "adamw decay" => Box::new(AdamW::new(0.02).betas(0.85, 0.98).weight_decay(0.5)),
        "adamw amsgrad" => Box::new(AdamW::new(0.02).betas(0.9, 0.9).weight_decay(0.1).amsgrad()),
        "adamw clipped" => Box::new(AdamW::new(0.05).clip_norm(0.1)),
        "adamw groups" => {
            let groups = Groups::new().learning_rate("we*", 0.2).weight_decay("?ias", 0.0);
            Box::new(AdamW::new(0.01).weight_decay(0.4).groups(groups))
        }
        "rmsprop" => Box::new(RmsProp::new(0.01)),
        "rmsprop decay" => Box::new(RmsProp::new(0.002).alpha(0.9).eps(1e-6).weight_decay(0.1)),
        "rmsprop momentum" => Box::new(RmsProp::new(0.003).alpha(0.95).momentum(0.8)),
        "rmsprop centred" => Box::new(RmsProp::new(0.005).alpha(0.9).centred()),
        "rmsprop centred momentum" => {
            Box::new(RmsProp::new(0.002).alpha(0.9).centred().momentum(0.7))
        }
        "adagrad" => Box::new(Adagrad::new(0.1)),
        "adagrad decay" => Box::new(Adagrad::new(0.1).lr_decay(0.02).weight_decay(0.05)),
        "adagrad start" => Box::new(Adagrad::new(0.2).initial_accumulator_value(0.5).eps(1e-6)),
        "lion" => Box::new(Lion::new(0.003)),
        "lion decay" => Box::new(Lion::new(0.01).betas(0.8, 0.95).weight_decay(0.3)),
        _ => panic!("no optimiser {name}"),
    }
}

fn start(dtype: DType) -> Result<Model> {
    Ok(Model {
        weight: extensor::ops::cast(&tensor([[0.3, -0.8, 0.5], [-0.2, 0.7, -0.4]]), dtype)?,
        seen: tensor([7i64, 8]),
        bias: extensor::ops::cast(&tensor([0.1, -0.6]), dtype)?,
    })
}

fn loss(model: &Model) -> Result<Tensor> {
    let x = tensor([[1.0, 2.0, -1.0], [0.5, -1.5, 2.0], [-2.0, 0.3, 0.7], [1.2, -0.4, -0.9]]);
    let y = tensor([[0.5, -0.3], [-0.8, 0.9], [0.2, 0.4], [-0.6, -0.1]]);
    let d = subtract(&tanh(&linear(&x, &model.weight, Some(&model.bias))?)?, &y)?;
    sum(&log1p(&square(&d)?)?, ..)
}

/// The gradients that the script gives in step `step`.
fn given(step: i64) -> Result<Model> {
    let value = |i: i64| ((step * 37 + i * 101 + step * i * 13) % 255 - 127) as f32 / 64.0;
    Ok(Model {
        weight: Tensor::from_vec((0..6).map(value).collect(), [2, 3])?,
        seen: tensor([0i64, 0]),
        bias: Tensor::from_vec((6..8).map(value).collect(), [2])?,
    })
}

fn follow(dtype: DType, tolerance: f64) -> Result<()> {
    let golden = golden();
    let runs = golden[dtype.name()].as_object().unwrap();
    assert!(runs.len() >= 25);
    let kept: Vec<u64> =
        golden["kept"].as_array().unwrap().iter().map(|k| number(k) as u64).collect();
    for (name, rows) in runs {
        let mut rows = rows.as_array().unwrap().iter();
        let optimiser = optimiser(name);
        let mut model = start(dtype)?;
        let mut state = optimiser.init(&model)?;
        for step in 1..=100 {
            let grads = match dtype {
                DType::F64 => value_and_grad(loss, &model)?.1,
                _ => given(step as i64)?,
            };
            (model, state) = optimiser.update(model, &grads, state)?;
            if kept.contains(&step) {
                let row = rows.next().and_then(Value::as_array).unwrap();
                let mut found = model.weight.to_f64_vec();
                found.extend(model.bias.to_f64_vec());
                for (ours, theirs) in found.into_iter().zip(row) {
                    let theirs = number(theirs);
                    let error = (ours - theirs).abs() / theirs.abs().max(1.0);
                    assert!(error <= tolerance, "{name}, step {step}: {ours} and {theirs}");
                }
            }
        }
        assert!(rows.next().is_none());
        assert_eq!(state.step, 100);
        assert_eq!(model.seen.to_vec::<i64>()?, [7, 8], "{name}");
    }
    Ok(())
}

#[test]
fn a_hundred_steps_on_a_function_in_f64_go_where_those_of_pytorch_go() -> Result<()> {
    follow(DType::F64, 1e-10)
}

#[test]
fn a_hundred_steps_with_given_gradients_in_f32_go_where_those_of_pytorch_go() -> Result<()> {
    follow(DType::F32, 1e-6)
}

#[test]
fn clipping_in_the_optimiser_is_clipping_before_it() -> Result<()> {
    use extensor::gradients::{clip_grad_norm, clip_grad_value};
    for dtype in [DType::F32, DType::F64] {
        let fused = Adam::new(0.1).clip_value(1.5).clip_norm(0.7);
        let plain = Adam::new(0.1);
        let mut a = start(dtype)?;
        let mut b = start(dtype)?;
        let (mut state_a, mut state_b) = (fused.init(&a)?, plain.init(&b)?);
        for step in 1..20 {
            let grads = given(step)?;
            let cast = |x: &Tensor| extensor::ops::cast(x, dtype);
            let grads = extensor::autodiff::map_parameters(&grads, cast)?;
            let (clipped, norm) = clip_grad_norm(&clip_grad_value(&grads, 1.5)?, 0.7)?;
            (a, state_a) = fused.update(a, &grads, state_a)?;
            (b, state_b) = plain.update(b, &clipped, state_b)?;
            assert_eq!(state_a.grad_norm, Some(norm.to_f64_vec()[0]));
            assert_eq!(a.weight.to_f64_vec(), b.weight.to_f64_vec());
            assert_eq!(a.bias.to_f64_vec(), b.bias.to_f64_vec());
        }
    }
    Ok(())
}

#[test]
fn a_factor_on_the_learning_rate_of_a_step_is_that_of_the_schedule() -> Result<()> {
    let (slow, fast) = (Sgd::new(0.1), Sgd::new(0.2));
    let grads = given(3)?;
    let state = || slow.init(&start(DType::F32)?);
    let (a, _) = slow.update_with(0.2, start(DType::F32)?, &grads, state()?)?;
    let (b, _) = fast.update(start(DType::F32)?, &grads, state()?)?;
    assert_eq!(a.weight.to_f64_vec(), b.weight.to_f64_vec());
    Ok(())
}
