//! The reference: a page for each operation and tables over all, made from the catalogue by
//! `extensor ops --book DIR`, as Markdown with formulas between dollar signs.
//!
//! Nothing here is written by hand for an operation: what a page says comes from its record, from the
//! compiler (`Record::sources`) or from calling it.

pub mod chart;
pub mod example;
pub mod facts;
pub mod latex;
pub mod page;
pub mod picture;
pub mod tables;

use crate::{explain, file};
use extensor::DType;
use extensor::check::suite::{self, Outcome, Plan};
use extensor::ops::catalogue::{self, CATALOGUE};
use extensor::ops::record::Record;
use std::fmt::Write;
use std::path::Path;

/// The dtypes in which operations are checked when pages are made, and how often they are differentiated:
/// what takes less than a minute for all of them.
const CHECKS: [(DType, u8); 2] = [(DType::F64, 2), (DType::F32, 1)];

/// What the suite found, for each dtype in which operations are checked.
pub struct Checked(Vec<Vec<Outcome>>);

impl Checked {
    /// Runs the checks of the operations that fit a pattern.
    ///
    /// # Errors
    /// If there are none.
    pub fn run(filter: &str) -> Result<Checked, String> {
        let run = |&(dtype, order): &(DType, u8)| {
            let plan = Plan { filter: filter.into(), dtypes: vec![dtype], order, seed: 0 };
            suite::run(&plan, &mut |_| {}).map_err(|error| explain(&error))
        };
        CHECKS.iter().map(run).collect::<Result<_, _>>().map(Checked)
    }

    /// Nothing was run: the pages say nothing of checks.
    pub fn nothing() -> Checked {
        Checked(Vec::new())
    }

    /// What a page says of it.
    fn section(&self, record: &Record) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut made = "## Checks\n\n| dtype | derivatives | checks | worst error | |\n| --- | ---: | ---: | ---: | --- |\n".to_string();
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for ((dtype, order), outcomes) in CHECKS.iter().zip(&self.0) {
            let Some(outcome) = outcomes.iter().find(|o| o.name == record.name) else { continue };
            let state = if outcome.passed() { "✓ passed" } else { "**failed**" };
            let _ = writeln!(
                made,
                "| `{dtype}` | order {order} | {} | {:.3} of the tolerance | {state} |",
                outcome.checks, outcome.worst
            );
            for &(kind, count) in &outcome.kinds {
                match kinds.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, sum)) => *sum += count,
                    None => kinds.push((kind, count)),
                }
            }
        }
        let kinds: Vec<String> =
            kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let _ = writeln!(
            made,
            "\nRun when this page was made, with seed 0: {}. `extensor check {}` runs them in all dtypes, twice differentiated.\n",
            kinds.join(", "),
            record.name
        );
        made
    }
}

/// The page of one operation.
///
/// # Errors
/// If there is no such operation.
pub fn page_of(name: &str) -> Result<String, String> {
    let record = catalogue::find(name).map_err(|error| explain(&error))?;
    page::page(record, &Checked::run(name)?)
}

/// All pages with their file names, `SUMMARY.md` first: its paths are relative to the folder.
///
/// # Errors
/// A sentence if a formula cannot be typeset.
pub fn pages(checked: &Checked) -> Result<Vec<(String, String)>, String> {
    let mut all = vec![("SUMMARY.md".to_string(), summary()), ("index.md".into(), tables::index())];
    all.push(("derivatives.md".into(), tables::derivatives()?));
    all.push(("conventions.md".into(), tables::conventions()));
    all.push(("dtypes.md".into(), tables::dtypes()));
    all.push(("costs.md".into(), tables::costs()));
    for family in tables::families() {
        all.push((format!("sheet-{family}.md"), tables::sheet(family)?));
    }
    for record in CATALOGUE {
        all.push((format!("{}.md", record.name), page::page(record, checked)?));
    }
    Ok(all)
}

fn summary() -> String {
    let mut made = "- [Reference](index.md)\n".to_string();
    for (name, file) in [
        ("Derivatives", "derivatives"),
        ("Conventions", "conventions"),
        ("Dtypes", "dtypes"),
        ("Costs", "costs"),
    ] {
        let _ = writeln!(made, "  - [{name}]({file}.md)");
    }
    for family in tables::families() {
        let _ = writeln!(made, "  - [{}](sheet-{family}.md)", tables::title(family));
        for record in tables::members(family) {
            let _ = writeln!(made, "    - [{0}]({0}.md)", record.name);
        }
    }
    made
}

/// The examples in Rust that no documentation has, as tests of it: `examples.md`, which a test compares.
pub fn rust_examples() -> String {
    let mut made = String::new();
    for record in CATALOGUE {
        let Some(program) = example::Example::of(record).and_then(|example| example.rust()) else {
            continue;
        };
        let code = program
            .code
            .replace("println!(\"{", "printed.push(format!(\"{")
            .replace("}\");", "}\"));");
        let _ = writeln!(
            made,
            "## {}\n\n```\n# let mut printed: Vec<String> = Vec::new();\n{code}# assert_eq!(printed.join(\"\\n\") + \"\\n\", {:?});\n# Ok::<(), extensor::Error>(())\n```\n",
            record.name, program.output
        );
    }
    made
}

/// Run with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("examples.md")]
struct Examples;

/// Writes the reference into a folder, which is made if it is not there.
///
/// # Errors
/// A sentence if a page cannot be made or written.
pub fn write_book(dir: &Path) -> Result<(), String> {
    std::fs::create_dir_all(dir)
        .map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    for (name, page) in pages(&Checked::run("*")?)? {
        file::write(&dir.join(name), &page)?;
    }
    Ok(())
}
