//! Inputs at which operations are tested, drawn from a key.

use super::params::Params;
use crate::{DType, Key, Shape, Tensor};

/// A call at which an operation is tested, in `f64`.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its tensors (float ones are `f64`).
    pub inputs: Vec<Tensor>,
    /// Its parameters.
    pub params: Params,
    /// What is special about it.
    pub note: &'static str,
    /// Whether the operation can be differentiated there by differences: not at kinks and ties.
    pub smooth: bool,
}

/// A call that must fail.
#[derive(Clone, Debug)]
pub struct BadCall {
    /// Its tensors.
    pub inputs: Vec<Tensor>,
    /// Its parameters.
    pub params: Params,
    /// A part of the message.
    pub message: &'static str,
}

/// The shapes that elementwise operations are tested with: a scalar, an odd vector, matrices, no
/// elements at all, one element.
pub const SHAPES: [&[usize]; 6] = [&[], &[5], &[3, 4], &[2, 3, 4], &[0, 3], &[1]];

/// Pairs of shapes that broadcast.
pub const PAIRS: [(&[usize], &[usize]); 9] = [
    (&[], &[]),
    (&[3, 4], &[3, 4]),
    (&[3, 4], &[4]),
    (&[4], &[3, 4]),
    (&[3, 1, 5], &[3, 4, 5]),
    (&[3, 4], &[]),
    (&[], &[2, 3]),
    (&[2, 1, 4], &[3, 1]),
    (&[0, 3], &[3]),
];

/// Collects samples, and draws the numbers for them.
pub struct Sampler {
    key: Key,
    draws: u64,
    samples: Vec<Sample>,
}

impl Sampler {
    /// A sampler that draws from `key`.
    pub fn new(key: Key) -> Sampler {
        Sampler { key, draws: 0, samples: Vec::new() }
    }

    fn next(&mut self) -> Key {
        self.draws += 1;
        self.key.fold_in(self.draws)
    }

    /// Normally distributed numbers.
    pub fn normal(&mut self, shape: &[usize]) -> Tensor {
        made(self.next().normal(shape, DType::F64))
    }

    /// Evenly distributed numbers.
    pub fn uniform(&mut self, low: f64, high: f64, shape: &[usize]) -> Tensor {
        made(self.next().uniform(shape, low, high, DType::F64))
    }

    /// Whole numbers in `0..high`.
    pub fn integers(&mut self, high: u64, shape: &[usize]) -> Tensor {
        made(self.next().integers(shape, high))
    }

    /// True or false.
    pub fn mask(&mut self, shape: &[usize]) -> Tensor {
        let bits = self.integers(2, shape).to_f64_vec();
        made(Tensor::from_vec(bits.iter().map(|&b| b != 0.0).collect(), shape))
    }

    /// Evenly distributed numbers at least 0.05 away from every kink.
    pub fn away(&mut self, low: f64, high: f64, kinks: &[f64], shape: &[usize]) -> Tensor {
        let values = self.uniform(low, high, shape).to_f64_vec();
        let pushed = values.into_iter().map(|x| {
            let near = kinks.iter().find(|&&k| (x - k).abs() < 0.05);
            near.map_or(x, |&k| if x >= k { k + 0.05 + (x - k) } else { k - 0.05 + (x - k) })
        });
        made(Tensor::from_vec(pushed.collect(), shape))
    }

    /// Numbers in random order that are at least 0.05 apart from each other.
    pub fn apart(&mut self, shape: &[usize]) -> Tensor {
        let len = made_len(shape);
        let noise = self.uniform(-0.01, 0.01, &[len]).to_f64_vec();
        let order = self.uniform(0.0, 1.0, &[len]).to_f64_vec();
        let mut ranks: Vec<usize> = (0..len).collect();
        ranks.sort_by(|&a, &b| order[a].total_cmp(&order[b]));
        let middle = len as f64 / 2.0 - 0.5;
        let value = |i: usize| (ranks[i] as f64 - middle) * 0.075 + noise[i] + 0.0123;
        made(Tensor::from_vec((0..len).map(value).collect(), shape))
    }

    /// Adds a sample.
    pub fn add(&mut self, inputs: impl Into<Vec<Tensor>>, params: Params) {
        self.samples.push(Sample { inputs: inputs.into(), params, note: "", smooth: true });
    }

    /// Adds a sample with something special about it.
    pub fn add_noted(
        &mut self,
        inputs: impl Into<Vec<Tensor>>,
        params: Params,
        note: &'static str,
    ) {
        self.samples.push(Sample { inputs: inputs.into(), params, note, smooth: true });
    }

    /// Adds a sample at a kink, a tie or a singular point, where differences say nothing: the
    /// operation must run there, in every dtype and layout, and its gradient be finite.
    pub fn add_kink(&mut self, inputs: impl Into<Vec<Tensor>>, params: Params, note: &'static str) {
        self.samples.push(Sample { inputs: inputs.into(), params, note, smooth: false });
    }

    /// What was added.
    pub fn finish(self) -> Vec<Sample> {
        self.samples
    }
}

/// Collects calls that must fail.
#[derive(Default)]
pub struct Bad {
    calls: Vec<BadCall>,
}

impl Bad {
    /// Adds a call whose error message must contain `message`.
    pub fn add(&mut self, inputs: impl Into<Vec<Tensor>>, params: Params, message: &'static str) {
        self.calls.push(BadCall { inputs: inputs.into(), params, message });
    }

    /// A tensor of ones, for calls in which only the shape matters.
    pub fn ones(&self, shape: &[usize], dtype: DType) -> Tensor {
        made(Tensor::ones(shape, dtype))
    }

    /// What was added.
    pub fn finish(self) -> Vec<BadCall> {
        self.calls
    }
}

/// Samples are written by whoever writes the operation: their own shapes are right.
fn made(tensor: crate::Result<Tensor>) -> Tensor {
    match tensor {
        Ok(tensor) => tensor,
        Err(error) => panic!("a sample cannot be made: {error}"),
    }
}

fn made_len(shape: &[usize]) -> usize {
    Shape::from(shape).iter().product()
}
