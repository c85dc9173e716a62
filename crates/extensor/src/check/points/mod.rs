//! Derivatives at the points where formulas go wrong.
//!
//! For every smooth operation of one or two numbers a table holds the true value and the true
//! derivatives up to the third, all mixed ones included, at 0 and −0, at whole numbers, at tiny,
//! subnormal and huge ones, at the ends of the domain and beside every constant of a formula. The
//! answers were computed with thousands of bits by `tools/points.py` from the operations'
//! definitions and rounded once; nothing of the library's formulas is in them. Each derivative is taken
//! in reverse mode, in forward mode and forward over reverse, in every order of the variables,
//! in `f64` and `f32`.
//!
//! # What is right
//!
//! The true derivative as IEEE arithmetic has it: what does not fit is infinite, what is too small is 0,
//! and where the value is NaN so is the gradient. With `u` the roundoff of the dtype, a result may be off by
//!
//! - 4 units in the last place for a value, `16·(k + 1)` of them for a derivative of order `k`: a handful of
//!   roundings for each factor of a formula, and a derivative of order `k` has about `k + 1` factors;
//! - twice `u` times the size of the terms, where terms cancel: the table has, for those entries alone,
//!   the running error bound of the definition evaluated step by step. Where the backward rule by specification starts
//!   from the rounded output (`y(1 − y)`), that output's rounding is part of it, and no more than that;
//! - the smallest normal number, for derivatives: where a factor underflows its digits are gone; for values
//!   1024 times the smallest number, since what vanishes does so before its factor is that large;
//! - with several numbers, a subnormal one of which has few digits: as much, relatively, as these digits leave open.
//!
//! Where terms that cancel do not fit the dtype themselves, a result that is not finite is right too; and so it is, from the
//! second order on, at points of several numbers one of which is so small that its inverse is infinite, or for rows
//! that power of its inverse which a derivative of that order is made of. What is finite there must be right.
//!
//! Where a function has no derivative the specification's convention stands in the table, for the first order only.

mod evaluate;
mod judge;
mod table;

use super::nested::Mode;
use super::suite::{Build, Log, Outcome, matches};
use crate::ops::catalogue::CATALOGUE;
use crate::ops::record::{Class, Record};
use crate::{DType, Error, Result};
use std::time::Instant;
use table::{Case, Form};

/// Which points to check.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of an operation, or a pattern with `*` and `?`.
    pub filter: String,
    /// The dtypes to check in: `f64`, `f32`.
    pub dtypes: Vec<DType>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { filter: "*".into(), dtypes: vec![DType::F64, DType::F32] }
    }
}

/// The operations of the plan: those in the table, and those that ought to be.
fn records(plan: &Plan, cases: &[Case]) -> Result<Vec<&'static Record>> {
    let fail = |reason: String| Err(Error::Check { op: "check --points".into(), reason });
    if plan.dtypes.is_empty() {
        return fail("no dtype was chosen".into());
    }
    if let Some(dtype) = plan.dtypes.iter().find(|d| !matches!(d, DType::F64 | DType::F32)) {
        return fail(format!("there are no points in {dtype}; choose among f64, f32"));
    }
    let named: Vec<_> = CATALOGUE.iter().filter(|r| matches(&plan.filter, r.name)).collect();
    if named.is_empty() {
        return Err(Error::UnknownOperation { name: plan.filter.clone() });
    }
    let listed = |r: &&Record| cases.iter().any(|case| case.record.name == r.name);
    let found: Vec<_> = named.into_iter().copied().filter(|r| listed(r) || is_due(r)).collect();
    if found.is_empty() {
        return fail(format!("{:?} names no function of one or two numbers", plan.filter));
    }
    Ok(found)
}

/// Whether an operation must be in the table: it works number by number and has a derivative.
fn is_due(record: &Record) -> bool {
    record.class == Class::Elementwise && record.is_differentiable()
}

/// Checks the operations of a plan at their points; `progress` is called after each, and all
/// that fail are kept.
///
/// ```
/// use extensor::check::points::{Plan, run};
///
/// let plan = Plan { filter: "exp".into(), ..Plan::default() };
/// let outcomes = run(&plan, &mut |outcome| println!("{}", outcome.name))?;
/// assert!(outcomes[0].passed() && outcomes[0].checks > 1000);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    let cases = table::read()?;
    let outcomes = records(plan, &cases)?.into_iter().map(|record| {
        let outcome = try_all(record, &cases, plan, &|params| record.operation(params));
        progress(&outcome);
        outcome
    });
    Ok(outcomes.collect())
}

/// Checks what `build` makes at the points of a record: with another `build` than the record's own, an
/// operation that is not in the catalogue, such as one with an error planted in it.
pub fn examine(record: &'static Record, plan: &Plan, build: Build<'_>) -> Result<Outcome> {
    Ok(try_all(record, &table::read()?, plan, build))
}

fn try_all(record: &'static Record, cases: &[Case], plan: &Plan, build: Build<'_>) -> Outcome {
    let started = Instant::now();
    let mut log = Log::keeping(usize::MAX);
    for case in cases.iter().filter(|case| case.record.name == record.name) {
        for &dtype in &plan.dtypes {
            log.guarded(
                "runs",
                || format!("{case} in {dtype}"),
                |log| check(log, case, dtype, build),
            );
        }
    }
    if log.checks() == 0 {
        log.check("points", String::new, Err("the operation has no points".into()));
    }
    log.outcome(record, started.elapsed())
}

/// Compares all derivatives of a case in a dtype.
fn check(
    log: &mut Log,
    case: &Case,
    dtype: DType,
    build: Build<'_>,
) -> std::result::Result<(), String> {
    let points = case.points_in(dtype);
    let composed = matches!(case.form, Form::Row { .. });
    let op = build(&case.params).map_err(|e| e.to_string())?;
    for (k, times) in case.indices.iter().enumerate() {
        let order = times.iter().sum();
        for &mode in Mode::of(order) {
            for sequence in evaluate::sequences(*times) {
                let found = evaluate::derivative(case, &*op, &points, dtype, &sequence, mode);
                for (point, got) in points.iter().zip(found.map_err(|e| e.to_string())?) {
                    let Some(want) = point.wants.get(k).and_then(Option::as_ref) else { continue };
                    let what = evaluate::name(&sequence);
                    let at = || format!("{case} at {point}, {what}, in {dtype}");
                    let coarseness = judge::coarseness(&point.at, dtype);
                    let reach = || !judge::out_of_reach(&point.at, order, composed, dtype);
                    let verdict = match judge::judge(got, want, order, coarseness, dtype) {
                        Err(_) if !got.is_finite() && !reach() => Ok(0.0),
                        verdict => verdict,
                    };
                    log.measure(mode.name(), at, verdict);
                }
            }
        }
    }
    Ok(())
}
