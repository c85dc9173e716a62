//! The loss of sequences that are shorter than their predictions: how likely a sequence of labels is when it
//! is not known which step says which of them.

use super::*;
use crate::autodiff::{jvp, stop_gradient, vjp};
use crate::exec::check::Check;
use crate::ops::operation::Forward;
use crate::ops::options::options;
use crate::ops::record::{Class, Family, Input, signature};
use crate::ops::samples::Sample;
use crate::ops::shape::optional;
use crate::over;
use extensor_derive::method;

options! {
    /// The options of [`ctc_loss`].
    pub struct CtcOptions {
        /// What becomes of the losses of all sequences. A mean divides each by the number of its labels, at
        /// least 1, before.
        reduction: Reduce = Reduce::Mean,
        /// Whether the loss of labels that no alignment says is 0, and not ∞.
        zero_infinity: bool = false,
    }
    exactly {
        /// The class that stands for no label.
        blank: usize = 0,
    }
}

impl From<Reduce> for CtcOptions {
    fn from(reduction: Reduce) -> CtcOptions {
        CtcOptions { reduction, ..CtcOptions::default() }
    }
}

/// Connectionist temporal classification: `−ln Σ Π exp x[t, aₜ]`, the sum over all alignments `a`, of one class
/// for each step `t`, from which the target is left when of equal neighbours one is kept and then blanks are
/// dropped.
///
/// Logarithms of probabilities `x` are `[T, N, C]`, or `[T, C]` of one sequence; targets are classes other than the
/// blank, `[N, S]` (or `[S]`), or of all sequences one after the other. Of each sequence the first of its
/// `input_lengths` steps and `target_lengths` labels count, `[N]` (or `[]`). It is computed in `f64`.
///
/// Conventions: the loss is ∞ where no alignment says the target, or 0 with zero_infinity, and its gradient 0 in
/// both cases; the gradient is that by x as it is, minus how often on average a step says a class (PyTorch's is
/// this plus eˣ, which is the same behind a log_softmax); a mean divides each loss by the length of its target, at
/// least 1, before; all but x are constants.
///
/// ```
/// use extensor::ops::{CtcOptions, Reduce};
/// use extensor::{DType, Tensor, tensor};
/// // Two steps, a blank and one label of equal probabilities: all but one of four alignments say the label.
/// let x = Tensor::full([2, 2], 0.5f64.ln(), DType::F64)?;
/// let (steps, labels) = (tensor(2), tensor(1));
/// let loss = x.ctc_loss(&tensor([1]), &steps, &labels, Reduce::Sum)?;
/// assert!((loss.item::<f64>()? + 0.75f64.ln()).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    options: impl Into<CtcOptions>,
) -> Result<Tensor> {
    let op = CtcLoss { options: options.into() };
    apply_one(&op, &[log_probs, targets, input_lengths, target_lengths])
}

/// The gradient of [`ctc_loss`] for the logarithms of probabilities: minus the probability that a step says a class,
/// among the alignments that say the target, times `grad_output`.
#[track_caller]
#[extensor_derive::noted]
pub fn ctc_loss_backward(
    grad_output: &Tensor,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    options: impl Into<CtcOptions>,
) -> Result<Tensor> {
    let op = CtcLoss { options: options.into() };
    let inputs = [log_probs, targets, input_lengths, target_lengths];
    let [grad] = backward_of(&op, grad_output, &inputs, grad_output)?;
    Ok(grad)
}

const OP: &str = "ctc_loss";

#[derive(Clone, Copy, Debug)]
pub(crate) struct CtcLoss {
    options: CtcOptions,
}

impl CtcLoss {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Loss,
        formula: "y = −ln Σ ∏ exp(x[t, a[t]]), over the alignments a that say the target",
        derivative: "minus the share of the alignments, by their probabilities, that say the class at the step",
        conventions: "the loss is ∞ where no alignment says the target, or 0 with zero_infinity, and its gradient 0 \
                      in both cases; the gradient is that by x as it is, minus how often on average a step says a \
                      class (PyTorch's is this plus eˣ, which is the same behind a log_softmax); a mean divides \
                      each loss by the length of its target, at least 1, before; all but x are constants",
        inputs: &[
            Input::new("log_probs"),
            Input::constant("targets"),
            Input::constant("input_lengths"),
            Input::constant("target_lengths"),
        ],
        params: &[
            optional("blank", "the class that stands for no label", "0"),
            REDUCTION,
            optional("zero_infinity", "whether what no alignment says costs 0, and not ∞", "false"),
        ],
        backward: signature!(ctc_loss_backward(grad_output, log_probs, targets, input_lengths, target_lengths; blank, reduction, zero_infinity)),
        class: Class::Composite,
        build: |p| {
            let blank = p.optional_int(OP, "blank")?.unwrap_or(0);
            let expected = "a class";
            let bad = || crate::ops::shape::bad_parameter(OP, "blank", expected, blank);
            let options = CtcOptions {
                blank: usize::try_from(blank).map_err(|_| bad())?,
                reduction: Reduce::of(p, OP)?,
                zero_infinity: p.bool(OP, "zero_infinity", false)?,
            };
            Ok(Box::new(CtcLoss { options }))
        },
        samples: |s| {
            let list = |values: &[i64]| crate::tensor(values.to_vec());
            let rows =
                |s: &mut Sampler, shape: &[usize]| match ops::log_softmax(&s.normal(shape), -1) {
                    Ok(x) => x,
                    Err(error) => panic!("a sample cannot be made: {error}"),
                };
            for reduction in [Reduce::None, Reduce::Mean, Reduce::Sum] {
                // Repeated labels, a sequence that ends before the last step, an empty target.
                let targets = crate::tensor([[1i64, 1, 2], [3, 1, 3], [2, 0, 0]]);
                let lengths = [list(&[5, 4, 3]), list(&[3, 2, 0])];
                let [steps, labels] = lengths.clone();
                let x = rows(s, &[5, 3, 4]);
                s.add([x, targets, steps, labels], reduction.params());
                // The same, one after the other, and with a blank that is not the first class.
                let [steps, labels] = lengths;
                let (x, targets) = (rows(s, &[5, 3, 4]), list(&[1, 1, 2, 0, 1]));
                let params = reduction.params().with("blank", 3);
                s.add([x, targets, steps, labels], params.with("zero_infinity", true));
            }
            // Not normalised, of one sequence.
            let (x, five) = (s.normal(&[6, 4]), crate::tensor(5i64));
            s.add([x, list(&[2, 3, 3, 1]), five.clone(), crate::tensor(3i64)], Params::new());
            let x = s.normal(&[5, 3]);
            s.add([x, list(&[]), five, crate::tensor(0i64)], Params::new());
            // No alignment says the first.
            let x = rows(s, &[3, 2, 3]);
            let targets = crate::tensor([[1i64, 1, 1], [2, 1, 0]]);
            let (steps, labels) = (list(&[3, 3]), list(&[3, 2]));
            let inputs = [x, targets, steps, labels];
            let zero = Params::new().with("zero_infinity", true);
            s.add_noted(inputs.clone(), zero, "without an alignment");
            s.add_noted(inputs, Reduce::None.params(), "infinite");
            let x = rows(s, &[40, 8, 30]);
            let targets: Vec<i64> = (0..96).map(|i| 1 + i * i % 29).collect();
            let targets = match Tensor::from_vec(targets, [8, 12]) {
                Ok(targets) => targets,
                Err(error) => panic!("a sample cannot be made: {error}"),
            };
            let steps = list(&[40, 39, 38, 37, 36, 35, 34, 33]);
            let labels = list(&[12, 11, 10, 9, 8, 7, 6, 5]);
            s.add_large([x, targets, steps, labels], Params::new(), "many steps");
        },
        kinks: |sample: &Sample| sample.note == "infinite",
        errors: |bad| {
            let x = bad.ones(&[4, 2, 3], DType::F64);
            let targets = crate::tensor([[1i64, 2], [2, 1]]);
            let (steps, labels) = (crate::tensor([4i64, 3]), crate::tensor([2i64, 1]));
            let none = Params::new;
            let mut add = |inputs: [&Tensor; 4], params: Params, message| {
                bad.add(inputs.map(Tensor::clone), params, message);
            };
            let line = crate::tensor([1.0, 2.0]);
            let message =
                "log_probs has shape [2], expected [T, N, C] or [T, C], of at least one class";
            add([&line, &targets, &steps, &labels], none(), message);
            let message = "targets has dtype f64, expected a whole-number type";
            add([&x, &line, &steps, &labels], none(), message);
            let message = "target_lengths has dtype f64, expected a whole-number type";
            add([&x, &targets, &steps, &line], none(), message);
            let message = "input_lengths has shape [], expected [2]";
            add([&x, &targets, &crate::tensor(4i64), &labels], none(), message);
            let message = "target_lengths has shape [3], expected [2]";
            add([&x, &targets, &steps, &crate::tensor([1i64, 1, 1])], none(), message);
            let three = crate::tensor([[1i64, 2], [2, 1], [1, 1]]);
            let message =
                "targets has shape [3, 2], expected [2, S], or [S] of all one after the other";
            add([&x, &three, &steps, &labels], none(), message);
            let message = "blank is 3, expected a class below 3";
            add([&x, &targets, &steps, &labels], none().with("blank", 3), message);
            let message = "blank is -1, expected a class";
            add([&x, &targets, &steps, &labels], none().with("blank", -1), message);
            let message =
                "input_lengths is a tensor with one outside, expected numbers from 0 to 4";
            add([&x, &targets, &crate::tensor([5i64, 3]), &labels], none(), message);
            let message =
                "target_lengths is a tensor with one outside, expected numbers from 0 to 2";
            add([&x, &targets, &steps, &crate::tensor([3i64, 1])], none(), message);
            add([&x, &targets, &steps, &crate::tensor([-1i64, 1])], none(), message);
            let message = "the sum of target_lengths is a tensor with one outside, expected numbers from 0 to 2";
            add([&x, &crate::tensor([1i64, 2]), &steps, &labels], none(), message);
            let message = "class index 3 is out of range for 3 classes";
            add([&x, &crate::tensor([[1i64, 3], [2, 1]]), &steps, &labels], none(), message);
            let word = none().with("reduction", "batchmean");
            add(
                [&x, &targets, &steps, &labels],
                word,
                "reduction is \"batchmean\", expected \"none\",",
            );
        },
        ..Record::BLANK
    };

    /// The labels of each sequence, `[N, S]`, where there are none the blank, and how many there are. Labels for
    /// which there are not enough steps are left out.
    fn labels(self, [x, targets, labels]: [&Tensor; 3]) -> Result<[Tensor; 2]> {
        let (steps, n, classes) = (x.shape()[0], x.shape()[1], x.shape()[2]);
        let labels = ops::reshape(&ops::cast(labels, DType::I64)?, [n, 1])?;
        let targets = ops::cast(targets, DType::I64)?;
        let number = |value: usize| Tensor::scalar_of(value as f64, DType::I64);
        let most = targets.shape().last().copied().unwrap_or(0);
        let check = |parameter| Check::Lengths { parameter, most };
        check("target_lengths").on(OP, &labels.contiguous()?)?;
        let size = most.min(steps);
        let along = Tensor::whole_numbers(OP, size, |j| j as i64)?;
        let counts = ops::less(&along, &labels)?;
        let targets = if targets.ndim() == 2 {
            ops::slice(&targets, 1, 0, size as i64, 1)?
        } else if size == 0 {
            ops::reshape(&along, [1, 0])?
        } else {
            let ends = ops::cumsum(&labels, 0)?;
            check("the sum of target_lengths").on(OP, &ends.contiguous()?)?;
            let at = ops::add(&ops::subtract(&ends, &labels)?, &along)?;
            let at = ops::where_(&counts, &at, &number(0)?)?;
            ops::reshape(&ops::take(&targets, &ops::reshape(&at, [-1i64])?, 0)?, at.shape())?
        };
        let targets = ops::where_(&counts, &targets, &number(self.options.blank)?)?;
        Check::Classes { classes }.on(OP, &targets.contiguous()?)?;
        Ok([targets, ops::reshape(&labels, [n])?])
    }

    /// The loss of each sequence, of `[T, N, C]`, in `f64`: ∞ where there is no alignment.
    fn losses(
        self,
        x: &Tensor,
        lengths: &Tensor,
        [targets, labels]: [&Tensor; 2],
    ) -> Result<Tensor> {
        let (steps, n) = (x.shape()[0], x.shape()[1]);
        let (size, blank) = (targets.shape()[1], self.options.blank);
        let float = |value: f64| Tensor::scalar_of(value, DType::F64);
        let whole = |value: i64| Tensor::scalar_of(value as f64, DType::I64);
        let (zero, never) = (float(0.0)?, float(f64::NEG_INFINITY)?);
        let empty = ops::equal(labels, &whole(0)?)?;
        // Before the first step nothing has been said.
        let at_once = ops::where_(&empty, &zero, &float(f64::INFINITY)?)?;
        if steps == 0 || n == 0 {
            return ops::add(&ops::sum(&ops::cast(x, DType::F64)?, [0, 2])?, &at_once);
        }
        // Along an alignment the blank and each label take turns; only between different labels is a blank
        // not needed.
        let states = 2 * size + 1;
        let blanks = ops::broadcast_to(&whole(blank as i64)?, targets.shape())?;
        let turns = ops::reshape(&ops::stack(&[&blanks, targets], 2)?, [n, 2 * size])?;
        let turns = ops::pad(&turns, [(0, 0), (0, 1)], blank as f64)?;
        let behind = ops::pad(&turns, [(0, 0), (2, 0)], blank as f64)?;
        let behind = ops::slice(&behind, 1, 0, states as i64, 1)?;
        let other = ops::not_equal(&turns, &behind)?;
        let index = ops::broadcast_to(&turns, [steps, n, states])?;
        let said = ops::gather(&ops::cast(x, DType::F64)?, &index, 2)?;
        let step = |t: usize| ops::squeeze(&ops::slice(&said, 0, t as i64, t as i64 + 1, 1)?, 0);
        let places = Tensor::whole_numbers(OP, states, |s| s as i64)?;
        let first = ops::less(&places, &whole(2)?)?;
        let mut reached = vec![ops::where_(&first, &step(0)?, &never)?];
        for t in 1..steps {
            let before = ops::pad(&reached[t - 1], [(0, 0), (2, 0)], f64::NEG_INFINITY)?;
            let next = ops::slice(&before, 1, 1, states as i64 + 1, 1)?;
            let over = ops::slice(&before, 1, 0, states as i64, 1)?;
            let over = ops::where_(&other, &over, &never)?;
            let sum = ops::logaddexp(&ops::logaddexp(&reached[t - 1], &next)?, &over)?;
            reached.push(ops::add(&sum, &step(t)?)?);
        }
        // After the last step of each sequence, in its last label or in the blank behind it.
        let lengths = ops::reshape(&ops::cast(lengths, DType::I64)?, [n])?;
        let none = ops::equal(&lengths, &whole(0)?)?;
        let last = ops::where_(&none, &whole(0)?, &ops::subtract(&lengths, &whole(1)?)?)?;
        let last = ops::broadcast_to(&ops::reshape(&last, [1, n, 1])?, [1, n, states])?;
        let reached = ops::squeeze(&ops::gather(&ops::stack(&reached, 0)?, &last, 0)?, 0)?;
        // What has more labels than there are steps has no alignment.
        let known = ops::minimum(labels, &whole(size as i64)?)?;
        let end = ops::multiply(&known, &whole(2)?)?;
        let ends = |at: &Tensor| -> Result<Tensor> {
            ops::squeeze(&ops::gather(&reached, &ops::reshape(at, [n, 1])?, 1)?, 1)
        };
        let label = ops::where_(&empty, &end, &ops::subtract(&end, &whole(1)?)?)?;
        let label = ops::where_(&empty, &never, &ends(&label)?)?;
        let sum = ops::logaddexp(&ends(&end)?, &label)?;
        let sum = ops::where_(&ops::equal(&known, labels)?, &sum, &never)?;
        ops::where_(&none, &at_once, &ops::negate(&sum)?)
    }

    /// The loss, made of operations.
    fn made(self, x: &Tensor, constants: [&Tensor; 3]) -> Result<Tensor> {
        let [targets, lengths, labels] = constants;
        let dtype = x.dtype();
        let several = x.ndim() == 3;
        let (x, targets) = match several {
            true => (x.clone(), targets.clone()),
            false => (ops::expand_dims(x, 1)?, ops::reshape(targets, [1, targets.len()])?),
        };
        let most = x.shape()[0];
        let lengths = ops::cast(lengths, DType::I64)?;
        let check = Check::Lengths { parameter: "input_lengths", most };
        check.on(OP, &lengths.contiguous()?)?;
        let [targets, labels] = self.labels([&x, &targets, labels])?;
        let losses = self.losses(&x, &lengths, [&targets, &labels])?;
        // Nothing comes of what is infinite.
        let infinity = Tensor::scalar_of(f64::INFINITY, DType::F64)?;
        let endless = ops::equal(&stop_gradient(&losses), &infinity)?;
        let instead = if self.options.zero_infinity { 0.0 } else { f64::INFINITY };
        let instead = Tensor::scalar_of(instead, DType::F64)?;
        let losses = ops::where_(&endless, &instead, &losses)?;
        let loss = match self.options.reduction {
            Reduce::None if several => losses,
            Reduce::None => ops::reshape(&losses, [0i64; 0])?,
            Reduce::Sum => ops::sum(&losses, ..)?,
            _ => {
                let least = Tensor::scalar_of(1.0, DType::F64)?;
                let labels = ops::maximum(&ops::cast(&labels, DType::F64)?, &least)?;
                ops::mean(&ops::divide(&losses, &labels)?, over(..))?
            }
        };
        ops::cast(&loss, dtype)
    }
}

impl Operation for CtcLoss {
    fn record(&self) -> &'static Record {
        CtcLoss::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.options.reduction.check(OP, false)?;
        let x = inputs[0];
        x.dtype().expect_float(OP, "log_probs")?;
        let bad = |argument: &'static str, expected: String| {
            let at = CtcLoss::RECORD.inputs.iter().position(|input| input.name == argument);
            let got = inputs[at.unwrap_or(0)].shape().clone();
            Err(Error::Shape { op: OP, argument, expected, got })
        };
        if !matches!(x.ndim(), 2 | 3) || x.shape()[x.ndim() - 1] == 0 {
            return bad("log_probs", "[T, N, C] or [T, C], of at least one class".into());
        }
        let names = CtcLoss::RECORD.inputs.iter().map(|input| input.name);
        for (argument, constant) in names.zip(inputs).skip(1) {
            if !constant.dtype().is_int() {
                let (expected, got) = ("a whole-number type", constant.dtype());
                return Err(Error::DType { op: OP, argument, expected, got });
            }
        }
        let classes = x.shape()[x.ndim() - 1];
        if self.options.blank >= classes {
            let expected = format!("a class below {classes}");
            let blank = self.options.blank;
            return Err(crate::ops::shape::bad_parameter(OP, "blank", expected, blank));
        }
        let several = x.ndim() == 3;
        let sequences = if several { Shape::from([x.shape()[1]]) } else { Shape::scalar() };
        let targets = inputs[1].shape();
        match (&targets[..], several) {
            ([_], _) => {}
            ([n, _], true) if *n == sequences[0] => {}
            (_, true) => {
                let n = sequences[0];
                return bad("targets", format!("[{n}, S], or [S] of all one after the other"));
            }
            _ => return bad("targets", "[S]".into()),
        }
        for argument in ["input_lengths", "target_lengths"] {
            let at = if argument == "input_lengths" { 2 } else { 3 };
            if *inputs[at].shape() != sequences {
                return bad(argument, sequences.to_string());
            }
        }
        Ok(spec(self.options.reduction.shape(&sequences), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(smallvec![self.made(inputs[0], [inputs[1], inputs[2], inputs[3]])?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let constants = [call.inputs[1], call.inputs[2], call.inputs[3]];
        let mut grads: Grads = smallvec![None; 4];
        if call.wanted[0] {
            let (_, pullback) = vjp(|x| self.made(x, constants), call.inputs[0])?;
            grads[0] = Some(pullback.call_once(&call.grad().clone())?);
        }
        Ok(grads)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let constants = [call.inputs[1], call.inputs[2], call.inputs[3]];
        let Some(tangent) = call.tangents[0] else {
            return Ok(smallvec![call.outputs[0].zeros_like()?]);
        };
        let (_, along) = jvp(|x| self.made(x, constants), call.inputs[0], tangent)?;
        Ok(smallvec![along])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        // Rounded once, but for what a step adds to.
        inputs[0].shape()[0].max(1)
    }
    fn batch(&self, _: &Batch<'_>) -> Batched {
        Batched::Itself
    }
}
