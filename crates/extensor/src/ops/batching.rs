//! How an operation is done to a whole batch of examples at once: what it answers when
//! [`vmap`](crate::autodiff::vmap) asks.
//!
//! An answer is data: which operation, and how it sees the inputs and outputs, by views alone. So it
//! serves the operation and its backward rule alike.

use super::operation::Operation;
use crate::{Axes, Result, Shape, Tensor, ops};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A call whose inputs are examples of a batch: what [`Operation::batch`] is asked about.
pub struct Batch<'a> {
    /// The inputs as one example has them. They have shapes and dtypes; their numbers are not to be
    /// read.
    pub inputs: &'a [&'a Tensor],
    /// Whether each differs between examples: it then lies in memory with an axis of examples before
    /// its own.
    pub mapped: &'a [bool],
    /// How many examples there are.
    pub size: usize,
    /// The level of `vmap`, for functions that a user gave.
    pub(crate) level: u64,
}

/// How an operation is done to a batch.
pub enum Batched {
    /// By one call of an operation.
    Call(Together),
    /// By other operations.
    Made(Composition),
    /// By the operation's own functions, which are made of operations: each of those is asked again.
    Itself,
    /// Example by example.
    Loop,
}

/// One call for all examples: an operation, and how it sees the inputs and outputs.
pub struct Together {
    /// The operation.
    pub op: Box<dyn Operation>,
    /// How it sees each input.
    pub inputs: SmallVec<[View; 4]>,
    /// How it sees each output; the last stands for all that follow.
    pub outputs: SmallVec<[View; 2]>,
}

/// A function of inputs that all have the axis of examples first, made of operations, whose results
/// have it first too.
pub type Composition = Arc<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;

/// How an operation sees a tensor whose first axis are the examples. What is the same for all
/// examples and need not be [`whole`](View::whole) is seen as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Whether what is the same for all examples is repeated for each, as a view.
    pub whole: bool,
    /// How many axes an example is given, by axes of size 1 before its own; 0: those it has.
    pub ndim: usize,
    /// Whether an axis of size 1 is put before the last: a vector as a row.
    pub row: bool,
    /// Whether an axis of size 1 is put after the last: a vector as a column.
    pub column: bool,
    /// Where the axis of examples is put.
    pub at: usize,
    /// Whether it becomes one with the axis after it.
    pub merge: bool,
}

impl View {
    /// As it is.
    const SAME: View =
        View { whole: false, ndim: 0, row: false, column: false, at: 0, merge: false };

    /// The examples' axis first, and in every tensor.
    pub const WHOLE: View = View { whole: true, ..View::SAME };

    /// The examples' axis put at `at` and made one with the axis after it.
    pub const fn merged(at: usize) -> View {
        View { whole: true, at, merge: true, ..View::SAME }
    }

    /// What is seen of a batch of this shape.
    pub(crate) fn shape(&self, full: &[usize]) -> Shape {
        let mut shape = self.moved(&self.aligned(full));
        if self.merge {
            let merged = shape[self.at].saturating_mul(shape[self.at + 1]);
            shape =
                shape.iter().enumerate().filter(|(i, _)| *i != self.at).map(|(_, &s)| s).collect();
            shape.set(self.at, merged);
        }
        shape
    }

    /// What is seen of a batch.
    pub(crate) fn of(&self, full: &Tensor) -> Result<Tensor> {
        let mut x = full.clone();
        let aligned = self.aligned(full.shape());
        if aligned != *full.shape() {
            x = ops::reshape(&x, &aligned)?;
        }
        if self.at > 0 {
            let mut order: SmallVec<[i64; 6]> = (1..x.ndim() as i64).collect();
            order.insert(self.at, 0);
            x = ops::transpose(&x, &order[..])?;
        }
        if self.merge {
            x = ops::reshape(&x, self.shape(full.shape()))?;
        }
        Ok(x)
    }

    /// The batch, of this shape, of which this is seen.
    pub(crate) fn back(&self, seen: &Tensor, full: &Shape) -> Result<Tensor> {
        let mut x = seen.clone();
        let aligned = self.aligned(full);
        if self.merge {
            x = ops::reshape(&x, self.moved(&aligned))?;
        }
        if self.at > 0 {
            let mut order: SmallVec<[i64; 6]> =
                (0..x.ndim() as i64).filter(|&i| i != self.at as i64).collect();
            order.insert(0, self.at as i64);
            x = ops::transpose(&x, &order[..])?;
        }
        if x.shape() != full { ops::reshape(&x, full) } else { Ok(x) }
    }

    /// Whether a batch of examples of so many axes can be seen so.
    pub(crate) fn fits(&self, ndim: usize) -> bool {
        let ndim = (ndim + usize::from(self.row) + usize::from(self.column)).max(self.ndim);
        self.at <= ndim && (!self.merge || self.at < ndim)
    }

    fn aligned(&self, full: &[usize]) -> Shape {
        let mut shape = Shape::from(full);
        if self.column {
            shape.push(1);
        }
        if self.row {
            shape.insert(shape.len() - 1, 1);
        }
        while shape.len() < self.ndim + 1 {
            shape.insert(1, 1);
        }
        shape
    }

    fn moved(&self, shape: &Shape) -> Shape {
        let mut moved: Shape = shape[1..].iter().copied().collect();
        moved.insert(self.at, shape[0]);
        moved
    }
}

impl Batch<'_> {
    /// An operation that leaves a first axis alone, if all inputs have it.
    pub fn whole(&self, op: impl Operation) -> Batched {
        self.call(Box::new(op), View::WHOLE, View::WHOLE)
    }

    /// An operation that leaves a first axis of the first input alone, of which the others have none.
    pub fn whole_first(&self, op: impl Operation) -> Batched {
        self.call(Box::new(op), View::default(), View::default())
    }

    /// The same, where only the first input differs between examples.
    pub fn first(&self, op: impl Operation) -> Option<Batched> {
        let only = self.mapped[0] && !self.mapped[1..].contains(&true);
        only.then(|| self.call(Box::new(op), View::default(), View::default()))
    }

    /// An operation on elements of inputs that broadcast.
    pub fn aligned(&self, op: Box<dyn Operation>) -> Batched {
        let ndim = self.inputs.iter().map(|x| x.ndim()).max().unwrap_or(0);
        self.call(op, View { ndim, ..View::default() }, View::default())
    }

    /// The same where every input has the examples' axis: for operations that broadcast some inputs
    /// to the others.
    pub fn aligned_whole(&self, op: Box<dyn Operation>) -> Batched {
        let ndim = self.inputs.iter().map(|x| x.ndim()).max().unwrap_or(0);
        self.call(op, View { ndim, ..View::WHOLE }, View::default())
    }

    /// An operation for which the examples of the first input are more of what its first axis holds
    /// already, where only that input has them.
    pub fn merged(&self, op: impl Operation) -> Option<Batched> {
        let only = self.mapped[0] && !self.mapped[1..].contains(&true);
        only.then(|| {
            let mut inputs: SmallVec<[View; 4]> = smallvec![View::default(); self.inputs.len()];
            inputs[0] = View::merged(0);
            let outputs = smallvec![View::merged(0)];
            Batched::Call(Together { op: Box::new(op), inputs, outputs })
        })
    }

    /// An operation of one input, images: of several, which have `ndim` axes, or of one. Examples are
    /// more of them, or images where there was one.
    pub fn images(&self, op: impl Operation, ndim: usize) -> Batched {
        let several = self.inputs[0].ndim() == ndim;
        let view = if several { View::merged(0) } else { View::WHOLE };
        self.call(Box::new(op), view, view)
    }

    /// One call, with all inputs seen alike and all outputs alike.
    pub fn call(&self, op: Box<dyn Operation>, input: View, output: View) -> Batched {
        let inputs = smallvec![input; self.inputs.len()];
        Batched::Call(Together { op, inputs, outputs: smallvec![output] })
    }
}

/// An axis of an example, in a batch of them.
pub(crate) fn shifted(axis: i64) -> i64 {
    if axis >= 0 { axis.saturating_add(1) } else { axis }
}

/// Axes of examples with `ndim` of them, in a batch.
pub(crate) fn shifted_axes(axes: &Axes, ndim: usize) -> Axes {
    Axes::List(match axes {
        Axes::All => (1..=ndim as i64).collect(),
        Axes::List(list) => list.iter().map(|&axis| shifted(axis)).collect(),
    })
}
