//! Products of matrices and vectors.
//!
//! Every product, forward or backward, is one call of the same kernel on strided views: a transpose
//! is never copied, and a batch is cut up by offsets into the operands' memory.

use super::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use super::operation::{apply_one, backward_of, husk, reduce_to_shape, spec, sum_dtype};
use super::params::Params;
use super::pointwise::promote;
use super::record::{Class, Family, Input, Needs, Record};
use crate::tensor::{Layout, broadcast, match_float};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_kernels::gemm::{self, Dims, Matrix};
use smallvec::{SmallVec, smallvec};

/// The product of matrices, `y = a·b`.
///
/// Two matrices give a matrix, a matrix and a vector a vector, two vectors a scalar. With more than
/// two dimensions the last two are the matrices' and those before broadcast.
///
/// ```
/// use extensor::{matmul, tensor};
/// let a = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(matmul(&a, &a)?.to_vec::<f64>()?, [7.0, 10.0, 15.0, 22.0]);
/// assert_eq!(matmul(&a, &tensor([1.0, 1.0]))?.to_vec::<f64>()?, [3.0, 7.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    apply_one(&MatMul, &[a, b])
}

/// The gradients of [`matmul`]: `(g·bᵀ, aᵀ·g)`, each summed to its operand's shape.
pub fn matmul_backward(grad_output: &Tensor, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    pair(&MatMul, grad_output, a, b)
}

/// The inner product of two vectors, `y = Σ aᵢbᵢ`.
///
/// ```
/// use extensor::{dot, tensor};
/// assert_eq!(dot(&tensor([1.0, 2.0]), &tensor([3.0, 4.0]))?.item::<f64>()?, 11.0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn dot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    apply_one(&Dot, &[a, b])
}

/// The gradients of [`dot`]: `(g·b, g·a)`.
pub fn dot_backward(grad_output: &Tensor, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    pair(&Dot, grad_output, a, b)
}

/// The outer product of two vectors, `yᵢⱼ = aᵢbⱼ`.
///
/// ```
/// use extensor::{outer, tensor};
/// let y = outer(&tensor([1.0, 2.0]), &tensor([3.0, 4.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 4.0, 6.0, 8.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn outer(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    apply_one(&Outer, &[a, b])
}

/// The gradients of [`outer`]: `(g·b, gᵀ·a)`.
pub fn outer_backward(grad_output: &Tensor, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    pair(&Outer, grad_output, a, b)
}

/// A layer of a network, `y = x·weightᵀ + bias`, with `weight` of shape `[out, in]`, for `x` with
/// any number of axes before the last.
///
/// ```
/// use extensor::{linear, tensor};
/// let weight = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
/// let y = linear(&tensor([1.0, 1.0]), &weight, Some(&tensor([0.5, 0.5, 0.5])))?;
/// assert_eq!(y.to_vec::<f64>()?, [3.5, 7.5, 11.5]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    match bias {
        Some(bias) => apply_one(&Linear, &[x, weight, bias]),
        None => apply_one(&Linear, &[x, weight]),
    }
}

/// The gradients of [`linear`] for `x`, `weight` and `bias`: `(g·weight, gᵀ·x, Σ g)`.
pub fn linear_backward(
    grad_output: &Tensor,
    x: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor, Tensor)> {
    let out = Shape::from([weight.shape().first().copied().unwrap_or(0)]);
    let bias = husk(&out, weight.dtype())?;
    let output = husk(grad_output.shape(), grad_output.dtype())?;
    let [dx, dweight, dbias] = backward_of(&Linear, grad_output, &[x, weight, &bias], &output)?;
    Ok((dx, dweight, dbias))
}

fn pair(op: &dyn Operation, g: &Tensor, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let output = husk(g.shape(), g.dtype())?;
    let [da, db] = backward_of(op, g, &[a, b], &output)?;
    Ok((da, db))
}

// ---- one product for all of them ----------------------------------------------------------------

/// The two last axes exchanged: a view.
fn transposed(x: &Tensor) -> Tensor {
    let Layout {
        mut shape,
        mut strides,
        offset,
    } = x.layout().clone();
    let n = shape.len();
    if n >= 2 {
        let (rows, columns) = (shape[n - 2], shape[n - 1]);
        shape.set(n - 2, columns);
        shape.set(n - 1, rows);
        strides.swap(n - 2, n - 1);
    }
    x.with_layout(Layout {
        shape,
        strides,
        offset,
    })
}

/// A new axis of size 1 at `at`: a view.
fn with_axis(x: &Tensor, at: usize) -> Tensor {
    let Layout {
        mut shape,
        mut strides,
        offset,
    } = x.layout().clone();
    shape.insert(at, 1);
    strides.insert(at, 0);
    x.with_layout(Layout {
        shape,
        strides,
        offset,
    })
}

/// The leading axes of `x` made one, if the strides allow: a batch of rows is one tall matrix.
fn tall(x: &Tensor) -> Option<Tensor> {
    let columns = *x.shape().last()?;
    let rows = x.shape()[..x.ndim() - 1].iter().product();
    Some(x.with_layout(x.layout().reshaped(&Shape::from([rows, columns]))?))
}

/// Where each matrix of a batch begins, the leading axes of `x` being broadcast to `batch`.
fn offsets(x: &Tensor, batch: &[usize]) -> Vec<usize> {
    let layout = x.layout();
    let own = x.ndim() - 2;
    let mut starts = vec![layout.offset as isize];
    for (i, &size) in batch.iter().enumerate() {
        let axis = (i + own).checked_sub(batch.len());
        let stride = axis
            .filter(|&k| x.shape()[k] != 1)
            .map_or(0, |k| layout.strides[k]);
        starts = starts
            .iter()
            .flat_map(|&s| (0..size as isize).map(move |j| s + j * stride))
            .collect();
    }
    starts.into_iter().map(|s| s as usize).collect()
}

/// `a·b`, or `bias + a·b`, of (batches of) matrices of one dtype; the result has shape `shape`.
fn product(
    op: &'static str,
    a: &Tensor,
    b: &Tensor,
    bias: Option<&Tensor>,
    shape: Shape,
) -> Result<Tensor> {
    let (m, k) = (a.shape()[a.ndim() - 2], a.shape()[a.ndim() - 1]);
    let n = b.shape()[b.ndim() - 1];
    let dims = Dims { m, k, n };
    let batch = if a.ndim() > 2 || b.ndim() > 2 {
        shape[..shape.len() - 2].to_vec()
    } else {
        vec![]
    };
    let dtype = a.dtype();
    let start = bias
        .map(|bias| ops::broadcast_to(bias, &shape))
        .transpose()?;
    match_float!(dtype, T => Tensor::build(op, shape.clone(), dtype, |out: &mut [T]| {
        if let Some(start) = &start {
            use extensor_kernels::copy::{ViewMut, copy};
            copy(start.view::<T>(), ViewMut::new(out, 0, &shape, &shape.strides()));
        }
        let matrix = |x: &Tensor, offset: usize| {
            let strides = x.strides();
            let (row_stride, col_stride) = (strides[x.ndim() - 2], strides[x.ndim() - 1]);
            (offset, row_stride, col_stride)
        };
        let (data_a, data_b) = (a.view::<T>().data(), b.view::<T>().data());
        let as_matrix = |data, (offset, row_stride, col_stride)| Matrix { data, offset, row_stride, col_stride };
        if batch.is_empty() {
            let first = as_matrix(data_a, matrix(a, a.layout().offset));
            let second = as_matrix(data_b, matrix(b, b.layout().offset));
            gemm::matmul(dims, first, second, start.is_some(), out, n);
        } else {
            let first = as_matrix(data_a, matrix(a, 0));
            let second = as_matrix(data_b, matrix(b, 0));
            let (at_a, at_b) = (offsets(a, &batch), offsets(b, &batch));
            gemm::matmul_batched(dims, first, &at_a, second, &at_b, start.is_some(), out);
        }
    }), else Err(Error::DType { op, argument: "the result", expected: "a float type", got: dtype }))
}

/// `a·b` for operands of any dimensions that [`MatMul`] accepts, in `dtype`.
fn multiply_matrices(op: &'static str, a: &Tensor, b: &Tensor, spec: Spec) -> Result<Tensor> {
    let Spec { shape, dtype } = spec;
    let (a, b) = (ops::cast(a, dtype)?, ops::cast(b, dtype)?);
    // A batch of matrices times one matrix is one tall matrix times it.
    if a.ndim() > 2
        && b.ndim() == 2
        && let Some(rows) = tall(&a)
    {
        let flat = Shape::from([rows.shape()[0], b.shape()[1]]);
        return ops::reshape(&product(op, &rows, &b, None, flat)?, &shape);
    }
    let (row, column) = (a.ndim() == 1, b.ndim() == 1);
    let a = if row { with_axis(&a, 0) } else { a };
    let b = if column { with_axis(&b, 1) } else { b };
    let mut full = shape.clone();
    if row {
        let at = full.len() - usize::from(!column);
        full.insert(at, 1);
    }
    if column {
        full.push(1);
    }
    let y = product(op, &a, &b, None, full)?;
    if row || column {
        ops::reshape(&y, &shape)
    } else {
        Ok(y)
    }
}

/// `Σ aᵀ·b` over the leading axes of both, which are the same: one product of tall matrices where
/// the strides allow.
fn summed_product(op: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let shape = Shape::from([a.shape()[a.ndim() - 1], b.shape()[b.ndim() - 1]]);
    let rows = |x: &Tensor| tall(x).map_or_else(|| tall_copy(x), Ok);
    let (a, b) = (rows(a)?, rows(b)?);
    product(op, &transposed(&a), &b, None, shape)
}

/// [`tall`] for strides that do not allow it.
fn tall_copy(x: &Tensor) -> Result<Tensor> {
    let columns = x.shape().last().copied().unwrap_or(1);
    let rows: usize = x.shape()[..x.ndim().saturating_sub(1)].iter().product();
    ops::reshape(x, [rows, columns])
}

/// A vector as a matrix: `[k]` as `[1, k]`.
fn at_least_matrix(x: &Tensor) -> Tensor {
    if x.ndim() < 2 {
        with_axis(x, 0)
    } else {
        x.clone()
    }
}

fn expect_floats(op: &'static str, inputs: &[(&'static str, &Tensor)]) -> Result<()> {
    inputs
        .iter()
        .try_for_each(|(name, x)| x.dtype().expect_float(op, name))
}

fn shape_error<T>(
    op: &'static str,
    argument: &'static str,
    x: &Tensor,
    expected: String,
) -> Result<T> {
    Err(Error::Shape {
        op,
        argument,
        expected,
        got: x.shape().clone(),
    })
}

// ---- matmul -------------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
pub(crate) struct MatMul;

impl MatMul {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "matmul",
        family: Family::Matrix,
        formula: "yᵢⱼ = Σₖ aᵢₖ·bₖⱼ",
        derivative: "(g·bᵀ, aᵀ·g)",
        conventions: "a vector is a row on the left and a column on the right, and its axis is dropped; leading axes broadcast",
        inputs: &[Input::new("a"), Input::new("b")],
        backward: "matmul_backward(grad_output, a, b)",
        class: Class::Affine,
        build: |_| Ok(Box::new(MatMul)),
        samples: |s| {
            let shapes: [(&[usize], &[usize]); 15] = [
                (&[3, 4], &[4, 5]),
                (&[3, 4], &[4]),
                (&[4], &[4, 5]),
                (&[4], &[4]),
                (&[2, 3, 4], &[2, 4, 5]),
                (&[2, 3, 4], &[4, 5]),
                (&[3, 4], &[2, 4, 5]),
                (&[2, 1, 3, 4], &[5, 4, 2]),
                (&[2, 3, 4], &[4]),
                (&[4], &[2, 4, 3]),
                (&[0, 4], &[4, 3]),
                (&[3, 0], &[0, 4]),
                (&[2, 0, 4], &[4, 3]),
                (&[1, 1], &[1, 1]),
                (&[17, 33], &[33, 19]),
            ];
            for (a, b) in shapes {
                let inputs = [s.normal(a), s.normal(b)];
                s.add(inputs, Params::new());
            }
        },
        errors: |bad| {
            let ones = |bad: &super::samples::Bad, shape: &[usize]| bad.ones(shape, DType::F64);
            let (a, scalar) = (ones(bad, &[3, 4]), ones(bad, &[]));
            bad.add(
                [a.clone(), a.clone()],
                Params::new(),
                "b has shape [3, 4], expected 4 rows",
            );
            bad.add(
                [a.clone(), scalar],
                Params::new(),
                "b has shape [], expected at least one dimension",
            );
            let (x, y) = (ones(bad, &[2, 3, 4]), ones(bad, &[3, 4, 5]));
            bad.add([x, y], Params::new(), "shapes [2] and [3] do not broadcast");
            let ints = bad.ones(&[4, 2], DType::I32);
            bad.add(
                [a, ints],
                Params::new(),
                "b has dtype i32, expected a float type",
            );
        },
        ..Record::BLANK
    };
}

impl Operation for MatMul {
    fn record(&self) -> &'static Record {
        MatMul::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let op = "matmul";
        let [a, b] = [inputs[0], inputs[1]];
        expect_floats(op, &[("a", a), ("b", b)])?;
        let dtype = promote(op, a, b)?;
        for (name, x) in [("a", a), ("b", b)] {
            if x.ndim() == 0 {
                return shape_error(op, name, x, "at least one dimension".into());
            }
        }
        let inner = a.shape()[a.ndim() - 1];
        let rows = b.shape()[b.ndim().saturating_sub(2)];
        if rows != inner {
            let expected = format!(
                "{inner} rows, as many as a of shape {} has columns",
                a.shape()
            );
            return shape_error(op, "b", b, expected);
        }
        let leading = |x: &Tensor| Shape::from(&x.shape()[..x.ndim().saturating_sub(2)]);
        let mut shape = broadcast(op, &leading(a), &leading(b))?;
        if a.ndim() > 1 {
            shape.push(a.shape()[a.ndim() - 2]);
        }
        if b.ndim() > 1 {
            shape.push(b.shape()[b.ndim() - 1]);
        }
        Ok(spec(shape, dtype))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        Ok(smallvec![multiply_matrices(
            "matmul",
            inputs[0],
            inputs[1],
            specs.swap_remove(0)
        )?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = "matmul_backward";
        let (g, a, b) = (call.grad(), call.inputs[0], call.inputs[1]);
        // With its dropped axes put back, every product is one of matrices.
        let mut full = g.clone();
        if b.ndim() == 1 {
            full = with_axis(&full, full.ndim());
        }
        if a.ndim() == 1 {
            full = with_axis(&full, full.ndim() - 1);
        }
        let dtype = g.dtype();
        let a_matrix = ops::cast(&at_least_matrix(a), dtype)?;
        let b_matrix = ops::cast(
            &if b.ndim() == 1 {
                with_axis(b, 1)
            } else {
                b.clone()
            },
            dtype,
        )?;
        let leading = &full.shape()[..full.ndim() - 2];
        let product_shape = |rows: usize, columns: usize| {
            let mut shape = Shape::from(leading);
            shape.push(rows);
            shape.push(columns);
            shape
        };
        let (m, k) = (
            a_matrix.shape()[a_matrix.ndim() - 2],
            a_matrix.shape()[a_matrix.ndim() - 1],
        );
        let n = b_matrix.shape()[b_matrix.ndim() - 1];
        call.two(
            || {
                let shape = product_shape(m, k);
                let dtype = sum_dtype(dtype, &shape, a_matrix.shape());
                let spec = Spec { shape, dtype };
                let grad = multiply_matrices(op, &full, &transposed(&b_matrix), spec)?;
                ops::reshape(&reduce_to_shape(op, &grad, a_matrix.shape())?, a.shape())
            },
            || {
                let grad = if b_matrix.ndim() == 2
                    && a_matrix.shape()[..a_matrix.ndim() - 2] == *leading
                {
                    summed_product(op, &a_matrix, &full)?
                } else {
                    let shape = product_shape(k, n);
                    let dtype = sum_dtype(dtype, &shape, b_matrix.shape());
                    let spec = Spec { shape, dtype };
                    let grad = multiply_matrices(op, &transposed(&a_matrix), &full, spec)?;
                    reduce_to_shape(op, &grad, b_matrix.shape())?
                };
                ops::reshape(&grad, b.shape())
            },
        )
    }
}

// ---- dot, outer ---------------------------------------------------------------------------------

/// Both must be vectors.
fn expect_vectors(op: &'static str, a: &Tensor, b: &Tensor) -> Result<DType> {
    expect_floats(op, &[("a", a), ("b", b)])?;
    for (name, x) in [("a", a), ("b", b)] {
        if x.ndim() != 1 {
            return shape_error(op, name, x, "one dimension".into());
        }
    }
    promote(op, a, b)
}

fn bad_vectors(bad: &mut super::samples::Bad) {
    let (matrix, vector) = (bad.ones(&[2, 2], DType::F64), bad.ones(&[2], DType::F64));
    bad.add(
        [matrix.clone(), vector.clone()],
        Params::new(),
        "a has shape [2, 2], expected one dimension",
    );
    bad.add(
        [vector.clone(), matrix],
        Params::new(),
        "b has shape [2, 2], expected one dimension",
    );
    let mask = bad.ones(&[2], DType::Bool);
    bad.add(
        [vector, mask],
        Params::new(),
        "b has dtype bool, expected a float type",
    );
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dot;

impl Dot {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "dot",
        family: Family::Matrix,
        formula: "y = Σᵢ aᵢ·bᵢ",
        derivative: "(g·b, g·a)",
        conventions: "of no elements: 0",
        inputs: &[Input::new("a"), Input::new("b")],
        backward: "dot_backward(grad_output, a, b)",
        class: Class::Affine,
        build: |_| Ok(Box::new(Dot)),
        samples: |s| {
            for n in [1, 5, 0, 37] {
                let inputs = [s.normal(&[n]), s.normal(&[n])];
                s.add(inputs, Params::new());
            }
        },
        errors: |bad| {
            bad_vectors(bad);
            let (a, b) = (bad.ones(&[2], DType::F64), bad.ones(&[3], DType::F64));
            bad.add(
                [a, b],
                Params::new(),
                "b has shape [3], expected [2], that of a",
            );
        },
        ..Record::BLANK
    };
}

impl Operation for Dot {
    fn record(&self) -> &'static Record {
        Dot::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let [a, b] = [inputs[0], inputs[1]];
        let dtype = expect_vectors("dot", a, b)?;
        if a.shape() != b.shape() {
            return shape_error("dot", "b", b, format!("{}, that of a", a.shape()));
        }
        Ok(spec(Shape::scalar(), dtype))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        Ok(smallvec![multiply_matrices(
            "dot",
            inputs[0],
            inputs[1],
            specs.swap_remove(0)
        )?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, a, b) = (call.grad(), call.inputs[0], call.inputs[1]);
        call.two(|| ops::multiply(g, b), || ops::multiply(g, a))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Outer;

impl Outer {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "outer",
        family: Family::Matrix,
        formula: "yᵢⱼ = aᵢ·bⱼ",
        derivative: "(g·b, gᵀ·a)",
        inputs: &[Input::new("a"), Input::new("b")],
        backward: "outer_backward(grad_output, a, b)",
        class: Class::Affine,
        build: |_| Ok(Box::new(Outer)),
        samples: |s| {
            for (m, n) in [(1, 3), (5, 3), (0, 3), (4, 0)] {
                let inputs = [s.normal(&[m]), s.normal(&[n])];
                s.add(inputs, Params::new());
            }
        },
        errors: bad_vectors,
        ..Record::BLANK
    };
}

impl Operation for Outer {
    fn record(&self) -> &'static Record {
        Outer::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let [a, b] = [inputs[0], inputs[1]];
        let dtype = expect_vectors("outer", a, b)?;
        Ok(spec(Shape::from([a.len(), b.len()]), dtype))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(smallvec![ops::multiply(
            &with_axis(inputs[0], 1),
            inputs[1]
        )?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, a, b) = (call.grad(), call.inputs[0], call.inputs[1]);
        call.two(|| matmul(g, b), || matmul(&transposed(g), a))
    }
}

// ---- linear -------------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear;

impl Linear {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "linear",
        family: Family::Matrix,
        formula: "y = x·weightᵀ + bias",
        derivative: "(g·weight, gᵀ·x, Σ g)",
        conventions: "weight is [out, in]; x may have any axes before the last",
        inputs: &[
            Input::new("x"),
            Input::new("weight"),
            Input::optional("bias"),
        ],
        backward: "linear_backward(grad_output, x, weight)",
        class: Class::Affine,
        needs: Needs::Inputs,
        build: |_| Ok(Box::new(Linear)),
        samples: |s| {
            for x in [&[6, 4][..], &[2, 3, 4], &[4], &[0, 4]] {
                let (x, weight, bias) = (s.normal(x), s.normal(&[5, 4]), s.normal(&[5]));
                s.add([x.clone(), weight.clone()], Params::new());
                s.add([x, weight, bias], Params::new());
            }
        },
        errors: |bad| {
            let ones = |bad: &super::samples::Bad, shape: &[usize]| bad.ones(shape, DType::F64);
            let (x, weight) = (ones(bad, &[2, 4]), ones(bad, &[5, 4]));
            let wrong = ones(bad, &[4, 5]);
            bad.add(
                [x.clone(), wrong],
                Params::new(),
                "weight has shape [4, 5], expected [out, 4]",
            );
            let bias = ones(bad, &[4]);
            let inputs = [x.clone(), weight.clone(), bias];
            bad.add(inputs, Params::new(), "bias has shape [4], expected [5]");
            let scalar = ones(bad, &[]);
            bad.add(
                [scalar, weight],
                Params::new(),
                "x has shape [], expected at least one dimension",
            );
            let ints = bad.ones(&[5, 4], DType::I64);
            bad.add(
                [x, ints],
                Params::new(),
                "weight has dtype i64, expected a float type",
            );
        },
        ..Record::BLANK
    };
}

impl Operation for Linear {
    fn record(&self) -> &'static Record {
        Linear::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let op = "linear";
        let [x, weight] = [inputs[0], inputs[1]];
        expect_floats(op, &[("x", x), ("weight", weight)])?;
        let mut dtype = promote(op, x, weight)?;
        let Some(&columns) = x.shape().last() else {
            return shape_error(op, "x", x, "at least one dimension".into());
        };
        if weight.ndim() != 2 || weight.shape()[1] != columns {
            return shape_error(op, "weight", weight, format!("[out, {columns}]"));
        }
        let out = weight.shape()[0];
        if let Some(bias) = inputs.get(2) {
            expect_floats(op, &[("bias", bias)])?;
            dtype = dtype.promote(bias.dtype()).ok_or(Error::MixedDTypes {
                op,
                a: dtype,
                b: bias.dtype(),
            })?;
            if *bias.shape() != [out] {
                return shape_error(op, "bias", bias, format!("[{out}]"));
            }
        }
        let mut shape = x.shape().clone();
        shape.set(x.ndim() - 1, out);
        Ok(spec(shape, dtype))
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        let Spec { shape, dtype } = specs.swap_remove(0);
        let x = ops::cast(inputs[0], dtype)?;
        let weight = transposed(&ops::cast(inputs[1], dtype)?);
        let bias = inputs
            .get(2)
            .map(|bias| ops::cast(bias, dtype))
            .transpose()?;
        let rows = tall(&at_least_matrix(&x)).map_or_else(|| tall_copy(&x), Ok)?;
        let flat = Shape::from([rows.shape()[0], weight.shape()[1]]);
        let y = product("linear", &rows, &weight, bias.as_ref(), flat)?;
        Ok(smallvec![ops::reshape(&y, &shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let op = "linear_backward";
        let (g, x, weight) = (call.grad(), call.inputs[0], call.inputs[1]);
        let dtype = g.dtype();
        let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
        if call.wanted[0] {
            let spec = Spec {
                shape: x.shape().clone(),
                dtype,
            };
            grads[0] = Some(multiply_matrices(op, g, weight, spec)?);
        }
        if call.wanted[1] {
            let x = ops::cast(&at_least_matrix(x), dtype)?;
            grads[1] = Some(summed_product(op, &at_least_matrix(g), &x)?);
        }
        if call.wanted.get(2) == Some(&true) {
            let axes: Vec<i64> = (0..g.ndim() as i64 - 1).collect();
            grads[2] = Some(ops::sum(g, &axes[..], false)?);
        }
        Ok(grads)
    }
}
