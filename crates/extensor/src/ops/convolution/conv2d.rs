//! Convolution over two axes.

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

/// The convolution (strictly, the cross-correlation) of images, for `x` of shape
/// `[images, channels, height, width]` and `weight` of shape
/// `[out, channels / groups, kernel height, kernel width]`:
///
/// `y[n, o, i, j] = bias[o] + Σ weight[o, c, s, t] · x[n, c, i·stride + s·dilation − padding, j·…]`
///
/// over the channels `c` of the group that `o` is in and all of the kernel. Elements outside the
/// image are zeros. With as many groups as channels, each channel is convolved by itself (depthwise).
///
/// Conventions: x is [images, channels, height, width], weight is [out, channels / groups, kernel
/// height, kernel width]; padding is zeros that are multiplied like other numbers (0·∞ is NaN); the
/// output has at least one element along each axis, an empty batch is none of that.
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::tensor;
/// let x = tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]);
/// let weight = tensor([[[[1.0, 0.0], [0.0, -1.0]]]]);
/// let y = x.conv2d(&weight, &tensor([0.5]), ConvOptions::new())?;
/// assert_eq!(y.shape(), [1, 1, 2, 2]);
/// assert_eq!(y.to_vec::<f64>()?, [-3.5, -3.5, -3.5, -3.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn conv2d<'a>(
    x: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'a Tensor>>,
    options: ConvOptions,
) -> Result<Tensor> {
    let op = Conv2d(options.window("conv2d", 2)?);
    match bias.into() {
        Some(bias) => apply_one(&op, &[x, weight, bias]),
        None => apply_one(&op, &[x, weight]),
    }
}

/// The gradients of [`conv2d`] for `x`, `weight` and `bias`.
#[track_caller]
#[extensor_derive::noted]
pub fn conv2d_backward(
    grad_output: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    options: ConvOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    let op = Conv2d(options.window("conv2d", 2)?);
    let out = Shape::from([weight.shape().first().copied().unwrap_or(0)]);
    let bias = placeholder(&out, weight.dtype())?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dweight, dbias] = backward_of(&op, grad_output, &[x, weight, &bias], &output)?;
    Ok((dx, dweight, dbias))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv2d(Window);

impl Conv2d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "conv2d",
        family: Family::Convolution,
        formula: "y[n, o, p] = bias[o] + Σ weight[o, c, t] · x[n, c, p·stride + t·dilation − padding]",
        derivative: "(Σ g[n, o, p] · weight[o, c, t], Σ g[n, o, p] · x[n, c, p·stride + t·dilation − padding], Σ g)",
        conventions: "x is [images, channels, height, width], weight is [out, channels / groups, kernel height, \
                      kernel width]; padding is zeros that are multiplied like other numbers (0·∞ is NaN); the \
                      output has at least one element along each axis, an empty batch is none of that",
        inputs: &[Input::new("x"), Input::new("weight"), Input::optional("bias")],
        params: PARAMS,
        backward: signature!(conv2d_backward(grad_output, x, weight; stride, padding, dilation, groups)),
        class: Class::Affine,
        added: Some(2),
        needs: Needs::Inputs,
        build: |params| Ok(Box::new(Conv2d(Window::named("conv2d", 2, params)?))),
        samples: |s| {
            let plain = Params::new;
            let with = |stride: [i64; 2], padding: [i64; 2], dilation: [i64; 2], groups: i64| {
                plain()
                    .with("stride", stride)
                    .with("padding", padding)
                    .with("dilation", dilation)
                    .with("groups", groups)
            };
            let calls: [(&[usize], &[usize], Params); 8] = [
                (&[2, 2, 4, 3], &[3, 2, 2, 2], plain()),
                (&[2, 3, 4, 4], &[2, 3, 1, 1], plain()),
                (&[1, 2, 5, 6], &[2, 2, 3, 3], plain().with("padding", 1).with("stride", 2)),
                (&[1, 1, 6, 5], &[2, 1, 2, 3], with([2, 1], [1, 2], [3, 1], 1)),
                (&[2, 4, 3, 4], &[6, 2, 2, 2], with([1, 2], [1, 0], [1, 1], 2)),
                (&[2, 3, 4, 4], &[3, 1, 3, 3], with([1, 1], [1, 1], [1, 1], 3)),
                (&[1, 5, 3, 3], &[6, 5, 2, 3], with([1, 1], [0, 1], [2, 1], 1)),
                (&[0, 2, 4, 3], &[3, 2, 2, 2], plain()),
            ];
            for (x, weight, params) in calls {
                let (x, weight, bias) = (s.normal(x), s.normal(weight), s.normal(&weight[..1]));
                s.add([x.clone(), weight.clone()], params.clone());
                s.add([x, weight, bias], params);
            }
            let large: [(&[usize], &[usize], Params); 4] = [
                (&[2, 16, 24, 24], &[24, 16, 3, 3], plain().with("padding", 1)),
                (&[3, 20, 15, 15], &[40, 20, 1, 1], plain()),
                (&[2, 12, 40, 40], &[12, 1, 3, 3], plain().with("groups", 12)),
                (&[1, 3, 64, 64], &[8, 3, 5, 5], plain().with("stride", 2).with("padding", 2)),
            ];
            for (x, weight, params) in large {
                let inputs = [s.normal(x), s.normal(weight), s.normal(&weight[..1])];
                s.add_large(inputs, params, "many numbers");
            }
        },
        errors: |bad| {
            let ones =
                |bad: &crate::ops::samples::Bad, shape: &[usize]| bad.ones(shape, DType::F64);
            let (x, weight) = (ones(bad, &[2, 4, 5, 5]), ones(bad, &[6, 4, 3, 3]));
            let call = [x.clone(), weight.clone()];
            let with = |name: &str, value: i64| Params::new().with(name, value);
            bad.add(call.clone(), with("stride", 0), "conv2d: stride is 0, expected at least 1");
            bad.add(call.clone(), with("padding", -1), "padding is -1, expected at least 0");
            bad.add(call.clone(), with("dilation", 0), "dilation is 0, expected at least 1");
            bad.add(
                call.clone(),
                with("groups", 3),
                "groups is 3, expected a divisor of the 4 channels of x",
            );
            bad.add(
                call.clone(),
                with("dilation", 3),
                "x has shape [2, 4, 5, 5], expected at least 7 elements",
            );
            bad.add(
                call,
                Params::new().with("stride", [1, 2, 3]),
                "stride is [1, 2, 3], expected one number or two",
            );
            let wrong = [x.clone(), ones(bad, &[6, 3, 3, 3])];
            bad.add(
                wrong,
                Params::new(),
                "weight has shape [6, 3, 3, 3], expected [out, 4, kernel height, kernel width]",
            );
            let wrong = [x.clone(), ones(bad, &[5, 2, 3, 3])];
            bad.add(
                wrong,
                with("groups", 2),
                "groups is 2, expected a divisor of the 5 filters of weight",
            );
            let wrong = [x.clone(), ones(bad, &[6, 4, 0, 3])];
            bad.add(wrong, Params::new(), "expected a kernel of at least one element");
            let wrong = [x.clone(), weight.clone(), ones(bad, &[4])];
            bad.add(wrong, Params::new(), "bias has shape [4], expected [6]");
            let wrong = [ones(bad, &[4, 5, 5]), weight];
            bad.add(
                wrong,
                Params::new(),
                "x has shape [4, 5, 5], expected [images, channels, height, width]",
            );
            let ints = bad.ones(&[6, 4, 3, 3], DType::I64);
            bad.add([x, ints], Params::new(), "weight has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };
}

impl Operation for Conv2d {
    fn record(&self) -> &'static Record {
        Conv2d::RECORD
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
        self.0.batch(call, |window| Box::new(Conv2d(window)))
    }
}
