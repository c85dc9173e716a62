//! The product of matrices, in batches too.

use super::product::*;
use crate::ops::batching::{Batch, Batched, Together, View};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, reduce_to_shape, spec, sum_dtype};
use crate::ops::params::Params;
use crate::ops::pointwise::promote;
use crate::ops::record::{Class, Family, Input, Record, signature};
use crate::tensor::broadcast;
use crate::{DType, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// The product of matrices, `y = a·b`.
///
/// Two matrices give a matrix, a matrix and a vector a vector, two vectors a scalar. With more than
/// two dimensions the last two are the matrices' and those before broadcast. Whole numbers wrap
/// around.
///
/// Conventions: a vector is a row on the left and a column on the right, and its axis is dropped;
/// leading axes broadcast; whole numbers wrap around.
///
/// ```
/// use extensor::ops::matmul;
/// use extensor::tensor;
/// let a = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(matmul(&a, &a)?.to_vec::<f64>()?, [7.0, 10.0, 15.0, 22.0]);
/// assert_eq!(matmul(&a, &tensor([1.0, 1.0]))?.to_vec::<f64>()?, [3.0, 7.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    apply_one(&MatMul, &[a, b])
}

/// The gradients of [`matmul`]: `(g·bᵀ, aᵀ·g)`, each summed to its operand's shape.
#[track_caller]
#[extensor_derive::noted]
pub fn matmul_backward(grad_output: &Tensor, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    pair(&MatMul, grad_output, a, b)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MatMul;

impl MatMul {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "matmul",
        family: Family::Matrix,
        formula: "yᵢⱼ = Σₖ aᵢₖ·bₖⱼ",
        derivative: "(g·bᵀ, aᵀ·g)",
        conventions: "a vector is a row on the left and a column on the right, and its axis is dropped; leading axes broadcast; whole numbers wrap around",
        inputs: &[Input::new("a"), Input::new("b")],
        backward: signature!(matmul_backward(grad_output, a, b)),
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
            // Deeper than what is added up in registers: the parts must be added, too.
            let deep: [(&[usize], &[usize]); 5] = [
                (&[1, 1100], &[1100, 1]),
                (&[1100], &[1100]),
                (&[3, 1100], &[1100, 2]),
                (&[40, 1100], &[1100, 50]),
                (&[3, 5, 600], &[3, 600, 7]),
            ];
            for (a, b) in deep {
                let inputs = [s.normal(a), s.normal(b)];
                s.add_large(inputs, Params::new(), "deep");
            }
        },
        errors: |bad| {
            let ones =
                |bad: &crate::ops::samples::Bad, shape: &[usize]| bad.ones(shape, DType::F64);
            let (a, scalar) = (ones(bad, &[3, 4]), ones(bad, &[]));
            bad.add([a.clone(), a.clone()], Params::new(), "b has shape [3, 4], expected 4 rows");
            bad.add(
                [a.clone(), scalar],
                Params::new(),
                "b has shape [], expected at least one dimension",
            );
            let (x, y) = (ones(bad, &[2, 3, 4]), ones(bad, &[3, 4, 5]));
            bad.add([x, y], Params::new(), "shapes [2] and [3] do not broadcast");
            let ints = bad.ones(&[4, 2], DType::I32);
            bad.add([a.clone(), ints], Params::new(), "dtypes f64 and i32 do not mix");
            let mask = bad.ones(&[4, 2], DType::Bool);
            bad.add([a, mask], Params::new(), "b has dtype bool, expected a number type");
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
        expect_numbers(op, &[("a", a), ("b", b)])?;
        let dtype = promote(op, a, b)?;
        for (name, x) in [("a", a), ("b", b)] {
            if x.ndim() == 0 {
                return shape_error(op, name, x, "at least one dimension".into());
            }
        }
        let inner = a.shape()[a.ndim() - 1];
        let rows = b.shape()[b.ndim().saturating_sub(2)];
        if rows != inner {
            let expected = format!("{inner} rows, as many as a of shape {} has columns", a.shape());
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
        Ok(smallvec![multiply_matrices("matmul", inputs[0], inputs[1], specs.swap_remove(0))?])
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
        let b_matrix = ops::cast(&if b.ndim() == 1 { with_axis(b, 1) } else { b.clone() }, dtype)?;
        let leading = &full.shape()[..full.ndim() - 2];
        let product_shape = |rows: usize, columns: usize| {
            let mut shape = Shape::from(leading);
            shape.push(rows);
            shape.push(columns);
            shape
        };
        let (m, k) = (a_matrix.shape()[a_matrix.ndim() - 2], a_matrix.shape()[a_matrix.ndim() - 1]);
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
    fn batch(&self, call: &Batch<'_>) -> Batched {
        batched(call)
    }
}

/// The product of each example's operands, with vectors as the rows and columns that they stand for.
pub(super) fn batched(call: &Batch<'_>) -> Batched {
    let ([a, b], &[a_mapped, b_mapped]) = (call.inputs, call.mapped) else { return Batched::Loop };
    // A batch of rows times one matrix is one product.
    let matrix = a.ndim() == 1 && !b_mapped && b.ndim() <= 2;
    let (row, column) = (a.ndim() == 1 && a_mapped && !matrix, b.ndim() == 1 && b_mapped);
    let ndim = (a.ndim() + usize::from(row)).max(b.ndim() + usize::from(column));
    let ndim = if matrix { 0 } else { ndim };
    let of = |row, column| View { ndim, row, column, ..View::default() };
    let inputs = smallvec![of(row, false), of(false, column)];
    let outputs = smallvec![View { row, column, ..View::default() }];
    Batched::Call(Together { op: Box::new(MatMul), inputs, outputs })
}
