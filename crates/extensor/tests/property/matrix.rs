//! The reference for products: three loops.

use crate::array::*;
use crate::reference::Call;
use extensor::DType;

pub const NAMES: [&str; 4] = ["matmul", "dot", "outer", "linear"];

/// An accumulation of products; `chain` of them one after the other round as often.
fn near(sum: &Sum, dtype: DType) -> Near {
    let work = working(dtype);
    let value = sum.value();
    let rounding = sum.count as f64 * (work.epsilon() / 2.0 * sum.size + tiny(work));
    // A single product is rounded once, as the reference's is.
    let error = if sum.count < 2 { 0.0 } else { rounding + half_ulp(value, DType::F64) };
    Near { value, error }
}

/// Rows and columns of an operand: a vector is a row on the left and a column on the right.
fn rows_columns(shape: &[usize], left: bool) -> (usize, usize) {
    match (shape, left) {
        ([n], true) => (1, *n),
        ([n], false) => (*n, 1),
        (shape, _) => (shape[shape.len() - 2], shape[shape.len() - 1]),
    }
}

fn batch(shape: &[usize]) -> &[usize] {
    &shape[..shape.len().saturating_sub(2)]
}

/// Calls `visit` with the numbers of the elements of `a`, `b` and the output of every product.
fn products(a: &[usize], b: &[usize], mut visit: impl FnMut(usize, usize, usize)) {
    let ((m, k), (_, n)) = (rows_columns(a, true), rows_columns(b, false));
    let outer = broadcast_shapes(batch(a), batch(b));
    for (t, index) in indices(&outer).enumerate() {
        let (ta, tb) = (ravel_broadcast(&index, batch(a)), ravel_broadcast(&index, batch(b)));
        for i in 0..m {
            for j in 0..n {
                for l in 0..k {
                    visit((ta * m + i) * k + l, (tb * k + l) * n + j, (t * m + i) * n + j);
                }
            }
        }
    }
}

/// The shapes under which the operation is a matrix product: of its inputs and its output.
fn as_product(call: &Call) -> [Vec<usize>; 3] {
    let (a, b) = (&call.inputs[0].shape, &call.inputs[1].shape);
    match call.name {
        "outer" => [vec![a[0], 1], vec![1, b[0]], vec![a[0], b[0]]],
        "linear" => {
            let rows = a[..a.len() - 1].iter().product();
            let mut shape = a.clone();
            shape[a.len() - 1] = b[0];
            // The weight's rows are the columns of the product's right side.
            [vec![rows, b[1]], vec![b[1], b[0]], shape]
        }
        _ => {
            let mut shape = broadcast_shapes(batch(a), batch(b));
            if a.len() > 1 {
                shape.push(a[a.len() - 2]);
            }
            if b.len() > 1 {
                shape.push(b[b.len() - 1]);
            }
            [a.clone(), b.clone(), shape]
        }
    }
}

/// The number of the element of `b` as it is stored.
fn stored(call: &Call, b: &[usize], at: usize) -> usize {
    if call.name == "linear" { at % b[1] * b[0] + at / b[1] } else { at }
}

pub fn forward(call: &Call) -> Expected {
    let [a, b, shape] = as_product(call);
    let dtype = call.promoted(0..call.inputs.len());
    if dtype.is_int() {
        let (x, w) = (call.inputs[0].integers(), call.inputs[1].integers());
        let mut sums = vec![0i128; shape.iter().product()];
        products(&a, &b, |i, j, k| {
            sums[k] = wrap(sums[k] + wrap(x[i].wrapping_mul(w[j]), dtype), dtype)
        });
        return Expected { shape, dtype, values: Wanted::Integers(sums) };
    }
    let (x, w) = (call.inputs[0].floats(), call.inputs[1].floats());
    let mut sums = vec![Sum::default(); shape.iter().product()];
    if let Some(bias) = call.inputs.get(2) {
        let n = bias.len();
        sums.iter_mut().enumerate().for_each(|(k, sum)| sum.add(bias.floats()[k % n]));
    }
    products(&a, &b, |i, j, k| sums[k].add_product(x[i], w[stored(call, &b, j)]));
    let values = Wanted::Floats(sums.iter().map(|sum| near(sum, dtype)).collect());
    Expected { shape, dtype, values }
}

pub fn backward(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let [a, b, _] = as_product(call);
    let (x, w, dy) = (call.inputs[0].floats(), call.inputs[1].floats(), g.floats());
    let mut sums: Vec<Vec<Sum>> =
        call.inputs.iter().map(|x| vec![Sum::default(); x.len()]).collect();
    products(&a, &b, |i, j, k| {
        let j = stored(call, &b, j);
        sums[0][i].add_product(dy[k], w[j]);
        sums[1][j].add_product(dy[k], x[i]);
    });
    if let Some(bias) = call.inputs.get(2) {
        let n = bias.len();
        dy.iter().enumerate().for_each(|(k, &g)| sums[2][k % n].add(g));
    }
    let expected = |(x, sums): (&Array, &Vec<Sum>)| {
        // Products of a broadcast batch, and those in a wider dtype, are rounded on their way.
        let detour = |near: Near, sum: &Sum| {
            let error = near.error + sum.size * (x.dtype.epsilon().max(g.dtype.epsilon()));
            Near { error, ..near }
        };
        let widened = x.dtype != g.dtype || (call.name == "matmul" && a.len().max(b.len()) > 2);
        let one = |sum: &Sum| {
            let near = near(sum, g.dtype);
            if widened { detour(near, sum) } else { near }
        };
        Some(Expected {
            shape: x.shape.clone(),
            dtype: x.dtype,
            values: Wanted::Floats(sums.iter().map(one).collect()),
        })
    };
    call.inputs.iter().zip(&sums).map(expected).collect()
}
