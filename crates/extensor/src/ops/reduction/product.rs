//! The product of many numbers.

use crate::exec::reduce::Fold;
use crate::ops::operation::{Backward, Spec};
use crate::ops::pointwise::{Takes, Times, map_real, map_real_mask};
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::reduction::{AXES, CASES, EMPTY, Group, KEEPDIMS, Reduction, Rule};
use crate::ops::reduction::{along, bad_masks, samples, wide};
use crate::{Axes, DType, Over, Result, Shape, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas, RealPredicate};
use extensor_kernels::number::Real;

/// `y = ∏ x` over the axes; 1 over an empty one.
///
/// `f16`, `bf16` and `f32` are multiplied in `f64` and rounded once. A product is 0, infinite or NaN
/// only if its true value is, whatever its parts do on the way. Whole numbers wrap around.
///
/// Conventions: 1 over an empty axis; whole numbers wrap around.
///
/// ```
/// use extensor::ops::prod;
/// use extensor::tensor;
/// assert_eq!(prod(&tensor([1e200, 1e200, 1e-300]), ..)?.item::<f64>()?, 1e100);
/// assert_eq!(prod(&tensor([[1, 2], [3, 4]]), 1)?.to_vec::<i32>()?, [2, 12]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn prod(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    Reduction::new(axis, Prod).of(x)
}

/// The gradient of [`prod`]: the product of all the other elements, times `grad_output`, from input
/// and output; right with any number of zeros.
#[track_caller]
#[extensor_derive::noted]
pub fn prod_backward(
    grad_output: &Tensor,
    x: &Tensor,
    output: &Tensor,
    axis: impl Into<Over>,
) -> Result<Tensor> {
    Reduction::new(axis, Prod).backward_at(grad_output, x, Some(output))
}

#[derive(Clone, Debug)]
pub(crate) struct Prod;

/// `g · y/x`.
#[derive(Clone)]
struct Quotient;

impl Formula<3> for Quotient {
    #[inline(always)]
    fn f<R: Real>(&self, [g, x, y]: [R; 3]) -> R {
        g.times(y / x)
    }
}

/// Whether a number has all its bits: neither 0 nor near it, nor infinite nor NaN.
#[derive(Clone)]
struct Normal(f64);

impl RealPredicate for Normal {
    #[inline(always)]
    fn f<R: Real>(&self, y: R) -> R::Mask {
        y.lit(self.0).le(y.abs()) & y.is_finite()
    }
}

/// For each row of a matrix and each of its elements the product of all the others, in blocks: those
/// of its own block times those of the other blocks. Nothing is divided, so zeros do no harm, and it
/// can be differentiated any number of times.
fn others(x: &Tensor) -> Result<Tensor> {
    const BLOCK: usize = 8;
    let (rows, n) = (x.shape()[0], x.shape()[1]);
    let block = n.min(BLOCK);
    let count = n.div_ceil(block);
    // Ones fill the last block.
    let missing = (count * block - n) as i64;
    let filled = ops::pad(x, [(0, 0), (0, missing)], 1.0)?;
    let blocks = ops::reshape(&filled, [rows, count, 1, block])?;
    let pairs = ops::broadcast_to(&blocks, [rows, count, block, block])?;
    let diagonal = ops::cast(&Tensor::eye(block, block, DType::U8)?, DType::Bool)?;
    let one = Tensor::scalar_of(1.0, x.dtype())?;
    let within = prod(&ops::where_(&diagonal, &one, &pairs)?, -1)?;
    if count == 1 {
        return ops::reshape(&within, [rows, n]);
    }
    let products = prod(&blocks, -1)?;
    let outside = others(&ops::reshape(&products, [rows, count])?)?;
    let outside = ops::reshape(&outside, [rows, count, 1])?;
    let spec = Spec { shape: within.shape().clone(), dtype: x.dtype() };
    let both = map_real("prod_backward", &Formulas(Times), [&within, &outside], spec)?;
    let both = ops::reshape(&both, [rows, count * block])?;
    ops::slice(&both, 1, None, n as i64, 1)
}

/// One more.
fn shifted(x: &Tensor) -> Tensor {
    ops::add(x, &Tensor::scalar(1.0)).unwrap_or_else(|e| panic!("a sample cannot be made: {e}"))
}

impl Rule for Prod {
    const RECORD: &'static Record = &Record {
        name: "prod",
        family: Family::Reduction,
        formula: "y = ∏ x",
        derivative: "y′ = ∏ of the other elements",
        conventions: "1 over an empty axis; whole numbers wrap around",
        params: &[AXES, KEEPDIMS],
        backward: signature!(prod_backward(grad_output, x, output; axis, keepdims)),
        class: Class::Reduction,
        needs: Needs::InputsAndOutputs,
        build: |p| Reduction::build(p, Prod),
        samples: |s| {
            // The product of many numbers is far from 0 and infinity only if they are near ±1.
            samples(s, &CASES, |s, shape| {
                let len = shape.iter().product::<usize>() as f64;
                let width = if len > 100.0 { 2.0 / len.sqrt() } else { 1.6 };
                let x = s.away(-width, width, &[0.0], shape);
                if len > 100.0 { shifted(&x) } else { x }
            });
            samples(s, &EMPTY, |s, shape| s.normal(shape));
            let one: [f64; 3] = [2.0, 0.0, 3.0];
            s.add_noted([crate::tensor(one)], along(Some(&[0]), false), "one zero");
            let two: [f64; 3] = [2.0, 0.0, 0.0];
            s.add_noted([crate::tensor(two)], along(Some(&[0]), false), "two zeros");
            let mixed = crate::tensor([[[2.0, 0.0], [3.0, 0.5]], [[0.0, 0.0], [1.5, -2.0]]]);
            s.add_noted([mixed.clone()], along(Some(&[0, 2]), true), "zeros, two axes");
            s.add_noted([mixed], along(None, false), "three zeros");
        },
        errors: bad_masks,
        ..Record::BLANK
    };
    const TAKES: Takes = Takes::Numbers;

    fn forward(&self, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
        group.fold("prod", Fold::Product, x, spec)
    }

    fn backward(&self, call: &Backward<'_>, _: &Axes, group: &Group) -> Result<Tensor> {
        let (g, x, y) = (call.grad(), call.inputs[0], call.output());
        if x.is_empty() {
            return x.zeros_like();
        }
        let g = group.keep(g)?;
        let dtype = wide(g.dtype());
        let spec = Spec { shape: x.shape().clone(), dtype };
        let least = match g.dtype() {
            DType::F16 => 6.103515625e-5,
            DType::F64 => f64::MIN_POSITIVE,
            _ => f64::from(f32::MIN_POSITIVE),
        };
        // A product that has all its bits has no zero among its factors: it can be divided by them.
        // Not where the quotient is differentiated again: its terms would cancel.
        let normal = || ops::all(&map_real_mask("prod_backward", Normal(least), y)?, ..);
        let quotient = || {
            let y = group.keep(y)?;
            map_real("prod_backward", &Formulas(Quotient), [&g, x, &y], spec.clone())
        };
        if x.is_traced() {
            return self.of_others(&g, x, group, spec.clone());
        }
        let normal = normal()?;
        if normal.is_recorded() {
            // Which it is will be known when the program runs.
            let others = self.of_others(&g, x, group, spec.clone())?;
            return ops::where_(&normal, &quotient()?, &others);
        }
        if normal.item::<bool>()? { quotient() } else { self.of_others(&g, x, group, spec.clone()) }
    }
}

impl Prod {
    /// The gradient from products of the other elements.
    fn of_others(&self, g: &Tensor, x: &Tensor, group: &Group, spec: Spec) -> Result<Tensor> {
        // The reduced axes last and in one, and back again.
        let axes = 0..x.ndim();
        let (kept, reduced): (Vec<usize>, Vec<usize>) = axes.partition(|&axis| !group.mask[axis]);
        let order: Vec<usize> = kept.into_iter().chain(reduced).collect();
        let mut back = vec![0i64; order.len()];
        for (to, &from) in order.iter().enumerate() {
            back[from] = to as i64;
        }
        let forth: Vec<i64> = order.iter().map(|&axis| axis as i64).collect();
        let arranged = ops::transpose(&ops::cast(x, spec.dtype)?, Some(&forth[..]))?;
        let matrix = Shape::from([x.len() / group.count, group.count]);
        let others = others(&ops::reshape(&arranged, &matrix)?)?;
        let others = ops::transpose(&ops::reshape(&others, arranged.shape())?, Some(&back[..]))?;
        map_real("prod_backward", &Formulas(Times), [g, &others], spec)
    }
}
