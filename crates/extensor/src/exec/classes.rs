//! Rows of scores for classes: how unlikely they make what they should be, and the gradients of that.
//! All arrays lie in row-major order, classes last.

use super::{Call, Input, Kernel, Kind};
use crate::tensor::{Storage, match_float, with_room};
use crate::{DType, Error, Result};
use extensor_kernels::index::first_outside;
use extensor_kernels::native::Native;
use extensor_kernels::reduce::{Arithmetic, Targets, class_gradients, class_losses, slice_mean};
use std::borrow::Cow;
use std::sync::Arc;

/// What scores and targets are made losses of. Targets are weights in the scores' dtype, as many as
/// there are scores, or the classes' numbers, one for each row, as `i64` or `u64`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes {
    /// Whose error it is if there is no such class.
    pub op: &'static str,
    pub rows: usize,
    /// How many there are.
    pub classes: usize,
    /// How much of the targets is given to all classes alike.
    pub smoothing: f64,
    /// What the sum of the losses is divided by, if they are summed.
    pub divisor: Option<f64>,
}

impl Classes {
    /// The classes' numbers, which must be in range; none if targets are weights.
    fn numbers<'a>(&self, targets: Input<'a>) -> Result<Cow<'a, [i64]>> {
        let numbers = match targets.dtype() {
            DType::I64 => Cow::Borrowed(targets.row_major()),
            DType::U64 => {
                // Beyond the range of `i64` they saturate, and are out of range all the same.
                let given = targets.row_major::<u64>();
                let mut numbers = with_room(self.op, given.len())?;
                numbers.extend(given.iter().map(|&k| i64::try_from(k).unwrap_or(i64::MAX)));
                Cow::Owned(numbers)
            }
            _ => return Ok(Cow::Borrowed(&[])),
        };
        match first_outside(&numbers, self.classes) {
            Some(index) => {
                let (op, classes) = (self.op, self.classes);
                Err(Error::ClassOutOfRange { op, index, classes })
            }
            None => Ok(numbers),
        }
    }
}

/// Targets, as they are computed with.
fn targets<'a, T: Native>(given: Input<'a>, numbers: &'a [i64]) -> Targets<'a, T> {
    if given.dtype().is_float() {
        Targets::Weights(given.row_major())
    } else {
        Targets::Classes(numbers)
    }
}

/// The losses of rows, or their sum over the divisor, of scores and targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassLosses(pub Classes);

impl Kernel for ClassLosses {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let ([x, t], dtype) = ([call.inputs[0], call.inputs[1]], call.dtype());
        let Classes { rows, smoothing, divisor, .. } = self.0;
        let numbers = self.0.numbers(t)?;
        let mut losses = Storage::new::<f64>(call.op, rows)?;
        let losses = &mut losses.as_mut_slice::<f64>()[..rows];
        match_float!(dtype, T => {
            class_losses::<T>(x.row_major(), targets(t, &numbers), smoothing, losses);
            let out = call.out::<T>();
            if let Some(divisor) = divisor {
                out[0] = <T as Arithmetic>::round(slice_mean(losses, divisor));
            } else {
                for (out, &loss) in out.iter_mut().zip(losses.iter()) {
                    *out = <T as Arithmetic>::round(loss);
                }
            }
            Ok(())
        }, else call.wrong("the result", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::ClassLosses(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

/// The gradient of [`ClassLosses`] for the scores, or for the weights, of its output's gradient,
/// scores and targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassGradient {
    pub of: Classes,
    /// Whether it is that for the weights.
    pub by_targets: bool,
}

impl Kernel for ClassGradient {
    #[allow(clippy::useless_conversion)] // f64 is one of the types
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let ([g, x, t], dtype) = ([0, 1, 2].map(|i| call.inputs[i]), call.dtype());
        let Classes { rows, smoothing, divisor, .. } = self.of;
        let numbers = self.of.numbers(t)?;
        match_float!(dtype, T => {
            let g = g.row_major::<T>();
            // One gradient for each row, or the same for all.
            let (g, scale) = match divisor {
                Some(divisor) => {
                    let all: f64 = g.iter().map(|&g| f64::from(g)).sum();
                    (&[][..], all / divisor)
                }
                None => (g, 1.0),
            };
            let out = call.out::<T>();
            let grads = if self.by_targets { [&mut [][..], out] } else { [out, &mut [][..]] };
            let with = (smoothing, scale);
            class_gradients::<T>(rows, [x.row_major(), g], targets(t, &numbers), with, grads);
            Ok(())
        }, else call.wrong("the result", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::ClassGradient(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
