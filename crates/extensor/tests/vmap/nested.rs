//! `vmap` inside and outside of the other transformations, of compiled functions, and of itself.

use crate::close::{close, nth};
use extensor::autodiff::*;
use extensor::prelude::*;
use extensor::{compile, ops};

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Key::new(seed).normal(shape, DType::F64).unwrap()
}

/// A small network and a loss of one example.
fn loss((w, v): &(Tensor, Tensor), x: &Tensor) -> Result<Tensor> {
    let h = x.matmul(w)?.tanh()?;
    h.matmul(v)?.softmax(-1)?.log()?.square()?.mean(..)
}

fn model() -> (Tensor, Tensor) {
    (normal(1, &[4, 5]), normal(2, &[5, 3]))
}

#[track_caller]
fn same(got: &Tensor, want: &[Tensor]) {
    close("", got, &ops::stack(want, 0).unwrap()).unwrap();
}

#[test]
fn a_gradient_for_each_example_is_that_of_a_loop() -> Result<()> {
    let (model, x) = (model(), normal(3, &[6, 4]));
    let (dw, dv) = vmap(|x: &Tensor| grad(|m| loss(m, x), &model), &x)?;
    let each: Vec<_> =
        (0..6).map(|i| grad(|m| loss(m, &nth(&x, i)), &model)).collect::<Result<_>>()?;
    same(&dw, &each.iter().map(|g| g.0.clone()).collect::<Vec<_>>());
    same(&dv, &each.iter().map(|g| g.1.clone()).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn an_ensemble_is_differentiated_as_its_models_are() -> Result<()> {
    let models = (normal(1, &[3, 4, 5]), normal(2, &[3, 5, 3]));
    let x = normal(3, &[7, 4]);
    let f = |m: &(Tensor, Tensor)| grad(|m| loss(m, &x), m);
    let (dw, dv) = vmap(f, &models)?;
    let one = |i| (nth(&models.0, i), nth(&models.1, i));
    let each: Vec<_> = (0..3).map(|i| f(&one(i))).collect::<Result<_>>()?;
    same(&dw, &each.iter().map(|g| g.0.clone()).collect::<Vec<_>>());
    same(&dv, &each.iter().map(|g| g.1.clone()).collect::<Vec<_>>());
    // Outside: the gradient of the sum of the losses.
    let total = |m: &_| vmap(|m: &(Tensor, Tensor)| loss(m, &x), m)?.sum(..);
    let (dw, _) = grad(total, &models)?;
    same(&dw, &each.iter().map(|g| g.0.clone()).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn vmap_of_vmap_is_two_loops() -> Result<()> {
    let (a, b) = (normal(1, &[3, 4]), normal(2, &[5, 4]));
    let f = |a: &Tensor, b: &Tensor| grad(|a| a.multiply(b)?.sin()?.sum(..), a);
    let y = vmap(|a: &Tensor| vmap(|b: &Tensor| f(a, b), &b), &a)?;
    assert_eq!(y.shape(), [3, 5, 4]);
    for i in 0..3 {
        let want: Vec<Tensor> =
            (0..5).map(|j| f(&nth(&a, i), &nth(&b, j))).collect::<Result<_>>()?;
        same(&nth(&y, i), &want);
    }
    // The order of the loops does not matter.
    let other = vmap(|b: &Tensor| vmap(|a: &Tensor| f(a, b), &a), &b)?;
    close("", &other.transpose([1, 0, 2])?, &y).unwrap();
    Ok(())
}

#[test]
fn products_with_hessians_are_mapped_in_both_modes() -> Result<()> {
    let (x, v) = (normal(1, &[4, 3]), normal(2, &[4, 3]));
    let f = |x: &Tensor| x.softmax(-1)?.square()?.prod(..)?.exp();
    let forward = vmap(|(x, v): &(Tensor, Tensor)| hvp(f, x, v), &(x.clone(), v.clone()))?;
    let reverse = vmap(|(x, v): &(Tensor, Tensor)| hvp_reverse(f, x, v), &(x.clone(), v.clone()))?;
    let want: Vec<_> = (0..4).map(|i| hvp(f, &nth(&x, i), &nth(&v, i))).collect::<Result<_>>()?;
    same(&forward, &want);
    same(&reverse, &want);
    // Each column of a Hessian at once.
    let h = vmap(|v: &Tensor| hvp(f, &nth(&x, 0), v), &Tensor::eye(3, 3, DType::F64)?)?;
    close("", &h, &hessian(f, &nth(&x, 0))?).unwrap();
    Ok(())
}

#[test]
fn jacobians_are_mapped_and_made_by_vmap() -> Result<()> {
    let x = normal(1, &[4, 3]);
    let f = |x: &Tensor| x.cumsum(0)?.sin()?.multiply(x);
    let all = vmap(|x: &Tensor| jacobian(f, x), &x)?;
    same(&all, &(0..4).map(|i| jacobian(f, &nth(&x, i))).collect::<Result<Vec<_>>>()?);
    let one = nth(&x, 0);
    let (_, pullback) = vjp(f, &one)?;
    let rows = vmap(|g: &Tensor| pullback.call(g), &Tensor::eye(3, 3, DType::F64)?)?;
    close("", &rows, &jacobian(f, &one)?).unwrap();
    Ok(())
}

#[test]
fn compiled_functions_contain_vmap_and_are_mapped() -> Result<()> {
    let (model, x) = (model(), normal(3, &[6, 4]));
    let each = |(m, x): &((Tensor, Tensor), Tensor)| vmap(|x: &Tensor| grad(|m| loss(m, x), m), x);
    let argument = (model.clone(), x.clone());
    let want = each(&argument)?;
    let compiled = compile::compile(each);
    for _ in 0..2 {
        let got = compiled.call(&argument)?;
        close("", &got.0, &want.0).unwrap();
        close("", &got.1, &want.1).unwrap();
    }
    let one = compile::compile(move |x: &Tensor| loss(&model, x));
    let got = vmap(|x: &Tensor| one.call(x), &x)?;
    same(&got, &(0..6).map(|i| one.call(&nth(&x, i))).collect::<Result<Vec<_>>>()?);
    Ok(())
}

#[test]
fn custom_rules_are_rules_of_one_example() -> Result<()> {
    let w = normal(7, &[3]);
    // A gradient that no other rule would give.
    let f = custom_vjp(
        |(x, w): &(Tensor, Tensor)| Ok((x.multiply(w)?.sum(..)?, (x.clone(), w.clone()))),
        |(x, w): &(Tensor, Tensor), g: &Tensor| {
            assert_eq!(x.shape(), [3]);
            Ok((g.multiply(&(w * 2.0))?, g.multiply(&(x * 3.0))?))
        },
    );
    let x = normal(8, &[4, 3]);
    let (dx, dw) = vmap(|x: &Tensor| grad(&f, &(x.clone(), w.clone())), &x)?;
    let each: Vec<_> = (0..4).map(|i| grad(&f, &(nth(&x, i), w.clone()))).collect::<Result<_>>()?;
    same(&dx, &each.iter().map(|g| g.0.clone()).collect::<Vec<_>>());
    same(&dw, &each.iter().map(|g| g.1.clone()).collect::<Vec<_>>());
    // With vmap inside, too.
    let total =
        |(x, w): &(Tensor, Tensor)| vmap(|x: &Tensor| f(&(x.clone(), w.clone())), x)?.sum(..);
    let (dx, dw) = grad(total, &(x.clone(), w.clone()))?;
    same(&dx, &each.iter().map(|g| g.0.clone()).collect::<Vec<_>>());
    let sum = ops::stack(&each.iter().map(|g| g.1.clone()).collect::<Vec<_>>(), 0)?.sum(0)?;
    close("", &dw, &sum).unwrap();

    let f = custom_jvp(
        |x: &Tensor| x.square()?.sum(..),
        |x: &Tensor, t: &Tensor| {
            assert_eq!(x.shape(), [3]);
            (x * 5.0).multiply(t)?.sum(..)
        },
    );
    let inside = vmap(|x: &Tensor| grad(&f, x), &x)?;
    close("", &inside, &(&x * 5.0)).unwrap();
    let outside = grad(|x: &Tensor| vmap(|x: &Tensor| f(x), x)?.sum(..), &x)?;
    close("", &outside, &(&x * 5.0)).unwrap();
    let along = vmap(|x: &Tensor| Ok(jvp(&f, x, x)?.1), &x)?;
    close("", &along, &(&x.square()? * 5.0).sum(1)?).unwrap();
    Ok(())
}

#[test]
fn checkpoints_are_computed_again_as_batches() -> Result<()> {
    let (model, x) = (model(), normal(3, &[6, 4]));
    let f = move |(m, x): &((Tensor, Tensor), Tensor)| loss(m, x);
    let plain = |m: &(Tensor, Tensor)| vmap(|x: &Tensor| loss(m, x), &x)?.sum(..);
    let saved = |m: &(Tensor, Tensor)| {
        vmap(|x: &Tensor| checkpoint(f, &(m.clone(), x.clone())), &x)?.sum(..)
    };
    let (want, got) = (grad(plain, &model)?, grad(saved, &model)?);
    close("", &got.0, &want.0).unwrap();
    let inside = vmap(|x: &Tensor| grad(|m| checkpoint(f, &(m.clone(), x.clone())), &model), &x)?;
    close("", &inside.0.sum(0)?, &want.0).unwrap();
    Ok(())
}

#[test]
fn gradients_are_stopped_for_each_example() -> Result<()> {
    let x = normal(1, &[3, 2]);
    let f = |x: &Tensor| x.multiply(&stop_gradient(x))?.sum(..);
    close("", &vmap(|x: &Tensor| grad(f, x), &x)?, &x).unwrap();
    let outside = grad(|x: &Tensor| vmap(|x: &Tensor| f(x), x)?.sum(..), &x)?;
    close("", &outside, &x).unwrap();
    Ok(())
}

#[test]
fn gradients_are_clipped_for_each_example() -> Result<()> {
    let x = extensor::tensor([[3.0, 4.0], [0.3, 0.4]]);
    let clipped = vmap(
        |x: &Tensor| {
            let g = grad(|x| (0.5 * &x.square()?).sum(..), x)?;
            Ok(extensor::gradients::clip_grad_norm(&g, 1.0)?.0)
        },
        &x,
    )?;
    let want = extensor::tensor([[0.6, 0.8], [0.3, 0.4]]);
    close("", &clipped, &want).unwrap();
    Ok(())
}
