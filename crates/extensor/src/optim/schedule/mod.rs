//! Learning rates as functions of the step. This module knows numbers; it must not know a model or an
//! optimiser.

mod plateau;

pub use plateau::{Plateau, PlateauState};

use crate::{Error, Result};
use std::f64::consts::PI;

/// A learning rate for every step, from 0 on; a plain value.
///
/// What a step is, is the caller's: a batch or an epoch. The values are those of PyTorch's schedulers.
///
/// ```
/// use extensor::optim::Schedule;
/// let schedule = Schedule::cosine(1e-3, 900, 0.0)?.warm_up(100, 0.0)?;
/// assert_eq!(schedule.lr(0), 0.0);
/// assert_eq!(schedule.lr(50), 0.5e-3);
/// assert_eq!(schedule.lr(100), 1e-3);
/// assert!((schedule.lr(550) - 0.5e-3).abs() < 1e-12);
/// assert!(schedule.lr(1000) < 1e-12);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Constant { lr: f64 },
    Step { lr: f64, every: u64, gamma: f64 },
    MultiStep { lr: f64, milestones: Vec<u64>, gamma: f64 },
    Exponential { lr: f64, gamma: f64 },
    Cosine { lr: f64, steps: u64, min: f64 },
    CosineRestarts { lr: f64, first: u64, factor: u64, min: f64 },
    OneCycle(OneCycle),
    WarmUp { steps: u64, start: f64, then: Box<Kind> },
}

/// The settings of [`Schedule::one_cycle_with`].
///
/// ```
/// use extensor::optim::schedule::{OneCycle, Schedule};
/// let linear = OneCycle { cosine: false, ..OneCycle::new(1.0, 100) };
/// let schedule = Schedule::one_cycle_with(linear)?;
/// assert!((schedule.lr(29) - 1.0).abs() < 1e-12);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycle {
    /// The largest learning rate.
    pub max_lr: f64,
    /// The number of steps.
    pub steps: u64,
    /// The share of the steps in which the learning rate rises: 0.3.
    pub rise: f64,
    /// How many times smaller than the largest the first is: 25.
    pub div_factor: f64,
    /// How many times smaller than the first the last is: 1e4.
    pub final_div_factor: f64,
    /// Whether it goes along a cosine (as it does unless told otherwise), or a straight line.
    pub cosine: bool,
    /// Whether it first goes back as it rose, and then down to the last.
    pub three_phase: bool,
}

impl OneCycle {
    /// The usual settings.
    pub fn new(max_lr: f64, steps: u64) -> OneCycle {
        OneCycle {
            max_lr,
            steps,
            rise: 0.3,
            div_factor: 25.0,
            final_div_factor: 1e4,
            cosine: true,
            three_phase: false,
        }
    }

    fn lr(&self, step: u64) -> f64 {
        let total = self.steps as f64;
        let first = self.max_lr / self.div_factor;
        let last = first / self.final_div_factor;
        let top = self.rise * total - 1.0;
        let back = 2.0 * self.rise * total - 2.0;
        // Where each phase ends, and its first and last learning rate.
        let rising = (top, first, self.max_lr);
        let phases = if self.three_phase {
            vec![rising, (back, self.max_lr, first), (total - 1.0, first, last)]
        } else {
            vec![rising, (total - 1.0, self.max_lr, last)]
        };
        let step = (step as f64).min(total - 1.0);
        let mut start = 0.0;
        for (end, from, to) in phases {
            if step <= end {
                let share = if end > start { (step - start) / (end - start) } else { 1.0 };
                return match self.cosine {
                    true => to + (from - to) / 2.0 * ((PI * share).cos() + 1.0),
                    false => (to - from) * share + from,
                };
            }
            start = end;
        }
        last
    }
}

impl Schedule {
    /// Always the same learning rate.
    pub fn constant(lr: f64) -> Result<Schedule> {
        at_least_0("lr", lr)?;
        Ok(Schedule(Kind::Constant { lr }))
    }

    /// `lr·gammaᵏ` after `k` times `every` steps (PyTorch's StepLR).
    ///
    /// ```
    /// use extensor::optim::Schedule;
    /// let schedule = Schedule::step(1.0, 30, 0.5)?;
    /// assert_eq!([0, 29, 30, 60].map(|t| schedule.lr(t)), [1.0, 1.0, 0.5, 0.25]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn step(lr: f64, every: u64, gamma: f64) -> Result<Schedule> {
        at_least_0("lr", lr)?;
        at_least_0("gamma", gamma)?;
        at_least_1("every", every)?;
        Ok(Schedule(Kind::Step { lr, every, gamma }))
    }

    /// `lr·gammaᵏ` from the `k`-th milestone on (PyTorch's MultiStepLR).
    ///
    /// ```
    /// use extensor::optim::Schedule;
    /// let schedule = Schedule::multi_step(1.0, &[10, 20], 0.5)?;
    /// assert_eq!([9, 10, 20, 99].map(|t| schedule.lr(t)), [1.0, 0.5, 0.25, 0.25]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn multi_step(lr: f64, milestones: &[u64], gamma: f64) -> Result<Schedule> {
        at_least_0("lr", lr)?;
        at_least_0("gamma", gamma)?;
        let mut milestones = milestones.to_vec();
        milestones.sort_unstable();
        Ok(Schedule(Kind::MultiStep { lr, milestones, gamma }))
    }

    /// `lr·gammaᵗ` (PyTorch's ExponentialLR).
    pub fn exponential(lr: f64, gamma: f64) -> Result<Schedule> {
        at_least_0("lr", lr)?;
        at_least_0("gamma", gamma)?;
        Ok(Schedule(Kind::Exponential { lr, gamma }))
    }

    /// From `lr` to `min` in `steps` steps: `min + (lr − min)·(1 + cos(πt/steps))/2`. Beyond, the
    /// cosine goes on, up again (PyTorch's CosineAnnealingLR).
    pub fn cosine(lr: f64, steps: u64, min: f64) -> Result<Schedule> {
        at_least_0("lr", lr)?;
        at_least_0("min", min)?;
        at_least_1("steps", steps)?;
        Ok(Schedule(Kind::Cosine { lr, steps, min }))
    }

    /// From `lr` to `min` along a cosine in `first` steps, then again in `factor` times as many, and so
    /// on (PyTorch's CosineAnnealingWarmRestarts).
    ///
    /// ```
    /// use extensor::optim::Schedule;
    /// let schedule = Schedule::cosine_restarts(1.0, 10, 2, 0.0)?;
    /// assert_eq!([0, 10, 30].map(|t| schedule.lr(t)), [1.0, 1.0, 1.0]);
    /// assert!((schedule.lr(20) - 0.5).abs() < 1e-12);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn cosine_restarts(lr: f64, first: u64, factor: u64, min: f64) -> Result<Schedule> {
        at_least_0("lr", lr)?;
        at_least_0("min", min)?;
        at_least_1("first", first)?;
        at_least_1("factor", factor)?;
        Ok(Schedule(Kind::CosineRestarts { lr, first, factor, min }))
    }

    /// Up to `max_lr` and down to almost 0 within `steps` steps (PyTorch's OneCycleLR), and the last
    /// learning rate from then on.
    ///
    /// ```
    /// use extensor::optim::Schedule;
    /// let schedule = Schedule::one_cycle(1.0, 100)?;
    /// assert!((schedule.lr(0) - 1.0 / 25.0).abs() < 1e-12);
    /// assert!((schedule.lr(29) - 1.0).abs() < 1e-12);
    /// assert!((schedule.lr(99) - 4e-6).abs() < 1e-12);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn one_cycle(max_lr: f64, steps: u64) -> Result<Schedule> {
        Self::one_cycle_with(OneCycle::new(max_lr, steps))
    }

    /// [`one_cycle`](Schedule::one_cycle) with other settings.
    pub fn one_cycle_with(settings: OneCycle) -> Result<Schedule> {
        at_least_0("max_lr", settings.max_lr)?;
        at_least_1("steps", settings.steps)?;
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let OneCycle { div_factor, final_div_factor, rise, .. } = settings;
        expect("div_factor", div_factor, "a finite number above 0", positive(div_factor))?;
        let name = "final_div_factor";
        expect(name, final_div_factor, "a finite number above 0", positive(final_div_factor))?;
        let most = if settings.three_phase { 0.5 } else { 1.0 };
        expect("rise", rise, &format!("from 0 to {most}"), (0.0..=most).contains(&rise))?;
        Ok(Schedule(Kind::OneCycle(settings)))
    }

    /// This schedule after `steps` steps in which the learning rate rises in a straight line from
    /// `start` times its first one (PyTorch's LinearLR and this one, in a SequentialLR).
    pub fn warm_up(self, steps: u64, start: f64) -> Result<Schedule> {
        expect("start", start, "from 0 to 1", (0.0..=1.0).contains(&start))?;
        Ok(Schedule(Kind::WarmUp { steps, start, then: Box::new(self.0) }))
    }

    /// The learning rate of a step, from 0 on.
    pub fn lr(&self, step: u64) -> f64 {
        self.0.lr(step)
    }
}

/// `gammaⁿ`.
fn power(gamma: f64, n: u64) -> f64 {
    gamma.powf(n as f64)
}

/// Where a cosine from `lr` to `min` is after the share `t` of the way.
fn cosine(lr: f64, min: f64, t: f64) -> f64 {
    min + (lr - min) * (1.0 + (PI * t).cos()) / 2.0
}

impl Kind {
    fn lr(&self, step: u64) -> f64 {
        match *self {
            Kind::Constant { lr } => lr,
            Kind::Step { lr, every, gamma } => lr * power(gamma, step / every),
            Kind::MultiStep { lr, ref milestones, gamma } => {
                lr * power(gamma, milestones.partition_point(|at| *at <= step) as u64)
            }
            Kind::Exponential { lr, gamma } => lr * power(gamma, step),
            Kind::Cosine { lr, steps, min } => {
                // The cosine's period is twice the steps; far out, too, it has all its digits.
                let at = u128::from(step) % (2 * u128::from(steps));
                cosine(lr, min, at as f64 / steps as f64)
            }
            Kind::CosineRestarts { lr, first, factor, min } => {
                let (mut at, mut length) = (step, first);
                if factor == 1 {
                    at %= first;
                }
                while at >= length {
                    at -= length;
                    length = length.saturating_mul(factor);
                }
                cosine(lr, min, at as f64 / length as f64)
            }
            Kind::OneCycle(ref settings) => settings.lr(step),
            Kind::WarmUp { steps, start, ref then } => match step.checked_sub(steps) {
                Some(after) => then.lr(after),
                None => then.lr(0) * (start + (1.0 - start) * step as f64 / steps as f64),
            },
        }
    }
}

pub(super) fn expect(parameter: &'static str, got: f64, expected: &str, holds: bool) -> Result<()> {
    if holds {
        return Ok(());
    }
    let (expected, got) = (expected.into(), format!("{got:?}"));
    Err(Error::Parameter { op: "schedule", parameter, expected, got })
}

fn at_least_0(parameter: &'static str, value: f64) -> Result<()> {
    expect(parameter, value, "a finite number of at least 0", value.is_finite() && value >= 0.0)
}

fn at_least_1(parameter: &'static str, value: u64) -> Result<()> {
    expect(parameter, value as f64, "at least 1", value >= 1)
}
