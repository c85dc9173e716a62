//! Tensors and automatic differentiation in which no gradient is taken on trust.
//!
//! A [`Tensor`] is an immutable value; every operation is a pure function of tensors and has its
//! backward function beside it. Derivatives, of any order, are functions of functions:
//!
//! ```
//! use extensor::check::Options;
//! use extensor::prelude::*;
//!
//! // A line through three points: how wrong it is, and which way is better.
//! let (x, y) = (tensor([0.0, 1.0, 2.0]), tensor([1.0, 3.0, 5.0]));
//! let loss = |line: &(Tensor, Tensor)| {
//!     let (slope, offset) = line;
//!     x.multiply(slope)?.add(offset)?.mean_squared_error(&y, Reduce::Mean)
//! };
//! let line = (tensor(0.0), tensor(0.0));
//! let (value, (slope, offset)) = value_and_grad(loss, &line)?;
//! assert_eq!(value.item::<f64>()?, 35.0 / 3.0);
//! assert_eq!([slope.item::<f64>()?, offset.item::<f64>()?], [-26.0 / 3.0, -6.0]);
//!
//! // And the gradient itself is checked, against differences.
//! assert!(check_grad(loss, &line, &Options::named("line"))?.passed());
//! # Ok::<(), extensor::Error>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Tensor`] | values, and the operations as methods: `x.matmul(&w)?.add(&b)?.relu()?` |
//! | [`ops`] | the same as functions, family by family, each with its backward function; the [catalogue](ops::catalogue) |
//! | [`autodiff`] | gradients, Jacobians, Hessians and products with them, of functions of any [`Tree`] of tensors |
//! | [`check`] | gradients checked: of your functions, and of everything here |
//! | [`nn`] | layers, initialisers and models |
//! | [`optim`] | optimisers, schedules, minimisers |
//! | [`data`], [`train`] | data sets, batches; training with checkpoints, logs and resumption |
//! | [`metrics`] | precision, recall, F, AUROC, confusion, perplexity |
//! | [`precision`], [`gradients`] | mixed precision, loss scaling; clipping, accumulation |
//! | [`distributed`] | several processes that work as one, with the same bits for any number of them |
//! | [`compile`](mod@compile) | a function recorded once, then only run |
//! | [`io`] | `.npy`, `.npz` and `.safetensors` files |
//! | [`debug`], [`interrupt`] | where a NaN came from; stopping long work |
//! | [`threads`], [`memory`], [`settings`] | what the machine is used for |
//!
//! Everything that can fail returns a [`Result`] with an [`Error`] that says what was wrong, with
//! which operation and argument. The operators (`&a + &b`) panic with the same sentence.

#![forbid(unsafe_code)]

// `derive(Tree)` writes `::extensor::…`, also inside this crate.
extern crate self as extensor;

pub mod autodiff;
pub mod check;
pub mod compile;
pub mod data;
pub mod debug;
pub mod distributed;
mod exec;
pub mod gradients;
pub mod interrupt;
pub mod io;
pub mod metrics;
pub mod nn;
pub mod ops;
pub mod optim;
pub mod precision;
mod tensor;
pub mod train;

pub use autodiff::Tree;

pub use tensor::{Axes, DType, Data, Difference, Element, Error, Integers, Key, Kind, Result};
pub use tensor::{Over, Shape, Tensor, Tolerance, over, tensor};

/// What programs need: `use extensor::prelude::*;`.
///
/// The tensor with its methods, the types of their arguments, derivatives, checks, layers' and
/// optimisers' traits. Operations as functions are in [`ops`]; layers in [`nn`].
pub mod prelude {
    pub use crate::autodiff::{grad, hvp, jvp, value_and_grad, value_and_grad_with_aux, vjp, vmap};
    pub use crate::check::{assert_close, assert_grad, check_grad};
    pub use crate::nn::{Mode, Model, Module, summary};
    pub use crate::ops::{
        Approximate, AttentionOptions, BatchNormOptions, Conv3dOptions, ConvOptions,
        CrossEntropyOptions, FocalOptions, HuberOptions, InterpolateOptions, Interpolation, Order,
        PadMode, Pool3dOptions, PoolOptions, Reduce, Side, SmoothL1Options,
    };
    pub use crate::optim::Optimizer;
    pub use crate::train::Trainer;
    pub use crate::{DType, Error, Key, Result, Shape, Tensor, Tree, over, tensor};
}

/// What the environment's `EXTENSOR_…` variables say.
pub mod settings {
    pub use extensor_kernels::settings::check;
}

/// How many threads operations use.
pub mod threads {
    pub use extensor_kernels::par::{set_threads as set, threads as get, with_threads as with};
}

/// The pool that recycles large buffers.
pub mod memory {
    pub use extensor_kernels::buffer::{affordable, allocations, pool_bytes, set_pool_limit};
}
