//! Products of tiles by dot products of pairs, AVX512-BF16.

use super::{LANES, Multiply, TILE};
use std::arch::x86_64::*;

/// Rows whose sums are in registers at a time; divides the lanes of a group.
const ROWS: usize = 8;

/// Stands for the instructions.
pub(super) struct Dots(());

impl Dots {
    /// # Safety
    /// The machine must have [`Unit::Bf16`](crate::isa::Unit::Bf16).
    pub(super) unsafe fn new() -> Dots {
        Dots(())
    }
}

impl Multiply for Dots {
    #[inline(always)]
    unsafe fn multiply(
        &self,
        (a, a_step, a_groups): (*const u32, usize, usize),
        (b, b_step, b_groups): (*const u32, usize, usize),
        depth: usize,
        add: bool,
        sums: *mut f32,
    ) {
        for group in 0..a_groups {
            for half in 0..LANES / ROWS {
                // SAFETY: the caller's promise, and that of `new`.
                unsafe {
                    let a = a.add(group * a_step + half * ROWS * LANES);
                    let sums = sums.add(2 * group * TILE + half * ROWS * LANES);
                    if b_groups == 1 {
                        rows::<1>(a, b, b_step, depth, add, sums);
                    } else {
                        rows::<2>(a, b, b_step, depth, add, sums);
                    }
                }
            }
        }
    }
}

/// The products of some rows of a group and `N` groups of columns.
///
/// # Safety
/// That of [`Multiply::multiply`].
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows<const N: usize>(
    a: *const u32,
    b: *const u32,
    b_step: usize,
    depth: usize,
    add: bool,
    to: *mut f32,
) {
    let mut sums = [[_mm512_setzero_ps(); N]; ROWS];
    if add {
        for (row, sums) in sums.iter_mut().enumerate() {
            for (group, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a row of the product of two groups.
                *sum = unsafe { _mm512_loadu_ps(to.add(group * TILE + row * LANES)) };
            }
        }
    }
    for tile in 0..depth {
        for pair in 0..LANES {
            // SAFETY: pairs of tile number `tile` of each group.
            let (a, b) = unsafe { (a.add(tile * TILE + pair), b.add(tile * TILE + pair * LANES)) };
            let mut columns = [_mm512_setzero_si512(); N];
            for (group, columns) in columns.iter_mut().enumerate() {
                // SAFETY: likewise.
                *columns = unsafe { _mm512_loadu_si512(b.add(group * b_step).cast()) };
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: likewise.
                let row = _mm512_set1_epi32(unsafe { *a.add(row * LANES) }.cast_signed());
                for (sum, &columns) in sums.iter_mut().zip(&columns) {
                    *sum = _mm512_dpbf16_ps(*sum, bf16(row), bf16(columns));
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        for (group, &sum) in sums.iter().enumerate() {
            // SAFETY: a row of the product of two groups.
            unsafe { _mm512_storeu_ps(to.add(group * TILE + row * LANES), sum) };
        }
    }
}

/// The same bits as pairs of numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn bf16(pairs: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits, any of which are good.
    unsafe { std::mem::transmute(pairs) }
}
