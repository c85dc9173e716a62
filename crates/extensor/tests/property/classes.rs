//! The slow reference for losses of classes.

use crate::array::*;
use crate::draw::Draw;
use crate::loss::{Off, product, reduced, spread};
use crate::reference::Call;
use extensor::DType;
use extensor::ops::params::Params;

pub fn draw_classes(
    draw: &mut Draw,
    name: &str,
    mut params: Params,
    dtype: DType,
) -> (Vec<Array>, Params) {
    let mut shape = draw.shape_of(1);
    let axis = usize::from(shape.len() > 1);
    let indices = name == "nll_loss" || draw.chance(2);
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
    if name == "cross_entropy" && !draw.chance(4) {
        params = params.with("label_smoothing", draw.pick(&[0.0, 0.1, 0.5, 1.0]));
    }
    let ignore = (indices && draw.chance(2)).then(|| draw.pick(&[-100i64, 1, 0]));
    if let Some(ignore) = ignore {
        params = params.with("ignore_index", ignore);
    }
    let weight = draw.chance(2).then(|| {
        let mut weight = draw.array(&[classes], one, [0.1, 2.0]);
        draw.sprinkle(&mut weight, &[1.0]);
        weight
    });
    let targets = if indices {
        let mut rest = shape.clone();
        rest.remove(axis);
        let dtype = if classes <= 128 { draw.integer() } else { DType::I64 };
        let len = rest.iter().product();
        let values = draw.uniform(0.0, classes as f64, len);
        let none = ignore.filter(|&k| k < 0 && dtype.integer_range().0 <= i128::from(k));
        let number = |&v: &f64| match none {
            Some(none) if v.fract() < 0.2 => i128::from(none),
            _ => (v as i128).min(classes as i128 - 1),
        };
        let values = Values::Integers(values.iter().map(number).collect());
        Array { shape: rest, dtype, values }
    } else {
        let mut t = draw.array(&shape, other, [0.0, 1.0]);
        if draw.chance(2) {
            draw.sprinkle(&mut t, &[0.0, 1.0]);
        }
        t
    };
    (vec![x, targets].into_iter().chain(weight).collect(), params)
}

/// Whether rows are not all alike.
pub fn weighs(call: &Call) -> bool {
    let classes = matches!(call.name, "cross_entropy" | "nll_loss");
    classes && (call.inputs.len() > 2 || call.int("ignore_index").is_some())
}

/// What each row of class indices weighs; 0 for one that does not count.
pub fn row_weights(call: &Call) -> Vec<f64> {
    let one = |&k: &i128| match call.inputs.get(2) {
        _ if call.int("ignore_index").is_some_and(|ignored| i128::from(ignored) == k) => 0.0,
        Some(weight) => weight.floats()[k as usize],
        None => 1.0,
    };
    call.inputs[1].integers().iter().map(one).collect()
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
        let ignored = call.int("ignore_index").map(i128::from);
        let target = |c: usize| {
            let own = match &targets.values {
                Values::Floats(t) => t[at[c]],
                Values::Integers(k) if Some(k[row]) == ignored => return 0.0,
                Values::Integers(k) => f64::from(k[row] == c as i128),
            };
            let weight = call.inputs.get(2).map_or(1.0, |w| w.floats()[c]);
            weight * ((1.0 - smoothing) * own + smoothing / classes as f64)
        };
        let targets = (0..classes).map(target).collect();
        rows.push(Scores { most, off: off / sum, sum, targets, at });
    }
    rows
}

/// The float inputs' dtype.
fn class_dtype(call: &Call) -> DType {
    call.promoted((0..call.inputs.len()).filter(|&i| call.inputs[i].dtype.is_float()))
}

/// Where each row's own logarithm is, and what it weighs.
fn own_places(call: &Call) -> Vec<(usize, f64)> {
    let x = &call.inputs[0];
    let axis = usize::from(x.shape.len() > 1);
    let (classes, inner) = (x.shape[axis], x.shape[axis + 1..].iter().product::<usize>());
    let weights = row_weights(call);
    let place = |(row, (&k, weight)): (usize, (&i128, f64))| {
        let k = if weight == 0.0 { 0 } else { k as usize };
        (row / inner * classes * inner + row % inner + k * inner, weight)
    };
    call.inputs[1].integers().iter().zip(weights).enumerate().map(place).collect()
}

pub fn forward_nll(call: &Call) -> Expected {
    let x = &call.inputs[0];
    let dtype = class_dtype(call);
    let unit = working(dtype).epsilon();
    let loss = |&(at, weight): &(usize, f64)| {
        let value = if weight == 0.0 { 0.0 } else { -weight * x.floats()[at] };
        (value, 2.0 * unit * value.abs())
    };
    let losses = own_places(call).iter().map(loss).collect();
    let mut shape = x.shape.clone();
    shape.remove(usize::from(shape.len() > 1));
    reduced(call, losses, shape, dtype)
}

pub fn backward_nll(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let x = &call.inputs[0];
    let places = own_places(call);
    let each = spread(call, g, places.len());
    let mut grads = vec![Near::exact(0.0); x.len()];
    for (&(at, weight), &g_row) in places.iter().zip(&each) {
        if weight != 0.0 {
            let off = 64.0 * working(g.dtype).epsilon() * weight;
            grads[at] = product(g_row, (-weight, off), g.dtype, x.dtype);
        }
    }
    let (shape, dtype) = (x.shape.clone(), x.dtype);
    let mut all = vec![Some(Expected { shape, dtype, values: Wanted::Floats(grads) }), None];
    all.resize_with(call.inputs.len(), || None);
    all
}

pub fn forward_classes(call: &Call) -> Expected {
    let x = &call.inputs[0];
    let dtype = class_dtype(call);
    let unit = DType::F64.epsilon() / 2.0;
    let loss = |row: &Scores| -> Off {
        let n = row.at.len() as f64;
        let counts = call.int("ignore_index").is_none() || row.targets.iter().any(|&t| t != 0.0);
        if n == 0.0 || !counts {
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

pub fn backward_classes(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let (x, targets) = (&call.inputs[0], &call.inputs[1]);
    let u = working(g.dtype).epsilon() / 2.0;
    let rows = scores(call, class_dtype(call));
    let each = spread(call, g, rows.len());
    let kept = 1.0 - call.float("label_smoothing").unwrap_or(0.0);
    let more = if weighs(call) { 64.0 * u } else { 0.0 };
    let mut grads = [vec![Near::exact(0.0); x.len()], vec![Near::exact(0.0); x.len()]];
    for (row, &g_row) in rows.iter().zip(&each) {
        let whole: f64 = row.targets.iter().sum();
        for (c, (&k, &t)) in row.at.iter().zip(&row.targets).enumerate() {
            let far = row.most - x.floats()[k];
            let kept = kept * call.inputs.get(2).map_or(1.0, |w| w.floats()[c]);
            let p = (-far).exp() / row.sum * whole;
            let off = p * ((far + 24.0 + row.at.len() as f64) * u + 2.0 * row.off + more)
                + (8.0 * u + more) * t;
            grads[0][k] = product(g_row, (p - t, off), g.dtype, x.dtype);
            let log = far + row.sum.ln();
            let off = kept * (2.0 * row.off + (8.0 * u + more) * log);
            grads[1][k] = product(g_row, (kept * log, off), g.dtype, targets.dtype);
        }
    }
    let [dx, dt] = grads;
    let expected = |own: &Array, values| {
        let (shape, dtype) = (own.shape.clone(), own.dtype);
        Some(Expected { shape, dtype, values: Wanted::Floats(values) })
    };
    let by_targets = if targets.dtype.is_float() { expected(targets, dt) } else { None };
    let mut all = vec![expected(x, dx), by_targets];
    all.resize_with(call.inputs.len(), || None);
    all
}
