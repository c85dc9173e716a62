//! Plants single errors in a copy of the library and reports which of them the checks and tests miss.
//!
//! `cargo run --release -p mutants -- run` takes a while; what it found so far is kept, and a second
//! run goes on from there. CONTRIBUTING.md says what to do with a mutant that survives.

mod find;
mod judge;
mod mutant;
mod operators;
mod plant;
mod report;
mod suite;
mod workshop;

use clap::{Parser, Subcommand};
use judge::{Suites, Verdict};
use mutant::Mutant;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// List the mutants
    List {
        /// Only those whose name fits this pattern with * and ?
        #[arg(long, default_value = "*", value_name = "GLOB")]
        only: String,
    },
    /// Try the mutants that have not been tried, and write the report
    Run {
        /// Only those whose name fits this pattern with * and ?
        #[arg(long, default_value = "*", value_name = "GLOB")]
        only: String,
        /// Only so many of them, spread over all
        #[arg(long, value_name = "COUNT")]
        some: Option<usize>,
        /// Try these again: all, or those that survived
        #[arg(long, value_name = "WHICH", value_parser = ["all", "survivors"])]
        again: Option<String>,
        /// How many to try at a time
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Where results are kept
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Where the report goes
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Task::List { only } => list(&only),
        Task::Run { only, some, again, jobs, out, report } => {
            let out = out.unwrap_or_else(|| workshop::folder().join("results.jsonl"));
            let report = report.unwrap_or_else(|| workshop::root().join("docs/mutants.md"));
            run(&only, some, again.as_deref(), jobs, &out, &report)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether a name fits a pattern in which `*` stands for anything and `?` for one letter.
fn fits(pattern: &str, name: &str) -> bool {
    let mut rest = name.chars();
    let mut letters = pattern.chars();
    match (letters.next(), rest.next()) {
        (None, first) => first.is_none(),
        (Some('*'), first) => {
            fits(letters.as_str(), name) || (first.is_some() && fits(pattern, rest.as_str()))
        }
        (Some(letter), first) => {
            first.is_some_and(|f| letter == '?' || letter == f)
                && fits(letters.as_str(), rest.as_str())
        }
    }
}

fn list(only: &str) -> Result<(), String> {
    let root = workshop::root();
    let mutants = mutant::all(&root, &workshop::files(&root)?, &workshop::unviable())?;
    let mut stdout = std::io::stdout().lock();
    for Mutant { key, file, line, original, changed, .. } in
        mutants.iter().filter(|m| fits(only, &m.key))
    {
        let [original, changed] = [original, changed].map(|text| report::short(text));
        // A reader that has gone away has seen enough.
        if writeln!(stdout, "{key}\n    {file}:{line}\n    {original}\n    {changed}").is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn run(
    only: &str,
    some: Option<usize>,
    again: Option<&str>,
    jobs: usize,
    out: &Path,
    report: &Path,
) -> Result<(), String> {
    let build = workshop::build()?;
    let suites = Suites::measured(&build)?;
    let mut known = results(out);
    match again {
        Some("all") => known.clear(),
        Some(_) => known.retain(|_, verdict| verdict.caught.is_some()),
        None => {}
    }
    let chosen = |(_, m): &(usize, &Mutant)| fits(only, &m.key) && !known.contains_key(&m.key);
    let mut todo: Vec<(usize, &Mutant)> = build.mutants.iter().enumerate().filter(chosen).collect();
    if let Some(count) = some {
        let every = todo.len().div_ceil(count.max(1)).max(1);
        todo = todo.into_iter().step_by(every).collect();
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(out);
    let file = Mutex::new(file.map_err(|error| format!("{}: {error}", out.display()))?);
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((id, mutant)) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let judged =
                        suites.judge(*id, mutant).and_then(|verdict| keep(&file, &verdict));
                    if let Err(error) = judged {
                        *failure.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
                        return;
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(|e| e.into_inner()) {
        return Err(error);
    }
    let text = report::markdown(&build.mutants, &results(out), &suites)?;
    std::fs::write(report, text).map_err(|error| format!("{}: {error}", report.display()))
}

/// Writes a verdict down, and says it.
fn keep(file: &Mutex<std::fs::File>, verdict: &Verdict) -> Result<(), String> {
    let caught = verdict.caught.as_deref().unwrap_or("SURVIVED");
    eprintln!("{:>6.1} s  {caught:12} {}", verdict.seconds, verdict.key);
    let line = serde_json::to_string(verdict).map_err(|error| error.to_string())?;
    let mut file = file.lock().unwrap_or_else(|e| e.into_inner());
    writeln!(file, "{line}").map_err(|error| format!("the results: {error}"))
}

/// The last verdict of each mutant.
fn results(path: &Path) -> BTreeMap<String, Verdict> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let verdicts = text.lines().filter_map(|line| serde_json::from_str::<Verdict>(line).ok());
    verdicts.map(|verdict| (verdict.key.clone(), verdict)).collect()
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_anything_and_a_question_mark_for_one_letter() {
        assert!(fits("*", "") && fits("a*c?", "abc′") && fits("*soft*", "ops/softmax"));
        assert!(!fits("a*c?", "abc") && !fits("b", "ab"));
    }
}
