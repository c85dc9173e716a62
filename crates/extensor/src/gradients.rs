//! What is done to gradients between their computation and their use: trees in, trees out.

use crate::autodiff::{Path, Tree, leaves, map, map_parameters, parameters};
use crate::distributed::{Block, Blocks, Group, Order};
use crate::exec::launch_in_place;
use crate::exec::update::Update;
use crate::{DType, Error, Result, Tensor, ops};
use extensor_kernels::update::{RealUpdate, Rules, Sum};

/// `sum + x`, in the memory of `sum` where nobody else looks at it.
#[track_caller]
pub(crate) fn add_to(mut sum: Tensor, x: &Tensor) -> Result<Tensor> {
    let alike = sum.dtype() == x.dtype() && sum.shape() == x.shape() && x.dtype().is_float();
    let own = alike && !x.is_traced() && !crate::debug::watched();
    if !(own && sum.is_contiguous() && sum.is_exclusive()) {
        return ops::add(&sum, x);
    }
    let rule: &dyn RealUpdate<0> = &Rules(Sum);
    launch_in_place("add", &Update::<_, 0> { rule, scale: 1.0 }, &[x], &mut [&mut sum])?;
    Ok(sum)
}

/// The precision that sums over leaves are made in.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The Euclidean norm of all leaves together, in `f32`, or `f64` if a leaf is of it.
///
/// ```
/// use extensor::{gradients::global_norm, tensor};
/// let grads = (tensor([3.0]), vec![tensor(4.0)]);
/// assert_eq!(global_norm(&grads)?.item::<f64>()?, 5.0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn global_norm<T: Tree>(grads: &T) -> Result<Tensor> {
    let leaves = parameters(grads);
    let finest = leaves.iter().any(|x| x.dtype() == DType::F64);
    let dtype = if finest { DType::F64 } else { DType::F32 };
    let mut norms = Vec::with_capacity(leaves.len());
    for x in leaves {
        x.dtype().expect_float("global_norm", "a gradient")?;
        let norm = ops::norm(&ops::cast(x, wide(x.dtype()))?, ..)?;
        norms.push(ops::cast(&norm, dtype)?);
    }
    if norms.is_empty() {
        return Tensor::scalar_of(0.0, dtype);
    }
    ops::norm(&ops::stack(&norms, 0)?, ..)
}

/// The gradients, scaled down together so that their [`global_norm`] is at most `max_norm`, and the
/// norm that was found. If that is not finite they are returned as they are: no scale mends them.
///
/// ```
/// use extensor::{gradients::clip_grad_norm, tensor};
/// let (clipped, norm) = clip_grad_norm(&[tensor([3.0]), tensor([4.0])], 1.0)?;
/// assert_eq!(norm.item::<f64>()?, 5.0);
/// assert!((clipped[0].to_vec::<f64>()?[0] - 0.6).abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn clip_grad_norm<T: Tree>(grads: &T, max_norm: f64) -> Result<(T, Tensor)> {
    expect_limit("clip_grad_norm", "max_norm", max_norm)?;
    let norm = global_norm(grads)?;
    if norm.is_recorded() || norm.is_mapped() {
        let factor = clip_factor(&norm, max_norm)?;
        return Ok((scaled(grads, &factor)?, norm));
    }
    // The number only decides; what the gradients are scaled by is the tensor.
    let found = norm.primal().plain("clip_grad_norm")?.to_f64_vec()[0];
    if !found.is_finite() || found <= max_norm {
        return Ok((map(grads, |x| Ok(x.clone()))?, norm));
    }
    let factor = ops::divide(&Tensor::scalar_of(max_norm, norm.dtype())?, &norm)?;
    Ok((scaled(grads, &factor)?, norm))
}

/// The gradients times a factor.
fn scaled<T: Tree>(grads: &T, factor: &Tensor) -> Result<T> {
    map_parameters(grads, |x| {
        let wide = ops::cast(x, wide(x.dtype()))?;
        let scaled = ops::multiply(&wide, &ops::cast(factor, wide.dtype())?)?;
        ops::cast(&scaled, x.dtype())
    })
}

/// The factor that brings a norm down to `limit`, in the precision of the norm; 1 if the norm is not
/// above it or not finite.
pub(crate) fn clip_factor(norm: &Tensor, limit: f64) -> Result<Tensor> {
    let above = ops::less(&crate::tensor(limit), &ops::cast(norm, DType::F64)?)?;
    let clips = ops::logical_and(&above, &ops::isfinite(norm)?)?;
    let factor = ops::divide(&Tensor::scalar_of(limit, norm.dtype())?, norm)?;
    ops::where_(&clips, &factor, &Tensor::scalar_of(1.0, norm.dtype())?)
}

/// The gradients with every element held within ±`max_value`.
pub fn clip_grad_value<T: Tree>(grads: &T, max_value: f64) -> Result<T> {
    expect_limit("clip_grad_value", "max_value", max_value)?;
    map_parameters(grads, |x| ops::clip(x, Some(-max_value), Some(max_value)))
}

fn expect_limit(op: &'static str, parameter: &'static str, limit: f64) -> Result<()> {
    if limit >= 0.0 {
        return Ok(());
    }
    let (expected, got) = ("at least 0".into(), format!("{limit:?}"));
    Err(Error::Parameter { op, parameter, expected, got })
}

/// Whether no leaf has a NaN or an infinity.
///
/// ```
/// use extensor::{gradients::all_finite, tensor};
/// assert!(all_finite(&[tensor([1.0]), tensor([2.0])])?);
/// assert!(!all_finite(&[tensor([1.0]), tensor([f64::NAN])])?);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn all_finite<T: Tree>(tree: &T) -> Result<bool> {
    for x in parameters(tree) {
        if !x.dtype().is_float() {
            continue;
        }
        let finite = ops::all(&ops::isfinite(&x.primal())?, ..)?;
        if !finite.item::<bool>()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether no leaf has a NaN or an infinity, as a tensor: what a [compiled](crate::compile::compile)
/// function can ask.
///
/// ```
/// use extensor::{gradients::finite, tensor};
/// assert!(finite(&[tensor([1.0]), tensor([2.0])])?.item::<bool>()?);
/// assert!(!finite(&[tensor([1.0]), tensor([f64::NAN])])?.item::<bool>()?);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn finite<T: Tree>(tree: &T) -> Result<Tensor> {
    let floats = parameters(tree).into_iter().filter(|x| x.dtype().is_float());
    let all =
        floats.map(|x| ops::all(&ops::isfinite(&x.primal())?, ..)).collect::<Result<Vec<_>>>()?;
    match all.len() {
        0 => Ok(crate::tensor(true)),
        _ => ops::all(&ops::stack(&all, 0)?, ..),
    }
}

/// The sum of two trees, leaf by leaf, in the memory of the first; buffers stay.
pub(crate) fn add_all<T: Tree>(mut sum: T, other: &T) -> Result<T> {
    let others = leaves(other);
    if others.len() != leaves(&sum).len() {
        let [expected, got] = [&sum, other].map(|tree| format!("{} leaves", leaves(tree).len()));
        return Err(Error::Inputs { op: "accumulate", expected, got });
    }
    let mut others = others.into_iter();
    sum.visit_mut(&Path::ROOT, &mut |path, x| {
        if let (Some(other), false) = (others.next(), path.is_buffer()) {
            let nothing = Tensor::scalar_of(0.0, x.dtype())?;
            *x = add_to(std::mem::replace(x, nothing), other)?;
        }
        Ok(())
    })?;
    Ok(sum)
}

/// Gradients of micro-batches, added up to those of the whole batch.
///
/// The sum is kept in `f32` where the gradients are of a reduced precision, so that small ones are
/// not lost; each micro-batch counts by its weight, usually its number of examples. They are added in the
/// order of [`Blocks`], which is that of several ranks too.
///
/// ```
/// use extensor::{gradients::Accumulator, tensor};
/// let mut total = Accumulator::new();
/// total.add(&tensor([1.0]), 2.0)?; // the mean over 2 examples
/// total.add(&tensor([4.0]), 1.0)?; // over 1
/// assert_eq!(total.mean()?.unwrap().to_vec::<f64>()?, [2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Accumulator<T> {
    blocks: Blocks<T>,
    /// The number of the micro-batch that comes next.
    next: usize,
    weight: f64,
}

impl<T: Tree> Default for Accumulator<T> {
    fn default() -> Self {
        Accumulator { blocks: Blocks::new(), next: 0, weight: 0.0 }
    }
}

impl<T: Tree> Accumulator<T> {
    /// Nothing yet.
    pub fn new() -> Self {
        Accumulator::default()
    }

    /// Nothing yet, for micro-batches from this number on: those that one of several ranks has of a batch.
    pub fn starting_at(number: usize) -> Self {
        Accumulator { next: number, ..Accumulator::default() }
    }

    /// Adds the mean gradients of a micro-batch that counts `weight`.
    pub fn add(&mut self, grads: &T, weight: f64) -> Result<()> {
        let weighted = map_parameters(grads, |x| weighted(x, weight))?;
        self.blocks.push(self.next, weighted)?;
        self.next += 1;
        self.weight += weight;
        Ok(())
    }

    /// What was added of each leaf by itself, for a tree of so many.
    pub(crate) fn into_leaves(self, count: usize) -> Result<Vec<Blocks<Tensor>>> {
        let mut found: Vec<Blocks<Tensor>> = (0..count).map(|_| Blocks::new()).collect();
        for Block { first, log2, sum } in self.blocks.into_vec() {
            for (blocks, x) in found.iter_mut().zip(leaves(&sum)) {
                blocks.push_block(Block { first, log2, sum: x.clone() })?;
            }
        }
        Ok(found)
    }

    /// The mean gradients of all that was added; `None` of nothing.
    pub fn mean(&self) -> Result<Option<T>> {
        let mut copies = Blocks::new();
        for block in self.blocks.held() {
            let sum = map(&block.sum, |x| Ok(x.clone()))?;
            copies.push_block(Block { first: block.first, log2: block.log2, sum })?;
        }
        copies.total()?.map(|sum| divided(&sum, self.weight)).transpose()
    }

    /// The mean gradients of all that was added on all ranks of a group: `parts` micro-batches whose
    /// weights are `weight` together, of which each rank has added [its own](Group::parts). In the fixed order
    /// it is, to the last bit, the [`mean`](Accumulator::mean) of one process that added them all.
    ///
    /// ```
    /// use extensor::distributed::{Order, threads};
    /// use extensor::{Error, gradients::Accumulator, tensor};
    /// let means = threads(2, |group| {
    ///     let own = group.parts(3);
    ///     let mut total = Accumulator::starting_at(own.start);
    ///     for part in own {
    ///         total.add(&tensor(part as f64), 1.0)?;
    ///     }
    ///     total.mean_of_all(group, 3, 3.0, Order::Fixed)?.item::<f64>()
    /// })?;
    /// assert_eq!(means, [1.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn mean_of_all(self, group: &Group, parts: usize, weight: f64, order: Order) -> Result<T> {
        let first = self.blocks.held().first().map(|block| block.first);
        let sum = match group.size() == 1 && first == Some(0) && self.next == parts {
            // Nobody else has any: nothing need be moved.
            true => self.blocks.total()?,
            false => Some(group.reduce_blocks_in(self.blocks.into_vec(), parts, order)?),
        };
        let Some(sum) = sum else {
            let (expected, got) = ("one part or more".into(), "none".into());
            return Err(Error::Inputs { op: "accumulate", expected, got });
        };
        divided(&sum, weight)
    }
}

/// A gradient times its weight, in the dtype of the sum.
pub(crate) fn weighted(x: &Tensor, weight: f64) -> Result<Tensor> {
    let x = ops::cast(x, wide(x.dtype()))?;
    ops::multiply(&x, &Tensor::scalar_of(weight, x.dtype())?)
}

/// A sum divided by the weights of what is in it.
pub(crate) fn divided<T: Tree>(sum: &T, weight: f64) -> Result<T> {
    map_parameters(sum, |x| ops::divide(x, &Tensor::scalar_of(weight, x.dtype())?))
}
