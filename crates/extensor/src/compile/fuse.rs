//! Fewer passes over memory: what is computed twice is computed once, and maps of the same elements that
//! follow each other become one kernel.
//!
//! Bits stay: a fused map runs the steps of each of its formulas, which have the formula's bits, and
//! rounds between them where the maps do. It must not know operations.

use super::record::{Operand, Recorded, Source};
use crate::exec::choose::Choose;
use crate::exec::copy::Copying;
use crate::exec::fused::FusedMap;
use crate::exec::{Kernel, Kind};
use crate::ops::operation::Spec;
use crate::{DType, Tensor};
use extensor_kernels::number::Number;
use extensor_kernels::program::{Bundle, Instruction, Narrow, Program};
use extensor_kernels::symbol::Symbol;
use std::collections::HashMap;
use std::sync::Arc;

/// The most arrays that a fused map reads, and the most steps it has: beyond, what its blocks take in
/// the first cache would push each other out.
const MOST_READ: usize = 12;
const MOST_STEPS: usize = 160;

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

/// A map as the fuser sees it.
struct Map {
    program: Program,
    /// Whether it is computed in `f64`; `None`: in either.
    double: Option<bool>,
}

/// What a call is as a map of floats and masks, if it is one.
fn as_map(call: &Recorded, dtypes: &[DType], out: &Spec) -> Option<Map> {
    let floats = |dtype: &DType| dtype.is_float() || *dtype == DType::Bool;
    if call.outputs.len() != 1
        || call.replaced > 0
        || !dtypes.iter().all(floats)
        || !floats(&out.dtype)
    {
        return None;
    }
    let doubles = dtypes.iter().chain([&out.dtype]).filter(|&&d| d == DType::F64).count();
    let all = dtypes.iter().chain([&out.dtype]).filter(|d| d.is_float()).count();
    let double = match (doubles, all) {
        (0, 0) => None,
        (0, _) => Some(false),
        (n, all) if n == all => Some(true),
        // Some of them are and some not.
        _ => return None,
    };
    let same = |x: &[Symbol]| x[0];
    let program = match call.kernel.kind() {
        Kind::Map(mapping) => mapping.program(),
        Kind::Choose(Choose::Either) => {
            Program::record(3, |x| Symbol::select(x[0].answer(), x[1], x[2]))
        }
        Kind::Choose(Choose::Scaled(scale)) => {
            let scale = *scale;
            Program::record(2, |x| {
                Symbol::select(x[0].answer(), x[1] * x[1].lit(scale), x[1].lit(0.0))
            })
        }
        Kind::Cast if out.dtype.is_float() => Program::record(1, same),
        Kind::Copy(Copying::Whole) => Program::record(1, same),
        _ => return None,
    };
    Some(Map { program, double })
}

/// Maps that become one kernel.
struct Group {
    len: usize,
    double: Option<bool>,
    members: Vec<usize>,
    /// What is read from outside.
    reads: Vec<Operand>,
    steps: usize,
    /// Whether somebody else already reads what it makes.
    closed: bool,
}

/// The calls with maps fused where that saves passes over memory.
pub(super) fn maps(
    calls: Vec<Recorded>,
    values: &[Spec],
    constants: &[Tensor],
    results: &[Operand],
) -> Vec<Recorded> {
    let dtype = |source: Source| match source {
        Source::Constant(k) => constants[k].dtype(),
        Source::Value(v) => values[v].dtype,
    };
    let mut groups: Vec<Group> = Vec::new();
    // The group that makes a value, and the group of a call.
    let mut maker: HashMap<usize, usize> = HashMap::new();
    let mut group_of: Vec<Option<usize>> = vec![None; calls.len()];
    let mut as_maps: Vec<Option<Map>> = Vec::with_capacity(calls.len());
    for (at, call) in calls.iter().enumerate() {
        let dtypes: Vec<DType> = call.inputs.iter().map(|x| dtype(x.source)).collect();
        let map = call.outputs.first().and_then(|&v| as_map(call, &dtypes, &values[v]));
        let chosen = map.as_ref().and_then(|map| {
            let len = count(&values[call.outputs[0]]);
            join(&mut groups, &maker, call, map, len)
        });
        // Whoever else reads what a group makes closes it.
        for operand in &call.inputs {
            if let Source::Value(v) = operand.source
                && let Some(&group) = maker.get(&v)
                && Some(group) != chosen
            {
                groups[group].closed = true;
            }
        }
        if let (Some(map), Some(group)) = (&map, chosen) {
            groups[group].members.push(at);
            groups[group].steps += map.program.instructions.len();
            groups[group].double = groups[group].double.or(map.double);
            group_of[at] = Some(group);
            maker.insert(call.outputs[0], group);
        }
        as_maps.push(map);
    }
    emit(calls, values, results, &groups, &group_of, &as_maps)
}

fn count(spec: &Spec) -> usize {
    spec.shape.iter().product()
}

/// Whether an operand is all of a value, in its order.
fn is_whole(operand: &Operand, len: usize) -> bool {
    let count: usize = operand.layout.shape.iter().product();
    operand.layout.offset == 0 && count == len && operand.layout.is_contiguous()
}

/// The group that a map joins, or a new one.
fn join(
    groups: &mut Vec<Group>,
    maker: &HashMap<usize, usize>,
    call: &Recorded,
    map: &Map,
    len: usize,
) -> Option<usize> {
    if len == 0 {
        return None;
    }
    let made_by = |x: &Operand| match x.source {
        Source::Value(v) => maker.get(&v).copied(),
        Source::Constant(_) => None,
    };
    let fits = |group: usize, groups: &[Group]| {
        let g = &groups[group];
        let precision = g.double.is_none() || map.double.is_none() || g.double == map.double;
        let within = |x: &Operand| made_by(x) != Some(group) || is_whole(x, len);
        let new = call.inputs.iter().filter(|x| made_by(x) != Some(group) && !reads(g, x)).count();
        !g.closed
            && g.len == len
            && precision
            && call.inputs.iter().all(within)
            && g.reads.len() + new <= MOST_READ
            && g.steps + map.program.instructions.len() <= MOST_STEPS
    };
    let makers = call.inputs.iter().filter_map(made_by);
    let sharers = (0..groups.len())
        .rev()
        .take(8)
        .filter(|&g| call.inputs.iter().any(|x| reads(&groups[g], x)));
    let found = makers.chain(sharers).find(|&group| fits(group, groups));
    let group = found.unwrap_or_else(|| {
        let (members, reads) = (Vec::new(), Vec::new());
        groups.push(Group { len, double: map.double, members, reads, steps: 0, closed: false });
        groups.len() - 1
    });
    for operand in &call.inputs {
        if made_by(operand) != Some(group) && !reads(&groups[group], operand) {
            groups[group].reads.push(operand.clone());
        }
    }
    Some(group)
}

fn same_operand(a: &Operand, b: &Operand) -> bool {
    a.source == b.source && a.layout == b.layout
}

fn reads(group: &Group, operand: &Operand) -> bool {
    group.reads.iter().any(|x| same_operand(x, operand))
}

/// The calls with each group in the place of its last member.
fn emit(
    calls: Vec<Recorded>,
    values: &[Spec],
    results: &[Operand],
    groups: &[Group],
    group_of: &[Option<usize>],
    as_maps: &[Option<Map>],
) -> Vec<Recorded> {
    // What is read by somebody outside of the group that makes it.
    let mut wanted = vec![false; values.len()];
    for result in results {
        if let Source::Value(v) = result.source {
            wanted[v] = true;
        }
    }
    let mut made: HashMap<usize, usize> = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        for operand in &call.inputs {
            if let Source::Value(v) = operand.source
                && made.get(&v).copied() != group_of[at]
            {
                wanted[v] = true;
            }
        }
        if let Some(group) = group_of[at] {
            made.insert(call.outputs[0], group);
        }
    }
    let mut fused: HashMap<usize, Recorded> = HashMap::new();
    for (number, group) in groups.iter().enumerate().filter(|(_, g)| g.members.len() > 1) {
        fused.insert(number, fuse(group, &calls, values, &wanted, as_maps));
    }
    let mut kept = Vec::new();
    for (at, call) in calls.into_iter().enumerate() {
        match group_of[at] {
            Some(group) if groups[group].members.len() > 1 => {
                if groups[group].members.last() == Some(&at) {
                    kept.extend(fused.remove(&group));
                }
            }
            _ => kept.push(call),
        }
    }
    kept
}

/// One kernel for the maps of a group.
fn fuse(
    group: &Group,
    calls: &[Recorded],
    values: &[Spec],
    wanted: &[bool],
    as_maps: &[Option<Map>],
) -> Recorded {
    let mut outputs = Vec::new();
    let bundle = Bundle::record(group.reads.len(), |variables| {
        let mut made: HashMap<usize, Symbol> = HashMap::new();
        let mut results = Vec::new();
        for &at in &group.members {
            let (call, Some(map)) = (&calls[at], &as_maps[at]) else { continue };
            let arguments: Vec<Symbol> = call
                .inputs
                .iter()
                .map(|operand| {
                    let own = match operand.source {
                        Source::Value(v) => made.get(&v).copied(),
                        Source::Constant(_) => None,
                    };
                    own.or_else(|| {
                        let at = group.reads.iter().position(|x| same_operand(x, operand))?;
                        Some(variables[at])
                    })
                    .unwrap_or_else(|| unreachable!("an operand is made here or read"))
                })
                .collect();
            let mut steps: Vec<Symbol> = Vec::with_capacity(map.program.instructions.len());
            for instruction in &map.program.instructions {
                steps.push(match *instruction {
                    Instruction::Variable(k) => arguments[k],
                    _ => Symbol::repeat(instruction, &steps),
                });
            }
            let value = call.outputs[0];
            let result = steps[map.program.result];
            let result = match values[value].dtype {
                DType::F16 => result.round_to(Narrow::F16),
                DType::BF16 => result.round_to(Narrow::BF16),
                _ => result,
            };
            made.insert(value, result);
            if wanted[value] {
                outputs.push(value);
                results.push(result);
            }
        }
        results
    });
    let last = &calls[group.members[group.members.len() - 1]];
    let kernel: Arc<dyn Kernel> = Arc::new(FusedMap::new(bundle, group.double == Some(true)));
    Recorded { op: last.op, kernel, inputs: group.reads.clone(), replaced: 0, outputs }
}
