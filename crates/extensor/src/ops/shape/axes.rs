//! Axes removed, added and merged: views.

use crate::ops::batching::{Batch, Batched, shifted, shifted_axes};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs, apply_one, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::views::{refill, reshaped};
use crate::ops::shape::{bad_parameter, bad_shape, optional, required};
use crate::tensor::{Layout, axis_index};
use crate::{Axes, DType, Result, Shape, Tensor};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

/// `x` without the given axes, which must have size 1; `None`: without all such axes. A view.
///
/// Conventions: no axes: all of size 1 go; a view.
///
/// ```
/// use extensor::ops::squeeze;
/// use extensor::tensor;
/// let x = tensor([[[1], [2]]]);
/// assert_eq!(squeeze(&x, None)?.shape(), [2]);
/// assert_eq!(squeeze(&x, -1)?.shape(), [1, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn squeeze(x: &Tensor, axis: impl Into<Axes>) -> Result<Tensor> {
    let axes = axis.into();
    apply_one(&Squeeze { axes }, &[x])
}

/// The gradient of [`squeeze`]: `grad_output` in the input's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn squeeze_backward(grad_output: &Tensor, input_shape: &[usize]) -> Result<Tensor> {
    refill("squeeze_backward", grad_output, input_shape)
}

#[derive(Clone, Debug)]
pub(crate) struct Squeeze {
    axes: Axes,
}

impl Squeeze {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "squeeze",
        family: Family::Shape,
        formula: "y = x without axes of size 1",
        derivative: "g in the shape of x",
        conventions: "no axes: all of size 1 go; a view",
        backward: signature!(squeeze_backward(grad_output, shape(x))),
        params: &[optional("axis", "an axis of size 1 or several", "None")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let axes = p.axes("squeeze", "axis")?;
            Ok(Box::new(Squeeze { axes }))
        },
        samples: |s| {
            let cases: [(&[usize], Option<&[i64]>); 7] = [
                (&[1, 3, 1], None),
                (&[1, 3, 1], Some(&[0])),
                (&[1, 3, 1], Some(&[-1, 0])),
                (&[1, 3, 1], Some(&[])),
                (&[1, 1], None),
                (&[], None),
                (&[0, 1], Some(&[1])),
            ];
            for (shape, axes) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("axis", axes));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[1, 3], DType::F64);
            let mut add = |axes: &[i64], message| {
                bad.add([x.clone()], Params::new().with("axis", axes), message);
            };
            add(&[1], "x has shape [1, 3], expected size 1 along axis 1");
            add(&[2], "axis 2 is out of range for 2 dimensions");
            add(&[0, -2], "axis -2 is named twice");
        },
        ..Record::BLANK
    };

    /// For each axis of `x` whether it goes.
    fn dropped(&self, x: &Tensor) -> Result<SmallVec<[bool; 6]>> {
        let op = "squeeze";
        let mut mask = self.axes.mask(op, x.ndim())?;
        for (axis, (drop, &size)) in mask.iter_mut().zip(x.shape().iter()).enumerate() {
            if *drop && size != 1 && self.axes != Axes::All {
                let expected = format!("size 1 along axis {axis}");
                return Err(bad_shape(op, "x", expected, x.shape()));
            }
            *drop &= size == 1;
        }
        Ok(mask)
    }
}

impl Operation for Squeeze {
    fn record(&self) -> &'static Record {
        Squeeze::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        let dropped = self.dropped(x)?;
        let kept = x.shape().iter().zip(&dropped).filter(|(_, drop)| !**drop);
        Ok(spec(kept.map(|(&size, _)| size).collect(), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        let dropped = self.dropped(x)?;
        let kept = x.strides().iter().zip(&dropped).filter(|(_, drop)| !**drop);
        Ok(smallvec![x.with_layout(Layout {
            shape: specs.swap_remove(0).shape,
            strides: kept.map(|(&stride, _)| stride).collect(),
            offset: x.layout().offset,
        })])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| squeeze_backward(call.grad(), call.inputs[0].shape()))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let x = call.inputs[0];
        let axes = match &self.axes {
            Axes::All => {
                let ones = x.shape().iter().enumerate().filter(|(_, size)| **size == 1);
                Axes::List(ones.map(|(axis, _)| axis as i64 + 1).collect())
            }
            axes => shifted_axes(axes, x.ndim()),
        };
        call.whole(Squeeze { axes })
    }
}

/// `x` with new axes of size 1 at the given positions of the result: `0` or `-1`, or `[0, 2]` for
/// several. A view.
///
/// Conventions: axes are counted in the result; a view.
///
/// ```
/// use extensor::ops::expand_dims;
/// use extensor::tensor;
/// let x = tensor([1, 2]);
/// assert_eq!(expand_dims(&x, -1)?.shape(), [2, 1]);
/// assert_eq!(expand_dims(&x, [0, 2])?.shape(), [1, 2, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn expand_dims(x: &Tensor, axis: impl Into<Axes>) -> Result<Tensor> {
    let axes = axis.into();
    apply_one(&ExpandDims { axes }, &[x])
}

/// The gradient of [`expand_dims`]: `grad_output` in the input's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn expand_dims_backward(grad_output: &Tensor, input_shape: &[usize]) -> Result<Tensor> {
    refill("expand_dims_backward", grad_output, input_shape)
}

#[derive(Clone, Debug)]
pub(crate) struct ExpandDims {
    axes: Axes,
}

impl ExpandDims {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "expand_dims",
        family: Family::Shape,
        formula: "y = x with new axes of size 1",
        derivative: "g in the shape of x",
        conventions: "axes are counted in the result; a view",
        backward: signature!(expand_dims_backward(grad_output, shape(x))),
        params: &[required("axis", "an axis or several, of the result")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let axes = p.axes("expand_dims", "axis")?;
            Ok(Box::new(ExpandDims { axes }))
        },
        samples: |s| {
            let cases: [(&[usize], &[i64]); 7] = [
                (&[3], &[0]),
                (&[3], &[-1]),
                (&[2, 3], &[1]),
                (&[2, 3], &[0, 2]),
                (&[2, 3], &[-1, 0]),
                (&[], &[0]),
                (&[0, 3], &[1]),
            ];
            for (shape, axes) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("axis", axes));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let mut add = |axes: &[i64], message| {
                bad.add([x.clone()], Params::new().with("axis", axes), message);
            };
            add(&[3], "axis 3 is out of range for 3 dimensions");
            add(&[-4], "axis -4 is out of range for 3 dimensions");
            add(&[0, -4], "axis -4 is named twice");
            bad.add([x], Params::new(), "axis is None, expected an axis");
        },
        ..Record::BLANK
    };

    /// For each axis of the result whether it is new.
    fn added(&self, ndim: usize) -> Result<SmallVec<[bool; 6]>> {
        let op = "expand_dims";
        let Axes::List(list) = &self.axes else {
            let expected = "an axis or a list of axes";
            return Err(bad_parameter(op, "axis", expected, None::<i64>));
        };
        self.axes.mask(op, ndim + list.len())
    }

    /// `old` with `new` at the new axes.
    fn filled<T: Copy, C: FromIterator<T>>(added: &[bool], old: &[T], new: T) -> C {
        let mut old = old.iter();
        let fill = |&added: &bool| {
            if added { new } else { *old.next().unwrap_or(&new) }
        };
        added.iter().map(fill).collect()
    }
}

impl Operation for ExpandDims {
    fn record(&self) -> &'static Record {
        ExpandDims::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        let added = self.added(x.ndim())?;
        Ok(spec(Self::filled(&added, x.shape(), 1), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        let added = self.added(x.ndim())?;
        Ok(smallvec![x.with_layout(Layout {
            shape: specs.swap_remove(0).shape,
            strides: Self::filled(&added, x.strides(), 1),
            offset: x.layout().offset,
        })])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| expand_dims_backward(call.grad(), call.inputs[0].shape()))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(ExpandDims { axes: shifted_axes(&self.axes, call.inputs[0].ndim()) })
    }
}

/// `x` with the axes from `start_axis` to `end_axis`, both included, as one; a scalar becomes a
/// vector of one element. A view where strides allow, as with [`reshape`](crate::ops::reshape).
///
/// Conventions: a view where strides allow; a scalar becomes a vector.
///
/// ```
/// use extensor::ops::flatten;
/// use extensor::{DType, Tensor};
/// let x = Tensor::zeros([2, 3, 4], DType::F32)?;
/// assert_eq!(flatten(&x, 1, -1)?.shape(), [2, 12]);
/// assert_eq!(flatten(&x, 0, -1)?.shape(), [24]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn flatten(x: &Tensor, start_axis: i64, end_axis: i64) -> Result<Tensor> {
    let op = Flatten { start_axis, end_axis };
    apply_one(&op, &[x])
}

/// The gradient of [`flatten`]: `grad_output` in the input's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn flatten_backward(grad_output: &Tensor, input_shape: &[usize]) -> Result<Tensor> {
    refill("flatten_backward", grad_output, input_shape)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flatten {
    start_axis: i64,
    end_axis: i64,
}

impl Flatten {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "flatten",
        family: Family::Shape,
        formula: "y = x with the axes from start_axis to end_axis as one",
        derivative: "g in the shape of x",
        conventions: "a view where strides allow; a scalar becomes a vector",
        backward: signature!(flatten_backward(grad_output, shape(x))),
        params: &[
            optional("start_axis", "the first axis", "0"),
            optional("end_axis", "the last axis", "-1"),
        ],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let op = "flatten";
            Ok(Box::new(Flatten {
                start_axis: p.optional_int(op, "start_axis")?.unwrap_or(0),
                end_axis: p.optional_int(op, "end_axis")?.unwrap_or(-1),
            }))
        },
        samples: |s| {
            let cases: [(&[usize], i64, i64); 7] = [
                (&[2, 3, 4], 0, -1),
                (&[2, 3, 4], 1, -1),
                (&[2, 3, 4], 0, 1),
                (&[2, 3, 4], 1, 1),
                (&[], 0, -1),
                (&[5], -1, 0),
                (&[2, 0, 3], 1, 2),
            ];
            for (shape, start, end) in cases {
                let x = s.normal(shape);
                let params = Params::new().with("start_axis", start);
                s.add([x], params.with("end_axis", end));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let mut add = |start: i64, end: i64, message| {
                let params = Params::new().with("start_axis", start);
                bad.add([x.clone()], params.with("end_axis", end), message);
            };
            add(2, -1, "axis 2 is out of range for 2 dimensions");
            add(0, -3, "axis -3 is out of range for 2 dimensions");
            add(1, 0, "start_axis is 1, expected at most end_axis (0)");
        },
        ..Record::BLANK
    };
}

impl Operation for Flatten {
    fn record(&self) -> &'static Record {
        Flatten::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("flatten", inputs[0]);
        let ndim = x.ndim().max(1);
        let start = axis_index(op, self.start_axis, ndim)?;
        let end = axis_index(op, self.end_axis, ndim)?;
        if start > end {
            let expected = format!("at most end_axis ({})", self.end_axis);
            return Err(bad_parameter(op, "start_axis", expected, self.start_axis));
        }
        if x.ndim() == 0 {
            return Ok(spec(Shape::from([1]), x.dtype()));
        }
        let (before, rest) = x.shape().split_at(start);
        let (merged, after) = rest.split_at(end - start + 1);
        // The other sizes beside a 0 may be too large to multiply.
        let merged = Shape::from(merged).count(op)?;
        let sizes = before.iter().chain([&merged]).chain(after);
        Ok(spec(sizes.copied().collect(), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        Ok(smallvec![reshaped(inputs[0], &specs[0].shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| flatten_backward(call.grad(), call.inputs[0].shape()))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        if call.inputs[0].ndim() == 0 {
            return call.whole(ExpandDims { axes: Axes::from(-1i64) });
        }
        let (start_axis, end_axis) = (shifted(self.start_axis), shifted(self.end_axis));
        call.whole(Flatten { start_axis, end_axis })
    }
}
