//! Ranks that are threads of one process, for tests, examples and trying things out.

use super::transport::{Message, Piece, Transport};
use super::{Group, fallen};
use crate::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all ranks see.
struct Floor {
    size: usize,
    /// Messages on their way, by the rank they are for and the one they are from.
    sent: Vec<Mutex<VecDeque<Message>>>,
    /// The first rank that failed, and why.
    failed: Mutex<Option<(usize, String)>>,
    /// Which ranks have returned: they send nothing more.
    left: Vec<AtomicBool>,
}

/// One rank's end of it.
struct Threads {
    rank: usize,
    floor: Arc<Floor>,
    /// What is to be filled, by the rank it is expected from.
    expected: Vec<Mutex<VecDeque<Piece>>>,
}

/// The lock, also where a thread has panicked that held it: queues are never left half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transport for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.floor.size
    }

    fn send(&self, to: usize, message: Message) -> Result<()> {
        locked(&self.floor.sent[to * self.floor.size + self.rank]).push_back(message);
        Ok(())
    }

    fn receive(&self, from: usize, into: Piece) -> Result<()> {
        locked(&self.expected[from]).push_back(into);
        Ok(())
    }

    fn arrived(&self, from: usize) -> Result<Option<Piece>> {
        let mut expected = locked(&self.expected[from]);
        if expected.is_empty() {
            return Ok(None);
        }
        // Asked before: what it sent before it left is there.
        let left = self.floor.left[from].load(Ordering::Acquire);
        let sent = locked(&self.floor.sent[self.rank * self.floor.size + from]).pop_front();
        let Some(message) = sent else {
            self.progress()?;
            if left {
                return Err(fallen("threads", from, "has ended, and sends nothing more".into()));
            }
            return Ok(None);
        };
        let Some(mut piece) = expected.pop_front() else { return Ok(None) };
        let bytes = message.bytes();
        if bytes.len() != piece.len() {
            let reason = format!("sent {} bytes where {} were due", bytes.len(), piece.len());
            return Err(fallen("receive", from, reason));
        }
        piece.bytes_mut().copy_from_slice(bytes);
        Ok(Some(piece))
    }

    fn progress(&self) -> Result<()> {
        match &*locked(&self.floor.failed) {
            Some((rank, reason)) if *rank != self.rank => {
                Err(fallen("distributed", *rank, reason.clone()))
            }
            _ => Ok(()),
        }
    }

    fn fail(&self, reason: &str) {
        locked(&self.floor.failed).get_or_insert_with(|| (self.rank, reason.to_string()));
    }
}

/// Runs a function on so many threads, each a rank of a group, and returns what they return, by rank. When
/// one of them fails or panics the others end at the next message, and the error names it.
///
/// ```
/// use extensor::distributed::{Reduction, threads};
/// use extensor::tensor;
/// let sums = threads(3, |group| {
///     let mine = tensor([group.rank() as f64, 1.0]);
///     group.all_reduce(&mine, Reduction::Sum)
/// })?;
/// assert!(sums.iter().all(|sum| sum.to_vec::<f64>().unwrap() == [3.0, 3.0]));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn threads<R: Send>(size: usize, run: impl Fn(&Group) -> Result<R> + Sync) -> Result<Vec<R>> {
    if size == 0 {
        let (expected, got) = ("at least 1".into(), "0".into());
        return Err(Error::Parameter { op: "threads", parameter: "size", expected, got });
    }
    let sent = (0..size * size).map(|_| Mutex::default()).collect();
    let left = (0..size).map(|_| AtomicBool::new(false)).collect();
    let floor = Arc::new(Floor { size, sent, failed: Mutex::new(None), left });
    let rank = |rank: usize| {
        let expected = (0..size).map(|_| Mutex::default()).collect();
        let transport = Threads { rank, floor: floor.clone(), expected };
        let group = Group::over(transport)?;
        match catch_unwind(AssertUnwindSafe(|| run(&group))) {
            Ok(Ok(made)) => {
                floor.left[rank].store(true, Ordering::Release);
                Ok(made)
            }
            Ok(Err(error)) => {
                group.fail(&error);
                Err(error)
            }
            Err(panic) => {
                let message = message_of(&*panic);
                let error = Error::Panic { op: "threads", what: "the function given", message };
                group.fail(&error);
                Err(error)
            }
        }
    };
    let rank = &rank;
    let found: Vec<Result<R>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..size).map(|r| scope.spawn(move || rank(r))).collect();
        let ended = started.into_iter().map(|thread| match thread.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    });
    if let Some((rank, reason)) = &*locked(&floor.failed) {
        return Err(fallen("threads", *rank, reason.clone()));
    }
    found.into_iter().collect()
}

/// What a panic said.
fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
