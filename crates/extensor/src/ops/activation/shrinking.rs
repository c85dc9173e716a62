//! What is small becomes nothing: shrinkage, and thresholds.

use crate::ops::unary::*;

/// `within` for numbers no larger than `bound`, `beyond` for others, NaN for none. A bound of 0 bounds
/// nothing: the function is the identity then, at 0 too.
#[inline(always)]
fn shrunk<R: Real>(x: R, bound: f64, within: R, beyond: R) -> R {
    let bound = x.lit(bound);
    let small = x.abs().le(bound) & !bound.eq(x.lit(0.0));
    x.nan_or(R::select(small, within, beyond))
}

/// Adds a sample at the default bounds.
fn at_half(s: &mut Sampler) {
    s.add_noted([crate::tensor([-0.5, 0.5, 0.0, -0.0, 2.0])], Params::new(), "at the bounds");
    let x = crate::tensor([-1.0, 0.0, -0.0, 2.0]);
    s.add_noted([x], Params::new().with("lambd", 0.0), "the identity");
}

unary! {
    /// Numbers as they are, but for small ones, which become 0.
    real hardshrink (lambd: f64 = 0.5, not_negative, "up to which size numbers are small"), hardshrink_backward(x), Hardshrink of Activation:
            y = |x| shrunk(x, lambd, x.lit(0.0), x),
            dy = |g, x| shrunk(x, lambd, g.lit(0.0), g);
            "y = x for |x| > lambd, 0 elsewhere", "y′ = 1 for |x| > lambd, 0 elsewhere",
            on "all numbers" [-3.0, 3.0] kinks [-lambd, lambd], unless lambd == 0.0;
            with {lambd: 0.75} {lambd: 0.0};
            also at_half;
            at -2.0 (0.5): -2.0;
            conventions: "y = y′ = 0 at ±lambd; for lambd = 0 it is the identity; NaN stays NaN",
}

unary! {
    /// Numbers brought nearer to 0 by `lambd`, and no further.
    real softshrink (lambd: f64 = 0.5, not_negative, "how much nearer to 0"), softshrink_backward(x), Softshrink of Activation:
            y = |x| shrunk(x, lambd, x.lit(0.0), x - x.lit(lambd).copysign(x)),
            dy = |g, x| shrunk(x, lambd, g.lit(0.0), g);
            "y = x − lambd for x > lambd, x + lambd for x < −lambd, 0 elsewhere", "y′ = 1 for |x| > lambd, 0 elsewhere",
            on "all numbers" [-3.0, 3.0] kinks [-lambd, lambd], unless lambd == 0.0;
            with {lambd: 0.75} {lambd: 0.0};
            also at_half;
            at -2.0 (0.5): -1.5;
            conventions: "y′ = 0 at ±lambd; for lambd = 0 it is the identity; NaN stays NaN",
}

/// Numerator and denominator of `(x − tanh x)/x³` as polynomials of `x²`, from the constant up: what ten
/// levels of the continued fraction `tanh x = x/(1 + x²/(3 + x²/(5 + …)))` leave. All coefficients
/// are positive, so that nothing cancels; up to 1.5 they are exact to 1e-18.
const ABOVE: [f64; 5] = [
    1.0 / 3.0,
    0.025396825396825397,
    0.0005012531328320802,
    3.1201564446441344e-6,
    4.727509764612325e-9,
];
const BELOW: [f64; 6] = [
    1.0,
    0.47619047619047616,
    0.03007518796992481,
    0.0005503955968352253,
    3.2761642668763414e-6,
    4.800240684067899e-9,
];

/// A polynomial with these coefficients, the constant first.
#[inline(always)]
fn polynomial<R: Real, const N: usize>(t: R, coefficients: [f64; N]) -> R {
    let mut value = t.lit(coefficients[N - 1]);
    let mut k = N - 1;
    while k > 0 {
        k -= 1;
        value = value.mul_add(t, t.lit(coefficients[k]));
    }
    value
}

unary! {
    /// What the hyperbolic tangent takes from a number. It is right to full precision where it is the
    /// small difference of two numbers that are alike, too.
    real tanhshrink, tanhshrink_backward(x), Tanhshrink of Activation:
            y = |x| {
                let t = x * x;
                let near = x * t * (polynomial(t, ABOVE) / polynomial(t, BELOW));
                R::select(x.abs().le(x.lit(1.5)), near, x - x.tanh())
            },
            dy = |g, x| {
                let t = x.tanh();
                g * (t * t)
            };
            "y = x − tanh x", "y′ = tanh² x",
            on "all numbers" [-3.0, 3.0];
            also |s| {
                super::sigmoids::saturated(s);
                let x = crate::tensor([1.5, -1.5, 1.4999, 1.5001, 0.0, 1e-3]);
                s.add_noted([x], Params::new(), "where the formula changes");
            };
            at 0.5: 0.03788284273999028;
}

unary! {
    /// Numbers as they are above a threshold, and `value` for all others; for whole numbers too.
    number threshold
            (threshold: f64 = 0.0, number, "what numbers must be above")
            (value: f64 = 0.0, number, "what stands for those that are not"),
            threshold_backward(x), Threshold of Activation:
            y = |x| R::select(x.le(x.lit(threshold)), x.lit(value), x),
            dy = |g, x| x.nan_or(R::select(x.le(x.lit(threshold)), g.lit(0.0), g));
            "y = x for x > threshold, value elsewhere", "y′ = 1 for x > threshold, 0 elsewhere",
            on "all numbers" [-3.0, 3.0] kinks [threshold];
            with {threshold: 0.75, value: -2.0} {threshold: -1.0, value: 20.0};
            also |s| s.add_noted([crate::tensor([-1.0, 0.0, -0.0, 1.0])], Params::new(), "at the threshold");
            at -2.0 (0.5, 20.0): 20.0;
            conventions: "y′ = 0 at the threshold; NaN stays NaN",
}
