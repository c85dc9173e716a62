//! What an operation must refuse, and how.

use super::call::{backward, forward, results, wanted};
use super::{Build, Log, Verdict};
use crate::ops::operation::{Operation, input_name};
use crate::ops::params::Params;
use crate::ops::record::Record;
use crate::ops::samples::{Bad, Sample};
use crate::{DType, Error, Result, Shape, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) fn check(
    log: &mut Log,
    record: &'static Record,
    samples: &[Sample],
    build: Build<'_>,
) -> Verdict {
    bad_calls(log, record);
    for sample in samples {
        let op = build(&sample.params).map_err(|e| e.to_string())?;
        no_derivative(log, &*op, sample)?;
    }
    if !record.is_differentiable() {
        return Ok(());
    }
    // A sample with elements, if there is one.
    let elements = |s: &&Sample| s.inputs.iter().map(Tensor::len).min();
    let Some(sample) = samples.iter().max_by_key(elements) else {
        return Ok(());
    };
    let op = build(&sample.params).map_err(|e| e.to_string())?;
    wrong_gradients(log, &*op, sample).map_err(|e| e.to_string())
}

/// An error whose message holds all of these.
fn refused<T>(result: Result<T>, parts: &[String]) -> Verdict {
    let Err(error) = result else {
        return Err(format!("no error, expected one that says {parts:?}"));
    };
    let message = error.to_string();
    match parts.iter().find(|part| !message.contains(part.as_str())) {
        None => Ok(()),
        Some(part) => Err(format!("the error {message:?} does not say {part:?}")),
    }
}

/// The calls that the record says are errors; and no inputs at all, and a parameter that no
/// operation has.
fn bad_calls(log: &mut Log, record: &'static Record) {
    let mut bad = Bad::default();
    (record.errors)(&mut bad);
    let calls = bad.finish();
    let least =
        if calls.is_empty() { Err("the record has no error inputs".to_string()) } else { Ok(()) };
    log.check("errors", || "the record".into(), least);
    let mut attempt = |inputs: &[Tensor], params: &Params, parts: &[String]| {
        let at = || {
            let inputs = inputs.iter().map(|x| format!("{}{}", x.dtype(), x.shape()));
            let params = params.iter().map(|(name, value)| format!("{name} = {value}"));
            inputs.chain(params).collect::<Vec<_>>().join(", ")
        };
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let call = catch_unwind(AssertUnwindSafe(|| record.call(&inputs, params)));
        let verdict = match call {
            Ok(result) => refused(result, parts),
            Err(_) => Err("panicked".into()),
        };
        log.check("errors", at, verdict);
    };
    let name = record.name.to_string();
    for call in calls {
        let parts = [name.clone(), call.message.to_string()];
        attempt(&call.inputs, &call.params, &parts);
    }
    attempt(&[], &Params::new(), &[name.clone(), "got inputs".into()]);
    let unknown = Params::new().with("no such parameter", 1);
    let mut sampler = crate::ops::samples::Sampler::new(crate::Key::new(0));
    (record.samples)(&mut sampler);
    if let Some(sample) = sampler.finish().first() {
        attempt(&sample.inputs, &unknown, &[name, "has no parameter".into()]);
    }
}

/// Differentiating by what cannot be differentiated by is refused, not answered with zeros.
fn no_derivative(log: &mut Log, op: &dyn Operation, sample: &Sample) -> Verdict {
    let outputs = forward(op, &sample.inputs).map_err(|e| e.to_string())?;
    let possible = wanted(op, &sample.inputs, &outputs);
    let record = op.record();
    for (i, input) in sample.inputs.iter().enumerate() {
        if possible[i] || (record.differentiable_input(i) && input.dtype().is_float()) {
            continue;
        }
        let only: Vec<bool> = (0..sample.inputs.len()).map(|k| k == i).collect();
        let grads = results(op, &outputs);
        let result = backward(op, grads, &sample.inputs, &outputs, &only);
        let verdict = match result {
            Err(Error::NotDifferentiable { .. }) => Ok(()),
            Err(other) => Err(format!("another error than NotDifferentiable: {other}")),
            Ok(_) => Err("a gradient where there is none".into()),
        };
        log.check("no derivative", || input_name(record, i), verdict);
    }
    Ok(())
}

/// A gradient of the output with the wrong shape, dtype or number is refused, naming both.
fn wrong_gradients(log: &mut Log, op: &dyn Operation, sample: &Sample) -> Result<()> {
    let inputs = &sample.inputs;
    let outputs = forward(op, inputs)?;
    let wanted = wanted(op, inputs, &outputs);
    if !wanted.contains(&true) {
        return Ok(());
    }
    let name = op.record().backward_name().to_string();
    let label = |what: &'static str| move || what.to_string();
    let attempt = |grads: &[Tensor]| {
        let call = || backward(op, grads, inputs, &outputs, &wanted);
        catch_unwind(AssertUnwindSafe(call))
    };
    let mut expect = |what: &'static str, grads: &[Tensor], parts: &[String]| {
        let verdict = match attempt(grads) {
            Ok(result) => refused(result, parts),
            Err(_) => Err("panicked".into()),
        };
        log.check("wrong grad_output", label(what), verdict);
    };
    let (first, rest) = (&outputs[0], &results(op, &outputs)[1..]);
    let with = |g: Tensor| [&[g], rest].concat();
    let longer: Shape = first.shape().iter().copied().chain([2]).collect();
    let shapes = [name.clone(), longer.to_string(), first.shape().to_string()];
    expect("shape", &with(Tensor::ones(longer, first.dtype())?), &shapes);
    for other in [DType::F16, DType::F32, DType::F64, DType::I64, DType::Bool] {
        if other != first.dtype() {
            let dtypes = [name.clone(), other.to_string(), first.dtype().to_string()];
            let wrong = Tensor::ones(first.shape().clone(), other)?;
            expect("dtype", &with(wrong), &dtypes);
        }
    }
    expect("number", &[], &[name]);
    Ok(())
}
