//! Inputs at which operations are tested, drawn from a key.

use super::params::Params;
use crate::tensor::unravel;
use crate::{Axes, DType, Key, Shape, Tensor};
use std::collections::BTreeMap;

/// A call at which an operation is tested, in `f64`.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its tensors (float ones are `f64`).
    pub inputs: Vec<Tensor>,
    /// Its parameters.
    pub params: Params,
    /// What is special about it.
    pub note: &'static str,
    /// Whether the operation can be differentiated there: not at kinks (see
    /// [`Record::kinks`](super::record::Record::kinks)).
    pub smooth: bool,
    /// Whether its numbers are so large, or so alike, that a derivative may be too small for
    /// differences to measure: they must not contradict it there, but need not confirm it.
    pub far: bool,
    /// Whether it exercises how large arrays are worked on, and is too large for more than
    /// projections.
    pub large: bool,
}

impl Sample {
    /// Whether a number of this input is one of these.
    pub fn holds(&self, input: usize, values: &[f64]) -> bool {
        self.any(input, |x| values.contains(&x))
    }

    /// Whether a number of this input satisfies a condition.
    pub fn any(&self, input: usize, such: impl Fn(f64) -> bool) -> bool {
        self.inputs[input].to_f64_vec().into_iter().any(such)
    }

    /// Whether a pair of numbers that meet when the two inputs are broadcast satisfies a condition.
    pub fn meet(&self, [a, b]: [usize; 2], such: impl Fn(f64, f64) -> bool) -> bool {
        let (a, b) = (&self.inputs[a], &self.inputs[b]);
        let shape = made(crate::tensor::broadcast("samples", a.shape(), b.shape()));
        let wide = |x: &Tensor| made(crate::ops::broadcast_to(x, &shape)).to_f64_vec();
        wide(a).into_iter().zip(wide(b)).any(|(a, b)| such(a, b))
    }

    /// The numbers of the first input that lie along these axes together.
    pub fn groups(&self, axes: &Axes) -> Vec<Vec<f64>> {
        let x = &self.inputs[0];
        let mask = made(axes.mask("samples", x.ndim()));
        let mut groups: BTreeMap<Vec<usize>, Vec<f64>> = BTreeMap::new();
        for (at, value) in x.to_f64_vec().into_iter().enumerate() {
            let index = unravel(at, x.shape()).into_iter().zip(&mask);
            let group = index.map(|(i, &within)| if within { 0 } else { i }).collect();
            groups.entry(group).or_default().push(value);
        }
        groups.into_values().collect()
    }

    /// The numbers of the first input that are reduced to one, as the parameter `axis` says.
    pub fn reduced(&self) -> Vec<Vec<f64>> {
        self.groups(&made(self.params.axes("samples", "axis")))
    }

    /// The value of a parameter that is a list of whole numbers.
    pub fn whole_numbers(&self, parameter: &'static str) -> Vec<i64> {
        made(self.params.ints("samples", parameter))
    }

    /// The value of a parameter that is a number, or its default.
    pub fn number(&self, parameter: &'static str, default: f64) -> f64 {
        made(self.params.float("samples", parameter, default))
    }
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

/// More numbers than kernels take in one piece.
pub const LARGE: usize = 66_000;

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

    /// Numbers of about 1e-9, of either sign, that are not close together.
    pub fn tiny(&mut self, shape: &[usize]) -> Tensor {
        let x = self.apart(shape).to_f64_vec();
        made(Tensor::from_vec(x.into_iter().map(|v| v * 1e-8).collect(), shape))
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
        self.add_noted(inputs, params, "");
    }

    /// Adds a sample with something special about it.
    pub fn add_noted(
        &mut self,
        inputs: impl Into<Vec<Tensor>>,
        params: Params,
        note: &'static str,
    ) {
        self.push(inputs.into(), params, note, [false, false]);
    }

    /// Adds a sample far out, where little or nothing is left of a derivative.
    pub fn add_far(&mut self, inputs: impl Into<Vec<Tensor>>, params: Params, note: &'static str) {
        self.push(inputs.into(), params, note, [true, false]);
    }

    /// Adds a sample so large that kernels do it in blocks, or on several threads. Only projections
    /// are taken of it.
    pub fn add_large(
        &mut self,
        inputs: impl Into<Vec<Tensor>>,
        params: Params,
        note: &'static str,
    ) {
        self.push(inputs.into(), params, note, [false, true]);
    }

    fn push(
        &mut self,
        inputs: Vec<Tensor>,
        params: Params,
        note: &'static str,
        [far, large]: [bool; 2],
    ) {
        self.samples.push(Sample { inputs, params, note, smooth: true, far, large });
    }

    /// What was added.
    pub fn finish(self) -> Vec<Sample> {
        self.samples
    }
}

/// Draws samples of a function of one number from an interval, away from its kinks: with each of the
/// settings of its parameters, and with the defaults, whose kinks are `kinks`.
pub(crate) fn draw(
    s: &mut Sampler,
    [low, high]: [f64; 2],
    kinks: &[f64],
    settings: &[(Params, Vec<f64>)],
) {
    let default = (Params::new(), kinks.to_vec());
    let (params, kinks) = settings.first().unwrap_or(&default);
    for shape in SHAPES {
        let x = s.away(low, high, kinks, shape);
        s.add([x], params.clone());
    }
    for (params, kinks) in settings {
        let x = s.away(low, high, kinks, &[3, 4]);
        s.add([x], params.clone());
    }
    if !settings.is_empty() {
        let x = s.away(low, high, &default.1, &[7]);
        s.add_noted([x], default.0.clone(), "the default");
    }
    let x = s.away(low, high, kinks, &[LARGE]);
    s.add_large([x], params.clone(), "many numbers");
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
fn made<T>(made: crate::Result<T>) -> T {
    match made {
        Ok(made) => made,
        Err(error) => panic!("a sample cannot be made: {error}"),
    }
}

/// Whether these numbers are all the same.
pub(crate) fn all_equal(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

fn made_len(shape: &[usize]) -> usize {
    Shape::from(shape).iter().product()
}
