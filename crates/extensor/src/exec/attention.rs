//! Attention and its gradients. Queries, keys and values lie in row-major order, `[…, rows, width]`;
//! a mask is read where it lies, whatever its strides.

use super::{Call, Input, Kernel, Kind};
use crate::tensor::Layout;
use crate::{DType, Error, Result, Shape};
use extensor_kernels::attention::{self, Mask, Saved};
use extensor_kernels::native::Native;
use std::sync::Arc;

/// The averages of `v`, weighted by the softmax of `scale·q·kᵀ`, and the logarithms of the sums of
/// exponentials: of `q`, `k`, `v` and the mask, in `f32` or `f64`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    /// Whether query `i` attends to keys 0 to `i` alone.
    pub causal: bool,
    /// The factor on the products of queries and keys.
    pub scale: f64,
    /// Whether the last input is a mask, which broadcasts to `[…, queries, keys]`.
    pub mask: bool,
}

/// The gradients of [`Attention`] for `q`, `k` and `v`, as far as they are wanted: of these three, the
/// averages' gradient, the averages, the logarithms, and the mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionGradient {
    pub of: Attention,
    pub wanted: [bool; 3],
}

/// Runs the expression with `$W` standing for the type that is computed in.
macro_rules! match_wide {
    ($call:expr, $W:ident => $body:expr) => {
        match $call.inputs[0].dtype() {
            DType::F32 => {
                type $W = f32;
                $body
            }
            DType::F64 => {
                type $W = f64;
                $body
            }
            got => $call.wrong("q", "f32 or f64", got),
        }
    };
}

impl Kernel for Attention {
    fn run(&self, call: Call<'_, '_>) -> Result<()> {
        let hidden = self.hidden(&call)?;
        match_wide!(call, W => {
            let (y, logsumexp) = call.outputs.split_at_mut(1);
            let x = self.on::<W>(call.inputs, &hidden);
            attention::forward(&x, y[0].all(), logsumexp[0].all());
            Ok(())
        })
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Attention(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

impl Kernel for AttentionGradient {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let hidden = self.of.hidden(&call)?;
        match_wide!(call, W => {
            let x = self.of.on::<W>(call.inputs, &hidden);
            let [grad, out, logsumexp] = [3, 4, 5].map(|i| call.inputs[i].row_major());
            let grads = call.some(self.wanted);
            let grads = grads.map(|grad| grad.map_or(&mut [][..], |grad| grad.all::<W>()));
            attention::backward(&x, &Saved { grad, out, logsumexp }, grads);
            Ok(())
        })
    }
    fn kind(&self) -> Kind<'_> {
        Kind::AttentionGradient(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

impl Attention {
    /// The mask, if there is one.
    fn hidden<'a>(&self, call: &Call<'a, '_>) -> Result<Option<Hidden<'a>>> {
        let [q, k] = [call.inputs[0].shape(), call.inputs[1].shape()];
        let mask = if self.mask { call.inputs.last() } else { None };
        mask.map(|mask| Hidden::new(call.op, mask, q, k)).transpose()
    }

    /// The inputs, as they are computed with.
    fn on<'a, W: Native>(
        &self,
        inputs: &'a [Input<'_>],
        hidden: &'a Option<Hidden<'_>>,
    ) -> attention::Attention<'a, W> {
        let [q, k, v] = [inputs[0], inputs[1], inputs[2]];
        let n = q.shape().len() - 2;
        attention::Attention {
            heads: q.shape()[..n].iter().product(),
            queries: q.shape()[n],
            keys: k.shape()[n],
            width: q.shape()[n + 1],
            value_width: v.shape()[n + 1],
            scale: self.scale,
            causal: self.causal,
            mask: hidden.as_ref().map(Hidden::mask),
            q: q.row_major(),
            k: k.row_major(),
            v: v.row_major(),
        }
    }
}

/// A mask, and where each head's begins.
struct Hidden<'a> {
    mask: &'a Input<'a>,
    layout: Layout,
    offsets: Vec<usize>,
}

impl<'a> Hidden<'a> {
    /// Operations have seen that there is room for the list of offsets, and for the one that it was
    /// made of.
    fn new(op: &'static str, mask: &'a Input<'_>, q: &Shape, k: &Shape) -> Result<Hidden<'a>> {
        let n = q.len() - 2;
        let shape: Shape = q[..n].iter().chain([&q[n], &k[n]]).copied().collect();
        let layout = mask.layout().broadcast(&shape).ok_or_else(|| {
            let (a, b) = (mask.shape().clone(), shape.clone());
            Error::Broadcast { op, a, b }
        })?;
        let mut offsets = vec![layout.offset as isize];
        for (&size, &stride) in q[..n].iter().zip(&layout.strides) {
            let along = |&at: &isize| (0..size as isize).map(move |i| at + i * stride);
            offsets = offsets.iter().flat_map(along).collect();
        }
        let offsets = offsets.into_iter().map(|at| at as usize).collect();
        Ok(Hidden { mask, layout, offsets })
    }

    fn mask(&self) -> Mask<'_> {
        let n = self.layout.strides.len();
        Mask {
            data: self.mask.view::<u8>().data(),
            offsets: &self.offsets,
            row_stride: self.layout.strides[n - 2],
            col_stride: self.layout.strides[n - 1],
        }
    }
}
