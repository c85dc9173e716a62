//! Ending early: a kernel that is told to stop, or finds no memory to work in, unwinds to
//! [`caught`], which the library puts around every operation. Nobody sees half a result.
//!
//! Whether to stop is asked by [`watch`]: its thread, and the helpers that work for it, check between
//! tasks ([`check`]). Without a watch a check reads one flag. Unwinding goes without a
//! panic's message, and not through anything that was not made for it: kernels hold no locks while
//! they work, and the memory they write is initialised at all times.

use crate::buffer::affordable;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Why a kernel ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Somebody who [watches](watch) said so.
    Interrupted,
    /// There is no memory for so many bytes.
    NoMemory(usize),
}

/// How long a question whether to stop stays answered.
const PATIENCE: Duration = Duration::from_millis(100);

/// A watch as a thread sees it that works under it.
pub(crate) struct Watch {
    /// Set once the answer was yes.
    stopped: Arc<AtomicBool>,
    /// Whom to ask, on the thread that watches; the helpers only read the flag.
    ask: Option<*const dyn Fn() -> bool>,
    asked: Cell<Instant>,
}

thread_local! {
    /// Whether there is a watch: what a check costs where there is none.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static CURRENT: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Puts back the watch that was there before, whatever happens.
struct Restore(Option<Watch>);

impl Drop for Restore {
    fn drop(&mut self) {
        set(self.0.take());
    }
}

fn set(watch: Option<Watch>) -> Option<Watch> {
    WATCHED.with(|watched| watched.set(watch.is_some()));
    CURRENT.with(|current| current.replace(watch))
}

/// Runs `f`; while it works, `ask` is asked on this thread about ten times a second whether to stop. After a
/// yes the kernels that `f` calls end early, with [`Stop::Interrupted`].
pub fn watch<R>(ask: &dyn Fn() -> bool, f: impl FnOnce() -> R) -> R {
    let ask: *const (dyn Fn() -> bool + '_) = ask;
    // SAFETY: only the lifetime is changed. The pointer is in this thread's watch alone, which
    // `Restore` takes away before `watch`, and with it the borrow of `ask`, ends.
    let ask: *const (dyn Fn() -> bool + 'static) = unsafe { std::mem::transmute(ask) };
    let stopped = Arc::new(AtomicBool::new(false));
    let watch = Watch { stopped, ask: Some(ask), asked: Cell::new(Instant::now()) };
    let _restore = Restore(set(Some(watch)));
    f()
}

impl Watch {
    /// The watch that this thread works under, as a helper sees it; what it holds may cross threads.
    pub(crate) fn to_share() -> Option<Arc<AtomicBool>> {
        if !WATCHED.with(Cell::get) {
            return None;
        }
        CURRENT.with(|current| current.borrow().as_ref().map(|watch| watch.stopped.clone()))
    }

    /// Runs `f` on a helper under a watch that another thread shared, or under none.
    pub(crate) fn shared<R>(stopped: Option<Arc<AtomicBool>>, f: impl FnOnce() -> R) -> R {
        let watch = |stopped| Watch { stopped, ask: None, asked: Cell::new(Instant::now()) };
        let _restore = Restore(set(stopped.map(watch)));
        f()
    }
}

/// Whether this thread works under a watch.
#[inline]
pub(crate) fn is_watched() -> bool {
    WATCHED.with(Cell::get)
}

/// Whether work on this thread should stop.
#[inline]
pub(crate) fn is_wanted() -> bool {
    is_watched() && asked()
}

#[cold]
fn asked() -> bool {
    // Nothing stays borrowed while somebody is asked, who may compute, and check, too.
    let due = CURRENT.with(|current| {
        let current = current.borrow();
        let watch = current.as_ref()?;
        if watch.stopped.load(Ordering::Relaxed) {
            return Some((watch.stopped.clone(), None));
        }
        let ask = watch.ask.filter(|_| watch.asked.get().elapsed() >= PATIENCE)?;
        watch.asked.set(Instant::now());
        Some((watch.stopped.clone(), Some(ask)))
    });
    match due {
        None => false,
        Some((_, None)) => true,
        Some((stopped, Some(ask))) => {
            // SAFETY: `watch` has not returned, so what it borrows is there.
            let stop = unsafe { (*ask)() };
            stopped.fetch_or(stop, Ordering::Relaxed);
            stop
        }
    }
}

/// Ends what this thread is at if it should stop; to be called between pieces of work that take
/// milliseconds.
#[inline]
pub fn check() {
    if is_wanted() {
        raise(Stop::Interrupted);
    }
}

/// Unwinds to [`caught`].
#[cold]
pub(crate) fn raise(stop: Stop) -> ! {
    resume_unwind(Box::new(stop))
}

/// Ends what this thread is at for want of so many bytes.
#[cold]
pub(crate) fn no_memory(bytes: usize) -> ! {
    raise(Stop::NoMemory(bytes))
}

/// Runs `f`; what stopped it, if something did. A panic goes on.
#[inline]
pub fn caught<R>(f: impl FnOnce() -> R) -> Result<R, Stop> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| match payload.downcast::<Stop>() {
        Ok(stop) => *stop,
        Err(panic) => resume_unwind(panic),
    })
}

/// `vec![value; len]` to work in. Where there is no memory for it this stops; it does not abort.
#[inline]
pub fn room<T: Clone>(value: T, len: usize) -> Vec<T> {
    let bytes = len.saturating_mul(size_of::<T>());
    if !affordable(bytes) {
        raise(Stop::NoMemory(bytes));
    }
    if bytes <= AT_ONCE {
        return vec![value; len];
    }
    let mut room = Vec::with_capacity(len);
    let piece = AT_ONCE / size_of::<T>().max(1);
    while room.len() < len {
        check();
        room.resize(len.min(room.len() + piece), value.clone());
    }
    room
}

/// Bytes that are written before looking whether to go on.
const AT_ONCE: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par::{parallel_for, with_threads};
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn work_ends_soon_after_the_answer_is_yes_on_any_number_of_threads() {
        for threads in [1, 2, 4] {
            let (done, started) = (AtomicUsize::new(0), Instant::now());
            let ask = || started.elapsed() > Duration::from_millis(50);
            let work = |_: usize| {
                done.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            };
            let run = || with_threads(threads, || parallel_for(1 << 40, &work));
            assert_eq!(watch(&ask, || caught(run)), Err(Stop::Interrupted));
            assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
            assert!(done.load(Ordering::Relaxed) > 10);
            // The watch is over: nothing stops any more.
            assert_eq!(caught(|| parallel_for(100, &|_| ())), Ok(()));
        }
    }

    #[test]
    fn a_long_task_within_a_task_is_stopped_on_the_helper_that_runs_it() {
        let started = Instant::now();
        let ask = || started.elapsed() > Duration::from_millis(50);
        let inner = |_: usize| std::thread::sleep(Duration::from_millis(1));
        let outer = |_: usize| parallel_for(1 << 40, &inner);
        let run = || with_threads(3, || parallel_for(3, &outer));
        assert_eq!(watch(&ask, || caught(run)), Err(Stop::Interrupted));
        assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    }

    #[test]
    fn whoever_is_not_watched_is_not_asked_and_a_panic_is_not_a_stop() {
        assert_eq!(caught(check), Ok(()));
        let panicked = catch_unwind(|| caught(|| panic!("mine")));
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"mine"));
    }

    #[test]
    fn room_that_no_machine_has_is_a_stop_and_not_an_abort() {
        assert_eq!(caught(|| room(1.0f32, 1 << 60)), Err(Stop::NoMemory(1 << 62)));
        assert_eq!(caught(|| room(1u64, usize::MAX)), Err(Stop::NoMemory(usize::MAX)));
        assert_eq!(caught(|| room(7u8, 3)), Ok(vec![7; 3]));
    }
}
