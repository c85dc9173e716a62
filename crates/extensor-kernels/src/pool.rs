//! Windows that slide over planes: their largest numbers, and their averages.
//!
//! A plane is a matrix of numbers that lies together; each is worked on by itself, in an order of
//! its own, so results do not depend on the number of threads.

use crate::isa::{Kernel, dispatch, dispatch_narrow};
use crate::native::{Compute, Native};
use crate::norm::Wide;
use crate::par::{Shared, parallel_for, share};
use crate::stop;
use std::ops::Range;

/// Where the windows along one axis are.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// The size of the axis.
    pub len: usize,
    /// How many windows there are.
    pub count: usize,
    /// How they follow each other.
    pub kind: Kind,
}

/// How windows follow each other.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `kernel` numbers each, `stride` apart, the first beginning `padding` before the axis.
    Strided {
        /// Numbers in a window, those outside the axis included.
        kernel: usize,
        /// From one window to the next.
        stride: usize,
        /// Numbers before the axis (and after it).
        padding: usize,
        /// From one number of a window to the next. Averages take it as 1.
        dilation: usize,
        /// What an average counts.
        counts: Counts,
    },
    /// As even as possible, covering the axis. `len · (count + 1)` must be countable.
    Even,
}

/// By what the sum of a window is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// By the positions in it, those of the padding included.
    Padded,
    /// By the numbers in it.
    Inside,
    /// By this number.
    Number(usize),
}

impl Windows {
    /// An axis of one number in one window: none, nearly.
    pub fn one() -> Windows {
        Windows::each(1)
    }

    /// A window for each number.
    pub fn each(len: usize) -> Windows {
        let counts = Counts::Padded;
        let kind = Kind::Strided { kernel: 1, stride: 1, padding: 0, dilation: 1, counts };
        Windows { len, count: len, kind }
    }

    /// From one number of a window to the next.
    #[inline(always)]
    pub fn dilation(&self) -> usize {
        match self.kind {
            Kind::Strided { dilation, .. } => dilation,
            Kind::Even => 1,
        }
    }

    /// What lies in a window, from the first number to the last, and how many numbers it counts.
    #[inline(always)]
    pub fn get(&self, window: usize) -> (Range<usize>, usize) {
        match self.kind {
            Kind::Strided { kernel, stride, padding, dilation, counts } => {
                let start = window * stride;
                // From the first position to behind the last.
                let reach = (kernel - 1) * dilation + 1;
                let end = (start + reach).saturating_sub(padding).min(self.len);
                let first = match padding.checked_sub(start) {
                    None | Some(0) => start - padding,
                    // The first that is not before the axis.
                    Some(before) => before.next_multiple_of(dilation) - before,
                };
                let first = first.min(end);
                let count = match counts {
                    // The last windows may reach beyond the padding.
                    Counts::Padded => kernel.min(self.len + 2 * padding - start),
                    Counts::Inside => end - first,
                    Counts::Number(number) => number,
                };
                (first..end, count)
            }
            Kind::Even => {
                let start = window * self.len / self.count;
                let end = ((window + 1) * self.len).div_ceil(self.count);
                (start..end, end - start)
            }
        }
    }

    /// The windows that a position lies in, where they have no gaps.
    #[inline(always)]
    pub fn covering(&self, at: usize) -> Range<usize> {
        match self.kind {
            Kind::Strided { kernel, stride, padding, .. } => {
                let first = (at + padding + 1).saturating_sub(kernel).div_ceil(stride);
                let end = ((at + padding) / stride + 1).min(self.count);
                first.min(end)..end
            }
            Kind::Even => at * self.count / self.len..((at + 1) * self.count).div_ceil(self.len),
        }
    }
}

/// Windows over planes.
#[derive(Clone, Copy, Debug)]
pub struct Planes {
    /// How many planes there are.
    pub count: usize,
    /// The windows over their rows.
    pub rows: Windows,
    /// The windows over their columns.
    pub columns: Windows,
}

/// Numbers that a task takes at a time, nearly.
const TASK: usize = 32 * 1024;
/// At the least.
const LEAST: usize = 4 * 1024;

impl Planes {
    fn input(&self) -> usize {
        self.rows.len * self.columns.len
    }

    fn output(&self) -> usize {
        self.rows.count * self.columns.count
    }

    /// Runs `work(plane)` for all planes, several to a task.
    fn each(&self, work: impl Fn(usize) + Sync) {
        let size = self.input().max(self.output()).max(1);
        let together = (share(self.count.saturating_mul(size), LEAST, TASK) / size).max(1);
        parallel_for(self.count.div_ceil(together), &|task| {
            for plane in task * together..self.count.min((task + 1) * together) {
                work(plane);
            }
        });
    }

    /// Runs `work(plane, from, to)` for all planes of `from` and `to`, in the type of arithmetic.
    fn map<T: Compute>(
        &self,
        from: &[T],
        to: &mut [T],
        work: impl Fn(usize, &[T::Wide], &mut [T::Wide]) + Sync,
    ) {
        if self.count == 0 {
            return;
        }
        let (from_len, to_len) = (from.len() / self.count, to.len() / self.count);
        let to = Shared::new(to);
        self.each(|plane| {
            let from = &from[plane * from_len..(plane + 1) * from_len];
            // SAFETY: every plane is a part of its own.
            let to = unsafe { to.part(plane * to_len, (plane + 1) * to_len) };
            match (T::as_wide(from), T::as_wide_mut(to)) {
                (Some(from), Some(to)) => work(plane, from, to),
                _ => {
                    let mut wide = stop::room(T::Wide::ZERO, from_len);
                    let mut result = stop::room(T::Wide::ZERO, to_len);
                    T::widen(from, &mut wide);
                    work(plane, &wide, &mut result);
                    T::narrow(&result, to);
                }
            }
        });
    }
}

/// The largest number of each window, and where it is in its plane: the first of several, row by
/// row; NaN counts as the largest. Every window must hold a number.
///
/// # Panics
/// If the lengths do not fit.
pub fn maximum<T: Compute>(shape: &Planes, x: &[T], y: &mut [T], indices: &mut [i64])
where
    T::Wide: Wide,
{
    assert_eq!(x.len(), shape.count * shape.input(), "maximum: the number of elements");
    assert!(
        y.len() == shape.count * shape.output() && indices.len() == y.len(),
        "maximum: the number of results"
    );
    let each = shape.output();
    let indices = Shared::new(indices);
    shape.map(x, y, |plane, x, y| {
        // SAFETY: every plane is a part of its own.
        let indices = unsafe { indices.part(plane * each, (plane + 1) * each) };
        let stride = match shape.columns.kind {
            Kind::Strided { stride, .. } => stride,
            Kind::Even => 0,
        };
        let (rows, columns) = (&shape.rows, &shape.columns);
        match stride {
            1 => dispatch_narrow(Maximum::<_, 1> { rows, columns, x, y, indices }),
            2 => dispatch_narrow(Maximum::<_, 2> { rows, columns, x, y, indices }),
            _ => dispatch_narrow(Maximum::<_, 0> { rows, columns, x, y, indices }),
        }
    });
}

/// [`maximum`] of one plane, whose windows are `S` columns apart (0: any number).
struct Maximum<'a, W, const S: usize> {
    rows: &'a Windows,
    columns: &'a Windows,
    x: &'a [W],
    y: &'a mut [W],
    indices: &'a mut [i64],
}

/// Whether `x` comes before the largest so far.
#[inline(always)]
fn beats<W: Wide>(x: W, best: W) -> bool {
    !x.le(best) & best.eq(best)
}

impl<W: Wide, const S: usize> Kernel for Maximum<'_, W, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Maximum { rows, columns, x, y, indices } = self;
        let (width, count) = (columns.len, columns.count);
        let inside = inside::<S>(columns, rows);
        let mut row = 0;
        while row < rows.count {
            let (lines, _) = rows.get(row);
            let y = &mut y[row * count..(row + 1) * count];
            let indices = &mut indices[row * count..(row + 1) * count];
            let mut window = 0;
            while window < count {
                if window == inside.start && !inside.is_empty() {
                    window = inside.end;
                    continue;
                }
                let (across, _) = columns.get(window);
                let steps = [rows.dilation(), columns.dilation()];
                let (best, index) = one_window(x, width, lines.clone(), across, steps);
                y[window] = best;
                indices[window] = index as i64;
                window += 1;
            }
            if !inside.is_empty() {
                let first = columns.get(inside.start).0;
                let (y, indices) = (&mut y[inside.clone()], &mut indices[inside.clone()]);
                if y.len() < MANY {
                    many_windows::<W, S, FEW>(x, width, lines, first, y, indices);
                } else {
                    many_windows::<W, S, MANY>(x, width, lines, first, y, indices);
                }
            }
            row += 1;
        }
    }
}

/// The windows that lie inside the columns altogether, if they are worth looking at together.
#[inline(always)]
fn inside<const S: usize>(columns: &Windows, rows: &Windows) -> Range<usize> {
    let Kind::Strided { kernel, stride, padding, .. } = columns.kind else { return 0..0 };
    let tall = match rows.kind {
        Kind::Strided { kernel, .. } => kernel.min(rows.len),
        Kind::Even => rows.len,
    };
    // Positions in a window are counted in 32 bits, and lie side by side.
    if S == 0
        || rows.dilation() != 1
        || columns.dilation() != 1
        || columns.len < kernel
        || tall.saturating_mul(columns.len) > i32::MAX as usize
    {
        return 0..0;
    }
    let first = padding.div_ceil(stride);
    let end = ((columns.len + padding - kernel) / stride + 1).min(columns.count);
    if first + FEW <= end { first..end } else { 0..0 }
}

/// The largest number of one window and its index. Its lines and columns are these steps apart.
#[inline(always)]
fn one_window<W: Wide>(
    x: &[W],
    width: usize,
    lines: Range<usize>,
    across: Range<usize>,
    [down, right]: [usize; 2],
) -> (W, usize) {
    let mut index = lines.start * width + across.start;
    let mut best = x[index];
    let mut line = lines.start;
    while line < lines.end {
        let mut at = line * width + across.start;
        while at < line * width + across.end {
            if beats(x[at], best) {
                (best, index) = (x[at], at);
            }
            at += right;
        }
        line += down;
    }
    (best, index)
}

/// Windows that are looked at together: as many as a register of 256 bits holds of `f32`, and half of
/// it.
const MANY: usize = 8;
const FEW: usize = 4;

/// The largest numbers of windows side by side, `S` columns apart, the first of which is `first`, and where
/// they lie: `N` at a time, the last of which are some that were looked at before where there are not as
/// many left. There must be so many.
#[inline(always)]
fn many_windows<W: Wide, const S: usize, const N: usize>(
    x: &[W],
    width: usize,
    lines: Range<usize>,
    first: Range<usize>,
    y: &mut [W],
    indices: &mut [i64],
) {
    let last = y.len() - N;
    let mut window = 0;
    loop {
        let start = lines.start * width + first.start + window * S;
        let (best, offsets) = together::<W, S, N>(&x[start..], width, lines.len(), first.len());
        y[window..window + N].copy_from_slice(&best);
        let indices = &mut indices[window..window + N];
        let mut i = 0;
        while i < N {
            indices[i] = (start + i * S) as i64 + i64::from(offsets[i]);
            i += 1;
        }
        if window == last {
            return;
        }
        window = (window + N).min(last);
    }
}

/// The largest numbers of windows of `tall` lines of `wide` numbers, the first of which begins where `x`
/// does, and how far from the beginning of each they lie.
#[inline(always)]
fn together<W: Wide, const S: usize, const N: usize>(
    x: &[W],
    width: usize,
    tall: usize,
    wide: usize,
) -> ([W; N], [i32; N]) {
    let (mut best, mut offsets) = (every::<W, S, N>(x), [0; N]);
    let mut line = 0;
    while line < tall {
        let mut across = usize::from(line == 0);
        while across < wide {
            let at = line * width + across;
            let new = every::<W, S, N>(&x[at..]);
            let mut i = 0;
            while i < N {
                let better = beats(new[i], best[i]);
                offsets[i] = if better { at as i32 } else { offsets[i] };
                best[i] = if better { new[i] } else { best[i] };
                i += 1;
            }
            across += 1;
        }
        line += 1;
    }
    (best, offsets)
}

/// Every `S`-th number, the first included: of one or of two.
#[inline(always)]
fn every<W: Copy, const S: usize, const N: usize>(x: &[W]) -> [W; N] {
    let x = &x[..(N - 1) * S + 1];
    // Loads of neighbours, which the compiler makes one of.
    let (low, high) = (&x[..N], &x[x.len() - N..]);
    let skipped = x.len() - N;
    std::array::from_fn(|i| if i * S < N { low[i * S] } else { high[i * S - skipped] })
}

/// Adds each gradient to the element that its window's largest number came from, in their order.
/// All indices must be within the plane.
///
/// # Panics
/// If the lengths do not fit, or an index is outside its plane.
pub fn maximum_backward<T: Compute>(shape: &Planes, g: &[T], indices: &[i64], dx: &mut [T])
where
    T::Wide: Wide,
{
    assert!(
        g.len() == shape.count * shape.output() && indices.len() == g.len(),
        "maximum_backward: the number of gradients"
    );
    assert_eq!(dx.len(), shape.count * shape.input(), "maximum_backward: the number of elements");
    let each = shape.output();
    shape.map(g, dx, |plane, g, dx| {
        let indices = &indices[plane * each..(plane + 1) * each];
        dx.fill(T::Wide::ZERO);
        for (g, &index) in g.iter().zip(indices) {
            let dx = &mut dx[index as usize];
            *dx = *dx + *g;
        }
    });
}

/// The average of each window: its sum over the number of positions it counts.
///
/// # Panics
/// If the lengths do not fit.
pub fn average<T: Compute>(shape: &Planes, x: &[T], y: &mut [T])
where
    T::Wide: Wide,
{
    assert_eq!(x.len(), shape.count * shape.input(), "average: the number of elements");
    assert_eq!(y.len(), shape.count * shape.output(), "average: the number of results");
    shape.map(x, y, |_, x, y| {
        dispatch(Average { rows: &shape.rows, columns: &shape.columns, x, y });
    });
}

struct Average<'a, W> {
    rows: &'a Windows,
    columns: &'a Windows,
    x: &'a [W],
    y: &'a mut [W],
}

impl<W: Wide> Kernel for Average<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Average { rows, columns, x, y } = self;
        let (width, count) = (columns.len, columns.count);
        let mut sums = stop::room(0.0f64, width);
        let mut row = 0;
        while row < rows.count {
            let (lines, tall) = rows.get(row);
            sums.fill(0.0);
            let mut line = lines.start;
            while line < lines.end {
                let x = &x[line * width..(line + 1) * width];
                let mut i = 0;
                while i < width {
                    let x: f64 = x[i].into();
                    sums[i] += x;
                    i += 1;
                }
                line += 1;
            }
            let y = &mut y[row * count..(row + 1) * count];
            let mut window = 0;
            while window < count {
                let (across, wide) = columns.get(window);
                let mut sum = 0.0;
                for part in &sums[across] {
                    sum += part;
                }
                y[window] = W::of(sum / (tall as f64 * wide as f64));
                window += 1;
            }
            row += 1;
        }
    }
}

/// The gradients of [`average`]: each window's over all that lies in it.
///
/// # Panics
/// If the lengths do not fit.
pub fn average_backward<T: Compute>(shape: &Planes, g: &[T], dx: &mut [T])
where
    T::Wide: Wide,
{
    assert_eq!(g.len(), shape.count * shape.output(), "average_backward: the number of gradients");
    assert_eq!(dx.len(), shape.count * shape.input(), "average_backward: the number of elements");
    shape.map(g, dx, |_, g, dx| {
        dispatch(AverageBackward { rows: &shape.rows, columns: &shape.columns, g, dx });
    });
}

struct AverageBackward<'a, W> {
    rows: &'a Windows,
    columns: &'a Windows,
    g: &'a [W],
    dx: &'a mut [W],
}

impl<W: Wide> Kernel for AverageBackward<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AverageBackward { rows, columns, g, dx } = self;
        let (width, count) = (columns.len, columns.count);
        let (mut sums, mut line) = (stop::room(0.0f64, count), stop::room(0.0f64, width));
        let mut at = 0;
        while at < rows.len {
            sums.fill(0.0);
            let covering = rows.covering(at);
            let mut row = covering.start;
            while row < covering.end {
                let tall = rows.get(row).1 as f64;
                let g = &g[row * count..(row + 1) * count];
                let mut i = 0;
                while i < count {
                    let g: f64 = g[i].into();
                    sums[i] += g / tall;
                    i += 1;
                }
                row += 1;
            }
            line.fill(0.0);
            let mut window = 0;
            while window < count {
                let (across, wide) = columns.get(window);
                let part = sums[window] / wide as f64;
                for total in &mut line[across] {
                    *total += part;
                }
                window += 1;
            }
            let dx = &mut dx[at * width..(at + 1) * width];
            let mut i = 0;
            while i < width {
                dx[i] = W::of(line[i]);
                i += 1;
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_covers_the_places_that_it_holds_and_no_others() {
        let counts = Counts::Padded;
        let strided = |kernel, stride, padding| Kind::Strided {
            kernel,
            stride,
            padding,
            dilation: 1,
            counts,
        };
        let kinds = [strided(2, 2, 0), strided(3, 2, 1), strided(3, 1, 1), strided(2, 5, 1)];
        for len in 1..12 {
            for kind in kinds.into_iter().chain([Kind::Even; 7]) {
                for even in 1..9 {
                    let count = match kind {
                        Kind::Strided { kernel, stride, padding, .. } => {
                            if len + 2 * padding < kernel {
                                continue;
                            }
                            (len + 2 * padding - kernel) / stride + 1
                        }
                        Kind::Even => even,
                    };
                    let windows = Windows { len, count, kind };
                    for at in 0..len {
                        let covering = windows.covering(at);
                        for window in 0..count {
                            let holds = windows.get(window).0.contains(&at);
                            let covered = covering.contains(&window);
                            assert_eq!(holds, covered, "{windows:?}, {window}, {at}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_window_with_gaps_holds_every_so_manyth_place() {
        for (len, kernel, stride, padding, dilation) in
            [(9, 3, 2, 2, 2), (10, 2, 1, 2, 4), (12, 3, 3, 3, 3), (7, 1, 2, 0, 5)]
        {
            for counts in [Counts::Padded, Counts::Inside, Counts::Number(7)] {
                let reach = (kernel - 1) * dilation + 1;
                let count = (len + 2 * padding - reach) / stride + 1;
                let kind = Kind::Strided { kernel, stride, padding, dilation, counts };
                let windows = Windows { len, count, kind };
                for window in 0..count {
                    let places = (0..kernel).map(|t| window * stride + t * dilation);
                    let wanted: Vec<usize> = places
                        .filter_map(|at| at.checked_sub(padding).filter(|&at| at < len))
                        .collect();
                    let (range, _) = windows.get(window);
                    assert_eq!(range.step_by(dilation).collect::<Vec<_>>(), wanted, "{windows:?}");
                }
            }
        }
    }
}
