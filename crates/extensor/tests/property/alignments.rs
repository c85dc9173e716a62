//! The slow reference for `ctc_loss`: every alignment there is, one after the other, in `f64`.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::{Params, Value};

pub const REFERENCE: Reference = Reference { names: &["ctc_loss"], draw, forward, backward };

fn draw(draw: &mut Draw, _: &'static str) -> (Vec<Array>, Params) {
    let dtype = draw.float();
    let (steps, classes) = (draw.below(5), draw.between(2, 4) as usize);
    let one = draw.chance(4);
    let n = if one || !draw.chance(12) { 1 + draw.below(3) } else { 0 };
    let n = if one { 1 } else { n };
    let most = draw.below(4);
    let whole = |draw: &mut Draw| draw.pick(&[DType::I64, DType::I32, DType::U8, DType::U64]);
    let list = |draw: &mut Draw, values: Vec<i128>, shape: &[usize]| {
        let dtype = whole(draw);
        Array { shape: shape.to_vec(), dtype, values: Values::Integers(values) }
    };
    let blank = draw.pick(&[0, 0, classes - 1]) as i128;
    let labels = |draw: &mut Draw, count: usize| -> Vec<i128> {
        let one = |draw: &mut Draw| {
            let label = draw.below(classes - 1) as i128;
            label + i128::from(label >= blank)
        };
        (0..count).map(|_| one(draw)).collect()
    };
    let labels = labels(draw, n * most);
    let shape = match () {
        _ if one => vec![most],
        // One after the other, and some behind them that nothing reads.
        _ if draw.chance(3) => vec![n * most],
        _ => vec![n, most],
    };
    let targets = list(draw, labels, &shape);
    let sequences: &[usize] = if one { &[] } else { &[n] };
    let lengths: Vec<i128> =
        (0..n).map(|_| (steps - draw.below(steps.min(2) + 1)) as i128).collect();
    let lengths = list(draw, lengths, sequences);
    let counts: Vec<i128> = (0..n).map(|_| draw.below(most + 1) as i128).collect();
    let counts = list(draw, counts, sequences);
    let shape = if one { vec![steps, classes] } else { vec![steps, n, classes] };
    let mut x = draw.array(&shape, dtype, [-4.0, 0.5]);
    if draw.chance(8) {
        draw.sprinkle(&mut x, &[f64::NEG_INFINITY, -1e4]);
    }
    let mut params = Params::new().with("zero_infinity", draw.chance(2));
    if blank != 0 || draw.chance(2) {
        params = params.with("blank", blank as i64);
    }
    if draw.chance(4) {
        return (vec![x, targets, lengths, counts], params);
    }
    let reduction = draw.pick(&["none", "mean", "sum"]);
    (vec![x, targets, lengths, counts], params.with("reduction", reduction))
}

/// What a sequence of classes says.
fn said(alignment: &[usize], blank: usize) -> Vec<i128> {
    let mut kept = alignment.to_vec();
    kept.dedup();
    kept.into_iter().filter(|&class| class != blank).map(|class| class as i128).collect()
}

/// The probability of a sequence's target, by every step and class how much of it is of alignments that say the
/// class there, and what its loss counts.
struct Sequence {
    total: f64,
    shares: Vec<f64>,
    labels: usize,
}

fn sequences(call: &Call) -> (Vec<Sequence>, [usize; 3]) {
    let (x, targets) = (&call.inputs[0], &call.inputs[1]);
    let steps = x.shape[0];
    let classes = *x.shape.last().expect("classes");
    let n = if x.shape.len() == 3 { x.shape[1] } else { 1 };
    let blank = call.int("blank").unwrap_or(0) as usize;
    let (lengths, counts) = (call.inputs[2].integers(), call.inputs[3].integers());
    let mut begin = 0;
    let mut found = Vec::new();
    for i in 0..n {
        let (length, labels) = (lengths[i] as usize, counts[i] as usize);
        let start = if targets.shape.len() == 2 { i * targets.shape[1] } else { begin };
        let target = &targets.integers()[start..start + labels];
        begin += labels;
        let log = |t: usize, class: usize| x.floats()[(t * n + i) * classes + class];
        let mut sequence = Sequence { total: 0.0, shares: vec![0.0; steps * classes], labels };
        for number in 0..classes.pow(length as u32) {
            let class = |t: usize| number / classes.pow(t as u32) % classes;
            let alignment: Vec<usize> = (0..length).map(class).collect();
            if said(&alignment, blank) != target {
                continue;
            }
            let sum: f64 = alignment.iter().enumerate().map(|(t, &class)| log(t, class)).sum();
            sequence.total += sum.exp();
            for (t, &class) in alignment.iter().enumerate() {
                sequence.shares[t * classes + class] += sum.exp();
            }
        }
        found.push(sequence);
    }
    (found, [steps, n, classes])
}

/// By what a loss is divided.
fn divisor(call: &Call, sequence: &Sequence, n: usize) -> f64 {
    match call.param("reduction") {
        Value::Text(how) if how != "mean" => 1.0,
        _ => (sequence.labels.max(1) * n) as f64,
    }
}

fn reduces(call: &Call) -> bool {
    !matches!(call.param("reduction"), Value::Text(how) if how == "none")
}

/// How far rounding moves the logarithm of a sum over alignments: a few roundings at each step, of sizes up to
/// those of the logarithms so far. (What is as far down as 1e4 has no share left, here and there.)
fn off(steps: usize) -> f64 {
    let steps = steps as f64;
    16.0 * f64::EPSILON * steps * (1.0 + 4.0 * steps)
}

fn forward(call: &Call) -> Vec<Expected> {
    let x = &call.inputs[0];
    let (found, [steps, n, _]) = sequences(call);
    let loss = |sequence: &Sequence| {
        let divisor = divisor(call, sequence, n);
        // Logarithms of probabilities too small for these sums.
        let lost = x.floats().iter().any(|&x| x < -1e3 && x.is_finite());
        match sequence.total {
            0.0 if lost => Near { value: 0.0, error: f64::INFINITY },
            0.0 if call.flag("zero_infinity") => Near::exact(0.0),
            0.0 => Near::exact(f64::INFINITY),
            total => Near { value: -total.ln() / divisor, error: off(steps) / divisor },
        }
    };
    let losses: Vec<Near> = found.iter().map(loss).collect();
    let dtype = x.dtype;
    if !reduces(call) {
        let shape = if x.shape.len() == 3 { vec![n] } else { vec![] };
        return vec![Expected { shape, dtype, values: Wanted::Floats(losses) }];
    }
    let mut value: f64 = losses.iter().map(|loss| loss.value).sum();
    if n == 0 && !matches!(call.param("reduction"), Value::Text(how) if how == "sum") {
        value = f64::NAN;
    }
    let size: f64 = losses.iter().map(|loss| loss.value.abs()).sum();
    let more = if size.is_finite() { 8.0 * f64::EPSILON * size } else { 0.0 };
    let error = losses.iter().map(|loss| loss.error).sum::<f64>() + more;
    let values = Wanted::Floats(vec![Near { value, error }]);
    vec![Expected { shape: vec![], dtype, values }]
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let x = &call.inputs[0];
    let (found, [steps, n, classes]) = sequences(call);
    let g = grads[0].floats();
    let lost = x.floats().iter().any(|&x| x < -1e3);
    let mut values = vec![Near::exact(0.0); x.len()];
    for (i, sequence) in found.iter().enumerate() {
        let g = if reduces(call) { g[0] } else { g[i] } / divisor(call, sequence, n);
        for t in 0..steps {
            for class in 0..classes {
                let share = sequence.shares[t * classes + class];
                let near = &mut values[(t * n + i) * classes + class];
                *near = match sequence.total {
                    0.0 if lost => Near { value: 0.0, error: f64::INFINITY },
                    0.0 => Near::exact(0.0),
                    total if share == 0.0 && !lost => Near { value: 0.0 * total, error: 0.0 },
                    total => Near { value: -g * share / total, error: g.abs() * 4.0 * off(steps) },
                };
            }
        }
    }
    let gradient =
        Expected { shape: x.shape.clone(), dtype: x.dtype, values: Wanted::Floats(values) };
    vec![Some(gradient), None, None, None]
}
