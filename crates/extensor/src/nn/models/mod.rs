//! Models ready to use.
//!
//! They are made of layers and operations and know nothing of data or of training.

mod gpt;
mod lenet;
mod mlp;
mod resnet;

pub use gpt::{Block, Gpt, GptConfig};
pub use lenet::LeNet5;
pub use mlp::Mlp;
pub use resnet::{BasicBlock, ResNet};
