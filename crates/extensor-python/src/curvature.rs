//! Second derivatives of Python functions without the whole Hessian, and a penalty on gradients.
//!
//! As in `autodiff.rs`, functions take and return lists of tensors.

use crate::autodiff::{call, list, tensors};
use crate::error::{OrRaise, callback};
use crate::random::PyKey;
use crate::tensor::PyTensor;
use extensor::Tensor;
use extensor::autodiff;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

type Tensors = Vec<Tensor>;

/// Calls a Python function of a list of tensors that returns a list of one.
fn one(op: &'static str, f: &Bound<'_, PyAny>, args: &[Tensor]) -> extensor::Result<Tensor> {
    let mut found = call(op, f, args)?;
    if found.len() == 1 {
        return Ok(found.swap_remove(0));
    }
    let text = format!("{op}: the function returned {} tensors, expected one", found.len());
    Err(callback(op, PyTypeError::new_err(text)))
}

/// The second derivative by each element: exactly, or estimated from so many probes.
#[pyfunction]
#[pyo3(signature = (f, leaves, key = None, probes = 0))]
pub fn hessian_diagonal<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    leaves: &Bound<'py, PyAny>,
    key: Option<&PyKey>,
    probes: usize,
) -> PyResult<Bound<'py, PyList>> {
    let args = tensors(leaves)?;
    let run = |args: &Tensors| one("hessian_diagonal", f, args);
    let found = match key {
        Some(key) => autodiff::hessian_diagonal_probed(run, &args, key.0, probes),
        None => autodiff::hessian_diagonal(run, &args),
    };
    list(py, &found.or_raise()?)
}

/// The sum of the second derivatives by each element: exactly, or estimated from so many probes.
#[pyfunction]
#[pyo3(signature = (f, leaves, key = None, probes = 0))]
pub fn laplacian(
    f: &Bound<'_, PyAny>,
    leaves: &Bound<'_, PyAny>,
    key: Option<&PyKey>,
    probes: usize,
) -> PyResult<PyTensor> {
    let args = tensors(leaves)?;
    let run = |args: &Tensors| one("laplacian", f, args);
    let found = match key {
        Some(key) => autodiff::laplacian_probed(run, &args, key.0, probes),
        None => autodiff::laplacian(run, &args),
    };
    found.or_raise().map(PyTensor)
}

/// The product of `tangents` with the Gauss-Newton matrix of a model and a loss of its results.
#[pyfunction]
pub fn gauss_newton_vp<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    loss: &Bound<'py, PyAny>,
    leaves: &Bound<'py, PyAny>,
    tangents: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    const OP: &str = "gauss_newton_vp";
    let (args, along) = (tensors(leaves)?, tensors(tangents)?);
    let model = |args: &Tensors| call(OP, model, args);
    let loss = |results: &Tensors| one(OP, loss, results);
    list(py, &autodiff::gauss_newton_vp(model, loss, &args, &along).or_raise()?)
}

/// The product of `tangents` with the Fisher information of a model that gives logits.
#[pyfunction]
pub fn fisher_vp<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    leaves: &Bound<'py, PyAny>,
    tangents: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let (args, along) = (tensors(leaves)?, tensors(tangents)?);
    let model = |args: &Tensors| one("fisher_vp", model, args);
    list(py, &autodiff::fisher_vp(model, &args, &along).or_raise()?)
}

/// The mean over a batch of `(‖∇s‖ − norm)²`, where `∇s` is the gradient of an example's score.
#[pyfunction]
pub fn gradient_penalty(critic: &Bound<'_, PyAny>, x: &PyTensor, norm: f64) -> PyResult<PyTensor> {
    let critic = |x: &Tensor| one("gradient_penalty", critic, std::slice::from_ref(x));
    autodiff::gradient_penalty(critic, &x.0, norm).or_raise().map(PyTensor)
}
