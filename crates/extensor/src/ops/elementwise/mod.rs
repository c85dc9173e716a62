//! Functions of one number.

pub(super) mod clip;
pub(super) mod functions;

pub use clip::*;
pub use functions::*;
