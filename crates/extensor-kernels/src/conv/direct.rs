//! Groups of few channels: loops along rows.
//!
//! Some rows of a plane at a time are copied to a strip, widened, with zeros around, and with the
//! numbers that one tap reads for neighbouring positions side by side whatever the stride. The loops
//! over a strip know neither edges nor steps.

use super::correlate::{Planes, scatter};
use super::geometry::Lattice;
use crate::gemm::simd::{Simd, Work};
use crate::gemm::{Element, Real, scratch};
use crate::isa::{Kernel, dispatch};
use std::ops::Range;

/// Numbers that are computed side by side, whatever the registers of the machine.
pub(super) const LANES: usize = 16;

/// Numbers of a strip, nearly.
const STRIP: usize = 1 << 14;

/// How the strips of planes lie that are read through a pair of lattices.
pub(super) struct Strips {
    height: usize,
    width: usize,
    /// The least row and column that a tap reads for position 0.
    first: (isize, isize),
    step: (usize, usize),
    /// The remainders of columns modulo the step that taps read: each is a stretch of a row.
    remainders: Vec<usize>,
    /// Numbers of a stretch, and of a row.
    pitch: usize,
    row: usize,
    /// Rows of positions for which there is room.
    pub together: usize,
    /// Rows that the taps of one position are spread over.
    reach: usize,
    /// Where each tap's number for the first position is.
    pub taps: Vec<usize>,
}

impl Strips {
    pub(super) fn new(height: usize, width: usize, y: &Lattice, x: &Lattice) -> Strips {
        let least = |taps: &[(isize, usize)]| taps.iter().map(|tap| tap.0).min().unwrap_or(0);
        let first = (least(&y.taps), least(&x.taps));
        let step = (y.read_step, x.read_step);
        let ahead = |at: isize, first: isize| (at - first) as usize;
        let mut remainders = Vec::new();
        let mut furthest = 0;
        for &(at, _) in &x.taps {
            let at = ahead(at, first.1);
            if !remainders.contains(&(at % step.1)) {
                remainders.push(at % step.1);
            }
            furthest = furthest.max(at / step.1);
        }
        let pitch = x.count.next_multiple_of(LANES) + furthest;
        let row = pitch * remainders.len();
        let mut taps = Vec::with_capacity(y.taps.len() * x.taps.len());
        let mut reach = 1;
        for &(at_y, _) in &y.taps {
            reach = reach.max(ahead(at_y, first.0) + 1);
            for &(at, _) in &x.taps {
                let at = ahead(at, first.1);
                let stretch = remainders.iter().position(|&r| r == at % step.1).unwrap_or(0);
                taps.push(ahead(at_y, first.0) * row + stretch * pitch + at / step.1);
            }
        }
        let together = (STRIP / row).saturating_sub(reach) / step.0 + 1;
        let together = together.min(y.count).max(1);
        Strips { height, width, first, step, remainders, pitch, row, together, reach, taps }
    }

    /// Numbers of a strip.
    pub(super) fn len(&self) -> usize {
        ((self.together - 1) * self.step.0 + self.reach) * self.row
    }

    /// From a row of positions to the next.
    pub(super) fn next_row(&self) -> usize {
        self.step.0 * self.row
    }

    /// Copies what `rows` of positions read to a strip.
    pub(super) fn fill<T: Element>(&self, plane: &[T], rows: Range<usize>, strip: &mut [T::Acc]) {
        let count = (rows.len() - 1) * self.step.0 + self.reach;
        let top = (rows.start * self.step.0) as isize + self.first.0;
        let step = self.step.1 as isize;
        for (i, strip) in strip.chunks_exact_mut(self.row).take(count).enumerate() {
            let row = top + i as isize;
            if row < 0 || row >= self.height as isize {
                strip.fill(T::Acc::ZERO);
                continue;
            }
            let row = &plane[row as usize * self.width..][..self.width];
            for (strip, &remainder) in strip.chunks_exact_mut(self.pitch).zip(&self.remainders) {
                // Number `q` of the stretch is column `first + q * step`.
                let first = self.first.1 + remainder as isize;
                let reach = |column: isize| {
                    ((column - first + step - 1).max(0) / step).min(self.pitch as isize) as usize
                };
                let (low, high) = (reach(0), reach(self.width as isize));
                strip[..low].fill(T::Acc::ZERO);
                strip[high..].fill(T::Acc::ZERO);
                let from = (first + low as isize * step) as usize;
                if low >= high {
                    continue;
                }
                if step == 1 {
                    T::widen_slice(&row[from..from + high - low], &mut strip[low..high]);
                } else {
                    let numbers = row[from..].iter().step_by(self.step.1);
                    for (to, number) in strip[low..high].iter_mut().zip(numbers) {
                        *to = number.widen();
                    }
                }
            }
        }
    }
}

/// Computes the planes of a group through one pair of lattices.
#[expect(clippy::too_many_arguments, reason = "one call, in which each has its name")]
pub(super) fn correlate<T: Element>(
    from: &Planes,
    to: &Planes,
    y: &Lattice,
    x: &Lattice,
    weight: &[T],
    bias: Option<&[T]>,
    source: &[T],
    result: &mut [T],
) {
    let strips = Strips::new(from.height, from.width, y, x);
    let taps = strips.taps.len();
    let (plane, size) = (from.plane(), strips.together * x.count);
    let dense = T::WIDE && y.step == 1 && x.step == 1 && x.count == to.width;
    let room = from.channels * strips.len() + from.channels * taps + size;
    scratch::with(room, |room: &mut [T::Acc]| {
        let (room, weights) = room.split_at_mut(from.channels * strips.len() + size);
        let (strip, aside) = room.split_at_mut(from.channels * strips.len());
        for first in (0..y.count).step_by(strips.together) {
            let rows = first..y.count.min(first + strips.together);
            for (channel, strip) in strip.chunks_exact_mut(strips.len()).enumerate() {
                strips.fill(&source[channel * plane..][..plane], rows.clone(), strip);
            }
            for (channel, result) in result.chunks_exact_mut(to.plane()).enumerate() {
                T::widen_slice(&weight[channel * weights.len()..][..weights.len()], weights);
                let aside = if dense {
                    let part = &mut result[(y.first + first) * to.width..][..rows.len() * x.count];
                    // SAFETY: `T` is `T::Acc`.
                    unsafe { std::slice::from_raw_parts_mut(part.as_mut_ptr().cast(), part.len()) }
                } else {
                    &mut aside[..rows.len() * x.count]
                };
                let mut start = Some(bias.map_or(T::Acc::ZERO, |bias| bias[channel].widen()));
                for (strip, weight) in
                    strip.chunks_exact(strips.len()).zip(weights.chunks_exact(taps))
                {
                    dispatch(Sweep {
                        strip,
                        next_row: strips.next_row(),
                        taps: &strips.taps,
                        weight,
                        start: start.take(),
                        columns: x.count,
                        to: &mut *aside,
                    });
                }
                if !dense {
                    scratch::with(aside.len(), |narrow: &mut [T]| {
                        T::narrow_slice(aside, narrow);
                        scatter(narrow, first, y, x, to.width, result);
                    });
                }
            }
        }
    });
}

/// Computes the rows of one plane from a strip.
struct Sweep<'a, R> {
    strip: &'a [R],
    next_row: usize,
    taps: &'a [usize],
    weight: &'a [R],
    /// What sums begin with; `None`: with what is there.
    start: Option<R>,
    columns: usize,
    to: &'a mut [R],
}

impl<R: Real> Kernel for Sweep<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Sweep { strip, next_row, taps, weight, start, columns, to } = self;
        for (i, to) in to.chunks_exact_mut(columns).enumerate() {
            let strip = &strip[i * next_row..];
            let mut x = 0;
            while x + 3 * LANES < columns {
                sweep::<R, 4>(&strip[x..], taps, weight, start, &mut to[x..]);
                x += 4 * LANES;
            }
            while x + LANES < columns {
                sweep::<R, 2>(&strip[x..], taps, weight, start, &mut to[x..]);
                x += 2 * LANES;
            }
            if x < columns {
                sweep::<R, 1>(&strip[x..], taps, weight, start, &mut to[x..]);
            }
        }
    }
}

/// Computes up to `N · LANES` positions.
#[inline(always)]
fn sweep<R: Real, const N: usize>(
    strip: &[R],
    taps: &[usize],
    weight: &[R],
    start: Option<R>,
    to: &mut [R],
) {
    let count = to.len().min(N * LANES);
    let mut sums = [[R::ZERO; LANES]; N];
    match start {
        Some(start) => sums = [[start; LANES]; N],
        None => sums.as_flattened_mut()[..count].copy_from_slice(&to[..count]),
    }
    for t in 0..taps.len().min(weight.len()) {
        let numbers = &strip[taps[t]..][..N * LANES];
        for k in 0..N {
            for i in 0..LANES {
                sums[k][i] = numbers[k * LANES + i].mul_add(weight[t], sums[k][i]);
            }
        }
    }
    if count == N * LANES {
        to[..N * LANES].copy_from_slice(sums.as_flattened());
    } else {
        to[..count].copy_from_slice(&sums.as_flattened()[..count]);
    }
}

/// Adds to the sums of each tap, of [`LANES`] parts each, the products of a plane's rows and what the
/// tap sees.
pub(super) struct Products<'a, R> {
    pub strip: &'a [R],
    pub next_row: usize,
    pub taps: &'a [usize],
    /// The rows, one after the other.
    pub grad: &'a [R],
    pub columns: usize,
    pub sums: &'a mut [[R; LANES]],
}

impl<R: Real> Work<R> for Products<'_, R> {
    #[inline(always)]
    fn run<S: Simd<T = R>>(mut self) {
        let rows = self.grad.len() / self.columns;
        let last = (rows.max(1) - 1) * self.next_row + self.columns.next_multiple_of(LANES);
        assert!(self.sums.len() >= self.taps.len());
        assert!(self.taps.iter().all(|tap| tap + last <= self.strip.len()));
        let mut t = 0;
        // SAFETY: the taps see numbers of the strip for all positions, and there is a sum for each.
        unsafe {
            while t + 9 <= self.taps.len() {
                products::<S, 9>(&mut self, t);
                t += 9;
            }
            while t + 3 <= self.taps.len() {
                products::<S, 3>(&mut self, t);
                t += 3;
            }
            while t < self.taps.len() {
                products::<S, 1>(&mut self, t);
                t += 1;
            }
        }
    }
}

/// [`Products`] for `N` taps from `first` on.
///
/// # Safety
/// The taps and their sums must exist; with each tap, the strip must have whole [`LANES`] for all
/// positions of all rows; and the machine must have `S`.
#[expect(clippy::needless_range_loop, reason = "plain indices are sure to be unrolled")]
#[inline(always)]
unsafe fn products<S: Simd, const N: usize>(all: &mut Products<'_, S::T>, first: usize) {
    // The most registers that the parts of a sum take: 4 lanes each.
    const REGISTERS: usize = LANES / 4;
    let registers = LANES / S::LANES;
    // SAFETY: the caller's promise; of the last positions of a row only those are read that exist.
    unsafe {
        let mut sums = [[S::zero(); REGISTERS]; N];
        for t in 0..N {
            for v in 0..registers {
                sums[t][v] = S::load(all.sums[first + t].as_ptr().add(v * S::LANES));
            }
        }
        let whole = all.columns / LANES * LANES;
        let rest = all.columns - whole;
        let mut strip: [*const S::T; N] = [all.strip.as_ptr(); N];
        for t in 0..N {
            strip[t] = strip[t].add(all.taps[first + t]);
        }
        for (i, grad) in all.grad.chunks_exact(all.columns).enumerate() {
            let (grad, row) = (grad.as_ptr(), i * all.next_row);
            let mut k = 0;
            while k < whole {
                for v in 0..registers {
                    let at = k + v * S::LANES;
                    let grad = S::load(grad.add(at));
                    for t in 0..N {
                        sums[t][v] = S::fma(grad, S::load(strip[t].add(row + at)), sums[t][v]);
                    }
                }
                k += LANES;
            }
            if rest > 0 {
                // What lies beyond the last position is not zero, and may be NaN.
                for v in 0..registers {
                    let at = k + v * S::LANES;
                    let some = S::mask(rest.saturating_sub(v * S::LANES).min(S::LANES));
                    let grad = S::load_mask(grad.wrapping_add(at), some);
                    for t in 0..N {
                        let numbers = S::load_mask(strip[t].add(row + at), some);
                        sums[t][v] = S::fma(grad, numbers, sums[t][v]);
                    }
                }
            }
        }
        for t in 0..N {
            for v in 0..registers {
                S::store(all.sums[first + t].as_mut_ptr().add(v * S::LANES), sums[t][v]);
            }
        }
    }
}

/// The sum of the parts, in a fixed order.
pub(super) fn total<R: Real>(mut parts: [R; LANES]) -> R {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            parts[i] = parts[i].plus(parts[i + half]);
        }
        half /= 2;
    }
    parts[0]
}
