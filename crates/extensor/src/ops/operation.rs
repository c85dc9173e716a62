//! What an operation is, and the engine that owns what all of them share.
//!
//! A rule returns gradients. Checking the output's gradient, reducing to a broadcast operand's shape,
//! rounding to an operand's dtype, refusing what has no derivative: here, once. This module must not
//! know any particular operation.

use super::batching::{Batch, Batched};
use super::pointwise::{Times, map_real};
use super::record::{Class, Record};
use super::reduction::wide;
use crate::interrupt::stoppable;
use crate::{Axes, DType, Error, Result, Shape, Tensor, autodiff, debug, ops, over};
use extensor_kernels::map::Formulas;
use smallvec::{SmallVec, smallvec};
use std::fmt::Debug;
use std::panic::Location;

/// Shape and dtype of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Its shape.
    pub shape: Shape,
    /// Its dtype.
    pub dtype: DType,
}

impl Spec {
    /// How much memory its elements take.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }
}

/// What an operation's outputs will be.
pub type Specs = SmallVec<[Spec; 1]>;
/// An operation's outputs.
pub type Outputs = SmallVec<[Tensor; 1]>;
/// The gradients for an operation's inputs; `None` for those not wanted.
pub type Grads = SmallVec<[Option<Tensor>; 3]>;

/// A copy of an operation whose type is not known.
pub trait Boxed {
    /// The copy.
    fn boxed(&self) -> Box<dyn Operation>;
}

impl<T: Operation + Clone> Boxed for T {
    fn boxed(&self) -> Box<dyn Operation> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Operation> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

/// An operation with its parameters: a pure function of tensors, and its derivative.
///
/// None of its methods is ever called with a tensor that is being differentiated, except
/// [`backward`](Operation::backward) of a [`Class::Elementwise`] or a [`Class::Reduction`] and
/// [`derivative`](Operation::derivative), which are made of operations and formulas.
pub trait Operation: Boxed + Debug + Send + Sync + 'static {
    /// Its record in the catalogue.
    fn record(&self) -> &'static Record;

    /// What the outputs will be, or what is wrong with the inputs or parameters. Reads no elements.
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs>;

    /// The outputs, for inputs that [`infer`](Operation::infer) has accepted.
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs>;

    /// The gradients for the inputs wanted, for a call that the engine has checked.
    fn backward(&self, call: &Backward<'_>) -> Result<Grads>;

    /// For a [`Class::Reduction`]: the axes it reduces, and whether it keeps them with size 1.
    fn reduces(&self) -> Option<(&Axes, bool)> {
        None
    }

    /// For a [`Class::General`]: the derivatives of the results along `tangents`, made of operations;
    /// `None` stands for a tangent that is zero. At least one is given.
    fn derivative(&self, _: &Forward<'_>) -> Result<Outputs> {
        Err(no_derivative(self.record().name))
    }

    /// For a [`Class::General`]: how many numbers are summed on the way to one of an output, which
    /// is what rounding errors are measured by.
    fn terms(&self, _inputs: &[&Tensor]) -> usize {
        1
    }

    /// For a [`Class::Linear`] that has a constant part (padding by a value): itself without it.
    fn linear_part(&self) -> Option<Box<dyn Operation>> {
        None
    }

    /// How it is done to a batch of examples at once, for [`vmap`](crate::autodiff::vmap). What says
    /// nothing is done example by example, unless it is a [`Class::Elementwise`].
    fn batch(&self, call: &Batch<'_>) -> Batched {
        match self.record().class {
            Class::Elementwise => call.aligned(self.boxed()),
            _ => Batched::Loop,
        }
    }
}

#[cold]
fn no_derivative(op: &'static str) -> Error {
    let reason = "the operation has no derivative along a tangent";
    Error::NotDifferentiable { op, argument: "an input".into(), reason }
}

/// A call that is differentiated along tangents of its inputs.
pub struct Forward<'a> {
    /// The inputs.
    pub inputs: &'a [&'a Tensor],
    /// The outputs.
    pub outputs: &'a [&'a Tensor],
    /// The tangent of each input, of its shape and dtype; `None` for zero.
    pub tangents: &'a [Option<&'a Tensor>],
}

/// What a backward rule is given.
pub struct Backward<'a> {
    /// The gradient for each result (auxiliary outputs have none).
    pub grads: &'a [&'a Tensor],
    /// The inputs; their values only if the record's `needs` says so.
    pub inputs: &'a [&'a Tensor],
    /// The outputs; likewise.
    pub outputs: &'a [&'a Tensor],
    /// Whether a gradient is wanted, for each input.
    pub wanted: &'a [bool],
}

impl<'a> Backward<'a> {
    /// The gradient for the only output.
    #[inline]
    pub fn grad(&self) -> &'a Tensor {
        self.grads[0]
    }

    /// The only output.
    #[inline]
    pub fn output(&self) -> &'a Tensor {
        self.outputs[0]
    }

    /// The gradient for the only input.
    #[inline]
    pub fn one(&self, grad: impl FnOnce() -> Result<Tensor>) -> Result<Grads> {
        Ok(single(if self.wanted[0] { Some(grad()?) } else { None }))
    }

    /// The gradients for two inputs, each computed if wanted.
    #[inline]
    pub fn two(
        &self,
        first: impl FnOnce() -> Result<Tensor>,
        second: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Grads> {
        Ok(pair(
            if self.wanted[0] { Some(first()?) } else { None },
            if self.wanted[1] { Some(second()?) } else { None },
        ))
    }
}

// Not for each rule again.
#[inline(never)]
fn single(grad: Option<Tensor>) -> Grads {
    smallvec![grad]
}

#[inline(never)]
fn pair(first: Option<Tensor>, second: Option<Tensor>) -> Grads {
    smallvec![first, second]
}

/// The specification of a single output.
#[inline]
pub(crate) fn spec(shape: Shape, dtype: DType) -> Specs {
    smallvec![Spec { shape, dtype }]
}

/// Calls an operation: the one door through which every call goes.
#[inline]
#[track_caller]
pub fn apply(op: &dyn Operation, inputs: &[&Tensor]) -> Result<Outputs> {
    if inputs.iter().any(|x| x.is_traced()) {
        return autodiff::apply(op, inputs);
    }
    let specs = op.infer(inputs)?;
    forward(op, inputs, specs, Location::caller())
}

// Not inlined at every call.
#[inline(never)]
fn forward(
    op: &dyn Operation,
    inputs: &[&Tensor],
    specs: Specs,
    at: &'static Location<'static>,
) -> Result<Outputs> {
    stoppable(op.record().name, || {
        let outputs = op.forward(inputs, specs)?;
        if debug::watched() {
            debug::outputs(op, inputs, &outputs, at)?;
        }
        Ok(outputs)
    })
}

/// Calls an operation that has one output.
#[inline]
#[track_caller]
pub(crate) fn apply_one(op: &dyn Operation, inputs: &[&Tensor]) -> Result<Tensor> {
    let mut outputs = apply(op, inputs)?;
    Ok(outputs.swap_remove(0))
}

/// Calls an operation's backward rule, having checked the gradient; brings every gradient to its
/// input's shape and dtype.
#[track_caller]
pub fn backward(
    op: &dyn Operation,
    grads: &[&Tensor],
    inputs: &[&Tensor],
    outputs: &[&Tensor],
    wanted: &[bool],
) -> Result<Grads> {
    let record = op.record();
    let name = record.backward_name();
    for (i, input) in inputs.iter().enumerate() {
        if wanted[i] && !(record.differentiable_input(i) && input.dtype().is_float()) {
            let argument = input_name(record, i);
            let reason = if !record.is_differentiable() {
                "the operation has no derivative"
            } else if record.differentiable_input(i) {
                "it is not of a float dtype"
            } else {
                "it is an index, a mask or a constant"
            };
            return Err(Error::NotDifferentiable { op: record.name, argument, reason });
        }
    }
    let specs = op.infer(inputs)?;
    let results = record.results(specs.len());
    if grads.len() != results {
        let (expected, got) = (results.to_string(), grads.len().to_string());
        return Err(Error::Parameter { op: name, parameter: "number of gradients", expected, got });
    }
    for (grad, spec) in grads.iter().zip(&specs) {
        if *grad.shape() != spec.shape {
            let (expected, got) = (spec.shape.to_string(), grad.shape().clone());
            return Err(Error::Shape { op: name, argument: "grad_output", expected, got });
        }
        if grad.dtype() != spec.dtype {
            let (expected, got) = (spec.dtype.name(), grad.dtype());
            return Err(Error::DType { op: name, argument: "grad_output", expected, got });
        }
    }
    backward_of_call(op, grads, inputs, outputs, wanted, Location::caller())
}

/// [`backward`] for a call that was made, at this line, and gradients that fit it.
pub(crate) fn backward_of_call(
    op: &dyn Operation,
    grads: &[&Tensor],
    inputs: &[&Tensor],
    outputs: &[&Tensor],
    wanted: &[bool],
    at: &'static Location<'static>,
) -> Result<Grads> {
    let record = op.record();
    let call = Backward { grads, inputs, outputs, wanted };
    let traced = |list: &[&Tensor]| list.iter().any(|x| x.is_traced());
    let mut result = if traced(grads) || traced(inputs) || traced(outputs) {
        autodiff::backward(op, &call)?
    } else {
        stoppable(record.backward_name(), || op.backward(&call))?
    };
    debug_assert_eq!(result.len(), inputs.len(), "{}: a gradient for each input", record.name);
    for (grad, input) in result.iter_mut().zip(inputs) {
        let Some(value) = grad else { continue };
        if value.shape() != input.shape() {
            let class = Class::Elementwise;
            debug_assert_eq!(record.class, class, "{}: a gradient's shape", record.name);
            *value = reduce_to_shape(record.backward_name(), value, input.shape())?;
        }
        if value.dtype() != input.dtype() {
            *value = ops::cast(value, input.dtype())?;
        }
    }
    if debug::watched() {
        let needed: SmallVec<[&Tensor; 4]> =
            if record.needs.inputs() { SmallVec::from_slice(inputs) } else { SmallVec::new() };
        let count = record.results(outputs.len());
        let read = outputs.iter().enumerate().filter(|(k, _)| record.needs.output(*k, count));
        let read: SmallVec<[&Tensor; 2]> = read.map(|(_, y)| *y).collect();
        debug::gradients(op, [grads, &needed, &read], &result, at)?;
    }
    Ok(result)
}

/// The gradients for all differentiable inputs of a one-output operation: what an explicit backward
/// function returns.
#[track_caller]
pub(crate) fn backward_of<const N: usize>(
    op: &dyn Operation,
    grad_output: &Tensor,
    inputs: &[&Tensor],
    output: &Tensor,
) -> Result<[Tensor; N]> {
    let record = op.record();
    let wanted: SmallVec<[bool; 4]> =
        (0..inputs.len()).map(|i| record.differentiable_input(i)).collect();
    let grads = backward(op, &[grad_output], inputs, &[output], &wanted)?;
    let found: Vec<Tensor> = grads.into_iter().flatten().collect();
    found.try_into().map_err(|_| Error::NotDifferentiable {
        op: record.name,
        argument: "an input".into(),
        reason: "its rule returned no gradient",
    })
}

/// Stands in for a tensor whose values are not needed: its shape and dtype, without its memory. The
/// values are NaN, so that a rule that reads them after all gives itself away.
pub fn placeholder(shape: &Shape, dtype: DType) -> Result<Tensor> {
    Tensor::constant(if dtype.is_float() { f64::NAN } else { 0.0 }, shape, dtype)
}

/// The dtype in which to compute a gradient of shape `from` that will be summed to shape `to`: `f32`
/// for the 16-bit types, so that it is rounded once, after the sum. The engine rounds it.
pub(crate) fn sum_dtype(dtype: DType, from: &Shape, to: &Shape) -> DType {
    match dtype {
        DType::F16 | DType::BF16 if from != to => DType::F32,
        dtype => dtype,
    }
}

/// Sums a gradient over the axes along which its operand of `shape` was broadcast.
pub(crate) fn reduce_to_shape(op: &'static str, grad: &Tensor, shape: &Shape) -> Result<Tensor> {
    if grad.shape() == shape {
        return Ok(grad.clone());
    }
    let mismatch = || Error::Shape {
        op,
        argument: "grad_output",
        expected: format!("one that {shape} broadcasts to"),
        got: grad.shape().clone(),
    };
    let added = grad.ndim().checked_sub(shape.len()).ok_or_else(mismatch)?;
    let mut axes: SmallVec<[i64; 4]> = (0..added as i64).collect();
    for (i, &size) in shape.iter().enumerate() {
        match (size, grad.shape()[added + i]) {
            (a, b) if a == b => {}
            (1, _) => axes.push((added + i) as i64),
            _ => return Err(mismatch()),
        }
    }
    let summed = ops::sum(grad, &axes[..])?;
    ops::reshape(&summed, shape)
}

/// The derivatives of an operation's results along `tangents`, from its class and its backward
/// rule: only the rules of [`Class::General`] have a second formula for forward mode. `None` stands
/// for a tangent that is zero.
pub fn forward_derivative(
    op: &dyn Operation,
    inputs: &[&Tensor],
    outputs: &[&Tensor],
    tangents: &[Option<&Tensor>],
) -> Result<Outputs> {
    let record = op.record();
    if record.class == Class::Linear {
        return linear_derivative(op, inputs, outputs, tangents);
    }
    let results = &outputs[..record.results(outputs.len())];
    if matches!(record.class, Class::General | Class::Composite)
        && tangents.iter().any(Option::is_some)
    {
        return op.derivative(&Forward { inputs, outputs, tangents });
    }
    let mut total: Vec<Option<Tensor>> = vec![None; results.len()];
    let mut accumulate = |k: usize, term: Tensor| -> Result<()> {
        total[k] = Some(match total[k].take() {
            Some(sum) => ops::add(&sum, &term)?,
            None => term,
        });
        Ok(())
    };
    for (i, tangent) in tangents.iter().enumerate() {
        let Some(tangent) = tangent else { continue };
        match record.class {
            Class::Affine if record.added.is_some_and(|added| added < inputs.len()) => {
                // Without the term that is added, or for it without the product.
                let other = record.added.filter(|&added| added != i).unwrap_or(0);
                let zero = Tensor::constant(0.0, inputs[other].shape(), inputs[other].dtype())?;
                let mut at: SmallVec<[&Tensor; 4]> = SmallVec::from_slice(inputs);
                (at[i], at[other]) = (tangent, &zero);
                for (k, along) in apply(op, &at)?.into_iter().enumerate().take(results.len()) {
                    accumulate(k, along)?;
                }
            }
            Class::Linear | Class::Affine => {
                let zero = Tensor::constant(0.0, inputs[i].shape(), inputs[i].dtype())?;
                let mut at: SmallVec<[&Tensor; 4]> = SmallVec::from_slice(inputs);
                at[i] = tangent;
                let along = apply(op, &at)?;
                at[i] = &zero;
                let origin = apply(op, &at)?;
                for (k, (a, b)) in along.iter().zip(&origin).enumerate().take(results.len()) {
                    accumulate(k, ops::subtract(a, b)?)?;
                }
            }
            Class::Elementwise => {
                // On inputs broadcast beforehand nothing is reduced, and the gradient for a
                // cotangent equal to the tangent is the derivative along it.
                let shape = outputs[0].shape();
                let wide: Vec<Tensor> =
                    inputs.iter().map(|x| ops::broadcast_to(x, shape)).collect::<Result<_>>()?;
                let wide: Vec<&Tensor> = wide.iter().collect();
                let cotangent = ops::cast(&ops::broadcast_to(tangent, shape)?, outputs[0].dtype())?;
                let wanted: Vec<bool> = (0..inputs.len()).map(|k| k == i).collect();
                let mut grads = backward(op, &[&cotangent], &wide, outputs, &wanted)?;
                if let Some(term) = grads[i].take() {
                    accumulate(0, ops::cast(&term, outputs[0].dtype())?)?;
                }
            }
            Class::Reduction => {
                let ones = outputs[0].ones_like()?;
                let wanted: Vec<bool> = (0..inputs.len()).map(|k| k == i).collect();
                let mut grads = backward(op, &[&ones], inputs, outputs, &wanted)?;
                if let Some(weights) = grads[i].take() {
                    // What is added up is not rounded before.
                    let spec =
                        Spec { shape: weights.shape().clone(), dtype: wide(weights.dtype()) };
                    let terms = map_real(record.name, &Formulas(Times), [&weights, tangent], spec)?;
                    let (axes, keepdims) = op.reduces().unwrap_or((&Axes::All, false));
                    let along = ops::sum(&terms, over(axes.clone()).keepdims(keepdims))?;
                    accumulate(0, ops::cast(&along, outputs[0].dtype())?)?;
                }
            }
            Class::General | Class::Composite | Class::Constant => {
                let argument = input_name(record, i);
                let reason = "the operation has no derivative";
                return Err(Error::NotDifferentiable { op: record.name, argument, reason });
            }
        }
    }
    results
        .iter()
        .zip(total)
        .map(|(output, sum)| sum.map_or_else(|| output.zeros_like(), Ok))
        .collect()
}

/// [`forward_derivative`] for a [`Class::Linear`]: one call at all tangents, which takes no
/// differences that could cancel (or be ∞ − ∞) and costs what the operation does.
fn linear_derivative(
    op: &dyn Operation,
    inputs: &[&Tensor],
    outputs: &[&Tensor],
    tangents: &[Option<&Tensor>],
) -> Result<Outputs> {
    let record = op.record();
    let results = &outputs[..record.results(outputs.len())];
    let moved = tangents.iter().position(Option::is_some);
    if let Some(i) = moved
        && results.iter().any(|output| !output.dtype().is_float())
    {
        let (argument, reason) = (input_name(record, i), "the result is not of a float dtype");
        return Err(Error::NotDifferentiable { op: record.name, argument, reason });
    }
    let mut at: SmallVec<[Tensor; 4]> = SmallVec::new();
    for (i, input) in inputs.iter().enumerate() {
        at.push(match tangents[i] {
            // What is drawn for each example of a batch is drawn so for the tangent too, though it be
            // the same for all.
            Some(tangent) if record.auxiliary > 0 && input.is_mapped() => {
                ops::where_(&ops::equal(input, input)?, tangent, tangent)?
            }
            Some(tangent) => tangent.clone(),
            None if record.differentiable_input(i) => {
                Tensor::constant(0.0, input.shape(), input.dtype())?
            }
            None => (*input).clone(),
        });
    }
    let at: SmallVec<[&Tensor; 4]> = at.iter().collect();
    let mut along = apply(op.linear_part().as_deref().unwrap_or(op), &at)?;
    along.truncate(results.len());
    Ok(along)
}

/// The name of input number `index`, as errors and reports use it.
pub fn input_name(record: &Record, index: usize) -> String {
    use super::record::Count;
    match record.inputs {
        [only] if only.count == Count::Many => format!("{}{index}", only.name),
        inputs => inputs.get(index).map_or_else(|| index.to_string(), |i| i.name.to_string()),
    }
}
