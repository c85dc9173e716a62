//! Every operation of the catalogue as a Python function, made by looping over it.
//!
//! An argument is bound to the operation's inputs and parameters by what its record says; this module
//! must not know any particular operation.

use crate::backward::Backward;
use crate::convert::{self, Argument};
use crate::dtype::PyDType;
use crate::error::{OrRaise, exception, released};
use crate::random::PyKey;
use crate::tensor::PyTensor;
use extensor::Tensor;
use extensor::ops::catalogue::{self, CATALOGUE, known_as};
use extensor::ops::operation::{Operation, Outputs, apply};
use extensor::ops::params::{Params, Value};
use extensor::ops::record::{Class, Count, Kind, Record};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Up to so many elements a computation is over before another thread could have run.
const SHORT: usize = 4096;

/// Computes, with the interpreter released unless there is little to do.
#[inline]
pub fn compute<T: Send>(
    py: Python<'_>,
    elements: usize,
    f: impl FnOnce() -> extensor::Result<T> + Send,
) -> PyResult<T> {
    if elements <= SHORT { f().map_err(exception) } else { released(py, f) }
}

/// Operations without parameters, by name.
static PLAIN: LazyLock<HashMap<&'static str, Box<dyn Operation>>> = LazyLock::new(|| {
    let plain = CATALOGUE
        .iter()
        .filter_map(|record| Some((record.name, record.operation(&Params::new()).ok()?)));
    plain.collect()
});

/// The result of an operation that needs no parameters.
pub fn named(name: &str, inputs: &[&Tensor]) -> extensor::Result<Tensor> {
    match PLAIN.get(name) {
        Some(op) => Ok(apply(&**op, inputs)?.swap_remove(0)),
        None => Err(extensor::Error::UnknownOperation { name: name.into() }),
    }
}

/// The third argument of Python's `pow`.
pub struct PowerLike;

impl PowerLike {
    /// An error unless there is none.
    pub fn expect_no_modulo(modulo: &Bound<'_, PyAny>) -> PyResult<()> {
        if modulo.is_none() {
            return Ok(());
        }
        Err(PyTypeError::new_err("pow: a tensor takes no modulus"))
    }
}

/// A parameter's value.
pub fn value(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::None);
    }
    // The common case first: sizes and axes.
    if let Ok(tuple) = object.cast::<PyTuple>() {
        let exact = |item: Bound<'_, PyAny>| item.cast_exact::<PyInt>().ok()?.extract::<i64>().ok();
        if let Some(whole) = tuple.iter().map(exact).collect::<Option<Vec<i64>>>() {
            return Ok(Value::Ints(whole));
        }
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if object.cast::<PyInt>().is_ok() {
        return Ok(Value::Int(int(name, object)?));
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Value::Float(float.value()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::Text(text.to_string()));
    }
    if let Ok(dtype) = object.cast::<PyDType>() {
        return Ok(Value::Text(dtype.get().0.name().into()));
    }
    if let Ok(key) = object.cast::<PyKey>() {
        return Ok(Value::Key(key.get().0));
    }
    if let Ok(tensor) = object.cast::<PyTensor>() {
        let x = &tensor.get().0;
        if x.is_traced() && !x.is_mapped() {
            return Err(PyTypeError::new_err(format!(
                "{name} is a parameter, by which nothing is differentiated, and the tensor is being; if that is meant, write stop_gradient first"
            )));
        }
        if x.ndim() == 0 {
            return value(name, &tensor.call_method0("item")?);
        }
        return value(name, &tensor.call_method0("tolist")?);
    }
    let list = object.cast::<PyTuple>().is_ok() || object.cast::<PyList>().is_ok();
    if !list && object.hasattr(pyo3::intern!(object.py(), "__index__"))? {
        return Ok(Value::Int(int(name, object)?));
    }
    if list || object.hasattr(pyo3::intern!(object.py(), "__len__"))? {
        let items: Vec<Bound<'_, PyAny>> = convert::items(object)?.iter().collect();
        let pair = |item: &Bound<'_, PyAny>| -> PyResult<(i64, i64)> {
            let both: Vec<Bound<'_, PyAny>> = convert::items(item)?.iter().collect();
            match both.as_slice() {
                [a, b] => Ok((int(name, a)?, int(name, b)?)),
                _ => Err(PyValueError::new_err(format!("{name}: expected pairs of whole numbers"))),
            }
        };
        if items.iter().any(|item| item.cast::<PyTuple>().is_ok() || item.cast::<PyList>().is_ok())
        {
            return Ok(Value::Pairs(items.iter().map(pair).collect::<PyResult<_>>()?));
        }
        return Ok(Value::Ints(items.iter().map(|item| int(name, item)).collect::<PyResult<_>>()?));
    }
    if object.hasattr("__float__")? {
        return Ok(Value::Float(object.extract()?));
    }
    Err(PyTypeError::new_err(format!("{name}: cannot be {}", object.get_type().name()?)))
}

fn int(name: &str, object: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(whole) = object.cast_exact::<PyInt>()
        && let Ok(value) = whole.extract()
    {
        return Ok(value);
    }
    let index = object.call_method0("__index__").map_err(|_| {
        let class = object.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
        PyTypeError::new_err(format!("{name}: expected a whole number, not {class}"))
    })?;
    index.extract().map_err(|_| PyValueError::new_err(format!("{name}: {index} is too large")))
}

/// The value of a parameter that is a dtype: a name of the standard's is one of ours.
pub fn parameter(record: &Record, name: &str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let is_dtype = record.params.iter().any(|p| p.name == name && name == "dtype");
    if is_dtype && !object.is_none() {
        return Ok(Value::Text(crate::dtype::from_object(object)?.name().into()));
    }
    value(name, object)
}

/// Python's names for an operation's arguments, in order.
pub fn argument_names(record: &Record) -> Vec<&'static str> {
    let inputs =
        record.inputs.iter().map(|i| if i.count == Count::Many { "tensors" } else { i.name });
    inputs.chain(record.params.iter().map(|p| p.name)).collect()
}

/// Where an argument of this name is among these; the plural stands for the singular, which others say of
/// several.
pub fn position_of(names: &[&str], name: &str) -> Option<usize> {
    let named = |name: &str| names.iter().position(|n| *n == name);
    named(name).or_else(|| match name {
        "axes" => named("axis"),
        "shifts" => named("shift"),
        _ => None,
    })
}

// An operation of the catalogue. (Its text in Python is each operation's own: `__doc__`.)
#[pyclass(name = "Operation", module = "extensor", frozen)]
pub struct Function {
    pub record: &'static Record,
    /// What it is called where it stands: the catalogue's name, or the standard's.
    shown: String,
    /// Python's names for its arguments.
    names: Vec<&'static str>,
    /// The operation with all parameters at their defaults, where there are such.
    plain: Option<Box<dyn Operation>>,
}

/// What a call gives to an operation.
struct Call {
    inputs: Vec<Tensor>,
    op: Option<Box<dyn Operation>>,
}

impl Function {
    fn new(record: &'static Record) -> Function {
        let (shown, names) = (record.name.to_string(), argument_names(record));
        Function { record, shown, names, plain: record.operation(&Params::new()).ok() }
    }

    /// Binds the arguments.
    fn bind(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Call> {
        let (record, names) = (self.record, &self.names);
        if args.len() > names.len() {
            let (most, got) = (names.len(), args.len());
            let text = format!("{} takes at most {most} arguments, not {got}", record.name);
            return Err(PyTypeError::new_err(text));
        }
        let mut given: Vec<Option<Bound<'_, PyAny>>> = args.iter().map(Some).collect();
        given.resize(names.len(), None);
        for (name, object) in kwargs.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_string();
            let Some(at) = position_of(names, &name) else {
                let known = names.join(", ");
                let text = format!("{} has no argument {name:?}; it has {known}", record.name);
                return Err(PyTypeError::new_err(text));
            };
            if given[at].replace(object).is_some() {
                let text = format!("{}: argument {name:?} is given twice", record.name);
                return Err(PyTypeError::new_err(text));
            }
        }
        let mut inputs: Vec<Argument> = Vec::new();
        let (mut missing, mut waiting): (Option<&str>, Vec<i64>) = (None, Vec::new());
        for (input, object) in record.inputs.iter().zip(&given) {
            let object = object.as_ref().filter(|o| !o.is_none());
            match (input.count, object) {
                (Count::Many, Some(object)) => {
                    for item in convert::items(object)? {
                        inputs.push(self.argument("tensors", &item)?);
                    }
                }
                (_, Some(object)) => {
                    if let Some(missing) = missing {
                        let text =
                            format!("{}: {} is given without {missing}", record.name, input.name);
                        return Err(PyTypeError::new_err(text));
                    }
                    // What was left out before it, and is nothing.
                    for neutral in waiting.drain(..) {
                        let number = neutral.into_pyobject(object.py())?;
                        inputs.push(self.argument(input.name, &number)?);
                    }
                    inputs.push(self.argument(input.name, object)?);
                }
                (Count::Optional, None) => match input.neutral {
                    Some(neutral) => waiting.push(neutral),
                    None => missing = Some(input.name),
                },
                (_, None) => {
                    let text = format!("{}: {} must be given", record.name, input.name);
                    return Err(PyTypeError::new_err(text));
                }
            }
        }
        let inputs = convert::tensors(inputs)?;
        let mut params = Params::new();
        let mut plain = true;
        for (parameter, object) in record.params.iter().zip(&given[record.inputs.len()..]) {
            if let Some(object) = object {
                plain = false;
                params =
                    params.with(parameter.name, self::parameter(record, parameter.name, object)?);
            }
        }
        let op = if plain && self.plain.is_some() {
            None
        } else {
            Some(record.operation(&params).or_raise()?)
        };
        Ok(Call { inputs, op })
    }

    fn argument(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<Argument> {
        Argument::of(object)?.ok_or_else(|| {
            let class = object.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
            PyTypeError::new_err(format!(
                "{}: {name} is a {class}, expected a tensor",
                self.record.name
            ))
        })
    }

    fn outputs(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Outputs> {
        let call = self.bind(args, kwargs)?;
        let inputs: Vec<&Tensor> = call.inputs.iter().collect();
        self.record.expect_inputs(inputs.len()).or_raise()?;
        let Some(op) = call.op.as_deref().or(self.plain.as_deref()) else {
            return Err(PyTypeError::new_err(format!(
                "{}: parameters are missing",
                self.record.name
            )));
        };
        self.run(py, op, &inputs)
    }

    #[inline]
    fn run(&self, py: Python<'_>, op: &dyn Operation, inputs: &[&Tensor]) -> PyResult<Outputs> {
        let simple =
            matches!(self.record.class, Class::Elementwise | Class::Reduction | Class::Constant);
        let work = if simple { inputs.iter().map(|x| x.len()).sum() } else { usize::MAX };
        compute(py, work, || apply(op, inputs))
    }
}

/// A tuple of tensors.
pub fn tuple<'py>(
    py: Python<'py>,
    all: impl IntoIterator<Item = Tensor>,
) -> PyResult<Bound<'py, PyTuple>> {
    let all = all.into_iter().map(|x| Bound::new(py, PyTensor(x)));
    PyTuple::new(py, all.collect::<PyResult<Vec<_>>>()?)
}

/// One tensor, or a tuple of several.
pub fn results<'py>(
    py: Python<'py>,
    mut outputs: Outputs,
    count: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if count == 1 && !outputs.is_empty() {
        return Ok(Bound::new(py, PyTensor(outputs.swap_remove(0)))?.into_any());
    }
    outputs.truncate(count);
    Ok(tuple(py, outputs)?.into_any())
}

#[pymethods]
impl Function {
    /// The result, or a tuple of them.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // The common case by the shortest way: tensors, and parameters at their defaults.
        if let (Some(op), None, [first, ..]) = (&self.plain, kwargs, self.record.inputs)
            && args.len() == self.record.inputs.len()
            && first.count != Count::Many
        {
            let mut inputs: smallvec::SmallVec<[Bound<'_, PyTensor>; 3]> =
                smallvec::SmallVec::new();
            for arg in args.iter() {
                match arg.cast_into::<PyTensor>() {
                    Ok(tensor) => inputs.push(tensor),
                    Err(_) => break,
                }
            }
            if inputs.len() == args.len() {
                let refs: smallvec::SmallVec<[&Tensor; 3]> =
                    inputs.iter().map(|x| &x.get().0).collect();
                let outputs = self.run(py, &**op, &refs)?;
                let count = self.record.results(outputs.len());
                return results(py, outputs, count);
            }
        }
        let outputs = self.outputs(py, args, kwargs)?;
        let count = self.record.results(outputs.len());
        // Where there can be several results, one by itself is a tuple too.
        if self.record.backward.is_some_and(|s| s.of_kind(Kind::GradOutputs).is_some()) {
            return Ok(tuple(py, outputs)?.into_any());
        }
        results(py, outputs, count)
    }

    /// The results with what was found on the way (indices, a mask, statistics), as a tuple.
    #[pyo3(signature = (*args, **kwargs))]
    fn with_auxiliary<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(tuple(py, self.outputs(py, args, kwargs)?)?.into_any())
    }

    #[getter]
    fn __name__(&self) -> &str {
        &self.shown
    }
    #[getter]
    fn __qualname__(&self) -> &str {
        &self.shown
    }
    #[getter]
    fn __module__(&self) -> &'static str {
        "extensor"
    }
    #[getter]
    fn __doc__(&self) -> String {
        documentation(self.record)
    }

    /// The arguments, as `inspect.signature` shows them.
    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let arguments = arguments_of(self.record);
        py.import("extensor._exchange")?.call_method1("signature", (arguments,))
    }

    /// What the catalogue says of the operation.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info(py, self.record)
    }

    fn __repr__(&self) -> String {
        let signature = self.record.signature();
        let arguments = signature.strip_prefix(self.record.name).unwrap_or(&signature);
        format!("<extensor operation {}{arguments}>", self.shown)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (&'static str, String))> {
        let function = py.import("extensor._core")?.getattr("operation_of_name")?;
        Ok((function.unbind(), (self.record.name, self.shown.clone())))
    }
}

/// What the catalogue says of an operation.
pub fn info<'py>(py: Python<'py>, record: &'static Record) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", record.name)?;
    dict.set_item("family", record.family.to_string())?;
    dict.set_item("formula", record.formula)?;
    dict.set_item("derivative", record.derivative)?;
    dict.set_item("domain", record.domain)?;
    dict.set_item("conventions", record.conventions)?;
    dict.set_item("signature", record.signature())?;
    dict.set_item("backward", record.backward_signature())?;
    dict.set_item("order", record.order)?;
    dict.set_item("inputs", argument_names(record)[..record.inputs.len()].to_vec())?;
    let differentiable =
        record.inputs.iter().map(|i| i.differentiable && record.is_differentiable());
    dict.set_item("differentiable", differentiable.collect::<Vec<bool>>())?;
    dict.set_item("many", record.inputs.iter().any(|i| i.count == Count::Many))?;
    dict.set_item("params", record.params.iter().map(|p| p.name).collect::<Vec<_>>())?;
    dict.set_item("auxiliary", record.auxiliary)?;
    Ok(dict)
}

/// Names and defaults: `(name, default or None for "must be given", positional only)`.
pub fn arguments_of(record: &Record) -> Vec<(String, Option<String>)> {
    let inputs = record.inputs.iter().map(|i| match i.count {
        Count::One => (i.name.to_string(), None),
        Count::Many => ("tensors".to_string(), None),
        Count::Optional => (i.name.to_string(), Some("None".to_string())),
    });
    let params = record.params.iter().map(|p| (p.name.to_string(), p.default.map(python_default)));
    let mut all: Vec<(String, Option<String>)> = inputs.chain(params).collect();
    // After an argument that may be left out, Python wants all others to have a default.
    if let Some(first) = all.iter().position(|(_, default)| default.is_some()) {
        for (_, default) in &mut all[first..] {
            default.get_or_insert_with(|| "None".into());
        }
    }
    all
}

fn python_default(text: &str) -> String {
    match text {
        "true" => "True".into(),
        "false" => "False".into(),
        // Another argument's name stands for its value.
        t if t.chars().next().is_some_and(|c| c.is_ascii_lowercase()) => "None".into(),
        t => t.into(),
    }
}

/// The text of a function.
fn documentation(record: &Record) -> String {
    let mut text = format!("{}\n\nderivative: {}\n", record.formula, record.derivative);
    for (name, part) in [("domain", record.domain), ("conventions", record.conventions)] {
        if !part.is_empty() {
            text += &format!("{name}: {part}\n");
        }
    }
    for p in record.params {
        let default = p.default.map_or(String::new(), |d| format!(" (default {d})"));
        text += &format!("{}: {}{default}\n", p.name, p.what);
    }
    if let Some(signature) = record.backward {
        text += &format!("backward: {signature}\n");
    }
    text
}

/// The operation of a name, shown under that name or another.
#[pyfunction]
#[pyo3(signature = (name, shown = None))]
pub fn operation_of_name(name: &str, shown: Option<String>) -> PyResult<Function> {
    let found = Function::new(catalogue::find(name).or_raise()?);
    Ok(Function { shown: shown.unwrap_or(name.into()), ..found })
}

/// What others call the operations: for each such name those that it stands for.
#[pyfunction]
pub fn aliases(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for name in CATALOGUE.iter().flat_map(|record| record.aliases()) {
        let here: Vec<&str> = known_as(name).map(|record| record.name).collect();
        all.set_item(name, here)?;
    }
    Ok(all)
}

/// All operations and their backward functions by name, in the catalogue's order.
#[pyfunction]
pub fn operations<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for record in CATALOGUE {
        all.set_item(record.name, Bound::new(py, Function::new(record))?)?;
        if let Some(backward) = Backward::of(record) {
            all.set_item(backward.name(), Bound::new(py, backward)?)?;
        }
    }
    Ok(all)
}
