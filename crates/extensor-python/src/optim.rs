//! Optimisers over lists of named tensors.
//!
//! Python takes trees apart and puts them together (`optim/`); the updates are the library's fused
//! ones. This module must not know a formula.

use crate::autodiff::{list, tensors};
use crate::error::{OrRaise, released};
use crate::named::Named;
use crate::tensor::PyTensor;
use extensor::autodiff::{Path, Tree};
use extensor::optim::{self, Groups};
use extensor::{Tensor, ops};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

type Method = Box<dyn optim::Optimizer<Named> + Send + Sync>;

/// An optimiser with its settings.
#[pyclass(name = "Method", module = "extensor._core", frozen)]
pub struct PyMethod(Method);

/// The settings of an optimiser, by name.
pub struct Settings<'a, 'py>(pub &'a Bound<'py, PyDict>);

impl<'py> Settings<'_, 'py> {
    /// A setting, if it is given.
    pub fn get<T>(&self, name: &str) -> PyResult<Option<T>>
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

/// A number that may be a tensor: an argument of a function that is recorded.
enum Late<T> {
    Number(T),
    Tensor(Tensor),
}

impl<T> Late<T> {
    fn of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Late<T>>
    where
        T: for<'b> FromPyObject<'b, 'py, Error: Into<PyErr>>,
    {
        match object.cast::<PyTensor>() {
            Ok(tensor) => Ok(Late::Tensor(tensor.get().0.clone())),
            Err(_) => object.extract().map(Late::Number).map_err(Into::into),
        }
    }
}

/// The norm of the gradients that a state knows.
fn norm<T>(state: &optim::State<T>) -> extensor::Result<Option<Late<f64>>> {
    let mut numbers = Vec::new();
    state.numbers(&mut |x| numbers.push(x));
    match numbers.pop() {
        Some(norm) if norm.is_recorded() => {
            let last = ops::slice(&norm, 0, 1i64, 2i64, 1)?;
            Ok(Some(Late::Tensor(ops::reshape(&last, [0i64; 0])?)))
        }
        _ => Ok(state.grad_norm.map(Late::Number)),
    }
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
        let state = released(py, || self.0.init(&model))?;
        let mut slots = Vec::new();
        let visited = state.visit(&Path::ROOT, &mut |_, x| {
            slots.push(x.clone());
            Ok(())
        });
        visited.or_raise()?;
        Ok((state.slots().to_vec(), list(py, &slots)?))
    }

    /// The parameters and the slots after a step, and the norm of the gradients if it was computed: a
    /// number, or a tensor in a program that is being recorded, as the step is one then.
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn update<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        leaves: &Bound<'py, PyAny>,
        grads: &Bound<'py, PyAny>,
        step: &Bound<'py, PyAny>,
        kinds: Vec<String>,
        slots: &Bound<'py, PyAny>,
        lr: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>, Option<Bound<'py, PyAny>>)> {
        let (step, lr) = (Late::<u64>::of(step)?, lr.map(Late::<f64>::of).transpose()?);
        let model = Named::of(names, leaves)?;
        let grads = model.with(tensors(grads)?);
        let slots = tensors(slots)?;
        let run = move || {
            // What the library expects, with the slots that were given in their places.
            let mut state = self.0.init(&model.outline()?)?;
            let op = "update";
            if state.slots() != kinds {
                let [expected, got] = [state.slots().join(", "), kinds.join(", ")]
                    .map(|k| format!("a state with {k}"));
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
            match step {
                Late::Number(step) => state.step = step,
                Late::Tensor(step) => {
                    let mut numbers = [step, extensor::tensor([0.0, 0.0])].into_iter();
                    state.set_numbers(&mut || {
                        Ok(numbers.next().unwrap_or_else(|| extensor::tensor(0)))
                    })?;
                }
            }
            let mut model = model;
            match lr.unwrap_or(Late::Number(self.0.learning_rate())) {
                Late::Number(lr) => self.0.advance(lr, &mut model, &grads, &mut state)?,
                Late::Tensor(lr) => self.0.advance_at(&lr, &mut model, &grads, &mut state)?,
            }
            let mut slots = Vec::new();
            state.visit(&Path::ROOT, &mut |_, x| {
                slots.push(x.clone());
                Ok(())
            })?;
            Ok((model, slots, norm(&state)?))
        };
        let (model, slots, norm) = released(py, run)?;
        let norm = match norm {
            None => None,
            Some(Late::Number(norm)) => Some(norm.into_pyobject(py)?.into_any()),
            Some(Late::Tensor(norm)) => Some(Bound::new(py, PyTensor(norm))?.into_any()),
        };
        Ok((list(py, model.leaves())?, list(py, &slots)?, norm))
    }
}
