//! Functions whose derivatives the user defines.

use super::batch;
use super::trace::{Mark, note, unwrap};
use super::tree::{Path, Tree, leaves, map};
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Specs, apply};
use crate::ops::record::{Class, Input, Needs, Record};
use crate::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex};

/// A function of leaves.
pub(super) type Function = Arc<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;

/// The leaves of a tree, cloned.
pub(super) fn leaf_tensors<T: Tree>(tree: &T) -> Vec<Tensor> {
    leaves(tree).into_iter().cloned().collect()
}

/// The structure of a tree with these leaves.
pub(super) fn refill<T: Tree>(outline: &T, list: &[Tensor]) -> Result<T> {
    let mut list = list.iter();
    outline.map(&Path::ROOT, &mut |path, _| {
        list.next().cloned().ok_or_else(|| Error::Inputs {
            op: "a function of a tree",
            expected: format!("a tensor for {path}"),
            got: "fewer".into(),
        })
    })
}

/// The level of `vmap` that is the highest among a tree's leaves, and how many examples there are.
pub(super) fn examples<A: Tree>(args: &A) -> Option<(u64, usize)> {
    let list = leaves(args);
    let top = list.iter().filter_map(|x| x.traced()).max_by_key(|traced| traced.level)?;
    top.is_batch().then(|| (top.level, batch::size(&list, top.level)))
}

/// The tree with an axis of examples first in every leaf.
pub(super) fn batched<A: Tree>(args: &A, level: u64, size: usize) -> Result<A> {
    map(args, |x| batch::whole(x, level, size))
}

/// The tree whose leaves stand for the examples that are these leaves' first axis.
pub(super) fn unbatched<A: Tree>(args: &A, level: u64) -> Result<A> {
    map(args, |x| Ok(batch::example(level, x.clone())))
}

/// A function of leaves, of leaves that have an axis of examples first, and so its results.
fn at_examples(f: &Function, at: &Batch<'_>) -> Function {
    let (f, level, size) = (f.clone(), at.level, at.size);
    Arc::new(move |list: &[Tensor]| {
        let list: Vec<Tensor> = list.iter().map(|x| batch::example(level, x.clone())).collect();
        f(&list)?.iter().map(|y| batch::whole(y, level, size)).collect()
    })
}

/// Calls a function at the highest level among its arguments: `plain` if that is none or one of
/// forward mode, otherwise `noted` with the arguments one level down, which returns the results there
/// and the operation to note at the level, whose inputs are the arguments and the results.
pub(super) fn wrap_call<A: Tree, B: Tree>(
    args: &A,
    plain: impl FnOnce(&A) -> Result<B>,
    noted: impl FnOnce(&A) -> Result<(B, Box<dyn Operation>)>,
) -> Result<B> {
    let marked = leaves(args).into_iter().filter_map(|x| x.traced());
    let Some(top) = marked.max_by_key(|traced| traced.level) else {
        return plain(args);
    };
    if matches!(top.mark, Mark::Forward { .. }) {
        return plain(args);
    }
    let level = top.level;
    let values = map(args, |x| Ok(unwrap(x, level).0.clone()))?;
    let (outputs, op) = noted(&values)?;
    // What the function captured may have been traced at the level.
    let inputs: Vec<&Tensor> = leaves(args).into_iter().chain(leaves(&outputs)).collect();
    let (values, marks): (Vec<&Tensor>, Vec<Option<&Mark>>) =
        inputs.iter().map(|x| unwrap(x, level)).unzip();
    let results = leaves(&outputs).into_iter().map(|y| unwrap(y, level).0.clone()).collect();
    let wrapped = note(&*op, level, &values, &marks, results, Location::caller());
    refill(&outputs, &wrapped)
}

/// A function with its own backward function: `forward` returns the results and what is to be
/// saved, `backward` computes the gradients of the arguments from what was saved and from the
/// gradients of the results.
///
/// If both are made of operations, the function can be differentiated any number of times.
///
/// ```
/// use extensor::ops::{log, exp, add, divide};
/// use extensor::{autodiff::{custom_vjp, grad}, tensor, Tensor};
/// // log(1 + eˣ), whose gradient by itself is ∞/∞ for large x.
/// let f = custom_vjp(
///     |x: &Tensor| {
///         let e = exp(x)?;
///         Ok((log(&add(&tensor(1.0), &e)?)?, x.clone()))
///     },
///     |x: &Tensor, g: &Tensor| divide(g, &add(&tensor(1.0), &exp(&-x)?)?),
/// );
/// assert_eq!(grad(&f, &tensor(1000.0))?.item::<f64>()?, 1.0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn custom_vjp<A, B, S>(
    forward: impl Fn(&A) -> Result<(B, S)> + Send + Sync + 'static,
    backward: impl Fn(&S, &B) -> Result<A> + Send + Sync + 'static,
) -> impl Fn(&A) -> Result<B>
where
    A: Tree + 'static,
    B: Tree + Send + 'static,
    S: Tree + Send + Sync + 'static,
{
    let forward: Rule<A, (B, S)> = Arc::new(forward);
    let backward: PullRule<A, B, S> = Arc::new(backward);
    move |args: &A| custom_at(&forward, &backward, args)
}

type Rule<A, B> = Arc<dyn Fn(&A) -> Result<B> + Send + Sync>;
type PullRule<A, B, S> = Arc<dyn Fn(&S, &B) -> Result<A> + Send + Sync>;

/// Calls a function with its own rule at the highest level among its arguments.
fn custom_at<A, B, S>(
    forward: &Rule<A, (B, S)>,
    backward: &PullRule<A, B, S>,
    args: &A,
) -> Result<B>
where
    A: Tree + 'static,
    B: Tree + Send + 'static,
    S: Tree + Send + Sync + 'static,
{
    // At a level of `vmap` the functions are called with examples, and are those of a batch below.
    if let Some((level, size)) = examples(args) {
        let (f, pull) = (forward.clone(), backward.clone());
        let forward: Rule<A, (B, S)> = Arc::new(move |args| {
            let (outputs, saved) = f(&unbatched(args, level)?)?;
            Ok((batched(&outputs, level, size)?, batched(&saved, level, size)?))
        });
        let backward: PullRule<A, B, S> = Arc::new(move |saved, grads| {
            batched(&pull(&unbatched(saved, level)?, &unbatched(grads, level)?)?, level, size)
        });
        let outputs = custom_at(&forward, &backward, &batched(args, level, size)?)?;
        return unbatched(&outputs, level);
    }
    wrap_call(
        args,
        |args| {
            // No level is left, or one of forward mode.
            if leaves(args).iter().any(|x| x.is_traced()) {
                return Err(Error::NotDifferentiable {
                    op: "custom_vjp",
                    argument: "the arguments".into(),
                    reason: "it has no rule for forward mode; custom_jvp serves both",
                });
            }
            Ok(forward(args)?.0)
        },
        |values| {
            let (outputs, saved) = forward(values)?;
            let (outline, backward) = (Mutex::new(outline_of(&outputs)?), backward.clone());
            let pull = move |grads: &[Tensor]| {
                let outline = outline.lock().unwrap_or_else(|e| e.into_inner());
                let grads = backward(&saved, &refill(&*outline, grads)?)?;
                Ok(leaf_tensors(&grads))
            };
            let op = CustomVjp { pull: Arc::new(pull), args: leaves(args).len() };
            Ok((outputs, Box::new(op)))
        },
    )
}

fn outline_of<T: Tree>(tree: &T) -> Result<T> {
    map(tree, |x| Tensor::constant(0.0, x.shape(), x.dtype()))
}

#[derive(Clone)]
struct CustomVjp {
    pull: Function,
    args: usize,
}

impl fmt::Debug for CustomVjp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomVjp").field("args", &self.args).finish_non_exhaustive()
    }
}

static CUSTOM_VJP: Record = Record {
    name: "custom_vjp",
    formula: "y = f(x)",
    derivative: "the user's",
    inputs: &[Input::many("x")],
    class: Class::Composite,
    needs: Needs::Shapes,
    ..Record::BLANK
};

impl Operation for CustomVjp {
    fn record(&self) -> &'static Record {
        &CUSTOM_VJP
    }
    fn infer(&self, _: &[&Tensor]) -> Result<Specs> {
        Ok(Specs::new())
    }
    fn forward(&self, _: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(Outputs::new())
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let given: Vec<Tensor> = call.grads.iter().copied().cloned().collect();
        let found = (self.pull)(&given)?;
        if found.len() != self.args {
            let (expected, got) = (self.args.to_string(), found.len().to_string());
            let parameter = "number of gradients";
            return Err(Error::Parameter { op: "custom_vjp", parameter, expected, got });
        }
        let mut grads: Grads = SmallVec::new();
        for (i, grad) in found.into_iter().enumerate() {
            if grad.shape() != call.inputs[i].shape() {
                let (expected, got) = (call.inputs[i].shape().to_string(), grad.shape().clone());
                let argument = "a gradient";
                return Err(Error::Shape { op: "custom_vjp", argument, expected, got });
            }
            grads.push(call.wanted[i].then_some(grad));
        }
        for (k, grad) in call.grads.iter().enumerate() {
            grads.push(call.wanted[self.args + k].then(|| (*grad).clone()));
        }
        Ok(grads)
    }
}

/// A function with its own forward derivative, `rule(args, tangents)`, which returns the
/// derivatives of the results and is linear in the tangents. Reverse mode transposes it, so it is
/// all that any order needs.
///
/// ```
/// use extensor::ops::{abs, sign, multiply};
/// use extensor::{autodiff::{custom_jvp, grad, jvp}, tensor, Tensor};
/// let f = custom_jvp(
///     |x: &Tensor| abs(x),
///     |x: &Tensor, t: &Tensor| multiply(&sign(x)?, t),
/// );
/// assert_eq!(grad(&f, &tensor(-3.0))?.item::<f64>()?, -1.0);
/// assert_eq!(jvp(&f, &tensor(-3.0), &tensor(2.0))?.1.item::<f64>()?, -2.0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn custom_jvp<A, B>(
    f: impl Fn(&A) -> Result<B> + Send + Sync + 'static,
    rule: impl Fn(&A, &A) -> Result<B> + Send + Sync + 'static,
) -> impl Fn(&A) -> Result<B>
where
    A: Tree + Send + Sync + 'static,
    B: Tree + Send + 'static,
{
    let (f, rule) = (Arc::new(f), Arc::new(rule));
    move |args: &A| {
        let outline = Arc::new(outline_of(args)?);
        // The structure of the results is known when the function has been called.
        let made: Arc<Mutex<Option<B>>> = Arc::default();
        let (inner, shape, result) = (f.clone(), outline.clone(), made.clone());
        let call = move |list: &[Tensor]| {
            let outputs = inner(&refill(&*shape, list)?)?;
            *result.lock().unwrap_or_else(|e| e.into_inner()) = Some(outline_of(&outputs)?);
            Ok(leaf_tensors(&outputs))
        };
        let (inner, shape) = (rule.clone(), outline);
        let along = move |list: &[Tensor]| {
            let (x, t) = list.split_at(list.len() / 2);
            Ok(leaf_tensors(&inner(&refill(&*shape, x)?, &refill(&*shape, t)?)?))
        };
        let op = CustomJvp { call: Arc::new(call), along: Arc::new(along) };
        let outputs = apply(&op, &leaves(args))?;
        let made = made.lock().unwrap_or_else(|e| e.into_inner());
        match &*made {
            Some(made) => refill(made, &outputs),
            None => Err(Error::Inputs {
                op: "custom_jvp",
                expected: "a function that is called".into(),
                got: "none".into(),
            }),
        }
    }
}

#[derive(Clone)]
struct CustomJvp {
    call: Function,
    /// Of the arguments and then the tangents.
    along: Function,
}

impl fmt::Debug for CustomJvp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomJvp").finish_non_exhaustive()
    }
}

static CUSTOM_JVP: Record = Record {
    name: "custom_jvp",
    formula: "y = f(x)",
    derivative: "the user's",
    inputs: &[Input::many("x")],
    class: Class::General,
    needs: Needs::Inputs,
    ..Record::BLANK
};

impl Operation for CustomJvp {
    fn record(&self) -> &'static Record {
        &CUSTOM_JVP
    }
    fn infer(&self, _: &[&Tensor]) -> Result<Specs> {
        Ok(Specs::new())
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let args: Vec<Tensor> = inputs.iter().copied().cloned().collect();
        Ok((self.call)(&args)?.into())
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        super::pull::transposed(self, call)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let mut list: Vec<Tensor> = call.inputs.iter().copied().cloned().collect();
        for (x, tangent) in call.inputs.iter().zip(call.tangents) {
            list.push(match tangent {
                Some(tangent) => (*tangent).clone(),
                None => Tensor::constant(0.0, x.shape(), x.dtype())?,
            });
        }
        Ok((self.along)(&list)?.into())
    }
    fn batch(&self, at: &Batch<'_>) -> Batched {
        let (call, along) = (at_examples(&self.call, at), at_examples(&self.along, at));
        at.whole(CustomJvp { call, along })
    }
}
