//! The reference for decompositions: elimination with the largest pivot there is, orthogonalisation twice
//! over, Jacobi's rotations, a series. Their derivatives are differences of the references themselves.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::Params;

pub const REFERENCE: Reference = Reference {
    names: &[
        "cholesky",
        "solve_triangular",
        "solve",
        "inv",
        "det",
        "slogdet",
        "qr",
        "eigh",
        "eigvalsh",
        "svd",
        "svdvals",
        "pinv",
        "expm",
    ],
    draw,
    forward,
    backward,
};

/// A matrix by rows.
#[derive(Clone, Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    of: Vec<f64>,
}

impl Matrix {
    fn new(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Matrix {
        let of = (0..rows * columns).map(|k| f(k / columns, k % columns)).collect();
        Matrix { rows, columns, of }
    }
    fn at(&self, i: usize, j: usize) -> f64 {
        self.of[i * self.columns + j]
    }
    fn set(&mut self, i: usize, j: usize, v: f64) {
        self.of[i * self.columns + j] = v;
    }
    fn turned(&self) -> Matrix {
        Matrix::new(self.columns, self.rows, |i, j| self.at(j, i))
    }
    fn times(&self, b: &Matrix) -> Matrix {
        Matrix::new(self.rows, b.columns, |i, j| {
            (0..self.columns).map(|k| self.at(i, k) * b.at(k, j)).sum()
        })
    }
    fn one(n: usize) -> Matrix {
        Matrix::new(n, n, |i, j| f64::from(u8::from(i == j)))
    }
    fn even(&self) -> Matrix {
        Matrix::new(self.rows, self.columns, |i, j| (self.at(i, j) + self.at(j, i)) / 2.0)
    }
    fn column(&self, j: usize) -> Vec<f64> {
        (0..self.rows).map(|i| self.at(i, j)).collect()
    }
}

/// The solution of `a·y = b`, and the determinant of `a`: elimination with the largest number that is left.
fn eliminate(a: &Matrix, b: &Matrix) -> (Matrix, f64) {
    let (mut a, mut y, n) = (a.clone(), b.clone(), a.rows);
    let (mut det, mut order) = (1.0, (0..n).collect::<Vec<_>>());
    for k in 0..n {
        let rest = (k..n).flat_map(|i| (k..n).map(move |j| (i, j)));
        let largest = rest.max_by(|&(i, j), &(p, q)| a.at(i, j).abs().total_cmp(&a.at(p, q).abs()));
        let (row, column) = largest.expect("a number");
        if row != k {
            det = -det;
            (0..n).for_each(|j| a.of.swap(row * n + j, k * n + j));
            (0..y.columns).for_each(|j| y.of.swap(row * y.columns + j, k * y.columns + j));
        }
        if column != k {
            det = -det;
            (0..n).for_each(|i| a.of.swap(i * n + column, i * n + k));
            order.swap(column, k);
        }
        det *= a.at(k, k);
        for i in (0..n).filter(|&i| i != k) {
            let part = a.at(i, k) / a.at(k, k);
            (k..n).for_each(|j| a.set(i, j, a.at(i, j) - part * a.at(k, j)));
            (0..y.columns).for_each(|j| y.set(i, j, y.at(i, j) - part * y.at(k, j)));
        }
    }
    let mut solved = y.clone();
    for (k, &row) in order.iter().enumerate() {
        (0..y.columns).for_each(|j| solved.set(row, j, y.at(k, j) / a.at(k, k)));
    }
    (solved, det)
}

fn cholesky(a: &Matrix) -> Matrix {
    let (a, n) = (a.even(), a.rows);
    let mut l = Matrix::new(n, n, |_, _| 0.0);
    for i in 0..n {
        for j in 0..=i {
            let rest: f64 = a.at(i, j) - (0..j).map(|k| l.at(i, k) * l.at(j, k)).sum::<f64>();
            l.set(i, j, if i == j { rest.sqrt() } else { rest / l.at(j, j) });
        }
    }
    l
}

/// Orthogonal columns, one after the other, each made orthogonal to those before it twice.
fn qr(a: &Matrix) -> [Matrix; 2] {
    let short = a.rows.min(a.columns);
    let mut q = Matrix::new(a.rows, short, |_, _| 0.0);
    for j in 0..short {
        let mut v = a.column(j);
        for _ in 0..2 {
            for k in 0..j {
                let along: f64 = v.iter().zip(q.column(k)).map(|(v, q)| v * q).sum();
                v.iter_mut().zip(q.column(k)).for_each(|(v, q)| *v -= along * q);
            }
        }
        let size = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        (0..a.rows).for_each(|i| q.set(i, j, v[i] / size));
    }
    let mut r = q.turned().times(a);
    for i in 0..short {
        (0..i).for_each(|j| r.set(i, j, 0.0));
    }
    [q, r]
}

/// Whether a vector's sign is to be changed: the first number that is 0.7 of the largest is negative.
fn turned(v: &[f64]) -> bool {
    let largest = v.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    v.iter().find(|v| v.abs() >= 0.7 * largest).is_some_and(|v| *v < 0.0)
}

/// Eigenvalues and vectors by rotations that make one pair of numbers 0 after another.
fn eigen(a: &Matrix) -> (Vec<f64>, Matrix) {
    let (mut a, n) = (a.even(), a.rows);
    let mut v = Matrix::one(n);
    for _ in 0..60 {
        for p in 0..n {
            for q in p + 1..n {
                if a.at(p, q) == 0.0 {
                    continue;
                }
                let angle = 0.5 * (2.0 * a.at(p, q)).atan2(a.at(q, q) - a.at(p, p));
                let (s, c) = angle.sin_cos();
                let mut turn = Matrix::one(n);
                turn.set(p, p, c);
                turn.set(q, q, c);
                turn.set(p, q, s);
                turn.set(q, p, -s);
                a = turn.turned().times(&a).times(&turn).even();
                v = v.times(&turn);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a.at(i, i).total_cmp(&a.at(j, j)));
    let values = order.iter().map(|&i| a.at(i, i)).collect();
    let signs: Vec<f64> =
        order.iter().map(|&j| if turned(&v.column(j)) { -1.0 } else { 1.0 }).collect();
    (values, Matrix::new(n, n, |i, j| v.at(i, order[j]) * signs[j]))
}

/// Singular values and vectors by rotations of columns until they are orthogonal.
fn svd(a: &Matrix) -> (Matrix, Vec<f64>, Matrix) {
    let wide = a.columns > a.rows;
    let mut work = if wide { a.turned() } else { a.clone() };
    let n = work.columns;
    let mut v = Matrix::one(n);
    let dot = |x: &Matrix, p: usize, q: usize| -> f64 {
        x.column(p).iter().zip(x.column(q)).map(|(a, b)| a * b).sum()
    };
    for _ in 0..60 {
        for p in 0..n {
            for q in p + 1..n {
                let (x, y, z) = (dot(&work, p, p), dot(&work, q, q), dot(&work, p, q));
                if z == 0.0 {
                    continue;
                }
                let (s, c) = (0.5 * (2.0 * z).atan2(y - x)).sin_cos();
                for m in [&mut work, &mut v] {
                    for i in 0..m.rows {
                        let (a, b) = (m.at(i, p), m.at(i, q));
                        m.set(i, p, c * a - s * b);
                        m.set(i, q, s * a + c * b);
                    }
                }
            }
        }
    }
    let size = |j: usize| dot(&work, j, j).sqrt();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| size(j).total_cmp(&size(i)));
    let s: Vec<f64> = order.iter().map(|&j| size(j)).collect();
    let left = Matrix::new(work.rows, n, |i, j| work.at(i, order[j]) / s[j]);
    let right = Matrix::new(n, n, |i, j| v.at(i, order[j]));
    let (u, v) = if wide { (right, left) } else { (left, right) };
    let signs: Vec<f64> = (0..n).map(|j| if turned(&u.column(j)) { -1.0 } else { 1.0 }).collect();
    let signed = |x: &Matrix| Matrix::new(x.rows, n, |i, j| x.at(i, j) * signs[j]);
    (signed(&u), s, signed(&v).turned())
}

fn expm(a: &Matrix) -> Matrix {
    const HALVINGS: i32 = 4;
    let n = a.rows;
    let small = Matrix::new(n, n, |i, j| a.at(i, j) / 2f64.powi(HALVINGS));
    let (mut term, mut sum) = (Matrix::one(n), Matrix::one(n));
    for k in 1..30 {
        term = term.times(&small);
        term.of.iter_mut().for_each(|v| *v /= f64::from(k));
        sum.of.iter_mut().zip(&term.of).for_each(|(s, t)| *s += t);
    }
    (0..HALVINGS).fold(sum, |y, _| y.times(&y))
}

fn pinv(a: &Matrix) -> Matrix {
    let t = a.turned();
    if a.rows >= a.columns {
        eliminate(&t.times(a), &t).0
    } else {
        eliminate(&a.times(&t), a).0.turned()
    }
}

/// What an operation makes of one matrix (and a right side): several lists of numbers.
fn of_one(call: &Call, a: &Matrix, b: Option<&Matrix>) -> Vec<Vec<f64>> {
    let one = |m: Matrix| vec![m.of];
    match call.name {
        "cholesky" if call.flag("upper") => one(cholesky(a).turned()),
        "cholesky" => one(cholesky(a)),
        "solve_triangular" => {
            let (upper, unit) = (call.flag("upper"), call.flag("unit_diagonal"));
            let t = Matrix::new(a.rows, a.rows, |i, j| match i.cmp(&j) {
                std::cmp::Ordering::Equal if unit => 1.0,
                std::cmp::Ordering::Less if !upper => 0.0,
                std::cmp::Ordering::Greater if upper => 0.0,
                _ => a.at(i, j),
            });
            let t = if call.flag("transposed") { t.turned() } else { t };
            one(eliminate(&t, b.expect("a right side")).0)
        }
        "solve" => one(eliminate(a, b.expect("a right side")).0),
        "inv" => one(eliminate(a, &Matrix::one(a.rows)).0),
        "det" => vec![vec![eliminate(a, &Matrix::one(a.rows)).1]],
        "slogdet" => {
            let det = eliminate(a, &Matrix::one(a.rows)).1;
            vec![vec![det.signum()], vec![det.abs().ln()]]
        }
        "qr" => qr(a).map(|m| m.of).to_vec(),
        "eigh" => {
            let (values, vectors) = eigen(a);
            vec![values, vectors.of]
        }
        "eigvalsh" => vec![eigen(a).0],
        "svd" => {
            let (u, s, vh) = svd(a);
            vec![u.of, s, vh.of]
        }
        "svdvals" => vec![svd(a).1],
        "pinv" => one(pinv(a)),
        "expm" => one(expm(a)),
        name => panic!("{name} is not an operation of matrices"),
    }
}

/// The shapes of the results, but for the batch.
fn shapes(call: &Call, [rows, columns]: [usize; 2], right: Option<usize>) -> Vec<Vec<usize>> {
    let short = rows.min(columns);
    match call.name {
        "det" => vec![vec![]],
        "slogdet" => vec![vec![], vec![]],
        "qr" => vec![vec![rows, short], vec![short, columns]],
        "eigh" => vec![vec![rows], vec![rows, rows]],
        "eigvalsh" => vec![vec![rows]],
        "svd" => vec![vec![rows, short], vec![short], vec![short, columns]],
        "svdvals" => vec![vec![short]],
        "pinv" => vec![vec![columns, rows]],
        "solve" | "solve_triangular" => {
            vec![[rows].into_iter().chain(right).collect()]
        }
        _ => vec![vec![rows, columns]],
    }
}

/// The shapes and values of all results, from these values of the inputs.
fn results(call: &Call, values: &[&[f64]]) -> Vec<(Vec<usize>, Vec<f64>)> {
    let a = &call.inputs[0].shape;
    let at = a.len() - 2;
    let size = [a[at], a[at + 1]];
    let b = call.inputs.get(1).map(|b| &b.shape);
    let vector = b.is_some_and(|b| b.len() == 1);
    let b_batch = b.map_or(&[][..], |b| &b[..b.len().saturating_sub(2)]);
    let columns = b.map(|b| if vector { 1 } else { b[b.len() - 1] });
    let batch = broadcast_shapes(&a[..at], b_batch);
    let shapes = shapes(call, size, columns.filter(|_| !vector));
    let mut found: Vec<(Vec<usize>, Vec<f64>)> = shapes
        .iter()
        .map(|shape| (batch.iter().chain(shape).copied().collect(), Vec::new()))
        .collect();
    for index in indices(&batch) {
        let part = |values: &[f64], batch: &[usize], rows: usize, columns: usize| {
            let first = ravel_broadcast(&index, batch) * rows * columns;
            Matrix { rows, columns, of: values[first..first + rows * columns].to_vec() }
        };
        let one = part(values[0], &a[..at], size[0], size[1]);
        let side = columns.map(|columns| part(values[1], b_batch, size[0], columns));
        for ((_, all), part) in found.iter_mut().zip(of_one(call, &one, side.as_ref())) {
            all.extend(part);
        }
    }
    found
}

/// How many units of the largest number, for each that a sum may have.
const UNITS: f64 = 300.0;

fn forward(call: &Call) -> Vec<Expected> {
    let values: Vec<&[f64]> = call.inputs.iter().map(Array::floats).collect();
    let dtype = call.promoted(0..call.inputs.len());
    let near = |(shape, values): (Vec<usize>, Vec<f64>)| {
        let largest = values.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        let error = UNITS * dtype.epsilon() * largest;
        let values = values.into_iter().map(|value| Near { value, error }).collect();
        Expected { shape, dtype, values: Wanted::Floats(values) }
    };
    results(call, &values).into_iter().map(near).collect()
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let start: Vec<Vec<f64>> = call.inputs.iter().map(|x| x.floats().to_vec()).collect();
    // `Σ g·y`, with one number of an input moved.
    let moved = |input: usize, at: usize, step: f64| -> f64 {
        let mut values = start.clone();
        values[input][at] += step;
        let values: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
        let all = results(call, &values);
        let pairs = all.iter().zip(grads).flat_map(|((_, y), g)| y.iter().zip(g.floats()));
        pairs.map(|(y, g)| y * g).sum()
    };
    let slope = |input: usize, at: usize| {
        const STEP: f64 = 1e-3;
        let by = |h: f64| (moved(input, at, h) - moved(input, at, -h)) / (2.0 * h);
        (4.0 * by(STEP / 2.0) - by(STEP)) / 3.0
    };
    let dtype = grads[0].dtype;
    let one = |(input, x): (usize, &Array)| {
        let values: Vec<f64> = (0..x.len()).map(|at| slope(input, at)).collect();
        let largest = values.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        let unit = dtype.epsilon().max(x.dtype.epsilon());
        // What is left of a difference is at most so much.
        let error = (4.0 * UNITS * unit + 1e-7) * largest;
        let values = values.into_iter().map(|value| Near { value, error }).collect();
        Some(Expected { shape: x.shape.clone(), dtype: x.dtype, values: Wanted::Floats(values) })
    };
    call.inputs.iter().enumerate().map(one).collect()
}

/// Matrices that are far from singular, whose eigenvalues and singular values are apart.
fn matrices(draw: &mut Draw, shape: &[usize], dtype: DType, even: bool) -> Array {
    let mut x = draw.array(shape, dtype, [-0.4, 0.4]);
    let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    let (mut order, signed) = (draw.permutation(rows.max(columns)), draw.chance(2) && !even);
    if even {
        order.sort_unstable();
    }
    let Values::Floats(values) = &mut x.values else { panic!("floats") };
    let first = values.clone();
    for (at, value) in values.iter_mut().enumerate() {
        let (row, column) = (at / columns % rows, at % columns);
        if even && row > column {
            *value = first[at - row * columns - column + column * columns + row];
        }
        if row == column {
            let sign = if signed && row % 2 == 1 { -1.0 } else { 1.0 };
            *value += sign * (1.5 + 0.9 * order[row] as f64);
        }
        *value = round_to(*value, dtype);
    }
    x
}

fn draw(draw: &mut Draw, name: &'static str) -> (Vec<Array>, Params) {
    let dtype = draw.pick(&[DType::F32, DType::F64]);
    let batches: [&[usize]; 6] = [&[], &[], &[2], &[3, 1], &[2, 2], &[0]];
    let batch = draw.pick(&batches);
    let with = |sizes: &[usize]| batch.iter().chain(sizes).copied().collect::<Vec<_>>();
    let n = draw.below(5);
    match name {
        "solve" | "solve_triangular" => {
            let other = if draw.chance(4) { DType::F64 } else { dtype };
            let a = matrices(draw, &with(&[n, n]), dtype, false);
            let columns = draw.below(4);
            let shape = match draw.below(3) {
                0 => vec![n],
                1 => vec![n, columns],
                _ => with(&[n, columns]),
            };
            let b = draw.array(&shape, other, [-2.0, 2.0]);
            let params = if name == "solve" {
                Params::new()
            } else {
                Params::new()
                    .with("upper", draw.chance(2))
                    .with("transposed", draw.chance(2))
                    .with("unit_diagonal", draw.chance(3))
            };
            (vec![a, b], params)
        }
        "qr" | "svd" | "svdvals" | "pinv" => {
            let columns = if draw.chance(3) { n } else { draw.below(5) };
            let a = matrices(draw, &with(&[n, columns]), dtype, false);
            let params = Params::new();
            let params = match name {
                "qr" if n <= columns && draw.chance(2) => params.with("mode", "complete"),
                "qr" => params,
                "svd" => params.with("full_matrices", n == columns && draw.chance(2)),
                "pinv" => params.with("rtol", draw.pick(&[None, Some(1e-3)])),
                _ => params,
            };
            (vec![a], params)
        }
        "expm" => (vec![draw.array(&with(&[n, n]), dtype, [-1.5, 1.5])], Params::new()),
        _ => {
            let even = matches!(name, "cholesky" | "eigh" | "eigvalsh");
            let even_values = even && (name == "cholesky" || draw.chance(2));
            let a = matrices(draw, &with(&[n, n]), dtype, even_values);
            let params = Params::new();
            let params =
                if name == "cholesky" { params.with("upper", draw.chance(2)) } else { params };
            (vec![a], params)
        }
    }
}
