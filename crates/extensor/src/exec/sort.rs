//! Elements in order, and positions in ordered lists. Every dtype is sorted by whole numbers that are
//! in the same order as its elements.

use super::{Call, Input, Kernel, Kind};
use crate::Result;
use crate::tensor::match_bits;
use extensor_kernels::sort::{Encoding, order, search_sorted};
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
}

impl Kernel for Sorting {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let inputs = call.inputs;
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

/// Numbers that are in the same order as the elements of `x`.
fn keys(x: &Input<'_>) -> Vec<u64> {
    let encoding = match x.dtype() {
        dtype if dtype.is_float() => Encoding::Float { infinity: dtype.infinity_bits() },
        dtype if dtype.integer_range().0 < 0 => Encoding::Signed,
        _ => Encoding::Unsigned,
    };
    match_bits!(x.dtype(), T => encoding.keys::<T>(x.row_major()))
}
