//! Transposed convolution over two axes.

use super::options::ConvOptions;
use super::window::{PARAMS, Window};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Parameter, Record, signature};
use crate::{DType, Result, Shape, Tensor};
use extensor_derive::method;
use smallvec::smallvec;

/// The transposed convolution of images: each element of `x` is scattered over a window of the output,
/// `y[n, o, i·stride + s·dilation − padding, j·…] += weight[c, o, s, t] · x[n, c, i, j]`, to which
/// `bias[o]` is added. It is the gradient of [`conv2d`](crate::ops::conv2d) for its input.
///
/// `x` is of shape `[images, channels, height, width]` and `weight` of shape
/// `[channels, out / groups, kernel height, kernel width]`. The output's height is
/// `(height − 1)·stride − 2·padding + (kernel − 1)·dilation + 1 + output_padding`.
///
/// Conventions: x is [images, channels, height, width], weight is [channels, out / groups, kernel
/// height, kernel width]; output_padding is less than the stride or the dilation; where a window's
/// positions end, zeros are multiplied like other numbers (0·∞ is NaN).
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::tensor;
/// let x = tensor([[[[1.0, 2.0]]]]);
/// let weight = tensor([[[[1.0, 10.0, 100.0]]]]);
/// let y = x.conv_transpose2d(&weight, None, ConvOptions::new().stride([1, 2]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 10.0, 102.0, 20.0, 200.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn conv_transpose2d<'a>(
    x: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'a Tensor>>,
    options: ConvOptions,
) -> Result<Tensor> {
    let op = ConvTranspose2d(options.transposed("conv_transpose2d", 2)?);
    match bias.into() {
        Some(bias) => apply_one(&op, &[x, weight, bias]),
        None => apply_one(&op, &[x, weight]),
    }
}

/// The gradients of [`conv_transpose2d`] for `x`, `weight` and `bias`.
#[track_caller]
#[extensor_derive::noted]
pub fn conv_transpose2d_backward(
    grad_output: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    options: ConvOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    let op = ConvTranspose2d(options.transposed("conv_transpose2d", 2)?);
    let out = weight.shape().get(1).copied().unwrap_or(0).saturating_mul(options.groups);
    let bias = placeholder(&Shape::from([out]), weight.dtype())?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dweight, dbias] = backward_of(&op, grad_output, &[x, weight, &bias], &output)?;
    Ok((dx, dweight, dbias))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvTranspose2d(Window);

impl ConvTranspose2d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "conv_transpose2d",
        family: Family::Convolution,
        formula: "y[n, o, p·stride + t·dilation − padding] = bias[o] + Σ weight[c, o, t] · x[n, c, p]",
        derivative: "(conv2d(g, weight), Σ x[n, c, p] · g[n, o, p·stride + t·dilation − padding], Σ g)",
        conventions: "x is [images, channels, height, width], weight is [channels, out / groups, kernel height, kernel \
                      width]; output_padding is less than the stride or the dilation; where a window's positions end, \
                      zeros are multiplied like other numbers (0·∞ is NaN)",
        inputs: &[Input::new("x"), Input::new("weight"), Input::optional("bias")],
        params: &[
            PARAMS[0],
            PARAMS[1],
            Parameter {
                name: "output_padding",
                what: "a number or one for each axis",
                default: Some("0"),
            },
            PARAMS[2],
            PARAMS[3],
        ],
        backward: signature!(conv_transpose2d_backward(grad_output, x, weight; stride, padding, output_padding, dilation, groups)),
        class: Class::Affine,
        added: Some(2),
        needs: Needs::Inputs,
        build: |params| {
            Ok(Box::new(ConvTranspose2d(Window::transposed("conv_transpose2d", 2, params)?)))
        },
        samples: |s| {
            let with = |stride: [i64; 2],
                        padding: [i64; 2],
                        more: [i64; 2],
                        dilation: [i64; 2],
                        groups: i64| {
                Params::new()
                    .with("stride", stride)
                    .with("padding", padding)
                    .with("output_padding", more)
                    .with("dilation", dilation)
                    .with("groups", groups)
            };
            // Where windows leave gaps, elements depend on nothing but the bias: no sample without.
            type Call = ([usize; 4], [usize; 4], usize, bool, Params);
            let calls: [Call; 6] = [
                ([2, 3, 3, 2], [3, 2, 2, 3], 1, false, Params::new()),
                ([1, 2, 3, 4], [2, 3, 3, 3], 1, false, with([2, 2], [1, 1], [0, 0], [1, 1], 1)),
                ([1, 3, 3, 3], [3, 1, 3, 3], 3, false, with([1, 2], [1, 1], [0, 1], [1, 1], 3)),
                ([0, 2, 3, 3], [2, 3, 2, 2], 1, false, Params::new()),
                ([2, 4, 2, 3], [4, 3, 2, 2], 2, true, with([2, 3], [0, 1], [1, 2], [1, 2], 2)),
                ([1, 2, 2, 2], [2, 2, 2, 1], 1, true, with([1, 3], [0, 0], [1, 0], [2, 1], 1)),
            ];
            for (x, weight, groups, gaps, params) in calls {
                let out = weight[1] * groups;
                let (x, weight, bias) = (s.normal(&x), s.normal(&weight), s.normal(&[out]));
                if !gaps {
                    s.add([x.clone(), weight.clone()], params.clone());
                }
                s.add([x, weight, bias], params);
            }
        },
        errors: |bad| {
            let ones =
                |bad: &crate::ops::samples::Bad, shape: &[usize]| bad.ones(shape, DType::F64);
            let (x, weight) = (ones(bad, &[2, 4, 3, 3]), ones(bad, &[4, 3, 2, 2]));
            let call = [x.clone(), weight.clone()];
            let with = |name: &str, value: i64| Params::new().with(name, value);
            bad.add(
                call.clone(),
                with("stride", -1),
                "conv_transpose2d: stride is -1, expected at least 1",
            );
            bad.add(
                call.clone(),
                with("output_padding", 1),
                "output_padding is [1, 1], expected less than the stride or the dilation",
            );
            bad.add(
                call.clone(),
                with("padding", 2),
                "expected images that become at least one element",
            );
            bad.add(
                call.clone(),
                with("padding", 9),
                "expected images that padding leaves at least one element of",
            );
            bad.add(
                call,
                with("groups", 3),
                "groups is 3, expected a divisor of the 4 channels of x",
            );
            let wrong = [x.clone(), ones(bad, &[3, 4, 2, 2])];
            bad.add(
                wrong,
                Params::new(),
                "weight has shape [3, 4, 2, 2], expected [4, out / groups, kernel height, kernel width]",
            );
            let wrong = [x, weight, ones(bad, &[4])];
            bad.add(wrong, Params::new(), "bias has shape [4], expected [3]");
        },
        ..Record::BLANK
    };
}

impl Operation for ConvTranspose2d {
    fn record(&self) -> &'static Record {
        ConvTranspose2d::RECORD
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
        self.0.batch(call, |window| Box::new(ConvTranspose2d(window)))
    }
}
