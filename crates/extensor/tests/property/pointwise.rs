//! The reference for operations that work element by element: formulas in `f64`, from the textbook.

use crate::array::{round_to, working};
use extensor::DType;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

/// What an operation takes.
#[derive(Clone, Copy, PartialEq)]
pub enum Takes {
    Floats,
    Numbers,
    Masks,
    Anything,
}

/// What a gradient formula may ask beside its numbers.
#[derive(Clone, Copy)]
pub struct Context {
    /// The dtype of the gradient that comes in.
    pub dtype: DType,
    /// The largest finite value of the gradient that goes out.
    pub limit: f64,
}

impl Context {
    /// `slope` as the working precision holds it.
    fn held(self, slope: f64) -> f64 {
        round_to(slope, working(self.dtype))
    }

    /// A factor of a gradient, held in the working precision's range.
    fn within(self, factor: f64) -> f64 {
        let most = working(self.dtype).max_finite();
        factor.clamp(-most, most)
    }

    /// Finite inputs give finite gradients where the derivative is singular.
    fn saturated(self, gradient: f64) -> f64 {
        gradient.clamp(-self.limit, self.limit)
    }
}

type Gradient = fn(f64, &[f64], f64, usize, Context) -> f64;

/// An elementwise operation.
pub struct Pointwise {
    pub arity: usize,
    pub takes: Takes,
    /// Whether the result is a mask.
    pub mask: bool,
    pub float: fn(&[f64]) -> f64,
    /// How many units in the last place the working precision may be off; 0: correctly rounded.
    pub ulps: f64,
    pub integer: Option<fn(&[i128]) -> i128>,
    /// The gradient for input `which` from (grad_output, inputs, output, which).
    pub gradient: Option<Gradient>,
    /// How many roundings' worth of relative error the gradient may have in the working precision.
    pub slack: fn(&[f64]) -> f64,
    /// How much an error below the smallest normal number may be magnified in the gradient.
    pub swell: fn(f64, &[f64]) -> f64,
    /// Where most values are drawn from, for each input.
    pub ranges: [[f64; 2]; 2],
}

fn guard(x: f64) -> f64 {
    if x.abs() < 1e-10 {
        1e-10f64.copysign(x)
    } else {
        x
    }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        // Zero of either sign gives zero; NaN stays.
        x.abs()
    }
}

/// 0, unless an input is NaN.
fn flat(inputs: &[f64]) -> f64 {
    if inputs.iter().any(|x| x.is_nan()) {
        f64::NAN
    } else {
        0.0
    }
}

fn modulo(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r == 0.0 {
        0f64.copysign(b)
    } else if (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
}

fn floor_divide(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let r = a % b;
    let below = r != 0.0 && (r < 0.0) != (b < 0.0);
    let quotient = ((a - r) / b).round() - f64::from(u8::from(below));
    if quotient == 0.0 {
        0f64.copysign(a / b)
    } else {
        quotient
    }
}

fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

/// `g` for the side that won, half of it on a tie.
fn share(g: f64, own: f64, other: f64, wins: bool) -> f64 {
    match () {
        _ if own.is_nan() || other.is_nan() => f64::NAN,
        _ if own == other => g / 2.0,
        _ if wins => g,
        _ => 0.0,
    }
}

fn integer_power(base: i128, exponent: i128) -> i128 {
    // The result wraps at 64 bits at most: powers modulo 2¹²⁸ are enough.
    (0..128).rev().fold(1i128, |power, bit| {
        let power = power.wrapping_mul(power);
        if exponent >> bit & 1 == 1 {
            power.wrapping_mul(base)
        } else {
            power
        }
    })
}

const PLAIN: [[f64; 2]; 2] = [[-4.0, 4.0]; 2];
const POSITIVE: [[f64; 2]; 2] = [[0.01, 4.0]; 2];

const UNARY: Pointwise = Pointwise {
    arity: 1,
    takes: Takes::Floats,
    mask: false,
    float: |x| x[0],
    ulps: 4.0,
    integer: None,
    gradient: None,
    slack: |_| 10.0,
    swell: |g, _| 1.0 + g.abs(),
    ranges: PLAIN,
};

/// Correctly rounded, for whole numbers too.
const EXACT: Pointwise = Pointwise {
    takes: Takes::Numbers,
    ulps: 0.0,
    slack: |_| 0.0,
    ..UNARY
};
const BINARY: Pointwise = Pointwise { arity: 2, ..EXACT };
const STEP: Pointwise = Pointwise {
    integer: Some(|x| x[0]),
    gradient: Some(|_, x, _, _, _| flat(x)),
    ..EXACT
};
const COMPARISON: Pointwise = Pointwise {
    takes: Takes::Anything,
    mask: true,
    ..BINARY
};
const LOGIC: Pointwise = Pointwise {
    takes: Takes::Masks,
    mask: true,
    ..BINARY
};

/// The reference for an operation, if it is an elementwise one.
pub fn find(name: &str) -> Option<Pointwise> {
    Some(match name {
        "add" => Pointwise {
            float: |x| x[0] + x[1],
            integer: Some(|x| x[0] + x[1]),
            gradient: Some(|g, _, _, _, _| g),
            ..BINARY
        },
        "subtract" => Pointwise {
            float: |x| x[0] - x[1],
            integer: Some(|x| x[0] - x[1]),
            gradient: Some(|g, _, _, which, _| if which == 0 { g } else { -g }),
            ..BINARY
        },
        "multiply" => Pointwise {
            float: |x| x[0] * x[1],
            integer: Some(|x| x[0].wrapping_mul(x[1])),
            gradient: Some(|g, x, _, which, _| g * x[1 - which]),
            ..BINARY
        },
        "divide" => Pointwise {
            takes: Takes::Floats,
            float: |x| x[0] / x[1],
            gradient: Some(|g, x, _, which, c| {
                let d = guard(x[1]);
                let share = c.within(g / d);
                c.saturated(if which == 0 {
                    share
                } else {
                    -share * c.within(x[0] / d)
                })
            }),
            slack: |_| 3.0,
            swell: |g, x| 1.0 + (g / guard(x[1])).abs() + (x[0] / guard(x[1])).abs(),
            ..BINARY
        },
        "power" => Pointwise {
            float: |x| x[0].powf(x[1]),
            ulps: 4.0,
            integer: Some(|x| integer_power(x[0], x[1])),
            gradient: Some(|g, x, _, which, c| {
                let (x, n) = (x[0], x[1]);
                if x.is_nan() || n.is_nan() {
                    f64::NAN
                } else if which == 0 {
                    let d = if n < 1.0 { guard(x) } else { x };
                    if n == 0.0 {
                        0.0
                    } else {
                        c.saturated(g * c.within(n * c.within(d.powf(c.held(n - 1.0)))))
                    }
                } else if x <= 0.0 {
                    0.0
                } else {
                    c.saturated(g * c.within(c.within(x.powf(n)) * x.ln()))
                }
            }),
            slack: |x| 12.0 + (x[1] * x[0].abs().max(1e-10).ln()).abs(),
            ranges: [[0.01, 4.0], [-3.0, 3.0]],
            ..BINARY
        },
        "floor_divide" => Pointwise {
            float: |x| floor_divide(x[0], x[1]),
            ulps: 1.0,
            integer: Some(|x| {
                x[0].div_euclid(x[1]) - i128::from(x[1] < 0 && x[0].rem_euclid(x[1]) != 0)
            }),
            gradient: Some(|_, x, _, _, _| flat(x)),
            ..BINARY
        },
        "modulo" => Pointwise {
            float: |x| modulo(x[0], x[1]),
            ulps: 1.0,
            integer: Some(|x| {
                let r = x[0].rem_euclid(x[1]);
                if x[1] < 0 && r != 0 { r + x[1] } else { r }
            }),
            gradient: Some(|g, x, _, which, c| match which {
                _ if flat(x).is_nan() => f64::NAN,
                0 => g,
                _ => c.saturated(-g * c.within(floor_divide(x[0], guard(x[1])))),
            }),
            slack: |_| 3.0,
            ..BINARY
        },
        "maximum" => Pointwise {
            float: |x| larger(x[0], x[1]),
            integer: Some(|x| x[0].max(x[1])),
            gradient: Some(|g, x, _, i, _| share(g, x[i], x[1 - i], x[i] > x[1 - i])),
            ..BINARY
        },
        "minimum" => Pointwise {
            float: |x| smaller(x[0], x[1]),
            integer: Some(|x| x[0].min(x[1])),
            gradient: Some(|g, x, _, i, _| share(g, x[i], x[1 - i], x[i] < x[1 - i])),
            ..BINARY
        },
        "negate" => Pointwise {
            float: |x| -x[0],
            integer: Some(|x| -x[0]),
            gradient: Some(|g, _, _, _, _| -g),
            ..EXACT
        },
        "equal" => Pointwise {
            float: |x| f64::from(x[0] == x[1]),
            integer: Some(|x| i128::from(x[0] == x[1])),
            ..COMPARISON
        },
        "not_equal" => Pointwise {
            float: |x| f64::from(x[0] != x[1]),
            integer: Some(|x| i128::from(x[0] != x[1])),
            ..COMPARISON
        },
        "less" => Pointwise {
            float: |x| f64::from(x[0] < x[1]),
            integer: Some(|x| i128::from(x[0] < x[1])),
            ..COMPARISON
        },
        "less_equal" => Pointwise {
            float: |x| f64::from(x[0] <= x[1]),
            integer: Some(|x| i128::from(x[0] <= x[1])),
            ..COMPARISON
        },
        "greater" => Pointwise {
            float: |x| f64::from(x[0] > x[1]),
            integer: Some(|x| i128::from(x[0] > x[1])),
            ..COMPARISON
        },
        "greater_equal" => Pointwise {
            float: |x| f64::from(x[0] >= x[1]),
            integer: Some(|x| i128::from(x[0] >= x[1])),
            ..COMPARISON
        },
        "logical_and" => Pointwise {
            integer: Some(|x| x[0] & x[1]),
            ..LOGIC
        },
        "logical_or" => Pointwise {
            integer: Some(|x| x[0] | x[1]),
            ..LOGIC
        },
        "logical_xor" => Pointwise {
            integer: Some(|x| x[0] ^ x[1]),
            ..LOGIC
        },
        "logical_not" => Pointwise {
            arity: 1,
            integer: Some(|x| 1 - x[0]),
            ..LOGIC
        },
        _ => return find_unary(name),
    })
}

fn find_unary(name: &str) -> Option<Pointwise> {
    Some(match name {
        "exp" => Pointwise {
            float: |x| x[0].exp(),
            gradient: Some(|g, _, y, _, _| g * y),
            slack: |_| 0.0,
            ..UNARY
        },
        "expm1" => Pointwise {
            float: |x| x[0].exp_m1(),
            gradient: Some(|g, x, _, _, c| g * c.held(x[0].exp())),
            ..UNARY
        },
        "log" => Pointwise {
            float: |x| x[0].ln(),
            gradient: Some(|g, x, _, _, c| c.saturated(g / guard(x[0]))),
            ranges: POSITIVE,
            ..UNARY
        },
        "log1p" => Pointwise {
            float: |x| x[0].ln_1p(),
            gradient: Some(|g, x, _, _, c| c.saturated(g / guard(c.held(1.0 + x[0])))),
            ranges: [[-0.99, 4.0]; 2],
            ..UNARY
        },
        "log2" => Pointwise {
            float: |x| x[0].log2(),
            gradient: Some(|g, x, _, _, c| c.saturated(g / (guard(x[0]) * LN_2))),
            ranges: POSITIVE,
            ..UNARY
        },
        "log10" => Pointwise {
            float: |x| x[0].log10(),
            gradient: Some(|g, x, _, _, c| c.saturated(g / (guard(x[0]) * LN_10))),
            ranges: POSITIVE,
            ..UNARY
        },
        "sqrt" => Pointwise {
            float: |x| x[0].sqrt(),
            ulps: 0.0,
            gradient: Some(|g, _, y, _, c| c.saturated(g / (2.0 * guard(y)))),
            ranges: POSITIVE,
            ..UNARY
        },
        "rsqrt" => Pointwise {
            float: |x| 1.0 / x[0].sqrt(),
            gradient: Some(|g, x, _, _, c| {
                let d = guard(x[0]);
                c.saturated(g * -0.5 / (d * d.abs().sqrt()))
            }),
            ranges: POSITIVE,
            ..UNARY
        },
        "square" => Pointwise {
            float: |x| x[0] * x[0],
            integer: Some(|x| x[0].wrapping_mul(x[0])),
            gradient: Some(|g, x, _, _, c| g * c.held(2.0 * x[0])),
            ..EXACT
        },
        "reciprocal" => Pointwise {
            float: |x| 1.0 / x[0],
            ulps: 0.0,
            gradient: Some(|g, x, _, _, c| c.saturated(-c.within(g / guard(x[0])) / guard(x[0]))),
            swell: |_, x| 1.0 + 1.0 / guard(x[0]).abs(),
            ..UNARY
        },
        "abs" => Pointwise {
            float: |x| x[0].abs(),
            integer: Some(|x| x[0].abs()),
            gradient: Some(|g, x, _, _, _| g * sign(x[0])),
            ..EXACT
        },
        "sign" => Pointwise {
            float: |x| sign(x[0]),
            integer: Some(|x| x[0].signum()),
            ..STEP
        },
        "ceil" => Pointwise {
            float: |x| x[0].ceil(),
            ..STEP
        },
        "floor" => Pointwise {
            float: |x| x[0].floor(),
            ..STEP
        },
        "trunc" => Pointwise {
            float: |x| x[0].trunc(),
            ..STEP
        },
        "round" => Pointwise {
            float: |x| x[0].round_ties_even(),
            ..STEP
        },
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
            gradient: Some(|g, _, y, _, c| g * c.held(1.0 + y * y)),
            ..UNARY
        },
        "asin" => Pointwise {
            float: |x| x[0].asin(),
            gradient: Some(|g, x, _, _, c| c.saturated(g / guard(leg(x[0])))),
            ranges: [[-1.0, 1.0]; 2],
            ..UNARY
        },
        "acos" => Pointwise {
            float: |x| x[0].acos(),
            gradient: Some(|g, x, _, _, c| c.saturated(-g / guard(leg(x[0])))),
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
            gradient: Some(|g, x, _, _, c| g * c.held(x[0].cosh())),
            ..UNARY
        },
        "cosh" => Pointwise {
            float: |x| x[0].cosh(),
            gradient: Some(|g, x, _, _, c| g * c.held(x[0].sinh())),
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
                c.saturated(g / guard((x[0] - 1.0).sqrt() * (x[0] + 1.0).sqrt()))
            }),
            ranges: [[1.0, 4.0]; 2],
            ..UNARY
        },
        "atanh" => Pointwise {
            float: |x| (0.5 * (2.0 * x[0].abs() / (1.0 - x[0].abs())).ln_1p()).copysign(x[0]),
            ulps: 6.0,
            gradient: Some(|g, x, _, _, c| c.saturated(g / guard((1.0 - x[0]) * (1.0 + x[0])))),
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
    if x < 1e8 {
        (t + (t * (t + 2.0)).sqrt()).ln_1p()
    } else {
        x.ln() + LN_2
    }
}
