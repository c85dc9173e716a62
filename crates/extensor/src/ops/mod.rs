//! The operations: each in one place, with its formula, forward, backward, samples and errors.
//!
//! An operation is a pure function of tensors with an explicit backward function beside it, and a
//! method of [`Tensor`](crate::Tensor). The functions are in the modules of their families, and here
//! all together:
//!
//! ```
//! use extensor::{ops, tensor};
//! let x = tensor([-1.0, 2.0]);
//! assert_eq!(ops::relu(&x)?.to_vec::<f64>()?, x.relu()?.to_vec::<f64>()?);
//! let dx = ops::relu_backward(&tensor([10.0, 20.0]), &x)?;
//! assert_eq!(dx.to_vec::<f64>()?, [0.0, 20.0]);
//! # Ok::<(), extensor::Error>(())
//! ```
//!
//! The [`catalogue`] lists them with all that is known of each; [`Operation`] is what one is.
//!
//! An operation must not know how differentiation is driven, nor how elements are stored. What the
//! families share is beside this file.

mod accuracy;
pub mod batching;
pub(crate) mod calculus;
pub mod catalogue;
pub mod operation;
mod options;
pub mod params;
pub(crate) mod pointwise;
pub mod record;
pub mod samples;
mod signature;
pub mod source;
mod unary;

pub mod activation;
pub mod arithmetic;
pub mod attention;
pub mod convolution;
pub mod dropout;
pub mod elementwise;
pub mod linalg;
pub mod loss;
pub mod matrix;
pub mod normalization;
pub mod pooling;
pub mod reduction;
pub mod shape;

#[doc(no_inline)]
pub use activation::*;
#[doc(no_inline)]
pub use arithmetic::*;
#[doc(no_inline)]
pub use attention::*;
#[doc(no_inline)]
pub use convolution::*;
#[doc(no_inline)]
pub use dropout::*;
#[doc(no_inline)]
pub use elementwise::*;
#[doc(no_inline)]
pub use linalg::*;
#[doc(no_inline)]
pub use loss::*;
#[doc(no_inline)]
pub use matrix::*;
#[doc(no_inline)]
pub use normalization::*;
pub use operation::Operation;
#[doc(no_inline)]
pub use pooling::*;
#[doc(no_inline)]
pub use reduction::*;
#[doc(no_inline)]
pub use shape::*;
