//! Factors of symmetric matrices.

use super::*;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::shape::optional;
use extensor_derive::method;
use smallvec::smallvec;

/// The Cholesky factor of each symmetric positive definite matrix: the lower triangular `L` with
/// `L·Lᵀ = a`, or the upper triangular `U = Lᵀ` with `Uᵀ·U = a`.
///
/// Of a matrix that is not symmetric it is the symmetric part `½(a + aᵀ)` that counts, so the gradient is
/// symmetric. One that is not positive definite is an error.
///
/// Domain: symmetric positive definite matrices.
/// Conventions: the symmetric part of a counts; a matrix that is not positive definite is an error.
///
/// ```
/// use extensor::ops::{Triangle, cholesky};
/// use extensor::tensor;
/// let a = tensor([[4.0, 2.0], [2.0, 10.0]]);
/// assert_eq!(cholesky(&a, Triangle::Lower)?.to_vec::<f64>()?, [2.0, 0.0, 1.0, 3.0]);
/// let error = cholesky(&tensor([[1.0, 2.0], [2.0, 1.0]]), Triangle::Lower).unwrap_err();
/// assert_eq!(error.to_string(), "cholesky: the matrix is not positive definite");
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cholesky(a: &Tensor, triangle: Triangle) -> Result<Tensor> {
    apply_one(&Cholesky { upper: triangle.is_upper() }, &[a])
}

/// The gradient of [`cholesky`], from its output: the symmetric part of `L⁻ᵀ·Φ(Lᵀ·g)·L⁻¹`, where `Φ` is
/// the lower triangle with half the diagonal.
#[track_caller]
#[extensor_derive::noted]
pub fn cholesky_backward(grad_output: &Tensor, output: &Tensor, upper: Triangle) -> Result<Tensor> {
    let a = placeholder(output.shape(), output.dtype())?;
    let op = Cholesky { upper: upper.is_upper() };
    let [grad] = backward_of(&op, grad_output, &[&a], output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cholesky {
    upper: bool,
}

impl Cholesky {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "cholesky",
        family: Family::Linalg,
        formula: "L·Lᵀ = a, L lower triangular with a positive diagonal",
        derivative: "L′ = L·Φ(L⁻¹·a′·L⁻ᵀ), Φ the lower triangle with half the diagonal",
        domain: "symmetric positive definite matrices",
        conventions: "the symmetric part of a counts; a matrix that is not positive definite is an error",
        inputs: &[Input::new("a")],
        params: &[optional("upper", "whether to give Lᵀ, which is upper triangular", "false")],
        backward: signature!(cholesky_backward(grad_output, output; upper)),
        class: Class::Composite,
        needs: Needs::Outputs,
        build: |p| Ok(Box::new(Cholesky { upper: p.bool("cholesky", "upper", false)? })),
        dtypes: DTYPES,
        takes: |sample| sturdy(sample) && positive(&sample.inputs[0]),
        samples: |s| {
            let shapes: [&[usize]; 8] =
                [&[3, 3], &[1, 1], &[4, 4], &[2, 3, 3], &[0, 3, 3], &[0, 0], &[2, 0, 0], &[2, 2]];
            for (k, shape) in shapes.into_iter().enumerate() {
                let a = made(symmetric(&regular(s, shape)));
                s.add([a], Params::new().with("upper", k % 3 == 1));
            }
            let a = regular(s, &[3, 3]);
            s.add_noted([a.clone()], Params::new(), "not symmetric");
            s.add([a], Params::new().with("upper", true));
            let graded = crate::tensor([[100.0, 1.0, 0.0], [1.0, 2.0, 0.25], [0.0, 0.25, 1.0]]);
            s.add_noted([graded], Params::new(), "graded");
            let a = made(symmetric(&regular(s, &[40, 40])));
            s.add_large([a], Params::new(), "large");
        },
        errors: |bad| {
            bad_squares(bad, Params::new());
            let message = "cholesky: the matrix is not positive definite";
            bad.add([crate::tensor([[1.0, 2.0], [2.0, 1.0]])], Params::new(), message);
            let batch = crate::tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]]);
            let message = "matrix [1] of the batch is not positive definite";
            bad.add([batch], Params::new(), message);
            let a = bad.ones(&[1, 1], DType::F64);
            let number = Params::new().with("upper", 1);
            bad.add([a], number, "upper is 1, expected true or false");
        },
        ..Record::BLANK
    };
}

/// Whether all matrices are positive definite.
fn positive(x: &Tensor) -> bool {
    x.is_empty() || eigvalsh(x).is_ok_and(|values| values.to_f64_vec().iter().all(|v| *v > 0.0))
}

/// Calls that every operation of square matrices refuses.
pub(super) fn bad_squares(bad: &mut crate::ops::samples::Bad, params: Params) {
    let wide = bad.ones(&[2, 3], DType::F64);
    bad.add([wide], params.clone(), "a has shape [2, 3], expected square matrices");
    let vector = bad.ones(&[3], DType::F64);
    bad.add([vector], params.clone(), "a has shape [3], expected at least two axes");
    let whole = bad.ones(&[2, 2], DType::I64);
    bad.add([whole], params.clone(), "a has dtype i64, expected f32 or f64");
    let short = bad.ones(&[2, 2], DType::F16);
    bad.add([short], params, "a has dtype f16, expected f32 or f64; cast it");
}

/// The lower triangle of each matrix, with half its diagonal.
fn halved(x: &Tensor) -> Result<Tensor> {
    times(&ops::add(&ops::tril(x, 0)?, &ops::tril(x, -1)?)?, 0.5)
}

/// `t⁻¹·x` for a triangle `t`, or `t⁻ᵀ·x`.
fn without(t: &Tensor, x: &Tensor, transposed: bool) -> Result<Tensor> {
    solve_triangular(t, x, TriangularOptions::new().transposed(transposed))
}

impl Operation for Cholesky {
    fn record(&self) -> &'static Record {
        Cholesky::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        expect_square("cholesky", "a", inputs[0])?;
        Ok(spec(inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("cholesky", Linalg::Cholesky { upper: self.upper }, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let turned = |x: &Tensor| if self.upper { matrix_transpose(x) } else { Ok(x.clone()) };
        let (g, l) = (turned(call.grad())?, turned(call.output())?);
        call.one(|| {
            let inner = halved(&ops::matmul(&matrix_transpose(&l)?, &g)?)?;
            let left = without(&l, &inner, true)?;
            symmetric(&without(&l, &matrix_transpose(&left)?, true)?)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let y = call.outputs[0];
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        let l = if self.upper { matrix_transpose(y)? } else { y.clone() };
        let left = without(&l, &symmetric(tangent)?, false)?;
        let inner = without(&l, &matrix_transpose(&left)?, false)?;
        let along = ops::matmul(&l, &halved(&inner)?)?;
        Ok(smallvec![if self.upper { matrix_transpose(&along)? } else { along }])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        inputs[0].shape()[inputs[0].ndim() - 1]
    }
}
