//! The slow reference for what is made of lengths: vectors of length 1, cosines, distances.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference =
    Reference { names: &["normalize", "cosine_similarity", "cdist"], draw, forward, backward };

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let dtype = draw.float();
    let mut params = Params::new();
    if name != "cosine_similarity" && draw.chance(2) {
        params = params.with("p", draw.pick(&[1.0, 2.0, 3.0, 1.5, 0.5, f64::INFINITY]));
    }
    if name != "cdist" && draw.chance(3) {
        params = params.with("eps", draw.pick(&[1e-3, 0.7, 2.0]));
    }
    let range = draw.pick(&[[-2.0, 2.0], [0.1, 3.0], [-2.0, 2.0]]);
    if name == "normalize" {
        let shape = draw.shape_of(1);
        let ndim = shape.len() as i64;
        if draw.chance(2) {
            params = params.with("axis", draw.between(-ndim, ndim - 1));
        }
        let mut x = draw.array(&shape, dtype, range);
        if draw.chance(3) {
            draw.sprinkle(&mut x, &[0.0, 1.0, -1.0]);
        }
        return (vec![x], params);
    }
    let [one, other] = draw.promoting(dtype);
    let (a, b) = if name == "cdist" {
        let [first, second] = draw.pair();
        let size = |draw: &mut Draw| if draw.chance(15) { 0 } else { draw.below(6) + 1 };
        let (mut n, mut m, mut d) = (size(draw), size(draw), size(draw));
        let (mut first, mut second) = (first, second);
        match draw.below(12) {
            // More than a tile of columns, and more than a block of differences.
            0 => (m, first, second) = (draw.below(90) + 1, vec![], vec![]),
            1 => (n, first, second) = (draw.below(90) + 1, vec![], vec![]),
            2 => (d, first, second) = (draw.below(200) + 1, vec![], vec![]),
            _ => {}
        }
        first.truncate(2);
        second.truncate(2);
        if !fits(&first, &second) {
            second = first.clone();
        }
        ([&first[..], &[n, d]].concat(), [&second[..], &[m, d]].concat())
    } else {
        let [a, b] = draw.pair();
        let ndim = a.len().max(b.len());
        if ndim == 0 {
            (vec![3], vec![3])
        } else {
            if draw.chance(2) {
                params = params.with("axis", draw.between(-(ndim as i64), ndim as i64 - 1));
            }
            (a, b)
        }
    };
    let mut inputs = vec![draw.array(&a, one, range), draw.array(&b, other, range)];
    if draw.chance(3) {
        inputs.iter_mut().for_each(|x| draw.sprinkle(x, &[0.0, 1.0]));
    }
    (inputs, params)
}

/// Whether the shapes broadcast.
fn fits(a: &[usize], b: &[usize]) -> bool {
    a.iter().rev().zip(b.iter().rev()).all(|(&a, &b)| a == b || a == 1 || b == 1)
}

fn order(call: &Call) -> f64 {
    call.float("p").unwrap_or(2.0)
}

/// `(Σ|x|ᵖ)^(1/p)`.
fn length(x: &[f64], p: f64) -> f64 {
    let top = x.iter().fold(0.0, |top: f64, x| top.max(x.abs()));
    if p.is_infinite() || top == 0.0 {
        return top;
    }
    let mut sum = Sum::default();
    x.iter().for_each(|x| sum.add((x.abs() / top).powf(p)));
    top * sum.value().powf(1.0 / p)
}

/// The derivative of the length by each number.
fn slopes(x: &[f64], n: f64, p: f64) -> Vec<f64> {
    let ties = x.iter().filter(|x| x.abs() == n).count() as f64;
    let one = |&x: &f64| match p {
        _ if x == 0.0 => 0.0,
        p if p.is_infinite() && x.abs() == n => x.signum() / ties,
        p if p.is_infinite() => 0.0,
        p => x.signum() * (x.abs() / n).powf(p - 1.0),
    };
    x.iter().map(one).collect()
}

/// How far a length, or a power of a share of it, may be off relative to it.
fn relative(count: usize, p: f64, dtype: DType) -> f64 {
    let unit = working(dtype).epsilon() / 2.0;
    let powers = if p == 1.0 || p == 2.0 || p.is_infinite() { 4.0 } else { 24.0 };
    (count.min(200) as f64 + powers) * unit * (1.0 + 1.0 / p.min(2.0))
}

/// The places of the vectors along an axis of a shape.
fn vectors(shape: &[usize], axis: usize) -> Vec<Vec<Vec<usize>>> {
    let mut rest = shape.to_vec();
    rest[axis] = 1;
    let along = |index: Vec<usize>| {
        let at = |k: usize| {
            let mut index = index.clone();
            index[axis] = k;
            index
        };
        (0..shape[axis]).map(at).collect()
    };
    indices(&rest).map(along).collect()
}

/// A gradient at zero, which is no larger than the largest number of its dtype.
fn capped(value: f64, length: f64, dtype: DType) -> f64 {
    let most = if dtype == DType::F16 && length == 0.0 { 65504.0 } else { f64::INFINITY };
    value.clamp(-most, most)
}

fn axis_of(call: &Call, ndim: usize) -> usize {
    crate::reference::index(call.int("axis").unwrap_or(-1), ndim)
}

fn floats(shape: Vec<usize>, dtype: DType, values: Vec<Near>) -> Expected {
    Expected { shape, dtype, values: Wanted::Floats(values) }
}

/// Everything of a cosine along one pair of vectors.
struct Pair {
    at: Vec<Vec<usize>>,
    /// Both, over the lengths that count, these lengths, and whether they are those of the vectors.
    unit: [Vec<f64>; 2],
    length: [f64; 2],
    long: [bool; 2],
    own: [f64; 2],
    cosine: Sum,
}

fn pairs(call: &Call) -> (Vec<usize>, usize, Vec<Pair>) {
    let eps = call.float("eps").unwrap_or(1e-8);
    let full = broadcast_shapes(&call.inputs[0].shape, &call.inputs[1].shape);
    let axis = axis_of(call, full.len());
    let one = |at: Vec<Vec<usize>>| {
        let of = |x: &Array| -> Vec<f64> {
            at.iter().map(|index| x.floats()[ravel_broadcast(index, &x.shape)]).collect()
        };
        let both = [of(&call.inputs[0]), of(&call.inputs[1])];
        let own = both.each_ref().map(|x| length(x, 2.0));
        let (length, long) = (own.map(|n| n.max(eps)), own.map(|n| n >= eps));
        let unit = [0, 1].map(|i| both[i].iter().map(|x| x / length[i]).collect::<Vec<f64>>());
        let mut cosine = Sum::default();
        (0..at.len()).for_each(|k| cosine.add(unit[0][k] * unit[1][k]));
        Pair { at, unit, length, long, own, cosine }
    };
    let all = vectors(&full, axis).into_iter().map(one).collect();
    (full, axis, all)
}

/// The rows that a distance is between, of each input; their differences as they are computed.
struct Apart {
    rows: [Vec<usize>; 2],
    differences: Vec<f64>,
}

fn apart(call: &Call) -> (Vec<usize>, Vec<Apart>) {
    let [a, b] = [&call.inputs[0], &call.inputs[1]];
    let dtype = working(call.promoted(0..2));
    let (k, l) = (a.shape.len() - 2, b.shape.len() - 2);
    let (n, d, m) = (a.shape[k], a.shape[k + 1], b.shape[l]);
    let outer = broadcast_shapes(&a.shape[..k], &b.shape[..l]);
    let mut all = Vec::new();
    for index in indices(&outer) {
        let (i, j) =
            (ravel_broadcast(&index, &a.shape[..k]), ravel_broadcast(&index, &b.shape[..l]));
        for row in 0..n {
            for other in 0..m {
                let one = |c: usize| (i * n + row) * d + c;
                let two = |c: usize| (j * m + other) * d + c;
                let difference =
                    |c: usize| round_to(a.floats()[one(c)] - b.floats()[two(c)], dtype);
                let rows = [(0..d).map(one).collect(), (0..d).map(two).collect()];
                all.push(Apart { rows, differences: (0..d).map(difference).collect() });
            }
        }
    }
    ([&outer[..], &[n, m]].concat(), all)
}

fn forward(call: &Call) -> Vec<Expected> {
    let dtype = call.promoted(0..call.inputs.len());
    let unit = working(dtype).epsilon() / 2.0;
    let small = 4.0 * tiny(working(dtype));
    let p = order(call);
    vec![match call.name {
        "normalize" => {
            let x = &call.inputs[0];
            let eps = call.float("eps").unwrap_or(1e-12);
            let mut values = vec![Near::exact(0.0); x.len()];
            for at in vectors(&x.shape, axis_of(call, x.shape.len())) {
                let places: Vec<usize> = at.iter().map(|index| ravel(index, &x.shape)).collect();
                let vector: Vec<f64> = places.iter().map(|&k| x.floats()[k]).collect();
                let n = length(&vector, p).max(eps);
                for (&k, v) in places.iter().zip(&vector) {
                    let value = v / n;
                    let error =
                        value.abs() * (relative(vector.len(), p, dtype) + 4.0 * unit) + small;
                    values[k] = Near { value, error };
                }
            }
            floats(x.shape.clone(), dtype, values)
        }
        "cosine_similarity" => {
            let (full, axis, all) = pairs(call);
            let near = |pair: &Pair| {
                let count = pair.at.len();
                let off = 2.0 * relative(count, 2.0, dtype) + (count as f64 + 8.0) * unit;
                let error = pair.cosine.size * off + small * (count as f64 + 1.0);
                Near { value: pair.cosine.value(), error }
            };
            let mut shape = full;
            shape.remove(axis);
            floats(shape, dtype, all.iter().map(near).collect())
        }
        _ => {
            let (shape, all) = apart(call);
            let near = |apart: &Apart| {
                let value = length(&apart.differences, p);
                let error = value * relative(apart.differences.len(), p, dtype) + small;
                Near { value, error }
            };
            floats(shape, dtype, all.iter().map(near).collect())
        }
    }]
}

/// A sum of terms, each of which may be off.
#[derive(Clone, Default)]
struct Terms {
    sum: Sum,
    off: f64,
}

impl Terms {
    fn add(&mut self, value: f64, off: f64) {
        self.sum.add(value);
        self.off += off;
    }
}

/// The gradient for an input of such sums, which are rounded to the gradient's dtype on their way at most.
fn gradient(x: &Array, g: DType, terms: &[Terms]) -> Option<Expected> {
    let unit = working(g).epsilon() / 2.0;
    let near = |t: &Terms| {
        let value = t.sum.value();
        let chain = (t.sum.count as f64 + 4.0) * unit * (t.sum.size + t.off);
        let narrowed = if x.dtype == g { 0.0 } else { half_ulp(value, g) };
        let small = 4.0 * tiny(working(g)) * (t.sum.count as f64 + 1.0);
        Near { value, error: t.off + chain + narrowed + small }
    };
    Some(floats(x.shape.clone(), x.dtype, terms.iter().map(near).collect()))
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let (g, p) = (&grads[0], order(call));
    let unit = working(g.dtype).epsilon() / 2.0;
    let mut found: Vec<Vec<Terms>> =
        call.inputs.iter().map(|x| vec![Terms::default(); x.len()]).collect();
    match call.name {
        "normalize" => {
            let x = &call.inputs[0];
            let eps = call.float("eps").unwrap_or(1e-12);
            for at in vectors(&x.shape, axis_of(call, x.shape.len())) {
                let places: Vec<usize> = at.iter().map(|index| ravel(index, &x.shape)).collect();
                let vector: Vec<f64> = places.iter().map(|&k| x.floats()[k]).collect();
                let own = length(&vector, p);
                let n = own.max(eps);
                let mut along = Sum::default();
                let pulled = |k: usize| g.floats()[places[k]] / n;
                (0..vector.len()).for_each(|k| along.add(pulled(k) * (vector[k] / n)));
                let count = vector.len();
                let off = 3.0 * relative(count, p, g.dtype) + (count as f64 + 8.0) * unit;
                let off = off * (1.0 + (p.min(4.0) - 1.0).abs());
                let slopes = slopes(&vector, own, p);
                for (k, &place) in places.iter().enumerate() {
                    let h = pulled(k);
                    let (value, size) = if own < eps {
                        (capped(h, own, g.dtype), 0.0)
                    } else {
                        (h - slopes[k] * along.value(), slopes[k].abs() * along.size)
                    };
                    found[0][place].add(value, off * (h.abs() + size));
                }
            }
        }
        "cosine_similarity" => {
            let (_, _, all) = pairs(call);
            for (pair, &g) in all.iter().zip(g.floats()) {
                let count = pair.at.len();
                let off = 4.0 * relative(count, 2.0, grads[0].dtype) + (count as f64 + 8.0) * unit;
                for (k, index) in pair.at.iter().enumerate() {
                    for by in [0, 1] {
                        let (own, other) = (pair.unit[by][k], pair.unit[1 - by][k]);
                        let back = if pair.long[by] { own } else { 0.0 };
                        let slope = g / pair.length[by];
                        let value = slope * (other - pair.cosine.value() * back);
                        let size = slope.abs() * (other.abs() + pair.cosine.size * back.abs());
                        let value = capped(value, pair.own[by], grads[0].dtype);
                        let place = ravel_broadcast(index, &call.inputs[by].shape);
                        found[by][place].add(value, off * size);
                    }
                }
            }
        }
        _ => {
            let (_, all) = apart(call);
            for (apart, &g) in all.iter().zip(g.floats()) {
                let n = length(&apart.differences, p);
                let off = relative(apart.differences.len(), p, grads[0].dtype) + 8.0 * unit;
                let off = off * (1.0 + (p.min(4.0) - 1.0).abs());
                for (c, slope) in slopes(&apart.differences, n, p).into_iter().enumerate() {
                    let term = g * slope;
                    found[0][apart.rows[0][c]].add(term, off * term.abs());
                    found[1][apart.rows[1][c]].add(-term, off * term.abs());
                }
            }
        }
    }
    call.inputs.iter().zip(&found).map(|(x, terms)| gradient(x, g.dtype, terms)).collect()
}
