//! Convolutions over three axes, as convolutions over two of them: at each position along the depth, the
//! planes that a window sees there are so many more channels of one image. The sums are those of one
//! product, whatever the depth of the kernel.

use super::window::convolve;
use crate::exec::convolve::Pass;
use crate::ops::operation::Spec;
use crate::ops::shape::PART;
use crate::tensor::expect_room;
use crate::{Result, Shape, Tensor, ops};
use extensor_kernels::conv::{Axis, Geometry, Lattice};
use smallvec::SmallVec;

/// How windows slide over volumes: over planes, which are volumes of depth 1, likewise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    pub planes: Geometry,
    pub depth: Axis,
}

impl Volume {
    /// Whether there is nothing but planes.
    pub fn is_flat(&self) -> bool {
        let Axis { input, output, kernel, .. } = self.depth;
        (input, output, kernel) == (1, 1, 1) && self.depth.padding == 0
    }

    /// The convolution of `x`.
    pub fn slide(
        &self,
        op: &'static str,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        spec: Spec,
    ) -> Result<Tensor> {
        let lattice = &Lattice::forward(&self.depth)[0];
        let seen = windows(x, lattice)?;
        let geometry = self.images(lattice, self.planes.channels * self.depth.kernel);
        let Geometry { groups, filters, channels, y, x, .. } = geometry;
        let weight = shaped(weight, &[groups * filters, channels, y.kernel, x.kernel])?;
        let images = [geometry.images, groups * filters, y.output, x.output];
        let images = Spec { shape: Shape::from(images), dtype: spec.dtype };
        let pass = Pass::Forward { bias: bias.is_some() };
        let result = convolve(op, pass, &geometry, [&seen, &weight], bias, images)?;
        self.apart(&result, lattice.count)?.contiguous()
    }

    /// The gradient for the input of a convolution; also the transposed convolution of `grad`: positions of
    /// one remainder modulo the stride at a time, which have their taps in common.
    pub fn scatter(
        &self,
        op: &'static str,
        grad: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        spec: Spec,
    ) -> Result<Tensor> {
        let Geometry { groups, channels, filters, y, x, .. } = self.planes;
        let stride = self.depth.stride;
        if spec.shape.contains(&0) {
            return Tensor::zeros(spec.shape, spec.dtype);
        }
        expect_room(op, stride.min(self.depth.input), PART)?;
        let lattices = Lattice::backward(&self.depth);
        let most = self.depth.input.div_ceil(stride);
        let mut parts: Vec<Tensor> = Vec::new();
        for first in 0..stride.min(self.depth.input) {
            let found = lattices.iter().find(|lattice| lattice.first == first);
            let Some(lattice) = found.filter(|lattice| lattice.count > 0) else {
                parts.push(self.unreached(bias, most, &spec)?);
                continue;
            };
            let taps = lattice.taps.len();
            let geometry = Geometry { filters: filters * taps, ..self.images(lattice, channels) };
            let seen = windows(grad, lattice)?;
            let taken: SmallVec<[Tensor; 4]> = lattice
                .taps
                .iter()
                .map(|&(_, tap)| ops::slice(weight, 2, tap as i64, tap as i64 + 1, 1))
                .collect::<Result<_>>()?;
            let taken: SmallVec<[Tensor; 4]> = taken
                .iter()
                .map(|weight| ops::transpose(weight, [0, 2, 1, 3, 4]))
                .collect::<Result<_>>()?;
            let taken = ops::concatenate(&taken, 1)?;
            let taken = shaped(&taken, &[groups * filters * taps, channels, y.kernel, x.kernel])?;
            let images = [geometry.images, groups * channels, y.input, x.input];
            let images = Spec { shape: Shape::from(images), dtype: spec.dtype };
            let pass = Pass::Images { bias: bias.is_some() };
            let result = convolve(op, pass, &geometry, [&seen, &taken], bias, images)?;
            let part = self.apart(&result, lattice.count)?;
            let missing = (most - lattice.count) as i64;
            let none = (0, 0);
            parts.push(match missing {
                0 => part,
                _ => ops::pad(&part, [none, none, (0, missing), none, none], 0.0)?,
            });
        }
        if let [whole] = &parts[..] {
            return whole.contiguous();
        }
        // One remainder beside the other.
        let beside = ops::stack(&parts, 3)?;
        let mut shape = spec.shape.clone();
        shape.set(2, most * parts.len());
        let all = ops::reshape(&beside, &shape)?;
        ops::slice(&all, 2, 0, self.depth.input as i64, 1)?.contiguous()
    }

    /// The gradient for the weight of a convolution.
    pub fn weigh(&self, op: &'static str, grad: &Tensor, x: &Tensor, spec: Spec) -> Result<Tensor> {
        let lattice = &Lattice::forward(&self.depth)[0];
        let geometry = self.images(lattice, self.planes.channels * self.depth.kernel);
        let Geometry { groups, filters, channels, y, x: across, .. } = geometry;
        let images = ops::transpose(grad, [0, 2, 1, 3, 4])?;
        let images =
            shaped(&images, &[geometry.images, groups * filters, y.output, across.output])?;
        let weight = [groups * filters, channels, y.kernel, across.kernel];
        let weight = Spec { shape: Shape::from(weight), dtype: spec.dtype };
        let seen = windows(x, lattice)?;
        let sums = convolve(op, Pass::Weights, &geometry, [&images, &seen], None, weight)?;
        ops::reshape(&sums, &spec.shape)
    }

    /// The images of a lattice's positions, of so many channels in a group.
    fn images(&self, lattice: &Lattice, channels: usize) -> Geometry {
        let images = self.planes.images * lattice.count;
        Geometry { images, channels, ..self.planes }
    }

    /// Images of so many positions each as volumes.
    fn apart(&self, images: &Tensor, count: usize) -> Result<Tensor> {
        let mut shape = Shape::from([self.planes.images, count]);
        images.shape()[1..].iter().for_each(|&size| shape.push(size));
        ops::transpose(&ops::reshape(images, &shape)?, [0, 2, 1, 3, 4])
    }

    /// Planes that no window reaches: `most` of them in each volume.
    fn unreached(&self, bias: Option<&Tensor>, most: usize, spec: &Spec) -> Result<Tensor> {
        let mut shape = spec.shape.clone();
        shape.set(2, most);
        match bias {
            Some(bias) => {
                let bias = ops::reshape(bias, Shape::from([1, bias.len(), 1, 1, 1]))?;
                ops::broadcast_to(&bias, &shape)
            }
            None => Tensor::constant(0.0, &shape, spec.dtype),
        }
    }
}

/// What the taps of a lattice see of volumes `[volumes, channels, depth, height, width]`, for each of its
/// positions: images, `[volumes · positions, channels · taps, height, width]`.
fn windows(x: &Tensor, lattice: &Lattice) -> Result<Tensor> {
    let Lattice { count, read_step, ref taps, .. } = *lattice;
    let depth = x.shape()[2] as isize;
    let reach = ((count - 1) * read_step) as isize;
    let first = taps.iter().map(|&(at, _)| at).min().unwrap_or(0);
    let last = taps.iter().map(|&(at, _)| at + reach).max().unwrap_or(0);
    let (before, after) = ((-first).max(0), (last + 1 - depth).max(0));
    let padded = if before + after > 0 {
        let none = (0, 0);
        ops::pad(x, [none, none, (before as i64, after as i64), none, none], 0.0)?
    } else {
        x.clone()
    };
    let seen: SmallVec<[Tensor; 4]> = taps
        .iter()
        .map(|&(at, _)| {
            let start = (at + before) as i64;
            let part = ops::slice(&padded, 2, start, start + reach as i64 + 1, read_step as i64)?;
            ops::transpose(&ops::expand_dims(&part, 2)?, [0, 3, 1, 2, 4, 5])
        })
        .collect::<Result<_>>()?;
    let seen = if let [one] = &seen[..] { one.clone() } else { ops::concatenate(&seen, 3)? };
    let [volumes, channels, ..] = x.shape()[..] else { return seen.contiguous() };
    shaped(&seen, &[volumes * count, channels * taps.len(), x.shape()[3], x.shape()[4]])
}

/// The elements in row-major order, in another shape.
fn shaped(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    ops::reshape(&x.contiguous()?, Shape::from(shape))
}
