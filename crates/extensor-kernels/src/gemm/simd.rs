//! The few vector operations a matrix product is made of, and the machines that have them.
//!
//! [`Simd`] is implemented once for each pair of instruction set and number type; everything above
//! it is generic. Work generic over `Simd` is entered through [`dispatch`], which enables the
//! instructions for all that is inlined into it.

use super::Real;
use crate::isa::{Isa, isa};

/// Vectors of `T` in the registers of one instruction set.
///
/// # Safety
/// `LANES` must divide [`VECTOR_LANES`](super::VECTOR_LANES) and `ROWS` be at most
/// [`MAX_ROWS`](super::tile::MAX_ROWS). The functions may be called only on a machine that has the
/// instruction set, and must be `#[inline(always)]` like all that calls them: an intrinsic outside
/// the copy that enables it is a function call.
pub unsafe trait Simd: Copy + 'static {
    /// The number type.
    type T: Real;
    /// A register.
    type V: Copy;
    /// Which of a register's first lanes to touch.
    type Mask: Copy;
    /// Numbers in a register.
    const LANES: usize;
    /// Rows of the largest register tile, which is three registers wide: as many accumulators as
    /// there are registers, less those that hold the operands.
    const ROWS: usize;
    /// The side of the square that [`transpose`](Self::transpose) takes.
    const BLOCK: usize;

    /// Runs `work` with these vectors as a function of its own, not inlined into the caller: the
    /// compiler is slow on one function with all tiles in it.
    unsafe fn call<W: Work<Self::T>>(work: W);
    /// All zeros.
    unsafe fn zero() -> Self::V;
    /// `x` in every lane.
    unsafe fn splat(x: Self::T) -> Self::V;
    /// Reads a register from any address.
    unsafe fn load(from: *const Self::T) -> Self::V;
    /// Writes a register to any address.
    unsafe fn store(to: *mut Self::T, v: Self::V);
    /// Selects the first `n <= LANES` lanes.
    unsafe fn mask(n: usize) -> Self::Mask;
    /// Selects the lanes from `low` up to, not including, `high <= LANES`.
    unsafe fn span(low: usize, high: usize) -> Self::Mask;
    /// Reads the selected lanes only, lane `i` from `from[i * step]`; the others are zero.
    unsafe fn gather(from: *const Self::T, step: i32, mask: Self::Mask) -> Self::V;
    /// Every second lane of `a` and then of `b`, from the first on.
    unsafe fn halve(a: Self::V, b: Self::V) -> Self::V;
    /// Reads the selected lanes only; the others are zero.
    unsafe fn load_mask(from: *const Self::T, mask: Self::Mask) -> Self::V;
    /// Writes the selected lanes only.
    unsafe fn store_mask(to: *mut Self::T, mask: Self::Mask, v: Self::V);
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a + b`.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `to[j * to_step + i] = from[i * from_step + j]` for `i` and `j` below `BLOCK`.
    unsafe fn transpose(from: *const Self::T, from_step: isize, to: *mut Self::T, to_step: usize);
    /// The same address, of which the compiler does not know how it came about: it keeps it in a
    /// register rather than computing it from others again and again.
    #[inline(always)]
    fn opaque(at: *const Self::T) -> *const Self::T {
        at
    }
}

/// Work written once for every [`Simd`].
pub trait Work<R: Real> {
    /// Does the work; must be `#[inline(always)]`.
    fn run<S: Simd<T = R>>(self);
}

/// Runs `work` with the vectors of the instruction set in use.
#[inline]
pub(crate) fn dispatch<R: Real>(work: impl Work<R>) {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` returns V4 only where every feature that `run_v4` enables was detected.
        Isa::V4 => unsafe { run_v4(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: likewise for V3 and `run_v3`.
        Isa::V3 => unsafe { run_v3(work) },
        _ => work.run::<R::Base>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
pub(super) fn run_v4<R: Real>(work: impl Work<R>) {
    work.run::<R::V4>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
pub(super) fn run_v3<R: Real>(work: impl Work<R>) {
    work.run::<R::V3>()
}

/// Rows of the register tile of the instruction set in use.
pub(super) fn tile_rows<R: Real>() -> usize {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::V4 => R::V4::ROWS,
        #[cfg(target_arch = "x86_64")]
        Isa::V3 => R::V3::ROWS,
        _ => R::Base::ROWS,
    }
}

/// Numbers in a register of the instruction set in use.
pub(crate) fn lanes<R: Real>() -> usize {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::V4 => R::V4::LANES,
        #[cfg(target_arch = "x86_64")]
        Isa::V3 => R::V3::LANES,
        _ => R::Base::LANES,
    }
}

/// Asks for the cache line at `at`, which may be any address, to be brought near.
#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is in every x86-64 processor and faults at no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// As [`prefetch`], but no nearer than the second-level cache.
#[inline(always)]
pub(super) fn prefetch_far<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Vectors as arrays, for the compiler to put in whatever registers the machine has.
#[derive(Clone, Copy)]
pub struct Portable<T>(T);

// SAFETY: 4 divides `VECTOR_LANES`, 4 rows are at most `MAX_ROWS`, and no instruction is assumed.
unsafe impl<R: Real> Simd for Portable<R> {
    type T = R;
    type V = [R; 4];
    type Mask = (usize, usize);
    const LANES: usize = 4;
    const ROWS: usize = 4;
    const BLOCK: usize = 4;

    #[inline(never)]
    unsafe fn call<W: Work<R>>(work: W) {
        work.run::<Self>();
    }
    #[inline(always)]
    unsafe fn zero() -> [R; 4] {
        [R::ZERO; 4]
    }
    #[inline(always)]
    unsafe fn splat(x: R) -> [R; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(from: *const R) -> [R; 4] {
        // SAFETY: the caller's promise that four numbers can be read.
        unsafe { from.cast::<[R; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut R, v: [R; 4]) {
        // SAFETY: the caller's promise that four numbers can be written.
        unsafe { to.cast::<[R; 4]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn mask(n: usize) -> (usize, usize) {
        (0, n)
    }
    #[inline(always)]
    unsafe fn span(low: usize, high: usize) -> (usize, usize) {
        (low, high)
    }
    #[inline(always)]
    unsafe fn gather(from: *const R, step: i32, (low, high): (usize, usize)) -> [R; 4] {
        let mut v = [R::ZERO; 4];
        for (i, x) in v.iter_mut().enumerate().take(high).skip(low) {
            // SAFETY: the caller's promise that the selected numbers can be read.
            *x = unsafe { *from.wrapping_offset(i as isize * step as isize) };
        }
        v
    }
    #[inline(always)]
    unsafe fn halve(a: [R; 4], b: [R; 4]) -> [R; 4] {
        [a[0], a[2], b[0], b[2]]
    }
    #[inline(always)]
    unsafe fn load_mask(from: *const R, (low, high): (usize, usize)) -> [R; 4] {
        let mut v = [R::ZERO; 4];
        for (i, x) in v.iter_mut().enumerate().take(high).skip(low) {
            // SAFETY: the caller's promise that the selected numbers can be read.
            *x = unsafe { *from.wrapping_add(i) };
        }
        v
    }
    #[inline(always)]
    unsafe fn store_mask(to: *mut R, (low, high): (usize, usize), v: [R; 4]) {
        for (i, &x) in v.iter().enumerate().take(high).skip(low) {
            // SAFETY: the caller's promise that the selected numbers can be written.
            unsafe { *to.add(i) = x };
        }
    }
    #[inline(always)]
    unsafe fn fma(a: [R; 4], b: [R; 4], c: [R; 4]) -> [R; 4] {
        R::mul_add_lanes(a, b, c)
    }
    #[inline(always)]
    unsafe fn add(a: [R; 4], b: [R; 4]) -> [R; 4] {
        std::array::from_fn(|i| a[i].plus(b[i]))
    }
    #[inline(always)]
    unsafe fn transpose(from: *const R, from_step: isize, to: *mut R, to_step: usize) {
        for i in 0..4 {
            for j in 0..4 {
                // SAFETY: the caller's promise that both squares are in bounds.
                unsafe { *to.add(j * to_step + i) = *from.offset(i as isize * from_step).add(j) };
            }
        }
    }
}
