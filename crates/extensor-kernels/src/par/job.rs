//! The tasks of one call, and who runs which of them.
//!
//! A job knows its tasks, not what they do, and how many threads may take some, not where those come
//! from.

use super::pool::{self, Helper};
use crate::stop::{self, Stop, Watch};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

/// Tasks that follow each other, on a cache line of their own: threads count up different ones.
#[repr(align(64))]
struct Lane {
    /// The next task nobody has taken.
    next: AtomicUsize,
    /// Where they end.
    end: usize,
}

/// A call of [`parallel_for`](super::parallel_for) under way.
pub(super) struct Job {
    /// The caller's closure; valid until `unfinished` is 0, which the caller waits for.
    task: *const (dyn Fn(usize) + Sync),
    /// As many as threads may work on it.
    lanes: Box<[Lane]>,
    /// Tasks not finished yet.
    unfinished: AtomicUsize,
    /// Helpers that may still come from the queue: changed by whoever holds that.
    pub seats: AtomicUsize,
    /// Helpers that sleep and have been given this, and how many of them somebody wakes.
    sleepers: OnceLock<Vec<&'static Helper>>,
    woken: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    done: Mutex<bool>,
    wake: Condvar,
    /// The caller's own setting, so that nested calls in a helper follow it.
    pub threads: usize,
    /// The caller's watch, so that work in a helper stops with it.
    pub watch: Option<Arc<AtomicBool>>,
}

// SAFETY: `task` points to a closure that is `Sync`, so it may be called from several threads; the
// other fields are thread-safe by themselves. The pointer is dereferenced only for tasks counted in
// `unfinished`, and the caller keeps the closure alive until that count is 0.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Runs so many tasks on so many threads, at least two.
    pub fn run(task: &(dyn Fn(usize) + Sync), tasks: usize, threads: usize) {
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
            seats: AtomicUsize::new(0),
            sleepers: OnceLock::new(),
            woken: AtomicUsize::new(0),
            panic: Mutex::new(None),
            done: Mutex::new(false),
            wake: Condvar::new(),
            threads,
            watch: Watch::to_share(),
        });
        pool::post(&job, threads - 1);
        job.work(0);
        job.wait();
        let panic = job.panic.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Leaves it to the first of these to wake the others.
    pub fn rouse_all(&self, sleepers: Vec<&'static Helper>) {
        if !sleepers.is_empty() && self.sleepers.set(sleepers).is_ok() {
            self.rouse();
        }
    }

    /// Wakes two of the helpers that have been given this; those wake more. To wake them all takes one
    /// thread longer than the work may take.
    pub fn rouse(&self) {
        let Some(sleepers) = self.sleepers.get() else { return };
        for _ in 0..2 {
            if self.woken.load(Ordering::Relaxed) >= sleepers.len() {
                return;
            }
            let number = self.woken.fetch_add(1, Ordering::Relaxed);
            if let Some(helper) = sleepers.get(number) {
                helper.wake();
            }
        }
    }

    /// Takes and runs tasks until none is left, or until it is to stop: first those of one lane,
    /// then those of the lanes behind it.
    pub fn work(&self, first: usize) {
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
    pub fn is_exhausted(&self) -> bool {
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
        for looks in 1..=2000 {
            if self.unfinished.load(Ordering::Acquire) == 0 {
                return;
            }
            super::pause(looks);
        }
        let mut done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        while !*done {
            if !stop::is_watched() {
                done = self.wake.wait(done).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            // A helper's task may be long and check too: ask for it, since helpers do not.
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
