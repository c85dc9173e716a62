//! Questions whose answers have as many elements as the data says: where numbers are not zero, and
//! which different ones there are. They are functions and not operations of the catalogue, which
//! knows the shape of a result before it computes it.

use crate::ops::Order;
use crate::ops::shape::bad_shape;
use crate::tensor::with_room;
use crate::{Result, Shape, Tensor, ops};
use extensor_derive::method;

/// Where the elements of `x` are not zero (or false): for each axis a vector of `i64`, of the
/// positions along it, in row-major order. NaN is not zero; a scalar is an error.
///
/// ```
/// use extensor::ops::nonzero;
/// use extensor::tensor;
/// let found = nonzero(&tensor([[0, 7, 0], [8, 0, 9]]))?;
/// assert_eq!(found[0].to_vec::<i64>()?, [0, 1, 1]);
/// assert_eq!(found[1].to_vec::<i64>()?, [1, 0, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nonzero(x: &Tensor) -> Result<Vec<Tensor>> {
    let op = "nonzero";
    x.expect_unmapped(op)?;
    let primal = x.primal();
    let x = &*primal;
    if x.ndim() == 0 {
        return Err(bad_shape(op, "x", "at least one axis", x.shape()));
    }
    let truth = ops::not_equal(x, &Tensor::zeros(Shape::scalar(), x.dtype())?)?;
    let truth: Vec<bool> = truth.to_vec()?;
    let mut found = with_room(op, truth.iter().filter(|&&t| t).count())?;
    found.extend((0..truth.len()).filter(|&k| truth[k]));
    let strides = x.shape().strides();
    let along = |axis: usize| {
        let (step, size) = (strides[axis].max(1) as usize, x.shape()[axis].max(1));
        Tensor::whole_numbers(op, found.len(), |i| (found[i] / step % size) as i64)
    };
    (0..x.ndim()).map(along).collect()
}

/// What [`unique`] finds.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The different values, in ascending order.
    pub values: Tensor,
    /// For each the position of the first element that has it, in row-major order, as `i64`.
    pub indices: Tensor,
    /// For each element of the input, in its shape, which of the values it has, as `i64`.
    pub inverse: Tensor,
    /// How many elements have each value, as `i64`.
    pub counts: Tensor,
}

/// The different values of `x`, in ascending order, with where they are and how often. Every NaN is
/// a value of its own, and NaNs come last; −0 equals 0, and whichever comes first stands for both.
/// The gradient of a value is that of the element it was taken from, the first that has it.
///
/// ```
/// use extensor::ops::unique;
/// use extensor::tensor;
/// let found = unique(&tensor([[3, 1], [2, 1]]))?;
/// assert_eq!(found.values.to_vec::<i32>()?, [1, 2, 3]);
/// assert_eq!(found.indices.to_vec::<i64>()?, [1, 2, 0]);
/// assert_eq!(found.inverse.to_vec::<i64>()?, [2, 0, 1, 0]);
/// assert_eq!(found.counts.to_vec::<i64>()?, [2, 1, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn unique(x: &Tensor) -> Result<Unique> {
    let shape = x.shape().clone();
    let all = ops::reshape(x, [x.len()])?;
    x.expect_unmapped("unique")?;
    let primal = all.primal();
    let flat = &*primal;
    let order = ops::argsort(flat, 0, Order::Ascending)?;
    let sorted = ops::take(flat, &order, 0)?;
    // Each element of the order against the one before it.
    let later = ops::slice(&sorted, 0, 1, None, 1)?;
    let earlier = ops::slice(&sorted, 0, None, -1, 1)?;
    let new: Vec<bool> = ops::not_equal(&later, &earlier)?.to_vec()?;
    let order: Vec<i64> = order.to_vec()?;
    let op = "unique";
    let different = new.iter().filter(|&&new| new).count() + 1;
    let (mut indices, mut counts) = (with_room(op, different)?, with_room::<i64>(op, different)?);
    let mut inverse: Vec<i64> = with_room(op, order.len())?;
    inverse.resize(order.len(), 0);
    for (k, &at) in order.iter().enumerate() {
        // The order is stable: the first of equal elements is the first in `x` too.
        if k == 0 || new[k - 1] {
            indices.push(at);
            counts.push(0);
        }
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
        if let Some(slot) = inverse.get_mut(at as usize) {
            *slot = counts.len() as i64 - 1;
        }
    }
    let found = indices.len();
    let indices = Tensor::from_vec(indices, [found])?;
    Ok(Unique {
        values: ops::take(&all, &indices, 0)?,
        indices,
        inverse: Tensor::from_vec(inverse, shape)?,
        counts: Tensor::from_vec(counts, [found])?,
    })
}
