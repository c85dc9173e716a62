//! A model and everything that changes with it from step to step, and the step itself.
//!
//! [`Trainer::step`] is for a loop of one's own, [`Trainer::fit`] is the loop. Both make the same step,
//! which is written here; this module must not know a loader, a checkpoint or a terminal.

use super::parts::{Part, Step};
use super::slices::Slices;
use super::state::State;
use crate::autodiff::Path;
use crate::distributed::{Group, Order};
use crate::nn::Mode;
use crate::optim::{Optimizer, Schedule, State as OptimizerState};
use crate::precision::{LossScale, Policy};
use crate::{DType, Key, Result, Tensor, Tree};
use std::borrow::Cow;

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
    /// Which running statistics a step of several parts leaves.
    pub statistics: Statistics,
    /// In which order the gradients of ranks are added.
    pub order: Order,
    /// The ranks that make each step together.
    pub(super) group: Group,
    /// Which elements of each parameter the optimiser's state is of, if it is not of all.
    pub(super) slices: Option<Slices>,
}

/// Which running statistics (of a batch norm, say) a step of several parts leaves: each part begins with
/// those before the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statistics {
    /// Those of the last part.
    #[default]
    LastPart,
    /// The means over all parts, each counted by its examples. A variance is the mean of the parts'
    /// variances, not that of the whole batch; whole numbers are the last part's.
    Mean,
}

/// What a step did.
pub(super) struct Made {
    pub loss: f64,
    pub metrics: Vec<(&'static str, f64)>,
    pub lr: f64,
    pub skipped: bool,
}

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
        Trainer {
            state,
            optimizer,
            schedule: None,
            policy,
            compiled: false,
            statistics: Statistics::default(),
            order: Order::Fixed,
            group: Group::alone(),
            slices: None,
        }
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

    /// With these running statistics after a step of several parts.
    #[must_use]
    pub fn statistics(self, statistics: Statistics) -> Self {
        Trainer { statistics, ..self }
    }

    /// With steps that the ranks of a group make together. Each has a trainer like this one and computes
    /// parts of its own; after a step all have the same state, which is to the last bit what one process
    /// makes of the same parts, whatever their number. What one of them decides or fails at (a gradient
    /// that is not finite, an evaluation, the wish to stop, an error) holds for all.
    ///
    /// ```
    /// use extensor::data::{Loader, Pairs};
    /// use extensor::distributed::{Group, threads};
    /// use extensor::optim::AdamW;
    /// use extensor::prelude::*;
    /// use extensor::train::{Plan, Trainer};
    ///
    /// let train = |group: &Group| -> Result<Vec<f32>> {
    ///     let [a, b, c] = Key::new(1).split();
    ///     let x = a.normal([64, 3], DType::F32)?;
    ///     let y = x.linear(&b.normal([1, 3], DType::F32)?, None)?;
    ///     let loader = Loader::new(Pairs::new(x, y)?, 16, c)?.shuffle(true);
    ///     let mut trainer = Trainer::new(Tensor::zeros([1, 3], DType::F32)?, AdamW::new(0.1))?.group(group);
    ///     trainer.fit(
    ///         &loader,
    ///         |weight, batch, _| {
    ///             let y = batch.inputs.linear(weight, None)?;
    ///             y.mean_squared_error(&batch.targets, Reduce::Mean)
    ///         },
    ///         Plan::new(20).parts(4),
    ///     )?;
    ///     trainer.model().to_vec::<f32>()
    /// };
    /// let one = train(&Group::alone())?;
    /// assert_eq!(threads(2, train)?, [one.clone(), one.clone()]);
    /// assert_eq!(threads(3, train)?, [one.clone(), one.clone(), one]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[must_use]
    pub fn group(self, group: &Group) -> Self {
        Trainer { group: group.clone(), ..self }
    }

    /// With the gradients of ranks added in this order: the fixed one, unless another is asked for that may be
    /// faster and makes other bits for another number of ranks.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Trainer { order, ..self }
    }

    /// With the optimiser's state cut among the ranks of the [group](Trainer::group): each keeps that of
    /// its share of every parameter and updates the share, which the others are then sent. For `n` ranks it
    /// takes one `n`-th of the memory, and one more exchange as long as the model for each step. All bits
    /// stay, with any optimiser that treats every element alike (all of [`optim`](crate::optim) do, their
    /// clipping by the norm of all gradients included).
    ///
    /// From here on `state.optimizer` is the rank's share; [`whole`](Trainer::whole) is the state that
    /// can be saved. A group must have been given before.
    pub fn sharded(mut self) -> Result<Self> {
        if self.slices.is_none() && self.group.size() > 1 {
            let slices = Slices { rank: self.group.rank(), size: self.group.size() };
            self.state.optimizer = slices.of(&self.state.optimizer)?;
            self.slices = Some(slices);
        }
        Ok(self)
    }

    /// The ranks that make each step together: one if no [group](Trainer::group) was given.
    pub fn ranks(&self) -> &Group {
        &self.group
    }

    /// The state with all that the optimiser remembers, on the first rank; the others, which must call
    /// this too, keep their shares of that. It is the [state](Trainer::state) as it is unless it is
    /// [cut among ranks](Trainer::sharded).
    pub fn whole(&self) -> Result<Cow<'_, State<M>>> {
        let Some(slices) = self.slices else {
            return Ok(Cow::Borrowed(&self.state));
        };
        let optimizer = self.whole_optimizer(slices)?;
        Ok(Cow::Owned(State { optimizer, ..self.state.clone() }))
    }

    fn whole_optimizer(&self, slices: Slices) -> Result<OptimizerState<M>> {
        slices.gather_state(&self.group, &self.state.optimizer, &self.state.model)
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
    /// mends, is [an error](crate::Error::Diverged) that names the operation which made it. After any error
    /// of the loss function the model is what it was before the step.
    #[track_caller]
    pub fn step<R: Objective<M>>(&mut self, loss: impl Fn(&M, &Mode) -> Result<R>) -> Result<f64> {
        let loss = |model: &M, mode: &Mode| Ok(loss(model, mode)?.measured());
        let parts = [Part { examples: 1, loss: &loss, gradient: None }];
        let (first, of) = (self.group.rank(), self.group.size());
        Ok(self.advance(&Step { parts: &parts, first, of })?.loss)
    }

    /// Makes a step, of which this rank's parts are given.
    #[track_caller]
    pub(super) fn advance(&mut self, step: &Step<'_, M>) -> Result<Made> {
        let found = self.gradients(step)?;
        let lr = self.learning_rate();
        let skipped = found.grads.is_none();
        if let Some(grads) = &found.grads {
            self.update(lr, grads)?;
            let state = &mut self.state;
            set_buffers(&mut state.model, found.buffers)?;
            if let Some(average) = state.average.take() {
                state.average = Some(average.update(&state.model)?);
            }
        }
        let state = &mut self.state;
        state.scale = state.scale.after(!skipped);
        state.step += 1;
        state.overflows += u64::from(skipped);
        Ok(Made { loss: found.loss, metrics: found.metrics, lr, skipped })
    }

    /// Replaces the model and what the optimiser remembers of it.
    fn update(&mut self, lr: f64, grads: &M) -> Result<()> {
        let State { model, optimizer: memory, .. } = &mut self.state;
        let Some(slices) = self.slices else {
            return self.optimizer.advance(lr, model, grads, memory);
        };
        let mut own = slices.of(&*model)?;
        self.optimizer.advance_slice(lr, &mut own, &slices.of(grads)?, memory, grads)?;
        slices.join(&self.group, own, model)
    }

    /// The learning rate of the next step: the plateau's, the schedule's or the optimiser's.
    pub fn learning_rate(&self) -> f64 {
        match (&self.state.plateau, &self.schedule) {
            (Some(plateau), _) => plateau.lr(),
            (None, Some(schedule)) => schedule.lr(self.state.step),
            (None, None) => self.optimizer.learning_rate(),
        }
    }
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
