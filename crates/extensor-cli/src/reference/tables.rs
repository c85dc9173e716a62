//! Pages over all operations: the index, sheets of a printed page for each family, and tables of
//! derivatives, dtypes, costs and conventions.

use super::page::{clauses, text};
use super::{facts, latex};
use extensor::check::suite::samples;
use extensor::ops::catalogue::CATALOGUE;
use extensor::ops::record::{Family, Record};
use std::fmt::Write;

/// The families in the catalogue's order.
pub fn families() -> Vec<Family> {
    let mut all: Vec<Family> = Vec::new();
    for record in CATALOGUE {
        if !all.contains(&record.family) {
            all.push(record.family);
        }
    }
    all
}

/// The operations of a family.
pub fn members(family: Family) -> impl Iterator<Item = &'static Record> {
    CATALOGUE.iter().copied().filter(move |record| record.family == family)
}

fn linked(record: &Record) -> String {
    format!("[`{0}`]({0}.md)", record.name)
}

/// A family's name as a heading.
pub fn title(family: Family) -> String {
    let name = family.to_string();
    name[..1].to_uppercase() + &name[1..]
}

/// The first page.
pub fn index() -> String {
    let mut page = format!(
        "# Reference\n\nThe {} operations of ExTensor, made from its catalogue by `extensor ops --book DIR`: formulas are the \
         records' own, signatures the compiler's, pictures, examples, errors and checks what the library does when the page is \
         made. On one page each: [derivatives](derivatives.md), [conventions](conventions.md), [dtypes](dtypes.md), \
         [costs](costs.md).\n\n",
        CATALOGUE.len()
    );
    for family in families() {
        let _ = writeln!(page, "## {}\n", title(family));
        let all: Vec<String> = members(family).map(linked).collect();
        let _ = writeln!(
            page,
            "{}\n\nOn a printed page: [{family}](sheet-{family}.md).\n",
            all.join(" · ")
        );
    }
    page
}

/// The sheet of a family.
///
/// # Errors
/// A sentence if a formula cannot be typeset.
pub fn sheet(family: Family) -> Result<String, String> {
    // Printed small enough that the largest family fits.
    let style = "<style>@media print { @page { size: A4; margin: 12mm } \
                 body, .content, .content main { font-size: 8.5px !important; max-width: none !important } \
                 .content table { width: 100%; } .content td, .content th { padding: 1px 5px !important } \
                 .nav-chapters, .menu-bar, .mobile-nav-chapters, nav { display: none !important } }</style>";
    let mut page = format!(
        "# {}\n\n{style}\n\n| operation | formula | derivative |\n| --- | --- | --- |\n",
        title(family)
    );
    for record in members(family) {
        let (formula, derivative) = both(record)?;
        let _ = writeln!(page, "| {} | {formula} | {derivative} |", linked(record));
    }
    Ok(page)
}

fn both(record: &'static Record) -> Result<(String, String), String> {
    let derivative = if record.is_differentiable() {
        latex::inline(record.derivative, record)?
    } else {
        "–".to_string()
    };
    Ok((latex::inline(record.formula, record)?, derivative))
}

/// The table of derivatives.
///
/// # Errors
/// As [`sheet`].
pub fn derivatives() -> Result<String, String> {
    let mut page = "# Derivatives\n\nEvery operation that has one. $g$ is the gradient of what comes after (`grad_output`); where a \
                    derivative is written $y'$, the gradient is $g \\cdot y'$.\n\n| operation | formula | derivative |\n| --- | --- | --- |\n"
        .to_string();
    for record in CATALOGUE.iter().filter(|r| r.is_differentiable()) {
        let (formula, derivative) = both(record)?;
        let _ = writeln!(page, "| {} | {formula} | {derivative} |", linked(record));
    }
    Ok(page)
}

/// The table of domains and conventions.
pub fn conventions() -> String {
    let mut page = "# Conventions\n\nWhat holds at kinks, ties and singular points, for every operation that has such.\n\n\
                    | operation | domain | conventions |\n| --- | --- | --- |\n"
        .to_string();
    for record in
        CATALOGUE.iter().filter(|r| !r.conventions.is_empty() || r.domain != "all numbers")
    {
        let said = clauses(record.conventions);
        let _ = writeln!(page, "| {} | {} | {said} |", linked(record), text(record.domain));
    }
    page
}

/// The table of dtypes.
pub fn dtypes() -> String {
    let all: Vec<&str> = extensor::DType::ALL.iter().rev().map(|d| d.name()).collect();
    let mut page =
        "# Dtypes\n\nWhat the operations take in place of floats, found by asking them.\n\n"
            .to_string();
    let _ = writeln!(
        page,
        "| operation | {} |\n| --- |{}",
        all.join(" | "),
        " :-: |".repeat(all.len())
    );
    for record in CATALOGUE {
        let taken = facts::dtypes(record, &samples(record, 0));
        let marks: Vec<&str> =
            all.iter().map(|d| if taken.contains(d) { "✓" } else { "" }).collect();
        let _ = writeln!(page, "| {} | {} |", linked(record), marks.join(" | "));
    }
    page
}

/// The table of costs.
pub fn costs() -> String {
    let mut page = "# Costs\n\nHow often an array goes through memory, and bytes for each element in `f32` where all arrays have as many \
                    elements. A view moves nothing. Every kernel reads what it needs once and writes its result once.\n\n\
                    | operation | passes forward | bytes | passes backward | bytes | the backward pass keeps |\n\
                    | --- | ---: | ---: | ---: | ---: | --- |\n"
        .to_string();
    for record in CATALOGUE {
        let Some(cost) = facts::cost(record, &samples(record, 0)) else { continue };
        let bytes = |b: Option<usize>| b.map_or("–".to_string(), |b| b.to_string());
        let back = cost.backward.as_ref();
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} |",
            linked(record),
            cost.forward.passes(),
            bytes(cost.forward.bytes),
            back.map_or("–".into(), |b| b.passes().to_string()),
            back.map_or("–".into(), |b| bytes(b.bytes)),
            facts::keeps(record)
        );
    }
    page
}
