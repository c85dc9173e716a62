//! The gradients of elements that are put at positions: what is left of them, and what met there.

use crate::ops::arithmetic::where_;
use crate::ops::operation::{Spec, apply_one};
use crate::ops::pointwise::{Times, map_real};
use crate::ops::reduction::{Chosen, Recurrence, neighbours};
use crate::ops::shape::put::{Scatter, ScatterReduce, scatter};
use crate::tensor::axis_index;
use crate::{DType, Result, Shape, Tensor, ops};
use extensor_kernels::map::Formulas;

/// `a·b`; nothing comes of nothing.
pub(super) fn times(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let spec = Spec { shape: a.shape().clone(), dtype: a.dtype() };
    map_real("scatter", &Formulas(Times), [a, b], spec)
}

/// Where along the axis of `index` the last element is that is put at each position of `shape`, and −1
/// where none is.
fn last(index: &Tensor, shape: &Shape, axis: i64) -> Result<[Tensor; 2]> {
    let at = axis_index("scatter", axis, shape.len())?;
    let count = index.shape()[at];
    let column: Shape = (0..shape.len()).map(|i| if i == at { count } else { 1 }).collect();
    let numbers = Tensor::whole_numbers("scatter", count, |i| i as i64)?;
    let numbers = ops::broadcast_to(&ops::reshape(&numbers, &column)?, index.shape())?;
    let none = Tensor::constant(-1.0, shape, DType::I64)?;
    Ok([scatter(&none, index, &numbers, axis, ScatterReduce::Last)?, numbers])
}

/// A mask of the positions at which something is put.
pub(super) fn touched(index: &Tensor, shape: &Shape, axis: i64) -> Result<Tensor> {
    let [last, _] = last(index, shape, axis)?;
    ops::greater_equal(&last, &Tensor::scalar_of(0.0, DType::I64)?)
}

/// A call whose gradient is taken, in a type that it is computed in.
pub(super) struct At<'a> {
    pub scatter: Scatter,
    pub x: Tensor,
    pub index: &'a Tensor,
    /// Those elements of the source that `index` has a position for.
    pub source: Tensor,
    pub y: Tensor,
}

impl At<'_> {
    /// What is at each element's position.
    fn there(&self, all: &Tensor) -> Result<Tensor> {
        ops::gather(all, self.index, self.scatter.axis)
    }

    /// `g` where nothing was put, and what `other` says elsewhere.
    fn untouched(&self, g: &Tensor, other: &Tensor) -> Result<Tensor> {
        where_(&touched(self.index, self.x.shape(), self.scatter.axis)?, other, g)
    }

    pub fn for_x(&self, g: &Tensor) -> Result<Tensor> {
        let Scatter { axis, reduce, include_self } = self.scatter;
        if reduce == ScatterReduce::Last || !include_self {
            return self.untouched(g, &Tensor::scalar_of(0.0, g.dtype())?);
        }
        match reduce {
            ScatterReduce::Last | ScatterReduce::Sum => Ok(g.clone()),
            ScatterReduce::Mean => {
                ops::divide(g, &self.scatter.count(self.index, self.x.shape(), g.dtype())?)
            }
            ScatterReduce::Prod => {
                let ones = self.x.ones_like()?;
                times(g, &scatter(&ones, self.index, &self.source, axis, ScatterReduce::Prod)?)
            }
            ScatterReduce::Max | ScatterReduce::Min => {
                self.chosen(&self.share(g)?, &self.x, &self.y)
            }
        }
    }

    pub fn for_source(&self, g: &Tensor) -> Result<Tensor> {
        match self.scatter.reduce {
            ScatterReduce::Last => {
                let [last, numbers] = last(self.index, self.x.shape(), self.scatter.axis)?;
                let stays = ops::equal(&self.there(&last)?, &numbers)?;
                where_(&stays, &self.there(g)?, &Tensor::scalar_of(0.0, g.dtype())?)
            }
            ScatterReduce::Sum => self.there(g),
            ScatterReduce::Mean => {
                let count = self.scatter.count(self.index, self.x.shape(), g.dtype())?;
                self.there(&ops::divide(g, &count)?)
            }
            ScatterReduce::Prod => times(&self.there(g)?, &self.others()?),
            ScatterReduce::Max | ScatterReduce::Min => {
                self.chosen(&self.there(&self.share(g)?)?, &self.source, &self.there(&self.y)?)
            }
        }
    }

    /// `share` where an element is the extreme value `y`.
    fn chosen(&self, share: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let spec = Spec { shape: x.shape().clone(), dtype: x.dtype() };
        map_real("scatter_backward", &Formulas(Chosen), [share, x, y], spec)
    }

    /// `g` over how many elements are the largest (or smallest) at each position.
    fn share(&self, g: &Tensor) -> Result<Tensor> {
        let equal = |a: &Tensor, b: &Tensor| ops::cast(&ops::equal(a, b)?, g.dtype());
        let own = if self.scatter.include_self {
            equal(&self.x, &self.y)?
        } else {
            self.x.zeros_like()?
        };
        let put = equal(&self.source, &self.there(&self.y)?)?;
        let ties = ops::scatter_add(&own, self.index, &put, self.scatter.axis)?;
        // None are where the result is NaN.
        ops::divide(g, &ops::maximum(&ties, &Tensor::scalar_of(1.0, g.dtype())?)?)
    }

    /// For each element of the source the product of all others at its position: running products from
    /// both ends of the elements in the order of their positions. Nothing is divided, so any of them may
    /// be 0.
    #[track_caller]
    fn others(&self) -> Result<Tensor> {
        let (axis, x, source) = (self.scatter.axis, &self.x, &self.source);
        let at = axis_index("scatter", axis, x.ndim())?;
        let order = ops::argsort(self.index, axis, ops::Order::Ascending)?;
        let places = ops::gather(self.index, &order, axis)?;
        let factors = ops::gather(source, &order, axis)?;
        let (zero, one) = (Tensor::scalar_of(0.0, x.dtype())?, Tensor::scalar_of(1.0, x.dtype())?);
        let own =
            if self.scatter.include_self { ops::gather(x, &places, axis)? } else { one.clone() };
        // Whether an element has the position of the one before it.
        let later = ops::slice(&places, axis, 1, None, 1)?;
        let same = ops::equal(&later, &ops::slice(&places, axis, None, -1, 1)?)?;
        let mut border = vec![(0, 0); x.ndim()];
        let product = |same: &Tensor, first: &Tensor, reverse: bool| {
            let factor = where_(same, &neighbours(&factors, at, reverse, 0.0)?, &zero)?;
            let first = where_(same, &zero, first)?;
            let first = ops::broadcast_to(&first, factors.shape())?;
            apply_one(&Recurrence { axis: at, reverse, cut: true }, &[&factor, &first])
        };
        border[at] = (1, 0);
        let before = product(&ops::pad(&same, border.clone(), 0.0)?, &own, false)?;
        border[at] = (0, 1);
        let after = product(&ops::pad(&same, border, 0.0)?, &one, true)?;
        let others = ops::multiply(&before, &after)?;
        ops::scatter_add(&others.zeros_like()?, &order, &others, axis)
    }
}
