//! Making tensors.

use super::{DType, Element, Error, Layout, Result, Shape, Storage, Tensor};
use super::{match_bits, match_float, with_room};
use crate::exec::copy::Copying;
use crate::exec::launch_one;
use crate::ops::operation::Spec;
use extensor_kernels::cast::{round_bf16, round_f16};
use extensor_kernels::native::Compute;
use half::{bf16, f16};

/// Numbers that a tensor can be made from: a scalar, an array of arrays to any depth, a vector or a
/// slice.
pub trait Data {
    /// The type of the numbers.
    type Element: Element;
    /// The shape they have.
    fn shape(&self) -> Shape;
    /// Appends them in row-major order.
    fn extend(&self, values: &mut Vec<Self::Element>);
}

macro_rules! scalar_data {
    ($($t:ty),*) => {$(
        impl Data for $t {
            type Element = $t;
            fn shape(&self) -> Shape {
                Shape::scalar()
            }
            fn extend(&self, values: &mut Vec<$t>) {
                values.push(*self);
            }
        }
    )*};
}

scalar_data!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64);

impl<D: Data + FixedShape, const N: usize> Data for [D; N] {
    type Element = D::Element;
    fn shape(&self) -> Shape {
        <Self as FixedShape>::fixed_shape()
    }
    fn extend(&self, values: &mut Vec<D::Element>) {
        self.iter().for_each(|d| d.extend(values));
    }
}

impl<D: Data + FixedShape> Data for Vec<D> {
    type Element = D::Element;
    fn shape(&self) -> Shape {
        self[..].shape()
    }
    fn extend(&self, values: &mut Vec<D::Element>) {
        self[..].extend(values);
    }
}

impl<D: Data + FixedShape> Data for [D] {
    type Element = D::Element;
    fn shape(&self) -> Shape {
        let mut shape = D::fixed_shape();
        shape.insert(0, self.len());
        shape
    }
    fn extend(&self, values: &mut Vec<D::Element>) {
        values.reserve(self.len());
        self.iter().for_each(|part| part.extend(values));
    }
}

impl<D: Data + ?Sized> Data for &D {
    type Element = D::Element;
    fn shape(&self) -> Shape {
        (**self).shape()
    }
    fn extend(&self, values: &mut Vec<D::Element>) {
        (**self).extend(values);
    }
}

/// A type all of whose values have one shape: nested arrays cannot be ragged.
pub trait FixedShape {
    /// That shape.
    fn fixed_shape() -> Shape;
}

macro_rules! fixed_scalar {
    ($($t:ty),*) => {$(
        impl FixedShape for $t {
            fn fixed_shape() -> Shape {
                Shape::scalar()
            }
        }
    )*};
}

fixed_scalar!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64);

impl<D: FixedShape, const N: usize> FixedShape for [D; N] {
    fn fixed_shape() -> Shape {
        let mut shape = D::fixed_shape();
        shape.insert(0, N);
        shape
    }
}

/// A tensor of the given numbers: a scalar, nested arrays, a slice or a vector of those.
///
/// ```
/// use extensor::tensor;
///
/// assert_eq!(tensor(2.5).shape(), []);
/// assert_eq!(tensor([[1, 2, 3], [4, 5, 6]]).shape(), [2, 3]);
/// assert_eq!(tensor(vec![true, false]).shape(), [2]);
/// assert_eq!(tensor(vec![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).shape(), [3, 2]);
/// ```
pub fn tensor<D: Data>(data: D) -> Tensor {
    let mut values = Vec::new();
    data.extend(&mut values);
    Tensor::from_storage(Storage::from_vec(values), data.shape(), D::Element::DTYPE)
}

impl Tensor {
    /// A tensor that takes over the vector's memory, without copying it.
    ///
    /// ```
    /// let x = extensor::Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(x.shape(), [2, 2]);
    /// assert!(extensor::Tensor::from_vec(vec![1.0f32], [2, 2]).is_err());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn from_vec<E: Element>(values: Vec<E>, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        expect_length("from_vec", values.len(), &shape)?;
        Ok(Self::from_storage(Storage::from_vec(values), shape, E::DTYPE))
    }

    /// A tensor with a copy of the values.
    pub fn from_slice<E: Element>(values: &[E], shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        expect_length("from_slice", values.len(), &shape)?;
        let mut copy = with_room("from_slice", values.len())?;
        copy.extend_from_slice(values);
        Self::from_vec(copy, shape)
    }

    /// A scalar: a tensor without dimensions.
    pub fn scalar<E: Element>(value: E) -> Tensor {
        Self::from_storage(Storage::from_vec(vec![value]), Shape::scalar(), E::DTYPE)
    }

    /// The number `value` as a scalar of this dtype, rounded to it.
    ///
    /// Whole-number types refuse a value they cannot hold exactly.
    pub fn scalar_of(value: f64, dtype: DType) -> Result<Tensor> {
        Self::full(Shape::scalar(), value, dtype)
    }

    /// All zeros (false).
    pub fn zeros(shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        let shape = shape.into();
        let len = shape.count("zeros")?;
        let storage = match_bits!(dtype, T => Storage::zeroed::<T>("zeros", len)?);
        Ok(Self::from_storage(storage, shape, dtype))
    }

    /// All ones (true).
    pub fn ones(shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        Self::full_in("ones", shape.into(), 1.0, dtype)
    }

    /// Every element is `value`.
    ///
    /// ```
    /// use extensor::{DType, Tensor};
    /// let x = Tensor::full([2, 3], 0.5, DType::F16)?;
    /// assert_eq!(x.to_vec::<half::f16>()?, vec![half::f16::from_f32(0.5); 6]);
    /// assert!(Tensor::full([2], 0.5, DType::I32).is_err());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn full(shape: impl Into<Shape>, value: f64, dtype: DType) -> Result<Tensor> {
        Self::full_in("full", shape.into(), value, dtype)
    }

    fn full_in(op: &'static str, shape: Shape, value: f64, dtype: DType) -> Result<Tensor> {
        let bits = bits_of(op, value, dtype)?;
        match_bits!(dtype, T => Tensor::build(op, shape, dtype, |out: &mut [T]| out.fill(bits as T)))
    }

    /// Zeros of the shape and dtype of `self`.
    pub fn zeros_like(&self) -> Result<Tensor> {
        Self::zeros(self.shape().clone(), self.dtype())
    }

    /// Ones of the shape and dtype of `self`.
    pub fn ones_like(&self) -> Result<Tensor> {
        Self::ones(self.shape().clone(), self.dtype())
    }

    /// `value` everywhere, in the shape and dtype of `self`.
    pub fn full_like(&self, value: f64) -> Result<Tensor> {
        Self::full(self.shape().clone(), value, self.dtype())
    }

    /// One value of memory seen as a tensor of any shape: a zero that costs nothing.
    pub(crate) fn constant(value: f64, shape: &Shape, dtype: DType) -> Result<Tensor> {
        let scalar = Self::scalar_of(value, dtype)?;
        shape.count("constant")?;
        let strides = smallvec::SmallVec::from_elem(0, shape.len());
        Ok(scalar.with_layout(Layout { shape: shape.clone(), strides, offset: 0 }))
    }

    /// `start, start + step, …` up to but not including `stop`.
    ///
    /// ```
    /// use extensor::{DType, Tensor};
    /// assert_eq!(Tensor::arange(0.0, 5.0, 2.0, DType::I64)?.to_vec::<i64>()?, [0, 2, 4]);
    /// assert_eq!(Tensor::arange(1.0, 0.0, -0.5, DType::F64)?.to_vec::<f64>()?, [1.0, 0.5]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn arange(start: f64, stop: f64, step: f64, dtype: DType) -> Result<Tensor> {
        let op = "arange";
        let bad = |parameter, expected: &str, got: f64| Error::Parameter {
            op,
            parameter,
            expected: expected.into(),
            got: got.to_string(),
        };
        if step == 0.0 || !step.is_finite() {
            return Err(bad("step", "a finite number other than 0", step));
        }
        if !start.is_finite() {
            return Err(bad("start", "a finite number", start));
        }
        if !stop.is_finite() {
            return Err(bad("stop", "a finite number", stop));
        }
        let len = ((stop - start) / step).ceil().max(0.0);
        if len > isize::MAX as f64 / 8.0 {
            return Err(bad("step", "a step that gives fewer elements", step));
        }
        Self::generate(op, Shape::from([len as usize]), dtype, |i| start + i as f64 * step)
    }

    /// `count` numbers evenly spaced from `start` to `stop`, both included.
    ///
    /// ```
    /// use extensor::{DType, Tensor};
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 5, DType::F64)?.to_vec::<f64>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn linspace(start: f64, stop: f64, count: usize, dtype: DType) -> Result<Tensor> {
        dtype.expect_float("linspace", "the result")?;
        let last = count.saturating_sub(1) as f64;
        // Measured from the nearer end, so that both ends are exact.
        Self::generate("linspace", Shape::from([count]), dtype, |i| {
            let i = i as f64;
            match last {
                0.0 => start,
                _ if 2.0 * i <= last => start + (stop - start) * (i / last),
                _ => stop - (stop - start) * ((last - i) / last),
            }
        })
    }

    /// Ones on the diagonal of a `rows` × `columns` matrix, zeros elsewhere.
    pub fn eye(rows: usize, columns: usize, dtype: DType) -> Result<Tensor> {
        let shape = Shape::from([rows, columns]);
        Self::generate("eye", shape, dtype, |i| f64::from(u8::from(i / columns == i % columns)))
    }

    /// `count` whole numbers: `f(0)`, `f(1)` and so on.
    ///
    /// ```
    /// let x = extensor::Tensor::whole_numbers("squares", 4, |i| (i * i) as i64)?;
    /// assert_eq!(x.to_vec::<i64>()?, [0, 1, 4, 9]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn whole_numbers(
        op: &'static str,
        count: usize,
        f: impl Fn(usize) -> i64,
    ) -> Result<Tensor> {
        Self::build(op, Shape::from([count]), DType::I64, |out: &mut [i64]| {
            out.iter_mut().enumerate().for_each(|(i, o)| *o = f(i));
        })
    }

    /// A tensor whose element number `i`, in row-major order, is `f(i)`.
    pub(crate) fn generate(
        op: &'static str,
        shape: Shape,
        dtype: DType,
        f: impl Fn(usize) -> f64,
    ) -> Result<Tensor> {
        match_float!(dtype, T => Self::build(op, shape, dtype, |out: &mut [T]| {
            out.iter_mut().enumerate().for_each(|(i, o)| *o = from_f64::<T>(f(i)));
        }), else {
            let len = shape.count(op)?;
            for i in [0, len.saturating_sub(1)] {
                if len > 0 {
                    exact_integer(op, f(i).trunc(), dtype)?;
                }
            }
            match_bits!(dtype, T => Self::build(op, shape, dtype, |out: &mut [T]| {
                out.iter_mut().enumerate().for_each(|(i, o)| *o = f(i) as i128 as T);
            }))
        })
    }

    /// The same values in new memory in row-major order, or `self` if they already are.
    pub fn contiguous(&self) -> Result<Tensor> {
        // How a tensor lies in memory is no concern of those who differentiate it.
        if self.is_contiguous() || self.is_traced() {
            return Ok(self.clone());
        }
        self.copied()
    }

    /// The same values in new memory of their own, in row-major order. A tensor that is being
    /// differentiated is returned as it is, as by [`contiguous`](Self::contiguous), and keeps its
    /// gradient.
    pub fn copied(&self) -> Result<Tensor> {
        if self.is_traced() {
            return Ok(self.clone());
        }
        let spec = Spec { shape: self.shape().clone(), dtype: self.dtype() };
        launch_one("copied", &Copying::Whole, &[self], spec)
    }
}

/// Rounds to the storage type of a float dtype.
#[inline]
pub(crate) fn from_f64<T: FromF64>(x: f64) -> T {
    T::from_f64(x)
}

/// A float type that a number is rounded to.
pub(crate) trait FromF64: Compute {
    fn from_f64(x: f64) -> Self;
}

impl FromF64 for f16 {
    fn from_f64(x: f64) -> f16 {
        round_f16(x)
    }
}
impl FromF64 for bf16 {
    fn from_f64(x: f64) -> bf16 {
        round_bf16(x)
    }
}
impl FromF64 for f32 {
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
}
impl FromF64 for f64 {
    fn from_f64(x: f64) -> f64 {
        x
    }
}

/// The bits of the number `value` as an element of this dtype, rounded to it; whole-number types
/// refuse a value they cannot hold exactly.
pub(crate) fn bits_of(op: &'static str, value: f64, dtype: DType) -> Result<u64> {
    Ok(match dtype {
        DType::F16 => from_f64::<f16>(value).to_bits().into(),
        DType::BF16 => from_f64::<bf16>(value).to_bits().into(),
        DType::F32 => from_f64::<f32>(value).to_bits().into(),
        DType::F64 => value.to_bits(),
        _ => exact_integer(op, value, dtype)? as u64,
    })
}

/// An error unless `got` values fill the shape.
fn expect_length(op: &'static str, got: usize, shape: &Shape) -> Result<()> {
    let expected = shape.count(op)?;
    if got == expected {
        return Ok(());
    }
    Err(Error::Length { op, shape: shape.clone(), expected, got })
}

/// The integer `value`, if the dtype can hold it.
fn exact_integer(op: &'static str, value: f64, dtype: DType) -> Result<i128> {
    let (low, high) = dtype.integer_range();
    // Beyond 2¹²⁷ the conversion saturates, which is out of range all the same.
    let integer = value as i128;
    if value.trunc() == value && (low..=high).contains(&integer) {
        return Ok(integer);
    }
    Err(Error::Parameter {
        op,
        parameter: "value",
        expected: format!("a whole number that {dtype} can hold"),
        got: format!("{value:?}"),
    })
}
