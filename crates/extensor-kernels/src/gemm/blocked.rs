//! The loops around the micro kernel.
//!
//! C is cut into blocks, the depth into stretches. For each block and stretch, A is packed into
//! memory that all threads share; then tasks, each a patch of the block, pack their part of B and
//! go over the tiles. How the work is cut never shows in the result (see [`tile`](super::tile)), so it is cut by
//! what is fast.

use super::pack::{Panels, Source};
use super::simd::{Simd, Work, dispatch, lanes, tile_rows};
use super::tile::{self, MAX_ROWS, Tile, WIDTH};
use super::{Dims, Element, Real, scratch};
use crate::par;
use std::ops::Range;

/// The longest stretch of depth: a packed panel of A is to stay in the first-level cache.
const DEPTH: usize = 384;

/// Bytes of packed A, and of the wide copy of a block of C in a half-precision product.
const A_BYTES: usize = 2 << 20;

/// Bytes of B that a task packs: to stay in the second-level cache while all rows of A go by.
const B_BYTES: usize = 1 << 18;

/// The fewest rows for which a task packs B.
const TASK_ROWS: usize = 192;

/// Multiply-adds below which a product stays on the calling thread.
const PARALLEL: usize = 1 << 18;

/// Where C is: element `(i, j)` at `i * row + j * col`.
#[derive(Clone, Copy)]
pub struct Target<T> {
    pub first: *mut T,
    pub row: usize,
    pub col: usize,
}

// SAFETY: tasks write disjoint elements of C.
unsafe impl<T: Send> Sync for Target<T> {}
// SAFETY: likewise.
unsafe impl<T: Send> Send for Target<T> {}

impl<T> Target<T> {
    /// # Safety
    /// Element `(i, j)` must exist.
    #[inline(always)]
    pub(super) unsafe fn at(self, i: usize, j: usize) -> Target<T> {
        // SAFETY: the caller's promise.
        let first = unsafe { self.first.add(i * self.row + j * self.col) };
        Target { first, ..self }
    }
}

/// C = A·B, or C += A·B if `accumulate`.
///
/// # Safety
/// `c` must be valid for `dims.m` × `dims.n` elements that nobody else uses, and not empty.
pub(super) unsafe fn product<T: Element>(
    dims: Dims,
    a: &impl Source<T::Acc>,
    b: &impl Source<T::Acc>,
    accumulate: bool,
    c: Target<T>,
) {
    let depth = even_part(dims.k, DEPTH);
    let most = A_BYTES / size_of::<T::Acc>();
    let (rows, cols) = if T::WIDE {
        (dims.m.min(most / depth), dims.n)
    } else {
        (dims.m.min(most.isqrt()), dims.n.min(most.isqrt()))
    };
    let a_len = rows * depth;
    let c_len = if T::WIDE { 0 } else { rows * cols };
    scratch::with(a_len + c_len, |room: &mut [T::Acc]| {
        let (packed_a, wide) = room.split_at_mut(a_len);
        for j in (0..dims.n).step_by(cols) {
            for i in (0..dims.m).step_by(rows) {
                // SAFETY: `(i, j)` is an element of C.
                let c = unsafe { c.at(i, j) };
                let size = (rows.min(dims.m - i), cols.min(dims.n - j));
                let target = if T::WIDE {
                    Target {
                        first: c.first.cast(),
                        row: c.row,
                        col: c.col,
                    }
                } else {
                    Target {
                        first: wide.as_mut_ptr(),
                        row: size.1,
                        col: 1,
                    }
                };
                if !T::WIDE && accumulate {
                    for (at, x) in wide[..size.0 * size.1].iter_mut().enumerate() {
                        // SAFETY: the elements of this block of C.
                        *x = unsafe { *c.at(at / size.1, at % size.1).first }.widen();
                    }
                }
                let mut block = Block {
                    rows: i..i + size.0,
                    cols: j..j + size.1,
                    depth: 0..0,
                    c: target,
                    load_c: accumulate,
                };
                for p in (0..dims.k).step_by(depth) {
                    block.depth = p..dims.k.min(p + depth);
                    // SAFETY: `target` is this block of C or a copy of its size.
                    unsafe { block.run(a, b, packed_a) };
                    block.load_c = true;
                }
                if !T::WIDE {
                    // SAFETY: the elements of this block of C.
                    unsafe { round(&wide[..size.0 * size.1], size.1, c) };
                }
            }
        }
    });
}

/// The largest part in which all parts of `whole`, at most `most` each, are nearly even.
fn even_part(whole: usize, most: usize) -> usize {
    whole.div_ceil(whole.div_ceil(most).max(1))
}

/// Rounds a wide copy of a block to where the block is.
///
/// # Safety
/// `to` must be valid for the rows of `cols` numbers that are in `wide`.
unsafe fn round<T: Element>(wide: &[T::Acc], cols: usize, to: Target<T>) {
    for (i, row) in wide.chunks_exact(cols).enumerate() {
        if to.col == 1 {
            // SAFETY: the caller's promise.
            let to = unsafe { std::slice::from_raw_parts_mut(to.at(i, 0).first, cols) };
            T::narrow_slice(row, to);
        } else {
            for (j, &x) in row.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { *to.at(i, j).first = T::narrow(x) };
            }
        }
    }
}

/// A block of C and a stretch of depth, small enough to be packed.
struct Block<R> {
    rows: Range<usize>,
    cols: Range<usize>,
    depth: Range<usize>,
    c: Target<R>,
    load_c: bool,
}

/// A pointer into packed memory, of which every task writes its own part.
struct Packed<R>(*mut R);
// SAFETY: tasks write disjoint parts, and read only when all are written.
unsafe impl<R: Send> Sync for Packed<R> {}

impl<R: Real> Block<R> {
    /// # Safety
    /// `c` must be valid for `rows` × `cols` elements, and A fit in the packed memory.
    unsafe fn run(&self, a: &impl Source<R>, b: &impl Source<R>, packed_a: &mut [R]) {
        let (m, n, k) = (self.rows.len(), self.cols.len(), self.depth.len());
        let threads = if m * n * k < PARALLEL {
            1
        } else {
            par::threads()
        };
        let width = WIDTH * lanes::<R>();
        let height = even_part(m, tile_rows::<R>());
        let a_panels = Panels {
            width: height,
            pad: 1,
        };
        let b_panels = Panels {
            width,
            pad: width / WIDTH,
        };

        assert!(packed_a.len() >= m * k);
        let to_a = Packed(packed_a.as_mut_ptr());
        let piece = if threads == 1 {
            m
        } else {
            height * (128 / height).max(1)
        };
        let pack_a = |task: usize| {
            let to_a = &to_a;
            let (start, end) = (task * piece, m.min((task + 1) * piece));
            // SAFETY: A is packed without padding, so lanes before `start` take `start * k` numbers
            // and the parts of different tasks follow one another.
            let out =
                unsafe { std::slice::from_raw_parts_mut(to_a.0.add(start * k), (end - start) * k) };
            let first = self.rows.start;
            a.pack(
                first + start..first + end,
                self.depth.clone(),
                a_panels,
                out,
            );
        };

        let (patch_rows, patch_cols) = patch::<R>(m, n, k, height, width, threads);
        let patches = (m.div_ceil(patch_rows), n.div_ceil(patch_cols));
        let compute = |task: usize| {
            let to_a = &to_a;
            let (i, j) = (task % patches.0 * patch_rows, task / patches.0 * patch_cols);
            let cols = patch_cols.min(n - j);
            scratch::with(b_panels.padded(cols) * k, |packed_b: &mut [R]| {
                let first = self.cols.start + j;
                b.pack(first..first + cols, self.depth.clone(), b_panels, packed_b);
                // SAFETY: the patch begins at an element of the block.
                let c = unsafe { self.c.at(i, j) };
                dispatch(Patch {
                    rows: patch_rows.min(m - i),
                    cols,
                    depth: k,
                    height,
                    a: to_a.0.wrapping_add(i * k),
                    b: packed_b.as_ptr(),
                    c,
                    load_c: self.load_c,
                });
            });
        };
        let (pieces, tasks) = (m.div_ceil(piece), patches.0 * patches.1);
        if threads == 1 {
            (0..pieces).for_each(pack_a);
            (0..tasks).for_each(compute);
        } else {
            par::parallel_for(pieces, pack_a);
            par::parallel_for(tasks, compute);
        }
    }
}

/// Rows and columns of a patch, multiples of a tile's unless it is the last.
fn patch<R>(
    m: usize,
    n: usize,
    k: usize,
    height: usize,
    width: usize,
    threads: usize,
) -> (usize, usize) {
    // Enough patches for every thread to get its share although some come late.
    let wanted = if threads == 1 { 1 } else { 4 * threads };
    let most = (B_BYTES / size_of::<R>() / k / width).max(1);
    let panels = n.div_ceil(width).div_ceil(wanted).clamp(1, most);
    let cols = even_part(n.div_ceil(width), panels) * width;
    let groups = wanted.div_ceil(n.div_ceil(cols)).min(m.div_ceil(TASK_ROWS));
    (m.div_ceil(groups).next_multiple_of(height), cols)
}

/// A patch of a block: the tiles that one task computes.
struct Patch<R> {
    rows: usize,
    cols: usize,
    depth: usize,
    height: usize,
    a: *const R,
    b: *const R,
    c: Target<R>,
    load_c: bool,
}

impl<R: Real> Work<R> for Patch<R> {
    #[inline(always)]
    fn run<S: Simd<T = R>>(self) {
        let width = WIDTH * S::LANES;
        // A tile whose columns are not adjacent in C is computed here.
        let mut aside = [R::ZERO; MAX_ROWS * WIDTH * 16];
        for i in (0..self.rows).step_by(self.height) {
            for j in (0..self.cols).step_by(width) {
                let rows = self.height.min(self.rows - i);
                let cols = width.min(self.cols - j);
                // SAFETY: `(i, j)` is an element of the patch.
                let c = unsafe { self.c.at(i, j) };
                let dense = c.col == 1;
                let next = if j + cols < self.cols {
                    c.first.wrapping_add(cols * c.col)
                } else {
                    self.c.first.wrapping_add((i + rows) * c.row)
                };
                if !dense && self.load_c {
                    // SAFETY: `rows` and `cols` are those of a tile at `c`.
                    unsafe { gather(c, rows, cols, &mut aside, width) };
                }
                // SAFETY: panels before these take `i * depth` and `j * depth` numbers of packed
                // memory; `aside` has room for a tile of any instruction set.
                unsafe {
                    tile::packed::<S>(&Tile {
                        rows,
                        cols,
                        depth: self.depth,
                        a: self.a.add(i * self.depth),
                        a_row: 0,
                        a_step: 0,
                        b: self.b.add(j * self.depth),
                        b_step: 0,
                        c: if dense { c.first } else { aside.as_mut_ptr() },
                        c_row: if dense { c.row } else { width },
                        next_c: next,
                        load_c: self.load_c,
                    });
                }
                if !dense {
                    // SAFETY: as for `gather`.
                    unsafe { scatter(&aside, width, c, rows, cols) };
                }
            }
        }
    }
}

/// Copies a tile of C to `to`, whose rows are `width` apart.
///
/// # Safety
/// `c` must be valid for `rows` × `cols` elements.
unsafe fn gather<R: Real>(c: Target<R>, rows: usize, cols: usize, to: &mut [R], width: usize) {
    for (i, row) in to.chunks_exact_mut(width).take(rows).enumerate() {
        for (j, x) in row.iter_mut().take(cols).enumerate() {
            // SAFETY: the caller's promise.
            *x = unsafe { *c.at(i, j).first };
        }
    }
}

/// Copies `from`, whose rows are `width` apart, to a tile of C.
///
/// # Safety
/// `c` must be valid for `rows` × `cols` elements.
unsafe fn scatter<R: Real>(from: &[R], width: usize, c: Target<R>, rows: usize, cols: usize) {
    for j in 0..cols {
        for i in 0..rows {
            // SAFETY: the caller's promise.
            unsafe { *c.at(i, j).first = from[i * width + j] };
        }
    }
}
