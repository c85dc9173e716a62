//! Large matrices, a panel of columns after the other: faer decomposes the panel, and what that does to the
//! rest is a product of matrices, this library's, on all threads.
//!
//! Which sizes are cut, and where, depends on sizes alone. This must not know what the factors are for.

use super::{Float, Refusal, Room, matrix};
use crate::gemm::{Dims, Matrix};
use crate::par::parallel_chunks;
use crate::stop;
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::lu::partial_pivoting::factor as lu;
use faer::linalg::qr::no_pivoting::factor as qr;
use faer::linalg::triangular_solve as triangular;
use faer::{MatMut, MatRef, Par, Spec};

/// Matrices of fewer rows or columns are left to faer alone.
pub(super) const FROM: usize = 256;
/// Columns of a panel.
const PANEL: usize = 64;
/// Rows that one task solves for a panel's triangle.
const ROWS: usize = 64;

/// `x·lᵀ = row` for the numbers from column `first` on of each row of `n`, in their place, for the lower
/// triangular `l`.
fn solve_rows<T: Float>(l: MatRef<'_, T>, unit: bool, rows: &mut [T], n: usize, first: usize) {
    parallel_chunks(rows, ROWS * n, &|_, rows| {
        let count = rows.len() / n;
        // Each row as a column.
        let part = &mut rows[first..];
        let x = MatMut::from_column_major_slice_with_stride_mut(part, l.nrows(), count, n);
        if unit {
            triangular::solve_unit_lower_triangular_in_place(l, x, Par::Seq);
        } else {
            triangular::solve_lower_triangular_in_place(l, x, Par::Seq);
        }
    });
}

/// The symmetric matrix's lower Cholesky factor, in the place of its lower triangle.
pub(super) fn cholesky<T: Float>(n: usize, y: &mut [T]) -> Result<(), Refusal> {
    let mut sums = matrix(n, PANEL.min(n));
    for k in (0..n).step_by(PANEL) {
        let (b, rest) = (PANEL.min(n - k), n - k);
        if k > 0 {
            let before = Matrix { data: &*y, offset: k * n, row_stride: n as isize, col_stride: 1 };
            let sums = &mut sums[..rest * b];
            let dims = Dims { m: rest, k, n: b };
            T::product(dims, before, before.transposed(), false, sums, b);
            for (row, sums) in y[k * n..].chunks_mut(n).zip(sums.chunks(b)) {
                row[k..k + b].iter_mut().zip(sums).for_each(|(y, &sum)| *y -= sum);
            }
        }
        let mut own = matrix(b, b);
        for (own, row) in own.chunks_mut(b).zip(y[k * n..].chunks(n)) {
            own.copy_from_slice(&row[k..k + b]);
        }
        let mut room = Room::new(llt::cholesky_in_place_scratch::<T>(b, Par::Seq, Spec::default()));
        // By columns the lower triangle is what the upper one is by rows.
        let target = MatMut::from_column_major_slice_mut(&mut own, b, b);
        let stack = room.stack();
        llt::cholesky_in_place(target, Default::default(), Par::Seq, stack, Spec::default())
            .map_err(|_| Refusal)?;
        for r in 0..b {
            for c in 0..=r {
                y[(k + r) * n + k + c] = own[c * b + r];
            }
        }
        let l = MatRef::from_column_major_slice(&own, b, b);
        solve_rows(l, false, &mut y[(k + b) * n..], n, k);
    }
    Ok(())
}

/// The factors of the transpose, `p·aᵀ = l·u`, of a square matrix that lies by rows: `order` gets which row
/// of the transpose each one was. Returns how many were exchanged.
pub(super) fn lu<T: Float>(n: usize, a: &mut [T], order: &mut [usize]) -> usize {
    order.iter_mut().enumerate().for_each(|(k, place)| *place = k);
    let [mut found, mut back] = [(); 2].map(|()| stop::room(0usize, n));
    let mut left = matrix(n, PANEL.min(n));
    let mut exchanges = 0;
    for k in (0..n).step_by(PANEL) {
        let (b, rest) = (PANEL.min(n - k), n - k);
        let (found, back) = (&mut found[..rest], &mut back[..rest]);
        let need = lu::lu_in_place_scratch::<usize, T>(rest, b, Par::Seq, Spec::default());
        let mut room = Room::new(need);
        let panel = &mut a[k * n + k..(k + b) * n];
        let panel = MatMut::from_column_major_slice_with_stride_mut(panel, rest, b, n);
        let (info, _) =
            lu::lu_in_place(panel, found, back, Par::Seq, room.stack(), Spec::default());
        exchanges += info.transposition_count;
        // What was moved in the panel is moved everywhere.
        let moved: Vec<(usize, usize)> =
            found.iter().copied().enumerate().filter(|&(to, from)| to != from).collect();
        let exchange = |part: &mut [T], aside: &mut Vec<T>| {
            aside.clear();
            aside.extend(moved.iter().map(|&(_, from)| part[from]));
            moved.iter().zip(aside.iter()).for_each(|(&(to, _), &value)| part[to] = value);
        };
        let from: Vec<usize> = moved.iter().map(|&(_, from)| order[k + from]).collect();
        moved.iter().zip(from).for_each(|(&(to, _), from)| order[k + to] = from);
        let mut aside = Vec::with_capacity(2 * b);
        a[..k * n].chunks_mut(n).for_each(|row| exchange(&mut row[k..], &mut aside));
        let (above, below) = a.split_at_mut((k + b) * n);
        if below.is_empty() {
            break;
        }
        parallel_chunks(below, ROWS * n, &|_, rows| {
            let mut aside = Vec::with_capacity(2 * b);
            rows.chunks_mut(n).for_each(|row| exchange(&mut row[k..], &mut aside));
        });
        let own = &above[k * n + k..];
        let l = MatRef::from_column_major_slice_with_stride(&own[..(b - 1) * n + b], b, b, n);
        solve_rows(l, true, below, n, k);
        let m = rest - b;
        let left = &mut left[..m * b];
        for (left, row) in left.chunks_mut(b).zip(below.chunks(n)) {
            left.iter_mut().zip(&row[k..k + b]).for_each(|(left, &v)| *left = -v);
        }
        let right = Matrix { data: own, offset: b, row_stride: n as isize, col_stride: 1 };
        let dims = Dims { m, k: b, n: m };
        T::product(dims, Matrix::row_major(left, b), right, true, &mut below[k + b..], n);
    }
    exchanges
}

/// `1 − v·t⁻¹·vᵀ`: a product of reflections that leaves the rows before `first` alone.
struct Reflections<T> {
    first: usize,
    /// How many rows it changes, and of how many reflections it is the product.
    rows: usize,
    count: usize,
    /// Its columns, one after the other.
    v: Vec<T>,
    /// The upper triangular matrix, by columns.
    t: Vec<T>,
}

impl<T: Float> Reflections<T> {
    /// This times the columns from `from` on of `y`, which has so many; or its transpose.
    fn apply(&self, transposed: bool, y: &mut [T], columns: usize, from: usize, room: &mut [T]) {
        let (m, b, n) = (self.rows, self.count, columns - from);
        if n == 0 {
            return;
        }
        let v = Matrix::row_major(&self.v, m);
        let within = self.first * columns + from;
        let rest =
            Matrix { data: &*y, offset: within, row_stride: columns as isize, col_stride: 1 };
        let room = &mut room[..b * n];
        T::product(Dims { m: b, k: m, n }, v, rest, false, room, n);
        let t = MatRef::from_column_major_slice(&self.t, b, b);
        let x = MatMut::from_row_major_slice_mut(room, b, n);
        if transposed {
            triangular::solve_lower_triangular_in_place(t.transpose(), x, Par::Seq);
        } else {
            triangular::solve_upper_triangular_in_place(t, x, Par::Seq);
        }
        room.iter_mut().for_each(|v| *v = -*v);
        let right = Matrix::row_major(room, n);
        let dims = Dims { m, k: b, n };
        T::product(dims, v.transposed(), right, true, &mut y[within..], columns);
    }
}

/// `q·r = x`, with `r` in the place of `x` and above the diagonal of so many rows and columns; below it
/// is what was left there. `q` has so many columns.
pub(super) fn qr<T: Float>(rows: usize, columns: usize, x: &mut [T], inner: usize, q: &mut [T]) {
    let short = rows.min(columns);
    let mut room = matrix(PANEL, columns.max(inner));
    let mut all = Vec::with_capacity(short.div_ceil(PANEL));
    for first in (0..short).step_by(PANEL) {
        let (count, m) = (PANEL.min(short - first), rows - first);
        let (mut v, mut t) = (matrix(count, m), matrix(count, count));
        for (r, row) in x[first * columns..].chunks(columns).enumerate() {
            row[first..first + count].iter().enumerate().for_each(|(c, &x)| v[c * m + r] = x);
        }
        let need = qr::qr_in_place_scratch::<T>(m, count, count, Par::Seq, Spec::default());
        let panel = MatMut::from_column_major_slice_mut(&mut v, m, count);
        let factors = MatMut::from_column_major_slice_mut(&mut t, count, count);
        let mut memory = Room::new(need);
        qr::qr_in_place(panel, factors, Par::Seq, memory.stack(), Spec::default());
        for (c, v) in v.chunks_mut(m).enumerate() {
            for (r, value) in v[..=c].iter_mut().enumerate() {
                x[(first + r) * columns + first + c] = *value;
                *value = if r == c { T::near(1.0) } else { T::ZERO };
            }
        }
        let reflections = Reflections { first, rows: m, count, v, t };
        reflections.apply(true, x, columns, first + count, &mut room);
        all.push(reflections);
    }
    q.fill(T::ZERO);
    q.iter_mut().step_by(inner + 1).take(inner).for_each(|v| *v = T::near(1.0));
    for reflections in all.iter().rev() {
        // The columns before are those of the identity still, which it leaves alone.
        reflections.apply(false, q, inner, reflections.first, &mut room);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decompose, Triangle};
    use super::*;
    use crate::par::with_threads;

    /// Numbers without a pattern, from −1 to 1.
    fn numbers(count: usize) -> Vec<f64> {
        let mut state = 1u64;
        let next = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        (0..count).map(next).collect()
    }

    /// The largest difference of `a·b` of so many rows, depth and columns from `x`.
    fn off([m, k, n]: [usize; 3], a: &[f64], b: &[f64], x: &[f64]) -> f64 {
        let mut worst = 0.0f64;
        for i in 0..m {
            let mut sums = vec![0.0; n];
            for (&a, row) in a[i * k..(i + 1) * k].iter().zip(b.chunks(n)) {
                sums.iter_mut().zip(row).for_each(|(sum, &b)| *sum += a * b);
            }
            let row = sums.iter().zip(&x[i * n..]);
            worst = row.fold(worst, |worst, (sum, x)| worst.max((sum - x).abs()));
        }
        worst
    }

    fn transposed(rows: usize, columns: usize, x: &[f64]) -> Vec<f64> {
        (0..rows * columns).map(|at| x[at % rows * columns + at / rows]).collect()
    }

    fn on_any_threads<R: PartialEq + std::fmt::Debug>(f: impl Fn() -> R) -> R {
        let one = with_threads(1, &f);
        assert!(one == with_threads(3, &f), "the bits depend on the number of threads");
        one
    }

    #[test]
    fn a_cholesky_factor_in_blocks_is_one() {
        for n in [FROM, FROM + 1, FROM + 3 * PANEL + 5] {
            let a = numbers(n * n);
            let mut x = vec![0.0; n * n];
            f64::product(
                Dims { m: n, k: n, n },
                Matrix::row_major(&a, n),
                Matrix::row_major(&a, n).transposed(),
                false,
                &mut x,
                n,
            );
            (0..n).for_each(|i| x[i * n + i] += 1.0);
            let [lower, upper] = [false, true].map(|upper| {
                on_any_threads(|| {
                    let mut y = vec![f64::NAN; n * n];
                    f64::cholesky(n, upper, &x, &mut y).unwrap();
                    y
                })
            });
            assert_eq!(transposed(n, n, &lower), upper);
            assert!((0..n).all(|i| lower[i * n + i + 1..(i + 1) * n].iter().all(|&v| v == 0.0)));
            assert!(off([n, n, n], &lower, &upper, &x) < 1e-11 * n as f64);
            // Not positive definite, first seen in a late panel.
            x[n * n - 1] = -1.0;
            assert!(f64::cholesky(n, false, &x, &mut vec![0.0; n * n]).is_err());
        }
    }

    #[test]
    fn a_system_is_solved_in_blocks_whatever_rows_are_exchanged() {
        for (n, columns) in [(FROM, 1), (FROM + 1, 200), (FROM + 2 * PANEL + 7, 16)] {
            let mut a = numbers(n * n);
            // Rows that have to be exchanged, over panels too.
            (0..n).for_each(|i| a[i * n + i] = 0.0);
            (0..PANEL + 9).for_each(|i| a[i * n..i * n + PANEL].fill(1e-9 * i as f64));
            let x = numbers(n * columns);
            let mut b = vec![0.0; n * columns];
            f64::product(
                Dims { m: n, k: n, n: columns },
                Matrix::row_major(&a, n),
                Matrix::row_major(&x, columns),
                false,
                &mut b,
                columns,
            );
            let y = on_any_threads(|| {
                let mut y = vec![f64::NAN; n * columns];
                f64::solve([n, columns], &a, &b, &mut y).unwrap();
                y
            });
            assert!(off([n, n, columns], &a, &y, &b) < 1e-9, "{n}");
            let (mut sign, mut log) = ([0.0], [0.0]);
            f64::slogdet(n, &a, &mut sign, &mut log);
            // By an elimination of its own.
            let (mut left, mut expected, mut size) = (a.clone(), 1.0, 0.0);
            for k in 0..n {
                let most = |&i: &usize, &j: &usize| {
                    left[i * n + k].abs().total_cmp(&left[j * n + k].abs())
                };
                let p = (k..n).max_by(most).unwrap();
                if p != k {
                    (0..n).for_each(|j| left.swap(p * n + j, k * n + j));
                    expected = -expected;
                }
                expected *= left[k * n + k].signum();
                size += left[k * n + k].abs().ln();
                for i in k + 1..n {
                    let part = left[i * n + k] / left[k * n + k];
                    (k..n).for_each(|j| left[i * n + j] -= part * left[k * n + j]);
                }
            }
            assert_eq!(sign[0], expected, "{n}");
            assert!((log[0] - size).abs() < 1e-8, "{} {size}", log[0]);
            // A column of nothing makes it singular.
            (0..n).for_each(|i| a[i * n + FROM / 2] = 0.0);
            assert!(f64::solve([n, columns], &a, &b, &mut vec![0.0; n * columns]).is_err());
        }
    }

    #[test]
    fn orthogonal_factors_in_blocks_are_some() {
        let sizes = [(FROM, FROM), (FROM + PANEL + 3, FROM + 9), (FROM + 1, FROM + 2 * PANEL + 1)];
        for ((rows, columns), complete) in sizes.into_iter().flat_map(|s| [(s, false), (s, true)]) {
            let inner = if complete { rows } else { rows.min(columns) };
            let mut x = numbers(rows * columns);
            // A column that is nothing, and one like another.
            (0..rows).for_each(|i| x[i * columns + 70] = 0.0);
            (0..rows).for_each(|i| x[i * columns + 90] = x[i * columns + 3]);
            let (q, r) = on_any_threads(|| {
                let (mut q, mut r) =
                    (vec![f64::NAN; rows * inner], vec![f64::NAN; inner * columns]);
                f64::qr([rows, columns], complete, &x, &mut q, &mut r);
                (q, r)
            });
            assert!(off([rows, inner, columns], &q, &r, &x) < 1e-11);
            let one: Vec<f64> =
                (0..inner * inner).map(|at| f64::from(at / inner == at % inner)).collect();
            assert!(off([inner, rows, inner], &transposed(rows, inner, &q), &q, &one) < 1e-12);
            for (k, row) in r.chunks(columns).enumerate() {
                assert!(row[..k.min(columns)].iter().all(|&v| v == 0.0));
                assert!(k >= columns || row[k] >= 0.0);
            }
        }
    }

    #[test]
    fn a_triangle_is_found_by_every_solver_the_same() {
        let n = FROM + 30;
        let mut a = numbers(n * n);
        for i in 0..n {
            a[i * n..(i + 1) * n].iter_mut().for_each(|v| *v /= n as f64);
            a[i * n + i] = 1.0;
            a[i * n + i + 1..(i + 1) * n].fill(0.0);
        }
        let b = numbers(n * 3);
        let [mut y, mut z] = [(); 2].map(|()| vec![0.0; n * 3]);
        f64::solve([n, 3], &a, &b, &mut y).unwrap();
        let which = Triangle { upper: false, transposed: false, unit: false };
        f64::solve_triangular([n, 3], which, &a, &b, &mut z).unwrap();
        assert!(y.iter().zip(&z).all(|(y, z)| (y - z).abs() < 1e-12));
    }
}
