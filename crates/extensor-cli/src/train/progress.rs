//! What is shown and written while a network learns.
//!
//! On a terminal a bar moves; elsewhere there are plain lines. Files get every step, and no times, so
//! that they do not depend on how fast it went or how often it stopped.

use super::config::Settings;
use super::data::{Data, Task};
use super::evaluate::{self, Scores};
use super::network::Network;
use super::recipe;
use crate::output::Output;
use extensor::io::safetensors::Contents;
use extensor::precision::Policy;
use extensor::train::metrics::{JsonLines, Value};
use extensor::train::tensorboard::EventFile;
use extensor::train::{Evaluation, Flow, Hooks, Plan, StepReport};
use extensor::{Result, interrupt};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// At most so many examples of a text are looked at while training.
pub const WINDOWS: usize = 160;

/// What is shown and written on the way.
pub struct Progress {
    /// For people.
    pub output: Output,
    /// The metrics, for machines.
    pub metrics: JsonLines,
    /// The metrics, for TensorBoard.
    pub events: EventFile,
    /// What is learnt.
    pub data: Data,
    /// In which precision.
    pub policy: Policy,
    /// The settings, as they stand in checkpoints.
    pub config: String,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
    quiet: bool,
    bar: ProgressBar,
    steps: u64,
    epochs: u64,
    shown: Instant,
    mark: (Instant, u64, u64),
    examples: u64,
    rate: Option<f64>,
    loss: Option<f64>,
    accuracy: Option<f64>,
    /// The time that training took: steps, not evaluations.
    pub training: Duration,
    last: Instant,
    /// Examples that were trained on.
    pub seen: u64,
}

impl Progress {
    /// For a run that is at `step` of its plan.
    #[allow(clippy::too_many_arguments)] // each is a different thing, and all are needed
    pub fn new(
        settings: &Settings,
        config: String,
        data: Data,
        plan: &Plan,
        step: u64,
        metrics: JsonLines,
        events: EventFile,
        stop: Arc<AtomicBool>,
    ) -> Progress {
        let quiet = settings.quiet == Some(true);
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(plan.steps) };
        let style = ProgressStyle::with_template("{bar:32} {pos}/{len}  {msg}  {elapsed} < {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_position(step);
        bar.reset_eta();
        let now = Instant::now();
        Progress {
            output: Output::default(),
            metrics,
            events,
            data,
            policy: recipe::policy(settings),
            config,
            stop,
            quiet,
            bar,
            steps: plan.steps,
            epochs: settings.epochs.unwrap_or(1),
            shown: now,
            mark: (now, step, 0),
            examples: 0,
            rate: None,
            loss: None,
            accuracy: None,
            training: Duration::ZERO,
            last: now,
            seen: 0,
        }
    }

    /// Prints a line, above the bar if there is one.
    pub fn say(&mut self, text: &str) {
        if !self.quiet {
            let output = &mut self.output;
            self.bar.suspend(|| output.line(text));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The clock starts now.
    pub fn start(&mut self) {
        self.last = Instant::now();
        self.mark.0 = self.last;
        self.shown = self.last;
    }

    fn message(&self) -> String {
        let mut parts = Vec::new();
        if let Some(loss) = self.loss {
            parts.push(format!("loss {loss:.4}"));
        }
        if let Some(accuracy) = self.accuracy {
            parts.push(format!("accuracy {:.2} %", 100.0 * accuracy));
        }
        if let Some(rate) = self.rate {
            parts.push(format!("{rate:.0} examples/s"));
        }
        parts.join("  ")
    }

    /// The time that the steps left will take, as far as one can tell.
    fn left(&self, step: u64, now: Instant) -> String {
        let (since, from, _) = self.mark;
        let done = step.saturating_sub(from);
        if done == 0 {
            return String::new();
        }
        let each = (now - since).as_secs_f64() / done as f64;
        format!("  {} left", clock(each * self.steps.saturating_sub(step) as f64))
    }
}

/// Minutes and seconds.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// What an evaluation is reported as.
pub fn evaluation(task: &Task, scores: &Scores) -> Evaluation {
    let metrics = vec![("test_loss", scores.loss), ("test_accuracy", scores.accuracy)];
    Evaluation { score: evaluate::score(task, scores), metrics }
}

impl Hooks<Network> for Progress {
    fn step(&mut self, step: &StepReport) -> Result<Flow> {
        let now = Instant::now();
        self.training += now - self.last;
        self.seen += step.examples as u64;
        self.examples += step.examples as u64;
        let mut record: Vec<(&str, Value)> =
            vec![("epoch", step.epoch.into()), ("loss", step.loss.into())];
        let mut scalars = vec![("loss/train", step.loss), ("lr", step.lr)];
        for (name, value) in &step.metrics {
            record.push((name, (*value).into()));
            if *name == "accuracy" {
                scalars.push(("accuracy/train", *value));
            }
        }
        record.push(("lr", step.lr.into()));
        if let Some(norm) = step.grad_norm {
            record.push(("grad_norm", norm.into()));
            scalars.push(("grad_norm", norm));
        }
        if step.scale != 1.0 {
            record.push(("loss_scale", step.scale.into()));
            scalars.push(("loss_scale", step.scale));
        }
        if step.skipped {
            record.push(("skipped", 1u64.into()));
        }
        self.metrics.write(step.step, &record)?;
        self.events.scalars(step.step, &scalars)?;

        let mix =
            |old: Option<f64>, new: f64| Some(old.map_or(new, |old| old + 0.05 * (new - old)));
        self.loss = mix(self.loss, step.loss);
        let accuracy = step.metrics.iter().find(|m| m.0 == "accuracy");
        if let Some((_, accuracy)) = accuracy {
            self.accuracy = mix(self.accuracy, *accuracy);
        }
        let since = (now - self.mark.0).as_secs_f64();
        if since > 0.2 {
            self.rate = Some((self.examples - self.mark.2) as f64 / since);
        }
        if step.skipped {
            let text = format!(
                "step {}: a gradient overflowed; the step was skipped, the loss scale is {} now",
                step.step, step.scale
            );
            self.say(&text);
        }
        if !self.quiet && !self.bar.is_hidden() {
            self.bar.set_position(step.step);
            let epoch = format!("epoch {}/{}", step.epoch + 1, self.epochs.max(step.epoch + 1));
            self.bar.set_message(format!("{epoch}  {}", self.message()));
        } else if (now - self.shown).as_secs() >= 5 {
            self.shown = now;
            let left = self.left(step.step, now);
            let text = format!("step {}/{}  {}{left}", step.step, self.steps, self.message());
            self.say(&text);
        }
        self.last = Instant::now();
        Ok(if self.stop.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue })
    }

    fn evaluate(&mut self, model: &Network) -> Result<Option<Evaluation>> {
        let limit = match self.data.task {
            Task::Text { .. } => WINDOWS,
            _ => usize::MAX,
        };
        if self.data.test.is_empty() {
            return Ok(None);
        }
        let stopped = || self.stop.load(Ordering::Relaxed);
        let scores = interrupt::watch(&stopped, || {
            evaluate::evaluate(model, &*self.data.test, self.policy, limit)
        })?;
        Ok(Some(evaluation(&self.data.task, &scores)))
    }

    fn evaluated(&mut self, step: u64, epoch: u64, found: &Evaluation, best: bool) -> Result<Flow> {
        let mut record: Vec<(&str, Value)> = vec![("epoch", epoch.into())];
        record.extend(found.metrics.iter().map(|(name, value)| (*name, Value::Number(*value))));
        self.metrics.write(step, &record)?;
        let value = |name: &str| found.metrics.iter().find(|m| m.0 == name).map_or(0.0, |m| m.1);
        let (loss, accuracy) = (value("test_loss"), value("test_accuracy"));
        self.events.scalars(step, &[("loss/test", loss), ("accuracy/test", accuracy)])?;
        let star = if best { "  best so far" } else { "" };
        let measured = match self.data.task {
            Task::Text { .. } => format!("validation loss {loss:.4} nats a letter"),
            _ => format!("test loss {loss:.4}  test accuracy {:.2} %", 100.0 * accuracy),
        };
        let text = format!("epoch {}  step {step}/{}  {measured}{star}", epoch + 1, self.steps);
        self.say(&text);
        self.last = Instant::now();
        Ok(Flow::Continue)
    }

    fn describe<'a>(&self, contents: Contents<'a>) -> Contents<'a> {
        let task = serde_json::to_string(&self.data.task).unwrap_or_default();
        contents.metadata("config", &self.config).metadata("task", task)
    }

    fn saved(&mut self, _: &Path) -> Result<()> {
        self.last = Instant::now();
        Ok(())
    }
}
