//! Second derivatives without the whole Hessian are those of the whole Hessian.

use extensor::autodiff::{
    fisher_vp, gauss_newton_vp, grad, gradient_penalty, hessian, hessian_diagonal,
    hessian_diagonal_probed, jacobian, laplacian, laplacian_probed,
};
use extensor::check::{Options, assert_close, assert_close_within, check_grad};
use extensor::ops::{Reduce, broadcast_shapes};
use extensor::{DType, Key, Result, Tensor, Tolerance, Tree, tensor};

/// A function whose Hessian is dense and differs from place to place.
fn f(x: &Tensor) -> Result<Tensor> {
    x.sin()?.multiply(&x.square()?.sum(..)?)?.tanh()?.sum(..)
}

fn diagonal(matrix: &Tensor, n: usize) -> Result<Vec<f64>> {
    let all = matrix.to_vec::<f64>()?;
    Ok((0..n).map(|i| all[i * n + i]).collect())
}

#[test]
fn the_diagonal_and_its_sum_are_those_of_the_hessian() -> Result<()> {
    let x = Key::new(1).normal([2, 3], DType::F64)?;
    let want = diagonal(&hessian(f, &x)?, 6)?;
    let found = hessian_diagonal(f, &x)?;
    assert_close(&found, &tensor(want.as_slice()).reshape([2, 3])?);
    assert_close(&laplacian(f, &x)?, &tensor(want.iter().sum::<f64>()));
    Ok(())
}

#[test]
fn a_tree_has_a_diagonal_in_its_structure_and_buffers_stay() -> Result<()> {
    #[derive(Tree, Clone)]
    struct Model {
        a: Tensor,
        #[tree(buffer)]
        steps: Tensor,
        b: Vec<Tensor>,
    }
    let model = Model {
        a: tensor([1.0, -2.0]),
        steps: tensor([7i64]),
        b: vec![tensor(3.0), tensor([[0.5]])],
    };
    // a²·b₀ + a·b₁³: by a 2b₀, by b₀ nothing, by b₁ 6·Σa·b₁.
    let loss = |m: &Model| {
        let first = m.a.square()?.multiply(&m.b[0])?.sum(..)?;
        first.add(&m.a.multiply(&(&m.b[1] * &m.b[1] * &m.b[1]))?.sum(..)?)
    };
    let found = hessian_diagonal(loss, &model)?;
    assert_eq!(found.a.to_vec::<f64>()?, [6.0, 6.0]);
    assert_eq!(found.b[0].item::<f64>()?, 0.0);
    assert_close(&found.b[1], &tensor([[-3.0]]));
    assert_eq!(found.steps.to_vec::<i64>()?, [7]);
    let probed = hessian_diagonal_probed(loss, &model, Key::new(2), 3)?;
    assert_eq!(probed.steps.to_vec::<i64>()?, [7]);
    assert_eq!(probed.a.shape(), [2]);
    let empty = hessian_diagonal(|x: &Tensor| x.sum(..), &Tensor::zeros([0, 3], DType::F32)?)?;
    assert_eq!(empty.shape(), [0, 3]);
    Ok(())
}

#[test]
fn probes_are_right_on_average_and_none_is_an_error() -> Result<()> {
    let x = Key::new(3).normal([6], DType::F64)?;
    let want = hessian_diagonal(f, &x)?;
    // The error of an element of one probe is that of the sum of its row's other elements; the mean
    // of 4000 has a 63rd of it.
    let whole = hessian(f, &x)?.square()?.sum(1)?.sqrt()?;
    let found = hessian_diagonal_probed(f, &x, Key::new(4), 4000)?;
    let errors = found.subtract(&want)?.abs()?.divide(&whole)?.to_vec::<f64>()?;
    assert!(errors.iter().all(|error| *error < 4.0 / 63.0), "{errors:?}");
    assert!(errors.iter().any(|error| *error > 0.0), "an estimate is not exact");
    let trace = laplacian_probed(f, &x, Key::new(4), 4000)?;
    assert_close(&trace, &found.sum(..)?);
    assert!(hessian_diagonal_probed(f, &x, Key::new(4), 0).is_err());
    Ok(())
}

#[test]
fn curvature_products_are_those_of_the_matrices() -> Result<()> {
    let [a, b, c] = Key::new(5).split();
    let (w, v) = (a.normal([4], DType::F64)?, b.normal([4], DType::F64)?);
    let inputs = c.normal([3, 2], DType::F64)?;
    let model = |w: &Tensor| inputs.matmul(&w.reshape([2, 2])?)?.tanh()?.square();
    let j = jacobian(model, &w)?.reshape([6, 4])?;
    let loss = |y: &Tensor| y.exp()?.sum(..);
    let h = hessian(loss, &model(&w)?)?.reshape([6, 6])?;
    let want = j.transpose(..)?.matmul(&h.matmul(&j.matmul(&v)?)?)?;
    assert_close(&gauss_newton_vp(model, loss, &w, &v)?, &want);

    let p = model(&w)?.softmax(-1)?.to_vec::<f64>()?;
    let mut matrix = vec![0.0; 36];
    for row in 0..3 {
        for a in 0..2 {
            for b in 0..2 {
                let (pa, pb) = (p[row * 2 + a], p[row * 2 + b]);
                let value = if a == b { pa } else { 0.0 } - pa * pb;
                matrix[(row * 2 + a) * 6 + row * 2 + b] = value / 3.0;
            }
        }
    }
    let matrix = tensor(matrix.as_slice()).reshape([6, 6])?;
    let want = j.transpose(..)?.matmul(&matrix.matmul(&j.matmul(&v)?)?)?;
    assert_close(&fisher_vp(model, &w, &v)?, &want);
    // That of the mean cross-entropy, whatever the labels.
    let labels = tensor([0i64, 1, 1]);
    let entropy = |logits: &Tensor| logits.cross_entropy(&labels, Reduce::Mean);
    assert_close(&gauss_newton_vp(model, entropy, &w, &v)?, &want);
    Ok(())
}

#[test]
fn what_is_made_of_second_derivatives_is_differentiated_again() -> Result<()> {
    let x = Key::new(6).normal([3], DType::F64)?;
    let options = Options::named("laplacian");
    let report = check_grad(|x: &Tensor| laplacian(f, x), &x, &options)?;
    assert!(report.passed(), "{report}");
    // (‖∇s‖ − 2)² of the scores x·w + (x·w)², whose slope is |1 + 2x·w|·‖w‖.
    let batch = tensor([[0.5, -0.3], [0.1, 0.8], [1.2, 0.4]]);
    let penalty = |w: &Tensor| {
        let score = |x: &Tensor| x.matmul(w)?.square()?.add(&x.matmul(w)?);
        gradient_penalty(score, &batch, 2.0)
    };
    let w = tensor([0.6, 0.8]);
    let dots = [0.5 * 0.6 - 0.3 * 0.8, 0.1 * 0.6 + 0.8 * 0.8, 1.2 * 0.6 + 0.4 * 0.8];
    let want = dots.iter().map(|d: &f64| ((1.0 + 2.0 * d).abs() - 2.0).powi(2)).sum::<f64>() / 3.0;
    assert_close(&penalty(&w)?, &tensor(want));
    let report = check_grad(penalty, &w, &Options::named("gradient penalty"))?;
    assert!(report.passed(), "{report}");
    assert_eq!(grad(penalty, &w)?.shape(), [2]);
    Ok(())
}

#[test]
fn a_sum_to_a_shape_is_the_gradient_of_a_broadcast_to_it() -> Result<()> {
    let g = Key::new(7).normal([2, 3, 4], DType::F64)?;
    for shape in [&[][..], &[4], &[1], &[3, 1], &[2, 1, 4], &[1, 1, 1], &[2, 3, 4]] {
        let x = Tensor::ones(shape, DType::F64)?;
        let spread = |x: &Tensor| x.broadcast_to(g.shape())?.multiply(&g)?.sum(..);
        assert_close(&g.sum_to_shape(shape)?, &grad(spread, &x)?);
        assert_eq!(broadcast_shapes(&[shape, &g.shape()[..]])?, *g.shape());
    }
    let error = g.sum_to_shape([2]).unwrap_err().to_string();
    let want = "sum_to_shape: x has shape [2, 3, 4], expected one that [2] broadcasts to";
    assert_eq!(error, want);
    assert!(g.sum_to_shape([1, 2, 3, 4]).is_err());
    Ok(())
}

#[test]
fn tensors_that_differ_fail_a_test_with_where_and_by_how_much() {
    let (a, b) = (tensor([1.0, 2.0, 3.0]), tensor([1.0, 2.5, 3.0]));
    let message = |want: &Tensor| {
        let compare = std::panic::AssertUnwindSafe(|| assert_close(&a, want));
        let caught = std::panic::catch_unwind(compare).unwrap_err();
        caught.downcast_ref::<String>().unwrap().clone()
    };
    let text = message(&b);
    assert!(text.starts_with("1 of 3 elements differ, the worst at [1]: 2.0 is not 2.5"), "{text}");
    assert_close_within(&a, &b, Tolerance::new(0.3, 0.0));
    assert!(message(&tensor([1.0f32, 2.0, 3.0])).starts_with("dtype f64 is not f32"));
}
