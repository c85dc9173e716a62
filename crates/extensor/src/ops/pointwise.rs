//! Formulas applied to tensors, element by element: broadcasting, dtypes and memory are dealt with
//! here, for all elementwise operations.

pub(crate) use super::calculus::{guard, guard_above};
use super::operation::{Spec, Specs, spec};
use crate::exec::launch_one;
use crate::exec::map::{Masks, Numbers, RealMasks, Reals};
use crate::{DType, Error, Result, Tensor, autodiff, ops, tensor};
use extensor_kernels::map::{Formula, MaskBlock, NumberBlock, RealBlock, RealMaskBlock};
use extensor_kernels::map::{RealPredicate, RealPredicates};
use extensor_kernels::number::Real;

/// What kinds of numbers an operation takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Floats,
    Numbers,
    Integers,
    Bits,
    Bools,
    Anything,
}

impl Takes {
    pub(crate) fn expect(
        self,
        op: &'static str,
        argument: &'static str,
        dtype: DType,
    ) -> Result<()> {
        let (fits, expected) = match self {
            Takes::Floats => return dtype.expect_float(op, argument),
            Takes::Numbers => (dtype != DType::Bool, "a number type (not bool)"),
            Takes::Integers => (dtype.is_int(), "a whole-number type"),
            Takes::Bits => (!dtype.is_float(), "a whole-number type or bool"),
            Takes::Bools => (dtype == DType::Bool, "bool"),
            Takes::Anything => (true, "any"),
        };
        if fits { Ok(()) } else { Err(Error::DType { op, argument, expected, got: dtype }) }
    }
}

/// The result of a function of one tensor.
pub(crate) fn infer_unary(op: &'static str, x: &Tensor, takes: Takes) -> Result<Specs> {
    takes.expect(op, "x", x.dtype())?;
    Ok(spec(x.shape().clone(), x.dtype()))
}

/// The result of a function of two broadcast tensors: their common dtype.
pub(crate) fn infer_binary(
    op: &'static str,
    [a, b]: [(&'static str, &Tensor); 2],
    takes: Takes,
) -> Result<Specs> {
    for (argument, x) in [a, b] {
        takes.expect(op, argument, x.dtype())?;
    }
    let (a, b) = (a.1, b.1);
    let dtype = promote(op, a, b)?;
    Ok(spec(tensor::broadcast(op, a.shape(), b.shape())?, dtype))
}

/// The dtype that two tensors have in common.
pub(crate) fn promote(op: &'static str, a: &Tensor, b: &Tensor) -> Result<DType> {
    let (a, b) = (a.dtype(), b.dtype());
    a.promote(b).ok_or_else(|| Error::MixedDTypes { op, a, b })
}

/// The tensor as a view of the given shape and in the given dtype.
#[cold]
pub(crate) fn fitted(op: &'static str, x: &Tensor, spec: &Spec) -> Result<Tensor> {
    let x = ops::cast(x, spec.dtype)?;
    let layout = x.layout().broadcast(&spec.shape).ok_or_else(|| Error::Broadcast {
        op,
        a: x.shape().clone(),
        b: spec.shape.clone(),
    })?;
    Ok(x.with_layout(layout))
}

/// All inputs in the given shape and dtype; most are already, and cost nothing.
#[inline]
pub(crate) fn fit_all<const N: usize>(
    op: &'static str,
    inputs: [&Tensor; N],
    spec: &Spec,
) -> Result<[Tensor; N]> {
    let mut fitting = inputs.map(Tensor::clone);
    for x in &mut fitting {
        if x.dtype() != spec.dtype || *x.shape() != spec.shape {
            *x = fitted(op, x, spec)?;
        }
    }
    Ok(fitting)
}

/// Whether no input has to be brought into another shape or dtype.
#[inline]
fn all_fit(inputs: &[&Tensor], spec: &Spec) -> bool {
    inputs.iter().all(|x| x.dtype() == spec.dtype && *x.shape() == spec.shape)
}

/// A real formula of broadcast tensors, computed in and rounded to `spec.dtype`.
pub(crate) fn map_real<const N: usize>(
    op: &'static str,
    formula: &(dyn RealBlock<N> + 'static),
    inputs: [&Tensor; N],
    spec: Spec,
) -> Result<Tensor> {
    if inputs.iter().any(|x| x.is_traced()) {
        return autodiff::formula(formula.program(), &inputs, spec);
    }
    if !all_fit(&inputs, &spec) {
        let fitting = fit_all(op, inputs, &spec)?;
        return map_real(op, formula, fitting.each_ref(), spec);
    }
    launch_one(op, &Reals::<_, N>(formula), &inputs, spec)
}

/// A formula of broadcast tensors of any number type.
pub(crate) fn map_number<const N: usize>(
    op: &'static str,
    formula: &(dyn NumberBlock<N> + 'static),
    inputs: [&Tensor; N],
    spec: Spec,
) -> Result<Tensor> {
    if spec.dtype.is_float() {
        return map_real(op, formula, inputs, spec);
    }
    if !all_fit(&inputs, &spec) {
        let fitting = fit_all(op, inputs, &spec)?;
        return map_number(op, formula, fitting.each_ref(), spec);
    }
    launch_one(op, &Numbers::<_, N>(formula), &inputs, spec)
}

/// A question about broadcast tensors, which are first brought to `common`.
pub(crate) fn map_mask<const N: usize>(
    op: &'static str,
    predicate: &(dyn MaskBlock<N> + 'static),
    inputs: [&Tensor; N],
    common: Spec,
) -> Result<Tensor> {
    let inputs = inputs.map(Tensor::primal);
    let inputs = fit_all(op, inputs.each_ref().map(|x| &**x), &common)?;
    let spec = Spec { shape: common.shape, dtype: DType::Bool };
    launch_one(op, &Masks::<_, N>(predicate), &inputs.each_ref(), spec)
}

/// A question about the floats of one tensor.
pub(crate) fn map_real_mask<F: RealPredicate>(
    op: &'static str,
    predicate: F,
    x: &Tensor,
) -> Result<Tensor> {
    let spec = Spec { shape: x.shape().clone(), dtype: DType::Bool };
    let predicate: &dyn RealMaskBlock = &RealPredicates(predicate);
    launch_one(op, &RealMasks(predicate), &[&*x.primal()], spec)
}

/// `a·b`, and 0 where one is 0 and the other has left the range of the numbers.
#[derive(Clone, Copy)]
pub(crate) struct Times;

impl Formula<2> for Times {
    #[inline(always)]
    fn f<R: Real>(&self, [a, b]: [R; 2]) -> R {
        a.times(b)
    }
}

/// A gradient at a point that is `singular` or not: there it is no larger than `limit`, the largest
/// finite number of its dtype, if the gradient `g` that it came from is finite. Elsewhere it may
/// overflow, and is infinite then.
#[inline(always)]
pub(crate) fn settle<R: Real>(value: R, g: R, singular: R::Mask, limit: f64) -> R {
    value.capped(singular & g.is_finite(), limit)
}

/// A gradient that is NaN where the function is, though its variables are not, and `value`
/// elsewhere; nothing comes of nothing there too.
#[inline(always)]
pub(crate) fn defined<R: Real>(value: R, g: R, undefined: R::Mask) -> R {
    let zero = g.lit(0.0);
    R::select(undefined & !g.eq(zero), g.lit(f64::NAN), zero).nan_or(value)
}
