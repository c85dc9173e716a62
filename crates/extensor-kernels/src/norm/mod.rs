//! Numbers brought to mean 0 and variance 1, group by group, and the gradient of that.
//!
//! The numbers of a group are looked at several times while they are in a cache: for the mean, for
//! the squares about it, and to be normalised. Sums are made in `f64`, in an order that follows from
//! how many numbers there are and from nothing else. [`rows`] serves groups that lie together and
//! have a factor for each number, [`planes`] those made of pieces that have one each.

pub mod planes;
pub mod rows;
mod sums;
mod sweep;

use crate::isa::Kernel;
use crate::native::Compute;
use crate::number::Real;
use crate::stream::{PIECE, Sink};
use sums::{LANES, Terms, Totals, ask_ahead, wide};

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
    const SCALES: (f64, f64) = (power(700), power(-600));
    #[inline(always)]
    fn of(x: f64) -> f64 {
        x
    }
}

/// What stands for a standard deviation that is 0.
const LEAST: f64 = 1e-10;
/// Numbers that a task takes at a time, nearly.
const TASK: usize = 32 * 1024;
/// At the least.
const SMALL_TASK: usize = 4 * 1024;

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
        let deviation = if deviation == 0.0 { LEAST } else { deviation };
        let slope = 1.0 / deviation;
        Line::new(Exact { scale: 1.0, mean, rest: 0.0, factor: slope, slope })
    }

    /// The line of a mean and a slope that were saved.
    #[inline(always)]
    fn saved(mean: f64, slope: f64) -> Line<W> {
        Line::new(Exact { scale: 1.0, mean, rest: 0.0, factor: slope, slope })
    }
}

/// A gradient on its way back through a line: `(g·gamma − mean − along·x̂)·slope`. Where the
/// deviation was 0 it is held within ±`limit`; elsewhere it may overflow, and is infinite then.
#[derive(Clone, Copy)]
struct Pull<W> {
    line: Line<W>,
    mean: f64,
    along: f64,
    limit: f64,
}

impl<W: Wide> Pull<W> {
    /// From `Σ g·gamma` and `Σ g·gamma·x̂` over `n` numbers. There is no limit where one of them is
    /// not finite either, so that infinite and undefined gradients are seen.
    #[inline(always)]
    fn new(line: Line<W>, [sum, product]: [f64; 2], n: f64, limit: f64) -> Pull<W> {
        let finite = sum.is_finite() & product.is_finite();
        let singular = line.exact.slope == 1.0 / LEAST;
        let limit = if finite & singular { limit } else { f64::INFINITY };
        Pull { line, mean: sum / n, along: product / n, limit }
    }

    #[inline(always)]
    fn at(self, g: W, gamma: W, x: W) -> W {
        let (g, gamma, x): (f64, f64, f64) = (g.into(), gamma.into(), x.into());
        let pulled = g.mul_add(gamma, -self.mean);
        let rest = (-self.along).mul_add(self.line.exactly(x), pulled);
        // The inverse of the tiniest deviations is infinite; nothing still comes of nothing.
        let pulled = if rest == 0.0 { rest } else { rest * self.line.exact.slope };
        let held = if self.limit < pulled { self.limit } else { pulled };
        W::of(if held < -self.limit { -self.limit } else { held })
    }
}

/// `y = x̂·gamma + beta`. Each of these loops is a kernel by itself: in one function with others the
/// compiler makes less of it.
struct Stretch<'a, 'b, W> {
    line: Line<W>,
    x: &'a [W],
    gamma: &'a [W],
    beta: &'a [W],
    y: &'a mut [W],
    sink: &'a mut Sink<'b, W>,
}

impl<W: Wide> Kernel for Stretch<'_, '_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Stretch { line, x, gamma, beta, y, sink } = self;
        let len = y.len();
        let (x, gamma, beta) = (&x[..len], &gamma[..len], &beta[..len]);
        let mut i = 0;
        while i < len {
            let stop = len.min(i + PIECE);
            while i < stop {
                y[i] = line.at(x[i]).mul_add(gamma[i], beta[i]);
                i += 1;
            }
            sink.ready(y, stop);
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
        // Numbers that are not tiny and whose deviation is are equal.
        let equal = deviation < low && mean.abs() > 1e-100;
        if deviation >= low && deviation <= high || scale != 1.0 || equal {
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
    let slope = scale / deviation;
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
