//! What the training loop, which is Python's (`train/`), asks of the library.

use crate::error::{OrRaise, callback};
use extensor::train::metrics::{JsonLines, Value};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Calls a function; the first operation in it that makes a NaN or an infinity of finite numbers
/// raises an exception that names it.
#[pyfunction]
pub fn call_watched<'py>(f: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let called = || f.call0().map_err(|error| callback("call_watched", error));
    extensor::debug::finite(called).or_raise()
}

/// A file of records, one to a line: `{"step":7,"loss":0.25}`.
#[pyclass(name = "JsonLines", module = "extensor.train", frozen)]
pub struct PyJsonLines(Mutex<JsonLines>);

#[pymethods]
impl PyJsonLines {
    /// A new file, or that of a run that goes on after `step`: later records are cut off.
    #[new]
    #[pyo3(signature = (path, step = None))]
    fn new(path: PathBuf, step: Option<u64>) -> PyResult<PyJsonLines> {
        let lines = match step {
            Some(step) => JsonLines::resume(&path, step),
            None => JsonLines::create(&path),
        };
        Ok(PyJsonLines(Mutex::new(lines.or_raise()?)))
    }

    /// Appends a record and hands it to the system before it returns.
    fn write(&self, py: Python<'_>, step: u64, values: Vec<(String, f64)>) -> PyResult<()> {
        let values: Vec<(&str, Value)> =
            values.iter().map(|(name, value)| (name.as_str(), (*value).into())).collect();
        let write = || self.0.lock().unwrap_or_else(PoisonError::into_inner).write(step, &values);
        py.detach(write).or_raise()
    }
}
