//! Results that are folded as they are made, and never written.
//!
//! The numbers of a sum are added in the order in which [`reduce`] adds them, which follows
//! from how many there are alone: the bits are those of the fold of an array of them.

use super::arrays::{Packed, Reading, Sink, Source, Writing, buffer};
use super::late::Late;
use super::{Fused, ahead};
use crate::buffer::Buffer;
use crate::interpret::Machine;
use crate::native::Native;
use crate::par::{Shared, threads};
use crate::reduce::{self, Extremes, Line, in_tasks, lanes, tree};
use crate::steps::Desk;
use crate::stop;
use crate::stream::{self, Stream};
use crate::walk::{Piece, Walk};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

/// What becomes of the numbers of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fold {
    /// All are written.
    Each,
    /// Their sum over a divisor, in `f64` and rounded.
    Sum {
        /// The divisor.
        divisor: f64,
    },
    /// The largest; NaN if there is one.
    Largest,
    /// The smallest; NaN if there is one.
    Smallest,
}

/// Which numbers are folded into one: arrays seen with the sizes `[outer, far, kept, near]`, of which
/// `far` and `near` are folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The sizes.
    pub sizes: [usize; 4],
    /// So many numbers are folded before partial results are joined.
    pub chunk: usize,
}

impl Groups {
    /// What folds the axes marked of an array of that shape, if it can be seen so.
    pub fn new(shape: &[usize], reduced: &[bool]) -> Option<Groups> {
        let mut sizes = [1; 4];
        // Axes from the end: near, kept, far, outer.
        let mut at = 3usize;
        for (&size, &reduced) in shape.iter().zip(reduced).rev().filter(|(size, _)| **size != 1) {
            if (at % 2 == 1) != reduced {
                at = at.checked_sub(1)?;
            }
            sizes[at] *= size;
        }
        Some(Groups { sizes, chunk: reduce::CHUNK })
    }

    /// Whether blocks are long enough for this to be worth while.
    pub fn is_quick(&self) -> bool {
        let [_, far, _, near] = self.sizes;
        far == 1 || near == 1 || near >= 256
    }

    fn results(&self) -> usize {
        self.sizes[0] * self.sizes[2]
    }

    fn each(&self) -> usize {
        self.sizes[1] * self.sizes[3]
    }
}

/// A fold under way, whatever it accumulates in.
trait Folder<W>: Sync {
    /// Rows of `n` numbers, each all of result number `first` and following, or chunk number `chunk`.
    fn rows(&self, chunk: usize, first: usize, n: usize, x: &[W]);
    /// Room to fold results side by side.
    fn panel(&self) -> Box<dyn Panel<W> + '_>;
    /// Joins the chunks.
    fn finish(&self);
}

/// Results side by side, in lanes.
trait Panel<W> {
    fn begin(&mut self, lanes: usize, width: usize);
    /// Numbers of the lanes from the one on that begins at `offset`, row after row, over and over.
    fn add(&mut self, offset: usize, x: &[W]);
    /// They were chunk number `chunk` of result number `first` and following.
    fn end(&mut self, chunk: usize, first: usize);
}

/// Writes results from some number on, of what was accumulated for them.
type Finish<'a, A> = Box<dyn Fn(usize, &[A]) + Sync + 'a>;

struct Folding<'a, W, A, P> {
    fold: &'a dyn reduce::Fold<W, A, P>,
    param: P,
    results: usize,
    chunks: usize,
    /// Partial results, chunk after chunk, if there are several.
    partial: Shared<A>,
    _memory: Vec<A>,
    finish: Finish<'a, A>,
}

impl<'a, W, A: Native, P> Folding<'a, W, A, P> {
    fn new(
        fold: &'a dyn reduce::Fold<W, A, P>,
        param: P,
        groups: &Groups,
        finish: impl Fn(usize, &[A]) + Sync + 'a,
    ) -> Self {
        let (results, chunks) = (groups.results(), groups.each().div_ceil(groups.chunk));
        let partials = if chunks > 1 { chunks.saturating_mul(results) } else { 0 };
        let mut memory = stop::room(fold.start(), partials);
        let partial = Shared::new(&mut memory);
        Folding { fold, param, results, chunks, partial, _memory: memory, finish: Box::new(finish) }
    }

    fn done(&self, chunk: usize, first: usize, acc: &[A]) {
        if self.chunks == 1 {
            return (self.finish)(first, acc);
        }
        let at = chunk * self.results + first;
        // SAFETY: within the memory, and no chunk of a result comes twice.
        unsafe { self.partial.part(at, at + acc.len()) }.copy_from_slice(acc);
    }
}

impl<W, A: Native, P: Copy + Send + Sync> Folder<W> for Folding<'_, W, A, P> {
    fn rows(&self, chunk: usize, first: usize, n: usize, x: &[W]) {
        let count = x.len() / n;
        let mut acc: SmallVec<[A; 8]> = SmallVec::new();
        acc.resize(count, self.fold.start());
        let params: SmallVec<[P; 8]> = SmallVec::from_elem(self.param, count);
        self.fold.rows(x, n, &params, &mut acc);
        self.done(chunk, first, &acc);
    }

    fn panel(&self) -> Box<dyn Panel<W> + '_> {
        Box::new(Side { of: self, acc: Vec::new(), params: Vec::new(), lanes: 0, width: 0 })
    }

    fn finish(&self) {
        if self.chunks > 1 {
            // SAFETY: all of the memory; the tasks that had parts of it have ended.
            let all = unsafe { self.partial.part(0, self.chunks * self.results) };
            tree(self.fold, all, self.chunks, self.results);
            (self.finish)(0, &all[..self.results]);
        }
    }
}

struct Side<'f, 'a, W, A, P> {
    of: &'f Folding<'a, W, A, P>,
    acc: Vec<A>,
    params: Vec<P>,
    lanes: usize,
    width: usize,
}

impl<W, A: Native, P: Copy + Send + Sync> Panel<W> for Side<'_, '_, W, A, P> {
    fn begin(&mut self, lanes: usize, width: usize) {
        (self.lanes, self.width) = (lanes, width);
        self.acc.clear();
        self.acc.resize(lanes * width, self.of.fold.start());
        self.params.resize(lanes * width, self.of.param);
    }

    fn add(&mut self, offset: usize, x: &[W]) {
        let (fold, group) = (self.of.fold, self.acc.len());
        let (start, x) = x.split_at(x.len().min(group - offset));
        let end = offset + start.len();
        fold.columns(start, 0, 1, &self.params[..start.len()], &mut self.acc[offset..end]);
        let whole = x.len() / group;
        if whole > 0 {
            fold.columns(x, group, whole, &self.params, &mut self.acc);
        }
        let rest = &x[whole * group..];
        if !rest.is_empty() {
            fold.columns(rest, 0, 1, &self.params[..rest.len()], &mut self.acc[..rest.len()]);
        }
    }

    fn end(&mut self, chunk: usize, first: usize) {
        tree(self.of.fold, &mut self.acc, self.lanes, self.width);
        self.of.done(chunk, first, &self.acc[..self.width]);
    }
}

/// A pass over all blocks.
struct Pass<'a, W> {
    fused: &'a Fused<W>,
    walk: Walk,
    readers: SmallVec<[Reading<'a>; 8]>,
    /// For each result where it is written, or how it is folded; neither if it is not wanted.
    writers: SmallVec<[Option<&'a Writing>; 4]>,
    folders: SmallVec<[Option<Box<dyn Folder<W> + 'a>>; 4]>,
    past: bool,
    ahead: SmallVec<[bool; 8]>,
}

impl<W: Machine> Fused<W> {
    /// Computes the results and writes each to its sink, as it is or folded.
    ///
    /// # Panics
    /// If there is another number of arrays, or one has another length; of no elements.
    pub fn run_folded(
        &self,
        sources: &[Source<'_>],
        sinks: &mut [Sink<'_>],
        folds: &[Fold],
        groups: &Groups,
    ) {
        let len = groups.results() * groups.each();
        self.check(sources, sinks.len(), len);
        assert!(len > 0 && folds.len() == sinks.len(), "fused: nothing to fold, or other folds");
        for (sink, fold) in sinks.iter().zip(folds) {
            let want = if *fold == Fold::Each { len } else { groups.results() };
            assert_eq!(sink.len(), want, "fused: a sink of another length");
        }
        let written = sinks.iter().map(Sink::bytes).sum::<usize>();
        let writers: SmallVec<[Writing; 4]> = sinks.iter_mut().map(Writing::new).collect();
        let lost: SmallVec<[AtomicBool; 4]> =
            folds.iter().map(|_| AtomicBool::new(false)).collect();
        let mut pass = Pass {
            fused: self,
            walk: Walk::new(len, self.steps.block(), &[]),
            readers: sources.iter().enumerate().map(|(k, x)| Reading::new(x, k)).collect(),
            writers: SmallVec::new(),
            folders: SmallVec::new(),
            past: written >= stream::FROM,
            ahead: ahead::<W>(len * size_of::<W>() >= stream::FROM, sources),
        };
        for ((fold, writer), lost) in folds.iter().zip(&writers).zip(&lost) {
            pass.writers.push((*fold == Fold::Each).then_some(writer));
            pass.folders.push(folder(*fold, groups, writer, lost));
        }
        pass.run(groups);
        // Sums that left the range of `f64`, though their numbers did not, are made again.
        for (k, fold) in folds.iter().enumerate() {
            let (true, Fold::Sum { divisor }) = (lost[k].load(Ordering::Relaxed), *fold) else {
                continue;
            };
            if let (Some(sums), Writing::F64(_)) = (W::scaled_sums(), &writers[k]) {
                let (line, scale) = Line::SMALL;
                let writer = &writers[k];
                let again = Folding::new(sums, line, groups, move |start, acc: &[f64]| {
                    // SAFETY: results of their own, in the sink.
                    unsafe { writer.instead(start, acc, divisor, scale) }
                });
                pass.writers.iter_mut().for_each(|writer| *writer = None);
                pass.folders.iter_mut().for_each(|folder| *folder = None);
                pass.folders[k] = Some(Box::new(again));
                pass.run(groups);
            }
        }
    }
}

fn folder<'a, W: Machine>(
    fold: Fold,
    groups: &Groups,
    writer: &'a Writing,
    lost: &'a AtomicBool,
) -> Option<Box<dyn Folder<W> + 'a>> {
    // SAFETY: results of their own, in the sink.
    let extreme = |start: usize, acc: &[W]| unsafe { writer.store(start, acc, None) };
    Some(match fold {
        Fold::Each => return None,
        Fold::Sum { divisor } => {
            Box::new(Folding::new(W::sums(), (), groups, move |start, acc: &[f64]| {
                if !acc.iter().all(|sum| sum.is_finite()) {
                    lost.store(true, Ordering::Relaxed);
                }
                // SAFETY: results of their own, in the sink.
                unsafe { writer.sums(start, acc, divisor) }
            }))
        }
        Fold::Largest => Box::new(Folding::new(<W as Extremes>::largest(), (), groups, extreme)),
        Fold::Smallest => Box::new(Folding::new(<W as Extremes>::smallest(), (), groups, extreme)),
    })
}

/// What a task works with.
struct Task<'p, 'a, W> {
    pass: &'p Pass<'a, W>,
    desk: Desk<'p, W>,
    rooms: SmallVec<[Packed; 8]>,
    late: Late<'p, W>,
    stream: Option<Stream>,
}

impl<W: Machine> Task<'_, '_, W> {
    /// Computes a block, writes what is to be written and hands out what is to be folded.
    fn block(&mut self, start: usize, len: usize, mut fold: impl FnMut(usize, &[W])) {
        let Task { pass, desk, rooms, late, stream } = self;
        let piece = Piece::new(start, len, stream.as_ref());
        let variables: SmallVec<[&[W]; 8]> = pass
            .readers
            .iter()
            .zip(rooms)
            .map(|(x, room)| x.load(&pass.walk, &piece, room))
            .collect();
        desk.run(&variables, len, |k, of| late.share(k, of, &variables, piece.stream));
        let results = pass.writers.iter().enumerate();
        let results = results.filter_map(|(k, x)| x.map(|x| (x, desk.result(k, &variables, len))));
        // SAFETY: the sinks have the walk's length, and no block comes twice.
        unsafe {
            if pass.past {
                let plain = results.clone().filter(|(writer, _)| writer.is_plain::<W>());
                late.put(start, len, plain.map(|(_, result)| result), piece.stream);
            }
            for (writer, result) in results {
                if !pass.past || !writer.is_plain::<W>() {
                    writer.store(start, result, piece.stream);
                }
            }
        }
        for (k, _) in pass.folders() {
            fold(k, desk.result(k, &variables, len));
        }
    }

    /// Writes what is left.
    fn finish(mut self) {
        self.late.finish(self.stream.as_ref());
    }
}

impl<'a, W: Machine> Pass<'a, W> {
    fn run(&self, groups: &Groups) {
        match groups.sizes {
            [outer, 1, kept, near] => self.rows(outer * kept, near, groups.chunk),
            [_, _, _, 1] => self.columns(groups),
            _ => self.planes(groups),
        }
        self.folders.iter().flatten().for_each(|folder| folder.finish());
    }

    /// What a task works with; `in_order`: on blocks that follow each other.
    fn task(&self, in_order: bool) -> Task<'_, 'a, W> {
        let ahead = if in_order { &self.ahead[..] } else { &[] };
        let size = self.walk.longest();
        Task {
            pass: self,
            desk: Desk::new(&self.fused.steps, size),
            rooms: self.readers.iter().map(|x| x.room::<W>(size)).collect(),
            late: Late::new(
                self.writers.iter().flatten().copied().filter(|_| self.past),
                size,
                ahead,
            ),
            stream: self.past.then(Stream::new),
        }
    }

    /// The folders with their numbers.
    fn folders(&self) -> impl Iterator<Item = (usize, &dyn Folder<W>)> {
        let all = self.folders.iter().enumerate();
        all.filter_map(|(k, folder)| folder.as_ref().map(|folder| (k, &**folder)))
    }

    /// Where the numbers of a result lie together.
    fn rows(&self, rows: usize, each: usize, chunk: usize) {
        let size = self.walk.longest();
        let chunks = each.div_ceil(chunk);
        let together = (size / each).max(1);
        let units = if chunks > 1 { rows * chunks } else { rows.div_ceil(together) };
        let most = if chunks > 1 { chunk } else { (together * each).min(rows * each) };
        in_tasks(units, most, &|units| {
            let mut task = self.task(true);
            // More than a block is put together before it is folded.
            let room = if most > size { most } else { 0 };
            let mut made: SmallVec<[Buffer; 4]> =
                self.folders.iter().map(|_| buffer::<W>(room)).collect();
            for unit in units {
                let (row, part, start, end) = if chunks > 1 {
                    let (row, part) = (unit / chunks, unit % chunks);
                    let end = ((part + 1) * chunk).min(each);
                    (row, part, row * each + part * chunk, row * each + end)
                } else {
                    let row = unit * together;
                    (row, 0, row * each, (row + together).min(rows) * each)
                };
                let n = if chunks > 1 { end - start } else { each };
                let mut at = start;
                while at < end {
                    let len = size.min(end - at);
                    let whole = len == end - start;
                    task.block(at, len, |k, values| {
                        if whole && let Some(folder) = &self.folders[k] {
                            folder.rows(part, row, n, values);
                        } else {
                            let made = made[k].as_mut_slice::<W>();
                            made[at - start..at - start + len].copy_from_slice(values);
                        }
                    });
                    at += len;
                }
                if end - start > size {
                    for (k, folder) in self.folders() {
                        folder.rows(part, row, n, &made[k].as_slice::<W>()[..end - start]);
                    }
                }
            }
            task.finish();
        });
    }

    /// Where neighbouring results lie together: `near` is 1.
    fn columns(&self, groups: &Groups) {
        let [outer, far, kept, _] = groups.sizes;
        let size = self.walk.longest();
        let chunks = far.div_ceil(groups.chunk);
        // Every thread gets a block, unless they would be too short.
        let blocks = kept.div_ceil(size).max((kept / 256).min(2 * threads()));
        let width = kept.div_ceil(blocks.max(1));
        let blocks = kept.div_ceil(width);
        // Rows that lie together make up a block.
        let together = if blocks == 1 { (size / kept).max(1) } else { 1 };
        in_tasks(outer * chunks * blocks, far.min(groups.chunk) * width, &|units| {
            let mut task = self.task(false);
            let mut panels: SmallVec<[_; 4]> =
                self.folders.iter().map(|folder| folder.as_ref().map(|f| f.panel())).collect();
            for unit in units {
                let (rest, column) = (unit / blocks, unit % blocks * width);
                let (a, chunk) = (rest / chunks, rest % chunks);
                let rows = chunk * groups.chunk..((chunk + 1) * groups.chunk).min(far);
                let (width, lanes) = (width.min(kept - column), lanes(rows.len()));
                panels.iter_mut().flatten().for_each(|panel| panel.begin(lanes, width));
                for row in rows.clone().step_by(together) {
                    let count = together.min(rows.end - row);
                    let start = (a * far + row) * kept + column;
                    task.block(start, count * width, |k, values| {
                        if let Some(panel) = &mut panels[k] {
                            panel.add((row - rows.start) % lanes * width, values);
                        }
                    });
                }
                let first = a * kept + column;
                panels.iter_mut().flatten().for_each(|panel| panel.end(chunk, first));
            }
            task.finish();
        });
    }

    /// Where the numbers of a result are pieces that lie apart.
    fn planes(&self, groups: &Groups) {
        let [outer, far, kept, near] = groups.sizes;
        let (size, each) = (self.walk.longest(), far * near);
        let chunks = each.div_ceil(groups.chunk);
        in_tasks(outer * chunks * kept, each.min(groups.chunk), &|units| {
            let mut task = self.task(false);
            let mut panels: SmallVec<[_; 4]> =
                self.folders.iter().map(|folder| folder.as_ref().map(|f| f.panel())).collect();
            for unit in units {
                let (rest, k) = (unit / kept, unit % kept);
                let (a, chunk) = (rest / chunks, rest % chunks);
                let (first, end) = (chunk * groups.chunk, ((chunk + 1) * groups.chunk).min(each));
                let lanes = lanes(end - first);
                panels.iter_mut().flatten().for_each(|panel| panel.begin(lanes, 1));
                let mut at = first;
                while at < end {
                    let (o, i) = (at / near, at % near);
                    let len = size.min(near - i).min(end - at);
                    let start = ((a * far + o) * kept + k) * near + i;
                    task.block(start, len, |k, values| {
                        if let Some(panel) = &mut panels[k] {
                            panel.add((at - first) % lanes, values);
                        }
                    });
                    at += len;
                }
                panels.iter_mut().flatten().for_each(|panel| panel.end(chunk, a * kept + k));
            }
            task.finish();
        });
    }
}
