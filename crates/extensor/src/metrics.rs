//! How good predictions are, as numbers: confusion, precision, recall, F, AUROC, perplexity.
//!
//! Nothing here is differentiated, and nothing knows models or training: predictions and targets are
//! tensors of the same shape.

use crate::tensor::expect_room;
use crate::{DType, Error, Result, Tensor};
use std::fmt;

/// How often each class was taken for each: a row for each class that was right, a column for each
/// that was predicted. Batches are added up.
///
/// ```
/// use extensor::{metrics::{Average, Confusion}, tensor};
/// let mut confusion = Confusion::new(3)?;
/// confusion.add(&tensor([0i64, 2, 1]), &tensor([0i64, 1, 2]))?;
/// confusion.add(&tensor([0i64, 0, 1]), &tensor([0i64, 1, 2]))?;
/// assert_eq!(confusion.count(1, 2), 1); // a 1 that was taken for a 2
/// assert_eq!(confusion.accuracy(), 2.0 / 6.0);
/// assert_eq!(confusion.precision(0), 2.0 / 3.0); // of three predicted to be 0
/// assert_eq!(confusion.recall(0), 1.0); // both that are 0
/// assert_eq!(confusion.scores(Average::Macro).recall, 1.0 / 3.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}

/// How the scores of classes become those of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Average {
    /// Every class counts alike.
    #[default]
    Macro,
    /// Every example counts alike: all three scores are the accuracy.
    Micro,
    /// A class counts as often as there are examples of it.
    Weighted,
}

/// Precision, recall and their harmonic mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// Of those predicted to be of a class, how many are.
    pub precision: f64,
    /// Of those that are of a class, how many were found.
    pub recall: f64,
    /// `2·precision·recall/(precision + recall)`.
    pub f1: f64,
}

const OP: &str = "confusion";

impl Confusion {
    /// Nothing yet, of so many classes; an error if there is no memory for all pairs of them.
    pub fn new(classes: usize) -> Result<Confusion> {
        let pairs = classes.saturating_mul(classes);
        expect_room(OP, pairs, size_of::<u64>())?;
        Ok(Confusion { classes, counts: vec![0; pairs] })
    }

    /// Adds predictions and what they should have been: numbers of classes, of a whole-number dtype.
    /// A number that is not one of a class is an error, and then nothing is added.
    pub fn add(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        expect_same_shape(OP, predictions, targets)?;
        let predicted = self.numbers("predictions", predictions)?;
        let right = self.numbers("targets", targets)?;
        for (right, predicted) in right.into_iter().zip(predicted) {
            self.counts[right * self.classes + predicted] += 1;
        }
        Ok(())
    }

    fn numbers(&self, argument: &'static str, x: &Tensor) -> Result<Vec<usize>> {
        if !x.dtype().is_int() {
            let expected = "a whole-number type";
            return Err(Error::DType { op: OP, argument, expected, got: x.dtype() });
        }
        let found = x.cast(DType::I64)?.to_vec::<i64>()?.into_iter().map(|number| {
            let class = usize::try_from(number).ok().filter(|class| *class < self.classes);
            class.ok_or_else(|| Error::Parameter {
                op: OP,
                parameter: argument,
                expected: format!("classes below {}", self.classes),
                got: number.to_string(),
            })
        });
        found.collect()
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// How often `target` was taken for `prediction`; 0 for a class that there is not.
    pub fn count(&self, target: usize, prediction: usize) -> u64 {
        let known = target < self.classes && prediction < self.classes;
        if known { self.counts[target * self.classes + prediction] } else { 0 }
    }

    /// How many predictions there were.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many are of a class.
    pub fn support(&self, class: usize) -> u64 {
        (0..self.classes).map(|other| self.count(class, other)).sum()
    }

    fn predicted(&self, class: usize) -> u64 {
        (0..self.classes).map(|other| self.count(other, class)).sum()
    }

    /// The part of all predictions that is right; NaN of none.
    pub fn accuracy(&self) -> f64 {
        let right: u64 = (0..self.classes).map(|class| self.count(class, class)).sum();
        right as f64 / self.total() as f64
    }

    /// Of those predicted to be of a class, the part that is; 0 where there are none.
    pub fn precision(&self, class: usize) -> f64 {
        part(self.count(class, class), self.predicted(class))
    }

    /// Of those that are of a class, the part that was found; 0 where there are none.
    pub fn recall(&self, class: usize) -> f64 {
        part(self.count(class, class), self.support(class))
    }

    /// `(1 + β²)·precision·recall/(β²·precision + recall)` of a class: recall counts β times as much as
    /// precision; 0 where both are.
    pub fn f_score(&self, class: usize, beta: f64) -> f64 {
        let (precision, recall) = (self.precision(class), self.recall(class));
        let below = beta * beta * precision + recall;
        if below == 0.0 { 0.0 } else { (1.0 + beta * beta) * precision * recall / below }
    }

    /// The scores of all classes as one; NaN of no predictions or no classes.
    pub fn scores(&self, average: Average) -> Scores {
        if average == Average::Micro {
            let accuracy = self.accuracy();
            return Scores { precision: accuracy, recall: accuracy, f1: accuracy };
        }
        let weight = |class: usize| match average {
            Average::Weighted => self.support(class) as f64 / self.total() as f64,
            _ => 1.0 / self.classes as f64,
        };
        let mean = |score: &dyn Fn(usize) -> f64| match self.classes {
            0 => f64::NAN,
            classes => (0..classes).map(|class| weight(class) * score(class)).sum(),
        };
        Scores {
            precision: mean(&|class| self.precision(class)),
            recall: mean(&|class| self.recall(class)),
            f1: mean(&|class| self.f_score(class, 1.0)),
        }
    }
}

impl fmt::Display for Confusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.counts.iter().max().map_or(1, |most| most.to_string().len());
        let width = longest.max(self.classes.saturating_sub(1).to_string().len()) + 2;
        write!(f, "{:>width$}", "")?;
        for class in 0..self.classes {
            write!(f, "{class:>width$}")?;
        }
        for class in 0..self.classes {
            write!(f, "\n{class:>width$}")?;
            for other in 0..self.classes {
                write!(f, "{:>width$}", self.count(class, other))?;
            }
        }
        Ok(())
    }
}

fn part(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}

fn expect_same_shape(op: &'static str, a: &Tensor, b: &Tensor) -> Result<()> {
    if a.shape() == b.shape() {
        return Ok(());
    }
    let (expected, got) = (a.shape().to_string(), b.shape().clone());
    Err(Error::Shape { op, argument: "targets", expected, got })
}

/// The probability that one of the positive examples, taken at random, has a higher score than one of
/// the negative, ties counted by half: the area under the curve of the receiver operating
/// characteristic. `labels` are 0 or 1 in a whole-number dtype, or bool; both must be among them.
///
/// ```
/// use extensor::{metrics::auroc, tensor};
/// let area = auroc(&tensor([0.1, 0.4, 0.35, 0.8]), &tensor([0i64, 0, 1, 1]))?;
/// assert_eq!(area, 0.75);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn auroc(scores: &Tensor, labels: &Tensor) -> Result<f64> {
    let op = "auroc";
    expect_same_shape(op, scores, labels)?;
    scores.dtype().expect_float(op, "scores")?;
    let bad = |parameter, expected: &str, got: String| Error::Parameter {
        op,
        parameter,
        expected: expected.into(),
        got,
    };
    if labels.dtype().is_float() {
        return Err(bad("labels", "0 or 1 of a whole-number dtype", labels.dtype().to_string()));
    }
    let mut examples = Vec::with_capacity(scores.len());
    let labels = labels.cast(DType::I64)?.to_vec::<i64>()?;
    for (score, label) in scores.to_f64_vec().into_iter().zip(labels) {
        if score.is_nan() {
            return Err(bad("scores", "numbers", "NaN".into()));
        }
        if label != 0 && label != 1 {
            return Err(bad("labels", "0 or 1", label.to_string()));
        }
        examples.push((score, label == 1));
    }
    examples.sort_by(|a, b| a.0.total_cmp(&b.0));
    let positive = examples.iter().filter(|(_, label)| *label).count();
    let negative = examples.len() - positive;
    if positive == 0 || negative == 0 {
        return Err(bad("labels", "both 0 and 1", format!("{positive} of 1, {negative} of 0")));
    }
    // Twice the number of pairs that are in order: whole numbers, so that nothing is rounded.
    let (mut pairs, mut below) = (0u128, 0u128);
    for tied in examples.chunk_by(|a, b| a.0 == b.0) {
        let ones = tied.iter().filter(|(_, label)| *label).count() as u128;
        let zeros = tied.len() as u128 - ones;
        pairs += ones * (2 * below + zeros);
        below += zeros;
    }
    Ok(pairs as f64 / (2.0 * positive as f64 * negative as f64))
}

/// `e` to a mean cross-entropy in nats: among how many equally likely tokens a language model is left
/// to choose.
///
/// ```
/// assert_eq!(extensor::metrics::perplexity(0.0), 1.0);
/// ```
pub fn perplexity(mean_loss: f64) -> f64 {
    mean_loss.exp()
}
