//! Running logarithms of sums of exponentials.

use crate::exec::launch;
use crate::exec::reduce::Scan;
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_unary, map_real};
use crate::ops::record::{Class, Family, Parameter, Record, signature};
use crate::ops::reduction::{Recurrence, neighbours};
use crate::tensor::axis_index;
use crate::{DType, Result, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::smallvec;

/// `yᵢ = ln(eˣ⁰ + … + eˣⁱ)` along an axis.
///
/// The largest so far is subtracted, so that nothing overflows; the sum so far is kept in more precision
/// than the results, as with [`cumsum`](crate::ops::cumsum).
///
/// Conventions: of infinities of one sign the last has the whole gradient.
///
/// ```
/// use extensor::ops::logcumsumexp;
/// use extensor::tensor;
/// let y = logcumsumexp(&tensor([1000.0, 1000.0, -1000.0]), 0)?;
/// assert_eq!(y.to_vec::<f64>()?, [1000.0, 1000.0 + 2f64.ln(), 1000.0 + 2f64.ln()]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn logcumsumexp(x: &Tensor, axis: i64) -> Result<Tensor> {
    apply_one(&LogCumsumExp { axis }, &[x])
}

/// The gradient of [`logcumsumexp`]: for each element the sum of `grad_output` times its share in the
/// sums that it is in. It is computed in `f64`, since a large `y` has a rounding error of many units in
/// an exponent.
#[track_caller]
#[extensor_derive::noted]
pub fn logcumsumexp_backward(grad_output: &Tensor, x: &Tensor, axis: i64) -> Result<Tensor> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&LogCumsumExp { axis }, grad_output, &[x], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LogCumsumExp {
    axis: i64,
}

impl LogCumsumExp {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "logcumsumexp",
        family: Family::Reduction,
        formula: "yᵢ = ln(eˣ⁰ + … + eˣⁱ)",
        derivative: "xⱼ′ = Σ yᵢ′ · e^(xⱼ − yᵢ) over i >= j",
        conventions: "of infinities of one sign the last has the whole gradient",
        params: &[Parameter {
            name: "axis",
            what: "an axis, negative if counted from the end",
            default: None,
        }],
        backward: signature!(logcumsumexp_backward(grad_output, x; axis)),
        class: Class::Composite,
        build: |p| Ok(Box::new(LogCumsumExp { axis: p.int("logcumsumexp", "axis")? })),
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
            let axis = |axis: i64| Params::new().with("axis", axis);
            for (shape, along) in cases {
                let x = s.normal(shape);
                s.add([x], axis(along));
            }
            let x = s.normal(&[3, 5000]);
            s.add_large([x], axis(1), "many numbers");
            let x = crate::tensor([1000.0, 1001.0, -1000.0, 1000.5]);
            s.add_noted([x], axis(0), "large");
            let x = crate::tensor([-3.0, 4.0, -5.0, 4.5]);
            s.add_noted([x], axis(0), "far apart");
        },
        errors: |bad| {
            let axis = |axis: i64| Params::new().with("axis", axis);
            let x = bad.ones(&[2, 3], DType::F64);
            bad.add([x.clone()], axis(2), "axis 2 is out of range for 2 dimensions");
            bad.add([x], Params::new(), "axis is None, expected a whole number");
            let ints = bad.ones(&[2], DType::I32);
            bad.add([ints], axis(0), "x has dtype i32, expected a float type");
        },
        ..Record::BLANK
    };

    /// The axis, and the shares of each element and of all before it in its sum: `e^(xᵢ − yᵢ)` and
    /// `e^(yᵢ₋₁ − yᵢ)`, in `f64`. Both are at most 1.
    fn shares(&self, x: &Tensor) -> Result<(usize, [Tensor; 2])> {
        let op = "logcumsumexp_backward";
        let axis = axis_index(op, self.axis, x.ndim())?;
        let x = ops::cast(x, DType::F64)?;
        let y = logcumsumexp(&x, self.axis)?;
        let before = neighbours(&y, axis, false, f64::NEG_INFINITY)?;
        let spec = || Spec { shape: x.shape().clone(), dtype: DType::F64 };
        let own = map_real(op, &Formulas(Own), [&x, &y], spec())?;
        let rest = map_real(op, &Formulas(Rest), [&before, &x, &y], spec())?;
        Ok((axis, [own, rest]))
    }
}

/// `e^(x − y)`, 1 where both are the same infinity.
#[derive(Clone)]
struct Own;

impl Formula<2> for Own {
    #[inline(always)]
    fn f<R: Real>(&self, [x, y]: [R; 2]) -> R {
        let same = x.eq(y) & !y.is_finite();
        R::select(same, x.lit(0.0), x - y).exp()
    }
}

/// `e^(before − y)`; where both are the same infinity 1, or 0 if `x` is that too.
#[derive(Clone)]
struct Rest;

impl Formula<3> for Rest {
    #[inline(always)]
    fn f<R: Real>(&self, [before, x, y]: [R; 3]) -> R {
        let infinite = !y.is_finite();
        let nothing = y.lit(f64::NEG_INFINITY);
        let same = R::select(before.eq(y) & infinite, y.lit(0.0), before - y);
        R::select(x.eq(y) & infinite, nothing, same).exp()
    }
}

impl Operation for LogCumsumExp {
    fn record(&self) -> &'static Record {
        LogCumsumExp::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        axis_index("logcumsumexp", self.axis, inputs[0].ndim())?;
        infer_unary("logcumsumexp", inputs[0], Takes::Floats)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (op, x) = ("logcumsumexp", inputs[0]);
        let axis = axis_index(op, self.axis, x.ndim())?;
        launch(op, &Scan::LogSums { axis }, &[x], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, x) = (call.grad(), call.inputs[0]);
        // xⱼ′ = e^(xⱼ − yⱼ) · sⱼ with sⱼ = gⱼ + e^(yⱼ − yⱼ₊₁)·sⱼ₊₁.
        call.one(|| {
            let (axis, [own, rest]) = self.shares(x)?;
            let after = neighbours(&rest, axis, true, 0.0)?;
            let g = ops::cast(g, DType::F64)?;
            let sums = Recurrence { axis, reverse: true, cut: true };
            let grad = ops::multiply(&own, &apply_one(&sums, &[&after, &g])?)?;
            ops::cast(&grad, x.dtype())
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        // yᵢ′ = e^(xᵢ − yᵢ)·xᵢ′ + e^(yᵢ₋₁ − yᵢ)·yᵢ₋₁′.
        let (axis, [own, rest]) = self.shares(x)?;
        let own = ops::multiply(&own, &ops::cast(tangent, DType::F64)?)?;
        let sums = Recurrence { axis, reverse: false, cut: true };
        let along = apply_one(&sums, &[&rest, &own])?;
        Ok(smallvec![ops::cast(&along, y.dtype())?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let axis = axis_index("logcumsumexp", self.axis, inputs[0].ndim());
        axis.map_or(1, |axis| inputs[0].shape()[axis])
    }
}
