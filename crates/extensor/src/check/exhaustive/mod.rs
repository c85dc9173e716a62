//! Every value there is: operations of one number tried at all of a dtype's numbers.
//!
//! [`run`] tries each of the 65,536 numbers of `f16` and of `bf16`: the value, the first derivative in both modes and the
//! second, against the same operation in `f64` on the same number. [`Sweep`] tries all 2³² numbers of `f32`,
//! value and first derivative, in pieces, so that it can be interrupted and taken up again.
//!
//! # What is right
//!
//! The 16-bit types compute in `f32` and round once. So a result may be off by half a unit in the last place of its own type,
//! and by what [`points`](super::points) allows in `f32`: 4 units in the last place of `f32` for a value and `16·(k + 1)`
//! for a derivative of order `k`, of the derivative or of a sixteenth of `x` times the next one, whichever is
//! larger (near its zeros a derivative is a difference of larger terms; where the rule reads the output `y`, these are
//! `y` times its derivative by `y`), and the smallest normal number of `f32`. A gradient that does not fit is
//! infinite, but at a singular point at most the largest finite number. A backward rule that reads
//! the output reads the rounded one, and is compared with the same rule in `f64` on that same output.
//!
//! Which parameters to try is taken from the operation's samples. Where a function has a kink, its
//! second derivative is not looked at.

mod sixteen;
mod subject;
mod sweep;

use super::suite::{Build, Log, Outcome, matches};
use crate::ops::catalogue::CATALOGUE;
use crate::ops::record::Record;
use crate::{DType, Error, Result};
use std::time::Instant;
use subject::Subject;
pub use sweep::{Found, Sweep, Worst};

/// What `f64` says in a dtype: the largest number of the one stands for that of the other.
fn in_dtype(want: f64, dtype: DType) -> f64 {
    if want.abs() == f64::MAX { dtype.max_finite().copysign(want) } else { want }
}

/// Which operations to try, and in which dtypes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of an operation, or a pattern with `*` and `?`.
    pub filter: String,
    /// The dtypes: `f16`, `bf16`.
    pub dtypes: Vec<DType>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { filter: "*".into(), dtypes: vec![DType::F16, DType::BF16] }
    }
}

/// The operations of one number that a pattern names; none is an error.
fn records(filter: &str) -> Result<Vec<&'static Record>> {
    let named: Vec<_> = CATALOGUE.iter().filter(|r| matches(filter, r.name)).copied().collect();
    if named.is_empty() {
        return Err(Error::UnknownOperation { name: filter.into() });
    }
    let found: Vec<_> = named.into_iter().filter(|r| subject::is_of_one_number(r)).collect();
    if found.is_empty() {
        return Err(fail(format!("{filter:?} names no operation of one number")));
    }
    Ok(found)
}

fn fail(reason: String) -> Error {
    Error::Check { op: "check --exhaustive".into(), reason }
}

/// Tries every number of the plan's dtypes; `progress` is called after each operation.
///
/// ```
/// use extensor::check::exhaustive::{Plan, run};
///
/// let plan = Plan { filter: "exp".into(), ..Plan::default() };
/// let outcomes = run(&plan, &mut |outcome| println!("{}", outcome.name))?;
/// assert!(outcomes[0].passed() && outcomes[0].checks > 4 * 65536);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    if plan.dtypes.is_empty() {
        return Err(fail("no dtype was chosen".into()));
    }
    if let Some(dtype) = plan.dtypes.iter().find(|d| !matches!(d, DType::F16 | DType::BF16)) {
        return Err(fail(format!(
            "{dtype} has too many numbers to try at once; f16 and bf16 have not"
        )));
    }
    let outcomes = records(&plan.filter)?.into_iter().map(|record| {
        let outcome = examine(record, plan, &|params| record.operation(params));
        progress(&outcome);
        outcome
    });
    Ok(outcomes.collect())
}

/// Tries what `build` makes instead of a record's own operation, such as one with an error planted
/// in it.
pub fn examine(record: &'static Record, plan: &Plan, build: Build<'_>) -> Outcome {
    let started = Instant::now();
    let mut log = Log::default();
    for subject in Subject::of(record, build) {
        for &dtype in &plan.dtypes {
            let at = || format!("{subject} in {dtype}");
            log.guarded("runs", at, |log| sixteen::check(log, &subject, dtype));
        }
    }
    log.outcome(record, started.elapsed())
}
