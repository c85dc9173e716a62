//! Exponentials, and what is made of one exponential and one logarithm.
//!
//! Every exponential comes from one reduction: `x = k log 2 + r` with a whole `k` and `r` between
//! `-log(2)/2` and `log(2)/2`, so that
//!
//! ```text
//! e^x = 2^k e^r = 2^k (1 + r + r^2 P(r))
//! ```
//!
//! kept as a sum of two floats until the one rounding at the end.

use super::dd::{Dd, fast_two_sum, two_prod, two_sum};
use super::log::log_dd;
use super::{Constants, Float, polynomial};

/// Exponents of two from which up a power overflows, and from which down it vanishes.
#[inline(always)]
pub(super) fn exponent_limits<F: Float>() -> (f64, f64) {
    let top = F::BIAS as f64 + 2.0;
    (top, -(F::BIAS as f64 + F::MANTISSA as f64 + 1.0))
}

/// `x`, but no more than `high` and no less than `low`; no number stays none.
#[inline(always)]
fn clamp<F: Float>(x: F, low: F, high: F) -> F {
    let x = F::select(x > high, high, x);
    F::select(x < low, low, x)
}

/// The whole number nearest to `x * per`, and the same as an integer.
#[inline(always)]
pub(super) fn nearest<F: Float>(x: F, per: F) -> (F, F::Int) {
    // The last place of this float is worth one: the sum is rounded to a whole number, whose bits
    // are the last ones.
    let magic = F::lit((1u64 << F::MANTISSA) as f64 * 1.5);
    let sum = x.fma(per, magic);
    (sum - magic, F::sub_bits(sum.bits(), magic.bits()))
}

/// `2^k` where that is a normal number.
#[inline(always)]
pub(super) fn power_of_two<F: Float>(k: F::Int) -> F {
    F::from_bits(F::add_bits(k, F::int(F::BIAS as i64)) << F::MANTISSA)
}

/// `2^k` in two factors, for a `k` that no normal number need have for exponent.
///
/// To multiply by one and then the other rounds once, at the last.
#[inline(always)]
pub(super) fn two_powers<F: Float>(k: F::Int) -> (F, F) {
    let half = k >> 1;
    (power_of_two(half), power_of_two(F::sub_bits(k, half)))
}

/// `x = k log 2 + r`, and `rest = e^r - 1 - r` together with what `r` lacks.
struct Reduced<F: Float> {
    k: F::Int,
    r: F,
    rest: F,
}

impl<F: Float> Reduced<F> {
    /// `whole + scale (e^r - 1)`, where `whole` is zero or no less than the rest.
    #[inline(always)]
    fn scaled(&self, scale: F, whole: Dd<F>) -> Dd<F> {
        let sum = fast_two_sum(whole.hi, scale * self.r);
        fast_two_sum(sum.hi, scale.fma(self.rest, sum.lo + whole.lo))
    }
}

#[inline(always)]
fn reduce<F: Constants>(x: F) -> Reduced<F> {
    let (whole, k) = nearest(x, F::lit(std::f64::consts::LOG2_E));
    let part = (-whole).fma(F::LN_2_SPLIT.0, x);
    let r = (-whole).fma(F::LN_2_SPLIT.1, part);
    let lacking = (-whole).fma(F::LN_2_SPLIT.1, part - r);
    let rest = (r * r).fma(polynomial(r, F::EXP), lacking);
    Reduced { k, r, rest }
}

/// `e^x = 2^k p`, with `p` between `sqrt(1/2)` and `sqrt(2)`, for an `x` within the limits.
#[inline(always)]
pub(super) fn exp_dd<F: Constants>(x: F) -> (F::Int, Dd<F>) {
    let Reduced { k, r, rest } = reduce(x);
    (k, Dd::new(r, rest).added_to(F::lit(1.0)))
}

/// `(e^x - 1) / 2^down`, for an `x` from zero up for which `2^k / 2^down` is a normal number.
#[inline(always)]
pub(super) fn expm1_dd<F: Constants>(x: F, down: u32) -> Dd<F> {
    let reduced = reduce(x);
    let scale = power_of_two::<F>(F::sub_bits(reduced.k, F::int(down as i64)));
    reduced.scaled(scale, fast_two_sum(scale, F::lit(-1.0 / (1u64 << down) as f64)))
}

/// `e^(x + rest) = 2^k p` for an `x` within the limits and a tiny rest, with `p` between `sqrt(1/2)`
/// and `sqrt(2)` in one part, within one unit in the last place.
#[inline(always)]
pub(super) fn exp_lean<F: Constants>(x: F, rest: Option<F>) -> (F::Int, F) {
    let (whole, k) = nearest(x, F::lit(std::f64::consts::LOG2_E));
    let part = (-whole).fma(F::LN_2_SPLIT.0, x);
    let r = match rest {
        Some(rest) => part + (-whole).fma(F::LN_2_SPLIT.1, rest),
        None => (-whole).fma(F::LN_2_SPLIT.1, part),
    };
    (k, (r * r).fma(polynomial(r, F::EXP_ONE_PART), r) + F::lit(1.0))
}

/// `e^x - 1` in one part, for an `x` from zero up for which `2^k` is a normal number.
#[inline(always)]
pub(super) fn expm1_lean<F: Constants>(x: F) -> F {
    let (whole, k) = nearest(x, F::lit(std::f64::consts::LOG2_E));
    let part = (-whole).fma(F::LN_2_SPLIT.0, x);
    let r = (-whole).fma(F::LN_2_SPLIT.1, part);
    let scale = power_of_two::<F>(k);
    scale.fma((r * r).fma(polynomial(r, F::EXP_ONE_PART), r), scale - F::lit(1.0))
}

/// Whether a function may be computed in one part: where four units in the last place are allowed, and
/// not two.
#[inline(always)]
pub(super) fn lean<F: Float>() -> bool {
    F::MANTISSA < 32
}

/// `2^r` for `r` between minus a half and a half.
#[inline(always)]
pub(super) fn exp2_fraction<F: Constants>(r: Dd<F>) -> Dd<F> {
    let linear = two_prod(r.hi, F::LN_2.0);
    let lacking = r.hi.fma(F::LN_2.1, linear.lo);
    let lacking = r.lo.fma(F::LN_2.0, lacking);
    let rest = (r.hi * r.hi).fma(polynomial(r.hi, F::EXP2), lacking);
    Dd::new(linear.hi, rest).added_to(F::lit(1.0))
}

/// `e^x`.
#[inline(always)]
pub fn exp<F: Constants>(x: F) -> F {
    let (top, bottom) = exponent_limits::<F>();
    let ln_2 = std::f64::consts::LN_2;
    let low = F::lit(bottom * ln_2);
    let vanishes = x < low;
    let x = clamp(x, low, F::lit(top * ln_2));
    if lean::<F>() {
        let (k, p) = exp_lean(x, None);
        return scaled(p, k, vanishes);
    }
    let (k, p) = exp_dd(x);
    scaled(p.value(), k, vanishes)
}

/// `p 2^k`, or zero. A product that is too small for a number takes a processor a hundred times as long
/// as another, and masked scores, which are −∞, have such exponentials: they are multiplied by zero.
#[inline(always)]
fn scaled<F: Float>(p: F, k: F::Int, vanishes: bool) -> F {
    let (a, b) = two_powers(k);
    p * a * F::select(vanishes, F::lit(0.0), b)
}

/// `2^x`.
#[inline(always)]
pub fn exp2<F: Constants>(x: F) -> F {
    let (top, bottom) = exponent_limits::<F>();
    let vanishes = x < F::lit(bottom);
    let x = clamp(x, F::lit(bottom), F::lit(top));
    let (whole, k) = nearest(x, F::lit(1.0));
    scaled(exp2_fraction(Dd::new(x - whole, F::lit(0.0))).value(), k, vanishes)
}

/// `e^x - 1`, accurate also where `x` is small.
#[inline(always)]
pub fn expm1<F: Constants>(x: F) -> F {
    let ln_2 = std::f64::consts::LN_2;
    // At the top 2^k / 2 is still finite; at the bottom the result is -1.
    let top = F::lit((F::BIAS as f64 + 1.4) * ln_2);
    let bottom = F::lit(-(F::MANTISSA as f64 + 4.0) * ln_2);
    let reduced = reduce(clamp(x, bottom, top));
    let scale = power_of_two::<F>(F::sub_bits(reduced.k, F::int(1)));
    let half = reduced.scaled(scale, two_sum(scale, F::lit(-0.5))).hi;
    // So small an argument is its own result, and half of it might not be a float.
    let tiny = x.abs() < F::lit(1.0 / (1u64 << (F::MANTISSA + 2)) as f64);
    F::select(tiny, x, half + half)
}

/// `1 / (1 + e^-x)`, accurate also where it is near zero.
#[inline(always)]
pub fn sigmoid<F: Constants>(x: F) -> F {
    let one = F::lit(1.0);
    let (_, bottom) = exponent_limits::<F>();
    let bottom = F::lit(bottom * std::f64::consts::LN_2);
    // e^-|x| = 2^k p is at most one. The result is 1 / (1 + 2^k p), or 2^k p / (1 + 2^k p).
    let low = F::select(x < F::lit(0.0), x, -x);
    let vanishes = low < bottom;
    let low = F::select(vanishes, bottom, low);
    if lean::<F>() {
        let (k, p) = exp_lean(low, None);
        let power = scaled(p, k, vanishes);
        return F::select(x < F::lit(0.0), power, one) / (one + power);
    }
    let (k, p) = exp_dd(low);
    let p = p.renormalized();
    let (a, b) = two_powers(k);
    let below = p.scaled(a * b).added_to(one);
    let negative = x < F::lit(0.0);
    let above = Dd::select(negative, p, Dd::new(one, F::lit(0.0)));
    let ratio = above.over(below).value();
    ratio * F::select(negative, a, one) * F::select(negative, b, one)
}

/// `log(1 + e^x)`.
#[inline(always)]
pub fn softplus<F: Constants>(x: F) -> F {
    let zero = F::lit(0.0);
    let (_, bottom) = exponent_limits::<F>();
    let bottom = F::lit(bottom * std::f64::consts::LN_2);
    // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
    let low = F::select(x < zero, x, -x);
    let (k, p) = exp_dd(F::select(low < bottom, bottom, low));
    let (a, b) = two_powers(k);
    let power = p.renormalized().scaled(a).scaled(b);
    let log = log_dd(power.added_to(F::lit(1.0)), zero);
    // Before an infinite x nothing else counts.
    let high = F::select(x > zero, x, zero);
    let sum = two_sum(high, log.hi);
    F::select(x == F::INFINITY, x, sum.hi + (sum.lo + log.lo))
}
