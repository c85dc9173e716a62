//! The reductions keep what their documentation says.

use extensor::ops::operation::{backward, forward_derivative};
use extensor::ops::params::Params;
use extensor::ops::samples::{Bad, Sampler};
use extensor::ops::*;
use extensor::*;
use half::{bf16, f16};

type Anything = std::result::Result<(), Box<dyn std::error::Error>>;

const FOLDS: [&str; 9] =
    ["sum", "mean", "max_reduce", "min_reduce", "prod", "variance", "std", "logsumexp", "norm"];
const ALL: [&str; 14] = [
    "sum",
    "mean",
    "max_reduce",
    "min_reduce",
    "prod",
    "variance",
    "std",
    "logsumexp",
    "norm",
    "cumsum",
    "argmax",
    "argmin",
    "any",
    "all",
];

fn axes(list: Option<&[i64]>) -> Params {
    Params::new().with("axis", list)
}

fn call(name: &str, x: &Tensor, params: &Params) -> Result<Tensor> {
    Ok(catalogue::find(name)?.call(&[x], params)?.swap_remove(0))
}

/// The gradient for `grad` by the operation's own rule.
fn gradient(name: &str, grad: &Tensor, x: &Tensor, params: &Params) -> Result<Tensor> {
    let record = catalogue::find(name)?;
    let op = record.operation(params)?;
    let y = call(name, x, params)?;
    let found = backward(&*op, &[grad], &[x], &[&y], &[true])?;
    found.into_iter().flatten().next().ok_or(Error::UnknownOperation { name: name.into() })
}

fn bits(x: &Tensor) -> Vec<u64> {
    x.to_f64_vec().iter().map(|v| v.to_bits()).collect()
}

/// The same values in other places: behind a transposition and a rotation of the axes, and both.
fn layouts(x: &Tensor) -> Result<Vec<Tensor>> {
    let n = x.ndim() as i64;
    let mut found = Vec::new();
    for (forth, back) in [
        ((0..n).rev().collect::<Vec<i64>>(), (0..n).rev().collect()),
        (
            (0..n).map(|i| (i + 1) % n).collect(),
            (0..n).map(|i| (i + n - 1) % n).collect::<Vec<i64>>(),
        ),
    ] {
        let moved = transpose(x, Some(&forth[..]))?.contiguous()?;
        found.push(transpose(&moved, Some(&back[..]))?);
    }
    Ok(found)
}

/// A tensor of `value`, `count` times, without the memory: a broadcast view.
fn repeated(value: f64, count: usize, dtype: DType) -> Result<Tensor> {
    broadcast_to(&Tensor::scalar_of(value, dtype)?, [count])
}

fn item(x: &Tensor) -> f64 {
    x.to_f64_vec()[0]
}

#[test]
fn every_sample_has_the_derivative_that_differences_show() -> Anything {
    for name in ALL {
        let record = catalogue::find(name)?;
        if !record.is_differentiable() {
            continue;
        }
        let mut sampler = Sampler::new(Key::new(3));
        (record.samples)(&mut sampler);
        for (i, sample) in sampler.finish().into_iter().enumerate() {
            let x = &sample.inputs[0];
            let y = call(name, x, &sample.params)?;
            let g = Key::new(i as u64).normal(y.shape().clone(), DType::F64)?;
            let grad = gradient(name, &g, x, &sample.params)?;
            assert_eq!(grad.shape(), x.shape(), "{name} {i}");
            assert!(grad.to_f64_vec().iter().all(|v| v.is_finite()), "{name} {i}");
            // Ties are kinks, which the suite of the catalogue knows of.
            let tiny = x.to_f64_vec().iter().all(|v| v.abs() < 1e-3);
            if !sample.smooth || tiny || name.starts_with("max") || name.starts_with("min") {
                continue;
            }
            let tangent = Key::new(100 + i as u64).normal(x.shape().clone(), DType::F64)?;
            let h = 1e-5;
            let step = multiply(&tangent, &tensor(h))?;
            let up = call(name, &add(x, &step)?, &sample.params)?;
            let down = call(name, &subtract(x, &step)?, &sample.params)?;
            let slope = divide(&subtract(&up, &down)?, &tensor(2.0 * h))?;
            let dot = |a: &Tensor, b: &Tensor| sum(&multiply(a, b)?, ..)?.item::<f64>();
            let (by_rule, by_differences) = (dot(&grad, &tangent)?, dot(&g, &slope)?);
            let scale = 1.0 + by_differences.abs();
            assert!(
                (by_rule - by_differences).abs() < 1e-6 * scale,
                "{name} {i} {:?}: {by_rule} {by_differences}",
                sample.params
            );
            let op = record.operation(&sample.params)?;
            let along = forward_derivative(&*op, &[x], &[&y], &[Some(&tangent)])?.swap_remove(0);
            let forward = dot(&along, &g)?;
            assert!((by_rule - forward).abs() < 1e-9 * scale, "{name} {i}");
        }
    }
    Ok(())
}

#[test]
fn a_hundred_million_equal_values_sum_to_their_product_within_a_millionth() -> Anything {
    for dtype in [DType::F32, DType::F64] {
        let x = repeated(0.1, 100_000_000, dtype)?;
        let true_sum = item(&repeated(0.1, 1, dtype)?) * 1e8;
        let total = item(&sum(&x, ..)?);
        assert!((total / true_sum - 1.0).abs() < 1e-6, "{dtype}: {total}");
        assert!((item(&mean(&x, ..)?) / 0.1 - 1.0).abs() < 1e-6);
    }
    let real = Tensor::full([10_000_000], 0.1, DType::F32)?;
    let total = item(&sum(&real, ..)?);
    assert!((total / (0.1f32 as f64 * 1e7) - 1.0).abs() < 1e-6);
    let columns = reshape(&real, [5_000_000, 2])?;
    for total in sum(&columns, 0)?.to_f64_vec() {
        assert!((total / (0.1f32 as f64 * 5e6) - 1.0).abs() < 1e-6);
    }
    Ok(())
}

#[test]
fn the_error_of_a_sum_of_f64_does_not_grow_with_its_length() -> Anything {
    for exponent in 3..=7 {
        let n = 10usize.pow(exponent);
        let total = item(&sum(&repeated(0.1, n, DType::F64)?, ..)?);
        let true_sum = 0.1 * n as f64;
        assert!((total / true_sum - 1.0).abs() < 4e-15, "{n}: {total}");
    }
    Ok(())
}

#[test]
fn a_result_has_the_same_bits_for_any_number_of_threads_and_any_layout() -> Anything {
    type Choices = &'static [Option<&'static [i64]>];
    let shapes: [(&[usize], Choices); 5] = [
        (&[70_001], &[None]),
        (&[300, 401], &[None, Some(&[0]), Some(&[1])]),
        (&[9000, 7], &[Some(&[0]), Some(&[1])]),
        (&[20, 33, 150], &[Some(&[0, 2]), Some(&[1]), Some(&[0, 1])]),
        (&[5, 30, 17, 40], &[Some(&[0, 2]), Some(&[1, 3]), Some(&[2, 3]), None]),
    ];
    for (shape, choices) in shapes {
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let x = cast(&Key::new(5).normal(shape, DType::F64)?, dtype)?;
            let mut copies = layouts(&x)?;
            copies.insert(0, x.clone());
            for name in FOLDS {
                for choice in choices {
                    let params = axes(*choice);
                    let want = threads::with(1, || call(name, &x, &params))?;
                    for copy in &copies {
                        for n in [1, 2, 4] {
                            let got = threads::with(n, || call(name, copy, &params))?;
                            assert_eq!(
                                bits(&got),
                                bits(&want),
                                "{name} {shape:?} {choice:?} {dtype} {n} threads"
                            );
                        }
                    }
                }
            }
            for axis in 0..shape.len() as i64 {
                for name in ["cumsum", "argmax", "argmin"] {
                    let params = Params::new().with("axis", axis);
                    let want = call(name, &x, &params)?;
                    for copy in &copies {
                        for n in [1, 4] {
                            let got = threads::with(n, || call(name, copy, &params))?;
                            assert_eq!(bits(&got), bits(&want), "{name} {shape:?} {axis} {dtype}");
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn results_agree_with_the_definition_for_every_size_near_a_boundary() -> Anything {
    for n in
        [1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 127, 255, 256, 1000, 4095, 4096, 4097, 8193, 33000]
    {
        let x = Key::new(n as u64).uniform([n], -1.0, 1.0, DType::F64)?;
        let values = x.to_f64_vec();
        let total: f64 = values.iter().sum();
        let near = |got: f64, want: f64| (got - want).abs() <= 1e-11 * (1.0 + want.abs());
        for m in [1, 3, 130, 700] {
            // The same column many times, so that each result is known.
            let wide = broadcast_to(&reshape(&x, [n, 1])?, [n, m])?.contiguous()?;
            for total_of_column in sum(&wide, 0)?.to_f64_vec() {
                assert!(near(total_of_column, total), "{n} × {m}");
            }
        }
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(item(&max_reduce(&x, ..)?), largest);
        assert_eq!(values[argmax(&x, 0)?.item::<i64>()? as usize], largest);
        let mu = total / n as f64;
        let spread = values.iter().map(|v| (v - mu).powi(2)).sum::<f64>() / n as f64;
        assert!(near(item(&variance(&x, .., 0)?), spread), "{n}");
        assert!(near(item(&std(&x, .., 0)?), spread.sqrt()), "{n}");
        let exponentials: f64 = values.iter().map(|v| v.exp()).sum();
        assert!(near(item(&logsumexp(&x, ..)?), exponentials.ln()), "{n}");
        let squares: f64 = values.iter().map(|v| v * v).sum();
        assert!(near(item(&norm(&x, ..)?), squares.sqrt()), "{n}");
        let last = cumsum(&x, 0)?.to_f64_vec()[n - 1];
        assert!(near(last, total), "{n}");
    }
    Ok(())
}

#[test]
fn nan_in_gives_nan_out() -> Anything {
    let x = tensor([[1.0, f64::NAN, 2.0], [1.0, 2.0, 3.0]]);
    for name in FOLDS {
        let y = call(name, &x, &axes(Some(&[1])))?.to_f64_vec();
        assert!(y[0].is_nan() && !y[1].is_nan(), "{name}: {y:?}");
        let ones = Tensor::ones([2], DType::F64)?;
        let grad = gradient(name, &ones, &x, &axes(Some(&[1])))?.to_f64_vec();
        // Each gradient of a sum is the output's; that of a product is made of the others.
        let linear = ["sum", "mean"].contains(&name);
        assert!(linear || grad[0].is_nan(), "{name}: {grad:?}");
        assert!(grad[3..].iter().all(|v| v.is_finite()), "{name}: {grad:?}");
    }
    assert_eq!(argmax(&x, 1)?.to_vec::<i64>()?, [1, 2]);
    assert_eq!(argmin(&x, 1)?.to_vec::<i64>()?, [1, 0]);
    assert!(cumsum(&x, 1)?.to_f64_vec()[2].is_nan());
    Ok(())
}

#[test]
fn a_sum_of_nothing_is_0_a_mean_nan_a_product_1_and_an_extreme_an_error() -> Anything {
    let x = Tensor::zeros([2, 0], DType::F64)?;
    assert_eq!(sum(&x, 1)?.to_vec::<f64>()?, [0.0, 0.0]);
    assert!(mean(&x, ..)?.item::<f64>()?.is_nan());
    assert_eq!(prod(&x, ..)?.item::<f64>()?, 1.0);
    assert_eq!(norm(&x, ..)?.item::<f64>()?, 0.0);
    assert_eq!(logsumexp(&x, ..)?.item::<f64>()?, f64::NEG_INFINITY);
    assert!(variance(&x, .., 0)?.item::<f64>()?.is_nan());
    let mask = Tensor::zeros([2, 0], DType::Bool)?;
    assert_eq!(any(&mask, 1)?.to_vec::<bool>()?, [false; 2]);
    assert_eq!(all(&mask, 1)?.to_vec::<bool>()?, [true; 2]);
    for result in [
        max_reduce(&x, 1),
        min_reduce(&x, over(..).keepdims(true)),
        argmax(&x, 1),
        argmin(&x, None),
    ] {
        assert!(matches!(result, Err(Error::Empty { .. })), "{result:?}");
    }
    // Nothing is asked of an empty axis where there is no result.
    assert_eq!(max_reduce(&x, 0)?.shape(), [0]);
    Ok(())
}

#[test]
fn ties_share_the_gradient_equally_in_every_dtype() -> Anything {
    for dtype in DType::FLOATS {
        let x = cast(&tensor([1.0, 3.0, 2.0, 3.0]), dtype)?;
        let one = Tensor::scalar_of(1.0, dtype)?;
        let grad = max_reduce_backward(&one, &x, ..)?;
        assert_eq!(grad.to_f64_vec(), [0.0, 0.5, 0.0, 0.5]);
        let grad = min_reduce_backward(&one, &negate(&x)?, ..)?;
        assert_eq!(grad.to_f64_vec(), [0.0, 0.5, 0.0, 0.5]);
        // More ties than f16 can count.
        let many = Tensor::ones([100_000], dtype)?;
        let share = item(&max_reduce_backward(&one, &many, ..)?);
        assert!((share / 1e-5 - 1.0).abs() < 0.01, "{dtype}: {share}");
    }
    Ok(())
}

#[test]
fn the_gradient_of_a_product_is_right_with_any_number_of_zeros() -> Anything {
    let grad = |values: &[f64]| -> Result<Vec<f64>> {
        let x = tensor(values.to_vec());
        Ok(prod_backward(&tensor(2.0), &x, &prod(&x, ..)?, ..)?.to_f64_vec())
    };
    assert_eq!(grad(&[2.0, 0.0, 3.0])?, [0.0, 12.0, 0.0]);
    assert_eq!(grad(&[2.0, 0.0, 0.0])?, [0.0; 3]);
    assert_eq!(grad(&[5.0])?, [2.0]);
    assert_eq!(grad(&[0.0])?, [2.0]);
    // A product that leaves the range of the numbers, and gradients that do not.
    let (tiny, huge) = (2f64.powi(-700), 2f64.powi(700));
    let small = 2.0 * tiny;
    assert_eq!(grad(&[tiny, tiny, huge, tiny])?, [small, small, 0.0, small]);
    assert_eq!(grad(&[tiny, tiny, huge])?, [2.0, 2.0, 0.0]);
    let mut long = [1.5, 1.0 / 1.5].repeat(30);
    long[7] = 0.0;
    let found = grad(&long)?;
    assert!((found[7] - 3.0).abs() < 1e-12, "{}", found[7]);
    assert!(found.iter().enumerate().all(|(i, v)| i == 7 || *v == 0.0));
    Ok(())
}

#[test]
fn products_and_norms_leave_the_range_only_if_their_value_does() -> Anything {
    assert_eq!(item(&prod(&tensor([1e200, 1e200, 0.0]), ..)?), 0.0);
    assert_eq!(item(&prod(&tensor([1e200, 1e200, 1e-200, 1e-200]), ..)?), 1.0);
    assert_eq!(item(&prod(&tensor([1e30f32; 40]), ..)?), f64::INFINITY);
    assert_eq!(item(&norm(&tensor([3e-320, 4e-320]), ..)?), 5e-320);
    assert_eq!(item(&norm(&tensor([3e300, 4e300]), ..)?), 5e300);
    assert_eq!(item(&norm(&tensor([3e30f32, 4e30]), ..)?), item(&tensor(5e30f32)));
    let apart = item(&std(&tensor([1e200, -1e200]), .., 0)?);
    assert!((apart / 1e200 - 1.0).abs() < 1e-15, "{apart}");
    let big = [1e308, 1e308, -1e308, -1e308, 1.0];
    let mut many: Vec<f64> = Vec::new();
    for value in big {
        many.extend_from_slice(&[value; 50]);
    }
    assert!(!item(&sum(&tensor(many.clone()), ..)?).is_nan());
    assert_eq!(item(&mean(&tensor([1.5e308, 1.5e308]), ..)?), 1.5e308);
    assert_eq!(item(&sum(&tensor([f64::INFINITY, 1.0]), ..)?), f64::INFINITY);
    Ok(())
}

#[test]
fn logsumexp_is_exact_at_the_infinities_and_for_large_numbers() -> Anything {
    let (inf, low) = (f64::INFINITY, f64::NEG_INFINITY);
    for (x, want) in [
        ([low, low, low], low),
        ([low, inf, 0.0], inf),
        ([low, 3.0, low], 3.0),
        ([1e4, -1e4, -1e4], 1e4),
    ] {
        assert_eq!(item(&logsumexp(&tensor(x), ..)?), want, "{x:?}");
        let grad = logsumexp_backward(&tensor(1.0), &tensor(x), ..)?.to_f64_vec();
        assert!((grad.iter().sum::<f64>() - 1.0).abs() < 1e-15, "{x:?}: {grad:?}");
    }
    // The weights of large numbers are those of their differences, in every precision.
    for dtype in DType::FLOATS {
        let x = cast(&tensor([2048.0, 2064.0, 2048.0]), dtype)?;
        let one = Tensor::scalar_of(1.0, dtype)?;
        let grad = logsumexp_backward(&one, &x, ..)?.to_f64_vec();
        let small = (-16f64).exp() / (1.0 + 2.0 * (-16f64).exp());
        assert!((grad[0] / small - 1.0).abs() < 0.1, "{dtype}: {grad:?}");
    }
    Ok(())
}

#[test]
fn equal_numbers_have_finite_gradients_of_std_and_zeros_of_norm() -> Anything {
    for dtype in DType::FLOATS {
        let x = cast(&tensor([0.1; 4]), dtype)?;
        let g = Tensor::scalar_of(1e4, dtype)?;
        let y = std(&x, .., 0)?;
        let grad = std_backward(&g, &x, &y, .., 0)?;
        assert!(grad.to_f64_vec().iter().all(|v| v.is_finite()), "{dtype}");
        let zeros = x.zeros_like()?;
        let grad = norm_backward(&g, &zeros, &norm(&zeros, ..)?, ..)?;
        assert_eq!(grad.to_f64_vec(), [0.0; 4]);
        let tiny = cast(&tensor([1e-7, 0.0, 0.0, 0.0]), dtype)?;
        let grad = norm_backward(&g, &tiny, &norm(&tiny, ..)?, ..)?;
        assert!(grad.to_f64_vec().iter().all(|v| v.is_finite()), "{dtype}");
    }
    Ok(())
}

#[test]
fn variance_of_numbers_far_from_zero_keeps_its_digits_and_so_does_its_gradient() -> Anything {
    let x = tensor([1e8 + 4.0, 1e8 + 7.0, 1e8 + 13.0, 1e8 + 16.0]);
    assert_eq!(item(&variance(&x, .., 1)?), 30.0);
    let x = tensor([10000f32, 10001.0, 10002.0]);
    let grad = variance_backward(&tensor(1f32), &x, .., 0)?;
    assert_eq!(grad.to_vec::<f32>()?, [-2.0 / 3.0, 0.0, 2.0 / 3.0]);
    assert!(item(&variance(&tensor([1.0]), .., 1)?).is_nan());
    assert!(item(&std(&tensor([1.0, 2.0]), .., 3)?).is_nan());
    Ok(())
}

#[test]
fn reduced_precisions_accumulate_in_more_and_round_once() -> Anything {
    let x = Tensor::ones([4097], DType::F16)?;
    assert_eq!(sum(&x, ..)?.item::<f16>()?, f16::from_f32(4097.0));
    let x = Tensor::ones([1000], DType::BF16)?;
    assert_eq!(sum(&x, ..)?.item::<bf16>()?, bf16::from_f32(1000.0));
    let x = Tensor::full([4, 70_000], 1.0, DType::F16)?;
    assert_eq!(mean(&x, 1)?.to_vec::<f16>()?, [f16::ONE; 4]);
    let y = cumsum(&Tensor::ones([3000], DType::F16)?, 0)?;
    assert_eq!(y.to_vec::<f16>()?[2999], f16::from_f32(3000.0));
    let x = Tensor::full([300], 300.0, DType::F16)?;
    let length = item(&norm(&x, ..)?);
    assert!((length / (300.0 * 300f64.sqrt()) - 1.0).abs() < 1e-3);
    Ok(())
}

#[test]
fn whole_numbers_keep_their_type_and_wrap_around() -> Anything {
    let x = tensor([[100i8, 100], [-100, 27]]);
    assert_eq!(sum(&x, 1)?.to_vec::<i8>()?, [-56, -73]);
    assert_eq!(max_reduce(&x, 0)?.to_vec::<i8>()?, [100, 100]);
    assert_eq!(min_reduce(&x, ..)?.item::<i8>()?, -100);
    assert_eq!(cumsum(&x, 1)?.to_vec::<i8>()?, [100, -56, -100, -73]);
    let x = tensor([3u64, 5, u64::MAX]);
    assert_eq!(sum(&x, ..)?.item::<u64>()?, 7);
    assert_eq!(prod(&x, ..)?.item::<u64>()?, 0u64.wrapping_sub(15));
    assert_eq!(max_reduce(&x, ..)?.item::<u64>()?, u64::MAX);
    assert_eq!(argmax(&x, 0)?.item::<i64>()?, 2);
    for dtype in DType::INTS {
        let x = cast(&tensor([4.0, 1.0, 3.0]), dtype)?;
        for name in ["sum", "prod", "max_reduce", "min_reduce"] {
            assert_eq!(call(name, &x, &Params::new())?.dtype(), dtype, "{name}");
        }
        assert_eq!(sum(&x, ..)?.to_f64_vec(), [8.0]);
        assert!(sum_of_gradient_is_refused(&x), "{dtype}");
    }
    Ok(())
}

fn sum_of_gradient_is_refused(x: &Tensor) -> bool {
    let one = Tensor::ones([0usize; 0], x.dtype());
    let refused = one.and_then(|one| max_reduce_backward(&one, x, ..));
    matches!(refused, Err(Error::NotDifferentiable { .. }))
}

#[test]
fn axes_may_be_none_one_many_or_negative_and_kept() -> Anything {
    let x = Key::new(1).normal([2, 3, 4], DType::F64)?;
    assert_eq!(sum(&x, ..)?.shape(), []);
    assert_eq!(sum(&x, over(..).keepdims(true))?.shape(), [1, 1, 1]);
    assert_eq!(sum(&x, [0, -1])?.shape(), [3]);
    assert_eq!(sum(&x, over([0, -1]).keepdims(true))?.shape(), [1, 3, 1]);
    let none: [i64; 0] = [];
    assert_eq!(bits(&sum(&x, none)?), bits(&x));
    assert_eq!(argmax(&x, over(-2).keepdims(true))?.shape(), [2, 1, 4]);
    assert_eq!(argmax(&x, over(None).keepdims(true))?.shape(), [1, 1, 1]);
    let scalar = tensor(2.0);
    for name in FOLDS {
        assert_eq!(call(name, &scalar, &Params::new())?.shape(), [], "{name}");
    }
    assert_eq!(argmin(&scalar, None)?.item::<i64>()?, 0);
    let grad = sum_backward(&tensor([1.0, 2.0, 3.0]), &[2, 3, 4], [0, 2])?;
    assert_eq!(grad.shape(), [2, 3, 4]);
    assert_eq!(grad.strides(), [0, 1, 0]);
    Ok(())
}

#[test]
fn the_gradient_of_a_running_sum_runs_from_the_other_end() -> Anything {
    let g = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert_eq!(cumsum_backward(&g, 1)?.to_vec::<f64>()?, [6.0, 5.0, 3.0, 15.0, 11.0, 6.0]);
    assert_eq!(cumsum_backward(&g, 0)?.to_vec::<f64>()?, [5.0, 7.0, 9.0, 4.0, 5.0, 6.0]);
    let x = repeated(0.1, 1_000_000, DType::F64)?;
    let last = cumsum(&x, 0)?.to_vec::<f64>()?[999_999];
    assert!((last - 1e5).abs() < 1e-10, "{last}");
    Ok(())
}

#[test]
fn every_bad_call_is_refused_with_the_sentence_that_the_record_promises() -> Anything {
    for name in ALL {
        let record = catalogue::find(name)?;
        let mut bad = Bad::default();
        (record.errors)(&mut bad);
        for (i, wrong) in bad.finish().into_iter().enumerate() {
            let inputs: Vec<&Tensor> = wrong.inputs.iter().collect();
            match record.call(&inputs, &wrong.params) {
                Ok(_) => panic!("{name} {i}: accepted"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains(wrong.message), "{name} {i}: {said}");
                    assert!(said.starts_with(name), "{name} {i}: {said}");
                }
            }
        }
    }
    let x = Tensor::ones([2, 3], DType::F64)?;
    let wrong = max_reduce_backward(&x, &x, 0).unwrap_err().to_string();
    assert_eq!(wrong, "max_reduce_backward: grad_output has shape [2, 3], expected [3]");
    let y = Tensor::ones([1, 3], DType::F64)?;
    let wrong = norm_backward(&y, &x, &y, 0).unwrap_err().to_string();
    assert!(wrong.contains("output has shape [1, 3], expected [3]"), "{wrong}");
    Ok(())
}

#[test]
fn a_mean_is_right_where_the_sum_of_many_overflows() -> Anything {
    // Enough numbers for several threads, along either axis and both.
    let x = Tensor::full([1009, 211], 1.5e308, DType::F64)?;
    for axes in [Axes::from(..), Axes::from(0), Axes::from(1)] {
        let means = mean(&x, axes)?;
        for m in means.to_vec::<f64>()? {
            assert!((m / 1.5e308 - 1.0).abs() < 1e-14, "{m:e}");
        }
    }
    Ok(())
}

#[test]
fn running_sums_of_16_bits_are_rounded_once_however_close_to_a_tie() -> Anything {
    // Just above the middle between 1 and the next number.
    for (dtype, half, least, want) in
        [(DType::BF16, -8, -30, 1.0 + 2f64.powi(-7)), (DType::F16, -11, -24, 1.0 + 2f64.powi(-10))]
    {
        let x = cast(&tensor([1.0, 2f64.powi(half), 2f64.powi(least)]), dtype)?;
        assert_eq!(cumsum(&x, 0)?.to_f64_vec(), [1.0, 1.0, want], "{dtype}");
    }
    Ok(())
}
