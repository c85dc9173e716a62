//! Elements in order, and positions in ordered lists. Every dtype is sorted by whole numbers that are
//! in the same order as its elements.

use super::index::positions;
use super::{Call, Input, Kernel, Kind};
use crate::tensor::match_bits;
use crate::{DType, Result};
use extensor_kernels::sort::{Encoding, extreme_so_far, first, order, ranked, search_sorted};
use extensor_kernels::stop;
use std::sync::Arc;

/// What is asked about the order. All inputs must lie in row-major order; the positions are `i64`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sorting {
    /// The positions along the last axis of its elements in ascending order, or in `descending`; equal
    /// ones keep their order.
    Order { descending: bool },
    /// Of a sorted list and values: for each value how many of the list are below it, or with `right`
    /// not above it.
    Search { right: bool },
    /// The positions along the last axis of as many as the output has there, which come first in
    /// ascending order or in `descending`; equal ones keep their order.
    First { descending: bool },
    /// Of each row the position of the element that has this rank, as `Ranked` with `nan` says it.
    Kth { rank: usize },
    /// Of rows and ranks: the positions along the last axis of the elements that have these ranks, from
    /// 0, in ascending order. NaN is the largest; with `nan`, a row that has one gives its position.
    Ranked { nan: bool },
    /// For each element of a row the position of the largest (or `smallest`) up to it, the last of
    /// equals; NaN is beyond all.
    SoFar { smallest: bool },
}

impl Kernel for Sorting {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (op, inputs) = (call.op, call.inputs);
        let count = call.outputs[0].shape().last().copied().unwrap_or(1);
        let out = call.out::<i64>();
        match *self {
            Sorting::Order { descending } => {
                let x = inputs[0];
                let width = 8 * x.dtype().size() as u32;
                let length = x.shape()[x.shape().len() - 1];
                order(&keys(&x), width, length, descending, out);
            }
            Sorting::Search { right } => {
                search_sorted(&keys(&inputs[0]), &keys(&inputs[1]), right, out);
            }
            Sorting::First { descending } => {
                let x = inputs[0];
                let width = 8 * x.dtype().size() as u32;
                first(&keys(&x), width, [last(&x), count], descending, out);
            }
            Sorting::Kth { rank } => {
                let x = inputs[0];
                let (width, nan) = (8 * x.dtype().size() as u32, nan_key(x.dtype()));
                let ranks = stop::room(rank as i64, out.len());
                ranked(&keys(&x), width, last(&x), nan, &ranks, out);
            }
            Sorting::Ranked { nan } => {
                let (x, ranks) = (inputs[0], inputs[1]);
                let length = last(&x);
                let axis = x.shape().len() - 1;
                let ranks = positions(op, &ranks, axis, length)?;
                let nan = if nan { nan_key(x.dtype()) } else { None };
                ranked(&keys(&x), 8 * x.dtype().size() as u32, length, nan, ranks, out);
            }
            Sorting::SoFar { smallest } => {
                let x = inputs[0];
                let nan = nan_key(x.dtype());
                extreme_so_far(&keys(&x), last(&x), nan, smallest, out);
            }
        }
        Ok(())
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Sort(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

/// The size of the last axis.
fn last(x: &Input<'_>) -> usize {
    x.shape()[x.shape().len() - 1]
}

/// The number that stands for NaN.
fn nan_key(dtype: DType) -> Option<u64> {
    dtype.is_float().then(|| u64::MAX >> (64 - 8 * dtype.size()))
}

/// Numbers that are in the same order as the elements of `x`.
fn keys(x: &Input<'_>) -> Vec<u64> {
    let encoding = match x.dtype() {
        dtype if dtype.is_float() => Encoding::Float { infinity: dtype.infinity_bits() },
        dtype if dtype.integer_range().0 < 0 => Encoding::Signed,
        _ => Encoding::Unsigned,
    };
    match_bits!(x.dtype(), T => encoding.keys::<T>(x.row_major()))
}
