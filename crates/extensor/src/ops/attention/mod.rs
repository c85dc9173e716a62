//! Averages of values, weighted by the likeness of queries and keys.

pub(super) mod rule;
mod samples;

use crate::ops::operation::{Operation, apply, backward};
use crate::ops::options::options;
use crate::{DType, Error, Key, Result, Tensor};
use extensor_derive::method;
use rule::Attention;
use smallvec::SmallVec;

options! {
    /// Which keys a query of [`scaled_dot_product_attention`] attends to, and how.
    pub struct AttentionOptions<'a> {
        /// Broadcast to `[…, T, S]`. Of dtype bool: true where a query may attend to a key. Of a float dtype: added
        /// to the scores, and differentiated; −∞ where a query may not.
        mask: Option<&'a Tensor> = None,
        /// Whether query `i` attends to the keys `0..=i` alone, counted from the first also where `T`
        /// and `S` differ.
        causal: bool = false,
        /// What likeness is multiplied by: `1/√d` unless given.
        scale: Option<f64> = None,
        /// With what probability each weight is dropped, in [0, 1); the others are scaled by one over the rest, as
        /// [`dropout`](crate::ops::dropout()) does.
        dropout: f64 = 0.0,
        /// What decides which are dropped: needed if any are. The same key drops the same.
        key: Option<Key> = None,
    }
}

const OP: &str = "scaled_dot_product_attention";

/// `y = softmax(scale·q·kᵀ)·v` along the keys: for each query the average of the values, weighted
/// by the similarity of query and key.
///
/// `q` is `[…, T, d]`, `k` is `[…, S, d]`, `v` is `[…, S, dv]`, with the same axes before the last
/// two (batch, heads); the result is `[…, T, dv]`. The result for a query that may attend to
/// nothing is 0. Of `k` and `v` one may serve all batches or heads, with an axis of size 1, and each of their heads several
/// of `q`, if their number divides that of `q`: grouped queries.
///
/// A mask of floats is added to the scores, and has a gradient; −∞ hides a key as `false` does. Dropout leaves out weights
/// at random, by a key.
///
/// The weights are never stored, memory grows with `T` and `S` and not with their product, but with a mask of floats or
/// with dropout: then they are, and each step is taken by itself.
///
/// Conventions: a mask of bools is true where a query may attend to a key, one of floats is added to the scores; causal:
/// to the keys up to its own number, from the first on; a query that may attend to nothing gives 0, with gradient 0; k and v
/// may have fewer heads than q, each for several that follow each other; weights are stored with a mask of floats or dropout
/// alone.
///
/// ```
/// use extensor::ops::AttentionOptions;
/// use extensor::tensor;
/// let q = tensor([[1.0, 0.0], [0.0, 1.0]]);
/// let v = tensor([[1.0], [3.0]]);
/// let options = AttentionOptions::new().causal(true).scale(0.0);
/// let y = q.scaled_dot_product_attention(&q, &v, options)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0]);
/// // Added to the scores: the second query sees the second key three times as much as the first.
/// let added = tensor([[0.0, f64::NEG_INFINITY], [0.0, 3f64.ln()]]);
/// let options = AttentionOptions::new().mask(&added).scale(0.0);
/// let y = q.scaled_dot_product_attention(&q, &v, options)?.to_vec::<f64>()?;
/// assert!(y[0] == 1.0 && (y[1] - 2.5).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn scaled_dot_product_attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    options: AttentionOptions<'_>,
) -> Result<Tensor> {
    let found = scaled_dot_product_attention_with_logsumexp(q, k, v, options)?;
    Ok(found.0)
}

/// [`scaled_dot_product_attention`] with what its backward function needs besides the inputs: the
/// result, and `ln Σ e^(scale·q·k)` over the keys of each query, `[…, T]` (in `f32` for the 16-bit
/// dtypes), −∞ where a query may attend to nothing.
#[method]
#[track_caller]
pub fn scaled_dot_product_attention_with_logsumexp(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    options: AttentionOptions<'_>,
) -> Result<(Tensor, Tensor)> {
    let op = Attention::of(&options);
    let more = more(&options)?;
    let inputs: SmallVec<[&Tensor; 5]> = [q, k, v].into_iter().chain(&more).collect();
    let mut outputs = apply(&op, &inputs)?;
    let logsumexp = outputs.remove(1);
    Ok((outputs.remove(0), logsumexp))
}

/// The inputs after queries, keys and values: the mask, and the seed of a key of which each example of a batch has another,
/// which is an input and not a parameter.
fn more(options: &AttentionOptions<'_>) -> Result<SmallVec<[Tensor; 2]>> {
    let mut more: SmallVec<[Tensor; 2]> = options.mask.cloned().into_iter().collect();
    if let Some(key) = options.key.filter(|_| options.dropout > 0.0)
        && let Some(seed) = key.mapped_seed()?
    {
        if more.is_empty() {
            more.push(Tensor::constant(1.0, &[1, 1].into(), DType::Bool)?);
        }
        more.push(seed);
    }
    Ok(more)
}

/// The gradients of [`scaled_dot_product_attention`] for `q`, `k`, `v` and a mask of floats, if that is what is given, from them
/// and from what [`scaled_dot_product_attention_with_logsumexp`] returned. The weights are computed again, block
/// by block unless there is such a mask or dropout, which drops the same; a query that may attend to nothing has, and
/// gives, gradients of 0.
///
/// ```
/// use extensor::ops::AttentionOptions;
/// use extensor::tensor;
/// use extensor::ops::scaled_dot_product_attention_backward as backward;
/// let (q, v) = (tensor([[1.0, 0.0], [0.0, 1.0]]), tensor([[1.0], [3.0]]));
/// let options = AttentionOptions::new().causal(true).scale(0.0);
/// let (y, logsumexp) = q.scaled_dot_product_attention_with_logsumexp(&q, &v, options)?;
/// let g = tensor([[1.0], [1.0]]);
/// let (_, _, dv, _) = backward(&g, [&q, &q, &v], [&y, &logsumexp], options)?;
/// assert_eq!(dv.to_vec::<f64>()?, [1.5, 0.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[track_caller]
#[extensor_derive::noted]
pub fn scaled_dot_product_attention_backward(
    grad_output: &Tensor,
    [q, k, v]: [&Tensor; 3],
    [output, logsumexp]: [&Tensor; 2],
    options: AttentionOptions<'_>,
) -> Result<(Tensor, Tensor, Tensor, Option<Tensor>)> {
    let op = Attention::of(&options);
    let more = more(&options)?;
    let inputs: SmallVec<[&Tensor; 5]> = [q, k, v].into_iter().chain(&more).collect();
    let name = "scaled_dot_product_attention_backward";
    let specs = op.infer(&inputs)?;
    for (argument, x, spec) in [("output", output, &specs[0]), ("logsumexp", logsumexp, &specs[1])]
    {
        if *x.shape() != spec.shape {
            let (expected, got) = (spec.shape.to_string(), x.shape().clone());
            return Err(Error::Shape { op: name, argument, expected, got });
        }
        if x.dtype() != spec.dtype {
            let (expected, got) = (spec.dtype.name(), x.dtype());
            return Err(Error::DType { op: name, argument, expected, got });
        }
    }
    let added = options.mask.is_some_and(|mask| mask.dtype().is_float());
    let wanted = [true, true, true, added, false];
    let outputs = [output, logsumexp];
    let grads = backward(&op, &[grad_output], &inputs, &outputs, &wanted[..inputs.len()])?;
    let mut grads = grads.into_iter().flatten();
    match (grads.next(), grads.next(), grads.next()) {
        (Some(dq), Some(dk), Some(dv)) => Ok((dq, dk, dv, grads.next())),
        _ => Err(Error::NotDifferentiable {
            op: OP,
            argument: "an input".into(),
            reason: "its rule returned no gradient",
        }),
    }
}
