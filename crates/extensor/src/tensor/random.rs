//! Random tensors from explicit keys.

use super::create::from_f64;
use super::{DType, Error, Result, Shape, Tensor, match_float};
use crate::exec::launch_one;
use crate::exec::random::{Drawn, Random};
use crate::ops::operation::Spec;
use extensor_kernels::random::philox;

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
    /// The key for a seed.
    pub fn new(seed: u64) -> Key {
        Key(seed)
    }

    /// The seed of this key: [`Key::new`] makes the same key from it.
    ///
    /// ```
    /// use extensor::Key;
    /// let [key, _] = Key::new(7).split();
    /// assert_eq!(Key::new(key.seed()), key);
    /// ```
    pub fn seed(self) -> u64 {
        self.0
    }

    /// `N` keys for independent streams.
    pub fn split<const N: usize>(self) -> [Key; N] {
        std::array::from_fn(|i| self.fold_in(i as u64))
    }

    /// Key number `index` derived from this one, for the steps of a loop or the layers of a model.
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
        dtype.expect_float(op, "the result")?;
        self.draw(op, shape.into(), dtype, Drawn::Uniform { low, high, below })
    }

    /// Normally distributed with mean 0 and variance 1.
    pub fn normal(self, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        dtype.expect_float("normal", "the result")?;
        self.draw("normal", shape.into(), dtype, Drawn::Normal)
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
        self.draw(op, shape.into(), DType::I64, Drawn::Integers { high })
    }

    /// True everywhere, but for a share `p` of false at random.
    pub(crate) fn mask(self, op: &'static str, shape: Shape, p: f64) -> Result<Tensor> {
        self.draw(op, shape, DType::Bool, Drawn::Mask { p })
    }

    fn draw(self, op: &'static str, shape: Shape, dtype: DType, drawn: Drawn) -> Result<Tensor> {
        launch_one(op, &Random { key: self.0, drawn }, &[], Spec { shape, dtype })
    }
}

/// The largest value of the dtype below `high`: rounding must not reach an open end.
fn below(high: f64, dtype: DType) -> f64 {
    #[allow(clippy::useless_conversion)] // f64 is one of the types
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
