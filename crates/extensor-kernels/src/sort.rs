//! The order of elements, and positions in sorted lists.
//!
//! Elements of any type are mapped to unsigned keys that have the same order, so that all types
//! share two sorts: equal numbers (−0 and 0 too) have equal keys, and NaN has the largest.

use crate::bits::Word;
use crate::par::parallel_chunks;
use crate::stop;

/// Elements that one thread takes at a time, unless a row has more.
const CHUNK: usize = 16 * 1024;

/// How the bits of an element are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Unsigned,
    /// As a signed number.
    Signed,
    /// As a float of a format in which infinity has these bits.
    Float {
        /// The bits of infinity.
        infinity: u64,
    },
}

impl Encoding {
    /// A number that is in the same order as the element.
    #[inline(always)]
    fn key<T: Word>(self, x: T) -> u64 {
        let (bits, sign) = (x.to_u64(), 1u64 << (T::WIDTH - 1));
        match self {
            Encoding::Unsigned => bits,
            Encoding::Signed => bits ^ sign,
            Encoding::Float { infinity } => {
                let size = bits & !sign;
                if size > infinity {
                    u64::MAX >> (64 - T::WIDTH)
                } else if bits & sign == 0 {
                    sign | size
                } else {
                    sign - size
                }
            }
        }
    }

    /// The keys of all elements.
    pub fn keys<T: Word>(self, x: &[T]) -> Vec<u64> {
        let mut keys = stop::room(0, x.len());
        parallel_chunks(&mut keys, 4 * CHUNK, &|start, keys| {
            let part = &x[start..start + keys.len()];
            // Each loop knows what it reads.
            match self {
                Encoding::Unsigned => fill(keys, part, |x| Encoding::Unsigned.key(x)),
                Encoding::Signed => fill(keys, part, |x| Encoding::Signed.key(x)),
                reading => fill(keys, part, |x| reading.key(x)),
            }
        });
        keys
    }
}

#[inline(always)]
fn fill<T: Word>(keys: &mut [u64], x: &[T], key: impl Fn(T) -> u64) {
    for (to, &x) in keys.iter_mut().zip(x) {
        *to = key(x);
    }
}

/// For each row of `length` keys the positions of its elements in ascending (or `descending`)
/// order; equal ones stay in the order they are in. `width` is the number of bits of the keys.
///
/// # Panics
/// If `out` has another length than `keys`.
pub fn order(keys: &[u64], width: u32, length: usize, descending: bool, out: &mut [i64]) {
    assert_eq!(keys.len(), out.len(), "order: the length");
    if keys.is_empty() {
        return;
    }
    let flip = if descending { u64::MAX >> (64 - width) } else { 0 };
    let rows = (CHUNK / length).max(1);
    let narrow = width <= 32 && length <= 1 << 32;
    parallel_chunks(out, rows * length, &|start, out| {
        // A key and its position in one number: no two are equal, and their order is stable.
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for (k, out) in out.chunks_mut(length).enumerate() {
            let keys = &keys[start + k * length..start + (k + 1) * length];
            if narrow {
                let pair = |(i, &key): (usize, &u64)| (key ^ flip) << 32 | i as u64;
                short.clear();
                short.extend(keys.iter().enumerate().map(pair));
                short.sort_unstable();
                for (out, &pair) in out.iter_mut().zip(&short) {
                    *out = (pair & 0xFFFF_FFFF) as i64;
                }
            } else {
                let pair = |(i, &key): (usize, &u64)| u128::from(key ^ flip) << 64 | i as u128;
                long.clear();
                long.extend(keys.iter().enumerate().map(pair));
                long.sort_unstable();
                for (out, &pair) in out.iter_mut().zip(&long) {
                    *out = pair as u64 as i64;
                }
            }
        }
    });
}

/// For each of `values` how many of the ascending keys `sorted` are below it (with `right`: at or
/// below it).
///
/// # Panics
/// If `out` has another length than `values`.
pub fn search_sorted(sorted: &[u64], values: &[u64], right: bool, out: &mut [i64]) {
    assert_eq!(values.len(), out.len(), "search_sorted: the length");
    parallel_chunks(out, CHUNK, &|start, out| {
        for (out, &value) in out.iter_mut().zip(&values[start..]) {
            let before = |&key: &u64| key < value || right && key == value;
            *out = sorted.partition_point(before) as i64;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(x: f32) -> u64 {
        Encoding::Float { infinity: f32::INFINITY.to_bits().into() }.key(x.to_bits())
    }

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        let ascending =
            [f32::NEG_INFINITY, f32::MIN, -1.0, -1e-45, 0.0, 1e-45, 1.0, f32::MAX, f32::INFINITY];
        assert!(ascending.windows(2).all(|w| float(w[0]) < float(w[1])));
        assert_eq!(float(0.0), float(-0.0));
        assert_eq!(float(f32::NAN), float(-f32::NAN));
        assert!(float(f32::INFINITY) < float(f32::NAN));
        let signed = [i8::MIN, -1, 0, 1, i8::MAX].map(|x| Encoding::Signed.key(x.cast_unsigned()));
        assert!(signed.is_sorted() && signed[4] == 255);
    }

    #[test]
    fn equal_keys_keep_their_order_in_both_directions() {
        for width in [8, 64] {
            let keys = [2, 1, 2, 0, 1, 2];
            let mut out = [0; 6];
            order(&keys, width, 6, false, &mut out);
            assert_eq!(out, [3, 1, 4, 0, 2, 5]);
            order(&keys, width, 6, true, &mut out);
            assert_eq!(out, [0, 2, 5, 1, 4, 3]);
            order(&keys, width, 3, false, &mut out);
            assert_eq!(out, [1, 0, 2, 0, 1, 2]);
        }
    }
}
