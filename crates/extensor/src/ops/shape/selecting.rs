//! Elements chosen along an axis by their order: the largest, the k-th.

// A choice is where the chosen elements are: the values are gathered from there, and so is the tangent;
// the gradient is added where they came from.

use crate::exec::sort::Sorting;
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply, backward, placeholder};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::ops::samples::{Bad, Sample};
use crate::ops::shape::sorting::{Order, found_along};
use crate::ops::shape::{bad_parameter, bad_shape, optional, required};
use crate::tensor::axis_index;
use crate::{Axes, DType, Error, Over, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;
use std::fmt::Debug;

/// What is particular to one choice.
pub(super) trait Choice: Clone + Debug + Send + Sync + 'static {
    /// Its record.
    const RECORD: &'static Record;
    /// How many are chosen of `size`, or what is wrong with its parameters.
    fn count(&self, size: usize) -> Result<usize>;
    /// What finds them.
    fn kernel(&self) -> Sorting;
    /// How often one of `size` may be chosen.
    fn most(&self, _size: usize) -> usize {
        1
    }
}

/// A choice along an axis, which stays unless one number is left there and it is `dropped`.
#[derive(Clone, Debug)]
pub(super) struct Chosen<C> {
    axis: i64,
    dropped: bool,
    choice: C,
}

impl<C: Choice> Chosen<C> {
    pub fn new(axis: i64, choice: C) -> Chosen<C> {
        Chosen { axis, dropped: false, choice }
    }

    /// Values and positions.
    #[track_caller]
    pub fn of(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let mut outputs = apply(self, &[x])?;
        let indices = outputs.swap_remove(1);
        Ok((outputs.swap_remove(0), indices))
    }

    /// The gradient for an input of this shape.
    #[track_caller]
    pub fn gradient(&self, g: &Tensor, shape: &[usize], indices: &Tensor) -> Result<Tensor> {
        let op = C::RECORD.backward_name();
        if indices.shape() != g.shape() {
            return Err(bad_shape(op, "indices", g.shape().to_string(), indices.shape()));
        }
        if indices.dtype() != DType::I64 {
            let (argument, got) = ("indices", indices.dtype());
            return Err(Error::DType { op, argument, expected: "i64", got });
        }
        let x = placeholder(&Shape::from(shape), g.dtype())?;
        let grads = backward(self, &[g], &[&x], &[g, indices], &[true])?;
        let (argument, expected, got) = ("grad_output", "a float type", g.dtype());
        let none = Error::DType { op, argument, expected, got };
        grads.into_iter().flatten().next().ok_or(none)
    }

    /// With the axis at which one number is left, if it is gone.
    fn kept(&self, x: &Tensor, ndim: usize) -> Result<Tensor> {
        if !self.dropped {
            return Ok(x.clone());
        }
        ops::expand_dims(x, axis_index(C::RECORD.name, self.axis, ndim)? as i64)
    }

    /// What is at these positions along the axis.
    fn picked(&self, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
        let y = ops::gather(x, &self.kept(indices, x.ndim())?, self.axis)?;
        if self.dropped { ops::squeeze(&y, self.axis) } else { Ok(y) }
    }
}

impl<C: Choice> Operation for Chosen<C> {
    fn record(&self) -> &'static Record {
        C::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        let axis = axis_index(C::RECORD.name, self.axis, x.ndim())?;
        let count = self.choice.count(x.shape()[axis])?;
        let sizes = x.shape().iter().enumerate().filter(|(i, _)| !(self.dropped && *i == axis));
        let shape: Shape = sizes.map(|(i, &size)| if i == axis { count } else { size }).collect();
        let indices = Spec { shape: shape.clone(), dtype: DType::I64 };
        Ok(smallvec![Spec { shape, dtype: x.dtype() }, indices])
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let (op, x) = (C::RECORD.name, inputs[0]);
        let count = self.choice.count(x.shape()[axis_index(op, self.axis, x.ndim())?])?;
        let found = found_along(op, x, self.axis, &self.choice.kernel(), count)?;
        let indices = if self.dropped { ops::squeeze(&found, self.axis)? } else { found };
        Ok(smallvec![self.picked(x, &indices)?, indices])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, shape) = (call.grad(), call.inputs[0].shape());
        call.one(|| {
            let [g, indices] = [g, call.outputs[1]].map(|x| self.kept(x, shape.len()));
            let g = g?;
            ops::scatter_add(&Tensor::zeros(shape.clone(), g.dtype())?, &indices?, &g, self.axis)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let Some(tangent) = call.tangents[0] else {
            return Ok(smallvec![call.outputs[0].zeros_like()?]);
        };
        Ok(smallvec![self.picked(tangent, call.outputs[1])?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let axis = axis_index(C::RECORD.name, self.axis, inputs[0].ndim());
        axis.map_or(1, |axis| self.choice.most(inputs[0].shape()[axis]))
    }
}

const AXIS: Parameter = optional("axis", "an axis, negative if counted from the end", "-1");

/// Shapes and axes; those without elements last.
pub(super) const CASES: [(&[usize], i64); 8] = [
    (&[5], 0),
    (&[3, 4], 0),
    (&[3, 4], -1),
    (&[2, 3, 4], 1),
    (&[70], -1),
    (&[1, 1], 0),
    (&[3, 0], 0),
    (&[0, 3], 1),
];

pub(super) fn along(axis: i64) -> Params {
    Params::new().with("axis", axis)
}

/// The lines along the axis, in ascending order.
fn ordered(sample: &Sample) -> Vec<Vec<f64>> {
    if sample.inputs[0].ndim() == 0 {
        return Vec::new();
    }
    let mut lines = sample.groups(&(sample.number("axis", -1.0) as i64).into());
    lines.iter_mut().for_each(|line| line.sort_by(f64::total_cmp));
    lines
}

/// Whether one of the first `k` in order equals the next.
fn tied_within(sample: &Sample) -> bool {
    let k = sample.number("k", 0.0) as usize;
    let largest = sample.params.bool("topk", "largest", true).unwrap_or(true);
    ordered(sample).iter_mut().any(|line| {
        if largest {
            line.reverse();
        }
        line.windows(2).take(k).any(|pair| pair[0] == pair[1])
    })
}

/// Whether the `k`-th has an equal.
fn tied_at(sample: &Sample) -> bool {
    let k = sample.number("k", 1.0) as usize;
    ordered(sample).iter().any(|line| {
        let kth = line.get(k.saturating_sub(1));
        kth.is_some_and(|kth| line.iter().filter(|x| *x == kth).count() > 1)
    })
}

pub(super) fn bad_axes(bad: &mut Bad, more: &Params) {
    let with = |axis: i64| more.clone().with("axis", axis);
    let x = bad.ones(&[2, 3], DType::F64);
    bad.add([x], with(2), "axis 2 is out of range for 2 dimensions");
    let scalar = bad.ones(&[], DType::F64);
    bad.add([scalar], with(-1), "axis -1 is out of range for 0 dimensions");
}

/// The `k` largest elements along `axis` in descending order, or with [`Order::Ascending`] the smallest
/// in ascending order, and as `i64` where they are.
///
/// Only as much is sorted as is asked for. In Python, `topk` gives the values, and `topk.with_auxiliary`
/// the positions too.
///
/// Domain: at ties the first of equal elements come first.
/// Conventions: equal elements keep their order; −0 equals 0; NaN is larger than every number.
///
/// ```
/// use extensor::ops::Order;
/// use extensor::tensor;
/// let x = tensor([3.0, 1.0, 4.0, 1.0, 5.0]);
/// let (values, indices) = x.topk(2, -1, Order::Descending)?;
/// assert_eq!(values.to_vec::<f64>()?, [5.0, 4.0]);
/// assert_eq!(indices.to_vec::<i64>()?, [4, 2]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn topk(x: &Tensor, k: i64, axis: i64, order: Order) -> Result<(Tensor, Tensor)> {
    let largest = order == Order::Descending;
    Chosen::new(axis, TopK { k, largest }).of(x)
}

/// The gradient of [`topk`]: `grad_output` where the elements came from.
///
/// ```
/// use extensor::ops::topk_backward;
/// use extensor::tensor;
/// let dx = topk_backward(&tensor([10.0, 20.0]), &[4], &tensor([3i64, 0]), 0)?;
/// assert_eq!(dx.to_vec::<f64>()?, [20.0, 0.0, 0.0, 10.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[track_caller]
#[extensor_derive::noted]
pub fn topk_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    indices: &Tensor,
    axis: i64,
) -> Result<Tensor> {
    let at = axis_index("topk_backward", axis, grad_output.ndim())?;
    let k = grad_output.shape()[at] as i64;
    Chosen::new(axis, TopK { k, largest: true }).gradient(grad_output, input_shape, indices)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TopK {
    k: i64,
    largest: bool,
}

impl TopK {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "topk",
        family: Family::Shape,
        formula: "y = the k largest of x in descending order along an axis",
        derivative: "g where the elements came from",
        domain: "at ties the first of equal elements come first",
        conventions: "equal elements keep their order; −0 equals 0; NaN is larger than every number",
        backward: signature!(topk_backward(grad_output, shape(x), auxiliary(indices); axis)),
        params: &[
            required("k", "how many"),
            AXIS,
            optional(
                "largest",
                "whether the largest, or else the smallest, in ascending order",
                "true",
            ),
        ],
        class: Class::General,
        needs: Needs::Auxiliary,
        auxiliary: 1,
        build: |p| {
            let (op, k) = ("topk", p.int("topk", "k")?);
            let axis = p.optional_int(op, "axis")?.unwrap_or(-1);
            let largest = p.bool(op, "largest", true)?;
            Ok(Box::new(Chosen::new(axis, TopK { k, largest })))
        },
        samples: |s| {
            for (shape, axis) in CASES {
                let size = shape[if axis < 0 { shape.len() - 1 } else { axis as usize }];
                for largest in [true, false] {
                    for k in [1.min(size), size.div_ceil(2), size] {
                        let x = s.apart(shape);
                        s.add([x], along(axis).with("k", k as i64).with("largest", largest));
                    }
                }
            }
            let x = s.apart(&[4]);
            s.add_noted([x], along(0).with("k", 0), "none of them");
            let x = s.apart(&[17_000]);
            s.add_large([x], along(0).with("k", 40), "many numbers");
            let ties = crate::tensor([2.0, 1.0, 2.0, 1.0, 1.0]);
            s.add_noted([ties], along(0).with("k", 3).with("largest", false), "ties");
        },
        kinks: tied_within,
        errors: |bad| {
            bad_axes(bad, &Params::new().with("k", 1));
            let x = bad.ones(&[2, 3], DType::F64);
            let message = "topk: k is 4, expected from 0 to 3";
            bad.add([x.clone()], along(1).with("k", 4), message);
            bad.add([x.clone()], along(1).with("k", -1), "k is -1, expected from 0 to 3");
            bad.add([x.clone()], along(1), "k is None, expected a whole number");
            let number = Params::new().with("k", 1).with("largest", 1);
            bad.add([x], number, "largest is 1, expected true or false");
        },
        ..Record::BLANK
    };
}

impl Choice for TopK {
    const RECORD: &'static Record = TopK::RECORD;
    fn count(&self, size: usize) -> Result<usize> {
        let k = usize::try_from(self.k).ok().filter(|&k| k <= size);
        k.ok_or_else(|| bad_parameter("topk", "k", format!("from 0 to {size}"), self.k))
    }
    fn kernel(&self) -> Sorting {
        Sorting::First { descending: self.largest }
    }
}

/// The `k`-th smallest element along an axis, counted from 1, and as `i64` where it is.
///
/// It is selected, not sorted for. In Python, `kthvalue` gives the values, and `kthvalue.with_auxiliary`
/// the positions too.
///
/// Domain: 1 <= k <= size of the axis; at ties the k-th in order.
/// Conventions: equal elements keep their order; a line with NaN gives its first NaN.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]]);
/// let (values, indices) = x.kthvalue(2, 1)?;
/// assert_eq!(values.to_vec::<f64>()?, [2.0, 5.0]);
/// assert_eq!(indices.to_vec::<i64>()?, [2, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn kthvalue(x: &Tensor, k: i64, axis: impl Into<Over>) -> Result<(Tensor, Tensor)> {
    kth("kthvalue", k, axis.into())?.of(x)
}

/// The gradient of [`kthvalue`]: `grad_output` where the elements came from.
///
/// ```
/// use extensor::ops::kthvalue_backward;
/// use extensor::tensor;
/// let dx = kthvalue_backward(&tensor(10.0), &[3], &tensor(2i64), 0)?;
/// assert_eq!(dx.to_vec::<f64>()?, [0.0, 0.0, 10.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[track_caller]
#[extensor_derive::noted]
pub fn kthvalue_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    indices: &Tensor,
    axis: impl Into<Over>,
) -> Result<Tensor> {
    // Which one it is has been seen in the forward pass.
    kth("kthvalue_backward", 1, axis.into())?.gradient(grad_output, input_shape, indices)
}

/// The choice of the `k`-th along one axis.
fn kth(op: &'static str, k: i64, over: Over) -> Result<Chosen<KthValue>> {
    let (dropped, choice) = (!over.keepdims, KthValue { k });
    match &over.axes {
        Axes::List(list) if list.len() == 1 => Ok(Chosen { axis: list[0], dropped, choice }),
        axes => Err(bad_parameter(op, "axis", "one axis", axes)),
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KthValue {
    k: i64,
}

impl KthValue {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "kthvalue",
        family: Family::Shape,
        formula: "y = the k-th smallest of x along an axis",
        derivative: "g where the elements came from",
        domain: "1 <= k <= size of the axis; at ties the k-th in order",
        conventions: "equal elements keep their order; a line with NaN gives its first NaN",
        backward: signature!(kthvalue_backward(
            grad_output, shape(x), auxiliary(indices); axis, keepdims
        )),
        params: &[
            required("k", "which, counted from 1"),
            AXIS,
            optional("keepdims", "whether the axis stays, with size 1", "false"),
        ],
        class: Class::General,
        needs: Needs::Auxiliary,
        auxiliary: 1,
        build: |p| {
            let (op, k) = ("kthvalue", p.int("kthvalue", "k")?);
            let axis = p.optional_int(op, "axis")?.unwrap_or(-1);
            let dropped = !p.bool(op, "keepdims", false)?;
            Ok(Box::new(Chosen { axis, dropped, choice: KthValue { k } }))
        },
        samples: |s| {
            for (shape, axis) in CASES {
                let size = shape[if axis < 0 { shape.len() - 1 } else { axis as usize }];
                for keepdims in [false, true] {
                    for k in [1, size.div_ceil(4), size] {
                        // So far apart that few are the same when they are rounded: of three equal
                        // numbers the middle one moves with none of them alone.
                        let x = s.apart(shape).to_f64_vec();
                        let x = x.into_iter().map(|v| 20.0 * v).collect();
                        let x = Tensor::from_vec(x, shape)
                            .unwrap_or_else(|error| panic!("a sample cannot be made: {error}"));
                        s.add([x], along(axis).with("k", k as i64).with("keepdims", keepdims));
                    }
                }
            }
            let x = s.apart(&[17_000]);
            s.add_large([x], along(0).with("k", 400), "many numbers");
            let ties = crate::tensor([2.0, 1.0, 2.0, 1.0, 1.0]);
            s.add_noted([ties], along(0).with("k", 4), "ties");
        },
        kinks: tied_at,
        errors: |bad| {
            bad_axes(bad, &Params::new().with("k", 1));
            let x = bad.ones(&[2, 3], DType::F64);
            let message = "kthvalue: k is 4, expected from 1 to 3";
            bad.add([x.clone()], along(1).with("k", 4), message);
            bad.add([x.clone()], along(1).with("k", 0), "k is 0, expected from 1 to 3");
            bad.add([x], along(1), "k is None, expected a whole number");
            let none = bad.ones(&[2, 0], DType::F64);
            let message = "there is no such element in an empty axis";
            bad.add([none], along(1).with("k", 1), message);
        },
        ..Record::BLANK
    };
}

impl Choice for KthValue {
    const RECORD: &'static Record = KthValue::RECORD;
    fn count(&self, size: usize) -> Result<usize> {
        if size == 0 {
            return Err(Error::Empty { op: "kthvalue", shape: Shape::from([0]) });
        }
        let k = usize::try_from(self.k).ok().filter(|k| (1..=size).contains(k));
        let bad = || bad_parameter("kthvalue", "k", format!("from 1 to {size}"), self.k);
        k.map(|_| 1).ok_or_else(bad)
    }
    fn kernel(&self) -> Sorting {
        Sorting::Kth { rank: self.k.max(1) as usize - 1 }
    }
}
