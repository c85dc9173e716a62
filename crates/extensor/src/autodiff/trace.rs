//! Traced tensors, and what an operation on them does.

use super::batch;
use super::node::{Argument, Call, Node, Parent, Saved};
use crate::ops::operation::{self, Operation, Outputs, forward_derivative, input_name};
use crate::ops::record::{Class, Needs};
use crate::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A tensor's value one level down, and what is known of it at its level.
pub(crate) struct Traced {
    pub level: u64,
    pub value: Tensor,
    pub mark: Mark,
}

/// What a level knows of a value.
pub(crate) enum Mark {
    /// In reverse mode: which output of which call it is.
    Reverse { node: Arc<Node>, output: usize },
    /// In forward mode: its tangent.
    Forward { tangent: Tensor },
    /// Under `vmap`: the value's first axis are the examples, any of which the tensor stands for.
    Batch,
}

impl Traced {
    /// Whether the tensor stands for the examples of a batch.
    #[inline]
    pub(crate) fn is_batch(&self) -> bool {
        matches!(self.mark, Mark::Batch)
    }

    /// The tensor `x`, which this is, without what differentiation knows of it.
    #[cold]
    pub(crate) fn primal<'a>(&'a self, x: &'a Tensor) -> Cow<'a, Tensor> {
        match (&self.mark, self.value.primal()) {
            (Mark::Batch, Cow::Borrowed(same)) if std::ptr::eq(same, &self.value) => {
                Cow::Borrowed(x)
            }
            (Mark::Batch, value) => {
                let (level, value) = (self.level, value.into_owned());
                Cow::Owned(Tensor::from_traced(Traced { level, value, mark: Mark::Batch }))
            }
            (_, value) => value,
        }
    }
}

/// A new level, above all that exist: a call that begins later is inside, or has nothing to do with
/// those that have begun.
pub(super) fn new_level() -> u64 {
    static LEVELS: AtomicU64 = AtomicU64::new(1);
    LEVELS.fetch_add(1, Ordering::Relaxed)
}

/// The tensor one level down if it is traced at `level`, and its mark.
pub(super) fn unwrap(x: &Tensor, level: u64) -> (&Tensor, Option<&Mark>) {
    match x.traced() {
        Some(traced) if traced.level == level => (&traced.value, Some(&traced.mark)),
        _ => (x, None),
    }
}

/// Calls an operation on tensors of which some are traced.
#[inline(never)]
#[track_caller]
pub(crate) fn apply(op: &dyn Operation, inputs: &[&Tensor]) -> Result<Outputs> {
    let level = inputs.iter().filter_map(|x| x.traced()).map(|t| t.level).max().unwrap_or(0);
    let mut values: SmallVec<[&Tensor; 4]> = SmallVec::new();
    let mut marks: SmallVec<[Option<&Mark>; 4]> = SmallVec::new();
    for x in inputs {
        let (value, mark) = unwrap(x, level);
        values.push(value);
        marks.push(mark);
    }
    if marks.iter().flatten().any(|mark| matches!(mark, Mark::Batch)) {
        return batch::apply(op, level, inputs);
    }
    let outputs = operation::apply(op, &values)?;
    let record = op.record();
    // A comparison, an index: constant wherever it has a derivative at all.
    if record.class == Class::Constant {
        return Ok(outputs);
    }
    for (i, mark) in marks.iter_mut().enumerate() {
        if mark.is_some() && !record.differentiable_input(i) {
            let argument = input_name(record, i);
            let reason = "it is a constant of the operation; pass it through stop_gradient";
            return Err(Error::NotDifferentiable { op: record.name, argument, reason });
        }
    }
    if !outputs.iter().any(|y| y.dtype().is_float()) {
        return Ok(outputs);
    }
    let forward = marks.iter().flatten().any(|mark| matches!(mark, Mark::Forward { .. }));
    if forward {
        push_forward(op, level, &values, &marks, outputs)
    } else {
        Ok(note(op, level, &values, &marks, outputs, Location::caller()))
    }
}

/// Forward mode: the tangents of the outputs are computed along.
fn push_forward(
    op: &dyn Operation,
    level: u64,
    values: &[&Tensor],
    marks: &[Option<&Mark>],
    outputs: Outputs,
) -> Result<Outputs> {
    let mut tangents: SmallVec<[Option<&Tensor>; 4]> = SmallVec::new();
    for mark in marks {
        tangents.push(match mark {
            Some(Mark::Forward { tangent }) => Some(tangent),
            _ => None,
        });
    }
    let along = {
        let outputs: SmallVec<[&Tensor; 2]> = outputs.iter().collect();
        forward_derivative(op, values, &outputs, &tangents)?
    };
    let mut along = along.into_iter();
    Ok(outputs
        .into_iter()
        .map(|value| match along.next() {
            Some(tangent) => {
                Tensor::from_traced(Traced { level, value, mark: Mark::Forward { tangent } })
            }
            None => value,
        })
        .collect())
}

/// Reverse mode: the call is noted, with what its rule needs.
pub(super) fn note(
    op: &dyn Operation,
    level: u64,
    values: &[&Tensor],
    marks: &[Option<&Mark>],
    mut outputs: Outputs,
    at: &'static Location<'static>,
) -> Outputs {
    let record = op.record();
    let results = record.results(outputs.len());
    let needs = record.needs;
    let only = if results == 1 { outputs.first() } else { None };
    let mut arguments: SmallVec<[Argument; 3]> = SmallVec::new();
    for (i, (x, mark)) in values.iter().zip(marks).enumerate() {
        // A rule that is itself differentiated does better with the input than with the rounded output.
        let again = needs == Needs::Outputs && record.class == Class::Elementwise && x.is_traced();
        let needed = needs.inputs() || !record.differentiable_input(i) || again;
        let saved = Saved::new(x, needed, only);
        let parent = match mark {
            Some(Mark::Reverse { node, output }) => {
                Some(Parent { node: node.clone(), output: *output })
            }
            _ => None,
        };
        arguments.push(Argument { saved, parent });
    }
    let mut saved: SmallVec<[Saved; 1]> = SmallVec::new();
    for (k, y) in outputs.iter().enumerate() {
        saved.push(Saved::new(y, needs.output(k, results), only));
    }
    let node =
        Node::new(Some(Call { op: op.boxed(), inputs: arguments, outputs: saved, results, at }));
    let wrap = |value: Tensor, node: Arc<Node>, output: usize| {
        Tensor::from_traced(Traced { level, value, mark: Mark::Reverse { node, output } })
    };
    // One output, mostly: the only link goes to it.
    if outputs.len() == 1 && outputs[0].dtype().is_float() {
        let value = outputs.swap_remove(0);
        outputs.push(wrap(value, node, 0));
        return outputs;
    }
    let wrap = |(output, value): (usize, Tensor)| match value.dtype().is_float() {
        true if output < results => wrap(value, node.clone(), output),
        _ => value,
    };
    outputs.into_iter().enumerate().map(wrap).collect()
}
