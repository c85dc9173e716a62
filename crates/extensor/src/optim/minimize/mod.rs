//! Minimising a function of a tree that can be evaluated at will, without noise: second-order methods.
//!
//! They work on all parameters as one vector of `f64`. This module must not know what is minimised.

mod lbfgs;
mod newton;
mod search;

pub use lbfgs::Lbfgs;
pub use newton::NewtonCg;

use super::state::expect_parameter;
use crate::autodiff::{Path, value_and_grad};
use crate::{Error, Result, Tensor, Tree, ops};

/// Where a minimisation ended, and why.
#[derive(Clone, Debug)]
pub struct Minimum<T> {
    /// The parameters.
    pub model: T,
    /// The function's value there.
    pub value: f64,
    /// The Euclidean norm of its gradient there.
    pub grad_norm: f64,
    /// How many directions were searched along.
    pub iterations: usize,
    /// How often the function and its gradient were computed.
    pub evaluations: usize,
    /// How often a Hessian was multiplied by a vector.
    pub products: usize,
    /// Why it ended.
    pub stop: Stop,
}

/// Why a minimisation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The norm of the gradient is at most the tolerance.
    Converged,
    /// As many iterations as were allowed.
    Iterations,
    /// As many evaluations as were allowed.
    Evaluations,
    /// No step along the direction made the function smaller: this is as far as the precision goes,
    /// or the gradient is not that of the function.
    NoProgress,
}

/// The function, seen as one of a vector.
struct Problem<'a, T, F> {
    op: &'static str,
    f: F,
    /// The structure, shapes and dtypes.
    like: &'a T,
    evaluations: usize,
}

/// A point, with the function's value and gradient there.
#[derive(Clone)]
struct Point {
    x: Vec<f64>,
    value: f64,
    grad: Vec<f64>,
}

impl<'a, T: Tree, F: Fn(&T) -> Result<Tensor>> Problem<'a, T, F> {
    fn new(op: &'static str, f: F, like: &'a T) -> Result<Self> {
        like.visit(&Path::ROOT, &mut |path, x| match path.is_buffer() {
            true => Ok(()),
            false => expect_parameter(op, path, x),
        })?;
        Ok(Problem { op, f, like, evaluations: 0 })
    }

    /// The function and its gradient at `x`.
    fn at(&mut self, x: Vec<f64>) -> Result<Point> {
        self.evaluations += 1;
        let (value, grads) = value_and_grad(&self.f, &self.tree(&x)?)?;
        // A function that has traced tensors of its own would lose their gradients here.
        let value = value.plain(self.op)?.to_f64_vec()[0];
        Ok(Point { x, value, grad: flatten(self.op, &grads)? })
    }

    /// The starting point: an error if there is no value or gradient there.
    fn start(&mut self) -> Result<Point> {
        let point = self.at(flatten(self.op, self.like)?)?;
        if point.value.is_finite() && point.grad.iter().all(|g| g.is_finite()) {
            return Ok(point);
        }
        let (op, parameter) = (self.op, "the function or its gradient at the start");
        let (expected, got) = ("finite".into(), format!("{:?}", point.value));
        Err(Error::Parameter { op, parameter, expected, got })
    }

    /// The tree with these numbers as its parameters, rounded to their dtypes.
    fn tree(&self, x: &[f64]) -> Result<T> {
        let mut rest = x;
        self.like.map(&Path::ROOT, &mut |path, leaf| {
            if path.is_buffer() {
                return Ok(leaf.clone());
            }
            let (values, after) = rest.split_at_checked(leaf.len()).unwrap_or((rest, &[]));
            rest = after;
            let wide = Tensor::from_slice(values, leaf.shape().clone())?;
            ops::cast(&wide, leaf.dtype())
        })
    }

    fn finish(
        self,
        point: &Point,
        iterations: usize,
        products: usize,
        stop: Stop,
    ) -> Result<Minimum<T>> {
        let (value, grad_norm) = (point.value, norm(&point.grad));
        let (model, evaluations) = (self.tree(&point.x)?, self.evaluations);
        Ok(Minimum { model, value, grad_norm, iterations, evaluations, products, stop })
    }
}

/// The parameters of a tree, one after another.
fn flatten<T: Tree>(op: &'static str, tree: &T) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    tree.visit(&Path::ROOT, &mut |path, x| {
        if !path.is_buffer() {
            all.extend(x.plain(op)?.to_f64_vec());
        }
        Ok(())
    })?;
    Ok(all)
}

/// `a · b`, in a fixed order.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_blocks, b_blocks) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_blocks.remainder().iter().zip(b_blocks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_blocks.zip(b_blocks) {
        for k in 0..8 {
            sums[k] += a[k] * b[k];
        }
    }
    sums.iter().sum::<f64>() + rest
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// `y ← y + a·x`.
fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// `x + a·d`.
fn along(x: &[f64], a: f64, d: &[f64]) -> Vec<f64> {
    x.iter().zip(d).map(|(x, d)| x + a * d).collect()
}

fn negated(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| -x).collect()
}
