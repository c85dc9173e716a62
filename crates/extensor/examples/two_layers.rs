//! A network of two layers, differentiated by hand with the explicit backward functions and by
//! `grad`: the same bits.
//!
//! ```text
//! cargo run --release --example two_layers
//! ```

use extensor::autodiff::leaves;
use extensor::ops::{cross_entropy_backward, linear_backward, tanh_backward};
use extensor::prelude::*;

#[derive(Tree)]
struct Network {
    first: Layer,
    second: Layer,
}

#[derive(Tree)]
struct Layer {
    weight: Tensor,
    bias: Tensor,
}

impl Layer {
    fn new(key: Key, outputs: usize, inputs: usize) -> Result<Layer> {
        let bound = 1.0 / (inputs as f64).sqrt();
        Ok(Layer {
            weight: key.uniform([outputs, inputs], -bound, bound, DType::F32)?,
            bias: Tensor::zeros([outputs], DType::F32)?,
        })
    }
}

fn loss(network: &Network, x: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let Network { first, second } = network;
    let hidden = x.linear(&first.weight, &first.bias)?.tanh()?;
    hidden.linear(&second.weight, &second.bias)?.cross_entropy(labels, Reduce::Mean)
}

/// The same with every step of the backward pass written down.
fn by_hand(network: &Network, x: &Tensor, labels: &Tensor) -> Result<(Tensor, Network)> {
    let hidden = x.linear(&network.first.weight, &network.first.bias)?.tanh()?;
    let logits = hidden.linear(&network.second.weight, &network.second.bias)?;
    let loss = logits.cross_entropy(labels, Reduce::Mean)?;

    let one = tensor(1f32);
    let (d_logits, _) = cross_entropy_backward(&one, &logits, labels, Reduce::Mean)?;
    let (d_hidden, weight, bias) = linear_backward(&d_logits, &hidden, &network.second.weight)?;
    let second = Layer { weight, bias };
    let d_sum = tanh_backward(&d_hidden, &hidden)?;
    let (_, weight, bias) = linear_backward(&d_sum, x, &network.first.weight)?;
    let first = Layer { weight, bias };
    Ok((loss, Network { first, second }))
}

fn main() -> Result<()> {
    let [a, b, c] = Key::new(1).split();
    let network = Network { first: Layer::new(a, 32, 20)?, second: Layer::new(b, 5, 32)? };
    let x = c.normal([64, 20], DType::F32)?;
    let labels: Vec<i64> = (0..64).map(|i| i % 5).collect();
    let labels = tensor(labels.as_slice());

    let (by_hand_loss, by_hand) = by_hand(&network, &x, &labels)?;
    let (loss, grads) = value_and_grad(|n: &Network| loss(n, &x, &labels), &network)?;
    println!("loss {:.6} by hand, {:.6} by grad", by_hand_loss.item::<f32>()?, loss.item::<f32>()?);
    let mut compared = 0;
    for (ours, theirs) in leaves(&grads).into_iter().zip(leaves(&by_hand)) {
        assert_eq!(ours.to_vec::<f32>()?, theirs.to_vec::<f32>()?);
        compared += ours.len();
    }
    println!("{compared} gradients by hand and by grad: equal to the last bit");
    Ok(())
}
