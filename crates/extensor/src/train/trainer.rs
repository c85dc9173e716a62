//! A model and everything that changes with it from step to step, and the step itself.
//!
//! [`Trainer::step`] is for a loop of one's own, [`Trainer::fit`] is the loop. Both make the same step,
//! which is written here; this module must not know a loader, a checkpoint or a terminal.

use super::state::State;
use crate::autodiff::{Path, value_and_grad_with_aux};
use crate::gradients::{Accumulator, all_finite, finite};
use crate::nn::Mode;
use crate::optim::{Optimizer, Schedule};
use crate::precision::{self, LossScale, Policy};
use crate::{DType, Error, Key, Result, Tensor, Tree, debug};

/// What a loss function says beside the loss.
#[derive(Tree, Clone, Debug)]
pub struct Measured<M> {
    /// Means over the batch, by name.
    pub metrics: Vec<(&'static str, Tensor)>,
    /// The model with new running statistics, if it has any.
    pub model: Option<M>,
}

/// What a loss function may return: the loss; the loss and the model with new running statistics, which
/// is what [`Output::loss`](crate::nn::Output::loss) gives; or the loss and [what else was
/// measured](Measured).
pub trait Objective<M> {
    /// The loss, and what was measured beside it.
    fn measured(self) -> (Tensor, Measured<M>);
}

impl<M> Objective<M> for Tensor {
    fn measured(self) -> (Tensor, Measured<M>) {
        (self, Measured { metrics: Vec::new(), model: None })
    }
}

impl<M> Objective<M> for (Tensor, Option<M>) {
    fn measured(self) -> (Tensor, Measured<M>) {
        (self.0, Measured { metrics: Vec::new(), model: self.1 })
    }
}

impl<M> Objective<M> for (Tensor, Measured<M>) {
    fn measured(self) -> (Tensor, Measured<M>) {
        self
    }
}

/// A model in training: the model, what the optimiser remembers, the loss scale, the key and the number
/// of the step are one value, the [`state`](Trainer::state), which each step replaces.
///
/// ```
/// use extensor::optim::AdamW;
/// use extensor::prelude::*;
/// use extensor::train::Trainer;
///
/// // y = 2x + 1, found again.
/// let x = Key::new(1).normal([64, 1], DType::F32)?;
/// let y = &(&x * 2.0) + 1.0;
/// let line = (Tensor::zeros([1, 1], DType::F32)?, Tensor::zeros([1], DType::F32)?);
/// let mut trainer = Trainer::new(line, AdamW::new(0.05))?;
/// let mut loss = f64::INFINITY;
/// for _ in 0..400 {
///     loss = trainer.step(|(w, b), _| x.linear(w, b)?.mean_squared_error(&y, Reduce::Mean))?;
/// }
/// assert!(loss < 1e-4);
/// let (slope, offset) = trainer.model();
/// assert!((slope.item::<f32>()? - 2.0).abs() < 0.05 && (offset.item::<f32>()? - 1.0).abs() < 0.05);
/// # Ok::<(), extensor::Error>(())
/// ```
///
/// A copy of the state is the state at that step, whatever comes after: tensors do not change. If
/// nobody has a copy, the new numbers are written where the old ones were.
#[derive(Clone)]
pub struct Trainer<M, O> {
    /// What training is at: the model, the optimiser's state, the step, …
    pub state: State<M>,
    /// What turns gradients into better parameters.
    pub optimizer: O,
    /// What the learning rate follows; `None`: the optimiser's own.
    pub schedule: Option<Schedule>,
    /// In which dtypes the model is kept and computed with.
    pub policy: Policy,
    /// Whether [`fit`](Trainer::fit) compiles the loss and its gradient.
    pub compiled: bool,
}

/// What a loss function returns, whatever the user's returns.
type Losses<M> = Result<(Tensor, Measured<M>)>;

/// The loss of a part of a step: a batch, or one of several micro-batches.
pub(super) struct Part<'a, M> {
    /// How many examples it has, by which it counts.
    pub examples: usize,
    /// The loss of these.
    pub loss: &'a (dyn Fn(&M, &Mode) -> Losses<M> + 'a),
    /// Their loss and its gradient, for a model, a key and a loss scale, where that is not taken of the
    /// loss.
    pub gradient: Option<&'a Gradient<'a, M>>,
}

/// A loss and its gradient, for a model, a key and a loss scale.
pub(super) type Gradient<'a, M> = dyn Fn(&M, Key, LossScale) -> Result<Taken<M>> + 'a;

/// A loss, its gradients if they are finite, and what was measured.
pub(super) type Taken<M> = (Tensor, Option<M>, Measured<M>);

/// The loss of a model and its gradients by the parameters, unscaled, with a tensor that says whether they
/// are finite, and what was measured. All of it can be recorded: the loss scale is a tensor of one number,
/// if there is one.
pub(super) fn gradient<M: Tree>(
    loss: impl Fn(&M) -> Losses<M>,
    model: &M,
    policy: Policy,
    scale: Option<&Tensor>,
) -> Result<(Tensor, M, Tensor, Measured<M>)> {
    let (loss, grads, measured) = match scale {
        None if policy == Policy::full(DType::F32) => value_and_grad_with_aux(loss, model)?,
        _ => precision::scaled(loss, model, policy, scale)?,
    };
    let finite = finite(&grads)?;
    Ok((loss, precision::unscaled(grads, policy, scale)?, finite, measured))
}

/// What a step did.
pub(super) struct Made {
    pub loss: f64,
    pub metrics: Vec<(&'static str, f64)>,
    pub lr: f64,
    pub skipped: bool,
}

/// What the parts of a step say.
struct Found<M> {
    /// The gradients, if all are finite.
    grads: Option<M>,
    /// New buffers for the model, if it has some.
    buffers: Vec<Tensor>,
    loss: f64,
    metrics: Vec<(&'static str, f64)>,
}

/// The reason that [`Error::Diverged`] gives where no operation is to blame.
pub(super) const NO_SINGLE_OPERATION: &str = "no single operation made it of finite numbers";

impl<M: Tree + Clone, O: Optimizer<M>> Trainer<M, O> {
    /// A model before its first step. Random numbers come from `Key::new(0)` unless another
    /// [key](Trainer::key) is given.
    pub fn new(model: M, optimizer: O) -> Result<Trainer<M, O>> {
        Ok(Trainer::from_state(State::new(model, &optimizer, Key::new(0))?, optimizer))
    }

    /// A model in training that goes on from a state: one that a checkpoint held, or one with a moving
    /// average.
    pub fn from_state(state: State<M>, optimizer: O) -> Trainer<M, O> {
        let policy = Policy::full(DType::F32);
        Trainer { state, optimizer, schedule: None, policy, compiled: false }
    }

    /// With random numbers from this key.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.state.key = key;
        self
    }

    /// With a learning rate that follows this schedule.
    #[must_use]
    pub fn schedule(self, schedule: Schedule) -> Self {
        Trainer { schedule: Some(schedule), ..self }
    }

    /// In these dtypes, with the [loss scale](Policy::loss_scale) that belongs to them unless the state
    /// has one already. Loss functions are given the model in the policy's compute dtype; a loop of
    /// one's own brings its inputs there by [`Policy::to_compute`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        if self.state.scale == LossScale::NONE {
            self.state.scale = policy.loss_scale();
        }
        Trainer { policy, ..self }
    }

    /// With a loss and a gradient that [`fit`](Trainer::fit) [compiles](crate::compile::compile): recorded at
    /// the first batch of each shape and then only run, with the same bits. The loss function must compute
    /// with tensors: what it reads of them on the host, and what it has from elsewhere than its arguments, is
    /// that of the first batch.
    #[must_use]
    pub fn compiled(self) -> Self {
        Trainer { compiled: true, ..self }
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.state.model
    }

    /// The model at the end of training.
    pub fn into_model(self) -> M {
        self.state.model
    }

    /// Makes a step down the gradient of a loss, and returns the loss before it. The loss function is
    /// given the model, and the mode of training with a key that is another one in each step.
    ///
    /// A loss or a gradient that is not finite, other than by an overflow that a dynamic loss scale
    /// mends, is [an error](Error::Diverged) that names the operation which made it. After any error
    /// of the loss function the model is what it was before the step.
    #[track_caller]
    pub fn step<R: Objective<M>>(&mut self, loss: impl Fn(&M, &Mode) -> Result<R>) -> Result<f64> {
        let loss = |model: &M, mode: &Mode| Ok(loss(model, mode)?.measured());
        Ok(self.advance(&[Part { examples: 1, loss: &loss, gradient: None }])?.loss)
    }

    /// Makes a step of these parts.
    #[track_caller]
    pub(super) fn advance(&mut self, parts: &[Part<'_, M>]) -> Result<Made> {
        let found = self.gradients(parts)?;
        self.expect_finite(&found, parts)?;
        let lr = self.learning_rate();
        let state = &mut self.state;
        let skipped = found.grads.is_none();
        if let Some(grads) = found.grads {
            self.optimizer.advance(lr, &mut state.model, &grads, &mut state.optimizer)?;
            set_buffers(&mut state.model, found.buffers)?;
            if let Some(average) = state.average.take() {
                state.average = Some(average.update(&state.model)?);
            }
        }
        state.scale = state.scale.after(!skipped);
        state.step += 1;
        state.overflows += u64::from(skipped);
        Ok(Made { loss: found.loss, metrics: found.metrics, lr, skipped })
    }

    /// The learning rate of the next step: the plateau's, the schedule's or the optimiser's.
    pub fn learning_rate(&self) -> f64 {
        match (&self.state.plateau, &self.schedule) {
            (Some(plateau), _) => plateau.lr(),
            (None, Some(schedule)) => schedule.lr(self.state.step),
            (None, None) => self.optimizer.learning_rate(),
        }
    }

    /// The loss and the gradients of the parts of a step, weighted by their examples.
    fn gradients(&self, parts: &[Part<'_, M>]) -> Result<Found<M>> {
        let mut total = Accumulator::new();
        let mut found = Found { grads: None, buffers: Vec::new(), loss: 0.0, metrics: Vec::new() };
        let mut finite = true;
        let examples: usize = parts.iter().map(|part| part.examples).sum();
        let key = self.state.key.fold_in(self.state.step);
        for (i, part) in parts.iter().enumerate() {
            let key = key.fold_in(i as u64);
            let (loss, grads, measured) = match part.gradient {
                Some(gradient) if !debug::watched() => {
                    gradient(&self.state.model, key, self.state.scale)?
                }
                _ => self.part(part, &Mode::Training(key))?,
            };
            let share = part.examples as f64 / examples.max(1) as f64;
            found.loss += share * number(&loss)?;
            for (k, (name, value)) in measured.metrics.iter().enumerate() {
                match found.metrics.get_mut(k) {
                    Some(metric) => metric.1 += share * number(value)?,
                    None => found.metrics.push((name, share * number(value)?)),
                }
            }
            found.buffers = measured.model.as_ref().map_or(Vec::new(), buffers);
            match grads {
                Some(grads) if parts.len() == 1 => found.grads = Some(grads),
                Some(grads) => total.add(&grads, part.examples as f64)?,
                None => finite = false,
            }
        }
        if parts.len() > 1 {
            found.grads = total.mean()?;
        }
        if !finite {
            found.grads = None;
        }
        Ok(found)
    }

    /// The loss of a part, its gradients if they are finite, and what was measured.
    fn part(&self, part: &Part<'_, M>, mode: &Mode) -> Result<Taken<M>> {
        let f = |model: &M| (part.loss)(model, mode);
        let State { model, scale, .. } = &self.state;
        if self.policy == Policy::full(DType::F32) && *scale == LossScale::NONE {
            let (loss, grads, measured) = value_and_grad_with_aux(f, model)?;
            let finite = all_finite(&grads)?;
            return Ok((loss, finite.then_some(grads), measured));
        }
        let found = precision::value_and_grad(f, model, self.policy, *scale)?;
        Ok((found.loss, found.grads, found.aux))
    }

    /// An error that names an operation, unless what was found can be used or a smaller loss scale
    /// helps.
    fn expect_finite(&self, found: &Found<M>, parts: &[Part<'_, M>]) -> Result<()> {
        let scale = self.state.scale;
        let mends = scale.after(false).value() < scale.value();
        if found.loss.is_finite() && (found.grads.is_some() || mends) {
            return Ok(());
        }
        let what = match found.loss.is_finite() {
            true => "a gradient is not finite".to_string(),
            false => format!("the loss is {}", found.loss),
        };
        let reason = match debug::finite(|| self.gradients(parts)) {
            Err(error) => error.to_string(),
            Ok(_) => NO_SINGLE_OPERATION.into(),
        };
        Err(Error::Diverged { step: self.state.step + 1, what, reason })
    }
}

/// The value of a tensor that is one number.
fn number(x: &Tensor) -> Result<f64> {
    Ok(x.plain("train")?.to_f64_vec().first().copied().unwrap_or(f64::NAN))
}

/// The buffers of a model, in order.
fn buffers<M: Tree>(model: &M) -> Vec<Tensor> {
    let mut found = Vec::new();
    // Collecting cannot fail.
    let _ = model.visit(&Path::ROOT, &mut |path, x| {
        if path.is_buffer() {
            found.push(x.clone());
        }
        Ok(())
    });
    found
}

/// Puts these buffers in the place of the model's own; all stay if there are none.
fn set_buffers<M: Tree>(model: &mut M, buffers: Vec<Tensor>) -> Result<()> {
    let mut buffers = buffers.into_iter();
    model.visit_mut(&Path::ROOT, &mut |path, x| {
        if path.is_buffer()
            && let Some(buffer) = buffers.next()
        {
            *x = buffer;
        }
        Ok(())
    })
}
