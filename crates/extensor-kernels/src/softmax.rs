//! The softmax of rows and its logarithm, and their gradients.
//!
//! Each is a few passes over a row while it is in the first cache. Sums have many accumulators and
//! go by blocks, so that they vectorise and their errors do not grow with the length of a row; both
//! are fixed by the length alone.

use crate::native::Native;
use crate::number::Real;
use crate::rows::Row;
use crate::stream::{PIECE, Sink, ask_ahead};

/// How many numbers are added side by side.
pub(crate) const LANES: usize = 32;
/// How many numbers are added before the sum of all blocks is touched.
pub(crate) const BLOCK: usize = 1024;

/// `y = e^(x − m)/Σ e^(x − m)` for the largest `m` of a row; NaN where that is infinite.
pub struct Softmax;
/// `y = x − m − ln Σ e^(x − m)`.
pub struct LogSoftmax;
/// `y·(g − Σ g·y)` of the rows `g` and `y`.
pub struct SoftmaxGradient;
/// `g − e^y·Σ g` of the rows `g` and `y`.
pub struct LogSoftmaxGradient;

/// The sum of the lanes, in pairs.
#[inline(always)]
pub(crate) fn fold<W: Real>(lanes: [W; LANES]) -> W {
    // The compiler must not see how the lanes are joined: it would arrange the loop that fills them
    // for that, in narrow vectors.
    let mut lanes = std::hint::black_box(lanes);
    let mut half = LANES / 2;
    while half > 0 {
        let mut k = 0;
        while k < half {
            lanes[k] = lanes[k] + lanes[k + half];
            k += 1;
        }
        half /= 2;
    }
    lanes[0]
}

/// A sum that keeps what each addition rounds off.
#[derive(Clone, Copy)]
pub(crate) struct Total<W> {
    sum: W,
    lost: W,
}

impl<W: Real + Native> Total<W> {
    pub(crate) const NOTHING: Self = Total { sum: W::ZERO, lost: W::ZERO };

    #[inline(always)]
    pub(crate) fn add(&mut self, x: W) {
        let sum = self.sum + x;
        let part = sum - self.sum;
        self.lost = self.lost + ((self.sum - (sum - part)) + (x - part));
        self.sum = sum;
    }

    /// What it is, or this, if that is larger; NaN if either is.
    #[inline(always)]
    pub(crate) fn largest(&mut self, x: W) {
        self.sum = self.sum.maximum(x);
    }

    /// The sum. Where it is infinite, what was lost is not a number, and does not count.
    #[inline(always)]
    pub(crate) fn value(self) -> W {
        let both = self.sum + self.lost;
        W::select(self.sum.is_finite(), both, self.sum)
    }
}

/// `Σ x` of at most a block.
#[inline(always)]
fn sum_block<W: Real + Native>(x: &[W]) -> W {
    let mut sums = [W::ZERO; LANES];
    let whole = x.len() / LANES * LANES;
    let mut i = 0;
    while i < whole {
        let part = &x[i..i + LANES];
        let mut k = 0;
        while k < LANES {
            sums[k] = sums[k] + part[k];
            k += 1;
        }
        i += LANES;
    }
    let mut k = 0;
    while i < x.len() {
        sums[k] = sums[k] + x[i];
        (i, k) = (i + 1, k + 1);
    }
    fold(sums)
}

/// `Σ a·b` of at most a block.
#[inline(always)]
fn dot_block<W: Real + Native>(a: &[W], b: &[W]) -> W {
    let mut sums = [W::ZERO; LANES];
    let whole = a.len() / LANES * LANES;
    let mut i = 0;
    while i < whole {
        let (p, q) = (&a[i..i + LANES], &b[i..i + LANES]);
        let mut k = 0;
        while k < LANES {
            sums[k] = p[k].mul_add(q[k], sums[k]);
            k += 1;
        }
        i += LANES;
    }
    let mut k = 0;
    while i < a.len() {
        sums[k] = a[i].mul_add(b[i], sums[k]);
        (i, k) = (i + 1, k + 1);
    }
    fold(sums)
}

/// The largest number of a row; NaN counts as none.
#[inline(always)]
fn largest<W: Real + Native>(x: &[W]) -> W {
    let mut tops = [W::ZERO.lit(f64::NEG_INFINITY); LANES];
    let whole = x.len() / LANES * LANES;
    let mut i = 0;
    while i < whole {
        let part = &x[i..i + LANES];
        let mut k = 0;
        while k < LANES {
            tops[k] = W::select(tops[k].lt(part[k]), part[k], tops[k]);
            k += 1;
        }
        i += LANES;
    }
    let mut k = 0;
    while i < x.len() {
        tops[k] = W::select(tops[k].lt(x[i]), x[i], tops[k]);
        (i, k) = (i + 1, k + 1);
    }
    let mut tops = std::hint::black_box(tops);
    let mut half = LANES / 2;
    while half > 0 {
        let mut k = 0;
        while k < half {
            tops[k] = W::select(tops[k].lt(tops[k + half]), tops[k + half], tops[k]);
            k += 1;
        }
        half /= 2;
    }
    tops[0]
}

impl<W: Real + Native> Row<W, 1, 1> for Softmax {
    #[inline(always)]
    fn run(&self, _: usize, [x]: [&[W]; 1], [y]: [&mut [W]; 1], sink: &mut Sink<'_, W>) {
        let len = x.len();
        let y = &mut y[..len];
        let top = largest(x);
        let mut total = Total::NOTHING;
        let mut start = 0;
        while start < len {
            let end = len.min(start + BLOCK);
            let (x, y) = (&x[start..end], &mut y[start..end]);
            let mut i = 0;
            while i < x.len() {
                let stop = x.len().min(i + PIECE);
                ask_ahead(&x[i..stop], len);
                while i < stop {
                    y[i] = (x[i] - top).exp();
                    i += 1;
                }
            }
            total.add(sum_block(y));
            start = end;
        }
        let share = top.lit(1.0) / total.value();
        let mut i = 0;
        while i < len {
            let stop = len.min(i + PIECE);
            while i < stop {
                y[i] = y[i] * share;
                i += 1;
            }
            sink.ready(y, stop);
        }
    }
}

impl<W: Real + Native> Row<W, 1, 1> for LogSoftmax {
    #[inline(always)]
    fn run(&self, _: usize, [x]: [&[W]; 1], [y]: [&mut [W]; 1], sink: &mut Sink<'_, W>) {
        let len = x.len();
        let y = &mut y[..len];
        let top = largest(x);
        let (zero, one) = (top.lit(0.0), top.lit(1.0));
        // One term is e⁰ = 1: the logarithm is taken of 1 and the others, however small they are.
        let (mut total, mut tops) = (Total::NOTHING, zero);
        let mut start = 0;
        while start < len {
            let end = len.min(start + BLOCK);
            let (x, y) = (&x[start..end], &mut y[start..end]);
            let mut i = 0;
            while i < x.len() {
                y[i] = W::select(x[i].eq(top), one, zero);
                i += 1;
            }
            tops = tops + sum_block(y);
            let mut i = 0;
            while i < x.len() {
                let stop = x.len().min(i + PIECE);
                ask_ahead(&x[i..stop], len);
                while i < stop {
                    y[i] = W::select(x[i].eq(top), zero, (x[i] - top).exp());
                    i += 1;
                }
            }
            total.add(sum_block(y));
            start = end;
        }
        total.add(tops - one);
        // NaN where the largest is infinite, as for the softmax.
        let log = W::select(top.is_finite(), total.value().log1p(), top.lit(f64::NAN));
        let mut i = 0;
        while i < len {
            let stop = len.min(i + PIECE);
            while i < stop {
                y[i] = (x[i] - top) - log;
                i += 1;
            }
            sink.ready(y, stop);
        }
    }
}

impl<W: Real + Native> Row<W, 2, 1> for SoftmaxGradient {
    #[inline(always)]
    fn run(&self, _: usize, [g, y]: [&[W]; 2], [dx]: [&mut [W]; 1], sink: &mut Sink<'_, W>) {
        let len = dx.len();
        let (g, y) = (&g[..len], &y[..len]);
        let mut total = Total::NOTHING;
        let mut start = 0;
        while start < len {
            let end = len.min(start + BLOCK);
            total.add(dot_block(&g[start..end], &y[start..end]));
            start = end;
        }
        let mean = total.value();
        let mut i = 0;
        while i < len {
            let stop = len.min(i + PIECE);
            ask_ahead(&g[i..stop], len);
            ask_ahead(&y[i..stop], len);
            while i < stop {
                dx[i] = y[i] * (g[i] - mean);
                i += 1;
            }
            sink.ready(dx, stop);
        }
    }
}

impl<W: Real + Native> Row<W, 2, 1> for LogSoftmaxGradient {
    #[inline(always)]
    fn run(&self, _: usize, [g, y]: [&[W]; 2], [dx]: [&mut [W]; 1], sink: &mut Sink<'_, W>) {
        let len = dx.len();
        let (g, y) = (&g[..len], &y[..len]);
        let mut total = Total::NOTHING;
        let mut start = 0;
        while start < len {
            let end = len.min(start + BLOCK);
            total.add(sum_block(&g[start..end]));
            start = end;
        }
        let sum = -total.value();
        let mut i = 0;
        while i < len {
            let stop = len.min(i + PIECE);
            ask_ahead(&g[i..stop], len);
            ask_ahead(&y[i..stop], len);
            while i < stop {
                dx[i] = y[i].exp().mul_add(sum, g[i]);
                i += 1;
            }
            sink.ready(dx, stop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::rows;

    #[test]
    fn long_rows_lose_no_accuracy() {
        let len = 1 << 20;
        let x: Vec<f32> = (0..len).map(|i| (i * 7919 % 1000) as f32 * 0.004).collect();
        let sum: f64 = x.iter().map(|&v| f64::from(v - 3.996).exp()).sum();
        let (mut y, mut log) = (vec![0f32; len], vec![0f32; len]);
        rows(&Softmax, 1, [&x[..]], [&mut y[..]]);
        rows(&LogSoftmax, 1, [&x[..]], [&mut log[..]]);
        for i in 0..len {
            let want = f64::from(x[i] - 3.996).exp() / sum;
            assert!((f64::from(y[i]) / want - 1.0).abs() < 1e-6, "{i}: {} is not {want}", y[i]);
            assert!((f64::from(log[i]) - want.ln()).abs() < 2e-6, "{i}: {}", log[i]);
        }
        let g: Vec<f32> = (0..len).map(|i| (i % 3) as f32 - 0.5).collect();
        let mut dx = vec![0f32; len];
        rows(&SoftmaxGradient, 1, [&g[..], &y[..]], [&mut dx[..]]);
        let dot: f64 = (0..len).map(|i| f64::from(g[i]) * f64::from(y[i])).sum();
        for i in 0..len {
            let want = f64::from(y[i]) * (f64::from(g[i]) - dot);
            assert!((f64::from(dx[i]) - want).abs() < 1e-6 * f64::from(y[i]), "{i}");
        }
    }

    #[test]
    fn a_total_keeps_what_is_rounded_off_unless_it_is_infinite() {
        let total = |terms: &[f64]| {
            let mut total = Total::NOTHING;
            terms.iter().for_each(|&x| total.add(x));
            total.value()
        };
        assert_eq!(total(&[1e20, 3.0, 5.0, -1e20]), 8.0);
        assert_eq!(total(&[1.0, f64::INFINITY, 2.0]), f64::INFINITY);
        assert!(total(&[1.0, f64::NAN, 2.0]).is_nan());
    }

    #[test]
    fn the_logarithm_at_a_lone_largest_number_is_exact_however_small() {
        let mut y = [0f64; 3];
        rows(&LogSoftmax, 1, [&[1000.0, 900.0, -1000.0][..]], [&mut y[..]]);
        let want = -(-100f64).exp();
        assert!((y[0] / want - 1.0).abs() < 1e-15, "{} is not {want}", y[0]);
        assert_eq!(y[1..], [-100.0, -2000.0]);
    }

    #[test]
    fn infinities_and_nan() {
        let run = |x: [f64; 3]| {
            let (mut y, mut log) = ([0f64; 3], [0f64; 3]);
            rows(&Softmax, 1, [&x[..]], [&mut y[..]]);
            rows(&LogSoftmax, 1, [&x[..]], [&mut log[..]]);
            (y, log)
        };
        let low = f64::NEG_INFINITY;
        let (y, log) = run([0.0, low, 0.0]);
        assert_eq!(y, [0.5, 0.0, 0.5]);
        assert_eq!(log[1], low);
        for x in [[low; 3], [0.0, f64::INFINITY, 1.0], [0.0, f64::NAN, 1.0]] {
            let (y, log) = run(x);
            assert!(y.iter().chain(&log).all(|v| v.is_nan()), "{x:?}: {y:?}, {log:?}");
        }
    }
}
