//! Automatic differentiation: the classic traps.

use extensor::autodiff::*;
use extensor::ops::{add, exp, multiply, sin, sum};
use extensor::{DType, Result, Tensor, Tolerance, over, tensor};

fn number(x: &Tensor) -> f64 {
    x.item::<f64>().unwrap()
}

#[test]
fn a_perturbation_of_one_variable_is_not_confused_with_that_of_another() -> Result<()> {
    // d/dx (x · d/dy (x + y)) = 1, in every combination of modes.
    let inner = |x: &Tensor| grad(|y| add(x, y), &tensor(1.0));
    let outer = grad(|x| multiply(x, &inner(x)?), &tensor(1.0))?;
    assert_eq!(number(&outer), 1.0);
    let inner = |x: &Tensor| Ok(jvp(|y| add(x, y), &tensor(1.0), &tensor(1.0))?.1);
    let outer = |x: &Tensor| multiply(x, &inner(x)?);
    assert_eq!(number(&jvp(outer, &tensor(1.0), &tensor(1.0))?.1), 1.0);
    assert_eq!(number(&grad(outer, &tensor(1.0))?), 1.0);
    Ok(())
}

#[test]
fn gradients_nest() -> Result<()> {
    let f = |x: &Tensor| Ok(x * x * x * x);
    let third = grad(|x| grad(|x| grad(f, x), x), &tensor(2.0))?;
    assert_eq!(number(&third), 48.0);
    let fourth = grad(|x| grad(|x| grad(|x| grad(f, x), x), x), &tensor(2.0))?;
    assert_eq!(number(&fourth), 24.0);
    let fifth = grad(|x| grad(|x| grad(|x| grad(|x| grad(f, x), x), x), x), &tensor(2.0))?;
    assert_eq!(number(&fifth), 0.0);
    Ok(())
}

#[test]
fn forward_of_reverse_is_reverse_of_forward() -> Result<()> {
    let f = |x: &Tensor| sum(&exp(&sin(&(x * x))?)?, ..);
    let (x, v) = (tensor([0.3, -0.8, 1.1]), tensor([1.0, 0.5, -2.0]));
    let forward_over_reverse = hvp(f, &x, &v)?;
    let reverse_over_forward = grad(|x| Ok(jvp(f, x, &v)?.1), &x)?;
    let reverse_over_reverse = hvp_reverse(f, &x, &v)?;
    assert!(forward_over_reverse.allclose(&reverse_over_forward, Tolerance::new(1e-14, 1e-14)));
    assert!(forward_over_reverse.allclose(&reverse_over_reverse, Tolerance::new(1e-14, 1e-14)));
    Ok(())
}

#[test]
fn a_million_operations_are_differentiated_and_dropped() -> Result<()> {
    let step = tensor(1e-6);
    let f = |x: &Tensor| {
        let mut y = x.clone();
        for _ in 0..1_000_000 {
            y = add(&y, &step)?;
        }
        Ok(y)
    };
    assert_eq!(number(&grad(f, &tensor(1.0))?), 1.0);
    // Dropped without being walked.
    drop(vjp(f, &tensor(1.0))?);
    Ok(())
}

#[test]
fn a_value_used_a_thousand_times_gets_a_thousand_gradients() -> Result<()> {
    let f = |x: &Tensor| {
        let y = x * x;
        (0..1000).try_fold(tensor(0.0), |sum, _| add(&sum, &y))
    };
    assert_eq!(number(&grad(f, &tensor(3.0))?), 6000.0);
    Ok(())
}

#[test]
fn an_integer_cannot_be_differentiated_by() {
    let error = grad(|x: &Tensor| Ok(x.clone()), &tensor(1i64)).unwrap_err();
    assert!(error.to_string().contains("not of a float dtype"), "{error}");
    let args = (tensor(1.0), vec![tensor(2i32)]);
    let error = grad(|(x, _): &(Tensor, Vec<Tensor>)| Ok(x.clone()), &args).unwrap_err();
    assert!(error.to_string().contains("1.0"), "{error}");
}

#[test]
fn parameters_that_are_not_used_get_zeros_and_are_named() -> Result<()> {
    let args = vec![tensor([1.0, 2.0]), tensor([3.0, 4.0])];
    let (_, pullback) = vjp(|x: &Vec<Tensor>| sum(&x[1], ..), &args)?;
    assert_eq!(pullback.unused()?, ["0"]);
    let grads = pullback.call(&tensor(1.0))?;
    assert_eq!(grads[0].to_vec::<f64>()?, [0.0, 0.0]);
    assert_eq!(grads[1].to_vec::<f64>()?, [1.0, 1.0]);
    Ok(())
}

#[test]
fn reduced_precision_has_gradients_of_its_own_dtype() -> Result<()> {
    let x = Tensor::full([3], 0.5, DType::BF16)?;
    let dx = grad(|x| sum(&(x * x), ..), &x)?;
    assert_eq!(dx.dtype(), DType::BF16);
    assert_eq!(dx.to_f64_vec(), [1.0; 3]);
    Ok(())
}

/// A function of a few operations.
fn rich(x: &Tensor) -> Result<Tensor> {
    sum(&multiply(&sin(x)?, &exp(&(x * x))?)?, ..)
}

#[test]
fn checkpointed_derivatives_have_the_bits_of_plain_ones_at_every_order() -> Result<()> {
    let (x, v) = (tensor([0.3, -0.8, 0.5]), tensor([1.0, 0.5, -2.0]));
    let saved = |x: &Tensor| checkpoint(rich, x);
    let bits = |x: Tensor| x.to_f64_vec();
    assert_eq!(bits(grad(saved, &x)?), bits(grad(rich, &x)?));
    assert_eq!(bits(hvp(saved, &x, &v)?), bits(hvp(rich, &x, &v)?));
    assert_eq!(bits(hvp_reverse(saved, &x, &v)?), bits(hvp_reverse(rich, &x, &v)?));
    assert_eq!(bits(jvp(saved, &x, &v)?.1), bits(jvp(rich, &x, &v)?.1));
    Ok(())
}

#[test]
fn a_checkpoint_differentiated_by_some_of_its_arguments_has_the_bits_of_a_plain_call() -> Result<()>
{
    // Not one of the arguments can be taken for another.
    let f = |x: &Vec<Tensor>| sum(&multiply(&sin(&(&x[0] * &x[1]))?, &exp(&x[2])?)?, ..);
    let x = vec![tensor([0.3, -0.8]), tensor([1.7]), tensor([[0.2], [-1.1], [0.6]])];
    for subset in 1..8usize {
        let chosen: Vec<usize> = (0..3).filter(|i| subset >> i & 1 == 1).collect();
        let moving: Vec<Tensor> = chosen.iter().map(|&i| x[i].clone()).collect();
        let at = |moving: &Vec<Tensor>| {
            let mut all = x.clone();
            for (&i, value) in chosen.iter().zip(moving) {
                all[i] = value.clone();
            }
            all
        };
        let saved = |moving: &Vec<Tensor>| checkpoint(f, &at(moving));
        let plain = |moving: &Vec<Tensor>| f(&at(moving));
        let bits = |list: Vec<Tensor>| list.iter().map(Tensor::to_f64_vec).collect::<Vec<_>>();
        assert_eq!(bits(grad(saved, &moving)?), bits(grad(plain, &moving)?), "{chosen:?}");
        let (one, other) = (hvp(saved, &moving, &moving)?, hvp(plain, &moving, &moving)?);
        assert_eq!(bits(one), bits(other), "{chosen:?}");
    }
    Ok(())
}

#[test]
fn what_a_checkpointed_function_captures_gets_its_gradient() -> Result<()> {
    let x = tensor([0.3, -0.8]);
    let f = |(x, w): &(Tensor, Tensor)| {
        let w = w.clone();
        sum(&checkpoint(move |x: &Tensor| exp(&sin(&(x * &w))?), x)?, ..)
    };
    let plain = |(x, w): &(Tensor, Tensor)| sum(&exp(&sin(&(x * w))?)?, ..);
    let args = (x, tensor([0.7, 1.9]));
    let (found, want) = (grad(f, &args)?, grad(plain, &args)?);
    assert!(!found.0.is_traced() && !found.1.is_traced());
    assert_eq!(found.0.to_f64_vec(), want.0.to_f64_vec());
    assert_eq!(found.1.to_f64_vec(), want.1.to_f64_vec());
    Ok(())
}

#[test]
fn custom_rules_serve_every_mode_and_order_they_can() -> Result<()> {
    let (x, v) = (tensor([0.3, -0.8, 0.5]), tensor([1.0, 0.5, -2.0]));
    let total = |y: Tensor| sum(&y, ..);
    let close = |a: &Tensor, b: &Tensor| a.allclose(b, Tolerance::new(1e-14, 1e-14));
    let cube = custom_vjp(
        |x: &Tensor| Ok((x * x * x, x.clone())),
        |x: &Tensor, g: &Tensor| Ok(g * &tensor(3.0) * x * x),
    );
    let plain = |x: &Tensor| total(x * x * x);
    let own = |x: &Tensor| total(cube(x)?);
    assert!(close(&grad(own, &x)?, &grad(plain, &x)?));
    assert!(close(&hvp_reverse(own, &x, &v)?, &hvp_reverse(plain, &x, &v)?));
    let cube = custom_jvp(
        |x: &Tensor| Ok(x * x * x),
        |x: &Tensor, t: &Tensor| Ok(t * &tensor(3.0) * x * x),
    );
    let own = |x: &Tensor| total(cube(x)?);
    assert!(close(&grad(own, &x)?, &grad(plain, &x)?));
    assert!(close(&jvp(own, &x, &v)?.1, &jvp(plain, &x, &v)?.1));
    assert!(close(&hvp(own, &x, &v)?, &hvp(plain, &x, &v)?));
    assert!(close(&hvp_reverse(own, &x, &v)?, &hvp_reverse(plain, &x, &v)?));
    // A wrong rule is used, not silently replaced by a right one.
    let wrong = custom_vjp(
        |x: &Tensor| Ok((x * x, x.clone())),
        |_: &Tensor, g: &Tensor| Ok(g * &tensor(7.0)),
    );
    assert_eq!(grad(|x| total(wrong(x)?), &x)?.to_f64_vec(), [7.0; 3]);
    Ok(())
}

#[test]
fn linearize_gives_the_derivative_without_calling_again() -> Result<()> {
    let calls = std::cell::Cell::new(0);
    let f = |x: &Tensor| {
        calls.set(calls.get() + 1);
        exp(&sin(x)?)
    };
    let x = tensor([0.3, -0.8]);
    let (_, linear) = linearize(f, &x)?;
    for v in [[1.0, 0.0], [0.5, -2.0]] {
        let want = jvp(|x: &Tensor| exp(&sin(x)?), &x, &tensor(v))?.1;
        assert!(linear.call(&tensor(v))?.allclose(&want, Tolerance::new(1e-15, 1e-15)));
    }
    assert_eq!(calls.get(), 1);
    Ok(())
}

#[test]
fn jacobians_in_both_modes_and_hessians_agree() -> Result<()> {
    let x = tensor([0.3, -0.8, 0.5]);
    let f = |x: &Tensor| extensor::ops::cumsum(&exp(x)?, 0);
    let close = |a: &Tensor, b: &Tensor| a.allclose(b, Tolerance::new(1e-14, 1e-14));
    assert!(close(&jacobian_forward(f, &x)?, &jacobian_reverse(f, &x)?));
    let h = hessian(rich, &x)?;
    assert_eq!(h.shape(), [3, 3]);
    assert!(close(&h, &extensor::ops::transpose(&h, None)?));
    let empty = Tensor::zeros([0], DType::F64)?;
    assert_eq!(jacobian(exp, &empty)?.shape(), [0, 0]);
    Ok(())
}

#[test]
fn graphs_cross_threads() -> Result<()> {
    let (y, pullback) = vjp(rich, &tensor([0.3, -0.8]))?;
    let there = std::thread::spawn(move || pullback.call(&tensor(1.0))).join().unwrap()?;
    assert_eq!(there.to_f64_vec(), grad(rich, &tensor([0.3, -0.8]))?.to_f64_vec());
    assert!(y.item::<f64>().is_ok());
    Ok(())
}

#[test]
fn results_can_be_looked_at_half_way() -> Result<()> {
    let f = |x: &Tensor| {
        let y = x * x;
        assert_eq!(number(&stop_gradient(&y)), 9.0);
        assert!(format!("{y}").contains('9'), "{y}");
        let large = extensor::ops::greater(&y, &tensor(5.0))?.item::<bool>()?;
        let factor = if large { 10.0 } else { 1.0 };
        Ok(y * tensor(factor))
    };
    assert_eq!(number(&grad(f, &tensor(3.0))?), 60.0);
    Ok(())
}

#[derive(Tree)]
struct Layer {
    weight: Tensor,
    bias: Option<Tensor>,
    #[tree(static)]
    name: std::rc::Rc<str>,
}

#[derive(Tree)]
struct Model<T> {
    layers: Vec<Layer>,
    head: T,
    rate: f64,
}

#[derive(Tree)]
enum Activation {
    Plain,
    Scaled(Tensor),
    Both { low: Tensor, high: Tensor },
}

#[test]
fn a_struct_of_tensors_is_a_tree_with_names() -> Result<()> {
    let layer = |v: f64, name: &str| Layer {
        weight: tensor([v, v]),
        bias: (v > 1.0).then(|| tensor(v)),
        name: name.into(),
    };
    let model = Model {
        layers: vec![layer(1.0, "first"), layer(2.0, "second")],
        head: [Activation::Plain, Activation::Scaled(tensor(3.0))],
        rate: 0.5,
    };
    let names: Vec<String> = named_leaves(&model).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["layers.0.weight", "layers.1.weight", "layers.1.bias", "head.1.0"]);
    let loss = |m: &Model<[Activation; 2]>| {
        let Activation::Scaled(scale) = &m.head[1] else { panic!("the variant is kept") };
        let mut total = tensor(0.0);
        for layer in &m.layers {
            total = add(&total, &sum(&(&layer.weight * scale), ..)?)?;
        }
        Ok(total * tensor(m.rate))
    };
    let grads = grad(loss, &model)?;
    assert_eq!(&*grads.layers[1].name, "second");
    assert_eq!(grads.layers[0].weight.to_f64_vec(), [1.5, 1.5]);
    assert_eq!(grads.layers[1].bias.as_ref().map(number), Some(0.0));
    assert!(matches!(&grads.head[1], Activation::Scaled(g) if number(g) == 3.0));
    let both = Activation::Both { low: tensor(1.0), high: tensor(2.0) };
    let names: Vec<String> = named_leaves(&both).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["low", "high"]);
    Ok(())
}

#[test]
fn whole_numbers_that_a_checkpointed_function_returns_are_indices_as_ever() -> Result<()> {
    let f = |x: &Tensor| {
        let largest = checkpoint(|x: &Tensor| extensor::ops::argmax(x, over(0).keepdims(true)), x)?;
        sum(&extensor::ops::take(&multiply(x, x)?, &largest, 0)?, ..)
    };
    assert_eq!(grad(f, &tensor([1.0, 3.0, 2.0]))?.to_vec::<f64>()?, [0.0, 6.0, 0.0]);
    Ok(())
}

#[test]
fn a_checkpointed_dropout_drops_the_same_numbers_again() -> Result<()> {
    let layer = |w: &Tensor, x: &Tensor| {
        let key = extensor::Key::new(u64::from(w.shape()[0] == 5));
        let (y, _) =
            extensor::ops::dropout(&extensor::ops::tanh(&extensor::ops::matmul(x, w)?)?, 0.4, key)?;
        Ok(y)
    };
    let [a, b, c, d] = extensor::Key::new(9).split();
    let weights = vec![a.normal([6, 5], DType::F32)?, b.normal([5, 6], DType::F32)?];
    let weights = [weights, vec![c.normal([6, 5], DType::F32)?]].concat();
    let x = d.normal([33, 6], DType::F32)?;
    let plain = |w: &Vec<Tensor>| sum(&w.iter().try_fold(x.clone(), |x, w| layer(w, &x))?, ..);
    let saved = |w: &Vec<Tensor>| sum(&checkpoint_sequential(layer, w, &x, Some(2))?, ..);
    let (value, grads) = value_and_grad(plain, &weights)?;
    let (again, same) = value_and_grad(saved, &weights)?;
    assert_eq!(value.to_vec::<f32>()?, again.to_vec::<f32>()?);
    for (a, b) in grads.iter().zip(&same) {
        assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
    }
    // Other numbers dropped are another function.
    let other = |w: &Vec<Tensor>| {
        let x = extensor::ops::dropout(&x, 0.4, extensor::Key::new(77))?.0;
        sum(&w.iter().try_fold(x, |x, w| layer(w, &x))?, ..)
    };
    assert_ne!(grad(other, &weights)?[0].to_vec::<f32>()?, grads[0].to_vec::<f32>()?);
    Ok(())
}

#[test]
fn adding_gradients_up_in_place_changes_no_tensor_that_somebody_holds() -> Result<()> {
    // The cotangent itself is the first gradient of `x`; it is the caller's, and must stay.
    let x = tensor([1.0, 2.0]);
    let (_, pullback) = vjp(|x| add(&add(x, x)?, &multiply(x, &tensor(3.0))?), &x)?;
    let given = tensor([1.0, 10.0]);
    for _ in 0..2 {
        assert_eq!(pullback.call(&given)?.to_f64_vec(), [5.0, 50.0]);
        assert_eq!(given.to_f64_vec(), [1.0, 10.0]);
    }
    // Nor is a tensor that a custom rule keeps.
    let kept = tensor([7.0, 7.0]);
    let held = kept.clone();
    let f =
        custom_vjp(|x: &Tensor| Ok((x.clone(), ())), move |_: &(), _: &Tensor| Ok(held.clone()));
    let twice = grad(|x| sum(&add(&f(x)?, &f(x)?)?, ..), &x)?;
    assert_eq!((twice.to_f64_vec(), kept.to_f64_vec()), (vec![14.0; 2], vec![7.0; 2]));
    Ok(())
}

#[derive(Tree)]
struct Normal {
    scale: Tensor,
    #[tree(buffer)]
    running: (Tensor, Tensor),
}

#[test]
fn a_buffer_is_kept_with_a_tree_and_nothing_is_differentiated_by_it() -> Result<()> {
    let running = (tensor([3.0]), tensor([7i64]));
    let mut model = Normal { scale: tensor([2.0]), running };
    let names: Vec<String> = named_leaves(&model).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["scale", "running.0", "running.1"]);
    let loss = |m: &Normal| sum(&(&m.scale * &m.running.0), ..);
    let grads = grad(loss, &model)?;
    assert_eq!((grads.scale.to_f64_vec(), grads.running.0.to_f64_vec()), (vec![3.0], vec![0.0]));
    assert_eq!(grads.running.1.dtype(), DType::I64);
    assert_eq!(extensor::gradients::global_norm(&grads)?.to_f64_vec(), [3.0]);
    let (_, along) = jvp(loss, &model, &grads)?;
    assert_eq!(number(&along), 9.0);
    let half = extensor::precision::Policy::mixed(DType::F16).to_compute(&model)?;
    assert_eq!((half.scale.dtype(), half.running.0.dtype()), (DType::F16, DType::F64));
    // Replaced in place, in the same order, marked as what they are.
    let mut seen = Vec::new();
    model.visit_mut(&Path::ROOT, &mut |path, x| {
        seen.push((path.to_string(), path.is_buffer()));
        *x = Tensor::zeros_like(x)?;
        Ok(())
    })?;
    let names = [("scale", false), ("running.0", true), ("running.1", true)];
    assert_eq!(seen, names.map(|(name, buffer)| (name.to_string(), buffer)));
    assert_eq!(model.scale.to_f64_vec(), [0.0]);
    Ok(())
}

#[test]
fn the_same_tensor_as_both_operands_gets_both_gradients() -> Result<()> {
    let x = tensor([3.0, -2.0]);
    assert_eq!(grad(|x| sum(&multiply(x, x)?, ..), &x)?.to_f64_vec(), [6.0, -4.0]);
    let product = |x: &Tensor| sum(&extensor::ops::matmul(x, x)?, ..);
    let square = tensor([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(grad(product, &square)?.to_f64_vec(), [7.0, 11.0, 9.0, 13.0]);
    Ok(())
}

#[test]
fn equal_leaves_are_told_apart() -> Result<()> {
    let one = tensor([2.0]);
    // The very same tensor twice is two leaves, too.
    for args in [(tensor([2.0]), tensor([2.0])), (one.clone(), one)] {
        let f = |(a, b): &(Tensor, Tensor)| sum(&(a * a * b), ..);
        let (a, b) = grad(f, &args)?;
        assert_eq!((a.to_f64_vec(), b.to_f64_vec()), (vec![8.0], vec![4.0]));
    }
    Ok(())
}

#[test]
fn inner_functions_close_over_outer_variables() -> Result<()> {
    // d/dx of the derivative by y of sin(x·y) at y = x, where both are one variable.
    let inner = |x: &Tensor| grad(|y| sin(&(x * y)), x);
    // d/dy sin(xy) = x·cos(xy); at y = x that is x·cos(x²), whose derivative is
    // cos(x²) − 2x²·sin(x²).
    let x: f64 = 0.7;
    let want = (x * x).cos() - 2.0 * x * x * (x * x).sin();
    for found in
        [number(&grad(inner, &tensor(x))?), number(&jvp(inner, &tensor(x), &tensor(1.0))?.1)]
    {
        assert!((found - want).abs() < 1e-14, "{found} {want}");
    }
    Ok(())
}

#[test]
fn micro_batches_add_up_to_the_batch() -> Result<()> {
    use extensor::gradients::Accumulator;
    let [a, b] = extensor::Key::new(1).split();
    let (x, w) = (a.normal([7, 3], DType::F64)?, b.normal([3], DType::F64)?);
    let loss = |w: &Tensor, x: &Tensor| {
        extensor::ops::mean(&extensor::ops::square(&extensor::ops::matmul(x, w)?)?, ..)
    };
    let whole = grad(|w| loss(w, &x), &w)?;
    let mut total = Accumulator::new();
    for (start, stop) in [(0, 3), (3, 5), (5, 7)] {
        let part = extensor::ops::slice(&x, 0, start, stop, 1)?;
        total.add(&grad(|w| loss(w, &part), &w)?, (stop - start) as f64)?;
    }
    let sum = total.mean()?.unwrap();
    assert!(sum.allclose(&whole, Tolerance::new(1e-14, 1e-14)));
    Ok(())
}

#[test]
fn the_first_number_that_is_not_finite_is_reported_with_its_line() -> Result<()> {
    use extensor::debug;
    use extensor::ops::{log, sqrt};
    // Backward: f16 overflows where its output did not.
    let x = Tensor::full([2], 200.0, DType::F16)?;
    let big = Tensor::full([2], 30_000.0, DType::F16)?;
    let line = line!() + 1;
    let f = |x: &Tensor| sum(&multiply(&multiply(x, &tensor16(1e-3)?)?, &big)?, ..);
    debug::finite(|| grad(f, &x))?;
    let scaled = |x: &Tensor| multiply(&f(x)?, &tensor16(4.0)?);
    let error = debug::finite(|| grad(scaled, &x)).unwrap_err().to_string();
    assert!(error.starts_with("multiply: its gradient for a is inf at [0]"), "{error}");
    assert!(error.ends_with(&format!("called at {}:{line}", file!())), "{error}");
    // Forward: what was infinite before is not the first.
    let x = tensor([1.0, -1.0]);
    let (line, error) = (line!(), debug::finite(|| sqrt(&log(&x)?)).unwrap_err().to_string());
    assert!(error.starts_with("log: its output is NaN at [1]"), "{error}");
    assert!(error.ends_with(&format!("called at {}:{line}", file!())), "{error}");
    let infinite = tensor([f64::INFINITY]);
    debug::finite(|| exp(&infinite))?;
    Ok(())
}

fn tensor16(value: f64) -> Result<Tensor> {
    Tensor::scalar_of(value, DType::F16)
}

#[test]
fn an_overflow_skips_the_step_and_halves_the_scale() -> Result<()> {
    use extensor::precision::{LossScale, Policy, value_and_grad as mixed};
    let w = tensor([1.0f32, 2.0]);
    let f = |w: &Tensor| Ok((sum(&(w * w), ..)?, ()));
    let policy = Policy::mixed(DType::F16);
    let mut scale = LossScale::dynamic(65536.0, 3)?;
    let mut skipped = 0;
    for _ in 0..12 {
        let found = mixed(f, &w, policy, scale)?;
        match found.grads {
            None => skipped += 1,
            Some(grads) => assert_eq!(grads.to_vec::<f32>()?, [2.0, 4.0]),
        }
        scale = found.scale;
        assert_eq!(found.loss.dtype(), DType::F32);
    }
    // Too large at first, and again whenever it has been doubled too often.
    assert!((2..8).contains(&skipped), "{skipped}");
    assert!(scale.value() < 65536.0);
    Ok(())
}
