//! A folder of checkpoints: the last few and the best, whatever happens while one is written.
//!
//! This module knows names of files and what to do when one does not load; it must not know what is in
//! them.

use super::claim::Claim;
use super::files::failed;
use crate::io::atomic;
use crate::io::safetensors::Contents;
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A folder of files `step-000000940.safetensors`.
///
/// ```
/// use extensor::{io::safetensors::{self, Contents}, tensor, train::Directory};
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-dir-{}", std::process::id()));
/// let checkpoints = Directory::open(&folder, 2)?;
/// for step in 1..=5 {
///     // The best is that of step 2.
///     checkpoints.save(step, Some(step.min(2)), &Contents::new().with("", &tensor([step as f32])))?;
/// }
/// assert_eq!(checkpoints.steps()?, [2, 4, 5]);
/// std::fs::write(checkpoints.path_of(5), "half a file").unwrap();
/// let found = checkpoints.newest(|path| safetensors::load(path)?.tensor("tensor"))?.unwrap();
/// assert_eq!((found.step, found.skipped.len()), (4, 1));
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    keep: usize,
    claim: Arc<Mutex<Option<Claim>>>,
}

/// The newest checkpoint that loads.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// Its step.
    pub step: u64,
    /// Its file.
    pub path: PathBuf,
    /// What was loaded.
    pub loaded: T,
    /// Newer files that do not load, with the reason.
    pub skipped: Vec<(PathBuf, Error)>,
}

impl Directory {
    /// The folder of this name, made if it is not there, in which the last `keep` checkpoints and the
    /// best are kept. Temporary files that a killed process left are removed.
    pub fn open(path: impl AsRef<Path>, keep: usize) -> Result<Directory> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(|error| failed("create", path, &error))?;
        atomic::clean(path)?;
        Ok(Directory { path: path.into(), keep: keep.max(1), claim: Arc::default() })
    }

    /// Makes the folder this process's own, as long as this value or a clone of it lasts; an error that
    /// names the other process if one trains in it. [`Trainer::fit`](super::Trainer::fit) does so; whoever writes
    /// beside it (metrics) should before.
    pub fn claim(&self) -> Result<()> {
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        if claim.is_none() {
            *claim = Some(Claim::on(&self.path)?);
        }
        Ok(())
    }

    /// The file of a step.
    pub fn path_of(&self, step: u64) -> PathBuf {
        self.path.join(format!("step-{step:09}.safetensors"))
    }

    /// The steps of which there are checkpoints, in order.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let mut steps = Vec::new();
        let listed =
            fs::read_dir(&self.path).map_err(|error| failed("read", &self.path, &error))?;
        for entry in listed {
            let entry = entry.map_err(|error| failed("read", &self.path, &error))?;
            let name = entry.file_name();
            let step = name.to_str().and_then(|n| n.strip_prefix("step-"));
            let step = step.and_then(|n| n.strip_suffix(".safetensors"));
            steps.extend(step.and_then(|digits| digits.parse::<u64>().ok()));
        }
        steps.sort_unstable();
        Ok(steps)
    }

    /// Writes the checkpoint of a step, and only then removes those that are neither among the last
    /// nor the best.
    pub fn save(&self, step: u64, best: Option<u64>, contents: &Contents<'_>) -> Result<PathBuf> {
        let path = self.path_of(step);
        contents.save(&path)?;
        self.tidy(best)?;
        Ok(path)
    }

    /// Removes the checkpoints that are neither among the last nor the best, which a process that was
    /// killed before it could may have left.
    pub fn tidy(&self, best: Option<u64>) -> Result<()> {
        let steps = self.steps()?;
        let old = steps.len().saturating_sub(self.keep);
        let old = steps.into_iter().take(old).filter(|&step| Some(step) != best);
        old.into_iter().try_for_each(|step| self.remove(step))
    }

    /// Removes the checkpoints after `step`: those of a run that went on from there before.
    pub fn forget_after(&self, step: u64) -> Result<()> {
        self.steps()?.into_iter().filter(|&s| s > step).try_for_each(|s| self.remove(s))
    }

    fn remove(&self, step: u64) -> Result<()> {
        let path = self.path_of(step);
        fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))
    }

    /// The newest checkpoint that `load` can load; `None` if there is no file. If there are files and
    /// none loads, the error of the newest.
    pub fn newest<T>(&self, mut load: impl FnMut(&Path) -> Result<T>) -> Result<Option<Found<T>>> {
        let mut skipped = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            let path = self.path_of(step);
            match load(&path) {
                Ok(loaded) => return Ok(Some(Found { step, path, loaded, skipped })),
                Err(error) => skipped.push((path, error)),
            }
        }
        match skipped.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(None),
        }
    }
}
