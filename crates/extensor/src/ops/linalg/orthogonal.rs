//! Orthogonal factors.

use super::determinant::pulled;
use super::*;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{Spec, apply};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::shape::optional;
use extensor_derive::method;
use smallvec::smallvec;
use std::borrow::Borrow;

/// The factors of each matrix, `q·r = a`: orthogonal columns, and an upper triangle whose diagonal is not
/// negative.
///
/// `q` has as many columns as the smaller side of `a`, or with [`Basis::Complete`] as many as it has rows.
/// The signs make the factors of a matrix unique if its columns are linearly independent; where its first
/// ones are not, there is no derivative, which is an error.
/// Nor is there one of a complete basis of more columns than `a` has.
///
/// Domain: matrices whose first columns, as many as there are rows, are linearly independent.
/// Conventions: r's diagonal is not negative; where a's columns are linearly dependent the derivative is an error.
///
/// ```
/// use extensor::ops::{Basis, qr};
/// use extensor::tensor;
/// let (q, r) = qr(&tensor([[0.0, 5.0], [-2.0, 3.0]]), Basis::Reduced)?;
/// let close = |x: &extensor::Tensor, y: [f64; 4]| {
///     x.to_f64_vec().iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-15)
/// };
/// assert!(close(&q, [0.0, 1.0, -1.0, 0.0]) && close(&r, [2.0, -3.0, 0.0, 5.0]));
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn qr(a: &Tensor, basis: Basis) -> Result<(Tensor, Tensor)> {
    let mut outputs = apply(&Qr { complete: basis == Basis::Complete }, &[a])?;
    let r = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), r))
}

/// The gradient of [`qr`], from those of `q` and `r` and the factors themselves.
#[track_caller]
#[extensor_derive::noted]
pub fn qr_backward(
    grad_outputs: &[impl Borrow<Tensor>],
    a: &Tensor,
    outputs: &[impl Borrow<Tensor>],
    mode: Basis,
) -> Result<Tensor> {
    let op = Qr { complete: mode == Basis::Complete };
    pulled(&op, grad_outputs, a, outputs)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Qr {
    complete: bool,
}

impl Qr {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "qr",
        family: Family::Linalg,
        formula: "q·r = a, q's columns orthogonal, r upper triangular",
        derivative: "r′ = (c − w)·r, q′ = a′·r⁻¹ − q·(c − w) with c = qᵀ·a′·r⁻¹ and w = l − lᵀ for what l of c is below its diagonal",
        domain: "matrices whose first columns, as many as there are rows, are linearly independent",
        conventions: "r's diagonal is not negative; where a's columns are linearly dependent the derivative is an error",
        inputs: &[Input::new("a")],
        params: &[optional(
            "mode",
            "\"reduced\", or \"complete\" for a basis of the whole space",
            "\"reduced\"",
        )],
        backward: signature!(qr_backward(grad_outputs, a, outputs; mode)),
        class: Class::Composite,
        needs: Needs::Outputs,
        build: |p| match &p.text("qr", "mode", "reduced")?[..] {
            "reduced" => Ok(Box::new(Qr { complete: false })),
            "complete" => Ok(Box::new(Qr { complete: true })),
            other => {
                let (expected, got) = ("\"reduced\" or \"complete\"".into(), format!("{other:?}"));
                Err(Error::Parameter { op: "qr", parameter: "mode", expected, got })
            }
        },
        dtypes: DTYPES,
        takes: columns_are_independent,
        samples: |s| {
            let shapes: [&[usize]; 10] = [
                &[3, 3],
                &[4, 2],
                &[2, 4],
                &[5, 3],
                &[1, 1],
                &[2, 3, 2],
                &[0, 3, 2],
                &[3, 0],
                &[0, 3],
                &[2, 2, 3],
            ];
            for (k, shape) in shapes.into_iter().enumerate() {
                let a = regular(s, shape);
                let tall = shape[shape.len() - 2] > shape[shape.len() - 1];
                let mode = if k % 2 == 0 && !tall { "complete" } else { "reduced" };
                s.add([a], Params::new().with("mode", mode));
            }
            let a = regular(s, &[40, 30]);
            s.add_large([a], Params::new(), "large");
        },
        errors: |bad| {
            let vector = bad.ones(&[3], DType::F64);
            bad.add([vector], Params::new(), "a has shape [3], expected at least two axes");
            let whole = bad.ones(&[2, 2], DType::I64);
            bad.add([whole], Params::new(), "a has dtype i64, expected f32 or f64");
            let a = bad.ones(&[2, 2], DType::F64);
            let mode = Params::new().with("mode", "raw");
            bad.add([a], mode, "mode is \"raw\", expected \"reduced\" or \"complete\"");
        },
        ..Record::BLANK
    };
}

/// Whether the first columns of the matrices are far from dependent.
fn columns_are_independent(sample: &Sample) -> bool {
    let x = &sample.inputs[0];
    let [rows, columns] = [x.shape()[x.ndim() - 2], x.shape()[x.ndim() - 1]];
    let first = ops::slice(x, -1, 0, rows.min(columns) as i64, 1);
    first.is_ok_and(|first| sturdy(&Sample { inputs: vec![first], ..sample.clone() }))
}

/// The first columns of matrices, and the others.
fn cut(x: &Tensor, at: usize) -> Result<[Tensor; 2]> {
    let at = at as i64;
    Ok([ops::slice(x, -1, 0, at, 1)?, ops::slice(x, -1, at, None, 1)?])
}

/// `x·r⁻¹` of an upper triangle `r`, or `x·r⁻ᵀ`.
fn divided(x: &Tensor, r: &Tensor, transposed: bool) -> Result<Tensor> {
    let options = TriangularOptions::new().upper(true).transposed(!transposed);
    matrix_transpose(&solve_triangular(r, &matrix_transpose(x)?, options)?)
}

impl Qr {
    /// An error where `q` has columns that `a` says nothing of.
    fn expect_unique(&self, rows: usize, columns: usize) -> Result<()> {
        if !self.complete || rows <= columns {
            return Ok(());
        }
        let reason = "with mode = \"complete\" some columns of q can be any that are orthogonal to \
                      the others";
        Err(Error::NotDifferentiable { op: "qr", argument: "a".into(), reason })
    }
}

impl Operation for Qr {
    fn record(&self) -> &'static Record {
        Qr::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let a = inputs[0];
        let [rows, columns] = expect_matrices("qr", "a", a)?;
        let inner = if self.complete { rows } else { rows.min(columns) };
        let of = |sizes: &[usize]| Spec { shape: with_sizes(&leading(a), sizes), dtype: a.dtype() };
        let (q, r) = (of(&[rows, inner]), of(&[inner, columns]));
        q.shape.count("qr")?;
        Ok(smallvec![q, r])
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("qr", Linalg::Qr { complete: self.complete }, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (q, r) = (call.outputs[0], call.outputs[1]);
        let (mut gq, gr) = (call.grads[0].clone(), call.grads[1]);
        let [rows, columns] = [q.shape()[q.ndim() - 2], r.shape()[r.ndim() - 1]];
        self.expect_unique(rows, columns)?;
        call.one(|| {
            if rows == 0 || columns == 0 {
                return ops::matmul(q, r)?.zeros_like();
            }
            // Of a wide matrix the rest is q times its own part of r.
            let [r, rest] = cut(r, rows.min(columns))?;
            let [gr, g_rest] = cut(gr, rows.min(columns))?;
            let wide = columns > rows;
            if wide {
                let a_rest = ops::matmul(q, &rest)?;
                gq = ops::add(&gq, &ops::matmul(&a_rest, &matrix_transpose(&g_rest)?)?)?;
            }
            let m = ops::subtract(
                &ops::matmul(&r, &matrix_transpose(&ops::triu(&gr, 0)?)?)?,
                &ops::matmul(&matrix_transpose(&gq)?, q)?,
            )?;
            let lower = ops::tril(&m, 0)?;
            let even = ops::add(&lower, &matrix_transpose(&ops::tril(&m, -1)?)?)?;
            let inner = ops::add(&gq, &ops::matmul(q, &even)?)?;
            let first = divided(&inner, &r, true)?;
            if !wide {
                return Ok(first);
            }
            ops::concatenate(&[first, ops::matmul(q, &g_rest)?], -1)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (q, r) = (call.outputs[0], call.outputs[1]);
        let [rows, columns] = [q.shape()[q.ndim() - 2], r.shape()[r.ndim() - 1]];
        self.expect_unique(rows, columns)?;
        let tangent = match call.tangents[0] {
            Some(tangent) if rows > 0 && columns > 0 => tangent,
            _ => return Ok(smallvec![q.zeros_like()?, r.zeros_like()?]),
        };
        let [r, rest] = cut(r, rows.min(columns))?;
        let [tangent, t_rest] = cut(tangent, rows.min(columns))?;
        let x = divided(&tangent, &r, false)?;
        let back = matrix_transpose(q)?;
        let c = ops::matmul(&back, &x)?;
        let below = ops::tril(&c, -1)?;
        let turn = ops::subtract(&below, &matrix_transpose(&below)?)?;
        let upper = ops::subtract(&c, &turn)?;
        let dq = ops::subtract(&x, &ops::matmul(q, &upper)?)?;
        let dr = ops::triu(&ops::matmul(&upper, &r)?, 0)?;
        if columns <= rows {
            return Ok(smallvec![dq, dr]);
        }
        let a_rest = ops::matmul(q, &rest)?;
        let turned = ops::matmul(&matrix_transpose(&dq)?, &a_rest)?;
        let d_rest = ops::add(&turned, &ops::matmul(&back, &t_rest)?)?;
        Ok(smallvec![dq, ops::concatenate(&[dr, d_rest], -1)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        inputs[0].shape()[inputs[0].ndim() - 2].max(1)
    }
}
