//! The slow reference for the family `attention`: the whole matrix of weights, in `f64`.

use crate::array::*;
use crate::draw::Draw;
use crate::dropout::random;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference =
    Reference { names: &["scaled_dot_product_attention"], draw, forward, backward };

fn draw(draw: &mut Draw, _: &'static str) -> (Vec<Array>, Params) {
    let size = |draw: &mut Draw| match draw.below(8) {
        0 if draw.chance(3) => 0,
        0 | 1 => 1,
        _ => draw.below(7) + 1,
    };
    let mut outer: Vec<usize> = (0..draw.below(3)).map(|_| draw.below(4) + 1).collect();
    let (mut queries, mut keys) = (size(draw), size(draw));
    let (mut width, mut value_width) = (size(draw), size(draw));
    if !outer.is_empty() && draw.chance(12) {
        outer[0] = 0;
    }
    match draw.below(20) {
        // More than a block of one or of both, and a wide head.
        0 => (queries, keys, outer) = (draw.below(300) + 1, draw.below(600) + 1, vec![]),
        1 => (queries, outer) = (draw.below(300) + 1, vec![]),
        2 => (keys, outer) = (draw.below(600) + 1, vec![]),
        3 => (width, value_width) = (draw.below(130) + 1, draw.below(70) + 1),
        _ => {}
    }
    let dtype = draw.float();
    let [one, other] = draw.promoting(dtype);
    let third = if draw.chance(2) { one } else { other };
    let range = draw.pick(&[[-2.0, 2.0], [-2.0, 2.0], [-9.0, 9.0]]);
    let shape = |last: [usize; 2]| [&outer[..], &last].concat();
    let q = draw.array(&shape([queries, width]), one, range);
    let fewer = |draw: &mut Draw, last: [usize; 2]| {
        let mut own = outer.clone();
        let last_axis = own.len().saturating_sub(1);
        for (i, size) in own.iter_mut().enumerate() {
            match draw.below(6) {
                0 => *size = 1,
                1 if i == last_axis && *size == 4 => *size = 2,
                _ => {}
            }
        }
        [&own[..], &last].concat()
    };
    let k = fewer(draw, [keys, width]);
    let k = draw.array(&k, other, range);
    let v = fewer(draw, [keys, value_width]);
    let v = draw.array(&v, third, [-2.0, 2.0]);
    let mut inputs = vec![q, k, v];
    if draw.chance(2) {
        let full = shape([queries, keys]);
        let mask = draw.partner(&full);
        if draw.chance(2) {
            let own = if draw.chance(3) { one } else { other };
            let mut added = draw.array(&mask, own, [-2.0, 2.0]);
            if draw.chance(2) {
                draw.sprinkle(&mut added, &[f64::NEG_INFINITY, 0.0]);
            }
            inputs.push(added);
        } else {
            inputs.push(draw.array(&mask, DType::Bool, [0.0, 1.0]));
        }
    }
    let mut params = Params::new();
    if draw.chance(4) {
        let key = draw.between(i64::MIN / 4, i64::MAX / 4);
        params = params.with("dropout", draw.pick(&[0.1, 0.5, 0.9])).with("key", key);
    }
    if draw.chance(2) {
        params = params.with("causal", draw.chance(2));
    }
    if draw.chance(3) {
        params = params.with("scale", draw.pick(&[1.0, 0.3, -0.5, 0.0]));
    }
    (inputs, params)
}

/// The weights of a head's queries.
struct Head {
    /// `weights[i][j]`, 0 where key `j` is hidden.
    weights: Vec<Vec<f64>>,
    /// What a weight is multiplied by: 0 where it is dropped.
    kept: Vec<Vec<f64>>,
    logs: Vec<f64>,
    /// How far a right computation of a query's weights may be off, relative to them.
    off: Vec<f64>,
}

/// The sizes of a call.
struct Sizes {
    outer: Vec<usize>,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
    scale: f64,
}

fn sizes(call: &Call) -> Sizes {
    let [q, k, v] = [0, 1, 2].map(|i| &call.inputs[i].shape);
    let n = q.len() - 2;
    let width = q[n + 1];
    let scale = call.float("scale").unwrap_or(1.0 / (width.max(1) as f64).sqrt());
    let outer = q[..n].to_vec();
    Sizes { outer, queries: q[n], keys: k[n], width, value_width: v[n + 1], scale }
}

/// Which head of an input stands for each of the queries' heads.
fn serving(call: &Call, input: usize) -> Vec<usize> {
    let outer = sizes(call).outer;
    let own = &call.inputs[input].shape[..outer.len()];
    let one = |index: Vec<usize>| {
        let sizes = own.iter().zip(&outer);
        let at = index.iter().zip(sizes).map(|(&i, (&own, &all))| i * own / all.max(1));
        ravel(&at.collect::<Vec<_>>(), own)
    };
    indices(&outer).map(one).collect()
}

/// Whether the mask is added to the scores.
fn is_added(call: &Call) -> bool {
    call.inputs.get(3).is_some_and(|mask| mask.dtype.is_float())
}

/// The dtype of the result.
fn result_dtype(call: &Call) -> DType {
    call.promoted(0..if is_added(call) { 4 } else { 3 })
}

fn heads(call: &Call, dtype: DType) -> Vec<Head> {
    let Sizes { outer, queries, keys, width, scale, .. } = sizes(call);
    let (q, k) = (call.inputs[0].floats(), call.inputs[1].floats());
    let unit = working(dtype).epsilon() / 2.0;
    let seen = |batch: &[usize], i: usize, j: usize| {
        let index = [batch, &[i, j]].concat();
        let shown = call.inputs.get(3).is_none_or(|mask| {
            let at = ravel_broadcast(&index, &mask.shape);
            if is_added(call) {
                mask.floats()[at] != f64::NEG_INFINITY
            } else {
                mask.integers()[at] != 0
            }
        });
        shown && !(call.flag("causal") && j > i)
    };
    let added = |batch: &[usize], i: usize, j: usize| {
        let index = [batch, &[i, j]].concat();
        let mask = &call.inputs[3];
        mask.floats()[ravel_broadcast(&index, &mask.shape)]
    };
    let (share, key) = (call.float("dropout").unwrap_or(0.0), call.int("key").unwrap_or(0) as u64);
    let factor = |h: usize, i: usize, j: usize| {
        let word = (h * queries + i) * keys + j;
        let kept = share == 0.0 || f64::from(random(key, word)) >= (share * 4294967296.0).round();
        if kept { 1.0 / (1.0 - share) } else { 0.0 }
    };
    let (mut found, key_heads) = (Vec::new(), serving(call, 1));
    for (h, batch) in indices(&outer).enumerate() {
        let (mut weights, mut logs, mut off) = (Vec::new(), Vec::new(), Vec::new());
        let kept = |i: usize| (0..keys).map(|j| factor(h, i, j)).collect();
        let kept = (0..queries).map(kept).collect();
        for i in 0..queries {
            let mut scores = vec![f64::NEG_INFINITY; keys];
            let mut rounding: f64 = 0.0;
            for (j, score) in scores.iter_mut().enumerate().filter(|(j, _)| seen(&batch, i, *j)) {
                let mut sum = Sum::default();
                for c in 0..width {
                    let a = q[(h * queries + i) * width + c];
                    sum.add_product(a * scale, k[(key_heads[h] * keys + j) * width + c]);
                }
                *score = sum.value();
                let mut own = (width as f64 + 4.0) * unit * sum.size;
                if is_added(call) {
                    let added = added(&batch, i, j);
                    own += unit * (score.abs() + added.abs());
                    *score += added;
                }
                rounding = rounding.max(own);
            }
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let least = scores.iter().copied().filter(|s| s.is_finite()).fold(most, f64::min);
            let shift = if most.is_finite() { most } else { 0.0 };
            let sum: f64 = scores.iter().map(|s| (s - shift).exp()).sum();
            let weight = |s: &f64| if sum == 0.0 { 0.0 } else { (s - shift).exp() / sum };
            weights.push(scores.iter().map(weight).collect());
            logs.push(if sum == 0.0 { f64::NEG_INFINITY } else { shift + sum.ln() });
            let blocks = keys.div_ceil(256) as f64;
            let span = if most.is_finite() { most - least } else { 0.0 };
            off.push(2.0 * rounding + (span + 24.0 + 12.0 * blocks) * unit);
        }
        found.push(Head { weights, kept, logs, off });
    }
    found
}

fn forward(call: &Call) -> Vec<Expected> {
    let Sizes { outer, queries, keys, value_width, .. } = sizes(call);
    let dtype = result_dtype(call);
    let work = working(dtype);
    let unit = work.epsilon() / 2.0;
    let (v, value_heads) = (call.inputs[2].floats(), serving(call, 2));
    let (mut averages, mut logs) = (Vec::new(), Vec::new());
    for (h, head) in heads(call, dtype).iter().enumerate() {
        for i in 0..queries {
            for c in 0..value_width {
                let mut sum = Sum::default();
                for (j, &w) in head.weights[i].iter().enumerate() {
                    let w = w * head.kept[i][j];
                    sum.add_product(w, v[(value_heads[h] * keys + j) * value_width + c]);
                }
                let relative = 2.0 * head.off[i] + (keys as f64 + 8.0) * unit;
                let error = relative * sum.size + 4.0 * tiny(work);
                averages.push(Near { value: sum.value(), error });
            }
            let log = head.logs[i];
            let error = head.off[i] + 8.0 * unit * log.abs() + 8.0 * unit;
            logs.push(if log.is_finite() { Near { value: log, error } } else { Near::exact(log) });
        }
    }
    let shape = [&outer[..], &[queries, value_width]].concat();
    let y = Expected { shape, dtype, values: Wanted::Floats(averages) };
    let shape = [&outer[..], &[queries]].concat();
    vec![y, Expected { shape, dtype: work, values: Wanted::Floats(logs) }]
}

/// A sum of products, each of which may be off.
#[derive(Clone, Default)]
struct Terms {
    sum: Sum,
    off: f64,
}

impl Terms {
    fn add(&mut self, a: f64, b: f64, off: f64) {
        self.sum.add_product(a, b);
        self.off += off * b.abs();
    }

    fn near(&self, g: DType) -> Near {
        let unit = working(g).epsilon() / 2.0;
        let chain = (self.sum.count as f64 + 8.0) * unit * (self.sum.size + self.off);
        let value = self.sum.value();
        let error = self.off + chain + 4.0 * tiny(working(g)) * (1.0 + self.sum.count as f64);
        Near { value, error }
    }
}

fn backward(call: &Call, grads: &[Array], outputs: &[Array]) -> Vec<Option<Expected>> {
    let Sizes { outer, queries, keys, width, value_width, scale } = sizes(call);
    let g_dtype = grads[0].dtype;
    let unit = working(g_dtype).epsilon() / 2.0;
    let [q, k, v] = [0, 1, 2].map(|i| call.inputs[i].floats());
    let (g, y) = (grads[0].floats(), outputs[0].floats());
    let (key_heads, value_heads) = (serving(call, 1), serving(call, 2));
    let fused = !is_added(call) && call.float("dropout").unwrap_or(0.0) == 0.0;
    let inputs = if is_added(call) { 4 } else { 3 };
    let mut found: Vec<Vec<Terms>> =
        call.inputs[..inputs].iter().map(|x| vec![Terms::default(); x.len()]).collect();
    let batches: Vec<Vec<usize>> = indices(&outer).collect();
    for (h, head) in heads(call, g_dtype).iter().enumerate() {
        for i in 0..queries {
            let at = (h * queries + i) * value_width;
            let row = &g[at..at + value_width];
            // The average of the gradients of the weights, from the result as it was rounded.
            let mut mean = Sum::default();
            if fused {
                (0..value_width).for_each(|c| mean.add_product(row[c], y[at + c]));
            } else {
                for (j, &w) in head.weights[i].iter().enumerate() {
                    let value = (value_heads[h] * keys + j) * value_width;
                    for c in 0..value_width {
                        mean.add_product(w * head.kept[i][j] * row[c], v[value + c]);
                    }
                }
            }
            let shaken =
                if fused { 0.0 } else { 3.0 * head.off[i] + (keys + value_width) as f64 * unit };
            let log = head.logs[i];
            let relative = 2.0 * head.off[i]
                + 8.0 * unit * (1.0 + if log.is_finite() { log.abs() } else { 0.0 });
            for (j, &w) in head.weights[i].iter().enumerate() {
                let value = (value_heads[h] * keys + j) * value_width;
                let mut pull = Sum::default();
                let kept = head.kept[i][j];
                for c in 0..value_width {
                    pull.add_product(row[c] * kept, v[value + c]);
                    found[2][value + c].add(w * kept, row[c], w * kept * relative);
                }
                let apart = pull.value() - mean.value();
                let off = (value_width as f64 + 4.0) * unit * pull.size
                    + (4.0 * unit + shaken) * mean.size;
                if inputs == 4 {
                    let index = [&batches[h][..], &[i, j]].concat();
                    let place = ravel_broadcast(&index, &call.inputs[3].shape);
                    let own = w * (apart.abs() * (relative + 8.0 * unit) + off);
                    found[3][place].add(w * apart, 1.0, own);
                }
                let (slope, key) = (w * apart * scale, (key_heads[h] * keys + j) * width);
                let off = w * scale.abs() * (apart.abs() * (relative + 8.0 * unit) + off);
                for c in 0..width {
                    let query = (h * queries + i) * width + c;
                    found[0][query].add(slope, k[key + c], off);
                    found[1][key + c].add(slope, q[query], off);
                }
            }
        }
    }
    let mut expected: Vec<Option<Expected>> = Vec::new();
    for (x, terms) in call.inputs.iter().zip(&found) {
        let near = |t: &Terms| {
            let near = t.near(g_dtype);
            let narrowed = if x.dtype == g_dtype { 0.0 } else { half_ulp(near.value, g_dtype) };
            Near { error: near.error + narrowed, ..near }
        };
        let values = Wanted::Floats(terms.iter().map(near).collect());
        expected.push(Some(Expected { shape: x.shape.clone(), dtype: x.dtype, values }));
    }
    expected.resize_with(call.inputs.len(), || None);
    expected
}
