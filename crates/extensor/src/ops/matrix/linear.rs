//! The layer that networks are made of.

use super::product::*;
use crate::ops::batching::{Batch, Batched, Together, View};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::promote;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};

/// A layer of a network, `y = x·weightᵀ + bias`, with `weight` of shape `[out, in]`, for `x` with
/// any number of axes before the last.
///
/// Conventions: weight is [out, in]; x may have any axes before the last.
///
/// ```
/// use extensor::ops::linear;
/// use extensor::tensor;
/// let weight = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
/// let y = linear(&tensor([1.0, 1.0]), &weight, Some(&tensor([0.5, 0.5, 0.5])))?;
/// assert_eq!(y.to_vec::<f64>()?, [3.5, 7.5, 11.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn linear<'a>(
    x: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'a Tensor>>,
) -> Result<Tensor> {
    let bias = bias.into();
    match bias {
        Some(bias) => apply_one(&Linear, &[x, weight, bias]),
        None => apply_one(&Linear, &[x, weight]),
    }
}

/// The gradients of [`linear`] for `x`, `weight` and `bias`: `(g·weight, gᵀ·x, Σ g)`.
#[track_caller]
#[extensor_derive::noted]
pub fn linear_backward(
    grad_output: &Tensor,
    x: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor, Tensor)> {
    let out = Shape::from([weight.shape().first().copied().unwrap_or(0)]);
    let bias = placeholder(&out, weight.dtype())?;
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [dx, dweight, dbias] = backward_of(&Linear, grad_output, &[x, weight, &bias], &output)?;
    Ok((dx, dweight, dbias))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear;

impl Linear {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "linear",
        family: Family::Matrix,
        formula: "y = x·weightᵀ + bias",
        derivative: "(g·weight, gᵀ·x, Σ g)",
        conventions: "weight is [out, in]; x may have any axes before the last",
        inputs: &[Input::new("x"), Input::new("weight"), Input::optional("bias")],
        backward: signature!(linear_backward(grad_output, x, weight)),
        class: Class::Affine,
        added: Some(2),
        needs: Needs::Inputs,
        build: |_| Ok(Box::new(Linear)),
        samples: |s| {
            for x in [&[6, 4][..], &[2, 3, 4], &[4], &[0, 4]] {
                let (x, weight, bias) = (s.normal(x), s.normal(&[5, 4]), s.normal(&[5]));
                s.add([x.clone(), weight.clone()], Params::new());
                s.add([x, weight, bias], Params::new());
            }
            let inputs = [s.normal(&[40, 1100]), s.normal(&[50, 1100]), s.normal(&[50])];
            s.add_large(inputs, Params::new(), "deep");
        },
        errors: |bad| {
            let ones =
                |bad: &crate::ops::samples::Bad, shape: &[usize]| bad.ones(shape, DType::F64);
            let (x, weight) = (ones(bad, &[2, 4]), ones(bad, &[5, 4]));
            let wrong = ones(bad, &[4, 5]);
            bad.add(
                [x.clone(), wrong],
                Params::new(),
                "weight has shape [4, 5], expected [out, 4]",
            );
            let bias = ones(bad, &[4]);
            let inputs = [x.clone(), weight.clone(), bias];
            bad.add(inputs, Params::new(), "bias has shape [4], expected [5]");
            let scalar = ones(bad, &[]);
            bad.add(
                [scalar, weight],
                Params::new(),
                "x has shape [], expected at least one dimension",
            );
            let ints = bad.ones(&[5, 4], DType::I64);
            bad.add([x, ints], Params::new(), "weight has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };
}

impl Operation for Linear {
    fn record(&self) -> &'static Record {
        Linear::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let op = "linear";
        let [x, weight] = [inputs[0], inputs[1]];
        expect_floats(op, &[("x", x), ("weight", weight)])?;
        let mut dtype = promote(op, x, weight)?;
        let Some(&columns) = x.shape().last() else {
            return shape_error(op, "x", x, "at least one dimension".into());
        };
        if weight.ndim() != 2 || weight.shape()[1] != columns {
            return shape_error(op, "weight", weight, format!("[out, {columns}]"));
        }
        let out = weight.shape()[0];
        if let Some(bias) = inputs.get(2) {
            expect_floats(op, &[("bias", bias)])?;
            dtype = dtype.promote(bias.dtype()).ok_or(Error::MixedDTypes {
                op,
                a: dtype,
                b: bias.dtype(),
            })?;
            if *bias.shape() != [out] {
                return shape_error(op, "bias", bias, format!("[{out}]"));
            }
        }
        let mut shape = x.shape().clone();
        shape.set(x.ndim() - 1, out);
        Ok(spec(shape, dtype))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let Spec { shape, dtype } = specs.swap_remove(0);
        let x = ops::cast(inputs[0], dtype)?;
        let weight = transposed(&ops::cast(inputs[1], dtype)?);
        let bias = inputs.get(2).map(|bias| ops::cast(bias, dtype)).transpose()?;
        let rows = tall(&at_least_matrix(&x)).map_or_else(|| tall_copy(&x), Ok)?;
        let flat = Shape::from([rows.shape()[0], weight.shape()[1]]);
        let y = product("linear", &rows, &weight, bias.as_ref(), flat)?;
        Ok(smallvec![ops::reshape(&y, &shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = "linear_backward";
        let (g, x, weight) = (call.grad(), call.inputs[0], call.inputs[1]);
        let dtype = g.dtype();
        let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
        if call.wanted[0] {
            let spec = Spec { shape: x.shape().clone(), dtype };
            grads[0] = Some(multiply_matrices(op, g, weight, spec)?);
        }
        if call.wanted[1] {
            let x = ops::cast(&at_least_matrix(x), dtype)?;
            grads[1] = Some(summed_product(op, &at_least_matrix(g), &x)?);
        }
        if call.wanted.get(2) == Some(&true) {
            let axes: Vec<i64> = (0..g.ndim() as i64 - 1).collect();
            grads[2] = Some(ops::sum(g, &axes[..])?);
        }
        Ok(grads)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.first(Linear).unwrap_or_else(|| {
            let row = View { row: call.inputs[0].ndim() == 1, ..View::WHOLE };
            let mut inputs: SmallVec<[View; 4]> = smallvec![View::WHOLE; call.inputs.len()];
            inputs[0] = row;
            Batched::Call(Together { op: Box::new(EachLinear), inputs, outputs: smallvec![row] })
        })
    }
}

/// [`Linear`] with a weight (and a bias) for each example of a batch, which is the first axis of all
/// inputs: what `vmap` makes of an ensemble, and of a gradient for each example.
#[derive(Clone, Copy, Debug)]
struct EachLinear;

static EACH_LINEAR: Record = Record {
    name: "linear",
    family: Family::Matrix,
    inputs: &[Input::new("x"), Input::new("weight"), Input::optional("bias")],
    class: Class::Affine,
    added: Some(2),
    needs: Needs::Inputs,
    ..Record::BLANK
};

impl EachLinear {
    /// The axes between the first and the last as one.
    fn rows(x: &Tensor) -> Result<Tensor> {
        let shape = x.shape();
        let rows: usize = shape[1..shape.len() - 1].iter().product();
        ops::reshape(x, [shape[0], rows, shape[shape.len() - 1]])
    }
}

impl Operation for EachLinear {
    fn record(&self) -> &'static Record {
        &EACH_LINEAR
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (x, weight) = (inputs[0], inputs[1]);
        let mut dtype = promote("linear", x, weight)?;
        if let Some(bias) = inputs.get(2) {
            let (a, b) = (dtype, bias.dtype());
            dtype = a.promote(b).ok_or(Error::MixedDTypes { op: "linear", a, b })?;
        }
        let mut shape = x.shape().clone();
        shape.set(x.ndim() - 1, weight.shape()[1]);
        Ok(spec(shape, dtype))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let Spec { shape, dtype } = specs.swap_remove(0);
        let x = Self::rows(&ops::cast(inputs[0], dtype)?)?;
        let weight = transposed(&ops::cast(inputs[1], dtype)?);
        let bias = inputs.get(2).map(|bias| ops::expand_dims(&ops::cast(bias, dtype)?, 1));
        let made = Shape::from([x.shape()[0], x.shape()[1], weight.shape()[2]]);
        let y = product("linear", &x, &weight, bias.transpose()?.as_ref(), made)?;
        Ok(smallvec![ops::reshape(&y, &shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = "linear_backward";
        let (g, x, weight) = (Self::rows(call.grad())?, call.inputs[0], call.inputs[1]);
        let dtype = g.dtype();
        let made = |rows: usize, columns: usize| Shape::from([g.shape()[0], rows, columns]);
        let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
        if call.wanted[0] {
            let weight = ops::cast(weight, dtype)?;
            let shape = made(g.shape()[1], weight.shape()[2]);
            grads[0] = Some(ops::reshape(&product(op, &g, &weight, None, shape)?, x.shape())?);
        }
        if call.wanted[1] {
            let x = Self::rows(&ops::cast(x, dtype)?)?;
            let shape = made(g.shape()[2], x.shape()[2]);
            grads[1] = Some(product(op, &transposed(&g), &x, None, shape)?);
        }
        if call.wanted.get(2) == Some(&true) {
            grads[2] = Some(ops::sum(&g, 1)?);
        }
        Ok(grads)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.call(Box::new(EachLinear), View::merged(0), View::merged(0))
    }
}
