//! The largest number of each window.

use super::windows::{Even, Of, Sliding, Volumes, pooled};
use super::{CASES, LINES, Pool3dOptions, PoolOptions, VOLUMES, window};
use super::{bad_lines, bad_volumes, bad_windows, no_float, params};
use crate::exec::pool::Pool;
use crate::exec::{launch, launch_one};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply, backward, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::ops::samples::{Sample, Sampler};
use crate::ops::shape::{bad_shape, optional};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// The largest number of each window over the last two axes of `[N, C, H, W]` or `[C, H, W]`;
/// windows may reach over the edges, and see nothing there.
///
/// Conventions: of several equal numbers the first, row by row, has the gradient; NaN in a window gives
/// NaN; padding is never the largest; also returned: where in its plane each result is.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[1.0, 5.0, 2.0, 0.0], [3.0, 4.0, 8.0, 8.0]]]);
/// let y = x.maxpool2d(2)?;
/// assert_eq!(y.to_vec::<f64>()?, [5.0, 8.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn maxpool2d(x: &Tensor, options: impl Into<PoolOptions>) -> Result<Tensor> {
    Ok(maxpool2d_with_indices(x, options)?.0)
}

/// [`maxpool2d`] and, as `i64`, where in its plane of `H·W` numbers each result came from: the first
/// of several equal ones, row by row; the first NaN if there is one.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[1.0, 5.0, 2.0, 0.0], [3.0, 4.0, 8.0, 8.0]]]);
/// let (_, indices) = x.maxpool2d_with_indices(2)?;
/// assert_eq!(indices.to_vec::<i64>()?, [1, 6]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn maxpool2d_with_indices(
    x: &Tensor,
    options: impl Into<PoolOptions>,
) -> Result<(Tensor, Tensor)> {
    let cover = Sliding::from_options("maxpool2d", 2, Of::Maximum, options.into())?;
    both(&MaxPool { cover: Cover::Sliding(cover) }, x)
}

/// The gradient of [`maxpool2d`] for an input of `input_shape`: each element of `grad_output` added
/// where its window's largest number was, as [`maxpool2d_with_indices`] found it.
///
/// ```
/// use extensor::ops::maxpool2d_backward;
/// use extensor::tensor;
/// let (g, indices) = (tensor([[[10.0, 20.0]]]), tensor([[[1i64, 6]]]));
/// let dx = maxpool2d_backward(&g, &indices, &[1, 2, 4], 2)?;
/// assert_eq!(dx.to_vec::<f64>()?, [0.0, 10.0, 0.0, 0.0, 0.0, 0.0, 20.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[track_caller]
#[extensor_derive::noted]
pub fn maxpool2d_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
    options: impl Into<PoolOptions>,
) -> Result<Tensor> {
    let cover = Sliding::from_options("maxpool2d", 2, Of::Maximum, options.into())?;
    pull(Cover::Sliding(cover), grad_output, indices, input_shape)
}

/// The largest number of each window over the last axis of `[N, C, L]` or `[C, L]`; windows may reach
/// over the ends, and see nothing there.
///
/// Conventions: of several equal numbers the first has the gradient; NaN in a window gives NaN; padding is
/// never the largest; also returned: where on its line each result is.
///
/// ```
/// use extensor::ops::PoolOptions;
/// use extensor::tensor;
/// let x = tensor([[1.0, 5.0, 2.0, 0.0, 3.0]]);
/// assert_eq!(x.maxpool1d(2)?.to_vec::<f64>()?, [5.0, 2.0]);
/// let y = x.maxpool1d(PoolOptions::new(2).ceil_mode(true))?;
/// assert_eq!(y.to_vec::<f64>()?, [5.0, 2.0, 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn maxpool1d(x: &Tensor, options: impl Into<PoolOptions>) -> Result<Tensor> {
    Ok(maxpool1d_with_indices(x, options)?.0)
}

/// [`maxpool1d`] and, as `i64`, where on its line each result came from: the first of several equal
/// ones; the first NaN if there is one.
///
/// ```
/// use extensor::tensor;
/// let (_, indices) = tensor([[1.0, 5.0, 2.0, 2.0]]).maxpool1d_with_indices(2)?;
/// assert_eq!(indices.to_vec::<i64>()?, [1, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn maxpool1d_with_indices(
    x: &Tensor,
    options: impl Into<PoolOptions>,
) -> Result<(Tensor, Tensor)> {
    let cover = Sliding::from_options("maxpool1d", 1, Of::Maximum, options.into())?;
    both(&MaxPool { cover: Cover::Sliding(cover) }, x)
}

/// The gradient of [`maxpool1d`] for an input of `input_shape`: each element of `grad_output` added
/// where its window's largest number was, as [`maxpool1d_with_indices`] found it.
#[track_caller]
#[extensor_derive::noted]
pub fn maxpool1d_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
    options: impl Into<PoolOptions>,
) -> Result<Tensor> {
    let cover = Sliding::from_options("maxpool1d", 1, Of::Maximum, options.into())?;
    pull(Cover::Sliding(cover), grad_output, indices, input_shape)
}

/// The largest number of each window over the last three axes of `[N, C, D, H, W]` or `[C, D, H, W]`;
/// windows may reach over the faces, and see nothing there.
///
/// Conventions: of several equal numbers the first, row by row and plane by plane, has the gradient; NaN
/// in a window gives NaN; padding is never the largest; also returned: where in its volume each result is.
///
/// ```
/// use extensor::{DType, Key};
/// let x = Key::new(1).normal([2, 3, 4, 6, 6], DType::F32)?;
/// let y = x.maxpool3d([2, 3, 3])?;
/// assert_eq!(y.shape(), [2, 3, 2, 2, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn maxpool3d(x: &Tensor, options: impl Into<Pool3dOptions>) -> Result<Tensor> {
    Ok(maxpool3d_with_indices(x, options)?.0)
}

/// [`maxpool3d`] and, as `i64`, where in its volume of `D·H·W` numbers each result came from: the first
/// of several equal ones, row by row and plane by plane; the first NaN if there is one.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[[1.0, 2.0], [7.0, 4.0]], [[5.0, 6.0], [7.0, 0.0]]]]);
/// let (y, indices) = x.maxpool3d_with_indices(2)?;
/// assert_eq!((y.to_vec::<f64>()?, indices.to_vec::<i64>()?), (vec![7.0], vec![2]));
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn maxpool3d_with_indices(
    x: &Tensor,
    options: impl Into<Pool3dOptions>,
) -> Result<(Tensor, Tensor)> {
    let cover = Sliding::from_3d("maxpool3d", 3, Of::Maximum, options.into())?;
    both(&MaxPool { cover: Cover::Sliding(cover) }, x)
}

/// The gradient of [`maxpool3d`] for an input of `input_shape`: each element of `grad_output` added
/// where its window's largest number was, as [`maxpool3d_with_indices`] found it.
#[track_caller]
#[extensor_derive::noted]
pub fn maxpool3d_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
    options: impl Into<Pool3dOptions>,
) -> Result<Tensor> {
    let cover = Sliding::from_3d("maxpool3d", 3, Of::Maximum, options.into())?;
    pull(Cover::Sliding(cover), grad_output, indices, input_shape)
}

/// The results, and where they came from.
#[track_caller]
pub(super) fn both(op: &MaxPool, x: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut outputs = apply(op, &[x])?;
    let indices = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), indices))
}

/// The gradient, from where results came from.
#[track_caller]
pub(super) fn pull(
    cover: Cover,
    grad_output: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
) -> Result<Tensor> {
    let op = MaxPool { cover };
    let name = op.record().backward_name();
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let expected = op.infer(&[&x])?.swap_remove(1);
    if *indices.shape() != expected.shape {
        return Err(bad_shape(name, "indices", expected.shape.to_string(), indices.shape()));
    }
    if indices.dtype() != DType::I64 {
        let (argument, got) = ("indices", indices.dtype());
        return Err(Error::DType { op: name, argument, expected: "i64", got });
    }
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let grads = backward(&op, &[grad_output], &[&x], &[&output, indices], &[true])?;
    grads.into_iter().flatten().next().map_or_else(|| no_float(name, x.dtype()), Ok)
}

/// Which windows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cover {
    Sliding(Sliding),
    Even(Even),
}

#[derive(Clone, Debug)]
pub(crate) struct MaxPool {
    pub(super) cover: Cover,
}

/// The parameters of windows that slide over so many axes, of which the largest numbers are taken.
const fn taken(axes: usize) -> [Parameter; 5] {
    let [size, step, padding] = window(axes);
    let what = if axes == 1 { "a number" } else { "a number or one for each axis" };
    [
        size,
        step,
        padding,
        optional("dilation", what, "1"),
        optional("ceil_mode", "whether a last window may end behind the axis", "false"),
    ]
}

/// Samples with the options that are not in all cases.
fn further<const N: usize>(s: &mut Sampler, shape: &[usize], kernel: [i64; N]) {
    let apart = params(kernel, [1; N], [1; N]).with("dilation", [2; N]);
    let (one, other) = (s.apart(shape), s.apart(shape));
    s.add([one], apart.clone());
    s.add([other], params(kernel, [2; N], [0; N]).with("ceil_mode", true));
    let (one, other) = (s.apart(shape), s.apart(shape));
    s.add([one], apart.with("ceil_mode", true));
    s.add([other], Params::new().with("kernel_size", 2));
}

impl MaxPool {
    fn sliding(op: &'static str, axes: usize, p: &Params) -> Result<Box<dyn Operation>> {
        let cover = Cover::Sliding(Sliding::from_params(op, axes, Of::Maximum, p)?);
        Ok(Box::new(MaxPool { cover }))
    }

    /// Whether a window has its largest number twice.
    fn tied(op: &'static str, axes: usize, sample: &Sample) -> bool {
        let windows = Sliding::from_params(op, axes, Of::Maximum, &sample.params);
        let windows = windows.and_then(|windows| windows.over(op, sample.inputs[0].shape()));
        windows.is_ok_and(|windows| windows.tied(sample))
    }

    /// What all of them have in common.
    pub(super) const BASE: Record = Record {
        family: Family::Pooling,
        formula: "y = the largest x of each window",
        derivative: "g, added where each window's largest number is",
        conventions: "of several equal numbers the first, row by row, has the gradient; NaN in a \
                      window gives NaN; padding is never the largest; also returned: where in its \
                      plane each result is",
        class: Class::General,
        needs: Needs::Auxiliary,
        auxiliary: 1,
        ..Record::BLANK
    };

    pub(crate) const LINES: &'static Record = &Record {
        name: "maxpool1d",
        conventions: "of several equal numbers the first has the gradient; NaN in a window gives NaN; \
                      padding is never the largest; also returned: where on its line each result is",
        params: &taken(1),
        backward: signature!(maxpool1d_backward(grad_output, auxiliary(indices), shape(x); kernel_size, stride, padding, dilation, ceil_mode)),
        build: |p| MaxPool::sliding("maxpool1d", 1, p),
        samples: |s| {
            for (shape, kernel, stride, padding) in LINES {
                let x = s.apart(shape);
                s.add([x], params(kernel, stride, padding));
            }
            further(s, &[2, 2, 8], [2]);
            let x = s.apart(&[1, 3, 30_000]);
            s.add_large([x], params([3], [2], [1]), "many numbers");
            let ties = crate::tensor([[[1.0, 1.0, 0.0, 2.0, 2.0]]]);
            s.add_noted([ties], params([3], [1], [1]), "ties");
        },
        kinks: |sample| MaxPool::tied("maxpool1d", 1, sample),
        errors: bad_lines,
        ..MaxPool::BASE
    };

    pub(crate) const PLANES: &'static Record = &Record {
        name: "maxpool2d",
        params: &taken(2),
        backward: signature!(maxpool2d_backward(grad_output, auxiliary(indices), shape(x); kernel_size, stride, padding, dilation, ceil_mode)),
        build: |p| MaxPool::sliding("maxpool2d", 2, p),
        samples: |s| {
            for (shape, kernel, stride, padding) in CASES {
                let x = s.apart(shape);
                s.add([x], params(kernel, stride, padding));
            }
            let x = s.apart(&[1, 1, 4, 6]);
            s.add([x], Params::new().with("kernel_size", 2));
            let x = s.apart(&[1, 3, 120, 110]);
            s.add_large([x], params([3, 3], [2, 2], [1, 1]), "many numbers");
            let ties = crate::tensor([[[[1.0; 4]; 4]]]);
            s.add_noted([ties], params([2, 2], [2, 2], [0, 0]), "ties");
            let ties = crate::tensor([[[[1.0, 1.0, 0.0, 2.0, 2.0]; 3]]]);
            s.add_noted([ties], params([3, 3], [1, 1], [1, 1]), "ties");
            further(s, &[1, 2, 6, 8], [2, 3]);
        },
        kinks: |sample| MaxPool::tied("maxpool2d", 2, sample),
        errors: |bad| {
            bad_windows(bad);
            let x = bad.ones(&[1, 2, 4, 5], DType::F64);
            let mut add = |params: Params, message| bad.add([x.clone()], params, message);
            let good = || params([2, 2], [1, 1], [0, 0]);
            add(good().with("dilation", 0), "dilation is [0, 0], expected sizes of at least 1");
            let far = good().with("dilation", [4, 1]);
            add(far, "x has shape [1, 2, 4, 5], expected a plane that holds a window of [2, 2]");
            let gaps = params([2, 2], [1, 1], [2, 0]).with("dilation", [6, 1]);
            add(gaps, "x has shape [1, 2, 4, 5], expected windows each of which holds a number");
            add(good().with("ceil_mode", 1), "ceil_mode is 1, expected true or false");
        },
        ..MaxPool::BASE
    };

    pub(crate) const VOLUMES: &'static Record = &Record {
        name: "maxpool3d",
        conventions: "of several equal numbers the first, row by row and plane by plane, has the gradient; NaN \
                      in a window gives NaN; padding is never the largest; also returned: where in its \
                      volume each result is",
        params: &taken(3),
        backward: signature!(maxpool3d_backward(grad_output, auxiliary(indices), shape(x); kernel_size, stride, padding, dilation, ceil_mode)),
        build: |p| MaxPool::sliding("maxpool3d", 3, p),
        samples: |s| {
            for (shape, kernel, stride, padding) in VOLUMES {
                let x = s.apart(shape);
                s.add([x], params(kernel, stride, padding));
            }
            further(s, &[1, 1, 4, 5, 4], [2, 2, 2]);
            let x = s.apart(&[1, 2, 16, 40, 50]);
            s.add_large([x], params([3; 3], [2; 3], [1; 3]), "many numbers");
            let ties = crate::tensor([[[[1.0; 3]; 2], [[1.0, 0.0, 1.0]; 2]]]);
            s.add_noted([ties], params([2, 2, 2], [1; 3], [0; 3]), "ties");
        },
        kinks: |sample| MaxPool::tied("maxpool3d", 3, sample),
        errors: bad_volumes,
        ..MaxPool::BASE
    };

    fn axes(&self) -> usize {
        match self.cover {
            Cover::Sliding(Sliding { axes, .. }) | Cover::Even(Even { axes, .. }) => axes,
        }
    }

    fn over(&self, op: &'static str, shape: &Shape) -> Result<Volumes> {
        match self.cover {
            Cover::Sliding(windows) => windows.over(op, shape),
            Cover::Even(windows) => windows.over(op, shape),
        }
    }
}

impl Operation for MaxPool {
    fn record(&self) -> &'static Record {
        match (self.cover, self.axes()) {
            (Cover::Sliding(_), 1) => MaxPool::LINES,
            (Cover::Sliding(_), 2) => MaxPool::PLANES,
            (Cover::Sliding(_), _) => MaxPool::VOLUMES,
            (Cover::Even(_), 1) => MaxPool::EVEN_LINES,
            (Cover::Even(_), 2) => MaxPool::EVEN_PLANES,
            (Cover::Even(_), _) => MaxPool::EVEN_VOLUMES,
        }
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = (self.record().name, inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let shape = pooled(op, x.shape(), &self.over(op, x.shape())?, self.axes())?;
        let indices = Spec { shape: shape.clone(), dtype: DType::I64 };
        Ok(smallvec![Spec { shape, dtype: x.dtype() }, indices])
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let op = self.record().name;
        let of = self.over(op, inputs[0].shape())?;
        let x = inputs[0].contiguous()?;
        if of.is_flat() {
            return launch(op, &Pool::Maximum(of.planes()), &[&x], specs);
        }
        // The largest of each plane, and of these the largest; the first of which is the first of all.
        let two = |shape: Shape| -> Specs {
            let indices = Spec { shape: shape.clone(), dtype: DType::I64 };
            smallvec![Spec { shape, dtype: x.dtype() }, indices]
        };
        let each = of.rows.count * of.columns.count;
        let planes = two(Shape::from([of.count, of.depth.len * each]));
        let planes = launch(op, &Pool::Maximum(of.planes()), &[&x], planes)?;
        let volumes = two(Shape::from([of.count, of.output()]));
        let volumes = launch(op, &Pool::Maximum(of.across()), &[&planes[0]], volumes)?;
        let within = ops::gather(&planes[1], &volumes[1], 1)?;
        let number = |n: usize| Tensor::constant(n as f64, &Shape::from([]), DType::I64);
        let behind = ops::floor_divide(&volumes[1], &number(each.max(1))?)?;
        let before = ops::multiply(&behind, &number(of.rows.len * of.columns.len)?)?;
        let shape = &specs[0].shape;
        let (y, indices) = (&volumes[0], ops::add(&before, &within)?);
        Ok(smallvec![ops::reshape(y, shape)?, ops::reshape(&indices, shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = self.record().backward_name();
        let shape = call.inputs[0].shape();
        let planes = self.over(op, shape)?.listed();
        let (g, indices) = (call.grad().contiguous()?, call.outputs[1].contiguous()?);
        let kernel = Pool::MaximumGradient { planes, axis: shape.len() - self.axes() };
        let spec = || Spec { shape: shape.clone(), dtype: g.dtype() };
        call.one(|| launch_one(op, &kernel, &[&g, &indices], spec()))
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (y, indices) = (call.outputs[0], call.outputs[1]);
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        let of = self.over(self.record().name, tangent.shape())?;
        let tangent = ops::reshape(tangent, Shape::from([of.count, of.input()]))?;
        let indices = ops::reshape(indices, Shape::from([of.count, of.output()]))?;
        Ok(smallvec![ops::reshape(&ops::gather(&tangent, &indices, 1)?, y.shape())?])
    }
    fn terms(&self, _: &[&Tensor]) -> usize {
        match self.cover {
            Cover::Sliding(Sliding { kernel, stride, axes, .. }) => {
                let axes = 3 - axes..3;
                axes.fold(1, |all: usize, i| all.saturating_mul(kernel[i].div_ceil(stride[i])))
            }
            // Neighbours of those that do not come out even share one number at most.
            Cover::Even(Even { axes, .. }) => 1 << axes,
        }
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.images(self.clone(), self.axes() + 2)
    }
}
