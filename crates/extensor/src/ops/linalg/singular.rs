//! Singular values.

use super::determinant::pulled;
use super::eigen::{gaps, reciprocals};
use super::*;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{Spec, apply, apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::shape::optional;
use extensor_derive::method;
use smallvec::smallvec;
use std::borrow::Borrow;

/// The singular values `s` of each matrix, in descending order, and their vectors, those of `u` in its
/// columns and those of `vh` in its rows: `a = u·diag(s)·vh`.
///
/// There are as many vectors as singular values, or with [`Basis::Complete`] bases of both spaces. The
/// vectors' signs are fixed: of each in `u`, the first number that is at least 0.7 of the largest in size
/// is positive. Where singular values are equal (nearer than rounding can tell), or 0, their
/// vectors have no derivative; by convention they do not turn into each other there, which is exact for what
/// does not depend on the choice among them. Complete bases of a matrix that is not square have none at all,
/// which is an error.
///
/// Domain: differentiable where no two singular values are equal and none is 0.
/// Conventions: the first large number of a vector in u is positive; vectors of equal singular values do not turn into each other; complete bases have a derivative only if a is square.
///
/// ```
/// use extensor::ops::{Basis, svd};
/// use extensor::tensor;
/// let (u, s, vh) = svd(&tensor([[0.0, -2.0], [1.0, 0.0]]), Basis::Reduced)?;
/// assert_eq!(s.to_vec::<f64>()?, [2.0, 1.0]);
/// assert_eq!(u.abs()?.to_vec::<f64>()?, [1.0, 0.0, 0.0, 1.0]);
/// assert_eq!(vh.abs()?.to_vec::<f64>()?, [0.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn svd(a: &Tensor, basis: Basis) -> Result<(Tensor, Tensor, Tensor)> {
    let mut outputs = apply(&Svd { full: basis == Basis::Complete }, &[a])?;
    let vh = outputs.swap_remove(2);
    let s = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), s, vh))
}

/// The gradient of [`svd`], from those of its results and themselves.
#[track_caller]
#[extensor_derive::noted]
pub fn svd_backward(
    grad_outputs: &[impl Borrow<Tensor>],
    a: &Tensor,
    outputs: &[impl Borrow<Tensor>],
    full_matrices: Basis,
) -> Result<Tensor> {
    let op = Svd { full: full_matrices == Basis::Complete };
    pulled(&op, grad_outputs, a, outputs)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Svd {
    full: bool,
}

const DOMAIN: &str = "differentiable where no two singular values are equal and none is 0";

impl Svd {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "svd",
        family: Family::Linalg,
        formula: "u·diag(s)·vh = a, s descending, the columns of u and the rows of vh orthogonal",
        derivative: "s′ = diag(p), u′ = u·o + (1 − u·uᵀ)·a′·v/s, v′ = v·ω + (1 − v·vᵀ)·(a′)ᵀ·u/s with \
                     p = uᵀ·a′·v, (o + ω)ᵢⱼ = (p + pᵀ)ᵢⱼ/(sⱼ − sᵢ), (o − ω)ᵢⱼ = (p − pᵀ)ᵢⱼ/(sⱼ + sᵢ)",
        domain: DOMAIN,
        conventions: "the first large number of a vector in u is positive; vectors of equal singular values do not turn into each other; complete bases have a derivative only if a is square",
        inputs: &[Input::new("a")],
        params: &[optional(
            "full_matrices",
            "whether bases of both spaces are wanted, not as many vectors as singular values",
            "true",
        )],
        backward: signature!(svd_backward(grad_outputs, a, outputs; full_matrices)),
        class: Class::Composite,
        needs: Needs::Outputs,
        build: |p| Ok(Box::new(Svd { full: p.bool("svd", "full_matrices", true)? })),
        dtypes: DTYPES,
        takes: values_are_apart,
        samples: |s| {
            for (k, shape) in SHAPES.into_iter().enumerate() {
                let a = regular(s, shape);
                let square = shape[shape.len() - 2] == shape[shape.len() - 1];
                s.add([a], Params::new().with("full_matrices", square && k % 2 == 0));
            }
            let a = regular(s, &[20, 14]);
            s.add_large([a], Params::new().with("full_matrices", false), "large");
        },
        errors: |bad| {
            bad_matrices(bad);
            let a = bad.ones(&[2, 2], DType::F64);
            let number = Params::new().with("full_matrices", 2);
            bad.add([a], number, "full_matrices is 2, expected true or false");
        },
        ..Record::BLANK
    };
}

const SHAPES: [&[usize]; 10] = [
    &[3, 3],
    &[4, 2],
    &[2, 4],
    &[1, 1],
    &[2, 2],
    &[2, 3, 2],
    &[0, 3, 2],
    &[0, 0],
    &[3, 0],
    &[2, 0, 3],
];

/// Calls that every operation of matrices refuses.
pub(super) fn bad_matrices(bad: &mut crate::ops::samples::Bad) {
    let vector = bad.ones(&[3], DType::F64);
    bad.add([vector], Params::new(), "a has shape [3], expected at least two axes");
    let whole = bad.ones(&[2, 2], DType::I64);
    bad.add([whole], Params::new(), "a has dtype i64, expected f32 or f64");
    let short = bad.ones(&[2, 2], DType::BF16);
    bad.add([short], Params::new(), "a has dtype bf16, expected f32 or f64; cast it");
}

/// Whether the singular values of each matrix are apart from each other, and from 0.
fn values_are_apart(sample: &Sample) -> bool {
    sturdy(sample) && svdvals(&sample.inputs[0]).is_ok_and(|s| are_apart(&s))
}

/// `1/(sⱼ + sᵢ)`, and 0 of those that are 0.
fn sums(s: &Tensor) -> Result<Tensor> {
    reciprocals(&ops::add(&ops::expand_dims(s, -2)?, &ops::expand_dims(s, -1)?)?, s)
}

/// What is left of `x` without what the columns of `u` span.
fn beside(u: &Tensor, x: &Tensor) -> Result<Tensor> {
    let within = ops::matmul(u, &ops::matmul(&matrix_transpose(u)?, x)?)?;
    ops::subtract(x, &within)
}

/// The sum and the difference of a matrix and its transpose.
fn parts(x: &Tensor) -> Result<[Tensor; 2]> {
    let turned = matrix_transpose(x)?;
    Ok([ops::add(x, &turned)?, ops::subtract(x, &turned)?])
}

impl Svd {
    /// An error where there are vectors that `a` says nothing of.
    fn expect_unique(&self, rows: usize, columns: usize) -> Result<()> {
        if !self.full || rows == columns {
            return Ok(());
        }
        let reason = "with full_matrices some vectors can be any that are orthogonal to the others";
        Err(Error::NotDifferentiable { op: "svd", argument: "a".into(), reason })
    }
}

impl Operation for Svd {
    fn record(&self) -> &'static Record {
        Svd::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let a = inputs[0];
        let [rows, columns] = expect_matrices("svd", "a", a)?;
        let short = rows.min(columns);
        let [left, right] = if self.full { [rows, columns] } else { [short, short] };
        let of = |sizes: &[usize]| Spec { shape: with_sizes(&leading(a), sizes), dtype: a.dtype() };
        let (u, s, vh) = (of(&[rows, left]), of(&[short]), of(&[right, columns]));
        u.shape.count("svd")?;
        vh.shape.count("svd")?;
        Ok(smallvec![u, s, vh])
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("svd", Linalg::Svd { full: self.full }, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let [u, s, vh] = [call.outputs[0], call.outputs[1], call.outputs[2]];
        let [gu, gs, gvh] = [call.grads[0], call.grads[1], call.grads[2]];
        let [rows, columns] = [u.shape()[u.ndim() - 2], vh.shape()[vh.ndim() - 1]];
        self.expect_unique(rows, columns)?;
        call.one(|| {
            if s.is_empty() {
                return Tensor::zeros(with_sizes(&leading(u), &[rows, columns]), u.dtype());
            }
            let (v, gv) = (matrix_transpose(vh)?, matrix_transpose(gvh)?);
            let turned_u = ops::matmul(&matrix_transpose(u)?, gu)?;
            let turned_v = ops::matmul(vh, &gv)?;
            let alike = ops::multiply(&ops::add(&turned_u, &turned_v)?, &gaps(s)?)?;
            let apart = ops::multiply(&ops::subtract(&turned_u, &turned_v)?, &sums(s)?)?;
            let ([alike, _], [_, apart]) = (parts(&alike)?, parts(&apart)?);
            let turned = times(&ops::add(&alike, &apart)?, 0.5)?;
            let inner = ops::add(&turned, &with_diagonal(gs)?)?;
            let mut grad = ops::matmul(&ops::matmul(u, &inner)?, vh)?;
            let divisor = reciprocals(&ops::expand_dims(s, -2)?, s)?;
            if rows > columns {
                let more = ops::multiply(&beside(u, gu)?, &divisor)?;
                grad = ops::add(&grad, &ops::matmul(&more, vh)?)?;
            }
            if columns > rows {
                let more = ops::multiply(&beside(&v, &gv)?, &divisor)?;
                grad = ops::add(&grad, &ops::matmul(u, &matrix_transpose(&more)?)?)?;
            }
            Ok(grad)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let [u, s, vh] = [call.outputs[0], call.outputs[1], call.outputs[2]];
        let [rows, columns] = [u.shape()[u.ndim() - 2], vh.shape()[vh.ndim() - 1]];
        self.expect_unique(rows, columns)?;
        let tangent = match call.tangents[0] {
            Some(tangent) if !s.is_empty() => tangent,
            _ => return Ok(smallvec![u.zeros_like()?, s.zeros_like()?, vh.zeros_like()?]),
        };
        let v = matrix_transpose(vh)?;
        let moved = ops::matmul(tangent, &v)?;
        let p = ops::matmul(&matrix_transpose(u)?, &moved)?;
        let [sum, difference] = parts(&p)?;
        let alike = ops::multiply(&sum, &gaps(s)?)?;
        let apart = ops::multiply(&difference, &sums(s)?)?;
        let turn_u = times(&ops::add(&alike, &apart)?, 0.5)?;
        let turn_v = times(&ops::subtract(&alike, &apart)?, 0.5)?;
        let (mut du, mut dv) = (ops::matmul(u, &turn_u)?, ops::matmul(&v, &turn_v)?);
        let divisor = reciprocals(&ops::expand_dims(s, -2)?, s)?;
        if rows > columns {
            du = ops::add(&du, &ops::multiply(&beside(u, &moved)?, &divisor)?)?;
        }
        if columns > rows {
            let moved = ops::matmul(&matrix_transpose(tangent)?, u)?;
            dv = ops::add(&dv, &ops::multiply(&beside(&v, &moved)?, &divisor)?)?;
        }
        Ok(smallvec![du, diagonal_of(&p)?, matrix_transpose(&dv)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        turns(inputs[0])
    }
}

/// The singular values of each matrix, in descending order. Without the vectors, which its derivatives are
/// made of, they take less time than [`svd`].
///
/// Where singular values are equal or 0 they have no derivative, though what depends on all of them alike
/// has (where none is 0): the gradient there is that of one way to tell them apart.
///
/// Domain: differentiable where no two singular values are equal and none is 0.
/// Conventions: at equal singular values the gradient is that of one way to tell them apart.
///
/// ```
/// use extensor::ops::svdvals;
/// use extensor::tensor;
/// let s = svdvals(&tensor([[0.0, -2.0], [1.0, 0.0]]))?;
/// assert_eq!(s.to_vec::<f64>()?, [2.0, 1.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn svdvals(a: &Tensor) -> Result<Tensor> {
    apply_one(&Svdvals, &[a])
}

/// The gradient of [`svdvals`]: `u·diag(g)·vh` with the vectors of [`svd`].
#[track_caller]
#[extensor_derive::noted]
pub fn svdvals_backward(grad_output: &Tensor, a: &Tensor) -> Result<Tensor> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Svdvals, grad_output, &[a], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Svdvals;

impl Svdvals {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "svdvals",
        family: Family::Linalg,
        formula: "s = the singular values of a, descending",
        derivative: "s′ = diag(uᵀ·a′·v), u and v the vectors",
        domain: DOMAIN,
        conventions: "at equal singular values the gradient is that of one way to tell them apart",
        inputs: &[Input::new("a")],
        backward: signature!(svdvals_backward(grad_output, a)),
        class: Class::Composite,
        build: |_| Ok(Box::new(Svdvals)),
        dtypes: DTYPES,
        takes: values_are_apart,
        samples: |s| {
            for shape in SHAPES {
                let a = regular(s, shape);
                s.add([a], Params::new());
            }
            let a = regular(s, &[20, 14]);
            s.add_large([a], Params::new(), "large");
        },
        errors: bad_matrices,
        ..Record::BLANK
    };
}

impl Operation for Svdvals {
    fn record(&self) -> &'static Record {
        Svdvals::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let a = inputs[0];
        let [rows, columns] = expect_matrices("svdvals", "a", a)?;
        Ok(spec(with_sizes(&leading(a), &[rows.min(columns)]), a.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("svdvals", Linalg::Svdvals, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| {
            let (u, _, vh) = svd(call.inputs[0], Basis::Reduced)?;
            ops::matmul(&scale_columns(&u, call.grad())?, &vh)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let s = call.outputs[0];
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![s.zeros_like()?]) };
        let (u, _, vh) = svd(call.inputs[0], Basis::Reduced)?;
        let moved = ops::matmul(tangent, &matrix_transpose(&vh)?)?;
        Ok(smallvec![ops::sum(&ops::multiply(&u, &moved)?, -2)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        turns(inputs[0])
    }
}
