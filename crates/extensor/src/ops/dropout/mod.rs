//! Numbers left out at random, from a key.
//!
//! The mask is an auxiliary output: what was dropped is known to the backward rule from it, and not
//! drawn again.

use crate::exec::choose::Choose;
use crate::exec::launch_one;
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply, backward, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::ops::samples::{Bad, Sampler};
use crate::tensor::of_seed;
use crate::{DType, Error, Key, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

/// Drops each number with probability `p` and scales the others by `1/(1 − p)`, so that the mean
/// stays; returns the result and the mask of those kept.
///
/// The mask depends on the key and on the shape alone: it is the same on every machine. A dropped
/// number gives 0, whatever it was.
///
/// Conventions: the outputs are y and the mask of what is kept; a dropped number gives 0, whatever it
/// was; where training is false y is x and the mask all true.
///
/// ```
/// use extensor::ops::dropout;
/// use extensor::{Key, Tensor, DType};
/// let x = Tensor::ones([1000], DType::F32)?;
/// let (y, mask) = dropout(&x, 0.5, Key::new(7))?;
/// let kept = mask.to_vec::<bool>()?;
/// for (y, kept) in y.to_vec::<f32>()?.iter().zip(&kept) {
///     assert_eq!(*y, if *kept { 2.0 } else { 0.0 });
/// }
/// assert!((400..600).contains(&kept.iter().filter(|k| **k).count()));
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn dropout(x: &Tensor, p: f64, key: Key) -> Result<(Tensor, Tensor)> {
    both(&Dropout { grain: &EACH, p, key, training: true, examples: SmallVec::new() }, x)
}

/// The gradient of [`dropout`]: `grad_output/(1 − p)` where the mask is true, 0 elsewhere.
#[track_caller]
#[extensor_derive::noted]
pub fn dropout_backward(grad_output: &Tensor, mask: &Tensor, p: f64) -> Result<Tensor> {
    backward_at(&EACH, grad_output, mask, p)
}

/// Drops each channel of `[N, C, H, W]` with probability `p` and scales the others by `1/(1 − p)`;
/// returns the result and the mask of those kept, of shape `[N, C, 1, 1]`.
///
/// Conventions: the outputs are y and the mask of what is kept; a dropped number gives 0, whatever it
/// was; where training is false y is x and the mask all true.
///
/// ```
/// use extensor::ops::dropout2d;
/// use extensor::{Key, Tensor, DType};
/// let x = Tensor::ones([2, 3, 4, 4], DType::F32)?;
/// let (y, mask) = dropout2d(&x, 0.5, Key::new(7))?;
/// assert_eq!(mask.shape(), [2, 3, 1, 1]);
/// for (image, kept) in y.to_vec::<f32>()?.chunks(16).zip(mask.to_vec::<bool>()?) {
///     assert!(image.iter().all(|v| *v == if kept { 2.0 } else { 0.0 }));
/// }
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn dropout2d(x: &Tensor, p: f64, key: Key) -> Result<(Tensor, Tensor)> {
    both(&Dropout { grain: &CHANNELS, p, key, training: true, examples: SmallVec::new() }, x)
}

/// The gradient of [`dropout2d`]: `grad_output/(1 − p)` where the mask, of shape `[N, C, 1, 1]`, is
/// true, 0 elsewhere.
#[track_caller]
#[extensor_derive::noted]
pub fn dropout2d_backward(grad_output: &Tensor, mask: &Tensor, p: f64) -> Result<Tensor> {
    backward_at(&CHANNELS, grad_output, mask, p)
}

/// What other operations drop of their own numbers, as [`dropout`] does with this key, or with the `seed` that stands for
/// it; `examples` are the sizes of first axes whose elements are examples of a batch. It is linear, and drops the same
/// whenever it is called.
#[track_caller]
pub(super) fn dropped(
    x: &Tensor,
    p: f64,
    key: Key,
    examples: &[usize],
    seed: Option<&Tensor>,
) -> Result<Tensor> {
    let op = Dropout { grain: &EACH, p, key, training: true, examples: examples.into() };
    let inputs: SmallVec<[&Tensor; 2]> = std::iter::once(x).chain(seed).collect();
    Ok(apply(&op, &inputs)?.swap_remove(0))
}

/// What is dropped together.
#[derive(Debug)]
struct Grain {
    record: fn() -> &'static Record,
    name: &'static str,
    backward: &'static str,
    /// The shape of the mask for an input of this shape.
    mask: fn(&Shape) -> Result<Shape>,
}

static EACH: Grain = Grain {
    record: || Dropout::RECORD,
    name: "dropout",
    backward: "dropout_backward",
    mask: |shape| Ok(shape.clone()),
};

static CHANNELS: Grain = Grain {
    record: || Dropout::CHANNELS_RECORD,
    name: "dropout2d",
    backward: "dropout2d_backward",
    mask: |shape| match shape[..] {
        [n, c, _, _] => Ok(Shape::from([n, c, 1, 1])),
        _ => Err(Error::Shape {
            op: "dropout2d",
            argument: "x",
            expected: "[N, C, H, W]".into(),
            got: shape.clone(),
        }),
    },
};

#[derive(Clone, Debug)]
pub(crate) struct Dropout {
    grain: &'static Grain,
    p: f64,
    key: Key,
    training: bool,
    /// Sizes of first axes whose elements are examples of a batch, each with a key of its own.
    examples: SmallVec<[usize; 1]>,
}

#[track_caller]
fn both(op: &Dropout, x: &Tensor) -> Result<(Tensor, Tensor)> {
    // A key of which each example has another is an input, not a parameter.
    let seed = op.key.mapped_seed()?;
    let inputs: SmallVec<[&Tensor; 2]> = std::iter::once(x).chain(&seed).collect();
    let mut outputs = apply(op, &inputs)?;
    let y = outputs.swap_remove(0);
    Ok((y, outputs.swap_remove(0)))
}

#[track_caller]
fn backward_at(
    grain: &'static Grain,
    grad_output: &Tensor,
    mask: &Tensor,
    p: f64,
) -> Result<Tensor> {
    let op = Dropout { grain, p, key: Key::new(0), training: true, examples: SmallVec::new() };
    let x = placeholder(grad_output.shape(), grad_output.dtype())?;
    let specs = op.infer(&[&x])?;
    let name = grain.backward;
    if mask.dtype() != DType::Bool {
        let (argument, expected, got) = ("mask", "bool", mask.dtype());
        return Err(Error::DType { op: name, argument, expected, got });
    }
    if *mask.shape() != specs[1].shape {
        let (expected, got) = (specs[1].shape.to_string(), mask.shape().clone());
        return Err(Error::Shape { op: name, argument: "mask", expected, got });
    }
    let mut grads = backward(&op, &[grad_output], &[&x], &[&x, mask], &[true])?;
    grads.swap_remove(0).ok_or(Error::NotDifferentiable {
        op: grain.name,
        argument: "x".into(),
        reason: "its rule returned no gradient",
    })
}

impl Dropout {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "dropout",
        formula: "y = x/(1 − p) with probability 1 − p, 0 with probability p",
        derivative: "y′ = 1/(1 − p) where the mask is true, 0 elsewhere",
        backward: signature!(dropout_backward(grad_output, auxiliary(mask); p)),
        build: |p| Dropout::build(&EACH, p),
        samples: |s| samples(s, &[&[], &[5], &[3, 4], &[2, 3, 4], &[0, 3], &[1], &[70]]),
        errors,
        ..Dropout::SHARED
    };

    pub(crate) const CHANNELS_RECORD: &'static Record = &Record {
        name: "dropout2d",
        formula: "y = x/(1 − p) for a channel with probability 1 − p, 0 with probability p",
        derivative: "y′ = 1/(1 − p) for channels where the mask is true, 0 elsewhere",
        backward: signature!(dropout2d_backward(grad_output, auxiliary(mask); p)),
        build: |p| Dropout::build(&CHANNELS, p),
        samples: |s| samples(s, &[&[2, 3, 2, 2], &[1, 5, 1, 3], &[0, 2, 2, 2], &[2, 3, 0, 2]]),
        errors: |bad| {
            errors(bad);
            let x = bad.ones(&[2, 3, 4], DType::F64);
            let message = "x has shape [2, 3, 4], expected [N, C, H, W]";
            bad.add([x], params(0.5), message);
        },
        ..Dropout::SHARED
    };

    const SHARED: Record = Record {
        family: Family::Dropout,
        conventions: "the outputs are y and the mask of what is kept; a dropped number gives 0, \
                      whatever it was; where training is false y is x and the mask all true",
        params: &[
            Parameter { name: "p", what: "the share that is dropped, in [0, 1)", default: None },
            Parameter { name: "key", what: "the number of a random key", default: None },
            Parameter { name: "training", what: "whether to drop", default: Some("true") },
        ],
        class: Class::Linear,
        needs: Needs::Auxiliary,
        auxiliary: 1,
        ..Record::BLANK
    };

    fn build(grain: &'static Grain, params: &Params) -> Result<Box<dyn Operation>> {
        let op = grain.name;
        let p = params.optional_float(op, "p")?.ok_or_else(|| bad_p(op, "None".into()))?;
        let key = params.key(op, "key")?;
        let training = params.bool(op, "training", true)?;
        Ok(Box::new(Dropout { grain, p, key, training, examples: SmallVec::new() }))
    }

    /// The mask of what is kept: each example's is drawn with its own key.
    fn mask(&self, key: Key, examples: &[usize], shape: Shape) -> Result<Tensor> {
        let Some((&size, inner)) = examples.split_first() else {
            return key.mask(self.grain.name, shape, self.p);
        };
        let own = Shape::from(&shape[1..]);
        let each = (0..size).map(|i| self.mask(key.fold_in(i as u64), inner, own.clone()));
        ops::stack(&each.collect::<Result<Vec<_>>>()?, 0)
    }

    /// `x/(1 − p)` where the mask, which broadcasts to `x`, is true.
    fn keep(&self, op: &'static str, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let spec = Spec { shape: x.shape().clone(), dtype: x.dtype() };
        let mask = ops::broadcast_to(mask, x.shape())?;
        let scale = 1.0 / (1.0 - self.p);
        launch_one(op, &Choose::Scaled(scale), &[&mask, x], spec)
    }
}

fn bad_p(op: &'static str, got: String) -> Error {
    let expected = "a number from 0 up to but without 1".into();
    Error::Parameter { op, parameter: "p", expected, got }
}

fn params(p: f64) -> Params {
    Params::new().with("p", p).with("key", 7)
}

fn samples(s: &mut Sampler, shapes: &[&[usize]]) {
    for &shape in shapes {
        for p in [0.0, 0.05, 0.3, 0.5, 0.9] {
            let x = s.normal(shape);
            s.add([x], params(p));
        }
    }
    let x = s.normal(shapes[0]);
    s.add_noted([x], params(0.5).with("training", false), "the identity");
}

fn errors(bad: &mut Bad) {
    let x = bad.ones(&[2, 3, 4, 5], DType::F64);
    for (p, message) in [
        (1.0, "p is 1.0, expected a number from 0 up to but without 1"),
        (-0.1, "p is -0.1, expected a number from 0"),
        (f64::NAN, "p is NaN, expected a number from 0"),
    ] {
        bad.add([x.clone()], params(p), message);
    }
    let keyless = Params::new().with("p", 0.5);
    bad.add([x.clone()], keyless, "key is None, expected a whole number");
    bad.add([x], Params::new().with("key", 1), "p is None, expected a number from 0");
    let ints = bad.ones(&[2, 3, 4, 5], DType::I32);
    bad.add([ints], params(0.5), "x has dtype i32, expected a float type");
}

impl Operation for Dropout {
    fn record(&self) -> &'static Record {
        (self.grain.record)()
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = (self.grain.name, inputs[0]);
        x.dtype().expect_float(op, "x")?;
        if !(0.0..1.0).contains(&self.p) {
            return Err(bad_p(op, format!("{:?}", self.p)));
        }
        let mut specs = spec(x.shape().clone(), x.dtype());
        let (before, own) = x.shape().split_at(self.examples.len().min(x.ndim()));
        let own = (self.grain.mask)(&Shape::from(own))?;
        let shape = before.iter().chain(own.iter()).copied().collect();
        specs.push(Spec { shape, dtype: DType::Bool });
        Ok(specs)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let shape = specs.swap_remove(1).shape;
        let x = inputs[0];
        if !self.training {
            return Ok(smallvec![x.clone(), Tensor::constant(1.0, &shape, DType::Bool)?]);
        }
        let key = inputs.get(1).map_or(Ok(self.key), |seed| of_seed(&seed.copied()?))?;
        let mask = self.mask(key, &self.examples, shape)?;
        Ok(smallvec![self.keep(self.grain.name, x, &mask)?, mask])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let mut grads = call.one(|| {
            if self.training {
                self.keep(self.grain.backward, call.grad(), call.outputs[1])
            } else {
                Ok(call.grad().clone())
            }
        })?;
        grads.resize(call.inputs.len(), None);
        Ok(grads)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        // Keys that are inputs are another for each example already.
        if call.inputs.len() > 1 {
            return Batched::Loop;
        }
        let examples = std::iter::once(call.size).chain(self.examples.iter().copied()).collect();
        call.whole(Dropout { examples, ..self.clone() })
    }
}
