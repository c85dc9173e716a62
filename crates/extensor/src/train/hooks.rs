//! What the loop tells whoever watches it, and asks of them.

use crate::Result;
use crate::io::safetensors::Contents;

/// What a step found.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// Its number, from 1 on.
    pub step: u64,
    /// The epoch it belongs to, from 0 on.
    pub epoch: u64,
    /// The loss before the step.
    pub loss: f64,
    /// What else the loss function measured.
    pub metrics: Vec<(&'static str, f64)>,
    /// The learning rate.
    pub lr: f64,
    /// The norm of the gradient, where the optimiser clips it.
    pub grad_norm: Option<f64>,
    /// The factor on the loss for the next step.
    pub scale: f64,
    /// Whether the step was skipped for an overflow.
    pub skipped: bool,
    /// How many examples there were.
    pub examples: usize,
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The higher the better: an accuracy, a loss with its sign turned.
    pub score: f64,
    /// All that was measured, by name.
    pub metrics: Vec<(&'static str, f64)>,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop after this step, with a checkpoint.
    Stop,
}

/// What happens on the way. All do nothing unless they are written.
pub trait Hooks<M> {
    /// After each step.
    fn step(&mut self, step: &StepReport) -> Result<Flow> {
        let _ = step;
        Ok(Flow::Continue)
    }

    /// Evaluates a model, if anything is to be evaluated. [`Error::Interrupted`](crate::Error::Interrupted) stops training, with a
    /// checkpoint; what goes on from that evaluates first.
    fn evaluate(&mut self, model: &M) -> Result<Option<Evaluation>> {
        let _ = model;
        Ok(None)
    }

    /// After each evaluation; `best`: whether none before was as good.
    fn evaluated(&mut self, step: u64, epoch: u64, found: &Evaluation, best: bool) -> Result<Flow> {
        let _ = (step, epoch, found, best);
        Ok(Flow::Continue)
    }

    /// What else a checkpoint is to hold.
    fn describe<'a>(&self, contents: Contents<'a>) -> Contents<'a> {
        contents
    }

    /// After each checkpoint.
    fn saved(&mut self, path: &std::path::Path) -> Result<()> {
        let _ = path;
        Ok(())
    }
}

/// Hooks that do nothing.
impl<M> Hooks<M> for () {}
