//! Elements put at positions: added to what is there, or ones among zeros.

use crate::exec::index::Indexing;
use crate::exec::{launch, launch_one};
use crate::ops::batching::{Batch, Batched, shifted};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Needs, Record, signature};
use crate::ops::shape::indexing::{expect_index, in_order};
use crate::ops::shape::{bad_parameter, bad_shape, required};
use crate::tensor::{Layout, axis_index, bits_of};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// `x`, with `source[…, j, …]` added to element `[…, index[…, j, …], …]` for every element of
/// `index`, which gives the position along `axis`. `index` has as many axes as `x` and `source`, at
/// most the sizes of `source`, and along the other axes at most those of `x`.
///
/// Repeated positions add up, in row-major order of `index`, whatever the number of threads; `f16`
/// and `bf16` are summed in `f32` and rounded once; whole numbers wrap around.
///
/// Domain: 0 <= index < size of the axis.
/// Conventions: repeated positions add up in row-major order.
///
/// ```
/// use extensor::ops::scatter_add;
/// use extensor::tensor;
/// let (x, source) = (tensor([1.0, 1.0, 1.0]), tensor([10.0, 20.0, 30.0]));
/// let y = scatter_add(&x, &tensor([2, 0, 2]), &source, 0)?;
/// assert_eq!(y.to_vec::<f64>()?, [21.0, 1.0, 41.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn scatter_add(x: &Tensor, index: &Tensor, source: &Tensor, axis: i64) -> Result<Tensor> {
    apply_one(&ScatterAdd::new(axis), &[x, index, source])
}

/// The gradients of [`scatter_add`] for `x` and `source`: `grad_output`, and what is gathered from it
/// (0 for elements of `source` beyond the sizes of `index`).
#[track_caller]
#[extensor_derive::noted]
pub fn scatter_add_backward(
    grad_output: &Tensor,
    index: &Tensor,
    source_shape: &[usize],
    axis: i64,
) -> Result<(Tensor, Tensor)> {
    let x = placeholder(grad_output.shape(), grad_output.dtype())?;
    let source = placeholder(&Shape::from(source_shape), grad_output.dtype())?;
    let inputs = [&x, index, &source];
    let [x, source] = backward_of(&ScatterAdd::new(axis), grad_output, &inputs, grad_output)?;
    Ok((x, source))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScatterAdd {
    axis: i64,
    /// What errors call it: it is also the gradient of other operations.
    name: &'static str,
}

impl ScatterAdd {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "scatter_add",
        family: Family::Shape,
        formula: "y = x, then y[…, index[…, j, …], …] += source[…, j, …]",
        derivative: "(g, g[…, index[…, j, …], …])",
        domain: "0 <= index < size of the axis",
        conventions: "repeated positions add up in row-major order",
        backward: signature!(scatter_add_backward(grad_output, index, shape(source); axis)),
        inputs: &[Input::new("x"), Input::constant("index"), Input::new("source")],
        params: &[required("axis", "an axis")],
        class: Class::Linear,
        needs: Needs::Inputs,
        build: |p| Ok(Box::new(ScatterAdd::new(p.int("scatter_add", "axis")?))),
        samples: |s| {
            let cases: [([&[usize]; 3], i64); 9] = [
                ([&[4, 5], &[3, 5], &[3, 5]], 0),
                ([&[4, 5], &[4, 7], &[4, 7]], 1),
                ([&[4, 5], &[2, 3], &[3, 4]], -1),
                ([&[4, 5], &[6, 2], &[6, 2]], 0),
                ([&[2, 3, 4], &[2, 5, 3], &[2, 5, 4]], 1),
                ([&[5], &[9], &[9]], 0),
                ([&[1], &[1], &[1]], 0),
                ([&[4, 5], &[0, 5], &[2, 5]], 0),
                ([&[0, 3], &[0, 2], &[0, 2]], 1),
            ];
            for ([shape, index, source], axis) in cases {
                let size = shape[if axis < 0 { 1 } else { axis as usize }] as u64;
                let index = s.integers(size, index);
                let inputs = [s.normal(shape), index, s.normal(source)];
                s.add(inputs, Params::new().with("axis", axis));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let index = bad.ones(&[2, 3], DType::I64);
            let params = |axis: i64| Params::new().with("axis", axis);
            let good = [x.clone(), index.clone(), x.clone()];
            bad.add(good, params(2), "axis 2 is out of range for 2");
            let wide = [x.clone(), bad.ones(&[1, 4], DType::I64), x.clone()];
            let message = "index has shape [1, 4], expected at most [2, 3] but for axis 0";
            bad.add(wide, params(0), message);
            let short = [x.clone(), index.clone(), bad.ones(&[1, 3], DType::F64)];
            let message = "source has shape [1, 3], expected at least [2, 3]";
            bad.add(short, params(0), message);
            let mixed = [x.clone(), index.clone(), bad.ones(&[2, 3], DType::F32)];
            bad.add(mixed, params(0), "dtypes f64 and f32 do not mix");
            let floats = [x.clone(), x.clone(), x.clone()];
            bad.add(floats, params(0), "index has dtype f64, expected a whole");
            let beyond = [x.clone(), crate::tensor([[0i64, 2, 1]]), x.clone()];
            let message = "scatter_add: index 2 is out of range for axis 0 of size 2";
            bad.add(beyond, params(0), message);
            let negative = [x.clone(), crate::tensor([[-7i64]]), x];
            bad.add(negative, params(1), "index -7 is out of range for axis 1");
            let mask = bad.ones(&[2, 3], DType::Bool);
            let masks = [mask.clone(), index, mask];
            bad.add(masks, params(0), "x has dtype bool, expected a number type");
        },
        ..Record::BLANK
    };

    const fn new(axis: i64) -> ScatterAdd {
        let name = "scatter_add";
        ScatterAdd { axis, name }
    }
}

impl Operation for ScatterAdd {
    fn record(&self) -> &'static Record {
        ScatterAdd::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = (self.name, inputs[0]);
        expect_places(op, inputs, self.axis)?;
        if x.is_bool() {
            let (expected, got) = ("a number type (not bool)", x.dtype());
            return Err(Error::DType { op, argument: "x", expected, got });
        }
        Ok(spec(x.shape().clone(), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let axis = axis_index(self.name, self.axis, inputs[0].ndim())?;
        let dtype = inputs[0].dtype();
        let add = |x: &Tensor, source: &Tensor| add_at(self.name, x, inputs[1], source, axis);
        if matches!(dtype, DType::F16 | DType::BF16) {
            let wide = |x: &Tensor| ops::cast(x, DType::F32);
            let sum = add(&wide(inputs[0])?, &wide(inputs[2])?)?;
            return Ok(smallvec![ops::cast(&sum, dtype)?]);
        }
        Ok(smallvec![add(inputs[0], inputs[2])?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (grad, index, source) = (call.grad(), call.inputs[1], call.inputs[2]);
        let for_source = || {
            let picked = ops::gather(grad, index, self.axis)?;
            let pairs = source.shape().iter().zip(index.shape().iter());
            let beyond = pairs.map(|(&all, &read)| (0, (all - read) as i64));
            let beyond: Vec<(i64, i64)> = beyond.collect();
            if beyond.iter().all(|&(_, after)| after == 0) {
                return Ok(picked);
            }
            ops::pad(&picked, &beyond, 0.0)
        };
        Ok(smallvec![
            call.wanted[0].then(|| grad.clone()),
            None,
            if call.wanted[2] { Some(for_source()?) } else { None },
        ])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(ScatterAdd { axis: shifted(self.axis), name: self.name })
    }
}

/// An error unless `index` holds whole numbers and fits `x` and `source`, which have one dtype.
pub(super) fn expect_places(op: &'static str, inputs: &[&Tensor], axis: i64) -> Result<()> {
    let [x, index, source] = [0, 1, 2].map(|i| inputs[i]);
    let axis = axis_index(op, axis, x.ndim())?;
    expect_index(op, index)?;
    let (a, b) = (x.dtype(), source.dtype());
    if a != b {
        return Err(Error::MixedDTypes { op, a, b });
    }
    let within = |limit: &Tensor, free: Option<usize>| {
        let pairs = index.shape().iter().zip(limit.shape().iter());
        let mut pairs = pairs.enumerate();
        index.ndim() == limit.ndim() && pairs.all(|(i, (a, b))| Some(i) == free || a <= b)
    };
    if !within(x, Some(axis)) {
        let expected = format!("at most {} but for axis {axis}", x.shape());
        return Err(bad_shape(op, "index", expected, index.shape()));
    }
    if !within(source, None) {
        let expected = format!("at least {}", index.shape());
        return Err(bad_shape(op, "source", expected, source.shape()));
    }
    Ok(())
}

/// The first elements of `x` along every axis, as many as `shape` has.
pub(super) fn within(x: &Tensor, shape: &Shape) -> Result<Tensor> {
    let mut x = x.clone();
    for (axis, &size) in shape.iter().enumerate() {
        if x.shape()[axis] != size {
            x = ops::slice(&x, axis as i64, None, size as i64, 1)?;
        }
    }
    Ok(x)
}

/// The same of a tensor that is not being differentiated: a view.
pub(super) fn scattered(source: &Tensor, index: &Tensor) -> Tensor {
    source.with_layout(Layout { shape: index.shape().clone(), ..source.layout().clone() })
}

/// The gradient of picking elements: `grad` added to zeros at the positions picked.
#[track_caller]
pub(crate) fn add_picked(
    name: &'static str,
    grad: &Tensor,
    index: &Tensor,
    shape: &Shape,
    axis: i64,
) -> Result<Tensor> {
    let zeros = Tensor::constant(0.0, shape, grad.dtype())?;
    apply_one(&ScatterAdd { axis, name }, &[&zeros, index, grad])
}

/// The gradient of taking rows: as [`add_picked`], every element of a row at the same position.
#[track_caller]
pub(crate) fn add_taken(
    name: &'static str,
    grad: &Tensor,
    index: &Tensor,
    shape: &Shape,
    axis: i64,
) -> Result<Tensor> {
    let at = axis_index(name, axis, shape.len())?;
    let mut listed = shape.clone();
    listed.set(at, index.len());
    let column = |i: usize| if i == at { index.len() } else { 1 };
    let column: Shape = (0..shape.len()).map(column).collect();
    // A view in which the list lies once: `add_at` sees that, and adds row by row.
    let index = ops::broadcast_to(&ops::reshape(index, &column)?, &listed)?;
    add_picked(name, &ops::reshape(grad, &listed)?, &index, shape, axis)
}

/// `x` with `source` added at the positions, in a type that sums as it is.
fn add_at(
    op: &'static str,
    x: &Tensor,
    index: &Tensor,
    source: &Tensor,
    axis: usize,
) -> Result<Tensor> {
    if index.is_empty() {
        return Ok(x.clone());
    }
    let like = |x: &Tensor| Spec { shape: x.shape().clone(), dtype: x.dtype() };
    // The elements of `source` that `index` has a position for.
    let source = scattered(source, index);
    if let Some(list) = listed_once(x, index, axis) {
        let (list, source) = (in_order(&list)?, source.contiguous()?);
        return launch_one(op, &Indexing::AddRows { axis }, &[x, &list, &source], like(x));
    }
    in_lanes(op, x, index, &source, &Indexing::AddLanes { axis })
}

/// What a kernel makes of `x`, positions and a source of their shape along the axis that it names, with
/// which it takes as the last.
pub(super) fn in_lanes(
    op: &'static str,
    x: &Tensor,
    index: &Tensor,
    source: &Tensor,
    kernel: &Indexing,
) -> Result<Tensor> {
    let axis = match *kernel {
        Indexing::AddLanes { axis } | Indexing::PutLanes { axis, .. } => axis,
        _ => x.ndim().saturating_sub(1),
    };
    let like = |x: &Tensor| Spec { shape: x.shape().clone(), dtype: x.dtype() };
    // With the axis last, each lane of the result is a slice of its own.
    let mut order: Vec<usize> = (0..x.ndim()).filter(|&i| i != axis).collect();
    order.push(axis);
    let [x, index, source] = [x, index, source].map(|x| ops::transpose(x, &order));
    let (x, index, source) = (x?, in_order(&index?)?, source?.contiguous()?);
    let sum = launch_one(op, kernel, &[&x, &index, &source], like(&x))?;
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    ops::transpose(&sum, &back)?.contiguous()
}

/// The positions, if they are the same for every lane of `x` and lie in memory once.
fn listed_once(x: &Tensor, index: &Tensor, axis: usize) -> Option<Tensor> {
    for (i, &size) in index.shape().iter().enumerate() {
        let once = index.strides()[i] == 0 || size == 1;
        if i != axis && !(once && size == x.shape()[i]) {
            return None;
        }
    }
    Some(index.with_layout(Layout {
        shape: Shape::from([index.shape()[axis]]),
        strides: smallvec![index.strides()[axis]],
        offset: index.layout().offset,
    }))
}

/// For each index a row of `num_classes` numbers: 1 at the index, 0 elsewhere.
///
/// Domain: 0 <= index < num_classes.
///
/// ```
/// use extensor::ops::one_hot;
/// use extensor::{DType, tensor};
/// let y = one_hot(&tensor([2, 0]), 3, DType::F32)?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn one_hot(index: &Tensor, num_classes: i64, dtype: DType) -> Result<Tensor> {
    apply_one(&OneHot { num_classes, dtype }, &[index])
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OneHot {
    num_classes: i64,
    dtype: DType,
}

impl OneHot {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "one_hot",
        family: Family::Shape,
        formula: "y[j…, c] = 1 where c = index[j…], 0 elsewhere",
        derivative: "none: an index has no derivative",
        domain: "0 <= index < num_classes",
        inputs: &[Input::constant("index")],
        params: &[
            required("num_classes", "how many classes"),
            required("dtype", "the name of a dtype"),
        ],
        class: Class::Constant,
        order: 0,
        needs: Needs::Shapes,
        build: |p| {
            let op = "one_hot";
            let num_classes = p.int(op, "num_classes")?;
            let dtype = p.dtype(op, "dtype")?;
            Ok(Box::new(OneHot { num_classes, dtype }))
        },
        samples: |s| {
            let shapes: [&[usize]; 5] = [&[4], &[2, 3], &[], &[0], &[1]];
            for (shape, dtype) in shapes.into_iter().zip(["f64", "i64", "bool", "f16", "u8"]) {
                let index = s.integers(5, shape);
                let params = Params::new().with("num_classes", 5);
                s.add([index], params.with("dtype", dtype));
            }
        },
        errors: |bad| {
            let params = |n: i64| Params::new().with("num_classes", n).with("dtype", "f64");
            let index = crate::tensor([0i64, 3]);
            let message = "one_hot: index 3 is out of range for axis 1 of size 3";
            bad.add([index.clone()], params(3), message);
            let message = "num_classes is -1, expected at least 0";
            bad.add([index], params(-1), message);
            let floats = bad.ones(&[2], DType::F64);
            bad.add([floats], params(3), "index has dtype f64, expected a whole");
            let index = bad.ones(&[4], DType::I64);
            bad.add([index], params(i64::MAX), "more elements than memory");
        },
        ..Record::BLANK
    };
}

impl Operation for OneHot {
    fn record(&self) -> &'static Record {
        OneHot::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, index) = ("one_hot", inputs[0]);
        expect_index(op, index)?;
        let classes = usize::try_from(self.num_classes)
            .map_err(|_| bad_parameter(op, "num_classes", "at least 0", self.num_classes))?;
        let mut shape = index.shape().clone();
        shape.push(classes);
        shape.count(op)?;
        Ok(spec(shape, self.dtype))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (op, index) = ("one_hot", inputs[0]);
        let one = bits_of(op, 1.0, self.dtype)?;
        let kernel = Indexing::OneHot { axis: index.ndim(), one };
        launch(op, &kernel, &[&in_order(index)?], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        Ok(smallvec![None; call.inputs.len()])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(OneHot { num_classes: self.num_classes, dtype: self.dtype })
    }
}
