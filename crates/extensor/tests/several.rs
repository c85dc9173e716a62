//! Functions of several tensors, or with several results, in which they must not be taken for one
//! another.

use extensor::autodiff::{custom_vjp, grad, jvp, vjp, zip_map};
use extensor::ops::operation::{Backward, Forward, Grads, Outputs, Spec, Specs, apply};
use extensor::ops::record::{Class, Input, Needs, Record};
use extensor::ops::{BatchNormOptions, Operation, batch_norm2d, exp, negate, split, sum};
use extensor::{DType, Result, Tensor, tensor};
use std::cell::RefCell;

fn total(y: &Tensor) -> Result<Tensor> {
    sum(y, ..)
}

#[test]
fn a_rule_of_ones_own_gives_each_argument_its_gradient() -> Result<()> {
    type Pair = (Tensor, Tensor);
    let f = custom_vjp(
        |(a, b): &Pair| Ok((a * b * b, (a.clone(), b.clone()))),
        |(a, b): &Pair, g: &Tensor| Ok((g * b * b, g * &tensor(2.0) * a * b)),
    );
    let at = (tensor([2.0, 5.0]), tensor([3.0, 7.0]));
    let (a, b) = grad(|x: &Pair| total(&f(x)?), &at)?;
    assert_eq!(a.to_vec::<f64>()?, [9.0, 49.0]);
    assert_eq!(b.to_vec::<f64>()?, [12.0, 70.0]);
    Ok(())
}

#[test]
fn a_backward_rule_alone_is_called_plainly_and_says_that_it_is_none_for_forward_mode() -> Result<()>
{
    let f = custom_vjp(
        |x: &Tensor| Ok((x * x, x.clone())),
        |x: &Tensor, g: &Tensor| Ok(g * &tensor(2.0) * x),
    );
    assert_eq!(f(&tensor(3.0))?.item::<f64>()?, 9.0);
    let error = jvp(&f, &tensor(3.0), &tensor(1.0)).unwrap_err().to_string();
    assert!(error.contains("custom_jvp serves both"), "{error}");
    Ok(())
}

#[test]
fn results_that_nothing_depends_on_have_no_gradient() -> Result<()> {
    let x = tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (part, want) in [
        (0, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        (1, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
        (2, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]),
    ] {
        let of = grad(|x: &Tensor| total(&split(x, 3, 0)?[part]), &x)?;
        assert_eq!(of.to_vec::<f64>()?, want, "part {part}");
    }
    Ok(())
}

/// `eˣ` and `−eˣ`, whose rules read both.
#[derive(Clone, Debug)]
struct Both;

static BOTH: Record = Record {
    name: "both",
    formula: "eˣ, −eˣ",
    derivative: "eˣ, −eˣ",
    inputs: &[Input::new("x")],
    class: Class::General,
    needs: Needs::Outputs,
    ..Record::BLANK
};

impl Operation for Both {
    fn record(&self) -> &'static Record {
        &BOTH
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Specs> {
        let one = Spec { shape: x[0].shape().clone(), dtype: x[0].dtype() };
        Ok([one.clone(), one].into_iter().collect())
    }
    fn forward(&self, x: &[&Tensor], _: Specs) -> Result<Outputs> {
        let y = exp(x[0])?;
        Ok([y.clone(), negate(&y)?].into_iter().collect())
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let Some(t) = call.tangents[0] else { return Ok(Outputs::new()) };
        Ok(call.outputs.iter().map(|&y| y * t).collect())
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let [first, second] = [0, 1].map(|k| call.grads[k] * call.outputs[k]);
        Ok([Some(first + second)].into_iter().collect())
    }
}

#[test]
fn results_that_a_rule_reads_but_nothing_depends_on_have_no_gradient() -> Result<()> {
    let x = tensor([0.0, 1.0]);
    let e = 1f64.exp();
    for (k, want) in [(0, [1.0, e]), (1, [-1.0, -e])] {
        let of = grad(|x: &Tensor| total(&apply(&Both, &[x])?[k]), &x)?;
        assert_eq!(of.to_vec::<f64>()?, want, "result {k}");
    }
    Ok(())
}

#[test]
fn statistics_beside_a_result_are_not_differentiated() -> Result<()> {
    let seen = RefCell::new(Vec::new());
    let (one, zero) = (tensor([1.0, 1.0]), tensor([0.0, 0.0]));
    let f = |x: &Tensor| {
        let found = batch_norm2d(
            x,
            &one,
            &zero,
            BatchNormOptions::new().running(Some((&zero, &one))).momentum(0.5).eps(0.0),
        )?;
        assert!(found.output.is_traced());
        let [a, b] = [found.running_mean, found.running_var];
        seen.borrow_mut().extend([a, b, found.saved_mean, found.saved_rstd]);
        Ok(found.output)
    };
    vjp(f, &tensor([[1.0, 5.0], [3.0, 9.0]]))?;
    let seen = seen.into_inner();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|x| !x.is_traced()));
    Ok(())
}

#[test]
fn trees_of_other_numbers_of_leaves_do_not_fit() -> Result<()> {
    let list = |n: usize| (0..n).map(|k| tensor(k as f64)).collect::<Vec<_>>();
    let sums = zip_map(&list(3), &list(3), |a, b| Ok(a + b))?;
    assert_eq!(sums[2].item::<f64>()?, 4.0);
    for other in [2, 4] {
        let error = zip_map(&list(3), &list(other), |a, b| Ok(a + b)).unwrap_err().to_string();
        assert!(
            error.contains("3 leaves") && error.contains(&format!("{other} leaves")),
            "{error}"
        );
    }
    assert_eq!(sums[0].dtype(), DType::F64);
    Ok(())
}
