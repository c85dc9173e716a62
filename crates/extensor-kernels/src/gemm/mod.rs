//! The matrix product, `C = A·B`, of strided matrices.
//!
//! Operands may have any strides; a transposed or broadcast operand costs what a plain one does.
//! There are four kernels:
//!
//! * `m == 1` or `n == 1`: `vector` reads the matrix once, at the speed of memory;
//! * small products: `direct` reads the operands where they lie;
//! * `bf16` numbers where the processor has a [`Unit`](crate::isa::Unit) for them: `pairs`;
//! * all others: `blocked` packs cache-size blocks through [`Source`] and shares tiles of C
//!   among the threads.
//!
//! Whether the first runs depends on the shape alone. `direct` and `blocked` compute the same: every
//! element of C is one chain of fused multiply-adds in the order of the depth. So a result depends on
//! the shape and the type, never on strides, alignment, threads or instruction set; but for products
//! of `bf16` numbers, which a unit sums up in `f32` in an order of its own. Nothing is skipped: zero
//! times infinity is NaN here too.

mod blocked;
mod cut;
mod direct;
mod element;
mod integer;
mod pack;
#[cfg(target_arch = "x86_64")]
pub(crate) mod pairs;
pub(crate) mod scratch;
pub(crate) mod simd;
mod software;
#[cfg(test)]
mod tests;
mod tile;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::isa;
use crate::par;
use crate::stop;
use blocked::Target;
pub use element::{Element, Real};
pub use integer::integers;
pub(crate) use pack::Strided;
pub use pack::{Panels, Source};
use std::marker::PhantomData;

/// How many partial sums a product with a vector keeps for each sum.
const VECTOR_LANES: usize = 16;

/// Multiply-adds up to which a product is computed without packing A: on one thread, and where other
/// threads would help to compute it in blocks, unless its depth is so small that packing takes longer.
const DIRECT: usize = 128 * 128 * 128;
const DIRECT_BESIDE_THREADS: usize = 80 * 80 * 80;
const SHALLOW: usize = 32;

/// Multiply-adds up to which `bf16` numbers are widened although there is a unit for them.
const WIDENED: usize = 1 << 9;

/// Rows from which a product with patches is computed by a unit: with fewer, packing takes longest, and
/// is faster without.
const ROWS_IN_PAIRS: usize = 4;

/// Multiply-adds of a batch below which it stays on the calling thread.
const PARALLEL_BATCH: usize = 1 << 17;

/// The extents of a product: A is `m` by `k`, B is `k` by `n`, C is `m` by `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of A, rows of B: the depth, which is summed over.
    pub k: usize,
    /// Columns of B and C.
    pub n: usize,
}

/// A matrix in a slice: element `(i, j)` is at `offset + i * row_stride + j * col_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    /// What holds the elements.
    pub data: &'a [T],
    /// Where element `(0, 0)` is.
    pub offset: usize,
    /// The way from a row to the next; may be negative or zero.
    pub row_stride: isize,
    /// The way from a column to the next; may be negative or zero.
    pub col_stride: isize,
}

impl<'a, T> Matrix<'a, T> {
    /// The matrix of `cols` columns whose rows follow each other in `data`.
    pub fn row_major(data: &'a [T], cols: usize) -> Self {
        Matrix { data, offset: 0, row_stride: cols as isize, col_stride: 1 }
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Matrix { row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// The matrix that begins `by` elements further on.
    fn moved(self, by: usize) -> Self {
        let offset = self.offset.checked_add(by).expect("an offset within memory");
        Matrix { offset, ..self }
    }

    /// # Panics
    /// If an element of a `rows` by `cols` matrix would lie outside the slice.
    #[inline]
    fn check(&self, name: &str, rows: usize, cols: usize) {
        if rows == 0 || cols == 0 {
            return;
        }
        let reach = |n: usize, stride: isize| (n as i128 - 1) * stride as i128;
        let (by_row, by_col) = (reach(rows, self.row_stride), reach(cols, self.col_stride));
        let first = self.offset as i128 + by_row.min(0) + by_col.min(0);
        let last = self.offset as i128 + by_row.max(0) + by_col.max(0);
        assert!(
            first >= 0 && last < self.data.len() as i128,
            "matrix {name} of {rows} by {cols} with strides {} and {} reaches elements {first} to \
             {last} of {}",
            self.row_stride,
            self.col_stride,
            self.data.len(),
        );
    }

    /// The rows as lanes of an operand.
    ///
    /// # Panics
    /// If the matrix is empty, or reaches outside its slice.
    pub(crate) fn lanes(&self, rows: usize, cols: usize) -> Strided<'a, T> {
        assert!(rows > 0 && cols > 0);
        self.check("of lanes", rows, cols);
        self.strided(rows, cols)
    }

    /// The rows as lanes. The matrix must have been checked, and not be empty.
    #[inline]
    fn strided(&self, rows: usize, cols: usize) -> Strided<'a, T> {
        Strided {
            first: self.data[self.offset..].as_ptr(),
            lanes: rows,
            depth: cols,
            lane_stride: self.row_stride,
            depth_stride: self.col_stride,
            borrow: PhantomData,
        }
    }
}

/// `C = A·B`, or `C += A·B` if `accumulate`; row `i` of C is the `n` elements of `c` from
/// `i * c_row_stride` on.
///
/// With `k == 0` the product is zero. Half-precision operands are multiplied and summed in `f32`
/// and rounded once.
///
/// # Panics
/// If an operand reaches outside its slice, or C outside `c`, or rows of C overlap.
pub fn matmul<T: Element>(
    dims: Dims,
    a: Matrix<T>,
    b: Matrix<T>,
    accumulate: bool,
    c: &mut [T],
    c_row_stride: usize,
) {
    let Dims { m, k, n } = dims;
    if m == 0 || n == 0 {
        return;
    }
    a.check("A", m, k);
    b.check("B", k, n);
    let reach = (m - 1).checked_mul(c_row_stride).and_then(|last| last.checked_add(n));
    assert!(
        (m == 1 || c_row_stride >= n) && reach.is_some_and(|reach| reach <= c.len()),
        "matrix C of {m} by {n} with rows {c_row_stride} apart does not fit in {} elements",
        c.len(),
    );
    let c = Target { first: c.as_mut_ptr(), row: c_row_stride, col: 1 };
    // SAFETY: C was found to lie in `c`, which is borrowed for this call alone.
    unsafe { T::product(dims, a, b, accumulate, c) };
}

/// [`matmul`] of operands that need not exist as matrices. Always computed in blocks.
///
/// # Panics
/// If an operand that lies in memory has not the extents in `dims`, if C reaches outside `c`, or if
/// rows of C overlap.
pub(crate) fn product_of<T: Element>(
    dims: Dims,
    a: &impl Source<T::Acc>,
    b: &impl Source<T::Acc>,
    accumulate: bool,
    c: &mut [T],
    c_row_stride: usize,
) {
    product_in::<T, T>(dims, a, b, accumulate, c, c_row_stride);
}

/// [`product_of`] operands whose numbers are of type `T`, not rounded to it.
///
/// # Panics
/// As for `product_of`.
pub(crate) fn sums_of<T: Element>(
    dims: Dims,
    a: &impl Source<T::Acc>,
    b: &impl Source<T::Acc>,
    accumulate: bool,
    c: &mut [T::Acc],
    c_row_stride: usize,
) {
    product_in::<T, T::Acc>(dims, a, b, accumulate, c, c_row_stride);
}

/// The product of operands whose numbers are of type `T`, in type `O`.
fn product_in<T: Element, O: Element<Acc = T::Acc>>(
    dims: Dims,
    a: &impl Source<O::Acc>,
    b: &impl Source<O::Acc>,
    accumulate: bool,
    c: &mut [O],
    c_row_stride: usize,
) {
    let Dims { m, k, n } = dims;
    if m == 0 || n == 0 {
        return;
    }
    assert!(a.in_place().is_none_or(|a| a.lanes >= m && a.depth >= k));
    assert!(b.in_place().is_none_or(|b| b.lanes >= n && b.depth >= k));
    let reach = (m - 1).checked_mul(c_row_stride).and_then(|last| last.checked_add(n));
    assert!((m == 1 || c_row_stride >= n) && reach.is_some_and(|reach| reach <= c.len()));
    if k == 0 {
        for row in c.chunks_mut(c_row_stride.max(1)).take(if accumulate { 0 } else { m }) {
            row[..n].fill(O::narrow(O::Acc::ZERO));
        }
        return;
    }
    let c = Target { first: c.as_mut_ptr(), row: c_row_stride, col: 1 };
    // SAFETY: C lies in `c`, which is borrowed for this call alone; operands in memory are as large
    // as they have to be, and others check what is asked of them. If `T` is `bf16`, so are the
    // numbers, and `O` is that or `f32`.
    unsafe {
        if T::PAIRS && m >= ROWS_IN_PAIRS {
            in_pairs(dims, a, b, accumulate, c);
        } else {
            blocked::product(dims, a, b, accumulate, c);
        }
    }
}

/// The product of operands whose numbers are all `bf16` numbers, by the unit that the machine has.
///
/// # Safety
/// `T` must be `bf16` or `f32`, no extent 0, and `c` be valid for `m` × `n` elements, in rows of
/// adjacent ones, that nobody else uses.
unsafe fn in_pairs<T: Element>(
    dims: Dims,
    a: &impl Source<T::Acc>,
    b: &impl Source<T::Acc>,
    accumulate: bool,
    c: Target<T>,
) {
    // SAFETY: the caller's promise; `unit` is what the machine has.
    unsafe {
        match isa::unit() {
            #[cfg(target_arch = "x86_64")]
            unit @ (isa::Unit::Bf16 | isa::Unit::Amx) => {
                pairs::product(unit, dims, a, b, accumulate, c);
            }
            _ => blocked::product(dims, a, b, accumulate, c),
        }
    }
}

/// Many products of one shape: `C[i] = A[i]·B[i]`, or `+=` if `accumulate`.
///
/// `A[i]` is `a` moved on by `a_offsets[i]` elements, `B[i]` likewise; offsets may repeat. The
/// `C[i]` follow each other in `c`, row-major.
///
/// # Panics
/// If there are not as many offsets of A as of B, if an operand reaches outside its slice, or if
/// `c` does not have exactly the elements of all products.
pub fn matmul_batched<T: Element>(
    dims: Dims,
    a: Matrix<T>,
    a_offsets: &[usize],
    b: Matrix<T>,
    b_offsets: &[usize],
    accumulate: bool,
    c: &mut [T],
) {
    let Dims { m, k, n } = dims;
    let batch = a_offsets.len();
    assert_eq!(batch, b_offsets.len(), "as many offsets of A as of B");
    let size = m.checked_mul(n).expect("the size of C");
    assert_eq!(size.checked_mul(batch), Some(c.len()), "C holds all products and no more");
    if batch == 0 || size == 0 {
        return;
    }
    for (&by_a, &by_b) in a_offsets.iter().zip(b_offsets) {
        a.moved(by_a).check("A", m, k);
        b.moved(by_b).check("B", k, n);
    }
    let first = Target { first: c.as_mut_ptr(), row: n, col: 1 };
    let one = |i: usize| {
        let first = &first;
        // SAFETY: product `i` has `size` elements of `c` to itself.
        let c = unsafe { Target { first: first.first.add(i * size), ..*first } };
        let (a, b) = (a.moved(a_offsets[i]), b.moved(b_offsets[i]));
        // SAFETY: as above; the operands were checked.
        unsafe { T::product(dims, a, b, accumulate, c) };
    };
    let work = m.saturating_mul(n).saturating_mul(k.max(1));
    let threads = par::threads();
    if threads == 1 || work.saturating_mul(batch) < PARALLEL_BATCH {
        par::with_threads(1, || {
            (0..batch).for_each(|i| {
                stop::check();
                one(i);
            });
        });
    } else if batch >= 4 * threads || work < PARALLEL_BATCH {
        // Many products: each is computed by one thread, several small ones in a task.
        let together = (PARALLEL_BATCH / 4 / work).clamp(1, batch.div_ceil(threads));
        par::parallel_for(batch.div_ceil(together), &|task| {
            par::with_threads(1, || {
                (task * together..batch.min((task + 1) * together)).for_each(one);
            });
        });
    } else {
        (0..batch).for_each(one);
    }
}

/// The product of checked operands.
///
/// # Safety
/// `a` and `b` must have passed their checks, and `c` be valid for `m` × `n` elements, at least
/// one, that nobody else uses.
#[inline]
unsafe fn product<T: Element>(
    dims: Dims,
    a: Matrix<T>,
    b: Matrix<T>,
    accumulate: bool,
    c: Target<T>,
) {
    let Dims { m, k, n } = dims;
    if k == 0 {
        for i in 0..if accumulate { 0 } else { m } {
            // SAFETY: row `i` of C.
            let row = unsafe { std::slice::from_raw_parts_mut(c.first.add(i * c.row), n) };
            row.fill(T::narrow(T::Acc::ZERO));
        }
        return;
    }
    let work = m.saturating_mul(n).saturating_mul(k);
    let direct = if par::threads() == 1 || k < SHALLOW { DIRECT } else { DIRECT_BESIDE_THREADS };
    let a = a.strided(m, k);
    let b = b.transposed().strided(n, k);
    // SAFETY: the caller's promise; where C is seen transposed, so are its strides.
    unsafe {
        if n == 1 {
            vector::product(&a, &b, accumulate, c);
        } else if m == 1 {
            vector::product(&b, &a, accumulate, Target { row: c.col, col: c.row, ..c });
        } else if T::WIDE && work <= direct {
            let c = Target { first: c.first.cast(), row: c.row, col: c.col };
            direct::product::<T::Acc>(dims, &a.cast(), &b.cast(), accumulate, c);
        } else if T::PAIRS && work > WIDENED && isa::unit() > isa::Unit::None && c.col == 1 {
            in_pairs(dims, &a, &b, accumulate, c);
        } else if 2 * n <= simd::lanes::<T::Acc>() && n < m {
            // Too narrow for vectors along the columns: along the rows, then, though A is packed.
            let dims = Dims { m: n, k, n: m };
            let c = Target { row: c.col, col: c.row, ..c };
            blocked::product(dims, &b, &a, accumulate, c);
        } else {
            blocked::product(dims, &a, &b, accumulate, c);
        }
    }
}
