//! Writing down which kernels are called, instead of calling them.
//!
//! It must not know what operations or derivatives are: those run as they always do, on tensors that
//! have a shape and no numbers yet.

use crate::exec::Kernel;
use crate::ops::operation::{Outputs, Spec, Specs};
use crate::tensor::Layout;
use crate::{Error, Result, Tensor};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A program that is being written.
pub(crate) struct Recording {
    /// No other has the same; from 1 on.
    number: u64,
    tape: Mutex<Tape>,
}

/// Those that there are, for [`Key`](crate::Key)s, which know only a number.
static RECORDINGS: Mutex<Vec<Weak<Recording>>> = Mutex::new(Vec::new());

/// What has been written so far.
#[derive(Default)]
pub(crate) struct Tape {
    /// What each value will be; the arguments come first.
    pub values: Vec<Spec>,
    /// The kernels, in the order of their calls.
    pub calls: Vec<Recorded>,
    /// Tensors that are no arguments.
    pub constants: Vec<Tensor>,
    /// Whether nothing more can be written.
    closed: bool,
    /// Whether a value of another recording was to be read.
    foreign: bool,
}

/// A kernel's call.
#[derive(Clone)]
pub(crate) struct Recorded {
    /// Whose errors it gives.
    pub op: &'static str,
    pub kernel: Arc<dyn Kernel>,
    pub inputs: Vec<Operand>,
    /// How many of the inputs, at the end, are replaced by the outputs.
    pub replaced: usize,
    /// The numbers of the values it computes.
    pub outputs: Vec<usize>,
}

/// An array that a kernel reads.
#[derive(Clone)]
pub(crate) struct Operand {
    pub source: Source,
    pub layout: Layout,
}

/// Whose memory an array lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Value(usize),
    Constant(usize),
}

/// What a tensor without numbers is: a value of a program.
#[derive(Clone)]
pub(crate) struct Symbolic {
    pub recording: Arc<Recording>,
    pub value: usize,
}

impl Recording {
    pub fn new() -> Arc<Recording> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let recording = Arc::new(Recording { number, tape: Mutex::default() });
        let mut all = RECORDINGS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&recording));
        recording
    }

    /// The one with this number, if it is still there.
    pub fn of_number(number: u64) -> Option<Arc<Recording>> {
        let all = RECORDINGS.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).find(|recording| recording.number == number)
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        // What panicked while it wrote has written whole calls only.
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new argument.
    pub fn argument(self: &Arc<Self>, spec: Spec) -> Tensor {
        let mut tape = self.tape();
        let value = tape.values.len();
        tape.values.push(spec.clone());
        self.tensor(value, spec)
    }

    /// The value with this number, as a tensor.
    pub fn tensor(self: &Arc<Self>, value: usize, Spec { shape, dtype }: Spec) -> Tensor {
        Tensor::symbolic(Symbolic { recording: self.clone(), value }, shape, dtype)
    }

    /// Whether a value of another recording was to be read.
    pub fn is_nested(&self) -> bool {
        self.tape().foreign
    }

    /// Ends the recording: nothing more can be written.
    pub fn finish(&self) -> Tape {
        let mut tape = self.tape();
        std::mem::replace(&mut *tape, Tape { closed: true, ..Tape::default() })
    }

    /// Writes a call down.
    pub fn call(
        self: &Arc<Self>,
        op: &'static str,
        kernel: &dyn Kernel,
        inputs: &[&Tensor],
        replaced: usize,
        specs: Specs,
    ) -> Result<Outputs> {
        let mut tape = self.tape();
        if tape.closed {
            return Err(Error::recorded(op));
        }
        let mut operands = Vec::with_capacity(inputs.len());
        for x in inputs {
            operands.push(self.operand(op, &mut tape, x)?);
        }
        let first = tape.values.len();
        tape.values.extend(specs.iter().cloned());
        tape.calls.push(Recorded {
            op,
            kernel: kernel.keep(),
            inputs: operands,
            replaced,
            outputs: (first..first + specs.len()).collect(),
        });
        drop(tape);
        let values = specs.into_iter().enumerate();
        Ok(values.map(|(k, spec)| self.tensor(first + k, spec)).collect())
    }

    /// Where a tensor lies, as the program sees it.
    pub fn operand(&self, op: &'static str, tape: &mut Tape, x: &Tensor) -> Result<Operand> {
        let source = match x.symbol() {
            Some(symbol) if std::ptr::eq(Arc::as_ptr(&symbol.recording), self) => {
                Source::Value(symbol.value)
            }
            Some(_) => {
                tape.foreign = true;
                return Err(Error::recorded(op));
            }
            None => {
                let known = tape.constants.iter().position(|c| c.shares_memory_with(x));
                Source::Constant(known.unwrap_or_else(|| {
                    tape.constants.push(x.whole());
                    tape.constants.len() - 1
                }))
            }
        };
        Ok(Operand { source, layout: x.layout().clone() })
    }

    /// Where the results lie, as the program sees them.
    pub fn results(&self, results: &[&Tensor]) -> Result<Vec<Operand>> {
        let mut tape = self.tape();
        results.iter().map(|x| self.operand("compile", &mut tape, x)).collect()
    }
}
