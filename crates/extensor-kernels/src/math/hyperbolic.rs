//! Hyperbolic functions and their inverses.

use super::dd::{Dd, fast_two_sum, two_prod, two_sum};
use super::exp::{expm1_dd, expm1_lean, lean};
use super::log::{log_dd, with_limits};
use super::{Constants, Float};

/// A number so large that its square plus one is its square, and no overflow.
#[inline(always)]
fn huge<F: Float>() -> F {
    F::lit((1u64 << (F::MANTISSA + 4)) as f64)
}

/// Below this an odd function of slope one is the identity.
#[inline(always)]
fn tiny<F: Float>() -> F {
    F::lit(1.0 / (1u64 << (F::MANTISSA / 2 + 3)) as f64)
}

/// `|x|`, but no more than suffices for `e^|x| / 2` to overflow.
#[inline(always)]
fn magnitude<F: Float>(x: F) -> F {
    let top = F::lit((F::BIAS as f64 + 2.4) * std::f64::consts::LN_2);
    F::select(x.abs() > top, top, x.abs())
}

/// `(e^x - e^-x) / 2`.
#[inline(always)]
pub fn sinh<F: Constants>(x: F) -> F {
    // With g = (e^|x| - 1) / 4, which does not overflow where the result does not:
    // sinh |x| = 2 (g + g / (1 + 4 g)).
    let g = expm1_dd(magnitude(x), 2);
    // The quotient has reached 1/4 long before it would overflow.
    let bounded = Dd::select(g.hi > huge(), Dd::new(huge(), F::lit(0.0)), g);
    let four = bounded.scaled(F::lit(4.0));
    let below = two_sum(F::lit(1.0), four.hi);
    let quotient = bounded.over(Dd::new(below.hi, below.lo + four.lo));
    let half = quotient.added_to(g.hi);
    let half = half.hi + (half.lo + g.lo);
    F::select(x.abs() < tiny(), x, (half + half).copysign(x))
}

/// `(e^x + e^-x) / 2`.
#[inline(always)]
pub fn cosh<F: Constants>(x: F) -> F {
    // With g = e^|x| / 4: cosh |x| = 2 (g + 1 / (16 g)).
    let g = expm1_dd(magnitude(x), 2);
    let quarter = two_sum(F::lit(0.25), g.hi);
    let quarter = fast_two_sum(quarter.hi, quarter.lo + g.lo);
    let half = quarter.hi + (quarter.lo + F::lit(0.0625) / quarter.hi);
    half + half
}

/// `sinh(x) / cosh(x)`.
#[inline(always)]
pub fn tanh<F: Constants>(x: F) -> F {
    // (e^2|x| - 1) / (e^2|x| + 1), which has reached one at the limit.
    let top = F::lit((F::MANTISSA as f64 + 4.0) * std::f64::consts::LN_2);
    let double = x.abs() + x.abs();
    let double = F::select(double > top, top, double);
    if lean::<F>() {
        let above = expm1_lean(double);
        return (above / (above + F::lit(2.0))).copysign(x);
    }
    let above = expm1_dd(double, 0);
    let below = two_sum(F::lit(2.0), above.hi);
    let below = Dd::new(below.hi, below.lo + above.lo);
    above.over(below).value().copysign(x)
}

/// The inverse of [`sinh`]: `log(x + sqrt(x^2 + 1))`.
#[inline(always)]
pub fn asinh<F: Constants>(x: F) -> F {
    let a = x.abs();
    let large = a > huge();
    // Beyond, log(2 a).
    let bounded = F::select(large, F::lit(1.0), a);
    let square = two_prod(bounded, bounded);
    let sum = two_sum(F::lit(1.0), square.hi);
    let root = Dd::new(sum.hi, sum.lo + square.lo).sqrt();
    let u = fast_two_sum(root.hi, bounded);
    let u = Dd::new(u.hi, u.lo + root.lo);
    let u = Dd::select(large, Dd::new(a, F::lit(0.0)), u);
    let k = F::select(large, F::lit(1.0), F::lit(0.0));
    let result = log_dd(u, k).value();
    // Infinities and NaN are their own result.
    F::select(a < F::INFINITY, result.copysign(x), x)
}

/// The inverse of [`cosh`]: `log(x + sqrt(x^2 - 1))`, defined from one up.
#[inline(always)]
pub fn acosh<F: Constants>(x: F) -> F {
    let one = F::lit(1.0);
    let large = x > huge();
    // Beyond, log(2 x).
    let bounded = F::select(large, F::lit(2.0), x);
    // x^2 - 1 = t (x + 1), where t = x - 1 is the result's argument near one.
    let t = bounded - one;
    let sum = two_sum(bounded, one);
    let square = two_prod(t, sum.hi);
    let square = Dd::new(square.hi, t.fma(sum.lo, square.lo));
    // The root of zero would divide by it.
    let square = Dd::select(square.hi > F::lit(0.0), square, Dd::new(one, F::lit(0.0)));
    let root = square.sqrt();
    let v = two_sum(root.hi, t);
    let u = two_sum(one, v.hi);
    let u = Dd::new(u.hi, u.lo + (v.lo + root.lo));
    let u = Dd::select(large, Dd::new(x, F::lit(0.0)), u);
    let k = F::select(large, one, F::lit(0.0));
    let result = with_limits(x, log_dd(u, k).value());
    let result = F::select(x == one, F::lit(0.0), result);
    F::select(x < one, F::NAN, result)
}

/// The inverse of [`tanh`]: `log((1 + x) / (1 - x)) / 2`, defined from minus one to one.
#[inline(always)]
pub fn atanh<F: Constants>(x: F) -> F {
    let one = F::lit(1.0);
    let a = x.abs();
    // (1 + a) / (1 - a) = 1 + 2 a / (1 - a)
    let below = fast_two_sum(one, -a);
    let v = Dd::new(a + a, F::lit(0.0)).over(below);
    let u = two_sum(one, v.hi);
    let u = Dd::new(u.hi, u.lo + v.lo);
    let result = log_dd(u, F::lit(0.0)).value() * F::lit(0.5);
    let result = F::select(a < one, result, F::INFINITY);
    let result = F::select(a > one, F::NAN, result);
    F::select(a <= F::INFINITY, result.copysign(x), x)
}
