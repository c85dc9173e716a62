//! Data sets: readers of the usual formats, and the loader that cuts them into batches.
//!
//! A data set keeps its examples in the compact dtype they came in and converts a batch at a time. One
//! that is larger than memory stays where it is (see [`stored`]).
//! This module must not know what is trained on them.

mod ahead;
pub mod cifar;
pub mod csv;
mod gzip;
pub mod idx;
mod images;
mod loader;
mod pairs;
mod pixels;
mod shares;
mod shuffle;
pub mod stored;
pub mod text;

pub use images::{Augment, Images};
pub use loader::{Batches, Loaded, Loader, Position};
pub use pairs::{Pairs, Subset};
pub use shares::{Cut, Share, Shares};
pub use shuffle::Shuffle;
pub use stored::{Rows, StoredImages, StoredPairs, StoredWindows};

use crate::{Error, Key, Result, Tensor};
use std::sync::Arc;

/// Some examples of a data set: inputs and what should come of them, example by example along the
/// first axis of both.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What a model is given.
    pub inputs: Tensor,
    /// What it should make of that.
    pub targets: Tensor,
}

/// Examples by number.
pub trait Dataset: Send + Sync {
    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The examples of these numbers, in this order. Whatever is random about example `i` must come
    /// from `key.fold_in(i)`, so that it does not depend on which others are in the batch; the key
    /// differs from epoch to epoch.
    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch>;
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        (**self).batch(indices, key)
    }
}

impl<D: Dataset + ?Sized> Dataset for Box<D> {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        (**self).batch(indices, key)
    }
}

/// An error unless all are numbers of examples.
fn expect_indices(op: &'static str, indices: &[usize], size: usize) -> Result<()> {
    match indices.iter().find(|&&i| i >= size) {
        Some(&i) => Err(Error::IndexOutOfRange { op, index: i as i64, axis: 0, size }),
        None => Ok(()),
    }
}
