//! The averages, with one way over the keys.

use super::{Attention, KEYS, QUERIES, Wide, block, part, rows};
use crate::gemm::{self, Dims, scratch};
use crate::isa::{Kernel, dispatch};
use crate::number::Real;
use crate::par::Shared;

/// The scores of a block become weights, as large as they would be if the largest score so far were
/// 0; what was summed before is scaled to that.
struct Weigh<'a, W> {
    /// Scores on the way in, weights on the way out.
    scores: &'a mut [W],
    keys: usize,
    /// For each query the largest score and the sum of weights so far.
    largest: &'a mut [W],
    sums: &'a mut [f64],
    /// For each query the sum of weighted values so far.
    out: &'a mut [W],
    value_width: usize,
}

impl<W: Wide> Kernel for Weigh<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Weigh { scores, keys, largest, sums, out, value_width } = self;
        let lowest = W::nearest(f64::NEG_INFINITY);
        let mut row = 0;
        while row < largest.len() {
            let scores = &mut scores[row * keys..(row + 1) * keys];
            let before = largest[row];
            let most = before.maximum(W::largest(scores));
            largest[row] = most;
            // Nothing to attend to so far: all scores are −∞, and all weights 0.
            let shift = if most == lowest { W::nearest(0.0) } else { most };
            let mut j = 0;
            while j < keys {
                scores[j] = Real::exp(scores[j] - shift);
                j += 1;
            }
            let less = Real::exp(before - shift);
            sums[row] = sums[row] * less.into() + W::total(scores);
            if most != before {
                let out = &mut out[row * value_width..(row + 1) * value_width];
                let mut j = 0;
                while j < value_width {
                    out[j] = out[j] * less;
                    j += 1;
                }
            }
            row += 1;
        }
    }
}

/// [`super::forward`].
pub(super) fn run_forward<W: Wide>(x: &Attention<'_, W>, out: &mut [W], logsumexp: &mut [W]) {
    x.check();
    let &Attention { heads, queries, keys, width, value_width, .. } = x;
    assert_eq!(out.len(), heads * queries * value_width, "attention: the averages' length");
    assert_eq!(logsumexp.len(), heads * queries, "attention: the logarithms' length");
    let blocks = x.query_blocks();
    let (q_most, k_most) = (queries.min(QUERIES), keys.min(KEYS));
    let (shared_out, shared_log) = (Shared::new(out), Shared::new(logsumexp));
    x.each(heads * blocks, |task| {
        let (head, queries) = (task / blocks, block(task % blocks, QUERIES, queries));
        let m = queries.len();
        let rows_at = head * x.queries + queries.start;
        // SAFETY: every task has the rows of its queries to itself.
        let (out, logs) = unsafe {
            (
                shared_out.part(rows_at * value_width, (rows_at + m) * value_width),
                shared_log.part(rows_at, rows_at + m),
            )
        };
        out.fill(W::nearest(0.0));
        logs.fill(W::nearest(f64::NEG_INFINITY));
        let mut sums = [0.0; QUERIES];
        scratch::with(q_most * (width + k_most), |room: &mut [W]| {
            let (scaled, scores) = room.split_at_mut(q_most * width);
            let scaled = &mut scaled[..m * width];
            x.scaled(head, &queries, scaled);
            for at in 0..x.key_blocks() {
                let keys = x.keys_of(&queries, at);
                if keys.is_empty() {
                    break;
                }
                let n = keys.len();
                let scores = &mut scores[..m * n];
                x.scores(head, &queries, &keys, scaled, scores);
                let (largest, sums) = (&mut *logs, &mut sums[..m]);
                let (scores, out) = (&mut *scores, &mut *out);
                dispatch(Weigh { scores, keys: n, largest, sums, out, value_width });
                let v = &x.v[part(head, x.keys, value_width, &keys)];
                let dims = Dims { m, k: n, n: value_width };
                gemm::matmul(dims, rows(scores, n), rows(v, value_width), true, out, value_width);
            }
        });
        for (i, (log, &sum)) in logs.iter_mut().zip(&sums).enumerate() {
            if *log == W::nearest(f64::NEG_INFINITY) {
                continue;
            }
            let largest: f64 = (*log).into();
            *log = W::nearest(largest + Real::log(sum));
            let part = W::nearest(1.0 / sum);
            for out in &mut out[i * value_width..(i + 1) * value_width] {
                *out = *out * part;
            }
        }
    });
}
