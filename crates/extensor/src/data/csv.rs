//! Tables of numbers in text files, comma-separated or otherwise.
//!
//! Quotes as in RFC 4180; every field must be a finite number. This module must not know what the
//! columns mean.

use super::Pairs;
use super::gzip::Stream;
use crate::io::fault;
use crate::ops::cast;
use crate::{DType, Error, Result, Tensor};
use std::path::Path;

const READ: &str = "csv::read";
const LONGEST: u64 = 1 << 32;

/// How a file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What stands between fields.
    pub delimiter: char,
    /// Whether the first line names the columns; `None`: it does if one of its fields is no number.
    pub header: Option<bool>,
}

impl Default for Options {
    fn default() -> Options {
        Options { delimiter: ',', header: None }
    }
}

/// Names or numbers (from 0 on) of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By name.
    Name(String),
    /// By number.
    Number(usize),
}

impl From<&str> for Column {
    fn from(name: &str) -> Column {
        Column::Name(name.into())
    }
}

impl From<usize> for Column {
    fn from(number: usize) -> Column {
        Column::Number(number)
    }
}

/// Named columns of numbers.
///
/// ```
/// use extensor::data::csv::{self, Options};
/// let table = csv::parse("size,\"price\"\n1.5,10\n2.5,20\n", &Options::default())?;
/// assert_eq!(table.columns(), ["size", "price"]);
/// let data = table.regression("price")?;
/// assert_eq!(data.inputs().to_vec::<f32>()?, [1.5, 2.5]);
/// assert_eq!(data.targets().to_vec::<f32>()?, [10.0, 20.0]);
/// let error = csv::parse("a,b\n1,2\n3,x\n", &Options::default()).unwrap_err().to_string();
/// assert!(error.contains("line 3, column 2 (\"b\"): \"x\" is no finite number"), "{error}");
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<String>,
    values: Tensor,
}

/// Reads a file, plain or gzipped.
pub fn read(path: impl AsRef<Path>, options: &Options) -> Result<Table> {
    let text = Stream::open(READ, path.as_ref())?.text(LONGEST)?;
    from_text(&text, options)
        .map_err(|reason| fault(READ, &crate::io::shown(path.as_ref()), reason))
}

/// Reads a text.
pub fn parse(text: &str, options: &Options) -> Result<Table> {
    from_text(text, options).map_err(|reason| fault(READ, "the text", reason))
}

fn from_text(text: &str, options: &Options) -> std::result::Result<Table, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Records { rest: text, delimiter: options.delimiter, line: 1 };
    let mut columns: Vec<String> = Vec::new();
    let mut values = Vec::new();
    let mut rows = 0;
    while let Some((line, fields)) = records.next()? {
        if columns.is_empty() {
            let names = fields.iter().any(|field| number(field).is_none());
            if options.header.unwrap_or(names) {
                columns = fields;
                continue;
            }
            columns = (0..fields.len()).map(|i| i.to_string()).collect();
        }
        if fields.len() != columns.len() {
            let (got, expected) = (fields.len(), columns.len());
            return Err(format!("line {line} has {got} fields, expected {expected}"));
        }
        for (i, (field, column)) in fields.iter().zip(&columns).enumerate() {
            values.push(number(field).ok_or_else(|| {
                format!("line {line}, column {} ({column:?}): {field:?} is no finite number", i + 1)
            })?);
        }
        rows += 1;
    }
    let shape = [rows, columns.len()];
    let values = Tensor::from_vec(values, shape).map_err(|error| error.to_string())?;
    Ok(Table { columns, values })
}

fn number(field: &str) -> Option<f64> {
    field.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

/// The records of a text, and the line each starts in.
struct Records<'a> {
    rest: &'a str,
    delimiter: char,
    line: usize,
}

impl Records<'_> {
    /// The next one that is not an empty line.
    fn next(&mut self) -> std::result::Result<Option<(usize, Vec<String>)>, String> {
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            let line = self.line;
            let mut fields = Vec::new();
            while self.field(&mut fields)? {}
            if fields.len() > 1 || !fields[0].trim().is_empty() {
                return Ok(Some((line, fields)));
            }
        }
    }

    /// Reads a field; whether the record goes on.
    fn field(&mut self, fields: &mut Vec<String>) -> std::result::Result<bool, String> {
        let (start, column) = (self.line, fields.len() + 1);
        let quoted = self.rest.trim_start_matches([' ', '\t']).strip_prefix('"');
        let value = match quoted {
            // A tab can be the delimiter, and a quote after it the next field's.
            Some(inside) if !self.rest.starts_with(self.delimiter) => {
                self.rest = inside;
                self.quoted().ok_or_else(|| {
                    format!("line {start}, column {column}: a quotation mark is never closed")
                })?
            }
            _ => {
                let end = self.rest.find([self.delimiter, '\n']).unwrap_or(self.rest.len());
                let (value, rest) = self.rest.split_at(end);
                self.rest = rest;
                value.strip_suffix('\r').unwrap_or(value).to_string()
            }
        };
        fields.push(value);
        self.rest = self.rest.strip_prefix("\r\n").map_or(self.rest, |_| &self.rest[1..]);
        if let Some(rest) = self.rest.strip_prefix(self.delimiter) {
            self.rest = rest;
            return Ok(true);
        }
        match self.rest.strip_prefix('\n') {
            Some(rest) => (self.rest, self.line) = (rest, self.line + 1),
            None if self.rest.is_empty() => {}
            None => {
                let line = self.line;
                return Err(format!(
                    "line {line}, column {column}: something follows the closing quotation mark"
                ));
            }
        }
        Ok(false)
    }

    /// What is before the closing quotation mark; two of them stand for one.
    fn quoted(&mut self) -> Option<String> {
        let mut value = String::new();
        loop {
            let (part, rest) = self.rest.split_once('"')?;
            self.line += part.matches('\n').count();
            value.push_str(part);
            match rest.strip_prefix('"') {
                Some(rest) => {
                    value.push('"');
                    self.rest = rest;
                }
                None => {
                    self.rest = rest.trim_start_matches(|c| c == ' ' && c != self.delimiter);
                    return Some(value);
                }
            }
        }
    }
}

impl Table {
    /// The columns' names; their numbers if the file has no names.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// All numbers, `[rows, columns]` in `f64`.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Data to predict a number by the other columns: inputs `[rows, columns − 1]` and targets
    /// `[rows, 1]` in `f32`.
    pub fn regression(&self, target: impl Into<Column>) -> Result<Pairs> {
        let (inputs, targets) = self.apart(target.into())?;
        let rows = targets.len();
        let targets = cast(&Tensor::from_vec(targets, [rows, 1])?, DType::F32)?;
        Pairs::new(inputs, targets)
    }

    /// Data to predict a class by the other columns: inputs `[rows, columns − 1]` in `f32`, targets
    /// `[rows]` in `i64`, which must be whole numbers from 0 on.
    pub fn classification(&self, target: impl Into<Column>) -> Result<Pairs> {
        let (inputs, targets) = self.apart(target.into())?;
        let class = |&value: &f64| {
            if value >= 0.0 && value.trunc() == value && value < 9e15 {
                return Ok(value as i64);
            }
            let (expected, got) = ("classes: whole numbers from 0 on".into(), value.to_string());
            Err(Error::Parameter {
                op: "Table::classification",
                parameter: "target",
                expected,
                got,
            })
        };
        let targets = targets.iter().map(class).collect::<Result<Vec<i64>>>()?;
        let rows = targets.len();
        Pairs::new(inputs, Tensor::from_vec(targets, [rows])?)
    }

    /// The other columns, and this one.
    fn apart(&self, target: Column) -> Result<(Tensor, Vec<f64>)> {
        let found = match &target {
            Column::Name(name) => self.columns.iter().position(|column| column == name),
            Column::Number(number) => Some(*number).filter(|&n| n < self.columns.len()),
        };
        let Some(at) = found else {
            let expected = format!("one of the columns {:?}", self.columns);
            let got = match target {
                Column::Name(name) => format!("{name:?}"),
                Column::Number(number) => number.to_string(),
            };
            return Err(Error::Parameter { op: "Table", parameter: "target", expected, got });
        };
        let width = self.columns.len();
        let rows = self.values.to_vec::<f64>()?;
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for row in rows.chunks_exact(width) {
            targets.push(row[at]);
            inputs.extend(row.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, &v)| v as f32));
        }
        let inputs = Tensor::from_vec(inputs, [targets.len(), width - 1])?;
        Ok((inputs, targets))
    }
}
