//! Losses of which of two is larger, or nearer.

use super::*;
use crate::ops::record::{Class, Family, Input, Needs, signature};
use crate::{ops, over};
use extensor_derive::method;

/// `max(0, margin − t·(x₁ − x₂))`, reduced, for targets `t`, which are constants: 1 where the first is to be larger
/// than the second, −1 where it is to be smaller.
///
/// Conventions: the gradient is 0 where t·(x₁ − x₂) = margin; targets are constants.
///
/// ```
/// use extensor::ops::MarginRankingOptions;
/// use extensor::tensor;
/// let (first, second) = (tensor([1.0, 5.0]), tensor([3.0, 1.0]));
/// let loss = first.margin_ranking_loss(&second, &tensor([1.0, 1.0]), MarginRankingOptions::new().margin(0.5))?;
/// assert_eq!(loss.item::<f64>()?, 1.25);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn margin_ranking_loss(
    first: &Tensor,
    second: &Tensor,
    targets: &Tensor,
    options: impl Into<MarginRankingOptions>,
) -> Result<Tensor> {
    let MarginRankingOptions { margin, reduction } = options.into();
    Elementwise::with(MarginRanking { margin }, &[first, second, targets], reduction)
}

/// The gradients of [`margin_ranking_loss`] for both: `(−t, t)` where `t·(x₁ − x₂) < margin`, 0 elsewhere, times
/// `grad_output`, over the number of elements for a mean.
#[track_caller]
#[extensor_derive::noted]
pub fn margin_ranking_loss_backward(
    grad_output: &Tensor,
    first: &Tensor,
    second: &Tensor,
    targets: &Tensor,
    options: impl Into<MarginRankingOptions>,
) -> Result<(Tensor, Tensor)> {
    let MarginRankingOptions { margin, reduction } = options.into();
    let (loss, inputs) = (MarginRanking { margin }, [first, second, targets]);
    let [a, b] = Elementwise::backward_with(loss, grad_output, &inputs, reduction)?;
    Ok((a, b))
}

loss_options! {
    /// The options of [`margin_ranking_loss`].
    pub struct MarginRankingOptions {
        /// By how much the one is to be larger.
        margin: f64 = 0.0,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MarginRanking {
    margin: f64,
}

impl MarginRanking {
    pub(crate) const RECORD: &'static Record = <Self as Loss>::RECORD;
}

impl Loss for MarginRanking {
    const RECORD: &'static Record = &Record {
        name: "margin_ranking_loss",
        family: Family::Loss,
        formula: "y = max(0, margin − t·(x₁ − x₂))",
        derivative: "(−t, t) where t·(x₁ − x₂) < margin, 0 elsewhere",
        conventions: "the gradient is 0 where t·(x₁ − x₂) = margin; targets are constants",
        inputs: &[Input::new("first"), Input::new("second"), Input::constant("targets")],
        params: &[
            Parameter {
                name: "margin",
                what: "by how much the one is to be larger",
                default: Some("0.0"),
            },
            REDUCTION,
        ],
        class: Class::Reduction,
        needs: Needs::Inputs,
        backward: signature!(margin_ranking_loss_backward(grad_output, first, second, targets; margin, reduction)),
        build: |p| {
            let margin = p.float("margin_ranking_loss", "margin", 0.0)?;
            Elementwise::build(p, MarginRanking { margin })
        },
        samples: |s| {
            for (i, (shape, reduction)) in CASES.into_iter().enumerate() {
                let margin = if i % 2 == 0 { 0.0 } else { 0.4 };
                let second = s.normal(shape);
                let apart = s.away(-2.0, 2.0, &[-margin, margin], shape).to_f64_vec();
                let first = second.to_f64_vec().into_iter().zip(apart).map(|(x, d)| x + d);
                let first = sample_of(first.collect(), shape);
                let signs = s.away(-1.0, 1.0, &[0.0], shape).to_f64_vec();
                let targets = sample_of(signs.into_iter().map(f64::signum).collect(), shape);
                s.add([first, second, targets], reduction.params().with("margin", margin));
            }
            let inputs = [[1.0, 3.0], [1.0, 2.5], [1.0, -1.0]].map(crate::tensor);
            s.add_noted(inputs, Params::new(), "equal");
        },
        kinks: |sample| {
            let (margin, t) = (sample.number("margin", 0.0), sample.inputs[2].to_f64_vec());
            let [a, b] = [0, 1].map(|i| sample.inputs[i].to_f64_vec());
            a.iter().zip(&b).zip(t).any(|((a, b), t)| t * (a - b) == margin)
        },
        errors: |bad| {
            let (x, row) = (bad.ones(&[2, 3], DType::F64), bad.ones(&[2], DType::F64));
            let none = Params::new;
            let message = "targets has shape [2], expected one that broadcasts to [2, 3]";
            bad.add([x.clone(), x.clone(), row.clone()], none(), message);
            let message = "second has shape [2], expected [2, 3], as first has";
            bad.add([x.clone(), row, x.clone()], none(), message);
            let whole = bad.ones(&[2, 3], DType::I64);
            let message = "targets has dtype i64, expected a float type";
            bad.add([x.clone(), x.clone(), whole], none(), message);
            let nan = none().with("margin", f64::NAN);
            let message = "margin is NaN, expected a finite number";
            bad.add([x.clone(), x.clone(), x], nan, message);
        },
        ..Record::BLANK
    };

    fn check(&self) -> Result<()> {
        expect_parameter("margin_ranking_loss", "margin", self.margin, true, "a finite number")
    }
    fn loss<R: Real>(&self, first: R, second: R) -> R {
        self.loss_of([first, second, first.lit(1.0), first.lit(1.0)])
    }
    fn by_prediction<R: Real>(&self, first: R, second: R) -> R {
        self.slope_of(0, [first, second, first.lit(1.0), first.lit(1.0)])
    }
    #[inline(always)]
    fn loss_of<R: Real>(&self, [first, second, t, _]: [R; 4]) -> R {
        (first.lit(self.margin) - t * (first - second)).maximum(first.lit(0.0))
    }
    #[inline(always)]
    fn slope_of<R: Real>(&self, by: usize, [first, second, t, _]: [R; 4]) -> R {
        let wrong = first.lit(self.margin) - t * (first - second);
        let pull = if by == 0 { -t } else { t };
        wrong.nan_or(R::select(wrong.le(first.lit(0.0)), first.lit(0.0), pull))
    }
}

/// What becomes of losses that were made of operations.
fn reduced(losses: &Tensor, reduction: Reduce, op: &'static str) -> Result<Tensor> {
    reduction.check(op, false)?;
    match reduction {
        Reduce::Sum => ops::sum(losses, ..),
        Reduce::Mean => ops::mean(losses, ..),
        _ => Ok(losses.clone()),
    }
}

crate::ops::options::options! {
    /// The options of [`triplet_margin_loss`].
    pub struct TripletMarginOptions {
        /// How much nearer the positive is to be than the negative: above 0.
        margin: f64 = 1.0,
        /// The exponent of the distance, `(Σ |d|ᵖ)^(1/p)`: 1 or more.
        p: f64 = 2.0,
        /// What is added to every difference.
        eps: f64 = 1e-6,
        /// Whether the negative's distance is that to the anchor or the positive, whichever is nearer.
        swap: bool = false,
        /// What becomes of the losses of all rows.
        reduction: Reduce = Reduce::Mean,
    }
}

/// `max(0, d(a, p) − d(a, n) + margin)`, reduced, with the distances `d(x, y) = (Σ |x − y + eps|ᵖ)^(1/p)` along the last axis:
/// an anchor is to be nearer to the positive than to the negative. Made of other operations.
///
/// ```
/// use extensor::ops::TripletMarginOptions;
/// use extensor::tensor;
/// let (anchor, positive) = (tensor([[0.0, 0.0]]), tensor([[3.0, 4.0]]));
/// let options = TripletMarginOptions::new().eps(0.0);
/// let loss = anchor.triplet_margin_loss(&positive, &tensor([[0.0, 2.0]]), options)?;
/// assert_eq!(loss.item::<f64>()?, 4.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    options: TripletMarginOptions,
) -> Result<Tensor> {
    let (op, TripletMarginOptions { margin, p, eps, swap, reduction }) =
        ("triplet_margin_loss", options);
    expect_parameter(op, "margin", margin, margin > 0.0, "a number above 0")?;
    expect_parameter(op, "p", p, p >= 1.0, "a number from 1 up")?;
    expect_parameter(op, "eps", eps, true, "a finite number")?;
    for (argument, x) in [("anchor", anchor), ("positive", positive), ("negative", negative)] {
        x.dtype().expect_float(op, argument)?;
        if x.ndim() == 0 {
            let expected = "at least one dimension".into();
            return Err(Error::Shape { op, argument, expected, got: x.shape().clone() });
        }
    }
    let number = |v: f64, x: &Tensor| Tensor::scalar_of(v, x.dtype());
    let distance = |x: &Tensor, y: &Tensor| -> Result<Tensor> {
        let d = ops::subtract(x, y)?;
        let d = ops::add(&d, &number(eps, &d)?)?;
        if p == 2.0 {
            return ops::norm(&d, -1);
        }
        let size = ops::abs(&d)?;
        if p == 1.0 {
            return ops::sum(&size, over(-1));
        }
        let sum = ops::sum(&ops::power(&size, &number(p, &d)?)?, over(-1))?;
        ops::power(&sum, &number(1.0 / p, &sum)?)
    };
    let (near, mut far) = (distance(anchor, positive)?, distance(anchor, negative)?);
    if swap {
        far = ops::minimum(&far, &distance(positive, negative)?)?;
    }
    let apart = ops::subtract(&near, &far)?;
    let losses = ops::relu(&ops::add(&apart, &number(margin, &apart)?)?)?;
    reduced(&losses, reduction, op)
}

crate::ops::options::options! {
    /// The options of [`cosine_embedding_loss`].
    pub struct CosineEmbeddingOptions {
        /// The cosine up to which what is to be unlike may be alike: from −1 to 1.
        margin: f64 = 0.0,
        /// What becomes of the losses of all rows.
        reduction: Reduce = Reduce::Mean,
    }
}

/// `1 − cos(x₁, x₂)` for targets of 1, `max(0, cos(x₁, x₂) − margin)` for targets of −1, reduced: with the cosine of the angle
/// between vectors along the last axis, `x₁·x₂/(|x₁||x₂|)`. Targets are constants, of the shape of the other axes. Made of
/// other operations; the cosine beside a vector of zeros is 0.
///
/// ```
/// use extensor::ops::CosineEmbeddingOptions;
/// use extensor::tensor;
/// let (a, b) = (tensor([[1.0, 0.0], [3.0, 4.0]]), tensor([[0.0, 2.0], [6.0, 8.0]]));
/// let loss = a.cosine_embedding_loss(&b, &tensor([1.0, -1.0]), CosineEmbeddingOptions::new())?;
/// assert_eq!(loss.item::<f64>()?, 1.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cosine_embedding_loss(
    first: &Tensor,
    second: &Tensor,
    targets: &Tensor,
    options: CosineEmbeddingOptions,
) -> Result<Tensor> {
    let (op, CosineEmbeddingOptions { margin, reduction }) = ("cosine_embedding_loss", options);
    let allowed = (-1.0..=1.0).contains(&margin);
    expect_parameter(op, "margin", margin, allowed, "a number from −1 to 1")?;
    for (argument, x) in [("first", first), ("second", second)] {
        x.dtype().expect_float(op, argument)?;
        if x.ndim() == 0 {
            let expected = "at least one dimension".into();
            return Err(Error::Shape { op, argument, expected, got: x.shape().clone() });
        }
    }
    if first.shape() != second.shape() {
        let (expected, got) = (first.shape().to_string(), second.shape().clone());
        return Err(Error::Shape { op, argument: "second", expected, got });
    }
    // Vectors of length 1 first: products of large numbers overflow, and of small ones vanish.
    let directed = |x: &Tensor| -> Result<Tensor> {
        let zero = Tensor::scalar_of(0.0, x.dtype())?;
        let length = ops::norm(x, over(-1).keepdims(true))?;
        let one = Tensor::scalar_of(1.0, x.dtype())?;
        ops::divide(x, &ops::where_(&ops::equal(&length, &zero)?, &one, &length)?)
    };
    let cosine = ops::sum(&ops::multiply(&directed(first)?, &directed(second)?)?, over(-1))?;
    if targets.shape() != cosine.shape() {
        let (expected, got) = (cosine.shape().to_string(), targets.shape().clone());
        return Err(Error::Shape { op, argument: "targets", expected, got });
    }
    let number = |v: f64| Tensor::scalar_of(v, cosine.dtype());
    let alike = ops::subtract(&number(1.0)?, &cosine)?;
    let unlike = ops::relu(&ops::subtract(&cosine, &number(margin)?)?)?;
    let zero = Tensor::scalar_of(0.0, targets.dtype())?;
    let losses = ops::where_(&ops::greater(targets, &zero)?, &alike, &unlike)?;
    reduced(&losses, reduction, op)
}
