//! LeNet-5.

use crate::nn::{Conv2d, Linear, Mode, Model, Output, bad};
use crate::ops::ConvOptions;
use crate::{Key, Result, Tensor, Tree};

/// LeNet-5: two convolutions of 5×5 with 6 and 16 filters, the first padded by 2, each followed by a
/// ReLU and the maxima of 2×2 windows; then linear layers of 120, 84 and 10 outputs.
///
/// ```
/// use extensor::{DType, Key, nn::{Mode, Model, models::LeNet5}};
/// let [a, b] = Key::new(1).split();
/// let model = LeNet5::new(a)?;
/// let images = b.normal([2, 1, 28, 28], DType::F32)?;
/// assert_eq!(model.forward(&images, &Mode::Inference)?.logits.shape(), [2, 10]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct LeNet5 {
    /// From the image to 6 channels.
    pub conv1: Conv2d,
    /// From 6 to 16 channels.
    pub conv2: Conv2d,
    /// To 120 numbers.
    pub fc1: Linear,
    /// To 84 numbers.
    pub fc2: Linear,
    /// To a number for each class.
    pub fc3: Linear,
}

impl LeNet5 {
    /// For images of one channel and 28×28 elements in ten classes.
    pub fn new(key: Key) -> Result<LeNet5> {
        LeNet5::sized(key, [1, 28, 28], 10)
    }

    /// For images of another `[channels, height, width]`, or another number of classes.
    pub fn sized(key: Key, image: [usize; 3], classes: usize) -> Result<LeNet5> {
        let [channels, height, width] = image;
        // A first pooling, then a window of 5 without padding, then a second pooling.
        let left = |size: usize| (size / 2).saturating_sub(4) / 2;
        let seen = left(height).checked_mul(left(width)).and_then(|n| n.checked_mul(16));
        let Some(seen @ 1..) = seen else {
            let expected = "[channels, height, width] with at least 12 rows and columns";
            return bad("lenet5", "image", expected, format!("{image:?}"));
        };
        let [a, b, c, d, e] = key.split();
        Ok(LeNet5 {
            conv1: Conv2d::with(a, channels, 6, 5, ConvOptions::new().padding(2))?,
            conv2: Conv2d::new(b, 6, 16, 5)?,
            fc1: Linear::new(c, seen, 120)?,
            fc2: Linear::new(d, 120, 84)?,
            fc3: Linear::new(e, 84, classes)?,
        })
    }
}

impl Model for LeNet5 {
    fn forward(&self, x: &Tensor, _: &Mode) -> Result<Output<LeNet5>> {
        let x = x.apply(&self.conv1)?.relu()?.maxpool2d(2)?;
        let x = x.apply(&self.conv2)?.relu()?.maxpool2d(2)?;
        let x = x.flatten(1, -1)?.apply(&self.fc1)?.relu()?;
        let x = x.apply(&self.fc2)?.relu()?;
        Ok(Output::stateless(x.apply(&self.fc3)?))
    }
}
