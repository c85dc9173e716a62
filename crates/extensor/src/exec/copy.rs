//! Elements moved as they are: into row-major order, beside others, into a border, or left out. All
//! dtypes of one size share a kernel.

use super::{Call, Kernel, Kind};
use crate::tensor::{Strides, match_bits};
use crate::{Result, Shape};
use extensor_kernels::copy::{ViewMut, copy};
use extensor_kernels::index::triangle;
use extensor_kernels::native::Native;
use extensor_kernels::view::View;
use smallvec::SmallVec;
use std::sync::Arc;

/// Where the elements go.
#[derive(Clone, Debug)]
pub(crate) enum Copying {
    /// All of them, in row-major order.
    Whole,
    /// Into the part of the output that starts at `before`; around it lies the element whose bits
    /// are `value`.
    Pad { before: SmallVec<[usize; 4]>, value: u64 },
    /// The inputs, any number of them, one after the other along an axis.
    Join { axis: usize },
    /// Those of every matrix for which `column − row` is at most `k`, or with `above` at least `k`;
    /// zeros elsewhere.
    Triangle { k: i64, above: bool },
}

impl Kernel for Copying {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, shape) = (call.inputs, call.outputs[0].shape());
        match_bits!(call.dtype(), T => {
            let out = call.out::<T>();
            match self {
                Copying::Whole => {
                    copy(inputs[0].view::<T>(), ViewMut::new(out, 0, shape, &shape.strides()));
                }
                Copying::Pad { before, value } => {
                    copy_into(out, shape, before, inputs[0].view::<T>());
                    border(out, shape, before, inputs[0].shape(), *value as T);
                }
                Copying::Join { axis } => {
                    let mut start: SmallVec<[usize; 6]> = SmallVec::from_elem(0, shape.len());
                    for part in inputs {
                        copy_into(out, shape, &start, part.view::<T>());
                        start[*axis] += part.shape()[*axis];
                    }
                }
                Copying::Triangle { k, above } => {
                    let matrix = [shape[shape.len() - 2], shape[shape.len() - 1]];
                    triangle(inputs[0].view::<T>(), matrix, *k, *above, out);
                }
            }
        });
        Ok(())
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Copy(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }
}

/// Writes `from` into the part of a row-major array of shape `shape` that starts at index `start`.
pub(super) fn copy_into<T: Native>(
    out: &mut [T],
    shape: &Shape,
    start: &[usize],
    from: View<'_, T>,
) {
    if from.is_empty() {
        return;
    }
    let strides: Strides = shape.strides();
    let offset = start.iter().zip(&strides).map(|(&i, &s)| i * s as usize);
    let offset = offset.sum();
    copy(from, ViewMut::new(out, offset, from.shape(), &strides));
}

/// Writes `value` around the part of an array of shape `whole` that starts at `start` and has the
/// sizes `inner`: for each axis what lies before and after it, within the part along the axes
/// already done.
fn border<T: Native>(out: &mut [T], whole: &Shape, start: &[usize], inner: &Shape, value: T) {
    let mut corner: SmallVec<[usize; 6]> = SmallVec::from_elem(0, whole.len());
    let mut slab = whole.clone();
    let still: SmallVec<[isize; 6]> = SmallVec::from_elem(0, whole.len());
    for (axis, (&begin, &size)) in start.iter().zip(inner.iter()).enumerate() {
        let end = begin + size;
        for (from, to) in [(0, begin), (end, whole[axis])] {
            corner[axis] = from;
            slab.set(axis, to - from);
            copy_into(out, whole, &corner, View::new(&[value], 0, &slab, &still));
        }
        corner[axis] = begin;
        slab.set(axis, size);
    }
}
