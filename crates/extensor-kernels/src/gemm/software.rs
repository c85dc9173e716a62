//! Fused multiply-add on processors that have no instruction for it, four lanes at a time.
//!
//! A call of the C library's function for every number makes products a hundred times slower than
//! the instruction does. These are plain arithmetic, without branches, for the compiler to
//! vectorise, and give the instruction's bits: what the rounding of a sum loses is found exactly, and
//! kept in its last bit (which is odd then), so that rounding once more cannot go the wrong way.

/// `a + b`, and what its rounding lost, exactly.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// `a + b` rounded to the neighbour whose last bit is 1, where it is not exact.
#[inline(always)]
fn odd_sum(a: f64, b: f64) -> f64 {
    let (sum, lost) = two_sum(a, b);
    let bits = sum.to_bits();
    // Away from 0 if what was lost points there. An infinite sum has lost nothing that counts.
    let away = (lost > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let inexact = lost != 0.0 && bits & 1 == 0 && sum.is_finite();
    f64::from_bits(if inexact { odd } else { bits })
}

/// `a·b + c` in each lane, rounded once.
#[inline(always)]
pub(super) fn singles(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
    #[cfg(target_arch = "x86_64")]
    if let Some(usual) = usual_singles(a, b, c) {
        return usual;
    }
    // The product of two f32 is exact in f64.
    std::array::from_fn(|i| odd_sum(f64::from(a[i]) * f64::from(b[i]), f64::from(c[i])) as f32)
}

/// [`singles`] where rounding the sum to `f64` first makes no difference: it does only if that is
/// exactly half way between two `f32`, or too small for all their digits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn usual_singles(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> Option<[f32; 4]> {
    use std::arch::x86_64::*;
    // SAFETY: four f32 are what a register of four f32 is made of, either way; every x86-64
    // processor has the instructions.
    unsafe {
        let [a, b, c] = [a, b, c].map(|v| std::mem::transmute::<[f32; 4], __m128>(v));
        let upper = |v: __m128| _mm_cvtps_pd(_mm_movehl_ps(v, v));
        let low = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_cvtps_pd(c));
        let high = _mm_add_pd(_mm_mul_pd(upper(a), upper(b)), upper(c));
        let rounded = _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
        // The digits that an f32 does not have are in the lower words: half is 1000….
        let words = _mm_shuffle_ps::<0b10_00_10_00>(_mm_castpd_ps(low), _mm_castpd_ps(high));
        let digits = _mm_and_si128(_mm_castps_si128(words), _mm_set1_epi32(0x1FFF_FFFF));
        let half = _mm_castsi128_ps(_mm_cmpeq_epi32(digits, _mm_set1_epi32(0x1000_0000)));
        let size = _mm_andnot_ps(_mm_set1_ps(-0.0), rounded);
        let tiny = _mm_cmple_ps(size, _mm_set1_ps(f32::MIN_POSITIVE));
        // Nothing plus nothing is not tiny.
        let zero = _mm_shuffle_ps::<0b10_00_10_00>(
            _mm_castpd_ps(_mm_cmpeq_pd(low, _mm_setzero_pd())),
            _mm_castpd_ps(_mm_cmpeq_pd(high, _mm_setzero_pd())),
        );
        let doubtful = _mm_or_ps(half, _mm_andnot_ps(zero, tiny));
        let rounded = std::mem::transmute::<__m128, [f32; 4]>(rounded);
        (_mm_movemask_ps(doubtful) == 0).then_some(rounded)
    }
}

/// The upper half of the digits of `x`, and the lower half.
#[inline(always)]
fn halves(x: f64) -> (f64, f64) {
    let scaled = x * 134_217_729.0; // 2²⁷ + 1
    let upper = scaled - (scaled - x);
    (upper, x - upper)
}

/// Likewise; numbers so large or small that a step would leave the range take the C library's way.
#[inline(always)]
pub(super) fn doubles(a: [f64; 4], b: [f64; 4], c: [f64; 4]) -> [f64; 4] {
    const LARGE: f64 = 1e270;
    const SMALL: f64 = 1e-250;
    let mut usual = true;
    let mut result = [0.0; 4];
    for i in 0..4 {
        let (a, b, c) = (a[i], b[i], c[i]);
        let product = a * b;
        let none = a == 0.0 || b == 0.0;
        let size = product.abs();
        let within = a.abs() < LARGE && b.abs() < LARGE && c.abs() < LARGE && size < LARGE;
        usual &= within && (none || size > SMALL);
        let ((a1, a2), (b1, b2)) = (halves(a), halves(b));
        let lost = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2;
        let (high, low) = two_sum(c, lost);
        let (sum, rest) = two_sum(product, high);
        let fused = sum + odd_sum(low, rest);
        // With their signs, zeros add up as they are.
        result[i] = if none { product + c } else { fused };
    }
    if usual { result } else { std::array::from_fn(|i| a[i].mul_add(b[i], c[i])) }
}

#[cfg(test)]
mod tests {
    use super::{doubles, singles};

    /// Numbers of all sizes, halves and neighbours of halves among them.
    fn numbers() -> impl Iterator<Item = u64> {
        let mut state = 1u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state ^ (state >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        })
    }

    #[test]
    fn fused_multiply_add_in_software_has_the_bits_of_the_c_library() {
        let mut drawn = numbers();
        let mut next = || drawn.next().unwrap();
        let awkward = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NAN, 1e-300, 5e-324, 1e300, 1.5];
        for round in 0..400_000 {
            // Few digits and exponents near each other, so that ties and cancellation occur.
            let mut draw = || {
                let bits = next();
                if round % 16 == 0 && bits & 7 == 0 {
                    return awkward[(bits >> 8) as usize % awkward.len()];
                }
                let exponent = if round % 3 == 0 { bits & 2047 } else { 1000 + (bits & 63) };
                let keep = [u64::MAX, !0xFFFF_FFFF, !0xFF_FFFF_FFFF][round % 3];
                let digits = (bits >> 12) & keep & ((1 << 52) - 1);
                f64::from_bits((bits & (1 << 63)) | (exponent << 52) | digits)
            };
            let [a, b, c]: [[f64; 4]; 3] = std::array::from_fn(|_| std::array::from_fn(|_| draw()));
            let want: [f64; 4] = std::array::from_fn(|i| a[i].mul_add(b[i], c[i]));
            let got = doubles(a, b, c);
            for i in 0..4 {
                let same = got[i].to_bits() == want[i].to_bits();
                assert!(same || got[i].is_nan() && want[i].is_nan(), "{a:?} {b:?} {c:?}: {got:?}");
            }
            let [a, b, c] = [a, b, c].map(|v| v.map(|x| x as f32));
            let want: [f32; 4] = std::array::from_fn(|i| a[i].mul_add(b[i], c[i]));
            let got = singles(a, b, c);
            for i in 0..4 {
                let same = got[i].to_bits() == want[i].to_bits();
                assert!(same || got[i].is_nan() && want[i].is_nan(), "{a:?} {b:?} {c:?}: {got:?}");
            }
        }
    }
}
