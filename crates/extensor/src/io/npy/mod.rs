//! Tensors to and from NumPy's files: `.npy`, one tensor, and `.npz`, several by name.
//!
//! Reads versions 1 to 3, either byte order, either order of elements; writes version 1 (2 for a long
//! header), little-endian, row-major. This module must not know what a tensor is for.

mod header;
mod npz;
mod zip;

pub use npz::{parse_npz, read_npz, write_npz};

use super::safetensors::write_elements;
use super::{Placed, atomic, fault, shown};
use crate::ops::transpose;
use crate::tensor::swap_bytes;
use crate::{DType, Error, Result, Tensor};
use header::Header;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

const READ: &str = "npy::read";

/// Reads a `.npy` file.
///
/// NumPy has no bfloat16: two bytes of no type (`V2`), as which NumPy saves the one of `ml_dtypes`, are
/// read as such, and bf16 is written so.
pub fn read(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    let failed = |error| fault(READ, &shown(path), error);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    from_reader(&mut BufReader::new(file), length)
        .map_err(|reason| reason.named(|text| fault(READ, &shown(path), text)))
}

/// Reads the bytes of a `.npy` file.
///
/// ```
/// use extensor::{io::npy, tensor};
/// let bytes = npy::to_bytes(&tensor([[1i16, 2], [3, 4]]))?;
/// assert_eq!(npy::parse(&bytes)?.to_vec::<i16>()?, [1, 2, 3, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn parse(bytes: &[u8]) -> Result<Tensor> {
    from_reader(&mut &*bytes, bytes.len() as u64)
        .map_err(|reason| reason.named(|text| fault(READ, "the bytes", text)))
}

/// Writes a `.npy` file, atomically.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("extensor-doc-{}.npy", std::process::id()));
/// let x = extensor::tensor([[1.0f32, 2.0], [3.0, 4.0]]);
/// extensor::io::npy::write(&path, &x)?; // numpy.load(path)
/// assert_eq!(extensor::io::npy::read(&path)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn write(path: impl AsRef<Path>, x: &Tensor) -> Result<()> {
    atomic::write(path, |file| {
        file.write_all(&header::bytes(x))?;
        write_elements(file, x)
    })
}

/// The bytes of a `.npy` file.
pub fn to_bytes(x: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = header::bytes(x);
    match write_elements(&mut bytes, x).map_err(std::io::Error::downcast::<Error>) {
        Ok(()) => Ok(bytes),
        Err(Ok(error)) => Err(error),
        Err(Err(error)) => Err(fault("npy::to_bytes", "the bytes", error)),
    }
}

/// What is wrong: an error that is whole, or a reason without the file's name.
enum Wrong {
    Whole(Error),
    Reason(String),
}

impl Wrong {
    fn named(self, name: impl FnOnce(String) -> Error) -> Error {
        match self {
            Wrong::Whole(error) => error,
            Wrong::Reason(reason) => name(reason),
        }
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        Wrong::Whole(error)
    }
}

impl From<String> for Wrong {
    fn from(reason: String) -> Wrong {
        Wrong::Reason(reason)
    }
}

impl From<std::io::Error> for Wrong {
    fn from(error: std::io::Error) -> Wrong {
        Wrong::Reason(error.to_string())
    }
}

/// The header of a stream of `length` bytes, and where its elements begin, of which there are as many as it says.
fn header_of(source: &mut dyn Read, length: u64) -> std::result::Result<(Header, u64), Wrong> {
    let (header, start) = Header::read(source, length)?;
    let Header { dtype, shape, .. } = &header;
    let Some(count) = shape.checked_len() else {
        return Err(Wrong::Reason(format!(
            "its shape {shape} has more elements than memory can address"
        )));
    };
    let (expected, got) = (count as u64 * dtype.size() as u64, length - start);
    if expected != got {
        return Err(Wrong::Reason(format!(
            "{dtype} of shape {shape} takes {expected} bytes, and {got} follow its header"
        )));
    }
    Ok((header, start))
}

/// Where the elements of an open file are, which must be in row-major order.
pub(crate) fn place(path: &Path, mut file: &File, length: u64) -> Result<Placed> {
    let named = |reason: Wrong| reason.named(|text| fault(READ, &shown(path), text));
    let (header, start) = header_of(&mut BufReader::new(&mut file), length).map_err(named)?;
    let Header { dtype, big_endian, fortran_order, shape } = header;
    if fortran_order && shape.len() > 1 {
        let reason = "it is in Fortran's order, in which a row does not lie in one piece: save it \
                      as numpy.ascontiguousarray makes it";
        return Err(fault(READ, &shown(path), reason));
    }
    Ok(Placed { dtype, shape, start, big_endian })
}

/// Reads a tensor from a stream of `length` bytes.
fn from_reader(source: &mut dyn Read, length: u64) -> std::result::Result<Tensor, Wrong> {
    let (header, _) = header_of(source, length)?;
    let Header { dtype, big_endian, fortran_order, mut shape } = header;
    if fortran_order {
        shape = shape.iter().rev().copied().collect();
    }
    let x = Tensor::from_bytes(READ, shape, dtype, |bytes| -> std::result::Result<(), Wrong> {
        source.read_exact(bytes)?;
        if big_endian != cfg!(target_endian = "big") {
            swap_bytes(bytes, dtype.size());
        }
        match bytes.iter().find(|&&b| dtype == DType::Bool && b > 1) {
            Some(b) => Err(Wrong::Reason(format!("a bool has the byte {b}, neither 0 nor 1"))),
            None => Ok(()),
        }
    })?;
    if fortran_order { Ok(transpose(&x, None)?.contiguous()?) } else { Ok(x) }
}
