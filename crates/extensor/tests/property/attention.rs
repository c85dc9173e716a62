//! The slow reference for the family `attention`.

use crate::array::{Array, Expected};
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::params::Params;

pub const REFERENCE: Reference = Reference { names: &[], draw, forward, backward };

fn draw(_: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    panic!("no calls of {name}")
}

fn forward(call: &Call) -> Vec<Expected> {
    panic!("no reference for {}", call.name)
}

fn backward(call: &Call, _grads: &[Array], _outputs: &[Array]) -> Vec<Option<Expected>> {
    panic!("no reference for {}", call.name)
}
