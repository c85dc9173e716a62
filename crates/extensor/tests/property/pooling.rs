//! The slow reference for the family `pooling`: a loop over windows, and a loop over each.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference, summed};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference = Reference {
    names: &[
        "maxpool1d",
        "maxpool2d",
        "maxpool3d",
        "adaptive_maxpool1d",
        "adaptive_maxpool2d",
        "adaptive_maxpool3d",
        "avgpool1d",
        "avgpool2d",
        "avgpool3d",
        "global_avgpool2d",
        "adaptive_avgpool1d",
        "adaptive_avgpool2d",
        "adaptive_avgpool3d",
    ],
    draw,
    forward,
    backward,
};

/// Over how many axes windows go.
fn axes(name: &str) -> usize {
    match name.as_bytes()[name.len() - 2] {
        b'1' => 1,
        b'2' => 2,
        _ => 3,
    }
}

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let (dtype, axes, largest) = (draw.float(), axes(name), name.contains("max"));
    let most = if axes == 3 { 6 } else { 9 };
    let mut sizes: Vec<usize> = (0..axes).map(|_| draw.below(most) + 1).collect();
    if draw.chance(8) {
        sizes[0] = draw.below(40) + if axes == 3 { 2 } else { 20 };
        if axes == 2 {
            sizes[1] = draw.below(80) + 30;
        }
    }
    let mut shape: Vec<usize> = (0..draw.below(2) + 1).map(|_| draw.below(4)).collect();
    if draw.chance(12) && !shape.contains(&0) {
        shape[0] *= if axes == 3 { 10 } else { 40 };
    }
    shape.extend(&sizes);
    let mut params = Params::new();
    if name.starts_with("adaptive") {
        let windows: Vec<i64> = sizes.iter().map(|&size| draw.below(size + 4) as i64).collect();
        params = params.with("output_size", windows);
    } else if name != "global_avgpool2d" {
        let kernel: Vec<i64> =
            sizes.iter().map(|&size| draw.below(size.min(5)) as i64 + 1).collect();
        let mut dilation = vec![1; axes];
        if largest && draw.chance(3) {
            for axis in 0..axes {
                // So that a window fits, and holds numbers wherever it is.
                let most = (sizes[axis] as i64 - 1) / (kernel[axis] - 1).max(1);
                dilation[axis] = draw.between(1, most.clamp(1, 3));
            }
            params = params.with("dilation", dilation.clone());
        }
        let stride: Vec<i64> = (0..axes).map(|_| draw.between(1, 4)).collect();
        let gaps = dilation.iter().any(|&d| d > 1);
        let half = |k: i64| if gaps { 0 } else { k / 2 };
        let padding: Vec<i64> = kernel.iter().map(|&k| draw.between(0, half(k))).collect();
        params = params.with("kernel_size", kernel);
        if !draw.chance(4) {
            params = params.with("stride", stride);
        }
        if !draw.chance(4) {
            params = params.with("padding", padding);
        }
        // With gaps, a window that ends behind the axis may hold nothing.
        if !gaps && draw.chance(3) {
            params = params.with("ceil_mode", true);
        }
        if !largest && draw.chance(3) {
            params = params.with("count_include_pad", draw.chance(2));
        }
        if !largest && draw.chance(4) {
            params = params.with("divisor_override", draw.between(1, 9));
        }
    }
    let mut x = draw.array(&shape, dtype, [-4.0, 4.0]);
    if largest && draw.chance(2) {
        let specials = [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, 0.0, -0.0, 1.0, -5.0];
        draw.sprinkle(&mut x, &specials);
    }
    (vec![x], params)
}

/// The places of a window along an axis, and by how many its sum is divided there.
type Window = (Vec<usize>, f64);

/// The windows along one of the last axes.
fn windows(call: &Call, axis: usize) -> Vec<Window> {
    let (shape, axes) = (&call.inputs[0].shape, axes(call.name));
    let size = shape[shape.len() - axes + axis] as i64;
    let of = |name: &str| call.ints(name).map(|list| list[axis.min(list.len() - 1)]);
    let whole = |from: i64, to: i64| (from..to).map(|at| at as usize).collect::<Vec<_>>();
    if call.name == "global_avgpool2d" {
        return vec![(whole(0, size), size as f64)];
    }
    if let Some(count) = of("output_size") {
        let window = |i: i64| {
            let (start, end) = (i * size / count, ((i + 1) * size + count - 1) / count);
            (whole(start, end), (end - start) as f64)
        };
        return (0..count).map(window).collect();
    }
    let kernel = of("kernel_size").expect("a window");
    let (stride, padding) = (of("stride").unwrap_or(kernel), of("padding").unwrap_or(0));
    let dilation = of("dilation").unwrap_or(1);
    let reach = (kernel - 1) * dilation + 1;
    let (ceil, outside) =
        (call.flag("ceil_mode"), *call.param("count_include_pad") != false.into());
    let mut found = Vec::new();
    let mut start = -padding;
    while start + reach <= size + padding || ceil {
        let partly = start + reach > size + padding;
        // A window that is not whole is the last, and there if it begins on the axis and one before it
        // did not end where the padding does.
        if partly && (start >= size || start - stride + reach >= size + padding) {
            break;
        }
        let places = (0..kernel).map(|t| start + t * dilation);
        let counted = places.clone().filter(|&at| at < size + padding).count();
        let inside = places.filter(|at| (0..size).contains(at)).map(|at| at as usize);
        let inside: Vec<usize> = inside.collect();
        let divisor = match (call.int("divisor_override"), axis) {
            (Some(divisor), 0) => divisor as f64,
            (Some(_), _) => 1.0,
            (None, _) if outside => counted as f64,
            (None, _) => inside.len() as f64,
        };
        found.push((inside, divisor));
        if partly {
            break;
        }
        start += stride;
    }
    found
}

/// Calls `visit` for each window with the number of its result, of the first element of its volume, its
/// places there, and by how many its sum is divided.
fn each(call: &Call, mut visit: impl FnMut(usize, usize, &[usize], f64)) -> Vec<usize> {
    let (shape, axes) = (&call.inputs[0].shape, axes(call.name));
    let (outer, volume) = shape.split_at(shape.len() - axes);
    // The windows of all axes so far, in order: places in them, and divisors.
    let mut all: Vec<Window> = vec![(vec![0], 1.0)];
    let mut counts = Vec::new();
    for (axis, &n) in volume.iter().enumerate() {
        let along = windows(call, axis);
        counts.push(along.len());
        let pairs = all.iter().flat_map(|before| along.iter().map(move |own| (before, own)));
        let both = |(before, own): (&Window, &Window)| {
            let places = before.0.iter().flat_map(|p| own.0.iter().map(move |k| p * n + k));
            (places.collect(), before.1 * own.1)
        };
        all = pairs.map(both).collect();
    }
    let size: usize = volume.iter().product();
    let mut k = 0;
    for p in 0..outer.iter().product() {
        for (places, divisor) in &all {
            visit(k, p * size, places, *divisor);
            k += 1;
        }
    }
    outer.iter().copied().chain(counts).collect()
}

/// The first largest place of each window; NaN is the largest.
fn largest(call: &Call) -> (Vec<usize>, Vec<usize>) {
    let x = &call.inputs[0];
    let mut found = Vec::new();
    let shape = each(call, |_, first, places, _| {
        let value = |place: usize| x.floats()[first + place];
        let mut best = None;
        for &place in places {
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
    let dtype = x.dtype;
    if call.name.contains("max") {
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
    let shape = each(call, |_, first, places, divisor| {
        let mut sum = Sum::default();
        places.iter().for_each(|place| sum.add(x.floats()[first + place]));
        let near = summed(&sum, 0.0, dtype);
        let value = near.value / divisor;
        let mut error = near.error / divisor + 3.0 * half_ulp(value, working(dtype));
        if axes(call.name) == 3 {
            // The averages of planes are rounded on the way.
            error += 2.0 * sum.size / divisor * working(dtype).epsilon();
        }
        results.push(Near { value, error });
    });
    vec![Expected { shape, dtype, values: Wanted::Floats(results) }]
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let (x, g) = (&call.inputs[0], &grads[0]);
    let dtype = x.dtype;
    let mut sums = vec![Sum::default(); x.len()];
    let mut errors = vec![0.0; x.len()];
    let found = if call.name.contains("max") { largest(call).1 } else { Vec::new() };
    each(call, |k, first, places, divisor| {
        let g = g.floats()[k];
        if call.name.contains("max") {
            return sums[first + found[k]].add(g);
        }
        let part = g / divisor;
        for place in places {
            sums[first + place].add(part);
            errors[first + place] += 4.0 * half_ulp(part, working(dtype));
        }
    });
    let near = |(sum, error): (&Sum, &f64)| summed(sum, *error, dtype);
    let values = Wanted::Floats(sums.iter().zip(&errors).map(near).collect());
    vec![Some(Expected { shape: x.shape.clone(), dtype, values })]
}
