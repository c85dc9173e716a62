//! What tasks compute in: from the first of them on there is enough for all that run at a time.
//!
//! How many tasks of a loop overlap is up to the system. Were their memory taken as they come, a call
//! might ask the system for some after a thousand like it, when two overlap for the first time.

use super::{Address, allocate, free};
use crate::par;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

/// Larger buffers are not made for all threads: one thread alone may never need them again.
pub(super) const LARGEST: usize = 1 << 20;

/// Buffers of one capacity.
struct Shelf {
    capacity: usize,
    /// How many there are, in use or not.
    made: usize,
    free: Vec<Address>,
}

/// In ascending order of capacities.
static SHELVES: Mutex<Vec<Shelf>> = Mutex::new(Vec::new());

thread_local! {
    /// How many buffers of which capacity this thread has taken and not given back. What another
    /// thread gives back is counted down there: no task does so.
    static TAKEN: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
}

fn shelves() -> MutexGuard<'static, Vec<Shelf>> {
    SHELVES.lock().unwrap_or_else(|e| e.into_inner())
}

/// How many of this capacity this thread has, after one more or one less.
fn count(capacity: usize, more: bool) -> usize {
    let count = |taken: &RefCell<Vec<(usize, usize)>>| {
        let mut taken = taken.borrow_mut();
        let at = taken.iter().position(|&(c, _)| c == capacity).unwrap_or_else(|| {
            taken.push((capacity, 0));
            taken.len() - 1
        });
        let number = &mut taken[at].1;
        *number = if more { *number + 1 } else { number.saturating_sub(1) };
        *number
    };
    TAKEN.try_with(count).unwrap_or(1)
}

/// Initialised memory of a capacity up to [`LARGEST`], and as much for each other thread that may do
/// the like now; `None` if there is no such memory.
pub(super) fn take(capacity: usize) -> Option<NonNull<u8>> {
    let wanted = count(capacity, true) * par::threads();
    let mut shelves = shelves();
    let at = shelves.binary_search_by_key(&capacity, |s| s.capacity).unwrap_or_else(|at| {
        shelves.insert(at, Shelf { capacity, made: 0, free: Vec::new() });
        at
    });
    let shelf = &mut shelves[at];
    while shelf.made < wanted || shelf.free.is_empty() {
        let Some(start) = allocate(capacity) else { break };
        shelf.free.push(Address(start));
        shelf.made += 1;
    }
    let taken = shelf.free.pop().map(|Address(start)| start);
    if taken.is_none() {
        count(capacity, false);
    }
    taken
}

/// Takes back what [`take`] gave out with this capacity.
pub(super) fn give(start: NonNull<u8>, capacity: usize) {
    count(capacity, false);
    let mut shelves = shelves();
    match shelves.binary_search_by_key(&capacity, |s| s.capacity) {
        Ok(at) => shelves[at].free.push(Address(start)),
        Err(_) => unreachable!("a buffer from no shelf"),
    }
}

/// Gives back to the system what nobody computes in.
pub(super) fn clear() {
    for shelf in shelves().iter_mut() {
        for Address(start) in shelf.free.drain(..) {
            shelf.made -= 1;
            // SAFETY: a shelf's buffers were allocated with its capacity, and this one is no longer
            // on it.
            unsafe { free(start, shelf.capacity) };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::buffer::{Buffer, allocations, set_pool_limit};
    use crate::par::with_threads;
    use std::sync::Barrier;

    /// One test, as what it counts is the process's; of capacities that no other test takes.
    #[test]
    fn after_the_first_task_none_asks_the_system_for_memory_however_many_overlap() {
        for bytes in [777_777, 955_000] {
            let both = || [(); 2].map(|()| Buffer::scratch(bytes).unwrap());
            with_threads(4, both);
            let mine = |counted: &mut Vec<*const u8>| {
                let barrier = Barrier::new(4);
                std::thread::scope(|s| {
                    let task = || {
                        with_threads(4, || {
                            let mut buffers = both();
                            buffers.iter_mut().for_each(|b| b.as_mut_slice::<u8>().fill(1));
                            barrier.wait();
                            assert_eq!(buffers[0].bytes(), bytes);
                            buffers.map(|b| b.as_slice::<u8>().as_ptr().addr())
                        })
                    };
                    let tasks: Vec<_> = (0..4).map(|_| s.spawn(task)).collect();
                    for task in tasks {
                        let both = task.join().unwrap();
                        counted.extend(both.map(std::ptr::without_provenance::<u8>));
                    }
                });
                counted.sort();
            };
            let [mut first, mut again] = [Vec::new(), Vec::new()];
            mine(&mut first);
            mine(&mut again);
            assert_eq!(first.len(), 8);
            assert_eq!(first, again, "the eight that there are");
            first.dedup();
            assert_eq!(first.len(), 8, "each for one alone");
        }
        let before = allocations();
        set_pool_limit(crate::buffer::default_limit());
        drop(Buffer::scratch(777_777));
        assert!(allocations() > before, "the free ones were given back");
    }
}
