//! Arrays brought to other sizes: numbers that are weighted sums of a few others along an axis.
//!
//! Which ones, and how much each counts, is a [`Table`] for each axis; the gradient is the same with the
//! tables transposed. Every number is summed in the table's order, one task for each part of a result, so
//! that results do not depend on the number of threads.

use crate::isa::{Kernel, dispatch};
use crate::native::{Compute, Native};
use crate::norm::Wide;
use crate::par::{Shared, parallel_for, share};
use crate::stop;
use std::fmt;
use std::ops::Range;

/// For each position along an axis of a result, the positions that it is made of and their weights.
#[derive(Clone, PartialEq)]
pub struct Table {
    /// The size of the axis that is read.
    from: usize,
    /// Where in `at` and `weights` each position's begin; one more than there are positions.
    starts: Vec<usize>,
    at: Vec<usize>,
    weights: Vec<f64>,
}

/// As kernels are explained: the sizes alone.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} by {} weights", self.len(), self.from, self.at.len())
    }
}

impl Table {
    /// A table without rows, of an axis of `from` numbers.
    pub fn new(from: usize) -> Table {
        Table { from, starts: vec![0], at: Vec::new(), weights: Vec::new() }
    }

    /// Adds a position that is made of these, in this order. What is named twice is read once, and what
    /// counts nothing is not read: it may be infinite.
    ///
    /// # Panics
    /// If the axis has no such number.
    pub fn push(&mut self, taps: impl IntoIterator<Item = (usize, f64)>) {
        let start = self.at.len();
        for (at, weight) in taps {
            assert!(at < self.from, "a table of an axis of {}: {at}", self.from);
            match self.at[start..].iter().position(|&other| other == at) {
                Some(known) => self.weights[start + known] += weight,
                None => {
                    self.at.push(at);
                    self.weights.push(weight);
                }
            }
        }
        let mut kept = start;
        for k in start..self.at.len() {
            if self.weights[k] != 0.0 {
                (self.at[kept], self.weights[kept]) = (self.at[k], self.weights[k]);
                kept += 1;
            }
        }
        self.at.truncate(kept);
        self.weights.truncate(kept);
        self.starts.push(kept);
    }

    /// The size of the axis of the result.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether the result has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same weights seen from the other side.
    #[must_use]
    pub fn transposed(&self) -> Table {
        let mut starts = vec![0; self.from + 1];
        for &at in &self.at {
            starts[at + 1] += 1;
        }
        for k in 0..self.from {
            starts[k + 1] += starts[k];
        }
        let mut next = starts.clone();
        let (mut at, mut weights) = (vec![0; self.at.len()], vec![0.0; self.at.len()]);
        for row in 0..self.len() {
            for k in self.starts[row]..self.starts[row + 1] {
                let to = &mut next[self.at[k]];
                (at[*to], weights[*to]) = (row, self.weights[k]);
                *to += 1;
            }
        }
        Table { from: self.len(), starts, at, weights }
    }

    /// The positions that some of the result are made of lie between these.
    fn reads(&self, rows: &Range<usize>) -> Range<usize> {
        let at = &self.at[self.starts[rows.start]..self.starts[rows.end]];
        let first = at.iter().min().copied().unwrap_or(0);
        first..at.iter().max().map_or(first, |&last| last + 1)
    }
}

/// What becomes of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Along {
    /// Nothing: it has this size.
    Same(usize),
    /// It is brought to another size.
    Table(Table),
}

impl Along {
    fn from(&self) -> usize {
        match self {
            Along::Same(size) => *size,
            Along::Table(table) => table.from,
        }
    }

    /// The size of the result's axis.
    fn to(&self) -> usize {
        match self {
            Along::Same(size) => *size,
            Along::Table(table) => table.len(),
        }
    }

    /// The way back.
    #[must_use]
    pub fn transposed(&self) -> Along {
        match self {
            Along::Same(size) => Along::Same(*size),
            Along::Table(table) => Along::Table(table.transposed()),
        }
    }
}

/// Numbers that a task takes at a time, nearly.
const TASK: usize = 32 * 1024;
/// At the least.
const LEAST: usize = 4 * 1024;
/// Rows of a result that are computed together, at least: they share those that they read.
const ROWS: usize = 8;

/// Planes, row by row, of which both axes are brought to other sizes.
///
/// # Panics
/// If the lengths do not fit.
pub fn resample<T: Compute>(planes: usize, rows: &Along, columns: &Along, x: &[T], y: &mut [T])
where
    T::Wide: Wide,
{
    let (from, to) = (rows.from() * columns.from(), rows.to() * columns.to());
    assert!(x.len() == planes * from && y.len() == planes * to, "resample: a length");
    if y.is_empty() {
        return;
    }
    let (rows, columns) = (&Ready::new(rows), &Ready::new(columns));
    let size = from.max(to);
    let at_a_time = share(planes.saturating_mul(size), LEAST, TASK);
    let together = (at_a_time / size).max(1);
    let most = rows.to.div_ceil(ROWS);
    let bands = if together > 1 { 1 } else { size.div_ceil(at_a_time).clamp(1, most) };
    let each = rows.to.div_ceil(bands);
    let bands = rows.to.div_ceil(each);
    let y = Shared::new(y);
    parallel_for(planes.div_ceil(together) * bands, &|task| {
        let (first, band) = (task / bands * together, task % bands);
        let band = band * each..rows.to.min((band + 1) * each);
        let reads = rows.reads(&band);
        for plane in first..planes.min(first + together) {
            let x = &x[plane * from..][reads.start * columns.from..reads.end * columns.from];
            let at = plane * to + band.start * columns.to;
            // SAFETY: every band of every plane is a part of its own.
            let y = unsafe { y.part(at, at + band.len() * columns.to) };
            let base = reads.start;
            let band = band.clone();
            if let (Some(x), Some(y)) = (T::as_wide(x), T::as_wide_mut(y)) {
                dispatch(Band { rows, columns, band, base, x, y });
                continue;
            }
            let mut wide = stop::room(T::Wide::ZERO, x.len());
            let mut result = stop::room(T::Wide::ZERO, y.len());
            T::widen(x, &mut wide);
            dispatch(Band { rows, columns, band, base, x: &wide, y: &mut result });
            T::narrow(&result, y);
        }
    });
}

/// A table with weights of the type that is computed in.
struct Ready<'a, W> {
    from: usize,
    to: usize,
    table: Option<&'a Table>,
    weights: Vec<W>,
    /// Positions all of which are made of [`taps`](Self::taps) others.
    even: Range<usize>,
    taps: usize,
}

impl<'a, W: Wide> Ready<'a, W> {
    fn new(along: &'a Along) -> Ready<'a, W> {
        let (from, to) = (along.from(), along.to());
        let Along::Table(table) = along else {
            return Ready { from, to, table: None, weights: Vec::new(), even: 0..0, taps: 0 };
        };
        let weights = table.weights.iter().map(|&weight| W::of(weight)).collect();
        let taps = |row: usize| table.starts[row + 1] - table.starts[row];
        // At the edges there are fewer than in the middle.
        let middle = to / 2;
        let mut even = middle..middle;
        if to > 0 {
            while even.end < to && taps(even.end) == taps(middle) {
                even.end += 1;
            }
            while even.start > 0 && taps(even.start - 1) == taps(middle) {
                even.start -= 1;
            }
        }
        let taps = if to > 0 { taps(middle) } else { 0 };
        Ready { from, to, table: Some(table), weights, even, taps }
    }

    fn reads(&self, rows: &Range<usize>) -> Range<usize> {
        self.table.map_or_else(|| rows.clone(), |table| table.reads(rows))
    }

    /// The weighted sum of lines of `x`, which begins with line `base`, that make line `row` of a
    /// result.
    #[inline(always)]
    fn combine(&self, row: usize, x: &[W], base: usize, y: &mut [W]) {
        let width = y.len();
        let Some(table) = self.table else {
            y.copy_from_slice(&x[(row - base) * width..][..width]);
            return;
        };
        let (start, end) = (table.starts[row], table.starts[row + 1]);
        let (at, weights) = (&table.at[start..end], &self.weights[start..end]);
        let line = |k: usize| &x[(at[k] - base) * width..][..width];
        let one = W::of(1.0);
        match *weights {
            [] => y.fill(W::ZERO),
            [weight] if weight.eq(one) => y.copy_from_slice(line(0)),
            [weight] => {
                let x = line(0);
                let mut i = 0;
                while i < width {
                    y[i] = weight * x[i];
                    i += 1;
                }
            }
            [first, second, ..] => {
                let (a, b) = (line(0), line(1));
                let mut i = 0;
                while i < width {
                    y[i] = second.mul_add(b[i], first * a[i]);
                    i += 1;
                }
                let mut k = 2;
                while k < weights.len() {
                    let (weight, x) = (weights[k], line(k));
                    let mut i = 0;
                    while i < width {
                        y[i] = weight.mul_add(x[i], y[i]);
                        i += 1;
                    }
                    k += 1;
                }
            }
        }
    }

    /// A line of a result from the line that it is made of.
    #[inline(always)]
    fn gather(&self, x: &[W], y: &mut [W]) {
        let Some(table) = self.table else {
            y.copy_from_slice(x);
            return;
        };
        self.some(table, x, y, 0..self.even.start);
        match self.taps {
            1 => self.many::<1>(table, x, y),
            2 => self.many::<2>(table, x, y),
            3 => self.many::<3>(table, x, y),
            4 => self.many::<4>(table, x, y),
            _ => self.some(table, x, y, self.even.clone()),
        }
        self.some(table, x, y, self.even.end..self.to);
    }

    #[inline(always)]
    fn some(&self, table: &Table, x: &[W], y: &mut [W], positions: Range<usize>) {
        let mut j = positions.start;
        while j < positions.end {
            let mut k = table.starts[j];
            let end = table.starts[j + 1];
            let mut sum = W::ZERO;
            if k < end {
                sum = self.weights[k] * x[table.at[k]];
                k += 1;
            }
            while k < end {
                sum = self.weights[k].mul_add(x[table.at[k]], sum);
                k += 1;
            }
            y[j] = sum;
            j += 1;
        }
    }

    /// Positions that are all made of `N` others.
    #[inline(always)]
    fn many<const N: usize>(&self, table: &Table, x: &[W], y: &mut [W]) {
        let (start, len) = (table.starts[self.even.start], self.even.len());
        let (at, weights) = (&table.at[start..][..len * N], &self.weights[start..][..len * N]);
        let y = &mut y[self.even.clone()];
        let mut j = 0;
        while j < len {
            let mut sum = weights[j * N] * x[at[j * N]];
            let mut k = 1;
            while k < N {
                sum = weights[j * N + k].mul_add(x[at[j * N + k]], sum);
                k += 1;
            }
            y[j] = sum;
            j += 1;
        }
    }
}

/// Some rows of a result, from those that they are made of, the first of which is `base`.
struct Band<'a, W> {
    rows: &'a Ready<'a, W>,
    columns: &'a Ready<'a, W>,
    band: Range<usize>,
    base: usize,
    x: &'a [W],
    y: &'a mut [W],
}

impl<W: Wide> Kernel for Band<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Band { rows, columns, band, base, x, y } = self;
        let (from, to) = (columns.from, columns.to);
        let lines = x.len().checked_div(from).unwrap_or(0);
        // Along rows numbers are computed one at a time: of the fewer rows.
        let first = rows.table.is_some() && (columns.table.is_none() || rows.to < rows.from);
        let aside = match (first, columns.table.is_some()) {
            (true, true) => from,
            (false, true) if rows.table.is_some() => lines * to,
            _ => 0,
        };
        let mut aside = stop::room(W::ZERO, aside);
        if !first && rows.table.is_some() {
            let mut line = 0;
            while line < lines {
                columns.gather(&x[line * from..][..from], &mut aside[line * to..][..to]);
                line += 1;
            }
        }
        let mut row = band.start;
        while row < band.end {
            let y = &mut y[(row - band.start) * to..][..to];
            if columns.table.is_none() {
                rows.combine(row, x, base, y);
            } else if rows.table.is_none() {
                columns.gather(&x[(row - base) * from..][..from], y);
            } else if first {
                rows.combine(row, x, base, &mut aside);
                columns.gather(&aside, y);
            } else {
                rows.combine(row, &aside, base, y);
            }
            row += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par::with_threads;

    fn table(from: usize, rows: &[&[(usize, f64)]]) -> Table {
        let mut table = Table::new(from);
        rows.iter().for_each(|row| table.push(row.iter().copied()));
        table
    }

    fn dense(table: &Table) -> Vec<Vec<f64>> {
        let row = |j: usize| {
            let mut row = vec![0.0; table.from];
            let taps = table.starts[j]..table.starts[j + 1];
            taps.for_each(|k| row[table.at[k]] += table.weights[k]);
            row
        };
        (0..table.len()).map(row).collect()
    }

    #[test]
    fn a_transposed_table_has_the_same_weights_from_the_other_side() {
        let table =
            table(4, &[&[(0, 0.5), (1, 0.25)], &[], &[(3, 2.0), (3, -1.0)], &[(1, 0.0), (2, 1.0)]]);
        let (there, back) = (dense(&table), dense(&table.transposed()));
        assert_eq!(there[2], [0.0, 0.0, 0.0, 1.0]);
        for (i, row) in back.iter().enumerate() {
            for (j, &weight) in row.iter().enumerate() {
                assert_eq!(weight, there[j][i]);
            }
        }
        assert_eq!(table.transposed().transposed(), table);
    }

    #[test]
    fn planes_of_any_size_are_the_product_with_both_tables() {
        let linear = |from: usize, to: usize| {
            let mut table = Table::new(from);
            for j in 0..to {
                let at = j as f64 * (from - 1) as f64 / (to.max(2) - 1) as f64;
                let low = (at as usize).min(from - 1);
                table.push([(low, 1.0 - at.fract()), ((low + 1).min(from - 1), at.fract())]);
            }
            table
        };
        for [h, w, oh, ow] in [[3, 4, 7, 9], [40, 30, 11, 80], [1, 5, 3, 2], [90, 70, 200, 3]] {
            for kinds in 1..4 {
                let (rows, columns) = (linear(h, oh), linear(w, ow));
                let rows = if kinds & 1 > 0 { Along::Table(rows) } else { Along::Same(h) };
                let columns = if kinds & 2 > 0 { Along::Table(columns) } else { Along::Same(w) };
                for (rows, columns) in
                    [(rows.clone(), columns.clone()), (rows.transposed(), columns.transposed())]
                {
                    let (planes, h, w) = (3, rows.from(), columns.from());
                    let x: Vec<f64> = (0..planes * h * w).map(|i| (i % 17) as f64 - 3.0).collect();
                    let (oh, ow) = (rows.to(), columns.to());
                    let mut y = vec![f64::NAN; planes * oh * ow];
                    with_threads(3, || resample(planes, &rows, &columns, &x, &mut y));
                    let weights = |along: &Along| match along {
                        Along::Table(table) => dense(table),
                        Along::Same(n) => {
                            (0..*n).map(|i| (0..*n).map(|j| f64::from(i == j)).collect()).collect()
                        }
                    };
                    let (down, right): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
                        (weights(&rows), weights(&columns));
                    for (k, &y) in y.iter().enumerate() {
                        let (p, i, j) = (k / (oh * ow), k / ow % oh, k % ow);
                        let mut sum = 0.0;
                        for a in 0..h {
                            for b in 0..w {
                                sum += down[i][a] * right[j][b] * x[(p * h + a) * w + b];
                            }
                        }
                        assert!((sum - y).abs() < 1e-10, "{sum} {y}");
                    }
                }
            }
        }
    }
}
