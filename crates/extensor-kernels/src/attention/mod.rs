//! Averages of values, weighted by the likeness of queries and keys, without the matrix of weights.
//!
//! Queries and keys are taken in blocks. Forward goes over the keys once, with the largest score and
//! the sum of exponentials of each query so far; when a larger score comes, what was summed is scaled
//! down. Backward makes the weights of each block again from the logarithm of that sum. Every sum is
//! made block after block in one order, so a result does not depend on the number of threads. Memory
//! grows with queries and keys, not with their product.

mod backward;
mod forward;

use crate::gemm::{self, Dims, Matrix};
use crate::number::Number;
use crate::par;
use crate::reduce::RowSums;
use backward::run_backward;
use forward::run_forward;
use std::ops::Range;

/// Queries, and keys, of a block.
const QUERIES: usize = 64;
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

/// Who may attend to whom: query `i` of head `h` to key `j` where the byte at
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
    /// Whether query `i` attends to the keys up to `i` alone.
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
        par::parallel_for(tasks, &|i| par::with_threads(1, || task(i)));
    }

    /// The keys of block number `at`, up to the last that any of the queries attends to.
    fn keys_of(&self, queries: &Range<usize>, at: usize) -> Range<usize> {
        let keys = block(at, KEYS, self.keys);
        if self.causal { keys.start..keys.end.min(queries.end) } else { keys }
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

/// The averages and the logarithms of the sums of exponentials of scores, one for each query: 0 and
/// −∞ where a query may attend to nothing.
///
/// # Panics
/// If an array has the wrong length, or the mask reaches outside its slice.
pub fn forward<W: Wide>(x: &Attention<'_, W>, out: &mut [W], logsumexp: &mut [W]) {
    W::forward(x, out, logsumexp);
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
