//! Numbers in the place of what is none.

use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder};
use crate::ops::options::options;
use crate::ops::params::{Params, expect_number};
use crate::ops::pointwise::{Takes, infer_unary, map_real};
use crate::ops::record::{Parameter, Record, signature};
use crate::ops::samples::draw;
use crate::{DType, Result, Tensor};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::smallvec;

options! {
    /// What [`nan_to_num`] puts in the place of what is no finite number.
    pub struct NanToNumOptions {
        /// For NaN.
        nan: f64 = 0.0,
        /// For ∞: the largest finite number of the dtype unless given.
        posinf: Option<f64> = None,
        /// For −∞: the least finite number of the dtype unless given.
        neginf: Option<f64> = None,
    }
}

/// Numbers as they are, with finite ones in the place of NaN, ∞ and −∞; whole numbers are finite.
///
/// Conventions: the derivative is 0 where a number was replaced.
///
/// ```
/// use extensor::{ops::NanToNumOptions, tensor};
/// let x = tensor([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0]);
/// let y = x.nan_to_num(NanToNumOptions::new().nan(-1.0).posinf(100.0))?;
/// assert_eq!(y.to_vec::<f64>()?, [-1.0, 100.0, f64::MIN, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nan_to_num(x: &Tensor, options: NanToNumOptions) -> Result<Tensor> {
    apply_one(&NanToNum { options }, &[x])
}

/// The gradient of [`nan_to_num`]: `grad_output` where `x` is a finite number, 0 elsewhere.
#[track_caller]
#[extensor_derive::noted]
pub fn nan_to_num_backward(grad_output: &Tensor, x: &Tensor) -> Result<Tensor> {
    let op = NanToNum { options: NanToNumOptions::new() };
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&op, grad_output, &[x], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NanToNum {
    options: NanToNumOptions,
}

/// What stands for NaN, ∞ and −∞.
#[derive(Clone, Copy)]
struct Value([f64; 3]);

impl Formula<1> for Value {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        let [nan, above, below] = self.0.map(|v| x.lit(v));
        let end = R::select(x.lit(0.0).lt(x), above, below);
        let replaced = R::select(x.is_nan(), nan, end);
        R::select(x.is_finite(), x, replaced)
    }
}

#[derive(Clone, Copy)]
struct Slope;

impl Formula<2> for Slope {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x]: [R; 2]) -> R {
        R::select(x.is_finite(), g, g.lit(0.0))
    }
}

impl NanToNum {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "nan_to_num",
        formula: "y = x where x is finite; nan, posinf and neginf for NaN, ∞ and −∞",
        derivative: "y′ = 1 where x is finite, 0 elsewhere",
        conventions: "the derivative is 0 where a number was replaced",
        params: &[
            Parameter { name: "nan", what: "what stands for NaN", default: Some("0.0") },
            Parameter {
                name: "posinf",
                what: "what stands for ∞; None for the largest finite number",
                default: Some("None"),
            },
            Parameter {
                name: "neginf",
                what: "what stands for −∞; None for the least finite number",
                default: Some("None"),
            },
        ],
        backward: signature!(nan_to_num_backward(grad_output, x)),
        build: |p| {
            let op = "nan_to_num";
            let [posinf, neginf] = ["posinf", "neginf"].map(|name| p.optional_float(op, name));
            let (posinf, neginf) = (posinf?, neginf?);
            let options = NanToNumOptions { nan: p.float(op, "nan", 0.0)?, posinf, neginf };
            Ok(Box::new(NanToNum { options }))
        },
        samples: |s| {
            draw(s, [-3.0, 3.0], &[], &[]);
            let params = Params::new().with("nan", 0.5).with("posinf", 7.0).with("neginf", -8.0);
            let x = crate::tensor([1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]);
            s.add_noted([x], params, "what is no number");
        },
        kinks: |sample| sample.any(0, |x| !x.is_finite()),
        errors: |bad| {
            let mask = bad.ones(&[2], DType::Bool);
            bad.add([mask], Params::new(), "x has dtype bool, expected a number type");
            let x = bad.ones(&[2], DType::F64);
            let nan = Params::new().with("nan", f64::NAN);
            bad.add([x.clone()], nan, "nan is NaN, expected a number");
            let nan = Params::new().with("posinf", f64::NAN);
            bad.add([x.clone()], nan, "posinf is NaN, expected a number");
            bad.add([x], Params::new().with("neginf", "x"), "neginf is \"x\", expected a number");
        },
        ..Record::BLANK
    };
}

impl Operation for NanToNum {
    fn record(&self) -> &'static Record {
        NanToNum::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("nan_to_num", inputs[0]);
        let NanToNumOptions { nan, posinf, neginf } = self.options;
        for (name, value) in [("nan", Some(nan)), ("posinf", posinf), ("neginf", neginf)] {
            expect_number(op, name, value, DType::F64)?;
        }
        infer_unary(op, x, Takes::Numbers)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let (x, spec) = (inputs[0], specs.swap_remove(0));
        if x.dtype().is_int() {
            return Ok(smallvec![x.clone()]);
        }
        let NanToNumOptions { nan, posinf, neginf } = self.options;
        let most = spec.dtype.max_finite();
        let value = Value([nan, posinf.unwrap_or(most), neginf.unwrap_or(-most)]);
        Ok(smallvec![map_real("nan_to_num", &Formulas(value), [x], spec)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let g = call.grad();
        let spec = Spec { shape: g.shape().clone(), dtype: g.dtype() };
        let name = "nan_to_num_backward";
        call.one(|| map_real(name, &Formulas(Slope), [g, call.inputs[0]], spec))
    }
}
