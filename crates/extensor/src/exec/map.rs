//! A formula of some arrays of one shape, element by element.

use super::{Call, Input, Kernel, Kind};
use crate::Result;
use crate::tensor::{match_float, match_int};
use extensor_kernels::interpret;
use extensor_kernels::map::{Block, MaskBlock, NumberBlock, RealBlock, RealMaskBlock};
use extensor_kernels::map::{map, map_slices};
use extensor_kernels::native::{Compute, Native};
use extensor_kernels::program::Program;
use extensor_kernels::view::View;
use smallvec::SmallVec;
use std::num::Wrapping;
use std::ops::Deref;
use std::sync::Arc;

/// A kernel that maps.
pub(crate) trait Mapping: Kernel {
    /// The formula's steps, for floats; a question is 1 for yes and 0 for no.
    fn program(&self) -> Program;
}

impl std::fmt::Debug for dyn Mapping + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.program().fmt(f)
    }
}

/// The formula of a real function: all arrays are of one float dtype.
pub(crate) struct Reals<P, const N: usize>(pub P);
/// The formula of a function of whole numbers too: all arrays are of one number dtype.
pub(crate) struct Numbers<P, const N: usize>(pub P);
/// A question about numbers or masks: the output is a mask.
pub(crate) struct Masks<P, const N: usize>(pub P);
/// A question about one float: the output is a mask.
pub(crate) struct RealMasks<P>(pub P);

impl<P, const N: usize> Kernel for Reals<P, N>
where
    P: Deref<Target = dyn RealBlock<N>> + Send + Sync,
{
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        match_float!(call.dtype(), T => {
            run::<T, N>(&*self.0, &mut call)?;
            #[cfg(test)]
            tests::compare::<T, N>(&self.0.program(), &mut call);
            Ok(())
        }, else wrong(&call))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Map(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(Reals::<_, N>(self.0.keep()))
    }
}

impl<P, const N: usize> Mapping for Reals<P, N>
where
    P: Deref<Target = dyn RealBlock<N>> + Send + Sync,
{
    fn program(&self) -> Program {
        self.0.program()
    }
}

impl<P, const N: usize> Kernel for Numbers<P, N>
where
    P: Deref<Target = dyn NumberBlock<N>> + Send + Sync,
{
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        match_int!(call.dtype(), T => run::<T, N>(&*self.0, &mut call), else {
            match_float!(call.dtype(), T => run::<T, N>(&*self.0, &mut call), else wrong(&call))
        })
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Map(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(Numbers::<_, N>(self.0.keep_number()))
    }
}

impl<P, const N: usize> Mapping for Numbers<P, N>
where
    P: Deref<Target = dyn NumberBlock<N>> + Send + Sync,
{
    fn program(&self) -> Program {
        self.0.program()
    }
}

impl<P, const N: usize> Kernel for Masks<P, N>
where
    P: Deref<Target = dyn MaskBlock<N>> + Send + Sync,
{
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, out) = (call.inputs, call.out::<u8>());
        match_float!(inputs[0].dtype(), T => {
            map::<T, u8, N>(&*self.0, views(inputs), out)
        }, else match_int!(inputs[0].dtype(), T => {
            map::<T, u8, N>(&*self.0, views(inputs), out)
        }, else {
            // Masks, which hold 0 and 1 in bytes.
            map::<Wrapping<u8>, u8, N>(&*self.0, views(inputs), out)
        }));
        Ok(())
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Map(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(Masks::<_, N>(self.0.keep()))
    }
}

impl<P, const N: usize> Mapping for Masks<P, N>
where
    P: Deref<Target = dyn MaskBlock<N>> + Send + Sync,
{
    fn program(&self) -> Program {
        self.0.program()
    }
}

impl<P> Kernel for RealMasks<P>
where
    P: Deref<Target = dyn RealMaskBlock> + Send + Sync,
{
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let x = call.inputs[0];
        match_float!(x.dtype(), T => {
            map::<T, u8, 1>(&*self.0, [x.view()], call.out());
            Ok(())
        }, else call.wrong("x", "a float type", x.dtype()))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Map(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(RealMasks(self.0.keep()))
    }
}

impl<P> Mapping for RealMasks<P>
where
    P: Deref<Target = dyn RealMaskBlock> + Send + Sync,
{
    fn program(&self) -> Program {
        self.0.program()
    }
}

/// A formula that has been put together while the program ran, of arrays of one float dtype.
#[derive(Clone, Debug)]
pub(crate) struct Interpreted {
    pub program: Arc<Program>,
}

impl Kernel for Interpreted {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (inputs, dtype) = (call.inputs, call.dtype());
        match_float!(dtype, T => {
            let views: SmallVec<[View<'_, T>; 4]> = inputs.iter().map(Input::view).collect();
            interpret::run(&self.program, &views, call.out());
            Ok(())
        }, else call.wrong("x", "a float type", dtype))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Map(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }
}

impl Mapping for Interpreted {
    fn program(&self) -> Program {
        (*self.program).clone()
    }
}

#[cold]
fn wrong(call: &Call<'_, '_>) -> Result<()> {
    call.wrong("the result", "a number type", call.dtype())
}

/// Runs a block; most inputs lie in memory as the output will.
#[inline]
fn run<T: Compute, const N: usize>(
    block: &dyn Block<T::Wide, T::Wide, N>,
    call: &mut Call<'_, '_>,
) -> Result<()> {
    let inputs = call.inputs;
    let out = call.outputs[0].all::<T>();
    let mut slices: [&[T]; N] = [&[]; N];
    for (slice, x) in slices.iter_mut().zip(inputs) {
        match x.contiguous_slice() {
            Some(all) => *slice = all,
            None => {
                map::<T, T, N>(block, views(inputs), out);
                return Ok(());
            }
        }
    }
    map_slices(block, slices, out);
    Ok(())
}

fn views<'a, T: Native, const N: usize>(inputs: &[Input<'a>]) -> [View<'a, T>; N] {
    std::array::from_fn(|k| inputs[k].view())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::catalogue::CATALOGUE;
    use crate::ops::operation::{apply, backward};
    use crate::ops::samples::Sampler;
    use crate::{DType, Key, Tensor, ops};
    use extensor_kernels::interpret::{self, Machine};
    use std::cell::{Cell, RefCell};

    thread_local! {
        /// Whether formulas are interpreted as well.
        static TWICE: Cell<bool> = const { Cell::new(false) };
        /// How many elements were compared, and where the bits differed.
        static FOUND: RefCell<(usize, Vec<String>)> = const { RefCell::new((0, Vec::new())) };
    }

    /// Runs the formula's steps, too, and compares the bits of the results.
    pub(super) fn compare<T: Compute<Wide: Machine + Into<f64>>, const N: usize>(
        program: &Program,
        call: &mut Call<'_, '_>,
    ) {
        if !TWICE.get() {
            return;
        }
        let inputs: [View<'_, T>; N] = views(call.inputs);
        let op = call.op;
        let out = call.outputs[0].all::<T>();
        let mut steps = vec![T::ZERO; out.len()];
        interpret::run(program, &inputs, &mut steps);
        let bits = |x: T| -> u64 {
            let wide: f64 = T::wide(x).into();
            if wide.is_nan() { f64::NAN.to_bits() } else { wide.to_bits() }
        };
        FOUND.with_borrow_mut(|(count, differing)| {
            *count += out.len();
            let first = out.iter().zip(&steps).position(|(a, b)| bits(*a) != bits(*b));
            if let Some(at) = first {
                let [a, b] = [out[at], steps[at]].map(|x| f64::from_bits(bits(x)));
                differing.push(format!("{op}: element {at} is {a:e}, by its steps {b:e}"));
            }
        });
    }

    /// Numbers at which formulas take their other branches.
    const SPECIAL: [f64; 18] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.0,
        -3.0,
        1e-40,
        -1e-8,
        1e-10,
        88.0,
        -104.0,
        1e6,
        -1e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        123.456,
    ];

    fn special(like: &Tensor, shift: usize) -> Result<Tensor> {
        let numbers = (0..like.len()).map(|i| SPECIAL[(i * 7 + shift) % SPECIAL.len()]);
        Tensor::from_vec(numbers.collect::<Vec<f64>>(), like.shape().clone())
    }

    #[test]
    fn the_steps_of_every_formula_have_its_bits() -> Result<()> {
        TWICE.set(true);
        for record in CATALOGUE {
            let mut sampler = Sampler::new(Key::new(1));
            (record.samples)(&mut sampler);
            let samples = sampler.finish();
            for sample in samples.iter().filter(|s| s.inputs.iter().all(|x| x.len() < 3000)) {
                for dtype in DType::FLOATS {
                    for round in 0..2 {
                        let mut inputs = Vec::new();
                        for (k, x) in sample.inputs.iter().enumerate() {
                            let floats = x.dtype().is_float();
                            let x = if floats && round == 1 { special(x, k)? } else { x.clone() };
                            inputs.push(if floats { ops::cast(&x, dtype)? } else { x });
                        }
                        let inputs: Vec<&Tensor> = inputs.iter().collect();
                        let op = record.operation(&sample.params)?;
                        // What a sample cannot be in another dtype, or at such numbers, is not asked.
                        let Ok(outputs) = apply(&*op, &inputs) else { continue };
                        if !record.is_differentiable() || !outputs[0].dtype().is_float() {
                            continue;
                        }
                        let wanted: Vec<bool> = (0..inputs.len())
                            .map(|i| record.differentiable_input(i) && inputs[i].dtype().is_float())
                            .collect();
                        let outputs: Vec<&Tensor> = outputs.iter().collect();
                        let results = record.results(outputs.len());
                        let mut grads = Vec::new();
                        for y in &outputs[..results] {
                            let g = Key::new(2).normal(y.shape().clone(), DType::F64)?;
                            let g = if round == 1 { special(&g, 3)? } else { g };
                            grads.push(ops::cast(&g, y.dtype())?);
                        }
                        let grads: Vec<&Tensor> = grads.iter().collect();
                        let _ = backward(&*op, &grads, &inputs, &outputs, &wanted);
                    }
                }
            }
        }
        TWICE.set(false);
        let (count, differing) = FOUND.take();
        assert!(count > 200_000, "only {count} elements were compared");
        assert!(
            differing.is_empty(),
            "{} differ:\n{}",
            differing.len(),
            differing[..differing.len().min(40)].join("\n")
        );
        Ok(())
    }
}
