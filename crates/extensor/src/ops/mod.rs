//! The operations: each in one place, with its formula, forward, backward, samples and errors.
//!
//! An operation is a pure function of tensors with an explicit backward function beside it. It must
//! not know how differentiation is driven, nor how elements are stored.

mod additive;
mod arithmetic;
mod axes;
mod cast;
pub mod catalogue;
mod clip;
mod elementwise;
mod filling;
mod indexing;
mod joining;
mod matrix;
pub mod operation;
pub mod params;
mod pointwise;
mod predicates;
pub mod record;
mod reduction;
mod reduction_extremes;
mod reduction_product;
mod reduction_scan;
mod reduction_spread;
pub mod samples;
mod scatter;
mod shape;
mod slicing;
mod split;
mod triangle;
mod views;

pub use additive::*;
pub use arithmetic::*;
pub use axes::*;
pub use cast::*;
pub use clip::*;
pub use elementwise::*;
pub use filling::*;
pub use indexing::*;
pub use joining::*;
pub use matrix::*;
pub use operation::Operation;
pub use predicates::*;
pub use reduction::*;
pub use reduction_extremes::*;
pub use reduction_product::*;
pub use reduction_scan::*;
pub use reduction_spread::*;
pub use scatter::*;
pub use slicing::*;
pub use split::*;
pub use triangle::*;
pub use views::*;
