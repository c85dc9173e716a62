//! The layers that are one matrix: [`Linear`] and [`Embedding`].
//!
//! They know shapes and how parameters begin; the arithmetic is that of the operations.

use super::init;
use crate::{DType, Key, Result, Tensor, Tree, ops};

/// `y = x·weightᵀ + bias`, for `x` with any number of axes before the last.
///
/// ```
/// use extensor::{DType, Key, nn::Linear};
/// let [a, b] = Key::new(1).split();
/// let layer = Linear::new(a, 3, 2)?;
/// assert_eq!(layer.weight.shape(), [2, 3]);
/// let y = layer.forward(&b.normal([5, 3], DType::F32)?)?;
/// assert_eq!(y.shape(), [5, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// A layer that begins as PyTorch's: weight and bias evenly distributed within `±1/√inputs`.
    pub fn new(key: Key, inputs: usize, outputs: usize) -> Result<Linear> {
        let [_, for_bias] = key.split();
        let bias = init::by_fan_in(for_bias, [outputs], inputs, DType::F32)?;
        Ok(Linear { bias: Some(bias), ..Linear::without_bias(key, inputs, outputs)? })
    }

    /// Likewise without a bias.
    pub fn without_bias(key: Key, inputs: usize, outputs: usize) -> Result<Linear> {
        let [for_weight, _] = key.split();
        let weight = init::by_fan_in(for_weight, [outputs, inputs], inputs, DType::F32)?;
        Ok(Linear { weight, bias: None })
    }

    /// `x·weightᵀ + bias`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::linear(x, &self.weight, self.bias.as_ref())
    }
}

/// `y[j…] = weight[index[j…]]`: a vector for each of a number of things.
///
/// ```
/// use extensor::{Key, nn::Embedding, tensor};
/// let table = Embedding::new(Key::new(1), 10, 4)?;
/// assert_eq!(table.forward(&tensor([[3i64, 1], [9, 0]]))?.shape(), [2, 2, 4]);
/// assert!(table.forward(&tensor([10i64])).is_err());
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct Embedding {
    /// `[things, size of a vector]`.
    pub weight: Tensor,
}

impl Embedding {
    /// `count` vectors of length `size` that begin as PyTorch's: normally distributed.
    pub fn new(key: Key, count: usize, size: usize) -> Result<Embedding> {
        Ok(Embedding { weight: key.normal([count, size], DType::F32)? })
    }

    /// The vector of each index.
    #[track_caller]
    pub fn forward(&self, index: &Tensor) -> Result<Tensor> {
        ops::embedding(&self.weight, index)
    }
}
