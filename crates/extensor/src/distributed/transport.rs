//! What moves bytes between ranks, and what they are called while they move.

use crate::{Result, Tensor};
pub use extensor_kernels::piece::Piece;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How bytes get from one rank to another. A [`Group`](super::Group) is made over one of these.
///
/// No call waits. Messages between two ranks arrive in the order in which they were sent, and are as long as
/// what waits for them; what the bytes mean is not known here.
pub trait Transport: Send + Sync {
    /// Which rank this process is, from 0 on.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Starts to send a message to another rank. It is dropped when its memory is no longer needed.
    fn send(&self, to: usize, message: Message) -> Result<()>;

    /// Starts to receive: the next message of that rank which nothing waits for yet is to fill this.
    fn receive(&self, from: usize, into: Piece) -> Result<()>;

    /// The oldest piece that a message of this rank was to fill, if it has arrived. Moves on whatever is
    /// under way.
    fn arrived(&self, from: usize) -> Result<Option<Piece>>;

    /// Moves on what is under way, and drops messages that have left.
    fn progress(&self) -> Result<()>;

    /// Whether any thread may call, or only the one that made the transport.
    fn any_thread(&self) -> bool {
        true
    }

    /// The sum of numbers, or the largest or smallest, over all ranks in the fastest order that the transport
    /// knows; `false` if it knows none. Every rank calls it with as many numbers. This one does wait.
    fn all_reduce(&self, numbers: Numbers<'_>, how: super::Reduction) -> Result<bool> {
        let _ = (numbers, how);
        Ok(false)
    }

    /// Tells the other ranks, as well as the transport can, that this one has failed, and why. Nothing is
    /// sent or received after that.
    fn fail(&self, reason: &str);
}

/// Numbers that a transport may know how to add: those of this rank, and where the result goes.
#[derive(Debug)]
pub enum Numbers<'a> {
    /// Single precision.
    F32(&'a [f32], &'a mut [f32]),
    /// Double precision.
    F64(&'a [f64], &'a mut [f64]),
    /// Whole numbers.
    I64(&'a [i64], &'a mut [i64]),
}

/// Bytes on their way. Clones share them.
#[derive(Clone)]
pub struct Message {
    held: Held,
    range: Range<usize>,
}

#[derive(Clone)]
enum Held {
    Tensor(Tensor),
    Piece(Arc<Piece>),
    Bytes(Arc<[u8]>),
}

impl Message {
    /// Some of the bytes of a tensor that lies in row-major order.
    pub(super) fn of_tensor(x: &Tensor, range: Range<usize>) -> Message {
        Message { held: Held::Tensor(x.clone()), range }
    }

    /// A piece that whoever holds it reads meanwhile, too.
    pub(super) fn of_piece(piece: &Arc<Piece>) -> Message {
        Message { range: 0..piece.len(), held: Held::Piece(piece.clone()) }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let all = match &self.held {
            Held::Tensor(x) => x.bytes(),
            Held::Piece(piece) => piece.bytes(),
            Held::Bytes(bytes) => bytes,
        };
        &all[self.range.clone()]
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Message {
        Message { range: 0..bytes.len(), held: Held::Bytes(bytes.into()) }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({} bytes)", self.range.len())
    }
}
