//! Every tensor cut among ranks, element by element, and put together again. It must not know what the
//! tensors are.

use crate::autodiff::{Path, leaves, map, map_parameters};
use crate::distributed::{Group, share};
use crate::optim::State as OptimizerState;
use crate::{Result, Shape, Tensor, Tree, ops};
use std::ops::Range;

/// Which elements of a tensor are one rank's: as many as every other's, or one more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slices {
    pub rank: usize,
    pub size: usize,
}

impl Slices {
    /// The rank's elements of every parameter, in memory of their own; buffers stay. A slice of a tensor of
    /// several axes has several too, so that it is told from a vector.
    pub fn of<T: Tree>(self, tree: &T) -> Result<T> {
        map_parameters(tree, |x| {
            let Range { start, end } = share(x.len(), self.rank, self.size);
            let flat = ops::reshape(&x.contiguous()?, Shape::from([x.len()]))?;
            let own = ops::slice(&flat, 0, start as i64, end as i64, 1)?.copied()?;
            let mut shape = vec![1; x.ndim().max(1)];
            shape[0] = own.len();
            ops::reshape(&own, shape)
        })
    }

    /// Puts the ranks' elements into the parameters of a tree.
    pub fn join<T: Tree>(self, group: &Group, own: T, into: &mut T) -> Result<()> {
        let own: Vec<Tensor> = crate::autodiff::parameters(&own).into_iter().cloned().collect();
        let all = group.all_gather(&own)?;
        let mut number = 0;
        into.visit_mut(&Path::ROOT, &mut |path, x| {
            if !path.is_buffer() {
                *x = joined(&all, number, x.shape())?;
                number += 1;
            }
            Ok(())
        })
    }

    /// On the first rank what an optimiser remembers of all elements of a model; on the others what it
    /// remembers of their own.
    pub fn gather_state<M: Tree>(
        self,
        group: &Group,
        own: &OptimizerState<M>,
        model: &M,
    ) -> Result<OptimizerState<M>> {
        let slots: Vec<Tensor> = leaves(own).into_iter().cloned().collect();
        let Some(all) = group.gather(&slots, 0)? else {
            return Ok(own.clone());
        };
        let shapes = crate::autodiff::parameters(model).into_iter().map(Tensor::shape);
        let mut shapes = shapes.flat_map(|shape| std::iter::repeat_n(shape, own.slots().len()));
        let mut number = 0;
        map(own, |x| {
            let whole = joined(&all, number, shapes.next().unwrap_or(x.shape()));
            number += 1;
            whole
        })
    }
}

/// The tensor of this number, of which each rank has a slice.
fn joined(all: &[Vec<Tensor>], number: usize, shape: &Shape) -> Result<Tensor> {
    let slices = all.iter().filter_map(|tensors| tensors.get(number));
    let flat = slices.map(|x| ops::reshape(x, Shape::from([x.len()])));
    ops::reshape(&ops::concatenate(&flat.collect::<Result<Vec<_>>>()?, 0)?, shape.clone())
}
