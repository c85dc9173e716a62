//! Linear units: the identity above 0, and something smaller below.

use super::curve::{Along, Curve, expect_finite};
use crate::ops::record::Parameter;
use crate::ops::unary::*;
use extensor_derive::method;

/// `scale` of [`selu`].
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
/// `alpha` of [`selu`].
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;

/// `above` where `x` is above 0, `below` where it is not, NaN where it is none.
#[inline(always)]
fn rectified<R: Real>(x: R, above: R, below: R) -> R {
    x.nan_or(R::select(x.lit(0.0).lt(x), above, below))
}

/// Adds a sample at the kink.
fn at_zero(s: &mut Sampler) {
    s.add_noted([crate::tensor([-1.0, 0.0, 1.0, -0.0])], Params::new(), "at the kink");
}

unary! {
    /// The rectified linear unit, `y = max(0, x)`; for whole numbers too.
    number relu, relu_backward(x), Relu of Activation:
            y = |x| x.maximum(x.lit(0.0)),
            dy = |g, x| rectified(x, g, g.lit(0.0));
            "y = max(0, x)", "y′ = 1 for x > 0, 0 elsewhere",
            on "all numbers" [-7.0, 7.0] kinks [0.0];
            also at_zero;
            at -0.5: 0.0;
            conventions: "y′(0) = 0; NaN stays NaN",
}

unary! {
    /// The rectified linear unit up to 6, `y = min(max(0, x), 6)`.
    real relu6, relu6_backward(x), Relu6 of Activation:
            y = |x| x.maximum(x.lit(0.0)).minimum(x.lit(6.0)),
            dy = |g, x| {
                let below = R::select(x.lt(x.lit(6.0)), g, g.lit(0.0));
                rectified(x, below, g.lit(0.0))
            };
            "y = min(max(0, x), 6)", "y′ = 1 for 0 < x < 6, 0 elsewhere",
            on "all numbers" [-7.0, 12.0] kinks [0.0, 6.0];
            also |s| s.add_noted([crate::tensor([0.0, 6.0, -0.0, 3.0])], Params::new(), "at the kinks");
            at 6.5: 6.0;
            conventions: "y′(0) = y′(6) = 0; NaN stays NaN",
}

unary! {
    /// The scaled exponential linear unit, `y = λx` above 0 and `λα(eˣ − 1)` below, with
    /// λ = 1.0507009873554805 and α = 1.6732632423543772.
    real selu, selu_backward(x), Selu of Activation:
            y = |x| {
                let below = x.lit(SELU_SCALE * SELU_ALPHA) * x.expm1();
                rectified(x, x.lit(SELU_SCALE) * x, below)
            },
            dy = |g, x| {
                let below = x.lit(SELU_SCALE * SELU_ALPHA) * x.exp();
                g * rectified(x, x.lit(SELU_SCALE), below)
            };
            "y = λx for x > 0, λα(eˣ − 1) elsewhere", "y′ = λ for x > 0, λαeˣ elsewhere",
            on "all numbers" [-7.0, 7.0] kinks [0.0];
            also at_zero;
            at 0.5: 0.5253504936777403;
            conventions: "λ = 1.0507009873554805, α = 1.6732632423543772; y′(0) is that of the left side, λα",
}

/// The parameter `alpha`.
const fn alpha(what: &'static str, default: &'static str) -> Parameter {
    Parameter { name: "alpha", what, default: Some(default) }
}

/// Samples for some values of `alpha`, and at the kink.
fn samples(s: &mut Sampler, alphas: &[f64]) {
    for shape in SHAPES {
        let x = s.away(-4.0, 4.0, &[0.0], shape);
        s.add([x], Params::new().with("alpha", alphas[0]));
    }
    for &alpha in alphas {
        let x = s.away(-4.0, 4.0, &[0.0], &[3, 4]);
        s.add([x], Params::new().with("alpha", alpha));
    }
    let x = s.away(-4.0, 4.0, &[0.0], &[7]);
    s.add_noted([x], Params::new(), "the default");
    let kink = crate::tensor([-1.0, 0.0, 1.0, -0.0]);
    s.add_noted([kink], Params::new().with("alpha", 0.25), "at the kink");
}

fn errors(bad: &mut crate::ops::samples::Bad) {
    let alpha = |alpha: f64| Params::new().with("alpha", alpha);
    let x = bad.ones(&[2], DType::F64);
    bad.add([x.clone()], alpha(f64::NAN), "alpha is NaN, expected a finite number");
    let single = bad.ones(&[2], DType::F32);
    bad.add([single], alpha(1e300), "alpha is 1e300, expected a finite number that f32 can hold");
    bad.add([x], Params::new().with("alpha", "x"), "alpha is \"x\", expected a number");
    let ints = bad.ones(&[2], DType::I32);
    bad.add([ints], alpha(0.1), "x has dtype i32, expected a float type");
}

/// `y = x` above 0 and `alpha·x` below (`alpha` is 0.01 by default in the catalogue).
///
/// Conventions: y′(0) = alpha.
///
/// ```
/// use extensor::ops::leaky_relu;
/// use extensor::tensor;
/// let y = leaky_relu(&tensor([-2.0, 0.0, 3.0]), 0.5)?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, 0.0, 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn leaky_relu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    Along(LeakyRelu { alpha }).of(x)
}

/// The gradient of [`leaky_relu`]: 1 above 0, `alpha` elsewhere (at 0 too), times `grad_output`.
#[track_caller]
#[extensor_derive::noted]
pub fn leaky_relu_backward(grad_output: &Tensor, x: &Tensor, alpha: f64) -> Result<Tensor> {
    Along(LeakyRelu { alpha }).backward_at(grad_output, x)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LeakyRelu {
    alpha: f64,
}

impl LeakyRelu {
    /// `alpha·v`, which is nothing for `alpha = 0` and an infinite `v` too.
    #[inline(always)]
    fn times<R: Real>(&self, v: R) -> R {
        let none = v.nan_or(v.lit(0.0));
        R::select(v.lit(self.alpha).eq(v.lit(0.0)), none, v * v.lit(self.alpha))
    }
}

impl Formula<1> for LeakyRelu {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        rectified(x, x, self.times(x))
    }
}

struct LeakyReluGradient(LeakyRelu);

impl Formula<2> for LeakyReluGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x]: [R; 2]) -> R {
        rectified(x, g, self.0.times(g))
    }
}

impl Curve for LeakyRelu {
    const RECORD: &'static Record = &Record {
        name: "leaky_relu",
        family: Family::Activation,
        formula: "y = x for x > 0, alpha·x elsewhere",
        derivative: "y′ = 1 for x > 0, alpha elsewhere",
        conventions: "y′(0) = alpha",
        params: &[alpha("the slope below 0", "0.01")],
        backward: "leaky_relu_backward(grad_output, x, alpha)",
        build: |p| Along::build(LeakyRelu { alpha: p.float("leaky_relu", "alpha", 0.01)? }),
        samples: |s| samples(s, &[0.2, 0.0, -0.5]),
        kinks: |sample| sample.holds(0, &[0.0]) && sample.number("alpha", 0.01) != 1.0,
        errors,
        ..Record::BLANK
    };
    fn check(&self, dtype: DType) -> Result<()> {
        expect_finite("leaky_relu", "alpha", self.alpha, dtype)
    }
    fn forward(&self, x: &Tensor, spec: Spec) -> Result<Tensor> {
        map_real("leaky_relu", &Formulas(*self), [x], spec)
    }
    fn backward(&self, g: &Tensor, x: &Tensor, spec: Spec) -> Result<Tensor> {
        map_real("leaky_relu_backward", &Formulas(LeakyReluGradient(*self)), [g, x], spec)
    }
}

/// The exponential linear unit: `y = x` above 0 and `alpha·(eˣ − 1)` below (`alpha` is 1 by default
/// in the catalogue).
///
/// Conventions: y′(0) = alpha.
///
/// ```
/// use extensor::ops::elu;
/// use extensor::tensor;
/// let y = elu(&tensor([-1e4, 0.0, 3.0]), 2.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [-2.0, 0.0, 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn elu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    Along(Elu { alpha }).of(x)
}

/// The gradient of [`elu`]: 1 above 0, `alpha·eˣ` elsewhere (at 0 too), times `grad_output`.
#[track_caller]
#[extensor_derive::noted]
pub fn elu_backward(grad_output: &Tensor, x: &Tensor, alpha: f64) -> Result<Tensor> {
    Along(Elu { alpha }).backward_at(grad_output, x)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Elu {
    alpha: f64,
}

impl Formula<1> for Elu {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        rectified(x, x, x.lit(self.alpha) * x.expm1())
    }
}

struct EluGradient(Elu);

impl Formula<2> for EluGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x]: [R; 2]) -> R {
        rectified(x, g, g * (x.lit(self.0.alpha) * x.exp()))
    }
}

impl Curve for Elu {
    const RECORD: &'static Record = &Record {
        name: "elu",
        family: Family::Activation,
        formula: "y = x for x > 0, alpha·(eˣ − 1) elsewhere",
        derivative: "y′ = 1 for x > 0, alpha·eˣ elsewhere",
        conventions: "y′(0) = alpha",
        params: &[alpha("how far below 0 it goes", "1.0")],
        backward: "elu_backward(grad_output, x, alpha)",
        build: |p| Along::build(Elu { alpha: p.float("elu", "alpha", 1.0)? }),
        samples: |s| samples(s, &[1.3, 0.0, -0.5]),
        // For alpha = 1 the slopes agree, and the second derivatives do not.
        kinks: |sample| sample.holds(0, &[0.0]),
        errors,
        ..Record::BLANK
    };
    fn check(&self, dtype: DType) -> Result<()> {
        expect_finite("elu", "alpha", self.alpha, dtype)
    }
    fn forward(&self, x: &Tensor, spec: Spec) -> Result<Tensor> {
        map_real("elu", &Formulas(*self), [x], spec)
    }
    fn backward(&self, g: &Tensor, x: &Tensor, spec: Spec) -> Result<Tensor> {
        map_real("elu_backward", &Formulas(EluGradient(*self)), [g, x], spec)
    }
}
