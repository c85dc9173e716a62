//! `extensor check`.

mod exhaustive;

use crate::output::Output;
use crate::{explain, file, golden, html, json};
use extensor::DType;
use extensor::check::points;
use extensor::check::suite::{self, Outcome, Plan, compiled};
use extensor::ops::catalogue::CATALOGUE;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to check, and where to write it down.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// An operation's name, or a pattern with * and ?
    #[arg(default_value = "*", hide_default_value = true)]
    name: String,
    /// Only these dtypes: f16, bf16, f32, f64
    #[arg(long, value_name = "DTYPE", value_delimiter = ',', value_parser = float_dtype)]
    dtype: Vec<DType>,
    /// How often to differentiate
    #[arg(long, default_value_t = 2)]
    order: u8,
    /// Where random samples and cotangents come from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write the results for machines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE", conflicts_with = "golden")]
    html: Option<PathBuf>,
    /// Compare derivatives of order 0 to 3 with the true ones at special points
    #[arg(long, conflicts_with_all = ["golden", "html", "order", "seed"])]
    points: bool,
    /// Try every number of f16 and bf16, or with --dtype f32 all 2³² of those
    #[arg(long, conflicts_with_all = ["points", "golden", "html", "order", "seed"])]
    exhaustive: bool,
    /// Compare every operation and its derivatives with their compiled forms, to the last bit
    #[arg(long, conflicts_with_all = ["points", "exhaustive", "golden", "html"])]
    compiled: bool,
    /// Where all of f32 is taken up after an interruption [default: a file in the cache folder]
    #[arg(long, value_name = "FILE", requires = "exhaustive")]
    state: Option<PathBuf>,
    /// Of all numbers of f32 try one piece in so many: a quick look
    #[arg(long, value_name = "N", requires = "exhaustive", conflicts_with = "state")]
    every: Option<u64>,
    /// Run the golden cases of a folder instead of the catalogue's own checks
    #[arg(long, value_name = "DIR")]
    golden: Option<PathBuf>,
}

fn float_dtype(name: &str) -> Result<DType, String> {
    let found = DType::from_name(name).filter(|d| d.is_float());
    found.ok_or_else(|| "expected f16, bf16, f32 or f64".into())
}

/// Runs the command; its exit code.
pub fn run(arguments: &Arguments) -> Result<u8, String> {
    let passed = match &arguments.golden {
        Some(folder) => run_golden(arguments, folder),
        None if arguments.points => run_points(arguments),
        None if arguments.exhaustive && arguments.dtype.contains(&DType::F32) => {
            return exhaustive::sweep(arguments);
        }
        None if arguments.exhaustive => exhaustive::run(arguments),
        None => run_suite(arguments),
    };
    passed.map(|passed| u8::from(!passed))
}

fn run_suite(arguments: &Arguments) -> Result<bool, String> {
    let mut plan = Plan {
        filter: arguments.name.clone(),
        seed: arguments.seed,
        order: arguments.order,
        ..Plan::default()
    };
    if !arguments.dtype.is_empty() {
        plan.dtypes = arguments.dtype.clone();
    }
    let records = plan.records().map_err(|error| explain(&error))?;
    let names = records.iter().map(|r| r.name.len());
    let width = names.max().unwrap_or(0).max("operation".len());

    let started = Instant::now();
    let mut output = Output::default();
    let bar = bar(records.len());
    output.line(&header(width));
    let mut report = |outcome: &Outcome| {
        bar.suspend(|| describe(&mut output, outcome, width));
        bar.inc(1);
        bar.set_message(outcome.name);
    };
    let run = if arguments.compiled { compiled::run } else { suite::run };
    let outcomes = run(&plan, &mut report).map_err(|error| explain(&error))?;
    bar.finish_and_clear();

    let passed = outcomes.iter().all(Outcome::passed);
    output.line(&summary(&plan, &outcomes, started.elapsed()));
    if let Some(path) = &arguments.json {
        file::write(path, &json::suite(&plan, &outcomes))?;
    }
    if let Some(path) = &arguments.html {
        file::write(path, &html::page(&plan, &outcomes))?;
    }
    output.finish()?;
    Ok(passed)
}

fn run_points(arguments: &Arguments) -> Result<bool, String> {
    let mut plan = points::Plan { filter: arguments.name.clone(), ..points::Plan::default() };
    if !arguments.dtype.is_empty() {
        plan.dtypes = arguments.dtype.clone();
    }
    run_outcomes(arguments, &plan.dtypes.clone(), &mut |report| points::run(&plan, report))
}

/// A check that tells of one operation after the other.
type Check<'a> = dyn FnMut(&mut dyn FnMut(&Outcome)) -> extensor::Result<Vec<Outcome>> + 'a;

/// Prints a line for each operation, and how many checks passed and failed.
fn run_outcomes(
    arguments: &Arguments,
    dtypes: &[DType],
    check: &mut Check<'_>,
) -> Result<bool, String> {
    let mut output = Output::default();
    let names = CATALOGUE.iter().filter(|r| suite::matches(&arguments.name, r.name));
    let width = names.map(|r| r.name.len()).max().unwrap_or(0).max("operation".len());
    output.line(&header(width));
    let bar = spinner();
    let mut report = |outcome: &Outcome| {
        bar.suspend(|| describe(&mut output, outcome, width));
        bar.set_message(outcome.name);
        bar.tick();
    };
    let outcomes = check(&mut report).map_err(|error| explain(&error))?;
    bar.finish_and_clear();
    if let Some(path) = &arguments.json {
        file::write(path, &json::outcomes(dtypes, &outcomes))?;
    }
    let checks: usize = outcomes.iter().map(|o| o.checks).sum();
    let failed: usize = outcomes.iter().map(|o| o.failed).sum();
    output.line(&format!("{} passed, {failed} failed", checks - failed));
    output.finish()?;
    Ok(!outcomes.is_empty() && outcomes.iter().all(Outcome::passed))
}

fn header(width: usize) -> String {
    format!("{:width$}  {:>8}  {:>15}  {:>9}", "operation", "checks", "error/tolerance", "time")
}

/// A sign of life where the number of operations is not known beforehand.
fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// A bar on a terminal; elsewhere it does not show.
fn bar(length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// So many failures of an operation are printed; a file has all that were kept.
const SHOWN: usize = 8;

fn describe(output: &mut Output, outcome: &Outcome, width: usize) {
    let Outcome { name, checks, worst, time, .. } = outcome;
    let time = milliseconds(*time);
    let state = if outcome.passed() { "" } else { "  FAILED" };
    output.line(&format!("{name:width$}  {checks:>8}  {worst:>15.3}  {time:>9}{state}"));
    if outcome.checks == 0 {
        output.line("  nothing was checked");
    }
    for failure in outcome.failures.iter().take(SHOWN) {
        output.line(&format!("  {}: {}", failure.kind, failure.at));
        for line in failure.report.lines() {
            output.line(&format!("    {line}"));
        }
    }
    let more = outcome.failed - outcome.failures.len().min(SHOWN);
    if more > 0 {
        output.line(&format!("  and {more} more"));
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn summary(plan: &Plan, outcomes: &[Outcome], time: Duration) -> String {
    let checks: usize = outcomes.iter().map(|o| o.checks).sum();
    let failed: usize = outcomes.iter().map(|o| o.failed).sum();
    let empty = outcomes.iter().filter(|o| o.checks == 0).count();
    let dtypes: Vec<&str> = plan.dtypes.iter().map(|d| d.name()).collect();
    let verdict = match (failed, empty) {
        (0, 0) => "all passed".to_string(),
        (0, n) => format!("{n} operations were not checked"),
        (n, _) => format!("{n} FAILED"),
    };
    format!(
        "{} operations, {checks} checks in {}: {verdict} in {:.2} s (seed {})",
        outcomes.len(),
        dtypes.join(", "),
        time.as_secs_f64(),
        plan.seed
    )
}

fn run_golden(arguments: &Arguments, folder: &std::path::Path) -> Result<bool, String> {
    let pattern = arguments.name.clone();
    let chosen = move |op: &str| suite::matches(&pattern, op);
    let mut output = Output::default();
    let bar = bar(0);
    let mut report = |total: usize, failure: Option<&golden::Failure>| {
        bar.set_length(total as u64);
        if let Some(golden::Failure { id, reason, .. }) = failure {
            bar.suspend(|| output.line(&format!("FAILED {id}: {reason}")));
        }
        bar.inc(1);
    };
    let summary = golden::run(folder, &chosen, &mut report)?;
    bar.finish_and_clear();
    let (passed, failed) = (summary.passed, summary.failures.len());
    if passed + failed == 0 {
        let folder = folder.display();
        return Err(format!("{folder} has no case of an operation {:?}", arguments.name));
    }
    if let Some(path) = &arguments.json {
        file::write(path, &json::golden(&summary))?;
    }
    output.line(&format!("{passed} passed, {failed} failed"));
    output.finish()?;
    Ok(failed == 0)
}
