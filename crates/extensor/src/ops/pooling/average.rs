//! The average of each window.

use super::windows::{Of, Sliding, Volumes, pooled};
use super::{CASES, LINES, Pool3dOptions, PoolOptions, VOLUMES, window};
use super::{bad_lines, bad_volumes, bad_windows, params};
use crate::exec::pool::Pool;
use crate::exec::{launch, launch_one};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::ops::reduction::wide;
use crate::ops::samples::Sampler;
use crate::ops::shape::{bad_shape, optional};
use crate::{DType, Result, Shape, Tensor, ops, over};
use extensor_derive::method;
use smallvec::smallvec;

/// The average of each window over the last two axes of `[N, C, H, W]` or `[C, H, W]`; windows may
/// reach over the edges, where they count zeros (unless they are told not to, or what to divide by).
///
/// Conventions: padding counts, as zeros, where a window does not end behind it.
///
/// ```
/// use extensor::ops::PoolOptions;
/// use extensor::tensor;
/// let x = tensor([[[1.0, 5.0, 2.0, 0.0], [2.0, 4.0, 8.0, 6.0]]]);
/// assert_eq!(x.avgpool2d(2)?.to_vec::<f64>()?, [3.0, 4.0]);
/// let y = x.avgpool2d(PoolOptions::new(2).divisor_override(2))?;
/// assert_eq!(y.to_vec::<f64>()?, [6.0, 8.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn avgpool2d(x: &Tensor, options: impl Into<PoolOptions>) -> Result<Tensor> {
    let window = Sliding::from_options("avgpool2d", 2, Of::Average, options.into())?;
    apply_one(&AvgPool { window }, &[x])
}

/// The gradient of [`avgpool2d`] for an input of `input_shape`: each window's share, added up.
#[track_caller]
#[extensor_derive::noted]
pub fn avgpool2d_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    options: impl Into<PoolOptions>,
) -> Result<Tensor> {
    let window = Sliding::from_options("avgpool2d", 2, Of::Average, options.into())?;
    pull(&AvgPool { window }, grad_output, input_shape)
}

/// The average of each window over the last axis of `[N, C, L]` or `[C, L]`; windows may reach over the
/// ends, where they count zeros (unless they are told not to, or what to divide by).
///
/// Conventions: padding counts, as zeros, where a window does not end behind it.
///
/// ```
/// use extensor::ops::PoolOptions;
/// use extensor::tensor;
/// let x = tensor([[1.0, 5.0, 2.0, 0.0, 6.0]]);
/// assert_eq!(x.avgpool1d(2)?.to_vec::<f64>()?, [3.0, 1.0]);
/// let y = x.avgpool1d(PoolOptions::new(2).padding(1).count_include_pad(false))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.5, 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn avgpool1d(x: &Tensor, options: impl Into<PoolOptions>) -> Result<Tensor> {
    let window = Sliding::from_options("avgpool1d", 1, Of::Average, options.into())?;
    apply_one(&AvgPool { window }, &[x])
}

/// The gradient of [`avgpool1d`] for an input of `input_shape`: each window's share, added up.
#[track_caller]
#[extensor_derive::noted]
pub fn avgpool1d_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    options: impl Into<PoolOptions>,
) -> Result<Tensor> {
    let window = Sliding::from_options("avgpool1d", 1, Of::Average, options.into())?;
    pull(&AvgPool { window }, grad_output, input_shape)
}

/// The average of each window over the last three axes of `[N, C, D, H, W]` or `[C, D, H, W]`; windows may
/// reach over the faces, where they count zeros (unless they are told not to, or what to divide by).
///
/// Conventions: padding counts, as zeros, where a window does not end behind it.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[[1.0, 2.0], [7.0, 4.0]], [[5.0, 6.0], [7.0, 0.0]]]]);
/// assert_eq!(x.avgpool3d(2)?.to_vec::<f64>()?, [4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn avgpool3d(x: &Tensor, options: impl Into<Pool3dOptions>) -> Result<Tensor> {
    let window = Sliding::from_3d("avgpool3d", 3, Of::Average, options.into())?;
    apply_one(&AvgPool { window }, &[x])
}

/// The gradient of [`avgpool3d`] for an input of `input_shape`: each window's share, added up.
#[track_caller]
#[extensor_derive::noted]
pub fn avgpool3d_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    options: impl Into<Pool3dOptions>,
) -> Result<Tensor> {
    let window = Sliding::from_3d("avgpool3d", 3, Of::Average, options.into())?;
    pull(&AvgPool { window }, grad_output, input_shape)
}

/// The average of each plane, `[N, C, H, W]` to `[N, C, 1, 1]` (or `[C, H, W]` to `[C, 1, 1]`).
///
/// ```
/// use extensor::ops::global_avgpool2d;
/// use extensor::tensor;
/// let y = global_avgpool2d(&tensor([[[1.0, 2.0], [3.0, 4.0]]]))?;
/// assert_eq!((y.shape().to_vec(), y.to_vec::<f64>()?), (vec![1, 1, 1], vec![2.5]));
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn global_avgpool2d(x: &Tensor) -> Result<Tensor> {
    apply_one(&GlobalAvgPool2d, &[x])
}

/// The gradient of [`global_avgpool2d`] for an input of `input_shape`: `g/(H·W)` everywhere.
#[track_caller]
#[extensor_derive::noted]
pub fn global_avgpool2d_backward(grad_output: &Tensor, input_shape: &[usize]) -> Result<Tensor> {
    pull(&GlobalAvgPool2d, grad_output, input_shape)
}

#[track_caller]
pub(super) fn pull(
    op: &dyn Operation,
    grad_output: &Tensor,
    input_shape: &[usize],
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

/// The averages of windows. Those of volumes are those of planes first.
pub(super) fn averaged(
    op: &'static str,
    x: &Tensor,
    of: &Volumes,
    specs: Specs,
) -> Result<Outputs> {
    if of.is_flat() {
        return launch(op, &Pool::Average(of.planes()), &[&x.contiguous()?], specs);
    }
    let Spec { shape, dtype } = &specs[0];
    let dtype_within = wide(*dtype);
    let x = ops::cast(x, dtype_within)?.contiguous()?;
    let each = of.rows.count * of.columns.count;
    let spec = |shape: Shape| Spec { shape, dtype: dtype_within };
    let planes = spec(Shape::from([of.count, of.depth.len, each]));
    let planes = launch_one(op, &Pool::Average(of.planes()), &[&x], planes)?;
    let y = launch_one(op, &Pool::Average(of.across()), &[&planes], spec(shape.clone()))?;
    Ok(smallvec![ops::cast(&y, *dtype)?])
}

/// The gradient of that. The engine rounds it to the input's dtype.
pub(super) fn distribute(op: &'static str, call: &Backward<'_>, of: &Volumes) -> Result<Grads> {
    let (g, shape) = (call.grad(), call.inputs[0].shape());
    call.one(|| {
        let dtype = if of.is_flat() { g.dtype() } else { wide(g.dtype()) };
        let mut g = ops::cast(g, dtype)?.contiguous()?;
        let spec = |shape: Shape| Spec { shape, dtype };
        if !of.is_flat() {
            let each = of.rows.count * of.columns.count;
            let planes = spec(Shape::from([of.count, of.depth.len, each]));
            g = launch_one(op, &Pool::AverageGradient(of.across()), &[&g], planes)?;
        }
        launch_one(op, &Pool::AverageGradient(of.planes()), &[&g], spec(shape.clone()))
    })
}

#[derive(Clone, Debug)]
pub(crate) struct AvgPool {
    window: Sliding,
}

/// The parameters of windows that slide over so many axes, of which averages are taken.
const fn averages(axes: usize) -> [Parameter; 6] {
    let [size, step, padding] = window(axes);
    [
        size,
        step,
        padding,
        optional("ceil_mode", "whether a last window may end behind the axis", "false"),
        optional("count_include_pad", "whether zeros of the padding count", "true"),
        optional("divisor_override", "what sums are divided by, a whole number", "None"),
    ]
}

/// Samples with the options that are not in all cases.
fn further<const N: usize>(s: &mut Sampler, shape: &[usize], kernel: [i64; N]) {
    let windows = || params(kernel, [2; N], [1; N]).with("ceil_mode", true);
    let [a, b, c] = [0; 3].map(|_| s.normal(shape));
    s.add([a], windows());
    s.add([b], windows().with("count_include_pad", false));
    s.add([c], windows().with("divisor_override", 5));
    let x = s.normal(shape);
    s.add([x], Params::new().with("kernel_size", 2));
}

impl AvgPool {
    fn sliding(op: &'static str, axes: usize, p: &Params) -> Result<Box<dyn Operation>> {
        Ok(Box::new(AvgPool { window: Sliding::from_params(op, axes, Of::Average, p)? }))
    }

    /// What all of them have in common.
    const BASE: Record = Record {
        family: Family::Pooling,
        conventions: "padding counts, as zeros, where a window does not end behind it",
        class: Class::Linear,
        needs: Needs::Shapes,
        ..Record::BLANK
    };

    pub(crate) const LINES: &'static Record = &Record {
        name: "avgpool1d",
        formula: "y = Σ x/k over each window of k",
        derivative: "Σ g/k over the windows that hold x",
        params: &averages(1),
        backward: signature!(avgpool1d_backward(grad_output, shape(x); kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)),
        build: |p| AvgPool::sliding("avgpool1d", 1, p),
        samples: |s| {
            for (shape, kernel, stride, padding) in LINES {
                let x = s.normal(shape);
                s.add([x], params(kernel, stride, padding));
            }
            further(s, &[2, 2, 8], [3]);
            let x = s.normal(&[1, 3, 30_000]);
            s.add_large([x], params([3], [2], [1]), "many numbers");
        },
        errors: bad_lines,
        ..AvgPool::BASE
    };

    pub(crate) const PLANES: &'static Record = &Record {
        name: "avgpool2d",
        formula: "y = Σ x/(h·w) over each window of [h, w]",
        derivative: "Σ g/(h·w) over the windows that hold x",
        params: &averages(2),
        backward: signature!(avgpool2d_backward(grad_output, shape(x); kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)),
        build: |p| AvgPool::sliding("avgpool2d", 2, p),
        samples: |s| {
            for (shape, kernel, stride, padding) in CASES {
                let x = s.normal(shape);
                s.add([x], params(kernel, stride, padding));
            }
            let x = s.normal(&[1, 1, 4, 6]);
            s.add([x], Params::new().with("kernel_size", 2));
            let x = s.normal(&[1, 3, 120, 110]);
            s.add_large([x], params([3, 3], [2, 2], [1, 1]), "many numbers");
            further(s, &[1, 2, 6, 8], [2, 3]);
        },
        errors: |bad| {
            bad_windows(bad);
            let x = bad.ones(&[1, 2, 4, 5], DType::F64);
            let mut add = |params: Params, message| bad.add([x.clone()], params, message);
            let good = || params([2, 2], [1, 1], [0, 0]);
            let none = good().with("divisor_override", 0);
            add(none, "divisor_override is 0, expected at least 1");
            let word = good().with("count_include_pad", "no");
            add(word, "count_include_pad is \"no\", expected true or false");
        },
        ..AvgPool::BASE
    };

    pub(crate) const VOLUMES: &'static Record = &Record {
        name: "avgpool3d",
        formula: "y = Σ x/(d·h·w) over each window of [d, h, w]",
        derivative: "Σ g/(d·h·w) over the windows that hold x",
        params: &averages(3),
        backward: signature!(avgpool3d_backward(grad_output, shape(x); kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)),
        build: |p| AvgPool::sliding("avgpool3d", 3, p),
        samples: |s| {
            for (shape, kernel, stride, padding) in VOLUMES {
                let x = s.normal(shape);
                s.add([x], params(kernel, stride, padding));
            }
            further(s, &[1, 1, 4, 5, 4], [2, 3, 2]);
            let x = s.normal(&[1, 2, 16, 40, 50]);
            s.add_large([x], params([3; 3], [2; 3], [1; 3]), "many numbers");
        },
        errors: bad_volumes,
        ..AvgPool::BASE
    };

    fn over(&self, shape: &Shape) -> Result<Volumes> {
        self.window.over(self.record().name, shape)
    }
}

impl Operation for AvgPool {
    fn record(&self) -> &'static Record {
        match self.window.axes {
            1 => AvgPool::LINES,
            2 => AvgPool::PLANES,
            _ => AvgPool::VOLUMES,
        }
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = (self.record().name, inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let shape = pooled(op, x.shape(), &self.over(x.shape())?, self.window.axes)?;
        Ok(spec(shape, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        averaged(self.record().name, inputs[0], &self.over(inputs[0].shape())?, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        distribute(self.record().backward_name(), call, &self.over(call.inputs[0].shape())?)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.images(self.clone(), self.window.axes + 2)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct GlobalAvgPool2d;

impl GlobalAvgPool2d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "global_avgpool2d",
        family: Family::Pooling,
        formula: "y = Σ x/(H·W) over each plane",
        derivative: "g/(H·W)",
        backward: signature!(global_avgpool2d_backward(grad_output, shape(x))),
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |_| Ok(Box::new(GlobalAvgPool2d)),
        samples: |s| {
            let shapes: [&[usize]; 5] =
                [&[2, 3, 5, 4], &[3, 4, 5], &[1, 1, 1, 1], &[0, 2, 4, 4], &[1, 2, 9, 30]];
            for shape in shapes {
                let x = s.normal(shape);
                s.add([x], Params::new());
            }
            let x = s.normal(&[1, 3, 120, 110]);
            s.add_large([x], Params::new(), "many numbers");
        },
        errors: |bad| {
            let (flat, none) = (bad.ones(&[4, 5], DType::F64), bad.ones(&[1, 0, 5], DType::F64));
            let ints = bad.ones(&[1, 2, 4, 5], DType::I64);
            bad.add([flat], Params::new(), "x has shape [4, 5], expected [N, C, H, W]");
            bad.add([none], Params::new(), "x has shape [1, 0, 5], expected [N, C, H, W]");
            bad.add([ints], Params::new(), "x has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };
}

impl Operation for GlobalAvgPool2d {
    fn record(&self) -> &'static Record {
        GlobalAvgPool2d::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("global_avgpool2d", inputs[0]);
        x.dtype().expect_float(op, "x")?;
        if !matches!(x.ndim(), 3 | 4) || x.shape()[x.ndim() - 2..].contains(&0) {
            let expected = "[N, C, H, W] or [C, H, W], with H and W at least 1";
            return Err(bad_shape(op, "x", expected, x.shape()));
        }
        let mut shape = x.shape().clone();
        shape.set(x.ndim() - 2, 1);
        shape.set(x.ndim() - 1, 1);
        Ok(spec(shape, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(smallvec![ops::mean(inputs[0], over(&[-2i64, -1][..]).keepdims(true))?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let shape = call.inputs[0].shape();
        call.one(|| ops::mean_backward(call.grad(), shape, over(&[-2i64, -1][..]).keepdims(true)))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.images(self.clone(), 4)
    }
}
