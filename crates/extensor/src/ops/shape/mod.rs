//! Numbers moved, picked, repeated and brought into order.

pub(super) mod arranging;
pub(super) mod axes;
pub(super) mod cast;
pub(super) mod diagonal;
pub(super) mod filling;
pub(super) mod indexing;
pub(super) mod joining;
pub(super) mod masked;
pub(super) mod padding;
pub(super) mod put;
mod put_gradient;
pub(super) mod repeating;
pub(super) mod scatter;
pub(super) mod search;
pub(super) mod selecting;
pub(super) mod slicing;
pub(super) mod so_far;
pub(super) mod sorting;
pub(super) mod split;
pub(super) mod triangle;
pub(super) mod views;

pub use arranging::*;
pub use axes::*;
pub use cast::*;
pub use diagonal::*;
pub use filling::*;
pub use indexing::*;
pub use joining::*;
pub use masked::*;
pub use padding::*;
pub use put::*;
pub use repeating::*;
pub use scatter::*;
pub use search::*;
pub use selecting::*;
pub use slicing::*;
pub use so_far::*;
pub use sorting::*;
pub use split::*;
pub use triangle::*;
pub use views::*;

use crate::ops::operation::{Operation, backward, placeholder};
use crate::ops::record::Parameter;
use crate::tensor::expect_room;
use crate::{Error, Result, Shape, Tensor};
use std::fmt::Debug;

/// A parameter that must be given.
pub(super) const fn required(name: &'static str, what: &'static str) -> Parameter {
    Parameter { name, what, default: None }
}

/// A parameter that may be left out.
pub(super) const fn optional(
    name: &'static str,
    what: &'static str,
    default: &'static str,
) -> Parameter {
    Parameter { name, what, default: Some(default) }
}

/// The error of a parameter outside what is allowed.
pub(super) fn bad_parameter(
    op: &'static str,
    parameter: &'static str,
    expected: impl Into<String>,
    got: impl Debug,
) -> Error {
    Error::Parameter { op, parameter, expected: expected.into(), got: format!("{got:?}") }
}

/// The error of an argument of the wrong shape.
pub(super) fn bad_shape(
    op: &'static str,
    argument: &'static str,
    expected: impl Into<String>,
    got: &Shape,
) -> Error {
    Error::Shape { op, argument, expected: expected.into(), got: got.clone() }
}

/// The shape of these sizes, none of which may be negative, and which memory can address.
pub(super) fn sizes(op: &'static str, parameter: &'static str, given: &[i64]) -> Result<Shape> {
    let size = |&size: &i64| usize::try_from(size);
    let shape: Shape = match given.iter().map(size).collect() {
        Ok(shape) => shape,
        Err(_) => return Err(bad_parameter(op, parameter, "sizes of at least 0", given)),
    };
    shape.count(op)?;
    Ok(shape)
}

/// The shape of these sizes, which were computed: `None` where one is too large to count.
pub(super) fn countable(
    op: &'static str,
    sizes: impl Iterator<Item = Option<usize>> + Clone,
) -> Result<Shape> {
    let shape: Shape = sizes.clone().map(|s| s.unwrap_or(usize::MAX)).collect();
    if sizes.into_iter().any(|size| size.is_none()) {
        return Err(Error::Overflow { op, shape });
    }
    shape.count(op)?;
    Ok(shape)
}

/// About how many bytes one of many views takes, with what the engine and differentiation keep of it.
pub(super) const PART: usize = 512;

/// The gradients for all inputs, of these shapes, of an operation that takes any number of them.
#[track_caller]
pub(super) fn backward_of_many(
    op: &dyn Operation,
    grad_outputs: &[&Tensor],
    shapes: &[Shape],
) -> Result<Vec<Tensor>> {
    let dtype = grad_outputs.first().map(|g| g.dtype());
    let Some(dtype) = dtype else {
        return Ok(Vec::new());
    };
    expect_room(op.record().name, shapes.len(), PART)?;
    let of = |shape: &Shape| placeholder(shape, dtype);
    let inputs = shapes.iter().map(of).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let wanted = vec![true; inputs.len()];
    let grads = backward(op, grad_outputs, &inputs, grad_outputs, &wanted)?;
    Ok(grads.into_iter().flatten().collect())
}
