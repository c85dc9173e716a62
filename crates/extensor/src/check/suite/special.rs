//! Gradients of nothing, and of what is not a number.

use super::call::{backward, cast_floats, describe, forward, results, wanted};
use super::{Log, Verdict};
use crate::check::prepare::random_like;
use crate::ops::operation::{Operation, forward_derivative, input_name};
use crate::ops::record::{Class, Family, Needs};
use crate::ops::samples::Sample;
use crate::tensor::unravel;
use crate::{DType, Key, Result, Tensor};

pub(super) fn check(
    log: &mut Log,
    op: &dyn Operation,
    number: usize,
    sample: &Sample,
    dtype: DType,
    key: Key,
) -> Verdict {
    let label = || format!("{}, {dtype}", describe(number, sample));
    let words = |e: crate::Error| format!("in {dtype}: {e}");
    let inputs = cast_floats(&sample.inputs, dtype).map_err(words)?;
    let outputs = forward(op, &inputs).map_err(words)?;
    let wanted = wanted(op, &inputs, &outputs);
    if !wanted.contains(&true) {
        return Ok(());
    }
    let finite = inputs.iter().all(|x| x.to_f64_vec().iter().all(|v| v.is_finite()));
    let nan = |y: &Tensor| y.to_f64_vec().iter().any(|v| v.is_nan());
    if finite && !results(op, &outputs).iter().any(nan) {
        let verdict = nothing_of_nothing(op, &inputs, &outputs, &wanted).map_err(words)?;
        log.check("nothing of nothing", label, verdict);
    }
    // Sums of many numbers may overflow on their way to one that does not.
    let alone = op.record().class == Class::Elementwise || op.record().family == Family::Loss;
    if alone && finite && wanted[0] && !sample.large {
        let mut huge = inputs.clone();
        huge[0] = enlarged(&inputs[0]).map_err(words)?;
        // Not every operation takes such numbers.
        if let Ok(outputs) = forward(op, &huge)
            && !results(op, &outputs).iter().any(nan)
        {
            let verdict = nothing_of_nothing(op, &huge, &outputs, &wanted).map_err(words)?;
            log.check("nothing of nothing", || format!("{}, enlarged", label()), verdict);
        }
    }
    // A rule that sees no values moves gradients about, and no value can be NaN in it.
    let blind = matches!(op.record().needs, Needs::Shapes | Needs::Auxiliary);
    let moves = blind || matches!(op.record().class, Class::Linear | Class::Affine);
    if !moves && finite && !sample.large {
        for i in (0..inputs.len()).filter(|&i| wanted[i] && !inputs[i].is_empty()) {
            let verdict = nan_of_nan(op, &inputs, &wanted, i, key).map_err(words)?;
            if let Some(verdict) = verdict {
                let name = input_name(op.record(), i);
                log.check("NaN of NaN", || format!("{} in {name}", label()), verdict);
            }
        }
    }
    Ok(())
}

/// Numbers in the same proportions, as large as their dtype allows: derivatives overflow there.
fn enlarged(x: &Tensor) -> Result<Tensor> {
    let values = x.to_f64_vec();
    let most = values.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    if most == 0.0 {
        return Ok(x.clone());
    }
    let values = values.iter().map(|v| v / most * x.dtype().max_finite()).collect();
    crate::ops::cast(&Tensor::from_vec(values, x.shape().clone())?, x.dtype())
}

/// A gradient of zeros gives zeros, and so do tangents of zeros, however large a derivative is.
fn nothing_of_nothing(
    op: &dyn Operation,
    inputs: &[Tensor],
    outputs: &[Tensor],
    wanted: &[bool],
) -> Result<Verdict> {
    let zeros = |list: &[Tensor]| list.iter().map(Tensor::zeros_like).collect::<Result<Vec<_>>>();
    let gradients = backward(op, &zeros(results(op, outputs))?, inputs, outputs, wanted)?;
    let tangents = zeros(inputs)?;
    let tangents: Vec<Option<&Tensor>> =
        tangents.iter().zip(wanted).map(|(t, &wanted)| wanted.then_some(t)).collect();
    let [x, y] = [inputs, outputs].map(|list| list.iter().collect::<Vec<&Tensor>>());
    let along = forward_derivative(op, &x, &y, &tangents)?.into_vec();
    for (what, list) in [("a gradient", gradients), ("a derivative along", along)] {
        for x in list {
            let values = x.to_f64_vec();
            if let Some(at) = values.iter().position(|v| *v != 0.0) {
                let (value, index) = (values[at], unravel(at, x.shape()));
                return Ok(Err(format!("{what} of zeros is {value} at {index:?}")));
            }
        }
    }
    Ok(Ok(()))
}

/// With NaN for one number of an input: where that makes every value NaN, so is the gradient for
/// that number, if it depends on it at all. `None` if some value is a number.
fn nan_of_nan(
    op: &dyn Operation,
    inputs: &[Tensor],
    wanted: &[bool],
    input: usize,
    key: Key,
) -> Result<Option<Verdict>> {
    let values = inputs[input].to_f64_vec();
    let at = values.len() / 2;
    let slot = wanted[..input].iter().filter(|w| **w).count();
    let gradient = |value: f64| -> Result<(f64, bool)> {
        let mut moved = values.clone();
        moved[at] = value;
        let moved = Tensor::from_vec(moved, inputs[input].shape().clone())?;
        let mut there = inputs.to_vec();
        there[input] = crate::ops::cast(&moved, inputs[input].dtype())?;
        let outputs = forward(op, &there)?;
        let weights = random_like(key, results(op, &outputs))?;
        let gradients = backward(op, &weights, &there, &outputs, wanted)?;
        let nan = results(op, &outputs).iter().flat_map(Tensor::to_f64_vec).any(f64::is_nan);
        Ok((gradients[slot].to_f64_vec()[at], nan))
    };
    let (found, nan) = gradient(f64::NAN)?;
    if !nan {
        return Ok(None);
    }
    // More than a gradient may differ by rounding, in bf16 too.
    const MOVED: f64 = 5e-2;
    let here = gradient(values[at])?.0;
    let mut depends = false;
    for other in [0.5, -0.5, 2.5, -2.5, 100.0, -100.0] {
        // Not every operation takes such numbers.
        let Ok((there, _)) = gradient(other) else { continue };
        depends |= (there - here).abs() > MOVED * here.abs().max(there.abs());
    }
    if !depends {
        return Ok(None);
    }
    let index = unravel(at, inputs[input].shape());
    Ok(Some(match found.is_nan() {
        true => Ok(()),
        false => Err(format!("a value is NaN, the gradient at {index:?} is {found}")),
    }))
}
