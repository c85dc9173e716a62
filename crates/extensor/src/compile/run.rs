//! Running a program: kernel after kernel, in memory that was planned before.

use super::plan::{From, Program, Step, To};
use crate::exec::{Call, Input, Output, room};
use crate::interrupt::stoppable;
use crate::tensor::{Layout, Storage};
use crate::{Error, Result, Tensor};
use extensor_kernels::arena::Arena;
use smallvec::SmallVec;
use std::time::{Duration, Instant};

impl Program {
    /// Memory for a run.
    pub fn memory(&self) -> Result<Arena> {
        let bytes = self.arena;
        Arena::new(bytes).ok_or(Error::OutOfMemory { op: "compile", bytes })
    }

    /// The results for these arguments, which lie in row-major order. How long each kernel took is noted
    /// where it is less than what is there.
    pub fn run(
        &self,
        mut arguments: Arguments<'_>,
        arena: &mut Arena,
        mut took: Option<&mut [Duration]>,
    ) -> Result<SmallVec<[Tensor; 8]>> {
        let mut made: SmallVec<[Storage; 8]> = SmallVec::new();
        for (k, (spec, donor)) in self.made.iter().enumerate() {
            let given = donor.and_then(|a| arguments[a].give(k));
            made.push(match given {
                Some(memory) => memory,
                None => room("compile", spec)?,
            });
        }
        for (k, step) in self.steps.iter().enumerate() {
            let start = took.is_some().then(Instant::now);
            stoppable(step.call.op, || step.run(self, &arguments, &mut made, arena))?;
            if let (Some(start), Some(took)) = (start, &mut took) {
                took[k] = took[k].min(start.elapsed());
            }
        }
        let made: SmallVec<[Tensor; 8]> = made
            .into_iter()
            .zip(&self.made)
            .map(|(memory, (spec, _))| Tensor::from_storage(memory, spec.shape.clone(), spec.dtype))
            .collect();
        let result = |(from, layout, _): &(From, Layout, _)| {
            let whole = match from {
                From::Made(k) => &made[*k],
                From::Argument(k) => arguments[*k].tensor(),
                From::Constant(k) => &self.constants[*k],
                From::Arena(_) | From::InPlace => unreachable!("a result has memory of its own"),
            };
            let mut layout = layout.clone();
            if let From::Argument(_) = from {
                layout.offset += whole.layout().offset;
            }
            let same = *whole.layout() == layout;
            if same { whole.clone() } else { whole.with_layout(layout) }
        };
        Ok(self.results.iter().map(result).collect())
    }
}

/// The arguments of a run.
pub(crate) type Arguments<'a> = SmallVec<[Argument<'a>; 16]>;

/// An argument of a run.
pub(crate) enum Argument<'a> {
    /// Somebody else needs it.
    Lent(&'a Tensor),
    /// Nobody does, unless the memory has other owners.
    Own(Tensor),
    /// Its memory is that of this one of the values made for the caller.
    Given(usize),
}

impl Argument<'_> {
    /// Its memory for value number `k`, if nobody else sees it.
    fn give(&mut self, k: usize) -> Option<Storage> {
        match std::mem::replace(self, Argument::Given(k)) {
            Argument::Own(x) => x.into_storage().map_err(|x| *self = Argument::Own(x)).ok(),
            other => {
                *self = other;
                None
            }
        }
    }

    fn tensor(&self) -> &Tensor {
        match self {
            Argument::Lent(x) => x,
            Argument::Own(x) => x,
            Argument::Given(_) => unreachable!("what is a result is not given away"),
        }
    }
}

impl Step {
    fn run(
        &self,
        program: &Program,
        arguments: &[Argument<'_>],
        made: &mut [Storage],
        arena: &mut Arena,
    ) -> Result<()> {
        // What is written for the caller is taken out of the list while others of it are read.
        let mut own: SmallVec<[Storage; 2]> = SmallVec::new();
        for to in &self.outputs {
            if let To::Made(k) = to {
                own.push(std::mem::replace(&mut made[*k], Storage::none()));
            }
        }
        let (reads, writes) = arena.parts(&self.reads, &self.writes);
        let bytes = |from: From| -> &[u8] {
            match from {
                From::Argument(k) => match &arguments[k] {
                    Argument::Given(k) => made[*k].as_slice(),
                    argument => argument.tensor().bytes(),
                },
                From::Constant(k) => program.constants[k].memory(),
                From::Made(k) => made[k].as_slice(),
                From::Arena(k) => reads[k],
                From::InPlace => &[],
            }
        };
        let kept = self.inputs.len() - self.call.replaced;
        let operands = self.call.inputs.iter().zip(&self.inputs).zip(&self.dtypes).take(kept);
        let inputs: SmallVec<[Input<'_>; 8]> = operands
            .map(|((operand, from), dtype)| Input::new(bytes(*from), &operand.layout, *dtype))
            .collect();
        let (mut writes, mut own_parts) = (writes.into_iter(), own.iter_mut());
        let mut outputs: SmallVec<[Output<'_>; 4]> = SmallVec::new();
        for ((to, spec), old) in self.outputs.iter().zip(&self.specs).zip(&self.old) {
            let memory = match to {
                To::Made(_) => own_parts.next().map(Storage::as_mut_slice),
                To::Arena(_) => writes.next(),
            };
            let output = Output::new(memory.unwrap_or_default(), &spec.shape, spec.dtype);
            // What is replaced in its own memory is there already.
            let in_place = |k: &usize| match (self.inputs[*k], to) {
                (From::Argument(a), To::Made(to)) => {
                    matches!(&arguments[a], Argument::Given(k) if k == to)
                }
                _ => false,
            };
            outputs.push(match old.filter(|k| !in_place(k)) {
                Some(k) => {
                    let layout = &self.call.inputs[k].layout;
                    let (start, size) = (layout.offset * spec.dtype.size(), spec.bytes());
                    output.instead_of(&bytes(self.inputs[k])[start..start + size])
                }
                None => output,
            });
        }
        let op = self.call.op;
        let done = self.call.kernel.run(Call { op, inputs: &inputs, outputs: &mut outputs });
        drop(outputs);
        drop(inputs);
        let mut own = own.into_iter();
        for to in &self.outputs {
            if let To::Made(k) = to
                && let Some(storage) = own.next()
            {
                made[*k] = storage;
            }
        }
        done
    }
}
