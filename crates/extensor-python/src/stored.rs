//! Data sets that stay in files.
//!
//! This module must not know what is trained on them.

use crate::data::{PyDataset, Raised, Settings, batch};
use crate::dtype::{self, PyDType};
use crate::error::{OrRaise, released};
use crate::random::PyKey;
use crate::recipe::Recipe;
use crate::tensor::PyTensor;
use extensor::data::{Augment, Dataset, Rows, StoredImages, StoredPairs, stored};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;

/// An array in files, one after the other along the first axis, of which rows are read when they are needed.
#[pyclass(name = "Rows", module = "extensor.data", frozen)]
pub struct PyRows {
    rows: Rows,
    recipe: Recipe,
}

/// The rows of these files: each has one array, or a tensor of this name.
#[pyfunction]
#[pyo3(signature = (paths, tensor = None))]
pub fn rows(py: Python<'_>, paths: Vec<PathBuf>, tensor: Option<String>) -> PyResult<PyRows> {
    let opened = released(py, || match &tensor {
        Some(name) => Rows::named(&paths, name),
        None => Rows::open(&paths),
    })?;
    Ok(PyRows { rows: opened, recipe: Recipe::of(py, "rows", (paths, tensor))? })
}

#[pymethods]
impl PyRows {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __repr__(&self) -> String {
        let (shape, name) = (self.rows.shape(), dtype::python_name(self.rows.dtype()));
        let (count, files) = (self.rows.len(), self.rows.shards().count());
        format!("<extensor.data.Rows: {count} of {name} {shape} in {files} files>")
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        self.recipe.reduce(py)
    }

    /// The shape of one row.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.rows.shape().iter())
    }

    /// The dtype of the numbers.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        dtype::object(py, self.rows.dtype())
    }

    /// How many rows each file has.
    #[getter]
    fn shards(&self) -> Vec<usize> {
        self.rows.shards().collect()
    }

    /// The rows of these numbers, in this order, along the first axis.
    fn read(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<PyTensor> {
        released(py, || self.rows.read(&indices)).map(PyTensor)
    }
}

/// Inputs and targets in files.
#[pyfunction]
pub fn stored_pairs(
    inputs: &Bound<'_, PyRows>,
    targets: &Bound<'_, PyRows>,
) -> PyResult<PyDataset> {
    let made = StoredPairs::new(inputs.get().rows.clone(), targets.get().rows.clone());
    let recipe = Recipe::of(inputs.py(), "stored_pairs", (inputs, targets))?;
    Ok(PyDataset::new(made.or_raise()?, Raised::default(), recipe))
}

/// The inputs and targets of the shards in a folder with one of these words in their names.
#[pyfunction]
pub fn find_shards(
    py: Python<'_>,
    folder: PathBuf,
    words: Vec<String>,
) -> PyResult<(PyRows, PyRows)> {
    let words_: Vec<&str> = words.iter().map(String::as_str).collect();
    let pairs = released(py, || stored::find(&folder, &words_))?;
    let of = |which: usize, rows: &Rows| {
        let recipe = Recipe::of(py, "shards_found", (&folder, &words, which))?;
        PyResult::Ok(PyRows { rows: rows.clone(), recipe })
    };
    Ok((of(0, pairs.inputs())?, of(1, pairs.targets())?))
}

/// The inputs (0) or the targets (1) of the shards in a folder, for `pickle`.
#[pyfunction]
pub fn shards_found(
    py: Python<'_>,
    folder: PathBuf,
    words: Vec<String>,
    which: usize,
) -> PyResult<PyRows> {
    let (inputs, targets) = find_shards(py, folder, words)?;
    Ok(if which == 0 { inputs } else { targets })
}

/// Pictures of bytes and their classes in files, which become numbers a batch at a time.
#[pyclass(name = "StoredImages", module = "extensor.data", frozen)]
pub struct PyStoredImages {
    pub data: StoredImages,
    images: Py<PyRows>,
    labels: Py<PyRows>,
    settings: Settings,
}

/// Images with their settings, for `pickle`.
#[pyfunction]
pub fn stored_images_of(
    images: &Bound<'_, PyRows>,
    labels: &Bound<'_, PyRows>,
    settings: Settings,
) -> PyResult<PyStoredImages> {
    let py = images.py();
    let (normal, shift, flip) = settings;
    let made = PyStoredImages::new(images, labels)?;
    let made = match normal {
        Some((mean, std)) => made.normalize(py, mean, std)?,
        None => made,
    };
    Ok(made.augment(py, shift, flip))
}

#[pymethods]
impl PyStoredImages {
    #[new]
    fn new(images: &Bound<'_, PyRows>, labels: &Bound<'_, PyRows>) -> PyResult<PyStoredImages> {
        let (x, y) = (images.get().rows.clone(), labels.get().rows.clone());
        let data = released(images.py(), || StoredImages::new(x, y))?;
        let (images, labels) = (images.clone().unbind(), labels.clone().unbind());
        Ok(PyStoredImages { data, images, labels, settings: (None, 0, false) })
    }

    fn __len__(&self) -> usize {
        self.data.len()
    }

    fn __repr__(&self) -> String {
        let ([channels, height, width], count) = (self.data.size(), self.data.len());
        format!("<extensor.data.StoredImages: {count} of {channels} × {height} × {width}>")
    }

    #[allow(clippy::type_complexity)]
    fn __reduce__(
        &self,
        py: Python<'_>,
    ) -> PyResult<(Py<PyAny>, (Py<PyRows>, Py<PyRows>, Settings))> {
        let made = py.import("extensor._core")?.getattr("stored_images_of")?;
        let (images, labels) = (self.images.clone_ref(py), self.labels.clone_ref(py));
        Ok((made.unbind(), (images, labels, self.settings.clone())))
    }

    /// With inputs `(x/255 − mean)/std`, one mean and std for each channel or one for all.
    fn normalize(&self, py: Python<'_>, mean: Vec<f64>, std: Vec<f64>) -> PyResult<PyStoredImages> {
        let data = self.data.clone().normalize(&mean, &std).or_raise()?;
        let (_, shift, flip) = self.settings;
        Ok(self.with(py, data, (Some((mean, std)), shift, flip)))
    }

    /// With every image moved by up to `shift` pixels and mirrored at random each time it is drawn.
    #[pyo3(signature = (shift = 0, flip = false))]
    fn augment(&self, py: Python<'_>, shift: usize, flip: bool) -> PyStoredImages {
        let data = self.data.clone().augment(Augment { shift, flip });
        self.with(py, data, (self.settings.0.clone(), shift, flip))
    }

    /// The mean and the standard deviation of `x/255` of each channel, of at most `most` images that are
    /// spread evenly over all.
    #[pyo3(signature = (most = 65536))]
    fn statistics(&self, py: Python<'_>, most: usize) -> PyResult<Vec<(f64, f64)>> {
        released(py, || self.data.statistics(most))
    }

    /// One image as it is kept: uint8, `[channels, height, width]`.
    fn image(&self, py: Python<'_>, index: usize) -> PyResult<PyTensor> {
        released(py, || self.data.image(index)).map(PyTensor)
    }

    /// Channels, height and width.
    #[getter]
    fn size(&self) -> (usize, usize, usize) {
        self.data.size().into()
    }

    /// One more than the last class.
    #[getter]
    fn classes(&self) -> usize {
        self.data.classes()
    }

    /// The inputs and targets of the images of these numbers, in this order.
    #[pyo3(signature = (indices, key = None))]
    fn batch(
        &self,
        py: Python<'_>,
        indices: Vec<usize>,
        key: Option<&PyKey>,
    ) -> PyResult<(PyTensor, PyTensor)> {
        batch(py, &self.data, &Raised::default(), &indices, key)
    }
}

impl PyStoredImages {
    /// Of the same files.
    fn with(&self, py: Python<'_>, data: StoredImages, settings: Settings) -> PyStoredImages {
        let (images, labels) = (self.images.clone_ref(py), self.labels.clone_ref(py));
        PyStoredImages { data, images, labels, settings }
    }
}
