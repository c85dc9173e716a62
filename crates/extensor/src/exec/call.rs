//! What a kernel is given: arrays to read and arrays to write, wherever they lie.

use crate::tensor::Layout;
use crate::{DType, Error, Result, Shape};
use extensor_kernels::native::{Native, numbers, numbers_mut};
use extensor_kernels::view::View;

/// A kernel's arguments.
pub(crate) struct Call<'a, 'b> {
    /// Whose errors they are.
    pub op: &'static str,
    /// What is read.
    pub inputs: &'a [Input<'b>],
    /// What is written: every element.
    pub outputs: &'a mut [Output<'b>],
}

impl<'a, 'b> Call<'a, 'b> {
    /// The dtype of the first output.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.outputs[0].dtype
    }

    /// The elements of the first output, to be written.
    #[inline]
    pub fn out<T: Native>(&mut self) -> &mut [T] {
        self.outputs[0].all()
    }

    /// The outputs in their places, where only those that are wanted are there.
    pub fn some<const N: usize>(&mut self, wanted: [bool; N]) -> [Option<&mut Output<'b>>; N] {
        let mut all = self.outputs.iter_mut();
        wanted.map(|wanted| if wanted { all.next() } else { None })
    }

    /// The error for a dtype that the kernel is not made for. Operations look at dtypes first.
    #[cold]
    pub fn wrong(&self, argument: &'static str, expected: &'static str, got: DType) -> Result<()> {
        Err(Error::DType { op: self.op, argument, expected, got })
    }
}

/// An array to be read.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    layout: &'a Layout,
    dtype: DType,
}

impl<'a> Input<'a> {
    /// The array with this layout in memory that holds all of its elements.
    #[inline]
    pub fn new(bytes: &'a [u8], layout: &'a Layout, dtype: DType) -> Input<'a> {
        Input { bytes, layout, dtype }
    }

    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    #[inline]
    pub fn shape(&self) -> &'a Shape {
        &self.layout.shape
    }

    #[inline]
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// The array as the kernels see it. `T` must be the dtype's stored type.
    #[inline]
    pub fn view<T: Native>(&self) -> View<'a, T> {
        debug_assert_eq!(size_of::<T>(), self.dtype.size());
        let Layout { shape, strides, offset } = self.layout;
        View::new(numbers(self.bytes), *offset, shape, strides)
    }

    /// The elements as a slice, if they lie in row-major order. `T` as for [`view`](Self::view).
    #[inline]
    pub fn contiguous_slice<T: Native>(&self) -> Option<&'a [T]> {
        debug_assert_eq!(size_of::<T>(), self.dtype.size());
        let len = self.layout.contiguous_len()?;
        if len == 0 {
            return Some(&[]);
        }
        let start = self.layout.offset;
        numbers(self.bytes).get(start..start + len)
    }

    /// The elements of an array that lies in row-major order. `T` as for [`view`](Self::view).
    ///
    /// # Panics
    /// If it does not: a mistake in the library, which is not to end in a wrong result.
    #[inline]
    #[track_caller]
    pub fn row_major<T: Native>(&self) -> &'a [T] {
        self.contiguous_slice().unwrap_or_else(|| self.not_row_major())
    }

    #[cold]
    #[track_caller]
    fn not_row_major(&self) -> ! {
        let Layout { shape, strides, .. } = self.layout;
        panic!(
            "a bug in ExTensor: elements are read in row-major order from an array of shape {shape} \
             that lies in memory with strides {strides:?}"
        )
    }
}

/// An array to be written, in row-major order.
pub(crate) struct Output<'a> {
    bytes: &'a mut [u8],
    /// For a kernel that replaces: what is replaced, if it lies elsewhere.
    old: Option<&'a [u8]>,
    shape: &'a Shape,
    dtype: DType,
}

impl<'a> Output<'a> {
    /// The array of this shape in memory that holds exactly its elements.
    #[inline]
    pub fn new(bytes: &'a mut [u8], shape: &'a Shape, dtype: DType) -> Output<'a> {
        Output { bytes, old: None, shape, dtype }
    }

    /// The same for an array whose elements are made of old ones that lie elsewhere, in the same order.
    pub fn instead_of(mut self, old: &'a [u8]) -> Output<'a> {
        self.old = Some(old);
        self
    }

    /// The elements to be replaced, if they lie elsewhere, and where the new ones go.
    pub fn replaced<T: Native>(&mut self) -> (Option<&[T]>, &mut [T]) {
        (self.old.map(numbers), numbers_mut(self.bytes))
    }

    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    #[inline]
    pub fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// All of its elements. `T` must be the dtype's stored type.
    #[inline]
    pub fn all<T: Native>(&mut self) -> &mut [T] {
        debug_assert_eq!(size_of::<T>(), self.dtype.size());
        numbers_mut(self.bytes)
    }
}
