//! How the work of a product is shared out.

use super::Real;
use super::simd::{lanes, tile_rows};
use super::tile::WIDTH;
use std::ops::Range;

/// Bytes of B that a task packs: to stay in the second-level cache while all rows of A go by.
const B_BYTES: usize = 3 << 18;

/// The fewest rows for which a task packs B.
const TASK_ROWS: usize = 192;

/// The largest part in which all parts of `whole`, at most `most` each, are nearly even.
pub(super) fn even_part(whole: usize, most: usize) -> usize {
    whole.div_ceil(whole.div_ceil(most).max(1))
}

/// How a block is cut into patches, one for each task.
pub(super) struct Cut {
    m: usize,
    n: usize,
    /// Rows of a tile, and what the rows of a patch are a multiple of.
    pub height: usize,
    /// What the columns of a patch are a multiple of.
    unit: usize,
    row_parts: usize,
    col_parts: usize,
}

impl Cut {
    /// The cut of an `m` by `n` block for stretches of depth of `k`.
    pub(super) fn new<R: Real>(m: usize, n: usize, k: usize, threads: usize) -> Cut {
        let width = WIDTH * lanes::<R>();
        let most = (B_BYTES / size_of::<R>() / k / width).max(1) * width;
        let needed = n.div_ceil(most);
        let height = even_part(m, tile_rows::<R>());
        // Enough patches for every thread to get its share although some come late. Cutting columns
        // is better, unless patches become so narrow that reading A takes long: B would be packed
        // for each part of the rows.
        let wanted = if threads == 1 { 1 } else { 2 * threads };
        let narrowest = if m > 4 * n { 4 * width } else { 2 * width };
        let mut col_parts = wanted.min(n / narrowest).max(needed).max(1);
        let row_parts = wanted.div_ceil(col_parts).min(m.div_ceil(TASK_ROWS));
        // Narrow patches are better than none for some thread.
        if row_parts * col_parts < threads {
            col_parts = threads.div_ceil(row_parts).min(n / (2 * lanes::<R>())).max(col_parts);
        }
        Cut {
            m,
            n,
            height,
            unit: if threads == 1 { width } else { width / WIDTH },
            row_parts,
            col_parts,
        }
    }

    /// How many patches there are.
    pub(super) fn parts(&self) -> usize {
        self.row_parts * self.col_parts
    }

    /// The rows and columns of a patch.
    pub(super) fn part(&self, task: usize) -> (Range<usize>, Range<usize>) {
        let at = |whole: usize, unit: usize, parts: usize, part: usize| {
            whole.min(whole.div_ceil(unit) * part / parts * unit)
        };
        let row = |part| at(self.m, self.height, self.row_parts, part);
        let col = |part| at(self.n, self.unit, self.col_parts, part);
        let (i, j) = (task % self.row_parts, task / self.row_parts);
        (row(i)..row(i + 1), col(j)..col(j + 1))
    }
}
