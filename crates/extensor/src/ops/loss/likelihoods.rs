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

/// Samples with a weight for each loss, for each column, and for all.
fn weighted(s: &mut Sampler, draw: impl Fn(&mut Sampler, &[usize]) -> [Tensor; 2]) {
    let shapes: [&[usize]; 3] = [&[3, 4], &[4], &[]];
    for (shape, reduction) in shapes.into_iter().zip([Reduce::None, Reduce::Mean, Reduce::Sum]) {
        let [x, t] = draw(s, &[3, 4]);
        let weight = s.uniform(0.0, 2.0, shape);
        s.add([x, t, weight], reduction.params());
    }
}

/// Weights that do not fit.
fn bad_weights(bad: &mut Bad, message: &'static str) {
    let [x, weight] = [&[2, 3][..], &[2]].map(|shape| bad.ones(shape, DType::F64));
    bad.add([x.clone(), x.clone(), weight], Params::new(), message);
    let whole = bad.ones(&[3], DType::I64);
    let message = "weight has dtype i64, expected a float type";
    bad.add([x.clone(), x, whole], Params::new(), message);
}

/// The least that a logarithm of a probability counts for.
const LEAST_LOG: f64 = -100.0;

/// `−(t·ln x + (1 − t)·ln(1 − x))`, reduced, for probabilities `x`. A logarithm below −100 counts as
/// −100, so that a certain prediction that is wrong has a finite loss.
///
/// Domain: predictions from 0 to 1.
/// A `weight` multiplies the losses; a mean is over their number all the same.
///
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
pub fn binary_cross_entropy<'a>(
    predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<BinaryCrossEntropyOptions<'a>>,
) -> Result<Tensor> {
    let options = options.into();
    let inputs = given([predictions, targets], [options.weight, None]);
    Elementwise::with(BinaryCrossEntropy, &inputs, options.reduction)
}

/// The gradients of [`binary_cross_entropy`]: `((x − t)/(x(1 − x)), ln(1 − x) − ln x)`, times
/// `grad_output` and `weight`, over the number of elements for a mean. Where `x(1 − x)` is 0 it uses
/// 1e-10, and stays finite.
#[track_caller]
#[extensor_derive::noted]
pub fn binary_cross_entropy_backward<'a>(
    grad_output: &Tensor,
    predictions: &Tensor,
    targets: &Tensor,
    options: impl Into<BinaryCrossEntropyOptions<'a>>,
) -> Result<(Tensor, Tensor)> {
    let (options, loss) = (options.into(), BinaryCrossEntropy);
    let inputs = given([predictions, targets], [options.weight, None]);
    let [x, t] = Elementwise::backward_with(loss, grad_output, &inputs, options.reduction)?;
    Ok((x, t))
}

crate::ops::options::options! {
    /// The options of [`binary_cross_entropy`]; a plain [`Reduce`] may stand for them.
    pub struct BinaryCrossEntropyOptions<'a> {
        /// What the losses are multiplied by, broadcast to them.
        weight: Option<&'a Tensor> = None,
        /// What becomes of the losses of all elements.
        reduction: Reduce = Reduce::Mean,
    }
}

impl From<Reduce> for BinaryCrossEntropyOptions<'_> {
    fn from(reduction: Reduce) -> Self {
        BinaryCrossEntropyOptions { weight: None, reduction }
    }
}

/// Predictions and targets, and the further tensors that are given.
fn given<'a>(
    first: [&'a Tensor; 2],
    further: [Option<&'a Tensor>; 2],
) -> SmallVec<[&'a Tensor; 4]> {
    let mut inputs: SmallVec<[&Tensor; 4]> = SmallVec::from_slice(&first);
    inputs.extend(further.into_iter().flatten());
    inputs
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
        inputs: &[
            Input::new("predictions"),
            Input::new("targets"),
            Input::optional_factor("weight"),
        ],
        backward: signature!(binary_cross_entropy_backward(grad_output, predictions, targets, weight; reduction)),
        build: |p| Elementwise::build(p, BinaryCrossEntropy),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(0.05, 0.95, shape), s.uniform(0.0, 1.0, shape)]
            });
            let certain = crate::tensor([0.0, 0.0, 1.0, 1.0, 1e-12]);
            let targets = crate::tensor([0.0, 1.0, 0.0, 1.0, 0.5]);
            s.add_noted([certain, targets], Params::new(), "certain");
            weighted(s, |s, shape| [s.uniform(0.05, 0.95, shape), s.uniform(0.0, 1.0, shape)]);
        },
        kinks: |sample| sample.holds(0, &[0.0, 1.0]),
        errors: |bad| {
            bad_calls(bad);
            bad_weights(bad, "weight has shape [2], expected one that broadcasts to [2, 3]");
        },
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
/// A `pos_weight` multiplies the part of the target 1, `t·ln(1 + e⁻ˣ)`; a `weight` multiplies the losses. A mean is over
/// their number all the same.
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
pub fn binary_cross_entropy_with_logits<'a>(
    logits: &Tensor,
    targets: &Tensor,
    options: impl Into<LogitsOptions<'a>>,
) -> Result<Tensor> {
    let options = options.into();
    let one = Tensor::scalar_of(1.0, logits.dtype())?;
    let inputs = given([logits, targets], options.factors(&one));
    Elementwise::with(BinaryCrossEntropyWithLogits, &inputs, options.reduction)
}

/// The gradients of [`binary_cross_entropy_with_logits`]: `(1/(1 + e⁻ˣ) − t, −x)`, times
/// `grad_output`, over the number of elements for a mean; with weights
/// `(weight·((1 − t)/(1 + e⁻ˣ) − pos_weight·t/(1 + eˣ)), weight·(pos_weight·ln(1 + e⁻ˣ) − ln(1 + eˣ)))`.
#[track_caller]
#[extensor_derive::noted]
pub fn binary_cross_entropy_with_logits_backward<'a>(
    grad_output: &Tensor,
    logits: &Tensor,
    targets: &Tensor,
    options: impl Into<LogitsOptions<'a>>,
) -> Result<(Tensor, Tensor)> {
    let (options, loss) = (options.into(), BinaryCrossEntropyWithLogits);
    let one = Tensor::scalar_of(1.0, logits.dtype())?;
    let inputs = given([logits, targets], options.factors(&one));
    let [x, t] = Elementwise::backward_with(loss, grad_output, &inputs, options.reduction)?;
    Ok((x, t))
}

crate::ops::options::options! {
    /// The options of [`binary_cross_entropy_with_logits`]; a plain [`Reduce`] may stand for them.
    pub struct LogitsOptions<'a> {
        /// What the losses are multiplied by, broadcast to them.
        weight: Option<&'a Tensor> = None,
        /// What the part of the target 1 is multiplied by, broadcast to the losses.
        pos_weight: Option<&'a Tensor> = None,
        /// What becomes of the losses of all elements.
        reduction: Reduce = Reduce::Mean,
    }
}

impl From<Reduce> for LogitsOptions<'_> {
    fn from(reduction: Reduce) -> Self {
        LogitsOptions { reduction, ..LogitsOptions::default() }
    }
}

impl<'a> LogitsOptions<'a> {
    /// Both weights; `one` for the first if only the second is given.
    fn factors(&self, one: &'a Tensor) -> [Option<&'a Tensor>; 2] {
        [self.weight.or(self.pos_weight.map(|_| one)), self.pos_weight]
    }
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
        inputs: &[
            Input::new("logits"),
            Input::new("targets"),
            Input::optional_factor("weight"),
            Input::optional_factor("pos_weight"),
        ],
        backward: signature!(binary_cross_entropy_with_logits_backward(grad_output, logits, targets, weight, pos_weight; reduction)),
        build: |p| Elementwise::build(p, BinaryCrossEntropyWithLogits),
        samples: |s| {
            samples(s, Reduce::params, |s, shape| {
                [s.uniform(-6.0, 6.0, shape), s.uniform(0.0, 1.0, shape)]
            });
            let large = crate::tensor([-1e4, -50.0, 0.0, 50.0, 1e4, 1e4]);
            let targets = crate::tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
            s.add_far([large, targets], Params::new(), "large");
            weighted(s, |s, shape| [s.uniform(-6.0, 6.0, shape), s.uniform(0.0, 1.0, shape)]);
            let shapes: [&[usize]; 3] = [&[4], &[], &[3, 4]];
            let reductions = [Reduce::None, Reduce::Mean, Reduce::Sum];
            for (shape, reduction) in shapes.into_iter().zip(reductions) {
                let inputs = [
                    s.uniform(-6.0, 6.0, &[3, 4]),
                    s.uniform(0.0, 1.0, &[3, 4]),
                    s.uniform(0.5, 2.0, &[3, 1]),
                    s.uniform(0.0, 5.0, shape),
                ];
                s.add(inputs, reduction.params());
            }
            let inputs = [[-1e4, 50.0, 0.0], [0.0, 1.0, 0.5], [2.0; 3], [3.0; 3]];
            s.add_far(inputs.map(crate::tensor), Params::new(), "large, with weights");
        },
        errors: |bad| {
            bad_calls(bad);
            bad_weights(bad, "weight has shape [2], expected one that broadcasts to [2, 3]");
            let [x, long] = [&[2, 3][..], &[5, 2, 3]].map(|shape| bad.ones(shape, DType::F64));
            let inputs = [x.clone(), x.clone(), x, long];
            let message = "pos_weight has shape [5, 2, 3], expected one that broadcasts to [2, 3]";
            bad.add(inputs, Params::new(), message);
        },
        ..BLANK
    };

    fn loss_of<R: Real>(&self, [x, t, weight, positive]: [R; 4]) -> R {
        let (no, yes) = (x.softplus(), (-x).softplus());
        weight.times((t.lit(1.0) - t).times(no) + (positive * t).times(yes))
    }
    fn slope_of<R: Real>(&self, by: usize, [x, t, weight, positive]: [R; 4]) -> R {
        weight.times(if by == 0 {
            (t.lit(1.0) - t) * x.sigmoid() - positive * t * (-x).sigmoid()
        } else {
            // ln(1 + eˣ) is x more than ln(1 + e⁻ˣ), of which nothing is left where pos_weight is 1.
            let apart = (positive - x.lit(1.0)).times((-x).softplus()) - x;
            R::select(x.is_finite(), apart, positive.times((-x).softplus()) - x.softplus())
        })
    }
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
