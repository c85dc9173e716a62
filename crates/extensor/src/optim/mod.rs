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

use crate::{Result, Tree};

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
        }
    )*};
}
by_reference!(Box<O>, &O);
