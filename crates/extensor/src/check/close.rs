//! Two tensors compared in a test.

use crate::{Tensor, Tolerance};

/// Fails a test, at the caller's line, unless two tensors have the same shape and dtype and values that
/// are [near enough](Tolerance::of) for that dtype: the sentence says how many are not, and where the
/// worst is.
///
/// ```
/// use extensor::{check::assert_close, tensor};
/// let x = tensor([1.0, 2.0]);
/// assert_close(&x.exp()?.log()?, &x);
/// # Ok::<(), extensor::Error>(())
/// ```
///
/// ```should_panic
/// # use extensor::{check::assert_close, tensor};
/// assert_close(&tensor([1.0, 2.0]), &tensor([1.0, 2.1]));
/// ```
#[track_caller]
pub fn assert_close(got: &Tensor, want: &Tensor) {
    assert_close_within(got, want, Tolerance::of(want.dtype()));
}

/// [`assert_close`] with a given tolerance.
///
/// ```
/// use extensor::{Tolerance, check::assert_close_within, tensor};
/// assert_close_within(&tensor([1.0, 2.0]), &tensor([1.0, 2.1]), Tolerance::new(0.1, 0.0));
/// ```
#[track_caller]
pub fn assert_close_within(got: &Tensor, want: &Tensor, tolerance: Tolerance) {
    if let Some(difference) = got.difference(want, tolerance) {
        panic!("{difference}\n  got {got}\n want {want}");
    }
}
