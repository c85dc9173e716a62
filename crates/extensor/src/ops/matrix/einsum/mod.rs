//! Sums of products of any tensors, by an equation.

mod contract;
mod equation;
mod path;
mod route;
mod samples;

pub use route::*;

use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward, placeholder, spec};
use crate::ops::pointwise::Takes;
use crate::ops::record::{Class, Family, Input, Parameter, Record, signature};
use crate::ops::reduction::wide;
use crate::ops::shape::diagonal::on_diagonal;
use crate::{Error, Result, Shape, Tensor, ops};
use equation::{Equation, Label, Resolved, set};
pub(super) use equation::{Labels, MOST};
use extensor_derive::method;
use smallvec::{SmallVec, smallvec};
use std::borrow::Borrow;

const OP: &str = "einsum";

/// Einstein's sums: products of the operands' elements, summed over what the result does not have.
///
/// A letter names an axis. Axes of one name go together, and those that do not stand behind the arrow
/// are summed: `"ij,jk->ik"` is a product of matrices, `"ii->"` a trace, `"ij->ji"` a transpose,
/// `"bhqd,bhkd->bhqk"` the scores of attention. Without an arrow the result has, in alphabetical order,
/// the names that stand once. An ellipsis stands for all further axes, which broadcast: `"...ij->...ji"`.
///
/// Operands are multiplied two at a time, in the order that costs least (see [`einsum_path`]); each such
/// product is one of matrices. In `f16` and `bf16` what lies between is `f32`: the result is rounded once.
///
/// Conventions: an axis of size 1 broadcasts to those of its name; an ellipsis of the operands stands in
/// the result too; whole numbers wrap around; a transpose or a diagonal alone is a view.
///
/// ```
/// use extensor::ops::einsum;
/// use extensor::tensor;
/// let a = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let x = tensor([1.0, 10.0]);
/// assert_eq!(einsum("ij,j->i", &[&a, &x])?.to_vec::<f64>()?, [21.0, 43.0]);
/// assert_eq!(einsum("i,ij,j->", &[&x, &a, &x])?.item::<f64>()?, 451.0);
/// assert_eq!(einsum("ii", &[&a])?.item::<f64>()?, 5.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn einsum(equation: &str, tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let tensors: SmallVec<[&Tensor; 4]> = tensors.iter().map(Borrow::borrow).collect();
    apply_one(&Einsum::new(equation)?, &tensors)
}

/// The gradients of [`einsum`] for its operands: `grad_output` in the place of each, and the equation
/// turned around.
#[track_caller]
#[extensor_derive::noted]
pub fn einsum_backward(
    grad_output: &Tensor,
    x: &[impl Borrow<Tensor>],
    equation: &str,
) -> Result<Vec<Tensor>> {
    let inputs: SmallVec<[&Tensor; 4]> = x.iter().map(Borrow::borrow).collect();
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let wanted = vec![true; inputs.len()];
    let op = Einsum::new(equation)?;
    let grads = backward(&op, &[grad_output], &inputs, &[&output], &wanted)?;
    Ok(grads.into_iter().flatten().collect())
}

#[derive(Clone, Debug)]
pub(crate) struct Einsum {
    equation: Equation,
}

impl Einsum {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Matrix,
        formula: "y = Σ x0·x1·… over the labels that the result does not have",
        derivative: "g in the place of an operand, the result's labels and the operand's exchanged",
        conventions: "an axis of size 1 broadcasts to those of its name; an ellipsis of the operands stands in the result too; whole numbers wrap around; a transpose or a diagonal alone is a view",
        inputs: &[Input::many("x")],
        params: &[Parameter {
            name: "equation",
            what: "the axes of each operand by letters, and of the result: \"ij,jk->ik\"",
            default: None,
        }],
        backward: signature!(einsum_backward(grad_output, x; equation)),
        class: Class::Composite,
        build: |p| Ok(Box::new(Einsum::new(&p.word(OP, "equation")?)?)),
        samples: samples::samples,
        errors: samples::errors,
        ..Record::BLANK
    };

    fn new(equation: &str) -> Result<Einsum> {
        Ok(Einsum { equation: Equation::parse(equation)? })
    }

    /// The sum of products of tensors with these labels, as an operation.
    #[track_caller]
    pub(super) fn of(inputs: Vec<Labels>, output: Labels, tensors: &[&Tensor]) -> Result<Tensor> {
        apply_one(&Einsum { equation: Equation::of(inputs, output) }, tensors)
    }

    fn resolve(&self, inputs: &[&Tensor]) -> Result<Resolved> {
        let shapes: SmallVec<[&Shape; 4]> = inputs.iter().map(|x| x.shape()).collect();
        self.equation.resolve(&shapes)
    }
}

/// The gradient for operand number `i`: the sum of products of `g` and the other operands.
fn gradient(equation: &Resolved, i: usize, g: &Tensor, inputs: &[&Tensor]) -> Result<Tensor> {
    let x = inputs[i];
    // The operand's axes but for those of size 1 that were broadcast: over these is summed.
    let full = |(label, size): (&Label, &usize)| {
        (*size == equation.sizes[usize::from(*label)]).then_some(*label)
    };
    let axes: Labels = equation.inputs[i].iter().zip(x.shape().iter()).filter_map(full).collect();
    let mut own = Labels::new();
    axes.iter().for_each(|label| {
        if !own.contains(label) {
            own.push(*label);
        }
    });
    let mut tensors: SmallVec<[&Tensor; 4]> = smallvec![g];
    let mut labels = vec![equation.output.clone()];
    for (k, other) in inputs.iter().enumerate().filter(|(k, _)| *k != i) {
        tensors.push(*other);
        labels.push(equation.inputs[k].clone());
    }
    let there = labels.iter().fold(0, |all, labels| all | set(labels));
    let known: Labels =
        own.iter().copied().filter(|label| there & equation::bit(*label) != 0).collect();
    let mut grad = Einsum::of(labels, known.clone(), &tensors)?;
    // What only this operand has was summed over it: each of its elements gets the same.
    if known != own {
        let size = |label: &Label| {
            let axis = known.iter().position(|l| l == label);
            axis.map_or(1, |axis| grad.shape()[axis] as i64)
        };
        let sizes: SmallVec<[i64; 8]> = own.iter().map(size).collect();
        grad = ops::reshape(&grad, &sizes[..])?;
    }
    grad = ops::broadcast_to(&grad, equation.shape(&own))?;
    if own.len() < axes.len() {
        grad = repeated(grad, own, &axes)?;
    }
    ops::reshape(&grad, x.shape())
}

/// A tensor with the labels `own` on the diagonals of one with the labels `axes`, of which some are
/// the same.
fn repeated(grad: Tensor, own: Labels, axes: &[Label]) -> Result<Tensor> {
    let (mut grad, mut own) = (grad, own);
    let times = |labels: &[Label], label: Label| labels.iter().filter(|l| **l == label).count();
    let lacking =
        |own: &Labels| own.iter().position(|&label| times(own, label) < times(axes, label));
    while let Some(at) = lacking(&own) {
        let label = own.remove(at);
        let order = (0..grad.ndim() as i64).filter(|axis| *axis != at as i64).chain([at as i64]);
        let order: SmallVec<[i64; 8]> = order.collect();
        grad = on_diagonal(&ops::transpose(&grad, &order[..])?)?;
        own.extend([label, label]);
    }
    let mut free: SmallVec<[Option<Label>; 8]> = own.iter().copied().map(Some).collect();
    let mut place = |label: &Label| {
        let at = free.iter().position(|l| *l == Some(*label)).unwrap_or(0);
        free[at] = None;
        at as i64
    };
    let order: SmallVec<[i64; 8]> = axes.iter().map(&mut place).collect();
    ops::transpose(&grad, &order[..])
}

impl Operation for Einsum {
    fn record(&self) -> &'static Record {
        Einsum::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let equation = self.resolve(inputs)?;
        let mut common = inputs[0].dtype();
        for x in inputs {
            Takes::Numbers.expect(OP, "an operand", x.dtype())?;
            let (a, b) = (common, x.dtype());
            common = a.promote(b).ok_or(Error::MixedDTypes { op: OP, a, b })?;
        }
        let shape = equation.shape(&equation.output);
        shape.count(OP)?;
        Ok(spec(shape, common))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let Spec { shape, dtype } = specs.swap_remove(0);
        let equation = self.resolve(inputs)?;
        Ok(smallvec![contract::contract(&equation, inputs, Spec { shape, dtype })?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let equation = self.resolve(call.inputs)?;
        let one = |(i, &wanted): (usize, &bool)| {
            wanted.then(|| gradient(&equation, i, call.grad(), call.inputs)).transpose()
        };
        call.wanted.iter().enumerate().map(one).collect()
    }
    /// The sum of the same with one operand after the other replaced by its tangent.
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let y = call.outputs[0];
        // What is added up is not rounded before.
        let count = call.tangents.iter().flatten().count();
        let dtype = if count > 1 { wide(y.dtype()) } else { y.dtype() };
        let cast = |x: &&Tensor| ops::cast(x, dtype);
        let inputs = call.inputs.iter().map(cast).collect::<Result<Vec<_>>>()?;
        let mut along: Option<Tensor> = None;
        for (i, tangent) in call.tangents.iter().enumerate() {
            let Some(tangent) = tangent else { continue };
            let tangent = ops::cast(tangent, dtype)?;
            let mut at: SmallVec<[&Tensor; 4]> = inputs.iter().collect();
            at[i] = &tangent;
            let term = apply_one(self, &at)?;
            along = Some(match along {
                Some(sum) => ops::add(&sum, &term)?,
                None => term,
            });
        }
        Ok(smallvec![match along {
            Some(along) => ops::cast(&along, y.dtype())?,
            None => y.zeros_like()?,
        }])
    }
    /// Those of the sum, and each product of several numbers rounds on its way.
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let Ok(equation) = self.resolve(inputs) else { return 1 };
        let kept = set(&equation.output);
        let summed = (0..equation.sizes.len()).filter(|l| kept & equation::bit(*l as Label) == 0);
        let summed = summed.fold(1usize, |all, l| all.saturating_mul(equation.sizes[l]));
        summed.max(1).saturating_add(inputs.len() - 1)
    }
}
