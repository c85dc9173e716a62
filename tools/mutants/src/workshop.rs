//! A copy of the tree with all mutants in it, built once.
//!
//! The copy and its build are under `target/mutants`; the sources of the checkout are only read.

use crate::mutant::{Mutant, all};
use crate::plant::{Planted, plant};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Where everything that the tool makes is kept.
pub fn folder() -> PathBuf {
    root().join("target/mutants")
}

/// The files of the checkout, those that are not yet committed included.
pub fn files(root: &Path) -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let names = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    let mut files: Vec<String> =
        names.split('\0').filter(|n| !n.is_empty()).map(String::from).collect();
    files.retain(|name| root.join(name).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// What was built.
pub struct Build {
    /// The mutants, by number.
    pub mutants: Vec<Mutant>,
    /// The program `extensor`.
    pub program: PathBuf,
    /// The tests: a name, the executable, the folder to run it in.
    pub tests: Vec<(String, PathBuf, PathBuf)>,
}

/// The cargo profile: quick to build, and quick enough.
const PROFILE: [&str; 6] = [
    "profile.mutants.inherits='release'",
    "profile.mutants.opt-level=2",
    "profile.mutants.lto=false",
    "profile.mutants.codegen-units=16",
    "profile.mutants.debug=false",
    "profile.mutants.incremental=true",
];

const LIBRARIES: [(&str, &str); 2] = [
    ("crates/extensor-kernels/src/", "crate::mutants::on"),
    ("crates/extensor/src/", "::extensor_kernels::mutants::on"),
];

/// Where the names of mutants that do not compile are kept.
const UNVIABLE: &str = "unviable.json";

/// The mutants that did not compile when it was last tried.
pub fn unviable() -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(UNVIABLE)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Plants all mutants, drops those that do not compile, and builds the program and the tests.
pub fn build() -> Result<Build, String> {
    let (root, tree) = (root(), folder().join("tree"));
    let files = files(&root)?;
    let mut dropped = unviable();
    copy(&root, &tree, &files)?;
    loop {
        let mutants = all(&root, &files, &dropped)?;
        let planted = plant_all(&root, &tree, &mutants)?;
        eprintln!("{} mutants; compiling", mutants.len());
        let failed = blame(&tree, &planted, &mutants)?;
        if failed.is_empty() {
            let (program, tests) = compile(&tree)?;
            return Ok(Build { mutants, program, tests });
        }
        for &id in &failed {
            let mutant = &mutants[id as usize];
            if mutant.is_written() {
                return Err(format!(
                    "mutant {:?} does not compile: {}",
                    mutant.key, mutant.changed
                ));
            }
        }
        eprintln!("{} do not compile, and are dropped", failed.len());
        dropped.extend(failed.iter().map(|&id| mutants[id as usize].key.clone()));
        dropped.sort();
        let text = serde_json::to_string_pretty(&dropped).map_err(|error| error.to_string())?;
        write(&folder().join(UNVIABLE), text.as_bytes())?;
    }
}

/// Makes the copy equal to the checkout, leaving alone what is so already.
fn copy(root: &Path, tree: &Path, files: &[String]) -> Result<(), String> {
    let wanted: BTreeSet<PathBuf> = files.iter().map(|name| tree.join(name)).collect();
    let mut folders = vec![tree.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if !wanted.contains(&path) {
                std::fs::remove_file(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
    }
    for name in files.iter().filter(|name| !is_planted(name)) {
        let content = std::fs::read(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        write(&tree.join(name), &content)?;
    }
    Ok(())
}

fn is_planted(name: &str) -> bool {
    name.ends_with(".rs") && LIBRARIES.iter().any(|(library, _)| name.starts_with(library))
}

/// Writes a file unless it holds this already: cargo looks at times.
fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, content))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes the sources of the libraries with the mutants in them.
fn plant_all(
    root: &Path,
    tree: &Path,
    mutants: &[Mutant],
) -> Result<BTreeMap<String, Planted>, String> {
    let mut edits: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (id, mutant) in (0..).zip(mutants) {
        edits.entry(&mutant.file).or_default().push(mutant.edit(id));
    }
    let mut planted = BTreeMap::new();
    for name in files(root)?.iter().filter(|name| is_planted(name)) {
        let source =
            std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let library = LIBRARIES.iter().find(|(library, _)| name.starts_with(library));
        let switch = library.map_or("", |(_, switch)| switch);
        let mut new = plant(&source, edits.remove(name.as_str()).unwrap_or_default(), switch);
        if name == "crates/extensor-kernels/src/lib.rs" {
            new.text.push_str("\npub mod mutants;\n");
        }
        write(&tree.join(name), new.text.as_bytes())?;
        planted.insert(name.clone(), new);
    }
    let switch = tree.join("crates/extensor-kernels/src/mutants.rs");
    write(&switch, include_bytes!("../switch.rs"))?;
    Ok(planted)
}

fn cargo(tree: &Path, arguments: &[&str]) -> Result<(bool, Vec<Value>), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree).args(arguments).args([
        "--profile",
        "mutants",
        "--message-format",
        "json",
    ]);
    for setting in PROFILE {
        command.args(["--config", setting]);
    }
    command.env("CARGO_TARGET_DIR", folder().join("build")).env("RUSTFLAGS", "-Awarnings");
    command.stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok((output.status.success(), messages))
}

/// The mutants that do not compile.
fn blame(
    tree: &Path,
    planted: &BTreeMap<String, Planted>,
    mutants: &[Mutant],
) -> Result<BTreeSet<u32>, String> {
    let (succeeded, messages) =
        cargo(tree, &["check", "-p", "extensor-kernels", "-p", "extensor"])?;
    let mut failed = BTreeSet::new();
    if succeeded {
        return Ok(failed);
    }
    let mut unclear = Vec::new();
    for message in messages.iter().filter(|m| m["message"]["level"] == "error") {
        let mut spans = Vec::new();
        spans_of(&message["message"], &mut spans);
        let named =
            |span: &&&Value| span["file_name"].as_str().is_some_and(|f| planted.contains_key(f));
        let found = spans.iter().filter(named).find_map(|span| {
            let byte = |end: &str| span[end].as_u64().map(|b| b as usize);
            let at = byte("byte_start")?..byte("byte_end")?;
            let ids = planted[span["file_name"].as_str()?].blamed(at);
            (!ids.is_empty()).then_some(ids)
        });
        match found {
            Some(ids) => failed.extend(ids),
            None => unclear.push(message["message"]["rendered"].as_str().unwrap_or("").to_string()),
        }
    }
    if failed.is_empty() {
        let mutants = mutants.len();
        return Err(format!(
            "the tree with {mutants} mutants does not compile:\n{}",
            unclear.join("\n")
        ));
    }
    Ok(failed)
}

/// The places that an error names: the primary ones first, then those it came from, then the notes.
fn spans_of<'m>(message: &'m Value, spans: &mut Vec<&'m Value>) {
    let own = || message["spans"].as_array().into_iter().flatten();
    spans.extend(own().filter(|s| s["is_primary"] == true));
    spans.extend(own().filter(|s| s["is_primary"] != true));
    for span in own() {
        let mut from = &span["expansion"];
        while !from.is_null() {
            spans.push(&from["span"]);
            from = &from["span"]["expansion"];
        }
    }
    for child in message["children"].as_array().into_iter().flatten() {
        spans_of(child, spans);
    }
}

const PACKAGES: [&str; 6] = ["-p", "extensor-kernels", "-p", "extensor", "-p", "extensor-cli"];

type Suites = Vec<(String, PathBuf, PathBuf)>;

fn compile(tree: &Path) -> Result<(PathBuf, Suites), String> {
    let (built, mut messages) = cargo(tree, &["build", "-p", "extensor-cli"])?;
    let arguments: Vec<&str> =
        ["test", "--no-run", "--tests"].into_iter().chain(PACKAGES).collect();
    let (tested, more) = cargo(tree, &arguments)?;
    messages.extend(more);
    if !(built && tested) {
        let errors = messages.iter().filter_map(|m| m["message"]["rendered"].as_str());
        return Err(format!("the tests do not compile:\n{}", errors.collect::<String>()));
    }
    let (mut program, mut tests) = (None, Vec::new());
    for message in &messages {
        let (Some(executable), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let name = message["target"]["name"].as_str().unwrap_or("");
        let home = Path::new(manifest).parent().unwrap_or(tree).to_path_buf();
        let package = home.file_name().map(|n| n.to_string_lossy().to_string()).unwrap_or_default();
        if message["profile"]["test"] == true {
            tests.push((format!("{package}/{name}"), PathBuf::from(executable), home));
        } else if name == "extensor" {
            program = Some(PathBuf::from(executable));
        }
    }
    tests.sort();
    tests.dedup();
    Ok((program.ok_or("the program extensor was not built")?, tests))
}
