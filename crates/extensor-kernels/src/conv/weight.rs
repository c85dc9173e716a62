//! The gradient for the weights: for each filter, channel and tap, the products of the output's
//! gradient and what the tap sees, summed over all positions of all images.
//!
//! Images are taken in parts, whose sums are added in order. How many there are depends on the
//! sizes alone.

use super::correlate::Along;
use super::direct::{LANES, Products, STRIP, Strips, plane_seen, total};
use super::geometry::{Geometry, Lattice};
use super::patches::{Gradients, Patches, Turned};
use crate::gemm::simd::dispatch;
use crate::gemm::{Dims, Element, Matrix, Real, scratch, sums_of};
use crate::par::{self, Shared};
use crate::stop;
use std::ops::Range;

/// The most parts, and bytes that their sums take in all.
const PARTS: usize = 32;
const BYTES: usize = 16 << 20;

/// Multiply-adds that a part has at least.
const PART: usize = 1 << 18;

/// Positions that a part has at least: its sums have to be begun, and added to the others.
const POSITIONS: usize = 512;

/// Positions of the images that a product goes through at a time, nearly: each reads and writes all
/// sums.
const DEPTH: usize = 512;

/// Filters that are brought from the products' order to the weight's at a time.
const TOGETHER: usize = 16;

pub(super) fn gradient<T: Element>(geometry: &Geometry, grad: &[T], x: &[T], dweight: &mut [T]) {
    let Geometry { images, groups, .. } = *geometry;
    let weights = geometry.weights();
    if dweight.is_empty() {
        return;
    }
    if x.is_empty() || grad.is_empty() {
        dweight.fill(T::narrow(T::Acc::ZERO));
        return;
    }
    let by_rows = geometry.weights_by_rows::<T>();
    let work = weights.saturating_mul(geometry.output_volume());
    let most = (BYTES / size_of::<T::Acc>() / dweight.len()).min(PARTS);
    let parts = most.min(images.saturating_mul(work).saturating_mul(groups) / PART).min(images);
    let parts = parts.min(images.saturating_mul(geometry.output_volume()) / POSITIONS);
    let together = images.div_ceil(parts.max(1));
    let parts = images.div_ceil(together);
    scratch::with(parts * dweight.len(), |sums: &mut [T::Acc]| {
        sum(geometry, grad, x, together, sums);
        finish(geometry, by_rows, sums, dweight);
    });
}

/// Computes the sums of all parts, each of `together` images.
fn sum<T: Element>(geometry: &Geometry, grad: &[T], x: &[T], together: usize, sums: &mut [T::Acc]) {
    let Geometry { images, groups, .. } = *geometry;
    let (weights, by_rows) = (geometry.weights(), geometry.weights_by_rows::<T>());
    let work = weights.saturating_mul(geometry.output_volume());
    let along =
        [&geometry.z, &geometry.y, &geometry.x].map(|axis| Lattice::forward(axis).remove(0));
    let at = Along { z: &along[0], y: &along[1], x: &along[2] };
    let part = Part { geometry, at, grad, image: x };
    let tasks = sums.len() / weights;
    let shared = Shared::new(sums);
    let one = |task: usize| {
        let (part_number, group) = (task / groups, task % groups);
        let images = part_number * together..images.min((part_number + 1) * together);
        // SAFETY: the sums of one group in one part, which no other task has.
        let sums = unsafe { shared.part(task * weights, (task + 1) * weights) };
        if by_rows {
            part.direct(group, images, sums);
        } else {
            part.product(group, images, sums);
        }
    };
    let within = if by_rows || work < PART { 1 } else { par::within(tasks) };
    par::parallel_for(tasks, &|task| par::with_threads(within, || one(task)));
}

/// What a part's sums are made of.
struct Part<'a, T> {
    geometry: &'a Geometry,
    at: Along<'a>,
    grad: &'a [T],
    image: &'a [T],
}

impl<T: Element> Part<'_, T> {
    /// Where the output's gradient of a group in an image begins.
    fn grad_at(&self, image: usize, group: usize) -> usize {
        let g = self.geometry;
        (image * g.groups + group) * g.filters * g.output_volume()
    }

    /// Where the channels of a group in an image begin.
    fn image_at(&self, image: usize, group: usize) -> usize {
        let g = self.geometry;
        (image * g.groups + group) * g.channels * g.input_volume()
    }

    /// Sums as a product: a row for each channel and tap, a column for each filter.
    fn product(&self, group: usize, images: Range<usize>, sums: &mut [T::Acc]) {
        let g = self.geometry;
        let positions = g.output_volume();
        // Numbers of reduced precision are widened an image at a time.
        let together = if T::WIDE { (DEPTH / positions).max(1) } else { 1 };
        let first = images.start;
        for image in images.clone().step_by(together) {
            let some = together.min(images.end - image);
            let dims = Dims { m: g.channels * g.taps(), k: some * positions, n: g.filters };
            let patches = Turned(Patches {
                volumes: &self.image[self.image_at(image, group)..],
                depth: g.z.input,
                height: g.y.input,
                width: g.x.input,
                channels: g.channels,
                images: some,
                apart: g.groups * g.channels * g.input_volume(),
                at: self.at,
                first_row: 0,
            });
            let planes = &self.grad[self.grad_at(image, group)..];
            let go_on = image > first;
            if some == 1 {
                let grad = Matrix::row_major(planes, positions).lanes(g.filters, positions);
                sums_of::<T>(dims, &patches, &grad, go_on, sums, dims.n);
            } else {
                let (filters, apart) = (g.filters, g.groups * g.filters * positions);
                let grad = Gradients { planes, filters, positions, images: some, apart };
                sums_of::<T>(dims, &patches, &grad, go_on, sums, dims.n);
            }
        }
    }

    /// Sums by loops along rows: for each filter, in order, its channels and taps.
    fn direct(&self, group: usize, images: Range<usize>, sums: &mut [T::Acc]) {
        let g = self.geometry;
        let Along { z, y, x } = self.at;
        let strips = Strips::new(g.y.input, g.x.input, 1, y, x);
        let (rows, columns, taps) = (y.count, x.count, y.taps.len() * x.taps.len());
        let (input, output, apart) = (g.input_plane(), g.output_plane(), g.output_volume());
        let mut parts = stop::room([T::Acc::ZERO; LANES], sums.len());
        // Several planes at a time, of as many images, if the strips of whole planes are small.
        let together = match strips.together == rows && z.count == 1 {
            true => (STRIP / strips.len()).clamp(1, images.len().max(1)),
            false => 1,
        };
        let next = g.groups * g.filters * apart;
        let wide = if T::WIDE { 0 } else { together * g.filters * strips.together * columns };
        scratch::with(together * strips.len() + wide, |room: &mut [T::Acc]| {
            let (strip, wide) = room.split_at_mut(together * strips.len());
            let starts = images.clone().step_by(together);
            for (image, position) in starts.flat_map(|i| (0..z.count).map(move |at| (i, at))) {
                let some = image..images.end.min(image + together);
                let strip = &mut strip[..some.len() * strips.len()];
                for first in (0..rows).step_by(strips.together) {
                    let rows = first..rows.min(first + strips.together);
                    let size = rows.len() * columns;
                    let grads = |image: usize| {
                        &self.grad[self.grad_at(image, group) + position * output..]
                            [first * columns..]
                    };
                    let (grad, apart, next) = if T::WIDE {
                        let part = grads(image);
                        // SAFETY: `T` is `T::Acc`.
                        let grad =
                            unsafe { std::slice::from_raw_parts(part.as_ptr().cast(), part.len()) };
                        (grad, apart, next)
                    } else {
                        for (image, wide) in
                            some.clone().zip(wide.chunks_exact_mut(g.filters * size))
                        {
                            let part = grads(image);
                            for (filter, wide) in wide.chunks_exact_mut(size).enumerate() {
                                T::widen_slice(&part[filter * apart..][..size], wide);
                            }
                        }
                        (&*wide, size, g.filters * size)
                    };
                    for seen in 0..g.channels * z.taps.len() {
                        let (channel, tap) = (seen / z.taps.len(), z.taps[seen % z.taps.len()].0);
                        let plane = plane_seen(z, position, tap, g.z.input);
                        for (image, strip) in some.clone().zip(strip.chunks_exact_mut(strips.len()))
                        {
                            let at = self.image_at(image, group) + channel * g.input_volume();
                            let plane = plane.map(|plane| at + plane * input);
                            let plane = plane.map(|at| &self.image[at..][..input]);
                            strips.fill(plane, rows.clone(), strip);
                        }
                        dispatch(Products {
                            strip: &*strip,
                            strip_len: strips.len(),
                            next_row: strips.next_row(),
                            taps: &strips.taps,
                            grad,
                            apart,
                            image: next,
                            filters: g.filters,
                            rows: rows.len(),
                            columns,
                            sums: &mut parts[seen * taps..],
                            step: g.channels * g.taps(),
                        });
                    }
                }
            }
        });
        for (sum, parts) in sums.iter_mut().zip(parts) {
            *sum = total(parts);
        }
    }
}

/// Adds up the parts in order, brings the sums to the weight's order and rounds them.
fn finish<T: Element>(geometry: &Geometry, by_rows: bool, sums: &[T::Acc], dweight: &mut [T]) {
    let (all, weights) = (dweight.len(), geometry.weights());
    // In a product's sums, filters are the columns.
    let row = weights / geometry.filters;
    let (along, across) = if by_rows { (1, row) } else { (geometry.filters, 1) };
    par::parallel_chunks(dweight, TOGETHER * row, &|start, out| {
        scratch::with(out.len(), |wide: &mut [T::Acc]| {
            for (part, sums) in sums.chunks_exact(all).enumerate() {
                let mut filter = start / row;
                let mut done = 0;
                // As many filters of one group as there are.
                while done < out.len() {
                    let group = filter / geometry.filters;
                    let within = filter % geometry.filters;
                    let some = (geometry.filters - within).min((out.len() - done) / row);
                    let sums = &sums[group * weights..][..weights];
                    for k in 0..row {
                        for f in 0..some {
                            let sum = sums[k * along + (within + f) * across];
                            let to = &mut wide[done + f * row + k];
                            *to = if part == 0 { sum } else { to.plus(sum) };
                        }
                    }
                    filter += some;
                    done += some * row;
                }
            }
            T::narrow_slice(wide, out);
        });
    });
}
