//! The reference for operations on bits: whole numbers of 128 bits, and floats counted one by one.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference = Reference {
    names: &[
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_invert",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "nextafter",
        "signbit",
    ],
    draw,
    forward,
    backward: |_, _, _| panic!("bits have no gradient"),
};

const SPECIALS: [f64; 10] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 65504.0, 1e-45, -6e-8];

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let dtype = match name {
        "nextafter" | "signbit" => draw.float(),
        "bitwise_left_shift" | "bitwise_right_shift" => draw.integer(),
        _ => {
            let dtype = draw.anything();
            if dtype.is_float() { DType::I16 } else { dtype }
        }
    };
    let dtypes = draw.promoting(dtype);
    let shapes = match name {
        "bitwise_invert" | "signbit" => vec![draw.shape()],
        _ => draw.pair().to_vec(),
    };
    let mut inputs = Vec::new();
    for (i, shape) in shapes.iter().enumerate() {
        let mut x = draw.array(shape, dtypes[i], [-70.0, 70.0]);
        draw.sprinkle(&mut x, &SPECIALS);
        if let (Values::Integers(v), 1, true) = (&mut x.values, i, name.ends_with("shift")) {
            v.iter_mut().filter(|v| **v < 0).for_each(|v| *v = -(*v + 1));
        }
        inputs.push(x);
    }
    (inputs, Params::new())
}

/// The number next to `a` towards `b`: a step of the last digit, or of the smallest number.
fn next(a: f64, b: f64, dtype: DType) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    if a == b {
        return b;
    }
    let most = dtype.max_finite();
    if a.is_infinite() {
        return most.copysign(a);
    }
    let (digits, least) = match dtype {
        DType::F16 => (11, -14),
        DType::BF16 => (8, -126),
        DType::F32 => (24, -126),
        _ => (53, -1022),
    };
    let smallest =
        if dtype == DType::F64 { f64::from_bits(1) } else { 2f64.powi(least - digits + 1) };
    // The unit of the last digit of |a|; below a power of two it is half of that.
    let mut unit = smallest;
    let mut power = 2f64.powi(least);
    while a.abs() / 2.0 >= power {
        (unit, power) = (unit * 2.0, power * 2.0);
    }
    let outwards = (b > a) == (a >= 0.0) || a == 0.0;
    if !outwards && a.abs() == power && unit > smallest {
        unit /= 2.0;
    }
    let stepped = a + if b > a { unit } else { -unit };
    if stepped.abs() > most { f64::INFINITY.copysign(a) } else { stepped }
}

fn forward(call: &Call) -> Vec<Expected> {
    let shapes = call.inputs.iter().map(|x| x.shape.clone());
    let shape = shapes.reduce(|a, b| broadcast_shapes(&a, &b)).expect("an input");
    let dtype = call.promoted(0..call.inputs.len());
    let place = |i: usize, index: &[usize]| ravel_broadcast(index, &call.inputs[i].shape);
    if dtype.is_float() {
        let at = |i: usize, index: &[usize]| call.inputs[i].floats()[place(i, index)];
        if call.name == "signbit" {
            let one = |i: Vec<usize>| i128::from(at(0, &i).is_sign_negative());
            let values = Wanted::Integers(indices(&shape).map(one).collect());
            return vec![Expected { shape, dtype: DType::Bool, values }];
        }
        let one = |i: Vec<usize>| Near::exact(next(at(0, &i), at(1, &i), dtype));
        let values = Wanted::Floats(indices(&shape).map(one).collect());
        return vec![Expected { shape, dtype, values }];
    }
    let bits = 8 * dtype.size() as i128;
    let one = |i: Vec<usize>| {
        let at = |k: usize| call.inputs[k].integers()[place(k, &i)];
        let value = match call.name {
            "bitwise_and" => at(0) & at(1),
            "bitwise_or" => at(0) | at(1),
            "bitwise_xor" => at(0) ^ at(1),
            "bitwise_invert" if dtype == DType::Bool => 1 - at(0),
            "bitwise_invert" => -1 - at(0),
            "bitwise_left_shift" if at(1) >= bits => 0,
            "bitwise_left_shift" => at(0) << at(1),
            _ => at(0) >> at(1).min(bits),
        };
        wrap(value, dtype)
    };
    let values = Wanted::Integers(indices(&shape).map(one).collect());
    vec![Expected { shape, dtype, values }]
}
