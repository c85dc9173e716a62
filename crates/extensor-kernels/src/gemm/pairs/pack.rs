//! Operands packed as pairs of `bf16` numbers.
//!
//! Lanes are taken in groups of [`LANES`], the depth in tiles of [`DEPTHS`]. The tiles of a group
//! follow one another, and the groups. A tile is a square of pairs, the number of the even depth in
//! the lower half; what is beyond the ends is zero.

use super::super::pack::{Panels, Source, Strided};
use super::super::{Real, scratch};
use super::{DEPTHS, LANES, TILE};
use crate::gemm::simd::prefetch;
use std::arch::x86_64::*;
use std::ops::Range;

/// Which way the square of a tile lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A lane after the other: a left operand.
    Rows,
    /// A pair of depths after the other: a right operand.
    Columns,
}

/// Numbers that are packed wide at a time, nearly, from what has no `bf16` numbers in memory.
const WIDE: usize = 1 << 15;

/// Words of packed lanes and depths.
pub(super) fn words(lanes: usize, depth: usize) -> usize {
    lanes.div_ceil(LANES) * depth.div_ceil(DEPTHS) * TILE
}

/// Packs what is packed wide, of numbers that are all `bf16` numbers. Returns whether one of them is
/// subnormal.
///
/// # Panics
/// If sums of `R` are not `f32`, or `out` is too short.
pub(crate) fn widened<R: Real, S: Source<R> + ?Sized>(
    from: &S,
    lanes: Range<usize>,
    depth: Range<usize>,
    side: Side,
    out: &mut [u32],
) -> bool {
    assert!(size_of::<R>() == size_of::<f32>() && out.len() >= words(lanes.len(), depth.len()));
    let group = depth.len().div_ceil(DEPTHS) * TILE;
    // Many lanes at a time, for sources that have to find out where each of them is.
    let together = lanes.len().next_multiple_of(LANES).min(512);
    let depths = (WIDE / together).next_multiple_of(DEPTHS);
    let mut found = false;
    scratch::with(together * depths.min(depth.len()), |wide: &mut [R]| {
        for lane in lanes.clone().step_by(together) {
            let some = lane..lanes.end.min(lane + together);
            for first in depth.clone().step_by(depths) {
                let part = first..depth.end.min(first + depths);
                let (lanes_here, depths_here) = (some.len(), part.len());
                let panels = match side {
                    Side::Rows => Panels { width: 1, pad: 1 },
                    Side::Columns => Panels { width: LANES, pad: LANES },
                };
                from.pack(some.clone(), part, panels, wide);
                let out = &mut out[(lane - lanes.start) / LANES * group..];
                let out = &mut out[(first - depth.start) / DEPTHS * TILE..];
                for at in (0..lanes_here).step_by(LANES) {
                    // SAFETY: what was packed of a group and its tiles, of which there are as many
                    // as `out` was found to have room for; `R` is `f32`. Whoever packs pairs has
                    // found that the machine has AVX-512.
                    found |= unsafe {
                        narrow(
                            wide.as_ptr().cast::<f32>().add(at * depths_here),
                            LANES.min(lanes_here - at),
                            depths_here,
                            side,
                            out.as_mut_ptr().add(at / LANES * group),
                        )
                    };
                }
            }
        }
    });
    found
}

/// Makes the tiles of a group of numbers that were packed wide.
///
/// # Safety
/// `from` must be good for the numbers, `to` for the tiles.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn narrow(from: *const f32, lanes: usize, depths: usize, side: Side, to: *mut u32) -> bool {
    let mut tiny = Tiny::new();
    let upper = _mm512_set1_epi32(0xFFFF_0000_u32.cast_signed());
    let pairs = |even: __m512i, odd: __m512i| {
        _mm512_or_si512(_mm512_srli_epi32::<16>(even), _mm512_and_si512(odd, upper))
    };
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    for depth in (0..depths.next_multiple_of(DEPTHS)).step_by(DEPTHS) {
        for at in 0..LANES {
            // SAFETY: the caller's promise; of a lane or depth that is not there nothing is read.
            unsafe {
                let pair = if side == Side::Columns {
                    let row = |depth: usize| {
                        let mask = if depth < depths { u16::MAX } else { 0 };
                        _mm512_maskz_loadu_epi32(mask, from.wrapping_add(depth * LANES).cast())
                    };
                    pairs(row(depth + 2 * at), row(depth + 2 * at + 1))
                } else {
                    let half = |depth: usize| {
                        let there = if at < lanes { depths.saturating_sub(depth) } else { 0 };
                        let mask = (((1u32 << there.min(16)) - 1) & 0xFFFF) as __mmask16;
                        _mm512_maskz_loadu_epi32(
                            mask,
                            from.wrapping_add(at * depths + depth).cast(),
                        )
                    };
                    let (low, high) = (half(depth), half(depth + 16));
                    pairs(
                        _mm512_permutex2var_epi32(low, even, high),
                        _mm512_permutex2var_epi32(low, odd, high),
                    )
                };
                tiny.note(pair);
                _mm512_storeu_si512(to.add(depth / DEPTHS * TILE + at * LANES).cast(), pair);
            }
        }
    }
    tiny.found()
}

/// Packs numbers that lie in memory, given as their bits. Returns whether one of them is subnormal.
///
/// # Panics
/// If there are no such lanes or depths, or `out` is too short.
pub(crate) fn strided(
    from: &Strided<u16>,
    lanes: Range<usize>,
    depth: Range<usize>,
    side: Side,
    out: &mut [u32],
) -> bool {
    assert!(lanes.end <= from.lanes && depth.end <= from.depth);
    assert!(out.len() >= words(lanes.len(), depth.len()));
    // SAFETY: the lanes and depths exist, and there is room for them. Whoever packs pairs has found
    // that the machine has AVX-512.
    unsafe {
        let first = from.at(lanes.start, depth.start);
        let part = Part {
            first,
            lane_stride: from.lane_stride,
            depth_stride: from.depth_stride,
            lanes: lanes.len(),
            depths: depth.len(),
            to: out.as_mut_ptr(),
        };
        match (part.depth_stride == 1, part.lane_stride == 1, side) {
            (true, _, Side::Rows) => part.copy(),
            (true, _, Side::Columns) => part.transpose(),
            (_, true, _) => part.interleave(side),
            _ => part.pick(side),
        }
    }
}

/// The numbers to be packed, and the room for them.
struct Part {
    first: *const u16,
    lane_stride: isize,
    depth_stride: isize,
    lanes: usize,
    depths: usize,
    to: *mut u32,
}

/// A square of pairs.
#[repr(align(64))]
struct Square([[u16; DEPTHS]; LANES]);

impl Part {
    fn at(&self, lane: usize, depth: usize) -> *const u16 {
        let offset = lane as isize * self.lane_stride + depth as isize * self.depth_stride;
        self.first.wrapping_offset(offset)
    }

    /// Where the tile of a lane and a depth, the first of it, is to be.
    fn tile(&self, lane: usize, depth: usize) -> *mut u32 {
        let tiles = self.depths.div_ceil(DEPTHS);
        self.to.wrapping_add((lane / LANES * tiles + depth / DEPTHS) * TILE)
    }

    /// A row of a tile whose depths are adjacent in memory.
    ///
    /// # Safety
    /// The numbers must exist, as far as they are below the extents.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn row(&self, lane: usize, depth: usize) -> __m512i {
        let there = if lane < self.lanes { DEPTHS.min(self.depths - depth) } else { 0 };
        let mask = ((1u64 << there) - 1) as __mmask32;
        // SAFETY: the caller's promise.
        unsafe { _mm512_maskz_loadu_epi16(mask, self.at(lane, depth).cast()) }
    }

    /// Depths adjacent in memory, as they are to be.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn copy(&self) -> bool {
        let mut tiny = Tiny::new();
        for lane in (0..self.lanes).step_by(LANES) {
            for depth in (0..self.depths).step_by(DEPTHS) {
                let to = self.tile(lane, depth);
                for i in 0..LANES {
                    // SAFETY: the numbers exist, and the tile.
                    unsafe {
                        let row = self.row(lane + i, depth);
                        prefetch(self.at(lane + i, depth).wrapping_add(8 * DEPTHS));
                        tiny.note(row);
                        _mm512_storeu_si512(to.add(i * LANES).cast(), row);
                    }
                }
            }
        }
        tiny.found()
    }

    /// Depths adjacent in memory, where lanes are to be.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn transpose(&self) -> bool {
        let mut tiny = Tiny::new();
        let mut square = Square([[0; DEPTHS]; LANES]);
        for lane in (0..self.lanes).step_by(LANES) {
            for depth in (0..self.depths).step_by(DEPTHS) {
                // SAFETY: the numbers exist, and the tile; a square that is not whole is made so.
                unsafe {
                    let to = self.tile(lane, depth);
                    if lane + LANES <= self.lanes && depth + DEPTHS <= self.depths {
                        transpose(self.at(lane, depth), self.lane_stride, to, &mut tiny);
                        continue;
                    }
                    for (i, row) in square.0.iter_mut().enumerate() {
                        _mm512_storeu_si512(row.as_mut_ptr().cast(), self.row(lane + i, depth));
                    }
                    transpose(square.0.as_ptr().cast(), DEPTHS as isize, to, &mut tiny);
                }
            }
        }
        tiny.found()
    }

    /// Lanes adjacent in memory: two groups at a time, which fill a cache line.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn interleave(&self, side: Side) -> bool {
        let mut tiny = Tiny::new();
        let mut squares = [const { Square([[0; DEPTHS]; LANES]) }; 2];
        let low = {
            let pair = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            _mm512_or_si512(
                pair,
                _mm512_slli_epi32::<16>(_mm512_add_epi32(pair, _mm512_set1_epi32(32))),
            )
        };
        let high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
        for depth in (0..self.depths).step_by(DEPTHS) {
            for lane in (0..self.lanes).step_by(2 * LANES) {
                let mask = ((1u64 << (self.lanes - lane).min(32)) - 1) as __mmask32;
                let second = lane + LANES < self.lanes;
                let to = [self.tile(lane, depth), self.tile(lane + LANES, depth)];
                for pair in 0..LANES {
                    // SAFETY: the numbers exist, as far as they are below the extents; so do the
                    // tiles.
                    unsafe {
                        let row = |depth: usize| {
                            let mask = if depth < self.depths { mask } else { 0 };
                            let at = self.at(lane, depth);
                            prefetch(at.wrapping_add(4 * 32));
                            _mm512_maskz_loadu_epi16(mask, at.cast())
                        };
                        let (even, odd) = (row(depth + 2 * pair), row(depth + 2 * pair + 1));
                        tiny.note(even);
                        tiny.note(odd);
                        let pairs = [
                            _mm512_permutex2var_epi16(even, low, odd),
                            _mm512_permutex2var_epi16(even, high, odd),
                        ];
                        for group in 0..1 + usize::from(second) {
                            let to = match side {
                                Side::Columns => to[group].add(pair * LANES).cast(),
                                Side::Rows => squares[group].0[pair].as_mut_ptr().cast(),
                            };
                            _mm512_storeu_si512(to, pairs[group]);
                        }
                    }
                }
                if side == Side::Rows {
                    for group in 0..1 + usize::from(second) {
                        let from = squares[group].0.as_ptr().cast();
                        // SAFETY: a square, and a tile.
                        unsafe { transpose(from, DEPTHS as isize, to[group], &mut tiny) };
                    }
                }
            }
        }
        tiny.found()
    }

    /// Any strides, one number at a time.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn pick(&self, side: Side) -> bool {
        let mut found = false;
        for lane in (0..self.lanes).step_by(LANES) {
            for depth in (0..self.depths).step_by(DEPTHS) {
                let mut square = Square([[0; DEPTHS]; LANES]);
                let lanes = LANES.min(self.lanes - lane);
                let depths = DEPTHS.min(self.depths - depth);
                for (i, row) in square.0.iter_mut().enumerate().take(lanes) {
                    for (p, x) in row.iter_mut().enumerate().take(depths) {
                        // SAFETY: the number exists.
                        *x = unsafe { *self.at(lane + i, depth + p) };
                    }
                }
                // SAFETY: a square, and its tile.
                unsafe {
                    let square = Part {
                        first: square.0.as_ptr().cast(),
                        lane_stride: DEPTHS as isize,
                        depth_stride: 1,
                        lanes: LANES,
                        depths: DEPTHS,
                        to: self.tile(lane, depth),
                    };
                    found |= match side {
                        Side::Rows => square.copy(),
                        Side::Columns => square.transpose(),
                    };
                }
            }
        }
        found
    }
}

/// Looks out for subnormal numbers: the least of what their bits are, the sign left out, less one.
struct Tiny(__m512i);

impl Tiny {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new() -> Tiny {
        Tiny(_mm512_set1_epi16(-1))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn note(&mut self, numbers: __m512i) {
        let twice = _mm512_add_epi16(numbers, numbers);
        self.0 = _mm512_min_epu16(self.0, _mm512_add_epi16(twice, _mm512_set1_epi16(-1)));
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn found(&self) -> bool {
        _mm512_cmplt_epu16_mask(self.0, _mm512_set1_epi16(0xFF)) != 0
    }
}

/// Turns a square of pairs, whose rows are `step` numbers apart. Rows are read in quarters that
/// already stand where they must, so that only two rounds of shuffles are left.
///
/// # Safety
/// The square and the tile must exist.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn transpose(from: *const u16, step: isize, to: *mut u32, tiny: &mut Tiny) {
    for quarter in 0..4 {
        let mut rows = [_mm512_setzero_si512(); 4];
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let part = |group: isize| unsafe {
                let at = from.offset((i as isize + 4 * group) * step);
                _mm_loadu_si128(at.add(8 * quarter).cast())
            };
            let x = _mm512_castsi128_si512(part(0));
            let x = _mm512_inserti32x4::<1>(x, part(1));
            let x = _mm512_inserti32x4::<2>(x, part(2));
            *row = _mm512_inserti32x4::<3>(x, part(3));
            tiny.note(*row);
        }
        let [r0, r1, r2, r3] = rows;
        let (a, b) = (_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1));
        let (c, d) = (_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3));
        let columns = [
            _mm512_unpacklo_epi64(a, c),
            _mm512_unpackhi_epi64(a, c),
            _mm512_unpacklo_epi64(b, d),
            _mm512_unpackhi_epi64(b, d),
        ];
        for (i, column) in columns.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(to.add((4 * quarter + i) * LANES).cast(), column) };
        }
    }
}
