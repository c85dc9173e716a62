//! The gated linear unit: one half, as far as the other lets it through.

use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::map_real;
use crate::ops::record::{Class, Family, Parameter, Record, signature};
use crate::tensor::axis_index;
use crate::{DType, Error, Result, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::smallvec;

/// The gated linear unit, `y = a·σ(b)`: of the two halves `a` and `b` of `x` along `axis` the first, times the
/// logistic function `σ(b) = 1/(1 + e⁻ᵇ)` of the second.
///
/// ```
/// let y = extensor::tensor([3.0, -2.0, 0.0, 1e4]).glu(-1)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.5, -2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn glu(x: &Tensor, axis: i64) -> Result<Tensor> {
    apply_one(&Glu { axis }, &[x])
}

/// The gradient of [`glu`]: `g·σ(b)` for the first half, and `g·a·σ(b)·σ(−b)` for the second.
#[track_caller]
#[extensor_derive::noted]
pub fn glu_backward(grad_output: &Tensor, x: &Tensor, axis: i64) -> Result<Tensor> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Glu { axis }, grad_output, &[x], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Glu {
    axis: i64,
}

#[derive(Clone, Copy)]
struct Value;

impl Formula<2> for Value {
    #[inline(always)]
    fn f<R: Real>(&self, [a, b]: [R; 2]) -> R {
        a * b.sigmoid()
    }
}

/// The gradient for the first half, or for the second.
#[derive(Clone, Copy)]
struct Slope<const SECOND: bool>;

impl<const SECOND: bool> Formula<3> for Slope<SECOND> {
    #[inline(always)]
    fn f<R: Real>(&self, [g, a, b]: [R; 3]) -> R {
        if SECOND { g.times(a * (b.sigmoid() * (-b).sigmoid())) } else { g * b.sigmoid() }
    }
}

/// How the value moves along tangents of both halves.
#[derive(Clone, Copy)]
struct Along;

impl Formula<4> for Along {
    #[inline(always)]
    fn f<R: Real>(&self, [da, db, a, b]: [R; 4]) -> R {
        let step = b.sigmoid();
        da * step + db.times(a * (step * (-b).sigmoid()))
    }
}

impl Glu {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "glu",
        family: Family::Activation,
        formula: "y = u/(1 + e^(−v)) for the halves u and v of x",
        derivative: "(1/(1 + e^(−v)), u·e^(−v)/(1 + e^(−v))²)",
        params: &[Parameter { name: "axis", what: "the axis that is halved", default: Some("-1") }],
        backward: signature!(glu_backward(grad_output, x; axis)),
        class: Class::Composite,
        build: |p| Ok(Box::new(Glu { axis: p.optional_int("glu", "axis")?.unwrap_or(-1) })),
        samples: |s| {
            let cases: [(&[usize], i64); 7] = [
                (&[6], -1),
                (&[3, 4], 1),
                (&[4, 3], 0),
                (&[2, 2, 3], -2),
                (&[0, 2], 1),
                (&[3, 0], 1),
                (&[2], 0),
            ];
            for (shape, axis) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("axis", axis));
            }
            let x = s.normal(&[330, 200]);
            s.add_large([x], Params::new(), "many numbers");
            let x = crate::tensor([[3.0, -2.0, 500.0, -500.0], [0.0, -0.0, 40.0, -40.0]]);
            s.add_far([x], Params::new(), "saturated");
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let axis = |axis: i64| Params::new().with("axis", axis);
            bad.add([x.clone()], axis(1), "x has shape [2, 3], expected an even size along axis 1");
            bad.add([x], axis(2), "axis 2 is out of range for 2 dimensions");
            let scalar = bad.ones(&[], DType::F64);
            bad.add([scalar], axis(0), "axis 0 is out of range for 0");
            let whole = bad.ones(&[2], DType::I64);
            bad.add([whole], axis(0), "x has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };

    /// Both halves, as views.
    fn halves(self, x: &Tensor) -> Result<[Tensor; 2]> {
        let axis = axis_index("glu", self.axis, x.ndim())?;
        let half = (x.shape()[axis] / 2) as i64;
        let axis = axis as i64;
        Ok([ops::slice(x, axis, 0, half, 1)?, ops::slice(x, axis, half, 2 * half, 1)?])
    }
}

impl Operation for Glu {
    fn record(&self) -> &'static Record {
        Glu::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("glu", inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let axis = axis_index(op, self.axis, x.ndim())?;
        let size = x.shape()[axis];
        if !size.is_multiple_of(2) {
            let expected = format!("an even size along axis {axis}");
            return Err(Error::Shape { op, argument: "x", expected, got: x.shape().clone() });
        }
        let mut shape = x.shape().clone();
        shape.set(axis, size / 2);
        Ok(spec(shape, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let [a, b] = self.halves(inputs[0])?;
        Ok(smallvec![map_real("glu", &Formulas(Value), [&a, &b], specs.swap_remove(0))?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, name) = (call.grad(), "glu_backward");
        let [a, b] = self.halves(call.inputs[0])?;
        let spec = || Spec { shape: g.shape().clone(), dtype: g.dtype() };
        call.one(|| {
            let first = map_real(name, &Formulas(Slope::<false>), [g, &a, &b], spec())?;
            let second = map_real(name, &Formulas(Slope::<true>), [g, &a, &b], spec())?;
            ops::concatenate(&[first, second], self.axis)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let y = call.outputs[0];
        let Some(tangent) = call.tangents[0] else {
            return Ok(smallvec![y.zeros_like()?]);
        };
        let ([a, b], [da, db]) = (self.halves(call.inputs[0])?, self.halves(tangent)?);
        let spec = Spec { shape: y.shape().clone(), dtype: y.dtype() };
        Ok(smallvec![map_real("glu", &Formulas(Along), [&da, &db, &a, &b], spec)?])
    }
}
