//! How good a network is on examples it was not trained on.

use super::data::Task;
use super::network::Network;
use extensor::data::{Batch, Dataset};
use extensor::nn::{Mode, Model, class_loss};
use extensor::ops::cast;
use extensor::precision::Policy;
use extensor::train::Measured;
use extensor::{DType, Key, Result, Tensor, autodiff::stop_gradient};

/// What was said of an example, or of a letter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The number of the example.
    pub example: usize,
    /// What it is.
    pub truth: usize,
    /// What it was taken for.
    pub predicted: usize,
    /// How sure the network was.
    pub probability: f64,
}

/// How good a network is.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// The mean loss, in nats.
    pub loss: f64,
    /// The share that was right.
    pub accuracy: f64,
    /// All predictions, in order.
    pub predictions: Vec<Prediction>,
}

impl Scores {
    /// `counts[truth][predicted]`.
    pub fn confusion(&self, classes: usize) -> Vec<Vec<u64>> {
        let mut counts = vec![vec![0; classes]; classes];
        for p in &self.predictions {
            if let Some(count) = counts.get_mut(p.truth).and_then(|row| row.get_mut(p.predicted)) {
                *count += 1;
            }
        }
        counts
    }

    /// The predictions that are wrong, the surest first.
    pub fn mistakes(&self) -> Vec<Prediction> {
        let wrong = self.predictions.iter().filter(|p| p.truth != p.predicted);
        let mut wrong: Vec<Prediction> = wrong.copied().collect();
        wrong.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        wrong
    }
}

/// Evaluates a network on at most `limit` examples, spread evenly.
pub fn evaluate(
    model: &Network,
    data: &dyn Dataset,
    policy: Policy,
    limit: usize,
) -> Result<Scores> {
    let model = policy.to_compute(model)?;
    let count = data.len().min(limit);
    let indices: Vec<usize> = (0..count).map(|i| i * data.len() / count.max(1)).collect();
    let mut scores = Scores { loss: 0.0, accuracy: 0.0, predictions: Vec::new() };
    for chunk in indices.chunks(250) {
        let batch = data.batch(chunk, Key::new(0))?;
        let logits = model.forward(&policy.to_compute(&batch.inputs)?, &Mode::Inference)?.logits;
        let per_example = batch.targets.len() / chunk.len().max(1);
        each_row(&logits, &batch.targets, |row, truth, logits| {
            let (predicted, probability, loss) = judge(logits, truth);
            let example = chunk[row / per_example.max(1)];
            scores.predictions.push(Prediction { example, truth, predicted, probability });
            scores.loss += loss;
        })?;
    }
    let count = scores.predictions.len().max(1) as f64;
    let right = scores.predictions.iter().filter(|p| p.truth == p.predicted).count();
    (scores.loss, scores.accuracy) = (scores.loss / count, right as f64 / count);
    Ok(scores)
}

/// Calls `f` with the number of each row of logits, its class and the logits.
fn each_row(
    logits: &Tensor,
    targets: &Tensor,
    mut f: impl FnMut(usize, usize, &[f32]),
) -> Result<()> {
    let classes = logits.shape().last().copied().unwrap_or(1).max(1);
    let values = cast(logits, DType::F32)?.to_vec::<f32>()?;
    let targets = cast(targets, DType::I64)?.to_vec::<i64>()?;
    for (row, (logits, truth)) in values.chunks_exact(classes).zip(targets).enumerate() {
        f(row, usize::try_from(truth).unwrap_or(usize::MAX), logits);
    }
    Ok(())
}

/// The most likely class, its probability, and the loss.
fn judge(logits: &[f32], truth: usize) -> (usize, f64, f64) {
    let mut best = 0;
    for (i, x) in logits.iter().enumerate() {
        if *x > logits[best] {
            best = i;
        }
    }
    let most = f64::from(logits[best]);
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - most).exp()).sum();
    let own = logits.get(truth).map_or(f64::NAN, |x| f64::from(*x));
    (best, 1.0 / sum, sum.ln() + most - own)
}

/// The loss of a batch, with the share that was right.
pub fn loss(model: &Network, batch: &Batch, mode: &Mode) -> Result<(Tensor, Measured<Network>)> {
    let output = model.forward(&batch.inputs, mode)?;
    let logits = match output.logits.dtype() {
        DType::F16 | DType::BF16 => cast(&output.logits, DType::F32)?,
        _ => output.logits,
    };
    let loss = class_loss(&logits, &batch.targets, 0.0)?;
    let accuracy = accuracy(&stop_gradient(&logits), &batch.targets)?;
    Ok((loss, Measured { metrics: vec![("accuracy", accuracy)], model: output.model }))
}

/// The share of rows whose largest logit is that of their class.
fn accuracy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let right = logits.argmax(-1)?.equal(&cast(targets, DType::I64)?)?;
    let count = right.len().max(1) as f32;
    cast(&right, DType::F32)?.sum(..)?.divide(&Tensor::scalar(count))
}

/// How an accuracy and a loss are called for a task.
pub fn score(task: &Task, scores: &Scores) -> f64 {
    match task {
        Task::Text { .. } => -scores.loss,
        _ => scores.accuracy,
    }
}
