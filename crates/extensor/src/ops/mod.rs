//! The operations: each in one place, with its formula, forward, backward, samples and errors.
//!
//! An operation is a pure function of tensors with an explicit backward function beside it. It must
//! not know how differentiation is driven, nor how elements are stored. The families are in folders;
//! what they share is beside this file.

mod accuracy;
pub(crate) mod calculus;
pub mod catalogue;
pub mod operation;
mod options;
pub mod params;
pub(crate) mod pointwise;
pub mod record;
pub mod samples;
mod unary;

mod activation;
mod arithmetic;
mod attention;
mod convolution;
mod dropout;
mod elementwise;
mod loss;
mod matrix;
mod normalization;
mod pooling;
mod reduction;
mod shape;

pub use activation::*;
pub use arithmetic::*;
pub use attention::*;
pub use convolution::*;
pub use dropout::*;
pub use elementwise::*;
pub use loss::*;
pub use matrix::*;
pub use normalization::*;
pub use operation::Operation;
pub use pooling::*;
pub use reduction::*;
pub use shape::*;
