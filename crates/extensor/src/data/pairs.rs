//! Data sets made of tensors as they are, and of parts of other data sets.
//!
//! Examples lie along the first axis. This module must not know what the numbers mean.

use super::{Batch, Dataset, expect_indices};
use crate::ops::take;
use crate::{Error, Key, Result, Tensor, tensor};
use std::sync::Arc;

/// Inputs and targets in two tensors, example by example along their first axes.
///
/// ```
/// use extensor::{Key, data::{Dataset, Pairs}, tensor};
/// let pairs = Pairs::new(tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tensor([0, 1, 0]))?;
/// let batch = pairs.batch(&[2, 0], Key::new(0))?;
/// assert_eq!(batch.inputs.to_vec::<f64>()?, [5.0, 6.0, 1.0, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pairs {
    inputs: Tensor,
    targets: Tensor,
}

impl Pairs {
    /// Of two tensors whose first axes have one size.
    pub fn new(inputs: Tensor, targets: Tensor) -> Result<Pairs> {
        if inputs.ndim() == 0 {
            let (expected, got) = ("one axis or more".into(), inputs.shape().clone());
            return Err(Error::Shape { op: "Pairs", argument: "inputs", expected, got });
        }
        if targets.shape().first() != inputs.shape().first() {
            let expected = format!("[{}, …]", inputs.shape()[0]);
            let got = targets.shape().clone();
            return Err(Error::Shape { op: "Pairs", argument: "targets", expected, got });
        }
        Ok(Pairs { inputs, targets })
    }

    /// All inputs.
    pub fn inputs(&self) -> &Tensor {
        &self.inputs
    }

    /// All targets.
    pub fn targets(&self) -> &Tensor {
        &self.targets
    }
}

impl Dataset for Pairs {
    fn len(&self) -> usize {
        self.inputs.shape()[0]
    }

    fn batch(&self, indices: &[usize], _: Key) -> Result<Batch> {
        expect_indices("Pairs", indices, self.len())?;
        let index = tensor(indices.iter().map(|&i| i as i64).collect::<Vec<_>>());
        Ok(Batch {
            inputs: take(&self.inputs, &index, 0)?,
            targets: take(&self.targets, &index, 0)?,
        })
    }
}

/// Some of the examples of a data set, such as those kept for validation.
///
/// ```
/// use extensor::{Key, data::{Dataset, Pairs, Subset}, tensor};
/// use std::sync::Arc;
/// let all = Arc::new(Pairs::new(tensor([1.0, 2.0, 3.0]), tensor([0, 1, 0]))?);
/// let (train, validation) = (Subset::new(all.clone(), [0, 1])?, Subset::new(all, [2])?);
/// assert_eq!(validation.batch(&[0], Key::new(0))?.inputs.to_vec::<f64>()?, [3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Subset {
    of: Arc<dyn Dataset>,
    indices: Vec<usize>,
}

impl Subset {
    /// The examples of these numbers.
    pub fn new(
        of: Arc<impl Dataset + 'static>,
        indices: impl IntoIterator<Item = usize>,
    ) -> Result<Subset> {
        let indices: Vec<usize> = indices.into_iter().collect();
        expect_indices("Subset", &indices, of.len())?;
        Ok(Subset { of, indices })
    }
}

impl Dataset for Subset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        expect_indices("Subset", indices, self.len())?;
        let indices: Vec<usize> = indices.iter().map(|&i| self.indices[i]).collect();
        self.of.batch(&indices, key)
    }
}
