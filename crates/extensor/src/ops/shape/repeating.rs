//! Elements repeated in place, and axes rolled.

use crate::ops::batching::{Batch, Batched, shifted};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::scatter::add_taken;
use crate::ops::shape::{bad_parameter, countable, optional, required};
use crate::tensor::{axis_index, with_room};
use crate::{DType, Integers, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

/// Every element along `axis` several times, one after the other: `repeats` holds one number for
/// all elements, or one for each.
///
/// ```
/// use extensor::ops::repeat;
/// use extensor::tensor;
/// let x = tensor([[1, 2], [3, 4]]);
/// assert_eq!(repeat(&x, [2], 1)?.to_vec::<i32>()?, [1, 1, 2, 2, 3, 3, 4, 4]);
/// assert_eq!(repeat(&x, [0, 2], 0)?.to_vec::<i32>()?, [3, 4, 3, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn repeat(x: &Tensor, repeats: impl Integers, axis: i64) -> Result<Tensor> {
    apply_one(&Repeat { repeats: repeats.integers(), axis }, &[x])
}

/// The gradient of [`repeat`]: `grad_output` summed over the copies of each element.
#[track_caller]
#[extensor_derive::noted]
pub fn repeat_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    repeats: impl Integers,
    axis: i64,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let op = Repeat { repeats: repeats.integers(), axis };
    let [grad] = backward_of(&op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    repeats: SmallVec<[i64; 4]>,
    axis: i64,
}

impl Repeat {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "repeat",
        family: Family::Shape,
        formula: "y = x with its elements repeated along an axis",
        derivative: "g summed over the copies",
        backward: signature!(repeat_backward(grad_output, shape(x); repeats, axis)),
        params: &[
            required("repeats", "how often: a number, or one for each element of the axis"),
            optional("axis", "an axis", "0"),
        ],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let repeats = p.ints("repeat", "repeats")?.into();
            let axis = p.optional_int("repeat", "axis")?.unwrap_or(0);
            Ok(Box::new(Repeat { repeats, axis }))
        },
        samples: |s| {
            let cases: [(&[usize], &[i64], i64); 9] = [
                (&[2, 3], &[2], 0),
                (&[2, 3], &[2, 0, 3], 1),
                (&[2, 3, 2], &[1, 4, 1], -2),
                (&[3], &[0], 0),
                (&[3], &[1], 0),
                (&[1], &[3], 0),
                (&[0, 3], &[2], 0),
                (&[0, 3], &[], 0),
                (&[3, 0], &[2], 0),
            ];
            for (shape, repeats, axis) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("repeats", repeats).with("axis", axis));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |repeats: &[i64], axis: i64| {
                Params::new().with("repeats", repeats).with("axis", axis)
            };
            bad.add([x.clone()], params(&[2], 2), "axis 2 is out of range for 2 dimensions");
            let message = "repeats is [2, -1], expected numbers of at least 0";
            bad.add([x.clone()], params(&[2, -1], 0), message);
            let message = "repeats is [1, 2], expected one number, or one for each of 3 elements";
            bad.add([x.clone()], params(&[1, 2], 1), message);
            bad.add([x.clone()], params(&[i64::MAX], 0), "more elements than memory can address");
            bad.add([x], params(&[i64::MAX, 9], 0), "more elements than memory can address");
        },
        ..Record::BLANK
    };

    /// The axis, how often each of its elements is repeated, and the size it then has.
    fn counts(&self, shape: &Shape) -> Result<(usize, Vec<usize>, Option<usize>)> {
        let op = "repeat";
        let axis = axis_index(op, self.axis, shape.len())?;
        let size = shape[axis];
        let count = |&times: &i64| {
            usize::try_from(times).map_err(|_| {
                let expected = "numbers of at least 0";
                bad_parameter(op, "repeats", expected, &self.repeats[..])
            })
        };
        let counts = self.repeats.iter().map(count).collect::<Result<Vec<_>>>()?;
        match counts[..] {
            [one] => Ok((axis, counts, one.checked_mul(size))),
            _ if counts.len() == size => {
                let total = counts.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
                Ok((axis, counts, total))
            }
            _ => {
                let expected = format!("one number, or one for each of {size} elements");
                Err(bad_parameter(op, "repeats", expected, &self.repeats[..]))
            }
        }
    }

    /// Where along the axis each element of the result comes from.
    fn sources(&self, shape: &Shape) -> Result<Tensor> {
        let (axis, counts, total) = self.counts(shape)?;
        let mut list = with_room("repeat", total.unwrap_or(usize::MAX))?;
        for i in 0..shape[axis] {
            let times = counts[if counts.len() == 1 { 0 } else { i }];
            list.extend(std::iter::repeat_n(i as i64, times));
        }
        let count = list.len();
        Tensor::from_vec(list, [count])
    }
}

impl Operation for Repeat {
    fn record(&self) -> &'static Record {
        Repeat::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let shape = inputs[0].shape();
        let (axis, _, total) = self.counts(shape)?;
        // The list of sources has to be addressed too, if the tensor is empty otherwise.
        countable("repeat", [total].into_iter())?;
        let size = |(i, &size): (usize, &usize)| if i == axis { total } else { Some(size) };
        Ok(spec(countable("repeat", shape.iter().enumerate().map(size))?, inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let Spec { shape, dtype } = specs.swap_remove(0);
        // Nothing is repeated, however often.
        if shape.contains(&0) {
            return Ok(smallvec![Tensor::zeros(shape, dtype)?]);
        }
        let sources = self.sources(inputs[0].shape())?;
        Ok(smallvec![ops::take(inputs[0], &sources, self.axis)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let shape = call.inputs[0].shape();
        call.one(|| {
            if call.grad().is_empty() {
                return Tensor::zeros(shape.clone(), call.grad().dtype());
            }
            let sources = self.sources(shape)?;
            add_taken("repeat_backward", call.grad(), &sources, shape, self.axis)
        })
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Repeat { axis: shifted(self.axis), repeats: self.repeats.clone() })
    }
}

/// `y[i] = x[i − shift]` along each `axis`, wrapping around at the ends: `shift` holds one number for all of
/// them, or one for each.
///
/// Conventions: the shifts of an axis that is named several times add up.
///
/// ```
/// use extensor::ops::roll;
/// use extensor::tensor;
/// let x = tensor([[1, 2, 3], [4, 5, 6]]);
/// assert_eq!(roll(&x, [1], [1])?.to_vec::<i32>()?, [3, 1, 2, 6, 4, 5]);
/// assert_eq!(roll(&x, [1, -1], [0, 1])?.to_vec::<i32>()?, [5, 6, 4, 2, 3, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn roll(x: &Tensor, shift: impl Integers, axis: impl Integers) -> Result<Tensor> {
    apply_one(&Roll { shifts: shift.integers(), axes: axis.integers() }, &[x])
}

/// The gradient of [`roll`]: `grad_output` rolled back.
#[track_caller]
#[extensor_derive::noted]
pub fn roll_backward(
    grad_output: &Tensor,
    shift: impl Integers,
    axis: impl Integers,
) -> Result<Tensor> {
    let x = placeholder(grad_output.shape(), grad_output.dtype())?;
    let op = Roll { shifts: shift.integers(), axes: axis.integers() };
    let [grad] = backward_of(&op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Debug)]
pub(crate) struct Roll {
    shifts: SmallVec<[i64; 4]>,
    axes: SmallVec<[i64; 4]>,
}

impl Roll {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "roll",
        family: Family::Shape,
        formula: "y[i] = x[i − shift], round the ends",
        derivative: "g rolled back",
        conventions: "the shifts of an axis that is named several times add up",
        backward: signature!(roll_backward(grad_output; shift, axis)),
        params: &[
            required("shift", "how far: a number, or one for each axis"),
            required("axis", "a list of axes, negative ones counted from the end"),
        ],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let shifts = p.ints("roll", "shift")?.into();
            let axes = p.ints("roll", "axis")?.into();
            Ok(Box::new(Roll { shifts, axes }))
        },
        samples: |s| {
            let cases: [(&[usize], &[i64], &[i64]); 9] = [
                (&[5], &[2], &[0]),
                (&[5], &[-12], &[-1]),
                (&[3, 4], &[1, -2], &[0, 1]),
                (&[3, 4], &[1], &[0, 1]),
                (&[2, 3, 4], &[1, 1], &[-1, 2]),
                (&[], &[], &[]),
                (&[3], &[i64::MIN], &[0]),
                (&[0, 3], &[2], &[0]),
                (&[1], &[1], &[0]),
            ];
            for (shape, shifts, axes) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("shift", shifts).with("axis", axes));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |shifts: &[i64], axes: &[i64]| {
                Params::new().with("shift", shifts).with("axis", axes)
            };
            bad.add([x.clone()], params(&[1], &[2]), "axis 2 is out of range for 2 dimensions");
            let message = "shift is [1, 2], expected one number, or one for each of 1 axes";
            bad.add([x], params(&[1, 2], &[0]), message);
        },
        ..Record::BLANK
    };

    /// For each axis of the shape the position that comes first: below its size.
    fn firsts(&self, shape: &Shape) -> Result<Vec<usize>> {
        let op = "roll";
        if self.shifts.len() != 1 && self.shifts.len() != self.axes.len() {
            let expected = format!("one number, or one for each of {} axes", self.axes.len());
            return Err(bad_parameter(op, "shift", expected, &self.shifts[..]));
        }
        let mut firsts = vec![0; shape.len()];
        for (i, &axis) in self.axes.iter().enumerate() {
            let axis = axis_index(op, axis, shape.len())?;
            let shift = self.shifts[if self.shifts.len() == 1 { 0 } else { i }];
            let size = shape[axis].max(1) as i128;
            firsts[axis] = (firsts[axis] as i128 - i128::from(shift)).rem_euclid(size) as usize;
        }
        Ok(firsts)
    }
}

/// Every axis rolled so that the position listed comes first.
fn rolled(x: &Tensor, firsts: &[usize]) -> Result<Tensor> {
    let mut x = x.clone();
    for (axis, &first) in firsts.iter().enumerate().filter(|(_, first)| **first != 0) {
        let (axis, first) = (axis as i64, first as i64);
        let tail = ops::slice(&x, axis, first, None, 1)?;
        x = ops::concatenate(&[tail, ops::slice(&x, axis, None, first, 1)?], axis)?;
    }
    Ok(x)
}

impl Operation for Roll {
    fn record(&self) -> &'static Record {
        Roll::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.firsts(inputs[0].shape())?;
        Ok(spec(inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(smallvec![rolled(inputs[0], &self.firsts(inputs[0].shape())?)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let shape = call.grad().shape();
        call.one(|| {
            let firsts = self.firsts(shape)?;
            let back = firsts
                .iter()
                .zip(shape.iter())
                .map(|(&first, &size)| if first == 0 { 0 } else { size - first });
            rolled(call.grad(), &back.collect::<Vec<_>>())
        })
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let axes = self.axes.iter().map(|&axis| shifted(axis)).collect();
        call.whole(Roll { shifts: self.shifts.clone(), axes })
    }
}
