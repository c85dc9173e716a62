//! A small residual network.

use crate::nn::init::{Fan, Nonlinearity, kaiming_normal};
use crate::nn::{BatchNorm2d, Conv2d, Linear, Mode, Model, Output, bad};
use crate::ops::{ConvOptions, Pair};
use crate::{DType, Key, Result, Tensor, Tree, ops};

/// A residual network for small images (He et al., for CIFAR): a convolution of 3×3, three stages of
/// basic blocks with 16, 32 and 64 channels, of which the second and third begin by halving the
/// image, the average of each plane, and a linear layer.
///
/// With 1, 2 or 3 blocks in a stage it is called ResNet-8, ResNet-14 or ResNet-20. Images may have any
/// size. The names of its leaves are torchvision's; its convolutions begin with Kaiming's normal
/// distribution by outputs.
///
/// ```
/// use extensor::{DType, Key, nn::{Mode, Model, models::ResNet}};
/// let [a, b, c] = Key::new(1).split();
/// let model = ResNet::new(a, 3, 10, 1)?;
/// let images = b.normal([2, 3, 16, 16], DType::F32)?;
/// let output = model.forward(&images, &Mode::Training(c))?;
/// assert_eq!(output.logits.shape(), [2, 10]);
/// let model = output.model.unwrap(); // with new running statistics
/// assert_eq!(model.bn1.num_batches_tracked.item::<i64>()?, 1);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct ResNet {
    /// From the image to the first stage's channels.
    pub conv1: Conv2d,
    /// Its normalisation.
    pub bn1: BatchNorm2d,
    /// The first stage.
    pub layer1: Vec<BasicBlock>,
    /// The second, which begins by halving the image.
    pub layer2: Vec<BasicBlock>,
    /// The third, likewise.
    pub layer3: Vec<BasicBlock>,
    /// To a number for each class.
    pub fc: Linear,
}

/// Two convolutions of 3×3, each normalised, whose result is added to their input (as it is, or
/// brought to its shape by a convolution of 1×1), with a ReLU after the first and after the sum.
#[derive(Tree, Clone, Debug)]
pub struct BasicBlock {
    /// The first convolution, which may halve the image.
    pub conv1: Conv2d,
    /// Its normalisation.
    pub bn1: BatchNorm2d,
    /// The second convolution.
    pub conv2: Conv2d,
    /// Its normalisation.
    pub bn2: BatchNorm2d,
    /// What brings the input to the shape of the result where they differ.
    pub downsample: Option<(Conv2d, BatchNorm2d)>,
}

/// A convolution without bias that begins with Kaiming's normal distribution by outputs.
fn conv(
    key: Key,
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: impl Into<Pair>,
) -> Result<Conv2d> {
    let options = ConvOptions::new().stride(stride).padding(kernel / 2);
    let shape = [outputs, inputs, kernel, kernel];
    let weight = kaiming_normal(key, shape, Fan::Out, Nonlinearity::Relu.gain(), DType::F32)?;
    Ok(Conv2d { weight, bias: None, options })
}

impl BasicBlock {
    /// A block from `inputs` to `outputs` channels whose first convolution has this stride.
    pub fn new(key: Key, inputs: usize, outputs: usize, stride: usize) -> Result<BasicBlock> {
        let [a, b, c] = key.split();
        let same = inputs == outputs && stride == 1;
        let brought = || Ok((conv(c, inputs, outputs, 1, stride)?, BatchNorm2d::new(outputs)?));
        Ok(BasicBlock {
            conv1: conv(a, inputs, outputs, 3, stride)?,
            bn1: BatchNorm2d::new(outputs)?,
            conv2: conv(b, outputs, outputs, 3, 1)?,
            bn2: BatchNorm2d::new(outputs)?,
            downsample: (!same).then(brought).transpose()?,
        })
    }

    /// The result, and the block with new running statistics.
    pub fn forward(&self, x: &Tensor, mode: &Mode) -> Result<(Tensor, BasicBlock)> {
        let (y, bn1) = self.bn1.forward(&self.conv1.forward(x)?, mode)?;
        let (y, bn2) = self.bn2.forward(&self.conv2.forward(&ops::relu(&y)?)?, mode)?;
        let mut next = BasicBlock { bn1, bn2, ..self.clone() };
        let sum = match &mut next.downsample {
            None => ops::add(&y, x)?,
            Some((conv, norm)) => {
                let (brought, changed) = norm.forward(&conv.forward(x)?, mode)?;
                *norm = changed;
                ops::add(&y, &brought)?
            }
        };
        Ok((ops::relu(&sum)?, next))
    }
}

impl ResNet {
    /// For images of so many channels in so many classes, with so many blocks in each stage.
    pub fn new(key: Key, channels: usize, classes: usize, blocks: usize) -> Result<ResNet> {
        ResNet::with_widths(key, channels, classes, blocks, [16, 32, 64])
    }

    /// Likewise, with other numbers of channels in the three stages.
    pub fn with_widths(
        key: Key,
        channels: usize,
        classes: usize,
        blocks: usize,
        widths: [usize; 3],
    ) -> Result<ResNet> {
        if blocks == 0 {
            return bad("resnet", "blocks", "at least 1", blocks);
        }
        let [a, b, c, d, e] = key.split();
        let stage = |key: Key, inputs: usize, outputs: usize, stride: usize| {
            let block = |i: usize| {
                let (inputs, stride) = if i == 0 { (inputs, stride) } else { (outputs, 1) };
                BasicBlock::new(key.fold_in(i as u64), inputs, outputs, stride)
            };
            (0..blocks).map(block).collect::<Result<Vec<_>>>()
        };
        let [first, second, third] = widths;
        Ok(ResNet {
            conv1: conv(a, channels, first, 3, 1)?,
            bn1: BatchNorm2d::new(first)?,
            layer1: stage(b, first, first, 1)?,
            layer2: stage(c, first, second, 2)?,
            layer3: stage(d, second, third, 2)?,
            fc: Linear::new(e, third, classes)?,
        })
    }
}

impl Model for ResNet {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Output<ResNet>> {
        let mut next = self.clone();
        let (y, bn1) = self.bn1.forward(&self.conv1.forward(x)?, mode)?;
        next.bn1 = bn1;
        let mut x = ops::relu(&y)?;
        for stage in [&mut next.layer1, &mut next.layer2, &mut next.layer3] {
            for block in stage {
                (x, *block) = block.forward(&x, mode)?;
            }
        }
        let logits = self.fc.forward(&ops::flatten(&ops::global_avgpool2d(&x)?, 1, -1)?)?;
        Ok(Output { logits, model: mode.is_training().then_some(next) })
    }
}
