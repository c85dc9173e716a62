//! A group: what a user holds, and how a rank waits for others.

use super::transport::{Message, Piece, Transport};
use super::{blocks, fallen};
use crate::{Error, Result};
use extensor_kernels::buffer::Buffer;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Several processes that work as one. Each holds a group, in which it has a number, its rank; every rank
/// must make the same calls, in the same order.
///
/// ```
/// use extensor::distributed::{Group, Reduction};
/// use extensor::tensor;
/// // What is written for many ranks runs on one.
/// let group = Group::alone();
/// assert_eq!((group.rank(), group.size()), (0, 1));
/// let mean = group.all_reduce(&tensor([1.0, 2.0]), Reduction::Mean)?;
/// assert_eq!(mean.to_vec::<f64>()?, [1.0, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
///
/// Clones are the same group.
#[derive(Clone)]
pub struct Group {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Box<dyn Transport>,
    /// Held by the one call that is being made.
    busy: Mutex<()>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(rank {} of {})", self.rank(), self.size())
    }
}

/// A process without others.
struct Alone;

impl Transport for Alone {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn send(&self, to: usize, _: Message) -> Result<()> {
        Err(fallen("send", to, "is not there: this process is alone".into()))
    }
    fn receive(&self, from: usize, _: Piece) -> Result<()> {
        Err(fallen("receive", from, "is not there: this process is alone".into()))
    }
    fn arrived(&self, _: usize) -> Result<Option<Piece>> {
        Ok(None)
    }
    fn progress(&self) -> Result<()> {
        Ok(())
    }
    fn fail(&self, _: &str) {}
}

impl Group {
    /// A group of this process alone: every sum is what it is given.
    pub fn alone() -> Group {
        Group { inner: Arc::new(Inner { transport: Box::new(Alone), busy: Mutex::new(()) }) }
    }

    /// A group over something that moves bytes.
    pub fn over(transport: impl Transport + 'static) -> Result<Group> {
        let (rank, size) = (transport.rank(), transport.size());
        if rank >= size {
            let (expected, got) = (format!("below the size, {size}"), rank.to_string());
            return Err(Error::Parameter { op: "group", parameter: "rank", expected, got });
        }
        Ok(Group {
            inner: Arc::new(Inner { transport: Box::new(transport), busy: Mutex::new(()) }),
        })
    }

    /// The number of this process, from 0 on.
    pub fn rank(&self) -> usize {
        self.inner.transport.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.inner.transport.size()
    }

    /// Whether this is rank 0: the one that prints, draws and writes files.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The parts, of `total` in a step, that are this rank's: each rank has parts that follow each other, as
    /// many as every other or one more.
    ///
    /// ```
    /// use extensor::distributed::threads;
    /// assert_eq!(threads(3, |group| Ok(group.parts(8)))?, [0..2, 2..5, 5..8]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn parts(&self, total: usize) -> Range<usize> {
        blocks::share(total, self.rank(), self.size())
    }

    /// Tells the other ranks that this one ends, and why: their calls return an error that names this rank.
    pub fn fail(&self, error: &Error) {
        self.inner.transport.fail(&format!("failed: {error}"));
    }

    pub(super) fn transport(&self) -> &dyn Transport {
        &*self.inner.transport
    }

    /// The group for one call: calls from several threads would mix their messages.
    pub(super) fn claim(&self) -> MutexGuard<'_, ()> {
        self.inner.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ranks other than this one, beginning with the next: not all at once send to the same.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank(), self.size());
        (1..size).map(move |k| (rank + k) % size)
    }

    /// Waits until `ready` has something.
    pub(super) fn wait<R>(&self, mut ready: impl FnMut() -> Result<Option<R>>) -> Result<R> {
        let mut looks = 0u32;
        loop {
            if let Some(found) = ready()? {
                return Ok(found);
            }
            looks += 1;
            match looks {
                0..200 => std::hint::spin_loop(),
                200..2000 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Waits for the next message of a rank.
    pub(super) fn await_from(&self, from: usize) -> Result<Piece> {
        self.wait(|| self.transport().arrived(from))
    }

    /// Waits until nobody but the caller holds a piece that was sent.
    pub(super) fn take_back(&self, mut piece: Arc<Piece>) -> Result<Piece> {
        self.wait(|| {
            match Arc::try_unwrap(std::mem::replace(&mut piece, Arc::new(piece_of("send", 0)?))) {
                Ok(alone) => Ok(Some(alone)),
                Err(shared) => {
                    piece = shared;
                    self.transport().progress()?;
                    Ok(None)
                }
            }
        })
    }

    /// What every rank says, by rank: bytes of any length.
    pub(super) fn exchange(&self, op: &'static str, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.exchange_fixed(op, &(mine.len() as u64).to_le_bytes(), |_| 8)?;
        let lengths: Vec<usize> = lengths.iter().map(|bytes| count_of(bytes)).collect();
        self.exchange_fixed(op, mine, |rank| lengths[rank])
    }

    /// What every rank says, by rank, where it is known how much that is.
    pub(super) fn exchange_fixed(
        &self,
        op: &'static str,
        mine: &[u8],
        bytes: impl Fn(usize) -> usize,
    ) -> Result<Vec<Vec<u8>>> {
        for from in self.others() {
            self.transport().receive(from, piece_of(op, bytes(from))?)?;
        }
        let message = Message::from(mine.to_vec());
        for to in self.others() {
            self.transport().send(to, message.clone())?;
        }
        let mut found = vec![Vec::new(); self.size()];
        found[self.rank()] = mine.to_vec();
        for from in self.others() {
            found[from] = self.await_from(from)?.bytes().to_vec();
        }
        Ok(found)
    }
}

/// A count from its bytes.
pub(super) fn count_of(bytes: &[u8]) -> usize {
    bytes.try_into().map_or(0, u64::from_le_bytes) as usize
}

/// Memory for a message.
pub(super) fn piece_of(op: &'static str, bytes: usize) -> Result<Piece> {
    Buffer::new(bytes).map(Piece::of).ok_or(Error::OutOfMemory { op, bytes })
}
