//! Elementary functions, written once for `f32` and `f64`, without branches, so that loops over
//! them vectorise: within 4 ULP of the true value for `f32` and 2 for `f64`, over the whole range. Of the
//! special functions `digamma`, `polygamma`, the Bessel functions and the inverses are within 5 for `f64`; where terms cancel, of the largest.

mod bessel;
mod constants;
pub mod dd;
mod divide;
mod erf;
mod exp;
mod float;
mod gamma;
mod hyperbolic;
mod hypot;
mod inverse_trig;
mod log;
mod normal;
mod pow;
mod trig;

pub use bessel::{i0, i0_derivative, i0e, i0e_derivative, i0e_slope};
pub use bessel::{i1, i1_slope, i1e, i1e_slope};
pub use constants::Constants;
pub use divide::{floor_divide, modulo};
pub use erf::{ErfConstants, erf, erfc, gelu, gelu_slope, normal_cdf, normal_cdf as ndtr};
pub use exp::{exp, exp2, expm1, sigmoid, softplus};
pub use float::Float;
pub use gamma::{digamma, lgamma, polygamma};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub use hypot::hypot;
pub use inverse_trig::{InverseTrigConstants, acos, asin, atan, atan2};
pub use log::{log, log1p, log2, log10};
pub use normal::{erfinv, erfinv_slope, ndtri, ndtri_slope};
pub use normal::{log_ndtr, log_ndtr_bend, log_ndtr_derivative, log_ndtr_slope};
pub use pow::{cbrt, pow};
pub use trig::{TrigConstants, cos, cos_lane, cos_pi, sin, sin_lane, sin_pi, tan, tan_lane};

/// A float that every function here is defined for.
pub trait Elementary: Constants + TrigConstants + InverseTrigConstants + ErfConstants {}

impl Elementary for f32 {}
impl Elementary for f64 {}

/// `c[0] + c[1] x + c[2] x^2 + …` of at most twelve terms, in blocks of four that do not wait for
/// each other.
///
/// There is no loop to unroll: with constant coefficients only the arithmetic remains.
#[inline(always)]
fn polynomial<F: Float>(x: F, c: &[F]) -> F {
    let x2 = x * x;
    if c.len() <= 5 {
        return block(x, x2, c);
    }
    let x4 = x2 * x2;
    let low = block(x, x2, &c[..4]);
    let middle = block(x, x2, &c[4..c.len().min(8)]);
    if c.len() <= 8 {
        return middle.fma(x4, low);
    }
    let high = block(x, x2, &c[8..]);
    high.fma(x4, middle).fma(x4, low)
}

/// Likewise of at most twenty-four terms.
#[inline(always)]
fn long_polynomial<F: Float>(x: F, c: &[F]) -> F {
    let low = polynomial(x, &c[..c.len().min(12)]);
    if c.len() <= 12 {
        return low;
    }
    let x4 = (x * x) * (x * x);
    polynomial(x, &c[12..]).fma(x4 * (x4 * x4), low)
}

/// A polynomial of at most five terms.
#[inline(always)]
fn block<F: Float>(x: F, x2: F, c: &[F]) -> F {
    match *c {
        [a] => a,
        [a, b] => b.fma(x, a),
        [a, b, c] => c.fma(x2, b.fma(x, a)),
        [a, b, c, d] => d.fma(x, c).fma(x2, b.fma(x, a)),
        [a, b, c, d, e] => e.fma(x2, d.fma(x, c)).fma(x2, b.fma(x, a)),
        _ => unreachable!("one to five terms"),
    }
}
