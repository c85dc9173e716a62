//! The parts of a step: their losses and gradients, and what is made of those of all ranks.
//!
//! Whatever is combined here is combined in an order that follows from the numbers of the parts, so that
//! it does not matter which rank computed which.

use super::together::first_to_say;
use super::trainer::{Measured, Statistics, Trainer};
use crate::autodiff::{Path, map, value_and_grad_with_aux};
use crate::distributed::Reducer;
use crate::gradients::{Accumulator, all_finite, finite};
use crate::nn::Mode;
use crate::optim::Optimizer;
use crate::precision::{self, LossScale, Policy};
use crate::{DType, Error, Key, Result, Tensor, Tree, debug};

/// What a loss function returns, whatever the user's returns.
pub(super) type Losses<M> = Result<(Tensor, Measured<M>)>;

/// The loss of a part of a step.
pub(super) struct Part<'a, M> {
    /// How many examples it has, by which it counts.
    pub examples: usize,
    /// The loss of these.
    pub loss: &'a (dyn Fn(&M, &Mode) -> Losses<M> + 'a),
    /// Their loss and its gradient, for a model, a key and a loss scale, where that is not taken of the
    /// loss.
    pub gradient: Option<&'a Gradient<'a, M>>,
}

/// This rank's parts of a step.
pub(super) struct Step<'a, M> {
    /// The parts, one after the other; at least one.
    pub parts: &'a [Part<'a, M>],
    /// The number of the first.
    pub first: usize,
    /// How many parts the whole step has.
    pub of: usize,
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

/// What the parts of a step say.
pub(super) struct Found<M> {
    /// The gradients, if all are finite.
    pub grads: Option<M>,
    /// New buffers for the model, if it has some.
    pub buffers: Vec<Tensor>,
    pub loss: f64,
    pub metrics: Vec<(&'static str, f64)>,
}

/// The reason that [`Error::Diverged`] gives where no operation is to blame.
pub(super) const NO_SINGLE_OPERATION: &str = "no single operation made it of finite numbers";

/// The numbers of a part, by which the ranks tell each other of it.
struct Report {
    examples: f64,
    finite: bool,
    loss: f64,
    metrics: Vec<f64>,
}

/// What this rank found of its parts.
struct Own<M> {
    reports: Vec<Report>,
    names: Vec<&'static str>,
    /// The gradients, if the step has no other part.
    only: Option<M>,
    /// The gradients otherwise, unless they are on their way already.
    grads: Accumulator<M>,
    /// Those that are on their way.
    sent: Option<Reducer>,
    /// The buffers that the last part left.
    buffers: Vec<Tensor>,
    /// Those of all parts that have a mean.
    means: Accumulator<Vec<Tensor>>,
}

impl<M: Tree> Own<M> {
    /// Keeps what a part says beside its gradients.
    fn note(
        &mut self,
        loss: &Tensor,
        finite: bool,
        measured: &Measured<M>,
        examples: f64,
        means: bool,
    ) -> Result<()> {
        let values = measured.metrics.iter().map(|(_, value)| to_number(value));
        let metrics = values.collect::<Result<_>>()?;
        self.reports.push(Report { examples, finite, loss: to_number(loss)?, metrics });
        self.names = measured.metrics.iter().map(|(name, _)| *name).collect();
        self.buffers = measured.model.as_ref().map_or(Vec::new(), buffers);
        if means {
            self.means.add(&self.buffers.iter().filter(has_mean).cloned().collect(), examples)?;
        }
        Ok(())
    }
}

impl<M: Tree + Clone, O: Optimizer<M>> Trainer<M, O> {
    /// The loss and the gradients of the parts of a step, weighted by their examples: this rank's, which are
    /// given, and the others'. An error that names an operation unless they can be used or a smaller loss
    /// scale helps.
    pub(super) fn gradients(&self, step: &Step<'_, M>) -> Result<Found<M>> {
        let mut own = self.own(step, self.travels(step))?;
        // Nothing else is said to the other ranks before this has arrived.
        let sums = own.sent.take().map(Reducer::finish).transpose()?;
        let reports = self.reports(&own)?;
        let examples: f64 = reports.iter().map(|report| report.examples).sum();
        let (mut loss, mut metrics) = (0.0, vec![0.0; own.names.len()]);
        for report in &reports {
            let share = report.examples / examples.max(1.0);
            loss += share * report.loss;
            for (metric, value) in metrics.iter_mut().zip(&report.metrics) {
                *metric += share * value;
            }
        }
        let finite = reports.iter().all(|report| report.finite);
        self.expect_finite(loss, finite, &own, step)?;
        let metrics = own.names.iter().copied().zip(metrics).collect();
        let mut found = Found { grads: None, buffers: Vec::new(), loss, metrics };
        if finite {
            found.buffers = self.buffers(own.buffers, own.means, step.of, examples)?;
            found.grads = Some(match (own.only, sums) {
                (Some(grads), _) => grads,
                (None, Some(sums)) => self.arrived(sums, examples)?,
                (None, None) => {
                    own.grads.mean_of_all(&self.group, step.of, examples, self.order)?
                }
            });
        }
        Ok(found)
    }

    /// What this rank's parts say; whether the gradients are sent as soon as the last part's are known.
    fn own(&self, step: &Step<'_, M>, travels: bool) -> Result<Own<M>> {
        let mut own = Own {
            reports: Vec::with_capacity(step.parts.len()),
            names: Vec::new(),
            only: None,
            grads: Accumulator::starting_at(step.first),
            sent: None,
            buffers: Vec::new(),
            means: Accumulator::starting_at(step.first),
        };
        let means = self.statistics == Statistics::Mean && step.of > 1;
        let mut finite = true;
        let key = self.state.key.fold_in(self.state.step);
        for (part, number) in step.parts.iter().zip(step.first..) {
            let key = key.fold_in(number as u64);
            let weight = part.examples as f64;
            if travels && own.reports.len() + 1 == step.parts.len() {
                let grads = std::mem::take(&mut own.grads);
                let sent = self.send_part(part, &Mode::Training(key), grads, number, step.of)?;
                own.sent = Some(sent.reducer);
                own.note(&sent.loss, sent.finite, &sent.measured, weight, means)?;
                continue;
            }
            let (loss, grads, measured) = match part.gradient {
                Some(gradient) if !debug::watched() => {
                    gradient(&self.state.model, key, self.state.scale)?
                }
                _ => self.part(part, &Mode::Training(key))?,
            };
            own.note(&loss, grads.is_some(), &measured, weight, means)?;
            match grads {
                Some(grads) if step.of == 1 => own.only = Some(grads),
                Some(grads) if finite => own.grads.add(&grads, weight)?,
                // Nothing will be made of the sum any more, but others wait for it.
                _ if travels => {
                    own.grads.add(&map(&self.state.model, Tensor::zeros_like)?, weight)?
                }
                _ => finite = false,
            }
        }
        Ok(own)
    }

    /// The loss of a part, its gradients if they are finite, and what was measured.
    fn part(&self, part: &Part<'_, M>, mode: &Mode) -> Result<Taken<M>> {
        let f = |model: &M| (part.loss)(model, mode);
        let (model, scale) = (&self.state.model, self.state.scale);
        if self.policy == Policy::full(DType::F32) && scale == LossScale::NONE {
            let (loss, grads, measured) = value_and_grad_with_aux(f, model)?;
            let finite = all_finite(&grads)?;
            return Ok((loss, finite.then_some(grads), measured));
        }
        let found = precision::value_and_grad(f, model, self.policy, scale)?;
        Ok((found.loss, found.grads, found.aux))
    }

    /// The reports of all parts of the step, in the order of their numbers.
    fn reports(&self, own: &Own<M>) -> Result<Vec<Report>> {
        let mut numbers = Vec::new();
        for report in &own.reports {
            numbers.extend([report.examples, f64::from(report.finite), report.loss]);
            numbers.extend(&report.metrics);
        }
        let each = 3 + own.names.len();
        let all = self.group.all_gather_numbers(&numbers)?;
        Ok(all
            .iter()
            .flat_map(|numbers| numbers.chunks_exact(each))
            .map(|n| Report {
                examples: n[0],
                finite: n[1] == 1.0,
                loss: n[2],
                metrics: n[3..].to_vec(),
            })
            .collect())
    }

    /// The buffers that the step leaves: the last part's, or the means of all.
    fn buffers(
        &self,
        own: Vec<Tensor>,
        means: Accumulator<Vec<Tensor>>,
        of: usize,
        examples: f64,
    ) -> Result<Vec<Tensor>> {
        if own.is_empty() {
            return Ok(own);
        }
        let mut buffers = self.group.broadcast(&own, self.group.size() - 1)?;
        if self.statistics == Statistics::Mean && of > 1 {
            let means = means.mean_of_all(&self.group, of, examples, self.order)?;
            let places = buffers.iter_mut().filter(|x| has_mean(&&**x));
            for (place, mean) in places.zip(means) {
                let dtype = place.dtype();
                *place = crate::ops::cast(&mean, dtype)?;
            }
        }
        Ok(buffers)
    }

    /// An error that names an operation, unless what was found can be used or a smaller loss scale helps.
    fn expect_finite(
        &self,
        loss: f64,
        finite: bool,
        own: &Own<M>,
        step: &Step<'_, M>,
    ) -> Result<()> {
        let scale = self.state.scale;
        let mends = scale.after(false).value() < scale.value();
        if loss.is_finite() && (finite || mends) {
            return Ok(());
        }
        let what = match loss.is_finite() {
            true => "a gradient is not finite".to_string(),
            false => format!("the loss is {loss}"),
        };
        let mut reason = String::new();
        if own.reports.iter().any(|report| !report.finite || !report.loss.is_finite())
            && let Err(error) = debug::finite(|| self.own(step, false))
        {
            reason = error.to_string();
        }
        let reason = first_to_say(&self.group, reason)?;
        let reason = reason.unwrap_or(NO_SINGLE_OPERATION.into());
        Err(Error::Diverged { step: self.state.step + 1, what, reason })
    }
}

/// The value of a tensor that is one number.
fn to_number(x: &Tensor) -> Result<f64> {
    Ok(x.plain("train")?.to_f64_vec().first().copied().unwrap_or(f64::NAN))
}

/// Whether the running statistics of several parts have a mean.
fn has_mean(x: &&Tensor) -> bool {
    x.dtype().is_float()
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
