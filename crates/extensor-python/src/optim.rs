//! Optimisers, schedules, plateaus, moving averages and minimisers over lists of named tensors.
//!
//! Python takes trees apart and puts them together (`optim/`); the updates are the library's fused
//! ones. This module must not know a formula.

use crate::autodiff::{list, tensors};
use crate::error::{OrRaise, callback};
use crate::named::Named;
use crate::tensor::PyTensor;
use extensor::autodiff::{Path, Tree};
use extensor::optim::schedule::OneCycle;
use extensor::optim::{self, Groups, Stop};
use extensor::{Tensor, gradients};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

type Method = Box<dyn optim::Optimizer<Named> + Send + Sync>;

/// An optimiser with its settings.
#[pyclass(name = "Method", module = "extensor._core", frozen)]
pub struct PyMethod(Method);

/// The settings of an optimiser, by name.
struct Settings<'a, 'py>(&'a Bound<'py, PyDict>);

impl<'a, 'py> Settings<'a, 'py> {
    fn get<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'b> FromPyObject<'b, 'py, Error: Into<PyErr>>,
    {
        match self.0.get_item(name)? {
            Some(object) if !object.is_none() => object.extract().map(Some).map_err(Into::into),
            _ => Ok(None),
        }
    }

    fn groups(&self) -> PyResult<Groups> {
        let rules: Option<Vec<(String, f64, f64)>> = self.get("groups")?;
        let no_decay: Option<bool> = self.get("no_decay")?;
        let start = if no_decay == Some(true) { Groups::no_decay() } else { Groups::new() };
        Ok(rules.unwrap_or_default().into_iter().fold(start, |groups, (pattern, lr, decay)| {
            groups.learning_rate(pattern.clone(), lr).weight_decay(pattern, decay)
        }))
    }
}

/// Sets what every optimiser can be told.
macro_rules! common {
    ($settings:expr, $method:expr) => {{
        let mut method = $method.groups($settings.groups()?);
        if let Some(decay) = $settings.get::<f64>("weight_decay")? {
            method = method.weight_decay(decay);
        }
        if let Some(norm) = $settings.get::<f64>("clip_norm")? {
            method = method.clip_norm(norm);
        }
        if let Some(value) = $settings.get::<f64>("clip_value")? {
            method = method.clip_value(value);
        }
        Box::new(method) as Method
    }};
}

/// Sets what Adam and AdamW can be told.
macro_rules! moments {
    ($settings:expr, $method:expr) => {{
        let mut method = $method;
        if let Some((a, b)) = $settings.get::<(f64, f64)>("betas")? {
            method = method.betas(a, b);
        }
        if let Some(eps) = $settings.get::<f64>("eps")? {
            method = method.eps(eps);
        }
        if $settings.get::<bool>("amsgrad")? == Some(true) {
            method = method.amsgrad();
        }
        common!($settings, method)
    }};
}

/// Calls a builder with each setting that is given.
macro_rules! set {
    ($settings:expr, $method:ident, $($name:ident),*) => {$(
        if let Some(value) = $settings.get::<f64>(stringify!($name))? {
            $method = $method.$name(value);
        }
    )*};
}

fn method(name: &str, lr: f64, settings: &Settings<'_, '_>) -> PyResult<Method> {
    Ok(match name {
        "sgd" => {
            let mut method = optim::Sgd::new(lr);
            set!(settings, method, momentum, dampening);
            if settings.get::<bool>("nesterov")? == Some(true) {
                method = method.nesterov();
            }
            common!(settings, method)
        }
        "adam" => moments!(settings, optim::Adam::new(lr)),
        "adamw" => moments!(settings, optim::AdamW::new(lr)),
        "rmsprop" => {
            let mut method = optim::RmsProp::new(lr);
            set!(settings, method, alpha, eps, momentum);
            if settings.get::<bool>("centred")? == Some(true) {
                method = method.centred();
            }
            common!(settings, method)
        }
        "adagrad" => {
            let mut method = optim::Adagrad::new(lr);
            set!(settings, method, lr_decay, initial_accumulator_value, eps);
            common!(settings, method)
        }
        "lion" => {
            let mut method = optim::Lion::new(lr);
            if let Some((a, b)) = settings.get::<(f64, f64)>("betas")? {
                method = method.betas(a, b);
            }
            common!(settings, method)
        }
        _ => return Err(PyValueError::new_err(format!("there is no optimiser {name:?}"))),
    })
}

#[pymethods]
impl PyMethod {
    #[new]
    fn new(name: &str, lr: f64, settings: &Bound<'_, PyDict>) -> PyResult<PyMethod> {
        method(name, lr, &Settings(settings)).map(PyMethod)
    }

    /// The names of the slots, and the tensors before the first step: for each parameter, one for
    /// each slot.
    fn init<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        leaves: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<&'static str>, Bound<'py, PyList>)> {
        let model = Named::of(names, leaves)?;
        let state = py.detach(|| self.0.init(&model)).or_raise()?;
        let mut slots = Vec::new();
        state.visit(&Path::ROOT, &mut |_, x| {
            slots.push(x.clone());
            Ok(())
        })
        .or_raise()?;
        Ok((state.slots().to_vec(), list(py, &slots)?))
    }

    /// The parameters and the slots after a step, and the norm of the gradients if it was computed.
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn update<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        leaves: &Bound<'py, PyAny>,
        grads: &Bound<'py, PyAny>,
        step: u64,
        kinds: Vec<String>,
        slots: &Bound<'py, PyAny>,
        lr: Option<f64>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>, Option<f64>)> {
        let model = Named::of(names, leaves)?;
        let grads = model.with(tensors(grads)?);
        let slots = tensors(slots)?;
        let run = move || {
            // What the library expects, with the slots that were given in their places.
            let mut state = self.0.init(&model.outline()?)?;
            let op = "update";
            if state.slots() != kinds {
                let [expected, got] =
                    [state.slots().join(", "), kinds.join(", ")].map(|k| format!("a state with {k}"));
                return Err(extensor::Error::Inputs { op, expected, got });
            }
            let wanted = model.leaves().len() * kinds.len();
            if slots.len() != wanted {
                let [expected, got] =
                    [wanted, slots.len()].map(|n| format!("a state of {n} tensors"));
                return Err(extensor::Error::Inputs { op, expected, got });
            }
            let mut slots = slots.into_iter();
            state.visit_mut(&Path::ROOT, &mut |_, place| {
                if let Some(slot) = slots.next() {
                    *place = slot;
                }
                Ok(())
            })?;
            state.step = step;
            let lr = lr.unwrap_or(self.0.learning_rate());
            let (model, state) = self.0.update_with(lr, model, &grads, state)?;
            let mut slots = Vec::new();
            state.visit(&Path::ROOT, &mut |_, x| {
                slots.push(x.clone());
                Ok(())
            })?;
            Ok((model, slots, state.grad_norm))
        };
        let (model, slots, norm) = py.detach(run).or_raise()?;
        Ok((list(py, model.leaves())?, list(py, &slots)?, norm))
    }
}

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
#[pyo3(signature = (max_lr, steps, rise = 0.3, div_factor = 25.0, final_div_factor = 1e4, cosine = true, three_phase = false))]
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
    #[pyo3(signature = (lr, *, rising = false, factor = 0.1, patience = 10, threshold = 1e-4, absolute = false, cooldown = 0, min_lr = 0.0, eps = 1e-8))]
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
        py.detach(made).or_raise().map(PyAverage)
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
        py.detach(|| self.0.clone().update(&model)).or_raise().map(PyAverage)
    }

    /// The averaged tensors, in the dtypes of the model.
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let model = py.detach(|| self.0.model()).or_raise()?;
        list(py, model.leaves())
    }

    /// The tensors as they are kept.
    fn leaves<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let kept: Vec<Tensor> =
            extensor::autodiff::leaves(&self.0).into_iter().cloned().collect();
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

/// The Euclidean norm of all tensors together.
#[pyfunction]
pub fn global_norm(py: Python<'_>, leaves: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    let leaves = tensors(leaves)?;
    py.detach(|| gradients::global_norm(&leaves)).or_raise().map(PyTensor)
}

/// Whether every element of every tensor is finite.
#[pyfunction]
pub fn all_finite(py: Python<'_>, leaves: &Bound<'_, PyAny>) -> PyResult<bool> {
    let leaves = tensors(leaves)?;
    py.detach(|| gradients::all_finite(&leaves)).or_raise()
}
