//! The gradient of the largest or the smallest number: shared equally among all that are equal to it.
//!
//! A group's extreme value and how many numbers have it are found in one pass over memory, chunk by
//! chunk: the numbers of a chunk that have its own extreme value are the group's if that is the group's too. The
//! second pass writes the gradient, from the cache if the groups are small. Nothing here is rounded
//! before the share is, so that it does not matter how numbers are cut into chunks.

use super::{Extremes, Floats, Which, counts};
use crate::isa::{Kernel, dispatch};
use crate::map::{Block, Formula, Formulas};
use crate::native::Native;
use crate::number::{Number, Real};
use crate::par::Shared;
use crate::stop;
use crate::stream::{self, Stream};
use std::ops::Range;

/// Numbers of a chunk.
const CHUNK: usize = 64 * 1024;
/// Columns that are looked at together, and numbers that are widened at a time.
const BLOCK: usize = 1024;
/// Numbers that are folded at once.
const PIECE: usize = super::CHUNK;
/// Rows and columns of fewer numbers cost more to begin than to read.
const SHORT: usize = 32;

/// `share` where `x` is the extreme value `y`, 0 elsewhere; NaN where that is NaN.
#[derive(Clone)]
struct Chosen;

impl Formula<3> for Chosen {
    #[inline(always)]
    fn f<R: Real>(&self, [share, x, y]: [R; 3]) -> R {
        let other = R::select(y.is_nan(), y, share.lit(0.0));
        R::select(x.eq(y), share, other)
    }
}

/// [`Chosen`] with the same share and extreme value everywhere.
#[derive(Clone)]
struct ChosenOf {
    share: f64,
    y: f64,
}

impl Formula<1> for ChosenOf {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        let y = x.lit(self.y);
        let other = R::select(y.is_nan(), y, x.lit(0.0));
        R::select(x.eq(y), x.lit(self.share), other)
    }
}

/// A type that gradients of extreme values are computed in.
pub trait Shares: Real<Mask = bool> + Extremes + Into<f64> {
    /// `share` where `x` is `y`, 0 elsewhere; NaN where `y` is NaN.
    fn chosen(shares: [&[Self]; 3], out: &mut [Self], past: Option<&Stream>);
    /// Likewise, with one share and one `y`.
    fn chosen_of(share: Self, y: Self, x: &[Self], out: &mut [Self], past: Option<&Stream>);
}

macro_rules! shares {
    ($($t:ty),*) => {$(
        impl Shares for $t {
            fn chosen(shares: [&[$t]; 3], out: &mut [$t], past: Option<&Stream>) {
                Formulas(Chosen).run(shares, out, past);
            }
            fn chosen_of(share: $t, y: $t, x: &[$t], out: &mut [$t], past: Option<&Stream>) {
                Formulas(ChosenOf { share: share.into(), y: y.into() }).run([x], out, past);
            }
        }
    )*};
}
shares!(f32, f64);

/// A float type that extreme values can have.
pub trait TieShares: Floats<Wide: Shares> {}
impl<T: Floats<Wide: Shares>> TieShares for T {}

/// How many numbers are equal to `y`.
struct Count<'a, W> {
    x: &'a [W],
    y: W,
}

impl<W: Number<Mask = bool>> Kernel for Count<'_, W> {
    type Output = u32;
    #[inline(always)]
    fn run(self) -> u32 {
        let Count { x, y } = self;
        let mut count = 0;
        let mut i = 0;
        while i < x.len() {
            count += u32::from(x[i].eq(y));
            i += 1;
        }
        count
    }
}

/// Column by column the extreme value so far, and how many numbers had it.
struct Tally<'a, W> {
    /// Rows, `stride` apart.
    x: &'a [W],
    stride: usize,
    rows: usize,
    most: &'a mut [W],
    count: &'a mut [W],
    largest: bool,
}

impl<W: Number<Mask = bool>> Tally<'_, W> {
    #[inline(always)]
    fn fold<const LARGEST: bool>(self) {
        let Tally { x, stride, rows, most, count, .. } = self;
        let len = most.len();
        let count = &mut count[..len];
        let mut row = 0;
        while row < rows {
            // Several rows at a time, while what is known of their columns is in registers.
            let (a, b) = (row, (row + 1).min(rows - 1));
            let both = b > a;
            let (a, b) = (&x[a * stride..a * stride + len], &x[b * stride..b * stride + len]);
            let mut i = 0;
            while i < len {
                let (one, zero) = (most[i].lit(1.0), most[i].lit(0.0));
                let (known, n) = (most[i], count[i]);
                let best = better::<W, LARGEST>(better::<W, LARGEST>(known, a[i]), b[i]);
                let kept = if known.eq(best) { n } else { zero };
                let first = if a[i].eq(best) { one } else { zero };
                let second = if both && b[i].eq(best) { one } else { zero };
                most[i] = best;
                count[i] = kept + first + second;
                i += 1;
            }
            row += 2;
        }
    }
}

impl<W: Number<Mask = bool>> Kernel for Tally<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if self.largest { self.fold::<true>() } else { self.fold::<false>() }
    }
}

#[inline(always)]
fn better<W: Number, const LARGEST: bool>(a: W, b: W) -> W {
    if LARGEST { a.maximum(b) } else { a.minimum(b) }
}

/// Numbers that lie as `outer` × `rows` × `columns`, of which the rows are reduced.
struct Job<'a, T> {
    which: Which,
    x: &'a [T],
    rows: usize,
    columns: usize,
    g: &'a [T],
}

/// Part of one of the outer matrices.
struct Part {
    outer: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// What is known of some groups: extreme values, how often they occur, and what each of those is due.
struct Known<W> {
    most: Vec<W>,
    count: Vec<W>,
    share: Vec<W>,
}

/// How many numbers each group has, and how many columns lie between two of them, if the axes that are
/// reduced follow each other.
fn matrix(shape: &[usize], reduced: &[bool]) -> Option<(usize, usize)> {
    let (mut rows, mut columns, mut ended) = (1, 1, false);
    for (&size, &reduced) in shape.iter().zip(reduced).rev().filter(|(size, _)| **size != 1) {
        match (reduced, rows) {
            (true, _) if ended => return None,
            (true, _) => rows *= size,
            (false, 1) => columns *= size,
            (false, _) => ended = true,
        }
    }
    Some((rows, columns))
}

/// Whether [`extreme_gradient`] is for arrays of that shape: the axes that are reduced follow each other,
/// and rows or columns are not too short to be looked at one by one.
pub fn ties_follow(shape: &[usize], reduced: &[bool]) -> bool {
    matches!(matrix(shape, reduced), Some((SHORT.., 1) | (2.., SHORT..)))
}

/// `out[i] = g/n` where `x[i]` is the extreme value of its group, which `n` numbers of the group have, and
/// 0 elsewhere; NaN in a group with a NaN. The groups are the numbers along the axes that `reduced` marks,
/// and `g` has a number for each.
///
/// # Panics
/// If those axes do not follow each other, or a slice has the wrong length.
pub fn extreme_gradient<T: TieShares>(
    which: Which,
    x: &[T],
    shape: &[usize],
    reduced: &[bool],
    g: &[T],
    out: &mut [T],
) {
    let Some((rows, columns)) = matrix(shape, reduced) else {
        panic!("extreme_gradient: axes that are apart")
    };
    let groups = counts(shape, reduced).0;
    let right = g.len() == groups && x.len() == groups * rows && out.len() == x.len();
    assert!(right, "extreme_gradient: the lengths");
    if x.is_empty() {
        return;
    }
    let job = Job { which, x, rows, columns, g };
    let outer = groups / columns;
    if rows.saturating_mul(columns) <= CHUNK {
        job.small(outer, out);
    } else {
        job.large(outer, out);
    }
}

impl<T: TieShares> Job<'_, T> {
    /// Matrices that stay in the cache between the two passes over them.
    fn small(&self, outer: usize, out: &mut [T]) {
        let &Job { rows, columns, g, .. } = self;
        let past = size_of_val(out) >= stream::FROM;
        let out = Shared::new(out);
        super::in_tasks(outer, rows * columns, &|units| {
            let stream = past.then(Stream::new);
            let mut known = Known::new(columns);
            let mut room = Vec::new();
            for outer in units {
                let part = Part { outer, rows: 0..rows, columns: 0..columns };
                self.tally(&part, &mut known.most, &mut known.count, &mut room);
                for (k, share) in known.share.iter_mut().enumerate() {
                    *share = g[outer * columns + k].wide() / known.count[k];
                }
                self.distribute(&part, &known, &out, stream.as_ref());
            }
        });
    }

    /// Matrices that are looked at in chunks.
    fn large(&self, outer: usize, out: &mut [T]) {
        let &Job { rows, columns, g, .. } = self;
        let block = columns.min(BLOCK);
        let each = (CHUNK / block).min(rows);
        let (chunks, blocks) = (rows.div_ceil(each), columns.div_ceil(block));
        let part = |unit: usize| {
            let (rest, b) = (unit / blocks, unit % blocks);
            let (outer, chunk) = (rest / chunks, rest % chunks);
            Part {
                outer,
                rows: chunk * each..((chunk + 1) * each).min(rows),
                columns: b * block..((b + 1) * block).min(columns),
            }
        };
        let units = outer * chunks * blocks;
        // What is known of each chunk's columns, chunk after chunk.
        let partial = (outer * chunks).saturating_mul(columns);
        let (mut most, mut count) =
            (stop::room(T::Wide::ZERO, partial), stop::room(T::Wide::ZERO, partial));
        let shared = (Shared::new(&mut most), Shared::new(&mut count));
        super::in_tasks(units, each * block, &|units| {
            let mut room = Vec::new();
            for unit in units {
                let part = part(unit);
                let at = (part.outer * chunks + part.rows.start / each) * columns;
                let (start, end) = (at + part.columns.start, at + part.columns.end);
                // SAFETY: the units' parts lie in both and do not overlap.
                let (most, count) =
                    unsafe { (shared.0.part(start, end), shared.1.part(start, end)) };
                self.tally(&part, most, count, &mut room);
            }
        });
        let groups = outer * columns;
        let mut known = Known {
            most: stop::room(T::Wide::ZERO, groups),
            count: stop::room(T::Wide::ZERO, groups),
            share: stop::room(T::Wide::ZERO, groups),
        };
        let mut whole = stop::room(0.0f64, columns);
        for outer in 0..outer {
            let range = outer * columns..(outer + 1) * columns;
            let best = &mut known.most[range.clone()];
            let from = outer * chunks * columns..(outer + 1) * chunks * columns;
            let (most, count) = (&most[from.clone()], &count[from]);
            best.copy_from_slice(&most[..columns]);
            for most in most.chunks(columns) {
                for (best, &most) in best.iter_mut().zip(most) {
                    *best = match self.which {
                        Which::Largest => best.maximum(most),
                        Which::Smallest => best.minimum(most),
                    };
                }
            }
            whole.fill(0.0);
            for (most, count) in most.chunks(columns).zip(count.chunks(columns)) {
                for ((whole, best), (most, &count)) in
                    whole.iter_mut().zip(&*best).zip(most.iter().zip(count))
                {
                    *whole += if most.eq(*best) { count.into() } else { 0.0 };
                }
            }
            for ((share, whole), g) in
                known.share[range.clone()].iter_mut().zip(&whole).zip(&g[range])
            {
                *share = g.wide() / g.wide().lit(*whole);
            }
        }
        let past = size_of_val(out) >= stream::FROM;
        let out = Shared::new(out);
        super::in_tasks(units, each * block, &|units| {
            let stream = past.then(Stream::new);
            for unit in units {
                self.distribute_at(&part(unit), &known, &out, stream.as_ref());
            }
        });
    }

    /// The numbers of row `row` of a part.
    fn row(&self, part: &Part, row: usize) -> Range<usize> {
        let at = (part.outer * self.rows + row) * self.columns;
        at + part.columns.start..at + part.columns.end
    }

    /// Finds the extreme values of a part's columns, and how often they occur there.
    fn tally(
        &self,
        part: &Part,
        most: &mut [T::Wide],
        count: &mut [T::Wide],
        room: &mut Vec<T::Wide>,
    ) {
        let largest = matches!(self.which, Which::Largest);
        let rows = part.rows.len();
        if self.columns == 1 {
            let at = part.outer * self.rows;
            let x = &self.x[at + part.rows.start..at + part.rows.end];
            let x = widened::<T>(x, room);
            let fold = if largest { T::Wide::largest() } else { T::Wide::smallest() };
            let mut found = [most[0]; CHUNK / PIECE + 1];
            let whole = x.len() / PIECE;
            let (pieces, rest) = x.split_at(whole * PIECE);
            let mut pieces_found = 0;
            if whole > 0 {
                fold.rows(pieces, PIECE, &[(); CHUNK / PIECE][..whole], &mut found[..whole]);
                pieces_found = whole;
            }
            if !rest.is_empty() {
                let one = &mut found[pieces_found..=pieces_found];
                fold.rows(rest, rest.len(), &[()], one);
                pieces_found += 1;
            }
            let best =
                |a: T::Wide, b: &T::Wide| if largest { a.maximum(*b) } else { a.minimum(*b) };
            most[0] = found[1..pieces_found].iter().fold(found[0], best);
            count[0] = most[0].lit(f64::from(dispatch(Count { x, y: most[0] })));
            return;
        }
        let from = if largest { f64::NEG_INFINITY } else { f64::INFINITY };
        most.fill(T::Wide::ZERO.lit(from));
        count.fill(T::Wide::ZERO);
        let all = self.row(part, part.rows.start).start..self.row(part, part.rows.end - 1).end;
        if let Some(x) = T::as_wide(&self.x[all]) {
            return dispatch(Tally { x, stride: self.columns, rows, most, count, largest });
        }
        for row in part.rows.clone() {
            let x = widened::<T>(&self.x[self.row(part, row)], room);
            let (most, count) = (&mut *most, &mut *count);
            dispatch(Tally { x, stride: 0, rows: 1, most, count, largest });
        }
    }

    /// Writes the gradient of a part, where `known` is known of the groups of its matrix.
    fn distribute(
        &self,
        part: &Part,
        known: &Known<T::Wide>,
        out: &Shared<T>,
        past: Option<&Stream>,
    ) {
        self.distribute_by(part, known, 0, out, past);
    }

    /// Writes the gradient of a part, where `known` is known of all groups.
    fn distribute_at(
        &self,
        part: &Part,
        known: &Known<T::Wide>,
        out: &Shared<T>,
        past: Option<&Stream>,
    ) {
        self.distribute_by(part, known, part.outer * self.columns, out, past);
    }

    /// Writes the gradient of a part whose matrix has the groups from `first` on.
    fn distribute_by(
        &self,
        part: &Part,
        known: &Known<T::Wide>,
        first: usize,
        out: &Shared<T>,
        past: Option<&Stream>,
    ) {
        if self.columns == 1 {
            let at = part.outer * self.rows;
            let (start, end) = (at + part.rows.start, at + part.rows.end);
            // SAFETY: parts lie in the result and do not overlap.
            let out = unsafe { out.part(start, end) };
            let (share, y) = (known.share[first], known.most[first]);
            return written::<T>(&self.x[start..end], out, |_, x, out| {
                T::Wide::chosen_of(share, y, x, out, past);
            });
        }
        let columns = first + part.columns.start..first + part.columns.end;
        let (share, most) = (&known.share[columns.clone()], &known.most[columns]);
        for row in part.rows.clone() {
            let range = self.row(part, row);
            // SAFETY: likewise.
            let out = unsafe { out.part(range.start, range.end) };
            written::<T>(&self.x[range], out, |at, x, out| {
                let of = at..at + x.len();
                T::Wide::chosen([&share[of.clone()], x, &most[of]], out, past);
            });
        }
    }
}

impl<W: Native> Known<W> {
    fn new(groups: usize) -> Self {
        let made = || vec![W::ZERO; groups];
        Known { most: made(), count: made(), share: made() }
    }
}

/// Numbers in the type that is computed in.
fn widened<'a, T: Floats>(x: &'a [T], room: &'a mut Vec<T::Wide>) -> &'a [T::Wide] {
    if let Some(x) = T::as_wide(x) {
        return x;
    }
    if room.len() < x.len() {
        room.resize(x.len(), T::Wide::ZERO);
    }
    T::widen(x, &mut room[..x.len()]);
    &room[..x.len()]
}

/// Calls `f(start, x, out)` with all of `x` and `out`, or with pieces of them from `start` on, in the type
/// that is computed in.
fn written<T: Floats>(
    x: &[T],
    out: &mut [T],
    mut f: impl FnMut(usize, &[T::Wide], &mut [T::Wide]),
) {
    if let (Some(x), Some(out)) = (T::as_wide(x), T::as_wide_mut(out)) {
        return f(0, x, out);
    }
    let (mut wide, mut made) = ([T::Wide::ZERO; BLOCK], [T::Wide::ZERO; BLOCK]);
    for (k, (x, out)) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
        let (wide, made) = (&mut wide[..x.len()], &mut made[..x.len()]);
        T::widen(x, wide);
        f(k * BLOCK, wide, made);
        T::narrow(made, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par::with_threads;

    /// By the definition.
    fn slow(which: Which, x: &[f32], [rows, columns]: [usize; 2], g: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        for (group, g) in g.iter().enumerate() {
            let first = group / columns * rows * columns + group % columns;
            let members: Vec<usize> = (0..rows).map(|row| first + row * columns).collect();
            let sign = if matches!(which, Which::Largest) { 1.0 } else { -1.0 };
            let most = members.iter().fold(f32::NEG_INFINITY, |most, &i| most.max(sign * x[i]));
            let ties = members.iter().filter(|&&i| sign * x[i] == most).count();
            let nan = members.iter().any(|&i| x[i].is_nan());
            for &i in &members {
                let share = if sign * x[i] == most { g / ties as f32 } else { 0.0 };
                out[i] = if nan { f32::NAN } else { share };
            }
        }
        out
    }

    #[test]
    fn the_gradient_is_shared_by_all_that_are_equal_to_the_extreme_value() {
        for (outer, rows, columns) in [
            (1, 1, 1),
            (3, 40, 1),
            (2, 5000, 1),
            (2, 200_001, 1),
            (4, 7, 33),
            (3, 64, 1030),
            (1, 501, 1500),
            (2, 3000, 40),
        ] {
            let len = outer * rows * columns;
            let number = |i: usize| ((i.wrapping_mul(2_654_435_761) >> 7) % 97) as f32;
            let mut x: Vec<f32> = (0..len).map(number).collect();
            for nan in [false, true] {
                if nan {
                    x[len / 2] = f32::NAN;
                    x[0] = f32::NEG_INFINITY;
                }
                let g: Vec<f32> = (0..outer * columns).map(|i| i as f32 - 3.0).collect();
                for which in [Which::Largest, Which::Smallest] {
                    let want = slow(which, &x, [rows, columns], &g);
                    for threads in [1, 3] {
                        let mut out = vec![7.0f32; len];
                        let (shape, mask) = ([outer, rows, columns], [false, true, false]);
                        with_threads(threads, || {
                            extreme_gradient(which, &x, &shape, &mask, &g, &mut out)
                        });
                        for i in 0..len {
                            let same = out[i] == want[i] || out[i].is_nan() && want[i].is_nan();
                            assert!(same, "{shape:?} at {i}: {} for {}", out[i], want[i]);
                        }
                        // In half precision nothing is rounded but the share.
                        let half = |x: &[f32]| -> Vec<half::bf16> {
                            x.iter().map(|x| half::bf16::from_f32(*x)).collect()
                        };
                        let mut out = half(&vec![7.0; len]);
                        let g = half(&g.iter().map(|g| g.clamp(-3.0, 200.0)).collect::<Vec<_>>());
                        let wide: Vec<f32> = g.iter().map(|g| g.to_f32()).collect();
                        let want = half(&slow(which, &x, [rows, columns], &wide));
                        extreme_gradient(which, &half(&x), &shape, &mask, &g, &mut out);
                        for i in 0..len {
                            let same = out[i] == want[i] || out[i].is_nan() && want[i].is_nan();
                            assert!(same, "{shape:?} at {i}: {} for {}", out[i], want[i]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn axes_that_follow_each_other_make_a_matrix() {
        assert_eq!(matrix(&[2, 3, 4], &[false, true, true]), Some((12, 1)));
        assert_eq!(matrix(&[2, 3, 4], &[true, true, false]), Some((6, 4)));
        assert_eq!(matrix(&[2, 3, 4], &[false, true, false]), Some((3, 4)));
        assert_eq!(matrix(&[2, 3, 4], &[true, false, true]), None);
        assert_eq!(matrix(&[2, 1, 4], &[true, false, true]), Some((8, 1)));
        assert_eq!(matrix(&[2, 1, 4], &[false, true, false]), Some((1, 8)));
    }
}
