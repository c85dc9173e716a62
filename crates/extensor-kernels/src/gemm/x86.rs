//! [`Simd`] for AVX2 with FMA and for AVX-512.

use super::simd::{Simd, Work, run_v3, run_v4};
use std::arch::x86_64::*;

/// 256-bit registers, of which there are 16.
#[derive(Clone, Copy)]
pub struct Avx2<T>(T);

/// 512-bit registers, of which there are 32.
#[derive(Clone, Copy)]
pub struct Avx512<T>(T);

/// Implements [`Simd`] from the names of intrinsics; the three operations on masks and the
/// transposition, which differ in more than names, are passed in.
macro_rules! simd {
    (
        $name:ident, $run:ident, $t:ty, $v:ty, $mask:ty, $lanes:literal lanes, $rows:literal rows,
        $block:literal block, $zero:ident, $splat:ident, $load:ident, $store:ident, $fma:ident,
        $add:ident, $to_mask:ident, |$lp:ident, $lm:ident| $load_mask:expr,
        |$sp:ident, $sm:ident, $sv:ident| $store_mask:expr, $transpose:ident, $span:ident,
        |$gp:ident, $gs:ident, $gm:ident| $gather:expr, |$ha:ident, $hb:ident| $halve:expr
    ) => {
        // SAFETY: the lanes divide `VECTOR_LANES` and the rows are at most `MAX_ROWS`; the caller
        // of each function promises that the machine has the instruction set and that the
        // addresses are good for what the function's name says, which is all the intrinsics ask.
        unsafe impl Simd for $name<$t> {
            type T = $t;
            type V = $v;
            type Mask = $mask;
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;
            const BLOCK: usize = $block;

            #[inline(always)]
            unsafe fn call<W: Work<$t>>(work: W) {
                // SAFETY: as said at the head of the impl, here and below.
                unsafe { $run(work) }
            }
            #[inline(always)]
            unsafe fn zero() -> $v {
                // SAFETY: see above.
                unsafe { $zero() }
            }
            #[inline(always)]
            unsafe fn splat(x: $t) -> $v {
                // SAFETY: see above.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> $v {
                // SAFETY: see above.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut $t, v: $v) {
                // SAFETY: see above.
                unsafe { $store(to, v) }
            }
            #[inline(always)]
            unsafe fn mask(n: usize) -> $mask {
                // SAFETY: see above.
                unsafe { $to_mask(n) }
            }
            #[inline(always)]
            unsafe fn span(low: usize, high: usize) -> $mask {
                // SAFETY: see above.
                unsafe { $span(low, high) }
            }
            #[inline(always)]
            unsafe fn gather($gp: *const $t, $gs: i32, $gm: $mask) -> $v {
                // SAFETY: see above.
                unsafe { $gather }
            }
            #[inline(always)]
            unsafe fn halve($ha: $v, $hb: $v) -> $v {
                // SAFETY: see above.
                unsafe { $halve }
            }
            #[inline(always)]
            unsafe fn load_mask($lp: *const $t, $lm: $mask) -> $v {
                // SAFETY: see above.
                unsafe { $load_mask }
            }
            #[inline(always)]
            unsafe fn store_mask($sp: *mut $t, $sm: $mask, $sv: $v) {
                // SAFETY: see above.
                unsafe { $store_mask }
            }
            #[inline(always)]
            unsafe fn fma(a: $v, b: $v, c: $v) -> $v {
                // SAFETY: see above.
                unsafe { $fma(a, b, c) }
            }
            #[inline(always)]
            unsafe fn add(a: $v, b: $v) -> $v {
                // SAFETY: see above.
                unsafe { $add(a, b) }
            }
            #[inline(always)]
            unsafe fn transpose(from: *const $t, from_step: isize, to: *mut $t, to_step: usize) {
                // SAFETY: see above.
                unsafe { $transpose(from, from_step, to, to_step) }
            }
            #[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written")]
            #[inline(always)]
            fn opaque(mut at: *const $t) -> *const $t {
                // SAFETY: no instruction at all.
                unsafe {
                    std::arch::asm!("/* {0} */", inout(reg) at, options(pure, nomem, nostack, preserves_flags));
                }
                at
            }
        }
    };
}

simd!(
    Avx512, run_v4, f32, __m512, __mmask16, 16 lanes, 9 rows, 16 block,
    _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps,
    _mm512_add_ps, mask_16_bits,
    |p, m| _mm512_maskz_loadu_ps(m, p), |p, m, v| _mm512_mask_storeu_ps(p, m, v), transpose_f32_16,
    span_16_bits,
    |p, s, m| _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), m, steps_16(s), p),
    |a, b| _mm512_permutex2var_ps(a, steps_16(2), b)
);
simd!(
    Avx512, run_v4, f64, __m512d, __mmask8, 8 lanes, 9 rows, 8 block,
    _mm512_setzero_pd, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd,
    _mm512_add_pd, mask_8_bits,
    |p, m| _mm512_maskz_loadu_pd(m, p), |p, m, v| _mm512_mask_storeu_pd(p, m, v), transpose_f64_8,
    span_8_bits,
    |p, s, m| _mm512_mask_i32gather_pd::<8>(_mm512_setzero_pd(), m, steps_8(s), p),
    |a, b| _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b)
);
simd!(
    Avx2, run_v3, f32, __m256, __m256i, 8 lanes, 4 rows, 8 block,
    _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps,
    _mm256_add_ps, mask_32,
    |p, m| _mm256_maskload_ps(p, m), |p, m, v| _mm256_maskstore_ps(p, m, v), transpose_f32, span_32,
    |p, s, m| _mm256_mask_i32gather_ps::<4>(
        _mm256_setzero_ps(), p, steps_8(s), _mm256_castsi256_ps(m)),
    |a, b| _mm256_castpd_ps(_mm256_permute4x64_pd::<0xD8>(
        _mm256_castps_pd(_mm256_shuffle_ps::<0x88>(a, b))))
);
simd!(
    Avx2, run_v3, f64, __m256d, __m256i, 4 lanes, 4 rows, 4 block,
    _mm256_setzero_pd, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd,
    _mm256_add_pd, mask_64,
    |p, m| _mm256_maskload_pd(p, m), |p, m, v| _mm256_maskstore_pd(p, m, v), transpose_f64, span_64,
    |p, s, m| _mm256_mask_i32gather_pd::<8>(
        _mm256_setzero_pd(), p, _mm256_castsi256_si128(steps_8(s)), _mm256_castsi256_pd(m)),
    |a, b| _mm256_permute4x64_pd::<0xD8>(_mm256_unpacklo_pd(a, b))
);

#[inline(always)]
unsafe fn mask_16_bits(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}

#[inline(always)]
unsafe fn mask_8_bits(n: usize) -> __mmask8 {
    ((1u32 << n) - 1) as __mmask8
}

#[inline(always)]
unsafe fn mask_32(n: usize) -> __m256i {
    // SAFETY: the caller's promise that the machine has AVX2.
    unsafe {
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane)
    }
}

#[inline(always)]
unsafe fn mask_64(n: usize) -> __m256i {
    // SAFETY: the caller's promise that the machine has AVX2.
    unsafe {
        let lane = _mm256_setr_epi64x(0, 1, 2, 3);
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), lane)
    }
}

#[inline(always)]
unsafe fn span_16_bits(low: usize, high: usize) -> __mmask16 {
    ((1u32 << high) - (1u32 << low)) as __mmask16
}

#[inline(always)]
unsafe fn span_8_bits(low: usize, high: usize) -> __mmask8 {
    ((1u32 << high) - (1u32 << low)) as __mmask8
}

#[inline(always)]
unsafe fn span_32(low: usize, high: usize) -> __m256i {
    // SAFETY: the caller's promise that the machine has AVX2.
    unsafe { _mm256_andnot_si256(mask_32(low), mask_32(high)) }
}

#[inline(always)]
unsafe fn span_64(low: usize, high: usize) -> __m256i {
    // SAFETY: the caller's promise that the machine has AVX2.
    unsafe { _mm256_andnot_si256(mask_64(low), mask_64(high)) }
}

/// Multiples of a step, from 0 on.
#[inline(always)]
unsafe fn steps_16(step: i32) -> __m512i {
    // SAFETY: the caller's promise that the machine has AVX-512.
    unsafe {
        let lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        _mm512_mullo_epi32(lane, _mm512_set1_epi32(step))
    }
}

/// Multiples of a step, from 0 on.
#[inline(always)]
unsafe fn steps_8(step: i32) -> __m256i {
    // SAFETY: the caller's promise that the machine has AVX2.
    unsafe {
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_mullo_epi32(lane, _mm256_set1_epi32(step))
    }
}

/// Turns a square of 8 by 8: rows are read as halves that already stand where they must, so that
/// only two rounds of shuffles are left.
#[inline(always)]
unsafe fn transpose_f32(from: *const f32, from_step: isize, to: *mut f32, to_step: usize) {
    // SAFETY: the caller promises AVX and that both squares are in bounds.
    unsafe {
        for half in 0..2 {
            let mut rows = [_mm256_setzero_ps(); 4];
            for (i, row) in rows.iter_mut().enumerate() {
                let low = from.offset(i as isize * from_step).add(4 * half);
                let high = from.offset((i as isize + 4) * from_step).add(4 * half);
                let low = _mm256_castps128_ps256(_mm_loadu_ps(low));
                *row = _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(high));
            }
            let [r0, r1, r2, r3] = rows;
            let (a, b) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
            let (c, d) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
            let to = to.add(4 * half * to_step);
            _mm256_storeu_ps(to, _mm256_shuffle_ps::<0x44>(a, c));
            _mm256_storeu_ps(to.add(to_step), _mm256_shuffle_ps::<0xEE>(a, c));
            _mm256_storeu_ps(to.add(2 * to_step), _mm256_shuffle_ps::<0x44>(b, d));
            _mm256_storeu_ps(to.add(3 * to_step), _mm256_shuffle_ps::<0xEE>(b, d));
        }
    }
}

/// Turns a square of 4 by 4, in the manner of [`transpose_f32`].
#[inline(always)]
unsafe fn transpose_f64(from: *const f64, from_step: isize, to: *mut f64, to_step: usize) {
    // SAFETY: the caller promises AVX and that both squares are in bounds.
    unsafe {
        for half in 0..2 {
            let mut rows = [_mm256_setzero_pd(); 2];
            for (i, row) in rows.iter_mut().enumerate() {
                let low = from.offset(i as isize * from_step).add(2 * half);
                let high = from.offset((i as isize + 2) * from_step).add(2 * half);
                let low = _mm256_castpd128_pd256(_mm_loadu_pd(low));
                *row = _mm256_insertf128_pd::<1>(low, _mm_loadu_pd(high));
            }
            let to = to.add(2 * half * to_step);
            _mm256_storeu_pd(to, _mm256_unpacklo_pd(rows[0], rows[1]));
            _mm256_storeu_pd(to.add(to_step), _mm256_unpackhi_pd(rows[0], rows[1]));
        }
    }
}

/// Turns a square of 16 by 16, in the manner of [`transpose_f32`].
#[inline(always)]
unsafe fn transpose_f32_16(from: *const f32, from_step: isize, to: *mut f32, to_step: usize) {
    // SAFETY: the caller promises AVX-512 and that both squares are in bounds.
    unsafe {
        for quarter in 0..4 {
            let mut rows = [_mm512_setzero_ps(); 4];
            for (i, row) in rows.iter_mut().enumerate() {
                let part = |group: isize| {
                    let at = from.offset((i as isize + 4 * group) * from_step);
                    _mm_loadu_ps(at.add(4 * quarter))
                };
                let x = _mm512_castps128_ps512(part(0));
                let x = _mm512_insertf32x4::<1>(x, part(1));
                let x = _mm512_insertf32x4::<2>(x, part(2));
                *row = _mm512_insertf32x4::<3>(x, part(3));
            }
            let [r0, r1, r2, r3] = rows;
            let (a, b) = (_mm512_unpacklo_ps(r0, r1), _mm512_unpackhi_ps(r0, r1));
            let (c, d) = (_mm512_unpacklo_ps(r2, r3), _mm512_unpackhi_ps(r2, r3));
            let to = to.add(4 * quarter * to_step);
            _mm512_storeu_ps(to, _mm512_shuffle_ps::<0x44>(a, c));
            _mm512_storeu_ps(to.add(to_step), _mm512_shuffle_ps::<0xEE>(a, c));
            _mm512_storeu_ps(to.add(2 * to_step), _mm512_shuffle_ps::<0x44>(b, d));
            _mm512_storeu_ps(to.add(3 * to_step), _mm512_shuffle_ps::<0xEE>(b, d));
        }
    }
}

/// Turns a square of 8 by 8, in the manner of [`transpose_f32`].
#[inline(always)]
unsafe fn transpose_f64_8(from: *const f64, from_step: isize, to: *mut f64, to_step: usize) {
    // SAFETY: the caller promises AVX-512 and that both squares are in bounds.
    unsafe {
        for quarter in 0..4 {
            let mut rows = [_mm512_setzero_pd(); 2];
            for (i, row) in rows.iter_mut().enumerate() {
                let part = |group: isize| {
                    let at = from.offset((i as isize + 2 * group) * from_step);
                    _mm_loadu_pd(at.add(2 * quarter))
                };
                let x = _mm512_castpd128_pd512(part(0));
                let x = _mm512_insertf64x2::<1>(x, part(1));
                let x = _mm512_insertf64x2::<2>(x, part(2));
                *row = _mm512_insertf64x2::<3>(x, part(3));
            }
            let to = to.add(2 * quarter * to_step);
            _mm512_storeu_pd(to, _mm512_unpacklo_pd(rows[0], rows[1]));
            _mm512_storeu_pd(to.add(to_step), _mm512_unpackhi_pd(rows[0], rows[1]));
        }
    }
}
