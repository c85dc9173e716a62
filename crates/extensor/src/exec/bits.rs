//! Operations on the bits of numbers, element by element. All dtypes of one size share a kernel.

use super::{Call, Kernel, Kind};
use crate::tensor::{Strides, match_bits};
use crate::{DType, Result};
use extensor_kernels::bits::{Bitwise, bitwise, top_bits};
use extensor_kernels::view::View;
use std::sync::Arc;

/// What is done to the bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bits {
    /// To those of two arrays of the output's dtype and shape.
    Pair(Bitwise),
    /// All of the type are turned over; a mask has one.
    Invert,
    /// The uppermost, as a mask.
    Top,
}

impl Kernel for Bits {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, x) = (call.inputs, call.inputs[0]);
        match *self {
            Bits::Pair(what) => match_bits!(call.dtype(), T => {
                bitwise::<T>(what, x.view(), inputs[1].view(), call.out());
            }),
            Bits::Invert => {
                let (dtype, still) = (call.dtype(), Strides::from_elem(0, x.shape().len()));
                match_bits!(dtype, T => {
                    let all = [if dtype == DType::Bool { 1 } else { T::MAX }];
                    let all = View::new(&all, 0, x.shape(), &still);
                    bitwise::<T>(Bitwise::Xor, x.view(), all, call.out());
                });
            }
            Bits::Top => match_bits!(x.dtype(), T => top_bits::<T>(x.view(), call.out())),
        }
        Ok(())
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Bits(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
