//! Channels of each image, normalised in groups or one by one.

use super::{CONVENTIONS, EPS, Groups, infer, with_factors, without_spread};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Record, signature};
use crate::ops::samples::Sampler;
use crate::ops::shape::{bad_parameter, bad_shape, required};
use crate::{DType, Result, Shape, Tensor};
use extensor_derive::method;

/// `y = (x − mean)/√(variance + eps)·gamma + beta` for `x` of shape `[N, C, …]`, with mean and
/// variance over each of `num_groups` groups of neighbouring channels; `gamma` and `beta` have shape
/// `[C]`, and may be left out.
///
/// Conventions: the variance is that of all numbers (divided by n), in two passes; where √(variance +
/// eps) is 0, 1e-10 stands for it.
///
/// ```
/// use extensor::ops::group_norm;
/// use extensor::tensor;
/// let x = tensor([[[1.0, 3.0], [3.0, 1.0], [5.0, 9.0]]]);
/// let y = group_norm(&x, Some(&tensor([1.0, 1.0, 2.0])), None, 3, 0.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, 1.0, 1.0, -1.0, -2.0, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn group_norm<'a>(
    x: &Tensor,
    gamma: impl Into<Option<&'a Tensor>>,
    beta: impl Into<Option<&'a Tensor>>,
    num_groups: usize,
    eps: f64,
) -> Result<Tensor> {
    let gamma = gamma.into();
    let beta = beta.into();
    let op = GroupNorm { groups: num_groups, eps };
    apply_one(&op, &with_factors(x, gamma, beta, &mut None)?)
}

/// The gradients of [`group_norm`] for `x`, `gamma` and `beta`:
/// `((gγ − mean(gγ) − x̂·mean(gγ·x̂))/√(variance + eps), Σ g·x̂, Σ g)`, where `gγ = grad_output·gamma`.
#[track_caller]
#[extensor_derive::noted]
pub fn group_norm_backward<'a>(
    grad_output: &Tensor,
    x: &Tensor,
    gamma: impl Into<Option<&'a Tensor>>,
    num_groups: usize,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let gamma = gamma.into();
    pull(&GroupNorm { groups: num_groups, eps }, grad_output, x, gamma)
}

/// `y = (x − mean)/√(variance + eps)·gamma + beta` for `x` of shape `[N, C, …]`, with mean and
/// variance over each channel of each image; `gamma` and `beta` have shape `[C]`, and may be left out.
///
/// Conventions: the variance is that of all numbers (divided by n), in two passes; where √(variance +
/// eps) is 0, 1e-10 stands for it.
///
/// ```
/// use extensor::ops::instance_norm;
/// use extensor::tensor;
/// let y = instance_norm(&tensor([[[1.0, 3.0], [5.0, -5.0]]]), None, None, 0.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, 1.0, 1.0, -1.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn instance_norm<'a>(
    x: &Tensor,
    gamma: impl Into<Option<&'a Tensor>>,
    beta: impl Into<Option<&'a Tensor>>,
    eps: f64,
) -> Result<Tensor> {
    let gamma = gamma.into();
    let beta = beta.into();
    apply_one(&InstanceNorm { eps }, &with_factors(x, gamma, beta, &mut None)?)
}

/// The gradients of [`instance_norm`] for `x`, `gamma` and `beta`:
/// `((gγ − mean(gγ) − x̂·mean(gγ·x̂))/√(variance + eps), Σ g·x̂, Σ g)`, where `gγ = grad_output·gamma`.
#[track_caller]
#[extensor_derive::noted]
pub fn instance_norm_backward<'a>(
    grad_output: &Tensor,
    x: &Tensor,
    gamma: impl Into<Option<&'a Tensor>>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let gamma = gamma.into();
    pull(&InstanceNorm { eps }, grad_output, x, gamma)
}

#[track_caller]
fn pull(
    op: &dyn Operation,
    grad_output: &Tensor,
    x: &Tensor,
    gamma: Option<&Tensor>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let channels = Shape::from([x.shape().get(1).copied().unwrap_or(0)]);
    let gamma =
        gamma.map_or_else(|| Tensor::ones(channels.clone(), x.dtype()), |g| Ok(g.clone()))?;
    let beta = placeholder(&channels, gamma.dtype())?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dgamma, dbeta] = backward_of(op, grad_output, &[x, &gamma, &beta], &output)?;
    Ok((dx, dgamma, dbeta))
}

/// Groups of the channels of `[N, C, …]`; each channel by itself where `num_groups` is not given.
fn groups(op: &'static str, x: &Tensor, num_groups: Option<usize>, eps: f64) -> Result<Groups> {
    let (least, expected) = match num_groups {
        Some(_) => (2, "[N, C, …]"),
        None => (3, "[N, C, …] with at least three dimensions"),
    };
    if x.ndim() < least {
        return Err(bad_shape(op, "x", expected, x.shape()));
    }
    let all = x.shape()[1];
    let groups = num_groups.unwrap_or(all);
    if num_groups.is_some() && (groups == 0 || !all.is_multiple_of(groups)) {
        let expected = format!("a number from 1 on that divides the {all} channels");
        return Err(bad_parameter(op, "num_groups", expected, groups));
    }
    // Where there is nothing, the other sizes may be too many to count.
    let (images, len) = match x.is_empty() {
        true => (0, 0),
        false => (x.shape()[0], x.shape()[2..].iter().product()),
    };
    let channels = all.checked_div(groups).unwrap_or(0);
    Ok(Groups { images, groups, channels, len, centred: true, eps })
}

fn factors(x: &Tensor) -> Shape {
    Shape::from([x.shape().get(1).copied().unwrap_or(0)])
}

fn terms(found: Result<Groups>) -> usize {
    found.map_or(1, |groups| (groups.channels * groups.len).max(1))
}

/// Adds samples with no, one and both factors.
fn add_large(s: &mut Sampler, params: Params) {
    let inputs = [s.normal(&[3, 6, 50, 45]), s.uniform(0.5, 2.0, &[6]), s.normal(&[6])];
    s.add_large(inputs, params, "many numbers");
}

fn add_samples(s: &mut Sampler, shape: &[usize], params: Params) {
    for given in 0..3 {
        let mut inputs = vec![s.normal(shape)];
        if given > 0 {
            inputs.push(s.uniform(0.5, 2.0, &shape[1..2]));
        }
        if given > 1 {
            inputs.push(s.normal(&shape[1..2]));
        }
        s.add(inputs, params.clone());
    }
}

#[derive(Clone, Debug)]
pub(crate) struct GroupNorm {
    groups: usize,
    eps: f64,
}

fn in_groups(groups: i64, eps: f64) -> Params {
    Params::new().with("num_groups", groups).with("eps", eps)
}

impl GroupNorm {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "group_norm",
        family: Family::Normalization,
        formula: "y = x̂·gamma + beta, x̂ = (x − mean)/√(variance + eps) over groups of channels",
        derivative: "((gγ − mean(gγ) − x̂·mean(gγ·x̂))/√(variance + eps), Σ g·x̂, Σ g), gγ = g·gamma",
        conventions: CONVENTIONS,
        inputs: &[Input::new("x"), Input::optional("gamma"), Input::optional("beta")],
        params: &[required("num_groups", "how many groups the channels are cut into"), EPS],
        backward: signature!(group_norm_backward(grad_output, x, gamma; num_groups, eps)),
        class: Class::General,
        build: |p| {
            let op = "group_norm";
            let given = p.int(op, "num_groups")?;
            let groups = usize::try_from(given)
                .map_err(|_| bad_parameter(op, "num_groups", "a number from 1 on", given))?;
            Ok(Box::new(GroupNorm { groups, eps: p.float(op, "eps", 1e-5)? }))
        },
        samples: |s| {
            let cases: [(&[usize], i64); 9] = [
                (&[2, 6, 4, 3], 1),
                (&[2, 6, 4, 3], 2),
                (&[2, 6, 2], 3),
                (&[2, 4, 3], 4),
                (&[3, 6], 2),
                (&[1, 2, 5, 8], 1),
                (&[0, 4, 2], 2),
                (&[2, 4, 0], 2),
                (&[2, 0, 3], 1),
            ];
            for (shape, groups) in cases {
                add_samples(s, shape, in_groups(groups, 1e-5));
            }
            add_large(s, in_groups(2, 1e-5));
            let inputs = [crate::tensor([[[0.1; 3]; 4]; 2]), s.uniform(0.5, 2.0, &[4])];
            s.add_noted(inputs, in_groups(2, 0.0), "equal numbers, eps = 0");
        },
        kinks: |sample| {
            let x = &sample.inputs[0];
            let count = x.shape()[0] * sample.number("num_groups", 1.0) as usize;
            without_spread(sample, x.len() / count.max(1), true)
        },
        errors: |bad| {
            let x = bad.ones(&[2, 6, 3], DType::F64);
            let gamma = bad.ones(&[6], DType::F64);
            let flat = bad.ones(&[6], DType::F64);
            let message =
                "num_groups is 4, expected a number from 1 on that divides the 6 channels";
            bad.add([x.clone()], in_groups(4, 1e-5), message);
            bad.add([x.clone()], in_groups(0, 1e-5), "num_groups is 0, expected a number from 1");
            bad.add([x.clone()], in_groups(-1, 1e-5), "num_groups is -1, expected a number from 1");
            bad.add([x.clone(), gamma], in_groups(2, -0.5), "eps is -0.5, expected a finite");
            bad.add([flat], in_groups(2, 1e-5), "x has shape [6], expected [N, C, …]");
            let short = bad.ones(&[3], DType::F64);
            let message = "gamma has shape [3], expected [6]";
            bad.add([x.clone(), short], in_groups(2, 1e-5), message);
            let ints = bad.ones(&[6], DType::I32);
            bad.add([x, ints], in_groups(2, 1e-5), "gamma has dtype i32, expected a float type");
        },
        ..Record::BLANK
    };

    fn find(&self, x: &Tensor) -> Result<Groups> {
        groups("group_norm", x, Some(self.groups), self.eps)
    }
}

impl Operation for GroupNorm {
    fn record(&self) -> &'static Record {
        GroupNorm::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.find(inputs[0])?;
        infer("group_norm", inputs, &factors(inputs[0]), self.eps)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        self.find(inputs[0])?.forward("group_norm", inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        self.find(call.inputs[0])?.backward("group_norm_backward", call)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        self.find(call.inputs[0])?.derivative(call)
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        terms(self.find(inputs[0]))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.merged(self.clone())
            .unwrap_or_else(|| super::own_factors(call, Box::new(self.clone()), true))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct InstanceNorm {
    eps: f64,
}

impl InstanceNorm {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "instance_norm",
        family: Family::Normalization,
        formula: "y = x̂·gamma + beta, x̂ = (x − mean)/√(variance + eps) over each channel",
        derivative: "((gγ − mean(gγ) − x̂·mean(gγ·x̂))/√(variance + eps), Σ g·x̂, Σ g), gγ = g·gamma",
        conventions: CONVENTIONS,
        inputs: &[Input::new("x"), Input::optional("gamma"), Input::optional("beta")],
        params: &[EPS],
        backward: signature!(instance_norm_backward(grad_output, x, gamma; eps)),
        class: Class::General,
        build: |p| Ok(Box::new(InstanceNorm { eps: p.float("instance_norm", "eps", 1e-5)? })),
        samples: |s| {
            let cases: [&[usize]; 6] =
                [&[2, 6, 4, 3], &[2, 3, 5], &[1, 2, 5, 8], &[0, 4, 2], &[2, 4, 0], &[2, 0, 3]];
            for shape in cases {
                add_samples(s, shape, Params::new().with("eps", 1e-5));
            }
            add_large(s, Params::new().with("eps", 1e-5));
            let inputs = [crate::tensor([[[0.1; 3]; 4]; 2]), s.uniform(0.5, 2.0, &[4])];
            s.add_noted(inputs, Params::new().with("eps", 0.0), "equal numbers, eps = 0");
            let inputs = [s.normal(&[2, 4, 1]), s.uniform(0.5, 2.0, &[4])];
            s.add_far(inputs, Params::new().with("eps", 1e-5), "one number");
        },
        kinks: |sample| {
            let len = sample.inputs[0].shape()[2..].iter().product();
            without_spread(sample, len, true)
        },
        errors: |bad| {
            let x = bad.ones(&[2, 6, 3], DType::F64);
            let flat = bad.ones(&[2, 6], DType::F64);
            let message = "x has shape [2, 6], expected [N, C, …] with at least three dimensions";
            bad.add([flat], Params::new(), message);
            let short = bad.ones(&[3], DType::F64);
            bad.add([x.clone(), short], Params::new(), "gamma has shape [3], expected [6]");
            let infinite = Params::new().with("eps", f64::INFINITY);
            bad.add([x], infinite, "eps is inf, expected a finite number");
        },
        ..Record::BLANK
    };

    fn find(&self, x: &Tensor) -> Result<Groups> {
        groups("instance_norm", x, None, self.eps)
    }
}

impl Operation for InstanceNorm {
    fn record(&self) -> &'static Record {
        InstanceNorm::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.find(inputs[0])?;
        infer("instance_norm", inputs, &factors(inputs[0]), self.eps)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        self.find(inputs[0])?.forward("instance_norm", inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        self.find(call.inputs[0])?.backward("instance_norm_backward", call)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        self.find(call.inputs[0])?.derivative(call)
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        terms(self.find(inputs[0]))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.merged(self.clone())
            .unwrap_or_else(|| super::own_factors(call, Box::new(self.clone()), true))
    }
}
