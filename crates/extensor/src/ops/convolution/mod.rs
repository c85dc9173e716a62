//! Sums over windows of an image, with weights.

mod conv1d;
mod conv2d;
mod conv_transpose2d;
mod window;

pub(crate) use conv_transpose2d::ConvTranspose2d;
pub use conv_transpose2d::{conv_transpose2d, conv_transpose2d_backward};
pub(crate) use conv1d::Conv1d;
pub use conv1d::{conv1d, conv1d_backward};
pub(crate) use conv2d::Conv2d;
pub use conv2d::{conv2d, conv2d_backward};
pub(crate) use window::settings;
pub use window::{ConvOptions, Pair};
