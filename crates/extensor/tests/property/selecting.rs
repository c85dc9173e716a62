//! The reference for elements chosen by their order, and for running logarithms of sums: one line after
//! the other.

use crate::array::*;
use crate::draw::Draw;
use crate::generate::axis;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference = Reference {
    names: &["topk", "kthvalue", "cummax", "cummin", "logcumsumexp"],
    draw,
    forward,
    backward,
};

const SPECIALS: [f64; 7] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, 2.0];

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let sums = name == "logcumsumexp";
    let dtype = if sums { draw.float() } else { draw.anything() };
    let mut shape = draw.shape_of(1);
    let axis = axis(draw, shape.len());
    let at = axis.rem_euclid(shape.len() as i64) as usize;
    if sums {
        // The reference for the gradient takes the square of the length.
        shape[at] = shape[at].min(200);
    }
    if name == "kthvalue" {
        shape[at] = shape[at].max(1);
    }
    let mut x = draw.array(&shape, dtype, [-4.0, 4.0]);
    if sums && draw.chance(3) {
        let far = draw.pick(&[-1000.0, 1000.0, 80.0]);
        let Values::Floats(v) = &mut x.values else { unreachable!() };
        v.iter_mut().for_each(|v| *v = round_to(*v + far, dtype));
    }
    if draw.chance(2) {
        // Infinities have gradients by convention only.
        let specials = if sums { &SPECIALS[3..] } else { &SPECIALS[..] };
        draw.sprinkle(&mut x, specials);
    }
    let params = Params::new().with("axis", axis);
    let params = match name {
        "topk" => {
            let k = draw.below(shape[at] + 1) as i64;
            params.with("k", k).with("largest", draw.chance(2))
        }
        "kthvalue" => {
            let k = draw.below(shape[at]) as i64 + 1;
            params.with("k", k).with("keepdims", draw.chance(2))
        }
        _ => params,
    };
    (vec![x], params)
}

/// A number in the order of the elements; NaN is the largest.
fn rank(x: &Array, k: usize) -> (bool, f64) {
    match &x.values {
        Values::Integers(_) => panic!("whole numbers are compared as they are"),
        Values::Floats(v) => (v[k].is_nan(), if v[k].is_nan() { 0.0 } else { v[k] }),
    }
}

fn below(x: &Array, i: usize, j: usize) -> bool {
    match &x.values {
        Values::Integers(v) => v[i] < v[j],
        Values::Floats(_) => rank(x, i).partial_cmp(&rank(x, j)) == Some(std::cmp::Ordering::Less),
    }
}

fn nan(x: &Array, k: usize) -> bool {
    matches!(&x.values, Values::Floats(v) if v[k].is_nan())
}

/// The numbers of the elements of each line along the axis.
fn lines(call: &Call) -> Vec<Vec<usize>> {
    let x = &call.inputs[0];
    let axis = call.axis("axis", x.shape.len());
    let (n, inner): (usize, usize) = (x.shape[axis], x.shape[axis + 1..].iter().product());
    let starts = (0..x.len()).filter(|k| k / inner % n == 0);
    starts.map(|start| (0..n).map(|i| start + inner * i).collect()).collect()
}

/// For each line the places in it of what is chosen.
fn chosen(call: &Call) -> Vec<Vec<usize>> {
    let x = &call.inputs[0];
    let one = |line: Vec<usize>| -> Vec<usize> {
        let ordered = |descending: bool| {
            let mut places: Vec<usize> = (0..line.len()).collect();
            // One insertion after the other: stable, and with no sort of the library's kind.
            for i in 1..places.len() {
                let mut j = i;
                while j > 0 {
                    let (a, b) = (line[places[j - 1]], line[places[j]]);
                    if !(if descending { below(x, a, b) } else { below(x, b, a) }) {
                        break;
                    }
                    places.swap(j - 1, j);
                    j -= 1;
                }
            }
            places
        };
        match call.name {
            "topk" => {
                let k = call.int("k").expect("how many") as usize;
                ordered(call.flag("largest"))[..k].to_vec()
            }
            "kthvalue" => {
                let k = call.int("k").expect("which") as usize;
                let found = line.iter().position(|&k| nan(x, k));
                vec![found.unwrap_or_else(|| ordered(false)[k - 1])]
            }
            name => {
                let mut best = 0;
                let mut all = Vec::new();
                for i in 0..line.len() {
                    let (new, old) = (line[i], line[best]);
                    let worse =
                        if name == "cummax" { below(x, new, old) } else { below(x, old, new) };
                    if nan(x, new) || !nan(x, old) && !worse {
                        best = i;
                    }
                    all.push(best);
                }
                all
            }
        }
    };
    lines(call).into_iter().map(one).collect()
}

/// The shape of the result with the axis, and without it where it goes.
fn shapes(call: &Call) -> (Vec<usize>, Vec<usize>) {
    let mut kept = call.inputs[0].shape.clone();
    let axis = call.axis("axis", kept.len());
    match call.name {
        "topk" => kept[axis] = call.int("k").expect("how many") as usize,
        "kthvalue" => kept[axis] = 1,
        _ => {}
    }
    let mut shape = kept.clone();
    if call.name == "kthvalue" && !call.flag("keepdims") {
        shape.remove(axis);
    }
    (kept, shape)
}

/// For each element of the result the number of the element of `x`, and its place in the line.
fn sources(call: &Call) -> Vec<(usize, usize)> {
    let (kept, _) = shapes(call);
    let axis = call.axis("axis", kept.len());
    let (count, inner): (usize, usize) = (kept[axis], kept[axis + 1..].iter().product());
    let mut found = vec![(0, 0); kept.iter().product()];
    for (l, (line, places)) in lines(call).iter().zip(chosen(call)).enumerate() {
        let start = l / inner * count * inner + l % inner;
        for (i, place) in places.into_iter().enumerate() {
            found[start + i * inner] = (line[place], place);
        }
    }
    found
}

fn forward(call: &Call) -> Vec<Expected> {
    let x = &call.inputs[0];
    if call.name == "logcumsumexp" {
        let mut out = vec![Near::exact(0.0); x.len()];
        for line in lines(call) {
            for (i, &k) in line.iter().enumerate() {
                let most = line[..=i].iter().map(|&k| x.floats()[k]);
                let most = most.fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = line[..=i].iter().map(|&k| (x.floats()[k] - most).exp()).sum();
                let value = if most.is_infinite() { most } else { most + sum.ln() };
                let error = (i + 4) as f64 * f64::EPSILON * (1.0 + value.abs());
                out[k] = Near { value, error: error + half_ulp(value, working(x.dtype)) };
            }
        }
        let (shape, dtype) = (x.shape.clone(), x.dtype);
        return vec![Expected { shape, dtype, values: Wanted::Floats(out) }];
    }
    let (_, shape) = shapes(call);
    let sources = sources(call);
    let values = match &x.values {
        Values::Integers(v) => Wanted::Integers(sources.iter().map(|&(k, _)| v[k]).collect()),
        Values::Floats(v) => {
            Wanted::Floats(sources.iter().map(|&(k, _)| Near::exact(v[k])).collect())
        }
    };
    let places = Wanted::Integers(sources.iter().map(|&(_, place)| place as i128).collect());
    vec![
        Expected { shape: shape.clone(), dtype: x.dtype, values },
        Expected { shape, dtype: DType::I64, values: places },
    ]
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let (x, g) = (&call.inputs[0], grads[0].floats());
    let mut sums = vec![Sum::default(); x.len()];
    let mut error = vec![0.0; x.len()];
    if call.name == "logcumsumexp" {
        for line in lines(call) {
            let floats: Vec<f64> = line.iter().map(|&k| x.floats()[k]).collect();
            for (i, &from) in line.iter().enumerate() {
                let most = floats[..=i].iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = floats[..=i].iter().map(|v| (v - most).exp()).sum();
                for (j, &to) in line[..=i].iter().enumerate() {
                    sums[to].add(g[from] * ((floats[j] - most).exp() / total));
                    // The logarithm has the rounding error of its size in an exponent.
                    error[to] += (16 + line.len()) as f64 * f64::EPSILON * (1.0 + most.abs());
                }
            }
        }
    } else {
        for (&(k, _), &g) in sources(call).iter().zip(g) {
            sums[k].add(g);
        }
    }
    let unit = working(x.dtype).epsilon();
    let near = |(sum, error): (&Sum, &f64)| {
        let exact = sum.count < 2 && call.name != "logcumsumexp";
        let rounding = if exact { 0.0 } else { sum.count as f64 * unit * sum.size };
        let least = if exact { 0.0 } else { tiny(working(x.dtype)) };
        Near { value: sum.value(), error: rounding + least + error * (2.0 + sum.size) }
    };
    let values = Wanted::Floats(sums.iter().zip(&error).map(near).collect());
    vec![Some(Expected { shape: x.shape.clone(), dtype: x.dtype, values })]
}
