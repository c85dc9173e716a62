//! A data set of images and their classes, one byte for each value.
//!
//! Bytes become numbers, shifted and mirrored at random if asked, as batches are made. This module
//! must not know where the images come from.

use super::{Batch, Dataset, expect_indices};
use crate::ops::cast;
use crate::tensor::with_room;
use crate::{DType, Error, Key, Result, Shape, Tensor};

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
    /// What each byte becomes, channel by channel.
    values: Vec<[f32; 256]>,
    augment: Augment,
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
        let mut values = with_room(OP, shape[1])?;
        values.resize(shape[1], table(0.0, 1.0));
        let images = crate::ops::reshape(&images.contiguous()?, &shape)?;
        Ok(Images { images, labels, classes, values, augment: Augment::default() })
    }

    /// With inputs `(x/255 − mean)/std`, one mean and std for each channel or one for all.
    pub fn normalize(mut self, mean: &[f64], std: &[f64]) -> Result<Images> {
        let channels = self.values.len();
        for (parameter, given) in [("mean", mean), ("std", std)] {
            let fits = given.len() == 1 || given.len() == channels;
            let fine = given.iter().all(|v| v.is_finite() && (parameter == "mean" || *v > 0.0));
            if !fits || !fine {
                let expected = format!("1 or {channels} finite numbers, and a std above 0");
                let got = format!("{given:?}");
                return Err(Error::Parameter { op: OP, parameter, expected, got });
            }
        }
        let of = |given: &[f64], c: usize| given[c % given.len()];
        self.values = (0..channels).map(|c| table(of(mean, c), of(std, c))).collect();
        Ok(self)
    }

    /// With every image changed at random each time it is drawn.
    pub fn augment(self, augment: Augment) -> Images {
        Images { augment, ..self }
    }

    /// The mean and the standard deviation of `x/255` of each channel, for [`normalize`](Self::normalize).
    pub fn statistics(&self) -> Vec<(f64, f64)> {
        let [channels, plane] = [self.values.len(), self.plane()];
        let mut sums = vec![(0u64, 0u64); channels];
        for (i, part) in self.bytes().chunks_exact(plane.max(1)).enumerate() {
            let sum = &mut sums[i % channels];
            for &byte in part {
                sum.0 += u64::from(byte);
                sum.1 += u64::from(byte).pow(2);
            }
        }
        let count = (self.labels.len() * plane).max(1) as f64;
        let of = |(sum, squares): (u64, u64)| {
            let mean = sum as f64 / count;
            (mean / 255.0, (squares as f64 / count - mean * mean).max(0.0).sqrt() / 255.0)
        };
        sums.into_iter().map(of).collect()
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

    /// The pixels of one channel of one image.
    fn plane(&self) -> usize {
        self.images.shape()[2] * self.images.shape()[3]
    }

    /// How image `index` is changed: moved down, moved right, mirrored.
    fn draw(&self, index: usize, key: Key) -> Result<(isize, isize, bool)> {
        let Augment { shift, flip } = self.augment;
        if shift == 0 && !flip {
            return Ok((0, 0, false));
        }
        // One word each; a shift beyond the image moves all of it out.
        let [height, width] = [self.images.shape()[2], self.images.shape()[3]];
        let words = key.fold_in(index as u64).integers([3], i64::MAX as u64)?.to_vec::<i64>()?;
        let below = |word: i64, high: usize| ((word as u128 * high as u128) >> 63) as isize;
        let moved = |word, size: usize| {
            let shift = shift.min(size);
            below(word, 2 * shift + 1) - shift as isize
        };
        Ok((moved(words[0], height), moved(words[1], width), flip && below(words[2], 2) == 1))
    }
}

/// What each byte becomes.
fn table(mean: f64, std: f64) -> [f32; 256] {
    std::array::from_fn(|byte| ((byte as f64 / 255.0 - mean) / std) as f32)
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        expect_indices(OP, indices, self.len())?;
        let [channels, height, width] = [1, 2, 3].map(|axis| self.images.shape()[axis]);
        let image = channels * self.plane();
        let changes = indices.iter().map(|&i| self.draw(i, key)).collect::<Result<Vec<_>>>()?;
        let shape = Shape::from([indices.len(), channels, height, width]);
        let inputs = Tensor::build(OP, shape, DType::F32, |out: &mut [f32]| {
            let outputs = out.chunks_exact_mut(image.max(1));
            for ((out, &index), &change) in outputs.zip(indices).zip(&changes) {
                let bytes = &self.bytes()[index * image..(index + 1) * image];
                let planes = bytes.chunks_exact(self.plane().max(1));
                for ((out, plane), values) in
                    out.chunks_exact_mut(self.plane().max(1)).zip(planes).zip(&self.values)
                {
                    if change == (0, 0, false) {
                        out.iter_mut().zip(plane).for_each(|(o, &b)| *o = values[usize::from(b)]);
                    } else {
                        changed(out, plane, values, [height, width], change);
                    }
                }
            }
        })?;
        let targets = indices.iter().map(|&i| self.labels[i]).collect::<Vec<i64>>();
        Ok(Batch { inputs, targets: Tensor::from_vec(targets, [indices.len()])? })
    }
}

/// One channel, mirrored or not, then moved; zero bytes come in.
fn changed(
    out: &mut [f32],
    plane: &[u8],
    values: &[f32; 256],
    [height, width]: [usize; 2],
    (down, right, mirrored): (isize, isize, bool),
) {
    let inside = |at: usize, by: isize, size: usize| {
        usize::try_from(at as isize - by).ok().filter(|&from| from < size)
    };
    for (y, row) in out.chunks_exact_mut(width).enumerate() {
        let from = inside(y, down, height).map(|y| &plane[y * width..(y + 1) * width]);
        for (x, out) in row.iter_mut().enumerate() {
            let byte = match (from, inside(x, right, width)) {
                (Some(row), Some(x)) => row[if mirrored { width - 1 - x } else { x }],
                _ => 0,
            };
            *out = values[usize::from(byte)];
        }
    }
}
