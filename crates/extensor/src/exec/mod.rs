//! The seam between what is computed and who computes it: a kernel call as data.
//!
//! Operations, optimisers and random numbers say which [`Kernel`] they want on which tensors;
//! [`launch`] looks at where those lie and hands the call to the executor of that place. This module
//! must not know operations or derivatives, only arrays and what is done to them.

pub(crate) mod attention;
pub(crate) mod bits;
mod call;
pub(crate) mod cast;
pub(crate) mod check;
pub(crate) mod choose;
pub(crate) mod classes;
pub(crate) mod convolve;
pub(crate) mod copy;
pub(crate) mod distance;
pub(crate) mod fused;
pub(crate) mod index;
pub(crate) mod linalg;
pub(crate) mod map;
pub(crate) mod normalize;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod resample;
pub(crate) mod rows;
pub(crate) mod sort;
pub(crate) mod unfold;
pub(crate) mod update;

pub(crate) use call::{Call, Input, Output};

use crate::compile::Recording;
use crate::interrupt::stoppable;
use crate::ops::operation::{Outputs, Spec, Specs};
use crate::tensor::Storage;
use crate::{Result, Tensor};
use extensor_kernels::map::RealBlock;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Something that is done to arrays, as data: an executor reads it, or has it run on the host.
///
/// A kernel reads its inputs wherever they lie in memory, whatever their strides, unless it says that
/// they must lie in row-major order; its outputs always do, and it writes every element of them.
pub(crate) trait Kernel: Send + Sync {
    /// Computes the outputs on the host. Numbers that must not be there (an index outside of its
    /// axis, say) are an error.
    fn run(&self, call: Call<'_, '_>) -> Result<()>;

    /// Which it is, for an executor that does not run it on the host.
    fn kind(&self) -> Kind<'_>;

    /// The same kernel, to be kept.
    fn keep(&self) -> Arc<dyn Kernel>;
}

/// All kernels that there are: what another executor has to know.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    /// A formula, element by element.
    Map(&'a dyn map::Mapping),
    /// Several formulas of the same arrays.
    Fused(&'a fused::FusedMap),
    /// Many numbers to one.
    Reduce(reduce::Fold, &'a [bool]),
    /// A formula of two arrays, summed over all elements and divided by a number.
    MapSum(&'a dyn RealBlock<2>, f64),
    /// The gradient of the largest or smallest.
    ExtremeGradient(&'a reduce::ExtremeGradient),
    /// Running sums and products.
    Scan(&'a reduce::Scan),
    /// A step of an optimiser.
    Update,
    /// Products of matrices.
    Product(&'a product::Product),
    /// Decompositions of matrices, and what is solved with them.
    Linalg(&'a linalg::Linalg),
    /// Convolutions and their gradients.
    Convolution(&'a convolve::Convolution),
    /// Windows without weights.
    Pool(&'a pool::Pool),
    /// Windows side by side, or added up.
    Unfold(&'a unfold::Unfolding),
    /// Planes brought to another size.
    Resample(&'a resample::Resample),
    /// Softmax and its kin.
    Rows(&'a rows::Rows),
    /// A normalisation by groups' own statistics.
    Normalize(&'a normalize::Normalize),
    /// Its gradients.
    NormalizeGradient(&'a normalize::NormalizeGradient),
    /// A normalisation of a batch's channels, with running statistics.
    BatchNormalize(&'a normalize::BatchNormalize),
    /// Its gradients.
    BatchNormalizeGradient(&'a normalize::BatchNormalizeGradient),
    /// Distances between rows, and their gradients.
    Distance(&'a distance::Distance),
    /// Attention.
    Attention(&'a attention::Attention),
    /// Its gradients.
    AttentionGradient(&'a attention::AttentionGradient),
    /// The losses of scores for classes.
    ClassLosses(&'a classes::ClassLosses),
    /// Their gradients.
    ClassGradient(&'a classes::ClassGradient),
    /// Elements moved as they are.
    Copy(&'a copy::Copying),
    /// Numbers in another dtype.
    Cast,
    /// Elements picked from positions, or put there.
    Index(&'a index::Indexing),
    /// Elements in order.
    Sort(&'a sort::Sorting),
    /// Random numbers.
    Random(&'a random::Random),
    /// Operations on bits.
    Bits(&'a bits::Bits),
    /// Numbers that a mask chooses.
    Choose(&'a choose::Choose),
    /// Numbers that must not be there; without outputs.
    Check(&'a check::Check),
}

/// Computes new tensors, in row-major order.
pub(crate) fn launch(
    op: &'static str,
    kernel: &dyn Kernel,
    inputs: &[&Tensor],
    specs: Specs,
) -> Result<Outputs> {
    if let Some(recording) = recording(inputs) {
        return recording.call(op, kernel, inputs, 0, specs);
    }
    let mut storages: SmallVec<[Storage; 4]> = SmallVec::new();
    for spec in &specs {
        storages.push(room(op, spec)?);
    }
    let given: SmallVec<[Input<'_>; 4]> = inputs.iter().map(|x| x.input()).collect();
    stoppable(op, || {
        let parts = storages.iter_mut().zip(&specs);
        let mut outputs: SmallVec<[Output<'_>; 4]> = parts
            .map(|(storage, spec)| Output::new(storage.as_mut_slice(), &spec.shape, spec.dtype))
            .collect();
        kernel.run(Call { op, inputs: &given, outputs: &mut outputs })
    })?;
    let parts = storages.into_iter().zip(specs);
    Ok(parts.map(|(storage, spec)| Tensor::from_storage(storage, spec.shape, spec.dtype)).collect())
}

/// Computes one new tensor, in row-major order.
#[inline]
pub(crate) fn launch_one(
    op: &'static str,
    kernel: &dyn Kernel,
    inputs: &[&Tensor],
    spec: Spec,
) -> Result<Tensor> {
    // Most have few inputs, and to make a list of them costs more than a small kernel.
    match *inputs {
        [x] => {
            if let Some(x) = x.on_host() {
                return run_one(op, kernel, &[x], spec);
            }
        }
        [x, y] => {
            if let (Some(x), Some(y)) = (x.on_host(), y.on_host()) {
                return run_one(op, kernel, &[x, y], spec);
            }
        }
        _ => {}
    }
    launch_any(op, kernel, inputs, spec)
}

/// The same for any number of inputs, wherever they lie.
fn launch_any(
    op: &'static str,
    kernel: &dyn Kernel,
    inputs: &[&Tensor],
    spec: Spec,
) -> Result<Tensor> {
    if let Some(recording) = recording(inputs) {
        return Ok(recording.call(op, kernel, inputs, 0, smallvec![spec])?.swap_remove(0));
    }
    let inputs: SmallVec<[Input<'_>; 8]> = inputs.iter().map(|x| x.input()).collect();
    run_one(op, kernel, &inputs, spec)
}

/// Computes one new tensor on the host.
#[inline(never)]
fn run_one(
    op: &'static str,
    kernel: &dyn Kernel,
    inputs: &[Input<'_>],
    spec: Spec,
) -> Result<Tensor> {
    let mut storage = room(op, &spec)?;
    stoppable(op, || {
        let output = Output::new(storage.as_mut_slice(), &spec.shape, spec.dtype);
        kernel.run(Call { op, inputs, outputs: &mut [output] })
    })?;
    Ok(Tensor::from_storage(storage, spec.shape, spec.dtype))
}

/// Replaces tensors of one shape by what a kernel makes of them and of the inputs, in their own memory
/// where nobody else sees it.
pub(crate) fn launch_in_place(
    op: &'static str,
    kernel: &dyn Kernel,
    inputs: &[&Tensor],
    targets: &mut [&mut Tensor],
) -> Result<()> {
    // A sum of gradients: one tensor that nobody else sees, and what is added to it.
    if let ([input], [target]) = (inputs, &mut *targets)
        && let Some(input) = input.on_host()
        && target.is_contiguous()
        && target.is_exclusive()
    {
        return kernel.run(Call { op, inputs: &[input], outputs: &mut [target.output()] });
    }
    let symbol = targets.iter().find_map(|x| x.symbol());
    if let Some(recording) = symbol.map(|s| s.recording.clone()).or(recording(inputs).cloned()) {
        let mut read: SmallVec<[Tensor; 4]> = inputs.iter().map(|x| (*x).clone()).collect();
        for x in targets.iter() {
            read.push(x.contiguous()?);
        }
        let specs = targets.iter().map(|x| Spec { shape: x.shape().clone(), dtype: x.dtype() });
        let read: SmallVec<[&Tensor; 4]> = read.iter().collect();
        let new = recording.call(op, kernel, &read, targets.len(), specs.collect())?;
        targets.iter_mut().zip(new).for_each(|(x, new)| **x = new);
        return Ok(());
    }
    // What others see stays as it is: the new elements go to new memory.
    let mut old: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
    for x in targets.iter_mut() {
        if !x.is_contiguous() {
            **x = x.contiguous()?;
        }
        old.push(if x.is_exclusive() {
            None
        } else {
            let spec = Spec { shape: x.shape().clone(), dtype: x.dtype() };
            let new = Tensor::from_storage(room(op, &spec)?, spec.shape, spec.dtype);
            Some(std::mem::replace(*x, new))
        });
    }
    let given: SmallVec<[Input<'_>; 4]> = inputs.iter().map(|x| x.input()).collect();
    let mut outputs: SmallVec<[Output<'_>; 4]> = SmallVec::new();
    for (x, old) in targets.iter_mut().zip(&old) {
        let output = x.output();
        outputs.push(match old {
            Some(old) => output.instead_of(old.bytes()),
            None => output,
        });
    }
    kernel.run(Call { op, inputs: &given, outputs: &mut outputs })
}

/// The program that is being recorded, if one of the inputs is a value of it.
#[inline]
fn recording<'a>(inputs: &[&'a Tensor]) -> Option<&'a Arc<Recording>> {
    inputs.iter().find_map(|x| x.symbol()).map(|symbol| &symbol.recording)
}

/// Memory for a tensor's elements, and no more.
#[inline]
pub(crate) fn room(op: &'static str, spec: &Spec) -> Result<Storage> {
    Storage::of_bytes(op, spec.shape.count(op)?.saturating_mul(spec.dtype.size()))
}
