//! A step of an optimiser: arrays replaced by what a rule makes of them and of a gradient.
//!
//! It must not know what a learning rate is, nor whose memory the arrays are.

use super::{Call, Kernel, Kind, Output};
use crate::{DType, Error, Result};
use extensor_kernels::native::{Compute, Native};
use extensor_kernels::update::{self, RealUpdate, Target};
use half::{bf16, f16};
use std::ops::Deref;
use std::sync::Arc;

/// The rule of an optimiser with `S` slots. The input is the gradient; the outputs, which hold the old
/// values or know where they are, are the parameter and its slots.
pub(crate) struct Update<P, const S: usize> {
    pub rule: P,
    /// A factor on the gradient.
    pub scale: f64,
}

impl<P, const S: usize> Kernel for Update<P, S>
where
    P: Deref<Target = dyn RealUpdate<S>> + Send + Sync,
{
    fn run(&self, call: Call<'_, '_>) -> Result<()> {
        use DType::{BF16, F16, F32, F64};
        match (call.dtype(), call.inputs[0].dtype()) {
            (F32, F32) => typed::<f32, f32, S>(&*self.rule, self.scale, call),
            (F64, F64) => typed::<f64, f64, S>(&*self.rule, self.scale, call),
            (F16, F16) => typed::<f16, f16, S>(&*self.rule, self.scale, call),
            (F16, F32) => typed::<f16, f32, S>(&*self.rule, self.scale, call),
            (BF16, BF16) => typed::<bf16, bf16, S>(&*self.rule, self.scale, call),
            (BF16, F32) => typed::<bf16, f32, S>(&*self.rule, self.scale, call),
            (F32, F16) => typed::<f32, f16, S>(&*self.rule, self.scale, call),
            (F32, BF16) => typed::<f32, bf16, S>(&*self.rule, self.scale, call),
            (a, b) => Err(Error::MixedDTypes { op: call.op, a, b }),
        }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Update
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(Update::<_, S> { rule: self.rule.keep(), scale: self.scale })
    }
}

fn typed<T, G, const S: usize>(
    rule: &dyn update::Update<T::Wide, S>,
    scale: f64,
    call: Call<'_, '_>,
) -> Result<()>
where
    T: Compute,
    G: Compute<Wide = T::Wide>,
{
    let Some((parameter, slots)) = call.outputs.split_first_mut() else {
        unreachable!("an update has a parameter");
    };
    let Ok(slots) = <&mut [Output<'_>; S]>::try_from(slots) else {
        unreachable!("an optimiser has as many slots as its rule");
    };
    let slots = slots.each_mut().map(target::<T::Wide>);
    update::update(rule, target::<T>(parameter), call.inputs[0].view::<G>(), scale, slots);
    Ok(())
}

fn target<'a, T: Native>(output: &'a mut Output<'_>) -> Target<'a, T> {
    let (from, to) = output.replaced();
    Target { from, to }
}
