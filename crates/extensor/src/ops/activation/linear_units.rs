//! Linear units: the identity above 0, and something smaller below.

use crate::ops::unary::*;

/// `scale` of [`selu`].
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
/// `alpha` of [`selu`].
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;

/// `above` where `x` is above 0, `below` where it is not, NaN where it is NaN.
#[inline(always)]
fn rectified<R: Real>(x: R, above: R, below: R) -> R {
    x.nan_or(R::select(x.lit(0.0).lt(x), above, below))
}

/// Adds a sample at the kink.
fn at_zero(s: &mut Sampler) {
    s.add_noted([crate::tensor([-1.0, 0.0, 1.0, -0.0])], Params::new(), "at the kink");
}

unary! {
    /// The rectified linear unit, `y = max(0, x)`; for whole numbers too.
    number relu, relu_backward(x), Relu of Activation:
            y = |x| x.maximum(x.lit(0.0)),
            dy = |g, x| rectified(x, g, g.lit(0.0));
            "y = max(0, x)", "y′ = 1 for x > 0, 0 elsewhere",
            on "all numbers" [-7.0, 7.0] kinks [0.0];
            also at_zero;
            at -0.5: 0.0;
            conventions: "y′(0) = 0; NaN stays NaN",
}

unary! {
    /// The rectified linear unit up to 6, `y = min(max(0, x), 6)`.
    real relu6, relu6_backward(x), Relu6 of Activation:
            y = |x| x.maximum(x.lit(0.0)).minimum(x.lit(6.0)),
            dy = |g, x| {
                let below = R::select(x.lt(x.lit(6.0)), g, g.lit(0.0));
                rectified(x, below, g.lit(0.0))
            };
            "y = min(max(0, x), 6)", "y′ = 1 for 0 < x < 6, 0 elsewhere",
            on "all numbers" [-7.0, 12.0] kinks [0.0, 6.0];
            also |s| s.add_noted([crate::tensor([0.0, 6.0, -0.0, 3.0])], Params::new(), "at the kinks");
            at 6.5: 6.0;
            conventions: "y′(0) = y′(6) = 0; NaN stays NaN",
}

unary! {
    /// The scaled exponential linear unit, `y = λx` above 0 and `λα(eˣ − 1)` below, with
    /// λ = 1.0507009873554805 and α = 1.6732632423543772.
    real selu, selu_backward(x), Selu of Activation:
            y = |x| {
                let below = x.lit(SELU_SCALE * SELU_ALPHA) * x.expm1();
                rectified(x, x.lit(SELU_SCALE) * x, below)
            },
            dy = |g, x| {
                let below = x.lit(SELU_SCALE * SELU_ALPHA) * x.exp();
                g * rectified(x, x.lit(SELU_SCALE), below)
            };
            "y = λx for x > 0, λα(eˣ − 1) elsewhere", "y′ = λ for x > 0, λαeˣ elsewhere",
            on "all numbers" [-7.0, 7.0] kinks [0.0];
            also at_zero;
            at 0.5: 0.5253504936777403;
            conventions: "λ = 1.0507009873554805, α = 1.6732632423543772; y′(0) is that of the left side, λα",
}

/// `alpha·v`, which is nothing for `alpha = 0` and an infinite `v` too.
#[inline(always)]
fn times<R: Real>(alpha: f64, v: R) -> R {
    let none = v.nan_or(v.lit(0.0));
    R::select(v.lit(alpha).eq(v.lit(0.0)), none, v * v.lit(alpha))
}

/// Adds a sample at the kink, with another slope below than above.
fn bent(s: &mut Sampler) {
    let x = crate::tensor([-1.0, 0.0, 1.0, -0.0]);
    s.add_noted([x], Params::new().with("alpha", 0.25), "at the kink");
}

unary! {
    /// A rectified linear unit that lets some of what is below 0 through.
    real leaky_relu (alpha: f64 = 0.01, finite, "the slope below 0"), leaky_relu_backward(x), LeakyRelu of Activation:
            y = |x| rectified(x, x, times(alpha, x)),
            dy = |g, x| rectified(x, g, times(alpha, g));
            "y = x for x > 0, alpha·x elsewhere", "y′ = 1 for x > 0, alpha elsewhere",
            on "all numbers" [-4.0, 4.0] kinks [0.0], unless alpha == 1.0;
            with {alpha: 0.2} {alpha: 0.0} {alpha: -0.5};
            also bent;
            at -2.0 (0.5): -1.0;
            conventions: "y′(0) = alpha",
}

// For alpha = 1 the slopes agree at 0, and the second derivatives do not.
unary! {
    /// The exponential linear unit.
    real elu (alpha: f64 = 1.0, finite, "how far below 0 it goes"), elu_backward(x), Elu of Activation:
            y = |x| rectified(x, x, x.lit(alpha) * x.expm1()),
            dy = |g, x| rectified(x, g, g * (x.lit(alpha) * x.exp()));
            "y = x for x > 0, alpha·(eˣ − 1) elsewhere", "y′ = 1 for x > 0, alpha·eˣ elsewhere",
            on "all numbers" [-4.0, 4.0] kinks [0.0];
            with {alpha: 1.3} {alpha: 0.0} {alpha: -0.5};
            also bent;
            at -1e4 (2.0): -2.0;
            conventions: "y′(0) = alpha",
}

/// `e^(x/alpha)`, with what the quotient loses by rounding.
#[inline(always)]
fn scaled_exp<R: Real>(x: R, alpha: R) -> R {
    let z = x / alpha;
    let lost = (-z).mul_add(alpha, x) / alpha;
    let lost = R::select(lost.is_finite(), lost, x.lit(0.0));
    let e = z.exp();
    lost.mul_add(e, e).like(|| (x / alpha).exp())
}

// Its slopes agree at 0, whatever alpha is, and its second derivatives do not.
unary! {
    /// The exponential linear unit whose slope has no step: the scale of the exponential is that of its
    /// argument too.
    real celu (alpha: f64 = 1.0, positive, "how far below 0 it goes"), celu_backward(x), Celu of Activation:
            y = |x| {
                let alpha = x.lit(alpha);
                rectified(x, x, alpha * (x / alpha).expm1())
            },
            dy = |g, x| rectified(x, g, g * scaled_exp(x, x.lit(alpha)));
            "y = x for x > 0, alpha·(e^(x/alpha) − 1) elsewhere", "y′ = 1 for x > 0, e^(x/alpha) elsewhere",
            on "all numbers" [-4.0, 4.0] kinks [0.0];
            with {alpha: 1.5} {alpha: 0.375};
            also bent;
            at -1e4 (2.0): -2.0;
            conventions: "y″(0) = 1/alpha, that of the left side",
}
