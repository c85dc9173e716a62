//! What is done to gradients between their computation and their use, over lists of tensors.
//!
//! Python takes trees apart and leaves buffers out (`gradients.py`).

use crate::autodiff::{list, tensors};
use crate::error::{OrRaise, released};
use crate::tensor::PyTensor;
use extensor::{Tensor, gradients};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The Euclidean norm of all tensors together.
#[pyfunction]
pub fn global_norm(py: Python<'_>, leaves: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    let leaves = tensors(leaves)?;
    released(py, || gradients::global_norm(&leaves)).map(PyTensor)
}

/// Whether every element of every tensor is finite.
#[pyfunction]
pub fn all_finite(py: Python<'_>, leaves: &Bound<'_, PyAny>) -> PyResult<bool> {
    let leaves = tensors(leaves)?;
    released(py, || gradients::all_finite(&leaves))
}

/// The tensors, scaled down together to a norm of at most `max_norm`, and the norm that was found.
#[pyfunction]
pub fn clip_grad_norm<'py>(
    py: Python<'py>,
    leaves: &Bound<'py, PyAny>,
    max_norm: f64,
) -> PyResult<(Bound<'py, PyList>, PyTensor)> {
    let leaves = tensors(leaves)?;
    let (clipped, norm) = released(py, || gradients::clip_grad_norm(&leaves, max_norm))?;
    Ok((list(py, &clipped)?, PyTensor(norm)))
}

/// The tensors with every element held within ±`max_value`.
#[pyfunction]
pub fn clip_grad_value<'py>(
    py: Python<'py>,
    leaves: &Bound<'py, PyAny>,
    max_value: f64,
) -> PyResult<Bound<'py, PyList>> {
    let leaves = tensors(leaves)?;
    list(py, &released(py, || gradients::clip_grad_value(&leaves, max_value))?)
}

/// Gradients of micro-batches, added up to those of the whole batch: a value.
#[pyclass(name = "Accumulator", module = "extensor._core", frozen)]
pub struct PyAccumulator(gradients::Accumulator<Vec<Tensor>>);

#[pymethods]
impl PyAccumulator {
    #[new]
    fn new() -> PyAccumulator {
        PyAccumulator(gradients::Accumulator::new())
    }

    /// With the mean gradients of another micro-batch, which counts `weight`.
    fn add(
        &self,
        py: Python<'_>,
        leaves: &Bound<'_, PyAny>,
        weight: f64,
    ) -> PyResult<PyAccumulator> {
        let (leaves, mut sum) = (tensors(leaves)?, self.0.clone());
        released(py, || sum.add(&leaves, weight).map(|()| sum)).map(PyAccumulator)
    }

    /// The mean gradients of all that was added; nothing of nothing.
    fn mean<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let mean = self.0.mean().or_raise()?;
        mean.map(|mean| list(py, &mean)).transpose()
    }
}
