//! Numbers that a mask chooses. The mask and what it chooses from have the output's shape.

use super::{Call, Kernel, Kind};
use crate::Result;
use crate::tensor::{match_bits, match_float};
use extensor_kernels::map::choose;
use extensor_kernels::masked::scale_where;
use std::sync::Arc;

/// What becomes of the numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choose {
    /// Of a mask, `a` and `b`: `a` where the mask is true, `b` elsewhere.
    Either,
    /// Of a mask and `x`: `x` times this where the mask is true, 0 elsewhere; floats only.
    Scaled(f64),
}

impl Kernel for Choose {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, dtype) = (call.inputs, call.dtype());
        let (mask, x) = (inputs[0], inputs[1]);
        match *self {
            Choose::Either => match_bits!(dtype, T => {
                choose::<T>(mask.view(), x.view(), inputs[2].view(), call.out());
                Ok(())
            }),
            Choose::Scaled(scale) => match_float!(dtype, T => {
                scale_where::<T>(mask.view(), x.view(), scale, call.out());
                Ok(())
            }, else call.wrong("x", "a float type", dtype)),
        }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Choose(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
