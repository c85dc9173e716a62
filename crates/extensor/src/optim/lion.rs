//! Lion. It knows its formula; it must not know trees or memory.

use super::engine::{Common, Leaf, Method, Now, optimizer, share};
use crate::Result;
use extensor_kernels::update::{Lion as Rule, Rules};

/// Lion (Chen et al., 2023): every element moves by the learning rate, in the direction of a mean
/// gradient's sign.
///
/// With the weight decay λ, `c = β₁m + (1 − β₁)g`, `p ← p − lr·(sign c + λp)`,
/// `m ← β₂m + (1 − β₂)g`. Its learning rate should be 3 to 10 times smaller than Adam's, and its
/// weight decay as much larger.
///
/// ```
/// use extensor::optim::{Lion, Optimizer};
/// use extensor::tensor;
/// let optimizer = Lion::new(0.25);
/// let p = tensor([1.0, 2.0, 3.0]);
/// let state = optimizer.init(&p)?;
/// let (p, _) = optimizer.update(p, &tensor([1e-9, -1e9, 0.0]), state)?;
/// assert_eq!(p.to_vec::<f64>()?, [0.75, 2.25, 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Lion {
    pub(super) common: Common,
    beta1: f64,
    beta2: f64,
}

impl Lion {
    /// Lion with this learning rate and β = (0.9, 0.99).
    pub fn new(lr: f64) -> Lion {
        Lion { common: Common::new(lr), beta1: 0.9, beta2: 0.99 }
    }

    /// With other weights of the past: in what the step follows (0.9) and in what is kept (0.99).
    pub fn betas(self, beta1: f64, beta2: f64) -> Lion {
        Lion { beta1, beta2, ..self }
    }

    /// With this weight decay.
    pub fn weight_decay(mut self, weight_decay: f64) -> Lion {
        self.common.weight_decay = weight_decay;
        self
    }
}

optimizer!(Lion);

impl Method for Lion {
    const NAME: &'static str = "lion";

    fn common(&self) -> &Common {
        &self.common
    }

    fn slots(&self) -> &'static [&'static str] {
        &["exp_avg"]
    }

    fn check(&self) -> Result<()> {
        share(Self::NAME, "beta 1", self.beta1)?;
        share(Self::NAME, "beta 2", self.beta2)
    }

    fn step(&self, now: Now, leaf: Leaf<'_, '_>) -> Result<()> {
        let (blend, blend_slow) = (1.0 - self.beta1, 1.0 - self.beta2);
        leaf.update(&Rules(Rule { rate: now.lr, decay: now.weight_decay, blend, blend_slow }))
    }
}
