//! A learning rate that follows what is measured: lowered where that no longer improves. This module
//! must not know what the measured number means.

use super::{at_least_0, expect};
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A learning rate that is multiplied by a factor whenever a measured number has not improved for a
/// while (PyTorch's ReduceLROnPlateau).
///
/// It is a plain value: [`observe`](Plateau::observe) returns the next. What changes is its
/// [`state`](Plateau::state), which prints as a line of text and is read from one.
///
/// ```
/// use extensor::optim::Plateau;
/// let mut plateau = Plateau::new(0.1)?.patience(1).factor(0.5)?;
/// for loss in [1.0, 0.9, 0.9, 0.9] {
///     plateau = plateau.observe(loss);
/// }
/// assert_eq!(plateau.lr(), 0.05);
/// let saved = plateau.state().to_string();
/// let resumed = Plateau::new(0.1)?.patience(1).factor(0.5)?.with_state(saved.parse()?);
/// assert_eq!(resumed, plateau);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    largest: bool,
    factor: f64,
    patience: u64,
    threshold: f64,
    relative: bool,
    cooldown: u64,
    min_lr: f64,
    eps: f64,
    state: PlateauState,
}

/// What changes of a [`Plateau`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlateauState {
    /// The learning rate.
    pub lr: f64,
    /// The best number so far.
    pub best: f64,
    /// How many numbers in a row have not improved on it.
    pub bad: u64,
    /// For how many more numbers that is not counted.
    pub cooling: u64,
}

impl Plateau {
    /// For numbers that should fall, beginning with this learning rate: a factor of 0.1 once more than
    /// 10 numbers in a row have not improved on the best by 1e-4 of it.
    pub fn new(lr: f64) -> Result<Plateau> {
        at_least_0("lr", lr)?;
        let state = PlateauState { lr, best: f64::INFINITY, bad: 0, cooling: 0 };
        Ok(Plateau {
            largest: false,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            relative: true,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
            state,
        })
    }

    /// For numbers that should rise.
    pub fn rising(mut self) -> Plateau {
        self.largest = true;
        self.state.best = f64::NEG_INFINITY;
        self
    }

    /// With another factor on the learning rate; below 1.
    pub fn factor(self, factor: f64) -> Result<Plateau> {
        expect("factor", factor, "at least 0 and below 1", (0.0..1.0).contains(&factor))?;
        Ok(Plateau { factor, ..self })
    }

    /// With so many numbers in a row that may fail to improve.
    pub fn patience(self, patience: u64) -> Plateau {
        Plateau { patience, ..self }
    }

    /// With another share of the best number by which a better one must differ from it.
    pub fn threshold(self, threshold: f64) -> Result<Plateau> {
        at_least_0("threshold", threshold)?;
        Ok(Plateau { threshold, relative: true, ..self })
    }

    /// With a difference by which a better number must differ from the best.
    pub fn absolute_threshold(self, threshold: f64) -> Result<Plateau> {
        at_least_0("threshold", threshold)?;
        Ok(Plateau { threshold, relative: false, ..self })
    }

    /// With so many numbers after each change that are not held against it.
    pub fn cooldown(self, cooldown: u64) -> Plateau {
        Plateau { cooldown, ..self }
    }

    /// With a learning rate below which it does not go.
    pub fn min_lr(self, min_lr: f64) -> Result<Plateau> {
        at_least_0("min_lr", min_lr)?;
        Ok(Plateau { min_lr, ..self })
    }

    /// With another smallest change of the learning rate than 1e-8: a smaller one is not made.
    pub fn eps(self, eps: f64) -> Result<Plateau> {
        at_least_0("eps", eps)?;
        Ok(Plateau { eps, ..self })
    }

    /// The learning rate.
    pub fn lr(&self) -> f64 {
        self.state.lr
    }

    /// What changes of it.
    pub fn state(&self) -> PlateauState {
        self.state
    }

    /// The same settings in another state.
    pub fn with_state(self, state: PlateauState) -> Plateau {
        Plateau { state, ..self }
    }

    /// What it is after another number was measured. A NaN is no improvement.
    pub fn observe(mut self, measured: f64) -> Plateau {
        let PlateauState { lr, best, bad, cooling } = &mut self.state;
        let better = match (self.largest, self.relative) {
            (false, true) => measured < *best * (1.0 - self.threshold),
            (false, false) => measured < *best - self.threshold,
            (true, true) => measured > *best * (1.0 + self.threshold),
            (true, false) => measured > *best + self.threshold,
        };
        if better {
            (*best, *bad) = (measured, 0);
        } else {
            *bad = bad.saturating_add(1);
        }
        if *cooling > 0 {
            *cooling -= 1;
            *bad = 0;
        }
        if *bad > self.patience {
            let lower = (*lr * self.factor).max(self.min_lr);
            if *lr - lower > self.eps {
                *lr = lower;
            }
            (*cooling, *bad) = (self.cooldown, 0);
        }
        self
    }
}

/// `lr=0.05 best=0.9 bad=0 cooling=0`: every number in as many digits as give it back exactly.
impl fmt::Display for PlateauState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlateauState { lr, best, bad, cooling } = self;
        write!(f, "lr={lr:?} best={best:?} bad={bad} cooling={cooling}")
    }
}

impl FromStr for PlateauState {
    type Err = Error;

    fn from_str(text: &str) -> Result<PlateauState> {
        parse(text).ok_or_else(|| {
            let (op, parameter) = ("schedule", "the state of a plateau");
            let expected = "like \"lr=0.1 best=inf bad=0 cooling=0\"".into();
            Error::Parameter { op, parameter, expected, got: format!("{text:?}") }
        })
    }
}

fn parse(text: &str) -> Option<PlateauState> {
    let mut words = text.split_whitespace();
    let mut next = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let state = PlateauState {
        lr: next("lr")?.parse().ok().filter(|lr: &f64| lr.is_finite() && *lr >= 0.0)?,
        best: next("best")?.parse().ok()?,
        bad: next("bad")?.parse().ok()?,
        cooling: next("cooling")?.parse().ok()?,
    };
    words.next().is_none().then_some(state)
}
