//! What reverse mode notes, and the walk over it.
//!
//! A call is a node with links to the calls that made its inputs; nobody links the other way, so what
//! no result depends on is freed at once. Walks go from the newest call to the oldest, by number, and
//! walking and dropping are loops: a chain of a million calls is fine.

use crate::gradients::add_to;
use crate::operation::{Operation, backward_of_call, husk};
use crate::{DType, Result, Shape, Tensor};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A call that was made, or an argument of the function that is differentiated.
pub(crate) struct Node {
    /// Later calls have larger numbers.
    pub id: u64,
    /// The call; `None` for an argument.
    call: Option<Call>,
}

pub(super) struct Call {
    pub op: Box<dyn Operation>,
    /// Where each input comes from, if it is to be differentiated by.
    pub parents: SmallVec<[Option<Parent>; 3]>,
    pub inputs: SmallVec<[Saved; 3]>,
    pub outputs: SmallVec<[Saved; 1]>,
    /// How many of the outputs have gradients.
    pub results: usize,
    /// Where the call was made.
    pub at: &'static Location<'static>,
}

/// An output of an earlier call.
pub(super) struct Parent {
    pub node: Arc<Node>,
    pub output: usize,
}

/// A tensor of a call: itself if the rule reads it, otherwise what it looked like.
pub(super) enum Saved {
    Whole(Tensor),
    Husk(Shape, DType),
}

/// Bytes up to which a tensor is kept although it is not needed: a husk takes as much.
const SMALL: usize = 1024;

impl Saved {
    pub fn new(x: &Tensor, needed: bool) -> Saved {
        if needed || x.len() * x.dtype().size() <= SMALL {
            Saved::Whole(x.clone())
        } else {
            Saved::Husk(x.shape().clone(), x.dtype())
        }
    }

    fn tensor(&self) -> Result<Tensor> {
        match self {
            Saved::Whole(x) => Ok(x.clone()),
            Saved::Husk(shape, dtype) => husk(shape, *dtype),
        }
    }

    fn zeros(&self) -> Result<Tensor> {
        match self {
            Saved::Whole(x) => Tensor::constant(0.0, x.shape(), x.dtype()),
            Saved::Husk(shape, dtype) => Tensor::constant(0.0, shape, *dtype),
        }
    }
}

impl Node {
    pub(super) fn new(call: Option<Call>) -> Arc<Node> {
        static NODES: AtomicU64 = AtomicU64::new(0);
        Arc::new(Node { id: NODES.fetch_add(1, Ordering::Relaxed), call })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Those whose last link this is are taken apart here, not one inside the other.
        let mut rest: Vec<Arc<Node>> = Vec::new();
        take_parents(&mut self.call, &mut rest);
        while let Some(node) = rest.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                take_parents(&mut node.call, &mut rest);
            }
        }
    }
}

fn take_parents(call: &mut Option<Call>, rest: &mut Vec<Arc<Node>>) {
    if let Some(call) = call {
        rest.extend(call.parents.drain(..).flatten().map(|parent| parent.node));
    }
}

/// A node whose gradients are being added up.
struct Pending {
    node: Arc<Node>,
    grads: SmallVec<[Option<Tensor>; 1]>,
}

/// Gradients on their way from results to arguments.
#[derive(Default)]
pub(super) struct Walk {
    pending: BTreeMap<u64, Pending>,
}

impl Walk {
    /// Adds a gradient for an output of a call.
    pub fn add(&mut self, node: Arc<Node>, output: usize, grad: Tensor) -> Result<()> {
        let pending =
            self.pending.entry(node.id).or_insert_with(|| Pending { node, grads: SmallVec::new() });
        if pending.grads.len() <= output {
            pending.grads.resize(output + 1, None);
        }
        let slot = &mut pending.grads[output];
        *slot = Some(match slot.take() {
            Some(sum) => add_to(sum, &grad)?,
            None => grad,
        });
        Ok(())
    }

    /// Calls the rules, newest first, until only arguments are left; returns their gradients by
    /// number. A call that nobody else holds is freed as soon as its rule has run.
    pub fn finish(mut self) -> Result<BTreeMap<u64, Tensor>> {
        let mut arguments = BTreeMap::new();
        while let Some((id, Pending { node, grads })) = self.pending.pop_last() {
            let Some(call) = &node.call else {
                if let Some(grad) = grads.into_iter().next().flatten() {
                    arguments.insert(id, grad);
                }
                continue;
            };
            let found = call.gradients(grads)?;
            for (parent, grad) in call.parents.iter().zip(found) {
                if let (Some(parent), Some(grad)) = (parent, grad) {
                    self.add(parent.node.clone(), parent.output, grad)?;
                }
            }
        }
        Ok(arguments)
    }
}

impl Call {
    fn gradients(&self, grads: SmallVec<[Option<Tensor>; 1]>) -> Result<crate::operation::Grads> {
        let mut given: SmallVec<[Tensor; 1]> = SmallVec::new();
        let mut grads = grads.into_iter();
        for saved in &self.outputs[..self.results] {
            given.push(grads.next().flatten().map_or_else(|| saved.zeros(), Ok)?);
        }
        let mut inputs: SmallVec<[Tensor; 3]> = SmallVec::new();
        for saved in &self.inputs {
            inputs.push(saved.tensor()?);
        }
        let mut outputs: SmallVec<[Tensor; 1]> = SmallVec::new();
        for saved in &self.outputs {
            outputs.push(saved.tensor()?);
        }
        let wanted: SmallVec<[bool; 4]> = self.parents.iter().map(Option::is_some).collect();
        let [given, outputs] =
            [&given, &outputs].map(|list| list.iter().collect::<SmallVec<[&Tensor; 1]>>());
        let inputs: SmallVec<[&Tensor; 3]> = inputs.iter().collect();
        backward_of_call(&*self.op, &given, &inputs, &outputs, &wanted, self.at)
    }
}
