//! Numbers that an operation cannot take: a look at one array before another kernel reads it. A check
//! has no outputs, and ends with the operation's error if it finds one.

use super::{Call, Kernel, Kind, launch};
use crate::tensor::match_int;
use crate::{DType, Error, Result, Tensor};
use extensor_kernels::index::first_outside;
use extensor_kernels::view::any;
use smallvec::SmallVec;
use std::num::Wrapping;
use std::sync::Arc;

/// What must not be there. Floats pass: it is whole numbers that must not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Check {
    /// A divisor that is 0.
    Divisors,
    /// A shift that is negative.
    Shifts,
    /// An exponent that is negative, of a base of this dtype.
    Exponents { base: DType },
    /// The number of a class, `i64` or `u64` in row-major order, that is none of so many.
    Classes { classes: usize },
}

impl Check {
    /// An error of `op` if a number of `x` must not be there.
    pub fn on(self, op: &'static str, x: &Tensor) -> Result<()> {
        launch(op, &self, &[x], SmallVec::new()).map(|_| ())
    }
}

impl Kernel for Check {
    fn run(&self, call: Call<'_, '_>) -> Result<()> {
        let (op, x) = (call.op, call.inputs[0]);
        if let Check::Classes { classes } = *self {
            let outside = match x.dtype() {
                DType::U64 => {
                    let beyond = |&&k: &&u64| usize::try_from(k).map_or(true, |k| k >= classes);
                    let found = x.row_major::<u64>().iter().find(beyond);
                    found.map(|&k| i64::try_from(k).unwrap_or(i64::MAX))
                }
                _ => first_outside(x.row_major(), classes),
            };
            return match outside {
                Some(index) => Err(Error::ClassOutOfRange { op, index, classes }),
                None => Ok(()),
            };
        }
        let zero = matches!(self, Check::Divisors);
        let found = match_int!(x.dtype(), T => {
            let none: T = Wrapping(0);
            if zero { any(x.view(), |v: T| v == none) } else { any(x.view(), |v: T| v < none) }
        }, else false);
        if !found {
            return Ok(());
        }
        Err(match *self {
            Check::Shifts => {
                let (expected, got) = ("no negative number".into(), "a tensor with one".into());
                Error::Parameter { op, parameter: "b", expected, got }
            }
            Check::Exponents { base } => {
                let expected = format!("none below 0, the base being of dtype {base}");
                let got = "below 0 somewhere".into();
                Error::Parameter { op, parameter: "exponent", expected, got }
            }
            Check::Divisors | Check::Classes { .. } => Error::DivisionByZero { op },
        })
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Check(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
