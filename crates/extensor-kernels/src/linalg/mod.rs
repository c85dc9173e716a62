//! Decompositions of matrices, one at a time, a batch of them in parallel.
//!
//! Matrices lie in row-major order, one after the other. The decompositions are faer's, on one thread, in
//! memory that is asked for first; of a large matrix some are made panel by panel (`blocks`). What they cannot do (a matrix that is singular, one that is not positive
//! definite) is a value: the number of the first such matrix. Work is cut by sizes alone, so that the
//! bits do not depend on the number of threads. A matrix with a number in it that is not finite gives NaN.

mod blocks;
mod determinant;
mod expm;
mod factor;
mod orthogonal;
mod spectral;

pub use factor::Triangle;
pub use spectral::Svd;

use crate::gemm;
use crate::native::Native;
use crate::par::{Shared, parallel_for};
use crate::stop;
use faer::dyn_stack::{MemStack, StackReq};
use faer::traits::RealField;
use std::mem::MaybeUninit;
use std::ops::{Add, Div, Mul, Neg, Sub, SubAssign};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What matrices are made of: `f32` and `f64`.
trait Float:
    RealField
    + Native
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + SubAssign
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// What is not a number.
    const NOT: Self;
    /// Itself in `f64`.
    fn wide(self) -> f64;
    /// The nearest to a number of `f64`.
    fn near(x: f64) -> Self;
    /// Its size.
    fn size(self) -> Self;
    /// [`gemm::matmul`].
    fn product(
        dims: gemm::Dims,
        a: gemm::Matrix<'_, Self>,
        b: gemm::Matrix<'_, Self>,
        accumulate: bool,
        c: &mut [Self],
        c_row_stride: usize,
    );
}

macro_rules! float {
    ($($t:ident),*) => {$(
        impl Float for $t {
            const NOT: Self = $t::NAN;
            fn wide(self) -> f64 {
                self.into()
            }
            fn near(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn size(self) -> Self {
                self.abs()
            }
            fn product(
                dims: gemm::Dims,
                a: gemm::Matrix<'_, $t>,
                b: gemm::Matrix<'_, $t>,
                accumulate: bool,
                c: &mut [$t],
                c_row_stride: usize,
            ) {
                gemm::matmul(dims, a, b, accumulate, c, c_row_stride);
            }
        }
    )*};
}
float!(f32, f64);

/// What is done to batches of matrices of `f32` and of `f64`. Both are compiled here, once.
pub trait Decompose: Native {
    /// The lower triangular `y` with `y·yᵀ` the symmetric part of each `x` of `n` rows, or its transpose if
    /// `upper`. Refused is what is not positive definite.
    fn cholesky(n: usize, upper: bool, x: &[Self], y: &mut [Self]) -> Result<(), Refused>;
    /// `y` with `a·y = b` for each triangular `a` of so many rows, and `b` with so many columns. Refused is
    /// an `a` with 0 on its diagonal.
    fn solve_triangular(
        size: [usize; 2],
        which: Triangle,
        a: &[Self],
        b: &[Self],
        y: &mut [Self],
    ) -> Result<(), Refused>;
    /// `y` with `a·y = b` for each `a` of so many rows, and `b` with so many columns. Refused is a singular
    /// `a`.
    fn solve(size: [usize; 2], a: &[Self], b: &[Self], y: &mut [Self]) -> Result<(), Refused>;
    /// The inverse of each matrix. Refused is a singular one.
    fn inverse(n: usize, a: &[Self], y: &mut [Self]) -> Result<(), Refused>;
    /// The determinant of each matrix.
    fn det(n: usize, a: &[Self], y: &mut [Self]);
    /// The derivative of each matrix's determinant, which any matrix has: the determinants of what is left
    /// without a row and a column, with their signs.
    fn cofactors(n: usize, a: &[Self], y: &mut [Self]) -> Result<(), Refused>;
    /// The sign of each matrix's determinant, and the logarithm of its size: 0 and −∞ for a singular one.
    fn slogdet(n: usize, a: &[Self], sign: &mut [Self], log: &mut [Self]);
    /// `q·r = x` for each `x` of so many rows and columns, with orthogonal columns in `q` and an upper
    /// triangular `r` whose diagonal is not negative. `q` has as many columns as `r` has rows: as many as
    /// `x` if `complete`, else as many as its smaller side.
    fn qr(size: [usize; 2], complete: bool, x: &[Self], q: &mut [Self], r: &mut [Self]);
    /// The eigenvalues of the symmetric part of each `x`, in ascending order, and in the columns of
    /// `vectors` their vectors. Refused is what they are not found of, which has not been seen.
    fn eigh(n: usize, x: &[Self], values: &mut [Self], vectors: &mut [Self])
    -> Result<(), Refused>;
    /// The eigenvalues that [`eigh`](Decompose::eigh) finds, to rounding.
    fn eigvalsh(n: usize, x: &[Self], values: &mut [Self]) -> Result<(), Refused>;
    /// `u·s·vh = x` for each `x` of so many rows and columns, with as many vectors as it has singular
    /// values, or `full` bases of both spaces. Refused is what they are not found of, which has not been
    /// seen.
    fn svd(size: [usize; 2], full: bool, x: &[Self], out: Svd<'_, Self>) -> Result<(), Refused>;
    /// The singular values that [`svd`](Decompose::svd) finds, to rounding.
    fn svdvals(size: [usize; 2], x: &[Self], s: &mut [Self]) -> Result<(), Refused>;
    /// The exponential of each matrix.
    fn expm(n: usize, x: &[Self], y: &mut [Self]);
}

macro_rules! decompose {
    ($($t:ident),*) => {$(
        impl Decompose for $t {
            fn cholesky(n: usize, upper: bool, x: &[$t], y: &mut [$t]) -> Result<(), Refused> {
                factor::cholesky(n, upper, x, y)
            }
            fn solve_triangular(
                size: [usize; 2],
                which: Triangle,
                a: &[$t],
                b: &[$t],
                y: &mut [$t],
            ) -> Result<(), Refused> {
                factor::solve_triangular(size, which, a, b, y)
            }
            fn solve(size: [usize; 2], a: &[$t], b: &[$t], y: &mut [$t]) -> Result<(), Refused> {
                factor::solve(size, a, b, y)
            }
            fn inverse(n: usize, a: &[$t], y: &mut [$t]) -> Result<(), Refused> {
                factor::inverse(n, a, y)
            }
            fn det(n: usize, a: &[$t], y: &mut [$t]) {
                determinant::det(n, a, y)
            }
            fn cofactors(n: usize, a: &[$t], y: &mut [$t]) -> Result<(), Refused> {
                determinant::cofactors(n, a, y)
            }
            fn slogdet(n: usize, a: &[$t], sign: &mut [$t], log: &mut [$t]) {
                determinant::slogdet(n, a, sign, log)
            }
            fn qr(size: [usize; 2], complete: bool, x: &[$t], q: &mut [$t], r: &mut [$t]) {
                orthogonal::qr(size, complete, x, q, r)
            }
            fn eigh(
                n: usize,
                x: &[$t],
                values: &mut [$t],
                vectors: &mut [$t],
            ) -> Result<(), Refused> {
                spectral::eigh(n, x, values, vectors)
            }
            fn eigvalsh(n: usize, x: &[$t], values: &mut [$t]) -> Result<(), Refused> {
                spectral::eigvalsh(n, x, values)
            }
            fn svd(
                size: [usize; 2],
                full: bool,
                x: &[$t],
                out: Svd<'_, $t>,
            ) -> Result<(), Refused> {
                spectral::svd(size, full, x, out)
            }
            fn svdvals(size: [usize; 2], x: &[$t], s: &mut [$t]) -> Result<(), Refused> {
                spectral::svdvals(size, x, s)
            }
            fn expm(n: usize, x: &[$t], y: &mut [$t]) {
                expm::expm(n, x, y)
            }
        }
    )*};
}
decompose!(f32, f64);

/// The number of the first matrix of a batch that something cannot be done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub usize);

/// That it cannot be done with this one.
struct Refusal;

/// Multiplications that are worth handing a task out for.
const WORTH: usize = 1 << 17;

/// Runs `task` for each of `count` matrices, which takes so many multiplications.
fn each(
    count: usize,
    work: usize,
    task: &(dyn Fn(usize) -> Result<(), Refusal> + Sync),
) -> Result<(), Refused> {
    let together = (WORTH / work.max(1)).clamp(1, count.max(1));
    let first = AtomicUsize::new(usize::MAX);
    parallel_for(count.div_ceil(together), &|part| {
        for i in part * together..count.min((part + 1) * together) {
            if task(i).is_err() {
                first.fetch_min(i, Ordering::Relaxed);
            }
        }
    });
    match first.into_inner() {
        usize::MAX => Ok(()),
        first => Err(Refused(first)),
    }
}

/// Matrices to be written, each by a task of its own.
struct Matrices<T> {
    all: Shared<T>,
    size: usize,
    len: usize,
}

impl<T: Float> Matrices<T> {
    fn new(all: &mut [T], size: usize) -> Matrices<T> {
        Matrices { size, len: all.len(), all: Shared::new(all) }
    }

    /// # Safety
    /// No two tasks may ask for the same one.
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self, i: usize) -> &mut [T] {
        assert!((i + 1) * self.size <= self.len, "linalg: matrix {i} of {} numbers", self.len);
        // SAFETY: it lies within, and the caller says that nobody else has it.
        unsafe { self.all.part(i * self.size, (i + 1) * self.size) }
    }
}

/// Memory for a decomposition to work in.
struct Room(Vec<MaybeUninit<u8>>);

impl Room {
    fn new(need: StackReq) -> Room {
        Room(stop::room(MaybeUninit::new(0), need.unaligned_bytes_required()))
    }

    fn stack(&mut self) -> &mut MemStack {
        MemStack::new(&mut self.0)
    }
}

/// Room for a matrix.
fn matrix<T: Float>(rows: usize, columns: usize) -> Vec<T> {
    stop::room(T::ZERO, rows.saturating_mul(columns))
}

fn all_finite<T: Float>(x: &[T]) -> bool {
    // NaN spreads through a sum, and so does infinity times nothing.
    x.iter().fold(T::ZERO, |sum, &x| sum + x * T::ZERO) == T::ZERO
}

/// Rows and columns that are exchanged at a time.
const TILE: usize = 16;

/// The transpose of a matrix with so many rows and columns.
fn transpose<T: Float>(rows: usize, columns: usize, x: &[T], y: &mut [T]) {
    for i0 in (0..rows).step_by(TILE) {
        for j0 in (0..columns).step_by(TILE) {
            for i in i0..rows.min(i0 + TILE) {
                for j in j0..columns.min(j0 + TILE) {
                    y[j * rows + i] = x[i * columns + j];
                }
            }
        }
    }
}

/// A square matrix and its transpose exchanged.
fn transpose_in_place<T: Float>(n: usize, x: &mut [T]) {
    for i0 in (0..n).step_by(TILE) {
        for j0 in (i0..n).step_by(TILE) {
            for i in i0..n.min(i0 + TILE) {
                for j in j0.max(i + 1)..n.min(j0 + TILE) {
                    x.swap(i * n + j, j * n + i);
                }
            }
        }
    }
}

/// The symmetric part of a matrix, and whether all of it is finite.
fn symmetric<T: Float>(n: usize, x: &[T], y: &mut [T]) -> bool {
    let half = T::near(0.5);
    for i0 in (0..n).step_by(TILE) {
        for j0 in (i0..n).step_by(TILE) {
            for i in i0..n.min(i0 + TILE) {
                for j in j0.max(i)..n.min(j0 + TILE) {
                    let (a, b) = (x[i * n + j], x[j * n + i]);
                    let mean = if a == b { a } else { a * half + b * half };
                    y[i * n + j] = mean;
                    y[j * n + i] = mean;
                }
            }
        }
    }
    all_finite(y)
}

/// A power of two that brings the largest of these numbers near 1, so that nothing overflows on the way.
fn scale<T: Float>(x: &[T]) -> T {
    let largest = x.iter().fold(T::ZERO, |m, x| if x.size() > m { x.size() } else { m }).wide();
    // Only where it is called for: numbers of about 1 are left as they are.
    if largest == 0.0 || (1e-10..=1e10).contains(&largest) {
        return T::near(1.0);
    }
    let limit = if size_of::<T>() == 4 { 120.0 } else { 1000.0 };
    T::near(2f64.powi((-largest.log2().floor()).clamp(-limit, limit) as i32))
}
