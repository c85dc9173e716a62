//! The gradients, from weights that are made again.

use super::{Attention, KEYS, QUERIES, Saved, Wide, block, part, rows};
use crate::gemm::{self, Dims, scratch};
use crate::isa::{Kernel, dispatch};
use crate::number::Real;
use crate::par::{self, Shared};
use crate::stop;
use std::ops::Range;

/// Scores become weights; the gradients of the weights become those of the products of queries and
/// keys.
struct Pull<'a, W> {
    scores: &'a mut [W],
    grads: &'a mut [W],
    keys: usize,
    logsumexp: &'a [W],
    /// For each query the average of the gradients of its weights.
    means: &'a [W],
    scale: W,
}

impl<W: Wide> Kernel for Pull<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Pull { scores, grads, keys, logsumexp, means, scale } = self;
        let lowest = W::nearest(f64::NEG_INFINITY);
        let mut row = 0;
        while row < logsumexp.len() {
            let scores = &mut scores[row * keys..(row + 1) * keys];
            let grads = &mut grads[row * keys..(row + 1) * keys];
            let (log, mean) = (logsumexp[row], means[row]);
            let shift = if log == lowest { W::nearest(0.0) } else { log };
            let mut j = 0;
            while j < keys {
                let weight = Real::exp(scores[j] - shift);
                scores[j] = weight;
                grads[j] = weight * (grads[j] - mean) * scale;
                j += 1;
            }
            row += 1;
        }
    }
}

/// Numbers of a task that multiplies gradients by results, at least and at most.
const FEW: usize = 1 << 15;
const MANY: usize = 1 << 17;

/// For each query the sum of the products of its gradients and results.
struct Means<'a, W> {
    grad: &'a [W],
    out: &'a [W],
    width: usize,
    means: &'a mut [W],
}

impl<W: Wide> Kernel for Means<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        const LANES: usize = 16;
        let rows = self.grad.chunks_exact(self.width).zip(self.out.chunks_exact(self.width));
        for (mean, (g, y)) in self.means.iter_mut().zip(rows) {
            let mut sums = [0.0; LANES];
            let whole = g.len() / LANES * LANES;
            let mut add = |g: &[W], y: &[W]| {
                for (sum, (&g, &y)) in sums.iter_mut().zip(g.iter().zip(y)) {
                    let (g, y): (f64, f64) = (g.into(), y.into());
                    *sum += g * y;
                }
            };
            for (g, y) in g.chunks_exact(LANES).zip(y.chunks_exact(LANES)) {
                add(g, y);
            }
            add(&g[whole..], &y[whole..]);
            *mean = W::nearest(sums.iter().sum());
        }
    }
}

/// [`super::backward`].
pub(super) fn run_backward<W: Wide>(
    x: &Attention<'_, W>,
    saved: &Saved<'_, W>,
    grads: [&mut [W]; 3],
) {
    x.check();
    let &Attention { heads, queries, keys, width, value_width, .. } = x;
    let out_len = heads * queries * value_width;
    assert!(
        saved.grad.len() == out_len
            && saved.out.len() == out_len
            && saved.logsumexp.len() == heads * queries,
        "attention: an array of the wrong length"
    );
    let lengths = [x.q.len(), x.k.len(), x.v.len()];
    let right = grads.iter().zip(lengths).all(|(g, len)| g.is_empty() || g.len() == len);
    assert!(right, "attention: a gradient of the wrong length");
    let wanted = grads.each_ref().map(|g| !g.is_empty());
    let [dq, dk, dv] = grads.map(|g| Shared::new(g));
    let mut means = stop::room(W::nearest(0.0), heads.saturating_mul(queries));
    if let Some(together) = par::share(out_len, FEW, MANY).checked_div(value_width) {
        par::parallel_chunks(&mut means, together.max(1), &|start, means| {
            let at = start * value_width..(start + means.len()) * value_width;
            let (grad, out) = (&saved.grad[at.clone()], &saved.out[at]);
            dispatch(Means { grad, out, width: value_width, means });
        });
    }
    let (q_blocks, k_blocks) = (x.query_blocks(), x.key_blocks());
    let sweep = Sweep { x, saved, means: &means };
    let run =
        |head: usize, q_at: Range<usize>, k_at: Range<usize>, by_query: bool, by_key: bool| {
            let q_rows = q_at.start * QUERIES..queries.min(q_at.end * QUERIES);
            let k_rows = k_at.start * KEYS..keys.min(k_at.end * KEYS);
            let cut = |wanted: bool, count: usize, width: usize, rows: &Range<usize>| {
                if wanted { part(head, count, width, rows) } else { 0..0 }
            };
            let dq_at = cut(wanted[0] && by_query, queries, width, &q_rows);
            let dk_at = cut(wanted[1] && by_key, keys, width, &k_rows);
            let dv_at = cut(wanted[2] && by_key, keys, value_width, &k_rows);
            // SAFETY: a task has the rows of its head, or of its block of queries or keys, to itself.
            let mut grads = unsafe {
                [
                    dq.part(dq_at.start, dq_at.end),
                    dk.part(dk_at.start, dk_at.end),
                    dv.part(dv_at.start, dv_at.end),
                ]
            };
            grads.iter_mut().for_each(|g| g.fill(W::nearest(0.0)));
            sweep.run(head, q_at, k_at, grads);
        };
    if heads >= 2 * par::threads() {
        // Both gradients of a head on the way over its blocks.
        return x.each(heads, |head| run(head, 0..q_blocks, 0..k_blocks, true, true));
    }
    // Too few heads: first by keys, then by queries. Every sum has the same order as above.
    if wanted[1] || wanted[2] {
        x.each(heads * k_blocks, |task| {
            let (head, at) = (task / k_blocks, task % k_blocks);
            run(head, 0..q_blocks, at..at + 1, false, true);
        });
    }
    if wanted[0] {
        x.each(heads * q_blocks, |task| {
            let (head, at) = (task / q_blocks, task % q_blocks);
            run(head, at..at + 1, 0..k_blocks, true, false);
        });
    }
}

/// A way over blocks of queries and keys.
struct Sweep<'a, W> {
    x: &'a Attention<'a, W>,
    saved: &'a Saved<'a, W>,
    means: &'a [W],
}

impl<W: Wide> Sweep<'_, W> {
    /// Adds what the blocks contribute to the gradients for these queries, keys and values; an empty
    /// slice for what is not wanted.
    fn run(&self, head: usize, q_at: Range<usize>, k_at: Range<usize>, grads: [&mut [W]; 3]) {
        let Sweep { x, saved, means } = *self;
        let &Attention { queries, keys, width, value_width, .. } = x;
        let [dq, dk, dv] = grads;
        let (q_most, k_most) = (queries.min(QUERIES), keys.min(KEYS));
        let scale = W::nearest(x.scale);
        scratch::with(q_most * (width + 2 * k_most), |room: &mut [W]| {
            let (scaled, room) = room.split_at_mut(q_most * width);
            let (scores, pulled) = room.split_at_mut(q_most * k_most);
            for kb in k_at.clone() {
                for qb in q_at.clone() {
                    let qs = block(qb, QUERIES, queries);
                    let ks = x.keys_of(&qs, kb);
                    if ks.is_empty() {
                        continue;
                    }
                    let k = &x.k[part(head, keys, width, &ks)];
                    let v = &x.v[part(head, keys, value_width, &ks)];
                    let (m, n) = (qs.len(), ks.len());
                    let scaled = &mut scaled[..m * width];
                    let (scores, pulled) = (&mut scores[..m * n], &mut pulled[..m * n]);
                    x.scaled(head, &qs, scaled);
                    x.scores(head, &qs, &ks, scaled, scores);
                    let g = &saved.grad[part(head, queries, value_width, &qs)];
                    let dims = Dims { m, k: value_width, n };
                    let by_value = rows(v, value_width).transposed();
                    gemm::matmul(dims, rows(g, value_width), by_value, false, pulled, n);
                    let at = part(head, queries, 1, &qs);
                    let (logsumexp, means) = (&saved.logsumexp[at.clone()], &means[at]);
                    dispatch(Pull {
                        scores: &mut *scores,
                        grads: &mut *pulled,
                        keys: n,
                        logsumexp,
                        means,
                        scale,
                    });
                    let row = (kb - k_at.start) * KEYS;
                    if !dv.is_empty() {
                        let dims = Dims { m: n, k: m, n: value_width };
                        let a = rows(scores, n).transposed();
                        let to = &mut dv[row * value_width..(row + n) * value_width];
                        gemm::matmul(dims, a, rows(g, value_width), true, to, value_width);
                    }
                    if !dk.is_empty() {
                        let q = &x.q[part(head, queries, width, &qs)];
                        let dims = Dims { m: n, k: m, n: width };
                        let a = rows(pulled, n).transposed();
                        let to = &mut dk[row * width..(row + n) * width];
                        gemm::matmul(dims, a, rows(q, width), true, to, width);
                    }
                    if !dq.is_empty() {
                        let row = (qb - q_at.start) * QUERIES;
                        let dims = Dims { m, k: n, n: width };
                        let to = &mut dq[row * width..(row + m) * width];
                        gemm::matmul(dims, rows(pulled, n), rows(k, width), true, to, width);
                    }
                }
            }
        });
    }
}
