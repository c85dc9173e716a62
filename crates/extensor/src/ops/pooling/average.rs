//! The average of each window.

use super::{CASES, Sliding, WINDOW, bad_windows, params, plane, planes, pooled};
use super::{PoolOptions, sizes, two};
use crate::exec::pool::Pool;
use crate::exec::{launch, launch_one};
use crate::ops::Pair;
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::{bad_parameter, required};
use crate::{DType, Error, Result, Shape, Tensor, ops, over};
use extensor_derive::method;
use extensor_kernels::pool::{Kind, Planes, Windows};
use smallvec::smallvec;

/// The average of each window over the last two axes of `[N, C, H, W]` or `[C, H, W]`; windows may
/// reach over the edges, where they count zeros.
///
/// Conventions: padding counts, as zeros.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[1.0, 5.0, 2.0, 0.0], [2.0, 4.0, 8.0, 6.0]]]);
/// assert_eq!(x.avgpool2d(2)?.to_vec::<f64>()?, [3.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn avgpool2d(x: &Tensor, options: impl Into<PoolOptions>) -> Result<Tensor> {
    apply_one(&AvgPool2d { window: Sliding::from_options("avgpool2d", options.into())? }, &[x])
}

/// The gradient of [`avgpool2d`] for an input of `input_shape`: each window's share, added up.
#[track_caller]
#[extensor_derive::noted]
pub fn avgpool2d_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    options: impl Into<PoolOptions>,
) -> Result<Tensor> {
    let window = Sliding::from_options("avgpool2d", options.into())?;
    pull(&AvgPool2d { window }, grad_output, input_shape)
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

/// The averages of `output_size` windows that cover each plane as evenly as possible: window number
/// `i` of `n` along an axis of size `s` goes from `⌊i·s/n⌋` to `⌈(i + 1)·s/n⌉`.
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
    let size = sizes("adaptive_avgpool2d", "output_size", output_size.into())?;
    apply_one(&AdaptiveAvgPool2d { size }, &[x])
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
    let size = sizes("adaptive_avgpool2d", "output_size", output_size.into())?;
    pull(&AdaptiveAvgPool2d { size }, grad_output, input_shape)
}

#[track_caller]
fn pull(op: &dyn Operation, grad_output: &Tensor, input_shape: &[usize]) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

/// The averages of windows.
fn averaged(op: &'static str, x: &Tensor, planes: Planes, specs: Specs) -> Result<Outputs> {
    launch(op, &Pool::Average(planes), &[&x.contiguous()?], specs)
}

/// The gradient of that.
fn distribute(op: &'static str, call: &Backward<'_>, planes: Planes) -> Result<Grads> {
    let (g, shape) = (call.grad().contiguous()?, call.inputs[0].shape());
    let spec = || Spec { shape: shape.clone(), dtype: g.dtype() };
    call.one(|| launch_one(op, &Pool::AverageGradient(planes), &[&g], spec()))
}

#[derive(Clone, Debug)]
pub(crate) struct AvgPool2d {
    window: Sliding,
}

impl AvgPool2d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "avgpool2d",
        family: Family::Pooling,
        formula: "y = Σ x/(h·w) over each window of [h, w]",
        derivative: "Σ g/(h·w) over the windows that hold x",
        conventions: "padding counts, as zeros",
        params: &WINDOW,
        backward: signature!(avgpool2d_backward(grad_output, shape(x); kernel_size, stride, padding)),
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| Ok(Box::new(AvgPool2d { window: Sliding::from_params("avgpool2d", p)? })),
        samples: |s| {
            for (shape, kernel, stride, padding) in CASES {
                let x = s.normal(shape);
                s.add([x], params(kernel, stride, padding));
            }
            let x = s.normal(&[1, 1, 4, 6]);
            s.add([x], Params::new().with("kernel_size", 2));
            let x = s.normal(&[1, 3, 120, 110]);
            s.add_large([x], params([3, 3], [2, 2], [1, 1]), "many numbers");
        },
        errors: bad_windows,
        ..Record::BLANK
    };
}

impl Operation for AvgPool2d {
    fn record(&self) -> &'static Record {
        AvgPool2d::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("avgpool2d", inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let planes = self.window.over(op, x.shape())?;
        Ok(spec(pooled(op, x.shape(), &planes)?, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let planes = self.window.over("avgpool2d", inputs[0].shape())?;
        averaged("avgpool2d", inputs[0], planes, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let planes = self.window.over("avgpool2d", call.inputs[0].shape())?;
        distribute("avgpool2d_backward", call, planes)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        super::batched(call, self.clone())
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
        plane(op, x.shape())?;
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
        super::batched(call, self.clone())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AdaptiveAvgPool2d {
    size: [usize; 2],
}

impl AdaptiveAvgPool2d {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "adaptive_avgpool2d",
        family: Family::Pooling,
        formula: "y = the average of each of output_size windows",
        derivative: "Σ g/(h·w) over the windows of [h, w] that hold x",
        conventions: "window i of n along an axis of size s goes from ⌊i·s/n⌋ to ⌈(i + 1)·s/n⌉",
        params: &[required("output_size", "how many windows: for both axes, or [down, right]")],
        backward: signature!(adaptive_avgpool2d_backward(grad_output, shape(x); output_size)),
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let (op, parameter) = ("adaptive_avgpool2d", "output_size");
            let missing = || bad_parameter(op, parameter, "one or two sizes", "None");
            let size = two(op, parameter, p)?.ok_or_else(missing)?;
            Ok(Box::new(AdaptiveAvgPool2d { size }))
        },
        samples: |s| {
            let cases: [(&[usize], [i64; 2]); 7] = [
                (&[2, 3, 7, 8], [3, 2]),
                (&[2, 3, 5, 4], [1, 1]),
                (&[3, 4, 5], [4, 5]),
                (&[1, 2, 2, 3], [5, 4]),
                (&[1, 2, 9, 7], [2, 6]),
                (&[0, 2, 4, 4], [2, 2]),
                (&[1, 2, 4, 4], [0, 2]),
            ];
            for (shape, size) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("output_size", size));
            }
        },
        errors: |bad| {
            let (x, flat) = (bad.ones(&[1, 4, 5], DType::F64), bad.ones(&[4, 5], DType::F64));
            let ints = bad.ones(&[1, 2, 4, 5], DType::I64);
            let two = Params::new().with("output_size", 2);
            bad.add([flat], two.clone(), "x has shape [4, 5], expected [N, C, H, W]");
            bad.add([ints], two, "x has dtype i64, expected a float type");
            let mut add = |params: Params, message| bad.add([x.clone()], params, message);
            add(Params::new(), "output_size is \"None\"");
            let negative = Params::new().with("output_size", [2, -1]);
            add(negative, "output_size is [2, -1], expected one or two sizes of at least 0");
            let huge = Params::new().with("output_size", [i64::MAX, 1]);
            add(huge, "more elements than memory can address");
        },
        ..Record::BLANK
    };

    fn over(&self, shape: &Shape) -> Result<Planes> {
        let op = "adaptive_avgpool2d";
        let sizes = plane(op, shape)?;
        let axis = |i: usize| {
            let (len, count) = (sizes[i], self.size[i]);
            let overflow = || Error::Overflow { op, shape: Shape::from([len, count]) };
            count.checked_add(1).and_then(|n| n.checked_mul(len)).ok_or_else(overflow)?;
            Ok(Windows { len, count, kind: Kind::Even })
        };
        Ok(Planes { count: planes(op, shape)?, rows: axis(0)?, columns: axis(1)? })
    }
}

impl Operation for AdaptiveAvgPool2d {
    fn record(&self) -> &'static Record {
        AdaptiveAvgPool2d::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("adaptive_avgpool2d", inputs[0]);
        x.dtype().expect_float(op, "x")?;
        Ok(spec(pooled(op, x.shape(), &self.over(x.shape())?)?, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let planes = self.over(inputs[0].shape())?;
        averaged("adaptive_avgpool2d", inputs[0], planes, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let planes = self.over(call.inputs[0].shape())?;
        distribute("adaptive_avgpool2d_backward", call, planes)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        super::batched(call, self.clone())
    }
}
