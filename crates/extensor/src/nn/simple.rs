//! Layers without parameters: activations, dropout, pooling, flattening.
//!
//! Each is an operation and its settings, as a value that can stand in a list of layers.

use super::Mode;
use crate::ops::{
    Approximate, InterpolateOptions, Interpolation, Pair, Pool3dOptions, PoolOptions, Triple,
};
use crate::{Result, Tensor, Tree, ops};
use std::fmt;
use std::sync::Arc;

/// A function of each number, or along an axis.
///
/// ```
/// use extensor::{nn::Activation, tensor};
/// let y = Activation::LeakyRelu(0.1).forward(&tensor([-1.0, 2.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [-0.1, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// [`relu`](crate::ops::relu).
    Relu,
    /// [`relu6`](crate::ops::relu6).
    Relu6,
    /// [`leaky_relu`](crate::ops::leaky_relu) with this slope below 0.
    LeakyRelu(f64),
    /// [`elu`](crate::ops::elu) with this α.
    Elu(f64),
    /// [`celu`](crate::ops::celu) with this α.
    Celu(f64),
    /// [`selu`](crate::ops::selu).
    Selu,
    /// [`gelu`](crate::ops::gelu), exact.
    Gelu,
    /// [`gelu`](crate::ops::gelu), approximated by a hyperbolic tangent.
    GeluTanh,
    /// [`swish`](crate::ops::swish), also called SiLU.
    Swish,
    /// [`mish`](crate::ops::mish).
    Mish,
    /// [`hard_swish`](crate::ops::hard_swish).
    HardSwish,
    /// [`sigmoid`](crate::ops::sigmoid).
    Sigmoid,
    /// [`hard_sigmoid`](crate::ops::hard_sigmoid).
    HardSigmoid,
    /// [`log_sigmoid`](crate::ops::log_sigmoid).
    LogSigmoid,
    /// [`tanh`](crate::ops::tanh).
    Tanh,
    /// [`softplus`](crate::ops::softplus).
    Softplus,
    /// [`softsign`](crate::ops::softsign).
    Softsign,
    /// [`hardshrink`](crate::ops::hardshrink) with this bound.
    Hardshrink(f64),
    /// [`softshrink`](crate::ops::softshrink) with this bound.
    Softshrink(f64),
    /// [`tanhshrink`](crate::ops::tanhshrink).
    Tanhshrink,
    /// [`glu`](crate::ops::glu) along this axis, which is halved.
    Glu(i64),
    /// [`softmax`](crate::ops::softmax) along this axis.
    Softmax(i64),
    /// [`log_softmax`](crate::ops::log_softmax) along this axis.
    LogSoftmax(i64),
}

impl Activation {
    /// The function of `x`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match *self {
            Activation::Relu => ops::relu(x),
            Activation::Relu6 => ops::relu6(x),
            Activation::LeakyRelu(slope) => ops::leaky_relu(x, slope),
            Activation::Elu(alpha) => ops::elu(x, alpha),
            Activation::Celu(alpha) => ops::celu(x, alpha),
            Activation::Selu => ops::selu(x),
            Activation::Gelu => ops::gelu(x, Approximate::None),
            Activation::GeluTanh => ops::gelu(x, Approximate::Tanh),
            Activation::Swish => ops::swish(x),
            Activation::Mish => ops::mish(x),
            Activation::HardSwish => ops::hard_swish(x),
            Activation::Sigmoid => ops::sigmoid(x),
            Activation::HardSigmoid => ops::hard_sigmoid(x),
            Activation::LogSigmoid => ops::log_sigmoid(x),
            Activation::Tanh => ops::tanh(x),
            Activation::Softplus => ops::softplus(x, 1.0),
            Activation::Softsign => ops::softsign(x),
            Activation::Hardshrink(bound) => ops::hardshrink(x, bound),
            Activation::Softshrink(bound) => ops::softshrink(x, bound),
            Activation::Tanhshrink => ops::tanhshrink(x),
            Activation::Glu(axis) => ops::glu(x, axis),
            Activation::Softmax(axis) => ops::softmax(x, axis),
            Activation::LogSoftmax(axis) => ops::log_softmax(x, axis),
        }
    }
}

/// In training, each number is dropped with probability `p` and the others are scaled by
/// `1/(1 − p)`; otherwise nothing is done.
///
/// ```
/// use extensor::{DType, Key, Tensor, nn::{Dropout, Mode}};
/// let (layer, x) = (Dropout::new(0.5), Tensor::ones([100], DType::F32)?);
/// let dropped = layer.forward(&x, &Mode::Training(Key::new(1)))?.to_vec::<f32>()?;
/// assert!(dropped.contains(&0.0) && dropped.contains(&2.0));
/// assert_eq!(layer.forward(&x, &Mode::Inference)?.to_vec::<f32>()?, [1.0; 100]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The probability.
    pub p: f64,
}

impl Dropout {
    /// With this probability.
    pub fn new(p: f64) -> Dropout {
        Dropout { p }
    }

    /// What is left of `x`: the mask depends on the mode's key and on the shape alone.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        match mode {
            Mode::Training(key) if self.p != 0.0 => Ok(ops::dropout(x, self.p, *key)?.0),
            _ => Ok(x.clone()),
        }
    }
}

macro_rules! pooling {
    ($(#[$doc:meta])* $name:ident, $op:ident, $what:literal) => {
        pooling!($(#[$doc])* $name, $op, $what, PoolOptions, Pair);
    };
    ($(#[$doc:meta])* $name:ident, $op:ident, $what:literal, $Options:ident, $Sizes:ident) => {
        $(#[$doc])*
        #[derive(Tree, Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// How the windows lie.
            pub options: $Options,
        }

        impl $name {
            /// Windows of this size, next to each other.
            pub fn new(kernel_size: impl Into<$Sizes>) -> $name {
                $name { options: $Options::new(kernel_size) }
            }

            /// With windows so far apart, along each axis.
            #[must_use]
            pub fn stride(self, stride: impl Into<$Sizes>) -> $name {
                $name { options: self.options.stride(stride) }
            }

            /// With so much padding around an image.
            #[must_use]
            pub fn padding(self, padding: impl Into<$Sizes>) -> $name {
                $name { options: self.options.padding(padding) }
            }

            #[doc = $what]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
                ops::$op(x, self.options)
            }
        }
    };
}

pooling! {
    /// [`maxpool2d`](crate::ops::maxpool2d) and its settings.
    ///
    /// ```
    /// use extensor::{nn::MaxPool2d, tensor};
    /// let y = MaxPool2d::new(2).forward(&tensor([[[[1.0, 4.0], [2.0, 3.0]]]]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [4.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    MaxPool2d, maxpool2d, "The largest number of each window."
}

pooling! {
    /// [`avgpool2d`](crate::ops::avgpool2d) and its settings.
    ///
    /// ```
    /// use extensor::{nn::AvgPool2d, tensor};
    /// let y = AvgPool2d::new(2).forward(&tensor([[[[1.0, 4.0], [2.0, 3.0]]]]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.5]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    AvgPool2d, avgpool2d, "The average of each window."
}

pooling! {
    /// [`maxpool1d`](crate::ops::maxpool1d) and its settings.
    ///
    /// ```
    /// use extensor::{nn::MaxPool1d, tensor};
    /// let y = MaxPool1d::new(2).forward(&tensor([[[1.0, 4.0]]]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [4.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    MaxPool1d, maxpool1d, "The largest number of each window."
}

pooling! {
    /// [`avgpool1d`](crate::ops::avgpool1d) and its settings.
    ///
    /// ```
    /// use extensor::{nn::AvgPool1d, tensor};
    /// let y = AvgPool1d::new(2).forward(&tensor([[[1.0, 4.0]]]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.5]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    AvgPool1d, avgpool1d, "The average of each window."
}

pooling! {
    /// [`maxpool3d`](crate::ops::maxpool3d) and its settings.
    ///
    /// ```
    /// use extensor::{nn::MaxPool3d, tensor};
    /// let y = MaxPool3d::new(2).forward(&tensor([[[[[1.0, 4.0], [2.0, 1.0]], [[0.0, 3.0], [2.0, 3.0]]]]]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [4.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    MaxPool3d, maxpool3d, "The largest number of each window.", Pool3dOptions, Triple
}

pooling! {
    /// [`avgpool3d`](crate::ops::avgpool3d) and its settings.
    ///
    /// ```
    /// use extensor::{nn::AvgPool3d, tensor};
    /// let y = AvgPool3d::new(2).forward(&tensor([[[[[1.0, 4.0], [2.0, 1.0]], [[0.0, 3.0], [2.0, 3.0]]]]]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    AvgPool3d, avgpool3d, "The average of each window.", Pool3dOptions, Triple
}

/// [`global_avgpool2d`](crate::ops::global_avgpool2d) as a layer: `[N, C, H, W]` to `[N, C, 1, 1]`.
///
/// ```
/// use extensor::{nn::GlobalAvgPool, tensor};
/// let y = GlobalAvgPool.forward(&tensor([[[[1.0, 4.0, 7.0]]]]))?;
/// assert_eq!(y.shape(), [1, 1, 1, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalAvgPool;

impl GlobalAvgPool {
    /// The average of each plane.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::global_avgpool2d(x)
    }
}

/// [`adaptive_avgpool2d`](crate::ops::adaptive_avgpool2d) as a layer: planes brought to one size.
///
/// ```
/// use extensor::{nn::AdaptiveAvgPool, tensor};
/// let y = AdaptiveAvgPool::new([1, 2]).forward(&tensor([[[[1.0, 3.0, 5.0]]]]))?;
/// assert_eq!(y.to_vec::<f64>()?, [2.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveAvgPool {
    /// Height and width of the result.
    pub size: Pair,
}

impl AdaptiveAvgPool {
    /// To planes of this height and width.
    pub fn new(size: impl Into<Pair>) -> AdaptiveAvgPool {
        AdaptiveAvgPool { size: size.into() }
    }

    /// The averages of windows that cover each plane as evenly as possible.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::adaptive_avgpool2d(x, self.size)
    }
}

/// [`interpolate`](crate::ops::interpolate) as a layer: images so many times as large.
///
/// ```
/// use extensor::nn::Upsample;
/// use extensor::ops::Interpolation;
/// use extensor::tensor;
/// let layer = Upsample::new(2.0, Interpolation::Nearest);
/// let y = layer.forward(&tensor([[[1.0, 3.0]]]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 1.0, 3.0, 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Copy, Debug, PartialEq)]
pub struct Upsample {
    /// How many times as large.
    #[tree(static)]
    pub scale_factor: f64,
    /// From which neighbours.
    #[tree(static)]
    pub mode: Interpolation,
}

impl Upsample {
    /// So many times as large along each axis.
    pub fn new(scale_factor: f64, mode: Interpolation) -> Upsample {
        Upsample { scale_factor, mode }
    }

    /// The images in their new size.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let options = InterpolateOptions::new().scale_factor(self.scale_factor);
        ops::interpolate(x, options.mode(self.mode))
    }
}

/// All axes but the first as one.
///
/// ```
/// use extensor::{DType, Tensor, nn::Flatten};
/// let x = Tensor::zeros([2, 3, 4], DType::F32)?;
/// assert_eq!(Flatten.forward(&x)?.shape(), [2, 12]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten;

impl Flatten {
    /// `x` as `[batch, numbers]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::flatten(x, 1, -1)
    }
}

type OfTensor = dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync;

/// A function of tensors as a layer: an activation of one's own, say, with a
/// [rule of one's own](crate::autodiff::custom_vjp).
///
/// ```
/// use extensor::nn::Function;
/// use extensor::{Tensor, tensor};
/// let layer = Function::new(|x: &Tensor| x.abs()?.log1p());
/// assert_eq!(layer.forward(&tensor([0.0]))?.to_vec::<f64>()?, [0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone)]
pub struct Function {
    #[tree(static)]
    function: Arc<OfTensor>,
}

impl Function {
    /// This function.
    pub fn new(function: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static) -> Function {
        Function { function: Arc::new(function) }
    }

    /// What it makes of `x`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (self.function)(x)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}
