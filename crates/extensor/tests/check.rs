//! The check itself: what it finds, what it says, and what it must not be fooled by.

use extensor::check::suite::{self, Outcome, Plan, examine, run};
use extensor::check::{
    Mode, Options, Place, Problem, Report, assert_gradients_close, check_gradient,
    numerical_gradient,
};
use extensor::ops::operation::{Backward, Grads, Outputs, Specs};
use extensor::ops::record::Record;
use extensor::ops::*;
use extensor::*;
use std::cell::Cell;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

type Pull = fn(&Tensor, &[Tensor]) -> Result<Vec<Tensor>>;

fn sin_right(grad: &Tensor, x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![sin_backward(grad, &x[0])?])
}

fn report(f: fn(&Tensor) -> Result<Tensor>, back: Pull, x: &Tensor, options: &Options) -> Report {
    check_gradient(|x| f(&x[0]), back, std::slice::from_ref(x), options).unwrap()
}

fn points(count: usize) -> Tensor {
    Key::new(5).normal([count], DType::F64).unwrap()
}

/// What the suite finds, with the program's own plan.
fn outcomes() -> &'static [Outcome] {
    static OUTCOMES: OnceLock<Vec<Outcome>> = OnceLock::new();
    OUTCOMES.get_or_init(|| run(&Plan::default(), &mut |_| ()).unwrap())
}

#[test]
fn the_readme_prints_the_numbers_of_checks_that_there_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let Ok(readme) = std::fs::read_to_string(path) else {
        return; // A package has a README of its own.
    };
    let block = readme.split("error/tolerance       time\n").nth(1).expect("a table of checks");
    let block = block.split("```").next().unwrap();
    let mut rows = 0;
    for line in block.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(outcome) = outcomes().iter().find(|o| Some(&o.name) == words.first()) else {
            continue;
        };
        assert_eq!(words[1], outcome.checks.to_string(), "{line}");
        rows += 1;
    }
    assert!(rows > 5, "{rows}");
    let total: usize = outcomes().iter().map(|o| o.checks).sum();
    let summary = format!("{} operations, {total} checks in ", outcomes().len());
    assert!(block.contains(&summary), "the README does not say: {summary}");
}

#[test]
fn every_operation_of_the_catalogue_passes_the_suite() {
    let outcomes = outcomes();
    assert_eq!(outcomes.len(), catalogue::CATALOGUE.len());
    for outcome in outcomes {
        let failures = outcome.failures.iter();
        let failures: Vec<String> =
            failures.map(|f| format!("{}: {}\n{}", f.kind, f.at, f.report)).collect();
        assert!(outcome.passed(), "{}:\n{}", outcome.name, failures.join("\n"));
    }
    let checks: usize = outcomes.iter().map(|o| o.checks).sum();
    assert!(checks > 10_000, "{checks}");
}

#[test]
fn every_differentiable_operation_gets_every_kind_of_gradient_check() {
    let seed = 3;
    let plan = Plan { seed, ..Plan::default() };
    for outcome in run(&plan, &mut |_| ()).unwrap() {
        let record = catalogue::find(outcome.name).unwrap();
        let count = |kind: &str| {
            let found = outcome.kinds.iter().find(|(k, _)| *k == kind);
            found.map_or(0, |(_, n)| *n)
        };
        for kind in ["runs", "repeats", "errors", "samples"] {
            assert!(count(kind) > 0, "{}: {kind}", record.name);
        }
        let gradient = ["differences", "directions", "Taylor", "adjoint", "needs"];
        let modes = ["forward mode", "reverse mode", "every dtype", "nothing of nothing"];
        let others = modes.into_iter().chain(["precision", "wrong grad_output"]);
        for kind in gradient.into_iter().chain(others) {
            let expected = record.is_differentiable();
            assert!(!expected || count(kind) > 0, "{}: {kind}", record.name);
        }
        if !record.is_differentiable() {
            assert!(count("no derivative") > 0, "{}", record.name);
        }
    }
}

#[test]
fn a_right_gradient_passes_and_the_report_says_how_well() {
    let report = report(sin, sin_right, &points(40), &Options::named("sin"));
    assert!(report.passed(), "{report}");
    assert_eq!((report.checked, report.elements), (40, 40));
    assert_eq!(report.mode, Mode::Full);
    assert!(report.worst_ratio() < 0.1, "{report}");
    let slope = report.taylor.unwrap();
    assert!((slope - 2.0).abs() < 0.05, "{slope}");
    assert!(report.to_string().starts_with("sin: the gradient is right (40 of 40 elements, f64"));
}

#[test]
fn a_wrong_element_is_named_with_both_values_and_the_plateau_in_one_screen() {
    let back: Pull = |grad, x| {
        let mut values = sin_backward(grad, &x[0])?.to_vec::<f64>()?;
        values[7] *= 1.001;
        Ok(vec![Tensor::from_vec(values, [3, 4])?])
    };
    let x = reshape(&points(12), [3, 4]).unwrap();
    let options = Options { input_names: vec!["angle".into()], ..Options::named("sine") };
    let report = report(sin, back, &x, &options);
    assert_eq!(
        report.problem.as_ref().map(|p| matches!(p, Problem::Wrong { places: 1, .. })),
        Some(true)
    );
    let worst = report.worst.as_ref().unwrap();
    let place = Place::Element { input: "angle".into(), index: vec![1, 3] };
    assert_eq!(worst.place, place);
    let text = report.to_string();
    for part in ["sine: WRONG GRADIENT", "angle[1, 3]", "analytic", "numeric", "allowed"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.contains("a plateau"), "{text}");
    assert!(text.contains("wrong at 1 of 12 elements of angle"), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn a_swapped_sign_is_called_one() {
    let back: Pull = |grad, x| Ok(vec![negate(&sin_backward(grad, &x[0])?)?]);
    let text = report(sin, back, &points(4), &Options::default()).to_string();
    assert!(text.contains("the sign is swapped"), "{text}");
}

#[test]
fn a_kink_is_reported_as_such_and_is_not_a_wrong_gradient() {
    let back: Pull = |grad, x| Ok(vec![abs_backward(grad, &x[0])?]);
    let x = tensor([1.5, 0.0, -2.0]);
    let report = report(abs, back, &x, &Options::named("abs"));
    assert!(report.passed(), "{report}");
    assert_eq!((report.kink_count, report.taylor), (1, None));
    // The slope on one side only is no wrong gradient either.
    let one_sided: Pull = |grad, x| {
        let right = tensor(
            x[0].to_vec::<f64>()?
                .iter()
                .map(|v| if *v < 0.0 { -1.0 } else { 1.0 })
                .collect::<Vec<f64>>(),
        );
        Ok(vec![multiply(grad, &right)?])
    };
    let report = self::report(abs, one_sided, &x, &Options::named("abs"));
    assert!(report.passed(), "{report}");
    assert_eq!(report.kink_count, 1);
    let text = report.to_string();
    assert!(text.contains("not differentiable here: input 0[1]"), "{text}");
}

#[test]
fn a_step_and_the_edge_of_a_domain_are_not_differentiable_here() {
    let one: Pull = |grad, _| Ok(vec![grad.clone()]);
    let report = self::report(floor, one, &tensor([2.0]), &Options::default());
    assert_eq!((report.kink_count, report.problem), (1, Some(Problem::NothingChecked)));
    let edge: Pull = |grad, x| Ok(vec![sqrt_backward(grad, &sqrt(&x[0])?)?]);
    let report = self::report(sqrt, edge, &tensor([0.0, 4.0]), &Options::default());
    assert!(report.passed(), "{report}");
    assert_eq!((report.kink_count, report.checked), (1, 1));
}

#[test]
fn a_wrong_gradient_beside_a_kink_is_still_wrong() {
    let double: Pull = |grad, x| {
        let g = abs_backward(grad, &x[0])?;
        Ok(vec![add(&g, &g)?])
    };
    let report = report(abs, double, &tensor([0.0, 3e-4, 1.0]), &Options::default());
    assert!(matches!(report.problem, Some(Problem::Wrong { .. })), "{report}");
}

#[test]
fn a_point_near_a_kink_or_a_pole_is_resolved_by_smaller_steps() {
    let back: Pull = |grad, x| Ok(vec![abs_backward(grad, &x[0])?]);
    let report = report(abs, back, &tensor([3e-6, -2e-6]), &Options::default());
    assert!(report.passed(), "{report}");
    assert_eq!(report.kink_count, 0);
    let back: Pull = |grad, x| Ok(vec![log_backward(grad, &x[0])?]);
    let report = self::report(log, back, &tensor([1e-4, 1e-5]), &Options::default());
    assert!(report.passed(), "{report}");
}

#[test]
fn a_function_that_is_not_deterministic_is_the_report() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let f: fn(&Tensor) -> Result<Tensor> = |x| {
        let noise = CALLS.fetch_add(1, Ordering::Relaxed) as f64 * 1e-12;
        add(&sin(x)?, &tensor(noise))
    };
    let report = report(f, sin_right, &points(3), &Options::default());
    assert!(matches!(report.problem, Some(Problem::Nondeterministic { .. })), "{report}");
    let calls = Cell::new(0.0);
    let report = check_gradient(
        |x| sin(&x[0]),
        |grad, x| {
            calls.set(calls.get() + 1e-12);
            Ok(vec![add(&sin_backward(grad, &x[0])?, &tensor(calls.get()))?])
        },
        &[points(3)],
        &Options::default(),
    );
    let text = report.unwrap().to_string();
    assert!(text.contains("the backward function called twice"), "{text}");
}

#[test]
fn gradients_of_the_wrong_shape_dtype_or_number_are_reported_as_such() {
    let x = points(6);
    let cases: [(Pull, &str); 3] = [
        (
            |g, x| Ok(vec![reshape(&sin_backward(g, &x[0])?, [2, 3])?]),
            "the gradient for input 0 has shape [2, 3], expected [6]",
        ),
        (
            |g, x| Ok(vec![cast(&sin_backward(g, &x[0])?, DType::F32)?]),
            "the gradient for input 0 has dtype f32, expected f64",
        ),
        (|_, _| Ok(vec![]), "returned 0 gradients, expected 1"),
    ];
    for (back, message) in cases {
        let text = report(sin, back, &x, &Options::default()).to_string();
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn a_gradient_that_is_not_finite_is_reported_with_its_place() {
    let back: Pull = |grad, _| Ok(vec![grad.full_like(f64::NAN)?]);
    let text = report(sin, back, &points(2), &Options::default()).to_string();
    assert!(text.contains("the gradient is NaN at input 0[0]"), "{text}");
}

#[test]
fn differences_too_inaccurate_to_tell_do_not_confirm_a_gradient() {
    let f: fn(&Tensor) -> Result<Tensor> = |x| add(x, &tensor(1e10));
    let back: Pull = |grad, _| Ok(vec![multiply(grad, &tensor(1.0 + 1e-6))?]);
    let report = report(f, back, &points(3), &Options::default());
    let text = report.to_string();
    assert!(matches!(report.problem, Some(Problem::Unresolved { .. })), "{text}");
    assert!(text.contains("a V: truncation above"), "{text}");
}

#[test]
fn reduced_precisions_are_judged_against_f64_on_the_same_inputs() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let x = cast(&points(30), dtype).unwrap();
        let right = report(sin, sin_right, &x, &Options::default());
        assert!(right.passed(), "{right}");
        assert_eq!(right.dtype, dtype);
        let percent: Pull = |grad, x| {
            let wrong = Tensor::scalar_of(1.03, grad.dtype())?;
            Ok(vec![multiply(&sin_backward(grad, &x[0])?, &wrong)?])
        };
        let wrong = report(sin, percent, &x, &Options::default());
        assert!(matches!(wrong.problem, Some(Problem::Wrong { .. })), "{wrong}");
    }
}

#[test]
fn a_forward_function_that_is_off_in_f32_is_found() {
    let f: fn(&Tensor) -> Result<Tensor> = |x| match x.dtype() {
        DType::F64 => sin(x),
        _ => multiply(&sin(x)?, &Tensor::scalar_of(1.01, x.dtype())?),
    };
    let x = cast(&points(5), DType::F32).unwrap();
    let report = report(f, sin_right, &x, &Options::default());
    assert!(matches!(report.problem, Some(Problem::Forward { .. })), "{report}");
}

#[test]
fn differences_in_the_inputs_own_dtype_are_there_on_request() {
    let options = Options { own_dtype: true, ..Options::default() };
    let x = cast(&tensor([0.3, 0.9, -1.2]), DType::F32).unwrap();
    let right = report(sin, sin_right, &x, &options);
    assert!(right.passed(), "{right}");
    let back: Pull = |grad, x| {
        let wrong = Tensor::scalar_of(1.01, grad.dtype())?;
        Ok(vec![multiply(&sin_backward(grad, &x[0])?, &wrong)?])
    };
    assert!(!report(sin, back, &x, &options).passed());
}

#[test]
fn large_inputs_are_checked_by_projection_which_catches_a_percent() {
    let x = points(100_000);
    let right = report(sin, sin_right, &x, &Options::default());
    assert_eq!(right.mode, Mode::Fast);
    assert!(right.passed() && right.checked == 3, "{right}");
    let percent: Pull = |grad, x| Ok(vec![multiply(&sin_backward(grad, &x[0])?, &tensor(1.01))?]);
    let wrong = report(sin, percent, &x, &Options::default());
    // What the directions found is then looked for among the elements.
    assert_eq!(wrong.mode, Mode::Fast);
    assert!(wrong.to_string().contains("off by a constant factor 1.01 everywhere"), "{wrong}");
}

#[test]
fn a_projection_over_many_kinks_is_resolved() {
    let back: Pull = |grad, x| Ok(vec![abs_backward(grad, &x[0])?]);
    let report = report(abs, back, &points(20_000), &Options::default());
    assert!(report.passed(), "{report}");
}

#[test]
fn the_taylor_slope_is_two_infinite_for_affine_functions_and_one_for_wrong_gradients() {
    let slope = |f: fn(&Tensor) -> Result<Tensor>, back: Pull, rtol: f64| {
        let options = Options { rtol: Some(rtol), ..Options::default() };
        report(f, back, &points(8), &options)
    };
    let right = slope(sin, sin_right, 1e-7);
    assert!((right.taylor.unwrap() - 2.0).abs() < 0.1);
    let affine: Pull = |grad, _| Ok(vec![negate(grad)?]);
    assert_eq!(slope(negate, affine, 1e-7).taylor, Some(f64::INFINITY));
    // A tolerance that lets a wrong gradient pass the comparison does not fool the slope.
    let wrong: Pull = |grad, x| Ok(vec![multiply(&sin_backward(grad, &x[0])?, &tensor(1.01))?]);
    let report = slope(sin, wrong, 0.5);
    assert!(matches!(report.problem, Some(Problem::Taylor { slope }) if slope < 1.2), "{report}");
}

#[test]
fn inputs_that_are_indices_are_left_alone() {
    let inputs = [points(5), tensor([4i64, 0, 4])];
    let report = check_gradient(
        |x| take(&x[0], &x[1], 0),
        |grad, x| {
            let grad = take_backward(grad, &x[1], x[0].shape(), 0)?;
            Ok(vec![grad])
        },
        &inputs,
        &Options::named("take"),
    )
    .unwrap();
    assert!(report.passed() && report.checked == 5, "{report}");
}

#[test]
fn an_integer_function_cannot_be_checked_and_says_so() {
    let f: fn(&[Tensor]) -> Result<Tensor> = |x| isnan(&x[0]);
    let error = check_gradient(f, |_, _| Ok(vec![]), &[points(2)], &Options::named("isnan"));
    let text = error.unwrap_err().to_string();
    assert_eq!(text, "isnan: its output has dtype bool, which has no derivative");
    let error = check_gradient(f, |_, _| Ok(vec![]), &[tensor([1, 2])], &Options::default());
    assert!(error.unwrap_err().to_string().contains("nothing to differentiate by"));
}

#[test]
fn numerical_gradients_are_those_of_calculus_and_leave_their_input_alone() {
    let x = points(10);
    let before = x.to_vec::<f64>().unwrap();
    let options = Options::default();
    let found = numerical_gradient(|x| exp(&x[0]), std::slice::from_ref(&x), &options).unwrap();
    assert_eq!(x.to_vec::<f64>().unwrap(), before);
    let want = multiply(&found.cotangent, &exp(&x).unwrap()).unwrap();
    assert!(found.gradients[0].allclose(&want, Tolerance::new(1e-8, 1e-10)));
    let weights = found.cotangent.to_vec::<f64>().unwrap();
    assert!(weights.iter().all(|w| (0.5..1.5).contains(&w.abs())));
    assert!(weights.iter().any(|w| *w != weights[0]));
}

#[test]
fn size_0_and_0_d_inputs_can_be_checked() {
    for x in [tensor(0.7), Tensor::zeros([0, 3], DType::F64).unwrap()] {
        let report = report(sin, sin_right, &x, &Options::default());
        assert!(report.passed() && report.checked == x.len(), "{report}");
    }
}

#[test]
fn assert_gradients_close_panics_at_the_callers_line_with_the_report() {
    thread_local!(static LINE: Cell<u32> = const { Cell::new(0) });
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        LINE.set(info.location().map_or(0, |l| l.line()));
        hook(info);
    }));
    let wrong: Pull = |grad, _| Ok(vec![grad.clone()]);
    let line = line!() + 2;
    let attempt = std::panic::catch_unwind(|| {
        assert_gradients_close(|x| sin(&x[0]), wrong, &[points(2)], &Options::named("sin"));
    });
    let text = *attempt.unwrap_err().downcast::<String>().unwrap();
    assert!(text.starts_with("sin: WRONG GRADIENT"), "{text}");
    assert_eq!(LINE.get(), line);
}

#[test]
fn a_plan_that_would_check_nothing_is_an_error() {
    let records = |plan: Plan| plan.records().map(|r| r.len());
    let named = |filter: &str| Plan { filter: filter.into(), ..Plan::default() };
    assert_eq!(records(named("exp")), Ok(1));
    assert!(records(named("log*")).unwrap() >= 4);
    assert!(matches!(records(named("expp")), Err(Error::UnknownOperation { .. })));
    let order = Plan { order: 3, ..Plan::default() };
    assert!(records(order).unwrap_err().to_string().contains("order 3 is not available"));
    let none = Plan { dtypes: vec![], ..Plan::default() };
    assert!(records(none).is_err());
}

/// `sin`, with something wrong beside its derivative.
#[derive(Clone, Debug)]
struct Flawed(Flaw);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    DependsOnLayout,
    Forgetful,
    LiesAboutItsShape,
    Panics,
}

impl Operation for Flawed {
    fn record(&self) -> &'static Record {
        catalogue::find("tan").unwrap()
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let mut specs = self.record().operation(&params::Params::new())?.infer(inputs)?;
        if self.0 == Flaw::LiesAboutItsShape {
            specs[0].dtype = DType::F32;
        }
        Ok(specs)
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        let y = tan(inputs[0])?;
        Ok(Outputs::from_vec(vec![match self.0 {
            Flaw::DependsOnLayout if !inputs[0].is_contiguous() => {
                add(&y, &Tensor::scalar_of(1.0, y.dtype())?)?
            }
            Flaw::Panics if y.is_empty() => panic!("no elements"),
            _ => y,
        }]))
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        // The record says that the output is all that is needed.
        let y = match self.0 {
            Flaw::Forgetful => tan(call.inputs[0])?,
            _ => call.output().clone(),
        };
        call.one(|| tan_backward(call.grad(), &y))
    }
}

#[test]
fn the_suite_sees_what_differences_cannot() {
    let record = catalogue::find("tan").unwrap();
    let kinds = |flaw: Flaw| {
        let outcome = examine(record, &Plan::default(), &|_| Ok(Box::new(Flawed(flaw))));
        assert!(!outcome.passed());
        let kinds = outcome.failures.iter().map(|f| f.kind);
        kinds.collect::<Vec<_>>()
    };
    assert!(kinds(Flaw::DependsOnLayout).contains(&"arrangements"));
    assert!(kinds(Flaw::Forgetful).contains(&"needs"));
    assert!(kinds(Flaw::LiesAboutItsShape).contains(&"runs"));
    assert!(kinds(Flaw::Panics).contains(&"runs"));
}

#[test]
fn a_rule_that_reads_what_it_said_it_does_not_need_gets_nan_however_small_the_tensor() {
    for count in [1, 3, 1000] {
        let gradient = |flaw| {
            let f = |x: &Tensor| sum(&operation::apply(&Flawed(flaw), &[x])?[0], ..);
            autodiff::grad(f, &points(count)).unwrap().to_f64_vec()
        };
        assert!(gradient(Flaw::Forgetful).iter().all(|g| g.is_nan()));
        assert!(gradient(Flaw::DependsOnLayout).iter().all(|g| g.is_finite()));
    }
}

#[test]
fn samples_depend_on_the_seed_and_on_nothing_else() {
    let record = catalogue::find("exp").unwrap();
    let values = |seed| suite::samples(record, seed)[1].inputs[0].to_f64_vec();
    assert_eq!(values(1), values(1));
    assert_ne!(values(1), values(2));
}
