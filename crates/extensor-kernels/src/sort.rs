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

/// A key and the position of its element in one number: no two are equal, and they are in the order of
/// the keys, equal ones in the order they are in.
trait Pair: Ord + Copy {
    fn new(key: u64, at: usize) -> Self;
    fn at(self) -> usize;
}

impl Pair for u64 {
    #[inline(always)]
    fn new(key: u64, at: usize) -> u64 {
        key << 32 | at as u64
    }
    #[inline(always)]
    fn at(self) -> usize {
        (self & 0xFFFF_FFFF) as usize
    }
}

impl Pair for u128 {
    #[inline(always)]
    fn new(key: u64, at: usize) -> u128 {
        u128::from(key) << 64 | at as u128
    }
    #[inline(always)]
    fn at(self) -> usize {
        self as u64 as usize
    }
}

/// For each row of `length` keys `pick` finds `count` positions among its pairs.
fn each_row<P: Pair>(
    keys: &[u64],
    flip: u64,
    [length, count]: [usize; 2],
    out: &mut [i64],
    pick: impl Fn(usize, &mut [P], &mut [i64]) + Sync,
) {
    let rows = (CHUNK / length).max(1);
    parallel_chunks(out, rows * count, &|start, out| {
        let mut pairs = Vec::new();
        for (k, out) in out.chunks_mut(count).enumerate() {
            let row = start / count + k;
            let keys = &keys[row * length..(row + 1) * length];
            pairs.clear();
            pairs.extend(keys.iter().enumerate().map(|(i, &key)| P::new(key ^ flip, i)));
            pick(row, &mut pairs, out);
        }
    });
}

/// For each row of `length` keys the positions of the first `count` elements in ascending (or
/// `descending`) order, as [`order`] would list them. `width` is the number of bits of the keys.
///
/// # Panics
/// If `out` has not `count` elements for each row, or if a row has fewer.
pub fn first(
    keys: &[u64],
    width: u32,
    [length, count]: [usize; 2],
    descending: bool,
    out: &mut [i64],
) {
    assert!(count <= length, "first: more than there are");
    assert_eq!(keys.len() / length.max(1) * count, out.len(), "first: the length");
    if out.is_empty() {
        return;
    }
    fn some<P: Pair>(pairs: &mut [P], out: &mut [i64]) {
        if out.len() < pairs.len() {
            pairs.select_nth_unstable(out.len());
        }
        let pairs = &mut pairs[..out.len()];
        pairs.sort_unstable();
        out.iter_mut().zip(pairs).for_each(|(out, pair)| *out = pair.at() as i64);
    }
    let flip = if descending { u64::MAX >> (64 - width) } else { 0 };
    let sizes = [length, count];
    if width <= 32 && length <= 1 << 32 {
        each_row::<u64>(keys, flip, sizes, out, |_, pairs, out| some(pairs, out));
    } else {
        each_row::<u128>(keys, flip, sizes, out, |_, pairs, out| some(pairs, out));
    }
}

/// For each row of `length` keys the positions of the elements of its `ranks`, counted from 0 in
/// ascending order; where a row has the key `nan`, the position of the first that has.
///
/// # Panics
/// If `ranks` and `out` have not as many elements for each row, or a rank is not below `length`.
pub fn ranked(
    keys: &[u64],
    width: u32,
    length: usize,
    nan: Option<u64>,
    ranks: &[i64],
    out: &mut [i64],
) {
    assert_eq!(ranks.len(), out.len(), "ranked: the length");
    if out.is_empty() {
        return;
    }
    let count = out.len() / (keys.len() / length);
    let pick = |row: usize, out: &mut [i64], find: &mut dyn FnMut(&[i64], &mut [i64])| {
        let keys = &keys[row * length..(row + 1) * length];
        match nan.and_then(|nan| keys.iter().position(|&key| key == nan)) {
            Some(at) => out.fill(at as i64),
            None => find(&ranks[row * count..(row + 1) * count], out),
        }
    };
    fn find<P: Pair>(pairs: &mut [P], ranks: &[i64], out: &mut [i64]) {
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        order.sort_unstable_by_key(|&k| ranks[k]);
        // Many are found as soon by sorting; of few, each is looked for above the one before it.
        let sorted = ranks.len() > 16;
        if sorted {
            pairs.sort_unstable();
        }
        let mut done = 0;
        for k in order {
            let rank = ranks[k] as usize;
            if !sorted && rank >= done {
                pairs[done..].select_nth_unstable(rank - done);
                done = rank + 1;
            }
            out[k] = pairs[rank].at() as i64;
        }
    }
    let sizes = [length, count];
    if width <= 32 && length <= 1 << 32 {
        each_row::<u64>(keys, 0, sizes, out, |row, pairs, out| {
            pick(row, out, &mut |ranks, out| find(pairs, ranks, out));
        });
    } else {
        each_row::<u128>(keys, 0, sizes, out, |row, pairs, out| {
            pick(row, out, &mut |ranks, out| find(pairs, ranks, out));
        });
    }
}

/// For each row of `length` keys the position of the largest (or `smallest`) so far, of equal ones the
/// last. What has the key `nan` counts as larger, and as smaller, than everything else.
///
/// # Panics
/// If `out` has another length than `keys`.
pub fn extreme_so_far(
    keys: &[u64],
    length: usize,
    nan: Option<u64>,
    smallest: bool,
    out: &mut [i64],
) {
    assert_eq!(keys.len(), out.len(), "extreme_so_far: the length");
    if keys.is_empty() {
        return;
    }
    let rows = (CHUNK / length).max(1);
    let rank = |key: u64| match nan {
        Some(nan) if key == nan => u64::MAX,
        // Below that of NaN, whose key no other reaches.
        Some(_) if smallest => (!key).saturating_sub(1),
        None if smallest => !key,
        _ => key,
    };
    parallel_chunks(out, rows * length, &|start, out| {
        for (k, out) in out.chunks_mut(length).enumerate() {
            let keys = &keys[start + k * length..start + (k + 1) * length];
            let (mut best, mut at) = (0, 0);
            for (i, (out, &key)) in out.iter_mut().zip(keys).enumerate() {
                let key = rank(key);
                if key >= best {
                    (best, at) = (key, i as i64);
                }
                *out = at;
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
    fn the_first_of_an_order_are_those_of_the_whole_order() {
        let keys: Vec<u64> = (0..60).map(|i| i * 7919 % 13).collect();
        for width in [8, 64] {
            for descending in [false, true] {
                let mut whole = [0; 60];
                order(&keys, width, 20, descending, &mut whole);
                for count in [1, 5, 20] {
                    let mut out = vec![0; 3 * count];
                    first(&keys, width, [20, count], descending, &mut out);
                    for (out, whole) in out.chunks(count).zip(whole.chunks(20)) {
                        assert_eq!(out, &whole[..count]);
                    }
                }
            }
            let mut whole = [0; 60];
            order(&keys, width, 20, false, &mut whole);
            for ranks in [vec![7], vec![3, 19, 0, 3], (0..20).rev().collect()] {
                let all: Vec<i64> = (0..3).flat_map(|_| ranks.clone()).collect();
                let mut out = vec![0; all.len()];
                ranked(&keys, width, 20, None, &all, &mut out);
                for (out, whole) in out.chunks(ranks.len()).zip(whole.chunks(20)) {
                    let want: Vec<i64> = ranks.iter().map(|&r| whole[r as usize]).collect();
                    assert_eq!(out, want);
                }
            }
        }
    }

    #[test]
    fn of_equal_extremes_the_last_counts_and_nan_is_beyond_all() {
        let keys = [2, 1, 2, 3, 9, 0, 9, 1];
        let mut out = [0; 8];
        extreme_so_far(&keys, 4, Some(9), false, &mut out);
        assert_eq!(out, [0, 0, 2, 3, 0, 0, 2, 2]);
        extreme_so_far(&keys, 4, Some(9), true, &mut out);
        assert_eq!(out, [0, 1, 1, 1, 0, 0, 2, 2]);
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
