//! Python objects as tensors: numbers, nested sequences, other libraries' arrays.
//!
//! A Python number beside a tensor takes the tensor's dtype, as the Array API standard has it.
//! This module must not know any operation.

use crate::buffers;
use crate::dlpack;
use crate::dtype::python_name;
use crate::error::OrRaise;
use crate::imported::Imported;
use crate::tensor::PyTensor;
use extensor::ops::cast;
use extensor::{DType, Kind, Tensor};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

/// How deep nested sequences may be: deeper ones contain themselves.
const DEEPEST: usize = 64;

/// A Python number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// `True` or `False`.
    Bool(bool),
    /// An `int`.
    Int(i128),
    /// An `int` that only floats reach, as near as one comes.
    Large(f64),
    /// A `float`.
    Float(f64),
}

impl Number {
    /// The number that an object is, if it is a Python number (or behaves like an integer).
    pub fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
        if let Ok(float) = value.cast::<PyFloat>() {
            return Ok(Some(Number::Float(float.value())));
        }
        if let Ok(flag) = value.cast::<PyBool>() {
            return Ok(Some(Number::Bool(flag.is_true())));
        }
        if value.cast::<PyInt>().is_ok() {
            let too_large =
                |_| PyOverflowError::new_err("the whole number is beyond what any dtype holds");
            return match value.extract::<i128>() {
                Ok(v) => Ok(Some(Number::Int(v))),
                Err(_) => value.extract().map(|v| Some(Number::Large(v))).map_err(too_large),
            };
        }
        if value.cast::<PyComplex>().is_ok() {
            return Err(PyTypeError::new_err("complex numbers are not supported"));
        }
        Ok(None)
    }

    fn kind(self) -> Kind {
        match self {
            Number::Bool(_) => Kind::Bool,
            Number::Int(_) | Number::Large(_) => Kind::Int,
            Number::Float(_) => Kind::Float,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Number::Bool(_) => "bool",
            Number::Int(_) | Number::Large(_) => "int",
            Number::Float(_) => "float",
        }
    }

    /// The dtype of a tensor made of the number alone.
    pub fn default_dtype(self) -> DType {
        match self {
            Number::Bool(_) => DType::Bool,
            Number::Int(v) if i64::try_from(v).is_ok() => DType::I64,
            Number::Int(_) | Number::Large(_) => DType::U64,
            Number::Float(_) => DType::F64,
        }
    }

    /// A 0-d tensor of the number in a dtype that can hold it.
    pub fn tensor(self, dtype: DType) -> PyResult<Tensor> {
        Ok(match (self, dtype.kind()) {
            (Number::Float(v) | Number::Large(v), Kind::Float) => {
                Tensor::scalar_of(v, dtype).or_raise()?
            }
            (Number::Large(v), _) => return Err(beyond(v)),
            (Number::Int(v), Kind::Float) => Tensor::scalar_of(v as f64, dtype).or_raise()?,
            (Number::Bool(v), _) => cast(&Tensor::scalar(v), dtype).or_raise()?,
            (Number::Int(v), Kind::Int) => whole(v, dtype)?,
            (Number::Int(v), Kind::Bool) if v == 0 || v == 1 => Tensor::scalar(v == 1),
            _ => return Err(self.misfit(dtype)),
        })
    }

    /// The number beside a tensor of `dtype`, whose dtype it takes.
    pub fn beside(self, dtype: DType) -> PyResult<Tensor> {
        if self.mixes_with(dtype) { self.tensor(dtype) } else { Err(self.misfit(dtype)) }
    }

    /// Whether the number may stand beside a tensor of `dtype`: a bool beside bools, an int beside
    /// numbers, a float beside floats.
    fn mixes_with(self, dtype: DType) -> bool {
        self.kind() == dtype.kind() || (self.kind() == Kind::Int && dtype.is_float())
    }

    fn misfit(self, dtype: DType) -> PyErr {
        let (class, dtype) = (self.class(), python_name(dtype));
        PyTypeError::new_err(format!(
            "a Python {class} does not mix with dtype {dtype}; cast one of them"
        ))
    }
}

fn beyond(value: f64) -> PyErr {
    let text = format!("a whole number near {value:e} is beyond what any whole-number dtype holds");
    PyOverflowError::new_err(text)
}

fn whole(value: i128, dtype: DType) -> PyResult<Tensor> {
    let (low, high) = dtype.integer_range();
    if value < low || value > high {
        let name = python_name(dtype);
        return Err(PyOverflowError::new_err(format!("{value} is out of range for {name}")));
    }
    let wide = match i64::try_from(value) {
        Ok(value) => Tensor::scalar(value),
        Err(_) => Tensor::scalar(value as u64),
    };
    cast(&wide, dtype).or_raise()
}

/// A tensor of ours, or of another library's array if the object is one: copied, unless nobody can write
/// its memory.
#[inline]
pub fn array(value: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if let Ok(tensor) = value.cast::<PyTensor>() {
        return Ok(Some(tensor.get().0.clone()));
    }
    shared(value, None)?.map(|found| found.tensor(value.py(), None)).transpose()
}

/// A tensor of ours, or over another library's array if the object is one, not copied here; with `copy`
/// false an array that would have to be copied is an error.
pub fn shared(value: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Option<Imported>> {
    if let Ok(tensor) = value.cast::<PyTensor>() {
        return Ok(Some(Imported::fixed(tensor.get().0.clone())));
    }
    if value.cast::<PyFloat>().is_ok()
        || value.cast::<PyInt>().is_ok()
        || value.cast::<PyString>().is_ok()
        || value.cast::<PyType>().is_ok()
    {
        return Ok(None);
    }
    let py = value.py();
    let described = value.hasattr(pyo3::intern!(py, "__array_interface__"))?;
    if described && let Some(found) = buffers::import(value, copy)? {
        // What is no number (a date, a record) shows its bare bytes.
        if found.shared().dtype() == DType::U8 && !numeric(value)? {
            return Err(not_numbers(value));
        }
        return Ok(Some(found));
    }
    if described && !numeric(value)? {
        return Err(not_numbers(value));
    }
    if value.hasattr(pyo3::intern!(py, "__dlpack__"))? {
        return dlpack::import(value, copy).map(Some);
    }
    if described && let Some(found) = buffers::from_interface(value, copy)? {
        return Ok(Some(found));
    }
    if value.hasattr(pyo3::intern!(py, "__array__"))? {
        let made = value.call_method0(pyo3::intern!(py, "__array__"))?;
        return buffers::import(&made, copy);
    }
    Ok(None)
}

/// Whether an array interface speaks of numbers. (What it lacks is said by those who read it.)
fn numeric(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let interface = value.getattr("__array_interface__")?;
    let Ok(kind) = interface.get_item("typestr") else { return Ok(true) };
    let Ok(kind) = kind.extract::<String>() else { return Ok(true) };
    Ok(kind.chars().nth(1).is_none_or(|kind| "biufc".contains(kind)))
}

fn not_numbers(value: &Bound<'_, PyAny>) -> PyErr {
    let class = value.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
    PyTypeError::new_err(format!("a {class} of this dtype holds no numbers that a tensor can hold"))
}

/// The items of any iterable as a list. (Python makes it: one that is too long for the memory is its
/// `MemoryError`, and what an object says of its length is not believed.)
pub fn items<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    if let Ok(list) = value.cast::<PyList>() {
        return Ok(list.clone());
    }
    let made = value.py().get_type::<PyList>().call1((value,))?;
    made.cast_into::<PyList>().map_err(PyErr::from)
}

/// The whole numbers of any iterable.
pub fn whole_numbers_of<T>(value: &Bound<'_, PyAny>) -> PyResult<Vec<T>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    items(value)?.iter().map(|item| item.extract::<T>()).collect()
}

/// An argument that stands for a tensor: a tensor, an array or a Python number.
pub enum Argument {
    /// A tensor.
    Tensor(Tensor),
    /// A number, whose dtype the tensors beside it decide.
    Number(Number),
}

impl Argument {
    /// What an object is.
    pub fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Argument>> {
        if let Some(tensor) = array(value)? {
            return Ok(Some(Argument::Tensor(tensor)));
        }
        Ok(Number::of(value)?.map(Argument::Number))
    }
}

/// The arguments as tensors: a number takes the dtype of those tensors beside it whose kind it mixes
/// with. (A condition or an index beside it says nothing of a float's dtype.)
pub fn tensors(arguments: Vec<Argument>) -> PyResult<Vec<Tensor>> {
    let dtypes: Vec<DType> = arguments
        .iter()
        .filter_map(|argument| match argument {
            Argument::Tensor(x) => Some(x.dtype()),
            Argument::Number(_) => None,
        })
        .collect();
    let common = |n: Number| {
        let near = dtypes.iter().copied().filter(|&dtype| n.mixes_with(dtype));
        let joined = near.reduce(|a, b| a.promote(b).unwrap_or(a));
        joined.or_else(|| dtypes.first().copied())
    };
    let numbers = arguments.iter().filter_map(|a| match a {
        Argument::Number(n) => Some(n.default_dtype()),
        Argument::Tensor(_) => None,
    });
    let alone = numbers.reduce(|a, b| if rank(a) >= rank(b) { a } else { b });
    let one = |argument| match argument {
        Argument::Tensor(x) => Ok(x),
        Argument::Number(n) => match (common(n), alone) {
            (Some(dtype), _) => n.beside(dtype),
            (None, Some(dtype)) => n.tensor(dtype),
            (None, None) => n.tensor(n.default_dtype()),
        },
    };
    arguments.into_iter().map(one).collect()
}

fn rank(dtype: DType) -> u8 {
    match dtype.kind() {
        Kind::Bool => 0,
        Kind::Int => 1,
        Kind::Float => 2,
    }
}

/// A new tensor of numbers and nested sequences of numbers, arrays and tensors.
pub fn from_nested(value: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    if let Some(number) = Number::of(value)? {
        return converted(number, dtype);
    }
    let mut found = Found::default();
    found.walk(value, 0)?;
    found.finish(dtype)
}

fn converted(number: Number, dtype: Option<DType>) -> PyResult<Tensor> {
    let dtype = dtype.unwrap_or(number.default_dtype());
    match (number, dtype.kind()) {
        (Number::Float(_), Kind::Int | Kind::Bool) | (Number::Int(_), Kind::Bool) => {
            cast(&number.tensor(number.default_dtype())?, dtype).or_raise()
        }
        _ => number.tensor(dtype),
    }
}

/// The numbers of nested sequences, in row-major order.
#[derive(Default)]
struct Found {
    shape: Vec<usize>,
    /// Whether the depth of the numbers is known.
    full: bool,
    numbers: Vec<Number>,
    tensors: Vec<Tensor>,
}

impl Found {
    fn walk(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
        if depth > DEEPEST {
            let text = format!("the sequence is nested more than {DEEPEST} deep");
            return Err(PyValueError::new_err(text));
        }
        if let Some(number) = Number::of(value)? {
            self.leaf(depth)?;
            self.numbers.push(number);
            return Ok(());
        }
        if let Some(tensor) = array(value)? {
            self.leaf(depth)?;
            self.tensors.push(tensor);
            return Ok(());
        }
        let items: Vec<Bound<'_, PyAny>> = if let Ok(list) = value.cast::<PyList>() {
            list.iter().collect()
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            tuple.iter().collect()
        } else if value.cast::<PyString>().is_err()
            && value.cast::<PyDict>().is_err()
            && value.len().is_ok()
            && value.hasattr("__getitem__")?
        {
            self::items(value)?.iter().collect()
        } else {
            let class = value.get_type().name()?;
            return Err(PyTypeError::new_err(format!("cannot make a tensor of {class}")));
        };
        if depth == self.shape.len() {
            if self.full {
                return Err(ragged());
            }
            self.shape.push(items.len());
        } else if self.shape[depth] != items.len() {
            return Err(ragged());
        }
        items.iter().try_for_each(|item| self.walk(item, depth + 1))
    }

    fn leaf(&mut self, depth: usize) -> PyResult<()> {
        if depth != self.shape.len() {
            return Err(ragged());
        }
        self.full = true;
        Ok(())
    }

    fn finish(self, dtype: Option<DType>) -> PyResult<Tensor> {
        if !self.tensors.is_empty() {
            if !self.numbers.is_empty() {
                return Err(PyTypeError::new_err("a sequence holds both tensors and numbers"));
            }
            let refs: Vec<&Tensor> = self.tensors.iter().collect();
            let stacked = extensor::ops::stack(&refs, 0).or_raise()?;
            let mut shape: Vec<i64> = self.shape.iter().map(|&n| n as i64).collect();
            shape.extend(self.tensors[0].shape().iter().map(|&n| n as i64));
            let joined = extensor::ops::reshape(&stacked, &shape).or_raise()?;
            return dtype.map_or(Ok(joined.clone()), |d| cast(&joined, d)).or_raise();
        }
        let widest = self.numbers.iter().map(|n| n.default_dtype());
        let natural = widest.reduce(|a, b| match (a, b) {
            (DType::U64, DType::I64) | (DType::I64, DType::U64) => DType::U64,
            _ if rank(a) >= rank(b) => a,
            _ => b,
        });
        let natural = natural.unwrap_or(DType::F64);
        let target = dtype.unwrap_or(natural);
        let made = match natural.kind() {
            Kind::Bool => {
                let values = self.numbers.iter().map(|n| matches!(n, Number::Bool(true)));
                Tensor::from_vec(values.collect::<Vec<bool>>(), self.shape).or_raise()?
            }
            Kind::Float => {
                let values = self.numbers.iter().map(|n| match *n {
                    Number::Float(v) | Number::Large(v) => v,
                    Number::Int(v) => v as f64,
                    Number::Bool(v) => f64::from(u8::from(v)),
                });
                Tensor::from_vec(values.collect::<Vec<f64>>(), self.shape).or_raise()?
            }
            Kind::Int => return whole_numbers(&self.numbers, self.shape, natural, target),
        };
        if target == natural { Ok(made) } else { cast(&made, target).or_raise() }
    }
}

fn whole_numbers(
    numbers: &[Number],
    shape: Vec<usize>,
    natural: DType,
    target: DType,
) -> PyResult<Tensor> {
    let limit = if target.is_int() { target } else { natural };
    let (low, high) = limit.integer_range();
    let mut values = Vec::with_capacity(numbers.len());
    for number in numbers {
        let value = match *number {
            Number::Int(v) => v,
            Number::Bool(v) => i128::from(v),
            Number::Large(v) => return Err(beyond(v)),
            Number::Float(v) => v as i128,
        };
        if value < low || value > high {
            let name = python_name(limit);
            return Err(PyOverflowError::new_err(format!("{value} is out of range for {name}")));
        }
        values.push(value);
    }
    let made = if natural == DType::U64 || target == DType::U64 {
        let values = values.iter().map(|&v| v as u64);
        Tensor::from_vec(values.collect::<Vec<u64>>(), shape).or_raise()?
    } else {
        let values = values.iter().map(|&v| v as i64);
        Tensor::from_vec(values.collect::<Vec<i64>>(), shape).or_raise()?
    };
    cast(&made, target).or_raise()
}

fn ragged() -> PyErr {
    PyValueError::new_err("the nested sequence is ragged: its parts differ in length or depth")
}
