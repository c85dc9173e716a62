//! Work on the bits of elements, compiled once for each size of element and for no particular
//! instructions: what is done is chosen at run time, for a block of elements at a time.

use crate::native::Native;
use crate::view::View;
use crate::walk::{Reader, Room, Walk};

/// Elements that are packed at a time.
const BLOCK: usize = 1024;

/// What can be done to the bits of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bitwise {
    /// Those set in both.
    And,
    /// Those set in either.
    Or,
    /// Those set in one of them.
    Xor,
    /// The first's, moved up by the second; none are left where that is the width or more.
    ShiftLeft,
    /// The first's, moved down by the second; zeros come in at the top.
    ShiftRight,
    /// Likewise, with copies of the top bit coming in.
    ShiftRightSigned,
    /// The float next to the first in the direction of the second. Infinity has these bits.
    NextAfter {
        /// The bits of infinity.
        infinity: u64,
    },
}

/// An unsigned integer as wide as an element.
pub trait Word: Native + Ord {
    /// How many bits it has.
    const WIDTH: u32;
    /// As 64 bits.
    fn to_u64(self) -> u64;
    /// Its low bits.
    fn from_u64(bits: u64) -> Self;
    /// Bits set in both.
    fn and(self, other: Self) -> Self;
    /// Bits set in either.
    fn or(self, other: Self) -> Self;
    /// Bits set in one of them.
    fn xor(self, other: Self) -> Self;
    /// Moved up.
    fn shift_left(self, count: Self) -> Self;
    /// Moved down.
    fn shift_right(self, count: Self) -> Self;
    /// Moved down, with copies of the top bit.
    fn shift_right_signed(self, count: Self) -> Self;
}

macro_rules! word {
    ($($t:ident: $signed:ident),*) => {$(
        impl Word for $t {
            const WIDTH: u32 = $t::BITS;
            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn from_u64(bits: u64) -> Self {
                bits as $t
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn shift_left(self, count: Self) -> Self {
                if count < $t::BITS as $t { self << count } else { 0 }
            }
            #[inline(always)]
            fn shift_right(self, count: Self) -> Self {
                if count < $t::BITS as $t { self >> count } else { 0 }
            }
            #[inline(always)]
            fn shift_right_signed(self, count: Self) -> Self {
                (self.cast_signed() >> count.min($t::BITS as $t - 1) as $signed).cast_unsigned()
            }
        }
    )*};
}
word!(u8: i8, u16: i16, u32: i32, u64: i64);

/// The float next to `a` in the direction of `b`, as bits of a format in which infinity has the bits
/// `infinity`: floats of one sign are in the order of their bits.
#[inline(always)]
fn next_after<T: Word>(a: T, b: T, infinity: u64) -> T {
    let sign = 1u64 << (T::WIDTH - 1);
    let (a, b) = (a.to_u64(), b.to_u64());
    let [size_a, size_b] = [a, b].map(|x| x & !sign);
    if size_a > infinity || size_b > infinity {
        // The exponent's bits and those below: the highest bit of the mantissa makes it quiet.
        return T::from_u64(infinity | infinity >> 1);
    }
    if a == b || size_a | size_b == 0 {
        return T::from_u64(b);
    }
    if size_a == 0 {
        return T::from_u64(b & sign | 1);
    }
    // Away from zero if `b` lies further out on the same side.
    let outwards = (a ^ b) & sign == 0 && size_b > size_a;
    T::from_u64(if outwards { a + 1 } else { a - 1 })
}

#[inline(always)]
fn each<T: Copy>(out: &mut [T], b: &[T], f: impl Fn(T, T) -> T) {
    for (out, &b) in out.iter_mut().zip(b) {
        *out = f(*out, b);
    }
}

/// `out[i] = op(a[i], b[i])` over arrays of one shape, in row-major order.
///
/// # Panics
/// If an input has not as many elements as `out`.
pub fn bitwise<T: Word>(op: Bitwise, a: View<'_, T>, b: View<'_, T>, out: &mut [T]) {
    assert!([a.len(), b.len()] == [out.len(); 2], "bitwise: an input's length");
    let walk = Walk::new(out.len(), BLOCK, &[a.layout(), b.layout()]);
    let (a, b) = (Reader::new(&a, 0), Reader::new(&b, 1));
    walk.run(out, &|pieces| {
        let (mut one, mut other) = (Room::new(), Room::new());
        while let Some((piece, out)) = pieces.next() {
            out.copy_from_slice(a.read(&walk, &piece, &mut one));
            let other = b.read(&walk, &piece, &mut other);
            match op {
                Bitwise::And => each(out, other, T::and),
                Bitwise::Or => each(out, other, T::or),
                Bitwise::Xor => each(out, other, T::xor),
                Bitwise::ShiftLeft => each(out, other, T::shift_left),
                Bitwise::ShiftRight => each(out, other, T::shift_right),
                Bitwise::ShiftRightSigned => each(out, other, T::shift_right_signed),
                Bitwise::NextAfter { infinity } => {
                    each(out, other, |a, b| next_after(a, b, infinity));
                }
            }
        }
    });
}

/// `out[i] = 1` where the top bit of `x[i]` is set, 0 elsewhere.
///
/// # Panics
/// If `x` has not as many elements as `out`.
pub fn top_bits<T: Word>(x: View<'_, T>, out: &mut [u8]) {
    assert_eq!(x.len(), out.len(), "top_bits: the length");
    let walk = Walk::new(out.len(), BLOCK, &[x.layout()]);
    let x = Reader::new(&x, 0);
    walk.run(out, &|pieces| {
        let mut room = Room::new();
        while let Some((piece, out)) = pieces.next() {
            for (out, x) in out.iter_mut().zip(x.read(&walk, &piece, &mut room)) {
                *out = (x.to_u64() >> (T::WIDTH - 1)) as u8;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    fn next(a: f64, b: f64) -> f64 {
        f64::from_bits(next_after(a.to_bits(), b.to_bits(), f64::INFINITY.to_bits()))
    }

    #[test]
    fn the_next_float_is_one_step_away_in_every_format() {
        assert_eq!(next(1.0, 2.0), 1.0 + f64::EPSILON);
        assert_eq!(next(1.0, -2.0), 1.0 - f64::EPSILON / 2.0);
        assert_eq!(next(-1.0, -2.0), -1.0 - f64::EPSILON);
        assert_eq!(next(f64::MAX, f64::INFINITY), f64::INFINITY);
        assert_eq!(next(f64::INFINITY, 0.0), f64::MAX);
        assert_eq!(next(0.0, -1.0).to_bits(), 1 | 1 << 63);
        assert_eq!(next(-0.0, 1.0).to_bits(), 1);
        assert_eq!(next(0.0, -0.0).to_bits(), 1 << 63);
        assert_eq!(next(-0.0, 0.0).to_bits(), 0);
        assert_eq!(next(f64::from_bits(1 | 1 << 63), 1.0).to_bits(), 1 << 63);
        assert!(next(f64::NAN, 1.0).is_nan() && next(1.0, -f64::NAN).is_nan());
        let half = |a: f16, b: f16| {
            let bits = next_after(a.to_bits(), b.to_bits(), f16::INFINITY.to_bits().into());
            f16::from_bits(bits)
        };
        assert_eq!(half(f16::ONE, f16::INFINITY).to_f64(), 1.0 + 2f64.powi(-10));
        assert!(half(f16::NAN, f16::ONE).is_nan());
        let brain = |a: bf16, b: bf16| {
            let bits = next_after(a.to_bits(), b.to_bits(), bf16::INFINITY.to_bits().into());
            bf16::from_bits(bits)
        };
        assert_eq!(brain(bf16::ONE, bf16::INFINITY).to_f64(), 1.0 + 2f64.powi(-7));
        assert!(brain(bf16::ONE, bf16::NAN).is_nan());
    }

    #[test]
    fn shifting_by_the_width_or_more_leaves_nothing_but_the_sign() {
        for count in [8u8, 9, 255] {
            assert_eq!(0xFFu8.shift_left(count), 0);
            assert_eq!(0xFFu8.shift_right(count), 0);
            assert_eq!(0x80u8.shift_right_signed(count), 0xFF);
            assert_eq!(0x7Fu8.shift_right_signed(count), 0);
        }
        assert_eq!(0x81u8.shift_right_signed(1), 0xC0);
        assert_eq!(1u64.shift_left(63), 1 << 63);
    }
}
