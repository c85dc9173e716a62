//! Operations and backward rules on examples of a batch: at a level of `vmap`.
//!
//! A tensor that is traced at such a level stands for all examples; its value has their axis first. An
//! operation on such tensors is one on the values, which it says itself
//! ([`Operation::batch`](crate::ops::Operation::batch)), and so is its backward rule.

use super::trace::{Mark, Traced, unwrap};
use super::transform::vjp;
use super::vmap::{LOOP, tell};
use crate::ops::batching::{Batch, Batched, Composition, Together, View};
use crate::ops::operation::{self, Backward, Grads, Operation, Outputs, Specs, backward_of_call};
use crate::ops::record::Class;
use crate::{Error, Result, Shape, Tensor, ops};
use smallvec::SmallVec;
use std::panic::Location;

type Flags = SmallVec<[bool; 4]>;
type Values = SmallVec<[Tensor; 4]>;

/// The tensor that stands for each of the examples that are the value's first axis.
pub(crate) fn example(level: u64, value: Tensor) -> Tensor {
    Tensor::from_traced(Traced { level, value, mark: Mark::Batch })
}

/// The value of a tensor, with the axis of `size` examples first: repeated, as a view, if it is the same
/// for all.
pub(super) fn whole(x: &Tensor, level: u64, size: usize) -> Result<Tensor> {
    match unwrap(x, level) {
        (value, Some(_)) => Ok(value.clone()),
        (x, None) => ops::broadcast_to(x, full(size, x.shape())),
    }
}

/// The shape of a batch.
fn full(size: usize, shape: &[usize]) -> Shape {
    std::iter::once(size).chain(shape.iter().copied()).collect()
}

/// Which tensors are traced at a level, and how many examples there are.
fn mapped(list: &[&Tensor], level: u64) -> (Flags, Option<usize>) {
    let mut size = None;
    let flags = list.iter().map(|x| match unwrap(x, level) {
        (value, Some(_)) => {
            size = Some(value.shape()[0]);
            true
        }
        _ => false,
    });
    (flags.collect(), size)
}

/// The number of examples of tensors of which one is traced at a level of `vmap`.
pub(super) fn size(list: &[&Tensor], level: u64) -> usize {
    mapped(list, level).1.unwrap_or(0)
}

/// Calls an operation on tensors of which some are examples, at the highest level among them.
#[track_caller]
pub(super) fn apply(op: &dyn Operation, level: u64, inputs: &[&Tensor]) -> Result<Outputs> {
    let name = op.record().name;
    // What is wrong with a call is said of one example.
    let specs = op.infer(inputs)?;
    let (flags, size) = mapped(inputs, level);
    let size = size.unwrap_or(0);
    let at = Batch { inputs, mapped: &flags, size, level };
    let outputs: Outputs = match op.batch(&at) {
        Batched::Itself => {
            tell(name, "made of operations, each batched", false);
            return op.forward(inputs, specs);
        }
        Batched::Made(made) => {
            tell(name, "by other operations", false);
            let values = inputs.iter().map(|x| whole(x, level, size));
            made(&values.collect::<Result<Vec<Tensor>>>()?)?.into()
        }
        Batched::Call(call) if fits(&call, inputs, &flags) => {
            match together(&call, level, &flags, size, inputs, &specs)? {
                Some(values) => {
                    tell(name, by(op, &*call.op), false);
                    let values: SmallVec<[&Tensor; 4]> = values.iter().collect();
                    let made = operation::apply(&*call.op, &values)?;
                    back(&call, &made, size, &specs)?
                }
                None => each(op, level, size, inputs)?,
            }
        }
        _ => each(op, level, size, inputs)?,
    };
    Ok(outputs.into_iter().map(|value| example(level, value)).collect())
}

/// In words, whose kernels do it.
fn by(op: &dyn Operation, other: &dyn Operation) -> &'static str {
    match op.record().name == other.record().name {
        true => "one call for all examples",
        false => "one call of another operation",
    }
}

/// Whether all that is given can be seen as a call says.
fn fits(call: &Together, inputs: &[&Tensor], flags: &[bool]) -> bool {
    call.inputs.len() == inputs.len()
        && inputs
            .iter()
            .zip(&call.inputs)
            .zip(flags)
            .all(|((x, view), &mapped)| !(mapped || view.whole) || view.fits(x.ndim()))
}

/// The inputs of a call for all examples; `None` if it does not fit, or would give something else.
fn together(
    call: &Together,
    level: u64,
    flags: &[bool],
    size: usize,
    inputs: &[&Tensor],
    specs: &Specs,
) -> Result<Option<Values>> {
    let mut values = Values::new();
    for ((x, view), &mapped) in inputs.iter().zip(&call.inputs).zip(flags) {
        values.push(match mapped || view.whole {
            true => view.of(&whole(x, level, size)?)?,
            false => (*x).clone(),
        });
    }
    let found = {
        let seen: SmallVec<[&Tensor; 4]> = values.iter().collect();
        call.op.infer(&seen)
    };
    let Ok(found) = found else { return Ok(None) };
    let same = found.len() == specs.len()
        && found.iter().zip(specs).enumerate().all(|(k, (found, spec))| {
            let view = output(call, k);
            view.fits(spec.shape.len())
                && found.dtype == spec.dtype
                && found.shape == view.shape(&full(size, &spec.shape))
        });
    Ok(same.then_some(values))
}

fn output(call: &Together, k: usize) -> View {
    call.outputs.get(k).or(call.outputs.last()).copied().unwrap_or_default()
}

/// The outputs of a call for all examples, with their axis first.
fn back(call: &Together, made: &[Tensor], size: usize, specs: &Specs) -> Result<Outputs> {
    // What says nothing of its outputs leaves them as they are.
    if specs.is_empty() {
        return Ok(made.iter().cloned().collect());
    }
    let outputs = made.iter().zip(specs).enumerate();
    outputs.map(|(k, (y, spec))| output(call, k).back(y, &full(size, &spec.shape))).collect()
}

/// The outputs of an operation that is done example by example.
fn each(op: &dyn Operation, level: u64, size: usize, inputs: &[&Tensor]) -> Result<Outputs> {
    tell(op.record().name, LOOP, false);
    let mut all: SmallVec<[Vec<Tensor>; 2]> = SmallVec::new();
    for i in 0..size {
        let inputs = nth_of(inputs, level, i)?;
        let inputs: SmallVec<[&Tensor; 4]> = inputs.iter().collect();
        for (k, y) in operation::apply(op, &inputs)?.into_iter().enumerate() {
            if k == all.len() {
                all.push(Vec::with_capacity(size));
            }
            all[k].push(y);
        }
    }
    all.iter().map(|outputs| ops::stack(outputs, 0)).collect()
}

/// Example number `i` of each of the tensors.
fn nth_of(list: &[&Tensor], level: u64, i: usize) -> Result<Values> {
    list.iter().map(|x| nth(x, level, i)).collect()
}

/// Example number `i`.
fn nth(x: &Tensor, level: u64, i: usize) -> Result<Tensor> {
    match unwrap(x, level) {
        (value, Some(_)) => {
            let one = ops::slice(value, 0, i as i64, i as i64 + 1, 1)?;
            ops::reshape(&one, x.shape())
        }
        _ => Ok(x.clone()),
    }
}

/// A backward rule on tensors of which some are examples, at the highest level among them.
#[cold]
pub(super) fn backward(op: &dyn Operation, level: u64, call: &Backward<'_>) -> Result<Grads> {
    if op.record().class == Class::Composite {
        return op.backward(call);
    }
    let (flags, size) = mapped(call.inputs, level);
    let others: SmallVec<[&Tensor; 4]> = call.grads.iter().chain(call.outputs).copied().collect();
    let size = size.unwrap_or_else(|| mapped(&others, level).1.unwrap_or(0));
    // The gradient for what is the same for all examples is another one for each, so the rule is asked
    // for it as if it differed. The other gradients need not pay for that.
    let mut found: Grads = SmallVec::from_elem(None, call.inputs.len());
    let mut ask = |wanted: &[bool]| -> Result<()> {
        let mapped: Flags = flags.iter().zip(wanted).map(|(a, b)| *a || *b).collect();
        let grads = rule(op, level, size, call, &mapped, wanted)?;
        for ((slot, grad), _) in found.iter_mut().zip(grads).zip(wanted).filter(|(_, w)| **w) {
            *slot = grad;
        }
        Ok(())
    };
    let pairs = || call.wanted.iter().zip(&flags);
    let own: Flags = pairs().map(|(&wanted, &mapped)| wanted && mapped).collect();
    let shared: Flags = pairs().map(|(&wanted, &mapped)| wanted && !mapped).collect();
    if own.contains(&true) {
        ask(&own)?;
    }
    if op.record().class == Class::Affine {
        for (i, _) in shared.iter().enumerate().filter(|(_, shared)| **shared) {
            let only: Flags = (0..shared.len()).map(|k| k == i).collect();
            ask(&only)?;
        }
    } else if shared.contains(&true) {
        ask(&shared)?;
    }
    Ok(found)
}

/// The gradients that are wanted, for inputs of which the mapped ones have, or are given, an axis of
/// examples.
fn rule(
    op: &dyn Operation,
    level: u64,
    size: usize,
    call: &Backward<'_>,
    flags: &[bool],
    wanted: &[bool],
) -> Result<Grads> {
    let record = op.record();
    let Backward { grads, inputs, outputs, .. } = *call;
    let made_of_operations = matches!(record.class, Class::Elementwise | Class::Reduction);
    let itself = || {
        tell(record.name, "made of operations, each batched", true);
        op.backward(&Backward { grads, inputs, outputs, wanted })
    };
    match op.batch(&Batch { inputs, mapped: flags, size, level }) {
        Batched::Itself => return itself(),
        Batched::Made(made) => {
            tell(record.name, "by other operations", true);
            return transposed(&made, level, size, call, wanted);
        }
        Batched::Call(at) if fits(&at, inputs, flags) => {
            let specs = op.infer(inputs)?;
            if let Some(values) = together(&at, level, flags, size, inputs, &specs)? {
                tell(record.name, by(op, &*at.op), true);
                let seen = |list: &[&Tensor]| -> Result<Values> {
                    let list = list.iter().enumerate();
                    list.map(|(k, x)| match specs.is_empty() {
                        true => whole(x, level, size),
                        false => output(&at, k).of(&whole(x, level, size)?),
                    })
                    .collect()
                };
                let (grads, outputs) = (seen(grads)?, seen(outputs)?);
                let grads: SmallVec<[&Tensor; 2]> = grads.iter().collect();
                let outputs: SmallVec<[&Tensor; 2]> = outputs.iter().collect();
                let values: SmallVec<[&Tensor; 4]> = values.iter().collect();
                let here = Location::caller();
                let found = backward_of_call(&*at.op, &grads, &values, &outputs, wanted, here)?;
                let back = |((grad, view), x): ((Option<Tensor>, &View), &&Tensor)| {
                    let batch = |grad: Tensor| view.back(&grad, &full(size, x.shape()));
                    Ok(grad.map(batch).transpose()?.map(|value| example(level, value)))
                };
                return found.into_iter().zip(&at.inputs).zip(inputs).map(back).collect();
            }
        }
        _ => {}
    }
    if made_of_operations {
        return itself();
    }
    each_rule(op, level, size, call, wanted)
}

/// The gradients of what is made of other operations.
fn transposed(
    made: &Composition,
    level: u64,
    size: usize,
    call: &Backward<'_>,
    wanted: &[bool],
) -> Result<Grads> {
    let values = call.inputs.iter().map(|x| whole(x, level, size));
    let values: Vec<Tensor> = values.collect::<Result<_>>()?;
    let moves: SmallVec<[usize; 4]> = (0..values.len()).filter(|&i| wanted[i]).collect();
    let moving: Vec<Tensor> = moves.iter().map(|&i| values[i].clone()).collect();
    let results = call.grads.len();
    let run = |moving: &Vec<Tensor>| {
        let mut at = values.clone();
        for (&i, x) in moves.iter().zip(moving) {
            at[i] = x.clone();
        }
        let mut outputs = made(&at)?;
        outputs.truncate(results);
        Ok(outputs)
    };
    let (_, pullback) = vjp(run, &moving)?;
    let grads = call.grads.iter().map(|g| whole(g, level, size));
    let found = pullback.call_once(&grads.collect::<Result<Vec<_>>>()?)?;
    let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
    for (i, grad) in moves.into_iter().zip(found) {
        grads[i] = Some(example(level, grad));
    }
    Ok(grads)
}

/// A backward rule that is called example by example.
fn each_rule(
    op: &dyn Operation,
    level: u64,
    size: usize,
    call: &Backward<'_>,
    wanted: &[bool],
) -> Result<Grads> {
    tell(op.record().name, LOOP, true);
    let mut all: SmallVec<[Vec<Tensor>; 3]> = SmallVec::from_elem(Vec::new(), call.inputs.len());
    for i in 0..size {
        let [grads, inputs, outputs] =
            [call.grads, call.inputs, call.outputs].map(|list| nth_of(list, level, i));
        let (grads, inputs, outputs) = (grads?, inputs?, outputs?);
        let grads: SmallVec<[&Tensor; 2]> = grads.iter().collect();
        let inputs: SmallVec<[&Tensor; 4]> = inputs.iter().collect();
        let outputs: SmallVec<[&Tensor; 2]> = outputs.iter().collect();
        let here = Location::caller();
        let found = backward_of_call(op, &grads, &inputs, &outputs, wanted, here)?;
        for (all, grad) in all.iter_mut().zip(found) {
            all.extend(grad);
        }
    }
    let stacked = |(grads, &wanted): (&Vec<Tensor>, &bool)| {
        if !wanted || grads.len() != size {
            return Ok(None);
        }
        Ok(Some(example(level, ops::stack(grads, 0)?)))
    };
    all.iter().zip(wanted).map(stacked).collect()
}

/// An error for a batch of nothing, which has no example to ask for shapes.
pub(super) fn expect_examples(op: &'static str, size: usize) -> Result<()> {
    if size > 0 {
        return Ok(());
    }
    let (expected, got) = ("at least one example".into(), "an axis of size 0".into());
    Err(Error::Parameter { op, parameter: "in_axes", expected, got })
}
