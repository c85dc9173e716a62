//! How alike the directions of vectors are.

use super::*;
use crate::ops::batching::View;
use crate::ops::normalization::unit::length;
use crate::ops::operation::{Forward, reduce_to_shape};
use crate::ops::options::options;
use crate::ops::pointwise::{guard_above, promote, settle};
use crate::ops::samples::Sample;
use crate::ops::shape::bad_parameter;
use crate::over;
use crate::tensor::{axis_index, broadcast};

options! {
    /// The options of [`cosine_similarity`].
    pub struct CosineSimilarityOptions {
        /// The axis that vectors lie along.
        axis: i64 = -1,
        /// The least that a length counts for: above 0.
        eps: f64 = 1e-8,
    }
}

/// The cosine of the angle between vectors along an axis, `a·b/(max(|a|, eps)·max(|b|, eps))`, where `a` and `b` broadcast. The
/// axis is that of both together, the last unless another is given (PyTorch's is the second).
///
/// Nothing overflows on the way: each vector is brought to length 1 first.
///
/// Conventions: a vector shorter than eps counts as if its length were eps, and does so as a constant: beside zeros the
/// cosine is 0, and their gradient g·b/(eps·|b|); at eps the length counts.
///
/// ```
/// use extensor::ops::CosineSimilarityOptions;
/// use extensor::tensor;
/// let (a, b) = (tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]]), tensor([3.0, 4.0]));
/// let y = a.cosine_similarity(&b, CosineSimilarityOptions::new())?;
/// assert_eq!(y.to_vec::<f64>()?, [0.6, 1.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cosine_similarity(
    a: &Tensor,
    b: &Tensor,
    options: CosineSimilarityOptions,
) -> Result<Tensor> {
    apply_one(&Cosine::of(options), &[a, b])
}

/// The gradients of [`cosine_similarity`]: `g·(b̂ − y·â)/|a|` and `g·(â − y·b̂)/|b|` with `â = a/|a|` and `b̂ = b/|b|`; for a vector
/// shorter than `eps` `g·b̂/eps`.
#[track_caller]
#[extensor_derive::noted]
pub fn cosine_similarity_backward(
    grad_output: &Tensor,
    a: &Tensor,
    b: &Tensor,
    options: CosineSimilarityOptions,
) -> Result<(Tensor, Tensor)> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [da, db] = backward_of(&Cosine::of(options), grad_output, &[a, b], &output)?;
    Ok((da, db))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cosine {
    axis: i64,
    eps: f64,
}

/// The product of two numbers of vectors, each over the length that counts.
#[derive(Clone, Copy)]
struct Product(f64);

impl Formula<4> for Product {
    #[inline(always)]
    fn f<R: Real>(&self, [a, n, b, m]: [R; 4]) -> R {
        let eps = a.lit(self.0);
        a / guard_above(n.maximum(eps)) * (b / guard_above(m.maximum(eps)))
    }
}

/// The gradient for `a`, or what its tangent `g` makes of the product; at zero no larger than `limit`.
#[derive(Clone, Copy)]
struct Slope {
    eps: f64,
    limit: f64,
}

impl Formula<6> for Slope {
    #[inline(always)]
    fn f<R: Real>(&self, [g, a, n, b, m, y]: [R; 6]) -> R {
        let (eps, zero) = (a.lit(self.eps), a.lit(0.0));
        let (short, none, n) = (n.lt(eps), n.eq(zero), guard_above(n.maximum(eps)));
        let towards = b / guard_above(m.maximum(eps));
        let value = g / n * (towards - R::select(short, zero, y * (a / n)));
        settle(value, g, none, self.limit)
    }
}

const OP: &str = "cosine_similarity";

/// The vectors of both inputs of a sample, in pairs.
fn pairs(sample: &Sample) -> Vec<[Vec<f64>; 2]> {
    let [a, b] = [0, 1].map(|i| &sample.inputs[i]);
    let Ok(shape) = broadcast(OP, a.shape(), b.shape()) else { return Vec::new() };
    let groups = |i: usize| {
        let x = ops::broadcast_to(&sample.inputs[i], &shape)?;
        let axis = sample.params.optional_int(OP, "axis")?.unwrap_or(-1);
        let one = Sample { inputs: vec![x], ..sample.clone() };
        Ok(one.groups(&Axes::List(std::iter::once(axis).collect())))
    };
    let both = |i| groups(i).unwrap_or_else(|_: Error| Vec::new());
    both(0).into_iter().zip(both(1)).map(|(a, b)| [a, b]).collect()
}

impl Cosine {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Reduction,
        formula: "y = Σ a∘b/(max(|a|, eps)·max(|b|, eps))",
        derivative: "(b̂ − y·â)/|a| and (â − y·b̂)/|b| with â = a/|a| and b̂ = b/|b|; b̂/eps where |a| < eps",
        conventions: "a vector shorter than eps counts as if its length were eps, and does so as a constant: beside zeros \
                      the cosine is 0, and their gradient g·b/(eps·|b|); at eps the length counts",
        inputs: &[crate::ops::record::Input::new("a"), crate::ops::record::Input::new("b")],
        params: &[
            Parameter {
                name: "axis",
                what: "the axis that vectors lie along",
                default: Some("-1"),
            },
            Parameter {
                name: "eps",
                what: "the least that a length counts for: above 0",
                default: Some("1e-8"),
            },
        ],
        backward: signature!(cosine_similarity_backward(grad_output, a, b; axis, eps)),
        class: Class::Composite,
        build: |p| {
            let axis = p.optional_int(OP, "axis")?.unwrap_or(-1);
            Ok(Box::new(Cosine { axis, eps: p.float(OP, "eps", 1e-8)? }))
        },
        samples: cosine_samples,
        kinks: |sample| {
            let eps = sample.number("eps", 1e-8);
            pairs(sample).iter().flatten().any(|v| (length(v, 2.0) - eps).abs() <= 1e-6)
        },
        takes: |sample| {
            let eps = sample.number("eps", 1e-8);
            pairs(sample).iter().flatten().all(|v| {
                let n = length(v, 2.0);
                n < 0.9 * eps && eps > 0.05 || n > 0.05_f64.max(1.1 * eps)
            })
        },
        errors: |bad| {
            let (x, row) = (bad.ones(&[2, 3], DType::F64), bad.ones(&[4], DType::F64));
            let none = Params::new;
            bad.add([x.clone(), row], none(), "shapes [2, 3] and [4] do not broadcast");
            let eps = none().with("eps", -1.0);
            bad.add([x.clone(), x.clone()], eps, "eps is -1.0, expected a finite number above 0");
            let axis = none().with("axis", 2);
            bad.add([x.clone(), x.clone()], axis, "axis 2 is out of range for 2 dimensions");
            let scalar = bad.ones(&[], DType::F64);
            bad.add([scalar.clone(), scalar], none(), "axis -1 is out of range for 0");
            let whole = bad.ones(&[2, 3], DType::I64);
            bad.add([x, whole], none(), "b has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };

    fn of(options: CosineSimilarityOptions) -> Cosine {
        let CosineSimilarityOptions { axis, eps } = options;
        Cosine { axis, eps }
    }

    /// Both inputs, in the dtype that is computed in and whole along the axis, their lengths, and the shape of both
    /// together.
    fn parts(self, inputs: [&Tensor; 2], dtype: DType) -> Result<([Tensor; 4], Shape)> {
        let full = broadcast(OP, inputs[0].shape(), inputs[1].shape())?;
        let at = axis_index(OP, self.axis, full.len())?;
        let back = full.len() - at;
        let along = over(-(back as i64)).keepdims(true);
        let part = |x: &Tensor| -> Result<[Tensor; 2]> {
            let x = ops::cast(x, wide(dtype))?;
            let ones = std::iter::repeat_n(1, back.saturating_sub(x.ndim()));
            let mut whole: Shape = ones.chain(x.shape().iter().copied()).collect();
            whole.set(whole.len() - back, full[at]);
            let x = ops::broadcast_to(&x, &whole)?;
            let n = ops::norm(&x, along.clone())?;
            Ok([x, n])
        };
        let ([a, n], [b, m]) = (part(inputs[0])?, part(inputs[1])?);
        Ok(([a, n, b, m], full))
    }

    /// The cosines in the dtype that is computed in, with the axis kept.
    fn kept(self, parts: &[Tensor; 4], full: &Shape) -> Result<Tensor> {
        let axis = axis_index(OP, self.axis, full.len())? as i64;
        let spec = Spec { shape: full.clone(), dtype: parts[0].dtype() };
        let products = map_real(OP, &Formulas(Product(self.eps)), parts.each_ref(), spec)?;
        ops::sum(&products, over(axis).keepdims(true))
    }

    /// The gradient for input number `by`, of the shape of both together, where `g` broadcasts to that.
    fn slope(
        self,
        by: usize,
        g: &Tensor,
        [a, n, b, m]: &[Tensor; 4],
        y: &Tensor,
        (full, limit): (&Shape, f64),
    ) -> Result<Tensor> {
        let spec = Spec { shape: full.clone(), dtype: a.dtype() };
        let list = if by == 0 { [g, a, n, b, m, y] } else { [g, b, m, a, n, y] };
        let slope = Slope { eps: self.eps, limit };
        map_real("cosine_similarity_backward", &Formulas(slope), list, spec)
    }
}

fn cosine_samples(s: &mut Sampler) {
    let cases: [(&[usize], &[usize], i64); 10] = [
        (&[5], &[5], -1),
        (&[3, 4], &[3, 4], 1),
        (&[3, 4], &[3, 4], 0),
        (&[2, 3, 2], &[2, 3, 2], -2),
        (&[3, 4], &[4], -1),
        (&[4], &[3, 4], 1),
        (&[3, 1, 4], &[2, 4], -1),
        (&[0, 2], &[0, 2], 1),
        (&[3, 0], &[3, 0], 1),
        (&[2, 1], &[2, 1], 1),
    ];
    for (a, b, axis) in cases {
        let (a, b) = (s.away(-2.0, 2.0, &[0.0], a), s.away(-2.0, 2.0, &[0.0], b));
        s.add([a, b], Params::new().with("axis", axis));
    }
    let (a, b) = (s.normal(&[330, 200]), s.normal(&[200]));
    s.add_large([a, b], Params::new(), "many numbers");
    let short = crate::tensor([[0.1, -0.2, 0.0], [0.0; 3], [3.0, -4.0, 0.5]]);
    let other = crate::tensor([1.0, 2.0, -0.5]);
    s.add_noted(
        [short, other.clone()],
        Params::new().with("eps", 0.7),
        "shorter than eps, and longer",
    );
    let zeros = crate::tensor([[0.0; 3], [1.0, -1.0, 0.5]]);
    s.add_noted([zeros, other], Params::new(), "at zero");
}

impl Operation for Cosine {
    fn record(&self) -> &'static Record {
        Cosine::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let [a, b] = [inputs[0], inputs[1]];
        a.dtype().expect_float(OP, "a")?;
        b.dtype().expect_float(OP, "b")?;
        let full = broadcast(OP, a.shape(), b.shape())?;
        let axis = axis_index(OP, self.axis, full.len())?;
        if !(self.eps > 0.0 && self.eps.is_finite()) {
            return Err(bad_parameter(OP, "eps", "a finite number above 0", self.eps));
        }
        let kept = full.iter().enumerate().filter(|(i, _)| *i != axis);
        Ok(spec(kept.map(|(_, &size)| size).collect(), promote(OP, a, b)?))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let spec = specs.swap_remove(0);
        let (parts, full) = self.parts([inputs[0], inputs[1]], spec.dtype)?;
        let y = ops::reshape(&self.kept(&parts, &full)?, &spec.shape)?;
        Ok(smallvec![ops::cast(&y, spec.dtype)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let [a, b] = [call.inputs[0], call.inputs[1]];
        let (parts, full) = self.parts([a, b], call.grad().dtype())?;
        let y = self.kept(&parts, &full)?;
        let g = ops::reshape(&ops::cast(call.grad(), y.dtype())?, y.shape())?;
        let one = |by: usize, x: &Tensor| {
            let limit = call.grad().dtype().max_finite();
            let slope = self.slope(by, &g, &parts, &y, (&full, limit))?;
            reduce_to_shape("cosine_similarity_backward", &slope, x.shape())
        };
        call.two(|| one(0, a), || one(1, b))
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let output = call.outputs[0];
        let (parts, full) = self.parts([call.inputs[0], call.inputs[1]], output.dtype())?;
        let y = self.kept(&parts, &full)?;
        let mut moved: Option<Tensor> = None;
        for (by, tangent) in call.tangents.iter().enumerate() {
            let Some(tangent) = tangent else { continue };
            let (t, limit) = (ops::cast(tangent, y.dtype())?, output.dtype().max_finite());
            let term = self.slope(by, &t, &parts, &y, (&full, limit))?;
            moved = Some(match moved {
                Some(sum) => ops::add(&sum, &term)?,
                None => term,
            });
        }
        let Some(moved) = moved else {
            return Ok(smallvec![output.zeros_like()?]);
        };
        let moved = ops::sum(&moved, axis_index(OP, self.axis, full.len())? as i64)?;
        Ok(smallvec![ops::cast(&moved, output.dtype())?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let full = broadcast(OP, inputs[0].shape(), inputs[1].shape());
        let size = full.and_then(|full| Ok(full[axis_index(OP, self.axis, full.len())?]));
        size.unwrap_or(1).max(1)
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        let ndim = call.inputs.iter().map(|x| x.ndim()).max().unwrap_or(0);
        let op = Cosine { axis: if self.axis < 0 { self.axis } else { self.axis + 1 }, ..*self };
        call.call(Box::new(op), View { ndim, ..View::WHOLE }, View::default())
    }
}
