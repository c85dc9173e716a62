//! The last axes of each element of a batch, normalised together.

use super::{CONVENTIONS, EPS, Groups, infer, with_factors, without_spread};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Parameter, Record, signature};
use crate::ops::samples::{Bad, Sample, Sampler};
use crate::ops::shape::{bad_parameter, bad_shape, required, sizes};
use crate::{DType, Result, Shape, Tensor};
use extensor_derive::method;

/// The parameter `normalized_shape`.
const SHAPE: Parameter = required("normalized_shape", "the sizes of the last axes, at least one");

/// `y = (x − mean)/√(variance + eps)·gamma + beta`, with mean and variance over the last axes, whose
/// sizes are `normalized_shape`; `gamma` and `beta` have that shape, and may be left out.
///
/// Conventions: the variance is that of all numbers (divided by n), in two passes; where √(variance +
/// eps) is 0, 1e-10 stands for it.
///
/// ```
/// use extensor::ops::layer_norm;
/// use extensor::tensor;
/// let x = tensor([[1.0, 3.0], [10.0, -10.0]]);
/// let (gamma, beta) = (tensor([1.0, 2.0]), tensor([0.0, 1.0]));
/// let y = layer_norm(&x, Some(&gamma), Some(&beta), &[2], 0.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, 3.0, 1.0, -1.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn layer_norm<'a>(
    x: &Tensor,
    gamma: impl Into<Option<&'a Tensor>>,
    beta: impl Into<Option<&'a Tensor>>,
    normalized_shape: &[usize],
    eps: f64,
) -> Result<Tensor> {
    let gamma = gamma.into();
    let beta = beta.into();
    let op = LayerNorm { shape: normalized_shape.into(), eps };
    apply_one(&op, &with_factors(x, gamma, beta, &mut None)?)
}

/// The gradients of [`layer_norm`] for `x`, `gamma` and `beta`:
/// `((gγ − mean(gγ) − x̂·mean(gγ·x̂))/√(variance + eps), Σ g·x̂, Σ g)`, where `gγ = grad_output·gamma`.
#[track_caller]
#[extensor_derive::noted]
pub fn layer_norm_backward<'a>(
    grad_output: &Tensor,
    x: &Tensor,
    gamma: impl Into<Option<&'a Tensor>>,
    normalized_shape: &[usize],
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let gamma = gamma.into();
    let shape: Shape = normalized_shape.into();
    let gamma = gamma.map_or_else(|| Tensor::ones(shape.clone(), x.dtype()), |g| Ok(g.clone()))?;
    let beta = placeholder(&shape, gamma.dtype())?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let op = LayerNorm { shape, eps };
    let [dx, dgamma, dbeta] = backward_of(&op, grad_output, &[x, &gamma, &beta], &output)?;
    Ok((dx, dgamma, dbeta))
}

/// `y = x/√(mean(x²) + eps)·gamma`, with the mean over the last axes, whose sizes are
/// `normalized_shape`; `gamma` has that shape, and may be left out.
///
/// Conventions: where √(mean(x²) + eps) is 0, 1e-10 stands for it.
///
/// ```
/// use extensor::ops::rms_norm;
/// use extensor::tensor;
/// let y = rms_norm(&tensor([[3.0, 3.0], [4.0, -4.0]]), Some(&tensor([1.0, 2.0])), &[2], 0.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 1.0, -2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn rms_norm<'a>(
    x: &Tensor,
    gamma: impl Into<Option<&'a Tensor>>,
    normalized_shape: &[usize],
    eps: f64,
) -> Result<Tensor> {
    let gamma = gamma.into();
    let op = RmsNorm { shape: normalized_shape.into(), eps };
    apply_one(&op, &with_factors(x, gamma, None, &mut None)?)
}

/// The gradients of [`rms_norm`] for `x` and `gamma`:
/// `((gγ − x̂·mean(gγ·x̂))/√(mean(x²) + eps), Σ g·x̂)`, where `gγ = grad_output·gamma`.
#[track_caller]
#[extensor_derive::noted]
pub fn rms_norm_backward<'a>(
    grad_output: &Tensor,
    x: &Tensor,
    gamma: impl Into<Option<&'a Tensor>>,
    normalized_shape: &[usize],
    eps: f64,
) -> Result<(Tensor, Tensor)> {
    let gamma = gamma.into();
    let shape: Shape = normalized_shape.into();
    let gamma = gamma.map_or_else(|| Tensor::ones(shape.clone(), x.dtype()), |g| Ok(g.clone()))?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dgamma] = backward_of(&RmsNorm { shape, eps }, grad_output, &[x, &gamma], &output)?;
    Ok((dx, dgamma))
}

/// The rows of a tensor that ends with the axes of `shape`.
fn rows(op: &'static str, x: &Tensor, shape: &Shape, centred: bool, eps: f64) -> Result<Groups> {
    if shape.is_empty() {
        return Err(bad_parameter(op, "normalized_shape", "at least one size", &shape[..]));
    }
    if !x.shape().ends_with(shape) {
        let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
        let expected = format!("[…, {}], as normalized_shape says", sizes.join(", "));
        return Err(bad_shape(op, "x", expected, x.shape()));
    }
    let before: Shape = x.shape()[..x.ndim() - shape.len()].into();
    // Where there is nothing, the other sizes may be too many to count.
    let images = if x.is_empty() { 0 } else { before.count(op)? };
    let channels = shape.count(op)?;
    Ok(Groups { images, groups: 1, channels, len: 1, centred, eps })
}

fn params(shape: &[i64], eps: f64) -> Params {
    Params::new().with("normalized_shape", shape).with("eps", eps)
}

/// How many numbers are normalised together.
fn row(sample: &Sample) -> usize {
    sample.whole_numbers("normalized_shape").iter().product::<i64>() as usize
}

fn row_samples(s: &mut Sampler, factors: usize) {
    let cases: [(&[usize], &[i64]); 8] = [
        (&[4, 6], &[6]),
        (&[2, 3, 6], &[6]),
        (&[2, 3, 4], &[3, 4]),
        (&[5], &[5]),
        (&[3, 40], &[40]),
        (&[40, 3], &[3]),
        (&[0, 4], &[4]),
        (&[2, 0], &[0]),
    ];
    for (shape, normalized) in cases {
        let own: Vec<usize> = normalized.iter().map(|&n| n as usize).collect();
        for given in 0..=factors {
            let mut inputs = vec![s.normal(shape)];
            if given > 0 {
                inputs.push(s.uniform(0.5, 2.0, &own));
            }
            if given > 1 {
                inputs.push(s.normal(&own));
            }
            s.add(inputs, params(normalized, if given == 1 { 1e-5 } else { 0.1 }));
        }
    }
    for (rows, width) in [(20, 2100), (2100, 20)] {
        let mut inputs = vec![s.normal(&[rows, width]), s.uniform(0.5, 2.0, &[width])];
        if factors > 1 {
            inputs.push(s.normal(&[width]));
        }
        s.add_large(inputs, params(&[width as i64], 1e-5), "many numbers");
    }
    let inputs = [s.uniform(99.0, 102.0, &[3, 5]), s.uniform(0.5, 2.0, &[5])];
    s.add_noted(inputs, params(&[5], 1e-5), "far from 0");
    let inputs = [s.tiny(&[3, 5]), s.uniform(0.5, 2.0, &[5])];
    s.add_noted(inputs, params(&[5], 0.0), "tiny, eps = 0");
    let inputs = [crate::tensor([[0.0; 5]; 2]), s.uniform(0.5, 2.0, &[5])];
    s.add_noted(inputs, params(&[5], 0.0), "zeros, eps = 0");
    let inputs = [crate::tensor([[0.1; 5]; 2]), s.uniform(0.5, 2.0, &[5])];
    s.add_noted(inputs, params(&[5], 0.0), "equal numbers, eps = 0");
}

fn bad_rows(bad: &mut Bad) {
    let x = bad.ones(&[2, 3], DType::F64);
    let gamma = bad.ones(&[3], DType::F64);
    let mut add = |inputs: &[&Tensor], params: Params, message| {
        bad.add(inputs.iter().map(|&x| x.clone()).collect::<Vec<_>>(), params, message);
    };
    add(&[&x, &gamma], params(&[2], 1e-5), "x has shape [2, 3], expected […, 2]");
    add(&[&gamma], params(&[2, 3], 1e-5), "x has shape [3], expected […, 2, 3]");
    add(&[&x], params(&[], 1e-5), "normalized_shape is [], expected at least one size");
    add(&[&x], params(&[-3], 1e-5), "normalized_shape is [-3], expected sizes of at least 0");
    add(&[&x], Params::new(), "normalized_shape is None, expected a list of whole numbers");
    add(&[&x, &x], params(&[3], 1e-5), "gamma has shape [2, 3], expected [3]");
    add(&[&x, &gamma], params(&[3], -1.0), "eps is -1.0, expected a finite number");
    add(&[&x, &gamma], params(&[3], f64::NAN), "eps is NaN, expected a finite number");
    let ints = Tensor::ones([2, 3], DType::I64);
    if let Ok(ints) = ints {
        add(&[&ints], params(&[3], 1e-5), "x has dtype i64, expected a float type");
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LayerNorm {
    shape: Shape,
    eps: f64,
}

impl LayerNorm {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "layer_norm",
        family: Family::Normalization,
        formula: "y = x̂·gamma + beta, x̂ = (x − mean)/√(variance + eps)",
        derivative: "((gγ − mean(gγ) − x̂·mean(gγ·x̂))/√(variance + eps), Σ g·x̂, Σ g), gγ = g·gamma",
        conventions: CONVENTIONS,
        inputs: &[Input::new("x"), Input::optional("gamma"), Input::optional("beta")],
        params: &[SHAPE, EPS],
        backward: signature!(layer_norm_backward(grad_output, x, gamma; normalized_shape, eps)),
        class: Class::General,
        build: |p| {
            let op = "layer_norm";
            let shape = sizes(op, "normalized_shape", &p.ints(op, "normalized_shape")?)?;
            Ok(Box::new(LayerNorm { shape, eps: p.float(op, "eps", 1e-5)? }))
        },
        samples: |s| row_samples(s, 2),
        kinks: |sample| without_spread(sample, row(sample), true),
        errors: |bad| {
            bad_rows(bad);
            let inputs = [[2, 3].as_slice(), &[3], &[2]].map(|s| bad.ones(s, DType::F64));
            bad.add(inputs, params(&[3], 1e-5), "beta has shape [2], expected [3]");
        },
        ..Record::BLANK
    };

    fn groups(&self, x: &Tensor) -> Result<Groups> {
        rows("layer_norm", x, &self.shape, true, self.eps)
    }
}

impl Operation for LayerNorm {
    fn record(&self) -> &'static Record {
        LayerNorm::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.groups(inputs[0])?;
        infer("layer_norm", inputs, &self.shape, self.eps)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        self.groups(inputs[0])?.forward("layer_norm", inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        self.groups(call.inputs[0])?.backward("layer_norm_backward", call)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        self.groups(call.inputs[0])?.derivative(call)
    }
    fn terms(&self, _: &[&Tensor]) -> usize {
        self.shape.iter().product::<usize>().max(1)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.first(self.clone())
            .unwrap_or_else(|| super::own_factors(call, Box::new(self.clone()), false))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RmsNorm {
    shape: Shape,
    eps: f64,
}

impl RmsNorm {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "rms_norm",
        family: Family::Normalization,
        formula: "y = x̂·gamma, x̂ = x/√(mean(x²) + eps)",
        derivative: "((gγ − x̂·mean(gγ·x̂))/√(mean(x²) + eps), Σ g·x̂), gγ = g·gamma",
        conventions: "where √(mean(x²) + eps) is 0, 1e-10 stands for it",
        inputs: &[Input::new("x"), Input::optional("gamma")],
        params: &[SHAPE, EPS],
        backward: signature!(rms_norm_backward(grad_output, x, gamma; normalized_shape, eps)),
        class: Class::General,
        build: |p| {
            let op = "rms_norm";
            let shape = sizes(op, "normalized_shape", &p.ints(op, "normalized_shape")?)?;
            Ok(Box::new(RmsNorm { shape, eps: p.float(op, "eps", 1e-5)? }))
        },
        samples: |s| row_samples(s, 1),
        kinks: |sample| without_spread(sample, row(sample), false),
        errors: bad_rows,
        ..Record::BLANK
    };

    fn groups(&self, x: &Tensor) -> Result<Groups> {
        rows("rms_norm", x, &self.shape, false, self.eps)
    }
}

impl Operation for RmsNorm {
    fn record(&self) -> &'static Record {
        RmsNorm::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.groups(inputs[0])?;
        infer("rms_norm", inputs, &self.shape, self.eps)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        self.groups(inputs[0])?.forward("rms_norm", inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        self.groups(call.inputs[0])?.backward("rms_norm_backward", call)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        self.groups(call.inputs[0])?.derivative(call)
    }
    fn terms(&self, _: &[&Tensor]) -> usize {
        self.shape.iter().product::<usize>().max(1)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.first(self.clone())
            .unwrap_or_else(|| super::own_factors(call, Box::new(self.clone()), false))
    }
}
