//! Automatic differentiation: functions on functions, of any order.
//!
//! A transformation calls a function with *traced* tensors. Each call of a transformation is a level
//! of its own: a traced tensor of a level wraps a value, which may itself be traced at lower levels.
//! An operation on traced tensors computes on the values of the highest level among them, which is
//! the same call one level down, and notes at that level what it did. So transformations nest to any
//! depth, in any combination, inside closures over outer variables, and a first-order gradient notes
//! nothing twice.
//!
//! This module must not know any particular operation: derivatives come from operations' own rules.

mod batch;
mod checkpoint;
mod curvature;
mod custom;
mod formula;
mod node;
mod pull;
mod trace;
mod transform;
mod tree;
mod vmap;

pub(crate) use batch::example;
pub use checkpoint::*;
pub use curvature::*;
pub use custom::{custom_jvp, custom_vjp};
pub use extensor_derive::Tree;
pub(crate) use formula::formula;
pub(crate) use pull::backward;
pub(crate) use trace::{Traced, apply};
pub use transform::*;
pub use tree::*;
pub use vmap::*;
