//! Eigenvalues and singular values, and their vectors.

use super::{Float, Matrices, Refusal, Refused, Room, all_finite, each, matrix, scale};
use super::{symmetric, transpose};
use faer::diag::DiagMut;
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self as faer_svd, ComputeSvdVectors};
use faer::{MatMut, MatRef, Par, Spec};

/// What the vectors' signs go by: the first number of a vector that is at least so much of its largest
/// is positive. (Not half of it, nor another ratio that whole numbers often have.)
const LEADING: f64 = 0.7;

/// Whether a vector's sign is to be changed.
fn turned<T: Float>(vector: &[T]) -> bool {
    let largest = vector.iter().fold(T::ZERO, |m, v| if v.size() > m { v.size() } else { m });
    let bound = largest * T::near(LEADING);
    vector.iter().find(|v| v.size() >= bound).is_some_and(|v| *v < T::ZERO)
}

fn turn<T: Float>(vector: &mut [T]) {
    vector.iter_mut().for_each(|v| *v = -*v);
}

/// The eigenvalues of the symmetric part of each `x`, in ascending order, and in the columns of `vectors`
/// their vectors. Refused is what they are not found of, which has not been seen.
pub(super) fn eigh<T: Float>(
    n: usize,
    x: &[T],
    values: &mut [T],
    vectors: &mut [T],
) -> Result<(), Refused> {
    if n == 0 {
        return Ok(());
    }
    let (size, count) = (n * n, x.len() / (n * n));
    let (values, vectors) = (Matrices::new(values, n), Matrices::new(vectors, size));
    each(count, 4 * size * n, &|i| {
        // SAFETY: each task asks for its own.
        let (values, vectors) = unsafe { (values.get(i), vectors.get(i)) };
        let mut found = matrix(n, n);
        if !eigen(n, &x[i * size..(i + 1) * size], values, Some(&mut found))? {
            vectors.fill(T::NOT);
            return Ok(());
        }
        for vector in found.chunks_mut(n) {
            if turned(vector) {
                turn(vector);
            }
        }
        transpose(n, n, &found, vectors);
        Ok(())
    })
}

/// The eigenvalues that [`eigh`] finds, to rounding.
pub(super) fn eigvalsh<T: Float>(n: usize, x: &[T], values: &mut [T]) -> Result<(), Refused> {
    if n == 0 {
        return Ok(());
    }
    let (size, count) = (n * n, x.len() / (n * n));
    let values = Matrices::new(values, n);
    each(count, size * n, &|i| {
        // SAFETY: each task asks for its own.
        let values = unsafe { values.get(i) };
        eigen(n, &x[i * size..(i + 1) * size], values, None).map(|_| ())
    })
}

/// The eigenvalues of one matrix, and its vectors by columns; false if there is a number in it that is not
/// finite.
fn eigen<T: Float>(
    n: usize,
    x: &[T],
    values: &mut [T],
    vectors: Option<&mut [T]>,
) -> Result<bool, Refusal> {
    let mut even = matrix(n, n);
    if !symmetric(n, x, &mut even) {
        values.fill(T::NOT);
        return Ok(false);
    }
    let factor = scale(&even);
    even.iter_mut().for_each(|v| *v *= factor);
    let wanted = match vectors {
        Some(_) => ComputeEigenvectors::Yes,
        None => ComputeEigenvectors::No,
    };
    let mut room =
        Room::new(evd::self_adjoint_evd_scratch::<T>(n, wanted, Par::Seq, Spec::default()));
    let even = MatRef::from_column_major_slice(&even, n, n);
    let vectors = vectors.map(|v| MatMut::from_column_major_slice_mut(v, n, n));
    let diagonal = DiagMut::from_slice_mut(values);
    evd::self_adjoint_evd(even, diagonal, vectors, Par::Seq, room.stack(), Spec::default())
        .map_err(|_| Refusal)?;
    values.iter_mut().for_each(|v| *v /= factor);
    Ok(true)
}

/// What `svd` writes.
pub struct Svd<'a, T> {
    /// The left vectors, in columns.
    pub u: &'a mut [T],
    /// The singular values, in descending order.
    pub s: &'a mut [T],
    /// The right vectors, in rows.
    pub vh: &'a mut [T],
}

/// `u·s·vh = x` for each `x` of so many rows and columns, with as many vectors as it has singular values,
/// or `full` bases of both spaces. Refused is what they are not found of, which has not been seen.
pub(super) fn svd<T: Float>(
    [rows, columns]: [usize; 2],
    full: bool,
    x: &[T],
    out: Svd<'_, T>,
) -> Result<(), Refused> {
    let (size, short) = (rows * columns, rows.min(columns));
    let [left, right] = if full { [rows, columns] } else { [short, short] };
    let count = match (rows * left, right * columns) {
        (0, 0) => return Ok(()),
        (0, size) => out.vh.len() / size,
        (size, _) => out.u.len() / size,
    };
    let (u, s) = (Matrices::new(out.u, rows * left), Matrices::new(out.s, short));
    let vh = Matrices::new(out.vh, right * columns);
    each(count, 8 * size * short, &|i| {
        // SAFETY: each task asks for its own.
        let (u, s, vh) = unsafe { (u.get(i), s.get(i), vh.get(i)) };
        let x = &x[i * size..(i + 1) * size];
        let mut by_columns = matrix(left, rows);
        if !singular([rows, columns], full, x, s, Some([&mut by_columns, vh]))? {
            u.fill(T::NOT);
            vh.fill(T::NOT);
            return Ok(());
        }
        for (k, vector) in by_columns.chunks_mut(rows.max(1)).enumerate() {
            if turned(vector) {
                turn(vector);
                if k < short {
                    turn(&mut vh[k * columns..(k + 1) * columns]);
                }
            }
        }
        for vector in vh.chunks_mut(columns.max(1)).skip(short) {
            if turned(vector) {
                turn(vector);
            }
        }
        transpose(left, rows, &by_columns, u);
        Ok(())
    })
}

/// The singular values that [`svd`] finds, to rounding.
pub(super) fn svdvals<T: Float>(
    [rows, columns]: [usize; 2],
    x: &[T],
    s: &mut [T],
) -> Result<(), Refused> {
    let (size, short) = (rows * columns, rows.min(columns));
    if short == 0 {
        return Ok(());
    }
    let (count, s) = (s.len() / short, Matrices::new(s, short));
    each(count, 3 * size * short, &|i| {
        // SAFETY: each task asks for its own.
        let s = unsafe { s.get(i) };
        singular([rows, columns], false, &x[i * size..(i + 1) * size], s, None).map(|_| ())
    })
}

/// The singular values of one matrix, and its vectors by columns; false if there is a number in it that is
/// not finite.
fn singular<T: Float>(
    [rows, columns]: [usize; 2],
    full: bool,
    x: &[T],
    s: &mut [T],
    vectors: Option<[&mut [T]; 2]>,
) -> Result<bool, Refusal> {
    if !all_finite(x) {
        s.fill(T::NOT);
        return Ok(false);
    }
    let factor = scale(x);
    let mut scaled = matrix(rows, columns);
    scaled.iter_mut().zip(x).for_each(|(y, &x)| *y = x * factor);
    let wanted = match (&vectors, full) {
        (None, _) => ComputeSvdVectors::No,
        (_, false) => ComputeSvdVectors::Thin,
        (_, true) => ComputeSvdVectors::Full,
    };
    let need = faer_svd::svd_scratch::<T>(rows, columns, wanted, wanted, Par::Seq, Spec::default());
    let mut room = Room::new(need);
    let x = MatRef::from_row_major_slice(&scaled, rows, columns);
    let (mut u, mut v) = (None, None);
    if let Some([left, right]) = vectors {
        // faer (0.24) does not write all of a complete basis of a matrix that is much longer than wide.
        left.fill(T::ZERO);
        right.fill(T::ZERO);
        let (k, l) = (left.len() / rows.max(1), right.len() / columns.max(1));
        u = Some(MatMut::from_column_major_slice_mut(left, rows, k));
        v = Some(MatMut::from_column_major_slice_mut(right, columns, l));
    }
    let diagonal = DiagMut::from_slice_mut(s);
    faer_svd::svd(x, diagonal, u, v, Par::Seq, room.stack(), Spec::default())
        .map_err(|_| Refusal)?;
    s.iter_mut().for_each(|v| *v /= factor);
    Ok(true)
}
