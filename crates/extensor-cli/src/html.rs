//! What the suite found, as one page that needs nothing else: an index with a filter, formulas, each
//! function with its derivatives, and how the error of differences moves with ε.

use crate::reference::chart::{Chart, Curve, escape};
use crate::reference::latex::{self, Piece};
use crate::reference::picture;
use extensor::check::ErrorAtStep;
use extensor::check::suite::{Outcome, Plan, convergence};
use extensor::ops::catalogue;
use extensor::ops::record::Record;
use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};
use std::fmt::Write;

/// A self-contained page.
pub fn page(plan: &Plan, outcomes: &[Outcome]) -> String {
    let checks: usize = outcomes.iter().map(|o| o.checks).sum();
    let failed: usize = outcomes.iter().map(|o| o.failed).sum();
    let dtypes: Vec<&str> = plan.dtypes.iter().map(|d| d.name()).collect();
    let passed = outcomes.iter().filter(|o| o.passed()).count();
    let mut index = String::new();
    for outcome in outcomes {
        let Outcome { name, family, .. } = outcome;
        let _ = write!(
            index,
            "<li data-name=\"{name} {family} {}\"><a href=\"#{name}\">{} {name}</a></li>",
            others(name),
            mark(outcome)
        );
    }
    let body: String = outcomes.iter().map(|outcome| section(plan, outcome)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>extensor check</title>\n<style>{STYLE}</style></head><body>\n\
         <header><h1>extensor check</h1>\n\
         <p class=\"{}\">{passed} of {} operations passed; {checks} checks in {}, {failed} failed, seed {}.</p>\n\
         <p>Below each formula: the derivative y′, or the gradients for the inputs in order, where g is that of the result. \
         Left: the function with its first two derivatives, where there is a picture of it. Right: how the error of a central \
         difference against the gradient moves with ε; truncation falls to the left, rounding rises.</p>\n\
         <p><label>Show <input id=\"filter\" type=\"search\" placeholder=\"a name, a family, failed\" autocomplete=\"off\"></label>\n\
         <output id=\"count\"></output></p></header>\n\
         <nav aria-label=\"operations\"><ul>{index}</ul></nav>\n<main>\n{body}</main>\n<script>{SCRIPT}</script>\n</body></html>\n",
        if failed == 0 { "passed" } else { "failed" },
        outcomes.len(),
        dtypes.join(", "),
        plan.seed
    )
}

const STYLE: &str = "\
:root{--ink:#1f2933;--paper:#fff;--faint:#5f6c7b;--line:#d9dfe5;--card:#f6f8fa;--good:#15803d;--bad:#b91c1c;--link:#1d5fbf}\
@media (prefers-color-scheme:dark){:root{--ink:#e4e7eb;--paper:#15191e;--faint:#9aa5b1;--line:#333b44;--card:#1d232a;--good:#4ade80;--bad:#f87171;--link:#7cb0ff}}\
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;max-width:66rem;margin:0 auto;padding:1rem;color:var(--ink);background:var(--paper)}\
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.1rem;margin:0 0 .3rem}a{color:var(--link);text-decoration:none}\
nav ul{list-style:none;padding:0;display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:0 .8rem;font-size:.87rem}\
nav li{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}\
section{border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;margin:1rem 0;background:var(--card)}\
.passed,.good{color:var(--good)}.failed,.bad{color:var(--bad)}.faint,.kinds{color:var(--faint);font-size:.87rem}\
.pictures{display:flex;flex-wrap:wrap;gap:1rem}.pictures svg{flex:1 1 20rem;min-width:0;max-width:30rem}\
code{font-size:.9em;overflow-wrap:anywhere}math{font-size:1.1em;font-family:'STIX Two Math','Cambria Math','Libertinus Math','Latin Modern Math','XITS Math','TeX Gyre Termes Math','DejaVu Math TeX Gyre','Noto Sans Math',math}.formula{overflow-x:auto;overflow-y:hidden;padding:.15rem 0}\
pre{background:var(--paper);border-left:3px solid var(--bad);padding:.6rem;overflow:auto}\
input{font:inherit;padding:.2rem .5rem;border:1px solid var(--line);border-radius:6px;background:var(--card);color:inherit;width:16rem;max-width:100%}\
[hidden]{display:none!important}@media print{nav,label{display:none}section{break-inside:avoid}}";

/// Shows what the filter says; there is nothing else that needs a script.
const SCRIPT: &str = "\
const box=document.getElementById('filter'),count=document.getElementById('count');\
function show(){const words=box.value.toLowerCase().split(/\\s+/).filter(Boolean);let n=0;\
for(const part of document.querySelectorAll('[data-name]')){const here=words.every(w=>part.dataset.name.includes(w));\
part.hidden=!here;if(here&&part.tagName==='SECTION')n++}count.textContent=words.length?n+' shown':''}\
box.addEventListener('input',show);show()";

fn mark(outcome: &Outcome) -> &'static str {
    if outcome.passed() {
        "<span class=\"good\" title=\"passed\">✓</span>"
    } else {
        "<span class=\"bad\" title=\"failed\">✗</span>"
    }
}

/// What else the filter finds an operation by.
fn others(name: &str) -> String {
    catalogue::find(name).map_or(String::new(), |record| record.aliases().join(" "))
}

fn section(plan: &Plan, outcome: &Outcome) -> String {
    let Ok(record) = catalogue::find(outcome.name) else {
        return String::new();
    };
    let state = if outcome.passed() { "passed" } else { "failed" };
    let mut text = format!(
        "<section id=\"{0}\" data-name=\"{0} {1} {2} {state}\"><h2>{3} {0}</h2>\n\
         <p><code>{4}</code> <span class=\"faint\">{1}</span></p>\n{5}{6}\
         <p>{7} checks, worst error {8:.3} of the tolerance, {9:.1} ms</p>\n",
        escape(outcome.name),
        outcome.family,
        others(outcome.name),
        mark(outcome),
        escape(&record.signature()),
        formula(record.formula, record),
        formula(record.derivative, record),
        outcome.checks,
        outcome.worst,
        outcome.time.as_secs_f64() * 1e3
    );
    text += "<div class=\"pictures\">";
    if let Some(picture) = picture::picture(record) {
        text += &picture.svg;
    }
    if let Ok(steps) = convergence(record, plan.seed)
        && let Some(chart) = error_chart(outcome.name, &steps)
    {
        text += &chart.svg(&format!("error-{}", outcome.name));
    }
    text += "</div>\n";
    let kinds: Vec<String> =
        outcome.kinds.iter().map(|(kind, count)| format!("{} {count}", escape(kind))).collect();
    let _ = writeln!(text, "<p class=\"kinds\">{}</p>", kinds.join(" · "));
    for failure in &outcome.failures {
        let words = format!("{}: {}\n{}", failure.kind, failure.at, failure.report);
        let _ = writeln!(text, "<pre>{}</pre>", escape(&words));
    }
    text + "</section>\n"
}

/// A record's line typeset; as it stands if that cannot be.
fn formula(line: &str, record: &Record) -> String {
    let typeset = || -> Option<String> {
        let converter = LatexToMathML::new(MathCoreConfig::default()).ok()?;
        let mut made = String::new();
        for piece in latex::formulas(line, record).ok()? {
            made += &match piece {
                Piece::Math(latex) => {
                    converter.convert_with_local_counter(&latex, MathDisplay::Inline).ok()?
                }
                Piece::Text(words) => escape(&words),
            };
        }
        Some(made)
    };
    format!("<div class=\"formula\">{}</div>\n", typeset().unwrap_or_else(|| escape(line)))
}

fn error_chart(name: &str, steps: &[ErrorAtStep]) -> Option<Chart> {
    // An error of exactly 0 is drawn where the smallest number above it would be.
    let log = |v: f64| v.max(1e-17).log10();
    let points: Vec<(f64, f64)> = steps.iter().map(|s| (log(s.eps), log(s.error))).collect();
    let span = |part: fn(&(f64, f64)) -> f64| {
        let all = points.iter().map(part).filter(|v| v.is_finite());
        let (low, high) =
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |r, v| (r.0.min(v), r.1.max(v)));
        // Three powers of ten at the least.
        let missing = (3.0 - (high - low)).max(0.0) / 2.0;
        low.is_finite().then_some((low - missing, high + missing))
    };
    let (across, (low, high)) = (span(|p| p.0)?, span(|p| p.1)?);
    Some(Chart {
        label: format!("the error of differences of {name} against ε"),
        across_name: "ε".into(),
        across,
        up: (low - 0.3, high + 0.3),
        curves: vec![Curve { name: "error".into(), points }],
        powers: true,
    })
}
