//! Convolution over one axis.

use super::options::ConvOptions;
use super::window::{PARAMS, Window};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::{DType, Result, Shape, Tensor};
use extensor_derive::method;
use smallvec::smallvec;

/// The convolution (strictly, the cross-correlation) of sequences, for `x` of shape
/// `[images, channels, length]` and `weight` of shape `[out, channels / groups, kernel]`:
///
/// `y[n, o, i] = bias[o] + Σ weight[o, c, t] · x[n, c, i·stride + t·dilation − padding]`
///
/// Conventions: x is [images, channels, length], weight is [out, channels / groups, kernel]; padding is
/// zeros that are multiplied like other numbers (0·∞ is NaN).
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::tensor;
/// let x = tensor([[[1.0, 2.0, 4.0, 8.0]]]);
/// let y = x.conv1d(&tensor([[[-1.0, 1.0]]]), None, ConvOptions::new())?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn conv1d<'a>(
    x: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'a Tensor>>,
    options: ConvOptions,
) -> Result<Tensor> {
    let op = Conv1d(options.window("conv1d", 1)?);
    match bias.into() {
        Some(bias) => apply_one(&op, &[x, weight, bias]),
        None => apply_one(&op, &[x, weight]),
    }
}

/// The gradients of [`conv1d`] for `x`, `weight` and `bias`.
#[track_caller]
#[extensor_derive::noted]
pub fn conv1d_backward(
    grad_output: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    options: ConvOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    let op = Conv1d(options.window("conv1d", 1)?);
    let out = Shape::from([weight.shape().first().copied().unwrap_or(0)]);
    let bias = placeholder(&out, weight.dtype())?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dweight, dbias] = backward_of(&op, grad_output, &[x, weight, &bias], &output)?;
    Ok((dx, dweight, dbias))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv1d(Window);

impl Conv1d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "conv1d",
        family: Family::Convolution,
        formula: "y[n, o, i] = bias[o] + Σ weight[o, c, t] · x[n, c, i·stride + t·dilation − padding]",
        derivative: "(Σ g[n, o, i] · weight[o, c, t], Σ g[n, o, i] · x[n, c, i·stride + t·dilation − padding], Σ g)",
        conventions: "x is [images, channels, length], weight is [out, channels / groups, kernel]; padding is zeros \
                      that are multiplied like other numbers (0·∞ is NaN)",
        inputs: &[Input::new("x"), Input::new("weight"), Input::optional("bias")],
        params: PARAMS,
        backward: signature!(conv1d_backward(grad_output, x, weight; stride, padding, dilation, groups)),
        class: Class::Affine,
        added: Some(2),
        needs: Needs::Inputs,
        build: |params| Ok(Box::new(Conv1d(Window::named("conv1d", 1, params)?))),
        samples: |s| {
            let with = |stride: i64, padding: i64, dilation: i64, groups: i64| {
                Params::new()
                    .with("stride", stride)
                    .with("padding", padding)
                    .with("dilation", dilation)
                    .with("groups", groups)
            };
            let calls: [(&[usize], &[usize], Params); 5] = [
                (&[2, 3, 7], &[4, 3, 3], Params::new()),
                (&[2, 2, 8], &[5, 2, 2], with(2, 1, 2, 1)),
                (&[1, 4, 6], &[4, 1, 3], with(1, 2, 1, 4)),
                (&[3, 6, 5], &[2, 3, 1], with(3, 0, 1, 2)),
                (&[0, 2, 5], &[3, 2, 2], Params::new()),
            ];
            for (x, weight, params) in calls {
                let (x, weight, bias) = (s.normal(x), s.normal(weight), s.normal(&weight[..1]));
                s.add([x.clone(), weight.clone()], params.clone());
                s.add([x, weight, bias], params);
            }
        },
        errors: |bad| {
            let ones =
                |bad: &crate::ops::samples::Bad, shape: &[usize]| bad.ones(shape, DType::F64);
            let (x, weight) = (ones(bad, &[2, 4, 5]), ones(bad, &[6, 4, 3]));
            let call = [x.clone(), weight.clone()];
            let with = |name: &str, value: i64| Params::new().with(name, value);
            bad.add(call.clone(), with("stride", 0), "conv1d: stride is 0, expected at least 1");
            bad.add(call.clone(), with("groups", 0), "groups is 0, expected at least 1");
            bad.add(
                call,
                with("dilation", 3),
                "x has shape [2, 4, 5], expected at least 7 elements",
            );
            let wrong = [x, ones(bad, &[6, 4, 3, 3])];
            bad.add(
                wrong,
                Params::new(),
                "weight has shape [6, 4, 3, 3], expected [out, 4, kernel]",
            );
            let wrong = [ones(bad, &[2, 4, 5, 5]), weight];
            bad.add(
                wrong,
                Params::new(),
                "x has shape [2, 4, 5, 5], expected [images, channels, length]",
            );
        },
        ..Record::BLANK
    };
}

impl Operation for Conv1d {
    fn record(&self) -> &'static Record {
        Conv1d::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.0.infer(inputs)
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(smallvec![self.0.forward(inputs)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        self.0.backward(call)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        self.0.batch(call, |window| Box::new(Conv1d(window)))
    }
}
