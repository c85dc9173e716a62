//! Functions whose results' shapes depend on the numbers, and questions that need none.

use crate::error::OrRaise;
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

/// A product on the way of an equation: the numbers of its terms, what it is as an equation, how many
/// multiplications it takes and how many elements it leaves.
type Step = (usize, usize, String, f64, f64);

/// The products that an equation's operands are multiplied by, how many multiplications these are, how many
/// they would be at once, and all of it in words.
#[pyfunction]
pub fn einsum_path(
    equation: &str,
    operands: &Bound<'_, PyTuple>,
) -> PyResult<(Vec<Step>, f64, f64, String)> {
    let operand = |item: Bound<'_, PyAny>| -> PyResult<extensor::Tensor> {
        Ok(item.cast_into::<PyTensor>()?.get().0.clone())
    };
    let operands = operands.iter().map(operand).collect::<PyResult<Vec<_>>>()?;
    let path = extensor::ops::einsum_path(equation, &operands).or_raise()?;
    let text = path.to_string();
    let steps = path.steps.into_iter();
    let steps = steps.map(|s| (s.terms[0], s.terms[1], s.equation, s.products, s.elements));
    Ok((steps.collect(), path.products, path.at_once, text))
}
