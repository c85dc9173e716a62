//! Rows of scores for classes: how unlikely they make what they should be, and where to move them.
//!
//! A row `x` stands for the probabilities `p = e^(x − m)/S` with its largest number `m` and
//! `S = Σ e^(x − m)`, so that `−ln p = (m − x) + ln S` is exact however large the scores are. Sums over
//! a row are in `f64`.

use super::Floats;
use super::fold::{Largest, Sum, in_lanes};
use super::real::Exponentials;
use crate::native::Native;
use crate::number::Real;
use crate::par::Shared;
use crate::rows::{Row, rows};
use crate::stream::Sink;

/// What rows should be: a class each, or a weight for every class.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a, T> {
    /// The class of each row, in range.
    Classes(&'a [i64]),
    /// As many weights as there are scores.
    Weights(&'a [T]),
}

impl<'a, T> Targets<'a, T> {
    /// The classes and the weights, of which one is empty.
    fn split(self) -> (&'a [i64], &'a [T]) {
        match self {
            Targets::Classes(classes) => (classes, &[]),
            Targets::Weights(weights) => (&[], weights),
        }
    }
}

/// The sums over a row that a type that is computed in has.
pub trait RowSums: Real + Native + Into<f64> {
    /// The largest number; NaN if there is one.
    fn largest(x: &[Self]) -> Self;
    /// `Σ e^(x − shift)`.
    fn exponentials(x: &[Self], shift: Self) -> f64;
    /// `Σ x`.
    fn total(x: &[Self]) -> f64;
    /// The nearest.
    fn nearest(x: f64) -> Self;
}

macro_rules! row_sums {
    ($($t:ty),*) => {$(
        impl RowSums for $t {
            #[inline(always)]
            fn largest(x: &[$t]) -> $t {
                in_lanes::<Largest<$t>>(x, ())
            }
            #[inline(always)]
            fn exponentials(x: &[$t], shift: $t) -> f64 {
                in_lanes::<Exponentials<$t>>(x, shift)
            }
            #[inline(always)]
            fn total(x: &[$t]) -> f64 {
                in_lanes::<Sum<$t, f64>>(x, ())
            }
            #[inline(always)]
            fn nearest(x: f64) -> $t {
                x as $t
            }
        }
    )*};
}
row_sums!(f32, f64);

/// A float type that scores can have.
pub trait Scores: Floats<Wide: RowSums> {}
impl<T: Floats<Wide: RowSums>> Scores for T {}

/// Partial sums of a row's sums with weights.
const LANES: usize = 8;

/// `Σ w·(m − x)` and `Σ w`; a weight of 0 makes even an infinite distance 0.
#[inline(always)]
fn weighted<W: RowSums>(x: &[W], weights: &[W], largest: f64) -> (f64, f64) {
    let (mut far, mut whole) = ([0.0f64; LANES], [0.0f64; LANES]);
    let n = x.len();
    assert!(weights.len() == n);
    let mut i = 0;
    while i + LANES <= n {
        let mut l = 0;
        while l < LANES {
            let w: f64 = weights[i + l].into();
            let d = largest - x[i + l].into();
            far[l] += if w == 0.0 { 0.0 } else { w * d };
            whole[l] += w;
            l += 1;
        }
        i += LANES;
    }
    while i < n {
        let w: f64 = weights[i].into();
        let d = largest - x[i].into();
        far[i % LANES] += if w == 0.0 { 0.0 } else { w * d };
        whole[i % LANES] += w;
        i += 1;
    }
    let mut half = LANES / 2;
    while half > 0 {
        let mut l = 0;
        while l < half {
            far[l] += far[l + half];
            whole[l] += whole[l + half];
            l += 1;
        }
        half /= 2;
    }
    (far[0], whole[0])
}

/// `Σ (m − x)`.
#[inline(always)]
fn distances<W: RowSums>(x: &[W], largest: f64) -> f64 {
    let mut far = [0.0f64; LANES];
    let n = x.len();
    let mut i = 0;
    while i + LANES <= n {
        let mut l = 0;
        while l < LANES {
            far[l] += largest - x[i + l].into();
            l += 1;
        }
        i += LANES;
    }
    while i < n {
        far[i % LANES] += largest - x[i].into();
        i += 1;
    }
    let mut half = LANES / 2;
    while half > 0 {
        let mut l = 0;
        while l < half {
            far[l] += far[l + half];
            l += 1;
        }
        half /= 2;
    }
    far[0]
}

/// `(1 − smoothing)·a + smoothing·b`, where nothing of something infinite is nothing.
#[inline(always)]
fn smoothed(smoothing: f64, a: f64, b: f64) -> f64 {
    let plain = if smoothing == 1.0 { 0.0 } else { (1.0 - smoothing) * a };
    if smoothing == 0.0 { plain } else { plain + smoothing * b }
}

struct Losses<'a> {
    classes: &'a [i64],
    smoothing: f64,
    out: Shared<f64>,
}

impl<W: RowSums> Row<W, 2, 0> for Losses<'_> {
    #[inline(always)]
    fn run(&self, row: usize, [x, weights]: [&[W]; 2], []: [&mut [W]; 0], _: &mut Sink<'_, W>) {
        let n = x.len() as f64;
        let loss = if x.is_empty() {
            0.0
        } else {
            let top = W::largest(x);
            let log = Real::log(W::exponentials(x, top));
            let largest: f64 = top.into();
            let uniform = if self.smoothing == 0.0 { 0.0 } else { distances(x, largest) / n };
            if weights.is_empty() {
                let own = largest - x[self.classes[row] as usize].into();
                smoothed(self.smoothing, own, uniform) + log
            } else {
                let (far, whole) = weighted(x, weights, largest);
                smoothed(self.smoothing, far, uniform) + log * smoothed(self.smoothing, whole, 1.0)
            }
        };
        // SAFETY: every row has one number of the losses to itself.
        let out = unsafe { self.out.part(row, row + 1) };
        out[0] = loss;
    }
}

/// `losses[i] = −Σ t·ln p` for the rows of `x`, where `t` are the targets, mixed with `smoothing` of
/// the same for every class.
///
/// # Panics
/// If `x` are not as many rows as there are losses, or there are not as many targets.
pub fn class_losses<T: Scores>(
    x: &[T],
    targets: Targets<'_, T>,
    smoothing: f64,
    losses: &mut [f64],
) {
    let count = losses.len();
    check(x, targets, count);
    let (classes, weights) = targets.split();
    let kernel = Losses { classes, smoothing, out: Shared::new(losses) };
    rows::<T, _, 2, 0>(&kernel, count, [x, weights], []);
}

fn check<T>(x: &[T], targets: Targets<'_, T>, count: usize) {
    let right = match targets {
        Targets::Classes(classes) => {
            let width = x.len().checked_div(count).unwrap_or(0);
            let inside = |&k: &i64| usize::try_from(k).is_ok_and(|k| k < width);
            classes.len() == count && classes.iter().all(inside)
        }
        Targets::Weights(weights) => weights.len() == x.len(),
    };
    assert!(right, "class_losses: targets that do not fit {count} rows of {} scores", x.len());
}

struct Gradients<'a> {
    classes: &'a [i64],
    smoothing: f64,
    scale: f64,
}

impl<W: RowSums> Row<W, 3, 2> for Gradients<'_> {
    #[inline(always)]
    fn run(
        &self,
        row: usize,
        [x, weights, g]: [&[W]; 3],
        [dx, dt]: [&mut [W]; 2],
        _: &mut Sink<'_, W>,
    ) {
        if x.is_empty() {
            return;
        }
        let (n, smoothing) = (x.len(), self.smoothing);
        let each = smoothing / n as f64;
        let top = W::largest(x);
        let largest: f64 = top.into();
        let g: f64 = if g.is_empty() { 1.0 } else { g[0].into() };
        let scale = W::nearest(g * self.scale);
        let sum = if dx.is_empty() {
            W::exponentials(x, top)
        } else {
            assert!(dx.len() == n);
            let mut i = 0;
            while i < n {
                dx[i] = (x[i] - top).exp();
                i += 1;
            }
            W::total(dx)
        };
        if !dx.is_empty() && weights.is_empty() {
            let (part, each) = (W::nearest(1.0 / sum), W::nearest(each));
            let k = self.classes[row] as usize;
            // The row's own class in f64: p less its target, or what is left of both.
            let own: f64 = dx[k].into();
            let uniform = smoothing - smoothing / n as f64;
            let apart = if own + own > sum {
                uniform - (sum - own) / sum
            } else {
                own / sum - (1.0 - smoothing + smoothing / n as f64)
            };
            let mut i = 0;
            while i < n {
                dx[i] = scale * (dx[i] * part - each);
                i += 1;
            }
            dx[k] = scale * W::nearest(apart);
        } else if !dx.is_empty() {
            assert!(weights.len() == n);
            let whole = smoothed(smoothing, W::total(weights), 1.0);
            let (part, each) = (W::nearest(whole / sum), W::nearest(each));
            let kept = W::nearest(1.0 - smoothing);
            let mut i = 0;
            while i < n {
                dx[i] = scale * (dx[i] * part - (kept * weights[i] + each));
                i += 1;
            }
        }
        if !dt.is_empty() {
            assert!(dt.len() == n);
            // The weights of a row are mixed with the same for all, which none of them moves.
            let (log, kept) = (Real::log(sum), 1.0 - smoothing);
            let mut i = 0;
            while i < n {
                dt[i] = scale.times(W::nearest(kept.times(largest - x[i].into() + log)));
                i += 1;
            }
        }
    }
}

/// The gradients of [`class_losses`] for the scores and for the weights: where a row's loss has the
/// gradient `g[row]·scale` (`scale` if `g` is empty), `(p·Σ t − t)` and `−ln p` times that. Those
/// whose slice is empty are not computed.
///
/// # Panics
/// As [`class_losses`], or if a slice that is not empty has the wrong length.
pub fn class_gradients<T: Scores>(
    count: usize,
    [x, g]: [&[T]; 2],
    targets: Targets<'_, T>,
    (smoothing, scale): (f64, f64),
    [dx, dt]: [&mut [T]; 2],
) {
    check(x, targets, count);
    let (classes, weights) = targets.split();
    let kernel = Gradients { classes, smoothing, scale };
    rows(&kernel, count, [x, weights, g], [dx, dt]);
}
