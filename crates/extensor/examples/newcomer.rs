//! A convolutional network with batch norm, trained in a loop of one's own; an activation with a
//! backward function of one's own; and the curvature of the loss along its gradient.

use extensor::autodiff::custom_vjp;
use extensor::gradients::global_norm;
use extensor::nn::Sequential;
use extensor::optim::AdamW;
use extensor::prelude::*;

/// x/(1 + |x|), with its derivative, (1 − |y|)², taken from the result.
fn bounded(x: &Tensor) -> Result<Tensor> {
    let forward = |x: &Tensor| x.softsign().map(|y| (y.clone(), y));
    custom_vjp(forward, |y: &Tensor, g: &Tensor| g.multiply(&(1.0 - y.abs()?).square()?))(x)
}

fn main() -> Result<()> {
    let [a, b] = Key::new(1).split();
    let x = b.normal([64, 1, 8, 8], DType::F32)?;
    let labels = x.mean([1, 2, 3])?.greater(&tensor(0f32))?.cast(DType::I64)?;
    let net = Sequential::builder(a)
        .conv2d(1, 8, 3)
        .batch_norm2d(8)
        .function(bounded)
        .maxpool2d(2)
        .flatten()
        .linear(8 * 3 * 3, 2)
        .build()?;
    println!("{net}");

    let loss = |net: &Sequential, mode: &Mode| {
        net.forward(&x, mode)?.loss(|y| y.cross_entropy(&labels, Reduce::Mean))
    };
    let mut trainer = Trainer::new(net, AdamW::new(1e-2))?;
    for step in 1..=60 {
        let value = trainer.step(loss)?;
        println!("step {step}  loss {value:.4}");
    }

    let loss = |net: &Sequential| Ok(loss(net, &Mode::Inference)?.0);
    let gradient = grad(loss, trainer.model())?;
    let product = hvp(loss, trainer.model(), &gradient)?;
    println!("|g| = {}, |Hg| = {}", global_norm(&gradient)?, global_norm(&product)?);
    Ok(())
}
