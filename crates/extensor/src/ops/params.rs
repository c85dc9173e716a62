//! Parameters by name, for calls through the catalogue.

use super::record::Record;
use crate::{Axes, DType, Error, Key, Result, Tensor};
use std::fmt;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not given.
    None,
    /// A switch.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A list of whole numbers.
    Ints(Vec<i64>),
    /// A list of pairs.
    Pairs(Vec<(i64, i64)>),
    /// A word.
    Text(String),
    /// What names a stream of random numbers.
    Key(Key),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("None"),
            Value::Bool(v) => write!(f, "{v}"),
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v:?}"),
            Value::Ints(v) => write!(f, "{v:?}"),
            Value::Pairs(v) => write!(f, "{v:?}"),
            Value::Text(v) => write!(f, "{v:?}"),
            Value::Key(v) => write!(f, "{v:?}"),
        }
    }
}

macro_rules! value_from {
    ($($t:ty => $value:expr),* $(,)?) => {$(
        impl From<$t> for Value {
            fn from(v: $t) -> Value {
                #[allow(clippy::redundant_closure_call)]
                ($value)(v)
            }
        }
    )*};
}

value_from! {
    bool => Value::Bool,
    i64 => Value::Int,
    i32 => |v| Value::Int(i64::from(v)),
    f64 => Value::Float,
    Vec<i64> => Value::Ints,
    &[i64] => |v: &[i64]| Value::Ints(v.to_vec()),
    Vec<(i64, i64)> => Value::Pairs,
    &str => |v: &str| Value::Text(v.to_string()),
    Key => Value::Key,
}

impl<const N: usize> From<[i64; N]> for Value {
    fn from(v: [i64; N]) -> Value {
        Value::Ints(v.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Value {
        v.map_or(Value::None, Into::into)
    }
}

/// The type of a parameter of a function of one number: a number, or one that may be left out.
pub(crate) trait Setting: Sized {
    /// The parameter of this name, or its default.
    fn read(params: &Params, op: &'static str, name: &'static str, default: Self) -> Result<Self>;
}

impl Setting for f64 {
    fn read(params: &Params, op: &'static str, name: &'static str, default: f64) -> Result<f64> {
        params.float(op, name, default)
    }
}

impl Setting for Option<f64> {
    fn read(params: &Params, op: &'static str, name: &'static str, default: Self) -> Result<Self> {
        Ok(params.optional_float(op, name)?.or(default))
    }
}

fn bad<T>(op: &'static str, parameter: &'static str, got: f64, expected: String) -> Result<T> {
    Err(Error::Parameter { op, parameter, expected, got: format!("{got:?}") })
}

/// An error unless a parameter is finite, in the precision that the dtype is computed in too.
pub(crate) fn expect_finite(
    op: &'static str,
    name: &'static str,
    value: f64,
    dtype: DType,
) -> Result<()> {
    let wide = dtype == DType::F64;
    // What rounds to the largest number is one that it can hold.
    if if wide { value.is_finite() } else { (value as f32).is_finite() } {
        return Ok(());
    }
    let within = if wide { DType::F64 } else { DType::F32 };
    bad(op, name, value, format!("a finite number that {within} can hold"))
}

/// An error unless a parameter is finite and above 0, in the precision that the dtype is computed in too.
pub(crate) fn expect_positive(
    op: &'static str,
    name: &'static str,
    value: f64,
    dtype: DType,
) -> Result<()> {
    expect_finite(op, name, value, dtype)?;
    let wide = dtype == DType::F64;
    if if wide { value > 0.0 } else { value as f32 > 0.0 } {
        return Ok(());
    }
    let within = if wide { DType::F64 } else { DType::F32 };
    bad(op, name, value, format!("a number above 0 that {within} can hold"))
}

/// An error unless a parameter is finite and not below 0, in the precision that the dtype is computed in too.
pub(crate) fn expect_not_negative(
    op: &'static str,
    name: &'static str,
    value: f64,
    dtype: DType,
) -> Result<()> {
    expect_finite(op, name, value, dtype)?;
    if value >= 0.0 {
        return Ok(());
    }
    bad(op, name, value, "a number from 0 up".into())
}

/// An error if a parameter is NaN, or, beside whole numbers, not one that their dtype can hold.
pub(crate) fn expect_number(
    op: &'static str,
    name: &'static str,
    value: impl Into<Option<f64>>,
    dtype: DType,
) -> Result<()> {
    match value.into() {
        Some(value) if value.is_nan() => bad(op, name, value, "a number".into()),
        Some(value) if dtype.is_int() && Tensor::scalar_of(value, dtype).is_err() => {
            bad(op, name, value, format!("a whole number that {dtype} can hold"))
        }
        _ => Ok(()),
    }
}

/// An error if the first of two parameters is above the second.
pub(crate) fn expect_order<T: Into<Option<f64>>>(
    op: &'static str,
    names: [&'static str; 2],
    values: [T; 2],
) -> Result<()> {
    match values.map(Into::into) {
        [Some(low), Some(high)] if low > high => {
            bad(op, names[0], low, format!("at most {} ({high:?})", names[1]))
        }
        _ => Ok(()),
    }
}

/// Whether a name is that of a parameter. What may be several has its name in the singular (`axis`), as
/// in other libraries; files and programs that say it in the plural are understood.
fn means(given: &str, name: &str) -> bool {
    given == name || matches!((given, name), ("axes", "axis") | ("shifts", "shift"))
}

/// Parameters by name, in the order given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(Vec<(String, Value)>);

impl Params {
    /// No parameters.
    pub fn new() -> Params {
        Params::default()
    }

    /// These and one more.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Params {
        self.0.push((name.to_string(), value.into()));
        self
    }

    /// The names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// An error if a name is not among the operation's parameters.
    pub(crate) fn expect_known(&self, record: &Record) -> Result<()> {
        for (name, _) in self.iter() {
            if !record.params.iter().any(|p| means(name, p.name)) {
                let known: Vec<&str> = record.params.iter().map(|p| p.name).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                let parameter = name.to_string();
                return Err(Error::UnknownParameter { op: record.name, parameter, known });
            }
        }
        Ok(())
    }

    fn get(&self, name: &str) -> &Value {
        self.0.iter().find(|(n, _)| means(n, name)).map_or(&Value::None, |(_, v)| v)
    }

    fn bad<T>(&self, op: &'static str, parameter: &'static str, expected: &str) -> Result<T> {
        let got = self.get(parameter).to_string();
        Err(Error::Parameter { op, parameter, expected: expected.into(), got })
    }

    /// A switch.
    pub fn bool(&self, op: &'static str, name: &'static str, default: bool) -> Result<bool> {
        match self.get(name) {
            Value::None => Ok(default),
            Value::Bool(v) => Ok(*v),
            _ => self.bad(op, name, "true or false"),
        }
    }

    /// True or false, by default false, or one of the words that other libraries use for these.
    pub fn bool_or(
        &self,
        op: &'static str,
        name: &'static str,
        no: &str,
        yes: &str,
    ) -> Result<bool> {
        match self.get(name) {
            Value::None => Ok(false),
            Value::Bool(v) => Ok(*v),
            Value::Text(v) if v == no => Ok(false),
            Value::Text(v) if v == yes => Ok(true),
            _ => self.bad(op, name, &format!("true ({yes:?}) or false ({no:?})")),
        }
    }

    /// A whole number, or nothing.
    pub fn optional_int(&self, op: &'static str, name: &'static str) -> Result<Option<i64>> {
        match self.get(name) {
            Value::None => Ok(None),
            Value::Int(v) => Ok(Some(*v)),
            _ => self.bad(op, name, "a whole number"),
        }
    }

    /// A whole number that must be given.
    pub fn int(&self, op: &'static str, name: &'static str) -> Result<i64> {
        self.optional_int(op, name)?.map_or_else(|| self.bad(op, name, "a whole number"), Ok)
    }

    /// A number, or nothing.
    pub fn optional_float(&self, op: &'static str, name: &'static str) -> Result<Option<f64>> {
        match self.get(name) {
            Value::None => Ok(None),
            Value::Float(v) => Ok(Some(*v)),
            Value::Int(v) => Ok(Some(*v as f64)),
            _ => self.bad(op, name, "a number"),
        }
    }

    /// A number.
    pub fn float(&self, op: &'static str, name: &'static str, default: f64) -> Result<f64> {
        Ok(self.optional_float(op, name)?.unwrap_or(default))
    }

    /// A list of whole numbers, or nothing.
    pub fn optional_ints(&self, op: &'static str, name: &'static str) -> Result<Option<Vec<i64>>> {
        match self.get(name) {
            Value::None => Ok(None),
            Value::Ints(v) => Ok(Some(v.clone())),
            Value::Int(v) => Ok(Some(vec![*v])),
            _ => self.bad(op, name, "a list of whole numbers"),
        }
    }

    /// A list of whole numbers that must be given.
    pub fn ints(&self, op: &'static str, name: &'static str) -> Result<Vec<i64>> {
        match self.optional_ints(op, name)? {
            Some(list) => Ok(list),
            None => self.bad(op, name, "a list of whole numbers"),
        }
    }

    /// Axes; all if none are given.
    pub fn axes(&self, op: &'static str, name: &'static str) -> Result<Axes> {
        Ok(Axes::from(self.optional_ints(op, name)?.as_deref()))
    }

    /// A list of pairs that must be given.
    pub fn pairs(&self, op: &'static str, name: &'static str) -> Result<Vec<(i64, i64)>> {
        match self.get(name) {
            Value::Pairs(v) => Ok(v.clone()),
            Value::Ints(v) if v.is_empty() => Ok(Vec::new()),
            _ => self.bad(op, name, "a list of pairs of whole numbers"),
        }
    }

    /// A word, or `default`.
    pub fn text(&self, op: &'static str, name: &'static str, default: &str) -> Result<String> {
        match self.get(name) {
            Value::None => Ok(default.to_string()),
            Value::Text(v) => Ok(v.clone()),
            _ => self.bad(op, name, "a word"),
        }
    }

    /// A word that must be given.
    pub fn word(&self, op: &'static str, name: &'static str) -> Result<String> {
        match self.get(name) {
            Value::Text(v) => Ok(v.clone()),
            _ => self.bad(op, name, "a word"),
        }
    }

    /// A random key, by its number; it must be given.
    pub fn key(&self, op: &'static str, name: &'static str) -> Result<Key> {
        match self.get(name) {
            Value::Key(key) => Ok(*key),
            _ => self.int(op, name).map(|seed| Key::new(seed.cast_unsigned())),
        }
    }

    /// A key, or nothing.
    pub fn optional_key(&self, op: &'static str, name: &'static str) -> Result<Option<Key>> {
        match self.get(name) {
            Value::None => Ok(None),
            _ => self.key(op, name).map(Some),
        }
    }

    /// A dtype by its name.
    pub fn dtype(&self, op: &'static str, name: &'static str) -> Result<DType> {
        let found = match self.get(name) {
            Value::Text(v) => DType::from_name(v),
            _ => None,
        };
        found.map_or_else(|| self.bad(op, name, "the name of a dtype"), Ok)
    }
}
