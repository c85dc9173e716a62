//! Training: a step, the loop with its hooks, checkpoints, and what is measured on the way.
//!
//! Everything here is written against trees of tensors and closures; it knows no model, no data set and
//! no terminal.

mod claim;
mod directory;
mod files;
mod fit;
mod hooks;
pub mod metrics;
mod parts;
mod slices;
mod state;
pub mod tensorboard;
mod together;
mod trainer;
mod travel;

pub use claim::Claim;
pub use directory::{Directory, Found};
pub use fit::{End, FitOptions, Plan};
pub use hooks::{Evaluation, Flow, Hooks, StepReport};
pub use state::{Best, State, expect_checkpoint};
pub use trainer::{Measured, Objective, Statistics, Trainer};
