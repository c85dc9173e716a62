//! A data set of images and their classes, one byte for each value.
//!
//! Bytes become numbers, shifted and mirrored at random if asked, as batches are made. This module
//! must not know where the images come from.

use super::pixels::{Pixels, Statistics};
use super::{Batch, Dataset, expect_indices};
use crate::ops::cast;
use crate::{DType, Error, Key, Result, Tensor};

const OP: &str = "Images";

/// Images `[n, channels, height, width]` of bytes, and the class of each.
///
/// A batch's inputs are `(x/255 − mean)/std` in `f32`, its targets classes in `i64`.
///
/// ```
/// use extensor::{Key, data::{Dataset, Images}, tensor};
/// let images = tensor([[[0u8, 255], [51, 102]], [[1, 2], [3, 4]]]); // two of 2 × 2, one channel
/// let images = Images::new(images, tensor([7u8, 1]))?.normalize(&[0.5], &[0.5])?;
/// let batch = images.batch(&[0], Key::new(0))?;
/// assert_eq!(batch.inputs.shape(), [1, 1, 2, 2]);
/// assert_eq!(batch.inputs.to_vec::<f32>()?, [-1.0, 1.0, -0.6, -0.2]);
/// assert_eq!(batch.targets.to_vec::<i64>()?, [7]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Images {
    images: Tensor,
    labels: Vec<i64>,
    classes: usize,
    pixels: Pixels,
}

/// What is done to an image at random each time it is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Augment {
    /// Moved by up to so many pixels along both axes, zero bytes coming in: the same as a random crop
    /// after padding by so many.
    pub shift: usize,
    /// Mirrored left to right with probability ½.
    pub flip: bool,
}

impl Images {
    /// Images `[n, height, width]` or `[n, channels, height, width]` of `u8`, and `n` whole numbers
    /// from 0 on.
    pub fn new(images: Tensor, labels: Tensor) -> Result<Images> {
        if images.dtype() != DType::U8 {
            let got = images.dtype();
            return Err(Error::DType { op: OP, argument: "images", expected: "u8", got });
        }
        let mut shape = images.shape().clone();
        match shape.len() {
            3 => shape.insert(1, 1),
            4 => {}
            _ => {
                let expected = "[n, height, width] or [n, channels, height, width]".into();
                return Err(Error::Shape { op: OP, argument: "images", expected, got: shape });
            }
        }
        if *labels.shape() != [shape[0]] {
            let (expected, got) = (format!("[{}]", shape[0]), labels.shape().clone());
            return Err(Error::Shape { op: OP, argument: "labels", expected, got });
        }
        if !labels.dtype().is_int() {
            let (expected, got) = ("a whole-number type", labels.dtype());
            return Err(Error::DType { op: OP, argument: "labels", expected, got });
        }
        let labels = cast(&labels, DType::I64)?.to_vec::<i64>()?;
        if let Some(label) = labels.iter().find(|&&label| label < 0) {
            let (expected, got) = ("whole numbers from 0 on".into(), label.to_string());
            return Err(Error::Parameter { op: OP, parameter: "labels", expected, got });
        }
        let classes = labels.iter().max().map_or(0, |&last| last as usize + 1);
        let pixels = Pixels::new([1, 2, 3].map(|axis| shape[axis]))?;
        let images = crate::ops::reshape(&images.contiguous()?, &shape)?;
        Ok(Images { images, labels, classes, pixels })
    }

    /// With inputs `(x/255 − mean)/std`, one mean and std for each channel or one for all.
    pub fn normalize(mut self, mean: &[f64], std: &[f64]) -> Result<Images> {
        self.pixels.normalize(mean, std)?;
        Ok(self)
    }

    /// With every image changed at random each time it is drawn.
    pub fn augment(mut self, augment: Augment) -> Images {
        self.pixels.augment = augment;
        self
    }

    /// The mean and the standard deviation of `x/255` of each channel, for [`normalize`](Self::normalize).
    pub fn statistics(&self) -> Vec<(f64, f64)> {
        let mut statistics = Statistics::of(&self.pixels);
        statistics.add(self.labels.len() as u64, self.bytes());
        statistics.finish()
    }

    /// One image as it is kept: `u8`, `[channels, height, width]`.
    pub fn image(&self, index: usize) -> Result<Tensor> {
        expect_indices(OP, &[index], self.len())?;
        let image = self.pixels.image();
        Tensor::from_slice(&self.bytes()[index * image..(index + 1) * image], self.pixels.size())
    }

    /// The images as they are kept: `u8`, `[n, channels, height, width]`.
    pub fn images(&self) -> &Tensor {
        &self.images
    }

    /// The class of each image.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// One more than the last class.
    pub fn classes(&self) -> usize {
        self.classes
    }

    fn bytes(&self) -> &[u8] {
        self.images.row_major()
    }
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        expect_indices(OP, indices, self.len())?;
        let image = self.pixels.image();
        let bytes = |i: usize| &self.bytes()[indices[i] * image..(indices[i] + 1) * image];
        let inputs = self.pixels.batch(indices, key, bytes)?;
        let targets = indices.iter().map(|&i| self.labels[i]).collect::<Vec<i64>>();
        Ok(Batch { inputs, targets: Tensor::from_vec(targets, [indices.len()])? })
    }
}
