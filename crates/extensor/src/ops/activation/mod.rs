//! Nonlinear functions between the layers of networks.

pub(super) mod gelu;
pub(super) mod glu;
pub(super) mod linear_units;
pub(super) mod piecewise;
pub(super) mod prelu;
pub(super) mod shrinking;
pub(super) mod sigmoids;
pub(super) mod softmax;

pub use gelu::*;
pub use glu::*;
pub use linear_units::*;
pub use piecewise::*;
pub use prelu::*;
pub use shrinking::*;
pub use sigmoids::*;
pub use softmax::*;
