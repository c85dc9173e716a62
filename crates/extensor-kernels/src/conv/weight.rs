//! The gradient for the weights: for each filter, channel and tap, the products of the output's
//! gradient and what the tap sees, summed over all positions of all images.
//!
//! Images are taken in parts, whose sums are added in order. How many there are depends on the
//! sizes alone.

use super::direct::{LANES, Products, Strips, total};
use super::geometry::{Geometry, Lattice};
use super::patches::{Patches, Turned};
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
    let work = weights.saturating_mul(geometry.output_plane());
    let most = (BYTES / size_of::<T::Acc>() / dweight.len()).min(PARTS);
    let parts = most.min(images.saturating_mul(work).saturating_mul(groups) / PART).min(images);
    let together = images.div_ceil(parts.max(1));
    let parts = images.div_ceil(together);
    let few = geometry.few();
    scratch::with(parts * dweight.len(), |sums: &mut [T::Acc]| {
        sum(geometry, grad, x, together, sums);
        finish(geometry, few, sums, dweight);
    });
}

/// Computes the sums of all parts, each of `together` images.
fn sum<T: Element>(geometry: &Geometry, grad: &[T], x: &[T], together: usize, sums: &mut [T::Acc]) {
    let Geometry { images, groups, .. } = *geometry;
    let (weights, few) = (geometry.weights(), geometry.few());
    let work = weights.saturating_mul(geometry.output_plane());
    let (y, x_axis) = (&Lattice::forward(&geometry.y)[0], &Lattice::forward(&geometry.x)[0]);
    let part = Part { geometry, y, x: x_axis, grad, image: x };
    let tasks = sums.len() / weights;
    let shared = Shared::new(sums);
    let one = |task: usize| {
        let (part_number, group) = (task / groups, task % groups);
        let images = part_number * together..images.min((part_number + 1) * together);
        // SAFETY: the sums of one group in one part, which no other task has.
        let sums = unsafe { shared.part(task * weights, (task + 1) * weights) };
        if few {
            part.direct(group, images, sums);
        } else {
            part.product(group, images, sums);
        }
    };
    let within = if few || work < PART { 1 } else { par::within(tasks) };
    par::parallel_for(tasks, &|task| par::with_threads(within, || one(task)));
}

/// What a part's sums are made of.
struct Part<'a, T> {
    geometry: &'a Geometry,
    y: &'a Lattice,
    x: &'a Lattice,
    grad: &'a [T],
    image: &'a [T],
}

impl<T: Element> Part<'_, T> {
    /// The planes of a group in an image: of the output's gradient and of the input.
    fn planes(&self, image: usize, group: usize) -> (&[T], &[T]) {
        let g = self.geometry;
        let (grad, input) = (g.filters * g.output_plane(), g.channels * g.input_plane());
        let at = image * g.groups + group;
        (&self.grad[at * grad..][..grad], &self.image[at * input..][..input])
    }

    /// Sums as a product: a row for each channel and tap, a column for each filter.
    fn product(&self, group: usize, images: Range<usize>, sums: &mut [T::Acc]) {
        let g = self.geometry;
        let dims = Dims { m: g.channels * g.taps(), k: g.output_plane(), n: g.filters };
        let first = images.start;
        for image in images {
            let (grad, planes) = self.planes(image, group);
            let grad = Matrix::row_major(grad, dims.k).lanes(dims.n, dims.k);
            let patches = Turned(Patches {
                planes,
                height: g.y.input,
                width: g.x.input,
                channels: g.channels,
                images: 1,
                apart: 0,
                y: self.y,
                x: self.x,
                first_row: 0,
            });
            sums_of::<T>(dims, &patches, &grad, image > first, sums, dims.n);
        }
    }

    /// Sums by loops along rows: for each filter, in order, its channels and taps.
    fn direct(&self, group: usize, images: Range<usize>, sums: &mut [T::Acc]) {
        let g = self.geometry;
        let strips = Strips::new(g.y.input, g.x.input, self.y, self.x);
        let (rows, columns, taps) = (g.y.output, g.x.output, g.taps());
        let (input, output) = (g.input_plane(), g.output_plane());
        let mut parts = stop::room([T::Acc::ZERO; LANES], sums.len());
        let room = strips.len() + if T::WIDE { 0 } else { strips.together * columns };
        scratch::with(room, |room: &mut [T::Acc]| {
            let (strip, gradient) = room.split_at_mut(strips.len());
            for image in images {
                let (grad, planes) = self.planes(image, group);
                for first in (0..rows).step_by(strips.together) {
                    let rows = first..rows.min(first + strips.together);
                    for channel in 0..g.channels {
                        strips.fill(&planes[channel * input..][..input], rows.clone(), strip);
                        for filter in 0..g.filters {
                            let start = filter * output + rows.start * columns;
                            let grad = &grad[start..][..rows.len() * columns];
                            let grad = if T::WIDE {
                                // SAFETY: `T` is `T::Acc`.
                                unsafe {
                                    std::slice::from_raw_parts(grad.as_ptr().cast(), grad.len())
                                }
                            } else {
                                T::widen_slice(grad, &mut gradient[..grad.len()]);
                                &gradient[..grad.len()]
                            };
                            dispatch(Products {
                                strip,
                                next_row: strips.next_row(),
                                taps: &strips.taps,
                                grad,
                                columns,
                                sums: &mut parts[(filter * g.channels + channel) * taps..][..taps],
                            });
                        }
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
fn finish<T: Element>(geometry: &Geometry, few: bool, sums: &[T::Acc], dweight: &mut [T]) {
    let (all, weights) = (dweight.len(), geometry.weights());
    // In a product's sums, filters are the columns.
    let row = weights / geometry.filters;
    let (along, across) = if few { (1, row) } else { (geometry.filters, 1) };
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
