//! The exponential of matrices.

use super::{Float, Matrices, Room, all_finite, each, matrix};
use faer::linalg::lu::partial_pivoting::{factor as lu, solve as lu_solve};
use faer::linalg::matmul::matmul;
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef, Par, Spec};

/// The coefficients of the rational function of degree 13 that is nearest to the exponential at 0.
const PADE: [f64; 14] = [
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
];

/// Up to this norm it is as near as `f64` can tell (Higham, 2005).
const NEAR: f64 = 5.371920351148152;

/// The exponential of each matrix: that of a fraction of it, squared again and again.
pub(super) fn expm<T: Float>(n: usize, x: &[T], y: &mut [T]) {
    if n == 0 {
        return;
    }
    let (size, count) = (n * n, x.len() / (n * n));
    let y = Matrices::new(y, size);
    let done = each(count, 16 * size * n, &|i| {
        // SAFETY: each task asks for its own.
        let y = unsafe { y.get(i) };
        // By columns all of them are transposes: the exponential of one is that of the other.
        one(n, &x[i * size..(i + 1) * size], y);
        Ok(())
    });
    debug_assert_eq!(done, Ok(()));
}

/// `c = a·b`, by columns.
fn product<T: Float>(n: usize, a: &[T], b: &[T], c: &mut [T]) {
    let [a, b] = [a, b].map(|x| MatRef::from_column_major_slice(x, n, n));
    let c = MatMut::from_column_major_slice_mut(c, n, n);
    matmul(c, Accum::Replace, a, b, T::near(1.0), Par::Seq);
}

fn one<T: Float>(n: usize, x: &[T], y: &mut [T]) {
    if !all_finite(x) {
        return y.fill(T::NOT);
    }
    // Sums of numbers so much smaller that they are finite.
    const SMALLER: i32 = 64;
    let sum =
        |column: &[T]| column.iter().map(|v| v.wide().abs() * 2f64.powi(-SMALLER)).sum::<f64>();
    let norm = x.chunks(n).map(sum).fold(0.0, f64::max);
    let squarings = ((norm / NEAR).log2().ceil() as i32).saturating_add(SMALLER).max(0);
    // Two steps, since one power may be less than there is.
    let half = squarings / 2;
    let (one, other) = (2f64.powi(-half), 2f64.powi(half - squarings));
    let mut a = matrix(n, n);
    a.iter_mut().zip(x).for_each(|(a, x)| *a = T::near(x.wide() * one * other));
    let [mut a2, mut a4, mut a6, mut sum, mut odd, mut even] = [(); 6].map(|_| matrix::<T>(n, n));
    product(n, &a, &a, &mut a2);
    product(n, &a2, &a2, &mut a4);
    product(n, &a2, &a4, &mut a6);
    // b₀·1 + b₂·a² + …, of four coefficients.
    let polynomial = |[b0, b2, b4, b6]: [f64; 4], out: &mut [T]| {
        let [c2, c4, c6] = [b2, b4, b6].map(T::near);
        for k in 0..n * n {
            out[k] = c6 * a6[k] + c4 * a4[k] + c2 * a2[k];
        }
        out.iter_mut().step_by(n + 1).for_each(|v| *v += T::near(b0));
    };
    let side = |from: usize, sum: &mut [T], out: &mut [T]| {
        polynomial([0.0, PADE[from + 8], PADE[from + 10], PADE[from + 12]], sum);
        product(n, &a6, sum, out);
        polynomial([PADE[from], PADE[from + 2], PADE[from + 4], PADE[from + 6]], sum);
        out.iter_mut().zip(sum).for_each(|(out, sum)| *out += *sum);
    };
    side(1, &mut sum, &mut even);
    product(n, &a, &even, &mut odd);
    side(0, &mut sum, &mut even);
    // (even − odd)·y = even + odd.
    for k in 0..n * n {
        y[k] = even[k] + odd[k];
        even[k] -= odd[k];
    }
    divide(n, &mut even, y);
    for _ in 0..squarings {
        product(n, y, y, &mut sum);
        y.copy_from_slice(&sum);
    }
}

/// `a⁻¹·y` in place of `y`, by columns; `a` is overwritten.
fn divide<T: Float>(n: usize, a: &mut [T], y: &mut [T]) {
    let (mut order, mut back) = (crate::stop::room(0usize, n), crate::stop::room(0usize, n));
    let mut room = Room::new(lu::lu_in_place_scratch::<usize, T>(n, n, Par::Seq, Spec::default()));
    let mut a = MatMut::from_column_major_slice_mut(a, n, n);
    let (target, stack) = (a.rb_mut(), room.stack());
    let (_, order) =
        lu::lu_in_place(target, &mut order, &mut back, Par::Seq, stack, Spec::default());
    let mut room = Room::new(lu_solve::solve_in_place_scratch::<usize, T>(n, n, Par::Seq));
    let y = MatMut::from_column_major_slice_mut(y, n, n);
    lu_solve::solve_in_place(a.rb(), a.rb(), order, y, Par::Seq, room.stack());
}
