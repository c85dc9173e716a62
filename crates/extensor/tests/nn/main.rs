//! Layers, their beginnings, and models.

mod behaviour;
mod golden;
mod gradients;
mod initial;
mod mixed;
mod values;
