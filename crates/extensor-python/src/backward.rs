//! Every explicit backward function of the catalogue as a Python function, from the arguments that its
//! record lists.
//!
//! An argument is an input, an output, a parameter, or the shape or dtype of an input. What a rule does
//! not read is not asked for: a tensor of the right shape stands in for it, found by asking the
//! operation which shapes it accepts. This module must not know any particular operation.

use crate::absent::outline;
use crate::convert;
use crate::error::OrRaise;
use crate::function::{compute, position_of};
use crate::tensor::PyTensor;
use extensor::ops::operation::{self, Operation};
use extensor::ops::record::{Argument, Count, Input, Kind, Record, Signature};
use extensor::{Shape, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

// The explicit backward function of an operation. (Its text in Python is each one's own.)
#[pyclass(name = "BackwardOperation", module = "extensor", frozen)]
pub struct Backward {
    pub record: &'static Record,
    pub signature: Signature,
}

/// The arguments of one call, by name.
pub struct Given<'py>(Vec<(&'static str, Option<Bound<'py, PyAny>>)>);

impl<'py> Given<'py> {
    /// An argument, unless it is absent or `None`.
    pub fn get(&self, name: &str) -> Option<&Bound<'py, PyAny>> {
        let found = self.0.iter().find(|(n, _)| *n == name);
        found.and_then(|(_, object)| object.as_ref()).filter(|object| !object.is_none())
    }

    /// An argument as a tensor.
    pub fn tensor(&self, name: &str) -> PyResult<Option<Tensor>> {
        let Some(object) = self.get(name) else { return Ok(None) };
        match convert::array(object)? {
            Some(tensor) => Ok(Some(tensor)),
            None => convert::from_nested(object, None).map(Some),
        }
    }

    /// An argument as a list of tensors.
    pub fn tensors(&self, name: &str) -> PyResult<Option<Vec<Tensor>>> {
        let Some(object) = self.get(name) else { return Ok(None) };
        let one = |item: Bound<'_, PyAny>| match convert::array(&item)? {
            Some(tensor) => Ok(tensor),
            None => convert::from_nested(&item, None),
        };
        convert::items(object)?.iter().map(one).collect::<PyResult<_>>().map(Some)
    }

    /// An argument as a shape.
    pub fn shape(&self, name: &str) -> PyResult<Option<Shape>> {
        let Some(object) = self.get(name) else { return Ok(None) };
        let sizes: Vec<usize> = convert::whole_numbers_of(object)
            .map_err(|_| PyTypeError::new_err(format!("{name}: expected a shape")))?;
        let shape = Shape::from(sizes);
        if shape.checked_len().is_none() {
            return Err(PyValueError::new_err(format!(
                "{name}: {shape} has more elements than memory can address"
            )));
        }
        Ok(Some(shape))
    }
}

impl Backward {
    /// The backward function of an operation, if it has one.
    pub fn of(record: &'static Record) -> Option<Backward> {
        Some(Backward { record, signature: record.backward? })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.signature.name
    }

    /// Whether it has an argument of that kind and name.
    pub fn takes(&self, kind: Kind, name: &str) -> bool {
        self.signature.arguments.iter().any(|a| a.kind == kind && a.name == name)
    }

    fn bind<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Given<'py>> {
        let most = self.signature.arguments.len();
        if args.len() > most {
            let (name, got) = (self.name(), args.len());
            return Err(PyTypeError::new_err(format!(
                "{name} takes at most {most} arguments, not {got}"
            )));
        }
        let mut given: Vec<_> = self.signature.names().map(|name| (name, None)).collect();
        for (slot, object) in given.iter_mut().zip(args.iter()) {
            slot.1 = Some(object);
        }
        for (name, object) in kwargs.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_string();
            let names: Vec<&str> = self.signature.names().collect();
            let Some(slot) = position_of(&names, &name).map(|at| &mut given[at]) else {
                let known = names.join(", ");
                let text = format!("{} has no argument {name:?}; it has {known}", self.name());
                return Err(PyTypeError::new_err(text));
            };
            if slot.1.replace(object).is_some() {
                let text = format!("{}: argument {name:?} is given twice", self.name());
                return Err(PyTypeError::new_err(text));
            }
        }
        Ok(Given(given))
    }

    fn grads(&self, given: &Given<'_>) -> PyResult<Vec<Tensor>> {
        if let Some(one) = given.tensor("grad_output")? {
            return Ok(vec![one]);
        }
        if let Some(list) = given.get("grad_outputs") {
            let one = |item: Bound<'_, PyAny>| {
                convert::array(&item)?
                    .ok_or_else(|| PyTypeError::new_err("grad_outputs: expected tensors"))
            };
            return convert::items(list)?.iter().map(one).collect();
        }
        Err(PyTypeError::new_err(format!("{}: grad_output must be given", self.name())))
    }

    /// All outputs, from the list that they are given in.
    fn listed(&self, given: &Given<'_>, name: &str, count: usize) -> PyResult<Vec<Tensor>> {
        let wrong = || {
            let text = format!("{}: {name}: expected a list of {count} tensors", self.name());
            PyTypeError::new_err(text)
        };
        let list = given.get(name).ok_or_else(wrong)?;
        let one = |item: Bound<'_, PyAny>| convert::array(&item)?.ok_or_else(wrong);
        let list: Vec<Tensor> = convert::items(list)?.iter().map(one).collect::<PyResult<_>>()?;
        if list.len() == count { Ok(list) } else { Err(wrong()) }
    }

    /// The outputs as far as they are given, outlines elsewhere.
    fn outputs(
        &self,
        given: &Given<'_>,
        op: &dyn Operation,
        inputs: &[&Tensor],
    ) -> PyResult<Vec<Tensor>> {
        let specs = op.infer(inputs).or_raise()?;
        let arguments = self.signature.arguments.iter();
        let auxiliary: Vec<&'static str> =
            arguments.filter(|a| a.kind == Kind::Auxiliary).map(|a| a.name).collect();
        let output = self.signature.of_kind(Kind::Output).map(|a| a.name);
        let results = self.record.results(specs.len());
        let together = match self.signature.of_kind(Kind::Outputs) {
            Some(argument) => self.listed(given, argument.name, specs.len())?,
            None => Vec::new(),
        };
        let mut outputs = Vec::with_capacity(specs.len());
        for (k, spec) in specs.iter().enumerate() {
            let name = if k < results {
                output
            } else {
                // Of the auxiliary outputs, the last ones are taken.
                let from_end = specs.len() - k;
                auxiliary.len().checked_sub(from_end).map(|at| auxiliary[at])
            };
            let tensor = match name {
                Some(name) => given.tensor(name)?,
                None => together.get(k).cloned(),
            };
            let name = name.or((k < together.len()).then_some("outputs"));
            outputs.push(match (tensor, name) {
                (Some(tensor), Some(argument)) => {
                    let op = self.name();
                    if *tensor.shape() != spec.shape {
                        let (expected, got) = (spec.shape.to_string(), tensor.shape().clone());
                        return Err(extensor::Error::Shape { op, argument, expected, got })
                            .or_raise();
                    }
                    if tensor.dtype() != spec.dtype {
                        let (expected, got) = (spec.dtype.name(), tensor.dtype());
                        return Err(extensor::Error::DType { op, argument, expected, got })
                            .or_raise();
                    }
                    tensor
                }
                (None, Some(argument)) => {
                    let text = format!("{}: {argument} must be given", self.name());
                    return Err(PyTypeError::new_err(text));
                }
                (_, None) => outline(&spec.shape, spec.dtype)?,
            });
        }
        Ok(outputs)
    }
}

#[pymethods]
impl Backward {
    /// The gradients of the inputs that have one: a tensor, or a tuple of several.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = self.bind(args, kwargs)?;
        let grads = self.grads(&given)?;
        let Some(first) = grads.first() else {
            return Err(PyValueError::new_err(format!("{}: no gradients are given", self.name())));
        };
        if !first.dtype().is_float() {
            let text = format!(
                "{}: grad_output has dtype {}, expected a float type",
                self.name(),
                first.dtype()
            );
            return Err(PyTypeError::new_err(text));
        }
        let mut ops = self.operations(&given, &grads)?;
        let mut op = ops.swap_remove(0);
        let mut inputs = self.inputs(&given, &*op, &grads)?;
        if !ops.is_empty() && !self.accepts(&*op, &inputs, &grads) {
            for other in ops {
                let trial = self.inputs(&given, &*other, &grads)?;
                if self.accepts(&*other, &trial, &grads) {
                    (op, inputs) = (other, trial);
                    break;
                }
            }
        }
        let count = inputs.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
        if let Some(i) = inputs[..count].iter().position(Option::is_none) {
            let missing = operation::input_name(self.record, i);
            return Err(PyTypeError::new_err(format!("{}: {missing} must be given", self.name())));
        }
        let inputs: Vec<&Tensor> = inputs.iter().flatten().collect();
        self.record.expect_inputs(inputs.len()).or_raise()?;
        let outputs = self.outputs(&given, &*op, &inputs)?;
        let outputs: Vec<&Tensor> = outputs.iter().collect();
        let wanted: Vec<bool> = inputs
            .iter()
            .enumerate()
            .map(|(i, x)| self.record.differentiable_input(i) && x.dtype().is_float())
            .collect();
        let grads: Vec<&Tensor> = grads.iter().collect();
        let found = compute(py, usize::MAX, || {
            operation::backward(&*op, &grads, &inputs, &outputs, &wanted)
        })?;
        let mut found: Vec<Bound<'py, PyTensor>> = found
            .into_iter()
            .flatten()
            .map(|g| Bound::new(py, PyTensor(g)))
            .collect::<PyResult<_>>()?;
        let many = matches!(self.record.inputs, [Input { count: Count::Many, .. }]);
        if found.len() == 1 && !many {
            return Ok(found.swap_remove(0).into_any());
        }
        Ok(PyTuple::new(py, found)?.into_any())
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.name()
    }
    #[getter]
    fn __qualname__(&self) -> &'static str {
        self.name()
    }
    #[getter]
    fn __module__(&self) -> &'static str {
        "extensor"
    }
    #[getter]
    fn __doc__(&self) -> String {
        let Record { name, formula, derivative, .. } = self.record;
        format!("The gradient of `{name}`, {formula}: {derivative}")
    }

    /// The arguments, as `inspect.signature` shows them.
    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("extensor._exchange")?.call_method1("signature", (self.arguments(),))
    }

    fn __repr__(&self) -> String {
        format!("<extensor operation {}>", self.signature)
    }
}

impl Backward {
    /// Names and defaults.
    pub fn arguments(&self) -> Vec<(String, Option<String>)> {
        let known = crate::function::arguments_of(self.record);
        let mut open = false;
        let one = |argument: &Argument| {
            let default = match argument.kind {
                Kind::Input | Kind::Parameter => known
                    .iter()
                    .find(|(name, _)| name == argument.name)
                    .and_then(|(_, d)| d.clone()),
                _ => None,
            };
            open |= default.is_some();
            let default = if open { Some(default.unwrap_or_else(|| "None".into())) } else { None };
            (argument.name.to_string(), default)
        };
        self.signature.arguments.iter().map(one).collect()
    }
}
