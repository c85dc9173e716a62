//! Tensors and trees in files.
//!
//! This module knows formats and how a file is written whole or not at all. It must not know what a
//! tree is for: a model, an optimiser's state and a list of tensors are the same to it.

pub mod atomic;
mod json;
pub mod npy;
pub mod safetensors;

use crate::Error;
use std::path::Path;

/// An error about a file.
pub(crate) fn fault(op: &'static str, file: &str, reason: impl ToString) -> Error {
    Error::File { op, file: file.to_string(), reason: reason.to_string() }
}

/// How a path is called in errors.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}
