//! Shards in a folder, told apart by their names.
//!
//! This module must not know what is in the files.

use super::{Rows, StoredPairs};
use crate::Result;
use crate::io::{fault, safetensors, shown};
use std::path::{Path, PathBuf};

const OP: &str = "stored::find";
const TRAIN: &[&str] = &["train"];
const TEST: &[&str] = &["t10k", "test"];
const INPUTS: [&str; 2] = ["images", "inputs"];
const TARGETS: [&str; 2] = ["labels", "targets"];

/// The shards of a folder to train on, with `train` in their names, and those to test with, with `test`
/// or `t10k`: each part as [`find`] finds it.
pub fn folder(folder: impl AsRef<Path>) -> Result<(StoredPairs, StoredPairs)> {
    Ok((find(&folder, TRAIN)?, find(&folder, TEST)?))
}

/// The shards of a folder that have one of these words in their names; `""` is in all of them.
///
/// They are `.npy` or IDX files (with `idx` in their names) of which those with `images` or `inputs` in
/// their names have the inputs and those with `labels` or `targets` the targets, a file for each; or
/// `.safetensors` files, each with two tensors called so. They follow one another in the order of their
/// names, in which a number counts as such: 9 before 10. Other files are not looked at.
///
/// ```
/// use extensor::data::{Dataset, stored};
/// use extensor::{io::npy, tensor};
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-find-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// for part in 0..2 {
///     npy::write(folder.join(format!("train-images-{part}.npy")), &tensor([[[part as u8; 4]; 4]; 3]))?;
///     npy::write(folder.join(format!("train-labels-{part}.npy")), &tensor([0u8, 1, 2]))?;
/// }
/// let train = stored::find(&folder, &["train"])?.images()?;
/// assert_eq!((train.len(), train.size()), (6, [1, 4, 4]));
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn find(folder: impl AsRef<Path>, words: &[&str]) -> Result<StoredPairs> {
    let folder = folder.as_ref();
    let failed = |reason: String| fault(OP, &shown(folder), reason);
    let names = names(folder)?;
    let has = |name: &str, words: &[&str]| {
        let name = name.to_lowercase();
        words.iter().any(|word| name.contains(word))
    };
    let of = |kind: fn(&str) -> bool| -> Vec<&String> {
        names.iter().filter(|name| kind(name) && has(name, words)).collect()
    };
    let (both, arrays) = (of(is_safetensors), of(is_array));
    let asked = words.join("\" or \"");
    if !both.is_empty() && !arrays.is_empty() {
        let (a, b) = (both[0], arrays[0]);
        return Err(failed(format!("it has {a:?} and {b:?}, expected one kind of shards")));
    }
    if !both.is_empty() {
        let paths: Vec<PathBuf> = both.iter().map(|name| folder.join(name)).collect();
        let file = safetensors::load(&paths[0])?;
        let tensor = |names: [&'static str; 2]| {
            names.into_iter().find(|name| file.info(name).is_some()).ok_or_else(|| {
                let [a, b] = names;
                fault(OP, &shown(&paths[0]), format!("it has no tensor {a:?} or {b:?}"))
            })
        };
        let (inputs, targets) = (tensor(INPUTS)?, tensor(TARGETS)?);
        let pair = (Rows::named(&paths, inputs)?, Rows::named(&paths, targets)?);
        return together(pair, |i| (both[i], both[i])).map_err(failed);
    }
    let part = |kind: [&str; 2]| -> Result<Vec<&String>> {
        let found: Vec<&String> = arrays.iter().copied().filter(|n| has(n, &kind)).collect();
        match found.is_empty() {
            false => Ok(found),
            true => {
                let [a, b] = kind;
                let text = format!(
                    "it has no .npy, IDX or safetensors file with \"{asked}\" and \"{a}\" or \"{b}\" in its name"
                );
                Err(failed(text))
            }
        }
    };
    let (inputs, targets) = (part(INPUTS)?, part(TARGETS)?);
    if inputs.len() != targets.len() {
        let (n, m) = (inputs.len(), targets.len());
        return Err(failed(format!("it has {n} files of inputs and {m} of targets: {asked:?}")));
    }
    let open = |names: &[&String]| {
        let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        Rows::open(&paths)
    };
    together((open(&inputs)?, open(&targets)?), |i| (inputs[i], targets[i])).map_err(failed)
}

/// The pairs, if every shard has as many inputs as targets.
fn together<'a>(
    (inputs, targets): (Rows, Rows),
    names: impl Fn(usize) -> (&'a String, &'a String),
) -> std::result::Result<StoredPairs, String> {
    for (i, (n, m)) in inputs.shards().zip(targets.shards()).enumerate() {
        if n != m {
            let (a, b) = names(i);
            return Err(format!("{a:?} has {n} inputs, and {b:?} has {m} targets"));
        }
    }
    StoredPairs::new(inputs, targets).map_err(|error| error.to_string())
}

/// Whether a folder holds shards rather than one IDX file for each of the four parts of a data set like
/// MNIST: `.npy` or `.safetensors` files, or several IDX files of pictures to train on.
pub fn is_sharded(folder: impl AsRef<Path>) -> bool {
    let Ok(names) = names(folder.as_ref()) else { return false };
    let names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let train =
        |name: &&String| is_array(name) && name.contains("train") && name.contains("images");
    names.iter().any(|name| is_safetensors(name) || name.ends_with(".npy"))
        || names.iter().filter(train).count() > 1
}

fn is_safetensors(name: &str) -> bool {
    name.to_lowercase().ends_with(".safetensors")
}

fn is_array(name: &str) -> bool {
    let name = name.to_lowercase();
    name.ends_with(".npy") || name.contains("idx")
}

/// The names of all that is in a folder, in their order.
fn names(folder: &Path) -> Result<Vec<String>> {
    let failed = |error: std::io::Error| fault(OP, &shown(folder), error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort_by(|a, b| counted(a).cmp(&counted(b)).then(a.cmp(b)));
    Ok(names)
}

/// A name as texts and numbers in turn, for comparing.
fn counted(name: &str) -> Vec<(&str, Option<u128>)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(text);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(digits);
        // No digits are less than any; a number of 39 and more is larger than those that can be told apart.
        let number =
            if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(u128::MAX)) };
        parts.push((text, number));
        rest = after;
    }
    parts
}
