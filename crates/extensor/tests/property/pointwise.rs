//! The reference for operations that work element by element: formulas in `f64`, from the textbook.

use crate::array::{round_to, working};
use crate::unary;
use extensor::DType;

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
}

impl Context {
    /// `slope` as the working precision holds it.
    pub fn held(self, slope: f64) -> f64 {
        round_to(slope, working(self.dtype))
    }

    /// A gradient at a singular point or not: there it is finite, elsewhere it may overflow.
    pub fn settled(self, gradient: f64, singular: bool) -> f64 {
        let limit = self.dtype.max_finite();
        if singular { gradient.clamp(-limit, limit) } else { gradient }
    }
}

/// A product in which nothing comes of nothing, not even of 0·∞.
pub fn times(g: f64, slope: f64) -> f64 {
    let product = g * slope;
    if product.is_nan() && !g.is_nan() && !slope.is_nan() { 0.0 } else { product }
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
    /// What the units are of, where the value may be the small difference of larger numbers.
    pub scale: fn(&[f64]) -> f64,
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

pub fn guard(x: f64) -> f64 {
    if x == 0.0 { 1e-10f64.copysign(x) } else { x }
}

pub fn sign(x: f64) -> f64 {
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
    if inputs.iter().any(|x| x.is_nan()) { f64::NAN } else { 0.0 }
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
    if b == 0.0 || a.is_infinite() || b.is_infinite() {
        return (a / b).floor();
    }
    let r = a % b;
    let below = r != 0.0 && (r < 0.0) != (b < 0.0);
    let quotient = ((a - r) / b).round() - f64::from(u8::from(below));
    if quotient == 0.0 { 0f64.copysign(a / b) } else { quotient }
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

/// `g` for the side that won, half of it on a tie; for one beside NaN all.
fn share_of_number(g: f64, own: f64, other: f64, wins: bool) -> f64 {
    match () {
        _ if own.is_nan() && other.is_nan() => f64::NAN,
        _ if own.is_nan() => 0.0,
        _ if other.is_nan() => g,
        _ => share(g, own, other, wins),
    }
}

/// The quotient without its fraction.
fn whole_part(a: f64, b: f64) -> f64 {
    if b == 0.0 || a.is_infinite() || b.is_infinite() {
        return (a / b).trunc();
    }
    ((a - a % b) / b).round()
}

/// The radius of a point, 1e-10 at the origin, and the point on the unit circle.
fn polar(x: &[f64]) -> (f64, [f64; 2]) {
    // Half the size where the radius could overflow, twice and more where it would lose digits.
    let size = x[0].abs().max(x[1].abs());
    let scale = if size > 1.0 {
        0.5
    } else if size < 1e-290 {
        1e16
    } else {
        1.0
    };
    let [p, q] = [x[0] * scale, x[1] * scale];
    let r = p.hypot(q);
    if r == 0.0 { (1e-10, [p / 1e-10, q / 1e-10]) } else { (r / scale, [p / r, q / r]) }
}

/// `xⁿ⁻¹`, negative for an even `n` where `n − 1` is rounded to an even number.
fn less_one(x: f64, n: f64) -> f64 {
    let power = x.powf(n - 1.0);
    if x < 0.0 && n % 2.0 == 0.0 { -power.abs() } else { power }
}

/// How many units in the last place of other numbers the last of this one is: more than 1 where it is
/// subnormal.
fn lost(x: f64) -> f64 {
    f64::from_bits(1) / x / f64::EPSILON
}

/// `ln(eᵃ + eᵇ)`.
fn log_add_exp(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    match () {
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        _ if high.is_infinite() || low == f64::NEG_INFINITY => high,
        _ => high + (low - high).exp().ln_1p(),
    }
}

/// `g` times a slope of `x·ln z`, where `z` is at, or below, 0 too.
fn log_slope(g: f64, x: &[f64], slopes: [f64; 2], which: usize, z: f64, c: Context) -> f64 {
    match () {
        _ if flat(x).is_nan() => f64::NAN,
        _ if z < 0.0 && x[0] != 0.0 => {
            if g == 0.0 {
                0.0
            } else {
                f64::NAN
            }
        }
        _ if z < 0.0 => 0.0,
        _ => c.settled(times(g, slopes[which]), z == 0.0 && x[0].is_finite() && g.is_finite()),
    }
}

fn integer_power(base: i128, exponent: i128) -> i128 {
    // The result wraps at 64 bits at most: powers modulo 2¹²⁸ are enough.
    (0..128).rev().fold(1i128, |power, bit| {
        let power = power.wrapping_mul(power);
        if exponent >> bit & 1 == 1 { power.wrapping_mul(base) } else { power }
    })
}

const PLAIN: [[f64; 2]; 2] = [[-4.0, 4.0]; 2];

pub const UNARY: Pointwise = Pointwise {
    arity: 1,
    takes: Takes::Floats,
    mask: false,
    float: |x| x[0],
    ulps: 4.0,
    scale: |_| 0.0,
    integer: None,
    gradient: None,
    slack: |_| 10.0,
    swell: |g, _| 1.0 + g.abs(),
    ranges: PLAIN,
};

/// Correctly rounded, for whole numbers too.
pub const EXACT: Pointwise =
    Pointwise { takes: Takes::Numbers, ulps: 0.0, slack: |_| 0.0, ..UNARY };
const BINARY: Pointwise = Pointwise { arity: 2, ..EXACT };
pub const STEP: Pointwise =
    Pointwise { integer: Some(|x| x[0]), gradient: Some(|_, x, _, _, _| flat(x)), ..EXACT };
const COMPARISON: Pointwise = Pointwise { takes: Takes::Anything, mask: true, ..BINARY };
const LOGIC: Pointwise = Pointwise { takes: Takes::Masks, mask: true, ..BINARY };

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
                let gradient = if which == 0 { g / d } else { -times(g, c.held(x[0] / d)) / d };
                c.settled(gradient, x[1] == 0.0)
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
                if x == 1.0 && which == 1 {
                    // Every power of 1 is 1, the one with no number for an exponent too.
                    0.0
                } else if x.is_nan() || n.is_nan() || x < 0.0 && n.fract() != 0.0 && n.is_finite() {
                    f64::NAN
                } else if which == 0 {
                    // −0 has powers that −1e-10 has not.
                    let stand_in = guard(if n.fract() == 0.0 { x } else { x + 0.0 });
                    let d = if n < 1.0 { stand_in } else { x };
                    if n == 0.0 {
                        return 0.0;
                    }
                    let power = less_one(d, n);
                    // The power may overflow where its product with a small n does not.
                    let over = power.is_infinite() && n.abs() < 1.0;
                    let slope = if over { n / d * d.powf(n) } else { n * power };
                    c.settled(times(g, c.held(slope)), x == 0.0 && n < 1.0)
                } else if x <= 0.0 {
                    0.0
                } else {
                    times(g, c.held(x.powf(n) * x.ln()))
                }
            }),
            // The exponent less 1 is rounded, here.
            slack: |x| 12.0 + ((1.0 + x[1].abs()) * guard(x[0]).abs().ln().abs()).max(0.0),
            swell: |g, x| (1.0 + g.abs()) * (1.0 + x[1].abs()),
            ranges: [[0.01, 4.0], [-3.0, 3.0]],
            ..BINARY
        },
        "floor_divide" => Pointwise {
            float: |x| floor_divide(x[0], x[1]),
            ulps: 1.0,
            integer: Some(|x| {
                x[0].div_euclid(x[1]) - i128::from(x[1] < 0 && x[0].rem_euclid(x[1]) != 0)
            }),
            gradient: Some(
                |_, x, _, _, _| {
                    if floor_divide(x[0], x[1]).is_nan() { f64::NAN } else { flat(x) }
                },
            ),
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
                _ if modulo(x[0], x[1]).is_nan() => f64::NAN,
                0 => g,
                _ => times(-g, c.held(floor_divide(x[0], x[1]))),
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
        "fmod" => Pointwise {
            float: |x| x[0] % x[1],
            integer: Some(|x| x[0] % x[1]),
            gradient: Some(|g, x, _, which, c| match which {
                _ if (x[0] % x[1]).is_nan() => f64::NAN,
                0 => g,
                _ => times(-g, c.held(whole_part(x[0], x[1]))),
            }),
            slack: |_| 3.0,
            ..BINARY
        },
        "fmax" => Pointwise {
            float: |x| x[0].max(x[1]),
            integer: Some(|x| x[0].max(x[1])),
            gradient: Some(|g, x, _, i, _| share_of_number(g, x[i], x[1 - i], x[i] > x[1 - i])),
            ..BINARY
        },
        "fmin" => Pointwise {
            float: |x| x[0].min(x[1]),
            integer: Some(|x| x[0].min(x[1])),
            gradient: Some(|g, x, _, i, _| share_of_number(g, x[i], x[1 - i], x[i] < x[1 - i])),
            ..BINARY
        },
        "lerp" => Pointwise {
            arity: 3,
            takes: Takes::Floats,
            float: |x| match x[2] {
                0.0 if x[1].is_finite() => x[0],
                1.0 if x[0].is_finite() => x[1],
                w => x[0] * (1.0 - w) + w * x[1],
            },
            ulps: 3.0,
            scale: |x| (x[0].abs() + x[1].abs()) * (1.0 + x[2].abs()),
            gradient: Some(|g, x, _, which, _| match which {
                0 => times(g, 1.0 - x[2]),
                1 => times(g, x[2]),
                _ => times(g, x[1] - x[0]),
            }),
            slack: |_| 3.0,
            ..BINARY
        },
        "addcmul" => Pointwise {
            arity: 3,
            takes: Takes::Floats,
            float: |x| x[1].mul_add(x[2], x[0]),
            ulps: 2.0,
            scale: |x| (x[1] * x[2]).abs() + x[0].abs(),
            gradient: Some(|g, x, _, which, _| match which {
                0 => g,
                1 => times(g, x[2]),
                _ => times(g, x[1]),
            }),
            slack: |_| 3.0,
            ..BINARY
        },
        "addcdiv" => Pointwise {
            arity: 3,
            takes: Takes::Floats,
            float: |x| x[0] + x[1] / x[2],
            ulps: 2.0,
            scale: |x| (x[1] / x[2]).abs() + x[0].abs(),
            gradient: Some(|g, x, _, which, c| {
                let d = guard(x[2]);
                match which {
                    0 => g,
                    1 => c.settled(g / d, x[2] == 0.0),
                    _ => c.settled(-times(g, c.held(x[1] / d)) / d, x[2] == 0.0),
                }
            }),
            slack: |_| 4.0,
            swell: |g, x| 1.0 + (g / guard(x[2])).abs() + (x[1] / guard(x[2])).abs(),
            ..BINARY
        },
        "atan2" => Pointwise {
            takes: Takes::Floats,
            float: |x| x[0].atan2(x[1]),
            ulps: 4.0,
            gradient: Some(|g, x, _, which, c| {
                let (r, [sine, cosine]) = polar(x);
                let gradient = g * if which == 0 { cosine } else { -sine } / r;
                if flat(x).is_nan() { f64::NAN } else { c.settled(gradient, x == [0.0; 2]) }
            }),
            slack: |x| 10.0 + lost(polar(x).0),
            swell: |g, x| (1.0 + g.abs()) * (1.0 + 1.0 / polar(x).0),
            ..BINARY
        },
        "hypot" => Pointwise {
            takes: Takes::Floats,
            float: |x| {
                if x.iter().any(|x| x.is_infinite()) { f64::INFINITY } else { x[0].hypot(x[1]) }
            },
            ulps: 2.0,
            gradient: Some(|g, x, _, which, _| g * (polar(x).1[which] + flat(x))),
            slack: |x| 10.0 + lost(polar(x).0),
            swell: |g, x| (1.0 + g.abs()) * (1.0 + 1.0 / polar(x).0),
            ..BINARY
        },
        "logaddexp" => Pointwise {
            takes: Takes::Floats,
            float: |x| log_add_exp(x[0], x[1]),
            ulps: 4.0,
            // A sum of two numbers, one of which is positive and at most ln 2.
            scale: |x| {
                if x[0].is_finite() && x[1].is_finite() { x[0].max(x[1]).abs() + 0.7 } else { 0.0 }
            },
            gradient: Some(|g, x, _, which, _| {
                let difference = x[1 - which] - x[which];
                g / (1.0 + difference.exp())
            }),
            // The difference is rounded, and then an exponent.
            slack: |x| 12.0 + (x[0] - x[1]).abs().min(1e4),
            ..BINARY
        },
        "xlogy" => Pointwise {
            takes: Takes::Floats,
            float: |x| if x[0] == 0.0 && !x[1].is_nan() { 0.0 } else { x[0] * x[1].ln() },
            ulps: 4.0,
            slack: |_| 12.0,
            gradient: Some(|g, x, _, which, c| {
                let y = if x[1] == 0.0 { 1e-10 } else { x[1] };
                log_slope(g, x, [y.ln(), x[0] / y], which, x[1], c)
            }),
            swell: |g, x| (1.0 + g.abs()) * (1.0 + 1.0 / guard(x[1]).abs()),
            ranges: [[-4.0, 4.0], [0.0, 4.0]],
            ..BINARY
        },
        "xlog1py" => Pointwise {
            takes: Takes::Floats,
            float: |x| if x[0] == 0.0 && !x[1].is_nan() { 0.0 } else { x[0] * x[1].ln_1p() },
            ulps: 4.0,
            slack: |_| 12.0,
            gradient: Some(|g, x, _, which, c| {
                let above = c.held(1.0 + x[1]);
                let (log, below) = match above {
                    0.0 => (1e-10f64.ln(), 1e-10),
                    _ => (x[1].ln_1p(), above),
                };
                log_slope(g, x, [log, x[0] / below], which, above, c)
            }),
            swell: |g, x| (1.0 + g.abs()) * (1.0 + 1.0 / guard(1.0 + x[1]).abs()),
            ranges: [[-4.0, 4.0], [-1.0, 4.0]],
            ..BINARY
        },
        "copysign" => Pointwise {
            takes: Takes::Floats,
            float: |x| x[0].copysign(x[1]),
            gradient: Some(|g, x, _, which, _| match which {
                _ if x[0].is_nan() => f64::NAN,
                0 if x[0] == 0.0 => 0.0,
                0 if x[0].is_sign_negative() == x[1].is_sign_negative() => g,
                0 => -g,
                _ => 0.0,
            }),
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
        "logical_and" => Pointwise { integer: Some(|x| x[0] & x[1]), ..LOGIC },
        "logical_or" => Pointwise { integer: Some(|x| x[0] | x[1]), ..LOGIC },
        "logical_xor" => Pointwise { integer: Some(|x| x[0] ^ x[1]), ..LOGIC },
        "logical_not" => Pointwise { arity: 1, integer: Some(|x| 1 - x[0]), ..LOGIC },
        _ => return unary::find(name),
    })
}
