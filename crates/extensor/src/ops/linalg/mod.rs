//! Decompositions of matrices, what is solved with them, and norms.
//!
//! The two last axes are the matrices', those before a batch. Matrices are of `f32` or `f64`. A matrix with
//! a number in it that is not finite gives NaN; one that an operation cannot be applied to (it is singular,
//! it is not positive definite) is an error that says which of the batch it is.

pub(super) mod cholesky;
mod compose;
pub(super) mod determinant;
pub(super) mod eigen;
pub(super) mod exponential;
mod norms;
pub(super) mod orthogonal;
pub(super) mod pseudo;
pub(super) mod singular;
pub(super) mod solve;
pub(super) mod triangular;

pub use cholesky::*;
pub use compose::*;
pub use determinant::*;
pub use eigen::*;
pub use exponential::*;
pub use norms::*;
pub use orthogonal::*;
pub use pseudo::*;
pub use singular::*;
pub use solve::*;
pub use triangular::*;

use crate::exec::launch;
use crate::exec::linalg::Linalg;
use crate::ops::operation::{Outputs, Specs};
use crate::ops::samples::{Sample, Sampler};
use crate::tensor::broadcast;
use crate::{DType, Error, Result, Shape, Tensor, ops};

/// What matrices are made of.
const DTYPES: &[DType] = &[DType::F32, DType::F64];

/// Which vectors [`qr`] and [`svd`] give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Basis {
    /// As many as the smaller side of the matrix.
    #[default]
    Reduced,
    /// A basis of the whole space.
    Complete,
}

/// A half of a matrix, with its diagonal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Triangle {
    /// What lies on the diagonal and below it.
    #[default]
    Lower,
    /// What lies on the diagonal and above it.
    Upper,
}

impl Triangle {
    fn is_upper(self) -> bool {
        self == Triangle::Upper
    }
}

/// An error unless an argument holds matrices that can be decomposed.
fn expect_matrices(op: &'static str, argument: &'static str, x: &Tensor) -> Result<[usize; 2]> {
    if !DTYPES.contains(&x.dtype()) {
        let (expected, got) = ("f32 or f64; cast it", x.dtype());
        return Err(Error::DType { op, argument, expected, got });
    }
    match x.shape()[..] {
        [.., rows, columns] => Ok([rows, columns]),
        _ => {
            let (expected, got) = ("at least two axes".into(), x.shape().clone());
            Err(Error::Shape { op, argument, expected, got })
        }
    }
}

/// An error unless they are square, too.
fn expect_square(op: &'static str, argument: &'static str, x: &Tensor) -> Result<usize> {
    let [rows, columns] = expect_matrices(op, argument, x)?;
    if rows == columns {
        return Ok(rows);
    }
    let (expected, got) = ("square matrices".into(), x.shape().clone());
    Err(Error::Shape { op, argument, expected, got })
}

/// The axes before the matrices.
fn leading(x: &Tensor) -> Shape {
    Shape::from(&x.shape()[..x.ndim() - 2])
}

/// A shape and more axes after it.
fn with_sizes(shape: &Shape, sizes: &[usize]) -> Shape {
    shape.iter().chain(sizes).copied().collect()
}

/// The shape that a matrix and a right side give together: [`solve`] and [`solve_triangular`].
fn solved_shape(op: &'static str, n: usize, a: &Tensor, b: &Tensor) -> Result<Shape> {
    let wrong = |expected: String| {
        let got = b.shape().clone();
        Err(Error::Shape { op, argument: "b", expected, got })
    };
    if !DTYPES.contains(&b.dtype()) {
        let (expected, got) = ("f32 or f64; cast it", b.dtype());
        return Err(Error::DType { op, argument: "b", expected, got });
    }
    match b.shape()[..] {
        [rows] if rows == n => Ok(with_sizes(&leading(a), &[n])),
        [.., rows, columns] if rows == n => {
            let batch = broadcast(op, &leading(a), &leading(b))?;
            let shape = with_sizes(&batch, &[n, columns]);
            shape.count(op)?;
            Ok(shape)
        }
        _ => wrong(format!("{n} rows, as many as a of shape {} has", a.shape())),
    }
}

/// A matrix and a right side of one dtype and batch, in which a vector is a matrix of one column.
fn sides(a: &Tensor, b: &Tensor, dtype: DType) -> Result<[Tensor; 2]> {
    let a = ops::cast(a, dtype)?;
    let b = as_matrix(&ops::cast(b, dtype)?, b.ndim() == 1)?;
    let batch = broadcast("solve", &leading(&a), &leading(&b))?;
    let wide = |x: &Tensor| {
        let shape = with_sizes(&batch, &x.shape()[x.ndim() - 2..]);
        if *x.shape() == shape { Ok(x.clone()) } else { ops::broadcast_to(x, &shape) }
    };
    Ok([wide(&a)?, wide(&b)?])
}

/// A vector, or a batch of them, as matrices of one column.
fn as_matrix(b: &Tensor, vector: bool) -> Result<Tensor> {
    if vector { ops::expand_dims(b, -1) } else { Ok(b.clone()) }
}

/// Runs a kernel, which wants its inputs in row-major order.
fn run(op: &'static str, kernel: Linalg, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
    let inputs: Vec<Tensor> = inputs.iter().map(|x| x.contiguous()).collect::<Result<_>>()?;
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    launch(op, &kernel, &inputs, specs)
}

/// The transpose of each matrix `x`: its two last axes exchanged. A view.
///
/// ```
/// use extensor::tensor;
/// let x = tensor([[[1, 2, 3], [4, 5, 6]]]);
/// assert_eq!(x.matrix_transpose()?.to_vec::<i32>()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[extensor_derive::method]
#[track_caller]
pub fn matrix_transpose(x: &Tensor) -> Result<Tensor> {
    let n = x.ndim() as i64;
    if n < 2 {
        let (expected, got) = ("at least two axes".into(), x.shape().clone());
        return Err(Error::Shape { op: "matrix_transpose", argument: "x", expected, got });
    }
    let axes: Vec<i64> = (0..n - 2).chain([n - 1, n - 2]).collect();
    ops::transpose(x, &axes)
}

/// A multiple of a tensor.
fn times(x: &Tensor, factor: f64) -> Result<Tensor> {
    ops::multiply(x, &Tensor::scalar_of(factor, x.dtype())?)
}

/// The symmetric part of each matrix.
fn symmetric(x: &Tensor) -> Result<Tensor> {
    times(&ops::add(x, &matrix_transpose(x)?)?, 0.5)
}

/// The columns of each matrix, times the numbers of a vector.
fn scale_columns(x: &Tensor, numbers: &Tensor) -> Result<Tensor> {
    ops::multiply(x, &ops::expand_dims(numbers, -2)?)
}

/// The diagonal of each square matrix, as vectors.
fn diagonal_of(x: &Tensor) -> Result<Tensor> {
    let n = x.shape()[x.ndim() - 1];
    let eye = Tensor::eye(n, n, x.dtype())?;
    ops::sum(&ops::where_(&ops::not_equal(&eye, &eye.zeros_like()?)?, x, &x.zeros_like()?)?, -1)
}

/// Square matrices with these diagonals.
fn with_diagonal(numbers: &Tensor) -> Result<Tensor> {
    let n = numbers.shape()[numbers.ndim() - 1];
    let eye = Tensor::eye(n, n, numbers.dtype())?;
    let wide = ops::expand_dims(numbers, -1)?;
    let zero = Tensor::scalar_of(0.0, numbers.dtype())?;
    ops::where_(&ops::not_equal(&eye, &zero)?, &wide, &zero)
}

/// How many numbers are added up on the way to one of a matrix's values or vectors: about four times each row
/// or column is turned (reduced, iterated, and back), and each turn is a sum over its length.
fn turns(x: &Tensor) -> usize {
    4 * x.shape()[x.ndim() - 2..].iter().map(|n| n * n).max().unwrap_or(1)
}

/// Samples of matrices that are far from singular, with singular values and eigenvalues that are apart.
fn regular(s: &mut Sampler, shape: &[usize]) -> Tensor {
    let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    let spread = 0.4 * (4.0 / rows.max(columns).max(1) as f64).min(1.0);
    let mut values = s.uniform(-spread, spread, shape).to_f64_vec();
    for (at, value) in values.iter_mut().enumerate() {
        let (row, column) = (at / columns % rows, at % columns);
        if row == column {
            *value += 1.5 + 0.9 * row as f64;
        }
    }
    made(Tensor::from_vec(values, shape))
}

/// Samples are written here: their shapes are right.
fn made(x: Result<Tensor>) -> Tensor {
    x.unwrap_or_else(|error| panic!("a sample cannot be made: {error}"))
}

/// Whether all matrices of the first input are far from singular.
fn sturdy(sample: &Sample) -> bool {
    let x = &sample.inputs[0];
    let Ok(s) = svdvals(x) else { return false };
    let short = s.shape()[s.ndim() - 1];
    let rows = s.to_f64_vec();
    short == 0 || rows.chunks(short).all(|s| s[short - 1] > 0.03 * s[0])
}

/// Whether these numbers, in order, are apart from each other.
fn are_apart(values: &Tensor) -> bool {
    let n = values.shape()[values.ndim() - 1];
    let all = values.to_f64_vec();
    n < 2
        || all.chunks(n).all(|row| {
            let largest = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            row.windows(2).all(|pair| (pair[0] - pair[1]).abs() > 0.03 * largest)
        })
}
