//! The loss of scores for classes.

use super::weighing::{IGNORE_INDEX, WEIGHT, ignored, infer as infer_weight};
use super::*;
use crate::exec::classes::{ClassGradient, ClassLosses, Classes};
use crate::exec::launch;
use crate::ops::batching::{Batch, Batched, View};
use crate::ops::operation::{self, Forward};
use crate::ops::record::{Class, Family, Input, Needs, signature};
use crate::over;
use extensor_derive::method;

/// `−Σ t·ln p` over the classes, reduced, where `p = eˣ/Σ eˣ` for the logits `x`, computed from
/// their differences to the largest.
///
/// Logits are `[N, C]` with `C` classes, `[C]`, or `[N, C, d1, …]`. Targets are class indices, in a
/// whole-number dtype and of the logits' shape without the classes, or their probabilities `t`, in
/// a float dtype and of the logits' shape. `label_smoothing` is the share of `t` that is replaced
/// by `1/C` for every class. A `weight` for each class multiplies its part of the losses; class indices that are
/// `ignore_index` do not count. A mean divides by the number of losses, or, for class indices, by the sum of the weights of those
/// that count.
///
/// Conventions: logits are [N, C], \[C\] or [N, C, d1, …]; a mean is over the losses; probabilities of 0
/// make any logit's part 0; the mean of nothing that counts is NaN, with gradient 0.
///
/// ```
/// use extensor::ops::{CrossEntropyOptions, Reduce};
/// use extensor::tensor;
/// let (logits, targets) = (tensor([[0.0, 0.0], [1e4, 0.0]]), tensor([1, 1]));
/// let losses = logits.cross_entropy(&targets, Reduce::None)?;
/// assert_eq!(losses.to_vec::<f64>()?, [2f64.ln(), 1e4]);
/// let options = CrossEntropyOptions::new().label_smoothing(0.5);
/// assert!(logits.cross_entropy(&targets, options)?.item::<f64>()? < 5000.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cross_entropy<'a>(
    logits: &Tensor,
    targets: &Tensor,
    options: impl Into<CrossEntropyOptions<'a>>,
) -> Result<Tensor> {
    let options = options.into();
    let mut inputs: SmallVec<[&Tensor; 3]> = smallvec![logits, targets];
    inputs.extend(options.weight);
    apply_one(&CrossEntropy::of(options), &inputs)
}

/// The gradients of [`cross_entropy`]: for the logits `p·Σ t − t`, which is `p − t` where
/// probabilities add up to 1; for targets that are probabilities `−(1 − label_smoothing)·ln p`; each
/// times `grad_output`, over the number of losses for a mean.
#[track_caller]
#[extensor_derive::noted]
pub fn cross_entropy_backward<'a>(
    grad_output: &Tensor,
    logits: &Tensor,
    targets: &Tensor,
    options: impl Into<CrossEntropyOptions<'a>>,
) -> Result<(Tensor, Option<Tensor>)> {
    let options = options.into();
    let mut inputs: SmallVec<[&Tensor; 3]> = smallvec![logits, targets];
    inputs.extend(options.weight);
    let op = CrossEntropy::of(options);
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let wanted = [true, targets.dtype().is_float(), false];
    let wanted = &wanted[..inputs.len()];
    let grads = operation::backward(&op, &[grad_output], &inputs, &[&output], wanted)?;
    let mut grads = grads.into_iter();
    let missing = || not_differentiable("logits", "its rule returned no gradient");
    Ok((grads.next().flatten().ok_or_else(missing)?, grads.next().flatten()))
}

fn not_differentiable(argument: &str, reason: &'static str) -> Error {
    Error::NotDifferentiable { op: "cross_entropy", argument: argument.into(), reason }
}

crate::ops::options::options! {
    /// The options of [`cross_entropy`]; a plain [`Reduce`] may stand for them.
    pub struct CrossEntropyOptions<'a> {
        /// What each class' part of the losses is multiplied by, `[C]`.
        weight: Option<&'a Tensor> = None,
        /// Class indices that do not count.
        ignore_index: Option<i64> = None,
        /// How much of the targets is given to all classes alike: from 0 to 1.
        label_smoothing: f64 = 0.0,
        /// What becomes of the losses of all rows.
        reduction: Reduce = Reduce::Mean,
    }
}

impl From<Reduce> for CrossEntropyOptions<'_> {
    fn from(reduction: Reduce) -> Self {
        CrossEntropyOptions { reduction, ..CrossEntropyOptions::default() }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CrossEntropy {
    pub(super) smoothing: f64,
    pub(super) ignore: Option<i64>,
    pub(super) reduction: Reduce,
}

/// Logits as rows of scores, and what they should be.
struct Rows {
    /// The logits, classes last, lying together.
    x: Tensor,
    /// The classes' numbers, or the probabilities likewise.
    targets: Tensor,
    /// How many rows there are, and what else is to be known of them.
    kernel: Classes,
}

/// The axis of the classes.
pub(super) fn class_axis(x: &Tensor) -> usize {
    usize::from(x.ndim() > 1)
}

/// The classes' axis moved to the end.
pub(super) fn classes_last(x: &Tensor) -> Result<Tensor> {
    let (axis, n) = (class_axis(x) as i64, x.ndim() as i64);
    let order: Vec<i64> = (0..n).filter(|&i| i != axis).chain([axis]).collect();
    ops::transpose(x, &order[..])
}

/// Back from the end.
pub(super) fn classes_back(x: &Tensor) -> Result<Tensor> {
    let (axis, n) = (class_axis(x) as i64, x.ndim() as i64);
    let order: Vec<i64> = (0..axis).chain([n - 1]).chain(axis..n - 1).collect();
    ops::transpose(x, &order[..])
}

/// The shape without the classes.
pub(super) fn rest(shape: &Shape) -> Shape {
    let mut rest = shape.clone();
    rest.remove(usize::from(shape.len() > 1));
    rest
}

impl CrossEntropy {
    fn of(options: CrossEntropyOptions<'_>) -> CrossEntropy {
        let CrossEntropyOptions { label_smoothing: smoothing, ignore_index: ignore, .. } = options;
        CrossEntropy { smoothing, ignore, reduction: options.reduction }
    }

    pub(crate) const RECORD: &'static Record = &Record {
        name: "cross_entropy",
        family: Family::Loss,
        formula: "y = −Σ t·ln p over the classes, with p = eˣ/Σ eˣ",
        derivative: "(p·Σ t − t, −ln p)",
        conventions: "logits are [N, C], [C] or [N, C, d1, …]; a mean is over the losses; \
                      probabilities of 0 make any logit's part 0; the mean of nothing that counts is NaN, with gradient 0",
        inputs: &[Input::new("logits"), Input::new("targets"), WEIGHT],
        params: &[
            IGNORE_INDEX,
            Parameter {
                name: "label_smoothing",
                what: "how much of a target goes to all classes alike, from 0 to 1",
                default: Some("0.0"),
            },
            REDUCTION,
        ],
        backward: signature!(cross_entropy_backward(grad_output, logits, targets, weight; ignore_index, label_smoothing, reduction)),
        class: Class::General,
        needs: Needs::Inputs,
        build: |p| {
            let op = "cross_entropy";
            let smoothing = p.float(op, "label_smoothing", 0.0)?;
            let (ignore, reduction) = (ignored(p, op)?, Reduce::of(p, op)?);
            Ok(Box::new(CrossEntropy { smoothing, ignore, reduction }))
        },
        samples: class_samples,
        errors: bad_classes,
        ..Record::BLANK
    };

    /// Logits and targets as rows, and what is computed of them.
    fn rows(self, inputs: &[&Tensor], dtype: DType) -> Result<Rows> {
        let op = "cross_entropy";
        let (x, targets) = (inputs[0], inputs[1]);
        let rows = rest(x.shape()).count(op)?;
        let row = |x: &Tensor| classes_last(&ops::cast(x, dtype)?)?.contiguous();
        let targets = match targets.dtype() {
            floats if floats.is_float() => row(targets)?,
            DType::U64 => targets.contiguous()?,
            _ => ops::cast(targets, DType::I64)?.contiguous()?,
        };
        let (classes, smoothing) = (x.shape()[class_axis(x)], self.smoothing);
        let summed = self.reduction != Reduce::None;
        let divisor = summed.then(|| self.reduction.divisor(&rest(x.shape())));
        let kernel = Classes { op, rows, classes, smoothing, divisor };
        Ok(Rows { x: row(x)?, targets, kernel })
    }
}

impl Operation for CrossEntropy {
    fn record(&self) -> &'static Record {
        CrossEntropy::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, smoothing) = ("cross_entropy", self.smoothing);
        self.reduction.check(op, false)?;
        let share = (0.0..=1.0).contains(&smoothing);
        expect_parameter(op, "label_smoothing", smoothing, share, "a number from 0 to 1")?;
        let (x, targets) = (inputs[0], inputs[1]);
        x.dtype().expect_float(op, "logits")?;
        let wrong = |argument, expected: String, got: &Tensor| {
            Err(Error::Shape { op, argument, expected, got: got.shape().clone() })
        };
        if x.ndim() == 0 {
            return wrong("logits", "at least one dimension, the classes".into(), x);
        }
        let losses = rest(x.shape());
        let dtype = if targets.dtype().is_float() {
            if targets.shape() != x.shape() {
                return wrong("targets", format!("{}, as logits has", x.shape()), targets);
            }
            promote(op, x, targets)?
        } else if targets.dtype().is_int() {
            if *targets.shape() != losses {
                let expected = format!("{losses}, the logits' without the classes");
                return wrong("targets", expected, targets);
            }
            x.dtype()
        } else {
            let expected = "a whole-number type (classes) or a float type (probabilities)";
            let got = targets.dtype();
            return Err(Error::DType { op, argument: "targets", expected, got });
        };
        if self.ignore.is_some() && targets.dtype().is_float() {
            let (parameter, got) = ("ignore_index", format!("{:?}", self.ignore));
            let expected = "None for targets that are probabilities".into();
            return Err(Error::Parameter { op, parameter, expected, got });
        }
        let dtype = infer_weight(op, inputs.get(2), x.shape()[class_axis(x)], dtype)?;
        Ok(spec(self.reduction.shape(&losses), dtype))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        if self.weighs(inputs) {
            return self.forward_weighed(inputs, specs);
        }
        let Rows { x, targets, kernel } = self.rows(inputs, specs[0].dtype)?;
        launch("cross_entropy", &ClassLosses(kernel), &[&x, &targets], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        if self.weighs(call.inputs) {
            return self.backward_weighed(call);
        }
        let dtype = call.grad().dtype();
        let Rows { x, targets, kernel: of } = self.rows(call.inputs, dtype)?;
        let g = call.grad().contiguous()?;
        let gradient = |by_targets: bool| {
            let kernel = ClassGradient { of, by_targets };
            let spec = Spec { shape: x.shape().clone(), dtype };
            let inputs = [&g, &x, &targets];
            classes_back(&launch_one("cross_entropy_backward", &kernel, &inputs, spec)?)
        };
        call.two(|| gradient(false), || gradient(true))
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        if self.weighs(call.inputs) {
            return self.derivative_weighed(call);
        }
        let (x, targets) = (call.inputs[0], call.inputs[1]);
        let axis = class_axis(x) as i64;
        let classes = x.shape()[axis as usize];
        let number = |v: f64| Tensor::scalar_of(v, call.outputs[0].dtype());
        let mixed = |t: &Tensor| -> Result<Tensor> {
            let kept = ops::multiply(t, &number(1.0 - self.smoothing)?)?;
            ops::add(&kept, &number(self.smoothing / classes.max(1) as f64)?)
        };
        let mut terms: Option<Tensor> = None;
        if let Some(dx) = call.tangents[0] {
            let t = if targets.dtype().is_float() {
                targets.clone()
            } else {
                classes_back(&ops::one_hot(targets, classes as i64, x.dtype())?)?
            };
            let t = mixed(&t)?;
            let p =
                ops::multiply(&ops::softmax(x, axis)?, &ops::sum(&t, over(axis).keepdims(true))?)?;
            terms = Some(ops::multiply(&ops::subtract(&p, &t)?, dx)?);
        }
        if let Some(dt) = call.tangents[1] {
            let kept = ops::multiply(&ops::log_softmax(x, axis)?, &number(self.smoothing - 1.0)?)?;
            // A class that cannot be has an infinite loss, of which nothing moves nothing.
            let still = ops::equal(dt, &number(0.0)?)?;
            let none = ops::logical_and(&ops::isinf(&kept)?, &still)?;
            let part = ops::where_(&none, &number(0.0)?, &ops::multiply(&kept, dt)?)?;
            terms = Some(match terms {
                Some(sum) => ops::add(&sum, &part)?,
                None => part,
            });
        }
        let Some(terms) = terms else {
            return Ok(smallvec![call.outputs[0].zeros_like()?]);
        };
        let losses = ops::sum(&terms, axis)?;
        Ok(smallvec![match self.reduction {
            Reduce::None => losses,
            Reduce::Mean => ops::mean(&losses, ..)?,
            Reduce::Sum | Reduce::BatchMean => ops::sum(&losses, ..)?,
        }])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let all = inputs[0].len().max(1);
        if self.reduction == Reduce::None { inputs[0].shape()[class_axis(inputs[0])] } else { all }
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        // How many targets count, and how much, is another number for each example.
        if self.ignore.is_some() || call.inputs.len() > 2 {
            return Batched::Loop;
        }
        let each = CrossEntropy { reduction: Reduce::None, ..*self };
        // One row of scores becomes several; of several there are more.
        if call.inputs[0].ndim() == 1 {
            return call.whole(each);
        }
        call.reduced(each, self.reduction, View::merged(0))
    }
}

/// Shapes of logits.
const SHAPES: [&[usize]; 6] = [&[5, 4], &[4], &[3, 5, 2], &[2, 3, 2, 2], &[0, 3], &[3, 1]];

fn class_samples(s: &mut Sampler) {
    let with = |r: Reduce, smoothing: f64| r.params().with("label_smoothing", smoothing);
    for (i, shape) in SHAPES.into_iter().enumerate() {
        let losses = rest(&Shape::from(shape));
        let classes = shape[usize::from(shape.len() > 1)];
        for reduction in [Reduce::None, Reduce::Mean, Reduce::Sum] {
            // The mean of nothing is not a number.
            if losses.contains(&0) && reduction == Reduce::Mean {
                continue;
            }
            let smoothing = if i % 2 == 0 { 0.0 } else { 0.1 };
            let (x, k) = (s.normal(shape), s.integers(classes as u64, &losses));
            s.add([x, k], with(reduction, smoothing));
            let (x, t) = (s.normal(shape), s.uniform(0.0, 1.0, shape));
            s.add([x, t], with(reduction, 0.1 - smoothing));
        }
    }
    let inputs = [s.normal(&[40, 1100]), s.integers(1100, &[40])];
    s.add_large(inputs, with(Reduce::Mean, 0.1), "many numbers");
    let inputs = [s.normal(&[2, 5000]), s.uniform(0.0, 1.0, &[2, 5000])];
    s.add_large(inputs, with(Reduce::Sum, 0.0), "many numbers");
    let large = crate::tensor([[1000.0, -1000.0, 0.0], [-1e4, -1e4, 1e4]]);
    s.add_far([large, crate::tensor([1i64, 2])], Params::new(), "large");
    let certain = crate::tensor([[0.0, 60.0, -3.0]]);
    s.add_far([certain, crate::tensor([1i64])], Params::new(), "certain");
    let x = s.normal(&[2, 3]);
    s.add_noted([x, crate::tensor([[0.0, 1.0, 0.0], [0.0; 3]])], Params::new(), "zeros");
    let (x, t) = (s.normal(&[0, 3]), s.normal(&[0, 3]));
    s.add_noted([x, t], Params::new(), "the mean of nothing");
    super::weighed::samples(s);
}

fn bad_classes(bad: &mut Bad) {
    let x = bad.ones(&[2, 3], DType::F64);
    let k = |values: [i64; 2]| crate::tensor(values);
    let none = Params::new;
    let message = "class index 3 is out of range for 3 classes";
    bad.add([x.clone(), k([0, 3])], none(), message);
    let message = "class index -1 is out of range for 3 classes";
    bad.add([x.clone(), k([-1, 0])], none(), message);
    let empty = bad.ones(&[2, 0], DType::F64);
    bad.add([empty, k([0, 0])], none(), "class index 0 is out of range for 0 classes");
    let long = bad.ones(&[3], DType::I64);
    bad.add([x.clone(), long], none(), "targets has shape [3], expected [2]");
    let short = bad.ones(&[2], DType::F64);
    bad.add([x.clone(), short], none(), "targets has shape [2], expected [2, 3]");
    let mask = bad.ones(&[2], DType::Bool);
    bad.add([x.clone(), mask], none(), "targets has dtype bool, expected a whole-number type");
    let whole = bad.ones(&[2, 3], DType::I32);
    bad.add([whole, k([0, 1])], none(), "logits has dtype i32, expected a float type");
    let scalar = bad.ones(&[], DType::F64);
    let class = bad.ones(&[], DType::I64);
    bad.add([scalar, class], none(), "logits has shape [], expected at least one dimension");
    let smoothing = none().with("label_smoothing", 1.5);
    let message = "label_smoothing is 1.5, expected a number from 0 to 1";
    bad.add([x.clone(), k([0, 1])], smoothing, message);
    super::weighed::bad_weights(bad);
    let word = none().with("reduction", "batchmean");
    bad.add([x, k([0, 1])], word, "reduction is \"batchmean\", expected \"none\"");
}
