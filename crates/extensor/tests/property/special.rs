//! The slow reference for the special functions: sums, series and bisection, in `f64`.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::Params;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

pub const REFERENCE: Reference = Reference {
    names: &[
        "logit",
        "sinc",
        "entr",
        "lgamma",
        "digamma",
        "polygamma",
        "erfinv",
        "ndtr",
        "ndtri",
        "log_ndtr",
        "i0",
        "i0e",
        "i1",
        "i1e",
    ],
    draw,
    forward,
    backward,
};

const WILD: [f64; 22] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    0.5,
    1.0,
    -1.0,
    2.0,
    -3.0,
    0.75,
    0.999_999_9,
    1e-5,
    -1e-30,
    1e-42,
    1e-310,
    20.0,
    -4.0,
    -36.5,
    3e38,
    -3e38,
    1.7e308,
];

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let (dtype, shape) = (draw.float(), draw.shape());
    let range = match name {
        "logit" | "ndtri" => [0.0, 1.0],
        "entr" => [0.0, 3.0],
        "erfinv" => [-1.0, 1.0],
        "ndtr" | "log_ndtr" => draw.pick(&[[-3.0, 3.0], [-40.0, 8.0]]),
        "i0" | "i0e" | "i1" | "i1e" => draw.pick(&[[-3.0, 3.0], [-12.0, 12.0], [-80.0, 80.0]]),
        _ => draw.pick(&[[0.05, 5.0], [-6.0, 12.0], [0.0, 60.0]]),
    };
    let mut x = draw.array(&shape, dtype, range);
    if draw.chance(2) {
        draw.sprinkle(&mut x, &WILD);
    }
    let params = Params::new();
    let order: i64 = draw.pick(&[0, 1, 2, 3, 6]);
    (vec![x], if name == "polygamma" { params.with("n", order) } else { params })
}

/// A number, and the size of the terms it is the sum of.
#[derive(Clone, Copy)]
struct Sized {
    value: f64,
    size: f64,
}

fn plain(value: f64) -> Sized {
    Sized { value, size: value.abs() }
}

/// Whether the gamma function has a pole there.
fn is_pole(x: f64) -> bool {
    x <= 0.0 && x.is_finite() && x.floor() == x
}

const BERNOULLI: [f64; 10] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174611.0 / 330.0,
];

fn factorial(n: i32) -> f64 {
    (1..=n).map(f64::from).product()
}

/// `ψ⁽ⁿ⁾(x)`: all terms up to 40, and the asymptotic series from there.
fn psi(n: i32, x: f64) -> Sized {
    let sign = if n % 2 == 1 { 1.0 } else { -1.0 };
    if is_pole(x) {
        let infinite = if n % 2 == 1 { f64::INFINITY } else { f64::NEG_INFINITY.copysign(-x) };
        return plain(if n % 2 == 1 || x == 0.0 { infinite } else { f64::NAN });
    }
    if x == f64::NEG_INFINITY || x.is_nan() {
        return plain(f64::NAN);
    }
    let (mut sum, mut size, mut k) = (0.0, 0.0, 0);
    while x + f64::from(k) < 40.0 {
        let term = factorial(n) / (x + f64::from(k)).powi(n + 1);
        sum += term;
        size += term.abs();
        k += 1;
    }
    let y = x + f64::from(k);
    let tail = if n == 0 { -y.ln() } else { factorial(n - 1) / y.powi(n) };
    let mut rest = factorial(n) / (2.0 * y.powi(n + 1));
    for (j, b) in (1..).zip(BERNOULLI) {
        let ratio: f64 = (1..n).map(|i| f64::from(2 * j + i)).product();
        let ratio = if n == 0 { 1.0 / f64::from(2 * j) } else { ratio };
        rest += b * ratio / y.powi(2 * j + n);
    }
    let value = sign * (sum + tail + rest);
    if x < 0.0 && !value.is_finite() {
        return plain(sign * x.powi(n + 1).recip());
    }
    Sized { value, size: size + tail.abs() + rest.abs() }
}

/// `erf⁻¹ x` for x from 0 up, where `c` is `1 − x`.
fn erfinv(x: f64, c: f64) -> f64 {
    let above = |y: f64| if x < 0.5 { libm::erf(y) > x } else { libm::erfc(y) < c };
    if c == 0.0 { f64::INFINITY } else { bisect(0.0, 7.0, above) }
}

/// Where a condition begins to hold.
fn bisect(mut low: f64, mut high: f64, above: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..1100 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if above(middle) { high = middle } else { low = middle }
    }
    high
}

/// `−y` where `Φ(y) = m`, for m up to a half.
fn ndtri(m: f64) -> f64 {
    match m {
        0.0 => f64::INFINITY,
        m if m > 0.2 => bisect(0.0, 7.0, |y| 0.5 * libm::erf(y * FRAC_1_SQRT_2) > 0.5 - m),
        m => bisect(0.5, 40.0, |y| log_ndtr(-y) < m.ln()),
    }
}

fn ndtr(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

fn log_ndtr(x: f64) -> f64 {
    if x < -1e10 {
        return -0.5 * x * x;
    }
    if x < -36.0 {
        let (w, log) = (1.0 / (x * x), (-x * (2.0 * PI).sqrt()).ln());
        let series = w * (-1.0 + w * (3.0 + w * (-15.0 + w * (105.0 - 945.0 * w))));
        return -0.5 * x * x - log + series.ln_1p();
    }
    if x > 1.0 { (-ndtr(-x)).ln_1p() } else { ndtr(x).ln() }
}

fn sinc(x: f64) -> f64 {
    let r = x - x.round();
    let sign = if x.round() % 2.0 == 0.0 { 1.0 } else { -1.0 };
    if x == 0.0 { 1.0 } else { sign * (PI * r).sin() / (PI * x) }
}

fn curve(call: &Call, x: f64) -> Sized {
    match call.name {
        "logit" if x > 0.3 && x <= 1.0 => plain(((2.0 * x - 1.0) / (1.0 - x)).ln_1p()),
        "logit" => plain(x.ln() - (-x).ln_1p()),
        "sinc" => plain(sinc(x)),
        "entr" if x == 0.0 => plain(0.0),
        "entr" if x < 0.0 => plain(f64::NEG_INFINITY),
        "entr" => plain(-x * x.ln()),
        "lgamma" if x < 0.0 => {
            let value = libm::lgamma(x);
            Sized { value, size: value.abs() + 2.0 * libm::lgamma(-x).abs() + 1.0 }
        }
        "lgamma" => plain(libm::lgamma(x)),
        "digamma" => psi(0, x),
        "polygamma" => psi(call.int("n").expect("an order") as i32, x),
        "erfinv" if x.abs() > 1.0 => plain(f64::NAN),
        "erfinv" => plain(erfinv(x.abs(), 1.0 - x.abs()).copysign(x)),
        "ndtr" => Sized { value: ndtr(x), size: ndtr(x) * (1.0 + (x * x).min(2e3)) },
        "ndtri" if !(0.0..=1.0).contains(&x) => plain(f64::NAN),
        "ndtri" if x < 0.5 => plain(-ndtri(x)),
        "ndtri" => plain(ndtri(1.0 - x)),
        "log_ndtr" => {
            let value = log_ndtr(x);
            Sized { value, size: value.abs() * (1.0 + x.clamp(0.0, 50.0).powi(2)) }
        }
        "i0" | "i0e" | "i1" | "i1e" => bessel(call.name, x),
        name => panic!("no reference for {name}"),
    }
}

/// `1/π ∫ f(cos θ) dθ` from 0 to π, as the mean over equal steps, for an `f` with powers of `e^(x cos θ)` in it.
fn mean(x: f64, f: impl Fn(f64) -> f64) -> Sized {
    let n = 60 + (20.0 * x.abs().sqrt()) as usize;
    let (mut value, mut size) = (0.0, 0.0);
    for k in 0..n {
        let term = f((PI * (k as f64 + 0.5) / n as f64).cos()) / n as f64;
        value += term;
        size += term.abs();
    }
    Sized { value, size: size * (1.0 + x.abs()) }
}

fn bessel(name: &str, x: f64) -> Sized {
    let a = x.abs();
    // No number is drawn between 80 and those so large that only the first term of a series is left.
    let far = 1.0 / (2.0 * PI).sqrt() / a.sqrt();
    match name {
        "i0" if a > 700.0 => plain(f64::INFINITY),
        "i1" if a > 700.0 => plain(f64::INFINITY.copysign(x)),
        "i0e" if a > 700.0 => plain(far),
        "i1e" if a > 700.0 => plain(far.copysign(x)),
        "i0" => mean(x, |c| (x * c).cosh()),
        "i1" => mean(x, |c| c * (x * c).sinh()),
        "i0e" => mean(x, |c| (-a).exp() * (x * c).cosh()),
        _ => mean(x, |c| (-a).exp() * c * (x * c).sinh()),
    }
}

fn bessel_slope(name: &str, x: f64) -> Sized {
    let a = x.abs();
    let far = 0.5 / (2.0 * PI).sqrt() / a.sqrt() / a;
    match name {
        "i0" => bessel("i1", x),
        "i1" if a > 700.0 => plain(f64::INFINITY),
        "i1" => mean(x, |c| c * c * (x * c).cosh()),
        "i0e" if x == 0.0 => plain(0.0),
        "i0e" if a > 700.0 => plain(far.copysign(-x)),
        "i0e" => mean(x, |c| (c - 1.0) * (a * (c - 1.0)).exp() * x.signum()),
        _ if a > 700.0 => plain(-far),
        _ => mean(x, |c| c * (c - 1.0) * (a * (c - 1.0)).exp()),
    }
}

/// `φ(x)/Φ(x)`.
fn hazard(x: f64) -> Sized {
    if x < -30.0 {
        // a + 1/(a + 2/(a + 3/(…))) at a = −x
        return plain((1..40).rev().fold(-x, |below, k| -x + f64::from(k) / below));
    }
    let x = x.min(60.0);
    let value = density(x) / ndtr(x);
    Sized { value, size: value * (1.0 + x * x) }
}

/// The derivative, that 10⁻¹⁰ away at a pole, and whether it is at one; `None` where there is none.
fn slope(call: &Call, x: f64) -> Option<(Sized, bool)> {
    let least = 1e-10f64;
    let grown = |y: f64, value: f64| Sized { value, size: value * (1.0 + 2.0 * y * y) };
    let off = if is_pole(x) { least.copysign(x) } else { x };
    Some(match call.name {
        "logit" if !(0.0..=1.0).contains(&x) => return None,
        "logit" => {
            let below = x * (1.0 - x);
            let at = below == 0.0;
            (plain(1.0 / if at { least.copysign(below) } else { below }), at)
        }
        "sinc" if x.abs() < 1.0 => {
            let (mut sum, mut term) = (0.0, 1.0);
            for k in 1..30 {
                let n = f64::from(2 * k);
                term *= -(PI * x).powi(2) / (n * (n + 1.0));
                sum += n * term;
            }
            let value = if x == 0.0 { 0.0 } else { sum / x };
            let linear = if x.abs() < 1e-8 { -PI * PI / 3.0 * x } else { value };
            (Sized { value: linear, size: 4.0 * x.abs() }, false)
        }
        "sinc" => {
            let r = x - 2.0 * (0.5 * x).round();
            let (cosine, y) = ((PI * r).cos(), sinc(x));
            (Sized { value: (cosine - y) / x, size: 2.0 / x.abs() }, false)
        }
        "entr" if x < 0.0 => return None,
        "entr" => {
            let log = if x == 0.0 { least.ln() } else { x.ln() };
            (Sized { value: -log - 1.0, size: log.abs() + 1.0 }, x == 0.0)
        }
        "lgamma" if x == f64::NEG_INFINITY => return Some((plain(f64::NAN), false)),
        "lgamma" => (psi(0, off), is_pole(x)),
        "digamma" if is_pole(x) && x < 0.0 => return None,
        "digamma" => (psi(1, off), is_pole(x)),
        "polygamma" => {
            let n = call.int("n").expect("an order") as i32;
            if n % 2 == 0 && is_pole(x) && x < 0.0 {
                return None;
            }
            (psi(n + 1, off), is_pole(x))
        }
        "erfinv" if x.abs() > 1.0 => return None,
        "erfinv" => {
            let (a, at) = (x.abs(), x.abs() == 1.0);
            let y = erfinv(a, if at { least } else { 1.0 - a });
            (grown(y, (y * y).exp() / FRAC_2_SQRT_PI), at)
        }
        "ndtr" => {
            let value = density(x.clamp(-60.0, 60.0));
            (Sized { value, size: value * (1.0 + (x * x).min(4e3)) }, false)
        }
        "log_ndtr" => (hazard(x), false),
        "i0" | "i0e" | "i1" | "i1e" => (bessel_slope(call.name, x), false),
        "ndtri" if !(0.0..=1.0).contains(&x) => return None,
        "ndtri" => {
            let m = if x < 0.5 { x } else { 1.0 - x };
            let y = ndtri(if m == 0.0 { least } else { m });
            (grown(y, (0.5 * y * y).exp() * (2.0 * PI).sqrt()), m == 0.0)
        }
        name => panic!("no reference for {name}"),
    })
}

/// With an error of so many units of the working precision, and of `f64`, in which the reference is computed.
fn near(found: Sized, units: f64, dtype: DType) -> Near {
    let Sized { value, size } = found;
    if value.is_nan() || value.is_infinite() {
        return Near::exact(value);
    }
    let (work, own) = (working(dtype), 16.0 * DType::F64.epsilon());
    let coarse = if work == DType::F64 { size } else { value.abs().max(size.min(1e3)) };
    Near { value, error: units * (coarse * work.epsilon() + tiny(work)) + own * size }
}

fn forward(call: &Call) -> Vec<Expected> {
    let x = &call.inputs[0];
    let one = |&x: &f64| {
        if x.is_nan() { Near::exact(x) } else { near(curve(call, x), 6.0, x_type(call)) }
    };
    let values = Wanted::Floats(x.floats().iter().map(one).collect());
    vec![Expected { shape: x.shape.clone(), dtype: x.dtype, values }]
}

fn x_type(call: &Call) -> DType {
    call.inputs[0].dtype
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let (x, g) = (&call.inputs[0], &grads[0]);
    let dtype = x.dtype;
    let one = |(&x, &g): (&f64, &f64)| {
        if x.is_nan() || g.is_nan() {
            return Near::exact(f64::NAN);
        }
        let Some((slope, singular)) = slope(call, x) else {
            return Near::exact(if g == 0.0 { 0.0 } else { f64::NAN });
        };
        if g == 0.0 && !slope.value.is_nan() {
            return Near::exact(0.0);
        }
        let (value, size) = (g * slope.value, g.abs() * slope.size);
        let limit = dtype.max_finite();
        let held = singular && g.is_finite() && value.abs() > limit;
        let value = if held { limit.copysign(value) } else { value };
        let near = near(Sized { value, size }, 12.0, dtype);
        Near { error: near.error + 16.0 * tiny(working(dtype)) * (1.0 + g.abs()), ..near }
    };
    let values = x.floats().iter().zip(g.floats()).map(one).collect();
    vec![Some(Expected { shape: x.shape.clone(), dtype, values: Wanted::Floats(values) })]
}
