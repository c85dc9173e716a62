//! Numbers that an operation cannot take: a look at one array before another kernel reads it. A check
//! has no outputs, and ends with the operation's error if it finds one.

use super::index::positions;
use super::{Call, Input, Kernel, Kind, launch};
use crate::tensor::match_int;
use crate::{DType, Error, Result, Tensor};
use extensor_kernels::index::first_outside;
use extensor_kernels::view::any;
use smallvec::SmallVec;
use std::num::Wrapping;
use std::sync::Arc;

/// What must not be there. Floats pass where it is whole numbers that must not.
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
    /// A number of the parameter that is not from 0 to 1, or NaN.
    Shares { parameter: &'static str },
    /// A weight that is negative, or NaN.
    Weights { parameter: &'static str },
    /// A number that is infinite or NaN.
    Infinities { parameter: &'static str },
    /// More trues in a row of a mask than there are elements of a source.
    Trues { most: usize },
    /// A length of the parameter, `i64` in row-major order, that is negative or more than `most`.
    Lengths { parameter: &'static str, most: usize },
    /// Whole numbers that are no positions along an axis of this size.
    Positions { axis: usize, size: usize },
}

impl Check {
    /// An error of `op` if a number of `x` must not be there: of all examples, if it is one of a batch.
    pub fn on(self, op: &'static str, x: &Tensor) -> Result<()> {
        if x.is_traced() {
            let x = x.bare().contiguous()?;
            return launch(op, &self, &[&x], SmallVec::new()).map(|_| ());
        }
        launch(op, &self, &[x], SmallVec::new()).map(|_| ())
    }
}

/// Whether a whole number is negative.
fn negative(x: &Input<'_>) -> bool {
    match_int!(x.dtype(), T => {
        let none: T = Wrapping(0);
        any(x.view(), |v: T| v < none)
    }, else false)
}

/// Whether a float is such.
fn floats(x: &Input<'_>, such: impl Fn(f64) -> bool + Sync) -> bool {
    match x.dtype() {
        DType::F16 => any(x.view(), |v: half::f16| such(v.to_f64())),
        DType::BF16 => any(x.view(), |v: half::bf16| such(v.to_f64())),
        DType::F32 => any(x.view(), |v: f32| such(f64::from(v))),
        DType::F64 => any(x.view(), such),
        _ => false,
    }
}

impl Kernel for Check {
    fn run(&self, call: Call<'_, '_>) -> Result<()> {
        let (op, x) = (call.op, call.inputs[0]);
        let found = match *self {
            Check::Divisors => match_int!(x.dtype(), T => {
                let none: T = Wrapping(0);
                any(x.view(), |v: T| v == none)
            }, else false),
            Check::Shifts | Check::Exponents { .. } => negative(&x),
            Check::Weights { .. } => negative(&x) || floats(&x, |v| v.is_nan() || v < 0.0),
            Check::Shares { .. } => floats(&x, |v| !(0.0..=1.0).contains(&v)),
            Check::Infinities { .. } => floats(&x, |v| !v.is_finite()),
            Check::Lengths { most, .. } => first_outside(x.row_major(), most + 1).is_some(),
            Check::Trues { most } => {
                let row = x.shape().last().map_or(1, |&n| n.max(1));
                let mut rows = x.row_major::<u8>().chunks(row);
                rows.any(|row| row.iter().filter(|&&t| t != 0).count() > most)
            }
            Check::Positions { axis, size } => {
                return positions(op, &x, axis, size).map(|_| ());
            }
            Check::Classes { classes } => {
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
        };
        if !found {
            return Ok(());
        }
        let bad = |parameter: &'static str, expected: &str, got: &str| {
            let (expected, got) = (expected.into(), got.into());
            Error::Parameter { op, parameter, expected, got }
        };
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
            Check::Shares { parameter } => {
                bad(parameter, "numbers from 0 to 1", "a tensor with one outside")
            }
            Check::Weights { parameter } => {
                bad(parameter, "no negative number", "a tensor with one")
            }
            Check::Infinities { parameter } => {
                bad(parameter, "finite numbers", "a tensor with NaN or infinity")
            }
            Check::Lengths { parameter, most } => {
                bad(parameter, &format!("numbers from 0 to {most}"), "a tensor with one outside")
            }
            Check::Trues { most } => {
                let got = format!("a mask with more than {most} trues");
                bad("mask", "at most as many trues as source has elements", &got)
            }
            Check::Divisors | Check::Positions { .. } | Check::Classes { .. } => {
                Error::DivisionByZero { op }
            }
        })
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Check(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
