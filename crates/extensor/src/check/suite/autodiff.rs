//! An operation under automatic differentiation: reverse and forward mode give what its own rules
//! give, and the second derivatives, both ways, agree with differences of the first.

use super::call::{backward, describe, forward, results, wanted};
use super::gradients::settled;
use super::{Log, Verdict};
use crate::autodiff::{grad, hvp, hvp_reverse, jvp, vjp};
use crate::check::bits::bit_differences;
use crate::check::gradient::check_pair;
use crate::check::prepare::random_like;
use crate::check::{Mode, Options};
use crate::operation::{Operation, apply, forward_derivative, input_name};
use crate::samples::Sample;
use crate::{Key, Result, Tensor, ops};

/// An operation at a sample as a function of the inputs that it can be differentiated by.
struct Subject<'a> {
    op: &'a dyn Operation,
    inputs: &'a [Tensor],
    wanted: &'a [bool],
}

impl Subject<'_> {
    /// The results, with these tensors in place of the inputs differentiated by.
    fn results(&self, moving: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut moving = moving.iter();
        let at = self.inputs.iter().zip(self.wanted);
        let at = at.map(|(x, &wanted)| if wanted { moving.next().unwrap_or(x) } else { x });
        let at: Vec<&Tensor> = at.collect();
        Ok(results(self.op, &apply(self.op, &at)?).to_vec())
    }

    /// `Σ w·y`.
    fn weighted(&self, moving: &[Tensor], weights: &[Tensor]) -> Result<Tensor> {
        let mut total = Tensor::scalar(0.0);
        for (y, w) in self.results(moving)?.iter().zip(weights) {
            total = ops::add(&total, &ops::sum(&ops::multiply(y, w)?, .., false)?)?;
        }
        Ok(total)
    }
}

pub(super) fn check(
    log: &mut Log,
    op: &dyn Operation,
    number: usize,
    sample: &Sample,
    seed: u64,
    order: u8,
) -> Verdict {
    let words = |e: crate::Error| e.to_string();
    let outputs = forward(op, &sample.inputs).map_err(words)?;
    let wanted = wanted(op, &sample.inputs, &outputs);
    if !wanted.contains(&true) || !sample.smooth {
        return Ok(());
    }
    let subject = Subject { op, inputs: &sample.inputs, wanted: &wanted };
    let place = || describe(number, sample);
    let moving = (0..sample.inputs.len()).filter(|&i| wanted[i]);
    let moving: Vec<Tensor> = moving.map(|i| sample.inputs[i].clone()).collect();
    let key = Key::new(seed).fold_in(number as u64);
    let weights = random_like(key.fold_in(3), results(op, &outputs)).map_err(words)?;
    let tangents = random_like(key.fold_in(4), &moving).map_err(words)?;

    let reverse = || -> Result<Option<String>> {
        let (_, pullback) = vjp(|x: &Vec<Tensor>| subject.results(x), &moving)?;
        let found = pullback.call(&weights)?;
        let rule = backward(op, &weights, &sample.inputs, &outputs, &wanted)?;
        Ok(bit_differences(&found, &rule))
    };
    log.check("reverse mode", place, same(reverse()));
    let forward = || -> Result<Option<String>> {
        let (_, found) = jvp(|x: &Vec<Tensor>| subject.results(x), &moving, &tangents)?;
        let mut along = tangents.iter();
        let along: Vec<Option<&Tensor>> =
            wanted.iter().map(|&w| if w { along.next() } else { None }).collect();
        let [x, y] = [&sample.inputs, &outputs].map(|list| list.iter().collect::<Vec<&Tensor>>());
        let rule = forward_derivative(op, &x, &y, &along)?.into_vec();
        Ok(bit_differences(&found, &rule))
    };
    log.check("forward mode", place, same(forward()));
    if order < 2 || op.record().order < 2 {
        return Ok(());
    }

    // The gradient is a function like any other: its pullback is held against its differences.
    let gradient =
        |x: &[Tensor]| grad(|x: &Vec<Tensor>| subject.weighted(x, &weights), &x.to_vec());
    let pull = |grads: &[Tensor], x: &[Tensor]| {
        let f = |x: &Vec<Tensor>| subject.weighted(x, &weights);
        hvp_reverse(f, &x.to_vec(), &grads.to_vec())
    };
    let names = (0..sample.inputs.len()).filter(|&i| wanted[i]);
    let options = Options {
        name: format!("the gradient of {}", op.record().name),
        input_names: names.map(|i| input_name(op.record(), i)).collect(),
        mode: Mode::Fast,
        // The rounding of a gradient made from a saturated output is no smooth function.
        taylor: false,
        seed: seed.wrapping_add(number as u64),
        ..Options::default()
    };
    let report = check_pair(&gradient, &pull, &moving, &options);
    let verdict = report.as_ref().map_or_else(|e| Err(e.to_string()), settled);
    log.measure("second order", place, verdict);
    log.measure("both Hessians", place, both(&subject, &moving, &tangents, &weights));
    Ok(())
}

fn same(difference: Result<Option<String>>) -> Verdict {
    match difference {
        Ok(None) => Ok(()),
        Ok(Some(difference)) => Err(difference),
        Err(error) => Err(error.to_string()),
    }
}

/// Forward over reverse and reverse over reverse give the same Hessian-vector product, to rounding.
fn both(
    subject: &Subject<'_>,
    moving: &Vec<Tensor>,
    tangents: &Vec<Tensor>,
    weights: &[Tensor],
) -> std::result::Result<f64, String> {
    const ROUNDING: f64 = 1e-11;
    let f = |x: &Vec<Tensor>| subject.weighted(x, weights);
    let forward = hvp(f, moving, tangents).map_err(|e| format!("forward over reverse: {e}"))?;
    let reverse =
        hvp_reverse(f, moving, tangents).map_err(|e| format!("reverse over reverse: {e}"))?;
    let mut worst = 0.0f64;
    for (a, b) in forward.iter().zip(&reverse) {
        let (a, b) = (a.to_f64_vec(), b.to_f64_vec());
        let size = b.iter().fold(1.0f64, |size, v| size.max(v.abs()));
        for (x, y) in a.iter().zip(&b) {
            let error = (x - y).abs() / size / ROUNDING;
            if error.is_nan() || error > 1.0 {
                return Err(format!(
                    "forward over reverse gives {x:?}, reverse over reverse {y:?}"
                ));
            }
            worst = worst.max(error);
        }
    }
    Ok(worst)
}
