//! The memory behind a tensor, the one place that knows where it is.

use crate::{Element, Error, Result};
use extensor_kernels::buffer::{Buffer, affordable};
use extensor_kernels::native::Native;

/// Memory for elements, on the host. A device's memory would be another variant here.
pub(crate) struct Storage(Buffer);

impl Storage {
    /// Memory for `len` elements to be written; the contents are arbitrary until then.
    #[inline]
    pub fn new<T: Native>(op: &'static str, len: usize) -> Result<Storage> {
        let bytes = len * size_of::<T>();
        Buffer::new(bytes).map(Storage).ok_or_else(|| Error::OutOfMemory { op, bytes })
    }

    /// Memory for this many bytes of elements, likewise.
    #[inline]
    pub fn of_bytes(op: &'static str, bytes: usize) -> Result<Storage> {
        Buffer::new(bytes).map(Storage).ok_or_else(|| Error::OutOfMemory { op, bytes })
    }

    /// No memory.
    pub fn none() -> Storage {
        Storage(Buffer::from_vec(Vec::<u8>::new()))
    }

    /// Memory for `len` zeros.
    pub fn zeroed<T: Native>(op: &'static str, len: usize) -> Result<Storage> {
        let bytes = len * size_of::<T>();
        Buffer::zeroed(bytes).map(Storage).ok_or_else(|| Error::OutOfMemory { op, bytes })
    }

    /// The vector's elements, without copying where a buffer holds them as they are.
    pub fn from_vec<E: Element>(values: Vec<E>) -> Storage {
        Storage(Buffer::from_vec(E::store_all(values)))
    }

    /// A buffer as it is.
    pub fn from_buffer(buffer: Buffer) -> Storage {
        Storage(buffer)
    }

    /// Whether nobody else can see the memory, so that it may be written.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        self.0.is_exclusive()
    }

    #[inline]
    pub fn as_slice<T: Native>(&self) -> &[T] {
        self.0.as_slice()
    }

    #[inline]
    pub fn as_mut_slice<T: Native>(&mut self) -> &mut [T] {
        self.0.as_mut_slice()
    }
}

/// An error unless the machine has memory for `len` things of `each` bytes. Whatever is allocated for
/// as many things as an argument says, other than by [`Storage`], asks here or by [`with_room`] first.
pub(crate) fn expect_room(op: &'static str, len: usize, each: usize) -> Result<()> {
    match len.checked_mul(each) {
        Some(bytes) if affordable(bytes) => Ok(()),
        bytes => Err(Error::OutOfMemory { op, bytes: bytes.unwrap_or(usize::MAX) }),
    }
}

/// An empty list with room for `len` items: where there is no memory for them, an error, not an abort.
pub(crate) fn with_room<T>(op: &'static str, len: usize) -> Result<Vec<T>> {
    expect_room(op, len, size_of::<T>())?;
    let mut list = Vec::new();
    match list.try_reserve_exact(len) {
        Ok(()) => Ok(list),
        Err(_) => Err(Error::OutOfMemory { op, bytes: len * size_of::<T>() }),
    }
}
