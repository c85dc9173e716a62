//! Running sums.

use crate::exec::launch;
use crate::exec::reduce::Scan;
use crate::ops::batching::{Batch, Batched, shifted};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_unary};
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::tensor::axis_index;
use crate::{DType, Result, Tensor};
use extensor_derive::method;

/// `yᵢ = x₀ + … + xᵢ` along an axis.
///
/// The sum so far is kept in more precision than the results: `f64` for narrower types, `f64` with
/// its rounding errors for `f64`. Whole numbers wrap around.
///
/// Conventions: whole numbers wrap around.
///
/// ```
/// use extensor::ops::cumsum;
/// use extensor::tensor;
/// let y = cumsum(&tensor([[1, 2, 3], [4, 5, 6]]), 1)?;
/// assert_eq!(y.to_vec::<i32>()?, [1, 3, 6, 4, 9, 15]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cumsum(x: &Tensor, axis: i64) -> Result<Tensor> {
    let reverse = false;
    apply_one(&Cumsum { axis, reverse }, &[x])
}

/// The gradient of [`cumsum`]: the running sum of `grad_output` from the other end.
#[track_caller]
#[extensor_derive::noted]
pub fn cumsum_backward(grad_output: &Tensor, axis: i64) -> Result<Tensor> {
    let reverse = false;
    let x = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Cumsum { axis, reverse }, grad_output, &[&x], &x)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cumsum {
    axis: i64,
    /// From the last element to the first: what its gradient is.
    reverse: bool,
}

impl Cumsum {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "cumsum",
        family: Family::Reduction,
        formula: "yᵢ = x₀ + … + xᵢ",
        derivative: "xᵢ′ = yᵢ′ + … + yₙ′",
        conventions: "whole numbers wrap around",
        params: &[Parameter {
            name: "axis",
            what: "an axis, negative if counted from the end",
            default: None,
        }],
        backward: signature!(cumsum_backward(grad_output; axis)),
        class: Class::Affine,
        needs: Needs::Shapes,
        build: |p| {
            let axis = p.int("cumsum", "axis")?;
            let reverse = false;
            Ok(Box::new(Cumsum { axis, reverse }))
        },
        samples: |s| {
            let cases: [(&[usize], i64); 8] = [
                (&[5], 0),
                (&[3, 4], 0),
                (&[3, 4], 1),
                (&[2, 3, 4], -2),
                (&[2, 3, 4], 0),
                (&[1], 0),
                (&[0, 3], 0),
                (&[3, 0], 0),
            ];
            for (shape, axis) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("axis", axis));
            }
        },
        errors: |bad| {
            let axis = |axis: i64| Params::new().with("axis", axis);
            let x = bad.ones(&[2, 3], DType::F64);
            let message = "axis 2 is out of range for 2 dimensions";
            bad.add([x.clone()], axis(2), message);
            let message = "axis is None, expected a whole number";
            bad.add([x], Params::new(), message);
            let scalar = bad.ones(&[], DType::F64);
            let message = "axis 0 is out of range for 0 dimensions";
            bad.add([scalar], axis(0), message);
            let mask = bad.ones(&[2], DType::Bool);
            let message = "x has dtype bool, expected a number type";
            bad.add([mask], axis(0), message);
        },
        ..Record::BLANK
    };
}

impl Operation for Cumsum {
    fn record(&self) -> &'static Record {
        Cumsum::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        axis_index("cumsum", self.axis, inputs[0].ndim())?;
        infer_unary("cumsum", inputs[0], Takes::Numbers)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        let axis = axis_index("cumsum", self.axis, x.ndim())?;
        launch("cumsum", &Scan::Sums { axis, reverse: self.reverse }, &[x], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let back = Cumsum { axis: self.axis, reverse: !self.reverse };
        call.one(|| apply_one(&back, &[call.grad()]))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Cumsum { axis: shifted(self.axis), ..*self })
    }
}
