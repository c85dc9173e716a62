//! Integrals of samples. Made of other operations.

use crate::ops::options::options;
use crate::tensor::axis_index;
use crate::{Result, Tensor, ops, over};
use extensor_derive::method;

options! {
    /// Where the samples of [`trapezoid`] were taken.
    pub struct TrapezoidOptions<'a> {
        /// The places, as many as there are samples along the axis, or broadcast to them; if none are given, they
        /// are `dx` apart.
        x: Option<&'a Tensor> = None,
        /// How far they are apart where no places are given.
        dx: f64 = 1.0,
        /// The axis that the samples lie along.
        axis: i64 = -1,
    }
}

/// The integral along an axis by the trapezoidal rule, `Σ ½(yᵢ + yᵢ₊₁)·(xᵢ₊₁ − xᵢ)`: 0 for fewer than two samples.
///
/// ```
/// use extensor::{ops::TrapezoidOptions, tensor};
/// let y = tensor([1.0, 2.0, 4.0]);
/// assert_eq!(y.trapezoid(TrapezoidOptions::new())?.item::<f64>()?, 4.5);
/// let x = tensor([0.0, 1.0, 3.0]);
/// assert_eq!(y.trapezoid(TrapezoidOptions::new().x(&x))?.item::<f64>()?, 7.5);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn trapezoid(y: &Tensor, options: TrapezoidOptions<'_>) -> Result<Tensor> {
    let op = "trapezoid";
    y.dtype().expect_float(op, "y")?;
    let axis = axis_index(op, options.axis, y.ndim())?;
    // Neighbours along the axis.
    let pair = |x: &Tensor, axis: usize| -> Result<[Tensor; 2]> {
        let (axis, size) = (axis as i64, x.shape()[axis] as i64);
        Ok([
            ops::slice(x, axis, 0, (size - 1).max(0), 1)?,
            ops::slice(x, axis, 1.min(size), size, 1)?,
        ])
    };
    let [low, high] = pair(y, axis)?;
    let number = |v: f64| Tensor::scalar_of(v, y.dtype());
    let sums = ops::add(&low, &high)?;
    let Some(x) = options.x else {
        return ops::multiply(&ops::sum(&sums, axis as i64)?, &number(0.5 * options.dx)?);
    };
    x.dtype().expect_float(op, "x")?;
    let along = if x.ndim() == 1 { 0 } else { axis_index(op, options.axis, x.ndim())? };
    let [left, right] = pair(x, along)?;
    let mut widths = ops::subtract(&right, &left)?;
    if x.ndim() == 1 {
        // Along the axis, and the same for all others.
        let mut shape = vec![1i64; y.ndim() - axis];
        shape[0] = widths.len() as i64;
        widths = ops::reshape(&widths, &shape[..])?;
    }
    let parts = ops::multiply(&sums, &ops::multiply(&widths, &number(0.5)?)?)?;
    ops::sum(&parts, over(axis as i64))
}
