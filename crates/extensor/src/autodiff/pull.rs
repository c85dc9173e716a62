//! Backward rules on traced tensors: derivatives of derivatives.
//!
//! A rule of a [`Class::Elementwise`] or a [`Class::Reduction`] is made of operations and formulas
//! and runs as it is. The others may call kernels, and are differentiated by what they are: the
//! gradient of something linear is linear too, and [`Pull`] is it as an operation; that of a
//! [`Class::General`] is the transpose of its forward derivative, which is made of operations.

use super::batch;
use super::node::{Node, Walk};
use super::trace::{Mark, Traced, new_level, unwrap};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of_call, forward_derivative};
use crate::ops::record::{Class, Input, Needs, Record};
use crate::{Result, Tensor, ops};
use smallvec::{SmallVec, smallvec};

/// A backward rule where the gradients, the inputs or the outputs are traced.
#[cold]
pub(crate) fn backward(op: &dyn Operation, call: &Backward<'_>) -> Result<Grads> {
    let all = || call.grads.iter().chain(call.inputs).chain(call.outputs);
    let top = all().filter_map(|x| x.traced()).max_by_key(|traced| traced.level);
    if let Some(top) = top.filter(|top| top.is_batch()) {
        return batch::backward(op, top.level, call);
    }
    match op.record().class {
        Class::Elementwise | Class::Reduction | Class::Composite | Class::Constant => {
            op.backward(call)
        }
        Class::Linear | Class::Affine => {
            let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
            // The outputs come along for the sake of the auxiliary ones.
            let all = call.grads.iter().chain(call.inputs).chain(call.outputs);
            let all: SmallVec<[&Tensor; 6]> = all.copied().collect();
            for (of, grad) in grads.iter_mut().enumerate().filter(|(i, _)| call.wanted[*i]) {
                let (grads, inputs) = (call.grads.len(), call.inputs.len());
                let pull = Pull { op: op.boxed(), grads, inputs, of };
                *grad = Some(apply_one(&pull, &all)?);
            }
            Ok(grads)
        }
        Class::General => transposed(op, call),
    }
}

/// The gradients of a [`Class::General`]: its derivative along a tangent is linear in the tangent,
/// and the gradient is that map's transpose.
pub(super) fn transposed(op: &dyn Operation, call: &Backward<'_>) -> Result<Grads> {
    let level = new_level();
    let mut arguments: SmallVec<[Option<u64>; 4]> = SmallVec::new();
    let mut tangents: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
    for (x, wanted) in call.inputs.iter().zip(call.wanted) {
        if !wanted {
            arguments.push(None);
            tangents.push(None);
            continue;
        }
        let node = Node::new(None);
        arguments.push(Some(node.id));
        let value = Tensor::constant(0.0, x.shape(), x.dtype())?;
        let mark = Mark::Reverse { node, output: 0 };
        tangents.push(Some(Tensor::from_traced(Traced { level, value, mark })));
    }
    let tangents: SmallVec<[Option<&Tensor>; 4]> = tangents.iter().map(Option::as_ref).collect();
    let Backward { inputs, outputs, .. } = *call;
    let along = op.derivative(&Forward { inputs, outputs, tangents: &tangents })?;
    let mut walk = Walk::default();
    for (y, grad) in along.iter().zip(call.grads) {
        if let (_, Some(Mark::Reverse { node, output })) = unwrap(y, level) {
            walk.add(node.clone(), *output, ops::cast(grad, y.dtype())?)?;
        }
    }
    drop(along);
    let mut found = walk.finish()?;
    let mut grads: Grads = SmallVec::new();
    for (argument, x) in arguments.iter().zip(call.inputs) {
        grads.push(match argument {
            Some(id) => Some(match found.remove(id) {
                Some(grad) => grad,
                None => Tensor::constant(0.0, x.shape(), x.dtype())?,
            }),
            None => None,
        });
    }
    Ok(grads)
}

/// The gradient of an operation that is linear or multilinear, for one of its inputs, as an operation
/// of the gradients of the results and of the inputs: itself linear in each of them.
#[derive(Clone, Debug)]
struct Pull {
    op: Box<dyn Operation>,
    /// How many of the inputs are gradients of results.
    grads: usize,
    /// How many of those that follow are the operation's own; its outputs come last.
    inputs: usize,
    /// Which input of the operation the gradient is for.
    of: usize,
}

static PULL: Record = Record {
    name: "pull",
    formula: "y = the gradient of a linear operation",
    derivative: "the operation, and its gradients for the other inputs",
    inputs: &[Input::many("x")],
    class: Class::Affine,
    needs: Needs::Inputs,
    ..Record::BLANK
};

impl Operation for Pull {
    fn record(&self) -> &'static Record {
        &PULL
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let x = inputs[self.grads + self.of];
        Ok(smallvec![Spec { shape: x.shape().clone(), dtype: x.dtype() }])
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let [grads, inputs, outputs] = self.parts(inputs);
        Ok(smallvec![self.pull(grads, inputs, outputs, self.of)?])
    }
    /// `<pull(g, x), h> = <g, op(x with h in its place)>`, from which the gradients for `g` and for
    /// the other inputs follow.
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let h = call.grad();
        let [grads, inputs, outputs] = self.parts(call.inputs);
        let [wanted_grads, wanted_inputs, _] = self.parts(call.wanted);
        let mut found: Grads = SmallVec::from_elem(None, call.inputs.len());
        if wanted_grads.contains(&true) {
            let mut tangents: SmallVec<[Option<&Tensor>; 4]> = smallvec![None; inputs.len()];
            tangents[self.of] = Some(h);
            let along = forward_derivative(&*self.op, inputs, outputs, &tangents)?;
            for ((slot, y), wanted) in found.iter_mut().zip(along).zip(wanted_grads) {
                *slot = wanted.then_some(y);
            }
        }
        if self.op.record().class != Class::Affine {
            return Ok(found);
        }
        let zero = Tensor::constant(0.0, h.shape(), h.dtype())?;
        for (j, &wanted) in wanted_inputs.iter().enumerate() {
            let differentiable = self.op.record().differentiable_input(j);
            if !wanted || j == self.of || !differentiable {
                continue;
            }
            let mut at: SmallVec<[&Tensor; 4]> = SmallVec::from_slice(inputs);
            at[self.of] = h;
            let there = self.pull(grads, &at, outputs, j)?;
            at[self.of] = &zero;
            let origin = self.pull(grads, &at, outputs, j)?;
            found[self.grads + j] = Some(ops::subtract(&there, &origin)?);
        }
        Ok(found)
    }
    fn batch(&self, _: &Batch<'_>) -> Batched {
        Batched::Itself
    }
}

impl Pull {
    /// The gradients, the inputs and the outputs, of a list that has one entry for each.
    fn parts<'a, T>(&self, list: &'a [T]) -> [&'a [T]; 3] {
        let (grads, rest) = list.split_at(self.grads);
        let (inputs, outputs) = rest.split_at(self.inputs);
        [grads, inputs, outputs]
    }

    fn pull(
        &self,
        grads: &[&Tensor],
        inputs: &[&Tensor],
        outputs: &[&Tensor],
        of: usize,
    ) -> Result<Tensor> {
        let wanted: SmallVec<[bool; 4]> = (0..inputs.len()).map(|i| i == of).collect();
        let at = std::panic::Location::caller();
        let found = backward_of_call(&*self.op, grads, inputs, outputs, &wanted, at)?;
        match found.into_iter().nth(of).flatten() {
            Some(grad) => Ok(grad),
            None => Tensor::constant(0.0, inputs[of].shape(), inputs[of].dtype()),
        }
    }
}
