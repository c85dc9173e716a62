//! Losses of probabilities, of logits and of margins.

use super::*;
use crate::ops::pointwise::guard;
use crate::ops::record::{Class, Family, Input, Needs};

/// What these losses have in common.
const BLANK: Record = Record {
    family: Family::Loss,
    params: &[REDUCTION],
    class: Class::Reduction,
    needs: Needs::Inputs,
    ..Record::BLANK
};

/// The least that a logarithm of a probability counts for.
const LEAST_LOG: f64 = -100.0;

/// `−(t·ln x + (1 − t)·ln(1 − x))`, reduced, for probabilities `x`. A logarithm below −100 counts as
/// −100, so that a certain prediction that is wrong has a finite loss.
///
/// ```
/// use extensor::{Reduce, binary_cross_entropy, tensor};
/// let loss = binary_cross_entropy(&tensor([0.5, 0.0]), &tensor([1.0, 1.0]), Reduce::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [2f64.ln(), 100.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn binary_cross_entropy(
    predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(BinaryCrossEntropy, predictions, targets, reduction)
}

/// The gradients of [`binary_cross_entropy`]: `((x − t)/(x(1 − x)), ln(1 − x) − ln x)`, times
/// `grad_output`, over the number of elements for a mean. Where `x(1 − x) < 1e-10` it uses 1e-10, and
/// stays finite.
pub fn binary_cross_entropy_backward(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<(Tensor, Tensor)> {
    let inputs = [predictions, targets];
    let [x, t] = Elementwise::backward_at(BinaryCrossEntropy, grad_output, inputs, reduction)?;
    Ok((x, t))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BinaryCrossEntropy;

impl BinaryCrossEntropy {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

/// `ln x` and `ln(1 − x)`.
#[inline(always)]
fn logs<R: Real>(x: R) -> (R, R) {
    let least = x.lit(LEAST_LOG);
    (x.log().maximum(least), (-x).log1p().maximum(least))
}

impl Loss for BinaryCrossEntropy {
    const RECORD: &'static Record = &Record {
        name: "binary_cross_entropy",
        formula: "y = −(t·ln x + (1 − t)·ln(1 − x))",
        derivative: "((x − t)/(x(1 − x)), ln(1 − x) − ln x)",
        domain: "predictions from 0 to 1",
        conventions: "a logarithm below −100 counts as −100; where x(1 − x) < 1e-10 the derivative \
                      uses 1e-10, and stays finite",
        inputs: &[Input::new("predictions"), Input::new("targets")],
        backward: "binary_cross_entropy_backward(grad_output, predictions, targets, reduction)",
        build: |p| Elementwise::build(p, BinaryCrossEntropy),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(0.05, 0.95, shape), s.uniform(0.0, 1.0, shape)]
            });
            let certain = crate::tensor([0.0, 0.0, 1.0, 1.0, 1e-12]);
            let targets = crate::tensor([0.0, 1.0, 0.0, 1.0, 0.5]);
            s.add_kink([certain, targets], Params::new(), "certain");
        },
        errors: bad_calls,
        ..BLANK
    };
    const SINGULAR: bool = true;

    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        let (yes, no) = logs(x);
        (t - t.lit(1.0)) * no - t * yes
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        (x - t) / guard(x * (x.lit(1.0) - x))
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, _: R) -> R {
        let (yes, no) = logs(x);
        no - yes
    }
}

/// `1/(1 + e⁻ˣ)`, `1/(1 + eˣ)` and `ln(1 + e^−|x|)`, each to full precision, from one exponential.
#[inline(always)]
fn sides<R: Real>(x: R) -> (R, R, R) {
    let one = x.lit(1.0);
    let e = (-x.abs()).exp();
    let (likely, unlikely) = (one / (one + e), e / (one + e));
    let positive = x.ge(x.lit(0.0));
    (R::select(positive, likely, unlikely), R::select(positive, unlikely, likely), e.log1p())
}

/// The loss of a logit `x`.
#[inline(always)]
fn of_logit<R: Real>(x: R, t: R, log: R) -> R {
    x.maximum(x.lit(0.0)) - x * t + log
}

/// [`binary_cross_entropy`] of the probabilities `1/(1 + e⁻ˣ)`, which are never formed:
/// `max(x, 0) − x·t + ln(1 + e^−|x|)`, reduced.
///
/// ```
/// use extensor::{Reduce, binary_cross_entropy_with_logits, tensor};
/// let (logits, targets) = (tensor([0.0, 1e4]), tensor([1.0, 0.0]));
/// let loss = binary_cross_entropy_with_logits(&logits, &targets, Reduce::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [2f64.ln(), 1e4]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn binary_cross_entropy_with_logits(
    logits: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(BinaryCrossEntropyWithLogits, logits, targets, reduction)
}

/// The gradients of [`binary_cross_entropy_with_logits`]: `(1/(1 + e⁻ˣ) − t, −x)`, times
/// `grad_output`, over the number of elements for a mean.
pub fn binary_cross_entropy_with_logits_backward(
    grad_output: &Tensor,
    logits: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<(Tensor, Tensor)> {
    let op = BinaryCrossEntropyWithLogits;
    let [x, t] = Elementwise::backward_at(op, grad_output, [logits, targets], reduction)?;
    Ok((x, t))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BinaryCrossEntropyWithLogits;

impl BinaryCrossEntropyWithLogits {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

impl Loss for BinaryCrossEntropyWithLogits {
    const RECORD: &'static Record = &Record {
        name: "binary_cross_entropy_with_logits",
        formula: "y = max(x, 0) − x·t + ln(1 + e^−|x|)",
        derivative: "(1/(1 + e⁻ˣ) − t, −x)",
        inputs: &[Input::new("logits"), Input::new("targets")],
        backward: "binary_cross_entropy_with_logits_backward(grad_output, logits, targets, reduction)",
        build: |p| Elementwise::build(p, BinaryCrossEntropyWithLogits),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(-6.0, 6.0, shape), s.uniform(0.0, 1.0, shape)]
            });
            let large = crate::tensor([-1e4, -50.0, 0.0, 50.0, 1e4, 1e4]);
            let targets = crate::tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
            s.add_kink([large, targets], Params::new(), "large");
        },
        errors: bad_calls,
        ..BLANK
    };

    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        of_logit(x, t, (-x.abs()).exp().log1p())
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        // The probability less the target, without rounding the probability where it is almost 1.
        let (yes, no, _) = sides(x);
        (t.lit(1.0) - t) * yes - t * no
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, _: R) -> R {
        -x
    }
}

/// `max(0, 1 − x·t)`, reduced, for targets −1 and 1, which are constants.
///
/// ```
/// use extensor::{Reduce, hinge_loss, tensor};
/// let loss = hinge_loss(&tensor([0.5, 2.0]), &tensor([-1.0, 1.0]), Reduce::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [1.5, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn hinge_loss(predictions: &Tensor, targets: &Tensor, reduction: Reduce) -> Result<Tensor> {
    Elementwise::of(Hinge, predictions, targets, reduction)
}

/// The gradient of [`hinge_loss`] for the predictions: `−t` where `x·t < 1`, 0 elsewhere, times
/// `grad_output`, over the number of elements for a mean.
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
        backward: "hinge_loss_backward(grad_output, predictions, targets, reduction)",
        build: |p| Elementwise::build(p, Hinge),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.away(-3.0, 3.0, &[-1.0, 1.0], shape), signs(s, shape)]
            });
            let edge = crate::tensor([1.0, -1.0, 1.0]);
            s.add_kink([edge.clone(), edge], Params::new(), "at the margin");
        },
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
        R::select(margin.is_nan(), margin, R::select(met, x.lit(0.0), -t))
    }
}

/// With the probability `p = 1/(1 + e⁻ˣ)` and that of the label, `q = p·t + (1 − p)(1 − t)`:
/// `(alpha·t + (1 − alpha)(1 − t))·(1 − q)^gamma` times the loss of
/// [`binary_cross_entropy_with_logits`], reduced. The labels, 0 and 1, are constants.
///
/// ```
/// use extensor::{Reduce, focal_loss, tensor};
/// let loss = focal_loss(&tensor([0.0]), &tensor([1.0]), 0.25, 2.0, Reduce::Sum)?;
/// assert_eq!(loss.item::<f64>()?, 0.25 * 0.25 * 2f64.ln());
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn focal_loss(
    logits: &Tensor,
    targets: &Tensor,
    alpha: f64,
    gamma: f64,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(Focal { alpha, gamma }, logits, targets, reduction)
}

/// The gradient of [`focal_loss`] for the logits.
pub fn focal_loss_backward(
    grad_output: &Tensor,
    logits: &Tensor,
    targets: &Tensor,
    alpha: f64,
    gamma: f64,
    reduction: Reduce,
) -> Result<Tensor> {
    let op = Focal { alpha, gamma };
    let [x] = Elementwise::backward_at(op, grad_output, [logits, targets], reduction)?;
    Ok(x)
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
        backward: "focal_loss_backward(grad_output, logits, targets, alpha, gamma, reduction)",
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
            let soft = [s.normal(&[5]), s.uniform(0.0, 1.0, &[5])];
            s.add_noted(soft, Params::new(), "soft labels");
            let large = crate::tensor([-1e4, -50.0, 50.0, 1e4, 1e4]);
            let targets = crate::tensor([0.0, 1.0, 0.0, 1.0, 0.0]);
            let params = Params::new().with("gamma", 0.5);
            s.add_noted([large, targets], params, "large");
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

/// `t·(ln t − x)`, reduced, for logarithms of probabilities `x` and probabilities `t`; 0 where `t` is
/// 0. The mean is over all elements.
///
/// ```
/// use extensor::{Reduce, kl_divergence, tensor};
/// let (log_predictions, targets) = (tensor([0.5f64.ln(), 0.5f64.ln()]), tensor([1.0, 0.0]));
/// let loss = kl_divergence(&log_predictions, &targets, Reduce::Sum)?;
/// assert_eq!(loss.item::<f64>()?, 2f64.ln());
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn kl_divergence(
    log_predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(KlDivergence, log_predictions, targets, reduction)
}

/// The gradients of [`kl_divergence`]: `(−t, ln t + 1 − x)`, times `grad_output`, over the number of
/// elements for a mean. Where `t < 1e-10` the logarithm is that of 1e-10, and the gradient finite.
pub fn kl_divergence_backward(
    grad_output: &Tensor,
    log_predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<(Tensor, Tensor)> {
    let inputs = [log_predictions, targets];
    let [x, t] = Elementwise::backward_at(KlDivergence, grad_output, inputs, reduction)?;
    Ok((x, t))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KlDivergence;

impl KlDivergence {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

impl Loss for KlDivergence {
    const RECORD: &'static Record = &Record {
        name: "kl_divergence",
        formula: "y = t·(ln t − x)",
        derivative: "(−t, ln t + 1 − x)",
        domain: "targets from 0 up",
        conventions: "0 where t = 0; where t < 1e-10 the logarithm in the derivative is that of 1e-10",
        inputs: &[Input::new("log_predictions"), Input::new("targets")],
        backward: "kl_divergence_backward(grad_output, log_predictions, targets, reduction)",
        build: |p| Elementwise::build(p, KlDivergence),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(-4.0, 0.0, shape), s.uniform(0.05, 1.0, shape)]
            });
            let x = crate::tensor([-1.0, -2.0, -0.5]);
            s.add_kink([x, crate::tensor([0.0, 1.0, 1e-12])], Params::new(), "of nothing");
        },
        errors: bad_calls,
        ..BLANK
    };

    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        let nothing = R::select(x.is_nan(), x, x.lit(0.0));
        R::select(t.eq(t.lit(0.0)), nothing, t * (t.log() - x))
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, _: R, t: R) -> R {
        -t
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, t: R) -> R {
        let least = guard(t.lit(0.0));
        R::select(t.abs().lt(least), least, t).log() + t.lit(1.0) - x
    }
}
