//! Adam, and with decoupled weight decay AdamW. They know their formula; they must not know trees or
//! memory.

use super::engine::{Common, Leaf, Method, Now, at_least_0, optimizer, share};
use crate::Result;
use extensor_kernels::update::{Adam as Rule, AmsGrad, Rules};

/// What the two have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moments {
    beta1: f64,
    beta2: f64,
    eps: f64,
    amsgrad: bool,
}

impl Moments {
    const DEFAULT: Moments = Moments { beta1: 0.9, beta2: 0.999, eps: 1e-8, amsgrad: false };

    fn slots(&self) -> &'static [&'static str] {
        match self.amsgrad {
            false => &["exp_avg", "exp_avg_sq"],
            true => &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
        }
    }

    fn check(&self, op: &'static str) -> Result<()> {
        share(op, "beta 1", self.beta1)?;
        share(op, "beta 2", self.beta2)?;
        at_least_0(op, "epsilon", self.eps)
    }

    fn step(&self, now: Now, keep: f64, decay: f64, leaf: Leaf<'_, '_>) -> Result<()> {
        let Moments { beta1, beta2, eps, amsgrad } = *self;
        let steps = now.step as f64;
        let rule = Rule {
            step_size: now.lr / (1.0 - beta1.powf(steps)),
            keep,
            decay,
            blend: 1.0 - beta1,
            beta2,
            blend_square: 1.0 - beta2,
            correction: 1.0 / (1.0 - beta2.powf(steps)).sqrt(),
            eps,
        };
        if amsgrad { leaf.update(&Rules(AmsGrad(rule))) } else { leaf.update(&Rules(rule)) }
    }
}

macro_rules! builders {
    ($name:ident) => {
        impl $name {
            /// With other weights of the past: in the mean gradient (0.9) and the mean square (0.999).
            pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
                (self.moments.beta1, self.moments.beta2) = (beta1, beta2);
                self
            }

            /// With another number to keep the divisor from 0 than 1e-8.
            pub fn eps(mut self, eps: f64) -> Self {
                self.moments.eps = eps;
                self
            }

            /// With the largest mean square so far in place of the last one.
            pub fn amsgrad(mut self) -> Self {
                self.moments.amsgrad = true;
                self
            }

            /// With this weight decay.
            pub fn weight_decay(mut self, weight_decay: f64) -> Self {
                self.common.weight_decay = weight_decay;
                self
            }
        }

        optimizer!($name);
    };
}

/// Adam: every element moves by its mean gradient over the root of its mean square.
///
/// With the weight decay λ, in step t, `g ← g + λp`, `m ← β₁m + (1 − β₁)g`, `v ← β₂v + (1 − β₂)g²`,
/// `p ← p − lr·m̂/(√v̂ + ε)` with `m̂ = m/(1 − β₁ᵗ)` and `v̂ = v/(1 − β₂ᵗ)`.
///
/// ```
/// use extensor::optim::{Adam, Optimizer};
/// use extensor::tensor;
/// let optimizer = Adam::new(1e-3).betas(0.9, 0.999);
/// let p = tensor([1.0, 2.0]);
/// let state = optimizer.init(&p)?;
/// let (p, _) = optimizer.update(p, &tensor([100.0, -0.01]), state)?;
/// // The first step is of the same size for all.
/// assert!((p.get::<f64>(&[0])? - 0.999).abs() < 1e-8);
/// assert!((p.get::<f64>(&[1])? - 2.001).abs() < 1e-8);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    pub(super) common: Common,
    moments: Moments,
}

impl Adam {
    /// Adam with this learning rate, β = (0.9, 0.999) and ε = 1e-8.
    pub fn new(lr: f64) -> Adam {
        Adam { common: Common::new(lr), moments: Moments::DEFAULT }
    }
}

builders!(Adam);

impl Method for Adam {
    const NAME: &'static str = "adam";

    fn common(&self) -> &Common {
        &self.common
    }
    fn slots(&self) -> &'static [&'static str] {
        self.moments.slots()
    }
    fn check(&self) -> Result<()> {
        self.moments.check(Self::NAME)
    }
    fn step(&self, now: Now, leaf: Leaf<'_, '_>) -> Result<()> {
        self.moments.step(now, 1.0, now.weight_decay, leaf)
    }
}

/// [`Adam`] with weight decay that is no part of the gradient: before each step
/// `p ← p − lr·λ·p`. λ is 0.01 unless told otherwise.
///
/// ```
/// use extensor::optim::{AdamW, Groups, Optimizer};
/// use extensor::tensor;
/// let optimizer = AdamW::new(3e-4).weight_decay(0.1).groups(Groups::no_decay()).clip_norm(1.0);
/// let model = (tensor([[1.0, 2.0]]), tensor([3.0]));
/// let grads = (tensor([[3.0, 0.0]]), tensor([4.0]));
/// let state = optimizer.init(&model)?;
/// let (_, state) = optimizer.update(model, &grads, state)?;
/// assert_eq!(state.grad_norm, Some(5.0));
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    pub(super) common: Common,
    moments: Moments,
}

impl AdamW {
    /// AdamW with this learning rate, β = (0.9, 0.999), ε = 1e-8 and the weight decay 0.01.
    pub fn new(lr: f64) -> AdamW {
        let common = Common { weight_decay: 1e-2, ..Common::new(lr) };
        AdamW { common, moments: Moments::DEFAULT }
    }
}

builders!(AdamW);

impl Method for AdamW {
    const NAME: &'static str = "adamw";

    fn common(&self) -> &Common {
        &self.common
    }
    fn slots(&self) -> &'static [&'static str] {
        self.moments.slots()
    }
    fn check(&self) -> Result<()> {
        self.moments.check(Self::NAME)
    }
    fn step(&self, now: Now, leaf: Leaf<'_, '_>) -> Result<()> {
        self.moments.step(now, 1.0 - now.lr * now.weight_decay, 0.0, leaf)
    }
}
