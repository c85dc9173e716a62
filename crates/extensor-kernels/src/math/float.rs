//! What the elementary functions need to know of a floating-point type.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `f32` or `f64`, with its bits as an integer of the same width.
///
/// Every method compiles to a few instructions without a branch, so a loop over code made of them
/// vectorises.
pub trait Float:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// A signed integer of the same width: `i32` or `i64`.
    type Int: Copy
        + PartialOrd
        + Add<Output = Self::Int>
        + Sub<Output = Self::Int>
        + std::ops::BitAnd<Output = Self::Int>
        + std::ops::BitOr<Output = Self::Int>
        + std::ops::BitXor<Output = Self::Int>
        + std::ops::Shl<u32, Output = Self::Int>
        + std::ops::Shr<u32, Output = Self::Int>;
    /// Bits of the stored mantissa: 23 or 52.
    const MANTISSA: u32;
    /// The exponent's bias: 127 or 1023.
    const BIAS: i32;
    /// Not a number.
    const NAN: Self;
    /// Infinity.
    const INFINITY: Self;
    /// The smallest positive normal number.
    const MIN_POSITIVE: Self;
    /// The constant nearest to `x`.
    fn lit(x: f64) -> Self;
    /// The small integer nearest to `x`.
    fn int(x: i64) -> Self::Int;
    /// The bits.
    fn bits(self) -> Self::Int;
    /// The number with these bits.
    fn from_bits(bits: Self::Int) -> Self;
    /// `a + b`, or what is left of it in the type's bits: no check stops a loop from vectorising.
    fn add_bits(a: Self::Int, b: Self::Int) -> Self::Int;
    /// `a - b`, likewise.
    fn sub_bits(a: Self::Int, b: Self::Int) -> Self::Int;
    /// `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// `|self|`.
    fn abs(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// The nearest integer, ties to even.
    fn round(self) -> Self;
    /// The integer at or below.
    fn floor(self) -> Self;
    /// The integer at or above.
    fn ceil(self) -> Self;
    /// The integer part.
    fn trunc(self) -> Self;
    /// To `f64`, exactly.
    fn to_f64(self) -> f64;
    /// `if condition { a } else { b }` with both evaluated.
    #[inline(always)]
    fn select(condition: bool, a: Self, b: Self) -> Self {
        if condition { a } else { b }
    }
}

macro_rules! float {
    ($float:ident, $int:ident, $uint:ident, $mantissa:literal, $bias:literal) => {
        impl Float for $float {
            type Int = $int;
            const MANTISSA: u32 = $mantissa;
            const BIAS: i32 = $bias;
            const NAN: Self = $float::NAN;
            const INFINITY: Self = $float::INFINITY;
            const MIN_POSITIVE: Self = $float::MIN_POSITIVE;
            #[inline(always)]
            fn lit(x: f64) -> Self {
                x as $float
            }
            #[inline(always)]
            fn int(x: i64) -> $int {
                x as $int
            }
            #[inline(always)]
            fn bits(self) -> $int {
                self.to_bits() as $int
            }
            #[inline(always)]
            fn from_bits(bits: $int) -> Self {
                $float::from_bits(bits as $uint)
            }
            #[inline(always)]
            fn add_bits(a: $int, b: $int) -> $int {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn sub_bits(a: $int, b: $int) -> $int {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $float::abs(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $float::sqrt(self)
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                $float::copysign(self, sign)
            }
            #[inline(always)]
            fn round(self) -> Self {
                self.round_ties_even()
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $float::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $float::ceil(self)
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                $float::trunc(self)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    };
}

float!(f32, i32, u32, 23, 127);
float!(f64, i64, u64, 52, 1023);
