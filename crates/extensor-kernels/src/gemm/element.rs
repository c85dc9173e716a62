//! The number types of a product.

use super::blocked::Target;
use super::simd::{Portable, Simd};
use super::software;
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Avx512};
use super::{Dims, Matrix};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// A type whose matrices can be multiplied: `f32`, `f64`, `f16` or `bf16`.
pub trait Element: Copy + Send + Sync + 'static + private::Sealed {
    /// What products and sums are computed in: `f32` for the half-precision types, else `Self`.
    type Acc: Real;
    /// Whether `Acc` is `Self`.
    const WIDE: bool;
    /// The same number as an accumulator.
    fn widen(self) -> Self::Acc;
    /// The number nearest to an accumulator.
    fn narrow(acc: Self::Acc) -> Self;
    /// [`widen`](Self::widen) for slices of one length.
    fn widen_slice(from: &[Self], to: &mut [Self::Acc]);
    /// [`narrow`](Self::narrow) for slices of one length.
    fn narrow_slice(from: &[Self::Acc], to: &mut [Self]);
}

/// A type that sums are computed in: `f32` or `f64`.
pub trait Real: Element<Acc = Self> {
    /// Zero.
    const ZERO: Self;
    /// Vectors without any particular instructions.
    type Base: Simd<T = Self>;
    /// Vectors of x86-64-v3.
    #[cfg(target_arch = "x86_64")]
    type V3: Simd<T = Self>;
    /// Vectors of x86-64-v4.
    #[cfg(target_arch = "x86_64")]
    type V4: Simd<T = Self>;
    /// `self * b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// Likewise in four lanes, without an instruction for it where the architecture need not have one.
    fn mul_add_lanes(a: [Self; 4], b: [Self; 4], c: [Self; 4]) -> [Self; 4];
    /// `self + b`.
    fn plus(self, b: Self) -> Self;
}

mod private {
    use super::super::blocked::Target;
    use super::super::{Dims, Matrix};

    /// Keeps the set of types closed: scratch memory relies on every pattern of bits being valid.
    pub trait Sealed: Sized {
        /// Whether the type is `bf16`, which a [`Unit`](crate::isa::Unit) multiplies in pairs.
        const PAIRS: bool;

        /// [`product`](super::super::product), compiled in this crate rather than wherever a
        /// product is called.
        ///
        /// # Safety
        /// That of `product`.
        unsafe fn product(
            dims: Dims,
            a: Matrix<Self>,
            b: Matrix<Self>,
            accumulate: bool,
            c: Target<Self>,
        );
    }
}

macro_rules! sealed {
    ($t:ident, $pairs:literal) => {
        impl private::Sealed for $t {
            const PAIRS: bool = $pairs;

            unsafe fn product(
                dims: Dims,
                a: Matrix<$t>,
                b: Matrix<$t>,
                accumulate: bool,
                c: Target<$t>,
            ) {
                // SAFETY: the caller's promise.
                unsafe { super::product(dims, a, b, accumulate, c) }
            }
        }
    };
}

macro_rules! real {
    ($t:ident, $lanes:ident) => {
        sealed!($t, false);

        impl Element for $t {
            type Acc = $t;
            const WIDE: bool = true;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(acc: $t) -> $t {
                acc
            }
            fn widen_slice(from: &[$t], to: &mut [$t]) {
                to.copy_from_slice(from);
            }
            fn narrow_slice(from: &[$t], to: &mut [$t]) {
                to.copy_from_slice(from);
            }
        }

        impl Real for $t {
            const ZERO: $t = 0.0;
            type Base = Portable<$t>;
            #[cfg(target_arch = "x86_64")]
            type V3 = Avx2<$t>;
            #[cfg(target_arch = "x86_64")]
            type V4 = Avx512<$t>;
            #[inline(always)]
            fn mul_add(self, b: $t, c: $t) -> $t {
                $t::mul_add(self, b, c)
            }
            #[inline(always)]
            fn mul_add_lanes(a: [$t; 4], b: [$t; 4], c: [$t; 4]) -> [$t; 4] {
                if cfg!(target_arch = "x86_64") {
                    return software::$lanes(a, b, c);
                }
                std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
            }
            #[inline(always)]
            fn plus(self, b: $t) -> $t {
                self + b
            }
        }
    };
}

macro_rules! narrow {
    ($t:ident, $pairs:literal) => {
        sealed!($t, $pairs);

        impl Element for $t {
            type Acc = f32;
            const WIDE: bool = false;
            fn widen(self) -> f32 {
                self.to_f32()
            }
            fn narrow(acc: f32) -> $t {
                $t::from_f32(acc)
            }
            fn widen_slice(from: &[$t], to: &mut [f32]) {
                from.convert_to_f32_slice(to);
            }
            fn narrow_slice(from: &[f32], to: &mut [$t]) {
                to.convert_from_f32_slice(from);
            }
        }
    };
}

real!(f32, singles);
real!(f64, doubles);
narrow!(f16, false);
narrow!(bf16, true);
