//! Checkpoints, as the program finds and reads them.

use super::checkpoints;
use super::config::Settings;
use super::data::Task;
use super::network::Network;
use extensor::Key;
use extensor::io::safetensors::{self, File};
use extensor::train::{Directory, Found, State, expect_checkpoint};
use std::path::{Path, PathBuf};

/// What a checkpoint says about itself.
pub struct Saved {
    /// Its file.
    pub path: PathBuf,
    /// The settings it was trained with.
    pub settings: Settings,
    /// What it has learnt.
    pub task: Task,
    /// The file, opened.
    pub file: File,
}

/// Whether a folder holds a run.
pub fn exists(folder: &Path) -> bool {
    let folder = checkpoints(folder);
    folder.is_dir()
        && Directory::open(folder, 1).and_then(|d| d.steps()).is_ok_and(|s| !s.is_empty())
}

/// Reads what a checkpoint says about itself.
pub fn open(path: &Path) -> Result<Saved, String> {
    let file = safetensors::load(path).map_err(|error| error.to_string())?;
    let shown = path.display();
    let about = |name: &str| {
        let text = file.metadata().get(name);
        text.ok_or_else(|| format!("{shown} is no checkpoint of extensor: it has no {name:?}"))
    };
    expect_checkpoint(&file).map_err(|error| format!("{shown}: {error}"))?;
    let settings = Settings::parse(about("config")?).map_err(|e| format!("{shown}: {e}"))?;
    let task = serde_json::from_str(about("task")?);
    let task = task.map_err(|error| format!("{shown}: the task in it cannot be read: {error}"))?;
    Ok(Saved { path: path.into(), settings, task, file })
}

fn directory(folder: &Path) -> Result<Directory, String> {
    let checkpoints = checkpoints(folder);
    if !checkpoints.is_dir() {
        return Err(format!("{} is no folder of a run: it has no checkpoints", folder.display()));
    }
    Directory::open(checkpoints, 1).map_err(|error| error.to_string())
}

/// The newest checkpoint of a run that can be opened.
pub fn newest(folder: &Path) -> Result<Saved, String> {
    let directory = directory(folder)?;
    let mut first = None;
    for step in directory.steps().map_err(|error| error.to_string())?.into_iter().rev() {
        match open(&directory.path_of(step)) {
            Ok(saved) => return Ok(saved),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| format!("{} holds no checkpoint", folder.display())))
}

/// The checkpoint that is meant by a folder of a run, its best one, or by a file.
pub fn chosen(path: &Path) -> Result<Saved, String> {
    if !path.is_dir() {
        return open(path);
    }
    let newest = newest(path)?;
    let best = newest.file.metadata().get("best_step").and_then(|step| step.parse().ok());
    let best = best.map(|step| directory(path).and_then(|d| open(&d.path_of(step))));
    Ok(best.and_then(Result::ok).unwrap_or(newest))
}

/// The state that a run goes on from.
pub fn resume(
    folder: &Path,
    template: State<Network>,
    task: &Task,
) -> Result<Found<State<Network>>, String> {
    let mut other = None;
    let load = |path: &Path| {
        let saved = open(path).map_err(|reason| extensor::Error::File {
            op: "resume",
            file: path.display().to_string(),
            reason,
        })?;
        if saved.task != *task {
            other = Some(format!("{} has learnt other data than this", path.display()));
        }
        template.clone().load(&saved.file)
    };
    let found = directory(folder)?.newest(load).map_err(|error| error.to_string())?;
    if let Some(other) = other {
        return Err(other);
    }
    found.ok_or_else(|| format!("{} holds no checkpoint", folder.display()))
}

impl Saved {
    /// The network in the checkpoint: the moving average if there is one.
    pub fn network(&self) -> Result<Network, String> {
        let template = Network::new(&self.settings, &self.task, Key::new(0))?;
        let averaged = self.file.names().any(|name| name.starts_with("average."));
        let part = self.file.under(if averaged { "average." } else { "model." });
        part.into_tree(&template).map_err(|error| error.to_string())
    }
}
