//! What the true values are, and how far from them a float is.

use astro_float::{BigFloat, Consts, RoundingMode};

/// Numbers that look random, always the same.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The worst error seen, and where.
pub struct Worst {
    error: f64,
    at: f64,
    points: usize,
}

impl Worst {
    pub fn new() -> Self {
        Worst { error: 0.0, at: 0.0, points: 0 }
    }

    pub fn see(&mut self, at: f64, error: f64) {
        self.points += 1;
        if error > self.error || error.is_nan() {
            (self.error, self.at) = (error, at);
        }
    }

    pub fn check(&self, name: &str, limit: f64) {
        let Worst { error, at, points } = self;
        println!("{name:16} worst {error:.3} ULP at {at:e} of {points} points");
        assert!(*error <= limit, "{name}: {error} ULP at {at:e}");
    }
}

/// The error of `got` in units of the last place that `truth` has as an `f32`.
pub fn error_f32(got: f32, truth: f64) -> f64 {
    if got.is_nan() && truth.is_nan() || f64::from(got) == truth {
        return 0.0;
    }
    let exponent = ((truth.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let place = 2f64.powi(exponent.max(-126) - 23);
    (got as f64 - truth).abs() / place
}

pub const NEAREST: RoundingMode = RoundingMode::ToEven;
pub const BITS: usize = 128;

/// A big number by name of operation, in the precision that the case needs.
pub struct Big(pub Consts);

impl Big {
    pub fn new() -> Self {
        Big(Consts::new().expect("memory for the constants"))
    }

    /// `erf x` from the series of positive terms `2/√π e^(-x²) Σ 2^n x^(2n+1) / (2n+1)!!`.
    pub fn erf(&mut self, x: &BigFloat, bits: usize) -> BigFloat {
        let square = x.mul(x, bits, NEAREST);
        let twice = square.add(&square, bits, NEAREST);
        let mut term = x.add(x, bits, NEAREST);
        let mut sum = term.clone();
        for n in 1.. {
            let odd = BigFloat::from_word(2 * n + 1, 64);
            term = term.mul(&twice, bits, NEAREST).div(&odd, bits, NEAREST);
            sum = sum.add(&term, bits, NEAREST);
            let small = |x: &BigFloat| x.exponent().unwrap_or(0);
            if term.is_zero() || small(&term) < small(&sum) - bits as i32 {
                break;
            }
        }
        let gauss = square.neg().exp(bits, NEAREST, &mut self.0);
        let root = self.0.pi(bits, NEAREST).sqrt(bits, NEAREST);
        sum.mul(&gauss, bits, NEAREST).div(&root, bits, NEAREST)
    }

    /// `erfc x`: below 6 from the series, above from Laplace's continued fraction.
    pub fn erfc(&mut self, x: &BigFloat) -> BigFloat {
        let bits = 256;
        let six = BigFloat::from_word(6, 64);
        if x.cmp(&six).expect("no NaN") < 0 {
            let one = BigFloat::from_word(1, 64);
            return one.sub(&self.erf(x, bits), bits, NEAREST);
        }
        let mut fraction = x.clone();
        for k in (1..=100).rev() {
            let half = BigFloat::from_f64(k as f64 / 2.0, 64);
            fraction = x.add(&half.div(&fraction, bits, NEAREST), bits, NEAREST);
        }
        let square = x.mul(x, bits, NEAREST);
        let gauss = square.neg().exp(bits, NEAREST, &mut self.0);
        let root = self.0.pi(bits, NEAREST).sqrt(bits, NEAREST);
        gauss.div(&fraction.mul(&root, bits, NEAREST), bits, NEAREST)
    }
}

/// The error of `got` in units of the last place that `truth` has as an `f64`.
pub fn error_f64(got: f64, truth: &BigFloat) -> f64 {
    if truth.is_nan() || got.is_nan() {
        return if truth.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let difference = big(got).sub(truth, BITS, NEAREST);
    let (Some(digits), Some(exponent)) = (difference.mantissa_digits(), difference.exponent())
    else {
        return f64::INFINITY;
    };
    if difference.is_zero() {
        return 0.0;
    }
    // A mantissa is in [1/2, 1), its most significant word last.
    let place = (truth.exponent().unwrap_or(0) - 1).max(-1022) - 52;
    let fraction = digits[digits.len() - 1] as f64 / 2f64.powi(64);
    fraction * 2f64.powi((exponent - place).clamp(-1000, 1000))
}

/// `x` as a big number. What `from_f64` makes of subnormal numbers is not their value.
pub fn big(x: f64) -> BigFloat {
    let mut big = BigFloat::from_f64(x, BITS);
    if x.is_subnormal() {
        big = BigFloat::from_f64(x * 2f64.powi(200), BITS);
        big.set_exponent(big.exponent().unwrap_or(0) - 200);
    }
    big
}

/// `truth`, with what it cannot say of infinities and of numbers so far out that only the limit is
/// left.
pub fn limits(
    x: f64,
    far: f64,
    below: f64,
    above: f64,
    truth: impl FnOnce() -> BigFloat,
) -> BigFloat {
    if x.is_nan() {
        big(f64::NAN)
    } else if x < -far {
        big(below)
    } else if x > far {
        big(above)
    } else {
        truth()
    }
}
