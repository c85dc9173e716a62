//! True values, to some 180 bits for `f64` and to those of `f64` for `f32`, and how far off one is.

use astro_float::{BigFloat, Consts, RoundingMode, Sign};

const BITS: usize = 192;
const ROUND: RoundingMode = RoundingMode::None;

/// Arithmetic of [`BITS`] bits.
pub struct Truth(Consts);

macro_rules! direct {
    ($($name:ident: $method:ident),*) => { $(
        pub fn $name(&mut self, x: f64) -> BigFloat {
            big(x).$method(BITS, ROUND, &mut self.0)
        }
    )* };
}

/// Functions near the identity: below `2^-70` two terms of their series, `x + a x^b`.
macro_rules! odd {
    ($($name:ident: $method:ident, $a:expr, $b:literal);*) => { $(
        pub fn $name(&mut self, x: f64) -> BigFloat {
            near_identity(x, $a, $b).unwrap_or_else(|| big(x).$method(BITS, ROUND, &mut self.0))
        }
    )* };
}

impl Truth {
    pub fn new() -> Self {
        Truth(Consts::new().expect("constants"))
    }

    direct!(exp: exp, log: ln, log2: log2, log10: log10, cosh: cosh, acosh: acosh);
    odd!(sinh: sinh, 1.0 / 6.0, 3; tanh: tanh, -1.0 / 3.0, 3; atanh: atanh, 1.0 / 3.0, 3);

    pub fn exp2(&mut self, x: f64) -> BigFloat {
        let ln_2 = self.0.ln_2(BITS, ROUND);
        mul(&ln_2, &big(x)).exp(BITS, ROUND, &mut self.0)
    }

    pub fn asinh(&mut self, x: f64) -> BigFloat {
        near_identity(x, -1.0 / 6.0, 3).unwrap_or_else(|| {
            let size = big(x.abs());
            let root = add(&mul(&size, &size), &big(1.0)).sqrt(BITS, ROUND);
            let log = add(&size, &root).ln(BITS, ROUND, &mut self.0);
            if x < 0.0 { log.neg() } else { log }
        })
    }

    pub fn expm1(&mut self, x: f64) -> BigFloat {
        near_identity(x, 0.5, 2).unwrap_or_else(|| sub(&self.exp(x), &big(1.0)))
    }

    pub fn log1p(&mut self, x: f64) -> BigFloat {
        near_identity(x, -0.5, 2)
            .unwrap_or_else(|| add(&big(1.0), &big(x)).ln(BITS, ROUND, &mut self.0))
    }

    pub fn sigmoid(&mut self, x: f64) -> BigFloat {
        let below = add(&big(1.0), &self.exp(-x));
        big(1.0).div(&below, BITS, ROUND)
    }

    pub fn softplus(&mut self, x: f64) -> BigFloat {
        let power = self.exp(x);
        if x > 200.0 {
            big(x)
        } else if x < -70.0 {
            sub(&power, &mul(&mul(&power, &power), &big(0.5)))
        } else {
            add(&big(1.0), &power).ln(BITS, ROUND, &mut self.0)
        }
    }

    /// `x^y`, where that is a real number.
    pub fn pow(&mut self, x: f64, y: f64) -> BigFloat {
        let log = self.log(x.abs());
        let power = mul(&log, &big(y)).exp(BITS, ROUND, &mut self.0);
        if x < 0.0 && (y % 2.0).abs() == 1.0 { power.neg() } else { power }
    }
}

fn big(x: f64) -> BigFloat {
    // astro-float takes no subnormal numbers.
    if x != 0.0 && x.abs() < f64::MIN_POSITIVE {
        let mut normal = BigFloat::from_f64(x * 2f64.powi(64), BITS);
        normal.set_exponent(normal.exponent().unwrap() - 64);
        return normal;
    }
    BigFloat::from_f64(x, BITS)
}

fn add(a: &BigFloat, b: &BigFloat) -> BigFloat {
    a.add(b, BITS, ROUND)
}

fn sub(a: &BigFloat, b: &BigFloat) -> BigFloat {
    a.sub(b, BITS, ROUND)
}

fn mul(a: &BigFloat, b: &BigFloat) -> BigFloat {
    a.mul(b, BITS, ROUND)
}

fn near_identity(x: f64, a: f64, b: usize) -> Option<BigFloat> {
    let small = x.abs() < 2f64.powi(-70);
    small.then(|| {
        let power = big(x).powi(b, BITS, ROUND);
        add(&big(x), &mul(&power, &big(a)))
    })
}

/// `2^exponent`, far below what `f64` has included.
fn power_of_two(exponent: i32) -> BigFloat {
    let mut power = big(1.0);
    power.set_exponent(exponent + 1);
    power
}

/// How far `found` is from `truth` in units in the last place of the truth's neighbours.
///
/// An infinity stands for the power of two past the largest float, where the next float would be.
pub fn ulps_f64(found: f64, truth: &BigFloat) -> f64 {
    if truth.is_nan() || found.is_nan() {
        return if truth.is_nan() && found.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let end = power_of_two(1024);
    let at_most = |x: BigFloat| match x.abs() >= end {
        true if x.is_negative() => end.neg(),
        true => end.clone(),
        false => x,
    };
    let (found, truth) = (at_most(big(found)), at_most(truth.clone()));
    let exponent = if truth.is_zero() { -2000 } else { truth.exponent().unwrap() };
    let unit = (exponent.min(1024) - 53).max(-1074);
    to_f64(&sub(&found, &truth), unit).abs()
}

/// `x / 2^unit`.
fn to_f64(x: &BigFloat, unit: i32) -> f64 {
    let (words, _, sign, exponent, _) = x.as_raw_parts().expect("a finite number");
    let top = *words.last().unwrap() as f64 / 2f64.powi(64);
    let size = top * 2f64.powi((exponent - unit).clamp(-500, 500));
    if sign == Sign::Neg { -size } else { size }
}

/// The same for `f32`, whose truth an `f64` holds well enough.
pub fn ulps_f32(found: f32, truth: f64) -> f64 {
    if truth.is_nan() || found.is_nan() {
        return if truth.is_nan() && found.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let end = 2f64.powi(128);
    let found = (found as f64).clamp(-end, end);
    let truth = truth.clamp(-end, end);
    let exponent = ((truth.to_bits() >> 52 & 0x7ff) as i32 - 1023).min(127);
    (found - truth).abs() / 2f64.powi((exponent - 23).max(-149))
}
