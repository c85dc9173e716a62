//! The logarithm of the gamma function and its derivatives.
//!
//! All are computed in `f64`, for `f32` too, which has then all its digits. Between 0 and 2½ the logarithm
//! is `ln Γ(2 + z) − ln w` with a polynomial around its zero at 2, and loses nothing at the one at 1;
//! up to 8½ it is brought there by products, beyond is Stirling's series. Negative arguments are reflected. Its
//! derivative has a polynomial around its one positive zero, and likewise.

use super::dd::{Dd, fast_two_sum, two_prod, two_sum};
use super::log::log_dd;
use super::trig::{cos_pi, sin_pi};
use super::{Float, long_polynomial, polynomial};
use std::f64::consts::PI;

/// `(ln Γ(2 + z) / z − (1 − γ)) / z` for `|z| <= ½`: relative error 2^-53.9. These polynomials are from
/// `tools/minimax_special.py`.
const AROUND_TWO: &[f64] = &[
    0.322_467_033_424_113_2,
    -0.067_352_301_053_198_1,
    0.020_580_808_427_783_363,
    -0.007_385_551_028_671_784,
    0.002_890_510_330_867_295_6,
    -0.001_192_753_911_854_905_8,
    0.000_509_669_519_608_054_1,
    -0.000_223_154_753_700_530_36,
    0.000_099_457_617_623_449_77,
    -0.000_044_926_317_444_143_546,
    0.000_020_506_013_703_312_092,
    -9.438_684_352_662_44e-6,
    4.382_882_937_735_414e-6,
    -2.044_037_224_390_564e-6,
    9.242_152_176_337_337e-7,
    -4.322_213_812_903_804_4e-7,
    2.748_239_945_420_202e-7,
    -1.324_841_038_113_092_1e-7,
];
/// `1 − γ`.
const AROUND_TWO_FIRST: Dd<f64> = Dd { hi: 0.42278433509846713, lo: 4.942915152430645e-18 };
/// `12⁻¹ − …`, what Stirling's series lacks of its first terms times `x`, in powers of `x⁻²` for `x >= 8`:
/// relative error 2^-54.0.
const STIRLING: &[f64] = &[
    0.083_333_333_333_333_33,
    -0.002_777_777_777_777_667_7,
    0.000_793_650_793_503_251_4,
    -0.000_595_238_019_660_439_6,
    0.000_841_731_745_516_800_4,
    -0.001_914_884_079_205_980_7,
    0.006_203_939_188_480_4,
    -0.020_772_079_698_947_725,
];
/// `½ ln 2π − ½`.
const STIRLING_REST: Dd<f64> = Dd { hi: 0.4189385332046727, lo: 1.6728209650585413e-17 };
/// The zero of `ψ` above 0.
const PSI_ZERO: Dd<f64> = Dd { hi: 1.4616321449683622, lo: 9.549995429965697e-17 };
/// `ψ(z + 3/2)` over the distance from that zero, for `|z| <= ½`: relative error 2^-54.2.
const PSI_MIDDLE: &[f64] = &[
    0.951_055_876_031_832_8,
    -0.423_627_421_281_460_6,
    0.240_542_484_240_787_25,
    -0.148_404_923_053_880_3,
    0.094_988_724_452_848_82,
    -0.061_922_133_275_541_87,
    0.040_760_833_943_448_87,
    -0.026_975_796_657_647_447,
    0.017_907_248_233_776_75,
    -0.011_908_220_152_891_417,
    0.007_927_023_360_030_29,
    -0.005_279_936_637_120_704,
    0.003_518_088_337_212_106_7,
    -0.002_345_499_844_374_82,
    0.001_563_506_064_400_201,
    -0.001_036_431_889_623_571_6,
    0.000_690_269_734_286_165_8,
    -0.000_486_035_284_789_443_66,
    0.000_325_916_605_625_567_97,
    -0.000_144_654_822_351_409_57,
    0.000_093_236_547_264_721_96,
    -0.000_178_334_852_032_298_47,
    0.000_121_214_614_476_430_51,
];
/// `x² (ln x − ψ(x) − 1/(2x))` in powers of `x⁻²` for `x >= 6`: relative error 2^-54.0.
const PSI_FAR: &[f64] = &[
    0.083_333_333_333_333_33,
    -0.008_333_333_333_333_316,
    0.003_968_253_968_228_279,
    -0.004_166_666_651_796_433,
    0.007_575_753_141_256_36,
    -0.021_092_018_754_446_96,
    0.083_247_313_047_559_28,
    -0.437_013_962_182_084_3,
    2.750_932_749_084_462_6,
    -16.566_362_379_016_574,
    61.332_301_734_188_77,
];
const LEFT: f64 = 1.0 / (1u64 << 60) as f64;

/// `ln |Γ(x)|`: +∞ at 0 and the negative whole numbers.
#[inline(always)]
pub fn lgamma<F: Float>(x: F) -> F {
    F::lit(lgamma_wide(x.to_f64()))
}

/// `ψ(x)`, the derivative of [`lgamma`]: ∓∞ at ±0, and none at the negative whole numbers.
#[inline(always)]
pub fn digamma<F: Float>(x: F) -> F {
    F::lit(digamma_wide(x.to_f64()))
}

/// The derivative number `n` of [`digamma`], from the first on: ±∞ at 0 and the negative whole numbers
/// where both sides agree, none where they do not. Its sums are as long as `n`: no loop over it vectorises.
#[inline(always)]
pub fn polygamma<F: Float>(x: F, n: u8) -> F {
    F::lit(polygamma_wide(x.to_f64(), n))
}

/// Whether it is 0 or a negative whole number.
#[inline(always)]
fn is_pole(x: f64) -> bool {
    (x <= 0.0) & (x.floor() == x)
}

#[inline(always)]
fn lgamma_wide(x: f64) -> f64 {
    let a = x.abs();
    let above = lgamma_above(a);
    // ln |Γ(−a)| = ln(π/(a |sin πa|)) − ln Γ(a); so near 0 it is −ln a from either side.
    let reflect = (x < 0.0) & (a > LEFT);
    let sine = two_prod(a, sin_pi(a).abs());
    let sine = Dd::select(reflect & (sine.hi > 0.0), sine, Dd::new(1.0, 0.0));
    let ratio = Dd::new(PI, 1.2246467991473532e-16).over(sine).renormalized();
    let ratio = log_dd(ratio, 0.0);
    let sum = two_sum(ratio.hi, -above.hi);
    let below = sum.hi + (sum.lo + (ratio.lo - above.lo));
    let value = f64::select(reflect, below, above.value());
    let value = f64::select(is_pole(x) | (a == f64::INFINITY), f64::INFINITY, value);
    f64::select(a <= f64::INFINITY, value, x)
}

/// `ln Γ(a)` for `a > 0`.
#[inline(always)]
fn lgamma_above(a: f64) -> Dd<f64> {
    let (low, near, far) = (a < 0.5, a < 2.5, a >= 8.5);
    // From 2½ to 8½: Γ(a) = (a − 1) (a − 2) … Γ(f) with f between 1½ and 2½.
    let (mut product, mut f) = (1.0, a);
    let mut k = 1;
    while k <= 6 {
        let step = (a >= f64::from(k) + 1.5) & !far;
        product *= f64::select(step, a - f64::from(k), 1.0);
        f = f64::select(step, a - f64::from(k), f);
        k += 1;
    }
    // Below, Γ(a) = Γ(2 + a)/(a (1 + a)) and Γ(1 + a)/a.
    let z = f64::select(low, a, f64::select(a < 1.5, a - 1.0, f - 2.0));
    let whole = a.mul_add(a, a);
    let both = Dd::new(whole, a.mul_add(a, a - whole));
    let w = Dd::select(low, both, Dd::new(f64::select(a < 1.5, a, product), 0.0));
    let w = Dd::select(far, Dd::new(a, 0.0), w);
    // The logarithm is for normal numbers.
    let tiny = a < 1e-290;
    let up = (1u64 << 60) as f64;
    let w = Dd::select(tiny, Dd::new(a * up, 0.0), w);
    let log = log_dd(w, f64::select(tiny, -60.0, 0.0));
    let slope = AROUND_TWO_FIRST.plus(Dd::new(z * long_polynomial(z, AROUND_TWO), 0.0));
    let part = slope.times(Dd::new(z, 0.0));
    let sign = f64::select(near, -1.0, 1.0);
    let around = part.plus(log.scaled(sign));
    // (a − ½)(ln a − 1) + ½ ln 2π − ½ + 1/(12a) − …
    let less = two_sum(log.hi, -1.0);
    let less = fast_two_sum(less.hi, less.lo + log.lo);
    let main = less.times(Dd::new(a - 0.5, 0.0));
    let inverse = 1.0 / a;
    let rest = polynomial(inverse * inverse, STIRLING) * inverse;
    let sum = main.plus(STIRLING_REST);
    let beyond = Dd::new(sum.hi, sum.lo + rest);
    // Where the product has left the range there is no rest.
    let beyond = Dd::select(main.hi < f64::INFINITY, beyond, Dd::new(f64::INFINITY, 0.0));
    Dd::select(far, beyond, around)
}

#[inline(always)]
fn digamma_wide(x: f64) -> f64 {
    let a = x.abs();
    let (low, far, below) = (a < 1.0, a >= 6.0, x < 0.0);
    // From 2 to 6: ψ(a) = ψ(f) + 1/(a − 1) + 1/(a − 2) + …, the sum as a quotient; f from 1 to 2.
    let (mut above, mut under, mut f) = (0.0_f64, 1.0_f64, a);
    let mut k = 1;
    while k <= 4 {
        let step = (a >= f64::from(k) + 1.0) & !far;
        let factor = a - f64::from(k);
        above = f64::select(step, above.mul_add(factor, under), above);
        under = f64::select(step, under * factor, under);
        f = f64::select(step, factor, f);
        k += 1;
    }
    let z = f64::select(low, a - 0.5, f - 1.5);
    let zero = f64::select(low, PSI_ZERO.hi - 1.0, PSI_ZERO.hi);
    let distance = (f64::select(low, a, f) - zero) - PSI_ZERO.lo;
    let middle = distance * long_polynomial(z, PSI_MIDDLE);
    let near = middle + above / under;
    let inverse = 1.0 / a;
    let square = inverse * inverse;
    let log = log_dd(Dd::new(f64::select(far, a, 1.0), 0.0), 0.0);
    let less = square.mul_add(polynomial(square, PSI_FAR), 0.5 * inverse);
    let beyond = log.hi + (log.lo - less);
    // What this is: ψ(1 + a) where a < 1, else ψ(a).
    let value = f64::select(far, beyond, near);
    let positive = f64::select(low, value - inverse, value);
    // ψ(−a) = ψ(1 + a) + π cot πa.
    let cotangent = PI * (cos_pi(a) / sin_pi(a));
    let negative = f64::select(low, value, value + inverse) + cotangent;
    let value = f64::select(below, negative, positive);
    // Near 0 it is −1/x.
    let value = f64::select(a < LEFT, -1.0 / x, value);
    let value = f64::select(is_pole(x) & (a > 0.0), f64::NAN, value);
    f64::select((a < f64::INFINITY) | below, value, x)
}

/// Coefficients of the Euler–Maclaurin formula, `B₂ⱼ/(2j)!`.
const EULER_MACLAURIN: [f64; 10] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30_240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
    -3617.0 / 10_670_622_842_880_000.0,
    43867.0 / 5_109_094_217_170_944_000.0,
    -174_611.0 / 802_857_662_698_291_200_000.0,
];

fn polygamma_wide(x: f64, n: u8) -> f64 {
    let odd = n % 2 == 1;
    if x.is_nan() || x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    if is_pole(x) {
        // Every second one has a pole of even order.
        let infinite = if odd { f64::INFINITY } else { f64::NEG_INFINITY.copysign(-x) };
        return if odd || x == 0.0 { infinite } else { f64::NAN };
    }
    let sum = if x > 0.0 {
        zeta(n, x)
    } else {
        // The sum over all whole numbers, without those on the far side.
        let r = x - x.round_ties_even();
        let own = power(n, r.abs());
        let own = if odd || r > 0.0 { own } else { own.scaled(-1.0) };
        let mut sum = own.plus(zeta(n, 1.0 + r));
        if x.round_ties_even() != 0.0 {
            let other = zeta(n, 1.0 - r).plus(zeta(n, 1.0 - x).scaled(-1.0));
            sum = sum.plus(if odd { other } else { other.scaled(-1.0) });
        }
        if own.hi.is_infinite() { own } else { sum }
    };
    let value = if sum.hi.is_finite() { sum.value() } else { sum.hi };
    if odd { value } else { -value }
}

/// `n! / yⁿ⁺¹`, with no number on the way that is larger or smaller than it and 1/y.
fn power(n: u8, y: f64) -> Dd<f64> {
    let hi = 1.0 / y;
    if !hi.is_finite() || hi == 0.0 {
        return Dd::new(hi, 0.0);
    }
    let inverse = Dd::new(hi, (-hi).mul_add(y, 1.0) * hi);
    let mut product = inverse;
    for k in 1..=n {
        product = product.times(inverse.times(Dd::new(f64::from(k), 0.0)).renormalized());
        if !product.hi.is_finite() || product.hi == 0.0 {
            return Dd::new(product.hi, 0.0);
        }
        product = product.renormalized();
    }
    product
}

/// `n! Σ (y + k)⁻ⁿ⁻¹` for `y > 0` over all `k >= 0`.
fn zeta(n: u8, y: f64) -> Dd<f64> {
    let order = f64::from(n);
    let enough = 10.0 + order;
    let (mut k, mut a, mut sum) = (0.0, y, Dd::new(0.0, 0.0));
    while a < enough {
        let term = power(n, a);
        if !term.hi.is_finite() {
            return term;
        }
        sum = sum.plus(term).renormalized();
        k += 1.0;
        a = y + k;
    }
    // (n − 1)!/aⁿ (1 + n/(2a) + Σ n(n + 1)… B₂ⱼ/(2j)! a⁻²ʲ)
    let inverse = 1.0 / a;
    let square = inverse * inverse;
    let (mut factor, mut rest) = (order * (order + 1.0) * square, 0.5 * order * inverse);
    for (j, c) in EULER_MACLAURIN.iter().enumerate() {
        rest += factor * c;
        let s = order + 2.0 * j as f64 + 2.0;
        factor *= s * (s + 1.0) * square;
    }
    let main = power(n - 1, a);
    let tail = main.times(Dd::new(1.0, 0.0).plus(Dd::new(rest, 0.0)).renormalized());
    if main.hi == 0.0 { sum } else { sum.plus(tail) }
}
