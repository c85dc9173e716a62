//! What notices a mutant: the checks of its own operations, the whole check, the special points, the
//! tests, in this order, until one fails.

use crate::mutant::Mutant;
use crate::workshop::Build;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What became of a mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The mutant.
    pub key: String,
    /// What caught it: `check`, `points`, a test's name; nothing: it survived.
    pub caught: Option<String>,
    /// The first words of what was said.
    pub detail: String,
    /// How long that took.
    pub seconds: f64,
}

/// A program that says whether all is well.
#[derive(Clone, Debug)]
pub struct Suite {
    /// What it is called.
    pub name: String,
    /// The time it takes if all is well, and what it takes of all processors together.
    pub seconds: f64,
    pub work: f64,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
}

/// How a run of a suite ended.
enum Ending {
    Passed,
    Failed(String),
    TimedOut,
}

/// A mutant that takes more memory than this (in KiB) has gone wrong; the machine must not.
const MEMORY: u64 = 8 << 20;

/// Seconds of work after which a suite has failed, if it is not a long one.
const LIMIT: f64 = 60.0;

impl Suite {
    fn new(name: &str, program: &Path, arguments: &[&str], folder: &Path) -> Suite {
        let arguments = arguments.iter().map(|a| (*a).to_string()).collect();
        let (name, program, folder) =
            (name.to_string(), program.to_path_buf(), folder.to_path_buf());
        Suite { name, seconds: 0.0, work: 0.0, program, arguments, folder }
    }

    /// Runs it with a mutant, or with none, until it passes, a line says that something failed, or
    /// the time is over: that which it may work, since others may use the machine too.
    fn run(&self, mutant: Option<usize>) -> Result<Ending, String> {
        let work = LIMIT.max(5.0 * self.work).ceil();
        let limit = Duration::from_secs_f64(20.0 * work);
        let started = Instant::now();
        let mut command = Command::new("sh");
        let script =
            format!("ulimit -v {MEMORY}; ulimit -t {work}; ulimit -c 0; exec \"$0\" \"$@\"");
        command
            .args(["-c", &script])
            .arg(&self.program)
            .args(&self.arguments)
            .current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env_remove("EXTENSOR_MUTANT");
        if let Some(id) = mutant {
            command.env("EXTENSOR_MUTANT", id.to_string());
        }
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.name))?;
        let (send, lines) = mpsc::channel();
        let output = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).split(b'\n'));
            for line in lines.map_while(Result::ok) {
                if send.send(String::from_utf8_lossy(&line).to_string()).is_err() {
                    break;
                }
            }
        });
        let ending = loop {
            let left = limit.saturating_sub(started.elapsed());
            match lines.recv_timeout(left) {
                Ok(line) if line.trim_end().ends_with("FAILED") => {
                    break Some(Ending::Failed(line));
                }
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Timeout) => break Some(Ending::TimedOut),
                Err(mpsc::RecvTimeoutError::Disconnected) => break None,
            }
        };
        if ending.is_some() {
            // It may have ended by itself in the meantime.
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| format!("{}: {error}", self.name))?;
        drop(lines);
        let _ = reader.join();
        Ok(match ending {
            Some(ending) => ending,
            None if status.success() => Ending::Passed,
            None if status.to_string().contains("SIGXCPU") => Ending::TimedOut,
            None => Ending::Failed(status.to_string()),
        })
    }
}

impl Suite {
    /// Whether it runs the crate that a mutant is in: the tests of the kernels do not know tensors.
    fn sees(&self, mutant: &Mutant) -> bool {
        mutant.place == "kernels" || !self.name.starts_with("extensor-kernels/")
    }
}

/// Seconds that the processes which this one has waited for have worked.
fn worked() -> Option<f64> {
    // The 16th and 17th words, counted behind the name in brackets: hundredths of a second.
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let rest = text.rsplit_once(')')?.1;
    let times = rest.split_whitespace().skip(13).take(2).map(|word| word.parse::<f64>().ok());
    Some(times.sum::<Option<f64>>()? / 100.0)
}

/// Seconds that the longest suite works without a mutant, at most.
const LONGEST: f64 = 300.0;

/// All suites, with the times they take without a mutant. One that fails then says nothing about
/// mutants, and is left out with a word about it.
pub struct Suites {
    program: PathBuf,
    /// The check, the points if there are any, and the tests, quick ones first.
    pub all: Vec<Suite>,
}

impl Suites {
    /// Runs every suite without a mutant.
    pub fn measured(build: &Build) -> Result<Suites, String> {
        let program = &build.program;
        let mut all = vec![Suite::new("check", program, &["check"], Path::new("/"))];
        let help =
            Command::new(program).args(["check", "--help"]).output().map_err(|e| e.to_string())?;
        if String::from_utf8_lossy(&help.stdout).contains("--points") {
            all.push(Suite::new("points", program, &["check", "--points"], Path::new("/")));
        }
        let asked = all.len();
        for (name, program, folder) in &build.tests {
            all.push(Suite::new(name, program, &[], folder));
        }
        let mut sound = Vec::new();
        for mut suite in all {
            let (started, before) = (Instant::now(), worked());
            suite.work = LONGEST;
            let ending = suite.run(None)?;
            suite.seconds = started.elapsed().as_secs_f64();
            suite.work =
                before.zip(worked()).map_or(suite.seconds, |(before, after)| after - before);
            match ending {
                Ending::Passed => {
                    eprintln!(
                        "{:>8.1} s, {:>6.1} s of work  {}",
                        suite.seconds, suite.work, suite.name
                    );
                    sound.push(suite);
                }
                Ending::Failed(why) if suite.name == "check" => {
                    return Err(format!("extensor check fails without a mutant: {why}"));
                }
                Ending::Failed(why) => eprintln!("{} fails without a mutant: {why}", suite.name),
                Ending::TimedOut => eprintln!("{} does not end without a mutant", suite.name),
            }
        }
        sound[asked.min(1)..].sort_by(|a, b| {
            let rank = |s: &Suite| (s.name != "points", s.work);
            rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal)
        });
        Ok(Suites { program: program.clone(), all: sound })
    }

    /// What notices a mutant first.
    pub fn judge(&self, id: usize, mutant: &Mutant) -> Result<Verdict, String> {
        let started = Instant::now();
        let verdict = |caught: Option<&str>, detail: String| Verdict {
            key: mutant.key.clone(),
            caught: caught.map(String::from),
            detail,
            seconds: started.elapsed().as_secs_f64(),
        };
        // The operations most likely to show it: if one of them fails, so does the whole check.
        for name in &mutant.hints {
            let suite = Suite::new("check", &self.program, &["check", name], Path::new("/"));
            // An operation that a hint does not fit says nothing: only what is printed counts here.
            if let Ending::Failed(line) = suite.run(Some(id))?
                && line.ends_with("FAILED")
            {
                return Ok(verdict(
                    Some("check"),
                    line.split_whitespace().collect::<Vec<_>>().join(" "),
                ));
            }
        }
        for suite in self.all.iter().filter(|suite| suite.sees(mutant)) {
            match suite.run(Some(id))? {
                Ending::Passed => {}
                Ending::Failed(why) => {
                    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
                    return Ok(verdict(Some(&suite.name), why));
                }
                Ending::TimedOut => return Ok(verdict(Some(&suite.name), "took too long".into())),
            }
        }
        Ok(verdict(None, String::new()))
    }
}
