//! The slow reference for the family `dropout`: Philox 4×32-10, one counter at a time.

use crate::array::{Array, Expected, Near, Wanted, half_ulp, ravel_broadcast, walk, working};
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference =
    Reference { names: &["dropout", "dropout2d"], draw, forward, backward };

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let shape = if name == "dropout" {
        draw.shape()
    } else {
        (0..4).map(|i| draw.below(if i == 1 { 40 } else { 5 })).collect()
    };
    let dtype = draw.float();
    let mut x = draw.array(&shape, dtype, [-4.0, 4.0]);
    if draw.chance(3) {
        draw.sprinkle(&mut x, &[f64::NAN, f64::INFINITY, 0.0, 1.0]);
    }
    let params = Params::new()
        .with("p", draw.pick(&[0.0, 0.1, 0.5, 0.75, 0.999]))
        .with("key", draw.between(i64::MIN / 4, i64::MAX / 4))
        .with("training", !draw.chance(6));
    (vec![x], params)
}

/// Word number `word` of the stream.
pub fn random(key: u64, word: usize) -> u32 {
    let counter = (word / 4) as u64;
    let mut c = [counter as u32, (counter >> 32) as u32, 0, 0];
    let mut k = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let (a, b) = (u64::from(c[0]) * 0xD2511F53, u64::from(c[2]) * 0xCD9E8D57);
        let high = |product: u64| (product >> 32) as u32;
        c = [high(b) ^ c[1] ^ k[0], b as u32, high(a) ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E3779B9), k[1].wrapping_add(0xBB67AE85)];
    }
    c[word % 4]
}

fn mask(call: &Call) -> (Vec<usize>, Vec<i128>) {
    let mut shape = call.inputs[0].shape.clone();
    if call.name == "dropout2d" {
        shape[2..].fill(1);
    }
    let (key, p) = (call.int("key").expect("a key") as u64, call.float("p").expect("a share"));
    let kept = |i: usize| f64::from(random(key, i)) >= (p * 4294967296.0).round();
    let len = shape.iter().product();
    let bits = (0..len).map(|i| i128::from(!call.flag("training") || kept(i)));
    (shape, bits.collect())
}

/// The numbers that the mask keeps, scaled.
fn keep(call: &Call, x: &Array) -> Expected {
    let (shape, bits) = mask(call);
    let scale = 1.0 / (1.0 - call.float("p").expect("a share"));
    let mut values = Vec::new();
    walk(&x.shape, |index| {
        let v = x.floats()[values.len()];
        values.push(match bits[ravel_broadcast(index, &shape)] {
            0 => Near::exact(0.0),
            _ if !call.flag("training") || !v.is_finite() => Near::exact(v),
            _ => {
                let value = v * scale;
                let own = half_ulp(value, DType::F64);
                Near { value, error: 2.0 * half_ulp(value, working(x.dtype)) + own }
            }
        });
    });
    Expected { shape: x.shape.clone(), dtype: x.dtype, values: Wanted::Floats(values) }
}

fn forward(call: &Call) -> Vec<Expected> {
    let (shape, bits) = mask(call);
    let mask = Expected { shape, dtype: DType::Bool, values: Wanted::Integers(bits) };
    vec![keep(call, &call.inputs[0]), mask]
}

fn backward(call: &Call, grads: &[Array], _outputs: &[Array]) -> Vec<Option<Expected>> {
    vec![Some(keep(call, &grads[0]))]
}
