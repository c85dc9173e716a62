//! Averages of values, weighted by the likeness of queries and keys.

use crate::ops::operation::apply;
use crate::ops::operation::{self, Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::params::Params;
use crate::ops::record::{Class, Count, Family, Input, Needs, Parameter, Record};
use crate::ops::samples::{Bad, Sampler};
use crate::tensor::{Layout, Storage};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_kernels::attention::{self, Mask, Saved};
use extensor_kernels::native::Native;
use smallvec::{SmallVec, smallvec};

const OP: &str = "scaled_dot_product_attention";

/// `y = softmax(scale·q·kᵀ)·v` along the keys: for each query the average of the values, weighted by
/// the likeness of query and key.
///
/// `q` is `[…, T, d]`, `k` is `[…, S, d]`, `v` is `[…, S, dv]`, with the same axes before the last two
/// (batch, heads); the result is `[…, T, dv]`. `mask`, of dtype bool and broadcast to `[…, T, S]`, is
/// true where a query may look at a key. With `causal`, query `i` looks at the keys `0..=i` alone,
/// counted from the first also where `T` and `S` differ. A query that may look at nothing has the
/// result 0. `scale` is `1/√d` unless given.
///
/// The weights are never stored: memory grows with `T` and `S`, not with their product.
///
/// ```
/// use extensor::{scaled_dot_product_attention, tensor};
/// let q = tensor([[1.0, 0.0], [0.0, 1.0]]);
/// let v = tensor([[1.0], [3.0]]);
/// let y = scaled_dot_product_attention(&q, &q, &v, None, true, 0.0)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn scaled_dot_product_attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    causal: bool,
    scale: impl Into<Option<f64>>,
) -> Result<Tensor> {
    let found = scaled_dot_product_attention_with_logsumexp(q, k, v, mask, causal, scale)?;
    Ok(found.0)
}

/// [`scaled_dot_product_attention`] with what its backward function needs beside the inputs: the
/// result, and `ln Σ e^(scale·q·k)` over the keys of each query, `[…, T]` (in `f32` for the 16-bit
/// dtypes), −∞ where a query may look at nothing.
pub fn scaled_dot_product_attention_with_logsumexp(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    causal: bool,
    scale: impl Into<Option<f64>>,
) -> Result<(Tensor, Tensor)> {
    let op = Attention { causal, scale: scale.into() };
    let mut outputs = match mask {
        Some(mask) => apply(&op, &[q, k, v, mask])?,
        None => apply(&op, &[q, k, v])?,
    };
    let logsumexp = outputs.remove(1);
    Ok((outputs.remove(0), logsumexp))
}

/// The gradients of [`scaled_dot_product_attention`] for `q`, `k` and `v`, from them and from what
/// [`scaled_dot_product_attention_with_logsumexp`] returned. The weights are made again block by
/// block; a query that may look at nothing has, and gives, gradients of 0.
///
/// ```
/// use extensor::{scaled_dot_product_attention_backward as backward, tensor};
/// use extensor::scaled_dot_product_attention_with_logsumexp as forward;
/// let (q, v) = (tensor([[1.0, 0.0], [0.0, 1.0]]), tensor([[1.0], [3.0]]));
/// let (y, logsumexp) = forward(&q, &q, &v, None, true, 0.0)?;
/// let g = tensor([[1.0], [1.0]]);
/// let (_, _, dv) = backward(&g, [&q, &q, &v], None, [&y, &logsumexp], true, 0.0)?;
/// assert_eq!(dv.to_vec::<f64>()?, [1.5, 0.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn scaled_dot_product_attention_backward(
    grad_output: &Tensor,
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    [output, logsumexp]: [&Tensor; 2],
    causal: bool,
    scale: impl Into<Option<f64>>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let op = Attention { causal, scale: scale.into() };
    let mut inputs: SmallVec<[&Tensor; 4]> = smallvec![q, k, v];
    inputs.extend(mask);
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
    let wanted = [true, true, true, false];
    let outputs = [output, logsumexp];
    let grads =
        operation::backward(&op, &[grad_output], &inputs, &outputs, &wanted[..inputs.len()])?;
    let mut grads = grads.into_iter().flatten();
    match (grads.next(), grads.next(), grads.next()) {
        (Some(dq), Some(dk), Some(dv)) => Ok((dq, dk, dv)),
        _ => Err(Error::NotDifferentiable {
            op: OP,
            argument: "an input".into(),
            reason: "its rule returned no gradient",
        }),
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    causal: bool,
    scale: Option<f64>,
}

/// The sizes of a call.
struct Sizes {
    /// Batch and heads.
    outer: Shape,
    heads: usize,
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
        let heads = outer.count(OP)?;
        Ok(Sizes {
            outer,
            heads,
            queries: q[n],
            keys: k[n],
            width: q[n + 1],
            value_width: v[n + 1],
        })
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

/// Runs the expression with `$W` standing for the type that the weights are computed in.
macro_rules! match_wide {
    ($dtype:expr, $W:ident => $body:expr) => {
        if $dtype == DType::F64 {
            type $W = f64;
            $body
        } else {
            type $W = f32;
            $body
        }
    };
}

/// The elements of a tensor that lies in order.
fn all<T: Native>(x: &Tensor) -> &[T] {
    x.contiguous_slice().unwrap_or(&[])
}

/// A tensor that is being made.
struct Room {
    storage: Storage,
    shape: Shape,
    dtype: DType,
}

impl Room {
    fn new(shape: &Shape, dtype: DType) -> Result<Room> {
        let len = shape.count(OP)?;
        let storage = match_wide!(dtype, W => Storage::new::<W>(OP, len))?;
        Ok(Room { storage, shape: shape.clone(), dtype })
    }

    /// All of its elements, to be written.
    fn all<W: Native>(&mut self) -> &mut [W] {
        self.storage.as_mut_slice()
    }

    fn tensor(self) -> Tensor {
        Tensor::from_storage(self.storage, self.shape, self.dtype)
    }
}

/// A mask as the kernel reads it: where it lies, whatever its strides.
struct Hidden<'a> {
    mask: Option<&'a Tensor>,
    layout: Option<Layout>,
    offsets: Vec<usize>,
}

impl<'a> Hidden<'a> {
    fn new(mask: Option<&'a Tensor>, sizes: &Sizes) -> Result<Hidden<'a>> {
        let Some(mask) = mask else {
            return Ok(Hidden { mask: None, layout: None, offsets: Vec::new() });
        };
        let shape = sizes.with(&[sizes.queries, sizes.keys]);
        let layout = mask.layout().broadcast(&shape).ok_or_else(|| Error::Broadcast {
            op: OP,
            a: mask.shape().clone(),
            b: shape,
        })?;
        let mut offsets = vec![layout.offset as isize];
        for (&size, &stride) in sizes.outer.iter().zip(&layout.strides) {
            let along = |&at: &isize| (0..size as isize).map(move |i| at + i * stride);
            offsets = offsets.iter().flat_map(along).collect();
        }
        let offsets = offsets.into_iter().map(|at| at as usize).collect();
        Ok(Hidden { mask: Some(mask), layout: Some(layout), offsets })
    }

    fn mask(&self) -> Option<Mask<'_>> {
        let (mask, layout) = (self.mask?, self.layout.as_ref()?);
        let n = layout.strides.len();
        Some(Mask {
            data: mask.view::<u8>().data(),
            offsets: &self.offsets,
            row_stride: layout.strides[n - 2],
            col_stride: layout.strides[n - 1],
        })
    }
}

impl Attention {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Attention,
        formula: "y = p·v, with p = softmax(scale·q·kᵀ) along the keys",
        derivative: "(scale·s·k, scale·sᵀ·q, pᵀ·g) with s = p∘(g·vᵀ − Σ g∘y)",
        conventions: "a mask is true where a query may look at a key; causal: at the keys up to its \
                      own number, from the first on; a query that may look at nothing gives 0, with \
                      gradient 0",
        inputs: &[
            Input::new("q"),
            Input::new("k"),
            Input::new("v"),
            Input { name: "mask", differentiable: false, count: Count::Optional },
        ],
        params: &[
            Parameter {
                name: "causal",
                what: "whether query i looks at keys 0 to i alone",
                default: Some("false"),
            },
            Parameter {
                name: "scale",
                what: "what q·k is multiplied by; None for 1/√d",
                default: Some("None"),
            },
        ],
        backward: "scaled_dot_product_attention_backward(grad_output, [q, k, v], mask, \
                   [output, logsumexp], causal, scale)",
        class: Class::General,
        needs: Needs::InputsAndOutputs,
        auxiliary: 1,
        build: |p| {
            let (causal, scale) = (p.bool(OP, "causal", false)?, p.optional_float(OP, "scale")?);
            Ok(Box::new(Attention { causal, scale }))
        },
        samples,
        errors,
        ..Record::BLANK
    };

    /// The factor on the products of queries and keys.
    fn factor(self, width: usize) -> f64 {
        self.scale.unwrap_or_else(|| 1.0 / (width.max(1) as f64).sqrt())
    }

    /// The inputs, for the kernel.
    fn kernel<'a, W: Native>(
        self,
        sizes: &Sizes,
        [q, k, v]: [&'a Tensor; 3],
        hidden: &'a Hidden<'_>,
    ) -> attention::Attention<'a, W> {
        attention::Attention {
            heads: sizes.heads,
            queries: sizes.queries,
            keys: sizes.keys,
            width: sizes.width,
            value_width: sizes.value_width,
            scale: self.factor(sizes.width),
            causal: self.causal,
            mask: hidden.mask(),
            q: all(q),
            k: all(k),
            v: all(v),
        }
    }

    /// Which keys each query may look at, `[…, T, S]`, where some are hidden.
    fn seen(self, inputs: &[&Tensor], sizes: &Sizes) -> Result<Option<Tensor>> {
        let Sizes { queries, keys, .. } = *sizes;
        let mask = inputs.get(3).map(|&mask| mask.clone());
        if !self.causal {
            return Ok(mask);
        }
        let below = (0..queries).flat_map(|i| (0..keys).map(move |j| j <= i));
        let below = Tensor::from_vec(below.collect::<Vec<bool>>(), [queries, keys])?;
        Ok(Some(match mask {
            Some(mask) => ops::logical_and(&mask, &below)?,
            None => below,
        }))
    }
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
        if k.ndim() != n || k.shape()[..n - 2] != *outer || k.shape()[n - 1] != width {
            return wrong("k", k, listed(outer, format!("keys, {width}")));
        }
        let keys = k.shape()[n - 2];
        if v.ndim() != n || v.shape()[..n - 1] != k.shape()[..n - 1] {
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
        let sizes = Sizes::of(inputs)?;
        if let Some(mask) = inputs.get(3) {
            if mask.dtype() != DType::Bool {
                let (argument, expected, got) = ("mask", "bool", mask.dtype());
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
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let dtype = specs[0].dtype;
        let sizes = Sizes::of(inputs)?;
        let [q, k, v] = [0, 1, 2].map(|i| prepared(inputs[i], dtype));
        let (q, k, v) = (q?, k?, v?);
        let hidden = Hidden::new(inputs.get(3).copied(), &sizes)?;
        let mut y = Room::new(&specs[0].shape, wide(dtype))?;
        let mut logsumexp = Room::new(&specs[1].shape, wide(dtype))?;
        match_wide!(dtype, W => {
            let kernel = self.kernel::<W>(&sizes, [&q, &k, &v], &hidden);
            attention::forward(&kernel, y.all(), logsumexp.all());
        });
        Ok(smallvec![ops::cast(&y.tensor(), dtype)?, logsumexp.tensor()])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let dtype = call.grad().dtype();
        let sizes = Sizes::of(call.inputs)?;
        let [q, k, v] = [0, 1, 2].map(|i| prepared(call.inputs[i], dtype));
        let (q, k, v) = (q?, k?, v?);
        let (g, y) = (prepared(call.grad(), dtype)?, prepared(call.outputs[0], dtype)?);
        let logsumexp = prepared(call.outputs[1], dtype)?;
        let hidden = Hidden::new(call.inputs.get(3).copied(), &sizes)?;
        let room = |i: usize| match call.wanted[i] {
            true => Room::new(call.inputs[i].shape(), wide(dtype)),
            false => Room::new(&Shape::from([0]), wide(dtype)),
        };
        let (mut dq, mut dk, mut dv) = (room(0)?, room(1)?, room(2)?);
        match_wide!(dtype, W => {
            let kernel = self.kernel::<W>(&sizes, [&q, &k, &v], &hidden);
            let saved = Saved { grad: all(&g), out: all(&y), logsumexp: all(&logsumexp) };
            attention::backward(&kernel, &saved, [dq.all(), dk.all(), dv.all()]);
        });
        let mut found: Grads = SmallVec::from_elem(None, call.inputs.len());
        for (i, grad) in [dq, dk, dv].into_iter().enumerate() {
            found[i] = call.wanted[i].then(|| grad.tensor());
        }
        Ok(found)
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let [q, k, v] = [0, 1, 2].map(|i| call.inputs[i]);
        let sizes = Sizes::of(call.inputs)?;
        let dtype = call.outputs[0].dtype();
        let logsumexp = ops::expand_dims(call.outputs[1], -1)?;
        let scale = Tensor::scalar_of(self.factor(sizes.width), wide(dtype))?;
        let seen = self.seen(call.inputs, &sizes)?;
        let zero = Tensor::scalar_of(0.0, wide(dtype))?;
        let shown = |x: Tensor| match &seen {
            Some(seen) => ops::where_(seen, &x, &zero),
            None => Ok(x),
        };
        let swapped = |x: &Tensor| {
            let n = x.ndim() as i64;
            let order: Vec<i64> = (0..n - 2).chain([n - 1, n - 2]).collect();
            ops::transpose(x, &order[..])
        };
        let scores = ops::multiply(&ops::matmul(q, &swapped(k)?)?, &scale)?;
        let p = shown(ops::exp(&ops::subtract(&scores, &logsumexp)?)?)?;
        let mut moved: Option<Tensor> = None;
        let mut add = |term: Tensor| -> Result<()> {
            moved = Some(match moved.take() {
                Some(sum) => ops::add(&sum, &term)?,
                None => term,
            });
            Ok(())
        };
        let mut change: Option<Tensor> = None;
        if let Some(dq) = call.tangents[0] {
            change = Some(ops::matmul(dq, &swapped(k)?)?);
        }
        if let Some(dk) = call.tangents[1] {
            let term = ops::matmul(q, &swapped(dk)?)?;
            change = Some(match change {
                Some(sum) => ops::add(&sum, &term)?,
                None => term,
            });
        }
        if let Some(change) = change {
            let change = ops::multiply(&change, &scale)?;
            let mean = ops::sum(&ops::multiply(&p, &change)?, -1, true)?;
            let moved = ops::multiply(&p, &ops::subtract(&change, &mean)?)?;
            add(ops::matmul(&moved, v)?)?;
        }
        if let Some(dv) = call.tangents[2] {
            add(ops::matmul(&p, dv)?)?;
        }
        let moved = moved.map_or_else(|| call.outputs[0].zeros_like(), Ok)?;
        Ok(smallvec![ops::cast(&moved, dtype)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let n = inputs[0].ndim();
        inputs[1].shape()[n - 2].saturating_add(inputs[0].shape()[n - 1]).max(1)
    }
}

fn samples(s: &mut Sampler) {
    let causal = |causal: bool| Params::new().with("causal", causal);
    let shapes: [(&[usize], [usize; 4]); 7] = [
        (&[2, 2], [5, 5, 4, 4]),
        (&[], [3, 4, 2, 5]),
        (&[3], [4, 2, 3, 1]),
        (&[2], [1, 1, 1, 1]),
        (&[0, 2], [3, 3, 2, 2]),
        (&[2], [0, 3, 2, 2]),
        (&[2], [3, 2, 2, 0]),
    ];
    for (outer, [queries, keys, width, value_width]) in shapes {
        let shape = |last: [usize; 2]| [outer, &last].concat();
        for is_causal in [false, true] {
            let q = s.normal(&shape([queries, width]));
            let k = s.normal(&shape([keys, width]));
            let v = s.normal(&shape([keys, value_width]));
            s.add([q.clone(), k.clone(), v.clone()], causal(is_causal));
            let first = Shape::from([queries, keys]);
            let mask = with_first(s, &first);
            s.add([q, k, v, mask], causal(is_causal).with("scale", 0.7));
        }
    }
    // More keys, queries and both than a block has.
    let (q, k, v) = (s.normal(&[2, 1]), s.normal(&[258, 1]), s.normal(&[258, 1]));
    s.add_noted([q, k, v], causal(false), "several blocks of keys");
    let (q, k, v) = (s.normal(&[130, 1]), s.normal(&[3, 1]), s.normal(&[3, 1]));
    s.add_noted([q, k, v], causal(true), "several blocks of queries");
    let (q, k, v) = (s.normal(&[131, 2]), s.normal(&[259, 2]), s.normal(&[259, 1]));
    s.add_kink([q, k, v], causal(true), "several blocks of both");
    let (q, k, v) = (s.normal(&[2, 3, 2]), s.normal(&[2, 4, 2]), s.normal(&[2, 4, 3]));
    let mask = with_first(s, &Shape::from([2, 1, 4]));
    s.add_noted([q.clone(), k.clone(), v.clone(), mask], causal(false), "a mask for all queries");
    let hidden = crate::tensor([[true, false, true, true], [false; 4], [true; 4]]);
    s.add_noted([q, k, v, hidden], causal(false), "a query that may look at nothing");
    let (q, k, v) = (s.normal(&[3, 2]), s.normal(&[0, 2]), s.normal(&[0, 3]));
    s.add_noted([q, k, v], causal(false), "nothing to look at");
    let (q, k) =
        (crate::tensor([[100.0, 0.0], [0.0, -90.0]]), crate::tensor([[9.0, 1.0], [8.0, 3.0]]));
    s.add_kink([q, k, crate::tensor([[1.0], [2.0]])], causal(false), "large scores");
}

/// A mask in which every query may look at the first key.
fn with_first(s: &mut Sampler, shape: &Shape) -> Tensor {
    let keys = shape.last().copied().unwrap_or(1).max(1);
    let drawn = s.mask(shape).to_f64_vec().into_iter().enumerate();
    let mask = drawn.map(|(i, v)| i % keys == 0 || v != 0.0).collect::<Vec<bool>>();
    match Tensor::from_vec(mask, shape.clone()) {
        Ok(mask) => mask,
        Err(error) => panic!("a sample cannot be made: {error}"),
    }
}

fn errors(bad: &mut Bad) {
    let ones = |shape: &[usize]| bad.ones(shape, DType::F64);
    let (q, k, v) = (ones(&[2, 3, 4]), ones(&[2, 5, 4]), ones(&[2, 5, 6]));
    let (vector, narrow) = (ones(&[4]), ones(&[2, 5, 3]));
    let (single, short) = (ones(&[5, 4]), ones(&[2, 4, 6]));
    let (whole, mask) = (bad.ones(&[2, 3, 4], DType::I64), bad.ones(&[3, 4], DType::Bool));
    let soft = ones(&[3, 5]);
    let none = Params::new;
    bad.add(
        [vector, k.clone(), v.clone()],
        none(),
        "q has shape [4], expected […, queries, width]",
    );
    let message = "k has shape [2, 5, 3], expected [2, keys, 4]";
    bad.add([q.clone(), narrow, v.clone()], none(), message);
    let message = "k has shape [5, 4], expected [2, keys, 4]";
    bad.add([q.clone(), single, v.clone()], none(), message);
    let message = "v has shape [2, 4, 6], expected [2, 5, value width]";
    bad.add([q.clone(), k.clone(), short], none(), message);
    bad.add([whole, k.clone(), v.clone()], none(), "q has dtype i64, expected a float type");
    let inputs = [q.clone(), k.clone(), v.clone(), mask];
    bad.add(inputs, none(), "mask has shape [3, 4], expected one that broadcasts to [2, 3, 5]");
    let inputs = [q.clone(), k.clone(), v.clone(), soft];
    bad.add(inputs, none(), "mask has dtype f64, expected bool");
    let scale = none().with("scale", f64::INFINITY);
    bad.add([q, k, v], scale, "scale is inf, expected a finite number");
}
