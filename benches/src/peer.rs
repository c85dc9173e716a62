//! Python processes that time other libraries when asked.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A library to compare with.
pub struct Kind {
    /// What the command line calls it.
    pub word: &'static str,
    /// What the table calls it.
    pub title: &'static str,
    script: &'static str,
}

/// All of them.
pub const KINDS: [Kind; 3] = [
    Kind { word: "torch", title: "PyTorch", script: include_str!("../torch_peer.py") },
    Kind { word: "compile", title: "torch.compile", script: include_str!("../torch_peer.py") },
    Kind { word: "jax", title: "JAX jit", script: include_str!("../jax_peer.py") },
];

/// A library at work.
pub struct Peer {
    pub kind: &'static Kind,
    /// Its version.
    pub version: String,
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it, if this Python has the library.
    pub fn start(kind: &'static Kind, python: &str, threads: usize) -> Option<Peer> {
        let mut process = Command::new(python)
            .args(["-c", kind.script, &threads.to_string(), kind.word])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let questions = process.stdin.take()?;
        let mut answers = BufReader::new(process.stdout.take()?);
        let mut greeting = String::new();
        answers.read_line(&mut greeting).ok()?;
        let version = greeting.trim().strip_prefix("ready ")?.to_string();
        Some(Peer { kind, version, process, questions, answers })
    }

    /// The seconds that each of some repetitions of a workload took, after others for `warm`; nothing if
    /// it has no such workload.
    pub fn time(&mut self, name: &str, repetitions: usize, warm: Duration) -> Option<Vec<f64>> {
        writeln!(self.questions, "{name} {repetitions} {}", warm.as_secs_f64()).ok()?;
        self.questions.flush().ok()?;
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        if let Some(error) = line.strip_prefix("error ") {
            eprintln!("{} on {name}: {}", self.kind.title, error.trim());
            return None;
        }
        line.split_whitespace().map(|t| t.parse().ok()).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
