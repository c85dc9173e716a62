//! Numbers brought to mean 0 and variance 1, group by group, and the gradient of that.
//!
//! The numbers of a group are looked at several times while they are in a cache: for the mean, for
//! the squares about it, and to be normalised. Sums are made in `f64`, in an order that follows from
//! how many numbers there are and from nothing else. [`rows`] serves groups that lie together and
//! have a factor for each number, [`planes`] those made of pieces that have one each.

pub mod planes;
pub mod rows;

use crate::native::Compute;
use crate::number::Real;

/// `f32` or `f64`: what is computed in.
pub trait Wide: Real<Mask = bool> + Compute<Wide = Self> + Into<f64> {
    /// Whether it is `f64`, of which sums round.
    const DOUBLE: bool;
    /// Standard deviations between these are made of squares that lose nothing.
    const RANGE: (f64, f64);
    /// What numbers are multiplied by where the deviation is below the range, and above.
    const SCALES: (f64, f64);
    /// Rounds.
    fn of(x: f64) -> Self;
}

/// `2ⁿ`.
const fn power(n: i64) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

impl Wide for f32 {
    const DOUBLE: bool = false;
    const RANGE: (f64, f64) = (1e-30, 1e30);
    const SCALES: (f64, f64) = (power(96), power(-64));
    #[inline(always)]
    fn of(x: f64) -> f32 {
        x as f32
    }
}

impl Wide for f64 {
    const DOUBLE: bool = true;
    const RANGE: (f64, f64) = (1e-140, 1e150);
    const SCALES: (f64, f64) = (power(500), power(-600));
    #[inline(always)]
    fn of(x: f64) -> f64 {
        x
    }
}

/// The smallest standard deviation that a gradient is divided by.
const LEAST: f64 = 1e-10;
/// Numbers that a task takes at a time, nearly.
const TASK: usize = 32 * 1024;

/// Interleaved sums in which numbers are added: two vectors of `f64`.
const LANES: usize = 16;
/// Numbers that are added before partial sums are.
const CHUNK: usize = 2048;

/// Terms of `K` sums.
///
/// # Safety
/// [`step`](Terms::step) may be called for every `i` below [`len`](Terms::len).
unsafe trait Terms<const K: usize>: Copy {
    /// How many there are.
    fn len(self) -> usize;
    /// The sums `acc` and the terms number `i`.
    ///
    /// # Safety
    /// `i` must be below `len`.
    unsafe fn step(self, i: usize, acc: [f64; K]) -> [f64; K];
}

/// Sums that lose nothing when partial sums are added to them.
#[derive(Clone, Copy)]
struct Totals<const K: usize> {
    sums: [f64; K],
    lost: [f64; K],
}

impl<const K: usize> Totals<K> {
    const ZERO: Self = Totals { sums: [0.0; K], lost: [0.0; K] };

    #[inline(always)]
    fn add(&mut self, terms: [f64; K]) {
        let mut k = 0;
        while k < K {
            let (a, b) = (self.sums[k], terms[k]);
            let sum = a + b;
            let rest = if a.abs() >= b.abs() { (a - sum) + b } else { (b - sum) + a };
            self.lost[k] += if sum.is_finite() { rest } else { 0.0 };
            self.sums[k] = sum;
            k += 1;
        }
    }

    /// Adds all terms.
    #[inline(always)]
    fn add_all<F: Terms<K>>(&mut self, terms: F) {
        let mut start = 0;
        while start < terms.len() {
            let end = (start + CHUNK).min(terms.len());
            // SAFETY: `end` is at most the number of terms.
            self.add(unsafe { chunk(terms, start, end) });
            start = end;
        }
    }

    #[inline(always)]
    fn values(&self) -> [f64; K] {
        let mut values = self.sums;
        let mut k = 0;
        while k < K {
            values[k] += self.lost[k];
            k += 1;
        }
        values
    }
}

/// The sums of the terms `start..end`, in interleaved lanes that are joined in a tree. The loop over
/// them is one that the compiler knows the length of, and keeps in registers.
///
/// # Safety
/// `end` must be at most the number of terms.
#[inline(always)]
unsafe fn chunk<F: Terms<K>, const K: usize>(terms: F, start: usize, end: usize) -> [f64; K] {
    let mut lanes = [[0.0; LANES]; K];
    let mut at = start;
    while at + LANES <= end {
        let mut l = 0;
        while l < LANES {
            // SAFETY: `at + LANES` is at most `end`.
            unsafe { lane(terms, at + l, l, &mut lanes) };
            l += 1;
        }
        at += LANES;
    }
    let mut l = 0;
    while at + l < end {
        // SAFETY: the condition.
        unsafe { lane(terms, at + l, l, &mut lanes) };
        l += 1;
    }
    let mut half = LANES / 2;
    while half > 0 {
        let mut k = 0;
        while k < K {
            let mut l = 0;
            while l < half {
                lanes[k][l] += lanes[k][l + half];
                l += 1;
            }
            k += 1;
        }
        half /= 2;
    }
    let mut acc = [0.0; K];
    let mut k = 0;
    while k < K {
        acc[k] = lanes[k][0];
        k += 1;
    }
    acc
}

/// Term number `i`, added in lane `l`.
///
/// # Safety
/// `i` must be below the number of terms.
#[inline(always)]
unsafe fn lane<F: Terms<K>, const K: usize>(
    terms: F,
    i: usize,
    l: usize,
    lanes: &mut [[f64; LANES]; K],
) {
    let mut acc = [0.0; K];
    let mut k = 0;
    while k < K {
        acc[k] = lanes[k][l];
        k += 1;
    }
    // SAFETY: the caller's promise.
    acc = unsafe { terms.step(i, acc) };
    let mut k = 0;
    while k < K {
        lanes[k][l] = acc[k];
        k += 1;
    }
}

/// Element number `i` as `f64`.
///
/// # Safety
/// There must be one.
#[inline(always)]
unsafe fn wide<W: Wide>(x: &[W], i: usize) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { *x.get_unchecked(i) }.into()
}

/// `Σ scale·x`.
#[derive(Clone, Copy)]
struct Plain<'a, W> {
    x: &'a [W],
    scale: f64,
}

// SAFETY: only `x` is read, and `len` is its length.
unsafe impl<W: Wide> Terms<1> for Plain<'_, W> {
    #[inline(always)]
    fn len(self) -> usize {
        self.x.len()
    }
    #[inline(always)]
    unsafe fn step(self, i: usize, [sum]: [f64; 1]) -> [f64; 1] {
        // SAFETY: the caller's promise.
        let x = unsafe { wide(self.x, i) };
        [x.mul_add(self.scale, sum)]
    }
}

/// `Σ d` (of `f64` only) and `Σ d²`, for `d = scale·x − mean`.
#[derive(Clone, Copy)]
struct Squares<'a, W> {
    x: &'a [W],
    scale: f64,
    mean: f64,
}

// SAFETY: only `x` is read, and `len` is its length.
unsafe impl<W: Wide> Terms<2> for Squares<'_, W> {
    #[inline(always)]
    fn len(self) -> usize {
        self.x.len()
    }
    #[inline(always)]
    unsafe fn step(self, i: usize, [sum, squares]: [f64; 2]) -> [f64; 2] {
        // SAFETY: the caller's promise.
        let x = unsafe { wide(self.x, i) };
        let d = x.mul_add(self.scale, -self.mean);
        [if W::DOUBLE { sum + d } else { sum }, d.mul_add(d, squares)]
    }
}

/// Where the numbers of a group are: `count` pieces of `len` that begin `step` apart.
#[derive(Clone, Copy)]
struct Spans<'a, W> {
    x: &'a [W],
    first: usize,
    count: usize,
    len: usize,
    step: usize,
}

impl<'a, W: Wide> Spans<'a, W> {
    #[inline(always)]
    fn get(&self, k: usize) -> &'a [W] {
        let at = self.first + k * self.step;
        &self.x[at..at + self.len]
    }
}

/// A normalisation: `x̂ = (scale·x − mean − rest)·factor`, with `scale` 1 but for the largest and
/// smallest numbers.
#[derive(Clone, Copy, Debug)]
struct Line<W> {
    scale: W,
    mean: W,
    /// What rounding the mean leaves of it.
    rest: W,
    factor: W,
    exact: Exact,
}

/// The same in `f64`: gradients are differences of almost equal numbers.
#[derive(Clone, Copy, Debug)]
struct Exact {
    scale: f64,
    mean: f64,
    rest: f64,
    factor: f64,
    /// `1/√(variance + eps)`, at most 10¹⁰: what a gradient is multiplied by.
    slope: f64,
}

impl<W: Wide> Line<W> {
    #[inline(always)]
    fn new(exact: Exact) -> Line<W> {
        let mean = W::of(exact.mean);
        let rounded: f64 = mean.into();
        let rest = W::of(exact.mean - rounded + exact.rest);
        let (scale, factor) = (W::of(exact.scale), W::of(exact.factor));
        Line { scale, mean, rest, factor, exact }
    }

    /// `x̂`.
    #[inline(always)]
    fn at(self, x: W) -> W {
        (x.mul_add(self.scale, -self.mean) - self.rest) * self.factor
    }

    /// `x̂` in `f64`.
    #[inline(always)]
    fn exactly(self, x: f64) -> f64 {
        let apart = x.mul_add(self.exact.scale, -self.exact.mean);
        // The mean of a narrower type is exact as it is.
        (if W::DOUBLE { apart - self.exact.rest } else { apart }) * self.exact.factor
    }

    /// The line of a mean and a deviation that are given.
    #[inline(always)]
    fn given(mean: f64, deviation: f64) -> Line<W> {
        let deviation = if deviation.abs() < W::RANGE.0 { LEAST } else { deviation };
        let slope = 1.0 / if deviation < LEAST { LEAST } else { deviation };
        Line::new(Exact { scale: 1.0, mean, rest: 0.0, factor: 1.0 / deviation, slope })
    }

    /// The line of a mean and a slope that were saved.
    #[inline(always)]
    fn saved(mean: f64, slope: f64) -> Line<W> {
        Line::new(Exact { scale: 1.0, mean, rest: 0.0, factor: slope, slope })
    }
}

/// A gradient on its way back through a line: `(g·gamma − mean − along·x̂)·slope`, held within
/// ±`limit`.
#[derive(Clone, Copy)]
struct Pull<W> {
    line: Line<W>,
    mean: f64,
    along: f64,
    limit: f64,
}

impl<W: Wide> Pull<W> {
    /// From `Σ g·gamma` and `Σ g·gamma·x̂` over `n` numbers. There is no limit where one of them is
    /// not finite, so that infinite and undefined gradients are seen.
    #[inline(always)]
    fn new(line: Line<W>, [sum, product]: [f64; 2], n: f64, limit: f64) -> Pull<W> {
        let finite = sum.is_finite() & product.is_finite() & line.exact.slope.is_finite();
        let limit = if finite { limit } else { f64::INFINITY };
        Pull { line, mean: sum / n, along: product / n, limit }
    }

    #[inline(always)]
    fn at(self, g: W, gamma: W, x: W) -> W {
        let (g, gamma, x): (f64, f64, f64) = (g.into(), gamma.into(), x.into());
        let pulled = g.mul_add(gamma, -self.mean);
        let pulled = (-self.along).mul_add(self.line.exactly(x), pulled) * self.line.exact.slope;
        let held = if self.limit < pulled { self.limit } else { pulled };
        W::of(if held < -self.limit { -self.limit } else { held })
    }
}

/// Mean and variance of a group, and its normalisation.
#[derive(Clone, Copy)]
struct Moments<W> {
    mean: f64,
    variance: f64,
    line: Line<W>,
}

/// Mean and variance in two passes; the mean is 0 unless `centred`.
#[inline(always)]
fn moments<W: Wide>(spans: Spans<'_, W>, centred: bool, eps: f64) -> Moments<W> {
    let n = (spans.count * spans.len) as f64;
    let mut scale = 1.0;
    loop {
        let mut mean = 0.0;
        if centred {
            let mut sum = Totals::<1>::ZERO;
            let mut k = 0;
            while k < spans.count {
                sum.add_all(Plain { x: spans.get(k), scale });
                k += 1;
            }
            mean = sum.values()[0] / n;
        }
        let mut sums = Totals::<2>::ZERO;
        let mut k = 0;
        while k < spans.count {
            sums.add_all(Squares { x: spans.get(k), scale, mean });
            k += 1;
        }
        let [apart, squares] = sums.values();
        // What the numbers are apart from the rounded mean on average, it is off by.
        let rest = if W::DOUBLE && centred { apart / n } else { 0.0 };
        let variance = squares / n - rest * rest;
        let variance = if variance < 0.0 { 0.0 } else { variance };
        let deviation = (variance + eps * scale * scale).sqrt();
        let (low, high) = W::RANGE;
        if deviation >= low && deviation <= high || scale != 1.0 {
            return settle(mean, rest, variance, deviation, scale);
        }
        let (up, down) = W::SCALES;
        let new = if deviation < low { up } else { down };
        if !W::DOUBLE {
            // The sums are right; only what is computed in the narrow type needs a scale.
            let (variance, deviation) = (variance * new * new, deviation * new);
            return settle(mean * new, 0.0, variance, deviation, new);
        }
        scale = new;
    }
}

#[inline(always)]
fn settle<W: Wide>(mean: f64, rest: f64, variance: f64, deviation: f64, scale: f64) -> Moments<W> {
    let deviation = if deviation == 0.0 { LEAST * scale } else { deviation };
    let apart = deviation / scale;
    let slope = 1.0 / if apart < LEAST { LEAST } else { apart };
    let line = Line::new(Exact { scale, mean, rest, factor: 1.0 / deviation, slope });
    Moments { mean: (mean + rest) / scale, variance: variance / scale / scale, line }
}
