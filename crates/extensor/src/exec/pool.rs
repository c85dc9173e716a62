//! The largest number and the average of windows, and their gradients. All arrays lie in row-major
//! order, plane by plane.

use super::{Call, Kernel, Kind};
use crate::tensor::match_float;
use crate::{Error, Result};
use extensor_kernels::index::first_outside;
use extensor_kernels::pool::{self, Planes};
use std::sync::Arc;

/// What becomes of windows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pool {
    /// The largest numbers, and as `i64` where in their planes they are.
    Maximum(Planes),
    /// The gradient of that, from the largest numbers' and where they are.
    MaximumGradient {
        planes: Planes,
        /// The first of the two axes of a plane, for errors.
        axis: usize,
    },
    /// The averages.
    Average(Planes),
    /// The gradient of that, from the averages'.
    AverageGradient(Planes),
}

impl Kernel for Pool {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, op, dtype) = (call.inputs, call.op, call.dtype());
        match_float!(dtype, T => {
            let x = inputs[0].row_major::<T>();
            match self {
                Pool::Maximum(planes) => {
                    let (y, indices) = call.outputs.split_at_mut(1);
                    pool::maximum(planes, x, y[0].all(), indices[0].all());
                }
                Pool::MaximumGradient { planes, axis } => {
                    let (indices, axis) = (inputs[1].row_major(), *axis);
                    let size = planes.rows.len * planes.columns.len;
                    if let Some(index) = first_outside(indices, size) {
                        return Err(Error::IndexOutOfRange { op, index, axis, size });
                    }
                    pool::maximum_backward(planes, x, indices, call.out());
                }
                Pool::Average(planes) => pool::average(planes, x, call.out()),
                Pool::AverageGradient(planes) => pool::average_backward(planes, x, call.out()),
            }
            Ok(())
        }, else call.wrong("x", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Pool(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
