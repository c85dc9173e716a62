//! How parameters begin: random tensors, from explicit keys, whose spread fits the layer.
//!
//! A shape is read as PyTorch reads it: `[out, in, kernel…]`. Nothing here knows a layer.

use super::bad;
use crate::{DType, Key, Result, Shape, Tensor};

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
        _ => Err(crate::Error::Overflow { op: "init", shape: shape.into() }),
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
