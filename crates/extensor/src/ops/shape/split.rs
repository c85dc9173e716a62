//! An axis cut into parts: views.

use crate::ops::batching::{Batch, Batched, shifted};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs, apply};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::slicing::{Taken, part};
use crate::ops::shape::{PART, backward_of_many, bad_parameter, bad_shape, optional, required};
use crate::tensor::{axis_index, expect_room};
use crate::{DType, Error, Integers, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::SmallVec;
use std::borrow::Borrow;

/// How [`split`] cuts an axis: into a number of equal parts (`3`), or into parts of these sizes
/// (`[2, 1, 4]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sections {
    /// This many parts of equal size.
    Equal(i64),
    /// Parts of these sizes, which must add up to that of the axis.
    Sizes(SmallVec<[i64; 4]>),
}

macro_rules! sections_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Sections {
            fn from(count: $t) -> Sections {
                Sections::Equal(i64::try_from(count).unwrap_or(i64::MAX))
            }
        }
        impl<const N: usize> From<[$t; N]> for Sections {
            fn from(sizes: [$t; N]) -> Sections {
                Sections::Sizes(sizes.integers())
            }
        }
        impl From<&[$t]> for Sections {
            fn from(sizes: &[$t]) -> Sections {
                Sections::Sizes(sizes.integers())
            }
        }
    )*};
}
sections_from!(i32, i64, usize);

/// `x` cut along `axis` into equal parts, or into parts of given sizes. The parts are views.
///
/// Conventions: the parts are views.
///
/// ```
/// use extensor::ops::split;
/// use extensor::tensor;
/// let x = tensor([1, 2, 3, 4, 5, 6]);
/// let halves = split(&x, 2, 0)?;
/// assert_eq!(halves[1].to_vec::<i32>()?, [4, 5, 6]);
/// let parts = split(&x, [1, 5], 0)?;
/// assert_eq!(parts[0].to_vec::<i32>()?, [1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn split(x: &Tensor, sections: impl Into<Sections>, axis: i64) -> Result<Vec<Tensor>> {
    let sections = sections.into();
    Ok(apply(&Split { sections, axis }, &[x])?.into_vec())
}

/// The gradient of [`split`], from those of the parts: they are joined again.
#[track_caller]
#[extensor_derive::noted]
pub fn split_backward(grad_outputs: &[impl Borrow<Tensor>], axis: i64) -> Result<Tensor> {
    let op = "split_backward";
    let grads: Vec<&Tensor> = grad_outputs.iter().map(Borrow::borrow).collect();
    let first = grads.first().ok_or_else(|| Error::Inputs {
        op,
        expected: "grad_output0, grad_output1, …".into(),
        got: "0 tensors".into(),
    })?;
    let at = axis_index(op, axis, first.ndim())?;
    let mut total = 0usize;
    let mut parts = SmallVec::new();
    for grad in &grads {
        let size = grad.shape().get(at).copied().unwrap_or(0);
        total = total.saturating_add(size);
        parts.push(size as i64);
    }
    let mut shape = first.shape().clone();
    shape.set(at, total);
    let sections = Sections::Sizes(parts);
    let found = backward_of_many(&Split { sections, axis }, &grads, &[shape])?;
    found.into_iter().next().ok_or(Error::NotDifferentiable {
        op: "split",
        argument: "x".into(),
        reason: "its rule returned no gradient",
    })
}

/// The most parts that a short axis is cut into.
const MOST_EMPTY: usize = 1 << 16;

#[derive(Clone, Debug)]
pub(crate) struct Split {
    sections: Sections,
    axis: i64,
}

impl Split {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "split",
        family: Family::Shape,
        formula: "y0, y1, … = x cut along an axis",
        derivative: "the parts' gradients joined",
        conventions: "the parts are views",
        backward: signature!(split_backward(grad_outputs; axis)),
        params: &[
            required("sections", "how many equal parts, or a list of sizes"),
            optional("axis", "an axis", "0"),
        ],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let sections = match p.int("split", "sections") {
                Ok(count) => Sections::Equal(count),
                Err(_) => Sections::Sizes(p.ints("split", "sections")?.into()),
            };
            let axis = p.optional_int("split", "axis")?.unwrap_or(0);
            Ok(Box::new(Split { sections, axis }))
        },
        samples: |s| {
            let params = |axis: i64| Params::new().with("axis", axis);
            let equal: [(&[usize], i64, i64); 4] =
                [(&[6], 3, 0), (&[2, 4], 2, -1), (&[3], 1, 0), (&[0, 2], 2, 0)];
            for (shape, count, axis) in equal {
                let x = s.normal(shape);
                s.add([x], params(axis).with("sections", count));
            }
            let sized: [(&[usize], &[i64], i64); 4] = [
                (&[6], &[1, 2, 3], 0),
                (&[2, 4], &[4], 1),
                (&[2, 4], &[0, 3, 1], -1),
                (&[2, 0, 3], &[1, 1], 0),
            ];
            for (shape, sizes, axis) in sized {
                let x = s.normal(shape);
                s.add([x], params(axis).with("sections", sizes));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |axis: i64| Params::new().with("axis", axis);
            let mut add = |params: Params, message| bad.add([x.clone()], params, message);
            add(params(2).with("sections", 1), "axis 2 is out of range");
            let two = params(1).with("sections", 2);
            add(two, "a size along axis 1 that 2 divides");
            let none = params(1).with("sections", 0);
            add(none, "sections is 0, expected a number from 1 to");
            let short = params(1).with("sections", [1, 1]);
            add(short, "expected sizes of at least 0 that add up to 3");
            let negative = params(1).with("sections", [4, -1]);
            add(negative, "sections is [4, -1], expected sizes of at least 0");
        },
        ..Record::BLANK
    };

    /// The axis, and the size of each part along it.
    fn parts(&self, shape: &Shape) -> Result<(usize, SmallVec<[usize; 4]>)> {
        let op = "split";
        let axis = axis_index(op, self.axis, shape.len())?;
        let size = shape[axis];
        match &self.sections {
            &Sections::Equal(count) => {
                // An empty axis has empty parts, but not any number of them.
                let most = size.max(MOST_EMPTY) as i64;
                if count < 1 || count > most {
                    let expected = format!("a number from 1 to {most}");
                    return Err(bad_parameter(op, "sections", expected, count));
                }
                let count = count as usize;
                if !size.is_multiple_of(count) {
                    let expected = format!("a size along axis {axis} that {count} divides");
                    return Err(bad_shape(op, "x", expected, shape));
                }
                expect_room(op, count, PART)?;
                Ok((axis, SmallVec::from_elem(size / count, count)))
            }
            Sections::Sizes(list) => {
                let sizes = list.iter().map(|&size| usize::try_from(size));
                let sizes = sizes.collect::<std::result::Result<SmallVec<[usize; 4]>, _>>();
                let total = |sizes: &SmallVec<[usize; 4]>| {
                    let add = |sum: usize, &size: &usize| sum.checked_add(size);
                    sizes.iter().try_fold(0, add)
                };
                match sizes {
                    Ok(sizes) if total(&sizes) == Some(size) => Ok((axis, sizes)),
                    _ => {
                        let expected = format!("sizes of at least 0 that add up to {size}");
                        Err(bad_parameter(op, "sections", expected, &list[..]))
                    }
                }
            }
        }
    }
}

impl Operation for Split {
    fn record(&self) -> &'static Record {
        Split::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        let (axis, sizes) = self.parts(x.shape())?;
        let part = |&size: &usize| {
            let mut shape = x.shape().clone();
            shape.set(axis, size);
            let dtype = x.dtype();
            Spec { shape, dtype }
        };
        Ok(sizes.iter().map(part).collect())
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        let axis = axis_index("split", self.axis, x.ndim())?;
        let mut first = 0;
        let view = |Spec { shape, .. }: Spec| {
            let (count, step) = (shape[axis], 1);
            let taken = Taken { axis, first, count, step };
            first += count;
            part(x, shape, &taken)
        };
        Ok(specs.into_iter().map(view).collect())
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| ops::concatenate(call.grads, self.axis))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Split { axis: shifted(self.axis), ..self.clone() })
    }
}
