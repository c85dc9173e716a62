//! `mpirun -n N extensor train`: what the ranks of a run do differently, and what they tell each other.
//!
//! All ranks compute; the first also prints, draws and writes. This module must not know what is learnt.

use super::config::Settings;
use super::data::Data;
use super::network::Network;
use extensor::data::Dataset;
use extensor::distributed::Group;
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
    /// This rank's own reason, which it tells the others.
    Own(String),
    /// What all ranks found together.
    Together(String),
    /// Another rank's reason, or that there is no word from it.
    Other(Error),
}

impl From<String> for Failed {
    fn from(message: String) -> Failed {
        Failed::Own(message)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        match error {
            Error::Rank { .. } => Failed::Other(error),
            Error::Diverged { .. } => Failed::Together(error.to_string()),
            error => Failed::Own(error.to_string()),
        }
    }
}

/// The ranks that train together; `None` on a rank that has nothing to say about why they cannot.
#[cfg(feature = "mpi")]
pub fn group() -> Result<Option<Group>, String> {
    Group::mpi().map(Some).map_err(|error| error.to_string())
}

/// This process alone; an error under `mpirun`, which would train in one folder as often as it has ranks.
#[cfg(not(feature = "mpi"))]
pub fn group() -> Result<Option<Group>, String> {
    match mpi_ranks() {
        Some((rank, size)) if size > 1 => match rank {
            0 => Err(format!(
                "mpirun started {size} ranks, and this extensor was built to run alone: build it with `cargo build --release --features mpi`"
            )),
            _ => Ok(None),
        },
        _ => Ok(Some(Group::alone())),
    }
}

/// Which rank this process is, and of how many, if something like `mpirun` started it.
#[cfg(not(feature = "mpi"))]
fn mpi_ranks() -> Option<(usize, usize)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let names = [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), // Open MPI
        ("PMI_RANK", "PMI_SIZE"),                         // MPICH, Intel MPI
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),   // MVAPICH
    ];
    names.iter().find_map(|(rank, size)| Some((number(rank)?, number(size)?)))
}

/// Leaves the others, all work being done.
pub fn leave(group: &Group) -> Result<(), String> {
    let _ = group;
    Ok(())
}

/// Ends a run on all ranks: one of them says why. `None`: this is another.
pub fn explain(group: &Group, failed: Failed) -> Option<String> {
    match failed {
        Failed::Own(message) if group.size() == 1 => Some(message),
        Failed::Own(message) => {
            let reason = message.clone();
            group.fail(&Error::Check { op: "train".into(), reason });
            Some(format!("rank {}: {message}", group.rank()))
        }
        Failed::Together(message) => group.is_first().then_some(message),
        // It has said so itself.
        Failed::Other(Error::Rank { reason, .. }) if reason.starts_with("failed: ") => None,
        Failed::Other(error) => {
            // The first that is left, if one is gone.
            let gone = matches!(error, Error::Rank { rank: 0, .. });
            (group.rank() == usize::from(gone)).then(|| error.to_string())
        }
    }
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
