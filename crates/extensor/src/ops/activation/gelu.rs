//! The Gaussian error linear unit.

use super::sigmoids::{not_below, step_and_slope};
use crate::ops::samples::SHAPES;
use crate::ops::unary::*;
use extensor_derive::method;

/// `2√(2/π)` in two parts, the first of which `f32` holds exactly.
const FIRST: [f64; 2] = [1.595_769_166_946_411_1, -4.534_068_042_105_272e-8];
/// `2√(2/π)·0.044715`, likewise.
const THIRD: [f64; 2] = [0.071_354_813_873_767_85, 2.398_832_395_993_135_5e-9];

/// The Gaussian error linear unit, `y = x·Φ(x)` with the normal distribution function
/// `Φ(x) = ½ erfc(−x/√2)`; with [`Approximate::Tanh`]: `y = ½x(1 + tanh(√(2/π)(x + 0.044715x³)))`.
///
/// Conventions: Φ(x) = ½ erfc(−x/√2).
///
/// ```
/// use extensor::ops::Approximate;
/// use extensor::tensor;
/// let y = tensor([-1e4, 0.0, 1e4]).gelu(Approximate::None)?;
/// assert_eq!(y.to_vec::<f64>()?, [0.0, 0.0, 1e4]);
/// let y = tensor(0.5).gelu(Approximate::None)?.item::<f64>()?;
/// assert!((y - 0.34573123063700656).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn gelu(x: &Tensor, approximate: Approximate) -> Result<Tensor> {
    apply_one(&Gelu::of(approximate), &[x])
}

/// The gradient of [`gelu`]: `Φ(x) + x·Φ′(x)`, times `grad_output`; of the approximation, the
/// derivative of its formula.
#[track_caller]
#[extensor_derive::noted]
pub fn gelu_backward(grad_output: &Tensor, x: &Tensor, approximate: Approximate) -> Result<Tensor> {
    let output = placeholder(x.shape(), x.dtype())?;
    let [grad] = backward_of(&Gelu::of(approximate), grad_output, &[x], &output)?;
    Ok(grad)
}

/// Which formula [`gelu`] is computed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Approximate {
    /// The function itself.
    #[default]
    None,
    /// Its approximation by `tanh`, with which some networks were trained.
    Tanh,
}

impl Gelu {
    fn of(approximate: Approximate) -> Gelu {
        Gelu { approximate: approximate == Approximate::Tanh }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Gelu {
    approximate: bool,
}

/// `x·Φ(x)`.
#[derive(Clone)]
struct Exact;
/// `Φ(x) + x·Φ′(x)`, times `g`.
#[derive(Clone)]
struct ExactGradient;
/// `x·σ(2u)`, which is `½x(1 + tanh u)`.
#[derive(Clone)]
struct ByTanh;
/// `σ + x·σ′(2u)·2u′`, times `g`.
#[derive(Clone)]
struct ByTanhGradient;

impl Formula<1> for Exact {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        x.gelu()
    }
}

impl Formula<2> for ExactGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x]: [R; 2]) -> R {
        g * x.gelu_slope()
    }
}

/// `2u = 2√(2/π)(x + 0.044715x³)` in two parts: an exponent, of which no digit is to be lost.
#[inline(always)]
fn exponent<R: Real>(x: R) -> (R, R) {
    let (a, a_rest) = (x.lit(FIRST[0]), x.lit(FIRST[1]));
    let (b, b_rest) = (x.lit(THIRD[0]), x.lit(THIRD[1]));
    // x² = square + lost
    let square = x * x;
    let lost = x.mul_add(x, -square);
    // a + b·x² = sum + rest
    let product = b * square;
    let sum = a + product;
    let part = sum - a;
    let rest = (a - (sum - part)) + (product - part) + b.mul_add(square, -product);
    let rest = b.mul_add(lost, b_rest.mul_add(square, rest + a_rest));
    let whole = x * sum;
    let rest = x.mul_add(rest, x.mul_add(sum, -whole));
    let first = whole + rest;
    let rest = rest - (first - whole);
    let plain = || {
        let (a, b) = (x.lit(FIRST[0] + FIRST[1]), x.lit(THIRD[0] + THIRD[1]));
        x * b.mul_add(x * x, a)
    };
    (first.like(plain), rest.like(|| x.lit(0.0)))
}

/// Numbers so large that the step has saturated, and small enough for their third powers.
#[inline(always)]
fn within<R: Real>(x: R) -> R {
    x.maximum(x.lit(-100.0)).minimum(x.lit(100.0))
}

impl Formula<1> for ByTanh {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        let (whole, rest) = exponent(within(x));
        let step = whole.sigmoid();
        // σ(w + r) = σ + r·σ(1 − σ)
        let step = step.mul_add(rest * (x.lit(1.0) - step), step);
        not_below(x) * step
    }
}

impl Formula<2> for ByTanhGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x]: [R; 2]) -> R {
        let near = within(x);
        let (whole, rest) = exponent(near);
        let (step, slope) = step_and_slope(whole);
        // σ(w + r) = σ + r·σ′, and σ′ likewise: its relative slope is 1 − 2σ.
        let (one, two) = (x.lit(1.0), x.lit(2.0));
        let step = rest.mul_add(slope, step);
        let slope = slope.mul_add(rest * (-two).mul_add(step, one), slope);
        let (first, third) = (x.lit(FIRST[0] + FIRST[1]), x.lit(3.0 * (THIRD[0] + THIRD[1])));
        let speed = (near * near).mul_add(third, first);
        g * (near * speed).mul_add(slope, step)
    }
}

impl Gelu {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "gelu",
        family: Family::Activation,
        formula: "y = x·Φ(x); approximate: ½x(1 + tanh(√(2/π)(x + 0.044715x³)))",
        derivative: "y′ = Φ(x) + x·Φ′(x); approximate: the derivative of that formula",
        conventions: "Φ(x) = ½ erfc(−x/√2)",
        params: &[Parameter {
            name: "approximate",
            what: "whether to use the formula with tanh",
            default: Some("false"),
        }],
        backward: signature!(gelu_backward(grad_output, x; approximate)),
        build: |p| {
            let approximate = p.bool_or("gelu", "approximate", "none", "tanh")?;
            Ok(Box::new(Gelu { approximate }))
        },
        samples: |s| {
            for approximate in [false, true] {
                let params = || Params::new().with("approximate", approximate);
                for shape in SHAPES {
                    let x = s.uniform(-5.0, 5.0, shape);
                    s.add([x], params());
                }
                let x = crate::tensor([-500.0, -80.0, -30.0, 30.0, 80.0, 500.0]);
                s.add_noted([x], params(), "saturated");
                s.add_far([crate::tensor([-1e4, 1e4, 0.0])], params(), "far out");
            }
            let x = s.uniform(-5.0, 5.0, &[7]);
            s.add_noted([x], Params::new(), "the default");
        },
        errors: |bad| {
            let x = bad.ones(&[2], DType::F64);
            let params = Params::new().with("approximate", 2);
            bad.add([x], params, "approximate is 2, expected true (\"tanh\") or false (\"none\")");
            let ints = bad.ones(&[2], DType::I32);
            bad.add([ints], Params::new(), "x has dtype i32, expected a float type");
        },
        ..Record::BLANK
    };
}

impl Operation for Gelu {
    fn record(&self) -> &'static Record {
        Gelu::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        infer_unary("gelu", inputs[0], Takes::Floats)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let (x, spec) = (inputs[0], specs.swap_remove(0));
        let y = match self.approximate {
            true => map_real("gelu", &Formulas(ByTanh), [x], spec),
            false => map_real("gelu", &Formulas(Exact), [x], spec),
        };
        Ok(smallvec![y?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, x) = (call.grad(), call.inputs[0]);
        let spec = Spec { shape: g.shape().clone(), dtype: g.dtype() };
        call.one(|| match self.approximate {
            true => map_real("gelu_backward", &Formulas(ByTanhGradient), [g, x], spec),
            false => map_real("gelu_backward", &Formulas(ExactGradient), [g, x], spec),
        })
    }
}
