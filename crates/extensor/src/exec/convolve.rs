//! Convolutions of planes and volumes, and their gradients. Which windows there are is in the geometry.

use super::{Call, Kernel, Kind};
use crate::Result;
use crate::tensor::match_float;
use extensor_kernels::conv::{Convolve, Geometry};
use std::sync::Arc;

/// Which of the three products of a convolution it is, of arrays that lie in row-major order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pass {
    /// The convolution, of images and weights, and a number for each filter if there is a `bias`.
    Forward { bias: bool },
    /// The gradient for the images, from the convolution's and the weights, and a number for each
    /// channel if there is a `bias`: also the transposed convolution.
    Images { bias: bool },
    /// The gradient for the weights, from the convolution's and the images.
    Weights,
}

/// A convolution, or a gradient of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convolution {
    pub pass: Pass,
    pub geometry: Geometry,
}

impl Kernel for Convolution {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, geometry, dtype) = (call.inputs, &self.geometry, call.dtype());
        match_float!(dtype, T => {
            let [first, second] = [0, 1].map(|i| inputs[i].row_major::<T>());
            let bias = |given: bool| given.then(|| inputs[2].row_major::<T>());
            let out = call.out::<T>();
            match self.pass {
                Pass::Forward { bias: given } => {
                    T::forward(geometry, first, second, bias(given), out);
                }
                Pass::Images { bias: given } => {
                    T::input_gradient(geometry, first, second, bias(given), out);
                }
                Pass::Weights => T::weight_gradient(geometry, first, second, out),
            }
            Ok(())
        }, else call.wrong("the result", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Convolution(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
