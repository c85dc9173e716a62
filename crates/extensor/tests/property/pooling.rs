//! The slow reference for the family `pooling`: a loop over windows, and a loop over each.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference, summed};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference = Reference {
    names: &["maxpool2d", "avgpool2d", "global_avgpool2d", "adaptive_avgpool2d"],
    draw,
    forward,
    backward,
};

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let dtype = draw.float();
    let mut sizes = [0, 0].map(|_| draw.below(9) + 1);
    if draw.chance(8) {
        sizes = [draw.below(40) + 20, draw.below(80) + 30];
    }
    let mut shape: Vec<usize> = (0..draw.below(2) + 1).map(|_| draw.below(4)).collect();
    if draw.chance(12) && !shape.contains(&0) {
        shape[0] *= 40;
    }
    shape.extend(sizes);
    let mut params = Params::new();
    match name {
        "adaptive_avgpool2d" => {
            let windows = [0, 1].map(|i| draw.below(sizes[i] + 4) as i64);
            params = params.with("output_size", windows);
        }
        "maxpool2d" | "avgpool2d" => {
            let kernel = [0, 1].map(|i| draw.below(sizes[i].min(5)) as i64 + 1);
            let stride = [0, 0].map(|_| draw.between(1, 4));
            let padding = kernel.map(|k| draw.between(0, k / 2));
            params = params.with("kernel_size", kernel);
            if !draw.chance(4) {
                params = params.with("stride", stride);
            }
            if !draw.chance(4) {
                params = params.with("padding", padding);
            }
        }
        _ => {}
    }
    let mut x = draw.array(&shape, dtype, [-4.0, 4.0]);
    if name == "maxpool2d" && draw.chance(2) {
        let specials = [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, 0.0, -0.0, 1.0, -5.0];
        draw.sprinkle(&mut x, &specials);
    }
    (vec![x], params)
}

/// Where a window begins and ends, and by how many places its sum is divided along an axis.
type Window = (usize, usize, f64);

/// The windows along one of the last two axes.
fn windows(call: &Call, axis: usize) -> Vec<Window> {
    let shape = &call.inputs[0].shape;
    let size = shape[shape.len() - 2 + axis] as i64;
    let of = |name: &str| call.ints(name).map(|list| list[axis]);
    if call.name == "global_avgpool2d" {
        return vec![(0, size as usize, size as f64)];
    }
    if let Some(count) = of("output_size") {
        let window = |i: i64| {
            let (start, end) = (i * size / count, ((i + 1) * size + count - 1) / count);
            (start as usize, end as usize, (end - start) as f64)
        };
        return (0..count).map(window).collect();
    }
    let kernel = of("kernel_size").expect("a window");
    let (stride, padding) = (of("stride").unwrap_or(kernel), of("padding").unwrap_or(0));
    let mut found = Vec::new();
    let mut start = -padding;
    while start + kernel <= size + padding {
        let (low, high) = (start.max(0), (start + kernel).min(size));
        found.push((low as usize, high as usize, kernel as f64));
        start += stride;
    }
    found
}

/// Calls `visit` for each window with the number of its result, of the first element of its plane,
/// and the window.
fn each(call: &Call, mut visit: impl FnMut(usize, usize, Window, Window)) -> Vec<usize> {
    let shape = &call.inputs[0].shape;
    let (outer, plane) = shape.split_at(shape.len() - 2);
    let (rows, columns) = (windows(call, 0), windows(call, 1));
    let mut k = 0;
    for p in 0..outer.iter().product() {
        for &row in &rows {
            for &column in &columns {
                visit(k, p * plane[0] * plane[1], row, column);
                k += 1;
            }
        }
    }
    outer.iter().copied().chain([rows.len(), columns.len()]).collect()
}

/// The places in its plane that a window holds, row by row.
fn places(width: usize, row: Window, column: Window) -> impl Iterator<Item = usize> {
    (row.0..row.1).flat_map(move |y| (column.0..column.1).map(move |x| y * width + x))
}

/// The first largest place of each window; NaN is the largest.
fn largest(call: &Call) -> (Vec<usize>, Vec<usize>) {
    let x = &call.inputs[0];
    let width = x.shape[x.shape.len() - 1];
    let mut found = Vec::new();
    let shape = each(call, |_, first, row, column| {
        let value = |place: usize| x.floats()[first + place];
        let mut best = None;
        for place in places(width, row, column) {
            let beats =
                |b: usize| !value(b).is_nan() && (value(place).is_nan() || value(place) > value(b));
            if best.is_none_or(beats) {
                best = Some(place);
            }
        }
        found.push(best.expect("a number in every window"));
    });
    (shape, found)
}

fn forward(call: &Call) -> Vec<Expected> {
    let x = &call.inputs[0];
    let (width, dtype) = (x.shape[x.shape.len() - 1], x.dtype);
    if call.name == "maxpool2d" {
        let (shape, found) = largest(call);
        let mut results = Vec::new();
        each(call, |k, first, _, _| results.push(Near::exact(x.floats()[first + found[k]])));
        let indices = found.iter().map(|&place| place as i128).collect();
        return vec![
            Expected { shape: shape.clone(), dtype, values: Wanted::Floats(results) },
            Expected { shape, dtype: DType::I64, values: Wanted::Integers(indices) },
        ];
    }
    let mut results = Vec::new();
    let shape = each(call, |_, first, row, column| {
        let mut sum = Sum::default();
        places(width, row, column).for_each(|place| sum.add(x.floats()[first + place]));
        let near = summed(&sum, 0.0, dtype);
        let area = row.2 * column.2;
        let value = near.value / area;
        results
            .push(Near { value, error: near.error / area + 3.0 * half_ulp(value, working(dtype)) });
    });
    vec![Expected { shape, dtype, values: Wanted::Floats(results) }]
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let (x, g) = (&call.inputs[0], &grads[0]);
    let (width, dtype) = (x.shape[x.shape.len() - 1], x.dtype);
    let mut sums = vec![Sum::default(); x.len()];
    let mut errors = vec![0.0; x.len()];
    let found = if call.name == "maxpool2d" { largest(call).1 } else { Vec::new() };
    each(call, |k, first, row, column| {
        let g = g.floats()[k];
        if call.name == "maxpool2d" {
            return sums[first + found[k]].add(g);
        }
        let part = g / (row.2 * column.2);
        for place in places(width, row, column) {
            sums[first + place].add(part);
            errors[first + place] += 4.0 * half_ulp(part, working(dtype));
        }
    });
    let near = |(sum, error): (&Sum, &f64)| summed(sum, *error, dtype);
    let values = Wanted::Floats(sums.iter().zip(&errors).map(near).collect());
    vec![Some(Expected { shape: x.shape.clone(), dtype, values })]
}
