//! Channels as finer pixels, and back: elements moved, as views of other views.

use crate::ops::shape::{bad_parameter, bad_shape};
use crate::{Result, Shape, Tensor, ops};
use extensor_derive::method;

/// What both of them check: the axes before the last three, and these.
fn parts(op: &'static str, x: &Tensor, factor: usize) -> Result<([usize; 3], usize)> {
    let [.., c, h, w] = x.shape()[..] else {
        return Err(bad_shape(op, "x", "[…, C, H, W]", x.shape()));
    };
    match factor.checked_mul(factor) {
        Some(square @ 1..) => Ok(([c, h, w], square)),
        _ => Err(bad_parameter(
            op,
            "factor",
            "at least 1, with a square that can be counted",
            factor,
        )),
    }
}

/// The axes in their order, with these five in place of the last.
fn order(before: usize, last: [usize; 5]) -> Vec<i64> {
    (0..before).chain(last.map(|axis| before + axis)).map(|axis| axis as i64).collect()
}

/// Images `[…, C·r², H, W]` with `r` times as many rows and columns, `[…, C, H·r, W·r]`: the `r²` channels of
/// each become its pixels, row by row.
///
/// ```
/// use extensor::ops::pixel_shuffle;
/// use extensor::tensor;
/// let x = tensor([[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0]]]);
/// let y = pixel_shuffle(&x, 2)?;
/// assert_eq!(y.shape(), [1, 2, 4]);
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn pixel_shuffle(x: &Tensor, factor: usize) -> Result<Tensor> {
    let op = "pixel_shuffle";
    let ([c, h, w], square) = parts(op, x, factor)?;
    if !c.is_multiple_of(square) {
        let expected = format!("a number of channels that {square} divides");
        return Err(bad_shape(op, "x", expected, x.shape()));
    }
    let before = x.ndim() - 3;
    let with = |last: &[usize]| x.shape()[..before].iter().chain(last).copied().collect::<Shape>();
    let apart = ops::reshape(x, with(&[c / square, factor, factor, h, w]))?;
    let beside = ops::transpose(&apart, &order(before, [0, 3, 1, 4, 2])[..])?;
    ops::reshape(&beside, with(&[c / square, h * factor, w * factor]))
}

/// The way back from [`pixel_shuffle`]: images `[…, C, H·r, W·r]` as `[…, C·r², H, W]`.
///
/// ```
/// use extensor::ops::{pixel_shuffle, pixel_unshuffle};
/// use extensor::{DType, Key};
/// let x = Key::new(1).normal([2, 8, 3, 4], DType::F32)?;
/// let back = pixel_unshuffle(&pixel_shuffle(&x, 2)?, 2)?;
/// assert_eq!(back.to_vec::<f32>()?, x.to_vec::<f32>()?);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn pixel_unshuffle(x: &Tensor, factor: usize) -> Result<Tensor> {
    let op = "pixel_unshuffle";
    let ([c, h, w], square) = parts(op, x, factor)?;
    if !h.is_multiple_of(factor) || !w.is_multiple_of(factor) {
        let expected = format!("a height and a width that {factor} divides");
        return Err(bad_shape(op, "x", expected, x.shape()));
    }
    let before = x.ndim() - 3;
    let with = |last: &[usize]| x.shape()[..before].iter().chain(last).copied().collect::<Shape>();
    let apart = ops::reshape(x, with(&[c, h / factor, factor, w / factor, factor]))?;
    let behind = ops::transpose(&apart, &order(before, [0, 2, 4, 1, 3])[..])?;
    ops::reshape(&behind, with(&[c * square, h / factor, w / factor]))
}
