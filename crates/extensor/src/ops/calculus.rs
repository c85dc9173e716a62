//! The derivative of a formula, as a formula: the instructions of a program and, beside each, its slope.
//!
//! A formula is differentiated as it is computed, element by element and forwards: where it selects,
//! the derivative is that of the branch taken, and what the other branch would give does not matter.
//! Denominators that are exactly 0 are ±1e-10, as in the rules of operations, in every order. This
//! module must not know what tensors are.

use extensor_kernels::number::{Number, Real, Smooth};
use extensor_kernels::program::{Binary, Instruction, Program, Unary};
use extensor_kernels::symbol::Symbol;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LN_10, PI};

/// `h · ∂f/∂xᵢ` for the program of `f(x₀, …)`, as a program of `(h, x₀, …)`.
pub(crate) fn derivative(program: &Program, by: usize) -> Program {
    Program::record(program.variables + 1, |variables| {
        let (h, x) = (variables[0], &variables[1..]);
        let mut values: Vec<Symbol> = Vec::with_capacity(program.instructions.len());
        for instruction in &program.instructions {
            values.push(match *instruction {
                Instruction::Variable(k) => x[k],
                _ => Symbol::repeat(instruction, &values),
            });
        }
        let along = Along { instructions: &program.instructions, values: &values, by };
        let slopes = along.slopes(program.result, h.lit(1.0));
        match (program.instructions[program.result], slopes[program.result]) {
            (_, None) => h.lit(0.0),
            // What is held within a limit stays so, whatever `h` is.
            (Instruction::Capped(a, mask, limit), Some(_)) => {
                let slope = slopes[a].unwrap_or_else(|| h.lit(0.0));
                h.times(slope).capped(values[mask].answer() & h.is_finite(), limit)
            }
            (_, Some(slope)) => h.times(slope),
        }
    })
}

/// A program and its instructions' values, along one of its variables.
struct Along<'a> {
    instructions: &'a [Instruction],
    values: &'a [Symbol],
    by: usize,
}

impl Along<'_> {
    /// The derivatives of all instructions up to `last` as the variable moves at this speed; `None`: 0
    /// whatever the numbers are.
    fn slopes(&self, last: usize, speed: Symbol) -> Vec<Option<Symbol>> {
        let mut slopes: Vec<Option<Symbol>> = Vec::with_capacity(last + 1);
        for k in 0..=last {
            slopes.push(match self.instructions[k] {
                Instruction::Variable(number) => (number == self.by).then_some(speed),
                _ => self.slope(k, &slopes),
            });
        }
        slopes
    }

    /// The derivative of an instruction's value, from the derivatives of those before it.
    fn slope(&self, k: usize, slopes: &[Option<Symbol>]) -> Option<Symbol> {
        let (values, value) = (self.values, self.values[k]);
        match self.instructions[k] {
            Instruction::Variable(_) | Instruction::Constant(_) => None,
            Instruction::Compare(..)
            | Instruction::And(..)
            | Instruction::Or(..)
            | Instruction::Not(_) => None,
            Instruction::Unary(f, a) => unary(f, values[a], value, slopes[a]?),
            Instruction::Binary(f, a, b) => {
                binary(f, [values[a], values[b]], value, [slopes[a], slopes[b]])
            }
            Instruction::Select(mask, a, b) => either([slopes[a], slopes[b]], value, |a, b| {
                Symbol::select(values[mask].answer(), a, b)
            }),
            Instruction::MulAdd(a, b, c) => {
                let [first, second] = [(a, b), (b, a)];
                let term = |(a, b): (usize, usize)| slopes[a].map(|s| s.times(values[b]));
                sum(sum(term(first), term(second)), slopes[c])
            }
            Instruction::Capped(a, mask, limit) => {
                Some(slopes[a]?.capped(values[mask].answer(), limit))
            }
            Instruction::Like(_, smooth) => slopes[smooth],
            Instruction::Round(_, a) => slopes[a],
            Instruction::NthDerivative(of, a, n) => {
                Some(slopes[a]?.times(values[a].nth_derivative(of, n + 1)))
            }
            Instruction::PowerTimes(x, n, q, m) => self.power_times([x, n, q], m, slopes),
        }
    }

    /// `(q·xⁿ⁻ᵐ)′ = ((n − m)·q·x′ + x·q′)·xⁿ⁻ᵐ⁻¹ + q·ln x·n′·xⁿ⁻ᵐ`
    fn power_times(
        &self,
        [base, exponent, factor]: [usize; 3],
        m: u8,
        slopes: &[Option<Symbol>],
    ) -> Option<Symbol> {
        let [x, n, q] = [base, exponent, factor].map(|k| self.values[k]);
        let [sx, sn, sq] = [base, exponent, factor].map(|k| slopes[k]);
        let by_base = sx.map(|sx| {
            let first = (n - n.lit(f64::from(m))) * q * sx;
            // x·q′ is how q changes as the variable moves at the speed x. There is a logarithm of
            // x in q, whose slope is that speed over x, 1 and not ∞.
            let second = match self.instructions[base] {
                Instruction::Variable(_) => self.slopes(factor, x)[factor].map(|slope| slope * sx),
                _ => sq.map(|sq| x * sq),
            };
            x.power_times(n, second.map_or(first, |second| first + second), m + 1)
        });
        let by_exponent = sn.map(|sn| log_of_base(x) * q * sn);
        let rest = sum(by_exponent, sq.filter(|_| sx.is_none()));
        sum(by_base, rest.map(|rest| x.power_times(n, rest, m)))
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
        Unary::Exp2 => s.times(exp2_slope(x)),
        Unary::Expm1 => s.times(x.exp()),
        Unary::Log => s / guard(x),
        Unary::Log1p => s / guard(one + x),
        Unary::Log2 => s / guard(x) / x.lit(LN_2),
        Unary::Log10 => s / x.lit(LN_10) / guard(x),
        Unary::Cbrt => s / x.lit(3.0) / guard(y) / guard(y),
        Unary::SinPi => s * (x.lit(PI) * x.cos_pi()),
        Unary::CosPi => -(s * (x.lit(PI) * x.sin_pi())),
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
        Unary::Erfinv => s.times(x.erfinv_slope()),
        // y″ = 2·y·y′², where only an infinite y is beyond ±10.
        Unary::ErfinvSlope => s.times(two * held(x.erfinv(), 10.0) * y * y),
        Unary::Ndtr => s * normal_density(x),
        Unary::Ndtri => s.times(x.ndtri_slope()),
        Unary::NdtriSlope => s.times(held(x.ndtri(), 40.0) * y * y),
        Unary::Lgamma => s.times(x.digamma()),
        Unary::Digamma => s.times(x.nth_derivative(Smooth::Psi, 1)),
        Unary::LogNdtr => s.times(x.log_ndtr_slope()),
        Unary::LogNdtrSlope => s.times(x.log_ndtr_bend()),
        Unary::LogNdtrBend => s.times(x.nth_derivative(Smooth::LogNdtr, 3)),
        Unary::I0 => s.times(x.i1()),
        Unary::I1 => s.times(x.i1_slope()),
        Unary::I1Slope => s.times(x.nth_derivative(Smooth::I0, 3)),
        Unary::I0e => s.times(x.i0e_slope()),
        Unary::I0eSlope => s.times(x.nth_derivative(Smooth::I0e, 2)),
        Unary::I1e => s.times(x.i1e_slope()),
        // From 0 up it is the second derivative of e⁻ˣ I₀ and the first, and even.
        Unary::I1eSlope => {
            let [second, third] = [2, 3].map(|n| x.nth_derivative(Smooth::I0e, n));
            s.times(third + x.sign() * second)
        }
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

/// `2ˣ ln 2`, which is smaller than `2ˣ`: it may be finite where that is not.
#[inline(always)]
pub(crate) fn exp2_slope<R: Real>(x: R) -> R {
    let (zero, one, ln_2) = (x.lit(0.0), x.lit(1.0), x.lit(LN_2));
    let above = one.lt(x);
    (x - R::select(above, one, zero)).exp2() * R::select(above, ln_2 + ln_2, ln_2)
}

/// Whether the gamma function has a pole there: at 0 and the negative whole numbers.
#[inline(always)]
pub(crate) fn is_pole<R: Real>(x: R) -> R::Mask {
    x.le(x.lit(0.0)) & x.floor().eq(x) & x.is_finite()
}

/// `x`, or ±1e-10 where the gamma function has a pole.
#[inline(always)]
pub(crate) fn off_poles<R: Real>(x: R) -> R {
    R::select(is_pole(x), x.lit(LEAST).copysign(x), x)
}

/// `y`, within ±`limit`.
fn held(y: Symbol, limit: f64) -> Symbol {
    y.maximum(y.lit(-limit)).minimum(y.lit(limit))
}

/// The density of the normal distribution, `φ(x) = e^(−x²/2)/√(2π)`.
#[inline(always)]
pub(crate) fn normal_density<R: Real>(x: R) -> R {
    x.lit(FRAC_1_SQRT_2 * 0.5 * FRAC_2_SQRT_PI) * x.wide_bell()
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
    // Half the size where that could be too large, and 2⁶⁴ times where the distance would be subnormal
    // and have few digits.
    let size = a.abs().maximum(b.abs());
    let tiny = a.lit(0.0).lt(size) & size.lt(a.lit(1e-18));
    let scale =
        R::select(one.lt(size), half, R::select(tiny, a.lit(18_446_744_073_709_551_616.0), one));
    let (p, q) = (a * scale, b * scale);
    let r = guard(p.hypot(q));
    (p / r, q / r, r / scale)
}

/// `n·xⁿ⁻¹`. At 0, where the power has no derivative, as if `x` were ±1e-10.
#[inline(always)]
pub(crate) fn power_by_base<R: Real>(x: R, n: R) -> R {
    x.nan_or(x.power_times(n, n, 1))
}

/// Where `xⁿ` cannot be differentiated by `x`.
#[inline(always)]
pub(crate) fn no_power_by_base<R: Real>(x: R, n: R) -> R::Mask {
    x.eq(x.lit(0.0)) & n.lt(x.lit(1.0))
}

/// `xⁿ·ln x`; 0 for `x = 0`, and for whole powers of negative numbers.
#[inline(always)]
pub(crate) fn power_by_exponent<R: Real>(x: R, n: R) -> R {
    x.nan_or(x.power_times(n, log_of_base(x), 0))
}

/// `ln x`, 0 where there is none.
#[inline(always)]
fn log_of_base<R: Real>(x: R) -> R {
    let (zero, one) = (x.lit(0.0), x.lit(1.0));
    R::select(zero.lt(x), x, one).log()
}

/// What stands for a denominator that is exactly 0 in a backward rule.
const LEAST: f64 = 1e-10;

/// `x`, or ±1e-10 where it is exactly 0: what backward rules put in a denominator. It is
/// differentiated as `x` is.
#[inline(always)]
pub(crate) fn guard<R: Real>(x: R) -> R {
    let zero = x.lit(0.0);
    x + R::select(x.eq(zero), x.lit(LEAST).copysign(x), zero)
}

/// Likewise for a denominator that is never negative, such as the number under a root: −0 is 0.
#[inline(always)]
pub(crate) fn guard_above<R: Real>(x: R) -> R {
    let zero = x.lit(0.0);
    x + R::select(x.eq(zero), x.lit(LEAST), zero)
}
