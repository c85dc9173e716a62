//! IDX, the format of MNIST and its kin: a tensor of any dtype and rank, often gzipped.
//!
//! The header is checked against what the file can hold before memory is taken. This module must not
//! know what the numbers depict.

use super::Images;
use super::gzip::Stream;
use crate::io::{Placed, fault, shown};
use crate::tensor::swap_bytes;
use crate::{DType, Error, Result, Shape, Tensor};
use std::path::{Path, PathBuf};

const READ: &str = "idx::read";
const FOLDER: &str = "idx::find";

/// Reads an IDX file, plain or gzipped, as a tensor of its dtype: `u8`, `i8`, `i16`, `i32`, `f32` or
/// `f64`.
pub fn read(path: impl AsRef<Path>) -> Result<Tensor> {
    from_stream(Stream::open(READ, path.as_ref())?)
}

/// Reads IDX bytes, plain or gzipped.
///
/// ```
/// // u8, one axis, three elements, big-endian:
/// let bytes = [0, 0, 0x08, 1, 0, 0, 0, 3, 7, 8, 9];
/// let x = extensor::data::idx::parse(&bytes)?;
/// assert_eq!(x.to_vec::<u8>()?, [7, 8, 9]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn parse(bytes: &[u8]) -> Result<Tensor> {
    from_stream(Stream::of(READ, bytes)?)
}

/// The dtype and the shape that a stream begins with.
fn header(stream: &mut Stream<'_>) -> Result<(DType, Shape)> {
    let magic = stream.take(4)?;
    let dtype = match magic[..] {
        [0, 0, 0x08, _] => DType::U8,
        [0, 0, 0x09, _] => DType::I8,
        [0, 0, 0x0B, _] => DType::I16,
        [0, 0, 0x0C, _] => DType::I32,
        [0, 0, 0x0D, _] => DType::F32,
        [0, 0, 0x0E, _] => DType::F64,
        _ => return Err(stream.fault(format!("this is no IDX file: it starts with {magic:?}"))),
    };
    let sizes = stream.take(4 * u64::from(magic[3]))?;
    let sizes =
        sizes.chunks_exact(4).map(|s| u32::from_be_bytes([s[0], s[1], s[2], s[3]]) as usize);
    let shape: Shape = sizes.collect();
    match shape.checked_len() {
        Some(_) => Ok((dtype, shape)),
        None => Err(stream.fault(Error::Overflow { op: READ, shape })),
    }
}

/// Where the elements of a file of `length` bytes are, which must not be gzipped.
pub(crate) fn place(path: &Path, length: u64) -> Result<Placed> {
    let mut stream = Stream::open(READ, path)?;
    if stream.is_packed() {
        let reason = "it is gzipped, so that no row can be found in it: unpack it";
        return Err(stream.fault(reason));
    }
    let (dtype, shape) = header(&mut stream)?;
    let start = 4 + 4 * shape.len() as u64;
    let (takes, follow) =
        (shape.count(READ)? as u64 * dtype.size() as u64, length.saturating_sub(start));
    if takes != follow {
        let reason =
            format!("{dtype} of shape {shape} takes {takes} bytes, and {follow} follow its header");
        return Err(stream.fault(reason));
    }
    Ok(Placed { dtype, shape, start, big_endian: true })
}

fn from_stream(mut stream: Stream<'_>) -> Result<Tensor> {
    let (dtype, shape) = header(&mut stream)?;
    let count = shape.count(READ)?;
    let mut bytes = stream.take(count as u64 * dtype.size() as u64)?;
    stream.end()?;
    if dtype == DType::U8 {
        return Tensor::from_vec(bytes, shape);
    }
    if cfg!(target_endian = "little") {
        swap_bytes(&mut bytes, dtype.size());
    }
    Tensor::from_bytes(READ, shape, dtype, |out| {
        out.copy_from_slice(&bytes);
        Ok(())
    })
}

/// The four files of a folder like MNIST's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The images to train on.
    pub train_images: PathBuf,
    /// Their classes.
    pub train_labels: PathBuf,
    /// The images to test with.
    pub test_images: PathBuf,
    /// Their classes.
    pub test_labels: PathBuf,
}

/// Finds the four files in a folder: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same
/// with `t10k`, with a dot or a hyphen before `idx`, with or without `.gz`; otherwise the only files
/// whose names have the words `train` or one of `t10k` and `test`, and `images` or `labels`, and `idx`.
pub fn find(folder: impl AsRef<Path>) -> Result<Files> {
    let folder = folder.as_ref();
    let failed = |reason: String| fault(FOLDER, &shown(folder), reason);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| failed(error.to_string()))? {
        let entry = entry.map_err(|error| failed(error.to_string()))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    let one = |usual: &str, parts: &[&str], kind: &str, rank: u8| -> Result<PathBuf> {
        for joint in ['-', '.'] {
            for end in ["", ".gz"] {
                let name = format!("{usual}-{kind}{joint}idx{rank}-ubyte{end}");
                if names.contains(&name) {
                    return Ok(folder.join(name));
                }
            }
        }
        let fits = |name: &&String| {
            let name = name.to_lowercase();
            parts.iter().any(|p| name.contains(p)) && name.contains(kind) && name.contains("idx")
        };
        match names.iter().filter(fits).collect::<Vec<_>>()[..] {
            [name] => Ok(folder.join(name)),
            [] => Err(failed(format!("it has no file {usual}-{kind}-idx{rank}-ubyte[.gz]"))),
            [a, b, ..] => {
                Err(failed(format!("it has several files for {usual}-{kind}: {a:?} and {b:?}")))
            }
        }
    };
    Ok(Files {
        train_images: one("train", &["train"], "images", 3)?,
        train_labels: one("train", &["train"], "labels", 1)?,
        test_images: one("t10k", &["t10k", "test"], "images", 3)?,
        test_labels: one("t10k", &["t10k", "test"], "labels", 1)?,
    })
}

/// The images to train on and those to test with of a folder like MNIST's.
pub fn folder(folder: impl AsRef<Path>) -> Result<(Images, Images)> {
    let files = find(folder)?;
    let train = Images::new(read(&files.train_images)?, read(&files.train_labels)?)?;
    let test = Images::new(read(&files.test_images)?, read(&files.test_labels)?)?;
    Ok((train, test))
}
