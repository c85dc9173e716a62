//! Stochastic gradient descent. It knows its formula; it must not know trees or memory.

use super::engine::{Common, Leaf, Method, Now, at_least_0, expect, optimizer};
use crate::Result;
use extensor_kernels::update::{Descent, Momentum, Rules};

/// Gradient descent, with momentum if asked for.
///
/// With the weight decay λ, the momentum μ and the dampening τ,
/// `g ← g + λp`, `b ← μb + (1 − τ)g` (in the first step `b ← g`), `p ← p − lr·b`; with Nesterov's
/// momentum `p ← p − lr·(g + μb)`; without momentum `p ← p − lr·g`.
///
/// ```
/// use extensor::optim::{Optimizer, Sgd};
/// use extensor::tensor;
/// let optimizer = Sgd::new(0.1).momentum(0.5);
/// let p = tensor([1.0, 2.0]);
/// let state = optimizer.init(&p)?;
/// let (p, state) = optimizer.update(p, &tensor([1.0, 1.0]), state)?;
/// let (p, state) = optimizer.update_with(1.0, p, &tensor([1.0, 1.0]), state)?;
/// assert_eq!(state.slot("momentum_buffer").unwrap()[0].to_vec::<f64>()?, [1.5, 1.5]);
/// assert_eq!(p.to_vec::<f64>()?, [0.9 - 1.5, 1.9 - 1.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    pub(super) common: Common,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
}

impl Sgd {
    /// Plain descent with this learning rate.
    pub fn new(lr: f64) -> Sgd {
        Sgd { common: Common::new(lr), momentum: 0.0, dampening: 0.0, nesterov: false }
    }

    /// With momentum: what is kept of the moving sum of the gradients.
    pub fn momentum(self, momentum: f64) -> Sgd {
        Sgd { momentum, ..self }
    }

    /// With gradients that enter the moving sum with the weight `1 − dampening`.
    pub fn dampening(self, dampening: f64) -> Sgd {
        Sgd { dampening, ..self }
    }

    /// With Nesterov's momentum, which looks a step ahead.
    pub fn nesterov(self) -> Sgd {
        Sgd { nesterov: true, ..self }
    }

    /// With this multiple of the parameters added to their gradients.
    pub fn weight_decay(mut self, weight_decay: f64) -> Sgd {
        self.common.weight_decay = weight_decay;
        self
    }
}

optimizer!(Sgd);

impl Method for Sgd {
    const NAME: &'static str = "sgd";

    fn common(&self) -> &Common {
        &self.common
    }

    fn slots(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum_buffer"] }
    }

    fn check(&self) -> Result<()> {
        at_least_0(Self::NAME, "the momentum", self.momentum)?;
        let dampening = self.dampening;
        expect(Self::NAME, "the dampening", dampening, "a finite number", dampening.is_finite())?;
        if self.nesterov {
            let (momentum, expected) = (self.momentum, "more than 0 for Nesterov's");
            expect(Self::NAME, "the momentum", momentum, expected, momentum > 0.0)?;
            let expected = "0 for Nesterov's momentum";
            expect(Self::NAME, "the dampening", dampening, expected, dampening == 0.0)?;
        }
        Ok(())
    }

    fn step(&self, now: Now, leaf: Leaf<'_, '_>) -> Result<()> {
        let (rate, decay) = (now.lr, now.weight_decay);
        if self.momentum == 0.0 {
            return leaf.update(&Rules(Descent { rate, decay }));
        }
        let weight = if now.step == 1 { 1.0 } else { 1.0 - self.dampening };
        let (momentum, nesterov) = (self.momentum, self.nesterov);
        leaf.update(&Rules(Momentum { rate, decay, momentum, weight, nesterov }))
    }
}
