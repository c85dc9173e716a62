//! Functions of one number: `y` and `y′`, and nothing else.
//!
//! Each block below is an operation. Its first line names the function, its backward function and
//! what that takes beside `grad_output` (the input `x` or the `output`); `y` is the formula and `dy`
//! the gradient, over any kind of real number.

use crate::ops::calculus::{exp2_slope, unit_leg_square};
use crate::ops::pointwise::{defined, guard, guard_above, settle};
use crate::ops::unary::*;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

/// What holds where a denominator is 0, and beyond.
macro_rules! at_poles {
    () => {
        "where the denominator is 0 the derivative uses ±1e-10, and stays finite; NaN where y is"
    };
}

/// `√(1 − x²)`.
#[inline(always)]
fn unit_leg<R: Real>(x: R) -> R {
    unit_leg_square(x).sqrt()
}

unary! {
    /// The exponential, `y = eˣ`.
    real exp, exp_backward(output), Exp:
            y = |x| x.exp(),
            dy = |g, y| g.times(y);
            "y = eˣ", "y′ = y",
            on "all numbers" [-2.0, 2.0];
            at 0.5: 1.6487212707001282;
}

unary! {
    /// The power of 2, `y = 2ˣ`, exact for whole numbers.
    real exp2, exp2_backward(x), Exp2:
            y = |x| x.exp2(),
            dy = |g, x| g.times(exp2_slope(x));
            "y = 2ˣ", "y′ = 2ˣ ln 2",
            on "all numbers" [-2.0, 2.0];
            at 0.5: 1.4142135623730951;
}

unary! {
    /// The exponential less one, `y = eˣ − 1`, exact near 0.
    real expm1, expm1_backward(x), Expm1:
            y = |x| x.expm1(),
            dy = |g, x| g.times(x.exp());
            "y = eˣ − 1", "y′ = eˣ",
            on "all numbers" [-1.0, 1.0];
            at 0.5: 0.6487212707001282;
}

unary! {
    /// The natural logarithm, `y = ln x`.
    real log, log_backward(x), Log:
            y = |x| x.log(),
            dy = |g, x, limit| {
                let slope = settle(g / guard(x), g, x.eq(x.lit(0.0)), limit);
                defined(slope, g, x.lt(x.lit(0.0)))
            };
            "y = ln x", "y′ = 1/x",
            on "x > 0" [0.2, 4.0] kinks [0.0];
            at 0.5: -0.6931471805599453;
            conventions: at_poles!(),
}

unary! {
    /// The natural logarithm of one more, `y = ln(1 + x)`, exact near 0.
    real log1p, log1p_backward(x), Log1p:
            y = |x| x.log1p(),
            dy = |g, x, limit| {
                let (zero, above) = (x.lit(0.0), x.lit(1.0) + x);
                let slope = settle(g / guard(above), g, above.eq(zero), limit);
                defined(slope, g, above.lt(zero))
            };
            "y = ln(1 + x)", "y′ = 1/(1 + x)",
            on "x > −1" [-0.5, 3.0] kinks [-1.0];
            at 0.5: 0.4054651081081644;
            conventions: at_poles!(),
}

unary! {
    /// The logarithm to base 2, `y = log₂ x`.
    real log2, log2_backward(x), Log2:
            y = |x| x.log2(),
            dy = |g, x, limit| {
                let slope = g / guard(x) / x.lit(LN_2);
                defined(settle(slope, g, x.eq(x.lit(0.0)), limit), g, x.lt(x.lit(0.0)))
            };
            "y = log₂ x", "y′ = 1/(x ln 2)",
            on "x > 0" [0.2, 4.0] kinks [0.0];
            at 0.3: -1.736965594166206;
            conventions: at_poles!(),
}

unary! {
    /// The logarithm to base 10, `y = log₁₀ x`.
    real log10, log10_backward(x), Log10:
            y = |x| x.log10(),
            dy = |g, x, limit| {
                let slope = g / x.lit(LN_10) / guard(x);
                defined(settle(slope, g, x.eq(x.lit(0.0)), limit), g, x.lt(x.lit(0.0)))
            };
            "y = log₁₀ x", "y′ = 1/(x ln 10)",
            on "x > 0" [0.2, 4.0] kinks [0.0];
            at 0.5: -0.3010299956639812;
            conventions: at_poles!(),
}

unary! {
    /// The square root, `y = √x`.
    real sqrt, sqrt_backward(output), Sqrt:
            y = |x| x.sqrt(),
            dy = |g, y, limit| settle(g / (y.lit(2.0) * guard_above(y)), g, y.eq(y.lit(0.0)), limit);
            "y = √x", "y′ = 1/(2y)",
            on "x >= 0" [0.2, 4.0] kinks [0.0];
            at 0.5: 0.7071067811865476;
            conventions: at_poles!(),
}

unary! {
    /// The cube root, `y = ∛x`, of negative numbers too.
    real cbrt, cbrt_backward(output), Cbrt:
            y = |x| x.cbrt(),
            dy = |g, y, limit| {
                let d = guard(y);
                settle(g / y.lit(3.0) / d / d, g, y.eq(y.lit(0.0)), limit)
            };
            "y = x^(1/3)", "y′ = 1/(3y²)",
            on "x ≠ 0" [-4.0, 4.0] kinks [0.0];
            at 0.5: 0.7937005259840998;
            conventions: at_poles!(),
}

unary! {
    /// The reciprocal square root, `y = 1/√x`.
    real rsqrt, rsqrt_backward(x), Rsqrt:
            y = |x| x.lit(1.0) / x.sqrt(),
            dy = |g, x, limit| {
                // −0 has a root, but its stand-in −1e-10 has none.
                let slope = g * x.lit(-0.5) / guard_above(x).sqrt() / guard(x);
                settle(slope, g, x.eq(x.lit(0.0)), limit)
            };
            "y = 1/√x", "y′ = −½ x^(−3/2)",
            on "x > 0" [0.2, 4.0] kinks [0.0];
            at 0.5: 1.414213562373095;
            conventions: at_poles!(),
}

unary! {
    /// The square, `y = x²`; whole numbers wrap around.
    number square, square_backward(x), Square:
            y = |x| x * x,
            dy = |g, x| g.times(x + x);
            "y = x²", "y′ = 2x",
            on "all numbers" [-3.0, 3.0];
            at 0.5: 0.25;
}

unary! {
    /// The reciprocal, `y = 1/x`.
    real reciprocal, reciprocal_backward(x), Reciprocal:
            y = |x| x.lit(1.0) / x,
            dy = |g, x, limit| {
                let d = guard(x);
                settle(-(g / d) / d, g, x.eq(x.lit(0.0)), limit)
            };
            "y = 1/x", "y′ = −1/x²",
            on "x ≠ 0" [-3.0, 3.0] kinks [0.0];
            at 0.5: 2.0;
            conventions: at_poles!(),
}

unary! {
    /// The absolute value, `y = |x|`.
    number abs, abs_backward(x), Abs:
            y = |x| x.abs(),
            dy = |g, x| g * x.sign();
            "y = |x|", "y′ = sign x",
            on "all numbers" [-7.0, 7.0] kinks [0.0];
            at -0.5: 0.5;
            conventions: "y′(0) = 0",
}

unary! {
    /// The sign: −1, 0 or 1; NaN for NaN.
    number sign, sign_backward(x), Sign:
            y = |x| x.sign(),
            dy = |g, x| x.nan_or(g.lit(0.0));
            "y = −1, 0 or 1 as x is below, at or above 0", "y′ = 0",
            on "all numbers" [-7.0, 7.0] kinks [0.0];
            at -0.5: -1.0;
            order: 1,
            conventions: "the derivative is 0 everywhere, at the steps too",
}

unary! {
    /// The sine, `y = sin x`, of radians.
    real sin, sin_backward(x), Sin:
            y = |x| x.sin(),
            dy = |g, x| g * x.cos();
            "y = sin x", "y′ = cos x",
            on "all numbers (radians)" [-6.0, 6.0];
            at 0.5: 0.479425538604203, trig true;
}

unary! {
    /// The cosine, `y = cos x`, of radians.
    real cos, cos_backward(x), Cos:
            y = |x| x.cos(),
            dy = |g, x| -(g * x.sin());
            "y = cos x", "y′ = −sin x",
            on "all numbers (radians)" [-6.0, 6.0];
            at 0.5: 0.8775825618903728, trig true;
}

unary! {
    /// The tangent, `y = tan x`, of radians.
    real tan, tan_backward(output), Tan:
            y = |x| x.tan(),
            dy = |g, y| g.times(y.mul_add(y, y.lit(1.0)));
            "y = tan x", "y′ = 1 + y²",
            on "all numbers but odd multiples of π/2" [-1.2, 1.2];
            at 0.5: 0.5463024898437905, trig true;
}

unary! {
    /// The inverse sine, `y = arcsin x`.
    real asin, asin_backward(x), Asin:
            y = |x| x.asin(),
            dy = |g, x, limit| {
                let leg = unit_leg(x);
                settle(g / guard(leg), g, leg.eq(leg.lit(0.0)), limit)
            };
            "y = arcsin x", "y′ = 1/√(1 − x²)",
            on "−1 <= x <= 1" [-0.9, 0.9] kinks [-1.0, 1.0];
            at 0.5: 0.5235987755982989;
            conventions: "at the ends of the domain the derivative uses a denominator of 1e-10, and stays finite; NaN beyond",
}

unary! {
    /// The inverse cosine, `y = arccos x`.
    real acos, acos_backward(x), Acos:
            y = |x| x.acos(),
            dy = |g, x, limit| {
                let leg = unit_leg(x);
                settle(-(g / guard(leg)), g, leg.eq(leg.lit(0.0)), limit)
            };
            "y = arccos x", "y′ = −1/√(1 − x²)",
            on "−1 <= x <= 1" [-0.9, 0.9] kinks [-1.0, 1.0];
            at 0.5: 1.0471975511965979;
            conventions: "at the ends of the domain the derivative uses a denominator of 1e-10, and stays finite; NaN beyond",
}

unary! {
    /// The inverse tangent, `y = arctan x`.
    real atan, atan_backward(x), Atan:
            y = |x| x.atan(),
            dy = |g, x| g / x.mul_add(x, x.lit(1.0));
            "y = arctan x", "y′ = 1/(1 + x²)",
            on "all numbers" [-3.0, 3.0];
            at 0.5: 0.4636476090008061;
}

unary! {
    /// The hyperbolic sine, `y = (eˣ − e⁻ˣ)/2`.
    real sinh, sinh_backward(x), Sinh:
            y = |x| x.sinh(),
            dy = |g, x| g.times(x.cosh());
            "y = sinh x", "y′ = cosh x",
            on "all numbers" [-2.0, 2.0];
            at 0.5: 0.5210953054937474;
}

unary! {
    /// The hyperbolic cosine, `y = (eˣ + e⁻ˣ)/2`.
    real cosh, cosh_backward(x), Cosh:
            y = |x| x.cosh(),
            dy = |g, x| g.times(x.sinh());
            "y = cosh x", "y′ = sinh x",
            on "all numbers" [-2.0, 2.0];
            at 0.5: 1.1276259652063807;
}

unary! {
    /// The inverse hyperbolic sine, `y = ln(x + √(x² + 1))`.
    real asinh, asinh_backward(x), Asinh:
            y = |x| x.asinh(),
            dy = |g, x| {
                // Where x² would swamp the 1, and might overflow, √(1 + x²) is |x|.
                let size = x.size();
                let root = x.mul_add(x, x.lit(1.0)).sqrt();
                g / R::select(size.lt(x.lit(1e9)), root, size)
            };
            "y = arsinh x", "y′ = 1/√(1 + x²)",
            on "all numbers" [-3.0, 3.0];
            at 0.5: 0.48121182505960347;
}

unary! {
    /// The inverse hyperbolic cosine, `y = ln(x + √(x² − 1))`.
    real acosh, acosh_backward(x), Acosh:
            y = |x| x.acosh(),
            dy = |g, x, limit| {
                let one = x.lit(1.0);
                let leg = (x - one).sqrt() * (x + one).sqrt();
                settle(g / guard(leg), g, leg.eq(x.lit(0.0)), limit)
            };
            "y = arcosh x", "y′ = 1/√(x² − 1)",
            on "x >= 1" [1.2, 4.0] kinks [1.0];
            at 1.5: 0.9624236501192069;
            conventions: "at the ends of the domain the derivative uses a denominator of 1e-10, and stays finite; NaN beyond",
}

unary! {
    /// The inverse hyperbolic tangent, `y = ½ ln((1 + x)/(1 − x))`.
    real atanh, atanh_backward(x), Atanh:
            y = |x| x.atanh(),
            dy = |g, x, limit| {
                let (zero, below) = (x.lit(0.0), unit_leg_square(x));
                let slope = settle(g / guard(below), g, below.eq(zero), limit);
                defined(slope, g, below.lt(zero))
            };
            "y = artanh x", "y′ = 1/(1 − x²)",
            on "−1 < x < 1" [-0.9, 0.9] kinks [-1.0, 1.0];
            at 0.5: 0.5493061443340549;
            conventions: "at the ends of the domain the derivative uses a denominator of 1e-10, and stays finite; NaN beyond",
}

unary! {
    /// The error function, `y = 2/√π ∫₀ˣ e^(−t²) dt`.
    real erf, erf_backward(x), Erf:
            y = |x| x.erf(),
            dy = |g, x| g * (x.lit(FRAC_2_SQRT_PI) * x.bell());
            "y = erf x", "y′ = 2/√π e^(−x²)",
            on "all numbers" [-2.5, 2.5];
            at 0.5: 0.5204998778130465;
}

unary! {
    /// The complementary error function, `y = 1 − erf x`, exact where that is tiny.
    real erfc, erfc_backward(x), Erfc:
            y = |x| x.erfc(),
            dy = |g, x| -(g * (x.lit(FRAC_2_SQRT_PI) * x.bell()));
            "y = 1 − erf x", "y′ = −2/√π e^(−x²)",
            on "all numbers" [-2.5, 2.5];
            at 0.5: 0.4795001221869535;
}

unary! {
    /// The integer at or above, `y = ⌈x⌉`.
    rounding ceil, ceil_backward(x), Ceil:
            y = |x| x.ceil(),
            dy = |g, x| x.nan_or(g.lit(0.0));
            "y = ⌈x⌉", "y′ = 0",
            on "all numbers" [-7.0, 7.0] kinks [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
            at 0.5: 1.0;
            order: 1,
            conventions: "the derivative is 0 everywhere, at the steps too",
}

unary! {
    /// The integer at or below, `y = ⌊x⌋`.
    rounding floor, floor_backward(x), Floor:
            y = |x| x.floor(),
            dy = |g, x| x.nan_or(g.lit(0.0));
            "y = ⌊x⌋", "y′ = 0",
            on "all numbers" [-7.0, 7.0] kinks [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
            at 0.5: 0.0;
            order: 1,
            conventions: "the derivative is 0 everywhere, at the steps too",
}

unary! {
    /// The integer part, towards 0.
    rounding trunc, trunc_backward(x), Trunc:
            y = |x| x.trunc(),
            dy = |g, x| x.nan_or(g.lit(0.0));
            "y = x without its fraction", "y′ = 0",
            on "all numbers" [-7.0, 7.0] kinks [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
            at 0.5: 0.0;
            order: 1,
            conventions: "the derivative is 0 everywhere, at the steps too",
}

unary! {
    /// The nearest integer, halves to the even one.
    rounding round, round_backward(x), Round:
            y = |x| x.round(),
            dy = |g, x| x.nan_or(g.lit(0.0));
            "y = the integer nearest to x, halves to even", "y′ = 0",
            on "all numbers" [-7.0, 7.0] kinks [-7.5, -6.5, -5.5, -4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5];
            at 0.5: 0.0;
            order: 1,
            conventions: "the derivative is 0 everywhere, at the steps too",
}
