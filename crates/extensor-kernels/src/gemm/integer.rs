//! The product of matrices of whole numbers, which wrap around: the sum is the same in any order, so
//! one plain loop over the rows of B serves all shapes.

use super::Dims;
use crate::native::Native;
use crate::par::parallel_chunks;
use std::ops::{Add, Mul};

/// Multiply-adds that are worth a task of their own.
const TASK: usize = 1 << 18;

/// `C = A·B` for each of a batch of row-major matrices that begin at `starts_a` in `a` and at
/// `starts_b` in `b`; the results follow each other in `out`.
///
/// # Panics
/// If a length does not fit.
pub fn integers<T>(
    Dims { m, k, n }: Dims,
    (a, starts_a): (&[T], &[usize]),
    (b, starts_b): (&[T], &[usize]),
    out: &mut [T],
) where
    T: Native + Add<Output = T> + Mul<Output = T>,
{
    assert!(starts_a.len() == starts_b.len() && out.len() == starts_a.len() * m * n);
    if out.is_empty() {
        return;
    }
    let rows = (TASK / (k * n).max(1)).max(1);
    parallel_chunks(out, rows * n, &|start, out| {
        for (i, out) in out.chunks_mut(n).enumerate() {
            let row = start / n + i;
            let (at_a, at_b) = (starts_a[row / m] + row % m * k, starts_b[row / m]);
            let (a, b) = (&a[at_a..at_a + k], &b[at_b..at_b + k * n]);
            if n == 1 {
                out[0] = a.iter().zip(b).fold(T::ZERO, |sum, (&a, &b)| sum + a * b);
                continue;
            }
            out.fill(T::ZERO);
            for (&a, b) in a.iter().zip(b.chunks(n)) {
                for (out, &b) in out.iter_mut().zip(b) {
                    *out = *out + a * b;
                }
            }
        }
    });
}
