//! Operations of networks, forward and backward, as one step of training calls them.

use crate::work::{Workload, made, random};
use extensor::ops::{Approximate, AttentionOptions, BatchNormOptions, Conv3dOptions, ConvOptions};
use extensor::ops::{InterpolateOptions, Interpolation};
use extensor::{Result, Tensor, tensor};
use std::hint::black_box;

/// All of them.
pub fn all() -> Vec<Workload> {
    let (x, g) = (random(1, &[4096, 1024]), random(2, &[4096, 1024]));
    let (gamma, beta) = (random(3, &[1024]), random(4, &[1024]));
    let image = random(5, &[32, 64, 32, 32]);
    let filters = random(6, &[128, 64, 3, 3]);
    let (out, same) = (random(7, &[32, 128, 32, 32]), random(8, &[32, 64, 32, 32]));
    let each = random(9, &[64, 1, 3, 3]);
    let (weight, bias) = (random(10, &[64]), random(11, &[64]));
    let heads = |seed| random(seed, &[12, 4, 256, 64]);
    let (q, k, v, grad) = (heads(12), heads(13), heads(14), heads(15));
    let (wide, planes) = (random(16, &[1 << 24]), image.clone());
    let labels: Vec<i64> = (0..4096).map(|i| i * 37 % 1024).collect();
    let labels = tensor(labels.as_slice());
    let sixteen = random(17, &[32, 64, 16, 16]);
    let (clip, boxes) = (random(18, &[4, 32, 16, 28, 28]), random(19, &[64, 32, 3, 3, 3]));
    let (features, twice) = (random(20, &[4, 64, 16, 28, 28]), random(21, &[32, 64, 64, 64]));
    vec![
        one("gelu", move || {
            extensor::ops::gelu(&wide, Approximate::None).map(|y| drop(black_box(y)))
        }),
        both("relu_fb", &x, &g, |x, g| {
            Ok((extensor::ops::relu(x)?, extensor::ops::relu_backward(g, x)?))
        }),
        both("tanh_fb", &x, &g, |x, g| {
            let y = extensor::ops::tanh(x)?;
            let dx = extensor::ops::tanh_backward(g, &y)?;
            Ok((y, dx))
        }),
        both("gelu_fb", &x, &g, |x, g| {
            Ok((
                extensor::ops::gelu(x, Approximate::None)?,
                extensor::ops::gelu_backward(g, x, Approximate::None)?,
            ))
        }),
        both("softmax_fb", &x, &g, |x, g| {
            let y = extensor::ops::softmax(x, -1)?;
            let dx = extensor::ops::softmax_backward(g, &y, -1)?;
            Ok((y, dx))
        }),
        both("layer_norm_fb", &x, &g, move |x, g| {
            let y = extensor::ops::layer_norm(x, Some(&gamma), Some(&beta), &[1024], 1e-5)?;
            let grads = extensor::ops::layer_norm_backward(g, x, Some(&gamma), &[1024], 1e-5)?;
            Ok((y, grads))
        }),
        one("cross_entropy_fb", {
            let x = x.clone();
            move || {
                let reduce = extensor::ops::Reduce::Mean;
                let y = extensor::ops::cross_entropy(&x, &labels, reduce)?;
                let one = tensor(1f32);
                let grads = extensor::ops::cross_entropy_backward(&one, &x, &labels, reduce)?;
                drop(black_box((y, grads)));
                Ok(())
            }
        }),
        both("conv2d_fb", &image, &out, move |x, g| {
            let y = extensor::ops::conv2d(x, &filters, None, ConvOptions::new().padding(1))?;
            Ok((y, extensor::ops::conv2d_backward(g, x, &filters, ConvOptions::new().padding(1))?))
        }),
        both("depthwise_fb", &image, &same, move |x, g| {
            let y =
                extensor::ops::conv2d(x, &each, None, ConvOptions::new().padding(1).groups(64))?;
            Ok((
                y,
                extensor::ops::conv2d_backward(
                    g,
                    x,
                    &each,
                    ConvOptions::new().padding(1).groups(64),
                )?,
            ))
        }),
        both("batch_norm_fb", &image, &same, move |x, g| {
            let y = extensor::ops::batch_norm2d(
                x,
                &weight,
                &bias,
                BatchNormOptions::new().momentum(0.1).eps(1e-5),
            )?;
            let saved = (&y.saved_mean, &y.saved_rstd);
            let grads = extensor::ops::batch_norm2d_backward(
                g,
                x,
                &weight,
                saved.0,
                saved.1,
                BatchNormOptions::new().training(true),
            )?;
            Ok((y, grads))
        }),
        both("maxpool_fb", &planes, &sixteen, |x, g| {
            let (y, indices) = extensor::ops::maxpool2d_with_indices(x, 2)?;
            let dx = extensor::ops::maxpool2d_backward(g, &indices, x.shape(), 2)?;
            Ok((y, dx))
        }),
        both("conv3d_fb", &clip, &features, move |x, g| {
            let options = Conv3dOptions::new().padding(1);
            let y = extensor::ops::conv3d(x, &boxes, None, options)?;
            Ok((y, extensor::ops::conv3d_backward(g, x, &boxes, options)?))
        }),
        both("bilinear_fb", &image, &twice, |x, g| {
            let options = || InterpolateOptions::new().size([64, 64]).mode(Interpolation::Linear);
            let y = extensor::ops::interpolate(x, options())?;
            Ok((y, extensor::ops::interpolate_backward(g, x.shape(), options())?))
        }),
        one("attention_fb", move || {
            let (y, sums) = extensor::ops::scaled_dot_product_attention_with_logsumexp(
                &q,
                &k,
                &v,
                AttentionOptions::new().causal(true),
            )?;
            let grads = extensor::ops::scaled_dot_product_attention_backward(
                &grad,
                [&q, &k, &v],
                [&y, &sums],
                AttentionOptions::new().causal(true),
            )?;
            drop(black_box((y, grads)));
            Ok(())
        }),
    ]
}

fn one(name: &str, mut work: impl FnMut() -> Result<()> + 'static) -> Workload {
    Workload::new(name, move || made(work()))
}

/// A function and its gradient, of an input and the gradient of the output.
fn both<T>(
    name: &str,
    x: &Tensor,
    g: &Tensor,
    work: impl Fn(&Tensor, &Tensor) -> Result<T> + 'static,
) -> Workload {
    let (x, g) = (x.clone(), g.clone());
    one(name, move || work(&x, &g).map(|results| drop(black_box(results))))
}
