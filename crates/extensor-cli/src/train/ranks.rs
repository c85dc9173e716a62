//! `mpirun -n N extensor train`: what the ranks of a run do differently, and what they tell each other.
//!
//! All ranks compute; the first also prints, draws and writes. This module must not know what is learnt.

use super::config::Settings;
use super::data::Data;
use super::network::Network;
use extensor::data::Dataset;
#[cfg(not(feature = "mpi"))]
use extensor::distributed::Launched;
use extensor::distributed::{Group, launched};
use extensor::train::{Flow, Hooks, StepReport};
use extensor::{Error, Key};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many examples of a data set are compared between ranks.
const COMPARED: usize = 64;

/// Why a run ended.
#[derive(Debug)]
pub enum Failed {
    /// This rank's own reason.
    Own(String),
    /// What all ranks found together.
    Together(String),
    /// What the library says.
    Library(Error),
}

impl From<String> for Failed {
    fn from(message: String) -> Failed {
        Failed::Own(message)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Library(error)
    }
}

/// The ranks that train together; `None` on a rank that leaves it to another to say why they cannot.
#[cfg(feature = "mpi")]
pub fn group() -> Result<Option<Group>, String> {
    match launched() {
        None => Ok(Some(Group::alone())),
        Some(_) => Group::mpi().map(Some).map_err(|error| error.to_string()),
    }
}

/// This process alone; an error under `mpirun`, which would train in one folder as often as it has ranks.
#[cfg(not(feature = "mpi"))]
pub fn group() -> Result<Option<Group>, String> {
    match launched() {
        Some(Launched { rank: 0, size }) if size > 1 => Err(format!(
            "mpirun started {size} ranks, and this extensor was built to run alone: build it with `cargo build --release --features mpi`"
        )),
        Some(Launched { size, .. }) if size > 1 => Ok(None),
        _ => Ok(Some(Group::alone())),
    }
}

/// Ends a run on all ranks. One of them is given the words for it.
pub fn explain(group: &Group, failed: Failed) -> Option<String> {
    let program = |reason: &String| Error::Check { op: "train".into(), reason: reason.clone() };
    let several = group.size() > 1;
    let own = |reason: String| match several {
        true => format!("rank {}: {reason}", group.rank()),
        false => reason,
    };
    let (error, words) = match failed {
        Failed::Own(reason) => (program(&reason), own(reason)),
        Failed::Together(reason) => (program(&reason), reason),
        Failed::Library(error @ Error::Rank { .. }) => (error.clone(), error.to_string()),
        Failed::Library(error) => (error.clone(), own(error.to_string())),
    };
    (!several || group.fail(&error)).then_some(words)
}

/// A text of the first rank, on all.
pub fn of_first(group: &Group, text: &str) -> Result<String, Error> {
    let bytes = group.broadcast_bytes(text.as_bytes(), 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How many threads a rank takes if nobody says: those of the machine are shared out, unless `mpirun` has
/// bound each rank to some.
pub fn threads(settings: &Settings) -> Option<usize> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let said = settings.threads.is_some() || std::env::var_os("EXTENSOR_THREADS").is_some();
    if said || number("OMPI_MCA_orte_bound_at_launch") == Some(1) {
        return None;
    }
    let here = number("OMPI_COMM_WORLD_LOCAL_SIZE").or(number("MPI_LOCALNRANKS"))?;
    (here > 1).then(|| (extensor::threads::get() / here).max(1))
}

/// An error that says who differs in what, unless all ranks run the same program with the same settings on
/// the same data.
pub fn expect_same(group: &Group, settings: &Settings, data: &Data) -> Result<(), Failed> {
    if group.size() == 1 {
        return Ok(());
    }
    let settings = settings.of_results().text()?;
    let data = format!(
        "{}: {}, {}",
        data.name,
        digest(&*data.train).map_err(|error| error.to_string())?,
        digest(&*data.test).map_err(|error| error.to_string())?
    );
    let version = env!("CARGO_PKG_VERSION");
    let facts = [("the version", version), ("the settings", &*settings), ("the data", &*data)];
    Ok(group.expect_same("train", &facts)?)
}

/// How many examples there are, and a digest of some.
fn digest(data: &dyn Dataset) -> extensor::Result<String> {
    let count = data.len().min(COMPARED);
    let some: Vec<usize> = (0..count).map(|i| i * data.len() / count.max(1)).collect();
    let mut hasher = DefaultHasher::new();
    if count > 0 {
        let batch = data.batch(&some, Key::new(0))?;
        hasher.write(&batch.inputs.to_bytes()?);
        hasher.write(&batch.targets.to_bytes()?);
    }
    Ok(format!("{} examples with the digest {:016x}", data.len(), hasher.finish()))
}

/// The hooks of a rank that shows and writes nothing; it can be told to stop as any other.
pub struct Silent(pub Arc<AtomicBool>);

impl Hooks<Network> for Silent {
    fn step(&mut self, _: &StepReport) -> extensor::Result<Flow> {
        Ok(if self.0.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue })
    }
}
