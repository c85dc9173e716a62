//! The leaves of a tree as one row of numbers for each dtype, without copying them together.

use super::group::piece_of;
use super::transport::{Message, Piece};
use crate::tensor::{Layout, Storage};
use crate::{DType, Result, Shape, Tensor};
use std::ops::Range;

/// Tensors of one dtype, one after the other.
pub(super) struct Row {
    pub dtype: DType,
    /// The tensors, in row-major order each.
    leaves: Vec<Tensor>,
    /// Where each begins, in elements, and where the last ends.
    starts: Vec<usize>,
}

impl Row {
    pub fn new(dtype: DType, leaves: &[&Tensor], op: &'static str) -> Result<Row> {
        let mut row = Row { dtype, leaves: Vec::with_capacity(leaves.len()), starts: vec![0] };
        let mut end = 0;
        for x in leaves {
            end += x.len();
            row.starts.push(end);
            row.leaves.push(x.plain(op)?.contiguous()?);
        }
        Ok(row)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The leaves that these elements are in, each with the bytes of it that are.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (&Tensor, Range<usize>)> {
        let size = self.dtype.size();
        let first = self.starts.partition_point(|&start| start <= range.start).saturating_sub(1);
        let spans = self.leaves.iter().zip(self.starts.windows(2)).skip(first);
        let within = range.clone();
        spans.take_while(move |(_, span)| span[0] < within.end).filter_map(move |(x, span)| {
            let (start, end) = (range.start.max(span[0]), range.end.min(span[1]));
            (start < end).then(|| (x, (start - span[0]) * size..(end - span[0]) * size))
        })
    }

    /// These elements, to be sent: as they lie in memory where they are one leaf's.
    pub fn message(&self, op: &'static str, range: Range<usize>) -> Result<Message> {
        let mut parts = self.parts(range.clone());
        if let (Some((x, bytes)), None) = (parts.next(), parts.next()) {
            return Ok(Message::of_tensor(x, bytes));
        }
        let mut piece = piece_of(op, range.len() * self.dtype.size())?;
        self.copy(range, &mut piece);
        Ok(Message::of_piece(&std::sync::Arc::new(piece)))
    }

    /// All elements as one tensor: the leaf's own memory where there is only one.
    pub fn together(&self, op: &'static str) -> Result<Tensor> {
        if let [x] = self.leaves.as_slice() {
            return Ok(x.clone());
        }
        let mut piece = piece_of(op, self.len() * self.dtype.size())?;
        self.copy(0..self.len(), &mut piece);
        Ok(unpack(piece, &[Shape::from([self.len()])], self.dtype).swap_remove(0))
    }

    /// Copies these elements.
    pub fn copy(&self, range: Range<usize>, into: &mut Piece) {
        let mut rest = into.bytes_mut();
        for (x, bytes) in self.parts(range) {
            let (here, after) = rest.split_at_mut(bytes.len());
            here.copy_from_slice(&x.bytes()[bytes]);
            rest = after;
        }
    }
}

/// Which row each leaf is in: the dtypes in the order in which they first occur.
pub(super) fn dtypes(leaves: &[&Tensor]) -> Vec<DType> {
    let mut found = Vec::new();
    for x in leaves {
        if !found.contains(&x.dtype()) {
            found.push(x.dtype());
        }
    }
    found
}

/// Tensors of these shapes, one after the other in the memory of a row.
pub(super) fn unpack(row: Piece, shapes: &[Shape], dtype: DType) -> Vec<Tensor> {
    let storage = Storage::from_buffer(row.into_buffer());
    let len = shapes.iter().map(|shape| shape.iter().product::<usize>()).sum::<usize>();
    if let [shape] = shapes {
        return vec![Tensor::from_storage(storage, shape.clone(), dtype)];
    }
    let all = Tensor::from_storage(storage, Shape::from([len]), dtype);
    let mut offset = 0;
    let view = |shape: &Shape| {
        let x = all.with_layout(Layout { offset, ..Layout::contiguous(shape.clone()) });
        offset += x.len();
        x
    };
    shapes.iter().map(view).collect()
}
