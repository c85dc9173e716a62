//! Functions recorded once and then only run.
//!
//! What a function does to its tensors, derivatives and steps of optimisers included, is recorded at its
//! first call for arguments of some shapes and dtypes: kernel after kernel. Later calls run these in
//! memory that was planned before, and give the bits that the function itself gives. This module must
//! not know operations or derivatives.

mod again;
mod explain;
mod fuse;
mod graph;
mod plan;
mod record;
mod run;
mod signature;

use plan::Program;
pub(crate) use record::{Recording, Symbolic};
use run::{Argument, Arguments};
use signature::Signature;

use crate::autodiff::{Path, leaves, map};
use crate::ops::operation::Spec;
use crate::{Error, Result, Tensor, Tree};
use extensor_kernels::arena::Arena;
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A function that is recorded at its first call for arguments of some structure, shapes and dtypes, and
/// then only run: the same results, bit for bit, in memory that was planned before.
///
/// Recorded are kernels, whatever called them: derivatives of any order, layers, steps of optimisers. What
/// the function does on the host is done once. A number that it reads of a tensor is an error
/// ([`Error::Recorded`]), since it would be that of the first call, and so is a
/// shape that depends on numbers. A tensor or a [`Key`](crate::Key) that it has from elsewhere than its
/// argument stays what it was then.
///
/// What is in the argument is taken anew at each call: tensors, keys, and what an optimiser's
/// [state](crate::optim::State) counts. Other numbers and texts among its fields belong to what the
/// function is recorded for: it is recorded again where they differ. Fields marked `#[tree(static)]`
/// that are no numbers must stay as they are.
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
///
/// A whole step of training, with a key for dropout:
///
/// ```
/// use extensor::compile::compile;
/// use extensor::nn::{Mode, Sequential};
/// use extensor::optim::{AdamW, Optimizer, State};
/// use extensor::prelude::*;
/// let [a, b, key] = Key::new(1).split();
/// let model = Sequential::builder(a).linear(4, 8).tanh().dropout(0.1).linear(8, 3).build()?;
/// let (x, labels) = (b.normal([5, 4], DType::F32)?, tensor([0i64, 1, 2, 1, 0]));
/// let optimizer = AdamW::new(0.01);
/// type Run = (Sequential, State<Sequential>);
/// let step = compile(|((model, state), batch, key): &(Run, (Tensor, Tensor), Key)| {
///     let loss = |model: &Sequential| {
///         let logits = model.forward(&batch.0, &Mode::Training(*key))?.logits;
///         logits.cross_entropy(&batch.1, Reduce::Mean)
///     };
///     let (loss, grads) = value_and_grad(loss, model)?;
///     Ok((optimizer.update(model.clone(), &grads, state.clone())?, loss))
/// });
/// let mut run = (model.clone(), optimizer.init(&model)?);
/// let mut loss = tensor(0f32);
/// for k in 0..50 {
///     let batch = (x.clone(), labels.clone());
///     (run, loss) = step.call_owned((run, batch, key.fold_in(k)))?;
/// }
/// assert_eq!((run.1.step, step.recordings()), (50, 1));
/// assert!(loss.item::<f32>()? < 1.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[track_caller]
pub fn compile<A, B, F>(f: F) -> Compiled<A, B, F>
where
    A: Tree,
    B: Tree,
    F: Fn(&A) -> Result<B>,
{
    Compiled {
        f,
        known: Mutex::default(),
        limit: KEPT,
        recordings: AtomicUsize::new(0),
        warn: Box::new(|text| eprintln!("{text}")),
        at: Location::caller(),
        of: PhantomData,
    }
}

/// How many programs are kept unless told otherwise.
const KEPT: usize = 16;

/// More recordings than this are worth a word: each takes longer than many calls.
const MANY: usize = 8;

/// What [`compile`] returns.
pub struct Compiled<A, B, F> {
    f: F,
    /// The last one used is the last.
    known: Mutex<Vec<Arc<Entry<B>>>>,
    limit: usize,
    recordings: AtomicUsize,
    warn: Box<dyn Fn(&str) + Send + Sync>,
    /// Where it was made.
    at: &'static Location<'static>,
    of: PhantomData<fn(A) -> B>,
}

/// The program for arguments that look alike.
struct Entry<B> {
    signature: Signature,
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
    /// With so many programs kept, each for other shapes (16 unless told otherwise; at least 1): the one
    /// not used for longest goes first.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Compiled { limit: limit.max(1), ..self }
    }

    /// With warnings given to `warn` instead of being written to the standard error: that the function is
    /// recorded again and again, say.
    #[must_use]
    pub fn warn_with(self, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Compiled { warn: Box::new(warn), ..self }
    }

    /// What the function gives for the argument.
    ///
    /// A call with tensors that are being differentiated or recorded themselves is a call of the
    /// function. Threads may call at the same time.
    pub fn call(&self, argument: &A) -> Result<B> {
        let given = leaves(argument);
        let numbers = numbers(argument);
        if given.iter().copied().chain(&numbers).any(|x| x.is_traced() || x.is_recorded()) {
            return (self.f)(argument);
        }
        match self.entry(argument, &given, &numbers)? {
            Some(entry) => entry.run(lent(&given, &numbers)?, None),
            None => (self.f)(argument),
        }
    }

    /// The same for an argument that nobody needs any more: what replaces a tensor of it (a parameter
    /// after an optimiser's step) is written to that tensor's own memory, where nobody else sees it.
    pub fn call_owned(&self, mut argument: A) -> Result<B> {
        let given = leaves(&argument);
        let numbers = numbers(&argument);
        if given.iter().copied().chain(&numbers).any(|x| x.is_traced() || x.is_recorded()) {
            return (self.f)(&argument);
        }
        let Some(entry) = self.entry(&argument, &given, &numbers)? else {
            return (self.f)(&argument);
        };
        let mut arguments = Arguments::new();
        let nothing = Tensor::none();
        argument.visit_mut(&Path::ROOT, &mut |_, x| {
            let x = std::mem::replace(x, nothing.clone());
            arguments.push(Argument::Own(if x.is_contiguous() { x } else { x.contiguous()? }));
            Ok(())
        })?;
        drop(argument);
        arguments.extend(numbers.into_iter().map(Argument::Own));
        entry.run(arguments, None)
    }

    /// How many times the function has been recorded.
    pub fn recordings(&self) -> usize {
        self.recordings.load(Ordering::Relaxed)
    }

    /// How many programs there are now.
    pub fn programs(&self) -> usize {
        self.known().len()
    }

    /// How many bytes of memory its programs keep for their next run.
    pub fn memory(&self) -> usize {
        self.known().iter().map(|entry| entry.program.arena).sum()
    }

    /// Forgets all programs and gives their memory back.
    pub fn clear(&self) {
        self.known().clear();
    }

    /// What has been recorded: for each kind of argument the kernels, their formulas, what they read
    /// and write, and how much memory they need.
    ///
    /// ```
    /// use extensor::compile::compile;
    /// use extensor::prelude::*;
    /// let f = compile(|x: &Tensor| x.tanh()?.matmul(x));
    /// f.call(&tensor([[1.0, 2.0], [3.0, 4.0]]))?;
    /// assert!(f.explain().contains("tanh(a)"), "{}", f.explain());
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn explain(&self) -> String {
        self.known().iter().map(|entry| entry.program.to_string()).collect::<Vec<_>>().join("\n")
    }

    /// What [`explain`](Compiled::explain) says of the program for this argument, the kernels that take
    /// longest first, each with the least time that it took in so many runs.
    ///
    /// ```
    /// use extensor::compile::compile;
    /// use extensor::prelude::*;
    /// let f = compile(|x: &Tensor| x.matmul(x)?.tanh()?.matmul(x));
    /// let text = f.profile(&Tensor::ones([64, 64], DType::F32)?, 10)?;
    /// assert!(text.contains(" µs ") && text.contains("tanh(a)"), "{text}");
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn profile(&self, argument: &A, runs: usize) -> Result<String> {
        let (given, numbers) = (leaves(argument), numbers(argument));
        given.iter().copied().chain(&numbers).try_for_each(|x| x.plain("profile").map(drop))?;
        let Some(entry) = self.entry(argument, &given, &numbers)? else {
            return Err(Error::Traced { op: "profile" });
        };
        let mut took = vec![Duration::MAX; entry.program.steps.len()];
        for _ in 0..runs.max(1) {
            entry.run(lent(&given, &numbers)?, Some(&mut took))?;
        }
        Ok(entry.program.profile(&took))
    }

    /// The program that was used last, drawn: an SVG with a box for each kernel and a line for each value
    /// that goes from one to another. Empty if nothing has been recorded.
    pub fn graph(&self) -> String {
        self.known().last().map_or(String::new(), |entry| graph::svg(&entry.program))
    }

    fn known(&self) -> MutexGuard<'_, Vec<Arc<Entry<B>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program for such an argument, recorded if there is none; `None` if the function has a tensor
    /// from elsewhere that is being differentiated, or recorded by somebody else.
    fn entry(
        &self,
        argument: &A,
        given: &[&Tensor],
        numbers: &[Tensor],
    ) -> Result<Option<Arc<Entry<B>>>> {
        let mut known = self.known();
        if let Some(at) = known.iter().rposition(|entry| entry.signature.is_of(argument, numbers)) {
            if at + 1 < known.len() {
                let entry = known.remove(at);
                known.push(entry);
            }
            return Ok(Some(known[known.len() - 1].clone()));
        }
        drop(known);
        let Some(entry) = self.record(argument, given, numbers)?.map(Arc::new) else {
            return Ok(None);
        };
        let recordings = self.recordings.fetch_add(1, Ordering::Relaxed) + 1;
        let mut known = self.known();
        if recordings == MANY + 1 {
            let last = known.last().map(|last| entry.signature.difference(&last.signature));
            (self.warn)(&format!(
                "compile: the function made at {} has been recorded {recordings} times, each time for \
                 other arguments{}; every recording takes as long as many calls",
                self.at,
                last.flatten().map_or(String::new(), |text| format!(" (lately {text})")),
            ));
        }
        if known.len() >= self.limit {
            known.remove(0);
        }
        known.push(entry.clone());
        Ok(Some(entry))
    }

    fn record(
        &self,
        argument: &A,
        given: &[&Tensor],
        numbers: &[Tensor],
    ) -> Result<Option<Entry<B>>> {
        let signature = Signature::new(argument, numbers);
        let recording = Recording::new();
        let new =
            |x: &Tensor| recording.argument(Spec { shape: x.shape().clone(), dtype: x.dtype() });
        let mut symbolic = map(argument, |x| Ok(new(x)))?;
        let mut each = numbers.iter().map(new);
        symbolic.set_numbers(&mut || Ok(each.next().unwrap_or_else(Tensor::none)))?;
        let shell = match (self.f)(&symbolic) {
            // It has a tensor from elsewhere that somebody else records.
            Err(Error::Recorded { .. }) if recording.is_nested() => return Ok(None),
            shell => shell?,
        };
        let counted = self::numbers(&shell);
        let results: Vec<&Tensor> = leaves(&shell).into_iter().chain(&counted).collect();
        // Somebody differentiates by a tensor that is no argument: no gradient would follow a program.
        if results.iter().any(|x| x.is_traced()) {
            return Ok(None);
        }
        let results = recording.results(&results)?;
        let program = Program::new(recording.finish(), given.len() + numbers.len(), results);
        Ok(Some(Entry { signature, program, shell, arena: Mutex::default() }))
    }
}

impl<B: Tree> Entry<B> {
    /// The results for these arguments; how long each kernel took, if that is asked for.
    fn run(&self, arguments: Arguments<'_>, took: Option<&mut [Duration]>) -> Result<B> {
        let results = match self.arena.try_lock() {
            Ok(mut arena) => self.run_in(arguments, &mut arena, took)?,
            Err(TryLockError::Poisoned(arena)) => {
                self.run_in(arguments, &mut arena.into_inner(), took)?
            }
            // Another thread runs it: memory of our own.
            Err(TryLockError::WouldBlock) => self.run_in(arguments, &mut None, took)?,
        };
        let mut results = results.into_iter();
        let mut next = || results.next().unwrap_or_else(|| unreachable!("a result for each leaf"));
        let mut made = map(&self.shell, |_| Ok(next()))?;
        made.set_numbers(&mut || Ok(next()))?;
        Ok(made)
    }

    fn run_in(
        &self,
        arguments: Arguments<'_>,
        arena: &mut Option<Arena>,
        took: Option<&mut [Duration]>,
    ) -> Result<SmallVec<[Tensor; 8]>> {
        let arena = match arena {
            Some(arena) => arena,
            none => none.insert(self.program.memory()?),
        };
        self.program.run(arguments, arena, took)
    }
}

/// Arguments that stay the caller's.
fn lent<'a>(given: &[&'a Tensor], numbers: &[Tensor]) -> Result<Arguments<'a>> {
    let mut arguments = Arguments::new();
    for x in given {
        arguments.push(match x.is_contiguous() {
            true => Argument::Lent(x),
            false => Argument::Own(x.contiguous()?),
        });
    }
    arguments.extend(numbers.iter().map(|x| Argument::Own(x.clone())));
    Ok(arguments)
}

/// The numbers of a tree that are no tensors.
fn numbers<T: Tree>(tree: &T) -> SmallVec<[Tensor; 2]> {
    let mut found = SmallVec::new();
    tree.numbers(&mut |x| found.push(x));
    found
}
