//! How an object was made, so that `pickle` can make it again in another process.
//!
//! It must not know what is made.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A function of this module, or a method of an object, and what to call it with.
pub struct Recipe {
    object: Option<Py<PyAny>>,
    name: &'static str,
    arguments: Py<PyTuple>,
}

impl Recipe {
    /// A call of a function of this module.
    pub fn of<'py>(
        py: Python<'py>,
        name: &'static str,
        arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
    ) -> PyResult<Recipe> {
        Ok(Recipe { object: None, name, arguments: arguments.into_pyobject(py)?.unbind() })
    }

    /// A call of an object's method.
    pub fn of_method<'py, T>(
        object: &Bound<'py, T>,
        name: &'static str,
        arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
    ) -> PyResult<Recipe> {
        let arguments = arguments.into_pyobject(object.py())?.unbind();
        Ok(Recipe { object: Some(object.as_any().clone().unbind()), name, arguments })
    }

    /// The call as it is written: `schedule_cosine(0.1, 50, 0.0)`.
    pub fn text(&self, py: Python<'_>) -> PyResult<String> {
        let each = self.arguments.bind(py).iter().map(|x| Ok(x.repr()?.to_string()));
        let each = each.collect::<PyResult<Vec<String>>>()?.join(", ");
        Ok(match &self.object {
            Some(object) => format!("{}.{}({each})", object.bind(py).repr()?, self.name),
            None => format!("{}({each})", self.name),
        })
    }

    /// What `__reduce__` returns.
    pub fn reduce<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let arguments = self.arguments.bind(py);
        let Some(object) = &self.object else {
            return Ok((py.import("extensor._core")?.getattr(self.name)?, arguments.clone()));
        };
        let name = self.name.into_pyobject(py)?.into_any();
        let called: Vec<Bound<'py, PyAny>> = [name].into_iter().chain(arguments.iter()).collect();
        let caller = py.import("operator")?.getattr("methodcaller")?;
        let function = caller.call1(PyTuple::new(py, called)?)?;
        Ok((function, PyTuple::new(py, [object.bind(py)])?))
    }
}
