//! The tensor: an immutable array of numbers.
//!
//! This module knows how elements are stored, viewed, made, read and printed. It must not know what
//! operations there are, except that the infix operators call them.

mod bytes;
mod compare;
mod create;
mod dtype;
mod error;
mod layout;
mod operators;
mod print;
mod random;
mod read;
mod shape;
mod storage;

pub(crate) use bytes::swap_bytes;
pub(crate) use compare::unravel;
pub use compare::{Difference, Tolerance};
pub use create::{Data, tensor};
pub(crate) use create::{bits_of, from_f64};
pub use dtype::{DType, Element, Kind};
pub(crate) use dtype::{match_bits, match_float, match_int, match_words};
pub use error::{Error, Result};
pub(crate) use layout::Layout;
pub use random::Key;
pub(crate) use random::{Scope, of_seed};
pub use shape::{Axes, Integers, Over, Shape, over};
pub(crate) use shape::{Strides, axis_index, broadcast};
pub(crate) use storage::{Storage, expect_room, with_room};

use crate::autodiff::Traced;
use crate::compile::Symbolic;
use crate::exec::{Input, Output};
use crate::interrupt::stoppable;
use extensor_kernels::native::Native;
use extensor_kernels::view::View;
use std::borrow::Cow;
use std::sync::Arc;

/// An immutable array of numbers of one [`DType`] with any number of dimensions.
///
/// A tensor is a value: cloning it is cheap and shares the memory, which never changes. It can be
/// sent to and shared between threads. Transposing, slicing, broadcasting, flipping and, where the
/// strides allow, reshaping give views of the same memory.
///
/// ```
/// use extensor::ops::transpose;
/// use extensor::{DType, tensor};
///
/// let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(x.shape(), [2, 3]);
/// assert_eq!(x.dtype(), DType::F64);
/// let y = transpose(&x, None)?; // a view: no element is copied
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

/// A tensor is one pointer: it moves and clones as such.
struct Inner {
    memory: Memory,
    layout: Layout,
    dtype: DType,
}

enum Memory {
    /// Made for this tensor.
    Own(Storage),
    /// That of the tensor which this one is a view of (and which is no view itself).
    Of(Tensor),
    /// That of the value of a tensor which is being differentiated.
    Traced(Traced),
    /// None yet: a value of a program that is being recorded.
    Symbolic(Symbolic),
}

impl Tensor {
    /// The sizes of the axes, outermost first.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.0.layout.shape
    }

    /// The number of axes; 0 for a scalar.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// The type of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// How many elements apart neighbours along each axis lie in memory (0: the same element).
    pub fn strides(&self) -> &[isize] {
        &self.0.layout.strides
    }

    /// Whether the elements lie in memory in row-major order without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.0.layout.is_contiguous()
    }

    /// Whether both are views of the same memory.
    pub fn shares_memory_with(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.owner().0, &other.owner().0)
    }

    /// The tensor that the memory was made for.
    #[inline]
    fn owner(&self) -> &Tensor {
        match &self.0.memory {
            Memory::Own(_) | Memory::Symbolic(_) => self,
            Memory::Of(owner) => owner,
            Memory::Traced(traced) => traced.value.owner(),
        }
    }

    #[inline]
    fn storage(&self) -> &Storage {
        match &self.0.memory {
            Memory::Own(storage) => storage,
            Memory::Of(owner) => owner.storage(),
            Memory::Traced(_) => panic!("an operation reads a traced tensor's elements"),
            Memory::Symbolic(_) => panic!("{}", Error::recorded("a kernel")),
        }
    }

    /// Which value of a program that is being recorded the tensor is, or a view of.
    #[inline]
    pub(crate) fn symbol(&self) -> Option<&Symbolic> {
        match &self.0.memory {
            Memory::Own(_) => None,
            Memory::Of(owner) => owner.symbol(),
            Memory::Symbolic(symbol) => Some(symbol),
            Memory::Traced(traced) => traced.value.symbol(),
        }
    }

    /// Whether the tensor has no numbers yet, since a function of it is being compiled.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.symbol().is_some()
    }

    /// A tensor without numbers yet, which will lie in row-major order.
    pub(crate) fn symbolic(symbol: Symbolic, shape: Shape, dtype: DType) -> Tensor {
        let layout = Layout::contiguous(shape);
        Tensor(Arc::new(Inner { memory: Memory::Symbolic(symbol), layout, dtype }))
    }

    /// The tensor that this one is a view of.
    pub(crate) fn whole(&self) -> Tensor {
        self.owner().clone()
    }

    /// All of the memory that the tensor is a view of.
    pub(crate) fn memory(&self) -> &[u8] {
        self.storage().as_slice()
    }

    /// What differentiation knows of the tensor, if it is under way.
    #[inline]
    pub(crate) fn traced(&self) -> Option<&Traced> {
        match &self.0.memory {
            Memory::Traced(traced) => Some(traced),
            _ => None,
        }
    }

    /// Whether the tensor is being differentiated: everything done to it must go through
    /// [`apply`](crate::ops::operation::apply), or its gradient is lost.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.traced().is_some()
    }

    /// The tensor, if it is not being differentiated: what reads numbers out of it asks first, since no
    /// gradient follows them.
    #[inline]
    #[track_caller]
    pub(crate) fn plain(&self, op: &'static str) -> Result<&Tensor> {
        match &self.0.memory {
            Memory::Traced(_) if self.is_mapped() => Err(Error::Mapped { op }),
            Memory::Traced(_) => Err(Error::Traced { op }),
            _ if self.symbol().is_some() => Err(Error::recorded(op)),
            _ => Ok(self),
        }
    }

    /// The tensor without anything that differentiation knows of it: for questions and constants, from
    /// which nothing flows that has a gradient. An example of a batch stays one.
    #[inline]
    pub(crate) fn primal(&self) -> Cow<'_, Tensor> {
        match &self.0.memory {
            Memory::Traced(traced) => traced.primal(self),
            _ => Cow::Borrowed(self),
        }
    }

    /// The tensor that all levels of transformations are wrapped around, for messages and printing: of
    /// an example of a batch that is the batch.
    pub(crate) fn bare(&self) -> &Tensor {
        let mut x = self;
        while let Some(traced) = x.traced() {
            x = &traced.value;
        }
        x
    }

    /// Whether the tensor stands for every example of a batch, at any level: under
    /// [`vmap`](crate::autodiff::vmap).
    pub fn is_mapped(&self) -> bool {
        let mut x = self;
        while let Some(traced) = x.traced() {
            if traced.is_batch() {
                return true;
            }
            x = &traced.value;
        }
        false
    }

    /// An error if the tensor is an example of a batch: what depends on numbers would have to be
    /// different for each.
    #[track_caller]
    pub(crate) fn expect_unmapped(&self, op: &'static str) -> Result<()> {
        if self.is_mapped() { Err(Error::Mapped { op }) } else { Ok(()) }
    }

    /// A tensor with the value's elements at a level of a transformation: being differentiated, or
    /// any of the examples that are the value's first axis.
    pub(crate) fn from_traced(traced: Traced) -> Tensor {
        let mut layout = traced.value.layout().clone();
        if traced.is_batch() {
            layout.shape = layout.shape[1..].iter().copied().collect();
            layout.strides.remove(0);
        }
        let dtype = traced.value.dtype();
        Tensor(Arc::new(Inner { memory: Memory::Traced(traced), layout, dtype }))
    }

    /// The tensor's elements as the kernels see them. `T` must be the dtype's stored type.
    #[inline]
    pub(crate) fn view<T: Native>(&self) -> View<'_, T> {
        debug_assert!(!self.is_traced(), "an operation reads a traced tensor's elements");
        debug_assert_eq!(size_of::<T>(), self.dtype().size());
        let Layout { shape, strides, offset } = &self.0.layout;
        View::new(self.storage().as_slice(), *offset, shape, strides)
    }

    /// The tensor as an array that a kernel reads.
    #[inline]
    pub(crate) fn input(&self) -> Input<'_> {
        debug_assert!(!self.is_traced(), "an operation reads a traced tensor's elements");
        Input::new(self.storage().as_slice(), &self.0.layout, self.0.dtype)
    }

    /// The same, if the elements are there, in the host's memory: one look at where they lie.
    #[inline]
    pub(crate) fn on_host(&self) -> Option<Input<'_>> {
        let storage = match &self.0.memory {
            Memory::Own(storage) => storage,
            Memory::Of(owner) => match &owner.0.memory {
                Memory::Own(storage) => storage,
                _ => return None,
            },
            _ => return None,
        };
        Some(Input::new(storage.as_slice(), &self.0.layout, self.0.dtype))
    }

    /// The elements as a slice, if they lie in row-major order. `T` as for [`view`](Self::view).
    #[inline]
    pub(crate) fn contiguous_slice<T: Native>(&self) -> Option<&[T]> {
        debug_assert!(!self.is_traced(), "an operation reads a traced tensor's elements");
        debug_assert_eq!(size_of::<T>(), self.dtype().size());
        let (start, len) = (self.0.layout.offset, self.0.layout.contiguous_len()?);
        self.storage().as_slice().get(start..start + len)
    }

    /// The elements of a tensor that lies in row-major order, as what [`contiguous`](Self::contiguous)
    /// returns does. `T` as for [`view`](Self::view).
    ///
    /// # Panics
    /// If it does not: a mistake in the library, which is not to end in a wrong result.
    #[inline]
    #[track_caller]
    pub(crate) fn row_major<T: Native>(&self) -> &[T] {
        if self.is_empty() {
            return &[];
        }
        self.contiguous_slice().unwrap_or_else(|| self.not_row_major())
    }

    #[cold]
    #[track_caller]
    pub(super) fn not_row_major(&self) -> ! {
        panic!(
            "a bug in ExTensor: elements are read in row-major order from a tensor of shape {} that \
             lies in memory with strides {:?}",
            self.shape(),
            self.strides()
        )
    }

    /// Whether nobody else can see this tensor's memory, which may then be changed.
    pub(crate) fn is_exclusive(&mut self) -> bool {
        match Arc::get_mut(&mut self.0).map(|inner| &inner.memory) {
            Some(Memory::Own(storage)) => storage.is_exclusive(),
            _ => false,
        }
    }

    /// A tensor that [is exclusive](Self::is_exclusive) and lies in row-major order, as an array that a
    /// kernel writes.
    ///
    /// # Panics
    /// If it is not.
    pub(crate) fn output(&mut self) -> Output<'_> {
        let len = self.len();
        let Some(Inner { memory: Memory::Own(storage), layout, dtype }) = Arc::get_mut(&mut self.0)
        else {
            panic!("a bug in ExTensor: a tensor that others see is written");
        };
        let (start, size) = (layout.offset, dtype.size());
        let bytes = &mut storage.as_mut_slice()[start * size..(start + len) * size];
        Output::new(bytes, &layout.shape, *dtype)
    }

    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Another view of the same memory.
    #[inline]
    pub(crate) fn with_layout(&self, layout: Layout) -> Tensor {
        debug_assert!(!self.is_traced(), "a view of a traced tensor that is not an operation");
        let memory = Memory::Of(self.owner().clone());
        Tensor(Arc::new(Inner { memory, layout, dtype: self.dtype() }))
    }

    /// A row-major tensor over storage that holds exactly its elements.
    #[inline]
    pub(crate) fn from_storage(storage: Storage, shape: Shape, dtype: DType) -> Tensor {
        let layout = Layout::contiguous(shape);
        Tensor(Arc::new(Inner { memory: Memory::Own(storage), layout, dtype }))
    }

    /// The tensor's memory, if it is all of it and nobody else sees it.
    pub(crate) fn into_storage(mut self) -> std::result::Result<Storage, Tensor> {
        let bytes = self.len() * self.dtype().size();
        let all = self.is_exclusive()
            && self.is_contiguous()
            && self.0.layout.offset == 0
            && self.storage().as_slice::<u8>().len() == bytes;
        if !all {
            return Err(self);
        }
        match Arc::try_unwrap(self.0) {
            Ok(Inner { memory: Memory::Own(storage), .. }) => Ok(storage),
            Ok(inner) => Err(Tensor(Arc::new(inner))),
            Err(shared) => Err(Tensor(shared)),
        }
    }

    /// A tensor of nothing, to stand where another one was taken away.
    pub(crate) fn none() -> Tensor {
        Tensor::from_storage(Storage::none(), Shape::from([0]), DType::Bool)
    }

    /// A tensor over storage in which the layout has been found to lie.
    fn from_parts(storage: Storage, layout: Layout, dtype: DType) -> Tensor {
        Tensor(Arc::new(Inner { memory: Memory::Own(storage), layout, dtype }))
    }

    /// A new row-major tensor whose elements `fill` writes, every one of them.
    #[inline]
    pub(crate) fn build<T: Native>(
        op: &'static str,
        shape: Shape,
        dtype: DType,
        mut fill: impl FnMut(&mut [T]),
    ) -> Result<Tensor> {
        Self::build_by(op, shape, dtype, &mut fill)
    }

    /// [`build`](Self::build), compiled once for a type and not for each of hundreds of closures.
    fn build_by<T: Native>(
        op: &'static str,
        shape: Shape,
        dtype: DType,
        fill: &mut dyn FnMut(&mut [T]),
    ) -> Result<Tensor> {
        debug_assert_eq!(size_of::<T>(), dtype.size());
        let len = shape.count(op)?;
        let mut storage = Storage::new::<T>(op, len)?;
        stoppable(op, || {
            fill(&mut storage.as_mut_slice()[..len]);
            Ok(())
        })?;
        Ok(Self::from_storage(storage, shape, dtype))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Result, tensor};

    #[test]
    #[should_panic(expected = "a bug in ExTensor: elements are read in row-major order")]
    fn a_kernel_that_reads_a_view_as_if_it_were_row_major_panics() {
        let x = tensor([[1.0, 2.0], [3.0, 4.0]]).transpose(..).unwrap();
        assert!(x.row_major::<f64>().is_empty());
    }

    #[test]
    fn a_view_without_elements_is_row_major() -> Result<()> {
        let x = tensor([[1.0, 2.0], [3.0, 4.0]]).slice(1, 2, 2, 1)?;
        assert!(x.row_major::<f64>().is_empty() && x.bytes().is_empty());
        Ok(())
    }
}
