//! What a call is as a part of a fused kernel.

use crate::compile::record::{Operand, Recorded, Source};
use crate::exec::Kind;
use crate::exec::choose::Choose;
use crate::exec::copy::Copying;
use crate::exec::reduce::Fold as Folding;
use crate::ops::operation::Spec;
use crate::{DType, Tensor};
use extensor_kernels::fused::fold::{Fold, Groups};
use extensor_kernels::number::Number;
use extensor_kernels::program::Program;
use extensor_kernels::reduce::MAP_SUM_PIECE;
use extensor_kernels::symbol::Symbol;

/// A map, or a map that is folded.
pub(super) struct Part {
    pub program: Program,
    /// Whether it is computed in `f64`; `None`: in either.
    pub double: Option<bool>,
    /// How many elements it is computed for.
    pub len: usize,
    /// What becomes of its results, and which belong together.
    pub fold: Option<(Fold, Groups)>,
}

impl Part {
    /// What a call is, if it can be part of a fused kernel.
    pub fn of(call: &Recorded, values: &[Spec], constants: &[Tensor]) -> Option<Part> {
        let [output] = call.outputs[..] else { return None };
        let out = &values[output];
        let dtypes: Vec<DType> = call
            .inputs
            .iter()
            .map(|x| match x.source {
                Source::Constant(k) => constants[k].dtype(),
                Source::Value(v) => values[v].dtype,
            })
            .collect();
        let floats = |dtype: &DType| dtype.is_float() || *dtype == DType::Bool;
        if call.replaced > 0 || !dtypes.iter().all(floats) || !floats(&out.dtype) {
            return None;
        }
        let double = double(dtypes.iter().chain([&out.dtype]))?;
        let (program, fold) = formula(call, out)?;
        let len = match &fold {
            Some(_) => call.inputs[0].layout.shape.iter().product(),
            None => out.shape.iter().product(),
        };
        (len > 0).then_some(Part { program, double, len, fold })
    }
}

/// Whether numbers of these types are computed in `f64`; outside: if that cannot be said.
fn double<'a>(dtypes: impl Iterator<Item = &'a DType> + Clone) -> Option<Option<bool>> {
    let doubles = dtypes.clone().filter(|&&d| d == DType::F64).count();
    match (doubles, dtypes.filter(|d| d.is_float()).count()) {
        (0, 0) => Some(None),
        (0, _) => Some(Some(false)),
        (n, all) if n == all => Some(Some(true)),
        _ => None,
    }
}

/// The steps of a map, and how its results are folded.
fn formula(call: &Recorded, out: &Spec) -> Option<(Program, Option<(Fold, Groups)>)> {
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
        Kind::Reduce(folding, over) if out.dtype.is_float() => {
            let shape = &call.inputs[0].layout.shape;
            let groups = Groups::new(shape, over).filter(Groups::is_quick)?;
            let count: usize =
                shape.iter().zip(over).filter(|(_, over)| **over).map(|x| *x.0).product();
            let fold = match folding {
                Folding::Sum => Fold::Sum { divisor: 1.0 },
                Folding::Mean => Fold::Sum { divisor: count as f64 },
                Folding::Maximum => Fold::Largest,
                Folding::Minimum => Fold::Smallest,
                _ => return None,
            };
            return Some((Program::record(1, same), Some((fold, groups))));
        }
        Kind::MapSum(block, divisor) => {
            let shape = &call.inputs[0].layout.shape;
            let groups = Groups::new(shape, &vec![true; shape.len()])?;
            let groups = Groups { chunk: MAP_SUM_PIECE, ..groups };
            return Some((block.program(), Some((Fold::Sum { divisor }, groups))));
        }
        _ => return None,
    };
    Some((program, None))
}

/// Whether an operand is all of a value of so many elements, in its order.
pub(super) fn is_whole(operand: &Operand, len: usize) -> bool {
    let count: usize = operand.layout.shape.iter().product();
    operand.layout.offset == 0 && count == len && operand.layout.is_contiguous()
}

/// Whether neighbours along the innermost axis are neighbours in memory, or the same.
pub(super) fn lies_in_order(operand: &Operand) -> bool {
    let axes = operand.layout.shape.iter().zip(&operand.layout.strides);
    axes.rev().find(|(size, _)| **size > 1).is_none_or(|(_, step)| (0..=1).contains(step))
}

pub(super) fn is_same(a: &Operand, b: &Operand) -> bool {
    a.source == b.source && a.layout == b.layout
}

/// The one number that a constant operand repeats.
pub(super) fn number(operand: &Operand, constants: &[Tensor]) -> Option<f64> {
    let Source::Constant(k) = operand.source else { return None };
    let mut axes = operand.layout.shape.iter().zip(&operand.layout.strides);
    if !axes.all(|(size, step)| *size == 1 || *step == 0) {
        return None;
    }
    let (memory, at) = (constants[k].memory(), operand.layout.offset);
    fn read<const N: usize>(memory: &[u8], at: usize) -> Option<[u8; N]> {
        memory.get(at * N..(at + 1) * N)?.try_into().ok()
    }
    let value = match constants[k].dtype() {
        DType::F16 => half::f16::from_ne_bytes(read(memory, at)?).to_f64(),
        DType::BF16 => half::bf16::from_ne_bytes(read(memory, at)?).to_f64(),
        DType::F32 => f64::from(f32::from_ne_bytes(read(memory, at)?)),
        DType::F64 => f64::from_ne_bytes(read(memory, at)?),
        DType::Bool => f64::from(u8::from(read::<1>(memory, at)?[0] != 0)),
        _ => return None,
    };
    // What kind of NaN it is would be lost.
    (!value.is_nan()).then_some(value)
}
