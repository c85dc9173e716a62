//! What becomes of the sums of a block of C: kept for the next stretch of depth, or written to C.

use super::super::Element;
use super::super::blocked::Target;
use super::{LANES, TILE};
use std::arch::x86_64::*;
use std::ops::Range;

/// The sums of a stretch of a block, and what is to become of them.
pub(super) struct Unfinished<O> {
    /// The sums, in squares.
    pub sums: *const f32,
    /// Those of the stretches before, likewise, if there are any: what they are added to.
    pub kept: *mut f32,
    /// Where the block is in C, unless there are stretches to come.
    pub c: Option<Target<O>>,
    /// Whether the sums are added to what C is.
    pub accumulate: bool,
    /// Rows that are not finished, and where they end; columns.
    pub rows: Range<usize>,
    pub cols: usize,
}

impl<O: Element> Unfinished<O> {
    /// Nothing to be finished.
    pub(super) fn nothing() -> Self {
        Unfinished {
            sums: std::ptr::null(),
            kept: std::ptr::null_mut(),
            c: None,
            accumulate: false,
            rows: 0..0,
            cols: 0,
        }
    }

    /// How many rows are left.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Finishes some rows.
    ///
    /// # Safety
    /// The machine must have AVX-512. `sums` must be good for the sums of a block, and so `kept`
    /// unless it is null; without C it must not be. C must be good for the rows and columns, and its
    /// elements be `f32` or `bf16`.
    #[inline(always)]
    pub(super) unsafe fn advance(&mut self, rows: usize) {
        let start = self.rows.start;
        let end = self.rows.end.min(start + rows);
        if start < end {
            // SAFETY: the caller's promise.
            unsafe { self.finish(start..end) };
            self.rows.start = end;
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn finish(&self, rows: Range<usize>) {
        for i in rows {
            for half in 0..self.cols.div_ceil(LANES) {
                let at = (i / LANES * 2 + half) * TILE + i % LANES * LANES;
                // SAFETY: the caller's promise; elements of C beyond the columns are not touched.
                unsafe {
                    let mut sum = _mm512_loadu_ps(self.sums.add(at));
                    if !self.kept.is_null() {
                        sum = _mm512_add_ps(_mm512_loadu_ps(self.kept.add(at)), sum);
                    }
                    let Some(c) = self.c else {
                        _mm512_storeu_ps(self.kept.add(at), sum);
                        continue;
                    };
                    let to = c.first.add(i * c.row + half * LANES);
                    let some = LANES.min(self.cols - half * LANES);
                    let mask = (u32::MAX >> (32 - some)) as __mmask16;
                    if O::WIDE {
                        let to = to.cast::<f32>();
                        if self.accumulate {
                            sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum);
                        }
                        _mm512_mask_storeu_ps(to, mask, sum);
                        continue;
                    }
                    let to = to.cast::<i16>();
                    if self.accumulate {
                        let before = _mm256_maskz_loadu_epi16(mask, to);
                        let before = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(before));
                        sum = _mm512_add_ps(_mm512_castsi512_ps(before), sum);
                    }
                    _mm256_mask_storeu_epi16(to, mask, round(sum));
                }
            }
        }
    }
}

/// The nearest `bf16` numbers, even ones where two are as near. The processor's own instruction
/// makes zeros of subnormal numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn round(x: __m512) -> __m256i {
    let bits = _mm512_castps_si512(x);
    let upper = _mm512_srli_epi32::<16>(bits);
    let odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    let up = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7FFF));
    let rounded = _mm512_srli_epi32::<16>(up);
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    let quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
    _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, rounded, quiet))
}
