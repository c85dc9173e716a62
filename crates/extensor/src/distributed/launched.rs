//! Whether this process is one of several that a launcher started.

use std::env;

/// What a launcher says about the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its number, from 0 on.
    pub rank: usize,
    /// How many processes there are.
    pub size: usize,
}

/// What launchers call a process's number and how many there are: Open MPI, MPICH and Intel MPI, MVAPICH.
/// (Slurm's own variables are there in any job, also for a program that was started once.)
const NAMES: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
];

/// What mpirun or a like launcher says about this process; `None` if there was none. It asks the environment
/// alone, so a program that was built without MPI can say that it should have been.
///
/// ```
/// // Nobody started the documentation's tests by mpirun.
/// assert_eq!(extensor::distributed::launched(), None);
/// ```
pub fn launched() -> Option<Launched> {
    launched_by(|name| env::var(name).ok())
}

fn launched_by(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name| variable(name)?.trim().parse().ok();
    let mut all = NAMES.iter().filter_map(|(rank, size)| {
        let (rank, size): (usize, usize) = (number(rank)?, number(size)?);
        (rank < size).then_some(Launched { rank, size })
    });
    all.next()
}
