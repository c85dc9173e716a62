//! Visiting the elements of several arrays of one shape together, in an order that suits memory.
//!
//! Results are written piece by piece, each piece a stretch of the result's row-major order. Where all
//! arrays lie in about that order, so do the pieces. Where the neighbours of an array lie along
//! another axis (it is transposed), pieces make up tiles along both axes: such an array's part of a tile is
//! transposed into a small buffer at once, so that every line of memory is read once and used as a whole.

use crate::native::Native;
use crate::par::{Shared, parallel_for, share};
use crate::stream::{self, Stream};
use crate::transpose::{self, most_rows};
use crate::view::{Gather, View};
use smallvec::SmallVec;
use std::ops::Range;

/// Elements that one thread takes at a time at most, unless told otherwise.
const CHUNK: usize = 64 * 1024;
/// Bytes of a tile of the transposed array: small enough for the second cache, several times over.
const TILE: usize = 64 * 1024;
/// Elements below which tiles are not worth it.
const SMALL: usize = 1024;
/// Columns below which a row of a tile is too short to be a piece.
const SHORT: usize = 32;

/// Where the elements of one array lie.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a> {
    shape: &'a [usize],
    strides: &'a [isize],
    /// The bytes of an element.
    size: usize,
}

impl<'a, T> View<'a, T> {
    /// Where the elements lie.
    pub(crate) fn layout(&self) -> Layout<'a> {
        Layout { shape: self.shape(), strides: self.strides(), size: size_of::<T>() }
    }
}

/// An axis that all arrays have in common.
struct Axis {
    size: usize,
    /// How far a step goes in each array.
    steps: SmallVec<[isize; 4]>,
    /// And in the result.
    out: usize,
}

/// An order in which to visit the elements of arrays.
pub struct Walk {
    len: usize,
    /// The most elements of a piece.
    piece: usize,
    /// Elements that one thread takes at a time.
    chunk: usize,
    tiles: Option<Tiles>,
}

/// Tiles along two axes.
struct Tiles {
    outer: SmallVec<[Axis; 4]>,
    across: Axis,
    inner: Axis,
    rows: usize,
    columns: usize,
    /// How many rows make a piece: several short ones, where they lie together in the result.
    group: usize,
}

impl Walk {
    /// An order for arrays of `len` elements each, in pieces of `piece` elements at most.
    pub(crate) fn new(len: usize, piece: usize, arrays: &[Layout<'_>]) -> Walk {
        let tiles = if len < SMALL { None } else { Tiles::new(piece, arrays) };
        Walk { len, piece, chunk: CHUNK, tiles }
    }

    /// The same order, for work of which one thread is to take so many elements at a time.
    pub(crate) fn in_chunks(self, chunk: usize) -> Walk {
        Walk { chunk, ..self }
    }

    /// Whether pieces come one after the other.
    pub(crate) fn is_plain(&self) -> bool {
        self.tiles.is_none()
    }

    /// The elements of the longest piece.
    pub(crate) fn longest(&self) -> usize {
        self.piece.min(self.len)
    }

    /// Calls `task` with the pieces of `out`, several calls at a time for different ones.
    ///
    /// # Panics
    /// If `out` has another length.
    pub(crate) fn run<O: Native>(&self, out: &mut [O], task: &(dyn Fn(&mut Pieces<'_, O>) + Sync)) {
        assert_eq!(out.len(), self.len, "walk: a result of another length");
        let past = size_of_val(out) >= stream::FROM && self.tiles.is_some();
        let out = &Shared::new(out);
        self.tasks(past, &|order| task(&mut Pieces { order, out }));
    }

    /// Calls `task` with the pieces of which it is to write the results, several calls at a time for
    /// different ones; `past`: past the caches.
    pub(crate) fn tasks(&self, past: bool, task: &(dyn Fn(Order<'_>) + Sync)) {
        let chunk = share(self.len, self.chunk / 8, self.chunk);
        let (units, together) = match &self.tiles {
            Some(tiles) => (tiles.count(), (chunk / (tiles.rows * tiles.columns)).max(1)),
            None => (self.len.div_ceil(self.piece), (chunk / self.piece).max(1)),
        };
        let run = |t: usize| {
            let units = t * together..((t + 1) * together).min(units);
            let stream = past.then(Stream::new);
            task(Order { walk: self, units, rows: 0..0, tile: Tile::default(), stream });
        };
        match units.div_ceil(together) {
            0 => {}
            1 => run(0),
            tasks => parallel_for(tasks, &run),
        }
    }
}

impl Tiles {
    fn new(piece: usize, arrays: &[Layout<'_>]) -> Option<Tiles> {
        let shape = arrays.first()?.shape;
        // Most arrays that are not slices repeat something: this is to be quick for them.
        let apart = |a: &Layout<'_>| {
            let mut steps = a.shape.iter().zip(a.strides).filter(|(size, _)| **size > 1);
            let inner = steps.next_back().map_or(0, |(_, step)| step.unsigned_abs());
            inner > 1 && steps.any(|(_, step)| (1..inner).contains(&step.unsigned_abs()))
        };
        if !arrays.iter().any(apart) || arrays.iter().any(|a| a.shape != shape) {
            return None;
        }
        let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
        let mut out = 1;
        for (k, &size) in shape.iter().enumerate().rev() {
            if size == 1 {
                continue;
            }
            let steps: SmallVec<[isize; 4]> = arrays.iter().map(|a| a.strides[k]).collect();
            match axes.last_mut() {
                Some(last)
                    if steps.iter().zip(&last.steps).all(|(a, b)| *a == b * last.size as isize) =>
                {
                    last.size *= size;
                }
                _ => axes.push(Axis { size, steps, out }),
            }
            out *= size;
        }
        // The axis of the shortest steps of most bytes that do not lie along the innermost one.
        let shortest = |k: usize| {
            let step = |axis: &Axis| match axis.steps[k].unsigned_abs() {
                0 => usize::MAX,
                step => step,
            };
            let least = axes.iter().enumerate().min_by_key(|(_, axis)| step(axis))?.0;
            (least > 0 && step(&axes[0]) < usize::MAX).then_some(least)
        };
        let mut votes: SmallVec<[usize; 4]> = SmallVec::from_elem(0, axes.len());
        for (k, array) in arrays.iter().enumerate() {
            if let Some(axis) = shortest(k) {
                votes[axis] += array.size;
            }
        }
        let at = (1..axes.len()).rev().max_by_key(|&axis| votes[axis])?;
        let size = (0..arrays.len()).filter(|&k| shortest(k) == Some(at));
        let size = size.map(|k| arrays[k].size).max()?;
        let across = axes.remove(at);
        let inner = axes.remove(0);
        let together = inner.size <= piece / 2 && across.out == inner.size;
        if across.size < 4 || (inner.size < SHORT && !together) {
            return None;
        }
        let group = if together { piece / inner.size } else { 1 };
        // As many rows as are read together, and what that leaves for columns.
        let read = if size < 4 { transpose::STRETCH / 2 } else { transpose::STRETCH };
        let rows = (read / size).next_multiple_of(group).min(across.size);
        let columns = (TILE / size / rows).clamp(1, piece).min(inner.size);
        let columns = if together { inner.size } else { columns };
        axes.reverse();
        Some(Tiles { outer: axes, across, inner, rows, columns, group })
    }

    /// How many tiles there are.
    fn count(&self) -> usize {
        let outer: usize = self.outer.iter().map(|axis| axis.size).product();
        outer * self.across.size.div_ceil(self.rows) * self.inner.size.div_ceil(self.columns)
    }

    /// Tile number `number`.
    fn at(&self, number: usize) -> Tile {
        let columns = self.inner.size.div_ceil(self.columns);
        let strips = self.across.size.div_ceil(self.rows);
        let (rest, column) = (number / columns, number % columns * self.columns);
        let (mut rest, row) = (rest / strips, rest % strips * self.rows);
        let mut start = row * self.across.out + column;
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.outer.len());
        for (i, axis) in index.iter_mut().zip(&self.outer).rev() {
            *i = rest % axis.size;
            rest /= axis.size;
            start += *i * axis.out;
        }
        let rows = self.rows.min(self.across.size - row);
        let columns = self.columns.min(self.inner.size - column);
        Tile { number, index, row, column, rows, columns, start }
    }
}

/// A tile: its number, its indices along the other axes, its first row and column, how many there are,
/// and where its first element is in the result.
#[derive(Default)]
struct Tile {
    number: usize,
    index: SmallVec<[usize; 4]>,
    row: usize,
    column: usize,
    rows: usize,
    columns: usize,
    start: usize,
}

/// The pieces of one task, one after the other, with their parts of the result.
pub(crate) struct Pieces<'a, O> {
    order: Order<'a>,
    out: &'a Shared<O>,
}

/// The pieces of one task, one after the other. No two tasks have an element in common.
pub(crate) struct Order<'a> {
    walk: &'a Walk,
    /// Tiles or pieces to come.
    units: Range<usize>,
    /// Rows of this tile to come.
    rows: Range<usize>,
    tile: Tile,
    stream: Option<Stream>,
}

/// One piece: elements `start..start + len`.
pub struct Piece<'p> {
    pub start: usize,
    pub len: usize,
    /// The tile, and which row of it this is.
    tile: Option<(&'p Tile, usize)>,
    /// How it is written, if not through the caches.
    pub stream: Option<&'p Stream>,
}

impl<'p> Piece<'p> {
    /// Elements of a walk in which pieces come one after the other.
    pub(crate) fn new(start: usize, len: usize, stream: Option<&'p Stream>) -> Self {
        Piece { start, len, tile: None, stream }
    }
}

impl<'a, O: Native> Pieces<'a, O> {
    /// The next piece, and its part of the result.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Piece<'_>, &'a mut [O])> {
        let piece = self.order.next()?;
        // SAFETY: pieces of different numbers, and rows of tiles, do not overlap, and lie in the result.
        let out = unsafe { self.out.part(piece.start, piece.start + piece.len) };
        Some((piece, out))
    }
}

impl Order<'_> {
    /// How pieces are written, if not through the caches.
    pub(crate) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// The next piece.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Piece<'_>> {
        let stream = self.stream.as_ref();
        let Some(tiles) = &self.walk.tiles else {
            let start = self.units.next()? * self.walk.piece;
            let len = self.walk.piece.min(self.walk.len - start);
            return Some(Piece { start, len, tile: None, stream });
        };
        if self.rows.is_empty() {
            self.tile = tiles.at(self.units.next()?);
            self.rows = 0..self.tile.rows;
        }
        let row = self.rows.start;
        let rows = tiles.group.min(self.rows.len());
        self.rows.start += rows;
        let start = self.tile.start + row * tiles.across.out;
        let len = self.tile.columns * rows;
        Some(Piece { start, len, tile: Some((&self.tile, row)), stream })
    }
}

/// Reads an array piece by piece.
pub(crate) struct Reader<'a, T> {
    gather: Gather<'a, T>,
    view: View<'a, T>,
    /// Which of the walk's arrays this is.
    number: usize,
}

/// Where a reader puts what it had to pack.
pub(crate) struct Room<T> {
    values: Vec<T>,
    /// The tile that was packed, and where it begins in the array.
    tile: usize,
    base: isize,
}

impl<T> Room<T> {
    pub(crate) const fn new() -> Self {
        Room { values: Vec::new(), tile: usize::MAX, base: 0 }
    }
}

impl<'a, T: Native> Reader<'a, T> {
    /// A reader of the array of that number, which the walk was made for.
    pub(crate) fn new(view: &View<'a, T>, number: usize) -> Self {
        Reader { gather: Gather::new(view), view: *view, number }
    }

    /// The one value that all elements share, if the view says so.
    pub(crate) fn constant(&self) -> Option<T> {
        self.gather.constant()
    }

    /// The elements of a piece.
    #[inline]
    pub(crate) fn read<'r>(
        &'r self,
        walk: &Walk,
        piece: &Piece<'_>,
        room: &'r mut Room<T>,
    ) -> &'r [T] {
        if let (Some(tiles), Some((tile, row))) = (&walk.tiles, piece.tile) {
            return self.tile(tiles, tile, row, piece.len, room);
        }
        let (start, len) = (piece.start, piece.len);
        if let Some(together) = self.gather.slice(start, len) {
            return together;
        }
        if room.values.len() < len {
            room.values.resize(walk.longest(), T::ZERO);
        }
        self.gather.read(start, &mut room.values[..len]);
        &room.values[..len]
    }

    /// A row of a tile, or several that make up `len` elements.
    fn tile<'r>(
        &'r self,
        tiles: &Tiles,
        tile: &Tile,
        row: usize,
        len: usize,
        room: &'r mut Room<T>,
    ) -> &'r [T] {
        let (across, inner) = (tiles.across.steps[self.number], tiles.inner.steps[self.number]);
        let fresh = room.tile != tile.number;
        if fresh {
            room.tile = tile.number;
            room.base = self.view.offset() as isize
                + tile.row as isize * across
                + tile.column as isize * inner;
            for (i, axis) in tile.index.iter().zip(&tiles.outer) {
                room.base += *i as isize * axis.steps[self.number];
            }
        }
        let (rows, columns) = (tile.rows, tile.columns);
        if inner == 1 && (tiles.group == 1 || across == columns as isize) {
            let at = (room.base + row as isize * across) as usize;
            return &self.view.data()[at..at + len];
        }
        // What is the same in every row is packed once.
        let packed = if across == 0 && tiles.group == 1 { 1 } else { rows };
        if fresh {
            if room.values.len() < rows * columns {
                room.values.resize(tiles.rows * tiles.columns, T::ZERO);
            }
            let to = &mut room.values[..packed * columns];
            // SAFETY: the tile is part of the view.
            unsafe { pack(self.view.data(), room.base, (across, inner), columns, to) };
        }
        let at = if packed == 1 { 0 } else { row * columns };
        &room.values[at..at + len]
    }
}

/// Copies rows of `columns` elements to `to`, one behind the other; `steps` go to the next row and column.
///
/// # Safety
/// The elements must lie in `data`.
unsafe fn pack<T: Native>(
    data: &[T],
    base: isize,
    (across, inner): (isize, isize),
    columns: usize,
    to: &mut [T],
) {
    let rows = to.len() / columns;
    if across.abs() == 1 && rows > 1 {
        let mut start = 0;
        while start < rows {
            let count = most_rows::<T>().min(rows - start);
            // Backwards in the source is from the last row to the first.
            let first = if across < 0 { start + count - 1 } else { start };
            // SAFETY: the rows `start..start + count` lie in `data`, by the caller's promise, and in `to`.
            unsafe {
                transpose::Tile {
                    from: data.as_ptr().offset(base + first as isize * across),
                    from_step: inner,
                    to: to.as_mut_ptr().add(first * columns),
                    to_step: columns as isize * across,
                    rows: count,
                    columns,
                    past: false,
                }
                .run();
            }
            start += count;
        }
        return;
    }
    // Columns by the line, so that those of a source that lies across are used before they are gone.
    let side = if inner.abs() <= across.abs() { columns } else { 16 };
    for start in (0..columns).step_by(side) {
        for (row, to) in to.chunks_mut(columns).enumerate() {
            let to = &mut to[start..columns.min(start + side)];
            let at = base + row as isize * across + start as isize * inner;
            // SAFETY: the caller's promise.
            unsafe {
                match inner {
                    1 => {
                        let from = data.as_ptr().offset(at);
                        std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
                    }
                    0 => to.fill(*data.as_ptr().offset(at)),
                    _ => {
                        for (i, to) in to.iter_mut().enumerate() {
                            *to = *data.as_ptr().offset(at + i as isize * inner);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{NumberFormula, Numbers, choose, map};
    use crate::native::Compute;
    use crate::number::Number;
    use crate::par::with_threads;
    use std::num::Wrapping;

    /// Element by element, by the definition of a view.
    fn slow<T: Copy>(view: &View<'_, T>) -> Vec<T> {
        let at = |mut i: usize| {
            let mut at = view.offset() as isize;
            for (&size, &stride) in view.shape().iter().zip(view.strides()).rev() {
                at += (i % size) as isize * stride;
                i /= size;
            }
            view.data()[at as usize]
        };
        (0..view.len()).map(at).collect()
    }

    /// Strides of an array of that shape whose axes lie in memory in the order `order`, outermost first;
    /// those of which a bit of `flip` is set backwards; and where the first element lies then.
    fn laid_out(shape: &[usize], order: &[usize], gap: usize, flip: usize) -> (usize, Vec<isize>) {
        let (mut strides, mut offset, mut step) = (vec![0; shape.len()], 0, gap);
        for &axis in order.iter().rev() {
            strides[axis] = step as isize;
            if flip >> axis & 1 == 1 {
                offset += step * (shape[axis] - 1);
                strides[axis] = -strides[axis];
            }
            step *= shape[axis];
        }
        (offset, strides)
    }

    #[derive(Clone)]
    struct Difference;

    impl NumberFormula<2> for Difference {
        #[inline(always)]
        fn f<R: Number>(&self, [a, b]: [R; 2]) -> R {
            a - b
        }
    }

    const SHAPES: [&[usize]; 9] = [
        &[70, 65],
        &[5, 1000],
        &[3000, 3],
        &[3, 3000],
        &[64, 64],
        &[300, 257],
        &[9, 40, 33],
        &[33, 9, 40],
        &[4, 6, 36, 34],
    ];

    fn orders(rank: usize) -> Vec<Vec<usize>> {
        let rotated = |by: usize| (0..rank).map(|i| (i + by) % rank).collect::<Vec<_>>();
        let mut all: Vec<_> = (0..rank).map(rotated).collect();
        all.push((0..rank).rev().collect());
        all
    }

    fn differences<T: Compute + PartialEq + std::fmt::Debug>(number: impl Fn(usize) -> T)
    where
        Numbers<Difference>: Block<T::Wide, T::Wide, 2>,
    {
        for shape in SHAPES {
            let len: usize = shape.iter().product();
            let data: Vec<T> = (0..3 * len).map(&number).collect();
            for order in orders(shape.len()) {
                for (gap, flip) in [(1, 0), (1, 1), (1, 2), (2, 3)] {
                    let (offset, strides) = laid_out(shape, &order, gap, flip);
                    let odd = View::new(&data, offset, shape, &strides);
                    let plain: Vec<usize> = (0..shape.len()).collect();
                    let mut even = laid_out(shape, &plain, 1, 0);
                    for repeated in [false, true] {
                        if repeated {
                            even.1[flip % shape.len()] = 0;
                        }
                        let even = View::new(&data, even.0, shape, &even.1);
                        let (a, b) = (slow(&odd), slow(&even));
                        let minus = |(&a, &b): (&T, &T)| {
                            let mut out = [T::Wide::ZERO];
                            let (a, b) = ([a.wide()], [b.wide()]);
                            Numbers(Difference).run([&a, &b], &mut out, None);
                            T::from_wide(out[0])
                        };
                        let want: Vec<T> = a.iter().zip(&b).map(minus).collect();
                        for threads in [1, 3] {
                            let mut out = vec![number(1); len];
                            with_threads(threads, || {
                                map(&Numbers(Difference), [odd, even], &mut out)
                            });
                            assert!(out == want, "{shape:?} in order {order:?}");
                        }
                    }
                }
            }
        }
    }

    use crate::map::Block;

    #[test]
    fn a_formula_gives_the_same_numbers_for_any_layout_size_of_number_and_threads() {
        differences(|i| Wrapping((i % 251) as u8));
        differences(|i| half::bf16::from_f32((i % 127) as f32));
        differences(|i| i as f32);
        differences(|i| i as f64);
    }

    #[test]
    fn a_choice_takes_masks_and_numbers_of_any_layout() {
        for shape in SHAPES {
            let len: usize = shape.iter().product();
            let mask: Vec<u8> = (0..len).map(|i| u8::from(i % 7 < 3)).collect();
            let data: Vec<u32> = (0..len as u32).collect();
            for one in orders(shape.len()) {
                for other in orders(shape.len()) {
                    let (one, other) = (laid_out(shape, &one, 1, 0), laid_out(shape, &other, 1, 1));
                    let mask = View::new(&mask, one.0, shape, &one.1);
                    let a = View::new(&data, other.0, shape, &other.1);
                    let b = View::new(&data, one.0, shape, &one.1);
                    let mut out = vec![u32::MAX; len];
                    choose(mask, a, b, &mut out);
                    let (mask, a, b) = (slow(&mask), slow(&a), slow(&b));
                    for i in 0..len {
                        assert_eq!(out[i], if mask[i] != 0 { a[i] } else { b[i] }, "{shape:?}");
                    }
                }
            }
        }
    }
}
