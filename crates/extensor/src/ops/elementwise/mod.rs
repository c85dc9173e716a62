//! Functions of one number.

pub(super) mod clip;
pub(super) mod functions;
pub(super) mod gamma;
pub(super) mod normal;
pub(super) mod special;

pub use clip::*;
pub use functions::*;
pub use gamma::*;
pub use normal::*;
pub use special::*;
