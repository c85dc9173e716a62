//! How far the trigonometric functions, their inverses and the error functions are from the truth,
//! in units of the last place of the true value.
//!
//! The truth is `libm` in `f64` for `f32`, and `astro-float` in 128 bits or more for `f64`.

mod special;
mod truth;

use astro_float::BigFloat;
use extensor_kernels::isa::{Kernel, dispatch};
use extensor_kernels::math::*;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, FRAC_PI_4, PI};
use truth::{BITS, Big, NEAREST, Random, Worst, big, error_f32, error_f64, limits};

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

fn check_f32(name: &str, f: fn(f32) -> f32, truth: fn(f64) -> f64) {
    check_f32_within(F32_LIMIT, name, f, truth);
}

fn check_f32_within(limit: f64, name: &str, f: fn(f32) -> f32, truth: fn(f64) -> f64) {
    let mut worst = Worst::new();
    let mut see = |x: f32| worst.see(x as f64, error_f32(f(x), truth(x as f64)));
    (0..=u32::MAX).step_by(2039).map(f32::from_bits).for_each(&mut see);
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
    worst.check(name, limit);
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
    let more = [0.5, 1.0, 3.0, 4.0, 6.0, far].into_iter().flat_map(|x| [x, -x]);
    let mut points = points_f64(3, more);
    points.extend((0..4000).map(|_| random.between(-far, far)));
    points.extend((0..4000).map(|_| random.between(-3.0, 3.0)));
    points
}

#[test]
fn sine_is_near_the_truth() {
    check_f32("sin f32", sin, libm::sin);
    check_f64("sin f64", sin, |c, x| big(x).sin(BITS, NEAREST, &mut c.0), angles());
}

#[test]
fn cosine_is_near_the_truth() {
    check_f32("cos f32", cos, libm::cos);
    check_f64("cos f64", cos, |c, x| big(x).cos(BITS, NEAREST, &mut c.0), angles());
}

#[test]
fn tangent_is_near_the_truth() {
    check_f32("tan f32", tan, libm::tan);
    check_f64("tan f64", tan, |c, x| big(x).tan(BITS, NEAREST, &mut c.0), angles());
}

#[test]
fn arc_sine_is_near_the_truth() {
    check_f32("asin f32", asin, libm::asin);
    let truth = |c: &mut Big, x: f64| {
        limits(x, 1.0, f64::NAN, f64::NAN, || big(x).asin(BITS, NEAREST, &mut c.0))
    };
    check_f64("asin f64", asin, truth, ratios(0.0026));
}

#[test]
fn arc_cosine_is_near_the_truth() {
    check_f32("acos f32", acos, libm::acos);
    let truth = |c: &mut Big, x: f64| {
        limits(x, 1.0, f64::NAN, f64::NAN, || big(x).acos(BITS, NEAREST, &mut c.0))
    };
    check_f64("acos f64", acos, truth, ratios(0.0026));
}

#[test]
fn arc_tangent_is_near_the_truth() {
    check_f32("atan f32", atan, libm::atan);
    let truth = |c: &mut Big, x: f64| {
        limits(x, 1e40, -FRAC_PI_2, FRAC_PI_2, || big(x).atan(BITS, NEAREST, &mut c.0))
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
    check_f32("normal_cdf f32", normal_cdf, |x| 0.5 * libm::erfc(-x * FRAC_1_SQRT_2));
    let truth = |c: &mut Big, x: f64| {
        limits(x, 38.7, 0.0, 1.0, || {
            let two = BigFloat::from_word(2, 64);
            let x = big(-x).div(&two.sqrt(256, NEAREST), 256, NEAREST);
            c.erfc(&x).div(&two, 256, NEAREST)
        })
    };
    check_f64("normal_cdf f64", normal_cdf, truth, normal_points(38.6));
}

/// What `gelu` promises: it is one of a network's layers, made of several roundings.
const GELU_LIMIT: f64 = 8.0;

#[test]
fn gelu_is_within_its_bound_into_the_subnormals() {
    check_f32_within(GELU_LIMIT, "gelu f32", gelu, |x| {
        if x == f64::NEG_INFINITY { 0.0 } else { x * 0.5 * libm::erfc(-x * FRAC_1_SQRT_2) }
    });
    // The slope has a zero at -0.7518: there its error is one of its two terms, which are as large.
    let mut worst = Worst::new();
    for k in -150_000..150_000 {
        let x = k as f32 * 1e-4;
        let wide = f64::from(x);
        let below = 0.5 * libm::erfc(-wide * FRAC_1_SQRT_2);
        let density = (-0.5 * wide * wide).exp() / (2.0 * PI).sqrt() * wide;
        let error = (f64::from(gelu_slope(x)) - (below + density)).abs();
        let unit = f64::from(f32::EPSILON) * below.max(density.abs());
        worst.see(wide, error / unit.max(f64::from(f32::from_bits(1))));
    }
    worst.check("gelu_slope f32", GELU_LIMIT);
    let truth = |c: &mut Big, x: f64| {
        limits(x, 38.7, 0.0, x, || {
            let two = BigFloat::from_word(2, 64);
            let y = big(-x).div(&two.sqrt(256, NEAREST), 256, NEAREST);
            c.erfc(&y).div(&two, 256, NEAREST).mul(&big(x), 256, NEAREST)
        })
    };
    let mut worst = Worst::new();
    let mut c = Big::new();
    for x in normal_points(38.6).into_iter().filter(|x| x.is_finite()) {
        worst.see(x, error_f64(gelu(x), &truth(&mut c, x)));
    }
    worst.check("gelu f64", GELU_LIMIT);
}

#[test]
fn angle_of_a_point_is_near_the_truth_all_around() {
    let mut random = Random(11);
    let mut worst = Worst::new();
    for _ in 0..1_000_000 {
        let bits = random.next();
        let (y, x) = (f32::from_bits(bits as u32), f32::from_bits((bits >> 32) as u32));
        worst.see(y as f64, error_f32(atan2(y, x), libm::atan2(y as f64, x as f64)));
    }
    worst.check("atan2 f32", F32_LIMIT);
    let (mut worst, mut c) = (Worst::new(), Big::new());
    for k in 0..20_000 {
        // Any exponents at first, then comparable ones.
        let y = f64::from_bits(random.next());
        let x =
            if k % 2 == 0 { f64::from_bits(random.next()) } else { y * random.between(-4.0, 4.0) };
        if !(y.is_finite() && x.is_finite() && x != 0.0) {
            continue;
        }
        let mut truth = big(y).div(&big(x), BITS, NEAREST).atan(BITS, NEAREST, &mut c.0);
        if x < 0.0 {
            let pi = c.0.pi(BITS, NEAREST);
            let turn = if y < 0.0 { pi.neg() } else { pi };
            truth = truth.add(&turn, BITS, NEAREST);
        }
        worst.see(y, error_f64(atan2(y, x), &truth));
    }
    worst.check("atan2 f64", F64_LIMIT);
}

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

/// `atan2` along a line.
#[inline(always)]
fn atan2_line<F: Elementary>(x: F) -> F {
    atan2(x, F::lit(1.5) - x)
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
        sin_lane, cos_lane, tan_lane, asin, acos, atan, erf, erfc, normal_cdf, gelu, gelu_slope,
        atan2_line
    );
}

#[test]
fn the_copy_for_this_machine_gives_the_bits_of_the_scalar_code() {
    let mut random = Random(5);
    let doubles: Vec<f64> = (0..20_000)
        .map(|k| if k % 2 == 0 { f64::from_bits(random.next()) } else { random.between(-9.0, 9.0) })
        .collect();
    let floats: Vec<f32> = (0..20_000)
        .map(|k| if k % 2 == 0 { f32::from_bits(random.next() as u32) } else { doubles[k] as f32 })
        .collect();
    same_bits(&doubles);
    same_bits(&floats);
}

#[test]
fn the_copies_for_lesser_machines_give_the_same_bits_too() {
    for isa in ["base", "v3"] {
        let status = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "the_copy_for_this_machine_gives_the_bits_of_the_scalar_code"])
            .env("EXTENSOR_ISA", isa)
            .status();
        assert!(status.expect("a child").success(), "EXTENSOR_ISA={isa}");
    }
}
