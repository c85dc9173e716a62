//! What a run measured, as lines of JSON that grow with it.
//!
//! A record is a step and numbers with names. This module knows nothing of training: no times are
//! written, so that a run that was stopped and resumed leaves the same bytes as one that never was.

use super::files::{failed, keep_prefix};
use crate::{Error, Result};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number; one that is not finite is written as `null`.
    Number(f64),
    /// A text.
    Text(String),
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Number(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Number(value as f64)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.into())
    }
}

/// A file of records, one to a line: `{"step":7,"loss":0.25}`.
///
/// ```
/// use extensor::train::metrics::JsonLines;
/// let path = std::env::temp_dir().join(format!("extensor-doc-{}.jsonl", std::process::id()));
/// let mut lines = JsonLines::create(&path)?;
/// for step in 1..=3 {
///     lines.write(step, &[("loss", (1.0 / step as f64).into())])?;
/// }
/// // Resumed from a checkpoint of step 1: what came after it is cut off.
/// let mut lines = JsonLines::resume(&path, 1)?;
/// lines.write(2, &[("loss", f64::NAN.into())])?;
/// let text = std::fs::read_to_string(&path).unwrap();
/// assert_eq!(text, "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":null}\n");
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: File,
}

impl JsonLines {
    /// A new, empty file, in place of one that may be there.
    pub fn create(path: &Path) -> Result<JsonLines> {
        let file = File::create(path).map_err(|error| failed("create", path, &error))?;
        Ok(JsonLines { path: path.into(), file })
    }

    /// The file of a run that goes on after `step`: records of later steps, and a line that was not
    /// finished, are cut off. A file that is not there begins empty.
    pub fn resume(path: &Path, step: u64) -> Result<JsonLines> {
        if !path.exists() {
            return JsonLines::create(path);
        }
        let text = fs::read(path).map_err(|error| failed("read", path, &error))?;
        let mut kept = 0;
        for line in text.split_inclusive(|&b| b == b'\n') {
            if line.last() != Some(&b'\n') || step_of(line).is_none_or(|found| found > step) {
                break;
            }
            kept += line.len();
        }
        keep_prefix(path, kept as u64)?;
        let file = OpenOptions::new().append(true).open(path);
        let file = file.map_err(|error| failed("open", path, &error))?;
        Ok(JsonLines { path: path.into(), file })
    }

    /// Appends a record and hands it to the system before it returns.
    pub fn write(&mut self, step: u64, values: &[(&str, Value)]) -> Result<()> {
        let mut line = format!("{{\"step\":{step}");
        for (name, value) in values {
            line.push(',');
            quote(&mut line, name);
            line.push(':');
            match value {
                Value::Number(x) if x.is_finite() => {
                    let _ = write!(line, "{x}");
                }
                Value::Number(_) => line.push_str("null"),
                Value::Text(text) => quote(&mut line, text),
            }
        }
        line.push_str("}\n");
        self.file.write_all(line.as_bytes()).map_err(|error| failed("write to", &self.path, &error))
    }
}

/// The step of a record, and its numbers with their names.
pub type Record = (u64, Vec<(String, f64)>);

/// Reads the records of a file back.
///
/// Only what [`JsonLines`] writes is understood.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let text = fs::read_to_string(path).map_err(|error| failed("read", path, &error))?;
    let mut records = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let record = fields(line).ok_or_else(|| Error::Parameter {
            op: "metrics",
            parameter: "record",
            expected: "an object of numbers and texts that begins with \"step\"".into(),
            got: format!("line {} of {}", number + 1, path.display()),
        })?;
        records.push(record);
    }
    Ok(records)
}

fn fields(line: &str) -> Option<Record> {
    let step = step_of(line.as_bytes())?;
    let inner = line.strip_prefix('{')?.strip_suffix('}')?;
    let mut numbers = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let (name, after) = unquote(rest)?;
        let after = after.strip_prefix(':')?;
        if after.starts_with('"') {
            rest = unquote(after)?.1;
        } else {
            let end = after.find(',').unwrap_or(after.len());
            let value = match &after[..end] {
                "null" => f64::NAN,
                text => text.parse().ok()?,
            };
            numbers.push((name, value));
            rest = &after[end..];
        }
        rest = match rest.strip_prefix(',') {
            Some(rest) => rest,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some((step, numbers))
}

/// The text of a JSON string at the beginning, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix('"')?;
    let mut made = String::new();
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((made, &body[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => made.push('\n'),
                't' => made.push('\t'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                    made.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => made.push(other),
            },
            other => made.push(other),
        }
    }
    None
}

fn step_of(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"step\":")?;
    let end = digits.iter().position(|b| !b.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

fn quote(line: &mut String, text: &str) {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(line, "\\u{:04x}", u32::from(c));
            }
            c => line.push(c),
        }
    }
    line.push('"');
}
