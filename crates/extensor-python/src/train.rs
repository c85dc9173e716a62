//! What the training loop, which is Python's (`train/`), asks of the library.

use crate::error::{OrRaise, callback, released};
use extensor::precision::{LossScale, Policy};
use extensor::train::Claim;
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

/// A folder that is this process's to train in, until it is released or the process ends.
#[pyclass(name = "Claim", module = "extensor.train", frozen)]
pub struct PyClaim(Mutex<Option<Claim>>);

#[pymethods]
impl PyClaim {
    #[new]
    fn new(folder: PathBuf) -> PyResult<PyClaim> {
        Ok(PyClaim(Mutex::new(Some(Claim::on(folder).or_raise()?))))
    }

    /// Lets others have the folder.
    fn release(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A factor on the loss, so that gradients too small for float16 are not rounded to 0: halved whenever a
/// gradient overflows, and doubled after `interval` steps in which none did (0: never, it is fixed).
///
/// >>> from extensor import train
/// >>> scale = train.LossScale(1024.0, interval=2)
/// >>> scale.after(False).value, scale.after(True).after(True).value
/// (512.0, 2048.0)
#[pyclass(name = "LossScale", module = "extensor.train", frozen, eq)]
#[derive(PartialEq)]
pub struct PyLossScale(LossScale);

#[pymethods]
impl PyLossScale {
    #[new]
    #[pyo3(signature = (scale = 65536.0, interval = 200))]
    fn new(scale: f64, interval: u32) -> PyResult<PyLossScale> {
        let made = match interval {
            0 => LossScale::fixed(scale),
            interval => LossScale::dynamic(scale, interval),
        };
        made.or_raise().map(PyLossScale)
    }

    /// The scale that arithmetic in a dtype needs: a dynamic one in float16, 1 in any other.
    #[staticmethod]
    fn needed_by(dtype: &Bound<'_, PyAny>) -> PyResult<PyLossScale> {
        let policy = Policy::mixed(crate::dtype::from_object(dtype)?);
        Ok(PyLossScale(policy.loss_scale()))
    }

    /// The factor.
    #[getter]
    fn value(&self) -> f64 {
        self.0.value()
    }

    /// The steps without overflow since the scale last changed.
    #[getter]
    fn steps(&self) -> u32 {
        self.0.steps()
    }

    /// The scale for the next step, after one whose gradients were finite or not.
    fn after(&self, finite: bool) -> PyLossScale {
        PyLossScale(self.0.after(finite))
    }

    /// The same kind of scale at this value, after so many steps without overflow.
    fn resume(&self, scale: f64, steps: u32) -> PyResult<PyLossScale> {
        self.0.resume(scale, steps).or_raise().map(PyLossScale)
    }

    /// After how many steps without overflow the scale is doubled; 0 if it is fixed.
    #[getter]
    fn interval(&self) -> u32 {
        self.0.interval()
    }

    fn __repr__(&self) -> String {
        format!("LossScale({:?}, interval={})", self.0.value(), self.0.interval())
    }

    #[allow(clippy::type_complexity)]
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (f64, u32, u32))> {
        let made = slf.py().import("extensor._core")?.getattr("loss_scale_at")?;
        let scale = &slf.get().0;
        Ok((made.unbind(), (scale.value(), scale.interval(), scale.steps())))
    }
}

/// A scale of the loss after so many steps without overflow, for `pickle`.
#[pyfunction]
pub fn loss_scale_at(scale: f64, interval: u32, steps: u32) -> PyResult<PyLossScale> {
    let begun = PyLossScale::new(scale, interval)?;
    begun.resume(scale, steps)
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
        released(py, write)
    }
}
