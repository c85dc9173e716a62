//! The slow reference for convolutions: one loop for each index.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::{Params, Value};

pub const REFERENCE: Reference = Reference {
    names: &[
        "conv2d",
        "conv1d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
    ],
    draw,
    forward,
    backward,
};

/// Numbers by name, as one for each of three axes, of which the last are meant.
fn three(call: &Call, name: &str, default: i64) -> [i64; 3] {
    match call.param(name) {
        Value::Int(v) => [*v; 3],
        Value::Ints(v) => {
            let mut all = [default; 3];
            all[3 - v.len()..].copy_from_slice(v);
            if v.len() == 1 { [v[0]; 3] } else { all }
        }
        _ => [default; 3],
    }
}

/// Over how many axes a convolution goes.
fn axes(name: &str) -> usize {
    match name.as_bytes()[name.len() - 2] {
        b'1' => 1,
        b'2' => 2,
        _ => 3,
    }
}

/// How large a kernel's reach is.
fn extent(kernel: usize, dilation: i64) -> i64 {
    (kernel as i64 - 1) * dilation + 1
}

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let (axes, transposed) = (axes(name), name.contains("transpose"));
    // Most calls are small; some reach the kernels for large ones, and some several threads.
    let large = draw.chance(16);
    let groups = draw.pick(&[1, 1, 1, 2, 3]);
    let (most, images) = match (large, axes) {
        (true, 3) => (12, 2),
        (true, _) => (20, 3),
        (false, 3) => (4, 2),
        (false, _) => (6, 3),
    };
    let images = if draw.chance(12) { 0 } else { draw.below(images) + 1 };
    let [mut one, mut other] = [draw.below(most) + 1, draw.below(most) + 1];
    if draw.chance(5) {
        // Depthwise.
        [one, other] = [1, draw.pick(&[1, 1, 2])];
    }
    let groups = if one == 1 { draw.below(6) + 1 } else { groups };
    if draw.chance(30) {
        one = 0;
    }
    let mut shape = vec![images, one * groups];
    let mut weight = if transposed { vec![one * groups, other] } else { vec![other * groups, one] };
    let [mut stride, mut padding, mut dilation, mut more] = [[1i64; 3], [0; 3], [1; 3], [0; 3]];
    for axis in 3 - axes..3 {
        let kernel = draw.pick(if axes == 3 { &[1, 2, 3] } else { &[1, 2, 3, 3, 4, 5] });
        stride[axis] = draw.pick(&[1, 1, 1, 2, 3]);
        dilation[axis] = draw.pick(&[1, 1, 1, 2, 3]);
        let thickest = if draw.chance(6) { 6 } else { 2 };
        padding[axis] = draw.between(0, thickest);
        let reach = extent(kernel, dilation[axis]);
        let longest = match axes {
            3 => 3 + 4 * i64::from(large),
            _ if large => 40 / axes as i64,
            _ => 7,
        };
        let size = if transposed {
            more[axis] = draw.between(0, stride[axis].max(dilation[axis]) - 1);
            // Enough for at least one element to be left by the padding.
            let least = (1 + 2 * padding[axis] - reach).max(0) / stride[axis] + 2;
            draw.between(0, longest / stride[axis]) + least
        } else {
            let least = (reach - 2 * padding[axis]).max(1);
            least + draw.between(0, longest)
        };
        shape.push(size as usize);
        weight.push(kernel);
    }
    let mut params = Params::new();
    let named = [("stride", stride), ("padding", padding), ("dilation", dilation)];
    let more = [("output_padding", more)];
    for (name, all) in named.into_iter().chain(more.into_iter().filter(|_| transposed)) {
        let own = &all[3 - axes..];
        let same = own.iter().all(|&one| one == own[0]);
        params = match axes {
            1 => params.with(name, own[0]),
            _ if same && draw.chance(2) => params.with(name, own[0]),
            _ => params.with(name, own),
        };
    }
    params = params.with("groups", groups as i64);
    let dtype = draw.float();
    let mut inputs = vec![];
    let out = if transposed { weight[1] * groups } else { weight[0] };
    let bias = vec![out];
    let shapes = if draw.chance(3) { vec![shape, weight] } else { vec![shape, weight, bias] };
    let mixed = draw.chance(6);
    for shape in &shapes {
        let dtype = if mixed { draw.float() } else { dtype };
        inputs.push(draw.array(shape, dtype, [-2.0, 2.0]));
    }
    if draw.chance(4) {
        draw.sprinkle(&mut inputs[0], &[0.0, 1.0, -1.0, f64::NAN]);
    }
    (inputs, params)
}

/// The sizes of a call: those of an image with fewer axes are of depth and height 1.
struct Sizes {
    images: usize,
    groups: usize,
    /// Channels of the input and of the output in a group.
    channels: usize,
    out: usize,
    input: [usize; 3],
    output: [usize; 3],
    kernel: [usize; 3],
    shape: Vec<usize>,
}

fn sizes(call: &Call) -> Sizes {
    let (x, weight) = (&call.inputs[0].shape, &call.inputs[1].shape);
    let space = |shape: &[usize]| {
        let mut all = [1; 3];
        all[5 - shape.len()..].copy_from_slice(&shape[2..]);
        all
    };
    let (input, kernel) = (space(x), space(weight));
    let transposed = call.name.contains("transpose");
    let groups = call.int("groups").unwrap_or(1) as usize;
    let out = if transposed { weight[1] } else { weight[0] / groups };
    let mut output = [1; 3];
    for axis in 5 - x.len()..3 {
        let [stride, padding, dilation, more] =
            [("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0)]
                .map(|(name, default)| three(call, name, default)[axis]);
        let (size, reach) = (input[axis] as i64, extent(kernel[axis], dilation));
        let found = if transposed {
            (size - 1) * stride - 2 * padding + reach + more
        } else {
            (size + 2 * padding - reach) / stride + 1
        };
        output[axis] = found as usize;
    }
    let mut shape = vec![x[0], out * groups];
    shape.extend(&output[5 - x.len()..]);
    Sizes { images: x[0], groups, channels: x[1] / groups, out, input, output, kernel, shape }
}

/// Calls `visit` with the numbers of the elements of `x`, `weight` and the output of every product;
/// `None` where a window sees what is outside.
fn products(call: &Call, mut visit: impl FnMut(Option<usize>, usize, Option<usize>)) {
    let s = sizes(call);
    let transposed = call.name.contains("transpose");
    let [stride, padding, dilation] = [("stride", 1), ("padding", 0), ("dilation", 1)]
        .map(|(name, default)| three(call, name, default));
    let missing = 5 - call.inputs[0].shape.len();
    // Where a window at `p` of one image sees the other, through element `t`.
    let seen = |axis: usize, p: usize, t: usize, size: usize| {
        if axis < missing {
            return Some(0);
        }
        let at = p as i64 * stride[axis] + t as i64 * dilation[axis] - padding[axis];
        usize::try_from(at).ok().filter(|&at| at < size)
    };
    let (positions, image) = if transposed { (s.input, s.output) } else { (s.output, s.input) };
    let volume = |sizes: [usize; 3]| sizes[0] * sizes[1] * sizes[2];
    for n in 0..s.images {
        for group in 0..s.groups {
            for c in 0..s.channels {
                for o in 0..s.out {
                    let x_plane = (n * s.groups + group) * s.channels + c;
                    let y_plane = (n * s.groups + group) * s.out + o;
                    let filter = if transposed {
                        (group * s.channels + c) * s.out + o
                    } else {
                        (group * s.out + o) * s.channels + c
                    };
                    for p in 0..volume(positions) {
                        for t in 0..volume(s.kernel) {
                            let (places, taps) = (unravel(p, &positions), unravel(t, &s.kernel));
                            let at = (0..3).try_fold(0, |sum, axis| {
                                let at = seen(axis, places[axis], taps[axis], image[axis])?;
                                Some(sum * image[axis] + at)
                            });
                            let (x_at, y_at) =
                                if transposed { (Some(p), at) } else { (at, Some(p)) };
                            visit(
                                x_at.map(|at| x_plane * volume(s.input) + at),
                                filter * volume(s.kernel) + t,
                                y_at.map(|at| y_plane * volume(s.output) + at),
                            );
                        }
                    }
                }
            }
        }
    }
}

/// A sum of products, in any order, parts of which may have been summed apart.
fn near(sum: &Sum, dtype: DType) -> Near {
    let work = working(dtype);
    let value = sum.value();
    let rounding = (sum.count + 1) as f64 * (work.epsilon() / 2.0 * sum.size + tiny(work));
    let error = if sum.count < 2 { 0.0 } else { rounding + half_ulp(value, DType::F64) };
    Near { value, error }
}

fn forward(call: &Call) -> Vec<Expected> {
    let s = sizes(call);
    let dtype = call.promoted(0..call.inputs.len());
    let (x, w) = (call.inputs[0].floats(), call.inputs[1].floats());
    let mut sums = vec![Sum::default(); s.shape.iter().product()];
    if let Some(bias) = call.inputs.get(2) {
        let plane: usize = s.output.iter().product();
        let bias = bias.floats();
        let start = |(k, sum): (usize, &mut Sum)| sum.add(bias[k / plane % bias.len()]);
        sums.iter_mut().enumerate().for_each(start);
    }
    products(call, |i, j, k| {
        if let (Some(i), Some(k)) = (i, k) {
            sums[k].add_product(x[i], w[j]);
        }
    });
    let values = Wanted::Floats(sums.iter().map(|sum| near(sum, dtype)).collect());
    vec![Expected { shape: s.shape, dtype, values }]
}

fn backward(call: &Call, grads: &[Array], _outputs: &[Array]) -> Vec<Option<Expected>> {
    let g = &grads[0];
    let (x, w, dy) = (call.inputs[0].floats(), call.inputs[1].floats(), g.floats());
    let mut sums: Vec<Vec<Sum>> =
        call.inputs.iter().map(|x| vec![Sum::default(); x.len()]).collect();
    products(call, |i, j, k| {
        // Zeros outside are multiplied like other numbers.
        let (dy, x) = (k.map_or(0.0, |k| dy[k]), i.map_or(0.0, |i| x[i]));
        sums[1][j].add_product(dy, x);
        if let (Some(i), Some(_)) = (i, k) {
            sums[0][i].add_product(dy, w[j]);
        }
    });
    if let Some(bias) = call.inputs.get(2) {
        let s = sizes(call);
        let (plane, channels) = (s.output.iter().product::<usize>(), bias.len());
        dy.iter().enumerate().for_each(|(k, &g)| sums[2][k / plane % channels].add(g));
    }
    let expected = |(x, sums): (&Array, &Vec<Sum>)| {
        // A gradient in a wider dtype is rounded on its way.
        let one = |sum: &Sum| {
            let near = near(sum, g.dtype);
            let detour = if x.dtype == g.dtype { 0.0 } else { sum.size * g.dtype.epsilon() };
            Near { error: near.error + detour, ..near }
        };
        Some(Expected {
            shape: x.shape.clone(),
            dtype: x.dtype,
            values: Wanted::Floats(sums.iter().map(one).collect()),
        })
    };
    call.inputs.iter().zip(&sums).map(expected).collect()
}
