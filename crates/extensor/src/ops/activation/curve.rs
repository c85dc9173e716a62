//! Functions of one number that take parameters.

use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, husk};
use crate::ops::pointwise::{Takes, infer_unary};
use crate::ops::record::Record;
use crate::{DType, Error, Result, Tensor};
use smallvec::smallvec;
use std::fmt::Debug;

/// What is particular to one such function.
pub(crate) trait Curve: Copy + Debug + Send + Sync + 'static {
    /// Its record.
    const RECORD: &'static Record;
    /// An error if a parameter is not one that it can have for numbers of this dtype.
    fn check(&self, dtype: DType) -> Result<()>;
    /// The function.
    fn forward(&self, x: &Tensor, spec: Spec) -> Result<Tensor>;
    /// Its derivative at `x`, times `g`.
    fn backward(&self, g: &Tensor, x: &Tensor, spec: Spec) -> Result<Tensor>;
}

/// A [`Curve`] as an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Along<C>(pub C);

impl<C: Curve> Along<C> {
    /// The operation for the catalogue.
    pub fn build(curve: C) -> Result<Box<dyn Operation>> {
        Ok(Box::new(Along(curve)))
    }

    /// Calls the operation.
    #[track_caller]
    pub fn of(&self, x: &Tensor) -> Result<Tensor> {
        apply_one(self, &[x])
    }

    /// Calls the backward rule.
    #[track_caller]
    pub fn backward_at(&self, grad_output: &Tensor, x: &Tensor) -> Result<Tensor> {
        let output = husk(x.shape(), x.dtype())?;
        let [grad] = backward_of(self, grad_output, &[x], &output)?;
        Ok(grad)
    }
}

impl<C: Curve> Operation for Along<C> {
    fn record(&self) -> &'static Record {
        C::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let specs = infer_unary(C::RECORD.name, inputs[0], Takes::Floats)?;
        self.0.check(inputs[0].dtype())?;
        Ok(specs)
    }
    fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
        Ok(smallvec![self.0.forward(inputs[0], specs.swap_remove(0))?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, x) = (call.grad(), call.inputs[0]);
        let spec = Spec { shape: g.shape().clone(), dtype: g.dtype() };
        call.one(|| self.0.backward(g, x, spec))
    }
}

/// An error unless `value` is finite, in the precision that the dtype is computed in too.
pub(super) fn expect_finite(
    op: &'static str,
    parameter: &'static str,
    value: f64,
    dtype: DType,
) -> Result<()> {
    let wide = dtype == DType::F64;
    if value.abs() <= if wide { f64::MAX } else { f64::from(f32::MAX) } {
        return Ok(());
    }
    let within = if wide { DType::F64 } else { DType::F32 };
    let expected = format!("a finite number that {within} can hold");
    Err(Error::Parameter { op, parameter, expected, got: format!("{value:?}") })
}
