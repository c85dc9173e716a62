//! Maps and folds become few kernels, in an order in which each finds what it reads, and bits stay.

use extensor::autodiff::{grad, leaves, value_and_grad};
use extensor::compile::compile;
use extensor::ops;
use extensor::prelude::*;
use extensor::{Result, threads};

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Key::new(seed).normal(shape, DType::F32).unwrap()
}

fn bits<T: Tree>(tree: &T) -> Vec<Vec<u8>> {
    leaves(tree).into_iter().map(|x| x.to_bytes().unwrap()).collect()
}

/// Compares a compiled function with itself on 1 and 2 threads, and says how many kernels it became.
#[track_caller]
fn kernels<A: Tree, B: Tree>(f: impl Fn(&A) -> Result<B> + Copy, argument: &A) -> (usize, String) {
    let compiled = compile(f);
    for count in [1, 2] {
        let (got, want) =
            threads::with(count, || (compiled.call(argument).unwrap(), f(argument).unwrap()));
        assert_eq!(bits(&got), bits(&want), "{}", compiled.explain());
    }
    let text = compiled.explain();
    let count = text.split(" kernels").next().and_then(|n| n.trim().parse().ok());
    (count.unwrap_or_else(|| panic!("{text}")), text)
}

type Three = (Tensor, Tensor, Tensor);

fn chain((x, a, b): &Three) -> Result<Tensor> {
    let y = a.multiply(x)?.add(b)?.tanh()?.multiply(&x.sigmoid()?)?;
    y.subtract(&x.multiply(x)?.negate()?.exp()?)
}

#[test]
fn a_chain_is_one_kernel_forward_and_one_with_its_gradient() {
    for len in [16, 5000, 3_000_000] {
        let argument = (normal(1, &[len]), tensor(1.3f32), tensor(0.2f32));
        let (count, text) = kernels(chain, &argument);
        assert_eq!(count, 1, "{text}");
        let slope = |(x, a, b): &Three| {
            let loss = |x: &Tensor| chain(&(x.clone(), a.clone(), b.clone()))?.sum(..);
            value_and_grad(loss, x)
        };
        let (count, text) = kernels(slope, &argument);
        assert_eq!(count, 1, "{text}");
        assert!(text.contains("Σ "), "{text}");
        // By all three: two sums more, of which each gradient's own elements are never written.
        let all = |x: &Three| value_and_grad(|x: &Three| chain(x)?.sum(..), x);
        let (count, text) = kernels(all, &argument);
        assert_eq!(count, 1, "{text}");
    }
}

#[test]
fn maps_of_maps_of_other_arrays_become_one() {
    let f =
        |(x, y): &(Tensor, Tensor)| x.exp()?.add(x)?.multiply(&y.tanh()?.subtract(y)?)?.square();
    let (count, text) = kernels(f, &(normal(1, &[40, 50]), normal(2, &[40, 50])));
    assert_eq!(count, 1, "{text}");
}

#[test]
fn what_depends_on_a_fold_of_a_map_waits_for_it() {
    // The largest is read between maps that read the same array.
    let softmax = |x: &Tensor| {
        let y = x.multiply(x)?;
        let shifted = y.subtract(&ops::max_reduce(&y, -1)?.expand_dims(-1)?)?.exp()?;
        let sum = shifted.sum(-1)?.expand_dims(-1)?;
        vec_of([shifted.divide(&sum)?, y.add(x)?, x.tanh()?])
    };
    for shape in [[3, 5], [70, 600]] {
        let (count, text) = kernels(softmax, &normal(3, &shape));
        assert!((3..=4).contains(&count), "{text}");
    }
}

fn vec_of<const N: usize>(all: [Tensor; N]) -> Result<Vec<Tensor>> {
    Ok(all.into())
}

#[test]
fn no_two_kernels_wait_for_each_other() {
    // Each of two maps reads, by way of a product or a fold, what the other's neighbour makes.
    let crossed = |(x, w): &(Tensor, Tensor)| {
        let (a, b) = (x.tanh()?, x.exp()?);
        let (c, d) = (a.matmul(w)?, b.matmul(w)?);
        let (e, f) = (c.multiply(&b)?, d.multiply(&a)?);
        let g = e.sum(0)?.add(&f.sum(0)?)?;
        let h = e.subtract(&g)?.multiply(&f)?;
        vec_of([h.sum(..)?, h.add(&a)?, g, f.matmul(&h)?.cos()?, b])
    };
    let argument = (normal(1, &[9, 9]), normal(2, &[9, 9]));
    kernels(crossed, &argument);
    let slope = |x: &(Tensor, Tensor)| {
        grad(|x: &(Tensor, Tensor)| crossed(x)?[3].add(&crossed(x)?[0])?.sum(..), x)
    };
    kernels(slope, &argument);
}

#[test]
fn folds_of_maps_are_never_written_whatever_the_axes() -> Result<()> {
    let shapes: [&[usize]; 4] = [&[40, 700], &[5, 3, 300], &[2, 4100, 3], &[3, 2, 5, 70]];
    for shape in shapes {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
            let (x, y) = (normal(1, shape).cast(dtype)?, normal(2, shape).cast(dtype)?);
            for axis in 0..shape.len() as i64 {
                let f = |(x, y): &(Tensor, Tensor)| {
                    let z = x.multiply(y)?.tanh()?;
                    let w = z.square()?;
                    vec_of([
                        z.sum(axis)?,
                        w.mean(axis)?,
                        ops::max_reduce(&z, axis)?,
                        ops::min_reduce(&w, axis)?,
                        w.add(&z)?,
                    ])
                };
                let (count, text) = kernels(f, &(x.clone(), y.clone()));
                assert_eq!(count, 1, "{text}");
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_written_anyway_is_folded_on_the_way_only_past_the_caches() {
    let f = |x: &Tensor| {
        let y = x.multiply(x)?;
        vec_of([y.sum(0)?, y])
    };
    for (rows, want) in [(100, 1), (3000, 2), (1 << 19, 1)] {
        let (count, text) = kernels(f, &normal(1, &[rows, 10]));
        assert_eq!(count, want, "{text}");
    }
}

#[test]
fn gradients_of_broadcast_operands_are_one_pass() {
    let f = |(x, w, b): &Three| {
        let loss = |(w, b): &(Tensor, Tensor)| x.multiply(w)?.add(b)?.sigmoid()?.sum(..);
        grad(loss, &(w.clone(), b.clone()))
    };
    for shape in [[8, 6], [300, 520], [5000, 17]] {
        let argument = (normal(1, &shape), normal(2, &shape[1..]), normal(3, &shape[1..]));
        let (count, text) = kernels(f, &argument);
        assert_eq!(count, 1, "{text}");
    }
}

#[test]
fn a_loss_takes_its_predictions_formulas_with_it() {
    let f = |(x, y, w): &Three| {
        let loss = |x: &Tensor| ops::mean_squared_error(&x.multiply(w)?.tanh()?, y, Reduce::Mean);
        value_and_grad(loss, x)
    };
    for len in [7, 1024, 30_000] {
        let argument = (normal(1, &[len]), normal(2, &[len]), normal(3, &[len]));
        let (count, text) = kernels(f, &argument);
        assert_eq!(count, 1, "{text}");
    }
}

#[test]
fn a_transposed_array_is_read_as_it_lies() {
    let f = |(x, y): &(Tensor, Tensor)| {
        let z = x.multiply(&y.transpose(..)?)?.exp()?;
        vec_of([z.sum(0)?, z])
    };
    kernels(f, &(normal(1, &[90, 130]), normal(2, &[130, 90])));
}

#[test]
fn the_first_of_several_errors_is_the_eager_ones() -> Result<()> {
    // The map before the first index reads what the second makes too, if nothing fails.
    let f = |(x, i, j): &Three| {
        let first = x.exp()?.take(i, 0)?;
        let second = x.sin()?.take(j, 0)?;
        first.add(&second)
    };
    let x = normal(1, &[4]);
    let (good, bad, worse) = (tensor([1i64, 2]), tensor([1i64, 9]), tensor([77i64, 0]));
    let compiled = compile(f);
    for (i, j) in [(&good, &bad), (&bad, &good), (&bad, &worse), (&worse, &bad)] {
        let argument = (x.clone(), i.clone(), j.clone());
        let (got, want) = (compiled.call(&argument).unwrap_err(), f(&argument).unwrap_err());
        assert_eq!(got.to_string(), want.to_string());
    }
    let argument = (x, good.clone(), good);
    assert_eq!(bits(&compiled.call(&argument)?), bits(&f(&argument)?));
    Ok(())
}

#[test]
fn a_hundred_layers_of_a_few_numbers_are_one_kernel() {
    let f = |x: &Three| {
        let loss = |(h, w, b): &Three| {
            let mut h = h.clone();
            for _ in 0..100 {
                h = h.multiply(w)?.add(b)?.tanh()?;
            }
            h.sum(..)
        };
        value_and_grad(loss, x)
    };
    let (count, text) = kernels(f, &(normal(1, &[16]), normal(2, &[16]), normal(3, &[16])));
    assert_eq!(count, 1, "{text}");
}
