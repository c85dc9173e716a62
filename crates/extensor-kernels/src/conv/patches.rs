//! The patches that windows see, as an operand of a matrix product. They never exist in memory but
//! for the block that is being multiplied.

use super::correlate::Along;
use crate::gemm::simd::{Simd, Work, dispatch};
use crate::gemm::{Element, Matrix, Panels, Source, Strided, scratch};
use std::ops::Range;

/// The patches of some images: a lane for each position, in rows, one image after the other; a depth
/// for each channel and tap.
pub(super) struct Patches<'a, T> {
    /// The images: volumes of `depth` × `height` × `width`, one for each channel.
    pub volumes: &'a [T],
    pub depth: usize,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    /// How many images there are (one only, in reduced precision), and how far apart they begin.
    pub images: usize,
    pub apart: usize,
    /// The positions and their taps along the axes.
    pub at: Along<'a>,
    /// The row of positions, counted through all images, with which the lanes begin.
    pub first_row: usize,
}

/// The same with lanes and depths exchanged.
pub(super) struct Turned<'a, T>(pub Patches<'a, T>);

/// The largest step between the numbers of a register.
const LARGEST_STEP: usize = 1 << 24;

impl<T: Element> Patches<'_, T> {
    fn fill(&self, lanes: Range<usize>, depth: Range<usize>, panels: Panels, out: &mut [T::Acc]) {
        let positions = (self.images * self.at.rows() - self.first_row) * self.at.x.count;
        assert!(lanes.end <= positions && depth.end <= self.channels * self.at.taps());
        let image = self.channels * self.depth * self.height * self.width;
        assert!(self.volumes.len() >= (self.images - 1) * self.apart + image);
        assert!(T::WIDE || self.images == 1);
        assert!(out.len() >= panels.padded(lanes.len()) * depth.len());
        assert!(panels.width.is_multiple_of(panels.pad));
        if !depth.is_empty() {
            dispatch(Fill { from: self, lanes, depth, panels, out });
        }
    }
}

impl<T: Element> Source<T::Acc> for Patches<'_, T> {
    fn pack(&self, lanes: Range<usize>, depth: Range<usize>, panels: Panels, out: &mut [T::Acc]) {
        self.fill(lanes, depth, panels, out);
    }

    fn adjacent_lanes(&self) -> bool {
        true
    }
}

impl<T: Element> Source<T::Acc> for Turned<'_, T> {
    fn pack(&self, lanes: Range<usize>, depth: Range<usize>, panels: Panels, out: &mut [T::Acc]) {
        // Lanes one after the other are, seen from the side, one panel of all depths.
        assert!(panels.width == 1 && panels.pad == 1, "transposed patches are a left operand");
        let panels = Panels { width: depth.len().max(1), pad: 1 };
        self.0.fill(depth, lanes, panels, out);
    }
}

/// The output's gradient of some images, as the right operand of a product with [`Turned`] patches: a
/// lane for each filter, a depth for each position, one image after the other.
pub(super) struct Gradients<'a, T> {
    /// The images: planes of `positions`, one for each filter.
    pub planes: &'a [T],
    pub filters: usize,
    pub positions: usize,
    /// How many images there are, and how far apart they begin.
    pub images: usize,
    pub apart: usize,
}

impl<'a, T: Element> Gradients<'a, T> {
    fn image(&self, image: usize) -> Strided<'a, T> {
        let planes = &self.planes[image * self.apart..][..self.filters * self.positions];
        Matrix::row_major(planes, self.positions).lanes(self.filters, self.positions)
    }

    /// Calls `visit` with the image, its depths and how many came before, for each that has some.
    fn stretches(&self, depth: Range<usize>, mut visit: impl FnMut(usize, Range<usize>, usize)) {
        let mut at = depth.start;
        while at < depth.end {
            let (image, from) = (at / self.positions, at % self.positions);
            let end = depth.end.min((image + 1) * self.positions);
            visit(image, from..from + end - at, at - depth.start);
            at = end;
        }
    }
}

impl<T: Element> Source<T::Acc> for Gradients<'_, T> {
    fn pack(&self, lanes: Range<usize>, depth: Range<usize>, panels: Panels, out: &mut [T::Acc]) {
        assert!(lanes.end <= self.filters && depth.end <= self.images * self.positions);
        let mut start = 0;
        for lane in lanes.clone().step_by(panels.width) {
            let lanes = lane..lanes.end.min(lane + panels.width);
            let width = panels.padded(lanes.len());
            let panel = &mut out[start..][..width * depth.len()];
            self.stretches(depth.clone(), |image, depths, before| {
                let part = &mut panel[before * width..][..depths.len() * width];
                self.image(image).pack(lanes.clone(), depths, panels, part);
            });
            start += width * depth.len();
        }
    }
}

struct Fill<'a, T: Element> {
    from: &'a Patches<'a, T>,
    lanes: Range<usize>,
    depth: Range<usize>,
    panels: Panels,
    out: &'a mut [T::Acc],
}

/// At most a register of lanes of one panel that lie in one row of positions.
struct Piece {
    /// `None` for the padding.
    plane: Option<usize>,
    image: usize,
    row: usize,
    column: usize,
    lanes: usize,
    /// Where the piece begins in the first depth, and how far on it is in the next.
    to: usize,
    width: usize,
}

/// A piece as one tap sees it.
#[derive(Clone, Copy)]
struct Run {
    /// Where in its volume the number for the first lane is (or would be).
    from: isize,
    to: usize,
    width: usize,
    /// The lanes that are in the image; the others are zero.
    low: u32,
    high: u32,
    lanes: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A whole register, all of it in the image, side by side.
    Whole,
    /// A part of a register.
    Part,
    /// Every second number.
    Second,
    /// Numbers that are `read_step` apart.
    Apart,
}

impl<T: Element> Fill<'_, T> {
    /// The pieces of all panels, those of the padding (of which no lane is in the image) included.
    fn pieces(&self, register: usize) -> Vec<Piece> {
        let Along { z, y, x } = self.from.at;
        let columns = x.count;
        let (mut lane, end) = (self.lanes.start, self.lanes.end);
        let mut pieces = Vec::with_capacity((end - lane) / register * 2 + 4);
        let mut panel = 0;
        while lane < end {
            let used = self.panels.width.min(end - lane);
            let width = self.panels.padded(used);
            let mut done = 0;
            while done < width {
                let (row, column) = ((lane + done) / columns, (lane + done) % columns);
                let row = self.from.first_row + row;
                let (plane, row) = (row / y.count, row % y.count);
                let (image, plane) = (plane / z.count, plane % z.count);
                let (lanes, plane) = if done < used {
                    ((columns - column).min(used - done), Some(plane))
                } else {
                    (width - done, None)
                };
                let lanes = lanes.min(register);
                pieces.push(Piece { plane, image, row, column, lanes, to: panel + done, width });
                done += lanes;
            }
            panel += width * self.depth.len();
            lane += used;
        }
        pieces
    }

    /// What each tap reads for each piece, all pieces of the first tap first; and the rows of a
    /// volume that are read at all.
    fn runs(&self, pieces: &[Piece], register: usize) -> (Vec<Run>, Range<usize>) {
        let Patches { at: Along { z, y, x }, depth, height, width, .. } = *self.from;
        let mut runs = Vec::with_capacity(pieces.len() * self.from.at.taps());
        let mut rows = depth * height..0;
        let inside = |at: usize, step: usize, tap: isize, size: usize| {
            let at = (at * step) as isize + tap;
            (at >= 0 && at < size as isize).then_some(at as usize)
        };
        for &(at_z, _) in &z.taps {
            for &(at_y, _) in &y.taps {
                // The row of its volume that each piece reads, if there is one.
                let row = |piece: &Piece| {
                    let plane = inside(piece.plane?, z.read_step, at_z, depth)?;
                    Some(plane * height + inside(piece.row, y.read_step, at_y, height)?)
                };
                for &(at_x, _) in &x.taps {
                    let columns = x.inside(at_x, width);
                    for piece in pieces {
                        let mut run = Run {
                            from: 0,
                            to: piece.to,
                            width: piece.width,
                            low: 0,
                            high: 0,
                            lanes: piece.lanes as u32,
                            kind: Kind::Part,
                        };
                        if let Some(row) = row(piece) {
                            let low = columns.start.clamp(piece.column, piece.column + piece.lanes);
                            let high = columns.end.clamp(low, piece.column + piece.lanes);
                            run.low = (low - piece.column) as u32;
                            run.high = (high - piece.column) as u32;
                            let column = (piece.column * x.read_step) as isize + at_x;
                            run.from = (piece.image * self.from.apart) as isize;
                            run.from += (row * width) as isize + column;
                            rows = rows.start.min(row)..rows.end.max(row + 1);
                            if run.low < run.high {
                                run.kind = match run.high - run.low {
                                    _ if x.read_step == 2 => Kind::Second,
                                    _ if x.read_step != 1 => Kind::Apart,
                                    all if all as usize == register => Kind::Whole,
                                    _ => Kind::Part,
                                };
                            }
                        }
                        runs.push(run);
                    }
                }
            }
        }
        (runs, rows)
    }
}

impl<T: Element> Work<T::Acc> for Fill<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T::Acc>>(self) {
        // Numbers very far apart are read one at a time.
        let read_step = self.from.at.x.read_step;
        let register = if read_step > LARGEST_STEP { 1 } else { S::LANES };
        let pieces = self.pieces(register);
        let (runs, rows) = self.runs(&pieces, S::LANES);
        let Patches { depth, height, width, .. } = *self.from;
        let (taps, volume) = (self.from.at.taps(), depth * height * width);
        let step = read_step.min(LARGEST_STEP) as i32;
        // Reduced precisions are widened first, the rows of a volume that are read at a time.
        let block = rows.start * width..rows.end.max(rows.start) * width;
        let room = if T::WIDE { 0 } else { block.len() };
        scratch::with(room, |wide: &mut [T::Acc]| {
            let mut at = self.depth.start;
            while at < self.depth.end {
                let (channel, tap) = (at / taps, at % taps);
                let end = self.depth.end.min((channel + 1) * taps);
                let numbers = &self.from.volumes[channel * volume..];
                let from: *const T::Acc = if T::WIDE {
                    numbers.as_ptr().cast()
                } else {
                    T::widen_slice(&numbers[block.clone()], wide);
                    wide.as_ptr().wrapping_sub(block.start)
                };
                for depth in at..end {
                    let tap = tap + depth - at;
                    let out = self.out.as_mut_ptr();
                    let depth = depth - self.depth.start;
                    for run in &runs[tap * pieces.len()..(tap + 1) * pieces.len()] {
                        // SAFETY: `fill` checked that the lanes and depths exist and that `out` has
                        // room for all panels, of which each piece has its part to itself. Lanes
                        // from `low` up to `high` are inside a row of a volume; no others are read.
                        // Steps are at most `LARGEST_STEP`, or of lane 0 only.
                        unsafe {
                            let to = out.add(run.to + depth * run.width);
                            let from = from.wrapping_offset(run.from);
                            if run.kind == Kind::Whole {
                                S::store(to, S::load(from));
                                continue;
                            }
                            let (low, high) = (run.low as usize, run.high as usize);
                            let numbers = match run.kind {
                                Kind::Apart => S::gather(from, step, S::span(low, high)),
                                Kind::Second => every_second::<S>(from, low, high),
                                _ => S::load_mask(from, S::span(low, high)),
                            };
                            S::store_mask(to, S::mask(run.lanes as usize), numbers);
                        }
                    }
                }
                at = end;
            }
        });
    }
}

/// Lanes `low` up to `high`, at least one, of every second number; the others are zero.
///
/// # Safety
/// The numbers from that of lane `low` up to that of lane `high - 1` must exist.
#[inline(always)]
unsafe fn every_second<S: Simd>(from: *const S::T, low: usize, high: usize) -> S::V {
    let (low, high) = (2 * low, 2 * high - 1);
    let next = |at: usize| at.max(S::LANES) - S::LANES;
    // SAFETY: the caller's promise.
    unsafe {
        let first = S::span(low.min(S::LANES), high.min(S::LANES));
        let second = S::span(next(low), next(high));
        S::halve(S::load_mask(from, first), S::load_mask(from.wrapping_add(S::LANES), second))
    }
}
