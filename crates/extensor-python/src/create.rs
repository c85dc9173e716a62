//! New tensors: of Python's and other libraries' numbers, filled, counted, spaced.

use crate::buffers;
use crate::convert::{self, Number};
use crate::dtype::{self, python_name};
use crate::error::OrRaise;
use crate::function::{self, compute};
use crate::random::shape as shape_of;
use crate::tensor::{PyTensor, expect_device};
use extensor::{DType, Kind, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// Every element `fill_value`, in the dtype of the value unless another is given.
#[pyfunction]
#[pyo3(signature = (shape, fill_value, *, dtype = None, device = None))]
pub fn full(
    py: Python<'_>,
    shape: &Bound<'_, PyAny>,
    fill_value: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    expect_device(device)?;
    let shape = shape_of(shape)?;
    let dtype = dtype::optional(dtype)?;
    let Some(number) = Number::of(fill_value)? else {
        return Err(PyTypeError::new_err("full: fill_value is a Python number"));
    };
    let dtype = dtype.unwrap_or(number.default_dtype());
    let one = number.tensor(dtype)?;
    compute(py, usize::MAX, || {
        let zero = one.to_f64_vec().iter().all(|v| *v == 0.0 && v.is_sign_positive());
        if zero { Tensor::zeros(shape, dtype) } else { filled(&one, shape) }
    })
    .map(PyTensor)
}

fn filled(one: &Tensor, shape: Vec<usize>) -> extensor::Result<Tensor> {
    extensor::ops::broadcast_to(one, &shape)?.copied()
}

/// The numbers from `start` to `stop` (not included) in steps of `step`.
#[pyfunction]
#[pyo3(signature = (start, stop, step, dtype = None))]
pub fn arange(
    py: Python<'_>,
    start: &Bound<'_, PyAny>,
    stop: &Bound<'_, PyAny>,
    step: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    let parts = [start, stop, step].map(|part| match Number::of(part) {
        Ok(Some(Number::Bool(_)) | None) => {
            Err(PyTypeError::new_err("arange: start, stop and step are Python numbers"))
        }
        Ok(Some(Number::Large(v))) => {
            let text = format!("arange: {v:e} is beyond what any dtype holds");
            Err(pyo3::exceptions::PyOverflowError::new_err(text))
        }
        Ok(Some(number)) => Ok(number),
        Err(error) => Err(error),
    });
    let [start, stop, step] = parts;
    let [start, stop, step] = [start?, stop?, step?];
    let whole = |n: Number| match n {
        Number::Int(v) => Some(v),
        _ => None,
    };
    let integers = (whole(start), whole(stop), whole(step));
    let natural = if let (Some(_), Some(_), Some(_)) = integers { DType::I64 } else { DType::F64 };
    let dtype = dtype::optional(dtype)?.unwrap_or(natural);
    if let (Some(start), Some(stop), Some(step)) = integers {
        if let Some(far) = [start, stop, step].into_iter().find(|v| v.unsigned_abs() > 1 << 64) {
            let text = format!("arange: {far} is beyond what any dtype holds");
            return Err(pyo3::exceptions::PyOverflowError::new_err(text));
        }
        if step == 0 {
            return Err(PyValueError::new_err("arange: step is 0, expected another number"));
        }
        let span = if step > 0 { stop.saturating_sub(start) } else { start.saturating_sub(stop) };
        let size = step.unsigned_abs() as i128;
        let count = if span <= 0 { 0 } else { (span + size - 1) / size };
        let Some(count) = usize::try_from(count).ok().filter(|&n| n <= isize::MAX as usize / 8)
        else {
            return Err(PyValueError::new_err(
                "arange: there are more numbers than memory can address",
            ));
        };
        let (low, high) = match (dtype.kind(), dtype) {
            (Kind::Int, d) => d.integer_range(),
            _ => (i128::MIN, i128::MAX),
        };
        let last = start + step * (count as i128 - 1).max(0);
        if count > 0 && (start.min(last) < low || start.max(last) > high) {
            let text = format!("arange: {start} to {last} do not fit {}", python_name(dtype));
            return Err(pyo3::exceptions::PyOverflowError::new_err(text));
        }
        // What i64 cannot hold goes by u64, whose additions wrap to the same bits.
        return compute(py, count, || {
            Tensor::whole_numbers("arange", count, |i| (start + step * i as i128) as i64)
        })
        .and_then(|x| {
            let wide = if dtype == DType::U64 { reinterpret(&x)? } else { x };
            extensor::ops::cast(&wide, dtype).or_raise().map(PyTensor)
        });
    }
    let real = |n: Number| match n {
        Number::Int(v) => v as f64,
        Number::Float(v) | Number::Large(v) => v,
        Number::Bool(v) => f64::from(u8::from(v)),
    };
    compute(py, usize::MAX, || Tensor::arange(real(start), real(stop), real(step), dtype))
        .map(PyTensor)
}

/// The same bits as unsigned numbers.
fn reinterpret(x: &Tensor) -> PyResult<Tensor> {
    Tensor::of_bytes(&x.to_bytes().or_raise()?, x.shape().clone(), DType::U64).or_raise()
}

/// `num` numbers evenly spaced from `start` to `stop`.
#[pyfunction]
#[pyo3(signature = (start, stop, num, dtype, endpoint))]
pub fn linspace(
    py: Python<'_>,
    start: f64,
    stop: f64,
    num: usize,
    dtype: &Bound<'_, PyAny>,
    endpoint: bool,
) -> PyResult<PyTensor> {
    let dtype = dtype::from_object(dtype)?;
    if !dtype.is_float() {
        return Err(PyTypeError::new_err("linspace: dtype is not a float type"));
    }
    compute(py, usize::MAX, || {
        if endpoint || num == 0 {
            return Tensor::linspace(start, stop, num, dtype);
        }
        let all = Tensor::linspace(start, stop, num.saturating_add(1), dtype)?;
        extensor::ops::slice(&all, 0, 0i64, num as i64, 1)
    })
    .map(PyTensor)
}

/// Ones on diagonal number `k` of a matrix, zeros elsewhere.
#[pyfunction]
#[pyo3(signature = (rows, columns, k, dtype))]
pub fn eye(
    py: Python<'_>,
    rows: usize,
    columns: usize,
    k: i64,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<PyTensor> {
    let dtype = dtype::from_object(dtype)?;
    compute(py, usize::MAX, || {
        let line = |n: usize| Tensor::whole_numbers("eye", n, |i| i as i64);
        let column = extensor::ops::reshape(&line(rows)?, [rows as i64, 1])?;
        let shifted = extensor::ops::subtract(&line(columns)?, &Tensor::scalar(k))?;
        extensor::ops::cast(&extensor::ops::equal(&column, &shifted)?, dtype)
    })
    .map(PyTensor)
}

/// A tensor of its bytes, for `pickle`.
#[pyfunction]
pub fn tensor_of_bytes(
    bytes: &[u8],
    shape: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<PyTensor> {
    let shape: Vec<usize> = convert::whole_numbers_of(shape)?;
    let dtype = dtype::from_object(dtype)?;
    Tensor::of_bytes(bytes, shape, dtype).or_raise().map(PyTensor)
}

/// A tensor of numbers, nested sequences, or another library's array.
///
/// An array is copied, unless nobody can write its memory: it is read-only, and so is what it is a view
/// of (`bytes`, a file mapped for reading, a tensor's own memory). `copy=True` always copies. `copy=False`
/// never does: then a write to the array shows in the tensor, and in gradients that are computed later.
#[pyfunction]
#[pyo3(signature = (obj, /, *, dtype = None, device = None, copy = None))]
pub fn asarray(
    py: Python<'_>,
    obj: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<PyTensor> {
    expect_device(device)?;
    let dtype = dtype::optional(dtype)?;
    let found = match convert::shared(obj, copy)? {
        Some(found) => Some(found),
        None if obj.cast::<PyList>().is_err() && obj.cast::<PyTuple>().is_err() => {
            buffers::import(obj, copy)?
        }
        None => None,
    };
    let Some(found) = found else {
        if copy == Some(false) {
            return Err(PyValueError::new_err("asarray: Python numbers must be copied"));
        }
        return convert::from_nested(obj, dtype).map(PyTensor);
    };
    if let Some(dtype) = dtype
        && dtype != found.shared().dtype()
    {
        let found = found.shared();
        if copy == Some(false) {
            let (from, to) = (python_name(found.dtype()), python_name(dtype));
            return Err(PyValueError::new_err(format!(
                "asarray: {from} must be copied to become {to}"
            )));
        }
        return function::compute(py, found.len(), || extensor::ops::cast(found, dtype))
            .map(PyTensor);
    }
    found.tensor(py, copy).map(PyTensor)
}

/// Whether two tensors look at the same memory.
#[pyfunction]
pub fn shares_memory(a: &PyTensor, b: &PyTensor) -> bool {
    a.0.shares_memory_with(&b.0)
}
