//! Where the elements of a tensor lie in its storage.

use super::shape::Strides;
use crate::Shape;

/// A shape with the step between neighbours along each axis, and where the first element lies.
#[derive(PartialEq)]
pub(crate) struct Layout {
    pub shape: Shape,
    pub strides: Strides,
    pub offset: usize,
}

impl Clone for Layout {
    #[inline]
    fn clone(&self) -> Layout {
        // One copy of memory for the strides; the derived one goes element by element.
        let strides = Strides::from_slice(&self.strides);
        Layout { shape: self.shape.clone(), strides, offset: self.offset }
    }
}

impl Layout {
    /// Row-major, from the start of the storage.
    #[inline]
    pub fn contiguous(shape: Shape) -> Layout {
        Layout { strides: shape.strides(), shape, offset: 0 }
    }

    /// Whether the elements lie in row-major order without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.contiguous_len().is_some()
    }

    /// The number of elements, if they lie in row-major order without gaps: one look at the sizes, since
    /// every operation asks this of every input.
    #[inline]
    pub fn contiguous_len(&self) -> Option<usize> {
        let (mut len, mut in_order) = (1usize, true);
        for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
            in_order &= size == 1 || stride == len as isize;
            // The other sizes of an empty tensor may be too large to multiply; the product is 0.
            len = len.wrapping_mul(size);
        }
        (in_order || len == 0).then_some(len)
    }

    /// The same elements in the same order under another shape of as many elements, if some
    /// strides give them.
    pub fn reshaped(&self, shape: &Shape) -> Option<Layout> {
        let offset = self.offset;
        if shape.contains(&0) || self.is_contiguous() {
            return Some(Layout { offset, ..Layout::contiguous(shape.clone()) });
        }
        // Walk over both shapes from the end, matching groups of axes with equal products.
        let old: Vec<(usize, isize)> = self
            .shape
            .iter()
            .zip(&self.strides)
            .filter(|(size, _)| **size != 1)
            .map(|(&size, &stride)| (size, stride))
            .collect();
        let mut strides: Strides = smallvec::SmallVec::from_elem(0, shape.len());
        let mut new = shape.len();
        let mut end = old.len();
        while end > 0 {
            // The longest run of old axes that are one axis in memory.
            let mut start = end - 1;
            let (mut product, inner) = old[start];
            while start > 0 && old[start - 1].1 == old[start].1 * old[start].0 as isize {
                start -= 1;
                product *= old[start].0;
            }
            let mut step = inner;
            while product > 1 {
                new = new.checked_sub(1)?;
                if product % shape[new] != 0 {
                    return None;
                }
                strides[new] = step;
                step *= shape[new] as isize;
                product /= shape[new];
            }
            end = start;
        }
        Some(Layout { shape: shape.clone(), strides, offset })
    }

    /// The strides under which this layout, repeated along new and size-1 axes, has `shape`.
    pub fn broadcast(&self, shape: &Shape) -> Option<Layout> {
        let added = shape.len().checked_sub(self.shape.len())?;
        let mut strides: Strides = smallvec::SmallVec::from_elem(0, shape.len());
        for (i, (&size, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            match (size, shape[added + i]) {
                (old, new) if old == new => strides[added + i] = stride,
                (1, _) => {}
                _ => return None,
            }
        }
        Some(Layout { shape: shape.clone(), strides, offset: self.offset })
    }
}
