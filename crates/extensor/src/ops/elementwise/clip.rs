//! Holding numbers between bounds.

use crate::ops::unary::*;

unary! {
    /// Numbers held between two bounds, either of which may be left out (`None`).
    number clip
            (min: Option<f64> = None, number, "the lower bound")
            (max: Option<f64> = None, not_below min, "the upper bound"),
            clip_backward(x), Clip:
            y = |x| {
                let x = min.map_or(x, |min| x.maximum(x.lit(min)));
                max.map_or(x, |max| x.minimum(x.lit(max)))
            },
            dy = |g, x| {
                let above = min.map_or(x.eq(x), |min| x.lit(min).le(x));
                let within = max.map_or(above, |max| above & x.le(x.lit(max)));
                x.nan_or(R::select(within, g, x.lit(0.0)))
            };
            "y = min(max(x, min), max)", "y′ = 1 for min <= x <= max, 0 elsewhere",
            on "all numbers" [-4.0, 4.0] kinks [min.unwrap_or(f64::NAN), max.unwrap_or(f64::NAN)];
            with {min: Some(-1.5), max: Some(2.0)} {min: Some(0.5), max: None} {min: None, max: Some(0.5)};
            also |s| {
                let (x, params) = (crate::tensor([-1.0, 1.0, -2.0, 2.0, 0.0]), Params::new());
                s.add_noted([x], params.with("min", -1.0).with("max", 1.0), "at the bounds");
            };
            at -2.0 (-1.0, None): -1.0;
            conventions: "the gradient is 1 at the bounds; NaN stays NaN",
}
