//! Softmax and its logarithm along the last axis, and their gradients. All arrays lie in row-major
//! order.

use super::{Call, Kernel, Kind};
use crate::Result;
use crate::tensor::match_float;
use extensor_kernels::rows::rows;
use extensor_kernels::softmax;
use std::sync::Arc;

/// What is done to each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rows {
    /// `y = eˣ/Σ eˣ`.
    Softmax,
    /// `y = x − ln Σ eˣ`.
    LogSoftmax,
    /// `y·(g − Σ g·y)` of `g` and `y`.
    SoftmaxGradient,
    /// `g − e^y·Σ g` of `g` and `y`.
    LogSoftmaxGradient,
}

impl Kernel for Rows {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, dtype) = (call.inputs, call.dtype());
        match_float!(dtype, T => {
            let count = inputs[0].shape().iter().rev().skip(1).product();
            let out = call.out::<T>();
            if out.is_empty() {
                return Ok(());
            }
            let one = || [inputs[0].row_major::<T>()];
            let two = || [inputs[0].row_major::<T>(), inputs[1].row_major()];
            match self {
                Rows::Softmax => rows(&softmax::Softmax, count, one(), [out]),
                Rows::LogSoftmax => rows(&softmax::LogSoftmax, count, one(), [out]),
                Rows::SoftmaxGradient => rows(&softmax::SoftmaxGradient, count, two(), [out]),
                Rows::LogSoftmaxGradient => {
                    rows(&softmax::LogSoftmaxGradient, count, two(), [out]);
                }
            }
            Ok(())
        }, else call.wrong("x", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Rows(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
