//! L-BFGS and Newton-CG.

use crate::Model;
use extensor::ops::slice;
use extensor::ops::{add, cosh, log, mean, multiply, square, subtract, sum};
use extensor::optim::{Lbfgs, Minimum, NewtonCg, Stop};
use extensor::tensor;
use extensor::{DType, Result, Tensor};

/// Rosenbrock's function, `Σ 100(xᵢ₊₁ − xᵢ²)² + (1 − xᵢ)²`, minimal where all are 1.
fn rosenbrock(x: &Tensor) -> Result<Tensor> {
    let (here, next) = (slice(x, 0, 0, -1, 1)?, slice(x, 0, 1, None, 1)?);
    let valley = square(&subtract(&next, &square(&here)?)?)?;
    let along = square(&subtract(&tensor(1.0), &here)?)?;
    sum(&add(&multiply(&tensor(100.0), &valley)?, &along)?, ..)
}

/// The usual start for two variables; for more, from where no path leads to the function's other
/// minimum, near (−1, 1, …, 1).
fn start(n: usize) -> Result<Tensor> {
    if n == 2 { Ok(tensor([-1.2, 1.0])) } else { Tensor::zeros([n], DType::F64) }
}

#[track_caller]
fn found(n: usize, minimum: &Minimum<Tensor>) {
    assert_eq!(minimum.stop, Stop::Converged, "{n}: {minimum:?}");
    assert!(minimum.grad_norm <= 1e-8, "{n}");
    for x in minimum.model.to_f64_vec() {
        assert!((x - 1.0).abs() < 1e-7, "{n}: {x}");
    }
}

#[test]
fn lbfgs_finds_the_end_of_rosenbrocks_valley_in_so_many_evaluations() -> Result<()> {
    for (n, evaluations) in [(2, 50), (20, 160)] {
        let minimum = Lbfgs::new().minimize(rosenbrock, &start(n)?)?;
        println!("{n}: {} evaluations, {} iterations", minimum.evaluations, minimum.iterations);
        found(n, &minimum);
        assert!(minimum.evaluations <= evaluations, "{n}: {}", minimum.evaluations);
    }
    Ok(())
}

#[test]
fn newton_cg_finds_it_in_so_many_evaluations_and_products() -> Result<()> {
    for (n, evaluations, products) in [(2, 36, 52), (20, 70, 600)] {
        let minimum = NewtonCg::new().minimize(rosenbrock, &start(n)?)?;
        println!("{n}: {} evaluations, {} products", minimum.evaluations, minimum.products);
        found(n, &minimum);
        assert!(minimum.evaluations <= evaluations, "{n}: {}", minimum.evaluations);
        assert!(minimum.products <= products, "{n}: {}", minimum.products);
    }
    Ok(())
}

#[test]
fn a_tree_is_minimised_and_its_buffers_stay() -> Result<()> {
    let start = Model {
        weight: tensor([[1.0f32, -2.0], [3.0, 0.5]]),
        seen: tensor([5i64]),
        bias: tensor([0.7]),
    };
    let f = |m: &Model| {
        let weight = extensor::ops::cast(&cosh(&m.weight)?, DType::F64)?;
        add(&sum(&weight, ..)?, &mean(&square(&subtract(&m.bias, &tensor(2.0))?)?, ..)?)
    };
    for minimum in [
        Lbfgs::new().tolerance(1e-5).minimize(f, &start)?,
        NewtonCg::new().tolerance(1e-5).minimize(f, &start)?,
    ] {
        assert_eq!(minimum.stop, Stop::Converged);
        assert_eq!(minimum.model.weight.dtype(), DType::F32);
        assert!(minimum.model.weight.to_f64_vec().iter().all(|x| x.abs() < 1e-4));
        assert!((minimum.model.bias.to_f64_vec()[0] - 2.0).abs() < 1e-4);
        assert_eq!(minimum.model.seen.to_vec::<i64>()?, [5]);
    }
    Ok(())
}

#[test]
fn downward_curvature_is_left_downhill() -> Result<()> {
    // x⁴ − x² has a maximum at 0 and minima at ±1/√2; it begins where it curves downwards.
    let f = |x: &Tensor| {
        let square = square(x)?;
        sum(&subtract(&multiply(&square, &square)?, &square)?, ..)
    };
    let start = tensor([0.1, -0.05, 1e-3]);
    for minimum in [NewtonCg::new().minimize(f, &start)?, Lbfgs::new().minimize(f, &start)?] {
        assert_eq!(minimum.stop, Stop::Converged);
        let expected = [0.5f64.sqrt(), -(0.5f64.sqrt()), 0.5f64.sqrt()];
        for (x, expected) in minimum.model.to_f64_vec().into_iter().zip(expected) {
            assert!((x - expected).abs() < 1e-8, "{x}");
        }
    }
    Ok(())
}

#[test]
fn steps_out_of_the_domain_are_taken_back() -> Result<()> {
    // x − log x is NaN below 0; its minimum is at 1.
    let f = |x: &Tensor| sum(&subtract(x, &log(x)?)?, ..);
    for start in [50.0, 1e-3] {
        let start = tensor([start, 3.0]);
        for minimum in [Lbfgs::new().minimize(f, &start)?, NewtonCg::new().minimize(f, &start)?] {
            assert_eq!(minimum.stop, Stop::Converged);
            assert!(minimum.model.to_f64_vec().iter().all(|x| (x - 1.0).abs() < 1e-7));
        }
    }
    let error = Lbfgs::new().minimize(f, &tensor([-1.0])).err().unwrap().to_string();
    assert_eq!(error, "lbfgs: the function or its gradient at the start is NaN, expected finite");
    Ok(())
}

#[test]
fn limits_are_kept_and_said() -> Result<()> {
    let few = Lbfgs::new().max_iterations(3).minimize(rosenbrock, &start(2)?)?;
    assert_eq!((few.stop, few.iterations), (Stop::Iterations, 3));
    let few = Lbfgs::new().max_evaluations(5).minimize(rosenbrock, &start(2)?)?;
    assert_eq!(few.stop, Stop::Evaluations);
    assert!(few.evaluations < 50);
    let few = NewtonCg::new().max_iterations(2).minimize(rosenbrock, &start(2)?)?;
    assert_eq!((few.stop, few.iterations), (Stop::Iterations, 2));
    assert!(Lbfgs::new().wolfe(0.5, 0.1).minimize(rosenbrock, &start(2)?).is_err());
    // At the minimum already.
    let done = Lbfgs::new().minimize(rosenbrock, &tensor([1.0, 1.0]))?;
    assert_eq!((done.stop, done.iterations, done.evaluations), (Stop::Converged, 0, 1));
    Ok(())
}
