//! Minimisers of Python functions of lists of tensors. This module must not know what is minimised.

use crate::autodiff::list;
use crate::error::{OrRaise, callback};
use crate::named::Named;
use crate::optim::Settings;
use crate::tensor::PyTensor;
use extensor::Tensor;
use extensor::optim::{self, Stop};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Calls a Python function of a list of tensors that returns one number.
fn function(op: &'static str, f: &Py<PyAny>, at: &Named) -> extensor::Result<Tensor> {
    let called = Python::attach(|py| -> PyResult<Tensor> {
        let value = f.bind(py).call1((list(py, at.leaves())?,))?;
        Ok(value.cast::<PyTensor>()?.get().0.clone())
    });
    called.map_err(|error| callback(op, error))
}

/// Minimises a function of a list of tensors: where it ended, and why.
#[pyfunction]
pub fn minimize<'py>(
    py: Python<'py>,
    name: &str,
    settings: &Bound<'py, PyDict>,
    f: Py<PyAny>,
    names: Vec<String>,
    leaves: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyDict>)> {
    let start = Named::of(names, leaves)?;
    let settings = Settings(settings);
    let found = match name {
        "lbfgs" => {
            let mut method = optim::Lbfgs::new();
            if let Some(n) = settings.get("history")? {
                method = method.history(n);
            }
            if let Some(n) = settings.get("tolerance")? {
                method = method.tolerance(n);
            }
            if let Some(n) = settings.get("max_iterations")? {
                method = method.max_iterations(n);
            }
            if let Some(n) = settings.get("max_evaluations")? {
                method = method.max_evaluations(n);
            }
            method.minimize(|at: &Named| function("lbfgs", &f, at), &start)
        }
        _ => {
            let mut method = optim::NewtonCg::new();
            if let Some(n) = settings.get("tolerance")? {
                method = method.tolerance(n);
            }
            if let Some(n) = settings.get("max_iterations")? {
                method = method.max_iterations(n);
            }
            if let Some(n) = settings.get("max_products")? {
                method = method.max_products(n);
            }
            method.minimize(|at: &Named| function("newton_cg", &f, at), &start)
        }
    };
    let found = found.or_raise()?;
    let about = PyDict::new(py);
    about.set_item("value", found.value)?;
    about.set_item("grad_norm", found.grad_norm)?;
    about.set_item("iterations", found.iterations)?;
    about.set_item("evaluations", found.evaluations)?;
    about.set_item("products", found.products)?;
    let stop = match found.stop {
        Stop::Converged => "converged",
        Stop::Iterations => "iterations",
        Stop::Evaluations => "evaluations",
        Stop::NoProgress => "no progress",
    };
    about.set_item("stop", stop)?;
    Ok((list(py, found.model.leaves())?, about))
}
