//! Distances between the rows of one array and those of another, `(Σ|a − b|ᵖ)^(1/p)`, and their gradients.
//!
//! The other rows lie beside each other, as columns, so that a row is compared with many of them at once, and the
//! differences are never written. A distance is right wherever its own value can be represented.

use crate::native::Native;
use crate::number::{Number, Real};
use crate::rows::Row;
use crate::softmax::{BLOCK, LANES, Total, fold};
use crate::stream::Sink;

/// How many differences are added before the sum of all blocks is touched.
const FEW: usize = 64;

/// What differences are raised to before they are added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Power {
    /// Their sizes are added.
    One,
    /// Their squares.
    Two,
    /// The largest size counts alone.
    Infinity,
    /// Any other number above 0.
    Any(f64),
}

/// The rows that others are compared with: the columns of `[…, width, count]`.
#[derive(Clone, Copy)]
pub struct Columns<'a, W> {
    /// All of them.
    pub all: &'a [W],
    /// How long a column is.
    pub width: usize,
    /// How many columns there are to compare a row with.
    pub count: usize,
    /// How many rows are compared with the same columns, before the next.
    pub rows: usize,
}

impl<'a, W> Columns<'a, W> {
    /// Those that row number `row` is compared with.
    #[inline(always)]
    fn of(&self, row: usize) -> &'a [W] {
        let len = self.width * self.count;
        let start = row / self.rows * len;
        &self.all[start..start + len]
    }
}

/// `y[j]`, the distance of the row `a` from each column.
pub struct Distances<'a, W> {
    /// The columns.
    pub columns: Columns<'a, W>,
    /// What differences are raised to.
    pub power: Power,
}

/// How many of the differences from each column are of the size `y[j]`, for rows `a` and `y`.
pub struct Ties<'a, W>(pub Columns<'a, W>);

/// `Σ w[j]·φ(a − bⱼ)` over the columns, for rows `a`, `w` and `t`, where `φ(d)` is for the power 2 `d·t[j]`, for 1 the
/// sign of `d`, for ∞ the sign where the size is `t[j]` and 0 elsewhere, and for others the sign times
/// `(|d|/t[j])^(p − 1)`, which is 0 where `d` is.
pub struct DistanceGradient<'a, W> {
    /// The columns.
    pub columns: Columns<'a, W>,
    /// What differences are raised to.
    pub power: Power,
}

/// Makes one number for each of up to `LANES` columns from `first` on of the differences from them: `add`, given what
/// was made, a difference and the column's place, says what becomes of it, and `join` puts blocks together.
#[inline(always)]
fn tile<W: Real + Native>(
    a: &[W],
    columns: &[W],
    [count, first, lanes]: [usize; 3],
    add: impl Fn(W, W, usize) -> W,
    join: impl Fn(&mut Total<W>, W),
) -> [W; LANES] {
    let mut totals = [Total::NOTHING; LANES];
    let mut begin = 0;
    loop {
        let end = a.len().min(begin + FEW);
        let mut sums = [W::ZERO; LANES];
        let mut c = begin;
        while c < end {
            let part = &columns[c * count + first..][..lanes];
            let mut k = 0;
            while k < lanes {
                sums[k] = add(sums[k], a[c] - part[k], k);
                k += 1;
            }
            c += 1;
        }
        if a.len() <= FEW {
            return sums;
        }
        let mut k = 0;
        while k < lanes {
            join(&mut totals[k], sums[k]);
            k += 1;
        }
        begin = end;
        if begin >= a.len() {
            break;
        }
    }
    let mut found = [W::ZERO; LANES];
    let mut k = 0;
    while k < lanes {
        found[k] = totals[k].value();
        k += 1;
    }
    found
}

/// Calls `each` for the columns in tiles of `LANES`, and for those that are left.
#[inline(always)]
fn tiles(count: usize, mut each: impl FnMut(usize, usize)) {
    let mut first = 0;
    while first + LANES <= count {
        each(first, LANES);
        first += LANES;
    }
    if first < count {
        each(first, count - first);
    }
}

/// `y[j]`, made of the differences from column `j` as [`tile`] does.
#[inline(always)]
fn each<W: Real + Native>(
    a: &[W],
    columns: &[W],
    y: &mut [W],
    add: impl Fn(W, W) -> W,
    join: impl Fn(&mut Total<W>, W),
) {
    let count = y.len();
    tiles(
        count,
        #[inline(always)]
        |first, lanes| {
            let found = tile(
                a,
                columns,
                [count, first, lanes],
                #[inline(always)]
                |made, d, _| add(made, d),
                &join,
            );
            y[first..first + lanes].copy_from_slice(&found[..lanes]);
        },
    );
}

/// Sums of what `add` makes of differences.
#[inline(always)]
fn sums<W: Real + Native>(a: &[W], columns: &[W], y: &mut [W], add: impl Fn(W, W) -> W) {
    each(
        a,
        columns,
        y,
        add,
        #[inline(always)]
        |total, sum| total.add(sum),
    );
}

/// The largest sizes of differences; NaN where one is.
#[inline(always)]
fn largest<W: Real + Native>(a: &[W], columns: &[W], y: &mut [W]) {
    each(
        a,
        columns,
        y,
        #[inline(always)]
        |top: W, d: W| top.maximum(d.abs()),
        #[inline(always)]
        |total, top| total.largest(top),
    );
}

/// The distance from one column whose squares leave the range of the numbers, or are lost below it.
#[inline(never)]
fn scaled<W: Real + Number<Mask = bool> + Native>(
    a: &[W],
    columns: &[W],
    count: usize,
    j: usize,
) -> W {
    let mut top = W::ZERO;
    for (c, &a) in a.iter().enumerate() {
        top = top.maximum((a - columns[c * count + j]).abs());
    }
    if top.eq(W::ZERO) || !top.is_finite() {
        return top;
    }
    let mut total = Total::NOTHING;
    for (c, &a) in a.iter().enumerate() {
        let d = (a - columns[c * count + j]) / top;
        total.add(d * d);
    }
    top * total.value().sqrt()
}

impl<W: Real + Number<Mask = bool> + Native> Row<W, 1, 1> for Distances<'_, W> {
    #[inline(always)]
    fn run(&self, row: usize, [a]: [&[W]; 1], [y]: [&mut [W]; 1], _: &mut Sink<'_, W>) {
        let columns = self.columns.of(row);
        let count = y.len();
        match self.power {
            Power::One => sums(
                a,
                columns,
                y,
                #[inline(always)]
                |sum, d| sum + d.abs(),
            ),
            Power::Infinity => largest(a, columns, y),
            Power::Two => {
                sums(
                    a,
                    columns,
                    y,
                    #[inline(always)]
                    |sum, d| d.mul_add(d, sum),
                );
                // Below, squares may have been lost; above, they are infinite.
                let small = W::ZERO.lit(if size_of::<W>() == 4 { 1e-30 } else { 1e-280 });
                let mut outside = false;
                let mut j = 0;
                while j < count {
                    outside |= !(small.le(y[j]) & y[j].is_finite());
                    y[j] = y[j].sqrt();
                    j += 1;
                }
                if outside {
                    let small = small.sqrt();
                    for (j, y) in y.iter_mut().enumerate() {
                        if !(small.lt(*y) & y.is_finite()) {
                            *y = scaled(a, columns, count, j);
                        }
                    }
                }
            }
            Power::Any(p) => {
                largest(a, columns, y);
                let (p, root) = (W::ZERO.lit(p), W::ZERO.lit(1.0 / p));
                let one = W::ZERO.lit(1.0);
                tiles(
                    count,
                    #[inline(always)]
                    |first, lanes| {
                        let mut tops = [one; LANES];
                        tops[..lanes].copy_from_slice(&y[first..first + lanes]);
                        let mut units = [one; LANES];
                        let mut k = 0;
                        while k < LANES {
                            let usable = tops[k].is_finite() & !tops[k].eq(W::ZERO);
                            units[k] = W::select(usable, tops[k], one);
                            k += 1;
                        }
                        let found = tile(
                            a,
                            columns,
                            [count, first, lanes],
                            #[inline(always)]
                            |sum: W, d: W, k: usize| sum + (d.abs() / units[k]).pow(p),
                            #[inline(always)]
                            |total: &mut Total<W>, sum| total.add(sum),
                        );
                        let mut k = 0;
                        while k < lanes {
                            y[first + k] = units[k] * found[k].pow(root);
                            k += 1;
                        }
                    },
                );
            }
        }
    }
}

impl<W: Real + Number<Mask = bool> + Native> Row<W, 2, 1> for Ties<'_, W> {
    #[inline(always)]
    fn run(&self, row: usize, [a, y]: [&[W]; 2], [ties]: [&mut [W]; 1], _: &mut Sink<'_, W>) {
        let (columns, count) = (self.0.of(row), y.len());
        let one = W::ZERO.lit(1.0);
        tiles(
            count,
            #[inline(always)]
            |first, lanes| {
                let mut tops = [one; LANES];
                tops[..lanes].copy_from_slice(&y[first..first + lanes]);
                let found = tile(
                    a,
                    columns,
                    [count, first, lanes],
                    #[inline(always)]
                    |sum: W, d: W, k: usize| sum + W::select(d.abs().eq(tops[k]), one, W::ZERO),
                    #[inline(always)]
                    |total: &mut Total<W>, sum| total.add(sum),
                );
                ties[first..first + lanes].copy_from_slice(&found[..lanes]);
            },
        );
    }
}

/// `Σ w·φ(a − b, t)` over the numbers of a column of each.
#[inline(always)]
fn pulled<W: Real + Native>(a: W, [b, w, t]: [&[W]; 3], term: impl Fn(W, W, W, W) -> W) -> W {
    let mut total = Total::NOTHING;
    let mut begin = 0;
    while begin < b.len() {
        let end = b.len().min(begin + BLOCK);
        let mut lanes = [W::ZERO; LANES];
        let mut j = begin;
        while j + LANES <= end {
            let (b, w, t) = (&b[j..j + LANES], &w[j..j + LANES], &t[j..j + LANES]);
            let mut k = 0;
            while k < LANES {
                lanes[k] = term(lanes[k], w[k], a - b[k], t[k]);
                k += 1;
            }
            j += LANES;
        }
        let mut k = 0;
        while j < end {
            lanes[k] = term(lanes[k], w[j], a - b[j], t[j]);
            (j, k) = (j + 1, k + 1);
        }
        total.add(fold(lanes));
        begin = end;
    }
    total.value()
}

impl<W: Real + Number<Mask = bool> + Native> Row<W, 3, 1> for DistanceGradient<'_, W> {
    #[inline(always)]
    fn run(&self, row: usize, [a, w, t]: [&[W]; 3], [y]: [&mut [W]; 1], _: &mut Sink<'_, W>) {
        let (columns, count) = (self.columns.of(row), w.len());
        let one = W::ZERO.lit(1.0);
        let mut c = 0;
        while c < a.len() {
            let column = [&columns[c * count..(c + 1) * count], w, t];
            y[c] = match self.power {
                Power::One => pulled(
                    a[c],
                    column,
                    #[inline(always)]
                    |sum, w, d, _| sum + w.times(d.sign()),
                ),
                Power::Two => pulled(
                    a[c],
                    column,
                    #[inline(always)]
                    |sum, w, d, t| sum + w.times(d * t),
                ),
                Power::Infinity => pulled(
                    a[c],
                    column,
                    #[inline(always)]
                    |sum, w, d, t| {
                        sum + w.times(W::select(d.abs().eq(t), d.sign(), d.nan_or(W::ZERO)))
                    },
                ),
                Power::Any(p) => pulled(
                    a[c],
                    column,
                    #[inline(always)]
                    |sum, w, d, t| {
                        let none = d.eq(W::ZERO);
                        let share = W::select(none, one, d.abs() / t).pow(one.lit(p - 1.0));
                        sum + W::select(none, W::ZERO, w.times(d.sign() * share))
                    },
                ),
            };
            c += 1;
        }
    }
}
