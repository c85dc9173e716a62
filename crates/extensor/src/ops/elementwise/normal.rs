//! The normal distribution function, its logarithm, and the inverses of it and of the error function.

use crate::ops::calculus::normal_density;
use crate::ops::pointwise::{defined, settle};
use crate::ops::unary::*;

unary! {
    /// The inverse of the error function, `erf y = x`.
    real erfinv, erfinv_backward(x), Erfinv:
            y = |x| x.erfinv(),
            dy = |g, x, limit| {
                let (zero, one) = (x.lit(0.0), x.lit(1.0));
                let outside = one.lt(x.abs());
                let slope = g.times(R::select(outside, zero, x).erfinv_slope());
                defined(settle(slope, g, x.abs().eq(one), limit), g, outside)
            };
            "y = erf⁻¹ x", "y′ = ½√π e^(y²)",
            on "−1 < x < 1" [-0.9, 0.9] kinks [-1.0, 1.0];
            at 0.5: 0.4769362762044699;
            conventions: "at ±1 the derivative is that 10⁻¹⁰ away, and stays finite; NaN beyond",
}

unary! {
    /// The normal distribution function, `y = Φ(x) = ½ erfc(−x/√2)`, exact where that is tiny.
    real ndtr, ndtr_backward(x), Ndtr:
            y = |x| x.ndtr(),
            dy = |g, x| g * normal_density(x);
            "y = Φ(x)", "y′ = e^(−x²/2)/√(2π)",
            on "all numbers" [-3.0, 3.0];
            at 0.5: 0.6914624612740131;
}

unary! {
    /// The logarithm of the normal distribution function, `y = ln Φ(x)`, of which nothing is lost where `Φ` is tiny, or
    /// almost 1.
    real log_ndtr, log_ndtr_backward(x), LogNdtr:
            y = |x| x.log_ndtr(),
            dy = |g, x| g.times(x.log_ndtr_slope());
            "y = ln Φ(x)", "y′ = e^(−x²/2)/(√(2π) Φ(x))",
            on "all numbers" [-3.0, 3.0];
            also |s| {
                let x = crate::tensor([-30.0, -8.5, -7.5, -5.0, 4.0, 6.0]);
                s.add_noted([x], Params::new(), "far below 0, and above");
            };
            at -1.5: -2.7059444008238898;
}

unary! {
    /// The inverse of the normal distribution function, `Φ(y) = x`.
    real ndtri, ndtri_backward(x), Ndtri:
            y = |x| x.ndtri(),
            dy = |g, x, limit| {
                let (zero, one) = (x.lit(0.0), x.lit(1.0));
                let outside = x.lt(zero) | one.lt(x);
                let slope = g.times(R::select(outside, x.lit(0.5), x).ndtri_slope());
                defined(settle(slope, g, x.eq(zero) | x.eq(one), limit), g, outside)
            };
            "y = Φ⁻¹(x)", "y′ = √(2π) e^(y²/2)",
            on "0 < x < 1" [0.1, 0.9] kinks [0.0, 1.0];
            at 0.25: -0.6744897501960817;
            conventions: "at 0 and 1 the derivative is that 10⁻¹⁰ away, and stays finite; NaN beyond",
}
