//! One product for all of them: every product, forward or backward, is one call of the same kernel on
//! strided views. A transpose is never copied, and a batch is cut up by offsets into memory.

use crate::ops::operation::{Operation, Spec, backward_of, placeholder};
use crate::ops::pointwise::Takes;
use crate::ops::reduction::match_words;
use crate::tensor::{Layout, expect_room, match_float};
use crate::{Error, Result, Shape, Tensor, ops};
use extensor_kernels::gemm::{self, Dims, Matrix};

/// The two last axes exchanged: a view.
pub(super) fn transposed(x: &Tensor) -> Tensor {
    let Layout { mut shape, mut strides, offset } = x.layout().clone();
    let n = shape.len();
    if n >= 2 {
        let (rows, columns) = (shape[n - 2], shape[n - 1]);
        shape.set(n - 2, columns);
        shape.set(n - 1, rows);
        strides.swap(n - 2, n - 1);
    }
    x.with_layout(Layout { shape, strides, offset })
}

/// A new axis of size 1 at `at`: a view.
pub(super) fn with_axis(x: &Tensor, at: usize) -> Tensor {
    let Layout { mut shape, mut strides, offset } = x.layout().clone();
    shape.insert(at, 1);
    strides.insert(at, 0);
    x.with_layout(Layout { shape, strides, offset })
}

/// The leading axes of `x` made one, if the strides allow: a batch of rows is one tall matrix.
pub(super) fn tall(x: &Tensor) -> Option<Tensor> {
    let columns = *x.shape().last()?;
    let rows = x.shape()[..x.ndim() - 1].iter().product();
    Some(x.with_layout(x.layout().reshaped(&Shape::from([rows, columns]))?))
}

/// Where each matrix of a batch begins, the leading axes of `x` being broadcast to `batch`.
pub(super) fn offsets(op: &'static str, x: &Tensor, batch: &[usize]) -> Result<Vec<usize>> {
    let count = batch.iter().fold(1usize, |all, &size| all.saturating_mul(size));
    // The list and the one that it was made of.
    expect_room(op, count, 2 * size_of::<usize>())?;
    let layout = x.layout();
    let own = x.ndim() - 2;
    let mut starts = vec![layout.offset as isize];
    for (i, &size) in batch.iter().enumerate() {
        let axis = (i + own).checked_sub(batch.len());
        let stride = axis.filter(|&k| x.shape()[k] != 1).map_or(0, |k| layout.strides[k]);
        starts =
            starts.iter().flat_map(|&s| (0..size as isize).map(move |j| s + j * stride)).collect();
    }
    Ok(starts.into_iter().map(|s| s as usize).collect())
}

/// `a·b`, or `bias + a·b`, of (batches of) matrices of one dtype; the result has shape `shape`.
pub(super) fn product(
    op: &'static str,
    a: &Tensor,
    b: &Tensor,
    bias: Option<&Tensor>,
    shape: Shape,
) -> Result<Tensor> {
    let (m, k) = (a.shape()[a.ndim() - 2], a.shape()[a.ndim() - 1]);
    let n = b.shape()[b.ndim() - 1];
    let dims = Dims { m, k, n };
    let batch =
        if a.ndim() > 2 || b.ndim() > 2 { shape[..shape.len() - 2].to_vec() } else { vec![] };
    let dtype = a.dtype();
    if dtype.is_int() {
        return integer_product(op, dims, [a, b], &batch, shape);
    }
    let start = bias.map(|bias| ops::broadcast_to(bias, &shape)).transpose()?;
    let (at_a, at_b) = match shape.contains(&0) {
        true => (Vec::new(), Vec::new()),
        false => (offsets(op, a, &batch)?, offsets(op, b, &batch)?),
    };
    match_float!(dtype, T => Tensor::build(op, shape.clone(), dtype, |out: &mut [T]| {
        if let Some(start) = &start {
            use extensor_kernels::copy::{ViewMut, copy};
            copy(start.view::<T>(), ViewMut::new(out, 0, &shape, &shape.strides()));
        }
        let matrix = |x: &Tensor, offset: usize| {
            let strides = x.strides();
            let (row_stride, col_stride) = (strides[x.ndim() - 2], strides[x.ndim() - 1]);
            (offset, row_stride, col_stride)
        };
        let (data_a, data_b) = (a.view::<T>().data(), b.view::<T>().data());
        let as_matrix = |data, (offset, row_stride, col_stride)| Matrix { data, offset, row_stride, col_stride };
        if batch.is_empty() {
            let first = as_matrix(data_a, matrix(a, a.layout().offset));
            let second = as_matrix(data_b, matrix(b, b.layout().offset));
            gemm::matmul(dims, first, second, start.is_some(), out, n);
        } else {
            let first = as_matrix(data_a, matrix(a, 0));
            let second = as_matrix(data_b, matrix(b, 0));
            gemm::matmul_batched(dims, first, &at_a, second, &at_b, start.is_some(), out);
        }
    }), else Err(Error::DType { op, argument: "the result", expected: "a float type", got: dtype }))
}

/// `a·b` of (batches of) matrices of whole numbers, which wrap around.
fn integer_product(
    op: &'static str,
    dims: Dims,
    operands: [&Tensor; 2],
    batch: &[usize],
    shape: Shape,
) -> Result<Tensor> {
    let dtype = operands[0].dtype();
    if operands.iter().any(|x| x.is_empty()) {
        return Tensor::zeros(shape, dtype);
    }
    // In memory row by row, the matrices begin where their offsets say.
    let [a, b] = [operands[0].contiguous()?, operands[1].contiguous()?];
    let from_first = |x: &Tensor| -> Result<Vec<usize>> {
        let (mut all, first) = (offsets(op, x, batch)?, x.layout().offset);
        all.iter_mut().for_each(|at| *at -= first);
        Ok(all)
    };
    let (at_a, at_b) = (from_first(&a)?, from_first(&b)?);
    match_words!(dtype, T => Tensor::build(op, shape, dtype, |out: &mut [T]| {
        let [data_a, data_b] = [&a, &b].map(|x| x.row_major::<T>());
        gemm::integers(dims, (data_a, &at_a), (data_b, &at_b), out);
    }))
}

/// `a·b` for operands of any dimensions that [`MatMul`] accepts, in `dtype`.
pub(super) fn multiply_matrices(
    op: &'static str,
    a: &Tensor,
    b: &Tensor,
    spec: Spec,
) -> Result<Tensor> {
    let Spec { shape, dtype } = spec;
    let (a, b) = (ops::cast(a, dtype)?, ops::cast(b, dtype)?);
    // A batch of matrices times one matrix is one tall matrix times it. With single rows it has to
    // be, whatever the strides: a product of a row is summed in another order than one of a matrix,
    // and the layout must not show in the bits.
    if a.ndim() > 2 && b.ndim() == 2 {
        let single = a.shape()[a.ndim() - 2] == 1;
        let rows =
            tall(&a).map_or_else(|| single.then(|| tall_copy(&a)).transpose(), |t| Ok(Some(t)))?;
        if let Some(rows) = rows {
            let flat = Shape::from([rows.shape()[0], b.shape()[1]]);
            return ops::reshape(&product(op, &rows, &b, None, flat)?, &shape);
        }
    }
    let (row, column) = (a.ndim() == 1, b.ndim() == 1);
    let a = if row { with_axis(&a, 0) } else { a };
    let b = if column { with_axis(&b, 1) } else { b };
    let mut full = shape.clone();
    if row {
        let at = full.len() - usize::from(!column);
        full.insert(at, 1);
    }
    if column {
        full.push(1);
    }
    let y = product(op, &a, &b, None, full)?;
    if row || column { ops::reshape(&y, &shape) } else { Ok(y) }
}

/// `Σ aᵀ·b` over the leading axes of both, which are the same: one product of tall matrices where
/// the strides allow.
pub(super) fn summed_product(op: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let shape = Shape::from([a.shape()[a.ndim() - 1], b.shape()[b.ndim() - 1]]);
    let rows = |x: &Tensor| tall(x).map_or_else(|| tall_copy(x), Ok);
    let (a, b) = (rows(a)?, rows(b)?);
    product(op, &transposed(&a), &b, None, shape)
}

/// [`tall`] for strides that do not allow it.
pub(super) fn tall_copy(x: &Tensor) -> Result<Tensor> {
    let columns = x.shape().last().copied().unwrap_or(1);
    let rows: usize = x.shape()[..x.ndim().saturating_sub(1)].iter().product();
    ops::reshape(x, [rows, columns])
}

/// A vector as a matrix: `[k]` as `[1, k]`.
pub(super) fn at_least_matrix(x: &Tensor) -> Tensor {
    if x.ndim() < 2 { with_axis(x, 0) } else { x.clone() }
}

pub(super) fn expect_floats(op: &'static str, inputs: &[(&'static str, &Tensor)]) -> Result<()> {
    inputs.iter().try_for_each(|(name, x)| x.dtype().expect_float(op, name))
}

pub(super) fn expect_numbers(op: &'static str, inputs: &[(&'static str, &Tensor)]) -> Result<()> {
    inputs.iter().try_for_each(|(name, x)| Takes::Numbers.expect(op, name, x.dtype()))
}

pub(super) fn shape_error<T>(
    op: &'static str,
    argument: &'static str,
    x: &Tensor,
    expected: String,
) -> Result<T> {
    Err(Error::Shape { op, argument, expected, got: x.shape().clone() })
}

/// The gradients of an operation of two tensors.
#[track_caller]
pub(super) fn pair(
    op: &dyn Operation,
    g: &Tensor,
    a: &Tensor,
    b: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let output = placeholder(g.shape(), g.dtype())?;
    let [da, db] = backward_of(op, g, &[a, b], &output)?;
    Ok((da, db))
}
