//! Gradients that are sent to the other ranks while the backward pass still computes others.

use super::parts::{Part, Step};
use super::trainer::{Measured, Trainer};
use crate::autodiff::{Path, leaves, value_and_grad_when_ready};
use crate::distributed::{Order, Reducer};
use crate::gradients::{Accumulator, all_finite, divided, weighted};
use crate::nn::Mode;
use crate::optim::Optimizer;
use crate::precision::{LossScale, Policy, scaled_when_ready, unscaled_one};
use crate::{DType, Result, Tensor, Tree};

/// The last of a rank's parts, whose gradients are on their way.
pub(super) struct Sent<M> {
    pub loss: Tensor,
    /// Whether all its gradients are finite.
    pub finite: bool,
    pub measured: Measured<M>,
    /// Who moves them and those of the parts before it.
    pub reducer: Reducer,
}

impl<M: Tree + Clone, O: Optimizer<M>> Trainer<M, O> {
    /// Whether gradients can be sent one by one: a compiled step knows them all at once.
    pub(super) fn travels(&self, step: &Step<'_, M>) -> bool {
        let eager = step.parts.iter().all(|part| part.gradient.is_none());
        self.group.size() > 1 && self.order == Order::Fixed && eager && !crate::debug::watched()
    }

    /// Computes the last of this rank's parts, and sends each gradient with those of the parts before it, which
    /// have been added up, as soon as it is known.
    pub(super) fn send_part(
        &self,
        part: &Part<'_, M>,
        mode: &Mode,
        before: Accumulator<M>,
        number: usize,
        of: usize,
    ) -> Result<Sent<M>> {
        let (model, scale, policy) = (&self.state.model, self.state.scale, self.policy);
        let mut sums = before.into_leaves(leaves(model).len())?;
        let mut reducer = self.group.reducer(of)?;
        let factor = Tensor::scalar_of(scale.value(), DType::F64)?;
        let divisor = (scale.value() != 1.0).then_some(&factor);
        let mut finite = true;
        let ready = &mut |leaf: usize, grad: &Tensor| {
            finite &= all_finite(grad)?;
            let grad = unscaled_one(grad, policy, divisor)?;
            let mut blocks = std::mem::take(&mut sums[leaf]);
            blocks.push(number, weighted(&grad, part.examples as f64)?)?;
            reducer.push(leaf, blocks.into_vec())
        };
        let f = |model: &M| (part.loss)(model, mode);
        let (loss, measured) = if policy == Policy::full(DType::F32) && scale == LossScale::NONE {
            let (loss, _, measured) = value_and_grad_when_ready(f, model, ready)?;
            (loss, measured)
        } else {
            scaled_when_ready(f, model, policy, Some(&factor), ready)?
        };
        Ok(Sent { loss, finite, measured, reducer })
    }

    /// The gradients of all parts, whose weights are `weight` together, from the leaves' sums.
    pub(super) fn arrived(&self, sums: Vec<(usize, Tensor)>, weight: f64) -> Result<M> {
        let mut sums = sums.into_iter().peekable();
        let mut number = 0;
        self.state.model.map(&Path::ROOT, &mut |_, x| {
            let sum = sums.next_if(|(leaf, _)| *leaf == number);
            number += 1;
            match sum {
                Some((_, sum)) => divided(&sum, weight),
                // A buffer.
                None => Ok(x.clone()),
            }
        })
    }
}
