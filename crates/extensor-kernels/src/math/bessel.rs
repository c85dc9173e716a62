//! The modified Bessel functions `I₀` and `I₁`, as they are and times `e^−|x|`, and all their derivatives.
//!
//! All are computed in `f64`, for `f32` too, which has then all its digits. With `u = 1 − cos θ`,
//!
//! ```text
//! (−1)ⁿ dⁿ/daⁿ e^−a I₀(a) = 1/π ∫ uⁿ e^−au dθ   from 0 to π
//! ```
//!
//! for `a >= 0`: nothing in it cancels. For `n = 0` and `1` there are polynomials, and `I₁` is made of these two far
//! away and of one more near 0; for other `n` a sum over equally spaced θ, which is right to the last digits as soon
//! as there are enough of them, or the series in `1/a`, whose terms are all positive too.

use super::dd::{Dd, two_sum};
use super::exp::{exp, exp_dd, expm1, two_powers};
use super::trig::{cos_pi, sin_pi};
use super::{Float, long_polynomial, polynomial};

/// `(1 + a) e^−a I₀(a)` for `a <= 8`, in powers of `t = (5a − 16)/(a + 16)`, which goes from −1 to 1: the
/// first in two parts and the others. These polynomials are from `tools/minimax_special.py`. Relative error 2^-56.6.
const ZERO_NEAR: (Dd<f64>, &[f64]) = (
    Dd { hi: 0.9839290930131008, lo: -2.0837351255010215e-17 },
    &[
        0.233_663_827_242_638_2,
        0.127_633_712_802_815_3,
        -0.110_924_895_076_756_33,
        0.088_348_885_752_263_77,
        -0.034_731_867_909_357_68,
        -0.012_800_774_168_789_148,
        0.034_977_137_984_156_36,
        -0.032_617_143_071_953_694,
        0.019_836_032_761_904_786,
        -0.008_573_364_933_421_104,
        0.002_600_107_515_138_415,
        -0.000_490_394_222_100_456_7,
        0.000_025_528_622_735_539_408,
        0.000_013_146_419_248_059_852,
        -2.971_066_949_636_632e-6,
        -1.417_382_849_973_422_2e-7,
        1.226_571_436_136_241_5e-7,
        -1.597_464_477_043_108_2e-9,
        -4.540_313_826_438_293e-9,
        9.978_510_137_444_641e-11,
        1.716_232_068_127_383_2e-10,
        8.847_930_007_279_046e-13,
        -6.312_506_914_873_508e-12,
        -2.575_462_677_136_852_3e-13,
        1.762_611_975_521_635_3e-13,
    ],
);
/// Likewise of `(1 + a)(1 + a/4) e^−a (I₀(a) − I₁(a))`: relative error 2^-52.7.
const FALL_NEAR: (Dd<f64>, &[f64]) = (
    Dd { hi: 0.312153977985628, lo: -1.8379179852165407e-17 },
    &[
        -0.194_760_439_282_026_74,
        0.278_630_798_100_482_97,
        -0.259_966_549_039_358_6,
        0.158_853_717_608_858_6,
        -0.022_890_986_168_842_09,
        -0.068_135_551_717_965_15,
        0.084_016_201_792_727_2,
        -0.053_994_454_561_392_66,
        0.020_625_024_542_936_857,
        -0.003_131_169_235_642_844_7,
        -0.001_346_144_615_042_040_8,
        0.001_008_622_312_832_775,
        -0.000_280_460_648_671_691_24,
        0.000_021_573_206_857_727_85,
        8.908_288_043_708_072e-6,
        -2.219_496_241_747_282e-6,
        -1.617_431_647_500_112e-7,
        1.056_809_519_816_444_4e-7,
        2.616_568_874_017_532_6e-9,
        -4.440_797_663_248_129_5e-9,
        -1.392_038_794_604_074_3e-10,
        1.788_083_710_106_516e-10,
        1.279_213_573_844_892_4e-11,
        -6.501_420_567_071_174_4e-12,
        -7.051_788_602_962_593e-13,
        1.748_990_524_379_241_4e-13,
    ],
);
/// Likewise of `(1 + a)(1 + a/4) e^−a I₁(a)/a`: relative error 2^-55.7.
const ONE_NEAR: (Dd<f64>, &[f64]) = (
    Dd { hi: 0.45591199669936044, lo: 1.8308154171049724e-17 },
    &[
        -0.059_617_128_035_684_97,
        0.075_978_407_233_735_63,
        -0.015_788_368_107_803_454,
        -0.021_203_497_551_168_22,
        0.035_314_028_459_020_83,
        -0.029_165_015_885_657_602,
        0.015_925_975_802_497_036,
        -0.005_590_625_745_963_453,
        0.000_812_706_268_793_173_3,
        0.000_351_586_519_103_457_6,
        -0.000_271_559_851_906_984_46,
        0.000_083_904_749_788_502_13,
        -0.000_010_810_968_784_599_407,
        -1.277_971_087_766_896_6e-6,
        6.361_846_982_096_366e-7,
        -2.262_740_968_412_031_4e-8,
        -2.312_718_757_393_061_5e-8,
        2.093_209_922_575_033e-9,
        8.401_320_285_193_454e-10,
        -8.461_398_036_039_734e-11,
        -3.367_767_007_881_130_6e-11,
        2.130_991_244_735_361_2e-12,
        1.375_627_442_814_273e-12,
        2.840_778_543_444_666_7e-15,
        -4.348_021_543_227_147e-14,
        -2.927_316_440_851_018_3e-15,
    ],
);
/// `√a e^−a I₀(a)` for `a >= 8`, in powers of `t = 16/a − 1`: relative error 2^-59.5.
const ZERO_FAR: (Dd<f64>, &[f64]) = (
    Dd { hi: 0.4021765094450081, lo: -2.5218156853032793e-17 },
    &[
        0.003_360_551_983_667_888_3,
        0.000_136_216_074_392_323_56,
        0.000_011_143_033_788_131_033,
        1.483_847_543_912_723_2e-6,
        2.973_599_453_596_351e-7,
        8.872_267_756_939_073e-8,
        3.932_460_454_175_899e-8,
        2.154_291_069_599_153e-8,
        7.564_624_823_401_776e-9,
        -6.710_610_786_073_941e-9,
        -1.345_814_356_523_395_1e-8,
        -5.565_901_964_191_835e-9,
        7.711_930_389_297_511e-9,
        7.900_014_416_944_938e-9,
        -3.852_603_442_145_611_5e-9,
        -6.889_961_201_604_945e-9,
        2.030_700_474_539_281e-9,
        4.919_713_600_279_012e-9,
        -1.074_033_968_528_156_3e-9,
        -2.803_262_258_741_595e-9,
        4.690_823_338_351_393e-10,
        1.163_497_293_991_623_4e-9,
        -1.354_340_044_643_753_7e-10,
        -3.056_092_457_780_293e-10,
        1.845_163_951_341_708_4e-11,
        3.760_084_608_173_312_4e-11,
    ],
);
/// Likewise of `a√a e^−a (I₀(a) − I₁(a))`: relative error 2^-57.6.
const FALL_FAR: (Dd<f64>, &[f64]) = (
    Dd { hi: 0.20444880670617194, lo: -3.931581171436933e-18 },
    &[
        0.005_313_260_124_286_677,
        0.000_373_969_287_342_689_5,
        0.000_044_936_008_406_590_27,
        8.164_113_826_272_653e-6,
        2.167_816_896_833_196e-6,
        8.519_660_644_305_862e-7,
        4.672_562_842_971_131e-7,
        2.512_395_938_284_376e-7,
        4.987_779_969_226_278e-9,
        -2.188_093_614_526_945_3e-7,
        -2.230_890_523_582_258e-7,
        3.207_797_846_924_674e-8,
        2.214_530_557_658_795_7e-7,
        5.257_841_750_862_021_6e-8,
        -1.903_876_666_620_095_6e-7,
        -7.074_285_282_125_085e-8,
        1.675_381_093_216_103e-7,
        5.929_758_512_650_566_4e-8,
        -1.422_191_769_376_322e-7,
        -3.788_457_148_425_633_6e-8,
        1.042_417_721_808_435_5e-7,
        1.831_319_157_272_502_8e-8,
        -5.975_092_738_927_29e-8,
        -6.280_396_899_600_01e-9,
        2.435_366_306_719_855e-8,
        1.351_416_963_748_596_4e-9,
        -6.186_608_212_396_533e-9,
        -1.362_780_456_001_548_4e-10,
        7.305_886_105_509e-10,
    ],
);
/// From here on there is nothing but ∞ in either.
const MOST: f64 = 800.0;
/// `√(2π)`.
const SQRT_TAU: Dd<f64> = Dd { hi: 2.5066282746310007, lo: -1.8328579980459167e-16 };

/// `I₀(x)`.
#[inline(always)]
pub fn i0<F: Float>(x: F) -> F {
    let a = held(x.to_f64().abs());
    F::lit(grown(scaled_zero(a), a))
}

/// `I₁(x)`, the derivative of [`i0`].
#[inline(always)]
pub fn i1<F: Float>(x: F) -> F {
    let x = x.to_f64();
    let a = held(x.abs());
    F::lit(grown(scaled_one(a), a).copysign(x))
}

/// The derivative of [`i1`], `I₀(x) − I₁(x)/x`.
#[inline(always)]
pub fn i1_slope<F: Float>(x: F) -> F {
    let a = held(x.to_f64().abs());
    F::lit(grown(scaled_zero(a) - scaled_one_by(a), a))
}

/// `e^−|x| I₀(x)`.
#[inline(always)]
pub fn i0e<F: Float>(x: F) -> F {
    F::lit(scaled_zero(x.to_f64().abs()))
}

/// The derivative of [`i0e`], 0 at its kink at 0.
#[inline(always)]
pub fn i0e_slope<F: Float>(x: F) -> F {
    let x = x.to_f64();
    let slope = scaled_fall(x.abs()).copysign(-x);
    F::lit(f64::select(x == 0.0, 0.0, slope))
}

/// `e^−|x| I₁(x)`.
#[inline(always)]
pub fn i1e<F: Float>(x: F) -> F {
    let x = x.to_f64();
    F::lit(scaled_one(x.abs()).copysign(x))
}

/// The derivative of [`i1e`].
#[inline(always)]
pub fn i1e_slope<F: Float>(x: F) -> F {
    let a = x.to_f64().abs();
    F::lit(scaled_fall(a) - scaled_one_by(a))
}

/// The derivative number `n` of [`i0`].
#[inline(always)]
pub fn i0_derivative<F: Float>(x: F, n: u8) -> F {
    F::lit(i0_nth(x.to_f64(), n))
}

/// The derivative number `n` of [`i0e`]: 0 at its kink at 0 where both sides differ.
#[inline(always)]
pub fn i0e_derivative<F: Float>(x: F, n: u8) -> F {
    F::lit(i0e_nth(x.to_f64(), n))
}

/// `a`, but no more than suffices for `e^a` to overflow; no number stays none.
#[inline(always)]
fn held(a: f64) -> f64 {
    f64::select(a > MOST, MOST, a)
}

/// `value · e^a`, where that may be within the range though `e^a` is not.
#[inline(always)]
fn grown(value: f64, a: f64) -> f64 {
    let (k, p) = exp_dd(a);
    let (first, second) = two_powers::<f64>(k);
    p.hi.mul_add(value, p.lo * value) * first * second
}

/// A polynomial of 25 to 36 terms, the first of which is in two parts: what is rounded last is the sum with it.
#[inline(always)]
fn longest_polynomial(x: f64, (first, c): (Dd<f64>, &[f64])) -> f64 {
    let low = polynomial(x, &c[..12]);
    let x4 = (x * x) * (x * x);
    let rest = long_polynomial(x, &c[12..]).mul_add(x4 * (x4 * x4), low);
    first.hi + x.mul_add(rest, first.lo)
}

#[inline(always)]
fn near(a: f64, c: (Dd<f64>, &[f64]), power: f64) -> f64 {
    longest_polynomial(5.0f64.mul_add(a, -16.0) / (a + 16.0), c) / power
}

#[inline(always)]
fn far(a: f64, c: (Dd<f64>, &[f64])) -> f64 {
    longest_polynomial(16.0 / a - 1.0, c) / a.sqrt()
}

/// `e^−a I₀(a)`.
#[inline(always)]
fn scaled_zero(a: f64) -> f64 {
    f64::select(a < 8.0, near(a, ZERO_NEAR, 1.0 + a), far(a, ZERO_FAR))
}

/// `e^−a (I₀(a) − I₁(a))`.
#[inline(always)]
fn scaled_fall(a: f64) -> f64 {
    f64::select(a < 8.0, near(a, FALL_NEAR, (1.0 + a) * (1.0 + 0.25 * a)), far(a, FALL_FAR) / a)
}

/// `e^−a I₁(a)`.
#[inline(always)]
fn scaled_one(a: f64) -> f64 {
    f64::select(
        a < 8.0,
        a * near(a, ONE_NEAR, (1.0 + a) * (1.0 + 0.25 * a)),
        far(a, ZERO_FAR) - far(a, FALL_FAR) / a,
    )
}

/// `e^−a I₁(a)/a`.
#[inline(always)]
fn scaled_one_by(a: f64) -> f64 {
    let beyond = (far(a, ZERO_FAR) - far(a, FALL_FAR) / a) / a;
    f64::select(a < 8.0, near(a, ONE_NEAR, (1.0 + a) * (1.0 + 0.25 * a)), beyond)
}

/// `xⁿ` for a number from 0 to 2.
#[inline(always)]
fn power(x: f64, n: u8) -> f64 {
    (0..n).fold(1.0, |product, _| product * x)
}

/// A sum and one term more.
#[inline(always)]
fn added(sum: Dd<f64>, term: f64) -> Dd<f64> {
    let next = two_sum(sum.hi, term);
    Dd::new(next.hi, sum.lo + next.lo)
}

/// `1/π ∫ cosⁿ θ e^(x cos θ) dθ`, in which θ and π − θ are taken together.
#[inline(always)]
fn i0_nth(x: f64, n: u8) -> f64 {
    let (a, odd) = (x.abs(), n % 2 == 1);
    if x.is_nan() || odd && x == 0.0 {
        return x;
    }
    let a = held(a);
    // What is not seen of a function of θ between so many points is its waves that are shorter.
    let half = ((f64::from(n) + 20.0 + (80.0 * a).sqrt()) / 4.0).ceil();
    let mut sum = Dd::new(0.0, 0.0);
    for j in 0..half as usize {
        let turn = (j as f64 + 0.5) / (2.0 * half);
        let (c, sine) = (cos_pi(turn), sin_pi(0.5 * turn));
        let other = -2.0 * a * c;
        let both = if odd { -expm1(other) } else { 1.0 + exp(other) };
        sum = added(sum, power(c, n) * exp(-2.0 * a * sine * sine) * both);
    }
    let value = grown(sum.value() / (2.0 * half), a);
    if odd { value.copysign(x) } else { value }
}

#[inline(always)]
fn i0e_nth(x: f64, n: u8) -> f64 {
    let (a, odd, order) = (x.abs(), n % 2 == 1, f64::from(n));
    if x.is_nan() || odd && x == 0.0 {
        return x;
    }
    let value = if a < 30.0 + 2.0 * order {
        let count = ((order + 20.0 + (a * (80.0 + 10.0 * order)).sqrt()) / 2.0).ceil();
        let mut sum = Dd::new(0.0, 0.0);
        for j in 0..count as usize {
            let sine = sin_pi((j as f64 + 0.5) / (2.0 * count));
            let u = 2.0 * sine * sine;
            sum = added(sum, power(u, n) * exp(-a * u));
        }
        sum.value() / count
    } else {
        // Γ(n + ½)/(π √2 aⁿ√a) (1 + …)
        let inverse = 1.0 / a;
        let (mut term, mut sum, mut j) = (1.0, Dd::new(0.0, 0.0), 0.0);
        while term > 1e-18 * sum.hi {
            sum = added(sum, term);
            term *= (j + 0.5) * (order + j + 0.5) * 0.5 * inverse / (j + 1.0);
            j += 1.0;
        }
        let by = Dd::new(a, 0.0);
        let lead = sum.renormalized().over(SQRT_TAU.times(by.sqrt().renormalized()).renormalized());
        let step = |value: Dd<f64>, i| {
            value.times(Dd::new(f64::from(i) + 0.5, 0.0)).over(by).renormalized()
        };
        (0..n).fold(lead.renormalized(), step).value()
    };
    if odd { value.copysign(-x) } else { value }
}
