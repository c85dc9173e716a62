//! The slow reference for the family `normalization`: the elements of each group, one after the
//! other.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference, summed};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference = Reference {
    names: &["layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm2d"],
    draw,
    forward,
    backward,
};

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let eps = draw.pick(&[1e-5, 1e-3, 0.5]);
    let mut params = Params::new().with("eps", eps);
    let (shape, factors) = match name {
        "layer_norm" | "rms_norm" => {
            let shape = draw.shape_of(1);
            let count = draw.below(shape.len()) + 1;
            let own = shape[shape.len() - count..].to_vec();
            let sizes: Vec<i64> = own.iter().map(|&n| n as i64).collect();
            params = params.with("normalized_shape", sizes);
            (shape, own)
        }
        "group_norm" => {
            let groups = draw.below(4) + 1;
            let mut shape = draw.shape_of(2);
            shape[1] = groups * (draw.below(4) + usize::from(!draw.chance(20)));
            params = params.with("num_groups", groups as i64);
            let channels = shape[1];
            (shape, vec![channels])
        }
        "instance_norm" => {
            let shape = draw.shape_of(3);
            let channels = shape[1];
            (shape, vec![channels])
        }
        _ => {
            let mut shape = draw.shape_of(4);
            shape.truncate(if draw.chance(3) { 2 } else { 4 });
            let channels = shape[1];
            (shape, vec![channels])
        }
    };
    let dtype = draw.float();
    let promoting = |draw: &mut Draw| {
        let other = draw.float();
        if draw.chance(5) && dtype.promote(other).is_some() { other } else { dtype }
    };
    // Some lie far from 0 beside their spread.
    let centre = if draw.chance(6) { 50.0 } else { 0.3 };
    let mut inputs = vec![draw.array(&shape, dtype, [centre - 3.0, centre + 3.0])];
    let most = if name == "rms_norm" { 1 } else { 2 };
    let given = if name == "batch_norm2d" { 2 } else { draw.below(most + 1) };
    for range in [[0.5, 2.0], [-1.0, 1.0]].into_iter().take(given) {
        let own = promoting(draw);
        inputs.push(draw.array(&factors, own, range));
    }
    if name == "batch_norm2d" {
        let training = draw.chance(2);
        if !training || draw.chance(2) {
            let own = [promoting(draw), promoting(draw)];
            inputs.push(draw.array(&factors, own[0], [centre - 2.0, centre + 2.0]));
            inputs.push(draw.array(&factors, own[1], [0.3, 3.0]));
        }
        params = params.with("training", training).with("momentum", draw.pick(&[0.1, 0.25, 1.0]));
    }
    (inputs, params)
}

/// The number that belongs to an element.
type Of = Box<dyn Fn(usize) -> usize>;

/// The groups of elements that are normalised together, in their order, and the factor of each
/// element.
fn groups(call: &Call) -> (Vec<Vec<usize>>, Vec<usize>) {
    let shape = &call.inputs[0].shape;
    let len: usize = shape.iter().product();
    let rest: usize = shape.get(2..).map_or(1, |rest| rest.iter().product());
    let channels = shape.get(1).copied().unwrap_or(1);
    let channel = move |k: usize| k / rest % channels;
    let (count, group, factor): (usize, Of, Of) = match call.name {
        "layer_norm" | "rms_norm" => {
            let own = call.ints("normalized_shape").expect("a shape");
            let n = own.iter().product::<i64>() as usize;
            let count = len.checked_div(n).unwrap_or(0);
            (count, Box::new(move |k| k / n), Box::new(move |k| k % n))
        }
        "batch_norm2d" => (channels, Box::new(channel), Box::new(channel)),
        name => {
            let groups = call.int("num_groups").map_or(channels, |g| g as usize);
            assert!(name == "group_norm" || groups == channels);
            let each = channels.checked_div(groups).unwrap_or(0) * rest;
            let count = len.checked_div(each).unwrap_or(0);
            (count, Box::new(move |k| k / each), Box::new(channel))
        }
    };
    let mut all = vec![Vec::new(); count];
    (0..len).for_each(|k| all[group(k)].push(k));
    (all, (0..len).map(factor).collect())
}

/// What a group is normalised by, exactly, and how far a computation in the precision may be off.
struct Line {
    mean: Near,
    /// `1/√(variance + eps)`, and its error relative to it.
    slope: f64,
    relative: f64,
    variance: f64,
}

/// How many roundings of `f64` a sum of `n` passes through.
fn depth(n: usize) -> f64 {
    let n = n.max(1) as f64;
    (n - 1.0).min(132.0 + n.log2()) + 2.0
}

fn line(call: &Call, elements: &[f64]) -> Line {
    let eps = call.float("eps").expect("eps");
    let n = elements.len() as f64;
    let unit = f64::EPSILON / 2.0;
    let mut sum = Sum::default();
    if call.name != "rms_norm" {
        elements.iter().for_each(|&x| sum.add(x));
    }
    let mean = sum.value() / n;
    let mut squares = Sum::default();
    elements.iter().for_each(|x| squares.add((x - mean) * (x - mean)));
    let variance = squares.value() / n;
    // The deviations that the mean is corrected by round, and so do the numbers added up.
    let off = 3.0 * unit * (mean.abs() + sum.size / n);
    let relative = (depth(elements.len()) + 6.0) * unit + off * off / (variance + eps);
    Line {
        mean: Near { value: mean, error: off },
        slope: 1.0 / (variance + eps).sqrt(),
        relative,
        variance,
    }
}

/// The line of given statistics, which are stored in the working precision.
fn given(call: &Call, mean: f64, var: f64) -> Line {
    let slope = 1.0 / (var + call.float("eps").expect("eps")).sqrt();
    let mean = Near::exact(mean);
    Line { mean, slope, relative: 4.0 * f64::EPSILON, variance: var }
}

fn wide(x: f64, dtype: DType) -> f64 {
    round_to(x, working(dtype))
}

/// `x̂` computed in a precision with this rounding unit.
fn normal(line: &Line, x: f64, unit: f64) -> Near {
    let apart = x - line.mean.value;
    let value = apart * line.slope;
    let error = line.slope * (line.mean.error + unit * unit * x.abs());
    Near { value, error: error + value.abs() * (line.relative + 6.0 * unit) }
}

fn forward(call: &Call) -> Vec<Expected> {
    let x = &call.inputs[0];
    let dtype = call.promoted(0..call.inputs.len().min(3));
    let unit = working(dtype).epsilon() / 2.0;
    let (all, factors) = groups(call);
    let gamma = |k: usize| call.inputs.get(1).map_or(1.0, |gamma| gamma.floats()[factors[k]]);
    let beta = |k: usize| call.inputs.get(2).map_or(0.0, |beta| beta.floats()[factors[k]]);
    let mut y = vec![Near::exact(0.0); x.len()];
    let mut lines = Vec::new();
    for (number, group) in all.iter().enumerate() {
        let elements: Vec<f64> = group.iter().map(|&k| x.floats()[k]).collect();
        let line = match (call.name, call.flag("training")) {
            ("batch_norm2d", false) => {
                let [mean, var] = [3, 4].map(|i| wide(call.inputs[i].floats()[number], dtype));
                given(call, mean, var)
            }
            _ => line(call, &elements),
        };
        for &k in group {
            let normal = normal(&line, x.floats()[k], unit);
            let value = normal.value.mul_add(gamma(k), beta(k));
            let size = (normal.value * gamma(k)).abs() + beta(k).abs();
            let error = normal.error * gamma(k).abs() + 2.0 * unit * size;
            y[k] = Near { value, error };
        }
        lines.push(line);
    }
    let mut outputs = vec![Expected { shape: x.shape.clone(), dtype, values: Wanted::Floats(y) }];
    if call.name == "batch_norm2d" {
        outputs.extend(statistics(call, &lines, dtype));
    }
    outputs
}

/// The auxiliary outputs of the batch's normalisation.
fn statistics(call: &Call, lines: &[Line], dtype: DType) -> Vec<Expected> {
    let x = &call.inputs[0];
    let channels = x.shape[1];
    let n = x.len().checked_div(channels).unwrap_or(0) as f64;
    let (training, momentum) = (call.flag("training"), call.float("momentum").expect("a number"));
    let work = working(dtype);
    let off =
        |value: f64, more: f64| Near { value, error: 4.0 * f64::EPSILON * value.abs() + more };
    let mut found = [const { Vec::<Near>::new() }; 4];
    for (c, line) in lines.iter().enumerate() {
        let old = |i: usize| call.inputs.get(i).map(|given| wide(given.floats()[c], dtype));
        let batch = [line.mean.value, line.variance * n / (n - 1.0).max(1.0)];
        for (k, (old, new)) in [(old(3), batch[0]), (old(4), batch[1])].into_iter().enumerate() {
            found[k].push(match old {
                Some(old) if !training || n == 0.0 => Near::exact(old),
                _ if n == 0.0 => Near::exact(f64::NAN),
                Some(old) => {
                    let value = (1.0 - momentum) * old + momentum * new;
                    let size = old.abs() + new.abs() + line.mean.value.abs();
                    off(value, (line.relative + 4.0 * f64::EPSILON) * size)
                }
                None => off(new, line.mean.error + 2.0 * line.relative * new.abs()),
            });
        }
        let empty = n == 0.0 && training;
        let nan = Near::exact(f64::NAN);
        found[2].push(if empty { nan } else { off(line.mean.value, line.mean.error) });
        found[3].push(if empty { nan } else { off(line.slope, line.relative * line.slope) });
    }
    let one = |values: Vec<Near>| Expected {
        shape: vec![channels],
        dtype: work,
        values: Wanted::Floats(values),
    };
    found.into_iter().map(one).collect()
}

fn backward(call: &Call, grads: &[Array], outputs: &[Array]) -> Vec<Option<Expected>> {
    let (x, g) = (&call.inputs[0], &grads[0]);
    let work = working(g.dtype);
    let unit = work.epsilon() / 2.0;
    let (all, factors) = groups(call);
    let gamma = |k: usize| call.inputs.get(1).map_or(1.0, |gamma| gamma.floats()[factors[k]]);
    let centred = call.name != "rms_norm";
    let count = call.inputs.get(1).map_or(0, Array::len);
    let mut dx = vec![Near::exact(0.0); x.len()];
    let mut dgamma = vec![(Sum::default(), 0.0); count];
    let mut dbeta = vec![(Sum::default(), 0.0); count];
    for (number, group) in all.iter().enumerate() {
        let n = group.len() as f64;
        let elements: Vec<f64> = group.iter().map(|&k| x.floats()[k]).collect();
        let batch = call.name == "batch_norm2d";
        let line = if batch {
            // The statistics that were saved, with their rounding.
            let (mean, slope) = (outputs[3].floats()[number], outputs[4].floats()[number]);
            let mean = Near::exact(mean);
            Line { mean, slope, relative: 4.0 * f64::EPSILON, variance: 0.0 }
        } else {
            line(call, &elements)
        };
        let moving = !batch || call.flag("training");
        let (mut sum, mut product) = (Sum::default(), Sum::default());
        let mut shaken = 0.0;
        for &k in group {
            let normal = normal(&line, x.floats()[k], f64::EPSILON);
            let pulled = g.floats()[k] * gamma(k);
            sum.add(pulled);
            product.add(pulled * normal.value);
            shaken += pulled.abs() * normal.error;
        }
        let rest: usize = x.shape.get(2..).map_or(1, |rest| rest.iter().product());
        let rows = matches!(call.name, "layer_norm" | "rms_norm");
        let rows = rows || call.name == "group_norm" && rest == 1;
        let long = rows && group.len() >= 128;
        let steps = depth(group.len()) * f64::EPSILON;
        let mean = if centred && moving { sum.value() / n } else { 0.0 };
        let along = if moving { product.value() / n } else { 0.0 };
        let off = if moving {
            [steps * sum.size / n, (steps * product.size + shaken) / n]
        } else {
            [0.0; 2]
        };
        for &k in group {
            let normal_at = normal(&line, x.floats()[k], f64::EPSILON);
            let g = g.floats()[k];
            let pulled = g * gamma(k);
            let value = line.slope * (pulled - mean - normal_at.value * along);
            let size = pulled.abs() + mean.abs() + (normal_at.value * along).abs();
            let error = off[0]
                + normal_at.value.abs() * off[1]
                + normal_at.error * along.abs()
                + 4.0 * f64::EPSILON * size;
            // Long rows are computed in the working precision, all else in f64.
            let error = error
                + if long {
                    12.0 * unit * (size + (sum.size + product.size * normal_at.value.abs()) / n)
                } else {
                    0.0
                };
            let error = line.slope * error + value.abs() * (line.relative + 4.0 * f64::EPSILON);
            // Computed exactly, it is rounded to the working precision before the dtype.
            let rounded = half_ulp(value, work);
            dx[k] = Near { value, error: error + rounded };
            if count > 0 {
                // Those of the factors are added in the working precision.
                let normal_at = normal(&line, x.floats()[k], unit);
                let (term, slot) = (g * normal_at.value, factors[k]);
                dgamma[slot].0.add(term);
                dgamma[slot].1 += g.abs() * normal_at.error + unit * term.abs();
                dbeta[slot].0.add(g);
            }
        }
    }
    let expected = |operand: &Array, values: Vec<Near>| Expected {
        shape: operand.shape.clone(),
        dtype: operand.dtype,
        values: Wanted::Floats(values),
    };
    let near = |sums: &[(Sum, f64)]| -> Vec<Near> {
        sums.iter().map(|(sum, error)| summed(sum, *error, g.dtype)).collect()
    };
    let mut found = vec![Some(expected(x, dx))];
    for (operand, sums) in call.inputs.iter().skip(1).zip([&dgamma, &dbeta]) {
        found.push(Some(expected(operand, near(sums))));
    }
    found.resize_with(call.inputs.len(), || None);
    found
}
