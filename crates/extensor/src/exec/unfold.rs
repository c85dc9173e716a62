//! The windows of planes side by side, and windows added up where they lie. All arrays lie in row-major
//! order.

use super::{Call, Kernel, Kind};
use crate::Result;
use crate::tensor::match_float;
use extensor_kernels::conv::Axis;
use extensor_kernels::unfold::{fold, unfold};
use std::sync::Arc;

/// The one or the other, of each of some planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unfolding {
    pub planes: usize,
    pub y: Axis,
    pub x: Axis,
    /// Whether windows are added up.
    pub back: bool,
}

impl Kernel for Unfolding {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (from, dtype) = (call.inputs[0], call.dtype());
        let Unfolding { planes, ref y, ref x, back } = *self;
        match_float!(dtype, T => {
            match back {
                false => unfold::<T>(planes, y, x, from.row_major(), call.out()),
                true => fold::<T>(planes, y, x, from.row_major(), call.out()),
            }
            Ok(())
        }, else call.wrong("x", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Unfold(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
