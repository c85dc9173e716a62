//! How layers begin: the library's own constructors and initialisers, so that a layer of the same key
//! has the same bits in both languages.
//!
//! Layers themselves are Python's (`nn/`): they call operations. This module must not know them.

use crate::dtype;
use crate::error::{OrRaise, released};
use crate::random::{self, PyKey};
use crate::tensor::PyTensor;
use extensor::nn::{self, init};
use extensor::ops::{Conv3dOptions, ConvOptions};
use extensor::{DType, Tensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

type Parameters = (PyTensor, Option<PyTensor>);

fn pair(weight: Tensor, bias: Option<Tensor>) -> Parameters {
    (PyTensor(weight), bias.map(PyTensor))
}

/// Weight and bias of a linear layer.
#[pyfunction]
pub fn linear_parameters(
    key: &PyKey,
    inputs: usize,
    outputs: usize,
    bias: bool,
) -> PyResult<Parameters> {
    let new = if bias { nn::Linear::new } else { nn::Linear::without_bias };
    let layer = new(key.0, inputs, outputs).or_raise()?;
    Ok(pair(layer.weight, layer.bias))
}

/// The vectors of an embedding.
#[pyfunction]
pub fn embedding_parameters(key: &PyKey, count: usize, size: usize) -> PyResult<PyTensor> {
    Ok(PyTensor(nn::Embedding::new(key.0, count, size).or_raise()?.weight))
}

/// The sizes of a kernel over so many axes.
fn sizes<const N: usize>(kernel: &[usize]) -> PyResult<[usize; N]> {
    let wrong = |_| PyValueError::new_err(format!("kernel: expected {N} numbers, got {kernel:?}"));
    kernel.try_into().map_err(wrong)
}

/// Weight and bias of a convolution: over one axis, over two or three, or transposed.
#[pyfunction]
pub fn convolution_parameters(
    kind: &str,
    key: &PyKey,
    inputs: usize,
    outputs: usize,
    kernel: Vec<usize>,
    groups: usize,
    bias: bool,
) -> PyResult<Parameters> {
    let (options, deep) = (ConvOptions::new().groups(groups), Conv3dOptions::new().groups(groups));
    let (key, kernel) = (key.0, &kernel[..]);
    macro_rules! parts {
        ($layer:expr) => {{
            let layer = $layer.or_raise()?;
            (layer.weight, layer.bias)
        }};
    }
    let (weight, first) = match kind {
        "conv1d" => {
            parts!(nn::Conv1d::with(key, inputs, outputs, sizes::<1>(kernel)?[0], options))
        }
        "conv2d" => parts!(nn::Conv2d::with(key, inputs, outputs, sizes::<2>(kernel)?, options)),
        "conv3d" => parts!(nn::Conv3d::with(key, inputs, outputs, sizes::<3>(kernel)?, deep)),
        "conv_transpose1d" => {
            parts!(nn::ConvTranspose1d::with(key, inputs, outputs, sizes::<1>(kernel)?[0], options))
        }
        "conv_transpose3d" => {
            parts!(nn::ConvTranspose3d::with(key, inputs, outputs, sizes::<3>(kernel)?, deep))
        }
        _ => parts!(nn::ConvTranspose2d::with(key, inputs, outputs, sizes::<2>(kernel)?, options)),
    };
    Ok(pair(weight, first.filter(|_| bias)))
}

/// The projections of attention: weights and biases, in and out.
#[pyfunction]
pub fn attention_parameters(
    key: &PyKey,
    size: usize,
    heads: usize,
) -> PyResult<(Parameters, Parameters)> {
    let layer = nn::MultiHeadAttention::new(key.0, size, heads).or_raise()?;
    let out = pair(layer.out_proj.weight, layer.out_proj.bias);
    Ok((pair(layer.in_proj_weight, layer.in_proj_bias), out))
}

/// Weight and bias of a normalisation of groups.
#[pyfunction]
pub fn group_norm_parameters(groups: usize, channels: usize) -> PyResult<Parameters> {
    let layer = nn::GroupNorm::new(groups, channels).or_raise()?;
    Ok(pair(layer.weight, Some(layer.bias)))
}

/// The mean cross-entropy of classes, with any axes before the last.
#[pyfunction]
pub fn class_loss(
    py: Python<'_>,
    logits: &PyTensor,
    targets: &PyTensor,
    label_smoothing: f64,
) -> PyResult<PyTensor> {
    let (logits, targets) = (&logits.0, &targets.0);
    released(py, || nn::class_loss(logits, targets, label_smoothing)).map(PyTensor)
}

fn float(value: Option<&Bound<'_, PyAny>>) -> PyResult<DType> {
    Ok(dtype::optional(value)?.unwrap_or(DType::F32))
}

/// How many numbers one output of a weight `[out, in, kernel…]` is made of, and how many outputs one
/// input goes into.
#[pyfunction]
pub fn init_fans(shape: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    init::fans(&random::shape(shape)?).or_raise()
}

/// Evenly distributed within ±1/√fan_in: how linear and convolutional layers begin.
#[pyfunction]
#[pyo3(signature = (key, shape, fan_in, dtype = None))]
pub fn init_by_fan_in(
    key: &PyKey,
    shape: &Bound<'_, PyAny>,
    fan_in: usize,
    dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    init::by_fan_in(key.0, random::shape(shape)?, fan_in, float(dtype)?).or_raise().map(PyTensor)
}

/// Normally distributed with this mean and standard deviation.
#[pyfunction]
#[pyo3(signature = (key, shape, mean = 0.0, std = 1.0, dtype = None))]
pub fn init_normal(
    key: &PyKey,
    shape: &Bound<'_, PyAny>,
    mean: f64,
    std: f64,
    dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    init::normal(key.0, random::shape(shape)?, mean, std, float(dtype)?).or_raise().map(PyTensor)
}

/// Normally distributed, but never outside `low..high`: what falls outside is drawn again.
#[pyfunction]
#[pyo3(signature = (key, shape, mean = 0.0, std = 1.0, low = -2.0, high = 2.0, dtype = None))]
pub fn init_truncated_normal(
    key: &PyKey,
    shape: &Bound<'_, PyAny>,
    mean: f64,
    std: f64,
    low: f64,
    high: f64,
    dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    let (shape, dtype) = (random::shape(shape)?, float(dtype)?);
    init::truncated_normal(key.0, shape, mean, std, low..=high, dtype).or_raise().map(PyTensor)
}

macro_rules! spread {
    ($($(#[$doc:meta])* $name:ident($f:path)),*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (key, shape, gain = 1.0, dtype = None))]
        pub fn $name(
            key: &PyKey,
            shape: &Bound<'_, PyAny>,
            gain: f64,
            dtype: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<PyTensor> {
            $f(key.0, random::shape(shape)?, gain, float(dtype)?).or_raise().map(PyTensor)
        }
    )*};
}
spread! {
    /// Evenly distributed within ±gain·√(6/(fan_in + fan_out)) (Glorot and Bengio).
    init_xavier_uniform(init::xavier_uniform),
    /// Normally distributed with standard deviation gain·√(2/(fan_in + fan_out)).
    init_xavier_normal(init::xavier_normal),
    /// `gain` times a matrix with orthonormal rows, or columns if there are fewer of those.
    init_orthogonal(init::orthogonal)
}

fn fan(name: &str) -> PyResult<init::Fan> {
    match name {
        "in" => Ok(init::Fan::In),
        "out" => Ok(init::Fan::Out),
        _ => Err(PyValueError::new_err(format!("fan is {name:?}, expected \"in\" or \"out\""))),
    }
}

macro_rules! kaiming {
    ($($(#[$doc:meta])* $name:ident($f:path)),*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (key, shape, fan = "in", gain = std::f64::consts::SQRT_2, dtype = None))]
        pub fn $name(
            key: &PyKey,
            shape: &Bound<'_, PyAny>,
            fan: &str,
            gain: f64,
            dtype: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<PyTensor> {
            let fan = self::fan(fan)?;
            $f(key.0, random::shape(shape)?, fan, gain, float(dtype)?).or_raise().map(PyTensor)
        }
    )*};
}
kaiming! {
    /// Evenly distributed within ±gain·√(3/fan) (He et al.).
    init_kaiming_uniform(init::kaiming_uniform),
    /// Normally distributed with standard deviation gain/√fan.
    init_kaiming_normal(init::kaiming_normal)
}
