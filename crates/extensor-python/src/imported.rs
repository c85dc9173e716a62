//! Tensors over other libraries' memory, and who may write it.
//!
//! A tensor is an immutable value. Memory that somebody may write is copied, unless the user asks for it
//! to be shared; memory that nobody can write is shared freely. This module must not know how memory is
//! described.

use crate::error::released;
use crate::tensor::PyTensor;
use extensor::Tensor;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// A tensor that came from another library.
pub struct Imported {
    tensor: Tensor,
    memory: Memory,
}

#[derive(Clone, Copy, PartialEq)]
enum Memory {
    /// Our own: it had to be copied on the way.
    Own,
    /// Shared, and nobody writes it.
    Fixed,
    /// Shared with somebody who may write it.
    Theirs,
}

impl Imported {
    /// A tensor of memory that nobody writes.
    pub fn fixed(tensor: Tensor) -> Imported {
        Imported { tensor, memory: Memory::Fixed }
    }

    /// The same, of memory that was made for it.
    pub fn own(self) -> Imported {
        Imported { memory: Memory::Own, ..self }
    }

    /// A tensor made over memory at `start`, or of a copy of it; `fixed`: whether nobody writes it there.
    pub fn over(tensor: Tensor, start: *const u8, fixed: bool) -> Imported {
        let memory = match fixed {
            _ if tensor.is_empty() || tensor.address() != start => Memory::Own,
            true => Memory::Fixed,
            false => Memory::Theirs,
        };
        Imported { tensor, memory }
    }

    /// The tensor while the other library's memory stays as it is: what outlives the call is made by
    /// [`tensor`](Self::tensor).
    pub fn shared(&self) -> &Tensor {
        &self.tensor
    }

    /// The tensor: with `copy` true in memory of its own, with `copy` false shared whoever may write it, and
    /// otherwise shared if nobody can.
    pub fn tensor(self, py: Python<'_>, copy: Option<bool>) -> PyResult<Tensor> {
        let copied = match (copy, self.memory) {
            (_, Memory::Own) | (Some(false), _) | (None, Memory::Fixed) => false,
            (Some(true), _) | (None, Memory::Theirs) => true,
        };
        if copied { released(py, || self.tensor.copied()) } else { Ok(self.tensor) }
    }
}

/// How many objects may stand between an array and its memory.
const DEEPEST: usize = 64;

/// Whether nobody can write the memory that an object shows: it is read-only, and so is all that it is a
/// view of, down to what owns the memory. (What cannot be told counts as written.)
pub fn is_fixed(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let mut object = object.clone();
    for _ in 0..DEEPEST {
        if object.cast::<PyBytes>().is_ok() || object.cast::<PyTensor>().is_ok() {
            return Ok(true);
        }
        let below = if object.cast::<PyMemoryView>().is_ok() {
            if !object.getattr("readonly")?.is_truthy()? {
                return Ok(false);
            }
            object.getattr("obj")?
        } else if let Some(flags) = object.getattr_opt(pyo3::intern!(py, "flags"))? {
            // An array of NumPy.
            let writeable = flags.getattr_opt(pyo3::intern!(py, "writeable"))?;
            if writeable.is_none_or(|flag| flag.is_truthy().unwrap_or(true)) {
                return Ok(false);
            }
            match object.getattr_opt(pyo3::intern!(py, "base"))? {
                Some(base) => base,
                None => return Ok(false),
            }
        } else if object.is_instance(&py.import("extensor._exchange")?.getattr("Holder")?)? {
            object.getattr("owner")?
        } else if object.is_instance(&py.import("mmap")?.getattr("mmap")?)? {
            return PyMemoryView::from(&object)?.getattr("readonly")?.is_truthy();
        } else {
            return Ok(false);
        };
        if below.is_none() {
            return Ok(true);
        }
        object = below;
    }
    Ok(false)
}
