//! Functions of two numbers as C and IEEE 754 have them: a remainder with the sign of the dividend, and
//! extremes to which what is not a number does not count.

use super::products::{any, apart_pair, bad_pairs, binary, no_integer_zero, pairs, uneven};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, sum_dtype};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_binary, map_number, map_real};
use crate::ops::record::{Family, Input, Record, signature};
use crate::{Result, Tensor};
use extensor_kernels::map::{Formula, Formulas, NumberFormula, Numbers};
use extensor_kernels::number::{Number, Real};
use smallvec::smallvec;

/// Whether one is above 0 and the other below.
#[inline(always)]
fn apart<R: Number>(a: R, b: R) -> R::Mask {
    let zero = a.lit(0.0);
    (a.lt(zero) & zero.lt(b)) | (zero.lt(a) & b.lt(zero))
}

/// `a − b·trunc(a/b)`, exact.
#[inline(always)]
fn remainder<R: Number>(a: R, b: R) -> R {
    let zero = a.lit(0.0);
    let same = a.modulo(b);
    // Of the dividend's sign are those numbers that the divisor's is the sign of, the other way round. The
    // smallest whole number has no negative; its remainder is a small step away from the other.
    let stepped = R::select(same.eq(zero), zero, same - b);
    let turned = R::select(a.eq(-a), stepped, -((-a).modulo(b)));
    let rest = R::select(apart(a, b), turned, same);
    // 0 keeps its sign.
    R::select(a.eq(zero) & rest.eq(zero), a, rest)
}

/// `trunc(a/b)` of the true quotient.
#[inline(always)]
fn truncated<R: Real>(a: R, b: R) -> R {
    R::select(apart(a, b), -((-a).floor_divide(b)), a.floor_divide(b))
}

binary! {
    /// `a − b·trunc(a/b)`, broadcast: the remainder with the sign of the dividend, exact. With the
    /// sign of the divisor it is [`modulo`](crate::ops::modulo).
    ///
    /// ```
    /// let y = extensor::ops::fmod(&extensor::tensor([7, -7]), &extensor::tensor(3))?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, -1]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number fmod(a, b), fmod_backward, Fmod:
        y = |a, b| remainder(a, b),
        da = |g, a, b| remainder(a, b).nan_or(g),
        db = |g, a, b| remainder(a, b).nan_or(-(g.times(truncated(a, b))));
        "y = a − b·trunc(a/b)", "(g, −g·trunc(a/b))";
        check |_, b| no_integer_zero("fmod", b);
        domain: "b ≠ 0",
        conventions: "NaN where y is; whole numbers divided by 0 are an error",
        order: 1,
        samples: |s| {
            pairs(s, uneven);
            let [a, b] = [[0.5, -0.5, 0.0, -0.0], [2.0, 2.0, -1.0, 1.0]].map(crate::tensor);
            s.add_noted([a, b], Params::new(), "less than the divisor");
        },
        // Between −1 and 1 there is no step: there it is the dividend.
        kinks: |sample| {
            sample.meet([0, 1], |a, b| b == 0.0 || (a / b).fract() == 0.0 && a != 0.0)
        },
}

/// The larger or the smaller, as `of` says, of those that are numbers.
#[inline(always)]
fn number_of<R: Number>(a: R, b: R, of: impl FnOnce(R, R) -> R) -> R {
    R::select(b.eq(b), R::select(a.eq(a), of(a, b), b), a)
}

/// `g` for a number that is chosen: one that is beyond the other, half of it for one that is equal; for one
/// beside what is not a number, all. NaN where both are not.
#[inline(always)]
fn share_of_number<R: Real>(g: R, own: R, other: R, beyond: R::Mask) -> R {
    let zero = g.lit(0.0);
    let tied = R::select(own.eq(other), g * g.lit(0.5), zero);
    let alone = R::select(own.is_nan(), own, g);
    let chosen = R::select(beyond, g, tied);
    R::select(other.is_nan(), alone, chosen)
}

binary! {
    /// The larger of `a` and `b`, broadcast; of a number and NaN the number.
    /// [`maximum`](crate::ops::maximum()) of these is NaN.
    ///
    /// ```
    /// let y = extensor::ops::fmax(&extensor::tensor([1.0, f64::NAN]), &extensor::tensor(-3.0))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, -3.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number fmax(a, b), fmax_backward, Fmax:
        y = |a, b| number_of(a, b, Number::maximum),
        da = |g, a, b| share_of_number(g, a, b, b.lt(a)),
        db = |g, a, b| share_of_number(g, b, a, a.lt(b));
        "y = max(a, b)", "g to the larger";
        check any;
        conventions: "a tie gives each side half; beside NaN a number is the larger; NaN only where both are",
        samples: |s| {
            pairs(s, apart_pair);
            let [a, b] = [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]].map(crate::tensor);
            s.add_noted([a, b], Params::new(), "a tie is split in half");
        },
        kinks: |sample| sample.meet([0, 1], |a, b| a == b),
}

binary! {
    /// The smaller of `a` and `b`, broadcast; of a number and NaN the number.
    /// [`minimum`](crate::ops::minimum()) of these is NaN.
    ///
    /// ```
    /// let y = extensor::ops::fmin(&extensor::tensor([1.0, f64::NAN]), &extensor::tensor(-3.0))?;
    /// assert_eq!(y.to_vec::<f64>()?, [-3.0, -3.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    number fmin(a, b), fmin_backward, Fmin:
        y = |a, b| number_of(a, b, Number::minimum),
        da = |g, a, b| share_of_number(g, a, b, a.lt(b)),
        db = |g, a, b| share_of_number(g, b, a, b.lt(a));
        "y = min(a, b)", "g to the smaller";
        check any;
        conventions: "a tie gives each side half; beside NaN a number is the smaller; NaN only where both are",
        samples: |s| {
            pairs(s, apart_pair);
            let [a, b] = [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]].map(crate::tensor);
            s.add_noted([a, b], Params::new(), "a tie is split in half");
        },
        kinks: |sample| sample.meet([0, 1], |a, b| a == b),
}
