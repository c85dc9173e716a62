//! Indexing and statistics that are made of operations; what they are called with in Python is said in
//! `_statistics.py`.

use crate::function::compute;
use crate::tensor::PyTensor;
use extensor::ops::{self, BincountOptions, CovOptions, HistogramOptions};
use extensor::ops::{QuantileMethod, ScatterReduce};
use extensor::{Axes, Over, Tensor, over};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What is computed may be as large as it likes: the interpreter is released.
const ANY: usize = usize::MAX;

fn along(axis: Option<Vec<i64>>, keepdims: bool) -> Over {
    over(Axes::from(axis.as_deref())).keepdims(keepdims)
}

/// One of these by its name.
fn one_of<T: Copy>(op: &str, what: &str, name: &str, all: &[(&str, T)]) -> PyResult<T> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<String> = all.iter().map(|(known, _)| format!("{known:?}")).collect();
        let known = known.join(", ");
        PyValueError::new_err(format!("{op}: {what} is {name:?}, expected one of {known}"))
    })
}

/// Medians and other quantiles: `name` says which.
#[pyfunction]
pub fn quantile(
    py: Python<'_>,
    name: &str,
    x: &PyTensor,
    q: Option<&PyTensor>,
    axis: Option<Vec<i64>>,
    keepdims: bool,
    interpolation: &str,
) -> PyResult<PyTensor> {
    let all = [
        ("linear", QuantileMethod::Linear),
        ("lower", QuantileMethod::Lower),
        ("higher", QuantileMethod::Higher),
        ("midpoint", QuantileMethod::Midpoint),
        ("nearest", QuantileMethod::Nearest),
    ];
    let how = one_of(name, "interpolation", interpolation, &all)?;
    let (x, q, over) = (&x.0, q.map(|q| &q.0), along(axis, keepdims));
    let found = match (name, q) {
        ("quantile", Some(q)) => compute(py, ANY, || ops::quantile(x, q, over, how)),
        ("nanquantile", Some(q)) => compute(py, ANY, || ops::nanquantile(x, q, over, how)),
        ("nanmedian", _) => compute(py, ANY, || ops::nanmedian(x, over)),
        _ => compute(py, ANY, || ops::median(x, over)),
    };
    found.map(PyTensor)
}

/// Reductions of what is not NaN: `name` says which.
#[pyfunction]
pub fn without_nan(
    py: Python<'_>,
    name: &str,
    x: &PyTensor,
    axis: Option<Vec<i64>>,
    keepdims: bool,
) -> PyResult<PyTensor> {
    type Reduce = fn(&Tensor, Over) -> extensor::Result<Tensor>;
    let all: [(&str, Reduce); 5] = [
        ("nansum", |x, over| ops::nansum(x, over)),
        ("nanprod", |x, over| ops::nanprod(x, over)),
        ("nanmean", |x, over| ops::nanmean(x, over)),
        ("nanmax", |x, over| ops::nanmax(x, over)),
        ("nanmin", |x, over| ops::nanmin(x, over)),
    ];
    let reduce = one_of("without_nan", "name", name, &all)?;
    compute(py, ANY, || reduce(&x.0, along(axis, keepdims))).map(PyTensor)
}

/// Covariances of rows.
#[pyfunction]
pub fn cov(
    py: Python<'_>,
    x: &PyTensor,
    ddof: usize,
    fweights: Option<&PyTensor>,
    aweights: Option<&PyTensor>,
) -> PyResult<PyTensor> {
    let [fweights, aweights] = [fweights, aweights].map(|w| w.map(|w| &w.0));
    let options = CovOptions { fweights, aweights, ddof };
    compute(py, ANY, || ops::cov(&x.0, options)).map(PyTensor)
}

/// Correlations of rows.
#[pyfunction]
pub fn corrcoef(py: Python<'_>, x: &PyTensor) -> PyResult<PyTensor> {
    compute(py, ANY, || ops::corrcoef(&x.0)).map(PyTensor)
}

/// How often each number is there.
#[pyfunction]
pub fn bincount(
    py: Python<'_>,
    x: &PyTensor,
    weights: Option<&PyTensor>,
    minlength: usize,
    length: Option<usize>,
) -> PyResult<PyTensor> {
    let options = BincountOptions { weights: weights.map(|w| &w.0), length, minlength };
    compute(py, ANY, || ops::bincount(&x.0, options)).map(PyTensor)
}

/// How many numbers are in each interval, and the intervals' ends.
#[pyfunction]
pub fn histogram(
    py: Python<'_>,
    x: &PyTensor,
    bins: usize,
    range: Option<[f64; 2]>,
    edges: Option<&PyTensor>,
    weights: Option<&PyTensor>,
) -> PyResult<(PyTensor, PyTensor)> {
    let [edges, weights] = [edges, weights].map(|x| x.map(|x| &x.0));
    let options = HistogramOptions { edges, range, weights, bins };
    let (counts, edges) = compute(py, ANY, || ops::histogram(&x.0, options))?;
    Ok((PyTensor(counts), PyTensor(edges)))
}

/// A number where a mask is true.
#[pyfunction]
pub fn masked_fill(
    py: Python<'_>,
    x: &PyTensor,
    mask: &PyTensor,
    value: f64,
) -> PyResult<PyTensor> {
    compute(py, ANY, || ops::masked_fill(&x.0, &mask.0, value)).map(PyTensor)
}

/// The elements where a mask is true.
#[pyfunction]
pub fn masked_select(py: Python<'_>, x: &PyTensor, mask: &PyTensor) -> PyResult<PyTensor> {
    compute(py, ANY, || ops::masked_select(&x.0, &mask.0)).map(PyTensor)
}

/// Other elements where a mask is true.
#[pyfunction]
pub fn masked_scatter(
    py: Python<'_>,
    x: &PyTensor,
    mask: &PyTensor,
    source: &PyTensor,
) -> PyResult<PyTensor> {
    compute(py, ANY, || ops::masked_scatter(&x.0, &mask.0, &source.0)).map(PyTensor)
}

/// Values at positions of several axes.
#[pyfunction]
pub fn index_put(
    py: Python<'_>,
    x: &PyTensor,
    indices: Vec<PyRef<'_, PyTensor>>,
    values: &PyTensor,
    reduce: &str,
) -> PyResult<PyTensor> {
    let all = [
        ("none", ScatterReduce::Last),
        ("sum", ScatterReduce::Sum),
        ("prod", ScatterReduce::Prod),
        ("mean", ScatterReduce::Mean),
        ("amax", ScatterReduce::Max),
        ("amin", ScatterReduce::Min),
    ];
    let reduce = one_of("index_put", "reduce", reduce, &all)?;
    let indices: Vec<Tensor> = indices.iter().map(|index| index.0.clone()).collect();
    compute(py, ANY, || ops::index_put(&x.0, &indices, &values.0, reduce)).map(PyTensor)
}
