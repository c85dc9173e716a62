//! Random numbers from a key. They depend on the key and on an element's number alone, so that every
//! executor draws the same.

use super::{Call, Kernel, Kind};
use crate::Result;
use crate::tensor::{from_f64, match_float};
use extensor_kernels::masked::random_mask;
use extensor_kernels::par::parallel_chunks;
use extensor_kernels::random::{normal_pair, philox, unit, words};
use std::sync::Arc;

/// Numbers drawn from the stream that the key names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    /// `None`: it is the number of the input.
    pub key: Option<u64>,
    pub drawn: Drawn,
}

/// How the numbers are distributed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drawn {
    /// Floats evenly in `[low, high)`; `below` is the largest number of the dtype below `high`.
    Uniform { low: f64, high: f64, below: f64 },
    /// Floats normally, with mean 0 and variance 1.
    Normal,
    /// Whole numbers evenly in `0..high`, as `i64`.
    Integers { high: u64 },
    /// A mask that is true, but for a share `p`.
    Mask { p: f64 },
    /// The seed of another key, derived from this one.
    Key { index: u64 },
}

/// The seed of key number `index` derived from a key.
pub(crate) fn derived(key: u64, index: u64) -> u64 {
    // The upper half of the counter keeps derived keys apart from drawn numbers.
    let [a, b, ..] = philox(key, (1u128 << 64) | u128::from(index));
    u64::from(a) << 32 | u64::from(b)
}

impl Kernel for Random {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let key = self.key.unwrap_or_else(|| call.inputs[0].row_major::<u64>()[0]);
        match self.drawn {
            Drawn::Uniform { low, high, below } => floats(key, &mut call, |w| {
                w.map(|w| low + (high - low) * unit(w))
                    .map(|x| if x >= high { below } else { x.min(below) })
            }),
            Drawn::Normal => floats(key, &mut call, normal_pair),
            Drawn::Integers { high } => {
                fill(key, call.out(), |w| {
                    w.map(|w| ((u128::from(w) * u128::from(high)) >> 64) as i64)
                });
                Ok(())
            }
            Drawn::Mask { p } => {
                random_mask(key, p, call.out());
                Ok(())
            }
            Drawn::Key { index } => {
                call.out::<u64>()[0] = derived(key, index);
                Ok(())
            }
        }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Random(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

/// Floats, rounded from the same values in every dtype.
fn floats(
    key: u64,
    call: &mut Call<'_, '_>,
    pair: impl Fn([u64; 2]) -> [f64; 2] + Sync,
) -> Result<()> {
    match_float!(call.dtype(), T => {
        fill(key, call.out(), |w| pair(w).map(from_f64::<T>));
        Ok(())
    }, else call.wrong("the result", "a float type (f16, bf16, f32, f64)", call.dtype()))
}

/// Elements `2i` and `2i + 1` come from block `i`.
fn fill<T: Copy + Send>(key: u64, out: &mut [T], pair: impl Fn([u64; 2]) -> [T; 2] + Sync) {
    parallel_chunks(out, 16 * 1024, &|start, part| {
        for (i, out) in part.chunks_mut(2).enumerate() {
            let values = pair(words(key, (start / 2 + i) as u64));
            out.copy_from_slice(&values[..out.len()]);
        }
    });
}
