//! Groups of not too many channels: loops along rows.
//!
//! Some rows of a plane at a time are copied to a strip, widened, with zeros around, and with the
//! numbers that one tap reads for neighbouring positions side by side whatever the stride. The loops
//! over a strip know neither edges nor steps.

use super::correlate::{Along, Volumes, scatter};
use super::geometry::Lattice;
use crate::gemm::simd::{Simd, Work, dispatch};
use crate::gemm::{Element, Real, scratch};
use crate::par::{self, Shared};
use crate::stop;
use std::borrow::Cow;
use std::ops::Range;

/// Numbers that are computed side by side, whatever the registers of the machine.
pub(super) const LANES: usize = 16;

/// Numbers of the strips that are kept at a time, nearly.
pub(super) const STRIP: usize = 1 << 14;

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
    /// Rows that the taps of one position span.
    reach: usize,
    /// Where each tap's number for the first position is.
    pub taps: Vec<usize>,
}

impl Strips {
    /// Strips of planes of which `channels` are kept at a time.
    pub(super) fn new(
        height: usize,
        width: usize,
        channels: usize,
        y: &Lattice,
        x: &Lattice,
    ) -> Strips {
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
        let together = (STRIP / channels.max(1) / row).saturating_sub(reach) / step.0 + 1;
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

    /// Copies what `rows` of positions read to a strip: zeros if there is no such plane.
    pub(super) fn fill<T: Element>(
        &self,
        plane: Option<&[T]>,
        rows: Range<usize>,
        strip: &mut [T::Acc],
    ) {
        let Some(plane) = plane else {
            strip.fill(T::Acc::ZERO);
            return;
        };
        let count = (rows.len() - 1) * self.step.0 + self.reach;
        let top = (rows.start * self.step.0) as isize + self.first.0;
        let step = self.step.1 as isize;
        if T::WIDE && step == 1 {
            // SAFETY: `T` is `T::Acc`.
            let plane = unsafe { std::slice::from_raw_parts(plane.as_ptr().cast(), plane.len()) };
            let Strips { height, width, first: (_, left), pitch, .. } = *self;
            dispatch(Framed { plane, height, width, top, left, rows: count, pitch, strip });
            return;
        }
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

/// Copies a part of a plane and zeros where it reaches beyond: rows from `top` on, and from each as
/// many columns as `pitch` says, from `left` on.
struct Framed<'a, R> {
    plane: &'a [R],
    height: usize,
    width: usize,
    top: isize,
    left: isize,
    rows: usize,
    pitch: usize,
    strip: &'a mut [R],
}

impl<R: Real> Work<R> for Framed<'_, R> {
    #[inline(always)]
    fn run<S: Simd<T = R>>(self) {
        let Framed { plane, height, width, top, left, rows, pitch, strip } = self;
        assert!(plane.len() >= height * width && strip.len() >= rows * pitch);
        for (i, strip) in strip.chunks_exact_mut(pitch).take(rows).enumerate() {
            let row = top + i as isize;
            let inside = row >= 0 && row < height as isize;
            for k in (0..pitch).step_by(S::LANES) {
                // Lane `l` is column `left + k + l`; those from `low` to `high` exist.
                let column = left + k as isize;
                let lanes = S::LANES as isize;
                let low = (-column).clamp(0, lanes) as usize;
                let high = (width as isize - column).clamp(0, lanes) as usize;
                // SAFETY: only numbers of the plane are read and only elements of the strip written;
                // `dispatch` chose `S`.
                unsafe {
                    let numbers = if inside && low < high {
                        let at = plane.as_ptr().wrapping_offset(row * width as isize + column);
                        S::load_mask(at, S::span(low, high))
                    } else {
                        S::zero()
                    };
                    let to = strip.as_mut_ptr().add(k);
                    if k + S::LANES <= pitch {
                        S::store(to, numbers);
                    } else {
                        S::store_mask(to, S::mask(pitch - k), numbers);
                    }
                }
            }
        }
    }
}

/// The plane that a tap along the depth of a volume sees from a position, if it exists.
pub(super) fn plane_seen(z: &Lattice, position: usize, tap: isize, depth: usize) -> Option<usize> {
    let at = (position * z.read_step) as isize + tap;
    (at >= 0 && at < depth as isize).then_some(at as usize)
}

/// Computes the volumes of a group through one lattice along each axis.
pub(super) fn correlate<T: Element>(
    from: &Volumes,
    to: &Volumes,
    Along { z, y, x }: Along<'_>,
    weight: &[T],
    bias: Option<&[T]>,
    source: &[T],
    result: &mut [T],
) {
    // What each tap along the depth sees of a channel is a plane by itself.
    let seen = from.channels * z.taps.len();
    let strips = Strips::new(from.height, from.width, seen, y, x);
    let plane = from.plane();
    let dense = T::WIDE && y.step == 1 && x.step == 1 && x.count == to.width;
    let weight = widened(weight);
    let start = match bias {
        Some(bias) => widened(bias),
        None => Cow::Owned(vec![T::Acc::ZERO; to.channels]),
    };
    let shared = Shared::new(result);
    let strip_room = seen * strips.len();
    let aside = if dense { 0 } else { to.channels * strips.together * x.count };
    let bands = y.count.div_ceil(strips.together);
    par::parallel_for(z.count * bands, &|task| {
        let (position, first) = (task / bands, task % bands * strips.together);
        let rows = first..y.count.min(first + strips.together);
        scratch::with(strip_room + aside, |room: &mut [T::Acc]| {
            let (strip, aside) = room.split_at_mut(strip_room);
            for (at, strip) in strip.chunks_exact_mut(strips.len()).enumerate() {
                let (channel, tap) = (at / z.taps.len(), z.taps[at % z.taps.len()].0);
                let found = plane_seen(z, position, tap, from.depth);
                let found = found.map(|at| &source[(channel * from.depth + at) * plane..][..plane]);
                strips.fill(found, rows.clone(), strip);
            }
            let size = rows.len() * x.count;
            // From the first row of the band to its last, as far as they are this pair's.
            let line = |row: usize| (y.first + row * y.step) * to.width;
            let plane =
                |channel: usize| (channel * to.depth + z.first + position * z.step) * to.plane();
            let part = |channel: usize| {
                let plane = plane(channel);
                let end = plane + line(rows.end - 1) + to.width;
                // SAFETY: rows of the result, of which no other band has any.
                unsafe { shared.part(plane + line(rows.start), end) }
            };
            let (numbers, apart) = match dense {
                // `T` is `T::Acc`.
                true => (shared.pointer(plane(0) + line(rows.start)).cast(), to.volume()),
                false => (aside.as_mut_ptr(), size),
            };
            dispatch(Sweep {
                strip: &*strip,
                strip_len: strips.len(),
                next_row: strips.next_row(),
                taps: &strips.taps,
                weight: &weight,
                start: &start,
                rows: rows.len(),
                columns: x.count,
                to: numbers,
                apart,
            });
            if !dense {
                for (channel, aside) in aside.chunks_exact(size).take(to.channels).enumerate() {
                    scratch::with(size, |narrow: &mut [T]| {
                        T::narrow_slice(aside, narrow);
                        scatter(narrow, y, x, to.width, part(channel));
                    });
                }
            }
        });
    });
}

/// The numbers as they are computed with.
pub(super) fn widened<T: Element>(numbers: &[T]) -> Cow<'_, [T::Acc]> {
    if T::WIDE {
        // SAFETY: `T` is `T::Acc`.
        Cow::Borrowed(unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), numbers.len()) })
    } else {
        let mut wide = stop::room(T::Acc::ZERO, numbers.len());
        T::widen_slice(numbers, &mut wide);
        Cow::Owned(wide)
    }
}

/// Computes some rows of all planes of the result from the strips of all planes that they are made
/// of. A number is its plane's start, and to it the products are added, channel by channel and in
/// each tap by tap.
struct Sweep<'a, R> {
    /// The strips, one after the other, and the numbers of each.
    strip: &'a [R],
    strip_len: usize,
    next_row: usize,
    taps: &'a [usize],
    /// For each plane of the result: the weights of all taps of all channels.
    weight: &'a [R],
    /// What the sums of each plane of the result begin with.
    start: &'a [R],
    rows: usize,
    columns: usize,
    /// The rows of the result, one after the other; those of the next plane are `apart` further on.
    /// They are this call's to write.
    to: *mut R,
    apart: usize,
}

impl<R: Real> Work<R> for Sweep<'_, R> {
    #[inline(always)]
    fn run<S: Simd<T = R>>(mut self) {
        let channels = self.strip.len() / self.strip_len.max(1);
        let (planes, taps) = (self.start.len(), self.taps.len());
        assert_eq!(self.weight.len(), planes * channels * taps);
        let last =
            self.rows.saturating_sub(1) * self.next_row + self.columns.next_multiple_of(LANES);
        assert!(self.taps.iter().all(|tap| tap + last <= self.strip_len));
        // As many sums as registers: 24 of 32, 12 of 16.
        let many = S::ROWS * 3 > 16;
        let mut plane = 0;
        while plane < planes {
            // SAFETY: the taps see numbers of each strip for all positions, to whole vectors, and
            // each plane of the result has the rows.
            plane += unsafe {
                match planes - plane {
                    8.. if many => sweep::<S, 8, 2>(&mut self, channels, plane),
                    6.. => sweep::<S, 6, 2>(&mut self, channels, plane),
                    4.. if many => sweep::<S, 4, 4>(&mut self, channels, plane),
                    4.. => sweep::<S, 4, 2>(&mut self, channels, plane),
                    3 => sweep::<S, 3, 4>(&mut self, channels, plane),
                    2 => sweep::<S, 2, 4>(&mut self, channels, plane),
                    _ => sweep::<S, 1, 8>(&mut self, channels, plane),
                }
            };
        }
    }
}

/// [`Sweep`] for `N` planes of the result, of which `TILES` vectors of positions are computed at a
/// time; returns `N`.
///
/// # Safety
/// The planes must exist; with each tap, each strip must have whole [`LANES`] for all positions of
/// all rows; and the machine must have `S`.
#[inline(always)]
unsafe fn sweep<S: Simd, const N: usize, const TILES: usize>(
    all: &mut Sweep<'_, S::T>,
    channels: usize,
    plane: usize,
) -> usize {
    let tiles = all.rows * all.columns.div_ceil(S::LANES);
    for tile in (0..tiles).step_by(TILES) {
        // SAFETY: the caller's promise; the vector `tile` exists.
        unsafe { tiles_of::<S, N, TILES>(all, channels, plane, tile) };
    }
    N
}

/// Computes `TILES` vectors of positions from `first` on, or those that are left, of `N` planes of the
/// result. Vectors are counted through all rows.
///
/// # Safety
/// As for [`sweep`]; and the vector `first` must exist.
#[expect(clippy::needless_range_loop, reason = "plain indices are sure to be unrolled")]
#[inline(always)]
unsafe fn tiles_of<S: Simd, const N: usize, const TILES: usize>(
    all: &mut Sweep<'_, S::T>,
    channels: usize,
    plane: usize,
    first: usize,
) {
    let (across, taps) = (all.columns.div_ceil(S::LANES), all.taps.len());
    let tiles = all.rows * across - first;
    // SAFETY: the caller's promise; the rows of all planes are this call's to write.
    unsafe {
        let mut from = [all.strip.as_ptr(); TILES];
        let mut position = [(0, 0); TILES];
        for i in 0..TILES {
            // Where there is none left, the first is computed again and not written.
            let tile = if i < tiles { first + i } else { first };
            let (row, column) = (tile / across, tile % across * S::LANES);
            from[i] = from[i].add(row * all.next_row + column);
            position[i] = (row * all.columns + column, (all.columns - column).min(S::LANES));
        }
        let mut sums = [[S::zero(); TILES]; N];
        for p in 0..N {
            sums[p] = [S::splat(all.start[plane + p]); TILES];
        }
        let mut weight = all.weight.as_ptr().add(plane * channels * taps);
        for _ in 0..channels {
            for &tap in all.taps {
                let mut numbers = [S::zero(); TILES];
                for i in 0..TILES {
                    numbers[i] = S::load(from[i].add(tap));
                }
                for p in 0..N {
                    let weight = S::splat(*weight.add(p * channels * taps));
                    for i in 0..TILES {
                        sums[p][i] = S::fma(numbers[i], weight, sums[p][i]);
                    }
                }
                weight = weight.add(1);
            }
            for i in 0..TILES {
                from[i] = from[i].wrapping_add(all.strip_len);
            }
        }
        for p in 0..N {
            let to = all.to.add((plane + p) * all.apart);
            for i in 0..TILES {
                let (at, count) = position[i];
                if i >= tiles {
                    // Computed a second time.
                } else if count == S::LANES {
                    S::store(to.add(at), sums[p][i]);
                } else {
                    S::store_mask(to.add(at), S::mask(count), sums[p][i]);
                }
            }
        }
    }
}

/// Adds to the sums of each filter and tap, of [`LANES`] parts each, the products of the filter's rows
/// and what the tap sees in one plane of some images.
pub(super) struct Products<'a, R> {
    /// The strips of the images, one after the other, and the numbers of each.
    pub strip: &'a [R],
    pub strip_len: usize,
    pub next_row: usize,
    pub taps: &'a [usize],
    /// The rows of the gradient, one after the other; those of the next filter are `apart` further
    /// on, those of the next image `image`.
    pub grad: &'a [R],
    pub apart: usize,
    pub image: usize,
    pub filters: usize,
    pub rows: usize,
    pub columns: usize,
    /// The sums of the first filter's taps; those of the next are `step` further on.
    pub sums: &'a mut [[R; LANES]],
    pub step: usize,
}

impl<R: Real> Work<R> for Products<'_, R> {
    #[inline(always)]
    fn run<S: Simd<T = R>>(mut self) {
        let images = self.strip.len() / self.strip_len.max(1);
        if self.filters == 0 || self.rows == 0 || images == 0 {
            return;
        }
        let last = (self.rows - 1) * self.next_row + self.columns.next_multiple_of(LANES);
        let size = self.rows * self.columns;
        let grads = (images - 1) * self.image + (self.filters - 1) * self.apart + size;
        assert!(self.taps.iter().all(|tap| tap + last <= self.strip_len));
        assert!(grads <= self.grad.len());
        assert!((self.filters - 1) * self.step + self.taps.len() <= self.sums.len());
        // Twenty sums fit in 32 registers, ten in 16.
        let many = S::ROWS * 3 > 16;
        let mut filter = 0;
        while filter < self.filters {
            // SAFETY: the taps see numbers of the strip for all positions; each filter has the rows,
            // and a sum for each tap.
            filter += unsafe {
                match self.filters - filter {
                    4.. if many => filters::<S, 4>(&mut self, filter),
                    2.. => filters::<S, 2>(&mut self, filter),
                    _ => filters::<S, 1>(&mut self, filter),
                }
            };
        }
    }
}

/// [`Products`] for `F` filters from `filter` on; returns `F`.
///
/// # Safety
/// As for [`products`], for all taps.
#[inline(always)]
unsafe fn filters<S: Simd, const F: usize>(all: &mut Products<'_, S::T>, filter: usize) -> usize {
    let mut t = 0;
    while t < all.taps.len() {
        // SAFETY: the caller's promise.
        t += unsafe {
            match all.taps.len() - t {
                9.. if F == 1 => products::<S, F, 9>(all, filter, t),
                5.. => products::<S, F, 5>(all, filter, t),
                4 => products::<S, F, 4>(all, filter, t),
                3 => products::<S, F, 3>(all, filter, t),
                2 => products::<S, F, 2>(all, filter, t),
                _ => products::<S, F, 1>(all, filter, t),
            }
        };
    }
    F
}

/// [`Products`] for `F` filters from `filter` on and `N` taps from `first` on; returns `N`.
///
/// # Safety
/// The filters' rows, the taps and their sums must exist; with each tap, the strip must have whole
/// [`LANES`] for all positions of all rows; and the machine must have `S`.
#[expect(clippy::needless_range_loop, reason = "plain indices are sure to be unrolled")]
#[inline(always)]
unsafe fn products<S: Simd, const F: usize, const N: usize>(
    all: &mut Products<'_, S::T>,
    filter: usize,
    first: usize,
) -> usize {
    let whole = all.columns / LANES * LANES;
    // SAFETY: the caller's promise; of the last positions of a row only those are read that exist.
    unsafe {
        // The parts of a sum that one register has, then those of the next.
        for lane in (0..LANES).step_by(S::LANES) {
            // What lies beyond the last position is not zero, and may be NaN.
            let rest = (all.columns - whole).saturating_sub(lane).min(S::LANES);
            let some = S::mask(rest);
            let mut sums = [[S::zero(); N]; F];
            for f in 0..F {
                for t in 0..N {
                    let sum = &all.sums[(filter + f) * all.step + first + t];
                    sums[f][t] = S::load(sum.as_ptr().add(lane));
                }
            }
            let mut taps = [0; N];
            taps.copy_from_slice(&all.taps[first..first + N]);
            let (mut image, mut row) = (0, 0);
            while image < all.strip.len() / all.strip_len {
                let at = image * all.image + filter * all.apart + row * all.columns;
                let grad = all.grad.as_ptr().add(at);
                let strip = all.strip.as_ptr().add(image * all.strip_len + row * all.next_row);
                row += 1;
                if row == all.rows {
                    (image, row) = (image + 1, 0);
                }
                let mut k = lane;
                while k < whole {
                    let mut grads = [S::zero(); F];
                    for f in 0..F {
                        grads[f] = S::load(grad.add(f * all.apart + k));
                    }
                    for t in 0..N {
                        let numbers = S::load(strip.add(taps[t] + k));
                        for f in 0..F {
                            sums[f][t] = S::fma(grads[f], numbers, sums[f][t]);
                        }
                    }
                    k += LANES;
                }
                if rest > 0 {
                    let mut grads = [S::zero(); F];
                    for f in 0..F {
                        grads[f] = S::load_mask(grad.add(f * all.apart + k), some);
                    }
                    for t in 0..N {
                        let numbers = S::load_mask(strip.add(taps[t] + k), some);
                        for f in 0..F {
                            sums[f][t] = S::fma(grads[f], numbers, sums[f][t]);
                        }
                    }
                }
            }
            for f in 0..F {
                for t in 0..N {
                    let sum = &mut all.sums[(filter + f) * all.step + first + t];
                    S::store(sum.as_mut_ptr().add(lane), sums[f][t]);
                }
            }
        }
    }
    N
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
