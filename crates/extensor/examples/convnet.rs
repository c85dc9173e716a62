//! A convolutional network, differentiated by hand with the explicit backward functions and by
//! `grad`: the same bits.
//!
//! ```text
//! cargo run --release --example convnet
//! ```

use extensor::autodiff::leaves;
use extensor::ops::{conv2d_backward, cross_entropy_backward, linear_backward};
use extensor::ops::{maxpool2d_backward, relu_backward};
use extensor::prelude::*;

#[derive(Tree)]
struct ConvNet {
    filters: Tensor,
    offsets: Tensor,
    weight: Tensor,
    bias: Tensor,
}

fn loss(net: &ConvNet, x: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let seen = x.conv2d(&net.filters, &net.offsets, ConvOptions::new().padding(1))?.relu()?;
    let pooled = seen.maxpool2d(2)?.flatten(1, -1)?;
    pooled.linear(&net.weight, &net.bias)?.cross_entropy(labels, Reduce::Mean)
}

/// The same with every step of the backward pass written down.
fn by_hand(net: &ConvNet, x: &Tensor, labels: &Tensor) -> Result<(Tensor, ConvNet)> {
    let options = ConvOptions::new().padding(1);
    let convolved = x.conv2d(&net.filters, &net.offsets, options)?;
    let seen = convolved.relu()?;
    let (pooled, indices) = seen.maxpool2d_with_indices(2)?;
    let flat = pooled.flatten(1, -1)?;
    let logits = flat.linear(&net.weight, &net.bias)?;
    let loss = logits.cross_entropy(labels, Reduce::Mean)?;

    let one = tensor(1f32);
    let (d_logits, _) = cross_entropy_backward(&one, &logits, labels, Reduce::Mean)?;
    let (d_flat, weight, bias) = linear_backward(&d_logits, &flat, &net.weight)?;
    let d_pooled = d_flat.reshape(pooled.shape())?;
    let d_seen = maxpool2d_backward(&d_pooled, &indices, seen.shape(), 2)?;
    let d_convolved = relu_backward(&d_seen, &convolved)?;
    let (_, filters, offsets) = conv2d_backward(&d_convolved, x, &net.filters, options)?;
    Ok((loss, ConvNet { filters, offsets, weight, bias }))
}

fn main() -> Result<()> {
    let [a, b, c] = Key::new(2).split();
    let net = ConvNet {
        filters: a.uniform([8, 3, 3, 3], -0.2, 0.2, DType::F32)?,
        offsets: Tensor::zeros([8], DType::F32)?,
        weight: b.uniform([10, 8 * 8 * 8], -0.05, 0.05, DType::F32)?,
        bias: Tensor::zeros([10], DType::F32)?,
    };
    let x = c.normal([32, 3, 16, 16], DType::F32)?;
    let labels: Vec<i64> = (0..32).map(|i| i % 10).collect();
    let labels = tensor(labels.as_slice());

    let (by_hand_loss, by_hand) = by_hand(&net, &x, &labels)?;
    let (loss, grads) = value_and_grad(|net: &ConvNet| loss(net, &x, &labels), &net)?;
    println!("loss {:.6} by hand, {:.6} by grad", by_hand_loss.item::<f32>()?, loss.item::<f32>()?);
    let mut compared = 0;
    for (ours, theirs) in leaves(&grads).into_iter().zip(leaves(&by_hand)) {
        assert_eq!(ours.to_vec::<f32>()?, theirs.to_vec::<f32>()?);
        compared += ours.len();
    }
    println!("{compared} gradients by hand and by grad: equal to the last bit");
    Ok(())
}
