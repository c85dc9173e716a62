//! Layers applied in the order in which they are read.

use super::*;

/// What can be applied to a tensor: a layer that has no state and behaves the same in training, or a
/// function. (The others, [`Dropout`] and [`BatchNorm2d`], need to know the [`Mode`].)
///
/// ```
/// use extensor::nn::Linear;
/// use extensor::prelude::*;
///
/// #[derive(Tree, Clone)]
/// struct Network { hidden: Linear, last: Linear }
///
/// impl Module for Network {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         x.apply(&self.hidden)?.relu()?.apply(&self.last)
///     }
/// }
///
/// let [a, b, c] = Key::new(1).split();
/// let network = Network { hidden: Linear::new(a, 4, 8)?, last: Linear::new(b, 8, 3)? };
/// let x = c.normal([5, 4], DType::F32)?;
/// assert_eq!(x.apply(&network)?.apply(&|y: &Tensor| y.softmax(-1))?.shape(), [5, 3]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub trait Module {
    /// What comes of `x`.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

impl<F: Fn(&Tensor) -> Result<Tensor>> Module for F {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self(x)
    }
}

macro_rules! modules {
    ($($layer:ty),* $(,)?) => {$(
        impl Module for $layer {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                <$layer>::forward(self, x)
            }
        }
    )*};
}

modules!(
    Linear,
    Embedding,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    LayerNorm,
    RMSNorm,
    GroupNorm,
    MultiHeadAttention,
    Activation,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    Upsample,
    GlobalAvgPool,
    AdaptiveAvgPool,
    Flatten,
    Function,
);

impl Tensor {
    /// What a layer or a function makes of this tensor: `x.apply(&self.conv1)?.relu()?`.
    ///
    /// ```
    /// use extensor::{DType, Key, Tensor, nn::Linear};
    /// let layer = Linear::new(Key::new(1), 3, 2)?;
    /// assert_eq!(Tensor::ones([5, 3], DType::F32)?.apply(&layer)?.shape(), [5, 2]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[track_caller]
    pub fn apply(&self, module: &(impl Module + ?Sized)) -> Result<Tensor> {
        module.forward(self)
    }
}
