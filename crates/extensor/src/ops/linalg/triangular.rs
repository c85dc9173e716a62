//! Equations with triangular matrices.

use super::*;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{apply_one, backward_of, reduce_to_shape, spec};
use crate::ops::options::options;
use crate::ops::params::Params;
use crate::ops::pointwise::promote;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::shape::optional;
use extensor_derive::method;
use smallvec::smallvec;

options! {
    /// Which triangle [`solve_triangular`] reads of a matrix, and how.
    pub struct TriangularOptions {
        /// Whether it is the upper one, not the lower.
        upper: bool = false,
        /// Whether its transpose is meant.
        transposed: bool = false,
        /// Whether its diagonal is 1, whatever stands there.
        unit_diagonal: bool = false,
    }
}

impl From<Triangle> for TriangularOptions {
    fn from(triangle: Triangle) -> TriangularOptions {
        TriangularOptions::new().upper(triangle.is_upper())
    }
}

/// The solution `y` of `t·y = b`, where `t` is a triangle of `a`: the lower one, or as the options say.
///
/// `b` is a vector or holds matrices; leading axes broadcast. The rest of `a` is not read.
///
/// Domain: no 0 on the diagonal.
/// Conventions: what is not of the triangle is not read; a matrix with 0 on its diagonal is an error.
///
/// ```
/// use extensor::ops::{Triangle, TriangularOptions, solve_triangular};
/// use extensor::tensor;
/// let a = tensor([[2.0, 0.0], [1.0, 4.0]]);
/// let y = solve_triangular(&a, &tensor([2.0, 9.0]), Triangle::Lower)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0]);
/// let transposed = TriangularOptions::new().transposed(true);
/// let y = solve_triangular(&a, &tensor([4.0, 8.0]), transposed)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn solve_triangular(
    a: &Tensor,
    b: &Tensor,
    options: impl Into<TriangularOptions>,
) -> Result<Tensor> {
    apply_one(&SolveTriangular { options: options.into() }, &[a, b])
}

/// The gradients of [`solve_triangular`], from `a` and its output: `(the triangle of −h·yᵀ, h)` with
/// `h = t⁻ᵀ·g`, each summed to its operand's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn solve_triangular_backward(
    grad_output: &Tensor,
    a: &Tensor,
    b: &Tensor,
    output: &Tensor,
    options: impl Into<TriangularOptions>,
) -> Result<(Tensor, Tensor)> {
    let op = SolveTriangular { options: options.into() };
    let [da, db] = backward_of(&op, grad_output, &[a, b], output)?;
    Ok((da, db))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SolveTriangular {
    options: TriangularOptions,
}

impl SolveTriangular {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "solve_triangular",
        family: Family::Linalg,
        formula: "t·y = b, t a triangle of a",
        derivative: "y′ = t⁻¹·(b′ − t′·y)",
        domain: "no 0 on the diagonal",
        conventions: "what is not of the triangle is not read; a matrix with 0 on its diagonal is an error",
        inputs: &[Input::new("a"), Input::new("b")],
        params: &[
            optional("upper", "whether the upper triangle is read, not the lower", "false"),
            optional("transposed", "whether the triangle's transpose is meant", "false"),
            optional("unit_diagonal", "whether the diagonal is 1, whatever is there", "false"),
        ],
        backward: signature!(
            solve_triangular_backward(grad_output, a, b, output; upper, transposed, unit_diagonal)
        ),
        class: Class::Composite,
        needs: Needs::InputsAndOutputs,
        build: |p| {
            let flag = |name| p.bool("solve_triangular", name, false);
            let options = TriangularOptions {
                upper: flag("upper")?,
                transposed: flag("transposed")?,
                unit_diagonal: flag("unit_diagonal")?,
            };
            Ok(Box::new(SolveTriangular { options }))
        },
        dtypes: DTYPES,
        takes: |sample| diagonals_are_large(&sample.inputs[0]),
        samples: |s| {
            for (k, (a, b)) in SIDES.into_iter().enumerate() {
                let inputs = [regular(s, a), s.normal(b)];
                let flag = |bit: usize| k >> bit & 1 == 1;
                let params = Params::new().with("upper", flag(0)).with("transposed", flag(1));
                s.add(inputs, params.with("unit_diagonal", k % 5 == 4));
            }
            let inputs = [regular(s, &[40, 40]), s.normal(&[40, 150])];
            s.add_large(inputs, Params::new(), "large");
        },
        errors: |bad| {
            bad_sides(bad);
            let a = crate::tensor([[1.0, 2.0], [2.0, 0.0]]);
            let b = bad.ones(&[2], DType::F64);
            bad.add([a, b], Params::new(), "solve_triangular: the matrix is singular");
        },
        ..Record::BLANK
    };
}

/// Shapes of matrices and right sides.
pub(super) const SIDES: [(&[usize], &[usize]); 14] = [
    (&[3, 3], &[3]),
    (&[3, 3], &[3, 2]),
    (&[4, 4], &[4, 4]),
    (&[2, 3, 3], &[2, 3, 2]),
    (&[2, 3, 3], &[3]),
    (&[3, 3], &[2, 3, 1]),
    (&[2, 1, 3, 3], &[2, 3, 2]),
    (&[1, 1], &[1]),
    (&[1, 1], &[1, 3]),
    (&[0, 0], &[0]),
    (&[0, 0], &[0, 2]),
    (&[3, 3], &[3, 0]),
    (&[0, 3, 3], &[3, 2]),
    (&[2, 2], &[2, 2]),
];

/// Calls that equations refuse.
pub(super) fn bad_sides(bad: &mut crate::ops::samples::Bad) {
    let a = bad.ones(&[2, 2], DType::F64);
    let b = bad.ones(&[3], DType::F64);
    bad.add([a.clone(), b], Params::new(), "b has shape [3], expected 2 rows, as many as a");
    let b = bad.ones(&[], DType::F64);
    bad.add([a.clone(), b], Params::new(), "b has shape [], expected 2 rows");
    let b = bad.ones(&[2], DType::I64);
    bad.add([a.clone(), b.clone()], Params::new(), "b has dtype i64, expected f32 or f64");
    let (wide, b) = (bad.ones(&[2, 3], DType::F64), bad.ones(&[2], DType::F64));
    bad.add([wide, b.clone()], Params::new(), "a has shape [2, 3], expected square matrices");
    let short = bad.ones(&[2, 2], DType::BF16);
    bad.add([short, b], Params::new(), "a has dtype bf16, expected f32 or f64; cast it");
    let (many, b) = (bad.ones(&[2, 2, 2], DType::F64), bad.ones(&[3, 2, 1], DType::F64));
    bad.add([many, b], Params::new(), "shapes [2] and [3] do not broadcast");
}

/// Whether no number on a diagonal is small beside the others.
fn diagonals_are_large(x: &Tensor) -> bool {
    let n = x.shape()[x.ndim() - 1];
    let all = x.to_f64_vec();
    n == 0
        || all.chunks(n * n).all(|x| {
            let largest = x.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            x.iter().step_by(n + 1).all(|v| v.abs() > 0.2 * largest)
        })
}

impl SolveTriangular {
    /// The part of a matrix that is read.
    fn read(&self, x: &Tensor) -> Result<Tensor> {
        let skip = i64::from(self.options.unit_diagonal);
        if self.options.upper { ops::triu(x, skip) } else { ops::tril(x, -skip) }
    }

    fn transposed(&self) -> SolveTriangular {
        let options = self.options.transposed(!self.options.transposed);
        SolveTriangular { options }
    }
}

impl Operation for SolveTriangular {
    fn record(&self) -> &'static Record {
        SolveTriangular::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, [a, b]) = ("solve_triangular", [inputs[0], inputs[1]]);
        let n = expect_square(op, "a", a)?;
        Ok(spec(solved_shape(op, n, a, b)?, promote(op, a, b)?))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let [a, b] = sides(inputs[0], inputs[1], specs[0].dtype)?;
        let TriangularOptions { upper, transposed, unit_diagonal: unit } = self.options;
        let kernel = Linalg::SolveTriangular { upper, transposed, unit };
        run("solve_triangular", kernel, &[&a, &b], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = "solve_triangular_backward";
        let [a, b] = [call.inputs[0], call.inputs[1]];
        let vector = b.ndim() == 1;
        let (g, y) = (as_matrix(call.grad(), vector)?, as_matrix(call.output(), vector)?);
        let h = apply_one(&self.transposed(), &[a, &g])?;
        call.two(
            || {
                let outer = if self.options.transposed {
                    ops::matmul(&y, &matrix_transpose(&h)?)?
                } else {
                    ops::matmul(&h, &matrix_transpose(&y)?)?
                };
                reduce_to_shape(op, &self.read(&ops::negate(&outer)?)?, a.shape())
            },
            || summed_side(op, &h, b),
        )
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let [a, b] = [call.inputs[0], call.inputs[1]];
        let (y, vector) = (call.outputs[0], b.ndim() == 1);
        let turned = call.tangents[0].map(|tangent| -> Result<Tensor> {
            let tangent = self.read(tangent)?;
            let tangent =
                if self.options.transposed { matrix_transpose(&tangent)? } else { tangent };
            ops::negate(&ops::matmul(&tangent, &as_matrix(y, vector)?)?)
        });
        let Some(right) = right_side(turned.transpose()?, call.tangents[1], vector)? else {
            return Ok(smallvec![y.zeros_like()?]);
        };
        let along = apply_one(self, &[a, &right])?;
        Ok(smallvec![like(&along, y)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        inputs[0].shape()[inputs[0].ndim() - 1]
    }
}

/// The gradient for a right side from that for what it was broadcast to.
pub(super) fn summed_side(op: &'static str, h: &Tensor, b: &Tensor) -> Result<Tensor> {
    let shape = if b.ndim() == 1 { with_sizes(b.shape(), &[1]) } else { b.shape().clone() };
    ops::reshape(&reduce_to_shape(op, h, &shape)?, b.shape())
}

/// The right side whose solution is a derivative: what comes of the matrix's tangent, and the tangent of
/// the right side.
pub(super) fn right_side(
    turned: Option<Tensor>,
    side: Option<&Tensor>,
    vector: bool,
) -> Result<Option<Tensor>> {
    let side = side.map(|side| as_matrix(side, vector)).transpose()?;
    Ok(match (turned, side) {
        (Some(turned), Some(side)) => Some(ops::add(&turned, &side)?),
        (turned, side) => turned.or(side),
    })
}

/// A solution with the shape and dtype of another.
pub(super) fn like(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let vector = x.ndim() == y.ndim() + 1;
    let x = if vector { ops::squeeze(x, -1)? } else { x.clone() };
    let x = if x.shape() == y.shape() { x } else { ops::broadcast_to(&x, y.shape())? };
    ops::cast(&x, y.dtype())
}
