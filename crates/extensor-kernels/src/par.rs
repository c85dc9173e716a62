//! Threads: one pool of helpers that join in when a caller has enough work.
//!
//! [`parallel_for`] runs numbered tasks. The caller works too, and never waits for a helper that has
//! not started: beside other load on the machine a step is slowed down, not stopped. Each thread has a
//! lane of tasks that follow each other, the same one whenever the same number of threads work, so
//! that it finds in its caches what it left there; when its own are done it takes those of others.
//! Which thread runs a task is left to chance all the same; kernels cut their work into tasks so that
//! results do not depend on it.

mod job;
mod pool;

use crate::settings::settings;
use crate::stop;
use job::Job;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most threads that one call may ask for.
pub const MAX_THREADS: usize = 1024;

/// Threads a call uses unless [`with_threads`] says otherwise; 0 until first asked for.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of threads that calls from this thread use; 0: the global number.
    static OVERRIDE: Cell<usize> = const { Cell::new(0) };
}

/// How many threads an operation called from this thread may use, the calling one included.
#[inline]
pub fn threads() -> usize {
    match OVERRIDE.with(Cell::get) {
        0 => match THREADS.load(Ordering::Relaxed) {
            0 => default_threads(),
            n => n,
        },
        n => n,
    }
}

#[cold]
fn default_threads() -> usize {
    let machine = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let n = settings().threads.unwrap_or_else(machine);
    let n = n.min(MAX_THREADS);
    THREADS.store(n, Ordering::Relaxed);
    n
}

/// Sets how many threads operations use from now on (at least 1, at most [`MAX_THREADS`]).
pub fn set_threads(n: usize) {
    THREADS.store(n.clamp(1, MAX_THREADS), Ordering::Relaxed);
}

/// Runs `f` with operations called from this thread using `n` threads.
pub fn with_threads<R>(n: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            OVERRIDE.with(|o| o.set(self.0));
        }
    }
    let _restore = Restore(OVERRIDE.with(|o| o.replace(n.clamp(1, MAX_THREADS))));
    f()
}

/// Runs `task(0)`, …, `task(tasks - 1)`, on several threads when [`threads`] allows, in any order.
///
/// Returns when all are done. A panic in a task is raised again here once the others have ended. Under
/// a [watch](stop::watch) that wants it, the tasks not begun are left out, and this does not return.
// Compiled once, not for each of the hundreds of closures.
pub fn parallel_for(tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    let threads = threads().min(tasks);
    if threads <= 1 {
        for i in 0..tasks {
            stop::check();
            task(i);
        }
        return;
    }
    Job::run(task, tasks, threads);
}

/// Waits a moment for what another thread does, having waited so often before. Now and then another
/// process may have the core, which may be what is waited for.
fn pause(looks: usize) {
    if looks.is_multiple_of(64) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// How many of `len` numbers a task takes, `least` to `most`: so few that every thread has some, and
/// not so few that handing them out takes longer than working on them. For work whose results do not
/// depend on how it is cut.
pub(crate) fn share(len: usize, least: usize, most: usize) -> usize {
    len.div_ceil(2 * threads()).clamp(least, most)
}

/// How many threads may work on each of `tasks` tasks that follow each other on this many threads:
/// one where there are many tasks, and else so many that all have work until the last of them ends.
pub(crate) fn within(tasks: usize) -> usize {
    (4 * threads()).div_ceil(tasks.max(1)).min(threads())
}

/// A pointer that tasks may share because each touches its own part.
pub(crate) struct Shared<T>(*mut T);
// SAFETY: the caller of `part` promises that every task has a part of its own.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Shares `data`, which must not be used otherwise while parts of it live.
    pub(crate) fn new(data: &mut [T]) -> Self {
        Shared(data.as_mut_ptr())
    }

    /// # Safety
    /// `start..end` must lie in the allocation, and no two live parts may overlap.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, start: usize, end: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), end - start) }
    }

    /// Where an element is, for tasks whose parts do not lie in one piece.
    pub(crate) fn pointer(&self, at: usize) -> *mut T {
        self.0.wrapping_add(at)
    }
}

/// Cuts `data` into chunks of `chunk` elements (the last may be shorter) and runs
/// `task(start, chunk)` for each, in parallel when there is more than one.
pub fn parallel_chunks<T: Send>(
    data: &mut [T],
    chunk: usize,
    task: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let len = data.len();
    let chunk = chunk.max(1);
    if len <= chunk {
        if len > 0 {
            task(0, data);
        }
        return;
    }
    let shared = Shared::new(data);
    parallel_for(len.div_ceil(chunk), &|i| {
        let start = i * chunk;
        let end = (start + chunk).min(len);
        // SAFETY: the parts `start..end` of different tasks lie in `data` and do not overlap.
        task(start, unsafe { shared.part(start, end) });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn every_task_runs_exactly_once_for_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            for tasks in [0, 1, 2, 7, 1000] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                with_threads(threads, || {
                    parallel_for(tasks, &|i| {
                        counts[i].fetch_add(1, Ordering::Relaxed);
                    })
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn calls_may_nest_and_come_from_many_threads() {
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    let total = AtomicUsize::new(0);
                    for _ in 0..50 {
                        with_threads(4, || {
                            parallel_for(8, &|_| {
                                parallel_for(8, &|i| {
                                    total.fetch_add(i, Ordering::Relaxed);
                                })
                            })
                        });
                    }
                    assert_eq!(total.load(Ordering::Relaxed), 50 * 8 * 28);
                });
            }
        });
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_survives() {
        let caught =
            catch_unwind(|| with_threads(3, || parallel_for(10, &|i| assert!(i != 7, "seven"))));
        assert!(caught.is_err());
        let sum = AtomicUsize::new(0);
        with_threads(3, || {
            parallel_for(10, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            })
        });
        assert_eq!(sum.load(Ordering::Relaxed), 45);
    }

    #[test]
    fn chunks_cover_a_slice_without_gaps() {
        let mut data = vec![0usize; 1003];
        with_threads(4, || {
            parallel_chunks(&mut data, 10, &|start, part| {
                for (k, v) in part.iter_mut().enumerate() {
                    *v += start + k + 1;
                }
            })
        });
        assert!(data.iter().enumerate().all(|(i, &v)| v == i + 1));
    }
}
