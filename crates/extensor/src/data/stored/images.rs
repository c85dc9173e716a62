//! Pictures and their classes in files.
//!
//! This module must not know where the pictures come from.

use super::Rows;
use super::pairs::expect_as_many;
use crate::data::pixels::{Pixels, Statistics};
use crate::data::{Augment, Batch, Dataset};
use crate::io::fault;
use crate::ops::cast;
use crate::{DType, Error, Key, Result, Shape, Tensor};

const OP: &str = "StoredImages";
/// Labels are looked through so many at a time, pictures so many bytes.
const LABELS: usize = 1 << 16;
const PICTURES: usize = 1 << 22;

/// Pictures of bytes and the class of each, in files: what [`Images`](crate::data::Images) is for those
/// in memory, with the same batches to the bit.
///
/// ```
/// use extensor::data::{Dataset, Rows, StoredImages};
/// use extensor::{Key, io::npy, tensor};
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-stored-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let (images, labels) = (folder.join("images.npy"), folder.join("labels.npy"));
/// npy::write(&images, &tensor([[[0u8, 255], [51, 102]], [[1, 2], [3, 4]]]))?;
/// npy::write(&labels, &tensor([7u8, 1]))?;
/// let images = StoredImages::new(Rows::open(&[images])?, Rows::open(&[labels])?)?;
/// let images = images.normalize(&[0.5], &[0.5])?;
/// let batch = images.batch(&[0], Key::new(0))?;
/// assert_eq!(batch.inputs.to_vec::<f32>()?, [-1.0, 1.0, -0.6, -0.2]);
/// assert_eq!(batch.targets.to_vec::<i64>()?, [7]);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone)]
pub struct StoredImages {
    images: Rows,
    labels: Rows,
    classes: usize,
    pixels: Pixels,
}

impl StoredImages {
    /// Images whose rows are `[height, width]` or `[channels, height, width]` of `u8`, and as many
    /// whole numbers from 0 on. All labels are looked at once, for the last class; no image is.
    pub fn new(images: Rows, labels: Rows) -> Result<StoredImages> {
        if images.dtype() != DType::U8 {
            let got = images.dtype();
            return Err(Error::DType { op: OP, argument: "images", expected: "u8", got });
        }
        let size = match images.shape()[..] {
            [height, width] => [1, height, width],
            [channels, height, width] => [channels, height, width],
            _ => {
                let expected = "rows of [height, width] or [channels, height, width]".into();
                let got = images.shape().clone();
                return Err(Error::Shape { op: OP, argument: "images", expected, got });
            }
        };
        if !labels.shape().is_empty() {
            let (expected, got) = ("rows of one number".into(), labels.shape().clone());
            return Err(Error::Shape { op: OP, argument: "labels", expected, got });
        }
        if !labels.dtype().is_int() {
            let (expected, got) = ("a whole-number type", labels.dtype());
            return Err(Error::DType { op: OP, argument: "labels", expected, got });
        }
        expect_as_many(OP, "labels", &images, &labels)?;
        let mut classes = 0;
        for start in (0..labels.len()).step_by(LABELS) {
            let part = labels.range(start..labels.len().min(start + LABELS))?;
            let part = cast(&part, DType::I64)?.to_vec::<i64>()?;
            let wrong = part.iter().position(|&label| label < 0);
            if let Some(at) = wrong {
                return Err(bad_label(&labels, start + at, part[at], "a whole number from 0 on"));
            }
            classes = part.iter().fold(classes, |most, &label| most.max(label as usize + 1));
        }
        let pixels = Pixels::new(size)?;
        Ok(StoredImages { images, labels, classes, pixels })
    }

    /// With inputs `(x/255 − mean)/std`, one mean and std for each channel or one for all.
    pub fn normalize(mut self, mean: &[f64], std: &[f64]) -> Result<StoredImages> {
        self.pixels.normalize(mean, std)?;
        Ok(self)
    }

    /// With every image changed at random each time it is drawn.
    pub fn augment(mut self, augment: Augment) -> StoredImages {
        self.pixels.augment = augment;
        self
    }

    /// The mean and the standard deviation of `x/255` of each channel, for
    /// [`normalize`](Self::normalize), of at most `most` images that are spread evenly over all.
    pub fn statistics(&self, most: usize) -> Result<Vec<(f64, f64)>> {
        let (len, count) = (self.len(), self.len().min(most));
        let mut statistics = Statistics::of(&self.pixels);
        let at_once = (PICTURES / self.pixels.image().max(1)).max(1);
        for start in (0..count).step_by(at_once) {
            let place = |i: usize| (i as u128 * len as u128 / count as u128) as usize;
            let part: Vec<usize> = (start..count.min(start + at_once)).map(place).collect();
            statistics.add(part.len() as u64, self.images.read(&part)?.row_major());
        }
        Ok(statistics.finish())
    }

    /// One image as it is kept: `u8`, `[channels, height, width]`.
    pub fn image(&self, index: usize) -> Result<Tensor> {
        crate::ops::reshape(&self.images.read(&[index])?, Shape::from(self.size()))
    }

    /// Channels, height and width.
    pub fn size(&self) -> [usize; 3] {
        self.pixels.size()
    }

    /// One more than the last class.
    pub fn classes(&self) -> usize {
        self.classes
    }
}

fn bad_label(labels: &Rows, index: usize, label: i64, expected: &str) -> Error {
    let reason = format!("example {index} has class {label}, expected {expected}");
    fault(OP, &labels.file_of(index), reason)
}

impl Dataset for StoredImages {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        let pictures = self.images.read(indices)?;
        let targets = cast(&self.labels.read(indices)?, DType::I64)?;
        // The file may have changed since all labels were looked at.
        let known = |label: i64| usize::try_from(label).is_ok_and(|label| label < self.classes);
        let labels = targets.row_major::<i64>();
        if let Some(at) = labels.iter().position(|&label| !known(label)) {
            let expected = format!("one of the {} there were at the start", self.classes);
            return Err(bad_label(&self.labels, indices[at], labels[at], &expected));
        }
        let (bytes, image) = (pictures.row_major::<u8>(), self.pixels.image());
        let inputs = self.pixels.batch(indices, key, |i| &bytes[i * image..(i + 1) * image])?;
        Ok(Batch { inputs, targets })
    }
}
