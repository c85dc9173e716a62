//! Errors as exceptions: the same sentence, in the class that Python people expect.
//!
//! It must not know which operation failed beyond what the error says.

use crate::dtype::python_name;
use extensor::{DType, Error};
use pyo3::exceptions::{
    PyFloatingPointError, PyIndexError, PyKeyboardInterrupt, PyMemoryError, PyNotImplementedError,
    PyOSError, PyRuntimeError, PyTypeError, PyValueError, PyZeroDivisionError,
};
use pyo3::prelude::*;
use std::cell::{OnceCell, RefCell};

thread_local! {
    /// What a Python function raised while Rust code was calling it.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// What the handler of a signal raised during a computation.
    static SIGNALLED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// Whether this is the thread on which Python handles signals.
    static HANDLES_SIGNALS: OnceCell<bool> = const { OnceCell::new() };
}

/// Computes with the interpreter released. A signal that arrives meanwhile is handled, as between two
/// lines of Python; an exception of its handler, such as KeyboardInterrupt, ends the computation.
pub fn released<T: Send>(
    py: Python<'_>,
    f: impl FnOnce() -> extensor::Result<T> + Send,
) -> PyResult<T> {
    let main = HANDLES_SIGNALS.with(|main| *main.get_or_init(|| handles_signals(py)));
    if !main {
        return py.detach(f).map_err(exception);
    }
    let result = py.detach(|| extensor::interrupt::watch(&signalled, f));
    // It counts also where the computation was over before it could be ended.
    match SIGNALLED.take() {
        Some(raised) => Err(raised),
        None => result.map_err(exception),
    }
}

fn handles_signals(py: Python<'_>) -> bool {
    let found = || -> PyResult<bool> {
        let threading = py.import("threading")?;
        Ok(threading.call_method0("main_thread")?.is(&threading.call_method0("current_thread")?))
    };
    found().unwrap_or(false)
}

/// Whether a signal's handler raised an exception, which waits until the computation has ended.
fn signalled() -> bool {
    let raised = Python::attach(|py| py.check_signals().err());
    let stop = raised.is_some();
    if stop {
        SIGNALLED.set(raised);
    }
    stop
}

/// An error unless the machine has so much memory: for what is made of objects, not of tensors.
pub fn expect_memory(op: &'static str, bytes: usize) -> PyResult<()> {
    match extensor::memory::affordable(bytes) {
        true => Ok(()),
        false => Err(exception(Error::OutOfMemory { op, bytes })),
    }
}

/// What Rust code is told when a Python function that it calls raises: the exception waits until
/// the error has come back to Python.
pub fn callback(op: &'static str, error: PyErr) -> Error {
    let message = error.to_string();
    RAISED.with(|raised| *raised.borrow_mut() = Some(error));
    Error::Callback { op, message }
}

/// The exception for an error.
pub fn exception(error: Error) -> PyErr {
    if matches!(error, Error::Callback { .. })
        && let Some(raised) = RAISED.with(|raised| raised.borrow_mut().take())
    {
        return raised;
    }
    let text = in_python(&error.to_string());
    // The line is that of this crate; Python has its own, in the traceback.
    let text = match &error {
        Error::NotFinite { at, .. } => text.replace(&format!("; called at {at}"), ""),
        _ => text,
    };
    let text = match &error {
        Error::Recorded { at, .. } => recorded(&text, &format!("at {at}")),
        _ => text,
    };
    match error {
        Error::DType { .. }
        | Error::MixedDTypes { .. }
        | Error::Inputs { .. }
        | Error::UnknownParameter { .. }
        | Error::NotDifferentiable { .. }
        | Error::Traced { .. }
        | Error::Mapped { .. }
        | Error::Recorded { .. } => PyTypeError::new_err(text),
        Error::IndexOutOfRange { .. }
        | Error::ClassOutOfRange { .. }
        | Error::AxisOutOfRange { .. } => PyIndexError::new_err(text),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(text),
        Error::Interrupted => PyKeyboardInterrupt::new_err(text),
        Error::NotFinite { .. } => PyFloatingPointError::new_err(text),
        Error::DivisionByZero { .. } => PyZeroDivisionError::new_err(text),
        Error::UnknownOperation { .. } => PyNotImplementedError::new_err(text),
        Error::File { .. } => PyOSError::new_err(text),
        Error::Rank { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The sentence with the line of the caller's code that cannot be recorded, and Python's names.
fn recorded(text: &str, here: &str) -> String {
    let text = text.replace("where_ instead of if", "extensor.where instead of if");
    let line = Python::attach(|py| -> PyResult<Option<String>> {
        py.import("extensor._exchange")?.call_method0("caller")?.extract()
    });
    match line {
        Ok(Some(line)) => text.replace(here, &line),
        _ => text.replace(&format!(" ({here})"), ""),
    }
}

/// The sentence with Python's names of dtypes.
pub fn in_python(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word);
        said.push_str(DType::from_name(word).map_or(word, |d| python_name(d)));
        let mut letters = after.chars();
        said.extend(letters.next());
        rest = letters.as_str();
    }
    said
}

/// Results whose error becomes an exception.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for extensor::Result<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(exception)
    }
}
