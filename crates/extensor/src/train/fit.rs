//! The loop: steps, evaluations and checkpoints, in that order, until the plan is fulfilled.
//!
//! It is told what to learn by closures and reports by hooks; it must not know a model, a terminal or
//! the time.

use super::directory::Directory;
use super::hooks::{Flow, Hooks, Step};
use super::state::{Best, State};
use crate::autodiff::{Path, value_and_grad_with_aux};
use crate::data::{Batch, Batches, Loaded, Loader, Position};
use crate::gradients::{Accumulator, all_finite};
use crate::nn::Mode;
use crate::optim::{Optimizer, Schedule};
use crate::precision::{self, LossScale, Policy};
use crate::{DType, Error, Result, Tensor, Tree, debug};

/// What the loss function says beside the loss.
#[derive(Tree, Clone, Debug)]
pub struct Measured<M> {
    /// Means over the batch, by name.
    pub metrics: Vec<(&'static str, Tensor)>,
    /// The model with new running statistics, if it has any.
    pub model: Option<M>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many steps there are to be in all.
    pub steps: u64,
    /// How many batches of the loader make a step.
    pub accumulate: u64,
    /// In which dtypes.
    pub policy: Policy,
    /// Evaluate after so many steps; 0: after each epoch. The last step is followed by one, too.
    pub evaluate_every: u64,
    /// Save after so many steps; 0: after each epoch. An evaluation is followed by one, too.
    pub checkpoint_every: u64,
    /// Stop when so many evaluations in a row brought nothing better; 0: never.
    pub patience: u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            steps: 1000,
            accumulate: 1,
            policy: Policy::full(DType::F32),
            evaluate_every: 0,
            checkpoint_every: 0,
            patience: 0,
        }
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

/// Trains: from `state`, by batches of `loader`, until the plan is fulfilled.
///
/// A loss or a gradient that is not finite, other than by an overflow that a dynamic loss scale mends,
/// is an error that names the operation which made it; the model as it was before that step is saved
/// first.
///
/// ```
/// use extensor::data::{Loader, Pairs};
/// use extensor::optim::{Schedule, Sgd};
/// use extensor::train::{End, Measured, Plan, State, fit};
/// use extensor::ops::{Reduce, linear, mean_squared_error};
/// use extensor::{DType, Key, Tensor};
///
/// let [a, b, c] = Key::new(1).split();
/// let x = a.normal([64, 3], DType::F32)?;
/// let truth = b.normal([1, 3], DType::F32)?;
/// let y = linear(&x, &truth, None)?;
/// let loader = Loader::new(Pairs::new(x, y)?, 16, c)?.shuffle(true);
/// let optimizer = Sgd::new(0.1);
/// let state = State::new(Tensor::zeros([1, 3], DType::F32)?, &optimizer, c)?;
/// let plan = Plan { steps: 100, ..Plan::default() };
/// let loss = |weight: &Tensor, batch: &extensor::data::Batch, _: &_| {
///     let y = linear(&batch.inputs, weight, None)?;
///     let loss = mean_squared_error(&y, &batch.targets, Reduce::Mean)?;
///     Ok((loss, Measured { metrics: vec![], model: None }))
/// };
/// let schedule = Schedule::constant(0.1)?;
/// let (state, end) = fit(state, &loader, &optimizer, &schedule, &plan, loss, None, &mut ())?;
/// assert_eq!((state.step, state.position.epoch, end), (100, 25, End::Done));
/// let error = state.model.to_vec::<f32>()?[0] - truth.to_vec::<f32>()?[0];
/// assert!(error.abs() < 1e-3);
/// # Ok::<(), extensor::Error>(())
/// ```
#[allow(clippy::too_many_arguments)] // each is a different thing, and all are needed
pub fn fit<M, L, H>(
    state: State<M>,
    loader: &Loader,
    optimizer: &dyn Optimizer<M>,
    schedule: &Schedule,
    plan: &Plan,
    loss: L,
    directory: Option<&Directory>,
    hooks: &mut H,
) -> Result<(State<M>, End)>
where
    M: Tree + Clone,
    L: Fn(&M, &Batch, &Mode) -> Result<(Tensor, Measured<M>)>,
    H: Hooks<M>,
{
    let mut run = Run { optimizer, schedule, plan, loss, directory, hooks };
    run.all(state, loader)
}

struct Run<'a, M, L, H> {
    optimizer: &'a dyn Optimizer<M>,
    schedule: &'a Schedule,
    plan: &'a Plan,
    loss: L,
    directory: Option<&'a Directory>,
    hooks: &'a mut H,
}

/// What the batches of a step say.
struct Found<M> {
    /// The gradients, if all are finite.
    grads: Option<M>,
    /// New buffers for the model, if it has some.
    buffers: Vec<Tensor>,
    loss: f64,
    metrics: Vec<(&'static str, f64)>,
}

impl<M, L, H> Run<'_, M, L, H>
where
    M: Tree + Clone,
    L: Fn(&M, &Batch, &Mode) -> Result<(Tensor, Measured<M>)>,
    H: Hooks<M>,
{
    fn all(&mut self, mut state: State<M>, loader: &Loader) -> Result<(State<M>, End)> {
        let plan = self.plan;
        if let Some(directory) = self.directory {
            directory.claim()?;
        }
        let mut batches = loader.start_at(state.position)?;
        if state.step == 0 {
            // From now on there is something to go on from.
            self.save(&state)?;
        } else if let Some(directory) = self.directory {
            directory.tidy(state.best.map(|best| best.step))?;
        }
        if state.due {
            // Of the epoch that the last step belonged to.
            let Position { epoch, batch } = state.position;
            let epoch = if batch == 0 { epoch.saturating_sub(1) } else { epoch };
            let stop = self.evaluate(&mut state, epoch)? == Flow::Stop;
            self.save(&state)?;
            if stop {
                return Ok((state, End::Stopped));
            }
        }
        while state.step < plan.steps {
            if plan.patience > 0 && state.stale >= plan.patience {
                return Ok((state, End::NoBetter));
            }
            let epoch = state.position.epoch;
            let flow;
            (state, flow) = self.step(state, &mut batches)?;
            let due = |every: u64| match every {
                0 => state.position.epoch != epoch,
                n => state.step.is_multiple_of(n),
            };
            let (evaluate, save) = (due(plan.evaluate_every), due(plan.checkpoint_every));
            let last = state.step >= plan.steps;
            let mut stop = flow == Flow::Stop;
            state.due = evaluate || last;
            if state.due {
                stop |= self.evaluate(&mut state, epoch)? == Flow::Stop;
            }
            if evaluate || save || last || stop {
                self.save(&state)?;
            }
            if stop && (!last || state.due) {
                return Ok((state, End::Stopped));
            }
        }
        Ok((state, End::Done))
    }

    fn step(&mut self, state: State<M>, batches: &mut Batches) -> Result<(State<M>, Flow)> {
        let wanted = self.plan.accumulate.max(1) as usize;
        let loaded = batches.by_ref().take(wanted).collect::<Result<Vec<Loaded>>>()?;
        let (Some(first), Some(last)) = (loaded.first(), loaded.last()) else {
            let (expected, got) = ("batches without end".into(), "none".into());
            return Err(Error::Inputs { op: "fit", expected, got });
        };
        let (epoch, position) = (first.position.epoch, last.next);
        let examples = loaded.iter().map(|l| count(&l.batch)).sum();
        let found = self.gradients(&state, &loaded)?;
        self.expect_finite(&state, &found, &loaded)?;
        drop(loaded);

        let planned = || self.schedule.lr(state.step);
        let lr = state.plateau.as_ref().map_or_else(planned, |plateau| plateau.lr());
        let skipped = found.grads.is_none();
        let State { mut model, mut optimizer, mut average, scale, step, overflows, .. } = state;
        if let Some(grads) = found.grads {
            (model, optimizer) = self.optimizer.update_with(lr, model, &grads, optimizer)?;
            set_buffers(&mut model, found.buffers)?;
            average = average.map(|average| average.update(&model)).transpose()?;
        }
        let state = State {
            model,
            optimizer,
            average,
            scale: scale.after(!skipped),
            step: step + 1,
            position,
            overflows: overflows + u64::from(skipped),
            ..state
        };
        let flow = self.hooks.step(&Step {
            step: state.step,
            epoch,
            loss: found.loss,
            metrics: found.metrics,
            lr,
            grad_norm: state.optimizer.grad_norm.filter(|_| !skipped),
            scale: state.scale.value(),
            skipped,
            examples,
        })?;
        Ok((state, flow))
    }

    /// The loss and the gradients of the batches of a step, weighted by their examples.
    fn gradients(&self, state: &State<M>, loaded: &[Loaded]) -> Result<Found<M>> {
        let mut total = Accumulator::new();
        let mut found = Found { grads: None, buffers: Vec::new(), loss: 0.0, metrics: Vec::new() };
        let mut finite = true;
        let examples: usize = loaded.iter().map(|l| count(&l.batch)).sum();
        let key = state.key.fold_in(state.step);
        for (i, Loaded { batch, .. }) in loaded.iter().enumerate() {
            let mode = Mode::Training(key.fold_in(i as u64));
            let (loss, grads, measured) = self.one(state, batch, &mode)?;
            let share = count(batch) as f64 / examples.max(1) as f64;
            found.loss += share * number(&loss)?;
            for (k, (name, value)) in measured.metrics.iter().enumerate() {
                match found.metrics.get_mut(k) {
                    Some(metric) => metric.1 += share * number(value)?,
                    None => found.metrics.push((name, share * number(value)?)),
                }
            }
            found.buffers = measured.model.as_ref().map_or(Vec::new(), buffers);
            match grads {
                Some(grads) if loaded.len() == 1 => found.grads = Some(grads),
                Some(grads) => total.add(&grads, count(batch) as f64)?,
                None => finite = false,
            }
        }
        if loaded.len() > 1 {
            found.grads = total.mean()?;
        }
        if !finite {
            found.grads = None;
        }
        Ok(found)
    }

    /// The loss of a batch, its gradients if they are finite, and what was measured.
    #[allow(clippy::type_complexity)]
    fn one(
        &self,
        state: &State<M>,
        batch: &Batch,
        mode: &Mode,
    ) -> Result<(Tensor, Option<M>, Measured<M>)> {
        let policy = self.plan.policy;
        let inputs = policy.to_compute(&batch.inputs)?;
        let batch = Batch { inputs, targets: batch.targets.clone() };
        let f = |model: &M| (self.loss)(model, &batch, mode);
        if policy == Policy::full(DType::F32) && state.scale == LossScale::NONE {
            let (loss, grads, measured) = value_and_grad_with_aux(f, &state.model)?;
            let finite = all_finite(&grads)?;
            return Ok((loss, finite.then_some(grads), measured));
        }
        let found = precision::step(f, &state.model, policy, state.scale)?;
        Ok((found.loss, found.grads, found.aux))
    }

    /// An error that names an operation, unless what was found can be used or a smaller loss scale
    /// helps.
    fn expect_finite(&self, state: &State<M>, found: &Found<M>, loaded: &[Loaded]) -> Result<()> {
        let mends = state.scale.after(false).value() < state.scale.value();
        if found.loss.is_finite() && (found.grads.is_some() || mends) {
            return Ok(());
        }
        let what = match found.loss.is_finite() {
            true => "a gradient is not finite".to_string(),
            false => format!("the loss is {}", found.loss),
        };
        let inputs = loaded.iter().map(|l| &l.batch.inputs);
        let reason = match debug::finite(|| self.gradients(state, loaded)) {
            Err(error) => error.to_string(),
            Ok(_) if !all_finite(&inputs.cloned().collect::<Vec<_>>())? => {
                "the data has a number that is not finite".into()
            }
            Ok(_) => "no single operation made it of finite numbers".into(),
        };
        self.write(state)?;
        Err(Error::Diverged { step: state.step + 1, what, reason })
    }

    fn evaluate(&mut self, state: &mut State<M>, epoch: u64) -> Result<Flow> {
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
        state.plateau = state.plateau.map(|plateau| plateau.observe(found.score));
        self.hooks.evaluated(state.step, epoch, &found, best)
    }

    fn save(&mut self, state: &State<M>) -> Result<()> {
        match self.write(state)? {
            Some(path) => self.hooks.saved(&path),
            None => Ok(()),
        }
    }

    fn write(&self, state: &State<M>) -> Result<Option<std::path::PathBuf>> {
        let Some(directory) = self.directory else {
            return Ok(None);
        };
        let contents = self.hooks.describe(state.contents());
        directory.save(state.step, state.best.map(|best| best.step), &contents).map(Some)
    }
}

fn count(batch: &Batch) -> usize {
    batch.inputs.shape().first().copied().unwrap_or(1)
}

/// The value of a tensor that is one number.
fn number(x: &Tensor) -> Result<f64> {
    Ok(x.plain("fit")?.to_f64_vec().first().copied().unwrap_or(f64::NAN))
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

/// The model with these buffers in place of its own; all stay if there are none.
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
