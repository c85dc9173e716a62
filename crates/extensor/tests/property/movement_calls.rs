//! Random calls of the operations that move elements.

use crate::array::{Array, Values};
use crate::draw::Draw;
use crate::generate::{anything_promoting, axis, signed};
use extensor::DType;
use extensor::ops::params::Params;

fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&n| n as i64).collect()
}

/// Inputs and parameters.
pub fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let none = Params::new();
    let dtype = draw.anything();
    let least = match name {
        "slice" | "concatenate" | "split" | "gather" | "take" | "scatter_add" | "repeat" => 1,
        "tril" | "triu" | "diagonal" => 2,
        _ => 0,
    };
    let shape = draw.shape_of(least);
    let n = shape.len();
    let x = draw.array(&shape, dtype, [-4.0, 4.0]);
    match name {
        "reshape" => {
            let mut to = sizes(&regrouped(draw, &shape));
            if draw.chance(3) && !shape.contains(&0) && !to.is_empty() {
                let unknown = draw.below(to.len());
                to[unknown] = -1;
            }
            (vec![x], none.with("shape", to))
        }
        "flatten" if n == 0 || draw.chance(3) => (vec![x], none),
        "flatten" => {
            let first = draw.below(n);
            let last = first + draw.below(n - first);
            let params = none.with("start_axis", first as i64);
            (vec![x], params.with("end_axis", last as i64 - n as i64))
        }
        "squeeze" => {
            let ones: Vec<i64> = (0..n).filter(|&i| shape[i] == 1).map(|i| i as i64).collect();
            let some = (!draw.chance(3)).then(|| {
                let kept = ones.into_iter().filter(|_| draw.chance(2));
                kept.collect::<Vec<i64>>()
            });
            (vec![x], none.with("axis", some))
        }
        "expand_dims" => {
            let ndim = n + draw.below(3) + 1;
            let mut axes = draw.permutation(ndim);
            axes.truncate(ndim - n);
            let either = |i: usize| i as i64 - if draw.chance(2) { ndim as i64 } else { 0 };
            let axes: Vec<i64> = axes.into_iter().map(either).collect();
            (vec![x], none.with("axis", axes))
        }
        "transpose" => {
            let order = (!draw.chance(4)).then(|| {
                let order = draw.permutation(n).into_iter();
                let either = |i: usize| i as i64 - if draw.chance(3) { n as i64 } else { 0 };
                order.map(either).collect::<Vec<i64>>()
            });
            (vec![x], none.with("axes", order))
        }
        "broadcast_to" => {
            let from = draw.partner(&shape);
            let x = draw.array(&from, dtype, [-4.0, 4.0]);
            (vec![x], none.with("shape", sizes(&shape)))
        }
        "slice" => {
            let along = axis(draw, n);
            let size = shape[along.rem_euclid(n as i64) as usize] as i64;
            let bound = |draw: &mut Draw| match draw.below(4) {
                0 => None,
                1 => Some(draw.pick(&[i64::MIN, i64::MAX, -1, 0, size])),
                _ => Some(draw.between(-size - 2, size + 2)),
            };
            let (start, stop) = (bound(draw), bound(draw));
            let step = draw.pick(&[1, 1, 2, 3, -1, -2, 100, i64::MAX, i64::MIN]);
            let params = none.with("axis", along).with("start", start);
            (vec![x], params.with("stop", stop).with("step", step))
        }
        "flip" => {
            let axes = (!draw.chance(4)).then(|| signed(draw, n));
            (vec![x], none.with("axis", axes))
        }
        "tile" => {
            let small = x.len() < 1000;
            let count = draw.below(n + 2);
            let repeats: Vec<i64> =
                (0..count).map(|_| if small { draw.below(4) } else { 1 } as i64).collect();
            (vec![x], none.with("repeats", repeats))
        }
        "repeat" => {
            let along = axis(draw, n);
            let size = shape[along.rem_euclid(n as i64) as usize];
            let most = if x.len() < 1000 { 4 } else { 2 };
            let count = if draw.chance(2) { 1 } else { size };
            let repeats: Vec<i64> = (0..count).map(|_| draw.below(most) as i64).collect();
            (vec![x], none.with("repeats", repeats).with("axis", along))
        }
        "roll" => {
            let mut axes = signed(draw, n);
            if draw.chance(4) && n > 0 {
                axes.push(axis(draw, n));
            }
            let count = if draw.chance(3) { 1 } else { axes.len() };
            let shifts: Vec<i64> = (0..count).map(|_| draw.between(-9, 9)).collect();
            (vec![x], none.with("shift", shifts).with("axis", axes))
        }
        "pad" => {
            let mode = draw.pick(&["constant", "reflect", "replicate", "edge", "circular", "wrap"]);
            let most = |size: usize| match mode {
                "constant" => 3,
                "reflect" => (size as i64 - 1).clamp(0, 3),
                "circular" | "wrap" => (size as i64).min(3),
                _ => 3 * i64::from(size > 0),
            };
            let mut two = |size: usize| [0; 2].map(|_| draw.between(0, most(size)));
            let pads: Vec<(i64, i64)> = x.shape.iter().map(|&size| two(size).into()).collect();
            if mode != "constant" {
                return (vec![x], none.with("pads", pads).with("mode", mode));
            }
            let value = if dtype.is_float() { 0.5 } else { 1.0 };
            (vec![x], none.with("pads", pads).with("value", value))
        }
        "diagonal" => {
            let mut axes = draw.permutation(n);
            axes.truncate(2);
            let either = |i: usize| i as i64 - if draw.chance(2) { n as i64 } else { 0 };
            let axes: Vec<i64> = axes.into_iter().map(either).collect();
            let params = none.with("offset", draw.between(-4, 4));
            if draw.chance(3) {
                return (vec![x], params);
            }
            (vec![x], params.with("axis1", axes[0]).with("axis2", axes[1]))
        }
        "diag" => {
            let wide = draw.chance(2);
            let shape: Vec<usize> = (0..1 + usize::from(wide)).map(|_| draw.below(9)).collect();
            let x = draw.array(&shape, dtype, [-4.0, 4.0]);
            (vec![x], none.with("offset", draw.between(-5, 5)))
        }
        "tril" | "triu" => {
            let k = draw.pick(&[-9, -2, -1, 0, 1, 2, 9]);
            (vec![x], none.with("k", k))
        }
        "gather" | "scatter_add" => indexed(draw, name, x),
        "take" => {
            let (axis, x) = axis_with_elements(draw, x);
            let size = x.shape[axis.rem_euclid(x.shape.len() as i64) as usize];
            let shape: Vec<usize> = (0..draw.below(3)).map(|_| draw.below(6)).collect();
            let picks = picks(draw, &shape, size);
            (vec![x, picks], none.with("axis", axis))
        }
        "embedding" => {
            let dtype = draw.float();
            let (rows, width) = (draw.below(9) + 1, draw.below(40));
            let weight = draw.array(&[rows, width], dtype, [-4.0, 4.0]);
            let shape: Vec<usize> = (0..draw.below(3)).map(|_| draw.below(60)).collect();
            let picks = picks(draw, &shape, rows);
            (vec![weight, picks], none)
        }
        "concatenate" | "stack" => {
            let [one, other] = anything_promoting(draw);
            let stacked = name == "stack";
            let axis = axis(draw, n + usize::from(stacked));
            let at = axis.rem_euclid((n + usize::from(stacked)) as i64) as usize;
            let count = draw.below(3) + 1;
            let part = |i: usize| {
                let mut shape = shape.clone();
                if !stacked && i > 0 {
                    shape[at] = draw.below(5);
                }
                draw.array(&shape, if i == 0 { one } else { other }, [-4.0, 4.0])
            };
            ((0..count).map(part).collect(), none.with("axis", axis))
        }
        "split" if draw.chance(3) => {
            let axis = axis(draw, n);
            let size = shape[axis.rem_euclid(n as i64) as usize] as i64;
            let counts: Vec<i64> = (1..8).filter(|c| size % c == 0).collect();
            let count = draw.pick(&counts);
            (vec![x], none.with("sections", count).with("axis", axis))
        }
        "split" => {
            let axis = axis(draw, n);
            let mut left = shape[axis.rem_euclid(n as i64) as usize];
            let mut parts = Vec::new();
            for _ in 0..draw.below(3) {
                let part = draw.below(left + 1);
                parts.push(part as i64);
                left -= part;
            }
            parts.push(left as i64);
            (vec![x], none.with("sections", parts).with("axis", axis))
        }
        "one_hot" => {
            let classes = draw.below(6) + 1;
            let to = draw.anything();
            let small: Vec<usize> = shape.iter().map(|&n| n.min(30)).collect();
            let mut picks = picks(draw, &small, classes);
            let Values::Integers(v) = &mut picks.values else { unreachable!() };
            v.iter_mut().for_each(|v| *v = v.rem_euclid(classes as i128));
            (vec![picks], none.with("num_classes", classes as i64).with("dtype", to.name()))
        }
        "cast" => {
            let to = draw.anything();
            let mut x = x;
            if draw.chance(2) {
                draw.sprinkle(&mut x, &[0.0, -0.5, 0.9, -1.9, 300.0, -300.0, 7e4, 1e10, 1e39]);
            }
            (vec![x], none.with("dtype", to.name()))
        }
        name => panic!("no calls are generated for {name}"),
    }
}

/// Another shape of as many elements: neighbouring axes merged or split.
fn regrouped(draw: &mut Draw, shape: &[usize]) -> Vec<usize> {
    let mut to = shape.to_vec();
    for _ in 0..draw.below(4) {
        let n = to.len();
        if n > 1 && draw.chance(2) {
            let at = draw.below(n - 1);
            to[at] *= to.remove(at + 1);
        } else {
            let at = draw.below(n + 1);
            let whole = to.get(at).copied().unwrap_or(1);
            let divisors: Vec<usize> = (1..=whole.min(9)).filter(|d| whole % d == 0).collect();
            let factor = if divisors.is_empty() { 1 } else { draw.pick(&divisors) };
            if at < n {
                to[at] = whole / factor;
            }
            to.insert(at, factor);
        }
    }
    to
}

/// An axis with at least one element, and the array with it.
fn axis_with_elements(draw: &mut Draw, x: Array) -> (i64, Array) {
    let along = axis(draw, x.shape.len());
    let at = along.rem_euclid(x.shape.len() as i64) as usize;
    if x.shape[at] > 0 {
        return (along, x);
    }
    let mut shape = x.shape.clone();
    shape[at] = 3;
    (along, draw.array(&shape, x.dtype, [-4.0, 4.0]))
}

/// Indices into an axis of size `n`, of any whole-number dtype that holds them.
fn picks(draw: &mut Draw, shape: &[usize], n: usize) -> Array {
    let dtype = match draw.integer() {
        dtype if dtype.integer_range().1 >= n as i128 => dtype,
        _ => DType::I64,
    };
    let drawn = draw.uniform(0.0, n as f64, shape.iter().product());
    let values = drawn.iter().map(|&v| (v as i128).min(n as i128 - 1)).collect();
    Array { shape: shape.to_vec(), dtype, values: Values::Integers(values) }
}

/// `gather` and `scatter_add`: an index of the same number of axes, no longer than `x` along the
/// others.
pub fn indexed(draw: &mut Draw, name: &str, x: Array) -> (Vec<Array>, Params) {
    let (along, x) = axis_with_elements(draw, x);
    let at = along.rem_euclid(x.shape.len() as i64) as usize;
    let mut shape = x.shape.clone();
    for (i, size) in shape.iter_mut().enumerate() {
        if i == at {
            *size = draw.below(2 * (*size).min(50) + 1);
        } else if draw.chance(4) && *size > 0 {
            *size -= 1;
        }
    }
    let picks = picks(draw, &shape, x.shape[at]);
    let params = Params::new().with("axis", along);
    if name == "gather" {
        return (vec![x, picks], params);
    }
    let dtype = if x.dtype == DType::Bool { DType::F32 } else { x.dtype };
    let x = draw.array(&x.shape, dtype, [-4.0, 4.0]);
    // The source may be larger than what is read of it.
    let extra = shape.iter().map(|&n| n + draw.below(4) / 3).collect::<Vec<_>>();
    let source = draw.array(&extra, dtype, [-4.0, 4.0]);
    (vec![x, picks, source], params)
}
