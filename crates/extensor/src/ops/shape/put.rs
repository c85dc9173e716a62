//! Elements put at positions, and what becomes of those that meet there.

use crate::exec::index::{Indexing, Put};
use crate::ops::arithmetic::where_;
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, spec};
use crate::ops::options::options;
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::reduction::wide;
use crate::ops::samples::{Sample, Sampler};
use crate::ops::shape::put_gradient::{At, times, touched};
use crate::ops::shape::scatter::{expect_places, in_lanes, scattered, within};
use crate::ops::shape::{optional, required};
use crate::tensor::{axis_index, unravel};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::fmt;

/// What becomes of the elements that [`scatter`] puts at one position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScatterReduce {
    /// The last of them, in row-major order of the index, stays; it alone has a gradient.
    #[default]
    Last,
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// Their mean.
    Mean,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl ScatterReduce {
    const ALL: [ScatterReduce; 6] = [
        ScatterReduce::Last,
        ScatterReduce::Sum,
        ScatterReduce::Prod,
        ScatterReduce::Mean,
        ScatterReduce::Max,
        ScatterReduce::Min,
    ];
}

/// As PyTorch calls them.
impl fmt::Display for ScatterReduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ScatterReduce::Last => "none",
            ScatterReduce::Sum => "sum",
            ScatterReduce::Prod => "prod",
            ScatterReduce::Mean => "mean",
            ScatterReduce::Max => "amax",
            ScatterReduce::Min => "amin",
        })
    }
}

options! {
    /// The options of [`scatter`].
    pub struct ScatterOptions {
        /// What becomes of elements that meet at one position.
        reduce: ScatterReduce = ScatterReduce::Last,
        /// Whether the element of `x` that was there is one of them.
        include_self: bool = true,
    }
}

impl From<ScatterReduce> for ScatterOptions {
    fn from(reduce: ScatterReduce) -> ScatterOptions {
        ScatterOptions { reduce, ..ScatterOptions::default() }
    }
}

/// `x`, with `source[…, j, …]` put at `[…, index[…, j, …], …]` for every element of `index`, which
/// gives the position along `axis`. `index` has as many axes as `x` and `source`, at most the sizes of
/// `source`, and along the other axes at most those of `x`.
///
/// Of several elements at one position the last stays, or their sum, product, mean, largest or smallest
/// ([`ScatterReduce`]), with the element of `x` there unless `include_self` is false. `f16` and `bf16` are
/// combined in `f32` and rounded once; whole numbers wrap around and have no mean.
///
/// Domain: 0 <= index < size of the axis.
/// Conventions: with none the last in row-major order stays, and it alone has a gradient; ties of amax and
/// amin share the gradient equally; NaN gives NaN; what nothing is put at stays as it is.
///
/// ```
/// use extensor::ops::{ScatterOptions, ScatterReduce, scatter};
/// use extensor::tensor;
/// let (x, source) = (tensor([1.0, 1.0, 1.0]), tensor([10.0, 20.0, 30.0]));
/// let index = tensor([2, 0, 2]);
/// let y = scatter(&x, &index, &source, 0, ScatterReduce::Last)?;
/// assert_eq!(y.to_vec::<f64>()?, [20.0, 1.0, 30.0]);
/// let alone = ScatterOptions::new().reduce(ScatterReduce::Mean).include_self(false);
/// let y = scatter(&x, &index, &source, 0, alone)?;
/// assert_eq!(y.to_vec::<f64>()?, [20.0, 1.0, 20.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn scatter(
    x: &Tensor,
    index: &Tensor,
    source: &Tensor,
    axis: i64,
    options: impl Into<ScatterOptions>,
) -> Result<Tensor> {
    apply_one(&Scatter::new(axis, options.into()), &[x, index, source])
}

/// The gradients of [`scatter`] for `x` and `source`: `grad_output` for what is left of them, times the
/// others for a product, over their number for a mean, shared among the largest or the smallest.
#[track_caller]
#[extensor_derive::noted]
pub fn scatter_backward(
    grad_output: &Tensor,
    x: &Tensor,
    index: &Tensor,
    source: &Tensor,
    output: &Tensor,
    axis: i64,
    options: impl Into<ScatterOptions>,
) -> Result<(Tensor, Tensor)> {
    let op = Scatter::new(axis, options.into());
    if output.shape() != x.shape() || output.dtype() != x.dtype() {
        let (argument, expected, got) = ("output", x.shape().to_string(), output.shape().clone());
        return Err(Error::Shape { op: "scatter_backward", argument, expected, got });
    }
    let [x, source] = backward_of(&op, grad_output, &[x, index, source], output)?;
    Ok((x, source))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    pub(super) axis: i64,
    pub(super) reduce: ScatterReduce,
    pub(super) include_self: bool,
}

impl Scatter {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "scatter",
        family: Family::Shape,
        formula: "y = x, then source[…, j, …] put at y[…, index[…, j, …], …]",
        derivative: "g for what is left, times the others (prod), over their number (mean), shared (amax, amin)",
        domain: "0 <= index < size of the axis",
        conventions: "with none the last in row-major order stays, and it alone has a gradient; ties of \
                      amax and amin share the gradient equally; NaN gives NaN; what nothing is put at \
                      stays as it is",
        backward: signature!(scatter_backward(
            grad_output, x, index, source, output; axis, reduce, include_self
        )),
        inputs: &[Input::new("x"), Input::constant("index"), Input::new("source")],
        params: &[
            required("axis", "an axis"),
            optional(
                "reduce",
                "\"none\", \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\" of what is put at one position",
                "\"none\"",
            ),
            optional("include_self", "whether what was there is one of them", "true"),
        ],
        class: Class::Composite,
        needs: Needs::InputsAndOutputs,
        build: |p| {
            let axis = p.int("scatter", "axis")?;
            let word = p.text("scatter", "reduce", "none")?;
            let found = ScatterReduce::ALL.into_iter().find(|r| r.to_string() == word);
            let reduce = found.ok_or_else(|| Error::Parameter {
                op: "scatter",
                parameter: "reduce",
                expected: "\"none\", \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\"".into(),
                got: format!("{word:?}"),
            })?;
            let include_self = p.bool("scatter", "include_self", true)?;
            Ok(Box::new(Scatter { axis, reduce, include_self }))
        },
        samples,
        kinks: tied,
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let index = bad.ones(&[2, 3], DType::I64);
            let at = |axis: i64| Params::new().with("axis", axis);
            let good = [x.clone(), index.clone(), x.clone()];
            bad.add(good.clone(), at(2), "axis 2 is out of range for 2");
            let message = "reduce is \"max\", expected \"none\", \"sum\"";
            bad.add(good.clone(), at(0).with("reduce", "max"), message);
            let message = "include_self is 1, expected true or false";
            bad.add(good, at(0).with("include_self", 1), message);
            let wide = [x.clone(), bad.ones(&[1, 4], DType::I64), x.clone()];
            let message = "index has shape [1, 4], expected at most [2, 3] but for axis 0";
            bad.add(wide, at(0), message);
            let short = [x.clone(), index.clone(), bad.ones(&[1, 3], DType::F64)];
            bad.add(short, at(0), "source has shape [1, 3], expected at least [2, 3]");
            let mixed = [x.clone(), index.clone(), bad.ones(&[2, 3], DType::F32)];
            bad.add(mixed, at(0), "dtypes f64 and f32 do not mix");
            let floats = [x.clone(), x.clone(), x.clone()];
            bad.add(floats, at(0), "index has dtype f64, expected a whole");
            for word in ["none", "prod", "amin"] {
                let beyond = [x.clone(), crate::tensor([[0i64, 2, 1]]), x.clone()];
                let message = "scatter: index 2 is out of range for axis 0 of size 2";
                bad.add(beyond, at(0).with("reduce", word), message);
            }
            let negative = [x.clone(), crate::tensor([[-7i64]]), x];
            bad.add(negative, at(1), "index -7 is out of range for axis 1");
            let mask = bad.ones(&[2, 3], DType::Bool);
            let masks = [mask.clone(), index.clone(), mask];
            let message = "x has dtype bool, expected a number type";
            bad.add(masks, at(0).with("reduce", "amax"), message);
            let ints = bad.ones(&[2, 3], DType::I32);
            let message = "x has dtype i32, expected a float type";
            bad.add([ints.clone(), index, ints], at(0).with("reduce", "mean"), message);
        },
        ..Record::BLANK
    };

    fn new(axis: i64, options: ScatterOptions) -> Scatter {
        let ScatterOptions { reduce, include_self } = options;
        Scatter { axis, reduce, include_self }
    }
}

/// Numbers that are apart from each other in both tensors together.
fn apart(s: &mut Sampler, x: &[usize], source: &[usize]) -> [Tensor; 2] {
    let len = |shape: &[usize]| shape.iter().product::<usize>();
    let mut all = s.apart(&[len(x) + len(source)]).to_f64_vec();
    let rest = all.split_off(len(x));
    [(all, x), (rest, source)].map(|(values, shape)| {
        Tensor::from_vec(values, shape)
            .unwrap_or_else(|error| panic!("a sample cannot be made: {error}"))
    })
}

fn samples(s: &mut Sampler) {
    let cases: [([&[usize]; 3], i64); 8] = [
        ([&[4, 5], &[6, 5], &[6, 5]], 0),
        ([&[4, 5], &[4, 7], &[4, 7]], 1),
        ([&[4, 5], &[2, 3], &[3, 4]], -1),
        ([&[2, 3, 4], &[2, 5, 3], &[2, 5, 4]], 1),
        ([&[5], &[9], &[9]], 0),
        ([&[1], &[1], &[1]], 0),
        ([&[4, 5], &[0, 5], &[2, 5]], 0),
        ([&[0, 3], &[0, 2], &[0, 2]], 1),
    ];
    let params = |axis: i64, reduce: ScatterReduce, include: bool| {
        let all = Params::new().with("axis", axis);
        all.with("reduce", &*reduce.to_string()).with("include_self", include)
    };
    for (k, ([x, index, source], axis)) in cases.into_iter().enumerate() {
        let size = x[if axis < 0 { 1 } else { axis as usize }] as u64;
        for reduce in ScatterReduce::ALL {
            for include in [true, false] {
                if k >= 4 && include == (reduce == ScatterReduce::Min) {
                    continue;
                }
                let index = s.integers(size, index);
                let [x, source] = apart(s, x, source);
                s.add([x, index, source], params(axis, reduce, include));
            }
        }
    }
    let index = crate::tensor([0i64, 1, 0, 2, 0, 2]);
    let x = crate::tensor([2.0, 3.0, 0.0, 0.5]);
    for (source, note) in [
        ([1.5, 0.0, 2.0, 4.0, 0.0, 0.0], "zeros"),
        ([0.0, 0.0, 0.0, 0.0, 3.0, -1.0], "several zeros at one position"),
    ] {
        for include in [true, false] {
            let inputs = [x.clone(), index.clone(), crate::tensor(source)];
            s.add_noted(inputs, params(0, ScatterReduce::Prod, include), note);
        }
    }
    for include in [true, false] {
        let source = crate::tensor([2.0, 3.0, 2.0, 0.0, 1.0, -1.0]);
        let inputs = [x.clone(), index.clone(), source.clone()];
        s.add_noted(inputs, params(0, ScatterReduce::Max, include), "ties");
        let inputs = [x.clone(), index.clone(), source];
        s.add_noted(inputs, params(0, ScatterReduce::Last, include), "repeated");
    }
    for reduce in ScatterReduce::ALL {
        let index = s.integers(9000, &[12_000]);
        let [x, source] = apart(s, &[9000], &[12_000]);
        s.add_large([x, index, source], params(0, reduce, true), "many numbers");
    }
}

/// Whether two of the numbers that meet at a position are its largest (or smallest).
fn tied(sample: &Sample) -> bool {
    let word = sample.params.text("scatter", "reduce", "none").unwrap_or_default();
    let sign = match &*word {
        "amax" => 1.0,
        "amin" => -1.0,
        _ => return false,
    };
    let include = sample.params.bool("scatter", "include_self", true).unwrap_or(true);
    let [x, index, source] = [0, 1, 2].map(|i| &sample.inputs[i]);
    let Ok(axis) = axis_index("scatter", sample.number("axis", 0.0) as i64, x.ndim()) else {
        return false;
    };
    let number = |at: &[usize], shape: &Shape| {
        at.iter().zip(shape.iter()).fold(0, |number, (&i, &size)| number * size + i)
    };
    let [kept, put] = [x, source].map(Tensor::to_f64_vec);
    let mut met: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (k, position) in index.to_f64_vec().into_iter().enumerate() {
        let mut at = unravel(k, index.shape());
        let new = put[number(&at, source.shape())];
        at[axis] = position as usize;
        let to = number(&at, x.shape());
        let start = if include { vec![kept[to]] } else { Vec::new() };
        met.entry(to).or_insert(start).push(new);
    }
    met.values().any(|all| {
        let most = all.iter().fold(f64::NEG_INFINITY, |m, v| m.max(sign * v));
        all.iter().filter(|v| sign * **v == most).count() > 1
    })
}

impl Operation for Scatter {
    fn record(&self) -> &'static Record {
        Scatter::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("scatter", inputs[0]);
        expect_places(op, inputs, self.axis)?;
        match self.reduce {
            ScatterReduce::Last => {}
            ScatterReduce::Mean => x.dtype().expect_float(op, "x")?,
            _ if x.is_bool() => {
                let (argument, expected, got) = ("x", "a number type (not bool)", x.dtype());
                return Err(Error::DType { op, argument, expected, got });
            }
            _ => {}
        }
        Ok(spec(x.shape().clone(), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let (x, index, source) = (inputs[0], inputs[1], inputs[2]);
        if index.is_empty() {
            return Ok(smallvec![x.clone()]);
        }
        let dtype = x.dtype();
        if self.reduce == ScatterReduce::Last {
            return Ok(smallvec![put(Put::Last, x, index, source, self.axis)?]);
        }
        let of = wide(dtype);
        let y = self.combined(&ops::cast(x, of)?, index, &ops::cast(source, of)?)?;
        Ok(smallvec![ops::cast(&y, dtype)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let ([x, index, source], g) = ([0, 1, 2].map(|i| call.inputs[i]), call.grad());
        if index.is_empty() {
            let zeros = || source.zeros_like();
            let source = if call.wanted[2] { Some(zeros()?) } else { None };
            return Ok(smallvec![call.wanted[0].then(|| g.clone()), None, source]);
        }
        let of = wide(x.dtype());
        let [g, x, y] = [g, x, call.output()].map(|x| ops::cast(x, of));
        let read = within(&ops::cast(source, of)?, index.shape())?;
        let at = At { scatter: *self, x: x?, index, source: read, y: y? };
        let g = g?;
        let for_source = || {
            let grad = at.for_source(&g)?;
            let sizes = source.shape().iter().zip(index.shape().iter());
            let beyond = sizes.map(|(&all, &read)| (0, (all - read) as i64));
            let beyond: Vec<(i64, i64)> = beyond.collect();
            if beyond.iter().all(|&(_, after)| after == 0) {
                return Ok(grad);
            }
            ops::pad(&grad, &beyond, 0.0)
        };
        Ok(smallvec![
            if call.wanted[0] { Some(at.for_x(&g)?) } else { None },
            None,
            if call.wanted[2] { Some(for_source()?) } else { None },
        ])
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let ([x, index, source], y) = ([0, 1, 2].map(|i| call.inputs[i]), call.outputs[0]);
        let [along_x, along_source] = [(0, x), (2, source)].map(|(i, x)| match call.tangents[i] {
            Some(tangent) => Ok(tangent.clone()),
            None => x.zeros_like(),
        });
        let (along_x, along_source) = (along_x?, along_source?);
        if index.is_empty() {
            return Ok(smallvec![along_x]);
        }
        if matches!(self.reduce, ScatterReduce::Last | ScatterReduce::Sum | ScatterReduce::Mean) {
            return Ok(smallvec![apply_one(self, &[&along_x, index, &along_source])?]);
        }
        // Every element goes to one place at most: its weight there is its gradient for ones.
        let (dtype, of) = (x.dtype(), wide(x.dtype()));
        let [x, y, along_x, along_source] =
            [x, y, &along_x, &along_source].map(|x| ops::cast(x, of));
        let read = within(&ops::cast(source, of)?, index.shape())?;
        let at = At { scatter: *self, x: x?, index, source: read, y: y? };
        let ones = at.y.ones_like()?;
        let own = times(&at.for_x(&ones)?, &along_x?)?;
        let put = times(&at.for_source(&ones)?, &within(&along_source?, index.shape())?)?;
        let sum = ops::scatter_add(&own, index, &put, self.axis)?;
        Ok(smallvec![ops::cast(&sum, dtype)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        axis_index("scatter", self.axis, inputs[0].ndim())
            .map_or(1, |axis| inputs[1].shape().get(axis).map_or(1, |&listed| listed + 1))
    }
}

/// `x`, with the elements of `source` put at their positions one after the other.
fn put(how: Put, x: &Tensor, index: &Tensor, source: &Tensor, axis: i64) -> Result<Tensor> {
    let axis = axis_index("scatter", axis, x.ndim())?;
    let source = scattered(source, index);
    in_lanes("scatter", x, index, &source, &Indexing::PutLanes { axis, put: how })
}

impl Scatter {
    /// The result, of types that are combined as they are.
    fn combined(&self, x: &Tensor, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let axis = self.axis;
        let put = |how: Put, x: &Tensor| put(how, x, index, source, axis);
        // What is there before anything is put.
        let start = |neutral: f64| -> Result<Tensor> {
            if self.include_self {
                return Ok(x.clone());
            }
            let neutral = Tensor::scalar_of(neutral, x.dtype())?;
            where_(&touched(index, x.shape(), axis)?, &neutral, x)
        };
        let extreme = |how: Put| {
            // Any of those that meet may be there before: the largest is the same.
            put(how, &if self.include_self { x.clone() } else { put(Put::Last, x)? })
        };
        match self.reduce {
            ScatterReduce::Last => put(Put::Last, x),
            ScatterReduce::Sum => ops::scatter_add(&start(0.0)?, index, source, axis),
            ScatterReduce::Prod => put(Put::Product, &start(1.0)?),
            ScatterReduce::Max => extreme(Put::Largest),
            ScatterReduce::Min => extreme(Put::Smallest),
            ScatterReduce::Mean => {
                let sum = ops::scatter_add(&start(0.0)?, index, source, axis)?;
                ops::divide(&sum, &self.count(index, x.shape(), x.dtype())?)
            }
        }
    }

    /// How many numbers the mean at each position is of.
    pub(super) fn count(&self, index: &Tensor, shape: &Shape, dtype: DType) -> Result<Tensor> {
        let own = Tensor::constant(f64::from(self.include_self), shape, DType::I64)?;
        let ones = Tensor::constant(1.0, index.shape(), DType::I64)?;
        let count = ops::scatter_add(&own, index, &ones, self.axis)?;
        let count = ops::maximum(&count, &Tensor::scalar_of(1.0, DType::I64)?)?;
        ops::cast(&count, dtype)
    }
}
