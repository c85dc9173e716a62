//! The logarithm of the normal distribution function, and the inverses of it and of the error function.
//!
//! All are computed in `f64`, for `f32` too, which has then all its digits. The inverses are polynomials in
//! the middle; in the tail they are `r` times one in `(r − k)/(r + k)`, where `r² = −ln p`. Their slopes are not
//! `e^(y²)` of a rounded `y`, which would lose y² units, but `erfcx(y)/(1 − x)`, which is the same.

use super::dd::Dd;
use super::erf::{ErfConstants, erfcx_factors};
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
/// `½√π`.
const HALF_SQRT_PI: f64 = 0.886_226_925_452_758;
/// `√(π/2)`.
const SQRT_HALF_PI: f64 = 1.253_314_137_315_500_3;
/// What stands for a distance from the end of the domain that is 0 in a derivative.
const LEAST: f64 = 1e-10;

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
    let slope = SQRT_HALF_PI * erfcx(ndtri_at(m), f64::SCALE_SQRT_2).value() / m;
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
