//! Training: the loop with its hooks, checkpoints, and what is measured on the way.
//!
//! Everything here is written against trees of tensors and closures; it knows no model, no data set and
//! no terminal.

mod files;
pub mod metrics;
pub mod tensorboard;
