//! Norms of vectors and matrices, made of other operations.

use super::*;
use crate::autodiff::stop_gradient;
use crate::ops::options::options;
use crate::ops::reduction::wide;
use crate::{Over, over};
use extensor_derive::method;

/// The norm of any order of the vectors along some axes, `(Σ|x|ᵖ)^(1/p)`: of order 2 [`norm`](ops::norm), of
/// order ∞ the largest size and of order −∞ the smallest, of order 0 how many are not 0.
///
/// Nothing overflows on the way. At zeros the gradient is finite by convention: 0 for orders above 1.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([3.0, -4.0]);
/// assert_eq!(x.vector_norm(1.0, ..)?.item::<f64>()?, 7.0);
/// assert_eq!(x.vector_norm(f64::INFINITY, ..)?.item::<f64>()?, 4.0);
/// assert!((x.vector_norm(3.0, ..)?.item::<f64>()? - 91f64.cbrt()).abs() < 1e-14);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn vector_norm(x: &Tensor, order: f64, axis: impl Into<Over>) -> Result<Tensor> {
    let op = "vector_norm";
    x.dtype().expect_float(op, "x")?;
    let along = axis.into();
    if order.is_nan() {
        let (expected, got) = ("a number".into(), "NaN".into());
        return Err(Error::Parameter { op, parameter: "order", expected, got });
    }
    if order == 2.0 {
        return ops::norm(x, along);
    }
    let sizes = || ops::abs(x);
    if order == f64::INFINITY {
        return ops::max_reduce(&sizes()?, along);
    }
    if order == f64::NEG_INFINITY {
        return ops::min_reduce(&sizes()?, along);
    }
    if order == 1.0 {
        return ops::sum(&sizes()?, along);
    }
    if order == 0.0 {
        let zero = Tensor::scalar_of(0.0, x.dtype())?;
        let some = ops::cast(&ops::not_equal(&stop_gradient(x), &zero)?, x.dtype())?;
        return ops::sum(&some, along);
    }
    let (axes, dtype) = (along.axes.clone(), wide(x.dtype()));
    let sizes = ops::abs(&ops::cast(x, dtype)?)?;
    let kept = over(axes.clone()).keepdims(true);
    let total = if x.is_empty() {
        power(&ops::sum(&sizes, kept)?, 1.0 / order)?
    } else {
        let unit = unit_of(&sizes, &kept, order < 0.0)?;
        let powers = power(&ops::divide(&sizes, &unit)?, order)?;
        ops::multiply(&power(&ops::sum(&powers, kept)?, 1.0 / order)?, &unit)?
    };
    let total = if along.keepdims { total } else { ops::squeeze(&total, axes)? };
    ops::cast(&total, x.dtype())
}

fn power(x: &Tensor, exponent: f64) -> Result<Tensor> {
    ops::power(x, &Tensor::scalar_of(exponent, x.dtype())?)
}

/// What sizes are divided by so that no power of them overflows: the largest, or for negative powers the
/// smallest that is not 0; 1 where there is none that is finite.
fn unit_of(sizes: &Tensor, over: &Over, smallest: bool) -> Result<Tensor> {
    let sizes = stop_gradient(sizes);
    let number = |value: f64| Tensor::scalar_of(value, sizes.dtype());
    let is_zero = |x: &Tensor| ops::equal(x, &number(0.0)?);
    let unit = if smallest {
        let some = ops::where_(&is_zero(&sizes)?, &number(f64::INFINITY)?, &sizes)?;
        ops::min_reduce(&some, over.clone())?
    } else {
        ops::max_reduce(&sizes, over.clone())?
    };
    let usable = ops::logical_and(&ops::isfinite(&unit)?, &ops::logical_not(&is_zero(&unit)?)?)?;
    ops::where_(&usable, &unit, &number(1.0)?)
}

/// Which norm of a matrix [`matrix_norm`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatrixOrder {
    /// The root of the sum of all squares.
    #[default]
    Frobenius,
    /// The sum of the singular values.
    Nuclear,
    /// The largest singular value.
    Two,
    /// The smallest singular value.
    MinusTwo,
    /// The largest sum of a column's sizes.
    One,
    /// The smallest sum of a column's sizes.
    MinusOne,
    /// The largest sum of a row's sizes.
    Infinity,
    /// The smallest sum of a row's sizes.
    MinusInfinity,
}

options! {
    /// Which norm [`matrix_norm`] is, and the shape of the result.
    pub struct MatrixNormOptions {
        /// Which norm.
        order: MatrixOrder = MatrixOrder::Frobenius,
        /// Whether the matrices' axes stay, with size 1.
        keepdims: bool = false,
    }
}

impl From<MatrixOrder> for MatrixNormOptions {
    fn from(order: MatrixOrder) -> MatrixNormOptions {
        MatrixNormOptions::new().order(order)
    }
}

/// The norm of each matrix.
///
/// ```
/// use extensor::ops::MatrixOrder;
/// use extensor::tensor;
/// let x = tensor([[3.0, 0.0], [0.0, -4.0]]);
/// assert_eq!(x.matrix_norm(MatrixOrder::Frobenius)?.item::<f64>()?, 5.0);
/// assert_eq!(x.matrix_norm(MatrixOrder::Nuclear)?.item::<f64>()?, 7.0);
/// assert_eq!(x.matrix_norm(MatrixOrder::Two)?.item::<f64>()?, 4.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn matrix_norm(x: &Tensor, options: impl Into<MatrixNormOptions>) -> Result<Tensor> {
    let MatrixNormOptions { order, keepdims } = options.into();
    let op = "matrix_norm";
    x.dtype().expect_float(op, "x")?;
    if x.ndim() < 2 {
        let (expected, got) = ("at least two axes".into(), x.shape().clone());
        return Err(Error::Shape { op, argument: "x", expected, got });
    }
    let sums = |axis: i64| ops::sum(&ops::abs(x)?, over(axis).keepdims(true));
    let last = |axis: i64| over(axis).keepdims(true);
    let norm = match order {
        MatrixOrder::Frobenius => return ops::norm(x, over([-2, -1]).keepdims(keepdims)),
        MatrixOrder::Nuclear => ops::expand_dims(&ops::sum(&svdvals(x)?, last(-1))?, -1)?,
        MatrixOrder::Two => ops::expand_dims(&ops::max_reduce(&svdvals(x)?, last(-1))?, -1)?,
        MatrixOrder::MinusTwo => ops::expand_dims(&ops::min_reduce(&svdvals(x)?, last(-1))?, -1)?,
        MatrixOrder::One => ops::max_reduce(&sums(-2)?, last(-1))?,
        MatrixOrder::MinusOne => ops::min_reduce(&sums(-2)?, last(-1))?,
        MatrixOrder::Infinity => ops::max_reduce(&sums(-1)?, last(-2))?,
        MatrixOrder::MinusInfinity => ops::min_reduce(&sums(-1)?, last(-2))?,
    };
    if keepdims { Ok(norm) } else { ops::squeeze(&norm, [-2, -1]) }
}
