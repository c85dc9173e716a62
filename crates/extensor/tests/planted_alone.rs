//! Errors that show in one dtype alone, one mode, one input or one size: each is caught.

use extensor::check::suite::{Outcome, Plan, examine};
use extensor::ops::catalogue::{CATALOGUE, find};
use extensor::ops::operation::{
    Backward, Forward, Grads, Outputs, Specs, backward, forward_derivative,
};
use extensor::ops::record::{Class, Record};
use extensor::ops::{Operation, multiply, negate, slice};
use extensor::{Axes, DType, Result, Tensor};

/// Which of an operation's rules an error is planted in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// The function itself.
    Value,
    /// The gradients.
    Backward,
    /// The derivatives along tangents.
    Along,
}

/// A call that a rule sees.
struct Seen<'a> {
    inputs: &'a [&'a Tensor],
    /// By which inputs a derivative is asked for.
    asked: Vec<bool>,
    /// Whether the call is itself differentiated.
    again: bool,
}

impl Seen<'_> {
    fn dtype(&self) -> DType {
        let floats = self.inputs.iter().find(|x| x.dtype().is_float());
        floats.map_or(DType::Bool, |x| x.dtype())
    }

    fn only(&self, input: usize) -> bool {
        self.asked.iter().enumerate().all(|(i, &asked)| asked == (i == input))
    }

    fn largest(&self) -> f64 {
        let values = extensor::autodiff::stop_gradient(self.inputs[0]).to_f64_vec();
        values.iter().fold(0.0, |most: f64, x| most.max(x.abs()))
    }
}

/// An error: where, when, and what it makes of what is right.
#[derive(Clone, Copy, Debug)]
struct Fault {
    rule: Rule,
    when: fn(&Seen) -> bool,
    change: fn(&Tensor) -> Result<Tensor>,
}

/// An operation with an error planted in it.
#[derive(Clone, Debug)]
struct Planted {
    inner: Box<dyn Operation>,
    record: &'static Record,
    fault: Fault,
}

impl Planted {
    fn changed(&self, rule: Rule, seen: &Seen, x: &Tensor) -> Result<Tensor> {
        if self.fault.rule == rule && (self.fault.when)(seen) {
            (self.fault.change)(x)
        } else {
            Ok(x.clone())
        }
    }
}

impl Operation for Planted {
    fn record(&self) -> &'static Record {
        self.record
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.inner.infer(inputs)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let seen = Seen { inputs, asked: vec![false; inputs.len()], again: false };
        if self.fault.rule == Rule::Value && (self.fault.when)(&seen) {
            return overwritten(&*self.inner, inputs);
        }
        self.inner.forward(inputs, specs)
    }
    fn reduces(&self) -> Option<(&Axes, bool)> {
        self.inner.reduces()
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        self.inner.terms(inputs)
    }
    fn linear_part(&self) -> Option<Box<dyn Operation>> {
        self.inner.linear_part()
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let Forward { inputs, outputs, tangents } = *call;
        let again = inputs.iter().any(|x| x.is_traced());
        let asked = tangents.iter().map(Option::is_some).collect();
        let seen = Seen { inputs, asked, again };
        let right = forward_derivative(&*self.inner, inputs, outputs, tangents)?;
        right.iter().map(|y| self.changed(Rule::Along, &seen, y)).collect()
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let again = call.inputs.iter().chain(call.grads).any(|x| x.is_traced());
        let seen = Seen { inputs: call.inputs, asked: call.wanted.to_vec(), again };
        let Backward { grads, inputs, outputs, wanted } = *call;
        let right = backward(&*self.inner, grads, inputs, outputs, wanted)?;
        let changed =
            |g: Option<Tensor>| g.map(|g| self.changed(Rule::Backward, &seen, &g)).transpose();
        right.into_iter().map(changed).collect()
    }
}

/// A product of which only the last part of the sum over the depth is left.
fn overwritten(op: &dyn Operation, inputs: &[&Tensor]) -> Result<Outputs> {
    let (a, b) = (inputs[0], inputs[1]);
    let last = (a.ndim() - 1) as i64;
    let rows = b.ndim().saturating_sub(2) as i64;
    let (a, b) = (slice(a, last, 512, None, 1)?, slice(b, rows, 512, None, 1)?);
    extensor::ops::operation::apply(op, &[&a, &b])
}

/// The record of an operation that says itself what its derivative along a tangent is, so that an
/// error can be in that alone.
fn general(record: &'static Record) -> &'static Record {
    match record.class {
        Class::General => record,
        _ => Box::leak(Box::new(Record { class: Class::General, ..*record })),
    }
}

fn outcome(record: &'static Record, dtypes: &[DType], fault: Fault) -> Outcome {
    let planted = match fault.rule {
        Rule::Along => general(record),
        _ => record,
    };
    let plan = Plan { dtypes: dtypes.to_vec(), ..Plan::default() };
    examine(record, &plan, &|params| {
        let inner = record.operation(params)?;
        Ok(Box::new(Planted { inner, record: planted, fault }))
    })
}

/// The error is caught in each of these operations.
#[track_caller]
fn caught(names: &[&str], dtypes: &[DType], fault: Fault) {
    for name in names {
        let outcome = outcome(find(name).unwrap(), dtypes, fault);
        assert!(!outcome.passed(), "{name}: {fault:?} passed the suite");
        let panicked = outcome.failures.iter().find(|f| f.report.contains("panicked"));
        assert!(panicked.is_none(), "{name}: {panicked:?}");
    }
}

fn scaled(x: &Tensor, factor: f64) -> Result<Tensor> {
    multiply(x, &Tensor::scalar_of(factor, x.dtype())?)
}

fn doubled(x: &Tensor) -> Result<Tensor> {
    scaled(x, 2.0)
}

/// Operations whose derivatives are not 0 everywhere, by class.
fn with_derivatives(class: Class) -> Vec<&'static str> {
    let flat = ["sign", "ceil", "floor", "round", "trunc", "floor_divide"];
    let all = CATALOGUE.iter().filter(|r| r.class == class && r.is_differentiable());
    all.map(|r| r.name).filter(|name| !flat.contains(name)).collect()
}

/// Operations whose second derivatives are not 0.
const CURVED: [&str; 20] = [
    "exp",
    "log",
    "sin",
    "tanh",
    "sigmoid",
    "swish",
    "gelu",
    "softplus",
    "multiply",
    "divide",
    "power",
    "atan2",
    "prod",
    "std",
    "norm",
    "variance",
    "logsumexp",
    "focal_loss",
    "binary_cross_entropy",
    "mean_squared_error",
];

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    for rule in [Rule::Backward, Rule::Along] {
        let none = Fault { rule, when: |_| false, change: doubled };
        for name in ["exp", "softmax", "multiply", "layer_norm"] {
            let outcome = outcome(find(name).unwrap(), &DType::FLOATS, none);
            assert!(outcome.passed(), "{name}, {rule:?}: {:#?}", outcome.failures);
        }
    }
}

#[test]
fn forward_mode_doubled_in_one_dtype_alone_is_caught_in_every_elementwise_operation() {
    for (dtype, when) in [
        (DType::BF16, (|seen| seen.dtype() == DType::BF16) as fn(&Seen) -> bool),
        (DType::F16, |seen| seen.dtype() == DType::F16),
        (DType::F32, |seen| seen.dtype() == DType::F32),
    ] {
        let fault = Fault { rule: Rule::Along, when, change: doubled };
        caught(&with_derivatives(Class::Elementwise), &[dtype], fault);
    }
}

#[test]
fn a_small_error_of_the_gradient_in_one_dtype_alone_is_caught_in_every_operation() {
    let single = Fault {
        rule: Rule::Backward,
        when: |seen| seen.dtype() == DType::F32,
        change: |g| scaled(g, 1.0 + 9e-5),
    };
    let half = Fault {
        rule: Rule::Backward,
        when: |seen| seen.dtype() == DType::F16,
        // Not scaled in f16, which would round the factor.
        change: |g| {
            let wide = extensor::ops::cast(g, DType::F32)?;
            extensor::ops::cast(&scaled(&wide, 1.009)?, g.dtype())
        },
    };
    let classes =
        [Class::Elementwise, Class::Linear, Class::Affine, Class::Reduction, Class::General];
    for class in classes {
        caught(&with_derivatives(class), &[DType::F32], single);
        caught(&with_derivatives(class), &[DType::F16], half);
    }
}

#[test]
fn a_rule_that_is_wrong_by_one_input_alone_is_caught() {
    type When = fn(&Seen) -> bool;
    // In every dtype, and in one alone.
    let second: [(DType, When); 2] = [
        (DType::F64, |seen| seen.only(1)),
        (DType::F32, |seen| seen.only(1) && seen.dtype() == DType::F32),
    ];
    let third: [(DType, When); 2] = [
        (DType::F64, |seen| seen.only(2)),
        (DType::F32, |seen| seen.only(2) && seen.dtype() == DType::F32),
    ];
    let others = ["scaled_dot_product_attention", "cross_entropy", "rms_norm", "prelu"];
    let norms = ["layer_norm", "group_norm", "instance_norm", "batch_norm2d"];
    for rule in [Rule::Along, Rule::Backward] {
        for (dtype, when) in second {
            caught(&others, &[dtype], Fault { rule, when, change: doubled });
        }
        for (dtype, when) in third {
            caught(&norms, &[dtype], Fault { rule, when, change: doubled });
        }
    }
}

#[test]
fn second_derivatives_doubled_in_f32_alone_are_caught() {
    let when = |seen: &Seen| seen.again && seen.dtype() == DType::F32;
    caught(&CURVED, &[DType::F32], Fault { rule: Rule::Backward, when, change: doubled });
}

#[test]
fn a_swapped_sign_of_forward_mode_in_f32_alone_is_caught() {
    let when = |seen: &Seen| seen.dtype() == DType::F32;
    let names = with_derivatives(Class::General);
    caught(&names, &[DType::F32], Fault { rule: Rule::Along, when, change: negate });
}

#[test]
fn a_gradient_that_is_wrong_for_few_or_tiny_numbers_is_caught() {
    for when in [(|seen| seen.inputs[0].len() == 2) as fn(&Seen) -> bool, |seen| {
        (1e-30..1e-6).contains(&seen.largest())
    }] {
        let fault = Fault { rule: Rule::Backward, when, change: |g| scaled(g, 1.01) };
        caught(&["norm", "std"], &[DType::F64], fault);
    }
}

#[test]
fn a_deep_product_that_overwrites_what_it_should_add_to_is_caught() {
    let when = |seen: &Seen| seen.inputs[0].shape().last().is_some_and(|&depth| depth > 512);
    let fault = Fault { rule: Rule::Value, when, change: doubled };
    caught(&["matmul"], &[DType::F64], fault);
}

#[test]
fn constants_of_second_derivatives_off_by_a_thousandth_in_f32_alone_are_caught() {
    let when = |seen: &Seen| seen.again && seen.dtype() == DType::F32;
    let change = |g: &Tensor| scaled(g, 1.001);
    caught(&CURVED, &[DType::F32], Fault { rule: Rule::Backward, when, change });
    let names = with_derivatives(Class::General);
    let moved = ["sort", "topk", "kthvalue", "cummax", "cummin"];
    let flat = |name: &str| moved.contains(&name) || name.contains("maxpool");
    let curved: Vec<&str> = names.into_iter().filter(|name| !flat(name)).collect();
    caught(&curved, &[DType::F32], Fault { rule: Rule::Along, when, change });
}
