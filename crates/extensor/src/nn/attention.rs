//! Attention with several heads.
//!
//! It knows how projections are cut into heads; who looks at whom is the operation's concern.

use super::{Linear, bad, init};
use crate::ops::AttentionOptions;
use crate::{DType, Error, Key, Result, Tensor, Tree, ops};

/// Attention with several heads: queries, keys and values are projected, cut into heads, averaged by
/// [`scaled_dot_product_attention`](crate::ops::scaled_dot_product_attention) and projected again.
///
/// Inputs are `[batch, length, size]`. The parameters are named, shaped and begun as PyTorch's; masks and
/// dropout are the operation's: a mask of bools is `true` where a query may look at a key (PyTorch's layer has
/// it the other way round), one of floats is added to the scores.
///
/// ```
/// use extensor::{DType, Key, nn::MultiHeadAttention, ops::AttentionOptions};
/// let [a, b, c] = Key::new(1).split();
/// let layer = MultiHeadAttention::new(a, 8, 2)?;
/// let (x, memory) = (b.normal([3, 5, 8], DType::F32)?, c.normal([3, 7, 8], DType::F32)?);
/// assert_eq!(x.apply(&layer)?.shape(), [3, 5, 8]);
/// let causal = AttentionOptions::new().causal(true);
/// assert_eq!(layer.attend(&x, &x, &x, causal)?.shape(), [3, 5, 8]);
/// let all = AttentionOptions::new();
/// assert_eq!(layer.attend(&x, &memory, &memory, all)?.shape(), [3, 5, 8]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct MultiHeadAttention {
    /// The projections of queries, keys and values, one below the other: `[3·size, size]`.
    pub in_proj_weight: Tensor,
    /// Their biases, `[3·size]`.
    pub in_proj_bias: Option<Tensor>,
    /// The projection of what the heads found.
    pub out_proj: Linear,
    /// How many heads there are.
    #[tree(static)]
    pub heads: usize,
}

const OP: &str = "multi_head_attention";

impl MultiHeadAttention {
    /// For vectors of length `size`, which `heads` divides. The projections begin as PyTorch's:
    /// Xavier's even distribution and biases 0, the last as that of a [`Linear`].
    pub fn new(key: Key, size: usize, heads: usize) -> Result<MultiHeadAttention> {
        if heads == 0 || size == 0 || !size.is_multiple_of(heads) {
            return bad(OP, "heads", format!("a divisor of the size {size}"), heads);
        }
        let Some(three) = size.checked_mul(3) else {
            return Err(Error::Overflow { op: OP, shape: [3, size, size].into() });
        };
        let [a, b] = key.split();
        let in_proj_weight = init::xavier_uniform(a, [three, size], 1.0, DType::F32)?;
        let in_proj_bias = Some(Tensor::zeros([three], DType::F32)?);
        let bias = Some(Tensor::zeros([size], DType::F32)?);
        let out_proj = Linear { bias, ..Linear::without_bias(b, size, size)? };
        Ok(MultiHeadAttention { in_proj_weight, in_proj_bias, out_proj, heads })
    }

    /// Self-attention: every vector of `x` looks at all of them.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.attend(x, x, x, AttentionOptions::new())
    }

    /// Attention of `query`, `[batch, T, size]`, to `key` and `value`, `[batch, S, size]`, where the
    /// `mask` of the options, broadcast to `[batch, heads, T, S]`, is true, or with it added if it is of floats, and
    /// with `causal` up to the query's own position. `dropout` and its `key` are for training.
    #[track_caller]
    pub fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: AttentionOptions<'_>,
    ) -> Result<Tensor> {
        let size = self.in_proj_weight.shape().last().copied().unwrap_or(0);
        for (argument, x) in [("query", query), ("key", key), ("value", value)] {
            if x.ndim() != 3 || x.shape()[2] != size {
                let (expected, got) = (format!("[batch, length, {size}]"), x.shape().clone());
                return Err(Error::Shape { op: OP, argument, expected, got });
            }
        }
        let mut heads = Vec::with_capacity(3);
        if same(query, key) && same(key, value) {
            let all = ops::linear(query, &self.in_proj_weight, self.in_proj_bias.as_ref())?;
            for part in ops::split(&all, 3, 2)? {
                heads.push(self.cut(&part)?);
            }
        } else {
            for (i, x) in [query, key, value].into_iter().enumerate() {
                let (start, stop) = ((i * size) as i64, ((i + 1) * size) as i64);
                let weight = ops::slice(&self.in_proj_weight, 0, start, stop, 1)?;
                let part = |bias| ops::slice(bias, 0, start, stop, 1);
                let bias = self.in_proj_bias.as_ref().map(part).transpose()?;
                heads.push(self.cut(&ops::linear(x, &weight, bias.as_ref())?)?);
            }
        }
        let [q, k, v] = [&heads[0], &heads[1], &heads[2]];
        let found = ops::scaled_dot_product_attention(q, k, v, options)?;
        let joined = ops::transpose(&found, [0, 2, 1, 3])?;
        self.out_proj.forward(&ops::reshape(&joined, query.shape())?)
    }

    /// `[batch, length, size]` as `[batch, heads, length, size/heads]`.
    fn cut(&self, x: &Tensor) -> Result<Tensor> {
        let [batch, length, size] = [x.shape()[0], x.shape()[1], x.shape()[2]];
        let cut = ops::reshape(x, [batch, length, self.heads, size / self.heads.max(1)])?;
        ops::transpose(&cut, [0, 2, 1, 3])
    }
}

/// Whether both are one tensor, so that one product serves for both.
fn same(a: &Tensor, b: &Tensor) -> bool {
    std::ptr::eq(a, b)
}
