//! Arithmetic, comparison and logic on broadcast tensors.

pub(super) mod additive;
pub(super) mod bits;
pub(super) mod planar;
pub(super) mod predicates;
pub(super) mod products;

pub use additive::*;
pub use bits::*;
pub use planar::*;
pub use predicates::*;
pub use products::*;
