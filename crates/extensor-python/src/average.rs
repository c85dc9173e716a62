//! Moving averages of named tensors. This module must not know an optimiser.

use crate::autodiff::{list, tensors};
use crate::error::{OrRaise, released};
use crate::named::Named;
use extensor::Tensor;
use extensor::autodiff::{Path, Tree};
use extensor::optim;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// An exponential moving average of named tensors.
#[pyclass(name = "Average", module = "extensor._core", frozen)]
pub struct PyAverage(optim::Ema<Named>);

#[pymethods]
impl PyAverage {
    #[new]
    fn new(
        py: Python<'_>,
        names: Vec<String>,
        leaves: &Bound<'_, PyAny>,
        decay: f64,
        warm_up: bool,
        debiased: bool,
    ) -> PyResult<PyAverage> {
        let model = Named::of(names, leaves)?;
        let made = || {
            let ema = optim::Ema::new(&model, decay)?;
            let ema = if warm_up { ema.warm_up() } else { ema };
            if debiased { ema.debiased() } else { Ok(ema) }
        };
        released(py, made).map(PyAverage)
    }

    /// The average after another model.
    fn update(&self, py: Python<'_>, leaves: &Bound<'_, PyAny>) -> PyResult<PyAverage> {
        let mut names = Vec::new();
        let visited = self.0.visit(&Path::ROOT, &mut |path, _| {
            names.push(if path.is_root() { String::new() } else { path.to_string() });
            Ok(())
        });
        visited.or_raise()?;
        let model = Named::of(names, leaves)?;
        released(py, || self.0.clone().update(&model)).map(PyAverage)
    }

    /// The averaged tensors, in the dtypes of the model.
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let model = released(py, || self.0.model())?;
        list(py, model.leaves())
    }

    /// The tensors as they are kept.
    fn leaves<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let kept: Vec<Tensor> = extensor::autodiff::leaves(&self.0).into_iter().cloned().collect();
        list(py, &kept)
    }

    /// How many models have been averaged.
    #[getter]
    fn step(&self) -> u64 {
        self.0.step
    }

    /// The weight that is left of where it began.
    #[getter]
    fn start_weight(&self) -> f64 {
        self.0.start_weight
    }

    /// The same settings with these tensors, after so many steps.
    fn resume(
        &self,
        leaves: &Bound<'_, PyAny>,
        step: u64,
        start_weight: f64,
    ) -> PyResult<PyAverage> {
        let mut given = tensors(leaves)?.into_iter();
        let mut ema = self.0.clone();
        let filled = ema.visit_mut(&Path::ROOT, &mut |path, place| {
            let kept = given.next().filter(|x| x.shape() == place.shape());
            let kept = kept.filter(|x| x.dtype() == place.dtype());
            *place = kept.ok_or_else(|| extensor::Error::Leaf {
                op: "ema",
                leaf: path.to_string(),
                expected: format!("{} {}", place.dtype(), place.shape()),
                got: "another or none".into(),
            })?;
            Ok(())
        });
        filled.or_raise()?;
        (ema.step, ema.start_weight) = (step, start_weight);
        Ok(PyAverage(ema))
    }
}
