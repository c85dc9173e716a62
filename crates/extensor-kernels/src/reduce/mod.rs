//! Many numbers to one: a strided array folded over some of its axes.
//!
//! The order in which the numbers of one result are folded follows from how many there are and from
//! nothing else: up to [`SEQUENCE`] one after the other; more in [`LANES`] interleaved lanes within
//! chunks of [`CHUNK`], the lanes and then the chunks joined in a balanced tree. So a result has
//! the same bits for any layout of the same values and any number of threads, and the error of a
//! sum grows with the logarithm of its length at most.
//!
//! Memory is read in the order in which it lies. Where the numbers of one result lie together a
//! chunk is a slice (`rows`); where those of neighbouring results do, many results are folded side
//! by side (`columns`), each in the same order as it would be alone. What lies in neither way is
//! packed piece by piece.

mod arg;
mod fold;
mod real;
mod scan;

pub use arg::{Which, arg};
pub use fold::{Arithmetic, Extremes, maximum, minimum, product, sum};
pub use real::{Floats, float_product, float_sum, logsumexp, mean, norm, std, variance};
pub use scan::{Scans, cumsum};

use crate::native::{Compute, Native};
use crate::par::{Shared, parallel_for};
use crate::view::{Gather, View};
use smallvec::SmallVec;

/// Numbers that are folded one after the other.
const SEQUENCE: usize = 16;
/// Interleaved lanes in which more are folded: four vectors of eight.
const LANES: usize = 32;
/// Numbers of one result that are folded before partial results are joined.
const CHUNK: usize = 4096;
/// Numbers that are packed at a time.
const PACK: usize = 4096;
/// Up to so many results all are folded side by side.
const NARROW: usize = PACK / LANES;
/// Results that are folded side by side where there are more.
const BLOCK: usize = 512;
/// Numbers that are worth a task of their own.
const TASK: usize = 64 * 1024;

/// A way to fold numbers, on slices; `P` is a parameter that each result has for itself.
pub trait Fold<I, A, P>: Sync {
    /// What folding nothing gives.
    fn start(&self) -> A;
    /// `out[i]` = all of row number `i` of `x`, whose rows have `n <= CHUNK` numbers, folded with
    /// `params[i]`.
    fn rows(&self, x: &[I], n: usize, params: &[P], out: &mut [A]);
    /// Folds `x[i]` into `acc[i]` with `params[i]`.
    fn columns(&self, x: &[I], params: &[P], acc: &mut [A]);
    /// Joins `other[i]` to `acc[i]`.
    fn join(&self, acc: &mut [A], other: &[A]);
}

/// Joins `count` rows of `width` partial results into the first, in a balanced tree.
fn tree<I, A, P>(fold: &dyn Fold<I, A, P>, partial: &mut [A], mut count: usize, width: usize) {
    while count > 1 {
        let half = count.div_ceil(2);
        let (low, high) = partial.split_at_mut(half * width);
        let rest = (count - half) * width;
        fold.join(&mut low[..rest], &high[..rest]);
        count = half;
    }
}

/// How many lanes the numbers of a chunk are folded in.
fn lanes(n: usize) -> usize {
    if n <= SEQUENCE { 1 } else { LANES }
}

/// Sizes and steps of axes in the order in which they are walked over.
struct Walk {
    shape: SmallVec<[usize; 6]>,
    strides: SmallVec<[isize; 6]>,
}

impl Walk {
    /// The axes of `x` with the kept ones outside, or inside.
    fn new<T>(x: &View<'_, T>, reduced: &[bool], kept_outside: bool) -> Walk {
        let mut walk = Walk {
            shape: SmallVec::new(),
            strides: SmallVec::new(),
        };
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
    let job = Job {
        fold,
        params,
        finish,
        results,
        each,
        chunks: each.div_ceil(CHUNK),
    };
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
        Room {
            raw: Vec::new(),
            wide: Vec::new(),
        }
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
}

/// Runs `unit(0)`, …, each about `each` numbers of work, several to a task.
fn in_tasks(units: usize, each: usize, run: impl Fn(std::ops::Range<usize>) + Sync) {
    let together = (TASK / each.max(1)).max(1);
    if units <= together {
        return run(0..units);
    }
    parallel_for(units.div_ceil(together), |task| {
        run(task * together..((task + 1) * together).min(units))
    });
}

impl<I: Native, A: Native, P: Copy + Send + Sync, O: Native> Job<'_, I, A, P, O> {
    /// Where the numbers of one result lie together: `x` walks over the results outside.
    fn rows<T: Compute<Wide = I>>(&self, x: &Gather<'_, T>, out: &mut [O]) {
        let &Job { results, each, .. } = self;
        if self.chunks > 1 {
            return self.long_rows(x, out);
        }
        // Several short rows at a time.
        let together = (PACK / each).max(1);
        let shared = Shared::new(out);
        in_tasks(
            results.div_ceil(together),
            together.min(results) * each,
            |units| {
                let mut room = Room::new();
                let mut acc: SmallVec<[A; 8]> = SmallVec::new();
                for unit in units {
                    let start = unit * together;
                    let end = (start + together).min(results);
                    let values = room.read(x, start * each, (end - start) * each);
                    acc.resize(end - start, self.fold.start());
                    self.fold
                        .rows(values, each, &self.params[start..end], &mut acc);
                    // SAFETY: the units' parts of `out` lie in it and do not overlap.
                    (self.finish)(start, &acc, unsafe { shared.part(start, end) });
                }
            },
        );
    }

    /// Rows of more than one chunk.
    fn long_rows<T: Compute<Wide = I>>(&self, x: &Gather<'_, T>, out: &mut [O]) {
        let &Job { each, chunks, .. } = self;
        let mut partial = vec![self.fold.start(); self.results * chunks];
        let shared = Shared::new(&mut partial);
        in_tasks(self.results * chunks, CHUNK, |units| {
            let mut room = Room::new();
            for unit in units {
                let (row, start) = (unit / chunks, unit % chunks * CHUNK);
                let len = CHUNK.min(each - start);
                let values = room.read(x, row * each + start, len);
                // SAFETY: the units' parts of `partial` lie in it and do not overlap.
                let acc = unsafe { shared.part(unit, unit + 1) };
                self.fold.rows(values, len, &self.params[row..row + 1], acc);
            }
        });
        for (k, row) in partial.chunks_mut(chunks).enumerate() {
            tree(self.fold, row, chunks, 1);
            (self.finish)(k, &row[..1], &mut out[k..=k]);
        }
    }

    /// Where neighbouring results lie together: `walk` has the reduced axes outside.
    fn columns<T: Compute<Wide = I>>(&self, walk: &Walk, x: &View<'_, T>, out: &mut [O]) {
        let &Job {
            results,
            each,
            chunks,
            ..
        } = self;
        let x = walk.gather(x);
        // Blocks do not go beyond a stretch of results that lie together, if those are long.
        let stretch = match x.stretch().min(results) {
            run if run >= NARROW / 4 && results > NARROW && results.is_multiple_of(run) => run,
            _ => results,
        };
        let blocks = stretch.div_ceil(BLOCK).max((stretch / NARROW).min(8));
        let block = stretch.div_ceil(blocks);
        let blocks = stretch.div_ceil(block);
        let per_chunk = results / stretch * blocks;
        let rows = each.min(CHUNK);

        let mut partial: Vec<A> = Vec::new();
        if chunks > 1 {
            partial.resize(chunks * results, self.fold.start());
        }
        let (whole, shared) = (Shared::new(out), Shared::new(&mut partial));
        in_tasks(chunks * per_chunk, block * rows, |units| {
            let mut room = Room::new();
            let mut acc: Vec<A> = Vec::new();
            let mut params: Vec<P> = Vec::new();
            for unit in units {
                let (chunk, rest) = (unit / per_chunk, unit % per_chunk);
                let (base, within) = (rest / blocks * stretch, rest % blocks * block);
                let columns = base + within..base + (within + block).min(stretch);
                let rows = chunk * CHUNK..((chunk + 1) * CHUNK).min(each);
                let side = Panel {
                    rows,
                    columns: columns.clone(),
                };
                if results <= NARROW {
                    self.narrow(&x, &side, &mut room, &mut params, &mut acc);
                } else {
                    self.wide(&x, &side, &mut room, &mut acc);
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
            for values in values.chunks(group) {
                let len = values.len();
                self.fold.columns(values, &params[..len], &mut acc[..len]);
            }
            at += step;
        }
    }

    /// A panel of some columns, lane after lane.
    fn wide<T: Compute<Wide = I>>(
        &self,
        x: &Gather<'_, T>,
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
            while row < side.rows.end {
                let at = row * self.results + side.columns.start;
                self.fold.columns(room.read(x, at, width), params, acc);
                row += count;
            }
        }
    }
}

/// Part of a matrix whose rows are to be folded into one.
struct Panel {
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
}
