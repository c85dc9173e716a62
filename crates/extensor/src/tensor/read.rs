//! Reading a tensor's elements.
//!
//! A number that leaves a tensor takes no gradient along, so every function here refuses a tensor that
//! is being differentiated: whoever means it writes [`stop_gradient`](crate::autodiff::stop_gradient)
//! first. Printing is the exception.

use super::{DType, Element, Error, Result, Tensor, match_float, match_int, with_room};
use extensor_kernels::buffer::affordable;
use extensor_kernels::view::Gather;

impl Tensor {
    /// The elements in row-major order. The type must be the tensor's own; cast the tensor first if
    /// it is not. Like every way to read numbers, it is an error for a tensor that is being
    /// differentiated: see [`stop_gradient`](crate::autodiff::stop_gradient).
    ///
    /// ```
    /// let x = extensor::tensor([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.to_vec::<i64>()?, [1, 2, 3, 4]);
    /// assert!(x.to_vec::<f32>().is_err());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec<E: Element>(&self) -> Result<Vec<E>> {
        let elements = self.elements::<E>("to_vec")?;
        let mut values = with_room("to_vec", self.len())?;
        values.extend(elements);
        Ok(values)
    }

    /// The only element of a tensor with one element.
    ///
    /// ```
    /// use extensor::{autodiff::{grad, stop_gradient}, tensor};
    /// assert_eq!(tensor([[7.5]]).item::<f64>()?, 7.5);
    ///
    /// // No gradient would follow a number out of a tensor that is being differentiated.
    /// let lost = grad(|x| Ok(x * x.item::<f64>()?.sin()), &tensor(3.0)).unwrap_err();
    /// assert!(lost.to_string().contains("write stop_gradient first"));
    /// let meant = grad(|x| Ok(x * stop_gradient(x).item::<f64>()?.sin()), &tensor(3.0))?;
    /// assert_eq!(meant.item::<f64>()?, 3f64.sin());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[track_caller]
    pub fn item<E: Element>(&self) -> Result<E> {
        self.expect_dtype::<E>("item")?;
        if self.len() != 1 {
            let (expected, got) = ("one element".into(), self.shape().clone());
            return Err(Error::Shape { op: "item", argument: "the tensor", expected, got });
        }
        let x = self.plain("item")?;
        Ok(E::load(x.view::<E::Stored>().data()[x.layout().offset]))
    }

    /// The element at an index along each axis.
    #[track_caller]
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
        Ok(E::load(self.plain("get")?.view::<E::Stored>().data()[at as usize]))
    }

    /// The elements in row-major order, one after the other.
    #[track_caller]
    pub fn iter<E: Element>(&self) -> Result<impl Iterator<Item = E> + '_> {
        self.elements("iter")
    }

    #[track_caller]
    fn elements<E: Element>(&self, op: &'static str) -> Result<impl Iterator<Item = E> + '_> {
        self.expect_dtype::<E>(op)?;
        let len = self.len();
        let gather = Gather::new(&self.plain(op)?.view::<E::Stored>());
        const PIECE: usize = 256;
        Ok((0..len.div_ceil(PIECE)).flat_map(move |piece| {
            let start = piece * PIECE;
            let mut values =
                vec![<E::Stored as extensor_kernels::native::Native>::ZERO; PIECE.min(len - start)];
            gather.read(start, &mut values);
            values.into_iter().map(E::load)
        }))
    }

    /// The elements as a slice, without copying: an error if the dtype is not `E`'s, or if they do not
    /// lie in row-major order (see [`contiguous`](Tensor::contiguous)).
    ///
    /// ```
    /// use extensor::ops::transpose;
    /// use extensor::tensor;
    /// let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.as_slice::<f64>()?, [1.0, 2.0, 3.0, 4.0]);
    /// assert!(transpose(&x, None)?.as_slice::<f64>().is_err());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[track_caller]
    pub fn as_slice<E: Element<Stored = E> + extensor_kernels::native::Native>(
        &self,
    ) -> Result<&[E]> {
        let op = "as_slice";
        self.expect_dtype::<E>(op)?;
        self.plain(op)?.view::<E>().as_slice().ok_or_else(|| Error::Parameter {
            op,
            parameter: "the order of the elements in memory",
            expected: "row by row, without gaps".into(),
            got: format!("one with strides {:?} for shape {}", self.strides(), self.shape()),
        })
    }

    /// All elements as `f64`, in row-major order, whatever the dtype (true is 1; 64-bit integers
    /// beyond 2⁵³ round).
    ///
    /// # Panics As the operators do, at the caller's line, with the sentence of the error that
    /// [`to_vec`](Tensor::to_vec) returns: for a tensor that is being differentiated, and where
    /// there is not enough memory for the elements (a view may have more of them than memory could
    /// hold).
    #[track_caller]
    #[allow(clippy::useless_conversion)] // f64 is one of the types
    pub fn to_f64_vec(&self) -> Vec<f64> {
        fn all<T: extensor_kernels::native::Native>(x: &Tensor, f: impl Fn(T) -> f64) -> Vec<f64> {
            let bytes = x.len().saturating_mul(size_of::<T>() + size_of::<f64>());
            assert!(affordable(bytes), "to_f64_vec: no memory for {bytes} bytes");
            let mut values = vec![T::ZERO; x.len()];
            Gather::new(&x.view::<T>()).read(0, &mut values);
            values.into_iter().map(f).collect()
        }
        let x = match self.plain("to_f64_vec") {
            Ok(x) => x,
            Err(error) => panic!("{error}"),
        };
        match_float!(x.dtype(), T => all::<T>(x, |v| v.into()), else {
            match_int!(x.dtype(), T => all::<T>(x, |v| v.0 as f64), else {
                all::<u8>(x, |v| f64::from(u8::from(v != 0)))
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

    pub(crate) fn is_bool(&self) -> bool {
        self.dtype() == DType::Bool
    }
}
