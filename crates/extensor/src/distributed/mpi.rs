//! Ranks that mpirun started.

use super::group::Group;
use super::transport::{Message, Numbers, Piece, Transport};
use super::{Reduction, fallen, launched};
use crate::{Error, Result};
use extensor_kernels::mpi::{self, Transfer, World};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Messages by MPI.
struct Mpi {
    world: World,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sends: Vec<Transfer<Message>>,
    /// By the rank they are from, the oldest first.
    receives: Vec<VecDeque<Transfer<Piece>>>,
    /// Whether messages may stay under way for ever.
    failed: bool,
}

impl Mpi {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the messages that have left.
    fn sweep(&self, state: &mut State) -> Result<()> {
        let mut i = 0;
        while i < state.sends.len() {
            match self.world.finished(&mut state.sends[i]) {
                Ok(Some(_)) => drop(state.sends.swap_remove(i)),
                Ok(None) => i += 1,
                Err(reason) => return Err(failed("send", reason)),
            }
        }
        Ok(())
    }
}

/// An error that MPI reports to this rank.
fn failed(op: &'static str, reason: String) -> Error {
    let rank = launched().map_or(0, |launched| launched.rank);
    fallen(op, rank, format!("cannot go on: {reason}"))
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        self.world.rank()
    }

    fn size(&self) -> usize {
        self.world.size()
    }

    fn send(&self, to: usize, message: Message) -> Result<()> {
        let sending = self.world.send(to, message);
        let sending =
            sending.map_err(|reason| fallen("send", to, format!("gets nothing: {reason}")))?;
        self.state().sends.push(sending);
        Ok(())
    }

    fn receive(&self, from: usize, into: Piece) -> Result<()> {
        let receiving = self.world.receive(from, into);
        let receiving = receiving.map_err(|reason| fallen("receive", from, reason))?;
        self.state().receives[from].push_back(receiving);
        Ok(())
    }

    fn arrived(&self, from: usize) -> Result<Option<Piece>> {
        let mut state = self.state();
        let Some(oldest) = state.receives[from].front_mut() else { return Ok(None) };
        let found =
            self.world.finished(oldest).map_err(|reason| fallen("receive", from, reason))?;
        if found.is_some() {
            state.receives[from].pop_front();
        }
        Ok(found)
    }

    fn progress(&self) -> Result<()> {
        self.sweep(&mut self.state())
    }

    fn any_thread(&self) -> bool {
        self.world.any_thread()
    }

    fn all_reduce(&self, numbers: Numbers<'_>, how: Reduction) -> Result<bool> {
        let how = match how {
            Reduction::Sum | Reduction::Mean => mpi::Reduction::Sum,
            Reduction::Max => mpi::Reduction::Max,
            Reduction::Min => mpi::Reduction::Min,
        };
        let done = match numbers {
            Numbers::F32(from, into) => self.world.all_reduce(from, into, how),
            Numbers::F64(from, into) => self.world.all_reduce(from, into, how),
            Numbers::I64(from, into) => self.world.all_reduce(from, into, how),
        };
        done.map(|()| true).map_err(|reason| failed("all_reduce", reason))
    }

    fn fail(&self, _: &str) {
        self.state().failed = true;
        // MPI's own end waits for all, and some may be gone.
        self.world.leave();
    }
}

/// How long messages that were sent may take to leave at the end.
const LEAVING: Duration = Duration::from_secs(10);

impl Drop for Mpi {
    fn drop(&mut self) {
        let started = Instant::now();
        let mut state = self.state();
        while !state.failed && !state.sends.is_empty() {
            if self.sweep(&mut state).is_err() || started.elapsed() > LEAVING {
                self.world.leave();
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Group {
    /// The processes that mpirun started, of which this is one; alone where there was no mpirun.
    ///
    /// MPI is begun by the first call, and ended when the last clone of the group is dropped; after that it
    /// cannot be begun again. A program that ends by `std::process::exit` drops the group first. Ranks whose
    /// versions of this library differ are refused; from then on they [watch](Group::is_watched) each other.
    pub fn mpi() -> Result<Group> {
        static FOUND: Mutex<Option<super::group::Weak>> = Mutex::new(None);
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(weak) = &*found {
            return weak
                .group()
                .ok_or_else(|| failed("mpi", "MPI has ended in this process".into()));
        }
        let world = World::start().map_err(|reason| failed("mpi", reason))?;
        let receives = (0..world.size()).map(|_| VecDeque::new()).collect();
        let state = Mutex::new(State { receives, ..State::default() });
        let group = Group::over(Mpi { world, state })?;
        group.expect_same("mpi", &[("the version of extensor", env!("CARGO_PKG_VERSION"))])?;
        group.watch()?;
        *found = Some(group.weak());
        Ok(group)
    }
}
