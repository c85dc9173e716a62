//! What is made of decompositions: powers, ranks, condition numbers, least squares.

use super::pseudo::{bound_of, expect_tolerance};
use super::*;
use crate::autodiff::stop_gradient;
use crate::over;
use extensor_derive::method;

/// The `n`th power of each square matrix: a product of `n` of them, for a negative `n` of as many of their
/// inverses, for 0 the identity.
///
/// ```
/// use extensor::tensor;
/// let fibonacci = tensor([[1, 1], [1, 0]]).matrix_power(10)?;
/// assert_eq!(fibonacci.to_vec::<i32>()?, [89, 55, 55, 34]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn matrix_power(x: &Tensor, n: i64) -> Result<Tensor> {
    let op = "matrix_power";
    let size = match x.shape()[..] {
        [.., rows, columns] if rows == columns => rows,
        _ => {
            let (expected, got) = ("square matrices".into(), x.shape().clone());
            return Err(Error::Shape { op, argument: "x", expected, got });
        }
    };
    if n == 0 {
        return ops::broadcast_to(&Tensor::eye(size, size, x.dtype())?, x.shape());
    }
    let mut square = if n < 0 { inv(x)? } else { x.clone() };
    let (mut left, mut power) = (n.unsigned_abs(), None);
    loop {
        if left % 2 == 1 {
            power = Some(match power {
                Some(power) => ops::matmul(&power, &square)?,
                None => square.clone(),
            });
        }
        left /= 2;
        if left == 0 {
            break;
        }
        square = ops::matmul(&square, &square)?;
    }
    Ok(power.unwrap_or(square))
}

/// How many singular values of each matrix are not 0: those above `rtol` of the largest, which is the larger
/// side of the matrix times the dtype's ε if it is `None`. Counted as `i64`.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[1.0, 2.0], [2.0, 4.0]]);
/// assert_eq!(x.matrix_rank(None)?.item::<i64>()?, 1);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn matrix_rank(x: &Tensor, rtol: impl Into<Option<f64>>) -> Result<Tensor> {
    let sizes = expect_matrices("matrix_rank", "x", x)?;
    if sizes.contains(&0) {
        return Tensor::zeros(leading(x), DType::I64);
    }
    let s = svdvals(&stop_gradient(x))?;
    let rtol = rtol.into();
    expect_tolerance("matrix_rank", rtol)?;
    let some = ops::greater(&s, &bound_of(&s, sizes, rtol)?)?;
    ops::sum(&ops::cast(&some, DType::I64)?, -1)
}

/// How many times more an error of `b` may be in the solution of `x·y = b`: the norm of each matrix times
/// that of its inverse. By the largest and smallest singular value (and so for matrices that are not square,
/// and infinite for singular ones) with [`MatrixOrder::Two`]; with others than that and
/// [`MatrixOrder::MinusTwo`] a singular matrix is an error.
///
/// ```
/// use extensor::ops::MatrixOrder;
/// use extensor::tensor;
/// let x = tensor([[8.0, 0.0], [0.0, 2.0]]);
/// assert_eq!(x.cond(MatrixOrder::Two)?.item::<f64>()?, 4.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cond(x: &Tensor, order: MatrixOrder) -> Result<Tensor> {
    expect_matrices("cond", "x", x)?;
    if !matches!(order, MatrixOrder::Two | MatrixOrder::MinusTwo) {
        expect_square("cond", "x", x)?;
        return ops::multiply(&matrix_norm(x, order)?, &matrix_norm(&inv(x)?, order)?);
    }
    let s = svdvals(x)?;
    let (largest, smallest) = (ops::max_reduce(&s, over(-1))?, ops::min_reduce(&s, over(-1))?);
    if order == MatrixOrder::Two {
        ops::divide(&largest, &smallest)
    } else {
        ops::divide(&smallest, &largest)
    }
}

/// The shortest of the vectors `y` for which `a·y` is nearest to `b`, by [`pinv`]: of an overdetermined
/// system the solution by least squares. `b` is a vector or holds matrices, whose columns are solved for.
///
/// Singular values up to `rtol` of the largest count as 0, as in [`pinv`].
///
/// ```
/// use extensor::tensor;
/// let line = tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]);
/// let y = line.lstsq(&tensor([1.0, 3.0, 5.0]), None)?.to_vec::<f64>()?;
/// assert!((y[0] - 1.0).abs() < 1e-14 && (y[1] - 2.0).abs() < 1e-14);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn lstsq(a: &Tensor, b: &Tensor, rtol: impl Into<Option<f64>>) -> Result<Tensor> {
    let [rows, _] = expect_matrices("lstsq", "a", a)?;
    let given = b.shape().iter().rev().nth(usize::from(b.ndim() > 1)).copied();
    if given != Some(rows) {
        let expected = format!("{rows} rows, as many as a of shape {} has", a.shape());
        let got = b.shape().clone();
        return Err(Error::Shape { op: "lstsq", argument: "b", expected, got });
    }
    ops::matmul(&pinv(a, rtol)?, b)
}
