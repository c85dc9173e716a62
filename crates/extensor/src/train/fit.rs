//! The loop: steps, evaluations and checkpoints, in that order, until the plan is fulfilled.
//!
//! It is told what to learn by a closure and reports by hooks; it must not know a model, a terminal or
//! the time.

use super::directory::Directory;
use super::hooks::{Evaluation, Flow, Hooks, StepReport};
use super::parts::{Gradient, NO_SINGLE_OPERATION, Part, Step, Taken, gradient};
use super::state::Best;
use super::together::{any, evaluation_of_first, expect_alike, of_first, tell};
use super::trainer::{Measured, Objective, Trainer};
use crate::compile::compile;
use crate::data::{Batch, Cut, Loader, Position, Share, Shares};
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
    /// Into how many parts each batch is cut, whose gradients are added. The ranks of a
    /// [group](Trainer::group) share the parts of a step out, so there must be at least as many as ranks.
    pub parts: u64,
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
        Plan { steps, accumulate: 1, parts: 1, evaluate_every: 0, checkpoint_every: 0, patience: 0 }
    }

    /// With so many batches of the loader to a step.
    #[must_use]
    pub fn accumulate(self, accumulate: u64) -> Plan {
        Plan { accumulate, ..self }
    }

    /// With each batch cut into so many parts, as equal as may be.
    #[must_use]
    pub fn parts(self, parts: u64) -> Plan {
        Plan { parts, ..self }
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
    /// In a [group](Trainer::group) every rank calls this, with the same loader and plan, and each reads only
    /// the examples of its own parts. The first rank evaluates and writes checkpoints. Hooks are called on
    /// every rank: what they return holds for all as soon as one of them wants to stop. `evaluate`, `describe` and
    /// `saved` are the first rank's alone, and on the others an [`Evaluation`](super::Evaluation) has a score
    /// and no metrics. After an error on one rank all end, with an error that names it.
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
        let group = self.group.clone();
        let saves = directory.is_some();
        let mut run =
            Loop { trainer: self, plan, loss: &of_batch, gradient, directory, saves, hooks };
        let ended = run.run(loader);
        if let Err(error) = &ended {
            tell(&group, error);
        }
        ended
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
    /// Whether the first rank writes checkpoints.
    saves: bool,
    hooks: &'a mut (dyn Hooks<M> + 'h),
}

impl<M: Tree + Clone, O: Optimizer<M>> Loop<'_, '_, M, O> {
    fn run(&mut self, loader: &Loader) -> Result<End> {
        let plan = self.plan;
        let group = self.trainer.group.clone();
        let cut = Cut {
            batches: plan.accumulate.max(1) as usize,
            parts: plan.parts.max(1) as usize,
            rank: group.rank(),
            size: group.size(),
        };
        expect_parts(cut, loader)?;
        expect_alike(&group, &plan, loader, &self.trainer.state)?;
        let directory = self.directory.filter(|_| group.is_first());
        if let Some(directory) = directory {
            directory.claim()?;
        }
        self.saves = of_first(&group, directory.is_some())?;
        let state = &self.trainer.state;
        let mut shares = loader.shares_from(state.position, cut)?;
        if state.step == 0 {
            // From now on there is something to go on from.
            self.save()?;
        } else if let Some(directory) = directory {
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
            let mut stop = self.step(&mut shares)? == Flow::Stop;
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

    fn step(&mut self, shares: &mut Shares) -> Result<Flow> {
        let wanted = self.plan.accumulate.max(1) as usize;
        let shares = shares.by_ref().take(wanted).collect::<Result<Vec<Share>>>()?;
        let (Some(begin), Some(end)) = (shares.first(), shares.last()) else {
            let (expected, got) = ("batches without end".into(), "none".into());
            return Err(Error::Inputs { op: "fit", expected, got });
        };
        let (epoch, position, of) = (begin.position.epoch, end.next, begin.of);
        let examples = shares.iter().map(|share| share.examples).sum();
        let own: Vec<&(usize, Batch)> = shares.iter().flat_map(|share| &share.parts).collect();
        let (loss, gradient) = (self.loss, self.gradient);
        let losses: Vec<_> = own
            .iter()
            .map(|(_, batch)| move |model: &M, mode: &Mode| loss(model, batch, mode))
            .collect();
        let gradients: Vec<_> = own
            .iter()
            .filter_map(|(_, batch)| {
                gradient.map(|take| {
                    move |model: &M, key: Key, scale: LossScale| take(model, batch, key, scale)
                })
            })
            .collect();
        let parts: Vec<Part<'_, M>> = losses
            .iter()
            .zip(&own)
            .enumerate()
            .map(|(k, (loss, (_, batch)))| {
                let gradient = gradients.get(k).map(|take| take as &Gradient<'_, M>);
                Part { examples: count(batch), loss, gradient }
            })
            .collect();
        let first = own.first().map_or(0, |(number, _)| *number);
        let made = match self.trainer.advance(&Step { parts: &parts, first, of }) {
            Err(Error::Diverged { step, what, reason }) => {
                let mut reason = reason;
                if reason == NO_SINGLE_OPERATION {
                    let inputs: Vec<Tensor> = own.iter().map(|(_, b)| b.inputs.clone()).collect();
                    if any(&self.trainer.group, !all_finite(&inputs)?)? {
                        reason = "the data has a number that is not finite".into();
                    }
                }
                self.write()?;
                return Err(Error::Diverged { step, what, reason });
            }
            made => made?,
        };
        drop(parts);
        drop((losses, gradients, own));
        drop(shares);
        let state = &mut self.trainer.state;
        state.position = position;
        let flow = self.hooks.step(&StepReport {
            step: state.step,
            epoch,
            loss: made.loss,
            metrics: made.metrics,
            lr: made.lr,
            grad_norm: state.optimizer.grad_norm.filter(|_| !made.skipped),
            scale: state.scale.value(),
            skipped: made.skipped,
            examples,
        })?;
        self.together(flow)
    }

    /// Stop if one of the ranks says so.
    fn together(&self, flow: Flow) -> Result<Flow> {
        let stop = any(&self.trainer.group, flow == Flow::Stop)?;
        Ok(if stop { Flow::Stop } else { Flow::Continue })
    }

    /// What the first rank's hooks found; an error on that rank is `Interrupted` on all if it was that.
    fn ask(&mut self) -> Result<Option<Evaluation>> {
        let Trainer { state, group, .. } = &*self.trainer;
        if group.size() > 1 && !group.is_first() {
            return evaluation_of_first(group, Ok(None));
        }
        let found = match &state.average {
            Some(average) => self.hooks.evaluate(&average.model()?),
            None => self.hooks.evaluate(&state.model),
        };
        evaluation_of_first(group, found)
    }

    fn evaluate(&mut self, epoch: u64) -> Result<Flow> {
        let found = match self.ask() {
            // It stays due.
            Err(Error::Interrupted) => return Ok(Flow::Stop),
            found => found?,
        };
        let state = &mut self.trainer.state;
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
        let flow = self.hooks.evaluated(state.step, epoch, &found, best)?;
        self.together(flow)
    }

    fn save(&mut self) -> Result<()> {
        match self.write()? {
            Some(path) => self.hooks.saved(&path),
            None => Ok(()),
        }
    }

    fn write(&self) -> Result<Option<std::path::PathBuf>> {
        if !self.saves {
            return Ok(None);
        }
        let state = self.trainer.whole()?;
        let Some(directory) = self.directory.filter(|_| self.trainer.group.is_first()) else {
            return Ok(None);
        };
        let contents = self.hooks.describe(state.contents());
        directory.save(state.step, state.best.map(|best| best.step), &contents).map(Some)
    }
}

/// An error if a step could have fewer parts than there are ranks.
fn expect_parts(cut: Cut, loader: &Loader) -> Result<()> {
    let fewest = cut.fewest(loader);
    if fewest >= cut.size {
        return Ok(());
    }
    let expected = format!("{} or more in every step, one for each rank", cut.size);
    let got = match fewest {
        0 | 1 => format!("{} for each batch", cut.parts),
        _ => format!("{} for each batch, which makes {fewest} in a step", cut.parts),
    };
    Err(Error::Parameter { op: "fit", parameter: "parts", expected, got })
}

fn count(batch: &Batch) -> usize {
    batch.inputs.shape().first().copied().unwrap_or(1)
}
