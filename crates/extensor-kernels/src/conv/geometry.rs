//! Where windows lie: one computation of sizes for forward and backward alike.

use super::direct::LANES;
use crate::gemm::Element;

/// One axis of an image over which a window slides.
///
/// Position `o` of the window sees the elements `o·stride + t·dilation − padding` for `t` below
/// `kernel`, as far as they exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Elements of the image.
    pub input: usize,
    /// Positions of the window.
    pub output: usize,
    /// Elements that a window has.
    pub kernel: usize,
    /// From a position to the next; at least 1.
    pub stride: usize,
    /// Elements that count as zeros before the first and after the last.
    pub padding: usize,
    /// From an element of a window to the next; at least 1.
    pub dilation: usize,
}

impl Axis {
    /// An axis that images do not have: a single element, and a window that sees it.
    pub const SINGLE: Axis =
        Axis { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    /// The largest size that is computed with: sums of a few of these do not overflow.
    const LARGEST: usize = 1 << 48;

    /// The axis of a window sliding over `input` elements: as many positions as fit, none if the
    /// window is larger than the padded image. `None` if a size is too large to compute with, or if
    /// the kernel, stride or dilation is 0.
    pub fn over(
        input: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> Option<Axis> {
        let axis = Axis { input, output: 0, kernel, stride, padding, dilation };
        let extent = axis.extent()?;
        let padded = padding.checked_mul(2)?.checked_add(input)?;
        let output = padded.checked_sub(extent).map_or(0, |room| room / stride + 1);
        axis.with_output(output)
    }

    /// The axis of the image onto which windows at `output` positions scatter: what [`over`] gives
    /// `output` positions for, and `more` elements at its end. `None` as for [`over`], or if there
    /// would be fewer than no elements.
    ///
    /// [`over`]: Axis::over
    pub fn under(
        output: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        more: usize,
    ) -> Option<Axis> {
        let axis = Axis { input: 0, output, kernel, stride, padding, dilation };
        let extent = axis.extent()?;
        let reach = output.saturating_sub(1).checked_mul(stride)?.checked_add(extent)?;
        let input = reach.checked_add(more)?.checked_sub(padding.checked_mul(2)?)?;
        Axis { input, ..axis }.with_output(output)
    }

    /// Elements from the first of a window to the last.
    fn extent(&self) -> Option<usize> {
        if self.stride == 0 || self.dilation == 0 {
            return None;
        }
        self.kernel.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)
    }

    fn with_output(self, output: usize) -> Option<Axis> {
        let axis = Axis { output, ..self };
        let sizes = [axis.input, output, axis.extent()?, axis.stride, axis.padding, axis.dilation];
        sizes.iter().all(|&size| size <= Self::LARGEST).then_some(axis)
    }
}

/// The most numbers that loops along rows keep of all planes for a row of the result.
const LARGEST_STRIPS: usize = 1 << 22;

/// A convolution of a batch of images, channels in groups: `images` of `groups × channels` volumes
/// become `images` of `groups × filters` volumes. A volume of depth 1 is a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Images of the batch.
    pub images: usize,
    /// Groups, of which each sees only its own channels.
    pub groups: usize,
    /// Channels of the input in a group.
    pub channels: usize,
    /// Channels of the output in a group.
    pub filters: usize,
    /// The axis from plane to plane: [`Axis::SINGLE`] where there is one only.
    pub z: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The horizontal axis.
    pub x: Axis,
}

impl Geometry {
    /// Whether planes are computed faster by loops along rows than by products, which need patches
    /// copied: the fewer pairs of planes there are the more, and the more of the vectors rows fill.
    /// The loops have numbers of reduced precision to widen, and products a unit for them.
    pub(super) fn by_rows<T: Element>(&self) -> bool {
        let pairs = self.planes_seen().saturating_mul(self.filters);
        // Of four numbers that vectors compute, how many are to be wanted.
        let wanted = match pairs {
            0..=64 => 0,
            65..=256 if T::WIDE => 0,
            257..=1024 if T::WIDE => 3,
            1025..=4096 if T::WIDE => 4,
            _ => return false,
        };
        let computed = self.x.output.next_multiple_of(LANES);
        self.y.kernel * self.x.kernel > 1
            && 4 * self.x.output >= wanted * computed
            && self.planes_seen().saturating_mul(self.strip()) <= LARGEST_STRIPS
    }

    /// Numbers of a plane, nearly, that loops along rows need at a time for a row of the result: the taps of
    /// a dilated window are far apart.
    fn strip(&self) -> usize {
        let span = |axis: Axis| (axis.kernel.saturating_sub(1)).saturating_mul(axis.dilation);
        let columns = self.x.output.max(self.x.input).saturating_add(span(self.x));
        span(self.y).saturating_add(1).saturating_mul(columns)
    }

    /// The same of the gradient for the weights, where a sum has [`LANES`] parts.
    pub(super) fn weights_by_rows<T: Element>(&self) -> bool {
        let (filters, pairs) = if T::WIDE { (4, 96) } else { (0, 16) };
        let few = self.planes_seen().saturating_mul(self.filters) <= pairs;
        (self.filters <= filters || few) && self.strip() <= LARGEST_STRIPS
    }

    /// Planes of the input that a plane of the output is made of.
    fn planes_seen(&self) -> usize {
        self.channels.saturating_mul(self.z.kernel)
    }

    /// Elements of a plane of the input.
    pub(super) fn input_plane(&self) -> usize {
        self.y.input.saturating_mul(self.x.input)
    }

    /// Elements of a plane of the output.
    pub(super) fn output_plane(&self) -> usize {
        self.y.output.saturating_mul(self.x.output)
    }

    /// Elements of a channel of the input.
    pub(super) fn input_volume(&self) -> usize {
        self.z.input.saturating_mul(self.input_plane())
    }

    /// Elements of a channel of the output.
    pub(super) fn output_volume(&self) -> usize {
        self.z.output.saturating_mul(self.output_plane())
    }

    /// Elements of a window.
    pub(super) fn taps(&self) -> usize {
        self.z.kernel * self.y.kernel * self.x.kernel
    }

    /// Elements of the weight that a group has.
    pub(super) fn weights(&self) -> usize {
        self.filters * self.channels * self.taps()
    }

    /// # Panics
    /// If an array has not the elements that it should.
    pub(super) fn check(&self, input: usize, weight: usize, output: usize) {
        let size = |sizes: &[usize]| match sizes.contains(&0) {
            true => 0,
            false => sizes.iter().fold(1, |all: usize, &size| all.saturating_mul(size)),
        };
        let Geometry { images, groups, channels, filters, z, y, x } = *self;
        assert!([z, y, x].iter().all(|axis| axis.stride > 0 && axis.dilation > 0));
        let of = |name: &str, got: usize, sizes: &[usize]| {
            assert_eq!(got, size(sizes), "a convolution's {name} of {sizes:?}");
        };
        of("input", input, &[images, groups, channels, z.input, y.input, x.input]);
        of("weight", weight, &[groups, filters, channels, z.kernel, y.kernel, x.kernel]);
        of("output", output, &[images, groups, filters, z.output, y.output, x.output]);
    }
}

/// Some of the positions along an axis of the result, evenly spaced, and the numbers that they are
/// made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lattice {
    /// The first position of the result.
    pub first: usize,
    /// From each position to the next.
    pub step: usize,
    /// How many there are.
    pub count: usize,
    /// How far apart the elements are that the same tap of neighbouring positions reads.
    pub read_step: usize,
    /// The element that each tap reads for position 0 (which may be outside), and the tap's number.
    pub taps: Vec<(isize, usize)>,
}

impl Lattice {
    /// The convolution's output: every position, every tap.
    pub fn forward(axis: &Axis) -> Vec<Lattice> {
        let reads = |t: usize| (t * axis.dilation) as isize - axis.padding as isize;
        vec![Lattice {
            first: 0,
            step: 1,
            count: axis.output,
            read_step: axis.stride,
            taps: (0..axis.kernel).map(|t| (reads(t), t)).collect(),
        }]
    }

    /// The gradient for the input. An element is reached by those taps that put it a multiple of
    /// the stride away from the first window, so that elements of one remainder have their taps in
    /// common and read the output's gradient side by side. Elements that no tap reaches are in none.
    pub fn backward(axis: &Axis) -> Vec<Lattice> {
        let stride = axis.stride as isize;
        let mut found: Vec<Lattice> = Vec::new();
        for t in 0..axis.kernel {
            let shift = (t * axis.dilation) as isize - axis.padding as isize;
            let first = shift.rem_euclid(stride) as usize;
            if first >= axis.input {
                continue;
            }
            // Element `first + u·stride` is seen through tap `t` from position `u + at`.
            let at = (first as isize - shift) / stride;
            match found.iter_mut().find(|lattice| lattice.first == first) {
                Some(lattice) => lattice.taps.push((at, t)),
                None => found.push(Lattice {
                    first,
                    step: axis.stride,
                    count: (axis.input - first).div_ceil(axis.stride),
                    read_step: 1,
                    taps: vec![(at, t)],
                }),
            }
        }
        found
    }

    /// Of the positions `0..count`, those for which an element that is `at` before position 0's
    /// exists in an axis of `size`.
    pub(super) fn inside(&self, at: isize, size: usize) -> std::ops::Range<usize> {
        let step = self.read_step as isize;
        let low = if at >= 0 { 0 } else { (-at + step - 1) / step };
        let room = size as isize - at;
        let high = if room <= 0 { 0 } else { (room + step - 1) / step };
        let high = (high as usize).min(self.count);
        (low as usize).min(high)..high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_as_many_positions_as_fit() {
        let output = |input, kernel, stride, padding, dilation| {
            Axis::over(input, kernel, stride, padding, dilation).map(|axis| axis.output)
        };
        assert_eq!(output(7, 3, 1, 0, 1), Some(5));
        assert_eq!(output(7, 3, 2, 1, 1), Some(4));
        assert_eq!(output(8, 3, 2, 0, 2), Some(2));
        assert_eq!(output(4, 5, 1, 0, 1), Some(0));
        assert_eq!(output(4, 6, 1, 1, 1), Some(1));
        assert_eq!(output(0, 1, 1, 1, 1), Some(2));
        assert_eq!(output(4, 0, 1, 0, 1), None);
        assert_eq!(output(4, 1, 0, 0, 1), None);
        assert_eq!(output(4, usize::MAX, 1, 0, 2), None);
        assert_eq!(output(4, 1, 1, usize::MAX, 1), None);
    }

    #[test]
    fn the_axis_under_windows_is_one_over_which_they_slide() {
        for kernel in 1..4 {
            for (stride, dilation) in [(1, 1), (2, 1), (3, 2), (1, 3)] {
                for padding in 0..2 {
                    for more in 0..stride {
                        let under = Axis::under(4, kernel, stride, padding, dilation, more);
                        let under = under.expect("an axis");
                        let over = Axis::over(under.input, kernel, stride, padding, dilation);
                        assert_eq!(over, Some(under));
                    }
                }
            }
        }
    }

    #[test]
    fn every_element_finds_the_windows_that_see_it() {
        for (kernel, stride, padding, dilation) in
            [(3, 1, 1, 1), (3, 2, 1, 1), (2, 3, 0, 2), (4, 2, 3, 3), (1, 5, 0, 1), (5, 4, 2, 2)]
        {
            let axis = Axis::over(17, kernel, stride, padding, dilation).expect("an axis");
            let mut want = Vec::new();
            let forward = &Lattice::forward(&axis)[0];
            for &(at, t) in &forward.taps {
                for o in forward.inside(at, axis.input) {
                    want.push((o * stride + t * dilation - padding, o, t));
                }
            }
            let mut got = Vec::new();
            for lattice in Lattice::backward(&axis) {
                for &(at, t) in &lattice.taps {
                    for u in lattice.inside(at, axis.output) {
                        let o = (u as isize + at) as usize;
                        got.push((lattice.first + u * lattice.step, o, t));
                    }
                }
            }
            want.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, want);
            assert!(!want.is_empty());
        }
    }
}
