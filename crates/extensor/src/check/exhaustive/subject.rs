//! An operation of one number, with parameters.

use crate::check::nested::{Mode, nested};
use crate::check::suite::{Build, samples};
use crate::ops::Operation;
use crate::ops::operation::{apply_one, backward};
use crate::ops::params::Params;
use crate::ops::record::{Class, Count, Record};
use crate::{DType, Error, Result, Tensor, ops};
use std::fmt;

/// Whether an operation works on each number by itself.
pub(super) fn is_of_one_number(record: &Record) -> bool {
    let one = |count| count == Count::One;
    record.class == Class::Elementwise
        && record.inputs.iter().filter(|i| one(i.count)).count() == 1
        && one(record.inputs[0].count)
}

/// An operation of one number, with parameters.
pub(super) struct Subject {
    pub record: &'static Record,
    op: Box<dyn Operation>,
    title: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)
    }
}

impl Subject {
    /// An operation with each set of parameters that its samples have.
    pub fn of(record: &'static Record, build: Build<'_>) -> Vec<Subject> {
        let mut all: Vec<Params> = Vec::new();
        for sample in samples(record, 0) {
            if sample.inputs.len() == 1 && !all.contains(&sample.params) {
                all.push(sample.params);
            }
        }
        let named = |params: &Params| {
            let words: Vec<String> = params.iter().map(|(n, v)| format!("{n}={v}")).collect();
            [vec![record.name.to_string()], words].concat().join(" ")
        };
        let made = all.iter().filter_map(|params| {
            let op = build(params).ok()?;
            Some(Subject { record, op, title: named(params) })
        });
        made.collect()
    }

    pub fn call(&self, x: &Tensor) -> Result<Tensor> {
        apply_one(&*self.op, &[x])
    }

    /// The derivative of an order in a mode.
    pub fn derivative(&self, x: &Tensor, order: usize, mode: Mode) -> Result<Tensor> {
        nested(&|args| self.call(&args[0]), std::slice::from_ref(x), &vec![0; order], mode)
    }

    /// The first derivative by the backward rule, from this output.
    pub fn slope(&self, x: &Tensor, output: &Tensor) -> Result<Tensor> {
        let ones = Tensor::ones(x.shape().clone(), x.dtype())?;
        let found = backward(&*self.op, &[&ones], &[x], &[output], &[true])?;
        let none = || Error::NotDifferentiable {
            op: self.record.name,
            argument: "x".into(),
            reason: "its rule returned no gradient",
        };
        found.into_iter().flatten().next().ok_or_else(none)
    }

    /// The same numbers in `f64`.
    pub fn widened(x: &Tensor) -> Result<Tensor> {
        ops::cast(x, DType::F64)
    }
}
