//! A border around a tensor: of one value, or of its own numbers.

use crate::exec::copy::Copying;
use crate::exec::resample::Resample;
use crate::exec::{launch, launch_one};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::reduction::wide;
use crate::ops::shape::{bad_parameter, countable, optional, required};
use crate::tensor::{bits_of, expect_room};
use crate::{DType, Result, Shape, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::resample::{Along, Table};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// What lies around the elements of a padded tensor. A number stands for itself, as
/// [`Constant`](PadMode::Constant).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// This value.
    Constant(f64),
    /// The elements themselves, mirrored at the first and the last, which are not repeated:
    /// `c b | a b c | b a`.
    Reflect,
    /// The first and the last element, again and again: `a a | a b c | c c`.
    Replicate,
    /// The elements from the other end: `b c | a b c | a b`.
    Circular,
}

impl From<f64> for PadMode {
    fn from(value: f64) -> PadMode {
        PadMode::Constant(value)
    }
}

/// `x` with a border: `pads[i]` says how many elements before and after along axis `i`, and the mode
/// which: a value (a number is enough), or elements of `x`.
///
/// Conventions: by reflection at most all elements but one can be added on each side, in a circle at
/// most all; of nothing none.
///
/// ```
/// use extensor::ops::{PadMode, pad};
/// use extensor::tensor;
/// let y = pad(&tensor([1.0, 2.0]), [(1, 2)], 0.5)?;
/// assert_eq!(y.to_vec::<f64>()?, [0.5, 1.0, 2.0, 0.5, 0.5]);
/// let x = tensor([1, 2, 3]);
/// assert_eq!(x.pad([(2, 1)], PadMode::Reflect)?.to_vec::<i32>()?, [3, 2, 1, 2, 3, 2]);
/// assert_eq!(x.pad([(2, 1)], PadMode::Replicate)?.to_vec::<i32>()?, [1, 1, 1, 2, 3, 3]);
/// assert_eq!(x.pad([(2, 1)], PadMode::Circular)?.to_vec::<i32>()?, [2, 3, 1, 2, 3, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn pad(x: &Tensor, pads: impl AsRef<[(i64, i64)]>, mode: impl Into<PadMode>) -> Result<Tensor> {
    let pads = SmallVec::from_slice(pads.as_ref());
    apply_one(&Pad { pads, mode: mode.into() }, &[x])
}

/// The gradient of [`pad`]: the part of `grad_output` that `x` became, to which is added what its
/// elements became in the border. A view where that is none.
#[track_caller]
#[extensor_derive::noted]
pub fn pad_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    pads: impl AsRef<[(i64, i64)]>,
    mode: impl Into<PadMode>,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let pads = SmallVec::from_slice(pads.as_ref());
    // What the value is does not matter, and need not fit the gradient's dtype.
    let mode = match mode.into() {
        PadMode::Constant(_) => PadMode::Constant(0.0),
        mode => mode,
    };
    let [grad] = backward_of(&Pad { pads, mode }, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Debug)]
pub(crate) struct Pad {
    pads: SmallVec<[(i64, i64); 4]>,
    mode: PadMode,
}

impl Pad {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "pad",
        family: Family::Shape,
        formula: "y = x with a value around it, or its own elements: mirrored, the nearest, or in a circle",
        derivative: "the part of g that x became, and what x became around it added up",
        conventions: "by reflection at most all elements but one can be added on each side, in a circle at \
                      most all; of nothing none",
        backward: signature!(pad_backward(grad_output, shape(x); pads, mode)),
        params: &[
            required("pads", "pairs (before, after), one for each axis"),
            optional("value", "a number, for constant", "0"),
            optional(
                "mode",
                "constant, reflect, replicate (or edge), or circular (or wrap)",
                "constant",
            ),
        ],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let op = "pad";
            let pads = p.pairs(op, "pads")?.into();
            let value = p.float(op, "value", 0.0)?;
            let mode = match &*p.text(op, "mode", "constant")? {
                "constant" => PadMode::Constant(value),
                "reflect" => PadMode::Reflect,
                "replicate" | "edge" => PadMode::Replicate,
                "circular" | "wrap" => PadMode::Circular,
                other => {
                    let expected = "constant, reflect, replicate, or circular";
                    return Err(bad_parameter(op, "mode", expected, other));
                }
            };
            if value != 0.0 && !matches!(mode, PadMode::Constant(_)) {
                let expected = "0: only mode \"constant\" has a value";
                return Err(bad_parameter(op, "value", expected, value));
            }
            Ok(Box::new(Pad { pads, mode }))
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
            let cases: [(&[usize], Pads, &str); 11] = [
                (&[4, 3], &[(1, 3), (2, 0)], "reflect"),
                (&[2, 3, 5], &[(1, 1), (0, 0), (4, 2)], "reflect"),
                (&[1, 3], &[(0, 0), (0, 2)], "reflect"),
                (&[0, 3], &[(0, 0), (1, 1)], "reflect"),
                (&[3, 4], &[(5, 1), (0, 2)], "replicate"),
                (&[1, 2], &[(2, 3), (1, 0)], "replicate"),
                (&[2, 0], &[(1, 0), (0, 0)], "replicate"),
                (&[3, 4], &[(3, 1), (0, 4)], "circular"),
                (&[1, 5], &[(1, 1), (2, 3)], "circular"),
                (&[], &[], "reflect"),
                (&[3], &[(0, 0)], "circular"),
            ];
            for (shape, pads, mode) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("pads", pads.to_vec()).with("mode", mode));
            }
            for mode in ["reflect", "replicate", "circular"] {
                let x = s.normal(&[3, 150, 160]);
                let pads = Params::new().with("pads", vec![(0, 0), (20, 3), (7, 90)]);
                s.add_large([x], pads.with("mode", mode), "many numbers");
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |pads: &[(i64, i64)]| Params::new().with("pads", pads.to_vec());
            let message = "pads is [(1, 1)], expected 2 pairs, one for each axis";
            bad.add([x.clone()], params(&[(1, 1)]), message);
            let negative = params(&[(0, 0), (-1, 0)]);
            bad.add([x.clone()], negative, "expected numbers of at least 0");
            let huge = params(&[(i64::MAX, i64::MAX), (i64::MAX, 0)]);
            bad.add([x.clone()], huge.clone(), "more elements than memory can address");
            let nearest = huge.with("mode", "replicate");
            bad.add([x.clone()], nearest, "more elements than memory can address");
            let ints = bad.ones(&[2], DType::I32);
            let half = params(&[(1, 1)]).with("value", 0.5);
            let message = "value is 0.5, expected a number that i32 can hold";
            bad.add([ints], half, message);
            let mirrored = params(&[(0, 2), (0, 0)]).with("mode", "reflect");
            let message =
                "pads is [(0, 2), (0, 0)], expected at most 1 along axis 0 of size 2 to reflect";
            bad.add([x.clone()], mirrored, message);
            let wrapped = params(&[(0, 0), (4, 0)]).with("mode", "wrap");
            bad.add([x.clone()], wrapped, "expected at most 3 along axis 1 of size 3 in a circle");
            let none = bad.ones(&[2, 0], DType::F64);
            let edge = params(&[(1, 0), (0, 1)]).with("mode", "edge");
            bad.add([none], edge, "expected none along axis 1, which has no elements to repeat");
            let other = params(&[(0, 0), (0, 0)]).with("mode", "symmetric");
            let message =
                "mode is \"symmetric\", expected constant, reflect, replicate, or circular";
            bad.add([x.clone()], other, message);
            let valued = params(&[(0, 0), (1, 0)]).with("mode", "reflect").with("value", 2.0);
            bad.add([x], valued, "value is 2.0, expected 0: only mode \"constant\" has a value");
        },
        ..Record::BLANK
    };

    /// The axes that get a border, with their pads.
    fn padded(&self) -> impl DoubleEndedIterator<Item = (usize, (usize, usize))> {
        let some = |&(_, pads): &(usize, &(i64, i64))| *pads != (0, 0);
        let pads = self.pads.iter().enumerate().filter(some);
        pads.map(|(axis, &(before, after))| (axis, (before as usize, after as usize)))
    }

    /// What is wrong with the pads of an axis of `size`.
    fn refused(&self, axis: usize, size: usize, most: i64) -> Option<String> {
        let fits = |limit: usize| usize::try_from(most).is_ok_and(|most| most <= limit);
        let (limit, how) = match self.mode {
            PadMode::Constant(_) => return None,
            PadMode::Replicate if size > 0 || most == 0 => return None,
            PadMode::Replicate => {
                return Some(format!("none along axis {axis}, which has no elements to repeat"));
            }
            PadMode::Reflect => (size.saturating_sub(1), "to reflect"),
            PadMode::Circular => (size, "in a circle"),
        };
        let expected = format!("at most {limit} along axis {axis} of size {size} {how}");
        (!fits(limit)).then_some(expected)
    }

    /// `x` with its own elements before and after along an axis.
    fn extended(&self, x: &Tensor, axis: usize, pads: (usize, usize)) -> Result<Tensor> {
        let (before, after, size) = (pads.0 as i64, pads.1 as i64, x.shape()[axis] as i64);
        let along = axis as i64;
        let part = |start: i64, stop: i64| ops::slice(x, along, start, stop, 1);
        let again = |at: i64, times: i64| {
            let mut shape = x.shape().clone();
            shape.set(axis, times as usize);
            ops::broadcast_to(&part(at, at + 1)?, shape)
        };
        let mut parts: SmallVec<[Tensor; 3]> = SmallVec::new();
        if before > 0 {
            parts.push(match self.mode {
                PadMode::Reflect => ops::flip(&part(1, before + 1)?, along)?,
                PadMode::Circular => part(size - before, size)?,
                PadMode::Replicate | PadMode::Constant(_) => again(0, before)?,
            });
        }
        parts.push(x.clone());
        if after > 0 {
            parts.push(match self.mode {
                PadMode::Reflect => ops::flip(&part(size - 1 - after, size - 1)?, along)?,
                PadMode::Circular => part(0, after)?,
                PadMode::Replicate | PadMode::Constant(_) => again(size - 1, after)?,
            });
        }
        ops::concatenate(&parts, along)
    }

    /// Which element of an axis of `size` each of the padded axis is.
    fn table(&self, size: usize, (before, after): (usize, usize)) -> Table {
        let mut table = Table::new(size);
        for at in 0..before + size + after {
            let at = at as i64 - before as i64;
            let last = size as i64 - 1;
            let from = match self.mode {
                PadMode::Reflect if at < 0 => -at,
                PadMode::Reflect if at > last => 2 * last - at,
                PadMode::Circular => at.rem_euclid(size as i64),
                _ => at.clamp(0, last),
            };
            table.push([(from as usize, 1.0)]);
        }
        table
    }

    /// What a gradient along a padded axis of an axis of `size` comes to.
    fn folded(&self, g: &Tensor, axis: usize, size: usize, pads: (usize, usize)) -> Result<Tensor> {
        let g = g.contiguous()?;
        let [outer, inner] =
            [&g.shape()[..axis], &g.shape()[axis + 1..]].map(|part| part.iter().product::<usize>());
        // For each element where it comes from, and on the way back.
        expect_room("pad_backward", g.shape()[axis], 64)?;
        let along = Along::Table(self.table(size, pads).transposed());
        let (planes, rows, columns) = match inner {
            1 => (1, Along::Same(outer), along),
            _ => (outer, along, Along::Same(inner)),
        };
        let mut shape = g.shape().clone();
        shape.set(axis, size);
        let kernel = Resample { planes, rows: Arc::new(rows), columns: Arc::new(columns) };
        launch_one("pad_backward", &kernel, &[&g], Spec { shape, dtype: g.dtype() })
    }
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
        for (axis, (&(before, after), &size)) in pads.iter().zip(x.shape().iter()).enumerate() {
            if let Some(expected) = self.refused(axis, size, before.max(after)) {
                return Err(bad_parameter(op, "pads", expected, pads));
            }
        }
        if let PadMode::Constant(value) = self.mode {
            bits_of(op, value, x.dtype()).map_err(|_| {
                let expected = format!("a number that {} can hold", x.dtype());
                bad_parameter(op, "value", expected, value)
            })?;
        }
        let sizes = pads.iter().zip(x.shape().iter());
        let sizes = sizes.map(|(&(before, after), &size)| {
            size.checked_add(before as usize)?.checked_add(after as usize)
        });
        Ok(spec(countable(op, sizes)?, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        if let PadMode::Constant(value) = self.mode {
            let before = self.pads.iter().map(|p| p.0 as usize).collect();
            let value = bits_of("pad", value, inputs[0].dtype())?;
            return launch("pad", &Copying::Pad { before, value }, &[inputs[0]], specs);
        }
        // An axis at a time: corners are made of what is there already.
        let mut y = inputs[0].clone();
        for (axis, pads) in self.padded() {
            y = self.extended(&y, axis, pads)?;
        }
        Ok(smallvec![y])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let shape = call.inputs[0].shape();
        call.one(|| {
            let mut grad = call.grad().clone();
            if let PadMode::Constant(_) = self.mode {
                for (axis, (before, _)) in self.padded() {
                    let stop = before + shape[axis];
                    grad = ops::slice(&grad, axis as i64, before as i64, stop as i64, 1)?;
                }
                return Ok(grad);
            }
            // Rounded once, after the last axis.
            if self.padded().count() > 1 {
                grad = ops::cast(&grad, wide(grad.dtype()))?;
            }
            for (axis, pads) in self.padded().rev() {
                grad = self.folded(&grad, axis, shape[axis], pads)?;
            }
            Ok(grad)
        })
    }
    fn linear_part(&self) -> Option<Box<dyn Operation>> {
        let mode = match self.mode {
            PadMode::Constant(_) => PadMode::Constant(0.0),
            mode => mode,
        };
        Some(Box::new(Pad { pads: self.pads.clone(), mode }))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let pads = std::iter::once((0, 0)).chain(self.pads.iter().copied()).collect();
        call.whole(Pad { pads, mode: self.mode })
    }
}
