//! The error function, its complement and the normal distribution.
//!
//! All rest on `erfc(a) = e^(-a²) erfcx(a)` for `a >= 0`, where `erfcx` falls slowly and smoothly
//! from 1 like `1 / (a √π)`. With
//!
//! ```text
//! p = 2k / (a + k),  t = 1 - p
//! ```
//!
//! `erfcx(a) / p` is a polynomial in `t` all the way. Where `erfc` is the result, every factor is
//! kept as a sum of two floats, so the relative error is that of the one rounding at the end, down
//! to the smallest numbers.

use super::dd::{Dd, fast_two_sum, two_prod};
use super::exp::{exp_dd, exp_lean, power_of_two, two_powers};
use super::{Constants, Float, long_polynomial, polynomial};

/// The constants of the error function in one format.
///
/// The polynomials are from `tools/minimax_trig.py`.
pub trait ErfConstants: Constants {
    /// An `a` from which `erfc(a)` rounds to zero.
    const ERFC_ZERO: Self;
    /// An `a` from which `erf(a)` rounds to one.
    const ERF_ONE: Self;
    /// `k` of the formula above.
    const SCALE: Dd<Self>;
    /// `k √2`, with a few bits less in the first part, to add it exactly.
    const SCALE_SQRT_2: Dd<Self>;
    /// `erfcx(a) / p` in powers of `t`.
    const ERFCX: &'static [Self];
    /// What the first two coefficients of [`ERFCX`](Self::ERFCX) lack.
    const ERFCX_LOW: [Self; 2];
    /// The derivative of that in powers of `t`, to a few bits.
    const ERFCX_SLOPE: &'static [Self];
    /// `erf x / x - 1` in powers of x².
    const ERF: &'static [Self];
    /// `erfcx(a) / p` in powers of `t` with `k = 3`, from `a = 1`, as well as `erf` needs it.
    const ERF_TAIL: &'static [Self];
    /// `k` of [`gelu`]'s formula.
    const NORMAL_SCALE: Self;
    /// How many powers of two it keeps small numbers away from the smallest.
    const NORMAL_DOWN: i64;
    /// `Φ(-a) e^(a²/2) / (1 - t)` in powers of its `t`, from `tools/minimax_gelu.py`, and so many
    /// powers of two less.
    const NORMAL_TAIL: &'static [Self];
}

impl ErfConstants for f32 {
    const ERFC_ZERO: f32 = 10.5;
    const ERF_ONE: f32 = 4.0;
    const SCALE: Dd<f32> = Dd { hi: 3.0, lo: 0.0 };
    const SCALE_SQRT_2: Dd<f32> = Dd { hi: 4.2426376e+00, lo: 3.052842e-06 };
    // For a <= 10.5, so -1 <= t <= 0.556: relative error 2^-28.3.
    const ERFCX: &'static [f32] = &[
        1.7900115e-01,
        -1.4723241e-01,
        9.837139e-02,
        -5.174432e-02,
        1.9921463e-02,
        -4.4734096e-03,
        -2.0425419e-04,
        5.1365525e-04,
        -8.0610356e-05,
        -5.4375047e-05,
    ];
    const ERFCX_LOW: [f32; 2] = [-1.1842586e-09, -1.7833919e-09];
    // Error 2^-8.1 relative to the function itself.
    const ERFCX_SLOPE: &'static [f32] =
        &[-1.466609e-01, 1.948367e-01, -1.6430582e-01, 8.909408e-02];
    // For |x| <= 1: relative error 2^-29.4.
    const ERF: &'static [f32] = &[
        1.2837917e-01,
        -3.7612626e-01,
        1.1283579e-01,
        -2.6853347e-02,
        5.187162e-03,
        -7.997853e-04,
        7.806903e-05,
    ];
    // For 1 <= a <= 4.0: error 2^-32.0 relative to erf(a).
    const ERF_TAIL: &'static [f32] = &[
        1.7900239e-01,
        -1.4720586e-01,
        9.859063e-02,
        -5.0846595e-02,
        2.1819243e-02,
        -2.6628731e-03,
    ];
    const NORMAL_SCALE: f32 = 3.0;
    const NORMAL_DOWN: i64 = 40;
    // For a <= 10.5 √2, so -1 <= t <= 0.664: relative error 2^-23.3.
    const NORMAL_TAIL: &'static [f32] = &[
        1.105_162_9e-13,
        -7.720_585e-14,
        3.486_691e-14,
        -7.162_983e-15,
        -1.588_606_4e-15,
        1.048_538e-15,
        1.627_553_8e-16,
        -1.355_203_5e-16,
        -3.947_090_8e-17,
    ];
}

impl ErfConstants for f64 {
    const ERFC_ZERO: f64 = 28.0;
    const ERF_ONE: f64 = 6.0;
    const SCALE: Dd<f64> = Dd { hi: 4.0, lo: 0.0 };
    const SCALE_SQRT_2: Dd<f64> = Dd { hi: 5.656854249492369e+00, lo: 1.1159627723563511e-14 };
    // For a <= 28.0, so -1 <= t <= 0.75: relative error 2^-60.6.
    const ERFCX: &'static [f64] = &[
        1.3699945762506138e-01,
        -1.2206859113511026e-01,
        9.665108778315466e-02,
        -6.760672891415435e-02,
        4.135644848474933e-02,
        -2.175136715499183e-02,
        9.5476893637307e-03,
        -3.296256667553104e-03,
        7.640069559487176e-04,
        -3.511985802337724e-05,
        -5.6881576830693196e-05,
        2.210160163301608e-05,
        -4.5444207438361137e-07,
        -2.357611632953344e-06,
        5.869568373562767e-07,
        1.7804096703748625e-07,
        -1.0611836912801701e-07,
        -9.505443358203888e-09,
        1.6001029216677528e-08,
        2.3132463549139833e-10,
        -2.3220797025095835e-09,
        -1.0614776144818634e-10,
        2.6149886538900354e-10,
        5.178862717379044e-11,
    ];
    const ERFCX_LOW: [f64; 2] = [7.154286471446554e-18, 1.0493189109822177e-17];
    // Error 2^-8.8 relative to the function itself.
    const ERFCX_SLOPE: &'static [f64] = &[
        -1.2234428930396117e-01,
        1.9380058737791567e-01,
        -1.9579047356229032e-01,
        1.5825135740529953e-01,
        -1.33986634185087e-01,
        7.31080557795255e-02,
    ];
    // For |x| <= 1: relative error 2^-56.3.
    const ERF: &'static [f64] = &[
        1.283791670955126e-01,
        -3.76126389031841e-01,
        1.1283791670971101e-01,
        -2.6866170648032265e-02,
        5.223977652709542e-03,
        -8.548328537129673e-04,
        1.2055386255182754e-04,
        -1.4926883272704112e-05,
        1.648109295711889e-06,
        -1.655754087318428e-07,
        1.601628870001751e-08,
        -1.6477499802136119e-09,
        1.4366311804903762e-10,
    ];
    // For 1 <= a <= 6.0: error 2^-59.3 relative to erf(a).
    const ERF_TAIL: &'static [f64] = &[
        1.7900115118140014e-01,
        -1.4723240886122563e-01,
        9.837139285107084e-02,
        -5.1744543833674585e-02,
        1.9921290003601648e-02,
        -4.471238838495287e-03,
        -2.0225293272152668e-04,
        5.050391936125525e-04,
        -9.273647563189687e-05,
        -4.7570524762622e-05,
        1.8171330147333272e-05,
        7.761310448300328e-06,
    ];
    const NORMAL_SCALE: f64 = 6.0;
    const NORMAL_DOWN: i64 = 128;
    // For a <= 28 √2, so -1 <= t <= 0.737: relative error 2^-55.8.
    const NORMAL_TAIL: &'static [f64] = &[
        1.903_692_950_963_214e-40,
        -1.716_733_654_498_909e-40,
        1.393_374_412_753_948_5e-40,
        -1.013_627_764_300_593_9e-40,
        6.562_546_086_515_386e-41,
        -3.739_057_297_383_414e-41,
        1.840_920_046_023_933e-41,
        -7.588_138_194_092_484e-42,
        2.456_249_480_203_967e-42,
        -5.220_187_369_647_567e-43,
        8.049_687_934_233_268e-45,
        4.441_425_902_935_554e-44,
        -1.585_739_356_851_920_9e-44,
        2.632_010_837_010_742_5e-46,
        1.664_292_232_060_342e-45,
        -4.403_150_933_004_539e-46,
        -1.049_445_371_755_724_2e-46,
        7.551_243_326_993_26e-47,
        1.493_866_536_978_429e-48,
        -1.031_351_289_525_731_4e-47,
        7.578_206_100_124_112e-49,
        1.255_161_286_872_292e-48,
        -9.304_586_390_462_15e-50,
        -1.001_741_641_155_066_4e-49,
    ];
}

/// `c + t q`.
#[inline(always)]
fn step<F: Float>(t: F, q: Dd<F>, c: Dd<F>) -> Dd<F> {
    let hi = t.fma(q.hi, c.hi);
    Dd::new(hi, t.fma(q.hi, c.hi - hi) + t.fma(q.lo, c.lo))
}

/// The two factors of `erfcx(a)`, `p` and the polynomial, for `0 <= a <=` [`ErfConstants::ERFC_ZERO`], where
/// `k` is the constant of the formula; also with both multiplied by √2.
#[inline(always)]
pub(super) fn erfcx_factors<F: ErfConstants>(a: F, k: Dd<F>) -> (Dd<F>, Dd<F>) {
    // Exact in either order, as the last place of the sum divides `k.hi`.
    let below = fast_two_sum(k.hi, a);
    let below = Dd::new(below.hi, below.lo + k.lo);
    let p = k.scaled(F::lit(2.0)).over(below);
    let rest = fast_two_sum(F::lit(1.0), -p.hi);
    let (t, lacking) = (rest.hi, rest.lo - p.lo);
    // Horner's rule, with the last two steps in two parts, and the first ones in blocks.
    let mut inner = long_polynomial(t, &F::ERFCX[6..]);
    for &c in F::ERFCX[2..6].iter().rev() {
        inner = inner.fma(t, c);
    }
    let [low0, low1] = F::ERFCX_LOW;
    let middle = step(t, Dd::new(inner, F::lit(0.0)), Dd::new(F::ERFCX[1], low1));
    let outer = step(t, middle, Dd::new(F::ERFCX[0], low0));
    // All of this at t alone; what t lacks counts once, at the end.
    let slope = polynomial(t, F::ERFCX_SLOPE);
    (p, Dd::new(outer.hi, lacking.fma(slope, outer.lo)))
}

/// `scale · erfc(a)` for `a >= 0`, where `square` is a² and `k` the constant of the formula; also
/// with both `a` and `k` multiplied by √2.
#[inline(always)]
fn erfc_positive<F: ErfConstants>(a: F, k: Dd<F>, square: Dd<F>, scale: F) -> F {
    let (p, quotient) = erfcx_factors(a, k);
    // e^(-hi - lo) = e^-hi (1 - lo)
    let (n, exp) = exp_dd(-square.hi);
    let exp = exp.renormalized();
    let exp = Dd::new(exp.hi, (-square.lo).fma(exp.hi, exp.lo));
    let (first, second) = two_powers::<F>(n);
    exp.times(p).times(quotient).value() * scale * first * second
}

/// `a`, but no more than `high`; no number stays none.
#[inline(always)]
fn at_most<F: Float>(a: F, high: F) -> F {
    F::select(a > high, high, a)
}

/// The error function `erf x = 2/√π ∫₀ˣ e^(-t²) dt`.
#[inline(always)]
pub fn erf<F: ErfConstants>(x: F) -> F {
    let one = F::lit(1.0);
    let a = at_most(x.abs(), F::ERF_ONE);
    let square = a * a;
    let small = a.fma(long_polynomial(square, F::ERF), a);
    // 1 - e^(-a²) erfcx(a), at most one sixth of which is subtracted, so one part will do.
    let p = F::lit(6.0) / (a + F::lit(3.0));
    let erfcx = p * polynomial(one - p, F::ERF_TAIL);
    let (n, power) = exp_dd(-square);
    let (first, second) = two_powers::<F>(n);
    let large = (power.value() * first * -second).fma(erfcx, one);
    F::select(a < one, small, large).copysign(x)
}

/// The complement `erfc x = 1 - erf x`, accurate also where it is small.
#[inline(always)]
pub fn erfc<F: ErfConstants>(x: F) -> F {
    let a = at_most(x.abs(), F::ERFC_ZERO);
    let tail = erfc_positive(a, F::SCALE, two_prod(a, a), F::lit(1.0));
    F::select(x < F::lit(0.0), F::lit(2.0) - tail, tail)
}

/// The normal distribution function `Φ(x) = erfc(-x/√2) / 2`, accurate also where it is small.
#[inline(always)]
pub fn normal_cdf<F: ErfConstants>(x: F) -> F {
    let half = F::lit(0.5);
    let a = at_most(x.abs(), F::ERFC_ZERO * F::lit(std::f64::consts::SQRT_2));
    let tail = erfc_positive(a, F::SCALE_SQRT_2, two_prod(a, a).scaled(half), half);
    F::select(x > F::lit(0.0), F::lit(1.0) - tail, tail)
}

/// What [`gelu`] and its slope are made of, for `a = |x|`, held where `Φ(-a)` has not long vanished:
/// `a`, `e^(-a²/2) / s`, and `s Φ(-a) e^(a²/2)` for an `s` so small that the first is a normal number
/// where it is not with `s = 1`.
///
/// The quotient falls slowly and smoothly from a half like `1 / (a √(2π))`. It is a polynomial in
/// `t = (a - k) / (a + k)`, times `1 - t = 2k / (a + k)`, all the way.
#[inline(always)]
fn normal_tail<F: ErfConstants>(x: F) -> (F, F, F) {
    let a = at_most(x.abs(), F::ERFC_ZERO * F::lit(std::f64::consts::SQRT_2));
    let rest = (F::NORMAL_SCALE + F::NORMAL_SCALE) / (a + F::NORMAL_SCALE);
    let quotient = rest * long_polynomial(F::lit(1.0) - rest, F::NORMAL_TAIL);
    // -a²/2 in two parts.
    let half = a * F::lit(0.5);
    let square = half * a;
    let (k, p) = exp_lean(-square, Some((-half).fma(a, square)));
    let scale = power_of_two::<F>(F::add_bits(k, F::int(F::NORMAL_DOWN)));
    (a, p * scale, quotient)
}

/// `x Φ(x)` with the normal distribution function `Φ`, accurate also where it is small: within 8
/// units in the last place.
#[inline(always)]
pub fn gelu<F: ErfConstants>(x: F) -> F {
    // x Φ(x) = max(x, 0) - a Φ(-a) for a = |x|. A zero keeps its sign, and what vanishes below has x's.
    let (a, power, quotient) = normal_tail(x);
    F::select(x >= F::lit(0.0), x, F::lit(-0.0)) - (a * power) * quotient
}

/// The derivative of [`gelu`], `Φ(x) + x Φ'(x)`, with an error of as much relative to its two terms.
#[inline(always)]
pub fn gelu_slope<F: ErfConstants>(x: F) -> F {
    // Φ(-a) - a e^(-a²/2) / √(2π) at -a, and what that lacks of one at a.
    let (a, power, quotient) = normal_tail(x);
    let density = F::lit(-0.398_942_280_401_432_7 * 0.5f64.powi(F::NORMAL_DOWN as i32));
    let below = a.fma(density, quotient) * power;
    F::select(x < F::lit(0.0), below, F::lit(1.0) - below)
}
