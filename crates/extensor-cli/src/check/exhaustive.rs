//! `extensor check --exhaustive`.

use super::{Arguments, run_outcomes};
use crate::output::Output;
use crate::train::{INTERRUPTED, listen};
use crate::{explain, file};
use extensor::DType;
use extensor::check::exhaustive::{self, Found, Plan, Sweep, Worst};
use extensor::ops::record::{Accuracy, Bound};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// All numbers of the 16-bit types; whether everything passed.
pub(super) fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut plan = Plan { filter: arguments.name.clone(), ..Plan::default() };
    if !arguments.dtype.is_empty() {
        plan.dtypes = arguments.dtype.clone();
    }
    run_outcomes(arguments, &plan.dtypes.clone(), &mut |report| exhaustive::run(&plan, report))
}

/// The state is saved this often.
const SAVED: Duration = Duration::from_secs(10);

/// All numbers of `f32`; the exit code.
pub(super) fn sweep(arguments: &Arguments) -> Result<u8, String> {
    if arguments.dtype != [DType::F32] {
        return Err("f32 is tried by itself: --dtype f32".into());
    }
    if arguments.json.is_some() {
        return Err("--json goes with f16 and bf16; all of f32 is in the file of --state".into());
    }
    let (mut sweep, path) = match (arguments.every, &arguments.state) {
        (Some(every), _) => {
            (Sweep::sampled(&arguments.name, every).map_err(|error| explain(&error))?, None)
        }
        (None, Some(path)) => (begin(&arguments.name, path)?, Some(path.clone())),
        (None, None) => {
            let path = default_state()?;
            (begin(&arguments.name, &path)?, Some(path))
        }
    };
    let stop = listen(Some("saving the state"))?;
    let bar = bar(&sweep);
    let mut saved = Instant::now();
    let mut more = sweep.current().is_some();
    while more && !stop.load(Ordering::Relaxed) {
        more = sweep.step().map_err(|error| explain(&error))?;
        bar.set_position(sweep.tried());
        bar.set_message(sweep.current().map_or(String::new(), |f| f.title.clone()));
        if saved.elapsed() > SAVED {
            save(&sweep, path.as_deref())?;
            saved = Instant::now();
        }
    }
    bar.finish_and_clear();
    save(&sweep, path.as_deref())?;
    let mut output = Output::default();
    let failed = report(&mut output, &sweep);
    if more {
        let share = 100.0 * sweep.tried() as f64 / sweep.total() as f64;
        let rest = path.map_or(String::new(), |path| {
            format!("; the same command goes on from {}", path.display())
        });
        output.line(&format!("interrupted at {share:.2} %{rest}"));
    }
    output.finish()?;
    Ok(if more { INTERRUPTED } else { u8::from(failed > 0) })
}

/// Writes the state, where there is a place for it.
fn save(sweep: &Sweep, path: Option<&Path>) -> Result<(), String> {
    path.map_or(Ok(()), |path| file::write(path, &sweep.save()))
}

/// A new sweep, or the one that the file has.
fn begin(filter: &str, path: &Path) -> Result<Sweep, String> {
    let sweep = match std::fs::read_to_string(path) {
        Ok(text) => Sweep::resume(filter, &text).map_err(|error| {
            format!("{}: {}; remove the file to begin anew", path.display(), explain(&error))
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Sweep::new(filter).map_err(|error| explain(&error))?
        }
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    // That it cannot be written is better known now than in an hour.
    file::write(path, &sweep.save())?;
    Ok(sweep)
}

/// A file in the user's folder for what can be computed again.
fn default_state() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let folder = cache.ok_or("there is no cache folder; say --state FILE")?.join("extensor");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    Ok(folder.join("exhaustive-f32"))
}

/// A bar on a terminal; elsewhere it does not show.
fn bar(sweep: &Sweep) -> ProgressBar {
    let bar = ProgressBar::new(sweep.total()).with_position(sweep.tried());
    let form = "{bar:40} {percent_precise} % {per_sec} {eta} left  {msg}";
    let style = ProgressStyle::with_template(form);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Prints what was found; how many operations are not as near the truth as their records say.
fn report(output: &mut Output, sweep: &Sweep) -> usize {
    let width = sweep.found().iter().map(|f| f.title.len()).max().unwrap_or(0).max(9);
    output.line(&format!(
        "{:width$}  {:>7}  {:>10} {:>6} {:>16}  {:>10} {:>6} {:>16}",
        "operation", "tried", "value, ulp", "bound", "worst at", "slope, ulp", "bound", "worst at"
    ));
    let mut failed = 0;
    for found in sweep.found() {
        let accuracy = extensor::ops::catalogue::find(found.name).ok().and_then(|r| r.accuracy());
        let verdict = verdict(found, accuracy);
        failed += usize::from(verdict.is_some());
        let tried = format!("{:.1} %", 100.0 * found.tried as f64 / (1u64 << 32) as f64);
        let value = cells(&found.value, accuracy.map(|a| &a.value));
        let slope = found.slope.map(|s| cells(&s, accuracy.map(|a| &a.slope)));
        output.line(&format!(
            "{:width$}  {tried:>7}  {value}  {}{}",
            found.title,
            slope.unwrap_or_default(),
            verdict.map_or(String::new(), |v| format!("  FAILED: {v}")),
        ));
    }
    output.line(&format!("{} passed, {failed} failed", sweep.found().len() - failed));
    failed
}

fn cells(worst: &Worst, bound: Option<&Bound>) -> String {
    let bound = bound.map_or("none".into(), |b| format!("{}", b.ulps));
    // Upwards, so that no error is larger than it looks.
    let ulps = (worst.ulps * 1e3).ceil() / 1e3;
    format!("{ulps:>10.3} {bound:>6} {:>16e}", worst.at)
}

/// What is wrong with what was found.
fn verdict(found: &Found, accuracy: Option<&Accuracy>) -> Option<&'static str> {
    let Some(accuracy) = accuracy else {
        return Some("its record has no bound");
    };
    if found.value.ulps > accuracy.value.ulps {
        Some("the value is not within its bound")
    } else if found.slope.is_some_and(|s| s.ulps > accuracy.slope.ulps) {
        Some("the derivative is not within its bound")
    } else {
        None
    }
}
