//! Smooth steps, and what is made of them.
//!
//! Every formula here is right in both tails: it is made of numbers that vanish there, and never of
//! the difference between 1 and a number near it.

use crate::ops::unary::*;

/// Adds a sample far out in both tails.
pub(super) fn saturated(s: &mut Sampler) {
    let x = crate::tensor([-500.0, -80.0, -30.0, 30.0, 80.0, 500.0]);
    s.add_noted([x], Params::new(), "saturated");
    let x = crate::tensor([-1e4, 1e4, -750.0, 0.0]);
    s.add_far([x], Params::new(), "far out");
}

/// `x`, or a number so far below 0 that whatever vanishes there has vanished: a factor that is
/// finite at −∞.
#[inline(always)]
pub(super) fn not_below<R: Real>(x: R) -> R {
    x.maximum(x.lit(-2e3))
}

/// `σ` and `σ′` for the logistic function at `x`, from its smaller side.
#[inline(always)]
pub(super) fn step_and_slope<R: Real>(x: R) -> (R, R) {
    let one = x.lit(1.0);
    let less = (-x.size()).sigmoid();
    let more = one - less;
    (R::select(x.lt(x.lit(0.0)), less, more), less * more)
}

unary! {
    /// The logistic function, `y = 1/(1 + e⁻ˣ)`.
    real sigmoid, sigmoid_backward(output), Sigmoid of Activation:
            y = |x| x.sigmoid(),
            dy = |g, y| g * (y * (y.lit(1.0) - y));
            "y = 1/(1 + e⁻ˣ)", "y′ = y(1 − y)",
            on "all numbers" [-6.0, 6.0];
            also saturated;
            at 0.5: 0.6224593312018546;
}

unary! {
    /// The hyperbolic tangent, `y = (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ)`.
    real tanh, tanh_backward(output), Tanh of Activation:
            y = |x| x.tanh(),
            dy = |g, y| g * (-y).mul_add(y, y.lit(1.0));
            "y = tanh x", "y′ = 1 − y²",
            on "all numbers" [-3.0, 3.0];
            also saturated;
            at 0.5: 0.46211715726000974;
}

unary! {
    /// The logistic function of a number times itself, `y = x/(1 + e⁻ˣ)`; also called SiLU.
    real swish, swish_backward(x), Swish of Activation:
            y = |x| not_below(x) * x.sigmoid(),
            dy = |g, x| {
                let (step, slope) = step_and_slope(x);
                // Beyond, the slope has vanished, and is not to be multiplied by an infinity.
                g * not_below(x).minimum(x.lit(2e3)).mul_add(slope, step)
            };
            "y = x·σ(x), σ(x) = 1/(1 + e⁻ˣ)", "y′ = σ + x·σ(1 − σ)",
            on "all numbers" [-6.0, 6.0];
            also saturated;
            at 0.5: 0.3112296656009273;
}

/// The numerator and the denominator of `tanh(ln(1 + eˣ))` and of its slope: with `m = e^(−|x|)`
/// all of them are sums of positive numbers, at most 5.
#[inline(always)]
fn mish_parts<R: Real>(x: R) -> (R, R, R) {
    let (one, two) = (x.lit(1.0), x.lit(2.0));
    let m = (-x.size()).exp();
    let negative = x.lt(x.lit(0.0));
    // For eˣ = m: m(m + 2) over m(m + 2) + 2. For eˣ = 1/m: 1 + 2m over 1 + 2m + 2m².
    let above = R::select(negative, m * (m + two), two.mul_add(m, one));
    let below = above + R::select(negative, two, two * m * m);
    // 4eˣ(1 + eˣ) over the square of the denominator.
    let slope = x.lit(4.0) * m * R::select(negative, one, m) * (one + m);
    (above, below, slope)
}

unary! {
    /// A smooth linear unit, `y = x·tanh(ln(1 + eˣ))`.
    real mish, mish_backward(x), Mish of Activation:
            y = |x| {
                let (above, below, _) = mish_parts(x);
                not_below(x) * (above / below)
            },
            dy = |g, x| {
                let (above, below, slope) = mish_parts(x);
                let factor = not_below(x).minimum(x.lit(2e3));
                let value = (above + factor * (slope / below)) / below;
                // What is left of 1 far out is lost here, and is all there is of its derivative.
                g * value.like(|| {
                    let (one, two) = (x.softplus(), x.lit(2.0) * x.softplus());
                    let slope = x.lit(4.0) * two.sigmoid() * (-two).sigmoid() * x.sigmoid();
                    factor.mul_add(slope, one.tanh())
                })
            };
            "y = x·t, t = tanh(ln(1 + eˣ))", "y′ = t + x(1 − t²)/(1 + e⁻ˣ)",
            on "all numbers" [-6.0, 6.0];
            also saturated;
            at 0.5: 0.3752452113048951;
}

/// `factor·x`, and what it loses by rounding.
#[inline(always)]
fn product_and_lost<R: Real>(x: R, factor: f64) -> (R, R) {
    let factor = x.lit(factor);
    let z = factor * x;
    let lost = factor.mul_add(x, -z);
    (z, R::select(lost.is_finite(), lost, x.lit(0.0)))
}

unary! {
    /// A smooth linear unit. It is right to full precision everywhere, and needs no threshold above which it is `x`.
    real softplus (beta: f64 = 1.0, positive, "how sharply it bends"), softplus_backward(x), Softplus of Activation:
            y = |x| {
                if beta == 1.0 {
                    x.softplus()
                } else {
                    // The larger of x and 0, and what vanishes on both sides: the product may overflow.
                    let (zero, (z, lost)) = (x.lit(0.0), product_and_lost(x, beta));
                    let (less, lost) = (-z.abs(), R::select(x.lt(zero), lost, -lost));
                    let tail = lost.mul_add(less.sigmoid(), less.softplus());
                    x.maximum(zero) + tail / x.lit(beta)
                }
            },
            dy = |g, x| {
                if beta == 1.0 {
                    g * x.sigmoid()
                } else {
                    let (z, lost) = product_and_lost(x, beta);
                    let step = z.sigmoid();
                    let whole = (lost * step).mul_add((-z).sigmoid(), step);
                    g * whole.like(|| (x.lit(beta) * x).sigmoid())
                }
            };
            "y = ln(1 + e^(beta·x))/beta", "y′ = 1/(1 + e^(−beta·x))",
            on "all numbers" [-6.0, 6.0];
            with {beta: 1.0} {beta: 2.0} {beta: 0.375};
            also saturated;
            at 0.5 (1.0): 0.9740769841801067;
}

unary! {
    /// The logarithm of the logistic function, `y = −ln(1 + e⁻ˣ)`.
    real log_sigmoid, log_sigmoid_backward(x), LogSigmoid of Activation:
            y = |x| -(-x).softplus(),
            dy = |g, x| g * (-x).sigmoid();
            "y = −ln(1 + e⁻ˣ)", "y′ = 1/(1 + eˣ)",
            on "all numbers" [-6.0, 6.0];
            also saturated;
            at 0.5: -0.4740769841801067;
}

unary! {
    /// A step that is slow to saturate, `y = x/(1 + |x|)`.
    real softsign, softsign_backward(x), Softsign of Activation:
            y = |x| {
                let (one, size) = (x.lit(1.0), x.abs());
                // Not ∞/∞.
                let infinite = size.eq(x.lit(f64::INFINITY));
                R::select(infinite, one.copysign(x), x / (one + size))
            },
            dy = |g, x| {
                let below = x.lit(1.0) + x.abs();
                g / below / below
            };
            "y = x/(1 + |x|)", "y′ = 1/(1 + |x|)²",
            on "all numbers" [-7.0, 7.0] kinks [0.0];
            also saturated;
            at 0.5: 0.3333333333333333;
}
