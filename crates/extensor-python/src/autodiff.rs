//! Automatic differentiation of Python functions.
//!
//! Trees are taken apart in Python (`_tree.py`): here a function takes a list of tensors and returns
//! lists of tensors. What a function raises comes back as it was raised.

use crate::compile;
use crate::error::{OrRaise, callback, expect_memory, released};
use crate::tensor::PyTensor;
use extensor::autodiff::{self, MapAxes, Path, Tree, VmapOptions};
use extensor::{Key, Tensor};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;

type Tensors = Vec<Tensor>;

/// The tensors of a list.
pub fn tensors(list: &Bound<'_, PyAny>) -> PyResult<Tensors> {
    let mut all = Vec::new();
    for item in crate::convert::items(list)? {
        match item.cast::<PyTensor>() {
            Ok(tensor) => all.push(tensor.get().0.clone()),
            Err(_) => {
                let text = format!("expected a tensor, not {}", item.get_type().name()?);
                return Err(PyTypeError::new_err(text));
            }
        }
    }
    Ok(all)
}

/// A list of tensors.
pub fn list<'py>(py: Python<'py>, all: &[Tensor]) -> PyResult<Bound<'py, PyList>> {
    let all: Vec<_> =
        all.iter().map(|x| Bound::new(py, PyTensor(x.clone()))).collect::<PyResult<_>>()?;
    PyList::new(py, all)
}

/// Calls a Python function of a list of tensors that returns a list of them.
pub fn call(op: &'static str, f: &Bound<'_, PyAny>, args: &[Tensor]) -> extensor::Result<Tensors> {
    let py = f.py();
    let called = || -> PyResult<Tensors> { tensors(&f.call1((list(py, args)?,))?) };
    called().map_err(|error| callback(op, error))
}

/// An error unless there is memory for a Jacobian of so many elements, and for the rows that it is put
/// together of.
#[pyfunction]
pub fn expect_room_for_jacobian(rows: usize, columns: usize, itemsize: usize) -> PyResult<()> {
    let elements = rows.saturating_mul(columns).saturating_mul(2);
    expect_memory("jacobian", elements.saturating_mul(itemsize))
}

/// The linear map from gradients of a function's results to gradients of its arguments.
#[pyclass(module = "extensor", frozen)]
pub struct Pullback(autodiff::Pullback<Tensors, Tensors>);

#[pymethods]
impl Pullback {
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        cotangents: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let cotangents = tensors(cotangents)?;
        let grads = released(py, || self.0.call(&cotangents))?;
        list(py, &grads)
    }

    /// Which arguments the results do not depend on, by number.
    fn unused(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        released(py, || self.0.unused())
    }
}

/// `f(leaves)`, which returns two lists: results, and what is not differentiated.
#[pyfunction]
pub fn vjp<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    leaves: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyList>, Pullback, Bound<'py, PyList>)> {
    let args = tensors(leaves)?;
    let run = |args: &Tensors| -> extensor::Result<(Tensors, Tensors)> {
        let called = || -> PyResult<(Tensors, Tensors)> {
            let (outputs, aux): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                f.call1((list(py, args)?,))?.extract()?;
            Ok((tensors(&outputs)?, tensors(&aux)?))
        };
        called().map_err(|error| callback("vjp", error))
    };
    let (outputs, pullback, aux) = autodiff::vjp_with_aux(run, &args).or_raise()?;
    Ok((list(py, &outputs)?, Pullback(pullback), list(py, &aux)?))
}

/// The value, the gradients and the auxiliary tensors of `f(leaves)`, of which the first result is one
/// number.
#[pyfunction]
pub fn value_and_grad<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    leaves: &Bound<'py, PyAny>,
) -> PyResult<(PyTensor, Bound<'py, PyList>, Bound<'py, PyList>)> {
    let args = tensors(leaves)?;
    let run = |args: &Tensors| -> extensor::Result<(Tensor, Tensors)> {
        let called = || -> PyResult<(Tensor, Tensors)> {
            let (value, aux): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                f.call1((list(py, args)?,))?.extract()?;
            let value = value.cast::<PyTensor>().map_err(|_| {
                let class = value.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
                PyTypeError::new_err(format!(
                    "grad: the function returned {class}, expected a 0-d tensor"
                ))
            })?;
            Ok((value.get().0.clone(), tensors(&aux)?))
        };
        called().map_err(|error| callback("grad", error))
    };
    let (value, pullback, aux) = autodiff::vjp_with_aux(run, &args).or_raise()?;
    let grads = released(py, || {
        let (op, argument) = ("grad", "the function's result");
        if !value.shape().is_empty() {
            let (expected, got) = ("[], one number".into(), value.shape().clone());
            return Err(extensor::Error::Shape { op, argument, expected, got });
        }
        if !value.dtype().is_float() {
            let (expected, got) = ("a float type (f16, bf16, f32, f64)", value.dtype());
            return Err(extensor::Error::DType { op, argument, expected, got });
        }
        let one = Tensor::scalar_of(1.0, value.dtype())?;
        pullback.call_once(&one)
    })?;
    Ok((PyTensor(value), list(py, &grads)?, list(py, &aux)?))
}

/// The results of `f(leaves)` and their derivatives along the tangents.
#[pyfunction]
pub fn jvp<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    leaves: &Bound<'py, PyAny>,
    tangents: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
    let (args, along) = (tensors(leaves)?, tensors(tangents)?);
    let (outputs, derivatives) =
        autodiff::jvp(|args: &Tensors| call("jvp", f, args), &args, &along).or_raise()?;
    Ok((list(py, &outputs)?, list(py, &derivatives)?))
}

/// What `f(leaves, keys)`, a function of one example that returns its results and the axis of each that
/// the examples are to be, gives for the examples along the axes of the leaves.
#[pyfunction]
pub fn vmap<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    leaves: &Bound<'py, PyAny>,
    keys: &Bound<'py, PyList>,
    axes: Vec<Option<i64>>,
    size: Option<usize>,
) -> PyResult<Bound<'py, PyList>> {
    let args = (tensors(leaves)?, compile::keys(keys)?);
    let run = |(args, keys): &(Tensors, Vec<Key>)| -> extensor::Result<(Tensors, MapAxes)> {
        let called = || -> PyResult<(Tensors, Vec<Option<i64>>)> {
            let (outputs, axes): (Bound<'_, PyAny>, Vec<Option<i64>>) =
                f.call1((list(py, args)?, compile::key_list(py, keys)?))?.extract()?;
            Ok((tensors(&outputs)?, axes))
        };
        let (outputs, axes) = called().map_err(|error| callback("vmap", error))?;
        Ok((outputs, axes.into()))
    };
    let options = VmapOptions { size, ..VmapOptions::new().in_axes(axes) };
    let outputs = autodiff::vmap_to(run, &args, options).or_raise()?;
    list(py, &outputs)
}

/// The same tensor, at which differentiation ends.
#[pyfunction]
pub fn stop_gradient(x: &PyTensor) -> PyTensor {
    PyTensor(autodiff::stop_gradient(&x.0))
}

/// `f(leaves)`, of which reverse mode saves only the leaves.
#[pyfunction]
pub fn checkpoint<'py>(
    py: Python<'py>,
    f: Py<PyAny>,
    leaves: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let args = tensors(leaves)?;
    let f = Arc::new(f);
    let run = move |args: &Tensors| Python::attach(|py| call("checkpoint", f.bind(py), args));
    let outputs = autodiff::checkpoint(run, &args).or_raise()?;
    list(py, &outputs)
}

/// A Python object that a function saved for its backward function: to the engine it has no leaves.
pub struct Saved(pub Py<PyAny>);

impl Tree for Saved {
    fn visit<'a>(
        &'a self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> extensor::Result<()>,
    ) -> extensor::Result<()> {
        Ok(())
    }
    fn map(
        &self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &Tensor) -> extensor::Result<Tensor>,
    ) -> extensor::Result<Self> {
        Ok(Saved(Python::attach(|py| self.0.clone_ref(py))))
    }
    fn visit_mut(
        &mut self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> extensor::Result<()>,
    ) -> extensor::Result<()> {
        Ok(())
    }
}

/// `forward(leaves)` returns a list of results and what to save; `backward(saved, grads)` returns the
/// list of the leaves' gradients.
#[pyfunction]
pub fn custom_vjp<'py>(
    py: Python<'py>,
    forward: Py<PyAny>,
    backward: Py<PyAny>,
    leaves: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let args = tensors(leaves)?;
    let there = move |args: &Tensors| {
        Python::attach(|py| -> PyResult<(Tensors, Saved)> {
            let (outputs, saved): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                forward.bind(py).call1((list(py, args)?,))?.extract()?;
            Ok((tensors(&outputs)?, Saved(saved.unbind())))
        })
        .map_err(|error| callback("custom_vjp", error))
    };
    let back = move |saved: &Saved, grads: &Tensors| {
        Python::attach(|py| -> PyResult<Tensors> {
            tensors(&backward.bind(py).call1((&saved.0, list(py, grads)?))?)
        })
        .map_err(|error| callback("custom_vjp", error))
    };
    let outputs = autodiff::custom_vjp(there, back)(&args).or_raise()?;
    list(py, &outputs)
}

/// `f(leaves)` with the derivative `rule(leaves, tangents)`, both of which return lists.
#[pyfunction]
pub fn custom_jvp<'py>(
    py: Python<'py>,
    f: Py<PyAny>,
    rule: Py<PyAny>,
    leaves: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let args = tensors(leaves)?;
    let there = move |args: &Tensors| Python::attach(|py| call("custom_jvp", f.bind(py), args));
    let along = move |args: &Tensors, tangents: &Tensors| {
        Python::attach(|py| -> PyResult<Tensors> {
            tensors(&rule.bind(py).call1((list(py, args)?, list(py, tangents)?))?)
        })
        .map_err(|error| callback("custom_jvp", error))
    };
    let outputs = autodiff::custom_jvp(there, along)(&args).or_raise()?;
    list(py, &outputs)
}
