//! Planes computed from the windows of other planes.

use super::direct;
use super::geometry::{Geometry, Lattice};
use super::patches::Patches;
use crate::gemm::{Dims, Element, Matrix, Real, product_of, scratch};
use crate::par::{self, Shared};
use std::borrow::Cow;

/// The planes that a group has in an image.
#[derive(Clone, Copy)]
pub(super) struct Planes {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
}

impl Planes {
    pub(super) fn plane(&self) -> usize {
        self.height * self.width
    }

    fn size(&self) -> usize {
        self.channels * self.plane()
    }
}

/// Numbers of the result that are computed aside at a time, nearly, if they do not lie side by side.
const ASIDE: usize = 1 << 17;

/// Multiply-adds that a task has at least, if there is a choice.
const TASK: usize = 1 << 16;

/// A correlation: for each pair of lattices, the positions of the result that it stands for are
/// products of weights and patches.
pub(super) struct Correlation<'a, T: Clone> {
    pub geometry: &'a Geometry,
    pub from: Planes,
    pub to: Planes,
    pub y: Vec<Lattice>,
    pub x: Vec<Lattice>,
    /// For each pair of lattices (those of the vertical axis in the outer loop) and group: a row
    /// for each channel of the result, a column for each channel and tap of what it is made of.
    pub weight: Cow<'a, [T]>,
    pub bias: Option<&'a [T]>,
}

/// A pair of lattices with its weights for one group.
struct Phase<'a, T> {
    y: &'a Lattice,
    x: &'a Lattice,
    weight: &'a [T],
}

impl<T: Element> Correlation<'_, T> {
    pub(super) fn run(&self, source: &[T], result: &mut [T]) {
        let Geometry { images, groups, .. } = *self.geometry;
        let (from, to) = (self.from.size(), self.to.size());
        if result.is_empty() {
            return;
        }
        let tasks = images * groups;
        let work = to.saturating_mul(self.from.channels * self.geometry.taps()).max(1);
        let shared = Shared::new(result);
        let one = |task: usize| {
            // SAFETY: the planes of one group in one image, which no other task has.
            let result = unsafe { shared.part(task * to, (task + 1) * to) };
            self.group(task % groups, &source[task * from..(task + 1) * from], result);
        };
        let threads = par::threads();
        let alone = work.saturating_mul(tasks) < 2 * TASK;
        if threads == 1 || alone {
            par::with_threads(1, || (0..tasks).for_each(one));
        } else if tasks >= 4 * threads || work < 4 * TASK {
            let together = (TASK / work).clamp(1, tasks.div_ceil(threads));
            par::parallel_for(tasks.div_ceil(together), |task| {
                par::with_threads(1, || {
                    (task * together..tasks.min((task + 1) * together)).for_each(one);
                });
            });
        } else {
            (0..tasks).for_each(one);
        }
    }

    /// Computes the planes of one group of one image.
    fn group(&self, group: usize, source: &[T], result: &mut [T]) {
        let (from, to) = (&self.from, &self.to);
        let bias = self.bias.map(|bias| &bias[group * to.channels..][..to.channels]);
        // Nothing may have been written where no window reaches.
        let whole = |lattices: &[Lattice], size: usize| matches!(lattices, [only] if only.step == 1 && only.count == size);
        let whole = whole(&self.y, to.height) && whole(&self.x, to.width);
        let few = self.geometry.few();
        if !whole || (bias.is_some() && !few) {
            start(result, to.plane(), bias);
        }
        if source.is_empty() {
            if whole {
                start(result, to.plane(), bias);
            }
            return;
        }
        let mut before = 0;
        for y in &self.y {
            for x in &self.x {
                let columns = from.channels * y.taps.len() * x.taps.len();
                let size = to.channels * columns;
                let weight = &self.weight[before + group * size..][..size];
                before += self.geometry.groups * size;
                let phase = Phase { y, x, weight };
                if y.count == 0 || x.count == 0 {
                    continue;
                }
                if few {
                    direct::correlate(from, to, y, x, weight, bias, source, result);
                } else if whole {
                    let accumulate = bias.is_some();
                    self.product(&phase, 0..y.count, source, accumulate, result, to.plane());
                } else {
                    self.scattered(&phase, source, bias, result);
                }
            }
        }
    }

    /// Computes `rows` of a phase; those of channel `c` begin at `c * apart` of `result`.
    fn product(
        &self,
        phase: &Phase<'_, T>,
        rows: std::ops::Range<usize>,
        source: &[T],
        accumulate: bool,
        result: &mut [T],
        apart: usize,
    ) {
        let Phase { y, x, weight } = phase;
        let from = &self.from;
        let (m, n) = (self.to.channels, rows.len() * x.count);
        let k = from.channels * y.taps.len() * x.taps.len();
        let dims = Dims { m, k, n };
        let weight = Matrix::row_major(weight, k).lanes(m, k);
        let plain = |lattice: &Lattice, size: usize| {
            matches!(lattice.taps[..], [(0, _)]) && lattice.read_step == 1 && lattice.count == size
        };
        if plain(y, from.height) && plain(x, from.width) {
            // A window of one element: the patches are the image.
            let plane = from.plane();
            let image = Matrix {
                data: source,
                offset: rows.start * from.width,
                row_stride: 1,
                col_stride: plane as isize,
            };
            product_of(dims, &weight, &image.lanes(n, k), accumulate, result, apart);
            return;
        }
        let (height, width) = (from.height, from.width);
        let patches = Patches { planes: source, height, width, y, x, first_row: rows.start };
        product_of(dims, &weight, &patches, accumulate, result, apart);
    }

    /// Computes a phase whose positions do not lie side by side: some rows at a time, aside.
    fn scattered(&self, phase: &Phase<'_, T>, source: &[T], bias: Option<&[T]>, result: &mut [T]) {
        let (y, x, to) = (phase.y, phase.x, &self.to);
        let together = (ASIDE / (to.channels * x.count)).clamp(1, y.count);
        scratch::with(to.channels * together * x.count, |aside: &mut [T]| {
            for first in (0..y.count).step_by(together) {
                let rows = first..y.count.min(first + together);
                let apart = rows.len() * x.count;
                let aside = &mut aside[..to.channels * apart];
                if bias.is_some() {
                    start(aside, apart, bias);
                }
                self.product(phase, rows.clone(), source, bias.is_some(), aside, apart);
                for (channel, numbers) in aside.chunks_exact(apart).enumerate() {
                    let plane = &mut result[channel * to.plane()..][..to.plane()];
                    scatter(numbers, rows.start, y, x, to.width, plane);
                }
            }
        });
    }
}

/// Writes rows of a phase, the first of which is `first`, to their places in a plane.
pub(super) fn scatter<T: Copy>(
    numbers: &[T],
    first: usize,
    y: &Lattice,
    x: &Lattice,
    width: usize,
    plane: &mut [T],
) {
    for (row, numbers) in numbers.chunks_exact(x.count).enumerate() {
        let at = (y.first + (first + row) * y.step) * width + x.first;
        if x.step == 1 {
            plane[at..at + x.count].copy_from_slice(numbers);
            continue;
        }
        let to = plane[at..].iter_mut().step_by(x.step);
        for (to, &number) in to.zip(numbers) {
            *to = number;
        }
    }
}

/// Fills planes with their channel's bias, or zeros.
fn start<T: Element>(planes: &mut [T], plane: usize, bias: Option<&[T]>) {
    let zero = [T::narrow(T::Acc::ZERO)];
    let values = bias.unwrap_or(&zero).iter().cycle();
    for (plane, &value) in planes.chunks_exact_mut(plane.max(1)).zip(values) {
        plane.fill(value);
    }
}

/// The weight as a correlation from filters to channels needs it, for each pair of lattices.
pub(super) fn exchanged<T: Element>(
    geometry: &Geometry,
    y: &[Lattice],
    x: &[Lattice],
    weight: &[T],
) -> Vec<T> {
    let Geometry { groups, channels, filters, .. } = *geometry;
    let (taps, columns) = (geometry.taps(), geometry.x.kernel);
    let mut found = Vec::with_capacity(weight.len());
    for y in y {
        for x in x {
            for group in 0..groups {
                for channel in 0..channels {
                    for filter in 0..filters {
                        let window = ((group * filters + filter) * channels + channel) * taps;
                        for &(_, row) in &y.taps {
                            for &(_, column) in &x.taps {
                                found.push(weight[window + row * columns + column]);
                            }
                        }
                    }
                }
            }
        }
    }
    found
}
