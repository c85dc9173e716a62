//! Losses of probabilities and of logits.

use super::*;
use crate::ops::pointwise::guard_above;
use crate::ops::record::{Class, Family, Input, Needs, signature};
use extensor_derive::method;

/// What these losses and those of labels have in common.
pub(super) const BLANK: Record = Record {
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
/// Domain: predictions from 0 to 1.
/// Conventions: a logarithm below −100 counts as −100; where x(1 − x) is 0 the derivative uses 1e-10,
/// and stays finite.
///
/// ```
/// use extensor::ops::{Reduce, binary_cross_entropy};
/// use extensor::tensor;
/// let loss = binary_cross_entropy(&tensor([0.5, 0.0]), &tensor([1.0, 1.0]), Reduce::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [2f64.ln(), 100.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn binary_cross_entropy(
    predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(BinaryCrossEntropy, predictions, targets, reduction)
}

/// The gradients of [`binary_cross_entropy`]: `((x − t)/(x(1 − x)), ln(1 − x) − ln x)`, times
/// `grad_output`, over the number of elements for a mean. Where `x(1 − x)` is 0 it uses 1e-10, and
/// stays finite.
#[track_caller]
#[extensor_derive::noted]
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
        conventions: "a logarithm below −100 counts as −100; where x(1 − x) is 0 the derivative \
                      uses 1e-10, and stays finite",
        inputs: &[Input::new("predictions"), Input::new("targets")],
        backward: signature!(binary_cross_entropy_backward(grad_output, predictions, targets; reduction)),
        build: |p| Elementwise::build(p, BinaryCrossEntropy),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(0.05, 0.95, shape), s.uniform(0.0, 1.0, shape)]
            });
            let certain = crate::tensor([0.0, 0.0, 1.0, 1.0, 1e-12]);
            let targets = crate::tensor([0.0, 1.0, 0.0, 1.0, 0.5]);
            s.add_noted([certain, targets], Params::new(), "certain");
        },
        kinks: |sample| sample.holds(0, &[0.0, 1.0]),
        errors: bad_calls,
        ..BLANK
    };
    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        let (yes, no) = logs(x);
        (t - t.lit(1.0)) * no - t * yes
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        let (one, below) = (x.lit(1.0), guard_above(x * (x.lit(1.0) - x)));
        // Two terms in which nothing cancels when they are differentiated again.
        let terms = || (one - t) / guard_above(one - x) - t / guard_above(x);
        ((x - t) / below).like(terms)
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, _: R) -> R {
        let (yes, no) = logs(x);
        no - yes
    }
    #[inline(always)]
    fn singular<R: Real>(&self, x: R) -> R::Mask {
        (x * (x.lit(1.0) - x)).eq(x.lit(0.0))
    }
}

/// `1/(1 + e⁻ˣ)`, `1/(1 + eˣ)` and `ln(1 + e^−|x|)`, each to full precision, from one exponential.
#[inline(always)]
pub(super) fn sides<R: Real>(x: R) -> (R, R, R) {
    let one = x.lit(1.0);
    let e = (-x.size()).exp();
    let (likely, unlikely) = (one / (one + e), e / (one + e));
    let positive = x.ge(x.lit(0.0));
    (R::select(positive, likely, unlikely), R::select(positive, unlikely, likely), e.log1p())
}

/// The loss of a logit `x`, where `log` is `ln(1 + e^−|x|)`.
#[inline(always)]
pub(super) fn of_logit<R: Real>(x: R, t: R, log: R) -> R {
    let above = R::select(x.lt(x.lit(0.0)), x.lit(0.0), x);
    above - x * t + log
}

/// [`binary_cross_entropy`] of the probabilities `1/(1 + e⁻ˣ)`, which are never formed:
/// `max(x, 0) − x·t + ln(1 + e^−|x|)`, reduced.
///
/// ```
/// use extensor::ops::{Reduce, binary_cross_entropy_with_logits};
/// use extensor::tensor;
/// let (logits, targets) = (tensor([0.0, 1e4]), tensor([1.0, 0.0]));
/// let loss = binary_cross_entropy_with_logits(&logits, &targets, Reduce::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [2f64.ln(), 1e4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn binary_cross_entropy_with_logits(
    logits: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(BinaryCrossEntropyWithLogits, logits, targets, reduction)
}

/// The gradients of [`binary_cross_entropy_with_logits`]: `(1/(1 + e⁻ˣ) − t, −x)`, times
/// `grad_output`, over the number of elements for a mean.
#[track_caller]
#[extensor_derive::noted]
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
        backward: signature!(binary_cross_entropy_with_logits_backward(grad_output, logits, targets; reduction)),
        build: |p| Elementwise::build(p, BinaryCrossEntropyWithLogits),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(-6.0, 6.0, shape), s.uniform(0.0, 1.0, shape)]
            });
            let large = crate::tensor([-1e4, -50.0, 0.0, 50.0, 1e4, 1e4]);
            let targets = crate::tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
            s.add_far([large, targets], Params::new(), "large");
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

/// `t·(ln t − x)`, reduced, for logarithms of probabilities `x` and probabilities `t`; 0 where `t` is
/// 0. The mean is over all elements.
///
/// Domain: targets from 0 up.
/// Conventions: 0 where t = 0; the logarithm in the derivative is that of 1e-10 there.
///
/// ```
/// use extensor::ops::{Reduce, kl_divergence};
/// use extensor::tensor;
/// let (log_predictions, targets) = (tensor([0.5f64.ln(), 0.5f64.ln()]), tensor([1.0, 0.0]));
/// let loss = kl_divergence(&log_predictions, &targets, Reduce::Sum)?;
/// assert_eq!(loss.item::<f64>()?, 2f64.ln());
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn kl_divergence(
    log_predictions: &Tensor,
    targets: &Tensor,
    reduction: Reduce,
) -> Result<Tensor> {
    Elementwise::of(KlDivergence, log_predictions, targets, reduction)
}

/// The gradients of [`kl_divergence`]: `(−t, ln t + 1 − x)`, times `grad_output`, over the number of
/// elements for a mean. Where `t` is 0 the logarithm is that of 1e-10, and the gradient finite.
#[track_caller]
#[extensor_derive::noted]
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
        conventions: "0 where t = 0; the logarithm in the derivative is that of 1e-10 there",
        inputs: &[Input::new("log_predictions"), Input::new("targets")],
        backward: signature!(kl_divergence_backward(grad_output, log_predictions, targets; reduction)),
        build: |p| Elementwise::build(p, KlDivergence),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(-4.0, 0.0, shape), s.uniform(0.05, 1.0, shape)]
            });
            let x = crate::tensor([-1.0, -2.0, -0.5]);
            s.add_noted([x, crate::tensor([0.0, 1.0, 1e-12])], Params::new(), "of nothing");
        },
        kinks: |sample| sample.holds(1, &[0.0]),
        errors: bad_calls,
        ..BLANK
    };

    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        let nothing = x.nan_or(x.lit(0.0));
        R::select(t.eq(t.lit(0.0)), nothing, t * (t.log() - x))
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, _: R, t: R) -> R {
        -t
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, t: R) -> R {
        guard_above(t).log() + t.lit(1.0) - x
    }
}
