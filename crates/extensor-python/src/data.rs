//! Data sets and the loader, and the readers of the usual formats.
//!
//! Batches are made by the library's own thread, without the interpreter. This module must not know
//! what is trained on them.

use crate::create::asarray;
use crate::error::{OrRaise, exception, released};
use crate::random::PyKey;
use crate::recipe::Recipe;
use crate::stored::PyStoredImages;
use crate::tensor::PyTensor;
use extensor::data::csv::{self, Column, Options};
use extensor::data::text::{self, Vocabulary, Windows};
use extensor::data::{Augment, Batch, Batches, Dataset, Images, Loader, Pairs, Position, Subset};
use extensor::data::{cifar, idx};
use extensor::{Key, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Examples by number: pairs of tensors, or windows of a text.
#[pyclass(name = "Dataset", module = "extensor.data", frozen)]
pub struct PyDataset {
    data: Arc<dyn Dataset>,
    raised: Raised,
    recipe: Recipe,
}

impl PyDataset {
    pub fn new(data: impl Dataset + 'static, raised: Raised, recipe: Recipe) -> PyDataset {
        PyDataset { data: Arc::new(data), raised, recipe }
    }
}

#[pymethods]
impl PyDataset {
    fn __len__(&self) -> usize {
        self.data.len()
    }

    fn __repr__(&self) -> String {
        format!("<extensor.data.Dataset of {} examples>", self.data.len())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        self.recipe.reduce(py)
    }

    /// The inputs and targets of the examples of these numbers, in this order.
    #[pyo3(signature = (indices, key = None))]
    fn batch(
        &self,
        py: Python<'_>,
        indices: Vec<usize>,
        key: Option<&PyKey>,
    ) -> PyResult<(PyTensor, PyTensor)> {
        batch(py, &*self.data, &self.raised, &indices, key)
    }
}

/// A batch of a data set.
pub fn batch(
    py: Python<'_>,
    data: &dyn Dataset,
    raised: &Raised,
    indices: &[usize],
    key: Option<&PyKey>,
) -> PyResult<(PyTensor, PyTensor)> {
    let key = key.map_or(Key::new(0), |key| key.0);
    let batch = py.detach(|| data.batch(indices, key)).map_err(|error| taken(raised, error))?;
    Ok((PyTensor(batch.inputs), PyTensor(batch.targets)))
}

/// Two tensors whose first axes go through the examples.
#[pyfunction]
pub fn pairs(inputs: &Bound<'_, PyTensor>, targets: &Bound<'_, PyTensor>) -> PyResult<PyDataset> {
    let made = Pairs::new(inputs.get().0.clone(), targets.get().0.clone()).or_raise()?;
    let recipe = Recipe::of(inputs.py(), "pairs", (inputs, targets))?;
    Ok(PyDataset::new(made, Raised::default(), recipe))
}

/// Windows of a text's tokens and the tokens that follow: one after the other, or so many at random.
#[pyfunction]
#[pyo3(signature = (tokens, length, count = None))]
pub fn windows(
    tokens: &Bound<'_, PyTensor>,
    length: usize,
    count: Option<usize>,
) -> PyResult<PyDataset> {
    let recipe = Recipe::of(tokens.py(), "windows", (tokens, length, count))?;
    let tokens = tokens.get().0.clone();
    let made = match count {
        Some(count) => Windows::random(tokens, length, count),
        None => Windows::in_order(tokens, length),
    };
    Ok(PyDataset::new(made.or_raise()?, Raised::default(), recipe))
}

/// Images of bytes with classes, which become numbers a batch at a time.
#[pyclass(name = "Images", module = "extensor.data", frozen)]
pub struct PyImages {
    data: Images,
    /// Mean and standard deviation, if they are normalised; how far they are moved, and whether mirrored.
    settings: Settings,
}

/// Mean and standard deviation, how far images are moved, and whether they are mirrored.
pub type Settings = (Option<(Vec<f64>, Vec<f64>)>, usize, bool);

impl From<Images> for PyImages {
    fn from(data: Images) -> PyImages {
        PyImages { data, settings: (None, 0, false) }
    }
}

/// Images with their settings, for `pickle`.
#[pyfunction]
pub fn images_of(images: &PyTensor, labels: &PyTensor, settings: Settings) -> PyResult<PyImages> {
    let (normal, shift, flip) = settings;
    let made = PyImages::new(images, labels)?;
    let made = match normal {
        Some((mean, std)) => made.normalize(mean, std)?,
        None => made,
    };
    Ok(made.augment(shift, flip))
}

#[pymethods]
impl PyImages {
    #[new]
    fn new(images: &PyTensor, labels: &PyTensor) -> PyResult<PyImages> {
        Images::new(images.0.clone(), labels.0.clone()).or_raise().map(PyImages::from)
    }

    fn __len__(&self) -> usize {
        self.data.len()
    }

    fn __repr__(&self) -> String {
        let ([channels, height, width], count) =
            ([1, 2, 3].map(|axis| self.data.images().shape()[axis]), self.data.len());
        format!("<extensor.data.Images: {count} of {channels} × {height} × {width}>")
    }

    #[allow(clippy::type_complexity)]
    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (PyTensor, PyTensor, Settings))> {
        let made = py.import("extensor._core")?.getattr("images_of")?;
        Ok((made.unbind(), (self.images(), self.labels()?, self.settings.clone())))
    }

    /// With inputs `(x/255 − mean)/std`, one mean and std for each channel or one for all.
    fn normalize(&self, mean: Vec<f64>, std: Vec<f64>) -> PyResult<PyImages> {
        let data = self.data.clone().normalize(&mean, &std).or_raise()?;
        let (_, shift, flip) = self.settings;
        Ok(PyImages { data, settings: (Some((mean, std)), shift, flip) })
    }

    /// With every image moved by up to `shift` pixels and mirrored at random each time it is drawn.
    #[pyo3(signature = (shift = 0, flip = false))]
    fn augment(&self, shift: usize, flip: bool) -> PyImages {
        let data = self.data.clone().augment(Augment { shift, flip });
        PyImages { data, settings: (self.settings.0.clone(), shift, flip) }
    }

    /// The mean and the standard deviation of `x/255` of each channel.
    fn statistics(&self, py: Python<'_>) -> Vec<(f64, f64)> {
        py.detach(|| self.data.statistics())
    }

    /// The images as they are kept: uint8, `[n, channels, height, width]`.
    #[getter]
    fn images(&self) -> PyTensor {
        PyTensor(self.data.images().clone())
    }

    /// The class of each image.
    #[getter]
    fn labels(&self) -> PyResult<PyTensor> {
        let labels = self.data.labels();
        Tensor::from_slice(labels, [labels.len()]).or_raise().map(PyTensor)
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

/// Some of the examples of a data set, such as those kept for validation.
#[pyfunction]
pub fn subset(dataset: &Bound<'_, PyAny>, indices: Vec<usize>) -> PyResult<PyDataset> {
    let (all, raised) = any(dataset)?;
    let recipe = Recipe::of(dataset.py(), "subset", (dataset, indices.clone()))?;
    let part = Subset::new(Arc::new(all), indices).or_raise()?;
    Ok(PyDataset::new(part, raised, recipe))
}

/// What a Python data set raised, until it is back in Python: batches are made by another thread.
pub type Raised = Arc<Mutex<Option<PyErr>>>;

fn taken(raised: &Raised, error: extensor::Error) -> PyErr {
    let raised = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    raised.unwrap_or_else(|| exception(error))
}

/// A data set written in Python: `len(data)`, and `data.batch(indices, key)`, which returns inputs and
/// targets.
struct Written {
    object: Py<PyAny>,
    len: usize,
    raised: Raised,
}

impl Dataset for Written {
    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, indices: &[usize], key: Key) -> extensor::Result<Batch> {
        let called = Python::attach(|py| -> PyResult<Batch> {
            let found = self.object.call_method1(py, "batch", (indices.to_vec(), PyKey(key)))?;
            let (inputs, targets): (Bound<'_, PyAny>, Bound<'_, PyAny>) = found.extract(py)?;
            let [inputs, targets] = [inputs, targets].map(|x| asarray(py, &x, None, None, None));
            Ok(Batch { inputs: inputs?.0, targets: targets?.0 })
        });
        called.map_err(|error| {
            let message = error.to_string();
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            extensor::Error::Callback { op: "Loader", message }
        })
    }
}

/// Any data set: one of ours, images, or one written in Python.
fn any(dataset: &Bound<'_, PyAny>) -> PyResult<(Arc<dyn Dataset>, Raised)> {
    if let Ok(data) = dataset.cast::<PyDataset>() {
        return Ok((data.get().data.clone(), data.get().raised.clone()));
    }
    if let Ok(images) = dataset.cast::<PyImages>() {
        return Ok((Arc::new(images.get().data.clone()), Raised::default()));
    }
    if let Ok(images) = dataset.cast::<PyStoredImages>() {
        return Ok((Arc::new(images.get().data.clone()), Raised::default()));
    }
    if !dataset.hasattr("batch")? {
        let class = dataset.get_type().name()?;
        return Err(PyTypeError::new_err(format!("expected a data set, not {class}")));
    }
    let (object, len, raised) = (dataset.clone().unbind(), dataset.len()?, Raised::default());
    Ok((Arc::new(Written { object, len, raised: raised.clone() }), raised))
}

/// Cuts a data set into batches, in the same order for the same key.
#[pyclass(name = "Batcher", module = "extensor._core", frozen)]
pub struct PyBatcher(Loader, Raised);

#[pymethods]
impl PyBatcher {
    #[new]
    fn new(
        dataset: &Bound<'_, PyAny>,
        batch_size: usize,
        key: &PyKey,
        shuffle: bool,
        drop_last: bool,
        prefetch: usize,
    ) -> PyResult<PyBatcher> {
        let (data, raised) = any(dataset)?;
        let loader = Loader::new(data, batch_size, key.0);
        let loader = loader.or_raise()?.shuffle(shuffle).drop_last(drop_last);
        Ok(PyBatcher(loader.prefetch(prefetch), raised))
    }

    #[getter]
    fn batches_per_epoch(&self) -> u64 {
        self.0.batches_per_epoch()
    }

    #[getter]
    fn examples(&self) -> usize {
        self.0.dataset().len()
    }

    /// The order in which an epoch goes through the examples.
    fn order(&self, py: Python<'_>, epoch: u64) -> PyResult<Vec<usize>> {
        released(py, || self.0.order(epoch))
    }

    /// The batches from a position on: of one epoch, or without end.
    fn start(&self, py: Python<'_>, epoch: u64, batch: u64, endless: bool) -> PyResult<PyBatches> {
        let position = Position { epoch, batch };
        let start = || match endless {
            true => self.0.start_at(position),
            false => self.0.rest_of_epoch(position),
        };
        let batches = released(py, start)?;
        Ok(PyBatches(Mutex::new(Some(batches)), self.1.clone()))
    }
}

/// Batches one after the other, with the position after each.
#[pyclass(name = "Batches", module = "extensor._core", frozen)]
pub struct PyBatches(Mutex<Option<Batches>>, Raised);

type Next = (PyTensor, PyTensor, (u64, u64), (u64, u64));

#[pymethods]
impl PyBatches {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Next>> {
        let next = py.detach(|| {
            let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            batches.as_mut().and_then(Iterator::next)
        });
        let next = next.transpose().map_err(|error| taken(&self.1, error))?;
        let Some(loaded) = next else { return Ok(None) };
        let numbers = |p: Position| (p.epoch, p.batch);
        let (inputs, targets) = (loaded.batch.inputs, loaded.batch.targets);
        let (at, next) = (numbers(loaded.position), numbers(loaded.next));
        Ok(Some((PyTensor(inputs), PyTensor(targets), at, next)))
    }
}

impl Drop for PyBatches {
    fn drop(&mut self) {
        let batches = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // The thread that makes batches ends here; it may need the interpreter to let go of an array.
        Python::attach(|py| py.detach(|| drop(batches)));
    }
}

/// Reads an IDX file, plain or gzipped.
#[pyfunction]
pub fn idx_read(py: Python<'_>, path: PathBuf) -> PyResult<PyTensor> {
    released(py, || idx::read(path)).map(PyTensor)
}

/// The images to train on and those to test with of a folder like MNIST's.
#[pyfunction]
pub fn idx_folder(py: Python<'_>, path: PathBuf) -> PyResult<(PyImages, PyImages)> {
    let (train, test) = released(py, || idx::folder(path))?;
    Ok((train.into(), test.into()))
}

fn kind(name: &str) -> PyResult<cifar::Kind> {
    Ok(match name {
        "10" => cifar::Kind::Ten,
        "100" => cifar::Kind::HundredFine,
        "100 coarse" => cifar::Kind::HundredCoarse,
        _ => {
            let text = format!("kind is {name:?}, expected \"10\", \"100\" or \"100 coarse\"");
            return Err(PyValueError::new_err(text));
        }
    })
}

/// Reads CIFAR's binary files, one after the other.
#[pyfunction]
pub fn cifar_read(py: Python<'_>, paths: Vec<PathBuf>, kind: &str) -> PyResult<PyImages> {
    let kind = self::kind(kind)?;
    released(py, || cifar::read(&paths, kind)).map(PyImages::from)
}

/// The images to train on and those to test with of a folder of CIFAR's binary files.
#[pyfunction]
pub fn cifar_folder(py: Python<'_>, path: PathBuf, kind: &str) -> PyResult<(PyImages, PyImages)> {
    let kind = self::kind(kind)?;
    let (train, test) = released(py, || cifar::folder(path, kind))?;
    Ok((train.into(), test.into()))
}

/// Named columns of numbers.
#[pyclass(name = "Table", module = "extensor.data", frozen)]
pub struct PyTable(csv::Table);

fn column(target: &Bound<'_, PyAny>) -> PyResult<Column> {
    match target.extract::<String>() {
        Ok(name) => Ok(Column::Name(name)),
        Err(_) => Ok(Column::Number(target.extract()?)),
    }
}

fn parts(pairs: Pairs) -> (PyTensor, PyTensor) {
    (PyTensor(pairs.inputs().clone()), PyTensor(pairs.targets().clone()))
}

#[pymethods]
impl PyTable {
    /// The columns' names; their numbers if the file has no names.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns().to_vec()
    }

    /// All numbers, `[rows, columns]` in float64.
    #[getter]
    fn values(&self) -> PyTensor {
        PyTensor(self.0.values().clone())
    }

    /// The other columns and this one, `[rows, 1]`, in float32: data to predict a number.
    fn regression(&self, target: &Bound<'_, PyAny>) -> PyResult<(PyTensor, PyTensor)> {
        self.0.regression(column(target)?).or_raise().map(parts)
    }

    /// The other columns in float32 and this one, `[rows]` in int64: data to predict a class.
    fn classification(&self, target: &Bound<'_, PyAny>) -> PyResult<(PyTensor, PyTensor)> {
        self.0.classification(column(target)?).or_raise().map(parts)
    }
}

/// Reads a CSV file of numbers, plain or gzipped.
#[pyfunction]
pub fn csv_read(
    py: Python<'_>,
    path: PathBuf,
    delimiter: char,
    header: Option<bool>,
) -> PyResult<PyTable> {
    let options = Options { delimiter, header };
    released(py, || csv::read(path, &options)).map(PyTable)
}

/// Reads a UTF-8 text, plain or gzipped.
#[pyfunction]
pub fn text_read(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    released(py, || text::read(path))
}

/// The characters of a text, numbered in the order of their code points.
#[pyclass(name = "Vocabulary", module = "extensor.data", frozen, eq)]
#[derive(PartialEq)]
pub struct PyVocabulary(Vocabulary);

#[pymethods]
impl PyVocabulary {
    #[new]
    fn new(text: &str) -> PyVocabulary {
        PyVocabulary(Vocabulary::of(text))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, (String,)) {
        (slf.get_type().into_any().unbind(), (slf.get().0.characters(),))
    }

    /// All characters, sorted.
    #[getter]
    fn characters(&self) -> String {
        self.0.characters()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// A text as numbers of characters.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<PyTensor> {
        released(py, || self.0.encode(text)).map(PyTensor)
    }

    /// The text of these numbers.
    fn decode(&self, tokens: Vec<usize>) -> PyResult<String> {
        self.0.decode(&tokens).or_raise()
    }

    fn __repr__(&self) -> String {
        format!("Vocabulary({:?})", self.0.characters())
    }
}
