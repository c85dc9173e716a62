//! Sums in `f64`, whose order follows from how many terms there are and from nothing else.

use super::Wide;
use crate::isa::{Kernel, dispatch};
use crate::stream;

/// Interleaved sums in which numbers are added: two vectors of `f64`.
pub(super) const LANES: usize = 16;
/// Numbers that are added before partial sums are.
const CHUNK: usize = 2048;

/// Terms of `K` sums.
///
/// # Safety
/// [`step`](Terms::step) may be called for every `i` below [`len`](Terms::len).
pub(super) unsafe trait Terms<const K: usize>: Copy {
    /// How many there are.
    fn len(self) -> usize;
    /// Asks for memory that will be read after these terms; they are at number `i`.
    #[inline(always)]
    fn ask(self, _i: usize) {}
    /// The sums `acc` and the terms number `i`.
    ///
    /// # Safety
    /// `i` must be below `len`.
    unsafe fn step(self, i: usize, acc: [f64; K]) -> [f64; K];
}

/// Sums that lose nothing when partial sums are added to them.
#[derive(Clone, Copy)]
pub(super) struct Totals<const K: usize> {
    sums: [f64; K],
    lost: [f64; K],
}

impl<const K: usize> Totals<K> {
    pub(super) const ZERO: Self = Totals { sums: [0.0; K], lost: [0.0; K] };

    #[inline(always)]
    pub(super) fn add(&mut self, terms: [f64; K]) {
        let mut k = 0;
        while k < K {
            let (a, b) = (self.sums[k], terms[k]);
            let sum = a + b;
            let rest = if a.abs() >= b.abs() { (a - sum) + b } else { (b - sum) + a };
            self.lost[k] += if sum.is_finite() { rest } else { 0.0 };
            self.sums[k] = sum;
            k += 1;
        }
    }

    /// Adds all terms.
    pub(super) fn add_all<F: Terms<K>>(&mut self, terms: F) {
        let mut start = 0;
        while start < terms.len() {
            let end = (start + CHUNK).min(terms.len());
            self.add(dispatch(Chunk::<F, K> { terms, start, end }));
            start = end;
        }
    }

    #[inline(always)]
    pub(super) fn values(&self) -> [f64; K] {
        let mut values = self.sums;
        let mut k = 0;
        while k < K {
            values[k] += self.lost[k];
            k += 1;
        }
        values
    }
}

/// The terms `start..end`.
struct Chunk<F, const K: usize> {
    terms: F,
    start: usize,
    end: usize,
}

impl<F: Terms<K>, const K: usize> Kernel for Chunk<F, K> {
    type Output = [f64; K];
    #[inline(always)]
    fn run(self) -> [f64; K] {
        assert!(self.end <= self.terms.len());
        // SAFETY: just compared.
        unsafe { sums(self.terms, self.start, self.end) }
    }
}

/// The sums of the terms `start..end`: in interleaved lanes that are joined in a tree, and the last
/// few one after the other.
///
/// # Safety
/// `end` must be at most the number of terms.
#[inline(always)]
unsafe fn sums<F: Terms<K>, const K: usize>(terms: F, start: usize, end: usize) -> [f64; K] {
    let mut rest = [0.0; K];
    let mut at = start + (end - start) / LANES * LANES;
    let whole = at;
    while at < end {
        // SAFETY: the condition.
        rest = unsafe { terms.step(at, rest) };
        at += 1;
    }
    if whole == start {
        return rest;
    }
    let mut lanes = [[0.0; LANES]; K];
    let mut at = start;
    while at < whole {
        terms.ask(at);
        let mut l = 0;
        while l < LANES {
            let mut acc = [0.0; K];
            let mut k = 0;
            while k < K {
                acc[k] = lanes[k][l];
                k += 1;
            }
            // SAFETY: there are `LANES` terms from `at` on.
            acc = unsafe { terms.step(at + l, acc) };
            let mut k = 0;
            while k < K {
                lanes[k][l] = acc[k];
                k += 1;
            }
            l += 1;
        }
        at += LANES;
    }
    // The compiler must not see how the lanes are joined: it would arrange the loop for that, in
    // the narrowest vectors.
    let lanes = std::hint::black_box(lanes);
    let mut k = 0;
    while k < K {
        rest[k] += tree(&lanes[k]);
        k += 1;
    }
    rest
}

/// The sum of all lanes.
#[inline(always)]
fn tree(lanes: &[f64; LANES]) -> f64 {
    let mut sums = [0.0; LANES / 2];
    let mut l = 0;
    while l < LANES / 2 {
        sums[l] = lanes[l] + lanes[l + LANES / 2];
        l += 1;
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Asks for the numbers that lie `ahead` after the [`LANES`] from number `i` on; for none if 0.
#[inline(always)]
pub(super) fn ask_ahead<W, const TO_WRITE: bool>(x: &[W], i: usize, ahead: usize) {
    if ahead > 0 {
        let address = x.as_ptr().wrapping_add(i + ahead).cast::<u8>();
        stream::ask::<TO_WRITE>(address);
        if size_of::<W>() > 4 {
            stream::ask::<TO_WRITE>(address.wrapping_add(64));
        }
    }
}

/// Element number `i` as `f64`.
///
/// # Safety
/// There must be one.
#[inline(always)]
pub(super) unsafe fn wide<W: Wide>(x: &[W], i: usize) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { *x.get_unchecked(i) }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_sums_add_up_without_loss() {
        let mut totals = Totals::<2>::ZERO;
        for term in [1e20, 3.0, 5.0, -1e20] {
            totals.add([term, -term]);
        }
        assert_eq!(totals.values(), [8.0, -8.0]);
    }
}
