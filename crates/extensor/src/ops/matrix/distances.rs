//! Distances between the rows of matrices.

use crate::exec::distance::Distance;
use crate::exec::launch_one;
use crate::ops::batching::{Batch, Batched};
use crate::ops::normalization::unit::bends;
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, reduce_to_shape, spec};
use crate::ops::options::options;
use crate::ops::params::Params;
use crate::ops::pointwise::{map_real, promote};
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::reduction::lengths::{Lengths, power_of};
use crate::ops::reduction::wide;
use crate::ops::samples::{Sample, Sampler};
use crate::ops::shape::{bad_parameter, bad_shape, optional};
use crate::tensor::broadcast;
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::distance::Power;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::smallvec;

options! {
    /// The options of [`cdist`].
    pub struct CdistOptions {
        /// The order of the norm: above 0, or ∞ for the largest difference.
        p: f64 = 2.0,
    }
}

/// The distances of all rows of `a`, `[…, n, d]`, from all rows of `b`, `[…, m, d]`, `(Σ|aᵢ − bⱼ|ᵖ)^(1/p)`: `[…, n, m]`. The axes
/// before the last two broadcast.
///
/// Distances are made of differences, which are never stored: that of points that lie close together far from 0 has all
/// its digits, and memory grows with `n·m`, not with `n·m·d`. (Forward mode and second derivatives store them.)
///
/// Domain: points that do not coincide.
///
/// Conventions: the derivative where points coincide is 0; for p = 1 the sign of 0 is 0, for p = ∞ equal differences share
/// the gradient; below p = 1 a difference of 0 has the gradient 0.
///
/// ```
/// use extensor::ops::CdistOptions;
/// use extensor::tensor;
/// let (a, b) = (tensor([[0.0, 0.0], [3.0, 0.0]]), tensor([[3.0, 4.0]]));
/// assert_eq!(a.cdist(&b, CdistOptions::new())?.to_vec::<f64>()?, [5.0, 4.0]);
/// assert_eq!(a.cdist(&b, CdistOptions::new().p(1.0))?.to_vec::<f64>()?, [7.0, 4.0]);
/// let far = tensor([[1e8, 1e8]]);
/// assert_eq!(far.cdist(&(&far + &b), CdistOptions::new())?.to_vec::<f64>()?, [5.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cdist(a: &Tensor, b: &Tensor, options: CdistOptions) -> Result<Tensor> {
    apply_one(&Cdist { p: options.p }, &[a, b])
}

/// The gradients of [`cdist`], from inputs and output: `Σⱼ gᵢⱼ·uᵢⱼ` for a row of `a` and `−Σᵢ gᵢⱼ·uᵢⱼ` for one of `b`, with `u =
/// sign(aᵢ − bⱼ)·(|aᵢ − bⱼ|/y)^(p − 1)`, and 0 where points coincide.
#[track_caller]
#[extensor_derive::noted]
pub fn cdist_backward(
    grad_output: &Tensor,
    a: &Tensor,
    b: &Tensor,
    output: &Tensor,
    options: CdistOptions,
) -> Result<(Tensor, Tensor)> {
    let op = Cdist { p: options.p };
    let spec = op.infer(&[a, b])?.swap_remove(0);
    let name = "cdist_backward";
    if *output.shape() != spec.shape {
        return Err(bad_shape(name, "output", spec.shape.to_string(), output.shape()));
    }
    if output.dtype() != spec.dtype {
        let (argument, expected, got) = ("output", spec.dtype.name(), output.dtype());
        return Err(Error::DType { op: name, argument, expected, got });
    }
    let [da, db] = backward_of(&op, grad_output, &[a, b], output)?;
    Ok((da, db))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cdist {
    p: f64,
}

const OP: &str = "cdist";

/// What a difference is multiplied by before the weight that it has: so that one over a tiny distance does not overflow.
#[derive(Clone, Copy)]
struct Scale {
    small: f64,
    factor: f64,
}

impl Scale {
    fn of(dtype: DType) -> Scale {
        let [small, factor] =
            if dtype == DType::F64 { [1e-200, 2f64.powi(900)] } else { [1e-20, 2f64.powi(100)] };
        Scale { small, factor }
    }
}

impl Formula<1> for Scale {
    #[inline(always)]
    fn f<R: Real>(&self, [y]: [R; 1]) -> R {
        R::select(y.lt(y.lit(self.small)), y.lit(self.factor), y.lit(1.0))
    }
}

/// `g/(y·t)` for the factor `t` of a distance; 0 where that is 0.
#[derive(Clone, Copy)]
struct Weight;

impl Formula<3> for Weight {
    #[inline(always)]
    fn f<R: Real>(&self, [g, y, t]: [R; 3]) -> R {
        let zero = y.lit(0.0);
        R::select(y.eq(zero), zero, g / (y * t))
    }
}

/// `g`, and 0 where a distance is.
#[derive(Clone, Copy)]
struct Apart;

impl Formula<2> for Apart {
    #[inline(always)]
    fn f<R: Real>(&self, [g, y]: [R; 2]) -> R {
        R::select(y.eq(y.lit(0.0)), y.lit(0.0), g)
    }
}

/// The sizes of a call.
struct Sizes {
    /// The axes before the last two, of both together.
    outer: Shape,
    n: usize,
    m: usize,
    d: usize,
}

impl Sizes {
    fn of(inputs: &[&Tensor]) -> Result<Sizes> {
        for (argument, x) in [("a", inputs[0]), ("b", inputs[1])] {
            x.dtype().expect_float(OP, argument)?;
            if x.ndim() < 2 {
                return Err(bad_shape(OP, argument, "[…, rows, width]", x.shape()));
            }
        }
        let [a, b] = [inputs[0].shape(), inputs[1].shape()];
        let (k, l) = (a.len() - 2, b.len() - 2);
        if a[k + 1] != b[l + 1] {
            return Err(bad_shape(OP, "b", format!("[…, rows, {}]", a[k + 1]), b));
        }
        let outer = broadcast(OP, &Shape::from(&a[..k]), &Shape::from(&b[..l]))?;
        Ok(Sizes { outer, n: a[k], m: b[l], d: a[k + 1] })
    }

    /// The outer axes, and two more.
    fn with(&self, last: [usize; 2]) -> Shape {
        self.outer.iter().copied().chain(last).collect()
    }

    /// Rows as the kernels take them: in the dtype that is computed in, for all outer axes, in order.
    fn rows(&self, x: &Tensor, dtype: DType) -> Result<Tensor> {
        let [rows, width] = [x.shape()[x.ndim() - 2], self.d];
        let x = ops::cast(x, wide(dtype))?;
        ops::broadcast_to(&x, self.with([rows, width]))?.contiguous()
    }
}

/// The last two axes swapped, in order.
fn turned(x: &Tensor) -> Result<Tensor> {
    let n = x.ndim() as i64;
    let order: Vec<i64> = (0..n - 2).chain([n - 1, n - 2]).collect();
    ops::transpose(x, &order[..])?.contiguous()
}

/// The differences of all rows of a sample from all others.
fn differences(sample: &Sample) -> Vec<Vec<f64>> {
    let made = || -> Result<Vec<Vec<f64>>> {
        let [a, b] = [&sample.inputs[0], &sample.inputs[1]];
        let apart = apart(a, b)?;
        let width = apart.shape().last().copied().unwrap_or(1);
        Ok(apart.to_f64_vec().chunks(width.max(1)).map(<[f64]>::to_vec).collect())
    };
    made().unwrap_or_default()
}

/// `[…, n, m, d]`, the differences of all rows.
fn apart(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::subtract(&ops::expand_dims(a, -2)?, &ops::expand_dims(b, -3)?)
}

impl Cdist {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Matrix,
        formula: "yᵢⱼ = (Σ |aᵢ − bⱼ|^p)^(1/p)",
        derivative: "Σⱼ gᵢⱼ·u and −Σᵢ gᵢⱼ·u with u = sign(aᵢ − bⱼ)·(|aᵢ − bⱼ|/yᵢⱼ)^(p − 1)",
        domain: "points that do not coincide",
        conventions: "the derivative where points coincide is 0; for p = 1 the sign of 0 is 0, for p = ∞ equal differences \
                      share the gradient; below p = 1 a difference of 0 has the gradient 0",
        inputs: &[Input::new("a"), Input::new("b")],
        params: &[optional(
            "p",
            "the order of the norm: above 0, or ∞ for the largest difference",
            "2.0",
        )],
        backward: signature!(cdist_backward(grad_output, a, b, output; p)),
        class: Class::General,
        needs: Needs::InputsAndOutputs,
        build: |p| Ok(Box::new(Cdist { p: p.float(OP, "p", 2.0)? })),
        samples,
        kinks: |sample| {
            let p = sample.number("p", 2.0);
            differences(sample).iter().any(|apart| bends(apart, p))
        },
        takes: |sample| {
            let p = sample.number("p", 2.0);
            let curved = p != 1.0 && p != 2.0 && p.is_finite();
            differences(sample).iter().all(|apart| {
                let top = apart.iter().fold(0.0, |top: f64, d| top.max(d.abs()));
                apart.is_empty()
                    || top > 0.05 && !(curved && apart.iter().any(|d| d.abs() < 0.03 * top))
            })
        },
        errors: |bad| {
            let (a, b) = (bad.ones(&[2, 3], DType::F64), bad.ones(&[4, 2], DType::F64));
            let none = Params::new;
            bad.add([a.clone(), b], none(), "b has shape [4, 2], expected […, rows, 3]");
            let vector = bad.ones(&[3], DType::F64);
            let message = "a has shape [3], expected […, rows, width]";
            bad.add([vector, a.clone()], none(), message);
            let (two, three) = (bad.ones(&[2, 2, 3], DType::F64), bad.ones(&[3, 2, 3], DType::F64));
            bad.add([two, three], none(), "shapes [2] and [3] do not broadcast");
            let p = |p: f64| none().with("p", p);
            bad.add([a.clone(), a.clone()], p(0.0), "p is 0.0, expected a number above 0");
            bad.add([a.clone(), a.clone()], p(f64::NAN), "p is NaN, expected a number above 0");
            let whole = bad.ones(&[2, 3], DType::I64);
            bad.add([a, whole], none(), "b has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };

    /// The distances in the dtype that is computed in, of rows from columns.
    fn between(self, a: &Tensor, columns: &Tensor, sizes: &Sizes) -> Result<Tensor> {
        let spec = Spec { shape: sizes.with([sizes.n, sizes.m]), dtype: a.dtype() };
        launch_one(OP, &Distance::Between(power_of(self.p)), &[a, columns], spec)
    }
}

/// Rows whose numbers are not close to each other.
fn distinct(s: &mut Sampler, a: &[usize], b: &[usize]) -> [Tensor; 2] {
    let len = |shape: &[usize]| shape.iter().product::<usize>();
    let all = s.apart(&[len(a) + len(b)]).to_f64_vec();
    let (first, second) = all.split_at(len(a));
    let made = |values: &[f64], shape: &[usize]| match Tensor::from_vec(values.to_vec(), shape) {
        Ok(x) => x,
        Err(error) => panic!("a sample cannot be made: {error}"),
    };
    [made(first, a), made(second, b)]
}

fn samples(s: &mut Sampler) {
    let orders = [2.0, 1.0, f64::INFINITY, 3.0, 1.5];
    let cases: [(&[usize], &[usize]); 9] = [
        (&[3, 2], &[4, 2]),
        (&[1, 1], &[1, 1]),
        (&[2, 3, 2], &[2, 2, 2]),
        (&[3, 2], &[2, 4, 2]),
        (&[2, 1, 2, 3], &[3, 2, 3]),
        (&[0, 2], &[3, 2]),
        (&[3, 2], &[0, 2]),
        (&[2, 0], &[3, 0]),
        (&[0, 2, 2], &[1, 3, 2]),
    ];
    for (i, (a, b)) in cases.into_iter().enumerate() {
        for (k, p) in orders.into_iter().enumerate() {
            if i < 3 || k < 2 || k == i % 5 {
                let pair = distinct(s, a, b);
                s.add(pair, Params::new().with("p", p));
            }
        }
    }
    let pair = distinct(s, &[2, 2], &[2, 2]);
    s.add_noted(pair, Params::new().with("p", 0.5), "an order below 1");
    let pair = [s.normal(&[3, 70]), s.normal(&[40, 70])];
    s.add_large(pair, Params::new(), "long rows, and more than a tile of them");
    let pair = [s.normal(&[70, 3]), s.normal(&[1200, 3])];
    s.add_large(pair, Params::new(), "many rows");
    let (a, b) =
        (crate::tensor([[1.0, 2.0], [0.5, -1.0]]), crate::tensor([[1.0, 2.0], [3.0, 0.0]]));
    for p in orders {
        s.add_noted([a.clone(), b.clone()], Params::new().with("p", p), "points that coincide");
    }
}

impl Operation for Cdist {
    fn record(&self) -> &'static Record {
        Cdist::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let sizes = Sizes::of(inputs)?;
        let dtype = promote(OP, inputs[0], inputs[1])?;
        if self.p.is_nan() || self.p <= 0.0 {
            return Err(bad_parameter(OP, "p", "a number above 0", self.p));
        }
        let shape = sizes.with([sizes.n, sizes.m]);
        shape.count(OP)?;
        Ok(spec(shape, dtype))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (sizes, dtype) = (Sizes::of(inputs)?, specs[0].dtype);
        let a = sizes.rows(inputs[0], dtype)?;
        let columns = turned(&sizes.rows(inputs[1], dtype)?)?;
        Ok(smallvec![ops::cast(&self.between(&a, &columns, &sizes)?, dtype)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (name, dtype) = ("cdist_backward", call.grad().dtype());
        let (sizes, power) = (Sizes::of(call.inputs)?, power_of(self.p));
        let [a, b] = [0, 1].map(|i| sizes.rows(call.inputs[i], dtype));
        let (a, b) = (a?, b?);
        let (columns, wide) = (turned(&b)?, wide(dtype));
        // What is rounded to 16 bits is found again, and so is the largest difference, which is looked for.
        let y = if dtype == wide && power != Power::Infinity {
            call.output().contiguous()?
        } else {
            self.between(&a, &columns, &sizes)?
        };
        let g = ops::cast(call.grad(), wide)?.contiguous()?;
        let like = || Spec { shape: y.shape().clone(), dtype: wide };
        // The weights, and what the kernel asks for beside them.
        let (w, t) = match power {
            Power::One => (g, y),
            Power::Two => {
                let t = map_real(name, &Formulas(Scale::of(wide)), [&y], like())?;
                (map_real(name, &Formulas(Weight), [&g, &y, &t], like())?, t)
            }
            Power::Infinity => {
                let ties = launch_one(name, &Distance::Ties, &[&a, &columns, &y], like())?;
                (map_real(name, &Formulas(Weight), [&g, &ties, &y.ones_like()?], like())?, y)
            }
            Power::Any(_) => (map_real(name, &Formulas(Apart), [&g, &y], like())?, y),
        };
        let gradient = Distance::Gradient(power);
        let fold = |grad: Tensor, x: &Tensor| reduce_to_shape(name, &grad, x.shape());
        call.two(
            || {
                let spec = Spec { shape: a.shape().clone(), dtype: wide };
                let grad = launch_one(name, &gradient, &[&a, &columns, &w, &t], spec)?;
                fold(grad, call.inputs[0])
            },
            || {
                let (rows, w, t) = (turned(&a)?, turned(&w)?, turned(&t)?);
                let spec = Spec { shape: b.shape().clone(), dtype: wide };
                let grad = launch_one(name, &gradient, &[&b, &rows, &w, &t], spec)?;
                fold(grad, call.inputs[1])
            },
        )
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let y = call.outputs[0];
        let (dtype, wide) = (y.dtype(), wide(y.dtype()));
        let [a, b] = [0, 1].map(|i| ops::cast(call.inputs[i], wide));
        let apart = apart(&a?, &b?)?;
        let [da, db] = [0, 1].map(|i| call.tangents[i].map(|t| ops::cast(t, wide)).transpose());
        let moved = match (da?, db?) {
            (Some(da), Some(db)) => self::apart(&da, &db)?,
            (Some(da), None) => ops::expand_dims(&da, -2)?,
            (None, Some(db)) => ops::negate(&ops::expand_dims(&db, -3)?)?,
            (None, None) => return Ok(smallvec![y.zeros_like()?]),
        };
        let lengths = Lengths { p: self.p, axis: -1, limit: dtype.max_finite() };
        let n = lengths.of(&apart)?;
        let along = ops::squeeze(&lengths.pushed(&moved, &apart, &n)?, -1)?;
        Ok(smallvec![ops::cast(&along, dtype)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        inputs[0].shape().last().copied().unwrap_or(1).max(1)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.aligned_whole(Box::new(*self))
    }
}
