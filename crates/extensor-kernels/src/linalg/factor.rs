//! Triangular factors, and what is solved with them.

use super::{Float, Matrices, Refusal, Refused, Room, all_finite, each, matrix, symmetric};
use super::{blocks, transpose_in_place};
use crate::par::parallel_for;
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::lu::partial_pivoting::{factor as lu, solve as lu_solve};
use faer::linalg::triangular_solve as triangular;
use faer::perm::PermRef;
use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef, Par, Spec};
use std::sync::Mutex;

/// The lower triangular `y` with `y·yᵀ` the symmetric part of each `x`, or its transpose if `upper`.
/// Refused is what is not positive definite.
pub(super) fn cholesky<T: Float>(
    n: usize,
    upper: bool,
    x: &[T],
    y: &mut [T],
) -> Result<(), Refused> {
    if n == 0 {
        return Ok(());
    }
    let (size, count) = (n * n, x.len() / (n * n));
    let y = Matrices::new(y, size);
    each(count, size * n, &|i| {
        // SAFETY: each task asks for its own.
        let y = unsafe { y.get(i) };
        if !symmetric(n, &x[i * size..(i + 1) * size], y) {
            y.fill(T::NOT);
            return Ok(());
        }
        if n >= blocks::FROM {
            blocks::cholesky(n, y)?;
            for row in 0..n {
                y[row * n + row + 1..(row + 1) * n].fill(T::ZERO);
            }
            if upper {
                transpose_in_place(n, y);
            }
            return Ok(());
        }
        let mut room = Room::new(llt::cholesky_in_place_scratch::<T>(n, Par::Seq, Spec::default()));
        // By columns the lower triangle is what the upper one is by rows.
        let target = MatMut::from_column_major_slice_mut(y, n, n);
        let stack = room.stack();
        llt::cholesky_in_place(target, Default::default(), Par::Seq, stack, Spec::default())
            .map_err(|_| Refusal)?;
        for row in 1..n {
            y[row * n..row * n + row].fill(T::ZERO);
        }
        if !upper {
            transpose_in_place(n, y);
        }
        Ok(())
    })
}

/// Which triangle of a matrix is read, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// The upper one, not the lower.
    pub upper: bool,
    /// Its transpose is what is meant.
    pub transposed: bool,
    /// Its diagonal is 1, whatever stands there.
    pub unit: bool,
}

/// Columns of a right side that are solved for at a time.
const COLUMNS: usize = 128;

/// `y` with `a·y = b` for each triangular `a` of `n` rows, and `b` with `columns` of them. Refused is an
/// `a` with 0 on its diagonal.
pub(super) fn solve_triangular<T: Float>(
    [n, columns]: [usize; 2],
    which: Triangle,
    a: &[T],
    b: &[T],
    y: &mut [T],
) -> Result<(), Refused> {
    if n == 0 {
        return Ok(());
    }
    let count = a.len() / (n * n);
    y.copy_from_slice(b);
    let y = Matrices::new(y, n * columns);
    each(count, n * n * columns, &|i| {
        let a = &a[i * n * n..(i + 1) * n * n];
        // SAFETY: each task asks for its own.
        let y = unsafe { y.get(i) };
        let row = |r: usize| {
            let within = if which.upper { r..n } else { 0..r + 1 };
            let skip = usize::from(which.unit);
            let row = &a[r * n..(r + 1) * n][within];
            if which.upper { &row[skip..] } else { &row[..row.len() - skip] }
        };
        if !(0..n).all(|r| all_finite(row(r))) {
            y.fill(T::NOT);
            return Ok(());
        }
        if !which.unit && (0..n).any(|r| a[r * n + r] == T::ZERO) {
            return Err(Refusal);
        }
        let a = MatRef::from_row_major_slice(a, n, n);
        let (a, upper) =
            if which.transposed { (a.transpose(), !which.upper) } else { (a, which.upper) };
        let mut y = MatMut::from_row_major_slice_mut(y, n, columns);
        for first in (0..columns).step_by(COLUMNS) {
            let y = y.rb_mut().subcols_mut(first, COLUMNS.min(columns - first));
            match (upper, which.unit) {
                (false, false) => triangular::solve_lower_triangular_in_place(a, y, Par::Seq),
                (false, true) => triangular::solve_unit_lower_triangular_in_place(a, y, Par::Seq),
                (true, false) => triangular::solve_upper_triangular_in_place(a, y, Par::Seq),
                (true, true) => triangular::solve_unit_upper_triangular_in_place(a, y, Par::Seq),
            }
        }
        Ok(())
    })
}

/// The factors of a matrix's transpose, `p·aᵀ = l·u`: by columns the transpose lies as the matrix does
/// by rows, and nothing is moved.
pub(super) struct Factors<T> {
    n: usize,
    both: Vec<T>,
    order: Vec<usize>,
    back: Vec<usize>,
    /// How many rows were exchanged on the way.
    pub exchanges: usize,
}

impl<T: Float> Factors<T> {
    pub(super) fn new(n: usize, a: &[T]) -> Factors<T> {
        let mut both = matrix(n, n);
        both.copy_from_slice(a);
        let (mut order, mut back) = (crate::stop::room(0, n), crate::stop::room(0, n));
        if n >= blocks::FROM {
            let exchanges = blocks::lu(n, &mut both, &mut order);
            order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
            return Factors { n, both, order, back, exchanges };
        }
        let need = lu::lu_in_place_scratch::<usize, T>(n, n, Par::Seq, Spec::default());
        let mut room = Room::new(need);
        let target = MatMut::from_column_major_slice_mut(&mut both, n, n);
        let stack = room.stack();
        let (info, _) =
            lu::lu_in_place(target, &mut order, &mut back, Par::Seq, stack, Spec::default());
        Factors { n, both, order, back, exchanges: info.transposition_count }
    }

    pub(super) fn diagonal(&self) -> impl Iterator<Item = T> {
        self.both.iter().step_by(self.n + 1).copied()
    }

    /// `a⁻¹` times `y`, in its place.
    pub(super) fn solve(&self, columns: usize, y: &mut [T]) -> Result<(), Refusal> {
        let n = self.n;
        if self.diagonal().any(|v| v == T::ZERO) {
            return Err(Refusal);
        }
        let both = MatRef::from_column_major_slice(&self.both, n, n);
        let order = PermRef::new_checked(&self.order, &self.back, n);
        let mut rest = MatMut::from_row_major_slice_mut(y, n, columns);
        let mut parts = Vec::with_capacity(columns.div_ceil(COLUMNS));
        while rest.ncols() > 0 {
            let next = COLUMNS.min(rest.ncols());
            let (part, after) = rest.split_at_col_mut(next);
            parts.push(Mutex::new(part));
            rest = after;
        }
        parallel_for(parts.len(), &|i| {
            let mut y = parts[i].lock().unwrap_or_else(|e| e.into_inner());
            let need =
                lu_solve::solve_transpose_in_place_scratch::<usize, T>(n, y.ncols(), Par::Seq);
            let mut room = Room::new(need);
            lu_solve::solve_transpose_in_place(
                both,
                both,
                order,
                y.rb_mut(),
                Par::Seq,
                room.stack(),
            );
        });
        Ok(())
    }
}

/// `y` with `a·y = b` for each `a` of `n` rows, and `b` with `columns` of them. Refused is a singular `a`.
pub(super) fn solve<T: Float>(
    [n, columns]: [usize; 2],
    a: &[T],
    b: &[T],
    y: &mut [T],
) -> Result<(), Refused> {
    y.copy_from_slice(b);
    solve_in_place([n, columns], a, y)
}

/// The inverse of each matrix. Refused is a singular one.
pub(super) fn inverse<T: Float>(n: usize, a: &[T], y: &mut [T]) -> Result<(), Refused> {
    y.fill(T::ZERO);
    for y in y.chunks_mut((n * n).max(1)) {
        y.iter_mut().step_by(n + 1).for_each(|y| *y = T::near(1.0));
    }
    solve_in_place([n, n], a, y)
}

fn solve_in_place<T: Float>([n, columns]: [usize; 2], a: &[T], y: &mut [T]) -> Result<(), Refused> {
    if n == 0 {
        return Ok(());
    }
    let count = a.len() / (n * n);
    let y = Matrices::new(y, n * columns);
    each(count, n * n * (n + columns), &|i| {
        let a = &a[i * n * n..(i + 1) * n * n];
        // SAFETY: each task asks for its own.
        let y = unsafe { y.get(i) };
        if !all_finite(a) {
            y.fill(T::NOT);
            return Ok(());
        }
        Factors::new(n, a).solve(columns, y)
    })
}
