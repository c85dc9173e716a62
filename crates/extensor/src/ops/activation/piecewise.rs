//! Sigmoids made of straight lines.

use crate::ops::unary::*;

/// `within` for numbers strictly between the bounds, `outside` for others, NaN for none.
#[inline(always)]
fn between<R: Real>(x: R, low: f64, high: f64, within: R, outside: R) -> R {
    let inside = x.lit(low).lt(x) & x.lt(x.lit(high));
    x.nan_or(R::select(inside, within, outside))
}

/// Adds a sample at the kinks at ±3.
fn at_three(s: &mut Sampler) {
    s.add_noted([crate::tensor([-3.0, 3.0, 0.0])], Params::new(), "at the kinks");
}

unary! {
    /// A sigmoid of three lines, `y = min(max(x + 3, 0), 6)/6`.
    real hard_sigmoid, hard_sigmoid_backward(x), HardSigmoid of Activation:
            y = |x| {
                let six = x.lit(6.0);
                (x + x.lit(3.0)).maximum(x.lit(0.0)).minimum(six) / six
            },
            dy = |g, x| between(x, -3.0, 3.0, g / g.lit(6.0), g.lit(0.0));
            "y = min(max(x + 3, 0), 6)/6", "y′ = 1/6 for −3 < x < 3, 0 elsewhere",
            on "all numbers" [-7.0, 7.0] kinks [-3.0, 3.0];
            also at_three;
            at 1.5: 0.75;
            conventions: "y′(±3) = 0",
}

unary! {
    /// The [`hard_sigmoid`] of a number times itself, `y = x·min(max(x + 3, 0), 6)/6`.
    real hard_swish, hard_swish_backward(x), HardSwish of Activation:
            y = |x| {
                let six = x.lit(6.0);
                let share = (x + x.lit(3.0)).maximum(x.lit(0.0)).minimum(six) / six;
                // Not 0·∞ at −∞.
                R::select(x.le(x.lit(-3.0)), x.lit(0.0), x * share)
            },
            dy = |g, x| {
                let slope = (x + x + x.lit(3.0)) / x.lit(6.0);
                let outside = R::select(x.lit(0.0).lt(x), g, g.lit(0.0));
                between(x, -3.0, 3.0, g * slope, outside)
            };
            "y = x·min(max(x + 3, 0), 6)/6", "y′ = (2x + 3)/6 for −3 < x < 3, 0 below, 1 above",
            on "all numbers" [-7.0, 7.0] kinks [-3.0, 3.0];
            also at_three;
            at 1.5: 1.125;
            conventions: "y′(−3) = 0, y′(3) = 1",
}

unary! {
    /// A line between two flat ends. It differs from [`clip`](crate::ops::clip()) in its gradient at
    /// the bounds, which is 0 here.
    real hard_tanh
            (min: f64 = -1.0, number, "the value of the lower end")
            (max: f64 = 1.0, not_below min, "the value of the upper end"),
            hard_tanh_backward(x), HardTanh of Activation:
            y = |x| x.maximum(x.lit(min)).minimum(x.lit(max)),
            dy = |g, x| between(x, min, max, g, g.lit(0.0));
            "y = min(max(x, min), max)", "y′ = 1 for min < x < max, 0 elsewhere",
            on "all numbers" [-4.0, 4.0] kinks [min, max];
            with {min: -1.0, max: 2.0};
            also |s| s.add_noted([crate::tensor([-1.0, 1.0, 0.0])], Params::new(), "at the bounds");
            at 3.0 (-1.0, 1.0): 1.0;
            conventions: "y′ = 0 at the bounds; NaN stays NaN",
}
