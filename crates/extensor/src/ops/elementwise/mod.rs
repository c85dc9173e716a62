//! Functions of one number.

pub(super) mod bessel;
pub(super) mod clip;
pub(super) mod functions;
pub(super) mod gamma;
pub(super) mod nan_to_num;
pub(super) mod normal;
pub(super) mod special;

pub use bessel::*;
pub use clip::*;
pub use functions::*;
pub use gamma::*;
pub use nan_to_num::*;
pub use normal::*;
pub use special::*;
