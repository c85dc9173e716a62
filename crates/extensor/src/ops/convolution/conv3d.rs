//! Convolution over three axes.

use super::options::Conv3dOptions;
use super::window::{PARAMS, Window};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::{DType, Result, Shape, Tensor};
use extensor_derive::method;
use smallvec::smallvec;

/// The convolution (strictly, the cross-correlation) of volumes, for `x` of shape
/// `[volumes, channels, depth, height, width]` and `weight` of shape
/// `[out, channels / groups, kernel depth, kernel height, kernel width]`:
///
/// `y[n, o, p] = bias[o] + Σ weight[o, c, t] · x[n, c, p·stride + t·dilation − padding]`
///
/// for positions `p` and elements `t` of the kernel of three numbers each, over the channels `c` of the
/// group that `o` is in and all of the kernel. Elements outside the volume are zeros.
///
/// Conventions: x is [images, channels, depth, height, width], weight is [out, channels / groups, kernel
/// depth, kernel height, kernel width]; padding is zeros that are multiplied like other numbers (0·∞ is
/// NaN).
///
/// ```
/// use extensor::ops::Conv3dOptions;
/// use extensor::{DType, Key};
/// let [a, b] = Key::new(1).split();
/// let clip = a.normal([1, 3, 8, 16, 16], DType::F32)?;
/// let weight = b.normal([4, 3, 3, 3, 3], DType::F32)?;
/// let y = clip.conv3d(&weight, None, Conv3dOptions::new().padding(1).stride([1, 2, 2]))?;
/// assert_eq!(y.shape(), [1, 4, 8, 8, 8]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn conv3d<'a>(
    x: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'a Tensor>>,
    options: Conv3dOptions,
) -> Result<Tensor> {
    let op = Conv3d(options.window("conv3d", 3)?);
    match bias.into() {
        Some(bias) => apply_one(&op, &[x, weight, bias]),
        None => apply_one(&op, &[x, weight]),
    }
}

/// The gradients of [`conv3d`] for `x`, `weight` and `bias`.
#[track_caller]
#[extensor_derive::noted]
pub fn conv3d_backward(
    grad_output: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    options: Conv3dOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    let op = Conv3d(options.window("conv3d", 3)?);
    let out = Shape::from([weight.shape().first().copied().unwrap_or(0)]);
    let bias = placeholder(&out, weight.dtype())?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dweight, dbias] = backward_of(&op, grad_output, &[x, weight, &bias], &output)?;
    Ok((dx, dweight, dbias))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv3d(Window);

impl Conv3d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "conv3d",
        family: Family::Convolution,
        formula: "y[n, o, p] = bias[o] + Σ weight[o, c, t] · x[n, c, p·stride + t·dilation − padding]",
        derivative: "(Σ g[n, o, p] · weight[o, c, t], Σ g[n, o, p] · x[n, c, p·stride + t·dilation − padding], Σ g)",
        conventions: "x is [images, channels, depth, height, width], weight is [out, channels / groups, \
                      kernel depth, kernel height, kernel width]; padding is zeros that are multiplied like \
                      other numbers (0·∞ is NaN)",
        inputs: &[Input::new("x"), Input::new("weight"), Input::optional("bias")],
        params: PARAMS,
        backward: signature!(conv3d_backward(grad_output, x, weight; stride, padding, dilation, groups)),
        class: Class::Affine,
        added: Some(2),
        needs: Needs::Inputs,
        build: |params| Ok(Box::new(Conv3d(Window::named("conv3d", 3, params)?))),
        samples: |s| {
            let plain = Params::new;
            let with = |stride: [i64; 3], padding: [i64; 3], dilation: [i64; 3], groups: i64| {
                plain()
                    .with("stride", stride)
                    .with("padding", padding)
                    .with("dilation", dilation)
                    .with("groups", groups)
            };
            let calls: [(&[usize], &[usize], Params); 9] = [
                (&[2, 2, 3, 4, 3], &[3, 2, 2, 2, 2], plain()),
                (&[1, 3, 2, 3, 2], &[2, 3, 1, 1, 1], plain()),
                (&[1, 2, 4, 3, 4], &[2, 2, 3, 3, 3], plain().with("padding", 1).with("stride", 2)),
                (&[1, 1, 5, 3, 3], &[2, 1, 2, 2, 2], with([2, 1, 1], [1, 0, 1], [3, 1, 2], 1)),
                (&[2, 4, 3, 2, 3], &[6, 2, 2, 2, 1], with([1, 2, 1], [0, 1, 0], [1; 3], 2)),
                (&[1, 3, 3, 3, 3], &[3, 1, 3, 2, 2], with([1; 3], [1; 3], [1; 3], 3)),
                (&[1, 2, 5, 2, 2], &[2, 2, 2, 1, 2], with([3, 1, 1], [0; 3], [2, 1, 1], 1)),
                (&[1, 2, 1, 4, 4], &[2, 2, 1, 2, 2], plain()),
                (&[0, 2, 3, 4, 3], &[3, 2, 2, 2, 2], plain()),
            ];
            for (x, weight, params) in calls {
                let (x, weight, bias) = (s.normal(x), s.normal(weight), s.normal(&weight[..1]));
                s.add([x.clone(), weight.clone()], params.clone());
                s.add([x, weight, bias], params);
            }
            let large: [(&[usize], &[usize], Params); 2] = [
                (&[1, 16, 8, 16, 16], &[20, 16, 3, 3, 3], plain().with("padding", 1)),
                (
                    &[2, 3, 9, 20, 20],
                    &[8, 3, 3, 5, 5],
                    plain().with("stride", 2).with("padding", 2),
                ),
            ];
            for (x, weight, params) in large {
                let inputs = [s.normal(x), s.normal(weight), s.normal(&weight[..1])];
                s.add_large(inputs, params, "many numbers");
            }
        },
        errors: |bad| {
            let ones =
                |bad: &crate::ops::samples::Bad, shape: &[usize]| bad.ones(shape, DType::F64);
            let (x, weight) = (ones(bad, &[2, 4, 5, 5, 5]), ones(bad, &[6, 4, 3, 3, 3]));
            let call = [x.clone(), weight.clone()];
            let with = |name: &str, value: i64| Params::new().with(name, value);
            bad.add(call.clone(), with("stride", 0), "conv3d: stride is 0, expected at least 1");
            bad.add(call.clone(), with("padding", -1), "padding is -1, expected at least 0");
            bad.add(
                call.clone(),
                with("groups", 3),
                "groups is 3, expected a divisor of the 4 channels of x",
            );
            bad.add(
                call.clone(),
                with("dilation", 3),
                "x has shape [2, 4, 5, 5, 5], expected at least 7 elements",
            );
            bad.add(
                call,
                Params::new().with("stride", [1, 2]),
                "stride is [1, 2], expected one number or three",
            );
            let wrong = [x.clone(), ones(bad, &[6, 3, 3, 3, 3])];
            bad.add(
                wrong,
                Params::new(),
                "expected [out, 4, kernel depth, kernel height, kernel width]",
            );
            let wrong = [x.clone(), weight.clone(), ones(bad, &[4])];
            bad.add(wrong, Params::new(), "bias has shape [4], expected [6]");
            let wrong = [ones(bad, &[4, 5, 5, 5]), weight];
            bad.add(
                wrong,
                Params::new(),
                "x has shape [4, 5, 5, 5], expected [images, channels, depth, height, width]",
            );
            let ints = bad.ones(&[6, 4, 3, 3, 3], DType::I64);
            bad.add([x, ints], Params::new(), "weight has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };
}

impl Operation for Conv3d {
    fn record(&self) -> &'static Record {
        Conv3d::RECORD
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
        self.0.batch(call, |window| Box::new(Conv3d(window)))
    }
}
