//! Stand-ins.
#![allow(missing_docs)]
use super::Float;
macro_rules! stand_in {
    ($($name:ident = $f:path),*) => {$(
        #[inline(always)]
        pub fn $name<F: Float>(x: F) -> F { F::lit($f(x.to_f64())) }
    )*};
}
fn sigm(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
stand_in!(
    exp = libm::exp,
    expm1 = libm::expm1,
    log = libm::log,
    log1p = libm::log1p,
    log2 = libm::log2,
    log10 = libm::log10,
    sin = libm::sin,
    cos = libm::cos,
    tan = libm::tan,
    asin = libm::asin,
    acos = libm::acos,
    atan = libm::atan,
    sinh = libm::sinh,
    cosh = libm::cosh,
    tanh = libm::tanh,
    asinh = libm::asinh,
    acosh = libm::acosh,
    atanh = libm::atanh,
    erf = libm::erf,
    erfc = libm::erfc,
    sigmoid = sigm,
    sin_lane = libm::sin,
    cos_lane = libm::cos,
    tan_lane = libm::tan
);
pub fn pow<F: Float>(x: F, y: F) -> F {
    F::lit(libm::pow(x.to_f64(), y.to_f64()))
}
pub trait Trig: Float {
    const TRIG_LIMIT: Self;
}
impl Trig for f32 {
    const TRIG_LIMIT: f32 = 1e4;
}
impl Trig for f64 {
    const TRIG_LIMIT: f64 = 1e6;
}
