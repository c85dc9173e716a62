//! What an explicit backward function is not given: inputs and parameters that its rule does not read.
//!
//! Found by asking the operation which of those that could be meant it accepts. This module must not
//! know any particular operation, nor how arguments come from Python.

use crate::backward::{Backward, Given};
use crate::convert::whole_numbers_of;
use crate::error::{OrRaise, expect_memory};
use crate::function::parameter;
use extensor::ops::operation::{self, Operation};
use extensor::ops::params::{Params, Value};
use extensor::ops::record::{Count, Input, Kind};
use extensor::{DType, Shape, Tensor};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// How many ways to complete the inputs are tried.
const MOST_WAYS: usize = 1000;

/// A tensor of a shape that takes no memory.
pub fn outline(shape: &Shape, dtype: DType) -> PyResult<Tensor> {
    operation::placeholder(shape, dtype).or_raise()
}

/// The sizes of a shape as a parameter.
fn whole(shape: &Shape) -> Vec<i64> {
    shape.iter().map(|&n| n as i64).collect()
}

/// The axis that is given, counted from the front; 0 if there is none.
fn along(given: &Given<'_>, ndim: usize) -> PyResult<usize> {
    let axis: i64 = given.get("axis").map_or(Ok(0), |a| a.extract())?;
    let at = if axis < 0 { axis.saturating_add_unsigned(ndim as u64) } else { axis };
    Ok(usize::try_from(at).unwrap_or(usize::MAX))
}

/// The values that parameters which name axes can have together: `count` of `ndim` axes for a list of
/// them, any for a single one.
fn ways(names: &[&str], ndim: usize, count: usize) -> Vec<Vec<Value>> {
    let mut all: Vec<Vec<Value>> = vec![Vec::new()];
    for name in names {
        let values: Vec<Value> = if *name == "axis" {
            let ndim = ndim.min(16);
            let sets = 0u32..1 << ndim;
            let sets = sets.filter(|set| set.count_ones() as usize == count);
            let axes = |set: u32| (0..ndim as i64).filter(|k| set >> k & 1 == 1).collect();
            sets.map(|set| Value::Ints(axes(set))).collect()
        } else {
            (0..ndim.min(32) as i64).map(Value::Int).collect()
        };
        let longer = |way: &Vec<Value>| -> Vec<Vec<Value>> {
            let with = |v: &Value| way.iter().cloned().chain([v.clone()]).collect();
            values.iter().map(with).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

impl Backward {
    /// The operations that could be meant, the likeliest first: parameters that the rule does not ask
    /// for are told by the gradients, stand at their defaults, or are tried out.
    pub fn operations(
        &self,
        given: &Given<'_>,
        grads: &[Tensor],
    ) -> PyResult<Vec<Box<dyn Operation>>> {
        let first = &grads[0];
        let mut params = Params::new();
        let mut axes: Vec<&'static str> = Vec::new();
        for p in self.record.params {
            if self.takes(Kind::Parameter, p.name) {
                if let Some(object) = given.get(p.name) {
                    params = params.with(p.name, parameter(self.record, p.name, object)?);
                }
                continue;
            }
            params = match p.name {
                // Only the forward pass draws from it.
                "key" => params.with("key", 0i64),
                "dtype" => params.with("dtype", first.dtype().name()),
                "shape" => params.with("shape", whole(first.shape())),
                "sections" => {
                    let axis = along(given, first.ndim())?;
                    let sizes = grads.iter().filter_map(|g| g.shape().get(axis).map(|&n| n as i64));
                    params.with("sections", sizes.collect::<Vec<i64>>())
                }
                // How many were chosen along the axis, or one: which of them the rule does not ask.
                "k" => {
                    let inner = given.shape("input_shape")?.map_or(first.ndim(), |s| s.len());
                    let axis: i64 = given.get("axis").map_or(Ok(-1), |a| a.extract())?;
                    let at =
                        if axis < 0 { axis.saturating_add_unsigned(inner as u64) } else { axis };
                    let at = usize::try_from(at).unwrap_or(usize::MAX);
                    let size = (first.ndim() == inner).then(|| first.shape().get(at)).flatten();
                    params.with("k", size.map_or(1, |&n| n as i64))
                }
                name if name == "axis" || name.ends_with("_axis") => {
                    axes.push(name);
                    params
                }
                _ => params,
            };
        }
        if axes.is_empty() {
            return Ok(vec![self.record.operation(&params).or_raise()?]);
        }
        let inner = given.shape("input_shape")?.map_or(first.ndim(), |shape| shape.len());
        let mut all: Vec<Box<dyn Operation>> = Vec::new();
        all.extend(self.record.operation(&params).ok());
        for way in ways(&axes, inner.max(first.ndim()), inner.abs_diff(first.ndim())) {
            let tried = axes.iter().zip(way).fold(params.clone(), |p, (name, v)| p.with(name, v));
            all.extend(self.record.operation(&tried).ok());
        }
        if all.is_empty() {
            all.push(self.record.operation(&params).or_raise()?);
        }
        Ok(all)
    }

    /// The inputs: those given, and outlines of the others.
    pub fn inputs(
        &self,
        given: &Given<'_>,
        op: &dyn Operation,
        grads: &[Tensor],
    ) -> PyResult<Vec<Option<Tensor>>> {
        let dtype = grads[0].dtype();
        let record = self.record;
        if let [Input { count: Count::Many, name, .. }] = record.inputs {
            if !self.takes(Kind::Input, name) {
                return self.parts(given, grads);
            }
            let Some(tensors) = given.tensors(name)? else {
                let text = format!("{}: {name} must be given", self.name());
                return Err(PyTypeError::new_err(text));
            };
            return Ok(tensors.into_iter().map(Some).collect());
        }
        let mut arguments = self.signature.arguments.iter();
        let of_dtype = arguments.find(|a| matches!(a.kind, Kind::DType(_)));
        let input_dtype = match of_dtype.and_then(|a| given.get(a.name)) {
            Some(object) => crate::dtype::from_object(object)?,
            None => dtype,
        };
        let mut inputs: Vec<Option<Tensor>> = Vec::new();
        for input in record.inputs {
            let named = match self.takes(Kind::Input, input.name) {
                true => given.tensor(input.name)?,
                false => None,
            };
            let shape = match self.signature.of_kind(Kind::Shape(input.name)) {
                Some(argument) => given.shape(argument.name)?,
                None => None,
            };
            inputs.push(match (named, shape) {
                (Some(tensor), _) => Some(tensor),
                (None, Some(shape)) => Some(outline(&shape, input_dtype)?),
                (None, None) if self.takes(Kind::Input, input.name) => {
                    let after = record.inputs.iter().skip_while(|i| i.name != input.name).skip(1);
                    let before_another = after.into_iter().any(|i| given.get(i.name).is_some());
                    if let Some(neutral) = input.neutral.filter(|_| before_another) {
                        Some(Tensor::scalar_of(neutral as f64, dtype).or_raise()?)
                    } else if input.count == Count::Optional {
                        None
                    } else {
                        return Err(PyTypeError::new_err(format!(
                            "{}: {} must be given",
                            self.name(),
                            input.name
                        )));
                    }
                }
                (None, None) => None,
            });
        }
        self.filled(given, op, grads, inputs, input_dtype)
    }

    /// The inputs with outlines in place of those that the rule does not ask for: of the shapes that
    /// could be meant, the first that the operation accepts and answers with the gradients' shapes.
    fn filled(
        &self,
        given: &Given<'_>,
        op: &dyn Operation,
        grads: &[Tensor],
        mut inputs: Vec<Option<Tensor>>,
        dtype: DType,
    ) -> PyResult<Vec<Option<Tensor>>> {
        let all = self.record.inputs;
        let absent = |i: usize| inputs[i].is_none() && !self.takes(Kind::Input, all[i].name);
        let free: Vec<usize> = (0..all.len()).filter(|&i| absent(i)).collect();
        if free.is_empty() {
            return Ok(inputs);
        }
        // An optional input that has a gradient gets one; others are there only if they must be.
        let last = |keep: &dyn Fn(&Input) -> bool| all.iter().rposition(keep).map_or(0, |i| i + 1);
        let lengths =
            [last(&|i| i.differentiable), all.len(), last(&|i| i.count != Count::Optional)];
        let shapes = self.candidates(given, grads, &inputs);
        for length in lengths {
            let within: Vec<usize> = free.iter().copied().filter(|&i| i < length).collect();
            let ways = shapes.len().saturating_pow(within.len() as u32).min(MOST_WAYS);
            for way in 0..ways {
                let (mut trial, mut rest) = (inputs[..length].to_vec(), way);
                for &i in &within {
                    trial[i] = Some(outline(&shapes[rest % shapes.len()], dtype)?);
                    rest /= shapes.len();
                }
                if self.accepts(op, &trial, grads) {
                    return Ok(trial);
                }
            }
        }
        // Nothing fits: the operation says what is wrong.
        for &i in free.iter().filter(|&&i| all[i].count != Count::Optional) {
            inputs[i] = Some(outline(&shapes[0], dtype)?);
        }
        Ok(inputs)
    }

    /// Shapes that an input which is not given could have.
    fn candidates(
        &self,
        given: &Given<'_>,
        grads: &[Tensor],
        inputs: &[Option<Tensor>],
    ) -> Vec<Shape> {
        let first = grads[0].shape();
        let mut shapes: Vec<Shape> = vec![first.clone()];
        shapes.extend(inputs.iter().flatten().map(|x| x.shape().clone()));
        shapes.extend(first.iter().rev().map(|&n| Shape::from([n])));
        shapes.push(first.iter().rev().copied().collect());
        // The inverse of a permutation.
        if let Some(axes) = given.get("axes").and_then(|a| whole_numbers_of::<i64>(a).ok()) {
            let n = first.len() as i64;
            let mut shape: Vec<usize> = vec![0; first.len()];
            for (&axis, &size) in axes.iter().zip(first.iter()) {
                let at = if axis < 0 { axis.saturating_add(n) } else { axis };
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                if let Some(slot) = shape.get_mut(at) {
                    *slot = size;
                }
            }
            shapes.insert(0, Shape::from(shape));
        }
        // Cut along an axis: the parts put together.
        if grads.len() > 1 || self.signature.of_kind(Kind::GradOutputs).is_some() {
            let axis = along(given, first.len()).unwrap_or(0);
            let each = grads.iter().filter_map(|g| g.shape().get(axis));
            let sum = each.fold(0usize, |sum, &n| sum.saturating_add(n));
            let sizes = first.iter().enumerate();
            shapes.insert(0, sizes.map(|(k, &n)| if k == axis { sum } else { n }).collect());
        }
        shapes
    }

    /// Whether the operation takes these inputs and has results of the gradients' shapes.
    pub fn accepts(&self, op: &dyn Operation, inputs: &[Option<Tensor>], grads: &[Tensor]) -> bool {
        let given: Vec<&Tensor> = inputs.iter().map_while(Option::as_ref).collect();
        if inputs[given.len()..].iter().any(Option::is_some)
            || self.record.expect_inputs(given.len()).is_err()
        {
            return false;
        }
        let Ok(specs) = op.infer(&given) else { return false };
        let results = self.record.results(specs.len());
        results == grads.len()
            && specs.iter().zip(grads).all(|(spec, grad)| spec.shape == *grad.shape())
    }

    /// Inputs that were put together: along `sizes` of an axis, or each along a new axis.
    fn parts(&self, given: &Given<'_>, grads: &[Tensor]) -> PyResult<Vec<Option<Tensor>>> {
        let shape = grads[0].shape();
        let at = along(given, shape.len())?;
        if at >= shape.len() {
            let (op, ndim) = (self.record.name, shape.len());
            let axis = given.get("axis").map_or(Ok(0), |a| a.extract())?;
            return Err(extensor::Error::AxisOutOfRange { op, axis, ndim }).or_raise();
        }
        let part = |size: Option<usize>| -> PyResult<Option<Tensor>> {
            let sizes = shape.iter().enumerate();
            let sizes = sizes.filter_map(|(k, &n)| if k == at { size } else { Some(n) });
            outline(&sizes.collect(), grads[0].dtype()).map(Some)
        };
        match given.shape("sizes")? {
            Some(sizes) => sizes.iter().map(|&size| part(Some(size))).collect(),
            None => {
                // As many parts as there are along the axis, none of which takes memory; but a list.
                let each = size_of::<Option<Tensor>>() + 256;
                expect_memory(self.record.name, shape[at].saturating_mul(each))?;
                (0..shape[at]).map(|_| part(None)).collect()
            }
        }
    }
}
