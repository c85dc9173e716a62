//! A slow reference, written without the library's operations: what every operation of the
//! catalogue gives, forward and backward, and how far rounding may move it.

use crate::array::*;
use crate::draw::Draw;
use crate::pointwise::{self, Context, Pointwise};
use crate::special;
use crate::{
    activation, alignments, attention, bits, convolution, distances, dropout, einsum, loss,
    normalization,
};
use crate::{
    linalg, matrix, meeting, movement, places, pooling, reduction, resizing, selecting, sorting,
};
use extensor::DType;
use extensor::ops::params::{Params, Value};

/// A call of an operation.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: &'static str,
    pub params: Params,
    pub inputs: Vec<Array>,
}

impl Call {
    pub fn param(&self, name: &str) -> &Value {
        let found = self.params.iter().find(|(n, _)| *n == name);
        found.map_or(&Value::None, |(_, value)| value)
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.param(name) {
            Value::Int(v) => Some(*v),
            _ => None,
        }
    }

    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        match self.param(name) {
            Value::Ints(v) => Some(v.clone()),
            _ => None,
        }
    }

    pub fn float(&self, name: &str) -> Option<f64> {
        match self.param(name) {
            Value::Float(v) => Some(*v),
            _ => None,
        }
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.param(name), Value::Bool(true))
    }

    pub fn dtype(&self, name: &str) -> DType {
        match self.param(name) {
            Value::Text(v) => DType::from_name(v).expect("a dtype"),
            _ => panic!("no dtype"),
        }
    }

    /// The axis of this name as an index below `ndim`.
    pub fn axis(&self, name: &str, ndim: usize) -> usize {
        index(self.int(name).expect("an axis"), ndim)
    }

    /// Which axes are meant: none given means all.
    pub fn axes(&self, name: &str, ndim: usize) -> Vec<bool> {
        match self.ints(name) {
            None => vec![true; ndim],
            Some(list) => {
                let mut mask = vec![false; ndim];
                list.iter().for_each(|&axis| mask[index(axis, ndim)] = true);
                mask
            }
        }
    }

    /// The dtype that all of these inputs promote to.
    pub fn promoted(&self, which: impl IntoIterator<Item = usize>) -> DType {
        let dtypes = which.into_iter().map(|i| self.inputs[i].dtype);
        let both = |a: DType, b: DType| a.promote(b).expect("dtypes that promote");
        dtypes.reduce(both).expect("an input")
    }
}

/// An axis that may count from the end.
pub fn index(axis: i64, ndim: usize) -> usize {
    axis.rem_euclid(ndim.max(1) as i64) as usize
}

/// The reference for a family, and how its calls are drawn.
pub struct Reference {
    pub names: &'static [&'static str],
    pub draw: fn(&mut Draw, &'static str) -> (Vec<Array>, Params),
    pub forward: fn(&Call) -> Vec<Expected>,
    pub backward: Backward,
}

/// The gradients for the inputs, from those of the results and the outputs.
type Backward = fn(&Call, grads: &[Array], outputs: &[Array]) -> Vec<Option<Expected>>;

/// The families that stand by themselves.
static FAMILIES: &[Reference] = &[
    einsum::REFERENCE,
    meeting::REFERENCE,
    selecting::REFERENCE,
    sorting::REFERENCE,
    bits::REFERENCE,
    activation::REFERENCE,
    special::REFERENCE,
    convolution::REFERENCE,
    pooling::REFERENCE,
    resizing::REFERENCE,
    places::REFERENCE,
    alignments::REFERENCE,
    normalization::REFERENCE,
    attention::REFERENCE,
    dropout::REFERENCE,
    distances::REFERENCE,
    loss::REFERENCE,
    linalg::REFERENCE,
];

/// The reference of the family that the operation is of, if it is one of those.
pub fn family(name: &str) -> Option<&'static Reference> {
    FAMILIES.iter().find(|reference| reference.names.contains(&name))
}

/// Whether there is a reference for the operation.
pub fn knows(name: &str) -> bool {
    matches!(name, "where" | "clip" | "nan_to_num")
        || family(name).is_some()
        || pointwise::find(name).is_some()
        || matrix::NAMES.contains(&name)
        || reduction::NAMES.contains(&name)
        || movement::NAMES.contains(&name)
}

/// The outputs.
pub fn forward(call: &Call) -> Vec<Expected> {
    if let Some(reference) = family(call.name) {
        return (reference.forward)(call);
    }
    match call.name {
        "where" => vec![where_forward(call)],
        "clip" => vec![clip_forward(call)],
        "nan_to_num" => vec![nan_to_num_forward(call)],
        name if matrix::NAMES.contains(&name) => vec![matrix::forward(call)],
        name if reduction::NAMES.contains(&name) => vec![reduction::forward(call)],
        name if movement::NAMES.contains(&name) => movement::forward(call),
        name => vec![pointwise_forward(call, &pointwise::find(name).expect("a reference"))],
    }
}

/// The gradients for the inputs, `None` for those that have none.
pub fn backward(call: &Call, grads: &[Array], outputs: &[Array]) -> Vec<Option<Expected>> {
    if let Some(reference) = family(call.name) {
        return (reference.backward)(call, grads, outputs);
    }
    let (g, y) = (&grads[0], &outputs[0]);
    match call.name {
        "where" => where_backward(call, g),
        "clip" => clip_backward(call, g),
        "nan_to_num" => nan_to_num_backward(call, g),
        name if matrix::NAMES.contains(&name) => matrix::backward(call, g),
        name if reduction::NAMES.contains(&name) => vec![reduction::backward(call, g, y)],
        name if movement::NAMES.contains(&name) => movement::backward(call, grads),
        name => {
            let rule = pointwise::find(name).expect("a reference");
            let one = |i| pointwise_backward(call, &rule, g, y, i);
            (0..call.inputs.len()).map(one).collect()
        }
    }
}

fn output_shape(inputs: &[Array]) -> Vec<usize> {
    let shapes = inputs.iter().map(|x| x.shape.clone());
    shapes.reduce(|a, b| broadcast_shapes(&a, &b)).expect("an input")
}

/// The result of a formula at every index of the broadcast shape, where `of` gives the elements.
fn each<T: Copy, R>(
    inputs: &[Array],
    of: impl Fn(&Array) -> &[T],
    shape: &[usize],
    mut formula: impl FnMut(&[T]) -> R,
) -> Vec<R> {
    let (mut results, mut elements) = (Vec::new(), Vec::new());
    walk(shape, |index| {
        elements.clear();
        let element = |x: &Array| of(x)[ravel_broadcast(index, &x.shape)];
        elements.extend(inputs.iter().map(element));
        results.push(formula(&elements));
    });
    results
}

fn pointwise_forward(call: &Call, rule: &Pointwise) -> Expected {
    let shape = output_shape(&call.inputs);
    let common = call.promoted(0..call.inputs.len());
    let dtype = if rule.mask { DType::Bool } else { common };
    let values = if !common.is_float() {
        let f = rule.integer.expect("a formula for whole numbers");
        let one = |x: &[i128]| wrap(f(x), dtype);
        Wanted::Integers(each(&call.inputs, Array::integers, &shape, one))
    } else if rule.mask {
        let one = |x: &[f64]| (rule.float)(x) as i128;
        Wanted::Integers(each(&call.inputs, Array::floats, &shape, one))
    } else {
        let work = working(common);
        let one = |x: &[f64]| {
            let value = (rule.float)(x);
            let size = value.abs().max((rule.scale)(x));
            let error = rule.ulps * (size * work.epsilon() + tiny(work));
            Near { value, error }
        };
        Wanted::Floats(each(&call.inputs, Array::floats, &shape, one))
    };
    Expected { shape, dtype, values }
}

/// Adds up, for each element of an operand, the terms that its copies contribute.
///
/// `term` gives the gradient at an index of the output and the error it may have. The terms of an
/// operand that was broadcast, and the sum of one of another dtype, are rounded on their way.
pub fn reduced(
    operand: &Array,
    g: &Array,
    term: impl Fn(&[usize], usize) -> (f64, f64),
) -> Expected {
    let work = working(g.dtype);
    let mut sums = vec![Sum::default(); operand.len()];
    let mut errors = vec![0.0; operand.len()];
    let most = g.dtype.max_finite();
    let broadcast = operand.shape != g.shape;
    let mut k = 0;
    walk(&g.shape, |index| {
        let (value, error) = term(index, k);
        let to = ravel_broadcast(index, &operand.shape);
        sums[to].add(value);
        errors[to] += error;
        if broadcast {
            // Of terms that overflow no sum is left, and it need not be infinite: there may be others.
            errors[to] += if value.abs() > most { f64::INFINITY } else { half_ulp(value, work) };
        }
        k += 1;
    });
    if broadcast || operand.dtype != g.dtype {
        for (sum, error) in sums.iter().zip(&mut errors) {
            *error += half_ulp(sum.value(), work);
        }
    }
    let near = |(sum, error): (&Sum, &f64)| summed(sum, *error, operand.dtype);
    Expected {
        shape: operand.shape.clone(),
        dtype: operand.dtype,
        values: Wanted::Floats(sums.iter().zip(&errors).map(near).collect()),
    }
}

/// A sum with the error of its terms and of adding them up in blocks: a term passes through at most
/// `min(n, 128) + log₂ n` additions, each of which rounds.
pub fn summed(sum: &Sum, error: f64, dtype: DType) -> Near {
    let work = working(dtype);
    let value = sum.value();
    if sum.count < 2 {
        return Near { value, error };
    }
    let n = sum.count as f64;
    let depth = (n - 1.0).min(128.0 + n.log2());
    let rounding = depth * work.epsilon() / 2.0 * (sum.size + error);
    // The reference, in f64 itself, rounds its value once.
    Near { value, error: error + rounding + half_ulp(value, DType::F64) }
}

/// A sum whose terms are added one after the other.
pub fn summed_in_turn(sum: &Sum, dtype: DType) -> Near {
    let steps = sum.count.saturating_sub(1) as f64;
    let error = steps * working(dtype).epsilon() / 2.0 * sum.size;
    Near { value: sum.value(), error }
}

fn pointwise_backward(
    call: &Call,
    rule: &Pointwise,
    g: &Array,
    y: &Array,
    which: usize,
) -> Option<Expected> {
    let (formula, operand) = (rule.gradient?, &call.inputs[which]);
    if !operand.dtype.is_float() {
        return None;
    }
    let work = working(g.dtype);
    let context = Context { dtype: g.dtype };
    Some(reduced(operand, g, |index, k| {
        let element = |x: &Array| x.floats()[ravel_broadcast(index, &x.shape)];
        let mut x = [0.0; 3];
        let x = &mut x[..call.inputs.len()];
        x.iter_mut().zip(&call.inputs).for_each(|(x, input)| *x = element(input));
        let (g, y) = (g.floats()[k], y.floats()[k]);
        // Nothing times a finite slope, however large, is nothing.
        if g == 0.0 && y.is_finite() && x.iter().all(|x| x.is_finite()) {
            return (0.0, 0.0);
        }
        let value = formula(g, x, y, which, context);
        let slack = (rule.slack)(x);
        if slack == 0.0 || value == 0.0 && g == 0.0 {
            return (value, 0.0);
        }
        let below = tiny(work) * (rule.swell)(g, x).min(1e30);
        (value, slack * (value.abs() * work.epsilon() + below))
    }))
}

fn where_forward(call: &Call) -> Expected {
    let shape = output_shape(&call.inputs);
    let dtype = call.promoted([1, 2]);
    let [condition, a, b] = &call.inputs[..] else { panic!("three inputs") };
    let chosen = |i: &[usize]| {
        let yes = condition.integers()[ravel_broadcast(i, &condition.shape)] != 0;
        let from = if yes { a } else { b };
        (from, ravel_broadcast(i, &from.shape))
    };
    let values = if dtype.is_float() {
        let one = |i: Vec<usize>| {
            let (from, k) = chosen(&i);
            Near::exact(from.floats()[k])
        };
        Wanted::Floats(indices(&shape).map(one).collect())
    } else {
        let one = |i: Vec<usize>| {
            let (from, k) = chosen(&i);
            from.integers()[k]
        };
        Wanted::Integers(indices(&shape).map(one).collect())
    };
    Expected { shape, dtype, values }
}

fn where_backward(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let condition = &call.inputs[0];
    let side = |which: usize| {
        let operand = &call.inputs[which];
        operand.dtype.is_float().then(|| {
            reduced(operand, g, |index, k| {
                let yes = condition.integers()[ravel_broadcast(index, &condition.shape)] != 0;
                (if yes == (which == 1) { g.floats()[k] } else { 0.0 }, 0.0)
            })
        })
    };
    vec![None, side(1), side(2)]
}

fn clip_forward(call: &Call) -> Expected {
    let x = &call.inputs[0];
    let (min, max) = (call.float("min"), call.float("max"));
    let values = if x.dtype.is_float() {
        let clipped = |&v: &f64| {
            let low = min.map(|m| round_to(m, x.dtype));
            let high = max.map(|m| round_to(m, x.dtype));
            match v {
                v if low.is_some_and(|m| v < m) => Near::exact(low.unwrap_or(v)),
                v if high.is_some_and(|m| v > m) => Near::exact(high.unwrap_or(v)),
                v => Near::exact(v),
            }
        };
        Wanted::Floats(x.floats().iter().map(clipped).collect())
    } else {
        let low = min.map_or(i128::MIN, |m| m as i128);
        let high = max.map_or(i128::MAX, |m| m as i128);
        Wanted::Integers(x.integers().iter().map(|&v| v.clamp(low, high)).collect())
    };
    Expected { shape: x.shape.clone(), dtype: x.dtype, values }
}

fn clip_backward(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let x = &call.inputs[0];
    let low = call.float("min").unwrap_or(f64::NEG_INFINITY);
    let high = call.float("max").unwrap_or(f64::INFINITY);
    if !x.dtype.is_float() {
        return vec![None];
    }
    vec![Some(reduced(x, g, |_, k| match x.floats()[k] {
        v if v.is_nan() => (v, 0.0),
        v if low <= v && v <= high => (g.floats()[k], 0.0),
        _ => (0.0, 0.0),
    }))]
}

fn nan_to_num_forward(call: &Call) -> Expected {
    let x = &call.inputs[0];
    let most = x.dtype.max_finite();
    let named = |name: &str, default: f64| call.float(name).unwrap_or(default);
    let one = |&v: &f64| {
        Near::exact(match v {
            v if v.is_nan() => named("nan", 0.0),
            f64::INFINITY => named("posinf", most),
            f64::NEG_INFINITY => named("neginf", -most),
            v => v,
        })
    };
    let values = match &x.values {
        Values::Floats(v) => Wanted::Floats(v.iter().map(one).collect()),
        Values::Integers(v) => Wanted::Integers(v.clone()),
    };
    Expected { shape: x.shape.clone(), dtype: x.dtype, values }
}

fn nan_to_num_backward(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let x = &call.inputs[0];
    if !x.dtype.is_float() {
        return vec![None];
    }
    let one =
        |_: &[usize], k: usize| (if x.floats()[k].is_finite() { g.floats()[k] } else { 0.0 }, 0.0);
    vec![Some(reduced(x, g, one))]
}
