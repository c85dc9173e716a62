//! A program as a picture: a box for each kernel, in the order in which they run, and a line from whoever
//! makes a value to everybody who reads it.

use super::explain::what;
use super::plan::{Program, Step};
use super::record::Source;
use std::collections::HashMap;
use std::fmt::Write;

const ROW: usize = 34;
const BOX: usize = 24;
const TOP: usize = 44;
/// How far the lines between neighbours, and those between rows far apart, bulge to the left.
const NEAR: usize = 14;
const FAR: usize = 150;
/// What a kernel does is cut off after so many letters.
const LETTERS: usize = 100;

/// The picture.
pub(super) fn svg(program: &Program) -> String {
    let left = FAR + 20;
    let width = left + 900;
    let height = TOP + program.steps.len() * ROW + 10;
    let mut made: HashMap<usize, usize> = HashMap::new();
    let (mut lines, mut boxes) = (String::new(), String::new());
    let middle = |row: usize| TOP + row * ROW + BOX / 2;
    for (row, step) in program.steps.iter().enumerate() {
        let mut seen = Vec::new();
        for operand in &step.call.inputs {
            let Source::Value(v) = operand.source else { continue };
            let Some(&from) = made.get(&v) else { continue };
            if seen.contains(&from) {
                continue;
            }
            seen.push(from);
            let distance = row - from;
            let bulge = (NEAR * distance).min(FAR);
            let (a, b, x) = (middle(from), middle(row), left - bulge);
            let _ = writeln!(lines, r#"<path d="M{left} {a} C{x} {a} {x} {b} {left} {b}"/>"#);
        }
        made.extend(step.call.outputs.iter().map(|&v| (v, row)));
        let y = TOP + row * ROW;
        let text = escaped(&label(row, step));
        let title = escaped(&step.to_string());
        let _ = writeln!(
            boxes,
            r#"<g><title>{title}</title><rect x="{left}" y="{y}" width="890" height="{BOX}" rx="4"/><text x="{}" y="{}">{text}</text></g>"#,
            left + 8,
            y + 16,
        );
    }
    let head = escaped(&program.head());
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="ui-monospace, monospace" font-size="12">
<style>
svg {{ background: #fff; color: #1a1a1a }}
rect {{ fill: #eef3fb; stroke: #6b8fc9 }}
path {{ fill: none; stroke: #b9582b; stroke-opacity: 0.55 }}
text {{ fill: currentColor }}
@media (prefers-color-scheme: dark) {{
svg {{ background: #16181d; color: #e4e4e4 }} rect {{ fill: #222a38 }} path {{ stroke: #e39a6f }}
}}
</style>
<text x="8" y="24">{head}</text>
{lines}{boxes}</svg>
"#
    )
}

/// What stands in a kernel's box.
fn label(row: usize, step: &Step) -> String {
    let made: Vec<String> =
        step.specs.iter().map(|spec| format!("{}{}", spec.dtype, spec.shape)).collect();
    let what = what(&step.call.kernel.kind());
    let text = format!("{row}  {} → {}   {what}", step.call.op, made.join(", "));
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
