//! Groups made of pieces, each of which has one factor and one summand: the planes of images.

use super::{
    Line, Moments, Pull, PullShift, SMALL_TASK, Shift, Spans, TASK, Terms, Totals, Wide, moments,
    wide,
};
use crate::isa::dispatch;
use crate::native::{Compute, Native};
use crate::par::{Shared, parallel_for, share};
use crate::stop;

/// Groups of `pieces` pieces of `len` numbers.
#[derive(Clone, Copy, Debug)]
pub struct Planes {
    /// How many groups there are.
    pub groups: usize,
    /// Pieces in a group.
    pub pieces: usize,
    /// Numbers in a piece.
    pub len: usize,
    /// How far apart groups begin.
    pub group_step: usize,
    /// How far apart the pieces of a group begin.
    pub piece_step: usize,
    /// The channel (that is, the factor) of a piece: of its group if `None`, otherwise its own, of
    /// so many groups one after the other, after which they begin again.
    pub own: Option<usize>,
    /// What is added to the variance.
    pub eps: f64,
}

impl Planes {
    /// Groups of neighbouring channels, for each image by itself.
    pub fn grouped(images: usize, groups: usize, channels: usize, len: usize, eps: f64) -> Planes {
        let pieces = channels / groups.max(1);
        let (group_step, piece_step) = (pieces * len, len);
        let (own, groups) = (Some(groups), images * groups);
        Planes { groups, pieces, len, group_step, piece_step, own, eps }
    }

    /// A group for each channel, of that channel of all images.
    pub fn batch(images: usize, channels: usize, len: usize, eps: f64) -> Planes {
        let (groups, pieces) = (channels, images);
        let (group_step, piece_step) = (len, channels * len);
        Planes { groups, pieces, len, group_step, piece_step, own: None, eps }
    }

    /// How many numbers there are.
    pub fn elements(&self) -> usize {
        self.groups * self.pieces * self.len
    }

    /// The channel of a piece.
    pub fn channel(&self, group: usize, piece: usize) -> usize {
        match self.own {
            None => group,
            Some(groups) => group % groups * self.pieces + piece,
        }
    }

    /// Where a piece begins.
    fn at(&self, group: usize, piece: usize) -> usize {
        group * self.group_step + piece * self.piece_step
    }

    /// Runs `work(group)` for all groups, several to a task.
    fn each(&self, work: impl Fn(usize) + Sync) {
        let size = (self.pieces * self.len).max(1);
        let together = (share(self.elements(), SMALL_TASK, TASK) / size).max(1);
        let tasks = self.groups.div_ceil(together);
        parallel_for(tasks, &|task| {
            for group in task * together..self.groups.min((task + 1) * together) {
                work(group);
            }
        });
    }
}

/// How groups are normalised.
#[derive(Clone, Copy, Debug)]
pub enum Statistics<'a, W> {
    /// By their own mean and variance.
    Own,
    /// By a given mean and variance for each group.
    Given(&'a [W], &'a [W]),
    /// By a mean and `1/√(variance + eps)` that were saved. `moving` says whether they follow the
    /// numbers, and so have a part in the gradient.
    Saved {
        /// The means.
        mean: &'a [W],
        /// `1/√(variance + eps)`.
        slope: &'a [W],
        /// Whether they follow the numbers.
        moving: bool,
    },
}

/// A group of numbers in memory, or copied from it.
struct Group<'a, W> {
    shape: &'a Planes,
    group: usize,
    first: usize,
    piece_step: usize,
    x: &'a [W],
    statistics: Statistics<'a, W>,
}

impl<W: Wide> Group<'_, W> {
    fn piece(&self, piece: usize) -> std::ops::Range<usize> {
        let at = self.first + piece * self.piece_step;
        at..at + self.shape.len
    }

    fn moments(&self) -> Moments<W> {
        let Planes { pieces, len, eps, .. } = *self.shape;
        match self.statistics {
            Statistics::Own => {
                let whole = self.piece_step == len && self.shape.own.is_some();
                let (count, len) = if whole { (1, pieces * len) } else { (pieces, len) };
                let spans = Spans {
                    x: self.x,
                    first: self.first,
                    count,
                    len,
                    step: self.piece_step,
                    ahead: 0,
                };
                moments(spans, true, eps)
            }
            Statistics::Given(mean, variance) => {
                let (mean, variance): (f64, f64) =
                    (mean[self.group].into(), variance[self.group].into());
                Moments { mean, variance, line: Line::given(mean, (variance + eps).sqrt()) }
            }
            Statistics::Saved { mean, slope, .. } => {
                let (mean, slope): (f64, f64) = (mean[self.group].into(), slope[self.group].into());
                Moments { mean, variance: f64::NAN, line: Line::saved(mean, slope) }
            }
        }
    }
}

struct Forward<'a, W> {
    group: Group<'a, W>,
    gamma: &'a [W],
    beta: &'a [W],
    y: &'a Shared<W>,
}

impl<W: Wide> Forward<'_, W> {
    fn run(self) -> Moments<W> {
        let Forward { group, gamma, beta, y } = self;
        let found = group.moments();
        let line = found.line;
        for piece in 0..group.shape.pieces {
            let at = group.piece(piece);
            let x = &group.x[at.clone()];
            // SAFETY: `x` lies at this position in an array as long as the results', and no two groups
            // share a piece.
            let y = unsafe { y.part(at.start, at.end) };
            let channel = group.shape.channel(group.group, piece);
            dispatch(Shift { line, x, gamma: gamma[channel], beta: beta[channel], y });
        }
        found
    }
}

/// What was found of a group: its mean, its variance, and `1/√(variance + eps)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// The mean.
    pub mean: f64,
    /// The variance.
    pub variance: f64,
    /// `1/√(variance + eps)`, at most 10¹⁰.
    pub slope: f64,
}

/// Normalises each group, `y = x̂·gamma + beta`, and says what was found of it.
///
/// # Panics
/// If the lengths do not fit.
pub fn forward<T: Compute>(
    shape: &Planes,
    x: &[T],
    gamma: &[T::Wide],
    beta: &[T::Wide],
    statistics: Statistics<'_, T::Wide>,
    y: &mut [T],
) -> Vec<Found>
where
    T::Wide: Wide,
{
    assert!(x.len() == shape.elements() && y.len() == x.len(), "norm: the number of elements");
    let mut found = stop::room(Found::default(), shape.groups);
    let out = Shared::new(&mut found);
    let note = |group: usize, found: Moments<T::Wide>| {
        let (mean, variance, slope) = (found.mean, found.variance, found.line.exact.slope);
        // SAFETY: every group has an element of its own.
        let own = unsafe { out.part(group, group + 1) };
        own[0] = Found { mean, variance, slope };
    };
    let piece_step = shape.piece_step;
    if let (Some(x), Some(y)) = (T::as_wide(x), T::as_wide_mut(y)) {
        let y = &Shared::new(y);
        shape.each(|number| {
            let first = shape.at(number, 0);
            let group = Group { shape, group: number, first, piece_step, x, statistics };
            note(number, Forward { group, gamma, beta, y }.run());
        });
        return found;
    }
    let y = Shared::new(y);
    shape.each(|number| {
        let room = Room::of(shape, number, x);
        let mut result = stop::room(T::Wide::ZERO, room.len());
        let (first, piece_step) = (0, shape.len);
        let group = Group { shape, group: number, first, piece_step, x: &room, statistics };
        let wide = &Shared::new(&mut result);
        note(number, Forward { group, gamma, beta, y: wide }.run());
        // SAFETY: no two groups share a piece.
        unsafe { Room::put(shape, number, &result, &y) };
    });
    found
}

/// The pieces of a group, widened.
struct Room;

impl Room {
    fn of<T: Compute>(shape: &Planes, group: usize, x: &[T]) -> Vec<T::Wide> {
        let mut room = stop::room(T::Wide::ZERO, shape.pieces.saturating_mul(shape.len));
        if shape.len > 0 {
            for (piece, room) in room.chunks_mut(shape.len).enumerate() {
                let at = shape.at(group, piece);
                T::widen(&x[at..at + shape.len], room);
            }
        }
        room
    }

    /// # Safety
    /// No other thread may touch the group's pieces in `y`, which has as many elements as `shape`.
    unsafe fn put<T: Compute>(shape: &Planes, group: usize, room: &[T::Wide], y: &Shared<T>) {
        if shape.len == 0 {
            return;
        }
        for (piece, room) in room.chunks(shape.len).enumerate() {
            let at = shape.at(group, piece);
            // SAFETY: the pieces lie in `y`, and the caller's promise.
            T::narrow(room, unsafe { y.part(at, at + shape.len) });
        }
    }
}

/// `Σ g` and `Σ g·x̂`.
#[derive(Clone, Copy)]
struct Pulled<'a, W> {
    g: &'a [W],
    x: &'a [W],
    line: Line<W>,
}

// SAFETY: `len` is the shorter length of what is read.
unsafe impl<W: Wide> Terms<2> for Pulled<'_, W> {
    #[inline(always)]
    fn len(self) -> usize {
        self.g.len().min(self.x.len())
    }
    #[inline(always)]
    unsafe fn step(self, i: usize, [sum, product]: [f64; 2]) -> [f64; 2] {
        // SAFETY: the caller's promise.
        let (g, x) = unsafe { (wide(self.g, i), wide(self.x, i)) };
        [sum + g, g.mul_add(self.line.exactly(x), product)]
    }
}

struct Backward<'a, W> {
    group: Group<'a, W>,
    g: &'a [W],
    gamma: &'a [W],
    limit: f64,
    dx: Option<&'a Shared<W>>,
    /// `Σ g` and `Σ g·x̂` of each piece.
    sums: &'a mut [[f64; 2]],
}

impl<W: Wide> Backward<'_, W> {
    fn run(self) {
        let Backward { group, g, gamma, limit, dx, sums } = self;
        let line = group.moments().line;
        let pieces = group.shape.pieces;
        let mut totals = Totals::<2>::ZERO;
        for piece in 0..pieces {
            let at = group.piece(piece);
            let mut piece_sums = Totals::<2>::ZERO;
            piece_sums.add_all(Pulled { g: &g[at.clone()], x: &group.x[at], line });
            sums[piece] = piece_sums.values();
            let gamma: f64 = gamma[group.shape.channel(group.group, piece)].into();
            totals.add([sums[piece][0] * gamma, sums[piece][1] * gamma]);
        }
        let Some(dx) = dx else { return };
        let n = (pieces * group.shape.len) as f64;
        let mut pull = Pull::new(line, totals.values(), n, limit);
        if matches!(group.statistics, Statistics::Saved { moving: false, .. }) {
            (pull.mean, pull.along) = (0.0, 0.0);
        }
        for piece in 0..pieces {
            let at = group.piece(piece);
            let (g, x) = (&g[at.clone()], &group.x[at.clone()]);
            // SAFETY: as in the forward direction.
            let dx = unsafe { dx.part(at.start, at.end) };
            let gamma = gamma[group.shape.channel(group.group, piece)];
            dispatch(PullShift { pull, g, gamma, x, dx });
        }
    }
}

/// The gradients of [`forward`]: for `x`, held within ±`limit` where the deviation is 0, and for
/// each piece of each group `Σ g` and `Σ g·x̂`.
///
/// # Panics
/// If the lengths do not fit.
pub fn backward<T: Compute>(
    shape: &Planes,
    g: &[T],
    x: &[T],
    gamma: &[T::Wide],
    statistics: Statistics<'_, T::Wide>,
    limit: f64,
    dx: Option<&mut [T]>,
) -> Vec<[f64; 2]>
where
    T::Wide: Wide,
{
    let (pieces, piece_step) = (shape.pieces, shape.piece_step);
    assert!(x.len() == shape.elements() && g.len() == x.len(), "norm: the number of elements");
    assert!(dx.as_ref().is_none_or(|dx| dx.len() == x.len()), "norm: the number of gradients");
    let mut sums = stop::room([0.0; 2], shape.groups.saturating_mul(pieces));
    let all = Shared::new(&mut sums);
    // SAFETY: every group has sums of its own.
    let sums_of = |group: usize| unsafe { all.part(group * pieces, (group + 1) * pieces) };
    if let (Some(g), Some(x)) = (T::as_wide(g), T::as_wide(x)) {
        let dx = dx.and_then(T::as_wide_mut).map(Shared::new);
        shape.each(|number| {
            let first = shape.at(number, 0);
            let group = Group { shape, group: number, first, piece_step, x, statistics };
            let (dx, sums) = (dx.as_ref(), sums_of(number));
            Backward { group, g, gamma, limit, dx, sums }.run();
        });
        return sums;
    }
    let dx = dx.map(Shared::new);
    shape.each(|number| {
        let (wide_g, room) = (Room::of(shape, number, g), Room::of(shape, number, x));
        let mut result = stop::room(T::Wide::ZERO, if dx.is_some() { room.len() } else { 0 });
        let (first, piece_step) = (0, shape.len);
        let group = Group { shape, group: number, first, piece_step, x: &room, statistics };
        let wide = Shared::new(&mut result);
        let (wide_dx, sums) = (dx.as_ref().map(|_| &wide), sums_of(number));
        Backward { group, g: &wide_g, gamma, limit, dx: wide_dx, sums }.run();
        if let Some(dx) = &dx {
            // SAFETY: no two groups share a piece.
            unsafe { Room::put(shape, number, &result, dx) };
        }
    });
    sums
}
