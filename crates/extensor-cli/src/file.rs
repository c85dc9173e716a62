//! Files that are whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file so that no one ever sees half of it: into a new file beside it, which then takes
/// its name. Something that is not a regular file, such as a pipe, is written to directly.
pub fn write(path: &Path, contents: &str) -> Result<(), String> {
    let attempt = || -> io::Result<()> {
        // A link's target is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        match fs::metadata(&target) {
            Ok(found) if found.is_dir() => Err(io::Error::other("it is a directory")),
            Ok(found) if !found.is_file() => {
                let mut there = OpenOptions::new().write(true).open(&target)?;
                there.write_all(contents.as_bytes())
            }
            _ => replace(&target, contents),
        }
    };
    attempt().map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn replace(target: &Path, contents: &str) -> io::Result<()> {
    let name = target.file_name().ok_or_else(|| io::Error::other("it has no file name"))?;
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = folder.join(beside);
    let fill = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        file.write_all(contents.as_bytes())?;
        file.sync_all()?;
        drop(file);
        fs::rename(&beside, target)?;
        // The new name must survive a crash too; not every file system can promise it.
        let _ = File::open(&folder).and_then(|folder| folder.sync_all());
        Ok(())
    };
    fill().inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}
