//! RMSprop. It knows its formula; it must not know trees or memory.

use super::engine::{Common, Leaf, Method, Now, at_least_0, optimizer, share};
use crate::Result;
use extensor_kernels::update::{RmsProp as Rule, RmsPropCentred};
use extensor_kernels::update::{RmsPropCentredMomentum, RmsPropMomentum, Rules};

/// RMSprop: gradients over the root of their mean square.
///
/// With the weight decay λ, `g ← g + λp`, `v ← αv + (1 − α)g²`, `p ← p − lr·g/(√v + ε)`. Centred, the
/// variance `v − a²` takes the place of `v`, with the mean `a ← αa + (1 − α)g`. With the momentum μ,
/// `b ← μb + g/(√v + ε)`, `p ← p − lr·b`.
///
/// ```
/// use extensor::optim::{Optimizer, RmsProp};
/// use extensor::tensor;
/// let optimizer = RmsProp::new(0.01).alpha(0.75);
/// let p = tensor([1.0]);
/// let state = optimizer.init(&p)?;
/// let (p, _) = optimizer.update(p, &tensor([5.0]), state)?;
/// assert!((p.item::<f64>()? - (1.0 - 0.01 / 0.25f64.sqrt())).abs() < 1e-9);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RmsProp {
    pub(super) common: Common,
    alpha: f64,
    eps: f64,
    momentum: f64,
    centred: bool,
}

impl RmsProp {
    /// RMSprop with this learning rate, α = 0.99 and ε = 1e-8.
    pub fn new(lr: f64) -> RmsProp {
        let common = Common::new(lr);
        RmsProp { common, alpha: 0.99, eps: 1e-8, momentum: 0.0, centred: false }
    }

    /// With another weight of the past in the means.
    pub fn alpha(self, alpha: f64) -> RmsProp {
        RmsProp { alpha, ..self }
    }

    /// With another number to keep the divisor from 0 than 1e-8.
    pub fn eps(self, eps: f64) -> RmsProp {
        RmsProp { eps, ..self }
    }

    /// With momentum.
    pub fn momentum(self, momentum: f64) -> RmsProp {
        RmsProp { momentum, ..self }
    }

    /// With the variance of the gradients in place of their mean square. Where rounding makes it
    /// negative (PyTorch returns NaN then), it is 0.
    pub fn centred(self) -> RmsProp {
        RmsProp { centred: true, ..self }
    }

    /// With this multiple of the parameters added to their gradients.
    pub fn weight_decay(mut self, weight_decay: f64) -> RmsProp {
        self.common.weight_decay = weight_decay;
        self
    }
}

optimizer!(RmsProp);

impl Method for RmsProp {
    const NAME: &'static str = "rmsprop";

    fn common(&self) -> &Common {
        &self.common
    }

    fn slots(&self) -> &'static [&'static str] {
        match (self.momentum > 0.0, self.centred) {
            (false, false) => &["square_avg"],
            (true, false) => &["square_avg", "momentum_buffer"],
            (false, true) => &["square_avg", "grad_avg"],
            (true, true) => &["square_avg", "momentum_buffer", "grad_avg"],
        }
    }

    fn check(&self) -> Result<()> {
        share(Self::NAME, "alpha", self.alpha)?;
        at_least_0(Self::NAME, "epsilon", self.eps)?;
        at_least_0(Self::NAME, "the momentum", self.momentum)
    }

    fn step(&self, now: Now, leaf: Leaf<'_, '_>) -> Result<()> {
        let RmsProp { alpha, eps, momentum, .. } = *self;
        let (rate, decay, blend) = (now.lr, now.weight_decay, 1.0 - alpha);
        let rule = Rule { rate, decay, alpha, blend, eps, momentum };
        match (momentum > 0.0, self.centred) {
            (false, false) => leaf.update(&Rules(rule)),
            (true, false) => leaf.update(&Rules(RmsPropMomentum(rule))),
            (false, true) => leaf.update(&Rules(RmsPropCentred(rule))),
            (true, true) => leaf.update(&Rules(RmsPropCentredMomentum(rule))),
        }
    }
}
