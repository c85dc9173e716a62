//! Elements picked by position: one for each element, or whole rows.
//!
//! Positions are whole numbers of any type from 0 up to the size of the axis; a negative one is out
//! of range, it does not count from the end. The derivatives are [`scatter_add`](ops::scatter_add)s.

use crate::exec::index::Indexing;
use crate::exec::launch;
use crate::ops::batching::{Batch, Batched, View, shifted};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Record, signature};
use crate::ops::shape::scatter::{add_picked, add_taken};
use crate::ops::shape::{bad_shape, countable, optional, required};
use crate::tensor::axis_index;
use crate::{DType, Error, Result, Shape, Tensor, autodiff, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// An error unless `x` can hold positions.
pub(crate) fn expect_index(op: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_int() {
        return Ok(());
    }
    let (argument, expected, got) = ("index", "a whole-number type", x.dtype());
    Err(Error::DType { op, argument, expected, got })
}

/// The positions in row-major order, as kernels take them: in `i64`, or `u64` if they are.
pub(crate) fn in_order(index: &Tensor) -> Result<Tensor> {
    if index.dtype() == DType::U64 {
        return index.contiguous();
    }
    ops::cast(index, DType::I64)?.contiguous()
}

/// `y[…, j, …] = x[…, index[…, j, …], …]`: for each element of the result the position along `axis`.
/// `index` has as many axes as `x`, and along the others at most its sizes.
///
/// Domain: 0 <= index < size of the axis.
/// Conventions: what is picked several times gets the sum, taken in row-major order.
///
/// ```
/// use extensor::ops::gather;
/// use extensor::tensor;
/// let x = tensor([[1, 2, 3], [4, 5, 6]]);
/// let y = gather(&x, &tensor([[2, 0], [1, 1]]), 1)?;
/// assert_eq!(y.to_vec::<i32>()?, [3, 1, 5, 5]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn gather(x: &Tensor, index: &Tensor, axis: i64) -> Result<Tensor> {
    apply_one(&Gather { axis }, &[x, index])
}

/// The gradient of [`gather`] for `x`: each element of `grad_output` added where it was picked.
#[track_caller]
#[extensor_derive::noted]
pub fn gather_backward(
    grad_output: &Tensor,
    index: &Tensor,
    input_shape: &[usize],
    axis: i64,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(&Gather { axis }, grad_output, &[&x, index], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather {
    axis: i64,
}

impl Gather {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "gather",
        family: Family::Shape,
        formula: "y[…, j, …] = x[…, index[…, j, …], …]",
        derivative: "g added where its elements were picked",
        domain: "0 <= index < size of the axis",
        conventions: "what is picked several times gets the sum, taken in row-major order",
        backward: signature!(gather_backward(grad_output, index, shape(x); axis)),
        inputs: &[Input::new("x"), Input::constant("index")],
        params: &[required("axis", "an axis")],
        class: Class::Linear,
        build: |p| {
            let axis = p.int("gather", "axis")?;
            Ok(Box::new(Gather { axis }))
        },
        samples: |s| {
            let cases: [(&[usize], &[usize], i64); 9] = [
                (&[4, 5], &[3, 5], 0),
                (&[4, 5], &[4, 3], 1),
                (&[4, 5], &[2, 9], -1),
                (&[4, 5], &[6, 2], 0),
                (&[2, 3, 4], &[2, 5, 3], 1),
                (&[5], &[7], 0),
                (&[1], &[1], 0),
                (&[4, 5], &[0, 5], 0),
                (&[0, 3], &[0, 2], 1),
            ];
            for (shape, index, axis) in cases {
                let size = shape[if axis < 0 { 1 } else { axis as usize }] as u64;
                let inputs = [s.normal(shape), s.integers(size, index)];
                s.add(inputs, Params::new().with("axis", axis));
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |axis: i64| Params::new().with("axis", axis);
            let index = bad.ones(&[2, 2], DType::I64);
            let both = [x.clone(), index.clone()];
            bad.add(both, params(2), "axis 2 is out of range for 2");
            let floats = [x.clone(), x.clone()];
            bad.add(floats, params(0), "index has dtype f64, expected a whole");
            let vector = [x.clone(), bad.ones(&[2], DType::I64)];
            let message = "index has shape [2], expected at most [2, 3] but for axis 0";
            bad.add(vector, params(0), message);
            let wide = [x.clone(), bad.ones(&[2, 4], DType::I64)];
            bad.add(wide, params(0), "expected at most [2, 3] but for axis 0");
            let beyond = [x.clone(), crate::tensor([[0i64, 2, 0]])];
            let message = "gather: index 2 is out of range for axis 0 of size 2";
            bad.add(beyond, params(0), message);
            let negative = [x, crate::tensor([[-1i32]])];
            bad.add(negative, params(1), "index -1 is out of range for axis 1");
        },
        ..Record::BLANK
    };
}

impl Operation for Gather {
    fn record(&self) -> &'static Record {
        Gather::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x, index) = ("gather", inputs[0], inputs[1]);
        let axis = axis_index(op, self.axis, x.ndim())?;
        expect_index(op, index)?;
        let pairs = index.shape().iter().zip(x.shape().iter());
        let fits = |(i, (small, large)): (usize, (&usize, &usize))| i == axis || small <= large;
        if index.ndim() != x.ndim() || !pairs.enumerate().all(fits) {
            let expected = format!("at most {} but for axis {axis}", x.shape());
            return Err(bad_shape(op, "index", expected, index.shape()));
        }
        Ok(spec(index.shape().clone(), x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (op, x) = ("gather", inputs[0]);
        let axis = axis_index(op, self.axis, x.ndim())?;
        launch(op, &Indexing::Gather { axis }, &[x, &in_order(inputs[1])?], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (x, index) = (call.inputs[0], call.inputs[1]);
        let op = "gather_backward";
        let grad = || add_picked(op, call.grad(), index, x.shape(), self.axis);
        Ok(smallvec![if call.wanted[0] { Some(grad()?) } else { None }, None])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Gather { axis: shifted(self.axis) })
    }
}

/// `y[o…, j…, i…] = x[o…, index[j…], i…]`: rows of `x` along `axis`, as listed; the axes of `index`
/// take the place of that axis.
///
/// Domain: 0 <= index < size of the axis.
/// Conventions: what is taken several times gets the sum, taken in row-major order.
///
/// ```
/// use extensor::ops::take;
/// use extensor::tensor;
/// let x = tensor([[1, 2], [3, 4], [5, 6]]);
/// let y = take(&x, &tensor([2, 0, 2]), 0)?;
/// assert_eq!(y.to_vec::<i32>()?, [5, 6, 1, 2, 5, 6]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn take(x: &Tensor, index: &Tensor, axis: i64) -> Result<Tensor> {
    apply_one(&Take { axis }, &[x, index])
}

/// The gradient of [`take`] for `x`: each row of `grad_output` added where it was taken.
#[track_caller]
#[extensor_derive::noted]
pub fn take_backward(
    grad_output: &Tensor,
    index: &Tensor,
    input_shape: &[usize],
    axis: i64,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(&Take { axis }, grad_output, &[&x, index], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Take {
    axis: i64,
}

impl Take {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "take",
        family: Family::Shape,
        formula: "y[o…, j…, i…] = x[o…, index[j…], i…]",
        derivative: "g added where its rows were taken",
        domain: "0 <= index < size of the axis",
        conventions: "what is taken several times gets the sum, taken in row-major order",
        backward: signature!(take_backward(grad_output, index, shape(x); axis)),
        inputs: &[Input::new("x"), Input::constant("index")],
        params: &[optional("axis", "an axis", "0")],
        class: Class::Linear,
        build: |p| {
            let axis = p.optional_int("take", "axis")?.unwrap_or(0);
            Ok(Box::new(Take { axis }))
        },
        samples: |s| {
            let cases: [(&[usize], &[usize], i64); 9] = [
                (&[4, 5], &[6], 0),
                (&[4, 5], &[6], 1),
                (&[4, 5], &[2, 3], -1),
                (&[2, 3, 4], &[2, 2], 1),
                (&[4, 5], &[], 0),
                (&[4, 5], &[0], 1),
                (&[1], &[3], 0),
                (&[0, 3], &[2], 1),
                (&[3, 0], &[2], 0),
            ];
            for (shape, index, axis) in cases {
                let size = shape[if axis < 0 { 1 } else { axis as usize }] as u64;
                let inputs = [s.normal(shape), s.integers(size, index)];
                let note = "repeated indices accumulate";
                s.add_noted(inputs, Params::new().with("axis", axis), note);
            }
        },
        errors: |bad| {
            let x = bad.ones(&[2, 3], DType::F64);
            let params = |axis: i64| Params::new().with("axis", axis);
            let index = crate::tensor([0i64, 3]);
            let both = [x.clone(), index.clone()];
            bad.add(both.clone(), params(-3), "axis -3 is out of range for 2");
            let message = "take: index 3 is out of range for axis 1 of size 3";
            bad.add(both, params(1), message);
            let mask = bad.ones(&[2], DType::Bool);
            let message = "index has dtype bool, expected a whole-number type";
            bad.add([x.clone(), mask], params(0), message);
            let empty = [bad.ones(&[0, 3], DType::F64), crate::tensor([0u8])];
            bad.add(empty, params(0), "index 0 is out of range for axis 0 of size 0");
            let negative = [x, crate::tensor([-1i8])];
            bad.add(negative, params(0), "index -1 is out of range");
        },
        ..Record::BLANK
    };
}

/// What taking rows gives.
fn infer_take(op: &'static str, x: &Tensor, index: &Tensor, axis: i64) -> Result<Specs> {
    let axis = axis_index(op, axis, x.ndim())?;
    expect_index(op, index)?;
    let (before, after) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
    let sizes = before.iter().chain(index.shape().iter()).chain(after);
    Ok(spec(countable(op, sizes.map(|&s| Some(s)))?, x.dtype()))
}

fn take_rows(op: &'static str, inputs: &[&Tensor], axis: i64, specs: Specs) -> Result<Outputs> {
    let x = inputs[0];
    let axis = axis_index(op, axis, x.ndim())?;
    launch(op, &Indexing::Take { axis }, &[x, &in_order(inputs[1])?], specs)
}

impl Operation for Take {
    fn record(&self) -> &'static Record {
        Take::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        infer_take("take", inputs[0], inputs[1], self.axis)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        take_rows("take", inputs, self.axis, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (x, index) = (call.inputs[0], call.inputs[1]);
        let grad = || add_taken("take_backward", call.grad(), index, x.shape(), self.axis);
        Ok(smallvec![if call.wanted[0] { Some(grad()?) } else { None }, None])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        match *call.mapped {
            [true, false] => call.whole_first(Take { axis: shifted(self.axis) }),
            // The axes of the indices come where the axis was.
            [false, true] => {
                let ndim = call.inputs[0].ndim() as i64;
                let at = if self.axis < 0 { self.axis + ndim } else { self.axis };
                let output = View { at: at.max(0) as usize, ..View::default() };
                call.call(Box::new(Take { axis: self.axis }), View::default(), output)
            }
            _ => Batched::Loop,
        }
    }
}

/// `y[j…] = weight[index[j…]]`: the row of a table for each index.
///
/// Domain: 0 <= index < rows of the table.
/// Conventions: a row read several times gets the sum, taken in row-major order.
///
/// ```
/// use extensor::ops::embedding;
/// use extensor::tensor;
/// let weight = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let y = embedding(&weight, &tensor([[1], [0]]))?;
/// assert_eq!(y.shape(), [2, 1, 2]);
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 4.0, 1.0, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn embedding(weight: &Tensor, index: &Tensor) -> Result<Tensor> {
    apply_one(&Embedding, &[weight, index])
}

/// [`embedding`], in which the row `padding_idx` has no gradient: what fills sequences up to one length is not learned. Made of
/// other operations.
///
/// ```
/// use extensor::{autodiff::grad, ops::embedding_with_padding, tensor};
/// let weight = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let index = tensor([0i64, 1, 1]);
/// let g = grad(|w| embedding_with_padding(w, &index, 0)?.sum(..), &weight)?;
/// assert_eq!(g.to_vec::<f64>()?, [0.0, 0.0, 2.0, 2.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn embedding_with_padding(weight: &Tensor, index: &Tensor, padding_idx: i64) -> Result<Tensor> {
    let (op, rows) = ("embedding_with_padding", weight.shape().first().copied().unwrap_or(0));
    if usize::try_from(padding_idx).map_or(true, |at| at >= rows) {
        let (expected, parameter) = (format!("the number of one of {rows} rows"), "padding_idx");
        let got = padding_idx.to_string();
        return Err(Error::Parameter { op, parameter, expected, got });
    }
    let y = embedding(weight, index)?;
    let index =
        if index.dtype() == DType::U64 { index.clone() } else { ops::cast(index, DType::I64)? };
    let padding = match index.dtype() {
        DType::U64 => Tensor::scalar(padding_idx.unsigned_abs()),
        _ => Tensor::scalar(padding_idx),
    };
    let padding = ops::expand_dims(&ops::equal(&index, &padding)?, -1)?;
    ops::where_(&padding, &autodiff::stop_gradient(&y), &y)
}

/// The gradient of [`embedding`] for the table: each row of `grad_output` added to its row's.
#[track_caller]
#[extensor_derive::noted]
pub fn embedding_backward(
    grad_output: &Tensor,
    index: &Tensor,
    weight_shape: &[usize],
) -> Result<Tensor> {
    let weight = placeholder(&Shape::from(weight_shape), grad_output.dtype())?;
    let [grad] = backward_of(&Embedding, grad_output, &[&weight, index], grad_output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedding;

impl Embedding {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "embedding",
        family: Family::Shape,
        formula: "y[j…] = weight[index[j…]]",
        derivative: "g added to the rows that were read",
        domain: "0 <= index < rows of the table",
        conventions: "a row read several times gets the sum, taken in row-major order",
        backward: signature!(embedding_backward(grad_output, index, shape(weight))),
        inputs: &[Input::new("weight"), Input::constant("index")],
        class: Class::Linear,
        build: |_| Ok(Box::new(Embedding)),
        samples: |s| {
            let cases: [(&[usize], &[usize]); 6] = [
                (&[7, 3], &[2, 4]),
                (&[7, 3], &[5]),
                (&[7, 3], &[]),
                (&[7, 3], &[0, 2]),
                (&[1, 1], &[1]),
                (&[3, 0], &[2]),
            ];
            for (shape, index) in cases {
                let inputs = [s.normal(shape), s.integers(shape[0] as u64, index)];
                s.add(inputs, Params::new());
            }
        },
        errors: |bad| {
            let weight = bad.ones(&[2, 3], DType::F64);
            let inputs = [weight.clone(), crate::tensor([[0i64], [2]])];
            let message = "embedding: index 2 is out of range for axis 0 of size 2";
            bad.add(inputs, Params::new(), message);
            let inputs = [bad.ones(&[2], DType::F64), crate::tensor([0i64])];
            let message = "weight has shape [2], expected two axes: a table of rows";
            bad.add(inputs, Params::new(), message);
            let inputs = [weight.clone(), weight];
            bad.add(inputs, Params::new(), "index has dtype f64, expected a whole");
        },
        ..Record::BLANK
    };
}

impl Operation for Embedding {
    fn record(&self) -> &'static Record {
        Embedding::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, weight) = ("embedding", inputs[0]);
        if weight.ndim() != 2 {
            let expected = "two axes: a table of rows";
            return Err(bad_shape(op, "weight", expected, weight.shape()));
        }
        infer_take(op, weight, inputs[1], 0)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        take_rows("embedding", inputs, 0, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (weight, index) = (call.inputs[0], call.inputs[1]);
        let grad = || add_taken("embedding_backward", call.grad(), index, weight.shape(), 0);
        Ok(smallvec![if call.wanted[0] { Some(grad()?) } else { None }, None])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        if call.mapped[0] {
            return Batched::Loop;
        }
        call.call(Box::new(Embedding), View::default(), View::default())
    }
}
