//! Compiled functions beside the functions themselves, to the last bit.
//!
//! For each operation × sample × dtype: its outputs, its own rules, both modes of differentiation and all
//! four second derivatives, and the operation between others that a compiler may fuse with it. Each is
//! recorded once, and run again and again in the same memory: at the sample's numbers, at those that
//! the suite makes of them, at special ones (both zeros, subnormal and huge numbers, infinities, NaN), with
//! arguments strided and broadcast in memory, on one thread and on all, and at last at the sample's numbers
//! again. The bits are those of the eager call, and so are the errors.
//!
//! Any NaN is the same as any other, as it is in the rest of the suite: kernels do not promise which of two
//! NaN goes on.

use super::call::{cast_floats, describe, forward, results, wanted};
use super::modes::{
    Derivative, FORWARD, FORWARD_OVER_FORWARD, FORWARD_OVER_REVERSE, Known, REVERSE,
    REVERSE_OVER_FORWARD, REVERSE_OVER_REVERSE, Subject,
};
use super::{ALONE, Build, Log, Outcome, Plan, Verdict, derive, each, samples};
use crate::autodiff::{jvp, vjp};
use crate::check::bits::bit_differences;
use crate::check::prepare::random_like;
use crate::check::{Arrangement, repeated};
use crate::compile::compile;
use crate::ops::Operation;
use crate::ops::operation::input_name;
use crate::ops::record::Record;
use crate::ops::samples::Sample;
use crate::{DType, Key, Result, Tensor, ops};
use extensor_kernels::par::with_threads;
use std::slice::from_ref;
use std::sync::PoisonError;
use std::time::Instant;

/// Compares the operations of a plan with their compiled forms, several at a time; `progress` is called
/// for each.
///
/// ```
/// use extensor::check::suite::{Plan, compiled};
///
/// let plan = Plan { filter: "sq*".into(), ..Plan::default() };
/// let outcomes = compiled::run(&plan, &mut |outcome| println!("{}", outcome.name))?;
/// assert!(outcomes.iter().all(|outcome| outcome.passed() && outcome.checks > 100));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    each(plan, progress, &|record| examine(record, plan, &|params| record.operation(params)))
}

/// Compares what `build` makes with its compiled form, at the record's samples.
pub fn examine(record: &'static Record, plan: &Plan, build: Build<'_>) -> Outcome {
    let started = Instant::now();
    let mut log = Log::default();
    let samples = samples(record, plan.seed);
    for (number, sample) in samples.iter().enumerate() {
        let key = Key::new(plan.seed).fold_in(number as u64);
        let floats = sample.inputs.iter().any(|x| x.dtype().is_float());
        // Masks and whole numbers are the same in every dtype.
        let dtypes = if floats { &plan.dtypes[..] } else { &plan.dtypes[..1] };
        for &dtype in dtypes.iter().filter(|dtype| !floats || record.dtypes.contains(dtype)) {
            let at = || format!("{}, {dtype}", describe(number, sample));
            log.guarded("runs", at, |log| {
                let lock =
                    sample.large.then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
                let op = build(&sample.params).map_err(|e| e.to_string())?;
                let point = Point { op: &*op, number, sample, dtype, key };
                point.check(log, plan.order).map_err(|e| e.to_string())?;
                drop(lock);
                Ok(())
            });
        }
    }
    log.outcome(record, started.elapsed())
}

/// A sample in a dtype.
struct Point<'a> {
    op: &'a dyn Operation,
    number: usize,
    sample: &'a Sample,
    dtype: DType,
    key: Key,
}

/// Arguments that a program is run with: a note, and the numbers.
struct Given {
    note: String,
    known: Known,
    /// Whether one thread alone works.
    alone: bool,
}

/// A function of what is known, by some of the inputs.
type Function<'a> = &'a dyn Fn(&Known) -> Result<Vec<Tensor>>;

impl Point<'_> {
    fn check(&self, log: &mut Log, order: u8) -> Result<()> {
        let given = self.given()?;
        let (op, first) = (self.op, &given[0].known);
        let compare = |log: &mut Log, kind: &'static str, what: &str, f: Function<'_>| {
            self.compare(log, kind, what, f, &given)
        };
        compare(log, "value", "", &|known| forward(op, &known.inputs));
        let wanted = wanted(op, &first.inputs, &first.outputs);
        compare(log, "among others", "", &|known| among_others(op, &wanted, known));
        if !wanted.contains(&true) {
            return Ok(());
        }
        let all: Vec<usize> = (0..first.tangents.len()).collect();
        compare(log, "among others", ", reverse mode", &|known| {
            let subject = Subject { op, inputs: &known.inputs, wanted: &wanted };
            let f = |x: &Vec<Tensor>| among_others(op, &wanted, &known.at(&wanted, x));
            let (y, pull) = vjp(f, &subject.moving())?;
            pull.call_once(&y)
        });
        compare(log, "reverse mode", "", &|known| {
            let subject = Subject { op, inputs: &known.inputs, wanted: &wanted };
            let (y, pull) = vjp(|x: &Vec<Tensor>| subject.results(x), &subject.moving())?;
            Ok([y, pull.call_once(&known.weights)?].concat())
        });
        compare(log, "forward mode", "", &|known| {
            let subject = Subject { op, inputs: &known.inputs, wanted: &wanted };
            let f = |x: &Vec<Tensor>| subject.results(x);
            let (y, dy) = jvp(f, &subject.moving(), &known.tangents)?;
            Ok([y, dy].concat())
        });
        let mut derivatives: Vec<(&'static str, Derivative)> =
            vec![("backward rule", REVERSE), ("forward rule", FORWARD)];
        // Much work is done in second derivatives as it is in the first.
        if order > 1 && op.record().order > 1 && (!self.sample.large || self.dtype == DType::F32) {
            derivatives.push(("forward over reverse", FORWARD_OVER_REVERSE));
            derivatives.push(("reverse over reverse", REVERSE_OVER_REVERSE));
            derivatives.push(("reverse over forward", REVERSE_OVER_FORWARD));
            derivatives.push(("forward over forward", FORWARD_OVER_FORWARD));
        }
        for (kind, derivative) in derivatives {
            compare(log, kind, "", &|known| derivative(op, &wanted, known, &all));
        }
        if all.len() > 1 && !self.sample.large {
            let moving = (0..wanted.len()).filter(|&i| wanted[i]);
            for (k, i) in moving.enumerate() {
                let what = format!(" by {} alone", input_name(op.record(), i));
                for (kind, derivative) in [("backward rule", REVERSE), ("forward rule", FORWARD)] {
                    compare(log, kind, &what, &|known| derivative(op, &wanted, known, &[k]));
                }
            }
        }
        Ok(())
    }

    /// Runs a function and its compiled form.
    fn compare(
        &self,
        log: &mut Log,
        kind: &'static str,
        what: &str,
        f: Function<'_>,
        given: &[Given],
    ) {
        let first = &given[0].known;
        let flat = |x: &Vec<Tensor>| f(&first.refilled(x));
        let compiled = compile(flat);
        for Given { note, known, alone } in given {
            let arguments = known.flat();
            let eager = flat(&arguments);
            let found = match alone {
                true => with_threads(1, || compiled.call(&arguments)),
                false => compiled.call(&arguments),
            };
            let at = || {
                let (sample, dtype) = (describe(self.number, self.sample), self.dtype);
                format!("{sample}, {dtype}{what}{note}")
            };
            log.check(kind, at, same(found, eager));
        }
    }

    /// What the programs are run with; the last as the first.
    fn given(&self) -> Result<Vec<Given>> {
        let inputs = cast_floats(&self.sample.inputs, self.dtype)?;
        let known = self.known(inputs.clone())?;
        let mut given = Vec::new();
        let mut add = |note: String, known, alone| given.push(Given { note, known, alone });
        let strided = [Arrangement::STRIDED[self.number % 3]];
        let strided = if self.sample.large { &[][..] } else { &strided };
        for &way in strided {
            add(format!(", arguments {way}"), known.map(|x| way.of(x))?, false);
        }
        if !self.sample.large {
            let broadcast = known.map(|x| Ok(repeated(x).unwrap_or_else(|| x.clone())))?;
            add(", arguments broadcast".into(), broadcast, false);
        }
        for made in derive::derived(self.op.record(), from_ref(self.sample))? {
            if let Ok(known) = self.known(cast_floats(&made.inputs, self.dtype)?) {
                add(format!(", {}", made.note), known, false);
            }
        }
        let longest = inputs.iter().map(Tensor::len).max().unwrap_or(0);
        let rounds = if longest == 0 || self.sample.large { 1 } else { 4 };
        for round in 0..rounds {
            let special = |k: usize, x: &Tensor| special(x, 5 * k + 6 * round);
            let at = inputs.iter().enumerate().map(|(k, x)| special(k, x));
            let at: Vec<Tensor> = at.collect::<Result<_>>()?;
            let note = ", special numbers".to_string();
            // Not every operation takes such numbers: then what it says is compared, and no more.
            let Ok(mut found) = self.known(at.clone()) else {
                let outputs = known.outputs.clone();
                let [weights, tangents, others] =
                    [&known.weights, &known.tangents, &known.others].map(|list| list.to_vec());
                add(note, Known { inputs: at, outputs, weights, tangents, others }, false);
                continue;
            };
            if round % 2 == 1 {
                for list in [&mut found.weights, &mut found.tangents, &mut found.others] {
                    for (k, x) in list.iter_mut().enumerate() {
                        *x = special(k + 3, x)?;
                    }
                }
            }
            add(note, found, false);
        }
        if self.sample.large {
            add(", on one thread".into(), known.map(|x| Ok(x.clone()))?, true);
        }
        add(", again".into(), known.map(|x| Ok(x.clone()))?, false);
        given.insert(0, Given { note: String::new(), known, alone: false });
        Ok(given)
    }

    /// What derivatives at these inputs are made of.
    fn known(&self, inputs: Vec<Tensor>) -> Result<Known> {
        let outputs = forward(self.op, &inputs)?;
        let wanted = wanted(self.op, &inputs, &outputs);
        let moving = Subject { op: self.op, inputs: &inputs, wanted: &wanted }.moving();
        let differentiable = if moving.is_empty() { &[] } else { results(self.op, &outputs) };
        let weights = random_like(self.key.fold_in(3), differentiable)?;
        let [tangents, others] = [4, 6].map(|n| random_like(self.key.fold_in(n), &moving));
        Ok(Known { weights, tangents: tangents?, others: others?, inputs, outputs })
    }
}

impl Known {
    /// Every tensor changed.
    fn map(&self, change: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Known> {
        let changed: Vec<Tensor> = self.flat().iter().map(change).collect::<Result<_>>()?;
        Ok(self.refilled(&changed))
    }

    /// With these in place of the inputs differentiated by.
    fn at(&self, wanted: &[bool], moving: &[Tensor]) -> Known {
        let mut moving = moving.iter();
        let mut all = self.refilled(&self.flat());
        for (x, _) in all.inputs.iter_mut().zip(wanted).filter(|(_, wanted)| **wanted) {
            *x = moving.next().unwrap_or(x).clone();
        }
        all
    }
}

/// Whether what a compiled function gave is what the function gives.
fn same(compiled: Result<Vec<Tensor>>, eager: Result<Vec<Tensor>>) -> Verdict {
    match (compiled, eager) {
        (Ok(got), Ok(want)) => match bit_differences(&got, &want) {
            Some(difference) => Err(format!("compiled is not eager: {difference}")),
            None => Ok(()),
        },
        (Err(got), Err(want)) if got.to_string() == want.to_string() => Ok(()),
        (got, want) => {
            let words = |x: Result<_>| x.map_or_else(|e| e.to_string(), |_| "no error".to_string());
            Err(format!("compiled: {}\neager: {}", words(got), words(want)))
        }
    }
}

/// The operation after maps of its inputs and before maps and sums of its results, all of which are
/// results too.
fn among_others(op: &dyn Operation, wanted: &[bool], known: &Known) -> Result<Vec<Tensor>> {
    let mut inputs = known.inputs.clone();
    for (x, _) in inputs.iter_mut().zip(wanted).filter(|(_, wanted)| **wanted) {
        // Still where it was: positive, or between −1 and 1.
        *x = ops::multiply(x, &Tensor::scalar_of(0.75, x.dtype())?)?;
    }
    let outputs = forward(op, &inputs)?;
    let mut found = Vec::new();
    for (k, y) in results(op, &outputs).iter().enumerate() {
        found.push(y.clone());
        if !y.dtype().is_float() {
            continue;
        }
        let weighted = match known.weights.get(k) {
            Some(weight) => ops::multiply(y, weight)?,
            None => ops::negate(y)?,
        };
        found.push(ops::tanh(&weighted)?);
        found.push(ops::sum(&ops::add(&weighted, y)?, ..)?);
        if y.ndim() > 1 {
            found.push(ops::sum(&weighted, -1)?);
            found.push(ops::sum(&ops::square(&weighted)?, 0)?);
        }
    }
    Ok(found)
}

/// Numbers at which formulas take their other branches, or lose their digits: for every float dtype
/// subnormal ones, and some that are too large.
const SPECIAL: [f64; 29] = [
    0.0,
    f64::NAN,
    1.0,
    -0.0,
    f64::INFINITY,
    -1.0,
    0.5,
    1e-40,
    f64::NEG_INFINITY,
    2.0,
    -3e-6,
    -3.0,
    1e-45,
    3e38,
    88.5,
    -1e-8,
    -6e4,
    1e-310,
    -104.0,
    1e-10,
    -1e30,
    5e-324,
    1.7e308,
    123.456,
    -1e-39,
    0.999,
    -0.5,
    1e6,
    -2.5,
];

/// Special numbers in place of a tensor's, from one of them on; what is no float stays.
fn special(like: &Tensor, first: usize) -> Result<Tensor> {
    if !like.dtype().is_float() {
        return Ok(like.clone());
    }
    let numbers = (0..like.len()).map(|i| SPECIAL[(i * 8 + first) % SPECIAL.len()]);
    let numbers = Tensor::from_vec(numbers.collect::<Vec<f64>>(), like.shape().clone())?;
    ops::cast(&numbers, like.dtype())
}
