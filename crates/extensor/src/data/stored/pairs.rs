//! Inputs and targets in files, as they are.
//!
//! This module must not know what the numbers mean.

use super::{Rows, StoredImages};
use crate::data::{Batch, Dataset};
use crate::{Error, Key, Result};

/// Inputs and targets in files: what [`Pairs`](crate::data::Pairs) is for tensors in memory.
///
/// ```
/// use extensor::data::{Dataset, Loader, Rows, StoredPairs};
/// use extensor::{Key, io::npy, tensor};
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-pairs-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let (inputs, targets) = (folder.join("inputs.npy"), folder.join("targets.npy"));
/// npy::write(&inputs, &tensor([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]))?;
/// npy::write(&targets, &tensor([0i64, 1, 0]))?;
/// let pairs = StoredPairs::new(Rows::open(&[inputs])?, Rows::open(&[targets])?)?;
/// let loader = Loader::new(pairs, 2, Key::new(7))?.shuffle(true);
/// for loaded in loader.epoch(0)? {
///     println!("{}", loaded?.batch.inputs);
/// }
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoredPairs {
    inputs: Rows,
    targets: Rows,
}

impl StoredPairs {
    /// Of as many inputs as targets.
    pub fn new(inputs: Rows, targets: Rows) -> Result<StoredPairs> {
        expect_as_many("StoredPairs", "targets", &inputs, &targets)?;
        Ok(StoredPairs { inputs, targets })
    }

    /// All inputs.
    pub fn inputs(&self) -> &Rows {
        &self.inputs
    }

    /// All targets.
    pub fn targets(&self) -> &Rows {
        &self.targets
    }

    /// The inputs as pictures of bytes and the targets as their classes.
    pub fn images(self) -> Result<StoredImages> {
        StoredImages::new(self.inputs, self.targets)
    }
}

/// An error unless there are as many rows in both.
pub(super) fn expect_as_many(
    op: &'static str,
    parameter: &'static str,
    inputs: &Rows,
    targets: &Rows,
) -> Result<()> {
    match inputs.len() == targets.len() {
        true => Ok(()),
        false => {
            let expected = format!("{} rows, one for each input", inputs.len());
            let got = targets.len().to_string();
            Err(Error::Parameter { op, parameter, expected, got })
        }
    }
}

impl Dataset for StoredPairs {
    fn len(&self) -> usize {
        self.inputs.len()
    }

    fn batch(&self, indices: &[usize], _: Key) -> Result<Batch> {
        Ok(Batch { inputs: self.inputs.read(indices)?, targets: self.targets.read(indices)? })
    }
}
