//! Automatic differentiation: the classic traps.

use extensor::autodiff::*;
use extensor::{DType, Result, Tensor, Tolerance, add, exp, multiply, sin, sum, tensor};

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
    let f = |x: &Tensor| sum(&exp(&sin(&(x * x))?)?, .., false);
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
    let (_, pullback) = vjp(|x: &Vec<Tensor>| sum(&x[1], .., false), &args)?;
    assert_eq!(pullback.unused()?, ["0"]);
    let grads = pullback.call(&tensor(1.0))?;
    assert_eq!(grads[0].to_vec::<f64>()?, [0.0, 0.0]);
    assert_eq!(grads[1].to_vec::<f64>()?, [1.0, 1.0]);
    Ok(())
}

#[test]
fn reduced_precision_has_gradients_of_its_own_dtype() -> Result<()> {
    let x = Tensor::full([3], 0.5, DType::BF16)?;
    let dx = grad(|x| sum(&(x * x), .., false), &x)?;
    assert_eq!(dx.dtype(), DType::BF16);
    assert_eq!(dx.to_f64_vec(), [1.0; 3]);
    Ok(())
}
