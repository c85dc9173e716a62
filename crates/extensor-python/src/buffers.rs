//! Python's buffer protocol and NumPy's array interface: memory shared with NumPy and whatever else
//! offers a buffer.
//!
//! The functions of the buffer protocol joined the stable ABI with Python 3.11, in the form that they
//! had before; they are declared here, so that one build serves 3.10 too.

use crate::convert::whole_numbers_of;
use crate::dlpack::borrowed;
use crate::error::{OrRaise, expect_memory};
use crate::imported::{Imported, is_fixed};
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

/// What one element of a buffer is.
struct Element {
    dtype: DType,
    /// Whether its bytes are in the other order than the machine's.
    swapped: bool,
}

/// The element that a format of the `struct` module describes.
fn element_of(format: &CStr, bytes: isize) -> Option<Element> {
    let text = format.to_bytes();
    let (code, swapped) = match text {
        [code] => (*code, false),
        [b'@' | b'=', code] => (*code, false),
        [b'<', code] => (*code, cfg!(target_endian = "big")),
        [b'>' | b'!', code] => (*code, cfg!(target_endian = "little")),
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
    (dtype.size() as isize == bytes).then_some(Element { dtype, swapped })
}

/// The element that a type string of NumPy's array interface describes.
fn element_of_typestr(text: &str) -> Option<Element> {
    let (order, rest) = (text.chars().next()?, text.get(1..)?);
    let size: usize = rest.get(1..)?.parse().ok()?;
    let dtype = match (rest.chars().next()?, size) {
        ('b', 1) => DType::Bool,
        ('f', 2) => DType::F16,
        ('f', 4) => DType::F32,
        ('f', 8) => DType::F64,
        ('i', 1) => DType::I8,
        ('i', 2) => DType::I16,
        ('i', 4) => DType::I32,
        ('i', 8) => DType::I64,
        ('u', 1) => DType::U8,
        ('u', 2) => DType::U16,
        ('u', 4) => DType::U32,
        ('u', 8) => DType::U64,
        _ => return None,
    };
    let swapped = match order {
        '<' => cfg!(target_endian = "big"),
        '>' => cfg!(target_endian = "little"),
        '|' | '=' => false,
        _ => return None,
    };
    Some(Element { dtype, swapped: swapped && size > 1 })
}

/// Memory as somebody describes it: strides in bytes, `None` for row-major.
struct Described {
    start: *const u8,
    shape: Vec<usize>,
    strides: Option<Vec<isize>>,
    element: Element,
}

impl Described {
    /// The bytes from the first to the last element: how many lie before the start, and how many there
    /// are in all; `None` if they cannot be counted. There is at least one element.
    fn extent(&self) -> Option<(isize, usize)> {
        let size = self.element.dtype.size();
        let (mut first, mut last) = (0isize, 0isize);
        for (&n, stride) in self.shape.iter().zip(self.steps()?) {
            let reach = isize::try_from(n).ok()?.checked_sub(1)?.checked_mul(stride)?;
            let end = if stride < 0 { &mut first } else { &mut last };
            *end = end.checked_add(reach)?;
        }
        let bytes = last.checked_sub(first)?.checked_add(size as isize)?;
        Some((first, usize::try_from(bytes).ok()?))
    }

    fn steps(&self) -> Option<Vec<isize>> {
        if let Some(strides) = &self.strides {
            return Some(strides.clone());
        }
        let mut step = self.element.dtype.size() as isize;
        let mut steps = Vec::with_capacity(self.shape.len());
        for &n in self.shape.iter().rev() {
            steps.push(step);
            step = step.checked_mul(isize::try_from(n.max(1)).ok()?)?;
        }
        steps.reverse();
        Some(steps)
    }

    /// The tensor over the memory, or over a copy where it must be one.
    ///
    /// # Safety
    /// The described elements must be readable until `owner` is dropped.
    unsafe fn tensor(
        self,
        copy: Option<bool>,
        owner: impl Send + Sync + 'static,
    ) -> PyResult<Tensor> {
        let Element { dtype, swapped } = self.element;
        let size = dtype.size() as isize;
        let odd = |steps: &Vec<isize>| steps.iter().any(|step| step % size != 0);
        let between = self.strides.as_ref().is_some_and(odd);
        let unaligned = !self.start.addr().is_multiple_of(dtype.size());
        let empty = self.shape.contains(&0);
        if copy == Some(false) && !empty && (swapped || between || unaligned) {
            let text = if swapped {
                "the array's bytes are in the other order than the machine's: it must be copied"
            } else {
                "the array's elements do not lie at multiples of their size: it must be copied"
            };
            return Err(PyValueError::new_err(text));
        }
        if !swapped && !between {
            let steps = self.strides.map(|s| s.iter().map(|step| step / size).collect());
            // SAFETY: the caller's promise.
            return unsafe { borrowed(self.start, &self.shape, steps, dtype, owner) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.gathered() }
    }

    /// A copy, element by element.
    ///
    /// # Safety
    /// The described elements must be readable.
    unsafe fn gathered(&self) -> PyResult<Tensor> {
        let Element { dtype, swapped } = self.element;
        let size = dtype.size();
        let steps = self.steps().filter(|_| self.shape.contains(&0) || self.extent().is_some());
        let count = extensor::Shape::from(&self.shape[..]).checked_len();
        let (Some(steps), Some(count)) = (steps, count) else {
            return Err(PyValueError::new_err(
                "the array has more elements than memory can address",
            ));
        };
        let bytes = count.saturating_mul(size);
        expect_memory("asarray", bytes)?;
        let mut values: Vec<u8> = Vec::with_capacity(bytes);
        let mut index = vec![0usize; self.shape.len()];
        for _ in 0..count {
            let apart: isize = index.iter().zip(&steps).map(|(&i, &s)| i as isize * s).sum();
            // SAFETY: an element that the caller vouches for.
            let element =
                unsafe { std::slice::from_raw_parts(self.start.wrapping_offset(apart), size) };
            if swapped {
                values.extend(element.iter().rev())
            } else {
                values.extend(element)
            }
            for (i, &n) in index.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if *i < n {
                    break;
                }
                *i = 0;
            }
        }
        Tensor::of_bytes(&values, self.shape.clone(), dtype).or_raise()
    }
}

/// The tensor over the memory that an object's `__array_interface__` describes, or nothing for elements
/// that no dtype has. As with NumPy, the object answers for what it says of its memory; an address where
/// there is none is refused.
pub fn from_interface(object: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Option<Imported>> {
    let py = object.py();
    let found = object.getattr(pyo3::intern!(py, "__array_interface__"))?;
    let wrong = |what: &str| PyValueError::new_err(format!("__array_interface__: {what}"));
    let entries = found.cast::<PyDict>().map_err(|_| wrong("it is no dict"))?;
    let typestr: String = match entries.get_item("typestr")? {
        Some(text) => text.extract()?,
        None => return Err(wrong("there is no typestr")),
    };
    let Some(element) = element_of_typestr(&typestr) else { return Ok(None) };
    let shape: Vec<usize> = match entries.get_item("shape")? {
        Some(shape) => {
            whole_numbers_of(&shape).map_err(|_| wrong("the shape is no tuple of sizes"))?
        }
        None => return Err(wrong("there is no shape")),
    };
    let strides: Option<Vec<isize>> = match entries.get_item("strides")?.filter(|s| !s.is_none()) {
        Some(strides) => {
            Some(whole_numbers_of(&strides).map_err(|_| wrong("the strides are no numbers"))?)
        }
        None => None,
    };
    if strides.as_ref().is_some_and(|s| s.len() != shape.len()) {
        return Err(wrong("shape and strides differ in length"));
    }
    let data = entries.get_item("data")?.filter(|d| !d.is_none());
    let mut described = Described { start: std::ptr::null(), shape, strides, element };
    let (first, bytes) = if described.shape.contains(&0) {
        (0, 0)
    } else {
        described.extent().ok_or_else(|| wrong("the array's size overflows"))?
    };
    if let Some(data) = &data
        && let Ok((address, _)) = data.extract::<(usize, Bound<'_, PyAny>)>()
    {
        described.start = std::ptr::with_exposed_provenance(address);
        let lowest = described.start.wrapping_offset(first);
        if !extensor_kernels::buffer::is_mapped(lowest, bytes) {
            return Err(wrong("there is no memory where the data are said to be"));
        }
        // The dict may be what keeps the memory, or the object.
        let owner: (Py<PyAny>, Py<PyAny>) = (object.clone().unbind(), found.clone().unbind());
        let (start, fixed) = (described.start, is_fixed(object)?);
        // SAFETY: the object vouches for the memory that it describes.
        let tensor = unsafe { described.tensor(copy, owner)? };
        return Ok(Some(Imported::over(tensor, start, fixed)));
    }
    // The data are another object's buffer.
    let offset: usize = entries.get_item("offset")?.map_or(Ok(0), |o| o.extract())?;
    let holder = data.as_ref().unwrap_or(object);
    let Some(held) = Held::of(holder) else {
        return Err(wrong("the data are neither an address nor a buffer"));
    };
    let begin = isize::try_from(offset).ok().and_then(|o| o.checked_add(first));
    let end = begin.and_then(|b| usize::try_from(b).ok()).and_then(|b| b.checked_add(bytes));
    if bytes > 0 && (held.0.bytes < 0 || end.is_none_or(|end| end > held.0.bytes as usize)) {
        return Err(wrong("the array is larger than its data"));
    }
    described.start = (held.0.start as *const u8).wrapping_add(offset);
    let (start, fixed) = (described.start, is_fixed(holder)?);
    // SAFETY: all elements lie within the buffer, as was checked, which is held.
    let tensor = unsafe { described.tensor(copy, held)? };
    Ok(Some(Imported::over(tensor, start, fixed)))
}

impl Held {
    /// The object's buffer, if it has one.
    fn of(object: &Bound<'_, PyAny>) -> Option<Held> {
        // SAFETY: a structure of plain numbers and pointers, to be filled by Python.
        let mut view: Box<Buffer> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: the object is alive, the view is writable and stays where it is.
        if unsafe { PyObject_GetBuffer(object.as_ptr(), &mut *view, AS_IT_IS) } != 0 {
            drop(PyErr::take(object.py()));
            return None;
        }
        Some(Held(view))
    }
}

/// The tensor over an object's buffer, or nothing if it has none or one of other elements.
pub fn import(object: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Option<Imported>> {
    let Some(held) = Held::of(object) else { return Ok(None) };
    let view = &held.0;
    // SAFETY: a format that is not null is text that lives as long as the view.
    let format = if view.format.is_null() { c"B" } else { unsafe { CStr::from_ptr(view.format) } };
    let Some(element) = element_of(format, view.item_bytes) else {
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
    let shape: Vec<usize> = match list(view.shape) {
        Some(shape) => shape.iter().map(|&n| n.max(0) as usize).collect(),
        None if ndim == 0 => Vec::new(),
        None => vec![(view.bytes.max(0) as usize) / element.dtype.size()],
    };
    let strides = list(view.strides).filter(|_| ndim > 0).map(<[isize]>::to_vec);
    let described = Described { start: view.start as *const u8, shape, strides, element };
    let (start, fixed) = (described.start, view.read_only != 0 && is_fixed(object)?);
    // SAFETY: the exporter vouches for the elements that it describes while the view is held.
    let tensor = unsafe { described.tensor(copy, held)? };
    Ok(Some(Imported::over(tensor, start, fixed)))
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
