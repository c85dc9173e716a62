//! Packing: operands copied, a cache-size block at a time, into the order the tiles read them.

#[cfg(target_arch = "x86_64")]
use super::pairs::pack as pairs;
use super::simd::{Simd, Work, dispatch, prefetch};
use super::tile::WIDTH;
use super::{Element, Real};
use std::marker::PhantomData;
use std::ops::Range;

/// An operand of a product, from which blocks are packed.
///
/// Either operand is seen as *lanes* along a *depth*: the lanes of A are its rows and those of B its
/// columns; the depth is the dimension summed over. Whatever can write its elements in the order
/// below can be multiplied, whether or not it exists as a matrix anywhere.
pub trait Source<R: Real>: Sync {
    /// Writes the elements of `lanes` × `depth` to `out`.
    ///
    /// The lanes are cut into panels of `panels.width`, which follow one another. Within a panel,
    /// all lanes of the first depth come first, then all lanes of the next. The last panel is as
    /// wide as it has lanes, rounded up to a multiple of `panels.pad`; lanes beyond the end are
    /// zero.
    fn pack(&self, lanes: Range<usize>, depth: Range<usize>, panels: Panels, out: &mut [R]);

    /// Whether panels of several lanes are faster to pack than single lanes.
    #[doc(hidden)]
    fn adjacent_lanes(&self) -> bool {
        false
    }

    /// Writes the elements of `lanes` × `depth`, which must all be `bf16` numbers, as pairs. Returns
    /// whether one of them is subnormal. Only where the machine has a [`Unit`](crate::isa::Unit).
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    fn pack_pairs(
        &self,
        lanes: Range<usize>,
        depth: Range<usize>,
        side: pairs::Side,
        out: &mut [u32],
    ) -> bool {
        pairs::widened(self, lanes, depth, side, out)
    }

    /// The elements where they lie, if they do as numbers of type `R`.
    #[doc(hidden)]
    fn in_place(&self) -> Option<Strided<'_, R>> {
        None
    }
}

/// How wide packed panels are; see [`Source::pack`].
#[derive(Clone, Copy, Debug)]
pub struct Panels {
    /// Lanes of a panel.
    pub width: usize,
    /// What the width of the last panel is a multiple of; divides `width`.
    pub pad: usize,
}

impl Panels {
    /// How many lanes, padding included, the panels of `lanes` lanes have in all.
    pub fn padded(self, lanes: usize) -> usize {
        lanes.next_multiple_of(self.pad)
    }
}

/// A strided matrix as a [`Source`].
#[derive(Clone, Copy)]
pub struct Strided<'a, T> {
    pub(super) first: *const T,
    pub(super) lanes: usize,
    pub(super) depth: usize,
    pub(super) lane_stride: isize,
    pub(super) depth_stride: isize,
    pub(super) borrow: PhantomData<&'a [T]>,
}

// SAFETY: it stands for a shared slice of `T`.
unsafe impl<T: Sync> Sync for Strided<'_, T> {}
// SAFETY: likewise.
unsafe impl<T: Sync> Send for Strided<'_, T> {}

impl<T> Strided<'_, T> {
    /// # Safety
    /// `lane` and `depth` must be below the extents.
    #[inline(always)]
    pub(super) unsafe fn at(&self, lane: usize, depth: usize) -> *const T {
        let offset = lane as isize * self.lane_stride + depth as isize * self.depth_stride;
        // SAFETY: the matrix was found to lie in its slice when this view of it was made.
        unsafe { self.first.offset(offset) }
    }
}

impl<'a, T: Element> Strided<'a, T> {
    /// The same matrix as one of accumulators.
    ///
    /// # Safety
    /// `T` must be `T::Acc`.
    #[inline(always)]
    pub(super) unsafe fn cast(&self) -> Strided<'a, T::Acc> {
        self.reinterpreted()
    }

    /// The same matrix as one of other numbers, to be read only if they have the same size.
    #[inline(always)]
    fn reinterpreted<U>(&self) -> Strided<'a, U> {
        Strided {
            first: self.first.cast(),
            lanes: self.lanes,
            depth: self.depth,
            lane_stride: self.lane_stride,
            depth_stride: self.depth_stride,
            borrow: PhantomData,
        }
    }
}

impl<T: Element> Source<T::Acc> for Strided<'_, T> {
    fn pack(&self, lanes: Range<usize>, depth: Range<usize>, panels: Panels, out: &mut [T::Acc]) {
        assert!(lanes.end <= self.lanes && depth.end <= self.depth);
        assert!(out.len() >= panels.padded(lanes.len()) * depth.len());
        assert!(panels.width.is_multiple_of(panels.pad));
        dispatch(Pack { from: *self, lanes, depth, panels, out });
    }

    fn adjacent_lanes(&self) -> bool {
        self.lane_stride == 1
    }

    #[cfg(target_arch = "x86_64")]
    fn pack_pairs(
        &self,
        lanes: Range<usize>,
        depth: Range<usize>,
        side: pairs::Side,
        out: &mut [u32],
    ) -> bool {
        if !T::PAIRS {
            return pairs::widened(self, lanes, depth, side, out);
        }
        pairs::strided(&self.reinterpreted(), lanes, depth, side, out)
    }

    fn in_place(&self) -> Option<Strided<'_, T::Acc>> {
        // SAFETY: `T` is `T::Acc`.
        T::WIDE.then(|| unsafe { self.cast() })
    }
}

struct Pack<'a, T: Element> {
    from: Strided<'a, T>,
    lanes: Range<usize>,
    depth: Range<usize>,
    panels: Panels,
    out: &'a mut [T::Acc],
}

/// Depths packed at a time from an operand whose lanes are adjacent: all panels take their part of
/// a stretch of memory before the next stretch is looked at.
const DEPTHS: usize = 8;

/// How many depths ahead memory is asked for.
const AHEAD: isize = 8;

/// Lanes (at most a `Simd::BLOCK`) by depths that are widened at a time.
const BLOCK: usize = 16;
const RUN: usize = 64;

impl<T: Element> Work<T::Acc> for Pack<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T::Acc>>(mut self) {
        if self.panels.width == 1 {
            // Lanes one after the other are, seen from the side, one panel of all depths.
            self = Pack {
                from: Strided {
                    lanes: self.from.depth,
                    depth: self.from.lanes,
                    lane_stride: self.from.depth_stride,
                    depth_stride: self.from.lane_stride,
                    ..self.from
                },
                panels: Panels { width: self.depth.len(), pad: 1 },
                lanes: self.depth,
                depth: self.lanes,
                out: self.out,
            };
        }
        let total = self.depth.len();
        let chunk = if self.from.lane_stride == 1 { DEPTHS } else { total.max(1) };
        let mut done = 0;
        while done < total {
            let depths = chunk.min(total - done);
            let mut lane = self.lanes.start;
            let mut panel = self.out.as_mut_ptr();
            while lane < self.lanes.end {
                let used = self.panels.width.min(self.lanes.end - lane);
                let width = self.panels.padded(used);
                // SAFETY: `pack` checked that the lanes and depths exist and that `out` has room
                // for all panels; this panel takes `width * total` of it.
                unsafe {
                    let part = Part {
                        from: self.from.at(lane, self.depth.start + done),
                        lane_stride: self.from.lane_stride,
                        depth_stride: self.from.depth_stride,
                        lanes: used,
                        depths,
                        to: panel.add(done * width),
                        width,
                    };
                    part.pack::<S>();
                    panel = panel.add(width * total);
                }
                lane += used;
            }
            done += depths;
        }
    }
}

/// A part of one panel: `to[p * width + i] = from[i * lane_stride + p * depth_stride]`.
struct Part<T: Element> {
    from: *const T,
    lane_stride: isize,
    depth_stride: isize,
    lanes: usize,
    depths: usize,
    to: *mut T::Acc,
    width: usize,
}

impl<T: Element> Part<T> {
    /// # Safety
    /// All elements must exist, and `to` have room for `depths * width` numbers.
    #[inline(always)]
    unsafe fn pack<S: Simd<T = T::Acc>>(&self) {
        // SAFETY: each branch stays within `lanes`, `depths` and `width`.
        unsafe {
            if self.lane_stride == 1 {
                self.copy_lanes::<S>();
            } else if self.depth_stride == 1 && self.lanes >= S::BLOCK {
                self.transpose::<S>();
                self.zero_padding();
            } else {
                self.pick(0..self.lanes, 0..self.depths);
                self.zero_padding();
            }
        }
    }

    /// Lanes adjacent in memory, as in the panel.
    #[inline(always)]
    unsafe fn copy_lanes<S: Simd<T = T::Acc>>(&self) {
        // SAFETY: whole registers are copied while as many lanes are left, then the rest by mask;
        // the panel's width is respected likewise.
        unsafe {
            if T::WIDE && self.width <= S::LANES {
                // A panel of A: one register holds its lanes.
                let (some, all) = (S::mask(self.lanes), S::mask(self.width));
                let (mut from, mut to) = (self.from.cast::<T::Acc>(), self.to);
                for _ in 0..self.depths {
                    prefetch(from.wrapping_offset(AHEAD * self.depth_stride));
                    S::store_mask(to, all, S::load_mask(from, some));
                    from = from.wrapping_offset(self.depth_stride);
                    to = to.add(self.width);
                }
                return;
            }
            for p in 0..self.depths {
                let from = self.from.offset(p as isize * self.depth_stride);
                let to = self.to.add(p * self.width);
                // The next depths may be far away, where the processor does not look ahead.
                let ahead = from.wrapping_offset(AHEAD * self.depth_stride);
                for i in (0..self.lanes).step_by(64 / size_of::<T>()) {
                    prefetch(ahead.wrapping_add(i));
                }
                if T::WIDE && self.lanes == WIDTH * S::LANES {
                    let from = from.cast::<T::Acc>();
                    let mut row = [S::zero(); WIDTH];
                    for (v, x) in row.iter_mut().enumerate() {
                        *x = S::load(from.add(v * S::LANES));
                    }
                    for (v, &x) in row.iter().enumerate() {
                        S::store(to.add(v * S::LANES), x);
                    }
                } else if T::WIDE {
                    let from = from.cast::<T::Acc>();
                    let mut i = 0;
                    while i + S::LANES <= self.lanes {
                        S::store(to.add(i), S::load(from.add(i)));
                        i += S::LANES;
                    }
                    if i < self.width {
                        let rest = S::load_mask(from.add(i), S::mask(self.lanes - i));
                        S::store_mask(to.add(i), S::mask(self.width - i), rest);
                    }
                } else {
                    let from = std::slice::from_raw_parts(from, self.lanes);
                    let to = std::slice::from_raw_parts_mut(to, self.width);
                    T::widen_slice(from, &mut to[..self.lanes]);
                    to[self.lanes..].fill(T::Acc::ZERO);
                }
            }
        }
    }

    /// Depths adjacent in memory: squares are transposed in registers. The last square of lanes
    /// overlaps the one before rather than being a smaller one.
    #[inline(always)]
    unsafe fn transpose<S: Simd<T = T::Acc>>(&self) {
        let mut lane = 0;
        while lane < self.lanes {
            let start = lane.min(self.lanes - S::BLOCK);
            let mut p = 0;
            // SAFETY: `start + BLOCK <= lanes`; squares are transposed while as many depths are left,
            // the rest is picked.
            unsafe {
                let from = self.from.offset(start as isize * self.lane_stride);
                let to = self.to.add(start);
                if T::WIDE {
                    while p + S::BLOCK <= self.depths {
                        let from = from.add(p).cast::<T::Acc>();
                        S::transpose(from, self.lane_stride, to.add(p * self.width), self.width);
                        p += S::BLOCK;
                    }
                } else {
                    let mut wide = [[T::Acc::ZERO; RUN]; BLOCK];
                    while p + S::BLOCK <= self.depths {
                        let run = RUN.min(self.depths - p) / S::BLOCK * S::BLOCK;
                        for (i, wide) in wide.iter_mut().enumerate().take(S::BLOCK) {
                            let from = from.offset(i as isize * self.lane_stride).add(p);
                            let from = std::slice::from_raw_parts(from, run);
                            T::widen_slice(from, &mut wide[..run]);
                        }
                        for q in (0..run).step_by(S::BLOCK) {
                            let from = wide.as_ptr().cast::<T::Acc>().add(q);
                            let to = to.add((p + q) * self.width);
                            S::transpose(from, RUN as isize, to, self.width);
                        }
                        p += run;
                    }
                }
                self.pick(start..start + S::BLOCK, p..self.depths);
            }
            lane += S::BLOCK;
        }
    }

    /// Any strides, one element at a time.
    #[inline(always)]
    unsafe fn pick(&self, lanes: Range<usize>, depths: Range<usize>) {
        for p in depths {
            for i in lanes.clone() {
                let offset = i as isize * self.lane_stride + p as isize * self.depth_stride;
                // SAFETY: the ranges lie within `lanes` and `depths`.
                unsafe { *self.to.add(p * self.width + i) = (*self.from.offset(offset)).widen() };
            }
        }
    }

    #[inline(always)]
    unsafe fn zero_padding(&self) {
        for p in 0..self.depths {
            for i in self.lanes..self.width {
                // SAFETY: within the panel.
                unsafe { *self.to.add(p * self.width + i) = T::Acc::ZERO };
            }
        }
    }
}
