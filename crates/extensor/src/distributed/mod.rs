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
mod launched;
mod link;
mod meet;
#[cfg(feature = "mpi")]
mod mpi;
mod reduce;
mod reducer;
mod threads;
mod transport;
mod watch;

pub(crate) use blocks::share;
pub use blocks::{Block, Blocks};
pub use group::Group;
pub use launched::{Launched, launched};
pub use reducer::Reducer;
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

/// In which order the numbers of ranks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// In that of the parts: the same bits for any number of ranks.
    #[default]
    Fixed,
    /// In that which the transport chooses (MPI's own, say, for `f32`, `f64` and `i64`): the same bits on every
    /// rank, but others for another number of ranks, and perhaps in another run.
    Fastest,
}

/// An error that another rank, or what came from it, is the reason of.
pub(crate) fn fallen(op: &'static str, rank: usize, reason: String) -> Error {
    Error::Rank { op, rank, reason }
}
