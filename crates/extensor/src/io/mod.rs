//! Tensors and trees in files.
//!
//! This module knows formats and how a file is written whole or not at all. It must not know what a
//! tree is for: a model, an optimiser's state and a list of tensors are the same to it.

mod at;
pub mod atomic;
mod json;
pub mod npy;
pub mod safetensors;

pub(crate) use at::read_exact_at;

use crate::{DType, Error, Shape};
use std::path::Path;

/// An error about a file.
pub(crate) fn fault(op: &'static str, file: &str, reason: impl ToString) -> Error {
    Error::File { op, file: file.to_string(), reason: reason.to_string() }
}

/// How a path is called in errors.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Where the elements of an array are in a file: row by row, without gaps.
pub(crate) struct Placed {
    pub dtype: DType,
    pub shape: Shape,
    /// The byte of the file where they begin.
    pub start: u64,
    pub big_endian: bool,
}
