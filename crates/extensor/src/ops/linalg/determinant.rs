//! Determinants.

use super::cholesky::bad_squares;
use super::*;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{Spec, apply, apply_one, backward, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::over;
use extensor_derive::method;
use smallvec::smallvec;
use std::borrow::Borrow;

/// The determinant of each matrix.
///
/// It is smooth, and its first derivative exact, at singular matrices too; higher derivatives are made with
/// the inverse, and at a singular matrix an error.
///
/// Conventions: of a matrix of no rows it is 1.
///
/// ```
/// use extensor::ops::det;
/// use extensor::tensor;
/// let y = det(&tensor([[1.0, 2.0], [3.0, 4.0]]))?.item::<f64>()?;
/// assert!((y + 2.0).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn det(a: &Tensor) -> Result<Tensor> {
    apply_one(&Det, &[a])
}

/// The gradient of [`det`]: `g` times the cofactors, the determinants of what is left without a row and a
/// column, with their signs.
#[track_caller]
#[extensor_derive::noted]
pub fn det_backward(grad_output: &Tensor, a: &Tensor) -> Result<Tensor> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Det, grad_output, &[a], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Det;

/// The shapes that determinants are tested with.
const SHAPES: [&[usize]; 8] =
    [&[3, 3], &[1, 1], &[4, 4], &[2, 3, 3], &[0, 3, 3], &[0, 0], &[2, 0, 0], &[2, 1, 2, 2]];

impl Det {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "det",
        family: Family::Linalg,
        formula: "y = det(a)",
        derivative: "y′ = Σ cᵢⱼ·aᵢⱼ′, c the cofactors",
        conventions: "of a matrix of no rows it is 1",
        inputs: &[Input::new("a")],
        backward: signature!(det_backward(grad_output, a)),
        class: Class::Composite,
        build: |_| Ok(Box::new(Det)),
        dtypes: DTYPES,
        takes: sturdy,
        samples: |s| {
            for shape in SHAPES {
                let a = regular(s, shape);
                s.add([a], Params::new());
            }
            let a = regular(s, &[20, 20]);
            s.add_large([times_identity(&a)], Params::new(), "large");
        },
        errors: |bad| bad_squares(bad, Params::new()),
        ..Record::BLANK
    };
}

/// A matrix nearer to 1, so that its determinant is not large.
fn times_identity(a: &Tensor) -> Tensor {
    let n = a.shape()[a.ndim() - 1];
    let scale = (0..n * n).map(|at| 1.0 / (1.5 + 0.9 * (at / n) as f64)).collect();
    made(Tensor::from_vec(scale, [n, n]).and_then(|scale| ops::multiply(a, &scale)))
}

/// Numbers of matrices, as matrices of one number.
fn wide(x: &Tensor) -> Result<Tensor> {
    ops::expand_dims(&ops::expand_dims(x, -1)?, -1)
}

/// The sum of the products of two matrices' numbers, as matrices of one number.
fn inner(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sum(&ops::multiply(a, b)?, over([-2, -1]).keepdims(true))
}

impl Operation for Det {
    fn record(&self) -> &'static Record {
        Det::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        expect_square("det", "a", inputs[0])?;
        Ok(spec(leading(inputs[0]), inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("det", Linalg::Det, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| ops::multiply(&wide(call.grad())?, &apply_one(&Cofactors, &[call.inputs[0]])?))
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let y = call.outputs[0];
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        let along = inner(&apply_one(&Cofactors, &[call.inputs[0]])?, tangent)?;
        Ok(smallvec![ops::reshape(&along, y.shape())?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        turns(inputs[0])
    }
}

/// The cofactors of matrices, `det(a)·a⁻ᵀ` where there is an inverse. Not in the catalogue: the derivative
/// of [`det`].
#[derive(Clone, Copy, Debug)]
struct Cofactors;

static COFACTORS: Record = Record {
    name: "cofactors",
    family: Family::Linalg,
    formula: "c = det(a)·a⁻ᵀ",
    derivative: "c′ = <a⁻ᵀ, a′>·c − c·(a′)ᵀ·a⁻ᵀ",
    inputs: &[Input::new("a")],
    class: Class::Composite,
    needs: Needs::InputsAndOutputs,
    dtypes: DTYPES,
    ..Record::BLANK
};

impl Operation for Cofactors {
    fn record(&self) -> &'static Record {
        &COFACTORS
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        expect_square("cofactors", "a", inputs[0])?;
        Ok(spec(inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("cofactors", Linalg::Cofactors, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, c) = (call.grad(), call.output());
        call.one(|| {
            let back = matrix_transpose(&inv(call.inputs[0])?)?;
            let turned = ops::matmul(&ops::matmul(&back, &matrix_transpose(g)?)?, c)?;
            ops::subtract(&ops::multiply(&inner(g, c)?, &back)?, &turned)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let c = call.outputs[0];
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![c.zeros_like()?]) };
        let back = matrix_transpose(&inv(call.inputs[0])?)?;
        let turned = ops::matmul(&ops::matmul(c, &matrix_transpose(tangent)?)?, &back)?;
        let along = ops::subtract(&ops::multiply(&inner(&back, tangent)?, c)?, &turned)?;
        Ok(smallvec![along])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        turns(inputs[0])
    }
}

/// The sign of each matrix's determinant, and the logarithm of its size: where [`det`] itself would be too
/// large or too small.
///
/// Of a singular matrix they are 0 and −∞, and the derivative an error; that of the sign is 0.
///
/// Domain: matrices that are not singular.
/// Conventions: of a singular matrix the results are 0 and −∞, and the derivative an error.
///
/// ```
/// use extensor::ops::slogdet;
/// use extensor::tensor;
/// let (sign, log) = slogdet(&tensor([[1.0, 2.0], [3.0, 4.0]]))?;
/// assert_eq!(sign.item::<f64>()?, -1.0);
/// assert!((log.item::<f64>()? - 2f64.ln()).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut outputs = apply(&Slogdet, &[a])?;
    let log = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), log))
}

/// The gradient of [`slogdet`], from those of the sign and of the logarithm: the second's times `a⁻ᵀ`.
#[track_caller]
#[extensor_derive::noted]
pub fn slogdet_backward(grad_outputs: &[impl Borrow<Tensor>], a: &Tensor) -> Result<Tensor> {
    let y = match a.ndim() {
        0 | 1 => placeholder(&Shape::scalar(), a.dtype())?,
        _ => placeholder(&leading(a), a.dtype())?,
    };
    pulled(&Slogdet, grad_outputs, a, &[&y, &y])
}

/// The gradient of an operation that has several results, for its only input.
#[track_caller]
pub(super) fn pulled(
    op: &dyn Operation,
    grad_outputs: &[impl Borrow<Tensor>],
    a: &Tensor,
    outputs: &[impl Borrow<Tensor>],
) -> Result<Tensor> {
    let name = op.record().backward_name();
    let grads: Vec<&Tensor> = grad_outputs.iter().map(Borrow::borrow).collect();
    let outputs: Vec<&Tensor> = outputs.iter().map(Borrow::borrow).collect();
    let specs = op.infer(&[a])?;
    let fits = |(y, spec): (&&Tensor, &Spec)| *y.shape() == spec.shape && y.dtype() == spec.dtype;
    if outputs.len() != specs.len() || !outputs.iter().zip(&specs).all(fits) {
        let all = |list: Vec<String>| list.join(", ");
        let expected = all(specs.iter().map(|s| format!("{}{}", s.dtype, s.shape)).collect());
        let got = all(outputs.iter().map(|y| format!("{}{}", y.dtype(), y.shape())).collect());
        return Err(Error::Parameter { op: name, parameter: "outputs", expected, got });
    }
    let grads = backward(op, &grads, &[a], &outputs, &[true])?;
    let reason = "its rule returned no gradient";
    let (op, argument) = (op.record().name, "an input".into());
    grads.into_iter().flatten().next().ok_or(Error::NotDifferentiable { op, argument, reason })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slogdet;

impl Slogdet {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "slogdet",
        family: Family::Linalg,
        formula: "sign, y = sign(det(a)), ln|det(a)|",
        derivative: "y′ = <a⁻ᵀ, a′>",
        domain: "matrices that are not singular",
        conventions: "of a singular matrix the results are 0 and −∞, and the derivative an error",
        inputs: &[Input::new("a")],
        backward: signature!(slogdet_backward(grad_outputs, a)),
        class: Class::Composite,
        build: |_| Ok(Box::new(Slogdet)),
        dtypes: DTYPES,
        takes: sturdy,
        samples: |s| {
            for shape in SHAPES {
                let a = regular(s, shape);
                s.add([a], Params::new());
            }
            let a = ops::multiply(&regular(s, &[3, 3]), &crate::tensor([[-1.0], [1.0], [1.0]]));
            s.add_noted([made(a)], Params::new(), "a negative determinant");
            let a = regular(s, &[40, 40]);
            s.add_large([a], Params::new(), "large");
        },
        errors: |bad| bad_squares(bad, Params::new()),
        ..Record::BLANK
    };
}

impl Operation for Slogdet {
    fn record(&self) -> &'static Record {
        Slogdet::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        expect_square("slogdet", "a", inputs[0])?;
        let one = Spec { shape: leading(inputs[0]), dtype: inputs[0].dtype() };
        Ok(smallvec![one.clone(), one])
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("slogdet", Linalg::Slogdet, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| {
            let back = matrix_transpose(&inv(call.inputs[0])?)?;
            ops::multiply(&wide(call.grads[1])?, &back)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (sign, y) = (call.outputs[0], call.outputs[1]);
        let still = sign.zeros_like()?;
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![still.clone(), still]) };
        let back = matrix_transpose(&inv(call.inputs[0])?)?;
        Ok(smallvec![still, ops::reshape(&inner(&back, tangent)?, y.shape())?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        turns(inputs[0])
    }
}
