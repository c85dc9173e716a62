//! Two arrays made one, element by element, in the memory of the first: what those who add up parts of a
//! sum one after the other need.

use crate::cast::Truth;
use crate::native::{Compute, Native};
use half::{bf16, f16};
use std::num::Wrapping;

/// What becomes of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Their sum; integers wrap. Of truths: whether one of them is true.
    Sum,
    /// The larger; NaN if one is.
    Max,
    /// The smaller; NaN if one is.
    Min,
}

/// Numbers that can be combined.
pub trait Combined: Native {
    /// `into[i] ← into[i] ∘ from[i]`, with `into[i]` on the left.
    fn combine(how: Combine, into: &mut [Self], from: &[Self]);
}

/// Combines arrays of equal length.
///
/// # Panics
/// If the lengths differ.
pub fn combine<T: Combined>(how: Combine, into: &mut [T], from: &[T]) {
    assert_eq!(into.len(), from.len(), "combine: two lengths");
    T::combine(how, into, from);
}

#[inline(always)]
fn each<T: Copy>(into: &mut [T], from: &[T], f: impl Fn(T, T) -> T) {
    for (a, b) in into.iter_mut().zip(from) {
        *a = f(*a, *b);
    }
}

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Combined for $t {
            fn combine(how: Combine, into: &mut [$t], from: &[$t]) {
                match how {
                    Combine::Sum => each(into, from, |a, b| a + b),
                    Combine::Max => each(into, from, |a, b| if a >= b || a.is_nan() { a } else { b }),
                    Combine::Min => each(into, from, |a, b| if a <= b || a.is_nan() { a } else { b }),
                }
            }
        }
    )*};
}

floats!(f32, f64);

macro_rules! whole_numbers {
    ($($t:ty),*) => {$(
        impl Combined for Wrapping<$t> {
            fn combine(how: Combine, into: &mut [Self], from: &[Self]) {
                match how {
                    Combine::Sum => each(into, from, |a, b| a + b),
                    Combine::Max => each(into, from, |a, b| a.max(b)),
                    Combine::Min => each(into, from, |a, b| a.min(b)),
                }
            }
        }
    )*};
}

whole_numbers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Combined for Truth {
    fn combine(how: Combine, into: &mut [Truth], from: &[Truth]) {
        match how {
            Combine::Sum | Combine::Max => {
                each(into, from, |a, b| if a == Truth::FALSE { b } else { a });
            }
            Combine::Min => each(into, from, |a, b| if a == Truth::FALSE { a } else { b }),
        }
    }
}

/// Numbers that are widened at a time.
const BLOCK: usize = 512;

macro_rules! reduced {
    ($($t:ty),*) => {$(
        impl Combined for $t {
            fn combine(how: Combine, into: &mut [$t], from: &[$t]) {
                let (mut a, mut b) = ([0f32; BLOCK], [0f32; BLOCK]);
                for (into, from) in into.chunks_mut(BLOCK).zip(from.chunks(BLOCK)) {
                    let (a, b) = (&mut a[..into.len()], &mut b[..from.len()]);
                    <$t>::widen(into, a);
                    <$t>::widen(from, b);
                    f32::combine(how, a, b);
                    <$t>::narrow(a, into);
                }
            }
        }
    )*};
}

reduced!(f16, bf16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_on_either_side_is_what_comes_of_it() {
        for how in [Combine::Sum, Combine::Max, Combine::Min] {
            let mut into = [f64::NAN, 1.0, 2.0];
            combine(how, &mut into, &[1.0, f64::NAN, 3.0]);
            assert!(into[0].is_nan() && into[1].is_nan() && !into[2].is_nan(), "{how:?}: {into:?}");
        }
    }

    #[test]
    fn reduced_numbers_are_added_in_f32_and_rounded_once() {
        let mut into: Vec<f16> = (0..1000).map(|i| f16::from_f32(i as f32 * 0.37)).collect();
        let from: Vec<f16> = (0..1000).map(|i| f16::from_f32(100.0 - i as f32)).collect();
        let expected = into.iter().zip(&from).map(|(a, b)| f16::from_f32(a.to_f32() + b.to_f32()));
        let expected: Vec<f16> = expected.collect();
        combine(Combine::Sum, &mut into, &from);
        assert_eq!(into, expected);
    }

    #[test]
    fn whole_numbers_wrap() {
        let mut into = [Wrapping(i8::MAX), Wrapping(3)];
        combine(Combine::Sum, &mut into, &[Wrapping(1), Wrapping(-5)]);
        assert_eq!(into, [Wrapping(i8::MIN), Wrapping(-2)]);
    }
}
