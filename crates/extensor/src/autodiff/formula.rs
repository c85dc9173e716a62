//! Formulas on traced tensors: the steps of a formula, each as an operation.

use crate::operation::Spec;
use crate::{DType, Result, Tensor, ops};
use extensor_kernels::symbol::{Binary, Compare, Program, Step, Unary};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// What a formula gives on tensors of which some are traced: every step is an operation, so the
/// result can be differentiated.
pub(crate) fn formula(program: &Program, inputs: &[&Tensor], spec: Spec) -> Result<Tensor> {
    // Reduced precisions are computed in f32 and rounded once.
    let wide = match spec.dtype {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    };
    let mut values: Vec<Tensor> = Vec::with_capacity(program.steps.len());
    for step in &program.steps {
        values.push(run(step, inputs, &values, wide)?);
    }
    let result = &values[program.result];
    ops::cast(&ops::broadcast_to(result, &spec.shape)?, spec.dtype)
}

fn run(step: &Step, inputs: &[&Tensor], values: &[Tensor], dtype: DType) -> Result<Tensor> {
    match *step {
        Step::Variable(k) => ops::cast(inputs[k], dtype),
        Step::Constant(c) => Tensor::scalar_of(c, dtype),
        Step::Unary(f, x) => unary(f, &values[x]),
        Step::Binary(f, a, b) => binary(f, &values[a], &values[b]),
        Step::Compare(question, a, b) => {
            let (a, b) = (values[a].primal(), values[b].primal());
            match question {
                Compare::Equal => ops::equal(a, b),
                Compare::Less => ops::less(a, b),
                Compare::LessEqual => ops::less_equal(a, b),
            }
        }
        Step::And(a, b) => ops::logical_and(&values[a], &values[b]),
        Step::Or(a, b) => ops::logical_or(&values[a], &values[b]),
        Step::Not(a) => ops::logical_not(&values[a]),
        Step::Select(mask, a, b) => ops::where_(&values[mask], &values[a], &values[b]),
    }
}

fn unary(f: Unary, x: &Tensor) -> Result<Tensor> {
    let constant = |c: f64| Tensor::scalar_of(c, x.dtype());
    match f {
        Unary::Negate => ops::negate(x),
        Unary::Abs => ops::abs(x),
        Unary::Sqrt => ops::sqrt(x),
        Unary::Floor => ops::floor(x),
        Unary::Ceil => ops::ceil(x),
        Unary::Round => ops::round(x),
        Unary::Trunc => ops::trunc(x),
        Unary::Exp => ops::exp(x),
        Unary::Expm1 => ops::expm1(x),
        Unary::Log => ops::log(x),
        Unary::Log1p => ops::log1p(x),
        Unary::Log2 => ops::log2(x),
        Unary::Log10 => ops::log10(x),
        Unary::Sin => ops::sin(x),
        Unary::Cos => ops::cos(x),
        Unary::Tan => ops::tan(x),
        Unary::Asin => ops::asin(x),
        Unary::Acos => ops::acos(x),
        Unary::Atan => ops::atan(x),
        Unary::Sinh => ops::sinh(x),
        Unary::Cosh => ops::cosh(x),
        Unary::Asinh => ops::asinh(x),
        Unary::Acosh => ops::acosh(x),
        Unary::Atanh => ops::atanh(x),
        Unary::Erf => ops::erf(x),
        Unary::Erfc => ops::erfc(x),
        Unary::Tanh => ops::tanh(x),
        Unary::Sigmoid => ops::sigmoid(x),
        Unary::Softplus => ops::softplus(x),
        Unary::Gelu => ops::gelu(x, false),
        Unary::GeluSlope => {
            // ½·erfc(−x/√2) + x·e^(−x²/2)/√(2π)
            let scaled = ops::multiply(x, &constant(-FRAC_1_SQRT_2)?)?;
            let below = ops::multiply(&ops::erfc(&scaled)?, &constant(0.5)?)?;
            let bell = ops::exp(&ops::multiply(&ops::square(x)?, &constant(-0.5)?)?)?;
            let density = ops::multiply(&bell, &constant(FRAC_1_SQRT_2 * 0.5 * FRAC_2_SQRT_PI)?)?;
            ops::add(&below, &ops::multiply(x, &density)?)
        }
    }
}

fn binary(f: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match f {
        Binary::Add => ops::add(a, b),
        Binary::Subtract => ops::subtract(a, b),
        Binary::Multiply => ops::multiply(a, b),
        Binary::Divide => ops::divide(a, b),
        Binary::Maximum => ops::maximum(a, b),
        Binary::Minimum => ops::minimum(a, b),
        Binary::FloorDivide => ops::floor_divide(a, b),
        Binary::Modulo => ops::modulo(a, b),
        Binary::Power => ops::power(a, b),
        Binary::Atan2 => ops::atan2(a, b),
        Binary::Hypot => ops::hypot(a, b),
        Binary::CopySign => {
            let negative = ops::signbit(b.primal())?;
            let size = ops::abs(a)?;
            ops::where_(&negative, &ops::negate(&size)?, &size)
        }
    }
}
