//! `f16` and `bf16` to `f32` and back, without branches, so that the loops vectorise on any machine.

use crate::isa::{Kernel, dispatch};
use half::{bf16, f16};

/// A 16-bit float.
pub trait Reduced: Copy {
    /// The same number in `f32`.
    fn widened(self) -> f32;
    /// The nearest, ties to even; too large is infinite.
    fn narrowed(x: f32) -> Self;
}

impl Reduced for bf16 {
    #[inline(always)]
    fn widened(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn narrowed(x: f32) -> bf16 {
        let bits = x.to_bits();
        // Half a unit, less one bit unless the last bit kept is odd: ties go to even.
        let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        bf16::from_bits(if x.is_nan() { quiet } else { rounded } as u16)
    }
}

impl Reduced for f16 {
    #[inline(always)]
    fn widened(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let (sign, magnitude) = ((bits & 0x8000) << 16, (bits & 0x7FFF) << 13);
        // With its exponent read as that of an f32 the number is too small by 2^112; multiplying is
        // exact, for subnormal numbers too.
        const SCALE: f32 = f32::from_bits((127 + 112) << 23);
        let scaled = (f32::from_bits(magnitude) * SCALE).to_bits();
        let special = magnitude | 0x7F80_0000;
        let finite = magnitude < 0x7C00 << 13;
        f32::from_bits(sign | if finite { scaled } else { special })
    }

    #[inline(always)]
    fn narrowed(x: f32) -> f16 {
        let sign = x.to_bits() & 0x8000_0000;
        let bits = x.to_bits() ^ sign;
        // Normal: rebias the exponent and round to the bits kept, ties to even.
        let odd = (bits >> 13) & 1;
        let normal =
            bits.wrapping_add(0u32.wrapping_sub(112 << 23)).wrapping_add(0xFFF + odd) >> 13;
        // Subnormal: adding 1/2 puts the last bit of the result at the last bit of the sum.
        const HALF: f32 = 0.5;
        let small = (f32::from_bits(bits) + HALF).to_bits().wrapping_sub(HALF.to_bits());
        let special = 0x7C00 | if bits > 0x7F80_0000 { 0x200 | ((bits >> 13) & 0x3FF) } else { 0 };
        let finite = if bits < 113 << 23 { small } else { normal };
        let magnitude = if bits >= 143 << 23 { special } else { finite };
        f16::from_bits((magnitude | sign >> 16) as u16)
    }
}

struct Widen<'a, T>(&'a [T], &'a mut [f32]);
struct Narrow<'a, T>(&'a [f32], &'a mut [T]);

impl<T: Reduced> Kernel for Widen<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (to, from) in self.1.iter_mut().zip(self.0) {
            *to = from.widened();
        }
    }
}

impl<T: Reduced> Kernel for Narrow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (to, from) in self.1.iter_mut().zip(self.0) {
            *to = T::narrowed(*from);
        }
    }
}

/// Widens `from` into `to`, which has the same length.
pub fn widen<T: Reduced>(from: &[T], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    dispatch(Widen(from, to));
}

/// Rounds `from` into `to`, which has the same length.
pub fn narrow<T: Reduced>(from: &[f32], to: &mut [T]) {
    assert_eq!(from.len(), to.len());
    dispatch(Narrow(from, to));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_16_bit_float_widens_exactly_and_narrows_to_itself() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert_eq!(h.widened().is_nan(), h.is_nan());
            assert_eq!(b.widened().is_nan(), b.is_nan());
            if h.is_nan() {
                assert!(f16::narrowed(h.widened()).is_nan());
            } else {
                assert_eq!(h.widened().to_bits(), h.to_f32().to_bits());
                assert_eq!(f16::narrowed(h.widened()).to_bits(), bits);
            }
            if b.is_nan() {
                assert!(bf16::narrowed(b.widened()).is_nan());
            } else {
                assert_eq!(b.widened().to_bits(), b.to_f32().to_bits());
                assert_eq!(bf16::narrowed(b.widened()).to_bits(), bits);
            }
        }
    }

    #[test]
    fn narrowing_rounds_to_nearest_even_over_the_whole_range() {
        for bits in (0..=u32::MAX).step_by(997) {
            let x = f32::from_bits(bits);
            if x.is_nan() {
                assert!(f16::narrowed(x).is_nan() && bf16::narrowed(x).is_nan());
                continue;
            }
            assert_eq!(f16::narrowed(x).to_bits(), f16::from_f32(x).to_bits(), "{x:e}");
            assert_eq!(bf16::narrowed(x).to_bits(), bf16::from_f32(x).to_bits(), "{x:e}");
        }
        // Ties, of normal and subnormal results, and the ends of the range.
        for (x, want) in [(1.0 + 2f32.powi(-11), 0x3C00), (1.0 + 3.0 * 2f32.powi(-11), 0x3C02)] {
            assert_eq!(f16::narrowed(x).to_bits(), want);
        }
        for (x, want) in
            [(65504.0, 0x7BFF), (65519.9, 0x7BFF), (65520.0, 0x7C00), (2f32.powi(-25), 0)]
        {
            assert_eq!(f16::narrowed(x).to_bits(), want, "{x}");
        }
        assert_eq!(f16::narrowed(1.5 * 2f32.powi(-24)).to_bits(), 2);
        assert_eq!(f16::narrowed(-0.0).to_bits(), 0x8000);
    }
}
