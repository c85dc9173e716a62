//! Parts of an axis, and axes read backwards: views.

use crate::ops::batching::{Batch, Batched, shifted, shifted_axes};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::{bad_parameter, optional, required};
use crate::tensor::axis_index;
use crate::{Axes, DType, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// Every `step`-th element along `axis` from `start` up to but not including `stop`, by Python's
/// rule for `x[start:stop:step]`: negative positions count from the end, those outside are moved to
/// the ends, `None` stands for the end that the step comes from or goes to, and a negative step
/// goes backwards. A view.
///
/// Conventions: positions are Python's; a view.
///
/// ```
/// use extensor::ops::slice;
/// use extensor::tensor;
/// let x = tensor([0, 1, 2, 3, 4]);
/// assert_eq!(slice(&x, 0, 1, 4, 2)?.to_vec::<i32>()?, [1, 3]);
/// assert_eq!(slice(&x, 0, -2, None, 1)?.to_vec::<i32>()?, [3, 4]);
/// assert_eq!(slice(&x, 0, None, None, -2)?.to_vec::<i32>()?, [4, 2, 0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn slice(
    x: &Tensor,
    axis: i64,
    start: impl Into<Option<i64>>,
    stop: impl Into<Option<i64>>,
    step: i64,
) -> Result<Tensor> {
    apply_one(&Slice::new(axis, start.into(), stop.into(), step), &[x])
}

/// The gradient of [`slice()`]: `grad_output` where the elements came from, 0 elsewhere.
#[track_caller]
#[extensor_derive::noted]
pub fn slice_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    axis: i64,
    start: impl Into<Option<i64>>,
    stop: impl Into<Option<i64>>,
    step: i64,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let op = Slice::new(axis, start.into(), stop.into(), step);
    let [grad] = backward_of(&op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    axis: i64,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
}

/// The elements that a slice takes of an axis.
pub(crate) struct Taken {
    pub axis: usize,
    /// The first of them; 0 if there is none.
    pub first: usize,
    pub count: usize,
    /// From one to the next; 1 if there is at most one.
    pub step: isize,
}

impl Slice {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "slice",
        family: Family::Shape,
        formula: "y = x[start:stop:step] along an axis",
        derivative: "g where the elements came from, 0 elsewhere",
        conventions: "positions are Python's; a view",
        backward: signature!(slice_backward(grad_output, shape(x); axis, start, stop, step)),
        params: &[
            required("axis", "an axis"),
            optional("start", "a position", "None"),
            optional("stop", "a position", "None"),
            optional("step", "a whole number other than 0", "1"),
        ],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let op = "slice";
            let (start, stop) = (p.optional_int(op, "start")?, p.optional_int(op, "stop")?);
            let step = p.optional_int(op, "step")?.unwrap_or(1);
            Ok(Box::new(Slice::new(p.int(op, "axis")?, start, stop, step)))
        },
        samples: |s| {
            let cases: [(i64, Option<i64>, Option<i64>, i64); 12] = [
                (0, Some(1), Some(4), 1),
                (1, Some(0), Some(5), 2),
                (0, Some(2), Some(2), 1),
                (-1, Some(-3), None, 1),
                (1, None, None, -1),
                (1, None, None, 3),
                (1, Some(4), Some(0), -2),
                (1, Some(-1), Some(-100), -3),
                (0, Some(100), Some(-100), -1),
                (0, Some(3), Some(1), 1),
                (0, Some(1), Some(2), i64::MAX),
                (0, None, None, i64::MIN),
            ];
            for (axis, start, stop, step) in cases {
                let x = s.normal(&[5, 6]);
                s.add([x], Slice::params(axis, start, stop, step));
            }
            let shapes: [&[usize]; 3] = [&[0, 3], &[1], &[2, 0]];
            for shape in shapes {
                let x = s.normal(shape);
                s.add([x], Slice::params(0, None, Some(-1), 1));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = Slice::params(2, None, None, 1);
            bad.add([x.clone()], params, "axis 2 is out of range for 2");
            let params = Slice::params(0, None, None, 0);
            bad.add([x], params, "step is 0, expected a whole number other");
            let scalar = bad.ones(&[], DType::F64);
            let params = Slice::params(0, None, None, 1);
            bad.add([scalar], params, "axis 0 is out of range for 0");
        },
        ..Record::BLANK
    };

    const fn new(axis: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Slice {
        Slice { axis, start, stop, step }
    }

    fn params(axis: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Params {
        let params = Params::new().with("axis", axis).with("start", start);
        params.with("stop", stop).with("step", step)
    }

    /// Which elements are meant, of a tensor of this shape.
    fn taken(&self, shape: &Shape) -> Result<Taken> {
        let op = "slice";
        let axis = axis_index(op, self.axis, shape.len())?;
        if self.step == 0 {
            let expected = "a whole number other than 0";
            return Err(bad_parameter(op, "step", expected, self.step));
        }
        // In 128 bits nothing overflows.
        let (size, step) = (shape[axis] as i128, i128::from(self.step));
        let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let bound = |given: Option<i64>, otherwise: i128| {
            given.map_or(otherwise, |at| {
                let at = i128::from(at);
                (if at < 0 { at + size } else { at }).clamp(low, high)
            })
        };
        let (from, to) = if step > 0 { (low, high) } else { (high, low) };
        let (start, stop) = (bound(self.start, from), bound(self.stop, to));
        let distance = if step > 0 { stop - start } else { start - stop };
        let count = (distance + step.abs() - 1).max(0) / step.abs();
        Ok(Taken {
            axis,
            first: if count > 0 { start as usize } else { 0 },
            count: count as usize,
            step: if count > 1 { self.step as isize } else { 1 },
        })
    }
}

impl Operation for Slice {
    fn record(&self) -> &'static Record {
        Slice::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let mut shape = inputs[0].shape().clone();
        let taken = self.taken(&shape)?;
        shape.set(taken.axis, taken.count);
        Ok(spec(shape, inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        let taken = self.taken(x.shape())?;
        let shape = specs.swap_remove(0).shape;
        Ok(smallvec![part(x, shape, &taken)])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let shape = call.inputs[0].shape();
        call.one(|| scatter(call.grad(), shape, &self.taken(shape)?))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Slice { axis: shifted(self.axis), ..*self })
    }
}

/// The view of `x` that has only the elements taken.
pub(crate) fn part(x: &Tensor, shape: Shape, taken: &Taken) -> Tensor {
    let mut layout = x.layout().clone();
    layout.shape = shape;
    // The strides of an empty tensor mean nothing, and might overflow.
    if !layout.shape.contains(&0) {
        let stride = layout.strides[taken.axis];
        let offset = layout.offset as isize + taken.first as isize * stride;
        layout.offset = offset as usize;
        layout.strides[taken.axis] = stride * taken.step;
    }
    x.with_layout(layout)
}

/// The transposed of [`part`]: `grad` where its elements came from in a tensor of `shape`, zeros
/// elsewhere. Zeros go between the elements by padding each to the length of a step.
fn scatter(grad: &Tensor, shape: &Shape, taken: &Taken) -> Result<Tensor> {
    let (axis, step) = (taken.axis, taken.step.unsigned_abs());
    let mut grad = grad.clone();
    let mut first = taken.first;
    if taken.step < 0 {
        grad = ops::flip(&grad, axis)?;
        first -= (taken.count - 1) * step;
    }
    let mut count = taken.count;
    if step > 1 {
        let apart = ops::expand_dims(&grad, axis + 1)?;
        let mut pads = vec![(0, 0); apart.ndim()];
        pads[axis + 1].1 = step as i64 - 1;
        let padded = ops::pad(&apart, &pads, 0.0)?;
        let wide = ops::flatten(&padded, axis as i64, axis as i64 + 1)?;
        count = (count - 1) * step + 1;
        grad = slice(&wide, axis as i64, 0, count as i64, 1)?;
    }
    let mut pads = vec![(0, 0); shape.len()];
    pads[axis] = (first as i64, (shape[axis] - first - count) as i64);
    ops::pad(&grad, &pads, 0.0)
}

/// The elements in reverse order along the given axes (`None`: all). A view.
///
/// Conventions: a view.
///
/// ```
/// use extensor::ops::flip;
/// use extensor::tensor;
/// let x = tensor([[1, 2], [3, 4]]);
/// assert_eq!(flip(&x, 0)?.to_vec::<i32>()?, [3, 4, 1, 2]);
/// assert_eq!(flip(&x, None)?.to_vec::<i32>()?, [4, 3, 2, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn flip(x: &Tensor, axis: impl Into<Axes>) -> Result<Tensor> {
    apply_one(&Flip { axes: axis.into() }, &[x])
}

/// The gradient of [`flip`]: `grad_output` flipped back. A view.
#[track_caller]
#[extensor_derive::noted]
pub fn flip_backward(grad_output: &Tensor, axis: impl Into<Axes>) -> Result<Tensor> {
    let x = placeholder(grad_output.shape(), grad_output.dtype())?;
    let op = Flip { axes: axis.into() };
    let [grad] = backward_of(&op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Debug)]
pub(crate) struct Flip {
    axes: Axes,
}

impl Flip {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "flip",
        family: Family::Shape,
        formula: "y = x with axes reversed",
        derivative: "g with the same axes reversed",
        conventions: "a view",
        backward: signature!(flip_backward(grad_output; axis)),
        params: &[optional("axis", "an axis or several; None for all", "None")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let axes = p.axes("flip", "axis")?;
            Ok(Box::new(Flip { axes }))
        },
        samples: |s| {
            let cases: [(&[usize], Option<&[i64]>); 9] = [
                (&[3, 4], Some(&[0])),
                (&[3, 4], Some(&[1])),
                (&[3, 4], Some(&[0, 1])),
                (&[3, 4], Some(&[-1])),
                (&[3, 4], Some(&[])),
                (&[2, 3, 4], None),
                (&[], None),
                (&[0, 3], None),
                (&[1], Some(&[0])),
            ];
            for (shape, axes) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("axis", axes));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = Params::new().with("axis", [2]);
            bad.add([x.clone()], params, "axis 2 is out of range for 2");
            let params = Params::new().with("axis", [1, -1]);
            bad.add([x], params, "axis -1 is named twice");
        },
        ..Record::BLANK
    };
}

impl Operation for Flip {
    fn record(&self) -> &'static Record {
        Flip::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.axes.mask("flip", inputs[0].ndim())?;
        Ok(spec(inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let x = inputs[0];
        let mut layout = x.layout().clone();
        if !x.is_empty() {
            let mask = self.axes.mask("flip", x.ndim())?;
            for (axis, _) in mask.iter().enumerate().filter(|(_, flipped)| **flipped) {
                let last = (x.shape()[axis] - 1) as isize * layout.strides[axis];
                layout.offset = (layout.offset as isize + last) as usize;
                layout.strides[axis] = -layout.strides[axis];
            }
        }
        Ok(smallvec![x.with_layout(layout)])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| flip(call.grad(), self.axes.clone()))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Flip { axes: shifted_axes(&self.axes, call.inputs[0].ndim()) })
    }
}
