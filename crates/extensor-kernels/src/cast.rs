//! From one number type to another, rounding once.
//!
//! Thirteen types make 156 pairs. They are not compiled one by one: a value goes through one of
//! four types (`f32`, `f64`, `i64`, `u64`) that its own type widens to exactly ([`Source`]) and that
//! the target's rounds from ([`Target`]), block by block in the first cache.

use crate::isa::{Kernel, dispatch_narrow};
use crate::native::{Compute, Native};
use crate::view::View;
use crate::walk::{Piece, Reader, Room, Walk};
use half::{bf16, f16};

/// A type all of whose values `W` holds exactly.
pub trait Source<W>: Native {
    /// Widens a slice into another of the same length.
    fn widen(from: &[Self], to: &mut [W]);
}

/// A type that values of `W` are rounded to.
pub trait Target<W>: Native {
    /// Rounds a slice into another of the same length.
    fn narrow(from: &[W], to: &mut [Self]);
}

/// Reads pieces of an array, one after the other.
pub type Next<'a, W> = Box<dyn FnMut(&Piece<'_>, &mut [W]) + 'a>;

/// An array that is read in another type.
pub trait Read<W>: Sync {
    /// The order in which its elements are visited.
    fn walk(&self) -> &Walk;
    /// A function that reads pieces of it, widened, one after the other.
    fn pieces(&self) -> Next<'_, W>;
}

struct Array<'a, S> {
    walk: Walk,
    reader: Reader<'a, S>,
}

impl<W, S: Source<W>> Read<W> for Array<'_, S> {
    fn walk(&self) -> &Walk {
        &self.walk
    }
    fn pieces(&self) -> Next<'_, W> {
        let mut room = Room::new();
        Box::new(move |piece, to| S::widen(self.reader.read(&self.walk, piece, &mut room), to))
    }
}

/// Elements that are widened at a time.
const BLOCK: usize = 1024;

/// Reads `view` as numbers of type `W`.
pub fn reader<'a, S: Source<W>, W>(view: View<'a, S>) -> impl Read<W> + 'a {
    let walk = Walk::new(view.len(), BLOCK, &[view.layout()]);
    Array { walk, reader: Reader::new(&view, 0) }
}

/// `out[i] = read[i]`, rounded to the type of `out`.
///
/// # Panics
/// If `read` has not as many elements as `out`.
pub fn cast<W: Native, T: Target<W>>(read: &dyn Read<W>, out: &mut [T]) {
    read.walk().run(out, &|pieces| {
        let mut next = read.pieces();
        let mut wide = [W::ZERO; BLOCK];
        while let Some((piece, out)) = pieces.next() {
            let wide = &mut wide[..out.len()];
            next(&piece, wide);
            T::narrow(wide, out);
        }
    });
}

/// Implements a trait's function as a loop over one expression.
macro_rules! each {
    ($trait:ident $method:ident: $($from:ty => $to:ty, |$x:ident| $f:expr;)*) => {$(
        each!(@$trait $method $from, $to, |$x| $f);
    )*};
    (@Source $method:ident $from:ty, $to:ty, |$x:ident| $f:expr) => {
        impl Source<$to> for $from {
            fn widen(from: &[$from], to: &mut [$to]) {
                for (to, &$x) in to.iter_mut().zip(from) {
                    *to = $f;
                }
            }
        }
    };
    (@Target $method:ident $from:ty, $to:ty, |$x:ident| $f:expr) => {
        impl Target<$from> for $to {
            fn narrow(from: &[$from], to: &mut [$to]) {
                for (to, &$x) in to.iter_mut().zip(from) {
                    *to = $f;
                }
            }
        }
    };
}

each! { Source widen:
    f32 => f32, |x| x;
    f32 => f64, |x| f64::from(x);
    f16 => f64, |x| f64::from(x);
    bf16 => f64, |x| f64::from(x);
    f64 => f64, |x| x;
    i8 => i64, |x| i64::from(x);
    i16 => i64, |x| i64::from(x);
    i32 => i64, |x| i64::from(x);
    i64 => i64, |x| x;
    u8 => i64, |x| i64::from(x);
    u16 => i64, |x| i64::from(x);
    u32 => i64, |x| i64::from(x);
    u64 => u64, |x| x;
}

each! { Target narrow:
    f32 => f32, |x| x;
    f32 => f64, |x| f64::from(x);
    f64 => f32, |x| x as f32;
    f64 => f64, |x| x;
    f64 => i8, |x| x as i8;
    f64 => i16, |x| x as i16;
    f64 => i32, |x| x as i32;
    f64 => i64, |x| x as i64;
    f64 => u16, |x| x as u16;
    f64 => u32, |x| x as u32;
    f64 => u64, |x| x as u64;
    f64 => u8, |x| x as u8;
    i64 => u8, |x| x as u8;
    i64 => u16, |x| x as u16;
    i64 => u32, |x| x as u32;
    i64 => u64, |x| x as u64;
    i64 => f32, |x| x as f32;
    i64 => f64, |x| x as f64;
    i64 => f16, |x| round_f16(f64_to_odd(x < 0, x.unsigned_abs()));
    i64 => bf16, |x| round_bf16(f64_to_odd(x < 0, x.unsigned_abs()));
    u64 => u8, |x| x as u8;
    u64 => u16, |x| x as u16;
    u64 => u32, |x| x as u32;
    u64 => u64, |x| x;
    u64 => f32, |x| x as f32;
    u64 => f64, |x| x as f64;
    u64 => f16, |x| round_f16(f64_to_odd(false, x));
    u64 => bf16, |x| round_bf16(f64_to_odd(false, x));
}

/// The truth of a number, as a mask stores it: 1 for all but 0 (NaN included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Truth(u8);

impl Truth {
    /// That of 0.
    pub const FALSE: Truth = Truth(0);
}

each! { Target narrow:
    f64 => Truth, |x| Truth(u8::from(x != 0.0));
    i64 => Truth, |x| Truth(u8::from(x != 0));
    u64 => Truth, |x| Truth(u8::from(x != 0));
}
each! { Source widen:
    Truth => i64, |x| i64::from(x.0 != 0);
}

macro_rules! reduced {
    ($($t:ty, $round:ident);*) => {$(
        impl Source<f32> for $t {
            fn widen(from: &[$t], to: &mut [f32]) {
                Compute::widen(from, to);
            }
        }
        impl Target<f32> for $t {
            fn narrow(from: &[f32], to: &mut [$t]) {
                Compute::narrow(from, to);
            }
        }
        impl Target<f64> for $t {
            fn narrow(from: &[f64], to: &mut [$t]) {
                let mut odd = [0f32; BLOCK];
                for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
                    let odd = &mut odd[..from.len()];
                    dispatch_narrow(ToOdd { from, to: odd });
                    Compute::narrow(odd, to);
                }
            }
        }
        /// The nearest value of the type, the even one of two as near.
        #[inline]
        pub fn $round(x: f64) -> $t {
            <$t>::from_f32(f32_to_odd(x))
        }
    )*};
}

reduced!(f16, round_f16; bf16, round_bf16);

/// `x` in single precision, rounded to odd: where it lies between two neighbours, the one whose last
/// bit is 1. Rounding that once more, to a type at least two bits narrower, gives what rounding `x`
/// itself would: the last bit remembers that something was cut off, and a tie is a tie only if it
/// was one. (Rounding to nearest twice is wrong for 1 + 2⁻¹¹ + 2⁻⁴⁰, which is above the middle of
/// two half-precision numbers and would end in it.)
#[inline(always)]
fn f32_to_odd(x: f64) -> f32 {
    let near = x as f32;
    let (back, bits) = (f64::from(near), near.to_bits());
    // Towards zero is one down in the bits, whatever the sign; a finite `x` that became infinite
    // goes back to the largest finite value, which is odd.
    let other = if back.abs() > x.abs() { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    let keep = back == x || bits & 1 == 1 || near.is_nan();
    f32::from_bits(if keep { bits } else { other })
}

/// [`f32_to_odd`] of every element.
struct ToOdd<'a> {
    from: &'a [f64],
    to: &'a mut [f32],
}

impl Kernel for ToOdd<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (to, &x) in self.to.iter_mut().zip(self.from) {
            *to = f32_to_odd(x);
        }
    }
}

/// A whole number in double precision, rounded to odd likewise.
#[inline(always)]
fn f64_to_odd(negative: bool, magnitude: u64) -> f64 {
    // A 64-bit number has at most 11 bits too many.
    let sticky = (magnitude & !0xFFF) | (u64::from(magnitude & 0xFFF != 0) << 11);
    let kept = if magnitude >> 53 == 0 { magnitude } else { sticky };
    let x = kept as f64;
    if negative { -x } else { x }
}
