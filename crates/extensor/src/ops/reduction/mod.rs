//! Many numbers to one.

// A reduction is a `Rule`; `Reduction` adds the axes and makes it an operation. Its gradient is
// the output's, broadcast to the numbers that went into it, times a weight for each.

pub(super) mod counting;
pub(super) mod covariance;
pub(super) mod extremes;
pub(in crate::ops) mod lengths;
pub(super) mod log_running;
pub(super) mod product;
pub(super) mod quantile;
pub(super) mod running;
pub(super) mod scan;
pub(super) mod similarity;
pub(super) mod spread;
pub(super) mod trapezoid;
pub(super) mod without_nan;

pub use counting::*;
pub use covariance::*;
pub use extremes::*;
pub use log_running::*;
pub use product::*;
pub use quantile::*;
pub use running::*;
pub use scan::*;
pub use similarity::*;
pub use spread::*;
pub use trapezoid::*;
pub use without_nan::*;

use crate::exec::launch_one;
use crate::exec::reduce::{Fold, Reduce, Reduced};
use crate::ops::batching::{Batch, Batched, shifted_axes};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, map_real};
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::ops::samples::{Bad, LARGE, Sampler};
use crate::{Axes, DType, Error, Over, Result, Shape, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::{SmallVec, smallvec};
use std::fmt::Debug;

/// A tensor seen by a reduction: which axes go, what stays, and how many numbers each result has.
pub(super) struct Group {
    /// Which axes are reduced.
    pub mask: Reduced,
    /// The shape of the result with the reduced axes kept at size 1.
    pub kept: Shape,
    /// How many numbers become one.
    pub count: usize,
}

impl Group {
    // Compiled where it is called: handing over the result would cost more than making it.
    #[inline(always)]
    pub fn new(op: &'static str, shape: &Shape, axes: &Axes) -> Result<Group> {
        if *axes == Axes::All && shape.len() <= 4 {
            let mask = SmallVec::from_buf_and_len([true; 6], shape.len());
            let count = shape.iter().fold(1usize, |count, &size| count.saturating_mul(size));
            return Ok(Group { mask, kept: Shape::from(&[1; 4][..shape.len()]), count });
        }
        Group::over(op, shape, axes)
    }

    #[inline(never)]
    fn over(op: &'static str, shape: &Shape, axes: &Axes) -> Result<Group> {
        let mask = axes.mask(op, shape.len())?;
        let mut kept = shape.clone();
        let mut count = 1usize;
        for (axis, _) in mask.iter().enumerate().filter(|(_, reduced)| **reduced) {
            kept.set(axis, 1);
            count = count.saturating_mul(shape[axis]);
        }
        Ok(Group { mask, kept, count })
    }

    /// The shape of the result.
    pub fn shape(&self, keepdims: bool) -> Shape {
        if keepdims {
            return self.kept.clone();
        }
        if self.mask.iter().all(|reduced| *reduced) {
            return Shape::scalar();
        }
        let sizes = self.kept.iter().zip(&self.mask);
        sizes.filter(|(_, reduced)| !**reduced).map(|(&size, _)| size).collect()
    }

    /// What becomes of the numbers of each group.
    pub fn fold(&self, op: &'static str, fold: Fold, x: &Tensor, spec: Spec) -> Result<Tensor> {
        launch_one(op, &Reduce { fold, over: &self.mask[..] }, &[x], spec)
    }

    /// A result in the shape that broadcasts against the input.
    pub fn keep(&self, result: &Tensor) -> Result<Tensor> {
        if *result.shape() == self.kept {
            return Ok(result.clone());
        }
        ops::reshape(result, &self.kept)
    }
}

/// What is particular to one reduction.
pub(super) trait Rule: Clone + Debug + Send + Sync + 'static {
    /// Its record.
    const RECORD: &'static Record;
    /// What it takes.
    const TAKES: Takes;
    /// Whether something must be there to be reduced.
    const NONEMPTY: bool = false;
    /// The dtype of the result.
    fn dtype(x: DType) -> DType {
        x
    }
    /// The result.
    fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor>;
    /// The gradient for the input.
    fn backward(&self, call: &Backward<'_>, axes: &Axes, group: &Group) -> Result<Tensor>;
}

/// A [`Rule`] over some axes.
#[derive(Clone, Debug)]
pub(super) struct Reduction<R> {
    pub axes: Axes,
    pub keepdims: bool,
    pub rule: R,
}

impl<R: Rule> Reduction<R> {
    pub fn new(axis: impl Into<Over>, rule: R) -> Self {
        let Over { axes, keepdims } = axis.into();
        Reduction { axes, keepdims, rule }
    }

    /// With the axes that the parameters name.
    pub fn build(params: &Params, rule: R) -> Result<Box<dyn Operation>> {
        let op = R::RECORD.name;
        let axes = params.axes(op, "axis")?;
        let keepdims = params.bool(op, "keepdims", false)?;
        Ok(Box::new(Reduction { axes, keepdims, rule }))
    }

    /// Calls the operation.
    #[track_caller]
    pub fn of(&self, x: &Tensor) -> Result<Tensor> {
        apply_one(self, &[x])
    }

    /// Calls the backward rule with a tensor whose values it does not read, but for those given.
    #[track_caller]
    pub fn backward_at(
        &self,
        grad_output: &Tensor,
        x: &Tensor,
        output: Option<&Tensor>,
    ) -> Result<Tensor> {
        let [grad] = match output {
            Some(output) => {
                self.expect_output(x, output)?;
                backward_of(self, grad_output, &[x], output)?
            }
            None => {
                let output = placeholder(grad_output.shape(), grad_output.dtype())?;
                backward_of(self, grad_output, &[x], &output)?
            }
        };
        Ok(grad)
    }

    /// An output given by hand must be one that the operation could have returned.
    fn expect_output(&self, x: &Tensor, output: &Tensor) -> Result<()> {
        let spec = self.infer(&[x])?.swap_remove(0);
        let op = R::RECORD.name;
        if *output.shape() != spec.shape {
            return Err(Error::Shape {
                op,
                argument: "output",
                expected: spec.shape.to_string(),
                got: output.shape().clone(),
            });
        }
        if output.dtype() != spec.dtype {
            return Err(Error::DType {
                op,
                argument: "output",
                expected: spec.dtype.name(),
                got: output.dtype(),
            });
        }
        Ok(())
    }
}

impl<R: Rule> Operation for Reduction<R> {
    fn record(&self) -> &'static Record {
        R::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = (R::RECORD.name, inputs[0]);
        R::TAKES.expect(op, "x", x.dtype())?;
        let (shape, nothing) = if self.axes == Axes::All && !self.keepdims {
            (Shape::scalar(), x.is_empty())
        } else {
            let group = Group::new(op, x.shape(), &self.axes)?;
            (group.shape(self.keepdims), group.count == 0 && !group.kept.contains(&0))
        };
        if R::NONEMPTY && nothing {
            return Err(Error::Empty { op, shape: x.shape().clone() });
        }
        Ok(spec(shape, R::dtype(x.dtype())))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let group = Group::new(R::RECORD.name, inputs[0].shape(), &self.axes)?;
        let spec = specs.swap_remove(0);
        Ok(smallvec![self.rule.forward(inputs[0], &group, spec)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let group = Group::new(R::RECORD.name, call.inputs[0].shape(), &self.axes)?;
        call.one(|| self.rule.backward(call, &self.axes, &group))
    }
    fn reduces(&self) -> Option<(&Axes, bool)> {
        Some((&self.axes, self.keepdims))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let axes = shifted_axes(&self.axes, call.inputs[0].ndim());
        call.whole(Reduction { axes, ..self.clone() })
    }
}

/// What gradients of this dtype are computed in where sums over many numbers are needed on the way.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// The parameter `axis`.
pub(super) const AXES: Parameter = Parameter {
    name: "axis",
    what: "an axis or a list of axes, negative ones counted from the end; None for all",
    default: Some("None"),
};
/// The parameter `keepdims`.
pub(super) const KEEPDIMS: Parameter = Parameter {
    name: "keepdims",
    what: "whether reduced axes stay, with size 1",
    default: Some("false"),
};

/// Shapes and axes that reductions are tested with; those that leave no element to reduce apart.
pub(super) const CASES: [(&[usize], Option<&[i64]>); 13] = [
    (&[5], None),
    (&[3, 4], None),
    (&[3, 4], Some(&[0])),
    (&[3, 4], Some(&[1])),
    (&[3, 4], Some(&[])),
    (&[2, 3, 4], Some(&[1])),
    (&[2, 3, 4], Some(&[0, 2])),
    (&[2, 3, 4], Some(&[-1])),
    (&[40, 3], Some(&[0])),
    (&[3, 40], Some(&[1])),
    (&[], None),
    (&[1, 1], Some(&[0])),
    (&[0, 3], Some(&[1])),
];

/// Reductions of nothing at all.
pub(super) const EMPTY: [(&[usize], Option<&[i64]>); 3] =
    [(&[0, 3], Some(&[0])), (&[2, 0, 3], Some(&[-2, 0])), (&[0], None)];

/// Both parameters.
pub(super) fn along(axes: Option<&[i64]>, keepdims: bool) -> Params {
    Params::new().with("axis", axes).with("keepdims", keepdims)
}

/// A sample for each case, with and without `keepdims`.
pub(super) fn samples(
    s: &mut Sampler,
    cases: &[(&[usize], Option<&[i64]>)],
    draw: fn(&mut Sampler, &[usize]) -> Tensor,
) {
    for &(shape, axes) in cases {
        for keepdims in [false, true] {
            let x = draw(s, shape);
            s.add([x], along(axes, keepdims));
        }
    }
    if cases.len() == CASES.len() {
        let large: [(&[usize], Option<&[i64]>); 3] =
            [(&[LARGE], None), (&[3, 5000], Some(&[1])), (&[5000, 3], Some(&[0]))];
        for (shape, axes) in large {
            let x = draw(s, shape);
            s.add_large([x], along(axes, false), "many numbers");
        }
    }
}

/// Axes that are not there or named twice.
pub(super) fn bad_axes(bad: &mut Bad, dtype: DType) {
    let x = bad.ones(&[2, 3], dtype);
    let list = |axes: &[i64]| Params::new().with("axis", axes);
    let out = "axis 2 is out of range for 2 dimensions";
    bad.add([x.clone()], list(&[2]), out);
    let out = "axis -3 is out of range for 2 dimensions";
    bad.add([x.clone()], list(&[0, -3]), out);
    bad.add([x.clone()], list(&[1, -1]), "axis -1 is named twice");
    let scalar = bad.ones(&[], dtype);
    let out = "axis 0 is out of range for 0 dimensions";
    bad.add([scalar], list(&[0]), out);
    let number = Params::new().with("keepdims", 1);
    bad.add([x.clone()], number, "keepdims is 1, expected true or false");
    let dim = Params::new().with("dim", 1);
    bad.add([x], dim, "has no parameter \"dim\"");
}

/// A dtype that only floats are expected in.
pub(super) fn bad_ints(bad: &mut Bad) {
    bad_axes(bad, DType::F64);
    let ints = bad.ones(&[2], DType::I32);
    bad.add([ints], Params::new(), "x has dtype i32, expected a float type");
}

/// A dtype that only numbers are expected in.
pub(super) fn bad_masks(bad: &mut Bad) {
    bad_axes(bad, DType::F64);
    let mask = bad.ones(&[2], DType::Bool);
    bad.add([mask], Params::new(), "x has dtype bool, expected a number type");
}

/// `y = Σ x` over the axes; 0 over an empty one.
///
/// The error does not grow with the number of terms: `f16`, `bf16` and `f32` are summed in `f64` and
/// rounded once, `f64` in a tree. Whole numbers wrap around. The result has the same bits for any
/// number of threads and any layout of the same values, as with every reduction.
///
/// Conventions: 0 over an empty axis; whole numbers wrap around.
///
/// ```
/// use extensor::{over, tensor};
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(x.sum(..)?.item::<f64>()?, 10.0);
/// assert_eq!(x.sum(0)?.to_vec::<f64>()?, [4.0, 6.0]);
/// assert_eq!(x.sum(over(-1).keepdims(true))?.shape(), [2, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn sum(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    Reduction::new(axis, Sum).of(x)
}

/// The gradient of [`sum`]: `grad_output` for every term. A broadcast view: no memory is written.
#[track_caller]
#[extensor_derive::noted]
pub fn sum_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    axis: impl Into<Over>,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    Reduction::new(axis, Sum).backward_at(grad_output, &x, None)
}

#[derive(Clone, Debug)]
pub(super) struct Sum;

impl Rule for Sum {
    const RECORD: &'static Record = &Record {
        name: "sum",
        family: Family::Reduction,
        formula: "y = Σ x",
        derivative: "y′ = 1 for every term",
        conventions: "0 over an empty axis; whole numbers wrap around",
        params: &[AXES, KEEPDIMS],
        backward: signature!(sum_backward(grad_output, shape(x); axis, keepdims)),
        class: Class::Reduction,
        needs: Needs::Shapes,
        build: |p| Reduction::build(p, Sum),
        samples: |s| {
            samples(s, &CASES, |s, shape| s.normal(shape));
            samples(s, &EMPTY, |s, shape| s.normal(shape));
        },
        errors: bad_masks,
        ..Record::BLANK
    };
    const TAKES: Takes = Takes::Numbers;

    fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
        group.fold("sum", Fold::Sum, x, spec)
    }
    fn backward(&self, call: &Backward<'_>, _: &Axes, group: &Group) -> Result<Tensor> {
        ops::broadcast_to(&group.keep(call.grad())?, call.inputs[0].shape())
    }
}

/// `y = Σ x / n` over the axes, summed as [`sum`] does and rounded once; NaN over an empty one.
///
/// Conventions: NaN over an empty axis.
///
/// ```
/// use extensor::ops::mean;
/// use extensor::tensor;
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(mean(&x, 1)?.to_vec::<f64>()?, [1.5, 3.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn mean(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    Reduction::new(axis, Mean).of(x)
}

/// The gradient of [`mean`]: `grad_output / n` for every term. A broadcast view.
#[track_caller]
#[extensor_derive::noted]
pub fn mean_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    axis: impl Into<Over>,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    Reduction::new(axis, Mean).backward_at(grad_output, &x, None)
}

#[derive(Clone, Debug)]
pub(super) struct Mean;

/// `g / n`.
#[derive(Clone)]
struct Share(f64);

impl Formula<1> for Share {
    #[inline(always)]
    fn f<R: Real>(&self, [g]: [R; 1]) -> R {
        g / g.lit(self.0)
    }
}

impl Rule for Mean {
    const RECORD: &'static Record = &Record {
        name: "mean",
        family: Family::Reduction,
        formula: "y = Σ x / n",
        derivative: "y′ = 1/n for every term",
        conventions: "NaN over an empty axis",
        params: &[AXES, KEEPDIMS],
        backward: signature!(mean_backward(grad_output, shape(x); axis, keepdims)),
        class: Class::Reduction,
        needs: Needs::Shapes,
        build: |p| Reduction::build(p, Mean),
        samples: |s| samples(s, &CASES, |s, shape| s.normal(shape)),
        errors: bad_ints,
        ..Record::BLANK
    };
    const TAKES: Takes = Takes::Floats;

    fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
        group.fold("mean", Fold::Mean, x, spec)
    }
    fn backward(&self, call: &Backward<'_>, _: &Axes, group: &Group) -> Result<Tensor> {
        let g = call.grad();
        let spec = Spec { shape: g.shape().clone(), dtype: g.dtype() };
        let share = Formulas(Share(group.count as f64));
        let share = map_real("mean_backward", &share, [g], spec)?;
        ops::broadcast_to(&group.keep(&share)?, call.inputs[0].shape())
    }
}
