//! A derivative of a case at all of its points at once, by any nesting of the two modes.

use super::table::{Case, Form, Point};
use crate::check::nested::{Mode, nested};
use crate::ops::Operation;
use crate::ops::operation::apply_one;
use crate::{DType, Result, Tensor, ops};

/// The orders in which to differentiate `times[0]` times by the first number and `times[1]` times by
/// the second.
pub(super) fn sequences(times: [usize; 2]) -> Vec<Vec<usize>> {
    if times == [0, 0] {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for which in 0..2 {
        let mut rest = times;
        if let Some(fewer) = times[which].checked_sub(1) {
            rest[which] = fewer;
            for mut sequence in sequences(rest) {
                sequence.push(which);
                all.push(sequence);
            }
        }
    }
    all
}

/// A sequence in words: `d²/dadb`, the innermost first.
pub(super) fn name(sequence: &[usize]) -> String {
    if sequence.is_empty() {
        return "the value".into();
    }
    let by: String = sequence.iter().map(|w| if *w == 0 { "da" } else { "db" }).collect();
    format!("order {}, by {by}", sequence.len())
}

/// The derivative by the numbers of `sequence`, one after the other, at each point.
pub(super) fn derivative(
    case: &Case,
    op: &dyn Operation,
    points: &[Point],
    dtype: DType,
    sequence: &[usize],
    mode: Mode,
) -> Result<Vec<f64>> {
    let numbers = points.first().map_or(0, |p| p.at.len());
    let column = |k: usize| {
        let values: Vec<f64> = points.iter().map(|p| p.at[k]).collect();
        ops::cast(&Tensor::from_vec(values, [points.len()])?, dtype)
    };
    let args: Vec<Tensor> = (0..numbers).map(column).collect::<Result<_>>()?;
    Ok(nested(&|args| call(case.form, op, args), &args, sequence, mode)?.to_f64_vec())
}

/// The operation, of columns of numbers.
fn call(form: Form, op: &dyn Operation, args: &[Tensor]) -> Result<Tensor> {
    match form {
        Form::Inputs { .. } => apply_one(op, &args.iter().collect::<Vec<_>>()),
        Form::Chosen(chosen) => {
            let condition = Tensor::full(args[0].shape().clone(), f64::from(chosen), DType::Bool)?;
            apply_one(op, &[&condition, &args[0], &args[1]])
        }
        Form::Before(constant) => {
            let constant = Tensor::scalar_of(constant, args[0].dtype())?;
            apply_one(op, &[&args[0], &args[1], &constant])
        }
        Form::Row { zero, element } => {
            let mut row = args.to_vec();
            if zero {
                row.push(Tensor::zeros(args[0].shape().clone(), args[0].dtype())?);
            }
            let y = apply_one(op, &[&ops::stack(&row, 1)?])?;
            let Some(k) = element else { return Ok(y) };
            let at = ops::reshape(&Tensor::scalar(k as i64), [1i64])?;
            ops::reshape(&ops::take(&y, &at, 1)?, args[0].shape())
        }
    }
}
