//! The operations: each in one place, with its formula, forward, backward, samples and errors.
//!
//! An operation is a pure function of tensors with an explicit backward function beside it. It must
//! not know how differentiation is driven, nor how elements are stored. The families are in folders;
//! what they share is beside this file.

pub mod catalogue;
pub mod operation;
pub mod params;
mod pointwise;
pub mod record;
pub mod samples;

mod arithmetic;
mod elementwise;
mod matrix;
mod reduction;
mod shape;

pub use arithmetic::*;
pub use elementwise::*;
pub use matrix::*;
pub use operation::Operation;
pub use reduction::*;
pub use shape::*;
