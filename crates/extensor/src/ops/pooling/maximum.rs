//! The largest number of each window.

use super::{CASES, PoolOptions, Sliding, WINDOW, bad_windows, no_float, params, pooled};
use crate::exec::pool::Pool;
use crate::exec::{launch, launch_one};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply, backward, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::samples::Sample;
use crate::ops::shape::bad_shape;
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
    let op = MaxPool2d { window: Sliding::from_options("maxpool2d", options.into())? };
    let mut outputs = apply(&op, &[x])?;
    let indices = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), indices))
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
    let name = "maxpool2d_backward";
    let op = MaxPool2d { window: Sliding::from_options("maxpool2d", options.into())? };
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

#[derive(Clone, Debug)]
pub(crate) struct MaxPool2d {
    window: Sliding,
}

impl MaxPool2d {
    /// Whether a window has its largest number twice.
    fn tied(sample: &Sample) -> Result<bool> {
        let (op, x) = ("maxpool2d", &sample.inputs[0]);
        let window = Sliding::from_params(op, &sample.params)?.over(op, x.shape())?;
        let (values, width) = (x.to_f64_vec(), window.columns.len);
        let planes = values.chunks((window.rows.len * width).max(1));
        let windows = || 0..window.rows.count * window.columns.count;
        Ok(planes.flat_map(|plane| windows().map(move |at| (plane, at))).any(|(plane, at)| {
            let (rows, _) = window.rows.get(at / window.columns.count);
            let (columns, _) = window.columns.get(at % window.columns.count);
            let row = |y: usize| plane[y * width..][columns.clone()].iter();
            let most = rows.clone().flat_map(row).fold(f64::NEG_INFINITY, |m, &x| m.max(x));
            rows.flat_map(row).filter(|x| **x == most).count() > 1
        }))
    }

    pub(crate) const RECORD: &'static Record = &Record {
        name: "maxpool2d",
        family: Family::Pooling,
        formula: "y = the largest x of each window",
        derivative: "g, added where each window's largest number is",
        conventions: "of several equal numbers the first, row by row, has the gradient; NaN in a \
                      window gives NaN; padding is never the largest; also returned: where in its \
                      plane each result is",
        params: &WINDOW,
        backward: signature!(maxpool2d_backward(grad_output, auxiliary(indices), shape(x); kernel_size, stride, padding)),
        class: Class::General,
        needs: Needs::Auxiliary,
        auxiliary: 1,
        build: |p| Ok(Box::new(MaxPool2d { window: Sliding::from_params("maxpool2d", p)? })),
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
        },
        kinks: |sample| MaxPool2d::tied(sample).unwrap_or(false),
        errors: bad_windows,
        ..Record::BLANK
    };
}

impl Operation for MaxPool2d {
    fn record(&self) -> &'static Record {
        MaxPool2d::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("maxpool2d", inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let planes = self.window.over(op, x.shape())?;
        let shape = pooled(op, x.shape(), &planes)?;
        let indices = Spec { shape: shape.clone(), dtype: DType::I64 };
        Ok(smallvec![Spec { shape, dtype: x.dtype() }, indices])
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let op = "maxpool2d";
        let planes = self.window.over(op, inputs[0].shape())?;
        launch(op, &Pool::Maximum(planes), &[&inputs[0].contiguous()?], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = "maxpool2d_backward";
        let shape = call.inputs[0].shape();
        let planes = self.window.over(op, shape)?;
        let (g, indices) = (call.grad().contiguous()?, call.outputs[1].contiguous()?);
        let kernel = Pool::MaximumGradient { planes, axis: shape.len() - 2 };
        let spec = || Spec { shape: shape.clone(), dtype: g.dtype() };
        call.one(|| launch_one(op, &kernel, &[&g, &indices], spec()))
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (y, indices) = (call.outputs[0], call.outputs[1]);
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        let planes = self.window.over("maxpool2d", tangent.shape())?;
        let each = |x: &Tensor, axes: [usize; 2]| {
            ops::reshape(x, Shape::from([planes.count, axes[0] * axes[1]]))
        };
        let tangent = each(tangent, [planes.rows.len, planes.columns.len])?;
        let indices = each(indices, [planes.rows.count, planes.columns.count])?;
        Ok(smallvec![ops::reshape(&ops::gather(&tangent, &indices, 1)?, y.shape())?])
    }
    fn terms(&self, _: &[&Tensor]) -> usize {
        let ([h, w], [down, right]) = (self.window.kernel, self.window.stride);
        h.div_ceil(down).saturating_mul(w.div_ceil(right))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        super::batched(call, self.clone())
    }
}
