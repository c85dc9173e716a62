//! The loops around the micro kernel.
//!
//! C is cut into blocks, the depth into stretches. For each block and stretch, both operands are
//! packed into memory that all threads share; then tasks, each a patch of the block, run over it.
//! How the work is cut never shows in the result (see [`tile`](super::tile)), so it is cut by
//! what is fast.

use super::pack::{Panels, Source};
use super::simd::{Simd, Work, dispatch, lanes, tile_rows};
use super::tile::{self, MAX_ROWS, Tile, WIDTH};
use super::{Dims, Element, Real, scratch};
use crate::par;
use std::ops::Range;

/// The longest stretch of depth: a packed panel of B is to stay in the first-level cache.
fn env(n: &str, d: usize) -> usize {
    std::env::var(n)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(d)
}

/// Bytes of one packed operand, and of the wide copy of a block of C in a half-precision product.
const PACKED_BYTES: usize = 2 << 20;

/// Bytes of packed A that a task goes over again and again: to stay in the second-level cache.
const PATCH_BYTES: usize = 256 << 10;

/// Multiply-adds below which a product stays on the calling thread.
const PARALLEL: usize = 1 << 18;

/// Where C is: element `(i, j)` at `i * row + j * col`.
#[derive(Clone, Copy)]
pub(super) struct Target<T> {
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
    unsafe fn at(self, i: usize, j: usize) -> Target<T> {
        // SAFETY: the caller's promise.
        Target {
            first: unsafe { self.first.add(i * self.row + j * self.col) },
            ..self
        }
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
    let width = WIDTH * lanes::<T::Acc>();
    let depth = even_part(dims.k, env("KC", 256));
    let side = env("PK", PACKED_BYTES) / size_of::<T::Acc>() / depth.max(1);
    // The wide copy of C is as large as a packed operand: side * side numbers would be more.
    let side = if T::WIDE {
        side
    } else {
        side.min((PACKED_BYTES / size_of::<T::Acc>()).isqrt())
    };
    let rows = dims.m.min(side);
    let cols = dims.n.min(side / width * width);
    let a_len = rows * depth;
    let b_len = cols.next_multiple_of(width) * depth;
    let c_len = if T::WIDE { 0 } else { rows * cols };
    // Panels of B begin at a cache line: so must all before them.
    let a_room = a_len.next_multiple_of(64);
    scratch::with(a_room + b_len + c_len, |room: &mut [T::Acc]| {
        let (packed_a, rest) = room.split_at_mut(a_room);
        let (packed_b, wide) = rest.split_at_mut(b_len);
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
                    unsafe { block.run(a, b, packed_a, packed_b) };
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
    /// `c` must be valid for `rows` × `cols` elements, and both operands fit in the packed memory.
    unsafe fn run(
        &self,
        a: &impl Source<R>,
        b: &impl Source<R>,
        packed_a: &mut [R],
        packed_b: &mut [R],
    ) {
        let (m, n, k) = (self.rows.len(), self.cols.len(), self.depth.len());
        let parallel = par::threads() > 1 && m * n * k >= PARALLEL;
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
        let (patch_rows, patch_cols) = patch::<R>(m, n, k, height, width);
        let patches = (m.div_ceil(patch_rows), n.div_ceil(patch_cols));

        // Packing is cut into pieces of about as many lanes of either operand.
        let (a_piece, b_piece) = if parallel {
            (height * (128 / height).max(1), width * (144 / width).max(1))
        } else {
            (m, n)
        };
        let a_pieces = m.div_ceil(a_piece);
        let to_a = Packed(packed_a.as_mut_ptr());
        let to_b = Packed(packed_b.as_mut_ptr());
        let pack = |task: usize| {
            let (to_a, to_b) = (&to_a, &to_b);
            let (source, panels, to, whole, start): (&dyn Source<R>, _, _, _, _) =
                if task < a_pieces {
                    (a, a_panels, to_a, &self.rows, task * a_piece)
                } else {
                    (b, b_panels, to_b, &self.cols, (task - a_pieces) * b_piece)
                };
            let piece = if task < a_pieces { a_piece } else { b_piece };
            let lanes = piece.min(whole.len() - start);
            let len = panels.padded(lanes) * k;
            // SAFETY: pieces start at multiples of the panel width, so lanes before `start` take
            // exactly `start * k` numbers; the parts of different tasks follow one another.
            let out = unsafe { std::slice::from_raw_parts_mut(to.0.add(start * k), len) };
            let first = whole.start + start;
            source.pack(first..first + lanes, self.depth.clone(), panels, out);
        };
        let pieces = a_pieces + n.div_ceil(b_piece);
        let compute = |task: usize| {
            let (to_a, to_b) = (&to_a, &to_b);
            let (i, j) = (task % patches.0 * patch_rows, task / patches.0 * patch_cols);
            dispatch(Patch {
                rows: i..m.min(i + patch_rows),
                cols: j..n.min(j + patch_cols),
                depth: k,
                height,
                a: to_a.0,
                b: to_b.0,
                c: self.c,
                load_c: self.load_c,
            });
        };
        let tasks = patches.0 * patches.1;
        if parallel {
            par::parallel_for(pieces, pack);
            par::parallel_for(tasks, compute);
        } else {
            (0..pieces).for_each(pack);
            (0..tasks).for_each(compute);
        }
    }
}

/// Rows and columns of a patch, multiples of a tile's.
fn patch<R>(m: usize, n: usize, k: usize, height: usize, width: usize) -> (usize, usize) {
    let rows = env("PB", PATCH_BYTES) / size_of::<R>() / k;
    let rows = even_part(m, (rows / height * height).max(height)).next_multiple_of(height);
    // Enough patches for every thread to get its share although some come late.
    let wanted = 4 * par::threads();
    let cols = n
        .div_ceil(wanted.div_ceil(m.div_ceil(rows)))
        .clamp(1, env("PN", 512));
    (rows, cols.next_multiple_of(width))
}

/// A patch of a block: the tiles that one task computes.
struct Patch<R> {
    rows: Range<usize>,
    cols: Range<usize>,
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
        for i in self.rows.clone().step_by(self.height) {
            for j in self.cols.clone().step_by(width) {
                let rows = self.height.min(self.rows.end - i);
                let cols = width.min(self.cols.end - j);
                // SAFETY: `(i, j)` is an element of the block.
                let c = unsafe { self.c.at(i, j) };
                let dense = c.col == 1;
                let next = if j + cols < self.cols.end {
                    c.first.wrapping_add(cols * c.col)
                } else {
                    let left = (j - self.cols.start) * c.col;
                    c.first.wrapping_sub(left).wrapping_add(rows * c.row)
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
