//! Keys of random numbers as Python objects: there is no hidden state.

use crate::dtype;
use crate::error::{OrRaise, expect_memory};
use crate::function::compute;
use crate::tensor::PyTensor;
use extensor::{DType, Error, Key};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Names a stream of random numbers: the same key always gives the same numbers.
///
/// Never draw twice from one key; make new ones with `split` or `fold_in`.
#[pyclass(name = "Key", module = "extensor", frozen)]
pub struct PyKey(pub Key);

fn float(value: Option<&Bound<'_, PyAny>>) -> PyResult<DType> {
    Ok(dtype::optional(value)?.unwrap_or(DType::F32))
}

/// A shape: a whole number or a list of them.
pub fn shape(value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    if value.hasattr("__index__")? {
        return Ok(vec![size(value)?]);
    }
    crate::convert::items(value)?.iter().map(|item| size(&item)).collect()
}

fn size(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let index = value.call_method0("__index__")?;
    index.extract().map_err(|_| PyValueError::new_err(format!("{index} is no size of an axis")))
}

/// An error unless there is memory for so many objects.
fn expect_objects(op: &'static str, count: u64) -> PyResult<()> {
    expect_memory(op, usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(64))
}

/// The seed of a key; an error if it has none yet, being the argument of a function that is recorded, or
/// one for each example of a batch.
fn seed(op: &'static str, key: Key) -> PyResult<u64> {
    let at = std::panic::Location::caller();
    if key.is_mapped() {
        return Err(Error::Mapped { op }).or_raise();
    }
    if key.is_recorded() { Err(Error::Recorded { op, at }).or_raise() } else { Ok(key.seed()) }
}

#[pymethods]
impl PyKey {
    /// The key of a seed.
    #[new]
    fn new(seed: &Bound<'_, PyAny>) -> PyResult<PyKey> {
        let index = seed
            .call_method0("__index__")
            .map_err(|_| PyTypeError::new_err("a key's seed is a whole number"))?;
        if let Ok(seed) = index.extract::<u64>() {
            return Ok(PyKey(Key::new(seed)));
        }
        match index.extract::<i64>() {
            Ok(seed) => Ok(PyKey(Key::new(seed.cast_unsigned()))),
            Err(_) => Err(PyValueError::new_err(format!("the seed {index} has more than 64 bits"))),
        }
    }

    /// The number whose key this is.
    #[getter]
    fn seed(&self) -> PyResult<u64> {
        seed("seed", self.0)
    }

    /// Keys for independent streams.
    #[pyo3(signature = (count = 2))]
    fn split(&self, count: u32) -> PyResult<Vec<PyKey>> {
        expect_objects("split", u64::from(count))?;
        Ok((0..u64::from(count)).map(|i| PyKey(self.0.fold_in(i))).collect())
    }

    /// The key numbered `index` below this one.
    fn fold_in(&self, index: u64) -> PyKey {
        PyKey(self.0.fold_in(index))
    }

    /// Evenly distributed in `[low, high)`.
    #[pyo3(signature = (shape, low = 0.0, high = 1.0, dtype = None))]
    fn uniform(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        low: f64,
        high: f64,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTensor> {
        let (shape, dtype) = (self::shape(shape)?, float(dtype)?);
        compute(py, usize::MAX, || self.0.uniform(shape, low, high, dtype)).map(PyTensor)
    }

    /// Normally distributed with mean 0 and variance 1.
    #[pyo3(signature = (shape, dtype = None))]
    fn normal(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTensor> {
        let (shape, dtype) = (self::shape(shape)?, float(dtype)?);
        compute(py, usize::MAX, || self.0.normal(shape, dtype)).map(PyTensor)
    }

    /// Whole numbers evenly distributed in `0..high`.
    fn integers(&self, py: Python<'_>, shape: &Bound<'_, PyAny>, high: u64) -> PyResult<PyTensor> {
        let shape = self::shape(shape)?;
        compute(py, usize::MAX, || self.0.integers(shape, high)).map(PyTensor)
    }

    /// The numbers `0..count` in random order.
    fn permutation(&self, py: Python<'_>, count: u64) -> PyResult<PyTensor> {
        expect_objects("permutation", count)?;
        if self.0.is_recorded() {
            let drawn = || self.0.integers([count as usize], i64::MAX as u64);
            let sorted = || extensor::ops::argsort(&drawn()?, 0, extensor::ops::Order::Ascending);
            return compute(py, usize::MAX, sorted).map(PyTensor);
        }
        let mut order: Vec<i64> = (0..i64::try_from(count).unwrap_or(0)).collect();
        let draws = self.0.integers([order.len()], i64::MAX as u64).or_raise()?;
        let draws = draws.to_vec::<i64>().or_raise()?;
        order.sort_by_key(|&i| draws[i as usize]);
        let len = order.len();
        extensor::Tensor::from_vec(order, [len]).or_raise().map(PyTensor)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
    fn __eq__(&self, other: &PyKey) -> bool {
        self.0 == other.0
    }
    fn __hash__(&self) -> PyResult<u64> {
        seed("hash", self.0)
    }
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (u64,))> {
        Ok((slf.get_type().into_any().unbind(), (seed("pickle", slf.get().0)?,)))
    }
}
