//! Losses of distributions of numbers: normal ones, and counts.

use super::*;
use crate::ops::pointwise::guard;
use crate::ops::record::{Class, Family, Input, Needs, signature};
use extensor_derive::method;

/// `½·ln 2π`.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_8;

/// Whether the part that no prediction moves is added.
const FULL: Parameter = Parameter {
    name: "full",
    what: "whether the part that no prediction moves is added",
    default: Some("false"),
};

/// What these losses have in common.
const BLANK: Record =
    Record { family: Family::Loss, class: Class::Reduction, needs: Needs::Inputs, ..Record::BLANK };

/// `½(ln v + (x − t)²/v)`, reduced, for predictions `x` of the mean and `v` of the variance of normally distributed
/// targets `t`, where a variance below `eps` counts as `eps`. `full` adds `½·ln 2π`.
///
/// Conventions: a variance below eps counts as eps, and has a gradient of 0; at eps it has that of the formula.
///
/// ```
/// use extensor::ops::GaussianNllOptions;
/// use extensor::tensor;
/// let (x, t, var) = (tensor([1.0, 2.0]), tensor([1.0, 4.0]), tensor([1.0, 4.0]));
/// let loss = x.gaussian_nll_loss(&t, &var, GaussianNllOptions::new())?;
/// assert_eq!(loss.item::<f64>()?, (0.5 * 4f64.ln() + 0.5) / 2.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn gaussian_nll_loss(
    predictions: &Tensor,
    targets: &Tensor,
    var: &Tensor,
    options: impl Into<GaussianNllOptions>,
) -> Result<Tensor> {
    let GaussianNllOptions { full, eps, reduction } = options.into();
    Elementwise::with(GaussianNll { full, eps }, &[predictions, targets, var], reduction)
}

/// The gradients of [`gaussian_nll_loss`]: `((x − t)/v, (t − x)/v, ½(1/v − (x − t)²/v²))`, times `grad_output`, over
/// the number of elements for a mean.
#[track_caller]
#[extensor_derive::noted]
pub fn gaussian_nll_loss_backward(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    var: &Tensor,
    options: impl Into<GaussianNllOptions>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let GaussianNllOptions { full, eps, reduction } = options.into();
    let (loss, inputs) = (GaussianNll { full, eps }, [predictions, targets, var]);
    let [x, t, v] = Elementwise::backward_with(loss, grad_output, &inputs, reduction)?;
    Ok((x, t, v))
}

loss_options! {
    /// The options of [`gaussian_nll_loss`].
    pub struct GaussianNllOptions {
        /// Whether `½·ln 2π` is added, which no prediction moves.
        full: bool = false,
        /// The least that a variance counts for: above 0.
        eps: f64 = 1e-6,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GaussianNll {
    full: bool,
    eps: f64,
}

impl GaussianNll {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

impl Loss for GaussianNll {
    const RECORD: &'static Record = &Record {
        name: "gaussian_nll_loss",
        formula: "y = ½(ln v + (x − t)²/v) with v = max(var, eps)",
        derivative: "((x − t)/v, (t − x)/v, ½(1/v − (x − t)²/v²))",
        conventions: "a variance below eps counts as eps, and has a gradient of 0; at eps it has that of \
                      the formula",
        inputs: &[Input::new("predictions"), Input::new("targets"), Input::new("var")],
        params: &[
            FULL,
            Parameter {
                name: "eps",
                what: "the least that a variance counts for: above 0",
                default: Some("1e-6"),
            },
            REDUCTION,
        ],
        backward: signature!(gaussian_nll_loss_backward(grad_output, predictions, targets, var; full, eps, reduction)),
        build: |p| {
            let op = "gaussian_nll_loss";
            let (full, eps) = (p.bool(op, "full", false)?, p.float(op, "eps", 1e-6)?);
            Elementwise::build(p, GaussianNll { full, eps })
        },
        samples: |s| {
            for (i, (shape, reduction)) in CASES.into_iter().enumerate() {
                let inputs = [s.normal(shape), s.normal(shape), s.uniform(0.3, 2.0, shape)];
                s.add(inputs, reduction.params().with("full", i % 2 == 0));
            }
            let many = &[LARGE];
            let inputs = [s.normal(many), s.normal(many), s.uniform(0.3, 2.0, many)];
            s.add_large(inputs, Params::new(), "many numbers");
            let inputs = [[1.0, -2.0, 3.0], [1.5, 0.0, -1.0], [0.25, 0.1, -3.0]].map(crate::tensor);
            s.add_noted(inputs.clone(), Params::new().with("eps", 0.5), "small variances");
            s.add_noted(inputs, Params::new().with("eps", 0.1), "at the least variance");
        },
        kinks: |sample| sample.holds(2, &[sample.number("eps", 1e-6)]),
        // One over a variance near 0 drowns all other losses in its rounding.
        takes: |sample| !sample.any(2, |var| var < 0.05),
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let (row, whole) = (bad.ones(&[3], DType::F64), bad.ones(&[2, 3], DType::I64));
            let none = Params::new;
            let message = "var has shape [3], expected [2, 3], as predictions has";
            bad.add([x.clone(), x.clone(), row.clone()], none(), message);
            let message = "targets has shape [3], expected [2, 3]";
            bad.add([x.clone(), row, x.clone()], none(), message);
            let message = "var has dtype i64, expected a float type";
            bad.add([x.clone(), x.clone(), whole], none(), message);
            let message = "got inputs (2 tensors), expected (predictions, targets, var)";
            bad.add([x.clone(), x.clone()], none(), message);
            let eps = none().with("eps", 0.0);
            bad.add(
                [x.clone(), x.clone(), x.clone()],
                eps,
                "eps is 0.0, expected a number above 0",
            );
            let word = none().with("reduction", "batchmean");
            let message = "reduction is \"batchmean\", expected \"none\", \"mean\" or \"sum\"";
            bad.add([x.clone(), x.clone(), x], word, message);
        },
        ..BLANK
    };

    fn check(&self) -> Result<()> {
        let eps = self.eps;
        expect_parameter("gaussian_nll_loss", "eps", eps, eps > 0.0, "a number above 0")
    }
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        self.loss_of([x, t, x.lit(1.0), x.lit(1.0)])
    }
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        x - t
    }
    #[inline(always)]
    fn loss_of<R: Real>(&self, [x, t, var, _]: [R; 4]) -> R {
        let (d, v, half) = (x - t, var.maximum(var.lit(self.eps)), x.lit(0.5));
        let own = half * (v.log() + d * (d / v));
        if self.full { own + own.lit(HALF_LOG_TAU) } else { own }
    }
    #[inline(always)]
    fn slope_of<R: Real>(&self, by: usize, [x, t, var, _]: [R; 4]) -> R {
        let (d, eps) = (x - t, var.lit(self.eps));
        let v = var.maximum(eps);
        match by {
            0 => d / v,
            1 => -d / v,
            _ => {
                // ½(1 − d²/v)/v, in which only the difference cancels.
                let pull = var.lit(0.5) * (var.lit(1.0) - d * (d / v)) / v;
                R::select(var.lt(eps), d.nan_or(var.lit(0.0)), pull)
            }
        }
    }
}

/// `eˣ − t·x`, reduced, for predictions `x` of the logarithm of the mean of counts `t`; with `log_input` false `x − t·ln(x +
/// eps)`, for predictions of the mean. `full` adds Stirling's approximation of `ln t!`, `t·ln t − t + ½·ln 2πt`, where `t`
/// is above 1.
///
/// Domain: x + eps > 0 where x is no logarithm.
/// Conventions: full adds t·ln t − t + ½·ln 2πt where t > 1; where x + eps is 0 the derivative uses 1e-10.
///
/// ```
/// use extensor::ops::{PoissonNllOptions, Reduce};
/// use extensor::tensor;
/// let (x, t) = (tensor([0.0, 1.0]), tensor([3.0, 2.0]));
/// let loss = x.poisson_nll_loss(&t, Reduce::None)?;
/// assert_eq!(loss.to_vec::<f64>()?, [1.0, 1f64.exp() - 2.0]);
/// let options = PoissonNllOptions::new().log_input(false).eps(0.0).reduction(Reduce::Sum);
/// assert_eq!(tensor([1.0]).poisson_nll_loss(&tensor([5.0]), options)?.item::<f64>()?, 1.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn poisson_nll_loss(
    predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<PoissonNllOptions>,
) -> Result<Tensor> {
    let options = options.into();
    Elementwise::of(PoissonNll::of(options), predictions, targets, options.reduction)
}

/// The gradients of [`poisson_nll_loss`]: `(eˣ − t, −x)`, or `(1 − t/(x + eps), −ln(x + eps))`, times `grad_output`, over the
/// number of elements for a mean; with `full` and `t > 1` `ln t + 1/(2t)` more for the targets.
#[track_caller]
#[extensor_derive::noted]
pub fn poisson_nll_loss_backward(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<PoissonNllOptions>,
) -> Result<(Tensor, Tensor)> {
    let options = options.into();
    let (loss, inputs) = (PoissonNll::of(options), [predictions, targets]);
    let [x, t] = Elementwise::backward_at(loss, grad_output, inputs, options.reduction)?;
    Ok((x, t))
}

loss_options! {
    /// The options of [`poisson_nll_loss`].
    pub struct PoissonNllOptions {
        /// Whether predictions are logarithms.
        log_input: bool = true,
        /// Whether Stirling's approximation is added, which no prediction moves.
        full: bool = false,
        /// What is added to predictions that are no logarithms: not negative.
        eps: f64 = 1e-8,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PoissonNll {
    log_input: bool,
    full: bool,
    eps: f64,
}

impl PoissonNll {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;

    fn of(options: PoissonNllOptions) -> PoissonNll {
        let PoissonNllOptions { log_input, full, eps, .. } = options;
        PoissonNll { log_input, full, eps }
    }
}

impl Loss for PoissonNll {
    const RECORD: &'static Record = &Record {
        name: "poisson_nll_loss",
        formula: "y = eˣ − t·x, or x − t·ln(x + eps) without log_input",
        derivative: "(eˣ − t, −x), or (1 − t/(x + eps), −ln(x + eps)) without log_input",
        domain: "x + eps > 0 where x is no logarithm",
        conventions: "full adds t·ln t − t + ½·ln 2πt where t > 1; where x + eps is 0 the derivative \
                      uses 1e-10",
        inputs: &[Input::new("predictions"), Input::new("targets")],
        params: &[
            Parameter {
                name: "log_input",
                what: "whether predictions are logarithms",
                default: Some("true"),
            },
            FULL,
            Parameter {
                name: "eps",
                what: "what is added to predictions that are no logarithms: not negative",
                default: Some("1e-8"),
            },
            REDUCTION,
        ],
        backward: signature!(poisson_nll_loss_backward(grad_output, predictions, targets; log_input, full, eps, reduction)),
        build: |p| {
            let op = "poisson_nll_loss";
            let log_input = p.bool(op, "log_input", true)?;
            let (full, eps) = (p.bool(op, "full", false)?, p.float(op, "eps", 1e-8)?);
            Elementwise::build(p, PoissonNll { log_input, full, eps })
        },
        samples: |s| {
            samples(s, Reduce::params, |s, shape| [s.normal(shape), s.uniform(0.0, 6.0, shape)]);
            for (log_input, full) in [(true, true), (false, false), (false, true)] {
                for reduction in [Reduce::None, Reduce::Mean] {
                    let x = s.uniform(0.2, 3.0, &[3, 4]);
                    let t = s.away(0.0, 6.0, &[1.0], &[3, 4]);
                    let params = reduction.params().with("log_input", log_input);
                    s.add([x, t], params.with("full", full).with("eps", 1e-3));
                }
            }
            let (x, t) = (crate::tensor([0.5, 2.0, 1.0]), crate::tensor([0.0, 1.0, 3.0]));
            s.add_noted([x, t], Params::new().with("full", true), "where the approximation ends");
        },
        kinks: |sample| {
            let flag = |name, default| {
                sample.params.bool("poisson_nll_loss", name, default).unwrap_or(default)
            };
            let eps = sample.number("eps", 1e-8);
            let ends = flag("full", false) && sample.holds(1, &[1.0]);
            ends || !flag("log_input", true) && sample.any(0, |x| x + eps <= 0.0)
        },
        // A large eˣ drowns all other losses in its rounding.
        takes: |sample| !sample.any(0, |x| x > 20.0),
        errors: |bad| {
            bad_calls(bad);
            let x = bad.ones(&[2], DType::F64);
            let negative = Params::new().with("eps", -1.0);
            bad.add([x.clone(), x], negative, "eps is -1.0, expected a number from 0 up");
        },
        ..BLANK
    };

    fn check(&self) -> Result<()> {
        let eps = self.eps;
        expect_parameter("poisson_nll_loss", "eps", eps, eps >= 0.0, "a number from 0 up")
    }
    #[inline(always)]
    fn loss<R: Real>(&self, x: R, t: R) -> R {
        let own = if self.log_input {
            x.exp() - t.times(x)
        } else {
            x - t.times((x + x.lit(self.eps)).log())
        };
        if !self.full {
            return own;
        }
        let log = t.log();
        let half = t.lit(0.5);
        let stirling = t * log - t + (t.lit(HALF_LOG_TAU) + half * log);
        own + R::select(t.lit(1.0).lt(t), stirling, t.nan_or(t.lit(0.0)))
    }
    #[inline(always)]
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R {
        if self.log_input {
            return x.exp() - t;
        }
        let d = x + x.lit(self.eps);
        let slope = x.lit(1.0) - t / guard(d);
        R::select(d.lt(x.lit(0.0)), x.lit(f64::NAN), slope)
    }
    #[inline(always)]
    fn by_target<R: Real>(&self, x: R, t: R) -> R {
        let own = if self.log_input { -x } else { -(x + x.lit(self.eps)).log() };
        if !self.full {
            return own;
        }
        let stirling = t.log() + t.lit(0.5) / t;
        own + R::select(t.lit(1.0).lt(t), stirling, t.nan_or(t.lit(0.0)))
    }
    #[inline(always)]
    fn singular<R: Real>(&self, x: R) -> R::Mask {
        if self.log_input {
            return !x.eq(x) & x.eq(x);
        }
        (x + x.lit(self.eps)).eq(x.lit(0.0))
    }
}
