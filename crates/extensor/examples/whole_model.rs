//! Numerical validation of a whole model: every parameter of a small transformer block, held against
//! differences, with forward mode and second derivatives.
//!
//! ```text
//! cargo run --release --example whole_model
//! ```

use extensor::check::{Mode, Options, check_grad};
use extensor::prelude::{Approximate, AttentionOptions, CrossEntropyOptions};
use extensor::{DType, Key, Result, Tensor, Tree, tensor};

const WIDTH: usize = 8;
const HEADS: usize = 2;
const TIME: usize = 5;

#[derive(Tree)]
struct Norm {
    gamma: Tensor,
    beta: Tensor,
}

#[derive(Tree)]
struct Block {
    before_attention: Norm,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    output: Tensor,
    before_mlp: Norm,
    up: Tensor,
    down: Tensor,
    classes: Tensor,
}

impl Norm {
    fn new(key: Key) -> Result<Norm> {
        let [a, b] = key.split();
        Ok(Norm {
            gamma: a.uniform([WIDTH], 0.5, 1.5, DType::F64)?,
            beta: b.normal([WIDTH], DType::F64)?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.layer_norm(&self.gamma, &self.beta, &[WIDTH], 1e-5)
    }
}

/// `[T, width]` as `[heads, T, width / heads]`.
fn heads(x: &Tensor) -> Result<Tensor> {
    x.reshape([TIME, HEADS, WIDTH / HEADS])?.transpose([1, 0, 2])
}

fn loss(block: &Block, x: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let seen = block.before_attention.forward(x)?;
    let part = |weight: &Tensor| heads(&seen.linear(weight, None)?);
    let (q, k, v) = (part(&block.queries)?, part(&block.keys)?, part(&block.values)?);
    let y = q.scaled_dot_product_attention(&k, &v, AttentionOptions::new().causal(true))?;
    let y = y.transpose([1, 0, 2])?.reshape([TIME, WIDTH])?;
    let x = x.add(&y.linear(&block.output, None)?)?;
    let inner = block.before_mlp.forward(&x)?.linear(&block.up, None)?.gelu(Approximate::None)?;
    let x = x.add(&inner.linear(&block.down, None)?)?;
    let options = CrossEntropyOptions::new().label_smoothing(0.1);
    x.linear(&block.classes, None)?.cross_entropy(labels, options)
}

fn main() -> Result<()> {
    let keys: [Key; 10] = Key::new(4).split();
    let matrix = |key: Key, n: usize, k: usize| key.uniform([n, k], -0.6, 0.6, DType::F64);
    let block = Block {
        before_attention: Norm::new(keys[0])?,
        queries: matrix(keys[1], WIDTH, WIDTH)?,
        keys: matrix(keys[2], WIDTH, WIDTH)?,
        values: matrix(keys[3], WIDTH, WIDTH)?,
        output: matrix(keys[4], WIDTH, WIDTH)?,
        before_mlp: Norm::new(keys[5])?,
        up: matrix(keys[6], 4 * WIDTH, WIDTH)?,
        down: matrix(keys[7], WIDTH, 4 * WIDTH)?,
        classes: matrix(keys[8], 3, WIDTH)?,
    };
    let x = keys[9].normal([TIME, WIDTH], DType::F64)?;
    let labels = tensor([0i64, 2, 1, 1, 0]);
    let f = |block: &Block| loss(block, &x, &labels);
    let options = Options { mode: Mode::Full, order: 2, ..Options::named("transformer block") };
    let report = check_grad(f, &block, &options)?;
    println!("{report}");
    assert!(report.passed());
    Ok(())
}
