//! Losses of more than predictions and targets: weights, variances.
//!
//! Those that have a derivative have the predictions' shape; constants may be broadcast to it.

use super::{Elementwise, Loss, Reduce};
use crate::ops::operation::{Backward, Grads, Spec};
use crate::ops::pointwise::{map_real, settle};
use crate::ops::record::Record;
use crate::ops::reduction::wide;
use crate::{DType, Error, Result, Tensor, ops};
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;

/// The dtype of the loss, having looked at the further tensors.
pub(super) fn infer(record: &'static Record, inputs: &[&Tensor], dtype: DType) -> Result<DType> {
    let (op, mut dtype) = (record.name, dtype);
    for (input, x) in record.inputs.iter().zip(inputs).skip(2) {
        x.dtype().expect_float(op, input.name)?;
        let (a, b) = (dtype, x.dtype());
        dtype = a.promote(b).ok_or(Error::MixedDTypes { op, a, b })?;
        let shape = inputs[0].shape();
        let (fits, expected) = if input.differentiable {
            (x.shape() == shape, format!("{shape}, as {} has", record.inputs[0].name))
        } else {
            (x.layout().broadcast(shape).is_some(), format!("one that broadcasts to {shape}"))
        };
        if !fits {
            let (argument, got) = (input.name, x.shape().clone());
            return Err(Error::Shape { op, argument, expected, got });
        }
    }
    Ok(dtype)
}

#[derive(Clone)]
struct ValueOf<L>(L);

impl<L: Loss> Formula<4> for ValueOf<L> {
    #[inline(always)]
    fn f<R: Real>(&self, x: [R; 4]) -> R {
        self.0.loss_of(x)
    }
}

/// The derivative by input number `BY`, times `g / count`.
#[derive(Clone)]
struct SlopeOf<L, const BY: usize> {
    loss: L,
    count: f64,
    limit: f64,
}

impl<L: Loss, const BY: usize> Formula<5> for SlopeOf<L, BY> {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x, t, u, v]: [R; 5]) -> R {
        let g = g / g.lit(self.count);
        let value = g.times(self.loss.slope_of(BY, [x, t, u, v]));
        if BY == 0 { settle(value, g, self.loss.singular(x), self.limit) } else { value }
    }
}

/// Four tensors: 1 stands for those that are not given.
fn four(inputs: &[&Tensor], dtype: DType) -> Result<[Tensor; 4]> {
    let one = Tensor::scalar_of(1.0, dtype)?;
    Ok(std::array::from_fn(|i| inputs.get(i).map_or_else(|| one.clone(), |x| (*x).clone())))
}

impl<L: Loss> Elementwise<L> {
    pub(super) fn forward_of_several(&self, inputs: &[&Tensor], spec: Spec) -> Result<Tensor> {
        let (op, shape) = (L::RECORD.name, inputs[0].shape());
        let all = four(inputs, spec.dtype)?;
        let formula = Formulas(ValueOf(self.loss.clone()));
        if self.reduction == Reduce::None {
            return map_real(op, &formula, all.each_ref(), spec);
        }
        // Rounded once, at the end.
        let between = Spec { shape: shape.clone(), dtype: wide(spec.dtype) };
        let sum = ops::sum(&map_real(op, &formula, all.each_ref(), between)?, ..)?;
        let sum = match self.reduction {
            Reduce::Sum => sum,
            reduction => {
                let divisor = Tensor::scalar_of(reduction.divisor(shape), sum.dtype())?;
                ops::divide(&sum, &divisor)?
            }
        };
        ops::cast(&sum, spec.dtype)
    }

    pub(super) fn backward_of_several(&self, call: &Backward<'_>) -> Result<Grads> {
        let g = call.grad();
        let [x, t, u, v] = &four(call.inputs, g.dtype())?;
        let spec = || Spec { shape: x.shape().clone(), dtype: g.dtype() };
        let (count, limit) = (self.reduction.divisor(x.shape()), g.dtype().max_finite());
        macro_rules! by {
            ($which:literal) => {{
                let slope: SlopeOf<L, $which> = SlopeOf { loss: self.loss.clone(), count, limit };
                map_real(L::RECORD.name, &Formulas(slope), [g, x, t, u, v], spec())
            }};
        }
        let of = |i: usize| match i {
            0 => by!(0),
            1 => by!(1),
            _ => by!(2),
        };
        let wanted = call.wanted.iter().enumerate();
        wanted.map(|(i, &wanted)| wanted.then(|| of(i)).transpose()).collect()
    }
}
