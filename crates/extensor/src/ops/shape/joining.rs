//! Tensors joined into one.

use crate::exec::copy::Copying;
use crate::exec::launch;
use crate::ops::batching::{Batch, Batched, shifted};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::shape::{PART, backward_of_many, bad_shape, countable, optional};
use crate::tensor::{axis_index, expect_room};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::SmallVec;
use std::borrow::Borrow;

/// The tensors one after the other along an axis; the other sizes must agree.
///
/// ```
/// use extensor::ops::concatenate;
/// use extensor::tensor;
/// let y = concatenate(&[tensor([[1], [2]]), tensor([[3, 4], [5, 6]])], 1)?;
/// assert_eq!(y.shape(), [2, 3]);
/// assert_eq!(y.to_vec::<i32>()?, [1, 3, 4, 2, 5, 6]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn concatenate(tensors: &[impl Borrow<Tensor>], axis: i64) -> Result<Tensor> {
    let tensors: SmallVec<[&Tensor; 4]> = tensors.iter().map(Borrow::borrow).collect();
    apply_one(&Concatenate { axis }, &tensors)
}

/// The gradients of [`concatenate`], for tensors of these sizes along the axis: the parts of
/// `grad_output`. Views.
#[track_caller]
#[extensor_derive::noted]
pub fn concatenate_backward(
    grad_output: &Tensor,
    sizes: &[usize],
    axis: i64,
) -> Result<Vec<Tensor>> {
    let at = axis_index("concatenate_backward", axis, grad_output.ndim())?;
    let part = |&size: &usize| {
        let mut shape = grad_output.shape().clone();
        shape.set(at, size);
        shape
    };
    let shapes: Vec<Shape> = sizes.iter().map(part).collect();
    backward_of_many(&Concatenate { axis }, &[grad_output], &shapes)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Concatenate {
    axis: i64,
}

impl Concatenate {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "concatenate",
        family: Family::Shape,
        formula: "y = x0, x1, … one after the other along an axis",
        derivative: "the parts of g",
        backward: signature!(concatenate_backward(grad_output, sizes; axis)),
        inputs: &[Input::many("x")],
        params: &[optional("axis", "an axis", "0")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let axis = p.optional_int("concatenate", "axis")?.unwrap_or(0);
            Ok(Box::new(Concatenate { axis }))
        },
        samples: |s| {
            let cases: [(i64, &[&[usize]]); 8] = [
                (0, &[&[2, 3], &[4, 3]]),
                (1, &[&[2, 3], &[2, 1], &[2, 2]]),
                (-1, &[&[3], &[2]]),
                (0, &[&[0, 3], &[2, 3]]),
                (0, &[&[0, 3], &[0, 3]]),
                (1, &[&[2, 3, 4]]),
                (-2, &[&[2, 1, 3], &[2, 0, 3], &[2, 4, 3]]),
                (1, &[&[0, 2], &[0, 3]]),
            ];
            for (axis, shapes) in cases {
                let inputs: Vec<Tensor> = shapes.iter().map(|shape| s.normal(shape)).collect();
                s.add(inputs, Params::new().with("axis", axis));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |axis: i64| Params::new().with("axis", axis);
            let two = [x.clone(), x.clone()];
            bad.add(two, params(2), "axis 2 is out of range for 2 dimensions");
            let other = bad.ones(&[2, 4], DType::F64);
            let message = "concatenate: x1 has shape [2, 4], expected [2, 3] but for axis 0";
            bad.add([x.clone(), other], params(0), message);
            let vector = bad.ones(&[3], DType::F64);
            bad.add([x.clone(), vector], params(0), "x1 has shape [3], expected");
            let ints = bad.ones(&[2, 3], DType::I64);
            bad.add([x, ints], params(0), "dtypes f64 and i64 do not mix");
            let scalar = bad.ones(&[], DType::F64);
            bad.add([scalar], params(0), "axis 0 is out of range for 0");
            bad.add([], params(0), "got inputs (0 tensors)");
        },
        ..Record::BLANK
    };
}

impl Operation for Concatenate {
    fn record(&self) -> &'static Record {
        Concatenate::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, first) = ("concatenate", first("concatenate", inputs)?);
        let axis = axis_index(op, self.axis, first.ndim())?;
        let dtype = common_dtype(op, inputs)?;
        let mut total = Some(0usize);
        for (i, x) in inputs.iter().enumerate() {
            let mut like = first.shape().clone();
            let size = x.shape().get(axis).copied().unwrap_or(0);
            like.set(axis, size);
            if like != *x.shape() {
                let expected = format!("{} but for axis {axis}", first.shape());
                return Err(bad_shape(op, nth(i), expected, x.shape()));
            }
            total = total.and_then(|total| total.checked_add(size));
        }
        let sizes = first.shape().iter().enumerate();
        let sizes = sizes.map(|(i, &size)| if i == axis { total } else { Some(size) });
        Ok(spec(countable(op, sizes)?, dtype))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let axis = axis_index("concatenate", self.axis, inputs[0].ndim())?;
        let parts = inputs.iter().map(|x| (*x).clone());
        join("concatenate", parts, axis, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let axis = axis_index("concatenate", self.axis, call.grad().ndim())?;
        let mut start = 0;
        let part = |(x, &wanted): (&&Tensor, &bool)| {
            let stop = start + x.shape()[axis] as i64;
            let from = std::mem::replace(&mut start, stop);
            let slice = || ops::slice(call.grad(), axis as i64, from, stop, 1);
            wanted.then(slice).transpose()
        };
        call.inputs.iter().zip(call.wanted).map(part).collect()
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Concatenate { axis: shifted(self.axis) })
    }
}

/// The parts one after the other along an axis.
fn join(
    op: &'static str,
    parts: impl Iterator<Item = Tensor>,
    axis: usize,
    specs: Specs,
) -> Result<Outputs> {
    let parts: SmallVec<[Tensor; 4]> =
        parts.map(|x| ops::cast(&x, specs[0].dtype)).collect::<Result<_>>()?;
    let parts: SmallVec<[&Tensor; 4]> = parts.iter().collect();
    launch(op, &Copying::Join { axis }, &parts, specs)
}

/// The first of several inputs.
fn first<'a>(op: &'static str, inputs: &[&'a Tensor]) -> Result<&'a Tensor> {
    inputs.first().copied().ok_or_else(|| Error::Inputs {
        op,
        expected: "x0, x1, …".into(),
        got: "0 tensors".into(),
    })
}

/// The dtype that all inputs have in common.
fn common_dtype(op: &'static str, inputs: &[&Tensor]) -> Result<DType> {
    let mut common = first(op, inputs)?.dtype();
    for x in inputs {
        let (a, b) = (common, x.dtype());
        common = a.promote(b).ok_or(Error::MixedDTypes { op, a, b })?;
    }
    Ok(common)
}

/// The name of input number `i`, as far as errors count.
fn nth(i: usize) -> &'static str {
    const NAMES: [&str; 10] = ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9"];
    NAMES.get(i).copied().unwrap_or("a later tensor")
}

/// The tensors, all of one shape, side by side along a new axis.
///
/// ```
/// use extensor::ops::stack;
/// use extensor::tensor;
/// let y = stack(&[tensor([1, 2]), tensor([3, 4])], -1)?;
/// assert_eq!(y.to_vec::<i32>()?, [1, 3, 2, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn stack(tensors: &[impl Borrow<Tensor>], axis: i64) -> Result<Tensor> {
    let tensors: SmallVec<[&Tensor; 4]> = tensors.iter().map(Borrow::borrow).collect();
    apply_one(&Stack { axis }, &tensors)
}

/// The gradients of [`stack`]: the layers of `grad_output`. Views.
#[track_caller]
#[extensor_derive::noted]
pub fn stack_backward(grad_output: &Tensor, axis: i64) -> Result<Vec<Tensor>> {
    let at = axis_index("stack_backward", axis, grad_output.ndim())?;
    let mut shape = grad_output.shape().clone();
    shape.remove(at);
    let layers = grad_output.shape()[at];
    expect_room("stack_backward", layers, PART)?;
    let shapes = vec![shape; layers];
    backward_of_many(&Stack { axis }, &[grad_output], &shapes)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    axis: i64,
}

impl Stack {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "stack",
        family: Family::Shape,
        formula: "y = x0, x1, … side by side along a new axis",
        derivative: "the layers of g",
        backward: signature!(stack_backward(grad_output; axis)),
        inputs: &[Input::many("x")],
        params: &[optional("axis", "an axis of the result", "0")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let axis = p.optional_int("stack", "axis")?.unwrap_or(0);
            Ok(Box::new(Stack { axis }))
        },
        samples: |s| {
            let cases: [(i64, &[usize], usize); 8] = [
                (0, &[2, 3], 3),
                (1, &[2, 3], 3),
                (-1, &[2, 3], 3),
                (0, &[], 2),
                (-1, &[], 1),
                (0, &[0, 3], 2),
                (2, &[2, 0], 2),
                (-3, &[1, 2], 2),
            ];
            for (axis, shape, count) in cases {
                let inputs: Vec<Tensor> = (0..count).map(|_| s.normal(shape)).collect();
                s.add(inputs, Params::new().with("axis", axis));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |axis: i64| Params::new().with("axis", axis);
            let two = [x.clone(), x.clone()];
            bad.add(two, params(3), "axis 3 is out of range for 3 dimensions");
            let other = bad.ones(&[2, 1], DType::F64);
            let message = "stack: x1 has shape [2, 1], expected [2, 3]";
            bad.add([x.clone(), other], params(0), message);
            let mask = bad.ones(&[2, 3], DType::Bool);
            bad.add([x, mask], params(0), "dtypes f64 and bool do not mix");
        },
        ..Record::BLANK
    };
}

impl Operation for Stack {
    fn record(&self) -> &'static Record {
        Stack::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, first) = ("stack", first("stack", inputs)?);
        let axis = axis_index(op, self.axis, first.ndim() + 1)?;
        let dtype = common_dtype(op, inputs)?;
        for (i, x) in inputs.iter().enumerate() {
            if x.shape() != first.shape() {
                let expected = first.shape().to_string();
                return Err(bad_shape(op, nth(i), expected, x.shape()));
            }
        }
        let mut shape = first.shape().clone();
        shape.insert(axis, inputs.len());
        shape.count(op)?;
        Ok(spec(shape, dtype))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let axis = axis_index("stack", self.axis, inputs[0].ndim() + 1)?;
        let layers = inputs.iter().map(|x| ops::expand_dims(x, axis));
        let layers: Vec<Tensor> = layers.collect::<Result<_>>()?;
        join("stack", layers.into_iter(), axis, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let axis = axis_index("stack", self.axis, call.grad().ndim())?;
        let layer = |(i, &wanted): (usize, &bool)| {
            let layer = || {
                let i = i as i64;
                let layer = ops::slice(call.grad(), axis as i64, i, i + 1, 1)?;
                ops::squeeze(&layer, axis)
            };
            wanted.then(layer).transpose()
        };
        call.wanted.iter().enumerate().map(layer).collect()
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Stack { axis: shifted(self.axis) })
    }
}
