//! Compiled functions: what Python takes apart and gives a name (`_compile.py`), recorded and run.
//!
//! Arguments and results are lists of tensors and of keys. This module must not know trees.

use crate::autodiff::{Saved, list, tensors};
use crate::error::{callback, in_python, released};
use crate::random::PyKey;
use crate::tensor::PyTensor;
use extensor::compile::{self, Compiled};
use extensor::{Key, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

type Arguments = (Vec<Tensor>, Vec<Key>);
type Results = (Arguments, Saved);
type Recorded = Box<dyn Fn(&Arguments) -> extensor::Result<Results> + Send + Sync>;

/// A function of tensors and keys for arguments of one kind, recorded when it is first called.
#[pyclass(name = "Program", module = "extensor._core", frozen)]
pub struct PyProgram(Compiled<Arguments, Results, Recorded>);

pub fn keys(list: &Bound<'_, PyList>) -> PyResult<Vec<Key>> {
    list.iter().map(|key| Ok(key.cast::<PyKey>()?.get().0)).collect()
}

pub fn key_list<'py>(py: Python<'py>, keys: &[Key]) -> PyResult<Bound<'py, PyList>> {
    let all: Vec<_> =
        keys.iter().map(|key| Bound::new(py, PyKey(*key))).collect::<PyResult<_>>()?;
    PyList::new(py, all)
}

#[pymethods]
impl PyProgram {
    /// Of a function that takes a list of tensors and a list of keys, and returns two such lists and
    /// anything else, which each run returns too.
    #[new]
    fn new(f: Py<PyAny>) -> PyProgram {
        let called = move |(given, keys): &Arguments| {
            Python::attach(|py| -> PyResult<Results> {
                type Three<'py> = (Bound<'py, PyAny>, Bound<'py, PyList>, Bound<'py, PyAny>);
                let given = (list(py, given)?, key_list(py, keys)?);
                let (made, keys, rest): Three<'_> = f.bind(py).call1(given)?.extract()?;
                Ok(((tensors(&made)?, self::keys(&keys)?), Saved(rest.unbind())))
            })
            .map_err(|error| callback("compile", error))
        };
        PyProgram(compile::compile(Box::new(called)))
    }

    fn __call__<'py>(
        &self,
        py: Python<'py>,
        given: &Bound<'py, PyList>,
        keys: &Bound<'py, PyList>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>, Py<PyAny>)> {
        let arguments = (tensors(given)?, self::keys(keys)?);
        let ((made, keys), rest) = released(py, || self.0.call(&arguments))?;
        Ok((list(py, &made)?, key_list(py, &keys)?, rest.0))
    }

    /// The kernels, their formulas, what they read and write, and how much memory they need.
    fn explain(&self, py: Python<'_>) -> String {
        in_python(&py.detach(|| self.0.explain()))
    }

    /// The kernels as boxes and the values that go from one to another as lines, as SVG.
    fn graph(&self, py: Python<'_>) -> String {
        in_python(&py.detach(|| self.0.graph()))
    }
}

/// The dtypes and shapes of tensors, as bytes that differ where these do; nothing if one of the tensors
/// or keys is being differentiated or recorded.
#[pyfunction]
pub fn signature<'py>(
    py: Python<'py>,
    given: &Bound<'py, PyList>,
    keys: &Bound<'py, PyList>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    for key in keys.iter() {
        let key = key.cast::<PyKey>()?.get().0;
        if key.is_recorded() || key.is_mapped() {
            return Ok(None);
        }
    }
    let mut bytes = Vec::with_capacity(24 * given.len());
    for item in given.iter() {
        let x = &item.cast::<PyTensor>()?.get().0;
        if x.is_traced() || x.is_recorded() {
            return Ok(None);
        }
        bytes.push(x.dtype() as u8);
        bytes.extend_from_slice(&x.ndim().to_le_bytes());
        bytes.extend(x.shape().iter().flat_map(|n| n.to_le_bytes()));
    }
    Ok(Some(PyBytes::new(py, &bytes)))
}
