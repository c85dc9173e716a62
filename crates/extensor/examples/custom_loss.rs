//! A loss with a backward function of one's own, checked before it is trusted.
//!
//! ```text
//! cargo run --release --example custom_loss
//! ```

use extensor::Tolerance;
use extensor::autodiff::{custom_vjp, grad};
use extensor::check::{Options, check_gradient};
use extensor::{DType, Key, Result, Tensor};

/// The Cauchy loss, `mean ln(1 + (p − t)²)`, which forgives outliers.
fn cauchy(p: &Tensor, t: &Tensor) -> Result<Tensor> {
    p.subtract(t)?.square()?.log1p()?.mean(..)
}

/// Its gradient for the predictions: `2d/(1 + d²)/n`.
fn cauchy_backward(grad_output: &Tensor, p: &Tensor, t: &Tensor) -> Result<Tensor> {
    let d = p.subtract(t)?;
    let slope = 2.0 * &d / (1.0 + d.square()?);
    grad_output.multiply(&(slope / p.len() as f64))
}

/// The same with a mistake that is easily made: the mean's `1/n` is missing.
fn cauchy_backward_wrong(grad_output: &Tensor, p: &Tensor, t: &Tensor) -> Result<Tensor> {
    Ok(cauchy_backward(grad_output, p, t)? * p.len() as f64)
}

fn main() -> Result<()> {
    let [a, b] = Key::new(3).split();
    let inputs = [a.normal([4, 3], DType::F64)?, b.normal([4, 3], DType::F64)?];
    let options = Options {
        input_names: vec!["predictions".into(), "targets".into()],
        wrt: Some(vec![0]),
        ..Options::named("cauchy")
    };
    let f = |x: &[Tensor]| cauchy(&x[0], &x[1]);
    let right =
        check_gradient(f, |g, x| Ok(vec![cauchy_backward(g, &x[0], &x[1])?]), &inputs, &options)?;
    println!("{right}\n");
    assert!(right.passed());
    let wrong = check_gradient(
        f,
        |g, x| Ok(vec![cauchy_backward_wrong(g, &x[0], &x[1])?]),
        &inputs,
        &options,
    )?;
    println!("{wrong}\n");
    assert!(!wrong.passed());

    // Proved, it is used like any other function.
    let own = custom_vjp(
        |(p, t): &(Tensor, Tensor)| Ok((cauchy(p, t)?, (p.clone(), t.clone()))),
        |(p, t): &(Tensor, Tensor), g: &Tensor| {
            let dp = cauchy_backward(g, p, t)?;
            let dt = extensor::ops::negate(&dp)?;
            Ok((dp, dt))
        },
    );
    let [p, t] = inputs;
    let args = (p, t);
    let (ours, theirs) =
        (grad(&own, &args)?, grad(|(p, t): &(Tensor, Tensor)| cauchy(p, t), &args)?);
    assert!(ours.0.allclose(&theirs.0, Tolerance::new(1e-14, 1e-14)));
    println!("used through grad, it gives what automatic differentiation gives");
    Ok(())
}
