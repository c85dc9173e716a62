//! Shape and indexing operations: what a view shares, what an index picks, what a cast rounds to.

mod casting;
mod indexing;
mod joining;
mod views;

use extensor::ops::operation::{apply, backward, forward_derivative};
use extensor::ops::record::Family;
use extensor::ops::samples::{Bad, Sample, Sampler};
use extensor::ops::*;
use extensor::*;

fn records() -> impl Iterator<Item = &'static record::Record> {
    let all = catalogue::CATALOGUE.iter().copied();
    all.filter(|r| r.family == Family::Shape || r.name == "transpose")
}

fn message<T>(result: Result<T>) -> String {
    result.err().map(|e| e.to_string()).unwrap_or_default()
}

fn samples(record: &record::Record) -> Vec<Sample> {
    let mut sampler = Sampler::new(Key::new(11));
    (record.samples)(&mut sampler);
    sampler.finish()
}

/// 0, 1, 2, … in the given shape and dtype.
fn counting(shape: &[usize], dtype: DType) -> Tensor {
    let len: usize = shape.iter().product();
    let flat = Tensor::arange(0.0, len as f64, 1.0, DType::I64).unwrap();
    cast(&reshape(&flat, shape).unwrap(), dtype).unwrap()
}

/// The same values as a view with other strides: every second element of every second row, backwards.
fn strided(x: &Tensor) -> Tensor {
    let order: Vec<usize> = (0..x.ndim()).rev().collect();
    let mut y = transpose(x, &order).unwrap();
    for axis in 0..y.ndim() {
        let mut doubled = expand_dims(&y, axis + 1).unwrap();
        let mut pads = vec![(0, 0); doubled.ndim()];
        pads[axis + 1] = (0, 1);
        doubled = pad(&flip(&doubled, axis).unwrap(), &pads, 0.0).unwrap();
        let wide = flatten(&doubled, axis as i64, axis as i64 + 1).unwrap();
        let even = slice(&wide, axis as i64, None, None, 2).unwrap();
        y = flip(&even, axis).unwrap();
    }
    transpose(&y, &order).unwrap()
}

/// All indices of a shape in row-major order.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in shape {
        let longer = |at: Vec<usize>| (0..size).map(move |i| [at.clone(), vec![i]].concat());
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// A small random generator for shapes and parameters.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
    fn shape(&mut self, ndim: usize) -> Vec<usize> {
        (0..ndim).map(|_| [0, 1, 2, 3, 4, 5][self.below(6)]).collect()
    }
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    a.to_f64_vec().iter().zip(b.to_f64_vec()).map(|(x, y)| x * y).sum()
}

/// The values of element numbers `f(index)` of `x`, for every index of `shape`.
fn picked(x: &Tensor, shape: &[usize], f: impl Fn(&[usize]) -> Vec<usize>) -> Vec<i64> {
    let all = indices(shape);
    all.iter().map(|at| x.get::<i64>(&f(at)).unwrap()).collect()
}

/// A tensor of `i64` of a random shape, in one of several layouts.
fn any_tensor(dice: &mut Dice, shape: &[usize]) -> Tensor {
    let x = counting(shape, DType::I64);
    match dice.below(3) {
        0 => x,
        1 => strided(&x),
        _ => {
            let order: Vec<usize> = (0..x.ndim()).rev().collect();
            transpose(&transpose(&x, None).unwrap().contiguous().unwrap(), &order).unwrap()
        }
    }
}

#[test]
fn the_strided_stand_in_has_the_values_but_not_the_layout() {
    let x = counting(&[3, 4, 5], DType::F32);
    let y = strided(&x);
    assert!(!y.is_contiguous());
    assert_eq!(y.difference(&x, Tolerance::EXACT), None);
}

#[test]
fn the_transposed_of_the_derivative_is_the_backward_of_every_sample() {
    for record in records().filter(|r| r.is_differentiable()) {
        for (n, sample) in samples(record).into_iter().enumerate() {
            let inputs: Vec<&Tensor> = sample.inputs.iter().collect();
            let op = record.operation(&sample.params).unwrap();
            let outputs = apply(&*op, &inputs).unwrap();
            let outputs: Vec<&Tensor> = outputs.iter().collect();
            let wanted: Vec<bool> =
                (0..inputs.len()).map(|i| record.differentiable_input(i)).collect();
            let draw = |i: usize, like: &Tensor| {
                let key = Key::new(5).fold_in((100 * n + i) as u64);
                key.normal(like.shape().clone(), like.dtype()).unwrap()
            };
            let tangents: Vec<Option<Tensor>> =
                (0..inputs.len()).map(|i| wanted[i].then(|| draw(i, inputs[i]))).collect();
            let tangents: Vec<Option<&Tensor>> = tangents.iter().map(Option::as_ref).collect();
            // Auxiliary outputs have no gradient.
            let results = &outputs[..record.results(outputs.len())];
            let cotangents: Vec<Tensor> =
                results.iter().enumerate().map(|(i, y)| draw(50 + i, y)).collect();
            let cotangents: Vec<&Tensor> = cotangents.iter().collect();
            let along = forward_derivative(&*op, &inputs, &outputs, &tangents).unwrap();
            let grads = backward(&*op, &cotangents, &inputs, &outputs, &wanted).unwrap();
            let left: f64 = along.iter().zip(&cotangents).map(|(a, c)| dot(a, c)).sum();
            let right: f64 = grads
                .iter()
                .zip(&tangents)
                .filter_map(|(g, t)| Some(dot(g.as_ref()?, (*t)?)))
                .sum();
            let bound = if record.name == "cast" { 0.05 } else { 1e-10 };
            assert!(
                (left - right).abs() <= bound * (1.0 + left.abs()),
                "{} {n}: {left} {right}",
                record.name
            );
            for (grad, (input, wanted)) in grads.iter().zip(inputs.iter().zip(&wanted)) {
                assert_eq!(grad.is_some(), *wanted, "{}", record.name);
                if let Some(grad) = grad {
                    assert_eq!(grad.shape(), input.shape(), "{}", record.name);
                }
            }
        }
    }
}

#[test]
fn every_bad_call_of_the_records_fails_with_its_message() {
    for record in records() {
        let mut bad = Bad::default();
        (record.errors)(&mut bad);
        let calls = bad.finish();
        assert!(!calls.is_empty(), "{}", record.name);
        for call in calls {
            let inputs: Vec<&Tensor> = call.inputs.iter().collect();
            let error = record.call(&inputs, &call.params).expect_err(record.name).to_string();
            assert!(error.contains(call.message), "{error:?} lacks {:?}", call.message);
            assert!(error.starts_with(record.name), "{error}");
        }
    }
}

#[test]
fn every_dtype_moves_and_no_layout_changes_the_result() {
    let moves = records().filter(|r| !["cast", "one_hot"].contains(&r.name));
    for record in moves {
        for sample in samples(record) {
            for dtype in DType::ALL {
                // Those that add up, or that NaN means something to.
                let numbers = ["scatter_add", "scatter", "topk", "kthvalue", "cummax", "cummin"];
                let whole = record.name == "scatter" && !dtype.is_float();
                if whole || numbers.contains(&record.name) && dtype == DType::Bool {
                    continue;
                }
                let given: Vec<Tensor> =
                    sample
                        .inputs
                        .iter()
                        .map(|x| {
                            if x.dtype().is_float() {
                                counting(x.shape(), dtype)
                            } else {
                                x.clone()
                            }
                        })
                        .collect();
                let params = if record.name == "pad" {
                    let pads = sample.params.iter().find(|(name, _)| *name == "pads").unwrap().1;
                    params::Params::new().with("pads", pads.clone()).with("value", 1.0)
                } else {
                    sample.params.clone()
                };
                let other: Vec<Tensor> = given.iter().map(strided).collect();
                let plain = record.call(&given.iter().collect::<Vec<_>>(), &params).unwrap();
                let viewed = record.call(&other.iter().collect::<Vec<_>>(), &params).unwrap();
                // Positions are of one dtype whatever is looked for.
                let positions = ["argsort", "searchsorted"].contains(&record.name);
                let results = if positions { 0 } else { record.results(plain.len()) };
                for (k, (a, b)) in plain.iter().zip(&viewed).enumerate() {
                    assert_eq!(a.dtype(), if k < results { dtype } else { DType::I64 });
                    assert_eq!(a.difference(b, Tolerance::EXACT), None, "{} {dtype}", record.name);
                }
            }
        }
    }
}
