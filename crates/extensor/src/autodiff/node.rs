//! What reverse mode records, and the walk over it.
//!
//! A call is a node with links to the calls that made its inputs; there are no links the other way,
//! so whatever no result depends on is freed at once. Walks go from the newest call to the oldest,
//! by number, and walking and dropping are loops: a chain of a million calls is fine.

use crate::gradients::add_to;
use crate::ops::operation::{Grads, Operation, backward_of_call, placeholder};
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
    pub inputs: SmallVec<[Argument; 3]>,
    pub outputs: SmallVec<[Saved; 1]>,
    /// How many of the outputs have gradients.
    pub results: usize,
    /// Where the call was made.
    pub at: &'static Location<'static>,
}

/// An input of a call.
pub(super) struct Argument {
    pub saved: Saved,
    /// Where it comes from, if it is to be differentiated by.
    pub parent: Option<Parent>,
}

/// An output of an earlier call.
#[derive(Clone)]
pub(super) struct Parent {
    pub node: Arc<Node>,
    pub output: usize,
}

/// A tensor of a call: itself if the rule reads it, otherwise what it looked like.
pub(super) enum Saved {
    Whole(Tensor),
    /// Like the only result, and so like the gradient that arrives there.
    Alike,
    Placeholder(Box<(Shape, DType)>),
}

impl Saved {
    /// What to save of `x` for a rule that does or does not need it; `result` is the only one.
    #[inline]
    pub fn new(x: &Tensor, needed: bool, result: Option<&Tensor>) -> Saved {
        if needed {
            return Saved::Whole(x.clone());
        }
        match result {
            Some(result) if is_like(x, result) => Saved::Alike,
            _ => Saved::Placeholder(Box::new((x.shape().clone(), x.dtype()))),
        }
    }

    /// The tensor, or what stands for it.
    fn or<'a>(
        &'a self,
        alike: &'a Option<Tensor>,
        placeholders: &mut std::slice::Iter<'a, Tensor>,
    ) -> Option<&'a Tensor> {
        match self {
            Saved::Whole(x) => Some(x),
            Saved::Alike => alike.as_ref(),
            Saved::Placeholder(_) => placeholders.next(),
        }
    }

    fn zeros(&self) -> Result<Tensor> {
        match self {
            Saved::Whole(x) => Tensor::constant(0.0, x.shape(), x.dtype()),
            Saved::Alike => unreachable!("a call is reached by a gradient for its only result"),
            Saved::Placeholder(spec) => Tensor::constant(0.0, &spec.0, spec.1),
        }
    }
}

#[inline]
fn is_like(x: &Tensor, other: &Tensor) -> bool {
    x.dtype() == other.dtype() && x.shape() == other.shape()
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
        let mut rest: Rest = SmallVec::new();
        take_parents(&mut self.call, &mut rest);
        while let Some(node) = rest.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                take_parents(&mut node.call, &mut rest);
            }
        }
    }
}

/// Links that are still to be dropped: few at a time, mostly.
type Rest = SmallVec<[Arc<Node>; 4]>;

fn take_parents(call: &mut Option<Call>, rest: &mut Rest) {
    if let Some(call) = call {
        for input in &mut call.inputs {
            if let Some(parent) = input.parent.take() {
                rest.push(parent.node);
            }
        }
    }
}

/// Where an input of the call comes from: its own link if nothing else refers to the call.
#[inline]
fn parent(node: &mut Arc<Node>, input: usize) -> Option<Parent> {
    match Arc::get_mut(node) {
        Some(node) => node.call.as_mut()?.inputs[input].parent.take(),
        None => node.call.as_ref()?.inputs[input].parent.clone(),
    }
}

/// A call whose gradients are being added up.
struct Pending {
    node: Arc<Node>,
    grads: SmallVec<[Option<Tensor>; 1]>,
}

/// Gradients on their way from results to arguments.
#[derive(Default)]
pub(super) struct Walk {
    /// The newest call, if it is known: in a chain there is never another, and no map is needed.
    newest: Option<Pending>,
    /// Calls by number, all older than `newest`.
    pending: BTreeMap<u64, Pending>,
    /// What has been added up for the arguments, which are kept: whoever else holds one may add to it.
    arguments: BTreeMap<u64, (Arc<Node>, Tensor)>,
    /// The arguments that the last call added to.
    touched: SmallVec<[u64; 4]>,
}

impl Walk {
    /// Adds a gradient for an output of a call.
    pub fn add(&mut self, node: Arc<Node>, output: usize, grad: Tensor) -> Result<()> {
        if node.call.is_none() {
            let sum = match self.arguments.remove(&node.id) {
                Some((_, sum)) => add_to(sum, &grad)?,
                None => grad,
            };
            self.touched.push(node.id);
            self.arguments.insert(node.id, (node, sum));
            return Ok(());
        }
        let Pending { grads, .. } = self.pending(node);
        if grads.len() <= output {
            grads.resize(output + 1, None);
        }
        let slot = &mut grads[output];
        *slot = Some(match slot.take() {
            Some(sum) => add_to(sum, &grad)?,
            None => grad,
        });
        Ok(())
    }

    /// Where the gradients of a call are added up.
    fn pending(&mut self, node: Arc<Node>) -> &mut Pending {
        let id = node.id;
        let above = match &self.newest {
            Some(newest) => id > newest.node.id,
            None => self.pending.last_key_value().is_none_or(|(&last, _)| id > last),
        };
        let new = |node| Pending { node, grads: SmallVec::new() };
        if above {
            if let Some(older) = self.newest.take() {
                self.pending.insert(older.node.id, older);
            }
            return self.newest.insert(new(node));
        }
        match &mut self.newest {
            Some(newest) if newest.node.id == id => newest,
            _ => self.pending.entry(id).or_insert_with(|| new(node)),
        }
    }

    fn take_newest(&mut self) -> Option<Pending> {
        self.newest.take().or_else(|| self.pending.pop_last().map(|(_, pending)| pending))
    }

    /// Calls the rules, newest first, until only arguments are left; returns their gradients by
    /// number. A call that nothing else refers to is freed as soon as its rule has run.
    pub fn finish(self) -> Result<BTreeMap<u64, Tensor>> {
        self.finish_with(&mut |_, _| Ok(()))
    }

    /// The same, telling `ready` of each argument's gradient as soon as nothing more is added to it: no call
    /// that is left holds the argument. Those that are held elsewhere are not told of.
    pub fn finish_with(
        mut self,
        ready: &mut dyn FnMut(u64, &Tensor) -> Result<()>,
    ) -> Result<BTreeMap<u64, Tensor>> {
        let mut alike = None;
        while let Some(Pending { mut node, grads }) = self.take_newest() {
            let Some(call) = &node.call else { continue };
            let found = call.gradients(grads, &mut alike)?;
            for (i, grad) in found.into_iter().enumerate() {
                let Some(grad) = grad else { continue };
                if let Some(Parent { node, output }) = parent(&mut node, i) {
                    self.add(node, output, grad)?;
                }
            }
            drop(node);
            for id in std::mem::take(&mut self.touched) {
                if let Some((node, grad)) = self.arguments.get(&id)
                    && Arc::strong_count(node) == 1
                {
                    ready(id, grad)?;
                }
            }
        }
        Ok(self.arguments.into_iter().map(|(id, (_, grad))| (id, grad)).collect())
    }
}

impl Call {
    /// The gradients for the inputs. `alike` stands for what looks like the only result: one is
    /// made where the last call's does not fit.
    fn gradients(
        &self,
        grads: SmallVec<[Option<Tensor>; 1]>,
        alike: &mut Option<Tensor>,
    ) -> Result<Grads> {
        let mut given: SmallVec<[Tensor; 1]> = SmallVec::new();
        let mut grads = grads.into_iter();
        for saved in &self.outputs[..self.results] {
            given.push(match grads.next().flatten() {
                Some(grad) => grad,
                None => saved.zeros()?,
            });
        }
        if !alike.as_ref().is_some_and(|x| is_like(x, &given[0])) {
            *alike = Some(placeholder(given[0].shape(), given[0].dtype())?);
        }
        let mut placeholders: SmallVec<[Tensor; 3]> = SmallVec::new();
        for saved in self.inputs.iter().map(|input| &input.saved).chain(&self.outputs) {
            if let Saved::Placeholder(spec) = saved {
                placeholders.push(placeholder(&spec.0, spec.1)?);
            }
        }
        let mut placeholders = placeholders.iter();
        let mut inputs: SmallVec<[&Tensor; 3]> = SmallVec::new();
        let mut wanted: SmallVec<[bool; 4]> = SmallVec::new();
        for input in &self.inputs {
            if let Some(x) = input.saved.or(alike, &mut placeholders) {
                inputs.push(x);
            }
            wanted.push(input.parent.is_some());
        }
        let mut outputs: SmallVec<[&Tensor; 1]> = SmallVec::new();
        for saved in &self.outputs {
            if let Some(y) = saved.or(alike, &mut placeholders) {
                outputs.push(y);
            }
        }
        let given: SmallVec<[&Tensor; 1]> = given.iter().collect();
        backward_of_call(&*self.op, &given, &inputs, &outputs, &wanted, self.at)
    }
}
