//! Products of `bf16` numbers by what the processor has for them: tiles (AMX), or dot products of
//! pairs (AVX512-BF16).
//!
//! Both operands are packed as pairs ([`pack`]), a block of a few MiB at a time. The depth is cut into
//! stretches; patches of C are shared among the threads, and a patch is computed in blocks of
//! [`SIDE`] by [`SIDE`], a stretch after the other, and a row of blocks of C written at a time, since
//! its lines may lie where only few of them fit in the cache. Sums begin with zero and are added to
//! what C was at the end, all in `f32`; one rounding follows.
//!
//! How the depth is cut is decided by its extent alone, so a result does not depend on threads or
//! strides. It does depend on the unit, within the error of summation: of every 32 depths, tiles add
//! up the even ones and the odd ones separately.
//!
//! Both units take subnormal numbers for zeros. So a block with a subnormal operand is computed as
//! if there were no unit. What is left: products and sums below 2⁻¹²⁶ are zeros.

mod dots;
mod finish;
pub(super) mod pack;
mod tiles;

use super::blocked::{self, Target};
use super::cut::even_part;
use super::pack::{Panels, Source};
use super::{Dims, Element, scratch};
use crate::isa::Unit;
use crate::par;
use crate::stop;
use pack::{Side, words};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lanes of a group, and pairs of a tile.
const LANES: usize = 16;

/// Depths of a tile, and words.
const DEPTHS: usize = 32;
const TILE: usize = LANES * LANES;

/// Rows and columns of a block of C whose sums are in registers: two groups by two, whose four
/// squares follow one another.
const SIDE: usize = 2 * LANES;

/// Tiles of the longest stretch of depth: the rows of a block then stay in the first-level cache while
/// the columns go by.
const STRETCH: usize = 16;

/// The most rows and columns of C that are computed with one packing of the operands, and tiles in
/// either packed operand.
const MOST_ROWS: usize = 1024;
const MOST_COLS: usize = 2048;
const MOST_A: usize = 4096;
const MOST_B: usize = 8192;

/// Blocks along the rows and along the columns of the largest patch: its columns of B and the sums
/// stay in the second-level cache.
const PATCH: (usize, usize) = (16, 8);

/// How many tasks there should be for each thread: some threads come late.
const PIECES: usize = 2;

/// Numbers of both operands up to which each of several threads packs what it needs by itself: sooner
/// than others have packed it, and handed it over from their caches.
const BY_ITSELF: usize = 1 << 19;

/// What computes blocks.
trait Multiply {
    /// The products of one or two groups of rows and one or two of columns: `(first tile, way to the
    /// next group, groups)`, each of `depth` tiles. The product of groups `i` and `j` is written to
    /// square number `2 * i + j` of `sums`, or added to it.
    ///
    /// # Safety
    /// The tiles must exist, and four squares.
    unsafe fn multiply(
        &self,
        a: (*const u32, usize, usize),
        b: (*const u32, usize, usize),
        depth: usize,
        add: bool,
        sums: *mut f32,
    );
}

/// Multiply-adds from which several threads are quicker than one.
fn parallel(unit: Unit) -> usize {
    if unit == Unit::Amx { 1 << 22 } else { 1 << 20 }
}

/// C = A·B, or C += A·B if `accumulate`, of numbers that are all `bf16` numbers.
///
/// # Panics
/// If there is no unit.
///
/// # Safety
/// The machine must have the unit. `O` must be `bf16` or `f32`, `dims` be positive, and `c` be valid for
/// `dims.m` × `dims.n` elements, in rows of adjacent ones, that nobody else uses.
pub(super) unsafe fn product<O: Element>(
    unit: Unit,
    dims: Dims,
    a: &impl Source<O::Acc>,
    b: &impl Source<O::Acc>,
    accumulate: bool,
    c: Target<O>,
) {
    assert!(unit > Unit::None && c.col == 1 && size_of::<O::Acc>() == size_of::<f32>());
    let cut = Cut::new(dims);
    let work = dims.m.saturating_mul(dims.n).saturating_mul(dims.k);
    let threads = if work < parallel(unit) { 1 } else { par::threads() };
    let whole = cut.rows >= dims.m && cut.cols >= dims.n && cut.depth == cut.tiles;
    if threads > 1 && whole && !accumulate && (dims.m + dims.n).saturating_mul(dims.k) <= BY_ITSELF
    {
        // SAFETY: the caller's promise.
        return unsafe { product_by_patches(unit, dims, (a, b), cut.stretch, c, threads) };
    }
    let part = cut.depth * DEPTHS;
    let (a_words, b_words) = (words(cut.rows, part), words(cut.cols, part));
    let kept = if cut.depth < cut.tiles { cut.rows * cut.cols } else { 0 };
    scratch::with(a_words + b_words + kept, |room: &mut [f32]| {
        let (a_room, room) = room.split_at_mut(a_words);
        let (b_room, kept) = room.split_at_mut(b_words);
        let kept = if kept.is_empty() { std::ptr::null_mut() } else { kept.as_mut_ptr() };
        for j in (0..dims.n).step_by(cut.cols) {
            let cols = j..dims.n.min(j + cut.cols);
            let mut b_tiny = false;
            for i in (0..dims.m).step_by(cut.rows) {
                let rows = i..dims.m.min(i + cut.rows);
                let mut tiny = false;
                for p in (0..dims.k).step_by(part) {
                    let depth = p..dims.k.min(p + part);
                    // Columns whose whole depth is packed need not be packed again.
                    let b_packed = i > 0 && part >= dims.k;
                    let to_pack = if b_packed { 0..0 } else { cols.clone() };
                    let found = pack_both(
                        (a, rows.clone(), bits(a_room)),
                        (b, to_pack, bits(b_room)),
                        depth.clone(),
                        threads,
                    );
                    b_tiny |= found[1];
                    tiny |= found[0] | b_tiny;
                    if tiny {
                        break;
                    }
                    let block = Block {
                        unit,
                        a: bits(a_room).as_ptr(),
                        b: bits(b_room).as_ptr(),
                        rows: rows.len(),
                        cols: cols.len(),
                        depth: depth.len().div_ceil(DEPTHS),
                        stretch: cut.stretch,
                        kept,
                        first: p == 0,
                        last: depth.end == dims.k,
                        accumulate,
                        // SAFETY: an element of C.
                        c: unsafe { c.at(i, j) },
                    };
                    block.run(threads);
                }
                if tiny {
                    let dims = Dims { m: rows.len(), k: dims.k, n: cols.len() };
                    let (a, b) = (Part { whole: a, first: i }, Part { whole: b, first: j });
                    // SAFETY: a block of C, which was not written to before all was packed.
                    unsafe { blocked::product(dims, &a, &b, accumulate, c.at(i, j)) };
                }
            }
        }
    });
}

/// [`product`], as patches each of which packs its operands.
///
/// # Safety
/// As for `product`.
unsafe fn product_by_patches<O: Element>(
    unit: Unit,
    dims: Dims,
    (a, b): (&impl Source<O::Acc>, &impl Source<O::Acc>),
    stretch: usize,
    c: Target<O>,
    threads: usize,
) {
    let all = (dims.m.div_ceil(SIDE), dims.n.div_ceil(SIDE));
    let (down, across) = grid(all, threads);
    let tiny = AtomicBool::new(false);
    each(threads, down * across, &|task| {
        let (rows, cols) = piece(all, (down, across), task);
        let lanes = |blocks: &Range<usize>, extent: usize| {
            blocks.start * SIDE..extent.min(blocks.end * SIDE)
        };
        let (i, j) = (lanes(&rows, dims.m), lanes(&cols, dims.n));
        let (a_words, b_words) = (words(i.len(), dims.k), words(j.len(), dims.k));
        scratch::with(a_words + b_words, |room: &mut [f32]| {
            let (a_room, b_room) = bits(room).split_at_mut(a_words);
            let found = [
                a.pack_pairs(i.clone(), 0..dims.k, Side::Rows, a_room),
                b.pack_pairs(j.clone(), 0..dims.k, Side::Columns, b_room),
            ];
            if found != [false; 2] {
                return tiny.store(true, Ordering::Relaxed);
            }
            let block = Block {
                unit,
                a: a_room.as_ptr(),
                b: b_room.as_ptr(),
                rows: i.len(),
                cols: j.len(),
                depth: dims.k.div_ceil(DEPTHS),
                stretch,
                kept: std::ptr::null_mut(),
                first: true,
                last: true,
                accumulate: false,
                // SAFETY: an element of C.
                c: unsafe { c.at(i.start, j.start) },
            };
            block.patch_of(0..rows.len(), 0..cols.len());
        });
    });
    if tiny.into_inner() {
        // SAFETY: the caller's promise.
        unsafe { blocked::product(dims, a, b, false, c) };
    }
}

/// How many patches down and across so many blocks are cut into, one for each thread: so that the
/// largest is soon computed and packed, for which a block of its rows or columns takes as long as
/// computing one and a half.
fn grid(all: (usize, usize), threads: usize) -> (usize, usize) {
    let cut = |down: usize| (down.min(all.0), (threads / down).clamp(1, all.1));
    let time = |&(down, across): &(usize, usize)| {
        let (height, width) = (all.0.div_ceil(down), all.1.div_ceil(across));
        2 * height * width + 3 * (height + width)
    };
    (1..=threads).map(cut).min_by_key(time).unwrap_or((1, 1))
}

/// The blocks of patch number `task`.
fn piece(
    all: (usize, usize),
    (down, across): (usize, usize),
    task: usize,
) -> (Range<usize>, Range<usize>) {
    let at = |all: usize, parts: usize, part: usize| all * part / parts;
    let (i, j) = (task / across, task % across);
    (at(all.0, down, i)..at(all.0, down, i + 1), at(all.1, across, j)..at(all.1, across, j + 1))
}

/// The same memory as words.
fn bits(room: &mut [f32]) -> &mut [u32] {
    // SAFETY: of the same size and alignment, and any bits are good for either.
    unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), room.len()) }
}

/// How a product is cut: by its extents alone.
struct Cut {
    /// Rows and columns of C that are computed together.
    rows: usize,
    cols: usize,
    /// Tiles of the depth in all, of a part that is packed at a time, and of a stretch.
    tiles: usize,
    depth: usize,
    stretch: usize,
}

impl Cut {
    fn new(dims: Dims) -> Cut {
        let side =
            |extent: usize, most: usize| even_part(extent.div_ceil(SIDE), most / SIDE) * SIDE;
        let (rows, cols) = (side(dims.m, MOST_ROWS), side(dims.n, MOST_COLS));
        let tiles = dims.k.div_ceil(DEPTHS);
        let stretch = even_part(tiles, STRETCH);
        let most = (MOST_A / (rows / LANES)).min(MOST_B / (cols / LANES));
        let stretches = even_part(tiles.div_ceil(stretch), (most / stretch).max(1));
        Cut { rows, cols, tiles, depth: (stretches * stretch).min(tiles), stretch }
    }
}

/// The lanes of an operand from `first` on.
struct Part<'a, S> {
    whole: &'a S,
    first: usize,
}

impl<R: super::Real, S: Source<R>> Source<R> for Part<'_, S> {
    fn pack(&self, lanes: Range<usize>, depth: Range<usize>, panels: Panels, out: &mut [R]) {
        let lanes = self.first + lanes.start..self.first + lanes.end;
        self.whole.pack(lanes, depth, panels, out);
    }

    fn adjacent_lanes(&self) -> bool {
        self.whole.adjacent_lanes()
    }
}

/// Runs tasks, on several threads if there are to be any.
fn each(threads: usize, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    if threads > 1 {
        par::parallel_for(tasks, task);
        return;
    }
    for i in 0..tasks {
        stop::check();
        task(i);
    }
}

/// Packs lanes of both operands: `(operand, lanes, room)`. Returns whether a number of A is subnormal,
/// and of B.
fn pack_both<R: super::Real>(
    (a, rows, a_room): (&impl Source<R>, Range<usize>, &mut [u32]),
    (b, cols, b_room): (&impl Source<R>, Range<usize>, &mut [u32]),
    depth: Range<usize>,
    threads: usize,
) -> [bool; 2] {
    let lanes = rows.len() + cols.len();
    // Lanes of a task: whole groups, two of them together, that share a cache line.
    let most = if threads == 1 { lanes } else { lanes.div_ceil(PIECES * threads) };
    let piece = most.next_multiple_of(SIDE);
    let (a_tasks, b_tasks) = (rows.len().div_ceil(piece), cols.len().div_ceil(piece));
    let found = [AtomicBool::new(false), AtomicBool::new(false)];
    let (a_room, b_room) = (par::Shared::new(a_room), par::Shared::new(b_room));
    each(threads, a_tasks + b_tasks, &|task| {
        let is_b = task >= a_tasks;
        let (lanes, room) = if is_b { (&cols, &b_room) } else { (&rows, &a_room) };
        let first = (task - if is_b { a_tasks } else { 0 }) * piece;
        let lanes = lanes.start + first..lanes.end.min(lanes.start + first + piece);
        let start = words(first, depth.len());
        // SAFETY: groups of lanes that no other task has, within the room for all of them.
        let out = unsafe { room.part(start, start + words(lanes.len(), depth.len())) };
        let tiny = if is_b {
            b.pack_pairs(lanes, depth.clone(), Side::Columns, out)
        } else {
            a.pack_pairs(lanes, depth.clone(), Side::Rows, out)
        };
        if tiny {
            found[usize::from(is_b)].store(true, Ordering::Relaxed);
        }
    });
    found.map(AtomicBool::into_inner)
}

/// Rows and columns of C, and a part of the depth, both operands of which are packed.
struct Block<O> {
    unit: Unit,
    a: *const u32,
    b: *const u32,
    rows: usize,
    cols: usize,
    /// Tiles of the depth, and of a stretch.
    depth: usize,
    stretch: usize,
    /// The sums of blocks between parts of the depth, if there are several.
    kept: *mut f32,
    first: bool,
    last: bool,
    accumulate: bool,
    c: Target<O>,
}

// SAFETY: tasks read the operands and write disjoint blocks.
unsafe impl<O: Send> Sync for Block<O> {}

impl<O: Element> Block<O> {
    fn run(&self, threads: usize) {
        let all = (self.rows.div_ceil(SIDE), self.cols.div_ceil(SIDE));
        let (mut down, mut across) = (all.0.div_ceil(PATCH.0), all.1.div_ceil(PATCH.1));
        while threads > 1 && down * across < PIECES * threads {
            // Patches become smaller along their longer side.
            let (height, width) = (all.0 / down, all.1 / across);
            if height.max(width) < 2 {
                break;
            }
            if height > width { down += 1 } else { across += 1 }
        }
        each(threads, down * across, &|task| {
            let (rows, cols) = piece(all, (down, across), task);
            self.patch_of(rows, cols);
        });
    }

    /// Computes a patch, given in blocks.
    fn patch_of(&self, rows: Range<usize>, cols: Range<usize>) {
        // Without stretches to come, a row of blocks at a time is enough.
        let rows_kept = if self.stretch < self.depth { rows.len() } else { 1 };
        let sums = if self.kept.is_null() { rows_kept * cols.len() * SIDE * SIDE } else { 0 };
        scratch::with(sums, |sums: &mut [f32]| {
            let sums = if !self.kept.is_null() {
                let next = self.cols.div_ceil(SIDE);
                let first = (rows.start * next + cols.start) * SIDE * SIDE;
                (self.kept.wrapping_add(first), next)
            } else {
                (sums.as_mut_ptr(), if rows_kept > 1 { cols.len() } else { 0 })
            };
            // SAFETY: the machine has the unit; a part of the block that no other task has.
            unsafe {
                if self.unit == Unit::Amx {
                    self.patch(&tiles::Configured::new(), rows, cols, sums);
                } else {
                    self.patch(&dots::Dots::new(), rows, cols, sums);
                }
            }
        });
    }

    /// Computes a patch. `sums` are those of its first block, and how many blocks on
    /// those of the next row of blocks are.
    ///
    /// # Safety
    /// The patch must be of this block, and nobody else use it or its sums. The machine must have
    /// AVX-512.
    #[inline(never)]
    unsafe fn patch(
        &self,
        with: &impl Multiply,
        rows: Range<usize>,
        cols: Range<usize>,
        (sums, next): (*mut f32, usize),
    ) {
        let group = self.depth * TILE;
        let groups = |extent: usize, at: usize| (extent - at * SIDE).div_ceil(LANES).min(2);
        for start in (0..self.depth).step_by(self.stretch) {
            let tiles = self.stretch.min(self.depth - start);
            let add = !self.first || start > 0;
            let tile =
                |packed: *const u32, at: usize| packed.wrapping_add(2 * at * group + start * TILE);
            for i in rows.clone() {
                let sums = sums.wrapping_add((i - rows.start) * next * SIDE * SIDE);
                let a = (tile(self.a, i), group, groups(self.rows, i));
                for j in cols.clone() {
                    let b = (tile(self.b, j), group, groups(self.cols, j));
                    let sums = sums.wrapping_add((j - cols.start) * SIDE * SIDE);
                    // SAFETY: groups of rows and columns that are packed, and a block's sums.
                    unsafe { with.multiply(a, b, tiles, add, sums) };
                }
                if self.last && start + tiles == self.depth {
                    let height = SIDE.min(self.rows - i * SIDE);
                    let width = self.cols.min(cols.end * SIDE) - cols.start * SIDE;
                    // SAFETY: the part of C is there, and all its sums.
                    unsafe {
                        let c = self.c.at(i * SIDE, cols.start * SIDE);
                        finish::write(sums, c, self.accumulate, height, width);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_at_a_time_is_a_few_mebibytes_and_stretches_stay_whole() {
        const EXTENTS: [usize; 9] = [1, 31, 33, 512, 1000, 4097, 20_000, 100_000, 3_000_000];
        for m in EXTENTS {
            for k in EXTENTS {
                for n in EXTENTS {
                    let cut = Cut::new(Dims { m, k, n });
                    let depth = cut.depth * DEPTHS;
                    assert!(words(cut.rows, depth) <= MOST_A * TILE, "{m} {k} {n}");
                    assert!(words(cut.cols, depth) <= MOST_B * TILE, "{m} {k} {n}");
                    assert!(cut.rows <= MOST_ROWS && cut.cols <= MOST_COLS, "{m} {k} {n}");
                    assert!(cut.stretch <= STRETCH, "{m} {k} {n}");
                    let whole = cut.depth.is_multiple_of(cut.stretch);
                    assert!(whole || cut.depth == cut.tiles, "{m} {k} {n}");
                }
            }
        }
    }
}
