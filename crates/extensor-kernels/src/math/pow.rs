//! Powers.

use super::Float;
use super::dd::{Dd, fast_two_sum, two_prod, two_sum};
use super::exp::{ExpConstants, exp2_fraction, exponent_limits, nearest, two_powers};
use super::log::reduce_any;
use super::polynomial;

/// The constants of [`pow`] in one format.
pub trait PowConstants: Float {
    /// `(2 atanh(s) / (s log 2) - TWO - THIRD z) / z^2` where `z = s^2`, for `z` in `[0, 0.0295]`.
    const LOG2_TAIL: &'static [Self];
    /// `2 / log 2` as a float and what it lacks.
    const TWO: (Self, Self);
    /// `2 / (3 log 2)`, likewise.
    const THIRD: (Self, Self);
}

impl PowConstants for f32 {
    // Relative error of the logarithm: 2^-38.9.
    const LOG2_TAIL: &'static [f32] = &[0.577_078, 0.412_204_86, 0.320_068_54, 0.280_767_8];
    const TWO: (f32, f32) = (2.885_39, 3.851_926e-8);
    const THIRD: (f32, f32) = (0.961_796_7, -7.028_462e-9);
}

impl PowConstants for f64 {
    // Relative error of the logarithm: 2^-65.8.
    const LOG2_TAIL: &'static [f64] = &[
        0.577_078_016_355_585_3,
        0.412_198_583_111_253_96,
        0.320_598_897_931_944_74,
        0.262_308_196_600_298_4,
        0.221_952_395_041_828_26,
        0.192_397_011_188_279_32,
        0.168_530_920_687_377_85,
        0.172_212_435_206_112_65,
    ];
    const TWO: (f64, f64) = (2.885_390_081_777_926_8, 4.071_054_748_186_206_6e-17);
    const THIRD: (f64, f64) = (0.961_796_693_925_975_6, 5.057_761_664_812_590_7e-17);
}

/// `log2(x)` for a positive finite `x`, with some twelve bits to spare.
#[inline(always)]
fn log2_dd<F: PowConstants>(x: F) -> Dd<F> {
    let reduced = reduce_any(x);
    let f = Dd::new(reduced.f, F::lit(0.0));
    // log2(1 + f) = s (TWO + z (THIRD + z Q(z))) where s = f / (2 + f) and z = s^2
    let s = f.over(fast_two_sum(F::lit(2.0), reduced.f)).renormalized();
    let z = s.times(s);
    let q = polynomial(z.hi, F::LOG2_TAIL);
    let tail = two_prod(z.hi, q);
    let tail = Dd::new(tail.hi, z.lo.fma(q, tail.lo + F::THIRD.1)).added_to(F::THIRD.0);
    let sum = z.times(tail);
    let sum = Dd::new(sum.hi, sum.lo + F::TWO.1).added_to(F::TWO.0);
    s.times(sum).added_to(reduced.k).renormalized()
}

/// `x^y`, with the special cases of IEEE 754: `x^0 = 1^y = 1` whatever the other is, a negative `x`
/// has powers for whole `y` only, and those of zero and infinity keep the sign of `x` where `y` is
/// odd.
#[inline(always)]
pub fn pow<F: ExpConstants + PowConstants>(x: F, y: F) -> F {
    let (zero, one) = (F::lit(0.0), F::lit(1.0));
    let a = x.abs();
    let log = log2_dd(a);
    let product = two_prod(y, log.hi);
    let product = Dd::new(product.hi, y.fma(log.lo, product.lo));
    // Beyond the limits the result overflows or vanishes, and the product's rest may be no number.
    let (top, bottom) = exponent_limits::<F>();
    let (top, bottom) = (F::lit(top), F::lit(bottom));
    let product = Dd::select(product.hi > top, Dd::new(top, zero), product);
    let product = Dd::select(product.hi < bottom, Dd::new(bottom, zero), product);
    let (whole, k) = nearest(product.hi, one);
    let fraction = exp2_fraction(two_sum(product.hi - whole, product.lo));
    let (first, second) = two_powers(k);
    let power = fraction.value() * first * second;

    // Zero and infinity: y decides which of the two the result is.
    let power = F::select(a == zero, F::select(y > zero, zero, F::INFINITY), power);
    let power = F::select(
        a == F::INFINITY,
        F::select(y > zero, F::INFINITY, zero),
        power,
    );
    let whole = y.trunc() == y;
    let half = y * F::lit(0.5);
    let odd = whole & (half.trunc() != half);
    // A float's sign bit, for zero has one too.
    let negative = one.copysign(x) < zero;
    let power = F::select(negative & odd, -power, power);
    let root = (x < zero) & !whole & (a < F::INFINITY);
    let power = F::select(root, F::NAN, power);
    let numbers = (a <= F::INFINITY) & (y.abs() <= F::INFINITY);
    let power = F::select(numbers, power, F::NAN);
    let exactly_one = (x == one) | (y == zero) | ((a == one) & (y.abs() == F::INFINITY));
    F::select(exactly_one, one, power)
}
