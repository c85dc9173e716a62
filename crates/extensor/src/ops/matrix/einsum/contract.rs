//! Operands brought together: diagonals and sums of one, products of two.

use super::OP;
use super::equation::{Label, Labels, Resolved, Set, bit, set};
use super::path;
use crate::ops::matrix::product::product;
use crate::ops::operation::Spec;
use crate::ops::reduction::wide;
use crate::ops::shape::views::reshaped;
use crate::tensor::{Layout, Strides};
use crate::{Result, Shape, Tensor, ops};
use smallvec::SmallVec;

/// A tensor whose axes have labels, each its own.
#[derive(Clone)]
struct Term {
    x: Tensor,
    labels: Labels,
}

/// The result of the equation.
pub(super) fn contract(equation: &Resolved, inputs: &[&Tensor], spec: Spec) -> Result<Tensor> {
    let terms = inputs.iter().zip(&equation.inputs);
    let mut terms: Vec<Term> = terms.map(|(x, labels)| Term::new(x, labels, equation)).collect();
    let sets: Vec<Set> = terms.iter().map(|term| set(&term.labels)).collect();
    let kept = set(&equation.output);
    // What is summed before it is multiplied is not rounded in between.
    let alone = |i: usize| sets[i] & !others(&sets, i, kept);
    let sums = (0..sets.len()).any(|i| alone(i) != 0);
    let steps = sets.len() - 1 + usize::from(sums);
    let dtype = if steps > 1 { wide(spec.dtype) } else { spec.dtype };
    for (i, term) in terms.iter_mut().enumerate() {
        term.x = ops::cast(&term.x, dtype)?;
        if alone(i) != 0 {
            *term = term.without(alone(i))?;
        }
    }
    let sets: Vec<Set> = terms.iter().map(|term| set(&term.labels)).collect();
    let pairs = path::pairs(&sets, kept, &equation.sizes);
    let mut open: Vec<Option<Term>> = terms.into_iter().map(Some).collect();
    for (number, &(a, b)) in pairs.iter().enumerate() {
        let (Some(a), Some(b)) = (open[a].take(), open[b].take()) else { continue };
        let rest = open.iter().flatten().fold(kept, |all, term| all | set(&term.labels));
        let last = (number + 1 == pairs.len()).then_some(&equation.output[..]);
        open.push(Some(together(a, b, rest, last, equation)?));
    }
    match open.into_iter().flatten().next() {
        Some(result) => ops::cast(&result.ordered(&equation.output), spec.dtype),
        None => Tensor::zeros(spec.shape, spec.dtype),
    }
}

/// The labels of the result and of all terms but number `i`.
fn others(sets: &[Set], i: usize, kept: Set) -> Set {
    let others = sets.iter().enumerate().filter(|(k, _)| *k != i);
    others.fold(kept, |all, (_, labels)| all | labels)
}

impl Term {
    /// An operand with one axis for each label: axes of one label become their diagonal, and an axis
    /// of size 1 that others are larger along goes: what it would be broadcast to need not be.
    fn new(x: &Tensor, labels: &[Label], equation: &Resolved) -> Term {
        let Layout { shape, strides, offset } = x.layout();
        let mut own = Labels::new();
        let (mut sizes, mut steps) = (Shape::scalar(), Strides::new());
        for ((&label, &size), &stride) in labels.iter().zip(shape.iter()).zip(strides) {
            if size != equation.sizes[usize::from(label)] {
                continue;
            }
            match own.iter().position(|l| *l == label) {
                Some(at) => steps[at] += stride,
                None => {
                    own.push(label);
                    sizes.push(size);
                    steps.push(stride);
                }
            }
        }
        if own.len() == labels.len() {
            return Term { x: x.clone(), labels: own };
        }
        let layout = Layout { shape: sizes, strides: steps, offset: *offset };
        Term { x: x.with_layout(layout), labels: own }
    }

    /// Summed over these labels.
    fn without(&self, labels: Set) -> Result<Term> {
        let summed = |label: &Label| labels & bit(*label) != 0;
        let axes = self.labels.iter().enumerate().filter(|(_, label)| summed(label));
        let axes: SmallVec<[i64; 8]> = axes.map(|(axis, _)| axis as i64).collect();
        let kept = self.labels.iter().copied().filter(|label| !summed(label)).collect();
        Ok(Term { x: ops::sum(&self.x, &axes[..])?, labels: kept })
    }

    /// The axes of these labels, in their order; those that the term does not have are of size 1. A
    /// view.
    fn ordered(&self, labels: &[Label]) -> Tensor {
        if self.labels[..] == *labels {
            return self.x.clone();
        }
        let Layout { shape, strides, offset } = self.x.layout();
        let (mut sizes, mut steps) = (Shape::scalar(), Strides::new());
        for label in labels {
            let axis = self.labels.iter().position(|l| l == label);
            sizes.push(axis.map_or(1, |axis| shape[axis]));
            steps.push(axis.map_or(0, |axis| strides[axis]));
        }
        self.x.with_layout(Layout { shape: sizes, strides: steps, offset: *offset })
    }

    /// A batch of matrices: an axis for each label of `batch`, and one for all of `rows` and one for all
    /// of `columns`. A view where strides allow.
    fn matrices(&self, batch: &[Label], rows: &[Label], columns: &[Label]) -> Result<Tensor> {
        let labels: Labels = [batch, rows, columns].into_iter().flatten().copied().collect();
        let x = self.ordered(&labels);
        if rows.len() == 1 && columns.len() == 1 {
            return Ok(x);
        }
        let sizes = &x.shape()[batch.len()..];
        let mut shape = Shape::from(&x.shape()[..batch.len()]);
        shape.push(sizes[..rows.len()].iter().product());
        shape.push(sizes[rows.len()..].iter().product());
        reshaped(&x, &shape)
    }

    /// Its labels among these, in its own order.
    fn among(&self, labels: Set) -> Labels {
        self.labels.iter().copied().filter(|label| labels & bit(*label) != 0).collect()
    }
}

/// The product of two terms, summed over the labels that both have and nobody else needs. `last` is
/// the order of the labels if it is the result of all.
fn together(
    a: Term,
    b: Term,
    needed: Set,
    last: Option<&[Label]>,
    equation: &Resolved,
) -> Result<Term> {
    let (in_a, in_b) = (set(&a.labels), set(&b.labels));
    let summed = in_a & in_b & !needed;
    if summed == 0 {
        let order = || a.labels.iter().copied().chain(b.among(!in_a)).collect();
        let labels: Labels = last.map_or_else(order, Labels::from_slice);
        let x = ops::multiply(&a.ordered(&labels), &b.ordered(&labels))?;
        return Ok(Term { x, labels });
    }
    // What is last in the result is best among the columns: they are adjacent.
    let swapped = last.and_then(<[Label]>::last).is_some_and(|l| in_a & !in_b & bit(*l) != 0);
    let (a, b) = if swapped { (b, a) } else { (a, b) };
    let (left, right) = (a.among(!set(&b.labels)), b.among(!set(&a.labels)));
    // The larger one says in which order: it is the one not to copy.
    let larger = if a.x.len() >= b.x.len() { &a } else { &b };
    let inner = larger.among(summed);
    let batch = match last {
        Some(labels) => labels.iter().copied().filter(|l| in_a & in_b & bit(*l) != 0).collect(),
        None => larger.among(in_a & in_b & !summed),
    };
    let labels: Labels = [&batch[..], &left, &right].into_iter().flatten().copied().collect();
    let shape = equation.shape(&labels);
    shape.count(OP)?;
    if a.x.is_empty() || b.x.is_empty() {
        return Ok(Term { x: Tensor::zeros(shape, a.x.dtype())?, labels });
    }
    let (rows, columns) = (a.matrices(&batch, &left, &inner)?, b.matrices(&batch, &inner, &right)?);
    let n = batch.len();
    let mut flat = Shape::from(&rows.shape()[..n]);
    flat.push(rows.shape()[n]);
    flat.push(columns.shape()[n + 1]);
    let x = product(OP, &rows, &columns, None, flat)?;
    Ok(Term { x: reshaped(&x, &shape)?, labels })
}
