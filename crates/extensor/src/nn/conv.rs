//! Convolutional layers.
//!
//! They know shapes and how parameters begin; the arithmetic is that of the operations.

use super::{bad, init};
use crate::{DType, Key, Pair, Result, Shape, Tensor, Tree, ops};

/// How the windows of a convolutional layer lie: by default next to each other, without padding,
/// every input channel seen by every filter, with a bias.
///
/// Numbers may be one for both axes, or one for each; a [`Conv1d`] takes one.
///
/// ```
/// use extensor::{Key, nn::{Conv2d, ConvOptions}};
/// let options = ConvOptions::new().stride(2).padding([1, 0]).groups(2).bias(false);
/// let layer = Conv2d::with(Key::new(1), 4, 6, 3, options)?;
/// assert_eq!(layer.weight.shape(), [6, 2, 3, 3]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// How far apart neighbouring windows are.
    pub stride: Pair,
    /// How many zeros surround an image.
    pub padding: Pair,
    /// How many rows and columns more a transposed convolution gives at the end.
    pub output_padding: Pair,
    /// How far apart neighbouring elements of a window are.
    pub dilation: Pair,
    /// Into how many groups the channels are divided, each convolved by itself.
    pub groups: usize,
    /// Whether the layer has a bias.
    pub bias: bool,
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        let [zero, one] = [Pair([0; 2]), Pair([1; 2])];
        ConvOptions {
            stride: one,
            padding: zero,
            output_padding: zero,
            dilation: one,
            groups: 1,
            bias: true,
        }
    }
}

impl ConvOptions {
    /// The defaults.
    pub fn new() -> ConvOptions {
        ConvOptions::default()
    }

    /// With this stride.
    pub fn stride(self, stride: impl Into<Pair>) -> ConvOptions {
        ConvOptions { stride: stride.into(), ..self }
    }

    /// With this padding.
    pub fn padding(self, padding: impl Into<Pair>) -> ConvOptions {
        ConvOptions { padding: padding.into(), ..self }
    }

    /// With this padding of the output, for a transposed convolution.
    pub fn output_padding(self, padding: impl Into<Pair>) -> ConvOptions {
        ConvOptions { output_padding: padding.into(), ..self }
    }

    /// With this dilation.
    pub fn dilation(self, dilation: impl Into<Pair>) -> ConvOptions {
        ConvOptions { dilation: dilation.into(), ..self }
    }

    /// With so many groups.
    pub fn groups(self, groups: usize) -> ConvOptions {
        ConvOptions { groups, ..self }
    }

    /// With or without a bias.
    pub fn bias(self, bias: bool) -> ConvOptions {
        ConvOptions { bias, ..self }
    }

    /// An error unless the groups divide both numbers of channels.
    fn expect_groups(&self, op: &'static str, inputs: usize, outputs: usize) -> Result<()> {
        let groups = self.groups;
        if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
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
    ) -> Result<(Tensor, Option<Tensor>)> {
        let [for_weight, for_bias] = key.split();
        let shape = shape.into();
        let (fan_in, _) = init::fans(&shape)?;
        let weight = init::by_fan_in(for_weight, shape, fan_in, DType::F32)?;
        let bias = || init::by_fan_in(for_bias, [outputs], fan_in, DType::F32);
        Ok((weight, self.bias.then(bias).transpose()?))
    }
}

/// The sizes of a kernel over two axes.
fn kernel_sizes(op: &'static str, kernel: Pair) -> Result<[usize; 2]> {
    let Pair(sizes) = kernel;
    match sizes.map(usize::try_from) {
        [Ok(height @ 1..), Ok(width @ 1..)] => Ok([height, width]),
        _ => bad(op, "kernel", "at least 1", format!("{sizes:?}")),
    }
}

/// [`conv2d`](crate::conv2d) with a weight and a bias.
///
/// ```
/// use extensor::{DType, Key, nn::{Conv2d, ConvOptions}};
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
    #[tree(static)]
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
        let [height, width] = kernel_sizes("conv2d", kernel.into())?;
        let shape = [outputs, inputs / options.groups, height, width];
        let (weight, bias) = options.begin(key, shape, outputs)?;
        Ok(Conv2d { weight, bias, options })
    }

    /// The convolution of images, `[images, in, height, width]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let ConvOptions { stride, padding, dilation, groups, .. } = self.options;
        ops::conv2d(x, &self.weight, self.bias.as_ref(), stride, padding, dilation, groups)
    }
}

/// [`conv1d`](crate::conv1d) with a weight and a bias.
///
/// ```
/// use extensor::{DType, Key, nn::{Conv1d, ConvOptions}};
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
    #[tree(static)]
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
        let [kernel, _] = kernel_sizes("conv1d", kernel.into())?;
        let (weight, bias) =
            options.begin(key, [outputs, inputs / options.groups, kernel], outputs)?;
        Ok(Conv1d { weight, bias, options })
    }

    /// The convolution of sequences, `[sequences, in, length]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let one = |parameter, Pair(given): Pair| match (given, usize::try_from(given[0])) {
            ([a, b], Ok(size)) if a == b => Ok(size),
            _ => bad("conv1d", parameter, "one number that is not negative", format!("{given:?}")),
        };
        let ConvOptions { stride, padding, dilation, groups, .. } = self.options;
        let (stride, padding) = (one("stride", stride)?, one("padding", padding)?);
        let dilation = one("dilation", dilation)?;
        ops::conv1d(x, &self.weight, self.bias.as_ref(), stride, padding, dilation, groups)
    }
}

/// [`conv_transpose2d`](crate::conv_transpose2d) with a weight and a bias.
///
/// ```
/// use extensor::{DType, Key, nn::{ConvOptions, ConvTranspose2d}};
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
    #[tree(static)]
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
        let [height, width] = kernel_sizes("conv_transpose2d", kernel.into())?;
        let shape = [inputs, outputs / options.groups, height, width];
        let (weight, bias) = options.begin(key, shape, outputs)?;
        Ok(ConvTranspose2d { weight, bias, options })
    }

    /// The transposed convolution of images, `[images, in, height, width]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let ConvOptions { stride, padding, output_padding, dilation, groups, .. } = self.options;
        let (weight, bias) = (&self.weight, self.bias.as_ref());
        ops::conv_transpose2d(x, weight, bias, stride, padding, output_padding, dilation, groups)
    }
}
