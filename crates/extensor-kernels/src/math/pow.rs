//! Powers, and the cube root.

use super::dd::{Dd, fast_two_sum, two_prod, two_sum};
use super::exp::{exp2_fraction, exponent_limits, nearest, power_of_two, two_powers};
use super::log::reduce_any;
use super::{Constants, polynomial};

/// `log2(x)` for a positive finite `x`, with some twelve bits to spare.
#[inline(always)]
fn log2_dd<F: Constants>(x: F) -> Dd<F> {
    let reduced = reduce_any(x);
    let f = Dd::new(reduced.f, F::lit(0.0));
    // log2(1 + f) = s (FIRST + z (SECOND + z Q(z))) where s = f / (2 + f) and z = s^2
    let s = f.over(fast_two_sum(F::lit(2.0), reduced.f)).renormalized();
    let z = s.times(s);
    let q = polynomial(z.hi, F::LOG2_REST);
    let tail = two_prod(z.hi, q);
    let tail = Dd::new(tail.hi, z.lo.fma(q, tail.lo + F::LOG2_SECOND.1)).added_to(F::LOG2_SECOND.0);
    let sum = z.times(tail);
    let sum = Dd::new(sum.hi, sum.lo + F::LOG2_FIRST.1).added_to(F::LOG2_FIRST.0);
    s.times(sum).added_to(reduced.k).renormalized()
}

/// `x^y`, with the special cases of IEEE 754: `x^0 = 1^y = 1` whatever the other is, a negative `x`
/// has powers for whole `y` only, and those of zero and infinity keep the sign of `x` where `y` is
/// odd.
#[inline(always)]
pub fn pow<F: Constants>(x: F, y: F) -> F {
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
    let power = F::select(a == F::INFINITY, F::select(y > zero, F::INFINITY, zero), power);
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

/// The cube root, exact where a float holds it.
#[inline(always)]
pub fn cbrt<F: Constants>(x: F) -> F {
    let (one, three) = (F::lit(1.0), F::lit(3.0));
    let a = x.abs();
    let third = one / three;
    let third = Dd::new(third, (-three).fma(third, one) / three);
    let log = log2_dd(a).times(third);
    let (whole, k) = nearest(log.hi, one);
    let root = exp2_fraction(two_sum(log.hi - whole, log.lo)).value() * power_of_two::<F>(k);
    // Zeros, infinities and NaN are their own roots.
    F::select((a > F::lit(0.0)) & (a < F::INFINITY), root.copysign(x), x)
}
