//! Vectors brought to length 1.

use super::*;
use crate::Axes;
use crate::ops::operation::{backward_of, placeholder};
use crate::ops::options::options;
use crate::ops::params::Params;
use crate::ops::pointwise::{guard_above, map_real, settle};
use crate::ops::record::{Class, Family, Record, signature};
use crate::ops::reduction::lengths::Lengths;
use crate::ops::samples::Sampler;
use crate::tensor::axis_index;
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;

options! {
    /// The options of [`normalize`].
    pub struct NormalizeOptions {
        /// The order of the norm: above 0, or ∞ for the largest size.
        p: f64 = 2.0,
        /// The axis that vectors lie along.
        axis: i64 = -1,
        /// The least that a norm counts for: above 0.
        eps: f64 = 1e-12,
    }
}

/// `x/max(‖x‖ₚ, eps)` for the vectors along an axis, with `‖x‖ₚ = (Σ|x|ᵖ)^(1/p)`: those that are longer than `eps` get the
/// length 1. The axis is the last unless another is given (PyTorch's is the second).
///
/// Conventions: a vector shorter than eps is divided by eps, so that zeros stay zeros, with the gradient g/eps; at eps the
/// length counts; for p = 1 the sign of 0 is 0, for p = ∞ equal sizes share the gradient.
///
/// ```
/// use extensor::ops::NormalizeOptions;
/// use extensor::tensor;
/// let x = tensor([[3.0, -4.0], [0.0, 0.0]]);
/// let y = x.normalize(NormalizeOptions::new())?;
/// assert_eq!(y.to_vec::<f64>()?, [0.6, -0.8, 0.0, 0.0]);
/// let y = tensor([1.0, -3.0]).normalize(NormalizeOptions::new().p(1.0))?;
/// assert_eq!(y.to_vec::<f64>()?, [0.25, -0.75]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn normalize(x: &Tensor, options: NormalizeOptions) -> Result<Tensor> {
    apply_one(&Unit::of(options), &[x])
}

/// The gradient of [`normalize`]: `(g − u·Σ g∘y)/n` with `n = ‖x‖ₚ`, its derivative `u = sign(x)·(|x|/n)^(p − 1)` and `y = x/n`;
/// `g/eps` for vectors shorter than `eps`.
#[track_caller]
#[extensor_derive::noted]
pub fn normalize_backward(
    grad_output: &Tensor,
    x: &Tensor,
    options: NormalizeOptions,
) -> Result<Tensor> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Unit::of(options), grad_output, &[x], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    p: f64,
    axis: i64,
    eps: f64,
}

/// `x/max(n, eps)`.
#[derive(Clone, Copy)]
struct Quotient(f64);

impl Formula<2> for Quotient {
    #[inline(always)]
    fn f<R: Real>(&self, [x, n]: [R; 2]) -> R {
        x / n.maximum(n.lit(self.0))
    }
}

/// `t/max(n, eps)`, which is never divided by 0, of a gradient or a tangent; at zero no larger than `limit`.
#[derive(Clone, Copy)]
struct Share {
    eps: f64,
    limit: f64,
}

impl Formula<2> for Share {
    #[inline(always)]
    fn f<R: Real>(&self, [t, n]: [R; 2]) -> R {
        let share = t / guard_above(n.maximum(n.lit(self.eps)));
        settle(share, t, n.eq(n.lit(0.0)), self.limit)
    }
}

/// `t`, where the length counts, and 0 elsewhere.
#[derive(Clone, Copy)]
struct Counting(f64);

impl Formula<2> for Counting {
    #[inline(always)]
    fn f<R: Real>(&self, [t, n]: [R; 2]) -> R {
        R::select(n.lt(n.lit(self.0)), t.lit(0.0), t)
    }
}

const OP: &str = "normalize";

/// The numbers of the vectors of a sample.
fn vectors(sample: &Sample) -> Vec<Vec<f64>> {
    let axis = sample.params.optional_int(OP, "axis").ok().flatten().unwrap_or(-1);
    sample.groups(&Axes::List(vec![axis].into_iter().collect()))
}

/// The length of a vector.
pub(in crate::ops) fn length(vector: &[f64], p: f64) -> f64 {
    let sizes = vector.iter().map(|x| x.abs());
    if p.is_infinite() {
        return sizes.fold(0.0, f64::max);
    }
    sizes.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p)
}

/// Whether the length has a kink at a vector, or its second derivative.
pub(in crate::ops) fn bends(vector: &[f64], p: f64) -> bool {
    if p.is_infinite() {
        let top = length(vector, p);
        return top == 0.0 || vector.iter().filter(|x| x.abs() == top).count() > 1;
    }
    length(vector, p) == 0.0 || p < 2.0 && vector.contains(&0.0)
}

impl Unit {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Normalization,
        formula: "y = x/max(n, eps) with n = (Σ |x|^p)^(1/p)",
        derivative: "(g − u·Σ g∘y)/n with u = sign(x)·(|x|/n)^(p − 1); g/eps where n < eps",
        conventions: "a vector shorter than eps is divided by eps, so that zeros stay zeros, with the gradient g/eps; \
                      at eps the length counts; for p = 1 the sign of 0 is 0, for p = ∞ equal sizes share the gradient",
        params: &[
            optional("p", "the order of the norm: above 0, or ∞ for the largest size", "2.0"),
            optional("axis", "the axis that vectors lie along", "-1"),
            optional("eps", "the least that a norm counts for: above 0", "1e-12"),
        ],
        backward: signature!(normalize_backward(grad_output, x; p, axis, eps)),
        class: Class::Composite,
        build: |p| {
            let axis = p.optional_int(OP, "axis")?.unwrap_or(-1);
            let (p, eps) = (p.float(OP, "p", 2.0)?, p.float(OP, "eps", 1e-12)?);
            Ok(Box::new(Unit { p, axis, eps }))
        },
        samples,
        kinks: |sample| {
            let (p, eps) = (sample.number("p", 2.0), sample.number("eps", 1e-12));
            vectors(sample).iter().any(|vector| {
                let n = length(vector, p);
                (n - eps).abs() <= 1e-6 || n > eps && bends(vector, p)
            })
        },
        takes: |sample| {
            let (p, eps) = (sample.number("p", 2.0), sample.number("eps", 1e-12));
            let curved = p != 1.0 && p != 2.0 && p.is_finite();
            vectors(sample).iter().all(|vector| {
                let n = length(vector, p);
                n < 0.9 * eps && eps > 0.05
                    || n > 0.05_f64.max(1.1 * eps)
                        && !(curved && vector.iter().any(|x| x.abs() < 0.03 * n))
            })
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let none = Params::new;
            bad.add([x.clone()], none().with("p", 0.0), "p is 0.0, expected a number above 0");
            bad.add([x.clone()], none().with("p", f64::NAN), "p is NaN, expected a number above 0");
            let eps = none().with("eps", 0.0);
            bad.add([x.clone()], eps, "eps is 0.0, expected a finite number above 0");
            let axis = none().with("axis", 2);
            bad.add([x], axis, "axis 2 is out of range for 2 dimensions");
            let scalar = bad.ones(&[], DType::F64);
            bad.add([scalar], none(), "axis -1 is out of range for 0");
            let whole = bad.ones(&[2], DType::I64);
            bad.add([whole], none(), "x has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };

    fn of(options: NormalizeOptions) -> Unit {
        let NormalizeOptions { p, axis, eps } = options;
        Unit { p, axis, eps }
    }

    fn lengths(self, dtype: DType) -> Lengths {
        Lengths { p: self.p, axis: self.axis, limit: dtype.max_finite() }
    }
}

fn samples(s: &mut Sampler) {
    let cases: [(&[usize], i64); 8] = [
        (&[5], -1),
        (&[3, 4], 1),
        (&[4, 3], 0),
        (&[2, 3, 2], -2),
        (&[0, 2], 1),
        (&[3, 0], 1),
        (&[3, 0], 0),
        (&[2, 1], 1),
    ];
    for (shape, axis) in cases {
        for p in [2.0, 1.0, 3.0, 1.5, f64::INFINITY] {
            // One number is its own length, of whatever order.
            if shape != [2, 1] || p == 2.0 {
                let x = s.away(-2.0, 2.0, &[0.0], shape);
                s.add([x], Params::new().with("axis", axis).with("p", p));
            }
        }
    }
    let x = s.away(-2.0, 2.0, &[0.0], &[3, 2]);
    s.add_noted([x], Params::new().with("p", 0.5), "an order below 1");
    let x = s.normal(&[330, 200]);
    s.add_large([x], Params::new(), "many numbers");
    for p in [2.0, 1.0, f64::INFINITY] {
        let short = crate::tensor([[0.1, -0.2, 0.0], [0.0; 3], [3.0, -4.0, 0.5]]);
        let params = Params::new().with("p", p).with("eps", 1.0);
        s.add_noted([short], params, "shorter than eps, and longer");
        let zeros = crate::tensor([[0.0; 3], [1.0, -1.0, 0.5]]);
        s.add_noted([zeros], Params::new().with("p", p), "at zero");
    }
    let x = crate::tensor([[3.0, -4.0], [0.3, 0.4]]);
    s.add_noted([x], Params::new().with("eps", 5.0), "at eps");
}

impl Operation for Unit {
    fn record(&self) -> &'static Record {
        Unit::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[0];
        x.dtype().expect_float(OP, "x")?;
        axis_index(OP, self.axis, x.ndim())?;
        if self.p.is_nan() || self.p <= 0.0 {
            return Err(bad_parameter(OP, "p", "a number above 0", self.p));
        }
        if !(self.eps > 0.0 && self.eps.is_finite()) {
            return Err(bad_parameter(OP, "eps", "a finite number above 0", self.eps));
        }
        Ok(spec(x.shape().clone(), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let spec = specs.swap_remove(0);
        let x = ops::cast(inputs[0], wide(spec.dtype))?;
        let n = self.lengths(spec.dtype).of(&x)?;
        let between = Spec { shape: spec.shape, dtype: x.dtype() };
        let y = map_real(OP, &Formulas(Quotient(self.eps)), [&x, &n], between)?;
        Ok(smallvec![ops::cast(&y, spec.dtype)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (name, dtype) = ("normalize_backward", call.grad().dtype());
        let along = over(self.axis).keepdims(true);
        call.one(|| {
            let (lengths, wide) = (self.lengths(dtype), wide(dtype));
            let share = Share { eps: self.eps, limit: lengths.limit };
            let (g, x) = (ops::cast(call.grad(), wide)?, ops::cast(call.inputs[0], wide)?);
            let n = lengths.of(&x)?;
            let full = || Spec { shape: x.shape().clone(), dtype: wide };
            let of_length = || Spec { shape: n.shape().clone(), dtype: wide };
            let y = map_real(name, &Formulas(share), [&x, &n], full())?;
            let h = map_real(name, &Formulas(share), [&g, &n], full())?;
            let s = ops::sum(&ops::multiply(&h, &y)?, along)?;
            let s = map_real(name, &Formulas(Counting(self.eps)), [&s, &n], of_length())?;
            ops::subtract(&h, &lengths.pulled(&s, &x, &n)?)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (y, dtype) = (call.outputs[0], call.outputs[0].dtype());
        let Some(tangent) = call.tangents[0] else {
            return Ok(smallvec![y.zeros_like()?]);
        };
        let (lengths, wide) = (self.lengths(dtype), wide(dtype));
        let share = Share { eps: self.eps, limit: lengths.limit };
        let (t, x) = (ops::cast(tangent, wide)?, ops::cast(call.inputs[0], wide)?);
        let n = lengths.of(&x)?;
        let full = || Spec { shape: x.shape().clone(), dtype: wide };
        let dn = lengths.pushed(&t, &x, &n)?;
        let of_length = Spec { shape: n.shape().clone(), dtype: wide };
        let dn = map_real(OP, &Formulas(Counting(self.eps)), [&dn, &n], of_length)?;
        let y = map_real(OP, &Formulas(share), [&x, &n], full())?;
        let rest = ops::subtract(&t, &ops::multiply(&y, &dn)?)?;
        let moved = map_real(OP, &Formulas(share), [&rest, &n], full())?;
        Ok(smallvec![ops::cast(&moved, dtype)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let x = inputs[0];
        axis_index(OP, self.axis, x.ndim()).map_or(1, |axis| x.shape()[axis].max(1))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Unit { axis: shifted(self.axis), ..*self })
    }
}
