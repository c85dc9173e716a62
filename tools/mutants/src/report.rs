//! The table: what caught how many mutants where, and every survivor with its explanation.

use crate::judge::{Measured, Suites, Verdict};
use crate::mutant::Mutant;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Why mutants survive.
#[derive(Deserialize)]
struct Explained {
    /// They change no result, and are not counted.
    same: BTreeMap<String, String>,
    /// They could be noticed.
    missed: BTreeMap<String, String>,
}

const EXPLAINED: &str = include_str!("../explained.toml");

/// A text on one line, not too long.
pub fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// What caught a mutant, in a table's columns.
#[derive(Clone, Copy, Default)]
struct Count {
    check: usize,
    points: usize,
    tests: usize,
    survived: usize,
}

impl Count {
    fn add(&mut self, verdict: &Verdict) {
        match verdict.caught.as_deref() {
            Some("check") => self.check += 1,
            Some("points") => self.points += 1,
            Some(_) => self.tests += 1,
            None => self.survived += 1,
        }
    }

    fn all(self) -> usize {
        self.check + self.points + self.tests + self.survived
    }

    fn row(self, name: &str) -> String {
        let Count { check, points, tests, survived } = self;
        let all = self.all();
        format!(
            "| {name} | {all} | {check} | {points} | {tests} | {survived} | {} |\n",
            percent(all - survived, all)
        )
    }
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 { "–".into() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

const HEAD: &str = "| mutants | check | points | tests | survived | caught |\n| --- | --- | --- | --- | --- | --- | --- |\n";

fn table(text: &mut String, title: &str, counts: &BTreeMap<&str, Count>) {
    let _ = write!(text, "| {title} {HEAD}");
    counts.iter().for_each(|(name, count)| text.push_str(&count.row(&name.replace('|', "\\|"))));
}

/// The report on what has been tried of `mutants`.
pub fn markdown(
    mutants: &[Mutant],
    verdicts: &BTreeMap<String, Verdict>,
    suites: &Suites,
) -> Result<String, String> {
    let Explained { same, missed } =
        toml::from_str(EXPLAINED).map_err(|error| format!("explained.toml: {error}"))?;
    for key in same.keys().chain(missed.keys()) {
        if !mutants.iter().any(|m| m.key == *key) {
            return Err(format!("explained.toml explains {key:?}, which is not a mutant"));
        }
        if let Some(by) = verdicts.get(key).and_then(|verdict| verdict.caught.as_ref()) {
            return Err(format!("explained.toml explains {key:?}, which {by} catches"));
        }
    }
    let tried = mutants.iter().filter_map(|m| Some((m, verdicts.get(&m.key)?)));
    let (alike, tried): (Vec<_>, Vec<_>) = tried.partition(|(m, _)| same.contains_key(&m.key));
    let (mut total, mut rules) = (Count::default(), Count::default());
    let mut places: BTreeMap<&str, Count> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, Count> = BTreeMap::new();
    let mut written: BTreeMap<&str, Count> = BTreeMap::new();
    let mut tests: BTreeMap<&str, usize> = BTreeMap::new();
    for (mutant, verdict) in &tried {
        total.add(verdict);
        if mutant.is_rule() {
            rules.add(verdict);
        }
        places.entry(&mutant.place).or_default().add(verdict);
        let kinds = if mutant.is_written() { &mut written } else { &mut kinds };
        kinds.entry(&mutant.kind).or_default().add(verdict);
        if let Some(test) = verdict.caught.as_deref().filter(|c| *c != "check" && *c != "points") {
            *tests.entry(test).or_default() += 1;
        }
    }
    let mut text = String::from(
        "# Mutants\n\nSingle errors planted in a copy of the library, and what notices them. Made by\n\
         `cargo run --release -p mutants -- run`; [CONTRIBUTING](../CONTRIBUTING.md#mutants) says how to use it.\n\n",
    );
    let caught = percent(total.all() - total.survived, total.all());
    let by_check = percent(rules.check, rules.all());
    let with_points = percent(rules.check + rules.points, rules.all());
    let (seconds, work) = suites.check;
    let _ = write!(
        text,
        "{} mutants, of which {caught} are caught; of the {} in rules and formulas, {by_check} by `extensor check` \
         alone (with `--points`, {with_points}). Without a mutant that takes {seconds:.0} s in the build with all \
         switches, {work:.0} s of all processors. {} more change no result, and are not counted.\n\n",
        total.all(),
        rules.all(),
        alike.len()
    );
    places.insert("**all**", total);
    places.insert("**rules and formulas**", rules);
    table(&mut text, "where", &places);
    text.push_str("\n## By kind\n\nFound in the sources:\n\n");
    table(&mut text, "change", &kinds);
    text.push_str("\nWritten by hand:\n\n");
    table(&mut text, "kind", &written);
    text.push_str(
        "\n## Which tests\n\nWhat caught those that the check and the points let through:\n\n",
    );
    text.push_str("| test | mutants | seconds of work without a mutant |\n| --- | --- | --- |\n");
    for Measured { suite, work, .. } in &suites.all {
        if !["check", "points"].contains(&suite.name.as_str()) {
            let count = tests.get(suite.name.as_str()).copied().unwrap_or(0);
            let _ = writeln!(text, "| {} | {count} | {work:.1} |", suite.name);
        }
    }
    text.push_str("\n## Survivors\n");
    let survivors = tried.into_iter().filter(|(_, verdict)| verdict.caught.is_none());
    survivors.for_each(|one| describe(&mut text, one, &missed));
    text.push_str("\n## Those that change no result\n");
    alike.into_iter().for_each(|one| describe(&mut text, one, &same));
    Ok(text)
}

/// A mutant that survived, and why.
fn describe(
    text: &mut String,
    (mutant, verdict): (&Mutant, &Verdict),
    explained: &BTreeMap<String, String>,
) {
    let Mutant { key, file, line, original, changed, .. } = mutant;
    let why = explained.get(key).map_or("**Not explained.**", |why| why.trim());
    let (original, changed) = (short(original), short(changed));
    let came = match verdict.passed.as_slice() {
        [] => "Nothing comes there.".to_string(),
        passed => format!("What comes there: {}.", passed.join(", ")),
    };
    let _ = write!(
        text,
        "\n### {key}\n\n{file}:{line}\n```rust\n{original}\n// becomes\n{changed}\n```\n{why}\n\n{came}\n"
    );
}
