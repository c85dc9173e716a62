//! Optimisers, learning-rate schedules and moving averages: plain values and pure updates of trees.
//!
//! This module knows trees of parameters and of gradients. It must not know what a layer is, where
//! gradients come from, or how training is organised.
//!
//! An optimiser's update takes the model and the optimiser's state by value and returns new ones. In
//! memory it happens in place, in one pass for each parameter, unless somebody else still holds one
//! of the tensors: then that one is left as it is, and the new one is written elsewhere. The numbers
//! are the same either way, and for any number of threads.
//!
//! ```
//! use extensor::autodiff::value_and_grad;
//! use extensor::optim::{Adam, Optimizer};
//! use extensor::ops::{square, subtract, sum};
//! use extensor::tensor;
//!
//! let optimizer = Adam::new(0.1);
//! let mut model = (tensor([3.0, -2.0]), tensor(0.5)); // any tree
//! let mut state = optimizer.init(&model)?;
//! let target = tensor([1.0, 1.0]);
//! let mut last = f64::INFINITY;
//! for _ in 0..200 {
//!     let (loss, grads) = value_and_grad(
//!         |(w, b)| sum(&square(&subtract(&(w + b), &target)?)?, ..),
//!         &model,
//!     )?;
//!     (model, state) = optimizer.update(model, &grads, state)?;
//!     last = loss.item::<f64>()?;
//! }
//! assert!(last < 1e-3);
//! assert_eq!(state.step, 200);
//! # Ok::<(), extensor::Error>(())
//! ```

mod adagrad;
mod adam;
mod ema;
mod engine;
pub mod groups;
mod late;
mod lion;
mod minimize;
mod rmsprop;
pub mod schedule;
mod sgd;
mod state;

pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW};
pub use ema::Ema;
pub use groups::Groups;
pub use lion::Lion;
pub use minimize::{Lbfgs, Minimum, NewtonCg, Stop};
pub use rmsprop::RmsProp;
pub use schedule::{Plateau, Schedule};
pub use sgd::Sgd;
pub use state::State;

use crate::{DType, Error, Result, Tensor, Tree, ops};

/// What turns gradients into better parameters, step by step.
///
/// The optimisers are plain values and implement this for every tree, so that which one it is can be
/// chosen at run time:
///
/// ```
/// use extensor::optim::{AdamW, Optimizer, Sgd};
/// use extensor::{Tensor, tensor};
/// for name in ["sgd", "adamw"] {
///     let optimizer: Box<dyn Optimizer<Tensor>> = match name {
///         "sgd" => Box::new(Sgd::new(0.1).momentum(0.9)),
///         _ => Box::new(AdamW::new(0.1)),
///     };
///     let x = tensor([1.0, -1.0]);
///     let state = optimizer.init(&x)?;
///     let (y, _) = optimizer.update(x.clone(), &x, state)?;
///     assert!(y.get::<f64>(&[0])? < 1.0 && y.get::<f64>(&[1])? > -1.0);
/// }
/// # Ok::<(), extensor::Error>(())
/// ```
pub trait Optimizer<T: Tree> {
    /// The learning rate that [`update`](Optimizer::update) takes.
    fn learning_rate(&self) -> f64;

    /// What the optimiser remembers before its first step. [Buffers](crate::autodiff::Path::is_buffer)
    /// are no parameters.
    fn init(&self, model: &T) -> Result<State<T>>;

    /// Replaces the model and the state by those after a step with this learning rate. What can be wrong
    /// with the arguments is found before anything is replaced.
    fn advance(&self, lr: f64, model: &mut T, grads: &T, state: &mut State<T>) -> Result<()>;

    /// The same with a learning rate that is a tensor of one number: in a [compiled](crate::compile::compile)
    /// function it can be an argument, and another one at each call.
    ///
    /// ```
    /// use extensor::compile::compile;
    /// use extensor::optim::{Adam, Optimizer, State};
    /// use extensor::prelude::*;
    /// let optimizer = Adam::new(0.1);
    /// let step = compile(|(x, state, lr): &(Tensor, State<Tensor>, Tensor)| {
    ///     let gradient = grad(|x| x.square()?.sum(..), x)?;
    ///     let (mut x, mut state) = (x.clone(), state.clone());
    ///     optimizer.advance_at(lr, &mut x, &gradient, &mut state)?;
    ///     Ok((x, state))
    /// });
    /// let (mut x, mut state) = (tensor([3.0, -2.0]), optimizer.init(&tensor([3.0, -2.0]))?);
    /// for k in 0..100 {
    ///     (x, state) = step.call(&(x, state, tensor(0.2 / (1.0 + k as f64 / 20.0))))?;
    /// }
    /// assert_eq!(state.step, 100);
    /// assert!(x.abs()?.max_reduce(..)?.item::<f64>()? < 0.1);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    fn advance_at(
        &self,
        lr: &Tensor,
        model: &mut T,
        grads: &T,
        state: &mut State<T>,
    ) -> Result<()> {
        self.advance(rate("an optimiser", lr)?, model, grads, state)
    }

    /// The same for some elements of each parameter: `model`, `grads` and `state` hold those, and `whole`
    /// is the gradient of all, whose norm counts where gradients are clipped by it. An optimiser of one's
    /// own for which an element's step depends on other elements must say here what it does then; without,
    /// it sees the elements that there are.
    ///
    /// ```
    /// use extensor::optim::{Optimizer, Sgd};
    /// use extensor::tensor;
    /// let optimizer = Sgd::new(1.0).clip_norm(2.5);
    /// let grads = tensor([3.0, 4.0]);
    /// // The first of two elements, with the norm of both.
    /// let (mut first, slice) = (tensor([1.0]), tensor([3.0]));
    /// let mut state = optimizer.init(&first)?;
    /// optimizer.advance_slice(1.0, &mut first, &slice, &mut state, &grads)?;
    /// assert_eq!((first.item::<f64>()?, state.grad_norm), (1.0 - 3.0 * 2.5 / 5.0, Some(5.0)));
    /// # Ok::<(), extensor::Error>(())
    /// ```
    fn advance_slice(
        &self,
        lr: f64,
        model: &mut T,
        grads: &T,
        state: &mut State<T>,
        whole: &T,
    ) -> Result<()> {
        let _ = whole;
        self.advance(lr, model, grads, state)
    }

    /// The model and the state after a step with this learning rate instead of the optimiser's own: what
    /// a [`Schedule`] says, say.
    fn update_with(
        &self,
        lr: f64,
        mut model: T,
        grads: &T,
        mut state: State<T>,
    ) -> Result<(T, State<T>)> {
        self.advance(lr, &mut model, grads, &mut state)?;
        Ok((model, state))
    }

    /// The model and the state after a step.
    fn update(&self, model: T, grads: &T, state: State<T>) -> Result<(T, State<T>)> {
        self.update_with(self.learning_rate(), model, grads, state)
    }
}

/// An error unless a tensor is one float.
fn expect_one(op: &'static str, lr: &Tensor) -> Result<()> {
    lr.dtype().expect_float(op, "the learning rate")?;
    if lr.len() == 1 {
        return Ok(());
    }
    let (expected, got) = ("one number".into(), lr.shape().clone());
    Err(Error::Shape { op, argument: "the learning rate", expected, got })
}

/// The learning rate that a tensor is.
fn rate(op: &'static str, lr: &Tensor) -> Result<f64> {
    expect_one(op, lr)?;
    ops::cast(lr, DType::F64)?.item()
}

macro_rules! by_reference {
    ($($pointer:ty),*) => {$(
        impl<T: Tree, O: Optimizer<T> + ?Sized> Optimizer<T> for $pointer {
            fn learning_rate(&self) -> f64 {
                (**self).learning_rate()
            }
            fn init(&self, model: &T) -> Result<State<T>> {
                (**self).init(model)
            }
            fn advance(&self, lr: f64, model: &mut T, grads: &T, state: &mut State<T>) -> Result<()> {
                (**self).advance(lr, model, grads, state)
            }
            fn advance_at(&self, lr: &Tensor, model: &mut T, grads: &T, state: &mut State<T>) -> Result<()> {
                (**self).advance_at(lr, model, grads, state)
            }
            fn advance_slice(&self, lr: f64, model: &mut T, grads: &T, state: &mut State<T>, whole: &T) -> Result<()> {
                (**self).advance_slice(lr, model, grads, state, whole)
            }
        }
    )*};
}
by_reference!(Box<O>, &O);
