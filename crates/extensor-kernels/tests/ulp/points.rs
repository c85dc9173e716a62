//! Where the functions are tried.

/// Numbers without a pattern, the same in every run.
pub struct Scatter(u64);

impl Scatter {
    pub fn new(seed: u64) -> Self {
        Scatter(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from `low` to `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / 2f64.powi(53)
    }
}

/// Every 1021st of all patterns of 32 bits: 4.2 million floats of every exponent.
pub fn sweep_f32() -> Vec<f32> {
    (0..=u32::MAX).step_by(1021).map(f32::from_bits).collect()
}

/// Where a function may break: zero, one, the ends of the format and of the exponentials, the
/// multiples of `log(2) / 2` at which arguments are reduced, and the thresholds.
fn critical() -> Vec<f64> {
    let ln_2 = std::f64::consts::LN_2;
    let mut points = vec![0.0, 1.0, 2.0, 0.5, 3.0, 10.0, 100.0, 1000.0];
    points.extend([f64::MIN_POSITIVE, f64::MAX, f64::from_bits(1), f64::EPSILON]);
    points.extend([709.782_712_893_384, 710.475_860_073_943_9, 745.133_219_101_941_1]);
    points.extend([708.396_418_532_264_1, 36.04, 36.74, 37.43, 19.06, 18.71, 38.12]);
    points.extend([1022.0, 1023.0, 1024.0, 1074.0, 1075.0, 743.75, 744.44]);
    points.extend([2f64.sqrt(), 0.5f64.sqrt(), 2f64.sqrt() - 1.0, 1.0 - 0.5f64.sqrt()]);
    points.extend((1..120).map(|n| f64::from(n) * ln_2 / 2.0));
    points.extend((1..64).map(|n| 2f64.powi(-n)));
    points.extend((1..64).map(|n| 2f64.powi(n)));
    points.extend((1..54).map(|n| 1.0 - 2f64.powi(-n)));
    points.extend((1..53).map(|n| 1.0 + 2f64.powi(-n)));
    points
}

/// Some twenty thousand numbers: every exponent, the common exponents more densely, evenly over the
/// range of the exponentials, and the neighbourhood of what is critical.
pub fn stratified_f64() -> Vec<f64> {
    let mut scatter = Scatter::new(1);
    let mut points = Vec::new();
    let mantissa = |scatter: &mut Scatter| scatter.bits() >> 12;
    for exponent in 0..2047u64 {
        for _ in 0..2 {
            points.push(f64::from_bits((exponent << 52) | mantissa(&mut scatter)));
        }
    }
    for exponent in (1023 - 56)..(1023 + 11) {
        for _ in 0..30 {
            points.push(f64::from_bits((exponent << 52) | mantissa(&mut scatter)));
        }
    }
    for _ in 0..1200 {
        points.push(scatter.between(0.0, 760.0));
        points.push(scatter.between(0.0, 2.0));
    }
    for _ in 0..300 {
        points.push(scatter.between(1000.0, 1080.0));
    }
    for point in critical() {
        for step in -2i64..=2 {
            let bits = point.to_bits() as i64 + step;
            if bits >= 0 {
                points.push(f64::from_bits(bits as u64));
            }
        }
    }
    points.retain(|x| x.is_finite());
    let negative: Vec<f64> = points.iter().map(|x| -x).collect();
    points.extend(negative);
    points
}

/// Bases and exponents whose power is a float of every size, and many whose is none; bases near
/// one with huge exponents among them.
pub fn pairs(count: usize, limit: f64, bottom: f64, epsilon: f64) -> Vec<(f64, f64)> {
    let mut scatter = Scatter::new(2);
    let mut pairs = Vec::new();
    for i in 0..count {
        // The logarithm of the power, and that of the base: any, or nearly zero.
        let power = scatter.between(bottom - 2.0, limit + 2.0);
        let base = match i % 4 {
            0 => scatter.between(bottom, limit).exp2(),
            1 => scatter.between(0.5, 2.0),
            2 => 1.0 + scatter.between(-1.0, 1.0) * scatter.between(epsilon.log2(), -1.0).exp2(),
            _ => scatter.between(1.0, 1000.0).round(),
        };
        let exponent = power / base.log2();
        pairs.push((base, exponent));
        pairs.push((base, exponent.round()));
        pairs.push((-base, exponent.round()));
        pairs.push((base, scatter.between(-8.0, 8.0)));
        pairs.push((base, scatter.between(-30.0, 30.0).round()));
    }
    pairs.retain(|(x, y)| *x != 0.0 && x.is_finite() && y.is_finite());
    pairs
}
