//! One process for one folder: a lock that the system releases, however the process ends.

use super::files::failed;
use crate::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// The file that is locked. It stays when the lock is gone.
const NAME: &str = ".lock";

/// A folder that is this process's to write in, until the value is dropped or the process ends.
///
/// ```
/// use extensor::train::Claim;
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-claim-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let claim = Claim::on(&folder)?;
/// let error = Claim::on(&folder).unwrap_err().to_string();
/// assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
/// drop(claim);
/// assert!(Claim::on(&folder).is_ok());
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Claim {
    _locked: File,
}

impl Claim {
    /// Claims a folder that is there; an error that names the other process if one has it.
    pub fn on(folder: impl AsRef<Path>) -> Result<Claim> {
        let folder = folder.as_ref();
        let path = folder.join(NAME);
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|error| failed("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => {
                let number = std::process::id().to_string();
                let noted = file.set_len(0).and_then(|()| file.write_all(number.as_bytes()));
                noted.map_err(|error| failed("write to", &path, &error))?;
            }
            Err(TryLockError::WouldBlock) => return Err(taken(folder, &mut file)),
            // A file system without locks keeps nobody apart, as before.
            Err(TryLockError::Error(_)) => {}
        }
        Ok(Claim { _locked: file })
    }
}

#[cold]
fn taken(folder: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    // What cannot be read, or is not written yet, is nobody's number.
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let number = read.ok().and_then(|_| text.trim().parse::<u32>().ok());
    let who = number.map_or("another process".into(), |number| format!("process {number}"));
    let reason = format!("{who} is training in this folder; wait until it ends, or take another");
    Error::File { op: "train", file: folder.display().to_string(), reason }
}
