//! Division with the quotient rounded down.

use super::Float;
use std::ops::Rem;

/// `a - b⌊a/b⌋`, exact: the remainder that has the sign of the divisor (NaN for `b = 0`).
#[inline(always)]
pub fn modulo<F: Float + Rem<Output = F>>(a: F, b: F) -> F {
    let zero = F::lit(0.0);
    let r = a % b;
    if r == zero {
        zero.copysign(b)
    } else if (r < zero) != (b < zero) {
        r + b
    } else {
        r
    }
}

/// `⌊a/b⌋` of the true quotient and not of the rounded one (`a/b` for `b = 0`, and the limit where
/// one of them is infinite).
#[inline(always)]
pub fn floor_divide<F: Float + Rem<Output = F>>(a: F, b: F) -> F {
    let zero = F::lit(0.0);
    let finite = |x: F| x * zero == zero;
    if b == zero || !finite(a) || !finite(b) {
        return (a / b).floor();
    }
    let r = a % b;
    let mut quotient = (a - r) / b;
    if r != zero && (r < zero) != (b < zero) {
        quotient = quotient - F::lit(1.0);
    }
    if quotient == zero {
        return zero.copysign(a / b);
    }
    // a - r is a multiple of b up to rounding: the nearest integer is the quotient.
    let floor = quotient.floor();
    if quotient - floor > F::lit(0.5) { floor + F::lit(1.0) } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quotient_is_rounded_down_and_the_remainder_has_the_divisors_sign() {
        assert_eq!(floor_divide(7.0f64, 2.0), 3.0);
        assert_eq!(floor_divide(-7.0f64, 2.0), -4.0);
        assert_eq!(floor_divide(7.0f64, -2.0), -4.0);
        assert_eq!(modulo(-7.0f64, 2.0), 1.0);
        assert_eq!(modulo(7.0f64, -2.0), -1.0);
        // 1/0.1 rounds to 10, but 0.1 is a little more than a tenth
        assert_eq!(floor_divide(1.0f64, 0.1), 9.0);
        assert_eq!(floor_divide(1.0f64, 0.0), f64::INFINITY);
        assert_eq!(floor_divide(f64::NEG_INFINITY, 2.0), f64::NEG_INFINITY);
        let small = floor_divide(1.0f64, f64::NEG_INFINITY);
        assert!(small == 0.0 && small.is_sign_negative());
        assert!(floor_divide(f64::INFINITY, f64::INFINITY).is_nan());
        assert!(modulo(1.0f64, 0.0).is_nan());
        assert_eq!(modulo(-1.0f64, f64::INFINITY), f64::INFINITY);
        assert_eq!(modulo(5.0f32, f32::INFINITY), 5.0);
    }
}
