//! Numbers brought to mean 0 and variance 1, group by group.
//!
//! All of them are `y = x̂·gamma + beta` with `x̂ = (x − mean)/√(variance + eps)`; they differ in
//! which numbers are a group, and which factor belongs to which. Where the root is 0, since `eps` is
//! and the numbers are equal, 1e-10 stands for it.

pub(super) mod batch;
pub(super) mod group;
pub(super) mod layer;
pub(in crate::ops) mod unit;

pub use batch::*;
pub use group::*;
pub use layer::*;
pub use unit::*;

use crate::exec::normalize::{Groups, Normalize, NormalizeGradient};
use crate::exec::{Kernel, launch};
use crate::ops::Operation;
use crate::ops::batching::{Batch, Batched, shifted};
use crate::ops::operation::apply_one;
use crate::ops::operation::{Backward, Forward, Grads, Outputs, Spec, Specs, spec};
use crate::ops::record::Parameter;
use crate::ops::reduction::wide;
use crate::ops::samples::{Sample, all_equal};
use crate::ops::shape::{bad_parameter, bad_shape, optional};
use crate::{DType, Error, Result, Shape, Tensor, ops, over};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// The parameter `eps`.
const EPS: Parameter = optional("eps", "what is added to the variance", "1e-5");

/// What holds at the edges of every normalisation.
const CONVENTIONS: &str = "the variance is that of all numbers (divided by n), in two passes; where \
     √(variance + eps) is 0, 1e-10 stands for it";

/// An error unless `eps` is a number that can be added to a variance.
fn expect_eps(op: &'static str, eps: f64) -> Result<()> {
    if eps >= 0.0 && eps.is_finite() {
        return Ok(());
    }
    Err(bad_parameter(op, "eps", "a finite number that is not negative", eps))
}

/// The dtype that the first inputs have in common, all of which must be floats.
fn common_dtype(op: &'static str, inputs: &[&Tensor]) -> Result<DType> {
    let mut dtype = inputs[0].dtype();
    for (x, argument) in inputs.iter().zip(["x", "gamma", "beta"]) {
        x.dtype().expect_float(op, argument)?;
        let mixed = Error::MixedDTypes { op, a: dtype, b: x.dtype() };
        dtype = dtype.promote(x.dtype()).ok_or(mixed)?;
    }
    Ok(dtype)
}

/// The result for factors of this shape, as far as they are given.
fn infer(op: &'static str, inputs: &[&Tensor], factors: &Shape, eps: f64) -> Result<Specs> {
    expect_eps(op, eps)?;
    let dtype = common_dtype(op, inputs)?;
    for (x, argument) in inputs.iter().zip(["x", "gamma", "beta"]).skip(1) {
        if x.shape() != factors {
            return Err(bad_shape(op, argument, factors.to_string(), x.shape()));
        }
    }
    Ok(spec(inputs[0].shape().clone(), dtype))
}

/// A tensor with factors that may be missing: beta alone needs a gamma of ones before it.
fn with_factors<'a>(
    x: &'a Tensor,
    gamma: Option<&'a Tensor>,
    beta: Option<&'a Tensor>,
    ones: &'a mut Option<Tensor>,
) -> Result<SmallVec<[&'a Tensor; 3]>> {
    Ok(match (gamma, beta) {
        (None, None) => smallvec![x],
        (Some(gamma), None) => smallvec![x, gamma],
        (Some(gamma), Some(beta)) => smallvec![x, gamma, beta],
        (None, Some(beta)) => smallvec![x, &*ones.insert(beta.ones_like()?), beta],
    })
}

/// The factors, as kernels take them, or `missing` for each of `len`.
fn factor(given: Option<&&Tensor>, missing: f64, len: usize, dtype: DType) -> Result<Tensor> {
    match given {
        Some(given) => ops::cast(given, wide(dtype))?.contiguous(),
        None => Tensor::full([len], missing, wide(dtype)),
    }
}

/// Whether numbers that are normalised together, `len` in a row, have nothing to be divided by: they
/// are equal, or all 0 where they are not centred, and `eps` is 0.
fn without_spread(sample: &Sample, len: usize, centred: bool) -> bool {
    let values = sample.inputs[0].to_f64_vec();
    sample.number("eps", 1e-5) == 0.0 && values.chunks(len.max(1)).any(|group| none(group, centred))
}

/// Whether there is no spread in these numbers.
fn none(group: &[f64], centred: bool) -> bool {
    all_equal(group) && (centred || group.first() == Some(&0.0))
}

fn no_float<R>(op: &'static str, dtype: DType) -> Result<R> {
    Err(Error::DType { op, argument: "x", expected: "a float type", got: dtype })
}

impl Groups {
    /// The normalised tensor.
    fn forward(&self, op: &'static str, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let dtype = specs[0].dtype;
        let x = ops::cast(inputs[0], dtype)?.contiguous()?;
        let gamma = factor(inputs.get(1), 1.0, self.factors(), dtype)?;
        let beta = factor(inputs.get(2), 0.0, self.factors(), dtype)?;
        launch(op, &Normalize(*self), &[&x, &gamma, &beta], specs)
    }

    /// The gradients wanted.
    fn backward(&self, op: &'static str, call: &Backward<'_>) -> Result<Grads> {
        let dtype = call.grad().dtype();
        let x = ops::cast(call.inputs[0], dtype)?.contiguous()?;
        let g = call.grad().contiguous()?;
        let gamma = factor(call.inputs.get(1), 1.0, self.factors(), dtype)?;
        let wanted = wanted(call);
        let kernel = NormalizeGradient { groups: *self, wanted };
        gradients(op, call, &kernel, &[&g, &x, &gamma], wanted, x.shape())
    }

    /// The derivative along tangents.
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let Groups { images, groups, channels, len, centred, eps } = *self;
        let split = Split {
            x: Shape::from([images, groups, channels, len]),
            factors: Shape::from([1, groups, channels, 1]),
            axes: &[2, 3],
        };
        split.derivative(call, By::Own { centred, eps })
    }
}

/// Which of the gradients for the tensor and its factors are wanted.
fn wanted(call: &Backward<'_>) -> [bool; 3] {
    [0, 1, 2].map(|i| call.wanted.get(i) == Some(&true))
}

/// The gradients that a kernel makes: that for the tensor, of this shape, and in `f64` those for the
/// factors, as far as they are wanted.
fn gradients(
    op: &'static str,
    call: &Backward<'_>,
    kernel: &dyn Kernel,
    inputs: &[&Tensor],
    wanted: [bool; 3],
    shape: &Shape,
) -> Result<Grads> {
    let each = |i: usize| match i {
        0 => Spec { shape: shape.clone(), dtype: call.grad().dtype() },
        _ => Spec { shape: call.inputs[i].shape().clone(), dtype: DType::F64 },
    };
    let specs = (0..3).filter(|&i| wanted[i]).map(each).collect();
    let mut made = launch(op, kernel, inputs, specs)?.into_iter();
    let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
    for (grad, _) in grads.iter_mut().zip(wanted).filter(|(_, wanted)| *wanted) {
        *grad = made.next();
    }
    Ok(grads)
}

/// What a tensor is normalised by.
enum By<'a> {
    /// Its own mean (if `centred`) and variance.
    Own { centred: bool, eps: f64 },
    /// A mean and `1/√(variance + eps)` that do not depend on it.
    Given(&'a Tensor, &'a Tensor),
}

/// What numbers that were centred are scaled by: a divisor, since the inverse of a tiny one may not
/// be a number, or a factor that was saved.
enum Scale {
    By(Tensor),
    Times(Tensor),
}

impl Scale {
    fn of(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Scale::By(divisor) => ops::divide(x, divisor),
            Scale::Times(factor) => ops::multiply(x, factor),
        }
    }
}

/// Shapes in which a normalisation is made of operations: of the tensor and its factors, and the
/// axes along which the numbers of a group lie.
struct Split<'a> {
    x: Shape,
    factors: Shape,
    axes: &'a [i64],
}

impl Split<'_> {
    /// The derivative along tangents, from `dx̂ = (dx − mean(dx) − x̂·mean(dx·x̂))/√(variance + eps)`.
    fn derivative(&self, call: &Forward<'_>, by: By<'_>) -> Result<Outputs> {
        let (y, axes) = (call.outputs[0], self.axes);
        let dtype = wide(y.dtype());
        let split = |x: &Tensor, to: &Shape| ops::reshape(&ops::cast(x, dtype)?, to);
        let scalar = |value: f64| Tensor::scalar_of(value, dtype);
        let x = split(call.inputs[0], &self.x)?;
        let (apart, scale) = match by {
            By::Own { centred, eps } => {
                let apart = if centred {
                    // Twice: the mean of equal numbers may be off by its rounding, and no spread is
                    // not to be taken for a tiny one.
                    let apart = ops::subtract(&x, &ops::mean(&x, over(axes).keepdims(true))?)?;
                    ops::subtract(&apart, &ops::mean(&apart, over(axes).keepdims(true))?)?
                } else {
                    x.clone()
                };
                // Lengths instead of squares, which tiny and huge numbers do not have.
                let count: usize = axes.iter().map(|&axis| self.x[axis as usize]).product();
                let root = scalar((count as f64).sqrt())?;
                let spread = ops::divide(&ops::norm(&apart, over(axes).keepdims(true))?, &root)?;
                let deviation = ops::hypot(&spread, &scalar(eps.sqrt())?)?;
                let none = ops::equal(&deviation, &scalar(0.0)?)?;
                let least = ops::where_(&none, &scalar(1e-10)?, &scalar(0.0)?)?;
                (apart, Scale::By(ops::add(&deviation, &least)?))
            }
            By::Given(mean, slope) => {
                let [mean, slope] = [split(mean, &self.factors)?, split(slope, &self.factors)?];
                (ops::subtract(&x, &mean)?, Scale::Times(slope))
            }
        };
        let normal = scale.of(&apart)?;
        let mut total = Tensor::zeros(self.x.clone(), dtype)?;
        if let Some(moved) = call.tangents[0] {
            let mut moved = split(moved, &self.x)?;
            if let By::Own { centred, .. } = by {
                let along = ops::mean(&ops::multiply(&moved, &normal)?, over(axes).keepdims(true))?;
                if centred {
                    moved = ops::subtract(&moved, &ops::mean(&moved, over(axes).keepdims(true))?)?;
                }
                moved = ops::subtract(&moved, &ops::multiply(&normal, &along)?)?;
            }
            moved = scale.of(&moved)?;
            if let Some(gamma) = call.inputs.get(1) {
                moved = ops::multiply(&moved, &split(gamma, &self.factors)?)?;
            }
            total = moved;
        }
        if let Some(Some(moved)) = call.tangents.get(1) {
            let moved = ops::multiply(&split(moved, &self.factors)?, &normal)?;
            total = ops::add(&total, &moved)?;
        }
        if let Some(Some(moved)) = call.tangents.get(2) {
            total = ops::add(&total, &split(moved, &self.factors)?)?;
        }
        Ok(smallvec![ops::cast(&ops::reshape(&total, y.shape())?, y.dtype())?])
    }
}

/// A normalisation of examples that have factors of their own: without factors, which are then
/// multiplied and added. `channels`: the factors are those of axis 1, otherwise those of the last axes.
#[track_caller]
fn own_factors(call: &Batch<'_>, op: Box<dyn Operation>, channels: bool) -> Batched {
    let ndim = call.inputs[0].ndim();
    Batched::Made(Arc::new(move |inputs| {
        let x = &inputs[0];
        // Computed as wide as the kernel would.
        let dtype = inputs[1..].iter().try_fold(x.dtype(), |a, b| a.promote(b.dtype()));
        let dtype = dtype.unwrap_or(x.dtype());
        let full = x.shape();
        let x = ops::cast(x, wide(dtype))?;
        let mut y = if channels {
            let merged: Shape = std::iter::once(full[0].saturating_mul(full[1]))
                .chain(full[2..].iter().copied())
                .collect();
            let merged = ops::reshape(&x, &merged)?;
            ops::reshape(&apply_one(&*op, &[&merged])?, full)?
        } else {
            apply_one(&*op, &[&x])?
        };
        for (i, factor) in inputs[1..].iter().enumerate() {
            let own = factor.ndim() - 1;
            let mut shape: Shape = factor.shape()[..1].iter().copied().collect();
            let (before, after) = if channels { (1, ndim - 2) } else { (ndim - own, 0) };
            (0..before).for_each(|_| shape.push(1));
            factor.shape()[1..].iter().for_each(|&size| shape.push(size));
            (0..after).for_each(|_| shape.push(1));
            let factor = ops::reshape(&ops::cast(factor, wide(dtype))?, &shape)?;
            y = if i == 0 { ops::multiply(&y, &factor)? } else { ops::add(&y, &factor)? };
        }
        Ok(vec![ops::cast(&y, dtype)?])
    }))
}
