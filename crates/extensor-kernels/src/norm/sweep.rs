//! The sums over a long row of `f32`, but for its mean, in one pass over it.
//!
//! The mean is made of sums in `f64`: near it a normalised number is nothing but the difference.
//! For the rest numbers are taken relative to the rounded mean, so that squares and products in the
//! narrow type lose next to nothing; lanes are emptied into `f64` before they grow. Where numbers
//! leave the range in which squares are exact enough there is no answer, and the caller takes the
//! long way.

use super::{Line, Moments, Plain, Totals, Wide, ask_ahead, settle};
use crate::isa::{Kernel, dispatch};
use std::marker::PhantomData;

/// Interleaved sums.
const LANES: usize = 32;
/// Numbers that are added in the narrow type.
const BLOCK: usize = 32 * LANES;
/// Deviations, and sums of gradients, whose squares and products are far from both ends of `f32`.
const RANGE: (f64, f64) = (1e-15, 1e15);

/// What is added up over a row.
///
/// # Safety
/// [`step`](Row::step) may be called for every `i` below [`len`](Row::len).
unsafe trait Row<W, const K: usize>: Copy {
    fn len(self) -> usize;
    /// Asks for memory that will be read after the numbers from `i` on.
    fn ask(self, i: usize);
    /// The sums and the terms number `i`.
    ///
    /// # Safety
    /// `i` must be below `len`.
    unsafe fn step(self, i: usize, sums: [W; K]) -> [W; K];
}

/// The sums over a row, as a kernel.
struct Sweep<R, W, const K: usize>(R, PhantomData<W>);

impl<W: Wide, R: Row<W, K>, const K: usize> Kernel for Sweep<R, W, K> {
    type Output = [f64; K];
    #[inline(always)]
    fn run(self) -> [f64; K] {
        // SAFETY: the trait's promise.
        unsafe { sums(self.0) }
    }
}

/// The sums over a row.
///
/// # Safety
/// That of [`Row`].
#[inline(always)]
unsafe fn sums<W: Wide, R: Row<W, K>, const K: usize>(row: R) -> [f64; K] {
    let len = row.len();
    let whole = len / LANES * LANES;
    let mut found = [0.0; K];
    let mut at = 0;
    while at < len {
        let mut lanes = [[W::ZERO; LANES]; K];
        let end = (at + BLOCK).min(whole);
        while at < end {
            row.ask(at);
            row.ask(at + LANES / 2);
            let mut l = 0;
            while l < LANES {
                let mut sums = [W::ZERO; K];
                let mut k = 0;
                while k < K {
                    sums[k] = lanes[k][l];
                    k += 1;
                }
                // SAFETY: there are `LANES` numbers from `at` on.
                let sums = unsafe { row.step(at + l, sums) };
                let mut k = 0;
                while k < K {
                    lanes[k][l] = sums[k];
                    k += 1;
                }
                l += 1;
            }
            at += LANES;
        }
        if at == whole {
            let mut l = 0;
            while at < len {
                let mut sums = [W::ZERO; K];
                let mut k = 0;
                while k < K {
                    sums[k] = lanes[k][l];
                    k += 1;
                }
                // SAFETY: the condition.
                let sums = unsafe { row.step(at, sums) };
                let mut k = 0;
                while k < K {
                    lanes[k][l] = sums[k];
                    k += 1;
                }
                (at, l) = (at + 1, l + 1);
            }
        }
        let mut k = 0;
        while k < K {
            found[k] += joined(lanes[k]);
            k += 1;
        }
    }
    found
}

/// The sum of all lanes. The compiler must not see it where they are filled: it would arrange that
/// loop for this one. Nor must it have to keep them in memory for this, number by number.
#[inline(never)]
fn joined<W: Wide>(mut lanes: [W; LANES]) -> f64 {
    for half in [LANES / 2, LANES / 4] {
        for l in 0..half {
            lanes[l] = lanes[l] + lanes[l + half];
        }
    }
    lanes[..LANES / 4].iter().map(|&lane| lane.into()).sum()
}

/// `Σ d²`, for `d = x − pivot`.
#[derive(Clone, Copy)]
struct Apart<'a, W> {
    x: &'a [W],
    pivot: W,
    ahead: usize,
}

// SAFETY: only `x` is read, and `len` is its length.
unsafe impl<W: Wide> Row<W, 1> for Apart<'_, W> {
    #[inline(always)]
    fn len(self) -> usize {
        self.x.len()
    }
    #[inline(always)]
    fn ask(self, i: usize) {
        ask_ahead::<W, false>(self.x, i, self.ahead);
    }
    #[inline(always)]
    unsafe fn step(self, i: usize, [squares]: [W; 1]) -> [W; 1] {
        // SAFETY: the caller's promise.
        let d = unsafe { *self.x.get_unchecked(i) } - self.pivot;
        [d.mul_add(d, squares)]
    }
}

/// That, and `Σ g·gamma` and `Σ g·gamma·d`.
#[derive(Clone, Copy)]
struct Pulled<'a, W> {
    apart: Apart<'a, W>,
    g: &'a [W],
    gamma: &'a [W],
}

// SAFETY: `len` is the shortest length of what is read.
unsafe impl<W: Wide> Row<W, 3> for Pulled<'_, W> {
    #[inline(always)]
    fn len(self) -> usize {
        self.apart.x.len().min(self.g.len()).min(self.gamma.len())
    }
    #[inline(always)]
    fn ask(self, i: usize) {
        self.apart.ask(i);
    }
    #[inline(always)]
    unsafe fn step(self, i: usize, [squares, pulled, product]: [W; 3]) -> [W; 3] {
        // SAFETY: the caller's promise.
        let (x, g) = unsafe {
            let g = *self.g.get_unchecked(i) * *self.gamma.get_unchecked(i);
            (*self.apart.x.get_unchecked(i), g)
        };
        let d = x - self.apart.pivot;
        [d.mul_add(d, squares), pulled + g, g.mul_add(d, product)]
    }
}

/// The mean of a row, or 0 unless it is centred.
fn mean<W: Wide>(x: &[W], centred: bool) -> f64 {
    let mut sum = Totals::<1>::ZERO;
    if centred {
        sum.add_all(Plain { x, scale: 1.0 });
    }
    sum.values()[0] / x.len() as f64
}

/// The moments that the mean and `Σ d²` give, if they are as good as those found the long way; `shift`
/// is what rounding takes from the mean.
fn judge<W: Wide>(mean: f64, squares: f64, shift: f64, n: f64, eps: f64) -> Option<Moments<W>> {
    let variance = squares / n - shift * shift;
    let deviation = (variance + eps).sqrt();
    // A NaN is none of these.
    let near = shift * shift <= variance + eps;
    let inside = deviation >= RANGE.0 && deviation <= RANGE.1 && variance >= 0.0;
    (near && inside).then(|| settle(mean, 0.0, variance, deviation, 1.0))
}

/// The moments of a row, if one pass is enough.
pub(super) fn moments<W: Wide>(
    x: &[W],
    centred: bool,
    eps: f64,
    ahead: usize,
) -> Option<Moments<W>> {
    let mean = mean(x, centred);
    let pivot = W::of(mean);
    let [squares] = dispatch(Sweep::<_, W, 1>(Apart { x, pivot, ahead }, PhantomData));
    judge(mean, squares, mean - pivot.into(), x.len() as f64, eps)
}

/// The line of a row, `Σ g·gamma` and `Σ g·gamma·x̂`, if one pass is enough.
pub(super) fn pulled<W: Wide>(
    [x, g, gamma]: [&[W]; 3],
    centred: bool,
    eps: f64,
    ahead: usize,
) -> Option<(Line<W>, [f64; 2])> {
    let mean = mean(x, centred);
    let pivot = W::of(mean);
    let row = Pulled { apart: Apart { x, pivot, ahead }, g, gamma };
    let [squares, pulled, product] = dispatch(Sweep::<_, W, 3>(row, PhantomData));
    let shift = mean - pivot.into();
    let line = judge(mean, squares, shift, x.len() as f64, eps)?.line;
    let largest = pulled.abs().max(product.abs() * line.exact.factor);
    let inside = largest == 0.0 || largest >= RANGE.0 && largest <= RANGE.1;
    // One of them may be NaN, of which the larger is the other one.
    let inside = inside && pulled.is_finite() && product.is_finite();
    let product = (product - shift * pulled) * line.exact.factor;
    inside.then_some((line, [pulled, product]))
}
