//! The reference for reductions: the elements of each group, one after the other.

use crate::array::*;
use crate::reference::{Call, index, summed, summed_in_turn};
use extensor::DType;

pub const NAMES: [&str; 15] = [
    "sum",
    "mean",
    "max_reduce",
    "min_reduce",
    "prod",
    "variance",
    "std",
    "logsumexp",
    "norm",
    "cumsum",
    "cumprod",
    "argmax",
    "argmin",
    "any",
    "all",
];

/// The numbers of the elements that go into each element of the output, and the output's shape.
fn groups(call: &Call) -> (Vec<usize>, Vec<Vec<usize>>) {
    let shape = &call.inputs[0].shape;
    let mask = match call.int("axis") {
        Some(axis) => (0..shape.len()).map(|i| i == index(axis, shape.len())).collect(),
        None => call.axes("axis", shape.len()),
    };
    let kept: Vec<usize> = shape.iter().zip(&mask).map(|(&s, &m)| if m { 1 } else { s }).collect();
    let mut groups = vec![Vec::new(); kept.iter().product()];
    let mut k = 0;
    walk(shape, |index| {
        groups[ravel_broadcast(index, &kept)].push(k);
        k += 1;
    });
    let keepdims = call.flag("keepdims");
    let out = kept.iter().zip(&mask).filter(|(_, m)| keepdims || !**m).map(|(&s, _)| s).collect();
    (out, groups)
}

pub fn forward(call: &Call) -> Expected {
    let x = &call.inputs[0];
    match call.name {
        "cumsum" => return cumsum(call, x, false),
        "cumprod" => return cumprod(call, x),
        _ => {}
    }
    let (shape, groups) = groups(call);
    let (dtype, values) = match (&x.values, call.name) {
        (_, "argmax" | "argmin") => {
            let (axis_size, most) = (x, call.name == "argmax");
            let one = |group: &Vec<usize>| first_extreme(axis_size, group, most) as i128;
            (DType::I64, Wanted::Integers(groups.iter().map(one).collect()))
        }
        (_, "any" | "all") => {
            let truth = |&k: &usize| match &x.values {
                Values::Integers(v) => v[k] != 0,
                Values::Floats(v) => v[k] != 0.0,
            };
            let one = |group: &Vec<usize>| {
                let mut truths = group.iter().map(truth);
                i128::from(if call.name == "any" { truths.any(|t| t) } else { truths.all(|t| t) })
            };
            (DType::Bool, Wanted::Integers(groups.iter().map(one).collect()))
        }
        (Values::Integers(v), name) => {
            let one = |group: &Vec<usize>| {
                let elements = group.iter().map(|&k| v[k]);
                let folded = match name {
                    "sum" => elements.fold(0, i128::wrapping_add),
                    "prod" => elements.fold(1i128, |a, b| wrap(a.wrapping_mul(b), x.dtype)),
                    "max_reduce" => elements.max().expect("an element"),
                    _ => elements.min().expect("an element"),
                };
                wrap(folded, x.dtype)
            };
            (x.dtype, Wanted::Integers(groups.iter().map(one).collect()))
        }
        (Values::Floats(v), _) => {
            let one = |group: &Vec<usize>| {
                let elements: Vec<f64> = group.iter().map(|&k| v[k]).collect();
                reduce(call, &elements, x.dtype)
            };
            (x.dtype, Wanted::Floats(groups.iter().map(one).collect()))
        }
    };
    Expected { shape, dtype, values }
}

/// The place within its group of the first largest (smallest) element; NaN counts as such.
fn first_extreme(x: &Array, group: &[usize], most: bool) -> usize {
    let beats = |a: usize, b: usize| match &x.values {
        Values::Integers(v) => (v[a] > v[b]) == most && v[a] != v[b],
        Values::Floats(v) if v[b].is_nan() => false,
        Values::Floats(v) => v[a].is_nan() || ((v[a] > v[b]) == most && v[a] != v[b]),
    };
    let mut best = 0;
    for i in 1..group.len() {
        if beats(group[i], group[best]) {
            best = i;
        }
    }
    best
}

fn total(elements: &[f64]) -> Sum {
    let mut sum = Sum::default();
    elements.iter().for_each(|&x| sum.add(x));
    sum
}

/// How many roundings' worth of error adding up `n` numbers in blocks has, relative to their sizes.
fn depth(n: usize) -> f64 {
    let n = n as f64;
    (n - 1.0).min(128.0 + n.max(1.0).log2()).max(0.0)
}

/// The mean, and the sum of the squares of the distances from it, with their errors.
fn moments(elements: &[f64], unit: f64) -> (f64, Near) {
    let n = elements.len() as f64;
    let sum = total(elements);
    let mean = sum.value() / n;
    let mut squares = Sum::default();
    elements.iter().for_each(|x| squares.add((x - mean).powi(2)));
    let value = squares.value();
    // About an m that is off by δ the squares add up to too much by n·δ²; the rest cancels.
    let delta = (depth(elements.len()) + 2.0) * unit * sum.size / n;
    let error = (depth(elements.len()) + 6.0) * unit * value + n * delta * delta;
    (mean, Near { value, error })
}

fn square_root(square: Near, unit: f64) -> Near {
    let value = square.value.sqrt();
    let up = (square.value + square.error).sqrt() - value;
    let down = value - (square.value - square.error).max(0.0).sqrt();
    Near { value, error: up.max(down) + 2.0 * unit * value }
}

fn reduce(call: &Call, elements: &[f64], dtype: DType) -> Near {
    let unit = working(dtype).epsilon() / 2.0;
    let n = elements.len() as f64;
    let ddof = call.int("ddof").unwrap_or(0) as f64;
    let nan = elements.iter().any(|x| x.is_nan());
    match call.name {
        "sum" => summed(&total(elements), 0.0, dtype),
        "mean" => {
            let sum = summed(&total(elements), 0.0, dtype);
            let value = sum.value / n;
            Near { value, error: sum.error / n + 2.0 * unit * value.abs() }
        }
        "max_reduce" | "min_reduce" if nan => Near::exact(f64::NAN),
        "max_reduce" => Near::exact(elements.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        "min_reduce" => Near::exact(elements.iter().copied().fold(f64::INFINITY, f64::min)),
        "prod" => {
            let value: f64 = elements.iter().product();
            Near { value, error: n * (2.0 * unit * value.abs() + tiny(working(dtype))) }
        }
        "variance" => variance(elements, ddof, unit),
        "std" => square_root(variance(elements, ddof, unit), unit),
        "norm" => {
            let mut squares = Sum::default();
            elements.iter().for_each(|&x| squares.add_product(x, x));
            let value = squares.value();
            let error = (depth(elements.len()) + 2.0) * unit * value;
            square_root(Near { value, error }, unit)
        }
        "logsumexp" => logsumexp(elements, unit),
        name => panic!("no reference for {name}"),
    }
}

fn variance(elements: &[f64], ddof: f64, unit: f64) -> Near {
    let (_, squares) = moments(elements, unit);
    let divisor = elements.len() as f64 - ddof;
    if divisor <= 0.0 {
        return Near::exact(f64::NAN);
    }
    let value = squares.value / divisor;
    Near { value, error: squares.error / divisor.abs() + 2.0 * unit * value.abs() }
}

fn logsumexp(elements: &[f64], unit: f64) -> Near {
    let most = elements.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY || elements.iter().any(|x| x.is_nan()) {
        let value = if most == f64::NEG_INFINITY && !elements.iter().any(|x| x.is_nan()) {
            most
        } else {
            f64::NAN
        };
        return Near::exact(value);
    }
    let mut sum = Sum::default();
    elements.iter().for_each(|x| sum.add((x - most).exp()));
    let log = sum.value().ln();
    let value = most + log;
    // Eight roundings for the exponential's four units, one for x − most scaled by the term it is in.
    let bent: f64 =
        elements.iter().map(|x| (most - x) * (x - most).exp()).sum::<f64>() / sum.value();
    let relative = (depth(elements.len()) + 8.0 + bent) * unit;
    Near { value, error: relative + 8.0 * unit * log.abs() + 2.0 * unit * value.abs() }
}

/// Running sums along an axis, from its first element on or from its last.
fn cumsum(call: &Call, x: &Array, backwards: bool) -> Expected {
    let axis = call.axis("axis", x.shape.len());
    let (n, inner): (usize, usize) = (x.shape[axis], x.shape[axis + 1..].iter().product());
    // The elements of a line along the axis are `inner` apart.
    let starts = (0..x.len()).filter(|k| k / inner % n == 0);
    let line =
        |start: usize| (0..n).map(move |i| start + inner * if backwards { n - 1 - i } else { i });
    let values = match &x.values {
        Values::Integers(v) => {
            let mut out = vec![0; x.len()];
            for start in starts {
                let mut sum = 0;
                for k in line(start) {
                    sum = wrap(sum + v[k], x.dtype);
                    out[k] = sum;
                }
            }
            Wanted::Integers(out)
        }
        Values::Floats(v) => {
            let mut out = vec![Near::exact(0.0); x.len()];
            for start in starts {
                let mut sum = Sum::default();
                for k in line(start) {
                    sum.add(v[k]);
                    out[k] = summed_in_turn(&sum, x.dtype);
                }
            }
            Wanted::Floats(out)
        }
    };
    Expected { shape: x.shape.clone(), dtype: x.dtype, values }
}

/// The numbers of the elements of each line along the axis, one after the other.
fn lines(call: &Call, x: &Array) -> Vec<Vec<usize>> {
    let axis = call.axis("axis", x.shape.len());
    let (n, inner): (usize, usize) = (x.shape[axis], x.shape[axis + 1..].iter().product());
    let starts = (0..x.len()).filter(|k| k / inner % n == 0);
    starts.map(|start| (0..n).map(|i| start + inner * i).collect()).collect()
}

/// Running products along an axis.
fn cumprod(call: &Call, x: &Array) -> Expected {
    let values = match &x.values {
        Values::Integers(v) => {
            let mut out = vec![0; x.len()];
            for line in lines(call, x) {
                let mut product = 1;
                for k in line {
                    product = wrap(i128::wrapping_mul(product, v[k]), x.dtype);
                    out[k] = product;
                }
            }
            Wanted::Integers(out)
        }
        Values::Floats(v) => {
            let mut out = vec![Near::exact(0.0); x.len()];
            for line in lines(call, x) {
                let mut product = 1.0;
                for (i, k) in line.into_iter().enumerate() {
                    product *= v[k];
                    // The reference rounds too.
                    let error = 2.0 * i as f64 * f64::EPSILON * f64::abs(product);
                    let error = error + half_ulp(product, working(x.dtype));
                    out[k] = Near { value: product, error };
                }
            }
            Wanted::Floats(out)
        }
    };
    Expected { shape: x.shape.clone(), dtype: x.dtype, values }
}

/// For each element the gradients of all products it is in, times their other factors.
fn cumprod_backward(call: &Call, x: &Array, g: &Array) -> Expected {
    let unit = working(x.dtype).epsilon();
    let mut gradient = vec![Near::exact(0.0); x.len()];
    for line in lines(call, x) {
        let mut before = 1.0;
        for (j, &k) in line.iter().enumerate() {
            let mut sum = Sum::default();
            let mut others = before;
            for (i, &later) in line.iter().enumerate().skip(j) {
                if i > j {
                    others *= x.floats()[later];
                }
                sum.add(g.floats()[later] * others);
            }
            let error = (line.len() as f64 + 4.0) * (unit * sum.size + tiny(working(x.dtype)));
            gradient[k] = Near { value: sum.value(), error };
            before *= x.floats()[k];
        }
    }
    let (shape, dtype) = (x.shape.clone(), x.dtype);
    Expected { shape, dtype, values: Wanted::Floats(gradient) }
}

pub fn backward(call: &Call, g: &Array, y: &Array) -> Option<Expected> {
    let x = &call.inputs[0];
    if !x.dtype.is_float() || matches!(call.name, "argmax" | "argmin" | "any" | "all") {
        return None;
    }
    match call.name {
        "cumsum" => return Some(cumsum(call, g, true)),
        "cumprod" => return Some(cumprod_backward(call, x, g)),
        _ => {}
    }
    let (_, groups) = groups(call);
    let mut gradient = vec![Near::exact(0.0); x.len()];
    for (k, group) in groups.iter().enumerate() {
        let elements: Vec<f64> = group.iter().map(|&k| x.floats()[k]).collect();
        let terms = spread(call, &elements, g.floats()[k], y.floats()[k], x.dtype);
        group.iter().zip(terms).for_each(|(&k, term)| gradient[k] = term);
    }
    let (shape, dtype) = (x.shape.clone(), x.dtype);
    Some(Expected { shape, dtype, values: Wanted::Floats(gradient) })
}

/// The gradients for the elements of one group.
fn spread(call: &Call, x: &[f64], g: f64, y: f64, dtype: DType) -> Vec<Near> {
    let (work, limit) = (working(dtype), dtype.max_finite());
    let unit = work.epsilon() / 2.0;
    let n = x.len() as f64;
    let off = |value: f64, roundings: f64| Near {
        value,
        error: roundings * (unit * value.abs() + tiny(work)),
    };
    match call.name {
        "sum" => vec![Near::exact(g); x.len()],
        "mean" => vec![off(g / n, 3.0); x.len()],
        "max_reduce" | "min_reduce" => {
            let ties = x.iter().filter(|&&v| v == y).count() as f64;
            let part = |&v: &f64| match v {
                _ if y.is_nan() => Near::exact(f64::NAN),
                v if v == y => off(g / ties, 3.0),
                _ => Near::exact(0.0),
            };
            x.iter().map(part).collect()
        }
        "prod" => {
            // The product of all before times the product of all after.
            let mut after = vec![1.0; x.len() + 1];
            (0..x.len()).rev().for_each(|i| after[i] = after[i + 1] * x[i]);
            let mut before = 1.0;
            let mut others = |i: usize| {
                let value = g * before * after[i + 1];
                before *= x[i];
                let near = off(value, 2.0 * n + 4.0);
                // The output that the rule may divide was rounded to the dtype.
                let stored = value.abs() * dtype.epsilon() / 2.0;
                Near { error: near.error + stored, ..near }
            };
            (0..x.len()).map(&mut others).collect()
        }
        "variance" | "std" => {
            let (mean, _) = moments(x, unit);
            let divisor = n - call.int("ddof").unwrap_or(0) as f64;
            let delta = (depth(x.len()) + 2.0) * unit * total(x).size / n;
            let scale = if call.name == "std" {
                g / (divisor * if y == 0.0 { 1e-10 } else { y })
            } else {
                2.0 * g / divisor
            };
            // The output that the rule divides by was rounded to the dtype.
            let stored = if call.name == "std" { dtype.epsilon() } else { 0.0 };
            let one = |&x: &f64| {
                let value = scale * (x - mean);
                let error = scale.abs() * (delta + unit * x.abs()) + value.abs() * stored;
                let near = off(value, 6.0);
                Near { value: near.value.clamp(-limit, limit), error: near.error + error }
            };
            x.iter().map(one).collect()
        }
        "norm" => {
            let d = if y == 0.0 { 1e-10 } else { y };
            let one = |&x: &f64| {
                let near = off(g * x / d, 5.0);
                Near { value: near.value.clamp(-limit, limit), ..near }
            };
            x.iter().map(one).collect()
        }
        "logsumexp" => {
            let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut sum = Sum::default();
            x.iter().for_each(|x| sum.add((x - most).exp()));
            let one = |&x: &f64| {
                let value = g * (x - most).exp() / sum.value();
                off(value, depth(n as usize) + 24.0 + (x - most).abs())
            };
            x.iter().map(one).collect()
        }
        name => panic!("no reference for {name}"),
    }
}
