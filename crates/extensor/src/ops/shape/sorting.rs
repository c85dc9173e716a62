//! Elements in order, and positions in ordered lists.

use crate::exec::sort::Sorting;
use crate::exec::{launch, launch_one};
use crate::ops::batching::{Batch, Batched, View, shifted};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply, apply_one, backward, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::promote;
use crate::ops::record::{Class, Family, Input, Needs, Parameter, Record, signature};
use crate::ops::shape::{bad_shape, optional};
use crate::tensor::axis_index;
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// The positions along `axis` of the elements of `x` in order, as `i64`.
fn positions(op: &'static str, x: &Tensor, axis: i64, descending: bool) -> Result<Tensor> {
    let count = x.shape()[axis_index(op, axis, x.ndim())?];
    found_along(op, x, axis, &Sorting::Order { descending }, count)
}

/// The `count` positions along `axis` that a kernel finds in each line of `x`.
pub(super) fn found_along(
    op: &'static str,
    x: &Tensor,
    axis: i64,
    kernel: &Sorting,
    count: usize,
) -> Result<Tensor> {
    let axis = axis_index(op, axis, x.ndim())?;
    // The axis last, and back again.
    let mut forth: Vec<i64> = (0..x.ndim() as i64).filter(|&i| i != axis as i64).collect();
    forth.push(axis as i64);
    let mut back: Vec<i64> = (0..x.ndim() as i64 - 1).collect();
    back.insert(axis, x.ndim() as i64 - 1);
    let rows = ops::transpose(x, &forth)?.contiguous()?;
    let mut shape = rows.shape().clone();
    shape.set(x.ndim() - 1, count);
    let spec = Spec { shape, dtype: DType::I64 };
    let found = launch_one(op, kernel, &[&rows], spec)?;
    ops::transpose(&found, &back)?.contiguous()
}

const AXIS: Parameter = optional("axis", "an axis, negative if counted from the end", "-1");
const DESCENDING: Parameter = optional("descending", "whether the largest come first", "false");
const CONVENTIONS: &str = "equal elements keep their order, in both directions; −0 equals 0; NaN is \
                           larger than every number, so last in ascending order and first in \
                           descending";

fn along(axis: i64, descending: bool) -> Params {
    Params::new().with("axis", axis).with("descending", descending)
}

/// Shapes and axes.
const CASES: [(&[usize], i64); 8] = [
    (&[5], 0),
    (&[3, 4], 0),
    (&[3, 4], -1),
    (&[2, 3, 4], 1),
    (&[70], -1),
    (&[1, 1], 0),
    (&[0, 3], 0),
    (&[3, 0], 0),
];

fn bad_sorts(bad: &mut crate::ops::samples::Bad) {
    let x = bad.ones(&[2, 3], DType::F64);
    bad.add([x.clone()], along(2, false), "axis 2 is out of range for 2 dimensions");
    let number = Params::new().with("descending", 1);
    bad.add([x], number, "descending is 1, expected true or false");
    let scalar = bad.ones(&[], DType::F64);
    bad.add([scalar], Params::new(), "axis -1 is out of range for 0 dimensions");
}

/// The elements along `axis` in ascending order, or `descending`.
///
/// Equal elements keep their order, in both directions; −0 equals 0. NaN counts as larger than every
/// number: it is last in ascending order and first in descending.
///
/// Domain: at ties the order of equal elements is kept.
/// Conventions: equal elements keep their order, in both directions; −0 equals 0; NaN is larger than
/// every number, so last in ascending order and first in descending.
///
/// ```
/// use extensor::ops::Order;
/// use extensor::tensor;
/// let x = tensor([[3.0, 1.0, 2.0], [0.0, f64::NAN, -1.0]]);
/// let y = x.sort(-1, Order::Ascending)?;
/// assert_eq!(y.to_vec::<f64>()?[..5], [1.0, 2.0, 3.0, -1.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn sort(x: &Tensor, axis: i64, order: Order) -> Result<Tensor> {
    Ok(sort_with_indices(x, axis, order)?.0)
}

/// [`sort`] and, as `i64`, where along the axis each element was.
///
/// ```
/// use extensor::ops::Order;
/// use extensor::tensor;
/// let (y, indices) = tensor([3, 1, 2, 1]).sort_with_indices(0, Order::Descending)?;
/// assert_eq!(y.to_vec::<i32>()?, [3, 2, 1, 1]);
/// assert_eq!(indices.to_vec::<i64>()?, [0, 2, 1, 3]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn sort_with_indices(x: &Tensor, axis: i64, order: Order) -> Result<(Tensor, Tensor)> {
    let descending = order == Order::Descending;
    let mut outputs = apply(&Sort { axis, descending }, &[x])?;
    let indices = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), indices))
}

/// The order that [`sort`] and [`argsort`] put elements in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The smallest first.
    #[default]
    Ascending,
    /// The largest first.
    Descending,
}

/// The gradient of [`sort`]: `grad_output` where the elements came from, as [`sort_with_indices`]
/// reports.
///
/// ```
/// use extensor::ops::sort_backward;
/// use extensor::tensor;
/// let dx = sort_backward(&tensor([10.0, 20.0, 30.0]), &tensor([2i64, 0, 1]), 0)?;
/// assert_eq!(dx.to_vec::<f64>()?, [20.0, 30.0, 10.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[track_caller]
#[extensor_derive::noted]
pub fn sort_backward(grad_output: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor> {
    let op = "sort_backward";
    if indices.shape() != grad_output.shape() {
        return Err(bad_shape(op, "indices", grad_output.shape().to_string(), indices.shape()));
    }
    if indices.dtype() != DType::I64 {
        let (argument, got) = ("indices", indices.dtype());
        return Err(Error::DType { op, argument, expected: "i64", got });
    }
    let x = placeholder(grad_output.shape(), grad_output.dtype())?;
    let sort = Sort { axis, descending: false };
    let grads = backward(&sort, &[grad_output], &[&x], &[&x, indices], &[true])?;
    let (argument, expected, got) = ("grad_output", "a float type", grad_output.dtype());
    let none = Error::DType { op, argument, expected, got };
    grads.into_iter().flatten().next().ok_or(none)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    axis: i64,
    descending: bool,
}

impl Sort {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "sort",
        family: Family::Shape,
        formula: "y = x in ascending order along an axis",
        derivative: "g where the elements came from",
        domain: "at ties the order of equal elements is kept",
        conventions: CONVENTIONS,
        backward: signature!(sort_backward(grad_output, auxiliary(indices); axis)),
        params: &[AXIS, DESCENDING],
        class: Class::General,
        needs: Needs::Auxiliary,
        auxiliary: 1,
        build: |p| {
            let axis = p.optional_int("sort", "axis")?.unwrap_or(-1);
            let descending = p.bool("sort", "descending", false)?;
            Ok(Box::new(Sort { axis, descending }))
        },
        samples: |s| {
            for (shape, axis) in CASES {
                for descending in [false, true] {
                    let x = s.apart(shape);
                    s.add([x], along(axis, descending));
                }
            }
            let x = s.apart(&[17_000]);
            s.add_large([x], along(0, false), "many numbers");
            let ties = crate::tensor([2.0, 1.0, 2.0, 1.0, 1.0]);
            s.add_noted([ties], along(0, true), "ties");
        },
        kinks: |sample| {
            let axis = sample.number("axis", -1.0) as i64;
            sample.inputs[0].ndim() > 0
                && sample.groups(&axis.into()).iter_mut().any(|line| {
                    line.sort_by(f64::total_cmp);
                    line.windows(2).any(|pair| pair[0] == pair[1])
                })
        },
        errors: bad_sorts,
        ..Record::BLANK
    };
}

impl Operation for Sort {
    fn record(&self) -> &'static Record {
        Sort::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        axis_index("sort", self.axis, x.ndim())?;
        let indices = Spec { shape: x.shape().clone(), dtype: DType::I64 };
        Ok(smallvec![Spec { shape: x.shape().clone(), dtype: x.dtype() }, indices])
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let indices = positions("sort", inputs[0], self.axis, self.descending)?;
        Ok(smallvec![ops::gather(inputs[0], &indices, self.axis)?, indices])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, indices) = (call.grad(), call.outputs[1]);
        call.one(|| ops::scatter_add(&g.zeros_like()?, indices, g, self.axis))
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (y, indices) = (call.outputs[0], call.outputs[1]);
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        Ok(smallvec![ops::gather(tangent, indices, self.axis)?])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Sort { axis: shifted(self.axis), ..*self })
    }
}

/// The positions along `axis` of the elements in the given order, as `i64`; equal ones are as in
/// [`sort`].
///
/// Conventions: equal elements keep their order, in both directions; −0 equals 0; NaN is larger than
/// every number, so last in ascending order and first in descending.
///
/// ```
/// use extensor::ops::Order;
/// use extensor::tensor;
/// let positions = tensor([3, 1, 2, 1]).argsort(-1, Order::Ascending)?;
/// assert_eq!(positions.to_vec::<i64>()?, [1, 3, 2, 0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn argsort(x: &Tensor, axis: i64, order: Order) -> Result<Tensor> {
    apply_one(&ArgSort { axis, descending: order == Order::Descending }, &[x])
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgSort {
    axis: i64,
    descending: bool,
}

impl ArgSort {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "argsort",
        family: Family::Shape,
        formula: "y = the positions of x in ascending order along an axis",
        derivative: "none: the result is an index",
        conventions: CONVENTIONS,
        inputs: &[Input::constant("x")],
        params: &[AXIS, DESCENDING],
        class: Class::Constant,
        order: 0,
        needs: Needs::Shapes,
        build: |p| {
            let axis = p.optional_int("argsort", "axis")?.unwrap_or(-1);
            let descending = p.bool("argsort", "descending", false)?;
            Ok(Box::new(ArgSort { axis, descending }))
        },
        samples: |s| {
            for (shape, axis) in CASES {
                let x = s.apart(shape);
                s.add([x], along(axis, shape.len() == 1));
            }
            let x = crate::tensor([2.0, f64::NAN, 2.0, f64::NAN, -0.0, 0.0]);
            s.add_noted([x], along(0, true), "ties and NaN");
        },
        errors: bad_sorts,
        ..Record::BLANK
    };
}

impl Operation for ArgSort {
    fn record(&self) -> &'static Record {
        ArgSort::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        axis_index("argsort", self.axis, inputs[0].ndim())?;
        Ok(spec(inputs[0].shape().clone(), DType::I64))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(smallvec![positions("argsort", inputs[0], self.axis, self.descending)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        Ok(smallvec![None; call.inputs.len()])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(ArgSort { axis: shifted(self.axis), ..*self })
    }
}

/// For each of `values`, the position at which it could be inserted into the vector `x` and keep it
/// sorted, as `i64`: before equal elements, or after them with [`Side::Right`]. `x` must be in
/// ascending order.
///
/// The order is that of [`sort`]. If `x` is not sorted, the positions mean nothing.
///
/// Domain: x in ascending order.
/// Conventions: with right, how many are not above it; the order is that of sort.
///
/// ```
/// use extensor::ops::Side;
/// use extensor::tensor;
/// let x = tensor([1.0, 2.0, 2.0, 3.0]);
/// let values = tensor([2.0, 0.0, 9.0]);
/// assert_eq!(x.searchsorted(&values, Side::Left)?.to_vec::<i64>()?, [1, 0, 4]);
/// assert_eq!(x.searchsorted(&values, Side::Right)?.to_vec::<i64>()?, [3, 0, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn searchsorted(x: &Tensor, values: &Tensor, side: Side) -> Result<Tensor> {
    apply_one(&SearchSorted { right: side == Side::Right }, &[x, values])
}

/// Where [`searchsorted`] inserts a value that is already there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    /// Before its equals.
    #[default]
    Left,
    /// After them.
    Right,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchSorted {
    right: bool,
}

impl SearchSorted {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "searchsorted",
        family: Family::Shape,
        formula: "y = how many of the sorted x are below each value",
        derivative: "none: the result is an index",
        domain: "x in ascending order",
        conventions: "with right, how many are not above it; the order is that of sort",
        inputs: &[Input::constant("x"), Input::constant("values")],
        params: &[optional("right", "whether to insert after equal elements", "false")],
        class: Class::Constant,
        order: 0,
        needs: Needs::Shapes,
        build: |p| Ok(Box::new(SearchSorted { right: p.bool("searchsorted", "right", false)? })),
        samples: |s| {
            let shapes: [&[usize]; 5] = [&[6], &[2, 3], &[], &[0], &[1]];
            for (n, shape) in [5, 9, 1, 4, 0].into_iter().zip(shapes) {
                let mut sorted = s.normal(&[n]).to_f64_vec();
                sorted.sort_by(f64::total_cmp);
                let x = Tensor::from_vec(sorted, Shape::from([n]));
                let x = x.unwrap_or_else(|error| panic!("a sample cannot be made: {error}"));
                let values = s.normal(shape);
                s.add([x, values], Params::new().with("right", n > 4));
            }
        },
        errors: |bad| {
            let (x, matrix) = (bad.ones(&[2], DType::F64), bad.ones(&[2, 2], DType::F64));
            let message = "x has shape [2, 2], expected one axis";
            bad.add([matrix, x.clone()], Params::new(), message);
            let ints = bad.ones(&[2], DType::I64);
            bad.add([x, ints], Params::new(), "dtypes f64 and i64 do not mix");
        },
        ..Record::BLANK
    };
}

impl Operation for SearchSorted {
    fn record(&self) -> &'static Record {
        SearchSorted::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x, values) = ("searchsorted", inputs[0], inputs[1]);
        if x.ndim() != 1 {
            return Err(bad_shape(op, "x", "one axis", x.shape()));
        }
        promote(op, x, values)?;
        Ok(spec(values.shape().clone(), DType::I64))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (op, x, values) = ("searchsorted", inputs[0], inputs[1]);
        let dtype = promote(op, x, values)?;
        let ready = |x: &Tensor| ops::cast(x, dtype)?.contiguous();
        let kernel = Sorting::Search { right: self.right };
        launch(op, &kernel, &[&ready(x)?, &ready(values)?], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        Ok(smallvec![None; call.inputs.len()])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        if call.mapped[0] {
            return Batched::Loop;
        }
        call.call(Box::new(*self), View::default(), View::default())
    }
}
