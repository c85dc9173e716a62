//! Special functions of one number, made of elementary ones.

use crate::ops::pointwise::{defined, guard, guard_above, settle};
use crate::ops::unary::*;
use std::f64::consts::PI;

unary! {
    /// The inverse of the logistic function, `y = ln(x/(1 − x))`, exact around ½, where it is 0, and
    /// near 0 and 1.
    real logit, logit_backward(x), Logit:
            y = |x| {
                let (one, half) = (x.lit(1.0), x.lit(0.5));
                // 2x − 1 is exact in the middle, where the logarithms would cancel.
                let middle = (x - half).abs().le(x.lit(0.25));
                let around = (x + x - one).atanh();
                R::select(middle, around + around, x.log() - (-x).log1p())
            },
            dy = |g, x, limit| {
                // Its slope, 1 − 2x, loses nothing around ½ if it comes from x − x².
                let below = (x * (x.lit(1.0) - x)).like(|| x - x * x);
                let zero = x.lit(0.0);
                let slope = settle(g / guard(below), g, below.eq(zero), limit);
                defined(slope, g, below.lt(zero))
            };
            "y = ln(x/(1 − x))", "y′ = 1/(x(1 − x))",
            on "0 < x < 1" [0.1, 0.9] kinks [0.0, 1.0];
            at 0.25: -1.0986122886681098;
            conventions: "at 0 and 1 the derivative uses a denominator of 1e-10, and stays finite; NaN beyond",
}

/// `sin πx / πx`, 1 at 0.
#[inline(always)]
fn sinc_of<R: Real>(x: R) -> R {
    R::select(x.eq(x.lit(0.0)), x.lit(1.0), x.sin_pi() / (x.lit(PI) * x))
}

/// How many terms of the series of [`sinc`]'s derivative there are below ½: the next would be 2⁻⁷⁰ of
/// the third derivative.
const TERMS: usize = 14;

/// The derivative of [`sinc`].
#[inline(always)]
fn sinc_slope<R: Real>(x: R) -> R {
    // Near 0 the two terms cancel, more in each order: there it is the series Σ 2k aₖ x²ᵏ⁻¹, where
    // aₖ = (−π²)ᵏ/(2k + 1)!.
    let square = x * x;
    let mut sum = x.lit(slope_term(TERMS));
    let mut k = TERMS - 1;
    while k > 0 {
        sum = sum.mul_add(square, x.lit(slope_term(k)));
        k -= 1;
    }
    let far = (x.cos_pi() - sinc_of(x)) / x;
    R::select(x.abs().lt(x.lit(0.5)), x * sum, far)
}

/// `2k (−π²)ᵏ / (2k + 1)!`.
const fn slope_term(k: usize) -> f64 {
    let (mut term, mut n) = (1.0, 1);
    while n <= k {
        term *= -PI * PI / ((2 * n) as f64 * (2 * n + 1) as f64);
        n += 1;
    }
    term * (2 * k) as f64
}

unary! {
    /// The normalised sine, `y = sin πx / πx`: 1 at 0, and exactly 0 at the other whole numbers.
    real sinc, sinc_backward(x), Sinc:
            y = |x| sinc_of(x),
            dy = |g, x| g * sinc_slope(x);
            "y = sin πx / πx", "y′ = (cos πx − y)/x",
            on "all numbers" [-4.0, 4.0];
            at 0.5: 0.6366197723675814;
}

unary! {
    /// The entropy of one outcome, `y = −x ln x`: 0 at 0, and −∞ below.
    real entr, entr_backward(x), Entr:
            y = |x| {
                let zero = x.lit(0.0);
                let outside = R::select(x.lt(zero), x.lit(f64::NEG_INFINITY), x.nan_or(zero));
                R::select(zero.lt(x), -(x * x.log()), outside)
            },
            dy = |g, x, limit| {
                let (zero, one) = (x.lit(0.0), x.lit(1.0));
                let slope = -(R::select(x.lt(zero), one, guard_above(x)).log() + one);
                defined(settle(g.times(slope), g, x.eq(zero), limit), g, x.lt(zero))
            };
            "y = −x ln x", "y′ = −ln x − 1",
            on "x >= 0" [0.1, 3.0] kinks [0.0];
            at 0.5: 0.34657359027997264;
            conventions: "y = 0 at 0, where the derivative uses 1e-10 for x, and stays finite; y = −∞ and the derivative is NaN below 0",
}
