//! A Python process that times PyTorch when asked.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// PyTorch at work.
pub struct Peer {
    /// Its version.
    pub version: String,
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it, if this Python has torch.
    pub fn start(python: &str, threads: usize) -> Option<Peer> {
        let mut process = Command::new(python)
            .args(["-c", include_str!("../torch_peer.py"), &threads.to_string()])
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
        Some(Peer { version, process, questions, answers })
    }

    /// The seconds that each of some repetitions of a workload took, after others for `warm`.
    pub fn time(&mut self, name: &str, repetitions: usize, warm: Duration) -> Option<Vec<f64>> {
        writeln!(self.questions, "{name} {repetitions} {}", warm.as_secs_f64()).ok()?;
        self.questions.flush().ok()?;
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
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
