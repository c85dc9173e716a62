//! The logarithm of the normal distribution function, and the inverses of it and of the error function.
//!
//! All are computed in `f64`, for `f32` too, which has then all its digits. The inverses are polynomials in
//! the middle; in the tail they are `r` times one in `(r − k)/(r + k)`, where `r² = −ln p`. Their slopes are not
//! `e^(y²)` of a rounded `y`, which would lose y² units, but `erfcx(y)/(1 − x)`, which is the same.
//!
//! The slope of `ln Φ(−a)` is minus the hazard `λ(a) = φ(a)/Φ(−a)`, and `λ′ = λ (λ − a)`: far below 0, where `λ` is `a`
//! and little more, `λ − a` is what there is a polynomial for.

use super::dd::{Dd, fast_two_sum, two_prod, two_sum};
use super::erf::{ErfConstants, erfcx_factors};
use super::exp::{exp_dd, two_powers};
use super::log::log_dd;
use super::{Float, long_polynomial};
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

/// `erfinv(x) / x` in powers of x² for `|x| <= 0.65`: relative error 2^-54.4. These polynomials are from
/// `tools/minimax_special.py`.
const CENTRAL: &[f64] = &[
    0.886_226_925_452_758,
    0.232_013_666_534_654_7,
    0.127_556_175_305_533_8,
    0.086_552_129_249_415_15,
    0.064_959_617_235_695_39,
    0.051_731_302_133_423_54,
    0.042_836_191_239_380_81,
    0.036_475_700_899_479_99,
    0.031_557_472_759_097_72,
    0.029_305_476_991_570_045,
    0.014_863_217_946_483_3,
    0.082_543_773_200_021_89,
    -0.252_685_022_621_709_17,
    0.980_894_529_640_237_3,
    -2.575_701_283_581_249_6,
    5.281_097_746_803_395,
    -7.798_905_289_545_171,
    8.054_184_061_638_544,
    -5.156_688_850_622_141_6,
    1.610_256_091_244_271,
];
/// `y/r` where `Φ(−y) = e^(−r²)`, from p = 0.175 to `r = 5.2`, with this `k`: relative error
/// 2^-54.7.
const NEAR: &[f64] = &[
    1.174_554_614_477_535,
    0.774_523_576_775_471_1,
    -1.200_834_614_486_459_7,
    1.431_245_401_031_650_4,
    -1.594_221_215_856_974_2,
    1.711_279_524_094_555,
    -1.804_984_734_801_374_1,
    1.881_467_361_603_117,
    -1.947_023_897_460_081_8,
    2.003_452_665_401_522_6,
    -2.053_403_823_688_521_7,
    2.097_775_360_079_844,
    -2.137_879_586_940_771_4,
    2.174_202_252_317_240_6,
    -2.208_835_538_712_369_5,
    2.241_093_948_299_526,
    -2.252_599_417_705_951_6,
    2.264_107_210_355_607_7,
    -2.454_041_326_109_039,
    2.575_025_033_447_858,
    -1.588_477_938_980_283,
    1.249_038_777_672_392_1,
    -4.808_643_412_396_003,
    5.410_640_115_954_169,
];
const NEAR_SCALE: f64 = 2.62;
/// Likewise beyond, down to the smallest number: relative error 2^-54.3.
const FAR: &[f64] = &[
    1.395_534_517_539_591_7,
    0.064_985_288_560_955,
    -0.110_766_474_610_267_13,
    0.144_274_801_051_724_83,
    -0.172_173_799_598_184_5,
    0.195_759_230_632_222_17,
    -0.216_314_642_875_661_18,
    0.234_365_454_082_320_18,
    -0.250_441_721_884_779_4,
    0.264_827_172_141_704,
    -0.277_815_749_232_162_5,
    0.289_584_946_020_145_1,
    -0.300_219_247_888_896_3,
    0.309_940_230_795_927_75,
    -0.320_396_710_357_020_83,
    0.329_781_514_771_013,
    -0.322_850_120_170_870_1,
    0.322_424_914_061_208_4,
    -0.428_724_674_121_132_47,
    0.469_948_205_125_392_1,
    -0.047_411_419_438_211_85,
    -0.038_638_971_094_928_413,
    -1.025_090_688_915_535_8,
    1.136_781_171_014_066_7,
];
const FAR_SCALE: f64 = 11.93;
/// `(1 + a)(λ(a) − a)` for `a <= 8`, in powers of `t = (2a − 4)/(a + 4)`, which goes from −1 to 1: the first
/// in two parts and the others: relative error 2^-57.8.
const HAZARD_NEAR: (Dd<f64>, &[f64]) = (
    Dd { hi: 1.1196465984685227, lo: -5.532464596688839e-17 },
    &[
        0.091_134_694_741_791_31,
        -0.181_640_428_919_697_42,
        0.064_683_107_640_709_6,
        0.007_077_162_938_700_285,
        -0.009_843_576_546_784_666,
        0.000_091_610_199_632_756_9,
        0.001_418_061_980_877_489_4,
        -0.000_091_875_708_137_401_54,
        -0.000_203_449_296_487_528_48,
        0.000_018_109_903_533_602_956,
        0.000_028_937_307_839_547_28,
        -2.706_103_041_581_287e-6,
        -4.033_675_209_049_530_4e-6,
        3.532_915_542_620_411e-7,
        5.458_689_073_942_206e-7,
        -4.333_391_839_249_685e-8,
        -7.133_522_175_825_38e-8,
        5.294_251_911_490_813_6e-9,
        8.875_500_063_199_432e-9,
        -6.154_509_464_161_24e-10,
        -9.685_624_589_864_264e-10,
        4.799_006_569_127_755e-11,
        6.771_443_948_116_146e-11,
    ],
);
/// `a (λ(a) − a)` for `a >= 8`, in powers of `a⁻²`: relative error 2^-58.2.
const HAZARD_FAR: &[f64] = &[
    1.0,
    -1.999_999_999_999_965_8,
    9.999_999_999_874_037,
    -73.999_999_817_562_45,
    705.999_862_264_999_8,
    -8_161.937_800_939_428,
    110_391.831_515_010_01,
    -1_704_795.502_932_153_4,
    29_254_963.820_362_926,
    -527_381_287.060_718_5,
    8_874_825_843.331_804,
    -114_100_852_522.419_56,
    777_135_599_837.158_9,
];
/// `½√π`.
const HALF_SQRT_PI: f64 = 0.886_226_925_452_758;
/// `√(π/2)`.
const SQRT_HALF_PI: Dd<f64> = Dd { hi: 1.2533141373155003, lo: -9.164289990229583e-17 };
/// What stands for a distance from the end of the domain that is 0 in a derivative.
const LEAST: f64 = 1e-10;
/// `√(2π)`.
const SQRT_TAU: f64 = 2.506_628_274_631_000_7;
/// `1/√(2π)`.
const DENSITY: Dd<f64> = Dd { hi: 0.3989422804014327, lo: -2.49232720227773e-17 };
/// From here on `Φ(−a)` is 0, and before it `erfcx(a/√2)` is right.
const NOTHING: f64 = 39.5;

/// The inverse of [`erf`](super::erf()), defined from −1 to 1.
#[inline(always)]
pub fn erfinv<F: Float>(x: F) -> F {
    let x = x.to_f64();
    let a = x.abs();
    let value = erfinv_at(a, 1.0 - a).copysign(x);
    let value = f64::select(a == 1.0, f64::INFINITY.copysign(x), value);
    F::lit(f64::select(a <= 1.0, value, f64::NAN))
}

/// The derivative of [`erfinv`], `½√π e^(y²)`; at ±1 as if they were 10⁻¹⁰ away.
#[inline(always)]
pub fn erfinv_slope<F: Float>(x: F) -> F {
    let a = x.to_f64().abs();
    let c = 1.0 - a;
    let c = f64::select(c == 0.0, LEAST, c);
    let slope = HALF_SQRT_PI * erfcx(erfinv_at(a, c), f64::SCALE).value() / c;
    F::lit(f64::select(a <= 1.0, slope, f64::NAN))
}

/// The inverse of the normal distribution function, defined from 0 to 1.
#[inline(always)]
pub fn ndtri<F: Float>(p: F) -> F {
    let p = p.to_f64();
    let (below, less) = (p < 0.5, 1.0 - p);
    let m = f64::select(below, p, less);
    let size = ndtri_at(m);
    let value = f64::select(below, -size, size);
    let infinite = f64::select(below, -f64::INFINITY, f64::INFINITY);
    let value = f64::select(m == 0.0, infinite, value);
    F::lit(f64::select((0.0..=1.0).contains(&p), value, f64::NAN))
}

/// The derivative of [`ndtri`], `√(2π) e^(y²/2)`; at 0 and 1 as if they were 10⁻¹⁰ away.
#[inline(always)]
pub fn ndtri_slope<F: Float>(p: F) -> F {
    let p = p.to_f64();
    let m = f64::select(p < 0.5, p, 1.0 - p);
    let m = f64::select(m == 0.0, LEAST, m);
    let slope = SQRT_HALF_PI.hi * erfcx(ndtri_at(m), f64::SCALE_SQRT_2).value() / m;
    F::lit(f64::select((0.0..=1.0).contains(&p), slope, f64::NAN))
}

/// `erfcx(a) = e^(a²) erfc(a)` for what [`erfcx_factors`] takes.
#[inline(always)]
fn erfcx(a: f64, k: Dd<f64>) -> Dd<f64> {
    let (p, quotient) = erfcx_factors(a, k);
    p.times(quotient).renormalized()
}

/// `erfinv(a)` for `a` from 0 to 1, where `c` is `1 − a`.
#[inline(always)]
fn erfinv_at(a: f64, c: f64) -> f64 {
    let middle = a * long_polynomial(a * a, CENTRAL);
    f64::select(c >= 0.35, middle, tail(0.5 * c) * FRAC_1_SQRT_2)
}

/// `|ndtri(m)|` for `m` from 0 to ½.
#[inline(always)]
fn ndtri_at(m: f64) -> f64 {
    let x = 2.0 * (0.5 - m);
    let middle = (x * SQRT_2) * long_polynomial(x * x, CENTRAL);
    f64::select(m >= 0.175, middle, tail(m))
}

/// The `y` with `Φ(−y) = p` for `p` up to 0.175.
#[inline(always)]
fn tail(p: f64) -> f64 {
    // The logarithm is for normal numbers.
    let tiny = p < f64::MIN_POSITIVE;
    let p = f64::select(tiny, p * (1u64 << 60) as f64, p);
    let log = log_dd(Dd::new(p, 0.0), f64::select(tiny, -60.0, 0.0));
    let r = (-log.value()).sqrt();
    let at = |k: f64| (r - k) / (r + k);
    let near = long_polynomial(at(NEAR_SCALE), NEAR);
    let far = long_polynomial(at(FAR_SCALE), FAR);
    r * f64::select(r < 5.2, near, far)
}

/// The logarithm of the normal distribution function.
#[inline(always)]
pub fn log_ndtr<F: Float>(x: F) -> F {
    let x = x.to_f64();
    let (above, size) = (x > 0.0, x.abs());
    let a = at_most(size, NOTHING);
    let tail = erfcx(a, f64::SCALE_SQRT_2).scaled(0.5);
    // Above 0, ln(1 − Φ(−x)).
    let (k, exp, square) = bell(a);
    let (first, second) = two_powers::<f64>(k);
    let q = exp.times(tail);
    let q = Dd::new(q.hi * first * second, q.lo * first * second);
    let rest = fast_two_sum(1.0, -q.hi);
    let one_less = Dd::new(rest.hi, rest.lo - q.lo);
    // Below, −x²/2 and the logarithm of what is left then, whose square root of 2π times λ is one.
    let far = at_most(size, 1e150);
    let beyond = 1.0 / (SQRT_TAU * (far + hazard_rest(far)));
    let tail = Dd::select(size > a, Dd::new(beyond, 0.0), tail);
    let log = log_dd(Dd::select(above, one_less, tail), 0.0);
    let square = Dd::select(size > a, two_prod(far, far).scaled(0.5), square);
    let sum = two_sum(-square.hi, log.hi);
    let below = sum.hi + (sum.lo + (log.lo - square.lo));
    let below = f64::select(size > far, -0.5 * size * size, below);
    F::lit(f64::select(above, log.value(), below))
}

/// The derivative of [`log_ndtr`], `φ(x)/Φ(x)`.
#[inline(always)]
pub fn log_ndtr_slope<F: Float>(x: F) -> F {
    let x = x.to_f64();
    let hazard = x.abs() + hazard_rest(x.abs());
    let (p, first, second) = density(at_most(x.abs(), NOTHING));
    let above = p / (1.0 - p * first * second / hazard) * first * second;
    F::lit(f64::select(x > 0.0, above, hazard))
}

/// The second derivative of [`log_ndtr`], `−y′ (x + y′)`.
#[inline(always)]
pub fn log_ndtr_bend<F: Float>(x: F) -> F {
    let x = x.to_f64();
    let rest = hazard_rest(x.abs());
    let hazard = x.abs() + rest;
    // The small factor is last, so as to lose nothing where it is no normal number.
    let a = at_most(x.abs(), NOTHING);
    let (p, first, second) = density(a);
    let above = p / (1.0 - p * first * second / hazard);
    let above = above * (a + above * first * second) * first * second;
    let below = f64::select(hazard < f64::INFINITY, hazard * rest, 1.0);
    F::lit(-f64::select(x > 0.0, above, f64::select(x <= 0.0, below, x)))
}

/// The derivative number `n` of [`log_ndtr`], from the first on.
#[inline(always)]
pub fn log_ndtr_derivative<F: Float>(x: F, n: u8) -> F {
    F::lit(log_ndtr_nth(x.to_f64(), n))
}

/// `a`, but no more than `high`; no number stays none.
#[inline(always)]
fn at_most(a: f64, high: f64) -> f64 {
    f64::select(a > high, high, a)
}

/// `λ(a) − a` for `a >= 0`.
#[inline(always)]
fn hazard_rest(a: f64) -> f64 {
    let (t, (first, rest)) = (2.0f64.mul_add(a, -4.0) / (a + 4.0), HAZARD_NEAR);
    let near = (first.hi + t.mul_add(long_polynomial(t, rest), first.lo)) / (1.0 + a);
    let inverse = 1.0 / a;
    let far = inverse * long_polynomial(inverse * inverse, HAZARD_FAR);
    f64::select(a < 8.0, near, far)
}

/// `e^(−a²/2) = 2ᵏ p`, and a²/2.
#[inline(always)]
fn bell(a: f64) -> (i64, Dd<f64>, Dd<f64>) {
    let square = two_prod(a, a).scaled(0.5);
    let (k, exp) = exp_dd(-square.hi);
    let exp = exp.renormalized();
    (k, Dd::new(exp.hi, (-square.lo).mul_add(exp.hi, exp.lo)), square)
}

/// The density `φ(a)` in three factors.
#[inline(always)]
fn density(a: f64) -> (f64, f64, f64) {
    let (k, exp, _) = bell(a);
    let (first, second) = two_powers::<f64>(k);
    (exp.times(DENSITY).value(), first, second)
}

fn log_ndtr_nth(x: f64, n: u8) -> f64 {
    let (a, order) = (-x, usize::from(n.max(1)) - 1);
    if x.is_nan() {
        return x;
    }
    // λ⁽ᵏ⁾(a)/k! for all k up to the order.
    let value = if a > 3.0 {
        continued(a, order)
    } else if a > -20.0 {
        products(a, order)
    } else {
        // All but the density itself has vanished: φ⁽ᵏ⁾(x) = (−1)ᵏ Heₖ(x) φ(x).
        let x = at_most(x, 1e3);
        let (p, first, second) = density(at_most(x, 40.0));
        let (mut last, mut hermite) = (0.0, 1.0);
        for k in 0..order {
            (last, hermite) = (hermite, x * hermite - k as f64 * last);
        }
        return (if order % 2 == 1 { -hermite } else { hermite }) * p * first * second;
    };
    let value = (1..=order).fold(value, |value, k| value * k as f64);
    if order % 2 == 1 { -value } else { value }
}

/// Of `λ(a) = a + 1/(a + 2/(a + 3/(a + …)))`, whose Taylor series at a large `a` lose nothing.
fn continued(a: f64, order: usize) -> f64 {
    let levels = 10 + 4 * order + (1200.0 / (a * a)) as usize;
    let mut t = vec![0.0; order + 1];
    t[0] = a;
    if order > 0 {
        t[1] = 1.0;
    }
    let mut inverse = vec![0.0; order + 1];
    for level in (1..=levels).rev() {
        inverse[0] = 1.0 / t[0];
        for k in 1..=order {
            let sum: f64 = (1..=k).map(|j| t[j] * inverse[k - j]).sum();
            inverse[k] = -sum * inverse[0];
        }
        for k in 0..=order {
            let own = [a, 1.0].get(k).copied().unwrap_or(0.0);
            t[k] = inverse[k].mul_add(level as f64, own);
        }
    }
    t[order]
}

/// `λ(a) = φ(a)/Φ(−a)` for an `a` near 0, with twice the digits.
fn around_zero(a: f64) -> Dd<f64> {
    let sum = |first: f64, factor: Dd<f64>, below: fn(f64) -> f64| {
        let mut term = Dd::new(first, 0.0);
        let (mut sum, mut k) = (term, 1.0);
        while term.hi.abs() > 1e-34 * sum.hi.abs() {
            term = term.times(factor).over(Dd::new(below(k), 0.0)).renormalized();
            sum = sum.plus(term).renormalized();
            k += 1.0;
        }
        sum
    };
    // √(π/2) e^(a²/2) − a − a³/3 − a⁵/15 − … is its inverse.
    let square = two_prod(a, a);
    let whole = sum(1.0, square.scaled(0.5), |k| k).times(SQRT_HALF_PI).renormalized();
    let less = sum(a, square, |k| 2.0 * k + 1.0);
    let inverse = whole.plus(less.scaled(-1.0)).renormalized();
    Dd::new(1.0, 0.0).over(inverse)
}

/// `λ(−x)` for an `x` above 0.
fn above_two(x: f64) -> Dd<f64> {
    let (k, exp, _) = bell(x);
    let (first, second) = two_powers::<f64>(k);
    let scaled = |v: Dd<f64>| Dd::new(v.hi * first * second, v.lo * first * second);
    let q = scaled(exp.times(erfcx(x, f64::SCALE_SQRT_2).scaled(0.5)));
    let rest = fast_two_sum(1.0, -q.hi);
    scaled(exp.times(DENSITY)).over(Dd::new(rest.hi, rest.lo - q.lo))
}

/// From `λ′ = λ (λ − a)`, with twice the digits.
fn products(a: f64, order: usize) -> f64 {
    let first = if a >= -2.0 { around_zero(a) } else { above_two(-a) };
    let mut all = vec![first.renormalized()];
    let less = |all: &[Dd<f64>], k: usize| match k {
        0 => all[0].plus(Dd::new(-a, 0.0)).renormalized(),
        1 => all[1].plus(Dd::new(-1.0, 0.0)).renormalized(),
        _ => all[k],
    };
    for k in 0..order {
        let mut sum = Dd::new(0.0, 0.0);
        for j in 0..=k {
            let product = all[j].times(less(&all, k - j)).renormalized();
            sum = sum.plus(product).renormalized();
        }
        all.push(sum.over(Dd::new(k as f64 + 1.0, 0.0)).renormalized());
    }
    all[order].value()
}
