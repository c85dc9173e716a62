//! Files: safetensors, NumPy's, and that they are there whole or not at all.

mod atomic;
mod fuzz;
mod npy;
mod safetensors;

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A new folder, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// Under this name.
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("extensor-io-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// All file names in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file that `tests/fixtures/make.py` wrote.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// What the variable says in a process that a test started to run itself; nothing in the others.
pub fn asked(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

/// This program again, with only one test, after a shell has set limits.
pub fn again(test: &str, limits: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{limits} exec \"$0\" \"$@\""));
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(variable, value).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
