//! Formulas of traced tensors: one operation, whose derivative is a formula too.

use crate::exec::launch_one;
use crate::exec::map::Interpreted;
use crate::ops::calculus::derivative;
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, spec, sum_dtype};
use crate::ops::pointwise::fitted;
use crate::ops::record::{Class, Input, Needs, Record};
use crate::tensor::broadcast;
use crate::{DType, Result, Tensor, ops};
use extensor_kernels::number::Number;
use extensor_kernels::program::{Instruction, Program};
use extensor_kernels::symbol::Symbol;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// What a formula gives on tensors, of which some may be traced: the result can be differentiated
/// any number of times.
pub(crate) fn formula(program: Program, inputs: &[&Tensor], spec: Spec) -> Result<Tensor> {
    let read = variables(&program);
    let constant = inputs[0].primal();
    let constant = [&*constant];
    let (program, inputs) = match read.len() {
        0 => (reading(&program, &[0]), SmallVec::<[&Tensor; 4]>::from_slice(&constant)),
        n if n == inputs.len() => (program, inputs.iter().copied().collect()),
        _ => (reading(&program, &read), read.iter().map(|&k| inputs[k]).collect()),
    };
    let op = Mapped { program: Arc::new(program), dtype: spec.dtype };
    ops::broadcast_to(&apply_one(&op, &inputs)?, &spec.shape)
}

/// The variables that a program's result or its derivatives depend on. The others must not be
/// inputs: what depends on them would seem to be differentiable by them, over and over again.
fn variables(program: &Program) -> Vec<usize> {
    let mut reached = vec![false; program.instructions.len()];
    reached[program.result] = true;
    let mut read = Vec::new();
    for (at, instruction) in
        program.instructions.iter().enumerate().rev().filter(|(at, _)| *at <= program.result)
    {
        if !reached[at] {
            continue;
        }
        match *instruction {
            Instruction::Variable(k) => read.push(k),
            Instruction::Like(_, smooth) => reached[smooth] = true,
            _ => {}
        }
        instruction.operands().for_each(|operand| reached[operand] = true);
    }
    read.sort_unstable();
    read.dedup();
    read
}

/// The program as one of these variables alone.
fn reading(program: &Program, kept: &[usize]) -> Program {
    Program::record(kept.len(), |variables| {
        let mut values: Vec<Symbol> = Vec::with_capacity(program.instructions.len());
        for instruction in &program.instructions {
            values.push(match *instruction {
                Instruction::Variable(k) => match kept.iter().position(|&kept| kept == k) {
                    Some(at) => variables[at],
                    None => variables[0].lit(0.0),
                },
                _ => Symbol::repeat(instruction, &values),
            });
        }
        values[program.result]
    })
}

/// A formula as an operation of tensors that broadcast.
#[derive(Clone, Debug)]
struct Mapped {
    program: Arc<Program>,
    /// The dtype of the result; reduced precisions are computed in `f32` and rounded once.
    dtype: DType,
}

static MAPPED: Record = Record {
    name: "formula",
    formula: "y = the formula of a derivative",
    derivative: "the formula of that formula's derivative",
    inputs: &[Input::many("x")],
    class: Class::Elementwise,
    needs: Needs::Inputs,
    ..Record::BLANK
};

impl Operation for Mapped {
    fn record(&self) -> &'static Record {
        &MAPPED
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let mut shape = inputs[0].shape().clone();
        for x in &inputs[1..] {
            shape = broadcast(MAPPED.name, &shape, x.shape())?;
        }
        Ok(spec(shape, self.dtype))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let (op, spec) = (MAPPED.name, specs.swap_remove(0));
        let mut fitting: SmallVec<[Tensor; 4]> = SmallVec::new();
        for x in inputs {
            fitting.push(fitted(op, x, &spec)?);
        }
        let fitting: SmallVec<[&Tensor; 4]> = fitting.iter().collect();
        let kernel = Interpreted { program: Arc::clone(&self.program) };
        Ok(smallvec![launch_one(op, &kernel, &fitting, spec)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let h = call.grad();
        let mut all: SmallVec<[&Tensor; 4]> = smallvec![h];
        all.extend_from_slice(call.inputs);
        let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
        for (by, grad) in grads.iter_mut().enumerate().filter(|(by, _)| call.wanted[*by]) {
            let dtype = sum_dtype(h.dtype(), h.shape(), call.inputs[by].shape());
            let spec = Spec { shape: h.shape().clone(), dtype };
            *grad = Some(formula(derivative(&self.program, by), &all, spec)?);
        }
        Ok(grads)
    }
}
