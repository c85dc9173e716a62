//! How far predictions are from targets.

// A loss of one number and its target is a `Loss`: its formula and the formulas of its two
// derivatives. `Elementwise` adds what is done with the losses of all elements and makes it an
// operation; where they are added up, their tensor is never written.

pub(super) mod cross_entropy;
pub(super) mod ctc;
pub(super) mod distances;
pub(super) mod divergence;
pub(super) mod labels;
pub(super) mod likelihoods;
pub(super) mod nll;
pub(super) mod ranking;
pub(super) mod regression;
mod several;
mod weighed;
mod weighing;

pub use cross_entropy::*;
pub use ctc::*;
pub use distances::*;
pub use divergence::*;
pub use labels::*;
pub use likelihoods::*;
pub use nll::*;
pub use ranking::*;
pub use regression::*;
pub use weighing::NllOptions;

use crate::exec::launch_one;
use crate::exec::reduce::MapSum;
use crate::ops::batching::{Batch, Batched, View};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::{map_real, promote, settle};
use crate::ops::record::{Parameter, Record};
use crate::ops::reduction::wide;
use crate::ops::samples::{Bad, LARGE, Sampler};
use crate::{Axes, DType, Error, Result, Shape, Tensor, ops};
use extensor_kernels::map::{Formula, Formulas, RealBlock};
use extensor_kernels::number::Real;
use smallvec::{SmallVec, smallvec};
use std::fmt::{self, Debug};
use std::sync::Arc;

/// What becomes of the losses of all elements.
///
/// ```
/// use extensor::ops::{Reduce, mean_squared_error};
/// use extensor::tensor;
/// let (predictions, targets) = (tensor([1.0, 2.0]), tensor([1.0, 4.0]));
/// let of = |reduction| mean_squared_error(&predictions, &targets, reduction);
/// assert_eq!(of(Reduce::None)?.to_vec::<f64>()?, [0.0, 4.0]);
/// assert_eq!(of(Reduce::Sum)?.item::<f64>()?, 4.0);
/// assert_eq!(of(Reduce::Mean)?.item::<f64>()?, 2.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// They are returned as they are.
    None,
    /// Their sum, divided by how many there are: NaN of nothing.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum, divided by the size of the first axis: for [`kl_divergence`] alone, whose losses are
    /// parts of one of a whole distribution.
    BatchMean,
}

impl fmt::Display for Reduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reduce::None => "none",
            Reduce::Mean => "mean",
            Reduce::Sum => "sum",
            Reduce::BatchMean => "batchmean",
        })
    }
}

impl Reduce {
    fn of(params: &Params, op: &'static str) -> Result<Reduce> {
        let word = params.text(op, "reduction", "mean")?;
        let all = [Reduce::None, Reduce::Mean, Reduce::Sum, Reduce::BatchMean];
        let found = all.into_iter().find(|r| r.to_string() == word);
        found.ok_or_else(|| Reduce::wrong(op, &word, false))
    }

    /// An error if it is [`Reduce::BatchMean`], which the operation has not unless `batchmean`.
    fn check(self, op: &'static str, batchmean: bool) -> Result<()> {
        match self {
            Reduce::BatchMean if !batchmean => Err(Reduce::wrong(op, &self.to_string(), batchmean)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn wrong(op: &'static str, word: &str, batchmean: bool) -> Error {
        let last = if batchmean { "\"sum\" or \"batchmean\"" } else { "\"mean\" or \"sum\"" };
        let expected = format!("\"none\", {}{last}", if batchmean { "\"mean\", " } else { "" });
        Error::Parameter { op, parameter: "reduction", expected, got: format!("{word:?}") }
    }

    /// The shape of the result, for losses of this shape.
    fn shape(self, losses: &Shape) -> Shape {
        if self == Reduce::None { losses.clone() } else { Shape::scalar() }
    }

    /// What the sum of losses of this shape is divided by.
    fn divisor(self, losses: &Shape) -> f64 {
        match self {
            Reduce::Mean => losses.iter().product::<usize>() as f64,
            Reduce::BatchMean => losses.first().copied().unwrap_or(1) as f64,
            Reduce::None | Reduce::Sum => 1.0,
        }
    }

    /// The parameter, for calls by name.
    fn params(self) -> Params {
        Params::new().with("reduction", self.to_string().as_str())
    }
}

/// Defines the options of a loss: a plain [`Reduce`] may stand for them.
macro_rules! loss_options {
    (
        $(#[$doc:meta])*
        pub struct $Options:ident { $($fields:tt)* }
    ) => {
        crate::ops::options::options! {
            $(#[$doc])*
            pub struct $Options {
                $($fields)*
                /// What becomes of the losses of all elements.
                reduction: Reduce = Reduce::Mean,
            }
        }
        impl From<Reduce> for $Options {
            fn from(reduction: Reduce) -> $Options {
                $Options { reduction, ..$Options::default() }
            }
        }
    };
}
use loss_options;

/// The parameter `reduction`.
const REDUCTION: Parameter = Parameter {
    name: "reduction",
    what: "\"none\", \"mean\" or \"sum\" of the losses",
    default: Some("\"mean\""),
};

/// What is particular to a loss that each element has for itself.
trait Loss: Clone + Debug + Send + Sync + 'static {
    /// Its record.
    const RECORD: &'static Record;
    /// An error if a parameter is wrong.
    fn check(&self) -> Result<()> {
        Ok(())
    }
    /// The loss of `x` where the target is `t`.
    fn loss<R: Real>(&self, x: R, t: R) -> R;
    /// Its derivative by `x`.
    fn by_prediction<R: Real>(&self, x: R, t: R) -> R;
    /// Its derivative by `t`; not called where targets are constants.
    fn by_target<R: Real>(&self, _: R, t: R) -> R {
        t.lit(f64::NAN)
    }
    /// Where its derivative by `x` would divide by 0.
    fn singular<R: Real>(&self, x: R) -> R::Mask {
        !x.eq(x) & x.eq(x)
    }
    /// Whether there is a reduction by the size of the first axis.
    const BATCHMEAN: bool = false;
    /// The loss of `x` where the target is `t`, beside further tensors; 1 stands for those that are not
    /// given. The first is a weight, unless the loss says otherwise.
    fn loss_of<R: Real>(&self, [x, t, weight, _]: [R; 4]) -> R {
        weight.times(self.loss(x, t))
    }
    /// Its derivative by input number `by`.
    fn slope_of<R: Real>(&self, by: usize, [x, t, weight, _]: [R; 4]) -> R {
        weight.times(if by == 0 { self.by_prediction(x, t) } else { self.by_target(x, t) })
    }
}

/// A [`Loss`] with what is done with the losses of all elements.
#[derive(Clone, Debug)]
struct Elementwise<L> {
    loss: L,
    reduction: Reduce,
    /// Those that are reduced: none or all.
    axes: Axes,
}

#[derive(Clone)]
struct Value<L>(L);

impl<L: Loss> Formula<2> for Value<L> {
    #[inline(always)]
    fn f<R: Real>(&self, [x, t]: [R; 2]) -> R {
        self.0.loss(x, t)
    }
}

/// The derivative by the predictions, or by the targets, times `g / count`.
#[derive(Clone)]
struct Slope<L, const BY_TARGET: bool> {
    loss: L,
    count: f64,
    limit: f64,
}

impl<L: Loss, const BY_TARGET: bool> Formula<3> for Slope<L, BY_TARGET> {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x, t]: [R; 3]) -> R {
        let g = g / g.lit(self.count);
        if BY_TARGET {
            return g.times(self.loss.by_target(x, t));
        }
        let value = g.times(self.loss.by_prediction(x, t));
        settle(value, g, self.loss.singular(x), self.limit)
    }
}

impl<L: Loss> Elementwise<L> {
    fn new(loss: L, reduction: Reduce) -> Self {
        let none = reduction == Reduce::None;
        let axes = if none { Axes::List(SmallVec::new()) } else { Axes::All };
        Elementwise { loss, reduction, axes }
    }

    fn build(params: &Params, loss: L) -> Result<Box<dyn Operation>> {
        let reduction = Reduce::of(params, L::RECORD.name)?;
        Ok(Box::new(Elementwise::new(loss, reduction)))
    }

    /// Calls the operation.
    #[track_caller]
    fn of(loss: L, predictions: &Tensor, targets: &Tensor, reduction: Reduce) -> Result<Tensor> {
        apply_one(&Elementwise::new(loss, reduction), &[predictions, targets])
    }

    /// Calls the backward rule, for all inputs that can be differentiated by.
    #[track_caller]
    fn backward_at<const N: usize>(
        loss: L,
        grad_output: &Tensor,
        inputs: [&Tensor; 2],
        reduction: Reduce,
    ) -> Result<[Tensor; N]> {
        Elementwise::backward_with(loss, grad_output, &inputs, reduction)
    }

    /// Likewise, with further tensors.
    #[track_caller]
    fn backward_with<const N: usize>(
        loss: L,
        grad_output: &Tensor,
        inputs: &[&Tensor],
        reduction: Reduce,
    ) -> Result<[Tensor; N]> {
        let output = placeholder(grad_output.shape(), grad_output.dtype())?;
        backward_of(&Elementwise::new(loss, reduction), grad_output, inputs, &output)
    }

    /// Calls the operation with further tensors.
    #[track_caller]
    fn with(loss: L, inputs: &[&Tensor], reduction: Reduce) -> Result<Tensor> {
        apply_one(&Elementwise::new(loss, reduction), inputs)
    }

    fn slope<const BY_TARGET: bool>(&self, call: &Backward<'_>) -> Result<Tensor> {
        let (g, x, t) = (call.grad(), call.inputs[0], call.inputs[1]);
        let spec = Spec { shape: x.shape().clone(), dtype: g.dtype() };
        let count = self.reduction.divisor(x.shape());
        let limit = g.dtype().max_finite();
        let slope: Slope<L, BY_TARGET> = Slope { loss: self.loss.clone(), count, limit };
        map_real(L::RECORD.name, &Formulas(slope), [g, x, t], spec)
    }
}

/// The dtype of a loss of two float tensors of one shape, which is not the engine's to broadcast:
/// a loss of tensors of different shapes is nearly always a mistake.
fn infer_losses(record: &'static Record, inputs: &[&Tensor]) -> Result<DType> {
    let op = record.name;
    for (input, x) in record.inputs.iter().zip(inputs) {
        x.dtype().expect_float(op, input.name)?;
    }
    let dtype = promote(op, inputs[0], inputs[1])?;
    if inputs[0].shape() != inputs[1].shape() {
        return Err(Error::Shape {
            op,
            argument: record.inputs[1].name,
            expected: format!("{}, as {} has", inputs[0].shape(), record.inputs[0].name),
            got: inputs[1].shape().clone(),
        });
    }
    Ok(dtype)
}

impl<L: Loss> Operation for Elementwise<L> {
    fn record(&self) -> &'static Record {
        L::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.loss.check()?;
        self.reduction.check(L::RECORD.name, L::BATCHMEAN)?;
        let dtype = infer_losses(L::RECORD, inputs)?;
        let dtype = several::infer(L::RECORD, inputs, dtype)?;
        Ok(spec(self.reduction.shape(inputs[0].shape()), dtype))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let op = L::RECORD.name;
        let (x, t) = (inputs[0], inputs[1]);
        let spec = specs.swap_remove(0);
        if inputs.len() > 2 {
            return Ok(smallvec![self.forward_of_several(inputs, spec)?]);
        }
        let value = Formulas(Value(self.loss.clone()));
        if self.reduction == Reduce::None {
            return Ok(smallvec![map_real(op, &value, [x, t], spec)?]);
        }
        let (x, t) = (ops::cast(x, spec.dtype)?, ops::cast(t, spec.dtype)?);
        let formula: &dyn RealBlock<2> = &value;
        let kernel = MapSum { formula, divisor: self.reduction.divisor(x.shape()) };
        Ok(smallvec![launch_one(op, &kernel, &[&x, &t], spec)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        if call.inputs.len() > 2 {
            return self.backward_of_several(call);
        }
        call.two(|| self.slope::<false>(call), || self.slope::<true>(call))
    }
    fn reduces(&self) -> Option<(&Axes, bool)> {
        Some((&self.axes, false))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let each = Elementwise::new(self.loss.clone(), Reduce::None);
        call.reduced(each, self.reduction, View::WHOLE)
    }
}

/// An error unless the parameter is a number that is allowed.
fn expect_parameter(
    op: &'static str,
    parameter: &'static str,
    value: f64,
    allowed: bool,
    expected: &str,
) -> Result<()> {
    if allowed && value.is_finite() {
        return Ok(());
    }
    Err(Error::Parameter { op, parameter, expected: expected.into(), got: format!("{value:?}") })
}

/// Shapes that losses are tested with, and what is done with the losses.
const CASES: [(&[usize], Reduce); 9] = [
    (&[5], Reduce::Mean),
    (&[3, 4], Reduce::Mean),
    (&[3, 4], Reduce::Sum),
    (&[3, 4], Reduce::None),
    (&[2, 3, 4], Reduce::Mean),
    (&[], Reduce::None),
    (&[], Reduce::Mean),
    (&[0, 3], Reduce::None),
    (&[0, 3], Reduce::Sum),
];

/// A sample for each case.
fn samples(
    s: &mut Sampler,
    params: impl Fn(Reduce) -> Params,
    draw: impl Fn(&mut Sampler, &[usize]) -> [Tensor; 2],
) {
    for (shape, reduction) in CASES {
        let inputs = draw(s, shape);
        s.add(inputs, params(reduction));
    }
    for reduction in [Reduce::Mean, Reduce::None] {
        let inputs = draw(s, &[LARGE]);
        s.add_large(inputs, params(reduction), "many numbers");
    }
}

/// A sample's values as a tensor.
pub(in crate::ops) fn sample_of(values: Vec<f64>, shape: &[usize]) -> Tensor {
    match Tensor::from_vec(values, shape) {
        Ok(tensor) => tensor,
        Err(error) => panic!("a sample cannot be made: {error}"),
    }
}

/// Shapes, dtypes and words that are wrong for every loss.
fn bad_calls(bad: &mut Bad) {
    let ones = |shape: &[usize], dtype| bad.ones(shape, dtype);
    let (x, short) = (ones(&[2, 3], DType::F64), ones(&[3], DType::F64));
    let (whole, mask) = (ones(&[2, 3], DType::I64), ones(&[2, 3], DType::Bool));
    let none = Params::new;
    bad.add([x.clone(), short], none(), "targets has shape [3], expected [2, 3]");
    bad.add([x.clone(), whole.clone()], none(), "targets has dtype i64, expected a float type");
    bad.add([whole, x.clone()], none(), "has dtype i64, expected a float type");
    bad.add([mask, x.clone()], none(), "has dtype bool, expected a float type");
    let word = none().with("reduction", "average");
    let message = "reduction is \"average\", expected \"none\", \"mean\" or \"sum\"";
    bad.add([x.clone(), x.clone()], word, message);
    let number = none().with("reduction", 1);
    bad.add([x.clone(), x], number, "reduction is 1, expected a word");
}

impl Batch<'_> {
    /// The losses of all examples by one call, and then their mean or sum within each.
    #[track_caller]
    fn reduced(&self, each: impl Operation, reduction: Reduce, view: View) -> Batched {
        // Weights broadcast within an example, and the mean of a batch is not that of all its losses.
        if self.inputs.len() > 2 || reduction == Reduce::BatchMean {
            return Batched::Loop;
        }
        if reduction == Reduce::None {
            return self.call(Box::new(each), view, view);
        }
        let each: Box<dyn Operation> = Box::new(each);
        Batched::Made(Arc::new(move |inputs| {
            let (x, t) = (&inputs[0], &inputs[1]);
            let dtype =
                if t.dtype().is_float() { promote(each.record().name, x, t)? } else { x.dtype() };
            // Losses of 16 bits are rounded once, after they have been added up.
            let precise = |x: &Tensor| match x.dtype().is_float() {
                true => ops::cast(x, wide(dtype)),
                false => Ok(x.clone()),
            };
            let (x, t) = (view.of(&precise(x)?)?, view.of(&precise(t)?)?);
            let losses = apply_one(&*each, &[&x, &t])?;
            let losses =
                ops::reshape(&losses, [inputs[0].shape()[0], losses.len() / inputs[0].shape()[0]])?;
            let reduced = match reduction {
                Reduce::Mean => ops::mean(&losses, 1)?,
                _ => ops::sum(&losses, 1)?,
            };
            Ok(vec![ops::cast(&reduced, dtype)?])
        }))
    }
}
