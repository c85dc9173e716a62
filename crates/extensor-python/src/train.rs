//! What the training loop, which is Python's (`train/`), asks of the library.

use crate::error::{OrRaise, callback};
use pyo3::prelude::*;

/// Calls a function; the first operation in it that makes a NaN or an infinity of finite numbers
/// raises an exception that names it.
#[pyfunction]
pub fn call_watched<'py>(f: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let called = || f.call0().map_err(|error| callback("call_watched", error));
    extensor::debug::finite(called).or_raise()
}
