//! Files that are there whole or not at all, whatever happens while they are written; and what is no
//! file (a device, a pipe) written through.
//!
//! This module must not know what is in them.

use super::{fault, shown};
use crate::{Error, Result};
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = ".extensor-";
const SUFFIX: &str = ".tmp";

/// Writes the file that `fill` fills, so that whoever opens `path`, at any moment, even after a crash
/// or a power cut, finds the old file or the new one and never a part of one.
///
/// The bytes go to a temporary file in the same directory, which is brought to the disk, given the
/// name and made to last by bringing the directory to the disk too. After an error the temporary file
/// is gone and the old file is as it was; after a kill the temporary file is left over, for [`clean`].
///
/// A file that was there before keeps its permissions, and its owner where the system allows that. A
/// symbolic link stays, and what it points to is written, or made if it is not there. What is no file
/// is written through as it is: a device, a named pipe, the standard output as `/dev/stdout`.
///
/// An [`Error`] of this library that `fill` wraps by [`io::Error::other`] comes back as it was.
///
/// ```
/// use extensor::io::atomic;
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-atomic-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let path = folder.join("notes.txt");
/// atomic::write(&path, |file| writeln!(file, "epoch {}", 3))?;
/// assert!(atomic::write(&path, |_| Err(std::io::Error::other("the pen broke"))).is_err());
/// assert_eq!(std::fs::read_to_string(&path).unwrap(), "epoch 3\n");
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn write(
    path: impl AsRef<Path>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    let failed = |error: io::Error| match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => fault("atomic::write", &shown(path), error),
    };
    match place(path).map_err(failed)? {
        Place::File(target, old) => replace(&target, old.as_ref(), fill).map_err(failed),
        Place::Stream(output) => {
            let stream = open_stream(path, output).map_err(failed)?;
            let mut buffered = BufWriter::with_capacity(1 << 16, stream);
            fill(&mut buffered).and_then(|()| buffered.flush()).map_err(failed)
        }
        Place::Directory => {
            Err(fault("atomic::write", &shown(path), "this is a directory, expected a file"))
        }
    }
}

/// What a path leads to.
enum Place {
    /// A file of this name, with what is known of the one that is there; or none as yet.
    File(PathBuf, Option<Metadata>),
    /// Something that has no contents to be replaced; perhaps an output of this process.
    Stream(Option<Output>),
    Directory,
}

#[derive(Clone, Copy)]
enum Output {
    Standard,
    Error,
}

/// Opens what is written through.
fn open_stream(path: &Path, output: Option<Output>) -> io::Result<File> {
    // An output may be a file (a shell's `> file`), with a place where the next byte goes. That is what
    // is continued: opened anew it would have another such place.
    #[cfg(unix)]
    if let Some(output) = output {
        use std::os::fd::AsFd;
        let same = match output {
            Output::Standard => {
                io::stdout().flush()?;
                io::stdout().as_fd().try_clone_to_owned()
            }
            Output::Error => io::stderr().as_fd().try_clone_to_owned(),
        };
        return same.map(File::from);
    }
    let _ = output;
    OpenOptions::new().append(true).open(path)
}

/// The most symbolic links that are followed, as in Linux.
const LINKS: usize = 40;

/// Follows symbolic links, one after the other, to what is there or would be.
fn place(path: &Path) -> io::Result<Place> {
    let mut at = path.to_path_buf();
    for _ in 0..=LINKS {
        if at.file_name().is_none() {
            return Ok(Place::Directory);
        }
        let found = match fs::symlink_metadata(&at) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Place::File(at, None)),
            found => found?,
        };
        if !found.is_symlink() {
            return Ok(match found.file_type() {
                kind if kind.is_file() => Place::File(at, Some(found)),
                kind if kind.is_dir() => Place::Directory,
                _ => Place::Stream(None),
            });
        }
        // The system's links to what a process has open are no names of files.
        let directory = fs::canonicalize(directory_of(&at))?;
        if directory.starts_with("/proc") {
            let own = fs::canonicalize("/proc/self/fd").is_ok_and(|own| own == directory);
            let output = match at.file_name().and_then(|name| name.to_str()) {
                Some("1") if own => Some(Output::Standard),
                Some("2") if own => Some(Output::Error),
                _ => None,
            };
            return match fs::metadata(&at)?.is_dir() {
                true => Ok(Place::Directory),
                false => Ok(Place::Stream(output)),
            };
        }
        at = directory.join(fs::read_link(&at)?);
    }
    Err(io::Error::other("its symbolic links lead in a circle"))
}

/// Puts a file that `fill` fills in the place of an old one, or where none is.
fn replace(
    target: &Path,
    old: Option<&Metadata>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let directory = directory_of(target);
    let mut temporary = Temporary::create(directory)?;
    // Before anything is in it that not everybody may read.
    if let Some(old) = old {
        keep_access(&temporary.file, old)?;
    }
    let mut buffered = BufWriter::with_capacity(1 << 16, &temporary.file);
    fill(&mut buffered).and_then(|()| buffered.flush())?;
    // The buffer is empty; dropping it writes nothing.
    drop(buffered);
    temporary.file.sync_all()?;
    fs::rename(&temporary.path, target)?;
    temporary.renamed = true;
    sync_directory(directory)
}

/// Gives a file the owner, where the system allows that, and the permissions of another.
fn keep_access(file: &File, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            // Only the administrator may give files away; a group of one's own may be kept.
            let _ = fchown(file, Some(old.uid()), Some(old.gid()))
                .or_else(|_| fchown(file, None, Some(old.gid())));
        }
    }
    file.set_permissions(old.permissions())
}

/// Removes the temporary files that killed processes left in a directory, and says how many. Those
/// of writes that are under way, in any process, are left alone.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-clean-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// std::fs::write(folder.join(".extensor-4711-0.tmp"), "half a checkp").unwrap();
/// assert_eq!(extensor::io::atomic::clean(&folder)?, 1);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn clean(directory: impl AsRef<Path>) -> Result<usize> {
    let directory = directory.as_ref();
    let failed = |error: io::Error| fault("atomic::clean", &shown(directory), error);
    let mut removed = 0;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().to_str().is_some_and(is_ours) {
            continue;
        }
        // The lock is held until the file is gone, or its writer could take it up meanwhile.
        if let Some(_locked) = abandoned(&entry.path()) {
            match fs::remove_file(entry.path()) {
                Ok(()) => removed += 1,
                // Another process cleans too.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(removed)
}

/// Whether a file name is one that [`Temporary::create`] makes.
fn is_ours(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    numbers.and_then(|n| n.split_once('-')).is_some_and(|(pid, count)| number(pid) && number(count))
}

/// The file, locked, if nobody writes it any more: its writer's lock ended with its process.
fn abandoned(path: &Path) -> Option<File> {
    File::open(path).ok().filter(|file| file.try_lock().is_ok())
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A file under a name of its own, which goes with this value unless it was renamed.
struct Temporary {
    path: PathBuf,
    file: File,
    renamed: bool,
}

impl Temporary {
    fn create(directory: &Path) -> io::Result<Temporary> {
        /// Keeps two writes of one process apart.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!("{PREFIX}{}-{count}{SUFFIX}", std::process::id()));
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => file,
                // Left over by a process that had our number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // The lock tells `clean` that the file is in use. If a cleaner was faster, take another.
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => continue,
                Ok(()) if !path.exists() => continue,
                // Where there are no locks, `clean` removes nothing.
                _ => return Ok(Temporary { path, file, renamed: false }),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // What cannot be removed now is left to `clean`.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes a new name in a directory outlast a power cut.
fn sync_directory(directory: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(directory)?.sync_all() {
        // Some file systems have nothing to bring to the disk.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Ok(())
        }
        result => result,
    }
}
