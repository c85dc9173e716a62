//! Sigmoids made of straight lines.

use super::curve::{Along, Curve};
use crate::Error;
use crate::ops::record::Parameter;
use crate::ops::unary::*;
use extensor_derive::method;

/// `within` for numbers strictly between the bounds, `outside` for others, NaN for none.
#[inline(always)]
fn between<R: Real>(x: R, low: f64, high: f64, within: R, outside: R) -> R {
    let inside = x.lit(low).lt(x) & x.lt(x.lit(high));
    x.nan_or(R::select(inside, within, outside))
}

/// Adds a sample at the kinks at ±3.
fn at_three(s: &mut Sampler) {
    s.add_noted([crate::tensor([-3.0, 3.0, 0.0])], Params::new(), "at the kinks");
}

unary! {
    /// A sigmoid of three lines, `y = min(max(x + 3, 0), 6)/6`.
    real hard_sigmoid, hard_sigmoid_backward(x), HardSigmoid of Activation:
            y = |x| {
                let six = x.lit(6.0);
                (x + x.lit(3.0)).maximum(x.lit(0.0)).minimum(six) / six
            },
            dy = |g, x| between(x, -3.0, 3.0, g / g.lit(6.0), g.lit(0.0));
            "y = min(max(x + 3, 0), 6)/6", "y′ = 1/6 for −3 < x < 3, 0 elsewhere",
            on "all numbers" [-7.0, 7.0] kinks [-3.0, 3.0];
            also at_three;
            at 1.5: 0.75;
            conventions: "y′(±3) = 0",
}

unary! {
    /// The [`hard_sigmoid`] of a number times itself, `y = x·min(max(x + 3, 0), 6)/6`.
    real hard_swish, hard_swish_backward(x), HardSwish of Activation:
            y = |x| {
                let six = x.lit(6.0);
                let share = (x + x.lit(3.0)).maximum(x.lit(0.0)).minimum(six) / six;
                // Not 0·∞ at −∞.
                R::select(x.le(x.lit(-3.0)), x.lit(0.0), x * share)
            },
            dy = |g, x| {
                let slope = (x + x + x.lit(3.0)) / x.lit(6.0);
                let outside = R::select(x.lit(0.0).lt(x), g, g.lit(0.0));
                between(x, -3.0, 3.0, g * slope, outside)
            };
            "y = x·min(max(x + 3, 0), 6)/6", "y′ = (2x + 3)/6 for −3 < x < 3, 0 below, 1 above",
            on "all numbers" [-7.0, 7.0] kinks [-3.0, 3.0];
            also at_three;
            at 1.5: 1.125;
            conventions: "y′(−3) = 0, y′(3) = 1",
}

/// `y = min(max(x, min), max)`: a line between two flat ends (−1 and 1 by default in the catalogue).
/// It differs from [`clip`](crate::ops::clip()) in its gradient at the bounds, which is 0 here.
///
/// Conventions: y′ = 0 at the bounds; NaN stays NaN.
///
/// ```
/// use extensor::ops::hard_tanh;
/// use extensor::tensor;
/// let y = hard_tanh(&tensor([-2.0, 0.5, 3.0]), -1.0, 1.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, 0.5, 1.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn hard_tanh(x: &Tensor, min: f64, max: f64) -> Result<Tensor> {
    Along(HardTanh { min, max }).of(x)
}

/// The gradient of [`hard_tanh`]: `grad_output` where `min < x < max`, 0 elsewhere.
#[track_caller]
#[extensor_derive::noted]
pub fn hard_tanh_backward(grad_output: &Tensor, x: &Tensor, min: f64, max: f64) -> Result<Tensor> {
    Along(HardTanh { min, max }).backward_at(grad_output, x)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HardTanh {
    min: f64,
    max: f64,
}

impl Formula<1> for HardTanh {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        x.maximum(x.lit(self.min)).minimum(x.lit(self.max))
    }
}

struct HardTanhGradient(HardTanh);

impl Formula<2> for HardTanhGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x]: [R; 2]) -> R {
        between(x, self.0.min, self.0.max, g, g.lit(0.0))
    }
}

impl Curve for HardTanh {
    const RECORD: &'static Record = &Record {
        name: "hard_tanh",
        family: Family::Activation,
        formula: "y = min(max(x, min), max)",
        derivative: "y′ = 1 for min < x < max, 0 elsewhere",
        conventions: "y′ = 0 at the bounds; NaN stays NaN",
        params: &[
            Parameter { name: "min", what: "a number", default: Some("-1.0") },
            Parameter { name: "max", what: "a number", default: Some("1.0") },
        ],
        backward: "hard_tanh_backward(grad_output, x, min, max)",
        build: |p| {
            let min = p.float("hard_tanh", "min", -1.0)?;
            Along::build(HardTanh { min, max: p.float("hard_tanh", "max", 1.0)? })
        },
        samples: |s| {
            let params = |min: f64, max: f64| Params::new().with("min", min).with("max", max);
            for shape in SHAPES {
                let x = s.away(-4.0, 4.0, &[-1.0, 2.0], shape);
                s.add([x], params(-1.0, 2.0));
            }
            let x = s.away(-3.0, 3.0, &[-1.0, 1.0], &[7]);
            s.add_noted([x], Params::new(), "the default");
            s.add_noted([crate::tensor([-1.0, 1.0, 0.0])], Params::new(), "at the bounds");
        },
        kinks: |sample| sample.holds(0, &[sample.number("min", -1.0), sample.number("max", 1.0)]),
        errors: |bad| {
            let params = |min: f64, max: f64| Params::new().with("min", min).with("max", max);
            let x = bad.ones(&[2], DType::F64);
            bad.add([x.clone()], params(2.0, 1.0), "min is 2.0, expected at most max (1.0)");
            bad.add([x.clone()], params(f64::NAN, 1.0), "min is NaN, expected a number");
            bad.add([x], params(0.0, f64::NAN), "max is NaN, expected a number");
            let ints = bad.ones(&[2], DType::I32);
            bad.add([ints], Params::new(), "x has dtype i32, expected a float type");
        },
        ..Record::BLANK
    };
    fn check(&self, _: DType) -> Result<()> {
        let HardTanh { min, max } = *self;
        let bad = |parameter: &'static str, got: f64, expected: String| {
            Err(Error::Parameter { op: "hard_tanh", parameter, expected, got: format!("{got:?}") })
        };
        match (min, max) {
            _ if min.is_nan() => bad("min", min, "a number".into()),
            _ if max.is_nan() => bad("max", max, "a number".into()),
            _ if min > max => bad("min", min, format!("at most max ({max:?})")),
            _ => Ok(()),
        }
    }
    fn forward(&self, x: &Tensor, spec: Spec) -> Result<Tensor> {
        map_real("hard_tanh", &Formulas(*self), [x], spec)
    }
    fn backward(&self, g: &Tensor, x: &Tensor, spec: Spec) -> Result<Tensor> {
        map_real("hard_tanh_backward", &Formulas(HardTanhGradient(*self)), [g, x], spec)
    }
}
