//! Python's buffer protocol and NumPy's array interface: memory shared with NumPy and whatever else
//! offers a buffer.
//!
//! The functions of the buffer protocol joined the stable ABI with Python 3.11, in the form that they
//! had before; they are declared here, so that one build serves 3.10 too.

use crate::dlpack::borrowed;
use crate::tensor::{PyTensor, expect_plain};
use extensor::{DType, Tensor};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{CStr, c_char, c_int, c_void};

/// `Py_buffer` of CPython.
#[repr(C)]
struct Buffer {
    start: *mut c_void,
    object: *mut ffi::PyObject,
    bytes: isize,
    item_bytes: isize,
    read_only: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

/// `PyBUF_FULL_RO`: strides, format and indirections as they are, writable or not.
const AS_IT_IS: c_int = 0x0100 | 0x0010 | 0x0008 | 0x0004;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut Buffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut Buffer);
}

/// An object's buffer, held until dropped: the object cannot move or free the memory meanwhile.
struct Held(Box<Buffer>);

// SAFETY: the view is only read here, and released while attached to the interpreter.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = Python::try_attach(|_| {
            // SAFETY: filled by `PyObject_GetBuffer`, released once.
            unsafe { PyBuffer_Release(&mut *self.0) }
        });
    }
}

/// The dtype of a format of the `struct` module in the machine's byte order.
fn dtype_of(format: &CStr, bytes: isize) -> Option<DType> {
    let text = format.to_bytes();
    let native = if cfg!(target_endian = "little") { b'<' } else { b'>' };
    let code = match text {
        [code] => *code,
        [order, code] if *order == native || *order == b'@' || *order == b'=' => *code,
        _ => return None,
    };
    let dtype = match code {
        b'?' => DType::Bool,
        b'e' => DType::F16,
        b'f' => DType::F32,
        b'd' => DType::F64,
        b'b' | b'h' | b'i' | b'l' | b'q' | b'n' => match bytes {
            1 => DType::I8,
            2 => DType::I16,
            4 => DType::I32,
            _ => DType::I64,
        },
        b'B' | b'H' | b'I' | b'L' | b'Q' | b'N' => match bytes {
            1 => DType::U8,
            2 => DType::U16,
            4 => DType::U32,
            _ => DType::U64,
        },
        _ => return None,
    };
    (dtype.size() as isize == bytes).then_some(dtype)
}

/// The tensor over an object's buffer, or nothing if it has none or one of other elements.
pub fn import(object: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Option<Tensor>> {
    let py = object.py();
    // SAFETY: a structure of plain numbers and pointers, to be filled by Python.
    let mut view: Box<Buffer> = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: the object is alive, the view is writable and stays where it is.
    if unsafe { PyObject_GetBuffer(object.as_ptr(), &mut *view, AS_IT_IS) } != 0 {
        drop(PyErr::take(py));
        return Ok(None);
    }
    let held = Held(view);
    let view = &held.0;
    // SAFETY: a format that is not null is text that lives as long as the view.
    let format = if view.format.is_null() { c"B" } else { unsafe { CStr::from_ptr(view.format) } };
    let Some(dtype) = dtype_of(format, view.item_bytes) else {
        return Ok(None);
    };
    if !view.suboffsets.is_null() {
        return Ok(None);
    }
    let ndim = usize::try_from(view.ndim).unwrap_or(0);
    let list = |start: *mut isize| -> Option<&[isize]> {
        // SAFETY: `ndim` numbers lie at a pointer that is not null.
        (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, ndim) })
    };
    let size = dtype.size() as isize;
    let shape: Vec<usize> = match list(view.shape) {
        Some(shape) => shape.iter().map(|&n| n.max(0) as usize).collect(),
        None if ndim == 0 => Vec::new(),
        None => vec![(view.bytes / size) as usize],
    };
    let strides = list(view.strides).filter(|_| ndim > 0);
    let (start, misaligned) = (
        view.start as *const u8,
        strides.is_some_and(|s| s.iter().any(|stride| stride % size != 0)),
    );
    if misaligned {
        // A field of a structure: elements lie between others.
        return Ok(None);
    }
    let strides = strides.map(|s| s.iter().map(|stride| stride / size).collect());
    if copy == Some(false) && start.addr() % dtype.size() != 0 {
        let text = "the array's elements do not lie at multiples of their size: it must be copied";
        return Err(PyValueError::new_err(text));
    }
    // SAFETY: the exporter vouches for the elements that it describes while the view is held.
    let tensor = unsafe { borrowed(start, &shape, strides, dtype, held)? };
    if copy == Some(true) { crate::dlpack::fresh(&tensor).map(Some) } else { Ok(Some(tensor)) }
}

/// NumPy's description of a tensor's memory, or nothing for a dtype that NumPy has not.
pub fn array_interface<'py>(py: Python<'py>, x: &PyTensor) -> PyResult<Option<Bound<'py, PyDict>>> {
    let x = &x.0;
    expect_plain("__array_interface__", x)?;
    let kind = match x.dtype() {
        DType::BF16 => return Ok(None),
        DType::Bool => 'b',
        d if d.is_float() => 'f',
        d if d.integer_range().0 == 0 => 'u',
        _ => 'i',
    };
    let size = x.dtype().size();
    let order = match (size, cfg!(target_endian = "little")) {
        (1, _) => '|',
        (_, true) => '<',
        (_, false) => '>',
    };
    let description = PyDict::new(py);
    description.set_item("version", 3)?;
    description.set_item("typestr", format!("{order}{kind}{size}"))?;
    description.set_item("shape", PyTuple::new(py, x.shape().iter())?)?;
    let strides = x.strides().iter().map(|s| s * size as isize);
    description.set_item("strides", PyTuple::new(py, strides.collect::<Vec<_>>())?)?;
    description.set_item("data", (x.address().addr(), true))?;
    Ok(Some(description))
}
