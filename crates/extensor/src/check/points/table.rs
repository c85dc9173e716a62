//! The table of points and answers, as `tools/points.py` writes it.

use crate::ops::catalogue;
use crate::ops::params::{Params, Value};
use crate::ops::record::Record;
use crate::{DType, Error, Result};
use flate2::read::GzDecoder;
use std::fmt;
use std::io::Read;

static TABLE: &[u8] = include_bytes!("table.txt.gz");

/// A function of one or two numbers, and the points at which it is known.
pub(super) struct Case {
    pub record: &'static Record,
    /// Its parameters, those that all operations here have among them.
    pub params: Params,
    pub form: Form,
    /// The derivatives in the table: how often by each number.
    pub indices: Vec<[usize; 2]>,
    pub points: Vec<Point>,
    title: String,
}

/// How numbers become an operation's inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// Each is an input, the first `variables` of them differentiated by.
    Inputs { variables: usize },
    /// Both are inputs, after a condition.
    Chosen(bool),
    /// Both are inputs, before one that stays the same.
    Before(f64),
    /// They are a row, perhaps with a zero behind them, of whose result an element is looked at.
    Row { zero: bool, element: Option<usize> },
}

impl Form {
    /// How many numbers to differentiate by.
    pub fn variables(self) -> usize {
        if let Form::Inputs { variables } = self { variables } else { 2 }
    }
}

/// A point and what is known there.
#[derive(Clone)]
pub(super) struct Point {
    pub at: Vec<f64>,
    /// For each of the case's derivatives; `None` where none is defined.
    pub wants: Vec<Option<Want>>,
}

/// What a derivative must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Want {
    /// The true one, with the exponent of the size of its terms where they cancel.
    True(f64, Option<i32>),
    /// What the specification says where there is none.
    Convention(f64),
    /// Any finite number.
    Finite,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.at.iter().map(|v| format!("{v:?}")).collect();
        write!(f, "({})", numbers.join(", "))
    }
}

impl Case {
    /// The points that a dtype has.
    pub fn points_in(&self, dtype: DType) -> Vec<Point> {
        let has = |v: f64| dtype == DType::F64 || v.is_nan() || f64::from(v as f32) == v;
        self.points.iter().filter(|p| p.at.iter().all(|v| has(*v))).cloned().collect()
    }
}

/// All cases.
pub(super) fn read() -> Result<Vec<Case>> {
    let mut text = String::new();
    GzDecoder::new(TABLE).read_to_string(&mut text).map_err(|e| bad(&e.to_string()))?;
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("@ ") {
            cases.push(case(title)?);
        } else {
            let case = cases.last_mut().ok_or_else(|| bad("a point comes before any operation"))?;
            case.points.push(point(line)?);
        }
    }
    Ok(cases)
}

fn bad(reason: &str) -> Error {
    Error::Check { op: "check --points".into(), reason: format!("the table is damaged: {reason}") }
}

/// `name form parameter=value …`.
fn case(title: &str) -> Result<Case> {
    let mut words = title.split(' ');
    let (Some(name), Some(form)) = (words.next(), words.next()) else {
        return Err(bad(title));
    };
    let record = catalogue::find(name)?;
    let (form, element) = match form.split_once(':') {
        Some((form, k)) => (form, Some(k.parse().map_err(|_| bad(title))?)),
        None => (form, None),
    };
    let form = match form {
        "x" | "x;t" => Form::Inputs { variables: 1 },
        "x,y" => Form::Inputs { variables: 2 },
        "true,x,y" => Form::Chosen(true),
        "false,x,y" => Form::Chosen(false),
        "row" => Form::Row { zero: false, element },
        "row0" => Form::Row { zero: true, element },
        _ => match form.strip_prefix("x,y;").map(str::parse) {
            Some(Ok(constant)) => Form::Before(constant),
            _ => return Err(bad(title)),
        },
    };
    let mut params = Params::new();
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| bad(title))?;
        params = params.with(name, parameter(value).ok_or_else(|| bad(title))?);
    }
    // What all operations that have such a parameter are called with here.
    let size = if let Form::Row { zero: true, .. } = form { 3 } else { 2 };
    for parameter in record.params {
        params = match parameter.name {
            "reduction" => params.with("reduction", "none"),
            "axis" => params.with("axis", 1),
            "normalized_shape" => params.with("normalized_shape", [size]),
            _ => params,
        };
    }
    let orders = (0..=3).flat_map(|k| (0..=k).map(move |j| [k - j, j]));
    let indices = orders.filter(|[_, j]| *j == 0 || form.variables() == 2).collect();
    Ok(Case { record, params, form, indices, points: Vec::new(), title: title.into() })
}

fn parameter(text: &str) -> Option<Value> {
    Some(match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if text.contains(['.', 'e']) => Value::Float(text.parse().ok()?),
        _ => Value::Int(text.parse().ok()?),
    })
}

/// `numbers | derivatives`.
fn point(line: &str) -> Result<Point> {
    let (at, wants) = line.split_once(" | ").ok_or_else(|| bad(line))?;
    let number = |word: &str| word.parse::<f64>().map_err(|_| bad(line));
    let at = at.split(' ').map(number).collect::<Result<_>>()?;
    let want = |word: &str| {
        Ok(Some(match word {
            "_" => return Ok(None),
            "?" => Want::Finite,
            _ => match (word.strip_prefix('='), word.split_once('~')) {
                (Some(value), _) => Want::Convention(number(value)?),
                (None, Some((value, size))) => {
                    Want::True(number(value)?, Some(size.parse().map_err(|_| bad(line))?))
                }
                (None, None) => Want::True(number(word)?, None),
            },
        }))
    };
    Ok(Point { at, wants: wants.split(' ').map(want).collect::<Result<_>>()? })
}
