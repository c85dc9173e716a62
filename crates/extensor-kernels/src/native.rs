//! The types whose values can lie in a buffer.

use half::{bf16, f16};
use std::num::Wrapping;

mod sealed {
    pub trait Sealed {}
}

/// A number type of which every bit pattern is a value and which has no padding.
///
/// # Safety
/// That sentence, and that the type is `Copy`: buffers are reinterpreted as slices of it.
pub unsafe trait Native: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The value whose bytes are all zero.
    const ZERO: Self;
}

macro_rules! native {
    ($($t:ty = $zero:expr),*) => {$(
        impl sealed::Sealed for $t {}
        // SAFETY: plain numbers: no padding, no invalid bit pattern.
        unsafe impl Native for $t {
            const ZERO: Self = $zero;
        }
    )*};
}

native!(f16 = f16::ZERO, bf16 = bf16::ZERO, f32 = 0.0, f64 = 0.0);
native!(i8 = 0, i16 = 0, i32 = 0, i64 = 0, u8 = 0, u16 = 0, u32 = 0, u64 = 0);
native!(
    Wrapping<i8> = Wrapping(0),
    Wrapping<i16> = Wrapping(0),
    Wrapping<i32> = Wrapping(0),
    Wrapping<i64> = Wrapping(0),
    Wrapping<u8> = Wrapping(0),
    Wrapping<u16> = Wrapping(0),
    Wrapping<u32> = Wrapping(0),
    Wrapping<u64> = Wrapping(0)
);

native!(crate::cast::Truth = crate::cast::Truth::FALSE);

/// Memory as numbers.
///
/// # Panics
/// If it does not lie where such numbers may.
#[inline]
pub fn numbers<T: Native>(bytes: &[u8]) -> &[T] {
    if bytes.is_empty() {
        return &[];
    }
    expect_aligned::<T>(bytes);
    // SAFETY: aligned (checked), as long as the slice, and every bit pattern is a T (`Native`).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// Memory as numbers to be changed.
///
/// # Panics
/// As [`numbers`] does.
#[inline]
pub fn numbers_mut<T: Native>(bytes: &mut [u8]) -> &mut [T] {
    if bytes.is_empty() {
        return &mut [];
    }
    expect_aligned::<T>(bytes);
    // SAFETY: as in `numbers`; whatever is written is bytes, since a T has no padding (`Native`).
    unsafe {
        std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>())
    }
}

#[inline]
fn expect_aligned<T>(bytes: &[u8]) {
    assert!(
        bytes.as_ptr().addr().is_multiple_of(align_of::<T>()),
        "memory is not aligned for its element type"
    );
}

/// A storage type and the type it is computed in: reduced precisions are widened to `f32` and
/// rounded once at the end, every other type is computed in itself.
pub trait Compute: Native {
    /// The type of the arithmetic.
    type Wide: Native;
    /// The values as they are, where the two types are one.
    fn as_wide(values: &[Self]) -> Option<&[Self::Wide]>;
    /// Likewise for writing.
    fn as_wide_mut(values: &mut [Self]) -> Option<&mut [Self::Wide]>;
    /// Widens a slice into another of the same length.
    fn widen(from: &[Self], to: &mut [Self::Wide]);
    /// Rounds a slice into another of the same length.
    fn narrow(from: &[Self::Wide], to: &mut [Self]);
    /// Widens one value.
    fn wide(self) -> Self::Wide;
    /// Rounds one value.
    fn from_wide(wide: Self::Wide) -> Self;
}

macro_rules! itself {
    ($($t:ty),*) => {$(
        impl Compute for $t {
            type Wide = $t;
            #[inline(always)]
            fn as_wide(values: &[Self]) -> Option<&[Self]> {
                Some(values)
            }
            #[inline(always)]
            fn as_wide_mut(values: &mut [Self]) -> Option<&mut [Self]> {
                Some(values)
            }
            fn widen(from: &[Self], to: &mut [Self]) {
                to.copy_from_slice(from);
            }
            fn narrow(from: &[Self], to: &mut [Self]) {
                to.copy_from_slice(from);
            }
            #[inline(always)]
            fn wide(self) -> Self {
                self
            }
            #[inline(always)]
            fn from_wide(wide: Self) -> Self {
                wide
            }
        }
    )*};
}

itself!(f32, f64, u8);
itself!(Wrapping<i8>, Wrapping<i16>, Wrapping<i32>, Wrapping<i64>);
itself!(Wrapping<u8>, Wrapping<u16>, Wrapping<u32>, Wrapping<u64>);

macro_rules! reduced {
    ($($t:ty),*) => {$(
        impl Compute for $t {
            type Wide = f32;
            #[inline(always)]
            fn as_wide(_: &[Self]) -> Option<&[f32]> {
                None
            }
            #[inline(always)]
            fn as_wide_mut(_: &mut [Self]) -> Option<&mut [f32]> {
                None
            }
            fn widen(from: &[Self], to: &mut [f32]) {
                crate::reduced::widen(from, to);
            }
            fn narrow(from: &[f32], to: &mut [Self]) {
                crate::reduced::narrow(from, to);
            }
            #[inline(always)]
            fn wide(self) -> f32 {
                crate::reduced::Reduced::widened(self)
            }
            #[inline(always)]
            fn from_wide(wide: f32) -> Self {
                crate::reduced::Reduced::narrowed(wide)
            }
        }
    )*};
}

reduced!(f16, bf16);
