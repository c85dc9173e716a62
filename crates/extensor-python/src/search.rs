use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
pub fn nz(x: &extensor::Tensor) -> extensor::Result<Vec<extensor::Tensor>> {
    let v = x.to_f64_vec();
    let shape: Vec<usize> = x.shape().to_vec();
    let mut out: Vec<Vec<i64>> = vec![vec![]; shape.len()];
    for (i, a) in v.iter().enumerate() {
        if *a != 0.0 {
            let mut r = i;
            for k in (0..shape.len()).rev() {
                out[k].push((r % shape[k]) as i64);
                r /= shape[k];
            }
        }
    }
    out.into_iter()
        .map(|o| {
            let n = o.len();
            extensor::Tensor::from_vec(o, [n])
        })
        .collect()
}
#[pyfunction]
pub fn nonzero<'py>(py: Python<'py>, x: &PyTensor) -> PyResult<Bound<'py, PyTuple>> {
    let found = nz(&x.0).map_err(crate::error::exception)?;
    let found: Vec<_> =
        found.into_iter().map(|t| Bound::new(py, PyTensor(t))).collect::<PyResult<_>>()?;
    PyTuple::new(py, found)
}
#[pyfunction]
pub fn unique(x: &PyTensor) -> PyResult<Py<PyAny>> {
    let _ = x;
    Err(pyo3::exceptions::PyNotImplementedError::new_err("later"))
}
