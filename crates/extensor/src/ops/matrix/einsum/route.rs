//! In which order an equation's operands are multiplied, for whoever wants to know.

use super::equation::{Equation, Label, Labels, Resolved, Set, bit, set};
use super::path;
use crate::{Result, Shape, Tensor};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::fmt;

/// One product of two terms on the way to the result of [`einsum`](super::einsum).
#[derive(Clone, Debug, PartialEq)]
pub struct EinsumStep {
    /// The numbers of the two terms: operands count from 0, and each product is numbered on.
    pub terms: [usize; 2],
    /// What is computed, as an equation of its own.
    pub equation: String,
    /// How many multiplications that takes.
    pub products: f64,
    /// How many elements its result has.
    pub elements: f64,
}

/// The order in which [`einsum`](super::einsum) multiplies its operands. Printed, it is a line for each
/// product.
#[derive(Clone, Debug, PartialEq)]
pub struct EinsumPath {
    /// The products, in order.
    pub steps: Vec<EinsumStep>,
    /// How many multiplications all of them take.
    pub products: f64,
    /// How many it would take to multiply all operands at once.
    pub at_once: f64,
}

/// How [`einsum`](super::einsum) multiplies these operands: their shapes say it, no number is read.
///
/// Up to eight operands all orders are compared, by their multiplications and by what has to be written
/// in between; beyond, each pair is the one that leaves least.
///
/// ```
/// use extensor::DType;
/// use extensor::Tensor;
/// use extensor::ops::einsum_path;
/// let [a, b, c] = [[100, 2], [2, 100], [100, 3]].map(|shape| Tensor::ones(shape, DType::F32));
/// let path = einsum_path("ij,jk,kl->il", &[a?, b?, c?])?;
/// assert_eq!(path.steps[0].terms, [1, 2]);
/// assert_eq!(path.steps[0].equation, "jk,kl->jl");
/// assert_eq!(path.steps[1].equation, "ij,jl->il");
/// assert_eq!((path.products, path.at_once), (1200.0, 120_000.0));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn einsum_path(equation: &str, tensors: &[impl Borrow<Tensor>]) -> Result<EinsumPath> {
    let shapes: SmallVec<[&Shape; 4]> = tensors.iter().map(|x| x.borrow().shape()).collect();
    Ok(route(&Equation::parse(equation)?.resolve(&shapes)?))
}

fn route(equation: &Resolved) -> EinsumPath {
    let sizes = &equation.sizes;
    let kept = set(&equation.output);
    let operands: Vec<Set> = equation.inputs.iter().map(|labels| set(labels)).collect();
    let pairs = path::pairs(&operands, kept, sizes);
    let mut open: Vec<Option<Labels>> = equation.inputs.iter().cloned().map(Some).collect();
    let name = |labels: &[Label]| labels.iter().map(|l| equation.name(*l)).collect::<String>();
    let mut steps = Vec::new();
    for (number, &(a, b)) in pairs.iter().enumerate() {
        let (Some(left), Some(right)) = (open[a].take(), open[b].take()) else { continue };
        let needed = open.iter().flatten().fold(kept, |all, labels| all | set(labels));
        let both = set(&left) | set(&right);
        let mut result = Labels::new();
        for &label in left.iter().chain(&right) {
            if needed & bit(label) != 0 && !result.contains(&label) {
                result.push(label);
            }
        }
        if number + 1 == pairs.len() {
            result = equation.output.clone();
        }
        steps.push(EinsumStep {
            terms: [a, b],
            equation: format!("{},{}->{}", name(&left), name(&right), name(&result)),
            products: path::elements(both, sizes),
            elements: path::elements(set(&result), sizes),
        });
        open.push(Some(result));
    }
    let all = operands.iter().fold(0, |all, labels| all | labels);
    EinsumPath {
        products: steps.iter().map(|step| step.products).sum(),
        steps,
        at_once: path::elements(all, sizes) * (operands.len() as f64 - 1.0),
    }
}

impl fmt::Display for EinsumPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for EinsumStep { terms: [a, b], equation, products, elements } in &self.steps {
            writeln!(
                f,
                "{a:>3} · {b:<3} {equation}  {products:.3e} products, {elements:.3e} left"
            )?;
        }
        write!(f, "{:.3e} products; all at once: {:.3e}", self.products, self.at_once)
    }
}
