//! Groups that lie together, with a factor and a summand for each of their numbers.

use super::{
    LANES, Line, Pull, PullBack, SMALL_TASK, Spans, Stretch, TASK, Terms, Totals, Wide, ask_ahead,
    moments, sweep, wide,
};
use crate::gemm::scratch;
use crate::isa::{Kernel, dispatch};
use crate::native::{Compute, Native};
use crate::par::{Shared, parallel_for, share};
use crate::stop;
use crate::stream::{self, PIECE, Sink, Stream};
use std::ops::Range;

/// What is done to each row of `len` numbers. Row number `r` has the factors number `r % groups` of
/// `groups · len`.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// How many rows there are.
    pub count: usize,
    /// Numbers in a row.
    pub len: usize,
    /// How many rows have factors of their own.
    pub groups: usize,
    /// Whether the mean is taken off.
    pub centred: bool,
    /// What is added to the variance.
    pub eps: f64,
}

impl Rows {
    fn factors<'a, W>(&self, all: &'a [W], row: usize) -> &'a [W] {
        let at = row % self.groups * self.len;
        &all[at..at + self.len]
    }

    /// How far ahead memory is asked for: the next row, unless rows are very short or do not fit the
    /// first cache.
    fn ahead(&self) -> usize {
        if (LONG..=4096).contains(&self.len) { self.len } else { 0 }
    }

    fn line<W: Wide>(&self, x: &[W]) -> Line<W> {
        let (len, ahead) = (self.len, self.ahead());
        if self.sweeps::<W>()
            && let Some(found) = sweep::moments(x, self.centred, self.eps, ahead)
        {
            return found.line;
        }
        let spans = Spans { x, first: 0, count: 1, len, step: len, ahead };
        moments(spans, self.centred, self.eps).line
    }

    /// Whether sums in the narrow type are worth trying.
    fn sweeps<W: Wide>(&self) -> bool {
        !W::DOUBLE && self.len >= LONG
    }
}

/// Normalises each row of `x`: `y = x̂·gamma + beta`.
///
/// # Panics
/// If the lengths do not fit.
pub fn forward<T: Compute>(shape: &Rows, x: &[T], gamma: &[T::Wide], beta: &[T::Wide], y: &mut [T])
where
    T::Wide: Wide,
{
    let len = shape.len;
    assert!(x.len() == shape.count * len && y.len() == x.len(), "norm: the number of elements");
    if x.is_empty() {
        return;
    }
    let together = (share(x.len(), SMALL_TASK, TASK) / len).max(1);
    let streamed = streamed(y, len);
    crate::par::parallel_chunks(y, together * len, &|start, y| {
        let (first, x) = (start / len, &x[start..start + y.len()]);
        let run = |row, x: &[T::Wide], y: &mut [T::Wide], sink: &mut Sink<'_, T::Wide>| {
            let (gamma, beta) = (shape.factors(gamma, row), shape.factors(beta, row));
            dispatch(Stretch { line: shape.line(x), x, gamma, beta, y, sink });
        };
        match (T::as_wide(x), T::as_wide_mut(y)) {
            (Some(x), Some(y)) if streamed => {
                let (stream, mut made) = (Stream::new(), stream::room::<T::Wide>(len));
                for (k, (x, y)) in x.chunks(len).zip(y.chunks_mut(len)).enumerate() {
                    let mut sink = Sink::new(&stream, y);
                    run(first + k, x, &mut made.as_mut_slice()[..len], &mut sink);
                }
            }
            (Some(x), Some(y)) => {
                for (k, (x, y)) in x.chunks(len).zip(y.chunks_mut(len)).enumerate() {
                    run(first + k, x, y, &mut Sink::none());
                }
            }
            _ => {
                let (mut wide, mut result) =
                    (stop::room(T::Wide::ZERO, len), stop::room(T::Wide::ZERO, len));
                for (k, (x, y)) in x.chunks(len).zip(y.chunks_mut(len)).enumerate() {
                    T::widen(x, &mut wide);
                    run(first + k, &wide, &mut result, &mut Sink::none());
                    T::narrow(&result, y);
                }
            }
        }
    });
}

/// Whether rows are written past the caches: many of them, each of which fits the first.
fn streamed<T>(all: &[T], len: usize) -> bool {
    size_of_val(all) >= stream::FROM && len * size_of::<T>() <= 16 * 1024
}

/// `Σ g·gamma` and `Σ g·gamma·x̂`.
#[derive(Clone, Copy)]
struct Pulled<'a, W> {
    g: &'a [W],
    gamma: &'a [W],
    x: &'a [W],
    line: Line<W>,
    ahead: usize,
}

// SAFETY: `len` is the shortest length of what is read.
unsafe impl<W: Wide> Terms<2> for Pulled<'_, W> {
    #[inline(always)]
    fn len(self) -> usize {
        self.g.len().min(self.gamma.len()).min(self.x.len())
    }
    #[inline(always)]
    unsafe fn step(self, i: usize, [sum, product]: [f64; 2]) -> [f64; 2] {
        // SAFETY: the caller's promise.
        let (g, gamma, x) = unsafe { (wide(self.g, i), wide(self.gamma, i), wide(self.x, i)) };
        let g = g * gamma;
        [sum + g, g.mul_add(self.line.exactly(x), product)]
    }
}

/// The same where there are so many that rounding each of them does no harm.
#[derive(Clone, Copy)]
struct PulledLong<'a, W>(Pulled<'a, W>);

// SAFETY: as above.
unsafe impl<W: Wide> Terms<2> for PulledLong<'_, W> {
    #[inline(always)]
    fn len(self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn ask(self, i: usize) {
        ask_ahead::<W, false>(self.0.g, i, self.0.ahead);
    }
    #[inline(always)]
    unsafe fn step(self, i: usize, [sum, product]: [f64; 2]) -> [f64; 2] {
        let Pulled { g, gamma, x, line, .. } = self.0;
        // SAFETY: the caller's promise.
        let (g, gamma, x) =
            unsafe { (*g.get_unchecked(i), *gamma.get_unchecked(i), *x.get_unchecked(i)) };
        let (g, x): (f64, f64) = ((g * gamma).into(), line.at(x).into());
        [sum + g, g.mul_add(x, product)]
    }
}

/// From this length on a row's gradients are made in its own precision and in one loop: `dx` is a
/// difference of almost equal numbers in short rows only.
const LONG: usize = 128;

/// Numbers of a row that are read together.
const STRIP: usize = 32;

/// All gradients of a long row.
struct PullAll<'a, 'b, W> {
    pull: Pull<W>,
    g: &'a [W],
    gamma: &'a [W],
    x: &'a [W],
    dx: &'a mut [W],
    dgamma: &'a mut [W],
    dbeta: &'a mut [W],
    /// Where the next row's gradients will be read, and where its `dx` will be written.
    ahead: [usize; 2],
    /// The way of `dx`.
    sink: &'a mut Sink<'b, W>,
}

/// A [`Pull`] in the row's own precision.
#[derive(Clone, Copy)]
struct Rule<W> {
    line: Line<W>,
    mean: W,
    along: W,
    slope: W,
    limit: W,
}

impl<W: Wide> Rule<W> {
    /// The gradient for `x`, and those of its factors with what it adds to them.
    #[inline(always)]
    fn at(self, g: W, gamma: W, x: W, [product, sum]: [W; 2]) -> [W; 3] {
        let normal = self.line.at(x);
        let rest = self.along.mul_add(normal, g.mul_add(gamma, self.mean));
        // The inverse of the tiniest deviations is infinite; nothing still comes of nothing.
        let pulled = W::select(rest.eq(rest.lit(0.0)), rest, rest * self.slope);
        let held = W::select(self.limit.lt(pulled), self.limit, pulled);
        let held = W::select(held.lt(-self.limit), -self.limit, held);
        [held, g.mul_add(normal, product), sum + g]
    }
}

impl<W: Wide> Kernel for PullAll<'_, '_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let PullAll { pull, g, gamma, x, dx, dgamma, dbeta, ahead, sink } = self;
        let len = dx.len();
        let (g, gamma, x) = (&g[..len], &gamma[..len], &x[..len]);
        let (dgamma, dbeta) = (&mut dgamma[..len], &mut dbeta[..len]);
        let rule = Rule {
            line: pull.line,
            mean: W::of(-pull.mean),
            along: W::of(-pull.along),
            slope: W::of(pull.line.exact.slope),
            limit: W::of(pull.limit),
        };
        let mut start = 0;
        while start < len {
            let end = (start + PIECE).min(len);
            let mut i = start;
            while i < end {
                ask_ahead::<W, false>(g, i, ahead[0]);
                ask_ahead::<W, true>(dx, i, ahead[1]);
                i += LANES;
            }
            let mut i = start;
            while i < end {
                // All is read before anything is written: the compiler need not ask which of six
                // rows overlap, nor the machine, to which those that lie at the same offset in their
                // pages look as if they did.
                let stop = if i + STRIP <= end { i + STRIP } else { i + 1 };
                let (mut pulls, mut products, mut sums) =
                    ([W::ZERO; STRIP], [W::ZERO; STRIP], [W::ZERO; STRIP]);
                if stop == i + 1 {
                    [pulls[0], products[0], sums[0]] =
                        rule.at(g[i], gamma[i], x[i], [dgamma[i], dbeta[i]]);
                    dx[i] = pulls[0];
                    dgamma[i] = products[0];
                    dbeta[i] = sums[0];
                } else {
                    let (g, gamma, x) = (&g[i..stop], &gamma[i..stop], &x[i..stop]);
                    let (old_products, old_sums) = (&dgamma[i..stop], &dbeta[i..stop]);
                    let mut l = 0;
                    while l < STRIP {
                        [pulls[l], products[l], sums[l]] =
                            rule.at(g[l], gamma[l], x[l], [old_products[l], old_sums[l]]);
                        l += 1;
                    }
                    dx[i..stop].copy_from_slice(&pulls);
                    dgamma[i..stop].copy_from_slice(&products);
                    dbeta[i..stop].copy_from_slice(&sums);
                }
                i = stop;
            }
            sink.ready(dx, end);
            start = end;
        }
    }
}

/// Rows whose contributions to the gradients of the factors are added in the narrow type before
/// they are added in `f64`.
const BLOCK: usize = 32;

/// `dgamma += g·x̂`.
struct AddProducts<'a, W> {
    line: Line<W>,
    g: &'a [W],
    x: &'a [W],
    dgamma: &'a mut [W],
}

impl<W: Wide> Kernel for AddProducts<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AddProducts { line, g, x, dgamma } = self;
        let len = dgamma.len();
        let (g, x) = (&g[..len], &x[..len]);
        let mut i = 0;
        while i < len {
            dgamma[i] = g[i].mul_add(line.at(x[i]), dgamma[i]);
            i += 1;
        }
    }
}

/// `dbeta += g`.
struct Add<'a, W> {
    g: &'a [W],
    dbeta: &'a mut [W],
}

impl<W: Wide> Kernel for Add<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Add { g, dbeta } = self;
        let len = dbeta.len();
        let g = &g[..len];
        let mut i = 0;
        while i < len {
            dbeta[i] = dbeta[i] + g[i];
            i += 1;
        }
    }
}

/// The gradients of a row: `dx`, and what it adds to those of the factors.
struct Backward<'a, W> {
    shape: &'a Rows,
    gamma: &'a [W],
    limit: f64,
    dgamma: &'a mut [W],
    dbeta: &'a mut [W],
    /// Which of those two are wanted; otherwise they hold nothing of use.
    wanted: [bool; 2],
    /// Whether `dx` is a buffer, behind which no next row lies: asking for what does would take it
    /// from the thread that writes it.
    buffered: bool,
}

impl<W: Wide> Backward<'_, W> {
    /// `dx` is empty where not wanted.
    fn row(&mut self, row: usize, [g, x]: [&[W]; 2], dx: &mut [W], sink: &mut Sink<'_, W>) {
        let (shape, len) = (self.shape, self.shape.len);
        let at = row % shape.groups * len;
        let (dgamma, dbeta) = (&mut self.dgamma[at..at + len], &mut self.dbeta[at..at + len]);
        let gamma = shape.factors(self.gamma, row);
        let (line, sums) = match dx.is_empty() {
            true => (shape.line(x), [0.0; 2]),
            false => sums(shape, [x, g, gamma]),
        };
        if !dx.is_empty() {
            let mut pull = Pull::new(line, sums, len as f64, self.limit);
            if !shape.centred {
                pull.mean = 0.0;
            }
            if len >= LONG {
                let ahead = shape.ahead();
                let ahead = [ahead, if self.buffered { 0 } else { ahead }];
                return dispatch(PullAll { pull, g, gamma, x, dx, dgamma, dbeta, ahead, sink });
            }
            dispatch(PullBack { pull, g, gamma, x, dx });
            sink.ready(dx, len);
        }
        if self.wanted[0] {
            dispatch(AddProducts { line, g, x, dgamma });
        }
        if self.wanted[1] {
            dispatch(Add { g, dbeta });
        }
    }
}

/// The line of a row, `Σ g·gamma` and `Σ g·gamma·x̂`.
fn sums<W: Wide>(shape: &Rows, [x, g, gamma]: [&[W]; 3]) -> (Line<W>, [f64; 2]) {
    let ahead = shape.ahead();
    if shape.sweeps::<W>()
        && let Some(found) = sweep::pulled([x, g, gamma], shape.centred, shape.eps, ahead)
    {
        return found;
    }
    let line = shape.line(x);
    let (mut sums, terms) = (Totals::<2>::ZERO, Pulled { g, gamma, x, line, ahead });
    if shape.len < LONG {
        sums.add_all(terms);
    } else {
        sums.add_all(PulledLong(terms));
    }
    (line, sums.values())
}

/// What the gradients of the factors are wanted for, and where they go.
#[derive(Debug, Default)]
pub struct Factors<'a> {
    /// `Σ g·x̂` for each factor.
    pub gamma: Option<&'a mut [f64]>,
    /// `Σ g` for each summand.
    pub beta: Option<&'a mut [f64]>,
}

/// The gradients of [`forward`], those for `x` held within ±`limit` where the deviation is 0.
///
/// # Panics
/// If the lengths do not fit.
pub fn backward<T: Compute>(
    shape: &Rows,
    g: &[T],
    x: &[T],
    gamma: &[T::Wide],
    limit: f64,
    dx: Option<&mut [T]>,
    factors: Factors<'_>,
) where
    T::Wide: Wide,
{
    let (len, count) = (shape.len, shape.count);
    assert!(x.len() == count * len && g.len() == x.len(), "norm: the number of elements");
    let features = shape.groups * len;
    let wanted = [factors.gamma.is_some(), factors.beta.is_some()];
    if !x.is_empty() {
        let tasks = tasks(shape, wanted != [false; 2]);
        let lengths = wanted.map(|wanted| if wanted { features * tasks } else { 0 });
        let dx = Out::new(dx, x.len());
        // Kept memory: fresh pages would cost more than the sums.
        scratch::with(lengths[0] + lengths[1], |room: &mut [f64]| {
            let (dgamma, dbeta) = room.split_at_mut(lengths[0]);
            let mut partial = [dgamma, &mut dbeta[..lengths[1]]];
            let shared = partial.each_mut().map(|p| Shared::new(p));
            parallel_for(tasks, &|task| {
                let (from, to) = (task * count / tasks, (task + 1) * count / tasks);
                // SAFETY: each task has totals of its own.
                let mut totals = [0, 1].map(|k| unsafe {
                    let len = if wanted[k] { features } else { 0 };
                    shared[k].part(task * len, (task + 1) * len)
                });
                totals.iter_mut().for_each(|totals| totals.fill(0.0));
                some_rows::<T>(shape, from..to, [g, x], gamma, limit, &dx, totals);
            });
            for (out, partial) in [factors.gamma, factors.beta].into_iter().zip(partial) {
                if let Some(out) = out {
                    sum_tasks(partial, out);
                }
            }
        });
    } else {
        factors.gamma.into_iter().chain(factors.beta).for_each(|out| out.fill(0.0));
    }
}

/// How many tasks the rows are cut into: by their size, and so that what each keeps for itself is
/// little beside the rows.
fn tasks(shape: &Rows, totals: bool) -> usize {
    let all = shape.count.saturating_mul(shape.len);
    let most = if totals { ((1 << 22) / (shape.groups * shape.len)).clamp(8, 64) } else { 1024 };
    all.div_ceil(2 * SMALL_TASK).min(most).min(shape.count).max(1)
}

/// The totals of all tasks, added in their order.
fn sum_tasks(partial: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    for part in partial.chunks_exact(out.len()) {
        for (out, part) in out.iter_mut().zip(part) {
            *out += part;
        }
    }
}

/// Where results go that may not be wanted.
struct Out<T> {
    shared: Option<Shared<T>>,
}

impl<T: Compute> Out<T> {
    fn new(out: Option<&mut [T]>, len: usize) -> Out<T> {
        let shared = out.map(|out| {
            assert_eq!(out.len(), len, "norm: the number of gradients");
            Shared::new(out)
        });
        Out { shared }
    }

    /// # Safety
    /// As for [`Shared::part`].
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, start: usize, end: usize) -> &mut [T] {
        match &self.shared {
            // SAFETY: the caller's promise.
            Some(shared) => unsafe { shared.part(start, end) },
            None => &mut [],
        }
    }
}

/// [`backward`] for a task's rows, which adds to its totals.
fn some_rows<T: Compute>(
    shape: &Rows,
    rows: Range<usize>,
    [g, x]: [&[T]; 2],
    gamma: &[T::Wide],
    limit: f64,
    dx: &Out<T>,
    mut totals: [&mut [f64]; 2],
) where
    T::Wide: Wide,
{
    let len = shape.len;
    let wanted = totals.each_ref().map(|totals| !totals.is_empty());
    let mut block = [(); 2].map(|()| stop::room(T::Wide::ZERO, shape.groups.saturating_mul(len)));
    let direct = T::as_wide(&g[..0]).is_some();
    let streamed = direct && streamed(g, len);
    let stream = Stream::new();
    let mut made = stream::room::<T::Wide>(if streamed { len } else { 0 });
    let needed = if direct { 0 } else { len };
    let mut room = [(); 3].map(|()| stop::room(T::Wide::ZERO, needed));
    let mut from = rows.start;
    while from < rows.end {
        let to = (from + BLOCK).min(rows.end);
        let [dgamma, dbeta] = &mut block;
        let (g, x) = (&g[from * len..to * len], &x[from * len..to * len]);
        // SAFETY: the rows of a task are its own, and lie in the array.
        let dx = unsafe { dx.part(from * len, to * len) };
        let mut work =
            Backward { shape, gamma, limit, dgamma, dbeta, wanted, buffered: !direct || streamed };
        let (wide_g, wide_x) = (T::as_wide(g), T::as_wide(x));
        for k in 0..to - from {
            let at = k * len..(k + 1) * len;
            let dx = if dx.is_empty() { &mut [][..] } else { &mut dx[at.clone()] };
            if let (Some(g), Some(x)) = (wide_g, wide_x) {
                let dx = T::as_wide_mut(dx).unwrap_or(&mut []);
                if streamed {
                    let made = &mut made.as_mut_slice()[..dx.len()];
                    let mut sink = Sink::new(&stream, dx);
                    work.row(from + k, [&g[at.clone()], &x[at]], made, &mut sink);
                } else {
                    work.row(from + k, [&g[at.clone()], &x[at]], dx, &mut Sink::none());
                }
                continue;
            }
            let [g_room, x_room, dx_room] = &mut room;
            T::widen(&g[at.clone()], g_room);
            T::widen(&x[at], x_room);
            let wanted = dx.len();
            let dx_room = &mut dx_room[..wanted];
            work.row(from + k, [g_room, x_room], dx_room, &mut Sink::none());
            T::narrow(dx_room, dx);
        }
        for (block, totals) in block.iter_mut().zip(&mut totals) {
            // Where they are not wanted there are no totals.
            for (block, total) in block.iter_mut().zip(totals.iter_mut()) {
                let part: f64 = (*block).into();
                *total += part;
                *block = T::Wide::ZERO;
            }
        }
        from = to;
    }
}
