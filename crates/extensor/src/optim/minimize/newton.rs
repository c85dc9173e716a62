//! Newton's method with the linear system solved by conjugate gradients, as far as is worth while. It
//! must not know how products with the Hessian are computed.

use super::search::armijo;
use super::{Minimum, Problem, Stop, add_scaled, dot, flatten, negated, norm};
use crate::autodiff::hvp;
use crate::optim::engine::{at_least_0, share};
use crate::{Result, Tensor, Tree};

/// Newton-CG: minimises a function by steps that solve `Hp = −g` by conjugate gradients, with
/// products of the Hessian and vectors ([`hvp`]) alone.
///
/// The system is solved to `min(η, √‖g‖)·‖g‖`, so that convergence is faster than linear; where the
/// Hessian is found to curve downwards, the solution so far is taken (or, if there is none, the
/// negative gradient, as far as the curvature suggests). The step is then shortened until the function
/// falls enough (Armijo).
///
/// ```
/// use extensor::optim::{NewtonCg, Stop};
/// use extensor::ops::{cosh, sum};
/// use extensor::{Tensor, tensor};
/// let f = |x: &Tensor| sum(&cosh(x)?, ..);
/// let found = NewtonCg::new().minimize(f, &tensor([1.0, -2.0]))?;
/// assert_eq!(found.stop, Stop::Converged);
/// assert!(found.iterations < 10);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewtonCg {
    tolerance: f64,
    max_iterations: usize,
    max_products: usize,
    forcing: f64,
    c1: f64,
}

impl Default for NewtonCg {
    fn default() -> Self {
        NewtonCg::new()
    }
}

impl NewtonCg {
    /// To a gradient norm of 1e-8, in at most 200 iterations with at most 200 products each; η = 1e-3.
    pub fn new() -> NewtonCg {
        let (max_iterations, max_products) = (200, 200);
        NewtonCg { tolerance: 1e-8, max_iterations, max_products, forcing: 1e-3, c1: 1e-4 }
    }

    /// With another norm of the gradient at which it ends.
    pub fn tolerance(self, tolerance: f64) -> NewtonCg {
        NewtonCg { tolerance, ..self }
    }

    /// With at most so many iterations.
    pub fn max_iterations(self, max_iterations: usize) -> NewtonCg {
        NewtonCg { max_iterations, ..self }
    }

    /// With at most so many products with the Hessian in each iteration.
    pub fn max_products(self, max_products: usize) -> NewtonCg {
        NewtonCg { max_products, ..self }
    }

    /// With another η: how far, at most, a system may be from solved. More saves products far from the
    /// minimum, and costs iterations.
    pub fn forcing(self, eta: f64) -> NewtonCg {
        NewtonCg { forcing: eta, ..self }
    }

    /// Minimises `f`, beginning at `start`.
    pub fn minimize<T: Tree>(
        &self,
        f: impl Fn(&T) -> Result<Tensor>,
        start: &T,
    ) -> Result<Minimum<T>> {
        let op = "newton_cg";
        at_least_0(op, "the tolerance", self.tolerance)?;
        share(op, "η", self.forcing)?;
        let mut problem = Problem::new(op, &f, start)?;
        let mut point = problem.start()?;
        let (mut iterations, mut products) = (0, 0);
        let stop = loop {
            if norm(&point.grad) <= self.tolerance {
                break Stop::Converged;
            }
            if iterations >= self.max_iterations {
                break Stop::Iterations;
            }
            iterations += 1;
            let model = problem.tree(&point.x)?;
            let curve = |d: &[f64]| flatten(problem.op, &hvp(&f, &model, &problem.tree(d)?)?);
            let (direction, used) = truncated(&point.grad, curve, self.forcing, self.max_products)?;
            products += used;
            match armijo(&mut problem, &point, &direction, self.c1, 40)? {
                Some(next) => point = next,
                None => break Stop::NoProgress,
            }
        };
        problem.finish(&point, iterations, products, stop)
    }
}

/// A descent direction from conjugate gradients on `Hp = −g`, and how many products it took.
fn truncated(
    grad: &[f64],
    curve: impl Fn(&[f64]) -> Result<Vec<f64>>,
    forcing: f64,
    limit: usize,
) -> Result<(Vec<f64>, usize)> {
    let size = norm(grad);
    let enough = size.sqrt().min(forcing) * size;
    let mut solution = vec![0.0; grad.len()];
    let mut residual = grad.to_vec();
    let mut direction = negated(grad);
    let mut square = dot(&residual, &residual);
    let mut used = 0;
    while used < limit.max(1) {
        let curved = curve(&direction)?;
        used += 1;
        let curvature = dot(&direction, &curved);
        let flat = f64::EPSILON * dot(&direction, &direction);
        if !curvature.is_finite() || curvature <= flat {
            if used == 1 {
                let length = square / curvature.abs();
                let length = if length.is_finite() { length } else { 1.0 };
                solution = direction.iter().map(|d| d * length).collect();
            }
            break;
        }
        let step = square / curvature;
        add_scaled(&mut solution, step, &direction);
        add_scaled(&mut residual, step, &curved);
        let next = dot(&residual, &residual);
        if next.sqrt() <= enough {
            break;
        }
        let beta = next / square;
        square = next;
        for (d, r) in direction.iter_mut().zip(&residual) {
            *d = beta * *d - r;
        }
    }
    Ok((solution, used))
}
