//! Mixed precision, as functions: what is stored, what is computed in, and how small gradients are
//! kept from vanishing.

use crate::autodiff::{Tree, map_parameters};
use crate::autodiff::{value_and_grad_when_ready, value_and_grad_with_aux};
use crate::gradients::all_finite;
use crate::{DType, Error, Result, Tensor, ops};

/// In which dtypes parameters are kept, arithmetic is done and results are returned.
///
/// ```
/// use extensor::{DType, precision::Policy, tensor};
/// let policy = Policy::mixed(DType::BF16);
/// let x = policy.to_compute(&tensor([1.0f32, 2.0]))?;
/// assert_eq!(x.dtype(), DType::BF16);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Of the parameters that an optimiser updates.
    pub parameters: DType,
    /// Of the arithmetic.
    pub compute: DType,
    /// Of what comes out.
    pub output: DType,
}

impl Policy {
    /// All in one dtype.
    pub const fn full(dtype: DType) -> Policy {
        Policy { parameters: dtype, compute: dtype, output: dtype }
    }

    /// Parameters and results in `f32`, arithmetic in `compute`.
    pub const fn mixed(compute: DType) -> Policy {
        Policy { parameters: DType::F32, compute, output: DType::F32 }
    }

    /// The scale of the loss that the arithmetic needs to begin with: a dynamic one for `f16`, in which
    /// small gradients would be rounded to 0; none for the others, whose exponents reach as far as those
    /// of `f32`.
    ///
    /// ```
    /// use extensor::{DType, precision::{LossScale, Policy}};
    /// assert_eq!(Policy::mixed(DType::F16).loss_scale().value(), 65536.0);
    /// assert_eq!(Policy::mixed(DType::BF16).loss_scale(), LossScale::NONE);
    /// ```
    pub const fn loss_scale(&self) -> LossScale {
        match self.compute {
            DType::F16 => LossScale { scale: 65536.0, interval: 200, steps: 0 },
            _ => LossScale::NONE,
        }
    }

    /// The tree's floats as arithmetic takes them; whole numbers, masks and buffers stay.
    pub fn to_compute<T: Tree>(&self, tree: &T) -> Result<T> {
        cast_floats(tree, self.compute)
    }

    /// The tree's floats as parameters are kept.
    pub fn to_parameters<T: Tree>(&self, tree: &T) -> Result<T> {
        cast_floats(tree, self.parameters)
    }

    /// The tree's floats as results are returned.
    pub fn to_output<T: Tree>(&self, tree: &T) -> Result<T> {
        cast_floats(tree, self.output)
    }
}

fn cast_floats<T: Tree>(tree: &T, dtype: DType) -> Result<T> {
    map_parameters(tree, |x| if x.dtype().is_float() { ops::cast(x, dtype) } else { Ok(x.clone()) })
}

/// A factor on the loss, so that gradients too small for `f16` are not rounded to 0.
///
/// A dynamic scale is halved whenever a gradient overflows, and doubled after so many steps in which
/// none did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScale {
    scale: f64,
    /// Steps without overflow after which the scale is doubled; 0: it is static.
    interval: u32,
    /// Such steps so far.
    steps: u32,
}

impl LossScale {
    /// No scaling: what `f32`, `f64` and `bf16` need.
    pub const NONE: LossScale = LossScale { scale: 1.0, interval: 0, steps: 0 };

    /// Always the same factor.
    pub fn fixed(scale: f64) -> Result<LossScale> {
        LossScale::new(scale, 0)
    }

    /// A factor that begins at `scale` and is doubled after `interval` steps without overflow.
    pub fn dynamic(scale: f64, interval: u32) -> Result<LossScale> {
        LossScale::new(scale, interval.max(1))
    }

    fn new(scale: f64, interval: u32) -> Result<LossScale> {
        if !(scale.is_finite() && scale > 0.0) {
            let (expected, got) = ("a positive number".into(), format!("{scale:?}"));
            return Err(Error::Parameter { op: "loss scale", parameter: "scale", expected, got });
        }
        Ok(LossScale { scale, interval, steps: 0 })
    }

    /// The factor.
    pub fn value(&self) -> f64 {
        self.scale
    }

    /// The steps without overflow after which the scale is doubled; 0 if it is fixed.
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// The steps without overflow since the scale last changed.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The same kind of scale, at this value after so many steps without overflow: what a checkpoint
    /// held.
    pub fn resume(self, scale: f64, steps: u32) -> Result<LossScale> {
        Ok(LossScale { steps, ..LossScale::new(scale, self.interval)? })
    }

    /// The scale for the next step, after one whose gradients were finite or not.
    ///
    /// ```
    /// use extensor::precision::LossScale;
    /// let scale = LossScale::dynamic(1024.0, 2)?;
    /// assert_eq!(scale.after(false).value(), 512.0);
    /// assert_eq!(scale.after(true).after(true).value(), 2048.0);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn after(self, finite: bool) -> LossScale {
        // Powers of two between those at which scaling itself would over- or underflow f32.
        const RANGE: (f64, f64) = (1.0 / (1u64 << 24) as f64, (1u64 << 63) as f64 * 2.0);
        if self.interval == 0 {
            return self;
        }
        if !finite {
            return LossScale { scale: (self.scale / 2.0).max(RANGE.0), steps: 0, ..self };
        }
        if self.steps + 1 < self.interval {
            return LossScale { steps: self.steps + 1, ..self };
        }
        LossScale { scale: (self.scale * 2.0).min(RANGE.1), steps: 0, ..self }
    }
}

/// What [`value_and_grad`] found.
pub struct Scaled<T, X> {
    /// The loss, in the policy's output dtype.
    pub loss: Tensor,
    /// The gradients, unscaled, in the dtype of the parameters; `None` if one was not finite: the step
    /// is to be skipped, and the parameters stay as they are.
    pub grads: Option<T>,
    /// What the function returned beside the loss.
    pub aux: X,
    /// The scale for the next step.
    pub scale: LossScale,
}

/// The loss and the gradients of parameters that are kept in one dtype and computed with in another.
///
/// The function is given the parameters in the policy's compute dtype. Its loss is scaled before the
/// gradients are computed and they are unscaled after, in the dtype of the parameters; an overflow
/// on the way never reaches those.
///
/// ```
/// use extensor::precision::{LossScale, Policy, value_and_grad};
/// use extensor::ops::sum;
/// use extensor::{DType, Tensor, tensor};
/// let w = tensor([1.0f32, 2.0]);
/// let small = Tensor::scalar_of(1e-4, DType::F16)?; // its square is 0 in f16
/// let f = |w: &Tensor| Ok((sum(&(w * &small * &small), ..)?, ()));
/// let gradient = |scale| -> Result<f32, extensor::Error> {
///     let found = value_and_grad(f, &w, Policy::mixed(DType::F16), scale)?;
///     Ok(found.grads.unwrap().to_vec::<f32>()?[0])
/// };
/// assert_eq!(gradient(LossScale::NONE)?, 0.0);
/// assert!((gradient(LossScale::dynamic(32768.0, 100)?)? - 1e-8).abs() < 1e-10);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn value_and_grad<T: Tree, X: Tree>(
    f: impl FnOnce(&T) -> Result<(Tensor, X)>,
    parameters: &T,
    policy: Policy,
    scale: LossScale,
) -> Result<Scaled<T, X>> {
    let factor = Tensor::scalar_of(scale.value(), DType::F64)?;
    let (loss, grads, aux) = scaled(f, parameters, policy, Some(&factor))?;
    let finite = all_finite(&grads)?;
    let factor = (scale.value() != 1.0).then_some(&factor);
    let grads = if finite { Some(unscaled(grads, policy, factor)?) } else { None };
    Ok(Scaled { loss, grads, aux, scale: scale.after(finite) })
}

/// The loss, the gradients of the loss times a factor (a tensor of one number), which are unscaled by
/// [`unscaled`], and what the function returned beside the loss.
pub(crate) fn scaled<T: Tree, X: Tree>(
    f: impl FnOnce(&T) -> Result<(Tensor, X)>,
    parameters: &T,
    policy: Policy,
    factor: Option<&Tensor>,
) -> Result<(Tensor, T, X)> {
    let (_, grads, (loss, aux)) = value_and_grad_with_aux(scaling(f, policy, factor), parameters)?;
    Ok((loss, grads, aux))
}

/// The loss and what the function returned beside it; the gradients of [`scaled`] are told to `ready`, as they
/// become known.
pub(crate) fn scaled_when_ready<T: Tree, X: Tree>(
    f: impl FnOnce(&T) -> Result<(Tensor, X)>,
    parameters: &T,
    policy: Policy,
    factor: Option<&Tensor>,
    ready: &mut dyn FnMut(usize, &Tensor) -> Result<()>,
) -> Result<(Tensor, X)> {
    let run = scaling(f, policy, factor);
    let (_, _, (loss, aux)) = value_and_grad_when_ready(run, parameters, ready)?;
    Ok((loss, aux))
}

/// A function of the parameters as they are kept, whose value is the loss times a factor; beside it, the loss and
/// what the function returned.
fn scaling<T: Tree, X: Tree>(
    f: impl FnOnce(&T) -> Result<(Tensor, X)>,
    policy: Policy,
    factor: Option<&Tensor>,
) -> impl FnOnce(&T) -> Result<(Tensor, (Tensor, X))> {
    move |parameters: &T| {
        let (loss, aux) = f(&policy.to_compute(parameters)?)?;
        let loss = policy.to_output(&loss)?;
        let scaled = match factor {
            Some(factor) => ops::multiply(&loss, &ops::cast(factor, loss.dtype())?)?,
            None => loss.clone(),
        };
        Ok((scaled, (loss, aux)))
    }
}

/// The gradients in the dtype of the parameters, divided by the factor.
pub(crate) fn unscaled<T: Tree>(grads: T, policy: Policy, factor: Option<&Tensor>) -> Result<T> {
    map_parameters(&grads, |g| unscaled_one(g, policy, factor))
}

/// A gradient in the dtype of the parameters, divided by the factor.
pub(crate) fn unscaled_one(g: &Tensor, policy: Policy, factor: Option<&Tensor>) -> Result<Tensor> {
    let g = ops::cast(g, policy.parameters)?;
    match factor {
        Some(factor) => ops::divide(&g, &ops::cast(factor, g.dtype())?),
        None => Ok(g),
    }
}
