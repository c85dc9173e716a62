//! Threads: one pool of helpers that join in when a caller has enough work.
//!
//! [`parallel_for`] runs numbered tasks. The caller works too, and never waits for a helper that has
//! not started: beside other load on the machine a step is slowed down, not stopped. Each thread has a
//! lane of tasks that follow each other, the same one whenever the same number of threads work, so
//! that it finds in its caches what it left there; when its own are done it takes those of others.
//! Which thread runs a task is left to chance all the same; kernels cut their work into tasks so that
//! results do not depend on it.

use crate::settings::settings;
use crate::stop::{self, Stop, Watch};
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

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

/// Tasks that follow each other, on a cache line of their own: threads count up different ones.
#[repr(align(64))]
struct Lane {
    /// The next task nobody has taken.
    next: AtomicUsize,
    /// Where they end.
    end: usize,
}

/// A call of [`parallel_for`] under way.
struct Job {
    /// The caller's closure; valid until `unfinished` is 0, which the caller waits for.
    task: *const (dyn Fn(usize) + Sync),
    /// As many as threads may work on it.
    lanes: Box<[Lane]>,
    /// Tasks not finished yet.
    unfinished: AtomicUsize,
    /// Helpers that may still join.
    seats: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    done: Mutex<bool>,
    wake: Condvar,
    /// The caller's own setting, so that nested calls in a helper follow it.
    threads: usize,
    /// The caller's watch, so that work in a helper stops with it.
    watch: Option<Arc<AtomicBool>>,
}

// SAFETY: `task` points to a closure that is `Sync`, so it may be called from several threads; the
// other fields are thread-safe by themselves. The pointer is dereferenced only for tasks counted in
// `unfinished`, and the caller keeps the closure alive until that count is 0.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Takes and runs tasks until none is left, or until it is to stop: first those of one lane,
    /// then those of the lanes behind it.
    fn work(&self, first: usize) {
        let mut ended = 0;
        for k in 0..self.lanes.len() {
            let lane = &self.lanes[(first + k) % self.lanes.len()];
            loop {
                if stop::is_wanted() {
                    self.finished(ended);
                    return self.abandon();
                }
                // Looked at first: most lanes are empty when others are done with theirs.
                if lane.next.load(Ordering::Relaxed) >= lane.end {
                    break;
                }
                let i = lane.next.fetch_add(1, Ordering::Relaxed);
                if i >= lane.end {
                    break;
                }
                // SAFETY: task `i` is unfinished, so the caller is still waiting and its closure lives.
                let task = unsafe { &*self.task };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(i))) {
                    *self.panic.lock().unwrap_or_else(|e| e.into_inner()) = Some(panic);
                }
                ended += 1;
            }
        }
        self.finished(ended);
    }

    /// Whether nobody is left a task to take.
    fn is_exhausted(&self) -> bool {
        self.lanes.iter().all(|lane| lane.next.load(Ordering::Relaxed) >= lane.end)
    }

    /// Counts tasks that have ended, or that nobody will begin.
    fn finished(&self, tasks: usize) {
        if tasks > 0 && self.unfinished.fetch_sub(tasks, Ordering::AcqRel) == tasks {
            *self.done.lock().unwrap_or_else(|e| e.into_inner()) = true;
            self.wake.notify_all();
        }
    }

    /// Takes all the tasks that are left, and does none of them.
    fn abandon(&self) {
        *self.panic.lock().unwrap_or_else(|e| e.into_inner()) = Some(Box::new(Stop::Interrupted));
        for lane in &self.lanes {
            let taken = lane.next.swap(lane.end, Ordering::Relaxed);
            self.finished(lane.end.saturating_sub(taken));
        }
    }

    fn wait(&self) {
        // The last tasks end at about the same time: a short spin saves going to sleep.
        for _ in 0..2000 {
            if self.unfinished.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        let mut done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        while !*done {
            if !stop::is_watched() {
                done = self.wake.wait(done).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            // A helper's task may be long and look too: ask for it, since helpers do not.
            drop(done);
            stop::is_wanted();
            done = self.done.lock().unwrap_or_else(|e| e.into_inner());
            if !*done {
                let tick = Duration::from_millis(20);
                let waited = self.wake.wait_timeout(done, tick);
                done = waited.unwrap_or_else(|e| e.into_inner()).0;
            }
        }
    }
}

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    work: Condvar,
    /// Jobs posted so far: what an idle helper watches before it sleeps.
    posted: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    helpers: usize,
    asleep: usize,
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(Pool::default)
}

impl Pool {
    /// The queue. Many threads want it at once, each for a moment: they spin rather than sleep.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        for _ in 0..200 {
            match self.queue.try_lock() {
                Ok(queue) => return queue,
                Err(TryLockError::Poisoned(error)) => return error.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        self.queue.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn post(&'static self, job: &Arc<Job>, helpers: usize) {
        let mut queue = self.queue();
        while queue.helpers < helpers {
            let number = queue.helpers + 1;
            let spawned = std::thread::Builder::new()
                .name("extensor".into())
                .spawn(move || self.help(number));
            // A machine that gives no more threads still does the work with those it has.
            if spawned.is_err() {
                break;
            }
            queue.helpers += 1;
        }
        queue.jobs.push_back(job.clone());
        self.posted.fetch_add(1, Ordering::Release);
        let asleep = queue.asleep.min(helpers);
        drop(queue);
        self.rouse(asleep);
    }

    /// Wakes a few of so many sleepers; those wake more. To wake them all takes one thread longer
    /// than the work may take.
    fn rouse(&self, asleep: usize) {
        for _ in 0..asleep.min(2) {
            self.work.notify_one();
        }
    }

    /// What a helper thread does all its life.
    fn help(&self, number: usize) {
        loop {
            let job = self.next_job();
            OVERRIDE.with(|o| o.set(job.threads));
            Watch::shared(job.watch.clone(), || job.work(number));
        }
    }

    fn next_job(&self) -> Arc<Job> {
        let mut queue = self.queue();
        loop {
            while let Some(job) = queue.jobs.front() {
                if job.is_exhausted() || job.seats.load(Ordering::Relaxed) == 0 {
                    queue.jobs.pop_front();
                    continue;
                }
                let left = job.seats.fetch_sub(1, Ordering::Relaxed) - 1;
                let (job, asleep) = (job.clone(), queue.asleep.min(left));
                drop(queue);
                self.rouse(asleep);
                return job;
            }
            let seen = self.posted.load(Ordering::Acquire);
            drop(queue);
            // Operations follow each other closely: look out for the next one for a moment.
            for _ in 0..4000 {
                if self.posted.load(Ordering::Acquire) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            queue = self.queue();
            if queue.jobs.is_empty() {
                queue.asleep += 1;
                queue = self.work.wait(queue).unwrap_or_else(|e| e.into_inner());
                queue.asleep -= 1;
            }
        }
    }
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
            stop::look();
            task(i);
        }
        return;
    }
    let erased: *const (dyn Fn(usize) + Sync + '_) = task;
    // SAFETY: only the lifetime is changed. `wait` below keeps `task` alive until every task that
    // may dereference the pointer has ended.
    let erased: *const (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(erased) };
    let lane = |k: usize| Lane {
        next: AtomicUsize::new(tasks / threads * k + (tasks % threads).min(k)),
        end: tasks / threads * (k + 1) + (tasks % threads).min(k + 1),
    };
    let job = Arc::new(Job {
        task: erased,
        lanes: (0..threads).map(lane).collect(),
        unfinished: AtomicUsize::new(tasks),
        seats: AtomicUsize::new(threads - 1),
        panic: Mutex::new(None),
        done: Mutex::new(false),
        wake: Condvar::new(),
        threads,
        watch: Watch::to_share(),
    });
    pool().post(&job, threads - 1);
    job.work(0);
    job.wait();
    let panic = job.panic.lock().unwrap_or_else(|e| e.into_inner()).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
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
// SAFETY: whoever calls `part` promises that every task has a part of its own.
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
