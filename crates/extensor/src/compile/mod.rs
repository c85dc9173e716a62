//! Functions recorded once and then only run.
//!
//! What a function does to its tensors, derivatives and steps of optimisers included, is recorded at its
//! first call for arguments of some shapes and dtypes: kernel after kernel. Later calls run these in
//! memory that was planned before, and give the bits that the function itself gives. This module must
//! not know operations or derivatives.

mod explain;
mod fuse;
mod plan;
mod record;
mod run;

use plan::Program;
pub(crate) use record::{Recording, Symbolic};

use crate::autodiff::{Item, Path, leaves, map};
use crate::ops::operation::Spec;
use crate::{Result, Tensor, Tree};
use extensor_kernels::arena::Arena;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// A function that is recorded at its first call for arguments of some structure, shapes and dtypes, and
/// then only run: the same results, bit for bit, in memory that was planned before.
///
/// Recorded are kernels, whatever called them: derivatives of any order, layers, operations. What the
/// function does on the host is done once: a number that it reads of a tensor is an error
/// ([`Error::Recorded`](crate::Error::Recorded)), since it would be that of the first call; a tensor or a
/// [`Key`](crate::Key) that it has from elsewhere than its argument stays what it was then. Numbers among
/// the argument's fields belong to what it is recorded for, as do the steps that an optimiser's state has
/// made. Other fields that are no tensors, marked `#[tree(static)]`, must stay as they are.
///
/// The 16 programs last used are kept.
///
/// ```
/// use extensor::compile::compile;
/// use extensor::prelude::*;
/// let f = |x: &Tensor| x.tanh()?.multiply(x)?.sum(..);
/// let slope = compile(|x: &Tensor| grad(f, x));
/// for x in [tensor([0.5, -1.0, 2.0]), tensor([3.0, 0.0, -0.0])] {
///     assert_eq!(slope.call(&x)?.to_vec::<f64>()?, grad(f, &x)?.to_vec::<f64>()?);
/// }
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn compile<A, B, F>(f: F) -> Compiled<A, B, F>
where
    A: Tree,
    B: Tree,
    F: Fn(&A) -> Result<B>,
{
    Compiled { f, known: Mutex::default(), of: PhantomData }
}

/// How many programs are kept, each for other shapes: the one not used for longest goes.
const KEPT: usize = 16;

/// What [`compile`] returns.
pub struct Compiled<A, B, F> {
    f: F,
    known: Mutex<Vec<Arc<Entry<B>>>>,
    of: PhantomData<fn(A) -> B>,
}

/// The program for arguments that look alike.
struct Entry<B> {
    signature: Vec<String>,
    specs: Vec<Spec>,
    program: Program,
    /// The results, without numbers.
    shell: B,
    arena: Mutex<Option<Arena>>,
}

impl<A, B, F> Compiled<A, B, F>
where
    A: Tree,
    B: Tree,
    F: Fn(&A) -> Result<B>,
{
    /// What the function gives for the argument.
    ///
    /// A call with tensors that are being differentiated or recorded themselves is a call of the
    /// function.
    pub fn call(&self, argument: &A) -> Result<B> {
        let given = leaves(argument);
        if given.iter().any(|x| x.is_traced() || x.symbol().is_some()) {
            return (self.f)(argument);
        }
        let entry = self.entry(argument, &given)?;
        let arguments: Vec<Tensor> = given.iter().map(|x| x.contiguous()).collect::<Result<_>>()?;
        let results = match entry.arena.try_lock() {
            Ok(mut arena) => entry.run(&arguments, &mut arena)?,
            Err(TryLockError::Poisoned(arena)) => entry.run(&arguments, &mut arena.into_inner())?,
            // Another thread runs it: memory of our own.
            Err(TryLockError::WouldBlock) => entry.run(&arguments, &mut None)?,
        };
        let mut results = results.into_iter();
        map(&entry.shell, |x| Ok(results.next().unwrap_or_else(|| x.clone())))
    }

    /// What has been recorded: for each kind of argument the kernels, their formulas, what they read
    /// and write, and how much memory they need.
    ///
    /// ```
    /// use extensor::compile::compile;
    /// use extensor::prelude::*;
    /// let f = compile(|x: &Tensor| x.tanh()?.sum(..));
    /// f.call(&tensor([1.0, 2.0]))?;
    /// let text = f.explain();
    /// assert!(text.contains("tanh (argument 0 f64[2]) → (@0 f64[2]): tanh(a)"), "{text}");
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn explain(&self) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|entry| entry.program.to_string()).collect::<Vec<_>>().join("\n")
    }

    /// The program for such an argument, recorded if there is none.
    fn entry(&self, argument: &A, given: &[&Tensor]) -> Result<Arc<Entry<B>>> {
        let signature = signature(argument);
        let fits = |entry: &&Arc<Entry<B>>| {
            let same =
                |(spec, x): (&Spec, &&Tensor)| spec.shape == *x.shape() && spec.dtype == x.dtype();
            entry.specs.len() == given.len()
                && entry.specs.iter().zip(given).all(same)
                && entry.signature == signature
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.iter().position(|entry| fits(&entry)) {
            // The last one used is the last to go.
            if at + 1 < known.len() {
                let entry = known.remove(at);
                known.push(entry);
            }
            return Ok(known[known.len() - 1].clone());
        }
        drop(known);
        let entry = Arc::new(self.record(argument, given, signature)?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push(entry.clone());
        Ok(entry)
    }

    fn record(&self, argument: &A, given: &[&Tensor], signature: Vec<String>) -> Result<Entry<B>> {
        let recording = Recording::new();
        let specs: Vec<Spec> =
            given.iter().map(|x| Spec { shape: x.shape().clone(), dtype: x.dtype() }).collect();
        let symbolic = map(argument, |x| {
            Ok(recording.argument(Spec { shape: x.shape().clone(), dtype: x.dtype() }))
        })?;
        let shell = (self.f)(&symbolic)?;
        let results = recording.results(&leaves(&shell))?;
        let program = Program::new(recording.finish(), specs.len(), results);
        Ok(Entry { signature, specs, program, shell, arena: Mutex::default() })
    }
}

impl<B> Entry<B> {
    fn run(&self, arguments: &[Tensor], arena: &mut Option<Arena>) -> Result<Vec<Tensor>> {
        let arena = match arena {
            Some(arena) => arena,
            none => none.insert(self.program.memory()?),
        };
        self.program.run(arguments, arena)
    }
}

/// All that a tree is made of beside its tensors.
fn signature<T: Tree>(tree: &T) -> Vec<String> {
    let mut parts = Vec::new();
    tree.describe(&Path::ROOT, &mut |path, item| match item {
        Item::Node(name) => parts.push(name.to_string()),
        Item::Setting(text) => parts.push(format!("{path}={text}")),
        Item::Leaf(_) => {}
    });
    parts
}
