//! The length of the hypotenuse.

use super::Float;

/// `√(a² + b²)`, of which no square overflows or vanishes; infinite if either is, whatever the other.
#[inline(always)]
pub fn hypot<F: Float>(a: F, b: F) -> F {
    let (a, b) = (a.abs(), b.abs());
    let swapped = a > b;
    let large = F::select(swapped, a, b);
    let small = F::select(swapped, b, a);
    // Brought to where the square of the larger is neither too large nor too small.
    let power = |exponent: i32| F::from_bits(F::int((F::BIAS + exponent) as i64) << F::MANTISSA);
    let (half, far) = (F::BIAS / 2, F::BIAS / 2 + F::BIAS / 4);
    let (huge, tiny) = (large > power(half - 1), large < power(3 - half));
    let one = F::lit(1.0);
    let scale = F::select(huge, power(-far), F::select(tiny, power(far), one));
    let back = F::select(huge, power(far), F::select(tiny, power(-far), one));
    let (large, small) = (large * scale, small * scale);
    let length = large.fma(large, small * small).sqrt() * back;
    let infinite = (a == F::INFINITY) | (b == F::INFINITY);
    F::select(infinite, F::INFINITY, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_right_where_squares_are_not() {
        assert_eq!(hypot(3.0f32, 4.0), 5.0);
        let (long, short) = (3e38f32, 1e38f32);
        let want = f64::from(long).hypot(f64::from(short));
        assert!((f64::from(hypot(long, short)) - want).abs() <= want * f64::from(f32::EPSILON));
        // Multiples of the smallest number: √(2² + 3²) = 3.6 of them.
        assert_eq!(hypot(f32::from_bits(2), f32::from_bits(3)), f32::from_bits(4));
        assert_eq!(hypot(f32::MAX, f32::MAX), f32::INFINITY);
        let want = 1.5e308f64.hypot(5e307);
        assert!((hypot(1.5e308f64, 5e307) - want).abs() <= want * f64::EPSILON);
        assert_eq!(hypot(1e-320f64, 0.0), 1e-320);
        assert_eq!(hypot(-0.0f64, 0.0).to_bits(), 0);
        assert_eq!(hypot(f64::NEG_INFINITY, f64::NAN), f64::INFINITY);
        assert_eq!(hypot(f64::NAN, f64::INFINITY), f64::INFINITY);
        assert!(hypot(f64::NAN, 1.0).is_nan() && hypot(1.0, f64::NAN).is_nan());
        for k in 0..2000 {
            let angle = f64::from(k) * 0.37;
            let size = 2f64.powi(k - 1000);
            let (a, b) = (angle.sin() * size, angle.cos() * size);
            let (got, want) = (hypot(a, b), a.hypot(b));
            assert!((got - want).abs() <= want * f64::EPSILON, "{a} {b}");
        }
    }
}
