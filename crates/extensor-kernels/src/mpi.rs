//! Messages between processes by MPI, which own the memory that is sent or filled as long as they are under
//! way.
//!
//! The crate `mpi` lends memory to messages for a scope; here nobody waits at the end of one. Whoever gives
//! up a message that is still under way leaves its memory to MPI for good.

use mpi::environment::{Threading, Universe, initialize_with_threading};
use mpi::ffi;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// The most bytes of one message of MPI's; longer ones are sent as several.
const MOST: usize = 1 << 30;

/// The processes that were started together, of which this is one.
pub struct World {
    rank: usize,
    size: usize,
    comm: Comm,
    /// The thread that may call MPI, where it is that one alone.
    only: Option<ThreadId>,
    /// Held during each call: they must not be made at the same time.
    calls: Mutex<()>,
    /// Ends MPI when dropped, if it was begun here.
    universe: Mutex<Option<Universe>>,
}

/// A communicator of our own: nobody else's messages are among ours.
struct Comm(ffi::MPI_Comm);

// SAFETY: a handle that MPI looks up; calls with it are made one at a time (`World::calls`), and by one thread
// alone where MPI asks for that (`World::only`).
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

/// What MPI calls are told to do with numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// Numbers that MPI adds.
pub trait Summand: Copy + Send + 'static {
    /// The type's name in MPI.
    fn datatype() -> ffi::MPI_Datatype;
}

macro_rules! summands {
    ($($t:ty = $name:ident),*) => {$(
        impl Summand for $t {
            fn datatype() -> ffi::MPI_Datatype {
                // SAFETY: a constant of the library.
                unsafe { ffi::$name }
            }
        }
    )*};
}

summands!(f32 = RSMPI_FLOAT, f64 = RSMPI_DOUBLE, i64 = RSMPI_INT64_T);

/// A message under way, which owns what is sent or filled.
pub struct Transfer<O> {
    requests: Vec<ffi::MPI_Request>,
    /// Taken out of its box only when no request is left.
    owner: Option<NonNull<O>>,
    /// How many bytes are to arrive with each request; nothing is asked of what is sent.
    due: Vec<c_int>,
}

// SAFETY: the owner may cross threads, and requests are handles that `World` passes to MPI one at a time.
unsafe impl<O: Send> Send for Transfer<O> {}

impl World {
    /// Begins to use MPI, or joins in where the program has begun already; once for a process.
    pub fn start() -> Result<World, String> {
        let started = initialize_with_threading(Threading::Serialized);
        let level = match &started {
            Some((_, level)) => *level,
            None => mpi::environment::threading_support(),
        };
        let only = (level < Threading::Serialized).then(|| std::thread::current().id());
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: MPI has begun; the places that are written are ours, and of the types that it writes.
        let found = unsafe {
            let mut own = ffi::RSMPI_COMM_NULL;
            let made = ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, &raw mut own);
            check(made)
                .and_then(|()| check(ffi::MPI_Comm_set_errhandler(own, ffi::RSMPI_ERRORS_RETURN)))
                .and_then(|()| check(ffi::MPI_Comm_rank(own, &raw mut rank)))
                .and_then(|()| check(ffi::MPI_Comm_size(own, &raw mut size)))
                .map(|()| own)
        };
        let comm = Comm(found?);
        let (rank, size) = (count(rank)?, count(size)?);
        let universe = Mutex::new(started.map(|(universe, _)| universe));
        Ok(World { rank, size, comm, only, calls: Mutex::new(()), universe })
    }

    /// Which process this is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether any thread may call, or only the one that [began](World::start).
    pub fn any_thread(&self) -> bool {
        self.only.is_none()
    }

    /// The right to call MPI.
    fn call(&self) -> Result<MutexGuard<'_, ()>, String> {
        if self.only.is_some_and(|only| only != std::thread::current().id()) {
            return Err("this MPI can be called by one thread only, and another did".into());
        }
        Ok(self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts to send.
    pub fn send<O>(&self, to: usize, owner: O) -> Result<Transfer<O>, String>
    where
        O: AsRef<[u8]> + Send + 'static,
    {
        let _call = self.call()?;
        let mut transfer = Transfer::new(owner);
        // SAFETY: the owner is in a box that only the transfer reaches, which frees it when no request is
        // left: until then it is not moved, and borrowed by MPI alone.
        let bytes: &[u8] = unsafe { transfer.boxed().as_ref() }.as_ref();
        for part in parts(bytes.len()) {
            let (start, len) = (bytes[part.clone()].as_ptr(), part.len() as c_int);
            // SAFETY: `len` bytes from `start` are the owner's, and are read until the request is over.
            let made = unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                let (kind, comm) = (ffi::RSMPI_UINT8_T, self.comm.0);
                let made =
                    ffi::MPI_Isend(start.cast(), len, kind, to as c_int, 0, comm, &raw mut request);
                transfer.requests.push(request);
                made
            };
            check(made)?;
        }
        Ok(transfer)
    }

    /// Starts to receive as many bytes as the owner has.
    pub fn receive<O>(&self, from: usize, owner: O) -> Result<Transfer<O>, String>
    where
        O: AsMut<[u8]> + Send + 'static,
    {
        let _call = self.call()?;
        let mut transfer = Transfer::new(owner);
        // SAFETY: as in `send`; the borrow is unique.
        let bytes: &mut [u8] = unsafe { transfer.boxed().as_mut() }.as_mut();
        for part in parts(bytes.len()) {
            let len = part.len() as c_int;
            let start = bytes[part].as_mut_ptr();
            // SAFETY: `len` bytes from `start` are the owner's, which nobody looks at until the request is
            // over.
            let made = unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                let (kind, comm) = (ffi::RSMPI_UINT8_T, self.comm.0);
                let made = ffi::MPI_Irecv(
                    start.cast(),
                    len,
                    kind,
                    from as c_int,
                    0,
                    comm,
                    &raw mut request,
                );
                transfer.requests.push(request);
                transfer.due.push(len);
                made
            };
            check(made)?;
        }
        Ok(transfer)
    }

    /// The owner of a message that is over, `None` while it is under way. Moves on all that are.
    pub fn finished<O: Send>(&self, transfer: &mut Transfer<O>) -> Result<Option<O>, String> {
        let _call = self.call()?;
        while let Some(request) = transfer.requests.first_mut() {
            let (mut done, mut arrived): (c_int, c_int) = (0, 0);
            // SAFETY: the request is one that `send` or `receive` began and that is not over, and the places
            // that are written are ours. A status is plain numbers, all of which may be 0.
            let tested = unsafe {
                let mut status: ffi::MPI_Status = std::mem::zeroed();
                let tested = ffi::MPI_Test(request, &raw mut done, &raw mut status);
                if tested == 0 && done != 0 {
                    ffi::MPI_Get_count(&raw const status, ffi::RSMPI_UINT8_T, &raw mut arrived);
                }
                tested
            };
            check(tested)?;
            if done == 0 {
                return Ok(None);
            }
            transfer.requests.remove(0);
            if !transfer.due.is_empty() {
                let due = transfer.due.remove(0);
                if arrived != due {
                    return Err(format!("sent {arrived} bytes where {due} were due"));
                }
            }
        }
        Ok(transfer.take())
    }

    /// Numbers of all processes, combined in the order that MPI chooses.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn all_reduce<T: Summand>(
        &self,
        from: &[T],
        into: &mut [T],
        how: Reduction,
    ) -> Result<(), String> {
        assert_eq!(from.len(), into.len(), "all_reduce: two lengths");
        let _call = self.call()?;
        let step = MOST / size_of::<T>();
        for (from, into) in from.chunks(step).zip(into.chunks_mut(step)) {
            let len = from.len() as c_int;
            // SAFETY: both slices have `len` numbers of the datatype, and do not overlap.
            let made = unsafe {
                let how = match how {
                    Reduction::Sum => ffi::RSMPI_SUM,
                    Reduction::Max => ffi::RSMPI_MAX,
                    Reduction::Min => ffi::RSMPI_MIN,
                };
                let (source, target) = (from.as_ptr().cast(), into.as_mut_ptr().cast());
                ffi::MPI_Allreduce(source, target, len, T::datatype(), how, self.comm.0)
            };
            check(made)?;
        }
        Ok(())
    }

    /// Lets the process end without waiting for the others, which may be gone.
    pub fn leave(&self) {
        let mut universe = self.universe.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(universe.take());
    }
}

impl<O> Transfer<O> {
    fn new(owner: O) -> Transfer<O> {
        let owner = NonNull::from(Box::leak(Box::new(owner)));
        Transfer { requests: Vec::new(), owner: Some(owner), due: Vec::new() }
    }

    fn boxed(&mut self) -> NonNull<O> {
        match self.owner {
            Some(owner) => owner,
            None => unreachable!("a message that has begun has an owner"),
        }
    }

    /// The owner, which nobody else looks at any more.
    fn take(&mut self) -> Option<O> {
        if !self.requests.is_empty() {
            return None;
        }
        // SAFETY: `new` leaked it from a box, no request is left, and it is taken once.
        self.owner.take().map(|owner| *unsafe { Box::from_raw(owner.as_ptr()) })
    }
}

impl<O> Drop for Transfer<O> {
    fn drop(&mut self) {
        // While a request is left, MPI reads or writes what is owned: then it stays.
        drop(self.take());
    }
}

/// The messages of MPI's that so many bytes take: one at least.
fn parts(len: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..len.div_ceil(MOST).max(1)).map(move |i| i * MOST..((i + 1) * MOST).min(len))
}

fn count(n: c_int) -> Result<usize, String> {
    usize::try_from(n).map_err(|_| format!("MPI says that there are {n} processes"))
}

/// An error in MPI's words, unless a call went well.
fn check(code: c_int) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    let mut text = [0u8; 4096];
    let mut len: c_int = 0;
    // SAFETY: the text is longer than the longest that MPI writes (`MPI_MAX_ERROR_STRING`, 256 or 512).
    let said = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut len) };
    let len = usize::try_from(len).unwrap_or(0).min(text.len());
    match said {
        0 => Err(format!("MPI says: {}", String::from_utf8_lossy(&text[..len]))),
        _ => Err(format!("MPI says: error {code}")),
    }
}
