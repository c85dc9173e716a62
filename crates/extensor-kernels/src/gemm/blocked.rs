//! The loops around the micro kernel.
//!
//! C is cut into patches, the depth into stretches. For each stretch a task goes over the tiles of
//! its patch, having packed its part of B or packing it along with the first row of tiles. A is read
//! where it lies if its depth is adjacent there; if its rows are, each of several tasks packs those of
//! its patch; else it is packed, a block at a time, into memory that all threads share. How the work
//! is cut never shows in the result (see [`tile`](super::tile)), so it is cut by what is fast.

use super::cut::{Cut, NARROW, even_part, wide_columns};
use super::pack::{Panels, Source, Strided};
use super::simd::{Simd, Work, dispatch, lanes, tile_rows};
use super::tile::{self, MAX_ROWS, Next, Tile, WIDTH};
use super::{Dims, Element, Real, scratch};
use crate::par;
use crate::stop;
use std::ops::Range;

/// The longest stretch of depth: long, so that C is seldom read and written.
const DEPTH: usize = 512;

/// Bytes of packed A, and of the wide copy of a block of C in a half-precision product.
const A_BYTES: usize = 4 << 20;

/// Numbers of A that a task packs by itself at a time: they stay in its second-level cache, beside
/// those of B. To read what other threads have packed from their caches takes longer than packing.
const OWN: usize = 1 << 17;

/// Tasks for each thread in packing A: some threads come late.
const PIECES: usize = 2;

/// Numbers that are widened or rounded in a task.
const ROUNDED: usize = 1 << 15;

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
    let stretch = even_part(dims.k, DEPTH);
    let most = A_BYTES / size_of::<T::Acc>();
    let in_place = a.in_place().is_some_and(|a| a.depth_stride == 1 || packed_by_each(&a, dims));
    let (rows, cols) = if in_place {
        (dims.m, dims.n)
    } else if T::WIDE {
        (dims.m.min(most / stretch), dims.n)
    } else {
        (dims.m.min(most.isqrt()), dims.n.min(most.isqrt()))
    };
    // What is packed is packed a stretch at a time.
    let (a_len, depth) = if in_place { (0, dims.k) } else { (rows * stretch, stretch) };
    let c_len = if T::WIDE { 0 } else { rows * cols };
    scratch::with(a_len + c_len, |room: &mut [T::Acc]| {
        let (packed_a, wide) = room.split_at_mut(a_len);
        for j in (0..dims.n).step_by(cols) {
            for i in (0..dims.m).step_by(rows) {
                // SAFETY: `(i, j)` is an element of C.
                let c = unsafe { c.at(i, j) };
                let size = (rows.min(dims.m - i), cols.min(dims.n - j));
                let target = if T::WIDE {
                    Target { first: c.first.cast(), row: c.row, col: c.col }
                } else {
                    Target { first: wide.as_mut_ptr(), row: size.1, col: 1 }
                };
                if !T::WIDE && accumulate {
                    // SAFETY: the elements of this block of C.
                    unsafe { widen(c, size.1, &mut wide[..size.0 * size.1]) };
                }
                let mut block = Block {
                    rows: i..i + size.0,
                    cols: j..j + size.1,
                    depth: 0..0,
                    stretch,
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

/// Threads that compute a product of these extents.
fn threads_for(Dims { m, k, n }: Dims) -> usize {
    let work = m.saturating_mul(n).saturating_mul(k);
    if work < PARALLEL { 1 } else { par::threads() }
}

/// Whether each task packs the rows of A that it needs: of two threads, neither would save much.
fn packed_by_each<R: Real>(a: &Strided<R>, dims: Dims) -> bool {
    a.depth_stride != 1 && a.lane_stride == 1 && threads_for(dims) > 2
}

/// Makes a wide copy of a block.
///
/// # Safety
/// `from` must be valid for the rows of `cols` numbers that `wide` has.
unsafe fn widen<T: Element>(from: Target<T>, cols: usize, wide: &mut [T::Acc]) {
    par::parallel_chunks(wide, cols * (ROUNDED / cols).max(1), &|start, wide| {
        for (i, row) in wide.chunks_exact_mut(cols).enumerate() {
            for (j, x) in row.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *x = unsafe { *from.at(start / cols + i, j).first }.widen();
            }
        }
    });
}

/// Rounds a wide copy of a block to where the block is.
///
/// # Safety
/// `to` must be valid for the rows of `cols` numbers that are in `wide`.
unsafe fn round<T: Element>(wide: &[T::Acc], cols: usize, to: Target<T>) {
    let rows = wide.len() / cols;
    let together = (ROUNDED / cols).max(1);
    let some = |task: usize| {
        for i in task * together..rows.min((task + 1) * together) {
            let row = &wide[i * cols..(i + 1) * cols];
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
    };
    match rows.div_ceil(together) {
        1 => some(0),
        tasks => par::parallel_for(tasks, &some),
    }
}

/// A block of C, and the depth to be added to it.
struct Block<R> {
    rows: Range<usize>,
    cols: Range<usize>,
    depth: Range<usize>,
    stretch: usize,
    c: Target<R>,
    load_c: bool,
}

/// Rows of A, read where they lie or packed. Those of a tile begin at `i * row` for its first row
/// `i`; within the tile, either the depth is adjacent and rows are `row` apart, or the rows are
/// adjacent and the next depth follows the last of them.
#[derive(Clone, Copy)]
struct Rows<R> {
    first: *const R,
    row: isize,
    adjacent: bool,
}
// SAFETY: it stands for shared numbers.
unsafe impl<R: Sync> Sync for Rows<R> {}

/// A pointer into packed memory, of which every task writes its own part.
struct Packed<R>(*mut R);
// SAFETY: tasks write disjoint parts, and read only when all are written.
unsafe impl<R: Send> Sync for Packed<R> {}

impl<R: Real> Block<R> {
    /// # Safety
    /// `c` must be valid for `rows` × `cols` elements. Unless A can be read in place, the depth must
    /// be one stretch and A fit in the packed memory.
    unsafe fn run(&self, a: &impl Source<R>, b: &impl Source<R>, packed_a: &mut [R]) {
        let (m, n, k) = (self.rows.len(), self.cols.len(), self.depth.len());
        let dims = Dims { m, k, n };
        let threads = threads_for(dims);
        let each = |tasks: usize, task: &(dyn Fn(usize) + Sync)| {
            if threads == 1 {
                for i in 0..tasks {
                    stop::check();
                    task(i);
                }
            } else {
                par::parallel_for(tasks, task);
            }
        };
        let cut = Cut::new::<R>(m, n, self.stretch.min(k), threads);
        let rows = match a.in_place() {
            Some(a) if a.depth_stride == 1 => Some(Rows {
                // SAFETY: the block lies in the matrix.
                first: unsafe { a.at(self.rows.start, self.depth.start) },
                row: a.lane_stride,
                adjacent: false,
            }),
            Some(a) if packed_by_each(&a, dims) => None,
            _ => {
                assert!(packed_a.len() >= m * k);
                let adjacent = a.adjacent_lanes();
                let width = if adjacent { cut.height } else { 1 };
                let piece = m.div_ceil(width).div_ceil(PIECES * threads) * width;
                let to = Packed(packed_a.as_mut_ptr());
                each(m.div_ceil(piece), &|task| {
                    let to = &to;
                    let (start, end) = (task * piece, m.min((task + 1) * piece));
                    // SAFETY: lanes take `k` numbers each, and no other task has these lanes.
                    let out = unsafe {
                        std::slice::from_raw_parts_mut(to.0.add(start * k), (end - start) * k)
                    };
                    let lanes = self.rows.start + start..self.rows.start + end;
                    let panels = Panels { width, pad: 1 };
                    a.pack(lanes, self.depth.clone(), panels, out);
                });
                Some(Rows { first: packed_a.as_ptr(), row: k as isize, adjacent })
            }
        };
        each(cut.parts(), &|task| {
            let part = cut.part(task);
            // SAFETY: the part lies in the block, whose addresses are good by the caller's promise.
            unsafe { self.patch((a, rows), b, cut.height, part) };
        });
    }

    /// Computes a part of the block.
    ///
    /// # Safety
    /// The part must lie in the block, and nobody else use it. `lying` must be the block's rows of A,
    /// which the task packs if there are none.
    unsafe fn patch(
        &self,
        (a, lying): (&impl Source<R>, Option<Rows<R>>),
        b: &impl Source<R>,
        height: usize,
        (rows, cols): (Range<usize>, Range<usize>),
    ) {
        let (width, narrow) = (WIDTH * lanes::<R>(), NARROW * lanes::<R>());
        let wide = wide_columns::<R>(cols.len());
        let k = self.depth.len();
        // Whole panels are written by the first tiles, if those are of the largest size.
        let in_place = b.in_place().filter(|b| b.lane_stride == 1);
        let copied = if height == tile_rows::<R>() && rows.len() >= height && in_place.is_some() {
            wide / width * width
        } else {
            0
        };
        let stretch = self.stretch.min(k);
        // Rows that are packed at a time.
        let some = match lying {
            Some(_) => rows.len().max(1),
            None => (OWN / stretch / height).max(1) * height,
        };
        let b_room = cols.len().next_multiple_of(lanes::<R>()) * stretch;
        let a_room = if lying.is_some() { 0 } else { some.min(rows.len()) * stretch };
        scratch::with(b_room + a_room, |room: &mut [R]| {
            let (packed, own) = room.split_at_mut(b_room);
            for p in (0..k).step_by(stretch) {
                stop::check();
                let depth = stretch.min(k - p);
                let first = self.cols.start + cols.start;
                let from = self.depth.start + p;
                for (part, width) in [(copied..wide, width), (wide..cols.len(), narrow)] {
                    if part.is_empty() {
                        continue;
                    }
                    let panels = Panels { width, pad: lanes::<R>() };
                    let out = &mut packed[part.start * depth..];
                    b.pack(first + part.start..first + part.end, from..from + depth, panels, out);
                }
                for i in rows.clone().step_by(some) {
                    let here = some.min(rows.end - i);
                    let a = match lying {
                        // SAFETY: rows of the block; packed A has one stretch, so that `p` is 0.
                        Some(a) => unsafe {
                            Rows { first: a.first.offset(i as isize * a.row).add(p), ..a }
                        },
                        None => {
                            let lanes = self.rows.start + i..self.rows.start + i + here;
                            let panels = Panels { width: height, pad: 1 };
                            a.pack(lanes, from..from + depth, panels, own);
                            Rows { first: own.as_ptr(), row: depth as isize, adjacent: true }
                        }
                    };
                    // SAFETY: the part lies in the block, and the block in the operands.
                    unsafe {
                        dispatch(Patch {
                            rows: here,
                            cols: cols.len(),
                            depth,
                            height,
                            a,
                            b: packed.as_mut_ptr(),
                            wide,
                            copied: if i == rows.start { copied } else { 0 },
                            b_from: in_place.map_or(std::ptr::null(), |b| b.at(first, from)),
                            b_step: in_place.map_or(0, |b| b.depth_stride),
                            c: self.c.at(i, cols.start),
                            load_c: self.load_c || p > 0,
                        });
                    }
                }
            }
        });
    }
}

/// A patch of a block and a stretch of depth: the tiles that one task computes.
struct Patch<R> {
    rows: usize,
    cols: usize,
    depth: usize,
    height: usize,
    a: Rows<R>,
    /// The packed panels of B: the first `wide` columns in panels of the largest width, of which the
    /// first `copied` are to be copied from where B is, the others in narrow ones.
    b: *mut R,
    wide: usize,
    copied: usize,
    b_from: *const R,
    b_step: isize,
    c: Target<R>,
    load_c: bool,
}

impl<R: Real> Work<R> for Patch<R> {
    #[inline(always)]
    fn run<S: Simd<T = R>>(self) {
        let (width, narrow) = (WIDTH * S::LANES, NARROW * S::LANES);
        let line = 64 / size_of::<R>();
        // While a row of tiles is computed, each tile asks for its share of the next rows of A.
        let tiles = self.wide.div_ceil(width) + (self.cols - self.wide).div_ceil(narrow);
        let share = self.depth.div_ceil(line).div_ceil(tiles);
        // A tile whose columns are not adjacent in C is computed here.
        let mut aside = [R::ZERO; MAX_ROWS * WIDTH * 16];
        for i in (0..self.rows).step_by(self.height) {
            stop::check();
            let rows = self.height.min(self.rows - i);
            let a = self.a.first.wrapping_offset(i as isize * self.a.row);
            let next_a = a.wrapping_offset(rows as isize * self.a.row);
            let mut j = 0;
            for tile in 0..tiles {
                let cols = if j < self.wide { width } else { narrow }.min(self.cols - j);
                // SAFETY: `(i, j)` is an element of the patch.
                let c = unsafe { self.c.at(i, j) };
                let dense = c.col == 1;
                let next_c = if j + cols < self.cols {
                    c.first.wrapping_add(cols * c.col)
                } else {
                    self.c.first.wrapping_add((i + rows) * c.row)
                };
                if !dense && self.load_c {
                    // SAFETY: `rows` and `cols` are those of a tile at `c`.
                    unsafe { gather(c, rows, cols, &mut aside, width) };
                }
                let copy = i == 0 && j < self.copied;
                let panel = self.b.wrapping_add(j * self.depth);
                let tile = Tile {
                    rows,
                    cols,
                    depth: self.depth,
                    a,
                    a_row: if self.a.adjacent { 1 } else { self.a.row },
                    a_step: if self.a.adjacent { rows as isize } else { 1 },
                    b: if copy { self.b_from.wrapping_add(j) } else { panel },
                    b_step: self.b_step,
                    panel,
                    c: if dense { c.first } else { aside.as_mut_ptr() },
                    c_row: if dense { c.row } else { width },
                    load_c: self.load_c,
                    next: Next {
                        c: next_c,
                        a: next_a.wrapping_add(tile * share * line),
                        a_row: self.a.row,
                        a_lines: if i + rows < self.rows { share } else { 0 },
                    },
                };
                // SAFETY: panels before this one take `j * depth` numbers of packed memory; `aside`
                // has room for a tile of any instruction set; a tile that copies is of full size.
                unsafe {
                    if copy {
                        tile::copy::<S>(&tile);
                    } else {
                        tile::panel::<S>(&tile);
                    }
                }
                if !dense {
                    // SAFETY: as for `gather`.
                    unsafe { scatter(&aside, width, c, rows, cols) };
                }
                j += cols;
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
