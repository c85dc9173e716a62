//! Running sums, products and sums of exponentials, and a recurrence that their derivatives are.

use super::{BLOCK, PACK, Room, TASK, in_tasks};
use crate::cast::{round_bf16, round_f16};
use crate::native::{Compute, Native};
use crate::number::Real;
use crate::par::{Shared, parallel_chunks};
use crate::stop;
use crate::view::{Gather, View};
use half::{bf16, f16};
use std::marker::PhantomData;
use std::num::Wrapping;

/// A type that running sums and products can be made of.
pub trait Scans: Compute {
    /// The sum or product so far, more exact than the type itself.
    type Run: Copy;
    /// No sum yet.
    const ZERO: Self::Run;
    /// No product yet.
    const ONE: Self::Run;
    /// One number more.
    fn add(run: Self::Run, x: Self::Wide) -> Self::Run;
    /// One factor more.
    fn times(run: Self::Run, x: Self::Wide) -> Self::Run;
    /// The sum or product, rounded.
    fn value(run: Self::Run) -> Self;
}

macro_rules! scans {
    ($($t:ty, $wide:ty: $run:ty = $zero:expr, $one:expr, |$s:ident, $x:ident| $add:expr, $times:expr, |$r:ident| $value:expr;)*) => {$(
        impl Scans for $t {
            type Run = $run;
            const ZERO: $run = $zero;
            const ONE: $run = $one;
            #[inline(always)]
            fn add($s: $run, $x: $wide) -> $run {
                $add
            }
            #[inline(always)]
            fn times($s: $run, $x: $wide) -> $run {
                $times
            }
            #[inline(always)]
            fn value($r: $run) -> $t {
                $value
            }
        }
    )*};
}

scans! {
    f16, f32: f64 = 0.0, 1.0, |s, x| s + f64::from(x), s * f64::from(x), |r| round_f16(r);
    bf16, f32: f64 = 0.0, 1.0, |s, x| s + f64::from(x), s * f64::from(x), |r| round_bf16(r);
    f32, f32: f64 = 0.0, 1.0, |s, x| s + f64::from(x), s * f64::from(x), |r| r as f32;
    f64, f64: [f64; 2] = [0.0; 2], [1.0, 0.0], |s, x| compensated(s, x), multiplied(s, x), |r| r[0] + r[1];
    Wrapping<u8>, Wrapping<u8>: Wrapping<u8> = Wrapping(0), Wrapping(1), |s, x| s + x, s * x, |r| r;
    Wrapping<u16>, Wrapping<u16>: Wrapping<u16> = Wrapping(0), Wrapping(1), |s, x| s + x, s * x, |r| r;
    Wrapping<u32>, Wrapping<u32>: Wrapping<u32> = Wrapping(0), Wrapping(1), |s, x| s + x, s * x, |r| r;
    Wrapping<u64>, Wrapping<u64>: Wrapping<u64> = Wrapping(0), Wrapping(1), |s, x| s + x, s * x, |r| r;
}

/// The sum and what rounding took from it, by Knuth's two-sum: the error does not grow with length.
#[inline(always)]
fn compensated([sum, lost]: [f64; 2], x: f64) -> [f64; 2] {
    let next = sum + x;
    let part = next - sum;
    let error = (sum - (next - part)) + (x - part);
    // Beyond the finite numbers nothing is lost.
    [next, if next.is_finite() { lost + error } else { 0.0 }]
}

/// The product and what rounding took from it.
#[inline(always)]
fn multiplied([product, lost]: [f64; 2], x: f64) -> [f64; 2] {
    let next = product * x;
    let error = product.mul_add(x, -next);
    // Beyond the finite numbers nothing is lost.
    [next, if next.is_finite() { lost.mul_add(x, error) } else { 0.0 }]
}

/// `out[…, i, …] = x[…, 0, …] + … + x[…, i, …]` along `axis`, or from the end if `reverse`.
///
/// # Panics
/// If there is no such axis, or if `out` has not as many elements as `x`.
pub fn cumsum<T: Scans>(x: View<'_, T>, axis: usize, reverse: bool, out: &mut [T]) {
    scan::<T, Sums>(x, axis, reverse, out);
}

/// `out[…, i, …] = x[…, 0, …] · … · x[…, i, …]` along `axis`.
///
/// # Panics
/// As [`cumsum`].
pub fn cumprod<T: Scans>(x: View<'_, T>, axis: usize, out: &mut [T]) {
    scan::<T, Products>(x, axis, false, out);
}

/// `out[…, i, …] = ln(e^x[…, 0, …] + … + e^x[…, i, …])` along `axis`.
///
/// # Panics
/// As [`cumsum`].
pub fn logcumsumexp<T: Scans>(x: View<'_, T>, axis: usize, out: &mut [T])
where
    T::Wide: Into<f64>,
    f64: Rounds<T>,
{
    scan::<T, LogSums>(x, axis, false, out);
}

/// What is carried from one number of a line to the next.
trait Running<T: Compute> {
    /// What is known of the numbers so far.
    type Run: Copy;
    /// What is known of none.
    const START: Self::Run;
    /// One number more.
    fn step(run: Self::Run, x: T::Wide) -> Self::Run;
    /// The result.
    fn value(run: Self::Run) -> T;
}

struct Sums;

impl<T: Scans> Running<T> for Sums {
    type Run = T::Run;
    const START: T::Run = <T as Scans>::ZERO;
    #[inline(always)]
    fn step(run: T::Run, x: T::Wide) -> T::Run {
        T::add(run, x)
    }
    #[inline(always)]
    fn value(run: T::Run) -> T {
        T::value(run)
    }
}

struct Products;

impl<T: Scans> Running<T> for Products {
    type Run = T::Run;
    const START: T::Run = T::ONE;
    #[inline(always)]
    fn step(run: T::Run, x: T::Wide) -> T::Run {
        T::times(run, x)
    }
    #[inline(always)]
    fn value(run: T::Run) -> T {
        T::value(run)
    }
}

/// `f64` rounded to a type.
pub trait Rounds<T> {
    /// The nearest number of that type.
    fn rounded(self) -> T;
}

macro_rules! rounds {
    ($($t:ty: |$r:ident| $value:expr;)*) => {$(
        impl Rounds<$t> for f64 {
            #[inline(always)]
            fn rounded(self) -> $t {
                let $r = self;
                $value
            }
        }
    )*};
}

rounds! {
    f16: |r| round_f16(r);
    bf16: |r| round_bf16(r);
    f32: |r| r as f32;
    f64: |r| r;
}

/// The largest so far, and the sum of `e^(x − largest)`, with what rounding took from it.
struct LogSums;

impl<T: Compute> Running<T> for LogSums
where
    T::Wide: Into<f64>,
    f64: Rounds<T>,
{
    type Run = (f64, [f64; 2]);
    const START: Self::Run = (f64::NEG_INFINITY, [0.0; 2]);
    #[inline(always)]
    fn step((most, sum): Self::Run, x: T::Wide) -> Self::Run {
        let x: f64 = x.into();
        if x > most {
            let shrunk = Real::exp(most - x);
            (x, compensated(sum.map(|part| part * shrunk), 1.0))
        } else {
            // Of two infinities of one sign the difference is nothing.
            let apart = if x == most { 0.0 } else { x - most };
            (most, compensated(sum, Real::exp(apart)))
        }
    }
    #[inline(always)]
    fn value((most, [sum, lost]): Self::Run) -> T {
        (most + Real::log(sum + lost)).rounded()
    }
}

/// `out[i] = b[i] + a[i]·out[i − 1]` along the middle axis of `[_, rows, inner]`, or
/// `b[i] + a[i]·out[i + 1]` if `reverse`. What comes before the first is nothing: its `a` is not read.
/// With `cut`, nothing comes of what is before an `a` of 0 either, infinite or not.
///
/// # Panics
/// If the lengths differ.
pub fn recurrence<T: Real<Mask = bool> + Native>(
    a: &[T],
    b: &[T],
    [rows, inner]: [usize; 2],
    [reverse, cut]: [bool; 2],
    out: &mut [T],
) {
    assert!([a.len(), b.len()] == [out.len(); 2], "recurrence: the lengths");
    let size = rows * inner;
    if size == 0 {
        return;
    }
    parallel_chunks(out, (TASK / size).max(1) * size, &|start, out| {
        for (k, out) in out.chunks_mut(size).enumerate() {
            let from = start + k * size;
            let (a, b) = (&a[from..from + size], &b[from..from + size]);
            for step in 0..rows {
                if step.is_multiple_of(PACK) {
                    stop::check();
                }
                let row = if reverse { rows - 1 - step } else { step };
                for i in row * inner..(row + 1) * inner {
                    out[i] = if step == 0 || cut && a[i].eq(T::ZERO) {
                        b[i]
                    } else {
                        let before = if reverse { i + inner } else { i - inner };
                        a[i].mul_add(out[before], b[i])
                    };
                }
            }
        }
    });
}

fn scan<T: Compute, R: Running<T>>(x: View<'_, T>, axis: usize, reverse: bool, out: &mut [T]) {
    assert_eq!(out.len(), x.len(), "scan: the number of results");
    if out.is_empty() {
        return;
    }
    let shape = x.shape();
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let (x, rows) = (Gather::new(&x), shape[axis]);
    let scan = Scan::<T, R> { x, rows, inner, reverse, of: PhantomData };
    let blocks = inner.div_ceil(BLOCK);
    let shared = Shared::new(out);
    in_tasks(outer * blocks, scan.rows * inner.min(BLOCK), &|units| {
        let mut room = Room::new();
        for unit in units {
            let start = unit % blocks * BLOCK;
            let columns = start..(start + BLOCK).min(inner);
            scan.block(unit / blocks, columns, &mut room, &shared);
        }
    });
}

struct Scan<'a, T, R> {
    x: Gather<'a, T>,
    rows: usize,
    inner: usize,
    reverse: bool,
    of: PhantomData<fn() -> R>,
}

impl<T: Compute, R: Running<T>> Scan<'_, T, R> {
    /// Running results of numbers that lie behind each other.
    fn line(&self, mut run: R::Run, values: &[T::Wide], out: &mut [T]) -> R::Run {
        if self.reverse {
            for (out, &x) in out.iter_mut().zip(values).rev() {
                run = R::step(run, x);
                *out = R::value(run);
            }
        } else {
            for (out, &x) in out.iter_mut().zip(values) {
                run = R::step(run, x);
                *out = R::value(run);
            }
        }
        run
    }

    /// Running results of some columns of one matrix.
    fn block(
        &self,
        matrix: usize,
        columns: std::ops::Range<usize>,
        room: &mut Room<T>,
        out: &Shared<T>,
    ) {
        let width = columns.len();
        let mut runs = stop::room(R::START, width);
        // Rows that lie behind each other are read together.
        let together = if width == self.inner { (PACK / width).max(1) } else { 1 };
        let pieces = self.rows.div_ceil(together);
        for piece in 0..pieces {
            stop::check();
            let piece = if self.reverse { pieces - 1 - piece } else { piece };
            let row = piece * together;
            let count = together.min(self.rows - row);
            let at = (matrix * self.rows + row) * self.inner + columns.start;
            let values = room.read(&self.x, at, count * width);
            // SAFETY: this piece lies in the output, and no other piece of any task overlaps it.
            let out = unsafe { out.part(at, at + count * width) };
            if width == 1 {
                runs[0] = self.line(runs[0], values, out);
                continue;
            }
            for k in 0..count {
                let k = if self.reverse { count - 1 - k } else { k };
                let part = k * width..(k + 1) * width;
                let (values, out) = (&values[part.clone()], &mut out[part]);
                for ((out, &x), run) in out.iter_mut().zip(values).zip(&mut runs) {
                    *run = R::step(*run, x);
                    *out = R::value(*run);
                }
            }
        }
    }
}
