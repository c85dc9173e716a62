//! Reading a tensor's elements.

use super::{DType, Element, Error, Result, Tensor, match_float, match_int};
use extensor_kernels::view::Gather;

impl Tensor {
    /// The elements in row-major order. The type must be the tensor's: cast it first otherwise.
    ///
    /// ```
    /// let x = extensor::tensor([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.to_vec::<i64>()?, [1, 2, 3, 4]);
    /// assert!(x.to_vec::<f32>().is_err());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn to_vec<E: Element>(&self) -> Result<Vec<E>> {
        let values = self.iter::<E>()?;
        let bytes = self.len().saturating_mul(size_of::<E>());
        if !extensor_kernels::buffer::affordable(bytes) {
            return Err(Error::OutOfMemory { op: "to_vec", bytes });
        }
        Ok(values.collect())
    }

    /// The one element of a tensor of one element.
    ///
    /// ```
    /// assert_eq!(extensor::tensor([[7.5]]).item::<f64>()?, 7.5);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn item<E: Element>(&self) -> Result<E> {
        self.expect_dtype::<E>("item")?;
        if self.len() != 1 {
            let (expected, got) = ("one element".into(), self.shape().clone());
            return Err(Error::Shape { op: "item", argument: "the tensor", expected, got });
        }
        Ok(E::load(self.primal().view::<E::Stored>().data()[self.layout().offset]))
    }

    /// The element at an index along each axis.
    pub fn get<E: Element>(&self, index: &[usize]) -> Result<E> {
        self.expect_dtype::<E>("get")?;
        if index.len() != self.ndim() {
            return Err(Error::Parameter {
                op: "get",
                parameter: "index",
                expected: format!("{} numbers, one for each axis", self.ndim()),
                got: format!("{index:?}"),
            });
        }
        let layout = self.layout();
        let mut at = layout.offset as isize;
        for (axis, (&i, &size)) in index.iter().zip(self.shape().iter()).enumerate() {
            if i >= size {
                return Err(Error::IndexOutOfRange { op: "get", index: i as i64, axis, size });
            }
            at += i as isize * layout.strides[axis];
        }
        Ok(E::load(self.primal().view::<E::Stored>().data()[at as usize]))
    }

    /// The elements in row-major order, one after the other.
    pub fn iter<E: Element>(&self) -> Result<impl Iterator<Item = E> + '_> {
        self.expect_dtype::<E>("iter")?;
        let len = self.len();
        let gather = Gather::new(&self.primal().view::<E::Stored>());
        const PIECE: usize = 256;
        Ok((0..len.div_ceil(PIECE)).flat_map(move |piece| {
            let start = piece * PIECE;
            let mut values =
                vec![<E::Stored as extensor_kernels::native::Native>::ZERO; PIECE.min(len - start)];
            gather.read(start, &mut values);
            values.into_iter().map(E::load)
        }))
    }

    /// The elements as a slice, if the dtype is `E`'s and they lie in row-major order.
    pub fn as_slice<E: Element<Stored = E> + extensor_kernels::native::Native>(
        &self,
    ) -> Option<&[E]> {
        if self.dtype() != E::DTYPE {
            return None;
        }
        self.primal().view::<E>().as_slice()
    }

    /// All elements as `f64`, in row-major order, whatever the dtype (true is 1; 64-bit integers
    /// beyond 2⁵³ round).
    #[allow(clippy::useless_conversion)] // f64 is one of the types
    pub fn to_f64_vec(&self) -> Vec<f64> {
        fn all<T: extensor_kernels::native::Native>(x: &Tensor, f: impl Fn(T) -> f64) -> Vec<f64> {
            let mut values = vec![T::ZERO; x.len()];
            Gather::new(&x.primal().view::<T>()).read(0, &mut values);
            values.into_iter().map(f).collect()
        }
        match_float!(self.dtype(), T => all::<T>(self, |v| v.into()), else {
            match_int!(self.dtype(), T => all::<T>(self, |v| v.0 as f64), else {
                all::<u8>(self, |v| f64::from(u8::from(v != 0)))
            })
        })
    }

    fn expect_dtype<E: Element>(&self, op: &'static str) -> Result<()> {
        if self.dtype() == E::DTYPE {
            return Ok(());
        }
        Err(Error::DType {
            op,
            argument: "the tensor",
            expected: E::DTYPE.name(),
            got: self.dtype(),
        })
    }

    /// The one element as `f64`, for messages and printing.
    pub(crate) fn is_bool(&self) -> bool {
        self.dtype() == DType::Bool
    }
}
