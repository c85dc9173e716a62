//! The optimisers' formulas, for one element. Their constants are computed once a step, in `f64`.
//!
//! They know the numbers of this step alone: what a learning rate or a bias correction is, and how it
//! came about, is not said here.

use super::Rule;
use crate::number::Real;

/// `p ← p + g`.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

impl Rule<0> for Sum {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, []: [R; 0]) -> (R, [R; 0]) {
        (p + g, [])
    }
}

/// `g ← g + decay·p; p ← p − rate·g`.
#[derive(Clone, Copy, Debug)]
pub struct Descent {
    /// The factor on the gradient.
    pub rate: f64,
    /// The factor on the parameter that is added to the gradient.
    pub decay: f64,
}

impl Rule<0> for Descent {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, []: [R; 0]) -> (R, [R; 0]) {
        let g = p.mul_add(p.lit(self.decay), g);
        (g.mul_add(p.lit(-self.rate), p), [])
    }
}

/// `g ← g + decay·p; m ← momentum·m + weight·g; p ← p − rate·m`, or with Nesterov's step
/// `p ← p − rate·(g + momentum·m)`.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    /// The factor on what the parameter moves along.
    pub rate: f64,
    /// The factor on the parameter that is added to the gradient.
    pub decay: f64,
    /// What is kept of the moving sum.
    pub momentum: f64,
    /// With what weight the gradient enters it.
    pub weight: f64,
    /// Whether the step looks ahead.
    pub nesterov: bool,
}

impl Rule<1> for Momentum {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [m]: [R; 1]) -> (R, [R; 1]) {
        let momentum = p.lit(self.momentum);
        let g = p.mul_add(p.lit(self.decay), g);
        let m = m.mul_add(momentum, g * p.lit(self.weight));
        let along = if self.nesterov { m.mul_add(momentum, g) } else { m };
        (along.mul_add(p.lit(-self.rate), p), [m])
    }
}

/// `p ← keep·p; g ← g + decay·p; m ← m + blend·(g − m); v ← β₂·v + blend₂·g²;`
/// `p ← p − step·m/(correction·√v + ε)`.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// The factor on the quotient.
    pub step_size: f64,
    /// What decoupled weight decay leaves of the parameter.
    pub keep: f64,
    /// The factor on the parameter that is added to the gradient.
    pub decay: f64,
    /// `1 − β₁`.
    pub blend: f64,
    /// What is kept of the mean square.
    pub beta2: f64,
    /// `1 − β₂`.
    pub blend_square: f64,
    /// The factor on the root of the mean square.
    pub correction: f64,
    /// What is added to that.
    pub eps: f64,
}

impl Adam {
    /// The parameter before the step, and the new moments.
    #[inline(always)]
    fn moments<R: Real>(&self, p: R, g: R, m: R, v: R) -> [R; 3] {
        let p = p * p.lit(self.keep);
        let g = p.mul_add(p.lit(self.decay), g);
        let m = (g - m).mul_add(p.lit(self.blend), m);
        let v = (g * g).mul_add(p.lit(self.blend_square), v * p.lit(self.beta2));
        [p, m, v]
    }

    #[inline(always)]
    fn moved<R: Real>(&self, p: R, m: R, v: R) -> R {
        let root = v.sqrt().mul_add(p.lit(self.correction), p.lit(self.eps));
        (m / root).mul_add(p.lit(-self.step_size), p)
    }
}

impl Rule<2> for Adam {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [m, v]: [R; 2]) -> (R, [R; 2]) {
        let [p, m, v] = self.moments(p, g, m, v);
        (self.moved(p, m, v), [m, v])
    }
}

/// [`Adam`] with the largest mean square so far in place of the last.
#[derive(Clone, Copy, Debug)]
pub struct AmsGrad(pub Adam);

impl Rule<3> for AmsGrad {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [m, v, largest]: [R; 3]) -> (R, [R; 3]) {
        let [p, m, v] = self.0.moments(p, g, m, v);
        let largest = largest.maximum(v);
        (self.0.moved(p, m, largest), [m, v, largest])
    }
}

/// `g ← g + decay·p; v ← α·v + blend·g²; p ← p − rate·g/(√v + ε)`.
#[derive(Clone, Copy, Debug)]
pub struct RmsProp {
    /// The factor on the quotient.
    pub rate: f64,
    /// The factor on the parameter that is added to the gradient.
    pub decay: f64,
    /// What is kept of the mean square.
    pub alpha: f64,
    /// `1 − α`.
    pub blend: f64,
    /// What is added to the root.
    pub eps: f64,
    /// What is kept of the moving sum, where there is one.
    pub momentum: f64,
}

impl RmsProp {
    /// The gradient and the new mean square.
    #[inline(always)]
    fn mean_square<R: Real>(&self, p: R, g: R, v: R) -> [R; 2] {
        let g = p.mul_add(p.lit(self.decay), g);
        [g, (g * g).mul_add(p.lit(self.blend), v * p.lit(self.alpha))]
    }

    /// The gradient over the root of the mean square.
    #[inline(always)]
    fn quotient<R: Real>(&self, g: R, v: R) -> R {
        g / (v.sqrt() + v.lit(self.eps))
    }

    /// The new mean gradient, and the variance: by rounding alone it could be below 0.
    #[inline(always)]
    fn centre<R: Real>(&self, g: R, v: R, mean: R) -> [R; 2] {
        let mean = (g - mean).mul_add(g.lit(self.blend), mean);
        [mean, (-mean).mul_add(mean, v).maximum(v.lit(0.0))]
    }

    #[inline(always)]
    fn moved<R: Real>(&self, p: R, along: R) -> R {
        along.mul_add(p.lit(-self.rate), p)
    }
}

impl Rule<1> for RmsProp {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [v]: [R; 1]) -> (R, [R; 1]) {
        let [g, v] = self.mean_square(p, g, v);
        (self.moved(p, self.quotient(g, v)), [v])
    }
}

/// [`RmsProp`] with `b ← momentum·b + g/(√v + ε); p ← p − rate·b`.
#[derive(Clone, Copy, Debug)]
pub struct RmsPropMomentum(pub RmsProp);

impl Rule<2> for RmsPropMomentum {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [v, b]: [R; 2]) -> (R, [R; 2]) {
        let [g, v] = self.0.mean_square(p, g, v);
        let b = b.mul_add(p.lit(self.0.momentum), self.0.quotient(g, v));
        (self.0.moved(p, b), [v, b])
    }
}

/// [`RmsProp`] with the variance in place of the mean square: `a ← a + blend·(g − a)`,
/// `p ← p − rate·g/(√(v − a²) + ε)`.
#[derive(Clone, Copy, Debug)]
pub struct RmsPropCentred(pub RmsProp);

impl Rule<2> for RmsPropCentred {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [v, a]: [R; 2]) -> (R, [R; 2]) {
        let [g, v] = self.0.mean_square(p, g, v);
        let [a, variance] = self.0.centre(g, v, a);
        (self.0.moved(p, self.0.quotient(g, variance)), [v, a])
    }
}

/// Both of [`RmsPropMomentum`] and [`RmsPropCentred`].
#[derive(Clone, Copy, Debug)]
pub struct RmsPropCentredMomentum(pub RmsProp);

impl Rule<3> for RmsPropCentredMomentum {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [v, b, a]: [R; 3]) -> (R, [R; 3]) {
        let [g, v] = self.0.mean_square(p, g, v);
        let [a, variance] = self.0.centre(g, v, a);
        let b = b.mul_add(p.lit(self.0.momentum), self.0.quotient(g, variance));
        (self.0.moved(p, b), [v, b, a])
    }
}

/// `g ← g + decay·p; s ← s + g²; p ← p − rate·g/(√s + ε)`.
#[derive(Clone, Copy, Debug)]
pub struct Adagrad {
    /// The factor on the quotient.
    pub rate: f64,
    /// The factor on the parameter that is added to the gradient.
    pub decay: f64,
    /// What is added to the root.
    pub eps: f64,
}

impl Rule<1> for Adagrad {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [s]: [R; 1]) -> (R, [R; 1]) {
        let g = p.mul_add(p.lit(self.decay), g);
        let s = g.mul_add(g, s);
        let quotient = g / (s.sqrt() + p.lit(self.eps));
        (quotient.mul_add(p.lit(-self.rate), p), [s])
    }
}

/// `p ← p − rate·(sign(m + blend₁·(g − m)) + decay·p); m ← m + blend₂·(g − m)`.
#[derive(Clone, Copy, Debug)]
pub struct Lion {
    /// How far every element moves.
    pub rate: f64,
    /// The factor on the parameter that is added to the sign.
    pub decay: f64,
    /// `1 − β₁`.
    pub blend: f64,
    /// `1 − β₂`.
    pub blend_slow: f64,
}

impl Rule<1> for Lion {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, g: R, [m]: [R; 1]) -> (R, [R; 1]) {
        let news = g - m;
        let direction = news.mul_add(p.lit(self.blend), m).sign();
        let m = news.mul_add(p.lit(self.blend_slow), m);
        let along = p.mul_add(p.lit(self.decay), direction);
        (along.mul_add(p.lit(-self.rate), p), [m])
    }
}

/// `p ← p + blend·(x − p)`: a moving average `p` of `x`.
#[derive(Clone, Copy, Debug)]
pub struct Average {
    /// The weight of what is new.
    pub blend: f64,
}

impl Rule<0> for Average {
    #[inline(always)]
    fn step<R: Real>(&self, p: R, x: R, []: [R; 0]) -> (R, [R; 0]) {
        ((x - p).mul_add(p.lit(self.blend), p), [])
    }
}
