//! Products of matrices and vectors.

pub(super) mod linear;
pub(super) mod matmul;
mod product;
pub(super) mod vectors;

pub use linear::*;
pub use matmul::*;
pub use vectors::*;
