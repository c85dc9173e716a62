//! Several tensors by name in one `.npz` file.

use super::zip::{Entry, Writer, entries};
use super::{Wrong, from_reader, header};
use crate::autodiff::Path as Place;
use crate::io::safetensors::{name_at, write_elements};
use crate::io::{atomic, fault, shown};
use crate::{Error, Result, Tensor, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::Path;

const READ: &str = "npy::read_npz";
const WRITE: &str = "npy::write_npz";

/// Reads all tensors of a `.npz` file, packed or not. Entries that are no `.npy` are passed over.
pub fn read_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    let name = shown(path.as_ref());
    let mut file = File::open(path.as_ref()).map_err(|error| fault(READ, &name, error))?;
    from_archive(&name, &mut file)
}

/// Reads the bytes of a `.npz` file.
pub fn parse_npz(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    from_archive("the bytes", &mut Cursor::new(bytes))
}

fn from_archive(file: &str, archive: &mut (impl Read + Seek)) -> Result<BTreeMap<String, Tensor>> {
    let named = |wrong: Wrong| wrong.named(|reason| fault(READ, file, reason));
    let mut tensors = BTreeMap::new();
    for entry in entries(archive).map_err(named)? {
        let Some(name) = entry.name.strip_suffix(".npy") else {
            continue;
        };
        let in_file = |reason: String| Error::TensorInFile {
            op: READ,
            file: file.into(),
            tensor: name.into(),
            reason,
        };
        let wrong =
            |wrong: Wrong| wrong.named(|reason| in_file(format!("cannot be read: {reason}")));
        let x = read_entry(&entry, archive).map_err(wrong)?;
        if tensors.insert(name.to_string(), x).is_some() {
            return Err(in_file("is there twice".into()));
        }
    }
    Ok(tensors)
}

fn read_entry(
    entry: &Entry,
    archive: &mut (impl Read + Seek),
) -> std::result::Result<Tensor, Wrong> {
    entry.read(archive, |bytes| from_reader(bytes, entry.size))
}

/// Writes a tree's tensors to a `.npz` file, atomically, under their names.
///
/// ```
/// use extensor::{io::npy, tensor};
/// use std::collections::BTreeMap;
/// # let path = std::env::temp_dir().join(format!("extensor-doc-{}.npz", std::process::id()));
/// let tensors = BTreeMap::from([("x".to_string(), tensor([1u8, 2])), ("y".to_string(), tensor(0.5))]);
/// npy::write_npz(&path, &tensors)?; // numpy.load(path)["x"]
/// assert_eq!(npy::read_npz(&path)?["x"].to_vec::<u8>()?, [1, 2]);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn write_npz<T: Tree>(path: impl AsRef<Path>, tree: &T) -> Result<()> {
    let path = path.as_ref();
    let mut tensors = Vec::new();
    let mut names = BTreeSet::new();
    tree.visit(&Place::ROOT, &mut |place, x| {
        let name = name_at("", place);
        if !names.insert(name.clone()) {
            let (file, reason) = (shown(path), "is there twice".into());
            return Err(Error::TensorInFile { op: WRITE, file, tensor: name, reason });
        }
        tensors.push((name, x));
        Ok(())
    })?;
    atomic::write(path, |file| {
        let mut writer = Writer::new(file);
        for (name, x) in &tensors {
            writer.entry(&format!("{name}.npy"), |file| {
                file.write_all(&header::bytes(x))?;
                write_elements(file, x)
            })?;
        }
        writer.finish()
    })
}
