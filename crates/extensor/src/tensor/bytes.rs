//! A tensor's elements as bytes, for those who move them between memory and files.
//!
//! The order of bytes here is the machine's; what a file wants is not known in this place.

use super::{DType, Shape, Storage, Tensor, match_bits};

impl Tensor {
    /// The bytes of the elements, if they lie in row-major order.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        let x = self.primal();
        if x.is_empty() {
            return Some(&[]);
        }
        let (start, size) = (x.layout().offset, x.dtype().size());
        let all = x.is_contiguous().then(|| x.storage().as_slice::<u8>())?;
        all.get(start * size..(start + x.len()) * size)
    }

    /// A new row-major tensor whose bytes `fill` writes, every one of them.
    pub(crate) fn from_bytes<E: From<crate::Error>>(
        op: &'static str,
        shape: Shape,
        dtype: DType,
        fill: impl FnOnce(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Tensor, E> {
        let len = shape.count(op)?;
        let mut storage: Storage = match_bits!(dtype, T => Storage::new::<T>(op, len)?);
        fill(&mut storage.as_mut_slice::<u8>()[..len * dtype.size()])?;
        Ok(Self::from_storage(storage, shape, dtype))
    }
}

/// Turns the bytes of every element of `size` bytes round.
pub(crate) fn swap_bytes(bytes: &mut [u8], size: usize) {
    if size > 1 {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}
