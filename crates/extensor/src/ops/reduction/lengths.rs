//! The lengths of vectors along an axis, for operations that divide by them or are made of them: with what is pulled
//! back and pushed forward through them. In the dtype that is computed in.

use crate::ops::operation::Spec;
use crate::ops::pointwise::{guard_above, map_real, settle};
use crate::{Result, Tensor, ops, over};
use extensor_kernels::distance::Power;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;

/// What the sizes of numbers are raised to for a norm of this order, which is above 0.
pub(crate) fn power_of(p: f64) -> Power {
    match p {
        1.0 => Power::One,
        2.0 => Power::Two,
        p if p.is_infinite() => Power::Infinity,
        p => Power::Any(p),
    }
}

/// `g·∂n/∂x` for the length `n` of the vector that `x` is in, where none is the largest alone; 0 where `x` is.
#[derive(Clone, Copy)]
struct Pulled {
    power: Power,
    limit: f64,
}

impl Formula<3> for Pulled {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x, n]: [R; 3]) -> R {
        let zero = x.lit(0.0);
        let value = match self.power {
            Power::One | Power::Infinity => return g.times(x.sign()),
            Power::Two => g.times(x / guard_above(n)),
            Power::Any(p) => {
                let share = R::select(x.eq(zero), x.lit(1.0), x.abs() / guard_above(n));
                R::select(x.eq(zero), zero, g.times(x.sign() * share.pow(x.lit(p - 1.0))))
            }
        };
        settle(value, g, n.eq(zero), self.limit)
    }
}

/// The vectors along one axis, and how their length is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    pub p: f64,
    pub axis: i64,
    /// What a gradient at 0 is held within: the largest finite number of the dtype that it is rounded to.
    pub limit: f64,
}

impl Lengths {
    /// The lengths, with the axis kept.
    pub fn of(&self, x: &Tensor) -> Result<Tensor> {
        if self.p.is_infinite() && x.is_empty() {
            return ops::sum(x, over(self.axis).keepdims(true));
        }
        ops::vector_norm(x, self.p, over(self.axis).keepdims(true))
    }

    /// `g` times the derivative of the length `n` by each number of `x`; `g` broadcasts.
    pub fn pulled(&self, g: &Tensor, x: &Tensor, n: &Tensor) -> Result<Tensor> {
        let power = power_of(self.p);
        let spec = Spec { shape: x.shape().clone(), dtype: x.dtype() };
        let formula = Formulas(Pulled { power, limit: self.limit });
        if power != Power::Infinity || x.is_empty() {
            return map_real("vector_norm", &formula, [g, x, n], spec);
        }
        // Equals share.
        let ones = n.ones_like()?;
        let along = over(self.axis).keepdims(true);
        let share = ops::max_reduce_backward(&ones, &ops::abs(x)?, along)?;
        map_real("vector_norm", &formula, [&ops::multiply(g, &share)?, x, n], spec)
    }

    /// How the length changes along a tangent of `x`.
    pub fn pushed(&self, tangent: &Tensor, x: &Tensor, n: &Tensor) -> Result<Tensor> {
        ops::sum(&self.pulled(tangent, x, n)?, over(self.axis).keepdims(true))
    }
}
