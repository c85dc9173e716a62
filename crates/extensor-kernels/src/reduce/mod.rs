//! Many numbers to one: a strided array folded over some of its axes.
//!
//! The order in which the numbers of one result are folded follows from how many there are and from
//! nothing else: up to `SEQUENCE` one after the other; more in `FEW_LANES` or `LANES` interleaved
//! lanes within chunks of `CHUNK`, the lanes and then the chunks joined in a balanced tree. So a
//! result has the same bits for any layout of the same values and any number of threads, and the
//! error of a sum grows with the logarithm of its length at most.
//!
//! Memory is read in the order in which it lies. Where the numbers of one result lie together a
//! chunk is a slice (`rows`); where those of neighbouring results do, many results are folded side
//! by side (`columns`), each in the same order as it would be alone. What lies in neither way is
//! packed piece by piece.

mod arg;
mod classes;
mod fold;
mod mapped;
mod real;
mod registers;
mod scan;
mod ties;

pub use arg::{Which, arg};
pub use classes::{RowSums, Scores, Targets, class_gradients, class_losses};
pub use fold::{Arithmetic, Extremes, maximum, minimum, product, sum};
pub use mapped::{PIECE as MAP_SUM_PIECE, map_sum, slice_mean};
pub(crate) use real::scaled_sums;
pub use real::{Floats, Line, float_product, float_sum, logsumexp, mean, norm, std, variance};
pub use scan::{Rounds, Scans, cumprod, cumsum, logcumsumexp, recurrence};
pub use ties::{TieShares, extreme_gradient, ties_follow};

use crate::native::{Compute, Native};
use crate::par::{Shared, parallel_for, share, threads};
use crate::stop;
use crate::stream::Cursors;
use crate::view::{Gather, View, merged};
use smallvec::SmallVec;

/// Numbers that are folded one after the other.
const SEQUENCE: usize = 16;
/// Interleaved lanes in which up to [`LONG`] are folded: a vector.
const FEW_LANES: usize = 8;
/// Interleaved lanes in which more are folded: four vectors.
const LANES: usize = 32;
/// From here on all lanes are used.
const LONG: usize = 256;
/// Numbers of one result that are folded before partial results are joined.
pub const CHUNK: usize = 4096;
/// Numbers that are packed at a time.
const PACK: usize = 4096;
/// Up to so many results all are folded side by side.
const NARROW: usize = PACK / LANES;
/// Results that are folded side by side where there are more.
const BLOCK: usize = 512;
/// From so many bytes on numbers come from memory, not from a cache, and are read at several positions
/// at once: a core can have more memory under way than one stream, which stops at every page, asks for.
const PAST: usize = 24 << 20;
/// Numbers that are read in this way by one task at most, and what is left to share of the rest.
const SIDE_BY_SIDE: usize = 1 << 19;
const PARTS: usize = 32;
/// Partial results that are joined before looking whether to go on.
const JOINED: usize = 1 << 20;
/// Numbers that are worth a task of their own.
const TASK: usize = 64 * 1024;
const LEAST: usize = 8 * 1024;

/// A way to fold numbers, on slices; `P` is a parameter that each result has for itself.
pub trait Fold<I, A, P>: Sync {
    /// What folding nothing gives.
    fn start(&self) -> A;
    /// `out[i]` = all of row number `i` of `x`, whose rows have `n <= CHUNK` numbers, folded with
    /// `params[i]`. More than 4096 numbers come from memory.
    fn rows(&self, x: &[I], n: usize, params: &[P], out: &mut [A]);
    /// Folds `x[i]` into `acc[i]` with `params[i]`, for each of `count` rows of `x` that begin
    /// `stride` numbers apart.
    fn columns(&self, x: &[I], stride: usize, count: usize, params: &[P], acc: &mut [A]);
    /// Joins `other[i]` to `acc[i]`.
    fn join(&self, acc: &mut [A], other: &[A]);
}

/// Joins `count` rows of `width` partial results into the first, in a balanced tree.
pub(crate) fn tree<I, A, P>(
    fold: &dyn Fold<I, A, P>,
    partial: &mut [A],
    mut count: usize,
    width: usize,
) {
    while count > 1 {
        let half = count.div_ceil(2);
        let (low, high) = partial.split_at_mut(half * width);
        let rest = (count - half) * width;
        for (low, high) in low[..rest].chunks_mut(JOINED).zip(high.chunks(JOINED)) {
            stop::check();
            fold.join(low, high);
        }
        count = half;
    }
}

/// How many lanes the numbers of a chunk are folded in.
#[inline(always)]
pub(crate) fn lanes(n: usize) -> usize {
    if n <= SEQUENCE {
        1
    } else if n < LONG {
        FEW_LANES
    } else {
        LANES
    }
}

/// Sizes and steps of axes in the order in which they are walked over.
struct Walk {
    shape: SmallVec<[usize; 6]>,
    strides: SmallVec<[isize; 6]>,
}

impl Walk {
    /// The axes of `x` with the kept ones outside, or inside.
    fn new<T>(x: &View<'_, T>, reduced: &[bool], kept_outside: bool) -> Walk {
        let mut walk = Walk { shape: SmallVec::new(), strides: SmallVec::new() };
        for outside in [true, false] {
            for (axis, &reduced) in reduced.iter().enumerate() {
                if (reduced != kept_outside) == outside {
                    walk.shape.push(x.shape()[axis]);
                    walk.strides.push(x.strides()[axis]);
                }
            }
        }
        walk
    }

    /// How far the axes of the first `count` elements step forward, if they do so evenly.
    fn outer_step(&self, count: usize) -> Option<usize> {
        let mut axes = 0;
        let mut seen = 1;
        while seen < count {
            seen *= self.shape[axes];
            axes += 1;
        }
        match merged(&self.shape[..axes], &self.strides[..axes]).as_slice() {
            [] => Some(0),
            [(_, step)] => usize::try_from(*step).ok(),
            _ => None,
        }
    }

    fn gather<'a, T: Native>(&'a self, x: &View<'a, T>) -> Gather<'a, T> {
        Gather::new(&View::new(x.data(), x.offset(), &self.shape, &self.strides))
    }
}

/// Whether the numbers of one result lie closer to each other than neighbouring results.
fn lies_in_rows<T>(x: &View<'_, T>, reduced: &[bool]) -> bool {
    let mut nearest = (usize::MAX, true);
    for (axis, (&size, &stride)) in x.shape().iter().zip(x.strides()).enumerate() {
        let step = stride.unsigned_abs();
        if size > 1 && step > 0 && step <= nearest.0 {
            nearest = (step, reduced[axis]);
        }
    }
    nearest.1
}

/// The numbers of results and of numbers for each.
fn counts(shape: &[usize], reduced: &[bool]) -> (usize, usize) {
    assert_eq!(shape.len(), reduced.len(), "reduce: a mask of another rank");
    let (mut results, mut each) = (1, 1);
    for (&size, &reduced) in shape.iter().zip(reduced) {
        if reduced {
            each = usize::saturating_mul(each, size);
        } else {
            results = usize::saturating_mul(results, size);
        }
    }
    (results, each)
}

/// Makes results, from number `start` on, of what was accumulated: `finish(start, acc, out)`.
type Finish<'a, A, O> = &'a (dyn Fn(usize, &[A], &mut [O]) + Sync);

/// Folds `x` over the axes that `reduced` marks, into results in row-major order of the other axes.
/// `params` has one entry for each result.
///
/// # Panics
/// If `out` or `params` has not as many elements as there are results.
pub(crate) fn reduce<T, A, P, O>(
    fold: &dyn Fold<T::Wide, A, P>,
    x: View<'_, T>,
    reduced: &[bool],
    params: &[P],
    finish: Finish<'_, A, O>,
    out: &mut [O],
) where
    T: Compute,
    A: Native,
    P: Copy + Send + Sync,
    O: Native,
{
    let (results, each) = counts(x.shape(), reduced);
    assert_eq!(out.len(), results, "reduce: the number of results");
    assert_eq!(params.len(), results, "reduce: the number of parameters");
    if results == 0 {
        return;
    }
    if each == 0 {
        let start = vec![fold.start(); results.min(BLOCK)];
        for (k, out) in out.chunks_mut(BLOCK).enumerate() {
            finish(k * BLOCK, &start[..out.len()], out);
        }
        return;
    }
    // Little work that lies in order is done at once.
    if results == 1
        && each <= CHUNK
        && let Some(x) = x.as_slice().and_then(T::as_wide)
    {
        let mut acc = [fold.start()];
        fold.rows(x, each, params, &mut acc);
        return finish(0, &acc, out);
    }
    let job = Job { fold, params, finish, results, each, chunks: each.div_ceil(CHUNK) };
    if results == 1 || (each > 1 && lies_in_rows(&x, reduced)) {
        job.rows(&Walk::new(&x, reduced, true).gather(&x), out);
    } else {
        job.columns(&Walk::new(&x, reduced, false), &x, out);
    }
}

/// A reduction under way.
struct Job<'a, I, A, P, O> {
    fold: &'a dyn Fold<I, A, P>,
    params: &'a [P],
    finish: Finish<'a, A, O>,
    results: usize,
    each: usize,
    chunks: usize,
}

/// Room to pack and widen numbers in, made when first needed.
struct Room<T: Compute> {
    raw: Vec<T>,
    wide: Vec<T::Wide>,
}

impl<T: Compute> Room<T> {
    fn new() -> Self {
        Room { raw: Vec::new(), wide: Vec::new() }
    }

    /// Elements `start..start + len`, in the type that is computed in.
    #[inline]
    fn read<'r>(&'r mut self, x: &Gather<'r, T>, start: usize, len: usize) -> &'r [T::Wide] {
        let together = x.slice(start, len);
        if let Some(direct) = together.and_then(T::as_wide) {
            return direct;
        }
        let source = match together {
            Some(source) => source,
            None => {
                if self.raw.len() < len {
                    self.raw.resize(len, T::ZERO);
                }
                x.read(start, &mut self.raw[..len]);
                &self.raw[..len]
            }
        };
        if let Some(direct) = T::as_wide(source) {
            return direct;
        }
        if self.wide.len() < len {
            self.wide.resize(len, T::Wide::ZERO);
        }
        T::widen(source, &mut self.wide[..len]);
        &self.wide[..len]
    }

    /// Rows of `len` elements from each of `starts` on, one behind the other, widened.
    fn read_rows(
        &mut self,
        x: &Gather<'_, T>,
        starts: impl ExactSizeIterator<Item = usize>,
        len: usize,
    ) -> &[T::Wide] {
        let all = starts.len() * len;
        if self.wide.len() < all {
            self.wide.resize(all, T::Wide::ZERO);
        }
        if self.raw.len() < len {
            self.raw.resize(len, T::ZERO);
        }
        for (start, wide) in starts.zip(self.wide.chunks_exact_mut(len)) {
            match x.slice(start, len) {
                Some(source) => T::widen(source, wide),
                None => {
                    x.read(start, &mut self.raw[..len]);
                    T::widen(&self.raw[..len], wide);
                }
            }
        }
        &self.wide[..all]
    }
}

/// Runs `unit(0)`, …, each about `each` numbers of work, several to a task.
pub(crate) fn in_tasks(units: usize, each: usize, run: &(dyn Fn(std::ops::Range<usize>) + Sync)) {
    let each = each.max(1);
    let together = (share(units.saturating_mul(each), LEAST, TASK) / each).max(1);
    if units <= together {
        return run(0..units);
    }
    parallel_for(units.div_ceil(together), &|task| {
        run(task * together..((task + 1) * together).min(units))
    });
}

/// How many of `rows` rows of `each` numbers, of `all` numbers that are folded, are folded side by
/// side: one, unless they come from memory and need not be packed.
fn side_by_side<T: Compute>(x: &Gather<'_, T>, all: usize, rows: usize, each: usize) -> usize {
    let most = SIDE_BY_SIDE.min(x.stretch()) / each;
    let small = all < PAST / size_of::<T>();
    let cursors = Cursors::here().count;
    if small || each < LONG || most < cursors || T::as_wide(&[]).is_none() {
        return 1;
    }
    (rows / PARTS.max(8 * threads())).clamp(cursors, most) / cursors * cursors
}

impl<I: Native, A: Native, P: Copy + Send + Sync, O: Native> Job<'_, I, A, P, O> {
    /// Where the numbers of one result lie together: `x` walks over the results outside.
    fn rows<T: Compute<Wide = I>>(&self, x: &Gather<'_, T>, out: &mut [O]) {
        let &Job { results, each, .. } = self;
        if self.chunks > 1 {
            return self.long_rows(x, out);
        }
        // Several short rows at a time, or several that are read side by side.
        let together =
            (PACK / each).max(side_by_side(x, results.saturating_mul(each), results, each));
        let shared = Shared::new(out);
        in_tasks(results.div_ceil(together), together.min(results) * each, &|units| {
            let mut room = Room::new();
            let mut acc: SmallVec<[A; 8]> = SmallVec::new();
            for unit in units {
                let start = unit * together;
                let end = (start + together).min(results);
                let values = room.read(x, start * each, (end - start) * each);
                acc.resize(end - start, self.fold.start());
                self.fold.rows(values, each, &self.params[start..end], &mut acc);
                // SAFETY: the units' parts of `out` lie in it and do not overlap.
                (self.finish)(start, &acc, unsafe { shared.part(start, end) });
            }
        });
    }

    /// Rows of more than one chunk.
    fn long_rows<T: Compute<Wide = I>>(&self, x: &Gather<'_, T>, out: &mut [O]) {
        let &Job { each, chunks, .. } = self;
        let mut partial = stop::room(self.fold.start(), self.results.saturating_mul(chunks));
        let shared = Shared::new(&mut partial);
        // Whole chunks that lie together are folded side by side, as rows are.
        let together = side_by_side(x, self.results.saturating_mul(each), chunks, CHUNK);
        let per_row = chunks.div_ceil(together);
        in_tasks(self.results * per_row, CHUNK * together, &|units| {
            let mut room = Room::new();
            let mut params: SmallVec<[P; 1]> = SmallVec::new();
            for unit in units {
                let (row, first) = (unit / per_row, unit % per_row * together);
                let last = (first + together).min(chunks);
                // The last chunk of a row may be shorter than the others.
                let whole = if last * CHUNK > each { last - 1 } else { last };
                params.clear();
                params.resize(last - first, self.params[row]);
                for part in [first..whole, whole..last] {
                    if part.is_empty() {
                        continue;
                    }
                    let (start, end) = (part.start * CHUNK, (part.end * CHUNK).min(each));
                    let values = room.read(x, row * each + start, end - start);
                    let at = row * chunks;
                    // SAFETY: the units' parts of `partial` lie in it and do not overlap.
                    let acc = unsafe { shared.part(at + part.start, at + part.end) };
                    let n = (end - start) / part.len();
                    self.fold.rows(values, n, &params[..part.len()], acc);
                }
            }
        });
        for (k, row) in partial.chunks_mut(chunks).enumerate() {
            tree(self.fold, row, chunks, 1);
            (self.finish)(k, &row[..1], &mut out[k..=k]);
        }
    }

    /// Where neighbouring results lie together: `walk` has the reduced axes outside.
    fn columns<T: Compute<Wide = I>>(&self, walk: &Walk, x: &View<'_, T>, out: &mut [O]) {
        let &Job { results, each, chunks, .. } = self;
        let x = walk.gather(x);
        let even = x.stretch() > 0;
        let step = walk.outer_step(each).filter(|_| even);
        // Blocks do not go beyond a stretch of results that lie together, if those are long.
        let (stretch, step) = match x.stretch().min(results) {
            run if run >= NARROW / 4 && results > NARROW && results.is_multiple_of(run) => {
                (run, step)
            }
            _ => (results, None),
        };
        // Every thread gets a block, unless they would be narrower than two lines of memory.
        let shares = (stretch / NARROW).min(8).max((stretch / LANES).min(threads()));
        let blocks = stretch.div_ceil(BLOCK).max(if results > NARROW { shares } else { 1 });
        let block = stretch.div_ceil(blocks);
        let blocks = stretch.div_ceil(block);
        let per_chunk = results / stretch * blocks;
        let rows = each.min(CHUNK);

        let partials = if chunks > 1 { chunks.saturating_mul(results) } else { 0 };
        let mut partial: Vec<A> = stop::room(self.fold.start(), partials);
        let (whole, shared) = (Shared::new(out), Shared::new(&mut partial));
        in_tasks(chunks * per_chunk, block * rows, &|units| {
            let mut room = Room::new();
            let mut acc: Vec<A> = Vec::new();
            let mut params: Vec<P> = Vec::new();
            for unit in units {
                let (chunk, rest) = (unit / per_chunk, unit % per_chunk);
                let (base, within) = (rest / blocks * stretch, rest % blocks * block);
                let columns = base + within..base + (within + block).min(stretch);
                let rows = chunk * CHUNK..((chunk + 1) * CHUNK).min(each);
                let side = Panel { rows, columns: columns.clone() };
                if results <= NARROW {
                    self.narrow(&x, &side, &mut room, &mut params, &mut acc);
                } else {
                    self.wide(&x, step, &side, &mut room, &mut acc);
                }
                let (count, width) = (lanes(side.rows.len()), columns.len());
                tree(self.fold, &mut acc, count, width);
                // SAFETY: the units' parts lie in `out` and in `partial`, and do not overlap.
                unsafe {
                    if chunks == 1 {
                        let out = whole.part(columns.start, columns.end);
                        (self.finish)(columns.start, &acc[..width], out);
                    } else {
                        let at = chunk * results;
                        shared
                            .part(at + columns.start, at + columns.end)
                            .copy_from_slice(&acc[..width]);
                    }
                }
            }
        });
        if chunks > 1 {
            tree(self.fold, &mut partial, chunks, results);
            (self.finish)(0, &partial[..results], out);
        }
    }

    /// A panel of all columns: its rows lie behind each other, so a group of rows, one for each
    /// lane, is folded into the lanes like a single row.
    fn narrow<T: Compute<Wide = I>>(
        &self,
        x: &Gather<'_, T>,
        side: &Panel,
        room: &mut Room<T>,
        params: &mut Vec<P>,
        acc: &mut Vec<A>,
    ) {
        let width = self.results;
        let group = lanes(side.rows.len()) * width;
        acc.clear();
        acc.resize(group, self.fold.start());
        if params.len() != group {
            params.clear();
            while params.len() < group {
                params.extend_from_slice(self.params);
            }
        }
        let (mut at, end) = (side.rows.start * width, side.rows.end * width);
        let step = (PACK / group).max(1) * group;
        while at < end {
            let values = room.read(x, at, step.min(end - at));
            let whole = values.len() / group;
            self.fold.columns(values, group, whole, params, acc);
            let rest = &values[whole * group..];
            if !rest.is_empty() {
                let (params, acc) = (&params[..rest.len()], &mut acc[..rest.len()]);
                self.fold.columns(rest, 0, 1, params, acc);
            }
            at += step;
        }
    }

    /// A panel of some columns, lane after lane; `step`: how far its rows lie apart, if each lies
    /// together and all of them evenly.
    fn wide<T: Compute<Wide = I>>(
        &self,
        x: &Gather<'_, T>,
        step: Option<usize>,
        side: &Panel,
        room: &mut Room<T>,
        acc: &mut Vec<A>,
    ) {
        let (width, count) = (side.columns.len(), lanes(side.rows.len()));
        acc.clear();
        acc.resize(count * width, self.fold.start());
        let params = &self.params[side.columns.clone()];
        for (lane, acc) in acc.chunks_mut(width).enumerate() {
            let mut row = side.rows.start + lane;
            if row >= side.rows.end {
                break;
            }
            let at = |row: usize| row * self.results + side.columns.start;
            let rows = (side.rows.end - row).div_ceil(count);
            let last = row + (rows - 1) * count;
            let stretch = T::as_wide(&[]).and(step);
            let panel = stretch.and_then(|step| {
                let panel = x.between(at(row), at(last) + width - 1)?;
                Some((T::as_wide(panel)?, step * count))
            });
            if let Some((panel, stride)) = panel {
                self.fold.columns(panel, stride, rows, params, acc);
                continue;
            }
            // Several rows are widened before they are folded.
            let most = if T::as_wide(&[]).is_some() { 1 } else { (PACK / width).max(1) };
            while row < side.rows.end {
                let rows = most.min((side.rows.end - row).div_ceil(count));
                let values = match rows {
                    1 => room.read(x, at(row), width),
                    _ => room.read_rows(x, (0..rows).map(|k| at(row + k * count)), width),
                };
                self.fold.columns(values, width, rows, params, acc);
                row += rows * count;
            }
        }
    }
}

/// Part of a matrix whose rows are to be folded into one.
struct Panel {
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
}
