//! How near the truth operations of one number are in `f32`: measured at all 2³² inputs, by
//! `extensor check --exhaustive --dtype f32`, which fails where a bound is exceeded; `tools/accuracy.py` writes
//! the lines.

use super::record::Record;

/// A bound on an error in units of the last place, and the worst that there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// What is promised, on every machine.
    pub ulps: f64,
    /// The largest error found.
    pub worst: f64,
    /// The input at which it was found.
    pub at: f32,
}

/// How far an operation of one number is from the truth in `f32`. Errors are counted as
/// [`Sweep`](crate::check::exhaustive::Sweep) says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// The operation.
    pub name: &'static str,
    /// Of the value.
    pub value: Bound,
    /// Of the first derivative.
    pub slope: Bound,
}

impl Record {
    /// How near the truth the operation is in `f32`, if it is one of one number.
    pub fn accuracy(&self) -> Option<&'static Accuracy> {
        ACCURACY.iter().find(|row| row.name == self.name)
    }
}

/// `name: promised, found at input; promised, found at input`, of the value and of the derivative.
macro_rules! table {
    ($($name:literal: $value:literal, $worst:literal at $at:literal; $slope:literal, $steepest:literal at $there:literal;)*) => {
        &[$(Accuracy {
            name: $name,
            value: Bound { ulps: $value as f64, worst: $worst as f64, at: $at },
            slope: Bound { ulps: $slope as f64, worst: $steepest as f64, at: $there },
        },)*]
    };
}

static ACCURACY: &[Accuracy] = table! {};
