//! Inverses of matrices that have none.

use super::singular::bad_matrices;
use super::*;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{apply_one, backward_of, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::shape::optional;
use crate::over;
use extensor_derive::method;
use smallvec::smallvec;

/// The pseudoinverse of each matrix: [`inv`]'s where there is one; elsewhere what gives, times `b`, the
/// shortest of the vectors for which `a·y` is nearest to `b`.
///
/// Singular values up to `rtol` of the largest count as 0; `None` is the larger side of the matrix times the
/// dtype's ε. The derivative is that of a matrix whose rank stays what it is.
///
/// Domain: differentiable where the rank does not change.
/// Conventions: singular values up to rtol of the largest count as 0; the derivative is that of a matrix whose rank stays what it is.
///
/// ```
/// use extensor::ops::pinv;
/// use extensor::tensor;
/// let y = pinv(&tensor([[2.0], [0.0]]), None)?;
/// assert_eq!(y.shape(), [1, 2]);
/// assert_eq!(y.to_vec::<f64>()?, [0.5, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn pinv(a: &Tensor, rtol: impl Into<Option<f64>>) -> Result<Tensor> {
    apply_one(&Pinv { rtol: rtol.into() }, &[a])
}

/// The gradient of [`pinv`], from `a` and its output.
#[track_caller]
#[extensor_derive::noted]
pub fn pinv_backward(
    grad_output: &Tensor,
    a: &Tensor,
    output: &Tensor,
    rtol: impl Into<Option<f64>>,
) -> Result<Tensor> {
    let [grad] = backward_of(&Pinv { rtol: rtol.into() }, grad_output, &[a], output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinv {
    rtol: Option<f64>,
}

impl Pinv {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "pinv",
        family: Family::Linalg,
        formula: "y = v·diag(1/s where s is not 0)·uᵀ, a = u·diag(s)·vᵀ",
        derivative: "y′ = −y·a′·y + y·yᵀ·(a′)ᵀ·(1 − a·y) + (1 − y·a)·(a′)ᵀ·yᵀ·y",
        domain: "differentiable where the rank does not change",
        conventions: "singular values up to rtol of the largest count as 0; the derivative is that of a matrix whose rank stays what it is",
        inputs: &[Input::new("a")],
        params: &[optional(
            "rtol",
            "the part of the largest singular value up to which others count as 0",
            "None",
        )],
        backward: signature!(pinv_backward(grad_output, a, output; rtol)),
        class: Class::Composite,
        needs: Needs::InputsAndOutputs,
        build: |p| Ok(Box::new(Pinv { rtol: p.optional_float("pinv", "rtol")? })),
        dtypes: DTYPES,
        takes: sturdy,
        samples: |s| {
            let shapes: [&[usize]; 8] =
                [&[3, 3], &[4, 2], &[2, 4], &[1, 1], &[2, 3, 2], &[0, 3, 2], &[3, 0], &[0, 0]];
            for (k, shape) in shapes.into_iter().enumerate() {
                let a = regular(s, shape);
                let rtol = if k % 2 == 0 { None } else { Some(1e-4) };
                s.add([a], Params::new().with("rtol", rtol));
            }
            let rotation = crate::tensor([[0.6, 0.8], [-0.8, 0.6]]);
            s.add_noted([rotation], Params::new(), "equal singular values");
            let a = regular(s, &[20, 14]);
            s.add_large([a], Params::new(), "large");
        },
        errors: |bad| {
            bad_matrices(bad);
            let a = bad.ones(&[2, 2], DType::F64);
            let negative = Params::new().with("rtol", -1.0);
            bad.add([a], negative, "rtol is -1.0, expected at least 0");
        },
        ..Record::BLANK
    };
}

/// `1 − a·b`, times `x`, without making the first.
fn without(a: &Tensor, b: &Tensor, x: &Tensor) -> Result<Tensor> {
    ops::subtract(x, &ops::matmul(a, &ops::matmul(b, x)?)?)
}

/// An error if `rtol` is given and negative, or NaN.
pub(super) fn expect_tolerance(op: &'static str, rtol: Option<f64>) -> Result<()> {
    match rtol {
        Some(rtol) if rtol.is_nan() || rtol < 0.0 => {
            let (expected, got) = ("at least 0".into(), format!("{rtol:?}"));
            Err(Error::Parameter { op, parameter: "rtol", expected, got })
        }
        _ => Ok(()),
    }
}

/// Up to which of singular values, as matrices of one column, others count as 0.
pub(super) fn bound_of(
    s: &Tensor,
    [rows, columns]: [usize; 2],
    rtol: Option<f64>,
) -> Result<Tensor> {
    let rtol = rtol.unwrap_or_else(|| rows.max(columns) as f64 * s.dtype().epsilon());
    // From 1 on all of them count as 0.
    times(&ops::max_reduce(s, over(-1).keepdims(true))?, rtol.min(1.0))
}

impl Operation for Pinv {
    fn record(&self) -> &'static Record {
        Pinv::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, a) = ("pinv", inputs[0]);
        let [rows, columns] = expect_matrices(op, "a", a)?;
        expect_tolerance(op, self.rtol)?;
        Ok(spec(with_sizes(&leading(a), &[columns, rows]), a.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let a = inputs[0];
        if a.is_empty() {
            return Ok(smallvec![Tensor::zeros(specs[0].shape.clone(), a.dtype())?]);
        }
        let (u, s, vh) = svd(a, Basis::Reduced)?;
        let sizes = [a.shape()[a.ndim() - 2], a.shape()[a.ndim() - 1]];
        let none = ops::less_equal(&s, &bound_of(&s, sizes, self.rtol)?)?;
        let (zero, one) = (Tensor::scalar_of(0.0, s.dtype())?, Tensor::scalar_of(1.0, s.dtype())?);
        let divided = ops::reciprocal(&ops::where_(&none, &one, &s)?)?;
        let divided = ops::where_(&none, &zero, &divided)?;
        let v = matrix_transpose(&vh)?;
        let y = ops::matmul(&scale_columns(&v, &divided)?, &matrix_transpose(&u)?)?;
        Ok(smallvec![y])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, a, y) = (call.grad(), call.inputs[0], call.output());
        call.one(|| {
            let [at, yt, gt] = [a, y, g].map(matrix_transpose);
            let (at, yt, gt) = (at?, yt?, gt?);
            // −yᵀ·g·yᵀ + (1 − a·y)·gᵀ·y·yᵀ + yᵀ·y·gᵀ·(1 − y·a), each the transpose of a term.
            let first = ops::matmul(&ops::matmul(&yt, g)?, &yt)?;
            let second = without(a, y, &ops::matmul(&gt, &ops::matmul(y, &yt)?)?)?;
            let inner = ops::matmul(g, &ops::matmul(&yt, y)?)?;
            let third = matrix_transpose(&without(&at, &yt, &inner)?)?;
            ops::subtract(&ops::add(&second, &third)?, &first)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (a, y) = (call.inputs[0], call.outputs[0]);
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        let (turned, yt) = (matrix_transpose(tangent)?, matrix_transpose(y)?);
        let first = ops::matmul(&ops::matmul(y, tangent)?, y)?;
        let left = ops::matmul(&ops::matmul(y, &yt)?, &turned)?;
        let second = ops::subtract(&left, &ops::matmul(&ops::matmul(&left, a)?, y)?)?;
        let third = without(y, a, &ops::matmul(&turned, &ops::matmul(&yt, y)?)?)?;
        Ok(smallvec![ops::subtract(&ops::add(&second, &third)?, &first)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        turns(inputs[0])
    }
}
