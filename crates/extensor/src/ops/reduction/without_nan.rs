//! Reductions of what is not NaN. They are made of operations: NaN is replaced by what changes nothing,
//! and has the gradient 0.

use crate::{DType, Over, Result, Tensor, ops};
use extensor_derive::method;

/// `x`, with another number in place of NaN.
fn filled(x: &Tensor, other: f64) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return Ok(x.clone());
    }
    ops::where_(&ops::isnan(x)?, &Tensor::scalar_of(other, x.dtype())?, x)
}

/// [`sum`](ops::sum) of the elements that are not NaN: 0 where all are. Whole numbers are summed as they
/// are.
///
/// ```
/// use extensor::ops::nansum;
/// use extensor::tensor;
/// assert_eq!(nansum(&tensor([1.0, f64::NAN, 2.0]), ..)?.item::<f64>()?, 3.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nansum(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    ops::sum(&filled(x, 0.0)?, axis)
}

/// [`prod`](ops::prod) of the elements that are not NaN: 1 where all are.
///
/// ```
/// use extensor::ops::nanprod;
/// use extensor::tensor;
/// assert_eq!(nanprod(&tensor([3.0, f64::NAN, 2.0]), ..)?.item::<f64>()?, 6.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nanprod(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    ops::prod(&filled(x, 1.0)?, axis)
}

/// [`mean`](ops::mean) of the elements that are not NaN: NaN where all are, or where there are none.
///
/// ```
/// use extensor::ops::nanmean;
/// use extensor::tensor;
/// let x = tensor([[1.0, f64::NAN], [3.0, 4.0]]);
/// assert_eq!(nanmean(&x, 0)?.to_vec::<f64>()?, [2.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nanmean(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    x.dtype().expect_float("nanmean", "x")?;
    let over = axis.into();
    let there = ops::cast(&ops::logical_not(&ops::isnan(x)?)?, DType::F64)?;
    // In `f64`, rounded once.
    let total = ops::sum(&ops::cast(&filled(x, 0.0)?, DType::F64)?, over.clone())?;
    ops::cast(&ops::divide(&total, &ops::sum(&there, over)?)?, x.dtype())
}

/// [`max_reduce`](ops::max_reduce) of the elements that are not NaN: NaN where all are, an error over an
/// empty axis.
///
/// ```
/// use extensor::ops::nanmax;
/// use extensor::tensor;
/// assert_eq!(nanmax(&tensor([1.0, f64::NAN, 2.0]), ..)?.item::<f64>()?, 2.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nanmax(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    let over = axis.into();
    let most = ops::max_reduce(&filled(x, f64::NEG_INFINITY)?, over.clone())?;
    nan_where_all_are(x, over, &most)
}

/// [`min_reduce`](ops::min_reduce) of the elements that are not NaN: NaN where all are, an error over an
/// empty axis.
///
/// ```
/// use extensor::ops::nanmin;
/// use extensor::tensor;
/// assert_eq!(nanmin(&tensor([1.0, f64::NAN, 2.0]), ..)?.item::<f64>()?, 1.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nanmin(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    let over = axis.into();
    let least = ops::min_reduce(&filled(x, f64::INFINITY)?, over.clone())?;
    nan_where_all_are(x, over, &least)
}

fn nan_where_all_are(x: &Tensor, over: Over, y: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return Ok(y.clone());
    }
    let none = ops::all(&ops::isnan(x)?, over)?;
    ops::where_(&none, &Tensor::scalar_of(f64::NAN, x.dtype())?, y)
}
