//! A tensor's elements as bytes, for those who move them between memory and files.
//!
//! The bytes are in the machine's order; what a file wants is not known here.

use super::{DType, Error, Layout, Result, Shape, Storage, Strides, Tensor};
use super::{match_bits, with_room};
use extensor_kernels::buffer::Buffer;

impl Tensor {
    /// A tensor that uses a buffer's memory, without copying it: element `i` lies
    /// `offset + Σ iₖ·strides[k]` elements from the buffer's start. For those who exchange memory with others
    /// (see `Buffer::shared`).
    ///
    /// ```
    /// use extensor::{DType, Tensor};
    /// use extensor_kernels::buffer::Buffer;
    /// let buffer = Buffer::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// let x = Tensor::from_buffer(buffer, [2, 2], &[-3, 2], 3, DType::F32)?;
    /// assert_eq!(x.to_vec::<f32>()?, [4.0, 6.0, 1.0, 3.0]);
    /// // A layout that leaves the buffer is an error.
    /// let buffer = Buffer::from_vec(vec![1.0f32, 2.0]);
    /// assert!(Tensor::from_buffer(buffer, [3], &[1], 0, DType::F32).is_err());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn from_buffer(
        buffer: Buffer,
        shape: impl Into<Shape>,
        strides: &[isize],
        offset: usize,
        dtype: DType,
    ) -> Result<Tensor> {
        let (op, shape) = ("from_buffer", shape.into());
        let bad = |parameter: &'static str, expected: String, got: String| {
            Err(Error::Parameter { op, parameter, expected, got })
        };
        if strides.len() != shape.len() {
            let expected = format!("{} numbers, one for each axis", shape.len());
            return bad("strides", expected, format!("{strides:?}"));
        }
        let align = dtype.size();
        if !buffer.as_slice::<u8>().as_ptr().addr().is_multiple_of(align) {
            let expected = format!("one at a multiple of {align} bytes");
            return bad("the buffer", expected, "one that is not".into());
        }
        let held = buffer.bytes() / dtype.size();
        if shape.count(op)? > 0 {
            // The first and the last element in memory, in either direction of each axis.
            let reach = |forward: bool| -> Option<isize> {
                let steps = shape.iter().zip(strides).filter(|(_, s)| (**s > 0) == forward);
                let mut at = isize::try_from(offset).ok()?;
                for (&size, &stride) in steps {
                    let last = isize::try_from(size - 1).ok()?;
                    at = at.checked_add(stride.checked_mul(last)?)?;
                }
                Some(at)
            };
            let inside = |at: Option<isize>| at.is_some_and(|at| at >= 0 && (at as usize) < held);
            if !inside(reach(true)) || !inside(reach(false)) {
                let expected = format!("a layout inside the buffer's {held} elements");
                let got = format!("shape {shape} with strides {strides:?} from element {offset}");
                return bad("layout", expected, got);
            }
        }
        let layout = Layout { strides: Strides::from_slice(strides), shape, offset };
        Ok(Tensor::from_parts(Storage::from_buffer(buffer), layout, dtype))
    }

    /// Where the first element lies in memory (for an empty tensor: anywhere). The memory lives as
    /// long as the tensor or a clone of it, and is never written. (Values read from it have no
    /// gradient: check [`is_traced`](Self::is_traced) first.)
    pub fn address(&self) -> *const u8 {
        let x = self.bare();
        x.storage().as_slice::<u8>().as_ptr().wrapping_add(x.layout().offset * x.dtype().size())
    }

    /// The bytes of the elements in row-major order, in the machine's byte order. An error for a
    /// tensor that is being differentiated.
    ///
    /// ```
    /// use extensor::{DType, Tensor, tensor};
    /// let bytes = tensor([1.0f32, -2.0]).to_bytes()?;
    /// let back = Tensor::of_bytes(&bytes, [2], DType::F32)?;
    /// assert_eq!(back.to_vec::<f32>()?, [1.0, -2.0]);
    /// assert!(Tensor::of_bytes(&bytes, [3], DType::F32).is_err());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let x = self.plain("to_bytes")?.contiguous()?;
        let bytes = x.bytes();
        let mut copy = with_room("to_bytes", bytes.len())?;
        copy.extend_from_slice(bytes);
        Ok(copy)
    }

    /// A tensor from the bytes that [`to_bytes`](Self::to_bytes) returned.
    pub fn of_bytes(bytes: &[u8], shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        let (op, shape) = ("of_bytes", shape.into());
        let (expected, got) = (shape.count(op)?, bytes.len() / dtype.size());
        if bytes.len() != expected * dtype.size() {
            return Err(Error::Length { op, shape, expected, got });
        }
        Tensor::from_bytes(op, shape, dtype, |out| {
            out.copy_from_slice(bytes);
            Ok::<(), Error>(())
        })
    }

    /// The bytes of the elements of a tensor that lies in row-major order, as what
    /// [`contiguous`](Self::contiguous) returns does.
    ///
    /// # Panics
    /// If it does not: a mistake in the library.
    #[track_caller]
    pub(crate) fn bytes(&self) -> &[u8] {
        let x = self.bare();
        if x.is_empty() {
            return &[];
        }
        if !x.is_contiguous() {
            x.not_row_major();
        }
        let (start, size) = (x.layout().offset, x.dtype().size());
        &x.storage().as_slice::<u8>()[start * size..(start + x.len()) * size]
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
