//! Means, variances, norms: what only floats have.
//!
//! All of them accumulate in `f64`, which narrower types cannot overflow. For `f64` itself a
//! result that left the range on the way is computed again from scaled numbers, so that it is
//! infinite or zero only if its true value is, and NaN only if an input is infinite or NaN.

use super::fold::{Accumulate, Arithmetic, Extremes, Folds, no_params};
use super::{Room, Walk, counts, reduce};
use crate::native::{Compute, Native};
use crate::number::Real;
use crate::stop;
use crate::view::View;
use half::{bf16, f16};
use std::marker::PhantomData;

/// A float type of which means and the like can be computed.
pub trait Floats: Arithmetic<Acc = f64> + Compute<Wide: Extremes + RealSteps> {
    /// The view as one of `f64`, if it is.
    fn as_f64<'a>(x: View<'a, Self>) -> Option<View<'a, f64>> {
        let _ = x;
        None
    }
    /// The smallest normal number.
    const LEAST_NORMAL: f64;
}

impl Floats for f16 {
    const LEAST_NORMAL: f64 = 6.103515625e-5;
}
impl Floats for bf16 {
    const LEAST_NORMAL: f64 = f32::MIN_POSITIVE as f64;
}
impl Floats for f32 {
    const LEAST_NORMAL: f64 = f32::MIN_POSITIVE as f64;
}
impl Floats for f64 {
    fn as_f64<'a>(x: View<'a, f64>) -> Option<View<'a, f64>> {
        Some(x)
    }
    const LEAST_NORMAL: f64 = f64::MIN_POSITIVE;
}

/// A straight line: `x` stands for `scale·x − shift`.
#[derive(Clone, Copy)]
pub struct Line {
    scale: f64,
    shift: f64,
}

/// `Σ (scale·x − shift)`.
struct Lines;
/// `Σ (scale·x − shift)²`.
struct Squares<I>(PhantomData<I>);
/// `max |scale·x − shift|`.
struct Reach;
/// `Σ e^(x − shift)`.
pub(super) struct Exponentials<I>(PhantomData<I>);

/// The folds of a float type that is computed in.
pub trait RealSteps: Real + Into<f64> {
    /// `Σ (scale·x − shift)²`.
    fn squares() -> &'static dyn super::Fold<Self, f64, Line>;
    /// `Σ e^(x − shift)`.
    fn exponentials() -> &'static dyn super::Fold<Self, f64, Self>;
}

macro_rules! real_steps {
    ($($t:ty),*) => {$(
        impl Accumulate for Squares<$t> {
            type In = $t;
            type Acc = f64;
            type Param = Line;
            const START: f64 = 0.0;
            const WIDE: bool = true;
            #[inline(always)]
            fn step(acc: f64, x: $t, line: Line) -> f64 {
                let d = f64::from(x) * line.scale - line.shift;
                acc + d * d
            }
            #[inline(always)]
            fn join(a: f64, b: f64) -> f64 {
                a + b
            }
        }
        impl Accumulate for Exponentials<$t> {
            type In = $t;
            type Acc = f64;
            type Param = $t;
            const START: f64 = 0.0;
            const WIDE: bool = true;
            #[inline(always)]
            fn step(acc: f64, x: $t, shift: $t) -> f64 {
                acc + f64::from(Real::exp(x - shift))
            }
            #[inline(always)]
            fn join(a: f64, b: f64) -> f64 {
                a + b
            }
        }
        impl RealSteps for $t {
            fn squares() -> &'static dyn super::Fold<$t, f64, Line> {
                const { &Folds(Squares::<$t>(PhantomData)) }
            }
            fn exponentials() -> &'static dyn super::Fold<$t, f64, $t> {
                const { &Folds(Exponentials::<$t>(PhantomData)) }
            }
        }
    )*};
}
real_steps!(f32, f64);

impl Accumulate for Lines {
    type In = f64;
    type Acc = f64;
    type Param = Line;
    const START: f64 = 0.0;
    const WIDE: bool = false;
    #[inline(always)]
    fn step(acc: f64, x: f64, line: Line) -> f64 {
        acc + (x * line.scale - line.shift)
    }
    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
}

impl Accumulate for Reach {
    type In = f64;
    type Acc = f64;
    type Param = Line;
    const START: f64 = 0.0;
    const WIDE: bool = false;
    #[inline(always)]
    fn step(acc: f64, x: f64, line: Line) -> f64 {
        crate::number::Number::maximum(acc, (x * line.scale - line.shift).abs())
    }
    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        crate::number::Number::maximum(a, b)
    }
}

/// What sums are scaled by when they leave the range of `f64`.
const SMALL: f64 = f64::from_bits((1023 - 600) << 52);

/// `Σ (scale·x − shift)`, to make sums again that left the range.
pub(crate) fn scaled_sums() -> &'static dyn super::Fold<f64, f64, Line> {
    const { &Folds(Lines) }
}

impl Line {
    /// What scales numbers so that no sum of them leaves the range, and the scale.
    pub(crate) const SMALL: (Line, f64) = (Line { scale: SMALL, shift: 0.0 }, SMALL);
}

/// `Σ x / divisor` in `f64`, made again from scaled numbers where it left the range.
fn sums_over<T: Floats, O: Native>(
    x: View<'_, T>,
    reduced: &[bool],
    divisor: f64,
    round: impl Fn(f64) -> O + Sync,
    is_finite: impl Fn(O) -> bool,
    out: &mut [O],
) {
    let finish = |_: usize, acc: &[f64], out: &mut [O]| {
        for (out, &acc) in out.iter_mut().zip(acc) {
            *out = round(acc / divisor);
        }
    };
    reduce(T::sums(), x, reduced, &no_params(out.len()), &finish, out);
    let Some(x) = T::as_f64(x) else { return };
    if out.iter().all(|&y| is_finite(y)) {
        return;
    }
    let line = Line { scale: SMALL, shift: 0.0 };
    let mut scaled = stop::room(0.0, out.len());
    let keep = |_: usize, acc: &[f64], out: &mut [f64]| out.copy_from_slice(acc);
    reduce::<f64, _, _, _>(
        &Folds(Lines),
        x,
        reduced,
        &stop::room(line, out.len()),
        &keep,
        &mut scaled,
    );
    for (out, scaled) in out.iter_mut().zip(scaled) {
        if !is_finite(*out) {
            *out = round(scaled / divisor / SMALL);
        }
    }
}

/// `Σ x`.
pub fn float_sum<T: Floats>(x: View<'_, T>, reduced: &[bool], out: &mut [T]) {
    sums_over(x, reduced, 1.0, T::round, is_finite::<T>, out);
}

/// The mean; NaN of nothing.
pub fn mean<T: Floats>(x: View<'_, T>, reduced: &[bool], out: &mut [T]) {
    let divisor = counts(x.shape(), reduced).1 as f64;
    sums_over(x, reduced, divisor, T::round, is_finite::<T>, out);
}

fn is_finite<T: Floats>(x: T) -> bool {
    let x: f64 = x.wide().into();
    x.is_finite()
}

/// The means in `f64`, not rounded.
fn means<T: Floats>(x: View<'_, T>, reduced: &[bool], results: usize) -> Vec<f64> {
    let mut means = stop::room(0.0, results);
    let divisor = counts(x.shape(), reduced).1 as f64;
    sums_over(x, reduced, divisor, |y| y, f64::is_finite, &mut means);
    means
}

/// `Σ (x − mean)² / (n − ddof)` in two passes; NaN if `n <= ddof`.
pub fn variance<T: Floats>(x: View<'_, T>, reduced: &[bool], ddof: usize, out: &mut [T]) {
    let Some(divisor) = freedom(&x, reduced, ddof) else {
        return out.fill(T::round(f64::NAN));
    };
    let lines = centred(means(x, reduced, out.len()));
    let finish = |_: usize, acc: &[f64], out: &mut [T]| {
        for (out, &acc) in out.iter_mut().zip(acc) {
            *out = T::round(acc / divisor);
        }
    };
    reduce(T::Wide::squares(), x, reduced, &lines, &finish, out);
}

/// The square root of the [`variance`].
pub fn std<T: Floats>(x: View<'_, T>, reduced: &[bool], ddof: usize, out: &mut [T]) {
    let Some(divisor) = freedom(&x, reduced, ddof) else {
        return out.fill(T::round(f64::NAN));
    };
    let lines = centred(means(x, reduced, out.len()));
    roots(x, reduced, lines, divisor, out);
}

/// `√(Σ x²)`.
pub fn norm<T: Floats>(x: View<'_, T>, reduced: &[bool], out: &mut [T]) {
    let lines = centred(stop::room(0.0, out.len()));
    roots(x, reduced, lines, 1.0, out);
}

/// `n − ddof`, if something is left.
fn freedom<T>(x: &View<'_, T>, reduced: &[bool], ddof: usize) -> Option<f64> {
    let n = counts(x.shape(), reduced).1;
    n.checked_sub(ddof).filter(|&n| n > 0).map(|n| n as f64)
}

fn centred(means: Vec<f64>) -> Vec<Line> {
    let line = |shift| Line { scale: 1.0, shift };
    means.into_iter().map(line).collect()
}

/// `√(Σ (x − shift)² / divisor)`.
fn roots<T: Floats>(
    x: View<'_, T>,
    reduced: &[bool],
    mut lines: Vec<Line>,
    divisor: f64,
    out: &mut [T],
) {
    let finish = |_: usize, acc: &[f64], out: &mut [T]| {
        for (out, &acc) in out.iter_mut().zip(acc) {
            *out = T::round((acc / divisor).sqrt());
        }
    };
    reduce(T::Wide::squares(), x, reduced, &lines, &finish, out);
    let Some(x64) = T::as_f64(x) else { return };
    // Squares of numbers beyond these are not exact to the last place, or nothing at all.
    let doubtful = |y: T| !(1e-140..1e150).contains(&y.wide().into());
    if !out.iter().any(|&y| doubtful(y)) {
        return;
    }
    for (line, &y) in lines.iter_mut().zip(out.iter()) {
        // A difference of two large numbers may leave the range too.
        let y: f64 = y.wide().into();
        let scale = if y < 1.0 { 1.0 } else { 0.25 };
        *line = Line { scale, shift: line.shift * scale };
    }
    let mut reach = stop::room(0.0, out.len());
    let keep = |_: usize, acc: &[f64], out: &mut [f64]| out.copy_from_slice(acc);
    reduce::<f64, _, _, _>(&Folds(Reach), x64, reduced, &lines, &keep, &mut reach);
    for (line, reach) in lines.iter_mut().zip(&reach) {
        if *reach > 0.0 && reach.is_finite() {
            let power = f64::from_bits(((1023 - exponent(*reach).clamp(-1000, 1000)) as u64) << 52);
            *line = Line { scale: line.scale * power, shift: line.shift * power };
        }
    }
    let mut scaled = stop::room(0.0, out.len());
    reduce::<f64, _, _, _>(f64::squares(), x64, reduced, &lines, &keep, &mut scaled);
    for ((out, scaled), line) in out.iter_mut().zip(scaled).zip(&lines) {
        if doubtful(*out) {
            *out = T::round((scaled / divisor).sqrt() / line.scale);
        }
    }
}

/// The exponent of 2 of a positive number.
fn exponent(x: f64) -> i64 {
    if x < f64::MIN_POSITIVE {
        return exponent(x * f64::from_bits((1023 + 64) << 52)) - 64;
    }
    (x.to_bits() >> 52) as i64 - 1023
}

/// `ln Σ eˣ`, from the differences to the largest; −∞ of nothing.
pub fn logsumexp<T: Floats>(x: View<'_, T>, reduced: &[bool], out: &mut [T]) {
    let mut shifts = stop::room(T::Wide::ZERO, out.len());
    let finite = |_: usize, acc: &[T::Wide], out: &mut [T::Wide]| {
        for (out, &acc) in out.iter_mut().zip(acc) {
            let largest: f64 = acc.into();
            *out = if largest.is_finite() { acc } else { T::Wide::ZERO };
        }
    };
    let none = no_params(out.len());
    reduce(T::Wide::largest(), x, reduced, &none, &finite, &mut shifts);
    let finish = |start: usize, acc: &[f64], out: &mut [T]| {
        for ((out, &acc), &shift) in out.iter_mut().zip(acc).zip(&shifts[start..]) {
            let shift: f64 = shift.into();
            *out = T::round(shift + acc.ln());
        }
    };
    reduce(T::Wide::exponentials(), x, reduced, &shifts, &finish, out);
}

/// `∏ x`. Where it, or a part of it, leaves the range of normal numbers it is made again with
/// exponents of any size: a product is 0, infinite or NaN only if that is its true value.
pub fn float_product<T: Floats>(x: View<'_, T>, reduced: &[bool], out: &mut [T]) {
    super::product(x, reduced, out);
    let doubtful = |y: T| {
        let y: f64 = y.wide().into();
        !(y.abs() >= T::LEAST_NORMAL && y.is_finite())
    };
    if !out.iter().any(|&y| doubtful(y)) {
        return;
    }
    let each = counts(x.shape(), reduced).1;
    let walk = Walk::new(&x, reduced, true);
    let (x, mut room) = (walk.gather(&x), Room::new());
    for (k, out) in out.iter_mut().enumerate() {
        if !doubtful(*out) {
            continue;
        }
        let (mut product, mut power) = (1.0f64, 0i64);
        let mut start = 0;
        while start < each {
            let len = super::PACK.min(each - start);
            for &x in room.read(&x, k * each + start, len) {
                let x: f64 = x.into();
                if x == 0.0 || !x.is_finite() {
                    product *= x;
                    continue;
                }
                // Both factors are kept between 1 and 2, their exponents apart.
                let e = exponent(x.abs());
                product *= scaled(x, -e);
                power += e;
                if product.is_finite() && product.abs() >= 2.0 {
                    product *= 0.5;
                    power += 1;
                }
            }
            start += len;
        }
        *out = T::round(scaled(product, power));
    }
}

/// `x·2ⁿ`.
fn scaled(mut x: f64, mut n: i64) -> f64 {
    while n != 0 && x != 0.0 && x.is_finite() {
        let step = n.clamp(-1000, 1000);
        x *= f64::from_bits(((1023 + step) as u64) << 52);
        n -= step;
    }
    x
}
