//! Tensors put side by side and turned, under the names that people look for. All are made of other
//! operations.

use crate::tensor::axis_index;
use crate::{Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::SmallVec;
use std::borrow::Borrow;

/// A tensor with at least so many axes: those that are missing have size 1. A vector is a row; of three axes
/// those of vectors and matrices come first.
fn at_least(x: &Tensor, axes: usize) -> Result<Tensor> {
    let shape = match (x.shape()[..].len(), axes) {
        (n, axes) if n >= axes => return Ok(x.clone()),
        (0, _) => Shape::from(vec![1; axes]),
        (1, 2) => Shape::from([1, x.len()]),
        (1, 3) => Shape::from([1, x.len(), 1]),
        (2, 3) => Shape::from([x.shape()[0], x.shape()[1], 1]),
        _ => return Ok(x.clone()),
    };
    ops::reshape(x, &shape)
}

/// All tensors, each as `of` makes it.
fn each(
    tensors: &[impl Borrow<Tensor>],
    of: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<SmallVec<[Tensor; 4]>> {
    tensors.iter().map(|x| of(x.borrow())).collect()
}

/// The tensors one below the other: along the first axis, vectors as rows.
///
/// ```
/// use extensor::{ops::vstack, tensor};
/// let y = vstack(&[tensor([1, 2]), tensor([3, 4])])?;
/// assert_eq!(y.shape(), [2, 2]);
/// assert_eq!(y.to_vec::<i32>()?, [1, 2, 3, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn vstack(tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    ops::concatenate(&each(tensors, |x| at_least(x, 2))?[..], 0)
}

/// The tensors side by side: along the second axis, vectors one after the other.
///
/// ```
/// use extensor::{ops::hstack, tensor};
/// let y = hstack(&[tensor([[1], [2]]), tensor([[3], [4]])])?;
/// assert_eq!(y.to_vec::<i32>()?, [1, 3, 2, 4]);
/// assert_eq!(hstack(&[tensor([1]), tensor([2, 3])])?.to_vec::<i32>()?, [1, 2, 3]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn hstack(tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let tensors = each(tensors, |x| at_least(x, 1))?;
    let flat = tensors.first().is_none_or(|x| x.ndim() == 1);
    ops::concatenate(&tensors[..], if flat { 0 } else { 1 })
}

/// The tensors one behind the other: along the third axis.
///
/// ```
/// use extensor::{ops::dstack, tensor};
/// let y = dstack(&[tensor([1, 2]), tensor([3, 4])])?;
/// assert_eq!(y.shape(), [1, 2, 2]);
/// assert_eq!(y.to_vec::<i32>()?, [1, 3, 2, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn dstack(tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    ops::concatenate(&each(tensors, |x| at_least(x, 3))?[..], 2)
}

/// Vectors as the columns of a matrix; matrices side by side.
///
/// ```
/// use extensor::{ops::column_stack, tensor};
/// let y = column_stack(&[tensor([1, 2]), tensor([3, 4])])?;
/// assert_eq!(y.to_vec::<i32>()?, [1, 3, 2, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn column_stack(tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let column = |x: &Tensor| {
        if x.ndim() < 2 { ops::reshape(x, Shape::from([x.len(), 1])) } else { Ok(x.clone()) }
    };
    ops::concatenate(&each(tensors, column)?[..], 1)
}

/// The tensor turned by `turns` quarters in the plane of two axes, from the first towards the second; back for
/// negative numbers. A view.
///
/// ```
/// use extensor::{ops::rot90, tensor};
/// let x = tensor([[1, 2], [3, 4]]);
/// assert_eq!(rot90(&x, 1, [0, 1])?.to_vec::<i32>()?, [2, 4, 1, 3]);
/// assert_eq!(rot90(&x, -1, [0, 1])?.to_vec::<i32>()?, [3, 1, 4, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn rot90(x: &Tensor, turns: i64, axis: [i64; 2]) -> Result<Tensor> {
    let op = "rot90";
    let [a, b] = [axis_index(op, axis[0], x.ndim())?, axis_index(op, axis[1], x.ndim())?];
    if a == b {
        let (expected, got) = ("two different axes".into(), format!("{axis:?}"));
        return Err(Error::Parameter { op, parameter: "axis", expected, got });
    }
    let swapped = |x: &Tensor| {
        let mut order: SmallVec<[i64; 6]> = (0..x.ndim() as i64).collect();
        order.swap(a, b);
        ops::transpose(x, &order[..])
    };
    match turns.rem_euclid(4) {
        0 => Ok(x.clone()),
        1 => ops::flip(&swapped(x)?, a as i64),
        2 => ops::flip(x, [a as i64, b as i64]),
        _ => swapped(&ops::flip(x, a as i64)?),
    }
}
