//! The largest numbers of windows that cover what there is as evenly as possible.

use super::maximum::{Cover, MaxPool, both, pull};
use super::windows::{Even, sizes};
use crate::ops::operation::Operation;
use crate::ops::params::Params;
use crate::ops::record::{Record, signature};
use crate::ops::samples::{Sample, Sampler};
use crate::ops::shape::required;
use crate::ops::{Pair, Triple};
use crate::{Result, Tensor};
use extensor_derive::method;

/// The largest numbers of `output_size` windows that cover each line of `[N, C, L]` or `[C, L]` as evenly
/// as possible: window number `i` of `n` along an axis of size `s` goes from `⌊i·s/n⌋` to `⌈(i + 1)·s/n⌉`.
///
/// Conventions: window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉; of several equal
/// numbers the first has the gradient; NaN in a window gives NaN; also returned: where on its line each
/// result is.
///
/// ```
/// use extensor::tensor;
/// let y = tensor([[1.0, 3.0, 5.0, 4.0, 2.0]]).adaptive_maxpool1d(2)?;
/// assert_eq!(y.to_vec::<f64>()?, [5.0, 5.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_maxpool1d(x: &Tensor, output_size: usize) -> Result<Tensor> {
    Ok(adaptive_maxpool1d_with_indices(x, output_size)?.0)
}

/// [`adaptive_maxpool1d`] and, as `i64`, where on its line each result came from.
///
/// ```
/// use extensor::tensor;
/// let (_, indices) = tensor([[1.0, 3.0, 5.0, 4.0]]).adaptive_maxpool1d_with_indices(2)?;
/// assert_eq!(indices.to_vec::<i64>()?, [1, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_maxpool1d_with_indices(x: &Tensor, output_size: usize) -> Result<(Tensor, Tensor)> {
    both(&MaxPool { cover: Cover::Even(Even { axes: 1, size: [output_size; 3] }) }, x)
}

/// The gradient of [`adaptive_maxpool1d`] for an input of `input_shape`: each element of `grad_output`
/// added where its window's largest number was.
#[track_caller]
#[extensor_derive::noted]
pub fn adaptive_maxpool1d_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
    output_size: usize,
) -> Result<Tensor> {
    let cover = Cover::Even(Even { axes: 1, size: [output_size; 3] });
    pull(cover, grad_output, indices, input_shape)
}

/// The largest numbers of `output_size` windows that cover each plane of `[N, C, H, W]` or `[C, H, W]` as
/// evenly as possible: window number `i` of `n` along an axis of size `s` goes from `⌊i·s/n⌋` to
/// `⌈(i + 1)·s/n⌉`.
///
/// Conventions: window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉; of several equal
/// numbers the first, row by row, has the gradient; NaN in a window gives NaN; also returned: where in its
/// plane each result is.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[1.0, 3.0, 5.0], [3.0, 5.0, 7.0]]]);
/// assert_eq!(x.adaptive_maxpool2d([1, 2])?.to_vec::<f64>()?, [5.0, 7.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_maxpool2d(x: &Tensor, output_size: impl Into<Pair>) -> Result<Tensor> {
    Ok(adaptive_maxpool2d_with_indices(x, output_size)?.0)
}

/// [`adaptive_maxpool2d`] and, as `i64`, where in its plane of `H·W` numbers each result came from.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[1.0, 3.0, 5.0], [3.0, 5.0, 7.0]]]);
/// let (_, indices) = x.adaptive_maxpool2d_with_indices([1, 2])?;
/// assert_eq!(indices.to_vec::<i64>()?, [4, 5]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_maxpool2d_with_indices(
    x: &Tensor,
    output_size: impl Into<Pair>,
) -> Result<(Tensor, Tensor)> {
    let size = sizes("adaptive_maxpool2d", "output_size", output_size.into().0, 2)?;
    both(&MaxPool { cover: Cover::Even(Even { axes: 2, size }) }, x)
}

/// The gradient of [`adaptive_maxpool2d`] for an input of `input_shape`: each element of `grad_output`
/// added where its window's largest number was.
#[track_caller]
#[extensor_derive::noted]
pub fn adaptive_maxpool2d_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
    output_size: impl Into<Pair>,
) -> Result<Tensor> {
    let size = sizes("adaptive_maxpool2d", "output_size", output_size.into().0, 2)?;
    pull(Cover::Even(Even { axes: 2, size }), grad_output, indices, input_shape)
}

/// The largest numbers of `output_size` windows that cover each volume of `[N, C, D, H, W]` or
/// `[C, D, H, W]` as evenly as possible: window number `i` of `n` along an axis of size `s` goes from
/// `⌊i·s/n⌋` to `⌈(i + 1)·s/n⌉`.
///
/// Conventions: window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉; of several equal
/// numbers the first, row by row and plane by plane, has the gradient; NaN in a window gives NaN; also
/// returned: where in its volume each result is.
///
/// ```
/// use extensor::{DType, Key};
/// let x = Key::new(1).normal([2, 3, 4, 6, 5], DType::F32)?;
/// assert_eq!(x.adaptive_maxpool3d([2, 3, 2])?.shape(), [2, 3, 2, 3, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_maxpool3d(x: &Tensor, output_size: impl Into<Triple>) -> Result<Tensor> {
    Ok(adaptive_maxpool3d_with_indices(x, output_size)?.0)
}

/// [`adaptive_maxpool3d`] and, as `i64`, where in its volume of `D·H·W` numbers each result came from.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[[1.0, 2.0], [7.0, 4.0]], [[5.0, 6.0], [7.0, 0.0]]]]);
/// let (_, indices) = x.adaptive_maxpool3d_with_indices([2, 1, 1])?;
/// assert_eq!(indices.to_vec::<i64>()?, [2, 6]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_maxpool3d_with_indices(
    x: &Tensor,
    output_size: impl Into<Triple>,
) -> Result<(Tensor, Tensor)> {
    let size = sizes("adaptive_maxpool3d", "output_size", output_size.into().0, 3)?;
    both(&MaxPool { cover: Cover::Even(Even { axes: 3, size }) }, x)
}

/// The gradient of [`adaptive_maxpool3d`] for an input of `input_shape`: each element of `grad_output`
/// added where its window's largest number was.
#[track_caller]
#[extensor_derive::noted]
pub fn adaptive_maxpool3d_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
    output_size: impl Into<Triple>,
) -> Result<Tensor> {
    let size = sizes("adaptive_maxpool3d", "output_size", output_size.into().0, 3)?;
    pull(Cover::Even(Even { axes: 3, size }), grad_output, indices, input_shape)
}

/// Whether a window has its largest number twice.
fn tied(op: &'static str, axes: usize, sample: &Sample) -> bool {
    let windows = Even::from_params(op, axes, &sample.params);
    let windows = windows.and_then(|windows| windows.over(op, sample.inputs[0].shape()));
    windows.is_ok_and(|windows| windows.tied(sample))
}

/// Samples with windows of these sizes.
fn drawn<const N: usize>(s: &mut Sampler, cases: &[(&[usize], [i64; N])]) {
    for &(shape, size) in cases {
        let x = s.apart(shape);
        s.add([x], Params::new().with("output_size", size));
    }
}

impl MaxPool {
    fn even(op: &'static str, axes: usize, p: &Params) -> Result<Box<dyn Operation>> {
        Ok(Box::new(MaxPool { cover: Cover::Even(Even::from_params(op, axes, p)?) }))
    }

    pub(crate) const EVEN_LINES: &'static Record = &Record {
        name: "adaptive_maxpool1d",
        formula: "y = the largest of each of output_size windows",
        conventions: "window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉; of several \
                      equal numbers the first has the gradient; NaN in a window gives NaN; also returned: \
                      where on its line each result is",
        params: &[required("output_size", "how many windows")],
        backward: signature!(adaptive_maxpool1d_backward(grad_output, auxiliary(indices), shape(x); output_size)),
        build: |p| MaxPool::even("adaptive_maxpool1d", 1, p),
        samples: |s| {
            drawn(s, &[(&[2, 3, 7], [3]), (&[3, 5], [1]), (&[1, 2, 3], [5]), (&[1, 2, 4], [0])]);
            drawn(s, &[(&[1, 2, 4], [4]), (&[0, 2, 4], [2])]);
            let ties = crate::tensor([[[1.0, 1.0, 0.0, 2.0, 2.0]]]);
            s.add_noted([ties], Params::new().with("output_size", 2), "ties");
        },
        kinks: |sample| tied("adaptive_maxpool1d", 1, sample),
        errors: |bad| Even::refused(bad, 1),
        ..MaxPool::BASE
    };

    pub(crate) const EVEN_PLANES: &'static Record = &Record {
        name: "adaptive_maxpool2d",
        formula: "y = the largest of each of output_size windows",
        conventions: "window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉; of several \
                      equal numbers the first, row by row, has the gradient; NaN in a window gives NaN; \
                      also returned: where in its plane each result is",
        params: &[required("output_size", "how many windows: for both axes, or [down, right]")],
        backward: signature!(adaptive_maxpool2d_backward(grad_output, auxiliary(indices), shape(x); output_size)),
        build: |p| MaxPool::even("adaptive_maxpool2d", 2, p),
        samples: |s| {
            drawn(s, &[(&[2, 3, 7, 8], [3, 2]), (&[2, 3, 5, 4], [1, 1]), (&[3, 4, 5], [4, 5])]);
            drawn(s, &[(&[1, 2, 2, 3], [5, 4]), (&[0, 2, 4, 4], [2, 2]), (&[1, 2, 4, 4], [0, 2])]);
            let x = s.apart(&[1, 3, 120, 110]);
            s.add_large([x], Params::new().with("output_size", [50, 7]), "many numbers");
            let ties = crate::tensor([[[[1.0, 1.0, 0.0, 2.0, 2.0]; 3]]]);
            s.add_noted([ties], Params::new().with("output_size", 2), "ties");
        },
        kinks: |sample| tied("adaptive_maxpool2d", 2, sample),
        errors: |bad| Even::refused(bad, 2),
        ..MaxPool::BASE
    };

    pub(crate) const EVEN_VOLUMES: &'static Record = &Record {
        name: "adaptive_maxpool3d",
        formula: "y = the largest of each of output_size windows",
        conventions: "window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉; of several \
                      equal numbers the first, row by row and plane by plane, has the gradient; NaN in a \
                      window gives NaN; also returned: where in its volume each result is",
        params: &[required("output_size", "how many windows: for all axes, or one for each")],
        backward: signature!(adaptive_maxpool3d_backward(grad_output, auxiliary(indices), shape(x); output_size)),
        build: |p| MaxPool::even("adaptive_maxpool3d", 3, p),
        samples: |s| {
            drawn(s, &[(&[2, 1, 4, 5, 3], [3, 2, 2]), (&[2, 3, 2, 2], [1, 1, 1])]);
            drawn(s, &[(&[1, 1, 2, 3, 2], [3, 3, 4]), (&[0, 2, 4, 4, 4], [2, 2, 2])]);
            drawn(s, &[(&[1, 2, 4, 4, 4], [0, 2, 2])]);
            let ties = crate::tensor([[[[1.0; 3]; 2], [[1.0, 0.0, 1.0]; 2]]]);
            s.add_noted([ties], Params::new().with("output_size", [1, 2, 2]), "ties");
        },
        kinks: |sample| tied("adaptive_maxpool3d", 3, sample),
        errors: |bad| Even::refused(bad, 3),
        ..MaxPool::BASE
    };
}
