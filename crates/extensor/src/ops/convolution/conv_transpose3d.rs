//! Transposed convolution over three axes.

use super::options::Conv3dOptions;
use super::window::{PARAMS, Window};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Parameter, Record, signature};
use crate::{DType, Result, Shape, Tensor};
use extensor_derive::method;
use smallvec::smallvec;

/// The transposed convolution of volumes: each element of `x` is scattered over a window of the output,
/// `y[n, o, p·stride + t·dilation − padding] += weight[c, o, t] · x[n, c, p]`, to which `bias[o]` is added.
/// It is the gradient of [`conv3d`](crate::ops::conv3d) for its input.
///
/// `x` is of shape `[volumes, channels, depth, height, width]` and `weight` of shape
/// `[channels, out / groups, kernel depth, kernel height, kernel width]`. The output's depth is
/// `(depth − 1)·stride − 2·padding + (kernel − 1)·dilation + 1 + output_padding`.
///
/// Conventions: x is [images, channels, depth, height, width], weight is [channels, out / groups, kernel
/// depth, kernel height, kernel width]; output_padding is less than the stride or the dilation; where a
/// window's positions end, zeros are multiplied like other numbers (0·∞ is NaN).
///
/// ```
/// use extensor::ops::Conv3dOptions;
/// use extensor::tensor;
/// let x = tensor([[[[[1.0]], [[2.0]]]]]);
/// let weight = tensor([[[[[1.0]], [[10.0]], [[100.0]]]]]);
/// let y = x.conv_transpose3d(&weight, None, Conv3dOptions::new().stride([2, 1, 1]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 10.0, 102.0, 20.0, 200.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn conv_transpose3d<'a>(
    x: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'a Tensor>>,
    options: Conv3dOptions,
) -> Result<Tensor> {
    let op = ConvTranspose3d(options.transposed("conv_transpose3d", 3)?);
    match bias.into() {
        Some(bias) => apply_one(&op, &[x, weight, bias]),
        None => apply_one(&op, &[x, weight]),
    }
}

/// The gradients of [`conv_transpose3d`] for `x`, `weight` and `bias`.
#[track_caller]
#[extensor_derive::noted]
pub fn conv_transpose3d_backward(
    grad_output: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    options: Conv3dOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    let op = ConvTranspose3d(options.transposed("conv_transpose3d", 3)?);
    let out = weight.shape().get(1).copied().unwrap_or(0).saturating_mul(options.groups);
    let bias = placeholder(&Shape::from([out]), weight.dtype())?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dweight, dbias] = backward_of(&op, grad_output, &[x, weight, &bias], &output)?;
    Ok((dx, dweight, dbias))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvTranspose3d(Window);

impl ConvTranspose3d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "conv_transpose3d",
        family: Family::Convolution,
        formula: "y[n, o, p·stride + t·dilation − padding] = bias[o] + Σ weight[c, o, t] · x[n, c, p]",
        derivative: "(conv3d(g, weight), Σ x[n, c, p] · g[n, o, p·stride + t·dilation − padding], Σ g)",
        conventions: "x is [images, channels, depth, height, width], weight is [channels, out / groups, \
                      kernel depth, kernel height, kernel width]; output_padding is less than the stride or \
                      the dilation; where a window's positions end, zeros are multiplied like other numbers \
                      (0·∞ is NaN)",
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
        backward: signature!(conv_transpose3d_backward(grad_output, x, weight; stride, padding, output_padding, dilation, groups)),
        class: Class::Affine,
        added: Some(2),
        needs: Needs::Inputs,
        build: |params| {
            Ok(Box::new(ConvTranspose3d(Window::transposed("conv_transpose3d", 3, params)?)))
        },
        samples: |s| {
            let with = |stride: [i64; 3],
                        padding: [i64; 3],
                        more: [i64; 3],
                        dilation: [i64; 3],
                        groups: i64| {
                Params::new()
                    .with("stride", stride)
                    .with("padding", padding)
                    .with("output_padding", more)
                    .with("dilation", dilation)
                    .with("groups", groups)
            };
            let (ones, none) = ([1; 3], [0; 3]);
            // Where windows leave gaps, elements depend on nothing but the bias: no sample without.
            type Call = ([usize; 5], [usize; 5], usize, bool, Params);
            let calls: [Call; 7] = [
                ([2, 3, 2, 3, 2], [3, 2, 2, 2, 3], 1, false, Params::new()),
                ([1, 2, 3, 2, 3], [2, 3, 3, 3, 3], 1, false, with([2; 3], ones, none, ones, 1)),
                (
                    [1, 3, 2, 3, 2],
                    [3, 1, 3, 3, 3],
                    3,
                    false,
                    with([2, 1, 2], ones, [1, 0, 1], ones, 3),
                ),
                ([0, 2, 3, 3, 2], [2, 3, 2, 2, 2], 1, false, Params::new()),
                (
                    [2, 4, 2, 2, 3],
                    [4, 3, 2, 2, 1],
                    2,
                    true,
                    with([3, 2, 3], [1, 0, 0], [2, 1, 1], [2, 1, 1], 2),
                ),
                (
                    [1, 2, 2, 2, 1],
                    [2, 2, 1, 2, 2],
                    1,
                    true,
                    with([3, 1, 1], none, [1, 0, 0], [1, 2, 1], 1),
                ),
                (
                    [1, 2, 1, 2, 2],
                    [2, 1, 1, 2, 2],
                    1,
                    true,
                    with([5, 1, 1], none, [2, 0, 0], ones, 1),
                ),
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
            let (x, weight) = (ones(bad, &[2, 4, 3, 3, 3]), ones(bad, &[4, 3, 2, 2, 2]));
            let call = [x.clone(), weight.clone()];
            let with = |name: &str, value: i64| Params::new().with(name, value);
            bad.add(
                call.clone(),
                with("stride", -1),
                "conv_transpose3d: stride is -1, expected at least 1",
            );
            bad.add(
                call.clone(),
                with("output_padding", 1),
                "output_padding is [1, 1, 1], expected less than the stride or the dilation",
            );
            bad.add(
                call.clone(),
                with("padding", 2),
                "expected images that become at least one element",
            );
            bad.add(
                call,
                with("groups", 3),
                "groups is 3, expected a divisor of the 4 channels of x",
            );
            let wrong = [x.clone(), ones(bad, &[3, 4, 2, 2, 2])];
            bad.add(
                wrong,
                Params::new(),
                "expected [4, out / groups, kernel depth, kernel height, kernel width]",
            );
            let wrong = [x, weight, ones(bad, &[4])];
            bad.add(wrong, Params::new(), "bias has shape [4], expected [3]");
        },
        ..Record::BLANK
    };
}

impl Operation for ConvTranspose3d {
    fn record(&self) -> &'static Record {
        ConvTranspose3d::RECORD
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
        self.0.batch(call, |window| Box::new(ConvTranspose3d(window)))
    }
}
