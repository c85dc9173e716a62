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
    let most = dtype.max_finite();
    let (value, size, ulps) = match *want {
        Want::Finite if got.is_finite() => return Ok(0.0),
        Want::Finite => return Err(format!("got {got:?}, want a finite number")),
        Want::Convention(value) if value.abs() > most && !got.is_nan() => return Ok(0.0),
        Want::Convention(value) => (value, None, 4.0),
        Want::True(value, size) => {
            (value, size, if order == 0 { 4.0 } else { 16.0 * (order + 1) as f64 })
        }
    };
    if value.is_nan() {
        return if got.is_nan() { Ok(0.0) } else { Err(format!("got {got:?}, want NaN")) };
    }
    let unit = dtype.epsilon() / 2.0;
    let size = size.map_or(0.0, |e| 2f64.powi(e));
    if size > most && !got.is_finite() {
        return Ok(0.0); // Terms that cancel, neither of which fits.
    }
    let floor = smallest_normal(dtype) * if order == 0 { 1024.0 * dtype.epsilon() } else { 1.0 };
    let allowed = ulps * ulp(value, dtype) + 2.0 * unit * size + floor;
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

/// The distance of a dtype's numbers at `x`.
fn ulp(x: f64, dtype: DType) -> f64 {
    let size = x.abs().clamp(smallest_normal(dtype), dtype.max_finite());
    let power = f64::from_bits(size.to_bits() & (0x7ff << 52));
    power * dtype.epsilon()
}

/// The smallest number that has all of a dtype's digits.
fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => half::f16::MIN_POSITIVE.to_f64(),
        _ => f64::from(f32::MIN_POSITIVE),
    }
}
