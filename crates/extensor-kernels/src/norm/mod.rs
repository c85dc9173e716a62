//! Numbers brought to mean 0 and variance 1, group by group, and the gradient of that.
//!
//! The numbers of a group are looked at several times while they are in a cache: for the mean, for
//! the squares about it, and to be normalised. Sums are made in `f64`, in an order that follows from
//! how many numbers there are and from nothing else. [`rows`] serves groups that lie together and
//! have a factor for each number, [`planes`] those made of pieces that have one each.

pub mod planes;
pub mod rows;

use crate::isa::{Kernel, dispatch};
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
    /// Asks for memory that will be read after these terms; they are at number `i`.
    #[inline(always)]
    fn ask(self, _i: usize) {}
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
    fn add_all<F: Terms<K>>(&mut self, terms: F) {
        let mut start = 0;
        while start < terms.len() {
            let end = (start + CHUNK).min(terms.len());
            self.add(dispatch(Chunk::<F, K> { terms, start, end }));
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

/// The terms `start..end`.
struct Chunk<F, const K: usize> {
    terms: F,
    start: usize,
    end: usize,
}

impl<F: Terms<K>, const K: usize> Kernel for Chunk<F, K> {
    type Output = [f64; K];
    #[inline(always)]
    fn run(self) -> [f64; K] {
        assert!(self.end <= self.terms.len());
        // SAFETY: just compared.
        unsafe { sums(self.terms, self.start, self.end) }
    }
}

/// The sums of the terms `start..end`: in interleaved lanes that are joined in a tree, and the last
/// few one after the other.
///
/// # Safety
/// `end` must be at most the number of terms.
#[inline(always)]
unsafe fn sums<F: Terms<K>, const K: usize>(terms: F, start: usize, end: usize) -> [f64; K] {
    let mut rest = [0.0; K];
    let mut at = start + (end - start) / LANES * LANES;
    let whole = at;
    while at < end {
        // SAFETY: the condition.
        rest = unsafe { terms.step(at, rest) };
        at += 1;
    }
    if whole == start {
        return rest;
    }
    let mut lanes = [[0.0; LANES]; K];
    let mut at = start;
    while at < whole {
        terms.ask(at);
        let mut l = 0;
        while l < LANES {
            let mut acc = [0.0; K];
            let mut k = 0;
            while k < K {
                acc[k] = lanes[k][l];
                k += 1;
            }
            // SAFETY: there are `LANES` terms from `at` on.
            acc = unsafe { terms.step(at + l, acc) };
            let mut k = 0;
            while k < K {
                lanes[k][l] = acc[k];
                k += 1;
            }
            l += 1;
        }
        at += LANES;
    }
    // The compiler must not see how the lanes are joined: it would arrange the loop for that, in
    // the narrowest vectors.
    let lanes = std::hint::black_box(lanes);
    let mut k = 0;
    while k < K {
        rest[k] += tree(&lanes[k]);
        k += 1;
    }
    rest
}

/// The sum of all lanes.
#[inline(always)]
fn tree(lanes: &[f64; LANES]) -> f64 {
    let mut sums = [0.0; LANES / 2];
    let mut l = 0;
    while l < LANES / 2 {
        sums[l] = lanes[l] + lanes[l + LANES / 2];
        l += 1;
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Asks for a line of memory that will be needed soon: a group is looked at several times from its
/// beginning, and the next one would be waited for. The place may be anywhere.
#[inline(always)]
fn ask<const TO_WRITE: bool>(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this reads and writes nothing, and any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        if TO_WRITE {
            _mm_prefetch::<_MM_HINT_ET0>(place.cast());
        } else {
            _mm_prefetch::<_MM_HINT_T0>(place.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Asks for the numbers that lie `ahead` after the [`LANES`] from number `i` on; for none if 0.
#[inline(always)]
fn ask_ahead<W, const TO_WRITE: bool>(x: &[W], i: usize, ahead: usize) {
    if ahead > 0 {
        let place = x.as_ptr().wrapping_add(i + ahead).cast::<u8>();
        ask::<TO_WRITE>(place);
        if size_of::<W>() > 4 {
            ask::<TO_WRITE>(place.wrapping_add(64));
        }
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
    ahead: usize,
}

// SAFETY: only `x` is read, and `len` is its length.
unsafe impl<W: Wide> Terms<2> for Squares<'_, W> {
    #[inline(always)]
    fn len(self) -> usize {
        self.x.len()
    }
    #[inline(always)]
    fn ask(self, i: usize) {
        ask_ahead::<W, false>(self.x, i, self.ahead);
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
    /// How far from here the next group is, if it is worth asking for.
    ahead: usize,
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

/// `y = x̂·gamma + beta`. Each of these loops is a kernel by itself: in one function with others the
/// compiler makes less of it.
struct Stretch<'a, W> {
    line: Line<W>,
    x: &'a [W],
    gamma: &'a [W],
    beta: &'a [W],
    y: &'a mut [W],
}

impl<W: Wide> Kernel for Stretch<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Stretch { line, x, gamma, beta, y } = self;
        let len = y.len();
        let (x, gamma, beta) = (&x[..len], &gamma[..len], &beta[..len]);
        let mut i = 0;
        while i < len {
            y[i] = line.at(x[i]).mul_add(gamma[i], beta[i]);
            i += 1;
        }
    }
}

/// `y = x̂·gamma + beta` with one factor and summand for all.
struct Shift<'a, W> {
    line: Line<W>,
    x: &'a [W],
    gamma: W,
    beta: W,
    y: &'a mut [W],
}

impl<W: Wide> Kernel for Shift<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Shift { line, x, gamma, beta, y } = self;
        let len = y.len();
        let x = &x[..len];
        let mut i = 0;
        while i < len {
            y[i] = line.at(x[i]).mul_add(gamma, beta);
            i += 1;
        }
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
            sums.add_all(Squares { x: spans.get(k), scale, mean, ahead: spans.ahead });
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

fn settle<W: Wide>(mean: f64, rest: f64, variance: f64, deviation: f64, scale: f64) -> Moments<W> {
    let deviation = if deviation == 0.0 { LEAST * scale } else { deviation };
    let apart = deviation / scale;
    let slope = 1.0 / if apart < LEAST { LEAST } else { apart };
    let line = Line::new(Exact { scale, mean, rest, factor: 1.0 / deviation, slope });
    Moments { mean: (mean + rest) / scale, variance: variance / scale / scale, line }
}

/// Gradients pulled back, with a factor for each.
struct PullBack<'a, W> {
    pull: Pull<W>,
    g: &'a [W],
    gamma: &'a [W],
    x: &'a [W],
    dx: &'a mut [W],
}

impl<W: Wide> Kernel for PullBack<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let PullBack { pull, g, gamma, x, dx } = self;
        let len = dx.len();
        let (g, gamma, x) = (&g[..len], &gamma[..len], &x[..len]);
        let mut i = 0;
        while i < len {
            dx[i] = pull.at(g[i], gamma[i], x[i]);
            i += 1;
        }
    }
}

/// Gradients pulled back, with one factor for all.
struct PullShift<'a, W> {
    pull: Pull<W>,
    g: &'a [W],
    gamma: W,
    x: &'a [W],
    dx: &'a mut [W],
}

impl<W: Wide> Kernel for PullShift<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let PullShift { pull, g, gamma, x, dx } = self;
        let len = dx.len();
        let (g, x) = (&g[..len], &x[..len]);
        let mut i = 0;
        while i < len {
            dx[i] = pull.at(g[i], gamma, x[i]);
            i += 1;
        }
    }
}
