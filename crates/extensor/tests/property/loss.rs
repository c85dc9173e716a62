//! The slow reference for the family `loss`.

use crate::array::*;
use crate::classes::{backward_classes, backward_nll, draw_classes};
use crate::classes::{forward_classes, forward_nll, row_weights, weighs};
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
        "nll_loss",
        "hinge_loss",
        "focal_loss",
        "kl_divergence",
        "gaussian_nll_loss",
        "poisson_nll_loss",
        "margin_ranking_loss",
    ],
    draw,
    forward,
    backward,
};

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let mut reduction = draw.pick(&["none", "mean", "sum"]);
    if name == "kl_divergence" && draw.chance(3) {
        reduction = "batchmean";
    }
    let mut params = Params::new();
    if reduction != "mean" || draw.chance(2) {
        params = params.with("reduction", reduction);
    }
    let float = draw.float();
    if matches!(name, "cross_entropy" | "nll_loss") {
        return draw_classes(draw, name, params, float);
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
        "kl_divergence" if draw.chance(3) => {
            params = params.with("log_target", true);
            ranges = [[-6.0, 0.0]; 2];
            specials = [&[0.0, -100.0], &[0.0, -0.0, -100.0]];
        }
        "gaussian_nll_loss" => {
            params = params.with("full", draw.chance(2)).with("eps", draw.pick(&[1e-6, 0.5, 0.1]));
        }
        "poisson_nll_loss" => {
            let log_input = draw.chance(2);
            params = params.with("log_input", log_input).with("full", draw.chance(2));
            params = params.with("eps", draw.pick(&[1e-8, 0.25, 0.0]));
            ranges = [[if log_input { -4.0 } else { 0.01 }, 4.0], [0.0, 9.0]];
            specials = [&[1.0, 0.5, 0.125], &[0.0, 1.0, 2.0, 100.0]];
        }
        "margin_ranking_loss" => params = params.with("margin", draw.pick(&[0.0, 0.5, -0.25])),
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
    let mut inputs = vec![x, t];
    further(draw, name, &shape, dtypes, &mut inputs);
    (inputs, params)
}

/// Adds what a loss takes beside predictions and targets.
fn further(
    draw: &mut Draw,
    name: &str,
    shape: &[usize],
    dtypes: [DType; 2],
    inputs: &mut Vec<Array>,
) {
    match name {
        "binary_cross_entropy" | "binary_cross_entropy_with_logits" if draw.chance(2) => {
            let most = if name == "binary_cross_entropy" { 1 } else { 1 + draw.below(2) };
            for _ in 0..most {
                let shape = within(draw, shape);
                inputs.push(draw.array(&shape, dtypes[1], [0.0, 3.0]));
            }
        }
        "gaussian_nll_loss" => {
            let mut var = draw.array(shape, dtypes[1], [0.05, 3.0]);
            draw.sprinkle(&mut var, &[0.5, 0.1, 0.0, -1.0, 4.0]);
            inputs.push(var);
        }
        "margin_ranking_loss" => {
            let shape = within(draw, shape);
            let mut signs = draw.array(&shape, dtypes[0], [-1.0, 1.0]);
            if let Values::Floats(t) = &mut signs.values {
                t.iter_mut().for_each(|t| *t = 1f64.copysign(*t));
            }
            inputs.push(signs);
        }
        _ => {}
    }
}

/// A shape that broadcasts to this one.
fn within(draw: &mut Draw, shape: &[usize]) -> Vec<usize> {
    let cut = draw.below(shape.len() + 1);
    let one = |&size: &usize| if draw.chance(4) { 1 } else { size };
    shape[cut..].iter().map(one).collect()
}

/// `½·ln 2π`.
fn half_log_tau() -> f64 {
    0.5 * std::f64::consts::TAU.ln()
}

/// A number and how far a right computation may be off.
pub type Off = (f64, f64);

/// What is particular to a call: units of rounding, and parameters.
struct Place<'a> {
    call: &'a Call,
    unit: f64,
}

impl Place<'_> {
    fn param(&self, name: &str, default: f64) -> f64 {
        self.call.float(name).unwrap_or(default)
    }

    /// The loss of one element, beside the further tensors' elements.
    fn loss_of(&self, x: f64, t: f64, more: &[f64]) -> Off {
        let u = self.unit;
        match (self.call.name, more) {
            (_, []) => self.loss(x, t),
            _ if [x, t].iter().chain(more).any(|v| v.is_nan()) => (f64::NAN, 0.0),
            ("gaussian_nll_loss", &[var]) => {
                let (d, v) = (x - t, var.max(self.rounded(self.param("eps", 1e-6))));
                let parts = [0.5 * v.ln(), 0.5 * d * d / v];
                let full = if self.call.flag("full") { half_log_tau() } else { 0.0 };
                let size = parts[0].abs() + parts[1] + full;
                (parts[0] + parts[1] + full, 12.0 * u * size)
            }
            // The first, the second, and which is to be larger.
            ("margin_ranking_loss", &[sign]) => {
                let margin = self.rounded(self.param("margin", 0.0));
                let size = margin.abs() + (x - t).abs();
                ((margin - sign * (x - t)).max(0.0), 4.0 * u * size)
            }
            ("binary_cross_entropy_with_logits", &[w, ref rest @ ..]) => {
                let p = rest.first().copied().unwrap_or(1.0);
                let parts = [(1.0 - t) * softplus(x), p * t * softplus(-x)];
                let size = w.abs() * (parts[0].abs() + parts[1].abs());
                (w * (parts[0] + parts[1]), 20.0 * u * size)
            }
            (_, &[w]) => {
                let (value, off) = self.loss(x, t);
                (w * value, w.abs() * off + 2.0 * u * (w * value).abs())
            }
            (name, _) => panic!("no reference for {name}"),
        }
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
            "poisson_nll_loss" => {
                let parts = if self.flag("log_input", true) {
                    [x.exp(), -t * x]
                } else {
                    [x, -t * (x + self.rounded(self.param("eps", 1e-8))).ln()]
                };
                let mut value = parts[0] + parts[1];
                let mut size = parts[0].abs() + parts[1].abs() + t;
                if self.call.flag("full") && t > 1.0 {
                    let more = [t * t.ln(), -t, half_log_tau(), 0.5 * t.ln()];
                    value += more.iter().sum::<f64>();
                    size += more.iter().map(|v| v.abs()).sum::<f64>();
                }
                (value, 16.0 * u * size)
            }
            "kl_divergence" if self.call.flag("log_target") => {
                let (e, d) = (t.exp(), t - x);
                (e * d, 8.0 * u * e * (1.0 + d.abs() + t.abs()) + 1e-30)
            }
            "kl_divergence" if t == 0.0 => (if x.is_nan() { x } else { 0.0 }, 0.0),
            "kl_divergence" => (t * (t.ln() - x), 16.0 * u * t * (t.ln().abs() + x.abs())),
            name => panic!("no reference for {name}"),
        }
    }

    /// A switch that may not be given.
    fn flag(&self, name: &str, default: bool) -> bool {
        match self.call.param(name) {
            Value::Bool(flag) => *flag,
            _ => default,
        }
    }

    /// A parameter as it is computed with.
    fn rounded(&self, value: f64) -> f64 {
        round_to(value, if self.unit < 1e-12 { DType::F64 } else { DType::F32 })
    }

    /// The derivative by input number `which`, beside the further tensors' elements.
    fn slope_of(&self, which: usize, x: f64, t: f64, more: &[f64]) -> Off {
        let u = self.unit;
        match (self.call.name, more) {
            (_, []) => self.slope(x, t, which == 1),
            _ if [x, t].iter().chain(more).any(|v| v.is_nan()) => (f64::NAN, 0.0),
            ("gaussian_nll_loss", &[var]) => {
                let eps = self.rounded(self.param("eps", 1e-6));
                let (d, v) = (x - t, var.max(eps));
                match which {
                    0 => (d / v, 8.0 * u * (d / v).abs()),
                    1 => (-d / v, 8.0 * u * (d / v).abs()),
                    _ if var < eps => (0.0, 0.0),
                    _ => {
                        let parts = [0.5 / v, 0.5 * d * d / v / v];
                        (parts[0] - parts[1], 12.0 * u * (parts[0] + parts[1]))
                    }
                }
            }
            ("margin_ranking_loss", &[sign]) => {
                let margin = self.rounded(self.param("margin", 0.0));
                let wrong = margin - sign * (x - t);
                let pull = if which == 0 { -sign } else { sign };
                // Which side it is on may be a matter of rounding.
                let near = wrong.abs() < 8.0 * u * (margin.abs() + (x - t).abs()) && wrong != 0.0;
                (if wrong > 0.0 { pull } else { 0.0 }, if near { 1.0 } else { 0.0 })
            }
            ("binary_cross_entropy_with_logits", &[w, ref rest @ ..]) => {
                let p = rest.first().copied().unwrap_or(1.0);
                let parts = match which {
                    0 => [(1.0 - t) * sigmoid(x), -p * t * sigmoid(-x)],
                    _ => [p * softplus(-x), -softplus(x)],
                };
                // By targets it is computed from x, too, where the two parts cancel.
                let size = parts[0].abs() + parts[1].abs() + if which == 0 { 0.0 } else { x.abs() };
                (w * (parts[0] + parts[1]), 24.0 * u * w.abs() * size)
            }
            (_, &[w]) => {
                let (value, off) = self.slope(x, t, which == 1);
                (w * value, w.abs() * off + 2.0 * u * (w * value).abs())
            }
            (name, _) => panic!("no reference for {name}"),
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
            "poisson_nll_loss" if by_target => {
                let shifted = x + self.rounded(self.param("eps", 1e-8));
                let own = if self.flag("log_input", true) { -x } else { -shifted.ln() };
                let full = self.call.flag("full") && t > 1.0;
                let parts = if full { [t.ln(), 0.5 / t] } else { [0.0; 2] };
                let size = 1.0 + own.abs() + parts[0] + parts[1];
                (own + parts[0] + parts[1], 12.0 * u * size)
            }
            "poisson_nll_loss" if self.flag("log_input", true) => {
                (x.exp() - t, 8.0 * u * (x.exp() + t))
            }
            "poisson_nll_loss" => {
                let shifted = nonzero(x + self.rounded(self.param("eps", 1e-8)));
                (1.0 - t / shifted, 12.0 * u * (1.0 + t / shifted))
            }
            "kl_divergence" if self.call.flag("log_target") => {
                let e = t.exp();
                if !by_target {
                    return (-e, 12.0 * u * e * (1.0 + t.abs()) + 1e-30);
                }
                (e * (t - x + 1.0), 12.0 * u * e * (2.0 + t.abs() + x.abs()) + 1e-30)
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

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
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

/// What the sum of the losses is divided by.
fn divisor(call: &Call, word: &str, shape: &[usize], count: usize) -> f64 {
    match word {
        "mean" if weighs(call) && !call.inputs[1].dtype.is_float() => {
            let mut sum = Sum::default();
            row_weights(call).into_iter().for_each(|weight| sum.add(weight));
            sum.value()
        }
        "mean" => count as f64,
        "batchmean" => shape.first().map_or(1.0, |&n| n as f64),
        _ => 1.0,
    }
}

/// The losses of all elements in one, or as they are.
pub fn reduced(call: &Call, losses: Vec<Off>, shape: Vec<usize>, dtype: DType) -> Expected {
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
            let count = divisor(call, word, &shape, losses.len());
            let value = total.value / count;
            let mut error = total.error / count + 2.0 * half_ulp(value, DType::F64);
            if weighs(call) {
                // The sum of the weights is rounded too.
                error += 64.0 * work.epsilon() * value.abs();
            }
            (vec![], vec![Near { value, error }])
        }
    };
    Expected { shape, dtype, values: Wanted::Floats(values) }
}

fn forward(call: &Call) -> Vec<Expected> {
    if call.name == "cross_entropy" {
        return vec![forward_classes(call)];
    }
    if call.name == "nll_loss" {
        return vec![forward_nll(call)];
    }
    let dtype = call.promoted(0..call.inputs.len());
    let place = Place { call, unit: working(dtype).epsilon() / 2.0 };
    let (x, t, more) = (call.inputs[0].floats(), call.inputs[1].floats(), beside(call));
    let losses = (0..x.len()).map(|k| place.loss_of(x[k], t[k], &more[k])).collect();
    vec![reduced(call, losses, call.inputs[0].shape.clone(), dtype)]
}

/// The further tensors' numbers, for each element.
fn beside(call: &Call) -> Vec<Vec<f64>> {
    let of = |index: Vec<usize>| {
        let one = |x: &Array| x.floats()[ravel_broadcast(&index, &x.shape)];
        call.inputs[2..].iter().map(one).collect()
    };
    indices(&call.inputs[0].shape).map(of).collect()
}

/// The gradient of each of `count` losses.
pub fn spread(call: &Call, g: &Array, count: usize) -> Vec<f64> {
    match reduction(call) {
        "none" => g.floats().to_vec(),
        word => match divisor(call, word, &call.inputs[0].shape, count) {
            // Where nothing counts, nothing is moved.
            0.0 => vec![0.0; count],
            divisor => vec![g.floats()[0] / divisor; count],
        },
    }
}

/// A product of `g` and a slope, in the precision of the output's gradient.
pub fn product(g: f64, (slope, off): Off, g_dtype: DType, own: DType) -> Near {
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
    if call.name == "nll_loss" {
        return backward_nll(call, g);
    }
    let place = Place { call, unit: working(g.dtype).epsilon() / 2.0 };
    let (x, t, more) = (call.inputs[0].floats(), call.inputs[1].floats(), beside(call));
    let each = spread(call, g, x.len());
    let one = |which: usize| {
        let own = &call.inputs[which];
        let near = |k: usize| {
            product(each[k], place.slope_of(which, x[k], t[k], &more[k]), g.dtype, own.dtype)
        };
        let values = Wanted::Floats((0..x.len()).map(near).collect());
        Some(Expected { shape: own.shape.clone(), dtype: own.dtype, values })
    };
    let constant = matches!(call.name, "hinge_loss" | "focal_loss");
    let third = (call.name == "gaussian_nll_loss").then(|| one(2)).flatten();
    let mut grads = vec![one(0), if constant { None } else { one(1) }];
    grads.resize_with(call.inputs.len(), || None);
    if third.is_some() {
        grads[2] = third;
    }
    grads
}

/// What stands for 0 in a denominator.
fn nonzero(x: f64) -> f64 {
    if x == 0.0 { 1e-10 } else { x }
}
