//! Products of matrices and vectors.

pub(super) mod einsum;
pub(super) mod linear;
pub(super) mod matmul;
mod product;
pub(super) mod tensors;
pub(super) mod vectors;

pub use einsum::*;
pub use linear::*;
pub use matmul::*;
pub use tensors::*;
pub use vectors::*;
