//! Where updates are written, and that it makes no difference.

use crate::Model;
use extensor::autodiff::{leaves, map_parameters, named_leaves, value_and_grad};
use extensor::ops::{broadcast_to, cast, transpose};
use extensor::ops::{linear, mean, square};
use extensor::optim::{Adagrad, Adam, AdamW, Lion, Optimizer, RmsProp, Sgd, State};
use extensor::{DType, Key, Result, Tensor, Tree, tensor, threads};

fn optimisers<T: Tree>() -> Vec<Box<dyn Optimizer<T>>> {
    vec![
        Box::new(Sgd::new(0.1).weight_decay(0.1)),
        Box::new(Sgd::new(0.1).momentum(0.9).nesterov()),
        Box::new(Adam::new(0.1).weight_decay(0.1)),
        Box::new(AdamW::new(0.1).amsgrad()),
        Box::new(RmsProp::new(0.1)),
        Box::new(RmsProp::new(0.1).momentum(0.5)),
        Box::new(RmsProp::new(0.1).centred()),
        Box::new(RmsProp::new(0.1).centred().momentum(0.5)),
        Box::new(Adagrad::new(0.1)),
        Box::new(Lion::new(0.1).weight_decay(0.1)),
    ]
}

fn model(dtype: DType, rows: usize) -> Result<Model> {
    let [a, b] = Key::new(rows as u64).split();
    Ok(Model {
        weight: a.normal([rows, 33], dtype)?,
        seen: tensor([1.0, 2.0]),
        bias: b.normal([33], dtype)?,
    })
}

/// All bits of a model and its state, as `f64`.
fn bits(model: &Model, state: &State<Model>) -> Vec<Vec<u64>> {
    let all = leaves(model).into_iter().chain(leaves(state));
    all.map(|x| x.to_f64_vec().into_iter().map(f64::to_bits).collect()).collect()
}

fn three_steps(
    optimiser: &dyn Optimizer<Model>,
    start: &Model,
    grads: &[Model; 3],
    shared: bool,
) -> Result<Vec<Vec<u64>>> {
    let mut now = start.clone();
    let mut state = optimiser.init(&now)?;
    for grads in grads {
        let held = shared.then(|| (now.clone(), state.clone()));
        let before = held.as_ref().map(|(model, state)| bits(model, state));
        (now, state) = optimiser.update(now, grads, state)?;
        // What others hold stays as it was.
        assert_eq!(held.as_ref().map(|(model, state)| bits(model, state)), before);
    }
    Ok(bits(&now, &state))
}

#[test]
fn shared_or_not_and_for_any_number_of_threads_the_bits_are_the_same() -> Result<()> {
    for dtype in DType::FLOATS {
        // More than two pieces of work.
        let start = model(dtype, 1000)?;
        let other = model(dtype, 1000)?;
        let round =
            |key| map_parameters(&other, |x| Key::new(key).normal(x.shape().clone(), dtype));
        let grads = [round(1)?, round(2)?, round(3)?];
        for optimiser in optimisers() {
            let run = |shared| three_steps(&*optimiser, &start, &grads, shared);
            let expected = threads::with(1, || run(false))?;
            for count in [1, 2, 4] {
                for shared in [false, true] {
                    let found = threads::with(count, || run(shared))?;
                    assert!(found == expected, "{dtype}, {count} threads, shared: {shared}");
                }
            }
        }
    }
    Ok(())
}

/// Where a tensor's elements begin; no tensor keeps it alive.
fn address(x: &Tensor) -> usize {
    x.as_slice::<f32>().unwrap().as_ptr() as usize
}

#[test]
fn what_nobody_else_holds_is_updated_in_place() -> Result<()> {
    for optimiser in optimisers::<Vec<Tensor>>() {
        let keys: [Key; 3] = Key::new(5).split();
        let normal = |key: Key| key.normal([100, 30], DType::F32);
        let mut now: Vec<Tensor> = keys.map(normal).into_iter().collect::<Result<_>>()?;
        let grads = now.iter().map(|x| cast(x, DType::F64)).collect::<Result<Vec<_>>>()?;
        let grads = grads.iter().map(|x| cast(x, DType::F32)).collect::<Result<Vec<_>>>()?;
        let mut state = optimiser.init(&now)?;
        let place = |now: &Vec<Tensor>, state: &State<_>| -> Vec<usize> {
            leaves(now).into_iter().chain(leaves(state)).map(address).collect()
        };
        let before = place(&now, &state);
        for _ in 0..3 {
            (now, state) = optimiser.update(now, &grads, state)?;
        }
        assert_eq!(place(&now, &state), before);
        // One that is held moves, and the others do not.
        let held = now[1].clone();
        (now, state) = optimiser.update(now, &grads, state)?;
        let after = place(&now, &state);
        assert_ne!(after[1], before[1]);
        assert_eq!((&after[0], &after[2..]), (&before[0], &before[2..]));
        drop(held);
    }
    Ok(())
}

#[test]
fn a_training_loop_updates_in_place() -> Result<()> {
    let optimiser = AdamW::new(1e-3).clip_norm(1.0);
    let x = Key::new(1).normal([8, 33], DType::F32)?;
    let mut now = model(DType::F32, 20)?;
    let mut state = optimiser.init(&now)?;
    let before = [address(&now.weight), address(&now.bias)];
    for _ in 0..3 {
        let loss = |m: &Model| mean(&square(&linear(&(&x + &m.bias), &m.weight, None)?)?, ..);
        let (_, grads) = value_and_grad(loss, &now)?;
        (now, state) = optimiser.update(now, &grads, state)?;
        assert_eq!([address(&now.weight), address(&now.bias)], before);
    }
    Ok(())
}

#[test]
fn views_and_broadcast_gradients_are_taken_as_what_they_show() -> Result<()> {
    let [a, b] = Key::new(3).split();
    let rows = a.normal([40, 30], DType::F32)?;
    let view = transpose(&rows, None)?;
    let gradient = transpose(&b.normal([40, 30], DType::F32)?, None)?;
    let one = broadcast_to(&tensor([[0.5f32]]), [30, 40])?;
    for optimiser in optimisers::<Tensor>() {
        for gradient in [&gradient, &one] {
            let step = |p: Tensor, g: &Tensor| -> Result<Vec<f32>> {
                let state = optimiser.init(&p)?;
                let (p, state) = optimiser.update(p, g, state)?;
                optimiser.update(p, g, state)?.0.to_vec()
            };
            let dense = |x: &Tensor| Tensor::from_vec(x.to_vec::<f32>()?, x.shape().clone());
            let expected = step(dense(&view)?, &dense(gradient)?)?;
            assert_eq!(step(view.clone(), gradient)?, expected);
        }
    }
    Ok(())
}

#[test]
fn reduced_precision_parameters_remember_in_f32_and_take_gradients_of_either() -> Result<()> {
    for dtype in [DType::F16, DType::BF16] {
        let p = cast(&tensor([1.0, -2.0, 3.0]), dtype)?;
        let g = cast(&tensor([0.5, 0.25, -0.125]), dtype)?;
        let optimiser = Adam::new(0.01);
        let state = optimiser.init(&p)?;
        assert!(leaves(&state).iter().all(|x| x.dtype() == DType::F32));
        let (a, _) = optimiser.update(p.clone(), &g, state.clone())?;
        let (b, _) = optimiser.update(p.clone(), &cast(&g, DType::F32)?, state)?;
        assert_eq!(a.dtype(), dtype);
        assert_eq!(a.to_f64_vec(), b.to_f64_vec());
        // As in f32, and rounded.
        let wide = cast(&p, DType::F32)?;
        let state = optimiser.init(&wide)?;
        let (c, _) = optimiser.update(wide, &cast(&g, DType::F32)?, state)?;
        assert_eq!(cast(&c, dtype)?.to_f64_vec(), a.to_f64_vec());
    }
    Ok(())
}

#[test]
fn a_state_is_a_tree_that_can_be_taken_apart_and_put_together() -> Result<()> {
    let optimiser = AdamW::new(0.1).amsgrad();
    let now = model(DType::F32, 3)?;
    let state = optimiser.init(&now)?;
    let (now, state) = optimiser.update(now.clone(), &now, state)?;
    let names: Vec<String> = named_leaves(&state).into_iter().map(|(name, _)| name).collect();
    let expected = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];
    let expected: Vec<String> = ["weight", "bias"]
        .iter()
        .flat_map(|leaf| expected.map(|slot| format!("{slot}.{leaf}")))
        .collect();
    assert_eq!(names, expected);
    // Saved and loaded: the template's leaves replaced, its step set.
    let saved: Vec<Tensor> = leaves(&state).into_iter().cloned().collect();
    let mut loaded = optimiser.init(&now)?;
    let mut next = saved.into_iter();
    loaded.visit_mut(&extensor::autodiff::Path::ROOT, &mut |_, x| {
        *x = next.next().unwrap();
        Ok(())
    })?;
    loaded.step = state.step;
    let a = optimiser.update(now.clone(), &now, state)?;
    let b = optimiser.update(now.clone(), &now, loaded)?;
    assert_eq!(bits(&a.0, &a.1), bits(&b.0, &b.1));
    // A model that is one tensor has nothing to add to a slot's name.
    let one = Adam::new(0.1).init(&tensor([1.0]))?;
    assert_eq!(named_leaves(&one)[1].0, "exp_avg_sq");
    Ok(())
}
