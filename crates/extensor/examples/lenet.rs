//! LeNet-5 as a struct of its own, with its training loop.

use extensor::nn::{Conv2d, Linear};
use extensor::optim::AdamW;
use extensor::prelude::*;

#[derive(Tree, Clone)]
struct LeNet {
    conv1: Conv2d,
    conv2: Conv2d,
    fc1: Linear,
    fc2: Linear,
    fc3: Linear,
}

impl LeNet {
    fn new(key: Key) -> Result<LeNet> {
        let [a, b, c, d, e] = key.split();
        Ok(LeNet {
            conv1: Conv2d::with(a, 1, 6, 5, ConvOptions::new().padding(2))?,
            conv2: Conv2d::new(b, 6, 16, 5)?,
            fc1: Linear::new(c, 400, 120)?,
            fc2: Linear::new(d, 120, 84)?,
            fc3: Linear::new(e, 84, 10)?,
        })
    }
}

impl Module for LeNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.apply(&self.conv1)?.relu()?.maxpool2d(2)?;
        let x = x.apply(&self.conv2)?.relu()?.maxpool2d(2)?;
        let x = x.flatten(1, -1)?.apply(&self.fc1)?.relu()?;
        x.apply(&self.fc2)?.relu()?.apply(&self.fc3)
    }
}

fn main() -> Result<()> {
    let [a, b] = Key::new(1).split();
    let x = a.normal([64, 1, 28, 28], DType::F32)?;
    let y = Tensor::from_vec((0..64).map(|i| i % 10).collect::<Vec<i64>>(), [64])?;
    let mut trainer = Trainer::new(LeNet::new(b)?, AdamW::new(1e-3))?;
    for step in 1..=20 {
        let loss = trainer.step(|net, _| x.apply(net)?.cross_entropy(&y, Reduce::Mean))?;
        println!("step {step}  loss {loss:.4}");
    }
    Ok(())
}
