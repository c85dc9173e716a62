//! What the specification says of NaN, singular points, kinks and ties, for every operation that it
//! says it of.

use extensor::ops::operation::backward;
use extensor::ops::params::Params;
use extensor::ops::{cast, catalogue};
use extensor::{DType, Result, Tensor, tensor};

/// Sizes around which division goes wrong.
const AWKWARD: [f64; 17] = [
    0.0, -0.0, 1e-40, -1e-40, 1e-30, -1e-30, 1e-12, -1e-12, 9.9e-11, 1e-10, -1e-10, 1.1e-10, 1e-5,
    1.0, -1.0, 3e4, 1e30,
];

fn row(values: &[f64], dtype: DType) -> Tensor {
    cast(&tensor(values), dtype).unwrap()
}

/// All gradients of an operation at `inputs` for the cotangent `g`.
fn gradients(name: &str, inputs: &[&Tensor], params: &Params, g: &Tensor) -> Result<Vec<Tensor>> {
    let record = catalogue::find(name)?;
    let op = record.operation(params)?;
    let outputs = record.call(inputs, params)?;
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    let wanted: Vec<bool> = (0..inputs.len()).map(|i| record.differentiable_input(i)).collect();
    Ok(backward(&*op, &[g], inputs, &outputs, &wanted)?.into_iter().flatten().collect())
}

/// What a true derivative is in a dtype: rounded, infinite where it does not fit, and nothing where
/// it is of a gradient that is 0.
fn expected(derivative: f64, g: f64, dtype: DType) -> f64 {
    let value = if g == 0.0 { 0.0 } else { g * derivative };
    cast(&tensor(value), dtype).unwrap().to_f64_vec()[0]
}

#[track_caller]
fn assert_is(got: f64, want: f64, dtype: DType, what: &str) {
    let least = match dtype {
        DType::F16 => 2f64.powi(-14),
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    };
    let close = (got - want).abs() <= 4.0 * dtype.epsilon() * want.abs() + least;
    assert!(
        got == want || close || got.is_nan() && want.is_nan(),
        "{what} in {dtype}: {got}, expected {want}"
    );
}

/// The derivative of a function of one number.
type Derivative = fn(f64) -> f64;

#[test]
fn gradients_are_the_true_ones_in_every_dtype_and_finite_at_singular_points() {
    let functions: [(&str, Derivative); 7] = [
        ("log", |x| if x < 0.0 { f64::NAN } else { 1.0 / x }),
        ("log1p", |x| if x < -1.0 { f64::NAN } else { 1.0 / (1.0 + x) }),
        ("log2", |x| if x < 0.0 { f64::NAN } else { 1.0 / (x * 2f64.ln()) }),
        ("log10", |x| if x < 0.0 { f64::NAN } else { 1.0 / (x * 10f64.ln()) }),
        ("reciprocal", |x| -1.0 / (x * x)),
        ("rsqrt", |x| -0.5 / (x * x.sqrt())),
        ("sqrt", |x| 0.5 / x.sqrt()),
    ];
    for dtype in DType::FLOATS {
        for g in [1.0, -2.5, 0.0, dtype.max_finite()] {
            for (name, derivative) in functions {
                for x in AWKWARD.iter().copied().filter(|x| x.abs() < dtype.max_finite()) {
                    let x = row(&[x], dtype);
                    let grads = gradients(name, &[&x], &Params::new(), &row(&[g], dtype)).unwrap();
                    let (x, d) = (x.to_f64_vec()[0], grads[0].to_f64_vec()[0]);
                    let what = format!("{name}_backward({g:e}, {x:e})");
                    if derivative(x).is_infinite() || name == "log1p" && x == -1.0 {
                        assert!(d.is_finite(), "{what} in {dtype} is {d}");
                    } else if !(name == "sqrt" || name == "rsqrt") || x >= 0.0 {
                        assert_is(d, expected(derivative(x), g, dtype), dtype, &what);
                    } else if g != 0.0 {
                        assert!(d.is_nan(), "{what} in {dtype} is {d}");
                    }
                }
            }
            for b in AWKWARD.iter().copied().filter(|b| b.abs() < dtype.max_finite()) {
                for a in [0.0, 1.0, -1.0, 1e-30, 3e4, -2e4, 5.0, 7.0] {
                    let (x, y) = (row(&[a], dtype), row(&[b], dtype));
                    let pair = [&x, &y];
                    let grads = gradients("divide", &pair, &Params::new(), &row(&[g], dtype));
                    let [a, b] = [x.to_f64_vec()[0], y.to_f64_vec()[0]];
                    let grads: Vec<f64> =
                        grads.unwrap().iter().map(|d| d.to_f64_vec()[0]).collect();
                    if b == 0.0 {
                        assert!(grads.iter().all(|d| d.is_finite()), "{g} {a} {b} {grads:?}");
                        continue;
                    }
                    let what = format!("divide_backward({g:e}, {a:e}, {b:e})");
                    assert_is(grads[0], expected(1.0 / b, g, dtype), dtype, &what);
                    if a != 0.0 && g.abs() < 1e9 {
                        assert_is(grads[1], expected(-(a / b) / b, g, dtype), dtype, &what);
                    }
                }
            }
            for n in [0.0f64, 1.0, 0.5, -1.0, -3.0, 2.0, 40.0, -40.0] {
                for zero in [0.0, -0.0] {
                    let pair = [&row(&[zero], dtype), &row(&[n], dtype)];
                    let grads = gradients("power", &pair, &Params::new(), &row(&[g], dtype));
                    for d in grads.unwrap() {
                        let d = d.to_f64_vec()[0];
                        assert!(
                            d.is_finite(),
                            "power_backward({g}, {zero}, {n}) in {dtype} is {d}"
                        );
                    }
                }
            }
            for name in ["std", "norm"] {
                for x in [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [1e-30, -1e-30, 0.0]] {
                    let (x, g) = (row(&x, dtype), row(&[g], dtype).reshaped());
                    for d in gradients(name, &[&x], &Params::new(), &g).unwrap()[0].to_f64_vec() {
                        assert!(d.is_finite(), "{name}_backward({g}) at {x} in {dtype} is {d}");
                    }
                }
            }
        }
    }
}

/// A row of one element as a scalar.
trait Reshaped {
    fn reshaped(&self) -> Tensor;
}

impl Reshaped for Tensor {
    fn reshaped(&self) -> Tensor {
        extensor::ops::reshape(self, [0i64; 0]).unwrap()
    }
}

#[test]
fn gradients_are_exact_and_use_1e_10_only_where_the_denominator_is_0() {
    let g = tensor([1.0]);
    let one = |name: &str, x: f64| {
        gradients(name, &[&tensor([x])], &Params::new(), &g).unwrap()[0].to_f64_vec()[0]
    };
    let close = |got: f64, want: f64| {
        assert!((got - want).abs() <= 1e-14 * want.abs(), "{got} is not {want}")
    };
    for x in [1e-300, 3e-11, 1e-10, 2e-10, 1e-3, 7.0] {
        close(one("log", x), 1.0 / x);
        close(one("log2", x), 1.0 / (x * 2f64.ln()));
        close(one("log10", x), 1.0 / (x * 10f64.ln()));
        close(one("reciprocal", x.max(1e-100)), -1.0 / (x.max(1e-100) * x.max(1e-100)));
        close(one("reciprocal", -x.max(1e-100)), -1.0 / (x.max(1e-100) * x.max(1e-100)));
    }
    for (x, stand_in) in [(0.0, 1e-10), (-0.0, -1e-10)] {
        close(one("log", x), 1.0 / stand_in);
        close(one("reciprocal", x), -1e20);
        let divided =
            gradients("divide", &[&tensor([3.0]), &tensor([x])], &Params::new(), &g).unwrap();
        close(divided[0].to_f64_vec()[0], 1.0 / stand_in);
        close(divided[1].to_f64_vec()[0], -3.0 / (stand_in * stand_in));
    }
    close(one("sqrt", 0.0), 0.5e10);
    close(one("sqrt", 4.0), 0.25);
}

#[test]
fn an_infinite_gradient_stays_infinite_so_that_overflow_is_seen() {
    for dtype in DType::FLOATS {
        let g = row(&[f64::INFINITY], dtype);
        for name in ["log", "reciprocal", "sqrt", "rsqrt"] {
            let grads = gradients(name, &[&row(&[4.0], dtype)], &Params::new(), &g).unwrap();
            assert!(grads[0].to_f64_vec()[0].is_infinite(), "{name} in {dtype}");
        }
    }
}

#[test]
fn powers_at_zero_have_the_gradients_of_the_specification() {
    let [x, n] = [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]].map(tensor);
    let grads = gradients("power", &[&x, &n], &Params::new(), &tensor([1.0, 1.0, 1.0])).unwrap();
    assert_eq!(grads[0].to_f64_vec(), [0.0, 1.0, 0.0]);
    assert_eq!(grads[1].to_f64_vec(), [0.0, 0.0, 0.0]);
}

#[test]
fn kinks_follow_the_specification() {
    let ones = tensor([1.0, 1.0, 1.0]);
    let at = |name: &str, x: [f64; 3], params: Params| {
        gradients(name, &[&tensor(x)], &params, &ones).unwrap()[0].to_f64_vec()
    };
    assert_eq!(at("abs", [-1.0, 0.0, 1.0], Params::new()), [-1.0, 0.0, 1.0]);
    let bounds = Params::new().with("min", -1.0).with("max", 1.0);
    assert_eq!(at("clip", [-1.0, 0.5, 1.0], bounds), [1.0, 1.0, 1.0]);
    assert_eq!(at("relu", [-0.0, 0.0, 1.0], Params::new()), [0.0, 0.0, 1.0]);
    assert_eq!(at("relu6", [0.0, 3.0, 6.0], Params::new()), [0.0, 1.0, 0.0]);
    for name in ["leaky_relu", "elu"] {
        let alpha = Params::new().with("alpha", 0.25);
        assert_eq!(at(name, [-0.0, 0.0, 1.0], alpha), [0.25, 0.25, 1.0], "{name}");
    }
    assert_eq!(at("hard_sigmoid", [-3.0, 0.0, 3.0], Params::new()), [0.0, 1.0 / 6.0, 0.0]);
    assert_eq!(at("hard_swish", [-3.0, 0.0, 3.0], Params::new()), [0.0, 0.5, 1.0]);
    assert_eq!(at("hard_tanh", [-1.0, 0.0, 1.0], Params::new()), [0.0, 1.0, 0.0]);
    let slopes =
        gradients("prelu", &[&tensor([0.0, -2.0, 2.0]), &tensor(0.25)], &Params::new(), &ones);
    let slopes: Vec<Vec<f64>> = slopes.unwrap().iter().map(|d| d.to_f64_vec()).collect();
    assert_eq!(slopes, [vec![0.25, 0.25, 1.0], vec![-2.0]]);
    for name in ["sign", "ceil", "floor", "round", "trunc"] {
        assert_eq!(at(name, [-1.0, 0.5, 2.0], Params::new()), [0.0; 3], "{name}");
    }
    assert_eq!(
        extensor::ops::round(&tensor([-2.5, -0.5, 0.5, 1.5, 2.5])).unwrap().to_f64_vec(),
        [-2.0, -0.0, 0.0, 2.0, 2.0]
    );
    for (name, first) in [("maximum", [0.5, 0.0, 1.0]), ("minimum", [0.5, 1.0, 0.0])] {
        let [a, b] = [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]].map(tensor);
        let grads = gradients(name, &[&a, &b], &Params::new(), &ones).unwrap();
        assert_eq!(grads[0].to_f64_vec(), first, "{name}");
        assert_eq!(grads[1].to_f64_vec(), first.map(|d| 1.0 - d), "{name}");
    }
    let modulo =
        gradients("modulo", &[&tensor([7.5]), &tensor([2.0])], &Params::new(), &tensor([2.0]))
            .unwrap();
    assert_eq!((modulo[0].to_f64_vec()[0], modulo[1].to_f64_vec()[0]), (2.0, -6.0));
    let all = Params::new().with("axis", [0i64]);
    for (name, sign) in [("max_reduce", 1.0), ("min_reduce", -1.0)] {
        let x = tensor([1.0 * sign, 3.0 * sign, 2.0 * sign, 3.0 * sign]);
        let grads = gradients(name, &[&x], &all, &tensor(1.0)).unwrap();
        assert_eq!(grads[0].to_f64_vec(), [0.0, 0.5, 0.0, 0.5], "{name}");
    }
}

#[test]
fn nan_in_gives_nan_out_in_every_function_of_floats() {
    // Questions are answered, these pick or move elements instead of computing with them, and what
    // is dropped is 0 whatever it was.
    let exempt = ["isnan", "isinf", "isfinite", "argmax", "argmin", "cast", "dropout", "dropout2d"];
    let mut tried = 0;
    for record in catalogue::CATALOGUE {
        if !record.is_differentiable() || exempt.contains(&record.name) {
            continue;
        }
        let mut sampler = extensor::ops::samples::Sampler::new(extensor::Key::new(1));
        (record.samples)(&mut sampler);
        for sample in sampler.finish() {
            // Every element NaN: then so is every element of the result that depends on any.
            let floats = sample.inputs.iter().filter(|x| x.dtype().is_float());
            let some = floats.clone().count() > 0 && floats.clone().all(|x| !x.is_empty());
            if !some {
                continue;
            }
            for &dtype in record.dtypes {
                let inputs: Vec<Tensor> = sample
                    .inputs
                    .iter()
                    .map(|x| {
                        if x.dtype().is_float() {
                            Tensor::full(x.shape().clone(), f64::NAN, dtype).unwrap()
                        } else {
                            x.clone()
                        }
                    })
                    .collect();
                let inputs: Vec<&Tensor> = inputs.iter().collect();
                let outputs = record.call(&inputs, &sample.params).unwrap();
                let results = &outputs[..record.results(outputs.len())];
                let values: Vec<f64> = results.iter().flat_map(|y| y.to_f64_vec()).collect();
                // They put something in its place, or move it out of sight.
                let movers = [
                    "pad",
                    "diag",
                    "tril",
                    "triu",
                    "slice",
                    "split",
                    "unfold",
                    "fold",
                    "nan_to_num",
                ];
                let ignores = sample.params.iter().any(|(name, _)| name == "ignore_index");
                let expected = if movers.contains(&record.name) || ignores || values.is_empty() {
                    continue;
                } else {
                    values.iter().all(|v| v.is_nan())
                };
                assert!(
                    expected,
                    "{}({:?}) in {dtype} loses NaN: {values:?}",
                    record.name, sample.params
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 500, "only {tried}");
}

#[test]
fn normalisations_are_right_for_the_largest_and_the_smallest_numbers() {
    let want = [-1.5f64, -0.5, 0.5, 1.5].map(|v| v / 1.25f64.sqrt());
    let sizes =
        [(DType::F32, [2e38, 1e30, 1e-30, 1e-36]), (DType::F64, [1e308, 1e200, 1e-200, 1e-290])];
    for (dtype, sizes) in sizes {
        for size in sizes {
            let x =
                extensor::ops::reshape(&row(&want.map(|v| v * size), dtype), [1i64, 1, 4]).unwrap();
            let y = extensor::ops::layer_norm(&x, None, None, &[4], 0.0).unwrap();
            let again = extensor::ops::instance_norm(&x, None, None, 0.0).unwrap();
            for (k, want) in want.iter().enumerate() {
                for y in [&y, &again] {
                    let y = y.to_f64_vec()[k];
                    assert!((y - want).abs() < 1e-6, "{y} is not {want}, from {size:e} in {dtype}");
                }
            }
            let g = x.ones_like().unwrap();
            let grads = extensor::ops::layer_norm_backward(&g, &x, None, &[4], 0.0).unwrap();
            assert!(grads.0.to_f64_vec().iter().all(|d| d.is_finite()), "{size:e} in {dtype}");
        }
    }
}

#[test]
fn normalising_equal_numbers_without_eps_gives_beta_and_finite_gradients() {
    for dtype in DType::FLOATS {
        for g in [1.0, -2.5, dtype.max_finite(), 1e-7] {
            // Short rows and long ones.
            normalise_equal_numbers(g, 4, dtype);
            normalise_equal_numbers(g, 200, dtype);
        }
    }
}

fn normalise_equal_numbers(g: f64, len: usize, dtype: DType) {
    let x = Tensor::full([2, 3, len], 0.1, dtype).unwrap();
    let mut values = vec![0.0; len];
    values[..4].copy_from_slice(&[g, 0.0, -g, g / 2.0]);
    let g =
        extensor::ops::broadcast_to(&row(&values, dtype), x.shape()).unwrap().contiguous().unwrap();
    let factor = Tensor::ones([3], dtype).unwrap();
    let beta = Tensor::full([3], 0.5, dtype).unwrap();
    let y = extensor::ops::group_norm(&x, Some(&factor), Some(&beta), 3, 0.0).unwrap();
    assert!(y.to_f64_vec().iter().all(|y| (y - 0.5).abs() < 1e-4), "{y:?}");
    let many = Tensor::ones([len], dtype).unwrap();
    let zeros = x.zeros_like().unwrap();
    let layer = |gamma| extensor::ops::layer_norm_backward(&g, &x, gamma, &[len], 0.0).unwrap().0;
    let rms = |gamma| extensor::ops::rms_norm_backward(&g, &zeros, gamma, &[len], 0.0).unwrap().0;
    let group = extensor::ops::group_norm_backward(&g, &x, Some(&factor), 3, 0.0).unwrap().0;
    // The inverse of a deviation of 0 is 10¹⁰, and what would overflow is the largest number.
    let limit = dtype.max_finite();
    let held = |v: f64| (v * 1e10).clamp(-limit, limit);
    let values = g.to_f64_vec();
    let mean = values[..len].iter().sum::<f64>() / len as f64;
    for (d, mean) in [
        (layer(None), mean),
        (layer(Some(&many)), mean),
        (group, mean),
        (rms(None), 0.0),
        (rms(Some(&many)), 0.0),
    ] {
        for (d, g) in d.to_f64_vec().iter().zip(&values) {
            let want = held(g - mean);
            let off = (d - want).abs() / want.abs().max(1.0);
            assert!(
                off <= 2.0 * dtype.epsilon(),
                "{d}, expected {want}, in {dtype}, {len} numbers"
            );
        }
    }
}

#[test]
fn a_class_that_cannot_be_moves_no_loss_that_does_not_ask_for_it() {
    // The second class of the first row is impossible, and its target is 0.
    let x = tensor([[0.0, f64::NEG_INFINITY, 0.0], [1.0, 2.0, 3.0]]);
    let t = tensor([[0.5, 0.0, 0.5], [0.2, 0.3, 0.5]]);
    let none = extensor::ops::Reduce::None;
    let loss = |t: &Tensor| extensor::ops::cross_entropy(&x, t, none);
    assert!(loss(&t).unwrap().to_f64_vec().iter().all(|v| v.is_finite()));
    let along = tensor([[1.0, 0.0, -1.0], [0.5, 0.0, -0.5]]);
    let moved = extensor::autodiff::jvp(loss, &t, &along).unwrap().1.to_f64_vec();
    assert!(moved[0] == 0.0 && (moved[1] - 1.0).abs() < 1e-14, "{moved:?}");
    let (_, pull) = extensor::autodiff::vjp(loss, &t).unwrap();
    let pulled = pull.call(&tensor([0.0, 1.0])).unwrap().to_f64_vec();
    assert_eq!(pulled[..3], [0.0; 3]);
}

#[test]
fn a_loss_whose_slope_overflows_has_an_infinite_gradient() {
    for dtype in [DType::F32, DType::F64] {
        let most = dtype.max_finite();
        let (x, t) = (row(&[most, -most, 1.0], dtype), row(&[-most, most, 0.0], dtype));
        let g = row(&[1.0; 3], dtype);
        let none = extensor::ops::Reduce::None;
        let (dx, dt) = extensor::ops::mean_squared_error_backward(&g, &x, &t, none).unwrap();
        assert_eq!(dx.to_f64_vec(), [f64::INFINITY, f64::NEG_INFINITY, 2.0], "{dtype}");
        assert_eq!(dt.to_f64_vec(), [f64::NEG_INFINITY, f64::INFINITY, -2.0], "{dtype}");
    }
}

#[test]
fn a_spread_is_differentiated_from_the_mean_that_no_float_is() {
    // The mean is 10¹⁶ + 4/3, between two floats.
    let x = tensor([1e16, 1e16 + 2.0, 1e16 + 2.0]);
    let want = [-8.0 / 9.0, 4.0 / 9.0, 4.0 / 9.0];
    let found = extensor::ops::variance_backward(&tensor(1.0), &x, .., 0).unwrap().to_f64_vec();
    let y = extensor::ops::std(&x, .., 0).unwrap();
    let deviation = y.to_f64_vec()[0];
    let roots = extensor::ops::std_backward(&tensor(1.0), &x, &y, .., 0).unwrap().to_f64_vec();
    for i in 0..3 {
        assert!((found[i] - want[i]).abs() < 1e-14, "{found:?}");
        assert!((roots[i] - want[i] / (2.0 * deviation)).abs() < 1e-14, "{roots:?}");
    }
}
