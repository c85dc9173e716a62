//! The largest and the smallest, and where they are; whether any or all are true.

use crate::exec::launch_one;
use crate::exec::reduce::{ExtremeGradient, Fold};
use crate::ops::operation::{Backward, Spec};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, map_real};
use crate::ops::record::{Class, Family, Input, Needs, Parameter, Record, signature};
use crate::ops::reduction::{AXES, CASES, EMPTY, Group, KEEPDIMS, Reduction, Rule};
use crate::ops::reduction::{along, bad_axes, bad_masks, samples, wide};
use crate::ops::samples::{Bad, Sampler};
use crate::{Axes, DType, Error, Over, Result, Tensor, ops, over};
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use extensor_kernels::reduce::{Which, ties_follow};

/// `share` where `x` is the extreme value `y`, 0 elsewhere; NaN for NaN.
#[derive(Clone)]
pub(in crate::ops) struct Chosen;

impl Formula<3> for Chosen {
    #[inline(always)]
    fn f<R: Real>(&self, [share, x, y]: [R; 3]) -> R {
        let other = R::select(y.is_nan(), y, share.lit(0.0));
        R::select(x.eq(y), share, other)
    }
}

/// `g / n`.
#[derive(Clone)]
struct Share;

impl Formula<2> for Share {
    #[inline(always)]
    fn f<R: Real>(&self, [g, n]: [R; 2]) -> R {
        g / n
    }
}

/// The gradient of the extreme value `y`: shared equally among all that are equal to it.
fn among_ties(
    op: &'static str,
    call: &Backward<'_>,
    y: &Tensor,
    axes: &Axes,
    group: &Group,
) -> Result<Tensor> {
    let (g, x) = (group.keep(call.grad())?, call.inputs[0]);
    let (dtype, counted) = (g.dtype(), wide(g.dtype()));
    let ties = ops::cast(&ops::equal(x, y)?, counted)?;
    let ties = ops::sum(&ties, over(axes.clone()).keepdims(true))?;
    let spec = Spec { shape: group.kept.clone(), dtype: counted };
    let share = map_real(op, &Formulas(Share), [&g, &ties], spec)?;
    let spec = Spec { shape: x.shape().clone(), dtype };
    map_real(op, &Formulas(Chosen), [&share, x, y], spec)
}

/// The gradient of [`among_ties`], from two passes over the numbers: none where it is itself differentiated, and
/// where groups are too small or too scattered for that.
fn at_once(
    op: &'static str,
    which: Which,
    call: &Backward<'_>,
    group: &Group,
) -> Result<Option<Tensor>> {
    let (g, x) = (call.grad(), call.inputs[0]);
    let (shape, dtype) = (x.shape(), x.dtype());
    let traced = g.is_traced() || x.is_traced();
    if traced || g.dtype() != dtype || !ties_follow(shape, &group.mask) {
        return Ok(None);
    }
    let (g, x) = (g.contiguous()?, x.contiguous()?);
    let kernel = ExtremeGradient { which, over: group.mask.clone() };
    launch_one(op, &kernel, &[&x, &g], Spec { shape: shape.clone(), dtype }).map(Some)
}

/// Defines the largest or the smallest.
macro_rules! extreme {
    (
        $(#[$doc:meta])*
        $name:ident, $backward:ident, $Op:ident: $fold:ident, $which:ident, $formula:literal, $sign:literal
    ) => {
        $(#[$doc])*
        ///
        /// Conventions: ties share the gradient equally; NaN gives NaN; an empty axis is an error.
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
            Reduction::new(axis, $Op).of(x)
        }

        #[doc = concat!("The gradient of [`", stringify!($name), "`]: `grad_output`, shared equally among all elements equal to the result.")]
        #[track_caller]
        #[extensor_derive::noted]
        pub fn $backward(
            grad_output: &Tensor,
            x: &Tensor,
            axis: impl Into<Over>,
        ) -> Result<Tensor> {
            Reduction::new(axis, $Op).backward_at(grad_output, x, None)
        }

        #[derive(Clone, Debug)]
        pub(crate) struct $Op;

        impl Rule for $Op {
            const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Reduction,
                formula: $formula,
                derivative: "y′ = [x = y] / (number of elements equal to y)",
                conventions: "ties share the gradient equally; NaN gives NaN; an empty axis is an error",
                params: &[AXES, KEEPDIMS],
                backward: signature!($backward(grad_output, x; axis, keepdims)),
                class: Class::Reduction,
                build: |p| Reduction::build(p, $Op),
                samples: |s| {
                    samples(s, &CASES, |s, shape| s.apart(shape));
                    ties(s, $sign);
                },
                kinks: |sample| {
                    let tied = |group: &Vec<f64>| {
                        let most = group.iter().fold(f64::NEG_INFINITY, |m, x| m.max($sign * x));
                        group.iter().filter(|x| $sign * **x == most).count() > 1
                    };
                    sample.reduced().iter().any(tied)
                },
                errors: bad_extremes,
                ..Record::BLANK
            };
            const TAKES: Takes = Takes::Numbers;
            const NONEMPTY: bool = true;

            fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
                group.fold(stringify!($name), Fold::$fold, x, spec)
            }
            fn backward(&self, call: &Backward<'_>, axes: &Axes, group: &Group) -> Result<Tensor> {
                let (op, which) = (stringify!($backward), Which::$which);
                if let Some(gradient) = at_once(op, which, call, group)? {
                    return Ok(gradient);
                }
                let y = $name(call.inputs[0], over(axes.clone()).keepdims(true))?;
                among_ties(op, call, &y, axes, group)
            }
        }
    };
}

fn ties(s: &mut Sampler, sign: f64) {
    let x = crate::tensor([1.0, 3.0, 2.0, 3.0].map(|v| sign * v));
    let axes: Option<&[i64]> = Some(&[0]);
    s.add_noted([x], along(axes, false), "ties share the gradient equally");
    let x = crate::tensor([[1.0; 4]; 3]);
    s.add_noted([x], along(Some(&[1]), true), "all tied");
}

fn bad_extremes(bad: &mut Bad) {
    bad_masks(bad);
    let message = "there is no such element in an empty axis";
    for (shape, axes) in EMPTY {
        let x = bad.ones(shape, DType::F64);
        bad.add([x], along(axes, false), message);
    }
}

extreme! {
    /// `y = max x` over the axes; NaN if there is one, an error over an empty axis.
    ///
    /// ```
    /// use extensor::ops::{max_reduce, max_reduce_backward};
    /// use extensor::tensor;
    /// let x = tensor([1.0, 3.0, 2.0, 3.0]);
    /// assert_eq!(max_reduce(&x, ..)?.item::<f64>()?, 3.0);
    /// let grad = max_reduce_backward(&tensor(1.0), &x, ..)?;
    /// assert_eq!(grad.to_vec::<f64>()?, [0.0, 0.5, 0.0, 0.5]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    max_reduce, max_reduce_backward, Max: Maximum, Largest, "y = max x", 1.0
}

extreme! {
    /// `y = min x` over the axes; NaN if there is one, an error over an empty axis.
    ///
    /// ```
    /// use extensor::ops::min_reduce;
    /// use extensor::tensor;
    /// let x = tensor([[4, 1], [2, 3]]);
    /// assert_eq!(min_reduce(&x, 1)?.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    min_reduce, min_reduce_backward, Min: Minimum, Smallest, "y = min x", -1.0
}

/// The parameter `axis` of [`argmax`] and [`argmin`].
const AXIS: Parameter = Parameter {
    name: "axis",
    what: "an axis, negative if counted from the end; None: all, in row-major order",
    default: Some("None"),
};

/// Defines where the largest or the smallest is.
macro_rules! position {
    ($(#[$doc:meta])* $name:ident, $Op:ident: $which:ident, $formula:literal) => {
        $(#[$doc])*
        ///
        /// Conventions: the first of several; the first NaN if there is one; an empty axis is an error.
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
            Reduction::new(one_axis_or_all(stringify!($name), axis.into())?, $Op).of(x)
        }

        #[derive(Clone, Debug)]
        pub(crate) struct $Op;

        impl Rule for $Op {
            const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Reduction,
                formula: $formula,
                derivative: "none: the result is an index",
                conventions: "the first of several; the first NaN if there is one; an empty axis is an error",
                inputs: &[Input::constant("x")],
                params: &[AXIS, KEEPDIMS],
                class: Class::Constant,
                order: 0,
                needs: Needs::Shapes,
                build: |p| {
                    let axis = p.optional_int(stringify!($name), "axis")?;
                    let keepdims = p.bool(stringify!($name), "keepdims", false)?;
                    let axes = axis.map_or(Axes::All, Axes::from);
                    Ok(Box::new(Reduction { axes, keepdims, rule: $Op }))
                },
                samples: |s| {
                    for (shape, axes) in CASES {
                        let axis = match axes {
                            Some(&[axis]) => Some(axis),
                            Some(_) => continue,
                            None => None,
                        };
                        for keepdims in [false, true] {
                            let x = s.apart(shape);
                            s.add([x], at(axis, keepdims));
                        }
                    }
                    let x = crate::tensor([2.0, 1.0, 2.0, 1.0]);
                    s.add_noted([x], at(Some(0), false), "the first of several");
                    let x = crate::tensor([2.0, f64::NAN, 3.0, f64::NAN]);
                    s.add_noted([x], at(None, false), "the first NaN");
                },
                errors: |bad| {
                    let x = bad.ones(&[2, 3], DType::F64);
                    bad.add([x.clone()], at(Some(2), false), "axis 2 is out of range for 2 dimensions");
                    let list = Params::new().with("axis", [0, 1]);
                    bad.add([x], list, "axis is [0, 1], expected a whole number");
                    let none = bad.ones(&[2, 0], DType::F64);
                    bad.add([none], at(Some(1), false), "there is no such element in an empty axis");
                    let mask = bad.ones(&[2], DType::Bool);
                    bad.add([mask], at(None, false), "x has dtype bool, expected a number type");
                },
                ..Record::BLANK
            };
            const TAKES: Takes = Takes::Numbers;
            const NONEMPTY: bool = true;

            fn dtype(_: DType) -> DType {
                DType::I64
            }
            fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
                group.fold(stringify!($name), Fold::Position(Which::$which), x, spec)
            }
            fn backward(&self, _: &Backward<'_>, _: &Axes, _: &Group) -> Result<Tensor> {
                no_derivative(stringify!($name))
            }
        }
    };
}

fn one_axis_or_all(op: &'static str, over: Over) -> Result<Over> {
    match &over.axes {
        Axes::List(list) if list.len() != 1 => Err(Error::Parameter {
            op,
            parameter: "axis",
            expected: "one axis, or all".into(),
            got: format!("{:?}", &list[..]),
        }),
        _ => Ok(over),
    }
}

fn at(axis: Option<i64>, keepdims: bool) -> Params {
    Params::new().with("axis", axis).with("keepdims", keepdims)
}

fn no_derivative(op: &'static str) -> Result<Tensor> {
    Err(Error::NotDifferentiable {
        op,
        argument: "x".into(),
        reason: "the operation has no derivative",
    })
}

position! {
    /// The index of the largest element along an axis, or among all elements in row-major order: the
    /// first of several, the first NaN if there is one; an error over an empty axis.
    ///
    /// ```
    /// use extensor::ops::argmax;
    /// use extensor::tensor;
    /// let x = tensor([[1.0, 5.0, 5.0], [7.0, 0.0, 2.0]]);
    /// assert_eq!(argmax(&x, 1)?.to_vec::<i64>()?, [1, 0]);
    /// assert_eq!(argmax(&x, None)?.item::<i64>()?, 3);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    argmax, ArgMax: Largest, "y = the first i with x[i] = max x"
}

position! {
    /// The index of the smallest element along an axis, or among all elements in row-major order: the
    /// first of several, the first NaN if there is one; an error over an empty axis.
    ///
    /// ```
    /// use extensor::ops::argmin;
    /// use extensor::tensor;
    /// assert_eq!(argmin(&tensor([3, 1, 2, 1]), 0)?.item::<i64>()?, 1);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    argmin, ArgMin: Smallest, "y = the first i with x[i] = min x"
}

/// A mask of what is not zero: NaN is not.
fn truth(x: &Tensor) -> Result<Tensor> {
    if x.is_bool() {
        return Ok(x.clone());
    }
    ops::not_equal(x, &Tensor::scalar_of(0.0, x.dtype())?)
}

/// Defines a question about masks, or about numbers that are true where they are not zero.
macro_rules! quantifier {
    ($(#[$doc:meta])* $name:ident, $Op:ident, $formula:literal, $conventions:literal) => {
        $(#[$doc])*
        ///
        /// Domain: masks, and numbers, which are true where they are not 0.
        #[doc = crate::ops::source::edges!(conventions: $conventions,)]
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
            Reduction::new(axis, $Op).of(x)
        }

        #[derive(Clone, Debug)]
        pub(crate) struct $Op;

        impl Rule for $Op {
            const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: Family::Reduction,
                formula: $formula,
                derivative: "none: the result is a mask",
                domain: "masks, and numbers, which are true where they are not 0",
                conventions: $conventions,
                inputs: &[Input::constant("x")],
                params: &[AXES, KEEPDIMS],
                class: Class::Constant,
                order: 0,
                needs: Needs::Shapes,
                build: |p| Reduction::build(p, $Op),
                samples: |s| {
                    samples(s, &CASES, |s, shape| s.mask(shape));
                    samples(s, &EMPTY, |s, shape| s.mask(shape));
                },
                errors: |bad| {
                    bad_axes(bad, DType::Bool);
                },
                ..Record::BLANK
            };
            const TAKES: Takes = Takes::Anything;

            fn dtype(_: DType) -> DType {
                DType::Bool
            }

            fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
                group.fold(stringify!($name), Fold::$Op, &truth(x)?, spec)
            }
            fn backward(&self, _: &Backward<'_>, _: &Axes, _: &Group) -> Result<Tensor> {
                no_derivative(stringify!($name))
            }
        }
    };
}

quantifier! {
    /// Whether any element is true, or a number that is not zero; false over an empty axis.
    ///
    /// ```
    /// use extensor::ops::any;
    /// use extensor::tensor;
    /// let x = tensor([[true, false], [false, false]]);
    /// assert_eq!(any(&x, 1)?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    any, Any, "y = whether any x is true", "false over an empty axis"
}

quantifier! {
    /// Whether all elements are true, or numbers that are not zero; true over an empty axis.
    ///
    /// ```
    /// use extensor::ops::all;
    /// use extensor::tensor;
    /// let x = tensor([[true, true], [true, false]]);
    /// assert_eq!(all(&x, 1)?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    all, All, "y = whether all x are true", "true over an empty axis"
}
