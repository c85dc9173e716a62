//! Training: the loop with its hooks, checkpoints, and what is measured on the way.
//!
//! Everything here is written against trees of tensors and closures; it knows no model, no data set and
//! no terminal.

mod directory;
mod files;
mod fit;
pub mod metrics;
mod state;
pub mod tensorboard;

pub use directory::{Directory, Found};
pub use fit::{End, Evaluation, Flow, Hooks, Measured, Plan, Step, fit};
pub use state::{Best, State};
