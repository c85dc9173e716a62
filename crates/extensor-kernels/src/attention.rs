//! Averages of values, weighted by the likeness of queries and keys, without the matrix of weights.
//!
//! Queries and keys are taken in blocks. Forward goes over the keys once, with the largest score and
//! the sum of exponentials of each query so far; when a larger score comes, what was summed is scaled
//! down. Backward makes the weights of each block again from the logarithm of that sum. Every sum is
//! made block after block in one order, so a result does not depend on the number of threads. Memory
//! grows with queries and keys, not with their product.

use crate::gemm::{self, Dims, Matrix, scratch};
use crate::isa::{Kernel, dispatch};
use crate::number::{Number, Real};
use crate::par::{self, Shared};
use crate::reduce::RowSums;
use std::ops::Range;

/// Queries, and keys, of a block.
const QUERIES: usize = 128;
const KEYS: usize = 256;

/// Multiply-adds below which all is done on the calling thread.
const PARALLEL: usize = 1 << 17;

/// The float types that are computed in.
pub trait Wide: gemm::Real + RowSums + Number<Mask = bool> + PartialEq {
    /// [`forward`], compiled in this crate rather than wherever it is called.
    fn forward(x: &Attention<'_, Self>, out: &mut [Self], logsumexp: &mut [Self]);
    /// [`backward`], likewise.
    fn backward(x: &Attention<'_, Self>, saved: &Saved<'_, Self>, grads: [&mut [Self]; 3]);
}

macro_rules! wide {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            fn forward(x: &Attention<'_, $t>, out: &mut [$t], logsumexp: &mut [$t]) {
                run_forward(x, out, logsumexp);
            }
            fn backward(x: &Attention<'_, $t>, saved: &Saved<'_, $t>, grads: [&mut [$t]; 3]) {
                run_backward(x, saved, grads);
            }
        }
    )*};
}
wide!(f32, f64);

/// Who may look at whom: query `i` of head `h` at key `j` where the byte at
/// `offsets[h] + i * row_stride + j * col_stride` is not 0.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    /// What holds the bytes.
    pub data: &'a [u8],
    /// Where each head's begin.
    pub offsets: &'a [usize],
    /// The way from a query to the next.
    pub row_stride: isize,
    /// The way from a key to the next.
    pub col_stride: isize,
}

/// What attention is computed of: row-major arrays, one head after the other.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a, W> {
    /// How many heads there are.
    pub heads: usize,
    /// How many queries each has.
    pub queries: usize,
    /// How many keys and values.
    pub keys: usize,
    /// The numbers of a query or a key.
    pub width: usize,
    /// The numbers of a value.
    pub value_width: usize,
    /// What the products of queries and keys are multiplied by.
    pub scale: f64,
    /// Whether query `i` looks at the keys up to `i` alone.
    pub causal: bool,
    /// Whether some keys are hidden from some queries.
    pub mask: Option<Mask<'a>>,
    /// The queries.
    pub q: &'a [W],
    /// The keys.
    pub k: &'a [W],
    /// The values.
    pub v: &'a [W],
}

/// What belongs to block number `at`, of blocks of `size`.
fn block(at: usize, size: usize, whole: usize) -> Range<usize> {
    at * size..whole.min((at + 1) * size)
}

/// Where the rows `rows` of head `head` are, of heads of `count` rows of `width` numbers.
fn part(head: usize, count: usize, width: usize, rows: &Range<usize>) -> Range<usize> {
    (head * count + rows.start) * width..(head * count + rows.end) * width
}

impl<W: Wide> Attention<'_, W> {
    /// # Panics
    /// If an array has not as many numbers as it should.
    fn check(&self) {
        let &Attention { heads, queries, keys, width, value_width, .. } = self;
        let is = |x: &[W], count: usize, width: usize| x.len() == heads * count * width;
        assert!(
            is(self.q, queries, width) && is(self.k, keys, width) && is(self.v, keys, value_width),
            "attention: an array of the wrong length"
        );
        if let Some(mask) = &self.mask {
            assert_eq!(mask.offsets.len(), heads, "attention: a mask for each head");
        }
    }

    fn query_blocks(&self) -> usize {
        self.queries.div_ceil(QUERIES)
    }

    fn key_blocks(&self) -> usize {
        self.keys.div_ceil(KEYS)
    }

    /// Runs tasks, each on one thread; all on this one if they are little work.
    fn each(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        let products = self.heads.saturating_mul(self.queries).saturating_mul(self.keys);
        let work = products.saturating_mul(self.width + self.value_width);
        if tasks == 1 || work < PARALLEL {
            return par::with_threads(1, || (0..tasks).for_each(task));
        }
        par::parallel_for(tasks, |i| par::with_threads(1, || task(i)));
    }

    /// Whether no query of the block looks at any key of the block.
    fn hidden(&self, queries: &Range<usize>, keys: &Range<usize>) -> bool {
        self.causal && keys.start >= queries.end
    }

    /// The scores of a block of queries, which are scaled, and keys; −∞ where one is hidden.
    fn scores(
        &self,
        head: usize,
        queries: &Range<usize>,
        keys: &Range<usize>,
        scaled: &[W],
        scores: &mut [W],
    ) {
        let (m, n) = (queries.len(), keys.len());
        let k = &self.k[part(head, self.keys, self.width, keys)];
        let dims = Dims { m, k: self.width, n };
        let (a, b) = (rows(scaled, self.width), rows(k, self.width).transposed());
        gemm::matmul(dims, a, b, false, scores, n);
        let lowest = W::nearest(f64::NEG_INFINITY);
        if self.causal && keys.end > queries.start + 1 {
            for (i, row) in scores.chunks_mut(n).enumerate() {
                let seen = (queries.start + i + 1).saturating_sub(keys.start).min(n);
                row[seen..].fill(lowest);
            }
        }
        let Some(mask) = &self.mask else { return };
        for (i, row) in scores.chunks_mut(n).enumerate() {
            let query = (queries.start + i) as isize * mask.row_stride;
            let first = mask.offsets[head] as isize + query;
            for (j, score) in row.iter_mut().enumerate() {
                let at = first + (keys.start + j) as isize * mask.col_stride;
                if mask.data[at as usize] == 0 {
                    *score = lowest;
                }
            }
        }
    }

    /// Copies the queries of a block, times the scale.
    fn scaled(&self, head: usize, queries: &Range<usize>, to: &mut [W]) {
        let q = &self.q[part(head, self.queries, self.width, queries)];
        let scale = W::nearest(self.scale);
        for (to, &q) in to.iter_mut().zip(q) {
            *to = q * scale;
        }
    }
}

/// Rows that follow each other.
fn rows<W>(data: &[W], width: usize) -> Matrix<'_, W> {
    Matrix::row_major(data, width)
}

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
            // Nothing to look at so far: all scores are −∞, and all weights 0.
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

/// The averages and the logarithms of the sums of exponentials of scores, one for each query: 0 and
/// −∞ where a query may look at nothing.
///
/// # Panics
/// If an array has the wrong length, or the mask reaches outside its slice.
pub fn forward<W: Wide>(x: &Attention<'_, W>, out: &mut [W], logsumexp: &mut [W]) {
    W::forward(x, out, logsumexp);
}

fn run_forward<W: Wide>(x: &Attention<'_, W>, out: &mut [W], logsumexp: &mut [W]) {
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
                let keys = block(at, KEYS, keys);
                if x.hidden(&queries, &keys) {
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

/// What backward knows beside the inputs.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, W> {
    /// The gradient of the averages.
    pub grad: &'a [W],
    /// The averages.
    pub out: &'a [W],
    /// The logarithms of the sums of exponentials.
    pub logsumexp: &'a [W],
}

/// The gradients of the averages for queries, keys and values; an empty slice for one that is not
/// wanted.
///
/// # Panics
/// If an array has the wrong length, or the mask reaches outside its slice.
pub fn backward<W: Wide>(x: &Attention<'_, W>, saved: &Saved<'_, W>, grads: [&mut [W]; 3]) {
    W::backward(x, saved, grads);
}

fn run_backward<W: Wide>(x: &Attention<'_, W>, saved: &Saved<'_, W>, grads: [&mut [W]; 3]) {
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
    let [dq, dk, dv] = grads.map(|g| {
        g.fill(W::nearest(0.0));
        Shared::new(g)
    });
    let mut means = vec![W::nearest(0.0); heads * queries];
    if value_width > 0 {
        for (i, mean) in means.iter_mut().enumerate() {
            let row = i * value_width..(i + 1) * value_width;
            let pairs = saved.grad[row.clone()].iter().zip(&saved.out[row]);
            let sum = |sum: f64, (&g, &y): (&W, &W)| {
                let (g, y): (f64, f64) = (g.into(), y.into());
                sum + g * y
            };
            *mean = W::nearest(pairs.fold(0.0, sum));
        }
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
            let grads = unsafe {
                [
                    dq.part(dq_at.start, dq_at.end),
                    dk.part(dk_at.start, dk_at.end),
                    dv.part(dv_at.start, dv_at.end),
                ]
            };
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
                let ks = block(kb, KEYS, keys);
                let n = ks.len();
                let k = &x.k[part(head, keys, width, &ks)];
                let v = &x.v[part(head, keys, value_width, &ks)];
                for qb in q_at.clone() {
                    let qs = block(qb, QUERIES, queries);
                    if x.hidden(&qs, &ks) {
                        continue;
                    }
                    let m = qs.len();
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
