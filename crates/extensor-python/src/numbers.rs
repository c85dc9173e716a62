//! A tensor's elements as Python numbers.

use crate::error::{OrRaise, expect_memory};
use crate::tensor::expect_plain;
use extensor::{DType, Kind, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList};

/// The one element of a 0-d tensor as a Python number; an error if the tensor is being differentiated.
pub fn number<'py>(py: Python<'py>, x: &Tensor, what: &'static str) -> PyResult<Bound<'py, PyAny>> {
    if !x.shape().is_empty() {
        let text =
            format!("{what}: only a 0-d tensor is a number, this one has shape {}", x.shape());
        return Err(PyTypeError::new_err(text));
    }
    expect_plain(what, x)?;
    element(py, x)
}

/// The first element as a Python number. (Floats must be plain: see [`expect_plain`].)
pub fn element<'py>(py: Python<'py>, x: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    Ok(match x.dtype() {
        DType::Bool => x.item::<bool>().or_raise()?.into_pyobject(py)?.to_owned().into_any(),
        DType::U64 => x.item::<u64>().or_raise()?.into_pyobject(py)?.into_any(),
        d if d.is_int() => {
            let wide = extensor::ops::cast(x, DType::I64).or_raise()?;
            wide.item::<i64>().or_raise()?.into_pyobject(py)?.into_any()
        }
        DType::F64 => x.item::<f64>().or_raise()?.into_pyobject(py)?.into_any(),
        DType::F32 => f64::from(x.item::<f32>().or_raise()?).into_pyobject(py)?.into_any(),
        _ => x.to_f64_vec().first().copied().unwrap_or(f64::NAN).into_pyobject(py)?.into_any(),
    })
}

/// How deep the lists of `tolist` may be nested.
pub const MOST_NESTED: usize = 100;

/// Nested lists of Python numbers.
pub fn nested<'py>(
    py: Python<'py>,
    shape: &[usize],
    all: &mut dyn Iterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match shape {
        [] => all.next().ok_or_else(|| PyValueError::new_err("tolist: too few elements")),
        [n, inner @ ..] => {
            let items: Vec<_> = (0..*n).map(|_| nested(py, inner, all)).collect::<PyResult<_>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
    }
}

/// All elements as Python numbers, in row-major order. (Floats must be plain: see [`expect_plain`].)
pub fn elements<'py>(py: Python<'py>, x: &Tensor) -> PyResult<Vec<Bound<'py, PyAny>>> {
    // A number is an object, and there are two lists of them on the way.
    expect_memory("tolist", x.len().saturating_mul(48))?;
    let object = |v: f64| PyFloat::new(py, v).into_any();
    Ok(match x.dtype().kind() {
        Kind::Float => x.to_f64_vec().into_iter().map(object).collect(),
        Kind::Bool => x
            .to_vec::<bool>()
            .or_raise()?
            .into_iter()
            .map(|v| Ok(v.into_pyobject(py)?.to_owned().into_any()))
            .collect::<PyResult<_>>()?,
        Kind::Int if x.dtype() == DType::U64 => x
            .to_vec::<u64>()
            .or_raise()?
            .into_iter()
            .map(|v| Ok(v.into_pyobject(py)?.into_any()))
            .collect::<PyResult<_>>()?,
        Kind::Int => {
            let wide = extensor::ops::cast(x, DType::I64).or_raise()?;
            wide.to_vec::<i64>()
                .or_raise()?
                .into_iter()
                .map(|v| Ok(v.into_pyobject(py)?.into_any()))
                .collect::<PyResult<_>>()?
        }
    })
}
