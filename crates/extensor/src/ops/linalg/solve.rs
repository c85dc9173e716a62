//! Equations, and inverses.

use super::cholesky::bad_squares;
use super::triangular::{SIDES, bad_sides, like, right_side, summed_side};
use super::*;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{apply_one, backward_of, placeholder, reduce_to_shape, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::promote;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use extensor_derive::method;
use smallvec::smallvec;

/// The solution `y` of `a·y = b`.
///
/// `b` is a vector or holds matrices, whose columns are solved for; leading axes broadcast. A singular
/// matrix is an error.
///
/// Domain: matrices that are not singular.
/// Conventions: a singular matrix is an error.
///
/// ```
/// use extensor::ops::solve;
/// use extensor::tensor;
/// let a = tensor([[2.0, 1.0], [1.0, 3.0]]);
/// let y = solve(&a, &tensor([4.0, 7.0]))?.to_vec::<f64>()?;
/// assert!((y[0] - 1.0).abs() < 1e-15 && (y[1] - 2.0).abs() < 1e-15);
/// let error = solve(&tensor([[1.0, 2.0], [2.0, 4.0]]), &tensor([1.0, 1.0])).unwrap_err();
/// assert_eq!(error.to_string(), "solve: the matrix is singular");
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn solve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    apply_one(&Solve, &[a, b])
}

/// The gradients of [`solve`], from `a` and its output: `(−h·yᵀ, h)` with `h = a⁻ᵀ·g`, each summed to its
/// operand's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn solve_backward(
    grad_output: &Tensor,
    a: &Tensor,
    b: &Tensor,
    output: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let [da, db] = backward_of(&Solve, grad_output, &[a, b], output)?;
    Ok((da, db))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Solve;

impl Solve {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "solve",
        family: Family::Linalg,
        formula: "a·y = b",
        derivative: "y′ = a⁻¹·(b′ − a′·y)",
        domain: "matrices that are not singular",
        conventions: "a singular matrix is an error",
        inputs: &[Input::new("a"), Input::new("b")],
        backward: signature!(solve_backward(grad_output, a, b, output)),
        class: Class::Composite,
        needs: Needs::InputsAndOutputs,
        build: |_| Ok(Box::new(Solve)),
        dtypes: DTYPES,
        takes: sturdy,
        samples: |s| {
            for (a, b) in SIDES {
                let inputs = [regular(s, a), s.normal(b)];
                s.add(inputs, Params::new());
            }
            let exchanged = crate::tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 1.0], [3.0, 0.0, 0.0]]);
            let inputs = [exchanged, s.normal(&[3])];
            s.add_noted(inputs, Params::new(), "rows to be exchanged");
            let inputs = [regular(s, &[40, 40]), s.normal(&[40, 30])];
            s.add_large(inputs, Params::new(), "large");
        },
        errors: |bad| {
            bad_sides(bad);
            let a = crate::tensor([[1.0, 2.0], [2.0, 4.0]]);
            let b = bad.ones(&[2], DType::F64);
            bad.add([a, b], Params::new(), "solve: the matrix is singular");
            let a = crate::tensor([[[[1.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]]);
            let b = bad.ones(&[2], DType::F64);
            bad.add([a, b], Params::new(), "solve: matrix [0, 1] of the batch is singular");
        },
        ..Record::BLANK
    };
}

impl Operation for Solve {
    fn record(&self) -> &'static Record {
        Solve::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, [a, b]) = ("solve", [inputs[0], inputs[1]]);
        let n = expect_square(op, "a", a)?;
        Ok(spec(solved_shape(op, n, a, b)?, promote(op, a, b)?))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let [a, b] = sides(inputs[0], inputs[1], specs[0].dtype)?;
        run("solve", Linalg::Solve, &[&a, &b], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = "solve_backward";
        let [a, b] = [call.inputs[0], call.inputs[1]];
        let vector = b.ndim() == 1;
        let (g, y) = (as_matrix(call.grad(), vector)?, as_matrix(call.output(), vector)?);
        let h = solve(&matrix_transpose(a)?, &g)?;
        call.two(
            || {
                let outer = ops::matmul(&h, &matrix_transpose(&y)?)?;
                reduce_to_shape(op, &ops::negate(&outer)?, a.shape())
            },
            || summed_side(op, &h, b),
        )
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let [a, b] = [call.inputs[0], call.inputs[1]];
        let (y, vector) = (call.outputs[0], b.ndim() == 1);
        let turned = call.tangents[0]
            .map(|tangent| ops::negate(&ops::matmul(tangent, &as_matrix(y, vector)?)?));
        let Some(right) = right_side(turned.transpose()?, call.tangents[1], vector)? else {
            return Ok(smallvec![y.zeros_like()?]);
        };
        Ok(smallvec![like(&solve(a, &right)?, y)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        inputs[0].shape()[inputs[0].ndim() - 1]
    }
}

/// The inverse of each matrix. [`solve`] is faster and more exact where the inverse is only multiplied
/// with. A singular matrix is an error.
///
/// Domain: matrices that are not singular.
/// Conventions: a singular matrix is an error.
///
/// ```
/// use extensor::ops::inv;
/// use extensor::tensor;
/// let y = inv(&tensor([[2.0, 0.0], [0.0, 4.0]]))?;
/// assert_eq!(y.to_vec::<f64>()?, [0.5, 0.0, 0.0, 0.25]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn inv(a: &Tensor) -> Result<Tensor> {
    apply_one(&Inv, &[a])
}

/// The gradient of [`inv`], from its output: `−yᵀ·g·yᵀ`.
#[track_caller]
#[extensor_derive::noted]
pub fn inv_backward(grad_output: &Tensor, output: &Tensor) -> Result<Tensor> {
    let a = placeholder(output.shape(), output.dtype())?;
    let [grad] = backward_of(&Inv, grad_output, &[&a], output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Inv;

impl Inv {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "inv",
        family: Family::Linalg,
        formula: "a·y = 1",
        derivative: "y′ = −y·a′·y",
        domain: "matrices that are not singular",
        conventions: "a singular matrix is an error",
        inputs: &[Input::new("a")],
        backward: signature!(inv_backward(grad_output, output)),
        class: Class::Composite,
        needs: Needs::Outputs,
        build: |_| Ok(Box::new(Inv)),
        dtypes: DTYPES,
        takes: sturdy,
        samples: |s| {
            let shapes: [&[usize]; 7] =
                [&[3, 3], &[1, 1], &[4, 4], &[2, 3, 3], &[0, 3, 3], &[0, 0], &[2, 1, 2, 2]];
            for shape in shapes {
                let a = regular(s, shape);
                s.add([a], Params::new());
            }
            let a = regular(s, &[40, 40]);
            s.add_large([a], Params::new(), "large");
        },
        errors: |bad| {
            bad_squares(bad, Params::new());
            let a = crate::tensor([[1.0, 2.0], [2.0, 4.0]]);
            bad.add([a], Params::new(), "inv: the matrix is singular");
        },
        ..Record::BLANK
    };
}

impl Operation for Inv {
    fn record(&self) -> &'static Record {
        Inv::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        expect_square("inv", "a", inputs[0])?;
        Ok(spec(inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("inv", Linalg::Inverse, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| {
            let y = matrix_transpose(call.output())?;
            ops::negate(&ops::matmul(&ops::matmul(&y, call.grad())?, &y)?)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let y = call.outputs[0];
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        Ok(smallvec![ops::negate(&ops::matmul(&ops::matmul(y, tangent)?, y)?)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        inputs[0].shape()[inputs[0].ndim() - 1]
    }
}
