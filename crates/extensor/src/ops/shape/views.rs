//! Other shapes for the same elements, and axes in another order: views.

use crate::ops::batching::{Batch, Batched, View, shifted};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, reduce_to_shape, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::shape::{bad_parameter, bad_shape, optional, required, sizes};
use crate::tensor::{Layout, axis_index, broadcast};
use crate::{Axes, DType, Integers, Result, Shape, Tensor};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

/// The same elements, in row-major order, under another shape; one size may be −1: whatever fits.
///
/// A view wherever strides can describe it (always, for a contiguous tensor), otherwise a copy.
///
/// Conventions: a view where strides allow; one size may be -1.
///
/// ```
/// use extensor::ops::reshape;
/// use extensor::tensor;
/// let x = tensor([[1, 2, 3], [4, 5, 6]]);
/// let y = reshape(&x, [3, -1])?;
/// assert_eq!(y.shape(), [3, 2]);
/// assert_eq!(y.to_vec::<i32>()?, [1, 2, 3, 4, 5, 6]);
/// assert!(y.shares_memory_with(&x));
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn reshape(x: &Tensor, shape: impl Integers) -> Result<Tensor> {
    let shape = shape.integers();
    apply_one(&Reshape { shape }, &[x])
}

/// The gradient of [`reshape`]: `grad_output` in the input's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn reshape_backward(grad_output: &Tensor, input_shape: &[usize]) -> Result<Tensor> {
    refill("reshape_backward", grad_output, input_shape)
}

/// The gradient of whatever keeps the elements and their order: `grad_output` in the input's shape.
pub(crate) fn refill(
    op: &'static str,
    grad_output: &Tensor,
    input_shape: &[usize],
) -> Result<Tensor> {
    grad_output.dtype().expect_float(op, "grad_output")?;
    let shape = Shape::from(input_shape);
    let len = shape.count(op)?;
    if grad_output.len() != len {
        let expected = format!("{len} elements to fill {shape}");
        return Err(bad_shape(op, "grad_output", expected, grad_output.shape()));
    }
    reshape(grad_output, &shape)
}

#[derive(Clone, Debug)]
pub(crate) struct Reshape {
    shape: SmallVec<[i64; 4]>,
}

impl Reshape {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "reshape",
        family: Family::Shape,
        formula: "y = the elements of x, in row-major order, in another shape",
        derivative: "g in the shape of x",
        conventions: "a view where strides allow; one size may be -1",
        backward: signature!(reshape_backward(grad_output, shape(x))),
        params: &[required("shape", "sizes, one of which may be -1")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let shape = p.ints("reshape", "shape")?.into();
            Ok(Box::new(Reshape { shape }))
        },
        samples: |s| {
            let cases: [(&[usize], &[i64]); 9] = [
                (&[2, 6], &[3, 4]),
                (&[2, 3, 4], &[6, 4]),
                (&[4], &[2, 2]),
                (&[0, 3], &[3, 0]),
                (&[2, 6], &[4, -1]),
                (&[], &[1, 1]),
                (&[1], &[]),
                (&[2, 3, 4], &[-1]),
                (&[0, 3], &[-1, 3]),
            ];
            for (from, to) in cases {
                let x = s.normal(from);
                s.add([x], Params::new().with("shape", to));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let mut add = |to: &[i64], message| {
                bad.add([x.clone()], Params::new().with("shape", to), message);
            };
            add(&[4], "reshape: x has shape [2, 3], expected 4 elements");
            add(&[4, -1], "expected a multiple of 4 elements to fill [4, -1]");
            add(&[-1, -1], "shape is [-1, -1], expected at most one -1");
            add(&[-2, 3], "shape is [-2, 3], expected sizes of at least 0");
            add(&[i64::MAX, i64::MAX], "more elements than memory");
            let empty = bad.ones(&[0, 3], DType::F64);
            let params = Params::new().with("shape", [0, -1]);
            bad.add([empty], params, "expected no -1 beside a size of 0");
            let x = bad.ones(&[2], DType::F64);
            bad.add([x], Params::new(), "shape is None, expected a list");
        },
        ..Record::BLANK
    };

    /// The shape meant, for `x`.
    fn shape_for(&self, x: &Tensor) -> Result<Shape> {
        let (op, given) = ("reshape", &self.shape[..]);
        let Some(free) = given.iter().position(|&size| size == -1) else {
            let shape = sizes(op, "shape", given)?;
            let len = shape.count(op)?;
            if len != x.len() {
                let expected = format!("{len} elements to fill {shape}");
                return Err(bad_shape(op, "x", expected, x.shape()));
            }
            return Ok(shape);
        };
        let mut rest = given.to_vec();
        rest.remove(free);
        if rest.contains(&-1) {
            return Err(bad_parameter(op, "shape", "at most one -1", given));
        }
        let rest = sizes(op, "shape", &rest)?;
        let len = rest.count(op)?;
        if len == 0 {
            let expected = "no -1 beside a size of 0";
            return Err(bad_parameter(op, "shape", expected, given));
        }
        if !x.len().is_multiple_of(len) {
            let expected = format!("a multiple of {len} elements to fill {given:?}");
            return Err(bad_shape(op, "x", expected, x.shape()));
        }
        let mut shape = rest;
        shape.insert(free, x.len() / len);
        Ok(shape)
    }
}

impl Operation for Reshape {
    fn record(&self) -> &'static Record {
        Reshape::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        Ok(spec(self.shape_for(inputs[0])?, inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        Ok(smallvec![reshaped(inputs[0], &specs[0].shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| reshape_backward(call.grad(), call.inputs[0].shape()))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let sizes = std::iter::once(call.size as i64).chain(self.shape.iter().copied());
        call.whole(Reshape { shape: sizes.collect() })
    }
}

/// The tensor under a shape of as many elements.
pub(crate) fn reshaped(x: &Tensor, shape: &Shape) -> Result<Tensor> {
    if let Some(layout) = x.layout().reshaped(shape) {
        return Ok(x.with_layout(layout));
    }
    Ok(x.contiguous()?.with_layout(Layout::contiguous(shape.clone())))
}

/// The axes in another order: axis `i` of the result is axis `axes[i]` of `x`; `None` reverses them.
/// A view.
///
/// Conventions: no axes: the order is reversed; a view.
///
/// ```
/// use extensor::ops::transpose;
/// use extensor::tensor;
/// let x = tensor([[1, 2, 3], [4, 5, 6]]);
/// assert_eq!(transpose(&x, None)?.to_vec::<i32>()?, [1, 4, 2, 5, 3, 6]);
/// assert_eq!(transpose(&x, [0, 1])?.shape(), [2, 3]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn transpose(x: &Tensor, axes: impl Into<Axes>) -> Result<Tensor> {
    let axes = axes.into();
    apply_one(&Transpose { axes }, &[x])
}

/// The gradient of [`transpose`]: `grad_output` with its axes put back. A view.
#[track_caller]
#[extensor_derive::noted]
pub fn transpose_backward(grad_output: &Tensor, axes: impl Into<Axes>) -> Result<Tensor> {
    let op = Transpose { axes: axes.into() };
    let order = op.order(grad_output.ndim())?;
    let mut shape = grad_output.shape().clone();
    for (&axis, &size) in order.iter().zip(grad_output.shape().iter()) {
        shape.set(axis, size);
    }
    let x = placeholder(&shape, grad_output.dtype())?;
    let [grad] = backward_of(&op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Debug)]
pub(crate) struct Transpose {
    axes: Axes,
}

impl Transpose {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "transpose",
        family: Family::Matrix,
        formula: "y = x with axis i in the place of axes[i]",
        derivative: "g with the axes put back",
        conventions: "no axes: the order is reversed; a view",
        backward: signature!(transpose_backward(grad_output; axes)),
        params: &[optional("axes", "all axes in another order", "None")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let axes = p.axes("transpose", "axes")?;
            Ok(Box::new(Transpose { axes }))
        },
        samples: |s| {
            let cases: [(&[usize], Option<&[i64]>); 9] = [
                (&[3, 4], None),
                (&[4], None),
                (&[], None),
                (&[2, 3, 4], None),
                (&[2, 3, 4], Some(&[1, 2, 0])),
                (&[2, 3, 4, 2], Some(&[0, 2, 1, 3])),
                (&[2, 3, 4], Some(&[-1, 0, -2])),
                (&[0, 3], None),
                (&[1, 3, 1], Some(&[2, 0, 1])),
            ];
            for (shape, axes) in cases {
                let x = s.normal(shape);
                s.add([x], Params::new().with("axes", axes));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let mut add = |axes: &[i64], message| {
                bad.add([x.clone()], Params::new().with("axes", axes), message);
            };
            add(&[0, 2], "axis 2 is out of range for 2 dimensions");
            add(&[0, -2], "axis -2 is named twice");
            add(&[0], "axes is [0], expected each of the 2 axes once");
        },
        ..Record::BLANK
    };

    /// The axis of the input that each axis of the result is.
    fn order(&self, ndim: usize) -> Result<SmallVec<[usize; 6]>> {
        let op = "transpose";
        let Axes::List(list) = &self.axes else {
            return Ok((0..ndim).rev().collect());
        };
        self.axes.mask(op, ndim)?;
        if list.len() != ndim {
            let expected = format!("each of the {ndim} axes once");
            return Err(bad_parameter(op, "axes", expected, &list[..]));
        }
        list.iter().map(|&a| axis_index(op, a, ndim)).collect()
    }
}

impl Operation for Transpose {
    fn record(&self) -> &'static Record {
        Transpose::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        let order = self.order(x.ndim())?;
        Ok(spec(order.iter().map(|&i| x.shape()[i]).collect(), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        let order = self.order(x.ndim())?;
        Ok(smallvec![x.with_layout(Layout {
            shape: specs.swap_remove(0).shape,
            strides: order.iter().map(|&i| x.strides()[i]).collect(),
            offset: x.layout().offset,
        })])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let order = self.order(call.grad().ndim())?;
        let mut inverse = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            inverse[from] = to;
        }
        call.one(|| transpose(call.grad(), &inverse))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let ndim = call.inputs[0].ndim() as i64;
        let order: SmallVec<[i64; 4]> = match &self.axes {
            Axes::All => (0..=ndim).rev().filter(|&axis| axis > 0).collect(),
            Axes::List(list) => list.iter().map(|&axis| shifted(axis)).collect(),
        };
        call.whole(Transpose { axes: Axes::List(std::iter::once(0).chain(order).collect()) })
    }
}

/// `x` repeated along new leading axes and along axes of size 1, so that it has `shape`. A view: the
/// repeated elements lie in memory once.
///
/// Conventions: a view: repeated elements lie in memory once.
///
/// ```
/// use extensor::ops::broadcast_to;
/// use extensor::tensor;
/// let y = broadcast_to(&tensor([1, 2]), [2, 2])?;
/// assert_eq!(y.to_vec::<i32>()?, [1, 2, 1, 2]);
/// assert_eq!(y.strides(), [0, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn broadcast_to(x: &Tensor, shape: impl Integers) -> Result<Tensor> {
    let shape = shape.integers();
    apply_one(&BroadcastTo { shape }, &[x])
}

/// The gradient of [`broadcast_to`]: `grad_output` summed over the repetitions.
#[track_caller]
#[extensor_derive::noted]
pub fn broadcast_to_backward(grad_output: &Tensor, input_shape: &[usize]) -> Result<Tensor> {
    let shape = grad_output.shape().integers();
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(&BroadcastTo { shape }, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

/// `x` summed over the axes along which a tensor of `shape` would be repeated to have `x`'s shape: what
/// a backward function does with the gradient for an operand that was broadcast.
///
/// ```
/// use extensor::tensor;
/// let g = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(g.sum_to_shape([2])?.to_vec::<f64>()?, [4.0, 6.0]);
/// assert_eq!(g.sum_to_shape([2, 1])?.to_vec::<f64>()?, [3.0, 7.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn sum_to_shape(x: &Tensor, shape: impl Integers) -> Result<Tensor> {
    let op = "sum_to_shape";
    let shape = sizes(op, "shape", &shape.integers())?;
    match broadcast(op, &shape, x.shape()) {
        Ok(common) if common == *x.shape() => reduce_to_shape(op, x, &shape),
        _ => Err(bad_shape(op, "x", format!("one that {shape} broadcasts to"), x.shape())),
    }
}

/// The shape that tensors of these shapes are broadcast to.
///
/// ```
/// use extensor::ops::broadcast_shapes;
/// assert_eq!(broadcast_shapes(&[&[3, 1][..], &[4][..]])?, [3, 4]);
/// assert!(broadcast_shapes(&[&[3][..], &[4][..]]).is_err());
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn broadcast_shapes(shapes: &[impl AsRef<[usize]>]) -> Result<Shape> {
    shapes.iter().try_fold(Shape::scalar(), |common, shape| {
        broadcast("broadcast_shapes", &common, &Shape::from(shape.as_ref()))
    })
}

#[derive(Clone, Debug)]
pub(crate) struct BroadcastTo {
    shape: SmallVec<[i64; 4]>,
}

impl BroadcastTo {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "broadcast_to",
        family: Family::Shape,
        formula: "y = x repeated along new axes and axes of size 1",
        derivative: "g summed over the repetitions",
        conventions: "a view: repeated elements lie in memory once",
        backward: signature!(broadcast_to_backward(grad_output, shape(x))),
        params: &[required("shape", "sizes")],
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let shape = p.ints("broadcast_to", "shape")?.into();
            Ok(Box::new(BroadcastTo { shape }))
        },
        samples: |s| {
            let cases: [(&[usize], &[i64]); 9] = [
                (&[4], &[3, 4]),
                (&[3, 1, 5], &[3, 4, 5]),
                (&[], &[2, 3]),
                (&[1], &[4]),
                (&[], &[]),
                (&[2, 3], &[2, 3]),
                (&[1], &[0]),
                (&[0, 3], &[2, 0, 3]),
                (&[2, 1], &[2, 0]),
            ];
            for (from, to) in cases {
                let x = s.normal(from);
                s.add([x], Params::new().with("shape", to));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let mut add = |to: &[i64], message| {
                bad.add([x.clone()], Params::new().with("shape", to), message);
            };
            add(&[3], "x has shape [2, 3], expected one that broadcasts to [3]");
            add(&[2, 4], "expected one that broadcasts to [2, 4]");
            add(&[2, -1], "shape is [2, -1], expected sizes of at least 0");
            add(&[i64::MAX, 2, 3], "more elements than memory can address");
        },
        ..Record::BLANK
    };
}

impl Operation for BroadcastTo {
    fn record(&self) -> &'static Record {
        BroadcastTo::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("broadcast_to", inputs[0]);
        let shape = sizes(op, "shape", &self.shape)?;
        if x.layout().broadcast(&shape).is_none() {
            let expected = format!("one that broadcasts to {shape}");
            return Err(bad_shape(op, "x", expected, x.shape()));
        }
        Ok(spec(shape, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let x = inputs[0];
        let layout = x.layout().broadcast(&specs[0].shape);
        // `infer` has seen that there is a layout.
        Ok(smallvec![layout.map_or_else(|| x.clone(), |layout| x.with_layout(layout))])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let shape = call.inputs[0].shape();
        call.one(|| reduce_to_shape("broadcast_to_backward", call.grad(), shape))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let sizes = std::iter::once(call.size as i64).chain(self.shape.iter().copied());
        let view = View { ndim: self.shape.len(), ..View::WHOLE };
        call.call(Box::new(BroadcastTo { shape: sizes.collect() }), view, View::default())
    }
}
