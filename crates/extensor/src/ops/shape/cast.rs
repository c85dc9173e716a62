//! From one dtype to another.

use crate::exec::cast::Cast as Numbers;
use crate::exec::launch;
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::samples::SHAPES;
use crate::ops::shape::required;
use crate::{DType, Error, Result, Tensor};
use extensor_derive::method;
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
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        if inputs[0].dtype() == self.dtype {
            return Ok(smallvec![inputs[0].clone()]);
        }
        launch("cast", &Numbers, &[inputs[0]], specs)
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
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Cast { dtype: self.dtype })
    }
}
