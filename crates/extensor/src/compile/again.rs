//! Less memory: what is cheap to compute is computed again where it is needed long after, rather than
//! kept.
//!
//! A backward pass reads what the forward pass made, in the reverse order: what was made first waits
//! longest. It must not know what that is for, only how cheap a kernel is and who reads what when.
//!
//! Cheap is what takes hardly longer than to read and write its arrays; and maps with elementary functions,
//! as far as all that are repeated take [a small share](SHARE) of the program's arithmetic: beside the
//! products of a large model that is nothing, in a chain of maps it is everything.

use super::record::{Operand, Recorded, Source};
use crate::exec::Kind;
use crate::exec::copy::Copying;
use crate::ops::operation::Spec;
use extensor_kernels::conv::Geometry;
use extensor_kernels::program::{Binary, Instruction, Unary};
use std::collections::HashMap;

/// What is smaller is kept; in tests, nothing is.
const LEAST: usize = if cfg!(test) { 1 } else { 1 << 14 };
/// What is needed again after at most so many other kernels is kept.
const SOON: usize = 6;

/// Which part of a program's arithmetic the maps with elementary functions that are repeated may take.
const SHARE: usize = 50;
/// In the time of an elementary function products of matrices make about so many additions and
/// multiplications, on one thread: `gelu` of 393,216 numbers took 125 µs, a product of 101 million 450 µs.
const ELEMENTARY: usize = 64;

/// What may be computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// What is cheap by itself.
    Cheap,
    /// And what is beside the rest of the program.
    Affordable,
}

/// The calls with some of them a second time, right before what they make is needed again. What they make
/// then are new values.
pub(super) fn again(
    calls: &[Recorded],
    values: &[Spec],
    results: &[Operand],
    repeat: Repeat,
) -> (Vec<Recorded>, Vec<Spec>) {
    let mut values = values.to_vec();
    let mut left = match repeat {
        Repeat::Cheap => 0,
        Repeat::Affordable => calls.iter().map(arithmetic).sum::<usize>() / SHARE,
    };
    let uses = Uses::new(calls, values.len(), results);
    // Before which call another one is repeated, and whose values stand for whose from there on.
    let mut before: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        let large = call.outputs.iter().any(|&v| values[v].bytes() >= LEAST);
        let cheap = is_cheap(call);
        let cost = if cheap { 0 } else { arithmetic(call) };
        if large
            && (cheap || is_map(call) && cost <= left)
            && let Some(later) = uses.gap(at, call)
        {
            left -= cost;
            before.entry(later).or_default().push(at);
        }
    }
    let mut instead: HashMap<usize, usize> = HashMap::new();
    let mut made = Vec::with_capacity(calls.len());
    for (at, call) in calls.iter().enumerate() {
        for &again in before.get(&at).into_iter().flatten() {
            let mut copy = calls[again].clone();
            redirect(&mut copy, &instead);
            for v in &mut copy.outputs {
                values.push(values[*v].clone());
                instead.insert(*v, values.len() - 1);
                *v = values.len() - 1;
            }
            made.push(copy);
        }
        let mut call = call.clone();
        redirect(&mut call, &instead);
        made.push(call);
    }
    (made, values)
}

/// Lets a call read the values that stand for others.
fn redirect(call: &mut Recorded, instead: &HashMap<usize, usize>) {
    for operand in &mut call.inputs {
        if let Source::Value(v) = &mut operand.source {
            *v = instead.get(v).copied().unwrap_or(*v);
        }
    }
}

/// When each value is read, and until when it is there anyway.
struct Uses {
    /// The calls that read it, in order.
    by: Vec<Vec<usize>>,
    /// Up to which call it is there, whatever happens to others; `usize::MAX`: to the end.
    until: Vec<usize>,
    results: Vec<bool>,
}

impl Uses {
    fn new(calls: &[Recorded], values: usize, results: &[Operand]) -> Uses {
        let mut by = vec![Vec::new(); values];
        let mut made = vec![false; values];
        let mut replaced = vec![usize::MAX; values];
        for (at, call) in calls.iter().enumerate() {
            let first = call.inputs.len() - call.replaced;
            for (k, operand) in call.inputs.iter().enumerate() {
                let Source::Value(v) = operand.source else { continue };
                if by[v].last() != Some(&at) {
                    by[v].push(at);
                }
                if k >= first {
                    replaced[v] = replaced[v].min(at);
                }
            }
            call.outputs.iter().for_each(|&v| made[v] = true);
        }
        let mut is_result = vec![false; values];
        for result in results {
            if let Source::Value(v) = result.source {
                is_result[v] = true;
            }
        }
        let until = (0..values)
            .map(|v| match made[v] && !is_result[v] {
                true => by[v].last().copied().unwrap_or(0),
                // An argument's memory may become that of what replaces it.
                false => replaced[v],
            })
            .collect();
        Uses { by, until, results: is_result }
    }

    /// The call before which what a call makes is to be made again: the end of the longest time in which
    /// nobody reads it, if all that it is made of is there then.
    fn gap(&self, at: usize, call: &Recorded) -> Option<usize> {
        if call.outputs.iter().any(|&v| self.results[v]) {
            return None;
        }
        let mut reads: Vec<usize> =
            call.outputs.iter().flat_map(|&v| self.by[v].iter().copied()).collect();
        reads.push(at);
        reads.sort_unstable();
        let gap = reads.windows(2).max_by_key(|pair| pair[1] - pair[0])?;
        let there = |operand: &Operand| match operand.source {
            Source::Value(v) => self.until[v] >= gap[1],
            Source::Constant(_) => true,
        };
        (gap[1] - gap[0] > SOON && call.inputs.iter().all(there)).then_some(gap[1])
    }
}

/// Whether a kernel is a map, of whatever functions.
fn is_map(call: &Recorded) -> bool {
    call.replaced == 0
        && match call.kernel.kind() {
            Kind::Map(_) => true,
            Kind::Fused(fused) => fused.folds.is_none(),
            _ => false,
        }
}

/// Nearly how many additions and multiplications a kernel makes, or might in its time: of those that take
/// most of a program's, and of maps. Others count nothing.
fn arithmetic(call: &Recorded) -> usize {
    let len = |operand: &Operand| operand.layout.shape.iter().product::<usize>();
    let last = |operand: &Operand, back: usize| {
        let shape = &operand.layout.shape;
        shape.len().checked_sub(back).map_or(1, |axis| shape[axis])
    };
    let map = |instructions: &[Instruction]| {
        let each = instructions.iter().map(|i| if is_quick(i) { 1 } else { ELEMENTARY });
        each.sum::<usize>().saturating_mul(call.inputs.iter().map(len).max().unwrap_or(0))
    };
    match call.kernel.kind() {
        Kind::Map(mapping) => map(&mapping.program().instructions),
        Kind::Fused(fused) => map(&fused.bundle.instructions),
        Kind::Product(_) => (2 * len(&call.inputs[0])).saturating_mul(last(&call.inputs[1], 1)),
        Kind::Convolution(convolution) => {
            let Geometry { images, groups, filters, channels, z, y, x } = convolution.geometry;
            let each = 2 * channels * z.kernel * y.kernel * x.kernel;
            let outputs = images * groups * filters * z.output * y.output * x.output;
            outputs.saturating_mul(each)
        }
        Kind::Distance(_) => (3 * len(&call.inputs[0])).saturating_mul(last(&call.inputs[1], 1)),
        // Scores and their averages, in three products more for the gradients.
        Kind::Attention(_) => (4 * len(&call.inputs[0])).saturating_mul(last(&call.inputs[1], 2)),
        Kind::AttentionGradient(_) => {
            (10 * len(&call.inputs[0])).saturating_mul(last(&call.inputs[1], 2))
        }
        _ => 0,
    }
}

/// Whether a kernel takes hardly longer than to read and write its arrays.
fn is_cheap(call: &Recorded) -> bool {
    if call.replaced > 0 {
        return false;
    }
    match call.kernel.kind() {
        Kind::Copy(Copying::Whole) | Kind::Cast | Kind::Choose(_) | Kind::Normalize(_) => true,
        Kind::Map(mapping) => mapping.program().instructions.iter().all(is_quick),
        Kind::Fused(fused) => {
            fused.folds.is_none() && fused.bundle.instructions.iter().all(is_quick)
        }
        _ => false,
    }
}

fn is_quick(instruction: &Instruction) -> bool {
    match instruction {
        Instruction::Unary(f, _) => matches!(f, Unary::Negate | Unary::Abs),
        Instruction::Binary(f, ..) => matches!(
            f,
            Binary::Add
                | Binary::Subtract
                | Binary::Multiply
                | Binary::Times
                | Binary::Maximum
                | Binary::Minimum
                | Binary::NanOr
        ),
        Instruction::PowerTimes(..) | Instruction::NthDerivative(..) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::autodiff::value_and_grad;
    use crate::compile::compile;
    use crate::ops::Approximate;
    use crate::{DType, Key, Result, Tensor};

    /// Layers whose outputs the backward pass needs, cheap to make of what it needs as well; the last
    /// reader of an argument comes long after the first.
    fn deep((x, w): &(Tensor, Tensor)) -> Result<Tensor> {
        let mut y = x.clone();
        for _ in 0..8 {
            let z = y.matmul(w)?.transpose(..)?.copied()?;
            y = z.relu()?.add(&z.transpose(..)?.copied()?)?.layer_norm(None, None, &[6], 1e-5)?;
        }
        y.multiply(x)?.sum(..)
    }

    /// Products, and between them what takes long to compute and little beside them.
    fn hidden((x, weights): &(Tensor, Vec<Tensor>)) -> Result<Tensor> {
        let layer = |y: Tensor, w: &Tensor| y.matmul(w)?.gelu(Approximate::None);
        weights.iter().try_fold(x.clone(), layer)?.multiply(x)?.sum(..)
    }

    #[test]
    fn elementary_functions_are_computed_again_where_they_are_little_beside_the_rest() -> Result<()>
    {
        let [a, b] = Key::new(1).split();
        // How many gelus are computed between products of this width?
        let computed = |width: usize| -> Result<usize> {
            let x = a.normal([256, width], DType::F32)?;
            let w = b.normal([width, width], DType::F32)?.multiply(&crate::tensor(0.05f32))?;
            let given = (x, vec![w; 6]);
            let compiled = compile(|given: &(Tensor, Vec<Tensor>)| value_and_grad(hidden, given));
            let (want, got) = (value_and_grad(hidden, &given)?, compiled.call(&given)?);
            assert_eq!(want.1.0.to_bytes()?, got.1.0.to_bytes()?);
            for (want, got) in want.1.1.iter().zip(&got.1.1) {
                assert_eq!(want.to_bytes()?, got.to_bytes()?);
            }
            let text = compiled.explain();
            Ok(text.lines().filter(|line| line.contains(": gelu(")).count())
        };
        // The last one is computed with the sum.
        assert_eq!(computed(16)?, 5);
        assert!(computed(512)? > 5);
        Ok(())
    }

    #[test]
    fn what_is_computed_again_has_the_same_bits_and_takes_less_memory() -> Result<()> {
        let [a, b] = Key::new(1).split();
        let given = (a.normal([6, 6], DType::F32)?, b.normal([6, 6], DType::F32)?);
        let compiled = compile(|given: &(Tensor, Tensor)| value_and_grad(deep, given));
        let (want, got) = (value_and_grad(deep, &given)?, compiled.call(&given)?);
        assert_eq!(want.0.to_bytes()?, got.0.to_bytes()?);
        assert_eq!(want.1.0.to_bytes()?, got.1.0.to_bytes()?);
        assert_eq!(want.1.1.to_bytes()?, got.1.1.to_bytes()?);
        let text = compiled.explain();
        let again = text.matches("): Normalize(").count();
        assert!(again > 8, "nothing is computed twice:\n{text}");
        Ok(())
    }
}
