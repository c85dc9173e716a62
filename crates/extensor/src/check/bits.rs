//! Whether two tensors are the same to the last bit.

use crate::tensor::unravel;
use crate::{Shape, Tensor};

/// Where `got` is not `want`, to the last bit, in words; any NaN is the same as any other.
pub(crate) fn bit_difference(got: &Tensor, want: &Tensor) -> Option<String> {
    if got.dtype() != want.dtype() {
        return Some(format!("dtype {} is not {}", got.dtype(), want.dtype()));
    }
    if got.shape() != want.shape() {
        return Some(format!("shape {} is not {}", got.shape(), want.shape()));
    }
    let (a, b) = (got.to_f64_vec(), want.to_f64_vec());
    let differs = |(x, y): (&f64, &f64)| x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan());
    let at = a.iter().zip(&b).position(differs)?;
    let count = a.iter().zip(&b).filter(|&pair| differs(pair)).count();
    let index = unravel(at, got.shape());
    Some(format!(
        "{count} of {} elements differ, the first at {index:?}: {:?} is not {:?}",
        a.len(),
        a[at],
        b[at]
    ))
}

/// Likewise for lists of tensors.
pub(crate) fn bit_differences(got: &[Tensor], want: &[Tensor]) -> Option<String> {
    if got.len() != want.len() {
        return Some(format!("{} tensors are not {}", got.len(), want.len()));
    }
    got.iter()
        .zip(want)
        .enumerate()
        .find_map(|(i, (a, b))| bit_difference(a, b).map(|d| format!("number {i}: {d}")))
}

/// The first element that is not finite, if there is one.
pub(crate) fn first_not_finite(values: &[f64], shape: &Shape) -> Option<(Vec<usize>, f64)> {
    let at = values.iter().position(|v| !v.is_finite())?;
    Some((unravel(at, shape), values[at]))
}
