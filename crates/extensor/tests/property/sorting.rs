//! The reference for sorting and searching: the next smallest element, again and again, and counting.

use crate::array::*;
use crate::draw::Draw;
use crate::generate::axis;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::{Params, Value};

pub const REFERENCE: Reference =
    Reference { names: &["sort", "argsort", "searchsorted"], draw, forward, backward };

const SPECIALS: [f64; 7] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, 2.0];

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let dtype = draw.anything();
    let params = Params::new();
    if name == "searchsorted" {
        let dtypes = draw.promoting(dtype);
        let n = draw.below(40);
        let mut x = draw.array(&[n], dtypes[0], [-4.0, 4.0]);
        draw.sprinkle(&mut x, &SPECIALS);
        match &mut x.values {
            Values::Integers(v) => v.sort_unstable(),
            // NaN, of either sign, last.
            Values::Floats(v) => {
                v.sort_by(|a, b| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())))
            }
        }
        let shape = draw.shape();
        let mut values = draw.array(&shape, dtypes[1], [-4.0, 4.0]);
        draw.sprinkle(&mut values, &SPECIALS);
        return (vec![x, values], params.with("right", draw.chance(2)));
    }
    let shape = draw.shape_of(1);
    let mut x = draw.array(&shape, dtype, [-4.0, 4.0]);
    if draw.chance(2) {
        draw.sprinkle(&mut x, &SPECIALS);
    }
    let params = params.with("axis", axis(draw, shape.len()));
    (vec![x], params.with("descending", draw.chance(2)))
}

/// Whether element `i` comes before element `j` of the other array, NaN being the largest.
fn below(a: &Array, i: usize, b: &Array, j: usize) -> bool {
    match (&a.values, &b.values) {
        (Values::Integers(a), Values::Integers(b)) => a[i] < b[j],
        (Values::Floats(a), Values::Floats(b)) => a[i] < b[j] || !a[i].is_nan() && b[j].is_nan(),
        _ => panic!("arrays of one kind"),
    }
}

/// The numbers of the elements of each line along the axis, in order.
fn sorted(call: &Call) -> Vec<(usize, usize, usize)> {
    let x = &call.inputs[0];
    let axis = call.axis("axis", x.shape.len());
    let (n, inner): (usize, usize) = (x.shape[axis], x.shape[axis + 1..].iter().product());
    let descending = call.flag("descending");
    let mut found = Vec::new();
    for start in (0..x.len()).filter(|k| k / inner % n == 0) {
        let at = |i: usize| start + inner * i;
        // How many come before each: the smaller, and the equal ones that stand before it.
        let mut places: Vec<usize> = (0..n).collect();
        let before = |i: usize, j: usize| {
            let (i, j) = if descending { (j, i) } else { (i, j) };
            below(x, at(i), x, at(j))
        };
        places.sort_by(|&i, &j| before(j, i).cmp(&before(i, j)));
        found.extend(places.iter().enumerate().map(|(to, &from)| (at(to), at(from), from)));
    }
    found
}

fn forward(call: &Call) -> Vec<Expected> {
    let x = &call.inputs[0];
    let integers = |shape: &[usize], values: Vec<i128>| Expected {
        shape: shape.to_vec(),
        dtype: DType::I64,
        values: Wanted::Integers(values),
    };
    if call.name == "searchsorted" {
        let values = &call.inputs[1];
        let right = matches!(call.param("right"), Value::Bool(true));
        let count = |k: usize| {
            let counts = |i: &usize| {
                if right { !below(values, k, x, *i) } else { below(x, *i, values, k) }
            };
            (0..x.len()).filter(counts).count() as i128
        };
        return vec![integers(&values.shape, (0..values.len()).map(count).collect())];
    }
    let mut from = vec![0; x.len()];
    let mut positions = vec![0; x.len()];
    for (to, source, position) in sorted(call) {
        from[to] = source;
        positions[to] = position as i128;
    }
    let positions = integers(&x.shape, positions);
    if call.name == "argsort" {
        return vec![positions];
    }
    let values = match &x.values {
        Values::Integers(v) => Wanted::Integers(from.iter().map(|&k| v[k]).collect()),
        Values::Floats(v) => Wanted::Floats(from.iter().map(|&k| Near::exact(v[k])).collect()),
    };
    vec![Expected { shape: x.shape.clone(), dtype: x.dtype, values }, positions]
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let x = &call.inputs[0];
    let mut gradient = vec![Near::exact(0.0); x.len()];
    for (to, source, _) in sorted(call) {
        gradient[source] = Near::exact(grads[0].floats()[to]);
    }
    let (shape, dtype) = (x.shape.clone(), x.dtype);
    vec![Some(Expected { shape, dtype, values: Wanted::Floats(gradient) })]
}
