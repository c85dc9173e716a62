//! Lines for people and pipes.

use std::io::{self, Write};

/// Standard output that survives its reader: when the pipe is closed nothing more is written, and
/// the work goes on, since its verdict is the exit code.
#[derive(Default)]
pub struct Output {
    gone: bool,
    error: Option<io::Error>,
}

impl Output {
    /// Writes a line.
    pub fn line(&mut self, text: &str) {
        if self.gone || self.error.is_some() {
            return;
        }
        let mut stdout = io::stdout().lock();
        let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.gone = true,
            Err(error) => self.error = Some(error),
            Ok(()) => {}
        }
    }

    /// What went wrong with the writing, other than that nobody reads.
    pub fn finish(self) -> Result<(), String> {
        match self.error {
            Some(error) => Err(format!("cannot write to standard output: {error}")),
            None => Ok(()),
        }
    }
}
