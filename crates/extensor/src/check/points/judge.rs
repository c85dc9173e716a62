//! Whether a number is what it must be.

use super::table::Want;
use crate::DType;

/// The error of `got` in units of what is allowed for a derivative of this order, or what is wrong.
pub(super) fn judge(
    got: f64,
    want: &Want,
    order: usize,
    dtype: DType,
) -> std::result::Result<f64, String> {
    let (value, size, ulps) = match *want {
        Want::Finite if got.is_finite() => return Ok(0.0),
        Want::Finite => return Err(format!("got {got:?}, want a finite number")),
        Want::Convention(value) if value.abs() > dtype.max_finite() => {
            return if got.is_nan() {
                Err(format!("got {got:?}, want {value:?}"))
            } else {
                Ok(0.0)
            };
        }
        Want::Convention(value) => (value, None, 4.0),
        Want::True(value, size) => {
            (value, size, if order == 0 { 4.0 } else { 16.0 * (order + 1) as f64 })
        }
    };
    if value.is_nan() {
        return if got.is_nan() { Ok(0.0) } else { Err(format!("got {got:?}, want NaN")) };
    }
    let unit = dtype.epsilon() / 2.0;
    let terms = size.map_or(0.0, |e| 2.0 * unit * 2f64.powi(e));
    let floor = if order == 0 { 0.0 } else { smallest_normal(dtype) };
    let allowed = ulps * ulp(value, dtype) + terms + floor;
    // A true value at the edge of the range may be rounded to either side of it.
    let most = dtype.max_finite();
    let overflows = value.abs() + allowed > most;
    let wrong = || Err(format!("got {got:e}, want {value:e} ± {allowed:.1e}"));
    if got.is_infinite() && overflows && got.is_sign_positive() == value.is_sign_positive() {
        return Ok(0.0);
    }
    if !got.is_finite() || value.abs() - allowed > most || value.is_infinite() {
        return wrong();
    }
    let ratio = (got - value).abs() / allowed;
    if got == value {
        Ok(0.0)
    } else if ratio <= 1.0 {
        Ok(ratio)
    } else {
        wrong()
    }
}

/// The distance of a dtype's numbers at `x`.
fn ulp(x: f64, dtype: DType) -> f64 {
    let least = smallest_normal(dtype);
    let size = if x.is_finite() { x.abs().max(least) } else { dtype.max_finite() };
    let power = f64::from_bits(size.to_bits() & (0x7ff << 52));
    // Not through a product that underflows on the way.
    if power >= least / dtype.epsilon() { power * dtype.epsilon() } else { power * dtype.epsilon() }
}

/// The smallest number that has all of a dtype's digits.
fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => half::f16::MIN_POSITIVE.to_f64(),
        _ => f64::from(f32::MIN_POSITIVE),
    }
}
