//! The exponential of matrices.

use super::cholesky::bad_squares;
use super::*;
use crate::ops::operation::{Backward, Forward, Grads, Operation};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Input, Record, signature};
use extensor_derive::method;
use smallvec::smallvec;

/// The exponential of each matrix, `1 + a + a²/2 + a³/6 + …`: not that of its numbers, which is
/// [`exp`](crate::ops::exp).
///
/// By scaling and squaring. Where it is too large for the dtype, infinity and NaN are among its numbers.
///
/// Conventions: where the result is too large for the dtype, infinity and NaN are among its numbers.
///
/// ```
/// use extensor::ops::expm;
/// use extensor::tensor;
/// let y = expm(&tensor([[0.0, 3.0], [0.0, 0.0]]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 0.0, 1.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn expm(a: &Tensor) -> Result<Tensor> {
    apply_one(&Expm, &[a])
}

/// The gradient of [`expm`]: a block of the exponential of the blocks `[[aᵀ, g], [0, aᵀ]]`.
#[track_caller]
#[extensor_derive::noted]
pub fn expm_backward(grad_output: &Tensor, a: &Tensor) -> Result<Tensor> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Expm, grad_output, &[a], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Expm;

impl Expm {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "expm",
        family: Family::Linalg,
        formula: "y = 1 + a + a²/2 + a³/6 + a⁴/24 + …",
        derivative: "y′ is a block of exp([[a, a′], [0, a]])",
        conventions: "where the result is too large for the dtype, infinity and NaN are among its numbers",
        inputs: &[Input::new("a")],
        backward: signature!(expm_backward(grad_output, a)),
        class: Class::Composite,
        build: |_| Ok(Box::new(Expm)),
        dtypes: DTYPES,
        takes: |sample| sample.inputs[0].to_f64_vec().iter().all(|v| v.abs() < 4.0),
        samples: |s| {
            let shapes: [&[usize]; 6] =
                [&[3, 3], &[1, 1], &[4, 4], &[2, 2, 2], &[0, 3, 3], &[0, 0]];
            for shape in shapes {
                let a = s.uniform(-1.0, 1.0, shape);
                s.add([a], Params::new());
            }
            s.add_noted([crate::tensor([[0.0, 2.0], [-2.0, 0.0]])], Params::new(), "a rotation");
            let zeros = made(Tensor::zeros([2, 2], DType::F64));
            s.add_noted([zeros], Params::new(), "zeros");
            let a = s.uniform(-3.0, 3.0, &[3, 3]);
            s.add_noted([a], Params::new(), "squared");
            let a = s.uniform(-0.2, 0.2, &[12, 12]);
            s.add_large([a], Params::new(), "large");
        },
        errors: |bad| bad_squares(bad, Params::new()),
        ..Record::BLANK
    };
}

/// The derivative of the exponential at `a` along `e`, of any order: a block of the exponential of
/// `[[a, e], [0, a]]`.
fn along(a: &Tensor, e: &Tensor) -> Result<Tensor> {
    let n = a.shape()[a.ndim() - 1] as i64;
    let above = ops::concatenate(&[a.clone(), e.clone()], -1)?;
    let below = ops::concatenate(&[a.zeros_like()?, a.clone()], -1)?;
    let y = expm(&ops::concatenate(&[above, below], -2)?)?;
    ops::slice(&ops::slice(&y, -2, 0, n, 1)?, -1, n, None, 1)
}

impl Operation for Expm {
    fn record(&self) -> &'static Record {
        Expm::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        expect_square("expm", "a", inputs[0])?;
        Ok(spec(inputs[0].shape().clone(), inputs[0].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        run("expm", Linalg::Expm, inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        call.one(|| along(&matrix_transpose(call.inputs[0])?, call.grad()))
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (a, y) = (call.inputs[0], call.outputs[0]);
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        Ok(smallvec![along(a, tangent)?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        inputs[0].shape()[inputs[0].ndim() - 1]
    }
}
