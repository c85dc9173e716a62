//! The mutants: those found in the sources and those written by hand, of which a spread of both is
//! chosen that does not change when something else does.

use crate::find::{Scope, Site, sites};
use crate::plant::{Change, Edit, clash};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// A single change to the library.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What it is called, in results and explanations: file, function, kind and number, or its name
    /// in the list of those written by hand.
    pub key: String,
    /// The family of operations, `engine` or `kernels`.
    pub place: String,
    /// Which kind of change.
    pub kind: String,
    /// The file, from the root of the repository.
    pub file: String,
    /// The line.
    pub line: usize,
    /// What stands there.
    pub original: String,
    /// What the mutant puts there.
    pub changed: String,
    /// Patterns of operations that would show it, if any do: they are checked first.
    pub hints: Vec<String>,
    edit: (Range<usize>, Change),
}

impl Mutant {
    /// Whether it is in a formula or a rule of an operation.
    pub fn is_rule(&self) -> bool {
        self.place != "engine" && self.place != "kernels"
    }

    /// Whether it was written by hand.
    pub fn is_written(&self) -> bool {
        matches!(self.edit.1, Change::Text(_))
    }

    /// The change to its file, as mutant number `id`.
    pub fn edit(&self, id: u32) -> Edit {
        Edit { id, range: self.edit.0.clone(), change: self.edit.1.clone() }
    }
}

/// The sources that are changed: where, what they are, and how many mutants of a file are chosen: one
/// of so many possible changes, and at most so many.
const SOURCES: [(&str, Scope, usize, usize); 8] = [
    ("crates/extensor/src/ops/calculus.rs", Scope::Engine, 5, 24),
    ("crates/extensor/src/ops/operation.rs", Scope::Engine, 3, 14),
    ("crates/extensor/src/ops/pointwise.rs", Scope::Engine, 4, 6),
    ("crates/extensor/src/ops/", Scope::Rules, 8, 12),
    ("crates/extensor/src/autodiff/tree.rs", Scope::Engine, 20, 1),
    ("crates/extensor/src/autodiff/", Scope::Engine, 4, 10),
    ("crates/extensor-kernels/src/math/", Scope::Kernels, 20, 2),
    ("crates/extensor-kernels/src/", Scope::Kernels, 10, 6),
];

/// What is not changed: lists, records, tests, memory, threads, and where numbers lie.
const LEFT_OUT: &[&str] = &[
    "ops/catalogue.rs",
    "ops/record.rs",
    "ops/samples.rs",
    "ops/params.rs",
    "ops/unary.rs",
    "ops/mod.rs",
    "attention/samples.rs",
    "src/lib.rs",
    "/tests.rs",
    "/tests/",
    "src/buffer.rs",
    "src/par.rs",
    "src/isa.rs",
    "src/stream.rs",
    "src/view.rs",
    "src/random.rs",
    "src/copy.rs",
    "src/native.rs",
    "gemm/tile.rs",
    "gemm/cut.rs",
    "gemm/pack.rs",
    "gemm/scratch.rs",
    "conv/patches.rs",
    "conv/geometry.rs",
];

/// A hand-written mutant, as it stands in the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    name: String,
    kind: String,
    file: String,
    /// Text that is in the file once.
    find: String,
    /// What stands there instead, with `MUTANT` for the switch; or what stands before or behind it.
    replace: Option<String>,
    before: Option<String>,
    after: Option<String>,
    #[serde(default)]
    hints: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    mutant: Vec<Written>,
}

const WRITTEN: &str = include_str!("../planted.toml");

/// Where a file belongs.
fn place(file: &str) -> String {
    match file.strip_prefix("crates/extensor/src/ops/") {
        Some(rest) if rest.contains('/') => rest.split('/').next().unwrap_or(rest).to_string(),
        _ if file.starts_with("crates/extensor-kernels/") => "kernels".into(),
        _ => "engine".into(),
    }
}

/// All mutants of the tree at `root` whose files are `files`, but for those whose keys are `not`.
pub fn all(root: &Path, files: &[String], not: &[String]) -> Result<Vec<Mutant>, String> {
    let read = |file: &str| {
        std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
    };
    let mut mutants = written(&read)?;
    for file in files {
        let Some((_, scope, one_of, most)) =
            SOURCES.iter().find(|(path, ..)| file.starts_with(path))
        else {
            continue;
        };
        if !file.ends_with(".rs") || LEFT_OUT.iter().any(|part| file.contains(part)) {
            continue;
        }
        let source = read(file)?;
        let found = sites(&source, *scope).map_err(|error| format!("{file}: {error}"))?;
        let names = operations(&source);
        let mut named = keyed(file, found);
        named.retain(|(key, site)| {
            let mine = edit_of(site);
            let hand = mutants.iter().filter(|m| m.file == *file && m.is_written());
            !not.contains(key) && !hand.into_iter().any(|m| clash(&m.edit(0), &mine))
        });
        let count = named.len().div_ceil(*one_of).min(*most);
        for (key, site) in spread(named, count) {
            let line = source[..site.range.start].matches('\n').count() + 1;
            let original = source[site.range.clone()].to_string();
            let hints = match &site.operation {
                Some(name) => vec![name.clone()],
                None if *scope == Scope::Rules => names.clone(),
                None => hints_for(file),
            };
            let Site { operator, range, changed, .. } = site;
            let (kind, place, file) = (operator.to_string(), place(file), file.clone());
            let edit = (range, Change::Expression(changed.clone()));
            mutants.push(Mutant { key, place, kind, file, line, original, changed, hints, edit });
        }
    }
    mutants.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(mutants)
}

fn edit_of(site: &Site) -> Edit {
    Edit { id: 0, range: site.range.clone(), change: Change::Expression(String::new()) }
}

/// The mutants written by hand. One whose text is not in its file, or is there twice, is an error.
fn written(read: &dyn Fn(&str) -> Result<String, String>) -> Result<Vec<Mutant>, String> {
    let list: List = toml::from_str(WRITTEN).map_err(|error| format!("planted.toml: {error}"))?;
    let mut mutants: Vec<Mutant> = Vec::new();
    for Written { name, kind, file, find, replace, before, after, hints } in list.mutant {
        let source = read(&file)?;
        let find = find.trim_matches('\n').to_string();
        let mut places = source.match_indices(&find);
        let at = match (places.next(), places.next()) {
            (Some((at, _)), None) => at,
            (None, _) => {
                return Err(format!("the text of mutant {name:?} is no longer in {file}: {find}"));
            }
            _ => {
                return Err(format!(
                    "the text of mutant {name:?} is more than once in {file}: {find}"
                ));
            }
        };
        let (range, text) = match (replace, before, after) {
            (Some(text), None, None) => (at..at + find.len(), text),
            (None, Some(text), None) => (at..at, text),
            (None, None, Some(text)) => (at + find.len()..at + find.len(), text),
            _ => return Err(format!("mutant {name:?} needs one of replace, before and after")),
        };
        if !text.contains(crate::plant::SWITCH) {
            return Err(format!("mutant {name:?} has no switch"));
        }
        let line = source[..at].matches('\n').count() + 1;
        let hints = if hints.is_empty() { hints_for(&file) } else { hints };
        let (key, changed, place) = (name, text.trim().to_string(), place(&file));
        let edit = (range, Change::Text(text));
        let new = Mutant { key, place, kind, file, line, original: find, changed, hints, edit };
        let clashes = |m: &&Mutant| m.file == new.file && clash(&m.edit(0), &new.edit(0));
        if let Some(other) =
            mutants.iter().find(|m| m.key == new.key).or(mutants.iter().find(clashes))
        {
            return Err(format!(
                "mutants {:?} and {:?} are in each other's way",
                other.key, new.key
            ));
        }
        mutants.push(new);
    }
    Ok(mutants)
}

/// Gives every site a name that stays while its function does.
fn keyed(file: &str, found: Vec<Site>) -> Vec<(String, Site)> {
    let short = file
        .replace("crates/extensor/src/", "")
        .replace("crates/extensor-kernels/src/", "kernels/");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    found
        .into_iter()
        .map(|site| {
            let base = format!("{short}: {}: {}", site.function, site.operator);
            let count = counts.entry(base.clone()).or_default();
            *count += 1;
            (format!("{base} {count}"), site)
        })
        .collect()
}

/// Chooses `count` of the sites: by turns of the functions and of the kinds of change, in an order
/// that depends on the names alone.
fn spread(named: Vec<(String, Site)>, count: usize) -> Vec<(String, Site)> {
    let mut ranked: Vec<((usize, u64), (String, Site))> = Vec::new();
    let mut turns: BTreeMap<String, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut shuffled = named;
    shuffled.sort_by_key(|(key, _)| hash(key));
    for (key, site) in shuffled {
        let turn = turns.entry(site.function.clone()).or_default();
        let kind = kinds.entry(site.operator).or_default();
        ranked.push(((*turn + *kind, hash(&key)), (key, site)));
        (*turn, *kind) = (*turn + 1, *kind + 1);
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(count).map(|(_, chosen)| chosen).collect()
}

/// FNV-1a: the same everywhere and for ever.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The operations that a file defines.
fn operations(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in source.lines() {
        let line = line.trim_start();
        if let Some(name) = line.strip_prefix("name: \"").and_then(|rest| rest.split('"').next()) {
            names.push(name.to_string());
        }
    }
    names
}

/// Operations that use a file of the engine or of the kernels.
fn hints_for(file: &str) -> Vec<String> {
    let table: [(&str, &[&str]); 19] = [
        ("/softmax.rs", &["*softmax", "cross_entropy"]),
        ("/attention", &["*attention*"]),
        ("/norm/planes", &["batch_norm*", "group_norm", "instance_norm"]),
        ("/norm", &["*_norm*"]),
        ("/gemm", &["matmul", "linear"]),
        ("/conv", &["conv*"]),
        ("/pool", &["*pool*"]),
        ("/reduce/scan", &["cum*"]),
        ("/reduce/arg", &["arg*"]),
        ("/reduce", &["sum", "mean", "max_reduce", "std", "logsumexp", "prod", "norm"]),
        ("/masked", &["dropout*"]),
        ("/sort", &["sort", "argsort"]),
        ("/index", &["gather", "take", "scatter_add"]),
        ("/cast", &["cast"]),
        ("/copy", &["transpose", "concatenate"]),
        ("/math/", &["exp", "log", "tanh", "erf", "sin", "gelu", "power"]),
        ("/random", &["dropout"]),
        ("/rows", &["softmax", "layer_norm"]),
        ("", &["exp", "multiply", "matmul", "sum", "softmax", "where"]),
    ];
    let found = table.iter().find(|(part, _)| file.contains(part));
    found.map_or_else(Vec::new, |(_, names)| names.iter().map(|n| (*n).to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workshop::{files, root};

    #[test]
    fn every_mutant_written_by_hand_still_fits_the_sources() {
        let root = root();
        let read = |file: &str| std::fs::read_to_string(root.join(file)).map_err(|e| e.to_string());
        let found = written(&read).unwrap();
        assert!(found.len() >= 60, "{}", found.len());
    }

    #[test]
    fn there_are_300_mutants_in_every_family_the_engine_and_the_kernels() {
        let root = root();
        let mutants = all(&root, &files(&root).unwrap(), &[]).unwrap();
        assert!(mutants.len() >= 300, "{}", mutants.len());
        let families = [
            "arithmetic",
            "elementwise",
            "activation",
            "matrix",
            "reduction",
            "shape",
            "convolution",
            "pooling",
            "normalization",
            "attention",
            "dropout",
            "loss",
            "engine",
            "kernels",
        ];
        for place in families {
            let count = mutants.iter().filter(|m| m.place == place).count();
            assert!(count >= 5, "{place}: {count}");
        }
    }

    #[test]
    fn the_choice_does_not_change_when_a_site_elsewhere_is_added() {
        let site = |function: &str, at: usize| {
            let (operation, operator, changed) = (None, "+ to -", String::new());
            Site { function: function.into(), operation, operator, range: at..at + 1, changed }
        };
        let before: Vec<Site> = (0..8).map(|k| site(&format!("f{k}"), k)).collect();
        let mut after = vec![site("new", 99)];
        after.extend(before.clone());
        let chosen =
            |all| spread(keyed("file", all), 4).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        let kept = chosen(after).into_iter().filter(|k| chosen(before.clone()).contains(k)).count();
        assert!(kept >= 3, "{kept}");
    }
}
