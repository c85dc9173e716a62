//! Losses of labels, which are constants.

use super::likelihoods::{BLANK, of_logit, sides};
use super::*;
use crate::ops::record::{Input, signature};
use extensor_derive::method;

/// `max(0, 1 − x·t)`, reduced, for targets −1 and 1, which are constants.
///
/// Conventions: the gradient is 0 where x·t = 1; targets are constants.
///
/// ```
/// use extensor::ops::{Reduce, hinge_loss};
/// use extensor::tensor;
/// let loss = hinge_loss(&tensor([0.5, 2.0]), &tensor([-1.0, 1.0]), Reduce::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [1.5, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn hinge_loss(predictions: &Tensor, targets: &Tensor, reduction: Reduce) -> Result<Tensor> {
    Elementwise::of(Hinge, predictions, targets, reduction)
}

/// The gradient of [`hinge_loss`] for the predictions: `−t` where `x·t < 1`, 0 elsewhere, times
/// `grad_output`, over the number of elements for a mean.
#[track_caller]
#[extensor_derive::noted]
pub fn hinge_loss_backward(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    let inputs = [predictions, targets];
    let [x] = Elementwise::backward_at(Hinge, grad_output, inputs, reduction)?;
    Ok(x)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hinge;

impl Hinge {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

/// −1 and 1.
fn signs(s: &mut Sampler, shape: &[usize]) -> Tensor {
    let drawn = s.away(-1.0, 1.0, &[0.0], shape).to_f64_vec();
    sample_of(drawn.into_iter().map(f64::signum).collect(), shape)
}

/// 0 and 1.
fn labels(s: &mut Sampler, shape: &[usize]) -> Tensor {
    sample_of(s.integers(2, shape).to_f64_vec(), shape)
}

impl Loss for Hinge {
    const RECORD: &'static Record = &Record {
        name: "hinge_loss",
        formula: "y = max(0, 1 − x·t)",
        derivative: "−t where x·t < 1, 0 elsewhere",
        conventions: "the gradient is 0 where x·t = 1; targets are constants",
        inputs: &[Input::new("predictions"), Input::constant("targets")],
        backward: signature!(hinge_loss_backward(grad_output, predictions, targets; reduction)),
        build: |p| Elementwise::build(p, Hinge),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.away(-3.0, 3.0, &[-1.0, 1.0], shape), signs(s, shape)]
            });
            let edge = crate::tensor([1.0, -1.0, 1.0]);
            s.add_noted([edge.clone(), edge], Params::new(), "at the margin");
        },
        kinks: |sample| sample.meet([0, 1], |x, t| x * t == 1.0),
        errors: bad_calls,
        ..BLANK
    };

    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        (x.lit(1.0) - x * t).maximum(x.lit(0.0))
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        let margin = x.lit(1.0) - x * t;
        let met = margin.le(x.lit(0.0));
        margin.nan_or(R::select(met, x.lit(0.0), -t))
    }
}

/// With the probability `p = 1/(1 + e⁻ˣ)` and that of the label, `q = p·t + (1 − p)(1 − t)`:
/// `(alpha·t + (1 − alpha)(1 − t))·(1 − q)^gamma` times the loss of
/// [`binary_cross_entropy_with_logits`], reduced. The labels, 0 and 1, are constants.
///
/// Domain: targets from 0 to 1.
/// Conventions: targets are constants.
///
/// ```
/// use extensor::ops::{FocalOptions, Reduce};
/// use extensor::tensor;
/// let options = FocalOptions::new().alpha(0.25).gamma(2.0).reduction(Reduce::Sum);
/// let loss = tensor([0.0]).focal_loss(&tensor([1.0]), options)?;
/// assert_eq!(loss.item::<f64>()?, 0.25 * 0.25 * 2f64.ln());
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn focal_loss(
    logits: &Tensor,
    targets: &Tensor,
    options: impl Into<FocalOptions>,
) -> Result<Tensor> {
    let FocalOptions { alpha, gamma, reduction } = options.into();
    Elementwise::of(Focal { alpha, gamma }, logits, targets, reduction)
}

/// The gradient of [`focal_loss`] for the logits.
#[track_caller]
#[extensor_derive::noted]
pub fn focal_loss_backward(
    grad_output: &Tensor,
    logits: &Tensor,
    targets: &Tensor,
    options: impl Into<FocalOptions>,
) -> Result<Tensor> {
    let FocalOptions { alpha, gamma, reduction } = options.into();
    let op = Focal { alpha, gamma };
    let [x] = Elementwise::backward_at(op, grad_output, [logits, targets], reduction)?;
    Ok(x)
}

loss_options! {
    /// The options of [`focal_loss`].
    pub struct FocalOptions {
        /// The weight of the label 1; that of 0 is `1 − alpha`.
        alpha: f64 = 0.25,
        /// How little count those that are classified well already.
        gamma: f64 = 2.0,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Focal {
    alpha: f64,
    gamma: f64,
}

impl Focal {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;

    /// `alpha·t + (1 − alpha)(1 − t)`.
    #[inline(always)]
    fn weight<R: Real>(self, t: R) -> R {
        let (one, alpha) = (t.lit(1.0), t.lit(self.alpha));
        alpha * t + t.lit(1.0 - self.alpha) * (one - t)
    }
}

impl Loss for Focal {
    const RECORD: &'static Record = &Record {
        name: "focal_loss",
        formula: "y = (alpha·t + (1 − alpha)(1 − t))·m^gamma·c, with p = 1/(1 + e⁻ˣ), \
                  m = p(1 − t) + (1 − p)t and c = −(t·ln p + (1 − t)·ln(1 − p))",
        derivative: "(alpha·t + (1 − alpha)(1 − t))·m^gamma·(gamma·c·p(1 − p)(1 − 2t)/m + p − t)",
        domain: "targets from 0 to 1",
        conventions: "targets are constants",
        inputs: &[Input::new("logits"), Input::constant("targets")],
        params: &[
            Parameter {
                name: "alpha",
                what: "the weight of label 1, from 0 to 1; that of label 0 is 1 − alpha",
                default: Some("0.25"),
            },
            Parameter {
                name: "gamma",
                what: "how much less what is likely counts: not negative",
                default: Some("2.0"),
            },
            REDUCTION,
        ],
        backward: signature!(focal_loss_backward(grad_output, logits, targets; alpha, gamma, reduction)),
        build: |p| {
            let alpha = p.float("focal_loss", "alpha", 0.25)?;
            let gamma = p.float("focal_loss", "gamma", 2.0)?;
            Elementwise::build(p, Focal { alpha, gamma })
        },
        samples: |s| {
            let draw = |s: &mut Sampler, shape: &[usize]| [s.normal(shape), labels(s, shape)];
            samples(s, Reduce::params, draw);
            for (alpha, gamma) in [(0.6, 0.5), (1.0, 0.0), (0.25, 1.0)] {
                let params = Params::new().with("alpha", alpha).with("gamma", gamma);
                let inputs = draw(s, &[3, 4]);
                s.add(inputs, params);
            }
            for gamma in [0.5, 2.0, 5.0] {
                let tails = [s.uniform(-9.0, 9.0, &[3, 4]), labels(s, &[3, 4])];
                s.add_noted(tails, Params::new().with("gamma", gamma), "the tails");
            }
            let soft = [s.normal(&[5]), s.uniform(0.0, 1.0, &[5])];
            s.add_noted(soft, Params::new(), "soft labels");
            let large = crate::tensor([-1e4, -50.0, 50.0, 1e4, 1e4]);
            let targets = crate::tensor([0.0, 1.0, 0.0, 1.0, 0.0]);
            let params = Params::new().with("gamma", 0.5);
            s.add_far([large, targets], params, "large");
        },
        errors: |bad| {
            bad_calls(bad);
            let x = bad.ones(&[2], DType::F64);
            let alpha = Params::new().with("alpha", 1.5);
            let message = "alpha is 1.5, expected a number from 0 to 1";
            bad.add([x.clone(), x.clone()], alpha, message);
            let gamma = Params::new().with("gamma", -1.0);
            bad.add([x.clone(), x], gamma, "gamma is -1.0, expected a number from 0 up");
        },
        ..BLANK
    };

    fn check(&self) -> Result<()> {
        let (op, Focal { alpha, gamma }) = ("focal_loss", *self);
        let share = (0.0..=1.0).contains(&alpha);
        expect_parameter(op, "alpha", alpha, share, "a number from 0 to 1")?;
        expect_parameter(op, "gamma", gamma, gamma >= 0.0, "a number from 0 up")
    }
    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        let (yes, no, log) = sides(x);
        let missed = yes * (t.lit(1.0) - t) + no * t;
        self.weight(t) * missed.pow(x.lit(self.gamma)) * of_logit(x, t, log)
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        let (zero, one) = (x.lit(0.0), x.lit(1.0));
        let (yes, no, log) = sides(x);
        let missed = yes * (one - t) + no * t;
        let bend = yes * no * (one - t - t) / missed;
        let bend = R::select(missed.eq(zero), zero, bend);
        let slope = (one - t) * yes - t * no;
        let gamma = x.lit(self.gamma);
        self.weight(t) * missed.pow(gamma) * (gamma * bend * of_logit(x, t, log) + slope)
    }
}
