//! Sums over windows of an image, with weights.

mod conv1d;
mod conv2d;
mod conv3d;
mod conv_transpose1d;
mod conv_transpose2d;
mod conv_transpose3d;
mod fold;
mod grid_sample;
mod interpolate;
mod options;
mod pixels;
mod window;

pub(crate) use conv_transpose1d::ConvTranspose1d;
pub use conv_transpose1d::{conv_transpose1d, conv_transpose1d_backward};
pub(crate) use conv_transpose2d::ConvTranspose2d;
pub use conv_transpose2d::{conv_transpose2d, conv_transpose2d_backward};
pub(crate) use conv_transpose3d::ConvTranspose3d;
pub use conv_transpose3d::{conv_transpose3d, conv_transpose3d_backward};
pub(crate) use conv1d::Conv1d;
pub use conv1d::{conv1d, conv1d_backward};
pub(crate) use conv2d::Conv2d;
pub use conv2d::{conv2d, conv2d_backward};
pub(crate) use conv3d::Conv3d;
pub use conv3d::{conv3d, conv3d_backward};
pub(crate) use fold::{Fold, Unfold};
pub use fold::{fold, fold_backward, unfold, unfold_backward};
pub(crate) use grid_sample::GridSample;
pub use grid_sample::{GridPadding, GridSampleOptions, grid_sample, grid_sample_backward};
pub(crate) use interpolate::Interpolate;
pub use interpolate::{InterpolateOptions, Interpolation, interpolate, interpolate_backward};
pub(crate) use options::settings;
pub use options::{Conv3dOptions, ConvOptions, Pair, Triple};
pub use pixels::{pixel_shuffle, pixel_unshuffle};
