//! Attention as an operation: sizes and dtypes for the kernel, and what the kernel does not do, made of operations.

use super::{AttentionOptions, OP, samples};
use crate::autodiff::stop_gradient;
use crate::exec::attention::{self, AttentionGradient};
use crate::exec::launch;
use crate::ops::batching::{Batch, Batched, Together, View};
use crate::ops::dropout::dropped;
use crate::ops::operation::reduce_to_shape;
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::record::{Class, Family, Input, Needs, Parameter, Record, signature};
use crate::tensor::{expect_room, with_room};
use crate::{DType, Error, Key, Result, Shape, Tensor, ops, over};
use smallvec::{SmallVec, smallvec};

#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub causal: bool,
    pub scale: Option<f64>,
    pub dropout: f64,
    pub key: Option<Key>,
    /// Sizes of first axes whose elements are examples of a batch, each with weights of its own to drop.
    pub examples: SmallVec<[usize; 1]>,
}

/// The sizes of a call.
struct Sizes {
    /// Batch and heads.
    outer: Shape,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
}

impl Sizes {
    fn of(inputs: &[&Tensor]) -> Result<Sizes> {
        let [q, k, v] = [inputs[0], inputs[1], inputs[2]].map(Tensor::shape);
        let n = q.len() - 2;
        let outer: Shape = q[..n].iter().copied().collect();
        outer.count(OP)?;
        let (queries, keys) = (q[n], k[n]);
        Ok(Sizes { outer, queries, keys, width: q[n + 1], value_width: v[n + 1] })
    }

    /// Batch and heads, and some axes more.
    fn with(&self, last: &[usize]) -> Shape {
        self.outer.iter().chain(last).copied().collect()
    }
}

/// The dtype that the weights are computed in.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

impl Attention {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Attention,
        formula: "y = p·v, with p = softmax(scale·q·kᵀ + mask) along the keys",
        derivative: "(scale·s·k, scale·sᵀ·q, pᵀ·g, s) with s = p∘(g·vᵀ − Σ g∘y)",
        conventions: "a mask of bools is true where a query may attend to a key, one of floats is added to the \
                      scores; causal: to the keys up to its own number, from the first on; a query that may attend to \
                      nothing gives 0, with gradient 0; k and v may have fewer heads than q, each for several that \
                      follow each other; weights are stored with a mask of floats or dropout alone",
        inputs: &[Input::new("q"), Input::new("k"), Input::new("v"), Input::optional("mask")],
        params: &[
            Parameter {
                name: "causal",
                what: "whether query i attends to keys 0 to i alone",
                default: Some("false"),
            },
            Parameter {
                name: "scale",
                what: "what q·k is multiplied by; None for 1/√d",
                default: Some("None"),
            },
            Parameter {
                name: "dropout",
                what: "the share of the weights that is dropped, in [0, 1)",
                default: Some("0.0"),
            },
            Parameter {
                name: "key",
                what: "the number of a random key, for dropout",
                default: Some("None"),
            },
        ],
        backward: signature!(scaled_dot_product_attention_backward(grad_output, q, k, v, mask, output, auxiliary(logsumexp); causal, scale, dropout, key)),
        class: Class::General,
        needs: Needs::InputsAndOutputs,
        auxiliary: 1,
        build: |p| {
            let (causal, scale) = (p.bool(OP, "causal", false)?, p.optional_float(OP, "scale")?);
            let (dropout, key) = (p.float(OP, "dropout", 0.0)?, p.optional_key(OP, "key")?);
            Ok(Box::new(Attention { causal, scale, dropout, key, examples: SmallVec::new() }))
        },
        samples: samples::samples,
        errors: samples::errors,
        ..Record::BLANK
    };

    pub(super) fn of(options: &AttentionOptions<'_>) -> Attention {
        let AttentionOptions { causal, scale, dropout, key, .. } = *options;
        Attention { causal, scale, dropout, key, examples: SmallVec::new() }
    }

    /// Whether the kernel does it: what is added to scores, and what is dropped, it does not know.
    fn is_fused(&self, inputs: &[&Tensor]) -> bool {
        self.dropout == 0.0 && inputs.get(3).is_none_or(|mask| !mask.dtype().is_float())
    }

    /// The factor on the products of queries and keys.
    fn factor(&self, width: usize) -> f64 {
        self.scale.unwrap_or_else(|| 1.0 / (width.max(1) as f64).sqrt())
    }

    /// What is computed of the inputs.
    fn kernel(&self, inputs: &[&Tensor], sizes: &Sizes) -> Result<attention::Attention> {
        let mask = inputs.len() > 3;
        if mask {
            // Where each head's mask begins, and the list that this is made of.
            let count = sizes.outer.iter().fold(1usize, |all, &size| all.saturating_mul(size));
            expect_room(OP, count, 2 * size_of::<usize>())?;
        }
        let scale = self.factor(sizes.width);
        Ok(attention::Attention { causal: self.causal, scale, mask })
    }

    /// Which keys each query may attend to, `[…, T, S]`, where some are hidden.
    fn seen(&self, inputs: &[&Tensor], sizes: &Sizes) -> Result<Option<Tensor>> {
        let Sizes { queries, keys, .. } = *sizes;
        let mask = match inputs.get(3) {
            Some(mask) if mask.dtype().is_float() => {
                let hidden = Tensor::scalar_of(f64::NEG_INFINITY, mask.dtype())?;
                Some(ops::not_equal(&stop_gradient(mask), &hidden)?)
            }
            mask => mask.map(|&mask| mask.clone()),
        };
        if !self.causal {
            return Ok(mask);
        }
        let mut below = with_room(OP, queries.saturating_mul(keys))?;
        below.extend((0..queries).flat_map(|i| (0..keys).map(move |j| j <= i)));
        let below = Tensor::from_vec::<bool>(below, [queries, keys])?;
        Ok(Some(match mask {
            Some(mask) => ops::logical_and(&mask, &below)?,
            None => below,
        }))
    }
}

/// The weights of a call, made of operations, in the dtype that is computed in.
struct Weights {
    /// Queries, keys and values for every head.
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: Tensor,
    zero: Tensor,
    /// Which keys each query may attend to, where some are hidden, and whether a query may attend to any.
    seen: Option<[Tensor; 2]>,
    scores: Tensor,
    /// The weights before any is dropped: 0 where a key is hidden.
    p: Tensor,
}

impl Weights {
    fn of(op: &Attention, inputs: &[&Tensor], sizes: &Sizes, dtype: DType) -> Result<Weights> {
        let dtype = wide(dtype);
        // Scores of 16 bits would be rounded by more than 1 where they are large, or overflow.
        let widened = |i: usize| spread(&ops::cast(inputs[i], dtype)?, &sizes.outer);
        let (q, k, v) = (widened(0)?, widened(1)?, widened(2)?);
        let scale = Tensor::scalar_of(op.factor(sizes.width), dtype)?;
        let zero = Tensor::scalar_of(0.0, dtype)?;
        let mut scores = ops::multiply(&ops::matmul(&q, &swapped(&k)?)?, &scale)?;
        if let Some(mask) = inputs.get(3).filter(|mask| mask.dtype().is_float()) {
            scores = ops::add(&scores, &ops::cast(mask, dtype)?)?;
        }
        let seen = match op.seen(inputs, sizes)? {
            Some(seen) => {
                // One number stands for all keys.
                let seen = if seen.ndim() == 0 { ops::expand_dims(&seen, 0)? } else { seen };
                let any = ops::any(&seen, over(-1).keepdims(true))?;
                // Where all is hidden scores are equal, so that nothing is divided by 0.
                let low = Tensor::scalar_of(f64::NEG_INFINITY, dtype)?;
                let hidden = ops::where_(&any, &low, &zero)?;
                scores = ops::where_(&seen, &scores, &hidden)?;
                Some([seen, any])
            }
            None => None,
        };
        let p = ops::softmax(&scores, -1)?;
        let mut weights = Weights { q, k, v, scale, zero, seen, scores, p };
        weights.p = weights.shown(weights.p.clone())?;
        Ok(weights)
    }

    /// 0 where a key is hidden.
    fn shown(&self, x: Tensor) -> Result<Tensor> {
        match &self.seen {
            Some([seen, _]) => ops::where_(seen, &x, &self.zero),
            None => Ok(x),
        }
    }
}

/// The last two axes the other way round.
fn swapped(x: &Tensor) -> Result<Tensor> {
    let n = x.ndim() as i64;
    let order: Vec<i64> = (0..n - 2).chain([n - 1, n - 2]).collect();
    ops::transpose(x, &order[..])
}

impl Attention {
    /// What is left of weights, or of what is as large, when some are dropped; linear, and the same whenever it is called.
    fn kept(&self, inputs: &[&Tensor], x: &Tensor) -> Result<Tensor> {
        let Some(key) = self.key.filter(|_| self.dropout > 0.0) else { return Ok(x.clone()) };
        // Each example of a batch drops its own, though its weights be those of all.
        let mut x = x.clone();
        for other in inputs.iter().filter(|other| other.is_mapped()) {
            let some = ops::any(&ops::equal(other, other)?, ..)?;
            x = ops::where_(&some, &x, &x)?;
        }
        dropped(&x, self.dropout, key, &self.examples, inputs.get(4).copied())
    }

    /// The outputs, where the kernel does not do it.
    fn made(&self, inputs: &[&Tensor], specs: &Specs) -> Result<Outputs> {
        let sizes = Sizes::of(inputs)?;
        let weights = Weights::of(self, inputs, &sizes, specs[0].dtype)?;
        let y = ops::matmul(&self.kept(inputs, &weights.p)?, &weights.v)?;
        let mut sums = ops::logsumexp(&weights.scores, -1)?;
        if let Some([_, any]) = &weights.seen {
            let low = Tensor::scalar_of(f64::NEG_INFINITY, sums.dtype())?;
            let any = ops::broadcast_to(&ops::squeeze(any, -1)?, sums.shape())?;
            sums = ops::where_(&any, &sums, &low)?;
        }
        Ok(smallvec![ops::cast(&y, specs[0].dtype)?, sums])
    }

    /// The gradients, where the kernel does not do it.
    fn pulled(&self, call: &Backward<'_>) -> Result<Grads> {
        let (dtype, inputs) = (call.grad().dtype(), call.inputs);
        let sizes = Sizes::of(inputs)?;
        let weights = Weights::of(self, inputs, &sizes, dtype)?;
        let Weights { q, k, v, scale, p, .. } = &weights;
        let g = ops::cast(call.grad(), wide(dtype))?;
        let mut found: Grads = SmallVec::from_elem(None, inputs.len());
        let fold = |grad: Tensor, i: usize| gathered(&grad, inputs[i].shape(), &sizes.outer);
        if call.wanted[2] {
            found[2] = Some(fold(ops::matmul(&swapped(&self.kept(inputs, p)?)?, &g)?, 2)?);
        }
        if call.wanted[0] || call.wanted[1] || call.wanted.get(3) == Some(&true) {
            let pull = weights.shown(self.kept(inputs, &ops::matmul(&g, &swapped(v)?)?)?)?;
            let s = ops::softmax_backward(&pull, p, -1)?;
            if call.wanted.get(3) == Some(&true) {
                found[3] = Some(reduce_to_shape(OP, &s, inputs[3].shape())?);
            }
            let s = ops::multiply(&s, scale)?;
            if call.wanted[0] {
                found[0] = Some(ops::matmul(&s, k)?);
            }
            if call.wanted[1] {
                found[1] = Some(fold(ops::matmul(&swapped(&s)?, q)?, 1)?);
            }
        }
        Ok(found)
    }
}

/// Whether keys or values with these axes before the last two serve queries with those: each is the same, or one for all;
/// of heads, the last, there may be a part, each for as many that follow each other.
fn serves(own: &[usize], outer: &[usize]) -> bool {
    let heads = outer.len().saturating_sub(1);
    let one = |(i, (&own, &all)): (usize, (&usize, &usize))| {
        own == all || own == 1 || i == heads && own != 0 && all.is_multiple_of(own)
    };
    own.len() == outer.len() && own.iter().zip(outer).enumerate().all(one)
}

/// The heads of keys or values that serve several queries' heads, with an axis of size 1 behind them for these, and how
/// many these are; `None` where there is one for each, or one for all.
fn groups(x: &Shape, outer: &[usize]) -> Option<(Shape, usize)> {
    let at = outer.len().checked_sub(1)?;
    if x[at] == outer[at] || x[at] == 1 {
        return None;
    }
    let (before, after) = (&x[..=at], &x[at + 1..]);
    Some((before.iter().chain(&[1]).chain(after).copied().collect(), outer[at] / x[at]))
}

/// Keys or values for every head of the queries.
fn spread(x: &Tensor, outer: &[usize]) -> Result<Tensor> {
    let n = outer.len();
    if x.shape()[..n] == *outer {
        return Ok(x.clone());
    }
    let mut x = x.clone();
    if let Some((mut apart, count)) = groups(x.shape(), outer) {
        x = ops::reshape(&x, &apart)?;
        apart.set(n, count);
        let (before, after) = (&apart[..n - 1], &apart[n + 1..]);
        let joined: Shape = before.iter().chain(&outer[n - 1..]).chain(after).copied().collect();
        x = ops::reshape(&ops::broadcast_to(&x, &apart)?, &joined)?;
    }
    let full: Shape = outer.iter().chain(&x.shape()[n..]).copied().collect();
    ops::broadcast_to(&x, &full)
}

/// The gradient for keys or values of this shape, from that for every head of the queries.
fn gathered(grad: &Tensor, shape: &Shape, outer: &[usize]) -> Result<Tensor> {
    if grad.shape() == shape {
        return Ok(grad.clone());
    }
    let (n, mut grad) = (outer.len(), grad.clone());
    if let Some((apart, count)) = groups(shape, outer) {
        let split: Shape = outer[..n - 1]
            .iter()
            .chain(&[apart[n - 1], count])
            .chain(&grad.shape()[n..])
            .copied()
            .collect();
        grad = ops::sum(&ops::reshape(&grad, &split)?, n as i64)?;
    }
    reduce_to_shape(OP, &grad, shape)
}

/// In the dtype that is computed in, and in order.
fn prepared(x: &Tensor, dtype: DType) -> Result<Tensor> {
    ops::cast(x, wide(dtype))?.contiguous()
}

impl Operation for Attention {
    fn record(&self) -> &'static Record {
        Attention::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let [q, k, v] = [inputs[0], inputs[1], inputs[2]];
        let mut dtype = q.dtype();
        for (name, x) in [("q", q), ("k", k), ("v", v)] {
            x.dtype().expect_float(OP, name)?;
            let (a, b) = (dtype, x.dtype());
            dtype = a.promote(b).ok_or(Error::MixedDTypes { op: OP, a, b })?;
        }
        let wrong = |argument, x: &Tensor, expected: String| {
            Err(Error::Shape { op: OP, argument, expected, got: x.shape().clone() })
        };
        let n = q.ndim();
        if n < 2 {
            return wrong("q", q, "[…, queries, width]".into());
        }
        let listed = |outer: &[usize], last: String| {
            let sizes = outer.iter().map(usize::to_string).chain([last]);
            format!("[{}]", sizes.collect::<Vec<_>>().join(", "))
        };
        let (outer, width) = (&q.shape()[..n - 2], q.shape()[n - 1]);
        if k.ndim() != n || !serves(&k.shape()[..n - 2], outer) || k.shape()[n - 1] != width {
            return wrong("k", k, listed(outer, format!("keys, {width}")));
        }
        let keys = k.shape()[n - 2];
        if v.ndim() != n || !serves(&v.shape()[..n - 2], outer) || v.shape()[n - 2] != keys {
            return wrong("v", v, listed(outer, format!("{keys}, value width")));
        }
        if let Some(scale) = self.scale.filter(|s| !s.is_finite()) {
            return Err(Error::Parameter {
                op: OP,
                parameter: "scale",
                expected: "a finite number".into(),
                got: format!("{scale:?}"),
            });
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Error::Parameter {
                op: OP,
                parameter: "dropout",
                expected: "a number from 0 up to but without 1".into(),
                got: format!("{:?}", self.dropout),
            });
        }
        if self.dropout > 0.0 && self.key.is_none() {
            let (expected, got) = ("a key, for dropout".into(), "None".into());
            return Err(Error::Parameter { op: OP, parameter: "key", expected, got });
        }
        let sizes = Sizes::of(inputs)?;
        if let Some(mask) = inputs.get(3) {
            if mask.dtype().is_float() {
                let (a, b) = (dtype, mask.dtype());
                dtype = a.promote(b).ok_or(Error::MixedDTypes { op: OP, a, b })?;
            } else if mask.dtype() != DType::Bool {
                let (argument, expected, got) = ("mask", "bool or a float type", mask.dtype());
                return Err(Error::DType { op: OP, argument, expected, got });
            }
            let full = sizes.with(&[sizes.queries, sizes.keys]);
            if mask.layout().broadcast(&full).is_none() {
                return wrong("mask", mask, format!("one that broadcasts to {full}"));
            }
        }
        let y = Spec { shape: sizes.with(&[sizes.queries, sizes.value_width]), dtype };
        let logsumexp = Spec { shape: sizes.with(&[sizes.queries]), dtype: wide(dtype) };
        Ok([y, logsumexp].into_iter().collect())
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        if !self.is_fused(inputs) {
            return self.made(inputs, &specs);
        }
        let dtype = specs[0].dtype;
        let sizes = Sizes::of(inputs)?;
        let given = |i: usize| prepared(&spread(inputs[i], &sizes.outer)?, dtype);
        let (q, k, v) = (given(0)?, given(1)?, given(2)?);
        let kernel = self.kernel(inputs, &sizes)?;
        specs[0].dtype = wide(dtype);
        let mut given: SmallVec<[&Tensor; 4]> = smallvec![&q, &k, &v];
        given.extend(inputs.get(3).copied());
        let mut outputs = launch(OP, &kernel, &given, specs)?;
        outputs[0] = ops::cast(&outputs[0], dtype)?;
        Ok(outputs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        if !self.is_fused(call.inputs) {
            return self.pulled(call);
        }
        let dtype = call.grad().dtype();
        let sizes = Sizes::of(call.inputs)?;
        let given = |i: usize| prepared(&spread(call.inputs[i], &sizes.outer)?, dtype);
        let (q, k, v) = (given(0)?, given(1)?, given(2)?);
        let (g, y) = (prepared(call.grad(), dtype)?, prepared(call.outputs[0], dtype)?);
        let logsumexp = prepared(call.outputs[1], dtype)?;
        let wanted = [0, 1, 2].map(|i| call.wanted[i]);
        let kernel = AttentionGradient { of: self.kernel(call.inputs, &sizes)?, wanted };
        let mut given: SmallVec<[&Tensor; 7]> = smallvec![&q, &k, &v, &g, &y, &logsumexp];
        given.extend(call.inputs.get(3).copied());
        let like = |i: usize| Spec { shape: [&q, &k, &v][i].shape().clone(), dtype: wide(dtype) };
        let specs = (0..3).filter(|&i| wanted[i]).map(like).collect();
        let mut made = launch(OP, &kernel, &given, specs)?.into_iter();
        let mut found: Grads = SmallVec::from_elem(None, call.inputs.len());
        for i in (0..3).filter(|&i| wanted[i]) {
            let fold = |grad| gathered(&grad, call.inputs[i].shape(), &sizes.outer);
            found[i] = made.next().map(fold).transpose()?;
        }
        Ok(found)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let sizes = Sizes::of(call.inputs)?;
        let dtype = call.outputs[0].dtype();
        // From the scores and not from the logsumexp, which is auxiliary: this is differentiated
        // again for second derivatives.
        let weights = Weights::of(self, call.inputs, &sizes, dtype)?;
        let Weights { q, k, v, scale, p, .. } = &weights;
        let widened = |x: &Tensor| spread(&ops::cast(x, wide(dtype))?, &sizes.outer);
        let tangents = call.tangents[..3].iter().map(|t| t.map(widened).transpose());
        let tangents: SmallVec<[Option<Tensor>; 3]> = tangents.collect::<Result<_>>()?;
        let mut moved: Option<Tensor> = None;
        let mut add = |term: Tensor| -> Result<()> {
            moved = Some(match moved.take() {
                Some(sum) => ops::add(&sum, &term)?,
                None => term,
            });
            Ok(())
        };
        let mut change: Option<Tensor> = None;
        if let Some(dq) = &tangents[0] {
            change = Some(ops::matmul(dq, &swapped(k)?)?);
        }
        if let Some(dk) = &tangents[1] {
            let term = ops::matmul(q, &swapped(dk)?)?;
            change = Some(match change {
                Some(sum) => ops::add(&sum, &term)?,
                None => term,
            });
        }
        let mut change = change.map(|change| ops::multiply(&change, scale)).transpose()?;
        if let Some(Some(added)) = call.tangents.get(3) {
            let added = ops::cast(added, wide(dtype))?;
            change = Some(match change {
                Some(sum) => ops::add(&sum, &added)?,
                None => added,
            });
        }
        if let Some(change) = change {
            let centred = |change: &Tensor| -> Result<Tensor> {
                let mean = ops::sum(&ops::multiply(p, change)?, over(-1).keepdims(true))?;
                ops::subtract(change, &mean)
            };
            // Twice, since the weights must add up to a change of 0: where one key has nearly all the
            // weight, what the first mean was rounded by would be all that is seen of equal values.
            let change = ops::multiply(p, &centred(&centred(&change)?)?)?;
            add(ops::matmul(&self.kept(call.inputs, &change)?, v)?)?;
        }
        if let Some(dv) = &tangents[2] {
            add(ops::matmul(&self.kept(call.inputs, p)?, dv)?)?;
        }
        let moved = moved.map_or_else(|| call.outputs[0].zeros_like(), Ok)?;
        Ok(smallvec![ops::cast(&moved, dtype)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let n = inputs[0].ndim();
        inputs[1].shape()[n - 2].saturating_add(inputs[0].shape()[n - 1]).max(1)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        // Keys that are inputs are another for each example already.
        if call.inputs.len() > 4 {
            return Batched::Loop;
        }
        let mut inputs: SmallVec<[View; 4]> = smallvec![View::WHOLE; call.inputs.len()];
        // A mask broadcasts.
        if let Some(mask) = inputs.get_mut(3) {
            *mask = View { ndim: call.inputs[0].ndim(), ..View::default() };
        }
        let examples = std::iter::once(call.size).chain(self.examples.iter().copied()).collect();
        let op = Box::new(Attention { examples, ..self.clone() });
        Batched::Call(Together { op, inputs, outputs: smallvec![View::WHOLE] })
    }
}
