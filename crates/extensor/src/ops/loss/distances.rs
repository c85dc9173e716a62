//! Losses of the distance between prediction and target.

use super::*;
use crate::ops::record::{Class, Family, Input, Needs, signature};
use crate::ops::samples::Sample;
use extensor_derive::method;

/// What losses of a distance have in common.
const BLANK: Record = Record {
    family: Family::Loss,
    inputs: &[Input::new("predictions"), Input::new("targets")],
    params: &[REDUCTION],
    class: Class::Reduction,
    needs: Needs::Inputs,
    ..Record::BLANK
};

/// Targets, and predictions whose distances from them are not near the kinks.
fn apart(s: &mut Sampler, shape: &[usize], kinks: &[f64]) -> [Tensor; 2] {
    let targets = s.normal(shape).to_f64_vec();
    let distances = s.away(-3.0, 3.0, kinks, shape).to_f64_vec();
    let moved = targets.iter().zip(&distances).map(|(t, d)| t + d).collect();
    [moved, targets].map(|values| sample_of(values, shape))
}

/// `(x − t)²`, reduced.
///
/// ```
/// use extensor::ops::{Reduce, mean_squared_error};
/// use extensor::tensor;
/// let loss = mean_squared_error(&tensor([1.0, 2.0]), &tensor([1.0, 4.0]), Reduce::Mean)?;
/// assert_eq!(loss.item::<f64>()?, 2.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn mean_squared_error(
    predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(MeanSquaredError, predictions, targets, reduction)
}

/// The gradients of [`mean_squared_error`]: `(2·(x − t), −2·(x − t))`, times `grad_output`, over the
/// number of elements for a mean.
#[track_caller]
#[extensor_derive::noted]
pub fn mean_squared_error_backward(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<(Tensor, Tensor)> {
    let inputs = [predictions, targets];
    let [x, t] = Elementwise::backward_at(MeanSquaredError, grad_output, inputs, reduction)?;
    Ok((x, t))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanSquaredError;

impl MeanSquaredError {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

impl Loss for MeanSquaredError {
    const RECORD: &'static Record = &Record {
        name: "mean_squared_error",
        formula: "y = (x − t)²",
        derivative: "(2(x − t), −2(x − t))",
        backward: signature!(mean_squared_error_backward(grad_output, predictions, targets; reduction)),
        build: |p| Elementwise::build(p, MeanSquaredError),
        samples: |s| samples(s, Reduce::params, |s, shape| [s.normal(shape), s.normal(shape)]),
        errors: bad_calls,
        ..BLANK
    };

    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        (x - t) * (x - t)
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        (x - t) + (x - t)
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, t: R) -> R {
        (t - x) + (t - x)
    }
}

/// `|x − t|`, reduced.
///
/// Conventions: the gradient is 0 where x = t.
///
/// ```
/// use extensor::ops::{Reduce, mean_absolute_error};
/// use extensor::tensor;
/// let loss = mean_absolute_error(&tensor([1.0, 2.0]), &tensor([1.0, 4.0]), Reduce::Mean)?;
/// assert_eq!(loss.item::<f64>()?, 1.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn mean_absolute_error(
    predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(MeanAbsoluteError, predictions, targets, reduction)
}

/// The gradients of [`mean_absolute_error`]: the sign of `x − t`, and of `t − x`, times `grad_output`,
/// over the number of elements for a mean; 0 where both are equal.
#[track_caller]
#[extensor_derive::noted]
pub fn mean_absolute_error_backward(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<(Tensor, Tensor)> {
    let inputs = [predictions, targets];
    let [x, t] = Elementwise::backward_at(MeanAbsoluteError, grad_output, inputs, reduction)?;
    Ok((x, t))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanAbsoluteError;

impl MeanAbsoluteError {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

/// Whether a prediction is where the parabola ends: the second derivative has a step there.
fn ends(sample: &Sample, parameter: &'static str) -> bool {
    let end = sample.number(parameter, 1.0);
    sample.meet([0, 1], |x, t| (x - t).abs() == end)
}

/// A prediction that is right, beside others.
fn some_equal() -> [Tensor; 2] {
    [crate::tensor([1.0, -2.0, 0.5]), crate::tensor([1.0, -2.0, 2.5])]
}

impl Loss for MeanAbsoluteError {
    const RECORD: &'static Record = &Record {
        name: "mean_absolute_error",
        formula: "y = |x − t|",
        derivative: "(sign(x − t), sign(t − x))",
        conventions: "the gradient is 0 where x = t",
        backward: signature!(mean_absolute_error_backward(grad_output, predictions, targets; reduction)),
        build: |p| Elementwise::build(p, MeanAbsoluteError),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| apart(s, shape, &[0.0]));
            s.add_noted(some_equal(), Params::new(), "equal");
        },
        kinks: |sample| sample.meet([0, 1], |x, t| x == t),
        errors: bad_calls,
        ..BLANK
    };

    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        (x - t).abs()
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        (x - t).sign()
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, t: R) -> R {
        (t - x).sign()
    }
}

/// With `d = x − t`: `½d²/beta` where `|d| < beta`, `|d| − ½beta` elsewhere, reduced. With `beta = 0`
/// it is `|d|`.
///
/// Conventions: beta = 0 gives |x − t|, with gradient 0 where x = t.
///
/// ```
/// use extensor::ops::{Reduce, SmoothL1Options};
/// use extensor::tensor;
/// let (x, t) = (tensor([1.0, 3.0]), tensor([0.5, 0.0]));
/// let loss = x.smooth_l1_loss(&t, Reduce::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [0.125, 2.5]);
/// let loss = x.smooth_l1_loss(&t, SmoothL1Options::new().beta(2.0))?;
/// assert_eq!(loss.item::<f64>()?, 1.03125);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn smooth_l1_loss(
    predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<SmoothL1Options>,
) -> Result<Tensor> {
    let SmoothL1Options { beta, reduction } = options.into();
    Elementwise::of(SmoothL1 { beta }, predictions, targets, reduction)
}

/// The gradients of [`smooth_l1_loss`]: `d/beta` where `|d| < beta`, the sign of `d` elsewhere, times
/// `grad_output`, over the number of elements for a mean; and that negated.
#[track_caller]
#[extensor_derive::noted]
pub fn smooth_l1_loss_backward(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<SmoothL1Options>,
) -> Result<(Tensor, Tensor)> {
    let SmoothL1Options { beta, reduction } = options.into();
    let inputs = [predictions, targets];
    let [x, t] = Elementwise::backward_at(SmoothL1 { beta }, grad_output, inputs, reduction)?;
    Ok((x, t))
}

loss_options! {
    /// The options of [`smooth_l1_loss`].
    pub struct SmoothL1Options {
        /// Where the parabola ends: not negative.
        beta: f64 = 1.0,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SmoothL1 {
    beta: f64,
}

impl SmoothL1 {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

impl Loss for SmoothL1 {
    const RECORD: &'static Record = &Record {
        name: "smooth_l1_loss",
        formula: "y = ½(x − t)²/beta where |x − t| < beta, |x − t| − ½beta elsewhere",
        derivative: "(d, −d) with d = (x − t)/beta where |x − t| < beta, sign(x − t) elsewhere",
        conventions: "beta = 0 gives |x − t|, with gradient 0 where x = t",
        params: &[
            Parameter {
                name: "beta",
                what: "where the parabola ends: not negative",
                default: Some("1.0"),
            },
            REDUCTION,
        ],
        backward: signature!(smooth_l1_loss_backward(grad_output, predictions, targets; beta, reduction)),
        build: |p| {
            let beta = p.float("smooth_l1_loss", "beta", 1.0)?;
            Elementwise::build(p, SmoothL1 { beta })
        },
        samples: |s| {
            let with = |beta: f64| move |r: Reduce| r.params().with("beta", beta);
            samples(s, with(0.7), |s, shape| apart(s, shape, &[-0.7, 0.7]));
            let inputs = apart(s, &[3, 4], &[0.0]);
            s.add(inputs, with(0.0)(Reduce::Mean));
            s.add_noted(some_equal(), with(0.0)(Reduce::Sum), "equal");
            s.add_noted(some_equal(), with(2.0)(Reduce::Sum), "where the parabola ends");
        },
        kinks: |sample| ends(sample, "beta"),
        errors: |bad| {
            bad_calls(bad);
            let x = bad.ones(&[2], DType::F64);
            let negative = Params::new().with("beta", -1.0);
            bad.add([x.clone(), x.clone()], negative, "beta is -1.0, expected a number from 0 up");
            let nan = Params::new().with("beta", f64::NAN);
            bad.add([x.clone(), x], nan, "beta is NaN, expected a number from 0 up");
        },
        ..BLANK
    };

    fn check(&self) -> Result<()> {
        let SmoothL1 { beta } = *self;
        expect_parameter("smooth_l1_loss", "beta", beta, beta >= 0.0, "a number from 0 up")
    }
    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        let (d, beta) = ((x - t).abs(), x.lit(self.beta));
        let half = x.lit(0.5);
        R::select(d.lt(beta), half * d * (d / beta), d - half * beta)
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        let (d, beta) = (x - t, x.lit(self.beta));
        R::select(d.abs().lt(beta), d / beta, d.sign())
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, t: R) -> R {
        self.by_prediction(t, x)
    }
}

/// With `d = x − t`: `½d²` where `|d| <= delta`, `delta·(|d| − ½delta)` elsewhere, reduced.
///
/// ```
/// use extensor::ops::{HuberOptions, Reduce};
/// use extensor::tensor;
/// let (x, t) = (tensor([1.0, 3.0]), tensor([0.5, 0.0]));
/// assert_eq!(x.huber_loss(&t, Reduce::None)?.to_vec::<f64>()?, [0.125, 2.5]);
/// let loss = x.huber_loss(&t, HuberOptions::new().delta(2.0))?;
/// assert_eq!(loss.item::<f64>()?, 2.0625);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn huber_loss(
    predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<HuberOptions>,
) -> Result<Tensor> {
    let HuberOptions { delta, reduction } = options.into();
    Elementwise::of(Huber { delta }, predictions, targets, reduction)
}

/// The gradients of [`huber_loss`]: `d` held within ±`delta`, times `grad_output`, over the number of
/// elements for a mean; and that negated.
#[track_caller]
#[extensor_derive::noted]
pub fn huber_loss_backward(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<HuberOptions>,
) -> Result<(Tensor, Tensor)> {
    let HuberOptions { delta, reduction } = options.into();
    let inputs = [predictions, targets];
    let [x, t] = Elementwise::backward_at(Huber { delta }, grad_output, inputs, reduction)?;
    Ok((x, t))
}

loss_options! {
    /// The options of [`huber_loss`].
    pub struct HuberOptions {
        /// Where the parabola ends: above 0.
        delta: f64 = 1.0,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Huber {
    delta: f64,
}

impl Huber {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

impl Loss for Huber {
    const RECORD: &'static Record = &Record {
        name: "huber_loss",
        formula: "y = ½(x − t)² where |x − t| <= delta, delta(|x − t| − ½delta) elsewhere",
        derivative: "(d, −d) with d = x − t held within ±delta",
        params: &[
            Parameter {
                name: "delta",
                what: "where the parabola ends: above 0",
                default: Some("1.0"),
            },
            REDUCTION,
        ],
        backward: signature!(huber_loss_backward(grad_output, predictions, targets; delta, reduction)),
        build: |p| {
            let delta = p.float("huber_loss", "delta", 1.0)?;
            Elementwise::build(p, Huber { delta })
        },
        samples: |s| {
            let with = |r: Reduce| r.params().with("delta", 0.7);
            samples(s, with, |s, shape| apart(s, shape, &[-0.7, 0.7]));
            let end = Params::new().with("delta", 2.0);
            s.add_noted(some_equal(), end, "where the parabola ends");
        },
        kinks: |sample| ends(sample, "delta"),
        errors: |bad| {
            bad_calls(bad);
            let x = bad.ones(&[2], DType::F64);
            let zero = Params::new().with("delta", 0);
            bad.add([x.clone(), x.clone()], zero, "delta is 0.0, expected a number above 0");
            let endless = Params::new().with("delta", f64::INFINITY);
            bad.add([x.clone(), x], endless, "delta is inf, expected a number above 0");
        },
        ..BLANK
    };

    fn check(&self) -> Result<()> {
        let Huber { delta } = *self;
        expect_parameter("huber_loss", "delta", delta, delta > 0.0, "a number above 0")
    }
    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        let (d, delta) = ((x - t).abs(), x.lit(self.delta));
        let half = x.lit(0.5);
        R::select(d.le(delta), half * d * d, delta * (d - half * delta))
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        let delta = x.lit(self.delta);
        (x - t).maximum(-delta).minimum(delta)
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, t: R) -> R {
        self.by_prediction(t, x)
    }
}
