//! Functions of one number.

pub(super) mod clip;
pub(super) mod functions;
pub(super) mod nan_to_num;

pub use clip::*;
pub use functions::*;
pub use nan_to_num::*;
