//! Adagrad. It knows its formula; it must not know trees or memory.

use super::engine::{Common, Leaf, Method, Now, at_least_0, optimizer};
use crate::Result;
use extensor_kernels::update::{Adagrad as Rule, Rules};

/// Adagrad: gradients over the root of the sum of their squares.
///
/// With the weight decay λ and the learning rate decay η, in step t, `g ← g + λp`, `s ← s + g²`,
/// `p ← p − lr/(1 + (t − 1)η)·g/(√s + ε)`.
///
/// ```
/// use extensor::optim::{Adagrad, Optimizer};
/// use extensor::tensor;
/// let optimizer = Adagrad::new(0.1);
/// let p = tensor([1.0]);
/// let state = optimizer.init(&p)?;
/// let (p, state) = optimizer.update(p, &tensor([3.0]), state)?;
/// assert!((p.item::<f64>()? - 0.9).abs() < 1e-9);
/// let (p, _) = optimizer.update(p, &tensor([4.0]), state)?;
/// assert!((p.item::<f64>()? - (0.9 - 0.1 * 4.0 / 5.0)).abs() < 1e-9);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Adagrad {
    pub(super) common: Common,
    lr_decay: f64,
    start: f64,
    eps: f64,
}

impl Adagrad {
    /// Adagrad with this learning rate, ε = 1e-10, and sums that begin at 0.
    pub fn new(lr: f64) -> Adagrad {
        Adagrad { common: Common::new(lr), lr_decay: 0.0, start: 0.0, eps: 1e-10 }
    }

    /// With a learning rate that decays as `1/(1 + (t − 1)·lr_decay)`.
    pub fn lr_decay(self, lr_decay: f64) -> Adagrad {
        Adagrad { lr_decay, ..self }
    }

    /// With sums that begin here.
    pub fn initial_accumulator_value(self, start: f64) -> Adagrad {
        Adagrad { start, ..self }
    }

    /// With another number to keep the divisor from 0 than 1e-10.
    pub fn eps(self, eps: f64) -> Adagrad {
        Adagrad { eps, ..self }
    }

    /// With this multiple of the parameters added to their gradients.
    pub fn weight_decay(mut self, weight_decay: f64) -> Adagrad {
        self.common.weight_decay = weight_decay;
        self
    }
}

optimizer!(Adagrad);

impl Method for Adagrad {
    const NAME: &'static str = "adagrad";

    fn common(&self) -> &Common {
        &self.common
    }

    fn slots(&self) -> &'static [&'static str] {
        &["sum"]
    }

    fn start(&self) -> f64 {
        self.start
    }

    fn check(&self) -> Result<()> {
        at_least_0(Self::NAME, "the learning rate decay", self.lr_decay)?;
        at_least_0(Self::NAME, "the initial accumulator value", self.start)?;
        at_least_0(Self::NAME, "epsilon", self.eps)
    }

    fn step(&self, now: Now, leaf: Leaf<'_, '_>) -> Result<()> {
        let rate = now.lr / (1.0 + (now.step - 1) as f64 * self.lr_decay);
        leaf.update(&Rules(Rule { rate, decay: now.weight_decay, eps: self.eps }))
    }
}
