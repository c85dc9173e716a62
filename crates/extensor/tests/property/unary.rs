//! The reference for functions of one number.

use crate::pointwise::{EXACT, Pointwise, STEP, UNARY, guard, sign, times};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

const POSITIVE: [[f64; 2]; 2] = [[0.01, 4.0]; 2];

/// The reference for a function of this name.
pub fn find(name: &str) -> Option<Pointwise> {
    Some(match name {
        "exp" => Pointwise {
            float: |x| x[0].exp(),
            gradient: Some(|g, _, y, _, _| times(g, y)),
            slack: |_| 0.0,
            ..UNARY
        },
        "exp2" => Pointwise {
            float: |x| x[0].exp2(),
            gradient: Some(|g, x, _, _, _| times(g, x[0].exp2() * LN_2)),
            // It may be infinite where its derivative is not, just.
            swell: |g, x| if x[0] > 1e3 { f64::INFINITY } else { 1.0 + g.abs() },
            ..UNARY
        },
        "cbrt" => Pointwise {
            float: |x| x[0].cbrt(),
            gradient: Some(|g, _, y, _, c| c.settled(g / 3.0 / guard(y) / guard(y), y == 0.0)),
            swell: |g, _| 1.0 + g.abs(),
            ..UNARY
        },
        "expm1" => Pointwise {
            float: |x| x[0].exp_m1(),
            gradient: Some(|g, x, _, _, c| times(g, c.held(x[0].exp()))),
            ..UNARY
        },
        "log" => Pointwise {
            float: |x| x[0].ln(),
            gradient: Some(|g, x, _, _, c| c.settled(defined(x[0], g / guard(x[0])), x[0] == 0.0)),
            ranges: POSITIVE,
            ..UNARY
        },
        "log1p" => Pointwise {
            float: |x| x[0].ln_1p(),
            gradient: Some(|g, x, _, _, c| {
                c.settled(defined(1.0 + x[0], g / guard(c.held(1.0 + x[0]))), x[0] == -1.0)
            }),
            ranges: [[-0.99, 4.0]; 2],
            ..UNARY
        },
        "log2" => Pointwise {
            float: |x| x[0].log2(),
            gradient: Some(|g, x, _, _, c| {
                c.settled(defined(x[0], g / guard(x[0]) / LN_2), x[0] == 0.0)
            }),
            ranges: POSITIVE,
            ..UNARY
        },
        "log10" => Pointwise {
            float: |x| x[0].log10(),
            gradient: Some(|g, x, _, _, c| {
                c.settled(defined(x[0], g / guard(x[0]) / LN_10), x[0] == 0.0)
            }),
            ranges: POSITIVE,
            ..UNARY
        },
        "sqrt" => Pointwise {
            float: |x| x[0].sqrt(),
            ulps: 0.0,
            gradient: Some(|g, _, y, _, c| c.settled(g / (2.0 * guard(y.abs())), y == 0.0)),
            ranges: POSITIVE,
            ..UNARY
        },
        "rsqrt" => Pointwise {
            float: |x| 1.0 / x[0].sqrt(),
            gradient: Some(|g, x, _, _, c| {
                let d = guard(x[0]);
                if x[0] < 0.0 {
                    return f64::NAN;
                }
                c.settled(g * -0.5 / d.abs().sqrt() / d, x[0] == 0.0)
            }),
            ranges: POSITIVE,
            ..UNARY
        },
        "square" => Pointwise {
            float: |x| x[0] * x[0],
            integer: Some(|x| x[0].wrapping_mul(x[0])),
            gradient: Some(|g, x, _, _, c| times(g, c.held(2.0 * x[0]))),
            ..EXACT
        },
        "reciprocal" => Pointwise {
            float: |x| 1.0 / x[0],
            ulps: 0.0,
            gradient: Some(|g, x, _, _, c| {
                c.settled(-(g / guard(x[0])) / guard(x[0]), x[0] == 0.0)
            }),
            swell: |_, x| 1.0 + 1.0 / guard(x[0]).abs(),
            ..UNARY
        },
        "abs" => Pointwise {
            float: |x| x[0].abs(),
            integer: Some(|x| x[0].abs()),
            gradient: Some(|g, x, _, _, _| g * sign(x[0])),
            ..EXACT
        },
        "sign" => Pointwise { float: |x| sign(x[0]), integer: Some(|x| x[0].signum()), ..STEP },
        "ceil" => Pointwise { float: |x| x[0].ceil(), ..STEP },
        "floor" => Pointwise { float: |x| x[0].floor(), ..STEP },
        "trunc" => Pointwise { float: |x| x[0].trunc(), ..STEP },
        "round" => Pointwise { float: |x| x[0].round_ties_even(), ..STEP },
        "sin" => Pointwise {
            float: |x| x[0].sin(),
            gradient: Some(|g, x, _, _, _| g * x[0].cos()),
            ..UNARY
        },
        "cos" => Pointwise {
            float: |x| x[0].cos(),
            gradient: Some(|g, x, _, _, _| -g * x[0].sin()),
            ..UNARY
        },
        "tan" => Pointwise {
            float: |x| x[0].tan(),
            gradient: Some(|g, _, y, _, c| times(g, c.held(1.0 + y * y))),
            ..UNARY
        },
        "asin" => Pointwise {
            float: |x| x[0].asin(),
            gradient: Some(|g, x, _, _, c| c.settled(g / guard(leg(x[0])), x[0].abs() == 1.0)),
            ranges: [[-1.0, 1.0]; 2],
            ..UNARY
        },
        "acos" => Pointwise {
            float: |x| x[0].acos(),
            gradient: Some(|g, x, _, _, c| c.settled(-g / guard(leg(x[0])), x[0].abs() == 1.0)),
            ranges: [[-1.0, 1.0]; 2],
            ..UNARY
        },
        "atan" => Pointwise {
            float: |x| x[0].atan(),
            gradient: Some(|g, x, _, _, c| g / c.held(1.0 + x[0] * x[0])),
            ..UNARY
        },
        "sinh" => Pointwise {
            float: |x| x[0].sinh(),
            gradient: Some(|g, x, _, _, c| times(g, c.held(x[0].cosh()))),
            ..UNARY
        },
        "cosh" => Pointwise {
            float: |x| x[0].cosh(),
            gradient: Some(|g, x, _, _, c| times(g, c.held(x[0].sinh()))),
            ..UNARY
        },
        "asinh" => Pointwise {
            float: |x| libm::asinh(x[0]),
            gradient: Some(|g, x, _, _, _| g / 1f64.hypot(x[0])),
            ..UNARY
        },
        "acosh" => Pointwise {
            float: |x| acosh(x[0]),
            gradient: Some(|g, x, _, _, c| {
                let below = guard((x[0] - 1.0).sqrt() * (x[0] + 1.0).sqrt());
                c.settled(g / below, x[0] == 1.0)
            }),
            ranges: [[1.0, 4.0]; 2],
            ..UNARY
        },
        "atanh" => Pointwise {
            float: |x| (0.5 * (2.0 * x[0].abs() / (1.0 - x[0].abs())).ln_1p()).copysign(x[0]),
            ulps: 6.0,
            gradient: Some(|g, x, _, _, c| {
                let below = (1.0 - x[0]) * (1.0 + x[0]);
                c.settled(defined(below, g / guard(below)), below == 0.0)
            }),
            ranges: [[-1.0, 1.0]; 2],
            ..UNARY
        },
        "erf" => Pointwise {
            float: |x| libm::erf(x[0]),
            gradient: Some(|g, x, _, _, _| g * FRAC_2_SQRT_PI * (-x[0] * x[0]).exp()),
            slack: |x| 12.0 + x[0] * x[0],
            ..UNARY
        },
        "erfc" => Pointwise {
            float: |x| libm::erfc(x[0]),
            gradient: Some(|g, x, _, _, _| -g * FRAC_2_SQRT_PI * (-x[0] * x[0]).exp()),
            slack: |x| 12.0 + x[0] * x[0],
            ..UNARY
        },
        "isnan" => Pointwise {
            mask: true,
            float: |x| f64::from(x[0].is_nan()),
            integer: Some(|_| 0),
            ..EXACT
        },
        "isinf" => Pointwise {
            mask: true,
            float: |x| f64::from(x[0].is_infinite()),
            integer: Some(|_| 0),
            ..EXACT
        },
        "isfinite" => Pointwise {
            mask: true,
            float: |x| f64::from(x[0].is_finite()),
            integer: Some(|_| 1),
            ..EXACT
        },
        _ => return None,
    })
}

/// `√(1 − x²)`.
fn leg(x: f64) -> f64 {
    ((1.0 - x) * (1.0 + x)).sqrt()
}

/// `ln(x + √(x² − 1))`, exact near 1.
fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    if x < 1.0 {
        return f64::NAN;
    }
    if x < 1e8 { (t + (t * (t + 2.0)).sqrt()).ln_1p() } else { x.ln() + LN_2 }
}

/// A gradient that is NaN where the function is.
fn defined(x: f64, gradient: f64) -> f64 {
    if x < 0.0 && gradient != 0.0 { f64::NAN } else { gradient }
}
