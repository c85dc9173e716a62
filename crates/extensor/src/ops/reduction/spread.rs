//! How far numbers lie apart, and how large they are together.

use crate::exec::reduce::Fold;
use crate::ops::operation::{Backward, Operation, Spec};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, guard_above, map_real, settle};
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::ops::reduction::{AXES, CASES, EMPTY, Group, KEEPDIMS, Reduction, Rule};
use crate::ops::reduction::{along, bad_ints, samples, wide};
use crate::ops::samples::{Bad, LARGE, Sampler, all_equal};
use crate::{Axes, DType, Error, Over, Result, Tensor, ops, over};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;

/// The parameter `ddof`.
const DDOF: Parameter = Parameter {
    name: "ddof",
    what: "what is taken from n in the denominator: 0 for all numbers, 1 for a sample",
    default: Some("0"),
};

/// `x − mean`, and the little that is left of the mean: two steps, since the mean of large numbers
/// that lie close together is too coarse by itself. Both in the dtype gradients are computed in.
fn deviations(x: &Tensor, axes: &Axes) -> Result<(Tensor, Tensor)> {
    let x = ops::cast(x, wide(x.dtype()))?;
    let apart = ops::subtract(&x, &ops::mean(&x, over(axes.clone()).keepdims(true))?)?;
    let rest = ops::mean(&apart, over(axes.clone()).keepdims(true))?;
    Ok((apart, rest))
}

/// `n − ddof`, NaN where nothing is left.
fn freedom(group: &Group, ddof: usize) -> f64 {
    match group.count.checked_sub(ddof) {
        None | Some(0) => f64::NAN,
        Some(n) => n as f64,
    }
}

fn build_with_ddof<R: Rule>(
    p: &Params,
    rule: impl FnOnce(usize) -> R,
) -> Result<Box<dyn Operation>> {
    let op = R::RECORD.name;
    let ddof = p.optional_int(op, "ddof")?.unwrap_or(0);
    let ddof = usize::try_from(ddof).map_err(|_| Error::Parameter {
        op,
        parameter: "ddof",
        expected: "a whole number that is not negative".into(),
        got: ddof.to_string(),
    })?;
    Reduction::build(p, rule(ddof))
}

fn spread_samples(s: &mut Sampler) {
    for (shape, axes) in CASES {
        // One number has no spread: a kink of the root, and nothing to divide by with ddof 1.
        let single = matches!((shape, axes), ([] | [1, 1], _) | (_, Some([])));
        for keepdims in [false, true] {
            for ddof in [0, 1] {
                if !single {
                    let x = s.normal(shape);
                    s.add([x], along(axes, keepdims).with("ddof", ddof));
                }
            }
        }
    }
    for (shape, axes) in [(&[LARGE][..], None), (&[3, 5000], Some(&[1i64][..]))] {
        let x = s.normal(shape);
        s.add_large([x], along(axes, false).with("ddof", 1), "many numbers");
    }
    let x = s.normal(&[3, 1]);
    s.add_noted([x], along(Some(&[1]), false), "one number has no spread");
    let x = crate::tensor([[0.1; 5]; 2]);
    s.add_noted([x], along(Some(&[1]), false), "equal numbers");
}

/// Adds samples of few tiny numbers.
fn tiny(s: &mut Sampler) {
    for (shape, axes) in [(&[2][..], None), (&[3], None), (&[3, 2], Some(&[1i64][..]))] {
        let x = s.tiny(shape);
        s.add_noted([x], along(axes, false), "tiny");
    }
}

fn bad_spread(bad: &mut Bad) {
    bad_ints(bad);
    let x = bad.ones(&[2], DType::F64);
    let message = "ddof is -1, expected a whole number that is not negative";
    bad.add([x.clone()], Params::new().with("ddof", -1), message);
    let half = Params::new().with("ddof", 0.5);
    bad.add([x], half, "ddof is 0.5, expected a whole number");
}

/// `y = Σ (x − mean)² / (n − ddof)` over the axes, in two passes; NaN where `n <= ddof`.
///
/// Conventions: NaN where n <= ddof.
///
/// ```
/// use extensor::ops::variance;
/// use extensor::tensor;
/// let x = tensor([1.0, 2.0, 3.0, 4.0]);
/// assert_eq!(variance(&x, .., 0)?.item::<f64>()?, 1.25);
/// assert_eq!(variance(&x, .., 1)?.item::<f64>()?, 5.0 / 3.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn variance(x: &Tensor, axis: impl Into<Over>, ddof: usize) -> Result<Tensor> {
    Reduction::new(axis, Variance { ddof }).of(x)
}

/// The gradient of [`variance`]: `2(x − mean)/(n − ddof)`, times `grad_output`.
#[track_caller]
#[extensor_derive::noted]
pub fn variance_backward(
    grad_output: &Tensor,
    x: &Tensor,
    axis: impl Into<Over>,
    ddof: usize,
) -> Result<Tensor> {
    Reduction::new(axis, Variance { ddof }).backward_at(grad_output, x, None)
}

#[derive(Clone, Debug)]
pub(crate) struct Variance {
    ddof: usize,
}

/// `g · 2d/n` for a deviation `d`.
#[derive(Clone)]
struct VarianceGradient(f64);

impl Formula<3> for VarianceGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, apart, rest]: [R; 3]) -> R {
        g * ((apart - rest) * g.lit(2.0 / self.0))
    }
}

impl Rule for Variance {
    const RECORD: &'static Record = &Record {
        name: "variance",
        family: Family::Reduction,
        formula: "y = Σ (x − mean)² / (n − ddof)",
        derivative: "y′ = 2(x − mean)/(n − ddof)",
        conventions: "NaN where n <= ddof",
        params: &[AXES, DDOF, KEEPDIMS],
        backward: signature!(variance_backward(grad_output, x; axis, ddof, keepdims)),
        class: Class::Reduction,
        build: |p| build_with_ddof(p, |ddof| Variance { ddof }),
        samples: spread_samples,
        errors: bad_spread,
        ..Record::BLANK
    };
    const TAKES: Takes = Takes::Floats;

    fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
        group.fold("variance", Fold::Variance { ddof: self.ddof }, x, spec)
    }
    fn backward(&self, call: &Backward<'_>, axes: &Axes, group: &Group) -> Result<Tensor> {
        let (g, x) = (group.keep(call.grad())?, call.inputs[0]);
        let (apart, rest) = deviations(x, axes)?;
        let spec = Spec { shape: x.shape().clone(), dtype: apart.dtype() };
        let gradient = Formulas(VarianceGradient(freedom(group, self.ddof)));
        map_real("variance_backward", &gradient, [&g, &apart, &rest], spec)
    }
}

/// `y = √variance` over the axes; NaN where `n <= ddof`.
///
/// Domain: numbers that are not all equal.
/// Conventions: NaN where n <= ddof; where y is 0 the derivative uses 1e-10, and stays finite.
///
/// ```
/// use extensor::ops::std;
/// use extensor::tensor;
/// assert_eq!(std(&tensor([1.0, 3.0]), .., 0)?.item::<f64>()?, 1.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn std(x: &Tensor, axis: impl Into<Over>, ddof: usize) -> Result<Tensor> {
    Reduction::new(axis, Std { ddof }).of(x)
}

/// The gradient of [`std()`]: `(x − mean)/((n − ddof)·y)`, times `grad_output`, from input and output.
/// Where `y` is 0 it uses 1e-10, and stays finite.
#[track_caller]
#[extensor_derive::noted]
pub fn std_backward(
    grad_output: &Tensor,
    x: &Tensor,
    output: &Tensor,
    axis: impl Into<Over>,
    ddof: usize,
) -> Result<Tensor> {
    Reduction::new(axis, Std { ddof }).backward_at(grad_output, x, Some(output))
}

#[derive(Clone, Debug)]
pub(crate) struct Std {
    ddof: usize,
}

/// `g · d/(n·y)` for a deviation `d`.
#[derive(Clone)]
struct StdGradient {
    freedom: f64,
    limit: f64,
}

impl Formula<4> for StdGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, apart, rest, y]: [R; 4]) -> R {
        let slope = (apart - rest) / guard_above(y) / g.lit(self.freedom);
        settle(g.times(slope), g, y.eq(y.lit(0.0)), self.limit)
    }
}

impl Rule for Std {
    const RECORD: &'static Record = &Record {
        name: "std",
        family: Family::Reduction,
        formula: "y = √(Σ (x − mean)² / (n − ddof))",
        derivative: "y′ = (x − mean)/((n − ddof)·y)",
        domain: "numbers that are not all equal",
        conventions: "NaN where n <= ddof; where y is 0 the derivative uses 1e-10, and stays finite",
        params: &[AXES, DDOF, KEEPDIMS],
        backward: signature!(std_backward(grad_output, x, output; axis, ddof, keepdims)),
        class: Class::Reduction,
        needs: Needs::InputsAndOutputs,
        build: |p| build_with_ddof(p, |ddof| Std { ddof }),
        samples: |s| {
            spread_samples(s);
            tiny(s);
        },
        kinks: |sample| {
            // One number has no spread wherever it is.
            let groups = sample.reduced();
            groups.iter().any(|group| group.len() > 1 && all_equal(group))
        },
        errors: bad_spread,
        ..Record::BLANK
    };
    const TAKES: Takes = Takes::Floats;

    fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
        group.fold("std", Fold::Deviation { ddof: self.ddof }, x, spec)
    }
    fn backward(&self, call: &Backward<'_>, axes: &Axes, group: &Group) -> Result<Tensor> {
        let (g, x) = (group.keep(call.grad())?, call.inputs[0]);
        let y = group.keep(call.output())?;
        let (apart, rest) = deviations(x, axes)?;
        let spec = Spec { shape: x.shape().clone(), dtype: apart.dtype() };
        let gradient = Formulas(StdGradient {
            freedom: freedom(group, self.ddof),
            limit: g.dtype().max_finite(),
        });
        map_real("std_backward", &gradient, [&g, &apart, &rest, &y], spec)
    }
}

/// `y = √(Σ x²)` over the axes: the Euclidean norm, right wherever its own value can be represented.
///
/// Domain: numbers that are not all 0.
/// Conventions: the derivative at 0 is 0.
///
/// ```
/// use extensor::ops::norm;
/// use extensor::tensor;
/// assert_eq!(norm(&tensor([3.0, -4.0]), ..)?.item::<f64>()?, 5.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn norm(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    Reduction::new(axis, Norm).of(x)
}

/// The gradient of [`norm`]: `x/y`, times `grad_output`, from input and output. At 0 it is 0.
#[track_caller]
#[extensor_derive::noted]
pub fn norm_backward(
    grad_output: &Tensor,
    x: &Tensor,
    output: &Tensor,
    axis: impl Into<Over>,
) -> Result<Tensor> {
    Reduction::new(axis, Norm).backward_at(grad_output, x, Some(output))
}

#[derive(Clone, Debug)]
pub(crate) struct Norm;

/// `g · x/y`.
#[derive(Clone)]
struct NormGradient {
    limit: f64,
}

impl Formula<3> for NormGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x, y]: [R; 3]) -> R {
        settle(g.times(x / guard_above(y)), g, y.eq(y.lit(0.0)), self.limit)
    }
}

impl Rule for Norm {
    const RECORD: &'static Record = &Record {
        name: "norm",
        family: Family::Reduction,
        formula: "y = √(Σ x²)",
        derivative: "y′ = x/y",
        domain: "numbers that are not all 0",
        conventions: "the derivative at 0 is 0",
        params: &[AXES, KEEPDIMS],
        backward: signature!(norm_backward(grad_output, x, output; axis, keepdims)),
        class: Class::Reduction,
        needs: Needs::InputsAndOutputs,
        build: |p| Reduction::build(p, Norm),
        samples: |s| {
            samples(s, &CASES, |s, shape| s.away(-2.0, 2.0, &[0.0], shape));
            let zeros = crate::tensor([[0.0; 3]; 2]);
            s.add_noted([zeros], along(Some(&[1]), false), "at zero");
            tiny(s);
        },
        kinks: |sample| sample.reduced().iter().any(|group| group.iter().all(|&x| x == 0.0)),
        errors: bad_ints,
        ..Record::BLANK
    };
    const TAKES: Takes = Takes::Floats;

    fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
        group.fold("norm", Fold::Norm, x, spec)
    }
    fn backward(&self, call: &Backward<'_>, _: &Axes, group: &Group) -> Result<Tensor> {
        let (g, x) = (group.keep(call.grad())?, call.inputs[0]);
        let y = group.keep(call.output())?;
        let spec = Spec { shape: x.shape().clone(), dtype: g.dtype() };
        let limit = g.dtype().max_finite();
        map_real("norm_backward", &Formulas(NormGradient { limit }), [&g, x, &y], spec)
    }
}

/// `y = ln Σ eˣ` over the axes, computed from the differences to the largest; −∞ over an empty one.
///
/// Conventions: −∞ over an empty axis; infinities of one sign share the gradient equally.
///
/// ```
/// use extensor::ops::logsumexp;
/// use extensor::tensor;
/// let y = logsumexp(&tensor([1000.0, 1000.0]), ..)?.item::<f64>()?;
/// assert_eq!(y, 1000.0 + 2f64.ln());
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn logsumexp(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    Reduction::new(axis, LogSumExp).of(x)
}

/// The gradient of [`logsumexp`]: `eˣ/Σ eˣ`, times `grad_output`.
///
/// It is computed from the input alone: `e^(x − y)` would have the rounding error of `y`, which for
/// large numbers is that of many units, in its exponent.
#[track_caller]
#[extensor_derive::noted]
pub fn logsumexp_backward(
    grad_output: &Tensor,
    x: &Tensor,
    axis: impl Into<Over>,
) -> Result<Tensor> {
    Reduction::new(axis, LogSumExp).backward_at(grad_output, x, None)
}

#[derive(Clone, Debug)]
pub(crate) struct LogSumExp;

/// `e^(x − m)` for the largest `m`, 1 where both are the same infinity.
#[derive(Clone)]
struct BelowLargest;

impl Formula<2> for BelowLargest {
    #[inline(always)]
    fn f<R: Real>(&self, [x, m]: [R; 2]) -> R {
        let same = x.eq(m) & !m.is_finite();
        R::select(same, x.lit(0.0), x - m).exp()
    }
}

/// `g · e/s`.
#[derive(Clone)]
struct Weighted;

impl Formula<3> for Weighted {
    #[inline(always)]
    fn f<R: Real>(&self, [g, e, s]: [R; 3]) -> R {
        g * (e / s)
    }
}

impl Rule for LogSumExp {
    const RECORD: &'static Record = &Record {
        name: "logsumexp",
        family: Family::Reduction,
        formula: "y = ln Σ eˣ",
        derivative: "y′ = eˣ/Σ eˣ",
        conventions: "−∞ over an empty axis; infinities of one sign share the gradient equally",
        params: &[AXES, KEEPDIMS],
        backward: signature!(logsumexp_backward(grad_output, x; axis, keepdims)),
        class: Class::Reduction,
        build: |p| Reduction::build(p, LogSumExp),
        samples: |s| {
            samples(s, &CASES, |s, shape| s.normal(shape));
            let x = crate::tensor([1000.0, 1001.0, -1000.0]);
            s.add_noted([x], along(Some(&[0]), false), "large");
            for (shape, axes) in EMPTY {
                let x = s.normal(shape);
                s.add_noted([x], along(axes, false), "of nothing");
            }
        },
        errors: bad_ints,
        ..Record::BLANK
    };
    const TAKES: Takes = Takes::Floats;

    fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
        group.fold("logsumexp", Fold::LogSumExp, x, spec)
    }
    fn backward(&self, call: &Backward<'_>, axes: &Axes, group: &Group) -> Result<Tensor> {
        let (g, x) = (group.keep(call.grad())?, call.inputs[0]);
        if x.is_empty() {
            return x.zeros_like();
        }
        let x = ops::cast(x, wide(x.dtype()))?;
        let spec = || Spec { shape: x.shape().clone(), dtype: x.dtype() };
        let op = "logsumexp_backward";
        let largest = ops::max_reduce(&x, over(axes.clone()).keepdims(true))?;
        let e = map_real(op, &Formulas(BelowLargest), [&x, &largest], spec())?;
        let total = ops::sum(&e, over(axes.clone()).keepdims(true))?;
        map_real(op, &Formulas(Weighted), [&g, &e, &total], spec())
    }
}
