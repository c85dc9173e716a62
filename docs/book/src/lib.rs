//! The book of ExTensor: from the pages in `docs/book/pages` and the generated reference to a folder of HTML that needs
//! no network, and what the tests need to run every block of the pages.

#![forbid(unsafe_code)]

pub mod assemble;
pub mod blocks;
pub mod compare;
pub mod links;
pub mod math;

use std::path::{Path, PathBuf};

/// The folder of this crate: pages, style and settings of the book.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The paths of all files below `folder` whose names end in `ending`, sorted.
///
/// # Errors
/// A folder cannot be read.
pub fn files(folder: &Path, ending: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
