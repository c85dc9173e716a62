//! Products of matrices and vectors.

pub(super) mod distances;
pub(super) mod einsum;
pub(super) mod linear;
pub(super) mod matmul;
mod product;
pub(super) mod tensors;
pub(super) mod vectors;

pub use distances::*;
pub use einsum::*;
pub use linear::*;
pub use matmul::*;
pub use tensors::*;
pub use vectors::*;
