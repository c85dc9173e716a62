//! Products of matrices, one or a batch of them. A transpose is never copied, and a batch is cut up
//! by offsets into memory.

use super::{Call, Input, Kernel, Kind};
use crate::Result;
use crate::tensor::{Layout, match_float, match_words};
use extensor_kernels::copy::{ViewMut, copy};
use extensor_kernels::gemm::{self, Dims, Matrix};
use extensor_kernels::native::Native;
use std::sync::Arc;

/// `a·b` of the two last axes of `a` and `b`, whose leading axes are broadcast to the output's.
///
/// Floats may have any strides. Whole numbers, which wrap around, must lie in row-major order, and
/// there must be some in both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// Whether there is a third input, of the output's shape and a float dtype, that is added.
    pub bias: bool,
}

impl Kernel for Product {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, shape, dtype) = (call.inputs, call.outputs[0].shape(), call.dtype());
        let [a, b] = [inputs[0], inputs[1]];
        let (m, k) = last(a.shape());
        let (_, n) = last(b.shape());
        let dims = Dims { m, k, n };
        let batched = a.shape().len() > 2 || b.shape().len() > 2;
        let batch = if batched { &shape[..shape.len() - 2] } else { &[] };
        if shape.contains(&0) {
            return Ok(());
        }
        if dtype.is_int() {
            let [at_a, at_b] = [a, b].map(|x| offsets(x.layout(), 0, batch));
            match_words!(dtype, T => {
                let [a, b] = [a, b].map(|x| x.row_major::<T>());
                gemm::integers(dims, (a, &at_a), (b, &at_b), call.out());
            });
            return Ok(());
        }
        match_float!(dtype, T => {
            let out = call.out::<T>();
            if self.bias {
                copy(inputs[2].view::<T>(), ViewMut::new(out, 0, shape, &shape.strides()));
            }
            if batched {
                let [at_a, at_b] = [a, b].map(|x| offsets(x.layout(), x.layout().offset, batch));
                let [a, b] = [a, b].map(|x| Matrix { offset: 0, ..matrix::<T>(x) });
                gemm::matmul_batched(dims, a, &at_a, b, &at_b, self.bias, out);
            } else {
                gemm::matmul(dims, matrix(a), matrix(b), self.bias, out, n);
            }
            Ok(())
        }, else call.wrong("the result", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Product(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

/// The sizes of the two last axes.
fn last(shape: &[usize]) -> (usize, usize) {
    (shape[shape.len() - 2], shape[shape.len() - 1])
}

/// The first matrix of a batch.
fn matrix<'a, T: Native>(x: Input<'a>) -> Matrix<'a, T> {
    let Layout { strides, offset, .. } = x.layout();
    let n = strides.len();
    let (row_stride, col_stride) = (strides[n - 2], strides[n - 1]);
    Matrix { data: x.view::<T>().data(), offset: *offset, row_stride, col_stride }
}

/// Where each matrix of a batch begins if the first does at `first`, the leading axes being broadcast
/// to `batch`. Operations have seen that there is room for the list, and for the one that it was made
/// of.
fn offsets(layout: &Layout, first: usize, batch: &[usize]) -> Vec<usize> {
    let own = layout.shape.len() - 2;
    let mut starts = vec![first as isize];
    for (i, &size) in batch.iter().enumerate() {
        let axis = (i + own).checked_sub(batch.len());
        let stride = axis.filter(|&k| layout.shape[k] != 1).map_or(0, |k| layout.strides[k]);
        starts =
            starts.iter().flat_map(|&s| (0..size as isize).map(move |j| s + j * stride)).collect();
    }
    starts.into_iter().map(|s| s as usize).collect()
}
