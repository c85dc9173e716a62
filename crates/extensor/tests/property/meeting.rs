//! The reference for elements that are put at positions: for each position the list of what meets there.

use crate::array::*;
use crate::draw::Draw;
use crate::movement::{index_at, with};
use crate::movement_calls::indexed;
use crate::reference::{Call, Reference, summed_in_turn};
use extensor::DType;
use extensor::ops::params::{Params, Value};

pub const REFERENCE: Reference = Reference { names: &["scatter"], draw, forward, backward };

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let reduce = draw.pick(&["none", "sum", "prod", "mean", "amax", "amin"]);
    let dtype = match reduce {
        "none" => draw.anything(),
        "mean" => draw.float(),
        _ => draw.number(),
    };
    let shape = draw.shape_of(1);
    let range = if reduce == "prod" { [0.5, 2.0] } else { [-4.0, 4.0] };
    let x = draw.array(&shape, dtype, range);
    let (mut inputs, params) = indexed(draw, name, x);
    let (x, source) = (inputs[0].shape.clone(), inputs[2].shape.clone());
    (inputs[0], inputs[2]) = (draw.array(&x, dtype, range), draw.array(&source, dtype, range));
    let specials: &[f64] = match reduce {
        "none" | "amax" | "amin" => &[f64::NAN, 0.0, 1.0, 1.0, -1.0, f64::INFINITY],
        _ => &[0.0, 1.0, -1.0],
    };
    for i in [0, 2] {
        if draw.chance(2) {
            draw.sprinkle(&mut inputs[i], specials);
        }
    }
    let params = params.with("reduce", reduce).with("include_self", draw.chance(2));
    (inputs, params)
}

/// What becomes of them, and whether `x` is one of them.
fn setting(call: &Call) -> (String, bool) {
    let reduce = match call.param("reduce") {
        Value::Text(reduce) => reduce.clone(),
        _ => panic!("no reduction"),
    };
    let own = call.flag("include_self") && reduce != "none";
    (reduce, own)
}

/// For each position the numbers of the elements of the source that are put there, in order.
fn met(call: &Call) -> Vec<Vec<usize>> {
    let [x, picks, source] = [0, 1, 2].map(|i| &call.inputs[i]);
    let axis = call.axis("axis", x.shape.len());
    let mut met = vec![Vec::new(); x.len()];
    for i in indices(&picks.shape) {
        let k = index_at(picks, ravel(&i, &picks.shape), x.shape[axis]);
        met[ravel(&with(&i, axis, k), &x.shape)].push(ravel(&i, &source.shape));
    }
    met
}

fn most(all: &[f64], sign: f64) -> f64 {
    let larger = |a: f64, &b: &f64| match a {
        a if a.is_nan() || b.is_nan() => f64::NAN,
        a if sign * b > sign * a => b,
        a => a,
    };
    all[1..].iter().fold(all[0], larger)
}

fn forward(call: &Call) -> Vec<Expected> {
    let (x, source) = (&call.inputs[0], &call.inputs[2]);
    let (reduce, own) = setting(call);
    let met = met(call);
    let values = match (&x.values, &source.values) {
        (Values::Floats(x), Values::Floats(source)) => {
            let one = |(&x, from): (&f64, &Vec<usize>)| {
                if from.is_empty() {
                    return Near::exact(x);
                }
                let mut all: Vec<f64> = if own { vec![x] } else { vec![] };
                all.extend(from.iter().map(|&k| source[k]));
                float(&reduce, &all, call.inputs[0].dtype)
            };
            Wanted::Floats(x.iter().zip(&met).map(one).collect())
        }
        _ => {
            let source = source.integers();
            let one = |(&x, from): (&i128, &Vec<usize>)| {
                if from.is_empty() {
                    return x;
                }
                let mut all: Vec<i128> = if own { vec![x] } else { vec![] };
                all.extend(from.iter().map(|&k| source[k]));
                match &*reduce {
                    "none" => all[all.len() - 1],
                    "sum" => wrap(all.iter().sum(), call.inputs[0].dtype),
                    "prod" => all.iter().fold(1, |p, &v| wrap(p * v, call.inputs[0].dtype)),
                    "amax" => *all.iter().max().expect("one"),
                    _ => *all.iter().min().expect("one"),
                }
            };
            Wanted::Integers(x.integers().iter().zip(&met).map(one).collect())
        }
    };
    vec![Expected { shape: x.shape.clone(), dtype: x.dtype, values }]
}

fn float(reduce: &str, all: &[f64], dtype: DType) -> Near {
    let unit = working(dtype).epsilon();
    let mut sum = Sum::default();
    all.iter().for_each(|&v| sum.add(v));
    let sum = summed_in_turn(&sum, dtype);
    let n = all.len() as f64;
    match reduce {
        "none" => Near::exact(all[all.len() - 1]),
        "sum" => sum,
        "mean" => {
            let value = sum.value / n;
            let error = sum.error / n + unit * value.abs() + tiny(working(dtype));
            Near { value, error }
        }
        "prod" => {
            let value = all.iter().product::<f64>();
            Near { value, error: n * unit * value.abs() }
        }
        "amax" => Near::exact(most(all, 1.0)),
        _ => Near::exact(most(all, -1.0)),
    }
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let (x, source, g) = (&call.inputs[0], &call.inputs[2], grads[0].floats());
    let (reduce, own) = setting(call);
    let unit = working(x.dtype).epsilon();
    let mut for_x: Vec<Near> = g.iter().map(|&g| Near::exact(g)).collect();
    let mut for_source = vec![Near::exact(0.0); source.len()];
    for (k, from) in met(call).iter().enumerate().filter(|(_, from)| !from.is_empty()) {
        let mut all: Vec<f64> = if own { vec![x.floats()[k]] } else { vec![] };
        all.extend(from.iter().map(|&k| source.floats()[k]));
        let near = |value: f64, roundings: f64| Near {
            value,
            error: roundings * (unit * value.abs() + tiny(working(x.dtype))),
        };
        let n = all.len() as f64;
        let share = |i: usize| match &*reduce {
            "none" => Near::exact(if i + 1 == all.len() { g[k] } else { 0.0 }),
            "sum" => Near::exact(g[k]),
            "mean" => near(g[k] / n, 2.0),
            "prod" => {
                let others = all.iter().enumerate().filter(|(j, _)| *j != i);
                let value = g[k] * others.map(|(_, &v)| v).product::<f64>();
                if value == 0.0 { Near::exact(0.0) } else { near(value, n + 2.0) }
            }
            word => {
                let y = most(&all, if word == "amax" { 1.0 } else { -1.0 });
                let ties = all.iter().filter(|v| **v == y).count() as f64;
                match all[i] {
                    _ if y.is_nan() => Near::exact(f64::NAN),
                    v if v == y => near(g[k] / ties, 2.0),
                    _ => Near::exact(0.0),
                }
            }
        };
        for_x[k] = if own { share(0) } else { Near::exact(0.0) };
        for (i, &k) in from.iter().enumerate() {
            for_source[k] = share(i + usize::from(own));
        }
    }
    let expected = |x: &Array, values: Vec<Near>| {
        let (shape, dtype) = (x.shape.clone(), x.dtype);
        Some(Expected { shape, dtype, values: Wanted::Floats(values) })
    };
    vec![expected(x, for_x), None, expected(source, for_source)]
}
