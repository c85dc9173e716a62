//! The helpers: threads that wait for work, and how it reaches them.
//!
//! A helper that has nothing to do watches a slot of its own, into which a caller puts a job: fifteen
//! threads that want the same lock take longer to get it in turn than small work takes. A job that
//! finds too few helpers free is put in a queue, where helpers look when they are done with another.

use super::job::Job;
use super::{MAX_THREADS, OVERRIDE};
use crate::stop::Watch;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;

/// How often an idle helper looks for work before it sleeps: operations follow each other closely.
const LOOKS: usize = 4000;

thread_local! {
    /// The number of the helper that this thread is; 0: none.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// A helper, on a cache line of its own.
#[repr(align(64))]
pub(super) struct Helper {
    /// A state, or a job that it was given and has not seen yet.
    slot: AtomicPtr<Job>,
    thread: OnceLock<Thread>,
}

/// At work, or not yet there; looking for work; asleep: states of a [`Helper`], never addresses of jobs.
const BUSY: *mut Job = ptr::null_mut();
const IDLE: *mut Job = ptr::without_provenance_mut(1);
const ASLEEP: *mut Job = ptr::without_provenance_mut(2);

struct Pool {
    helpers: [Helper; MAX_THREADS],
    /// How many helpers there are; number `k` is at `k - 1`.
    count: AtomicUsize,
    /// Held while helpers are added.
    adding: Mutex<()>,
    /// Jobs that want more helpers than were free, and how many.
    queue: Mutex<VecDeque<Arc<Job>>>,
    queued: AtomicUsize,
}

static POOL: Pool = Pool {
    helpers: [const { Helper { slot: AtomicPtr::new(BUSY), thread: OnceLock::new() } };
        MAX_THREADS],
    count: AtomicUsize::new(0),
    adding: Mutex::new(()),
    queue: Mutex::new(VecDeque::new()),
    queued: AtomicUsize::new(0),
};

/// Asks so many helpers to join in a job.
pub(super) fn post(job: &Arc<Job>, wanted: usize) {
    if POOL.count.load(Ordering::Acquire) < wanted {
        add(wanted.min(MAX_THREADS));
    }
    let helpers = &POOL.helpers[..POOL.count.load(Ordering::Acquire)];
    let (mut missing, mut sleepers) = (wanted, Vec::new());
    // From the next on, so that a helper has the lane of its number again and again.
    let next = NUMBER.get().min(helpers.len());
    for helper in helpers[next..].iter().chain(&helpers[..next]) {
        if missing == 0 {
            break;
        }
        if let Some(asleep) = helper.give(job) {
            missing -= 1;
            if asleep {
                sleepers.push(helper);
            }
        }
    }
    job.rouse_all(sleepers);
    if missing > 0 {
        job.seats.store(missing, Ordering::Relaxed);
        let mut queue = POOL.queue.lock().unwrap_or_else(|e| e.into_inner());
        queue.push_back(job.clone());
        POOL.queued.store(queue.len(), Ordering::Release);
    }
}

/// Adds helpers until there are `wanted`.
#[cold]
fn add(wanted: usize) {
    let _adding = POOL.adding.lock().unwrap_or_else(|e| e.into_inner());
    while POOL.count.load(Ordering::Relaxed) < wanted {
        let number = POOL.count.load(Ordering::Relaxed) + 1;
        let helper = &POOL.helpers[number - 1];
        let spawned = std::thread::Builder::new().name("extensor".into()).spawn(move || {
            NUMBER.set(number);
            helper.help(number);
        });
        // A machine that gives no more threads still does the work with those it has.
        let Ok(spawned) = spawned else { break };
        let thread = spawned.thread().clone();
        assert!(helper.thread.set(thread).is_ok(), "a helper is added once");
        POOL.count.store(number, Ordering::Release);
    }
}

impl Helper {
    /// Gives it a job, if it has none: whether it sleeps.
    fn give(&self, job: &Arc<Job>) -> Option<bool> {
        let state = self.slot.load(Ordering::Relaxed);
        if state != IDLE && state != ASLEEP {
            return None;
        }
        let given = Arc::into_raw(job.clone()).cast_mut();
        match self.slot.compare_exchange(state, given, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Some(state == ASLEEP),
            Err(_) => {
                // SAFETY: from `into_raw` above, and nobody has seen it.
                drop(unsafe { Arc::from_raw(given) });
                None
            }
        }
    }

    /// Wakes it, if it sleeps.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// What a helper thread does all its life.
    fn help(&self, number: usize) {
        loop {
            let job = self.next();
            job.rouse();
            OVERRIDE.with(|o| o.set(job.threads));
            Watch::shared(job.watch.clone(), || job.work(number));
        }
    }

    /// The next job, once there is one.
    fn next(&self) -> Arc<Job> {
        loop {
            if let Some(job) = queued() {
                return job;
            }
            self.slot.store(IDLE, Ordering::Release);
            let mut looks = 0;
            while self.slot.load(Ordering::Relaxed) == IDLE
                && POOL.queued.load(Ordering::Relaxed) == 0
            {
                looks += 1;
                if looks > LOOKS && self.becomes(IDLE, ASLEEP) {
                    while self.slot.load(Ordering::Relaxed) == ASLEEP {
                        std::thread::park();
                    }
                }
                super::pause(looks);
            }
            let given = self.slot.swap(BUSY, Ordering::Acquire);
            if given != IDLE {
                // SAFETY: a state other than these is an address from `into_raw`, which is taken out
                // once; only this thread puts a state in.
                return unsafe { Arc::from_raw(given) };
            }
        }
    }

    fn becomes(&self, from: *mut Job, to: *mut Job) -> bool {
        self.slot.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// A job from the queue that wants a helper. Those that want none any more go.
fn queued() -> Option<Arc<Job>> {
    if POOL.queued.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut queue = POOL.queue.lock().unwrap_or_else(|e| e.into_inner());
    while let Some(job) = queue.front().cloned() {
        let seats = if job.is_exhausted() { 0 } else { job.seats.load(Ordering::Relaxed) };
        if seats <= 1 {
            queue.pop_front();
            POOL.queued.store(queue.len(), Ordering::Release);
        }
        if seats > 0 {
            job.seats.store(seats - 1, Ordering::Relaxed);
            return Some(job);
        }
    }
    None
}
