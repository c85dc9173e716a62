//! The softmax over an axis, and its logarithm.

use crate::exec::launch_one;
use crate::exec::rows::Rows;
use crate::ops::batching::{Batch, Batched, shifted};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_unary};
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::ops::samples::{Bad, Sampler};
use crate::tensor::axis_index;
use crate::{DType, Result, Tensor, ops, over};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};
use std::fmt::Debug;

/// What is particular to one of the two.
pub(crate) trait Rule: Copy + Debug + Send + Sync + 'static {
    /// Its record.
    const RECORD: &'static Record;
    /// What it does to a row.
    const FORWARD: Rows;
    /// What its gradient does to the rows of the output's gradient and of the output.
    const BACKWARD: Rows;
    /// The name of its backward function.
    const BACKWARD_NAME: &'static str;
    /// The derivative along `tangent` where the output is `y`.
    fn along(&self, y: &Tensor, tangent: &Tensor, axis: i64) -> Result<Tensor>;
}

/// A [`Rule`] over an axis.
#[derive(Clone, Copy, Debug)]
struct Over<R> {
    rule: R,
    axis: i64,
}

/// The tensor with an axis moved to the end, in row-major order.
fn last(x: &Tensor, axis: usize) -> Result<Tensor> {
    if axis + 1 == x.ndim() {
        return x.contiguous();
    }
    let mut order: SmallVec<[i64; 6]> = (0..x.ndim() as i64).collect();
    order.remove(axis);
    order.push(axis as i64);
    ops::transpose(x, &order[..])?.contiguous()
}

/// The tensor with its last axis moved to position `axis`. A view.
fn back(x: &Tensor, axis: usize) -> Result<Tensor> {
    if axis + 1 == x.ndim() {
        return Ok(x.clone());
    }
    let mut order: SmallVec<[i64; 6]> = (0..x.ndim() as i64 - 1).collect();
    order.insert(axis, x.ndim() as i64 - 1);
    ops::transpose(x, &order[..])
}

/// Runs a kernel over the rows along an axis of tensors of one shape and dtype.
fn along_rows<const I: usize>(
    op: &'static str,
    kernel: Rows,
    inputs: [&Tensor; I],
    axis: usize,
) -> Result<Tensor> {
    let mut laid = inputs.map(Tensor::clone);
    for x in &mut laid {
        *x = last(x, axis)?;
    }
    let spec = Spec { shape: laid[0].shape().clone(), dtype: laid[0].dtype() };
    back(&launch_one(op, &kernel, &laid.each_ref(), spec)?, axis)
}

impl<R: Rule> Operation for Over<R> {
    fn record(&self) -> &'static Record {
        R::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        axis_index(R::RECORD.name, self.axis, inputs[0].ndim())?;
        infer_unary(R::RECORD.name, inputs[0], Takes::Floats)
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let (op, x) = (R::RECORD.name, inputs[0]);
        let axis = axis_index(op, self.axis, x.ndim())?;
        Ok(smallvec![along_rows(op, R::FORWARD, [x], axis)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, y) = (call.grad(), call.output());
        let axis = axis_index(R::BACKWARD_NAME, self.axis, g.ndim())?;
        call.one(|| along_rows(R::BACKWARD_NAME, R::BACKWARD, [g, y], axis))
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let y = call.outputs[0];
        Ok(smallvec![match call.tangents[0] {
            Some(tangent) => self.rule.along(y, tangent, self.axis)?,
            None => y.zeros_like()?,
        }])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let shape = inputs[0].shape();
        axis_index(R::RECORD.name, self.axis, shape.len()).map_or(1, |axis| shape[axis])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Over { axis: shifted(self.axis), ..*self })
    }
}

/// The backward function of either.
#[track_caller]
fn backward_at<R: Rule>(
    rule: R,
    grad_output: &Tensor,
    output: &Tensor,
    axis: i64,
) -> Result<Tensor> {
    let x = placeholder(output.shape(), output.dtype())?;
    let [grad] = backward_of(&Over { rule, axis }, grad_output, &[&x], output)?;
    Ok(grad)
}

/// The parameter `axis`.
const AXIS: Parameter = Parameter {
    name: "axis",
    what: "an axis, negative if counted from the end",
    default: Some("-1"),
};

fn build<R: Rule>(rule: R, params: &Params) -> Result<Box<dyn Operation>> {
    let axis = params.optional_int(R::RECORD.name, "axis")?.unwrap_or(-1);
    Ok(Box::new(Over { rule, axis }))
}

fn samples(s: &mut Sampler) {
    let axis = |axis: i64| Params::new().with("axis", axis);
    let cases: [(&[usize], i64); 10] = [
        (&[5], -1),
        (&[3, 4], -1),
        (&[3, 4], 0),
        (&[2, 3, 4], 1),
        (&[2, 3, 4], -3),
        (&[1], 0),
        (&[3, 1], 1),
        (&[2, 70], 1),
        (&[0, 4], 1),
        (&[4, 0], 1),
    ];
    for (shape, number) in cases {
        let x = s.uniform(-4.0, 4.0, shape);
        s.add([x], axis(number));
    }
    let many: [(&[usize], i64); 4] =
        [(&[2, 5000], 1), (&[5000, 2], 0), (&[700, 60], 1), (&[40, 1100], 1)];
    for (shape, number) in many {
        let x = s.uniform(-4.0, 4.0, shape);
        s.add_large([x], axis(number), "many numbers");
    }
    let x = s.normal(&[2, 6]);
    s.add_noted([x], Params::new(), "the default");
    let large = crate::tensor([[1000.0, 999.0, -1000.0], [-1e4, -1e4, -1e4]]);
    s.add_noted([large], axis(-1), "large logits");
}

fn errors(bad: &mut Bad) {
    let axis = |axis: i64| Params::new().with("axis", axis);
    let x = bad.ones(&[2, 3], DType::F64);
    bad.add([x.clone()], axis(2), "axis 2 is out of range for 2 dimensions");
    bad.add([x], Params::new().with("axis", 0.5), "axis is 0.5, expected a whole number");
    let scalar = bad.ones(&[], DType::F64);
    bad.add([scalar], axis(-1), "axis -1 is out of range for 0 dimensions");
    let ints = bad.ones(&[2], DType::I32);
    bad.add([ints], axis(0), "x has dtype i32, expected a float type");
}

/// `y = eˣ/Σ eˣ` along an axis, computed from the differences to the largest.
///
/// −∞ gives 0. A row whose largest number is infinite, of either sign, or that has a NaN, is NaN.
///
/// Conventions: −∞ gives 0; a row whose largest number is infinite, or that has a NaN, is NaN.
///
/// ```
/// use extensor::ops::softmax;
/// use extensor::tensor;
/// let y = softmax(&tensor([[1000.0, 1000.0], [0.0, 3f64.ln()]]), -1)?.to_vec::<f64>()?;
/// assert_eq!(y[..2], [0.5, 0.5]);
/// assert!((y[2] - 0.25).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn softmax(x: &Tensor, axis: i64) -> Result<Tensor> {
    apply_one(&Over { rule: Softmax, axis }, &[x])
}

/// The gradient of [`softmax`]: `y·(g − Σ g·y)`, from the output.
#[track_caller]
#[extensor_derive::noted]
pub fn softmax_backward(grad_output: &Tensor, output: &Tensor, axis: i64) -> Result<Tensor> {
    backward_at(Softmax, grad_output, output, axis)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax;

impl Rule for Softmax {
    const RECORD: &'static Record = &Record {
        name: "softmax",
        family: Family::Activation,
        formula: "y = eˣ/Σ eˣ",
        derivative: "x′ = y·(g − Σ g·y)",
        conventions: "−∞ gives 0; a row whose largest number is infinite, or that has a NaN, is NaN",
        params: &[AXIS],
        backward: signature!(softmax_backward(grad_output, output; axis)),
        class: Class::General,
        needs: Needs::Outputs,
        build: |p| build(Softmax, p),
        samples,
        errors,
        ..Record::BLANK
    };
    const FORWARD: Rows = Rows::Softmax;
    const BACKWARD: Rows = Rows::SoftmaxGradient;
    const BACKWARD_NAME: &'static str = "softmax_backward";

    fn along(&self, y: &Tensor, tangent: &Tensor, axis: i64) -> Result<Tensor> {
        let mean = ops::sum(&ops::multiply(y, tangent)?, over(axis).keepdims(true))?;
        ops::multiply(y, &ops::subtract(tangent, &mean)?)
    }
}

/// `y = x − ln Σ eˣ` along an axis, computed from the differences to the largest.
///
/// A row whose largest number is infinite, of either sign, or that has a NaN, is NaN.
///
/// Conventions: a row whose largest number is infinite, or that has a NaN, is NaN.
///
/// ```
/// use extensor::ops::log_softmax;
/// use extensor::tensor;
/// let y = log_softmax(&tensor([1000.0, 0.0]), 0)?;
/// assert_eq!(y.to_vec::<f64>()?, [0.0, -1000.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn log_softmax(x: &Tensor, axis: i64) -> Result<Tensor> {
    apply_one(&Over { rule: LogSoftmax, axis }, &[x])
}

/// The gradient of [`log_softmax`]: `g − e^y·Σ g`, from the output.
#[track_caller]
#[extensor_derive::noted]
pub fn log_softmax_backward(grad_output: &Tensor, output: &Tensor, axis: i64) -> Result<Tensor> {
    backward_at(LogSoftmax, grad_output, output, axis)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSoftmax;

impl Rule for LogSoftmax {
    const RECORD: &'static Record = &Record {
        name: "log_softmax",
        family: Family::Activation,
        formula: "y = x − ln Σ eˣ",
        derivative: "x′ = g − e^y·Σ g",
        conventions: "a row whose largest number is infinite, or that has a NaN, is NaN",
        params: &[AXIS],
        backward: signature!(log_softmax_backward(grad_output, output; axis)),
        class: Class::General,
        needs: Needs::Outputs,
        build: |p| build(LogSoftmax, p),
        samples,
        errors,
        ..Record::BLANK
    };
    const FORWARD: Rows = Rows::LogSoftmax;
    const BACKWARD: Rows = Rows::LogSoftmaxGradient;
    const BACKWARD_NAME: &'static str = "log_softmax_backward";

    fn along(&self, y: &Tensor, tangent: &Tensor, axis: i64) -> Result<Tensor> {
        let mean = ops::sum(&ops::multiply(&ops::exp(y)?, tangent)?, over(axis).keepdims(true))?;
        ops::subtract(tangent, &mean)
    }
}
