//! Models ready to use.
//!
//! They are made of layers and operations and know nothing of data or of training.

mod lenet;
mod mlp;

pub use lenet::LeNet5;
pub use mlp::Mlp;
