//! A channel of all images of a batch, normalised together.

use super::{By, EPS, Split, common_dtype, expect_eps, factor, gradients, no_float, none, wanted};
use crate::exec::launch;
use crate::exec::normalize::{self, BatchNormalize, BatchNormalizeGradient};
use crate::ops::batching::{self, Batched, Together, View};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply, backward, placeholder};
use crate::ops::options::options;
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::reduction::wide;
use crate::ops::samples::{Bad, Sampler};
use crate::ops::shape::{bad_parameter, bad_shape, optional};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

/// What [`batch_norm2d`] returns; all but the output are statistics, of shape `[C]`, in `f32` for
/// 16-bit inputs.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// The normalised tensor.
    pub output: Tensor,
    /// The running mean after this batch.
    pub running_mean: Tensor,
    /// The running variance after this batch.
    pub running_var: Tensor,
    /// The mean that was subtracted: what [`batch_norm2d_backward`] takes.
    pub saved_mean: Tensor,
    /// `1/√(variance + eps)`, at most 10¹⁰: likewise.
    pub saved_rstd: Tensor,
}

options! {
    /// Where the statistics of [`batch_norm2d`] come from: by default from the batch.
    pub struct BatchNormOptions<'a> {
        /// The running mean and variance; without them, running statistics begin with the batch's.
        running: Option<(&'a Tensor, &'a Tensor)> = None,
        /// Whether mean and variance are the batch's, and not the running ones.
        training: bool = true,
        /// How much of the batch's statistics goes into the running ones.
        momentum: f64 = 0.1,
        /// What is added to the variance.
        eps: f64 = 1e-5,
    }
}

/// `y = (x − mean)/√(variance + eps)·gamma + beta` for each channel of `x`, which has shape
/// `[N, C, H, W]` or `[N, C]`.
///
/// In training mean and variance are those of the batch; otherwise those in `running`, which must
/// be given. Nothing is changed in place: the running statistics that belong to the next call are
/// returned. In training these are `(1 − momentum)·running + momentum·batch`, the batch's variance
/// being that of a sample (divided by n − 1), or the batch's alone where `running` is not given;
/// otherwise those given.
///
/// The variance of a single number is 0. An empty batch has no mean and no variance (they are NaN),
/// and leaves given running statistics as they are.
///
/// Conventions: also returned, and not differentiated: the next running mean and variance (that of a
/// sample), and the mean and 1/√(variance + eps) that were used; a single number has variance 0; an
/// empty batch has mean and variance NaN, and leaves given statistics as they are; where √(variance +
/// eps) is 0, 1e-10 stands for it.
///
/// ```
/// use extensor::ops::BatchNormOptions;
/// use extensor::tensor;
/// let x = tensor([[1.0, 5.0], [3.0, 9.0]]);
/// let (gamma, beta) = (tensor([1.0, 1.0]), tensor([0.0, 10.0]));
/// let (mean, var) = (tensor([0.0, 0.0]), tensor([1.0, 1.0]));
/// let options = BatchNormOptions::new().momentum(0.5).eps(0.0);
/// let first = x.batch_norm2d(&gamma, &beta, options.running((&mean, &var)))?;
/// assert_eq!(first.output.to_vec::<f64>()?, [-1.0, 9.0, 1.0, 11.0]);
/// assert_eq!(first.running_mean.to_vec::<f64>()?, [1.0, 3.5]);
/// assert_eq!(first.running_var.to_vec::<f64>()?, [1.5, 4.5]);
/// let running = options.running((&first.running_mean, &first.running_var));
/// let later = x.batch_norm2d(&gamma, &beta, running.training(false))?;
/// assert_eq!(later.output.to_vec::<f64>()?[0], 0.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn batch_norm2d(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    options: BatchNormOptions<'_>,
) -> Result<BatchNorm> {
    let BatchNormOptions { running, training, momentum, eps } = options;
    let op = BatchNorm2d { training, momentum, eps };
    let outputs = match running {
        Some((mean, var)) => apply(&op, &[x, gamma, beta, mean, var])?,
        None => apply(&op, &[x, gamma, beta])?,
    };
    let found: std::result::Result<[Tensor; 5], _> = outputs.into_vec().try_into();
    match found {
        Ok([output, running_mean, running_var, saved_mean, saved_rstd]) => {
            Ok(BatchNorm { output, running_mean, running_var, saved_mean, saved_rstd })
        }
        Err(_) => no_float("batch_norm2d", x.dtype()),
    }
}

/// The gradients of [`batch_norm2d`] for `x`, `gamma` and `beta`, from the statistics it returned:
/// `((gγ − mean(gγ) − x̂·mean(gγ·x̂))·rstd, Σ g·x̂, Σ g)` with `gγ = grad_output·gamma` in
/// training; otherwise the first is `gγ·rstd`. Of the options, only `training` is read.
#[track_caller]
#[extensor_derive::noted]
pub fn batch_norm2d_backward(
    grad_output: &Tensor,
    x: &Tensor,
    gamma: &Tensor,
    saved_mean: &Tensor,
    saved_rstd: &Tensor,
    options: BatchNormOptions<'_>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let name = "batch_norm2d_backward";
    // The parameters of the running statistics have no part in the gradient.
    let op = BatchNorm2d { training: options.training, momentum: 0.0, eps: 0.0 };
    let beta = placeholder(gamma.shape(), gamma.dtype())?;
    let statistic = placeholder(gamma.shape(), wide(gamma.dtype()))?;
    let inputs = [x, gamma, &beta, &statistic, &statistic];
    let specs = op.infer(&inputs)?;
    let saved = [("saved_mean", saved_mean), ("saved_rstd", saved_rstd)];
    for ((argument, x), spec) in saved.into_iter().zip(&specs[3..]) {
        if *x.shape() != spec.shape {
            return Err(bad_shape(name, argument, spec.shape.to_string(), x.shape()));
        }
        if x.dtype() != spec.dtype {
            let (expected, got) = (spec.dtype.name(), x.dtype());
            return Err(Error::DType { op: name, argument, expected, got });
        }
    }
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let outputs = [&output, &statistic, &statistic, saved_mean, saved_rstd];
    let wanted = [true, true, true, false, false];
    let grads = backward(&op, &[grad_output], &inputs, &outputs, &wanted)?;
    let found: std::result::Result<[Tensor; 3], _> =
        grads.into_iter().flatten().collect::<Vec<_>>().try_into();
    match found {
        Ok([dx, dgamma, dbeta]) => Ok((dx, dgamma, dbeta)),
        Err(_) => no_float(name, x.dtype()),
    }
}

/// Planes of fewer numbers are brought together channel by channel first.
const SMALL_PLANE: usize = 16;

/// The sizes of a batch.
struct Batch {
    images: usize,
    channels: usize,
    len: usize,
}

impl Batch {
    fn of(x: &Tensor) -> Batch {
        let len = x.shape()[2..].iter().fold(1usize, |a, &b| a.saturating_mul(b));
        Batch { images: x.shape()[0], channels: x.shape()[1], len }
    }

    /// How many numbers have one mean.
    fn count(&self) -> usize {
        self.images.saturating_mul(self.len)
    }

    fn gathered(&self) -> bool {
        self.images > 1 && self.len < SMALL_PLANE
    }

    /// The tensor with images and channels in the other order, if that is how the kernel takes it.
    fn turned(&self, x: &Tensor) -> Result<Tensor> {
        if !self.gathered() {
            return Ok(x.clone());
        }
        let axes: &[i64] = if x.ndim() == 4 { &[1, 0, 2, 3] } else { &[1, 0] };
        ops::transpose(x, Some(axes))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BatchNorm2d {
    training: bool,
    momentum: f64,
    eps: f64,
}

fn params(training: bool) -> Params {
    Params::new().with("eps", 1e-5).with("training", training)
}

impl BatchNorm2d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "batch_norm2d",
        family: Family::Normalization,
        formula: "y = x̂·gamma + beta, x̂ = (x − mean)/√(variance + eps) over a channel of all images",
        derivative: "((gγ − mean(gγ) − x̂·mean(gγ·x̂))/√(variance + eps), Σ g·x̂, Σ g), gγ = g·gamma; \
                     with given statistics the first is gγ/√(variance + eps)",
        conventions: "also returned, and not differentiated: the next running mean and variance \
                      (that of a sample), and the mean and 1/√(variance + eps) that were used; a \
                      single number has variance 0; an empty batch has mean and variance NaN, and \
                      leaves given statistics as they are; where √(variance + eps) is 0, 1e-10 \
                      stands for it",
        inputs: &[
            Input::new("x"),
            Input::new("gamma"),
            Input::new("beta"),
            Input::optional_constant("mean"),
            Input::optional_constant("var"),
        ],
        params: &[
            EPS,
            optional("training", "whether the batch's own statistics are used", "true"),
            optional("momentum", "the weight of the batch in the running statistics", "0.1"),
        ],
        backward: signature!(batch_norm2d_backward(grad_output, x, gamma, auxiliary(saved_mean), auxiliary(saved_rstd); training)),
        class: Class::General,
        needs: Needs::InputsAndAuxiliary,
        auxiliary: 4,
        build: |p| {
            let op = "batch_norm2d";
            Ok(Box::new(BatchNorm2d {
                training: p.bool(op, "training", true)?,
                momentum: p.float(op, "momentum", 0.1)?,
                eps: p.float(op, "eps", 1e-5)?,
            }))
        },
        samples,
        kinks: |sample| {
            let axes = (0..sample.inputs[0].ndim() as i64).filter(|&i| i != 1);
            let channels = sample.groups(&axes.collect::<Vec<_>>()[..].into());
            sample.number("eps", 1e-5) == 0.0 && channels.iter().any(|c| none(c, true))
        },
        errors,
        ..Record::BLANK
    };

    /// What is computed of a batch.
    fn kernel(&self, batch: &Batch) -> normalize::Batch {
        let (eps, training, channels) = (self.eps, self.training, batch.channels);
        let (images, len) =
            if batch.gathered() { (1, batch.count()) } else { (batch.images, batch.len) };
        normalize::Batch { images, channels, len, eps, training }
    }
}

impl Operation for BatchNorm2d {
    fn record(&self) -> &'static Record {
        BatchNorm2d::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("batch_norm2d", inputs[0]);
        expect_eps(op, self.eps)?;
        if !(0.0..=1.0).contains(&self.momentum) {
            return Err(bad_parameter(op, "momentum", "a number from 0 to 1", self.momentum));
        }
        let dtype = common_dtype(op, &inputs[..3])?;
        if !matches!(x.ndim(), 2 | 4) {
            return Err(bad_shape(op, "x", "[N, C, H, W] or [N, C]", x.shape()));
        }
        let factors = Shape::from([x.shape()[1]]);
        let names = ["x", "gamma", "beta", "mean", "var"];
        for (x, argument) in inputs.iter().zip(names).skip(1) {
            x.dtype().expect_float(op, argument)?;
            if *x.shape() != factors {
                return Err(bad_shape(op, argument, factors.to_string(), x.shape()));
            }
        }
        if inputs.len() == 4 {
            let (expected, got) = (names.join(", "), names[..4].join(", "));
            return Err(Error::Inputs { op, expected, got });
        }
        if !self.training && inputs.len() < 5 {
            let expected = "true where mean and var are not given";
            return Err(bad_parameter(op, "training", expected, false));
        }
        let statistic = || Spec { shape: factors.clone(), dtype: wide(dtype) };
        let mut specs: Specs = smallvec![Spec { shape: x.shape().clone(), dtype }];
        specs.extend((0..4).map(|_| statistic()));
        Ok(specs)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let (dtype, statistic) = (specs[0].dtype, specs[1].dtype);
        let batch = Batch::of(inputs[0]);
        let x = batch.turned(&ops::cast(inputs[0], dtype)?)?.contiguous()?;
        let mut given: SmallVec<[Tensor; 5]> = smallvec![x];
        for input in &inputs[1..3] {
            given.push(factor(Some(input), 1.0, batch.channels, dtype)?);
        }
        for running in &inputs[3..] {
            given.push(ops::cast(running, statistic)?.contiguous()?);
        }
        let (momentum, running) = (self.momentum, given.len() == 5);
        let kernel = BatchNormalize { batch: self.kernel(&batch), momentum, running };
        specs[0].shape = given[0].shape().clone();
        let given: SmallVec<[&Tensor; 5]> = given.iter().collect();
        let mut outputs = launch("batch_norm2d", &kernel, &given, specs)?;
        outputs[0] = batch.turned(&outputs[0])?;
        Ok(outputs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = "batch_norm2d_backward";
        let dtype = call.grad().dtype();
        let batch = Batch::of(call.inputs[0]);
        let x = batch.turned(&ops::cast(call.inputs[0], dtype)?)?.contiguous()?;
        let g = batch.turned(call.grad())?.contiguous()?;
        let gamma = factor(call.inputs.get(1), 1.0, batch.channels, dtype)?;
        let (mean, slope) = (call.outputs[3].contiguous()?, call.outputs[4].contiguous()?);
        let wanted = wanted(call);
        let kernel = BatchNormalizeGradient { batch: self.kernel(&batch), wanted };
        let inputs = [&g, &x, &gamma, &mean, &slope];
        let mut grads = gradients(op, call, &kernel, &inputs, wanted, x.shape())?;
        grads[0] = grads[0].take().map(|dx| batch.turned(&dx)).transpose()?;
        Ok(grads)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let Batch { images, channels, len } = Batch::of(call.inputs[0]);
        let split = Split {
            x: Shape::from([images, channels, len]),
            factors: Shape::from([1, channels, 1]),
            axes: &[0, 2],
        };
        let by = if self.training {
            By::Own { centred: true, eps: self.eps }
        } else {
            By::Given(call.outputs[3], call.outputs[4])
        };
        split.derivative(call, by)
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        Batch::of(inputs[0]).count().max(1)
    }
    fn batch(&self, call: &batching::Batch<'_>) -> Batched {
        // Each example's channels are more channels.
        let mut inputs: SmallVec<[View; 4]> = smallvec![View::merged(0); call.inputs.len()];
        inputs[0] = View::merged(1);
        let outputs = smallvec![View::merged(1), View::merged(0)];
        Batched::Call(Together { op: Box::new(self.clone()), inputs, outputs })
    }
}

fn samples(s: &mut Sampler) {
    let shapes: [&[usize]; 7] = [
        &[4, 3, 5, 5],
        &[2, 3, 1, 4],
        &[6, 4],
        &[1, 2, 3, 3],
        &[2, 1, 4, 9],
        &[3, 2, 4, 4],
        &[3, 0, 2, 2],
    ];
    for shape in shapes {
        let channels = &shape[1..2];
        for training in [true, false] {
            let mut inputs =
                vec![s.normal(shape), s.uniform(0.5, 2.0, channels), s.normal(channels)];
            if training {
                s.add(inputs.clone(), params(true));
            }
            inputs.extend([s.normal(channels), s.uniform(0.5, 2.0, channels)]);
            s.add(inputs, params(training).with("momentum", 0.3));
        }
    }
    let large = [s.normal(&[8, 5, 30, 31]), s.uniform(0.5, 2.0, &[5]), s.normal(&[5])];
    s.add_large(large, params(true), "many numbers");
    let factors = |s: &mut Sampler| [s.uniform(0.5, 2.0, &[3]), s.normal(&[3])];
    let statistics = |s: &mut Sampler| [s.normal(&[3]), s.uniform(0.5, 2.0, &[3])];
    let [gamma, beta] = factors(s);
    let x = s.normal(&[0, 3, 2, 2]);
    let [mean, var] = statistics(s);
    s.add([x.clone(), gamma.clone(), beta.clone(), mean.clone(), var.clone()], params(false));
    s.add_noted([x.clone(), gamma.clone(), beta.clone()], params(true), "an empty batch");
    let inputs = [x, gamma.clone(), beta.clone(), mean, var];
    s.add_noted(inputs, params(true), "an empty batch");
    let x = s.normal(&[1, 3, 1, 1]);
    s.add_far([x, gamma.clone(), beta.clone()], params(true), "one number");
    let zero = Params::new().with("training", true).with("eps", 0.0);
    let x = crate::tensor([[0.1, -0.3, 7.0]; 4]);
    s.add_noted([x, gamma, beta], zero, "equal numbers, eps = 0");
}

fn errors(bad: &mut Bad) {
    let ones = |bad: &Bad, shape: &[usize]| bad.ones(shape, DType::F64);
    let (x, c, short) = (ones(bad, &[2, 3, 4, 5]), ones(bad, &[3]), ones(bad, &[2]));
    let mut add = |inputs: &[&Tensor], params: Params, message| {
        bad.add(inputs.iter().map(|&x| x.clone()).collect::<Vec<_>>(), params, message);
    };
    add(&[&x, &short, &c], params(true), "gamma has shape [2], expected [3]");
    add(&[&x, &c, &short], params(true), "beta has shape [2], expected [3]");
    add(&[&x, &c, &c, &c, &short], params(true), "var has shape [2], expected [3]");
    add(&[&x, &c, &c, &c], params(true), "got inputs (x, gamma, beta, mean)");
    add(&[&c, &c, &c], params(true), "x has shape [3], expected [N, C, H, W] or [N, C]");
    let message = "training is false, expected true where mean and var are not given";
    add(&[&x, &c, &c], params(false), message);
    let heavy = params(true).with("momentum", 1.5);
    add(&[&x, &c, &c], heavy, "momentum is 1.5, expected a number from 0 to 1");
    let negative = Params::new().with("eps", -1e-5);
    add(&[&x, &c, &c], negative, "eps is -1e-5, expected a finite number");
}
