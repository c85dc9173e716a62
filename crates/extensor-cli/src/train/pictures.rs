//! Pictures to learn, in memory or in files.
//!
//! This module must not know what learns them.

use extensor::data::{Augment, Dataset, Images, StoredImages, StoredPairs, idx, stored};
use extensor::{Error, Result, Tensor};
use std::path::Path;
use std::sync::Arc;

/// IDX files that are larger than this together are not read into memory.
const LARGE: u64 = 1 << 30;
/// Mean and standard deviation are taken of so many pictures at most.
const SAMPLE: usize = 1 << 16;

/// Pictures and their classes.
#[derive(Clone)]
pub enum Pictures {
    /// In memory.
    Here(Images),
    /// In files, read when they are needed.
    Stored(StoredImages),
}

/// Those to train on and those to test with of a folder with IDX files or shards.
pub fn folder(folder: &Path) -> Result<[Pictures; 2]> {
    if stored::is_sharded(folder) || is_large(folder) {
        let (train, test) = stored::folder(folder)?;
        let images = |pairs: StoredPairs| pairs.images().map(Pictures::Stored);
        return Ok([images(train)?, images(test)?]);
    }
    let (train, test) = idx::folder(folder)?;
    Ok([train, test].map(Pictures::Here))
}

/// Whether the folder has a data set like MNIST's in files that are not packed and would take much memory.
fn is_large(folder: &Path) -> bool {
    let Ok(files) = idx::find(folder) else { return false };
    let all = [files.train_images, files.train_labels, files.test_images, files.test_labels];
    let packed = all.iter().any(|path| path.extension().is_some_and(|end| end == "gz"));
    let size = |path: &std::path::PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
    !packed && all.iter().map(size).sum::<u64>() > LARGE
}

impl Pictures {
    fn len(&self) -> usize {
        match self {
            Pictures::Here(images) => images.len(),
            Pictures::Stored(images) => images.len(),
        }
    }

    /// Channels, height and width.
    pub fn size(&self) -> [usize; 3] {
        match self {
            Pictures::Here(images) => [1, 2, 3].map(|axis| images.images().shape()[axis]),
            Pictures::Stored(images) => images.size(),
        }
    }

    /// One more than the last class.
    pub fn classes(&self) -> usize {
        match self {
            Pictures::Here(images) => images.classes(),
            Pictures::Stored(images) => images.classes(),
        }
    }

    /// Mean and standard deviation of each channel: of all pictures, or of some that are spread evenly if
    /// there are very many in files.
    pub fn statistics(&self) -> Result<Vec<(f64, f64)>> {
        match self {
            Pictures::Here(images) => Ok(images.statistics()),
            Pictures::Stored(images) => images.statistics(SAMPLE),
        }
    }

    /// With mean 0 and standard deviation 1, if these are theirs.
    pub fn normalize(self, mean: &[f64], std: &[f64]) -> Result<Pictures> {
        Ok(match self {
            Pictures::Here(images) => Pictures::Here(images.normalize(mean, std)?),
            Pictures::Stored(images) => Pictures::Stored(images.normalize(mean, std)?),
        })
    }

    /// Changed at random each time they are drawn.
    pub fn augment(self, augment: Augment) -> Pictures {
        match self {
            Pictures::Here(images) => Pictures::Here(images.augment(augment)),
            Pictures::Stored(images) => Pictures::Stored(images.augment(augment)),
        }
    }

    /// One picture as it is kept: bytes, `[channels, height, width]`.
    pub fn image(&self, index: usize) -> Result<Tensor> {
        match self {
            Pictures::Here(images) => images.image(index),
            Pictures::Stored(images) => images.image(index),
        }
    }

    /// As something to learn.
    pub fn dataset(self) -> Arc<dyn Dataset> {
        match self {
            Pictures::Here(images) => Arc::new(images),
            Pictures::Stored(images) => Arc::new(images),
        }
    }

    /// An error unless they are as large as those that are learnt.
    pub fn expect_size(&self, [c, h, w]: [usize; 3]) -> Result<()> {
        if self.size() == [c, h, w] {
            return Ok(());
        }
        let [channels, height, width] = self.size();
        let got = [self.len(), channels, height, width].into();
        let (op, argument) = ("train", "the pictures to test with");
        Err(Error::Shape { op, argument, expected: format!("[n, {c}, {h}, {w}]"), got })
    }
}
