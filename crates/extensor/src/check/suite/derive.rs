//! Samples of whole numbers, zeros, numbers that come twice, large and small numbers, made from an
//! operation's own: where formulas that select, compare, divide or overflow are most often wrong, and
//! random numbers of about 1 never are.

use crate::ops::record::Record;
use crate::ops::samples::Sample;
use crate::{Result, Tensor};

/// What becomes of a number at a place; `other` is what the first input has there, if it has the
/// same shape.
type Change = fn(at: usize, values: &[f64], other: Option<&[f64]>) -> f64;

/// Their notes, and whether they are far out.
const CHANGES: [(&str, bool, Change); 5] = [
    ("whole numbers", false, |at, values, _| values[at].round()),
    ("zeros", false, |at, values, _| if at % 3 == 0 { 0.0 } else { values[at] }),
    ("numbers that come twice", false, |at, values, other| match other {
        Some(other) if at % 2 == 1 => other[at],
        _ => values[at - at % 2],
    }),
    // Where results are too large or too small for one dtype after another.
    ("large numbers", true, |at, values, _| values[at] * 150.0),
    ("small numbers", true, |at, values, _| values[at] * 3e-7),
];

/// The samples made from `samples`: of the inputs that the operation can be differentiated by, since
/// the others are indices, masks and constants.
pub(super) fn derived(record: &Record, samples: &[Sample]) -> Result<Vec<Sample>> {
    // Values are what matters here, and the record has seen to shapes.
    const MOST: usize = 8;
    let mut made: Vec<Sample> = Vec::new();
    let full = |sample: &&Sample| !sample.large && sample.inputs.iter().any(|x| x.len() > 1);
    let full: Vec<&Sample> = samples.iter().filter(full).collect();
    let scalars = samples.iter().find(|sample| sample.inputs.iter().all(|x| x.ndim() == 0));
    let some = (0..full.len().min(MOST)).map(|k| full[k * full.len() / full.len().min(MOST)]);
    for sample in some.chain(scalars) {
        for (note, far, change) in CHANGES {
            let first = &sample.inputs[0];
            let mut inputs = sample.inputs.clone();
            for (i, input) in inputs.iter_mut().enumerate() {
                if !record.differentiable_input(i) || !input.dtype().is_float() {
                    continue;
                }
                let other = (i > 0 && first.shape() == input.shape()).then(|| first.to_f64_vec());
                let values = input.to_f64_vec();
                let at = (0..values.len()).map(|at| change(at, &values, other.as_deref()));
                *input = Tensor::from_vec(at.collect(), input.shape().clone())?;
            }
            let same = |(a, b): (&Tensor, &Tensor)| a.to_f64_vec() == b.to_f64_vec();
            let known = |other: &Sample| {
                other.params == sample.params
                    && other.inputs.len() == inputs.len()
                    && other.inputs.iter().zip(&inputs).all(same)
            };
            if samples.iter().chain(&made).any(known) {
                continue;
            }
            let far = far || sample.far;
            let mut sample = Sample { inputs, note, far, ..sample.clone() };
            if !(record.takes)(&sample) {
                continue;
            }
            sample.smooth = !(record.kinks)(&sample);
            made.push(sample);
        }
    }
    Ok(made)
}
