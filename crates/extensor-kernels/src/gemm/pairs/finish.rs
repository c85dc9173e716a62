//! What becomes of sums: they are added to C or replace it, rounded if C is of `bf16` numbers.

use super::super::Element;
use super::super::blocked::Target;
use super::{LANES, SIDE, TILE};
use std::arch::x86_64::*;

/// Writes the sums of a row of blocks, which follow one another.
///
/// # Safety
/// The machine must have AVX-512. `sums` must be good for the sums of as many blocks as `cols`
/// columns need, `c` for `rows` rows of `cols` adjacent elements, which must be `f32` or `bf16`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn write<O: Element>(
    sums: *const f32,
    c: Target<O>,
    accumulate: bool,
    rows: usize,
    cols: usize,
) {
    for i in 0..rows {
        let row = i / LANES * 2 * TILE + i % LANES * LANES;
        for j in (0..cols).step_by(SIDE) {
            let mask = (u64::from(u32::MAX) >> (SIDE - SIDE.min(cols - j))) as __mmask32;
            // SAFETY: the caller's promise; elements beyond the columns are not touched.
            unsafe {
                let to = c.first.add(i * c.row + j);
                let sums = sums.add(j * SIDE + row);
                let mut sums = [_mm512_loadu_ps(sums), _mm512_loadu_ps(sums.add(TILE))];
                if O::WIDE {
                    for (half, sum) in sums.into_iter().enumerate() {
                        let mask = (mask >> (half * LANES)) as __mmask16;
                        let to = to.wrapping_add(half * LANES).cast::<f32>();
                        let before = _mm512_maskz_loadu_ps(mask, to);
                        let sum = if accumulate { _mm512_add_ps(before, sum) } else { sum };
                        _mm512_mask_storeu_ps(to, mask, sum);
                    }
                } else {
                    let to = to.cast::<i16>();
                    if accumulate {
                        let before = _mm512_maskz_loadu_epi16(mask, to);
                        sums[0] = _mm512_add_ps(widen(_mm512_castsi512_si256(before)), sums[0]);
                        sums[1] =
                            _mm512_add_ps(widen(_mm512_extracti64x4_epi64::<1>(before)), sums[1]);
                    }
                    _mm512_mask_storeu_epi16(to, mask, round(sums));
                }
            }
        }
    }
}

/// The same numbers in `f32`.
#[inline]
#[target_feature(enable = "avx512f")]
fn widen(x: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(x)))
}

/// The nearest `bf16` numbers, even ones where two are as near. The processor's own instruction
/// makes zeros of subnormal numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn round([low, high]: [__m512; 2]) -> __m512i {
    // The upper halves of the first register, then those of the second.
    let pair = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let even = _mm512_add_epi32(_mm512_slli_epi32::<2>(pair), _mm512_set1_epi32(1));
    let odd = _mm512_slli_epi32::<16>(_mm512_add_epi32(even, _mm512_set1_epi32(2)));
    _mm512_permutex2var_epi16(rounded(low), _mm512_or_si512(even, odd), rounded(high))
}

/// The same in the upper halves of words. No closure for `map`: what the library's own function calls need not
/// be compiled for these instructions, and was a call for each of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn rounded(x: __m512) -> __m512i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let up = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7FFF));
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x40_0000))
}
