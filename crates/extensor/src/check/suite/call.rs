//! Calling operations.

use super::Verdict;
use crate::ops::operation::{self, Operation, apply};
use crate::ops::record::Class;
use crate::ops::samples::Sample;
use crate::{DType, Result, Tensor, ops};

/// The operation's outputs.
pub(super) fn forward(op: &dyn Operation, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    Ok(apply(op, &inputs)?.into_vec())
}

/// The outputs that have derivatives.
pub(super) fn results<'a>(op: &dyn Operation, outputs: &'a [Tensor]) -> &'a [Tensor] {
    &outputs[..op.record().results(outputs.len())]
}

/// The outputs that have derivatives, computed.
pub(super) fn forward_results(op: &dyn Operation, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(results(op, &forward(op, inputs)?).to_vec())
}

/// The inputs, those wanted moved along `ways`, `step` times as far.
pub(super) fn moved(
    inputs: &[Tensor],
    wanted: &[bool],
    ways: &[Tensor],
    step: f64,
) -> Result<Vec<Tensor>> {
    let all = inputs.iter().zip(ways).zip(wanted);
    let moved = all.map(|((x, way), &wanted)| match wanted {
        true => ops::add(x, &ops::multiply(way, &crate::tensor(step))?),
        false => Ok(x.clone()),
    });
    moved.collect()
}

/// The gradients for the inputs wanted.
pub(super) fn backward(
    op: &dyn Operation,
    grads: &[Tensor],
    inputs: &[Tensor],
    outputs: &[Tensor],
    wanted: &[bool],
) -> Result<Vec<Tensor>> {
    let [grads, inputs, outputs] =
        [grads, inputs, outputs].map(|list| list.iter().collect::<Vec<&Tensor>>());
    let found = operation::backward(op, &grads, &inputs, &outputs, wanted)?;
    Ok(found.into_iter().flatten().collect())
}

/// Which inputs the operation can be differentiated by; none if a result has no derivative.
pub(super) fn wanted(op: &dyn Operation, inputs: &[Tensor], outputs: &[Tensor]) -> Vec<bool> {
    let outputs = results(op, outputs);
    let floats = !outputs.is_empty() && outputs.iter().all(|y| y.dtype().is_float());
    let record = op.record();
    let input =
        |(i, x): (usize, &Tensor)| floats && record.differentiable_input(i) && x.dtype().is_float();
    inputs.iter().enumerate().map(input).collect()
}

/// The float tensors in another dtype; the others as they are.
pub(super) fn cast_floats(tensors: &[Tensor], dtype: DType) -> Result<Vec<Tensor>> {
    let cast = |x: &Tensor| {
        if x.dtype().is_float() { ops::cast(x, dtype) } else { Ok(x.clone()) }
    };
    tensors.iter().map(cast).collect()
}

/// Whether differences of the results can be taken: they are there, finite, and as fine as the
/// inputs.
pub(super) fn has_differences(op: &dyn Operation, outputs: &[Tensor]) -> bool {
    let results = results(op, outputs);
    let finite = |y: &Tensor| y.to_f64_vec().iter().all(|v| v.is_finite());
    results.iter().all(|y| y.dtype() == DType::F64 && finite(y))
}

/// `"sample 3, f64[3, 4], f64[4], axis = 1 (a tie)"`.
pub(super) fn describe(number: usize, sample: &Sample) -> String {
    let mut text = format!("sample {number}");
    for x in &sample.inputs {
        text += &format!(", {}{}", x.dtype(), x.shape());
    }
    for (name, value) in sample.params.iter() {
        text += &format!(", {name} = {value}");
    }
    if !sample.note.is_empty() {
        text += &format!(" ({})", sample.note);
    }
    text
}

/// Every operation is tried where its inputs hold one number or none at all.
pub(super) fn enough_samples(samples: &[Sample]) -> Verdict {
    let edge = |s: &Sample| s.inputs.iter().any(|x| x.ndim() == 0 || x.is_empty());
    match samples {
        [] => Err("the record has no samples".into()),
        _ if !samples.iter().any(edge) => Err("the record has no 0-d or size-0 sample".into()),
        _ => Ok(()),
    }
}

/// How many terms the sums are made of that an operation and its gradients are.
pub(super) struct Terms {
    /// Of the outputs.
    pub forward: f64,
    /// Of the gradient for each input wanted.
    pub backward: Vec<f64>,
}

impl Terms {
    /// Counted from the operation's class and shapes; where it is linear, an input of ones counts
    /// the terms of every sum exactly.
    pub fn of(
        op: &dyn Operation,
        inputs: &[Tensor],
        outputs: &[Tensor],
        wanted: &[bool],
    ) -> Result<Terms> {
        let outputs = results(op, outputs);
        let out: usize = outputs.iter().map(Tensor::len).sum();
        let chosen: Vec<usize> = (0..inputs.len()).filter(|&i| wanted[i]).collect();
        let ratio = |a: usize, b: usize| (a as f64 / b.max(1) as f64).max(1.0);
        Ok(match op.record().class {
            Class::Elementwise | Class::Constant => Terms {
                forward: 1.0,
                backward: chosen.iter().map(|&i| ratio(out, inputs[i].len())).collect(),
            },
            Class::Reduction => {
                let longest = inputs.iter().map(Tensor::len).max().unwrap_or(1);
                let length = ratio(longest, out);
                Terms { forward: length, backward: vec![length; chosen.len()] }
            }
            Class::General | Class::Composite => {
                let all: Vec<&Tensor> = inputs.iter().collect();
                let terms = op.terms(&all) as f64;
                let back = |&i: &usize| terms * ratio(out, inputs[i].len());
                Terms { forward: terms, backward: chosen.iter().map(back).collect() }
            }
            Class::Linear | Class::Affine => {
                let filled = |value: f64| -> Result<Vec<Tensor>> {
                    let fill = |(i, x): (usize, &Tensor)| {
                        if wanted[i] { x.full_like(value) } else { Ok(x.clone()) }
                    };
                    inputs.iter().enumerate().map(fill).collect()
                };
                let (ones, zeros) = (filled(1.0)?, filled(0.0)?);
                let (at_one, at_zero) = (forward(op, &ones)?, forward(op, &zeros)?);
                let counts = at_one.iter().zip(&at_zero).map(|(a, b)| largest(a, Some(b)));
                let grads: Vec<Tensor> =
                    outputs.iter().map(Tensor::ones_like).collect::<Result<_>>()?;
                let back = if chosen.is_empty() {
                    Vec::new()
                } else {
                    backward(op, &grads, &ones, &at_one, wanted)?
                };
                Terms {
                    forward: counts.fold(1.0, f64::max),
                    backward: back.iter().map(|g| largest(g, None).max(1.0)).collect(),
                }
            }
        })
    }
}

/// The largest magnitude of `a`, or of `a − b`.
fn largest(a: &Tensor, b: Option<&Tensor>) -> f64 {
    let a = a.to_f64_vec();
    let b = b.map_or_else(|| vec![0.0; a.len()], Tensor::to_f64_vec);
    let apart = a.iter().zip(&b).map(|(x, y)| (x - y).abs());
    apart.filter(|v| v.is_finite()).fold(0.0, f64::max)
}
