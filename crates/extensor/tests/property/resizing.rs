//! The slow reference for windows side by side and for images brought to another size: every pair of
//! an element of the input and one of the output, with its weight.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::ops::params::{Params, Value};

pub const REFERENCE: Reference =
    Reference { names: &["unfold", "fold", "interpolate"], draw, forward, backward };

/// How many positions a window has on an axis.
fn positions([size, kernel, stride, padding, dilation]: [i64; 5]) -> i64 {
    (size + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1
}

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let dtype = draw.float();
    let before: Vec<usize> = [draw.below(4), draw.below(4)].into();
    if name == "interpolate" {
        let axes = draw.below(3) + 1;
        let most = if draw.chance(6) && axes < 3 { 60 } else { 7 };
        let sizes: Vec<usize> = (0..axes).map(|_| draw.below(most) + 1).collect();
        let modes = ["nearest", "nearest-exact", "linear", "bilinear", "cubic", "bicubic"];
        let mode = draw.pick(&modes);
        let mut params = Params::new().with("mode", mode);
        let corners = !mode.starts_with("nearest") && draw.chance(3);
        if draw.chance(4) {
            let scale = draw.pick(&[1.0, 1.5, 2.0, 2.3]);
            params = params.with("scale_factor", scale);
        } else if draw.chance(5) {
            params = params.with("size", draw.between(1, 8));
        } else {
            let target: Vec<i64> = sizes.iter().map(|_| draw.between(1, most as i64 + 3)).collect();
            params = params.with("size", target);
        }
        params = if corners { params.with("align_corners", true) } else { params };
        let shape: Vec<usize> = before.into_iter().chain(sizes).collect();
        return (vec![draw.array(&shape, dtype, [-4.0, 4.0])], params);
    }
    let mut along = || {
        let kernel = draw.between(1, 3);
        let [stride, dilation, padding] = [(1, 3), (1, 2), (0, 2)].map(|(a, b)| draw.between(a, b));
        let least = ((kernel - 1) * dilation + 1 - 2 * padding).max(1);
        [draw.between(least, least + 7), kernel, stride, padding, dilation]
    };
    let (y, x) = (along(), along());
    let mut params = Params::new();
    for (i, name) in ["kernel_size", "stride", "padding", "dilation"].into_iter().enumerate() {
        params = params.with(name, [y[i + 1], x[i + 1]]);
    }
    let mut shape = if draw.chance(3) { before[1..].to_vec() } else { before };
    if name == "unfold" {
        shape.extend([y[0] as usize, x[0] as usize]);
    } else {
        params = params.with("output_size", [y[0], x[0]]);
        let last = shape.len() - 1;
        shape[last] *= (y[1] * x[1]) as usize;
        shape.push((positions(y) * positions(x)) as usize);
    }
    (vec![draw.array(&shape, dtype, [-4.0, 4.0])], params)
}

/// How much number `k` of `n` counts for number `i` of `m`.
fn weight(call: &Call, i: usize, m: usize, k: usize, n: usize) -> f64 {
    let Value::Text(mode) = call.param("mode") else { panic!("no mode") };
    let scale = call.float("scale_factor");
    let [i, m, k, n] = [i, m, k, n].map(|number| number as i64);
    let last = n - 1;
    // How far behind number `at` the place of number `i` is; of sizes alone, rounded once.
    let behind = |at: i64| match scale {
        _ if call.flag("align_corners") && m == 1 => -at as f64,
        _ if call.flag("align_corners") => (i * last - at * (m - 1)) as f64 / (m - 1) as f64,
        Some(scale) => (i as f64 + 0.5) / scale - 0.5 - at as f64,
        None => ((2 * i + 1) * n - m - 2 * m * at) as f64 / (2 * m) as f64,
    };
    match (&mode[..], scale) {
        ("nearest" | "nearest-exact", _) => {
            let half = i64::from(mode != "nearest");
            let begins = |at: i64| match scale {
                Some(scale) => at as f64 <= (i as f64 + half as f64 / 2.0) / scale,
                None => 2 * at * m <= (2 * i + half) * n,
            };
            // The last of those that begin at or before it.
            f64::from((0..n).rev().find(|&at| begins(at)) == Some(k))
        }
        ("linear" | "bilinear", _) if behind(0) <= 0.0 => f64::from(k == 0),
        ("linear" | "bilinear", _) if behind(last) >= 0.0 => f64::from(k == last),
        ("linear" | "bilinear", _) => (1.0 - behind(k).abs()).max(0.0),
        _ => {
            // Keys' kernel, with what is beyond the ends where the ends are.
            let kernel = |d: f64| match d.abs() {
                d if d <= 1.0 => (1.0 - d) * (1.0 + d * (1.0 - 1.25 * d)),
                d if d < 2.0 => -0.75 * (d - 1.0) * (2.0 - d) * (2.0 - d),
                _ => 0.0,
            };
            let around = (-3..n + 3).filter(|at| at.clamp(&0, &last) == &k);
            around.map(|at| kernel(behind(at))).sum()
        }
    }
}

/// The output's shape, and every pair of elements of which the one depends on the other: the input's, the
/// output's, and the weight.
fn pairs(call: &Call) -> (Vec<usize>, Vec<(usize, usize, f64)>) {
    let shape = &call.inputs[0].shape;
    if call.name == "interpolate" {
        let space = &shape[2..];
        let scaled = |&size: &usize| {
            call.float("scale_factor").map(|scale| (size as f64 * scale).floor() as usize)
        };
        let sizes = match call.param("size") {
            Value::Int(all) => vec![*all],
            Value::Ints(each) => each.clone(),
            _ => Vec::new(),
        };
        let to = |axis: usize| {
            scaled(&space[axis]).unwrap_or_else(|| sizes[axis.min(sizes.len() - 1)] as usize)
        };
        let to: Vec<usize> = (0..space.len()).map(to).collect();
        // For one image: an axis at a time.
        let mut all = vec![(0, 0, 1.0)];
        for (&n, &m) in space.iter().zip(&to) {
            let mut along = Vec::new();
            for i in 0..m {
                let weights = (0..n).map(|k| (k, i, weight(call, i, m, k, n)));
                along.extend(weights.filter(|pair| pair.2 != 0.0));
            }
            let both = |&(a, b, w): &(usize, usize, f64)| {
                along
                    .iter()
                    .map(move |&(k, i, v)| (a * n + k, b * m + i, w * v))
                    .collect::<Vec<_>>()
            };
            all = all.iter().flat_map(both).collect();
        }
        let (n, m): (usize, usize) = (space.iter().product(), to.iter().product());
        let images = 0..shape[0] * shape[1];
        let of = |p: usize| all.iter().map(move |&(k, i, w)| (p * n + k, p * m + i, w));
        let found = images.flat_map(of).collect();
        return (shape[..2].iter().copied().chain(to).collect(), found);
    }
    let named = |name: &str| call.ints(name).expect("two numbers");
    let (kernel, stride) = (named("kernel_size"), named("stride"));
    let (padding, dilation) = (named("padding"), named("dilation"));
    let unfold = call.name == "unfold";
    let taps = (kernel[0] * kernel[1]) as usize;
    let (image, planes) = if unfold {
        let n = shape.len() - 2;
        (vec![shape[n] as i64, shape[n + 1] as i64], shape[..n].iter().product())
    } else {
        let n = shape.len() - 1;
        (named("output_size"), shape[..n].iter().product::<usize>() / taps)
    };
    let count = [0, 1]
        .map(|i| positions([image[i], kernel[i], stride[i], padding[i], dilation[i]]) as usize);
    let (area, size) = (count[0] * count[1], (image[0] * image[1]) as usize);
    let mut found = Vec::new();
    for p in 0..planes {
        for t in 0..taps {
            for o in 0..area {
                let at = |i: usize, t: usize, o: usize| {
                    let at = o as i64 * stride[i] + t as i64 * dilation[i] - padding[i];
                    (0..image[i]).contains(&at).then_some(at as usize)
                };
                let row = at(0, t / kernel[1] as usize, o / count[1]);
                let column = at(1, t % kernel[1] as usize, o % count[1]);
                if let (Some(row), Some(column)) = (row, column) {
                    let pixel = p * size + row * image[1] as usize + column;
                    let window = (p * taps + t) * area + o;
                    let pair = if unfold { (pixel, window) } else { (window, pixel) };
                    found.push((pair.0, pair.1, 1.0));
                }
            }
        }
    }
    let mut to = shape.clone();
    if unfold {
        let n = shape.len() - 3;
        to.truncate(n);
        to.extend([shape[n] * taps, area]);
    } else {
        let n = shape.len() - 2;
        to.truncate(n);
        to.extend([shape[n] / taps, image[0] as usize, image[1] as usize]);
    }
    (to, found)
}

/// Sums of products with weights, along up to three axes one after the other. A weight is a cubic at most, of
/// a few roundings, and rounded to the dtype.
fn sums(call: &Call, pairs: impl Iterator<Item = (f64, usize, f64)>, len: usize) -> Wanted {
    let work = working(call.inputs[0].dtype);
    let mut sums = vec![Sum::default(); len];
    pairs.for_each(|(x, to, weight)| sums[to].add_product(x, weight));
    let weighted = call.name == "interpolate" && !call_is_nearest(call);
    let near = |sum: &Sum| {
        let roundings = sum.count as f64 - 1.0 + if weighted { 24.0 } else { 0.0 };
        let error = roundings.max(0.0) * (work.epsilon() / 2.0 * sum.size + tiny(work));
        Near { value: sum.value(), error }
    };
    Wanted::Floats(sums.iter().map(near).collect())
}

fn call_is_nearest(call: &Call) -> bool {
    matches!(call.param("mode"), Value::Text(mode) if mode.starts_with("nearest"))
}

fn forward(call: &Call) -> Vec<Expected> {
    let (shape, pairs) = pairs(call);
    let x = call.inputs[0].floats();
    let terms = pairs.into_iter().map(|(from, to, weight)| (x[from], to, weight));
    let values = sums(call, terms, shape.iter().product());
    vec![Expected { shape, dtype: call.inputs[0].dtype, values }]
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let x = &call.inputs[0];
    let g = grads[0].floats();
    let terms = pairs(call).1.into_iter().map(|(from, to, weight)| (g[to], from, weight));
    let values = sums(call, terms, x.len());
    vec![Some(Expected { shape: x.shape.clone(), dtype: x.dtype, values })]
}
