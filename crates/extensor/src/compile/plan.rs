//! Where each value of a program lies, and from when until when.
//!
//! It must not know what the kernels do, only what they read, write and replace.

use super::again::{Repeat, again};
use super::fuse;
use super::record::{Operand, Recorded, Source, Tape};
use crate::ops::operation::Spec;
use crate::tensor::Layout;
use crate::{DType, Tensor};
use extensor_kernels::arena::Arena;
use std::ops::Range;

/// Which part of the memory is worth computing something again.
const WORTH: usize = 16;

/// A program that can be run.
pub(crate) struct Program {
    pub steps: Vec<Step>,
    pub constants: Vec<Tensor>,
    /// What is computed for the caller: each in memory of its own, or in that of an argument that it
    /// replaces, if the caller gives that away.
    pub made: Vec<(Spec, Option<usize>)>,
    /// The results: views of what was made, of arguments or of constants.
    pub results: Vec<(From, Layout, DType)>,
    /// How much memory the values on the way share.
    pub arena: usize,
}

/// A kernel's call with what it reads and writes in the arena.
pub(crate) struct Step {
    pub call: Recorded,
    pub inputs: Vec<From>,
    pub dtypes: Vec<DType>,
    pub outputs: Vec<To>,
    /// For each output, which input it replaces, if that lies elsewhere.
    pub old: Vec<Option<usize>>,
    pub specs: Vec<Spec>,
    pub reads: Vec<Range<usize>>,
    pub writes: Vec<Range<usize>>,
}

/// Where an array is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Argument(usize),
    Constant(usize),
    /// A value made for the caller.
    Made(usize),
    /// Number so and so of the ranges that the step reads.
    Arena(usize),
    /// In the place of the output that replaces it.
    InPlace,
}

/// Where an array is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Made(usize),
    /// Number so and so of the ranges that the step writes.
    Arena(usize),
}

/// Where a value lies.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    Argument(usize),
    Made(usize),
    Arena(Range<usize>),
    /// Nobody needs it.
    Nowhere,
}

impl Program {
    /// A plan for what was recorded: of so many arguments these results.
    pub fn new(tape: Tape, arguments: usize, mut results: Vec<Operand>) -> Program {
        let Tape { mut values, calls, constants, .. } = tape;
        let calls = fuse::once(calls, &values, &mut results);
        let results = &results[..];
        let calls = needed(calls, values.len(), results);
        let mut calls = fuse::kernels(calls, &values, &constants, results);
        let mut plan = places(&values, &calls, arguments, results);
        // What is cheap is computed again where that saves memory, and then what is affordable where that
        // saves more.
        let (first, specs) = (calls.clone(), values.clone());
        for repeat in [Repeat::Cheap, Repeat::Affordable] {
            let (more, others) = again(&first, &specs, results, repeat);
            let other = places(&others, &more, arguments, results);
            if other.2 < plan.2 - plan.2 / WORTH {
                (calls, values, plan) = (more, others, other);
            }
        }
        let (places, made, arena) = plan;
        let donors = donors(&values, &calls, &places, results, made.len());
        let made = made.into_iter().zip(donors).collect();
        let from = |source: Source| match source {
            Source::Constant(k) => From::Constant(k),
            Source::Value(v) => match places[v] {
                Place::Argument(k) => From::Argument(k),
                Place::Made(k) => From::Made(k),
                _ => unreachable!("a result is an argument, a constant or made for the caller"),
            },
        };
        let dtype = |source: Source| match source {
            Source::Constant(k) => constants[k].dtype(),
            Source::Value(v) => values[v].dtype,
        };
        let results =
            results.iter().map(|r| (from(r.source), r.layout.clone(), dtype(r.source))).collect();
        let steps = calls.into_iter().map(|call| {
            let (mut reads, mut writes) = (Vec::new(), Vec::new());
            let first = call.inputs.len() - call.replaced;
            let own = |v: usize| {
                // An input in the memory of the output that replaces it.
                call.outputs.iter().any(|&out| {
                    matches!((&places[out], &places[v]),
                    (Place::Arena(a), Place::Arena(b)) if a == b)
                })
            };
            let inputs: Vec<From> = call
                .inputs
                .iter()
                .enumerate()
                .map(|(k, operand)| match operand.source {
                    Source::Value(v) => match &places[v] {
                        Place::Arena(_) if k >= first && own(v) => From::InPlace,
                        Place::Arena(range) => {
                            reads.push(range.clone());
                            From::Arena(reads.len() - 1)
                        }
                        _ => from(operand.source),
                    },
                    source => from(source),
                })
                .collect();
            let outputs = call
                .outputs
                .iter()
                .map(|&v| match &places[v] {
                    Place::Made(k) => To::Made(*k),
                    Place::Arena(range) => {
                        writes.push(range.clone());
                        To::Arena(writes.len() - 1)
                    }
                    _ => unreachable!("what a call makes lies somewhere"),
                })
                .collect();
            let old = (0..call.outputs.len())
                .map(|k| (k < call.replaced).then_some(first + k))
                .map(|k| k.filter(|&k| inputs[k] != From::InPlace))
                .collect();
            let dtypes = call.inputs.iter().map(|x| dtype(x.source)).collect();
            let specs = call.outputs.iter().map(|&v| values[v].clone()).collect();
            Step { inputs, dtypes, outputs, old, specs, reads, writes, call }
        });
        let steps = steps.collect();
        Program { steps, constants, made, results, arena }
    }
}

/// The calls without which the results could not be computed.
fn needed(calls: Vec<Recorded>, values: usize, results: &[Operand]) -> Vec<Recorded> {
    let mut wanted = vec![false; values];
    let want = |source: Source, wanted: &mut Vec<bool>| {
        if let Source::Value(v) = source {
            wanted[v] = true;
        }
    };
    results.iter().for_each(|r| want(r.source, &mut wanted));
    let mut kept: Vec<Recorded> = Vec::new();
    for call in calls.into_iter().rev() {
        // What makes nothing looks for numbers that must not be there.
        if call.outputs.is_empty() || call.outputs.iter().any(|&v| wanted[v]) {
            call.inputs.iter().for_each(|x| want(x.source, &mut wanted));
            kept.push(call);
        }
    }
    kept.reverse();
    kept
}

/// A place for each value, what is made for the caller, and the size of the arena.
fn places(
    values: &[Spec],
    calls: &[Recorded],
    arguments: usize,
    results: &[Operand],
) -> (Vec<Place>, Vec<Spec>, usize) {
    let mut places = vec![Place::Nowhere; values.len()];
    for (k, place) in places[..arguments].iter_mut().enumerate() {
        *place = Place::Argument(k);
    }
    let mut made = Vec::new();
    for result in results {
        if let Source::Value(v) = result.source
            && places[v] == Place::Nowhere
        {
            places[v] = Place::Made(made.len());
            made.push(values[v].clone());
        }
    }
    // From which call on, and up to which, each of the others is needed.
    let mut lives: Vec<Option<Life>> = vec![None; values.len()];
    for (at, call) in calls.iter().enumerate() {
        for operand in &call.inputs {
            if let Source::Value(v) = operand.source
                && let Some(life) = &mut lives[v]
            {
                life.until = at;
            }
        }
        for &v in &call.outputs {
            if places[v] == Place::Nowhere {
                lives[v] =
                    Some(Life { values: vec![v], from: at, until: at, bytes: values[v].bytes() });
            }
        }
    }
    // What replaces a value that nobody needs any more takes its place.
    for (at, call) in calls.iter().enumerate() {
        let first = call.inputs.len() - call.replaced;
        for (k, operand) in call.inputs[first..].iter().enumerate() {
            let (Source::Value(old), new) = (operand.source, call.outputs[k]) else { continue };
            let again = call.inputs.iter().filter(|x| x.source == operand.source).count() > 1;
            let fits = |old: &Life, new: &Life| old.until == at && old.bytes == new.bytes;
            if again || !matches!((&lives[old], &lives[new]), (Some(a), Some(b)) if fits(a, b)) {
                continue;
            }
            if let (Some(before), Some(after)) = (lives[old].take(), &mut lives[new]) {
                after.from = before.from;
                after.values.extend(before.values);
            }
        }
    }
    let mut lives: Vec<Life> = lives.into_iter().flatten().collect();
    // The largest first; each at the lowest place that nobody has at the same time.
    lives.sort_by_key(|life| (std::cmp::Reverse(life.bytes), life.from));
    let mut placed: Vec<(Range<usize>, usize, usize)> = Vec::new();
    let mut end = 0;
    for life in lives {
        let room = Arena::room(life.bytes);
        let mut taken: Vec<&Range<usize>> = placed
            .iter()
            .filter(|(_, from, until)| *from <= life.until && life.from <= *until)
            .map(|(range, ..)| range)
            .collect();
        taken.sort_by_key(|range| range.start);
        let mut at = 0;
        for range in taken {
            if at + room <= range.start {
                break;
            }
            at = at.max(range.end);
        }
        end = end.max(at + room);
        placed.push((at..at + room, life.from, life.until));
        for v in life.values {
            places[v] = Place::Arena(at..at + life.bytes);
        }
    }
    (places, made, end)
}

/// For each value made for the caller, the argument that it replaces, if nobody needs that afterwards.
fn donors(
    values: &[Spec],
    calls: &[Recorded],
    places: &[Place],
    results: &[Operand],
    made: usize,
) -> Vec<Option<usize>> {
    let mut last = vec![0; values.len()];
    for (at, call) in calls.iter().enumerate() {
        for operand in &call.inputs {
            if let Source::Value(v) = operand.source {
                last[v] = at;
            }
        }
    }
    let mut donors = vec![None; made];
    for (at, call) in calls.iter().enumerate() {
        let first = call.inputs.len() - call.replaced;
        for (operand, &new) in call.inputs[first..].iter().zip(&call.outputs) {
            let Source::Value(old) = operand.source else { continue };
            let (Place::Argument(argument), Place::Made(k)) = (&places[old], &places[new]) else {
                continue;
            };
            let needed = last[old] > at
                || results.iter().any(|r| r.source == operand.source)
                || call.inputs.iter().filter(|x| x.source == operand.source).count() > 1;
            if !needed && values[old].bytes() == values[new].bytes() {
                donors[*k] = Some(*argument);
            }
        }
    }
    donors
}

/// From when until when a value, or several in one place, are needed.
#[derive(Clone)]
struct Life {
    values: Vec<usize>,
    from: usize,
    until: usize,
    bytes: usize,
}
