//! Random numbers from a key. They depend on the key and on an element's number alone, so that every
//! executor draws the same.

use super::{Call, Kernel, Kind};
use crate::Result;
use crate::tensor::{from_f64, match_float};
use extensor_kernels::masked::random_mask;
use extensor_kernels::par::parallel_chunks;
use extensor_kernels::random::{normal_pair, unit, words};
use std::sync::Arc;

/// Numbers drawn from the stream that the key names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    pub key: u64,
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
}

impl Kernel for Random {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        match self.drawn {
            Drawn::Uniform { low, high, below } => self.floats(&mut call, |w| {
                w.map(|w| low + (high - low) * unit(w))
                    .map(|x| if x >= high { below } else { x.min(below) })
            }),
            Drawn::Normal => self.floats(&mut call, normal_pair),
            Drawn::Integers { high } => {
                self.fill(call.out(), |w| {
                    w.map(|w| ((u128::from(w) * u128::from(high)) >> 64) as i64)
                });
                Ok(())
            }
            Drawn::Mask { p } => {
                random_mask(self.key, p, call.out());
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

impl Random {
    /// Floats, rounded from the same values in every dtype.
    fn floats(
        &self,
        call: &mut Call<'_, '_>,
        pair: impl Fn([u64; 2]) -> [f64; 2] + Sync,
    ) -> Result<()> {
        match_float!(call.dtype(), T => {
            self.fill(call.out(), |w| pair(w).map(from_f64::<T>));
            Ok(())
        }, else call.wrong("the result", "a float type (f16, bf16, f32, f64)", call.dtype()))
    }

    /// Elements `2i` and `2i + 1` come from block `i`.
    fn fill<T: Copy + Send>(&self, out: &mut [T], pair: impl Fn([u64; 2]) -> [T; 2] + Sync) {
        parallel_chunks(out, 16 * 1024, &|start, part| {
            for (i, out) in part.chunks_mut(2).enumerate() {
                let values = pair(words(self.key, (start / 2 + i) as u64));
                out.copy_from_slice(&values[..out.len()]);
            }
        });
    }
}
