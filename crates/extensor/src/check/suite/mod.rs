//! What must hold for every operation, tried on every operation.
//!
//! For each operation × sample × dtype × arrangement in memory: it runs, gives the same bits again
//! and in every arrangement, its gradient agrees with differences, projections, the Taylor remainder
//! and the adjoint identity, and its second derivatives with differences of the first. Values, both
//! modes, and second derivatives both ways, by all inputs together and by each alone, are in every
//! dtype what `f64` gives on the same inputs, to a few units of that dtype. Samples of whole numbers,
//! zeros and numbers that come twice are made from the record's own. What the record calls a kink is
//! one, and gradients there are finite; a gradient of zeros gives zeros, and one of NaN NaN. Values
//! that the record says are not needed are not read, the same tensor may be both operands, and
//! everything wrong is refused with an error that says what was expected.

mod call;
pub mod compiled;
mod derive;
mod gradients;
mod modes;
mod precision;
mod refusals;
mod second;
mod special;
mod values;

use super::ErrorAtStep;
use crate::ops::Operation;
use crate::ops::catalogue::CATALOGUE;
use crate::ops::params::Params;
use crate::ops::record::{Family, Record};
use crate::ops::samples::{Sample, Sampler};
use crate::{DType, Error, Key, Result};
use extensor_kernels::par::{threads, with_threads};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// What to check.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of an operation, or a pattern with `*` and `?`.
    pub filter: String,
    /// The float dtypes to check.
    pub dtypes: Vec<DType>,
    /// Where samples and cotangents come from.
    pub seed: u64,
    /// How many times to differentiate: 1 or 2.
    pub order: u8,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { filter: "*".into(), dtypes: DType::FLOATS.to_vec(), seed: 0, order: 2 }
    }
}

impl Plan {
    /// The operations that the filter names. It is an error if there are none, or if the plan would
    /// check nothing.
    pub fn records(&self) -> Result<Vec<&'static Record>> {
        let fail = |reason: String| Err(Error::Check { op: "check".into(), reason });
        if !matches!(self.order, 1 | 2) {
            return fail(format!("order {} is not available; 1 and 2 are", self.order));
        }
        if self.dtypes.is_empty() {
            return fail("no dtype was chosen".into());
        }
        if let Some(dtype) = self.dtypes.iter().find(|d| !d.is_float()) {
            return fail(format!(
                "dtype {dtype} has no derivatives; choose among f16, bf16, f32, f64"
            ));
        }
        let all = CATALOGUE.iter().copied();
        let found: Vec<_> = all.filter(|r| matches(&self.filter, r.name)).collect();
        if found.is_empty() {
            let name = self.filter.clone();
            return Err(Error::UnknownOperation { name });
        }
        Ok(found)
    }
}

/// Whether a name fits a pattern in which `*` stands for anything and `?` for one character.
///
/// ```
/// use extensor::check::suite::matches;
/// assert!(matches("a*c?", "arcca") && !matches("a*c?", "arc"));
/// ```
pub fn matches(pattern: &str, name: &str) -> bool {
    fn fits(pattern: &[char], name: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['*', rest @ ..] => (0..=name.len()).any(|i| fits(rest, &name[i..])),
            ['?', rest @ ..] => !name.is_empty() && fits(rest, &name[1..]),
            [c, rest @ ..] => name.first() == Some(c) && fits(rest, &name[1..]),
        }
    }
    let [pattern, name] = [pattern, name].map(|s| s.chars().collect::<Vec<_>>());
    fits(&pattern, &name)
}

/// What the suite found about an operation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The operation.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// How many checks ran.
    pub checks: usize,
    /// How many of each kind.
    pub kinds: Vec<(&'static str, usize)>,
    /// The largest error in units of its tolerance.
    pub worst: f64,
    /// How long it took.
    pub time: Duration,
    /// How many checks failed.
    pub failed: usize,
    /// The first of them.
    pub failures: Vec<Failure>,
}

impl Outcome {
    /// Whether checks ran, and none failed.
    pub fn passed(&self) -> bool {
        self.checks > 0 && self.failed == 0
    }
}

/// A check that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind of check.
    pub kind: &'static str,
    /// The sample, the dtype, the arrangement.
    pub at: String,
    /// What was found.
    pub report: String,
}

/// Checks the operations of a plan, several at a time; `progress` is called for each.
///
/// ```
/// use extensor::check::suite::{Plan, run};
///
/// let plan = Plan { filter: "sq*".into(), ..Plan::default() };
/// let outcomes = run(&plan, &mut |outcome| println!("{}", outcome.name))?;
/// assert!(outcomes.iter().all(|outcome| outcome.passed() && outcome.checks > 100));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    each(plan, progress, &|record| examine(record, plan, &|params| record.operation(params)))
}

/// What is found about each operation of a plan, several at a time; `progress` is called for each, in the
/// catalogue's order.
fn each(
    plan: &Plan,
    progress: &mut dyn FnMut(&Outcome),
    examine: &(dyn Fn(&'static Record) -> Outcome + Sync),
) -> Result<Vec<Outcome>> {
    let records = plan.records()?;
    let (next, (send, receive)) = (AtomicUsize::new(0), mpsc::channel());
    let mut outcomes: Vec<Option<Outcome>> = vec![None; records.len()];
    std::thread::scope(|scope| {
        for _ in 0..threads().min(records.len()) {
            let (send, records, next, threads) = (send.clone(), &records, &next, threads());
            scope.spawn(move || {
                with_threads(threads, || {
                    while let Some(record) = records.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if send.send((record.name, examine(record))).is_err() {
                            return;
                        }
                    }
                })
            });
        }
        drop(send);
        // They are told of in the catalogue's order.
        let mut told = 0;
        for (name, outcome) in receive {
            if let Some(at) = records.iter().position(|record| record.name == name) {
                outcomes[at] = Some(outcome);
            }
            while let Some(Some(outcome)) = outcomes.get(told) {
                progress(outcome);
                told += 1;
            }
        }
    });
    Ok(outcomes.into_iter().flatten().collect())
}

/// Held while a large sample is tried.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes an operation from its parameters.
pub type Build<'a> = &'a dyn Fn(&Params) -> Result<Box<dyn Operation>>;

/// Checks what `build` makes against everything that the record promises. With another `build` than
/// the record's own this checks an operation that is not in the catalogue, such as one with an error
/// planted in it.
pub fn examine(record: &'static Record, plan: &Plan, build: Build<'_>) -> Outcome {
    let started = Instant::now();
    let mut log = Log::default();
    let mut samples = Vec::new();
    log.guarded("samples", String::new, |_| {
        samples = self::samples(record, plan.seed);
        Ok(())
    });
    log.check("samples", String::new, call::enough_samples(&samples));
    log.guarded("samples", String::new, |_| {
        samples.extend(derive::derived(record, &samples).map_err(|e| e.to_string())?);
        Ok(())
    });
    for (number, sample) in samples.iter().enumerate() {
        let at = || call::describe(number, sample);
        let seed = Key::new(plan.seed).fold_in(number as u64);
        log.guarded("runs", at, |log| {
            // Much work has all threads for itself, so that it is done in the way that is tried.
            let lock = sample.large.then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
            let op = build(&sample.params).map_err(|e| e.to_string())?;
            let mut seen_floats = false;
            for &dtype in plan.dtypes.iter().filter(|dtype| record.dtypes.contains(dtype)) {
                let floats = sample.inputs.iter().any(|x| x.dtype().is_float());
                if !floats && std::mem::replace(&mut seen_floats, true) {
                    continue; // Masks and whole numbers are the same in every dtype.
                }
                values::check(log, &*op, number, sample, dtype, seed)?;
                special::check(log, &*op, number, sample, dtype, seed)?;
                modes::check(log, &*op, number, sample, dtype, [plan.seed, u64::from(plan.order)])?;
            }
            if plan.dtypes.contains(&DType::F64) {
                differences(log, &*op, number, sample, plan)?;
            }
            drop(lock);
            Ok(())
        });
    }
    log.guarded("refusals", String::new, |log| refusals::check(log, record, &samples, build));
    log.outcome(record, started.elapsed())
}

/// Compares derivatives in `f64` with differences.
fn differences(
    log: &mut Log,
    op: &dyn Operation,
    number: usize,
    sample: &Sample,
    plan: &Plan,
) -> Verdict {
    let outputs = call::forward(op, &sample.inputs).map_err(|e| e.to_string())?;
    let wanted = call::wanted(op, &sample.inputs, &outputs);
    if !wanted.contains(&true) || !call::has_differences(op, &outputs) {
        return Ok(());
    }
    let mut found = vec![gradients::check(log, op, number, sample, plan.seed)?];
    let twice = plan.order > 1 && op.record().order > 1 && !sample.large && !sample.far;
    if twice {
        found.push(second::check(log, op, number, sample, plan.seed)?);
    }
    if !sample.smooth && (twice || op.record().order == 1) {
        log.check("kinks", || call::describe(number, sample), second::is_a_kink(&found));
    }
    Ok(())
}

/// The record's samples for a seed.
pub fn samples(record: &Record, seed: u64) -> Vec<Sample> {
    let name = record.name.bytes();
    let key = name.fold(Key::new(seed), |key, byte| key.fold_in(u64::from(byte)));
    let mut sampler = Sampler::new(key);
    (record.samples)(&mut sampler);
    let mut samples = sampler.finish();
    for sample in &mut samples {
        sample.smooth = !(record.kinks)(sample);
    }
    samples
}

/// How the error of an operation's gradient moves with ε, at the first sample that is large enough
/// to tell; nothing for operations without a gradient.
pub fn convergence(record: &'static Record, seed: u64) -> Result<Vec<ErrorAtStep>> {
    gradients::convergence(record, &samples(record, seed), seed)
}

/// Counts checks and keeps what failed.
pub(super) struct Log {
    checks: usize,
    kinds: Vec<(&'static str, usize)>,
    worst: f64,
    failed: usize,
    failures: Vec<Failure>,
    /// So many failures are kept in full.
    kept: usize,
}

impl Default for Log {
    fn default() -> Log {
        Log::keeping(8)
    }
}

/// What is wrong, in words.
type Verdict = std::result::Result<(), String>;

impl Log {
    /// A log that keeps so many failures in full.
    pub(super) fn keeping(kept: usize) -> Log {
        let (kinds, failures) = (Vec::new(), Vec::new());
        Log { checks: 0, kinds, worst: 0.0, failed: 0, failures, kept }
    }

    /// How many checks ran.
    pub(super) fn checks(&self) -> usize {
        self.checks
    }

    /// All of it, of an operation.
    pub(super) fn outcome(self, record: &'static Record, time: Duration) -> Outcome {
        let Log { checks, kinds, worst, failed, failures, .. } = self;
        let Record { name, family, .. } = *record;
        Outcome { name, family, checks, kinds, worst, time, failed, failures }
    }

    /// Records the result of a check.
    pub(super) fn check(
        &mut self,
        kind: &'static str,
        at: impl FnOnce() -> String,
        verdict: Verdict,
    ) {
        self.checks += 1;
        match self.kinds.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, count)) => *count += 1,
            None => self.kinds.push((kind, 1)),
        }
        if let Err(report) = verdict {
            self.fail(kind, at(), report);
        }
    }

    /// Records the result of a check that measured an error in units of its tolerance.
    pub(super) fn measure(
        &mut self,
        kind: &'static str,
        at: impl FnOnce() -> String,
        measured: std::result::Result<f64, String>,
    ) {
        if let Ok(ratio) = measured {
            self.worst = self.worst.max(ratio);
        }
        self.check(kind, at, measured.map(|_| ()));
    }

    fn fail(&mut self, kind: &'static str, at: String, report: String) {
        self.failed += 1;
        if self.failures.len() < self.kept {
            self.failures.push(Failure { kind, at, report });
        }
    }

    /// Runs checks that must not panic; an error or a panic is a failure.
    pub(super) fn guarded(
        &mut self,
        kind: &'static str,
        at: impl Fn() -> String,
        checks: impl FnOnce(&mut Log) -> Verdict,
    ) {
        let outcome = catch_unwind(AssertUnwindSafe(|| checks(self)));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.check(kind, at, Err(error)),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                let report = format!("panicked: {}", text.unwrap_or("with no message"));
                self.check(kind, at, Err(report));
            }
        }
    }
}
