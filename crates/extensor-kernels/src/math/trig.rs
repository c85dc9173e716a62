//! Sine, cosine and tangent; the sine and the cosine of multiples of π.
//!
//! Each comes in two forms: `sin_lane` and its like have no branch and are right up to
//! [`TrigConstants::TRIG_LIMIT`]; `sin` and its like are right everywhere, and leave what is beyond
//! the limit to `libm`; of multiples of π, which are reduced exactly, one form is right everywhere. A loop that has seen that a whole block lies within it may use the first,
//! and vectorises.

use super::dd::{Dd, fast_two_sum, two_prod};
use super::exp::nearest;
use super::{Float, polynomial};

/// The constants of sine, cosine and tangent in one format.
///
/// The polynomials are from `tools/minimax_trig.py`.
pub trait TrigConstants: Float {
    /// The largest magnitude for which the forms without a branch are right.
    const TRIG_LIMIT: Self;
    /// π/2, in three parts.
    const HALF_PI: [Self; 3];
    /// `(sin r / r - 1) / r²` in powers of r².
    const SIN: &'static [Self];
    /// `(cos r - 1 + r²/2) / r⁴` in powers of r².
    const COS: &'static [Self];
}

impl TrigConstants for f32 {
    const TRIG_LIMIT: f32 = 131072.0;
    const HALF_PI: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371139e-08, -1.7151245e-15];
    // For |r| <= 0.795: relative error 2^-32.5.
    const SIN: &'static [f32] = &[-1.6666667e-01, 8.3333785e-03, -1.9852542e-04, 2.825936e-06];
    // For |r| <= 0.795: relative error 2^-32.7.
    const COS: &'static [f32] = &[4.1666646e-02, -1.3887294e-03, 2.442942e-05];
}

impl TrigConstants for f64 {
    const TRIG_LIMIT: f64 = 1099511627776.0;
    const HALF_PI: [f64; 3] =
        [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33];
    // For |r| <= 0.786: relative error 2^-57.9.
    const SIN: &'static [f64] = &[
        -1.666666666666663e-01,
        8.333333333321842e-03,
        -1.9841269829360818e-04,
        2.7557313539525727e-06,
        -2.50507345725763e-08,
        1.589544503058249e-10,
    ];
    // For |r| <= 0.786: relative error 2^-63.9.
    const COS: &'static [f64] = &[
        4.1666666666666595e-02,
        -1.3888888888873316e-03,
        2.4801587288974324e-05,
        -2.755731420649744e-07,
        2.0875703689259794e-09,
        -1.135864910614425e-11,
    ];
}

/// `r` and `n` in `a = r + n π/2` with `r` in about ±π/4, for `a >= 0`.
#[inline(always)]
fn reduce<F: TrigConstants>(a: F) -> (Dd<F>, F::Int) {
    let (n, quadrant) = nearest(a, F::lit(std::f64::consts::FRAC_2_PI));
    // Exact: where n is not zero, both terms are multiples of half the unit in the last place of
    // one, and the difference is below one.
    let first = (-n).fma(F::HALF_PI[0], a);
    let second = two_prod(n, F::HALF_PI[1]);
    // Exact even where `second` is the larger, for then `first` is a multiple of its last place.
    let rest = fast_two_sum(first, -second.hi);
    let lo = (-n).fma(F::HALF_PI[2], rest.lo - second.lo);
    (Dd::new(rest.hi, lo), quadrant)
}

/// The sine and the cosine of `r` in about ±π/4, both as `hi + lo` not yet added.
#[inline(always)]
fn sine_and_cosine<F: TrigConstants>(r: Dd<F>) -> (Dd<F>, Dd<F>) {
    let square = r.hi * r.hi;
    let half = square * F::lit(0.5);
    let cosine = fast_two_sum(F::lit(1.0), -half);
    // sin(hi + lo) = sin hi + lo cos hi, with 1 - hi²/2 for the cosine.
    let sine_tail = (r.hi * square).fma(polynomial(square, F::SIN), r.lo * cosine.hi);
    // cos(hi + lo) = cos hi - lo sin hi, with hi for the sine.
    let cosine_tail =
        (square * square).fma(polynomial(square, F::COS), (-r.hi).fma(r.lo, cosine.lo));
    (Dd::new(r.hi, sine_tail), Dd::new(cosine.hi, cosine_tail))
}

/// The sign bit if bit `bit` of `n` is set, else zero.
#[inline(always)]
fn sign_from<F: Float>(n: F::Int, bit: u32) -> F::Int {
    let top = size_of::<F>() as u32 * 8 - 1;
    (n & F::int(1 << bit)) << (top - bit)
}

/// `sin(r + n π/2)`.
#[inline(always)]
fn sine_of_quadrant<F: TrigConstants>(r: Dd<F>, n: F::Int) -> F {
    let (sine, cosine) = sine_and_cosine(r);
    let odd = (n & F::int(1)) != F::int(0);
    let value = F::select(odd, cosine.value(), sine.value());
    F::from_bits(value.bits() ^ sign_from::<F>(n, 1))
}

/// `x` with the sign bit of `sign` flipped in.
#[inline(always)]
fn flip<F: Float>(x: F, sign: F) -> F {
    let top = size_of::<F>() as u32 * 8 - 1;
    F::from_bits(x.bits() ^ ((sign.bits() >> top) << top))
}

/// `sin x` for `|x|` up to [`TrigConstants::TRIG_LIMIT`]; NaN for the infinities.
#[inline(always)]
pub fn sin_lane<F: TrigConstants>(x: F) -> F {
    let (r, n) = reduce(x.abs());
    flip(sine_of_quadrant(r, n), x)
}

/// `cos x = sin(x + π/2)` for `|x|` up to [`TrigConstants::TRIG_LIMIT`]; NaN for the infinities.
#[inline(always)]
pub fn cos_lane<F: TrigConstants>(x: F) -> F {
    let (r, n) = reduce(x.abs());
    sine_of_quadrant(r, F::add_bits(n, F::int(1)))
}

/// `tan x = sin x / cos x` for `|x|` up to [`TrigConstants::TRIG_LIMIT`]; NaN for the infinities.
#[inline(always)]
pub fn tan_lane<F: TrigConstants>(x: F) -> F {
    let (r, n) = reduce(x.abs());
    let (sine, cosine) = sine_and_cosine(r.renormalized());
    let (sine, cosine) = (sine.renormalized(), cosine.renormalized());
    let odd = (n & F::int(1)) != F::int(0);
    let above = Dd::select(odd, cosine, sine);
    let below = Dd::select(odd, sine, cosine);
    let value = above.over(below).value();
    flip(F::from_bits(value.bits() ^ sign_from::<F>(n, 0)), x)
}

/// `sin x`.
#[inline(always)]
pub fn sin<F: TrigConstants>(x: F) -> F {
    if x.abs() <= F::TRIG_LIMIT { sin_lane(x) } else { F::lit(libm::sin(x.to_f64())) }
}

/// `cos x`.
#[inline(always)]
pub fn cos<F: TrigConstants>(x: F) -> F {
    if x.abs() <= F::TRIG_LIMIT { cos_lane(x) } else { F::lit(libm::cos(x.to_f64())) }
}

/// `tan x`.
#[inline(always)]
pub fn tan<F: TrigConstants>(x: F) -> F {
    if x.abs() <= F::TRIG_LIMIT { tan_lane(x) } else { F::lit(libm::tan(x.to_f64())) }
}

/// `r` and `n` in `π a = r + n π/2` with `r` in ±π/4, for `a >= 0`: no digit of `a` is lost.
#[inline(always)]
fn reduce_turns<F: TrigConstants>(a: F) -> (Dd<F>, F::Int) {
    let (half, two) = (F::lit(0.5), F::lit(2.0));
    // Less an even number: in ±1, and what is left in quarters of a turn.
    let rest = (-(a * half).round()).fma(two, a);
    let (n, quadrant) = nearest(rest, two);
    let r = (-n).fma(half, rest);
    let product = two_prod(r, two * F::HALF_PI[0]);
    (Dd::new(product.hi, r.fma(two * F::HALF_PI[1], product.lo)), quadrant)
}

/// `sin πx`; NaN for the infinities.
#[inline(always)]
pub fn sin_pi<F: TrigConstants>(x: F) -> F {
    let (r, n) = reduce_turns(x.abs());
    // A zero is +0 whatever the quadrant is.
    flip(F::lit(0.0) + sine_of_quadrant(r, n), x)
}

/// `cos πx`; NaN for the infinities.
#[inline(always)]
pub fn cos_pi<F: TrigConstants>(x: F) -> F {
    let (r, n) = reduce_turns(x.abs());
    F::lit(0.0) + sine_of_quadrant(r, F::add_bits(n, F::int(1)))
}
