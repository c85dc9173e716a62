//! The checks at special points and at all numbers: what they find, and what they refuse.

use extensor::check::exhaustive::{self, Sweep};
use extensor::check::points;
use extensor::ops::catalogue::{self, CATALOGUE};
use extensor::ops::operation::{Backward, Grads, Outputs, Specs};
use extensor::ops::params::Params;
use extensor::ops::record::{Class, Record};
use extensor::ops::{Operation, equal, multiply, where_};
use extensor::{DType, Result, Tensor};

/// An operation whose gradient is off by a factor at one number, and right everywhere else.
#[derive(Clone, Debug)]
struct WrongAt {
    op: Box<dyn Operation>,
    at: f64,
    /// In this dtype alone.
    dtype: Option<DType>,
}

impl Operation for WrongAt {
    fn record(&self) -> &'static Record {
        self.op.record()
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        self.op.infer(inputs)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        self.op.forward(inputs, specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let mut grads = self.op.backward(call)?;
        if let Some(grad) = &mut grads[0]
            && self.dtype.is_none_or(|dtype| dtype == grad.dtype())
        {
            let x = call.inputs[0];
            let here = equal(x, &Tensor::scalar_of(self.at, x.dtype())?)?;
            let more = multiply(grad, &Tensor::scalar_of(1.015625, grad.dtype())?)?;
            *grad = where_(&here, &more, grad)?;
        }
        Ok(grads)
    }
}

fn planted(
    record: &'static Record,
    at: f64,
    dtype: Option<DType>,
) -> impl Fn(&Params) -> Result<Box<dyn Operation>> {
    move |params| Ok(Box::new(WrongAt { op: record.operation(params)?, at, dtype }))
}

#[test]
fn every_derivative_up_to_the_third_is_the_true_one_at_every_point() {
    let outcomes = points::run(&points::Plan::default(), &mut |_| {}).unwrap();
    let checks: usize = outcomes.iter().map(|o| o.checks).sum();
    assert!(checks > 400_000, "only {checks} checks");
    let failed: Vec<String> = outcomes
        .iter()
        .filter(|o| !o.passed())
        .map(|o| format!("{}: {} of {}, such as {:?}", o.name, o.failed, o.checks, o.failures[0]))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_elementwise_operation_with_a_derivative_has_points() {
    let outcomes = points::run(&points::Plan::default(), &mut |_| {}).unwrap();
    for record in CATALOGUE {
        if record.class == Class::Elementwise && record.is_differentiable() {
            let outcome = outcomes.iter().find(|o| o.name == record.name);
            let checks = outcome.map_or(0, |o| o.checks);
            assert!(checks > 100, "{} has only {checks} checks", record.name);
        }
    }
}

#[test]
fn a_gradient_that_is_wrong_at_a_single_point_is_found() {
    let record = catalogue::find("swish").unwrap();
    let plan = points::Plan::default();
    for at in [0.0, 1.0, -0.5, 1e8] {
        let outcome = points::examine(record, &plan, &planted(record, at, None)).unwrap();
        assert!(outcome.failed > 0, "at {at}");
        // 0 and −0 are equal.
        let place = format!("{at:?})");
        assert!(outcome.failures.iter().all(|f| f.at.contains(&place)), "{:?}", outcome.failures);
    }
    // A number that is not among the points.
    let outcome = points::examine(record, &plan, &planted(record, 0.1234, None)).unwrap();
    assert!(outcome.passed(), "{:?}", outcome.failures);
}

#[test]
fn a_gradient_that_is_wrong_at_one_of_all_numbers_is_found() {
    let record = catalogue::find("swish").unwrap();
    for dtype in [DType::F16, DType::BF16] {
        let plan = exhaustive::Plan { filter: "swish".into(), dtypes: vec![dtype] };
        let outcome = exhaustive::examine(record, &plan, &planted(record, 0.1875, Some(dtype)));
        // In both modes; what the rule's own derivative is does not change.
        assert!(outcome.failed >= 2, "{outcome:?}");
        let found = &outcome.failures[0];
        assert!(found.at.contains("0.1875"), "{found:?}");
    }
}

#[test]
fn every_number_of_the_16_bit_types_has_its_value_and_derivatives() {
    // All operations are tried by `extensor check --exhaustive`, in a second build.
    for filter in ["sqrt", "relu6", "tanh", "gelu"] {
        let plan = exhaustive::Plan { filter: filter.into(), ..exhaustive::Plan::default() };
        let outcomes = exhaustive::run(&plan, &mut |_| {}).unwrap();
        for outcome in &outcomes {
            assert!(outcome.passed(), "{filter}: {:?}", outcome.failures);
            assert!(outcome.checks > 3 * 65536, "{filter}: only {}", outcome.checks);
        }
    }
}

#[test]
fn what_would_check_nothing_is_an_error() {
    let plan = |filter: &str, dtypes: &[DType]| points::Plan {
        filter: filter.into(),
        dtypes: dtypes.to_vec(),
    };
    let refused = |plan: points::Plan| points::run(&plan, &mut |_| {}).unwrap_err().to_string();
    assert!(refused(plan("expp", &[DType::F64])).contains("expp"));
    assert!(refused(plan("matmul", &[DType::F64])).contains("no function of one or two numbers"));
    assert!(refused(plan("exp", &[])).contains("no dtype"));
    assert!(refused(plan("exp", &[DType::F16])).contains("no points in f16"));
    let plan = |filter: &str, dtypes: &[DType]| exhaustive::Plan {
        filter: filter.into(),
        dtypes: dtypes.to_vec(),
    };
    let refused =
        |plan: exhaustive::Plan| exhaustive::run(&plan, &mut |_| {}).unwrap_err().to_string();
    assert!(refused(plan("expp", &[DType::F16])).contains("expp"));
    assert!(refused(plan("add", &[DType::F16])).contains("no operation of one number"));
    assert!(refused(plan("exp", &[])).contains("no dtype"));
    assert!(refused(plan("exp", &[DType::F64])).contains("f64 has too many numbers"));
    assert!(Sweep::new("add").is_err() && Sweep::sampled("exp", 0).is_err());
}

#[test]
fn a_sweep_goes_on_where_it_was_saved() {
    let mut sweep = Sweep::new("square").unwrap();
    assert!(sweep.step().unwrap());
    let saved = sweep.save();
    let mut again = Sweep::resume("square", &saved).unwrap();
    assert_eq!(again.tried(), sweep.tried());
    assert!(sweep.step().unwrap() && again.step().unwrap());
    assert_eq!(again.found(), sweep.found());
    // What another operation has found is left alone.
    assert_eq!(Sweep::resume("negate", &saved).unwrap().tried(), 0);
}

#[test]
fn a_saved_sweep_that_is_damaged_is_refused() {
    let saved = Sweep::new("square").unwrap().save();
    let damaged = [
        String::new(),
        saved.replace("exhaustive", "golden"),
        saved.replace('\t', " "),
        saved.replace(" 0 ", " 1 "),
        saved.trim_end().rsplit_once(' ').unwrap().0.to_string(),
        saved.replace(" 0 ", " zero "),
    ];
    for text in damaged {
        assert!(Sweep::resume("square", &text).is_err(), "{text:?}");
    }
}

#[test]
fn the_worst_input_of_a_record_is_as_bad_as_it_says() {
    for record in CATALOGUE {
        let Ok(sweep) = Sweep::new(record.name) else {
            assert_eq!(record.accuracy(), None, "{} is none of one number", record.name);
            continue;
        };
        let accuracy = record.accuracy().unwrap_or_else(|| panic!("{} has no bound", record.name));
        let worst = |at: f32| sweep.at(at).unwrap();
        let value = worst(accuracy.value.at).0;
        assert_eq!(rounded(value), accuracy.value.worst, "{}'s value", record.name);
        assert!(value <= accuracy.value.ulps, "{}: {value}", record.name);
        if record.is_differentiable() {
            let slope = worst(accuracy.slope.at).1;
            assert_eq!(rounded(slope), accuracy.slope.worst, "{}'s derivative", record.name);
            assert!(slope <= accuracy.slope.ulps, "{}: {slope}", record.name);
        }
    }
}

/// To three places, upwards, as records have it.
fn rounded(ulps: f64) -> f64 {
    (ulps * 1e3).ceil() / 1e3
}

#[test]
fn a_quick_look_finds_every_operation_of_one_number_within_its_bound() {
    let mut sweep = Sweep::sampled("*", 4096).unwrap();
    while sweep.step().unwrap() {}
    for found in sweep.found() {
        let accuracy = catalogue::find(found.name).unwrap().accuracy().expect(found.name);
        assert!(found.value.ulps <= accuracy.value.ulps, "{found:?}");
        assert!(found.slope.is_none_or(|s| s.ulps <= accuracy.slope.ulps), "{found:?}");
    }
}
