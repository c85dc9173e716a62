//! Several formulas of the same arrays in one pass: what a compiler makes of maps that follow each other.

use super::{Call, Input, Kernel, Kind, Output};
use crate::{DType, Result};
use extensor_kernels::fused::fold::{Fold, Groups};
use extensor_kernels::fused::{Fused, Sink, Source};
use extensor_kernels::program::Bundle;
use smallvec::SmallVec;
use std::sync::Arc;

/// The formulas' steps, computed in `f64` or, if not `double`, in `f32`. All arrays have as many elements,
/// and their row-major order is the same; an output for each result.
#[derive(Clone, Debug)]
pub(crate) struct FusedMap {
    pub bundle: Arc<Bundle>,
    /// What becomes of each result, if some are folded, and which of their numbers belong together.
    pub folds: Option<(Vec<Fold>, Groups)>,
    ready: Arc<Ready>,
}

#[derive(Debug)]
enum Ready {
    Single(Fused<f32>),
    Double(Fused<f64>),
}

impl FusedMap {
    pub fn new(bundle: Bundle, double: bool, folds: Option<(Vec<Fold>, Groups)>) -> FusedMap {
        let ready = Arc::new(match double {
            true => Ready::Double(Fused::new(&bundle)),
            false => Ready::Single(Fused::new(&bundle)),
        });
        FusedMap { bundle: Arc::new(bundle), folds, ready }
    }
}

impl Kernel for FusedMap {
    fn run(&self, call: Call<'_, '_>) -> Result<()> {
        let sources: SmallVec<[Source<'_>; 8]> = call.inputs.iter().filter_map(source).collect();
        if sources.len() < call.inputs.len() {
            return call.wrong("x", "a float type or bool", call.inputs[0].dtype());
        }
        let mut sinks: SmallVec<[Sink<'_>; 4]> = call.outputs.iter_mut().filter_map(sink).collect();
        match (&*self.ready, &self.folds) {
            (Ready::Single(fused), None) => fused.run(&sources, &mut sinks),
            (Ready::Double(fused), None) => fused.run(&sources, &mut sinks),
            (Ready::Single(fused), Some((folds, groups))) => {
                fused.run_folded(&sources, &mut sinks, folds, groups)
            }
            (Ready::Double(fused), Some((folds, groups))) => {
                fused.run_folded(&sources, &mut sinks, folds, groups)
            }
        }
        Ok(())
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Fused(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }
}

fn source<'a>(x: &Input<'a>) -> Option<Source<'a>> {
    Some(match x.dtype() {
        DType::F16 => Source::F16(x.view()),
        DType::BF16 => Source::BF16(x.view()),
        DType::F32 => Source::F32(x.view()),
        DType::F64 => Source::F64(x.view()),
        DType::Bool => Source::Mask(x.view()),
        _ => return None,
    })
}

fn sink<'a>(x: &'a mut Output<'_>) -> Option<Sink<'a>> {
    Some(match x.dtype() {
        DType::F16 => Sink::F16(x.all()),
        DType::BF16 => Sink::BF16(x.all()),
        DType::F32 => Sink::F32(x.all()),
        DType::F64 => Sink::F64(x.all()),
        DType::Bool => Sink::Mask(x.all()),
        _ => return None,
    })
}
