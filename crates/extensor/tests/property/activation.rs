//! The slow reference for the family `activation`: formulas from the textbook, in `f64`.

use crate::array::*;
use crate::draw::Draw;
use crate::generate;
use crate::reference::{Call, Reference, reduced};
use extensor::DType;
use extensor::ops::params::Params;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

pub const REFERENCE: Reference = Reference {
    names: &[
        "relu",
        "relu6",
        "leaky_relu",
        "prelu",
        "elu",
        "selu",
        "sigmoid",
        "tanh",
        "gelu",
        "swish",
        "mish",
        "softplus",
        "softsign",
        "log_sigmoid",
        "hard_sigmoid",
        "hard_swish",
        "hard_tanh",
        "celu",
        "hardshrink",
        "softshrink",
        "tanhshrink",
        "threshold",
        "glu",
        "softmax",
        "log_softmax",
    ],
    draw,
    forward,
    backward,
};

const LAMBDA: f64 = 1.0507009873554804934193349852946;
const ALPHA: f64 = 1.6732632423543772848170429916717;

/// Values at which these functions are likely to be wrong, in their tails above all.
const WILD: [f64; 24] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    3.0,
    -3.0,
    6.0,
    -1.0,
    1e-5,
    -1e-30,
    1e-42,
    20.0,
    -20.0,
    -36.0,
    -88.0,
    -104.0,
    -700.0,
    -1e4,
    1e4,
    3e38,
    -3e38,
    1.7e308,
    -1e300,
];
const TAME: [f64; 18] = [
    0.0, -0.0, 3.0, -3.0, 6.0, 1e-12, -1e-40, 12.0, -12.0, 37.0, -37.0, -85.0, 100.0, -100.0,
    -720.0, 800.0, -1e4, 1e4,
];

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let whole = matches!(name, "relu" | "threshold");
    let dtype = if whole { draw.number() } else { draw.float() };
    if name == "glu" {
        return halved(draw, dtype);
    }
    if matches!(name, "softmax" | "log_softmax") {
        return rows(draw, dtype);
    }
    let shape = draw.shape();
    let [one, other] = if name == "prelu" { draw.promoting(dtype) } else { [dtype; 2] };
    let span = draw.pick(&[4.0, 8.0, 40.0]);
    let mut x = draw.array(&shape, one, [-span, span]);
    let specials: &[f64] = if draw.chance(2) { &WILD } else { &TAME };
    draw.sprinkle(&mut x, specials);
    let mut params = Params::new();
    match name {
        "leaky_relu" | "elu" if !draw.chance(4) => {
            params = params.with("alpha", draw.pick(&[0.01, 1.0, 0.0, -0.3, 1.3, 2.0]));
        }
        "hard_tanh" if !draw.chance(4) => {
            let low = draw.pick(&[-3.0, -1.0, 0.0, 0.7]);
            params = params.with("min", low).with("max", low + draw.pick(&[0.0, 1.0, 2.5]));
        }
        "celu" if !draw.chance(4) => {
            params = params.with("alpha", draw.pick(&[1.0, 0.01, 0.3, 1.3, 7.0]));
        }
        "softplus" if !draw.chance(4) => {
            params = params.with("beta", draw.pick(&[1.0, 0.01, 0.3, 1.7, 20.0]));
        }
        "hardshrink" | "softshrink" if !draw.chance(4) => {
            params = params.with("lambd", draw.pick(&[0.5, 0.0, 0.7, 3.0]));
        }
        "threshold" => {
            // Whole numbers take whole ones.
            let [at, value] = if dtype.is_float() { [0.7, -20.5] } else { [3.0, 7.0] };
            let (at, value) = (draw.pick(&[0.0, 1.0, at]), draw.pick(&[0.0, value]));
            params = params.with("threshold", at).with("value", value);
        }
        "gelu" => params = params.with("approximate", draw.chance(2)),
        "prelu" => {
            let shape = draw.partner(&shape);
            let mut alpha = draw.array(&shape, other, [-1.0, 1.0]);
            draw.sprinkle(&mut alpha, &[0.0, 0.25, -0.0, 1.0]);
            return (vec![x, alpha], params);
        }
        _ => {}
    }
    (vec![x], params)
}

/// An input with an even size along an axis.
fn halved(draw: &mut Draw, dtype: DType) -> (Vec<Array>, Params) {
    let mut shape = draw.shape_of(1);
    let axis = generate::axis(draw, shape.len());
    let at = axis.rem_euclid(shape.len() as i64) as usize;
    shape[at] = shape[at] / 2 * 2;
    let mut x = draw.array(&shape, dtype, [-8.0, 8.0]);
    if draw.chance(2) {
        draw.sprinkle(&mut x, &[0.0, -0.0, 30.0, -30.0, -100.0, 1e4, f64::NAN]);
    }
    // The last, if none is given.
    let last = at + 1 == shape.len() && draw.chance(2);
    (vec![x], if last { Params::new() } else { Params::new().with("axis", axis) })
}

/// `x − tanh x`: where it is small from the series of `x·cosh x − sinh x`, `Σ x²ᵏ⁺¹·2k/(2k + 1)!`.
fn tanhshrink(x: f64) -> f64 {
    if x.abs() > 1.0 {
        return x - x.tanh();
    }
    let (mut sum, mut term) = (0.0, x);
    for k in 1..20 {
        let k = f64::from(k);
        term *= x * x / (2.0 * k) / (2.0 * k + 1.0);
        sum += 2.0 * k * term;
    }
    sum / x.cosh()
}

fn rows(draw: &mut Draw, dtype: DType) -> (Vec<Array>, Params) {
    let shape = draw.shape_of(1);
    let span = draw.pick(&[3.0, 30.0, 2e3]);
    let mut x = draw.array(&shape, dtype, [-span, span]);
    match draw.below(4) {
        0 => draw.sprinkle(&mut x, &[f64::NEG_INFINITY, 1e4]),
        1 if draw.chance(2) => {
            draw.sprinkle(&mut x, &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0]);
        }
        2 => draw.sprinkle(&mut x, &[-1e4, 1e4, 1e4, 0.0]),
        _ => {}
    }
    let axis = generate::axis(draw, shape.len());
    // The last, if none is given.
    let params = Params::new();
    (vec![x], if draw.chance(5) { params } else { params.with("axis", axis) })
}

fn sigmoid(x: f64) -> f64 {
    if x < -40.0 { x.exp() } else { 1.0 / (1.0 + (-x).exp()) }
}

fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

/// The normal distribution function, and its density.
fn normal(x: f64) -> (f64, f64) {
    (0.5 * libm::erfc(-x * FRAC_1_SQRT_2), (-0.5 * x * x).exp() / (2.0 * PI).sqrt())
}

/// `2u` of the approximate gelu and its derivative.
fn exponent(x: f64) -> (f64, f64) {
    let c = 2.0 * (2.0 / PI).sqrt();
    (c * (x + 0.044715 * x * x * x), c * (1.0 + 3.0 * 0.044715 * x * x))
}

/// `a·b`, where nothing times an infinity is nothing.
fn times(a: f64, b: f64) -> f64 {
    if (a == 0.0 && b.is_infinite()) || (b == 0.0 && a.is_infinite()) { 0.0 } else { a * b }
}

/// A sum of terms of this size altogether, with an error of so many units of the working precision
/// and so many of `f64`, in which the reference itself is computed.
fn near(value: f64, size: f64, units: f64, own: f64, dtype: DType) -> Near {
    let work = working(dtype);
    if value.is_nan() || value.is_infinite() {
        return Near::exact(value);
    }
    let relative = units * work.epsilon() + own * DType::F64.epsilon();
    Near { value, error: size * relative + units * tiny(work) }
}

/// The bound of a shrinkage, as it is computed with.
fn lambd(call: &Call, dtype: DType) -> f64 {
    round_to(call.float("lambd").unwrap_or(0.5), working(dtype))
}

/// Where the halves of the numbers of a gated linear unit's result are in its input.
fn pairs_of(call: &Call) -> (Vec<usize>, Vec<[usize; 2]>) {
    let shape = &call.inputs[0].shape;
    let axis = call.int("axis").map_or(shape.len() - 1, |_| call.axis("axis", shape.len()));
    let mut half = shape.clone();
    half[axis] /= 2;
    let place = |mut index: Vec<usize>| {
        let first = ravel(&index, shape);
        index[axis] += half[axis];
        [first, ravel(&index, shape)]
    };
    let places = indices(&half).map(place).collect();
    (half, places)
}

/// The function of one number.
fn curve(call: &Call, x: f64, dtype: DType) -> Near {
    let alpha = |default: f64| call.float("alpha").unwrap_or(default);
    let plain = |value: f64| near(value, value.abs(), 4.0, 3.0, dtype);
    if x.is_nan() {
        return Near::exact(x);
    }
    let held = x.clamp(-2e3, 2e3);
    match call.name {
        "relu" => Near::exact(x.max(0.0)),
        "relu6" => Near::exact(x.clamp(0.0, 6.0)),
        "leaky_relu" => {
            let a = alpha(0.01);
            if x > 0.0 { Near::exact(x) } else { plain(times(a, x)) }
        }
        "elu" => {
            if x > 0.0 {
                Near::exact(x)
            } else {
                plain(alpha(1.0) * x.exp_m1())
            }
        }
        "selu" => plain(LAMBDA * if x > 0.0 { x } else { ALPHA * x.exp_m1() }),
        "sigmoid" => plain(sigmoid(x)),
        "tanh" => plain(x.tanh()),
        "gelu" if call.flag("approximate") => {
            let (twice, _) = exponent(held);
            let value = times(x, sigmoid(twice));
            let error = 8.0 * value.abs();
            let near = near(value, error, 1.0, twice.abs().min(800.0), dtype);
            // A factor that is below the smallest normal number.
            Near { error: near.error + held.abs() * tiny(working(dtype)), ..near }
        }
        "gelu" => {
            let value = times(x, normal(x).0);
            let near = near(value, value.abs(), 8.0, 10.0 + (x * x).min(2000.0), dtype);
            Near { error: near.error + held.abs() * tiny(working(dtype)), ..near }
        }
        "swish" => {
            let near = plain(times(x, sigmoid(x)));
            Near { error: near.error + held.abs() * tiny(working(dtype)), ..near }
        }
        "mish" => {
            let value = times(x, softplus(x).tanh());
            let near = near(value, value.abs(), 8.0, 6.0, dtype);
            Near { error: near.error + held.abs() * 8.0 * tiny(working(dtype)), ..near }
        }
        "softplus" => {
            let beta = round_to(call.float("beta").unwrap_or(1.0), working(dtype));
            let z = beta * x;
            let value = x.max(0.0) + softplus(-z.abs()) / beta;
            let near = near(value, value, 5.0, 4.0 + z.abs().min(1e3), dtype);
            // What is below the smallest normal number is magnified.
            Near { error: near.error + 4.0 * tiny(working(dtype)) / beta, ..near }
        }
        "celu" => {
            let scale = round_to(alpha(1.0), working(dtype));
            let z = x / scale;
            if x > 0.0 {
                Near::exact(x)
            } else {
                let value = scale * z.exp_m1();
                near(value, value.abs(), 4.0, 5.0, dtype)
            }
        }
        "hardshrink" => Near::exact(if x.abs() <= lambd(call, dtype) { 0.0 } else { x }),
        "softshrink" => {
            let bound = lambd(call, dtype);
            let less = x.abs() - bound;
            let size = if less < 0.0 { 0.0 } else { less };
            near(size.copysign(x), size, 0.5, 1.0, dtype)
        }
        "tanhshrink" => {
            let value = tanhshrink(x);
            near(value, value.abs(), 4.0, 8.0, dtype)
        }
        "threshold" => {
            let at = round_to(call.float("threshold").unwrap_or(0.0), working(dtype));
            Near::exact(if x > at { x } else { call.float("value").unwrap_or(0.0) })
        }
        "log_sigmoid" => plain(-softplus(-x)),
        "softsign" => plain(if x.is_infinite() { x.signum() } else { x / (1.0 + x.abs()) }),
        "hard_sigmoid" => plain((x + 3.0).clamp(0.0, 6.0) / 6.0),
        "hard_swish" => plain(times(x, (x + 3.0).clamp(0.0, 6.0) / 6.0)),
        "hard_tanh" => {
            let bound = |name: &str, default: f64| {
                round_to(call.float(name).unwrap_or(default), working(dtype))
            };
            Near::exact(x.max(bound("min", -1.0)).min(bound("max", 1.0)))
        }
        name => panic!("no reference for {name}"),
    }
}

/// `g` times the derivative at a finite `x`, where the output was `y`.
fn slope(call: &Call, g: f64, x: f64, y: f64, dtype: DType) -> Near {
    let alpha = |default: f64| call.float("alpha").unwrap_or(default);
    let work = working(dtype);
    // A slope that is below the smallest normal number is magnified by g and x.
    let low = |near: Near, by: f64| {
        let below = 8.0 * tiny(work) * (1.0 + g.abs()) * (1.0 + by.abs().min(2e3));
        Near { error: near.error + below, ..near }
    };
    let plain = |value: f64| low(near(value, value.abs(), 6.0, 4.0, dtype), 1.0);
    // A sum of two terms that may cancel.
    let sum = |a: f64, b: f64, units: f64, own: f64| {
        let (a, b) = (g * a, times(g, b));
        low(near(a + b, a.abs() + b.abs(), units, own, dtype), x)
    };
    if x.is_nan() || y.is_nan() {
        return Near::exact(f64::NAN);
    }
    let pass = |yes: bool| Near::exact(if yes { g } else { 0.0 });
    match call.name {
        "relu" => pass(x > 0.0),
        "relu6" => pass(x > 0.0 && x < 6.0),
        "leaky_relu" => {
            if x > 0.0 {
                Near::exact(g)
            } else {
                plain(g * alpha(0.01))
            }
        }
        "elu" => {
            if x > 0.0 {
                Near::exact(g)
            } else {
                plain(g * alpha(1.0) * x.exp())
            }
        }
        "selu" => plain(g * LAMBDA * if x > 0.0 { 1.0 } else { ALPHA * x.exp() }),
        "sigmoid" => plain(g * (y * (1.0 - y))),
        "tanh" => plain(g * (1.0 - y) * (1.0 + y)),
        "gelu" if call.flag("approximate") => {
            let near = x.clamp(-100.0, 100.0);
            let (twice, speed) = exponent(near);
            let step = sigmoid(twice);
            let bump = step * sigmoid(-twice);
            // The slope of the step is magnified by more than x.
            let own = 12.0 + 2.0 * twice.abs().min(800.0);
            low(sum(step, near * speed * bump, 12.0, own), near * speed)
        }
        "gelu" => {
            let (step, bump) = normal(x);
            sum(step, times(x, bump), 12.0, 12.0 + (x * x).min(2000.0))
        }
        "swish" => sum(sigmoid(x), times(x, sigmoid(x) * sigmoid(-x)), 10.0, 8.0),
        "mish" => {
            let plus = softplus(x);
            let bump = sigmoid(x) / plus.cosh() / plus.cosh();
            sum(plus.tanh(), times(x, bump), 16.0, 12.0 + plus.min(1e3))
        }
        "softplus" => {
            let z = round_to(call.float("beta").unwrap_or(1.0), work) * x;
            let value = g * sigmoid(z);
            low(near(value, value.abs(), 6.0, 5.0 + z.abs().min(1e3), dtype), 1.0)
        }
        "celu" => {
            let z = x / round_to(alpha(1.0), work);
            if x > 0.0 {
                Near::exact(g)
            } else {
                let value = g * z.exp();
                low(near(value, value.abs(), 6.0, 5.0 + z.abs().min(1e3), dtype), 1.0)
            }
        }
        "hardshrink" | "softshrink" => {
            let bound = lambd(call, dtype);
            pass(bound == 0.0 || x.abs() > bound)
        }
        "tanhshrink" => plain(g * x.tanh() * x.tanh()),
        "threshold" => pass(x > round_to(call.float("threshold").unwrap_or(0.0), working(dtype))),
        "log_sigmoid" => plain(g * sigmoid(-x)),
        "softsign" => plain(g / (1.0 + x.abs()) / (1.0 + x.abs())),
        "hard_sigmoid" => {
            if x > -3.0 && x < 3.0 {
                plain(g / 6.0)
            } else {
                Near::exact(0.0)
            }
        }
        "hard_swish" => {
            if x > -3.0 && x < 3.0 {
                plain(g * (2.0 * x + 3.0) / 6.0)
            } else {
                pass(x > 0.0)
            }
        }
        "hard_tanh" => {
            let bound = |name: &str, default: f64| {
                round_to(call.float(name).unwrap_or(default), working(dtype))
            };
            pass(bound("min", -1.0) < x && x < bound("max", 1.0))
        }
        name => panic!("no reference for {name}"),
    }
}

fn forward(call: &Call) -> Vec<Expected> {
    let x = &call.inputs[0];
    let shape = x.shape.clone();
    let dtype = call.promoted(0..call.inputs.len());
    if call.name == "glu" {
        let (shape, places) = pairs_of(call);
        let one = |[a, b]: [usize; 2]| {
            let (a, b) = (x.floats()[a], x.floats()[b]);
            let value = a * sigmoid(b);
            let near = near(value, value.abs(), 6.0, 4.0, dtype);
            Near { error: near.error + 4.0 * tiny(working(dtype)) * a.abs().min(1e5), ..near }
        };
        let values = Wanted::Floats(places.into_iter().map(one).collect());
        return vec![Expected { shape, dtype, values }];
    }
    let values = match (&x.values, call.name) {
        (Values::Integers(v), "threshold") => {
            let [at, value] = ["threshold", "value"].map(|p| call.float(p).unwrap_or(0.0) as i128);
            Wanted::Integers(v.iter().map(|&v| if v > at { v } else { value }).collect())
        }
        (Values::Integers(v), _) => Wanted::Integers(v.iter().map(|&v| v.max(0)).collect()),
        (Values::Floats(v), "prelu") => {
            let alpha = &call.inputs[1];
            let mut values = Vec::new();
            walk(&shape, |index| {
                let a = alpha.floats()[ravel_broadcast(index, &alpha.shape)];
                let x = v[values.len()];
                let value = if x > 0.0 { x } else { times(a, x) };
                values.push(Near::exact(value));
            });
            Wanted::Floats(values)
        }
        (Values::Floats(_), "softmax" | "log_softmax") => {
            Wanted::Floats(over_rows(call, x, |row| softmax(call, row, dtype)))
        }
        (Values::Floats(v), _) => {
            Wanted::Floats(v.iter().map(|&x| curve(call, x, dtype)).collect())
        }
    };
    vec![Expected { shape, dtype, values }]
}

fn backward(call: &Call, grads: &[Array], outputs: &[Array]) -> Vec<Option<Expected>> {
    let (x, g, y) = (&call.inputs[0], &grads[0], &outputs[0]);
    if call.name == "prelu" {
        let gradient = |which: usize| {
            let term = |index: &[usize], k: usize| {
                let alpha = &call.inputs[1];
                let a = alpha.floats()[ravel_broadcast(index, &alpha.shape)];
                let (x, g) = (x.floats()[k], g.floats()[k]);
                let value = match which {
                    _ if x.is_nan() => x,
                    0 if x > 0.0 => g,
                    0 => g * a,
                    _ if x > 0.0 => 0.0,
                    _ => g * x,
                };
                (value, 0.0)
            };
            Some(reduced(&call.inputs[which], g, term))
        };
        return vec![gradient(0), gradient(1)];
    }
    let (shape, dtype) = (x.shape.clone(), x.dtype);
    if call.name == "glu" {
        let (_, places) = pairs_of(call);
        let mut values = vec![Near::exact(0.0); x.len()];
        for ([a, b], &g) in places.into_iter().zip(g.floats()) {
            let (first, second) = (x.floats()[a], x.floats()[b]);
            let [up, down] = [sigmoid(second), sigmoid(-second)];
            let below = 8.0 * tiny(working(dtype)) * (1.0 + g.abs()) * (1.0 + first.abs().min(1e5));
            for (k, value) in [(a, g * up), (b, times(g, first * up * down))] {
                let near = near(value, value.abs(), 8.0, 6.0, dtype);
                values[k] = Near { error: near.error + below, ..near };
            }
        }
        return vec![Some(Expected { shape, dtype, values: Wanted::Floats(values) })];
    }
    let values = if matches!(call.name, "softmax" | "log_softmax") {
        let numbers: Vec<f64> = (0..x.len()).map(|k| k as f64).collect();
        let numbers = Array { shape: shape.clone(), dtype, values: Values::Floats(numbers) };
        over_rows(call, &numbers, |row| {
            let of = |list: &Array| row.iter().map(|&k| list.floats()[k as usize]).collect();
            softmax_gradient(call, of(g), of(y), dtype)
        })
    } else {
        let all = x.floats().iter().zip(g.floats()).zip(y.floats());
        all.map(|((&x, &g), &y)| slope(call, g, x, y, dtype)).collect()
    };
    vec![Some(Expected { shape, dtype, values: Wanted::Floats(values) })]
}

/// What `rule` makes of each row along the call's axis.
fn over_rows(call: &Call, x: &Array, rule: impl Fn(&[f64]) -> Vec<Near>) -> Vec<Near> {
    let ndim = x.shape.len();
    let axis = call.int("axis").map_or(ndim - 1, |_| call.axis("axis", ndim));
    let (n, inner): (usize, usize) = (x.shape[axis], x.shape[axis + 1..].iter().product());
    let mut out = vec![Near::exact(0.0); x.len()];
    for start in (0..x.len()).filter(|k| k / inner % n == 0) {
        let row: Vec<f64> = (0..n).map(|i| x.floats()[start + inner * i]).collect();
        let results = rule(&row);
        results.into_iter().enumerate().for_each(|(i, near)| out[start + inner * i] = near);
    }
    out
}

/// How many roundings a term of a sum in blocks passes through at most.
fn depth(n: usize) -> f64 {
    (n as f64).min(40.0)
}

fn softmax(call: &Call, x: &[f64], dtype: DType) -> Vec<Near> {
    let (work, unit) = (working(dtype), working(dtype).epsilon() / 2.0);
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top.is_infinite() || x.iter().any(|x| x.is_nan()) {
        return vec![Near::exact(f64::NAN); x.len()];
    }
    // All terms but one, which is 1.
    let first = x.iter().position(|&x| x == top).expect("a largest number");
    let (mut rest, mut bent) = (Sum::default(), 0.0);
    for (_, x) in x.iter().enumerate().filter(|(i, _)| *i != first) {
        let e = (x - top).exp();
        rest.add(e);
        if e > 0.0 {
            bent += (top - x) * e;
        }
    }
    let (total, log) = (1.0 + rest.value(), rest.value().ln_1p());
    let bent = bent / total;
    let one = |&x: &f64| {
        let below = top - x;
        if call.name == "softmax" {
            let value = (-below).exp() / total;
            let roundings = depth(call.inputs[0].len()) + 16.0 + below.min(2e3) + bent;
            Near { value, error: roundings * (unit * value + tiny(work)) }
        } else if below.is_infinite() {
            Near::exact(f64::NEG_INFINITY)
        } else {
            let value = -below - log;
            let logarithm = (depth(call.inputs[0].len()) + 16.0) * log + bent;
            let error = unit * (2.0 * below + 2.0 * value.abs() + logarithm);
            Near { value, error: error + 4.0 * tiny(work) }
        }
    };
    x.iter().map(one).collect()
}

fn softmax_gradient(call: &Call, g: Vec<f64>, y: Vec<f64>, dtype: DType) -> Vec<Near> {
    let (work, unit) = (working(dtype), working(dtype).epsilon() / 2.0);
    let mut sum = Sum::default();
    for (&g, &y) in g.iter().zip(&y) {
        if call.name == "softmax" { sum.add_product(g, y) } else { sum.add(g) }
    }
    let (total, depth) = (sum.value(), depth(g.len()));
    let one = |(&g, &y): (&f64, &f64)| {
        let (value, error) = if call.name == "softmax" {
            let error = (depth + 4.0) * sum.size + 3.0 * (g.abs() + total.abs());
            (y * (g - total), y.abs() * (unit * error + depth * tiny(work)))
        } else {
            let value = g - y.exp() * total;
            let error = (depth + 10.0) * y.exp() * sum.size + 2.0 * value.abs() + g.abs();
            (value, unit * error + tiny(work) * total.abs())
        };
        Near { value, error: error + 4.0 * tiny(work) }
    };
    g.iter().zip(&y).map(one).collect()
}
