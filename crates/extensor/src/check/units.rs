//! The distances between floating-point numbers, by which errors are measured.

use crate::DType;

/// The distance of a dtype's numbers at `x` (at the largest finite one beyond it).
#[inline]
pub(super) fn ulp(x: f64, dtype: DType) -> f64 {
    let size = x.abs().max(smallest_normal(dtype)).min(dtype.max_finite());
    let power = f64::from_bits(size.to_bits() & (0x7ff << 52));
    power * dtype.epsilon()
}

/// The smallest number that has all of a dtype's digits.
#[inline]
pub(super) fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => 6.103515625e-5,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// How many units in the last place of its working precision a derivative of an order may be off,
/// where nothing cancels: a handful of roundings for each factor of a formula, and a derivative of order
/// `k` has about `k + 1` of them.
pub(super) fn ulps(order: usize) -> f64 {
    if order == 0 { 4.0 } else { 16.0 * (order + 1) as f64 }
}

/// What underflow on the way may do to a derivative of an order. A value is at most a vanishing
/// factor times a number below 1024, so a thousand times the distance of the smallest numbers; of a derivative's
/// factors several may have vanished before the product does.
pub(super) fn floor(order: usize, dtype: DType) -> f64 {
    smallest_normal(dtype) * if order == 0 { 1024.0 * dtype.epsilon() } else { 1.0 }
}
