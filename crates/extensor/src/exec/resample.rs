//! Planes brought to other sizes by weighted sums of neighbours. All arrays lie in row-major order.

use super::{Call, Kernel, Kind};
use crate::Result;
use crate::tensor::match_float;
use extensor_kernels::resample::{Along, resample};
use std::sync::Arc;

/// What becomes of the two axes of each of some planes.
#[derive(Clone, Debug)]
pub(crate) struct Resample {
    pub planes: usize,
    pub rows: Arc<Along>,
    pub columns: Arc<Along>,
}

impl Kernel for Resample {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (x, dtype) = (call.inputs[0], call.dtype());
        match_float!(dtype, T => {
            resample::<T>(self.planes, &self.rows, &self.columns, x.row_major(), call.out());
            Ok(())
        }, else call.wrong("x", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Resample(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }
}
