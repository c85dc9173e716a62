//! Whether a number is what it must be.

use super::table::Want;
use crate::DType;
use crate::check::units::{floor, smallest_normal, ulp, ulps};

/// The error of `got` in units of what is allowed for a derivative of this order at a point of which
/// the coarsest number is known to `coarseness`, or what is wrong.
pub(super) fn judge(
    got: f64,
    want: &Want,
    order: usize,
    coarseness: f64,
    dtype: DType,
) -> std::result::Result<f64, String> {
    let most = dtype.max_finite();
    let (value, size, units) = match *want {
        Want::Finite if got.is_finite() => return Ok(0.0),
        Want::Finite => return Err(format!("got {got:?}, want a finite number")),
        Want::Convention(value) if value.abs() > most && !got.is_nan() => return Ok(0.0),
        Want::Convention(value) => (value, None, 4.0),
        Want::True(value, size) => (value, size, ulps(order)),
    };
    if value.is_nan() {
        return if got.is_nan() { Ok(0.0) } else { Err(format!("got {got:?}, want NaN")) };
    }
    let unit = dtype.epsilon() / 2.0;
    let size = size.map_or(0.0, |e| 2f64.powi(e));
    if size > most && !got.is_finite() {
        return Ok(0.0); // Terms that cancel, neither of which fits.
    }
    let towards = got == 0.0 || got.is_sign_positive() == value.is_sign_positive();
    if order > 0 && value.is_infinite() && coarseness >= 1.0 && towards && !got.is_nan() {
        return Ok(0.0); // Where a number has not a single digit, nothing follows but the sign.
    }
    let mut allowed = units * ulp(value, dtype) + 2.0 * unit * size + floor(order, dtype);
    if order > 0 && value.is_finite() {
        allowed += coarseness * value.abs();
    }
    let wrong = || Err(format!("got {got:e}, want {value:e} ± {allowed:.1e}"));
    // A true value at the edge of the range may be rounded to either side of it.
    let overflows = value.abs() + allowed > most;
    if got.is_infinite() && overflows && got.is_sign_positive() == value.is_sign_positive() {
        return Ok(0.0);
    }
    if !got.is_finite() || value.is_infinite() || value.abs() - allowed > most {
        return wrong();
    }
    let ratio = (got - value).abs() / allowed;
    if ratio <= 1.0 { Ok(ratio) } else { wrong() }
}

/// How few digits the numbers of a point have, of which there are several: the distance to the next number
/// relative to the coarsest of them, if it is subnormal, else 0.
pub(super) fn coarseness(at: &[f64], dtype: DType) -> f64 {
    let subnormal = |x: &&f64| **x != 0.0 && x.abs() < smallest_normal(dtype);
    let coarse = at.iter().filter(subnormal).map(|x| ulp(*x, dtype) / x.abs());
    if at.len() > 1 { coarse.fold(0.0, f64::max) } else { 0.0 }
}

/// Whether a derivative of this order is made of terms that do not fit the dtype, whatever it is
/// itself: at a point of several numbers one of which is so small that its inverse is infinite; if
/// the derivatives of a row are made of several operations (`composed`), that power of it.
pub(super) fn out_of_reach(at: &[f64], order: usize, composed: bool, dtype: DType) -> bool {
    let power = if composed { order as i32 } else { 1 };
    let infinite = |x: &f64| *x != 0.0 && x.abs().recip().powi(power) > dtype.max_finite();
    order > 1 && at.len() > 1 && at.iter().any(infinite)
}
