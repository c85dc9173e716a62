//! The inverse trigonometric functions.

use super::dd::{Dd, fast_two_sum};
use super::{Float, long_polynomial, polynomial};

/// The constants of the inverse trigonometric functions in one format.
///
/// The polynomials are from `tools/minimax_trig.py`.
pub trait InverseTrigConstants: Float {
    /// π/4.
    const QUARTER_PI: Dd<Self>;
    /// `(atan t / t - 1) / t²` in powers of t².
    const ATAN: &'static [Self];
    /// `(asin s / s - 1) / s²` in powers of s².
    const ASIN: &'static [Self];
}

impl InverseTrigConstants for f32 {
    const QUARTER_PI: Dd<f32> = Dd { hi: std::f32::consts::FRAC_PI_4, lo: -2.1855694e-08 };
    // For |t| <= tan(π/8): relative error 2^-30.4.
    const ATAN: &'static [f32] =
        &[-3.3333316e-01, 1.9998528e-01, -1.4244391e-01, 1.05991684e-01, -6.090052e-02];
    // For |s| <= 1/2: relative error 2^-31.7.
    const ASIN: &'static [f32] =
        &[1.666666e-01, 7.500522e-02, 4.4513382e-02, 3.1838812e-02, 1.4317374e-02, 3.7690267e-02];
}

impl InverseTrigConstants for f64 {
    const QUARTER_PI: Dd<f64> = Dd { hi: std::f64::consts::FRAC_PI_4, lo: 3.061616997868383e-17 };
    // For |t| <= tan(π/8): relative error 2^-59.4.
    const ATAN: &'static [f64] = &[
        -3.33333333333332e-01,
        1.9999999999953677e-01,
        -1.4285714280200268e-01,
        1.1111110783538793e-01,
        -9.09089775906292e-02,
        7.692060240826327e-02,
        -6.663104473254793e-02,
        5.8478936947831905e-02,
        -5.039331157237336e-02,
        3.806541235372189e-02,
        -1.790834276473782e-02,
    ];
    // For |s| <= 1/2: relative error 2^-59.9.
    const ASIN: &'static [f64] = &[
        1.666666666666676e-01,
        7.499999999970867e-02,
        4.4642857174559306e-02,
        3.0381942709944897e-02,
        2.2372214933777414e-02,
        1.735161288832198e-02,
        1.3980810923436995e-02,
        1.1398985305701725e-02,
        1.0779869429376197e-02,
        3.707773155804163e-03,
        2.1704301120691202e-02,
        -2.0994822831376894e-02,
        3.2626088174013045e-02,
    ];
}

/// `base + x` where `base` is zero or not below `x`.
#[inline(always)]
fn sum<F: Float>(base: Dd<F>, x: Dd<F>) -> Dd<F> {
    let hi = fast_two_sum(base.hi, x.hi);
    Dd::new(hi.hi, hi.lo + (base.lo + x.lo))
}

/// `π k/4 - x` for `k` a power of two.
#[inline(always)]
fn from_pi<F: InverseTrigConstants>(k: f64, x: Dd<F>) -> Dd<F> {
    sum(F::QUARTER_PI.scaled(F::lit(k)), Dd::new(-x.hi, -x.lo))
}

/// `atan(n / d)` for `0 <= n <= d`.
///
/// Above tan(π/8) it is π/4 + atan((n - d) / (n + d)), so that the polynomial sees no more than that.
#[inline(always)]
fn atan_octant<F: InverseTrigConstants>(n: F, d: F) -> Dd<F> {
    let zero = F::lit(0.0);
    let above = n > d * F::lit(std::f64::consts::SQRT_2 - 1.0);
    let num = Dd::select(above, fast_two_sum(-d, n), Dd::new(n, zero));
    let den = Dd::select(above, fast_two_sum(d, n), Dd::new(d, zero));
    let t = num.over(den);
    let square = t.hi * t.hi;
    // atan(hi + lo) = atan hi + lo / (1 + hi²), with 1 - hi² for the quotient.
    let lo = (-t.lo).fma(square, t.lo);
    let tail = (t.hi * square).fma(polynomial(square, F::ATAN), lo);
    let base = Dd::select(above, F::QUARTER_PI, Dd::new(zero, zero));
    sum(base, Dd::new(t.hi, tail))
}

/// `atan x`.
#[inline(always)]
pub fn atan<F: InverseTrigConstants>(x: F) -> F {
    // From here on the last place of π/2 is all there is.
    let huge = F::lit((1u64 << 60) as f64);
    let one = F::lit(1.0);
    let a = x.abs();
    let a = F::select(a > huge, huge, a);
    let inverted = a > one;
    let angle = atan_octant(F::select(inverted, one, a), F::select(inverted, a, one));
    let angle = Dd::select(inverted, from_pi(2.0, angle), angle);
    angle.value().copysign(x)
}

/// The angle in (-π, π] of the point `(x, y)`: `atan(y / x)` in the right half of the plane.
///
/// The signs of zeros count, as in C: `atan2(0, -0)` is π and `atan2(-0, -0)` is -π.
#[inline(always)]
pub fn atan2<F: InverseTrigConstants>(y: F, x: F) -> F {
    let (zero, one) = (F::lit(0.0), F::lit(1.0));
    let swapped = y.abs() > x.abs();
    let n = F::select(swapped, x.abs(), y.abs());
    let d = F::select(swapped, y.abs(), x.abs());
    // Brought to where neither n + d nor 1 / d leaves the range.
    let power = |exponent: i32| F::from_bits(F::int(exponent as i64) << F::MANTISSA);
    let (tiny, huge) = (power(F::BIAS / 2), power(2 * F::BIAS - 3));
    let up = power(F::BIAS + F::BIAS / 2);
    let scale = F::select(d > huge, F::lit(0.0625), F::select(d < tiny, up, one));
    let (n, d) = (n * scale, d * scale);
    let infinite = d == F::INFINITY;
    let n = F::select(infinite, F::select(n == d, one, n * zero), n);
    let d = F::select(infinite | (d == zero), one, d);
    let angle = atan_octant(n, d);
    let angle = Dd::select(swapped, from_pi(2.0, angle), angle);
    let left = one.copysign(x) < zero;
    let angle = Dd::select(left, from_pi(4.0, angle), angle);
    angle.value().copysign(y)
}

/// `asin` of an `s` up to 1/2, given `s` and its square.
#[inline(always)]
fn asin_small<F: InverseTrigConstants>(s: F, square: F) -> Dd<F> {
    Dd::new(s, s * square * long_polynomial(square, F::ASIN))
}

/// For `a <= 1/2` that and its square; above, `s = √((1 - a) / 2)` and its square, for which
/// `asin a = π/2 - 2 asin s`.
#[inline(always)]
fn halved<F: InverseTrigConstants>(a: F) -> (bool, Dd<F>) {
    let half = F::lit(0.5);
    let small = a <= half;
    let square = F::select(small, a * a, (-half).fma(a, half));
    let s = F::select(small, a, square.sqrt());
    (small, asin_small(s, square))
}

/// `asin x`, which is NaN beyond ±1.
#[inline(always)]
pub fn asin<F: InverseTrigConstants>(x: F) -> F {
    let (small, angle) = halved(x.abs());
    let twice = angle.scaled(F::lit(2.0));
    Dd::select(small, angle, from_pi(2.0, twice)).value().copysign(x)
}

/// `acos x = π/2 - asin x`, which is NaN beyond ±1.
#[inline(always)]
pub fn acos<F: InverseTrigConstants>(x: F) -> F {
    let (small, angle) = halved(x.abs());
    let signed = Dd::new(angle.hi.copysign(x), angle.lo.copysign(x));
    let twice = angle.scaled(F::lit(2.0));
    let large = Dd::select(x > F::lit(0.0), twice, from_pi(4.0, twice));
    Dd::select(small, from_pi(2.0, signed), large).value()
}
