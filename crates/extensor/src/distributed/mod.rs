//! Several processes, called ranks, that work as one: bytes moved between them, and tensors added in a fixed
//! order.
//!
//! A [`Group`] is made [alone](Group::alone), of [threads] of one process, or over any [`Transport`] of
//! bytes. Every rank makes the same calls. Sums over ranks have the same bits on every rank and in every
//! run; sums over the parts of a step, in [`Blocks`], have the same bits for any number of ranks.
//!
//! This module must not know a model, a loader or a terminal.

mod blocks;
mod collectives;
mod flat;
mod group;
mod reduce;
mod threads;
mod transport;

pub use blocks::{Block, Blocks};
pub use group::Group;
pub use threads::threads;
pub use transport::{Message, Numbers, Piece, Transport};

use crate::Error;

/// What is made of the numbers of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their sum divided by the number of ranks; of floats alone.
    Mean,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// An error that another rank, or what came from it, is the reason of.
pub(crate) fn fallen(op: &'static str, rank: usize, reason: String) -> Error {
    Error::Rank { op, rank, reason }
}
