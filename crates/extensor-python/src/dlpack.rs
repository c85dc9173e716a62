//! DLPack: tensors exchanged with other libraries without copying.
//!
//! Structures and rules are those of DLPack 1 and of the Array API standard. Tensors are immutable, and
//! there are consumers that write whatever they are given, marked read-only or not (PyTorch). So what
//! leaves is a copy, unless the consumer says `copy=False` and knows a capsule in which the memory is
//! marked read-only. This module must not know any operation.

use crate::error::OrRaise;
use crate::imported::Imported;
use crate::tensor::{PyTensor, expect_plain};
use extensor::{DType, Tensor};
use extensor_kernels::buffer::Buffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// The memory of the host.
pub const CPU: i32 = 1;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const LEGACY: &CStr = c"dltensor";
const USED_LEGACY: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct Type {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Array {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: Type,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Legacy {
    array: Array,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    array: Array,
}

fn type_of(dtype: DType) -> Type {
    let code = match dtype {
        DType::Bool => 6,
        DType::BF16 => 4,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        _ => 1,
    };
    Type { code, bits: (8 * dtype.size()) as u8, lanes: 1 }
}

fn dtype_of(found: &Type) -> Option<DType> {
    let same = |d: &DType| {
        let t = type_of(*d);
        (t.code, t.bits, t.lanes) == (found.code, found.bits, found.lanes)
    };
    DType::ALL.into_iter().find(same)
}

/// What a capsule points into: the structure, and all that keeps its pointers valid.
struct Held<T> {
    managed: T,
    _tensor: Tensor,
    _shape: Box<[i64]>,
    _strides: Box<[i64]>,
}

fn array_of(tensor: &Tensor, shape: &mut [i64], strides: &mut [i64]) -> Array {
    Array {
        data: tensor.address().cast_mut().cast(),
        device: Device { kind: CPU, id: 0 },
        ndim: shape.len() as i32,
        dtype: type_of(tensor.dtype()),
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    }
}

fn hold<T>(tensor: Tensor, managed: impl FnOnce(Array) -> T) -> NonNull<Held<T>> {
    let mut shape: Box<[i64]> = tensor.shape().iter().map(|&n| n as i64).collect();
    let mut strides: Box<[i64]> = tensor.strides().iter().map(|&n| n as i64).collect();
    let managed = managed(array_of(&tensor, &mut shape, &mut strides));
    let held = Box::new(Held { managed, _tensor: tensor, _shape: shape, _strides: strides });
    NonNull::from(Box::leak(held))
}

/// # Safety
/// `managed` must come from [`export`] and not be used afterwards.
unsafe extern "C" fn delete_legacy(managed: *mut Legacy) {
    if !managed.is_null() {
        // SAFETY: the context is the `Held` that `export` leaked; this is its end.
        drop(unsafe { Box::from_raw((*managed).context.cast::<Held<Legacy>>()) });
    }
}

/// # Safety
/// As for [`delete_legacy`].
unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    if !managed.is_null() {
        // SAFETY: as above.
        drop(unsafe { Box::from_raw((*managed).context.cast::<Held<Versioned>>()) });
    }
}

/// Frees what nobody took out of the capsule.
///
/// # Safety
/// Called by Python with the capsule that is going.
unsafe extern "C" fn capsule_destructor(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes a capsule; a pointer comes back only under the name it was made with,
    // which a consumer changes when it takes the structure over.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

/// A capsule of the tensor.
pub fn export<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    max_version: Option<(u32, u32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    expect_plain("__dlpack__", tensor)?;
    let versioned = max_version.is_some_and(|(major, _)| major >= 1);
    if !versioned && copy == Some(false) {
        return Err(PyBufferError::new_err(
            "a tensor is read-only, which the capsule without a version cannot say: it must be copied",
        ));
    }
    let copied = copy != Some(false);
    let tensor = if copied { fresh(tensor)? } else { tensor.clone() };
    let (pointer, name): (*mut c_void, &CStr) = if versioned {
        let flags = if copied { IS_COPIED } else { READ_ONLY };
        let deleter = Some(delete_versioned as unsafe extern "C" fn(*mut Versioned));
        let make = |array| Versioned {
            major: 1,
            minor: 1,
            context: std::ptr::null_mut(),
            deleter,
            flags,
            array,
        };
        let held = hold(tensor, make);
        // SAFETY: `held` was just leaked and nobody else has it.
        unsafe {
            (*held.as_ptr()).managed.context = held.as_ptr().cast();
            ((&raw mut (*held.as_ptr()).managed).cast(), VERSIONED)
        }
    } else {
        let deleter = Some(delete_legacy as unsafe extern "C" fn(*mut Legacy));
        let make = |array| Legacy { array, context: std::ptr::null_mut(), deleter };
        let held = hold(tensor, make);
        // SAFETY: as above.
        unsafe {
            (*held.as_ptr()).managed.context = held.as_ptr().cast();
            ((&raw mut (*held.as_ptr()).managed).cast(), LEGACY)
        }
    };
    // SAFETY: the name is static, the pointer is not null, and the destructor frees what it points
    // to unless a consumer has taken it. A null result is an exception that was set.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(capsule_destructor));
        if capsule.is_null() {
            if versioned { delete_versioned(pointer.cast()) } else { delete_legacy(pointer.cast()) }
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// A row-major copy in memory of its own.
pub fn fresh(tensor: &Tensor) -> PyResult<Tensor> {
    tensor.copied().or_raise()
}

/// A structure that came in a capsule: its deleter runs when the last tensor over it goes.
struct Taken<T> {
    managed: NonNull<T>,
    delete: fn(NonNull<T>),
}

// SAFETY: the memory is only read here, and DLPack allows its deleter to be called from any thread.
unsafe impl<T> Send for Taken<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Taken<T> {}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        // A deleter may belong to Python code; at the interpreter's end the memory goes with it.
        let _ = Python::try_attach(|_| (self.delete)(self.managed));
    }
}

/// The tensor over another library's array.
pub fn import(object: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Imported> {
    let py = object.py();
    if let Ok(device) = object.call_method0("__dlpack_device__") {
        let (kind, _): (i32, i32) = device.extract()?;
        if kind != CPU {
            let text =
                format!("from_dlpack: the array is on device {kind}, not in the host's memory");
            return Err(PyBufferError::new_err(text));
        }
    }
    let method = object.getattr("__dlpack__")?;
    let arguments = PyDict::new(py);
    arguments.set_item("max_version", (1u32, 1u32))?;
    if let Some(copy) = copy {
        arguments.set_item("copy", copy)?;
    }
    let capsule = match method.call((), Some(&arguments)) {
        Ok(capsule) => capsule,
        // Producers from before DLPack 1 know no such argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => method.call0()?,
        Err(error) => return Err(error),
    };
    take(&capsule)
}

fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Imported> {
    let pointer = capsule.as_ptr();
    // SAFETY: the capsule is a live object (or another object, which is not a valid capsule).
    let named = |name: &CStr| unsafe { ffi::PyCapsule_IsValid(pointer, name.as_ptr()) == 1 };
    if named(VERSIONED) {
        // SAFETY: a capsule of this name holds such a structure, by DLPack; renaming it takes it over.
        let managed = unsafe {
            let managed =
                ffi::PyCapsule_GetPointer(pointer, VERSIONED.as_ptr()).cast::<Versioned>();
            ffi::PyCapsule_SetName(pointer, USED_VERSIONED.as_ptr());
            NonNull::new(managed)
        };
        let Some(managed) = managed else {
            return Err(PyValueError::new_err("from_dlpack: the capsule is empty"));
        };
        let delete = |managed: NonNull<Versioned>| {
            // SAFETY: taken over above, deleted once.
            unsafe {
                if let Some(deleter) = (*managed.as_ptr()).deleter {
                    deleter(managed.as_ptr());
                }
            }
        };
        let taken = Taken { managed, delete };
        // SAFETY: valid until the deleter is called, which `taken` does.
        let (major, flags, array) =
            unsafe { (managed.as_ref().major, managed.as_ref().flags, &managed.as_ref().array) };
        if major != 1 {
            let text = format!("from_dlpack: version {major} of DLPack is not known");
            return Err(PyBufferError::new_err(text));
        }
        let found = over(array, taken, flags & READ_ONLY != 0)?;
        // What was copied for us is ours alone.
        return Ok(if flags & IS_COPIED != 0 { found.own() } else { found });
    }
    if named(LEGACY) {
        // SAFETY: as above.
        let managed = unsafe {
            let managed = ffi::PyCapsule_GetPointer(pointer, LEGACY.as_ptr()).cast::<Legacy>();
            ffi::PyCapsule_SetName(pointer, USED_LEGACY.as_ptr());
            NonNull::new(managed)
        };
        let Some(managed) = managed else {
            return Err(PyValueError::new_err("from_dlpack: the capsule is empty"));
        };
        let delete = |managed: NonNull<Legacy>| {
            // SAFETY: taken over above, deleted once.
            unsafe {
                if let Some(deleter) = (*managed.as_ptr()).deleter {
                    deleter(managed.as_ptr());
                }
            }
        };
        let taken = Taken { managed, delete };
        // SAFETY: as above.
        return over(unsafe { &managed.as_ref().array }, taken, false);
    }
    let text = "from_dlpack: not a DLPack capsule, or one that was used before";
    Err(PyValueError::new_err(text))
}

/// The tensor over a described array; `owner` keeps the memory, `fixed`: whether nobody writes it.
fn over(array: &Array, owner: impl Send + Sync + 'static, fixed: bool) -> PyResult<Imported> {
    if array.device.kind != CPU {
        return Err(PyBufferError::new_err("from_dlpack: the array is not in the host's memory"));
    }
    let Some(dtype) = dtype_of(&array.dtype) else {
        let Type { code, bits, lanes } = array.dtype;
        let text =
            format!("from_dlpack: no dtype for code {code} with {bits} bits and {lanes} lanes");
        return Err(PyBufferError::new_err(text));
    };
    let ndim = usize::try_from(array.ndim).unwrap_or(0);
    let list = |start: *mut i64| -> Option<&[i64]> {
        // SAFETY: DLPack gives `ndim` numbers at a pointer that is not null.
        (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, ndim) })
    };
    let sizes = if ndim == 0 { Some(&[][..]) } else { list(array.shape) };
    let shape: Option<Vec<usize>> =
        sizes.and_then(|s| s.iter().map(|&n| usize::try_from(n).ok()).collect());
    let Some(shape) = shape else {
        return Err(PyValueError::new_err("from_dlpack: the array has no valid shape"));
    };
    let strides: Option<Vec<isize>> =
        list(array.strides).map(|s| s.iter().map(|&n| n as isize).collect());
    let start = array.data.cast::<u8>().wrapping_add(array.byte_offset as usize);
    // SAFETY: the producer vouches for the array that it describes.
    let tensor = unsafe { borrowed(start, &shape, strides, dtype, owner)? };
    Ok(Imported::over(tensor, start, fixed))
}

/// A tensor over somebody else's memory, or over a copy if an element does not lie where its dtype
/// must (`strides` in elements; `None`: row-major).
///
/// # Safety
/// Every element that `start`, `shape` and `strides` describe must be readable until `owner` is
/// dropped.
pub unsafe fn borrowed(
    start: *const u8,
    shape: &[usize],
    strides: Option<Vec<isize>>,
    dtype: DType,
    owner: impl Send + Sync + 'static,
) -> PyResult<Tensor> {
    let count = extensor::Shape::from(shape).checked_len();
    let Some(count) = count else {
        return Err(PyValueError::new_err("the array has more elements than memory can address"));
    };
    if count == 0 {
        return Tensor::zeros(shape, dtype).or_raise();
    }
    let size = dtype.size();
    let strides = strides.unwrap_or_else(|| {
        let mut step = 1isize;
        let mut strides: Vec<isize> = shape
            .iter()
            .rev()
            .map(|&n| {
                let s = step;
                step *= n as isize;
                s
            })
            .collect();
        strides.reverse();
        strides
    });
    let (mut first, mut last) = (0isize, 0isize);
    for (&n, &stride) in shape.iter().zip(&strides) {
        let reach = (n as isize - 1).checked_mul(stride);
        let end = if stride < 0 { &mut first } else { &mut last };
        match reach.and_then(|r| end.checked_add(r)) {
            Some(sum) => *end = sum,
            None => return Err(PyValueError::new_err("the array's strides overflow")),
        }
    }
    let elements = last.checked_sub(first).and_then(|n| usize::try_from(n).ok()?.checked_add(1));
    let bytes = elements.and_then(|n| n.checked_mul(size)).filter(|&n| isize::try_from(n).is_ok());
    let Some(bytes) = bytes else {
        return Err(PyValueError::new_err("the array's strides overflow"));
    };
    let lowest = start.wrapping_offset(first * size as isize);
    if start.addr().is_multiple_of(size) {
        let Some(lowest) = NonNull::new(lowest.cast_mut()) else {
            return Err(PyValueError::new_err("the array has no memory"));
        };
        // SAFETY: the caller's promise covers all elements between the lowest and the highest.
        let buffer = unsafe { Buffer::shared(lowest, bytes, owner) };
        return Tensor::from_buffer(buffer, shape, &strides, (-first) as usize, dtype).or_raise();
    }
    // Elements at odd addresses: the bytes are copied to where they may lie.
    let Some(mut buffer) = Buffer::new(bytes) else {
        return Err(pyo3::exceptions::PyMemoryError::new_err("no memory for a copy of the array"));
    };
    // SAFETY: as above; both ranges are `bytes` bytes long.
    let source = unsafe { std::slice::from_raw_parts(lowest, bytes) };
    buffer.as_mut_slice::<u8>()[..bytes].copy_from_slice(source);
    drop(owner);
    Tensor::from_buffer(buffer, shape, &strides, (-first) as usize, dtype).or_raise()
}

/// A tensor over the memory of an object that has `__dlpack__`, not copied unless it must be.
///
/// `copy=True` always copies; `copy=False` never does. Whoever shares memory gives his word that nobody
/// writes it: writes would show in the tensor, and in gradients that are computed later.
#[pyfunction]
#[pyo3(signature = (x, /, *, device = None, copy = None))]
pub fn from_dlpack(
    x: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<PyTensor> {
    crate::tensor::expect_device(device)?;
    if let Ok(tensor) = x.cast::<PyTensor>() {
        let tensor = &tensor.get().0;
        expect_plain("from_dlpack", tensor)?;
        return Ok(PyTensor(if copy == Some(true) { fresh(tensor)? } else { tensor.clone() }));
    }
    // Sharing is what this function is asked for.
    import(x, copy)?.tensor(x.py(), copy.or(Some(false))).map(PyTensor)
}
