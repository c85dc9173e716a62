//! Sums over ranks in the order of the parts.
//!
//! Each rank owns as many of the numbers as every other. All send it their blocks' share of those; it adds
//! them as one process would have, and sends the sums to all. That goes chunk by chunk, so that adding one
//! and moving the next happen at the same time.

use super::blocks::{self, Block};
use super::flat::Row;
use super::group::{Group, piece_of};
use super::transport::{Message, Piece};
use crate::tensor::{match_float, match_int};
use crate::{DType, Result};
use extensor_kernels::cast::Truth;
use extensor_kernels::combine::{Combine, combine};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The bytes that are added at a time.
const CHUNK: usize = 256 << 10;
/// How many chunks are under way before the first is added.
const AHEAD: usize = 4;

/// Numbers to be combined: a row for each block that this rank has of the parts.
pub(super) struct Sum<'a> {
    pub op: &'static str,
    pub how: Combine,
    pub parts: usize,
    pub dtype: DType,
    /// How many numbers a row has.
    pub len: usize,
    pub rows: &'a [Row],
}

/// What a message that is under way is to be.
enum Due {
    /// A block's share of a chunk of this rank's own.
    Share,
    /// A chunk that another rank has added.
    Sum,
}

/// A sum being made.
struct Run<'a> {
    sum: &'a Sum<'a>,
    group: &'a Group,
    /// The blocks of each rank.
    outlines: Vec<Vec<(usize, u32)>>,
    /// What is due of each rank, in the order in which it arrives.
    due: Vec<VecDeque<Due>>,
    /// Where the sums of each rank go, and those that are there.
    room: Vec<VecDeque<Piece>>,
    done: Vec<Vec<Arc<Piece>>>,
}

impl Sum<'_> {
    /// The sum, on every rank.
    pub fn run(&self, group: &Group) -> Result<Piece> {
        let (chunks, each) = (self.chunks(group), self.dtype.size());
        // Where everything ends up, in the order of the elements.
        let mut rest = piece_of(self.op, self.len * each)?;
        let mut room = Vec::with_capacity(group.size());
        for rank in 0..group.size() {
            let mut pieces = VecDeque::with_capacity(chunks);
            for number in 0..chunks {
                let (piece, after) = rest.split(self.chunk(group, rank, number).len() * each);
                pieces.push_back(piece);
                rest = after;
            }
            room.push(pieces);
        }
        let share = |rank| blocks::share(self.parts, rank, group.size());
        let mut run = Run {
            sum: self,
            group,
            outlines: (0..group.size()).map(|rank| blocks::outline(share(rank))).collect(),
            due: (0..group.size()).map(|_| VecDeque::new()).collect(),
            room,
            done: vec![Vec::with_capacity(chunks); group.size()],
        };
        for number in 0..chunks.min(AHEAD) {
            run.hand_over(number)?;
        }
        for number in 0..chunks {
            if number + AHEAD < chunks {
                run.hand_over(number + AHEAD)?;
            }
            run.add_chunk(number)?;
        }
        run.collect(rest)
    }

    /// Which elements of a rank's own make its chunk of this number.
    fn chunk(&self, group: &Group, rank: usize, number: usize) -> Range<usize> {
        let own = blocks::share(self.len, rank, group.size());
        let step = CHUNK / self.dtype.size();
        let start = (own.start + number * step).min(own.end);
        start..(start + step).min(own.end)
    }

    /// How many chunks a rank has that has most.
    fn chunks(&self, group: &Group) -> usize {
        self.len.div_ceil(group.size()).div_ceil(CHUNK / self.dtype.size())
    }

    /// `into ← into ∘ from`.
    fn combine(&self, into: &mut Piece, from: &Piece) {
        let how = self.how;
        match_float!(self.dtype, T => combine::<T>(how, into.as_mut_slice(), from.as_slice()), else {
            match_int!(self.dtype, T => combine::<T>(how, into.as_mut_slice(), from.as_slice()), else {
                combine::<Truth>(how, into.as_mut_slice(), from.as_slice())
            })
        });
    }
}

impl Run<'_> {
    /// Sends each rank its share of a chunk, and expects theirs.
    fn hand_over(&mut self, number: usize) -> Result<()> {
        let Run { sum, group, .. } = *self;
        let own = sum.chunk(group, group.rank(), number).len() * sum.dtype.size();
        for from in group.others().filter(|_| own > 0) {
            for _ in &self.outlines[from] {
                group.transport().receive(from, piece_of(sum.op, own)?)?;
                self.due[from].push_back(Due::Share);
            }
        }
        for to in group.others() {
            let range = sum.chunk(group, to, number);
            for row in sum.rows.iter().filter(|_| !range.is_empty()) {
                group.transport().send(to, row.message(sum.op, range.clone())?)?;
            }
        }
        Ok(())
    }

    /// Adds a chunk of this rank's own in the order of the parts, and sends it to all.
    fn add_chunk(&mut self, number: usize) -> Result<()> {
        let Run { sum, group, .. } = *self;
        let me = group.rank();
        let range = sum.chunk(group, me, number);
        let mut held = Vec::new();
        let add = |mut a: Piece, b: Piece| {
            sum.combine(&mut a, &b);
            Ok(a)
        };
        for rank in (0..group.size()).filter(|_| !range.is_empty()) {
            for (k, (first, log2)) in self.outlines[rank].clone().into_iter().enumerate() {
                let share = if rank == me {
                    let mut share = piece_of(sum.op, range.len() * sum.dtype.size())?;
                    sum.rows[k].copy(range.clone(), &mut share);
                    share
                } else {
                    self.share_from(rank)?
                };
                blocks::add_up(&mut held, Block { first, log2, sum: share }, add)?;
            }
        }
        let total = blocks::total(held, add)?;
        if let Some(mut piece) = self.room[me].pop_front() {
            if let Some(total) = total {
                piece.bytes_mut().copy_from_slice(total.bytes());
            }
            let piece = Arc::new(piece);
            for to in group.others().filter(|_| !piece.is_empty()) {
                group.transport().send(to, Message::of_piece(&piece))?;
            }
            self.done[me].push(piece);
        }
        for from in group.others() {
            match self.room[from].pop_front() {
                Some(piece) if piece.is_empty() => self.done[from].push(Arc::new(piece)),
                Some(piece) => {
                    group.transport().receive(from, piece)?;
                    self.due[from].push_back(Due::Sum);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// The next share that a rank sent; sums that come before it are put where they belong.
    fn share_from(&mut self, from: usize) -> Result<Piece> {
        loop {
            let piece = self.group.await_from(from)?;
            match self.due[from].pop_front() {
                Some(Due::Sum) => self.done[from].push(Arc::new(piece)),
                _ => return Ok(piece),
            }
        }
    }

    /// All sums, once they have arrived, as one row.
    fn collect(mut self, rest: Piece) -> Result<Piece> {
        for from in self.group.others() {
            while self.due[from].pop_front().is_some() {
                let piece = self.group.await_from(from)?;
                self.done[from].push(Arc::new(piece));
            }
        }
        let mut all: Option<Piece> = None;
        for piece in self.done.into_iter().flatten() {
            let piece = self.group.take_back(piece)?;
            all = Some(match all {
                Some(all) => all.join(piece),
                None => piece,
            });
        }
        Ok(match all {
            Some(all) => all.join(rest),
            None => rest,
        })
    }
}
