//! Holding numbers between bounds.

use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, husk};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_unary, map_number, map_real};
use crate::ops::record::{Parameter, Record};
use crate::ops::samples::SHAPES;
use crate::{DType, Error, Result, Tensor};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas, NumberFormula, Numbers};
use extensor_kernels::number::{Number, Real};
use smallvec::smallvec;

/// `y = min(max(x, min), max)`; either bound may be left out. NaN stays NaN.
///
/// Conventions: the gradient is 1 at the bounds; NaN stays NaN.
///
/// ```
/// use extensor::ops::clip;
/// use extensor::tensor;
/// let y = clip(&tensor([-2.0, 0.5, 3.0]), -1.0, 2.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, 0.5, 2.0]);
/// assert_eq!(clip(&tensor([-2, 5]), None, 3.0)?.to_vec::<i32>()?, [-2, 3]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn clip(
    x: &Tensor,
    min: impl Into<Option<f64>>,
    max: impl Into<Option<f64>>,
) -> Result<Tensor> {
    apply_one(&Clip { min: min.into(), max: max.into() }, &[x])
}

/// The gradient of [`clip`]: `grad_output` where `x` is between the bounds or at one, 0 elsewhere.
#[track_caller]
#[extensor_derive::noted]
pub fn clip_backward(
    grad_output: &Tensor,
    x: &Tensor,
    min: impl Into<Option<f64>>,
    max: impl Into<Option<f64>>,
) -> Result<Tensor> {
    let output = husk(x.shape(), x.dtype())?;
    let op = Clip { min: min.into(), max: max.into() };
    let [grad] = backward_of(&op, grad_output, &[x], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clip {
    min: Option<f64>,
    max: Option<f64>,
}

impl NumberFormula<1> for Clip {
    #[inline(always)]
    fn f<R: Number>(&self, [x]: [R; 1]) -> R {
        let x = self.min.map_or(x, |min| x.maximum(x.lit(min)));
        self.max.map_or(x, |max| x.minimum(x.lit(max)))
    }
}

struct ClipGradient(Clip);

impl Formula<2> for ClipGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x]: [R; 2]) -> R {
        let mut inside = x.eq(x);
        if let Some(min) = self.0.min {
            inside = inside & x.lit(min).le(x);
        }
        if let Some(max) = self.0.max {
            inside = inside & x.le(x.lit(max));
        }
        x.nan_or(R::select(inside, g, x.lit(0.0)))
    }
}

impl Clip {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "clip",
        formula: "y = min(max(x, min), max)",
        derivative: "y′ = 1 for min <= x <= max, 0 elsewhere",
        conventions: "the gradient is 1 at the bounds; NaN stays NaN",
        backward: "clip_backward(grad_output, x, min, max)",
        params: &[
            Parameter { name: "min", what: "a number", default: Some("None") },
            Parameter { name: "max", what: "a number", default: Some("None") },
        ],
        build: |p| {
            let (min, max) = (p.optional_float("clip", "min")?, p.optional_float("clip", "max")?);
            Ok(Box::new(Clip { min, max }))
        },
        samples: |s| {
            let params = |min: Option<f64>, max: Option<f64>| {
                Params::new().with("min", min).with("max", max)
            };
            for shape in SHAPES {
                let x = s.away(-4.0, 4.0, &[-1.5, 2.0], shape);
                s.add([x], params(Some(-1.5), Some(2.0)));
            }
            for (min, max) in [(Some(0.5), None), (None, Some(0.5)), (None, None)] {
                let x = s.away(-4.0, 4.0, &[0.5], &[3, 4]);
                s.add([x], params(min, max));
            }
            let bounds = crate::tensor([-1.0, 1.0, -2.0, 2.0, 0.0]);
            s.add_noted([bounds], params(Some(-1.0), Some(1.0)), "at the bounds");
        },
        kinks: |sample| {
            let never = f64::NAN;
            sample.holds(0, &[sample.number("min", never), sample.number("max", never)])
        },
        errors: |bad| {
            let x = bad.ones(&[2], DType::F64);
            let params = |min: f64, max: f64| Params::new().with("min", min).with("max", max);
            bad.add([x.clone()], params(2.0, 1.0), "min is 2.0, expected at most max (1.0)");
            bad.add([x], params(f64::NAN, 1.0), "min is NaN, expected a number");
            let ints = bad.ones(&[2], DType::I32);
            bad.add([ints], params(0.5, 1.0), "min is 0.5, expected a whole number");
            let mask = bad.ones(&[2], DType::Bool);
            bad.add([mask], params(0.0, 1.0), "x has dtype bool, expected a number type");
        },
        ..Record::BLANK
    };

    fn bad<T>(parameter: &'static str, got: f64, expected: String) -> Result<T> {
        Err(Error::Parameter { op: "clip", parameter, expected, got: format!("{got:?}") })
    }
}

impl Operation for Clip {
    fn record(&self) -> &'static Record {
        Clip::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        for (name, bound) in [("min", self.min), ("max", self.max)] {
            let Some(bound) = bound else { continue };
            if bound.is_nan() {
                return Clip::bad(name, bound, "a number".into());
            }
            if inputs[0].dtype().is_int() {
                Tensor::scalar_of(bound, inputs[0].dtype()).or_else(|_| {
                    Clip::bad(
                        name,
                        bound,
                        format!("a whole number that {} can hold", inputs[0].dtype()),
                    )
                })?;
            }
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Clip::bad("min", min, format!("at most max ({max:?})"));
        }
        infer_unary("clip", inputs[0], Takes::Numbers)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        Ok(smallvec![map_number("clip", &Numbers(*self), [inputs[0]], specs.swap_remove(0))?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, x) = (call.grad(), call.inputs[0]);
        let spec = Spec { shape: g.shape().clone(), dtype: g.dtype() };
        call.one(|| map_real("clip_backward", &Formulas(ClipGradient(*self)), [g, x], spec))
    }
}
