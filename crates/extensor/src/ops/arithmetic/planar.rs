//! Functions of two real numbers that are more than arithmetic: angles, lengths, sums of
//! exponentials, signs. As in `products.rs`, a rule knows nothing of broadcasting.

use super::products::{any, bad_pairs, binary, divisor, pairs};
use crate::ops::calculus::direction;
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, sum_dtype};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, defined, guard_above, infer_binary, map_real, settle};
use crate::ops::record::{Family, Input, Record, signature};
use crate::{Result, Tensor};
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::smallvec;

/// Whether the point is the origin, where there is no direction.
#[inline(always)]
fn at_origin<R: Real>(a: R, b: R) -> R::Mask {
    (a.abs() + b.abs()).eq(a.lit(0.0))
}

binary! {
    /// The angle in `[−π, π]` from the first axis to the point `(b, a)`, broadcast: `arctan(a/b)` for
    /// `b > 0`. The signs of zeros count.
    ///
    /// ```
    /// use extensor::ops::atan2;
    /// use extensor::tensor;
    /// let y = atan2(&tensor([1.0, 0.0, -0.0]), &tensor([1.0, 1.0, -1.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [std::f64::consts::FRAC_PI_4, 0.0, -std::f64::consts::PI]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    real atan2(a, b), atan2_backward, Atan2:
        y = |a, b| a.atan2(b),
        da = |g, a, b, limit| {
            let (_, cosine, radius) = direction(a, b);
            settle(g * cosine / radius, g, at_origin(a, b), limit)
        },
        db = |g, a, b, limit| {
            let (sine, _, radius) = direction(a, b);
            settle(-(g * sine / radius), g, at_origin(a, b), limit)
        };
        "y = arctan(a/b), in the quadrant of (b, a)", "(g·b/(a² + b²), −g·a/(a² + b²))";
        check any;
        domain: "(a, b) ≠ (0, 0), and not the jump from −π to π at b < 0, a = 0",
        conventions: "at the origin the derivative uses a radius of 1e-10, and stays finite",
        samples: |s| {
            pairs(s, |s, a, b| [divisor(s, a), divisor(s, b)]);
            let [a, b] = [[0.0, 1.0, -1.0, 1e-20], [0.0, 0.0, 0.0, 0.0]].map(crate::tensor);
            s.add_noted([a, b], Params::new(), "the origin");
        },
        kinks: |sample| sample.meet([0, 1], |a, b| a == 0.0 && b <= 0.0),
}

binary! {
    /// `√(a² + b²)`, broadcast: the length of the hypotenuse, without overflow on the way. It is
    /// infinite if either is, even where the other is NaN.
    ///
    /// ```
    /// use extensor::ops::hypot;
    /// use extensor::tensor;
    /// let y = hypot(&tensor([3.0, 3e300]), &tensor([4.0, 4e300]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [5.0, 5e300]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    real hypot(a, b), hypot_backward, Hypot:
        y = |a, b| a.hypot(b),
        da = |g, a, b| g * direction(a, b).0,
        db = |g, a, b| g * direction(a, b).1;
        "y = √(a² + b²)", "(g·a/y, g·b/y)";
        check any;
        domain: "(a, b) ≠ (0, 0)",
        conventions: "at the origin the derivative uses 1e-10 for y: it is 0",
        samples: |s| {
            pairs(s, |s, a, b| [divisor(s, a), divisor(s, b)]);
            let [a, b] = [[0.0, 1.0, -1.0, 1e-20], [0.0, 0.0, 0.0, 0.0]].map(crate::tensor);
            s.add_noted([a, b], Params::new(), "the origin");
        },
        kinks: |sample| sample.meet([0, 1], |a, b| a == 0.0 && b == 0.0),
}

/// `a − b`, and 0 where both are the same infinity.
#[inline(always)]
fn difference<R: Real>(a: R, b: R) -> R {
    R::select(a.eq(b) & !a.is_finite(), a.lit(0.0), a - b)
}

binary! {
    /// `ln(eᵃ + eᵇ)`, broadcast, without overflow on the way.
    ///
    /// ```
    /// use extensor::ops::logaddexp;
    /// use extensor::tensor;
    /// let y = logaddexp(&tensor([1000.0, 0.0]), &tensor([1000.0, f64::NEG_INFINITY]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1000.0 + 2f64.ln(), 0.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    real logaddexp(a, b), logaddexp_backward, LogAddExp:
        y = |a, b| {
            let distance = difference(a, b).abs();
            a.maximum(b) + (-distance).exp().log1p()
        },
        da = |g, a, b| g * difference(a, b).sigmoid(),
        db = |g, a, b| g * difference(b, a).sigmoid();
        "y = ln(eᵃ + eᵇ)", "(g·σ(a − b), g·σ(b − a))";
        check any;
        samples: |s| {
            pairs(s, |s, a, b| [s.normal(a), s.normal(b)]);
            let a = s.normal(&[3]);
            s.add_noted([a.clone(), a], Params::new(), "equal");
        },
}

binary! {
    /// The magnitude of `a` with the sign of `b`, broadcast. The signs of zeros and NaNs count.
    ///
    /// ```
    /// use extensor::ops::copysign;
    /// use extensor::tensor;
    /// let y = copysign(&tensor([1.0, -2.0, 3.0]), &tensor([-1.0, 1.0, -0.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [-1.0, 2.0, -3.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    real copysign(a, b), copysign_backward, CopySign:
        y = |a, b| a.copysign(b),
        da = |g, a, b| g * a.sign() * a.lit(1.0).copysign(b),
        db = |g, a, _b| a.nan_or(g.lit(0.0));
        "y = |a|, with the sign of b", "(g, 0) where the signs of a and b agree, (−g, 0) elsewhere";
        check any;
        conventions: "the derivative by a is 0 where a is 0, as that of |a| is",
        samples: |s| pairs(s, |s, a, b| [divisor(s, a), divisor(s, b)]),
        kinks: |sample| sample.meet([0, 1], |a, b| a == 0.0 || b == 0.0),
}

/// `ln 10⁻¹⁰`: what a logarithm is in a derivative where it is that of 0.
const LEAST_LOG: f64 = -23.025850929940457;

binary! {
    /// `x·ln y`, broadcast, and 0 where `x` is 0, whatever `y` is unless it is NaN.
    ///
    /// ```
    /// use extensor::ops::xlogy;
    /// use extensor::tensor;
    /// let y = xlogy(&tensor([0.0, 2.0, 0.5]), &tensor([0.0, 1.0, 0.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 0.0, f64::NEG_INFINITY]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    real xlogy(x, y), xlogy_backward, XLogY:
        y = |x, y| {
            let zero = x.lit(0.0);
            R::select(x.eq(zero), y.nan_or(zero), x * y.log())
        },
        da = |g, x, y, limit| {
            let (zero, one) = (y.lit(0.0), y.lit(1.0));
            let log = R::select(y.lt(zero), one, guard_above(y)).log();
            let slope = settle(g.times(x.nan_or(log)), g, y.eq(zero), limit);
            defined(slope, g, y.lt(zero) & !x.eq(zero))
        },
        db = |g, x, y, limit| {
            let zero = y.lit(0.0);
            let slope = settle(g.times(x / guard_above(y)), g, y.eq(zero) & x.is_finite(), limit);
            defined(slope, g, y.lt(zero) & !x.eq(zero))
        };
        "z = x·ln y", "(g·ln y, g·x/y)";
        check any;
        domain: "y > 0",
        conventions: "z = 0 where x is 0; where y is 0 the derivative uses 1e-10, and stays finite; below it is 0 where x is 0, NaN where z is",
        samples: |s| {
            pairs(s, |s, a, b| [s.normal(a), s.uniform(0.3, 3.0, b)]);
            let [x, y] = [[0.0, 0.0, 0.0, 1.5, -2.0], [0.7, 0.0, -1.0, 0.0, 1.0]].map(crate::tensor);
            s.add_noted([x, y], Params::new(), "at zero");
        },
        kinks: |sample| sample.meet([0, 1], |_, y| y <= 0.0),
}

binary! {
    /// `x·ln(1 + y)`, broadcast, exact for small `y`, and 0 where `x` is 0, whatever `y` is unless it is NaN.
    ///
    /// ```
    /// use extensor::ops::xlog1py;
    /// use extensor::tensor;
    /// let y = xlog1py(&tensor([0.0, 2.0, 2.0]), &tensor([-1.0, 0.0, 1e-20]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 0.0, 2e-20]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    real xlog1py(x, y), xlog1py_backward, XLog1pY:
        y = |x, y| {
            let zero = x.lit(0.0);
            R::select(x.eq(zero), y.nan_or(zero), x * y.log1p())
        },
        da = |g, x, y, limit| {
            let (zero, above) = (y.lit(0.0), y + y.lit(1.0));
            let log = R::select(above.lt(zero), zero, y).log1p();
            let log = R::select(above.eq(zero), y.lit(LEAST_LOG), log);
            let slope = settle(g.times(x.nan_or(log)), g, above.eq(zero), limit);
            defined(slope, g, above.lt(zero) & !x.eq(zero))
        },
        db = |g, x, y, limit| {
            let (zero, above) = (y.lit(0.0), y + y.lit(1.0));
            let at = above.eq(zero) & x.is_finite();
            let slope = settle(g.times(x / guard_above(above)), g, at, limit);
            defined(slope, g, above.lt(zero) & !x.eq(zero))
        };
        "z = x·ln(1 + y)", "(g·ln(1 + y), g·x/(1 + y))";
        check any;
        domain: "y > −1",
        conventions: "z = 0 where x is 0; where y is −1 the derivative uses 1e-10 for 1 + y, and stays finite; below it is 0 where x is 0, NaN where z is",
        samples: |s| {
            pairs(s, |s, a, b| [s.normal(a), s.uniform(-0.6, 3.0, b)]);
            let [x, y] = [[0.0, 0.0, 0.0, 1.5, -2.0], [0.7, -1.0, -2.0, -1.0, 0.0]].map(crate::tensor);
            s.add_noted([x, y], Params::new(), "at the end");
        },
        kinks: |sample| sample.meet([0, 1], |_, y| y <= -1.0),
}
