//! How far one distribution is from another.

use super::likelihoods::BLANK;
use super::*;
use crate::ops::pointwise::guard_above;
use crate::ops::record::{Input, signature};
use extensor_derive::method;

/// `t·(ln t − x)`, reduced, for logarithms of probabilities `x` and probabilities `t`; 0 where `t` is
/// 0. With `log_target` targets are logarithms too, and it is `eᵗ·(t − x)`. The mean is over all elements;
/// [`Reduce::BatchMean`] divides by the size of the first axis alone, which is what the divergence of
/// distributions is.
///
/// Domain: targets from 0 up, unless they are logarithms.
/// Conventions: 0 where t = 0; the logarithm in the derivative is that of 1e-10 there.
///
/// ```
/// use extensor::ops::{KlDivergenceOptions, Reduce, kl_divergence};
/// use extensor::tensor;
/// let (log_predictions, targets) = (tensor([0.5f64.ln(), 0.5f64.ln()]), tensor([1.0, 0.0]));
/// let loss = kl_divergence(&log_predictions, &targets, Reduce::Sum)?;
/// assert_eq!(loss.item::<f64>()?, 2f64.ln());
/// let options = KlDivergenceOptions::new().log_target(true);
/// assert_eq!(kl_divergence(&tensor([-1.0]), &tensor([0.0]), options)?.item::<f64>()?, 1.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn kl_divergence(
    log_predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<KlDivergenceOptions>,
) -> Result<Tensor> {
    let KlDivergenceOptions { log_target, reduction } = options.into();
    Elementwise::of(KlDivergence { log_target }, log_predictions, targets, reduction)
}

/// The gradients of [`kl_divergence`]: `(−t, ln t + 1 − x)`, or `(−eᵗ, eᵗ·(t + 1 − x))` for targets that are
/// logarithms, times `grad_output`, over the number of elements for a mean. Where `t` is 0 the
/// logarithm is that of 1e-10, and the gradient finite.
#[track_caller]
#[extensor_derive::noted]
pub fn kl_divergence_backward(
    grad_output: &Tensor,
    log_predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<KlDivergenceOptions>,
) -> Result<(Tensor, Tensor)> {
    let KlDivergenceOptions { log_target, reduction } = options.into();
    let (inputs, loss) = ([log_predictions, targets], KlDivergence { log_target });
    let [x, t] = Elementwise::backward_at(loss, grad_output, inputs, reduction)?;
    Ok((x, t))
}

loss_options! {
    /// The options of [`kl_divergence`].
    pub struct KlDivergenceOptions {
        /// Whether targets are logarithms of probabilities.
        log_target: bool = false,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KlDivergence {
    log_target: bool,
}

impl KlDivergence {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

impl Loss for KlDivergence {
    const RECORD: &'static Record = &Record {
        name: "kl_divergence",
        formula: "y = t·(ln t − x), or eᵗ·(t − x) with log_target",
        derivative: "(−t, ln t + 1 − x), or (−eᵗ, eᵗ·(t + 1 − x)) with log_target",
        domain: "targets from 0 up, unless they are logarithms",
        conventions: "0 where t = 0; the logarithm in the derivative is that of 1e-10 there",
        inputs: &[Input::new("log_predictions"), Input::new("targets")],
        params: &[
            Parameter {
                name: "log_target",
                what: "whether targets are logarithms of probabilities",
                default: Some("false"),
            },
            Parameter {
                name: "reduction",
                what: "\"none\", \"mean\", \"sum\" or \"batchmean\" of the losses",
                default: Some("\"mean\""),
            },
        ],
        backward: signature!(kl_divergence_backward(grad_output, log_predictions, targets; log_target, reduction)),
        build: |p| {
            let log_target = p.bool("kl_divergence", "log_target", false)?;
            Elementwise::build(p, KlDivergence { log_target })
        },
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(-4.0, 0.0, shape), s.uniform(0.05, 1.0, shape)]
            });
            let x = crate::tensor([-1.0, -2.0, -0.5]);
            s.add_noted([x, crate::tensor([0.0, 1.0, 1e-12])], Params::new(), "of nothing");
            let logs =
                |s: &mut Sampler, shape: &[usize]| [(); 2].map(|()| s.uniform(-4.0, 0.0, shape));
            for reduction in [Reduce::None, Reduce::Mean, Reduce::BatchMean] {
                let inputs = logs(s, &[3, 4]);
                s.add(inputs, reduction.params().with("log_target", true));
            }
            let inputs = [s.uniform(-4.0, 0.0, &[3, 4]), s.uniform(0.05, 1.0, &[3, 4])];
            s.add(inputs, Reduce::BatchMean.params());
            let inputs = logs(s, &[]);
            s.add(inputs, Reduce::BatchMean.params().with("log_target", true));
        },
        kinks: |sample| {
            let logs = sample.params.bool("kl_divergence", "log_target", false).unwrap_or(false);
            !logs && sample.holds(1, &[0.0])
        },
        errors: |bad| {
            bad_calls(bad);
            let x = bad.ones(&[2], DType::F64);
            let word = Params::new().with("log_target", "yes");
            bad.add([x.clone(), x], word, "log_target is \"yes\", expected true or false");
        },
        ..BLANK
    };
    const BATCHMEAN: bool = true;

    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        if self.log_target {
            return t.exp().times(t - x);
        }
        let nothing = x.nan_or(x.lit(0.0));
        R::select(t.eq(t.lit(0.0)), nothing, t * (t.log() - x))
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, _: R, t: R) -> R {
        if self.log_target { -t.exp() } else { -t }
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, t: R) -> R {
        if self.log_target {
            return t.exp().times((t - x) + t.lit(1.0));
        }
        guard_above(t).log() + t.lit(1.0) - x
    }
}
