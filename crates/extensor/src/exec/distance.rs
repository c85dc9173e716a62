//! Distances between rows, and their gradients. All arrays lie in row-major order, in `f32` or `f64`; what rows are
//! compared with lies beside each other, `[…, width, count]`.

use super::{Call, Kernel, Kind};
use crate::{DType, Result};
use extensor_kernels::distance::{Columns, DistanceGradient, Distances, Power, Ties};
use extensor_kernels::native::Native;
use extensor_kernels::rows::rows;
use std::sync::Arc;

/// What is made of rows and of what they are compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Distance {
    /// The distances.
    Between(Power),
    /// How many differences are of the size of the distance: of the rows, the columns and the distances.
    Ties,
    /// The gradients for the rows: of them, the columns, and the distances' weights and what the kernel says with them.
    Gradient(Power),
}

impl Distance {
    fn run_in<W>(self, call: &mut Call<'_, '_>)
    where
        W: extensor_kernels::native::Compute<Wide = W> + Native,
        for<'a> Distances<'a, W>: extensor_kernels::rows::Row<W, 1, 1>,
        for<'a> Ties<'a, W>: extensor_kernels::rows::Row<W, 2, 1>,
        for<'a> DistanceGradient<'a, W>: extensor_kernels::rows::Row<W, 3, 1>,
    {
        let inputs = call.inputs;
        let (a, b) = (inputs[0].shape(), inputs[1].shape());
        let (n, m) = (a.len(), b.len());
        let (per, width, count) = (a[n - 2], a[n - 1], b[m - 1]);
        let all: usize = a[..n - 1].iter().product();
        let columns = Columns { all: inputs[1].row_major::<W>(), width, count, rows: per };
        let x = |i: usize| inputs[i].row_major::<W>();
        let out = call.out::<W>();
        match self {
            Distance::Between(power) => rows(&Distances { columns, power }, all, [x(0)], [out]),
            Distance::Ties => rows(&Ties(columns), all, [x(0), x(2)], [out]),
            Distance::Gradient(power) => {
                let gradient = DistanceGradient { columns, power };
                rows(&gradient, all, [x(0), x(2), x(3)], [out]);
            }
        }
    }
}

impl Kernel for Distance {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        match call.dtype() {
            DType::F32 => self.run_in::<f32>(&mut call),
            DType::F64 => self.run_in::<f64>(&mut call),
            got => return call.wrong("a", "f32 or f64", got),
        }
        Ok(())
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Distance(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
