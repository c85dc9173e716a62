//! How the work of a product is shared out.

use super::Real;
use super::simd::{lanes, tile_rows};
use super::tile::WIDTH;
use std::ops::Range;

/// Bytes of B that a task packs: to stay in the second-level cache while all rows of A go by, though
/// the core's other thread use the cache too.
const B_BYTES: usize = 5 << 17;

/// The fewest rows for which a task packs B.
const TASK_ROWS: usize = 192;

/// The fewest rows for which a task packs B where a thread would else have nothing to do.
const LOW_ROWS: usize = 32;

/// The fewest rows of a task that computes a part of the rest.
const REST_ROWS: usize = 64;

/// The largest part in which all parts of `whole`, at most `most` each, are nearly even.
pub(super) fn even_part(whole: usize, most: usize) -> usize {
    whole.div_ceil(whole.div_ceil(most).max(1))
}

/// Registers a narrow tile is wide, at most. It is not worth having tiles of a single one beside:
/// every number of A is loaded for them all the same, and there are processors that load one number
/// into a wide register in the time in which they multiply and add two.
pub(super) const NARROW: usize = 2;

/// How many of `cols` columns are computed in tiles of the largest width, the others being computed
/// in narrow ones: as many as leave no tile of a single register, if there are enough.
pub(super) fn wide_columns<R: Real>(cols: usize) -> usize {
    let registers = cols.div_ceil(lanes::<R>());
    match registers % WIDTH {
        0 => cols,
        1 if registers > WIDTH => (registers / WIDTH - 1) * WIDTH * lanes::<R>(),
        _ => registers / WIDTH * WIDTH * lanes::<R>(),
    }
}

/// How a block is cut into patches, one for each task.
///
/// Tiles of the largest width are the fastest. So every thread gets as many columns of whole tiles as
/// any other, where there are enough; the columns left over, the rest, are cut by rows.
pub(super) struct Cut {
    m: usize,
    n: usize,
    /// Rows of a tile, and what the rows of a patch are a multiple of.
    pub height: usize,
    /// What the columns of a patch are a multiple of.
    unit: usize,
    row_parts: usize,
    col_parts: usize,
    /// Where the rest begins, and how many parts it has.
    rest: usize,
    rest_parts: usize,
}

impl Cut {
    /// The cut of an `m` by `n` block for stretches of depth of `k`.
    pub(super) fn new<R: Real>(m: usize, n: usize, k: usize, threads: usize) -> Cut {
        let width = WIDTH * lanes::<R>();
        let most = (B_BYTES / size_of::<R>() / k / width).max(1) * width;
        let needed = n.div_ceil(most);
        let height = even_part(m, tile_rows::<R>());
        // Cutting columns is better, unless patches become so narrow that reading A takes long: B
        // would be packed for each part of the rows.
        let narrowest = if m > 4 * n { 4 * width } else { 2 * width };
        let even = needed.next_multiple_of(threads);
        let mut col_parts = even.min(n / narrowest).max(needed).max(1);
        // Enough patches for every thread to get its share although some come late.
        let wanted = if col_parts < threads { 2 * threads } else { 1 };
        let mut row_parts = wanted.div_ceil(col_parts).min(m.div_ceil(TASK_ROWS));
        // Narrow patches are better than none for some thread, and then low ones.
        if row_parts * col_parts < threads {
            col_parts = threads.div_ceil(row_parts).min(n / (2 * lanes::<R>())).max(col_parts);
        }
        if row_parts * col_parts < threads {
            row_parts = threads.div_ceil(col_parts).min(m / LOW_ROWS).max(row_parts);
        }
        let mut cut = Cut {
            m,
            n,
            height,
            unit: if threads == 1 { width } else { lanes::<R>() },
            row_parts,
            col_parts,
            rest: n,
            rest_parts: 0,
        };
        let whole = n / (width * col_parts) * (width * col_parts);
        if threads > 1 && col_parts == even && whole > 0 && m >= threads * REST_ROWS {
            cut.unit = width;
            cut.rest = whole;
            cut.rest_parts = if whole < n { threads } else { 0 };
        }
        cut
    }

    /// How many patches there are.
    pub(super) fn parts(&self) -> usize {
        self.row_parts * self.col_parts + self.rest_parts
    }

    /// The rows and columns of a patch.
    pub(super) fn part(&self, task: usize) -> (Range<usize>, Range<usize>) {
        let at = |whole: usize, unit: usize, parts: usize, part: usize| {
            whole.min(whole.div_ceil(unit) * part / parts * unit)
        };
        let mut task = task;
        if let Some(each) = (self.row_parts * self.col_parts).checked_div(self.rest_parts) {
            // A thread's tasks follow each other, and it has as many of either kind as any other.
            let (thread, number) = (task / (each + 1), task % (each + 1));
            if number == each {
                let row = |part| at(self.m, self.height, self.rest_parts, part);
                return (row(thread)..row(thread + 1), self.rest..self.n);
            }
            task = thread * each + number;
        }
        let row = |part| at(self.m, self.height, self.row_parts, part);
        let col = |part| at(self.rest, self.unit, self.col_parts, part);
        let (i, j) = (task % self.row_parts, task / self.row_parts);
        (row(i)..row(i + 1), col(j)..col(j + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes with and without a rest, with a single register too many, narrow ones and low ones.
    const EXTENTS: [usize; 11] = [1, 2, 9, 16, 47, 64, 129, 240, 385, 512, 1024];

    #[test]
    fn the_patches_of_a_cut_have_every_element_once() {
        for (m, n) in EXTENTS.iter().flat_map(|&m| EXTENTS.map(|n| (m, n))) {
            for threads in [1, 2, 3, 8, 16] {
                for k in [1, 64, 512] {
                    let cut = Cut::new::<f32>(m, n, k, threads);
                    let mut seen = vec![0u8; m * n];
                    for task in 0..cut.parts() {
                        let (rows, cols) = cut.part(task);
                        for i in rows {
                            seen[i * n + cols.start..i * n + cols.end]
                                .iter_mut()
                                .for_each(|x| *x += 1);
                        }
                    }
                    assert!(
                        seen.iter().all(|&x| x == 1),
                        "{m} by {n}, depth {k}, {threads} threads"
                    );
                }
            }
        }
    }

    #[test]
    fn threads_have_as_many_whole_tiles_each_and_share_the_rest() {
        let width = WIDTH * lanes::<f32>();
        for threads in [2, 3, 4] {
            for n in (4 * width * threads..1100).step_by(7) {
                let cut = Cut::new::<f32>(512, n, 512, threads);
                let sizes: Vec<_> = (0..cut.parts()).map(|task| cut.part(task)).collect();
                let lane = sizes.len() / threads;
                for some in sizes.chunks(lane) {
                    let of_rest = some.iter().filter(|(_, cols)| cols.start >= cut.rest).count();
                    assert_eq!(
                        of_rest,
                        usize::from(cut.rest < n),
                        "{n} columns, {threads} threads"
                    );
                }
                let (whole, rest): (Vec<_>, Vec<_>) =
                    sizes.into_iter().partition(|(_, cols)| cols.start < cut.rest);
                assert!(whole.iter().all(|(rows, cols)| rows.len() == 512
                    && cols.len() == whole[0].1.len()
                    && cols.len().is_multiple_of(width)));
                assert_eq!(whole.len() % threads, 0);
                assert!(rest.is_empty() || rest.len() == threads, "{n} columns, {threads} threads");
            }
        }
    }

    #[test]
    fn no_tile_is_a_single_register_wide_beside_others() {
        let (lanes, width) = (lanes::<f32>(), WIDTH * lanes::<f32>());
        for cols in 1..10 * width {
            let wide = wide_columns::<f32>(cols);
            assert!(wide == cols || wide.is_multiple_of(width));
            let last = [wide % width, (cols - wide) % (NARROW * lanes)];
            let single = last.iter().any(|last| (1..=lanes).contains(last));
            assert_eq!(single, cols <= lanes, "{cols} columns, of which {wide} in wide tiles");
        }
    }
}
