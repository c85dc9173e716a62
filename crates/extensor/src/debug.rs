//! Finding where a number went wrong.
//!
//! This module is told of every call while someone looks, and must not know any operation.

use crate::ops::operation::{Operation, input_name};
use crate::tensor::unravel;
use crate::{Error, Result, Tensor};
use std::cell::Cell;
use std::panic::Location;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; the first operation in it, forward or backward, that makes a NaN or an infinity of
/// finite numbers is an error that names it, the output or gradient, the index, the value and the
/// caller's line.
///
/// Every result is looked at, which takes time: this is for finding a mistake, not for training.
///
/// ```
/// use extensor::ops::{divide, log, sum};
/// use extensor::{autodiff::grad, debug, tensor};
/// let x = tensor([4.0, 0.0]);
/// let error = debug::finite(|| grad(|x| sum(&log(x)?, ..), &x)).unwrap_err();
/// let text = error.to_string();
/// assert!(text.starts_with("log: its output is -inf at [1], from finite inputs"), "{text}");
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn finite<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCHED.with(|w| w.set(self.0));
        }
    }
    let _restore = Restore(WATCHED.with(|w| w.replace(true)));
    f()
}

/// Whether calls from this thread are watched.
#[inline]
pub(crate) fn watched() -> bool {
    WATCHED.with(Cell::get)
}

/// An error if there are no numbers to look at yet.
fn recorded<'a>(mut made: impl Iterator<Item = &'a Tensor>) -> Result<()> {
    if made.any(Tensor::is_recorded) { Err(Error::recorded("debug::finite")) } else { Ok(()) }
}

/// Looks at the outputs of a call.
#[cold]
pub(crate) fn outputs(
    op: &dyn Operation,
    inputs: &[&Tensor],
    outputs: &[Tensor],
    at: &'static Location<'static>,
) -> Result<()> {
    recorded(outputs.iter())?;
    if !inputs.iter().all(|x| first(x).is_none()) {
        return Ok(());
    }
    let one = outputs.len() == 1;
    for (k, y) in outputs.iter().enumerate() {
        let what = if one { "its output".to_string() } else { format!("its output {k}") };
        report(op, what, y, "inputs", at)?;
    }
    Ok(())
}

/// Looks at the gradients that a backward rule made.
#[cold]
pub(crate) fn gradients(
    op: &dyn Operation,
    given: [&[&Tensor]; 3],
    grads: &[Option<Tensor>],
    at: &'static Location<'static>,
) -> Result<()> {
    recorded(grads.iter().flatten())?;
    if !given.iter().copied().flatten().all(|x| first(x).is_none()) {
        return Ok(());
    }
    for (i, grad) in grads.iter().enumerate() {
        if let Some(grad) = grad {
            let what = format!("its gradient for {}", input_name(op.record(), i));
            report(op, what, grad, "inputs and gradients", at)?;
        }
    }
    Ok(())
}

fn report(
    op: &dyn Operation,
    what: String,
    x: &Tensor,
    of: &'static str,
    at: &'static Location<'static>,
) -> Result<()> {
    let Some((index, value)) = first(x) else {
        return Ok(());
    };
    let at = format!("{}:{}", at.file(), at.line());
    Err(Error::NotFinite { op: op.record().name, what, index, value, of, at })
}

/// The first element that is not finite.
fn first(x: &Tensor) -> Option<(Vec<usize>, f64)> {
    if !x.dtype().is_float() {
        return None;
    }
    // Along an axis of one element seen many times the first stands for all.
    let x = x.bare();
    let mut once = x.layout().clone();
    for (axis, &stride) in x.strides().iter().enumerate() {
        if stride == 0 {
            once.shape.set(axis, once.shape[axis].min(1));
        }
    }
    let x = &x.with_layout(once);
    let values = x.to_f64_vec();
    let at = values.iter().position(|v| !v.is_finite())?;
    Some((unravel(at, x.shape()), values[at]))
}
