//! Layers one after the other.
//!
//! A list knows which layers there are and in which order; what they compute is their own concern.

use super::*;
use crate::autodiff::{Item, Path};

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident($layer:ty)),* $(,)?) => {
        /// Any layer, to stand in a [`Sequential`]; its leaves have the names of the layer within.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Layer {
            $($(#[$doc])* $name($layer),)*
        }

        impl Tree for Layer {
            fn visit<'a>(
                &'a self,
                path: &Path<'_>,
                f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
            ) -> Result<()> {
                match self {
                    $(Layer::$name(layer) => layer.visit(path, f),)*
                }
            }
            fn map(
                &self,
                path: &Path<'_>,
                f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
            ) -> Result<Layer> {
                Ok(match self {
                    $(Layer::$name(layer) => Layer::$name(layer.map(path, f)?),)*
                })
            }
            fn visit_mut(
                &mut self,
                path: &Path<'_>,
                f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
            ) -> Result<()> {
                match self {
                    $(Layer::$name(layer) => layer.visit_mut(path, f),)*
                }
            }
            fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
                match self {
                    $(Layer::$name(layer) => layer.describe(path, f),)*
                }
            }
        }

        $(impl From<$layer> for Layer {
            fn from(layer: $layer) -> Layer {
                Layer::$name(layer)
            }
        })*
    };
}

layers! {
    /// A linear layer.
    Linear(Linear),
    /// Vectors for numbers of things.
    Embedding(Embedding),
    /// A convolution over one axis.
    Conv1d(Conv1d),
    /// A convolution over two axes.
    Conv2d(Conv2d),
    /// A convolution over three axes.
    Conv3d(Conv3d),
    /// A transposed convolution over one axis.
    ConvTranspose1d(ConvTranspose1d),
    /// A transposed convolution over two axes.
    ConvTranspose2d(ConvTranspose2d),
    /// A transposed convolution over three axes.
    ConvTranspose3d(ConvTranspose3d),
    /// Normalisation over a batch, with running statistics.
    BatchNorm2d(BatchNorm2d),
    /// Normalisation of the last axes.
    LayerNorm(LayerNorm),
    /// Division of the last axes by their size.
    RMSNorm(RMSNorm),
    /// Normalisation of groups of channels.
    GroupNorm(GroupNorm),
    /// Self-attention without a mask.
    MultiHeadAttention(MultiHeadAttention),
    /// A function of each number.
    Activation(Activation),
    /// Numbers left out at random in training.
    Dropout(Dropout),
    /// The largest numbers of windows over sequences.
    MaxPool1d(MaxPool1d),
    /// The largest numbers of windows.
    MaxPool2d(MaxPool2d),
    /// The largest numbers of windows over volumes.
    MaxPool3d(MaxPool3d),
    /// The averages of windows over sequences.
    AvgPool1d(AvgPool1d),
    /// The averages of windows.
    AvgPool2d(AvgPool2d),
    /// The averages of windows over volumes.
    AvgPool3d(AvgPool3d),
    /// Images in another size.
    Upsample(Upsample),
    /// The average of each plane.
    GlobalAvgPool(GlobalAvgPool),
    /// The averages of windows that cover each plane.
    AdaptiveAvgPool(AdaptiveAvgPool),
    /// All axes but the first as one.
    Flatten(Flatten),
    /// A function of one's own.
    Function(Function),
    /// Layers one after the other.
    Sequential(Sequential),
}

impl Layer {
    /// The layer's result, and the layer itself with new running statistics where it has some and is
    /// being trained.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, mode: &Mode) -> Result<(Tensor, Option<Layer>)> {
        let y = match self {
            Layer::BatchNorm2d(layer) => {
                let (y, next) = layer.forward(x, mode)?;
                return Ok((y, mode.is_training().then(|| next.into())));
            }
            Layer::Sequential(layers) => {
                let Output { logits, model } = layers.forward(x, mode)?;
                return Ok((logits, model.map(Layer::from)));
            }
            Layer::Linear(layer) => layer.forward(x),
            Layer::Embedding(layer) => layer.forward(x),
            Layer::Conv1d(layer) => layer.forward(x),
            Layer::Conv2d(layer) => layer.forward(x),
            Layer::Conv3d(layer) => layer.forward(x),
            Layer::ConvTranspose1d(layer) => layer.forward(x),
            Layer::ConvTranspose2d(layer) => layer.forward(x),
            Layer::ConvTranspose3d(layer) => layer.forward(x),
            Layer::LayerNorm(layer) => layer.forward(x),
            Layer::RMSNorm(layer) => layer.forward(x),
            Layer::GroupNorm(layer) => layer.forward(x),
            Layer::MultiHeadAttention(layer) => layer.forward(x),
            Layer::Activation(layer) => layer.forward(x),
            Layer::Dropout(layer) => layer.forward(x, mode),
            Layer::MaxPool1d(layer) => layer.forward(x),
            Layer::MaxPool2d(layer) => layer.forward(x),
            Layer::MaxPool3d(layer) => layer.forward(x),
            Layer::AvgPool1d(layer) => layer.forward(x),
            Layer::AvgPool2d(layer) => layer.forward(x),
            Layer::AvgPool3d(layer) => layer.forward(x),
            Layer::Upsample(layer) => layer.forward(x),
            Layer::GlobalAvgPool(layer) => layer.forward(x),
            Layer::AdaptiveAvgPool(layer) => layer.forward(x),
            Layer::Flatten(layer) => layer.forward(x),
            Layer::Function(layer) => layer.forward(x),
        };
        Ok((y?, None))
    }
}

/// Layers one after the other, with the names of PyTorch's `nn.Sequential`: `0.weight`, `2.bias`.
///
/// [`Sequential::builder`] makes the layers and gives each its key. A network of your own, with layers
/// that are not here or with branches, is a struct with `#[derive(Tree)]` and a function.
///
/// ```
/// use extensor::autodiff::named_leaves;
/// use extensor::nn::{Activation, Linear, Mode, Model, Sequential};
/// use extensor::{DType, Key};
/// let [a, b, c] = Key::new(1).split();
/// let model = Sequential::new([
///     Linear::new(a, 4, 8)?.into(),
///     Activation::Relu.into(),
///     Linear::new(b, 8, 3)?.into(),
/// ]);
/// let names: Vec<String> = named_leaves(&model).into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0.weight", "0.bias", "2.weight", "2.bias"]);
/// let x = c.normal([5, 4], DType::F32)?;
/// assert_eq!(model.forward(&x, &Mode::Inference)?.logits.shape(), [5, 3]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sequential {
    /// The layers, the first first.
    pub layers: Vec<Layer>,
}

impl Sequential {
    /// These layers.
    pub fn new(layers: impl Into<Vec<Layer>>) -> Sequential {
        Sequential { layers: layers.into() }
    }

    /// Layers that are yet to be said, with parameters from this key.
    pub fn builder(key: Key) -> Builder {
        Builder::new(key)
    }
}

impl Model for Sequential {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Output<Sequential>> {
        let mut x = x.clone();
        let mut changed = Vec::new();
        for (i, layer) in self.layers.iter().enumerate() {
            let (y, next) = layer.forward(&x, &mode.split(i as u64))?;
            x = y;
            changed.extend(next.map(|next| (i, next)));
        }
        if changed.is_empty() {
            return Ok(Output::stateless(x));
        }
        let mut model = self.clone();
        for (i, layer) in changed {
            model.layers[i] = layer;
        }
        Ok(Output { logits: x, model: Some(model) })
    }
}

/// The leaves of the layers under their numbers.
impl Tree for Sequential {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        self.layers.visit(path, f)
    }
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Sequential> {
        Ok(Sequential { layers: self.layers.map(path, f)? })
    }
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        self.layers.visit_mut(path, f)
    }
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        f(path, Item::Node("Sequential"));
        self.layers.describe(path, f);
    }
}
