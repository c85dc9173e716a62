//! The derivative of a formula, as a formula: the steps of a program and, beside each, its slope.
//!
//! A formula is differentiated as it is computed, element by element and forwards: where it selects,
//! the derivative is that of the branch taken, and what the other branch would give does not matter.
//! Denominators that are exactly 0 are ±1e-10, as in the rules of operations, in every order. This
//! module must not know what tensors are.

use super::pointwise::guard;
use extensor_kernels::number::{Number, Real};
use extensor_kernels::program::{Binary, Program, Step, Unary};
use extensor_kernels::symbol::Symbol;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LN_10};

/// `h · ∂f/∂xᵢ` for the program of `f(x₀, …)`, as a program of `(h, x₀, …)`.
pub(crate) fn derivative(program: &Program, by: usize) -> Program {
    Program::record(program.variables + 1, |variables| {
        let (h, x) = (variables[0], &variables[1..]);
        let mut values: Vec<Symbol> = Vec::with_capacity(program.steps.len());
        let mut slopes: Vec<Option<Symbol>> = Vec::with_capacity(program.steps.len());
        for step in &program.steps {
            let (value, slope) = match *step {
                Step::Variable(k) => (x[k], (k == by).then(|| h.lit(1.0))),
                _ => {
                    let value = Symbol::repeat(step, &values);
                    (value, slope(step, value, &values, &slopes))
                }
            };
            values.push(value);
            slopes.push(slope);
        }
        match (program.steps[program.result], slopes[program.result]) {
            (_, None) => h.lit(0.0),
            // What is held within a limit stays so, whatever `h` is.
            (Step::Capped(a, mask, limit), Some(_)) => {
                let slope = slopes[a].unwrap_or_else(|| h.lit(0.0));
                h.times(slope).capped(values[mask].answer() & h.is_finite(), limit)
            }
            (_, Some(slope)) => h.times(slope),
        }
    })
}

/// The derivative of a step's value, from the values and derivatives of those before it; `None`: it
/// is 0 whatever the numbers are.
fn slope(
    step: &Step,
    value: Symbol,
    values: &[Symbol],
    slopes: &[Option<Symbol>],
) -> Option<Symbol> {
    match *step {
        Step::Variable(_) | Step::Constant(_) => None,
        Step::Compare(..) | Step::And(..) | Step::Or(..) | Step::Not(_) => None,
        Step::Unary(f, a) => unary(f, values[a], value, slopes[a]?),
        Step::Binary(f, a, b) => binary(f, [values[a], values[b]], value, [slopes[a], slopes[b]]),
        Step::Select(mask, a, b) => either([slopes[a], slopes[b]], value, |a, b| {
            Symbol::select(values[mask].answer(), a, b)
        }),
        Step::MulAdd(a, b, c) => {
            let product =
                sum(slopes[a].map(|s| s.times(values[b])), slopes[b].map(|s| s.times(values[a])));
            sum(product, slopes[c])
        }
        Step::Capped(a, mask, limit) => Some(slopes[a]?.capped(values[mask].answer(), limit)),
        Step::Like(_, smooth) => slopes[smooth],
    }
}

/// The sum of what there is.
fn sum(a: Option<Symbol>, b: Option<Symbol>) -> Option<Symbol> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// A function of two derivatives of which one is there.
fn either(
    slopes: [Option<Symbol>; 2],
    like: Symbol,
    f: impl FnOnce(Symbol, Symbol) -> Symbol,
) -> Option<Symbol> {
    match slopes {
        [None, None] => None,
        [a, b] => {
            let zero = like.lit(0.0);
            Some(f(a.unwrap_or(zero), b.unwrap_or(zero)))
        }
    }
}

/// `s · y′(x)`, where `y` is the value at `x`.
fn unary(f: Unary, x: Symbol, y: Symbol, s: Symbol) -> Option<Symbol> {
    let (one, two) = (x.lit(1.0), x.lit(2.0));
    Some(match f {
        Unary::Negate => -s,
        Unary::Abs => s * x.sign(),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => x.nan_or(x.lit(0.0)),
        Unary::Sqrt => s / (two * guard(y)),
        Unary::Exp => s.times(y),
        Unary::Expm1 => s.times(x.exp()),
        Unary::Log => s / guard(x),
        Unary::Log1p => s / guard(one + x),
        Unary::Log2 => s / guard(x) / x.lit(LN_2),
        Unary::Log10 => s / guard(x) / x.lit(LN_10),
        Unary::Sin => s * x.cos(),
        Unary::Cos => -(s * x.sin()),
        Unary::Tan => s.times(y.mul_add(y, one)),
        Unary::Asin => s / guard(unit_leg_square(x).sqrt()),
        Unary::Acos => -(s / guard(unit_leg_square(x).sqrt())),
        Unary::Atan => s / x.mul_add(x, one),
        Unary::Sinh => s.times(x.cosh()),
        Unary::Cosh => s.times(x.sinh()),
        // 1 − y², of which nothing is left where y is almost 1.
        Unary::Tanh => {
            let double = two * x;
            s * (x.lit(4.0) * double.sigmoid() * (-double).sigmoid())
        }
        Unary::Asinh => s / x.hypot(one),
        Unary::Acosh => s / guard((x - one).sqrt() * (x + one).sqrt()),
        Unary::Atanh => s / guard(unit_leg_square(x)),
        Unary::Erf => s * (x.lit(FRAC_2_SQRT_PI) * x.bell()),
        Unary::Erfc => -(s * (x.lit(FRAC_2_SQRT_PI) * x.bell())),
        Unary::Sigmoid => s * (y * (-x).sigmoid()),
        Unary::Softplus => s * x.sigmoid(),
        Unary::Gelu => s * x.gelu_slope(),
        // (2 − x²)·φ(x), where φ is the bell of the normal distribution.
        Unary::GeluSlope => {
            let near = x.maximum(x.lit(-100.0)).minimum(x.lit(100.0));
            let factor = (-near).mul_add(near, two) * x.lit(FRAC_1_SQRT_2 * 0.5 * FRAC_2_SQRT_PI);
            s * (factor * x.wide_bell())
        }
        Unary::Bell => -(s * ((x + x).times(y))),
        Unary::WideBell => -(s * (x.times(y))),
    })
}

/// The derivative of a function of `a` and `b`, whose own derivatives are given.
fn binary(
    f: Binary,
    [a, b]: [Symbol; 2],
    y: Symbol,
    [sa, sb]: [Option<Symbol>; 2],
) -> Option<Symbol> {
    let zero = y.lit(0.0);
    match f {
        Binary::Add => sum(sa, sb),
        Binary::Subtract => sum(sa, sb.map(|s| -s)),
        Binary::Multiply => sum(sa.map(|s| s * b), sb.map(|s| s * a)),
        Binary::Times => sum(sa.map(|s| s.times(b)), sb.map(|s| s.times(a))),
        Binary::Divide => match (sa, sb) {
            (sa, Some(sb)) => {
                let rest = y.times(sb);
                Some(sa.map_or(-rest, |sa| sa - rest) / b)
            }
            (sa, None) => sa.map(|sa| sa / b),
        },
        Binary::Maximum => either([sa, sb], y, |sa, sb| larger(a, b, sa, sb)),
        Binary::Minimum => either([sa, sb], y, |sa, sb| larger(b, a, sa, sb)),
        Binary::FloorDivide => sum(sa, sb).map(|_| y.nan_or(zero)),
        Binary::Modulo => {
            let below = sb.map(|sb| -(a.floor_divide(b).times(sb)));
            sum(sa, below).map(|slope| y.nan_or(slope))
        }
        Binary::Power => sum(
            sa.map(|sa| sa.times(power_by_base(a, b))),
            sb.map(|sb| sb.times(power_by_exponent(a, b))),
        ),
        Binary::CopySign => sa.map(|sa| sa * y.lit(1.0).copysign(a) * y.lit(1.0).copysign(b)),
        Binary::Atan2 => {
            let (sine, cosine, radius) = direction(a, b);
            sum(sa.map(|s| s * cosine / radius), sb.map(|s| -(s * sine / radius)))
        }
        Binary::Hypot => {
            let (first, second, _) = direction(a, b);
            sum(sa.map(|s| s * first), sb.map(|s| s * second))
        }
        Binary::NanOr => either([sa, sb], y, |_, sb| a.nan_or(sb)),
    }
}

/// The slope of the larger of `a` and `b`, half of either where they are equal.
fn larger(a: Symbol, b: Symbol, sa: Symbol, sb: Symbol) -> Symbol {
    let half = a.lit(0.5);
    Symbol::select(a.lt(b), sb, Symbol::select(b.lt(a), sa, half * (sa + sb)))
}

/// `1 − x²`, exact near ±1, and its derivative near 0.
#[inline(always)]
pub(crate) fn unit_leg_square<R: Real>(x: R) -> R {
    let one = x.lit(1.0);
    ((one - x) * (one + x)).like(|| one - x * x)
}

/// `(a/r, b/r, r)` for the distance `r` of the point `(a, b)` from the origin, 1e-10 at the origin.
/// The distance may be infinite where the point is not: the first two are right there too.
#[inline(always)]
pub(crate) fn direction<R: Real>(a: R, b: R) -> (R, R, R) {
    let (one, half) = (a.lit(1.0), a.lit(0.5));
    // Half the size where that could be too large, and only there: what is tiny must not be halved.
    let scale = R::select(one.lt(a.abs().maximum(b.abs())), half, one);
    let (p, q) = (a * scale, b * scale);
    let r = guard(p.hypot(q));
    (p / r, q / r, r / scale)
}

/// `n·xⁿ⁻¹`. At 0, where the power has no derivative, as if `x` were ±1e-10.
#[inline(always)]
pub(crate) fn power_by_base<R: Real>(x: R, n: R) -> R {
    let one = x.lit(1.0);
    // −0 has real powers, but its stand-in −1e-10 has only whole ones.
    let least = x.lit(1e-10);
    let least = R::select(n.floor().eq(n), least.copysign(x), least);
    let (zero, d) = (x.lit(0.0), x + R::select(no_power_by_base(x, n), least, x.lit(0.0)));
    // n − 1 is exact for the larger exponents; for the smaller ones xⁿ/x is.
    let small = n.lt(x.lit(0.5));
    let power = d.pow(R::select(small, n, n - one));
    let slope = R::select(small, n * power / d, n.times(power));
    let undefined = x.lt(zero) & !n.floor().eq(n);
    R::select(undefined, x.lit(f64::NAN), zero).nan_or(slope)
}

/// Where `xⁿ` cannot be differentiated by `x`.
#[inline(always)]
pub(crate) fn no_power_by_base<R: Real>(x: R, n: R) -> R::Mask {
    x.eq(x.lit(0.0)) & n.lt(x.lit(1.0))
}

/// `xⁿ·ln x`; 0 for `x = 0`, and for whole powers of negative numbers.
#[inline(always)]
pub(crate) fn power_by_exponent<R: Real>(x: R, n: R) -> R {
    let (zero, one) = (x.lit(0.0), x.lit(1.0));
    let positive = zero.lt(x);
    let d = R::select(positive, x, one);
    // Larger powers as xⁿ⁻¹·(x ln x): where xⁿ has vanished, its derivative has not.
    let small = n.lt(x.lit(0.5)) | !positive;
    let power = x.pow(R::select(small, n, n - one));
    let slope = power.times(R::select(small, d.log(), d * d.log()));
    R::select(positive, slope, power.nan_or(zero))
}
