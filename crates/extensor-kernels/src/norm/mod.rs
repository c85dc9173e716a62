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

/// Up to so many numbers are added one after the other.
const SEQUENCE: usize = 16;
/// More in so many interleaved sums, …
const FEW_LANES: usize = 8;
/// … and from [`LONG`] on in so many.
const LANES: usize = 32;
const LONG: usize = 256;
/// Numbers that are added before partial sums are.
const CHUNK: usize = 4096;

/// Terms of `K` sums, in slices of equal length.
trait Terms<const K: usize>: Copy {
    /// Those from number `start` on, `len` of them.
    fn window(self, start: usize, len: usize) -> Self;
    /// The sums `acc` and the terms number `i`.
    fn step(self, i: usize, acc: [f64; K]) -> [f64; K];
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
    fn add_all<F: Terms<K>>(&mut self, terms: F, len: usize) {
        let mut start = 0;
        while start < len {
            let count = CHUNK.min(len - start);
            self.add(chunk(terms.window(start, count), count));
            start += count;
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

/// The sums of up to [`CHUNK`] terms.
#[inline(always)]
fn chunk<F: Terms<K>, const K: usize>(terms: F, len: usize) -> [f64; K] {
    if len <= SEQUENCE {
        let mut acc = [0.0; K];
        let mut i = 0;
        while i < len {
            acc = terms.step(i, acc);
            i += 1;
        }
        return acc;
    }
    // A number of lanes that the compiler does not know: of a loop over so many it makes vectors.
    let width = std::hint::black_box(if len < LONG { FEW_LANES } else { LANES }).clamp(1, LANES);
    let mut lanes = [[0.0; LANES]; K];
    let whole = len / width;
    let mut group = 0;
    while group < whole {
        lane_step(terms.window(group * width, width), width, &mut lanes);
        group += 1;
    }
    lane_step(terms.window(whole * width, len - whole * width), len - whole * width, &mut lanes);
    let mut half = width / 2;
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

/// A term more for each of `width` lanes.
#[inline(always)]
fn lane_step<F: Terms<K>, const K: usize>(
    terms: F,
    width: usize,
    lanes: &mut [[f64; LANES]; K],
) {
    let width = width.min(LANES);
    let mut l = 0;
    while l < width {
        let mut acc = [0.0; K];
        let mut k = 0;
        while k < K {
            acc[k] = lanes[k][l];
            k += 1;
        }
        acc = terms.step(l, acc);
        let mut k = 0;
        while k < K {
            lanes[k][l] = acc[k];
            k += 1;
        }
        l += 1;
    }
}

/// `Σ scale·x`.
#[derive(Clone, Copy)]
struct Plain<'a, W> {
    x: &'a [W],
    scale: f64,
}

impl<W: Wide> Terms<1> for Plain<'_, W> {
    #[inline(always)]
    fn window(self, start: usize, len: usize) -> Self {
        Plain { x: &self.x[start..start + len], ..self }
    }
    #[inline(always)]
    fn step(self, i: usize, [sum]: [f64; 1]) -> [f64; 1] {
        let x: f64 = self.x[i].into();
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

impl<W: Wide> Terms<2> for Squares<'_, W> {
    #[inline(always)]
    fn window(self, start: usize, len: usize) -> Self {
        Squares { x: &self.x[start..start + len], ..self }
    }
    #[inline(always)]
    fn step(self, i: usize, [sum, squares]: [f64; 2]) -> [f64; 2] {
        let x: f64 = self.x[i].into();
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
    /// `1/√(variance + eps)`, at most 10¹⁰: what a gradient is multiplied by.
    slope: W,
}

impl<W: Wide> Line<W> {
    /// `x̂`.
    #[inline(always)]
    fn at(self, x: W) -> W {
        (x.mul_add(self.scale, -self.mean) - self.rest) * self.factor
    }

    /// The line of a mean and a variance that are given.
    #[inline(always)]
    fn given(mean: W, deviation: f64) -> Line<W> {
        let (low, _) = W::RANGE;
        let deviation = if deviation.abs() < low { LEAST } else { deviation };
        let zero = mean.lit(0.0);
        let (scale, rest) = (mean.lit(1.0), zero);
        let slope = W::of(1.0 / if deviation < LEAST { LEAST } else { deviation });
        Line { scale, mean, rest, factor: W::of(1.0 / deviation), slope }
    }

    /// The line of a mean and a slope that were saved.
    #[inline(always)]
    fn saved(mean: W, slope: W) -> Line<W> {
        Line { scale: mean.lit(1.0), mean, rest: mean.lit(0.0), factor: slope, slope }
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
                sum.add_all(Plain { x: spans.get(k), scale }, spans.len);
                k += 1;
            }
            mean = sum.values()[0] / n;
        }
        let mut sums = Totals::<2>::ZERO;
        let mut k = 0;
        while k < spans.count {
            sums.add_all(Squares { x: spans.get(k), scale, mean }, spans.len);
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
fn settle<W: Wide>(
    mean: f64,
    rest: f64,
    variance: f64,
    deviation: f64,
    scale: f64,
) -> Moments<W> {
    let deviation = if deviation == 0.0 { LEAST * scale } else { deviation };
    let true_deviation = deviation / scale;
    let slope = 1.0 / if true_deviation < LEAST { LEAST } else { true_deviation };
    let rounded = W::of(mean);
    let left: f64 = rounded.into();
    let line = Line {
        scale: W::of(scale),
        mean: rounded,
        rest: W::of(mean - left + rest),
        factor: W::of(1.0 / deviation),
        slope: W::of(slope),
    };
    Moments { mean: (mean + rest) / scale, variance: variance / scale / scale, line }
}

/// `value`, held within ±`limit`.
#[inline(always)]
fn held<W: Wide>(value: W, limit: W) -> W {
    let value = W::select(limit.lt(value), limit, value);
    W::select(value.lt(-limit), -limit, value)
}

/// The largest magnitude of a gradient made with these factors: without a bound where one of them is
/// not finite, so that infinite and undefined gradients are seen.
#[inline(always)]
fn bound<W: Wide>(limit: f64, factors: [f64; 3]) -> W {
    let finite = factors[0].is_finite() & factors[1].is_finite() & factors[2].is_finite();
    W::of(if finite { limit } else { f64::INFINITY })
}
