//! Wrong gradients planted in every operation of the catalogue, five kinds of them: each is caught.

use extensor::check::suite::{self, Plan, examine};
use extensor::check::{Options, Problem, Report, check_gradient};
use extensor::ops::catalogue::CATALOGUE;
use extensor::ops::operation::{self, Backward, Forward, Grads, Outputs, Specs, apply, input_name};
use extensor::ops::record::Record;
use extensor::ops::samples::Sample;
use extensor::ops::{Operation, add, broadcast_to, multiply, negate, reshape, slice, sum};
use extensor::{Axes, DType, Result, Tensor};

/// The ways in which derivatives are gotten wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Error {
    OnePercent,
    DroppedTerm,
    SwappedSign,
    MissingReduction,
    WrongShape,
}

const ERRORS: [Error; 5] = [
    Error::OnePercent,
    Error::DroppedTerm,
    Error::SwappedSign,
    Error::MissingReduction,
    Error::WrongShape,
];

fn differentiable() -> impl Iterator<Item = &'static Record> {
    let all = CATALOGUE.iter().copied();
    all.filter(|record| record.is_differentiable())
}

/// An operation at a sample, as a pair of functions of its inputs: with several outputs, of the
/// first. The output is repeated along a new first axis of size 2, so that a gradient has a sum to
/// take over it.
struct Pair {
    op: Box<dyn Operation>,
    sample: Sample,
    wanted: Vec<bool>,
}

impl Pair {
    /// The first sample with elements at which the operation is smooth, and its gradient not zero
    /// if there is such a sample.
    fn of(record: &'static Record) -> Pair {
        let pairs = suite::samples(record, 1).into_iter().filter_map(|sample| {
            let op = record.operation(&sample.params).unwrap();
            let inputs: Vec<&Tensor> = sample.inputs.iter().collect();
            let outputs = apply(&*op, &inputs).unwrap();
            let wanted = inputs.iter().enumerate();
            let wanted: Vec<bool> = wanted
                .map(|(i, x)| record.differentiable_input(i) && x.dtype().is_float())
                .collect();
            let elements = |x: &Tensor| !x.is_empty() && x.dtype().is_float();
            let useful = sample.smooth
                && wanted.contains(&true)
                && elements(&outputs[0])
                && inputs.iter().all(|x| !x.is_empty());
            useful.then_some(Pair { op, sample, wanted })
        });
        let mut pairs: Vec<Pair> = pairs.collect();
        let moving = pairs.iter().position(|pair| {
            let y = pair.forward(&pair.sample.inputs).unwrap();
            let gradients = pair.backward(&y.ones_like().unwrap(), &pair.sample.inputs);
            !vanish(&gradients.unwrap())
        });
        assert!(!pairs.is_empty(), "{}: no sample to plant errors at", record.name);
        pairs.swap_remove(moving.unwrap_or(0))
    }

    fn forward(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let output = apply(&*self.op, &inputs)?.swap_remove(0);
        let shape: Vec<usize> = [2].iter().chain(output.shape().iter()).copied().collect();
        broadcast_to(&output, &shape)
    }

    /// The right gradients.
    fn backward(&self, grad: &Tensor, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.pull(&sum(grad, 0)?, inputs)
    }

    fn pull(&self, grad: &Tensor, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let outputs = apply(&*self.op, &inputs)?;
        let results = &outputs[..self.op.record().results(outputs.len())];
        let mut grads: Vec<Tensor> =
            results.iter().map(Tensor::zeros_like).collect::<Result<_>>()?;
        grads[0] = grad.clone();
        let grads: Vec<&Tensor> = grads.iter().collect();
        let outputs: Vec<&Tensor> = outputs.iter().collect();
        let found = operation::backward(&*self.op, &grads, &inputs, &outputs, &self.wanted)?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The gradients with an error planted in them. Where they would be right all the same, since
    /// the derivative is 0 or one output is all there is to sum, 1 % of 1 is added instead.
    fn wrong(&self, error: Error, grad: &Tensor, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let right = self.backward(grad, inputs)?;
        let planted = match error {
            Error::OnePercent => each(&right, |g| multiply(g, &Tensor::scalar(1.01)))?,
            Error::SwappedSign => each(&right, negate)?,
            Error::WrongShape => return each(&right, with_axis),
            Error::MissingReduction => {
                let first = reshape(&slice(grad, 0, 0, 1, 1)?, &grad.shape()[1..])?;
                self.pull(&first, inputs)?
            }
            Error::DroppedTerm => {
                let mut without = right.clone();
                for term in 0..grad.len() {
                    let mut values = grad.to_vec::<f64>()?;
                    values[term] = 0.0;
                    let rest = Tensor::from_vec(values, grad.shape().clone())?;
                    without = self.backward(&rest, inputs)?;
                    if differ(&without, &right) {
                        break;
                    }
                }
                without
            }
        };
        if differ(&planted, &right) {
            return Ok(planted);
        }
        each(&right, |g| add(g, &Tensor::scalar(0.01)))
    }

    fn report(&self, backward: impl Fn(&Tensor, &[Tensor]) -> Result<Vec<Tensor>>) -> Report {
        let record = self.op.record();
        let inputs = &self.sample.inputs;
        let options = Options {
            name: record.name.into(),
            input_names: (0..inputs.len()).map(|i| input_name(record, i)).collect(),
            wrt: Some((0..inputs.len()).filter(|&i| self.wanted[i]).collect()),
            ..Options::default()
        };
        check_gradient(|x| self.forward(x), backward, inputs, &options).unwrap()
    }
}

fn each(list: &[Tensor], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    list.iter().map(f).collect()
}

fn with_axis(x: &Tensor) -> Result<Tensor> {
    let shape: Vec<usize> = [1].iter().chain(x.shape().iter()).copied().collect();
    reshape(x, &shape)
}

fn differ(a: &[Tensor], b: &[Tensor]) -> bool {
    a.iter().zip(b).any(|(x, y)| x.to_f64_vec() != y.to_f64_vec())
}

fn vanish(gradients: &[Tensor]) -> bool {
    gradients.iter().all(|g| g.to_f64_vec().iter().all(|v| *v == 0.0))
}

#[test]
fn each_kind_of_wrong_gradient_is_caught_for_every_operation() {
    let mut planted = 0;
    for record in differentiable() {
        let pair = Pair::of(record);
        let right = pair.report(|grad, x| pair.backward(grad, x));
        assert!(right.passed(), "{right}");
        assert!(right.checked > 0, "{}: nothing was checked", record.name);
        for error in ERRORS {
            let report = pair.report(|grad, x| pair.wrong(error, grad, x));
            let caught = match error {
                Error::WrongShape => matches!(report.problem, Some(Problem::Shape { .. })),
                _ => matches!(report.problem, Some(Problem::Wrong { .. })),
            };
            assert!(caught, "{}: {error:?} was not caught:\n{report}", record.name);
            assert!(report.to_string().contains(record.name));
            planted += 1;
        }
    }
    assert_eq!(planted, 5 * differentiable().count());
    assert!(planted > 0);
}

/// An operation whose backward rule is wrong.
#[derive(Clone, Debug)]
struct Planted {
    inner: Box<dyn Operation>,
    error: Error,
}

impl Operation for Planted {
    fn record(&self) -> &'static Record {
        self.inner.record()
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.inner.infer(inputs)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        self.inner.forward(inputs, specs)
    }
    fn reduces(&self) -> Option<(&Axes, bool)> {
        self.inner.reduces()
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        self.inner.derivative(call)
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        self.inner.terms(inputs)
    }
    fn linear_part(&self) -> Option<Box<dyn Operation>> {
        self.inner.linear_part()
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let right = self.inner.backward(call)?;
        let altered = |f: &dyn Fn(&Tensor) -> Result<Tensor>| -> Result<Grads> {
            let apply = |g: &Option<Tensor>| g.as_ref().map(f).transpose();
            right.iter().map(apply).collect()
        };
        // The gradient without the part that comes from some of the outputs' elements.
        let only = |kept: &dyn Fn(usize, usize) -> bool| -> Result<Grads> {
            let masked = |g: &&Tensor| {
                let values = g.to_f64_vec().into_iter().enumerate();
                let values = values.map(|(i, v)| if kept(i, g.len()) { v } else { 0.0 });
                let masked = Tensor::from_vec(values.collect(), g.shape().clone())?;
                extensor::ops::cast(&masked, g.dtype())
            };
            let grads: Vec<Tensor> = call.grads.iter().map(masked).collect::<Result<_>>()?;
            let grads: Vec<&Tensor> = grads.iter().collect();
            let Backward { inputs, outputs, wanted, .. } = *call;
            self.inner.backward(&Backward { grads: &grads, inputs, outputs, wanted })
        };
        let scalar = |v: f64| Tensor::scalar_of(v, call.grad().dtype());
        let planted = match self.error {
            Error::OnePercent => altered(&|g| multiply(g, &scalar(1.01)?))?,
            Error::SwappedSign => altered(&negate)?,
            // The engine would sum a new first axis away: this one is the last.
            Error::WrongShape => {
                return altered(&|g| {
                    let shape: Vec<usize> = g.shape().iter().copied().chain([1]).collect();
                    let twice: Vec<usize> = g.shape().iter().copied().chain([2]).collect();
                    broadcast_to(&reshape(g, &shape)?, &twice)
                });
            }
            Error::DroppedTerm => only(&|i, _| i > 0)?,
            Error::MissingReduction => only(&|i, len| 2 * i < len)?,
        };
        let flat = |grads: &Grads| grads.iter().flatten().cloned().collect::<Vec<_>>();
        if differ(&flat(&planted), &flat(&right)) {
            return Ok(planted);
        }
        altered(&|g| add(g, &scalar(0.01)?))
    }
}

#[test]
fn the_suite_catches_each_of_them_in_every_operation() {
    let plan = Plan { dtypes: vec![DType::F64], ..Plan::default() };
    for record in differentiable() {
        for error in ERRORS {
            let outcome = examine(record, &plan, &|params| {
                let inner = record.operation(params)?;
                Ok(Box::new(Planted { inner, error }))
            });
            assert!(!outcome.passed(), "{}: {error:?} passed the suite", record.name);
        }
    }
}
