//! Picking elements by lists of positions, and adding or putting elements at such positions.
//!
//! The positions are given as `&[i64]`, and [`first_outside`] finds one that is no position: callers
//! ask it first. A kernel given such a position panics or picks some other element; it never leaves
//! its slices. Sums are taken in the order of the list,
//! whatever the number of threads: each part of the result belongs to one task.

use crate::native::Native;
use crate::par::{parallel_chunks, parallel_for, share};
use crate::view::{Gather, View, merged};
use smallvec::SmallVec;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Elements that one thread takes at a time.
const CHUNK: usize = 64 * 1024;

/// The first number of the list that is not in `0..size`.
pub fn first_outside(index: &[i64], size: usize) -> Option<i64> {
    let outside = |&i: &i64| usize::try_from(i).map_or(true, |i| i >= size);
    let first = AtomicUsize::new(usize::MAX);
    let chunk = share(index.len(), CHUNK / 8, CHUNK);
    parallel_for(index.len().div_ceil(chunk), &|t| {
        let start = t * chunk;
        let part = &index[start..(start + chunk).min(index.len())];
        // A sum has no early exit, and so vectorises.
        if part.iter().map(|i| usize::from(outside(i))).sum::<usize>() > 0
            && let Some(at) = part.iter().position(outside)
        {
            first.fetch_min(start + at, Ordering::Relaxed);
        }
    });
    index.get(first.into_inner()).copied()
}

/// An axis of a walk over memory: how far each of its indices lies from the first.
#[derive(Clone, Copy)]
enum Axis<'a> {
    /// `stride` apart.
    Even(usize, isize),
    /// At these positions, which lie `stride` apart.
    Listed(&'a [i64], isize),
}

impl Axis<'_> {
    fn size(&self) -> usize {
        match *self {
            Axis::Even(size, _) => size,
            Axis::Listed(list, _) => list.len(),
        }
    }

    #[inline(always)]
    fn at(&self, i: usize) -> isize {
        match *self {
            Axis::Even(_, stride) => i as isize * stride,
            Axis::Listed(list, stride) => list[i] as isize * stride,
        }
    }
}

/// `out[o, j, i] = x[o, index[j], i]`, where `o` and `i` stand for the axes before and after `axis`.
///
/// # Panics
/// If `out` has another length.
pub fn take<T: Native>(x: View<'_, T>, axis: usize, index: &[i64], out: &mut [T]) {
    let (shape, strides) = (x.shape(), x.strides());
    let elements = |shape: &[usize]| shape.iter().product::<usize>();
    let (before, after) = (elements(&shape[..axis]), elements(&shape[axis + 1..]));
    assert_eq!(before * index.len() * after, out.len(), "take: the length");
    if out.is_empty() {
        return;
    }
    let even = |&(size, stride): &(usize, isize)| Axis::Even(size, stride);
    let mut axes: SmallVec<[Axis<'_>; 6]> = SmallVec::new();
    axes.extend(merged(&shape[..axis], &strides[..axis]).iter().map(even));
    axes.push(Axis::Listed(index, strides[axis]));
    let inner = merged(&shape[axis + 1..], &strides[axis + 1..]);
    axes.extend(inner.iter().map(even));
    let Some((run, outer)) = axes.split_last() else {
        return;
    };
    let data = x.data();
    let rows = (CHUNK / run.size()).max(1);
    parallel_chunks(out, rows * run.size(), &|start, out| {
        for (row, out) in out.chunks_mut(run.size()).enumerate() {
            let mut number = start / run.size() + row;
            let mut at = x.offset() as isize;
            for axis in outer.iter().rev() {
                at += axis.at(number % axis.size());
                number /= axis.size();
            }
            match *run {
                Axis::Even(size, 1) => {
                    out.copy_from_slice(&data[at as usize..at as usize + size]);
                }
                _ => {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = data[(at + run.at(i)) as usize];
                    }
                }
            }
        }
    });
}

/// `out[…, j, …] = x[…, index[…, j, …], …]`: the position along `axis` is given for each element.
/// `index` and `out` have shape `shape`, row-major, which is at most that of `x` along the other
/// axes.
///
/// # Panics
/// If a shape does not fit.
pub fn gather<T: Native>(
    x: View<'_, T>,
    axis: usize,
    index: &[i64],
    shape: &[usize],
    out: &mut [T],
) {
    assert_eq!(index.len(), out.len(), "gather: the length");
    if out.is_empty() {
        return;
    }
    let step = x.strides()[axis];
    let mut strides: SmallVec<[isize; 6]> = SmallVec::from_slice(x.strides());
    strides[axis] = 0;
    let base = Gather::new(&View::new(x.data(), x.offset(), shape, &strides));
    parallel_chunks(out, CHUNK, &|start, out| {
        base.runs(start, out.len(), |done, at, count, stride| {
            let index = &index[start + done..start + done + count];
            let out = &mut out[done..done + count];
            for (i, (out, &position)) in out.iter_mut().zip(index).enumerate() {
                let at = at as isize + i as isize * stride + position as isize * step;
                *out = x.data()[at as usize];
            }
        });
    });
}

/// `out[o, index[j], i] += source[o, j, i]` for `out` of shape `[_, size, inner]`, row-major, and
/// `source` of shape `[_, index.len(), inner]`.
///
/// # Panics
/// If a length does not fit.
pub fn add_rows<T: Native + AddAssign>(
    out: &mut [T],
    [size, inner]: [usize; 2],
    index: &[i64],
    source: &[T],
) {
    if source.is_empty() {
        return;
    }
    let (rows, listed) = (out.len() / inner, index.len());
    let outer = source.len() / (listed * inner);
    assert!(
        outer * listed * inner == source.len() && outer * size * inner == out.len(),
        "add_rows: a length"
    );
    // Every task reads the whole list and keeps to the rows that are its own: worth it where rows
    // are long.
    let tasks = source.len().div_ceil(CHUNK).min(outer + outer * inner / 8);
    let each = rows.div_ceil(tasks.max(1));
    parallel_chunks(out, each * inner, &|start, out| {
        let first = start / inner;
        let last = first + out.len() / inner;
        for o in first / size..last.div_ceil(size) {
            for (j, &position) in index.iter().enumerate() {
                let row = o * size + position as usize;
                if row < first || row >= last {
                    continue;
                }
                if inner == 1 {
                    out[row - first] += source[o * listed + j];
                    continue;
                }
                let to = &mut out[(row - first) * inner..(row - first + 1) * inner];
                let from = &source[(o * listed + j) * inner..(o * listed + j + 1) * inner];
                for (to, &from) in to.iter_mut().zip(from) {
                    *to += from;
                }
            }
        }
    });
}

/// `put(out[lane][index[lane][j]], source[lane][j])` for every `j` in order: `out` consists of lanes of
/// `size` elements, `index` and `source` of lanes of `listed`. `lane` tells which of these belongs to
/// a lane of `out`, if one does.
///
/// # Panics
/// If a length does not fit.
pub fn put_lanes<T: Native>(
    out: &mut [T],
    [size, listed]: [usize; 2],
    index: &[i64],
    source: &[T],
    lane: impl Fn(usize) -> Option<usize> + Sync,
    put: impl Fn(&mut T, T) + Sync,
) {
    assert_eq!(index.len(), source.len(), "put_lanes: a length");
    if source.is_empty() {
        return;
    }
    let together = (CHUNK / size.max(listed)).max(1);
    parallel_chunks(out, together * size, &|start, out| {
        for (k, out) in out.chunks_mut(size).enumerate() {
            let Some(from) = lane(start / size + k) else {
                continue;
            };
            let part = from * listed..(from + 1) * listed;
            for (&position, &value) in index[part.clone()].iter().zip(&source[part]) {
                put(&mut out[position as usize], value);
            }
        }
    });
}

/// Keeps, in every `rows` × `columns` matrix of `out`, the elements for which `column - row` is at
/// most `k` (or, with `above`, at least `k`), and puts zeros elsewhere.
pub fn triangle<T: Native>(
    x: View<'_, T>,
    [rows, columns]: [usize; 2],
    k: i64,
    above: bool,
    out: &mut [T],
) {
    assert_eq!(x.len(), out.len(), "triangle: the length");
    if out.is_empty() {
        return;
    }
    let gather = Gather::new(&x);
    let together = (CHUNK / columns).max(1) * columns;
    parallel_chunks(out, together, &|start, out| {
        gather.read(start, out);
        for (i, row) in out.chunks_mut(columns).enumerate() {
            let number = (start / columns + i) % rows;
            // The first column that is kept (above) or left out (below).
            let edge = number as i128 + i128::from(k) + i128::from(!above);
            let edge = edge.clamp(0, columns as i128) as usize;
            if above {
                row[..edge].fill(T::ZERO);
            } else {
                row[edge..].fill(T::ZERO);
            }
        }
    });
}
