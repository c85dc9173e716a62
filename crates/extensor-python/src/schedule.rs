//! Learning rates as functions of the step, and plateaus. This module knows numbers; it must not know a
//! model or an optimiser.

use crate::error::OrRaise;
use extensor::optim;
use extensor::optim::schedule::OneCycle;
use pyo3::prelude::*;

/// A learning rate for every step.
#[pyclass(name = "Schedule", module = "extensor.optim", frozen, eq)]
#[derive(PartialEq)]
pub struct PySchedule(optim::Schedule);

#[pymethods]
impl PySchedule {
    /// The learning rate of a step, from 0 on.
    fn __call__(&self, step: u64) -> f64 {
        self.0.lr(step)
    }

    /// This schedule after `steps` steps in which the learning rate rises in a straight line from
    /// `start` times its first one.
    #[pyo3(signature = (steps, start = 0.0))]
    fn warm_up(&self, steps: u64, start: f64) -> PyResult<PySchedule> {
        self.0.clone().warm_up(steps, start).or_raise().map(PySchedule)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Always the same learning rate.
#[pyfunction]
pub fn schedule_constant(lr: f64) -> PyResult<PySchedule> {
    optim::Schedule::constant(lr).or_raise().map(PySchedule)
}

/// `lr·gamma**k` after `k` times `every` steps.
#[pyfunction]
#[pyo3(signature = (lr, every, gamma = 0.1))]
pub fn schedule_step(lr: f64, every: u64, gamma: f64) -> PyResult<PySchedule> {
    optim::Schedule::step(lr, every, gamma).or_raise().map(PySchedule)
}

/// `lr·gamma**k` from the `k`-th milestone on.
#[pyfunction]
#[pyo3(signature = (lr, milestones, gamma = 0.1))]
pub fn schedule_multi_step(lr: f64, milestones: Vec<u64>, gamma: f64) -> PyResult<PySchedule> {
    optim::Schedule::multi_step(lr, &milestones, gamma).or_raise().map(PySchedule)
}

/// `lr·gamma**t`.
#[pyfunction]
pub fn schedule_exponential(lr: f64, gamma: f64) -> PyResult<PySchedule> {
    optim::Schedule::exponential(lr, gamma).or_raise().map(PySchedule)
}

/// From `lr` to `min` along a cosine in `steps` steps.
#[pyfunction]
#[pyo3(signature = (lr, steps, min = 0.0))]
pub fn schedule_cosine(lr: f64, steps: u64, min: f64) -> PyResult<PySchedule> {
    optim::Schedule::cosine(lr, steps, min).or_raise().map(PySchedule)
}

/// From `lr` to `min` along a cosine in `first` steps, then again in `factor` times as many, and so on.
#[pyfunction]
#[pyo3(signature = (lr, first, factor = 1, min = 0.0))]
pub fn schedule_cosine_restarts(
    lr: f64,
    first: u64,
    factor: u64,
    min: f64,
) -> PyResult<PySchedule> {
    optim::Schedule::cosine_restarts(lr, first, factor, min).or_raise().map(PySchedule)
}

/// Up to `max_lr` and down to almost 0 within `steps` steps.
#[pyfunction]
#[pyo3(signature = (
    max_lr, steps, rise = 0.3, div_factor = 25.0, final_div_factor = 1e4, cosine = true,
    three_phase = false,
))]
pub fn schedule_one_cycle(
    max_lr: f64,
    steps: u64,
    rise: f64,
    div_factor: f64,
    final_div_factor: f64,
    cosine: bool,
    three_phase: bool,
) -> PyResult<PySchedule> {
    let settings =
        OneCycle { max_lr, steps, rise, div_factor, final_div_factor, cosine, three_phase };
    optim::Schedule::one_cycle_with(settings).or_raise().map(PySchedule)
}

/// A learning rate that is multiplied by a factor whenever a measured number has not improved for a
/// while.
#[pyclass(name = "Plateau", module = "extensor.optim", frozen, eq)]
#[derive(PartialEq)]
pub struct PyPlateau(optim::Plateau);

#[pymethods]
impl PyPlateau {
    #[new]
    #[pyo3(signature = (
        lr, *, rising = false, factor = 0.1, patience = 10, threshold = 1e-4, absolute = false,
        cooldown = 0, min_lr = 0.0, eps = 1e-8,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        lr: f64,
        rising: bool,
        factor: f64,
        patience: u64,
        threshold: f64,
        absolute: bool,
        cooldown: u64,
        min_lr: f64,
        eps: f64,
    ) -> PyResult<PyPlateau> {
        let made = || {
            let plateau = optim::Plateau::new(lr)?;
            let plateau = if rising { plateau.rising() } else { plateau };
            let plateau = match absolute {
                true => plateau.absolute_threshold(threshold)?,
                false => plateau.threshold(threshold)?,
            };
            let plateau = plateau.factor(factor)?.patience(patience).cooldown(cooldown);
            plateau.min_lr(min_lr)?.eps(eps)
        };
        made().or_raise().map(PyPlateau)
    }

    /// The learning rate.
    #[getter]
    fn lr(&self) -> f64 {
        self.0.lr()
    }

    /// What changes of it, as a line of text.
    #[getter]
    fn state(&self) -> String {
        self.0.state().to_string()
    }

    /// The same settings in the state that a line of text says.
    fn with_state(&self, state: &str) -> PyResult<PyPlateau> {
        Ok(PyPlateau(self.0.with_state(state.parse().or_raise()?)))
    }

    /// What it is after another number was measured.
    fn observe(&self, measured: f64) -> PyPlateau {
        PyPlateau(self.0.observe(measured))
    }

    fn __repr__(&self) -> String {
        format!("Plateau({})", self.0.state())
    }
}
