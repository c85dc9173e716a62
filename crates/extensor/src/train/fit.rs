//! The loop: steps, evaluations and checkpoints, in that order, until the plan is fulfilled.
//!
//! It is told what to learn by a closure and reports by hooks; it must not know a model, a terminal or
//! the time.

use super::directory::Directory;
use super::hooks::{Flow, Hooks, StepReport};
use super::state::Best;
use super::trainer::gradient;
use super::trainer::{Gradient, Measured, NO_SINGLE_OPERATION, Objective, Part, Taken, Trainer};
use crate::compile::compile;
use crate::data::{Batch, Batches, Loaded, Loader, Position};
use crate::gradients::all_finite;
use crate::nn::Mode;
use crate::optim::Optimizer;
use crate::precision::LossScale;
use crate::{Error, Key, Result, Tensor, Tree};

/// How long to train, and what is done on the way.
///
/// ```
/// use extensor::train::Plan;
/// let plan = Plan::new(10_000).accumulate(4).evaluate_every(500).patience(5);
/// assert_eq!((plan.steps, plan.checkpoint_every), (10_000, 0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many steps there are to be in all.
    pub steps: u64,
    /// How many batches of the loader make a step.
    pub accumulate: u64,
    /// Evaluate after so many steps; 0: after each epoch. The last step is followed by one, too.
    pub evaluate_every: u64,
    /// Save after so many steps; 0: after each epoch. An evaluation is followed by one, too.
    pub checkpoint_every: u64,
    /// Stop when so many evaluations in a row brought nothing better; 0: never.
    pub patience: u64,
}

impl Plan {
    /// So many steps of a batch each, with an evaluation and a checkpoint after each epoch.
    pub fn new(steps: u64) -> Plan {
        Plan { steps, accumulate: 1, evaluate_every: 0, checkpoint_every: 0, patience: 0 }
    }

    /// With so many batches of the loader to a step.
    #[must_use]
    pub fn accumulate(self, accumulate: u64) -> Plan {
        Plan { accumulate, ..self }
    }

    /// With an evaluation after so many steps.
    #[must_use]
    pub fn evaluate_every(self, evaluate_every: u64) -> Plan {
        Plan { evaluate_every, ..self }
    }

    /// With a checkpoint after so many steps.
    #[must_use]
    pub fn checkpoint_every(self, checkpoint_every: u64) -> Plan {
        Plan { checkpoint_every, ..self }
    }

    /// With an end when so many evaluations in a row brought nothing better.
    #[must_use]
    pub fn patience(self, patience: u64) -> Plan {
        Plan { patience, ..self }
    }
}

/// A [`Plan`], where checkpoints go and who is told what happens: what [`Trainer::fit`] takes where a
/// plan alone does not do.
pub struct FitOptions<'a, M> {
    plan: Plan,
    directory: Option<&'a Directory>,
    hooks: Option<&'a mut dyn Hooks<M>>,
}

impl<'a, M> FitOptions<'a, M> {
    /// This plan, with no checkpoints and nobody watching.
    pub fn new(plan: Plan) -> FitOptions<'a, M> {
        FitOptions { plan, directory: None, hooks: None }
    }

    /// With checkpoints in this directory.
    #[must_use]
    pub fn directory(self, directory: &'a Directory) -> Self {
        FitOptions { directory: Some(directory), ..self }
    }

    /// With these hooks called on the way.
    #[must_use]
    pub fn hooks(self, hooks: &'a mut dyn Hooks<M>) -> Self {
        FitOptions { hooks: Some(hooks), ..self }
    }
}

impl<M> From<Plan> for FitOptions<'_, M> {
    fn from(plan: Plan) -> Self {
        FitOptions::new(plan)
    }
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The plan is fulfilled.
    Done,
    /// A hook said so.
    Stopped,
    /// Evaluations brought nothing better for as long as the plan's patience.
    NoBetter,
}

impl<M: Tree + Clone, O: Optimizer<M>> Trainer<M, O> {
    /// Trains by batches of `loader`, from the state that the trainer is in, until the plan is
    /// fulfilled. Inputs of a batch come in the [policy](Trainer::policy)'s compute dtype.
    ///
    /// A loss or a gradient that is not finite, other than by an overflow that a dynamic loss scale
    /// mends, is an error that names the operation which made it; the model as it was before that step
    /// is saved first.
    ///
    /// ```
    /// use extensor::data::{Loader, Pairs};
    /// use extensor::optim::Sgd;
    /// use extensor::prelude::*;
    /// use extensor::train::{End, Plan, Trainer};
    ///
    /// let [a, b, c] = Key::new(1).split();
    /// let x = a.normal([64, 3], DType::F32)?;
    /// let truth = b.normal([1, 3], DType::F32)?;
    /// let y = x.linear(&truth, None)?;
    /// let loader = Loader::new(Pairs::new(x, y)?, 16, c)?.shuffle(true);
    ///
    /// let mut trainer = Trainer::new(Tensor::zeros([1, 3], DType::F32)?, Sgd::new(0.1))?;
    /// let end = trainer.fit(
    ///     &loader,
    ///     |weight, batch, _| {
    ///         let y = batch.inputs.linear(weight, None)?;
    ///         y.mean_squared_error(&batch.targets, Reduce::Mean)
    ///     },
    ///     Plan::new(100),
    /// )?;
    /// assert_eq!((end, trainer.state.step, trainer.state.position.epoch), (End::Done, 100, 25));
    /// let error = trainer.model().to_vec::<f32>()?[0] - truth.to_vec::<f32>()?[0];
    /// assert!(error.abs() < 1e-3);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn fit<'a, R: Objective<M>>(
        &mut self,
        loader: &Loader,
        loss: impl Fn(&M, &Batch, &Mode) -> Result<R>,
        options: impl Into<FitOptions<'a, M>>,
    ) -> Result<End>
    where
        M: 'a,
    {
        let FitOptions { plan, directory, hooks } = options.into();
        let loss = |model: &M, batch: &Batch, mode: &Mode| Ok(loss(model, batch, mode)?.measured());
        let mut nobody = ();
        let hooks = hooks.unwrap_or(&mut nobody);
        let policy = self.policy;
        let of_batch = |model: &M, batch: &Batch, mode: &Mode| {
            let inputs = policy.to_compute(&batch.inputs)?;
            loss(model, &Batch { inputs, targets: batch.targets.clone() }, mode)
        };
        let compiled = compile(|(model, (inputs, targets), key, scale): &Taking<M>| {
            let batch = Batch { inputs: inputs.clone(), targets: targets.clone() };
            let mode = Mode::Training(*key);
            let loss = |model: &M| of_batch(model, &batch, &mode);
            let (loss, grads, finite, measured) = gradient(loss, model, policy, scale.as_ref())?;
            Ok((loss, grads, finite, measured))
        });
        let take = |model: &M, batch: &Batch, key: Key, scale: LossScale| {
            let scale = (scale != LossScale::NONE).then(|| crate::tensor(scale.value()));
            let batch = (batch.inputs.clone(), batch.targets.clone());
            let (loss, grads, finite, measured) =
                compiled.call(&(model.clone(), batch, key, scale))?;
            Ok((loss, finite.item::<bool>()?.then_some(grads), measured))
        };
        let gradient: Option<BatchGradient<'_, M>> = if self.compiled { Some(&take) } else { None };
        Loop { trainer: self, plan, loss: &of_batch, gradient, directory, hooks }.run(loader)
    }
}

/// A loss function of a model, a batch and a mode.
type Loss<'a, M> = &'a dyn Fn(&M, &Batch, &Mode) -> Result<(Tensor, Measured<M>)>;

/// Its gradient, for a model, a batch, a key and a loss scale.
type BatchGradient<'a, M> = &'a dyn Fn(&M, &Batch, Key, LossScale) -> Result<Taken<M>>;

/// What a compiled gradient is taken of: a model, a batch, a key and a loss scale.
type Taking<M> = (M, (Tensor, Tensor), Key, Option<Tensor>);

struct Loop<'a, 'h, M, O> {
    trainer: &'a mut Trainer<M, O>,
    plan: Plan,
    loss: Loss<'a, M>,
    gradient: Option<BatchGradient<'a, M>>,
    directory: Option<&'a Directory>,
    hooks: &'a mut (dyn Hooks<M> + 'h),
}

impl<M: Tree + Clone, O: Optimizer<M>> Loop<'_, '_, M, O> {
    fn run(&mut self, loader: &Loader) -> Result<End> {
        let plan = self.plan;
        if let Some(directory) = self.directory {
            directory.claim()?;
        }
        let state = &self.trainer.state;
        let mut batches = loader.start_at(state.position)?;
        if state.step == 0 {
            // From now on there is something to go on from.
            self.save()?;
        } else if let Some(directory) = self.directory {
            directory.tidy(state.best.map(|best| best.step))?;
        }
        if self.trainer.state.due {
            // Of the epoch that the last step belonged to.
            let Position { epoch, batch } = self.trainer.state.position;
            let epoch = if batch == 0 { epoch.saturating_sub(1) } else { epoch };
            let stop = self.evaluate(epoch)? == Flow::Stop;
            self.save()?;
            if stop {
                return Ok(End::Stopped);
            }
        }
        while self.trainer.state.step < plan.steps {
            if plan.patience > 0 && self.trainer.state.stale >= plan.patience {
                return Ok(End::NoBetter);
            }
            let epoch = self.trainer.state.position.epoch;
            let mut stop = self.step(&mut batches)? == Flow::Stop;
            let state = &mut self.trainer.state;
            let due = |every: u64| match every {
                0 => state.position.epoch != epoch,
                n => state.step.is_multiple_of(n),
            };
            let (evaluate, save) = (due(plan.evaluate_every), due(plan.checkpoint_every));
            let last = state.step >= plan.steps;
            state.due = evaluate || last;
            if state.due {
                stop |= self.evaluate(epoch)? == Flow::Stop;
            }
            if evaluate || save || last || stop {
                self.save()?;
            }
            if stop && (!last || self.trainer.state.due) {
                return Ok(End::Stopped);
            }
        }
        Ok(End::Done)
    }

    fn step(&mut self, batches: &mut Batches) -> Result<Flow> {
        let wanted = self.plan.accumulate.max(1) as usize;
        let loaded = batches.by_ref().take(wanted).collect::<Result<Vec<Loaded>>>()?;
        let (Some(first), Some(last)) = (loaded.first(), loaded.last()) else {
            let (expected, got) = ("batches without end".into(), "none".into());
            return Err(Error::Inputs { op: "fit", expected, got });
        };
        let (epoch, position) = (first.position.epoch, last.next);
        let examples = loaded.iter().map(|l| count(&l.batch)).sum();
        let (loss, gradient) = (self.loss, self.gradient);
        let losses: Vec<_> = loaded
            .iter()
            .map(|l| move |model: &M, mode: &Mode| loss(model, &l.batch, mode))
            .collect();
        let gradients: Vec<_> = loaded
            .iter()
            .filter_map(|l| {
                gradient.map(|take| {
                    move |model: &M, key: Key, scale: LossScale| take(model, &l.batch, key, scale)
                })
            })
            .collect();
        let parts: Vec<Part<'_, M>> = losses
            .iter()
            .zip(&loaded)
            .enumerate()
            .map(|(k, (loss, l))| {
                let gradient = gradients.get(k).map(|take| take as &Gradient<'_, M>);
                Part { examples: count(&l.batch), loss, gradient }
            })
            .collect();
        let made = match self.trainer.advance(&parts) {
            Err(Error::Diverged { step, what, reason }) => {
                let inputs: Vec<Tensor> = loaded.iter().map(|l| l.batch.inputs.clone()).collect();
                let reason = match reason == NO_SINGLE_OPERATION && !all_finite(&inputs)? {
                    true => "the data has a number that is not finite".into(),
                    false => reason,
                };
                self.write()?;
                return Err(Error::Diverged { step, what, reason });
            }
            made => made?,
        };
        drop(parts);
        drop((losses, gradients));
        drop(loaded);
        let state = &mut self.trainer.state;
        state.position = position;
        self.hooks.step(&StepReport {
            step: state.step,
            epoch,
            loss: made.loss,
            metrics: made.metrics,
            lr: made.lr,
            grad_norm: state.optimizer.grad_norm.filter(|_| !made.skipped),
            scale: state.scale.value(),
            skipped: made.skipped,
            examples,
        })
    }

    fn evaluate(&mut self, epoch: u64) -> Result<Flow> {
        let state = &mut self.trainer.state;
        let found = match &state.average {
            Some(average) => self.hooks.evaluate(&average.model()?),
            None => self.hooks.evaluate(&state.model),
        };
        let found = match found {
            // It stays due.
            Err(Error::Interrupted) => return Ok(Flow::Stop),
            found => found?,
        };
        state.due = false;
        let Some(found) = found else {
            return Ok(Flow::Continue);
        };
        let best = state.best.is_none_or(|best| found.score > best.score);
        if best {
            state.best = Some(Best { step: state.step, score: found.score });
            state.stale = 0;
        } else {
            state.stale += 1;
        }
        state.plateau = state.plateau.take().map(|plateau| plateau.observe(found.score));
        self.hooks.evaluated(state.step, epoch, &found, best)
    }

    fn save(&mut self) -> Result<()> {
        match self.write()? {
            Some(path) => self.hooks.saved(&path),
            None => Ok(()),
        }
    }

    fn write(&self) -> Result<Option<std::path::PathBuf>> {
        let Some(directory) = self.directory else {
            return Ok(None);
        };
        let state = &self.trainer.state;
        let contents = self.hooks.describe(state.contents());
        directory.save(state.step, state.best.map(|best| best.step), &contents).map(Some)
    }
}

fn count(batch: &Batch) -> usize {
    batch.inputs.shape().first().copied().unwrap_or(1)
}
