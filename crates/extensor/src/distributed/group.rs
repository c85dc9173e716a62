//! A group: what a user holds, and how a rank waits for others.

use super::transport::{Message, Piece, Transport};
use super::watch::Watch;
use super::{blocks, fallen};
use crate::interrupt::stoppable;
use crate::{Error, Result};
use extensor_kernels::buffer::Buffer;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long ranks may take to find out what they end with.
const AGREED: Duration = Duration::from_secs(2);
/// How long those who do not tell the user wait for the one who does.
const SPOKEN: Duration = Duration::from_millis(700);

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
    /// Whether a [`Reducer`](super::Reducer) is at work.
    reducing: AtomicBool,
    /// Whether one was given up, with messages of it under way.
    broken: AtomicBool,
    watch: OnceLock<Arc<Watch>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            if watch.failure().is_none() && std::thread::panicking() {
                watch.tell("failed: its program panicked");
                watch.agree(AGREED);
            }
            match watch.failure() {
                Some(failure) => self.transport.fail(&failure.reason),
                None => watch.leave(),
            }
        }
    }
}

/// A group that ends when nobody else holds it.
#[cfg(feature = "mpi")]
pub(super) struct Weak(std::sync::Weak<Inner>);

#[cfg(feature = "mpi")]
impl Weak {
    pub fn group(&self) -> Option<Group> {
        self.0.upgrade().map(|inner| Group { inner })
    }
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
        Group::with(Box::new(Alone))
    }

    /// A group over something that moves bytes.
    pub fn over(transport: impl Transport + 'static) -> Result<Group> {
        let (rank, size) = (transport.rank(), transport.size());
        if rank >= size {
            let (expected, got) = (format!("below the size, {size}"), rank.to_string());
            return Err(Error::Parameter { op: "group", parameter: "rank", expected, got });
        }
        Ok(Group::with(Box::new(transport)))
    }

    fn with(transport: Box<dyn Transport>) -> Group {
        let inner = Inner {
            transport,
            busy: Mutex::new(()),
            reducing: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            watch: OnceLock::new(),
        };
        Group { inner: Arc::new(inner) }
    }

    #[cfg(feature = "mpi")]
    pub(super) fn weak(&self) -> Weak {
        Weak(Arc::downgrade(&self.inner))
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

    /// Has ranks that are processes watch over each other, by TCP: one that dies, or is stopped for 5 seconds,
    /// is noticed by all, and their calls return an error that names it. A program that neither makes a call nor
    /// asks for the [failure](Group::failure) for 3 seconds after that is ended, with that sentence. `false`, on every rank, where one
    /// cannot connect to rank 0. The group that `Group::mpi` makes is watched from the beginning.
    pub fn watch(&self) -> Result<bool> {
        if self.size() > 1 && !self.is_watched() {
            let _claim = self.claim()?;
            if let Some(watch) = Watch::start(self)? {
                let _ = self.inner.watch.set(watch);
            }
        }
        Ok(self.is_watched())
    }

    /// Whether ranks [watch](Group::watch) over each other.
    pub fn is_watched(&self) -> bool {
        self.inner.watch.get().is_some()
    }

    /// The failure of a rank that all ranks end with, if there was one: for loops to ask that compute for long
    /// between two calls. Calls return it by themselves.
    pub fn failure(&self) -> Option<Error> {
        let failure = self.inner.watch.get()?.failure()?;
        Some(fallen("group", failure.rank, failure.reason.clone()))
    }

    /// Tells the other ranks that this one ends, and why: their calls return an error that names this rank.
    /// Every rank that ends with an error calls it, whether the error is its own or that of another; it returns
    /// whether this rank is the one that is to tell the user. If several fail at once, one of them is.
    pub fn fail(&self, error: &Error) -> bool {
        let reason = format!("failed: {error}");
        let first =
            |fallen: usize| (0..self.size()).find(|&rank| rank != fallen) == Some(self.rank());
        let Some(watch) = self.inner.watch.get() else {
            self.inner.transport.fail(&reason);
            return match error {
                Error::Rank { rank, .. } => *rank == self.rank() || first(*rank),
                _ => true,
            };
        };
        if watch.failure().is_none() {
            watch.tell(&reason);
        }
        let speaks = match watch.agree(AGREED) {
            Some(failure) => watch.speaks(failure),
            None => self.is_first(),
        };
        if !speaks {
            // Launchers end all processes when the first ends: not before one has spoken.
            std::thread::sleep(SPOKEN);
        }
        self.inner.transport.fail(&reason);
        speaks
    }

    pub(super) fn transport(&self) -> &dyn Transport {
        &*self.inner.transport
    }

    /// The group for one call: calls from several threads would mix their messages.
    pub(super) fn claim(&self) -> Result<MutexGuard<'_, ()>> {
        let guard = self.inner.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if self.inner.reducing.load(Ordering::Acquire) {
            let reason = "has a reducer at work; finish it first".into();
            return Err(fallen("group", self.rank(), reason));
        }
        self.trouble()?;
        Ok(guard)
    }

    /// The group for a reducer, until it is [given back](Self::give_back).
    pub(super) fn claim_for_reducer(&self) -> Result<()> {
        let _claim = self.claim()?;
        self.inner.reducing.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends what [`claim_for_reducer`](Self::claim_for_reducer) began; `whole`: with no message under way.
    pub(super) fn give_back(&self, whole: bool) {
        self.inner.broken.fetch_or(!whole, Ordering::AcqRel);
        self.inner.reducing.store(false, Ordering::Release);
    }

    /// An error where nothing is to be waited for any more.
    fn trouble(&self) -> Result<()> {
        if self.inner.broken.load(Ordering::Acquire) {
            let reason = "dropped a reducer before it was finished".into();
            return Err(fallen("group", self.rank(), reason));
        }
        self.failure().map_or(Ok(()), Err)
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
            looks = looks.saturating_add(1);
            match looks {
                0..200 => std::hint::spin_loop(),
                200..2000 => std::thread::yield_now(),
                _ => {
                    self.trouble()?;
                    // Whoever asked for the end of long work does not wait for others either.
                    stoppable("group", || Ok(()))?;
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        }
    }

    /// Waits for the next message of a rank.
    pub(super) fn await_from(&self, from: usize) -> Result<Piece> {
        let mut missed = None;
        self.wait(|| {
            let found = self.transport().arrived(from)?;
            let left = || self.inner.watch.get().is_some_and(|watch| watch.has_left(from));
            if found.is_none() && left() {
                // What it sent before it left may still be under way.
                let since = *missed.get_or_insert_with(Instant::now);
                if since.elapsed() > AGREED {
                    return Err(fallen("group", from, "has ended, and sends nothing more".into()));
                }
            }
            Ok(found)
        })
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
