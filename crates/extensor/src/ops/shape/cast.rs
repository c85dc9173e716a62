//! From one dtype to another.

use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::samples::SHAPES;
use crate::ops::shape::required;
use crate::{DType, Error, Result, Tensor};
use extensor_derive::method;
use extensor_kernels::cast::{Read, Target, Truth, cast as convert, reader};
use extensor_kernels::native::Native;
use half::{bf16, f16};
use smallvec::smallvec;

/// The numbers in another dtype, rounded once; `x` itself if it has the dtype already.
///
/// - to a float type: to the nearest value, ties to even; beyond the largest, infinity;
/// - from a float to a whole-number type: towards 0, what does not fit to the nearest end of the
///   type's range, NaN to 0 (as Rust's `as` does);
/// - between whole-number types: the low bits (300 to `u8` is 44, −1 is 255);
/// - to bool: whether the number is not 0; from bool: 0 and 1.
///
/// Only a cast from float to float has a derivative.
///
/// Domain: from a float type to a float type, for a derivative.
/// Conventions: rounds once, to nearest even; float to whole number: towards 0 and saturating, NaN to
/// 0; whole number to whole number: the low bits; to bool: not 0.
///
/// ```
/// use extensor::ops::cast;
/// use extensor::{DType, tensor};
/// let x = tensor([1.9, -1.9, 300.0, f64::NAN]);
/// assert_eq!(cast(&x, DType::I8)?.to_vec::<i8>()?, [1, -1, 127, 0]);
/// assert_eq!(cast(&x, DType::Bool)?.to_vec::<bool>()?, [true; 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    apply_one(&Cast { dtype }, &[x])
}

/// The gradient of [`cast`]: `grad_output` in the dtype of the input.
#[track_caller]
#[extensor_derive::noted]
pub fn cast_backward(grad_output: &Tensor, input_dtype: DType) -> Result<Tensor> {
    let x = placeholder(grad_output.shape(), input_dtype)?;
    let dtype = grad_output.dtype();
    let [grad] = backward_of(&Cast { dtype }, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    dtype: DType,
}

impl Cast {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "cast",
        family: Family::Shape,
        formula: "y = x in another dtype",
        derivative: "g in the dtype of x",
        domain: "from a float type to a float type, for a derivative",
        conventions: "rounds once, to nearest even; float to whole number: towards 0 and saturating, \
                      NaN to 0; whole number to whole number: the low bits; to bool: not 0",
        backward: signature!(cast_backward(grad_output, dtype(x))),
        params: &[required("dtype", "the name of a dtype")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let dtype = p.dtype("cast", "dtype")?;
            Ok(Box::new(Cast { dtype }))
        },
        samples: |s| {
            for shape in SHAPES {
                let x = s.normal(shape);
                s.add([x], Params::new().with("dtype", "f64"));
            }
            for dtype in ["f32", "f16", "bf16"] {
                let x = s.normal(&[3, 4]);
                s.add_noted([x], Params::new().with("dtype", dtype), "rounding");
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2], DType::F64);
            let params = Params::new().with("dtype", "f31");
            let message = "dtype is \"f31\", expected the name of a dtype";
            bad.add([x.clone()], params, message);
            bad.add([x], Params::new(), "dtype is None, expected the name");
        },
        ..Record::BLANK
    };
}

impl Operation for Cast {
    fn record(&self) -> &'static Record {
        Cast::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        Ok(spec(inputs[0].shape().clone(), self.dtype))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let x = inputs[0];
        Ok(smallvec![match (x.dtype(), self.dtype) {
            (from, to) if from == to => Ok(x.clone()),
            (DType::F16, to) if to.is_float() => real(x, to, &reader::<f16, f32>(x.view())),
            (DType::BF16, to) if to.is_float() => real(x, to, &reader::<bf16, f32>(x.view())),
            (DType::F32, to) if to.is_float() => real(x, to, &reader::<f32, f32>(x.view())),
            (DType::F16, to) => from_f64(x, to, &reader::<f16, f64>(x.view())),
            (DType::BF16, to) => from_f64(x, to, &reader::<bf16, f64>(x.view())),
            (DType::F32, to) => from_f64(x, to, &reader::<f32, f64>(x.view())),
            (DType::F64, to) => from_f64(x, to, &reader::<f64, f64>(x.view())),
            (DType::Bool, to) => whole(x, to, &reader::<Truth, i64>(x.view())),
            (DType::I8, to) => whole(x, to, &reader::<i8, i64>(x.view())),
            (DType::I16, to) => whole(x, to, &reader::<i16, i64>(x.view())),
            (DType::I32, to) => whole(x, to, &reader::<i32, i64>(x.view())),
            (DType::I64, to) => whole(x, to, &reader::<i64, i64>(x.view())),
            (DType::U8, to) => whole(x, to, &reader::<u8, i64>(x.view())),
            (DType::U16, to) => whole(x, to, &reader::<u16, i64>(x.view())),
            (DType::U32, to) => whole(x, to, &reader::<u32, i64>(x.view())),
            (DType::U64, to) => whole(x, to, &reader::<u64, u64>(x.view())),
        }?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        if call.wanted[0] && !self.dtype.is_float() {
            return Err(Error::NotDifferentiable {
                op: "cast",
                argument: "x".into(),
                reason: "the result is not of a float dtype",
            });
        }
        call.one(|| cast(call.grad(), call.inputs[0].dtype()))
    }
}

/// A tensor like `x` of the numbers read, in the given dtype, whose elements are of type `T`.
fn write<W: Native, T: Target<W>>(x: &Tensor, dtype: DType, read: &dyn Read<W>) -> Result<Tensor> {
    let shape = x.shape().clone();
    Tensor::build("cast", shape, dtype, |out: &mut [T]| convert(read, out))
}

/// From a float type that `f32` holds to any float type.
fn real(x: &Tensor, dtype: DType, read: &dyn Read<f32>) -> Result<Tensor> {
    match dtype {
        DType::F16 => write::<f32, f16>(x, dtype, read),
        DType::BF16 => write::<f32, bf16>(x, dtype, read),
        DType::F32 => write::<f32, f32>(x, dtype, read),
        _ => write::<f32, f64>(x, dtype, read),
    }
}

/// From any float type to a narrower one, to a whole-number type or to bool.
fn from_f64(x: &Tensor, dtype: DType, read: &dyn Read<f64>) -> Result<Tensor> {
    match dtype {
        DType::Bool => write::<f64, Truth>(x, dtype, read),
        DType::I8 => write::<f64, i8>(x, dtype, read),
        DType::I16 => write::<f64, i16>(x, dtype, read),
        DType::I32 => write::<f64, i32>(x, dtype, read),
        DType::I64 => write::<f64, i64>(x, dtype, read),
        DType::U8 => write::<f64, u8>(x, dtype, read),
        DType::U16 => write::<f64, u16>(x, dtype, read),
        DType::U32 => write::<f64, u32>(x, dtype, read),
        DType::U64 => write::<f64, u64>(x, dtype, read),
        DType::F16 => write::<f64, f16>(x, dtype, read),
        DType::BF16 => write::<f64, bf16>(x, dtype, read),
        DType::F32 => write::<f64, f32>(x, dtype, read),
        DType::F64 => write::<f64, f64>(x, dtype, read),
    }
}

/// From a whole-number type to any other: the low bits of one that is no wider are the same for
/// signed and unsigned.
fn whole<W: Native>(x: &Tensor, dtype: DType, read: &dyn Read<W>) -> Result<Tensor>
where
    Truth: Target<W>,
    u8: Target<W>,
    u16: Target<W>,
    u32: Target<W>,
    u64: Target<W>,
    f16: Target<W>,
    bf16: Target<W>,
    f32: Target<W>,
    f64: Target<W>,
{
    match dtype {
        DType::Bool => write::<W, Truth>(x, dtype, read),
        DType::I8 | DType::U8 => write::<W, u8>(x, dtype, read),
        DType::I16 | DType::U16 => write::<W, u16>(x, dtype, read),
        DType::I32 | DType::U32 => write::<W, u32>(x, dtype, read),
        DType::I64 | DType::U64 => write::<W, u64>(x, dtype, read),
        DType::F16 => write::<W, f16>(x, dtype, read),
        DType::BF16 => write::<W, bf16>(x, dtype, read),
        DType::F32 => write::<W, f32>(x, dtype, read),
        DType::F64 => write::<W, f64>(x, dtype, read),
    }
}
