//! An operation's gradient against differences, the Taylor remainder and its own forward mode.

use super::call::{backward, describe, forward, forward_results, moved, results, wanted};
use super::{Log, Verdict};
use crate::check::bits::bit_differences;
use crate::check::function::inner;
use crate::check::gradient::{self, check_pair};
use crate::check::prepare::random_like;
use crate::check::{Arrangement, ErrorAtStep, Mode, Options, Problem, Report};
use crate::ops::operation::{Operation, forward_derivative, input_name};
use crate::ops::record::Record;
use crate::ops::samples::Sample;
use crate::{Key, Result, Tensor, ops};

pub(super) fn check(
    log: &mut Log,
    op: &dyn Operation,
    number: usize,
    sample: &Sample,
    seed: u64,
) -> std::result::Result<Found, String> {
    let inputs = &sample.inputs;
    let outputs = forward(op, inputs).map_err(|e| e.to_string())?;
    let wanted = wanted(op, inputs, &outputs);
    let label = || describe(number, sample);
    let pair = Pair { op, wanted: &wanted };
    let options = |mode, taylor| Options {
        mode,
        taylor,
        seed: seed.wrapping_add(number as u64),
        ..pair.options(inputs)
    };
    let judged = |report: &Result<Report>| match report {
        Ok(report) => settled(report, sample),
        Err(error) => Err(error.to_string()),
    };
    let mut found = Found::Nothing;
    if !sample.large {
        let full = pair.report(inputs, &options(Mode::Full, false));
        found = full.as_ref().map_or(Found::Nothing, Found::of);
        log.measure("differences", label, judged(&full));
    }
    let key = Key::new(seed).fold_in(number as u64);
    log.measure("adjoint", label, adjoint(op, sample, &outputs, &wanted, key));
    if !sample.smooth {
        let ends = pair.ends(inputs, key.fold_in(3)).map_err(|e| e.to_string())?;
        return Ok(if ends { Found::Kink } else { found });
    }
    let fast = pair.report(inputs, &options(Mode::Fast, !sample.far));
    log.measure("directions", label, judged(&fast));
    if !sample.far {
        let taylor = |report: &Report| match report.taylor {
            Some(_) => settled(report, sample).map(|_| ()),
            None => Err(format!("the Taylor remainder was not reached:\n{report}")),
        };
        log.check("Taylor", label, fast.as_ref().map_or_else(|e| Err(e.to_string()), taylor));
    }
    if !sample.large {
        fan_out(log, op, number, sample, &wanted, &options(Mode::Full, true))?;
    }
    Ok(found)
}

/// What differences say about a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// That it is a kink.
    Kink,
}

impl Found {
    pub fn of(report: &Report) -> Found {
        if report.kink_count > 0 { Found::Kink } else { Found::Nothing }
    }
}

fn words(error: &crate::Error) -> std::result::Result<f64, String> {
    Err(error.to_string())
}

/// The worst error of a report in which everything could be differentiated, or, at a kink, what could
/// be was right, or, far out, nothing is known to be wrong; its text otherwise.
pub(super) fn settled(report: &Report, sample: &Sample) -> std::result::Result<f64, String> {
    let fine = match report.problem {
        None => report.kink_count == 0 || !sample.smooth || sample.far,
        Some(Problem::NothingChecked) => !sample.smooth,
        Some(Problem::Unresolved { .. }) => !sample.smooth || sample.far,
        _ => false,
    };
    match fine {
        true if report.passed() => Ok(report.worst_ratio()),
        true => Ok(0.0),
        false => Err(report.to_string()),
    }
}

/// An operation as a pair of functions.
struct Pair<'a> {
    op: &'a dyn Operation,
    wanted: &'a [bool],
}

impl Pair<'_> {
    fn options(&self, inputs: &[Tensor]) -> Options {
        let record = self.op.record();
        let names = (0..inputs.len()).map(|i| input_name(record, i));
        Options {
            name: record.name.into(),
            input_names: names.collect(),
            wrt: Some((0..inputs.len()).filter(|&i| self.wanted[i]).collect()),
            ..Options::default()
        }
    }

    fn pull(&self, grads: &[Tensor], x: &[Tensor]) -> Result<Vec<Tensor>> {
        backward(self.op, grads, x, &forward(self.op, x)?, self.wanted)
    }

    /// Whether the function ends here: beside the point, all inputs moved at once, it has no value.
    fn ends(&self, inputs: &[Tensor], key: Key) -> Result<bool> {
        const STEP: f64 = 1e-6;
        let y = forward_results(self.op, inputs)?;
        let ways = random_like(key, inputs)?;
        for step in [STEP, -STEP] {
            if lost(&y, &forward_results(self.op, &moved(inputs, self.wanted, &ways, step)?)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn report(&self, inputs: &[Tensor], options: &Options) -> Result<Report> {
        let f = |x: &[Tensor]| forward_results(self.op, x);
        check_pair(&f, &|grads, x| self.pull(grads, x), inputs, options)
    }
}

/// Whether a number is missing beside these: there is one in `y` where `beside` has none.
fn lost(y: &[Tensor], beside: &[Tensor]) -> bool {
    let pairs =
        y.iter().zip(beside).flat_map(|(a, b)| a.to_f64_vec().into_iter().zip(b.to_f64_vec()));
    pairs.into_iter().any(|(a, b)| a.is_finite() && b.is_nan())
}

/// `<w, Jv> = <Jᵀw, v>`, to rounding: the forward derivative and the gradient are one map.
fn adjoint(
    op: &dyn Operation,
    sample: &Sample,
    outputs: &[Tensor],
    wanted: &[bool],
    key: Key,
) -> std::result::Result<f64, String> {
    const ROUNDING: f64 = 1e-13;
    let inputs = &sample.inputs[..];
    let attempt = || -> Result<(f64, f64, f64)> {
        let cotangents = random_like(key.fold_in(1), results(op, outputs))?;
        let chosen = (0..inputs.len()).filter(|&i| wanted[i]);
        let chosen: Vec<Tensor> = chosen.map(|i| inputs[i].clone()).collect();
        let tangents = random_like(key.fold_in(2), &chosen)?;
        let mut moving = tangents.iter();
        let moved: Vec<Option<&Tensor>> =
            wanted.iter().map(|&w| if w { moving.next() } else { None }).collect();
        let [x, y] = [inputs, outputs].map(|list| list.iter().collect::<Vec<&Tensor>>());
        let along = forward_derivative(op, &x, &y, &moved)?.into_vec();
        let gradients = backward(op, &cotangents, inputs, outputs, wanted)?;
        let (left, left_size) = inner(&cotangents, &along);
        let (right, right_size) = inner(&gradients, &tangents);
        // Far out all that is left of a derivative may be the rounding of numbers that cancel.
        let values = chosen.iter().flat_map(Tensor::to_f64_vec).map(f64::abs);
        let factor = if sample.far { values.fold(1.0, f64::max) } else { 0.0 };
        let least = factor * inner(&tangents, &tangents).0;
        Ok((left, right, left_size + right_size + least))
    };
    let (left, right, size) = attempt().map_err(|e| e.to_string())?;
    let (error, bound) = ((left - right).abs(), ROUNDING * size + f64::MIN_POSITIVE);
    if error <= bound {
        return Ok(error / bound);
    }
    Err(format!(
        "<w, Jv> = {left:?} is not <Jᵀw, v> = {right:?} (apart by {error:.3e}, allowed {bound:.3e})"
    ))
}

/// The same tensor as two operands: the gradients for both add up to that of the one; and two
/// tensors of equal values are treated as one tensor used twice.
fn fan_out(
    log: &mut Log,
    op: &dyn Operation,
    number: usize,
    sample: &Sample,
    wanted: &[bool],
    options: &Options,
) -> Verdict {
    let inputs = &sample.inputs;
    let second = |first: usize| {
        let same =
            move |&k: &usize| k > first && wanted[k] && inputs[k].shape() == inputs[first].shape();
        (0..inputs.len()).find(same).map(|k| (first, k))
    };
    let first = (0..inputs.len()).filter(|&i| wanted[i]).find_map(second);
    let Some((a, b)) = first else { return Ok(()) };
    for (from, to) in [(a, b), (b, a)] {
        let mut shared = inputs.clone();
        shared[to] = shared[from].clone();
        let mut at = Sample { inputs: shared.clone(), ..sample.clone() };
        if !(op.record().takes)(&at) {
            continue;
        }
        let outputs = match forward_results(op, &shared) {
            Ok(outputs) => outputs,
            Err(error) => return Err(format!("one tensor as both operands: {error}")),
        };
        // The domain of one operand need not be that of the other.
        let finite = |y: &Tensor| y.to_f64_vec().iter().all(|v| v.is_finite());
        if !outputs.iter().all(finite) {
            continue;
        }
        at.smooth = !(op.record().kinks)(&at);
        let name = |i: usize| input_name(op.record(), i);
        let label = || {
            let sample = describe(number, sample);
            format!("{sample}, {} as {} too", name(from), name(to))
        };
        let pair = Pair { op, wanted };
        let twice = |x: &[Tensor]| {
            let mut x = x.to_vec();
            x[to] = x[from].clone();
            x
        };
        let f = |x: &[Tensor]| forward_results(op, &twice(x));
        let pull = |grads: &[Tensor], x: &[Tensor]| -> Result<Vec<Tensor>> {
            let found = pair.pull(grads, &twice(x))?;
            let slot = |i: usize| wanted[..i].iter().filter(|w| **w).count();
            Ok(vec![ops::add(&found[slot(from)], &found[slot(to)])?])
        };
        let options = Options { wrt: Some(vec![from]), taylor: false, ..options.clone() };
        let report = check_pair(&f, &pull, &shared, &options);
        log.measure("fan-out", label, report.as_ref().map_or_else(words, |r| settled(r, &at)));

        let attempt = || -> Result<Option<String>> {
            let grads = random_like(Key::new(options.seed), &outputs)?;
            let mut distinct = shared.clone();
            distinct[to] = Arrangement::Contiguous.of(&shared[from])?;
            let one = pair.pull(&grads, &shared)?;
            Ok(bit_differences(&pair.pull(&grads, &distinct)?, &one))
        };
        let verdict = match attempt() {
            Ok(None) => Ok(()),
            Ok(Some(difference)) => Err(difference),
            Err(error) => Err(error.to_string()),
        };
        log.check("fan-out", label, verdict);
    }
    Ok(())
}

/// See [`super::convergence`].
pub(super) fn convergence(
    record: &'static Record,
    samples: &[Sample],
    seed: u64,
) -> Result<Vec<ErrorAtStep>> {
    for sample in samples.iter().filter(|s| s.smooth && !s.large) {
        let op = record.operation(&sample.params)?;
        let outputs = forward(&*op, &sample.inputs)?;
        let wanted = wanted(&*op, &sample.inputs, &outputs);
        let elements = sample.inputs.iter().map(Tensor::len).min().unwrap_or(0);
        if wanted.contains(&true) && elements > 1 {
            let pair = Pair { op: &*op, wanted: &wanted };
            let options = Options { seed, ..pair.options(&sample.inputs) };
            let f = |x: &[Tensor]| forward_results(&*op, x);
            let pull = |grads: &[Tensor], x: &[Tensor]| pair.pull(grads, x);
            return gradient::convergence(&f, &pull, &sample.inputs, &options);
        }
    }
    Ok(Vec::new())
}
