//! Moving numbers between arrays of one shape and any strides.
//!
//! Transposing, concatenating, padding, flipping, tiling and packing are all this one copy, between
//! suitable views. Axes are reordered so that memory is written in order, merged where both sides
//! allow, and a transposition goes tile by tile so that both sides use whole cache lines.

use crate::native::Native;
use crate::par::{parallel_for, share};
use crate::stream::{self, Stream};
use crate::transpose::{Tile, most_rows};
use crate::view::{View, in_bounds};
use smallvec::SmallVec;
use std::ops::Range;

/// A strided view of a slice that is written to.
pub struct ViewMut<'a, T> {
    data: &'a mut [T],
    offset: usize,
    shape: &'a [usize],
    strides: &'a [isize],
}

impl<'a, T> ViewMut<'a, T> {
    /// A view, or a panic if it would reach outside `data` or name an element twice by a stride 0.
    pub fn new(data: &'a mut [T], offset: usize, shape: &'a [usize], strides: &'a [isize]) -> Self {
        assert!(
            in_bounds(data.len(), offset, shape, strides),
            "a view of shape {shape:?}, strides {strides:?}, offset {offset} reaches outside {} elements",
            data.len()
        );
        assert!(distinct(shape, strides), "a view to be written names an element twice");
        ViewMut { data, offset, shape, strides }
    }
}

/// Whether each axis steps over all that the smaller-stepping axes reach: then no two indices share
/// an element. (Every slice, permutation and reversal of a row-major array has this property.)
fn distinct(shape: &[usize], strides: &[isize]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut axes: SmallVec<[(usize, usize); 6]> = shape
        .iter()
        .zip(strides)
        .filter(|(size, _)| **size > 1)
        .map(|(&size, &stride)| (stride.unsigned_abs(), size))
        .collect();
    axes.sort_unstable();
    let mut reach = 0usize;
    axes.iter().all(|&(stride, size)| {
        let apart = stride > reach;
        reach = reach.saturating_add(stride.saturating_mul(size - 1));
        apart
    })
}

/// An axis of a copy: its size and how far a step goes in the source and in the target.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    from: isize,
    to: isize,
}

/// Elements that one thread takes at a time, at most and at least.
const SMALL: usize = 64 * 1024;
const LEAST: usize = 8 * 1024;
/// Columns from which on a tile whose lines are not those of memory goes there by way of a buffer.
const WIDE: usize = 64;
/// The side of the square tiles of a transposition of which not all can be done in registers.
const TILE: usize = 32;

/// Copies every element of `from` to the same index of `to`.
///
/// # Panics
/// If the shapes differ.
pub fn copy<T: Native>(from: View<'_, T>, to: ViewMut<'_, T>) {
    assert_eq!(from.shape(), to.shape, "copy: the shapes differ");
    if from.is_empty() {
        return;
    }
    let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
    for ((&size, &from), &to) in from.shape().iter().zip(from.strides()).zip(to.strides) {
        if size > 1 {
            axes.push(Axis { size, from, to });
        }
    }
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.to.unsigned_abs()));
    let mut merged: SmallVec<[Axis; 6]> = SmallVec::new();
    for axis in axes {
        match merged.last_mut() {
            Some(last)
                if last.from == axis.from * axis.size as isize
                    && last.to == axis.to * axis.size as isize =>
            {
                *last = Axis { size: last.size * axis.size, ..axis };
            }
            _ => merged.push(axis),
        }
    }
    let inner = merged.pop().unwrap_or(Axis { size: 1, from: 1, to: 1 });
    // The axis along which the source lies together, if that is another one.
    let transposed = merged.iter().position(|axis| axis.from.abs() == 1 && inner.from.abs() > 1);
    // Else lines are copied, many of them for each that is looked for.
    let across = match transposed {
        Some(at) => merged.remove(at),
        None => merged.pop().unwrap_or(Axis { size: 1, from: 0, to: 0 }),
    };
    Copy {
        from: from.data().as_ptr(),
        from_offset: from.offset() as isize,
        to: to.data.as_mut_ptr(),
        to_offset: to.offset as isize,
        outer: merged,
        across,
        inner,
        transposed: transposed.is_some(),
    }
    .run();
}

struct Copy<T> {
    from: *const T,
    from_offset: isize,
    to: *mut T,
    to_offset: isize,
    outer: SmallVec<[Axis; 6]>,
    across: Axis,
    inner: Axis,
    /// Whether the source lies together along `across`.
    transposed: bool,
}

// SAFETY: tasks write different elements: a target view names none twice.
unsafe impl<T: Send> Sync for Copy<T> {}

impl<T: Native> Copy<T> {
    fn run(self) {
        let rows: usize = self.outer.iter().map(|axis| axis.size).product();
        // A plane (across × inner) is cut into strips and these along the inner axis into pieces,
        // so that there is work to share whatever the shape.
        let strip = match self.across.size {
            1 => 1,
            _ if self.in_registers() => most_rows::<T>(),
            size => size.min(TILE),
        };
        let strips = self.across.size.div_ceil(strip);
        let piece = self.inner.size.min(SMALL / strip);
        let pieces = self.inner.size.div_ceil(piece);
        let units = rows * strips * pieces;
        let each = strip * piece;
        let together = (share(units.saturating_mul(each), LEAST, SMALL) / each).max(1);
        let past = units * each * size_of::<T>() >= stream::FROM;
        let task = |t: usize| {
            let stream = past.then(Stream::new);
            let mut room = Vec::new();
            for unit in t * together..((t + 1) * together).min(units) {
                let (row, rest) = (unit / (strips * pieces), unit % (strips * pieces));
                let (s, p) = (rest / pieces, rest % pieces);
                self.tiles(
                    row,
                    s * strip..((s + 1) * strip).min(self.across.size),
                    p * piece..((p + 1) * piece).min(self.inner.size),
                    stream.as_ref(),
                    &mut room,
                );
            }
        };
        if units <= together {
            task(0);
        } else {
            parallel_for(units.div_ceil(together), &task);
        }
    }

    /// Whether a plane is one that [`Tile`] transposes.
    fn in_registers(&self) -> bool {
        self.transposed && self.inner.to == 1
    }

    /// Copies part of one plane, past the caches if `stream` is given and that is of use.
    fn tiles(
        &self,
        mut row: usize,
        across: Range<usize>,
        inner: Range<usize>,
        stream: Option<&Stream>,
        room: &mut Vec<T>,
    ) {
        let (mut from, mut to) = (self.from_offset, self.to_offset);
        for axis in self.outer.iter().rev() {
            let i = (row % axis.size) as isize;
            row /= axis.size;
            from += i * axis.from;
            to += i * axis.to;
        }
        if self.in_registers() {
            // Backwards in the source is from the last row of the target to the first.
            let first = if self.across.from < 0 { across.end - 1 } else { across.start } as isize;
            let from = from + first * self.across.from + inner.start as isize * self.inner.from;
            let to = to + first * self.across.to + inner.start as isize;
            // SAFETY: indices stay below the axes' sizes, and both views were seen to lie in their
            // slices; source and target do not overlap, one being borrowed mutably.
            unsafe {
                let tile = Tile {
                    from: self.from.offset(from),
                    from_step: self.inner.from,
                    to: self.to.offset(to),
                    to_step: self.across.to * self.across.from.signum(),
                    rows: across.len(),
                    columns: inner.len(),
                    past: stream.is_some(),
                };
                match stream {
                    Some(stream) if !tile.lines() && tile.columns >= WIDE => {
                        tile.run_through(room, stream)
                    }
                    _ => tile.run(),
                }
            }
            return;
        }
        let step = if self.transposed { TILE } else { inner.len() };
        for start in inner.clone().step_by(step.max(1)) {
            let count = step.min(inner.end - start);
            for a in across.clone() {
                let from = from + a as isize * self.across.from + start as isize * self.inner.from;
                let to = to + a as isize * self.across.to + start as isize * self.inner.to;
                // SAFETY: indices stay below the axes' sizes, and both views were seen to lie in
                // their slices; source and target do not overlap, one being borrowed mutably.
                unsafe { self.line(self.from.offset(from), self.to.offset(to), count) };
            }
        }
    }

    /// Copies `count` elements along the inner axis.
    ///
    /// # Safety
    /// All of them must lie in their slices.
    #[inline]
    unsafe fn line(&self, from: *const T, to: *mut T, count: usize) {
        let Axis { from: step_from, to: step_to, .. } = self.inner;
        // SAFETY: the caller's promise, for each element touched.
        unsafe {
            match (step_from, step_to) {
                (1, 1) => std::ptr::copy_nonoverlapping(from, to, count),
                (0, 1) => std::slice::from_raw_parts_mut(to, count).fill(*from),
                (_, 1) => {
                    for i in 0..count {
                        *to.add(i) = *from.offset(i as isize * step_from);
                    }
                }
                _ => {
                    for i in 0..count as isize {
                        *to.offset(i * step_to) = *from.offset(i * step_from);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_major(shape: &[usize]) -> Vec<isize> {
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i] as isize;
        }
        strides
    }

    /// Element by element, by the definition of a view.
    fn slow(data: &[u32], offset: usize, shape: &[usize], strides: &[isize]) -> Vec<u32> {
        let len: usize = shape.iter().product();
        (0..len)
            .map(|mut i| {
                let mut at = offset as isize;
                for (&size, &stride) in shape.iter().zip(strides).rev() {
                    at += (i % size) as isize * stride;
                    i /= size;
                }
                data[at as usize]
            })
            .collect()
    }

    #[test]
    fn a_copy_moves_every_element_to_its_index_for_any_permutation_and_direction() {
        let shapes: [&[usize]; 7] =
            [&[7], &[3, 5], &[70, 65], &[4, 1, 6], &[2, 3, 4, 5], &[129, 3, 67], &[300, 400]];
        for shape in shapes {
            let n = shape.len();
            let len: usize = shape.iter().product();
            let data: Vec<u32> = (0..len as u32).collect();
            for rotation in 0..n {
                for flipped in [false, true] {
                    let base = row_major(shape);
                    let mut offset = 0isize;
                    let permuted: Vec<usize> = (0..n).map(|i| (i + rotation) % n).collect();
                    let view_shape: Vec<usize> = permuted.iter().map(|&i| shape[i]).collect();
                    let mut strides: Vec<isize> = permuted.iter().map(|&i| base[i]).collect();
                    if flipped {
                        offset += strides[0] * (view_shape[0] as isize - 1);
                        strides[0] = -strides[0];
                    }
                    let expected = slow(&data, offset as usize, &view_shape, &strides);
                    let target = row_major(&view_shape);
                    for threads in [1, 3] {
                        let mut out = vec![u32::MAX; len];
                        crate::par::with_threads(threads, || {
                            copy(
                                View::new(&data, offset as usize, &view_shape, &strides),
                                ViewMut::new(&mut out, 0, &view_shape, &target),
                            )
                        });
                        assert_eq!(out, expected, "{shape:?} rotated {rotation}");
                        // and back again, into the strided side
                        let mut back = vec![u32::MAX; len];
                        copy(
                            View::new(&out, 0, &view_shape, &target),
                            ViewMut::new(&mut back, offset as usize, &view_shape, &strides),
                        );
                        assert_eq!(back, data);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "names an element twice")]
    fn a_target_that_names_an_element_twice_is_refused() {
        ViewMut::new(&mut [0u8; 4], 0, &[2, 2], &[0, 1]);
    }

    #[test]
    #[should_panic(expected = "reaches outside")]
    fn a_view_outside_its_slice_is_refused() {
        View::new(&[0u8; 4], 1, &[2, 2], &[2, 1]);
    }
}
