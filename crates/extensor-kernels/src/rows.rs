//! Work on rows: numbers that are looked at together, one row after the other.
//!
//! A softmax, a normalisation, a loss over classes: each reads a row or a few, several times while
//! they are in the first cache, and writes others. This module widens reduced precisions, shares
//! rows among threads and has the work compiled for each instruction set. It must not know what is
//! done to a row.

use crate::array::each;
use crate::isa::{Kernel, dispatch};
use crate::native::{Compute, Native};
use crate::par::{Shared, parallel_for, share};
use crate::stop;
use crate::stream::{self, Sink, Stream};

/// What is done to one row.
pub trait Row<W, const I: usize, const O: usize>: Sync {
    /// Computes the rows `y` from the rows `x`, which are number `row` of their arrays. It and all
    /// it calls must be `#[inline(always)]`; loops over plain indices vectorise best. `sink` may be
    /// told how much of the first of `y` is final.
    fn run(&self, row: usize, x: [&[W]; I], y: [&mut [W]; O], sink: &mut Sink<'_, W>);
}

/// Numbers that a task takes at a time, nearly.
const CHUNK: usize = 32 * 1024;
/// At the least.
const LEAST: usize = 4 * 1024;
/// Numbers that are made before they are written past the caches, nearly.
const MADE: usize = 256;
/// Numbers of a row that is not too long to be made in the first cache and copied from there.
const LONG: usize = 4 * 1024;

/// Runs `kernel` for each of `count` rows. An array may have rows of any length, its own length
/// over `count`: of 1 where a row becomes a number.
///
/// # Panics
/// If an array's length is not a multiple of `count`.
#[inline]
pub fn rows<T, K, const I: usize, const O: usize>(
    kernel: &K,
    count: usize,
    x: [&[T]; I],
    y: [&mut [T]; O],
) where
    T: Compute,
    K: Row<T::Wide, I, O>,
{
    all_rows(kernel, count, x, y);
}

/// Work on several rows, compiled for each instruction set: all that a kind of work adds to what is
/// compiled once for all of them.
trait Rows<W, const I: usize, const O: usize>: Sync {
    /// `sink` is the first result's, if there is one row.
    fn run(
        &self,
        first: usize,
        count: usize,
        x: [&[W]; I],
        y: [&mut [W]; O],
        sink: &mut Sink<'_, W>,
    );
}

impl<W, K: Row<W, I, O>, const I: usize, const O: usize> Rows<W, I, O> for K {
    fn run(
        &self,
        first: usize,
        count: usize,
        x: [&[W]; I],
        y: [&mut [W]; O],
        sink: &mut Sink<'_, W>,
    ) {
        dispatch(Chunk { kernel: self, first, count, x, y, sink });
    }
}

fn all_rows<T: Compute, const I: usize, const O: usize>(
    kernel: &dyn Rows<T::Wide, I, O>,
    count: usize,
    x: [&[T]; I],
    y: [&mut [T]; O],
) {
    if count == 0 {
        return;
    }
    let length = |len: usize| {
        assert!(len.is_multiple_of(count), "rows: {len} numbers are not {count} rows");
        len / count
    };
    let x_len = each(x, |x| length(x.len()));
    let y_len = each(y.each_ref(), |y| length(y.len()));
    let longest = x_len.iter().chain(&y_len).copied().max().unwrap_or(1).max(1);
    let together = (share(count.saturating_mul(longest), LEAST, CHUNK) / longest).max(1);
    let bytes: usize = y.iter().map(|y| size_of_val(*y)).sum();
    let streamed = bytes >= stream::FROM && longest <= LONG;
    let y = each(y, |y| Shared::new(y));
    let task = |task: usize| {
        let (first, end) = (task * together, count.min((task + 1) * together));
        let mut inputs: [&[T]; I] = [&[]; I];
        for k in 0..I {
            inputs[k] = &x[k][first * x_len[k]..end * x_len[k]];
        }
        let mut at = 0..;
        let outputs = each(y.each_ref(), |y| {
            let len = y_len[at.next().unwrap_or(0)];
            // SAFETY: the rows `first..end` lie in the arrays, and no other task has them.
            unsafe { y.part(first * len, end * len) }
        });
        chunk::<T, I, O>(kernel, first, end - first, inputs, outputs, streamed);
    };
    let tasks = count.div_ceil(together);
    if tasks == 1 { task(0) } else { parallel_for(tasks, &task) }
}

/// [`rows`] for the `count` rows from `first` on, which the arrays hold.
fn chunk<T: Compute, const I: usize, const O: usize>(
    kernel: &dyn Rows<T::Wide, I, O>,
    first: usize,
    count: usize,
    x: [&[T]; I],
    mut y: [&mut [T]; O],
    streamed: bool,
) {
    let mut x_wide: [&[T::Wide]; I] = [&[]; I];
    let direct =
        x.iter().zip(&mut x_wide).all(|(x, wide)| T::as_wide(x).map(|x| *wide = x).is_some());
    let direct = direct && y.iter_mut().all(|y| T::as_wide_mut(y).is_some());
    if direct && !streamed {
        let y = each(y, |y| T::as_wide_mut(y).unwrap_or(&mut []));
        return kernel.run(first, count, x_wide, y, &mut Sink::none());
    }
    if direct {
        return stream_chunk::<T, I, O>(kernel, first, count, x_wide, y);
    }
    let mut x_room = each(x, |x| stop::room(T::Wide::ZERO, x.len() / count));
    let mut y_room = each(y.each_ref(), |y| stop::room(T::Wide::ZERO, y.len() / count));
    for row in 0..count {
        for (room, x) in x_room.iter_mut().zip(&x) {
            let len = room.len();
            T::widen(&x[row * len..(row + 1) * len], room);
        }
        let inputs = each(x_room.each_ref(), |x| &x[..]);
        let outputs = each(y_room.each_mut(), |y| &mut y[..]);
        kernel.run(first + row, 1, inputs, outputs, &mut Sink::none());
        for (room, y) in y_room.iter().zip(&mut y) {
            let len = room.len();
            T::narrow(room, &mut y[row * len..(row + 1) * len]);
        }
    }
}

/// [`chunk`] for more results than the caches hold.
fn stream_chunk<T: Compute, const I: usize, const O: usize>(
    kernel: &dyn Rows<T::Wide, I, O>,
    first: usize,
    count: usize,
    x: [&[T::Wide]; I],
    y: [&mut [T]; O],
) {
    let mut y = each(y, |y| T::as_wide_mut(y).unwrap_or(&mut []));
    let length = |rows: &[T::Wide]| rows.len() / count;
    let longest = y.iter().map(|y| length(y)).max().unwrap_or(1).max(1);
    let together = (MADE / longest).max(1);
    let mut room = each(y.each_ref(), |y| stream::room::<T::Wide>(length(y) * together));
    let mut room = each(room.each_mut(), |room| room.as_mut_slice::<T::Wide>());
    let stream = Stream::new();
    let mut row = 0;
    while row < count {
        let some = together.min(count - row);
        let part = |len: usize| row * len..(row + some) * len;
        let inputs = each(x, |x| &x[part(x.len() / count)]);
        let outputs = each(room.each_mut(), |room| {
            let len = room.len() / together * some;
            &mut room[..len]
        });
        let mut sinks = each(y.each_mut(), |y| {
            let len = y.len() / count;
            Sink::new(&stream, &mut y[part(len)])
        });
        match &mut sinks[..] {
            [sink, ..] if some == 1 => kernel.run(first + row, 1, inputs, outputs, sink),
            _ => kernel.run(first + row, some, inputs, outputs, &mut Sink::none()),
        }
        for (sink, room) in sinks.iter_mut().zip(&room) {
            sink.ready(room, room.len() / together * some);
        }
        row += some;
    }
}

struct Chunk<'a, 'b, W, K, const I: usize, const O: usize> {
    kernel: &'a K,
    first: usize,
    count: usize,
    x: [&'a [W]; I],
    y: [&'a mut [W]; O],
    sink: &'a mut Sink<'b, W>,
}

impl<W, K: Row<W, I, O>, const I: usize, const O: usize> Kernel for Chunk<'_, '_, W, K, I, O> {
    type Output = ();
    #[inline(always)]
    fn run(mut self) {
        for row in 0..self.count {
            let mut x: [&[W]; I] = [&[]; I];
            let mut k = 0;
            while k < I {
                let len = self.x[k].len() / self.count;
                x[k] = &self.x[k][row * len..(row + 1) * len];
                k += 1;
            }
            let count = self.count;
            let y = self.y.each_mut().map(
                #[inline(always)]
                |y| {
                    let len = y.len() / count;
                    &mut y[row * len..(row + 1) * len]
                },
            );
            self.kernel.run(self.first + row, x, y, self.sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par::with_threads;
    use half::f16;

    /// A row less its largest number, and that number.
    struct Below;

    impl<W: Compute<Wide = W> + PartialOrd + std::ops::Sub<Output = W>> Row<W, 1, 2> for Below {
        #[inline(always)]
        fn run(&self, _: usize, [x]: [&[W]; 1], [y, top]: [&mut [W]; 2], sink: &mut Sink<'_, W>) {
            let mut largest = x[0];
            for &v in x {
                largest = if v > largest { v } else { largest };
            }
            for i in 0..x.len() {
                y[i] = x[i] - largest;
                if i % 100 == 99 {
                    sink.ready(y, i + 1);
                }
            }
            top[0] = largest;
        }
    }

    #[test]
    fn every_row_is_seen_once_in_every_precision_and_on_any_number_of_threads() {
        for (count, len) in [(0, 3), (1, 1), (3, 7), (1000, 100), (2, 100_000), (3000, 1000)] {
            let x: Vec<f32> = (0..count * len).map(|i| (i * 37 % 1024) as f32).collect();
            let (mut want, mut tops) = (vec![0.0; x.len()], vec![0.0; count]);
            for row in 0..count {
                let part = &x[row * len..(row + 1) * len];
                tops[row] = part.iter().copied().fold(f32::MIN, f32::max);
                for i in 0..len {
                    want[row * len + i] = part[i] - tops[row];
                }
            }
            for threads in [1, 3] {
                with_threads(threads, || {
                    let (mut y, mut top) = (vec![1.0; x.len()], vec![1.0; count]);
                    rows(&Below, count, [&x[..]], [&mut y[..], &mut top[..]]);
                    assert!(y == want && top == tops);
                    let half: Vec<f16> = x.iter().map(|&v| f16::from_f32(v)).collect();
                    let mut y = vec![f16::ZERO; x.len()];
                    let mut top = vec![f16::ZERO; count];
                    rows(&Below, count, [&half[..]], [&mut y[..], &mut top[..]]);
                    assert!(y.iter().zip(&want).all(|(a, b)| a.to_f32() == *b));
                    assert!(top.iter().zip(&tops).all(|(a, b)| a.to_f32() == *b));
                });
            }
        }
    }
}
