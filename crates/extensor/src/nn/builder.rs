//! A [`Sequential`] said layer by layer.
//!
//! It hands out keys and keeps the first error for the end; what a layer is, it does not know.

use super::*;
use crate::ops::{ConvOptions, Pair, PoolOptions};
use crate::{Error, Shape};

/// What [`Sequential::builder`] returns: each method adds a layer, and [`build`](Builder::build) returns
/// them all, or the first error.
///
/// The parameters of layer number `i` come from the key `key.fold_in(i)`.
///
/// ```
/// use extensor::nn::Sequential;
/// use extensor::prelude::*;
///
/// let model = Sequential::builder(Key::new(1))
///     .conv2d_with(1, 8, 3, ConvOptions::new().padding(1))
///     .batch_norm2d(8)
///     .relu()
///     .maxpool2d(2)
///     .flatten()
///     .linear(8 * 4 * 4, 10)
///     .build()?;
/// let images = Tensor::zeros([2, 1, 8, 8], DType::F32)?;
/// assert_eq!(model.forward(&images, &Mode::Inference)?.logits.shape(), [2, 10]);
///
/// let error = Sequential::builder(Key::new(1)).conv2d(1, 8, 0).relu().build().unwrap_err();
/// assert!(error.to_string().contains("layer 0: conv2d: kernel"), "{error}");
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    key: Key,
    layers: Result<Vec<Layer>>,
}

impl Builder {
    pub(super) fn new(key: Key) -> Builder {
        Builder { key, layers: Ok(Vec::new()) }
    }

    /// A layer made elsewhere, or one that this builder has no method for.
    pub fn layer(self, layer: impl Into<Layer>) -> Builder {
        self.make(|_| Ok(layer))
    }

    fn make<L: Into<Layer>>(mut self, layer: impl FnOnce(Key) -> Result<L>) -> Builder {
        if let Ok(layers) = &mut self.layers {
            let number = layers.len();
            match layer(self.key.fold_in(number as u64)) {
                Ok(layer) => layers.push(layer.into()),
                Err(error) => {
                    self.layers = Err(Error::InLayer { number, error: Box::new(error) });
                }
            }
        }
        self
    }

    /// A [`Linear`] layer.
    pub fn linear(self, inputs: usize, outputs: usize) -> Builder {
        self.make(|key| Linear::new(key, inputs, outputs))
    }

    /// An [`Embedding`].
    pub fn embedding(self, count: usize, size: usize) -> Builder {
        self.make(|key| Embedding::new(key, count, size))
    }

    /// A [`Conv2d`].
    pub fn conv2d(self, inputs: usize, outputs: usize, kernel: impl Into<Pair>) -> Builder {
        self.conv2d_with(inputs, outputs, kernel, ConvOptions::new())
    }

    /// A [`Conv2d`] with options.
    pub fn conv2d_with(
        self,
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Pair>,
        options: ConvOptions,
    ) -> Builder {
        self.make(|key| Conv2d::with(key, inputs, outputs, kernel, options))
    }

    /// A [`BatchNorm2d`].
    pub fn batch_norm2d(self, channels: usize) -> Builder {
        self.make(|_| BatchNorm2d::new(channels))
    }

    /// A [`LayerNorm`].
    pub fn layer_norm(self, shape: impl Into<Shape>) -> Builder {
        self.make(|_| LayerNorm::new(shape))
    }

    /// An [`Activation`].
    pub fn activation(self, activation: Activation) -> Builder {
        self.layer(activation)
    }

    /// [`Activation::Relu`].
    pub fn relu(self) -> Builder {
        self.layer(Activation::Relu)
    }

    /// [`Activation::Gelu`].
    pub fn gelu(self) -> Builder {
        self.layer(Activation::Gelu)
    }

    /// [`Activation::Tanh`].
    pub fn tanh(self) -> Builder {
        self.layer(Activation::Tanh)
    }

    /// A [`Dropout`].
    pub fn dropout(self, p: f64) -> Builder {
        self.layer(Dropout::new(p))
    }

    /// A [`MaxPool2d`].
    pub fn maxpool2d(self, windows: impl Into<PoolOptions>) -> Builder {
        self.layer(MaxPool2d { options: windows.into() })
    }

    /// An [`AvgPool2d`].
    pub fn avgpool2d(self, windows: impl Into<PoolOptions>) -> Builder {
        self.layer(AvgPool2d { options: windows.into() })
    }

    /// A [`GlobalAvgPool`].
    pub fn global_avgpool2d(self) -> Builder {
        self.layer(GlobalAvgPool)
    }

    /// A [`Flatten`].
    pub fn flatten(self) -> Builder {
        self.layer(Flatten)
    }

    /// A [`Function`] of one's own.
    pub fn function(
        self,
        function: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Builder {
        self.layer(Function::new(function))
    }

    /// The layers, or the error of the first that could not be made.
    pub fn build(self) -> Result<Sequential> {
        Ok(Sequential { layers: self.layers? })
    }
}
