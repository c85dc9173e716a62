//! Products with a vector, which read a matrix once and should do so at the speed of memory.
//!
//! A sum along a row of the matrix is kept as [`LANES`] partial sums: number `j` takes the depths
//! `p` with `p % LANES == j`, in order. Rows adjacent in memory then make vectors of partial sums of
//! one row, columns adjacent in memory vectors of one partial sum of many rows; the sums are the
//! same. Very long rows are cut into segments of a fixed length.

use super::blocked::Target;
use super::pack::Strided;
use super::simd::{Simd, Work, dispatch, prefetch};
use super::{Element, Real, VECTOR_LANES as LANES, scratch};
use crate::par;
use std::ops::Range;

/// Depths of a segment; rows up to twice as long are not cut.
const SEGMENT: usize = 1 << 16;

/// Elements of the matrix that are worth a task of their own.
const TASK: usize = 1 << 15;

/// Rows computed together: of row-adjacent matrices, and of column-adjacent ones.
const ROWS: usize = 4;
const COLUMN_ROWS: usize = 256;

/// Depths that are copied at a time from an operand that cannot be read where it lies, and rows.
const RUN: usize = 256;
const COPIED_ROWS: usize = 32;

/// `y = A·x`, or `y += A·x` if `accumulate`: the lanes of `a` are the rows, `x` has one lane and
/// `y` is a column.
///
/// # Safety
/// `x` must have the depth of `a`, and `y` be valid for as many rows as `a` has lanes, at least 1.
pub(super) unsafe fn product<T: Element>(
    a: &Strided<T>,
    x: &Strided<T>,
    accumulate: bool,
    y: Target<T>,
) {
    let (rows, k) = (a.lanes, a.depth);
    let segment = if k > 2 * SEGMENT { SEGMENT } else { k };
    let segments = k.div_ceil(segment);
    let by_columns = T::WIDE && a.lane_stride == 1 && a.depth_stride != 1 && rows >= 8;
    let group = if by_columns { COLUMN_ROWS } else { COPIED_ROWS };
    // Whole groups, as many as make a task, of one segment.
    let height = group * (TASK / (group * segment)).max(1);
    let blocks = rows.div_ceil(height);
    let tasks = blocks * segments;
    let parallel = tasks > 1 && rows * k >= 2 * TASK;

    if segments == 1 {
        let run = |task: usize| {
            let rows = task * height..rows.min((task + 1) * height);
            dispatch(Sums { a, x, rows, depth: 0..k, group, by_columns, accumulate, y });
        };
        if parallel {
            par::parallel_for(tasks, &run);
        } else {
            (0..tasks).for_each(run);
        }
        return;
    }
    scratch::with(rows * segments, |sums: &mut [T::Acc]| {
        let part = Target { first: sums.as_mut_ptr(), row: rows, col: 1 };
        par::parallel_for(tasks, &|task| {
            let (block, at) = (task % blocks, task / blocks);
            let rows_here = block * height..rows.min((block + 1) * height);
            let depth = at * segment..k.min((at + 1) * segment);
            // SAFETY: segment `at` has its own `rows` sums.
            let y = Target { row: 1, ..unsafe { part.at(at, 0) } };
            dispatch(Sums {
                a,
                x,
                rows: rows_here,
                depth,
                group,
                by_columns,
                accumulate: false,
                y,
            });
        });
        for i in 0..rows {
            let mut sum = sums[i];
            for at in 1..segments {
                sum = sum.plus(sums[at * rows + i]);
            }
            // SAFETY: `i` is a row of `y`.
            unsafe { put(y, i, sum, accumulate) };
        }
    });
}

/// # Safety
/// `i` must be a row of `y`.
#[inline(always)]
unsafe fn put<T: Element>(y: Target<T>, i: usize, sum: T::Acc, accumulate: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        let y = y.first.add(i * y.row);
        *y = T::narrow(if accumulate { (*y).widen().plus(sum) } else { sum });
    }
}

/// The sum of partial sums: always the same tree.
#[inline(always)]
fn total<R: Real>(mut sums: [R; LANES]) -> R {
    let mut half = LANES / 2;
    while half > 0 {
        for j in 0..half {
            sums[j] = sums[j].plus(sums[j + half]);
        }
        half /= 2;
    }
    sums[0]
}

/// The sums of some rows along some depths.
struct Sums<'a, T: Element, Y: Element<Acc = T::Acc>> {
    a: &'a Strided<'a, T>,
    x: &'a Strided<'a, T>,
    rows: Range<usize>,
    depth: Range<usize>,
    group: usize,
    by_columns: bool,
    accumulate: bool,
    y: Target<Y>,
}

impl<T: Element, Y: Element<Acc = T::Acc>> Work<T::Acc> for Sums<'_, T, Y> {
    #[inline(always)]
    fn run<S: Simd<T = T::Acc>>(self) {
        let in_place = T::WIDE && self.a.depth_stride == 1 && self.x.depth_stride == 1;
        let mut start = self.rows.start;
        while start < self.rows.end {
            let rows = start..self.rows.end.min(start + self.group);
            start = rows.end;
            // SAFETY: the rows and depths are those of `a`, `x` and `y`, by the promise made to
            // `product`; a matrix is only read as numbers of type `Acc` if it holds such.
            unsafe {
                if self.by_columns {
                    self.columns::<S>(rows);
                } else if in_place {
                    self.in_place::<S>(rows);
                } else {
                    self.copied::<S>(rows);
                }
            }
        }
    }
}

impl<T: Element, Y: Element<Acc = T::Acc>> Sums<'_, T, Y> {
    /// Depths adjacent in memory, in the matrix and in the vector.
    #[inline(always)]
    unsafe fn in_place<S: Simd<T = T::Acc>>(&self, rows: Range<usize>) {
        let (mut i, len) = (rows.start, self.depth.len());
        // SAFETY: the promise of `run`.
        unsafe {
            let x = self.x.at(0, self.depth.start).cast::<T::Acc>();
            while i < rows.end {
                let a = self.a.at(i, self.depth.start).cast::<T::Acc>();
                let count = if rows.end - i >= ROWS { ROWS } else { 1 };
                let mut sums = [[T::Acc::ZERO; LANES]; ROWS];
                if count == ROWS {
                    extend::<S, ROWS>(&mut sums, a, self.a.lane_stride, x, len);
                } else {
                    extend::<S, 1>(&mut sums[..1], a, 0, x, len);
                }
                for (r, &sums) in sums.iter().take(count).enumerate() {
                    put(self.y, i + r, total(sums), self.accumulate);
                }
                i += count;
            }
        }
    }

    /// Any strides and types: stretches of some rows are copied to where they can be read.
    #[inline(always)]
    unsafe fn copied<S: Simd<T = T::Acc>>(&self, rows: Range<usize>) {
        let mut x = [T::Acc::ZERO; RUN];
        let mut a = [[T::Acc::ZERO; RUN]; COPIED_ROWS];
        let mut sums = [[T::Acc::ZERO; LANES]; COPIED_ROWS];
        let mut p = self.depth.start;
        while p < self.depth.end {
            let len = RUN.min(self.depth.end - p);
            // SAFETY: the promise of `run`; there are at most `COPIED_ROWS` rows.
            unsafe {
                copy(self.x, 0..1, p, len, std::slice::from_mut(&mut x));
                copy(self.a, rows.clone(), p, len, &mut a);
                for (sums, a) in sums.iter_mut().zip(&a).take(rows.len()) {
                    let sums = std::slice::from_mut(sums);
                    extend::<S, 1>(sums, a.as_ptr(), 0, x.as_ptr(), len);
                }
            }
            p += len;
        }
        for (i, &sums) in rows.zip(&sums) {
            // SAFETY: a row of `y`.
            unsafe { put(self.y, i, total(sums), self.accumulate) };
        }
    }

    /// Rows adjacent in memory: vectors of one partial sum of many rows.
    #[inline(always)]
    unsafe fn columns<S: Simd<T = T::Acc>>(&self, rows: Range<usize>) {
        /// Columns of one partial sum that are added in one go.
        const TOGETHER: usize = 4;
        let (count, step) = (rows.len(), self.a.depth_stride);
        let mut sums = [[T::Acc::ZERO; COLUMN_ROWS]; LANES];
        for start in self.depth.clone().step_by(TOGETHER * LANES) {
            for (j, sums) in sums.iter_mut().enumerate() {
                let mut columns = [std::ptr::null(); TOGETHER];
                let mut times = [T::Acc::ZERO; TOGETHER];
                let mut found = 0;
                for p in (start + j..self.depth.end).step_by(LANES).take(TOGETHER) {
                    // SAFETY: row `rows.start` and depth `p` exist.
                    unsafe {
                        columns[found] = self.a.at(rows.start, p).cast::<T::Acc>();
                        times[found] = (*self.x.at(0, p)).widen();
                    }
                    found += 1;
                }
                // SAFETY: the columns have `count` rows from `rows.start` on, and there are
                // `COLUMN_ROWS` sums, which is a whole number of registers.
                unsafe {
                    if found == TOGETHER {
                        add_columns::<S, TOGETHER>(sums, columns, times, count, step);
                    } else {
                        for c in 0..found {
                            add_columns::<S, 1>(sums, [columns[c]], [times[c]], count, step);
                        }
                    }
                }
            }
        }
        let mut half = LANES / 2;
        while half > 0 {
            let (low, high) = sums.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                for (low, high) in low[..count].iter_mut().zip(&high[..count]) {
                    *low = low.plus(*high);
                }
            }
            half /= 2;
        }
        for (i, &sum) in rows.zip(&sums[0]) {
            // SAFETY: a row of `y`.
            unsafe { put(self.y, i, sum, self.accumulate) };
        }
    }
}

/// Adds `len` products to the partial sums of `N` rows, `a_row` apart.
///
/// # Safety
/// The rows and `x` must have `len` numbers, a whole number of [`LANES`] unless they are the last;
/// there must be `N` sums.
#[inline(always)]
unsafe fn extend<S: Simd, const N: usize>(
    sums: &mut [[S::T; LANES]],
    a: *const S::T,
    a_row: isize,
    x: *const S::T,
    len: usize,
) {
    // The most registers that partial sums take: 4 lanes each.
    const REGISTERS: usize = LANES / 4;
    let registers = LANES / S::LANES;
    let whole = len / LANES * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[S::zero(); REGISTERS]; N];
        for r in 0..N {
            for (v, acc) in acc[r].iter_mut().enumerate().take(registers) {
                *acc = S::load(sums[r].as_ptr().add(v * S::LANES));
            }
        }
        let mut p = 0;
        while p < whole {
            for v in 0..registers {
                let at = p + v * S::LANES;
                let x = S::load(x.add(at));
                for (r, acc) in acc.iter_mut().enumerate() {
                    let a = S::load(a.offset(r as isize * a_row).add(at));
                    acc[v] = S::fma(a, x, acc[v]);
                }
            }
            p += LANES;
        }
        for r in 0..N {
            for (v, &acc) in acc[r].iter().enumerate().take(registers) {
                S::store(sums[r].as_mut_ptr().add(v * S::LANES), acc);
            }
            for p in whole..len {
                let a = *a.offset(r as isize * a_row).add(p);
                let sum = &mut sums[r][p - whole];
                *sum = a.mul_add(*x.add(p), *sum);
            }
        }
    }
}

/// Adds `N` columns, each times its `x`, to the sums of `rows` rows; columns `next` elements on are
/// brought near meanwhile.
///
/// # Safety
/// The columns must have `rows` numbers, and `sums` as many, rounded up to whole registers.
#[inline(always)]
unsafe fn add_columns<S: Simd, const N: usize>(
    sums: &mut [S::T],
    a: [*const S::T; N],
    x: [S::T; N],
    rows: usize,
    next: isize,
) {
    // SAFETY: the caller's promise; the last, partial register of a column is read by mask.
    unsafe {
        let mut times = [S::zero(); N];
        for c in 0..N {
            times[c] = S::splat(x[c]);
        }
        let sums = sums.as_mut_ptr();
        let mut i = 0;
        while i + S::LANES <= rows {
            let mut sum = S::load(sums.add(i));
            for c in 0..N {
                prefetch(a[c].wrapping_offset(next).wrapping_add(i));
                sum = S::fma(S::load(a[c].add(i)), times[c], sum);
            }
            S::store(sums.add(i), sum);
            i += S::LANES;
        }
        if i < rows {
            let mask = S::mask(rows - i);
            let mut sum = S::load(sums.add(i));
            for c in 0..N {
                sum = S::fma(S::load_mask(a[c].add(i), mask), times[c], sum);
            }
            S::store(sums.add(i), sum);
        }
    }
}

/// Copies `lanes` × `p..p + len` of a matrix, one lane after the other.
///
/// # Safety
/// The lanes and depths must exist, and `to` have an array of at least `len` for each lane.
#[inline(always)]
unsafe fn copy<T: Element>(
    from: &Strided<T>,
    lanes: Range<usize>,
    p: usize,
    len: usize,
    to: &mut [[T::Acc; RUN]],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if from.lane_stride.unsigned_abs() < from.depth_stride.unsigned_abs() {
            for q in 0..len {
                for (lane, to) in lanes.clone().zip(to.iter_mut()) {
                    to[q] = (*from.at(lane, p + q)).widen();
                }
            }
            return;
        }
        for (lane, to) in lanes.zip(to) {
            if from.depth_stride == 1 {
                T::widen_slice(std::slice::from_raw_parts(from.at(lane, p), len), &mut to[..len]);
            } else {
                for (q, x) in to[..len].iter_mut().enumerate() {
                    *x = (*from.at(lane, p + q)).widen();
                }
            }
        }
    }
}
