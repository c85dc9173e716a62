//! A strided view of a slice, and how it is walked over in row-major order.

use crate::native::Native;
use crate::par::{parallel_for, share};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers of a slice seen as an array: element `[i, j, …]` is
/// `data[offset + i * strides[0] + j * strides[1] + …]`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    data: &'a [T],
    offset: usize,
    shape: &'a [usize],
    strides: &'a [isize],
}

impl<'a, T> View<'a, T> {
    /// A view, or a panic if it would reach outside `data`.
    #[inline]
    pub fn new(data: &'a [T], offset: usize, shape: &'a [usize], strides: &'a [isize]) -> Self {
        assert!(
            in_bounds(data.len(), offset, shape, strides),
            "a view of shape {shape:?}, strides {strides:?}, offset {offset} reaches outside {} elements",
            data.len()
        );
        View { data, offset, shape, strides }
    }

    /// The array's sizes.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Distance in elements between neighbours along each axis.
    pub fn strides(&self) -> &'a [isize] {
        self.strides
    }

    /// Where element `[0, 0, …]` lies.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The slice looked at.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The elements as a slice, if they lie in row-major order without gaps.
    #[inline]
    pub fn as_slice(&self) -> Option<&'a [T]> {
        // The other sizes of an empty array may be too large to multiply.
        if self.is_empty() {
            return Some(&[]);
        }
        let mut expected = 1isize;
        for (&size, &stride) in self.shape.iter().zip(self.strides).rev() {
            if size != 1 && stride != expected {
                return None;
            }
            expected *= size as isize;
        }
        Some(&self.data[self.offset..self.offset + expected as usize])
    }
}

/// Whether any element is such.
pub fn any<T: Native>(x: View<'_, T>, such: impl Fn(T) -> bool + Sync) -> bool {
    const BLOCK: usize = 256;
    let all = Gather::new(&x);
    if let Some(value) = all.constant() {
        return such(value);
    }
    let len = if x.is_empty() { 0 } else { x.len() };
    let chunk = share(len, 8 * 1024, 64 * 1024);
    let found = AtomicBool::new(false);
    parallel_for(len.div_ceil(chunk), &|t| {
        let mut room = [T::ZERO; BLOCK];
        for start in (t * chunk..((t + 1) * chunk).min(len)).step_by(BLOCK) {
            let part = &mut room[..BLOCK.min(len - start)];
            all.read(start, part);
            // A sum has no early exit, and so vectorises.
            if part.iter().map(|&v| usize::from(such(v))).sum::<usize>() > 0 {
                found.store(true, Ordering::Relaxed);
                return;
            }
        }
    });
    found.into_inner()
}

/// Whether every element of such a view lies within `len` elements.
#[inline]
pub fn in_bounds(len: usize, offset: usize, shape: &[usize], strides: &[isize]) -> bool {
    if shape.len() != strides.len() {
        return false;
    }
    let (mut low, mut high) = (offset as isize, offset as isize);
    let mut fits = low >= 0;
    for (&size, &stride) in shape.iter().zip(strides) {
        if size == 0 {
            return true;
        }
        let (reach, lost) = (size as isize - 1).overflowing_mul(stride);
        let side = if reach < 0 { &mut low } else { &mut high };
        let (moved, also_lost) = side.overflowing_add(reach);
        *side = moved;
        fits &= size <= isize::MAX as usize && !lost && !also_lost;
    }
    fits && low >= 0 && (high as usize) < len
}

/// Axes merged where possible: (size, stride), innermost last, sizes above 1.
pub(crate) type Axes = SmallVec<[(usize, isize); 6]>;

/// The fewest axes that give the same elements in the same order; for no elements one of size 0.
pub(crate) fn merged(shape: &[usize], strides: &[isize]) -> Axes {
    let mut axes = Axes::new();
    if shape.contains(&0) {
        axes.push((0, 1));
        return axes;
    }
    for (&size, &stride) in shape.iter().zip(strides) {
        if size == 1 {
            continue;
        }
        match axes.last_mut() {
            Some(last) if last.1 == stride * size as isize => *last = (last.0 * size, stride),
            _ => axes.push((size, stride)),
        }
    }
    axes
}

/// Reads the elements of a view in row-major order, from anywhere, in pieces.
pub struct Gather<'a, T> {
    data: &'a [T],
    offset: usize,
    axes: Axes,
}

impl<'a, T: Native> Gather<'a, T> {
    /// A reader of `view`.
    pub fn new(view: &View<'a, T>) -> Self {
        Gather { data: view.data, offset: view.offset, axes: merged(view.shape, view.strides) }
    }

    /// The one value that all elements share, if the view says so.
    #[inline]
    pub fn constant(&self) -> Option<T> {
        match self.axes.as_slice() {
            [] => self.data.get(self.offset).copied(),
            [(_, 0)] => Some(self.data[self.offset]),
            _ => None,
        }
    }

    /// How many elements lie together along the innermost axis; 0 if they lie apart.
    pub(crate) fn stretch(&self) -> usize {
        match self.axes.last() {
            Some(&(size, 1)) => size,
            _ => 0,
        }
    }

    /// Elements `start..start + len` as a slice, if they lie together.
    #[inline]
    pub fn slice(&self, start: usize, len: usize) -> Option<&'a [T]> {
        let &(inner, 1) = self.axes.last()? else {
            return None;
        };
        if len == 0 {
            return Some(&[]);
        }
        let within = start % inner;
        if within + len > inner {
            return None;
        }
        let at = self.position(start);
        self.data.get(at..at + len)
    }

    /// All that lies from element number `first` to element number `last`, others included.
    pub(crate) fn between(&self, first: usize, last: usize) -> Option<&'a [T]> {
        self.data.get(self.position(first)..=self.position(last))
    }

    /// Where element number `index` lies.
    fn position(&self, mut index: usize) -> usize {
        let mut at = self.offset as isize;
        for &(size, stride) in self.axes.iter().rev() {
            at += (index % size) as isize * stride;
            index /= size;
        }
        at as usize
    }

    /// Copies elements `start..start + to.len()` to `to`.
    pub fn read(&self, start: usize, to: &mut [T]) {
        self.runs(start, to.len(), |filled, at, count, stride| {
            let to = &mut to[filled..filled + count];
            match stride {
                1 => to.copy_from_slice(&self.data[at..at + count]),
                0 => to.fill(self.data[at]),
                _ => {
                    let mut at = at as isize;
                    for value in to {
                        // SAFETY: `runs` names only elements of the view, and `View::new` has seen
                        // that all of them lie in `data`.
                        *value = unsafe { *self.data.get_unchecked(at as usize) };
                        at += stride;
                    }
                }
            }
        });
    }

    /// Calls `run(done, position, count, stride)` for the stretches along the innermost axis that
    /// make up elements `start..start + len`.
    #[inline]
    pub(crate) fn runs(
        &self,
        start: usize,
        len: usize,
        mut run: impl FnMut(usize, usize, usize, isize),
    ) {
        if len == 0 {
            return;
        }
        let Some((&(inner, stride), outer)) = self.axes.split_last() else {
            run(0, self.offset, len, 0);
            return;
        };
        let mut within = start % inner;
        let mut row = start / inner;
        // The outer axes' indices, and the position of the row's first element.
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
        let mut at = self.offset as isize;
        for (i, &(size, stride)) in index.iter_mut().zip(outer).rev() {
            *i = row % size;
            row /= size;
            at += *i as isize * stride;
        }
        let mut done = 0;
        while done < len {
            let count = (inner - within).min(len - done);
            run(done, (at + within as isize * stride) as usize, count, stride);
            done += count;
            within = 0;
            for (i, &(size, stride)) in index.iter_mut().zip(outer).rev() {
                *i += 1;
                at += stride;
                if *i < size {
                    break;
                }
                at -= stride * size as isize;
                *i = 0;
            }
        }
    }
}
