//! Two spirals told apart by a network of one's own: a struct of layers, a loss, an optimiser, and a
//! loop that one can read. Its gradient is proved before the first step.

use extensor::check::Options;
use extensor::io;
use extensor::nn::{LayerNorm, Linear, class_loss};
use extensor::optim::{AdamW, Schedule};
use extensor::prelude::*;

#[derive(Tree, Clone)]
struct Network {
    first: Linear,
    norm: LayerNorm,
    second: Linear,
    last: Linear,
}

impl Network {
    fn new(key: Key) -> Result<Network> {
        let [a, b, c] = key.split();
        Ok(Network {
            first: Linear::new(a, 2, 32)?,
            norm: LayerNorm::new([32])?,
            second: Linear::new(b, 32, 32)?,
            last: Linear::new(c, 32, 2)?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.norm.forward(&self.first.forward(x)?)?.gelu(Approximate::None)?;
        self.last.forward(&self.second.forward(&x)?.gelu(Approximate::None)?)
    }
}

/// Points on two spirals, and which of them each is on.
fn spirals(count: usize) -> (Tensor, Tensor) {
    let point = |i: usize| {
        let t = (i / 2) as f32 / (count / 2) as f32;
        let angle = 9.0 * t + std::f32::consts::PI * (i % 2) as f32;
        [t * angle.cos(), t * angle.sin()]
    };
    let points: Vec<[f32; 2]> = (0..count).map(point).collect();
    let labels: Vec<i64> = (0..count as i64).map(|i| i % 2).collect();
    (tensor(points), tensor(labels))
}

fn main() -> Result<()> {
    let (x, labels) = spirals(400);
    let mut model = Network::new(Key::new(1))?;
    let loss = |model: &Network| class_loss(&model.forward(&x)?, &labels, 0.0);

    let few = (x.slice(0, 0, 8, 1)?, labels.slice(0, 0, 8, 1)?);
    let small = |model: &Network| class_loss(&model.forward(&few.0)?, &few.1, 0.0);
    println!("{}", check_grad(small, &model, &Options::named("two spirals"))?);

    let optimizer = AdamW::new(1e-2).weight_decay(1e-3).clip_norm(1.0);
    let schedule = Schedule::cosine(1e-2, 600, 0.0)?.warm_up(50, 0.0)?;
    let mut state = optimizer.init(&model)?;
    for step in 0..600 {
        let (value, grads) = value_and_grad(loss, &model)?;
        (model, state) = optimizer.update_with(schedule.lr(step), model, &grads, state)?;
        if step % 150 == 0 || step == 599 {
            let right = model.forward(&x)?.argmax(1)?.equal(&labels)?;
            let right = right.cast(DType::F32)?.mean(..)?.item::<f32>()?;
            println!(
                "step {step:3}  loss {:.4}  right {:.1} %",
                value.item::<f32>()?,
                100.0 * right
            );
        }
    }
    let path = std::env::temp_dir().join("two-spirals.safetensors");
    io::safetensors::save(&path, &model, &Default::default())?;
    let again = io::safetensors::load(&path)?.into_tree(&Network::new(Key::new(2))?)?;
    assert_eq!(again.forward(&x)?.to_vec::<f32>()?, model.forward(&x)?.to_vec::<f32>()?);
    println!("saved and read back: the same logits to the last bit");
    Ok(())
}
