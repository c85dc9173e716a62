//! Orthogonal factors.

use super::{Float, Matrices, Room, all_finite, blocks, each, matrix, transpose};
use faer::linalg::householder;
use faer::linalg::qr::no_pivoting::factor;
use faer::{Conj, MatMut, MatRef, Par, Spec};

/// `q·r = x` for each `x` of so many rows and columns, with orthogonal columns in `q` and an upper
/// triangular `r` whose diagonal is not negative. `q` has as many columns as `r` has rows: as many as `x`
/// if `complete`, else as many as its smaller side.
pub(super) fn qr<T: Float>(
    [rows, columns]: [usize; 2],
    complete: bool,
    x: &[T],
    q: &mut [T],
    r: &mut [T],
) {
    let short = rows.min(columns);
    let inner = if complete { rows } else { short };
    let count = match (rows * inner, inner * columns) {
        (0, 0) => return,
        (0, size) => r.len() / size,
        (size, _) => q.len() / size,
    };
    let (size, q, r) =
        (rows * columns, Matrices::new(q, rows * inner), Matrices::new(r, inner * columns));
    let done = each(count, size * short + rows * inner * short, &|i| {
        let x = &x[i * size..(i + 1) * size];
        // SAFETY: each task asks for its own.
        let (q, r) = unsafe { (q.get(i), r.get(i)) };
        if !all_finite(x) {
            q.fill(T::NOT);
            r.fill(T::NOT);
            return Ok(());
        }
        if short >= blocks::FROM {
            let mut factors = matrix(rows, columns);
            factors.copy_from_slice(x);
            blocks::qr(rows, columns, &mut factors, inner, q);
            r.fill(T::ZERO);
            let turned = |k: usize| factors[k * columns + k] < T::ZERO;
            for k in 0..short {
                let (from, to) = (k * columns + k, (k + 1) * columns);
                let values = r[from..to].iter_mut().zip(&factors[from..to]);
                values.for_each(|(r, &v)| *r = if turned(k) { -v } else { v });
            }
            let signs: Vec<bool> = (0..short).map(turned).collect();
            for row in q.chunks_mut(inner) {
                let turned = row.iter_mut().zip(&signs).filter(|(_, turned)| **turned);
                turned.for_each(|(v, _)| *v = -*v);
            }
            return Ok(());
        }
        let mut by_columns = matrix(columns, rows);
        transpose(rows, columns, x, &mut by_columns);
        let block = factor::recommended_block_size::<T>(rows, columns);
        let mut factors = matrix(block, short);
        if short > 0 {
            let need =
                factor::qr_in_place_scratch::<T>(rows, columns, block, Par::Seq, Spec::default());
            let x = MatMut::from_column_major_slice_mut(&mut by_columns, rows, columns);
            let factors = MatMut::from_column_major_slice_mut(&mut factors, block, short);
            let mut room = Room::new(need);
            factor::qr_in_place(x, factors, Par::Seq, room.stack(), Spec::default());
        }
        let mut q_columns = matrix(inner, rows);
        q_columns.iter_mut().step_by(rows + 1).for_each(|v| *v = T::near(1.0));
        if short > 0 {
            let x = MatRef::from_column_major_slice(&by_columns, rows, columns);
            let x = x.subcols(0, short);
            let factors = MatRef::from_column_major_slice(&factors, block, short);
            let need = householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<
                T,
            >(rows, block, inner);
            let mut room = Room::new(need);
            let q = MatMut::from_column_major_slice_mut(&mut q_columns, rows, inner);
            householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
                x,
                factors,
                Conj::No,
                q,
                Par::Seq,
                room.stack(),
            );
        }
        // The sign of each row of r, and of q's column, is ours to choose.
        r.fill(T::ZERO);
        for k in 0..short {
            let turned = by_columns[k * rows + k] < T::ZERO;
            for j in k..columns {
                let v = by_columns[j * rows + k];
                r[k * columns + j] = if turned { -v } else { v };
            }
            if turned {
                q_columns[k * rows..(k + 1) * rows].iter_mut().for_each(|v| *v = -*v);
            }
        }
        transpose(inner, rows, &q_columns, q);
        Ok(())
    });
    debug_assert_eq!(done, Ok(()));
}
