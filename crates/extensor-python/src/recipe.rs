//! How an object was made, so that `pickle` can make it again in another process.
//!
//! It must not know what is made.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A function and what to call it with.
pub struct Recipe {
    function: Py<PyAny>,
    arguments: Py<PyTuple>,
}

impl Recipe {
    /// A call of a function of this module.
    pub fn of<'py>(
        py: Python<'py>,
        function: &str,
        arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
    ) -> PyResult<Recipe> {
        let function = py.import("extensor._core")?.getattr(function)?.unbind();
        Ok(Recipe { function, arguments: arguments.into_pyobject(py)?.unbind() })
    }

    /// A call of an object's method.
    pub fn of_method<'py, T>(
        object: &Bound<'py, T>,
        method: &str,
        arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
    ) -> PyResult<Recipe> {
        let py = object.py();
        let given = arguments.into_pyobject(py)?;
        let called = [method.into_pyobject(py)?.into_any()].into_iter().chain(given.iter());
        let called = PyTuple::new(py, called.collect::<Vec<_>>())?;
        let function = py.import("operator")?.getattr("methodcaller")?.call1(called)?.unbind();
        let arguments = PyTuple::new(py, [object.as_any()])?.unbind();
        Ok(Recipe { function, arguments })
    }

    /// What `__reduce__` returns.
    pub fn reduce(&self, py: Python<'_>) -> (Py<PyAny>, Py<PyTuple>) {
        (self.function.clone_ref(py), self.arguments.clone_ref(py))
    }
}
