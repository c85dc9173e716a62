//! Second derivatives in `f64`, against differences of the first and against each other.

use super::call::{Terms, describe, forward, forward_results, moved, results, wanted};
use super::gradients::{Found, settled};
use super::modes::Subject;
use super::precision::{Question, natural};
use super::{Log, Verdict};
use crate::check::gradient::check_pair;
use crate::check::prepare::random_like;
use crate::check::{Mode, Options};
use crate::ops::operation::{Operation, input_name};
use crate::ops::samples::Sample;
use crate::{DType, Key, Result, Tensor};

/// A second derivative from inputs, weights, tangents and other tangents.
type Answer<'a> = &'a dyn Fn([&[Tensor]; 4]) -> Result<Vec<Tensor>>;

/// A gradient as large as this at a kink is the convention for a singular point.
const SINGULAR: f64 = 1e6;

pub(super) fn check(
    log: &mut Log,
    op: &dyn Operation,
    number: usize,
    sample: &Sample,
    seed: u64,
) -> std::result::Result<Found, String> {
    let words = |e: crate::Error| e.to_string();
    let outputs = forward(op, &sample.inputs).map_err(words)?;
    let wanted = wanted(op, &sample.inputs, &outputs);
    let subject = Subject { op, inputs: &sample.inputs, wanted: &wanted };
    let label = || describe(number, sample);
    let moving = subject.moving();
    let all: Vec<usize> = (0..moving.len()).collect();
    let key = Key::new(seed).fold_in(number as u64);
    let weights = random_like(key.fold_in(3), results(op, &outputs)).map_err(words)?;
    let factors = random_like(key.fold_in(4), &moving).map_err(words)?;

    // At a singular point the gradient is a convention, and has nothing to do with those beside it.
    let gradients = subject.gradient(&moving, &weights, &all).map_err(words)?;
    let largest = gradients.iter().flat_map(Tensor::to_f64_vec).fold(0.0f64, |m, g| m.max(g.abs()));
    if !sample.smooth
        && (largest > SINGULAR || is_steep(op, sample, &wanted, key).map_err(words)?)
    {
        return Ok(Found::Kink);
    }
    // The gradient is a function like any other: its pullback is held against its differences.
    let gradient = |x: &[Tensor]| subject.gradient(x, &weights, &all);
    let pull =
        |grads: &[Tensor], x: &[Tensor]| subject.reverse_over_reverse(x, [&weights, grads], &all);
    let names = (0..sample.inputs.len()).filter(|&i| wanted[i]);
    let options = Options {
        name: format!("the gradient of {}", op.record().name),
        input_names: names.map(|i| input_name(op.record(), i)).collect(),
        mode: if sample.smooth { Mode::Fast } else { Mode::Full },
        // The rounding of a gradient made from a saturated output is no smooth function.
        taylor: false,
        seed: seed.wrapping_add(number as u64),
        ..Options::default()
    };
    let report = check_pair(&gradient, &pull, &moving, &options).map_err(words);
    let found = report.as_ref().map_or(Found::Nothing, Found::of);
    let verdict = report.and_then(|report| settled(&report, sample));
    log.measure("second order", label, verdict);
    // By convention both halves of a Hessian need not be alike at a kink.
    if !sample.smooth {
        return Ok(found);
    }
    let terms = Terms::of(op, &sample.inputs, &outputs, &wanted).map_err(words)?;
    let terms = terms.backward.iter().fold(terms.forward, |most, &t| most.max(t));
    let (n, m) = (moving.len(), weights.len());
    let others = random_like(key.fold_in(6), &moving).map_err(words)?;
    let beside = |answer: Answer, found: Result<Vec<Tensor>>, mode: &str| {
        let answer = |all: &[Tensor]| {
            let (x, rest) = all.split_at(n);
            let (weights, rest) = rest.split_at(m);
            let (factors, others) = rest.split_at(n);
            answer([x, weights, factors, others])
        };
        let arguments = [&moving[..], &weights, &factors, &others].concat();
        let question = Question {
            moved: vec![true; arguments.len()],
            mixing: true,
            least: natural(sample.far, [&gradients, &factors, &moving, &weights]),
            answer: &answer,
            arguments,
            terms,
            singular: false,
            sum: true,
            order: 2,
            dtype: DType::F64,
            key: key.fold_in(5),
        };
        let judged = found.and_then(|found| question.judge(&found));
        let judged = judged.unwrap_or_else(|e| Err(e.to_string()));
        judged.map_err(|e| format!("{mode} is not reverse over reverse: {e}"))
    };
    let hessian = |[x, weights, factors, _]: [&[Tensor]; 4]| {
        subject.reverse_over_reverse(x, [weights, factors], &all)
    };
    // Along tangents from both sides.
    let bent = |at: [&[Tensor]; 4]| Ok(vec![dot(&hessian(at)?, at[3])?]);
    let both = [&weights[..], &factors];
    let mixed = subject.forward_over_reverse(&moving, both, &all);
    let verdicts = [
        beside(&hessian, mixed, "forward over reverse"),
        beside(&hessian, subject.reverse_over_forward(&moving, both, &all), "reverse over forward"),
        {
            let found = subject.forward_over_forward(&moving, [&factors, &others], &all);
            let found = found.and_then(|found| Ok(vec![dot(&found, &weights)?]));
            beside(&bent, found, "forward over forward")
        },
    ];
    for verdict in verdicts {
        log.measure("all Hessians", label, verdict);
    }
    Ok(found)
}

/// Whether the function is steeper the nearer one looks, as a root is at 0.
fn is_steep(op: &dyn Operation, sample: &Sample, wanted: &[bool], key: Key) -> Result<bool> {
    const STEPS: [f64; 2] = [1e-3, 1e-11];
    let numbers = |y: Vec<Tensor>| y.iter().flat_map(Tensor::to_f64_vec).collect::<Vec<f64>>();
    let here = numbers(forward_results(op, &sample.inputs)?);
    let ways = random_like(key.fold_in(7), &sample.inputs)?;
    for sign in [1.0, -1.0] {
        let mut slopes = Vec::new();
        for step in STEPS {
            let moved = moved(&sample.inputs, wanted, &ways, sign * step)?;
            let there = numbers(forward_results(op, &moved)?).into_iter().zip(&here);
            slopes.push(there.map(|(there, here)| (there - here).abs() / step).collect::<Vec<_>>());
        }
        // More than the rounding of numbers of about 1.
        let steeper = |(far, near): (&f64, &f64)| *near > 1e-3 && *near > 1.5 * far;
        if slopes[0].iter().zip(&slopes[1]).any(steeper) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `Σ a·b` over lists of tensors.
fn dot(a: &[Tensor], b: &[Tensor]) -> Result<Tensor> {
    let mut total = 0.0;
    for (a, b) in a.iter().zip(b) {
        let pairs = a.to_f64_vec().into_iter().zip(b.to_f64_vec());
        total += pairs.map(|(a, b)| a * b).sum::<f64>();
    }
    Tensor::scalar_of(total, DType::F64)
}

/// A sample that the record says has a kink has one: the one-sided differences of the function or of
/// its derivative disagree, or it has no finite value there.
pub(super) fn is_a_kink(found: &[Found]) -> Verdict {
    if found.contains(&Found::Kink) {
        return Ok(());
    }
    Err("the record says that the function has a kink here, and differences find none".into())
}
