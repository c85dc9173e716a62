//! Arithmetic, comparison and logic on broadcast tensors.

pub(super) mod additive;
pub(super) mod predicates;
pub(super) mod products;

pub use additive::*;
pub use predicates::*;
pub use products::*;
