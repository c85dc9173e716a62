//! A program that says whether all is well: a check, or the tests of a crate.

use crate::fits;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What is run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Suite {
    /// What it is called.
    pub name: String,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
}

/// How a run ended.
pub enum Ending {
    Passed,
    Failed(String),
    TimedOut,
}

/// A mutant that takes more memory than this (in KiB) has gone wrong; the machine must not.
const MEMORY: u64 = 8 << 20;

/// Seconds of work after which a suite has failed, if it is not a long one.
const LIMIT: f64 = 60.0;

impl Suite {
    /// A program in a folder.
    pub fn new(name: &str, program: &Path, arguments: &[&str], folder: &Path) -> Suite {
        let arguments = arguments.iter().map(|a| (*a).to_string()).collect();
        let (program, folder) = (program.to_path_buf(), folder.to_path_buf());
        Suite { name: name.to_string(), program, arguments, folder }
    }

    /// Whether it checks an operation that fits one of these patterns.
    pub fn is_about(&self, patterns: &[String]) -> bool {
        let operation = self.arguments.get(1).filter(|_| self.name == "check");
        operation.is_some_and(|name| patterns.iter().any(|pattern| fits(pattern, name)))
    }

    /// Runs it with a mutant, or with none, until it passes, a line says that something failed, or
    /// the time is over: that which it works, since others may use the machine too, five times what
    /// it takes otherwise. The numbers of the mutants that are asked for go to a file.
    pub fn run(
        &self,
        mutant: Option<usize>,
        work: f64,
        seen: Option<&Path>,
    ) -> Result<Ending, String> {
        let work = LIMIT.max(5.0 * work).ceil();
        let limit = Duration::from_secs_f64(20.0 * work);
        let started = Instant::now();
        let mut command = Command::new("sh");
        let script =
            format!("ulimit -v {MEMORY}; ulimit -t {work}; ulimit -c 0; exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(&self.program).args(&self.arguments);
        command.current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env_remove("EXTENSOR_MUTANT").env_remove("EXTENSOR_MUTANTS_SEEN");
        if let Some(id) = mutant {
            command.env("EXTENSOR_MUTANT", id.to_string());
        }
        if let Some(file) = seen {
            command.env("EXTENSOR_MUTANTS_SEEN", file);
        }
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.name))?;
        let (send, lines) = mpsc::channel();
        let output = child.stdout.take();
        // It ends when the last process that writes there does, or when nobody listens.
        std::thread::spawn(move || {
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
        Ok(match ending {
            Some(ending) => ending,
            None if status.success() => Ending::Passed,
            None if status.to_string().contains("SIGXCPU") => Ending::TimedOut,
            None => Ending::Failed(status.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(script: &str) -> Ending {
        let suite = Suite::new("sh", Path::new("sh"), &["-c", script], Path::new("/"));
        suite.run(Some(7), 0.0, None).unwrap()
    }

    #[test]
    fn a_suite_passes_fails_by_a_line_or_fails_by_its_status() {
        assert!(matches!(ending("test \"$EXTENSOR_MUTANT\" = 7"), Ending::Passed));
        assert!(matches!(ending("exit 3"), Ending::Failed(why) if why.contains('3')));
        assert!(matches!(ending("kill -XCPU $$"), Ending::TimedOut));
        // What comes behind the line is not waited for.
        let started = Instant::now();
        let failed = ending("echo 'exp FAILED'; exec sleep 100");
        assert!(matches!(failed, Ending::Failed(why) if why == "exp FAILED"));
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
