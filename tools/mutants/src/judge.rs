//! What notices a mutant: the checks of the operations, the special points, the tests, in this order,
//! until one fails. A suite that never comes to the place of a mutant is not asked about it.

use crate::mutant::Mutant;
use crate::suite::{Ending, Suite};
use crate::workshop::{Build, folder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

/// What became of a mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The mutant.
    pub key: String,
    /// What caught it: `check`, `points`, a test's name; nothing: it survived.
    pub caught: Option<String>,
    /// The first words of what was said.
    pub detail: String,
    /// The suites that came to its place and passed.
    pub passed: Vec<String>,
    /// How long that took.
    pub seconds: f64,
}

/// What is known of a suite without a mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// What was run.
    pub suite: Suite,
    /// Whether it passes.
    pub sound: bool,
    /// The time it takes, and what it takes of all processors together.
    pub seconds: f64,
    pub work: f64,
    /// The numbers of the mutants whose places it comes to.
    seen: BTreeSet<usize>,
}

/// All suites, with what is known of them. One that fails without a mutant says nothing about
/// mutants, and is left out with a word about it.
#[derive(Serialize, Deserialize)]
pub struct Suites {
    /// The check of each operation, the points, and the tests, quick ones first.
    pub all: Vec<Measured>,
    /// How long the whole check takes, and what of all processors together.
    pub check: (f64, f64),
}

/// The tests of the checker, not of what it checks: they take minutes, and the library's errors are
/// the check's to find, which is asked about one operation at a time.
const OF_THE_CHECKER: [&str; 3] = ["extensor/check", "extensor/planted", "extensor/planted_alone"];

impl Suites {
    /// Runs every suite without a mutant, unless that was done since the last build.
    pub fn measured(build: &Build) -> Result<Suites, String> {
        let kept = folder().join("suites.json");
        let made = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
        let programs = build.tests.iter().map(|(_, program, _)| program).chain([&build.program]);
        let last: Option<SystemTime> = programs.filter_map(|program| made(program)).max();
        if made(&kept) > last
            && let Ok(text) = std::fs::read_to_string(&kept)
            && let Ok(suites) = serde_json::from_str(&text)
        {
            return Ok(suites);
        }
        let suites = Suites::measure(build)?;
        let text = serde_json::to_string(&suites).map_err(|error| error.to_string())?;
        std::fs::write(&kept, text).map_err(|error| format!("{}: {error}", kept.display()))?;
        Ok(suites)
    }

    fn measure(build: &Build) -> Result<Suites, String> {
        let program = &build.program;
        let root = Path::new("/");
        let whole = Suite::new("check", program, &["check"], root);
        let (ending, seconds, work) = timed(&whole, None)?;
        if !matches!(ending, Ending::Passed) {
            return Err("extensor check fails without a mutant".into());
        }
        let mut all = Vec::new();
        for name in operations(program)? {
            all.push(measure(Suite::new("check", program, &["check", &name], root))?);
        }
        let help = Command::new(program).args(["check", "--help"]).output();
        let help = help.map_err(|error| error.to_string())?;
        let mut others = Vec::new();
        if String::from_utf8_lossy(&help.stdout).contains("--points") {
            others.push(measure(Suite::new("points", program, &["check", "--points"], root))?);
        }
        let tests =
            build.tests.iter().filter(|(name, ..)| !OF_THE_CHECKER.contains(&name.as_str()));
        for (name, program, folder) in tests {
            others.push(measure(Suite::new(name, program, &[], folder))?);
        }
        for Measured { suite, sound, seconds, work, seen } in &others {
            let (name, seen) = (&suite.name, seen.len());
            let state = if *sound { "" } else { "; FAILS, and is left out" };
            eprintln!("{seconds:>8.1} s, {work:>6.1} s of work  {name}: {seen} mutants{state}");
        }
        let rank = |m: &Measured| (m.suite.name != "points", m.work);
        others.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
        all.extend(others);
        all.retain(|measured| measured.sound);
        Ok(Suites { all, check: (seconds, work) })
    }

    /// What notices a mutant first.
    pub fn judge(&self, id: usize, mutant: &Mutant) -> Result<Verdict, String> {
        let started = Instant::now();
        let mut passed: Vec<String> = Vec::new();
        let mut asked: Vec<&Measured> = self.all.iter().filter(|m| m.seen.contains(&id)).collect();
        // Operations that are likely to show it come first.
        asked.sort_by_key(|measured| !measured.suite.is_about(&mutant.hints));
        let mut caught = None;
        for Measured { suite, work, .. } in asked {
            let detail = match suite.run(Some(id), *work, None)? {
                Ending::Passed => {
                    if !passed.contains(&suite.name) {
                        passed.push(suite.name.clone());
                    }
                    continue;
                }
                Ending::Failed(why) => why.split_whitespace().collect::<Vec<_>>().join(" "),
                Ending::TimedOut => "took too long".into(),
            };
            caught = Some((suite.name.clone(), detail));
            break;
        }
        let (caught, detail) = caught.unzip();
        let (key, seconds) = (mutant.key.clone(), started.elapsed().as_secs_f64());
        Ok(Verdict { key, caught, detail: detail.unwrap_or_default(), passed, seconds })
    }
}

/// Runs a suite without a mutant, and notes which it comes to.
fn measure(suite: Suite) -> Result<Measured, String> {
    let seen = folder().join("seen");
    let _ = std::fs::remove_file(&seen);
    let (ending, seconds, work) = timed(&suite, Some(&seen))?;
    let sound = matches!(ending, Ending::Passed);
    let seen = std::fs::read_to_string(&seen).unwrap_or_default();
    let seen = seen.lines().filter_map(|line| line.parse().ok()).collect();
    Ok(Measured { suite, sound, seconds, work, seen })
}

/// Runs a suite without a mutant: how it ends, the time it takes, and what it takes of all processors.
fn timed(suite: &Suite, seen: Option<&Path>) -> Result<(Ending, f64, f64), String> {
    /// Seconds that the longest suite works, at most.
    const LONGEST: f64 = 300.0;
    let (started, before) = (Instant::now(), worked());
    let ending = suite.run(None, LONGEST, seen)?;
    let seconds = started.elapsed().as_secs_f64();
    let work = before.zip(worked()).map_or(seconds, |(before, after)| after - before);
    Ok((ending, seconds, work))
}

/// Seconds that the processes which this one has waited for have worked.
fn worked() -> Option<f64> {
    // The 16th and 17th words, counted behind the name in brackets: hundredths of a second.
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let rest = text.rsplit_once(')')?.1;
    let times = rest.split_whitespace().skip(13).take(2).map(|word| word.parse::<f64>().ok());
    Some(times.sum::<Option<f64>>()? / 100.0)
}

/// The names of the operations, as the check prints them.
fn operations(program: &PathBuf) -> Result<Vec<String>, String> {
    let output = Command::new(program).arg("check").output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).to_string();
    // A heading, a line for each operation, and the summary.
    let lines: Vec<&str> = text.lines().collect();
    let named = lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default();
    let first = |line: &&str| line.split_whitespace().next().map(String::from);
    Ok(named.iter().filter_map(first).collect())
}
