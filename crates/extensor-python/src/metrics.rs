//! How good predictions are: the library's metrics.

use crate::error::{OrRaise, released};
use crate::tensor::PyTensor;
use extensor::Tensor;
use extensor::metrics::{self, Average, Confusion};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

/// How often each class was taken for each: a row for each class that was right, a column for each that
/// was predicted.
#[pyclass(name = "Confusion", module = "extensor._core", frozen, eq)]
#[derive(PartialEq)]
pub struct PyConfusion(Confusion);

impl PyConfusion {
    fn known(&self, class: usize) -> PyResult<usize> {
        let classes = self.0.classes();
        if class < classes {
            return Ok(class);
        }
        Err(PyIndexError::new_err(format!("there is no class {class}, only {classes} of them")))
    }
}

#[pymethods]
impl PyConfusion {
    #[new]
    fn new(classes: usize) -> PyResult<PyConfusion> {
        Confusion::new(classes).or_raise().map(PyConfusion)
    }

    /// With more predictions and what they should have been.
    fn add(
        &self,
        py: Python<'_>,
        predictions: &PyTensor,
        targets: &PyTensor,
    ) -> PyResult<PyConfusion> {
        let mut more = self.0.clone();
        released(py, || more.add(&predictions.0, &targets.0).map(|()| more)).map(PyConfusion)
    }

    #[getter]
    fn classes(&self) -> usize {
        self.0.classes()
    }

    #[getter]
    fn total(&self) -> u64 {
        self.0.total()
    }

    #[getter]
    fn accuracy(&self) -> f64 {
        self.0.accuracy()
    }

    fn count(&self, target: usize, prediction: usize) -> PyResult<u64> {
        Ok(self.0.count(self.known(target)?, self.known(prediction)?))
    }

    fn support(&self, class: usize) -> PyResult<u64> {
        Ok(self.0.support(self.known(class)?))
    }

    fn precision(&self, class: usize) -> PyResult<f64> {
        Ok(self.0.precision(self.known(class)?))
    }

    fn recall(&self, class: usize) -> PyResult<f64> {
        Ok(self.0.recall(self.known(class)?))
    }

    fn f_score(&self, class: usize, beta: f64) -> PyResult<f64> {
        Ok(self.0.f_score(self.known(class)?, beta))
    }

    /// Precision, recall and F of all classes as one.
    fn scores(&self, average: &str) -> PyResult<(f64, f64, f64)> {
        let average = match average {
            "macro" => Average::Macro,
            "micro" => Average::Micro,
            "weighted" => Average::Weighted,
            _ => {
                let text =
                    format!(r#"average is "{average}", expected "macro", "micro" or "weighted""#);
                return Err(PyValueError::new_err(text));
            }
        };
        let scores = self.0.scores(average);
        Ok((scores.precision, scores.recall, scores.f1))
    }

    /// All counts, `[right, predicted]`, as int64.
    fn counts(&self) -> PyResult<PyTensor> {
        let classes = self.0.classes();
        let pairs = (0..classes).flat_map(|t| (0..classes).map(move |p| (t, p)));
        let counts = pairs.map(|(t, p)| self.0.count(t, p) as i64).collect::<Vec<i64>>();
        Tensor::from_vec(counts, [classes, classes]).or_raise().map(PyTensor)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }
}

/// The area under the curve of the receiver operating characteristic.
#[pyfunction]
pub fn auroc(py: Python<'_>, scores: &PyTensor, labels: &PyTensor) -> PyResult<f64> {
    released(py, || metrics::auroc(&scores.0, &labels.0))
}

/// `e` to a mean cross-entropy.
#[pyfunction]
pub fn perplexity(mean_loss: f64) -> f64 {
    metrics::perplexity(mean_loss)
}
