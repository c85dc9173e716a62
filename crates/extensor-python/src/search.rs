//! Functions whose results' shapes depend on the numbers.

use crate::function::{compute, tuple};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The indices of the elements that are not zero, one tensor for each axis.
#[pyfunction]
pub fn nonzero<'py>(py: Python<'py>, x: &PyTensor) -> PyResult<Bound<'py, PyTuple>> {
    let found = compute(py, usize::MAX, || extensor::ops::nonzero(&x.0))?;
    tuple(py, found)
}

/// The values, first indices, inverse and counts of the distinct elements.
#[pyfunction]
pub fn unique(py: Python<'_>, x: &PyTensor) -> PyResult<(PyTensor, PyTensor, PyTensor, PyTensor)> {
    let found = compute(py, usize::MAX, || extensor::ops::unique(&x.0))?;
    let extensor::ops::Unique { values, indices, inverse, counts } = found;
    Ok((PyTensor(values), PyTensor(indices), PyTensor(inverse), PyTensor(counts)))
}
