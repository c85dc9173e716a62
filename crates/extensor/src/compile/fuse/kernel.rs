//! One kernel for the calls of a cluster.

use super::Known;
use super::cluster::Cluster;
use super::part::{is_same, number};
use crate::DType;
use crate::compile::record::{Operand, Recorded, Source};
use crate::exec::Kernel;
use crate::exec::fused::FusedMap;
use extensor_kernels::fused::fold::Fold;
use extensor_kernels::program::{Bundle, Instruction, Narrow};
use extensor_kernels::symbol::Symbol;
use std::collections::HashMap;
use std::sync::Arc;

/// The kernel; `wanted`: what is read outside of it.
pub(super) fn fuse(known: &Known<'_>, cluster: &Cluster, wanted: &[bool]) -> Recorded {
    let Some(of) = &cluster.of else { unreachable!("a cluster of several calls is one of maps") };
    let (mut outputs, mut folds) = (Vec::new(), Vec::new());
    let bundle = Bundle::record(of.reads.len(), |variables| {
        let mut made: HashMap<usize, Symbol> = HashMap::new();
        let mut results = Vec::new();
        for &at in &cluster.members {
            let (call, Some(part)) = (&known.calls[at], &known.parts[at]) else { continue };
            let argument = |operand: &Operand| {
                if let Some(value) = number(operand, known.constants) {
                    return Symbol::repeat(&Instruction::Constant(value), &[]);
                }
                let own = match operand.source {
                    Source::Value(v) => made.get(&v).copied(),
                    Source::Constant(_) => None,
                };
                own.or_else(|| {
                    let at = of.reads.iter().position(|x| is_same(x, operand))?;
                    Some(variables[at])
                })
                .unwrap_or_else(|| unreachable!("an operand is made here or read"))
            };
            let arguments: Vec<Symbol> = call.inputs.iter().map(argument).collect();
            let mut steps: Vec<Symbol> = Vec::with_capacity(part.program.instructions.len());
            for instruction in &part.program.instructions {
                steps.push(match *instruction {
                    Instruction::Variable(k) => arguments[k],
                    _ => Symbol::repeat(instruction, &steps),
                });
            }
            let (value, result) = (call.outputs[0], steps[part.program.result]);
            if let Some((fold, _)) = part.fold {
                outputs.push(value);
                results.push(result);
                folds.push(fold);
                continue;
            }
            let result = match known.values[value].dtype {
                DType::F16 => result.round_to(Narrow::F16),
                DType::BF16 => result.round_to(Narrow::BF16),
                _ => result,
            };
            made.insert(value, result);
            if wanted[value] {
                outputs.push(value);
                results.push(result);
                folds.push(Fold::Each);
            }
        }
        results
    });
    let last = &known.calls[cluster.members[cluster.members.len() - 1]];
    let folds = of.groups.map(|groups| (folds, groups));
    let kernel: Arc<dyn Kernel> = Arc::new(FusedMap::new(bundle, of.double == Some(true), folds));
    Recorded { op: last.op, kernel, inputs: of.reads.clone(), replaced: 0, outputs }
}
