//! Layers that normalise.
//!
//! They know their parameters and running statistics; the arithmetic is that of the operations.

use super::{Mode, bad};
use crate::ops::BatchNormOptions;
use crate::{DType, Result, Shape, Tensor, Tree, ops};

/// [`batch_norm2d`](crate::ops::batch_norm2d) with its parameters and running statistics: each channel of
/// `[N, C, H, W]` or `[N, C]` normalised over the whole batch.
///
/// In training the batch's own statistics are used, and the layer with new running statistics is
/// returned; otherwise the running ones are used, and stay. Names and conventions are PyTorch's: the
/// new running statistics are `(1 − momentum)·running + momentum·batch`, with the variance of a sample.
///
/// ```
/// use extensor::{Key, nn::{BatchNorm2d, Mode}, tensor};
/// let layer = BatchNorm2d::new(1)?;
/// let x = tensor([[1f32], [3.0]]);
/// let (y, layer) = layer.forward(&x, &Mode::Training(Key::new(1)))?;
/// assert!((y.to_vec::<f32>()?[0] + 1.0).abs() < 1e-4);
/// assert_eq!(layer.running_mean.to_vec::<f32>()?, [0.2]);
/// assert_eq!(layer.num_batches_tracked.item::<i64>()?, 1);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct BatchNorm2d {
    /// What a normalised number is multiplied by, `[C]`.
    pub weight: Tensor,
    /// What is added to it then, `[C]`.
    pub bias: Tensor,
    /// The average of the batches' means, `[C]`.
    #[tree(buffer)]
    pub running_mean: Tensor,
    /// The average of the batches' variances, `[C]`.
    #[tree(buffer)]
    pub running_var: Tensor,
    /// How many batches there were, one whole number.
    #[tree(buffer)]
    pub num_batches_tracked: Tensor,
    /// The weight of a new batch in the running statistics.
    #[tree(static)]
    pub momentum: f64,
    /// What is added to a variance before its root is taken.
    #[tree(static)]
    pub eps: f64,
}

impl BatchNorm2d {
    /// For so many channels, with momentum 0.1 and eps 10⁻⁵.
    pub fn new(channels: usize) -> Result<BatchNorm2d> {
        Ok(BatchNorm2d {
            weight: Tensor::ones([channels], DType::F32)?,
            bias: Tensor::zeros([channels], DType::F32)?,
            running_mean: Tensor::zeros([channels], DType::F32)?,
            running_var: Tensor::ones([channels], DType::F32)?,
            num_batches_tracked: Tensor::scalar(0i64),
            momentum: 0.1,
            eps: 1e-5,
        })
    }

    /// With this momentum.
    pub fn momentum(self, momentum: f64) -> BatchNorm2d {
        BatchNorm2d { momentum, ..self }
    }

    /// With this number added to variances.
    pub fn eps(self, eps: f64) -> BatchNorm2d {
        BatchNorm2d { eps, ..self }
    }

    /// The normalised batch, and the layer with the running statistics that belong to the next one.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, mode: &Mode) -> Result<(Tensor, BatchNorm2d)> {
        let running = Some((&self.running_mean, &self.running_var));
        let (weight, bias, training) = (&self.weight, &self.bias, mode.is_training());
        let found = ops::batch_norm2d(
            x,
            weight,
            bias,
            BatchNormOptions::new()
                .running(running)
                .training(training)
                .momentum(self.momentum)
                .eps(self.eps),
        )?;
        if !training {
            return Ok((found.output, self.clone()));
        }
        let kept = |new: &Tensor, old: &Tensor| match old.dtype() {
            dtype if dtype == new.dtype() => Ok(new.clone()),
            dtype => ops::cast(new, dtype),
        };
        let next = BatchNorm2d {
            running_mean: kept(&found.running_mean, &self.running_mean)?,
            running_var: kept(&found.running_var, &self.running_var)?,
            num_batches_tracked: ops::add(&self.num_batches_tracked, &Tensor::scalar(1i64))?,
            ..self.clone()
        };
        Ok((found.output, next))
    }
}

/// [`layer_norm`](crate::ops::layer_norm) with its parameters: the last axes normalised together.
///
/// ```
/// use extensor::{nn::LayerNorm, tensor};
/// let y = LayerNorm::new([2])?.eps(0.0).forward(&tensor([[1f32, 3.0]]))?;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct LayerNorm {
    /// What a normalised number is multiplied by, of the sizes of the last axes.
    pub weight: Tensor,
    /// What is added to it then.
    pub bias: Tensor,
    /// What is added to a variance before its root is taken.
    #[tree(static)]
    pub eps: f64,
}

impl LayerNorm {
    /// For last axes of this shape, with eps 10⁻⁵.
    pub fn new(shape: impl Into<Shape>) -> Result<LayerNorm> {
        let shape = shape.into();
        let bias = Tensor::zeros(shape.clone(), DType::F32)?;
        Ok(LayerNorm { weight: Tensor::ones(shape, DType::F32)?, bias, eps: 1e-5 })
    }

    /// With this number added to variances.
    pub fn eps(self, eps: f64) -> LayerNorm {
        LayerNorm { eps, ..self }
    }

    /// `(x − mean)/√(variance + eps)·weight + bias`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm(x, Some(&self.weight), Some(&self.bias), self.weight.shape(), self.eps)
    }
}

/// [`rms_norm`](crate::ops::rms_norm) with its parameter: the last axes divided by their size.
///
/// ```
/// use extensor::{nn::RMSNorm, tensor};
/// let y = RMSNorm::new([2])?.eps(0.0).forward(&tensor([[3f32, -3.0]]))?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, -1.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct RMSNorm {
    /// What a normalised number is multiplied by, of the sizes of the last axes.
    pub weight: Tensor,
    /// What is added to the mean square before its root is taken.
    #[tree(static)]
    pub eps: f64,
}

impl RMSNorm {
    /// For last axes of this shape, with eps 10⁻⁶ (PyTorch's own is the dtype's precision, unless
    /// given).
    pub fn new(shape: impl Into<Shape>) -> Result<RMSNorm> {
        Ok(RMSNorm { weight: Tensor::ones(shape, DType::F32)?, eps: 1e-6 })
    }

    /// With this number added to mean squares.
    pub fn eps(self, eps: f64) -> RMSNorm {
        RMSNorm { eps, ..self }
    }

    /// `x/√(mean(x²) + eps)·weight`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::rms_norm(x, Some(&self.weight), self.weight.shape(), self.eps)
    }
}

/// [`group_norm`](crate::ops::group_norm) with its parameters: groups of channels of `[N, C, …]`
/// normalised together.
///
/// ```
/// use extensor::{DType, Key, nn::GroupNorm};
/// let layer = GroupNorm::new(2, 6)?;
/// let y = layer.forward(&Key::new(1).normal([2, 6, 4, 4], DType::F32)?)?;
/// assert_eq!(y.shape(), [2, 6, 4, 4]);
/// assert!(GroupNorm::new(4, 6).is_err());
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct GroupNorm {
    /// What a normalised number is multiplied by, `[C]`.
    pub weight: Tensor,
    /// What is added to it then, `[C]`.
    pub bias: Tensor,
    /// How many groups there are.
    #[tree(static)]
    pub groups: usize,
    /// What is added to a variance before its root is taken.
    #[tree(static)]
    pub eps: f64,
}

impl GroupNorm {
    /// For `channels` channels in `groups` groups, with eps 10⁻⁵.
    pub fn new(groups: usize, channels: usize) -> Result<GroupNorm> {
        if groups == 0 || !channels.is_multiple_of(groups) {
            let expected = format!("a divisor of {channels} channels");
            return bad("group_norm", "groups", expected, groups);
        }
        let weight = Tensor::ones([channels], DType::F32)?;
        let bias = Tensor::zeros([channels], DType::F32)?;
        Ok(GroupNorm { weight, bias, groups, eps: 1e-5 })
    }

    /// With this number added to variances.
    pub fn eps(self, eps: f64) -> GroupNorm {
        GroupNorm { eps, ..self }
    }

    /// `(x − mean)/√(variance + eps)·weight + bias`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::group_norm(x, Some(&self.weight), Some(&self.bias), self.groups, self.eps)
    }
}
