//! What the files of a run have in common: errors that name the file, and cutting off an end.

use crate::{Error, Result};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// The error of something that could not be done with a file.
pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let reason = format!("cannot {what} it: {error}");
    Error::File { op: "train", file: path.display().to_string(), reason }
}

/// Cuts a file down to its first `length` bytes.
pub(super) fn keep_prefix(path: &Path, length: u64) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path);
    let cut = file.and_then(|file| file.set_len(length));
    cut.map_err(|error| failed("shorten", path, &error))
}
