//! Convolutional layers.
//!
//! They know shapes and how parameters begin; the arithmetic is that of the operations.

use super::{bad, init};
use crate::ops::{Conv3dOptions, ConvOptions, Pair, Triple};
use crate::{DType, Key, Result, Shape, Tensor, Tree, ops};

macro_rules! beginning {
    ($Options:ident) => {
        impl $Options {
            /// An error unless the groups divide both numbers of channels.
            fn expect_groups(&self, op: &'static str, inputs: usize, outputs: usize) -> Result<()> {
                let groups = self.groups;
                if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups)
                {
                    let expected = format!("a divisor of {inputs} and of {outputs} channels");
                    return bad(op, "groups", expected, groups);
                }
                Ok(())
            }

            /// Weight and bias of PyTorch's distribution, with the weight of shape `shape`.
            fn begin(
                &self,
                key: Key,
                shape: impl Into<Shape>,
                outputs: usize,
            ) -> Result<(Tensor, Tensor)> {
                begin(key, shape.into(), outputs)
            }
        }
    };
}

beginning!(ConvOptions);
beginning!(Conv3dOptions);

fn begin(key: Key, shape: Shape, outputs: usize) -> Result<(Tensor, Tensor)> {
    let [for_weight, for_bias] = key.split();
    let (fan_in, _) = init::fans(&shape)?;
    let weight = init::by_fan_in(for_weight, shape, fan_in, DType::F32)?;
    Ok((weight, init::by_fan_in(for_bias, [outputs], fan_in, DType::F32)?))
}

/// The sizes of a kernel, one for each axis.
fn kernel_sizes<const N: usize>(op: &'static str, sizes: [i64; N]) -> Result<[usize; N]> {
    if sizes.iter().any(|&size| size < 1) {
        return bad(op, "kernel", "at least 1", format!("{sizes:?}"));
    }
    Ok(sizes.map(|size| size as usize))
}

/// [`conv2d`](crate::ops::conv2d) with a weight and a bias.
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::{DType, Key, nn::Conv2d};
/// let [a, b] = Key::new(1).split();
/// let layer = Conv2d::with(a, 1, 6, 5, ConvOptions::new().padding(2))?;
/// let y = layer.forward(&b.normal([2, 1, 28, 28], DType::F32)?)?;
/// assert_eq!(y.shape(), [2, 6, 28, 28]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct Conv2d {
    /// `[out, in/groups, kernel height, kernel width]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    /// How the windows lie.
    pub options: ConvOptions,
}

impl Conv2d {
    /// A layer of `outputs` filters over `inputs` channels, which begins as PyTorch's: evenly
    /// distributed within `±1/√(numbers that a filter sees)`.
    pub fn new(key: Key, inputs: usize, outputs: usize, kernel: impl Into<Pair>) -> Result<Conv2d> {
        Conv2d::with(key, inputs, outputs, kernel, ConvOptions::new())
    }

    /// Likewise, with options.
    pub fn with(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Pair>,
        options: ConvOptions,
    ) -> Result<Conv2d> {
        options.expect_groups("conv2d", inputs, outputs)?;
        let [height, width] = kernel_sizes("conv2d", kernel.into().0)?;
        let shape = [outputs, inputs / options.groups, height, width];
        let (weight, bias) = options.begin(key, shape, outputs)?;
        Ok(Conv2d { weight, bias: Some(bias), options })
    }

    /// The same layer without its bias.
    #[must_use]
    pub fn without_bias(self) -> Conv2d {
        Conv2d { bias: None, ..self }
    }

    /// The convolution of images, `[images, in, height, width]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::conv2d(x, &self.weight, self.bias.as_ref(), self.options)
    }
}

/// [`conv1d`](crate::ops::conv1d) with a weight and a bias.
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::{DType, Key, nn::Conv1d};
/// let [a, b] = Key::new(1).split();
/// let layer = Conv1d::with(a, 3, 4, 5, ConvOptions::new().stride(2))?;
/// let y = layer.forward(&b.normal([2, 3, 15], DType::F32)?)?;
/// assert_eq!(y.shape(), [2, 4, 6]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct Conv1d {
    /// `[out, in/groups, kernel]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    /// How the windows lie.
    pub options: ConvOptions,
}

impl Conv1d {
    /// A layer of `outputs` filters over `inputs` channels, which begins as PyTorch's.
    pub fn new(key: Key, inputs: usize, outputs: usize, kernel: usize) -> Result<Conv1d> {
        Conv1d::with(key, inputs, outputs, kernel, ConvOptions::new())
    }

    /// Likewise, with options.
    pub fn with(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: usize,
        options: ConvOptions,
    ) -> Result<Conv1d> {
        options.expect_groups("conv1d", inputs, outputs)?;
        let [kernel, _] = kernel_sizes("conv1d", Pair::from(kernel).0)?;
        let (weight, bias) =
            options.begin(key, [outputs, inputs / options.groups, kernel], outputs)?;
        Ok(Conv1d { weight, bias: Some(bias), options })
    }

    /// The same layer without its bias.
    #[must_use]
    pub fn without_bias(self) -> Conv1d {
        Conv1d { bias: None, ..self }
    }

    /// The convolution of sequences, `[sequences, in, length]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::conv1d(x, &self.weight, self.bias.as_ref(), self.options)
    }
}

/// [`conv_transpose2d`](crate::ops::conv_transpose2d) with a weight and a bias.
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::{DType, Key, nn::ConvTranspose2d};
/// let [a, b] = Key::new(1).split();
/// let layer = ConvTranspose2d::with(a, 3, 4, 2, ConvOptions::new().stride(2))?;
/// let y = layer.forward(&b.normal([2, 3, 5, 5], DType::F32)?)?;
/// assert_eq!(y.shape(), [2, 4, 10, 10]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct ConvTranspose2d {
    /// `[in, out/groups, kernel height, kernel width]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    /// How the windows lie.
    pub options: ConvOptions,
}

impl ConvTranspose2d {
    /// A layer from `inputs` to `outputs` channels, which begins as PyTorch's: evenly distributed
    /// within `±1/√(outputs/groups·kernel)`, the second axis of the weight counted as its inputs.
    pub fn new(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Pair>,
    ) -> Result<ConvTranspose2d> {
        ConvTranspose2d::with(key, inputs, outputs, kernel, ConvOptions::new())
    }

    /// Likewise, with options.
    pub fn with(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Pair>,
        options: ConvOptions,
    ) -> Result<ConvTranspose2d> {
        options.expect_groups("conv_transpose2d", inputs, outputs)?;
        let [height, width] = kernel_sizes("conv_transpose2d", kernel.into().0)?;
        let shape = [inputs, outputs / options.groups, height, width];
        let (weight, bias) = options.begin(key, shape, outputs)?;
        Ok(ConvTranspose2d { weight, bias: Some(bias), options })
    }

    /// The same layer without its bias.
    #[must_use]
    pub fn without_bias(self) -> ConvTranspose2d {
        ConvTranspose2d { bias: None, ..self }
    }

    /// The transposed convolution of images, `[images, in, height, width]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::conv_transpose2d(x, &self.weight, self.bias.as_ref(), self.options)
    }
}

/// [`conv3d`](crate::ops::conv3d) with a weight and a bias.
///
/// ```
/// use extensor::ops::Conv3dOptions;
/// use extensor::{DType, Key, nn::Conv3d};
/// let [a, b] = Key::new(1).split();
/// let layer = Conv3d::with(a, 1, 6, [3, 5, 5], Conv3dOptions::new().padding([1, 2, 2]))?;
/// let y = layer.forward(&b.normal([2, 1, 4, 10, 10], DType::F32)?)?;
/// assert_eq!(y.shape(), [2, 6, 4, 10, 10]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct Conv3d {
    /// `[out, in/groups, kernel depth, kernel height, kernel width]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    /// How the windows lie.
    pub options: Conv3dOptions,
}

impl Conv3d {
    /// A layer of `outputs` filters over `inputs` channels, which begins as PyTorch's: evenly
    /// distributed within `±1/√(numbers that a filter sees)`.
    pub fn new(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Triple>,
    ) -> Result<Conv3d> {
        Conv3d::with(key, inputs, outputs, kernel, Conv3dOptions::new())
    }

    /// Likewise, with options.
    pub fn with(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Triple>,
        options: Conv3dOptions,
    ) -> Result<Conv3d> {
        options.expect_groups("conv3d", inputs, outputs)?;
        let [depth, height, width] = kernel_sizes("conv3d", kernel.into().0)?;
        let shape = [outputs, inputs / options.groups, depth, height, width];
        let (weight, bias) = options.begin(key, shape, outputs)?;
        Ok(Conv3d { weight, bias: Some(bias), options })
    }

    /// The same layer without its bias.
    #[must_use]
    pub fn without_bias(self) -> Conv3d {
        Conv3d { bias: None, ..self }
    }

    /// The convolution of volumes, `[volumes, in, depth, height, width]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::conv3d(x, &self.weight, self.bias.as_ref(), self.options)
    }
}

/// [`conv_transpose1d`](crate::ops::conv_transpose1d) with a weight and a bias.
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::{DType, Key, nn::ConvTranspose1d};
/// let [a, b] = Key::new(1).split();
/// let layer = ConvTranspose1d::with(a, 3, 4, 2, ConvOptions::new().stride(2))?;
/// let y = layer.forward(&b.normal([2, 3, 5], DType::F32)?)?;
/// assert_eq!(y.shape(), [2, 4, 10]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct ConvTranspose1d {
    /// `[in, out/groups, kernel]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    /// How the windows lie.
    pub options: ConvOptions,
}

impl ConvTranspose1d {
    /// A layer from `inputs` to `outputs` channels, which begins as PyTorch's: evenly distributed
    /// within `±1/√(outputs/groups·kernel)`, the second axis of the weight counted as its inputs.
    pub fn new(key: Key, inputs: usize, outputs: usize, kernel: usize) -> Result<ConvTranspose1d> {
        ConvTranspose1d::with(key, inputs, outputs, kernel, ConvOptions::new())
    }

    /// Likewise, with options.
    pub fn with(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: usize,
        options: ConvOptions,
    ) -> Result<ConvTranspose1d> {
        options.expect_groups("conv_transpose1d", inputs, outputs)?;
        let [kernel, _] = kernel_sizes("conv_transpose1d", Pair::from(kernel).0)?;
        let shape = [inputs, outputs / options.groups, kernel];
        let (weight, bias) = options.begin(key, shape, outputs)?;
        Ok(ConvTranspose1d { weight, bias: Some(bias), options })
    }

    /// The same layer without its bias.
    #[must_use]
    pub fn without_bias(self) -> ConvTranspose1d {
        ConvTranspose1d { bias: None, ..self }
    }

    /// The transposed convolution of sequences, `[sequences, in, length]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::conv_transpose1d(x, &self.weight, self.bias.as_ref(), self.options)
    }
}

/// [`conv_transpose3d`](crate::ops::conv_transpose3d) with a weight and a bias.
///
/// ```
/// use extensor::ops::Conv3dOptions;
/// use extensor::{DType, Key, nn::ConvTranspose3d};
/// let [a, b] = Key::new(1).split();
/// let layer = ConvTranspose3d::with(a, 3, 4, 2, Conv3dOptions::new().stride(2))?;
/// let y = layer.forward(&b.normal([2, 3, 2, 5, 5], DType::F32)?)?;
/// assert_eq!(y.shape(), [2, 4, 4, 10, 10]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct ConvTranspose3d {
    /// `[in, out/groups, kernel depth, kernel height, kernel width]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    /// How the windows lie.
    pub options: Conv3dOptions,
}

impl ConvTranspose3d {
    /// A layer from `inputs` to `outputs` channels, which begins as PyTorch's: evenly distributed
    /// within `±1/√(outputs/groups·kernel)`, the second axis of the weight counted as its inputs.
    pub fn new(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Triple>,
    ) -> Result<ConvTranspose3d> {
        ConvTranspose3d::with(key, inputs, outputs, kernel, Conv3dOptions::new())
    }

    /// Likewise, with options.
    pub fn with(
        key: Key,
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Triple>,
        options: Conv3dOptions,
    ) -> Result<ConvTranspose3d> {
        options.expect_groups("conv_transpose3d", inputs, outputs)?;
        let [depth, height, width] = kernel_sizes("conv_transpose3d", kernel.into().0)?;
        let shape = [inputs, outputs / options.groups, depth, height, width];
        let (weight, bias) = options.begin(key, shape, outputs)?;
        Ok(ConvTranspose3d { weight, bias: Some(bias), options })
    }

    /// The same layer without its bias.
    #[must_use]
    pub fn without_bias(self) -> ConvTranspose3d {
        ConvTranspose3d { bias: None, ..self }
    }

    /// The transposed convolution of volumes, `[volumes, in, depth, height, width]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::conv_transpose3d(x, &self.weight, self.bias.as_ref(), self.options)
    }
}
