//! Elementary functions, written once for `f32` and `f64`, without branches, so that loops over
//! them vectorise: within 4 ULP of the true value for `f32` and 2 for `f64`, over the whole range.

pub mod dd;
mod exp;
mod float;
mod hyperbolic;
mod log;
mod pow;

pub use exp::{ExpConstants, exp, exp2, expm1, sigmoid, softplus};
pub use float::Float;
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub use log::{LogConstants, log, log1p, log2, log10};
pub use pow::{PowConstants, pow};

/// A float with the constants of every function here.
pub trait Elementary: ExpConstants + LogConstants + PowConstants {}

impl Elementary for f32 {}
impl Elementary for f64 {}

/// `c[0] + c[1] x + c[2] x^2 + …` by Horner's rule.
#[inline(always)]
fn polynomial<F: Float>(x: F, coefficients: &[F]) -> F {
    let (last, rest) = coefficients.split_last().expect("a coefficient");
    rest.iter().rev().fold(*last, |sum, &c| sum.fma(x, c))
}
