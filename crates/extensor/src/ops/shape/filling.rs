//! More of a tensor: repeated, or with a border.

use crate::exec::copy::Copying;
use crate::exec::launch;
use crate::ops::batching::{Batch, Batched, View};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::{bad_parameter, countable, optional, required};
use crate::tensor::bits_of;
use crate::{DType, Integers, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

/// `x` repeated `repeats[i]` times along axis `i`. Where `x` has more axes than there are numbers,
/// the first axes are not repeated; where it has fewer, it gets new leading axes.
///
/// Conventions: numbers and axes are matched from the last on.
///
/// ```
/// use extensor::ops::tile;
/// use extensor::tensor;
/// let y = tile(&tensor([1, 2]), [2, 2])?;
/// assert_eq!(y.shape(), [2, 4]);
/// assert_eq!(y.to_vec::<i32>()?, [1, 2, 1, 2, 1, 2, 1, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn tile(x: &Tensor, repeats: impl Integers) -> Result<Tensor> {
    let repeats = repeats.integers();
    apply_one(&Tile { repeats }, &[x])
}

/// The gradient of [`tile`]: `grad_output` summed over the repetitions.
#[track_caller]
#[extensor_derive::noted]
pub fn tile_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    repeats: impl Integers,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let repeats = repeats.integers();
    let [grad] = backward_of(&Tile { repeats }, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Debug)]
pub(crate) struct Tile {
    repeats: SmallVec<[i64; 4]>,
}

impl Tile {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "tile",
        family: Family::Shape,
        formula: "y = x repeated along its axes",
        derivative: "g summed over the repetitions",
        conventions: "numbers and axes are matched from the last on",
        backward: signature!(tile_backward(grad_output, shape(x); repeats)),
        params: &[required("repeats", "how often, for each axis")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let repeats = p.ints("tile", "repeats")?.into();
            Ok(Box::new(Tile { repeats }))
        },
        samples: |s| {
            let cases: [(&[usize], &[i64]); 9] = [
                (&[2, 3], &[2, 3]),
                (&[2, 3], &[2]),
                (&[3], &[2, 2]),
                (&[], &[3]),
                (&[], &[]),
                (&[2, 3], &[1, 1]),
                (&[2, 3], &[0, 2]),
                (&[0, 3], &[2, 2]),
                (&[2, 1, 3], &[2, 4, 1]),
            ];
            for (shape, repeats) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("repeats", repeats));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = Params::new().with("repeats", [2, -1]);
            let message = "repeats is [2, -1], expected numbers of at least 0";
            bad.add([x.clone()], params, message);
            let params = Params::new().with("repeats", [i64::MAX, i64::MAX]);
            bad.add([x], params, "more elements than memory can address");
        },
        ..Record::BLANK
    };

    /// For each axis of the result how often and how much is repeated.
    fn pairs(&self, shape: &Shape) -> Result<SmallVec<[(usize, usize); 6]>> {
        let ndim = shape.len().max(self.repeats.len());
        let from_end = |i: usize, len: usize| (i + len).checked_sub(ndim);
        let pair = |i: usize| {
            let times = from_end(i, self.repeats.len()).map_or(1, |k| self.repeats[k]);
            let size = from_end(i, shape.len()).map_or(1, |k| shape[k]);
            let times = usize::try_from(times).map_err(|_| {
                let expected = "numbers of at least 0";
                bad_parameter("tile", "repeats", expected, &self.repeats[..])
            })?;
            Ok((times, size))
        };
        (0..ndim).map(pair).collect()
    }
}

impl Operation for Tile {
    fn record(&self) -> &'static Record {
        Tile::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let pairs = self.pairs(inputs[0].shape())?;
        let sizes = pairs.iter().map(|&(times, size)| times.checked_mul(size));
        Ok(spec(countable("tile", sizes)?, inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        if specs[0].shape.contains(&0) {
            let Spec { shape, dtype } = specs[0].clone();
            return Ok(smallvec![Tensor::zeros(shape, dtype)?]);
        }
        // Each axis beside one along which nothing changes; then both as one, in a copy.
        let pairs = self.pairs(x.shape())?;
        let once: Shape = pairs.iter().flat_map(|&(_, size)| [1, size]).collect();
        let often: Shape = pairs.iter().flat_map(|&(times, size)| [times, size]).collect();
        let repeated = ops::broadcast_to(&ops::reshape(x, &once)?, &often)?;
        Ok(smallvec![ops::reshape(&repeated, &specs[0].shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let shape = call.inputs[0].shape();
        call.one(|| {
            let pairs = self.pairs(shape)?;
            let often: Shape = pairs.iter().flat_map(|&(times, size)| [times, size]).collect();
            let repetitions: SmallVec<[i64; 6]> = (0..pairs.len() as i64).map(|i| 2 * i).collect();
            let apart = ops::reshape(call.grad(), &often)?;
            ops::reshape(&ops::sum(&apart, &repetitions[..])?, shape)
        })
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let repeats = std::iter::once(1).chain(self.repeats.iter().copied());
        let missing = call.inputs[0].ndim().saturating_sub(self.repeats.len());
        let repeats = std::iter::repeat_n(1, missing).chain(repeats).collect();
        // More repetitions than axes: the new axes are the example's, after the batch's.
        let view = View { ndim: self.repeats.len(), ..View::WHOLE };
        call.call(Box::new(Tile { repeats }), view, View::default())
    }
}

/// `x` with `value` around it: `pads[i]` says how many elements before and after along axis `i`.
///
/// ```
/// use extensor::ops::pad;
/// use extensor::tensor;
/// let y = pad(&tensor([1.0, 2.0]), [(1, 2)], 0.5)?;
/// assert_eq!(y.to_vec::<f64>()?, [0.5, 1.0, 2.0, 0.5, 0.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn pad(x: &Tensor, pads: impl AsRef<[(i64, i64)]>, value: f64) -> Result<Tensor> {
    let pads = SmallVec::from_slice(pads.as_ref());
    apply_one(&Pad { pads, value }, &[x])
}

/// The gradient of [`pad`]: the part of `grad_output` that `x` became. A view.
#[track_caller]
#[extensor_derive::noted]
pub fn pad_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    pads: impl AsRef<[(i64, i64)]>,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let pads = SmallVec::from_slice(pads.as_ref());
    let op = Pad { pads, value: 0.0 };
    let [grad] = backward_of(&op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Debug)]
pub(crate) struct Pad {
    pads: SmallVec<[(i64, i64); 4]>,
    value: f64,
}

impl Pad {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "pad",
        family: Family::Shape,
        formula: "y = x with a value around it",
        derivative: "the part of g that x became",
        backward: signature!(pad_backward(grad_output, shape(x); pads)),
        params: &[
            required("pads", "pairs (before, after), one for each axis"),
            optional("value", "a number", "0"),
        ],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let pads = p.pairs("pad", "pads")?.into();
            let value = p.float("pad", "value", 0.0)?;
            Ok(Box::new(Pad { pads, value }))
        },
        samples: |s| {
            type Pads = &'static [(i64, i64)];
            let cases: [(&[usize], Pads, f64); 8] = [
                (&[3, 4], &[(1, 2), (0, 1)], 0.5),
                (&[3, 4], &[(0, 0), (2, 0)], 0.5),
                (&[3, 4], &[(0, 0), (0, 0)], 0.5),
                (&[2, 1, 3], &[(1, 0), (1, 1), (0, 2)], -1.5),
                (&[], &[], 0.5),
                (&[0], &[(1, 2)], 0.5),
                (&[0, 3], &[(0, 0), (1, 1)], 0.5),
                (&[2, 0], &[(1, 0), (1, 0)], 0.0),
            ];
            for (shape, pads, value) in cases {
                let x = s.normal(shape);
                let params = Params::new().with("pads", pads.to_vec());
                s.add([x], params.with("value", value));
            }
            let (x, params) = (s.normal(&[2]), Params::new().with("pads", vec![(1, 1)]));
            let params = params.with("value", f64::NEG_INFINITY);
            s.add_noted([x], params, "padding by minus infinity");
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |pads: &[(i64, i64)]| Params::new().with("pads", pads.to_vec());
            let message = "pads is [(1, 1)], expected 2 pairs, one for each axis";
            bad.add([x.clone()], params(&[(1, 1)]), message);
            let negative = params(&[(0, 0), (-1, 0)]);
            bad.add([x.clone()], negative, "expected numbers of at least 0");
            let huge = params(&[(i64::MAX, i64::MAX), (i64::MAX, 0)]);
            bad.add([x], huge, "more elements than memory can address");
            let ints = bad.ones(&[2], DType::I32);
            let half = params(&[(1, 1)]).with("value", 0.5);
            let message = "value is 0.5, expected a number that i32 can hold";
            bad.add([ints], half, message);
        },
        ..Record::BLANK
    };
}

impl Operation for Pad {
    fn record(&self) -> &'static Record {
        Pad::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("pad", inputs[0]);
        let pads = &self.pads[..];
        if pads.len() != x.ndim() {
            let expected = format!("{} pairs, one for each axis", x.ndim());
            return Err(bad_parameter(op, "pads", expected, pads));
        }
        if pads.iter().any(|&(before, after)| before < 0 || after < 0) {
            let expected = "numbers of at least 0";
            return Err(bad_parameter(op, "pads", expected, pads));
        }
        bits_of(op, self.value, x.dtype()).map_err(|_| {
            let expected = format!("a number that {} can hold", x.dtype());
            bad_parameter(op, "value", expected, self.value)
        })?;
        let sizes = pads.iter().zip(x.shape().iter());
        let sizes = sizes.map(|(&(before, after), &size)| {
            size.checked_add(before as usize)?.checked_add(after as usize)
        });
        Ok(spec(countable(op, sizes)?, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let before = self.pads.iter().map(|p| p.0 as usize).collect();
        let value = bits_of("pad", self.value, inputs[0].dtype())?;
        launch("pad", &Copying::Pad { before, value }, &[inputs[0]], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| {
            let mut grad = call.grad().clone();
            for (axis, &(before, after)) in self.pads.iter().enumerate() {
                if before != 0 || after != 0 {
                    let stop = before + call.inputs[0].shape()[axis] as i64;
                    grad = ops::slice(&grad, axis as i64, before, stop, 1)?;
                }
            }
            Ok(grad)
        })
    }
    fn linear_part(&self) -> Option<Box<dyn Operation>> {
        let (pads, value) = (self.pads.clone(), 0.0);
        Some(Box::new(Pad { pads, value }))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let pads = std::iter::once((0, 0)).chain(self.pads.iter().copied()).collect();
        call.whole(Pad { pads, value: self.value })
    }
}
