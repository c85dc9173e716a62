//! One product for all of them: every product, forward or backward, is one call of the same kernel on
//! strided views.

use crate::exec::launch_one;
use crate::exec::product::Product;
use crate::ops::operation::{Operation, Spec, backward_of, placeholder};
use crate::ops::pointwise::Takes;
use crate::tensor::{Layout, expect_room};
use crate::{Error, Result, Shape, Tensor, ops};

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

/// `a·b`, or `bias + a·b`, of (batches of) matrices of one dtype; the result has shape `shape`.
pub(super) fn product(
    op: &'static str,
    a: &Tensor,
    b: &Tensor,
    bias: Option<&Tensor>,
    shape: Shape,
) -> Result<Tensor> {
    let dtype = a.dtype();
    if dtype.is_int() {
        return integer_product(op, a, b, shape);
    }
    let start = bias.map(|bias| ops::broadcast_to(bias, &shape)).transpose()?;
    if !shape.contains(&0) {
        expect_offsets(op, a, b, &shape)?;
    }
    let (kernel, spec) = (Product { bias: start.is_some() }, Spec { shape, dtype });
    match &start {
        Some(start) => launch_one(op, &kernel, &[a, b, start], spec),
        None => launch_one(op, &kernel, &[a, b], spec),
    }
}

/// `a·b` of (batches of) matrices of whole numbers, which wrap around.
fn integer_product(op: &'static str, a: &Tensor, b: &Tensor, shape: Shape) -> Result<Tensor> {
    let dtype = a.dtype();
    if a.is_empty() || b.is_empty() {
        return Tensor::zeros(shape, dtype);
    }
    let (a, b) = (a.contiguous()?, b.contiguous()?);
    expect_offsets(op, &a, &b, &shape)?;
    launch_one(op, &Product { bias: false }, &[&a, &b], Spec { shape, dtype })
}

/// An error unless there is memory for where the matrices of a batch begin, and for the list that
/// this is made of.
fn expect_offsets(op: &'static str, a: &Tensor, b: &Tensor, shape: &Shape) -> Result<()> {
    if a.ndim() <= 2 && b.ndim() <= 2 {
        return Ok(());
    }
    let batch = &shape[..shape.len() - 2];
    let count = batch.iter().fold(1usize, |all, &size| all.saturating_mul(size));
    expect_room(op, count, 2 * size_of::<usize>())
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
