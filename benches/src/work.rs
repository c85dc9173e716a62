//! The work that is timed; the peers have the same under the same names.

use extensor::{DType, Key, Result, Tensor};
use std::hint::black_box;

/// Something to time.
pub struct Workload {
    /// Its name, the same on both sides.
    pub name: String,
    /// How often `f` is called in one repetition.
    pub inner: usize,
    /// The work: a fresh result each time, as a user would call it.
    pub f: Box<dyn FnMut()>,
    /// The same by `compile`, for what users would compile.
    pub compiled: Option<Box<dyn FnMut()>>,
    /// Which kernels that takes how long in, of so many runs.
    pub profile: Option<Box<dyn Fn(usize) -> String>>,
}

impl Workload {
    /// Work that is called once in a repetition.
    pub fn new(name: &str, f: impl FnMut() + 'static) -> Workload {
        Workload { name: name.into(), inner: 1, f: Box::new(f), compiled: None, profile: None }
    }

    /// Called so often in a repetition.
    pub fn times(self, inner: usize) -> Workload {
        Workload { inner, ..self }
    }

    /// With what the compiled work spends its time on.
    pub fn profiled(self, profile: impl Fn(usize) -> String + 'static) -> Workload {
        Workload { profile: Some(Box::new(profile)), ..self }
    }

    /// With the same compiled.
    pub fn compiled(self, f: impl FnMut() + 'static) -> Workload {
        Workload { compiled: Some(Box::new(f)), ..self }
    }
}

pub fn made<T>(x: Result<T>) -> T {
    x.unwrap_or_else(|error| panic!("{error}"))
}

pub fn random(seed: u64, shape: &[usize]) -> Tensor {
    made(Key::new(seed).normal(shape, DType::F32))
}

/// All workloads.
pub fn all() -> Vec<Workload> {
    let mut list = elementwise();
    for layout in ["nn", "tn", "nt"] {
        for (m, k, n) in [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048)] {
            list.push(matmul(layout, m, k, n));
        }
    }
    for side in [512, 1024, 2048] {
        list.push(matmul("bf16", side, side, side));
    }
    for (m, k, n) in [(64, 64, 64), (128, 512, 10), (128, 784, 512), (2048, 384, 384)] {
        list.push(matmul("nn", m, k, n));
    }
    list.extend(EINSUMS.iter().map(einsum));
    for (batch, side) in [(100, 64), (1, 1024)] {
        list.extend(linalg(batch, side));
    }
    list.extend(crate::networks::all());
    list.extend(crate::training::all());
    list
}

/// Those that take seconds each.
pub fn large() -> Vec<Workload> {
    crate::training::large()
}

fn elementwise() -> Vec<Workload> {
    const MILLIONS: usize = 1 << 24;
    let (a, b) = (random(1, &[MILLIONS]), random(2, &[MILLIONS]));
    let square = made(extensor::ops::reshape(&a, [4096, 4096]));
    let other =
        made(extensor::ops::transpose(&made(extensor::ops::reshape(&b, [4096, 4096])), None));
    let (small, few) = (random(3, &[16]), random(4, &[16]));
    type Work = Box<dyn FnMut() -> Result<Tensor>>;
    let large: Vec<(&str, Work)> = vec![
        (
            "add",
            Box::new({
                let (a, b) = (a.clone(), b.clone());
                move || extensor::ops::add(&a, &b)
            }),
        ),
        (
            "exp",
            Box::new({
                let a = a.clone();
                move || extensor::ops::exp(&a)
            }),
        ),
        (
            "sum",
            Box::new({
                let a = a.clone();
                move || extensor::ops::sum(&a, None)
            }),
        ),
        (
            "mean_rows",
            Box::new({
                let x = square.clone();
                move || extensor::ops::mean(&x, 1)
            }),
        ),
        (
            "mean_columns",
            Box::new({
                let x = square.clone();
                move || extensor::ops::mean(&x, 0)
            }),
        ),
        (
            "log",
            Box::new({
                let a = a.clone();
                move || extensor::ops::log(&a)
            }),
        ),
        (
            "sin",
            Box::new({
                let a = a.clone();
                move || extensor::ops::sin(&a)
            }),
        ),
        (
            "erf",
            Box::new({
                let a = a.clone();
                move || extensor::ops::erf(&a)
            }),
        ),
        ("add_transposed", Box::new(move || extensor::ops::add(&square, &other))),
        (
            "small_add",
            Box::new({
                let (a, b) = (small.clone(), few.clone());
                move || extensor::ops::add(&a, &b)
            }),
        ),
        (
            "small_exp",
            Box::new({
                let a = small.clone();
                move || extensor::ops::exp(&a)
            }),
        ),
        ("small_sum", Box::new(move || extensor::ops::sum(&small, None))),
    ];
    large
        .into_iter()
        .map(|(name, mut work)| {
            let inner = if name.starts_with("small_") { 1000 } else { 1 };
            Workload::new(name, move || drop(black_box(made(work())))).times(inner)
        })
        .collect()
}

/// `A·B` with each operand plain (`n`) or transposed in memory (`t`), or both plain in `bf16`.
fn matmul(layout: &str, m: usize, k: usize, n: usize) -> Workload {
    let operand = |seed, transposed: bool, rows: usize, columns: usize| {
        if transposed {
            made(extensor::ops::transpose(&random(seed, &[columns, rows]), None))
        } else {
            random(seed, &[rows, columns])
        }
    };
    let (mut a, mut b) =
        (operand(5, layout.starts_with('t'), m, k), operand(6, layout.ends_with('t'), k, n));
    if layout == "bf16" {
        [a, b] = [&a, &b].map(|x| made(extensor::ops::cast(x, DType::BF16)));
    }
    let work = move || drop(black_box(made(extensor::ops::matmul(&a, &b))));
    Workload::new(&format!("matmul_{layout}_{m}x{k}x{n}"), work)
}

/// A name, an equation, and the shapes of its operands.
type Equation = (&'static str, &'static str, &'static [&'static [usize]]);

const EINSUMS: [Equation; 10] = [
    ("product", "ij,jk->ik", &[&[512, 512], &[512, 512]]),
    ("batched", "bij,bjk->bik", &[&[64, 128, 128], &[64, 128, 128]]),
    ("scores", "bhqd,bhkd->bhqk", &[&[8, 8, 256, 64], &[8, 8, 256, 64]]),
    ("values", "bhqk,bhkd->bhqd", &[&[8, 8, 256, 256], &[8, 8, 256, 64]]),
    ("bilinear", "bi,ijk,bj->bk", &[&[64, 128], &[128, 128, 128], &[64, 128]]),
    ("outer", "i,j->ij", &[&[2048], &[2048]]),
    ("chain", "ij,jk,kl->il", &[&[200, 200], &[200, 200], &[200, 200]]),
    ("inner", "ij,ij->", &[&[1024, 1024], &[1024, 1024]]),
    ("small_transpose", "ij->ji", &[&[64, 64]]),
    ("small_diagonal", "ii->i", &[&[64, 64]]),
];

fn einsum((name, equation, shapes): &Equation) -> Workload {
    let operands: Vec<Tensor> = shapes.iter().zip(7..).map(|(s, seed)| random(seed, s)).collect();
    let equation = *equation;
    let work = move || drop(black_box(made(extensor::ops::einsum(equation, &operands))));
    let inner = if name.starts_with("small_") { 1000 } else { 1 };
    Workload::new(&format!("einsum_{name}"), work).times(inner)
}

/// Decompositions of so many square matrices, and a system for sixteen right-hand sides each.
fn linalg(batch: usize, side: usize) -> Vec<Workload> {
    use extensor::ops::{
        Basis, Triangle, add, cholesky, divide, eigh, matmul, qr, solve, svd, transpose,
    };
    let shape = [batch, side, side];
    let (a, b) = (random(17, &shape), random(18, &[batch, side, 16]));
    let turned = made(transpose(&a, [0, 2, 1]));
    let even = made(add(&a, &turned));
    let size = made(Tensor::full([1], side as f64, DType::F32));
    let definite = made(divide(&made(matmul(&a, &turned)), &size));
    let definite = made(add(&definite, &made(Tensor::eye(side, side, DType::F32))));
    let row = |name: &str, work: Box<dyn Fn()>| {
        Workload::new(&format!("linalg_{name}_{batch}x{side}"), work)
    };
    let [one, two, three] = [(); 3].map(|()| a.clone());
    vec![
        row(
            "cholesky",
            Box::new(move || drop(black_box(made(cholesky(&definite, Triangle::Lower))))),
        ),
        row("solve", Box::new(move || drop(black_box(made(solve(&one, &b)))))),
        row("qr", Box::new(move || drop(black_box(made(qr(&two, Basis::Reduced)))))),
        row("svd", Box::new(move || drop(black_box(made(svd(&three, Basis::Reduced)))))),
        row("eigh", Box::new(move || drop(black_box(made(eigh(&even)))))),
    ]
}
