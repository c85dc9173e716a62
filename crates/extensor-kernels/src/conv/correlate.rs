//! Planes, and volumes, computed from the windows of others.

use super::direct;
use super::geometry::{Geometry, Lattice};
use super::patches::Patches;
use crate::gemm::{Dims, Element, Matrix, Real, product_of, scratch};
use crate::par::{self, Shared};
use std::borrow::Cow;
use std::ops::Range;

/// The volumes that a group has in an image, one for each channel.
#[derive(Clone, Copy)]
pub(super) struct Volumes {
    pub channels: usize,
    pub depth: usize,
    pub height: usize,
    pub width: usize,
}

impl Volumes {
    pub(super) fn plane(&self) -> usize {
        self.height.saturating_mul(self.width)
    }

    pub(super) fn volume(&self) -> usize {
        self.depth.saturating_mul(self.plane())
    }

    fn size(&self) -> usize {
        self.channels.saturating_mul(self.volume())
    }
}

/// Numbers of the result that are computed aside at a time, nearly, if they do not lie side by side.
const ASIDE: usize = 1 << 17;

/// Positions of an image below which several images are computed together, and how many positions
/// they then have, nearly.
const SMALL: usize = 240;
const LANES: usize = 480;

/// Multiply-adds that a task has at least, if there is a choice.
const TASK: usize = 1 << 16;

/// A correlation: for each choice of lattices, the positions of the result that it stands for are
/// products of weights and patches.
pub(super) struct Correlation<'a, T: Clone> {
    pub geometry: &'a Geometry,
    pub from: Volumes,
    pub to: Volumes,
    /// Those along each axis: of depth, height and width.
    pub lattices: [Vec<Lattice>; 3],
    /// For each choice of lattices (those of the first axis in the outer loop) and group: a row
    /// for each channel of the result, a column for each channel and tap of what it is made of.
    pub weight: Cow<'a, [T]>,
    pub bias: Option<&'a [T]>,
}

/// A lattice along each axis, with the weights for one group.
struct Phase<'a, T> {
    at: Along<'a>,
    weight: &'a [T],
}

/// A lattice along each axis.
#[derive(Clone, Copy)]
pub(super) struct Along<'a> {
    pub z: &'a Lattice,
    pub y: &'a Lattice,
    pub x: &'a Lattice,
}

impl Along<'_> {
    /// How many taps a window has.
    pub(super) fn taps(&self) -> usize {
        self.z.taps.len() * self.y.taps.len() * self.x.taps.len()
    }

    /// Rows of positions that an image has.
    pub(super) fn rows(&self) -> usize {
        self.z.count * self.y.count
    }
}

impl<T: Element> Correlation<'_, T> {
    pub(super) fn run(&self, source: &[T], result: &mut [T]) {
        let Geometry { images, groups, .. } = *self.geometry;
        let (from, to) = (self.from.size(), self.to.size());
        if result.is_empty() {
            return;
        }
        let work = to.saturating_mul(self.from.channels * self.geometry.taps()).max(1);
        let all = work.saturating_mul(images).saturating_mul(groups);
        let threads = if all < 2 * TASK { 1 } else { par::threads() };
        let together = self.together(threads);
        let parts = images.div_ceil(together);
        let shared = Shared::new(result);
        let one = |task: usize| {
            let (part, group) = (task / groups, task % groups);
            let some = part * together..images.min((part + 1) * together);
            let source = &source[(some.start * groups + group) * from..];
            // SAFETY: the planes of one group in some images, which no other task has.
            let result = |image: usize| unsafe {
                let at = (image * groups + group) * to;
                shared.part(at, at + to)
            };
            if some.len() == 1 {
                self.group(group, &source[..from], result(some.start));
            } else {
                self.images(group, source, some, &result);
            }
        };
        let (tasks, work) = (parts * groups, work * together);
        if threads == 1 {
            par::with_threads(1, || (0..tasks).for_each(one));
        } else {
            let some = (TASK / work).clamp(1, tasks.div_ceil(threads));
            // Those that have nothing left to do help with the products of others.
            let within = if work < 4 * TASK { 1 } else { par::within(tasks) };
            par::parallel_for(tasks.div_ceil(some), &|task| {
                par::with_threads(within, || {
                    (task * some..tasks.min((task + 1) * some)).for_each(one);
                });
            });
        }
    }

    /// How many images to compute in one product: several if they are small, so that registers are
    /// filled, but few enough for all threads to have some. It does not show in the result.
    fn together(&self, threads: usize) -> usize {
        let Geometry { images, groups, .. } = *self.geometry;
        let phases: usize = self.lattices.iter().map(Vec::len).product();
        let positions = self.to.volume() / phases.max(1);
        let empty = self.from.size() == 0 || phases == 0;
        let plain = self.phases(0).all(|phase| self.is_plain(phase.at));
        if !T::WIDE || self.geometry.by_rows::<T>() || empty || plain || positions >= SMALL {
            return 1;
        }
        let fair = if threads == 1 { images } else { images * groups / (4 * threads) };
        (LANES / positions.max(1)).min(fair).clamp(1, images)
    }

    /// Whether a window is of one element, so that the patches are the image.
    fn is_plain(&self, at: Along<'_>) -> bool {
        let plain = |lattice: &Lattice, size: usize| {
            matches!(lattice.taps[..], [(0, _)]) && lattice.read_step == 1 && lattice.count == size
        };
        let Volumes { depth, height, width, .. } = self.from;
        plain(at.z, depth) && plain(at.y, height) && plain(at.x, width)
    }

    /// Whether the result is one phase.
    fn is_whole(&self) -> bool {
        let whole = |lattices: &[Lattice], size: usize| matches!(lattices, [only] if only.step == 1 && only.count == size);
        let sizes = [self.to.depth, self.to.height, self.to.width];
        self.lattices.iter().zip(sizes).all(|(lattices, size)| whole(lattices, size))
    }

    fn bias(&self, group: usize) -> Option<&[T]> {
        self.bias.map(|bias| &bias[group * self.to.channels..][..self.to.channels])
    }

    /// The phases of a group.
    fn phases(&self, group: usize) -> impl Iterator<Item = Phase<'_, T>> {
        let mut before = 0;
        let all = choices(&self.lattices).map(move |at| {
            let size = self.to.channels * self.from.channels * at.taps();
            let weight = &self.weight[before + group * size..][..size];
            before += self.geometry.groups * size;
            Phase { at, weight }
        });
        all.filter(|phase| phase.at.rows() > 0 && phase.at.x.count > 0)
    }

    /// Computes the planes of one group of one image.
    fn group(&self, group: usize, source: &[T], result: &mut [T]) {
        let (from, to, bias) = (&self.from, &self.to, self.bias(group));
        let (whole, by_rows) = (self.is_whole(), self.geometry.by_rows::<T>());
        // Nothing else is written where no window reaches.
        if !whole || (bias.is_some() && !by_rows) || source.is_empty() {
            start(result, to.volume(), bias);
        }
        if source.is_empty() {
            return;
        }
        for phase in self.phases(group) {
            let Phase { at, weight } = phase;
            if by_rows {
                direct::correlate(from, to, at, weight, bias, source, result);
            } else if whole {
                self.product(&phase, source, 1, 0..at.rows(), bias.is_some(), result, to.volume());
            } else {
                self.aside(&phase, source, 1, bias, |numbers, _, first| {
                    scatter(numbers, at.y, at.x, to.width, &mut result[first..]);
                });
            }
        }
    }

    /// Computes the planes of one group of some images, the first of which is at the beginning of
    /// `source`.
    fn images<'b>(
        &self,
        group: usize,
        source: &[T],
        images: Range<usize>,
        result: &(dyn Fn(usize) -> &'b mut [T] + 'b),
    ) {
        let (to, bias) = (&self.to, self.bias(group));
        if !self.is_whole() {
            images.clone().for_each(|image| start(result(image), to.volume(), bias));
        }
        for phase in self.phases(group) {
            let Along { y, x, .. } = phase.at;
            self.aside(&phase, source, images.len(), bias, |numbers, image, first| {
                let result = result(images.start + image);
                scatter(numbers, y, x, to.width, &mut result[first..]);
            });
        }
    }

    /// Computes `rows` of a phase, counted through all images; those of channel `c` begin at
    /// `c * apart` of `result`.
    #[expect(clippy::too_many_arguments, reason = "what a product is made of")]
    fn product(
        &self,
        phase: &Phase<'_, T>,
        source: &[T],
        images: usize,
        rows: Range<usize>,
        accumulate: bool,
        result: &mut [T],
        apart: usize,
    ) {
        let Phase { at, weight } = *phase;
        let Volumes { channels, depth, height, width } = self.from;
        let (m, n) = (self.to.channels, rows.len() * at.x.count);
        let k = channels * at.taps();
        let dims = Dims { m, k, n };
        let weight = Matrix::row_major(weight, k).lanes(m, k);
        if images == 1 && self.is_plain(at) {
            let image = Matrix {
                data: source,
                offset: rows.start * width,
                row_stride: 1,
                col_stride: self.from.volume() as isize,
            };
            product_of(dims, &weight, &image.lanes(n, k), accumulate, result, apart);
            return;
        }
        let patches = Patches {
            volumes: source,
            depth,
            height,
            width,
            channels,
            images,
            apart: self.from.size() * self.geometry.groups,
            at,
            first_row: rows.start,
        };
        product_of(dims, &weight, &patches, accumulate, result, apart);
    }

    /// Computes a phase whose positions do not lie side by side in the result: some rows at a time,
    /// aside. `write` gets the numbers of whole rows of one plane, with the image and where in it the
    /// first row begins.
    fn aside(
        &self,
        phase: &Phase<'_, T>,
        source: &[T],
        images: usize,
        bias: Option<&[T]>,
        mut write: impl FnMut(&[T], usize, usize),
    ) {
        let (Along { z, y, x }, to) = (phase.at, &self.to);
        let (all, channels) = (images * phase.at.rows(), to.channels);
        let together = (ASIDE / (channels * x.count)).clamp(1, all);
        scratch::with(channels * together * x.count, |aside: &mut [T]| {
            for first in (0..all).step_by(together) {
                let rows = first..all.min(first + together);
                let apart = rows.len() * x.count;
                let aside = &mut aside[..channels * apart];
                if bias.is_some() {
                    start(aside, apart, bias);
                }
                self.product(phase, source, images, rows.clone(), bias.is_some(), aside, apart);
                for (channel, numbers) in aside.chunks_exact(apart).enumerate() {
                    let mut row = rows.start;
                    while row < rows.end {
                        let (plane, within) = (row / y.count, row % y.count);
                        let end = rows.end.min((plane + 1) * y.count);
                        let part = (row - rows.start) * x.count..(end - rows.start) * x.count;
                        let (image, plane) = (plane / z.count, plane % z.count);
                        let plane = channel * to.depth + z.first + plane * z.step;
                        let first = plane * to.height + y.first + within * y.step;
                        write(&numbers[part], image, first * to.width);
                        row = end;
                    }
                }
            }
        });
    }
}

/// Writes rows of a phase to where they belong, from the first one's row of the plane on.
pub(super) fn scatter<T: Copy>(
    numbers: &[T],
    y: &Lattice,
    x: &Lattice,
    width: usize,
    plane: &mut [T],
) {
    for (row, numbers) in numbers.chunks_exact(x.count).enumerate() {
        let at = row * y.step * width + x.first;
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

/// Fills volumes with their channel's bias, or zeros.
fn start<T: Element>(volumes: &mut [T], volume: usize, bias: Option<&[T]>) {
    let zero = [T::narrow(T::Acc::ZERO)];
    let values = bias.unwrap_or(&zero).iter().cycle();
    for (volume, &value) in volumes.chunks_exact_mut(volume.max(1)).zip(values) {
        volume.fill(value);
    }
}

/// Every choice of a lattice along each axis, those of the last the fastest.
fn choices(lattices: &[Vec<Lattice>; 3]) -> impl Iterator<Item = Along<'_>> {
    let [z, y, x] = lattices;
    let pairs = z.iter().flat_map(move |z| y.iter().map(move |y| (z, y)));
    pairs.flat_map(move |(z, y)| x.iter().map(move |x| Along { z, y, x }))
}

/// The weight as a correlation from filters to channels needs it, for each choice of lattices.
pub(super) fn exchanged<T: Element>(
    geometry: &Geometry,
    lattices: &[Vec<Lattice>; 3],
    weight: &[T],
) -> Vec<T> {
    let Geometry { groups, channels, filters, .. } = *geometry;
    let [rows, columns] = [geometry.y.kernel, geometry.x.kernel];
    let mut found = Vec::with_capacity(weight.len());
    for Along { z, y, x } in choices(lattices) {
        for group in 0..groups {
            for channel in 0..channels {
                for filter in 0..filters {
                    let window = (group * filters + filter) * channels + channel;
                    for &(_, plane) in &z.taps {
                        for &(_, row) in &y.taps {
                            let row = (window * geometry.z.kernel + plane) * rows + row;
                            found.extend(x.taps.iter().map(|&(_, at)| weight[row * columns + at]));
                        }
                    }
                }
            }
        }
    }
    found
}
