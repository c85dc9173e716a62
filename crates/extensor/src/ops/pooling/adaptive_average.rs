//! The averages of windows that cover what there is as evenly as possible.

use super::average::{averaged, distribute, pull};
use super::windows::{Even, pooled, sizes};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs, apply_one, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::samples::Sampler;
use crate::ops::shape::required;
use crate::ops::{Pair, Triple};
use crate::{Result, Tensor};
use extensor_derive::method;

/// The averages of `output_size` windows that cover each line of `[N, C, L]` or `[C, L]` as evenly as possible:
/// window number `i` of `n` along an axis of size `s` goes from `⌊i·s/n⌋` to `⌈(i + 1)·s/n⌉`.
///
/// Conventions: window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉.
///
/// ```
/// use extensor::tensor;
/// let y = tensor([[1.0, 3.0, 5.0]]).adaptive_avgpool1d(2)?;
/// assert_eq!(y.to_vec::<f64>()?, [2.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_avgpool1d(x: &Tensor, output_size: usize) -> Result<Tensor> {
    apply_one(&AdaptiveAvgPool { window: Even { axes: 1, size: [output_size; 3] } }, &[x])
}

/// The gradient of [`adaptive_avgpool1d`] for an input of `input_shape`: each window's share, added
/// up.
#[track_caller]
#[extensor_derive::noted]
pub fn adaptive_avgpool1d_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    output_size: usize,
) -> Result<Tensor> {
    pull(
        &AdaptiveAvgPool { window: Even { axes: 1, size: [output_size; 3] } },
        grad_output,
        input_shape,
    )
}

/// The averages of `output_size` windows that cover each plane of `[N, C, H, W]` or
/// `[C, H, W]` as evenly as possible:
/// window number `i` of `n` along an axis of size `s` goes from `⌊i·s/n⌋` to `⌈(i + 1)·s/n⌉`.
///
/// Conventions: window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[1.0, 3.0, 5.0], [3.0, 5.0, 7.0]]]);
/// let y = x.adaptive_avgpool2d([1, 2])?;
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 5.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_avgpool2d(x: &Tensor, output_size: impl Into<Pair>) -> Result<Tensor> {
    let size = sizes("adaptive_avgpool2d", "output_size", output_size.into().0, 2)?;
    apply_one(&AdaptiveAvgPool { window: Even { axes: 2, size } }, &[x])
}

/// The gradient of [`adaptive_avgpool2d`] for an input of `input_shape`: each window's share, added
/// up.
#[track_caller]
#[extensor_derive::noted]
pub fn adaptive_avgpool2d_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    output_size: impl Into<Pair>,
) -> Result<Tensor> {
    let size = sizes("adaptive_avgpool2d", "output_size", output_size.into().0, 2)?;
    pull(&AdaptiveAvgPool { window: Even { axes: 2, size } }, grad_output, input_shape)
}

/// The averages of `output_size` windows that cover each volume of `[N, C, D, H, W]` or
/// `[C, D, H, W]` as evenly as possible:
/// window number `i` of `n` along an axis of size `s` goes from `⌊i·s/n⌋` to `⌈(i + 1)·s/n⌉`.
///
/// Conventions: window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[[1.0, 3.0], [3.0, 5.0]], [[2.0, 4.0], [4.0, 6.0]]]]);
/// let y = x.adaptive_avgpool3d([2, 1, 1])?;
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn adaptive_avgpool3d(x: &Tensor, output_size: impl Into<Triple>) -> Result<Tensor> {
    let size = sizes("adaptive_avgpool3d", "output_size", output_size.into().0, 3)?;
    apply_one(&AdaptiveAvgPool { window: Even { axes: 3, size } }, &[x])
}

/// The gradient of [`adaptive_avgpool3d`] for an input of `input_shape`: each window's share, added
/// up.
#[track_caller]
#[extensor_derive::noted]
pub fn adaptive_avgpool3d_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    output_size: impl Into<Triple>,
) -> Result<Tensor> {
    let size = sizes("adaptive_avgpool3d", "output_size", output_size.into().0, 3)?;
    pull(&AdaptiveAvgPool { window: Even { axes: 3, size } }, grad_output, input_shape)
}

/// Samples with windows of these sizes.
fn drawn<const N: usize>(s: &mut Sampler, cases: &[(&[usize], [i64; N])]) {
    for &(shape, size) in cases {
        let x = s.normal(shape);
        s.add([x], Params::new().with("output_size", size));
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AdaptiveAvgPool {
    window: Even,
}

impl AdaptiveAvgPool {
    fn even(op: &'static str, axes: usize, p: &Params) -> Result<Box<dyn Operation>> {
        Ok(Box::new(AdaptiveAvgPool { window: Even::from_params(op, axes, p)? }))
    }

    /// What all of them have in common.
    const BASE: Record = Record {
        family: Family::Pooling,
        formula: "y = the average of each of output_size windows",
        conventions: "window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉",
        class: Class::Linear,
        needs: Needs::Shapes,
        ..Record::BLANK
    };

    pub(crate) const LINES: &'static Record = &Record {
        name: "adaptive_avgpool1d",
        derivative: "Σ g/k over the windows of k that hold x",
        params: &[required("output_size", "how many windows")],
        backward: signature!(adaptive_avgpool1d_backward(grad_output, shape(x); output_size)),
        build: |p| AdaptiveAvgPool::even("adaptive_avgpool1d", 1, p),
        samples: |s| {
            drawn(s, &[(&[2, 3, 7], [3]), (&[3, 5], [1]), (&[1, 2, 3], [5]), (&[1, 2, 4], [0])]);
            drawn(s, &[(&[1, 2, 4], [4]), (&[0, 2, 4], [2])]);
            let x = s.normal(&[1, 3, 30_000]);
            s.add_large([x], Params::new().with("output_size", 700), "many numbers");
        },
        errors: |bad| Even::refused(bad, 1),
        ..AdaptiveAvgPool::BASE
    };

    pub(crate) const PLANES: &'static Record = &Record {
        name: "adaptive_avgpool2d",
        derivative: "Σ g/(h·w) over the windows of [h, w] that hold x",
        params: &[required("output_size", "how many windows: for both axes, or [down, right]")],
        backward: signature!(adaptive_avgpool2d_backward(grad_output, shape(x); output_size)),
        build: |p| AdaptiveAvgPool::even("adaptive_avgpool2d", 2, p),
        samples: |s| {
            drawn(s, &[(&[2, 3, 7, 8], [3, 2]), (&[2, 3, 5, 4], [1, 1]), (&[3, 4, 5], [4, 5])]);
            drawn(s, &[(&[1, 2, 2, 3], [5, 4]), (&[1, 2, 9, 7], [2, 6])]);
            drawn(s, &[(&[0, 2, 4, 4], [2, 2]), (&[1, 2, 4, 4], [0, 2])]);
        },
        errors: |bad| Even::refused(bad, 2),
        ..AdaptiveAvgPool::BASE
    };

    pub(crate) const VOLUMES: &'static Record = &Record {
        name: "adaptive_avgpool3d",
        derivative: "Σ g/(d·h·w) over the windows of [d, h, w] that hold x",
        params: &[required("output_size", "how many windows: for all axes, or one for each")],
        backward: signature!(adaptive_avgpool3d_backward(grad_output, shape(x); output_size)),
        build: |p| AdaptiveAvgPool::even("adaptive_avgpool3d", 3, p),
        samples: |s| {
            drawn(s, &[(&[2, 1, 4, 5, 3], [3, 2, 2]), (&[2, 3, 2, 2], [1, 1, 1])]);
            drawn(s, &[(&[1, 1, 2, 3, 2], [3, 3, 4]), (&[0, 2, 4, 4, 4], [2, 2, 2])]);
            drawn(s, &[(&[1, 2, 4, 4, 4], [0, 2, 2])]);
            let x = s.normal(&[1, 2, 16, 40, 50]);
            s.add_large([x], Params::new().with("output_size", [5, 7, 11]), "many numbers");
        },
        errors: |bad| Even::refused(bad, 3),
        ..AdaptiveAvgPool::BASE
    };
}

impl Operation for AdaptiveAvgPool {
    fn record(&self) -> &'static Record {
        match self.window.axes {
            1 => AdaptiveAvgPool::LINES,
            2 => AdaptiveAvgPool::PLANES,
            _ => AdaptiveAvgPool::VOLUMES,
        }
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = (self.record().name, inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let windows = self.window.over(op, x.shape())?;
        Ok(spec(pooled(op, x.shape(), &windows, self.window.axes)?, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (op, x) = (self.record().name, inputs[0]);
        averaged(op, x, &self.window.over(op, x.shape())?, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let windows = self.window.over(self.record().name, call.inputs[0].shape())?;
        distribute(self.record().backward_name(), call, &windows)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.images(self.clone(), self.window.axes + 2)
    }
}
