//! Time for memory: calls that are computed again when their gradient is needed.

use super::custom::{Function, batched, examples, leaf_tensors, refill, unbatched, wrap_call};
use super::transform::vjp;
use super::tree::{Tree, leaves};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Specs};
use crate::ops::record::{Class, Input, Needs, Record};
use crate::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// `f(args)`, for which reverse mode saves only the arguments: everything inside is computed again,
/// bit for bit, when the gradient is needed.
///
/// Tensors that `f` captures may be traced too, and their gradients are right, but what is computed
/// from them is saved as usual: pass anything large as an argument.
///
/// ```
/// use extensor::ops::{exp, sum};
/// use extensor::{autodiff::{checkpoint, grad}, tensor};
/// let f = |x: &_| sum(&exp(&exp(x)?)?, ..);
/// let x = tensor([0.5, -1.0]);
/// let plain = grad(f, &x)?;
/// let again = grad(|x| checkpoint(f, x), &x)?;
/// assert_eq!(plain.to_vec::<f64>()?, again.to_vec::<f64>()?);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn checkpoint<A, B, F>(f: F, args: &A) -> Result<B>
where
    A: Tree + Send + Sync + 'static,
    B: Tree + 'static,
    F: Fn(&A) -> Result<B> + Send + Sync + 'static,
{
    let f: Arc<Whole<A, B>> = Arc::new(f);
    at_levels(&f, args)
}

/// A function whose calls are computed again.
type Whole<A, B> = dyn Fn(&A) -> Result<B> + Send + Sync;

fn at_levels<A, B>(f: &Arc<Whole<A, B>>, args: &A) -> Result<B>
where
    A: Tree + Send + Sync + 'static,
    B: Tree + 'static,
{
    // At a level of `vmap` it is the function of a batch that is computed again, one level down.
    if let Some((level, size)) = examples(args) {
        let each = f.clone();
        let f: Arc<Whole<A, B>> =
            Arc::new(move |args| batched(&each(&unbatched(args, level)?)?, level, size));
        return unbatched(&at_levels(&f, &batched(args, level, size)?)?, level);
    }
    wrap_call(
        args,
        |args| f(args),
        |values| {
            let outputs = at_levels(f, values)?;
            let (f, outline) = (f.clone(), outline(values)?);
            let again = move |list: &[Tensor]| {
                let outputs = f(&refill(&outline, list)?)?;
                Ok(leaf_tensors(&outputs))
            };
            let op = Checkpoint { again: Arc::new(again), args: leaves(args).len() };
            Ok((outputs, Box::new(op)))
        },
    )
}

/// The structure, with leaves that take no memory.
fn outline<A: Tree>(tree: &A) -> Result<A> {
    super::tree::map(tree, |x| Tensor::constant(0.0, x.shape(), x.dtype()))
}

/// A call that was made, as an operation of its arguments and (for what it captured) its results.
#[derive(Clone)]
struct Checkpoint {
    again: Function,
    args: usize,
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint").field("args", &self.args).finish_non_exhaustive()
    }
}

static CHECKPOINT: Record = Record {
    name: "checkpoint",
    formula: "y = f(x)",
    derivative: "that of f, computed again",
    inputs: &[Input::many("x")],
    class: Class::Composite,
    needs: Needs::Inputs,
    ..Record::BLANK
};

impl Operation for Checkpoint {
    fn record(&self) -> &'static Record {
        &CHECKPOINT
    }
    fn infer(&self, _: &[&Tensor]) -> Result<Specs> {
        Ok(Specs::new())
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let args: Vec<Tensor> = inputs[..self.args].iter().copied().cloned().collect();
        Ok((self.again)(&args)?.into())
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
        let (args, wanted) = (&call.inputs[..self.args], &call.wanted[..self.args]);
        if wanted.contains(&true) {
            let moves: Vec<usize> = (0..args.len()).filter(|&i| wanted[i]).collect();
            let moving: Vec<Tensor> = moves.iter().map(|&i| args[i].clone()).collect();
            let again = |moving: &Vec<Tensor>| {
                let mut at: Vec<Tensor> = args.iter().copied().cloned().collect();
                for (&i, x) in moves.iter().zip(moving) {
                    at[i] = x.clone();
                }
                (self.again)(&at)
            };
            let (_, pullback) = vjp(again, &moving)?;
            let cotangents: Vec<Tensor> = call.grads.iter().copied().cloned().collect();
            let mut found = pullback.call_once(&cotangents)?.into_iter();
            for (grad, _) in grads.iter_mut().zip(wanted).filter(|(_, wanted)| **wanted) {
                *grad = found.next();
            }
        }
        for (k, grad) in call.grads.iter().enumerate() {
            if call.wanted.get(self.args + k) == Some(&true) {
                grads[self.args + k] = Some((*grad).clone());
            }
        }
        Ok(grads)
    }
    fn derivative(&self, _: &Forward<'_>) -> Result<Outputs> {
        let (op, argument) = ("checkpoint", "x".into());
        Err(Error::NotDifferentiable { op, argument, reason: "forward mode saves nothing" })
    }
}

/// `f(layer n, … f(layer 1, x))` for a list of layers, in segments of which only the ends are saved;
/// √n segments unless `segments` says how many.
///
/// ```
/// use extensor::ops::{sin, multiply};
/// use extensor::{autodiff::{checkpoint_sequential, grad}, tensor};
/// let layers: Vec<_> = (1..=9).map(|i| tensor(i as f64 / 5.0)).collect();
/// let f = |w: &_, x: &_| sin(&multiply(w, x)?);
/// let plain = grad(|l: &Vec<_>| l.iter().try_fold(tensor(1.0), |x, w| f(w, &x)), &layers)?;
/// let saved = grad(|l: &Vec<_>| checkpoint_sequential(f, l, &tensor(1.0), None), &layers)?;
/// assert_eq!(plain[0].item::<f64>()?, saved[0].item::<f64>()?);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn checkpoint_sequential<P, A, F>(
    f: F,
    layers: &[P],
    x: &A,
    segments: Option<usize>,
) -> Result<A>
where
    P: Tree + Clone + Send + Sync + 'static,
    A: Tree + Clone + Send + Sync + 'static,
    F: Fn(&P, &A) -> Result<A> + Send + Sync + 'static,
{
    let count = segments.unwrap_or_else(|| layers.len().isqrt()).clamp(1, layers.len().max(1));
    let f = Arc::new(f);
    let mut x = x.clone();
    for segment in layers.chunks(layers.len().div_ceil(count).max(1)) {
        let f = f.clone();
        let run = move |(layers, x): &(Vec<P>, A)| {
            layers.iter().try_fold(x.clone(), |x, layer| f(layer, &x))
        };
        x = checkpoint(run, &(segment.to_vec(), x))?;
    }
    Ok(x)
}
