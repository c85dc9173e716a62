//! Learning rates as functions of the step, and plateaus. This module knows numbers; it must not know a
//! model or an optimiser.

use crate::error::OrRaise;
use crate::recipe::Recipe;
use extensor::optim;
use extensor::optim::schedule::OneCycle;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A learning rate for every step.
#[pyclass(name = "Schedule", module = "extensor.optim", frozen, eq)]
pub struct PySchedule(optim::Schedule, Recipe);

impl PartialEq for PySchedule {
    fn eq(&self, other: &PySchedule) -> bool {
        self.0 == other.0
    }
}

#[pymethods]
impl PySchedule {
    /// The learning rate of a step, from 0 on.
    fn __call__(&self, step: u64) -> f64 {
        self.0.lr(step)
    }

    /// This schedule after `steps` steps in which the learning rate rises in a straight line from
    /// `start` times its first one.
    #[pyo3(signature = (steps, start = 0.0))]
    fn warm_up(slf: &Bound<'_, Self>, steps: u64, start: f64) -> PyResult<PySchedule> {
        let recipe = Recipe::of_method(slf, "warm_up", (steps, start))?;
        Ok(PySchedule(slf.get().0.clone().warm_up(steps, start).or_raise()?, recipe))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        self.1.reduce(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.1.text(py)?.replacen("schedule_", "schedule.", 1))
    }
}

/// Always the same learning rate.
#[pyfunction]
pub fn schedule_constant(py: Python<'_>, lr: f64) -> PyResult<PySchedule> {
    let recipe = Recipe::of(py, "schedule_constant", (lr,))?;
    let made = optim::Schedule::constant(lr).or_raise()?;
    Ok(PySchedule(made, recipe))
}

/// `lr·gamma**k` after `k` times `every` steps.
#[pyfunction]
#[pyo3(signature = (lr, every, gamma = 0.1))]
pub fn schedule_step(py: Python<'_>, lr: f64, every: u64, gamma: f64) -> PyResult<PySchedule> {
    let recipe = Recipe::of(py, "schedule_step", (lr, every, gamma))?;
    let made = optim::Schedule::step(lr, every, gamma).or_raise()?;
    Ok(PySchedule(made, recipe))
}

/// `lr·gamma**k` from the `k`-th milestone on.
#[pyfunction]
#[pyo3(signature = (lr, milestones, gamma = 0.1))]
pub fn schedule_multi_step(
    py: Python<'_>,
    lr: f64,
    milestones: Vec<u64>,
    gamma: f64,
) -> PyResult<PySchedule> {
    let recipe = Recipe::of(py, "schedule_multi_step", (lr, milestones.clone(), gamma))?;
    let made = optim::Schedule::multi_step(lr, &milestones, gamma).or_raise()?;
    Ok(PySchedule(made, recipe))
}

/// `lr·gamma**t`.
#[pyfunction]
pub fn schedule_exponential(py: Python<'_>, lr: f64, gamma: f64) -> PyResult<PySchedule> {
    let recipe = Recipe::of(py, "schedule_exponential", (lr, gamma))?;
    let made = optim::Schedule::exponential(lr, gamma).or_raise()?;
    Ok(PySchedule(made, recipe))
}

/// From `lr` to `min` along a cosine in `steps` steps.
#[pyfunction]
#[pyo3(signature = (lr, steps, min = 0.0))]
pub fn schedule_cosine(py: Python<'_>, lr: f64, steps: u64, min: f64) -> PyResult<PySchedule> {
    let recipe = Recipe::of(py, "schedule_cosine", (lr, steps, min))?;
    let made = optim::Schedule::cosine(lr, steps, min).or_raise()?;
    Ok(PySchedule(made, recipe))
}

/// From `lr` to `min` along a cosine in `first` steps, then again in `factor` times as many, and so on.
#[pyfunction]
#[pyo3(signature = (lr, first, factor = 1, min = 0.0))]
pub fn schedule_cosine_restarts(
    py: Python<'_>,
    lr: f64,
    first: u64,
    factor: u64,
    min: f64,
) -> PyResult<PySchedule> {
    let recipe = Recipe::of(py, "schedule_cosine_restarts", (lr, first, factor, min))?;
    let made = optim::Schedule::cosine_restarts(lr, first, factor, min).or_raise()?;
    Ok(PySchedule(made, recipe))
}

/// Up to `max_lr` and down to almost 0 within `steps` steps.
#[pyfunction]
#[pyo3(signature = (
    max_lr, steps, rise = 0.3, div_factor = 25.0, final_div_factor = 1e4, cosine = true,
    three_phase = false,
))]
#[allow(clippy::too_many_arguments)]
pub fn schedule_one_cycle(
    py: Python<'_>,
    max_lr: f64,
    steps: u64,
    rise: f64,
    div_factor: f64,
    final_div_factor: f64,
    cosine: bool,
    three_phase: bool,
) -> PyResult<PySchedule> {
    let recipe = Recipe::of(
        py,
        "schedule_one_cycle",
        (max_lr, steps, rise, div_factor, final_div_factor, cosine, three_phase),
    )?;
    let settings =
        OneCycle { max_lr, steps, rise, div_factor, final_div_factor, cosine, three_phase };
    let made = optim::Schedule::one_cycle_with(settings).or_raise()?;
    Ok(PySchedule(made, recipe))
}

/// A learning rate that is multiplied by a factor whenever a measured number has not improved for a
/// while.
#[pyclass(name = "Plateau", module = "extensor.optim", frozen, eq)]
pub struct PyPlateau(optim::Plateau, Settings);

/// What a plateau is made with, in the order of its arguments.
type Settings = (f64, bool, f64, u64, f64, bool, u64, f64, f64);

impl PartialEq for PyPlateau {
    fn eq(&self, other: &PyPlateau) -> bool {
        self.0 == other.0
    }
}

/// A plateau of these settings in the state that a line of text says, for `pickle`.
#[pyfunction]
pub fn plateau_at(settings: Settings, state: &str) -> PyResult<PyPlateau> {
    let (lr, rising, factor, patience, threshold, absolute, cooldown, min_lr, eps) = settings;
    let made =
        PyPlateau::new(lr, rising, factor, patience, threshold, absolute, cooldown, min_lr, eps);
    made?.with_state(state)
}

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
        let settings = (lr, rising, factor, patience, threshold, absolute, cooldown, min_lr, eps);
        Ok(PyPlateau(made().or_raise()?, settings))
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
        Ok(PyPlateau(self.0.with_state(state.parse().or_raise()?), self.1))
    }

    /// What it is after another number was measured.
    fn observe(&self, measured: f64) -> PyPlateau {
        PyPlateau(self.0.observe(measured), self.1)
    }

    fn __repr__(&self) -> String {
        format!("Plateau({})", self.0.state())
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (Settings, String))> {
        let made = py.import("extensor._core")?.getattr("plateau_at")?;
        Ok((made.unbind(), (self.1, self.0.state().to_string())))
    }
}
