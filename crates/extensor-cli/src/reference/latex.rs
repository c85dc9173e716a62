//! The notation of the records (`y = 1/(1 + e⁻ˣ)`, `1 for x > 0, 0 elsewhere`) as LaTeX.
//!
//! A record says what an operation computes in a line that reads well on a terminal. That line is the
//! only formula there is; this module typesets it. Words that are neither a function nor an argument
//! of the operation stay words, outside of the formulas.

mod parse;
mod token;

use extensor::ops::record::Record;
use parse::{Item, Parser};

/// A part of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// A formula.
    Math(String),
    /// Words, as Markdown.
    Text(String),
}

/// A line as Markdown: formulas without words on lines of their own, others within the sentence.
///
/// # Errors
/// A sentence if there is something that is not in the notation.
pub fn block(text: &str, record: &Record) -> Result<String, String> {
    let mut paragraphs = Vec::new();
    for clause in split(text, "; ") {
        let pieces = clause_pieces(clause, record)?;
        paragraphs.push(match &pieces[..] {
            [Piece::Math(latex)] => format!("$$ {latex} $$"),
            [Piece::Text(label), Piece::Math(latex)] if label.trim().ends_with(':') => {
                format!("{}\n\n$$ {latex} $$", capital(label.trim()))
            }
            // What is high stands on a line of its own, and the words follow.
            [Piece::Math(latex), rest @ ..] if latex.contains("\\frac") => {
                let rest = joined(rest);
                let rest = rest.trim_start_matches([',', ' ']);
                format!("$$ {latex} $$\n\n{}", sentence(rest))
            }
            pieces => sentence(&joined(pieces)),
        });
    }
    Ok(paragraphs.join("\n\n"))
}

/// A line as Markdown that fits into a sentence or a table.
///
/// # Errors
/// As [`block`].
pub fn inline(text: &str, record: &Record) -> Result<String, String> {
    let mut clauses = Vec::new();
    for clause in split(text, "; ") {
        clauses.push(joined(&clause_pieces(clause, record)?));
    }
    Ok(clauses.join("; "))
}

/// All formulas of a line.
///
/// # Errors
/// As [`block`].
pub fn formulas(text: &str, record: &Record) -> Result<Vec<Piece>, String> {
    let mut all = Vec::new();
    for clause in split(text, "; ") {
        all.extend(clause_pieces(clause, record)?);
    }
    Ok(all)
}

fn joined(pieces: &[Piece]) -> String {
    let part = |piece: &Piece| match piece {
        Piece::Math(latex) => format!("${latex}$"),
        Piece::Text(words) => words.clone(),
    };
    pieces.iter().map(part).collect::<String>().trim().to_string()
}

/// With a capital and a full stop, unless it begins with a formula.
fn sentence(text: &str) -> String {
    let ended = if text.ends_with(['.', ':']) { "" } else { "." };
    format!("{}{ended}", capital(text))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |c| c.to_uppercase().chain(letters).collect())
}

/// `y = …, p = …, with q = …`: the formula and what it is made of; and cases.
fn clause_pieces(clause: &str, record: &Record) -> Result<Vec<Piece>, String> {
    if let Some((label, rest)) = clause.split_once(": ")
        && label.chars().all(|c| c.is_ascii_alphabetic() || c == ' ')
    {
        let mut pieces = vec![Piece::Text(format!("{label}: "))];
        pieces.extend(clause_pieces(rest, record)?);
        return Ok(pieces);
    }
    let mut made: Vec<Piece> = Vec::new();
    for (number, part) in definitions(clause).into_iter().enumerate() {
        let pieces = part_pieces(part, record)?;
        let plain = matches!(&pieces[..], [Piece::Math(_)]);
        match (made.last_mut(), pieces.first()) {
            (None, _) => made = pieces,
            (Some(Piece::Math(before)), Some(Piece::Math(first))) => {
                let words = if number == 1 { "\\quad\\text{with}\\quad" } else { ",\\quad" };
                *before = format!("{before}{words} {first}");
                made.extend(pieces.into_iter().skip(1));
            }
            _ if plain => {
                made.push(Piece::Text(if number == 1 { ", with " } else { ", " }.into()));
                made.extend(pieces);
            }
            _ => {
                made.push(Piece::Text(", ".into()));
                made.extend(pieces);
            }
        }
    }
    Ok(made)
}

/// Where a line goes on with what a letter in it stands for: `, t = …` or ` with d = …`.
fn definitions(clause: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < clause.len() {
        let rest = &clause[at..];
        let separator = [", with ", ", and ", " with ", " and ", ", "];
        let found =
            separator.into_iter().find(|s| rest.starts_with(s) && defines(&rest[s.len()..]));
        if depth(&clause[..at]) == 0
            && at > start
            && let Some(separator) = found
        {
            parts.push(&clause[start..at]);
            start = at + separator.len();
            at = start;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    parts.push(&clause[start..]);
    parts
}

/// Whether this begins with a letter, or a function of one, that an equation explains.
fn defines(text: &str) -> bool {
    let Some((name, _)) = text.split_once(" = ") else { return false };
    let letters = name.chars().filter(|c| c.is_alphabetic()).count();
    (1..=2).contains(&letters) && !name.contains([' ', ',', '['])
}

/// How many brackets are open at the end.
fn depth(text: &str) -> i32 {
    text.chars().fold(0, |depth, c| match c {
        '(' | '[' => depth + 1,
        ')' | ']' => depth - 1,
        _ => depth,
    })
}

/// Cut where the separator is not in brackets.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(separator) {
        if at >= start && depth(&text[..at]) == 0 {
            parts.push(&text[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

fn part_pieces(part: &str, record: &Record) -> Result<Vec<Piece>, String> {
    let (left, right) = match part.split_once(" = ") {
        Some((left, right))
            if depth(left) == 0 && !left.contains(" for ") && !left.contains(" where ") =>
        {
            (Some(left), right)
        }
        _ => (None, part),
    };
    if let Some(cases) = cases(right, record)? {
        let left = match left {
            Some(left) => format!("{} = ", math(left, record)?),
            None => String::new(),
        };
        return Ok(vec![Piece::Math(format!("{left}{cases}"))]);
    }
    // A comparison is 1 where it holds.
    if let Some(left) = left
        && ["==", "!=", "<", "<=", ">", ">="].iter().any(|s| right.contains(&format!(" {s} ")))
        && let [Piece::Math(right)] = &pieces(right, record)?[..]
    {
        let left = math(left, record)?;
        return Ok(vec![Piece::Math(format!("{left} = \\left[{right}\\right]"))]);
    }
    pieces(part, record)
}

/// `1 for x > 0, 0 elsewhere`.
fn cases(text: &str, record: &Record) -> Result<Option<String>, String> {
    let segments = split(text, ", ");
    let split_row = |segment: &str| -> Option<(String, String)> {
        for word in [" for ", " where ", " with probability "] {
            if let Some((value, condition)) = segment.split_once(word)
                && depth(value) == 0
            {
                return Some((value.to_string(), format!("{}{condition}", &word[1..])));
            }
        }
        let (value, last) = segment.rsplit_once(' ')?;
        let last = matches!(last, "elsewhere" | "below" | "above").then_some(last)?;
        Some((value.to_string(), last.to_string()))
    };
    let rows: Option<Vec<_>> = segments.iter().map(|s| split_row(s)).collect();
    let Some(rows) = rows.filter(|rows| rows.len() > 1) else { return Ok(None) };
    let mut made = Vec::new();
    for (value, condition) in rows {
        let [Piece::Math(value)] = &pieces(&value, record)?[..] else { return Ok(None) };
        let condition = math(&condition, record)?;
        made.push(format!("{value} & {condition}"));
    }
    Ok(Some(format!("\\begin{{cases}} {} \\end{{cases}}", made.join(" \\\\ "))))
}

/// All of it as one formula, words as text in it.
fn math(text: &str, record: &Record) -> Result<String, String> {
    let mut parser = Parser::new(text, record)?;
    let items = parser.items(None)?;
    Ok(parse::latex(&items))
}

fn pieces(text: &str, record: &Record) -> Result<Vec<Piece>, String> {
    let mut parser = Parser::new(text, record)?;
    let items = parser.items(None)?;
    let word = |item: &Item| matches!(item, Item::Word(_));
    let wordy = items.iter().any(word);
    // Within a sentence a comma is the sentence's.
    let apart =
        |item: &Item| if word(item) { 0 } else { 1 + i32::from(wordy && *item == Item::Comma) };
    let mut pieces: Vec<Piece> = Vec::new();
    for group in items.chunk_by(|a, b| apart(a) == apart(b)) {
        match apart(&group[0]) {
            0 => {
                let words = group.iter().filter_map(|item| match item {
                    Item::Word(word) => Some(code(word, record)),
                    _ => None,
                });
                let words = words.collect::<Vec<_>>().join(" ");
                let closed = matches!(pieces.last(), Some(Piece::Text(_)) | None);
                pieces.push(Piece::Text(if closed {
                    format!("{words} ")
                } else {
                    format!(" {words} ")
                }));
            }
            1 => pieces.push(Piece::Math(parse::latex(group))),
            _ => pieces.push(Piece::Text(", ".into())),
        }
    }
    Ok(pieces)
}

/// A word of a sentence; an argument's name as code.
fn code(word: &str, record: &Record) -> String {
    let bare = word.trim_end_matches([',', ':']);
    // One that is a word of English too stays a word.
    let known = bare.contains('_') && record.params.iter().any(|p| p.name == bare);
    if known { format!("`{bare}`{}", &word[bare.len()..]) } else { word.to_string() }
}
