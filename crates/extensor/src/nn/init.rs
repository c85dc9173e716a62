//! How parameters begin: random tensors, from explicit keys, whose spread fits the layer.
//!
//! A shape is read as PyTorch reads it: `[out, in, kernel…]`. Nothing here knows a layer.

use super::bad;
use crate::tensor::with_room;
use crate::{DType, Error, Key, Result, Shape, Tensor, ops};
use std::ops::RangeInclusive;

/// How many numbers one output of a weight of this shape is made of, and how many outputs one input
/// goes into: `(in·kernel, out·kernel)` for `[out, in, kernel…]`.
///
/// ```
/// assert_eq!(extensor::nn::init::fans(&[6, 3, 5, 5])?, (75, 150));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn fans(shape: &[usize]) -> Result<(usize, usize)> {
    let [out, inputs, kernel @ ..] = shape else {
        return bad("init", "shape", "[out, in, …]", Shape::from(shape));
    };
    let kernel = kernel.iter().try_fold(1usize, |a, &b| a.checked_mul(b));
    let times = |size: &usize| kernel.and_then(|kernel| kernel.checked_mul(*size));
    match (times(inputs), times(out)) {
        (Some(fan_in), Some(fan_out)) => Ok((fan_in, fan_out)),
        _ => Err(Error::Overflow { op: "init", shape: shape.into() }),
    }
}

/// Which neighbours' number keeps its variance in [`kaiming_uniform`] and [`kaiming_normal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fan {
    /// The inputs of an output: what goes forward keeps its size.
    #[default]
    In,
    /// The outputs of an input: what goes backward keeps its size.
    Out,
}

/// What follows a layer, and so by how much its weights must be larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// Nothing, or a logistic function: 1.
    Linear,
    /// A hyperbolic tangent: 5/3.
    Tanh,
    /// A rectified linear unit: √2.
    Relu,
    /// One with this slope `a` below 0: √(2/(1 + a²)).
    LeakyRelu(f64),
    /// A scaled exponential linear unit: ¾.
    Selu,
}

impl Nonlinearity {
    /// The factor, which is PyTorch's.
    ///
    /// ```
    /// use extensor::nn::init::Nonlinearity;
    /// assert_eq!(Nonlinearity::Relu.gain(), 2f64.sqrt());
    /// ```
    pub fn gain(self) -> f64 {
        match self {
            Nonlinearity::Linear => 1.0,
            Nonlinearity::Tanh => 5.0 / 3.0,
            Nonlinearity::Relu => 2f64.sqrt(),
            Nonlinearity::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Nonlinearity::Selu => 0.75,
        }
    }
}

/// Evenly distributed within `±1/√fan_in`: how PyTorch's linear and convolutional layers begin,
/// their weights (there called Kaiming's with `a = √5`) as well as their biases.
///
/// ```
/// use extensor::{DType, Key, nn::init};
/// let weight = init::by_fan_in(Key::new(1), [8, 100], 100, DType::F64)?;
/// assert!(weight.to_vec::<f64>()?.iter().all(|w| w.abs() <= 0.1));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn by_fan_in(key: Key, shape: impl Into<Shape>, fan_in: usize, dtype: DType) -> Result<Tensor> {
    let bound = if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() };
    key.uniform(shape, -bound, bound, dtype)
}

/// Every element `value`.
///
/// ```
/// use extensor::{DType, nn::init};
/// assert_eq!(init::constant([2], 0.5, DType::F64)?.to_vec::<f64>()?, [0.5, 0.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn constant(shape: impl Into<Shape>, value: f64, dtype: DType) -> Result<Tensor> {
    Tensor::full(shape, value, dtype)
}

/// Normally distributed with this mean and standard deviation.
///
/// ```
/// use extensor::{DType, Key, nn::init};
/// let weight = init::normal(Key::new(1), [4, 3], 0.0, 0.02, DType::F32)?;
/// assert!(weight.to_vec::<f32>()?.iter().all(|w| w.abs() < 0.2));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn normal(
    key: Key,
    shape: impl Into<Shape>,
    mean: f64,
    std: f64,
    dtype: DType,
) -> Result<Tensor> {
    expect_spread("normal", "std", std)?;
    let shape = shape.into();
    dtype.expect_float("normal", "the result")?;
    let drawn = key.normal(shape, DType::F64)?;
    let scaled = ops::add(&ops::multiply(&drawn, &Tensor::scalar(std))?, &Tensor::scalar(mean))?;
    ops::cast(&scaled, dtype)
}

/// Evenly distributed within `±gain·√(6/(fan_in + fan_out))` (Glorot and Bengio): the variance is
/// kept in both directions, as well as can be.
///
/// ```
/// use extensor::{DType, Key, nn::init};
/// let weight = init::xavier_uniform(Key::new(1), [2, 4], 1.0, DType::F64)?;
/// assert!(weight.to_vec::<f64>()?.iter().all(|w| w.abs() <= 1.0));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn xavier_uniform(
    key: Key,
    shape: impl Into<Shape>,
    gain: f64,
    dtype: DType,
) -> Result<Tensor> {
    let (shape, std) = xavier("xavier_uniform", shape.into(), gain)?;
    even(key, shape, std, dtype)
}

/// Normally distributed with standard deviation `gain·√(2/(fan_in + fan_out))`.
///
/// ```
/// use extensor::{DType, Key, nn::init};
/// assert_eq!(init::xavier_normal(Key::new(1), [2, 4], 1.0, DType::F32)?.shape(), [2, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn xavier_normal(key: Key, shape: impl Into<Shape>, gain: f64, dtype: DType) -> Result<Tensor> {
    let (shape, std) = xavier("xavier_normal", shape.into(), gain)?;
    normal(key, shape, 0.0, std, dtype)
}

/// Evenly distributed within `±gain·√(3/fan)` (He et al.): what goes through layers with this
/// nonlinearity keeps its variance.
///
/// ```
/// use extensor::{DType, Key, nn::init::{self, Fan, Nonlinearity}};
/// let gain = Nonlinearity::Relu.gain();
/// let weight = init::kaiming_uniform(Key::new(1), [2, 6], Fan::In, gain, DType::F64)?;
/// assert!(weight.to_vec::<f64>()?.iter().all(|w| w.abs() <= 1.0));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn kaiming_uniform(
    key: Key,
    shape: impl Into<Shape>,
    fan: Fan,
    gain: f64,
    dtype: DType,
) -> Result<Tensor> {
    let (shape, std) = kaiming("kaiming_uniform", shape.into(), fan, gain)?;
    even(key, shape, std, dtype)
}

/// Normally distributed with standard deviation `gain/√fan`.
///
/// ```
/// use extensor::{DType, Key, nn::init::{self, Fan, Nonlinearity}};
/// let gain = Nonlinearity::Relu.gain();
/// let weight = init::kaiming_normal(Key::new(1), [6, 3, 5, 5], Fan::Out, gain, DType::F32)?;
/// assert_eq!(weight.shape(), [6, 3, 5, 5]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn kaiming_normal(
    key: Key,
    shape: impl Into<Shape>,
    fan: Fan,
    gain: f64,
    dtype: DType,
) -> Result<Tensor> {
    let (shape, std) = kaiming("kaiming_normal", shape.into(), fan, gain)?;
    normal(key, shape, 0.0, std, dtype)
}

/// The standard deviation of [`xavier_uniform`] and [`xavier_normal`].
fn xavier(op: &'static str, shape: Shape, gain: f64) -> Result<(Shape, f64)> {
    expect_spread(op, "gain", gain)?;
    let (fan_in, fan_out) = fans(&shape)?;
    Ok((shape, gain * root_of_share(2.0, fan_in as f64 + fan_out as f64)))
}

/// The standard deviation of [`kaiming_uniform`] and [`kaiming_normal`].
fn kaiming(op: &'static str, shape: Shape, fan: Fan, gain: f64) -> Result<(Shape, f64)> {
    expect_spread(op, "gain", gain)?;
    let (fan_in, fan_out) = fans(&shape)?;
    let fan = if fan == Fan::In { fan_in } else { fan_out };
    Ok((shape, gain * root_of_share(1.0, fan as f64)))
}

/// `√(whole/parts)`; 0 of no parts, where there is nothing to draw.
fn root_of_share(whole: f64, parts: f64) -> f64 {
    if parts == 0.0 { 0.0 } else { (whole / parts).sqrt() }
}

/// Evenly distributed with mean 0 and this standard deviation.
fn even(key: Key, shape: Shape, std: f64, dtype: DType) -> Result<Tensor> {
    let bound = 3f64.sqrt() * std;
    key.uniform(shape, -bound, bound, dtype)
}

fn expect_spread(op: &'static str, parameter: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    bad(op, parameter, "a finite number that is not negative", value)
}

/// `gain` times a matrix with orthonormal rows, or columns if there are fewer of those, evenly
/// distributed among all such; all axes but the first are read as one (Saxe et al.).
///
/// The vectors are orthonormalised one after the other in `f64`, twice each.
///
/// ```
/// use extensor::ops::{matmul, transpose};
/// use extensor::{DType, Key, nn::init};
/// let w = init::orthogonal(Key::new(1), [2, 5], 1.0, DType::F64)?;
/// let product = matmul(&w, &transpose(&w, None)?)?.to_vec::<f64>()?;
/// assert!((product[0] - 1.0).abs() < 1e-14 && product[1].abs() < 1e-14);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn orthogonal(key: Key, shape: impl Into<Shape>, gain: f64, dtype: DType) -> Result<Tensor> {
    let (op, shape) = ("orthogonal", shape.into());
    dtype.expect_float(op, "the result")?;
    expect_spread(op, "gain", gain)?;
    fans(&shape)?;
    let Some(len) = shape.checked_len() else { return Err(Error::Overflow { op, shape }) };
    if len == 0 {
        return Tensor::zeros(shape, dtype);
    }
    let rows = shape[0];
    let columns = len / rows;
    let (count, length) = (rows.min(columns), rows.max(columns));
    let drawn = key.normal([count, length], DType::F64)?;
    let mut values = with_room(op, len)?;
    values.extend(drawn.iter::<f64>()?);
    for i in 0..count {
        let (before, rest) = values.split_at_mut(i * length);
        let vector = &mut rest[..length];
        for _ in 0..2 {
            for other in before.chunks(length) {
                let along = inner(other, vector);
                vector.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
            }
            let size = inner(vector, vector).sqrt();
            vector.iter_mut().for_each(|v| *v /= size);
        }
    }
    let matrix = Tensor::from_vec(values, [count, length])?;
    let matrix = if rows <= columns { matrix } else { ops::transpose(&matrix, [1, 0])? };
    let scaled = ops::multiply(&ops::reshape(&matrix, &shape)?, &Tensor::scalar(gain))?;
    ops::cast(&scaled, dtype)
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Normally distributed with this mean and standard deviation, but never outside `range`: what falls
/// outside is drawn again.
///
/// The range must come within three standard deviations of the mean.
///
/// ```
/// use extensor::{DType, Key, nn::init};
/// let weight = init::truncated_normal(Key::new(1), [100], 0.0, 1.0, -2.0..=2.0, DType::F64)?;
/// assert!(weight.to_vec::<f64>()?.iter().all(|w| w.abs() <= 2.0));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn truncated_normal(
    key: Key,
    shape: impl Into<Shape>,
    mean: f64,
    std: f64,
    range: RangeInclusive<f64>,
    dtype: DType,
) -> Result<Tensor> {
    let (op, shape) = ("truncated_normal", shape.into());
    let (low, high) = range.into_inner();
    dtype.expect_float(op, "the result")?;
    expect_spread(op, "std", std)?;
    let bounded = low <= high && low < f64::INFINITY && high > f64::NEG_INFINITY;
    if !mean.is_finite() || !bounded {
        let expected = "numbers, the mean finite and the bounds in order";
        return bad(op, "mean, low, high", expected, format!("{mean}, {low}, {high}"));
    }
    let Some(len) = shape.checked_len() else { return Err(Error::Overflow { op, shape }) };
    if std == 0.0 || low == high {
        return Tensor::full(shape, mean.clamp(low, high), dtype);
    }
    let (from, to) = ((low - mean) / std, (high - mean) / std);
    let nearest = 0f64.clamp(from, to);
    if nearest.abs() > 3.0 {
        let expected = format!("to come within three standard deviations {std} of the mean {mean}");
        return bad(op, "low, high", expected, format!("{low}, {high}"));
    }
    // Where the interval holds much of the normal distribution, draw from that; elsewhere evenly,
    // and keep in proportion to the density. Eight deviations further on there is nothing left.
    let (start, stop) = (from.max(nearest - 8.0), to.min(nearest + 8.0));
    let wide = nearest == 0.0 && to - from > 2.5;
    let mut values = with_room(op, len)?;
    values.resize(len, 0f64);
    let mut open = with_room(op, len)?;
    open.extend(0..len);
    for round in 0.. {
        if open.is_empty() {
            break;
        }
        let [a, b] = key.fold_in(round).split();
        let drawn = match wide {
            true => a.normal([open.len()], DType::F64)?,
            false => a.uniform([open.len()], start, stop, DType::F64)?,
        };
        let chance = b.uniform([open.len()], 0.0, 1.0, DType::F64)?;
        let mut still = Vec::new();
        for ((&i, x), chance) in open.iter().zip(drawn.iter::<f64>()?).zip(chance.iter::<f64>()?) {
            let density = ((nearest * nearest - x * x) / 2.0).exp();
            if (from..=to).contains(&x) && (wide || chance < density) {
                values[i] = (mean + std * x).clamp(low, high);
            } else {
                still.push(i);
            }
        }
        open = still;
    }
    ops::cast(&Tensor::from_vec(values, shape)?, dtype)
}
