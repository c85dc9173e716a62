//! How far the trigonometric functions, their inverses and the error functions are from the truth,
//! in units of the last place of the true value.
//!
//! The truth is `libm` in `f64` for `f32`, and `astro-float` in 128 bits or more for `f64`.

use astro_float::{BigFloat, Consts, RoundingMode};
use extensor_kernels::isa::{Kernel, dispatch};
use extensor_kernels::math::*;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, FRAC_PI_4, PI};

/// What the crate promises.
const F32_LIMIT: f64 = 4.0;
const F64_LIMIT: f64 = 2.0;

/// Doubles up to the limit of the lane forms that come nearest to a multiple of π/2 (from the
/// continued fractions of π/2 times powers of two), and the one nearest of all doubles.
const NEAR_HALF_TURNS: &[f64] = &[
    45.553093477052,
    91.106186954104,
    14461176.67027838,
    182.212373908208,
    28922353.34055676,
    115689413.36222704,
    563416747700.2246,
    1457.698991265664,
    231378826.72445408,
    321307.9594422229,
    1698673.2849629424,
    462757653.44890815,
    32102760787.64268,
    5848238277.541742,
    43799237342.726166,
    925515306.8978163,
    5.319372648326541e255,
];

/// Numbers that look random, always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The worst error seen, and where.
struct Worst {
    error: f64,
    at: f64,
    points: usize,
}

impl Worst {
    fn new() -> Self {
        Worst {
            error: 0.0,
            at: 0.0,
            points: 0,
        }
    }

    fn see(&mut self, at: f64, error: f64) {
        self.points += 1;
        if error > self.error || error.is_nan() {
            (self.error, self.at) = (error, at);
        }
    }

    fn check(&self, name: &str, limit: f64) {
        let Worst { error, at, points } = self;
        println!("{name:16} worst {error:.3} ULP at {at:e} of {points} points");
        assert!(*error <= limit, "{name}: {error} ULP at {at:e}");
    }
}

/// The error of `got` in units of the last place that `truth` has as an `f32`.
fn error_f32(got: f32, truth: f64) -> f64 {
    if got.is_nan() && truth.is_nan() {
        return 0.0;
    }
    let exponent = ((truth.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let place = 2f64.powi(exponent.max(-126) - 23);
    (got as f64 - truth).abs() / place
}

fn check_f32(name: &str, f: fn(f32) -> f32, truth: fn(f64) -> f64) {
    let mut worst = Worst::new();
    let mut see = |x: f32| worst.see(x as f64, error_f32(f(x), truth(x as f64)));
    (0..=u32::MAX)
        .step_by(1021)
        .map(f32::from_bits)
        .for_each(&mut see);
    let mut near = |x: f64| {
        for step in -1i32..=1 {
            let x = f32::from_bits((x as f32).to_bits().wrapping_add_signed(step));
            see(x);
            see(-x);
        }
    };
    for k in 0..100_000 {
        near(k as f64 * FRAC_PI_2);
        near(k as f64 * 1e-4);
    }
    for x in [0.5, 1.0, PI / 8.0, f32::TRIG_LIMIT as f64, f32::MAX as f64] {
        near(x);
    }
    worst.check(name, F32_LIMIT);
}

const NEAREST: RoundingMode = RoundingMode::ToEven;
const BITS: usize = 128;

/// A big number by name of operation, in the precision that the case needs.
struct Big(Consts);

impl Big {
    fn new() -> Self {
        Big(Consts::new().expect("memory for the constants"))
    }

    /// `erf x` from the series of positive terms `2/√π e^(-x²) Σ 2^n x^(2n+1) / (2n+1)!!`.
    fn erf(&mut self, x: &BigFloat, bits: usize) -> BigFloat {
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
    fn erfc(&mut self, x: &BigFloat) -> BigFloat {
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
fn error_f64(got: f64, truth: &BigFloat) -> f64 {
    if truth.is_nan() || got.is_nan() {
        return if truth.is_nan() && got.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
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

/// Points over all exponents, both signs, and `more` with their nearest neighbours.
fn points_f64(seed: u64, more: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut random = Random(seed);
    let mut points = Vec::new();
    for high in 0..4096u64 {
        for _ in 0..5 {
            points.push(f64::from_bits((high << 52) | (random.next() >> 12)));
        }
    }
    for x in more {
        for step in -2i64..=2 {
            points.push(f64::from_bits(x.to_bits().wrapping_add_signed(step)));
        }
    }
    points
}

fn check_f64(
    name: &str,
    f: fn(f64) -> f64,
    mut truth: impl FnMut(&mut Big, f64) -> BigFloat,
    points: Vec<f64>,
) {
    let (mut worst, mut big) = (Worst::new(), Big::new());
    for x in points {
        worst.see(x, error_f64(f(x), &truth(&mut big, x)));
    }
    worst.check(name, F64_LIMIT);
}

fn angles() -> Vec<f64> {
    let mut random = Random(7);
    let mut more: Vec<f64> = (1..1500).map(|k| k as f64 * FRAC_PI_4).collect();
    more.extend((0..600).map(|_| (random.between(0.0, 40.0).exp2()).floor() * FRAC_PI_2));
    more.extend(NEAR_HALF_TURNS);
    more.push(f64::TRIG_LIMIT);
    let mut points = points_f64(1, more);
    points.extend((0..6000).map(|_| random.between(-20.0, 20.0)));
    points
}

fn ratios(step: f64) -> Vec<f64> {
    let mut random = Random(8);
    let mut more: Vec<f64> = (0..400).map(|k| k as f64 * step).collect();
    more.extend((1..60).map(|k| 1.0 - 2f64.powi(-k)));
    more.extend([0.5, -0.5, 1.0, -1.0, 0.41421356237309503, 2.414213562373095]);
    let mut points = points_f64(2, more);
    points.extend((0..6000).map(|_| random.between(-1.0, 1.0)));
    points.extend((0..1000).map(|_| random.between(-9.0, 9.0)));
    points
}

/// Points for the functions that fall away beyond `far`.
fn normal_points(far: f64) -> Vec<f64> {
    let mut random = Random(9);
    let more = [0.5, 1.0, 3.0, 4.0, 6.0, far]
        .into_iter()
        .flat_map(|x| [x, -x]);
    let mut points = points_f64(3, more);
    points.extend((0..4000).map(|_| random.between(-far, far)));
    points.extend((0..4000).map(|_| random.between(-3.0, 3.0)));
    points
}

/// `x` as a big number. What `from_f64` makes of subnormal numbers is not their value.
fn big(x: f64) -> BigFloat {
    let mut big = BigFloat::from_f64(x, BITS);
    if x.is_subnormal() {
        big = BigFloat::from_f64(x * 2f64.powi(200), BITS);
        big.set_exponent(big.exponent().unwrap_or(0) - 200);
    }
    big
}

/// `truth`, with what it cannot say of infinities and of numbers so far out that only the limit is
/// left.
fn limits(x: f64, far: f64, below: f64, above: f64, truth: impl FnOnce() -> BigFloat) -> BigFloat {
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

#[test]
fn sine_is_near_the_truth() {
    check_f32("sin f32", sin, libm::sin);
    check_f64(
        "sin f64",
        sin,
        |c, x| big(x).sin(BITS, NEAREST, &mut c.0),
        angles(),
    );
}

#[test]
fn cosine_is_near_the_truth() {
    check_f32("cos f32", cos, libm::cos);
    check_f64(
        "cos f64",
        cos,
        |c, x| big(x).cos(BITS, NEAREST, &mut c.0),
        angles(),
    );
}

#[test]
fn tangent_is_near_the_truth() {
    check_f32("tan f32", tan, libm::tan);
    check_f64(
        "tan f64",
        tan,
        |c, x| big(x).tan(BITS, NEAREST, &mut c.0),
        angles(),
    );
}

#[test]
fn arc_sine_is_near_the_truth() {
    check_f32("asin f32", asin, libm::asin);
    let truth = |c: &mut Big, x: f64| {
        limits(x, 1.0, f64::NAN, f64::NAN, || {
            big(x).asin(BITS, NEAREST, &mut c.0)
        })
    };
    check_f64("asin f64", asin, truth, ratios(0.0026));
}

#[test]
fn arc_cosine_is_near_the_truth() {
    check_f32("acos f32", acos, libm::acos);
    let truth = |c: &mut Big, x: f64| {
        limits(x, 1.0, f64::NAN, f64::NAN, || {
            big(x).acos(BITS, NEAREST, &mut c.0)
        })
    };
    check_f64("acos f64", acos, truth, ratios(0.0026));
}

#[test]
fn arc_tangent_is_near_the_truth() {
    check_f32("atan f32", atan, libm::atan);
    let truth = |c: &mut Big, x: f64| {
        limits(x, 1e40, -FRAC_PI_2, FRAC_PI_2, || {
            big(x).atan(BITS, NEAREST, &mut c.0)
        })
    };
    check_f64("atan f64", atan, truth, ratios(0.007));
}

#[test]
fn error_function_is_near_the_truth() {
    check_f32("erf f32", erf, libm::erf);
    let truth = |c: &mut Big, x: f64| limits(x, 6.5, -1.0, 1.0, || c.erf(&big(x), BITS));
    check_f64("erf f64", erf, truth, normal_points(6.4));
}

#[test]
fn complementary_error_function_is_near_the_truth_into_the_subnormals() {
    check_f32("erfc f32", erfc, libm::erfc);
    let truth = |c: &mut Big, x: f64| limits(x, 27.5, 2.0, 0.0, || c.erfc(&big(x)));
    check_f64("erfc f64", erfc, truth, normal_points(27.3));
}

#[test]
fn normal_distribution_is_near_the_truth_into_the_subnormals() {
    check_f32("normal_cdf f32", normal_cdf, |x| {
        0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
    });
    let truth = |c: &mut Big, x: f64| {
        limits(x, 38.7, 0.0, 1.0, || {
            let two = BigFloat::from_word(2, 64);
            let x = big(-x).div(&two.sqrt(256, NEAREST), 256, NEAREST);
            c.erfc(&x).div(&two, 256, NEAREST)
        })
    };
    check_f64("normal_cdf f64", normal_cdf, truth, normal_points(38.6));
}

#[test]
fn angle_of_a_point_is_near_the_truth_all_around() {
    let mut random = Random(11);
    let mut worst = Worst::new();
    for _ in 0..1_000_000 {
        let bits = random.next();
        let (y, x) = (
            f32::from_bits(bits as u32),
            f32::from_bits((bits >> 32) as u32),
        );
        worst.see(
            y as f64,
            error_f32(atan2(y, x), libm::atan2(y as f64, x as f64)),
        );
    }
    worst.check("atan2 f32", F32_LIMIT);
    let (mut worst, mut c) = (Worst::new(), Big::new());
    for k in 0..20_000 {
        // Any exponents at first, then comparable ones.
        let y = f64::from_bits(random.next());
        let x = if k % 2 == 0 {
            f64::from_bits(random.next())
        } else {
            y * random.between(-4.0, 4.0)
        };
        if !(y.is_finite() && x.is_finite() && x != 0.0) {
            continue;
        }
        let mut truth = big(y)
            .div(&big(x), BITS, NEAREST)
            .atan(BITS, NEAREST, &mut c.0);
        if x < 0.0 {
            let pi = c.0.pi(BITS, NEAREST);
            let turn = if y < 0.0 { pi.neg() } else { pi };
            truth = truth.add(&turn, BITS, NEAREST);
        }
        worst.see(y, error_f64(atan2(y, x), &truth));
    }
    worst.check("atan2 f64", F64_LIMIT);
}

/// The value at each special argument, for one type.
macro_rules! special_values {
    ($test:ident, $float:ident) => {
        #[test]
        fn $test() {
            use std::$float::consts::*;
            const INFINITY: $float = $float::INFINITY;
            const NAN: $float = $float::NAN;
            let same =
                |a: $float, b: $float| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            let odd: &[(&str, fn($float) -> $float, $float, $float)] = &[
                ("sin", sin, INFINITY, NAN),
                ("tan", tan, INFINITY, NAN),
                ("sin_lane", sin_lane, INFINITY, NAN),
                ("tan_lane", tan_lane, INFINITY, NAN),
                ("asin", asin, 1.0, FRAC_PI_2),
                ("asin", asin, 1.5, NAN),
                ("asin", asin, INFINITY, NAN),
                ("atan", atan, 1.0, FRAC_PI_4),
                ("atan", atan, $float::MAX, FRAC_PI_2),
                ("atan", atan, INFINITY, FRAC_PI_2),
                ("erf", erf, INFINITY, 1.0),
            ];
            for &(name, f, x, y) in odd {
                assert!(same(f(x), y) && same(f(-x), -y), "{name} {x} is {}", f(x));
                assert!(same(f(0.0), 0.0) && same(f(-0.0), -0.0), "{name} at zero");
                assert!(
                    f(NAN).is_nan() && f(-$float::from_bits(!0 >> 1)).is_nan(),
                    "{name} NaN"
                );
            }
            let other: &[(&str, fn($float) -> $float, $float, $float)] = &[
                ("cos", cos, 0.0, 1.0),
                ("cos", cos, -0.0, 1.0),
                ("cos", cos, -INFINITY, NAN),
                ("cos_lane", cos_lane, INFINITY, NAN),
                ("acos", acos, 1.0, 0.0),
                ("acos", acos, 0.0, FRAC_PI_2),
                ("acos", acos, -1.0, PI),
                ("acos", acos, -1.5, NAN),
                ("erfc", erfc, 0.0, 1.0),
                ("erfc", erfc, INFINITY, 0.0),
                ("erfc", erfc, -INFINITY, 2.0),
                ("normal_cdf", normal_cdf, 0.0, 0.5),
                ("normal_cdf", normal_cdf, -0.0, 0.5),
                ("normal_cdf", normal_cdf, INFINITY, 1.0),
                ("normal_cdf", normal_cdf, -INFINITY, 0.0),
            ];
            for &(name, f, x, y) in other {
                assert!(same(f(x), y), "{name} {x} is {}", f(x));
                assert!(
                    f(NAN).is_nan() && f(-$float::from_bits(!0 >> 1)).is_nan(),
                    "{name} NaN"
                );
            }
            for (y, x, angle) in [
                (0.0, 0.0, 0.0),
                (0.0, -0.0, PI),
                (0.0, -1.0, PI),
                (1.0, 0.0, FRAC_PI_2),
                (1.0, -0.0, FRAC_PI_2),
                (INFINITY, 3.0, FRAC_PI_2),
                (3.0, INFINITY, 0.0),
                (3.0, -INFINITY, PI),
                (INFINITY, INFINITY, FRAC_PI_4),
                (INFINITY, -INFINITY, 3.0 * FRAC_PI_4),
                (NAN, INFINITY, NAN),
                (INFINITY, NAN, NAN),
            ] {
                assert!(
                    same(atan2(y, x), angle) && same(atan2(-y, x), -angle),
                    "{y} {x}"
                );
            }
        }
    };
}

special_values!(
    special_arguments_have_the_values_that_c_gives_them_in_f32,
    f32
);
special_values!(
    special_arguments_have_the_values_that_c_gives_them_in_f64,
    f64
);

/// `f` over a slice, compiled for each instruction set.
struct Map<'a, F, O>(&'a [F], &'a mut [F], O);

impl<F: Float, O: Fn(F) -> F> Kernel for Map<'_, F, O> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (y, &x) in self.1.iter_mut().zip(self.0) {
            *y = (self.2)(x);
        }
    }
}

fn same_bits<F: Elementary>(points: &[F]) {
    fn each<F: Elementary>(name: &str, points: &[F], map: impl Fn(&mut [F]), f: fn(F) -> F) {
        let mut out = points.to_vec();
        map(&mut out);
        for (&x, &y) in points.iter().zip(&out) {
            let z = f(x);
            let none = y.to_f64().is_nan() && z.to_f64().is_nan();
            assert!(none || y.bits() == z.bits(), "{name} {:e}", x.to_f64());
        }
    }
    macro_rules! all {
        ($($f:ident),*) => { $(
            let map = |out: &mut [F]| dispatch(Map(points, out, #[inline(always)] |x| $f(x)));
            each(stringify!($f), points, map, $f);
        )* };
    }
    all!(
        sin_lane, cos_lane, tan_lane, asin, acos, atan, erf, erfc, normal_cdf
    );
}

#[test]
fn the_copy_for_this_machine_gives_the_bits_of_the_scalar_code() {
    let mut random = Random(5);
    let doubles: Vec<f64> = (0..20_000)
        .map(|k| {
            if k % 2 == 0 {
                f64::from_bits(random.next())
            } else {
                random.between(-9.0, 9.0)
            }
        })
        .collect();
    let floats: Vec<f32> = (0..20_000)
        .map(|k| {
            if k % 2 == 0 {
                f32::from_bits(random.next() as u32)
            } else {
                doubles[k] as f32
            }
        })
        .collect();
    same_bits(&doubles);
    same_bits(&floats);
}

#[test]
fn the_copies_for_lesser_machines_give_the_same_bits_too() {
    for isa in ["base", "v3"] {
        let status = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "the_copy_for_this_machine_gives_the_bits_of_the_scalar_code",
            ])
            .env("EXTENSOR_ISA", isa)
            .status();
        assert!(status.expect("a child").success(), "EXTENSOR_ISA={isa}");
    }
}
