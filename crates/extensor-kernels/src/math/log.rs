//! Logarithms.
//!
//! Every logarithm comes from one reduction: `u = 2^k (1 + f)` with `1 + f` between `sqrt(1/2)` and
//! `sqrt(2)`, so that `log u = k log 2 + log(1 + f)`. With `s = f / (2 + f)` and `z = s^2`,
//!
//! ```text
//! log(1 + f) = 2 atanh(s) = 2 s + s z Q(z) = f - s (f - z Q(z))
//! ```
//!
//! where `f` is exact and the rest is small beside it.

use super::dd::{Dd, fast_two_sum, two_prod, two_sum};
use super::{Constants, Float, polynomial};

/// A positive number as `2^k (1 + f)`.
pub(super) struct Reduced<F> {
    /// The exponent, a whole number.
    pub k: F,
    /// What the fraction exceeds one by, exactly.
    pub f: F,
    /// `2 * 2^-k`, or zero where that is no normal number.
    twice_inverse: F,
}

/// Reduces a normal number.
#[inline(always)]
fn reduce<F: Float>(u: F) -> Reduced<F> {
    let sqrt_half = F::lit(std::f64::consts::FRAC_1_SQRT_2).bits();
    let bias = F::int(F::BIAS as i64);
    let exponents = F::int(2 * F::BIAS as i64 + 1);
    // Adding what lies between sqrt(1/2) and one makes the exponent grow at sqrt(2), not at two.
    let raised = F::add_bits(u.bits(), F::sub_bits(F::lit(1.0).bits(), sqrt_half));
    let biased = (raised >> F::MANTISSA) & exponents;
    let mantissa = F::add_bits(raised & F::int((1 << F::MANTISSA) - 1), sqrt_half);
    // A whole number in the last bits of a float whose last place is worth one.
    let magic = F::lit((1u64 << F::MANTISSA) as f64 * 1.5);
    let k = F::from_bits(F::add_bits(magic.bits(), F::sub_bits(biased, bias))) - magic;
    let inverse = F::sub_bits(exponents, biased) << F::MANTISSA;
    Reduced { k, f: F::from_bits(mantissa) - F::lit(1.0), twice_inverse: F::from_bits(inverse) }
}

/// Reduces any positive number, subnormal ones included.
#[inline(always)]
pub(super) fn reduce_any<F: Float>(x: F) -> Reduced<F> {
    let subnormal = x < F::MIN_POSITIVE;
    let up = F::MANTISSA + 1;
    let u = F::select(subnormal, x * F::lit((1u64 << up) as f64), x);
    let reduced = reduce(u);
    let down = F::select(subnormal, F::lit(up as f64), F::lit(0.0));
    Reduced { k: reduced.k - down, ..reduced }
}

/// `f - log(1 + f)`, which is of the order of `f^2`.
#[inline(always)]
fn shortfall<F: Constants>(f: F) -> F {
    let s = f / (F::lit(2.0) + f);
    let z = s * s;
    s * (-z).fma(polynomial(z, F::LOG), f)
}

/// `log(u)` for a `u` whose `hi` is a normal number, `k` times `log 2` added.
///
/// Where `u` is near one, `u.lo` must be right relative to `u - 1`.
#[inline(always)]
pub(super) fn log_dd<F: Constants>(u: Dd<F>, k: F) -> Dd<F> {
    let reduced = reduce(u.hi);
    let f = fast_two_sum(reduced.f, u.lo * reduced.twice_inverse * F::lit(0.5));
    let k = reduced.k + k;
    let whole = fast_two_sum(k * F::LN_2_SPLIT.0, f.hi);
    // The slope f / (1 + f) of the shortfall, roughly, for what f.hi lacks.
    let slope = (-f.hi).fma(f.hi, f.hi);
    let rest = k.fma(F::LN_2_SPLIT.1, (-slope).fma(f.lo, f.lo)) - shortfall(f.hi);
    Dd::new(whole.hi, whole.lo + rest)
}

/// `result`, except where the argument of a logarithm is zero, negative, infinite or no number.
#[inline(always)]
pub(super) fn with_limits<F: Float>(x: F, result: F) -> F {
    // An infinity or NaN is its own logarithm.
    let result = F::select(x < F::INFINITY, result, x);
    let result = F::select(x == F::lit(0.0), -F::INFINITY, result);
    F::select(x < F::lit(0.0), F::NAN, result)
}

/// The natural logarithm.
#[inline(always)]
pub fn log<F: Constants>(x: F) -> F {
    let Reduced { k, f, .. } = reduce_any(x);
    let whole = fast_two_sum(k * F::LN_2_SPLIT.0, f);
    let rest = k.fma(F::LN_2_SPLIT.1, whole.lo) - shortfall(f);
    with_limits(x, whole.hi + rest)
}

/// `log(x) / log(b)` from `1 / log b` and from `log 2 / log b` in parts.
#[inline(always)]
fn log_to_base<F: Constants>(x: F, unit: (F, F), two: (F, F)) -> F {
    let Reduced { k, f, .. } = reduce_any(x);
    let fraction = two_prod(f, unit.0);
    let whole = fast_two_sum(k * two.0, fraction.hi);
    let rest = f.fma(unit.1, k.fma(two.1, fraction.lo));
    let rest = (-unit.0).fma(shortfall(f), rest);
    with_limits(x, whole.hi + (whole.lo + rest))
}

/// The logarithm to base two, exact for powers of two.
#[inline(always)]
pub fn log2<F: Constants>(x: F) -> F {
    log_to_base(x, F::LOG2_E, (F::lit(1.0), F::lit(0.0)))
}

/// The logarithm to base ten.
#[inline(always)]
pub fn log10<F: Constants>(x: F) -> F {
    log_to_base(x, F::LOG10_E, F::LOG10_2_SPLIT)
}

/// `log(1 + x)`, accurate also where `x` is small.
#[inline(always)]
pub fn log1p<F: Constants>(x: F) -> F {
    let u = two_sum(F::lit(1.0), x);
    let result = with_limits(u.hi, log_dd(u, F::lit(0.0)).value());
    // Keeps the sign of zero.
    F::select(x == F::lit(0.0), x, result)
}
