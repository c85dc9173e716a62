//! Whether two tensors are the same to the last bit.

use crate::tensor::unravel;
use crate::{Shape, Tensor};

/// Where `got` is not `want`, to the last bit, in words; `None` where it is.
///
/// Any NaN is the same as any other: of two NaN a sum or a product keeps the one that the processor's
/// instruction takes from its first register, and which that is no kernel promises. Everything else
/// counts, the sign of a zero too.
///
/// ```
/// use extensor::check::bit_difference;
/// use extensor::tensor;
///
/// assert_eq!(bit_difference(&tensor([0.5, f64::NAN]), &tensor([0.5, -f64::NAN])), None);
/// let found = bit_difference(&tensor([1.0f32, 0.0]), &tensor([1.0f32, -0.0]));
/// let words = "1 of 2 elements differ, the first at [1]: 0.0 (0x00000000) is not -0.0 (0x80000000)";
/// assert_eq!(found.as_deref(), Some(words));
/// ```
pub fn bit_difference(got: &Tensor, want: &Tensor) -> Option<String> {
    if got.dtype() != want.dtype() {
        return Some(format!("dtype {} is not {}", got.dtype(), want.dtype()));
    }
    if got.shape() != want.shape() {
        return Some(format!("shape {} is not {}", got.shape(), want.shape()));
    }
    let (a, b) = match (got.to_bytes(), want.to_bytes()) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(error), _) | (_, Err(error)) => return Some(error.to_string()),
    };
    if a == b {
        return None;
    }
    let size = got.dtype().size();
    let (x, y) = (got.to_f64_vec(), want.to_f64_vec());
    let at = |i: usize| i * size..(i + 1) * size;
    let differs = |&i: &usize| a[at(i)] != b[at(i)] && !(x[i].is_nan() && y[i].is_nan());
    let first = (0..x.len()).find(differs)?;
    let count = (first..x.len()).filter(differs).count();
    let index = unravel(first, got.shape());
    let word = |all: &[u8]| -> String {
        all[at(first)].iter().rev().map(|byte| format!("{byte:02x}")).collect()
    };
    Some(format!(
        "{count} of {} elements differ, the first at {index:?}: {:?} (0x{}) is not {:?} (0x{})",
        x.len(),
        x[first],
        word(&a),
        y[first],
        word(&b),
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
