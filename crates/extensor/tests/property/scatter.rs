//! The reference for casts, one-hot vectors and scattered sums.

use crate::array::*;
use crate::movement::{index_at, with};
use crate::reference::{Call, summed_in_turn};
use extensor::DType;

/// Floats are rounded to nearest; to whole numbers they are cut off, and held in range.
pub fn cast(call: &Call) -> Expected {
    let (x, dtype) = (&call.inputs[0], call.dtype("dtype"));
    let (low, high) = dtype.integer_range();
    let values = match (&x.values, dtype) {
        (Values::Floats(v), to) if to.is_float() => {
            Wanted::Floats(v.iter().map(|&x| Near::exact(x)).collect())
        }
        (Values::Floats(v), DType::Bool) => {
            Wanted::Integers(v.iter().map(|&x| i128::from(x != 0.0)).collect())
        }
        (Values::Floats(v), _) => {
            Wanted::Integers(v.iter().map(|&x| (x as i128).clamp(low, high)).collect())
        }
        (Values::Integers(v), to) if to.is_float() => {
            let nearest = |&x: &i128| Near::exact(round_integer(x, dtype));
            Wanted::Floats(v.iter().map(nearest).collect())
        }
        (Values::Integers(v), DType::Bool) => {
            Wanted::Integers(v.iter().map(|&x| i128::from(x != 0)).collect())
        }
        (Values::Integers(v), _) => Wanted::Integers(v.iter().map(|&x| wrap(x, dtype)).collect()),
    };
    Expected { shape: x.shape.clone(), dtype, values }
}

pub fn one_hot(call: &Call) -> Expected {
    let (x, dtype) = (&call.inputs[0], call.dtype("dtype"));
    let classes = call.int("num_classes").expect("a number of classes") as usize;
    let mut shape = x.shape.clone();
    shape.push(classes);
    let hot = |k: usize| x.integers()[k / classes] == (k % classes) as i128;
    let len = x.len() * classes;
    let values = if dtype.is_float() {
        Wanted::Floats((0..len).map(|k| Near::exact(f64::from(hot(k)))).collect())
    } else {
        Wanted::Integers((0..len).map(|k| i128::from(hot(k))).collect())
    };
    Expected { shape, dtype, values }
}

/// For each element of the index, the element of `x` that is added to and the element of the
/// source that is.
fn targets(call: &Call) -> Vec<(usize, usize)> {
    let [x, picks, source] = [0, 1, 2].map(|i| &call.inputs[i]);
    let axis = call.axis("axis", x.shape.len());
    let target = |i: Vec<usize>| {
        let k = index_at(picks, ravel(&i, &picks.shape), x.shape[axis]);
        let to = ravel(&with(&i, axis, k), &x.shape);
        (to, ravel(&i, &source.shape))
    };
    indices(&picks.shape).map(target).collect()
}

pub fn scatter_add(call: &Call) -> Expected {
    let (x, source) = (&call.inputs[0], &call.inputs[2]);
    let values = if x.dtype.is_float() {
        let mut sums = vec![Sum::default(); x.len()];
        let start = sums.iter_mut().zip(x.floats());
        start.for_each(|(sum, &x)| sum.add(x));
        for (to, from) in targets(call) {
            sums[to].add(source.floats()[from]);
        }
        let near = |sum: &Sum| summed_in_turn(sum, x.dtype);
        Wanted::Floats(sums.iter().map(near).collect())
    } else {
        let mut sums = x.integers().to_vec();
        for (to, from) in targets(call) {
            sums[to] += source.integers()[from];
        }
        Wanted::Integers(sums.iter().map(|&sum| wrap(sum, x.dtype)).collect())
    };
    Expected { shape: x.shape.clone(), dtype: x.dtype, values }
}

pub fn scatter_add_backward(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let expected = |which: usize, values: Vec<f64>| {
        let Array { shape, dtype, .. } = call.inputs[which].clone();
        let values = Wanted::Floats(values.into_iter().map(Near::exact).collect());
        Some(Expected { shape, dtype, values })
    };
    let mut picked = vec![0.0; call.inputs[2].len()];
    for (to, from) in targets(call) {
        picked[from] = g.floats()[to];
    }
    vec![expected(0, g.floats().to_vec()), None, expected(2, picked)]
}
