//! L-BFGS: a Hessian's inverse made of the last few steps. It must not know how the function is
//! differentiated.

use super::search::Wolfe;
use super::{Minimum, Point, Problem, Stop, add_scaled, dot, negated, norm};
use crate::optim::engine::{at_least_0, expect};
use crate::{Result, Tensor, Tree};
use std::collections::VecDeque;

/// L-BFGS: minimises a function by steps `−Hg`, where `H` approximates the inverse of the Hessian from
/// the last `history` steps (the two-loop recursion), as long as the strong Wolfe conditions ask for.
///
/// The function must be without noise. All parameters are one vector of `f64`; `2·history + 4` such
/// vectors are kept.
///
/// ```
/// use extensor::optim::{Lbfgs, Stop};
/// use extensor::ops::{square, sum};
/// use extensor::{Tensor, tensor};
/// let f = |x: &Tensor| sum(&square(&(x - &tensor([1.0, -2.0])))?, ..);
/// let found = Lbfgs::new().minimize(f, &tensor([10.0, 10.0]))?;
/// assert_eq!(found.stop, Stop::Converged);
/// assert!((found.model.get::<f64>(&[1])? + 2.0).abs() < 1e-8);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lbfgs {
    history: usize,
    tolerance: f64,
    max_iterations: usize,
    max_evaluations: usize,
    c1: f64,
    c2: f64,
}

impl Default for Lbfgs {
    fn default() -> Self {
        Lbfgs::new()
    }
}

/// A step and the change of the gradient along it.
struct Pair {
    s: Vec<f64>,
    y: Vec<f64>,
    /// `1 / s·y`.
    rho: f64,
}

impl Lbfgs {
    /// The last 10 steps, a gradient norm of 1e-8, at most 1000 iterations and 10000 evaluations,
    /// `c₁ = 1e-4` and `c₂ = 0.9`.
    pub fn new() -> Lbfgs {
        let (max_iterations, max_evaluations) = (1000, 10_000);
        Lbfgs { history: 10, tolerance: 1e-8, max_iterations, max_evaluations, c1: 1e-4, c2: 0.9 }
    }

    /// With so many steps remembered.
    pub fn history(self, history: usize) -> Lbfgs {
        Lbfgs { history, ..self }
    }

    /// With another norm of the gradient at which it ends.
    pub fn tolerance(self, tolerance: f64) -> Lbfgs {
        Lbfgs { tolerance, ..self }
    }

    /// With at most so many iterations.
    pub fn max_iterations(self, max_iterations: usize) -> Lbfgs {
        Lbfgs { max_iterations, ..self }
    }

    /// With no new iteration after so many evaluations of the function and its gradient.
    pub fn max_evaluations(self, max_evaluations: usize) -> Lbfgs {
        Lbfgs { max_evaluations, ..self }
    }

    /// With other constants in the Wolfe conditions: `0 < c₁ < c₂ < 1`.
    pub fn wolfe(self, c1: f64, c2: f64) -> Lbfgs {
        Lbfgs { c1, c2, ..self }
    }

    /// Minimises `f`, beginning at `start`.
    pub fn minimize<T: Tree>(
        &self,
        f: impl Fn(&T) -> Result<Tensor>,
        start: &T,
    ) -> Result<Minimum<T>> {
        let op = "lbfgs";
        at_least_0(op, "the tolerance", self.tolerance)?;
        expect(op, "c₁", self.c1, "more than 0", self.c1 > 0.0)?;
        expect(op, "c₂", self.c2, "more than c₁ and below 1", self.c1 < self.c2 && self.c2 < 1.0)?;
        let wolfe = Wolfe { c1: self.c1, c2: self.c2, limit: 40 };
        let mut problem = Problem::new(op, f, start)?;
        let mut point = problem.start()?;
        let mut pairs: VecDeque<Pair> = VecDeque::new();
        let mut iterations = 0;
        let stop = loop {
            let size = norm(&point.grad);
            if size <= self.tolerance {
                break Stop::Converged;
            }
            if iterations >= self.max_iterations {
                break Stop::Iterations;
            }
            if problem.evaluations >= self.max_evaluations {
                break Stop::Evaluations;
            }
            iterations += 1;
            let mut direction = newton_like(&point.grad, &pairs);
            if dot(&direction, &point.grad) >= 0.0 {
                pairs.clear();
                direction = negated(&point.grad);
            }
            let first = if pairs.is_empty() { (1.0 / size).min(1.0) } else { 1.0 };
            match wolfe.search(&mut problem, &point, &direction, first)? {
                Some(next) => {
                    pairs.extend(pair(&point, &next));
                    if pairs.len() > self.history {
                        pairs.pop_front();
                    }
                    point = next;
                }
                None if pairs.is_empty() => break Stop::NoProgress,
                // What was remembered misleads here: begin again.
                None => pairs.clear(),
            }
        };
        problem.finish(&point, iterations, 0, stop)
    }
}

/// What a step tells of the Hessian, if it tells something usable.
fn pair(from: &Point, to: &Point) -> Option<Pair> {
    let s: Vec<f64> = to.x.iter().zip(&from.x).map(|(a, b)| a - b).collect();
    let y: Vec<f64> = to.grad.iter().zip(&from.grad).map(|(a, b)| a - b).collect();
    let product = dot(&s, &y);
    let usable = product > f64::EPSILON * norm(&s) * norm(&y);
    usable.then(|| Pair { s, y, rho: 1.0 / product })
}

/// `−Hg`, by the two-loop recursion.
fn newton_like(grad: &[f64], pairs: &VecDeque<Pair>) -> Vec<f64> {
    let mut q = negated(grad);
    let mut weights = Vec::with_capacity(pairs.len());
    for Pair { s, y, rho } in pairs.iter().rev() {
        let weight = rho * dot(s, &q);
        add_scaled(&mut q, -weight, y);
        weights.push(weight);
    }
    if let Some(Pair { y, rho, .. }) = pairs.back() {
        let scale = 1.0 / (rho * dot(y, y));
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for (Pair { s, y, rho }, weight) in pairs.iter().zip(weights.into_iter().rev()) {
        let correction = rho * dot(y, &q);
        add_scaled(&mut q, weight - correction, s);
    }
    q
}
