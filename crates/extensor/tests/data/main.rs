//! Data sets: their formats, and the loader.

mod formats;
mod images;
mod loader;
mod shuffle;
mod stored;
mod tables;

use std::io::Write;
use std::path::PathBuf;

/// A new folder, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// Under this name.
    pub fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("extensor-data-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Gzipped.
pub fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
