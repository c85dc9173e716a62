//! What a check needs before it looks at a derivative.

use super::options::Options;
use super::report::Problem;
use crate::{DType, Error, Key, Result, Tensor, Tolerance, ops};

/// The inputs to differentiate by.
pub(super) fn wrt(inputs: &[Tensor], options: &Options) -> Result<Vec<usize>> {
    let fail = |reason: String| Err(Error::Check { op: options.name.clone(), reason });
    let Some(chosen) = &options.wrt else {
        let floats = (0..inputs.len()).filter(|&i| inputs[i].dtype().is_float());
        let floats: Vec<usize> = floats.collect();
        if floats.is_empty() {
            return fail("no input has a float dtype: there is nothing to differentiate by".into());
        }
        return Ok(floats);
    };
    for &i in chosen {
        match inputs.get(i) {
            None => return fail(format!("there is no input {i} to differentiate by")),
            Some(x) if !x.dtype().is_float() => {
                let name = options.input_name(i);
                let dtype = x.dtype();
                return fail(format!("{name} has dtype {dtype}, and no derivative by it exists"));
            }
            Some(_) => {}
        }
    }
    Ok(chosen.clone())
}

/// The least precise dtype of the inputs differentiated by.
pub(super) fn coarsest(inputs: &[Tensor], wrt: &[usize]) -> DType {
    let dtypes = wrt.iter().map(|&i| inputs[i].dtype());
    dtypes.max_by(|a, b| a.epsilon().total_cmp(&b.epsilon())).unwrap_or(DType::F64)
}

/// Random weights for the outputs, in their dtype, or those given.
pub(super) fn cotangents(outputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>> {
    if let ([output], Some(given)) = (outputs, &options.cotangent) {
        if given.shape() != output.shape() {
            return Err(Error::Check {
                op: options.name.clone(),
                reason: format!(
                    "the cotangent has shape {}, the output {}",
                    given.shape(),
                    output.shape()
                ),
            });
        }
        return Ok(vec![ops::cast(given, output.dtype())?]);
    }
    let key = Key::new(options.seed).fold_in(0);
    random_like(key, outputs)
}

/// Random numbers of either sign between ½ and 1½ in size: none is near 0, where it would hide an
/// element, and no two are alike.
pub(crate) fn random_like(key: Key, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let draw = |(k, y): (usize, &Tensor)| {
        let values = signed(key.fold_in(k as u64), y.len())?;
        ops::cast(&Tensor::from_vec(values, y.shape().clone())?, y.dtype())
    };
    tensors.iter().enumerate().map(draw).collect()
}

/// Random numbers of either sign between ½ and 1½ in size.
pub(crate) fn signed(key: Key, len: usize) -> Result<Vec<f64>> {
    let drawn = key.uniform([len], -1.0, 1.0, DType::F64)?.to_f64_vec();
    Ok(drawn.iter().map(|v| v + 0.5f64.copysign(*v)).collect())
}

/// What is wrong with the gradients before any value is looked at.
pub(super) fn misfit(
    gradients: &[Tensor],
    inputs: &[Tensor],
    wrt: &[usize],
    options: &Options,
) -> Option<Problem> {
    if gradients.len() != wrt.len() {
        let (expected, got) = (wrt.len(), gradients.len());
        return Some(Problem::Count { expected, got });
    }
    for (gradient, &i) in gradients.iter().zip(wrt) {
        let input = options.input_name(i);
        if gradient.shape() != inputs[i].shape() {
            let (expected, got) = (inputs[i].shape().clone(), gradient.shape().clone());
            return Some(Problem::Shape { input, expected, got });
        }
        if gradient.dtype() != inputs[i].dtype() {
            let (expected, got) = (inputs[i].dtype(), gradient.dtype());
            return Some(Problem::DType { input, expected, got });
        }
    }
    None
}

/// Where the outputs in reduced precision are not those in `f64` on the same inputs.
pub(super) fn forward_problem(
    outputs: &[Tensor],
    exact: &[Vec<f64>],
    elements: usize,
    tolerance: Tolerance,
) -> Option<Problem> {
    let count: usize = outputs.iter().map(Tensor::len).sum();
    let terms = elements.div_ceil(count.max(1)).max(1) as f64;
    let tolerance = Tolerance::new(tolerance.relative, tolerance.absolute * terms);
    outputs.iter().zip(exact).find_map(|(output, exact)| {
        let want = Tensor::from_vec(exact.clone(), output.shape().clone()).ok()?;
        let wide = ops::cast(output, DType::F64).ok()?;
        let difference = wide.difference(&want, tolerance)?.to_string();
        Some(Problem::Forward { difference })
    })
}
