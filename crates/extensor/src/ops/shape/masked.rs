//! Elements chosen by a mask, and put where lists of positions of several axes say. They are made of
//! operations, and differentiated as those are.

use crate::exec::check::Check;
use crate::ops::ScatterReduce;
use crate::ops::shape::bad_shape;
use crate::ops::shape::indexing::{expect_index, in_order};
use crate::tensor::{broadcast, with_room};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use std::borrow::Borrow;

/// An error unless this is a mask.
fn expect_mask(op: &'static str, mask: &Tensor) -> Result<()> {
    if mask.is_bool() {
        return Ok(());
    }
    let (argument, expected, got) = ("mask", "bool", mask.dtype());
    Err(Error::DType { op, argument, expected, got })
}

/// `x`, with `value` where the mask is true; the two broadcast.
///
/// The gradient of what is replaced is 0. With a tensor of values, and for the gradient of those, there is
/// [`where_`](ops::where_).
///
/// ```
/// use extensor::ops::masked_fill;
/// use extensor::tensor;
/// let y = masked_fill(&tensor([1.0, 2.0, 3.0]), &tensor([false, true, false]), -1.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, -1.0, 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn masked_fill(x: &Tensor, mask: &Tensor, value: f64) -> Result<Tensor> {
    expect_mask("masked_fill", mask)?;
    ops::where_(mask, &Tensor::scalar_of(value, x.dtype())?, x)
}

/// The elements of `x` where the mask is true, in row-major order; the two broadcast.
///
/// How many there are depends on the mask's numbers, so that it cannot be compiled; [`masked_fill`] and
/// [`where_`](ops::where_) keep the shape, and can.
///
/// ```
/// use extensor::ops::masked_select;
/// use extensor::tensor;
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let y = masked_select(&x, &tensor([[true, false], [false, true]]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let op = "masked_select";
    expect_mask(op, mask)?;
    let shape = broadcast(op, x.shape(), mask.shape())?;
    let [x, mask] = [x, mask].map(|x| ops::reshape(&ops::broadcast_to(x, &shape)?, [-1]));
    let truth: Vec<bool> = mask?.primal().plain(op)?.to_vec()?;
    let mut found = with_room(op, truth.iter().filter(|&&t| t).count())?;
    found.extend((0..truth.len()).filter(|&k| truth[k]));
    let found = Tensor::whole_numbers(op, found.len(), |i| found[i] as i64)?;
    ops::take(&x?, &found, 0)
}

/// `x`, with the elements of `source`, in row-major order, where the mask is true: the first of them at
/// the first place, and so on. The mask broadcasts to the shape of `x`; those of `source` that are left
/// over are not read.
///
/// ```
/// use extensor::ops::masked_scatter;
/// use extensor::tensor;
/// let (x, mask) = (tensor([1.0, 2.0, 3.0]), tensor([true, false, true]));
/// let y = masked_scatter(&x, &mask, &tensor([10.0, 20.0, 30.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [10.0, 2.0, 20.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn masked_scatter(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let op = "masked_scatter";
    expect_mask(op, mask)?;
    let (a, b) = (x.dtype(), source.dtype());
    if a != b {
        return Err(Error::MixedDTypes { op, a, b });
    }
    if broadcast(op, x.shape(), mask.shape())? != *x.shape() {
        let expected = format!("one that broadcasts to {}", x.shape());
        return Err(bad_shape(op, "mask", expected, mask.shape()));
    }
    let mask = ops::broadcast_to(mask, x.shape())?;
    let flat = ops::reshape(&mask, [x.len()])?.contiguous()?;
    Check::Trues { most: source.len() }.on(op, &flat)?;
    // The first is not read where the mask is true: it stands for all that is not.
    let numbers = ops::cumsum(&ops::cast(&flat, DType::I64)?, 0)?;
    let numbers = ops::where_(&flat, &numbers, &Tensor::scalar_of(0.0, DType::I64)?)?;
    let source = ops::pad(&ops::reshape(source, [source.len()])?, [(1, 0)], 0.0)?;
    let put = ops::reshape(&ops::take(&source, &numbers, 0)?, x.shape())?;
    ops::where_(&mask, &put, x)
}

/// `x`, with `values` put at the positions that `indices` list, one tensor for each of the first axes of
/// `x`: `y[indices[0], indices[1], …] = values`, as in NumPy. The lists broadcast with each other, and
/// `values` to their shape and that of the axes that are left.
///
/// Of several values at one position the last stays; with [`ScatterReduce::Sum`] they are added to what
/// is there, and so on.
///
/// ```
/// use extensor::ops::{ScatterReduce, index_put};
/// use extensor::tensor;
/// let x = tensor([[0.0, 0.0], [0.0, 0.0]]);
/// let at = [tensor([0, 1, 0]), tensor([1, 0, 1])];
/// let values = tensor([1.0, 2.0, 3.0]);
/// let y = index_put(&x, &at, &values, ScatterReduce::Last)?;
/// assert_eq!(y.to_vec::<f64>()?, [0.0, 3.0, 2.0, 0.0]);
/// let y = index_put(&x, &at, &values, ScatterReduce::Sum)?;
/// assert_eq!(y.to_vec::<f64>()?, [0.0, 4.0, 2.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn index_put(
    x: &Tensor,
    indices: &[impl Borrow<Tensor>],
    values: &Tensor,
    reduce: ScatterReduce,
) -> Result<Tensor> {
    let op = "index_put";
    if indices.is_empty() || indices.len() > x.ndim() {
        let expected = format!("one for each of the first axes of {}", x.shape());
        let got = format!("{} tensors", indices.len());
        return Err(Error::Parameter { op, parameter: "indices", expected, got });
    }
    let (listed, rest) = x.shape().split_at(indices.len());
    let mut shape = Shape::scalar();
    for (axis, (index, &size)) in indices.iter().zip(listed).enumerate() {
        let index = index.borrow();
        expect_index(op, index)?;
        Check::Positions { axis, size }.on(op, &in_order(index)?)?;
        shape = broadcast(op, &shape, index.shape())?;
    }
    // The number of a position among all those of the first axes.
    let mut number = Tensor::constant(0.0, &shape, DType::I64)?;
    for (index, &size) in indices.iter().zip(listed) {
        let size = Tensor::whole_numbers(op, 1, |_| size as i64)?;
        let index = ops::cast(index.borrow(), DType::I64)?;
        number = ops::add(&ops::multiply(&number, &ops::reshape(&size, [0i64; 0])?)?, &index)?;
    }
    let count = shape.count(op)?;
    let (rows, width) = (listed.iter().product::<usize>(), rest.iter().product::<usize>());
    let wide: Shape = shape.iter().chain(rest).copied().collect();
    let (a, b) = (x.dtype(), values.dtype());
    if a != b {
        return Err(Error::MixedDTypes { op, a, b });
    }
    let values = ops::reshape(&ops::broadcast_to(values, &wide)?, [count, width])?;
    let number = ops::broadcast_to(&ops::reshape(&number, [count, 1])?, [count, width])?;
    let matrix = ops::reshape(x, [rows, width])?;
    let y = match reduce {
        ScatterReduce::Sum => ops::scatter_add(&matrix, &number, &values, 0)?,
        other => ops::scatter(&matrix, &number, &values, 0, other)?,
    };
    ops::reshape(&y, x.shape())
}
