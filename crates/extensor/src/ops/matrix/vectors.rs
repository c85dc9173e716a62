//! The two products of vectors.

use super::matmul::matmul;
use super::product::*;
use crate::ops::arithmetic::products::Multiply;
use crate::ops::batching::{Batch, Batched, Together, View};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs, apply_one, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::promote;
use crate::ops::record::{Class, Family, Input, Record, signature};
use crate::{DType, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// The inner product of two vectors, `y = Σ aᵢbᵢ`.
///
/// Conventions: of no elements: 0.
///
/// ```
/// use extensor::ops::dot;
/// use extensor::tensor;
/// assert_eq!(dot(&tensor([1.0, 2.0]), &tensor([3.0, 4.0]))?.item::<f64>()?, 11.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn dot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    apply_one(&Dot, &[a, b])
}

/// The gradients of [`dot`]: `(g·b, g·a)`.
#[track_caller]
#[extensor_derive::noted]
pub fn dot_backward(grad_output: &Tensor, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    pair(&Dot, grad_output, a, b)
}

/// The outer product of two vectors, `yᵢⱼ = aᵢbⱼ`.
///
/// ```
/// use extensor::ops::outer;
/// use extensor::tensor;
/// let y = outer(&tensor([1.0, 2.0]), &tensor([3.0, 4.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 4.0, 6.0, 8.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn outer(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    apply_one(&Outer, &[a, b])
}

/// The gradients of [`outer`]: `(g·b, gᵀ·a)`.
#[track_caller]
#[extensor_derive::noted]
pub fn outer_backward(grad_output: &Tensor, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    pair(&Outer, grad_output, a, b)
}

/// Both must be vectors.
fn expect_vectors(op: &'static str, a: &Tensor, b: &Tensor) -> Result<DType> {
    expect_numbers(op, &[("a", a), ("b", b)])?;
    for (name, x) in [("a", a), ("b", b)] {
        if x.ndim() != 1 {
            return shape_error(op, name, x, "one dimension".into());
        }
    }
    promote(op, a, b)
}

fn bad_vectors(bad: &mut crate::ops::samples::Bad) {
    let (matrix, vector) = (bad.ones(&[2, 2], DType::F64), bad.ones(&[2], DType::F64));
    bad.add(
        [matrix.clone(), vector.clone()],
        Params::new(),
        "a has shape [2, 2], expected one dimension",
    );
    bad.add([vector.clone(), matrix], Params::new(), "b has shape [2, 2], expected one dimension");
    let mask = bad.ones(&[2], DType::Bool);
    bad.add([vector, mask], Params::new(), "b has dtype bool, expected a number type");
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
        backward: signature!(dot_backward(grad_output, a, b)),
        class: Class::Affine,
        build: |_| Ok(Box::new(Dot)),
        samples: |s| {
            for n in [1, 5, 0, 37] {
                let inputs = [s.normal(&[n]), s.normal(&[n])];
                s.add(inputs, Params::new());
            }
            let inputs = [s.normal(&[70_000]), s.normal(&[70_000])];
            s.add_large(inputs, Params::new(), "many numbers");
        },
        errors: |bad| {
            bad_vectors(bad);
            let (a, b) = (bad.ones(&[2], DType::F64), bad.ones(&[3], DType::F64));
            bad.add([a, b], Params::new(), "b has shape [3], expected [2], that of a");
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
        Ok(smallvec![multiply_matrices("dot", inputs[0], inputs[1], specs.swap_remove(0))?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, a, b) = (call.grad(), call.inputs[0], call.inputs[1]);
        call.two(|| ops::multiply(g, b), || ops::multiply(g, a))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        super::matmul::batched(call)
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
        backward: signature!(outer_backward(grad_output, a, b)),
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
        Ok(smallvec![ops::multiply(&with_axis(inputs[0], 1), inputs[1])?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, a, b) = (call.grad(), call.inputs[0], call.inputs[1]);
        call.two(|| matmul(g, b), || matmul(&transposed(g), a))
    }
    fn batch(&self, _: &Batch<'_>) -> Batched {
        let column = View { column: true, ..View::WHOLE };
        let row = View { row: true, ..View::WHOLE };
        let (inputs, outputs) = (smallvec![column, row], smallvec![View::WHOLE]);
        Batched::Call(Together { op: Box::new(Multiply), inputs, outputs })
    }
}
