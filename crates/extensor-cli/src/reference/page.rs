//! The page of an operation, as Markdown.

use super::example::Example;
use super::facts::{self, Cost, Traffic};
use super::{Checked, latex, picture};
use extensor::check::suite::samples;
use extensor::ops::catalogue::CATALOGUE;
use extensor::ops::record::{Bound, Count, Record};
use extensor::ops::source::Source;
use std::fmt::Write;

/// Where the project is, for links to its sources.
pub const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Operations that undo each other, where both are defined. (A test tries them.)
pub const INVERSES: [(&str, &str); 13] = [
    ("exp", "log"),
    ("expm1", "log1p"),
    ("square", "sqrt"),
    ("sin", "asin"),
    ("cos", "acos"),
    ("tan", "atan"),
    ("sinh", "asinh"),
    ("cosh", "acosh"),
    ("tanh", "atanh"),
    ("add", "subtract"),
    ("multiply", "divide"),
    ("expand_dims", "squeeze"),
    ("concatenate", "split"),
];

/// The page.
///
/// # Errors
/// A sentence if a formula cannot be typeset.
pub fn page(record: &'static Record, checked: &Checked) -> Result<String, String> {
    let all = samples(record, 0);
    let sources = record.sources();
    let mut page = format!("# {}\n\n", record.name);
    if let Some(source) = sources.function {
        page += &summary(&source);
    }
    let _ = writeln!(page, "{}\n", latex::block(record.formula, record)?);
    if record.is_differentiable() {
        let said = latex::block(record.derivative, record)?;
        let whose = if names_gradient(record.derivative) && !record.derivative.contains("y′ =") {
            ", where $g$ is the gradient of what comes after (`grad_output`)"
        } else {
            ""
        };
        let several = record.inputs.iter().filter(|i| i.differentiable).count() > 1;
        let noun = if several { "derivatives, one for each input in order" } else { "derivative" };
        let _ = writeln!(page, "The {noun}{whose}:\n\n{said}\n");
    } else {
        let _ = writeln!(page, "Derivative: {}.\n", text(record.derivative));
    }
    if let Some(picture) = picture::picture(record) {
        let caption = &picture.caption;
        let _ = writeln!(page, "<figure>{}</figure>\n\n*{caption}*\n", picture.svg);
    }
    page += &signatures(record);
    page += &parameters(record);
    page += &examples(record);
    page += &edges(record, &all);
    page += &cost(record, facts::cost(record, &all).as_ref());
    page += &errors(record);
    page += &checked.section(record);
    page += &relatives(record, sources.function.as_ref());
    Ok(page)
}

/// Text in which Markdown finds nothing of its own.
pub fn text(plain: &str) -> String {
    let mut made = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '<' => made.push_str("&lt;"),
            '>' => made.push_str("&gt;"),
            '*' | '_' | '[' | ']' | '`' | '$' | '|' | '~' | '\\' => {
                made.push('\\');
                made.push(c);
            }
            c => made.push(c),
        }
    }
    made
}

/// Text whose clauses, which semicolons part, have a line each in a cell of a table.
pub fn clauses(plain: &str) -> String {
    plain.split("; ").map(text).collect::<Vec<_>>().join("<br>")
}

/// The first paragraph of a function's documentation. Links to other functions become those to their pages.
fn summary(source: &Source) -> String {
    let lines = source.documentation.lines().map(str::trim);
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let mut said = without_targets(&paragraph.join(" "));
    for record in CATALOGUE {
        let link = format!("[`{}`]", record.name);
        said = said.replace(&link, &format!("[`{0}`]({0}.md)", record.name));
    }
    // What is left of links leads into rustdoc, which is elsewhere.
    let said = said.replace("[`", "`").replace("`]", "`").replace("`(`", "`](`");
    let said = relinked(&said);
    format!("{said}\n\n")
}

/// Whether a formula has the letter g by itself.
fn names_gradient(formula: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
    formula.char_indices().any(|(at, c)| {
        let (before, after) =
            (formula[..at].chars().next_back(), formula[at + c.len_utf8()..].chars().next());
        c == 'g' && !letter(before) && !letter(after)
    })
}

/// Links without where in the crate they lead.
fn without_targets(said: &str) -> String {
    let mut parts = said.split("](crate::");
    let mut made = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        made += "]";
        // Of a function its parentheses may be there, too.
        made += if target.contains('(') { rest.strip_prefix(')').unwrap_or(rest) } else { rest };
    }
    made
}

/// Puts the opening bracket back where a link to a page was found.
fn relinked(said: &str) -> String {
    let mut made = said.to_string();
    for record in CATALOGUE {
        made = made.replace(
            &format!("`{0}`({0}.md)", record.name),
            &format!("[`{0}`]({0}.md)", record.name),
        );
    }
    made
}

fn signatures(record: &'static Record) -> String {
    let sources = record.sources();
    let mut rust = Vec::new();
    if let Some(source) = sources.function {
        rust.push(wrapped(source.signature));
        if let Some(method) = method(source.signature) {
            let inner = wrapped(&method).replace('\n', "\n    ");
            rust.push(format!("impl Tensor {{\n    {inner}\n}}"));
        }
    }
    rust.extend(sources.backward.map(|source| wrapped(source.signature)));
    let mut made = format!("## Signatures\n\n```rs\n{}\n```\n\n", rust.join("\n\n"));
    let mut python = vec![format!("ops.{}", python_signature(record))];
    python.extend(record.backward.map(|signature| format!("ops.{signature}")));
    let _ = write!(made, "```py\n{}\n```\n\n", python.join("\n"));
    made
}

/// `&self` in the place of the first tensor.
fn method(signature: &str) -> Option<String> {
    let (head, rest) = signature.split_once('(')?;
    let (_, rest) = rest.split_once(": &Tensor")?;
    let first = signature[head.len() + 1..].split(':').next()?;
    (!first.contains(',')).then(|| format!("{head}(&self{rest}"))
}

/// A signature over several lines where it is long.
fn wrapped(signature: &str) -> String {
    if signature.chars().count() <= 76 {
        return signature.to_string();
    }
    let Some((head, rest)) = signature.split_once('(') else { return signature.into() };
    let Some((arguments, result)) = rest.rsplit_once(") ->") else { return signature.into() };
    let mut lines = vec![format!("{head}(")];
    let (mut depth, mut argument) = (0, String::new());
    for c in arguments.chars() {
        depth += i32::from("<([".contains(c)) - i32::from(">)]".contains(c));
        argument.push(c);
        if depth == 0 && c == ',' {
            lines.push(format!("    {}", argument.trim()));
            argument.clear();
        }
    }
    lines.push(format!("    {},", argument.trim()));
    lines.push(format!(") ->{result}"));
    lines.join("\n")
}

fn python_signature(record: &Record) -> String {
    let inputs = record.inputs.iter().map(|i| match i.count {
        Count::One => i.name.to_string(),
        Count::Optional => format!("{}=None", i.name),
        Count::Many => "tensors".to_string(),
    });
    let params = record.params.iter().map(|p| match p.default {
        Some("true") => format!("{}=True", p.name),
        Some("false") => format!("{}=False", p.name),
        Some(default) => format!("{}={default}", p.name),
        None => p.name.to_string(),
    });
    format!("{}({})", record.name, inputs.chain(params).collect::<Vec<_>>().join(", "))
}

fn parameters(record: &Record) -> String {
    if record.params.is_empty() {
        return String::new();
    }
    let mut made = "| parameter | default | what it is |\n| --- | --- | --- |\n".to_string();
    for parameter in record.params {
        let default = parameter.default.map_or("must be given".to_string(), |d| format!("`{d}`"));
        let _ = writeln!(made, "| `{}` | {default} | {} |", parameter.name, text(parameter.what));
    }
    made + "\n"
}

fn examples(record: &'static Record) -> String {
    let Some(example) = Example::of(record) else { return String::new() };
    let mut made = "## Example\n\n".to_string();
    let python = example.python();
    if let Some(rust) = example.rust() {
        let _ = write!(made, "```rust\n{}```\n\n```text\n{}```\n\n", rust.code, rust.output);
    } else if let Some(code) = record.sources().function.and_then(|source| source.example()) {
        // It is run with the documentation's tests.
        let _ = write!(made, "```rust\n{code}```\n\n");
    }
    let _ = write!(made, "```python\n{}```\n\n```text\n{}```\n\n", python.code, python.output);
    made
}

fn edges(record: &'static Record, all: &[extensor::ops::samples::Sample]) -> String {
    let mut made = "## Edges\n\n| | |\n| --- | --- |\n".to_string();
    let mut row = |name: &str, words: &str| {
        if !words.is_empty() {
            let _ = writeln!(made, "| {name} | {words} |");
        }
    };
    row("domain", &text(record.domain));
    row("conventions", &clauses(record.conventions));
    let dtypes = facts::dtypes(record, all);
    row("dtypes", &dtypes.iter().map(|d| format!("`{d}`")).collect::<Vec<_>>().join(" "));
    if record.inputs.len() > 1 {
        let broadcast = facts::broadcasts(record, all);
        row(
            "broadcasting",
            if broadcast {
                "the inputs broadcast; gradients are summed back to each input's shape"
            } else {
                "shapes must fit as the formula says"
            },
        );
    }
    row("differentiable", facts::derivatives(record));
    row("class", facts::class(record));
    row("the backward pass keeps", facts::keeps(record));
    if let Some(accuracy) = record.accuracy() {
        let said = |bound: &Bound| match bound.ulps {
            0.0 => "exact".to_string(),
            ulps => {
                format!("within {ulps} ulp (worst found: {} at {})", bound.worst, number(bound.at))
            }
        };
        row("accuracy in `f32`, of all 2³² inputs", &said(&accuracy.value));
        if record.is_differentiable() {
            row("accuracy of the derivative", &said(&accuracy.slope));
        }
    }
    made + "\n"
}

/// A number as people write it: with a power of ten where it is far from 1.
fn number(value: f32) -> String {
    match value.abs() {
        0.0 | 1e-3..1e6 => format!("{value}").replace('-', "−"),
        _ => {
            let text = format!("{value:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("${digits} \\cdot 10^{{{exponent}}}$")
        }
    }
}

/// What a call moves, in words.
pub fn moved(traffic: &Traffic) -> String {
    if traffic.passes() == 0 {
        return "nothing: a view".into();
    }
    let mut once: Vec<&String> = Vec::new();
    for name in &traffic.reads {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    let times = traffic.reads.len() / once.len().max(1);
    let code = |name: &String| if name.contains(' ') { name.clone() } else { format!("`{name}`") };
    let reads: Vec<String> = once.into_iter().map(code).collect();
    let writes: Vec<String> = traffic.writes.iter().map(code).collect();
    let each = if times > 1 { " for each gradient" } else { "" };
    format!("reads {}{each}, writes {}", reads.join(", "), writes.join(", "))
}

fn cost(record: &Record, cost: Option<&Cost>) -> String {
    let Some(cost) = cost else { return String::new() };
    let mut made =
        "## Cost\n\n| | passes | bytes an element in `f32` | |\n| --- | ---: | ---: | --- |\n"
            .to_string();
    let mut row = |name: &str, traffic: &Traffic| {
        let bytes = traffic.bytes.map_or("depends on the shapes".into(), |b| b.to_string());
        let _ = writeln!(made, "| {name} | {} | {bytes} | {} |", traffic.passes(), moved(traffic));
    };
    row("forward", &cost.forward);
    if let Some(backward) = &cost.backward {
        row("backward", backward);
    }
    made.push('\n');
    if let Some((forward, backward)) = cost.work {
        let what = match record.name {
            "matmul" => " for matrices $[m, k]$ and $[k, n]$",
            "scaled_dot_product_attention" => {
                " for each head, with $Q$ queries and $K$ keys of $d$ numbers; memory grows with $Q + K$, but with $Q \\cdot K$ where a mask is added or weights are dropped"
            }
            _ => "",
        };
        let _ =
            writeln!(made, "Multiply-adds{what}: ${forward}$ forward, ${backward}$ backward.\n");
    }
    made
}

fn errors(record: &'static Record) -> String {
    let errors = facts::errors(record);
    if errors.is_empty() {
        return String::new();
    }
    let mut made = "## Errors\n\n```text\n".to_string();
    for (call, message) in errors {
        let _ = writeln!(made, "{call}\n    {message}");
    }
    made + "```\n\n"
}

fn relatives(record: &'static Record, source: Option<&Source>) -> String {
    let mut made = "## See also\n\n".to_string();
    let inverse: Vec<String> = INVERSES
        .iter()
        .filter_map(|&(f, g)| match record.name {
            name if name == f => Some(g),
            name if name == g => Some(f),
            _ => None,
        })
        .map(|name| format!("[`{name}`]({name}.md)"))
        .collect();
    if !inverse.is_empty() {
        let _ = writeln!(made, "- undone by {}", inverse.join(", "));
    }
    let others: Vec<String> = record.aliases().iter().map(|name| format!("`{name}`")).collect();
    if !others.is_empty() {
        let _ = writeln!(made, "- called {} elsewhere", others.join(", "));
    }
    let family: Vec<String> = CATALOGUE
        .iter()
        .filter(|r| r.family == record.family && r.name != record.name)
        .map(|r| format!("[`{0}`]({0}.md)", r.name))
        .collect();
    let _ = writeln!(
        made,
        "- [{}](sheet-{0}.md){}{}",
        record.family,
        if family.is_empty() { "" } else { ": " },
        family.join(", ")
    );
    if let Some(source) = source {
        let path = source.path();
        let _ = writeln!(
            made,
            "- source: [`{path}`, line {0}]({REPOSITORY}/blob/main/{path}#L{0})",
            source.line
        );
    }
    made
}
