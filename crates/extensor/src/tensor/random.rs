//! Random tensors from explicit keys.

use super::create::from_f64;
use super::{DType, Error, Result, Shape, Tensor, match_float};
use extensor_kernels::par::parallel_chunks;
use extensor_kernels::random::{normal_pair, philox, unit, words};

/// Names a stream of random numbers.
///
/// There is no hidden state: the same key always gives the same numbers, on every machine, for any
/// number of threads, and rounded from the same values in every dtype. Never draw twice from one
/// key; make new ones with [`split`](Key::split) or [`fold_in`](Key::fold_in).
///
/// ```
/// use extensor::{DType, Key};
///
/// let [a, b] = Key::new(7).split();
/// let x = a.normal([2, 3], DType::F32)?;
/// let y = b.uniform([2, 3], -1.0, 1.0, DType::F32)?;
/// assert_eq!(x.to_vec::<f32>()?, a.normal([2, 3], DType::F32)?.to_vec::<f32>()?);
/// assert!(y.to_vec::<f32>()?.iter().all(|v| (-1.0..1.0).contains(v)));
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The key of a seed.
    pub fn new(seed: u64) -> Key {
        Key(seed)
    }

    /// `N` keys for independent streams.
    pub fn split<const N: usize>(self) -> [Key; N] {
        std::array::from_fn(|i| self.fold_in(i as u64))
    }

    /// The key numbered `index` below this one: for a loop's steps, a model's layers.
    pub fn fold_in(self, index: u64) -> Key {
        // The upper half of the counter keeps derived keys apart from drawn numbers.
        let [a, b, ..] = philox(self.0, (1u128 << 64) | u128::from(index));
        Key(u64::from(a) << 32 | u64::from(b))
    }

    /// Evenly distributed in `[low, high)`.
    pub fn uniform(
        self,
        shape: impl Into<Shape>,
        low: f64,
        high: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        let op = "uniform";
        if !(low.is_finite() && high.is_finite() && low <= high && (high - low).is_finite()) {
            return Err(Error::Parameter {
                op,
                parameter: "low, high",
                expected: "finite numbers, the first not above the second".into(),
                got: format!("{low}, {high}"),
            });
        }
        let below = below(high, dtype).max(low);
        self.draw(op, shape.into(), dtype, move |w| {
            w.map(|w| low + (high - low) * unit(w))
                .map(|x| if x >= high { below } else { x.min(below) })
        })
    }

    /// Normally distributed with mean 0 and variance 1.
    pub fn normal(self, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        self.draw("normal", shape.into(), dtype, normal_pair)
    }

    /// Whole numbers evenly distributed in `0..high`, as `i64`.
    pub fn integers(self, shape: impl Into<Shape>, high: u64) -> Result<Tensor> {
        let op = "integers";
        if high == 0 || high > i64::MAX as u64 {
            return Err(Error::Parameter {
                op,
                parameter: "high",
                expected: "a number from 1 to 2^63 - 1".into(),
                got: high.to_string(),
            });
        }
        Tensor::build(op, shape.into(), DType::I64, |out: &mut [i64]| {
            self.fill(out, |w| {
                w.map(|w| ((u128::from(w) * u128::from(high)) >> 64) as i64)
            });
        })
    }

    fn draw(
        self,
        op: &'static str,
        shape: Shape,
        dtype: DType,
        pair: impl Fn([u64; 2]) -> [f64; 2] + Sync,
    ) -> Result<Tensor> {
        match_float!(dtype, T => Tensor::build(op, shape, dtype, |out: &mut [T]| {
            self.fill(out, |w| pair(w).map(from_f64::<T>));
        }), else {
            dtype.expect_float(op, "the result").and(Tensor::zeros(Shape::scalar(), dtype))
        })
    }

    /// Elements `2i` and `2i + 1` come from block `i`.
    fn fill<T: Copy + Send>(self, out: &mut [T], pair: impl Fn([u64; 2]) -> [T; 2] + Sync) {
        parallel_chunks(out, 16 * 1024, |start, part| {
            for (i, out) in part.chunks_mut(2).enumerate() {
                let values = pair(words(self.0, (start / 2 + i) as u64));
                out.copy_from_slice(&values[..out.len()]);
            }
        });
    }
}

/// The largest value of the dtype below `high`: rounding must not reach an open end.
fn below(high: f64, dtype: DType) -> f64 {
    let round = |x: f64| match_float!(dtype, T => f64::from(from_f64::<T>(x)), else x);
    let mut step = high.abs().max(f64::MIN_POSITIVE) * dtype.epsilon() / 4.0;
    while step > 0.0 && step.is_finite() {
        let candidate = round(high - step);
        if candidate < high {
            return candidate;
        }
        step *= 2.0;
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use extensor_kernels::par::with_threads;

    #[test]
    fn a_key_gives_the_same_numbers_for_any_number_of_threads_and_prefix() {
        let key = Key::new(3);
        let one = with_threads(1, || key.normal([100_001], DType::F64)).unwrap();
        let four = with_threads(4, || key.normal([100_001], DType::F64)).unwrap();
        let short = key.normal([7], DType::F64).unwrap();
        assert_eq!(one.to_f64_vec(), four.to_f64_vec());
        assert_eq!(one.to_f64_vec()[..7], short.to_f64_vec());
    }

    #[test]
    fn the_moments_are_those_of_the_distribution() {
        let n = 1_000_000;
        let moments = |x: &Tensor| {
            let v = x.to_f64_vec();
            let mean = v.iter().sum::<f64>() / n as f64;
            let var = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let fourth = v.iter().map(|x| (x - mean).powi(4)).sum::<f64>() / n as f64;
            (mean, var, fourth / var / var)
        };
        let (mean, var, kurtosis) = moments(&Key::new(1).normal([n], DType::F32).unwrap());
        assert!(mean.abs() < 5e-3 && (var - 1.0).abs() < 7e-3 && (kurtosis - 3.0).abs() < 0.03);
        let (mean, var, kurtosis) =
            moments(&Key::new(2).uniform([n], 0.0, 1.0, DType::F32).unwrap());
        assert!(
            (mean - 0.5).abs() < 2e-3
                && (var - 1.0 / 12.0).abs() < 5e-4
                && (kurtosis - 1.8).abs() < 0.01
        );
    }

    #[test]
    fn the_upper_end_is_never_reached_in_any_dtype() {
        for dtype in DType::FLOATS {
            let x = Key::new(9)
                .uniform([100_000], -1.0, 1.0, dtype)
                .unwrap()
                .to_f64_vec();
            assert!(x.iter().all(|&v| (-1.0..1.0).contains(&v)), "{dtype}");
        }
        assert!(Key::new(9).uniform([1], 1.0, 0.0, DType::F32).is_err());
        assert!(Key::new(9).uniform([1], 0.0, 1.0, DType::I32).is_err());
    }

    #[test]
    fn derived_keys_differ_from_each_other_and_from_their_parent() {
        let mut keys: Vec<u64> = (0..1000).map(|i| Key::new(5).fold_in(i).0).collect();
        keys.push(5);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 1001);
    }
}
