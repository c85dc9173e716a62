//! Where the largest or smallest number is.

use super::fold::{Extremes, no_params};
use super::{BLOCK, PACK, Room, Walk, counts, in_tasks, lies_in_rows, reduce};
use crate::native::{Compute, Native};
use crate::par::Shared;
use crate::stop;
use crate::view::View;

/// Which one is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
}

/// The first position, in row-major order of the axes that `reduced` marks, of the largest or the
/// smallest number; of the first NaN if there is one.
///
/// # Panics
/// If `out` has not as many elements as there are results, or if there is nothing to choose from.
pub fn arg<T: Compute>(which: Which, x: View<'_, T>, reduced: &[bool], out: &mut [i64])
where
    T::Wide: Extremes,
{
    let (results, each) = counts(x.shape(), reduced);
    assert!(results == 0 || each > 0, "arg: nothing to choose from");
    let fold = match which {
        Which::Largest => T::Wide::largest(),
        Which::Smallest => T::Wide::smallest(),
    };
    let mut best = stop::room(T::Wide::ZERO, results);
    let keep = |_: usize, acc: &[T::Wide], out: &mut [T::Wide]| out.copy_from_slice(acc);
    reduce(fold, x, reduced, &no_params(results), &keep, &mut best);
    assert_eq!(out.len(), results, "arg: the number of results");
    if results == 1 || lies_in_rows(&x, reduced) {
        rows(x, reduced, &best, each, out);
    } else {
        columns(x, reduced, &best, each, out);
    }
}

/// Whether `x` is the one looked for. Where there is a NaN the best is NaN, and equals nothing.
#[inline(always)]
fn hit<W: Extremes>(x: W, best: W) -> bool {
    x.eq(best) | !x.eq(x)
}

fn rows<T: Compute>(
    x: View<'_, T>,
    reduced: &[bool],
    best: &[T::Wide],
    each: usize,
    out: &mut [i64],
) where
    T::Wide: Extremes,
{
    let walk = Walk::new(&x, reduced, true);
    let x = walk.gather(&x);
    let shared = Shared::new(out);
    in_tasks(best.len(), each, &|units| {
        let mut room = Room::new();
        for k in units {
            let mut start = 0;
            let mut found = None;
            while found.is_none() && start < each {
                stop::check();
                let len = PACK.min(each - start);
                let values = room.read(&x, k * each + start, len);
                found = values.iter().position(|&v| hit(v, best[k]));
                found = found.map(|at| start + at);
                start += len;
            }
            // SAFETY: every result is a part of its own.
            let out = unsafe { shared.part(k, k + 1) };
            out[0] = found.unwrap_or(0) as i64;
        }
    });
}

fn columns<T: Compute>(
    x: View<'_, T>,
    reduced: &[bool],
    best: &[T::Wide],
    each: usize,
    out: &mut [i64],
) where
    T::Wide: Extremes,
{
    let walk = Walk::new(&x, reduced, false);
    let x = walk.gather(&x);
    let results = best.len();
    let shared = Shared::new(out);
    in_tasks(results.div_ceil(BLOCK), each * BLOCK.min(results), &|units| {
        let mut room = Room::new();
        for block in units {
            let (start, end) = (block * BLOCK, ((block + 1) * BLOCK).min(results));
            // SAFETY: the blocks lie in `out` and do not overlap.
            let out = unsafe { shared.part(start, end) };
            out.fill(0);
            // Backwards, so that the first one is what remains.
            for row in (0..each).rev() {
                stop::check();
                let values = room.read(&x, row * results + start, end - start);
                for ((out, &v), &best) in out.iter_mut().zip(values).zip(&best[start..end]) {
                    *out = if hit(v, best) { row as i64 } else { *out };
                }
            }
        }
    });
}
