//! Eigenvalues of symmetric matrices.

use super::cholesky::bad_squares;
use super::determinant::pulled;
use super::*;
use crate::autodiff::stop_gradient;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{Spec, apply, apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::over;
use extensor_derive::method;
use smallvec::smallvec;
use std::borrow::Borrow;

/// The eigenvalues of each symmetric matrix in ascending order, and in the columns of the second result
/// their vectors: `a·vectors = vectors·diag(values)`.
///
/// Of a matrix that is not symmetric it is the symmetric part `½(a + aᵀ)` that counts, so the gradient is
/// symmetric. The vectors' signs are fixed: of each, the first number that is at least 0.7 of the largest
/// in size is positive. Where eigenvalues are equal (nearer than rounding can tell) their vectors
/// have no derivative; by convention they do not turn into each other there, which is exact for what does
/// not depend on the choice among them.
///
/// Domain: symmetric matrices; differentiable where no two eigenvalues are equal.
/// Conventions: the symmetric part of a counts; the first large number of a vector is positive; vectors of equal eigenvalues do not turn into each other.
///
/// ```
/// use extensor::ops::eigh;
/// use extensor::tensor;
/// let (values, vectors) = eigh(&tensor([[2.0, 0.0], [0.0, 1.0]]))?;
/// assert_eq!(values.to_vec::<f64>()?, [1.0, 2.0]);
/// assert_eq!(vectors.to_vec::<f64>()?, [0.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn eigh(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut outputs = apply(&Eigh, &[a])?;
    let vectors = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), vectors))
}

/// The gradient of [`eigh`], from those of its results and themselves: the symmetric part of
/// `v·(diag(g_w) + f∘(vᵀ·g_v))·vᵀ` with `fᵢⱼ = 1/(wⱼ − wᵢ)`.
#[track_caller]
#[extensor_derive::noted]
pub fn eigh_backward(
    grad_outputs: &[impl Borrow<Tensor>],
    a: &Tensor,
    outputs: &[impl Borrow<Tensor>],
) -> Result<Tensor> {
    pulled(&Eigh, grad_outputs, a, outputs)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Eigh;

const DOMAIN: &str = "symmetric matrices; differentiable where no two eigenvalues are equal";

const CONVENTIONS: &str = "the symmetric part of a counts; the first large number of a vector is \
                           positive; vectors of equal eigenvalues do not turn into each other";

impl Eigh {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "eigh",
        family: Family::Linalg,
        formula: "w, v = the eigenvalues of a, ascending, and their vectors in columns: a·v = v·diag(w)",
        derivative: "w′ = diag(p), v′ = v·(f∘p) with p = vᵀ·a′·v, fᵢⱼ = 1/(wⱼ − wᵢ)",
        domain: DOMAIN,
        conventions: CONVENTIONS,
        inputs: &[Input::new("a")],
        backward: signature!(eigh_backward(grad_outputs, a, outputs)),
        class: Class::Composite,
        needs: Needs::Outputs,
        build: |_| Ok(Box::new(Eigh)),
        dtypes: DTYPES,
        takes: values_are_apart,
        samples: symmetric_samples,
        errors: |bad| bad_squares(bad, Params::new()),
        ..Record::BLANK
    };
}

fn symmetric_samples(s: &mut Sampler) {
    let shapes: [&[usize]; 7] =
        [&[3, 3], &[1, 1], &[4, 4], &[2, 3, 3], &[0, 3, 3], &[0, 0], &[2, 2]];
    for shape in shapes {
        let a = made(symmetric(&regular(s, shape)));
        s.add([a], Params::new());
    }
    let a = regular(s, &[3, 3]);
    s.add_noted([a], Params::new(), "not symmetric");
    let a = made(symmetric(&s.normal(&[2, 2])));
    s.add_noted([a], Params::new(), "of any sign");
    let a = made(symmetric(&regular(s, &[20, 20])));
    s.add_large([a], Params::new(), "large");
}

/// Whether the eigenvalues of each matrix are apart from each other.
fn values_are_apart(sample: &Sample) -> bool {
    eigvalsh(&sample.inputs[0]).is_ok_and(|values| are_apart(&values))
}

/// `1/(wⱼ − wᵢ)`, and 0 where they are equal as far as rounding can tell.
pub(super) fn gaps(w: &Tensor) -> Result<Tensor> {
    let apart = ops::subtract(&ops::expand_dims(w, -2)?, &ops::expand_dims(w, -1)?)?;
    reciprocals(&apart, w)
}

/// The reciprocals of differences or sums of `numbers`, and 0 of what is nothing beside the largest.
pub(super) fn reciprocals(x: &Tensor, numbers: &Tensor) -> Result<Tensor> {
    let numbers = stop_gradient(numbers);
    let n = numbers.shape()[numbers.ndim() - 1];
    let largest = ops::max_reduce(&ops::abs(&numbers)?, over(-1).keepdims(true))?;
    let bound = times(&ops::expand_dims(&largest, -1)?, n as f64 * numbers.dtype().epsilon())?;
    let none = ops::less_equal(&ops::abs(&stop_gradient(x))?, &bound)?;
    let (zero, one) = (Tensor::scalar_of(0.0, x.dtype())?, Tensor::scalar_of(1.0, x.dtype())?);
    ops::where_(&none, &zero, &ops::reciprocal(&ops::where_(&none, &one, x)?)?)
}

impl Operation for Eigh {
    fn record(&self) -> &'static Record {
        Eigh::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let a = inputs[0];
        let n = expect_square("eigh", "a", a)?;
        let of = |shape: Shape| Spec { shape, dtype: a.dtype() };
        Ok(smallvec![of(with_sizes(&leading(a), &[n])), of(a.shape().clone())])
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("eigh", Linalg::Eigh, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let ([gw, gv], [w, v]) =
            ([call.grads[0], call.grads[1]], [call.outputs[0], call.outputs[1]]);
        call.one(|| {
            if v.is_empty() {
                return v.zeros_like();
            }
            let back = matrix_transpose(v)?;
            let turned = ops::multiply(&gaps(w)?, &ops::matmul(&back, gv)?)?;
            let inner = ops::add(&turned, &with_diagonal(gw)?)?;
            symmetric(&ops::matmul(&ops::matmul(v, &inner)?, &back)?)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (w, v) = (call.outputs[0], call.outputs[1]);
        let tangent = match call.tangents[0] {
            Some(tangent) if !v.is_empty() => tangent,
            _ => return Ok(smallvec![w.zeros_like()?, v.zeros_like()?]),
        };
        let p = ops::matmul(&ops::matmul(&matrix_transpose(v)?, &symmetric(tangent)?)?, v)?;
        let turned = ops::matmul(v, &ops::multiply(&gaps(w)?, &p)?)?;
        Ok(smallvec![diagonal_of(&p)?, turned])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        turns(inputs[0])
    }
}

/// The eigenvalues of each symmetric matrix in ascending order. Without the vectors, which its derivatives
/// are made of, they take less time than [`eigh`].
///
/// The symmetric part `½(a + aᵀ)` counts. Where eigenvalues are equal they have no derivative, though what
/// depends on all of them alike has: the gradient there is that of one way to tell them apart.
///
/// Domain: symmetric matrices; differentiable where no two eigenvalues are equal.
/// Conventions: the symmetric part of a counts.
///
/// ```
/// use extensor::ops::eigvalsh;
/// use extensor::tensor;
/// let values = eigvalsh(&tensor([[0.0, 1.0], [1.0, 0.0]]))?.to_vec::<f64>()?;
/// assert!((values[0] + 1.0).abs() < 1e-15 && (values[1] - 1.0).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn eigvalsh(a: &Tensor) -> Result<Tensor> {
    apply_one(&Eigvalsh, &[a])
}

/// The gradient of [`eigvalsh`]: `v·diag(g)·vᵀ` with the vectors `v` of [`eigh`].
#[track_caller]
#[extensor_derive::noted]
pub fn eigvalsh_backward(grad_output: &Tensor, a: &Tensor) -> Result<Tensor> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Eigvalsh, grad_output, &[a], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Eigvalsh;

impl Eigvalsh {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "eigvalsh",
        family: Family::Linalg,
        formula: "w = the eigenvalues of a, ascending",
        derivative: "w′ = diag(vᵀ·a′·v), v the vectors",
        domain: DOMAIN,
        conventions: "the symmetric part of a counts",
        inputs: &[Input::new("a")],
        backward: signature!(eigvalsh_backward(grad_output, a)),
        class: Class::Composite,
        build: |_| Ok(Box::new(Eigvalsh)),
        dtypes: DTYPES,
        takes: values_are_apart,
        samples: symmetric_samples,
        errors: |bad| bad_squares(bad, Params::new()),
        ..Record::BLANK
    };
}

impl Operation for Eigvalsh {
    fn record(&self) -> &'static Record {
        Eigvalsh::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let a = inputs[0];
        let n = expect_square("eigvalsh", "a", a)?;
        Ok(spec(with_sizes(&leading(a), &[n]), a.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("eigvalsh", Linalg::Eigvalsh, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| {
            let (_, v) = eigh(call.inputs[0])?;
            ops::matmul(&scale_columns(&v, call.grad())?, &matrix_transpose(&v)?)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let w = call.outputs[0];
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![w.zeros_like()?]) };
        let (_, v) = eigh(call.inputs[0])?;
        let moved = ops::matmul(&symmetric(tangent)?, &v)?;
        Ok(smallvec![ops::sum(&ops::multiply(&v, &moved)?, -2)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        turns(inputs[0])
    }
}
