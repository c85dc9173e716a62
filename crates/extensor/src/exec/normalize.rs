//! Numbers brought to mean 0 and variance 1, group by group, and the gradients of that. All arrays lie
//! in row-major order; factors and statistics are in the dtype that is computed in.

use super::{Call, Kernel, Kind, Output};
use crate::Result;
use crate::tensor::match_float;
use extensor_kernels::native::Compute;
use extensor_kernels::norm::Wide;
use extensor_kernels::norm::planes::{self, Found, Planes, Statistics};
use extensor_kernels::norm::rows::{self, Factors, Rows};
use std::sync::Arc;

/// Which numbers of a row-major array are normalised together: for each image, groups of
/// neighbouring channels, each of `len` numbers. A channel has one factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    pub images: usize,
    pub groups: usize,
    /// In a group.
    pub channels: usize,
    pub len: usize,
    pub centred: bool,
    pub eps: f64,
}

impl Groups {
    fn rows(&self) -> Rows {
        let Groups { images, groups, channels, centred, eps, .. } = *self;
        Rows { count: images * groups, len: channels, groups, centred, eps }
    }

    fn planes(&self) -> Planes {
        let Groups { images, groups, channels, len, eps, .. } = *self;
        Planes::grouped(images, groups, groups * channels, len, eps)
    }

    /// How many factors there are.
    pub fn factors(&self) -> usize {
        self.groups * self.channels
    }
}

/// `y = x̂·gamma + beta` of `x`, `gamma` and `beta`, each group by its own mean and variance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normalize(pub Groups);

impl Kernel for Normalize {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let ([x, gamma, beta], dtype) = ([0, 1, 2].map(|i| call.inputs[i]), call.dtype());
        match_float!(dtype, T => {
            let (gamma, beta) = (gamma.row_major(), beta.row_major());
            let y = call.out::<T>();
            if y.is_empty() {
            } else if self.0.len == 1 {
                rows::forward(&self.0.rows(), x.row_major(), gamma, beta, y);
            } else {
                let own = Statistics::Own;
                planes::forward(&self.0.planes(), x.row_major(), gamma, beta, own, y);
            }
            Ok(())
        }, else call.wrong("x", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Normalize(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

/// The gradients of [`Normalize`] for `x` and, in `f64`, `gamma` and `beta`, as far as they are
/// wanted: of `y`'s gradient, `x` and `gamma`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NormalizeGradient {
    pub groups: Groups,
    pub wanted: [bool; 3],
}

impl Kernel for NormalizeGradient {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let [g, x, gamma] = [0, 1, 2].map(|i| call.inputs[i]);
        let dtype = x.dtype();
        match_float!(dtype, T => {
            let (g, x, gamma) = (g.row_major::<T>(), x.row_major(), gamma.row_major());
            let [dx, dgamma, dbeta] = call.some(self.wanted);
            let (dx, [gamma_sums, beta_sums]) = (dx.map(Output::all), [dgamma, dbeta].map(sums));
            let limit = dtype.max_finite();
            if x.is_empty() {
            } else if self.groups.len == 1 {
                let factors = Factors { gamma: gamma_sums, beta: beta_sums };
                rows::backward(&self.groups.rows(), g, x, gamma, limit, dx, factors);
            } else {
                let (planes, own) = (self.groups.planes(), Statistics::Own);
                let found = planes::backward(&planes, g, x, gamma, own, limit, dx);
                per_channel(&planes, &found, gamma_sums, beta_sums);
            }
            Ok(())
        }, else call.wrong("x", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::NormalizeGradient(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

/// Images of channels of `len` numbers: a channel of all images is normalised together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub images: usize,
    pub channels: usize,
    pub len: usize,
    pub eps: f64,
    /// Whether mean and variance are the batch's own.
    pub training: bool,
}

impl Batch {
    fn planes(&self) -> Planes {
        Planes::batch(self.images, self.channels, self.len, self.eps)
    }

    /// How many numbers have one mean.
    fn count(&self) -> usize {
        self.images.saturating_mul(self.len)
    }
}

/// `y = x̂·gamma + beta` of `x`, `gamma` and `beta`, and for each channel the next running mean and
/// variance, the mean that was subtracted, and `1/√(variance + eps)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchNormalize {
    pub batch: Batch,
    /// How much of the batch's statistics goes into the running ones.
    pub momentum: f64,
    /// Whether there are two inputs more, the running mean and variance; there are unless `training`.
    pub running: bool,
}

impl Kernel for BatchNormalize {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        match_float!(call.dtype(), T => {
            self.compute::<T>(&mut call);
            Ok(())
        }, else call.wrong("x", "a float type", call.dtype()))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::BatchNormalize(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

impl BatchNormalize {
    fn compute<T: Compute>(&self, call: &mut Call<'_, '_>)
    where
        T::Wide: Wide,
    {
        let (inputs, training) = (call.inputs, self.batch.training);
        let x = inputs[0].row_major::<T>();
        let [gamma, beta] = [1, 2].map(|i| inputs[i].row_major::<T::Wide>());
        let given = self.running.then(|| [3, 4].map(|i| inputs[i].row_major::<T::Wide>()));
        let (y, statistics) = call.outputs.split_at_mut(1);
        let y = y[0].all::<T>();
        let by = match given {
            Some([mean, var]) if !training => Statistics::Given(mean, var),
            _ => Statistics::Own,
        };
        let found = if y.is_empty() && training {
            Vec::new()
        } else {
            planes::forward(&self.batch.planes(), x, gamma, beta, by, y)
        };
        let nothing = Found { mean: f64::NAN, variance: f64::NAN, slope: f64::NAN };
        for c in 0..self.batch.channels {
            let found = found.get(c).unwrap_or(&nothing);
            let given = given.map(|[mean, var]| (mean[c].into(), var[c].into()));
            let (mean, variance) = self.next(found, given);
            let values = [mean, variance, found.mean, found.slope];
            for (output, value) in statistics.iter_mut().zip(values) {
                output.all()[c] = T::Wide::of(value);
            }
        }
    }

    /// The next running statistics of a channel, from those given and what was found.
    fn next(&self, found: &Found, given: Option<(f64, f64)>) -> (f64, f64) {
        let count = self.batch.count();
        match given {
            Some(given) if !self.batch.training || count == 0 => given,
            None if count == 0 => (f64::NAN, f64::NAN),
            given => {
                let unbiased = count as f64 / (count - 1).max(1) as f64;
                let batch = (found.mean, found.variance * unbiased);
                given.map_or(batch, |(mean, var)| {
                    let mixed =
                        |old: f64, new: f64| (1.0 - self.momentum) * old + self.momentum * new;
                    (mixed(mean, batch.0), mixed(var, batch.1))
                })
            }
        }
    }
}

/// The gradients of [`BatchNormalize`] for `x` and, in `f64`, `gamma` and `beta`, as far as they are
/// wanted: of `y`'s gradient, `x`, `gamma`, the mean that was subtracted, and `1/√(variance + eps)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchNormalizeGradient {
    pub batch: Batch,
    pub wanted: [bool; 3],
}

impl Kernel for BatchNormalizeGradient {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let [g, x, gamma, mean, slope] = [0, 1, 2, 3, 4].map(|i| call.inputs[i]);
        let dtype = x.dtype();
        match_float!(dtype, T => {
            let (g, x, gamma) = (g.row_major::<T>(), x.row_major(), gamma.row_major());
            let [dx, dgamma, dbeta] = call.some(self.wanted);
            let (dx, [gamma_sums, beta_sums]) = (dx.map(Output::all), [dgamma, dbeta].map(sums));
            if !x.is_empty() {
                let (planes, limit) = (self.batch.planes(), dtype.max_finite());
                let (mean, slope) = (mean.row_major(), slope.row_major());
                let saved = Statistics::Saved { mean, slope, moving: self.batch.training };
                let found = planes::backward(&planes, g, x, gamma, saved, limit, dx);
                per_channel(&planes, &found, gamma_sums, beta_sums);
            }
            Ok(())
        }, else call.wrong("x", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::BatchNormalizeGradient(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

/// An output as sums of nothing yet.
fn sums<'a>(output: Option<&'a mut Output<'_>>) -> Option<&'a mut [f64]> {
    let sums = output?.all();
    sums.fill(0.0);
    Some(sums)
}

/// Adds up the sums of pieces for each channel, in their order, where they are wanted.
fn per_channel(
    planes: &Planes,
    sums: &[[f64; 2]],
    mut dgamma: Option<&mut [f64]>,
    mut dbeta: Option<&mut [f64]>,
) {
    for (k, [sum, product]) in sums.iter().enumerate() {
        let channel = planes.channel(k / planes.pieces, k % planes.pieces);
        if let Some(totals) = &mut dgamma {
            totals[channel] += product;
        }
        if let Some(totals) = &mut dbeta {
            totals[channel] += sum;
        }
    }
}
