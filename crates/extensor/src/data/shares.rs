//! Steps cut into parts, of which each of several ranks reads and computes its own.
//!
//! How a step is cut depends on the loader and the position alone, so that the parts are the same for
//! any number of ranks. This module must not know what a rank is made of.

use super::ahead::Ahead;
use super::loader::{Loader, Maker, Position, bad};
use super::{Batch, Dataset};
use crate::distributed::share;
use crate::{Key, Result};
use std::ops::Range;

/// How the batches of a loader become the parts of steps, and which of them one rank computes.
///
/// Parts are numbered through the whole step. Rank `r` of `size` has those from `r·parts/size` on, up to
/// those of the next rank.
///
/// ```
/// use extensor::data::Cut;
/// let cut = Cut { batches: 2, parts: 3, rank: 1, size: 4 };
/// assert_eq!(cut.own(6), 1..3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How many batches make a step.
    pub batches: usize,
    /// Into how many parts a batch is cut, as equal as may be; a batch of fewer examples has a part for
    /// each of them.
    pub parts: usize,
    /// The number of this rank.
    pub rank: usize,
    /// How many ranks there are.
    pub size: usize,
}

impl Cut {
    /// A step of one batch in one part, for one process.
    pub const WHOLE: Cut = Cut { batches: 1, parts: 1, rank: 0, size: 1 };

    /// The rank's parts of a step of so many.
    pub fn own(&self, parts: usize) -> Range<usize> {
        share(parts, self.rank, self.size)
    }

    pub(super) fn expect_sense(&self) -> Result<()> {
        for (name, value) in [("batches", self.batches), ("parts", self.parts)] {
            if value == 0 {
                return Err(bad(name, "1 or more", value));
            }
        }
        if self.rank >= self.size {
            return Err(bad(
                "rank",
                &format!("less than {}, the ranks there are", self.size),
                self.rank,
            ));
        }
        Ok(())
    }

    /// How many parts there are of a batch of so many examples.
    fn of_batch(&self, examples: usize) -> usize {
        self.parts.min(examples)
    }

    /// The fewest parts that a step of this loader has.
    pub(crate) fn fewest(&self, loader: &Loader) -> usize {
        let per_epoch = loader.batches_per_epoch().max(1) as usize;
        let last = Position { epoch: 0, batch: per_epoch as u64 - 1 };
        let full = self.of_batch(loader.examples_at(Position::default()));
        let last = self.of_batch(loader.examples_at(last));
        let ends = self.batches.div_ceil(per_epoch);
        (self.batches - ends) * full + ends * last
    }
}

/// What of a batch is one rank's.
#[derive(Clone, Debug)]
pub struct Share {
    /// Its parts, with their numbers in the step.
    pub parts: Vec<(usize, Batch)>,
    /// How many parts the whole step has.
    pub of: usize,
    /// How many examples the whole batch has.
    pub examples: usize,
    /// Where the batch is.
    pub position: Position,
    /// Where to go on after it: what a checkpoint keeps.
    pub next: Position,
}

/// What is one rank's of batch after batch, `Cut::batches` to a step. After an error there is no more.
pub struct Shares(Ahead<Share>);

impl Shares {
    pub(super) fn new(made: Ahead<Share>) -> Shares {
        Shares(made)
    }
}

impl Iterator for Shares {
    type Item = Result<Share>;

    fn next(&mut self) -> Option<Result<Share>> {
        self.0.next()
    }
}

/// Makes share after share.
pub(super) struct ShareMaker {
    maker: Maker,
    cut: Cut,
    /// The batch of the step that comes next.
    batch: usize,
    /// The parts of the batches of the step before it.
    before: usize,
    /// The parts of the step.
    of: usize,
}

impl ShareMaker {
    pub fn new(maker: Maker, cut: Cut) -> ShareMaker {
        ShareMaker { maker, cut, batch: 0, before: 0, of: 0 }
    }

    fn make(&mut self) -> Result<Share> {
        let (cut, loader) = (self.cut, &self.maker.loader);
        if self.batch == 0 {
            let mut position = self.maker.position;
            (self.before, self.of) = (0, 0);
            for _ in 0..cut.batches {
                self.of += cut.of_batch(loader.examples_at(position));
                position = loader.settle(Position { batch: position.batch + 1, ..position });
            }
        }
        let (before, of) = (self.before, self.of);
        let examples = loader.examples_at(self.maker.position);
        let here = cut.of_batch(examples);
        let own = cut.own(of);
        let numbers = own.start.max(before)..own.end.min(before + here);
        let read = |dataset: &dyn Dataset, indices: &[usize], key: Key| {
            let edge = |part: usize| (part - before) * indices.len() / here;
            let part = |number: usize| {
                let batch = dataset.batch(&indices[edge(number)..edge(number + 1)], key)?;
                Ok((number, batch))
            };
            numbers.map(part).collect::<Result<Vec<_>>>()
        };
        let (parts, position, next) = self.maker.make(read)?;
        self.before += here;
        self.batch = (self.batch + 1) % cut.batches;
        Ok(Share { parts, of, examples, position, next })
    }
}

impl Iterator for ShareMaker {
    type Item = Result<Share>;

    fn next(&mut self) -> Option<Result<Share>> {
        if !self.maker.settled() {
            return None;
        }
        let share = self.make();
        if share.is_err() {
            self.maker.end();
        }
        Some(share)
    }
}
