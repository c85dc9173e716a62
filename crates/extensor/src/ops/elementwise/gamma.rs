//! The logarithm of the gamma function and its derivatives.

use crate::Error;
use crate::ops::calculus::{is_pole, off_poles};
use crate::ops::pointwise::{defined, settle};
use crate::ops::samples::SHAPES;
use crate::ops::unary::*;
use extensor_kernels::number::Smooth;

unary! {
    /// The logarithm of the gamma function, `y = ln |Γ(x)|`: of factorials, as `Γ(n + 1) = n!`; +∞ at 0
    /// and the negative whole numbers.
    real lgamma, lgamma_backward(x), Lgamma:
            y = |x| x.lgamma(),
            dy = |g, x, limit| {
                let slope = g.times(off_poles(x).digamma());
                let slope = settle(slope, g, is_pole(x), limit);
                defined(slope, g, x.eq(x.lit(f64::NEG_INFINITY)))
            };
            "y = ln |Γ(x)|", "y′ = ψ(x)",
            on "all numbers but 0, −1, −2, …" [0.2, 4.0] kinks [0.0, -1.0, -2.0, -3.0, -4.0];
            also |s| {
                let (x, params) = (crate::tensor([-0.4, -1.3, -2.8, 1.0, 2.0, 9.5]), Params::new());
                s.add_noted([x], params, "below 0, at its zeros, and beyond");
            };
            at 0.5: 0.5723649429247001;
            conventions: "at 0, −1, −2, …, where it has poles, the derivative is that 10⁻¹⁰ away from 0, and stays finite; NaN at −∞",
}

unary! {
    /// The digamma function, `y = ψ(x) = Γ′(x)/Γ(x)`, the derivative of [`lgamma`]: −∞ at 0, ∞ at −0, and
    /// NaN at the negative whole numbers, on whose sides it is either.
    real digamma, digamma_backward(x), Digamma:
            y = |x| x.digamma(),
            dy = |g, x, limit| derivative_of_psi(g, x, 1, limit);
            "y = ψ(x)", "y′ = ψ′(x)",
            on "all numbers but 0, −1, −2, …" [0.2, 4.0] kinks [0.0, -1.0, -2.0, -3.0, -4.0];
            also |s| {
                let (x, params) = (crate::tensor([-0.4, -1.3, -2.8, 1.0, 6.5, 9.5]), Params::new());
                s.add_noted([x], params, "below 0, and beyond");
            };
            at 0.5: -1.9635100260214235;
            conventions: "at 0 the derivative is that 10⁻¹⁰ away from it, and stays finite; NaN where y is",
}

/// `g ψ⁽ⁿ⁾(x)`, the gradient of `ψ⁽ⁿ⁻¹⁾`.
#[inline(always)]
fn derivative_of_psi<R: Real>(g: R, x: R, n: u8, limit: f64) -> R {
    let slope = settle(g.times(off_poles(x).nth_derivative(Smooth::Psi, n)), g, is_pole(x), limit);
    // ψ, ψ″, … have no value at the negative whole numbers.
    let (zero, below) = (x.lit(0.0), x.eq(x.lit(f64::NEG_INFINITY)));
    let none = if n % 2 == 1 { below | is_pole(x) & x.lt(zero) } else { below };
    defined(slope, g, none)
}

/// The largest order of [`polygamma`].
const MOST: i64 = 100;

/// The polygamma function of order `n`, from 0 to 100: the derivative number `n` of [`digamma`], and
/// [`digamma`] itself for 0.
///
/// At 0 it is ±∞; at the negative whole numbers it is ∞ for odd `n`, and NaN for even ones, on whose sides it is
/// either.
///
/// Domain: all numbers but 0, −1, −2, …
/// Conventions: at 0, −1, −2, … the derivative is that 10⁻¹⁰ away from 0, and stays finite; NaN where y is.
///
/// ```
/// let x = extensor::tensor([1.0, -1.5]);
/// let y = x.polygamma(1)?.to_vec::<f64>()?;
/// assert!((y[0] - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-15);
/// assert!((y[1] - 9.379246644989124).abs() < 1e-14);
/// # Ok::<(), extensor::Error>(())
/// ```
#[extensor_derive::method]
#[track_caller]
pub fn polygamma(x: &Tensor, n: i64) -> Result<Tensor> {
    apply_one(&Polygamma { n }, &[x])
}

/// The gradient of [`polygamma`]: `ψ⁽ⁿ⁺¹⁾(x)`, times `grad_output`, from the input.
#[track_caller]
#[extensor_derive::noted]
pub fn polygamma_backward(grad_output: &Tensor, x: &Tensor, n: i64) -> Result<Tensor> {
    let output = placeholder(x.shape(), x.dtype())?;
    let [grad] = backward_of(&Polygamma { n }, grad_output, &[x], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Polygamma {
    n: i64,
}

#[derive(Clone)]
struct Psi {
    n: u8,
}

impl Formula<1> for Psi {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        if self.n == 0 { x.digamma() } else { x.nth_derivative(Smooth::Psi, self.n) }
    }
}

#[derive(Clone)]
struct PsiGradient {
    n: u8,
    limit: f64,
}

impl Formula<2> for PsiGradient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x]: [R; 2]) -> R {
        derivative_of_psi(g, x, self.n + 1, self.limit)
    }
}

impl Polygamma {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "polygamma",
        family: Family::Elementwise,
        formula: "y = ψ⁽ⁿ⁾(x)",
        derivative: "y′ = ψ⁽ⁿ⁺¹⁾(x)",
        domain: "all numbers but 0, −1, −2, …",
        conventions: "at 0, −1, −2, … the derivative is that 10⁻¹⁰ away from 0, and stays finite; NaN where y is",
        params: &[Parameter {
            name: "n",
            what: "how often digamma is differentiated, from 0 to 100",
            default: None,
        }],
        backward: signature!(polygamma_backward(grad_output, x; n)),
        build: |p| Ok(Box::new(Polygamma { n: p.int("polygamma", "n")? })),
        samples: |s| {
            let order = |n: i64| Params::new().with("n", n);
            for (k, shape) in SHAPES.into_iter().enumerate() {
                let x = s.uniform(0.3, 4.0, shape);
                s.add([x], order([1, 0][k % 2]));
            }
            let x = crate::tensor([-0.4, -1.3, -2.8, 1.0, 6.5, 9.5]);
            s.add_noted([x.clone()], order(1), "below 0, and beyond");
            s.add_noted([x], order(0), "digamma");
        },
        kinks: |sample| sample.any(0, |x| x <= 0.0 && x.floor() == x),
        errors: |bad| {
            let order = |n: i64| Params::new().with("n", n);
            let x = bad.ones(&[2], DType::F64);
            let message = "n is -1, expected a whole number from 0 to 100";
            bad.add([x.clone()], order(-1), message);
            let message = "n is 101, expected a whole number from 0 to 100";
            bad.add([x.clone()], order(101), message);
            bad.add([x], Params::new(), "n is None, expected a whole number");
            let ints = bad.ones(&[2], DType::I32);
            bad.add([ints], order(1), "x has dtype i32, expected a float type");
        },
        ..Record::BLANK
    };

    fn order(self) -> Result<u8> {
        match u8::try_from(self.n) {
            Ok(n) if self.n <= MOST => Ok(n),
            _ => Err(Error::Parameter {
                op: "polygamma",
                parameter: "n",
                expected: format!("a whole number from 0 to {MOST}"),
                got: self.n.to_string(),
            }),
        }
    }
}

impl Operation for Polygamma {
    fn record(&self) -> &'static Record {
        Polygamma::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.order()?;
        infer_unary("polygamma", inputs[0], Takes::Floats)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let (x, spec, n) = (inputs[0], specs.swap_remove(0), self.order()?);
        Ok(smallvec![map_real("polygamma", &Formulas(Psi { n }), [x], spec)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, x) = (call.grad(), call.inputs[0]);
        let rule = PsiGradient { n: self.order()?, limit: g.dtype().max_finite() };
        let spec = Spec { shape: g.shape().clone(), dtype: g.dtype() };
        call.one(|| map_real("polygamma_backward", &Formulas(rule), [g, x], spec))
    }
}
