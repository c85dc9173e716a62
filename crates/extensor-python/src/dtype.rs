//! The dtypes as Python objects: one for each, equal only to itself.

use extensor::{DType, Kind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyType};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The type of a tensor's elements.
#[pyclass(name = "DType", module = "extensor", frozen)]
pub struct PyDType(pub DType);

/// The standard's name: `float32` for `f32`.
pub fn python_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
    }
}

/// The dtype of the standard's name, or of Python's. (Not of ours: `i8` is eight bits here and eight
/// bytes to NumPy.)
fn from_text(text: &str) -> Option<DType> {
    match text {
        "int" => Some(DType::I64),
        "float" => Some(DType::F64),
        _ => DType::ALL.into_iter().find(|&d| python_name(d) == text),
    }
}

/// The one object that stands for a dtype.
pub fn object(py: Python<'_>, dtype: DType) -> PyResult<Py<PyDType>> {
    static ALL: PyOnceLock<Vec<(DType, Py<PyDType>)>> = PyOnceLock::new();
    let all = ALL.get_or_try_init(py, || {
        DType::ALL.into_iter().map(|d| Ok((d, Py::new(py, PyDType(d))?))).collect::<PyResult<_>>()
    })?;
    match all.iter().find(|(d, _)| *d == dtype) {
        Some((_, object)) => Ok(object.clone_ref(py)),
        None => Py::new(py, PyDType(dtype)),
    }
}

/// The dtype that an argument names: one of ours, a name, `bool`, `int` or `float`, or a NumPy dtype.
pub fn from_object(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    if let Ok(dtype) = value.cast::<PyDType>() {
        return Ok(dtype.get().0);
    }
    let unknown = |text: &str| PyTypeError::new_err(format!("there is no dtype {text}"));
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_string();
        return from_text(&text).ok_or_else(|| unknown(&format!("{text:?}")));
    }
    let py = value.py();
    if let Ok(class) = value.cast::<PyType>() {
        if class.is(PyType::new::<PyBool>(py)) {
            return Ok(DType::Bool);
        }
        if class.is(PyType::new::<PyInt>(py)) {
            return Ok(DType::I64);
        }
        if class.is(PyType::new::<PyFloat>(py)) {
            return Ok(DType::F64);
        }
        // A NumPy scalar class: its name is its dtype's.
        let name: String = class.name()?.extract()?;
        return from_text(name.trim_end_matches('_')).ok_or_else(|| unknown(&name));
    }
    let name = value.getattr("name").ok().and_then(|n| n.extract::<String>().ok());
    match name.as_deref().and_then(from_text) {
        Some(dtype) => Ok(dtype),
        None => Err(unknown(&value.repr()?.to_string())),
    }
}

/// Likewise, or nothing for `None`.
pub fn optional(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    value.filter(|v| !v.is_none()).map(from_object).transpose()
}

#[pymethods]
impl PyDType {
    /// The standard's name.
    #[getter]
    fn name(&self) -> &'static str {
        python_name(self.0)
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// The smallest and the largest value of a whole-number dtype.
    #[getter]
    fn integer_range(&self) -> (i128, i128) {
        self.0.integer_range()
    }

    /// Whether it is a float dtype.
    #[getter]
    fn is_float(&self) -> bool {
        self.0.is_float()
    }

    /// `'b'`, `'i'`, `'u'` or `'f'`.
    #[getter]
    fn kind(&self) -> char {
        match self.0.kind() {
            Kind::Bool => 'b',
            Kind::Float => 'f',
            Kind::Int if self.0.integer_range().0 == 0 => 'u',
            Kind::Int => 'i',
        }
    }

    /// The largest finite value, the distance from 1 to the next value, and the smallest normal
    /// value, of a float dtype.
    #[getter]
    fn float_limits(&self) -> (f64, f64, f64) {
        let smallest = match self.0 {
            DType::F16 => 2.0f64.powi(-14),
            DType::BF16 | DType::F32 => f64::from(f32::MIN_POSITIVE),
            _ => f64::MIN_POSITIVE,
        };
        (self.0.max_finite(), self.0.epsilon(), smallest)
    }

    /// The dtype that holds values of both, or `None`.
    fn promote(&self, py: Python<'_>, other: &PyDType) -> PyResult<Option<Py<PyDType>>> {
        self.0.promote(other.0).map(|d| object(py, d)).transpose()
    }

    fn __repr__(&self) -> String {
        format!("extensor.{}", python_name(self.0))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        !other.is_none() && from_object(other).is_ok_and(|other| other == self.0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (&'static str,))> {
        let function = py.import("extensor._core")?.getattr("dtype_of_name")?;
        Ok((function.unbind(), (python_name(self.0),)))
    }
}

/// The dtype of a name, a NumPy dtype or a Python type.
#[pyfunction]
pub fn dtype_of_name(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Py<PyDType>> {
    object(py, from_object(name)?)
}
