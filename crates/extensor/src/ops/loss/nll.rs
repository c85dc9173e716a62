//! The loss of logarithms of probabilities for classes.

use super::cross_entropy::{class_axis, rest};
use super::weighing::{Counted, IGNORE_INDEX, NllOptions, WEIGHT, ignored, infer, reduced};
use super::*;
use crate::ops;
use crate::ops::record::{Class, Family, Input, signature};
use crate::ops::reduction::wide;
use extensor_derive::method;

/// `−w·x` for the logarithm `x` of the probability of the target's class and the class' weight `w`, reduced: with
/// [`log_softmax`](crate::ops::log_softmax()) it is [`cross_entropy`].
///
/// Log-probabilities are `[N, C]` with `C` classes, `[C]`, or `[N, C, d1, …]`. Targets are class indices, in a whole-number
/// dtype and of that shape without the classes; those that are `ignore_index` do not count. A mean divides by the sum of the
/// weights of what counts.
///
/// Conventions: the mean of nothing that counts is NaN, with gradient 0; targets and weights are constants.
///
/// ```
/// use extensor::ops::{NllOptions, Reduce};
/// use extensor::tensor;
/// let (x, targets) = (tensor([[-1.0, -2.0], [-3.0, -4.0]]), tensor([1, 0]));
/// assert_eq!(x.nll_loss(&targets, Reduce::None)?.to_vec::<f64>()?, [2.0, 3.0]);
/// let weight = tensor([1.0, 3.0]);
/// let loss = x.nll_loss(&targets, NllOptions::new().weight(&weight))?;
/// assert_eq!(loss.item::<f64>()?, (6.0 + 3.0) / 4.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nll_loss<'a>(
    log_probabilities: &Tensor,
    targets: &Tensor,
    options: impl Into<NllOptions<'a>>,
) -> Result<Tensor> {
    let NllOptions { weight, ignore_index, reduction } = options.into();
    let mut inputs: SmallVec<[&Tensor; 3]> = smallvec![log_probabilities, targets];
    inputs.extend(weight);
    apply_one(&NllLoss { ignore_index, reduction }, &inputs)
}

/// The gradient of [`nll_loss`]: `−w` for the target's class, 0 for the others, times `grad_output`, over the sum of the
/// weights of what counts for a mean.
#[track_caller]
#[extensor_derive::noted]
pub fn nll_loss_backward<'a>(
    grad_output: &Tensor,
    targets: &Tensor,
    log_probabilities_shape: &[usize],
    options: impl Into<NllOptions<'a>>,
) -> Result<Tensor> {
    let NllOptions { weight, ignore_index, reduction } = options.into();
    let x = placeholder(&Shape::from(log_probabilities_shape), grad_output.dtype())?;
    let mut inputs: SmallVec<[&Tensor; 3]> = smallvec![&x, targets];
    inputs.extend(weight);
    let op = NllLoss { ignore_index, reduction };
    let [grad] = backward_of(&op, grad_output, &inputs, grad_output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NllLoss {
    ignore_index: Option<i64>,
    reduction: Reduce,
}

const OP: &str = "nll_loss";

impl NllLoss {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Loss,
        formula: "y = −w·x[target]",
        derivative: "−w for the target's class, 0 for the others",
        conventions: "the mean of nothing that counts is NaN, with gradient 0; targets and weights are constants",
        inputs: &[Input::new("log_probabilities"), Input::constant("targets"), WEIGHT],
        params: &[IGNORE_INDEX, REDUCTION],
        backward: signature!(nll_loss_backward(grad_output, targets, weight, shape(log_probabilities); ignore_index, reduction)),
        class: Class::Linear,
        build: |p| {
            let ignore_index = ignored(p, OP)?;
            Ok(Box::new(NllLoss { ignore_index, reduction: Reduce::of(p, OP)? }))
        },
        samples: |s| {
            let shapes: [&[usize]; 5] = [&[5, 4], &[4], &[3, 5, 2], &[2, 3, 2, 2], &[3, 1]];
            for (i, shape) in shapes.into_iter().enumerate() {
                let (losses, axis) = (rest(&Shape::from(shape)), usize::from(shape.len() > 1));
                for reduction in [Reduce::None, Reduce::Mean, Reduce::Sum] {
                    let x = s.uniform(-4.0, 0.0, shape);
                    let k = s.integers(shape[axis] as u64, &losses);
                    let params = reduction.params();
                    match i % 2 {
                        0 => s.add([x, k], params),
                        _ => {
                            let weight = s.uniform(0.2, 2.0, &shape[axis..axis + 1]);
                            s.add([x, k, weight], params.with("ignore_index", 1));
                        }
                    }
                }
            }
            let (x, weight) = (s.uniform(-4.0, 0.0, &[4, 3]), s.uniform(0.2, 2.0, &[3]));
            let some = Params::new().with("ignore_index", -100);
            let k = crate::tensor([2i64, -100, 0, -100]);
            s.add_noted([x.clone(), k.clone(), weight], some.clone(), "some do not count");
            s.add_noted([x, k], some, "some do not count");
            let inputs = [s.normal(&[700, 100]), s.integers(100, &[700])];
            s.add_large(inputs, Params::new(), "many numbers");
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let k = |values: [i64; 2]| crate::tensor(values);
            let none = Params::new;
            let message = "nll_loss: class index 3 is out of range for 3 classes";
            bad.add([x.clone(), k([0, 3])], none(), message);
            let message = "class index -100 is out of range for 3 classes";
            bad.add([x.clone(), k([0, -100])], none(), message);
            let long = bad.ones(&[3], DType::I64);
            bad.add([x.clone(), long], none(), "targets has shape [3], expected [2]");
            let soft = bad.ones(&[2], DType::F64);
            let message = "targets has dtype f64, expected a whole-number type";
            bad.add([x.clone(), soft.clone()], none(), message);
            let message = "weight has shape [2], expected [3]";
            bad.add([x.clone(), k([0, 1]), soft], none(), message);
            let scalar = [bad.ones(&[], DType::F64), bad.ones(&[], DType::I64)];
            bad.add(scalar, none(), "log_probabilities has shape [], expected at least one");
            let word = none().with("ignore_index", "none");
            bad.add([x, k([0, 1])], word, "ignore_index is \"none\", expected a whole number");
        },
        ..Record::BLANK
    };

    /// The classes, and what the rows weigh.
    fn counted(self, inputs: &[&Tensor], dtype: DType) -> Result<Counted> {
        let x = inputs[0];
        let weights = (inputs.get(2).copied(), self.ignore_index);
        Counted::new(OP, inputs[1], weights, x.shape()[class_axis(x)], dtype)
    }
}

impl Operation for NllLoss {
    fn record(&self) -> &'static Record {
        NllLoss::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.reduction.check(OP, false)?;
        let (x, targets) = (inputs[0], inputs[1]);
        x.dtype().expect_float(OP, "log_probabilities")?;
        if x.ndim() == 0 {
            let (argument, got) = ("log_probabilities", x.shape().clone());
            let expected = "at least one dimension, the classes".into();
            return Err(Error::Shape { op: OP, argument, expected, got });
        }
        if !targets.dtype().is_int() {
            let (argument, got) = ("targets", targets.dtype());
            let expected = "a whole-number type";
            return Err(Error::DType { op: OP, argument, expected, got });
        }
        let losses = rest(x.shape());
        if *targets.shape() != losses {
            let expected = format!("{losses}, that of log_probabilities without the classes");
            let got = targets.shape().clone();
            return Err(Error::Shape { op: OP, argument: "targets", expected, got });
        }
        let classes = x.shape()[class_axis(x)];
        let dtype = infer(OP, inputs.get(2), classes, x.dtype())?;
        Ok(spec(self.reduction.shape(&losses), dtype))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (x, dtype) = (inputs[0], specs[0].dtype);
        let (between, axis) = (wide(dtype), class_axis(x) as i64);
        let counted = self.counted(inputs, between)?;
        let index = ops::expand_dims(&counted.classes, axis)?;
        let own = ops::squeeze(&ops::gather(x, &index, axis)?, axis)?;
        let losses = counted.times_factor(&ops::negate(&ops::cast(&own, between)?)?)?;
        let whole = counted.whole(losses.shape(), between)?;
        Ok(smallvec![ops::cast(&reduced(&losses, &whole, self.reduction)?, dtype)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let x = call.inputs[0];
        let mut grads: Grads = smallvec![None; call.inputs.len()];
        if !call.wanted[0] {
            return Ok(grads);
        }
        let dtype = call.grad().dtype();
        let (between, axis) = (wide(dtype), class_axis(x) as i64);
        let counted = self.counted(call.inputs, between)?;
        let g = ops::cast(call.grad(), between)?;
        let pull = ops::negate(&counted.pull(&g, self.reduction, counted.classes.shape())?)?;
        let index = ops::expand_dims(&counted.classes, axis)?;
        let zeros = Tensor::constant(0.0, x.shape(), between)?.contiguous()?;
        let source = ops::expand_dims(&pull, axis)?;
        grads[0] = Some(ops::cast(&ops::scatter_add(&zeros, &index, &source, axis)?, dtype)?);
        Ok(grads)
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        if self.reduction == Reduce::None { 1 } else { inputs[1].len().max(1) }
    }
}
