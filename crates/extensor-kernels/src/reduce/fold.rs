//! The folds: sums, products, the largest and the smallest.

use super::registers::Registers;
use super::{CHUNK, Fold, LANES, LONG, PACK, SEQUENCE, lanes, reduce};
use crate::isa::{Kernel, dispatch, dispatch_narrow};
use crate::native::{Compute, Native};
use crate::number::Number;
use crate::stream::Cursors;
use crate::view::View;
use half::{bf16, f16};
use std::marker::PhantomData;
use std::num::Wrapping;

/// What a fold does with single numbers.
pub(super) trait Accumulate {
    /// The numbers.
    type In: Native;
    /// What they are folded into.
    type Acc: Native;
    /// What each result has for itself.
    type Param: Copy + Send + Sync;
    /// What folding nothing gives.
    const START: Self::Acc;
    /// Whether it is worth compiling for the widest registers.
    const WIDE: bool;
    /// Whether it takes less time than fetching the number: then several streams are read at once.
    const CHEAP: bool = false;
    /// One number more.
    fn step(acc: Self::Acc, x: Self::In, param: Self::Param) -> Self::Acc;
    /// Two partial results in one.
    fn join(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Folds groups of numbers, one for each of all [`LANES`] lanes, with the lanes in registers, if
    /// there is a loop for that; the compiler keeps them in memory.
    #[inline(always)]
    fn in_registers(_x: &[Self::In], _lanes: &mut [Self::Acc]) -> bool {
        false
    }
}

/// An [`Accumulate`] as a [`Fold`].
pub(super) struct Folds<S>(pub S);

struct Rows<'a, S: Accumulate> {
    x: &'a [S::In],
    n: usize,
    params: &'a [S::Param],
    out: &'a mut [S::Acc],
}

/// Turns by which each cursor is behind the one before: cursors that move at one distance from each
/// other, a power of two, would all want the same few sets of the caches.
const BEHIND: usize = 2;

impl<S: Accumulate> Kernel for Rows<'_, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { x, n, params, out } = self;
        assert!(n > 0 && n <= CHUNK && x.len() == n * out.len() && params.len() == out.len());
        let mut row = 0;
        if S::CHEAP && n >= LONG && x.len() > PACK {
            let cursors = Cursors::here();
            row = out.len() / cursors.count * cursors.count;
            at_cursors::<S>(cursors, &x[..row * n], n, &params[..row], &mut out[..row]);
        }
        while row < out.len() {
            let (x, param) = (&x[row * n..(row + 1) * n], params[row]);
            out[row] = if n <= SEQUENCE {
                let mut acc = S::START;
                let mut i = 0;
                while i < n {
                    acc = S::step(acc, x[i], param);
                    i += 1;
                }
                acc
            } else {
                in_lanes::<S>(x, param)
            };
            row += 1;
        }
    }
}

/// Folds a chunk in interleaved lanes.
#[inline(always)]
pub(super) fn in_lanes<S: Accumulate>(x: &[S::In], param: S::Param) -> S::Acc {
    let mut acc = [S::START; LANES];
    let width = unknown(lanes(x.len()));
    let acc = &mut acc[..width];
    let whole = x.len() / width;
    groups::<S>(x, whole, param, acc);
    finish_lanes::<S>(acc, &x[whole * width..], param)
}

/// A number of lanes that the compiler does not know: of a loop over so many it makes vectors, one
/// that it can unroll it turns into single numbers.
#[inline(always)]
fn unknown(lanes: usize) -> usize {
    std::hint::black_box(lanes).clamp(1, LANES)
}

/// Lanes that lie in whole lines of memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lanes<A>([A; LANES]);

/// Rows of `n` numbers, each as [`in_lanes`] folds it, the same number of them at every cursor.
#[inline(always)]
fn at_cursors<S: Accumulate>(
    cursors: Cursors,
    x: &[S::In],
    n: usize,
    params: &[S::Param],
    out: &mut [S::Acc],
) {
    let count = cursors.count.min(Cursors::MOST);
    let each = out.len() / count;
    let mut lanes = [Lanes([S::START; LANES]); Cursors::MOST];
    let width = unknown(LANES);
    // The row and the group in it that each cursor has come to.
    let mut at = [(0, 0); Cursors::MOST];
    let whole = n / LANES;
    let turns = each * whole.div_ceil(cursors.batch) + (count - 1) * BEHIND;
    let mut turn = 0;
    while turn < turns {
        let mut p = 0;
        while p < count.min(turn / BEHIND + 1) {
            let (row, g) = at[p];
            if row < each {
                let row = p * each + row;
                let x = &x[row * n + g * LANES..(row + 1) * n];
                let some = cursors.batch.min(whole - g);
                cursors.ask(x.as_ptr(), some * LANES);
                groups::<S>(x, some, params[row], &mut lanes[p].0[..width]);
                at[p].1 += some;
                if g + some == whole {
                    let rest = &x[some * LANES..];
                    out[row] = finish_lanes::<S>(&mut lanes[p].0[..width], rest, params[row]);
                    lanes[p].0 = [S::START; LANES];
                    at[p] = (at[p].0 + 1, 0);
                }
            }
            p += 1;
        }
        turn += 1;
    }
}

/// Folds `count` groups of numbers, one for each lane.
#[inline(always)]
fn groups<S: Accumulate>(x: &[S::In], count: usize, param: S::Param, lanes: &mut [S::Acc]) {
    let len = lanes.len();
    if len == LANES && S::in_registers(&x[..count * len], lanes) {
        return;
    }
    let mut g = 0;
    if S::CHEAP {
        while g + 4 <= count {
            let (a, x) = x[g * len..(g + 4) * len].split_at(len);
            let (b, x) = x.split_at(len);
            let (c, d) = x.split_at(len);
            let mut l = 0;
            while l < len {
                let two = S::step(S::step(lanes[l], a[l], param), b[l], param);
                lanes[l] = S::step(S::step(two, c[l], param), d[l], param);
                l += 1;
            }
            g += 4;
        }
        while g + 2 <= count {
            let (a, b) = x[g * len..(g + 2) * len].split_at(len);
            let mut l = 0;
            while l < len {
                lanes[l] = S::step(S::step(lanes[l], a[l], param), b[l], param);
                l += 1;
            }
            g += 2;
        }
    }
    while g < count {
        let x = &x[g * len..(g + 1) * len];
        let mut l = 0;
        while l < len {
            lanes[l] = S::step(lanes[l], x[l], param);
            l += 1;
        }
        g += 1;
    }
}

/// The last numbers of a row, and the lanes in one.
#[inline(always)]
fn finish_lanes<S: Accumulate>(lanes: &mut [S::Acc], rest: &[S::In], param: S::Param) -> S::Acc {
    let mut l = 0;
    while l < rest.len() {
        lanes[l] = S::step(lanes[l], rest[l], param);
        l += 1;
    }
    let mut half = lanes.len() / 2;
    while half > 0 {
        let mut l = 0;
        while l < half {
            lanes[l] = S::join(lanes[l], lanes[l + half]);
            l += 1;
        }
        half /= 2;
    }
    lanes[0]
}

struct Columns<'a, S: Accumulate> {
    x: &'a [S::In],
    stride: usize,
    count: usize,
    params: &'a [S::Param],
    acc: &'a mut [S::Acc],
}

impl<S: Accumulate> Kernel for Columns<'_, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Columns { x, stride, count, params, acc } = self;
        let len = acc.len();
        let params = &params[..len];
        let mut row = 0;
        if S::CHEAP {
            while row + 4 <= count {
                let x = &x[row * stride..];
                let a = &x[..len];
                let b = &x[stride..stride + len];
                let c = &x[2 * stride..2 * stride + len];
                let d = &x[3 * stride..3 * stride + len];
                let mut i = 0;
                while i < len {
                    let two = S::step(S::step(acc[i], a[i], params[i]), b[i], params[i]);
                    acc[i] = S::step(S::step(two, c[i], params[i]), d[i], params[i]);
                    i += 1;
                }
                row += 4;
            }
        }
        while row < count {
            let x = &x[row * stride..row * stride + len];
            let mut i = 0;
            while i < len {
                acc[i] = S::step(acc[i], x[i], params[i]);
                i += 1;
            }
            row += 1;
        }
    }
}

struct Join<'a, S: Accumulate> {
    acc: &'a mut [S::Acc],
    other: &'a [S::Acc],
}

impl<S: Accumulate> Kernel for Join<'_, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Join { acc, other } = self;
        let other = &other[..acc.len()];
        let mut i = 0;
        while i < acc.len() {
            acc[i] = S::join(acc[i], other[i]);
            i += 1;
        }
    }
}

impl<S: Accumulate + Sync> Fold<S::In, S::Acc, S::Param> for Folds<S> {
    fn start(&self) -> S::Acc {
        S::START
    }
    fn rows(&self, x: &[S::In], n: usize, params: &[S::Param], out: &mut [S::Acc]) {
        let kernel = Rows::<S> { x, n, params, out };
        if S::WIDE { dispatch(kernel) } else { dispatch_narrow(kernel) }
    }
    fn columns(
        &self,
        x: &[S::In],
        stride: usize,
        count: usize,
        params: &[S::Param],
        acc: &mut [S::Acc],
    ) {
        let kernel = Columns::<S> { x, stride, count, params, acc };
        if S::WIDE { dispatch(kernel) } else { dispatch_narrow(kernel) }
    }
    fn join(&self, acc: &mut [S::Acc], other: &[S::Acc]) {
        dispatch_narrow(Join::<S> { acc, other });
    }
}

/// `Σ x`.
pub(super) struct Sum<I, A>(PhantomData<(I, A)>);
/// `∏ x`.
struct Product<I, A>(PhantomData<(I, A)>);
/// The largest.
pub(super) struct Largest<I>(PhantomData<I>);
/// The smallest.
struct Smallest<I>(PhantomData<I>);

macro_rules! arithmetic_steps {
    ($wide:literal: $($in:ty => $acc:ty = $zero:expr, $one:expr;)*) => {$(
        impl Accumulate for Sum<$in, $acc> {
            type In = $in;
            type Acc = $acc;
            type Param = ();
            const START: $acc = $zero;
            const WIDE: bool = $wide;
            const CHEAP: bool = $wide;
            #[inline(always)]
            fn step(acc: $acc, x: $in, _: ()) -> $acc {
                acc + <$acc>::from(x)
            }
            #[inline(always)]
            fn join(a: $acc, b: $acc) -> $acc {
                a + b
            }
            #[inline(always)]
            fn in_registers(x: &[$in], lanes: &mut [$acc]) -> bool {
                <$in as Registers<$acc>>::add_groups(x, lanes)
            }
        }
        impl Accumulate for Product<$in, $acc> {
            type In = $in;
            type Acc = $acc;
            type Param = ();
            const START: $acc = $one;
            const WIDE: bool = $wide;
            #[inline(always)]
            fn step(acc: $acc, x: $in, _: ()) -> $acc {
                acc * <$acc>::from(x)
            }
            #[inline(always)]
            fn join(a: $acc, b: $acc) -> $acc {
                a * b
            }
        }
    )*};
}

arithmetic_steps!(true: f32 => f64 = 0.0, 1.0; f64 => f64 = 0.0, 1.0;);
arithmetic_steps!(false:
    Wrapping<u8> => Wrapping<u8> = Wrapping(0), Wrapping(1);
    Wrapping<u16> => Wrapping<u16> = Wrapping(0), Wrapping(1);
    Wrapping<u32> => Wrapping<u32> = Wrapping(0), Wrapping(1);
    Wrapping<u64> => Wrapping<u64> = Wrapping(0), Wrapping(1);
);

macro_rules! extreme_steps {
    ($wide:literal: $($t:ty = $least:expr, $most:expr;)*) => {$(
        impl Accumulate for Largest<$t> {
            type In = $t;
            type Acc = $t;
            type Param = ();
            const START: $t = $least;
            const WIDE: bool = $wide;
            const CHEAP: bool = $wide;
            #[inline(always)]
            fn step(acc: $t, x: $t, _: ()) -> $t {
                Number::maximum(acc, x)
            }
            #[inline(always)]
            fn join(a: $t, b: $t) -> $t {
                Number::maximum(a, b)
            }
        }
        impl Accumulate for Smallest<$t> {
            type In = $t;
            type Acc = $t;
            type Param = ();
            const START: $t = $most;
            const WIDE: bool = $wide;
            const CHEAP: bool = $wide;
            #[inline(always)]
            fn step(acc: $t, x: $t, _: ()) -> $t {
                Number::minimum(acc, x)
            }
            #[inline(always)]
            fn join(a: $t, b: $t) -> $t {
                Number::minimum(a, b)
            }
        }
        impl Extremes for $t {
            fn largest() -> &'static dyn Fold<$t, $t, ()> {
                const { &Folds(Largest::<$t>(PhantomData)) }
            }
            fn smallest() -> &'static dyn Fold<$t, $t, ()> {
                const { &Folds(Smallest::<$t>(PhantomData)) }
            }
        }
    )*};
}

extreme_steps!(true:
    f32 = f32::NEG_INFINITY, f32::INFINITY;
    f64 = f64::NEG_INFINITY, f64::INFINITY;
);
extreme_steps!(false:
    Wrapping<i8> = Wrapping(i8::MIN), Wrapping(i8::MAX);
    Wrapping<i16> = Wrapping(i16::MIN), Wrapping(i16::MAX);
    Wrapping<i32> = Wrapping(i32::MIN), Wrapping(i32::MAX);
    Wrapping<i64> = Wrapping(i64::MIN), Wrapping(i64::MAX);
    Wrapping<u8> = Wrapping(u8::MIN), Wrapping(u8::MAX);
    Wrapping<u16> = Wrapping(u16::MIN), Wrapping(u16::MAX);
    Wrapping<u32> = Wrapping(u32::MIN), Wrapping(u32::MAX);
    Wrapping<u64> = Wrapping(u64::MIN), Wrapping(u64::MAX);
);

/// A type of which the largest and the smallest can be found.
pub trait Extremes: Number<Mask = bool> + Native {
    /// Finds the largest; NaN if there is one.
    fn largest() -> &'static dyn Fold<Self, Self, ()>;
    /// Finds the smallest; NaN if there is one.
    fn smallest() -> &'static dyn Fold<Self, Self, ()>;
}

/// `x` in `f32`, of two neighbours the odd one: rounded again to fewer digits it gives the nearest,
/// which `from_f64` of the 16-bit types does not, because it leaves out the last digits.
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || x.is_nan() {
        return near;
    }
    let below = if f64::from(near).abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(below | 1)
}

/// A type that can be summed and multiplied.
pub trait Arithmetic: Compute {
    /// What it is summed and multiplied in.
    type Acc: Native;
    /// Sums.
    fn sums() -> &'static dyn Fold<Self::Wide, Self::Acc, ()>;
    /// Multiplies.
    fn products() -> &'static dyn Fold<Self::Wide, Self::Acc, ()>;
    /// Rounds.
    fn round(acc: Self::Acc) -> Self;
}

macro_rules! arithmetic {
    ($($t:ty, $wide:ty, $acc:ty: |$a:ident| $round:expr;)*) => {$(
        impl Arithmetic for $t {
            type Acc = $acc;
            fn sums() -> &'static dyn Fold<$wide, $acc, ()> {
                const { &Folds(Sum::<$wide, $acc>(PhantomData)) }
            }
            fn products() -> &'static dyn Fold<$wide, $acc, ()> {
                const { &Folds(Product::<$wide, $acc>(PhantomData)) }
            }
            #[inline(always)]
            fn round($a: $acc) -> $t {
                $round
            }
        }
    )*};
}

arithmetic! {
    f16, f32, f64: |a| f16::from_f32(to_odd(a));
    bf16, f32, f64: |a| bf16::from_f32(to_odd(a));
    f32, f32, f64: |a| a as f32;
    f64, f64, f64: |a| a;
    Wrapping<u8>, Wrapping<u8>, Wrapping<u8>: |a| a;
    Wrapping<u16>, Wrapping<u16>, Wrapping<u16>: |a| a;
    Wrapping<u32>, Wrapping<u32>, Wrapping<u32>: |a| a;
    Wrapping<u64>, Wrapping<u64>, Wrapping<u64>: |a| a;
}

/// `Σ x` over the axes that `reduced` marks; whole numbers wrap around (so that signed and unsigned
/// ones of one width have the same sum).
///
/// # Panics
/// Like all functions here, if `out` has not as many elements as there are results.
pub fn sum<T: Arithmetic>(x: View<'_, T>, reduced: &[bool], out: &mut [T]) {
    all(T::sums(), x, reduced, out);
}

/// `∏ x`; whole numbers wrap around.
pub fn product<T: Arithmetic>(x: View<'_, T>, reduced: &[bool], out: &mut [T]) {
    all(T::products(), x, reduced, out);
}

fn all<T: Arithmetic>(
    fold: &dyn Fold<T::Wide, T::Acc, ()>,
    x: View<'_, T>,
    reduced: &[bool],
    out: &mut [T],
) {
    let round = |_: usize, acc: &[T::Acc], out: &mut [T]| {
        for (out, &acc) in out.iter_mut().zip(acc) {
            *out = T::round(acc);
        }
    };
    reduce(fold, x, reduced, &no_params(out.len()), &round, out);
}

/// The largest; NaN if there is one. Of nothing: the least value of the type.
pub fn maximum<T: Compute>(x: View<'_, T>, reduced: &[bool], out: &mut [T])
where
    T::Wide: Extremes,
{
    extreme(T::Wide::largest(), x, reduced, out);
}

/// The smallest; NaN if there is one. Of nothing: the largest value of the type.
pub fn minimum<T: Compute>(x: View<'_, T>, reduced: &[bool], out: &mut [T])
where
    T::Wide: Extremes,
{
    extreme(T::Wide::smallest(), x, reduced, out);
}

fn extreme<T: Compute>(
    fold: &dyn Fold<T::Wide, T::Wide, ()>,
    x: View<'_, T>,
    reduced: &[bool],
    out: &mut [T],
) where
    T::Wide: Extremes,
{
    let round = |_: usize, acc: &[T::Wide], out: &mut [T]| T::narrow(acc, out);
    reduce(fold, x, reduced, &no_params(out.len()), &round, out);
}

/// Entries of no size: parameters where results have none.
pub(super) fn no_params(results: usize) -> Vec<()> {
    vec![(); results]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads at these cursors, whatever the machine.
    struct Together<'a>(Cursors, &'a [f32], usize, &'a mut [f64]);

    impl Kernel for Together<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            let Together(cursors, x, n, out) = self;
            at_cursors::<Sum<f32, f64>>(cursors, x, n, &no_params(out.len()), out);
        }
    }

    #[test]
    fn rows_read_at_several_places_have_the_bits_of_each_alone() {
        let x: Vec<f32> = (0..70 * CHUNK).map(|i| (i as f32 * 0.7).sin() * i as f32).collect();
        for n in [LONG + 1, 1000, 1023, 2016, CHUNK - 1, CHUNK] {
            let alone = |k: usize| {
                let mut alone = [f64::NAN];
                f32::sums().rows(&x[k * n..(k + 1) * n], n, &[()], &mut alone);
                alone[0].to_bits()
            };
            for rows in [8, 16, 17, 31, 32, 47, 69] {
                let x = &x[..n * rows];
                assert!(x.len() > PACK || rows == 8, "few numbers are read one after the other");
                let mut all = vec![f64::NAN; rows];
                f32::sums().rows(x, n, &no_params(rows), &mut all);
                for (k, of_all) in all.iter().enumerate() {
                    assert_eq!(of_all.to_bits(), alone(k), "{k} of {rows} × {n}");
                }
                for cursors in [Cursors::MANY, Cursors::SOME] {
                    if rows % cursors.count == 0 {
                        all.fill(f64::NAN);
                        dispatch(Together(cursors, x, n, &mut all));
                        for (k, of_all) in all.iter().enumerate() {
                            assert_eq!(
                                of_all.to_bits(),
                                alone(k),
                                "{k} of {rows} × {n}, {cursors:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sums_are_rounded_to_the_nearest_16_bit_number() {
        // Just above and below the middle of two numbers, and the middle itself.
        let round = |x: f64| <bf16 as Arithmetic>::round(x).to_f64();
        assert_eq!([6.890628528111098, 6.8906249, 6.890625].map(round), [6.90625, 6.875, 6.875]);
        let round = |x: f64| <f16 as Arithmetic>::round(x).to_f64();
        let (unit, near) = (2f64.powi(-11), 1e-13);
        let cases = [1.0 + unit + near, 1.0 + unit - near, 1.0 + unit, -(1.0 + unit + near)];
        assert_eq!(cases.map(round), [1.0 + 2.0 * unit, 1.0, 1.0, -(1.0 + 2.0 * unit)]);
        assert_eq!([1e300, -1e300, 1e-300].map(round), [f64::INFINITY, f64::NEG_INFINITY, 0.0]);
        assert!(round(f64::NAN).is_nan());
    }
}
