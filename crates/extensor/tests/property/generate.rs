//! Random calls of every operation.

use crate::array::{Array, Values};
use crate::draw::Draw;
use crate::pointwise::{self, Takes};
use crate::reference::{self, Call};
use crate::{movement_calls, reduction};
use extensor::DType;
use extensor::ops::params::Params;
use extensor::ops::record::Record;

/// Values at which elementwise operations are likely to be wrong.
const WILD: [f64; 20] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    1e-45,
    -1e-310,
    1e-5,
    -65504.0,
    3e38,
    -1e30,
    1.7e308,
    1e9,
    6e-8,
];
/// Finite ones, at which derivatives are likely to be wrong.
const TAME: [f64; 14] =
    [f64::NAN, 0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.0, 1e-12, -1e-12, 1e-9, 100.0, -2e4, 1e-42];
/// Ordinary ones, so that equal values meet.
const PLAIN: [f64; 6] = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0];

/// A random call of the operation.
pub fn call(draw: &mut Draw, record: &'static Record) -> Call {
    let name = record.name;
    let new = |inputs: Vec<Array>, params: Params| Call { name, params, inputs };
    if let Some(reference) = reference::family(name) {
        let (inputs, params) = (reference.draw)(draw, name);
        return new(inputs, params);
    }
    if let Some(rule) = pointwise::find(name) {
        return new(pointwise_inputs(draw, name, &rule), Params::new());
    }
    if reduction::NAMES.contains(&name) {
        let (x, params) = reduced(draw, name);
        return new(vec![x], params);
    }
    match name {
        "where" => {
            let [a, b] = draw.pair();
            let [one, other] = anything_promoting(draw);
            let whole = crate::array::broadcast_shapes(&a, &b);
            let condition = draw.partner(&whole);
            let condition = draw.array(&condition, DType::Bool, [0.0, 1.0]);
            let mut a = draw.array(&a, one, [-4.0, 4.0]);
            let b = draw.array(&b, other, [-4.0, 4.0]);
            draw.sprinkle(&mut a, &WILD);
            new(vec![condition, a, b], Params::new())
        }
        "clip" => {
            let (shape, dtype) = (draw.shape(), draw.number());
            let mut x = draw.array(&shape, dtype, [-4.0, 4.0]);
            let specials: &[f64] = if draw.chance(2) { &WILD } else { &TAME };
            draw.sprinkle(&mut x, specials);
            let low = if dtype.is_float() { draw.pick(&[-1.5, -1.0, 0.0]) } else { 1.0 };
            let high = low + draw.pick(&[0.0, 1.0, 2.0]);
            let [low, high] = [low, high].map(|bound| (!draw.chance(4)).then_some(bound));
            new(vec![x], Params::new().with("min", low).with("max", high))
        }
        "nan_to_num" => {
            let (shape, dtype) = (draw.shape(), draw.number());
            let mut x = draw.array(&shape, dtype, [-4.0, 4.0]);
            draw.sprinkle(&mut x, &WILD);
            let nan = draw.pick(&[0.0, -2.5]);
            let [above, below] = [[7.0, 0.0], [-9.0, 0.5]].map(|some| draw.pick(&some));
            let [above, below] = [above, below].map(|v| (!draw.chance(2)).then_some(v));
            let params = Params::new().with("nan", nan).with("posinf", above);
            new(vec![x], params.with("neginf", below))
        }
        "matmul" | "dot" | "outer" | "linear" => new(matrices(draw, name), Params::new()),
        _ => {
            let (inputs, params) = movement_calls::draw(draw, name);
            new(inputs, params)
        }
    }
}

/// Two dtypes of any kind that promote, usually the same.
pub fn anything_promoting(draw: &mut Draw) -> [DType; 2] {
    let one = draw.anything();
    draw.promoting(one)
}

fn pointwise_inputs(draw: &mut Draw, name: &str, rule: &pointwise::Pointwise) -> Vec<Array> {
    let dtype = match rule.takes {
        Takes::Floats => draw.float(),
        Takes::Numbers => draw.number(),
        Takes::Masks => DType::Bool,
        Takes::Anything => draw.anything(),
    };
    let dtypes = draw.promoting(dtype);
    let mut shapes = if rule.arity == 1 { vec![draw.shape()] } else { draw.pair().to_vec() };
    if rule.arity == 3 {
        let whole = crate::array::broadcast_shapes(&shapes[0], &shapes[1]);
        shapes.push(draw.partner(&whole));
    }
    let specials: &[f64] = match draw.below(3) {
        0 => &WILD,
        1 => &TAME,
        _ => &PLAIN,
    };
    let mut inputs = Vec::new();
    for (i, shape) in shapes.iter().enumerate() {
        let mut x = draw.array(shape, dtypes[i.min(1)], rule.ranges[i.min(1)]);
        draw.sprinkle(&mut x, specials);
        if let Values::Integers(v) = &mut x.values {
            match (name, i) {
                ("floor_divide" | "modulo" | "fmod", 1) => {
                    v.iter_mut().filter(|v| **v == 0).for_each(|v| *v = 1)
                }
                ("power", 1) => v.iter_mut().filter(|v| **v < 0).for_each(|v| *v = 3),
                _ => {}
            }
        }
        inputs.push(x);
    }
    inputs
}

fn matrices(draw: &mut Draw, name: &str) -> Vec<Array> {
    let whole = name != "linear" && draw.chance(3);
    let dtype = if whole { draw.integer() } else { draw.float() };
    let dtypes = draw.promoting(dtype);
    let size = |draw: &mut Draw, most: usize| match draw.below(8) {
        0 if draw.chance(2) => 0,
        0 | 1 => 1,
        2 => draw.below(most) + 1,
        _ => draw.below(9) + 1,
    };
    let (m, k, n) = (size(draw, 150), size(draw, 300), size(draw, 150));
    // Once in a while large enough for the blocked kernel and its threads.
    let (m, k, n) = if draw.chance(12) { (97, 130, 101) } else { (m, k, n) };
    let long = size(draw, 3000);
    let mut shapes = match name {
        "dot" => vec![vec![long], vec![long]],
        "outer" => vec![vec![m], vec![n]],
        "linear" => vec![vec![m, k], vec![n, k], vec![n]],
        _ => vec![vec![m, k], vec![k, n]],
    };
    if name == "matmul" {
        match draw.below(6) {
            0 => drop(shapes[0].remove(0)),
            1 => drop(shapes[1].remove(1)),
            2 | 3 if m * k * n < 20_000 => {
                let [a, b] = small_pair(draw);
                shapes[0].splice(0..0, a);
                shapes[1].splice(0..0, b);
            }
            _ => {}
        }
    }
    if name == "linear" {
        match draw.below(4) {
            0 => drop(shapes[0].remove(0)),
            1 => shapes[0].insert(0, draw.below(4)),
            _ => {}
        }
        if draw.chance(2) {
            shapes.pop();
        }
    }
    let array = |(i, shape): (usize, &Vec<usize>)| draw.array(shape, dtypes[i.min(1)], [-2.0, 2.0]);
    shapes.iter().enumerate().map(array).collect()
}

/// Two short shapes that broadcast.
fn small_pair(draw: &mut Draw) -> [Vec<usize>; 2] {
    let whole: Vec<usize> = (0..draw.below(3) + 1).map(|_| draw.below(4)).collect();
    let a = draw.partner(&whole);
    if draw.chance(2) { [a, whole] } else { [whole, a] }
}

/// An input and parameters of a reduction.
fn reduced(draw: &mut Draw, name: &'static str) -> (Array, Params) {
    let dtype = match name {
        "any" | "all" => draw.anything(),
        "sum" | "max_reduce" | "min_reduce" | "prod" | "cumsum" | "cumprod" | "argmax"
        | "argmin" => draw.number(),
        _ => draw.float(),
    };
    if matches!(name, "cumsum" | "cumprod") {
        let mut shape = draw.shape_of(1);
        let axis = axis(draw, shape.len());
        let mut range = [-3.0, 3.0];
        if name == "cumprod" {
            // The reference for the gradient takes the square of the length.
            let at = axis.rem_euclid(shape.len() as i64) as usize;
            shape[at] = shape[at].min(200);
            range = if shape[at] > 7 { [0.98, 1.02] } else { [-1.5, 1.5] };
        }
        let mut x = draw.array(&shape, dtype, range);
        if name == "cumprod" && draw.chance(2) {
            draw.sprinkle(&mut x, &[0.0, 1.0, -1.0, 0.5]);
        }
        return (x, Params::new().with("axis", axis));
    }
    let mut shape = draw.shape();
    let n = shape.len();
    let position = matches!(name, "argmax" | "argmin");
    let list = (!draw.chance(3)).then(|| signed(draw, n));
    let list = list.filter(|l| !position || l.len() == 1);
    let of_nothing = !matches!(name, "max_reduce" | "min_reduce" | "argmax" | "argmin");
    let mask = |i: usize| {
        list.as_ref()
            .is_none_or(|l: &Vec<i64>| l.iter().any(|&a| a.rem_euclid(n as i64) == i as i64))
    };
    for (i, size) in shape.iter_mut().enumerate() {
        if *size == 0 && mask(i) && !of_nothing {
            *size = 2;
        }
    }
    let range =
        if name == "prod" && shape.iter().any(|&s| s > 7) { [0.98, 1.02] } else { [-3.0, 3.0] };
    let mut x = draw.array(&shape, dtype, range);
    match name {
        "max_reduce" | "min_reduce" | "argmax" | "argmin" | "prod" | "any" | "all"
            if draw.chance(2) =>
        {
            draw.sprinkle(&mut x, &PLAIN);
        }
        "max_reduce" | "min_reduce" | "argmax" | "argmin" | "sum" | "mean" if draw.chance(4) => {
            draw.sprinkle(&mut x, &[f64::NAN, f64::INFINITY, -1.0, f64::NEG_INFINITY]);
        }
        // Far from zero, where a variance by the difference of two large numbers fails.
        "variance" | "std" | "logsumexp" if draw.chance(3) => {
            let Values::Floats(v) = &mut x.values else { unreachable!() };
            v.iter_mut().for_each(|v| *v = crate::array::round_to(*v + 1000.0, dtype));
        }
        _ => {}
    }
    let mut params = Params::new().with("keepdims", draw.chance(2));
    params = match (position, list) {
        (true, list) => params.with("axis", list.map(|l| l[0])),
        (false, list) => params.with("axis", list),
    };
    if matches!(name, "variance" | "std") {
        params = params.with("ddof", draw.below(2) as i64);
    }
    (x, params)
}

/// An axis, counted from either end.
pub fn axis(draw: &mut Draw, ndim: usize) -> i64 {
    let axis = draw.below(ndim) as i64;
    if draw.chance(2) { axis - ndim as i64 } else { axis }
}

/// Some of the axes, each counted from either end.
pub fn signed(draw: &mut Draw, ndim: usize) -> Vec<i64> {
    let some = draw.subset(ndim);
    let either = |i: usize| i as i64 - if draw.chance(2) { ndim as i64 } else { 0 };
    some.into_iter().map(either).collect()
}
