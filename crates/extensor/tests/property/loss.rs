//! The slow reference for the family `loss`.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference, summed};
use extensor::DType;
use extensor::ops::params::{Params, Value};

pub const REFERENCE: Reference = Reference {
    names: &[
        "mean_squared_error",
        "mean_absolute_error",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cross_entropy",
        "hinge_loss",
        "focal_loss",
        "kl_divergence",
    ],
    draw,
    forward,
    backward,
};

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let reduction = draw.pick(&["none", "mean", "sum"]);
    let mut params = Params::new();
    if reduction != "mean" || draw.chance(2) {
        params = params.with("reduction", reduction);
    }
    let float = draw.float();
    if name == "cross_entropy" {
        return draw_classes(draw, params, float);
    }
    let dtypes = draw.promoting(float);
    let shape = draw.shape();
    let (mut ranges, mut specials) =
        ([[-4.0, 4.0]; 2], [&[0.0, 1.0, -1.0, 100.0][..], &[0.0, 1.0, -1.0, 0.5]]);
    match name {
        "smooth_l1_loss" => {
            params = params.with("beta", draw.pick(&[0.0, 0.7, 1.0, 2.5]));
        }
        "huber_loss" => params = params.with("delta", draw.pick(&[0.7, 1.0, 2.5])),
        "binary_cross_entropy" => {
            ranges = [[0.0, 1.0], [0.0, 1.0]];
            specials = [&[0.0, 1.0, 1e-12, 1e-5, 0.5], &[0.0, 1.0]];
        }
        "binary_cross_entropy_with_logits" => {
            ranges[1] = [0.0, 1.0];
            specials = [&[0.0, -0.0, 50.0, -50.0, 1e4, -1e4], &[0.0, 1.0]];
        }
        "focal_loss" => {
            params = params.with("alpha", draw.pick(&[0.25, 0.0, 1.0, 0.6]));
            params = params.with("gamma", draw.pick(&[2.0, 0.0, 0.5, 1.0, 3.0]));
            ranges[1] = [0.0, 1.0];
            specials = [&[0.0, -0.0, 50.0, -50.0, 1e4, -1e4], &[0.0, 1.0]];
        }
        "kl_divergence" => {
            ranges = [[-6.0, 0.0], [0.0, 1.0]];
            specials = [&[0.0, -100.0], &[0.0, -0.0, 1.0, 1e-12]];
        }
        _ => {}
    }
    let mut x = draw.array(&shape, dtypes[0], ranges[0]);
    let mut t = draw.array(&shape, dtypes[1], ranges[1]);
    if draw.chance(2) {
        draw.sprinkle(&mut x, specials[0]);
        draw.sprinkle(&mut t, specials[1]);
    }
    let hard = name == "hinge_loss" || name == "focal_loss" && draw.chance(2);
    if let (true, Values::Floats(t)) = (hard, &mut t.values) {
        let label = |t: f64| match name {
            "hinge_loss" => 1f64.copysign(t),
            _ => t.round(),
        };
        t.iter_mut().for_each(|t| *t = label(*t));
    }
    if draw.chance(8) {
        draw.sprinkle(&mut x, &[f64::NAN, 0.5]);
    }
    (vec![x, t], params)
}

fn draw_classes(draw: &mut Draw, params: Params, dtype: DType) -> (Vec<Array>, Params) {
    let mut shape = draw.shape_of(1);
    let axis = usize::from(shape.len() > 1);
    let indices = draw.chance(2);
    if indices && shape[axis] == 0 {
        shape[axis] = 3;
    }
    let spread = draw.pick(&[4.0, 4.0, 30.0, 1000.0]);
    let classes = shape[axis];
    let [one, other] = draw.promoting(dtype);
    let mut x = draw.array(&shape, one, [-spread, spread]);
    if draw.chance(8) {
        draw.sprinkle(&mut x, &[f64::NAN, 0.0]);
    }
    let params = match draw.below(4) {
        0 => params,
        _ => params.with("label_smoothing", draw.pick(&[0.0, 0.1, 0.5, 1.0])),
    };
    let targets = if indices {
        let mut rest = shape.clone();
        rest.remove(axis);
        let dtype = if classes <= 128 { draw.integer() } else { DType::I64 };
        let len = rest.iter().product();
        let values = draw.uniform(0.0, classes as f64, len);
        let number = |&v: &f64| (v as i128).min(classes as i128 - 1);
        let values = Values::Integers(values.iter().map(number).collect());
        Array { shape: rest, dtype, values }
    } else {
        let mut t = draw.array(&shape, other, [0.0, 1.0]);
        if draw.chance(2) {
            draw.sprinkle(&mut t, &[0.0, 1.0]);
        }
        t
    };
    (vec![x, targets], params)
}

/// A number and how far a right computation may be off.
type Off = (f64, f64);

/// What is particular to a call: units of rounding, and parameters.
struct Place<'a> {
    call: &'a Call,
    unit: f64,
}

impl Place<'_> {
    fn param(&self, name: &str, default: f64) -> f64 {
        self.call.float(name).unwrap_or(default)
    }

    /// The loss of one element.
    fn loss(&self, x: f64, t: f64) -> Off {
        let (u, d) = (self.unit, (x - t).abs());
        match self.call.name {
            "mean_squared_error" => (d * d, 8.0 * u * d * d),
            "mean_absolute_error" => (d, 4.0 * u * d),
            "smooth_l1_loss" => {
                let beta = self.param("beta", 1.0);
                let value = if d < beta { 0.5 * d * d / beta } else { d - 0.5 * beta };
                let straight = if d < 0.99 * beta { 0.0 } else { d + beta };
                (value, 8.0 * u * (value + straight))
            }
            "huber_loss" => {
                let delta = self.param("delta", 1.0);
                let value = if d <= delta { 0.5 * d * d } else { delta * (d - 0.5 * delta) };
                let straight = if d < 0.99 * delta { 0.0 } else { delta * (d + delta) };
                (value, 8.0 * u * (value + straight))
            }
            "binary_cross_entropy" => {
                let (yes, no) = (x.ln().max(-100.0), (-x).ln_1p().max(-100.0));
                if x.is_nan() {
                    return (x, 0.0);
                }
                let parts = [t * yes, (1.0 - t) * no];
                (-parts[0] - parts[1], 16.0 * u * (parts[0].abs() + parts[1].abs()))
            }
            "binary_cross_entropy_with_logits" => self.of_logit(x, t),
            "hinge_loss" if x.is_nan() => (x, 0.0),
            "hinge_loss" => ((1.0 - x * t).max(0.0), 4.0 * u * (1.0 + d)),
            "focal_loss" => {
                let (cost, off) = self.of_logit(x, t);
                let (weight, gamma) = self.weighed(x, t);
                (weight * cost, weight * (off + cost * (24.0 + 16.0 * gamma) * u))
            }
            "kl_divergence" if t == 0.0 => (if x.is_nan() { x } else { 0.0 }, 0.0),
            "kl_divergence" => (t * (t.ln() - x), 16.0 * u * t * (t.ln().abs() + x.abs())),
            name => panic!("no reference for {name}"),
        }
    }

    fn of_logit(&self, x: f64, t: f64) -> Off {
        if x.is_nan() {
            return (x, 0.0);
        }
        let (most, log) = (x.max(0.0), (-x.abs()).exp().ln_1p());
        (most - x * t + log, 8.0 * self.unit * (most + (x * t).abs() + log))
    }

    /// The focal loss' factor, and its exponent.
    fn weighed(&self, x: f64, t: f64) -> (f64, f64) {
        let (alpha, gamma) = (self.param("alpha", 0.25), self.param("gamma", 2.0));
        let missed = sigmoid(x) * (1.0 - t) + sigmoid(-x) * t;
        ((alpha * t + (1.0 - alpha) * (1.0 - t)) * missed.powf(gamma), gamma)
    }

    /// The derivative by the prediction, or by the target.
    fn slope(&self, x: f64, t: f64, by_target: bool) -> Off {
        let (u, d) = (self.unit, x - t);
        let sign = if by_target { -1.0 } else { 1.0 };
        if x.is_nan() && (by_target || self.call.name != "kl_divergence") {
            return (x, 0.0);
        }
        let near = |value: f64| (sign * value, 8.0 * u * value.abs());
        match self.call.name {
            "mean_squared_error" => near(2.0 * d),
            "mean_absolute_error" => near(if d == 0.0 { 0.0 } else { d.signum() }),
            "smooth_l1_loss" => {
                let beta = self.param("beta", 1.0);
                let straight = if d == 0.0 { 0.0 } else { d.signum() };
                near(if d.abs() < beta { d / beta } else { straight })
            }
            "huber_loss" => {
                let delta = self.param("delta", 1.0);
                near(d.clamp(-delta, delta))
            }
            "binary_cross_entropy" if by_target => {
                let (yes, no) = (x.ln().max(-100.0), (-x).ln_1p().max(-100.0));
                (no - yes, 16.0 * u * (no.abs() + yes.abs()))
            }
            "binary_cross_entropy" => near(d / nonzero(x * (1.0 - x))),
            "binary_cross_entropy_with_logits" if by_target => (-x, 4.0 * u * x.abs()),
            "binary_cross_entropy_with_logits" => self.beside(x, t),
            "hinge_loss" => (if x * t < 1.0 { -t } else { 0.0 }, 4.0 * u),
            "focal_loss" => {
                let (weight, gamma) = self.weighed(x, t);
                let (slope, off) = self.beside(x, t);
                let (cost, cost_off) = self.of_logit(x, t);
                let missed = sigmoid(x) * (1.0 - t) + sigmoid(-x) * t;
                let bend = sigmoid(x) * sigmoid(-x) * (1.0 - 2.0 * t) / missed;
                let bend = if missed == 0.0 { 0.0 } else { gamma * bend };
                let size = (bend * cost).abs() + slope.abs();
                let error = (24.0 + 16.0 * gamma) * u * size + bend.abs() * cost_off + off;
                // 1 − 2t may round where t is about a half, and what is left of a bend.
                let rounded = gamma * cost * 8.0 * u;
                (weight * (bend * cost + slope), weight * (error + rounded))
            }
            "kl_divergence" if by_target => {
                let log = nonzero(t).ln();
                (log + 1.0 - x, 16.0 * u * (log.abs() + 1.0 + x.abs()))
            }
            "kl_divergence" => (-t, 4.0 * u * t),
            name => panic!("no reference for {name}"),
        }
    }

    /// The probability less the target.
    fn beside(&self, x: f64, t: f64) -> Off {
        let (yes, no) = ((1.0 - t) * sigmoid(x), t * sigmoid(-x));
        (yes - no, 16.0 * self.unit * (yes + no))
    }
}

fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

fn reduction(call: &Call) -> &str {
    match call.param("reduction") {
        Value::Text(word) => word,
        _ => "mean",
    }
}

/// The losses of all elements in one, or as they are.
fn reduced(call: &Call, losses: Vec<Off>, shape: Vec<usize>, dtype: DType) -> Expected {
    let work = working(dtype);
    let below = tiny(work) * 4.0;
    let near = |&(value, error): &Off| Near { value, error: error + below };
    let (shape, values) = match reduction(call) {
        "none" => (shape, losses.iter().map(near).collect()),
        word => {
            let mut sum = Sum::default();
            losses.iter().for_each(|&(value, _)| sum.add(value));
            let error = losses.iter().map(|l| l.1 + below).sum();
            let total = summed(&sum, error, dtype);
            let count = if word == "mean" { losses.len() as f64 } else { 1.0 };
            let value = total.value / count;
            let error = total.error / count + 2.0 * half_ulp(value, DType::F64);
            (vec![], vec![Near { value, error }])
        }
    };
    Expected { shape, dtype, values: Wanted::Floats(values) }
}

fn forward(call: &Call) -> Vec<Expected> {
    if call.name == "cross_entropy" {
        return vec![forward_classes(call)];
    }
    let dtype = call.promoted(0..2);
    let place = Place { call, unit: working(dtype).epsilon() / 2.0 };
    let (x, t) = (call.inputs[0].floats(), call.inputs[1].floats());
    let losses = x.iter().zip(t).map(|(&x, &t)| place.loss(x, t)).collect();
    vec![reduced(call, losses, call.inputs[0].shape.clone(), dtype)]
}

/// The gradient of each of `count` losses.
fn spread(call: &Call, g: &Array, count: usize) -> Vec<f64> {
    match reduction(call) {
        "none" => g.floats().to_vec(),
        "mean" => vec![g.floats()[0] / count as f64; count],
        _ => vec![g.floats()[0]; count],
    }
}

/// A product of `g` and a slope, in the precision of the output's gradient.
fn product(g: f64, (slope, off): Off, g_dtype: DType, own: DType) -> Near {
    let work = working(g_dtype);
    let value = g * slope;
    let limit = g_dtype.max_finite();
    let rounding = 4.0 * work.epsilon() * value.abs() + tiny(work) * (2.0 + slope.abs());
    let narrowed = if own == g_dtype { 0.0 } else { half_ulp(value, g_dtype) };
    // Beyond the range an infinity and the largest number are both right.
    let error = g.abs() * off + rounding + narrowed;
    if value.abs() >= limit {
        Near { value: limit.copysign(value), error: limit }
    } else {
        Near { value, error }
    }
}

fn backward(call: &Call, grads: &[Array], _outputs: &[Array]) -> Vec<Option<Expected>> {
    let g = &grads[0];
    if call.name == "cross_entropy" {
        return backward_classes(call, g);
    }
    let place = Place { call, unit: working(g.dtype).epsilon() / 2.0 };
    let (x, t) = (call.inputs[0].floats(), call.inputs[1].floats());
    let each = spread(call, g, x.len());
    let one = |which: usize| {
        let own = &call.inputs[which];
        let near =
            |k: usize| product(each[k], place.slope(x[k], t[k], which == 1), g.dtype, own.dtype);
        let values = Wanted::Floats((0..x.len()).map(near).collect());
        Some(Expected { shape: own.shape.clone(), dtype: own.dtype, values })
    };
    let constant = matches!(call.name, "hinge_loss" | "focal_loss");
    vec![one(0), if constant { None } else { one(1) }]
}

/// A row of scores: which elements they are, and the sum of their exponentials.
struct Scores {
    at: Vec<usize>,
    most: f64,
    /// `Σ e^(x − most)`, and the error of its logarithm.
    sum: f64,
    off: f64,
    /// What they should be, smoothed.
    targets: Vec<f64>,
}

fn scores(call: &Call, dtype: DType) -> Vec<Scores> {
    let (x, targets) = (&call.inputs[0], &call.inputs[1]);
    let axis = usize::from(x.shape.len() > 1);
    let (classes, inner) = (x.shape[axis], x.shape[axis + 1..].iter().product::<usize>());
    let outer: usize = x.shape[..axis].iter().product();
    let smoothing = call.float("label_smoothing").unwrap_or(0.0);
    let unit = working(dtype).epsilon() / 2.0;
    let mut rows = Vec::new();
    for row in 0..outer * inner {
        let start = row / inner * classes * inner + row % inner;
        let at: Vec<usize> = (0..classes).map(|c| start + c * inner).collect();
        let values: Vec<f64> = at.iter().map(|&k| x.floats()[k]).collect();
        let most = values
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || a > b { a } else { b });
        let mut sum = 0.0;
        let mut off = 0.0;
        for v in &values {
            let e = (v - most).exp();
            sum += e;
            off += e * (most - v + 10.0) * unit;
        }
        let target = |c: usize| {
            let own = match &targets.values {
                Values::Floats(t) => t[at[c]],
                Values::Integers(k) => f64::from(k[row] == c as i128),
            };
            (1.0 - smoothing) * own + smoothing / classes as f64
        };
        let targets = (0..classes).map(target).collect();
        rows.push(Scores { most, off: off / sum, sum, targets, at });
    }
    rows
}

/// The float inputs' dtype.
fn class_dtype(call: &Call) -> DType {
    let float = call.inputs[1].dtype.is_float();
    call.promoted(0..if float { 2 } else { 1 })
}

fn forward_classes(call: &Call) -> Expected {
    let x = &call.inputs[0];
    let dtype = class_dtype(call);
    let unit = DType::F64.epsilon() / 2.0;
    let loss = |row: &Scores| -> Off {
        let n = row.at.len() as f64;
        if n == 0.0 {
            return (0.0, 0.0);
        }
        let mut value = Sum::default();
        let mut whole = 0.0;
        for (&k, &t) in row.at.iter().zip(&row.targets) {
            let far = row.most - x.floats()[k] + row.sum.ln();
            value.add(if t == 0.0 && !far.is_nan() { 0.0 } else { t * far });
            whole += t;
        }
        let rounding = (n + 16.0) * 2.0 * unit * (value.size + whole * row.sum.ln().abs());
        let log = if whole == 0.0 { 0.0 } else { whole * (row.off + 8.0 * unit) };
        (value.value(), log + rounding)
    };
    let losses = scores(call, dtype).iter().map(loss).collect();
    let mut shape = x.shape.clone();
    shape.remove(usize::from(shape.len() > 1));
    reduced(call, losses, shape, dtype)
}

fn backward_classes(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let (x, targets) = (&call.inputs[0], &call.inputs[1]);
    let u = working(g.dtype).epsilon() / 2.0;
    let rows = scores(call, class_dtype(call));
    let each = spread(call, g, rows.len());
    let kept = 1.0 - call.float("label_smoothing").unwrap_or(0.0);
    let mut grads = [vec![Near::exact(0.0); x.len()], vec![Near::exact(0.0); x.len()]];
    for (row, &g_row) in rows.iter().zip(&each) {
        let whole: f64 = row.targets.iter().sum();
        for (&k, &t) in row.at.iter().zip(&row.targets) {
            let far = row.most - x.floats()[k];
            let p = (-far).exp() / row.sum * whole;
            let off = p * ((far + 24.0 + row.at.len() as f64) * u + 2.0 * row.off) + 8.0 * u * t;
            grads[0][k] = product(g_row, (p - t, off), g.dtype, x.dtype);
            let log = far + row.sum.ln();
            let off = kept * (2.0 * row.off + 8.0 * u * log);
            grads[1][k] = product(g_row, (kept * log, off), g.dtype, targets.dtype);
        }
    }
    let [dx, dt] = grads;
    let expected = |own: &Array, values| {
        let (shape, dtype) = (own.shape.clone(), own.dtype);
        Some(Expected { shape, dtype, values: Wanted::Floats(values) })
    };
    vec![expected(x, dx), if targets.dtype.is_float() { expected(targets, dt) } else { None }]
}

/// What stands for 0 in a denominator.
fn nonzero(x: f64) -> f64 {
    if x == 0.0 { 1e-10 } else { x }
}
