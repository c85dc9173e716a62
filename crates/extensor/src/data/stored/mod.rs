//! Data sets larger than memory: their examples stay in files and are read when a batch needs them.
//!
//! Files are IDX, `.npy` or safetensors, one array after another: *shards* (see [`Rows`]). What a batch holds is bit for bit
//! what the data set in memory would have given.
//!
//! Rows are read where they are wanted, by calls that name a place in the file, and not by mapping the
//! file into memory: of a mapped file that is cut short meanwhile, the next look at what is gone ends
//! the process, and there is nothing a library could do about it. Here it is an error that names the
//! file and the example. The pages that were read stay in the system's cache, just as those of a mapped
//! file do (decision 12 in the repository, `docs/decisions/0012-read-not-mapped.md`).
//!
//! This module must not know what is trained on its examples.

mod file;
mod folder;
mod images;
mod pairs;
mod rows;
mod windows;

pub use folder::{find, folder, is_sharded};
pub use images::StoredImages;
pub use pairs::StoredPairs;
pub use rows::Rows;
pub use windows::StoredWindows;
