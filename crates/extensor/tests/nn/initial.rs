//! How parameters begin.

use extensor::nn::init::{self, Fan, Nonlinearity};
use extensor::nn::models::{Gpt, GptConfig, ResNet};
use extensor::nn::{Conv2d, ConvTranspose2d, Embedding, Linear, MultiHeadAttention};
use extensor::ops::{ConvOptions, cast, matmul, reshape, transpose};
use extensor::{DType, Error, Key, Result, Tensor};

fn values(x: &Tensor) -> Vec<f64> {
    cast(x, DType::F64).unwrap().to_vec().unwrap()
}

fn mean_and_variance(x: &Tensor) -> (f64, f64) {
    let values = values(x);
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n)
}

/// Mean 0 and this standard deviation, as well as so many numbers can show.
#[track_caller]
fn assert_spread(x: Result<Tensor>, std: f64) -> f64 {
    let x = x.unwrap();
    let (mean, variance) = mean_and_variance(&x);
    let n = x.len() as f64;
    assert!(mean.abs() < 4.0 * std / n.sqrt(), "mean {mean}");
    let error = variance / (std * std) - 1.0;
    assert!(error.abs() < 4.0 * (2.0 / n).sqrt(), "variance {variance}, expected {}", std * std);
    values(&x).iter().fold(0f64, |a, b| a.max(b.abs()))
}

#[test]
fn random_weights_have_the_variance_that_their_formula_says() {
    let (key, dtype) = (Key::new(3), DType::F64);
    let shape = [40, 30, 3, 3]; // fans 270 and 360
    let std = 1.5 * (2f64 / 630.0).sqrt();
    let most = assert_spread(init::xavier_uniform(key, shape, 1.5, dtype), std);
    assert!((0.99..=1.0).contains(&(most / (3f64.sqrt() * std))));
    let most = assert_spread(init::xavier_normal(key, shape, 1.5, dtype), std);
    assert!(most > 3.0 * std);
    for (fan, size) in [(Fan::In, 270f64), (Fan::Out, 360.0)] {
        let gain = Nonlinearity::Relu.gain();
        let std = (2.0 / size).sqrt();
        let most = assert_spread(init::kaiming_uniform(key, shape, fan, gain, dtype), std);
        assert!((0.99..=1.0).contains(&(most / (3f64.sqrt() * std))));
        let most = assert_spread(init::kaiming_normal(key, shape, fan, gain, dtype), std);
        assert!(most > 3.0 * std);
    }
    let gain = Nonlinearity::LeakyRelu(5f64.sqrt()).gain();
    let theirs = init::kaiming_uniform(key, shape, Fan::In, gain, dtype).unwrap();
    let bound = values(&theirs).iter().fold(0f64, |a, b| a.max(b.abs()));
    assert!((0.99..=1.0).contains(&(bound * 270f64.sqrt())), "the layers' own distribution");
}

#[test]
fn orthogonal_weights_have_orthonormal_rows_or_columns() {
    for shape in [&[7, 20][..], &[20, 7], &[9, 9], &[6, 3, 2, 2], &[1, 4]] {
        let w = init::orthogonal(Key::new(2), shape, 2.0, DType::F64).unwrap();
        assert_eq!(w.shape()[..], *shape);
        let matrix = reshape(&w, [shape[0] as i64, -1]).unwrap();
        let turned = transpose(&matrix, None).unwrap();
        let few = matrix.shape()[0] <= matrix.shape()[1];
        let product = if few { matmul(&matrix, &turned) } else { matmul(&turned, &matrix) };
        let product = product.unwrap();
        let size = product.shape()[0];
        for (i, x) in values(&product).into_iter().enumerate() {
            let wanted = if i / size == i % size { 4.0 } else { 0.0 };
            assert!((x - wanted).abs() < 1e-13, "{shape:?}: {x} at {i}");
        }
    }
    // Of all orthogonal matrices alike: no sign is preferred.
    let corner = |i| {
        let w = init::orthogonal(Key::new(i), [3, 3], 1.0, DType::F64).unwrap();
        w.get::<f64>(&[2, 2]).unwrap()
    };
    let corners: Vec<f64> = (0..400).map(corner).collect();
    let mean = corners.iter().sum::<f64>() / 400.0;
    let square = corners.iter().map(|c| c * c).sum::<f64>() / 400.0;
    assert!(mean.abs() < 0.12 && (square - 1.0 / 3.0).abs() < 0.07, "{mean}, {square}");
}

/// Mean and variance of a standard normal distribution between two bounds, by summing its density.
fn truncated(low: f64, high: f64) -> (f64, f64) {
    let steps = 100_000;
    let width = (high - low) / f64::from(steps);
    let mut sums = [0.0; 3];
    for i in 0..steps {
        let x = low + (f64::from(i) + 0.5) * width;
        let density = (-x * x / 2.0).exp();
        sums[0] += density;
        sums[1] += density * x;
        sums[2] += density * x * x;
    }
    let mean = sums[1] / sums[0];
    (mean, sums[2] / sums[0] - mean * mean)
}

#[test]
fn truncated_normal_numbers_have_the_mean_and_variance_of_what_is_left() {
    let infinite = f64::INFINITY;
    for (low, high) in [(-2.0, 2.0), (-0.5, 0.3), (0.0, 3.0), (1.0, 1.5), (2.5, infinite)] {
        let n = 40_000;
        let (key, dtype) = (Key::new(4), DType::F64);
        let (a, b) = (10.0 + 2.0 * low, 10.0 + 2.0 * high);
        let drawn = init::truncated_normal(key, [n], 10.0, 2.0, a..=b, dtype).unwrap();
        assert!(values(&drawn).iter().all(|x| (a..=b).contains(x)), "{low}..{high}");
        let (mean, variance) = mean_and_variance(&drawn);
        let (wanted, spread) = truncated(low, high.min(12.0));
        let slack = 4.0 * (spread / n as f64).sqrt();
        assert!(((mean - 10.0) / 2.0 - wanted).abs() < slack, "{low}..{high}: mean {mean}");
        assert!((variance / 4.0 / spread - 1.0).abs() < 0.05, "{low}..{high}: variance {variance}");
    }
}

#[test]
fn layers_begin_as_pytorchs_do() {
    let key = Key::new(6);
    let even = |std: f64| 3f64.sqrt() * std;
    let assert_even = |x: &Tensor, bound: f64| {
        let most = assert_spread(Ok(x.clone()), bound / 3f64.sqrt());
        assert!((0.9..=1.0001).contains(&(most / bound)), "{most} of {bound}");
    };
    let layer = Linear::new(key, 100, 300).unwrap();
    assert_even(&layer.weight, 0.1);
    assert_even(&layer.bias.unwrap(), 0.1);
    let options = ConvOptions::new().groups(2);
    let layer = Conv2d::with(key, 50, 200, 2, options).unwrap();
    assert_even(&layer.weight, 0.1);
    assert_even(&layer.bias.unwrap(), 0.1);
    let layer = ConvTranspose2d::with(key, 200, 50, 2, options).unwrap();
    assert_even(&layer.weight, 0.1);
    assert_spread(Ok(Embedding::new(key, 100, 40).unwrap().weight), 1.0);
    let layer = MultiHeadAttention::new(key, 64, 4).unwrap();
    assert_even(&layer.in_proj_weight, even((2f64 / 256.0).sqrt()));
    assert_even(&layer.out_proj.weight, 1.0 / 8.0);
    for bias in [layer.in_proj_bias.unwrap(), layer.out_proj.bias.unwrap()] {
        assert!(values(&bias).iter().all(|x| *x == 0.0));
    }
}

#[test]
fn models_begin_as_their_authors_say() {
    let model = Gpt::new(Key::new(1), GptConfig::default()).unwrap();
    assert_spread(Ok(model.tokens.weight.clone()), 0.02);
    assert_spread(Ok(model.head.weight.clone()), 0.02);
    let block = &model.blocks[1];
    assert_spread(Ok(block.attention.in_proj_weight.clone()), 0.02);
    assert_spread(Ok(block.fc1.weight.clone()), 0.02);
    assert_spread(Ok(block.fc2.weight.clone()), 0.02 / 8f64.sqrt());
    assert_spread(Ok(block.attention.out_proj.weight.clone()), 0.02 / 8f64.sqrt());
    let model = ResNet::new(Key::new(1), 3, 10, 1).unwrap();
    assert_spread(Ok(model.layer3[0].conv2.weight.clone()), (2f64 / (64.0 * 9.0)).sqrt());
}

#[test]
fn the_same_key_gives_the_same_weights_and_another_gives_others() {
    let weight = |seed| values(&Linear::new(Key::new(seed), 4, 3).unwrap().weight);
    assert_eq!(weight(1), weight(1));
    assert_ne!(weight(1), weight(2));
    let model = Gpt::new(Key::new(1), GptConfig::default()).unwrap();
    let [first, second] = [0, 1].map(|i| values(&model.blocks[i].fc1.weight));
    assert_ne!(first, second);
}

#[test]
fn bad_settings_are_errors_that_say_what_was_expected() {
    let (key, dtype) = (Key::new(1), DType::F32);
    let errors = [
        init::xavier_normal(key, [3], 1.0, dtype).unwrap_err(),
        init::kaiming_normal(key, [3, 4], Fan::In, f64::NAN, dtype).unwrap_err(),
        init::truncated_normal(key, [3], 0.0, 1.0, 5.0..=6.0, dtype).unwrap_err(),
        init::truncated_normal(key, [3], 0.0, 1.0, std::ops::RangeInclusive::new(2.0, 1.0), dtype)
            .unwrap_err(),
        init::orthogonal(key, [3], 1.0, dtype).unwrap_err(),
        init::fans(&[usize::MAX, usize::MAX, 2]).unwrap_err(),
    ];
    let messages = errors.map(|error| error.to_string());
    let wanted = [
        "init: shape is [3], expected [out, in, …]",
        "kaiming_normal: gain is NaN, expected a finite number that is not negative",
        "truncated_normal: low, high is 5, 6, expected to come within three standard deviations",
        "truncated_normal: mean, low, high is 0, 2, 1, expected numbers",
        "init: shape is [3], expected [out, in, …]",
        "more elements than memory can address",
    ];
    for (message, wanted) in messages.iter().zip(wanted) {
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn parameters_that_no_memory_holds_are_errors() {
    let (key, shape) = (Key::new(1), [1usize << 25, 1 << 25]);
    let found = [
        init::truncated_normal(key, shape, 0.0, 1.0, -2.0..=2.0, DType::F32),
        init::orthogonal(key, shape, 1.0, DType::F32),
        init::normal(key, shape, 0.0, 1.0, DType::F32),
    ];
    for found in found {
        assert!(matches!(found, Err(Error::OutOfMemory { .. })), "{:?}", found.err());
    }
}
