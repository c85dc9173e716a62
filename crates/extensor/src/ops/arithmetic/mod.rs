//! Arithmetic, comparison and logic on broadcast tensors.

pub(super) mod additive;
pub(super) mod bits;
pub(super) mod ieee;
pub(super) mod planar;
pub(super) mod predicates;
pub(super) mod products;
pub(super) mod ternary;

pub use additive::*;
pub use bits::*;
pub use ieee::*;
pub use planar::*;
pub use predicates::*;
pub use products::*;
pub use ternary::*;
