//! Tensors to and from files: safetensors, `.npy` and `.npz`, by the library's readers and writers.
//!
//! It must not know what the tensors are for.

use crate::autodiff::list;
use crate::error::{OrRaise, released};
use crate::named::Named;
use crate::tensor::{PyTensor, expect_plain};
use extensor::Tensor;
use extensor::io::{atomic, npy, safetensors};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use std::path::PathBuf;

type Metadata = BTreeMap<String, String>;

fn named(names: Vec<String>, leaves: &Bound<'_, PyAny>) -> PyResult<Named> {
    let tree = Named::of(names, leaves)?;
    tree.leaves().iter().try_for_each(|x| expect_plain("save", x))?;
    Ok(tree)
}

fn dict<'py>(
    py: Python<'py>,
    all: impl IntoIterator<Item = (String, Tensor)>,
) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for (name, x) in all {
        found.set_item(name, Bound::new(py, PyTensor(x))?)?;
    }
    Ok(found)
}

/// Writes tensors to a safetensors file, whole or not at all.
#[pyfunction]
pub fn safetensors_save(
    py: Python<'_>,
    path: PathBuf,
    names: Vec<String>,
    leaves: &Bound<'_, PyAny>,
    metadata: Metadata,
) -> PyResult<()> {
    let tree = named(names, leaves)?;
    released(py, || safetensors::save(path, &tree, &metadata))
}

/// An error unless a safetensors file has checksums.
#[pyfunction]
pub fn safetensors_expect_checksums(path: PathBuf) -> PyResult<()> {
    safetensors::load(path).and_then(|file| file.expect_checksums()).or_raise()
}

/// All tensors of a safetensors file, and its metadata.
#[pyfunction]
pub fn safetensors_load<'py>(
    py: Python<'py>,
    path: PathBuf,
) -> PyResult<(Bound<'py, PyDict>, Metadata)> {
    let read = || {
        let file = safetensors::load(&path)?;
        let all = file.names().map(|name| Ok((name.to_string(), file.tensor(name)?)));
        let all = all.collect::<extensor::Result<Vec<_>>>()?;
        Ok((all, file.metadata().clone()))
    };
    let (all, metadata) = released(py, read)?;
    Ok((dict(py, all)?, metadata))
}

/// The tensors of a safetensors file in the order of these names, which must be all there are (under
/// the prefix), each of the shape and dtype of the tensor beside it; and the metadata.
#[pyfunction]
pub fn safetensors_load_like<'py>(
    py: Python<'py>,
    path: PathBuf,
    prefix: &str,
    names: Vec<String>,
    leaves: &Bound<'_, PyAny>,
) -> PyResult<(Bound<'py, PyList>, Metadata)> {
    let template = Named::of(names, leaves)?;
    let read = || {
        let file = safetensors::load(&path)?;
        let found = file.under(prefix).into_tree(&template)?;
        Ok((found, file.metadata().clone()))
    };
    let (found, metadata) = released(py, read)?;
    Ok((list(py, found.leaves())?, metadata))
}

/// Removes the temporary files that a killed process left in a folder, and says how many.
#[pyfunction]
pub fn atomic_clean(path: PathBuf) -> PyResult<usize> {
    atomic::clean(path).or_raise()
}

/// Reads a `.npy` file.
#[pyfunction]
pub fn npy_load(py: Python<'_>, path: PathBuf) -> PyResult<PyTensor> {
    released(py, || npy::read(path)).map(PyTensor)
}

/// Writes a `.npy` file, whole or not at all.
#[pyfunction]
pub fn npy_save(py: Python<'_>, path: PathBuf, x: &PyTensor) -> PyResult<()> {
    expect_plain("save", &x.0)?;
    released(py, || npy::write(path, &x.0))
}

/// Reads a `.npz` file.
#[pyfunction]
pub fn npz_load(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let all = released(py, || npy::read_npz(path))?;
    dict(py, all)
}

/// Writes a `.npz` file, whole or not at all.
#[pyfunction]
pub fn npz_save(
    py: Python<'_>,
    path: PathBuf,
    names: Vec<String>,
    leaves: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let tree = named(names, leaves)?;
    released(py, || npy::write_npz(path, &tree))
}
