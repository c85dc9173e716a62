//! Fewer passes over memory: what is computed twice is computed once, and maps of the same elements,
//! and folds of what they make, become one kernel.
//!
//! Bits stay: a fused kernel runs the steps of each of its formulas, which have the formula's bits,
//! rounds between them where the maps do, and folds in the order in which the folds do. It must not
//! know operations.

mod cluster;
mod kernel;
mod part;

use super::record::{Operand, Recorded, Source};
use crate::Tensor;
use crate::exec::Kind;
use crate::ops::operation::Spec;
use cluster::Clusters;
use part::Part;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The calls without those that compute what an earlier one does, whose values stand for theirs.
pub(super) fn once(
    calls: Vec<Recorded>,
    values: &[Spec],
    results: &mut [Operand],
) -> Vec<Recorded> {
    let mut instead: HashMap<usize, usize> = HashMap::new();
    let mut known: HashMap<String, Vec<usize>> = HashMap::new();
    let mut kept = Vec::with_capacity(calls.len());
    let replace = |operand: &mut Operand, instead: &HashMap<usize, usize>| {
        if let Source::Value(v) = &mut operand.source
            && let Some(other) = instead.get(v)
        {
            *v = *other;
        }
    };
    for mut call in calls {
        call.inputs.iter_mut().for_each(|x| replace(x, &instead));
        if let Some(key) = key(&call, values) {
            if let Some(outputs) = known.get(&key) {
                instead.extend(call.outputs.iter().copied().zip(outputs.iter().copied()));
                continue;
            }
            known.insert(key, call.outputs.clone());
        }
        kept.push(call);
    }
    results.iter_mut().for_each(|x| replace(x, &instead));
    kept
}

/// A text that two calls have in common only if they compute the same.
fn key(call: &Recorded, values: &[Spec]) -> Option<String> {
    let kind = call.kernel.kind();
    if matches!(kind, Kind::Update) {
        return None;
    }
    let inputs: Vec<String> = call
        .inputs
        .iter()
        .map(|x| {
            format!(
                "{:?} {:?} {:?} {}",
                x.source, x.layout.shape, x.layout.strides, x.layout.offset
            )
        })
        .collect();
    let outputs: Vec<&Spec> = call.outputs.iter().map(|&v| &values[v]).collect();
    // What makes nothing is there for its error, which names the operation.
    let op = if outputs.is_empty() { call.op } else { "" };
    Some(format!("{kind:?} {inputs:?} {outputs:?} {op}"))
}

/// What is known of a program while its calls are put together.
struct Known<'a> {
    calls: &'a [Recorded],
    values: &'a [Spec],
    constants: &'a [Tensor],
    /// What each call is as a part of a fused kernel, if it can be one.
    parts: Vec<Option<Part>>,
    /// Whether each value is written whatever becomes one kernel: it is a result, or is read by a call that
    /// cannot be part of one.
    written: Vec<bool>,
}

/// The calls with maps, and folds of them, fused where that saves passes over memory.
///
/// Every call begins as a cluster of its own. Two become one if they are over the same elements and no
/// third one needs what the one makes for what the other reads; in any order in which each cluster comes
/// after those that it reads from, results are the same.
pub(super) fn kernels(
    calls: Vec<Recorded>,
    values: &[Spec],
    constants: &[Tensor],
    results: &[Operand],
) -> Vec<Recorded> {
    let parts: Vec<Option<Part>> =
        calls.iter().map(|call| Part::of(call, values, constants)).collect();
    let others = calls.iter().zip(&parts).filter(|(_, part)| part.is_none());
    let mut written = vec![false; values.len()];
    for operand in others.flat_map(|(call, _)| &call.inputs).chain(results) {
        if let Source::Value(v) = operand.source {
            written[v] = true;
        }
    }
    let known = Known { calls: &calls, values, constants, parts, written };
    let mut clusters = Clusters::new(&known);
    for at in 0..calls.len() {
        clusters.add(at);
    }
    let wanted = wanted(&known, &clusters, results);
    let fused: HashMap<usize, Recorded> = clusters
        .iter()
        .filter(|(_, cluster)| cluster.members.len() > 1)
        .map(|(number, cluster)| (number, kernel::fuse(&known, cluster, &wanted)))
        .collect();
    let order = order(&clusters);
    drop(clusters);
    let mut fused = fused;
    let mut calls: Vec<Option<Recorded>> = calls.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|number| fused.remove(&number).or_else(|| calls[number].take()))
        .collect()
}

/// Whether each value is read by somebody outside of the cluster that makes it.
fn wanted(known: &Known<'_>, clusters: &Clusters<'_>, results: &[Operand]) -> Vec<bool> {
    let mut wanted = vec![false; known.values.len()];
    for result in results {
        if let Source::Value(v) = result.source {
            wanted[v] = true;
        }
    }
    for (at, call) in known.calls.iter().enumerate() {
        for operand in &call.inputs {
            if let Source::Value(v) = operand.source
                && clusters.maker(operand) != Some(clusters.of(at))
            {
                wanted[v] = true;
            }
        }
    }
    wanted
}

/// The clusters in an order in which each comes after those it reads from: where its last call was, or
/// later.
fn order(clusters: &Clusters<'_>) -> Vec<usize> {
    let mut waiting: HashMap<usize, usize> = HashMap::new();
    let mut readers: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut ready = BinaryHeap::new();
    let last: HashMap<usize, usize> = clusters
        .iter()
        .map(|(number, cluster)| (number, cluster.members[cluster.members.len() - 1]))
        .collect();
    for (number, _) in clusters.iter() {
        let needs = clusters.needs(number);
        if needs.is_empty() {
            ready.push(Reverse((last[&number], number)));
        }
        waiting.insert(number, needs.len());
        needs.into_iter().for_each(|other| readers.entry(other).or_default().push(number));
    }
    let mut order = Vec::with_capacity(last.len());
    while let Some(Reverse((_, number))) = ready.pop() {
        order.push(number);
        for &reader in readers.get(&number).into_iter().flatten() {
            if let Some(left) = waiting.get_mut(&reader) {
                *left -= 1;
                if *left == 0 {
                    ready.push(Reverse((last[&reader], reader)));
                }
            }
        }
    }
    assert_eq!(order.len(), last.len(), "clusters that wait for each other");
    order
}
