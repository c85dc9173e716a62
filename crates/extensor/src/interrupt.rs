//! Ending long work early.
//!
//! Whoever computes something long says whom to ask whether it is still wanted; the kernels ask, and
//! end with an error after a no. What was being computed is gone, what was there before is as it was.

use crate::{Error, Result};
use extensor_kernels::stop::{self, Stop};

/// Runs `f`. While it computes, `stop` is asked on this thread, about ten times a second, whether to
/// end; after a yes the operation under way, forward or backward, ends within some milliseconds with
/// [`Error::Interrupted`], and so does each that follows.
///
/// ```
/// use extensor::ops::{broadcast_to, sum};
/// use extensor::{DType, Error, Tensor, interrupt};
/// use std::time::{Duration, Instant};
///
/// let started = Instant::now();
/// let stop = || started.elapsed() > Duration::from_millis(100);
/// let one = Tensor::ones([1], DType::F32)?;
/// let found = interrupt::watch(&stop, || sum(&broadcast_to(&one, [1usize << 40])?, ..));
/// assert_eq!(found.unwrap_err(), Error::Interrupted);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn watch<T>(stop: &dyn Fn() -> bool, f: impl FnOnce() -> Result<T>) -> Result<T> {
    stop::watch(stop, || stoppable("watch", f))
}

/// Runs a part of `op`: that a kernel in it stopped is an error.
#[inline]
pub(crate) fn stoppable<T>(op: &'static str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let run = || {
        stop::check();
        f()
    };
    match stop::caught(run) {
        Ok(result) => result,
        Err(Stop::Interrupted) => Err(Error::Interrupted),
        Err(Stop::NoMemory(bytes)) => Err(Error::OutOfMemory { op, bytes }),
    }
}
