//! One file with an array in it, of which rows are read.
//!
//! This module must not know that there are others.

use crate::data::idx;
use crate::io::{Placed, fault, npy, read_exact_at, safetensors, shown};
use crate::{DType, Error, Result};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const OP: &str = "Rows";

/// A file whose header was read and found right.
pub(super) struct Shard {
    path: PathBuf,
    /// Open as long as the data set lives, so that the file may lose its name meanwhile; or opened for each
    /// reading, where there are too many.
    file: Option<File>,
    length: u64,
    pub placed: Placed,
    /// How many rows there are, and how many bytes each has.
    pub count: usize,
    bytes: usize,
}

impl Shard {
    /// A file, of which the array is the one of this name, or the only one.
    pub fn open(path: &Path, name: Option<&str>, keep: bool) -> Result<Shard> {
        let failed = |error| fault(OP, &shown(path), error);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(fault(OP, &shown(path), "this is no file"));
        }
        let length = metadata.len();
        let placed = place(path, &file, length, name)?;
        let Some((&count, row)) = placed.shape.split_first() else {
            return Err(fault(OP, &shown(path), "it holds a single number and no rows"));
        };
        // The header was compared with the file: it is as long as that.
        let bytes = row.iter().product::<usize>() * placed.dtype.size();
        let file = keep.then_some(file);
        Ok(Shard { path: path.into(), file, length, placed, count, bytes })
    }

    /// How it is called in errors.
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    /// Fills `out` with rows from `row` on; `example` is how the caller calls the first.
    pub fn read(&self, row: usize, example: usize, out: &mut [u8]) -> Result<()> {
        let offset = self.placed.start + row as u64 * self.bytes as u64;
        let failed = |reason: String| {
            let reason = format!("example {example} (row {row}) cannot be read: {reason}");
            fault(OP, &self.name(), reason)
        };
        let read = match &self.file {
            Some(file) => read_exact_at(file, out, offset),
            None => File::open(&self.path).and_then(|file| {
                let length = file.metadata()?.len();
                if length != self.length {
                    let then = self.length;
                    let text = format!("the file had {then} bytes at the start and has {length}");
                    return Err(std::io::Error::other(text));
                }
                read_exact_at(&file, out, offset)
            }),
        };
        read.map_err(|error| {
            failed(match error.kind() {
                ErrorKind::UnexpectedEof => {
                    format!("the file had {} bytes at the start and has fewer now", self.length)
                }
                _ => error.to_string(),
            })
        })?;
        if self.placed.big_endian != cfg!(target_endian = "big") {
            crate::tensor::swap_bytes(out, self.placed.dtype.size());
        }
        match out.iter().position(|&b| self.placed.dtype == DType::Bool && b > 1) {
            Some(at) => {
                let (row, example) = (row + at / self.bytes, example + at / self.bytes);
                let byte = out[at];
                let reason = format!(
                    "example {example} (row {row}) is bool and has a byte {byte}, neither 0 nor 1"
                );
                Err(fault(OP, &self.name(), reason))
            }
            None => Ok(()),
        }
    }
}

/// Where the array is. What a file is, is what it starts with, not how it is called.
fn place(path: &Path, file: &File, length: u64, name: Option<&str>) -> Result<Placed> {
    let mut start = [0; 9];
    let known = &mut start[..length.min(9) as usize];
    read_exact_at(file, known, 0).map_err(|error| fault(OP, &shown(path), error))?;
    // The length of a header of less than 4 GiB, and its first brace.
    if start[4..] == *b"\0\0\0\0{" {
        return tensor(path, name);
    }
    if let Some(name) = name {
        let reason = format!("it is no safetensors file and has no tensor {name:?}");
        return Err(fault(OP, &shown(path), reason));
    }
    match start {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => npy::place(path, file, length),
        [0, 0, ..] | [0x1f, 0x8b, ..] => idx::place(path, length),
        _ => {
            let reason = "it is no IDX, .npy or safetensors file";
            Err(fault(OP, &shown(path), reason))
        }
    }
}

/// Where a tensor is: the one of this name, or the only one.
fn tensor(path: &Path, name: Option<&str>) -> Result<Placed> {
    let file = safetensors::load(path)?;
    let names: Vec<&str> = file.names().collect();
    match (name, &names[..]) {
        (Some(name), _) => file.place(name),
        (None, [name]) => file.place(name),
        (None, _) => {
            let reason = format!("it holds {} tensors, expected one or a name", names.len());
            Err(Error::File { op: OP, file: shown(path), reason })
        }
    }
}
